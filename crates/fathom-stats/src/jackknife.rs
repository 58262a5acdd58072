//! Intervals of scatter itself, whatever the distribution: the jackknife of a variance's logarithm.
//!
//! The textbook's chi-square interval of a variance holds for normal values only, and for others no better with more of them: the
//! scatter of a variance depends on how heavy the tails are. The jackknife sees that in the values. What is left out one at a
//! time must be what was repeated: runs or blocks, never the samples inside them.

use crate::bootstrap::left_out;
use crate::error::{StatsError, check_count, check_share};
use crate::interval::{Estimate, Interval, mean_interval};

/// A variance, or another statistic above 0, of independent `units` with its interval: Student's interval of the mean of the
/// pseudo-values of its logarithm (R. G. Miller, "Jackknifing variances", Annals of Mathematical Statistics 39(2), 1968). An
/// approximation: of 95 % intervals for the variance of 6 to 25 values, 94 to 95 % hold it if the values are normal, 91 to 93 % if they
/// have the tails of Student's t with 5 degrees of freedom, 86 to 90 % if they are as skewed as the exponential of normal ones of
/// deviation 1/2.
///
/// No interval where the statistic is 0, also with one unit left out.
///
/// # Errors
/// Fewer than three units, or a level outside 0 to 1.
pub fn variance_interval<T: Copy>(
    units: &[T],
    statistic: impl Fn(&[T]) -> f64,
    level: f64,
) -> Result<Estimate, StatsError> {
    check_count(units.len(), 3)?;
    check_share(level)?;
    let (value, n) = (statistic(units), units.len() as f64);
    let without_one = left_out(units, |units| statistic(units).ln());
    let pseudo: Vec<f64> = without_one.iter().map(|log| n * value.ln() - (n - 1.0) * log).collect();
    let interval = mean_interval(&pseudo, level).ok().and_then(|mean| mean.interval);
    let interval = interval.map(|logs: Interval| logs.map(f64::exp));
    Ok(Estimate { value, interval, count: units.len() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::means::standard_deviation;

    fn variance(values: &[f64]) -> f64 {
        standard_deviation(values).map_or(f64::NAN, |deviation| deviation.powi(2))
    }

    /// The same formula written a second time in Python, with t quantiles from tables; the 26 scores are those of Efron and
    /// Tibshirani, table 14.2, for which the chi-square interval is 110 to 340.
    #[test]
    fn agrees_with_a_second_program() {
        let check = |values: &[f64], expected: [f64; 3]| {
            let got = variance_interval(values, variance, 0.95).unwrap();
            let interval = got.interval.unwrap();
            let near = |got: f64, expected: f64| (got / expected - 1.0).abs() < 1e-9;
            let all = [got.value, interval.low, interval.high];
            assert!(all.iter().zip(expected).all(|(got, of)| near(*got, of)), "{all:?}");
        };
        check(&[1.0, 2.0, 4.0, 7.0, 11.0], [16.5, 2.241_401_003_522_905_7, 213.501_310_707_220_4]);
        let scores = [
            48, 36, 20, 29, 42, 42, 20, 42, 22, 41, 45, 14, 6, 0, 33, 28, 34, 4, 32, 24, 47, 41,
            24, 26, 30, 41,
        ]
        .map(f64::from);
        check(&scores, [178.395_384_615_384_6, 104.518_467_670_233_78, 327.977_605_376_261_9]);
    }

    #[test]
    fn what_has_no_interval() {
        let of = |values: &[f64]| variance_interval(values, variance, 0.95);
        assert_eq!(of(&[5.0; 4]).unwrap().interval, None, "no scatter");
        // Without the last one there is none.
        let one_off = of(&[5.0, 5.0, 5.0, 9.0]).unwrap();
        assert_eq!((one_off.value, one_off.interval, one_off.count), (4.0, None, 4));
        assert!(of(&[1.0, 2.0]).is_err());
        assert!(variance_interval(&[1.0, 2.0, 4.0], variance, 1.0).is_err());
    }

    #[test]
    fn the_unit_of_the_values_does_not_matter() {
        let values = [3.0, 4.5, 2.0, 8.0, 5.5, 4.0];
        let scaled = values.map(|value| 1000.0 * value);
        let of = |values: &[f64]| variance_interval(values, variance, 0.9).unwrap().map(f64::sqrt);
        let (a, b) = (of(&values).interval.unwrap(), of(&scaled).interval.unwrap());
        assert!((b.low / a.low / 1000.0 - 1.0).abs() < 1e-12);
        assert!((b.high / a.high / 1000.0 - 1.0).abs() < 1e-12);
    }
}
