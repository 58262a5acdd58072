//! Whole distributions against each other: whether all requests became slower, or only the slow ones.

use super::metrics;
use super::rows::{Row, Unit};
use fathom_model::record::OpClass;
use fathom_stats::Histogram;
use fathom_stats::percentiles::{Shift, shift_plot};
use serde::Serialize;

/// The latencies of one class of requests at each tenth of them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassShift {
    /// Which.
    pub class: OpClass,
    /// From the fastest tenth to the ninth.
    pub deciles: Vec<Shift>,
}

impl ClassShift {
    /// True when the fastest and the slowest tenth changed differently: their intervals have nothing in common.
    #[must_use]
    pub fn is_uneven(&self) -> bool {
        let ends = self.deciles.first().zip(self.deciles.last());
        let intervals = ends.and_then(|(a, b)| a.ratio.interval.zip(b.ratio.interval));
        intervals.is_some_and(|(a, b)| a.high < b.low || b.high < a.low)
    }
}

/// The classes that matter most of a row. A run is one distribution: its repetitions are merged. A class of which some run
/// has fewer than a hundred requests is left out.
pub(super) fn of_row(row: &Row<'_>, in_pairs: bool, level: f64) -> Vec<ClassShift> {
    let Some(first) = row.a.first().and_then(|unit| unit.cells.first()) else { return Vec::new() };
    let Some(job) = first.record.jobs.get(first.job) else { return Vec::new() };
    let of_class = |class: OpClass| {
        let (a, b) = (distributions(&row.a, class)?, distributions(&row.b, class)?);
        let (a, b): (Vec<_>, Vec<_>) = (a.iter().collect(), b.iter().collect());
        let deciles = shift_plot(&a, &b, in_pairs, level).ok()?;
        Some(ClassShift { class, deciles })
    };
    metrics::main_classes(job).into_iter().filter_map(of_class).collect()
}

/// The latencies of each run; none where one has no such requests.
fn distributions(units: &[Unit<'_>], class: OpClass) -> Option<Vec<Histogram>> {
    let of_run = |unit: &Unit<'_>| {
        let mut all = Histogram::new();
        for cell in &unit.cells {
            all.merge(&*metrics::latencies(cell.record.jobs.get(cell.job)?, class)?);
        }
        Some(all)
    };
    units.iter().map(of_run).collect()
}

#[cfg(test)]
mod tests {
    use crate::compare::{Options, Run, Side, compare};
    use crate::fixtures;
    use fathom_stats::Histogram;

    /// Runs made in turn: the fast nine tenths take 1 ms, of B the slow tenth `slow` times 10 ms; what drifts hits both.
    fn sides(slow: f64, blocks: i64) -> (Side, Side) {
        let side = |name: &str, slow: f64, after: i64| {
            let run = |block: i64| -> Run {
                let mut run = fixtures::run(10 * block + after, 1000.0);
                let drift = 1.0 + 0.1 * block as f64;
                let mut latency_ns = Histogram::new();
                for request in 0..1000u32 {
                    let usual = 1e6 + 100.0 * f64::from(request);
                    let ns = if request < 850 { usual } else { 10.0 * usual * slow };
                    latency_ns.record((drift * ns) as u64);
                }
                run.records[0].jobs[0].classes[0].latency_ns = latency_ns;
                run
            };
            Side { name: name.into(), runs: (0..blocks).map(run).collect() }
        };
        (side("A", 1.0, 0), side("B", slow, 5))
    }

    #[test]
    fn a_shift_says_which_requests_became_slower() {
        let (a, b) = sides(2.0, 8);
        let found = compare(&a, &b, &Options::default());
        let [shift] = found.rows[0].shifts.as_slice() else { panic!("{:?}", found.rows[0].shifts) };
        let ratio = |at: usize| shift.deciles[at].ratio;
        assert_eq!((ratio(0).count, ratio(8).count), (8, 8), "pairs");
        let (fast, tail) = (ratio(0).interval.expect("eight"), ratio(8).interval.expect("eight"));
        assert!(fast.low > 0.98 && fast.high < 1.02, "{fast:?}");
        assert!(tail.low > 1.95 && tail.high < 2.05, "{tail:?}");
        assert!(shift.is_uneven());
        let (a, b) = sides(1.0, 8);
        let same = compare(&a, &b, &Options::default());
        assert!(!same.rows[0].shifts[0].is_uneven());
        let (a, b) = sides(2.0, 3);
        let few = compare(&a, &b, &Options::default()).rows[0].shifts[0].clone();
        assert!(few.deciles.iter().all(|of| of.ratio.interval.is_none()) && !few.is_uneven());
    }

    #[test]
    fn a_run_of_few_requests_has_no_tenths() {
        let (mut a, b) = sides(2.0, 8);
        let latency_ns = &mut a.runs[3].records[0].jobs[0].classes[0].latency_ns;
        *latency_ns = Histogram::new();
        latency_ns.record_n(1_000_000, 99);
        assert_eq!(compare(&a, &b, &Options::default()).rows[0].shifts, []);
    }
}
