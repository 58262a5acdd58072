//! Does a series rise or fall over time? Kendall's test and the slope of Theil and Sen that belongs to it.
//!
//! Assumes nothing about the shape of the noise, and a few wild values change little. What it takes for granted is that
//! without a trend every order of the values is equally likely: values that follow each other closely may wander, and then a
//! "trend" is found more often than stated. For a series of runs that is no mistake: wandering is what is looked for.

use crate::error::{StatsError, check_count, check_finite, check_share};
use crate::interval::{Estimate, Interval, ROUNDING, median_of_sorted, sorted};
use crate::special::{normal_cdf, normal_quantile};
use serde::Serialize;

/// Up to so many values the distribution of the test is computed exactly.
pub const EXACT_MAX: usize = 60;
/// Most values: all pairs are compared.
pub const VALUES_MAX: usize = 4000;

/// A trend with its evidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Trend {
    /// Median of the slopes of all pairs (Theil 1950, Sen 1968), in the unit of the values by that of the times, with the
    /// interval that belongs to the test; none when the values are too few for the level.
    pub slope: Estimate,
    /// Kendall's tau, -1 to 1: pairs that rise less pairs that fall, by all pairs.
    pub tau: f64,
    /// Two-sided p of "no trend" (Mann 1945). With ties it is an upper bound.
    pub p: f64,
    /// The smallest p that so few values can give.
    pub smallest_p: f64,
}

/// The trend of `values` over `times`, which need not be evenly spaced and rise strictly.
///
/// # Errors
/// Fewer than three values, sides of different length, a value that is not finite, times that do not rise, a level outside
/// 0 to 1, or more than [`VALUES_MAX`] values.
pub fn trend(times: &[f64], values: &[f64], level: f64) -> Result<Trend, StatsError> {
    if times.len() != values.len() {
        return Err(StatsError::Unpaired { a: times.len(), b: values.len() });
    }
    check_count(values.len(), 3)?;
    check_finite(times, 3)?;
    check_finite(values, 3)?;
    check_share(level)?;
    if values.len() > VALUES_MAX {
        let (count, most) = (values.len() as u64, VALUES_MAX as u64);
        return Err(StatsError::TooMany { count, most });
    }
    if let Some(at) = times.windows(2).position(|pair| pair[1] <= pair[0]) {
        return Err(StatsError::Order { place: at + 2 });
    }
    let (mut slopes, mut rises) = (Vec::new(), 0i64);
    for (at, (time, value)) in times.iter().zip(values).enumerate() {
        for (later, other) in times[at + 1..].iter().zip(&values[at + 1..]) {
            slopes.push((other - value) / (later - time));
            rises += i64::from(other > value) - i64::from(other < value);
        }
    }
    let slopes = sorted(&slopes);
    let (n, pairs) = (values.len(), slopes.len());
    // Pairs that are out of order, when none is tied.
    let inversions = (pairs as i64 - rises.abs()) / 2;
    let (p, smallest_p) = if n <= EXACT_MAX {
        let shares = inversion_shares(n);
        let below: f64 = shares[..=inversions as usize].iter().sum();
        ((2.0 * below).min(1.0), (2.0 * shares[0]).min(1.0))
    } else {
        let distance = (rises.abs() - 1).max(0) as f64;
        (2.0 * normal_cdf(-distance / variance(n).sqrt()), 0.0)
    };
    let interval = cut(n, 1.0 - level).map(|(k, missed)| Interval {
        low: slopes[k - 1],
        high: slopes[pairs - k],
        coverage: 1.0 - missed,
    });
    let slope = Estimate { value: median_of_sorted(&slopes), interval, count: n };
    Ok(Trend { slope, tau: rises as f64 / pairs as f64, p, smallest_p })
}

/// Variance of the number of rising less falling pairs.
fn variance(n: usize) -> f64 {
    let n = n as f64;
    n * (n - 1.0) * (2.0 * n + 5.0) / 18.0
}

/// Of all orders of n values, the share with 0, 1, 2... pairs out of order.
fn inversion_shares(n: usize) -> Vec<f64> {
    let mut shares = vec![1.0];
    for size in 2..=n {
        let mut longer = vec![0.0; shares.len() + size - 1];
        for (at, share) in shares.iter().enumerate() {
            longer[at..at + size].iter_mut().for_each(|sum| *sum += share / size as f64);
        }
        shares = longer;
    }
    shares
}

/// The k of the interval from the k-th smallest to the k-th largest slope, and how often it misses.
fn cut(n: usize, miss: f64) -> Option<(usize, f64)> {
    let pairs = n * (n - 1) / 2;
    if n > EXACT_MAX {
        let mean = 0.5 * pairs as f64;
        let deviation = 0.5 * variance(n).sqrt();
        let k = (mean + 0.5 + deviation * normal_quantile(0.5 * miss)).floor();
        let missed = 2.0 * normal_cdf((k - 0.5 - mean) / deviation);
        return (k >= 1.0).then_some((k as usize, missed));
    }
    let (mut below, mut best) = (0.0, None);
    for (k, share) in inversion_shares(n).into_iter().enumerate() {
        let missed = 2.0 * below;
        if missed > miss + ROUNDING || 2 * k > pairs {
            break;
        }
        if k > 0 {
            best = Some((k, missed));
        }
        below += share;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::normal;
    use fathom_base::prng::Prng;

    fn times(n: usize) -> Vec<f64> {
        (0..n).map(|i| i as f64).collect()
    }

    /// All orders of n values, counted.
    fn counted(n: usize) -> Vec<f64> {
        let mut counts = vec![0.0; n * (n - 1) / 2 + 1];
        let mut order: Vec<usize> = (0..n).collect();
        fn all(order: &mut Vec<usize>, at: usize, counts: &mut [f64]) {
            if at == order.len() {
                let pairs = (0..at).flat_map(|i| (i + 1..at).map(move |j| (i, j)));
                let inversions = pairs.filter(|(i, j)| order[*i] > order[*j]).count();
                counts[inversions] += 1.0;
                return;
            }
            for with in at..order.len() {
                order.swap(at, with);
                all(order, at + 1, counts);
                order.swap(at, with);
            }
        }
        all(&mut order, 0, &mut counts);
        let total: f64 = counts.iter().sum();
        counts.iter().map(|count| count / total).collect()
    }

    #[test]
    fn the_distribution_is_that_of_all_orders() {
        for n in 3..=7 {
            for (got, expected) in inversion_shares(n).iter().zip(counted(n)) {
                assert!((got - expected).abs() < 1e-14, "{n}");
            }
        }
    }

    /// M. Hollander, D. A. Wolfe, Nonparametric Statistical Methods, table of Kendall's K: P(K >= 8) = 0.042 at n = 5,
    /// P(K >= 11) = 0.028 at n = 6.
    #[test]
    fn agrees_with_the_published_table() {
        let tail = |n: usize, k: i64| {
            let inversions = (n * (n - 1) / 2) as i64 - k;
            inversion_shares(n)[..=(inversions / 2) as usize].iter().sum::<f64>()
        };
        assert!((tail(5, 8) - 0.042).abs() < 0.000_5);
        assert!((tail(6, 11) - 0.028).abs() < 0.000_5);
    }

    #[test]
    fn a_straight_line() {
        let values: Vec<f64> = times(6).iter().map(|t| 100.0 - 2.0 * t).collect();
        let got = trend(&times(6), &values, 0.95).unwrap();
        assert_eq!((got.slope.value, got.tau), (-2.0, -1.0));
        assert!((got.p - 2.0 / 720.0).abs() < 1e-15 && got.p == got.smallest_p);
        let interval = got.slope.interval.unwrap();
        assert_eq!((interval.low, interval.high), (-2.0, -2.0));
        // Four values cannot reach 0.05: 2 / 24.
        assert_eq!(trend(&times(4), &values[..4], 0.95).unwrap().slope.interval, None);
    }

    /// Six values by hand: of the 15 pairs 13 rise; slopes sorted, the median is the eighth.
    #[test]
    fn by_hand() {
        let values = [1.0, 3.0, 2.0, 5.0, 6.0, 5.5];
        let got = trend(&times(6), &values, 0.9).unwrap();
        assert!((got.tau - 11.0 / 15.0).abs() < 1e-15);
        assert!((got.p - 2.0 * 20.0 / 720.0).abs() < 1e-15, "{got:?}");
        let mut slopes = Vec::new();
        for i in 0..6 {
            for j in i + 1..6 {
                slopes.push((values[j] - values[i]) / (j - i) as f64);
            }
        }
        slopes.sort_by(f64::total_cmp);
        assert_eq!(got.slope.value, slopes[7]);
    }

    #[test]
    fn the_interval_holds_the_slope_as_often_as_stated() {
        let mut prng = Prng::new(11, 0);
        for n in [8, 20, 70] {
            let rounds = 1500;
            let (mut held, mut wrong) = (0, 0);
            for _ in 0..rounds {
                let values: Vec<f64> =
                    times(n).iter().map(|t| 0.3 * t + normal(&mut prng)).collect();
                let got = trend(&times(n), &values, 0.9).unwrap();
                held += usize::from(got.slope.interval.unwrap().contains(0.3));
                let flat: Vec<f64> = (0..n).map(|_| normal(&mut prng)).collect();
                wrong += usize::from(trend(&times(n), &flat, 0.9).unwrap().p <= 0.05);
            }
            let (held, wrong) = (held as f64 / rounds as f64, wrong as f64 / rounds as f64);
            assert!(held > 0.9 - 0.025 && wrong < 0.05 + 0.018, "{n}: {held} {wrong}");
        }
    }

    #[test]
    fn ties_and_nonsense() {
        let flat = trend(&times(8), &[5.0; 8], 0.95).unwrap();
        assert_eq!((flat.slope.value, flat.tau, flat.p), (0.0, 0.0, 1.0));
        assert!(trend(&times(2), &[1.0, 2.0], 0.95).is_err());
        assert!(trend(&times(3), &[1.0, 2.0], 0.95).is_err());
        assert!(trend(&[0.0, 0.0, 1.0], &[1.0, 2.0, 3.0], 0.95).is_err());
        assert!(trend(&times(3), &[1.0, f64::NAN, 3.0], 0.95).is_err());
    }
}
