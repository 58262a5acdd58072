//! Tests of fit for the tests of this crate: chi-square and Kolmogorov-Smirnov.

/// Chi-square test of counts against expectations with the same total; cells that expect less than 5 are put together.
/// Fails on one of about a billion correct generators.
#[track_caller]
pub(crate) fn assert_fits(counts: &[f64], expected: &[f64]) {
    assert_eq!(counts.len(), expected.len());
    let total: f64 = counts.iter().sum();
    let of_expected: f64 = expected.iter().sum();
    assert!((total / of_expected - 1.0).abs() < 1e-9, "{total} draws, {of_expected} expected");
    let (mut cells, mut chi) = (0u32, 0.0);
    let (mut rest_count, mut rest_expected) = (0.0, 0.0);
    for (count, expected) in counts.iter().zip(expected) {
        rest_count += count;
        rest_expected += expected;
        if rest_expected >= 5.0 {
            chi += (rest_count - rest_expected).powi(2) / rest_expected;
            cells += 1;
            (rest_count, rest_expected) = (0.0, 0.0);
        }
    }
    if rest_expected > 0.0 {
        chi += (rest_count - rest_expected).powi(2) / rest_expected.max(1.0);
        cells += 1;
    }
    if cells < 2 {
        return;
    }
    // Wilson and Hilferty's approximation: the cube root is nearly normal. 6 standard deviations.
    let freedom = f64::from(cells - 1);
    let spread = 2.0 / (9.0 * freedom);
    let limit = freedom * (1.0 - spread + 6.0 * spread.sqrt()).powi(3);
    assert!(chi < limit, "chi-square {chi:.1}, {cells} cells, limit {limit:.1}");
}

/// Kolmogorov-Smirnov test of a sample against a distribution function; fails on one of about a billion correct
/// generators.
#[track_caller]
pub(crate) fn assert_follows(sample: &mut [f64], distribution: impl Fn(f64) -> f64) {
    sample.sort_by(f64::total_cmp);
    let n = sample.len() as f64;
    let gap = sample
        .iter()
        .enumerate()
        .map(|(i, x)| {
            let expected = distribution(*x);
            (expected - i as f64 / n).max((i + 1) as f64 / n - expected)
        })
        .fold(0.0, f64::max);
    // P(gap * sqrt(n) > d) is about 2 exp(-2 d^2): 3.3 gives 7e-10.
    assert!(gap * n.sqrt() < 3.3, "largest gap {gap}, {n} draws");
}
