//! Quantiles: which of them a number of values can support, and those of many values of which most are zero.

/// Values that must lie beyond a percentile before it is shown: with fewer, one slow I/O decides the figure.
pub const EXCEEDANCES_MIN: f64 = 10.0;

/// True when `count` values are enough to show the quantile `q`: at least ten lie beyond it.
///
/// p99 needs 1000 values, p99.9 needs 10 000. The median is shown from two values on.
#[must_use]
pub fn is_supported(count: u64, q: f64) -> bool {
    count >= values_needed(q)
}

/// The smallest number of values that supports the quantile `q`.
#[must_use]
pub fn values_needed(q: f64) -> u64 {
    if q <= 0.5 {
        return 2;
    }
    // The tolerance absorbs 1 - 0.99 being a little above 0.01.
    (EXCEEDANCES_MIN / (1.0 - q) * (1.0 - 1e-9)).ceil() as u64
}

/// The values below which these shares of all lie, between neighbours in proportion: of `above`, values over 0 in any order,
/// and of so many zeros before them. Puts `above` into another order. All are 0 where there is nothing else.
#[must_use]
pub fn at_shares(above: &mut [f64], zeros: usize, shares: &[f64]) -> Vec<f64> {
    let last = (above.len() + zeros).saturating_sub(1);
    // What was put in its place stays there: each search is between two such places.
    let mut settled: Vec<usize> = Vec::with_capacity(2 * shares.len());
    let mut value = |at: usize| {
        let Some(at) = at.checked_sub(zeros).filter(|at| *at < above.len()) else { return 0.0 };
        if let Err(place) = settled.binary_search(&at) {
            let from = place.checked_sub(1).map_or(0, |before| settled[before] + 1);
            let to = settled.get(place).copied().unwrap_or(above.len());
            above[from..to].select_nth_unstable_by(at - from, f64::total_cmp);
            settled.insert(place, at);
        }
        above[at]
    };
    let mut at_share = |share: f64| {
        let at = share * last as f64;
        let (low, part) = (at.floor() as usize, at - at.floor());
        let below = value(low);
        if part > 0.0 { below + (value(low + 1) - below) * part } else { below }
    };
    shares.iter().map(|share| at_share(*share)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_exceedances() {
        assert!(is_supported(1000, 0.99) && !is_supported(999, 0.99));
        assert!(is_supported(10_000, 0.999) && !is_supported(9_999, 0.999));
        let needed = [0.5, 0.9, 0.95, 0.99, 0.999, 0.9999].map(values_needed);
        assert_eq!(needed, [2, 100, 200, 1000, 10_000, 100_000]);
        assert!(is_supported(2, 0.5) && !is_supported(1, 0.5));
    }

    #[test]
    fn shares_of_values_and_zeros() {
        assert_eq!(
            at_shares(&mut [4.0, 1.0, 2.0], 1, &[0.0, 0.5, 1.0, 1.0 / 3.0]),
            [0.0, 1.5, 4.0, 1.0]
        );
        assert_eq!(at_shares(&mut [], 3, &[0.5]), [0.0]);
        assert_eq!(at_shares(&mut [], 0, &[0.5]), [0.0]);
    }
}
