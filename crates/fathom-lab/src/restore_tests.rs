//! In which order what a killed experiment left is put back.

use super::*;
use fathom_model::change::FileAt;
use fathom_model::change::knob::{KnobAt, KnobChange, KnobPlace, KnobValue};
use fathom_model::plan::OwnKnob;
use fathom_sys::child::{Output, Program};
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

/// As a start does it, with nothing to be removed.
fn restore_all(root: &SysRoot, dir: &Path, force: bool) -> Vec<Report> {
    let mut note = |_: &str| ();
    let wait = &mut Wait::to_the_end(&mut note);
    restore_dead(root, dir, force, &Faults::none(), &mut || (), wait)
}

/// What stands in a journal that is not read nobody knows.
#[test]
fn a_journal_that_is_not_read_is_no_change() {
    let mut reports = vec![unreadable("the journal x", "it belongs to user 0".into())];
    assert_eq!(summary(&reports), "nothing was put back; what 1 journal says is not done");
    let outcome = Outcome::Failed("away".into());
    reports.push(Report { run_id: "a".into(), what: "x".into(), outcome });
    let both = "0 of 1 changes are back as before; what 1 journal says is not done";
    assert_eq!(summary(&reports), both);
}

#[test]
fn programs_end_before_test_files_are_removed() {
    let dir = tempfile::tempdir().expect("directory");
    let root = SysRoot::live();
    let mut log = ChangeLog::create(&root, dir.path(), "run", Faults::none()).expect("is made");
    let program = |pid, start_time_ticks| {
        let command = "sleep".to_owned();
        Change::Machine(MachineChange::Program { command, pid, start_time_ticks })
    };
    let step = log.intend(program(0, 0)).expect("is noted");
    let words = ["sleep", "600"].map(OsString::from);
    let mark = log.program_mark(step);
    let mut sleeper = Program::start(&root, &words, dir.path(), Output::default(), &mark)
        .expect("sleep is started");
    log.made(step, program(sleeper.pid, sleeper.start_time_ticks)).expect("is noted");
    // Its owner is a process that had the number of this one.
    let (path, start) = (log.path().to_owned(), log.owner().start_time_ticks);
    drop(log);
    let text = fs::read_to_string(&path).expect("is there");
    let own = format!("\"start_time_ticks\":{start}");
    assert_eq!(text.matches(&own).count(), 1, "{text}");
    fs::write(&path, text.replace(&own, "\"start_time_ticks\":1")).expect("is written");
    let mut had_ended = None;
    let mut remove_files = || had_ended = Some(sleeper.ended().expect("is asked").is_some());
    let reports = restore_dead(
        &root,
        dir.path(),
        false,
        &Faults::none(),
        &mut remove_files,
        &mut Wait::to_the_end(&mut |_| ()),
    );
    assert_eq!(had_ended, Some(true), "{reports:?}");
    let [report] = reports.as_slice() else { panic!("{reports:?}") };
    assert_eq!((report.what.as_str(), &report.outcome), ("program sleep", &Outcome::Restored));
    assert!(!path.exists());
}

/// A journal with a program that does not run any more, and the process namespace of who wrote it.
fn a_program_that_has_ended(root: &SysRoot, dir: &Path) -> (PathBuf, String) {
    let mut log = ChangeLog::create(root, dir, "run", Faults::none()).expect("is made");
    let command = "sleep".to_owned();
    let program = MachineChange::Program { command, pid: 0, start_time_ticks: 0 };
    log.intend(Change::Machine(program)).expect("is noted");
    (log.path().to_owned(), log.owner().pid_namespace.clone())
}

/// Of a process namespace in which no process is left, on the root directory that this process has: as of every dead process.
#[test]
fn what_a_namespace_left_is_put_back() {
    let dir = tempfile::tempdir().expect("directory");
    let root = SysRoot::live();
    let (path, own) = a_program_that_has_ended(&root, dir.path());
    let text = fs::read_to_string(&path).expect("is there");
    fs::write(&path, text.replace(&own, "pid:[1]")).expect("is written");
    let reports = restore_all(&root, dir.path(), false);
    let is_seen = fathom_sys::openers::blindness(&root).is_none();
    assert_eq!((reports[0].outcome.is_done(), !path.exists()), (is_seen, is_seen), "{reports:?}");
}

/// A journal as of a process with another root directory, in a mount namespace that is gone.
fn of_a_container(text: &str) -> String {
    let own = Owner::current(&SysRoot::live()).expect("an owner");
    assert!(text.contains(&own.mount_namespace) && text.contains(&format!("\"{}\"", own.root)));
    text.replace(&own.mount_namespace, "mnt:[1]").replace(&format!("\"{}\"", own.root), "\"1:1\"")
}

/// A setting of the user's own.
fn mine(read: String, write: String) -> OwnKnob {
    OwnKnob { name: "mine".to_owned(), read, write, values: Vec::new(), needs_setup: false }
}

/// What is known by paths and names that meant something else there is neither touched nor taken for put back: it is told until its owner says
/// that it may be forgotten.
#[test]
fn what_meant_something_else_there_is_told_until_it_is_forgotten() {
    let dir = tempfile::tempdir().expect("directory");
    let root = SysRoot::live();
    let mut log = ChangeLog::create(&root, dir.path(), "run", Faults::none()).expect("is made");
    let here = dir.path().join("here");
    fs::create_dir(&here).expect("is made");
    let at = fathom_guard::file_at::note(&root, &here);
    let away = at.clone().map(|at| FileAt { device: "4095:1".to_owned(), ..at });
    let touch = format!("touch {}/was-run", dir.path().display());
    let own = mine(format!("{touch}; echo 2"), touch);
    let value = KnobValue { knob: "own.mine".to_owned(), value: "1".to_owned(), file: None };
    let knob = KnobChange {
        place: KnobPlace::Own { name: "mine".to_owned() },
        before: vec![value],
        left: vec![],
        asked: vec![],
        boot_id: String::new(),
        own: Some(own),
        at: KnobAt::default(),
    };
    let elsewhere = dir.path().join("no/such/dir");
    // An older journal has paths alone.
    let of_old = SetupChange::LoopFile { path: elsewhere.clone(), size_bytes: 1, at: None };
    let area = "/no/such/area".into();
    let all = [
        Change::Knobs(knob),
        Change::Setup(of_old),
        Change::Setup(SetupChange::Directory { path: here.clone(), at: away.clone() }),
        Change::Setup(SetupChange::Directory { path: elsewhere, at }),
        Change::Machine(MachineChange::ServiceStopped { unit: "no-such.service".to_owned() }),
        Change::Machine(MachineChange::SwapOff {
            area,
            priority: 1,
            discard: None,
            uuid: None,
            at: away,
        }),
    ];
    for change in all {
        let step = log.intend(change.clone()).expect("is noted");
        log.made(step, change).expect("is noted");
    }
    let (path, start) = (log.path().to_owned(), log.owner().start_time_ticks);
    drop(log);
    let text = fs::read_to_string(&path).expect("is there");
    let dead = text.replace(&format!("\"start_time_ticks\":{start}"), "\"start_time_ticks\":1");
    fs::write(&path, of_a_container(&dead)).expect("is written");
    let restore = |force: bool| {
        // As if the process that tried before were gone.
        let text = fs::read_to_string(&path).expect("is there");
        let gone = format!("\"start_time_ticks\":{start}");
        fs::write(&path, text.replace(&gone, "\"start_time_ticks\":2")).expect("is written");
        restore_all(&root, dir.path(), force)
    };
    let are_told = |reports: &[Report], count: usize| {
        let told = reports.iter().filter(|r| matches!(r.outcome, Outcome::NotHere(_)));
        told.filter(|report| report.to_string().contains("fathom restore --force")).count() == count
    };
    // Also by force: nobody was told before.
    let first = restore(true);
    assert!(first.len() == 6 && are_told(&first, 5), "{first:?}");
    let found: Vec<&Report> = first.iter().filter(|r| r.outcome == Outcome::Restored).collect();
    assert!(found.len() == 1 && !here.exists(), "by what it is: {first:?}");
    let again = restore(false);
    assert!(again.len() == 5 && are_told(&again, 5) && path.exists(), "{again:?}");
    let forgotten = restore(true);
    assert!(are_told(&forgotten, 0) && !path.exists(), "{forgotten:?}");
    assert!(forgotten.iter().all(|r| r.to_string().ends_with("forgotten")), "{forgotten:?}");
    assert_eq!(summary(&forgotten), "0 of 5 changes are back as before");
    assert!(!dir.path().join("was-run").exists(), "no command is run");
}

/// Made in a container that was killed: nobody here can tell whether it runs, until no process is left in its namespace; and no log is
/// passed over in silence.
#[test]
fn what_a_container_left_is_told_and_put_back_when_it_is_gone() {
    let dir = tempfile::tempdir().expect("directory");
    let root = SysRoot::live();
    let (path, own) = a_program_that_has_ended(&root, dir.path());
    let text = fs::read_to_string(&path).expect("is there");
    assert_eq!(text.matches(&own).count(), 1, "{text}");
    let text = of_a_container(&text);
    fs::write(&path, text.replace(&own, "pid:[1]")).expect("is written");
    let restore = |force: bool| restore_all(&root, dir.path(), force);
    let reports = restore(false);
    let [report] = reports.as_slice() else { panic!("{reports:?}") };
    assert!(matches!(&report.outcome, Outcome::Elsewhere(_)), "{report:?}");
    assert!(report.to_string().contains("fathom restore --force"), "{report}");
    assert_eq!(summary(&reports), "0 of 1 changes are back as before");
    let listed = pending(&root, dir.path()).expect("is read");
    assert!(listed[0].what.contains("container") && !listed[0].is_running, "{listed:?}");
    let reports = restore(true);
    if fathom_sys::openers::blindness(&root).is_some() {
        assert!(matches!(&reports[0].outcome, Outcome::Elsewhere(_)), "{reports:?}");
        return;
    }
    assert!(reports[0].outcome.is_done() && !path.exists(), "{reports:?}");
    // Of another machine: said, and never touched.
    fs::write(
        &path,
        text.replace(&own, "pid:[1]")
            .replace("\"boot_id\":\"", "\"boot_id\":\"x")
            .replace("\"machine\":\"", "\"machine\":\"x"),
    )
    .expect("is written");
    assert_eq!(restore(true)[0].outcome, Outcome::OtherMachine);
    assert!(path.exists());
}

/// What others may write to is not believed, and so nobody knows what is still in force.
#[test]
fn journals_that_are_not_read_are_listed() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("directory");
    let root = SysRoot::live();
    let log = ChangeLog::create(&root, dir.path(), "run", Faults::none()).expect("is made");
    fs::set_permissions(log.path(), fs::Permissions::from_mode(0o666)).expect("is set");
    let listed = pending(&root, dir.path()).expect("is read");
    let [one] = listed.as_slice() else { panic!("{listed:?}") };
    assert!(
        one.what.contains("others may write to it") && one.what.contains("chmod 600"),
        "{one:?}"
    );
}

/// On a tree of two groups of processors: one is set and put back, what somebody has set since stays.
#[test]
fn governors_come_back_unless_somebody_has_set_them() {
    const DIR: &str = "sys/devices/system/cpu/cpufreq";
    let tree = fathom_testkit::Tree::new();
    for (policy, governor) in [("policy0", "powersave"), ("policy4", "schedutil")] {
        tree.put(format!("{DIR}/{policy}/scaling_governor"), governor);
        let all = "performance powersave schedutil";
        tree.put(format!("{DIR}/{policy}/scaling_available_governors"), all);
    }
    tree.put("proc/sys/kernel/random/boot_id", "here");
    let root = tree.root();
    let now = || ["policy0", "policy4"].map(|p| root.text(format!("{DIR}/{p}/scaling_governor")));
    let words = |all: [&str; 2]| all.map(|word| Some(word.to_owned()));
    let dir = tempfile::tempdir().expect("directory");
    let mut log =
        ChangeLog::create(&SysRoot::live(), dir.path(), "run", Faults::none()).expect("is made");
    let plan = "question = \"Which?\"\ntarget = \"null:\"\n[[workload]]\nuse = \"randread\"\n[prepare]\ngovernor = \"performance\"\n";
    let mut prepare =
        fathom_plan::read(plan, "plan", &fathom_plan::Unchecked).expect("a plan").prepare;
    let set = |log: &mut ChangeLog, prepare: &fathom_model::plan::Prepare| {
        machine::prepare(&root, log, prepare, &mut |_| ())
    };
    set(&mut log, &prepare).expect("is set");
    assert_eq!(now(), words(["performance", "performance"]));
    let back = |log: &mut ChangeLog, force: bool| {
        let pending = log.pending();
        let Change::Machine(change) = &pending[0].change else { panic!("{pending:?}") };
        machine::undo(&root, log, pending[0].step, change, (force, true))
    };
    let drift = || machine::drift(&root, &prepare);
    assert_eq!(drift(), None);
    assert_eq!(back(&mut log, false), Outcome::Restored);
    assert_eq!(now(), words(["powersave", "schedutil"]));
    set(&mut log, &prepare).expect("is set");
    tree.put(format!("{DIR}/policy4/scaling_governor"), "powersave");
    let seen = drift().expect("it is seen");
    assert!(seen.contains("the governor of policy4 to powersave"), "{seen}");
    let kept = back(&mut log, false);
    assert!(
        matches!(&kept, Outcome::ChangedBySomebody(found)
            if found.contains("policy4 is powersave now") && found.ends_with("fathom restore --force")),
        "{kept:?}"
    );
    assert_eq!(now(), words(["powersave", "powersave"]));
    assert_eq!(log.pending().len(), 1, "it is still to be looked at");
    assert_eq!(back(&mut log, true), Outcome::Restored);
    assert_eq!(now(), words(["powersave", "schedutil"]));
    assert!(log.pending().is_empty());
    // Processors that are off come back with the governor that they had last.
    set(&mut log, &prepare).expect("is set");
    let file = root.path(format!("{DIR}/policy4/scaling_governor"));
    fs::remove_file(&file).expect("is removed");
    let away = back(&mut log, false);
    assert!(matches!(&away, Outcome::Away(what) if what.contains("policy4")), "{away:?}");
    assert_eq!(log.pending().len(), 1, "for when they are on again");
    fs::write(&file, "performance").expect("is written");
    assert_eq!(back(&mut log, false), Outcome::Restored);
    assert_eq!(now(), words(["powersave", "schedutil"]));
    prepare.governor = Some("userspace".to_owned());
    let refused = set(&mut log, &prepare).expect_err("unknown").to_string();
    assert!(refused.contains("policy0 has no 'userspace'; it has: performance"), "{refused}");
}

/// What lies in swap must fit into memory, and leave the floor of the plan: nothing is switched off otherwise.
#[test]
fn swap_that_does_not_fit_into_memory_stays_on() {
    let tree = fathom_testkit::Tree::new();
    let head = "Filename\tType\tSize\tUsed\tPriority";
    tree.put("proc/swaps", format!("{head}\n/no/such partition 4194304 2097152 -2\n"));
    tree.put("proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: 3145728 kB\n");
    let root = tree.root();
    let areas = fathom_sys::swap::areas(&root);
    let fits = |floor: Option<u64>| machine::fits_in_memory(&root, &areas, floor);
    assert!(fits(None).is_ok() && fits(Some(1 << 30)).is_ok());
    let refused = fits(Some((1 << 30) + 1)).expect_err("too little is left").to_string();
    for part in ["2 GiB lie in swap", "3 GiB of memory are free", "memory_floor keeps 1.0 GiB"] {
        assert!(refused.contains(part), "{part} in: {refused}");
    }
    let dir = tempfile::tempdir().expect("directory");
    let mut log =
        ChangeLog::create(&SysRoot::live(), dir.path(), "run", Faults::none()).expect("is made");
    let plan = "question = \"Which?\"\ntarget = \"null:\"\n[[workload]]\nuse = \"randread\"\n[prepare]\nswap_off = true\nmemory_floor = \"2G\"\n";
    let prepare = fathom_plan::read(plan, "plan", &fathom_plan::Unchecked).expect("a plan").prepare;
    let refused = machine::prepare(&root, &mut log, &prepare, &mut |_| ()).expect_err("refused");
    assert!(refused.to_string().contains("lie in swap"), "{refused}");
    assert!(log.pending().is_empty(), "nothing was to be changed");
}

/// Of a swap area that is off its file can be renamed: it is found by what it is, and told as long as it is not.
#[test]
fn swap_is_looked_for_under_another_name_and_not_forgotten() {
    let dir = tempfile::tempdir().expect("directory");
    let root = SysRoot::live();
    let mut log = ChangeLog::create(&root, dir.path(), "run", Faults::none()).expect("is made");
    let [area, renamed] = ["swap", "swap.old"].map(|name| dir.path().join(name));
    // Not one that the kernel would take: its version is 0.
    let header = |byte: u8| {
        let mut page = vec![0; 4086];
        page[1036..1052].fill(byte);
        page.extend(b"SWAPSPACE2");
        page
    };
    fs::write(&area, header(0x11)).expect("is made");
    let at = fathom_guard::file_at::note(&root, &area);
    let uuid = Some("11111111-1111-1111-1111-111111111111".to_owned());
    let change =
        MachineChange::SwapOff { area: area.clone(), priority: 7, discard: None, uuid, at };
    let step = log.intend(Change::Machine(change.clone())).expect("is noted");
    let mut back = || machine::undo(&root, &mut log, step, &change, (false, true));
    let tried = |outcome: Outcome, path: &Path| {
        let Outcome::Failed(reason) = outcome else { panic!("{outcome:?}") };
        assert!(reason.contains(&format!("swapon {}", path.display())), "{reason}");
    };
    tried(back(), &area);
    fs::rename(&area, &renamed).expect("is renamed");
    tried(back(), &renamed);
    fs::write(&renamed, header(0x22)).expect("is written");
    let another = back();
    assert!(
        matches!(&another, Outcome::NotHere(what) if what.contains("another area")),
        "{another:?}"
    );
    fs::remove_file(&renamed).expect("is removed");
    let missing = back();
    assert!(
        matches!(&missing, Outcome::NotHere(what) if what.contains("priority 7")),
        "{missing:?}"
    );
    assert_eq!(log.pending().len(), 1, "it is not forgotten");
}

/// A value that cannot be read, as after a kill in the middle of its write command, is written back where only fathom has written
/// since; else its owner hears what it was and that force writes it.
#[test]
fn an_own_value_that_cannot_be_read_is_written_by_force() {
    let dir = tempfile::tempdir().expect("directory");
    let (root, file) = (SysRoot::live(), dir.path().join("value"));
    let restore = |left: &[&str], force: bool| {
        fs::write(&file, "").expect("is emptied");
        let value = |value: &str| {
            let value = value.to_owned();
            KnobValue { knob: "own.mine".to_owned(), value, file: None }
        };
        let write = format!("echo {{value}} > {}", file.display());
        let own = mine(format!("cat {}", file.display()), write);
        let change = Change::Knobs(KnobChange {
            place: KnobPlace::Own { name: "mine".to_owned() },
            before: vec![value("1")],
            left: left.iter().map(|left| value(left)).collect(),
            asked: vec![],
            boot_id: fathom_sys::process::boot_id(&root).unwrap_or_default(),
            own: Some(own),
            at: KnobAt::default(),
        });
        let mut log = ChangeLog::create(&root, dir.path(), "run", Faults::none()).expect("is made");
        let step = log.intend(change.clone()).expect("is noted");
        log.made(step, change).expect("is noted");
        let (path, start) = (log.path().to_owned(), log.owner().start_time_ticks);
        drop(log);
        let text = fs::read_to_string(&path).expect("is there");
        let [live, dead] = [start, 1].map(|ticks| format!("\"start_time_ticks\":{ticks}"));
        fs::write(&path, text.replace(&live, &dead)).expect("is written");
        let reports = restore_all(&root, dir.path(), force);
        fs::remove_file(&path).ok();
        (reports, fs::read_to_string(&file).expect("is there"))
    };
    let (told, text) = restore(&["2"], false);
    let words = "own.mine was 1, and fathom restore --force writes it";
    assert!(told[0].to_string().contains(words) && text.is_empty(), "{told:?}");
    let back = "1\n".to_owned();
    for (left, force) in [(&["2"][..], true), (&[], false)] {
        let (reports, text) = restore(left, force);
        assert_eq!((&reports[0].outcome, text), (&Outcome::Restored, back.clone()), "{reports:?}");
    }
}
