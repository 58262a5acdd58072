//! `fathom size`: which smaller test sets and shorter runs give the same answer as the largest and longest one.
//!
//! "The same" is a claim of its own: the whole interval of the ratio lies within the margin (two one-sided tests at 5 %, so an
//! interval of 90 %). A difference that was not found is no sameness.

use crate::saturate::throughput;
use crate::verdict::{self, Study};
use fathom_base::order::Order;
use fathom_base::units::{format_duration, format_size};
use fathom_model::record::{Ending, OpClass, Record};
use fathom_model::stack::Node;
use fathom_model::workload::{Extent, Job};
use fathom_stats::equivalence::{Better, Decision, Question, compare_unpaired};
use fathom_stats::interval::{Estimate, median_interval};
use serde::Serialize;

/// The margin where nobody says.
pub const MARGIN: f64 = 0.05;
/// Two one-sided tests at 5 % are an interval of 90 %; three runs on either side can give one.
const LEVEL: f64 = 0.90;
/// Runs on either side without which nothing is decided.
pub const RUNS_MIN: usize = 3;
/// Smaller sets are never tried: what is in any cache says nothing.
const SIZE_BYTES_MIN: u64 = 16 << 20;
/// Sizes beside the largest.
const SIZES_MAX: u32 = 5;
/// Below this share of reads from the device, something else answered.
const FROM_DEVICE_MIN: f64 = 0.9;

/// Why a cell agrees, or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The largest and longest: what the others are held against.
    Reference,
    /// No difference larger than the margin.
    Agrees,
    /// A cache answered.
    Cache,
    /// It differs.
    Differs,
    /// Its runs, or those of the reference, vary more than the margin allows to tell.
    TooNoisy,
    /// Too few runs.
    TooFew,
}

/// Runs of one size and duration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cell {
    /// Bytes that were used.
    pub size_bytes: u64,
    /// Length of each run's window.
    pub duration_ns: u64,
    /// True when the runs are the first part of the reference runs, and not runs of their own.
    pub is_part: bool,
    /// Requests per second.
    pub iops: Estimate,
    /// Against the reference: 1.07 is 7 % more.
    pub ratio: Option<Estimate>,
    /// Share of what was read that came from the devices; none where that cannot be told or nothing was read.
    pub from_device: Option<f64>,
    /// What follows.
    pub outcome: Outcome,
    /// In words.
    pub reason: String,
}

/// What the records come to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sizes {
    /// The reference, then its shorter parts, then smaller sizes, falling.
    pub cells: Vec<Cell>,
    /// The margin, as a share.
    pub margin: f64,
    /// The smallest size and shortest duration that agree; none when only the reference is good enough.
    pub answer: Option<(u64, u64)>,
    /// The next smaller set that was tried, as an index into the cells: it does not agree. None where all agree.
    pub rejected: Option<usize>,
}

impl Sizes {
    /// The sizes between which the answer lies: the larger one agrees (or is the reference), the smaller one was rejected
    /// for what it is, not for noise. None where they are near each other, and where nothing is known.
    #[must_use]
    pub fn gap(&self) -> Option<(u64, u64)> {
        let rejected = self.cells.get(self.rejected?)?;
        let is_clear = matches!(rejected.outcome, Outcome::Differs | Outcome::Cache);
        let agrees =
            self.answer.map_or_else(|| self.cells.first().map(|c| c.size_bytes), |a| Some(a.0))?;
        let is_wide = agrees as f64 > NEAR * rejected.size_bytes as f64;
        (is_clear && is_wide).then_some((agrees, rejected.size_bytes))
    }

    /// The size to try next: in the middle of the gap on a scale of ratios, in whole MiB.
    #[must_use]
    pub fn between(&self) -> Option<u64> {
        let (agrees, rejected) = self.gap()?;
        let middle = ((agrees as f64 * rejected as f64).sqrt() / MIB as f64).round() as u64 * MIB;
        (rejected < middle && middle < agrees).then_some(middle)
    }
}

/// The sizes to try below the largest, falling: at most five, each the same part of the next larger one.
#[must_use]
pub fn smaller(largest_bytes: u64) -> Vec<u64> {
    let ratio = largest_bytes / SIZE_BYTES_MIN;
    let factor = (1..40).map(|bits| 1u64 << bits).find(|f| f.saturating_pow(SIZES_MAX) >= ratio);
    let factor = factor.unwrap_or(2);
    let next = |bytes: &u64| Some(bytes / factor / MIB * MIB).filter(|b| *b >= SIZE_BYTES_MIN);
    std::iter::successors(Some(largest_bytes), next).skip(1).take(SIZES_MAX as usize).collect()
}

const MIB: u64 = 1 << 20;
/// Sizes this near are not told apart any more.
const NEAR: f64 = 1.25;

/// The real-life test set: the caches that can answer, times what the application has for each byte of memory.
///
/// A cache is then as small against the test set as it is against the real data.
#[must_use]
pub fn real_life_bytes(caches_bytes: u64, data_bytes: u64, memory_bytes: u64) -> u64 {
    let bytes = u128::from(caches_bytes) * u128::from(data_bytes) / u128::from(memory_bytes.max(1));
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// The size that a record used.
fn size_bytes(record: &Record) -> u64 {
    let whole = record.targets.first().map_or(0, |target| target.size_bytes);
    let span = |job: &Job| job.span.unwrap_or(Extent::Share(1.0)).bytes(whole);
    record.workload.jobs.iter().map(span).max().unwrap_or(whole)
}

fn duration_ns(record: &Record) -> u64 {
    record.workload.jobs.iter().filter_map(|job| job.duration_ns).max().unwrap_or(0)
}

fn complete(records: &[Record]) -> impl Iterator<Item = &Record> {
    records.iter().filter(|record| record.ending == Ending::Complete)
}

/// The runs of the largest size and longest duration.
fn reference(records: &[Record]) -> Vec<&Record> {
    let largest = complete(records).map(|r| (size_bytes(r), duration_ns(r))).max();
    complete(records).filter(|r| Some((size_bytes(r), duration_ns(r))) == largest).collect()
}

/// Requests per second in the first part of a run: of its whole intervals up to there.
fn throughput_until(record: &Record, until_ns: u64) -> Option<f64> {
    const WHOLE: [OpClass; 5] =
        [OpClass::Read, OpClass::Write, OpClass::Commit, OpClass::Trim, OpClass::Zero];
    let of_job = |job: &fathom_model::record::JobRecord| {
        let parts =
            job.series.iter().take_while(|i| i.start_ns + i.length_ns <= until_ns + SLACK_NS);
        let (mut count, mut length_ns) = (0, 0);
        for part in parts {
            length_ns += part.length_ns;
            let classes = part.classes.iter().filter(|c| WHOLE.contains(&c.class));
            count += classes.map(|c| c.latency_ns.count()).sum::<u64>();
        }
        (length_ns * 10 >= until_ns * 9).then(|| count as f64 / (length_ns.max(1) as f64 / 1e9))
    };
    record.jobs.iter().map(of_job).sum()
}

/// Intervals end a little late.
const SLACK_NS: u64 = 50_000_000;

/// Durations shorter than that of the reference, rising.
fn shorter(reference_ns: u64) -> impl Iterator<Item = u64> {
    const SECONDS: [u64; 7] = [1, 2, 5, 10, 20, 30, 60];
    SECONDS.into_iter().map(|s| s * 1_000_000_000).filter(move |ns| *ns < reference_ns)
}

/// The shortest duration whose first parts agree with the whole reference runs, and those of all longer durations as well;
/// the whole duration where none does.
#[must_use]
pub fn short_enough(records: &[Record], margin: f64) -> u64 {
    let reference = reference(records);
    let Some(whole_ns) = reference.first().map(|r| duration_ns(r)) else { return 0 };
    let agreeing = parts(&reference, margin).into_iter().rev();
    let agreeing = agreeing.take_while(|cell| cell.outcome == Outcome::Agrees);
    agreeing.last().map_or(whole_ns, |cell| cell.duration_ns)
}

/// The first parts of the reference runs, by rising duration.
fn parts(reference: &[&Record], margin: f64) -> Vec<Cell> {
    let Some(first) = reference.first() else { return Vec::new() };
    let whole: Vec<f64> = reference.iter().map(|r| throughput(r)).collect();
    let part = |ns: u64| {
        let own: Option<Vec<f64>> = reference.iter().map(|r| throughput_until(r, ns)).collect();
        let mut cell = cell(size_bytes(first), ns, &own?, &whole, margin)?;
        cell.is_part = true;
        if cell.outcome == Outcome::Differs {
            cell.reason = format!("too short: {}, as long as it warms up", cell.reason);
        }
        Some(cell)
    };
    shorter(duration_ns(first)).filter_map(part).collect()
}

/// A cell against the reference.
fn cell(
    size_bytes: u64,
    duration_ns: u64,
    own: &[f64],
    reference: &[f64],
    margin: f64,
) -> Option<Cell> {
    let iops = median_interval(own, LEVEL).ok()?;
    let question =
        Question { margin_percent: margin * 100.0, level: LEVEL, better: Better::Higher };
    let compared = compare_unpaired(reference, own, &question).ok();
    let is_enough = own.len() >= RUNS_MIN && reference.len() >= RUNS_MIN;
    let decision = compared.as_ref().map(|c| c.decision).filter(|_| is_enough);
    let ratio = compared.map(|c| c.ratio);
    let change = ratio.map_or_else(String::new, |ratio| change_text(&ratio));
    let (outcome, reason) = match decision {
        None => (Outcome::TooFew, format!("only {} runs: {RUNS_MIN} are needed", own.len())),
        Some(Decision::Equivalent) => (Outcome::Agrees, change),
        Some(Decision::Faster | Decision::Slower) => (Outcome::Differs, change),
        Some(Decision::Inconclusive) => {
            let text = format!("{change}: too wide for a margin of {:.3} %", margin * 100.0);
            (Outcome::TooNoisy, text.replace(".000 %", " %"))
        }
    };
    let (is_part, from_device) = (false, None);
    Some(Cell { size_bytes, duration_ns, is_part, iops, ratio, from_device, outcome, reason })
}

/// `+7.1 % (+5.0 to +9.3 %)`.
fn change_text(ratio: &Estimate) -> String {
    let percent = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0);
    let range = ratio.interval.map(|of| format!(" ({})", of.range(percent)));
    percent(ratio.value) + &range.unwrap_or_default()
}

/// Share of the bytes read that the devices delivered: those at the top, which the page cache is above, or those at the
/// bottom, which other caches are above, whichever is less. Reads of others on the same devices hide what a cache answered.
fn from_device(records: &[&Record]) -> Option<f64> {
    let (mut asked, mut top, mut bottom) = (0u64, 0u64, 0u64);
    for record in records {
        let reads = record.jobs.iter().filter_map(|job| job.class(OpClass::Read));
        asked += reads.map(|class| class.bytes).sum::<u64>();
        let seen = |nodes: Vec<&Node>| -> Option<u64> {
            let is_one = |name: &str| nodes.iter().any(|n| n.devno.is_some() && n.name == name);
            let own: Vec<u64> =
                record.devices.iter().filter(|d| is_one(&d.name)).map(|d| d.read_bytes).collect();
            (!own.is_empty()).then(|| own.iter().sum())
        };
        let stack = &record.targets.first()?.stack;
        top += seen(stack.top_block_devices())?;
        bottom += seen(stack.leaves())?;
    }
    (asked > 0).then(|| (top.min(bottom) as f64 / asked as f64).min(1.0))
}

/// Everything that can be said; none without a whole reference run.
#[must_use]
pub fn study(records: &[Record], margin: f64) -> Option<Sizes> {
    let reference = reference(records);
    let first = *reference.first()?;
    let whole: Vec<f64> = reference.iter().map(|r| throughput(r)).collect();
    let mut of_reference = cell(size_bytes(first), duration_ns(first), &whole, &whole, margin)?;
    of_reference.outcome = Outcome::Reference;
    of_reference.from_device = from_device(&reference);
    (of_reference.ratio, of_reference.reason) = (None, spread_text(&whole, margin));
    let mut cells = vec![of_reference];
    cells.extend(parts(&reference, margin).into_iter().rev());
    let mut others: Vec<(u64, u64)> =
        complete(records).map(|r| (size_bytes(r), duration_ns(r))).collect();
    others.order_by(|a, b| b.cmp(a));
    others.dedup();
    for (size, duration) in others.into_iter().skip(1) {
        let own: Vec<&Record> = complete(records)
            .filter(|r| (size_bytes(r), duration_ns(r)) == (size, duration))
            .collect();
        let rates: Vec<f64> = own.iter().map(|r| throughput(r)).collect();
        let Some(mut cell) = cell(size, duration, &rates, &whole, margin) else { continue };
        cell.from_device = from_device(&own);
        explain(&mut cell, first, cells[0].from_device);
        cells.push(cell);
    }
    let (answer, rejected) = (answer(&cells), rejected(&cells));
    Some(Sizes { cells, margin, answer, rejected })
}

/// How far the reference runs lie apart.
fn spread_text(runs: &[f64], margin: f64) -> String {
    let most = runs.iter().copied().fold(0.0, f64::max);
    let least = runs.iter().copied().fold(f64::INFINITY, f64::min);
    let apart = most / least.max(1e-9) - 1.0;
    let text = format!("the runs lie {:.1} % apart", apart * 100.0);
    if apart > 2.0 * margin { text + ": hardly anything can agree with it" } else { text }
}

/// Says why a cell differs, where that can be told.
fn explain(cell: &mut Cell, reference: &Record, reference_from_device: Option<f64>) {
    let share = cell.from_device.unwrap_or(1.0);
    // A shorter run of the same set is no worse than the reference for a cache that answers in both.
    let is_smaller = cell.size_bytes < size_bytes(reference);
    let usual = if is_smaller { 1.0 } else { reference_from_device.unwrap_or(1.0) };
    if share < FROM_DEVICE_MIN * usual {
        cell.outcome = Outcome::Cache;
        cell.reason = format!(
            "cache: {:.0} % of what was read did not come from the device; {}",
            (1.0 - share) * 100.0,
            cell.reason
        );
        return;
    }
    let is_faster = cell.ratio.is_some_and(|ratio| ratio.value > 1.0);
    let Some(target) = reference.targets.first() else { return };
    if cell.outcome != Outcome::Differs || !is_faster || cell.size_bytes == size_bytes(reference) {
        return;
    }
    let caches_bytes = caches_bytes(reference);
    if cell.size_bytes < 2 * caches_bytes {
        let text =
            format!("; less than twice the caches ({}) of the drives", format_size(caches_bytes));
        cell.reason += &text;
    } else if target.stack.rotational() == Some(true) {
        cell.reason += "; the heads travel less";
    }
}

/// The caches that can answer instead of the device: for direct I/O those of controller and drives.
fn caches_bytes(record: &Record) -> u64 {
    let of = |t: &fathom_model::record::TargetRecord| {
        t.device_cache_bytes + if t.direct { 0 } else { t.memory_bytes }
    };
    record.targets.first().map_or(0, of)
}

/// The smallest size that agrees, as all larger ones do, at the duration that was measured.
fn answer(cells: &[Cell]) -> Option<(u64, u64)> {
    let own = cells.iter().filter(|cell| cell.outcome != Outcome::Reference && !cell.is_part);
    let agreeing = own.take_while(|cell| cell.outcome == Outcome::Agrees);
    agreeing.last().map(|cell| (cell.size_bytes, cell.duration_ns))
}

/// The largest size of its own that does not agree.
fn rejected(cells: &[Cell]) -> Option<usize> {
    let is_own = |cell: &Cell| cell.outcome != Outcome::Reference && !cell.is_part;
    cells.iter().position(|cell| is_own(cell) && cell.outcome != Outcome::Agrees)
}

/// The answer as the settings that make `fathom run` do the same.
#[must_use]
pub fn settings((size_bytes, duration_ns): (u64, u64), size_key: &str) -> String {
    let size = format_size(size_bytes).replace(' ', "").replace("iB", "");
    let exact = fathom_base::units::parse_size(&size).ok() == Some(size_bytes);
    let size = if exact { size } else { format!("{}M", size_bytes / MIB) };
    let duration = format_duration(duration_ns).replace(' ', "");
    let is_plain = fathom_base::units::parse_duration_ns(&duration).ok() == Some(duration_ns);
    let duration = if is_plain { duration } else { format!("{}s", duration_ns / 1_000_000_000) };
    format!("{size_key}={size} duration={duration}")
}

/// Judges the records: those of the reference. That smaller and shorter runs mislead is what was to be shown.
#[must_use]
pub fn judge(records: &[Record]) -> Study {
    let mut counted: Vec<Record> = reference(records).into_iter().cloned().collect();
    counted.extend(records.iter().filter(|r| r.ending != Ending::Complete).cloned());
    verdict::judge(&counted)
}

#[cfg(test)]
#[path = "size_tests.rs"]
mod tests;
