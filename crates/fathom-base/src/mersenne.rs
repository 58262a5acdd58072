//! The 64-bit Mersenne Twister (M. Matsumoto, T. Nishimura, "Tables of 64-bit Mersenne Twisters", 2000): iozone shuffles
//! its records with it, and its order is repeated here.

/// Words of the state.
const WORDS: usize = 312;
/// The distance of the word that is mixed in.
const MIDDLE: usize = 156;
/// The twist of the lowest bit.
const TWIST: u64 = 0xB502_6F5A_A966_19E9;
/// All bits of a word but the lower 31.
const UPPER: u64 = 0xFFFF_FFFF_8000_0000;

/// MT19937-64.
#[derive(Debug, Clone)]
pub struct Mersenne64 {
    words: [u64; WORDS],
    next: usize,
}

impl Mersenne64 {
    fn seeded(seed: u64) -> Self {
        let mut words = [seed; WORDS];
        for i in 1..WORDS {
            let before = words[i - 1];
            let mixed = 6_364_136_223_846_793_005u64.wrapping_mul(before ^ (before >> 62));
            words[i] = mixed.wrapping_add(i as u64);
        }
        Self { words, next: WORDS }
    }

    /// The generator of a key of one word or more; an empty key counts as one word 0.
    #[must_use]
    pub fn of_key(key: &[u64]) -> Self {
        let key = if key.is_empty() { &[0] } else { key };
        let mut mersenne = Self::seeded(19_650_218);
        let words = &mut mersenne.words;
        let spread = |before: u64, factor: u64| (before ^ (before >> 62)).wrapping_mul(factor);
        let mut i = 1;
        let forward = |i: &mut usize, words: &mut [u64; WORDS]| {
            *i += 1;
            if *i == WORDS {
                words[0] = words[WORDS - 1];
                *i = 1;
            }
        };
        for round in 0..WORDS.max(key.len()) {
            let j = round % key.len();
            let mixed = words[i] ^ spread(words[i - 1], 3_935_559_000_370_003_845);
            words[i] = mixed.wrapping_add(key[j]).wrapping_add(j as u64);
            forward(&mut i, words);
        }
        for _ in 1..WORDS {
            let mixed = words[i] ^ spread(words[i - 1], 2_862_933_555_777_941_757);
            words[i] = mixed.wrapping_sub(i as u64);
            forward(&mut i, words);
        }
        words[0] = 1 << 63;
        mersenne
    }

    /// The next number of 64 bits.
    pub fn draw(&mut self) -> u64 {
        if self.next == WORDS {
            self.renew();
        }
        let mut word = self.words[self.next];
        self.next += 1;
        word ^= (word >> 29) & 0x5555_5555_5555_5555;
        word ^= (word << 17) & 0x71D6_7FFF_EDA6_0000;
        word ^= (word << 37) & 0xFFF7_EEE0_0000_0000;
        word ^ (word >> 43)
    }

    fn renew(&mut self) {
        for i in 0..WORDS {
            let word = (self.words[i] & UPPER) | (self.words[(i + 1) % WORDS] & !UPPER);
            let twist = if word & 1 == 1 { TWIST } else { 0 };
            self.words[i] = self.words[(i + MIDDLE) % WORDS] ^ (word >> 1) ^ twist;
        }
        self.next = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begins_as_the_table_of_its_authors() {
        // mt19937-64.out.txt of the authors: 1000 outputs for this key.
        let mut mersenne = Mersenne64::of_key(&[0x12345, 0x23456, 0x34567, 0x45678]);
        let drawn: Vec<u64> = (0..1000).map(|_| mersenne.draw()).collect();
        let first = [
            7_266_447_313_870_364_031,
            4_946_485_549_665_804_864,
            16_945_909_448_695_747_420,
            16_394_063_075_524_226_720,
            4_873_882_236_456_199_058,
        ];
        assert_eq!(drawn[..5], first);
        assert_eq!(drawn[999], 994_412_663_058_993_407);
    }

    #[test]
    fn one_word_is_the_seed_of_the_standard_library_of_cpp() {
        // [rand.predef] of C++11: the 10000th of mt19937_64, whose seed is 5489.
        let mut mersenne = Mersenne64::seeded(5489);
        let last = (0..10_000).map(|_| mersenne.draw()).last();
        assert_eq!(last, Some(9_981_545_732_273_789_042));
    }
}
