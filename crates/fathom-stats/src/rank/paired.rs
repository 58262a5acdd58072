//! Pairs: differences within blocks, tested and estimated by signed ranks.

use super::{RankTest, cut, cut_of_many, doubled_ranks, normal_p, smallest_two_sided, two_sided};
use crate::error::{StatsError, check_finite, check_positive, check_share};
use crate::interval::{Estimate, Interval, median_of_sorted};

/// Up to so many pairs the distribution of the signed ranks is computed exactly.
pub const EXACT_MAX: usize = 200;
/// Most pairs: means of two are compared with each other, half a million for a thousand.
pub const PAIRS_MAX: usize = 2000;

/// ln(b / a) of each pair: what is compared when a change is a percentage. Pairs are of the same block, in the same order.
///
/// # Errors
/// Sides of different length, no pair, or a value that is not finite and above 0.
pub fn log_ratios(a: &[f64], b: &[f64]) -> Result<Vec<f64>, StatsError> {
    if a.len() != b.len() {
        return Err(StatsError::Unpaired { a: a.len(), b: b.len() });
    }
    check_positive(a, 1)?;
    check_positive(b, 1)?;
    Ok(a.iter().zip(b).map(|(a, b)| b.ln() - a.ln()).collect())
}

/// Wilcoxon's signed-rank test that the differences lie symmetrically around 0. The statistic is the sum of the ranks of
/// positive differences.
///
/// Zeros are ranked with the others and then left out (Pratt 1959), so that they count against a difference instead of
/// vanishing; equal sizes share their mean rank. Exact for these ranks up to [`EXACT_MAX`] pairs, beyond it normal
/// approximation with continuity correction.
///
/// # Errors
/// No difference, one that is not finite, or more than [`PAIRS_MAX`].
pub fn signed_rank_test(differences: &[f64]) -> Result<RankTest, StatsError> {
    check(differences)?;
    let sizes: Vec<f64> = differences.iter().map(|difference| difference.abs()).collect();
    let ranked: Vec<(f64, usize)> = differences
        .iter()
        .copied()
        .zip(doubled_ranks(&sizes))
        .filter(|(difference, _)| *difference != 0.0)
        .collect();
    let ranks: Vec<usize> = ranked.iter().map(|(_, rank)| *rank).collect();
    let positive: usize = ranked.iter().filter(|(d, _)| *d > 0.0).map(|(_, rank)| rank).sum();
    let statistic = 0.5 * positive as f64;
    if differences.len() <= EXACT_MAX {
        let shares = signed_sums(&ranks);
        let smallest_p = smallest_two_sided(&shares);
        let p = two_sided(&shares, positive);
        return Ok(RankTest { statistic, p, smallest_p, is_exact: true });
    }
    let mean = 0.25 * ranks.iter().sum::<usize>() as f64;
    let variance = ranks.iter().map(|rank| (*rank as f64).powi(2)).sum::<f64>() / 16.0;
    let p = normal_p(statistic, mean, variance, 0.5);
    let smallest_p = 2f64.powi(1 - ranks.len() as i32).min(1.0);
    Ok(RankTest { statistic, p, smallest_p, is_exact: false })
}

/// The Hodges-Lehmann estimate of the centre of the differences, the median of the means of all pairs of them (Walsh
/// averages), with the interval that belongs to [`signed_rank_test`] (Hollander, Wolfe and Chicken, Nonparametric
/// Statistical Methods, 3.2 and 3.3).
///
/// Of log-ratios it is the log of a ratio: `exp` of it, by [`Estimate::map`]. The coverage is exact for independent
/// symmetric differences without ties, and at least that with ties. The interval leaves out 0 exactly when the test
/// without ties and zeros finds p at most 1 - coverage. At 0.95 it needs six pairs.
///
/// # Errors
/// No difference, one that is not finite, more than [`PAIRS_MAX`], or a level outside 0 to 1.
pub fn hodges_lehmann(differences: &[f64], level: f64) -> Result<Estimate, StatsError> {
    check(differences)?;
    check_share(level)?;
    let count = differences.len();
    let means = walsh_averages(differences);
    let miss = 1.0 - level;
    let cut = if count <= EXACT_MAX {
        cut(&signed_sums(&(1..=count).collect::<Vec<_>>()), miss)
    } else {
        let n = count as f64;
        let variance = n * (n + 1.0) * (2.0 * n + 1.0) / 24.0;
        cut_of_many(0.25 * n * (n + 1.0), variance.sqrt(), miss)
    };
    let interval = cut.map(|(k, missed)| Interval {
        low: means[k - 1],
        high: means[means.len() - k],
        coverage: 1.0 - missed,
    });
    Ok(Estimate { value: median_of_sorted(&means), interval, count })
}

fn check(differences: &[f64]) -> Result<(), StatsError> {
    check_finite(differences, 1)?;
    if differences.len() > PAIRS_MAX {
        return Err(StatsError::TooMany {
            count: differences.len() as u64,
            most: PAIRS_MAX as u64,
        });
    }
    Ok(())
}

/// The distribution of the sum of those ranks whose sign is positive, each with probability 1/2: the share of all sign
/// patterns that give the sums 0, 1, 2...
fn signed_sums(ranks: &[usize]) -> Vec<f64> {
    let mut shares = vec![0.0; ranks.iter().sum::<usize>() + 1];
    shares[0] = 1.0;
    let mut highest = 0;
    for rank in ranks {
        highest += rank;
        for sum in (0..=highest).rev() {
            let with = if sum >= *rank { shares[sum - rank] } else { 0.0 };
            shares[sum] = 0.5 * (shares[sum] + with);
        }
    }
    shares
}

/// The means of all pairs of differences, each also with itself, sorted.
fn walsh_averages(differences: &[f64]) -> Vec<f64> {
    let with_later = |(i, first): (usize, &f64)| {
        let first = *first;
        differences[i..].iter().map(move |second| 0.5 * first + 0.5 * second)
    };
    let mut means: Vec<f64> = differences.iter().enumerate().flat_map(with_later).collect();
    means.sort_by(f64::total_cmp);
    means
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank::tests::assert_inverts;
    use proptest::prelude::*;

    /// Depression scale before and after a tranquilizer, nine patients: Hollander and Wolfe (1973), 29; the first example
    /// of R's wilcox.test.
    const BEFORE: [f64; 9] = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
    #[expect(clippy::approx_constant, reason = "3.14 is what was measured")]
    const AFTER: [f64; 9] = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29];

    fn depression() -> Vec<f64> {
        BEFORE.iter().zip(AFTER).map(|(before, after)| before - after).collect()
    }

    /// Both tails of the sum of positive ranks over all patterns of signs, with ranks counted from their definition.
    fn tails_of_all_patterns(differences: &[f64]) -> (f64, f64) {
        let size = |i: usize| differences[i].abs();
        let all = 0..differences.len();
        let rank = |i: usize| {
            let below = all.clone().filter(|j| size(*j) < size(i)).count() as f64;
            let equal = all.clone().filter(|j| size(*j) == size(i)).count() as f64;
            below + 0.5 * (equal + 1.0)
        };
        let ranks: Vec<f64> = all.clone().filter(|i| size(*i) > 0.0).map(rank).collect();
        let observed: f64 = all.clone().filter(|i| differences[*i] > 0.0).map(rank).sum();
        let sum = |pattern: u32| {
            let is_positive = |i: &usize| pattern >> i & 1 == 1;
            (0..ranks.len()).filter(is_positive).map(|i| ranks[i]).sum::<f64>()
        };
        let sums: Vec<f64> = (0..1u32 << ranks.len()).map(sum).collect();
        let share = |holds: &dyn Fn(&&f64) -> bool| {
            sums.iter().filter(holds).count() as f64 / sums.len() as f64
        };
        (share(&|sum| **sum <= observed), share(&|sum| **sum >= observed))
    }

    fn p_of_all_patterns(differences: &[f64]) -> f64 {
        let (low, high) = tails_of_all_patterns(differences);
        (2.0 * low.min(high)).min(1.0)
    }

    #[test]
    fn depression_scale() {
        // R prints V = 40 and, one-sided, p = 0.01953.
        let got = signed_rank_test(&depression()).unwrap();
        assert_eq!((got.statistic, got.is_exact), (40.0, true));
        assert_eq!((got.p, got.smallest_p), (20.0 / 512.0, 2.0 / 512.0));
        let got = hodges_lehmann(&depression(), 0.95).unwrap();
        assert_eq!(got.count, 9);
        // The sixth smallest and largest of the 45 means, by numpy 2.4; psignrank(5, 9) = 20/1024 each.
        let interval = got.interval.unwrap();
        assert!((got.value - 0.46).abs() < 1e-12, "{got:?}");
        assert!((interval.low - 0.01).abs() < 1e-12 && (interval.high - 0.786).abs() < 1e-12);
        assert_eq!(interval.coverage, 0.960_937_5);
    }

    #[test]
    fn few_pairs_cannot_decide() {
        let rises = |n: u32| (1..=n).map(f64::from).collect::<Vec<_>>();
        assert_eq!(signed_rank_test(&rises(5)).unwrap().p, 0.0625);
        assert_eq!(signed_rank_test(&rises(6)).unwrap().p, 0.03125);
        assert_eq!(hodges_lehmann(&rises(5), 0.95).unwrap().interval, None);
        let six = hodges_lehmann(&rises(6), 0.95).unwrap().interval.unwrap();
        assert_eq!((six.low, six.high, six.coverage), (1.0, 6.0, 0.96875));
        assert_eq!(hodges_lehmann(&[3.0], 0.95).unwrap().value, 3.0);
    }

    /// The whole distribution in exact fractions (Python): k of the interval at 0.95 and its coverage.
    #[test]
    fn cuts_of_many_pairs() {
        for (n, k, coverage) in [
            (7, 3, 0.953_125),
            (8, 4, 0.960_937_5),
            (12, 14, 0.957_519_531_25),
            (18, 41, 0.951_721_191_406_25),
            (25, 90, 0.951_737_582_683_563_2),
            (200, 8445, 0.950_030_368_700_025_2),
        ] {
            let (got, missed) = cut(&signed_sums(&(1..=n).collect::<Vec<_>>()), 0.05).unwrap();
            assert_eq!(got, k, "{n}");
            assert!((1.0 - missed - coverage).abs() < 1e-13, "{n}: {missed}");
        }
        // The normal approximation, one beyond: in fractions 8533, and 0.0497609 are missed with 8532.
        let deviation = (201.0f64 * 202.0 * 403.0 / 24.0).sqrt();
        let (got, missed) = cut_of_many(10_150.5, deviation, 0.05).unwrap();
        assert!(got == 8532 && (missed - 0.049_760_9).abs() < 2e-4, "{got} {missed}");
    }

    /// scipy 1.17.1: stats.wilcoxon(d, zero_method="pratt", correction=True, method="asymptotic"); four zeros, many ties.
    #[test]
    fn approximation_agrees_with_scipy() {
        let differences: Vec<f64> =
            (0..250).map(|i| ((f64::from(i) * 1.7).sin() * 30.0 + 3.0).round() / 10.0).collect();
        let got = signed_rank_test(&differences).unwrap();
        assert!((got.p - 0.007_500_083_719_176_63).abs() < 1e-12, "{got:?}");
    }

    #[test]
    fn zeros_count_against_a_difference() {
        let p = |differences: &[f64]| signed_rank_test(differences).unwrap().p;
        assert_eq!(p(&[0.0; 7]), 1.0);
        assert_eq!(p(&[0.0, 0.0, 1.0]), 1.0);
        // Ranks 3 to 8 of 8: the sum of -1 and 5 others.
        let differences = [0.0, 0.0, -1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        assert_eq!(p(&differences), p_of_all_patterns(&differences));
    }

    #[test]
    fn exact_and_approximate_agree_where_they_meet() {
        let differences: Vec<f64> = (0..EXACT_MAX)
            .map(|i| (1.7 * i as f64).sin() + if i % 7 == 0 { 0.0 } else { 0.12 })
            .collect();
        let exact = signed_rank_test(&differences).unwrap();
        let mut more = differences.clone();
        more.push(0.0);
        let approximate = signed_rank_test(&more).unwrap();
        assert!(exact.is_exact && !approximate.is_exact);
        assert!((exact.p - approximate.p).abs() < 0.002, "{} {}", exact.p, approximate.p);
        let (exact, approximate) =
            (hodges_lehmann(&differences, 0.95).unwrap(), hodges_lehmann(&more, 0.95).unwrap());
        let (exact, approximate) = (exact.interval.unwrap(), approximate.interval.unwrap());
        assert!((exact.low - approximate.low).abs() < 0.01, "{exact:?} {approximate:?}");
        assert!((exact.high - approximate.high).abs() < 0.01, "{exact:?} {approximate:?}");
        assert!((approximate.coverage - 0.95).abs() < 0.001);
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(signed_rank_test(&[]).is_err() && signed_rank_test(&[f64::NAN]).is_err());
        assert!(hodges_lehmann(&[1.0], 0.0).is_err());
        let many = StatsError::TooMany { count: 2001, most: 2000 };
        assert_eq!(signed_rank_test(&[1.0; 2001]), Err(many));
        assert_eq!(log_ratios(&[1.0], &[1.0, 2.0]), Err(StatsError::Unpaired { a: 1, b: 2 }));
        assert!(log_ratios(&[0.0], &[1.0]).is_err() && log_ratios(&[], &[]).is_err());
    }

    proptest! {
        /// Small whole numbers: many ties and zeros.
        #[test]
        fn p_is_that_of_all_sign_patterns(whole in prop::collection::vec(-5i32..=6, 1..11)) {
            let differences: Vec<f64> = whole.into_iter().map(f64::from).collect();
            let got = signed_rank_test(&differences).unwrap();
            prop_assert!((got.p - p_of_all_patterns(&differences)).abs() < 1e-14);
            prop_assert!(got.smallest_p <= got.p);
        }

        #[test]
        fn interval_inverts_the_test(
            differences in prop::collection::vec(-1.0f64..1.0, 6..11),
            level in 0.7f64..0.968,
        ) {
            let interval = hodges_lehmann(&differences, level).unwrap().interval.unwrap();
            let p_at = |shift: f64| p_of_all_patterns(&differences.iter().map(|d| d - shift).collect::<Vec<_>>());
            assert_inverts(&interval, level, p_at);
        }
    }
}
