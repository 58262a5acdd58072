//! What the values inside one run say about each other: autocorrelation, the number of independent values they are worth,
//! and an interval of the run's mean that takes both into account.
//!
//! All of it describes that one run: how well its own mean is known. It says nothing about the next run, where the file
//! lies elsewhere, caches are in another state and the disk is warmer. It is never used as replication: the interval of
//! a result comes from several runs ([`crate::interval`], [`crate::sequential`]).

use crate::error::{StatsError, check_finite, check_share};
use crate::interval::Interval;
use crate::means::arithmetic_mean;
use crate::special::student_quantile;
use serde::Serialize;

/// Fewest values for an effective size: below, correlations are guesses.
pub const VALUES_MIN: usize = 10;

/// The mean of one run's series.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SeriesMean {
    /// Arithmetic mean, in the unit of the values.
    pub mean: f64,
    /// Where the mean of this run would lie if the run, as it is, went on for ever. Not an interval of the next run.
    pub interval: Interval,
    /// [`effective_size`].
    pub effective_size: f64,
}

/// Autocorrelations of lags 0 to `lag_max`, -1 to 1; the first is 1. A constant series has 1, 0, 0, ...
///
/// The usual estimator, autocovariances divided by n and not by n - lag (Box and Jenkins), which is biased towards 0
/// but positive definite.
///
/// # Errors
/// A value that is not finite, or not more values than `lag_max`.
pub fn autocorrelation(series: &[f64], lag_max: usize) -> Result<Vec<f64>, StatsError> {
    let deviations = deviations(series, lag_max.saturating_add(1))?;
    let variance = lagged(&deviations, 0);
    let correlation = |lag| match lag {
        0 => 1.0,
        _ if variance == 0.0 => 0.0,
        _ => lagged(&deviations, lag) / variance,
    };
    Ok((0..=lag_max).map(correlation).collect())
}

/// How many independent values the series is worth for its mean: n / (1 + 2 x the sum of the autocorrelations), 1 to n.
///
/// The sum ends by the initial monotone sequence rule (C. J. Geyer, "Practical Markov chain Monte Carlo", Statistical
/// Science 7, 1992): neighbouring lags are added in pairs, up to the first pair that is not positive, and no pair counts
/// more than the one before. Never more than n, although values that alternate would be worth more. A cycle longer than
/// the series, or a trend, leaves only a few: then the mean is not known, as it should be.
///
/// # Errors
/// Fewer than [`VALUES_MIN`] values, or one that is not finite.
pub fn effective_size(series: &[f64]) -> Result<f64, StatsError> {
    let deviations = deviations(series, VALUES_MIN)?;
    let n = series.len() as f64;
    let variance = lagged(&deviations, 0);
    if variance == 0.0 {
        return Ok(n);
    }
    let (mut sum, mut smallest) = (0.0, f64::INFINITY);
    for lag in (0..series.len() - 1).step_by(2) {
        let pair = (lagged(&deviations, lag) + lagged(&deviations, lag + 1)) / variance;
        if pair <= 0.0 {
            break;
        }
        smallest = pair.min(smallest);
        sum += smallest;
    }
    Ok((n / (2.0 * sum - 1.0).max(1.0)).clamp(1.0, n))
}

/// The mean of one run's values with an interval: mean -+ t s / sqrt([`effective_size`]), Student's t with one degree of
/// freedom less than that size, and at least one.
///
/// # Errors
/// Fewer than [`VALUES_MIN`] values, one that is not finite, or a level outside 0 to 1.
pub fn mean_of_series(series: &[f64], level: f64) -> Result<SeriesMean, StatsError> {
    check_share(level)?;
    let effective_size = effective_size(series)?;
    let mean = arithmetic_mean(series)?;
    let n = series.len() as f64;
    let squares: f64 = series.iter().map(|y| (y - mean).powi(2)).sum();
    // Values that go together lie closer to their own mean than to the true one; this takes the expected lack back.
    let freedom = (n * (1.0 - 1.0 / effective_size)).max(1.0);
    let error = (squares / freedom / effective_size).sqrt();
    let t = -student_quantile(0.5 * (1.0 - level), (effective_size - 1.0).max(1.0));
    let interval = Interval { low: mean - t * error, high: mean + t * error, coverage: level };
    Ok(SeriesMean { mean, interval, effective_size })
}

/// Differences from the mean, of at least `needed` values. Exactly 0 where all are alike: what rounding leaves there would
/// look like perfect correlation.
fn deviations(series: &[f64], needed: usize) -> Result<Vec<f64>, StatsError> {
    check_finite(series, needed)?;
    if series.iter().all(|y| *y == series[0]) {
        return Ok(vec![0.0; series.len()]);
    }
    let mean = arithmetic_mean(series)?;
    Ok(series.iter().map(|y| y - mean).collect())
}

/// Sum of the products of values `lag` apart.
fn lagged(deviations: &[f64], lag: usize) -> f64 {
    deviations.iter().zip(&deviations[lag..]).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::correlated;
    use fathom_base::prng::Prng;
    use proptest::prelude::*;

    #[test]
    fn by_hand() {
        // Deviations -2 -1 0 1 2, squares 10; lag 1: 2+0+0+2, lag 2: 0-1+0, lag 3: -2-2, lag 4: -4.
        let got = autocorrelation(&[1.0, 2.0, 3.0, 4.0, 5.0], 4).unwrap();
        assert_eq!(got, [1.0, 0.4, -0.1, -0.4, -0.4]);
        assert_eq!(autocorrelation(&[3.0; 4], 2).unwrap(), [1.0, 0.0, 0.0]);
        assert!(autocorrelation(&[1.0, 2.0], 2).is_err());
        // Alternating: the first pair is 1 - 0.9..., and no pair counts for more than all.
        let alternating: Vec<f64> = (0..20).map(|i| f64::from(i % 2)).collect();
        assert_eq!(effective_size(&alternating).unwrap(), 20.0);
        assert_eq!(effective_size(&[3.3; 13]).unwrap(), 13.0);
    }

    /// `acf(s, nlags=5, fft=False, adjusted=False)` of statsmodels 0.15.0 (Python).
    #[test]
    fn agrees_with_statsmodels() {
        let series =
            [3.1, 2.7, 3.9, 4.4, 4.0, 3.2, 2.1, 1.8, 2.6, 3.3, 3.0, 4.1, 4.8, 4.2, 3.7, 2.9];
        let expected = [
            1.0,
            0.6072534470670717,
            0.026145127366207013,
            -0.34498422528628186,
            -0.4806613694788501,
            -0.41150093479785,
        ];
        let got = autocorrelation(&series, 5).unwrap();
        assert!(got.iter().zip(expected).all(|(got, r)| (got - r).abs() < 1e-12), "{got:?}");
    }

    proptest! {
        #[test]
        fn bounds_and_invariance(series in prop::collection::vec(-1e3..1e3f64, 10..80), shift in -8i32..8) {
            let size = effective_size(&series).unwrap();
            prop_assert!((1.0..=series.len() as f64).contains(&size));
            prop_assert!(autocorrelation(&series, 9).unwrap().iter().all(|r| r.abs() <= 1.0 + 1e-12));
            let got = mean_of_series(&series, 0.95).unwrap();
            prop_assert!(got.interval.contains(got.mean));
            // Unit and zero do not matter.
            let other: Vec<f64> = series.iter().map(|y| y * 2f64.powi(shift) + 4096.0).collect();
            prop_assert!((effective_size(&other).unwrap() / size - 1.0).abs() < 1e-6);
        }
    }

    /// AR(1): lag k has phi^k, and n values are worth n (1 - phi) / (1 + phi).
    #[test]
    fn agrees_with_the_law_of_a_known_process() {
        let mut prng = Prng::new(64, 0);
        for phi in [0.0, 0.5, 0.9f64] {
            let series = correlated(&mut prng, phi, 40_000);
            let got = autocorrelation(&series, 5).unwrap();
            for (k, r) in (0..).zip(got) {
                // Bartlett's standard error is at most sqrt((1 + phi^2) / (1 - phi^2) / n) = 0.016; 6 of them.
                assert!((r - phi.powi(k)).abs() < 0.1, "phi {phi}, lag {k}: {r}");
            }
            let share = effective_size(&series).unwrap() / 40_000.0;
            let expected = (1.0 - phi) / (1.0 + phi);
            assert!((share / expected - 1.0).abs() < 0.25, "phi {phi}: {share} for {expected}");
        }
    }

    /// How often the interval holds the true mean, against what happens when seconds are taken for independent.
    #[test]
    fn coverage_on_correlated_series() {
        const ROUNDS: u32 = 1000;
        let mut prng = Prng::new(65, 0);
        for (phi, count, floor) in [
            (0.0, 60, 0.92),
            (0.5, 60, 0.87),
            (0.5, 300, 0.91),
            (0.9, 300, 0.86),
            (0.9, 3000, 0.91),
        ] {
            let (mut held, mut naive) = (0, 0);
            for _ in 0..ROUNDS {
                let series = correlated(&mut prng, phi, count);
                held += u32::from(mean_of_series(&series, 0.95).unwrap().interval.contains(0.0));
                let plain = crate::interval::mean_interval(&series, 0.95).unwrap();
                naive += u32::from(plain.interval.unwrap().contains(0.0));
            }
            let (held, naive) = (f64::from(held) / 1000.0, f64::from(naive) / 1000.0);
            println!("phi {phi}, {count} values: 95 % interval holds in {held}, naive in {naive}");
            assert!(held > floor, "phi {phi}, {count} values: {held}");
            assert!(phi < 0.5 || naive < 0.8, "the naive interval holds in {naive}: nothing shown");
        }
    }

    #[test]
    fn a_trend_is_worth_little() {
        let rising: Vec<f64> = (0..300).map(f64::from).collect();
        let size = effective_size(&rising).unwrap();
        assert!(size < 5.0, "{size}");
        let got = mean_of_series(&rising, 0.95).unwrap();
        assert!(got.interval.high - got.interval.low > 100.0);
    }

    #[test]
    fn what_cannot_be_judged() {
        assert!(matches!(effective_size(&[1.0; 9]), Err(StatsError::TooFew { needed: 10, .. })));
        assert!(effective_size(&[f64::NAN; 10]).is_err());
        assert!(mean_of_series(&[1.0; 10], 1.0).is_err());
        let constant = mean_of_series(&[7.0; 10], 0.95).unwrap();
        assert_eq!((constant.interval.low, constant.interval.high), (7.0, 7.0));
    }
}
