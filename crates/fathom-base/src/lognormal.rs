//! The log-normal distribution, as sizes of files have it: most are small, a few hold most of the bytes. Bit by bit the
//! same on every machine.

use crate::math::{exp, ln, unit};
use crate::prng::Prng;

/// Whole numbers whose logarithm is normally distributed, cut off above.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogNormal {
    ln_median: f64,
    sigma: f64,
    max: u64,
}

impl LogNormal {
    /// Half of the numbers lie below `median` (at least 1); `sigma` is the standard deviation of the natural logarithm;
    /// what would lie above `max` is drawn again.
    #[must_use]
    pub fn new(median: u64, sigma: f64, max: u64) -> Self {
        let median = median.max(1);
        Self { ln_median: ln(median as f64), sigma: sigma.max(0.0), max: max.max(median) }
    }

    /// A number in `0..=max`.
    #[must_use]
    pub fn draw(&self, prng: &mut Prng) -> u64 {
        loop {
            let value = exp(self.ln_median + self.sigma * standard_normal(prng)).round();
            if value <= self.max as f64 {
                return value as u64;
            }
        }
    }

    /// The mean without the cut.
    #[must_use]
    pub fn mean(&self) -> f64 {
        exp(self.ln_median + self.sigma * self.sigma / 2.0)
    }
}

/// A number of the standard normal distribution, by the polar method.
fn standard_normal(prng: &mut Prng) -> f64 {
    loop {
        let (x, y) = (2.0 * unit(prng) - 1.0, 2.0 * unit(prng) - 1.0);
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            return x * (-2.0 * ln(square) / square).sqrt();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_lie_below_the_median_and_the_mean_is_right() {
        // What the classic trees are taken to have had: median 4 KiB, mean 26 KiB.
        let sizes = LogNormal::new(4096, 1.93, 16 << 20);
        let mut prng = Prng::new(1, 0);
        const N: usize = 200_000;
        let drawn: Vec<u64> = (0..N).map(|_| sizes.draw(&mut prng)).collect();
        let below = drawn.iter().filter(|size| **size < 4096).count();
        // Binomial: sd = 224; 6 sd either side.
        assert!(below.abs_diff(N / 2) < 1350, "{below}");
        // About a normal: 15.87 % lie below the median divided by e^sigma.
        let low = (4096.0 / 1.93f64.exp()) as u64;
        let tail = drawn.iter().filter(|size| **size <= low).count() as f64 / N as f64;
        assert!((tail - 0.1587).abs() < 0.006, "{tail}");
        let mean = drawn.iter().sum::<u64>() as f64 / N as f64;
        assert!((sizes.mean() / 1024.0 - 25.8).abs() < 0.2, "{}", sizes.mean());
        assert!((mean / sizes.mean() - 1.0).abs() < 0.08, "{mean}");
        assert!(drawn.iter().all(|size| *size <= 16 << 20));
    }

    #[test]
    fn the_stream_is_pinned() {
        let sizes = LogNormal::new(4096, 1.93, 16 << 20);
        let mut prng = Prng::new(7, 0);
        let drawn: Vec<u64> = (0..4).map(|_| sizes.draw(&mut prng)).collect();
        assert_eq!(drawn, PINNED);
    }

    const PINNED: [u64; 4] = [1_791_277, 11_452, 7_855, 1_695];

    #[test]
    fn no_spread_is_the_median() {
        assert_eq!(LogNormal::new(100, 0.0, 50).draw(&mut Prng::new(1, 0)), 100);
    }
}
