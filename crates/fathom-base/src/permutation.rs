//! Random order without repetition over ranges too large to list: a keyed permutation in constant memory.
//!
//! The index is split into two halves that are mixed into each other in turn (a Feistel network). The right half has a
//! power-of-two size, the left one as many values as cover the range, so the network permutes a range that is hardly
//! longer than the one asked for; a result beyond the end is put through again until it lies inside (cycle walking).
//! Source: J. Black, P. Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002, methods 2 and 3. The aim is
//! statistical quality and speed, not secrecy.

use crate::distribution::DistributionError;
use crate::prng::Prng;

/// The longest range that [`Permutation`] and the skewed distributions take: 2^52 places.
pub const PLACES_MAX: u64 = 1 << 52;

/// Pairs of half-rounds. One fails the tests below, two pass them; the third is a margin for what they do not see.
const ROUNDS: usize = 3;
/// The shortest range that the network permutes; shorter ones walk inside it. Below, the halves have too few values
/// for all orders to occur.
const DOMAIN_MIN: u64 = 32;

/// A bijection of `0..places` onto itself, chosen by seed and pass. Calls of [`Permutation::nth`] do not depend on each
/// other: threads share one order by taking every n-th index.
#[derive(Debug, Clone)]
pub struct Permutation {
    places: u64,
    left_size: u64,
    right_bits: u32,
    keys: [[u64; 2]; ROUNDS],
}

impl Permutation {
    /// The order of `0..places` for a seed; each `pass` over the range has an order of its own.
    ///
    /// # Errors
    /// [`DistributionError::NoPlaces`] and [`DistributionError::TooManyPlaces`]: `places` is 1 to [`PLACES_MAX`].
    pub fn new(places: u64, seed: u64, pass: u64) -> Result<Self, DistributionError> {
        check_places(places)?;
        let domain = places.max(DOMAIN_MIN);
        let right_bits = domain.ilog2() / 2;
        let left_size = domain.div_ceil(1 << right_bits);
        Ok(Self { places, left_size, right_bits, keys: keys(seed, pass) })
    }

    /// How many places are permuted.
    #[must_use]
    pub fn places(&self) -> u64 {
        self.places
    }

    /// The place that is visited at `index`; an index beyond the last counts as the last.
    #[inline]
    #[must_use]
    pub fn nth(&self, index: u64) -> u64 {
        let mut place = index.min(self.places - 1);
        loop {
            place = self.permute(place);
            if place < self.places {
                return place;
            }
        }
    }

    #[inline]
    fn permute(&self, value: u64) -> u64 {
        let mut left = value >> self.right_bits;
        let mut right = value & ((1 << self.right_bits) - 1);
        for [to_left, to_right] in self.keys {
            let added = (u128::from(mix(right ^ to_left)) * u128::from(self.left_size)) >> 64;
            left += added as u64;
            // A comparison instead of a division: both terms are below the size.
            left = left.min(left.wrapping_sub(self.left_size));
            right ^= mix(left ^ to_right) >> (64 - self.right_bits);
        }
        left << self.right_bits | right
    }
}

/// Checks a number of places against what permutations and distributions can address.
pub(crate) fn check_places(places: u64) -> Result<(), DistributionError> {
    match places {
        0 => Err(DistributionError::NoPlaces),
        1..=PLACES_MAX => Ok(()),
        _ => Err(DistributionError::TooManyPlaces(places)),
    }
}

fn keys(seed: u64, pass: u64) -> [[u64; 2]; ROUNDS] {
    let mut prng = Prng::new(seed, pass);
    std::array::from_fn(|_| [prng.next_u64(), prng.next_u64()])
}

/// Spreads all input bits over the upper half of the output. The multipliers are those of MurmurHash3's finaliser.
#[inline]
fn mix(x: u64) -> u64 {
    let x = x.wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    (x ^ (x >> 32)).wrapping_mul(0xC4CE_B9FE_1A85_EC53)
}

/// Every place once in random order, then all again in another order, for ever; shared by several threads.
///
/// Thread `t` of `n` takes the visits t, t + n, t + 2n, ... of one endless order, also over the ends of passes. So
/// threads of equal speed visit every place once before any is visited twice; a thread that runs ahead may begin the
/// next pass while others are still in this one.
#[derive(Debug, Clone)]
pub struct Shuffle {
    permutation: Permutation,
    seed: u64,
    pass: u64,
    index: u64,
    threads: u64,
}

impl Shuffle {
    /// The visits of thread `thread` (from 0) of `threads`. All threads must be given the same seed.
    ///
    /// # Errors
    /// As [`Permutation::new`].
    pub fn new(
        places: u64,
        seed: u64,
        thread: u32,
        threads: u32,
    ) -> Result<Self, DistributionError> {
        let permutation = Permutation::new(places, seed, 0)?;
        let mut shuffle = Self {
            permutation,
            seed,
            pass: 0,
            index: thread.into(),
            threads: threads.max(1).into(),
        };
        if shuffle.index >= places {
            shuffle.begin_pass();
        }
        Ok(shuffle)
    }

    /// The next place.
    #[inline]
    pub fn next_place(&mut self) -> u64 {
        let place = self.permutation.nth(self.index);
        self.index += self.threads;
        if self.index >= self.permutation.places {
            self.begin_pass();
        }
        place
    }

    #[cold]
    fn begin_pass(&mut self) {
        self.pass += self.index / self.permutation.places;
        self.index %= self.permutation.places;
        self.permutation.keys = keys(self.seed, self.pass);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goodness::assert_fits;
    use std::collections::{BTreeMap, HashSet};

    fn order(places: u64, seed: u64, pass: u64) -> Vec<u64> {
        let permutation = Permutation::new(places, seed, pass).unwrap();
        (0..places).map(|index| permutation.nth(index)).collect()
    }

    #[test]
    fn every_short_range_is_permuted_completely() {
        for places in (1..=1200).chain([4095, 4096, 4097, 65_535, 65_536, 65_537, 100_003]) {
            for seed in 0..2 {
                let mut seen = vec![false; places as usize];
                for place in order(places, seed, 0) {
                    assert!(!seen[place as usize], "{place} of {places} twice");
                    seen[place as usize] = true;
                }
            }
        }
    }

    #[test]
    fn all_orders_of_a_few_places_are_equally_frequent() {
        for (places, orders, draws) in
            [(2, 2, 4_000), (3, 6, 6_000), (4, 24, 12_000), (5, 120, 24_000)]
        {
            let mut counts: BTreeMap<Vec<u64>, f64> = BTreeMap::new();
            for pass in 0..draws {
                *counts.entry(order(places, 9, pass)).or_default() += 1.0;
            }
            let counts: Vec<f64> = counts.into_values().collect();
            assert_eq!(counts.len(), orders);
            assert_fits(&counts, &vec![draws as f64 / orders as f64; orders]);
        }
    }

    #[test]
    fn each_index_reaches_each_place_equally() {
        for places in [7u64, 24, 33, 48, 100] {
            let passes = 40 * places;
            let mut counts = vec![0.0; (places * places) as usize];
            for pass in 0..passes {
                for (index, place) in order(places, 5, pass).into_iter().enumerate() {
                    counts[index * places as usize + place as usize] += 1.0;
                }
            }
            assert_fits(&counts, &vec![40.0; counts.len()]);
        }
    }

    /// Steps between neighbours of a random order are as likely forwards as backwards, and as long as they should be.
    #[test]
    fn neighbours_in_order_are_not_related() {
        for (places, stride) in
            [(1 << 20, 1u64), (1_000_003, 1), (1 << 20, 2), (3 << 30, 1), (1 << 45, 8)]
        {
            let permutation = Permutation::new(places, 77, 3).unwrap();
            // Pairs (place, next place) on a 16 x 16 board.
            let mut counts = vec![0.0; 256];
            let draws = 100_000u64;
            let cell =
                |index| (u128::from(permutation.nth(index)) * 16 / u128::from(places)) as usize;
            for index in 0..draws {
                counts[cell(2 * index * stride) * 16 + cell((2 * index + 1) * stride)] += 1.0;
            }
            assert_fits(&counts, &[draws as f64 / 256.0; 256]);
        }
    }

    #[test]
    fn a_16_tib_range_of_sectors_has_no_repetition_in_a_million_visits() {
        let places = (16 << 40) / 512;
        let permutation = Permutation::new(places, 1, 0).unwrap();
        let mut seen = HashSet::new();
        let spread = |i: u64| i * ((places - 500_000) / 500_000);
        for index in (0..500_000).chain((1..500_000).map(|i| spread(i) + 500_000)) {
            let place = permutation.nth(index);
            assert!(place < places);
            assert!(seen.insert(place), "{place} twice");
        }
    }

    #[test]
    fn the_longest_range_is_reached_to_its_ends() {
        let permutation = Permutation::new(PLACES_MAX, 1, 0).unwrap();
        let mut counts = vec![0.0; 64];
        (0..64_000).for_each(|index| counts[(permutation.nth(index) >> 46) as usize] += 1.0);
        assert_fits(&counts, &[1000.0; 64]);
    }

    #[test]
    fn threads_share_one_order_over_all_passes() {
        for (places, threads) in [(10u64, 3u32), (7, 7), (5, 12), (1, 4), (100, 1)] {
            let mut shuffles: Vec<Shuffle> =
                (0..threads).map(|t| Shuffle::new(places, 3, t, threads).unwrap()).collect();
            let visits: Vec<u64> = (0..6 * places)
                .map(|i| shuffles[(i % u64::from(threads)) as usize].next_place())
                .collect();
            let expected: Vec<u64> = (0..6).flat_map(|pass| order(places, 3, pass)).collect();
            assert_eq!(visits, expected);
        }
    }

    #[test]
    fn impossible_ranges_are_refused() {
        assert_eq!(Permutation::new(0, 1, 0).unwrap_err(), DistributionError::NoPlaces);
        let error = Permutation::new(PLACES_MAX + 1, 1, 0).unwrap_err();
        assert_eq!(error, DistributionError::TooManyPlaces(PLACES_MAX + 1));
    }
}
