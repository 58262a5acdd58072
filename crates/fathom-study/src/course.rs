//! The course and the spread of one job, as charts draw them: rate and latency over time, the distribution, the heat map.
//!
//! Stretches of time are intervals put together, never a selection of them: histograms add up exactly.

use fathom_model::record::{IntervalRecord, JobRecord, OpClass};
use fathom_stats::histogram::bucket_bounds;
use fathom_stats::quantile::is_supported;
use fathom_stats::{Histogram, SparseHistogram};

/// Rows of a heat map for each power of ten.
const ROWS_PER_DECADE: f64 = 8.0;

/// One stretch of a job's window.
#[derive(Debug, Clone, PartialEq)]
pub struct Stretch {
    /// From the start of the window.
    pub start_ns: u64,
    /// How long it is.
    pub length_ns: u64,
    /// Operations that ended in it, per second.
    pub per_s: f64,
    /// Bytes of reads and writes that ended in it, per second.
    pub bytes_per_s: f64,
    /// Median latency; none with fewer than two operations.
    pub latency_ns_p50: Option<u64>,
    /// 99th percentile; none where too few operations ended to know it.
    pub latency_ns_p99: Option<u64>,
    /// The longest; none where nothing ended.
    pub latency_ns_max: Option<u64>,
}

/// A job's intervals as at most so many stretches, each of the same number of intervals. `counted` are the classes that are one
/// operation each. A last interval that is less than half as long as the others is left out, because its rate is noise.
#[must_use]
pub fn stretches(job: &JobRecord, counted: &[OpClass], at_most: usize) -> Vec<Stretch> {
    parts(job, at_most).map(|intervals| stretch(intervals, counted)).collect()
}

fn parts(job: &JobRecord, at_most: usize) -> std::slice::Chunks<'_, IntervalRecord> {
    let kept = match job.series.as_slice() {
        [first, .., last] if last.length_ns * 2 < first.length_ns => {
            &job.series[..job.series.len() - 1]
        }
        all => all,
    };
    kept.chunks(kept.len().div_ceil(at_most.max(1)).max(1))
}

fn latencies<'a>(
    intervals: &'a [IntervalRecord],
    counted: &'a [OpClass],
) -> impl Iterator<Item = &'a SparseHistogram> {
    let classes = intervals.iter().flat_map(|interval| &interval.classes);
    classes.filter(|of| counted.contains(&of.class)).map(|of| &of.latency_ns)
}

fn stretch(intervals: &[IntervalRecord], counted: &[OpClass]) -> Stretch {
    let mut all = Histogram::new();
    latencies(intervals, counted).for_each(|latency_ns| all.merge_sparse(latency_ns));
    let length_ns: u64 = intervals.iter().map(|interval| interval.length_ns).sum();
    let per_s = |count: u64| count as f64 / (length_ns.max(1) as f64 / 1e9);
    let moved = intervals.iter().flat_map(|interval| &interval.classes);
    let bytes = moved.filter(|of| OpClass::TRANSFERS.contains(&of.class)).map(|of| of.bytes).sum();
    let known = |q: f64| all.quantile(q).filter(|_| is_supported(all.count(), q));
    Stretch {
        start_ns: intervals.first().map_or(0, |interval| interval.start_ns),
        length_ns,
        per_s: per_s(all.count()),
        bytes_per_s: per_s(bytes),
        latency_ns_p50: known(0.5),
        latency_ns_p99: known(0.99),
        latency_ns_max: all.max(),
    }
}

/// Shares of all values and the latency that this share does not exceed, from the smallest up to the last percentile that ten
/// values lie beyond. Steps are finer towards the end, where it matters: eight for each nine.
#[must_use]
pub fn distribution(latency_ns: &Histogram) -> Vec<(f64, u64)> {
    const STEPS_PER_NINE: i32 = 8;
    let share = |step: i32| 1.0 - 10f64.powf(-f64::from(step) / f64::from(STEPS_PER_NINE));
    let known = |q: &f64| *q <= 0.5 || is_supported(latency_ns.count(), *q);
    let all = (0..9 * STEPS_PER_NINE).map(share).take_while(known);
    all.filter_map(|q| Some((q, latency_ns.quantile(q)?))).collect()
}

/// How often which latency was seen when.
#[derive(Debug, Clone, PartialEq)]
pub struct Heat {
    /// Start and length of each column, in nanoseconds from the start of the window.
    pub columns: Vec<(u64, u64)>,
    /// The lower end of each row, rising, in nanoseconds; each is the same number of times the one before.
    pub rows_ns: Vec<u64>,
    /// Column, row, and operations per second; what is empty is left out.
    pub cells: Vec<(usize, usize, f64)>,
}

/// The heat map of a job in at most so many columns; none without a course.
#[must_use]
pub fn heat(job: &JobRecord, counted: &[OpClass], columns_max: usize) -> Option<Heat> {
    let row_of = |ns: u64| ((ns.max(1) as f64).log10() * ROWS_PER_DECADE).floor() as i64;
    let parts: Vec<&[IntervalRecord]> = parts(job, columns_max).collect();
    let all = || parts.iter().flat_map(|intervals| latencies(intervals, counted));
    let first = row_of(all().filter_map(SparseHistogram::min).min()?);
    let last = row_of(all().filter_map(SparseHistogram::max).max()?);
    if parts.len() < 2 {
        return None;
    }
    let rows = (last - first + 1).unsigned_abs() as usize;
    let lower = |row: i64| 10f64.powf(row as f64 / ROWS_PER_DECADE).round() as u64;
    let mut heat = Heat {
        columns: Vec::new(),
        rows_ns: (first..=last).map(lower).collect(),
        cells: Vec::new(),
    };
    for (column, intervals) in parts.iter().enumerate() {
        let mut counts = vec![0u64; rows];
        for (bucket, count) in latencies(intervals, counted).flat_map(SparseHistogram::occupied) {
            let (low, high) = bucket_bounds(bucket);
            // A bucket's middle may lie beyond the last value seen.
            let row = (row_of(low + (high - low) / 2) - first).clamp(0, rows as i64 - 1);
            counts[row.unsigned_abs() as usize] += count;
        }
        let length_ns: u64 = intervals.iter().map(|interval| interval.length_ns).sum();
        heat.columns.push((intervals[0].start_ns, length_ns));
        let per_s = |count: u64| count as f64 / (length_ns.max(1) as f64 / 1e9);
        let filled = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        heat.cells.extend(filled.map(|(row, count)| (column, row, per_s(*count))));
    }
    Some(heat)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{record, seconds};

    const READS: [OpClass; 1] = [OpClass::Read];

    fn job(counts: &[u64]) -> JobRecord {
        let mut job = record().jobs.remove(0);
        job.series = seconds(counts.iter().copied());
        job
    }

    #[test]
    fn stretches_are_sums_of_intervals() {
        let of = job(&[10, 30, 0, 4, 2000]);
        let seconds = stretches(&of, &READS, 100);
        assert_eq!(seconds.iter().map(|s| s.per_s).collect::<Vec<_>>(), [10., 30., 0., 4., 2000.]);
        assert_eq!((seconds[2].latency_ns_p50, seconds[2].latency_ns_max), (None, None));
        // A percentile is there when ten lie beyond it.
        assert_eq!(seconds[1].latency_ns_p99, None);
        assert!(seconds[4].latency_ns_p99.is_some());
        let pairs = stretches(&of, &READS, 3);
        assert_eq!(pairs.iter().map(|s| s.per_s).collect::<Vec<_>>(), [20.0, 2.0, 2000.0]);
        assert_eq!(pairs[1].start_ns, 2_000_000_000);
        assert_eq!(pairs[0].bytes_per_s, 20.0 * 4096.0);
    }

    #[test]
    fn a_short_end_is_noise() {
        let mut of = job(&[10, 10, 90]);
        of.series[2].length_ns = 100_000_000;
        assert_eq!(stretches(&of, &READS, 10).len(), 2);
        of.series.truncate(1);
        assert_eq!(stretches(&of, &READS, 10).len(), 1);
        of.series.clear();
        assert_eq!((stretches(&of, &READS, 10).len(), heat(&of, &READS, 10)), (0, None));
    }

    #[test]
    fn the_distribution_ends_where_knowledge_ends() {
        let mut latency_ns = Histogram::new();
        (1..=10_000u64).for_each(|n| latency_ns.record(n * 1000));
        let points = distribution(&latency_ns);
        let (share, last) = points[points.len() - 1];
        assert!((share - 0.999).abs() < 1e-9, "{share}: ten of 10 000 lie beyond");
        assert!((9_800_000..=10_000_000).contains(&last), "{last}");
        assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1));
        assert_eq!(points[0].0, 0.0);
        assert_eq!(distribution(&Histogram::new()), []);
    }

    #[test]
    fn the_heat_map_holds_every_operation() {
        let mut of = job(&[10, 30, 0, 4]);
        let mut slow = Histogram::new();
        slow.record_n(50_000_000, 7);
        of.series[3].classes[0].latency_ns = SparseHistogram::from(&slow);
        let found = heat(&of, &READS, 100).expect("a course");
        assert_eq!(found.columns.len(), 4);
        let sum: f64 = found.cells.iter().map(|(_, _, per_s)| per_s).sum();
        assert_eq!(sum, 10.0 + 30.0 + 7.0);
        // From 1 ms to 50 ms: the first row holds the fast, the last the slow.
        assert_eq!((found.cells[0].1, found.rows_ns[0]), (0, 1_000_000));
        let (column, row, _) = found.cells[found.cells.len() - 1];
        assert_eq!((column, row), (3, found.rows_ns.len() - 1));
        assert!(found.rows_ns[row] <= 50_000_000 && 50_000_000 < found.rows_ns[row] * 4 / 3 + 1);
    }
}
