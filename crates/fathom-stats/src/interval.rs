//! Estimates with confidence intervals: the median by order statistics, the mean by Student's t.
//!
//! Values are figures of whole runs. Seconds or single I/Os inside a run depend on each other; an interval over them is
//! far too narrow.

use crate::error::{StatsError, check_finite, check_share};
use crate::means::{arithmetic_mean, standard_deviation};
use crate::special::{binomial_cdf, student_quantile};
use fathom_base::units::format_range;
use serde::Serialize;

/// Slack where a probability is compared with the one asked for: rounding must not decide.
pub(crate) const ROUNDING: f64 = 1e-12;

/// A two-sided confidence interval; unit of the values it was made of.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Share of experiments, 0 to 1, whose interval made this way holds the true value. For rank methods it is exact for
    /// independent runs and at least what was asked for; for the others it is what was asked for, as good as their
    /// assumptions.
    pub coverage: f64,
}

impl Interval {
    /// Both ends through a rising function, such as `exp`.
    #[must_use]
    pub fn map(self, rising: impl Fn(f64) -> f64) -> Self {
        Self { low: rising(self.low), high: rising(self.high), ..self }
    }

    /// True for an interval of a ratio whose ends are a factor of more than 1000 apart: two runs that differ have such ones by Student's t.
    /// Nothing is known of the ratio then, and its ends mislead.
    #[must_use]
    pub fn says_nothing(&self) -> bool {
        const FACTOR_MAX: f64 = 1000.0;
        self.high.is_infinite() || (self.low > 0.0 && self.high / self.low > FACTOR_MAX)
    }

    /// True when `value` lies inside or on an end.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Both ends as people read them: `8 to 16 %`.
    #[must_use]
    pub fn range(&self, text: impl Fn(f64) -> String) -> String {
        format_range(&text(self.low), &text(self.high))
    }

    /// The same with its coverage, rounded to a percent: `97 %: 8 to 16 %`. None is sure: the last ones are 99.9 %.
    #[must_use]
    pub fn sure_range(&self, text: impl Fn(f64) -> String) -> String {
        let percent = 100.0 * self.coverage;
        let range = self.range(text);
        match percent {
            p if p < 99.5 => format!("{p:.0} %: {range}"),
            p => format!("{:.1} %: {range}", ((10.0 * p).floor() / 10.0).min(99.9)),
        }
    }
}

/// A location with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The location, in the unit of the values.
    pub value: f64,
    /// Its interval; none when the values are too few for the level asked for ([`pairs_needed`]).
    pub interval: Option<Interval>,
    /// How many values it rests on.
    pub count: usize,
}

impl Estimate {
    /// Value and interval through a rising function, such as `exp`.
    #[must_use]
    pub fn map(self, rising: impl Fn(f64) -> f64) -> Self {
        let interval = self.interval.map(|interval| interval.map(&rising));
        Self { value: rising(self.value), interval, ..self }
    }
}

/// The fewest values (or pairs) with which a rank method can reach a confidence level: 6 for 0.95, 8 for 0.99. The widest
/// interval, from the smallest to the largest value, misses the median with probability 2^(1-n).
///
/// # Errors
/// A level outside 0 to 1.
pub fn pairs_needed(level: f64) -> Result<usize, StatsError> {
    check_share(level)?;
    let missed = |n: &i32| 2f64.powi(1 - n);
    let needed = (2..1100).find(|n| missed(n) <= 1.0 - level + ROUNDING);
    Ok(needed.unwrap_or(1100) as usize)
}

/// The median of finite values; half way between the middle two of an even number.
///
/// # Errors
/// No value, or one that is not finite.
pub fn median(values: &[f64]) -> Result<f64, StatsError> {
    check_finite(values, 1)?;
    Ok(median_of_sorted(&sorted(values)))
}

/// The median with its exact interval between two order statistics.
///
/// Takes the r-th smallest and r-th largest value with the largest r whose coverage 1 - 2 P(X < r), X binomial with n
/// trials and probability 1/2, is at least `level` (David and Nagaraja, Order Statistics, 7.1). Nothing is assumed
/// about the distribution but that runs are independent.
///
/// # Errors
/// No value, one that is not finite, or a level outside 0 to 1.
pub fn median_interval(values: &[f64], level: f64) -> Result<Estimate, StatsError> {
    check_finite(values, 1)?;
    check_share(level)?;
    let sorted = sorted(values);
    let (n, miss) = (sorted.len() as u64, 1.0 - level);
    let below = |r: u64| 2.0 * binomial_cdf(r - 1, n, 0.5);
    // The largest rank by halving: `below` rises with it.
    let (mut fits, mut too_far) = (0, n / 2 + 1);
    while too_far - fits > 1 {
        let r = fits + (too_far - fits) / 2;
        if below(r) <= miss + ROUNDING { fits = r } else { too_far = r }
    }
    let interval = (fits > 0).then(|| Interval {
        low: sorted[fits as usize - 1],
        high: sorted[(n - fits) as usize],
        coverage: 1.0 - below(fits),
    });
    Ok(Estimate { value: median_of_sorted(&sorted), interval, count: sorted.len() })
}

/// The arithmetic mean with Student's interval: mean -+ t(n - 1) s / sqrt(n). Right when the figures of runs are
/// independent and nearly normal, which those of storage often are not; no interval for a single value.
///
/// # Errors
/// No value, one that is not finite, or a level outside 0 to 1.
pub fn mean_interval(values: &[f64], level: f64) -> Result<Estimate, StatsError> {
    let value = arithmetic_mean(values)?;
    check_share(level)?;
    let count = values.len();
    let interval = standard_deviation(values).ok().map(|deviation| {
        let t = -student_quantile(0.5 * (1.0 - level), count as f64 - 1.0);
        let half = t * deviation / (count as f64).sqrt();
        Interval { low: value - half, high: value + half, coverage: level }
    });
    Ok(Estimate { value, interval, count })
}

/// A sorted copy.
pub(crate) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The median of sorted values; NaN for none.
pub(crate) fn median_of_sorted(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[half],
        // Halved first, so that the sum of two huge values does not overflow.
        _ => 0.5 * sorted[half - 1] + 0.5 * sorted[half],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(n: u32) -> Vec<f64> {
        (1..=n).rev().map(f64::from).collect()
    }

    #[test]
    fn nothing_is_sure_to_100_percent() {
        let of = |coverage: f64| {
            Interval { low: 1.0, high: 2.0, coverage }.sure_range(|value| format!("{value:.0}"))
        };
        assert_eq!(of(0.9996), "99.9 %: 1 to 2");
        assert_eq!(of(0.9999999), "99.9 %: 1 to 2");
        assert_eq!(of(1.0), "99.9 %: 1 to 2");
        assert_eq!(of(0.996), "99.6 %: 1 to 2");
        assert_eq!(of(0.967), "97 %: 1 to 2");
    }

    #[test]
    fn people_read_the_unit_once_and_the_coverage() {
        let of = Interval { low: 0.08, high: 0.16, coverage: 0.96875 };
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        assert_eq!(
            (of.range(percent), of.sure_range(percent)),
            ("8 to 16 %".to_owned(), "97 %: 8 to 16 %".to_owned())
        );
    }

    #[test]
    fn ranks_of_the_median_interval() {
        // The interval of 1..=n shows the ranks; those for 0.95 stand in every table, e.g. Conover, Practical
        // Nonparametric Statistics, 3.2.
        let table = [
            (6, 1, 6),
            (7, 1, 7),
            (9, 2, 8),
            (10, 2, 9),
            (12, 3, 10),
            (15, 4, 12),
            (20, 6, 15),
            (30, 10, 21),
        ];
        for (n, low, high) in table {
            let got = median_interval(&numbers(n), 0.95).unwrap().interval.unwrap();
            assert_eq!((got.low, got.high), (f64::from(low), f64::from(high)), "{n}");
            assert!(got.coverage >= 0.95);
        }
        let six = median_interval(&numbers(6), 0.95).unwrap();
        assert_eq!((six.value, six.count), (3.5, 6));
        assert!((six.interval.unwrap().coverage - 0.96875).abs() < 1e-14);
    }

    #[test]
    fn too_few_for_an_interval() {
        for (n, level) in [(5, 0.95), (7, 0.99), (1, 0.5)] {
            let got = median_interval(&numbers(n), level).unwrap();
            assert_eq!((got.interval, got.value), (None, 0.5 * f64::from(n + 1)));
        }
        assert_eq!([0.5, 0.95, 0.96875, 0.99].map(pairs_needed), [Ok(2), Ok(6), Ok(6), Ok(8)]);
        assert!(pairs_needed(1.0).is_err());
        assert_eq!(mean_interval(&[7.0], 0.95).unwrap().interval, None);
    }

    #[test]
    fn coverage_is_the_share_of_sign_patterns() {
        // Each value lies below the median with probability 1/2: all 2^n patterns are equally likely.
        for n in 2..=14u32 {
            for level in [0.5, 0.8, 0.9, 0.95, 0.99] {
                let covered = |low: u32, high: u32| {
                    let holds = |pattern: &u32| (low..high).contains(&pattern.count_ones());
                    (0..1u32 << n).filter(holds).count() as f64 / f64::from(1u32 << n)
                };
                let got = median_interval(&numbers(n), level).unwrap().interval;
                let Some(got) = got else {
                    assert!(covered(1, n) < level, "{n} at {level}");
                    continue;
                };
                let (low, high) = (got.low as u32, got.high as u32);
                assert!((got.coverage - covered(low, high)).abs() < 1e-14);
                assert!(got.coverage >= level - ROUNDING);
                assert!(low + 1 > n / 2 || covered(low + 1, high - 1) < level, "{n}: too wide");
            }
        }
    }

    #[test]
    fn additional_sleep() {
        // Student (1908), Cushny and Peebles' data; t.test(extra ~ group, data = sleep, paired = TRUE) of R prints a mean
        // of 1.58 and the interval 0.7001142 to 2.4598858.
        let values = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4];
        let got = mean_interval(&values, 0.95).unwrap();
        let interval = got.interval.unwrap();
        assert!((got.value - 1.58).abs() < 1e-14);
        assert!((interval.low - 0.700_114_2).abs() < 5e-8, "{interval:?}");
        assert!((interval.high - 2.459_885_8).abs() < 5e-8, "{interval:?}");
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(median(&[]).is_err() && median(&[1.0, f64::NAN]).is_err());
        assert!(median_interval(&[1.0, 2.0], 1.0).is_err());
        assert!(mean_interval(&[1.0, 2.0], f64::NAN).is_err());
        assert_eq!(median(&[3.0, 1.0, 2.0]), Ok(2.0));
        assert_eq!(median(&[f64::MAX, f64::MAX]), Ok(f64::MAX));
        assert_eq!(mean_interval(&[3.0; 4], 0.95).unwrap().interval.unwrap().low, 3.0);
    }
}
