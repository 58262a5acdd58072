//! `fathom saturate`: what its records come to. Throughput and latency by requests in flight, the knee, what limited it,
//! and the highest load that keeps a latency bound.

pub mod bound;
pub mod limit;
pub mod search;
pub mod start;

use crate::rules;
use crate::verdict::{self, Study};
use bound::{Answer, Bound, Kept};
use fathom_base::order::Order;
use fathom_model::finding::{Finding, Verdict};
use fathom_model::record::{Ending, OpClass, Record};
use fathom_model::workload::Job;
use fathom_stats::Histogram;
use fathom_stats::interval::{self, Estimate};
use limit::Limit;
use search::{Knee, Runs};
use serde::Serialize;

/// All runs with the same number of requests in flight.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Requests in flight that were asked for.
    pub concurrency: u64,
    /// Requests per second, a write with its sync as one: the median of the runs, with its interval from six runs on.
    pub iops: Estimate,
    /// Bytes per second, median.
    pub bytes_per_s: f64,
    /// Service times: each run's percentile, then the median of the runs; none where a run has too few requests for it.
    pub latency_ns_p50: Option<u64>,
    /// See `latency_ns_p50`.
    pub latency_ns_p99: Option<u64>,
    /// The longest of all runs.
    pub latency_ns_max: Option<u64>,
    /// Requests in flight that fathom held, on average.
    pub in_flight: Option<f64>,
    /// Requests in flight on the devices at the top of the stack, by their own counters.
    pub in_flight_device: Option<f64>,
    /// CPU time of fathom as a share of one CPU.
    pub cpu_share: f64,
    /// Members that had requests in flight all the time, of how many.
    pub members_busy: (usize, usize),
}

/// All runs with the same rate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OpenRow {
    /// Requests per second that were due.
    pub rate: f64,
    /// Runs.
    pub runs: usize,
    /// Of them, those that kept the bound.
    pub kept: usize,
    /// Response times; see [`Row::latency_ns_p50`].
    pub response_ns_p50: Option<u64>,
    /// See `response_ns_p50`.
    pub response_ns_p99: Option<u64>,
    /// The longest of all runs.
    pub response_ns_max: Option<u64>,
    /// What the bound is about: the smallest and the largest of the runs.
    pub figure_ns: Option<(u64, u64)>,
    /// Runs in which fathom itself was late, for lack of CPU: the storage may do better.
    pub late: usize,
}

/// The answer about a bound.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OfBound {
    /// `p99`, `max`.
    pub what: String,
    /// The most that it may be.
    pub most_ns: u64,
    /// What was found.
    pub answer: Answer,
    /// Every rate that was tried, rising.
    pub rows: Vec<OpenRow>,
}

/// What the records come to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Saturation {
    /// Rising numbers of requests in flight.
    pub rows: Vec<Row>,
    /// Where throughput stops growing; none while it still grows.
    pub knee: Option<Knee>,
    /// Requests in flight with the highest throughput.
    pub highest: u64,
    /// What limited throughput.
    pub limit: Limit,
    /// The highest load that keeps the bound, when there was one.
    pub bound: Option<OfBound>,
}

/// Requests in flight that a record was asked for.
#[must_use]
pub fn concurrency(record: &Record) -> u64 {
    record.workload.jobs.iter().map(Job::concurrency).sum()
}

/// The rate of an open-loop record.
#[must_use]
pub fn rate(record: &Record) -> Option<f64> {
    record.workload.jobs.first().and_then(|job| job.rate)
}

/// Requests: a write with its sync is one, and its parts are no further ones.
const WHOLE: [OpClass; 5] =
    [OpClass::Read, OpClass::Write, OpClass::Commit, OpClass::Trim, OpClass::Zero];

/// Service times of all jobs.
fn latency_ns(record: &Record) -> Histogram {
    let mut all = Histogram::new();
    record.jobs.iter().for_each(|job| all.merge(&job.merged(&WHOLE).latency_ns));
    all
}

/// Requests per second of a record.
#[must_use]
pub fn throughput(record: &Record) -> f64 {
    let seconds = |window_ns: u64| window_ns.max(1) as f64 / 1e9;
    let each = record
        .jobs
        .iter()
        .map(|j| j.merged(&WHOLE).latency_ns.count() as f64 / seconds(j.window_ns));
    each.sum()
}

/// The records that count: closed loops that ended as planned.
fn closed(records: &[Record]) -> impl Iterator<Item = &Record> {
    records.iter().filter(|r| rate(r).is_none() && r.ending == Ending::Complete)
}

/// Throughputs by requests in flight, in the order in which they were measured.
#[must_use]
pub fn runs(records: &[Record]) -> Runs {
    let mut runs = Runs::default();
    for record in closed(records) {
        runs.push(concurrency(record), throughput(record));
    }
    runs
}

/// Everything that can be said of the records of one search; none without a whole closed-loop run.
#[must_use]
pub fn study(records: &[Record], bound: Option<&Bound>) -> Option<Saturation> {
    let runs = runs(records);
    let row = |c: &u64| {
        let own: Vec<&Record> = closed(records).filter(|r| concurrency(r) == *c).collect();
        row(*c, &own)
    };
    let rows: Vec<Row> = runs.concurrencies().iter().filter_map(row).collect();
    let best = rows.iter().reduce(|a, b| if b.iops.value > a.iops.value { b } else { a })?;
    let highest = best.concurrency;
    let knee = search::knee(&runs);
    let at_knee = typical(records, knee.map_or(highest, |knee| knee.concurrency))?;
    let limit = limit::limit(typical(records, highest)?, at_knee);
    let bound = bound.map(|bound| of_bound(records, bound, best.iops.value));
    Some(Saturation { knee, highest, limit, bound, rows })
}

/// The run with the median throughput among those with so many in flight (the lower one of two).
fn typical(records: &[Record], of: u64) -> Option<&Record> {
    let mut own: Vec<&Record> = closed(records).filter(|r| concurrency(r) == of).collect();
    own.order_by(|a, b| throughput(a).total_cmp(&throughput(b)));
    own.get(own.len().checked_sub(1)? / 2).copied()
}

fn row(concurrency: u64, own: &[&Record]) -> Option<Row> {
    let each = |figure: fn(&Record) -> f64| own.iter().map(|r| figure(r)).collect::<Vec<_>>();
    let bytes_per_s = |r: &Record| {
        let per_job = |j: &fathom_model::record::JobRecord| {
            j.transfers().bytes as f64 / (j.window_ns.max(1) as f64 / 1e9)
        };
        r.jobs.iter().map(per_job).sum::<f64>()
    };
    let cpu = |r: &Record| r.process_cpu.total_ns() as f64 / r.window_ns.max(1) as f64;
    let latencies: Vec<Histogram> = own.iter().map(|r| latency_ns(r)).collect();
    let in_flight =
        own.iter().filter_map(|r| r.jobs.iter().map(|j| j.in_flight_mean()).sum::<Option<f64>>());
    let at_device = own.iter().filter_map(|r| limit::in_flight_at_top(r));
    let members = limit::members(own.first()?);
    Some(Row {
        concurrency,
        iops: interval::median_interval(&each(throughput), search::LEVEL).ok()?,
        bytes_per_s: interval::median(&each(bytes_per_s)).ok()?,
        latency_ns_p50: percentile(&latencies, 0.5),
        latency_ns_p99: percentile(&latencies, 0.99),
        latency_ns_max: latencies.iter().filter_map(Histogram::max).max(),
        in_flight: interval::median(&in_flight.collect::<Vec<_>>()).ok(),
        in_flight_device: interval::median(&at_device.collect::<Vec<_>>()).ok(),
        cpu_share: interval::median(&each(cpu)).ok()?,
        members_busy: (members.iter().filter(|m| m.busy_share >= 0.95).count(), members.len()),
    })
}

/// Each run's percentile, then the median of the runs; none when one of them has too few values.
fn percentile(latencies: &[Histogram], q: f64) -> Option<u64> {
    let of_run = |own: &Histogram| {
        let is_enough = fathom_stats::quantile::is_supported(own.count(), q);
        own.quantile(q).filter(|_| is_enough).map(|ns| ns as f64)
    };
    let each: Option<Vec<f64>> = latencies.iter().map(of_run).collect();
    interval::median(&each?).ok().map(|ns| ns as u64)
}

fn of_bound(records: &[Record], bound: &Bound, top: f64) -> OfBound {
    let open = || records.iter().filter(|r| rate(r).is_some() && r.ending == Ending::Complete);
    let mut search = bound::Search::new(bound.of, top, top);
    let mut rates: Vec<f64> = Vec::new();
    for record in open() {
        let own = rate(record).unwrap_or(0.0);
        search.measured(own, bound::kept(record, bound));
        rates.push(own);
    }
    rates.order_by(f64::total_cmp);
    rates.dedup();
    let row = |own: f64| {
        let records: Vec<&Record> = open().filter(|r| rate(r) == Some(own)).collect();
        let responses: Vec<Histogram> = records.iter().map(|r| bound::response_ns(r)).collect();
        let figures: Vec<u64> = responses.iter().filter_map(|h| bound.figure_ns(h)).collect();
        OpenRow {
            rate: own,
            runs: records.len(),
            kept: records.iter().filter(|r| bound::kept(r, bound) == Kept::Yes).count(),
            response_ns_p50: percentile(&responses, 0.5),
            response_ns_p99: percentile(&responses, 0.99),
            response_ns_max: responses.iter().filter_map(Histogram::max).max(),
            figure_ns: figures.iter().min().copied().zip(figures.iter().max().copied()),
            late: records.iter().filter(|r| crate::open_loop::is_late(r)).count(),
        }
    };
    OfBound {
        what: bound.what(),
        most_ns: bound.most_ns,
        answer: search.answer(),
        rows: rates.into_iter().map(row).collect(),
    }
}

/// The rate to try first: the throughput of the largest number in flight whose service times keep the bound, and a little
/// less, because response times are longer. Half the highest throughput where none does.
#[must_use]
pub fn first_rate(records: &[Record], bound: &Bound) -> f64 {
    let keeps = |r: &&Record| bound.figure_ns(&latency_ns(r)).is_some_and(|ns| ns <= bound.most_ns);
    let best = closed(records).filter(keeps).map(throughput).fold(0.0, f64::max);
    let top = closed(records).map(throughput).fold(0.0, f64::max);
    if best > 0.0 { best * 0.9 } else { top * 0.5 }
}

/// Judges the records of a search. What it does on purpose is no doubt: going beyond the knee until the CPU is the limit,
/// and asking for more than can be done.
#[must_use]
pub fn judge(records: &[Record]) -> Study {
    let is_overloaded =
        |r: &&Record| rate(r).is_some() && crate::open_loop::overloaded(r).is_some();
    let mut sweep: Vec<Record> = runs(records)
        .concurrencies()
        .iter()
        .filter_map(|c| typical(records, *c))
        .cloned()
        .collect();
    sweep.order_by_key(concurrency);
    let is_swept = |r: &&Record| sweep.iter().any(|of| of.started_unix_ns == r.started_unix_ns);
    let rest: Vec<Record> =
        records.iter().filter(|r| !is_swept(r) && !is_overloaded(r)).cloned().collect();
    let mut findings = verdict::judge(&sweep).findings;
    // The CPU is judged by the sweep as a whole.
    let others = verdict::judge(&rest).findings.into_iter();
    let others = others.filter(|finding| finding.id != rules::GENERATOR_BOUND);
    for finding in others.filter(|finding| finding.id != "generator-bound-beyond-knee") {
        verdict::add(&mut findings, finding, None);
    }
    findings.order_by_key(|finding: &Finding| std::cmp::Reverse(finding.severity));
    let verdict = Verdict::of(&findings);
    Study { findings, verdict }
}

#[cfg(test)]
#[path = "saturate/study_tests.rs"]
mod tests;
