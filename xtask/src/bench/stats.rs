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
    /// Median.
    pub median: f64,
    /// Interval of the median: two order statistics.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// Chance that such an interval holds the true median: at least 95 % from six values up.
    pub coverage: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Number of values.
    pub n: usize,
}

/// Median, exact rank interval and extremes. None without values.
///
/// The interval is that of the sign test: it assumes nothing about the distribution but independence of the rounds.
#[must_use]
pub fn spread(values: &[f64]) -> Option<Spread> {
    let sorted = sorted(values);
    let n = sorted.len();
    if n == 0 {
        return None;
    }
    let coverage = |cut: usize| 1.0 - 2.0 * (0..=cut).map(|k| chance(n, k)).sum::<f64>();
    // The narrowest symmetric pair of order statistics that keeps 95 %, or else the extremes.
    let cut = (0..n / 2).rev().find(|cut| coverage(*cut) >= 0.95).unwrap_or(0);
    Some(Spread {
        median: median(&sorted),
        low: sorted[cut],
        high: sorted[n - 1 - cut],
        coverage: coverage(cut).max(0.0),
        min: sorted[0],
        max: sorted[n - 1],
        n,
    })
}

/// The chance of exactly `k` heads in `n` throws.
fn chance(n: usize, k: usize) -> f64 {
    (0..k).map(|i| (n - i) as f64 / (i + 1) as f64).product::<f64>() / 2f64.powi(n as i32)
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

    /// The ranks that every table of sign-test intervals has.
    #[test]
    fn intervals_are_those_of_the_tables() {
        for (n, first, last) in
            [(6, 1, 6), (7, 1, 7), (8, 1, 8), (9, 2, 8), (10, 2, 9), (12, 3, 10), (20, 6, 15)]
        {
            let values: Vec<f64> = (1..=n).map(f64::from).collect();
            let spread = spread(&values).unwrap();
            assert_eq!((spread.low, spread.high), (f64::from(first), f64::from(last)), "n = {n}");
            assert!(spread.coverage >= 0.95);
        }
        assert!((spread(&[1.0; 7]).unwrap().coverage - 0.984_375).abs() < 1e-12);
    }

    #[test]
    fn too_few_values_say_so() {
        let three = spread(&[2.0, 1.0, 4.0]).unwrap();
        assert_eq!((three.low, three.high, three.coverage), (1.0, 4.0, 0.75));
        assert_eq!(spread(&[1.0]).unwrap().coverage, 0.0);
        assert_eq!(spread(&[]), None);
    }
}
