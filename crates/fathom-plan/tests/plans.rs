//! Plans as people write them, and what they mean: cells, constants, defaults; searches to their end; stored and read again.
#![expect(clippy::expect_used, reason = "a test's panic is its report")]

use fathom_model::plan::cell::Cell;
use fathom_model::plan::{DesignKind, FactorKind, Metric, OnError, Plan};
use fathom_plan::{Narrowed, Unchecked, aliases, cells, narrow, order, read, ready};

#[track_caller]
fn plan(text: &str) -> Plan {
    read(text, "/etc/fathom/my-plan.toml", &Unchecked).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn names(plan: &Plan) -> Vec<String> {
    cells(plan).expect("cells").iter().map(Cell::name).collect()
}

const SHORT: &str = r#"
question = "Which scheduler?"
target = "/srv/data"
[[workload]]
use = "randread"
[factors]
"block.scheduler" = ["none", "mq-deadline"]
"#;

/// As much as a plan file can say.
const LONG: &str = r#"
name = "everything"
version = 1
question = "What does it all come to?"
together = true
on_error = "continue"

[[workload]]
use = "randread"
label = "reader"
depth = 1
threads = 4

[[workload]]
use = "randwrite"
label = "writer"
offset = "50%"
depth = 8

[setup]
devices = ["/dev/sdb", "/dev/sdc", "3 x loop:1GiB"]
slice = { start = "10%", size = "8GiB" }
array = { level = "raid5", chunk = "64k", members = 4, spares = 1, bitmap = "internal", assume_clean = true }
crypt = { type = "luks2", cipher = "aes-xts-plain64", sector_size = 4096, no_workqueues = true }
volume = { type = "linear", size = "50%", data_alignment = "stride" }
mount = "noatime,commit=30"

[setup.filesystem]
type = "ext4"
make_options = ["-i 65536", "-O", "^has_journal"]
fill = "50%"
ageing_rounds = 3

[factors]
block.scheduler = ["none", "mq-deadline"]
workload.reader.block_size = ["4k", "16k"]
own.ncq = { name = "ncq", levels = [31, 1] }
companion = ["none", "memory"]

[knobs]
vm.swappiness = 10
"block.nr_requests@members" = 64

[[own_knob]]
name = "ncq"
read = "cat /sys/block/sdb/device/queue_depth"
write = "sh -c 'echo {value} > /sys/block/sdb/device/queue_depth'"
values = [1, 31]

[design]
kind = "full"
blocks = 18
sequential = false
sentinel = true
margin = "5%"
seed = 7
group_setups = false
rotate = true
baseline = { ncq = 1, block.scheduler = "mq-deadline" }
except = [{ scheduler = "none", companion = "memory" }]

[[objective]]
metric = "latency_p99"
workload = "reader"
bound = "20ms"

[[objective]]
metric = "rate"
workload = "writer"
bound = "100MB/s"

[prepare]
drop_caches = false
remount = true
settle = "2s"
quiet = "0"
quiet_wait = "1m"
swap_off = true
stop_services = ["cron", "fstrim.timer"]
memory_floor = "200M"
memory_limit = "2G"

[budget]
time = "8h"
written = "1TB"

[hypothesis]
text = "Sorting helps"
better = { scheduler = "mq-deadline" }
than = { scheduler = "none" }
by = "5%"
"#;

#[test]
fn the_short_form_and_what_holds_without_being_said() {
    let plan = plan(SHORT);
    assert_eq!(plan.name, "my-plan", "after the file");
    assert_eq!(names(&plan), ["scheduler=none", "scheduler=mq-deadline"]);
    let design = &plan.design;
    assert_eq!((design.kind, design.blocks, design.is_sequential), (DesignKind::Full, 12, true));
    assert!(!design.has_sentinel, "two cells: the baseline comes often enough");
    assert!(!design.groups_setups && !design.rotates_places);
    assert_eq!((design.margin, design.seed), (0.03, None));
    let metrics: Vec<Metric> = plan.objectives.iter().map(|objective| objective.metric).collect();
    assert_eq!(metrics, [Metric::Iops, Metric::LatencyP99], "rate and latency together");
    assert!(plan.prepare.drops_caches && !plan.prepare.swap_off);
    assert_eq!(plan.on_error, OnError::Stop);
    // Without quotation marks the dotted key means the same.
    let unquoted = SHORT.replace("\"block.scheduler\"", "block.scheduler");
    assert_eq!(self::plan(&unquoted), plan);
    assert_eq!(self::plan(&unquoted.replace("[factors]\nblock.", "[factors.block]\n")), plan);
}

#[test]
fn everything_is_read_as_it_is_written() {
    let plan = plan(LONG);
    assert_eq!(plan.name, "everything");
    assert!(plan.is_together && plan.on_error == OnError::Continue);
    assert_eq!(plan.setup.devices, ["/dev/sdb", "/dev/sdc", "loop:1GiB", "loop:1GiB", "loop:1GiB"]);
    let array = plan.setup.array.as_ref().expect("an array");
    assert_eq!((array.level.as_str(), array.chunk.as_deref()), ("raid5", Some("64k")));
    assert_eq!((array.members, array.spares, array.is_assumed_clean), (Some(4), 1, true));
    let filesystem = plan.setup.filesystem.as_ref().expect("a filesystem");
    assert_eq!(filesystem.make_options, ["-i", "65536", "-O", "^has_journal"]);
    assert_eq!(filesystem.mount_options, ["noatime", "commit=30"]);
    assert_eq!((filesystem.fill_percent, filesystem.ageing_rounds), (Some(50), Some(3)));
    assert_eq!(plan.knobs["block.nr_requests@members"], "64");
    assert_eq!(plan.prepare.stop_services, ["cron.service", "fstrim.timer"]);
    assert_eq!(plan.prepare.memory_limit_bytes, Some(2 << 30));
    assert_eq!(plan.objectives[0].bound, Some(20_000_000.0));
    assert_eq!(plan.objectives[1].bound, Some(100_000_000.0));
    assert_eq!(plan.budget.written_bytes, Some(1_000_000_000_000));
    let kinds: Vec<&FactorKind> = plan.factors.iter().map(|factor| &factor.sets).collect();
    let of_reader = FactorKind::Workload { key: "block_size".into(), label: Some("reader".into()) };
    assert_eq!(kinds[1], &of_reader);
    let cells = cells(&plan).expect("cells");
    assert_eq!(cells.len(), 16 - 4, "four are left out");
    assert_eq!(cells.iter().filter(|cell| cell.impossible.is_some()).count(), 0);
    let last = cells.last().expect("cells");
    assert_eq!(last.name(), "scheduler=mq-deadline block_size=16k ncq=1 companion=memory");
    assert_eq!(last.knobs["own.ncq"], "1");
    assert_eq!(last.knobs["vm.swappiness"], "10");
    assert_eq!(last.companion.as_deref(), Some("memory"));
    assert_eq!(last.workloads[0].settings["block_size"], "16k");
    assert!(!last.workloads[1].settings.contains_key("block_size"), "the writer's stays");
    let sentinel = order(&plan, &cells, 1, 0..1)[0];
    let name = cells.iter().find(|cell| cell.index == sentinel.cell).map(Cell::name);
    let expected = "scheduler=mq-deadline block_size=4k ncq=1 companion=none";
    assert!(sentinel.is_sentinel && name.as_deref() == Some(expected), "{name:?}");
}

#[test]
fn plans_are_the_same_after_they_were_stored() {
    let mut plans = vec![plan(SHORT), plan(LONG)];
    for ready in ready() {
        let text = ready
            .text
            .replace("\"<devices>\"", "[\"/dev/sdb\", \"/dev/sdc\", \"/dev/sdd\", \"/dev/sde\"]");
        let text = ready.parameters.iter().fold(text, |text, parameter| {
            let place = format!("\"<{}>\"", parameter.name);
            let value = match (&parameter.default, parameter.name.as_str()) {
                (Some(default), _) => default.clone(),
                (None, "figure") => "rate: {}".to_owned(),
                (None, name) => format!("/dev/{name}"),
            };
            text.replace(&place, &format!("\"{value}\""))
        });
        plans.push(plan(&text));
    }
    assert_eq!(plans.len(), 18);
    for plan in plans {
        let json = serde_json::to_string(&plan).expect("JSON");
        let again: Plan = serde_json::from_str(&json).expect("a plan");
        assert_eq!(again, plan);
        assert_eq!(cells(&again).expect("cells"), cells(&plan).expect("cells"));
        for cell in cells(&plan).expect("cells") {
            let json = serde_json::to_string(&cell).expect("JSON");
            assert_eq!(serde_json::from_str::<Cell>(&json).expect("a cell"), cell);
        }
    }
}

const SETUP: &str =
    "question = \"?\"\n[[workload]]\nuse = \"randread\"\n[setup]\ndevices = [\"4 x loop:1G\"]\n";

#[track_caller]
fn possible(more: &str) -> Vec<String> {
    let cells = cells(&plan(&format!("{SETUP}{more}"))).expect("cells");
    let word = |cell: &Cell| match &cell.impossible {
        None => cell.name(),
        Some(reason) => format!("{}: n/a, {reason}", cell.name()),
    };
    cells.iter().map(word).collect()
}

#[test]
fn combinations_that_cannot_exist_are_shown_with_their_reason() {
    assert_eq!(
        possible(
            "[factors]\nmount.data = [\"ordered\", \"journal\"]\nfilesystem = [\"ext4\", \"xfs\"]"
        ),
        [
            "data=ordered filesystem=ext4",
            "data=ordered filesystem=xfs",
            "data=journal filesystem=ext4",
            "data=journal filesystem=xfs: n/a, data is a mount option of ext4, ext3, not of xfs; measured once, with the first level",
        ]
    );
    assert_eq!(
        possible(
            "[factors]\nfilesystem = [\"ext4\", \"xfs\", \"none\"]\nmount.barrier = [\"on\", \"off\"]"
        ),
        [
            "filesystem=ext4 barrier=on",
            "filesystem=ext4 barrier=off",
            "filesystem=xfs barrier=on",
            "filesystem=xfs barrier=off: n/a, xfs has had no nobarrier since kernel 4.19: it always flushes",
            "filesystem=none barrier=on",
            "filesystem=none barrier=off: n/a, there is no filesystem, so mount.barrier means nothing; measured once, with the first level",
        ]
    );
    assert_eq!(
        possible(
            "[factors]\narray.level = [\"raid5\", \"raid10\"]\narray.layout = [\"left-symmetric\", \"n2\"]"
        ),
        [
            "level=raid5 layout=left-symmetric",
            "level=raid5 layout=n2: n/a, n2 is no layout of raid5",
            "level=raid10 layout=left-symmetric: n/a, left-symmetric is no layout of raid10",
            "level=raid10 layout=n2",
        ]
    );
    assert_eq!(
        possible(
            "[factors]\narray.level = [\"raid0\", \"raid6\"]\narray.state = [\"normal\", \"degraded\"]"
        ),
        [
            "level=raid0 state=normal",
            "level=raid0 state=degraded: n/a, raid0 has no redundancy and is never degraded",
            "level=raid6 state=normal",
            "level=raid6 state=degraded",
        ]
    );
    assert_eq!(
        possible("[factors]\narray.level = [\"raid5\", \"raid6\"]\narray.members = [3, 4]"),
        [
            "level=raid5 members=3",
            "level=raid5 members=4",
            "level=raid6 members=3: n/a, raid6 needs at least 4 members, and there are 3",
            "level=raid6 members=4",
        ]
    );
}

/// Where data begin is a factor like the chunk; what no array has is n/a.
#[test]
fn the_offset_of_data_is_a_factor() {
    let plan = plan(&format!(
        "{SETUP}array.level = \"raid5\"\n[factors]\narray.data_offset = [\"1025k\", \"64k\"]\narray.metadata = [\"1.2\", \"1.1\"]\narray.bitmap = [\"internal\", \"none\"]"
    ));
    let cells = cells(&plan).expect("cells");
    let of = |cell: &Cell| {
        let array = cell.setup.array.as_ref().expect("an array");
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        (text(&array.data_offset), text(&array.metadata), text(&array.bitmap))
    };
    let (possible, others): (Vec<&Cell>, Vec<&Cell>) =
        cells.iter().partition(|cell| cell.impossible.is_none());
    let mut possible: Vec<_> = possible.into_iter().map(of).collect();
    possible.sort();
    let words = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
    let six = [
        words("1025k", "1.1", "internal"),
        words("1025k", "1.1", "none"),
        words("1025k", "1.2", "internal"),
        words("1025k", "1.2", "none"),
        words("64k", "1.1", "none"),
        words("64k", "1.2", "none"),
    ];
    assert_eq!(possible, six);
    assert_eq!(others.len(), 2);
    for cell in others {
        let why = cell.impossible.as_deref().unwrap_or_default();
        assert!(why.contains("no room for a bitmap"), "{}: {why}", cell.name());
    }
}

#[test]
fn what_a_level_does_not_have_is_left_out_of_its_cells() {
    let plan = plan(&format!(
        "{SETUP}array = {{ chunk = \"64k\", bitmap = \"internal\" }}\n[factors]\narray.level = [\"raid1\", \"raid0\", \"raid5\", \"none\"]"
    ));
    let cells = cells(&plan).expect("cells");
    let chunks: Vec<Option<(Option<String>, Option<String>)>> = cells
        .iter()
        .map(|cell| cell.setup.array.clone().map(|array| (array.chunk, array.bitmap)))
        .collect();
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        chunks,
        [
            Some((None, text("internal"))),
            Some((text("64k"), None)),
            Some((text("64k"), text("internal"))),
            None
        ]
    );
    assert_eq!(cells[3].setup.devices.len(), 1, "without an array the first device alone");
    assert!(cells.iter().all(|cell| cell.impossible.is_none()));
}

#[test]
fn designs_choose_their_cells() {
    let two = |count: usize, kind: &str| {
        let factors: Vec<String> =
            (0..count).map(|n| format!("null.f{n} = [\"lo\", \"hi\"]")).collect();
        plan(&format!(
            "question = \"?\"\ntarget = \"/srv\"\n[[workload]]\nuse = \"seeker\"\n[factors]\n{}\n[design]\n{kind}",
            factors.join("\n")
        ))
    };
    for (count, kind, expected) in [
        (6, "kind = \"full\"", 64),
        (6, "kind = \"one-at-a-time\"", 7),
        (6, "kind = \"one_at_a_time\"", 7),
        (6, "kind = \"fractional\"", 16),
        (6, "kind = \"fractional\"\nresolution = 3", 8),
        (8, "kind = \"fractional\"", 16),
        (7, "kind = \"screening\"", 8),
        (8, "kind = \"screening\"", 12),
        (11, "kind = \"screening\"", 12),
        (15, "kind = \"screening\"", 16),
        (19, "kind = \"screening\"", 20),
        (23, "kind = \"screening\"", 24),
    ] {
        let plan = two(count, kind);
        let names = names(&plan);
        assert_eq!(names.len(), expected, "{count} {kind}");
        assert!(names.iter().any(|name| !name.contains("hi")), "the baseline is one of them");
        let mut distinct = names.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), expected, "no cell twice: {count} {kind}");
    }
    let half = two(4, "kind = \"fractional\"");
    assert_eq!(aliases(&half), ["f0 x f1 = f2 x f3", "f0 x f2 = f1 x f3", "f0 x f3 = f1 x f2"]);
    assert!(aliases(&two(4, "kind = \"full\"")).is_empty());
    let one = plan(&format!(
        "{SHORT}\"block.nr_requests\" = [32, 64]\n[design]\nkind = \"one-at-a-time\"\nbaseline = {{ nr_requests = 64 }}"
    ));
    assert_eq!(
        names(&one),
        [
            "scheduler=none nr_requests=64",
            "scheduler=mq-deadline nr_requests=64",
            "scheduler=none nr_requests=32"
        ]
    );
}

#[test]
fn commands_take_words_from_settings_and_factors() {
    let plan = plan(
        "question = \"?\"\ntarget = \"/srv\"\n[[workload]]\ncommand = \"bench -t {threads} -s {size} {}\"\nsize = \"4k\"\n\
         timeout = \"10m\"\nfigure.tps = \"tps = {}\"\n[factors]\nworkload.threads = [1, 8]",
    );
    let cells = cells(&plan).expect("cells");
    let workload = &cells[1].workloads[0];
    assert_eq!(workload.command.as_deref(), Some("bench -t 8 -s 4k {}"));
    let left: Vec<&str> = workload.settings.keys().map(String::as_str).collect();
    assert_eq!(left, ["figure.tps", "timeout"], "for whoever runs it");
    assert_eq!((workload.label.as_str(), plan.objectives.len()), ("application", 1));
    assert_eq!(plan.objectives[0].metric, Metric::Application);
}

#[test]
fn figures_of_a_command_decide_by_name_and_direction() {
    let command = "question = \"?\"\ntarget = \"/srv\"\n[[workload]]\ncommand = \"bench\"\nfigure.tps = \"tps = {}\"\nfigure.p99 = \"p99 = {}\"\n";
    let read = plan(&format!(
        "{command}[[objective]]\nmetric = \"application\"\nfigure = \"p99\"\nbetter = \"less\"\nbound = 5\n\
         [[objective]]\nmetric = \"application\"\nfigure = \"tps\""
    ));
    let got = read.objectives.iter().map(|of| (of.figure.as_deref(), of.is_less_better, of.bound));
    assert_eq!(
        got.collect::<Vec<_>>(),
        [(Some("p99"), true, Some(5.0)), (Some("tps"), false, None)]
    );
    // One needs no name, and what was stored before there were names is read.
    let one = command.replace("figure.p99 = \"p99 = {}\"\n", "");
    let read = plan(&format!("{one}[[objective]]\nmetric = \"application\"\nbetter = \"less\""));
    assert!(read.objectives[0].figure.is_none() && read.objectives[0].is_less_better);
    let stored = serde_json::to_string(&plan(&one).objectives[0]).expect("JSON");
    assert_eq!(stored, r#"{"metric":"application","workload":null,"bound":null}"#);
}

/// Also none at all, where less is better. Whole ones are stored as they always were.
#[test]
fn bounds_of_a_command_may_have_decimals() {
    let asked = |better: &str, bound: &str| {
        let text = format!(
            "question = \"?\"\ntarget = \"/srv\"\n[[workload]]\ncommand = \"bench\"\nfigure.errors = \"errors = {{}}\"\n\
             [[objective]]\nmetric = \"application\"\nbetter = \"{better}\"\nbound = {bound}"
        );
        read(&text, "/etc/fathom/my-plan.toml", &Unchecked).map(|plan| plan.objectives[0].clone())
    };
    for (bound, is) in [("0", 0.0), ("0.5", 0.5), ("\"1.5\"", 1.5), ("20", 20.0)] {
        assert_eq!(asked("less", bound).expect("fine").bound, Some(is), "{bound}");
    }
    let refused =
        |better: &str, bound: &str| asked(better, bound).expect_err("refused").to_string();
    assert!(refused("more", "0").contains("better = \"less\""));
    assert!(refused("less", "-1").contains("must not be below 0"));
    for bound in ["nan", "inf", "\"5ms\""] {
        assert!(refused("less", bound).contains("must be a number"), "{bound}");
    }
    let stored = |bound| serde_json::to_string(&asked("less", bound).expect("fine")).expect("JSON");
    assert!(stored("20").contains("\"bound\":20,") && stored("0.5").contains("\"bound\":0.5,"));
    let again: fathom_model::plan::Objective = serde_json::from_str(&stored("20")).expect("read");
    assert_eq!(again.bound, Some(20.0));
}

/// Narrows to the end, with a figure for each level; the levels that were measured.
#[track_caller]
fn search(
    levels: &str,
    figure: impl Fn(f64) -> f64,
) -> (Vec<String>, String, (Option<String>, Option<String>)) {
    let mut plan = plan(&format!(
        "question = \"?\"\ntarget = \"/srv\"\n[[workload]]\nuse = \"seeker\"\n[factors]\nblock.nr_requests = {levels}\n\
         [design]\nkind = \"narrowing\""
    ));
    for _ in 0..30 {
        let value =
            |level: &String| fathom_base::units::parse_size(level).expect("a number") as f64;
        let measured: Vec<(String, f64)> = plan.factors[0]
            .levels
            .iter()
            .map(|level| (level.clone(), figure(value(level))))
            .collect();
        match narrow(&plan, &measured).expect("measured") {
            Narrowed::Next { level, between, plan: next } => {
                let [low, high] = between.each_ref().map(value);
                let (low, high) = (low.min(high), low.max(high));
                assert!((low..high).contains(&value(&level)), "{level} between {between:?}");
                assert_eq!(next.factors[0].levels.last(), Some(&level));
                // The cells before keep their numbers.
                assert_eq!(
                    cells(&next).expect("cells")[..measured.len()],
                    cells(&plan).expect("cells")
                );
                plan = *next;
            }
            Narrowed::Done { best, between, .. } => {
                return (plan.factors[0].levels.clone(), best, between);
            }
        }
    }
    panic!("it does not end");
}

#[test]
fn a_search_ends_at_the_best_level() {
    let near = |best: &str, expected: f64| {
        let value = fathom_base::units::parse_size(best).expect("a number") as f64;
        assert!((value / expected).ln().abs() < 0.12, "{best} is not near {expected}");
    };
    // A peak anywhere is found to within the tenth that narrowing ends at.
    for peak in [4.0, 20.0, 100.0, 333.0, 777.0, 1024.0] {
        let (levels, best, _) = search("[4, 64, 1024]", |value| -(value / peak).ln().abs());
        near(&best, peak);
        assert!(levels.len() <= 16, "{levels:?}");
    }
    // What gains to some point and is level from there on: the first best one is kept.
    let (_, best, _) = search("[\"64k\", \"1m\", \"16m\"]", |value| value.min(3e6));
    assert!(fathom_base::units::parse_size(&best).expect("a size") >= 3_000_000, "{best}");
    // At the end of the range it says so by having one neighbour only.
    let (_, best, between) = search("[4, 64, 1024]", |value| value);
    assert_eq!((best.as_str(), between.1), ("1024", None));
    let (_, best, between) = search("[0, 128, 4096]", |value| -value);
    assert_eq!((best.as_str(), between.0), ("0", None));
    assert_eq!(between.1.as_deref(), Some("4"), "down to the smallest step");
}

#[test]
fn narrowing_wants_every_level_measured() {
    let plan = plan(&format!("{SHORT}[design]\nkind = \"full\""));
    assert!(narrow(&plan, &[]).is_err(), "it does not narrow");
    let text = "question = \"?\"\ntarget = \"/srv\"\n[[workload]]\nuse = \"seeker\"\n[factors]\nblock.nr_requests = [4, 64]\n\
                [design]\nkind = \"narrowing\"";
    let error = narrow(&self::plan(text), &[("4".into(), 1.0)]).expect_err("one is missing");
    assert_eq!(error.to_string(), "plan: nr_requests=64 was not measured");
}
