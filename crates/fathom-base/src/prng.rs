//! The one source of randomness: xoshiro256++ with a stream that never changes between releases.
//!
//! Seeds are stored with every record, so the same seed must give the same I/O years later; a test pins the stream.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A seeded generator. Two generators with the same seed and stream give the same numbers for ever.
#[derive(Debug, Clone)]
pub struct Prng {
    inner: Xoshiro256PlusPlus,
}

impl Prng {
    /// The generator for `seed` and a stream number (thread, job), so that streams do not overlap by accident.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        // The golden-ratio step separates neighbouring streams before SplitMix64 expands the seed.
        let mixed = seed ^ stream.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Self { inner: Xoshiro256PlusPlus::seed_from_u64(mixed) }
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.inner.next_u64()
    }

    /// A number in `0..bound`; 0 for the `bound` 0. The bias of the multiply method is below 2^-64 x bound.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True with the given probability, compared as a 64-bit threshold from [`chance_threshold`].
    #[inline]
    pub fn chance(&mut self, threshold: u64) -> bool {
        threshold == u64::MAX || self.next_u64() < threshold
    }

    /// Fills a buffer with incompressible bytes.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        self.inner.fill_bytes(buffer);
    }
}

/// Turns a probability in `0..=1` into the threshold that [`Prng::chance`] takes.
#[must_use]
pub fn chance_threshold(probability: f64) -> u64 {
    if probability >= 1.0 { u64::MAX } else { (probability.max(0.0) * 2f64.powi(64)) as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_pinned() {
        let mut prng = Prng::new(1, 0);
        let got: Vec<u64> = (0..3).map(|_| prng.next_u64()).collect();
        assert_eq!(got, PINNED);
    }

    const PINNED: [u64; 3] =
        [13_022_637_563_981_439_720, 12_730_338_491_433_842_474, 9_853_618_787_702_925_075];

    #[test]
    fn below_stays_below_and_reaches_all() {
        let mut prng = Prng::new(7, 3);
        let mut seen = [false; 10];
        for _ in 0..1000 {
            seen[prng.below(10) as usize] = true;
        }
        assert_eq!(seen, [true; 10]);
        assert_eq!(prng.below(0), 0);
    }

    #[test]
    fn chance_follows_the_probability() {
        let mut prng = Prng::new(7, 4);
        let threshold = chance_threshold(0.2);
        let hits = (0..100_000).filter(|_| prng.chance(threshold)).count();
        // Binomial: sd = 126; 6 sd either side.
        assert!((19_240..=20_760).contains(&hits), "{hits}");
        assert!(prng.chance(chance_threshold(1.0)));
        assert!(!prng.chance(chance_threshold(0.0)));
    }

    #[test]
    fn streams_differ() {
        assert_ne!(Prng::new(1, 0).next_u64(), Prng::new(1, 1).next_u64());
    }
}
