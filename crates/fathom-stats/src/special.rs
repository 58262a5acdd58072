//! The probability distributions that intervals and tests need: normal, Student's t, binomial.
//!
//! An argument outside the domain gives NaN, as in the mathematical functions of the standard library.

use std::f64::consts::FRAC_1_SQRT_2;

/// Probability that a standard normal variable is at most `x`. Relative error below 1e-12 also far out in the lower
/// tail.
#[must_use]
pub fn normal_cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x * FRAC_1_SQRT_2)
}

/// The value that a standard normal variable does not exceed with probability `p`: the inverse of [`normal_cdf`].
/// Infinite for 0 and 1; absolute error below 1e-14.
#[must_use]
pub fn normal_quantile(p: f64) -> f64 {
    if p > 0.5 {
        return -normal_quantile(1.0 - p);
    }
    match p {
        0.0 => f64::NEG_INFINITY,
        0.5 => 0.0,
        // The smallest positive number lies 38.5 standard deviations out.
        _ if p > 0.0 => invert(normal_cdf, p, -40.0, 0.0),
        _ => f64::NAN,
    }
}

/// Probability that Student's t with `freedom` degrees of freedom (above 0, not necessarily whole) is at most `t`.
/// Absolute error below 1e-12 up to a thousand degrees of freedom, below 1e-9 up to a million.
#[must_use]
pub fn student_cdf(t: f64, freedom: f64) -> f64 {
    if freedom.is_nan() || freedom <= 0.0 || t.is_nan() {
        return f64::NAN;
    }
    if t.is_infinite() {
        return if t > 0.0 { 1.0 } else { 0.0 };
    }
    // Abramowitz and Stegun 26.7.1 with 26.5.27; written so that nothing overflows for a huge t.
    let ratio = t / freedom.sqrt();
    let x = 1.0 / (1.0 + ratio * ratio);
    let y = if ratio.abs() < 1.0 { ratio * ratio * x } else { 1.0 / (1.0 + (1.0 / ratio).powi(2)) };
    let tail = 0.5 * beta_of_both(0.5 * freedom, 0.5, x, y);
    if t > 0.0 { 1.0 - tail } else { tail }
}

/// The value that Student's t with `freedom` degrees of freedom does not exceed with probability `p`: the inverse of
/// [`student_cdf`], with its error.
#[must_use]
pub fn student_quantile(p: f64, freedom: f64) -> f64 {
    if freedom.is_nan() || freedom <= 0.0 || !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    if p > 0.5 {
        return -student_quantile(1.0 - p, freedom);
    }
    if p == 0.0 {
        return f64::NEG_INFINITY;
    }
    if p == 0.5 {
        return 0.0;
    }
    let mut low = -1.0;
    // Ends: far enough out the probability underflows to 0.
    while student_cdf(low, freedom) > p {
        low *= 2.0;
    }
    invert(|t| student_cdf(t, freedom), p, low, 0.0)
}

/// Probability of at most `k` successes in `n` trials that succeed with probability `p` each.
#[must_use]
pub fn binomial_cdf(k: u64, n: u64, p: f64) -> f64 {
    if !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    if k >= n {
        return 1.0;
    }
    // Abramowitz and Stegun 26.5.24.
    beta_of_both((n - k) as f64, k as f64 + 1.0, 1.0 - p, p)
}

/// The regularised incomplete beta function I_x(a, b); `a` and `b` above 0, `x` from 0 to 1.
#[must_use]
pub fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    beta_of_both(a, b, x, 1.0 - x)
}

/// [`incomplete_beta`] of x with y = 1 - x, both given because one may be too close to 1 to tell the other.
fn beta_of_both(a: f64, b: f64, x: f64, y: f64) -> f64 {
    if !(a > 0.0 && b > 0.0 && (0.0..=1.0).contains(&x)) {
        return f64::NAN;
    }
    if x == 0.0 || y == 0.0 {
        return x;
    }
    let ln_beta = libm::lgamma(a) + libm::lgamma(b) - libm::lgamma(a + b);
    let ln_x = if x > 0.5 { (-y).ln_1p() } else { x.ln() };
    let ln_y = if y > 0.5 { (-x).ln_1p() } else { y.ln() };
    let factor = (a * ln_x + b * ln_y - ln_beta).exp();
    // Where the fraction converges slowly, its mirror image converges fast.
    if x <= (a + 1.0) / (a + b + 2.0) {
        factor / (a * beta_fraction(a, b, x))
    } else {
        1.0 - factor / (b * beta_fraction(b, a, y))
    }
}

/// The continued fraction of the incomplete beta function (DLMF 8.17.22) by Lentz's method, without the factor before
/// it and as 1 + d1/(1 + d2/(1 + ...)).
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    /// Convergence takes about the square root of the larger parameter.
    const STEPS_MAX: u32 = 100_000;
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let (mut fraction, mut numerator, mut denominator) = (1.0, 1.0, 0.0);
    for step in 1..=STEPS_MAX {
        let m = f64::from(step / 2);
        let d = if step % 2 == 0 {
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        } else {
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        };
        denominator = 1.0 / away_from_zero(1.0 + d * denominator);
        numerator = away_from_zero(1.0 + d / numerator);
        let change = numerator * denominator;
        fraction *= change;
        if (change - 1.0).abs() <= f64::EPSILON {
            break;
        }
    }
    fraction
}

/// Where the rising function `f` reaches `p`, by halving the range from `low` to `high` until no number lies between.
fn invert(f: impl Fn(f64) -> f64, p: f64, mut low: f64, mut high: f64) -> f64 {
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if f(middle) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simpson's rule with 20,000 steps.
    fn integral(f: impl Fn(f64) -> f64, low: f64, high: f64) -> f64 {
        let (steps, width) = (20_000, (high - low) / 20_000.0);
        let weight = |i: i32| match i {
            _ if i == 0 || i == steps => 1.0,
            _ if i % 2 == 1 => 4.0,
            _ => 2.0,
        };
        let sum: f64 = (0..=steps).map(|i| weight(i) * f(low + width * f64::from(i))).sum();
        sum * width / 3.0
    }

    #[track_caller]
    fn assert_near(got: f64, expected: f64, relative: f64) {
        assert!((got / expected - 1.0).abs() <= relative, "{got} instead of {expected}");
    }

    #[test]
    fn distributions_are_integrals_of_their_densities() {
        let normal = |x: f64| (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt();
        for x in [-4.0, -1.5, 0.0, 0.3, 2.0] {
            assert!((normal_cdf(x) - integral(normal, -12.0, x)).abs() < 1e-13, "{x}");
        }
        for freedom in [1.0, 2.0, 2.5, 7.0, 40.0] {
            // The constant is itself integrated: no gamma function in the oracle. t = tan(angle) makes the range finite.
            let density = |angle: f64| {
                (1.0 + angle.tan().powi(2) / freedom).powf(-0.5 * (freedom + 1.0))
                    / angle.cos().powi(2)
            };
            let total = integral(density, 0.0, std::f64::consts::FRAC_PI_2 - 1e-7);
            for t in [0.1, 1.0, 3.0f64] {
                let expected = 0.5 + 0.5 * integral(density, 0.0, t.atan()) / total;
                let got = student_cdf(t, freedom);
                assert!((got - expected).abs() < 1e-6, "{t}, {freedom}: {got}, {expected}");
                assert!((student_cdf(-t, freedom) - (1.0 - got)).abs() < 1e-15);
            }
        }
    }

    /// mpmath 1.3, 40 digits: ncdf(x), erfc(-x / sqrt(2)) / 2 for the far tail; betainc(v/2, 1/2, 0, v/(v+t^2),
    /// regularized=True) / 2 for t; the sum of the terms for the binomial.
    #[test]
    fn agrees_with_forty_digits() {
        for (x, expected) in [
            (-37.5, 4.605_353_009_581_955e-308),
            (-8.0, 6.220_960_574_271_784e-16),
            (-3.0, 0.001_349_898_031_630_094_6),
            (-1e-9, 0.499_999_999_601_057_73),
            (0.5, 0.691_462_461_274_013_1),
            (6.0, 0.999_999_999_013_412_3),
        ] {
            assert_near(normal_cdf(x), expected, 1e-12);
        }
        for (t, freedom, expected, relative) in [
            (-2.5, 1.0, 0.121_118_941_590_843_4, 1e-14),
            (-1e8, 1.0, 3.183_098_861_837_906_6e-9, 1e-14),
            (1.3, 2.0, 0.838_376_484_091_979_8, 1e-14),
            (0.001, 7.5, 0.500_385_900_662_672_2, 1e-14),
            (-4.0, 30.0, 0.000_190_922_818_041_878_43, 1e-13),
            (-1.96, 1000.0, 0.025_136_592_477_874_36, 1e-12),
            (-3.0, 1e6, 0.001_349_931_270_710_898_5, 1e-8),
            (-40.0, 3.3, 7.529_443_640_899_680_5e-6, 1e-13),
        ] {
            assert_near(student_cdf(t, freedom), expected, relative);
        }
        for (k, n, p, expected) in [
            (3, 10, 0.5, 0.171_875),
            (9, 30, 0.5, 0.021_386_972_628_533_84),
            (450, 1000, 0.5, 0.000_865_268_042_488_158_8),
            (2, 20, 0.1, 0.676_926_805_189_466),
            (99_000, 100_000, 0.9901, 0.378_977_552_198_383_1),
        ] {
            assert_near(binomial_cdf(k, n, p), expected, 1e-9);
        }
        assert_near(incomplete_beta(50.0, 0.5, 0.999), 0.752_369_019_965_376_6, 1e-13);
        assert_near(incomplete_beta(1000.0, 2000.0, 0.33), 0.350_632_676_134_183_4, 1e-11);
    }

    /// scipy 1.17.1: stats.norm.ppf(p), stats.t.ppf(p, v).
    #[test]
    fn quantiles_agree_with_scipy() {
        for (p, expected) in [
            (1e-300, -37.047_096_299_361_2),
            (1e-10, -6.361_340_902_404_056),
            (0.025, -1.959_963_984_540_054_5),
            (0.3, -0.524_400_512_708_040_9),
            (0.9999, 3.719_016_485_455_709),
        ] {
            assert_near(normal_quantile(p), expected, 1e-14);
        }
        for (p, freedom, expected) in [
            (0.975, 1.0, 12.706_204_736_174_694),
            (0.975, 2.0, 4.302_652_729_749_462),
            (0.975, 4.0, 2.776_445_105_197_793_4),
            (0.975, 9.0, 2.262_157_162_798_205),
            (0.95, 29.0, 1.699_127_026_533_497_2),
            (0.995, 1000.0, 2.580_754_698_065_951),
            (0.01, 3.5, -4.060_711_359_300_082_5),
            (1e-9, 5.0, -98.937_224_648_369_96),
        ] {
            assert_near(student_quantile(p, freedom), expected, 1e-11);
        }
    }

    #[test]
    fn binomial_is_the_sum_of_its_terms() {
        for n in 1..=40u64 {
            for p in [0.5, 0.1, 0.93] {
                let (mut term, mut sum) = ((1.0f64 - p).powi(n as i32), 0.0);
                for k in 0..=n {
                    sum += term;
                    assert!((binomial_cdf(k, n, p) - sum).abs() < 1e-13, "{k} of {n} at {p}");
                    term *= (n - k) as f64 / (k + 1) as f64 * p / (1.0 - p);
                }
            }
        }
    }

    #[test]
    fn quantiles_invert() {
        for i in 1..1000 {
            let p = f64::from(i) / 1000.0;
            assert!((normal_cdf(normal_quantile(p)) - p).abs() < 1e-15);
            for freedom in [1.0, 3.7, 12.0, 500.0] {
                assert!((student_cdf(student_quantile(p, freedom), freedom) - p).abs() < 1e-13);
            }
        }
    }

    #[test]
    fn ends_and_nonsense() {
        assert_eq!(
            (normal_quantile(0.0), normal_quantile(1.0)),
            (f64::NEG_INFINITY, f64::INFINITY)
        );
        assert_eq!((normal_quantile(0.5), student_quantile(0.5, 3.0)), (0.0, 0.0));
        assert_eq!((student_cdf(f64::INFINITY, 1.0), student_cdf(-1e300, 5.0)), (1.0, 0.0));
        assert_eq!(student_quantile(1.0, 2.0), f64::INFINITY);
        assert_eq!((binomial_cdf(0, 0, 0.5), binomial_cdf(7, 5, 0.5)), (1.0, 1.0));
        assert_eq!((binomial_cdf(2, 5, 0.0), binomial_cdf(2, 5, 1.0)), (1.0, 0.0));
        let nonsense = [
            normal_quantile(-0.1),
            normal_quantile(f64::NAN),
            student_cdf(1.0, 0.0),
            student_quantile(1.1, 3.0),
            student_quantile(0.9, f64::NAN),
            binomial_cdf(1, 2, f64::NAN),
            incomplete_beta(-1.0, 1.0, 0.5),
            incomplete_beta(1.0, 1.0, 1.5),
        ];
        assert!(nonsense.iter().all(|value| value.is_nan()), "{nonsense:?}");
    }
}
