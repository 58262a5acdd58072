//! What the repeats of a run come to. Each is one value of its rate and of each percentile; seconds and requests inside of one are
//! never counted.

use crate::figures::Figures;
use crate::rounds;
use fathom_model::record::{Ending, Record, RunKind};
use fathom_stats::Histogram;
use fathom_stats::interval::{Estimate, median_interval};
use fathom_stats::percentiles::{CellPercentile, of_cell};
use serde::Serialize;

/// The percentiles that are looked at.
const QUANTILES: [f64; 3] = [0.5, 0.99, 0.999];

/// Confidence of the intervals.
pub const LEVEL: f64 = 0.95;

/// One row of a run that was repeated.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Repeats {
    /// What people call it.
    pub name: String,
    /// Median over the repeats of their operations per second, with its exact interval from six repeats on.
    pub iops: Estimate,
    /// The fewest operations per second of a repeat.
    pub iops_min: f64,
    /// The most.
    pub iops_max: f64,
    /// Latencies are response times, because requests came at their own times.
    pub is_response: bool,
    /// p50, p99 and p99.9; without those that even all repeats together have too few requests for.
    pub latency: Vec<CellPercentile>,
}

/// A label without the number of its repeat: `randread #3` is `randread`.
#[must_use]
pub fn without_repeat(label: &str) -> &str {
    let is_number = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    label.rsplit_once(" #").filter(|(_, number)| is_number(number)).map_or(label, |(name, _)| name)
}

/// What the repeats of a stored run of any kind come to. Of rounds until steady those of the verification window count: what came
/// before is no repetition. None for kinds that have an answer of their own about their runs.
#[must_use]
pub fn of_run(kind: RunKind, records: &[Record]) -> Vec<Repeats> {
    match kind {
        RunKind::Rounds => study(&rounds::answering(kind, records.to_vec())),
        RunKind::Run if records.iter().all(|record| record.fsop.is_none()) => study(records),
        _ => Vec::new(),
    }
}

/// Each row that has several complete repeats, in the order of the records.
#[must_use]
pub fn study(records: &[Record]) -> Vec<Repeats> {
    let mut rows: Vec<(&str, Vec<&Record>)> = Vec::new();
    for record in records.iter().filter(|record| record.ending == Ending::Complete) {
        let name = without_repeat(&record.label);
        match rows.iter_mut().find(|(known, _)| *known == name) {
            Some((_, of)) => of.push(record),
            None => rows.push((name, vec![record])),
        }
    }
    rows.iter().filter(|(_, of)| of.len() > 1).filter_map(|(name, of)| of_row(name, of)).collect()
}

fn of_row(name: &str, records: &[&Record]) -> Option<Repeats> {
    let iops: Vec<f64> = records.iter().map(|record| Figures::of_record(record).iops).collect();
    let responses = |record: &&Record| Figures::responses(&record.jobs);
    let responses: Option<Vec<Histogram>> = records.iter().map(responses).collect();
    let is_response = responses.is_some();
    let service = || records.iter().map(|record| Figures::of_record(record).latency_ns).collect();
    let latencies: Vec<Histogram> = responses.unwrap_or_else(service);
    let latencies: Vec<&Histogram> = latencies.iter().collect();
    // The bootstrap is drawn by the seed of the first repeat, so that a stored run says the same again.
    let seed = records.first()?.seed;
    let percentile = |q: &f64| of_cell(&latencies, *q, LEVEL, seed).ok();
    Some(Repeats {
        name: name.to_owned(),
        iops: median_interval(&iops, LEVEL).ok()?,
        iops_min: iops.iter().copied().reduce(f64::min)?,
        iops_max: iops.iter().copied().reduce(f64::max)?,
        is_response,
        latency: QUANTILES.iter().filter_map(percentile).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use fathom_model::record::{OpClass, OpenLoopRecord, ResponseClass};

    /// A repeat of 60 s: so many requests of 1 ms, the slowest hundredth of them `slow` ms.
    fn repeat(number: usize, count: u64, slow: u64) -> Record {
        let mut record = fixtures::run(number as i64, 1000.0).records.remove(0);
        record.label = format!("read #{number}");
        let latency_ns = &mut record.jobs[0].classes[0].latency_ns;
        *latency_ns = Histogram::new();
        latency_ns.record_n(1_000_000, count - count / 100);
        latency_ns.record_n(slow * 1_000_000, count / 100);
        record
    }

    #[test]
    fn a_repeat_is_one_value() {
        let counts = [6000, 6600, 5400, 6000, 6060, 5940, 7200];
        let mut records: Vec<Record> =
            (1..).zip(counts).map(|(number, count)| repeat(number, count, 9)).collect();
        records[6].ending = Ending::Interrupted;
        let [found] = study(&records).try_into().expect("one row");
        let Repeats { name, iops, iops_min, iops_max, is_response, latency } = found;
        assert_eq!((name.as_str(), iops_min, iops_max, is_response), ("read", 90.0, 110.0, false));
        // Six values: the interval is all of them, and holds the median of such runs with 1 - 2 / 64.
        let interval = iops.interval.expect("six");
        assert_eq!((iops.value, iops.count), (100.0, 6));
        assert_eq!((interval.low, interval.high, interval.coverage), (90.0, 110.0, 0.968_75));
        let quantiles: Vec<f64> = latency.iter().map(|of| of.quantile).collect();
        assert_eq!(quantiles, QUANTILES, "36 000 requests carry p99.9, 6000 do not");
        let runs: Vec<usize> =
            latency.iter().map(|of| of.across_runs_ns.map_or(0, |runs| runs.count)).collect();
        assert_eq!(runs, [6, 6, 0]);
        assert_eq!(study(&records[..1]), [], "one is no repeat");
    }

    #[test]
    fn rounds_before_the_steady_ones_are_no_repeats() {
        let counts = [60_000, 12_000, 6000, 6000, 6000, 6000, 6000];
        let records: Vec<Record> =
            (1..).zip(counts).map(|(number, count)| repeat(number, count, 9)).collect();
        let found = of_run(RunKind::Rounds, &records).remove(0);
        assert_eq!((found.iops.count, found.iops_max), (5, 100.0));
        assert_eq!(of_run(RunKind::Run, &records)[0].iops.count, 7);
        assert_eq!(of_run(RunKind::Against, &records), []);
    }

    /// Repeats of an open loop answer with what a client waits.
    #[test]
    fn response_times_where_there_are_any() {
        let open = |number| {
            let mut record = repeat(number, 6000, 9);
            let mut response_ns = Histogram::new();
            response_ns.record_n(50_000_000, 6000);
            let class = OpClass::Read;
            let unfinished_ns = Histogram::new();
            let classes = vec![ResponseClass { class, response_ns, unfinished_ns }];
            record.jobs[0].open_loop = Some(OpenLoopRecord { classes, ..Default::default() });
            record
        };
        let found = &study(&[open(1), open(2)])[0];
        assert!(found.is_response);
        let p50 = found.latency[0].merged_ns as f64;
        assert!((p50 / 50e6 - 1.0).abs() < 0.01, "{p50}");
        assert!(!study(&[open(1), repeat(2, 6000, 9)])[0].is_response, "some have none");
    }

    #[test]
    fn numbers_of_repeats() {
        for (label, name) in
            [("a #12", "a"), ("a #x", "a #x"), ("a #", "a #"), ("a (b), 3 #1", "a (b), 3")]
        {
            assert_eq!(without_repeat(label), name);
        }
    }
}
