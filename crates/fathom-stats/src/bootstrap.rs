//! Bootstrap intervals for any statistic of a sample: bias-corrected and accelerated (BCa).
//!
//! For statistics without a rank interval of their own: a trimmed mean, a ratio of means, a percentile of merged runs.
//! What is resampled must be what was repeated: runs or blocks, never the samples inside them. With few of them the
//! interval is too narrow: of 95 % intervals for the mean of 20 values, 92 % hold it if the values are normal, 87 % if they
//! are log-normal. The rank methods of this crate keep what they state.

use crate::error::{StatsError, check_count, check_finite, check_share};
use crate::interval::{Estimate, Interval, sorted};
use crate::special::{normal_cdf, normal_quantile};
use fathom_base::prng::Prng;
use serde::Serialize;

/// How a bootstrap is done. Stored with its result, so that it can be repeated to the last bit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bootstrap {
    /// Confidence level, 0 to 1.
    pub level: f64,
    /// Number of resamples; below 1000 the ends of the interval are noisy.
    pub resamples: u32,
    /// Seed of the resampling.
    pub seed: u64,
}

impl Bootstrap {
    /// The usual 95 % and 10,000 resamples.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { level: 0.95, resamples: 10_000, seed }
    }
}

/// The BCa interval of `statistic` over independent `units` (Efron and Tibshirani, An Introduction to the Bootstrap,
/// 14.3): percentiles of the statistic over samples drawn with replacement, shifted for its bias and for a spread that
/// changes with its value (acceleration, from leaving out one unit at a time).
///
/// `statistic` sees as many units as there are, and one fewer. A unit may be a number, a pair, or a reference to a
/// histogram.
///
/// # Errors
/// Fewer than three units, a statistic that is not finite for the sample or a resample, a level outside 0 to 1, no
/// resamples, or a statistic that no resample can exceed (or fall below).
pub fn bca_interval<T: Copy>(
    units: &[T],
    statistic: impl Fn(&[T]) -> f64,
    how: &Bootstrap,
) -> Result<Estimate, StatsError> {
    check_count(units.len(), 3)?;
    check_count(how.resamples as usize, 1)?;
    check_share(how.level)?;
    let value = statistic(units);
    let without_one = left_out(units, &statistic);
    let replicates = resampled(units, &statistic, how);
    check_finite(&[value], 1)?;
    check_finite(&without_one, 1)?;
    check_finite(&replicates, 1)?;
    let interval = interval_of(value, &sorted(&replicates), acceleration(&without_one), how.level)?;
    Ok(Estimate { value, interval: Some(interval), count: units.len() })
}

/// The statistic of every sample with one unit left out.
pub(crate) fn left_out<T: Copy>(units: &[T], statistic: impl Fn(&[T]) -> f64) -> Vec<f64> {
    let mut rest = units[1..].to_vec();
    let mut values = vec![statistic(&rest)];
    for i in 0..rest.len() {
        // Puts back unit i, takes out unit i + 1.
        rest[i] = units[i];
        values.push(statistic(&rest));
    }
    values
}

/// The statistic of samples drawn with replacement.
fn resampled<T: Copy>(units: &[T], statistic: impl Fn(&[T]) -> f64, how: &Bootstrap) -> Vec<f64> {
    let mut prng = Prng::new(how.seed, 0);
    let mut sample = units.to_vec();
    let draw = |_| {
        sample.iter_mut().for_each(|unit| *unit = units[prng.below(units.len() as u64) as usize]);
        statistic(&sample)
    };
    (0..how.resamples).map(draw).collect()
}

/// A sixth of the skewness of the influence of single units (Efron and Tibshirani, formula 14.15).
fn acceleration(without_one: &[f64]) -> f64 {
    let mean = without_one.iter().sum::<f64>() / without_one.len() as f64;
    let sum = |power| without_one.iter().map(|value| (mean - value).powi(power)).sum::<f64>();
    let (squares, cubes) = (sum(2), sum(3));
    if squares > 0.0 { cubes / (6.0 * squares.powf(1.5)) } else { 0.0 }
}

/// The interval between two percentiles of sorted `replicates` (formulas 14.9 to 14.14). Replicates equal to the estimate
/// count half on either side, as discrete statistics such as the median need.
fn interval_of(
    value: f64,
    replicates: &[f64],
    acceleration: f64,
    level: f64,
) -> Result<Interval, StatsError> {
    let below = replicates.partition_point(|replicate| *replicate < value);
    let not_above = replicates.partition_point(|replicate| *replicate <= value);
    let bias = normal_quantile(0.5 * (below + not_above) as f64 / replicates.len() as f64);
    if bias.is_infinite() {
        return Err(StatsError::OneSided);
    }
    let end = |share: f64| {
        let shifted = bias + normal_quantile(share);
        // The acceleration is at most 1/6; six deviations out the end is the outermost replicate.
        let stretch = (1.0 - acceleration * shifted).max(f64::MIN_POSITIVE);
        let share = normal_cdf(bias + shifted / stretch);
        percentile(replicates, share)
    };
    let miss = 0.5 * (1.0 - level);
    Ok(Interval { low: end(miss), high: end(1.0 - miss), coverage: level })
}

/// The share `share` of sorted values, interpolated between neighbours (R's type 7).
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (below, part) = (place as usize, place.fract());
    match sorted.get(below + 1) {
        Some(above) => sorted[below] + part * (above - sorted[below]),
        None => sorted[sorted.len() - 1],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::median;
    use crate::means::arithmetic_mean;

    fn mean(values: &[f64]) -> f64 {
        arithmetic_mean(values).unwrap()
    }

    /// Variance with n below.
    fn variance(values: &[f64]) -> f64 {
        let mean = mean(values);
        values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64
    }

    const FIVE: [f64; 5] = [1.0, 2.0, 4.0, 7.0, 11.0];

    /// The statistic of all 3125 samples of five out of five: the bootstrap without chance.
    fn all_replicates(statistic: fn(&[f64]) -> f64) -> Vec<f64> {
        let sample =
            |code: u32| (0..5).map(move |digit| FIVE[(code / 5u32.pow(digit) % 5) as usize]);
        sorted(
            &(0..3125).map(|code| statistic(&sample(code).collect::<Vec<_>>())).collect::<Vec<_>>(),
        )
    }

    #[test]
    fn spatial_test_data() {
        // Efron and Tibshirani, table 14.2: the variance of 26 scores is 171.5, its 90 % BCa interval 115.8 to 259.6 with
        // 2000 resamples.
        let scores = [
            48, 36, 20, 29, 42, 42, 20, 42, 22, 41, 45, 14, 6, 0, 33, 28, 34, 4, 32, 24, 47, 41,
            24, 26, 30, 41,
        ]
        .map(f64::from);
        assert!((variance(&scores) - 171.5).abs() < 0.05);
        // The book's a = 0.061.
        assert!((acceleration(&left_out(&scores, variance)) - 0.061).abs() < 0.0005);
        let how = Bootstrap { level: 0.9, resamples: 20_000, seed: 14 };
        let got = bca_interval(&scores, variance, &how).unwrap().interval.unwrap();
        // scipy 1.17.1, stats.bootstrap(n_resamples=100000): 115.7 to 261.2; the book's 2000 are as far from it.
        assert!((got.low - 115.7).abs() < 2.0 && (got.high - 261.2).abs() < 2.0, "{got:?}");
    }

    /// The same enumeration with numpy 2.4 and scipy 1.17.1: bias by norm.ppf of the percentile of the estimate, ends by
    /// numpy.percentile; scipy.stats.bootstrap(method="BCa") gives the same ends for the mean.
    #[test]
    fn without_chance_it_is_exact() {
        let ends = |statistic: fn(&[f64]) -> f64| {
            let without_one = left_out(&FIVE, statistic);
            let acceleration = acceleration(&without_one);
            let replicates = all_replicates(statistic);
            let got = interval_of(statistic(&FIVE), &replicates, acceleration, 0.95).unwrap();
            [acceleration, got.low, got.high]
        };
        let near = |got: [f64; 3], expected: [f64; 3]| {
            got.iter().zip(expected).all(|(got, expected)| (got - expected).abs() < 1e-12)
        };
        let got = ends(mean);
        assert!(near(got, [0.041_030_496_993_110_91, 2.4, 8.8]), "{got:?}");
        let got = ends(|values| variance(values).sqrt());
        let expected = [0.081_702_362_150_173_72, 1.959_591_794_226_542_4, 4.898_979_485_566_356];
        assert!(near(got, expected), "{got:?}");
    }

    #[test]
    fn a_seed_repeats_and_another_differs() {
        let how = |seed| Bootstrap { resamples: 500, ..Bootstrap::new(seed) };
        let values: Vec<f64> = (0..20).map(|i| f64::from(i * i)).collect();
        let run = |seed| bca_interval(&values, mean, &how(seed)).unwrap().interval.unwrap();
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn units_may_be_anything() {
        // A ratio of sums over blocks: what is resampled is the block.
        let blocks = [(10.0, 12.0), (20.0, 23.0), (9.0, 11.0), (14.0, 17.0), (30.0, 33.0)];
        let ratio = |blocks: &[(f64, f64)]| {
            blocks.iter().map(|b| b.1).sum::<f64>() / blocks.iter().map(|b| b.0).sum::<f64>()
        };
        let got = bca_interval(&blocks, ratio, &Bootstrap::new(3)).unwrap();
        let interval = got.interval.unwrap();
        assert_eq!((got.value, got.count), (96.0 / 83.0, 5));
        assert!(interval.low >= 1.1 && interval.high <= 11.0 / 9.0 && interval.low < interval.high);
    }

    #[test]
    fn degenerate_samples() {
        let how = Bootstrap { resamples: 200, ..Bootstrap::new(1) };
        let same = bca_interval(&[5.0; 8], mean, &how).unwrap().interval.unwrap();
        assert_eq!((same.low, same.high), (5.0, 5.0));
        // One unit a million times as far out as the others.
        let mut outlier = vec![1.0; 200];
        outlier.push(1e6);
        let got = bca_interval(&outlier, mean, &how).unwrap().interval.unwrap();
        assert!(got.low >= 1.0 && got.high > 2.9e6 / 201.0 && got.high < 1e5, "{got:?}");
        let sure = Bootstrap { level: 1.0 - 1e-12, ..how };
        let wider = bca_interval(&outlier, mean, &sure).unwrap().interval.unwrap();
        assert!(wider.low <= got.low && wider.high >= got.high, "{wider:?}");
        // A statistic that every resample falls below.
        let distinct = |v: &[f64]| {
            let mut v = sorted(v);
            v.dedup();
            v.len() as f64
        };
        let many: Vec<f64> = (0..40).map(f64::from).collect();
        assert_eq!(bca_interval(&many, distinct, &how), Err(StatsError::OneSided));
        assert!(bca_interval(&[1.0, 2.0], mean, &how).is_err());
        assert!(bca_interval(&[1.0, 2.0, 3.0], |_| f64::NAN, &how).is_err());
        assert!(bca_interval(&FIVE, mean, &Bootstrap { level: 0.0, ..how }).is_err());
        assert!(bca_interval(&FIVE, mean, &Bootstrap { resamples: 0, ..how }).is_err());
    }

    #[test]
    fn the_median_stays_within_the_values() {
        let got = bca_interval(&FIVE, |v| median(v).unwrap(), &Bootstrap::new(9)).unwrap();
        let interval = got.interval.unwrap();
        assert!(FIVE.contains(&interval.low) && FIVE.contains(&interval.high), "{interval:?}");
    }
}
