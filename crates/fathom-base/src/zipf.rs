//! Zipf's law over ranges of any length: the place of rank k (from 1) is drawn with a probability proportional to
//! `k^-exponent`.
//!
//! Rejection-inversion, for every exponent above 0 (1 included), exact but for rounding, and without a table: W. Hoermann, G. Derflinger,
//! "Rejection-inversion to generate variates from monotone discrete distributions", ACM TOMACS 6(3), 1996. Approximate
//! generators with a 32-bit draw leave most of a large target untouched; here each place can be reached.

use crate::distribution::{DistributionError, fill_gaps};
use crate::math::{exp, exp_m1_over, is_near_zero, ln, ln_1p_over_near_zero, unit};
use crate::permutation::Permutation;
use crate::prng::Prng;

/// The largest exponent of [`Zipf`]; with it 99.9 % of the I/O goes to one place.
pub const ZIPF_EXPONENT_MAX: f64 = 10.0;

/// From this rank on every point under the hat is taken. The hat is higher than the law by the share
/// `exponent (exponent + 1) / (24 k^2)`, here at most 4e-12, and with rounded numbers a test would be wrong more often.
const SMOOTH_FROM: f64 = 1_048_576.0;

/// A Zipf distribution whose ranks are scattered over the range, so hot places are not neighbours.
#[derive(Debug, Clone)]
pub struct Zipf {
    curve: Curve,
    /// Where the tail of rank `places` ends under the hat.
    tail: f64,
    /// From there to the end of rank 1.
    span: f64,
    /// A point that lies at most so far below its rank needs no further test.
    safe: f64,
    scatter: Permutation,
}

impl Zipf {
    /// Over `0..places` with `k^-exponent`. The seed decides which places are the hot ones; all threads of a job must
    /// be given the same.
    ///
    /// # Errors
    /// [`DistributionError::ZipfExponent`] unless 0 < exponent <= [`ZIPF_EXPONENT_MAX`], or a number of places that is
    /// not 1 to [`crate::permutation::PLACES_MAX`].
    pub fn new(places: u64, exponent: f64, seed: u64) -> Result<Self, DistributionError> {
        if !(exponent > 0.0 && exponent <= ZIPF_EXPONENT_MAX) {
            return Err(DistributionError::ZipfExponent(exponent));
        }
        let scatter = Permutation::new(places, seed, 0)?;
        let curve = Curve::new(exponent);
        let tail = curve.integral(places as f64 + 0.5);
        let span = curve.integral(1.5) - 1.0 - tail;
        let safe = 2.0 - curve.inverse(curve.integral(2.5) - curve.height(2.0));
        Ok(Self { curve, tail, span, safe, scatter })
    }

    /// A place of the range. Hot places are scattered over it.
    #[inline]
    pub fn draw(&self, prng: &mut Prng) -> u64 {
        self.scatter.nth(self.rank(prng))
    }

    /// How hot the drawn place is: 0 is the hottest.
    #[inline]
    pub fn rank(&self, prng: &mut Prng) -> u64 {
        let places = self.scatter.places();
        loop {
            let area = self.tail + unit(prng) * self.span;
            let x = self.curve.inverse(area);
            let rank = ((x + 0.5) as i64 as u64).clamp(1, places);
            let k = rank as i64 as f64;
            if k - x <= self.safe
                || k >= SMOOTH_FROM
                || area >= self.curve.integral(k + 0.5) - self.curve.height(k)
            {
                return fill_gaps(rank - 1, places, prng);
            }
        }
    }
}

/// The hat function `x^-exponent`.
#[derive(Debug, Clone, Copy)]
struct Curve {
    exponent: f64,
    /// 1 - exponent.
    rest: f64,
    /// Its reciprocal; infinite, and then not used, where the exponent is 1.
    per_rest: f64,
}

impl Curve {
    fn new(exponent: f64) -> Self {
        let rest = 1.0 - exponent;
        Self { exponent, rest, per_rest: 1.0 / rest }
    }

    #[inline]
    fn height(self, x: f64) -> f64 {
        exp(-self.exponent * ln(x))
    }

    /// Up to a constant, which cancels, the area under the curve up to x. Where the exponent is well above 1 it is
    /// counted from infinity, so the far tail has small numbers with all their digits instead of ones close to a limit.
    #[inline]
    fn integral(self, x: f64) -> f64 {
        let log = ln(x);
        if self.is_steep() {
            exp(self.rest * log) / self.rest
        } else {
            exp_m1_over(self.rest * log) * log
        }
    }

    #[inline]
    fn inverse(self, area: f64) -> f64 {
        let y = self.rest * area;
        if self.is_steep() {
            exp(ln(y) * self.per_rest)
        } else if is_near_zero(y) {
            exp(area * ln_1p_over_near_zero(y))
        } else {
            exp(ln(1.0 + y) * self.per_rest)
        }
    }

    #[inline]
    fn is_steep(self) -> bool {
        self.rest < -0.25
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goodness::assert_fits;
    use std::collections::HashSet;

    const EXPONENTS: [f64; 12] =
        [0.01, 0.2, 0.5, 0.9, 0.99, 1.0 - 1e-9, 1.0, 1.000_1, 1.2, 1.25, 1.3, 2.5];

    /// Sum of k^-exponent for k in first..=last, by adding up the beginning and Euler and Maclaurin's formula for the
    /// rest. Uses the platform's functions, not those under test.
    fn weight(first: u64, last: u64, exponent: f64) -> f64 {
        let split = last.min(first + 300);
        let head: f64 = (first..=split).rev().map(|k| (k as f64).powf(-exponent)).sum();
        if split == last {
            return head;
        }
        let (a, b) = ((split + 1) as f64, last as f64);
        let f = |x: f64| x.powf(-exponent);
        let log = (b / a).ln();
        let rest = 1.0 - exponent;
        let area = if rest == 0.0 { log } else { a.powf(rest) * (rest * log).exp_m1() / rest };
        head + area + (f(a) + f(b)) / 2.0 + exponent * (f(a) / a - f(b) / b) / 12.0
    }

    #[test]
    fn short_ranges_follow_the_exact_law() {
        for places in [1, 2, 3, 10, 100] {
            for exponent in EXPONENTS.into_iter().chain([5.0, 10.0]) {
                let zipf = Zipf::new(places, exponent, 1).unwrap();
                let mut prng = Prng::new(11, places);
                let draws = 40_000.0;
                let mut counts = vec![0.0; places as usize];
                (0..draws as u32).for_each(|_| counts[zipf.rank(&mut prng) as usize] += 1.0);
                let scale = draws / weight(1, places, exponent);
                let expected: Vec<f64> =
                    (1..=places).map(|k| scale * weight(k, k, exponent)).collect();
                assert_fits(&counts, &expected);
            }
        }
    }

    #[test]
    fn long_ranges_follow_the_exact_law_from_head_to_tail() {
        for places in [100_000, 3 << 30, 1 << 40, 1 << 52] {
            for exponent in EXPONENTS {
                let zipf = Zipf::new(places, exponent, 1).unwrap();
                let mut prng = Prng::new(12, places);
                // Ranks 1 to 8 alone, then quarters of octaves: [2^(i/4), 2^((i+1)/4)).
                let mut starts: Vec<u64> = (1..=8).collect();
                starts.extend(
                    (13..)
                        .map(|i| 2f64.powf(f64::from(i) / 4.0) as u64)
                        .take_while(|s| *s <= places),
                );
                let draws = 40_000.0;
                let mut counts = vec![0.0; starts.len()];
                for _ in 0..draws as u32 {
                    let k = zipf.rank(&mut prng) + 1;
                    counts[starts.partition_point(|s| *s <= k) - 1] += 1.0;
                }
                let scale = draws / weight(1, places, exponent);
                let end = |i: usize| starts.get(i + 1).map_or(places, |next| next - 1);
                let expected: Vec<f64> = starts
                    .iter()
                    .enumerate()
                    .map(|(i, first)| scale * weight(*first, end(i), exponent))
                    .collect();
                assert_fits(&counts, &expected);
            }
        }
    }

    /// Generators on a coarse grid fail here: they never produce most of the ranks.
    #[test]
    fn the_tail_has_no_gaps() {
        for (places, exponent) in
            [(1u64 << 52, 0.9), (1 << 52, 1.0), (1 << 45, 1.2), (1 << 35, 0.99)]
        {
            let zipf = Zipf::new(places, exponent, 1).unwrap();
            let mut prng = Prng::new(13, 0);
            let mut low = vec![0.0; 16];
            let mut seen = HashSet::new();
            let mut draws = 0.0;
            while draws < 16_000.0 {
                let rank = zipf.rank(&mut prng);
                if rank > places / 4 {
                    low[(rank % 16) as usize] += 1.0;
                    seen.insert(rank);
                    draws += 1.0;
                }
            }
            assert_fits(&low, &[1000.0; 16]);
            // Of 16,000 in at least 2^34 possible ones two agree with a probability below 1 %, four never.
            assert!(seen.len() > 15_996, "{} different ones", seen.len());
        }
    }

    #[test]
    fn scattered_places_cover_the_range_evenly_and_stay_the_same() {
        let places = 1 << 40;
        let zipf = Zipf::new(places, 0.5, 42).unwrap();
        let mut prng = Prng::new(14, 0);
        let mut counts = vec![0.0; 64];
        (0..64_000).for_each(|_| counts[(zipf.draw(&mut prng) >> 34) as usize] += 1.0);
        assert_fits(&counts, &[1000.0; 64]);
        let steep = |seed| {
            let zipf = Zipf::new(places, 5.0, seed).unwrap();
            let mut prng = Prng::new(15, 0);
            let mut drawn: Vec<u64> = (0..1000).map(|_| zipf.draw(&mut prng)).collect();
            drawn.sort_unstable();
            drawn[500]
        };
        assert_eq!(steep(1), Permutation::new(places, 1, 0).unwrap().nth(0));
        assert_ne!(steep(1), steep(2));
    }

    #[test]
    fn the_stream_is_pinned() {
        let mut prng = Prng::new(1, 0);
        let zipf = Zipf::new(1 << 40, 1.1, 1).unwrap();
        let got: Vec<u64> = (0..5).map(|_| zipf.draw(&mut prng)).collect();
        assert_eq!(got, PINNED);
    }

    const PINNED: [u64; 5] =
        [369_747_548_694, 592_036_475_739, 699_596_467_165, 30_477_261_234, 352_697_847_672];

    #[test]
    fn impossible_exponents_are_refused() {
        for exponent in [0.0, -1.0, 10.01, f64::NAN, f64::INFINITY] {
            let error = Zipf::new(10, exponent, 1).unwrap_err();
            assert!(error.to_string().contains("above 0, at most 10"), "{error}");
        }
        assert_eq!(Zipf::new(0, 1.0, 1).unwrap_err(), DistributionError::NoPlaces);
    }
}
