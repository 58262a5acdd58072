//! The plans that come with fathom: each can be read, and has the cells that its text promises.
#![expect(clippy::expect_used, reason = "a test's panic is its report")]

use fathom_model::plan::Plan;
use fathom_plan::{Given, ReadyPlan, Unchecked, cells, fill_file, order, read, ready, ready_named};

/// What each of them is given here, beside its defaults.
fn given(plan: &ReadyPlan) -> Given {
    let mut given = Given::default();
    for parameter in &plan.parameters {
        match parameter.name.as_str() {
            "target" => given.target = Some("/srv/data".into()),
            "devices" => {
                let disks = ["/dev/sdb", "/dev/sdc", "/dev/sdd", "/dev/sde"];
                let count = match plan.name {
                    "chunk" | "member-order" => 4,
                    "shared-journal" => 3,
                    _ => 1,
                };
                given.devices = disks[..count].iter().map(|disk| (*disk).to_owned()).collect();
            }
            "figure" => {
                given.others.insert("figure".into(), "rate: {}".into());
            }
            name if parameter.default.is_none() => {
                given.others.insert(name.into(), format!("/dev/{name}"));
            }
            _ => {}
        }
    }
    given
}

fn plan(name: &str) -> Plan {
    let ready = ready_named(name).expect("known");
    let text = ready.fill(&given(&ready)).expect("filled");
    read(&text, name, &Unchecked).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_one_can_be_read_and_has_its_cells() {
    let counts: Vec<(&str, usize, usize)> = ready()
        .iter()
        .map(|ready| {
            let plan = plan(ready.name);
            assert_eq!(plan.name, ready.name);
            assert!(plan.question.ends_with('?'), "{}", plan.question);
            assert!(ready.text.contains(&format!("fathom lab {}", ready.name)), "{}", ready.name);
            let cells = cells(&plan).expect("cells");
            let impossible = cells.iter().filter(|cell| cell.impossible.is_some()).count();
            assert!(!order(&plan, &cells, 1, 0..1).is_empty());
            (ready.name, cells.len(), impossible)
        })
        .collect();
    let expected = [
        ("scheduler", 4, 0),
        ("read-ahead", 9, 0),
        ("read-ahead-mixed", 7, 0),
        ("queue", 12, 0),
        ("block-size-threads", 42, 0),
        ("start-end", 5, 0),
        ("io-classes", 12, 0),
        ("io-levels", 6, 0),
        ("mount-options", 10, 0),
        ("filesystem-grid", 72, 0),
        ("raw-lvm-filesystem", 8, 0),
        ("chunk", 6, 0),
        ("member-order", 4, 0),
        ("shared-journal", 2, 0),
        ("application", 4, 0),
        ("in-use", 3, 0),
    ];
    assert_eq!(counts, expected);
}

#[test]
fn the_grid_has_every_combination_once() {
    let plan = plan("filesystem-grid");
    let cells = cells(&plan).expect("cells");
    let mut names: Vec<String> = cells.iter().map(fathom_model::plan::cell::Cell::name).collect();
    assert!(names.contains(
        &"scheduler=bfq data=journal atime=strictatime journal=/dev/ram barrier=off".to_owned()
    ));
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 72);
    let options = |name: &str| {
        let cell = cells.iter().find(|cell| cell.name() == name).expect(name);
        cell.setup.filesystem.clone().expect("ext4")
    };
    let cell = options("scheduler=bfq data=journal atime=strictatime journal=/dev/ram barrier=off");
    assert_eq!(cell.mount_options, ["data=journal", "strictatime", "nobarrier"]);
    assert_eq!(cell.journal.as_deref(), Some("/dev/ram"));
}

#[test]
fn pairs_of_classes_are_each_there_once() {
    let cells = cells(&plan("io-classes")).expect("cells");
    let pairs: Vec<String> = cells[..6]
        .iter()
        .map(|cell| format!("{}+{}", cell.levels[1].1, cell.levels[2].1))
        .collect();
    let expected = ["be/4+be/4", "be/4+idle", "rt/4+be/4", "rt/4+rt/4", "rt/4+idle", "idle+idle"];
    assert_eq!(pairs, expected);
}

#[test]
fn parameters_are_asked_for_and_known() {
    let scheduler = ready_named("scheduler").expect("known");
    assert_eq!(scheduler.usage(), "fathom lab scheduler TARGET [duration=60s]");
    let none = scheduler.fill(&Given::default()).expect_err("no target").to_string();
    assert_eq!(none, "plan 'scheduler': needs TARGET: directory or block device to measure");
    let mut wrong = Given { target: Some("/srv".into()), ..Given::default() };
    wrong.others.insert("duratoin".into(), "10s".into());
    let error = scheduler.fill(&wrong).expect_err("unknown").to_string();
    assert_eq!(
        error,
        "plan 'scheduler': takes no duratoin; did you mean 'duration'?; it takes target, duration"
    );
    let devices = Given { devices: vec!["/dev/sdb".into()], ..Given::default() };
    let error = scheduler.fill(&devices).expect_err("no devices").to_string();
    assert!(error.contains("takes no --device"), "{error}");
    let unknown = ready_named("schedular").expect_err("unknown").to_string();
    assert!(unknown.contains("did you mean 'scheduler'?"), "{unknown}");
    // What people type is text, whatever is in it.
    let odd = Given { target: Some("/srv/a \"b\" \\c".into()), ..Given::default() };
    let plan = read(&scheduler.fill(&odd).expect("filled"), "x", &Unchecked).expect("valid");
    assert_eq!(plan.target.as_deref(), Some("/srv/a \"b\" \\c"));
    // The same from a file that --print made: its defaults stand in it.
    let target = Given { target: Some("/srv".into()), ..Given::default() };
    let filled = fill_file("mine.toml", scheduler.text, &target).expect("filled");
    assert_eq!(filled, scheduler.fill(&target).expect("filled"));
    let open = fill_file("mine.toml", scheduler.text, &Given::default()).expect("as far as known");
    let error = read(&open, "x", &Unchecked).expect_err("an open place").to_string();
    assert!(error.contains("'target' is still to be filled in"), "{error}");
    let by_hand = scheduler.text.replace("\"<duration>\"", "\"5s\"");
    let filled = fill_file("mine.toml", &by_hand, &target).expect("filled");
    assert!(filled.contains("duration = \"5s\""), "{filled}");
    // What is given has to go somewhere.
    let mut both = target.clone();
    both.others.insert("duration".into(), "60s".into());
    let error = fill_file("mine.toml", &by_hand, &both).expect_err("no place").to_string();
    assert!(
        error.contains("mine.toml") && error.contains("duration has no place in it"),
        "{error}"
    );
    let read_ahead = ready_named("chunk").expect("known").text;
    let by_hand = read_ahead.replace("\"<devices>\"", "[\"/dev/sdb\"]");
    let devices = Given { devices: vec!["/dev/sdc".into()], ..Given::default() };
    let error = fill_file("mine.toml", &by_hand, &devices).expect_err("no place").to_string();
    assert!(error.contains("--device has no place in it"), "{error}");
    // Four orders of four members need four.
    let order = ready_named("member-order").expect("known");
    let three = Given { devices: vec!["/dev/sdb".into(); 3], ..Given::default() };
    let error = order.fill(&three).expect_err("too few").to_string();
    assert!(error.contains("takes 4 devices, each with --device; given are 3"), "{error}");
    // A file that is taken as it is has places to be filled in.
    let error = read(scheduler.text, "x", &Unchecked).expect_err("open places").to_string();
    assert!(error.contains("'target' is still to be filled in"), "{error}");
}

/// With data=journal the kernel refuses the word delalloc, which is the default otherwise.
#[test]
fn delayed_allocation_and_data_journal_are_never_asked_for_together() {
    let options = |cell: &fathom_model::plan::cell::Cell| {
        cell.setup.filesystem.as_ref().map(|fs| fs.mount_options.clone()).unwrap_or_default()
    };
    let cells = cells(&plan("mount-options")).expect("cells");
    let with_journal: Vec<Vec<String>> =
        cells.iter().map(options).filter(|all| all.contains(&"data=journal".to_owned())).collect();
    assert_eq!(with_journal.len(), 1);
    assert!(with_journal[0].iter().all(|option| !option.contains("delalloc")), "{with_journal:?}");
    // Whatever the order in the plan; what asks for more than the kernel does is n/a.
    let text = "question = \"Which?\"\n[[workload]]\nuse = \"randread\"\n[setup]\ndevices = [\"loop:1G\"]\nfilesystem = \"ext4\"\n\
        [factors]\nmount.delalloc = [\"on\", \"off\"]\nmount.data = [\"ordered\", \"journal\"]\n";
    let plan = read(text, "delalloc", &Unchecked).expect("read");
    let cells = fathom_plan::cells(&plan).expect("cells");
    let impossible: Vec<(String, &str)> =
        cells.iter().filter_map(|cell| Some((cell.name(), cell.impossible.as_deref()?))).collect();
    assert_eq!(
        impossible,
        [(
            "delalloc=off data=journal".to_owned(),
            "data=journal turns delayed allocation off by itself; measured once, with the first level"
        )]
    );
}

/// Whole seconds are given as they are shown, as any time, or as a bare number: the experiment is the same.
#[test]
fn seconds_are_given_with_their_unit_or_without() {
    let ready = ready_named("in-use").expect("known");
    let filled = |words: &[(&str, &str)]| {
        let others = words.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let given =
            Given { target: Some("/srv".into()), others: others.collect(), ..Given::default() };
        ready.fill(&given)
    };
    let usual = filled(&[]).expect("filled");
    assert!(usual.contains("shortest = \"30\"") && usual.contains("longest = \"3629\""), "{usual}");
    for words in
        [[("shortest", "30"), ("longest", "3629")], [("shortest", "30s"), ("longest", "3629s")]]
    {
        assert_eq!(filled(&words).as_ref(), Ok(&usual), "{words:?}");
    }
    assert!(filled(&[("longest", "2m")]).expect("filled").contains("longest = \"120\""));
    for wrong in ["30ss", "1500ms", "", "-3", "soon", "0", "00", "0s"] {
        let error = filled(&[("shortest", wrong)]).expect_err(wrong).to_string();
        let told =
            format!("shortest={wrong}: takes whole seconds, from 1 on, such as 30, 30s or 2m");
        assert!(error.contains(&told), "{error}");
    }
    assert!(ready.usage().contains(" [shortest=30s]"), "{}", ready.usage());
}
