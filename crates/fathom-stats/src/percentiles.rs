//! Percentiles of latency over several runs.
//!
//! Two questions, two answers. "What did all these I/Os see?" is a percentile of the merged histograms
//! ([`merged_quantile`]). "What will the next run see, and how sure is that?" is the percentile of each run, and the median
//! with its interval across runs ([`across_runs`]): only runs are independent. Percentiles are never averaged.
//!
//! The buckets of a histogram put each percentile off by up to 0.8 %, so a difference of less than 2 % between two of them
//! is below their resolution.

use crate::bootstrap::{Bootstrap, bca_interval};
use crate::equivalence::{Better, Question, compare_paired, compare_unpaired};
use crate::error::{StatsError, check_count, check_share};
use crate::histogram::Histogram;
use crate::interval::{Estimate, median_interval, median_of_sorted, sorted};
use crate::quantile::values_needed;
use serde::Serialize;

/// Fewer runs than this are no sample to draw from: the interval would be far too narrow ([`crate::bootstrap`]).
pub const BOOTSTRAP_RUNS_MIN: usize = 10;

/// The quantile `q` (0 to 1) of all values of all runs together. See [`of_cell`] for its interval.
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

/// A percentile of runs of the same thing, both answers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CellPercentile {
    /// Which, 0 to 1.
    pub quantile: f64,
    /// Of all values of all runs together, in nanoseconds.
    pub merged_ns: u64,
    /// The median over runs of their own percentile, in nanoseconds, with its exact interval from six runs on at 0.95. None
    /// where some run has too few values for the percentile: those left would be a selection.
    pub across_runs_ns: Option<Estimate>,
    /// Smallest and largest of the runs' own percentiles, in nanoseconds; none likewise.
    pub range_ns: Option<(f64, f64)>,
    /// Where the runs have no percentile of their own, and there are at least [`BOOTSTRAP_RUNS_MIN`] of them: the interval of
    /// `merged_ns` by a bootstrap that draws whole runs.
    pub merged_interval_ns: Option<Estimate>,
    /// How that was drawn.
    pub bootstrap: Option<Bootstrap>,
}

/// The quantile `q` of runs of the same thing: of all of them together, and across them. `seed` draws the bootstrap that
/// stands in where ranks cannot serve.
///
/// # Errors
/// No run, `q` or `level` outside 0 to 1, or fewer values in all than support the percentile.
pub fn of_cell(
    runs: &[&Histogram],
    q: f64,
    level: f64,
    seed: u64,
) -> Result<CellPercentile, StatsError> {
    check_share(level)?;
    let merged_ns = merged_quantile(runs, q)?;
    let own = run_quantiles(runs, q).ok();
    let across_runs_ns = own.as_ref().and_then(|own| median_interval(own, level).ok());
    let range_ns =
        own.as_ref().map(|own| sorted(own)).and_then(|own| Some((*own.first()?, *own.last()?)));
    let is_drawn = across_runs_ns.is_none() && runs.len() >= BOOTSTRAP_RUNS_MIN;
    let how = is_drawn.then(|| Bootstrap { level, ..Bootstrap::new(seed) });
    let merged_interval_ns = how.and_then(|how| bootstrapped(runs, q, &how));
    let bootstrap = how.filter(|_| merged_interval_ns.is_some());
    let quantile = q;
    Ok(CellPercentile {
        quantile,
        merged_ns,
        across_runs_ns,
        range_ns,
        merged_interval_ns,
        bootstrap,
    })
}

/// The merged quantile with its interval by drawing whole runs. A sample may have too few values for the percentile where
/// the runs together just have enough: its place in the values is then the last one, as for any small sample.
fn bootstrapped(runs: &[&Histogram], q: f64, how: &Bootstrap) -> Option<Estimate> {
    let mut all = Histogram::new();
    runs.iter().for_each(|run| all.merge(run));
    let places: Vec<(usize, f64)> = all
        .occupied()
        .map(|(bucket, _)| {
            let (low, high) = crate::histogram::bucket_bounds(bucket);
            (bucket, 0.5 * (low as f64 + high as f64))
        })
        .collect();
    // Only the buckets that some run has, so that ten thousand samples take a moment.
    let of_run = |run: &&Histogram| -> Vec<u64> {
        let mut counts = vec![0; places.len()];
        for (bucket, count) in run.occupied() {
            if let Ok(at) = places.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
                counts[at] = count;
            }
        }
        counts
    };
    let counts: Vec<Vec<u64>> = runs.iter().map(of_run).collect();
    let units: Vec<&[u64]> = counts.iter().map(Vec::as_slice).collect();
    let quantile = |drawn: &[&[u64]]| {
        let total: u64 = drawn.iter().flat_map(|run| run.iter()).sum();
        let wanted = (q * total as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        let at = (0..places.len()).find(|at| {
            below += drawn.iter().map(|run| run[*at]).sum::<u64>();
            below >= wanted
        });
        at.map_or(f64::NAN, |at| places[at].1)
    };
    bca_interval(&units, quantile, how).ok()
}

/// How one decile differs between two groups of runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Shift {
    /// Which, 0.1 to 0.9.
    pub quantile: f64,
    /// Median over the runs of A, in nanoseconds.
    pub a_ns: f64,
    /// Median over the runs of B, in nanoseconds.
    pub b_ns: f64,
    /// B / A by Hodges-Lehmann with its interval by ranks; none when the runs are too few.
    pub ratio: Estimate,
}

/// The data of a shift plot: B against A at each decile, which shows whether all I/Os became slower or only the slow ones
/// (K. Doksum, "Empirical probability plots and statistical inference for nonlinear models in the two-sample case", Annals of
/// Statistics 2(2), 1974; the run is the unit here, not the I/O). `in_pairs` says that `a[i]` and `b[i]` were made side by side.
///
/// Each interval holds its decile's ratio with probability `level`; that all nine do at once is less likely.
///
/// # Errors
/// A group without runs, sides of different length in pairs, a run of fewer than 100 values (which support its ninth decile),
/// latencies of 0, or a level outside 0 to 1.
pub fn shift_plot(
    a: &[&Histogram],
    b: &[&Histogram],
    in_pairs: bool,
    level: f64,
) -> Result<Vec<Shift>, StatsError> {
    let question = Question { level, ..Question::new(Better::Lower) };
    let at = |tenth: u32| {
        let quantile = f64::from(tenth) / 10.0;
        let (a, b) = (run_quantiles(a, quantile)?, run_quantiles(b, quantile)?);
        let compare = if in_pairs { compare_paired } else { compare_unpaired };
        let ratio = compare(&a, &b, &question)?.ratio;
        let median = |values: &[f64]| median_of_sorted(&sorted(values));
        Ok(Shift { quantile, a_ns: median(&a), b_ns: median(&b), ratio })
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

    /// Ten runs, none of which has 1000 values: no run has a p99 of its own, all together have one.
    #[test]
    fn where_ranks_cannot_serve_whole_runs_are_drawn() {
        let factors = [1.0, 1.3, 0.8, 1.1, 1.2, 0.9, 1.0, 1.05, 0.95, 1.15];
        let short: Vec<Histogram> = factors.iter().map(|factor| run(999, *factor)).collect();
        let got = of_cell(&refs(&short), 0.99, 0.95, 1).unwrap();
        assert_eq!((got.across_runs_ns, got.bootstrap), (None, Some(Bootstrap::new(1))));
        let drawn = got.merged_interval_ns.unwrap();
        let interval = drawn.interval.unwrap();
        // Ten thousand I/Os would leave less than 1 %; ten runs that spread by 15 % leave about that. Slowest p99: 2.587 ms.
        assert!(interval.high - interval.low > 0.1 * drawn.value, "{got:?}");
        assert!(interval.contains(drawn.value) && drawn.count == 10, "{got:?}");
        assert!(interval.high < 1.01 * 2.587e6 && interval.low > 0.99 * 2.1e6, "{got:?}");
        assert_within_bucket(drawn.value, got.merged_ns as f64);
        // The seed is stored, and draws the same again.
        assert_eq!(of_cell(&refs(&short), 0.99, 0.95, 1).unwrap(), got);
        assert_ne!(of_cell(&refs(&short), 0.99, 0.95, 2).unwrap(), got);
        // Nine are no sample to draw from.
        let few = of_cell(&refs(&short[..9]), 0.99, 0.95, 1).unwrap();
        assert_eq!((few.across_runs_ns, few.merged_interval_ns, few.bootstrap), (None, None, None));
        // Where each run has its own, ranks say it exactly.
        let long = runs(&factors);
        let exact = of_cell(&refs(&long), 0.99, 0.95, 1).unwrap();
        assert!(exact.across_runs_ns.unwrap().interval.is_some() && exact.bootstrap.is_none());
        let (least, most) = exact.range_ns.unwrap();
        assert_within_bucket(least, 0.8 * 1.99e6);
        assert_within_bucket(most, 1.3 * 1.99e6);
        assert_eq!(got.range_ns, None, "no run has its own");
        assert!(of_cell(&refs(&short[..1]), 0.99, 0.95, 1).is_err(), "too few in all");
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
        let plot = shift_plot(&refs(&a), &refs(&b), false, 0.95).unwrap();
        assert_eq!(
            plot.iter().map(|shift| shift.quantile).collect::<Vec<_>>(),
            [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
        );
        let moved = |at: usize| {
            let interval = plot[at].ratio.interval.unwrap();
            interval.low > 1.05
        };
        assert!(!moved(0) && !moved(3) && moved(5) && moved(8), "{plot:?}");
        assert_within_bucket(plot[8].b_ns, 1.9e6 * 1.5);
        assert!((plot[8].ratio.value - 1.5).abs() < 0.03);
        let few = shift_plot(&refs(&a[..3]), &refs(&b[..3]), false, 0.95).unwrap();
        assert!(few.iter().all(|shift| shift.ratio.interval.is_none()));
        let short = [run(99, 1.0)];
        assert!(shift_plot(&refs(&a), &refs(&short), false, 0.95).is_err());
    }

    /// Blocks that drift by a factor of two: pairs see 10 %, groups see nothing.
    #[test]
    fn pairs_take_drift_out_of_a_shift() {
        let drift = [1.0, 1.15, 1.3, 1.5, 1.7, 2.0];
        let (a, b) = (runs(&drift), runs(&drift.map(|factor| 1.1 * factor)));
        let plot = |in_pairs| shift_plot(&refs(&a), &refs(&b), in_pairs, 0.95).unwrap();
        for (paired, groups) in plot(true).iter().zip(plot(false)) {
            let (tight, wide) = (paired.ratio.interval.unwrap(), groups.ratio.interval.unwrap());
            assert!(tight.low > 1.07 && tight.high < 1.13, "{paired:?}");
            assert!(wide.contains(1.0), "{groups:?}");
        }
        assert!(shift_plot(&refs(&a), &refs(&b[..5]), true, 0.95).is_err());
    }
}
