//! The three means, each for its kind of data, and the spread around the arithmetic one.
//!
//! Which mean is right follows from what the total means:
//!
//! | values | mean |
//! |---|---|
//! | costs (seconds, joules, bytes), and rates measured over equal times | [`arithmetic_mean`] |
//! | rates measured over equal amounts of work (MB/s of runs that each moved 10 GB) | [`harmonic_mean`] |
//! | ratios (B against A, relative to a baseline) | [`geometric_mean`] |
//!
//! The wrong one can reverse a ranking: a disk that does the first half of a job at 40 MB/s and the second at 60 MB/s
//! did 48 MB/s, not 50.

use crate::error::{StatsError, check_finite, check_positive};

/// Sum by number: for costs, and for rates over equal times.
///
/// # Errors
/// No value, or one that is not finite.
pub fn arithmetic_mean(values: &[f64]) -> Result<f64, StatsError> {
    check_finite(values, 1)?;
    Ok(mean_of(values.iter().copied()))
}

/// Number by sum of reciprocals: for rates over equal amounts of work.
///
/// # Errors
/// No value, or one that is not finite and above 0.
pub fn harmonic_mean(values: &[f64]) -> Result<f64, StatsError> {
    check_positive(values, 1)?;
    Ok(1.0 / mean_of(values.iter().map(|value| 1.0 / value)))
}

/// The n-th root of the product: for ratios, where 2 and 1/2 must cancel. It does not depend on which side is the
/// baseline.
///
/// # Errors
/// No value, or one that is not finite and above 0.
pub fn geometric_mean(values: &[f64]) -> Result<f64, StatsError> {
    check_positive(values, 1)?;
    Ok(mean_of(values.iter().map(|value| value.ln())).exp())
}

/// Sample standard deviation (n - 1 below), in the unit of the values.
///
/// # Errors
/// Fewer than two values, or one that is not finite.
pub fn standard_deviation(values: &[f64]) -> Result<f64, StatsError> {
    check_finite(values, 2)?;
    let mean = mean_of(values.iter().copied());
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Ok((squares / (values.len() - 1) as f64).sqrt())
}

/// Standard deviation by arithmetic mean, as a share (0.03 = 3 %).
///
/// # Errors
/// Fewer than two values, or one that is not finite and above 0: around 0 a relative spread means nothing.
pub fn coefficient_of_variation(values: &[f64]) -> Result<f64, StatsError> {
    check_positive(values, 2)?;
    Ok(standard_deviation(values)? / mean_of(values.iter().copied()))
}

/// The mean of at least one value. The second pass takes back what the first lost by rounding.
fn mean_of(values: impl ExactSizeIterator<Item = f64> + Clone) -> f64 {
    let count = values.len() as f64;
    let mean = values.clone().map(|value| value / count).sum::<f64>();
    mean + values.map(|value| (value - mean) / count).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn assert_near(got: f64, expected: f64) {
        assert!((got / expected - 1.0).abs() < 1e-14, "{got} instead of {expected}");
    }

    #[test]
    fn known_values() {
        // Half the work at 40 MB/s, half at 60: 2 / (1/40 + 1/60) = 48.
        assert_near(harmonic_mean(&[40.0, 60.0]).unwrap(), 48.0);
        assert_near(geometric_mean(&[2.0, 8.0]).unwrap(), 4.0);
        assert_near(geometric_mean(&[0.5, 2.0]).unwrap(), 1.0);
        assert_near(arithmetic_mean(&[40.0, 60.0]).unwrap(), 50.0);
        // 2, 4, 4, 4, 5, 5, 7, 9: mean 5, sum of squares 32.
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_near(standard_deviation(&values).unwrap(), (32.0f64 / 7.0).sqrt());
        assert_near(coefficient_of_variation(&values).unwrap(), (32.0f64 / 7.0).sqrt() / 5.0);
    }

    /// scipy 1.17.1: stats.gmean, stats.hmean, stats.variation(ddof=1); numpy.std(ddof=1).
    #[test]
    fn agrees_with_scipy() {
        let values = [1.2, 0.8, 2.5, 3.3];
        assert_near(geometric_mean(&values).unwrap(), 1.677_572_489_013_234_2);
        assert_near(harmonic_mean(&values).unwrap(), 1.435_562_805_872_756_8);
        assert_near(coefficient_of_variation(&values).unwrap(), 0.592_893_852_855_542_7);
        assert_near(standard_deviation(&values).unwrap(), 1.156_143_013_068_308_4);
    }

    #[test]
    fn a_large_offset_does_not_drown_the_spread() {
        let values = [1e9 + 4.0, 1e9 + 7.0, 1e9 + 13.0, 1e9 + 16.0];
        assert_eq!(arithmetic_mean(&values), Ok(1e9 + 10.0));
        assert_eq!(standard_deviation(&values), Ok(30f64.sqrt()));
        assert_eq!(arithmetic_mean(&[f64::MAX, f64::MAX]), Ok(f64::MAX));
    }

    #[test]
    fn what_has_no_mean() {
        assert!(arithmetic_mean(&[]).is_err() && arithmetic_mean(&[f64::NAN]).is_err());
        assert!(harmonic_mean(&[1.0, 0.0]).is_err() && geometric_mean(&[1.0, -1.0]).is_err());
        assert!(standard_deviation(&[1.0]).is_err());
        assert!(coefficient_of_variation(&[-1.0, 1.0]).is_err());
    }

    proptest! {
        #[test]
        fn ordered_and_mirrored(values in prop::collection::vec(1e-3f64..1e3, 1..30)) {
            let [h, g, a] = [harmonic_mean, geometric_mean, arithmetic_mean].map(|mean| mean(&values).unwrap());
            prop_assert!(h <= g * (1.0 + 1e-12) && g <= a * (1.0 + 1e-12), "{h} {g} {a}");
            let inverse: Vec<f64> = values.iter().map(|value| 1.0 / value).collect();
            prop_assert!((geometric_mean(&inverse).unwrap() * g - 1.0).abs() < 1e-12);
            prop_assert!((arithmetic_mean(&inverse).unwrap() * h - 1.0).abs() < 1e-12);
        }
    }
}
