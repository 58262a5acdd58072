//! Phases of file-server workloads as tables: every kind of operation, the processes one by one, what stood still, and
//! what readers lose when writers start.

mod header;

pub use header::{header, integrity};

use crate::figures::{NotEnough, iops_text, ns_text, per_second, quantile_text};
use crate::table::{Align, Table};
use crate::text::{format_share, format_time, push_wrapped_to};
use fathom_base::units::{format_count, format_ns, format_rate, format_size};
use fathom_model::fsop::{Caches, CachesLook, DeviceSecond, FsopProcess, FsopRecord, Role};
use fathom_model::record::{ClassRecord, Ending, OpClass, Record};
use fathom_stats::Histogram;
use fathom_study::fsop::{self, Competition, Kept, Stall};
use jiff::tz::TimeZone;

/// The operations in the order and with the letters of the original; those without a letter are fathom's.
pub(crate) const LETTERS: [(OpClass, &str, &str); 14] = [
    (OpClass::ReadDir, "A", "read dir"),
    (OpClass::Stat, "B", "lstat"),
    (OpClass::OpenRead, "C", "open"),
    (OpClass::FirstRead, "D", "read first byte"),
    (OpClass::RestRead, "E", "read the rest"),
    (OpClass::CloseRead, "", "close after reading"),
    (OpClass::OpenWrite, "F", "create and open"),
    (OpClass::FirstWrite, "G", "write first byte"),
    (OpClass::RestWrite, "J", "write the rest"),
    (OpClass::Sync, "", "sync"),
    (OpClass::CloseWrite, "H", "close after writing"),
    (OpClass::OpenDir, "", "open dir"),
    (OpClass::MakeDir, "I", "mkdir"),
    (OpClass::SyncDir, "", "sync dir after mkdir"),
];

const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];
/// Stalls that are shown; the record has all.
const STALLS_SHOWN: usize = 10;
/// With more processes than this, the statistics of each are in the record and in reports alone.
const EACH_SHOWN: usize = 8;

/// One phase in full, with the statistics of each process when they are few, in lines of `width` columns.
#[must_use]
pub fn detail(record: &Record, fsop: &FsopRecord, zone: &TimeZone, width: usize) -> String {
    summary(record, fsop, zone, width) + &each_process(fsop, width)
}

/// One phase, its processes together, in lines of `width` columns.
#[must_use]
pub fn summary(record: &Record, fsop: &FsopRecord, zone: &TimeZone, width: usize) -> String {
    let mut out = String::new();
    let ending = match record.ending {
        Ending::Complete => "",
        Ending::Interrupted => ", interrupted",
        Ending::Failed => ", failed",
    };
    let head = format!(
        "{}: {} from {}{ending}",
        record.label,
        format_ns(record.window_ns),
        format_time(record.started_unix_ns, zone),
    );
    push_wrapped_to(&mut out, width, "", &head);
    if let Some(failure) = &record.failure {
        push_wrapped_to(&mut out, width, "error  ", &failure.message);
    }
    push_wrapped_to(&mut out, width, "on  ", &header(record, fsop));
    match &fsop.spec.play {
        Some(play) => push_wrapped_to(&mut out, width, "asked  ", &crate::play::settings(play)),
        None => push_wrapped_to(&mut out, width, "tree  ", &tree_text(fsop)),
    }
    push_wrapped_to(&mut out, width, "caches  ", &caches_text(&fsop.caches));
    out += &crate::play::transactions(record, fsop, width);
    let mut missing = NotEnough::default();
    let all: Vec<&FsopProcess> = fsop.processes.iter().collect();
    out += &operations("all processes together", &all, &mut missing, width);
    push_note(&mut out, missing, width);
    out += &rates(record, fsop, width);
    out += &processes(record, fsop, width);
    out += &unfinished(record, fsop, width);
    out += &stalls_text(record, fsop, width);
    out
}

fn tree_text(fsop: &FsopRecord) -> String {
    let tree = &fsop.tree;
    let size = match (tree.files, tree.directories, tree.bytes) {
        (Some(files), Some(dirs), Some(bytes)) => format!(
            " with {} files of {} in {} directories",
            format_count(files),
            format_size(bytes),
            format_count(dirs)
        ),
        _ => String::new(),
    };
    let whose = match (tree.is_ours, tree.is_checked) {
        (false, _) => "not made by fathom, only read",
        // What its card says of when it was made.
        (true, false) => "made by fathom",
        (true, true) => "made by fathom and found whole,",
    };
    let parts = match tree.trees {
        0 => String::new(),
        1 => ", read as one".into(),
        parts => format!(", read in {parts} separate parts"),
    };
    format!("{}, {whose}{size}{parts}", tree.path)
}

fn caches_text(caches: &Caches) -> String {
    match caches {
        Caches::Dropped(look) => dropped_text(look),
        Caches::Kept { reason } => format!("kept: {reason}"),
        Caches::WentOn => "as the phase before left them: its readers go on".into(),
    }
}

/// What was looked for in memory, and found there: data, names with their inodes, and what the whole machine had.
fn dropped_text(look: &CachesLook) -> String {
    let mut parts = Vec::new();
    if look.files_checked > 0 {
        let (all, left) = (format_size(look.checked_bytes), format_size(look.cached_bytes));
        parts.push(format!("of {} files with {all} {left} are left in memory", look.files_checked));
    }
    if look.names_checked > 0 {
        let CachesLook { names_checked, names_cached, .. } = look;
        parts.push(format!("of {names_checked} other names and inodes {names_cached}"));
    }
    let seen = match parts.is_empty() {
        true => "dropped".to_owned(),
        false => format!("dropped, and seen to be: {}", parts.join(", ")),
    };
    let machine = [("unused names", look.unused_entries), ("inodes", look.inodes)];
    let machine = machine.into_iter().filter_map(|(what, counts)| {
        let [before, after] = counts?.map(format_count);
        Some(format!("; {what} of the machine: {before} before, {after} after"))
    });
    machine.fold(seen, |text, more| text + &more)
}

/// One class over processes.
fn together<'p>(processes: impl Iterator<Item = &'p FsopProcess>, class: OpClass) -> ClassRecord {
    let mut sum = ClassRecord { class, latency_ns: Histogram::new(), bytes: 0 };
    for record in processes.filter_map(|process| process.class(class)) {
        sum.latency_ns.merge(&record.latency_ns);
        sum.bytes += record.bytes;
    }
    sum
}

/// The statistics of each process, when there are several and not too many.
fn each_process(fsop: &FsopRecord, width: usize) -> String {
    if !(2..=EACH_SHOWN).contains(&fsop.processes.len()) {
        return String::new();
    }
    let mut missing = NotEnough::default();
    let mut out = String::new();
    for process in &fsop.processes {
        let name = format!("{} {}", process.role.word(), process.number);
        out += &operations(&name, &[process], &mut missing, width);
    }
    push_note(&mut out, missing, width);
    out
}

/// What too few operations leave out.
pub(crate) fn push_note(out: &mut String, missing: NotEnough, width: usize) {
    if let Some(note) = missing.note() {
        push_wrapped_to(out, width, "  ", &note);
    }
}

/// Every kind of operation of some processes.
fn operations(
    title: &str,
    processes: &[&FsopProcess],
    missing: &mut NotEnough,
    width: usize,
) -> String {
    let columns = ["count", "min", "avg", "p50", "p99", "p99.9", "max", "std", "max/p50"];
    let head = [("", Align::Left), (title, Align::Left)];
    let columns = columns.map(|title| (title, Align::Right));
    let mut table = Table::new(head.into_iter().chain(columns), 2);
    for (class, letter, name) in LETTERS.into_iter().chain(crate::play::NAMES) {
        let sum = together(processes.iter().copied(), class).latency_ns;
        if sum.is_empty() {
            continue;
        }
        missing.look_at(&sum, &QUANTILES);
        let mean = sum.mean().map(|ns| ns.round() as u64);
        let deviation = sum.stddev().map(|ns| ns.round() as u64);
        let times = sum.max().zip(sum.quantile(0.5)).map(|(max, median)| max / median.max(1));
        let mut cells = vec![letter.to_owned(), name.to_owned(), format_count(sum.count())];
        cells.extend([ns_text(sum.min()), ns_text(mean)]);
        cells.extend(QUANTILES.map(|(_, q)| quantile_text(&sum, q)));
        cells.extend([ns_text(sum.max()), ns_text(deviation)]);
        cells.push(times.map_or_else(String::new, format_count));
        table.row(cells);
    }
    table.render_to(2, width)
}

/// Times of some classes, summed over processes.
pub(crate) fn time_ns(processes: &[&FsopProcess], classes: &[OpClass]) -> u128 {
    let of = |process: &&FsopProcess| -> u128 {
        let own = process.classes.iter().filter(|c| classes.contains(&c.class));
        own.map(|c| c.latency_ns.sum()).sum()
    };
    processes.iter().map(of).sum()
}

/// What the data rate of a role is made of.
pub(crate) struct RateParts {
    /// The class of the data.
    pub data: OpClass,
    /// What else belongs to the time of the data alone.
    pub with_data: &'static [OpClass],
    /// All of a file's operations.
    pub all: &'static [OpClass],
    /// In words.
    pub words: &'static str,
}

pub(crate) const READ_RATE: RateParts = RateParts {
    data: OpClass::RestRead,
    with_data: &[OpClass::RestRead],
    all: &[OpClass::ReadDir, OpClass::OpenRead, OpClass::FirstRead, OpClass::RestRead],
    words: "read dir + open + first byte + rest",
};

pub(crate) const WRITE_RATE: RateParts = RateParts {
    data: OpClass::RestWrite,
    with_data: &[OpClass::RestWrite, OpClass::Sync],
    all: &[
        OpClass::OpenWrite,
        OpClass::FirstWrite,
        OpClass::RestWrite,
        OpClass::Sync,
        OpClass::CloseWrite,
    ],
    words: "create + first byte + rest + sync + close",
};

/// Bytes per second of data alone and with the other operations, for one process on average; none without data.
pub(crate) fn data_rates(processes: &[&FsopProcess], parts: &RateParts) -> Option<(f64, f64)> {
    let bytes = together(processes.iter().copied(), parts.data).bytes;
    let rate = |classes: &[OpClass]| {
        let ns = time_ns(processes, classes);
        if ns == 0 { 0.0 } else { bytes as f64 * 1e9 / ns as f64 }
    };
    (bytes > 0).then(|| (rate(parts.with_data), rate(parts.all)))
}

fn rates(record: &Record, fsop: &FsopRecord, width: usize) -> String {
    let mut out = String::new();
    for (role, letter, parts) in [(Role::Reader, "E", READ_RATE), (Role::Writer, "J", WRITE_RATE)] {
        let own: Vec<&FsopProcess> = fsop.of_role(role).collect();
        let Some((data, all)) = data_rates(&own, &parts) else { continue };
        let bytes: u64 = own.iter().map(|process| process.bytes()).sum();
        let all_per_s = bytes as f64 * 1e9 / record.window_ns.max(1) as f64;
        let text = format!(
            "{}s: data alone {}, with {} {}, each process; together {}",
            role.word(),
            format_rate(data),
            parts.words,
            format_rate(all),
            format_rate(all_per_s)
        );
        push_wrapped_to(&mut out, width, &format!("  {letter}  "), &text);
    }
    out
}

fn processes(record: &Record, fsop: &FsopRecord, width: usize) -> String {
    let columns = [
        ("each process", Align::Left),
        (if fsop.spec.play.is_some() { "trans/s" } else { "files/s" }, Align::Right),
        ("rate", Align::Right),
        ("unfinished", Align::Right),
        ("slowest", Align::Right),
        ("which was", Align::Left),
    ];
    let mut table = Table::new(columns, 2);
    for process in &fsop.processes {
        let class = match process.role {
            Role::Reader => OpClass::OpenRead,
            Role::Writer | Role::Client => OpClass::OpenWrite,
        };
        let files = process.class(class).map_or(0, |record| record.latency_ns.count());
        let files = process.played.as_ref().map_or(files, |played| played.transactions());
        let slowest = process.slowest.first();
        let ages = process.crossings.iter().filter_map(|c| c.age_at_end_ns(record.window_ns));
        table.row([
            format!("{} {}", process.role.word(), process.number),
            iops_text(per_second(files, record.window_ns)),
            format_rate(process.bytes() as f64 * 1e9 / record.window_ns.max(1) as f64),
            ages.max().map_or_else(String::new, age_text),
            ns_text(slowest.map(|op| op.took_ns)),
            slowest.map_or_else(String::new, |op| op.class.word().to_owned()),
        ]);
    }
    let mut out = table.render_to(2, width);
    for role in [Role::Reader, Role::Writer, Role::Client] {
        if let Some(fairness) = fsop::fairness(fsop, role) {
            let ratio = match fairness.most_to_least {
                Some(ratio) => format!("the busiest did {ratio:.2} times what the least busy did"),
                None => "one did nothing".to_owned(),
            };
            let text = format!(
                "among {}s: Jain's index {:.3} (1 is equal), {ratio}",
                role.word(),
                fairness.jain
            );
            push_wrapped_to(&mut out, width, "  fairness  ", &text);
        }
    }
    out
}

fn unfinished(record: &Record, fsop: &FsopRecord, width: usize) -> String {
    let Some((process, class, age_ns)) = fsop.oldest_unfinished(record.window_ns) else {
        return String::new();
    };
    let later = process
        .crossings
        .iter()
        .find(|crossing| crossing.age_at_end_ns(record.window_ns) == Some(age_ns))
        .and_then(|crossing| crossing.took_ns)
        .map_or_else(String::new, |ns| format!("; it took {} in all", age_text(ns)));
    let text = format!(
        "{}, {} ({} {}){later}",
        class.word(),
        age_text(age_ns),
        process.role.word(),
        process.number
    );
    let mut out = String::new();
    push_wrapped_to(&mut out, width, "  oldest unfinished  ", &text);
    out
}

fn stalls_text(record: &Record, fsop: &FsopRecord, width: usize) -> String {
    let stalls = fsop::stalls(record, fsop);
    if stalls.is_empty() {
        return String::new();
    }
    let shown = stalls.len().min(STALLS_SHOWN);
    let more = match stalls.len() - shown {
        0 => String::new(),
        more => format!(", the longest {shown} of {}", shown + more),
    };
    let is_elsewhere = stalls.iter().any(|stall| stall.journal.is_some());
    let mut columns = vec![
        ("", Align::Left),
        ("at", Align::Right),
        ("took", Align::Right),
        ("busy", Align::Right),
        ("in flight", Align::Right),
        ("dirty", Align::Right),
        ("being written", Align::Right),
        ("commits", Align::Right),
    ];
    if is_elsewhere {
        columns.extend([("journal", Align::Right), ("in flight", Align::Right)]);
    }
    let mut table = Table::new(columns, 2);
    for stall in &stalls[..shown] {
        table.row(stall_row(stall, is_elsewhere));
    }
    let head = format!(
        "stalls (from {} on{more}; busy and what follows: in that second):",
        format_ns(fsop.spec.stall_ns)
    );
    let mut out = String::new();
    push_wrapped_to(&mut out, width, "  ", &head);
    out + &table.render_to(4, width)
}

fn stall_row(stall: &Stall, is_elsewhere: bool) -> Vec<String> {
    let Stall { role, number, operation, before_ns, is_unfinished, second, .. } = stall;
    let least = if *is_unfinished { "> " } else { "" };
    let at = match before_ns {
        0 => age_text(operation.start_ns),
        before_ns => format!("{} before", age_text(*before_ns)),
    };
    let mut row = vec![
        format!("{} of {} {number}", operation.class.word(), role.word()),
        at,
        format!("{least}{}", age_text(operation.took_ns)),
    ];
    let Some(second) = second else { return row };
    row.extend(device_cells(stall.busiest()));
    row.push(format_size(second.dirty_bytes));
    row.push(format_size(second.writeback_bytes));
    row.push(second.journal_commits.map_or_else(String::new, format_count));
    if is_elsewhere {
        row.extend(device_cells(stall.journal_second()));
    }
    row
}

/// How busy a device was, and what was in flight.
fn device_cells(device: Option<&DeviceSecond>) -> [String; 2] {
    device.map_or([String::new(), String::new()], |device| {
        [
            format!("{} {}", device.name, format_share(device.busy_share)),
            format!("{:.1}", device.in_flight_mean),
        ]
    })
}

/// Seconds with a tenth also where others are rounded: what stands still is told apart by it.
fn age_text(ns: u64) -> String {
    if ns < 10_000_000_000 { format_ns(ns) } else { format!("{:.1} s", ns as f64 / 1e9) }
}

/// What readers keep when writers start, over the repeats; empty where there is nothing to compare.
#[must_use]
pub fn competition_text(found: &[Competition], width: usize) -> String {
    let mut out = String::new();
    for one in found {
        let of = match one.kept {
            Kept::Files => "files",
            Kept::Bytes => "bytes",
        };
        let percent = |ratio: f64| format!("{:.1} %", ratio * 100.0);
        let each: Vec<String> = one.ratios.iter().map(|ratio| percent(*ratio)).collect();
        let value = percent(one.ratio());
        let surety = match (one.estimate.and_then(|e| e.interval), one.ratios.len()) {
            (None, n @ 2..) if one.starved() > 0 => format!(
                " ({n} repeats: {}; readers came to nothing in {} of them, so that there is no interval)",
                each.join(", "),
                one.starved()
            ),
            (Some(interval), n) => format!(" ({}, {n} repeats)", interval.sure_range(percent)),
            (None, 1) => format!(
                " (one repeat: no interval; from --repeats={} on there is one)",
                Competition::repeats_needed()
            ),
            (None, n) => format!(
                " ({n} repeats: {}; an interval from --repeats={} on)",
                each.join(", "),
                Competition::repeats_needed()
            ),
        };
        let text = format!(
            "{} beside {} keep {value} of the {of}/s that they read alone{surety}",
            fathom_model::fsop::FsopPhase { writers: 0, ..one.together }.text(),
            fathom_model::fsop::FsopPhase { readers: 0, ..one.together }.text(),
        );
        push_wrapped_to(&mut out, width, "competition  ", &text);
    }
    out
}

#[cfg(test)]
#[path = "fsop_tests.rs"]
mod tests;
