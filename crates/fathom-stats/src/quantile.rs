//! Which percentiles a number of samples can support.

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
}
