//! Medians, and an exact interval for the median of few values.

/// The middle value; the mean of the two middle ones for an even number. NaN for none.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let sorted = sorted(values);
    let n = sorted.len();
    match n {
        0 => f64::NAN,
        _ if !n.is_multiple_of(2) => sorted[n / 2],
        _ => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// What the rounds say about a ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The ratio: Hodges and Lehmann, on logs.
    pub ratio: f64,
    /// Its interval.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// Chance that such an interval holds the true ratio: at least 95 % from six values up.
    pub coverage: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Number of values.
    pub n: usize,
}

/// Estimate, exact interval and extremes. None without values above 0.
///
/// Both come from the geometric means of all pairs of rounds: the middle one is the estimate, and the interval is that of the
/// signed-rank test, which is narrower than that of the sign test. It assumes that rounds are independent and that a ratio is as
/// often so much above the true one as it is below, which turning the order of the sides round sees to.
#[must_use]
pub fn spread(values: &[f64]) -> Option<Spread> {
    let sorted = sorted(values);
    let n = sorted.len();
    if n == 0 || sorted[0] <= 0.0 {
        return None;
    }
    let logs: Vec<f64> = sorted.iter().map(|value| value.ln()).collect();
    let means: Vec<f64> = (0..n)
        .flat_map(|i| (i..n).map(move |j| (i, j)))
        .map(|(i, j)| f64::midpoint(logs[i], logs[j]))
        .collect();
    let means = self::sorted(&means);
    // A mean of one value is that value, whatever logs and powers round to.
    let value = |log: f64| sorted.iter().copied().find(|v| v.ln() == log).unwrap_or(log.exp());
    let below = rank_chances(n);
    let coverage = |cut: usize| 1.0 - 2.0 * below[..=cut].iter().sum::<f64>();
    // The narrowest symmetric pair of means that keeps 95 %, or else the extremes.
    let cut = (0..means.len() / 2).rev().find(|cut| coverage(*cut) >= 0.95).unwrap_or(0);
    Some(Spread {
        ratio: value(median(&means)),
        low: value(means[cut]),
        high: value(means[means.len() - 1 - cut]),
        coverage: coverage(cut).max(0.0),
        min: sorted[0],
        max: sorted[n - 1],
        n,
    })
}

/// The chance of each sum of ranks, when the sign of every rank from 1 to `n` is thrown with a coin.
fn rank_chances(n: usize) -> Vec<f64> {
    let mut chances = vec![0.0; n * (n + 1) / 2 + 1];
    chances[0] = 1.0;
    for rank in 1..=n {
        for sum in (0..chances.len()).rev() {
            let with = if sum >= rank { chances[sum - rank] } else { 0.0 };
            chances[sum] = f64::midpoint(chances[sum], with);
        }
    }
    chances
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    /// The critical values that every table of the signed-rank test has, at 5 % on both sides together: the interval leaves
    /// out as many means at either end.
    #[test]
    fn intervals_are_those_of_the_tables() {
        for (n, critical) in
            [(6, 0), (7, 2), (8, 3), (9, 5), (10, 8), (12, 13), (15, 25), (20, 52), (25, 89)]
        {
            let values: Vec<f64> = (1..=n).map(|i| f64::from(i).exp2()).collect();
            let spread = spread(&values).unwrap();
            let mut means: Vec<f64> = Vec::new();
            for i in 1..=n {
                means.extend((i..=n).map(|j| f64::midpoint(f64::from(i), f64::from(j))));
            }
            let means = sorted(&means);
            let got = (spread.low.log2(), spread.high.log2());
            let expected = (means[critical], means[means.len() - 1 - critical]);
            assert!(
                (got.0 - expected.0).abs() < 1e-9 && (got.1 - expected.1).abs() < 1e-9,
                "n = {n}: {got:?}"
            );
            assert!((spread.ratio.log2() - f64::from(n + 1) / 2.0).abs() < 1e-9);
            assert!(spread.coverage >= 0.95);
        }
        assert!((spread(&[1.0; 7]).unwrap().coverage - 0.953_125).abs() < 1e-12);
        assert!((rank_chances(4)[10] - 1.0 / 16.0).abs() < 1e-15);
    }

    #[test]
    fn too_few_values_say_so() {
        let three = spread(&[2.0, 1.0, 4.0]).unwrap();
        assert_eq!((three.low, three.high, three.coverage), (1.0, 4.0, 0.75));
        assert_eq!(spread(&[1.0]).unwrap().coverage, 0.0);
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[0.0, 1.0]), None, "no ratio");
    }
}
