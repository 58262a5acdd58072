//! What personalities come to: the transactions of all clients together, whether a rate was kept, and what speaks against
//! the figures.

use fathom_base::order::Order;
use fathom_base::units::{format_count, format_ns, format_size};
use fathom_model::finding::{Finding, Severity};
use fathom_model::fsop::{Caches, FsopProcess, FsopRecord};
use fathom_model::play::{PlayAct, PlaySync, PlayedRate, PlayedUnfinished};
use fathom_model::record::{OpClass, Record};
use fathom_stats::Histogram;
use serde::Serialize;

/// One transaction in a hundred started later than this is more than a timer on an idle machine ever is.
const LATE_NS: u64 = 1_000_000;
/// More of the clients' time than this in transactions that did not end: the rows are of the short ones.
const CUT_SHARE_MAX: f64 = 0.1;
/// Devices took at least this share of what clients wrote.
const TO_DEVICE_SHARE_MIN: f64 = 0.5;
/// Devices gave at least this share of what clients read.
const FROM_DEVICE_SHARE_MIN: f64 = 0.5;
/// Less is too little to judge by.
const READ_BYTES_MIN: u64 = 1 << 20;
/// Less is too little to judge by.
const WRITTEN_BYTES_MIN: u64 = 1 << 20;

/// Names of rules whose text is about one row.
pub(crate) const ROW_RULES: &[&str] = &[
    "play-rate-not-reached",
    "play-started-late",
    "play-cut-short",
    "play-caches-not-dropped",
    "play-read-from-memory",
    "play-written-to-memory",
];

/// Transactions of all clients per second; none for other workloads.
#[must_use]
pub fn transactions_per_s(record: &Record, fsop: &FsopRecord) -> Option<f64> {
    fsop.spec.play.as_ref()?;
    let played = fsop.processes.iter().filter_map(|process| process.played.as_ref());
    let count: u64 = played.map(|played| played.transactions()).sum();
    Some(count as f64 * 1e9 / record.window_ns.max(1) as f64)
}

/// What a rate came to, of all clients together.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RateSum {
    /// Transactions per second that were asked for.
    pub asked: f64,
    /// Those that became due in the window.
    pub due: u64,
    /// Due and not started at its start.
    pub backlog_start: u64,
    /// Due and not started at its end.
    pub not_started: u64,
    /// How long the oldest of these had been due.
    pub oldest_not_started_ns: Option<u64>,
    /// From when they were due to their ends.
    pub response_ns: Histogram,
    /// How late fathom itself was.
    pub start_delay_ns: Histogram,
}

/// The sum over clients; none in a closed loop.
#[must_use]
pub fn rate(fsop: &FsopRecord) -> Option<RateSum> {
    let asked = fsop.spec.play.as_ref()?.rate?;
    let mut sum = RateSum { asked, ..RateSum::default() };
    for played in fsop.processes.iter().filter_map(|process| process.played.as_ref()) {
        let PlayedRate {
            due,
            backlog_start,
            not_started,
            oldest_not_started_ns,
            start_delay_ns,
            ..
        } = played.rate.as_ref()?;
        sum.due += due;
        sum.backlog_start += backlog_start;
        sum.not_started += not_started;
        sum.oldest_not_started_ns = sum.oldest_not_started_ns.max(*oldest_not_started_ns);
        sum.start_delay_ns.merge(start_delay_ns);
        played.acts.iter().filter_map(|act| act.response_ns.as_ref()).for_each(|one| {
            sum.response_ns.merge(one);
        });
    }
    Some(sum)
}

/// The transactions that the end of the window cut, the longest first: one of a client at most.
#[must_use]
pub fn unfinished(fsop: &FsopRecord) -> Vec<PlayedUnfinished> {
    let played = fsop.processes.iter().filter_map(|process| process.played.as_ref());
    let mut all: Vec<_> = played.filter_map(|played| played.unfinished).collect();
    all.order_by_key(|one| std::cmp::Reverse(one.age_ns));
    all
}

/// All rules on one record.
pub(crate) fn findings(record: &Record, fsop: &FsopRecord) -> Vec<Finding> {
    const RULES: &[fn(&Record, &FsopRecord) -> Option<Finding>] = &[
        rate_not_reached,
        started_late,
        cut_short,
        caches_not_dropped,
        read_from_memory,
        written_to_memory,
    ];
    RULES.iter().filter_map(|rule| rule(record, fsop)).collect()
}

/// More was due than could be done: the backlog grew over the window, by more than a hundredth of what was due.
fn rate_not_reached(record: &Record, fsop: &FsopRecord) -> Option<Finding> {
    let rate = rate(fsop)?;
    if rate.not_started <= rate.backlog_start || rate.not_started * 100 < rate.due {
        return None;
    }
    let seconds = record.window_ns.max(1) as f64 / 1e9;
    let text = format!(
        "the clients fell behind: of {} transactions per second that were asked for {:.0} were done; {} were due and never \
         started, the oldest for {}",
        rate.asked,
        rate.response_ns.count() as f64 / seconds,
        format_count(rate.not_started),
        format_ns(rate.oldest_not_started_ns.unwrap_or(0))
    );
    let advice = "response times grow with the length of the run then, and say nothing but that; a lower rate=, or more clients= where \
                  they wait one at a time";
    Some(Finding::new("play-rate-not-reached", Severity::Doubtful, text).advise(advice))
}

/// Fathom itself was late, and that matters: a tenth of all response time.
fn started_late(_: &Record, fsop: &FsopRecord) -> Option<Finding> {
    let rate = rate(fsop)?;
    let p99_ns = rate.start_delay_ns.quantile(0.99)?;
    if p99_ns < LATE_NS || rate.start_delay_ns.sum() * 10 < rate.response_ns.sum() {
        return None;
    }
    let text = format!(
        "fathom started {} of {} transactions more than 1 ms after they were due, though their clients had nothing to do (p99 {}); \
         these delays are in the response times",
        format_count(rate.start_delay_ns.count_above(LATE_NS)),
        format_count(rate.start_delay_ns.count()),
        format_ns(p99_ns)
    );
    let advice = "fathom did not get a CPU in time: stop what else runs, or use fewer clients; service times are those of the storage";
    Some(Finding::new("play-started-late", Severity::Doubtful, text).advise(advice))
}

/// Much of the clients' time went into transactions that the end of the window cut: those are in no row, and a long one is cut
/// more often than a short one.
fn cut_short(record: &Record, fsop: &FsopRecord) -> Option<Finding> {
    let cut = unfinished(fsop);
    let clients = fsop.processes.iter().filter(|process| process.played.is_some()).count() as u64;
    let lost_ns: u64 = cut.iter().map(|one| one.age_ns.min(record.window_ns)).sum();
    let all_ns = record.window_ns.saturating_mul(clients);
    let longest = cut.first().filter(|_| lost_ns as f64 > CUT_SHARE_MAX * all_ns as f64)?;
    let text = format!(
        "{:.0} % of the clients' time went into transactions that the end of the window cut, the longest a {} of {} so far: they \
         are in no row, and long ones are missing more often than short ones",
        lost_ns as f64 / all_ns as f64 * 100.0,
        longest.act.word(),
        format_ns(longest.age_ns)
    );
    let advice = "a window= of many times the longest transaction, or smaller ones (tree_dirs=, tree_files=, sizes=)";
    Some(Finding::new("play-cut-short", Severity::Doubtful, text).advise(advice))
}

fn caches_not_dropped(_: &Record, fsop: &FsopRecord) -> Option<Finding> {
    let (Caches::Kept { reason }, Some(play)) = (&fsop.caches, &fsop.spec.play) else {
        return None;
    };
    play.acts().any(PlayAct::reads).then(|| {
        let text =
            format!("the caches were not dropped ({reason}): clients may have read from memory");
        Finding::new("play-caches-not-dropped", Severity::Doubtful, text)
            .advise("run it as root, with drop_caches=yes; or more files= than memory holds")
    })
}

/// What clients read, against what all block devices gave: those below each other give the same bytes, so that the largest
/// counts. A workload that writes more than it reads is not spoilt by it: servers read what they have just written; nor is a
/// build, which reads the sources that it has just made.
fn read_from_memory(record: &Record, fsop: &FsopRecord) -> Option<Finding> {
    let play = fsop.spec.play.as_ref()?;
    let builds = play.acts().any(PlayAct::is_on_trees);
    let given = record.devices.iter().map(|device| device.read_bytes).max()?;
    let sum = |of: &[OpClass]| fsop.processes.iter().map(|one| bytes_of(one, of)).sum::<u64>();
    let (read, written) = (sum(&[OpClass::Read]), sum(&WRITES));
    let is_less = (given as f64) < read as f64 * FROM_DEVICE_SHARE_MIN;
    (read >= READ_BYTES_MIN && is_less).then(|| {
        let is_spoilt = read > written && !builds;
        let severity = if is_spoilt { Severity::Doubtful } else { Severity::Note };
        let more = if builds { "trees= with more" } else { "files= of more" };
        let text = format!(
            "clients read {}, of which the devices gave {} at most: the rest came from memory",
            format_size(read),
            format_size(given)
        );
        Finding::new("play-read-from-memory", severity, text)
            .advise(format!("{more} than the memory holds makes it the speed of the storage"))
    })
}

/// Said, not blamed: this is what such servers do.
fn written_to_memory(record: &Record, fsop: &FsopRecord) -> Option<Finding> {
    let play = fsop.spec.play.as_ref()?;
    let taken = record.devices.iter().map(|device| device.written_bytes).max()?;
    let written: u64 = fsop.processes.iter().map(|one| bytes_of(one, &WRITES)).sum();
    let is_less = taken as f64 / (written.max(1) as f64) < TO_DEVICE_SHARE_MIN;
    (play.sync == PlaySync::None && written >= WRITTEN_BYTES_MIN && is_less).then(|| {
        let text = format!(
            "clients handed {} to the page cache, of which the devices took {} in the window: it is memory that was written",
            format_size(written),
            format_size(taken)
        );
        Finding::new("play-written-to-memory", Severity::Note, text)
            .advise("sync=file makes it the speed of the disk; a longer window= shows the kernel writing back")
    })
}

const WRITES: [OpClass; 2] = [OpClass::Write, OpClass::Append];

fn bytes_of(process: &FsopProcess, classes: &[OpClass]) -> u64 {
    classes.iter().filter_map(|class| process.class(*class)).map(|c| c.bytes).sum()
}

#[cfg(test)]
#[path = "play_tests.rs"]
mod tests;
