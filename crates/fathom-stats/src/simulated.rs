//! Noise for this crate's tests: what runs and series look like, with everything about them known.

use fathom_base::prng::Prng;

/// A standard normal number (Box and Muller, 1958).
pub(crate) fn normal(prng: &mut Prng) -> f64 {
    let unit = |prng: &mut Prng| ((prng.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    let radius = (-2.0 * unit(prng).ln()).sqrt();
    radius * (std::f64::consts::TAU * unit(prng)).cos()
}

/// `count` normal numbers of variance 1 whose neighbours correlate with `phi`: a stationary AR(1) process.
pub(crate) fn correlated(prng: &mut Prng, phi: f64, count: usize) -> Vec<f64> {
    let fresh = (1.0 - phi * phi).sqrt();
    let mut last = normal(prng);
    let mut next = || {
        let this = last;
        last = phi * last + fresh * normal(prng);
        this
    };
    (0..count).map(|_| next()).collect()
}
