//! What file-server workloads come to: how much readers lose when writers start, how fairly processes share, which
//! operations stood still, and what speaks against the figures.

pub mod findings;
pub mod trial;

use fathom_base::order::Order;
use fathom_model::fsop::{
    DeviceSecond, FsopPhase, FsopProcess, FsopRecord, Role, SecondSample, TimedOp,
};
use fathom_model::record::{Ending, OpClass, Record};
use fathom_model::stack::Stack;
use fathom_stats::interval::{Estimate, pairs_needed};
use fathom_stats::rank::paired::{hodges_lehmann, log_ratios};
use serde::Serialize;

/// The level of intervals.
const LEVEL: f64 = 0.95;
/// An operation is a stall, too, when it takes so many times what half of its class take at the most...
const MEDIANS: u64 = 1_000;
/// ... and no less than this, which people begin to notice.
const NOTICED_NS: u64 = 100_000_000;

/// A figure that readers are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kept {
    /// Files opened per second.
    Files,
    /// Bytes read per second.
    Bytes,
}

/// What readers keep of their rate when writers start.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Competition {
    /// The phase without writers.
    pub alone: FsopPhase,
    /// The phase with them.
    pub together: FsopPhase,
    /// Of what.
    pub kept: Kept,
    /// The ratio of each repeat: 1 means that nothing was lost.
    pub ratios: Vec<f64>,
    /// The ratio over the repeats, with an interval where they are enough.
    pub estimate: Option<Estimate>,
}

impl Competition {
    /// In how many repeats readers came to nothing.
    #[must_use]
    pub fn starved(&self) -> usize {
        self.ratios.iter().filter(|ratio| **ratio == 0.0).count()
    }

    /// The ratio over the repeats: the estimate, or the median where a repeat in which readers came to nothing leaves none.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        let mut sorted = self.ratios.clone();
        sorted.order_by(f64::total_cmp);
        let at = |place: usize| sorted.get(place).copied().unwrap_or(0.0);
        let median = (at(sorted.len() / 2) + at(sorted.len().saturating_sub(1) / 2)) / 2.0;
        self.estimate.map_or(median, |estimate| estimate.value)
    }

    /// The number of repeats from which on there is an interval.
    #[must_use]
    pub fn repeats_needed() -> usize {
        pairs_needed(LEVEL).unwrap_or(6)
    }
}

/// All readers of a record together, per second.
#[must_use]
pub fn readers_rate(record: &Record, fsop: &FsopRecord, kept: Kept) -> f64 {
    let one = |process: &FsopProcess| match kept {
        Kept::Files => process.class(OpClass::OpenRead).map_or(0, |c| c.latency_ns.count()),
        Kept::Bytes => process.bytes(),
    };
    let sum: u64 = fsop.of_role(Role::Reader).map(one).sum();
    sum as f64 * 1e9 / record.window_ns.max(1) as f64
}

/// Compares every phase with writers with the phase of the same readers alone, repeat by repeat. A phase that failed or was
/// interrupted says nothing.
#[must_use]
pub fn competition(records: &[Record]) -> Vec<Competition> {
    let whole = records.iter().filter(|record| record.ending == Ending::Complete);
    let all: Vec<(&Record, &FsopRecord)> =
        whole.filter_map(|record| Some((record, record.fsop.as_deref()?))).collect();
    let mut phases: Vec<FsopPhase> = Vec::new();
    for (_, fsop) in &all {
        if fsop.phase.readers > 0 && fsop.phase.writers > 0 && !phases.contains(&fsop.phase) {
            phases.push(fsop.phase);
        }
    }
    let kinds = [Kept::Files, Kept::Bytes];
    let pairs = phases.into_iter().flat_map(|phase| kinds.map(|kept| (phase, kept)));
    pairs.filter_map(|(together, kept)| one(&all, together, kept)).collect()
}

fn one(all: &[(&Record, &FsopRecord)], together: FsopPhase, kept: Kept) -> Option<Competition> {
    let alone = FsopPhase { writers: 0, ..together };
    let rate = |phase: FsopPhase, repeat: u32| {
        let found = all.iter().find(|(_, fsop)| fsop.phase == phase && fsop.repeat == repeat);
        found.map(|(record, fsop)| readers_rate(record, fsop, kept))
    };
    let mut repeats: Vec<u32> = all.iter().map(|(_, fsop)| fsop.repeat).collect();
    repeats.dedup();
    let pairs: Vec<(f64, f64)> = repeats
        .into_iter()
        .filter_map(|repeat| Some((rate(alone, repeat)?, rate(together, repeat)?)))
        .filter(|(alone, _)| *alone > 0.0)
        .collect();
    let ratios: Vec<f64> = pairs.iter().map(|(alone, together)| together / alone).collect();
    let (alone_s, together_s): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
    let estimate = log_ratios(&alone_s, &together_s)
        .and_then(|logs| hodges_lehmann(&logs, LEVEL))
        .map(|estimate| estimate.map(f64::exp));
    (!ratios.is_empty()).then_some(Competition {
        alone,
        together,
        kept,
        ratios,
        estimate: estimate.ok(),
    })
}

/// How fairly processes of one role share: by the operations that each ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Fairness {
    /// Jain's index: 1 when all did the same, 1/n when one did everything.
    pub jain: f64,
    /// The most of one over the least of one; none when one did nothing.
    pub most_to_least: Option<f64>,
}

/// The fairness among the processes of a role; none for fewer than two, or when nothing was done.
#[must_use]
pub fn fairness(fsop: &FsopRecord, role: Role) -> Option<Fairness> {
    let done: Vec<f64> = fsop.of_role(role).map(|process| process.operations() as f64).collect();
    let (sum, squares) = done.iter().fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
    if done.len() < 2 || sum == 0.0 {
        return None;
    }
    let most = done.iter().copied().fold(0.0, f64::max);
    let least = done.iter().copied().fold(f64::INFINITY, f64::min);
    Some(Fairness {
        jain: sum * sum / (done.len() as f64 * squares),
        most_to_least: (least > 0.0).then(|| most / least),
    })
}

/// An operation that stood still, and what else happened meanwhile.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stall {
    /// Of whom.
    pub role: Role,
    /// Which of them.
    pub number: u32,
    /// The operation; one that began before the window has its start there.
    pub operation: TimedOp,
    /// How long before the window it began.
    pub before_ns: u64,
    /// It had not ended when the window did.
    pub is_unfinished: bool,
    /// How many times the median of its class, where there is one.
    pub medians: Option<f64>,
    /// The second that it filled most, the last of those that it filled.
    pub second: Option<SecondSample>,
    /// The device with the journal of the filesystem, where that is another one.
    pub journal: Option<String>,
}

impl Stall {
    /// The busiest of the devices under the target in that second, other than that of a journal of its own.
    #[must_use]
    pub fn busiest(&self) -> Option<&DeviceSecond> {
        let devices = self.second.iter().flat_map(|second| &second.devices);
        let own = devices.filter(|device| Some(&device.name) != self.journal.as_ref());
        own.max_by(|a, b| a.busy_share.total_cmp(&b.busy_share))
    }

    /// What the device of the journal did in that second, where that is another one.
    #[must_use]
    pub fn journal_second(&self) -> Option<&DeviceSecond> {
        let mut devices = self.second.iter().flat_map(|second| &second.devices);
        devices.find(|device| Some(&device.name) == self.journal.as_ref())
    }
}

/// The stalls of a record, longest first. Of each process the hundred slowest operations are known, so that no more can be
/// told; operations that crossed the end of the window are among them with their age, those that crossed its start with all
/// that they took.
#[must_use]
pub fn stalls(record: &Record, fsop: &FsopRecord) -> Vec<Stall> {
    let mut stalls = Vec::new();
    let stack = record.targets.first().map(|target| &target.stack);
    let facts = stack.and_then(Stack::filesystem).and_then(|node| node.fs.as_ref());
    let journal = facts.and_then(|facts| facts.journal_device.clone());
    for process in &fsop.processes {
        let median =
            |class| process.class(class).and_then(|record| record.latency_ns.quantile(0.5));
        let stall = |operation: TimedOp, before_ns: u64, is_unfinished| {
            let median_ns = median(operation.class);
            let times = median_ns.map(|ns| operation.took_ns as f64 / ns.max(1) as f64);
            let is_far =
                median_ns.is_some_and(|ns| operation.took_ns >= ns.saturating_mul(MEDIANS));
            let is_long = operation.took_ns >= fsop.spec.stall_ns;
            let end_ns = operation.start_ns.saturating_add(operation.took_ns);
            let end_ns = end_ns.saturating_sub(before_ns);
            (is_long || is_far && operation.took_ns >= NOTICED_NS).then(|| Stall {
                role: process.role,
                number: process.number,
                operation,
                before_ns,
                is_unfinished,
                medians: times,
                second: second_of(fsop, operation.start_ns.saturating_sub(before_ns), end_ns),
                journal: journal.clone(),
            })
        };
        stalls.extend(process.slowest.iter().filter_map(|op| stall(*op, 0, false)));
        let crossed = process.crossings.iter().filter_map(|crossing| {
            let age_ns = crossing.age_at_end_ns(record.window_ns);
            let took_ns = age_ns.or(crossing.took_ns)?;
            let start_ns = u64::try_from(crossing.start_ns).unwrap_or(0);
            let before_ns = crossing.start_ns.min(0).unsigned_abs();
            // What ended with the warm-up is nothing of the window.
            let is_inside = crossing.inside_ns(record.window_ns) > 0;
            let op = TimedOp { class: crossing.class, start_ns, took_ns };
            is_inside.then(|| stall(op, before_ns, age_ns.is_some())).flatten()
        });
        stalls.extend(crossed);
    }
    stalls.order_by_key(|stall| std::cmp::Reverse(stall.operation.took_ns));
    stalls
}

/// The second that has most of a time, the last one of several that are filled by it. What ended just behind a border happened
/// before that.
fn second_of(fsop: &FsopRecord, start_ns: u64, end_ns: u64) -> Option<SecondSample> {
    let overlap_ns = |second: &SecondSample| {
        let begin_ns = second.end_ns.saturating_sub(second.length_ns);
        end_ns.min(second.end_ns).saturating_sub(start_ns.max(begin_ns))
    };
    let most = fsop.seconds.iter().max_by_key(|second| overlap_ns(second));
    most.filter(|second| overlap_ns(second) > 0).or(fsop.seconds.last()).cloned()
}

#[cfg(test)]
#[path = "fsop_tests.rs"]
mod tests;
