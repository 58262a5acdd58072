//! Logarithm and exponential with the same bits on every machine.
//!
//! A stored seed must give the same I/O years later. The C library's `log` and `exp` differ in the last bit between
//! releases and processors (with or without fused multiply-add); these use only IEEE additions, multiplications and
//! divisions, which are exact by standard. They are also short enough to be inlined into the measured loop.

use crate::prng::Prng;
use std::f64::consts::{LOG2_E, SQRT_2};

/// The upper 33 bits of ln 2: a product with an exponent is exact.
const LN2_HIGH: f64 = f64::from_bits(0x3FE6_2E42_FEE0_0000);
/// What is missing in [`LN2_HIGH`].
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// 2^-63.
const UNIT: f64 = 1.0 / 9_223_372_036_854_775_808.0;
/// Adding it rounds a small number to an integer, which then stands in the lowest bits.
const ROUNDER: f64 = 6_755_399_441_055_744.0;
/// The interval around 0 that [`is_near_zero`] means.
const SERIES_LOW: f64 = SQRT_2 / 2.0 - 1.0;
const SERIES_HIGH: f64 = SQRT_2 - 1.0;

/// A uniform number in (0, 1] on a grid of 2^-63, with full relative precision near 0. Never 0, so its logarithm exists.
#[inline]
pub(crate) fn unit(prng: &mut Prng) -> f64 {
    // 63 bits, because the processor converts signed numbers in one step.
    ((prng.next_u64() >> 1) as i64 as f64 + 0.5) * UNIT
}

/// Natural logarithm of a positive, normal number; relative error below 5e-16.
#[inline]
pub(crate) fn ln(x: f64) -> f64 {
    // x = 2^exponent * mantissa with the mantissa in [sqrt(1/2), sqrt(2)), without a branch that would be mispredicted.
    const HALF_ROOT: u64 = 0x3FE6_A09E_0000_0000;
    const ONE: u64 = 0x3FF0_0000_0000_0000;
    let shifted = x.to_bits().wrapping_add(ONE - HALF_ROOT);
    let exponent = ((shifted >> 52) as i64 - 1023) as f64;
    let f = f64::from_bits((shifted & 0x000F_FFFF_FFFF_FFFF) + HALF_ROOT) - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    exponent * LN2_HIGH + (2.0 * s + (2.0 * s * z * atanh_tail(z) + exponent * LN2_LOW))
}

/// `ln(1 + y) / y`, exact also where y is tiny or 0; y > -1.
#[inline]
pub(crate) fn ln_1p_over(y: f64) -> f64 {
    if is_near_zero(y) { ln_1p_over_near_zero(y) } else { ln(1.0 + y) / y }
}

/// Whether 1 + y is so close to 1 that the series is used directly.
#[inline]
pub(crate) fn is_near_zero(y: f64) -> bool {
    (SERIES_LOW..SERIES_HIGH).contains(&y)
}

/// [`ln_1p_over`] where [`is_near_zero`].
#[inline]
pub(crate) fn ln_1p_over_near_zero(y: f64) -> f64 {
    let part = 1.0 / (2.0 + y);
    let s = y * part;
    let z = s * s;
    2.0 * part * (1.0 + z * atanh_tail(z))
}

/// `(atanh(s) / s - 1) / z` with z = s^2, for |s| up to (sqrt(2) - 1) / (sqrt(2) + 1).
#[inline]
fn atanh_tail(z: f64) -> f64 {
    let z2 = z * z;
    let z4 = z2 * z2;
    let low = (1.0 / 3.0 + z * (1.0 / 5.0)) + z2 * (1.0 / 7.0 + z * (1.0 / 9.0));
    let middle = (1.0 / 11.0 + z * (1.0 / 13.0)) + z2 * (1.0 / 15.0 + z * (1.0 / 17.0));
    let high = 1.0 / 19.0 + z * (1.0 / 21.0);
    low + z4 * (middle + z4 * high)
}

/// e to the x; relative error below 5e-16. Beyond what a normal number holds, its smallest or largest power of 2.
#[inline]
pub(crate) fn exp(x: f64) -> f64 {
    let x = x.clamp(-708.0, 709.0);
    let rounded = x * LOG2_E + ROUNDER;
    let power = (rounded - ROUNDER) as i64;
    let r = (x - power as f64 * LN2_HIGH) - power as f64 * LN2_LOW;
    let scale = f64::from_bits(((power + 1023) as u64) << 52);
    scale * (1.0 + r * exp_tail(r))
}

/// `(e^y - 1) / y`, exact also where y is tiny or 0.
#[inline]
pub(crate) fn exp_m1_over(y: f64) -> f64 {
    if y.abs() < 0.347 { exp_tail(y) } else { (exp(y) - 1.0) / y }
}

/// `(e^r - 1) / r` by its Taylor series, for |r| up to 0.347 (half of ln 2).
#[inline]
fn exp_tail(r: f64) -> f64 {
    let r2 = r * r;
    let r4 = r2 * r2;
    let low = (1.0 + r * (1.0 / 2.0)) + r2 * (1.0 / 6.0 + r * (1.0 / 24.0));
    let middle = (1.0 / 120.0 + r * (1.0 / 720.0)) + r2 * (1.0 / 5_040.0 + r * (1.0 / 40_320.0));
    let high = (1.0 / 362_880.0 + r * (1.0 / 3_628_800.0))
        + r2 * (1.0 / 39_916_800.0 + r * (1.0 / 479_001_600.0));
    low + r4 * (middle + r4 * (high + r4 * (1.0 / 6_227_020_800.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest relative error against the platform's library.
    fn error_max(
        inputs: impl Iterator<Item = f64>,
        ours: fn(f64) -> f64,
        peer: fn(f64) -> f64,
    ) -> f64 {
        inputs
            .map(|x| {
                let expected = peer(x);
                if expected == 0.0 { ours(x).abs() } else { (ours(x) / expected - 1.0).abs() }
            })
            .fold(0.0, f64::max)
    }

    fn grid(low: f64, high: f64) -> impl Iterator<Item = f64> {
        (0..=100_000).map(move |i| low + (high - low) * f64::from(i) / 100_000.0)
    }

    #[test]
    fn agrees_with_the_platforms_library() {
        let powers = || grid(-700.0, 700.0).map(f64::exp);
        assert!(error_max(powers(), ln, f64::ln) < 5e-16);
        let error = error_max(grid(0.5, 2.0), ln, f64::ln);
        assert!(error < 5e-16, "{error}");
        assert!(error_max(grid(-700.0, 700.0), exp, f64::exp) < 5e-16);
        assert!(error_max(grid(-1.0, 1.0), exp, f64::exp) < 5e-16);
        let peer = |y: f64| if y == 0.0 { 1.0 } else { y.exp_m1() / y };
        assert!(error_max(grid(-40.0, 40.0), exp_m1_over, peer) < 1e-15);
        assert!(error_max(grid(-1e-9, 1e-9), exp_m1_over, peer) < 1e-15);
        let peer = |y: f64| if y == 0.0 { 1.0 } else { y.ln_1p() / y };
        assert!(error_max(grid(-0.99, 40.0), ln_1p_over, peer) < 1e-15);
        assert!(error_max(grid(-1e-9, 1e-9), ln_1p_over, peer) < 1e-15);
    }

    #[test]
    fn ends_of_the_range() {
        assert_eq!(ln(1.0), 0.0);
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(-1e300) > 0.0 && exp(-1e300) < 1e-307);
        assert!(exp(1e300).is_finite());
        assert!(exp(f64::NEG_INFINITY) < 1e-307);
    }

    #[test]
    fn unit_is_never_zero() {
        let mut prng = Prng::new(1, 0);
        let draws: Vec<f64> = (0..10_000).map(|_| unit(&mut prng)).collect();
        assert!(draws.iter().all(|u| *u > 0.0 && *u <= 1.0));
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        // Standard error 0.0029; 6 of them.
        assert!((mean - 0.5).abs() < 0.0174, "{mean}");
    }
}
