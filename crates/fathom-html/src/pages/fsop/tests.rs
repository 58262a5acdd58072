//! Rates of seconds.

use super::rates;

#[test]
fn the_rest_of_a_window_is_a_rate_too() {
    let drawn = |counts: &[u64], window_ns| -> Vec<(f64, f64)> {
        rates(counts, window_ns).iter().map(|point| (point.x, point.y)).collect()
    };
    assert_eq!(drawn(&[10, 20], 2_000_000_000), [(1.0, 10.0), (2.0, 20.0)]);
    assert_eq!(drawn(&[10, 20, 30], 2_500_000_000), [(1.0, 10.0), (2.0, 20.0), (2.5, 60.0)]);
    assert_eq!(drawn(&[10, 21, 1], 2_048_000_000), [(1.0, 10.0), (2.048, 22.0 / 1.048)]);
    assert_eq!(drawn(&[7], 500_000_000), [(0.5, 14.0)]);
    assert_eq!(drawn(&[], 500_000_000), []);
}
