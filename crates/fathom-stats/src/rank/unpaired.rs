//! Separate groups: the Mann-Whitney (Wilcoxon rank-sum) test and the shift that belongs to it.

use super::{RankTest, cut, cut_of_many, doubled_ranks, normal_p, smallest_two_sided, two_sided};
use crate::error::{StatsError, check_finite, check_share};
use crate::interval::{Estimate, Interval, median_of_sorted};

/// The permutation distribution is computed exactly while the size of the smaller group, times that of both together, is
/// at most this: 50 against 50, 25 against 175, 5 against 995.
pub const EXACT_MAX: usize = 5000;
/// Most differences between a value of one group and one of the other.
pub const DIFFERENCES_MAX: usize = 4_000_000;

/// The Mann-Whitney test that values of `b` are as often above as below values of `a`. The statistic is the number of
/// pairs in which `b` is larger, equal ones counting half.
///
/// p is exact over all ways to divide these values, ties included, into groups of these sizes, up to
/// [`EXACT_MAX`]; beyond it a normal approximation with corrections for ties and continuity.
///
/// # Errors
/// An empty group, a value that is not finite, or more than [`DIFFERENCES_MAX`] pairs.
pub fn rank_sum_test(a: &[f64], b: &[f64]) -> Result<RankTest, StatsError> {
    check(a, b)?;
    let all: Vec<f64> = b.iter().chain(a).copied().collect();
    let ranks = doubled_ranks(&all);
    let doubled: usize = ranks[..b.len()].iter().sum();
    // Less the smallest sum that b's ranks can have: a value ranks one for each of its own group not above it.
    let statistic = 0.5 * (doubled - b.len() * (b.len() + 1)) as f64;
    if is_exact(a.len(), b.len()) {
        // The smaller group's sum tells the larger one's.
        let in_smaller =
            if b.len() <= a.len() { doubled } else { ranks.iter().sum::<usize>() - doubled };
        let ways = subset_sums(&ranks, a.len().min(b.len()));
        let (p, smallest_p) = (two_sided(&ways, in_smaller), smallest_two_sided(&ways));
        return Ok(RankTest { statistic, p, smallest_p, is_exact: true });
    }
    let (m, n, total) = (a.len() as f64, b.len() as f64, all.len() as f64);
    let spread: f64 =
        ranks.iter().map(|rank| (0.5 * *rank as f64 - 0.5 * (total + 1.0)).powi(2)).sum();
    let variance = m * n * spread / (total * (total - 1.0));
    let p = normal_p(statistic, 0.5 * m * n, variance, 0.5);
    let ln_ways = libm::lgamma(total + 1.0) - libm::lgamma(m + 1.0) - libm::lgamma(n + 1.0);
    Ok(RankTest { statistic, p, smallest_p: 2.0 * (-ln_ways).exp(), is_exact: false })
}

/// The Hodges-Lehmann estimate of how far `b` is shifted against `a`, the median of all differences b - a, with the
/// interval that belongs to [`rank_sum_test`] (Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, 4.2 and
/// 4.3).
///
/// Of logs it is the log of a ratio. The coverage is exact for independent groups of the same shape without ties, and at
/// least that with ties. At 0.95 it needs four values on either side, or e.g. three against five.
///
/// # Errors
/// An empty group, a value that is not finite, more than [`DIFFERENCES_MAX`] pairs, or a level outside 0 to 1.
pub fn hodges_lehmann_shift(a: &[f64], b: &[f64], level: f64) -> Result<Estimate, StatsError> {
    check(a, b)?;
    check_share(level)?;
    let mut differences: Vec<f64> = b.iter().flat_map(|b| a.iter().map(move |a| b - a)).collect();
    differences.sort_by(f64::total_cmp);
    let miss = 1.0 - level;
    let cut = if is_exact(a.len(), b.len()) {
        let smaller = a.len().min(b.len());
        let ranks: Vec<usize> = (1..=a.len() + b.len()).collect();
        let ways = subset_sums(&ranks, smaller);
        // From rank sums to numbers of pairs, which begin at 0.
        cut(&ways[smaller * (smaller + 1) / 2..], miss)
    } else {
        let (m, n) = (a.len() as f64, b.len() as f64);
        let variance = m * n * (m + n + 1.0) / 12.0;
        cut_of_many(0.5 * m * n, variance.sqrt(), miss)
    };
    let interval = cut.map(|(k, missed)| Interval {
        low: differences[k - 1],
        high: differences[differences.len() - k],
        coverage: 1.0 - missed,
    });
    Ok(Estimate { value: median_of_sorted(&differences), interval, count: a.len() + b.len() })
}

fn is_exact(a: usize, b: usize) -> bool {
    a.min(b).saturating_mul(a + b) <= EXACT_MAX
}

fn check(a: &[f64], b: &[f64]) -> Result<(), StatsError> {
    check_finite(a, 1)?;
    check_finite(b, 1)?;
    let count = a.len().saturating_mul(b.len());
    if count > DIFFERENCES_MAX {
        return Err(StatsError::TooMany { count: count as u64, most: DIFFERENCES_MAX as u64 });
    }
    Ok(())
}

/// In how many ways `size` of the ranks sum to 0, 1, 2..., up to the largest sum.
fn subset_sums(ranks: &[usize], size: usize) -> Vec<f64> {
    let mut falling = ranks.to_vec();
    falling.sort_unstable_by(|a, b| b.cmp(a));
    let highest: usize = falling[..size].iter().sum();
    // ways[chosen][sum], after the ranks so far.
    let mut ways = vec![vec![0.0; highest + 1]; size + 1];
    ways[0][0] = 1.0;
    for rank in ranks {
        for chosen in (1..=size).rev() {
            let (fewer, more) = ways.split_at_mut(chosen);
            let with = more[0].iter_mut().skip(*rank);
            with.zip(&fewer[chosen - 1]).for_each(|(with, without)| *with += without);
        }
    }
    ways.swap_remove(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank::tests::assert_inverts;
    use proptest::prelude::*;

    /// Permeability of membranes at term and at 12 to 26 weeks: Hollander and Wolfe (1973), 69; the second example of R's
    /// wilcox.test.
    const AT_TERM: [f64; 10] = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
    const EARLY: [f64; 5] = [1.15, 0.88, 0.90, 0.74, 1.21];

    /// Both tails of b's rank sum over all divisions of the values, with ranks counted from their definition.
    fn tails_of_all_divisions(a: &[f64], b: &[f64]) -> (f64, f64) {
        let all: Vec<f64> = b.iter().chain(a).copied().collect();
        let rank = |value: &f64| {
            let below = all.iter().filter(|other| *other < value).count() as f64;
            below + 0.5 * (all.iter().filter(|other| *other == value).count() as f64 + 1.0)
        };
        let ranks: Vec<f64> = all.iter().map(rank).collect();
        let sum = |division: u32| {
            (0..all.len()).filter(|i| division >> i & 1 == 1).map(|i| ranks[i]).sum::<f64>()
        };
        let observed = sum((1 << b.len()) - 1);
        let divisions = (0..1u32 << all.len()).filter(|d| d.count_ones() as usize == b.len());
        let sums: Vec<f64> = divisions.map(sum).collect();
        let share = |count: usize| count as f64 / sums.len() as f64;
        let low = share(sums.iter().filter(|sum| **sum <= observed).count());
        (low, share(sums.iter().filter(|sum| **sum >= observed).count()))
    }

    fn p_of_all_divisions(a: &[f64], b: &[f64]) -> f64 {
        let (low, high) = tails_of_all_divisions(a, b);
        (2.0 * low.min(high)).min(1.0)
    }

    #[test]
    fn permeability() {
        // R prints W = 35 and, one-sided, p = 0.1272.
        let got = rank_sum_test(&EARLY, &AT_TERM).unwrap();
        assert_eq!((got.statistic, got.is_exact), (35.0, true));
        assert!((0.5 * got.p - 0.1272).abs() < 5e-5, "{got:?}");
        let swapped = rank_sum_test(&AT_TERM, &EARLY).unwrap();
        assert_eq!((swapped.statistic, swapped.p), (15.0, got.p));
        // The ninth smallest and largest of the 50 differences, by numpy 2.4; coverage in exact fractions.
        let shift = hodges_lehmann_shift(&EARLY, &AT_TERM, 0.95).unwrap();
        let interval = shift.interval.unwrap();
        assert!((shift.value - 0.305).abs() < 1e-12, "{shift:?}");
        assert!((interval.low + 0.15).abs() < 1e-12 && (interval.high - 0.76).abs() < 1e-12);
        assert!((interval.coverage - 0.960_039_960_039_960_1).abs() < 1e-14);
    }

    #[test]
    fn blood_pressure_with_ties() {
        // StatXact's example, in the tests of the R package exactRankTests: one-sided exact p = 0.0542.
        let treated = [94.0, 108.0, 110.0, 90.0];
        let control = [80.0, 94.0, 85.0, 90.0, 90.0, 90.0, 108.0, 94.0, 78.0, 105.0, 88.0];
        let got = rank_sum_test(&control, &treated).unwrap();
        assert!((0.5 * got.p - 0.0542).abs() < 5e-5, "{got:?}");
    }

    #[test]
    fn few_runs_cannot_decide() {
        let p = |a: &[f64], b: &[f64]| rank_sum_test(a, b).unwrap();
        // 2 of 20, of 70 and of 252 divisions are as extreme.
        assert_eq!(p(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]).p, 0.1);
        let four = p(&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0]);
        assert_eq!((four.p, four.smallest_p), (2.0 / 70.0, 2.0 / 70.0));
        assert_eq!(hodges_lehmann_shift(&[1.0; 3], &[2.0; 4], 0.95).unwrap().interval, None);
        let least =
            hodges_lehmann_shift(&[1.0, 2.0, 3.0], &[5.0, 6.0, 7.0, 8.0, 9.0], 0.95).unwrap();
        let interval = least.interval.unwrap();
        assert_eq!((interval.low, interval.high, least.value), (2.0, 8.0, 5.0));
        assert!((interval.coverage - (1.0 - 2.0 / 56.0)).abs() < 1e-15);
        assert_eq!(p(&[1.0; 6], &[1.0; 6]).p, 1.0);
        assert_eq!(p(&[1.0], &[2.0]).p, 1.0);
    }

    /// scipy 1.17.1: stats.mannwhitneyu(b, a, method="asymptotic"), with ties.
    #[test]
    fn approximation_agrees_with_scipy() {
        let tenths = |value: f64| (value * 10.0).round() / 10.0;
        let number = f64::from;
        let a: Vec<f64> =
            (0..80).map(|i| tenths((number(i) * 1.7).sin() * 3.0 + number(i) * 0.01)).collect();
        let b: Vec<f64> = (0..90).map(|i| tenths((number(i) * 2.3).cos() * 3.0 + 0.8)).collect();
        let got = rank_sum_test(&a, &b).unwrap();
        assert_eq!((got.statistic, got.is_exact), (4041.5, false));
        assert!((got.p - 0.168_471_484_148_346).abs() < 1e-12, "{got:?}");
    }

    /// The whole distribution in exact fractions (Python): k of the interval at 0.95 and its coverage.
    #[test]
    fn cuts_of_two_groups() {
        for (a, b, k, coverage) in [
            (4, 4, 1, 0.971_428_571_428_571_4),
            (5, 5, 3, 0.968_253_968_253_968_1),
            (50, 50, 966, 0.950_452_276_401_153_7),
        ] {
            let values =
                |n: u32, step: f64| (0..n).map(|i| f64::from(i) * step).collect::<Vec<_>>();
            // All differences are different, so their order shows k.
            let (a, b) = (values(a, 1000.0), values(b, 1.0));
            let interval = hodges_lehmann_shift(&a, &b, 0.95).unwrap().interval.unwrap();
            let differences = b.iter().flat_map(|b| a.iter().map(move |a| b - a));
            assert_eq!(differences.filter(|d| *d < interval.low).count(), k - 1);
            assert!((interval.coverage - coverage).abs() < 1e-12, "{interval:?}");
        }
    }

    #[test]
    fn exact_and_approximate_agree_where_they_meet() {
        let values = |n: usize, shift: f64| -> Vec<f64> {
            // Rounded, so that there are ties.
            (0..n).map(|i| ((1.7 * i as f64).sin() * 30.0 + shift).round()).collect()
        };
        let (a, b, more) = (values(50, 0.0), values(50, 7.0), values(51, 7.0));
        let (exact, approximate) =
            (rank_sum_test(&a, &b).unwrap(), rank_sum_test(&a, &more).unwrap());
        assert!(exact.is_exact && !approximate.is_exact);
        assert!((exact.p - approximate.p).abs() < 0.03, "{} {}", exact.p, approximate.p);
        let exact = hodges_lehmann_shift(&a, &b, 0.95).unwrap().interval.unwrap();
        let approximate = hodges_lehmann_shift(&a, &more, 0.95).unwrap().interval.unwrap();
        assert!((exact.low - approximate.low).abs() <= 1.0, "{exact:?} {approximate:?}");
        assert!((exact.high - approximate.high).abs() <= 1.0, "{exact:?} {approximate:?}");
    }

    #[test]
    fn one_against_thousands_has_no_interval() {
        let many: Vec<f64> = (0..6000).map(f64::from).collect();
        let got = hodges_lehmann_shift(&[10.0], &many, 0.95).unwrap();
        assert_eq!(got.interval.map(|interval| interval.low), None);
        let p = rank_sum_test(&[10.0], &many).unwrap();
        assert!(!p.is_exact && (p.smallest_p - 2.0 / 6001.0).abs() < 1e-9, "{p:?}");
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(rank_sum_test(&[], &[1.0]).is_err() && rank_sum_test(&[1.0], &[]).is_err());
        assert!(rank_sum_test(&[f64::NAN], &[1.0]).is_err());
        assert!(hodges_lehmann_shift(&[1.0], &[1.0], 2.0).is_err());
        let many = StatsError::TooMany { count: 6_250_000, most: 4_000_000 };
        assert_eq!(rank_sum_test(&[1.0; 2500], &[1.0; 2500]), Err(many));
    }

    proptest! {
        #[test]
        fn p_is_that_of_all_divisions(
            a in prop::collection::vec(0i32..8, 1..7),
            b in prop::collection::vec(1i32..9, 1..7),
        ) {
            let [a, b] = [a, b].map(|whole| whole.into_iter().map(f64::from).collect::<Vec<_>>());
            let got = rank_sum_test(&a, &b).unwrap();
            prop_assert!((got.p - p_of_all_divisions(&a, &b)).abs() < 1e-14);
            prop_assert!(got.smallest_p <= got.p);
            let larger: f64 = a.iter().flat_map(|a| b.iter().map(move |b| {
                if b > a { 1.0 } else if b == a { 0.5 } else { 0.0 }
            })).sum();
            prop_assert_eq!(got.statistic, larger);
        }

        #[test]
        fn interval_inverts_the_test(
            a in prop::collection::vec(-1.0f64..1.0, 4..7),
            b in prop::collection::vec(-0.5f64..1.5, 4..7),
            level in 0.7f64..0.97,
        ) {
            let interval = hodges_lehmann_shift(&a, &b, level).unwrap().interval.unwrap();
            let p_at = |shift: f64| p_of_all_divisions(&a, &b.iter().map(|b| b - shift).collect::<Vec<_>>());
            assert_inverts(&interval, level, p_at);
        }
    }
}
