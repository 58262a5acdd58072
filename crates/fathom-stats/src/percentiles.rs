//! Percentiles of latency over several runs.
//!
//! Two questions, two answers. "What did all these I/Os see?" is a percentile of the merged histograms
//! ([`merged_quantile`]). "What will the next run see, and how sure is that?" is the percentile of each run, and the median
//! with its interval across runs ([`across_runs`]): only runs are independent. Percentiles are never averaged.
//!
//! The buckets of a histogram put each percentile off by up to 0.8 %, so a difference of less than 2 % between two of them
//! is below their resolution.

use crate::error::{StatsError, check_count, check_share};
use crate::histogram::Histogram;
use crate::interval::{Estimate, median_interval, median_of_sorted, sorted};
use crate::quantile::values_needed;
use crate::rank::unpaired::hodges_lehmann_shift;
use serde::Serialize;

/// The quantile `q` (0 to 1) of all values of all runs together. Its interval, should one be wanted, is
/// [`crate::bootstrap::bca_interval`] with the runs as units; [`across_runs`] is exact and needs fewer of them.
///
/// # Errors
/// No run, `q` outside 0 to 1, or fewer values than support it ([`values_needed`]).
pub fn merged_quantile(runs: &[&Histogram], q: f64) -> Result<u64, StatsError> {
    check_count(runs.len(), 1)?;
    let mut merged = Histogram::new();
    runs.iter().for_each(|run| merged.merge(run));
    supported(&merged, q)
}

/// The quantile `q` of each run, in the order of the runs: what is compared, block by block, between two configurations.
///
/// # Errors
/// No run, `q` outside 0 to 1, or a run with fewer values than support it.
pub fn run_quantiles(runs: &[&Histogram], q: f64) -> Result<Vec<f64>, StatsError> {
    check_count(runs.len(), 1)?;
    runs.iter().map(|run| supported(run, q).map(|value| value as f64)).collect()
}

/// The median over runs of their quantile `q`, with the exact interval of that median; none below six runs at 0.95.
///
/// # Errors
/// As [`run_quantiles`], and a level outside 0 to 1.
pub fn across_runs(runs: &[&Histogram], q: f64, level: f64) -> Result<Estimate, StatsError> {
    median_interval(&run_quantiles(runs, q)?, level)
}

/// How one decile differs between two groups of runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Shift {
    /// Which, 0.1 to 0.9.
    pub quantile: f64,
    /// Median over the runs of A.
    pub a_ns: f64,
    /// Median over the runs of B.
    pub b_ns: f64,
    /// B - A in nanoseconds (Hodges-Lehmann over all pairs of runs), with its interval; none when the runs are too few.
    pub shift_ns: Estimate,
}

/// The data of a shift plot: B - A at each decile, which shows whether all I/Os became slower or only the slow ones.
///
/// Each interval holds its decile's shift with probability `level`; that all nine do at once is less likely.
///
/// # Errors
/// A group without runs, a run of fewer than 100 values (which support its ninth decile), or a level outside 0 to 1.
pub fn shift_plot(
    a: &[&Histogram],
    b: &[&Histogram],
    level: f64,
) -> Result<Vec<Shift>, StatsError> {
    let at = |tenth: u32| {
        let quantile = f64::from(tenth) / 10.0;
        let (a, b) = (run_quantiles(a, quantile)?, run_quantiles(b, quantile)?);
        let shift_ns = hodges_lehmann_shift(&a, &b, level)?;
        let median = |values: &[f64]| median_of_sorted(&sorted(values));
        Ok(Shift { quantile, a_ns: median(&a), b_ns: median(&b), shift_ns })
    };
    (1..=9).map(at).collect()
}

fn supported(histogram: &Histogram, q: f64) -> Result<u64, StatsError> {
    check_share(q)?;
    let (count, needed) = (histogram.count(), values_needed(q));
    match histogram.quantile(q) {
        Some(value) if count >= needed => Ok(value),
        _ => Err(StatsError::TooFew { count, needed }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::{Bootstrap, bca_interval};

    /// A run of `count` latencies, evenly spread from 1 ms to 2 ms, all times `factor`.
    fn run(count: u64, factor: f64) -> Histogram {
        let mut histogram = Histogram::new();
        let latency = |i: u64| (1e6 * factor * (1.0 + (i as f64 + 0.5) / count as f64)) as u64;
        (0..count).for_each(|i| histogram.record(latency(i)));
        histogram
    }

    fn runs(factors: &[f64]) -> Vec<Histogram> {
        factors.iter().map(|factor| run(1000, *factor)).collect()
    }

    fn refs(runs: &[Histogram]) -> Vec<&Histogram> {
        runs.iter().collect()
    }

    #[track_caller]
    fn assert_within_bucket(got: f64, expected: f64) {
        assert!((got / expected - 1.0).abs() < 0.009, "{got} instead of {expected}");
    }

    #[test]
    fn merged_is_not_the_mean_of_percentiles() {
        // A fast run of 9000 and a slow one of 1000: p95 of all lies in the middle of the slow one.
        let (fast, slow) = (run(9000, 1.0), run(1000, 10.0));
        let got = merged_quantile(&[&fast, &slow], 0.95).unwrap() as f64;
        assert_within_bucket(got, 15e6);
        let each = run_quantiles(&[&fast, &slow], 0.95).unwrap();
        assert_within_bucket(each[0], 1.95e6);
        assert_within_bucket(each[1], 19.5e6);
    }

    #[test]
    fn runs_are_what_a_bootstrap_draws() {
        let runs = runs(&[1.0, 1.3, 0.8, 1.1, 1.2, 0.9, 1.0, 1.05, 0.95, 1.15]);
        let p95 = |runs: &[&Histogram]| merged_quantile(runs, 0.95).map_or(f64::NAN, |v| v as f64);
        let how = Bootstrap { resamples: 300, ..Bootstrap::new(1) };
        let got = bca_interval(&refs(&runs), p95, &how).unwrap();
        let interval = got.interval.unwrap();
        // Ten thousand I/Os would leave less than 1 %; ten runs that spread by 15 % leave about that.
        assert!(interval.high - interval.low > 0.1 * got.value, "{got:?}");
        assert!(interval.contains(got.value) && got.count == 10);
    }

    #[test]
    fn too_few_values_have_no_tail() {
        let (a, b) = (run(5000, 1.0), run(4999, 1.0));
        let needed = |count| Err(StatsError::TooFew { count, needed: 10_000 });
        assert_eq!(merged_quantile(&[&a, &b], 0.999), needed(9999));
        assert_eq!(
            run_quantiles(&[&a, &b], 0.999),
            Err(StatsError::TooFew { count: 5000, needed: 10_000 })
        );
        assert!(merged_quantile(&[&a, &a], 0.999).is_ok());
        assert!(merged_quantile(&[], 0.5).is_err() && run_quantiles(&[], 0.5).is_err());
        assert!(merged_quantile(&[&a], 1.0).is_err() && merged_quantile(&[&a], f64::NAN).is_err());
        assert!(merged_quantile(&[&Histogram::new()], 0.5).is_err());
    }

    #[test]
    fn across_runs_the_run_is_the_unit() {
        let runs = runs(&[1.0, 1.3, 0.8, 1.1, 1.2, 0.9, 1.0]);
        let got = across_runs(&refs(&runs), 0.99, 0.95).unwrap();
        let interval = got.interval.unwrap();
        assert_eq!(got.count, 7);
        assert_within_bucket(got.value, 1.99e6);
        assert_within_bucket(interval.low, 0.8 * 1.99e6);
        assert_within_bucket(interval.high, 1.3 * 1.99e6);
        assert_eq!(across_runs(&refs(&runs[..5]), 0.99, 0.95).unwrap().interval, None);
    }

    #[test]
    fn a_shift_plot_shows_which_part_moved() {
        let near = [1.0, 1.004, 0.996, 1.002, 0.998];
        let a = runs(&near);
        // The slower half of B takes half as long again.
        let mut b = runs(&near);
        for run in &mut b {
            let mut stretched = Histogram::new();
            for (bucket, count) in run.occupied() {
                let value = crate::histogram::bucket_bounds(bucket).0;
                stretched.record_n(if value < 1_500_000 { value } else { value * 3 / 2 }, count);
            }
            *run = stretched;
        }
        let plot = shift_plot(&refs(&a), &refs(&b), 0.95).unwrap();
        assert_eq!(
            plot.iter().map(|shift| shift.quantile).collect::<Vec<_>>(),
            [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
        );
        let moved = |at: usize| {
            let interval = plot[at].shift_ns.interval.unwrap();
            interval.low > 0.1e6
        };
        assert!(!moved(0) && !moved(3) && moved(5) && moved(8), "{plot:?}");
        assert_within_bucket(plot[8].b_ns, 1.9e6 * 1.5);
        assert!((plot[8].shift_ns.value - 0.95e6).abs() < 0.04e6);
        let few = shift_plot(&refs(&a[..3]), &refs(&b[..3]), 0.95).unwrap();
        assert!(few.iter().all(|shift| shift.shift_ns.interval.is_none()));
        let short = [run(99, 1.0)];
        assert!(shift_plot(&refs(&a), &refs(&short), 0.95).is_err());
    }
}
