//! The machine before and after an experiment: memory, swap, services, space, settings, drives, and the baseline measured again.

use super::{machine, outline};
use crate::lab::Lab;
use fathom_base::order::Order;
use fathom_base::units::{format_count, format_figure, format_size, format_whole};
use fathom_model::plan::Plan;
use fathom_model::plan::cell::{Cell, CellRecord};
use fathom_model::plan::outline::BeforeAfter;
use fathom_model::record::Record;
use fathom_model::stack::Stack;
use fathom_sys::fsinfo;
use fathom_sys::swap;
use fathom_sys::sysroot::SysRoot;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Share of memory or space that comes and goes by itself.
const DRIFT_SHARE: f64 = 0.05;

/// What was found.
pub(crate) struct Look {
    memory_bytes: Option<u64>,
    swaps: Vec<String>,
    services: Vec<String>,
    /// Of the processors' frequency, where the plan sets them.
    governors: Vec<String>,
    /// Free space by mount point.
    space: Vec<(String, u64)>,
    /// Every file of the queues of the devices that are not built by the experiment, by path.
    settings: BTreeMap<PathBuf, String>,
    /// Words of each drive about its health.
    drives: Vec<(String, String)>,
}

/// Looks at the machine.
pub(crate) fn look(lab: &Lab<'_>, plan: &Plan) -> Look {
    let root = &lab.root;
    let area = |area: swap::Area| format!("{} (priority {})", area.path.display(), area.priority);
    let service = |unit: &String| {
        let state = if matches!(machine::is_running(unit), Ok(true)) { "runs" } else { "stopped" };
        format!("{unit} {state}")
    };
    let target = plan.target.as_deref().filter(|target| !target.starts_with("null:"));
    let place = target.map(|target| fathom_inspect::stack::nearest_existing(Path::new(target)));
    let mut places = outline::given(&plan.setup);
    places.extend(place.clone());
    let own = plan.workloads.iter().filter_map(|workload| workload.target.as_deref());
    places.extend(own.filter(|target| target.starts_with('/')).map(PathBuf::from));
    let mut settings = BTreeMap::new();
    for stack in places.iter().filter_map(|place| fathom_inspect::resolve(root, place).ok()) {
        settings.append(&mut settings_of(root, &stack));
    }
    let mut space = vec![("the store".to_owned(), lab.state_dir.clone())];
    space.extend(
        place.clone().filter(|place| place.is_dir()).map(|place| ("the target".to_owned(), place)),
    );
    let free =
        |(name, path): (String, PathBuf)| Some((name, fsinfo::space(&path).ok()?.available_bytes));
    Look {
        memory_bytes: fathom_sys::counters::memory_available_bytes(root),
        swaps: swap::areas(root).into_iter().map(area).collect(),
        services: plan.prepare.stop_services.iter().map(service).collect(),
        governors: plan
            .prepare
            .governor
            .iter()
            .flat_map(|wanted| governors(root, wanted))
            .collect(),
        space: space.into_iter().filter_map(free).collect(),
        settings,
        drives: drives(root, &places),
    }
}

fn governors(root: &SysRoot, wanted: &str) -> Vec<String> {
    let all = machine::governors(root, wanted).unwrap_or_default();
    all.into_iter().map(|(policy, governor)| format!("{policy} {governor}")).collect()
}

/// All files of the queues below a target, but for the disks behind the file of a loop device: those are not touched.
fn settings_of(root: &SysRoot, stack: &Stack) -> BTreeMap<PathBuf, String> {
    let (devices, _) = fathom_knobs::scope::of_stack(root, stack);
    let mut found = BTreeMap::new();
    for device in devices.iter().filter(|device| !device.is_behind_file) {
        let queue = PathBuf::from("sys/block").join(&device.name).join("queue");
        for dir in [queue.clone(), queue.join("iosched")] {
            for name in root.names(&dir) {
                let file = dir.join(name);
                if let Some(value) = root.text(&file) {
                    found.insert(file, value);
                }
            }
        }
    }
    found
}

fn drives(root: &SysRoot, places: &[PathBuf]) -> Vec<(String, String)> {
    if places.is_empty() {
        return Vec::new();
    }
    let Ok(scan) = fathom_inspect::machine::scan(root, places) else { return Vec::new() };
    let health = |node: &fathom_model::stack::Node| {
        let health = node.details().health.as_ref()?;
        let word = |name: &str, value: Option<u64>| value.map(|value| format!("{name} {value}"));
        let passed =
            health.passed.map(|passed| if passed { "passed" } else { "FAILED" }.to_owned());
        let parts = [
            passed,
            word("reallocated", health.reallocated),
            word("pending", health.pending),
            word("uncorrectable", health.uncorrectable),
            word("cable errors", health.interface_crc_errors),
            health.used_percent.map(|used| format!("{used} % used")),
        ];
        let text = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
        (!text.is_empty()).then(|| (node.name.clone(), text))
    };
    scan.machine.nodes.iter().filter_map(health).collect()
}

/// Puts both side by side.
pub(crate) fn compare(
    before: &Look,
    after: &Look,
    (records, cells): (&[Record], &[Cell]),
    plan: &Plan,
) -> Vec<BeforeAfter> {
    let mut lines = Vec::new();
    let mut add = |what: &str, before: String, after: String, is_same: bool| {
        lines.push(BeforeAfter { what: what.to_owned(), before, after, is_same });
    };
    if let (Some(a), Some(b)) = (before.memory_bytes, after.memory_bytes) {
        add("memory that is free", format_size(a), format_size(b), is_near(a, b));
    }
    let list =
        |items: &[String]| if items.is_empty() { "none".to_owned() } else { items.join(", ") };
    add("swap", list(&before.swaps), list(&after.swaps), same_set(&before.swaps, &after.swaps));
    if !before.services.is_empty() {
        let same = before.services == after.services;
        add("services", list(&before.services), list(&after.services), same);
    }
    if !before.governors.is_empty() {
        let same = before.governors == after.governors;
        add("governors", list(&before.governors), list(&after.governors), same);
    }
    for ((name, a), (_, b)) in before.space.iter().zip(&after.space) {
        add(&format!("space on {name}"), format_size(*a), format_size(*b), is_near(*a, *b));
    }
    let changed = changed_settings(&before.settings, &after.settings);
    if !before.settings.is_empty() {
        let count = format_count(before.settings.len() as u64);
        let now = if changed.is_empty() { "the same".to_owned() } else { changed.join("; ") };
        add("settings of the queues", format!("{count} files"), now, changed.is_empty());
    }
    for (name, was) in &before.drives {
        let is = after.drives.iter().find(|(known, _)| known == name);
        let is = is.map_or_else(|| "not readable".to_owned(), |(_, text)| text.clone());
        add(&format!("health of {name}"), was.clone(), is.clone(), *was == is);
    }
    lines.extend(baseline(records, cells, plan));
    lines
}

/// Files of the queues that are not as before, and devices of which none is there any more: detached, or gone.
fn changed_settings(
    before: &BTreeMap<PathBuf, String>,
    after: &BTreeMap<PathBuf, String>,
) -> Vec<String> {
    // sys/block/NAME
    let device = |file: &Path| file.iter().take(3).collect::<PathBuf>();
    let there: BTreeSet<PathBuf> = after.keys().map(|file| device(file)).collect();
    let mut lines: Vec<String> = Vec::new();
    for (file, was) in before {
        let device = device(file);
        let line = match after.get(file) {
            Some(is) if is == was => continue,
            _ if !there.contains(&device) => {
                let name = device.file_name().unwrap_or_default().to_string_lossy();
                format!("{name} is detached or gone")
            }
            Some(is) => format!("{}: {was} -> {is}", file.display()),
            None => format!("{}: {was} -> gone", file.display()),
        };
        if lines.last() != Some(&line) {
            lines.push(line);
        }
    }
    lines
}

fn is_near(a: u64, b: u64) -> bool {
    a.abs_diff(b) as f64 <= a.max(b) as f64 * DRIFT_SHARE
}

/// The order of areas with priorities of the kernel's own is not ours to keep.
fn same_set(a: &[String], b: &[String]) -> bool {
    let sorted = |list: &[String]| {
        let names = list.iter().map(|item| item.split(" (").next().unwrap_or_default().to_owned());
        let mut names: Vec<String> = names.collect();
        names.order();
        names
    };
    sorted(a) == sorted(b)
}

/// The baseline, measured first and last: a machine that is as it was gives the same. Trials of sentinels, where there are some.
fn baseline(records: &[Record], cells: &[Cell], plan: &Plan) -> Option<BeforeAfter> {
    let base = cells.get(fathom_study::experiment::baseline(plan, cells))?;
    let is_first = |cell: &CellRecord| cell.void.is_none() && !cell.is_part;
    let of_cell = |record: &&Record| record.cell.as_deref().is_some_and(is_first);
    let is_sentinel =
        |record: &&Record| record.cell.as_deref().is_some_and(|cell| cell.slot.is_sentinel);
    let is_base =
        |record: &&Record| record.cell.as_deref().is_some_and(|cell| cell.slot.cell == base.index);
    let sentinels: Vec<&Record> = records.iter().filter(of_cell).filter(is_sentinel).collect();
    let all: Vec<&Record> = match sentinels.len() {
        0 | 1 => records.iter().filter(of_cell).filter(is_base).collect(),
        _ => sentinels,
    };
    let what = "the baseline measured first and last".to_owned();
    let none = |why: &str| {
        let (before, after) = (why.to_owned(), why.to_owned());
        Some(BeforeAfter { what: what.clone(), before, after, is_same: true })
    };
    let Some(first) = all.first() else {
        return if records.is_empty() { None } else { none("no trial of it counts") };
    };
    let workload = |record: &Record| record.cell.as_deref().map(|cell| cell.workload.clone());
    let last = all[1..].iter().rfind(|record| workload(record) == workload(first));
    let Some(last) = last else {
        return none("one trial of it counts: nothing to compare");
    };
    let pair = figure(first, plan).and_then(|(name, a)| {
        let (_, b) = figure(last, plan).filter(|(other, _)| *other == name)?;
        Some((name, a, b))
    });
    let Some((name, a, b)) = pair else {
        return none("its trials have no figure to compare");
    };
    let number = |value: f64| match name.as_str() {
        "IOPS" => format_whole(value),
        _ if value < 9.995 => format_figure(value),
        _ if value < 99.95 => format!("{value:.2}"),
        _ => format_whole(value),
    };
    let text = |value: f64| format!("{} {name}", number(value));
    let margin = plan.design.margin.max(DRIFT_SHARE);
    Some(BeforeAfter {
        what,
        before: text(a),
        after: text(b),
        is_same: (b / a - 1.0).abs() <= margin,
    })
}

/// What a trial came to: requests per second; of a command the figure that decides, else its first.
fn figure(record: &Record, plan: &Plan) -> Option<(String, f64)> {
    let count: u64 = record.jobs.iter().map(|job| job.transfers().latency_ns.count()).sum();
    let iops = count as f64 / (record.window_ns.max(1) as f64 / 1e9);
    if iops > 0.0 {
        return Some(("IOPS".to_owned(), iops));
    }
    let told = &record.cell.as_deref()?.application;
    let ranked = plan.objectives.iter().filter(|one| one.bound.is_none());
    let mut named = ranked.filter_map(|one| told.get_key_value(one.figure.as_ref()?));
    let (name, value) = named.next().or_else(|| told.iter().next())?;
    (value.is_finite() && *value > 0.0).then(|| (name.clone(), *value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_gone_is_told_once() {
        let files = |all: &[(&str, &str)]| -> BTreeMap<PathBuf, String> {
            let one = |(file, value): &(&str, &str)| {
                (PathBuf::from(format!("sys/block/{file}")), (*value).to_owned())
            };
            all.iter().map(one).collect()
        };
        let before = files(&[
            ("loop1/queue/nomerges", "0"),
            ("loop1/queue/scheduler", "[none]"),
            ("sda/queue/iosched/low_latency", "1"),
            ("sda/queue/nomerges", "0"),
            ("sda/queue/scheduler", "[bfq]"),
        ]);
        let after = files(&[("sda/queue/nomerges", "0"), ("sda/queue/scheduler", "[none]")]);
        assert_eq!(
            changed_settings(&before, &after),
            [
                "loop1 is detached or gone",
                "sys/block/sda/queue/iosched/low_latency: 1 -> gone",
                "sys/block/sda/queue/scheduler: [bfq] -> [none]",
            ]
        );
        assert!(changed_settings(&before, &before).is_empty());
    }

    /// Not whichever cell happens to come first and last; and of a command its own figure.
    #[test]
    fn the_baseline_is_measured_first_and_last() {
        let text = "question = \"?\"\ntarget = \"/srv\"\n[[workload]]\ncommand = \"bench\"\nfigure.tps = \"tps = {}\"\n\
                    [factors]\n\"vm.swappiness\" = [10, 20]\n[design]\nsentinel = false\n";
        let plan = fathom_plan::read(text, "/p.toml", &fathom_plan::Unchecked).unwrap();
        let cells = fathom_plan::cells(&plan).unwrap();
        let trial = |cell: u32, block: u32, tps: f64| {
            let of = serde_json::json!({
                "slot": {"block": block, "place": 0, "cell": cell, "is_sentinel": false}, "levels": [], "workload": "bench",
                "knobs": [], "setup": [], "prepare_ns": 0, "application": {"tps": tps},
            });
            let workload = crate::experiment::program::workload_of("bench");
            let mut record = crate::experiment::program::empty_record("bench", workload, 0);
            record.cell = Some(Box::new(serde_json::from_value(of).unwrap()));
            record
        };
        let records = [trial(1, 0, 50.0), trial(0, 0, 10.0), trial(0, 1, 12.0), trial(1, 1, 50.0)];
        let of = |records: &[Record]| baseline(records, &cells, &plan);
        let line = of(&records).unwrap();
        assert_eq!(line.what, "the baseline measured first and last");
        assert_eq!((&line.before[..], &line.after[..]), ("10.00 tps", "12.00 tps"));
        assert!(!line.is_same);
        let once = of(&records[..2]).unwrap();
        assert_eq!(once.before, "one trial of it counts: nothing to compare");
        assert_eq!(of(&records[..1]).unwrap().before, "no trial of it counts");
        assert_eq!(of(&[]), None);
    }
}
