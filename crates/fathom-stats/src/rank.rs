//! Rank methods: tests, shifts and their intervals that assume nothing about the shape of the distribution.
//!
//! Figures of storage runs are skewed, have outliers and come in small numbers; rank methods stay valid there, and are
//! exact for the numbers that experiments have. [`paired`] is for two things measured side by side in blocks, the better
//! design because drift cancels; [`unpaired`] for separate groups, such as archives of old runs.
//!
//! A p-value tells whether there is a difference, not how large it is: read the interval. Values are runs.

pub mod paired;
pub mod unpaired;

use crate::interval::ROUNDING;
use crate::special::{normal_cdf, normal_quantile};
use serde::Serialize;

/// Outcome of a two-sided test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RankTest {
    /// The test's statistic; what it is, the test says.
    pub statistic: f64,
    /// Probability, 0 to 1, of a statistic at least as extreme if there is no difference: twice the smaller tail.
    pub p: f64,
    /// The smallest p that these numbers of values (with their ties) can give at all: with it above 0.05, nothing can be
    /// found at 0.05, however large the difference.
    pub smallest_p: f64,
    /// Whether p is exact, or from a normal approximation because the values are many.
    pub is_exact: bool,
}

/// Twice the ranks of the values, from 2 upward, as integers: equal values share the mean of their ranks.
fn doubled_ranks(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0; values.len()];
    let mut first = 0;
    while first < order.len() {
        let tied = order[first..].iter().take_while(|i| values[**i] == values[order[first]]);
        let next = first + tied.count().max(1);
        // Ranks first + 1 to next.
        order[first..next].iter().for_each(|place| ranks[*place] = first + 1 + next);
        first = next;
    }
    ranks
}

/// Twice the smaller of both tails of a distribution over 0, 1, 2... at `statistic`, at most 1.
fn two_sided(weights: &[f64], statistic: usize) -> f64 {
    let total: f64 = weights.iter().sum();
    let low: f64 = weights[..=statistic].iter().sum();
    let high: f64 = weights[statistic..].iter().sum();
    (2.0 * low.min(high) / total).min(1.0)
}

/// The smallest value of [`two_sided`] for any statistic that can occur.
fn smallest_two_sided(weights: &[f64]) -> f64 {
    let ends = [weights.iter().find(|w| **w > 0.0), weights.iter().rfind(|w| **w > 0.0)];
    let rarest = ends.into_iter().flatten().fold(f64::INFINITY, |least, w| w.min(least));
    (2.0 * rarest / weights.iter().sum::<f64>()).min(1.0)
}

/// The k of the interval from the k-th smallest to the k-th largest difference: the largest k with
/// P(statistic < k) <= miss / 2, and twice that probability. None when even k = 1 misses too often.
fn cut(weights: &[f64], miss: f64) -> Option<(usize, f64)> {
    let total: f64 = weights.iter().sum();
    let mut below = 0.0;
    let mut best = None;
    for (k, weight) in weights.iter().enumerate() {
        let missed = 2.0 * below / total;
        if missed > miss + ROUNDING || 2 * k > weights.len() {
            break;
        }
        if k > 0 {
            best = Some((k, missed));
        }
        below += weight;
    }
    best
}

/// [`cut`] by the normal approximation with continuity correction, for a statistic with this mean and deviation.
fn cut_of_many(mean: f64, deviation: f64, miss: f64) -> Option<(usize, f64)> {
    let k = (mean + 0.5 + deviation * normal_quantile(0.5 * miss)).floor();
    let missed = 2.0 * normal_cdf((k - 0.5 - mean) / deviation);
    (k >= 1.0).then_some((k as usize, missed))
}

/// Two-sided p by the normal approximation; `correction` is half the step between neighbouring statistics.
fn normal_p(statistic: f64, mean: f64, variance: f64, correction: f64) -> f64 {
    if variance <= 0.0 {
        return 1.0;
    }
    let distance = ((statistic - mean).abs() - correction).max(0.0);
    2.0 * normal_cdf(-distance / variance.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::Interval;

    /// The interval is exactly the set of shifts that the test does not refuse; `p_at` is the test's p at a shift.
    pub(super) fn assert_inverts(interval: &Interval, level: f64, p_at: impl Fn(f64) -> f64) {
        assert!(interval.coverage >= level);
        let step = 1e-9;
        assert!(p_at(interval.low - step) <= 1.0 - level);
        assert!(p_at(interval.low + step) > 1.0 - level);
        assert!(p_at(interval.high - step) > 1.0 - level);
        assert!(p_at(interval.high + step) <= 1.0 - level);
        assert!((p_at(interval.low - step) - (1.0 - interval.coverage)).abs() < 1e-12);
    }

    #[test]
    fn equal_values_share_their_ranks() {
        // Ranks 2, 4.5, 1, 4.5, 4.5, 4.5, 7, doubled.
        let values = [2.0, 3.0, -1.0, 3.0, 3.0, 3.0, 9.0];
        assert_eq!(doubled_ranks(&values), [4, 9, 2, 9, 9, 9, 14]);
        assert_eq!(doubled_ranks(&[0.0, -0.0]), [3, 3]);
        assert_eq!(doubled_ranks(&[]), [0; 0]);
    }
}
