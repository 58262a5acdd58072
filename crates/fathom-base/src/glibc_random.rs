//! The random numbers of the GNU C library, bit for bit: classic tools used them, and their offsets are repeated with
//! them. They are too weak for new measurements: [`GlibcRandom`] has 31 bits, [`Rand48`] a linear pattern.

/// `random()`, and `rand()`, which is the same: the additive feedback generator with 31 words (TYPE_3),
/// r\[i\] = r\[i-3\] + r\[i-31\] mod 2^32, of which the upper 31 bits are given out.
#[derive(Debug, Clone)]
pub struct GlibcRandom {
    words: [u32; 31],
    next: usize,
}

impl GlibcRandom {
    /// The largest number given out: RAND_MAX.
    pub const MAX: u32 = 0x7FFF_FFFF;

    /// As after `srandom(seed)` or `srand(seed)`; without either, the C library begins with seed 1.
    #[must_use]
    pub fn new(seed: u32) -> Self {
        // Seed 0 counts as 1. The words are those of Park and Miller's generator, 16807 w mod 2^31 - 1, in signed
        // arithmetic.
        let mut words = [seed.max(1); 31];
        let mut word = i64::from(words[0] as i32);
        for slot in &mut words[1..] {
            word = (word * 16_807).rem_euclid(0x7FFF_FFFF);
            *slot = word as u32;
        }
        // The first sum replaces r[3]; the library discards ten rounds.
        let mut random = Self { words, next: 3 };
        (0..310).for_each(|_| _ = random.draw());
        random
    }

    /// The next number, 0 to [`Self::MAX`].
    #[inline]
    pub fn draw(&mut self) -> u32 {
        // Slot i holds r[i - 31] until it is replaced; r[i - 3] is three slots back, which is 28 ahead.
        let behind = if self.next < 3 { self.next + 28 } else { self.next - 3 };
        let word = self.words[self.next].wrapping_add(self.words[behind]);
        self.words[self.next] = word;
        self.next = if self.next == 30 { 0 } else { self.next + 1 };
        word >> 1
    }
}

/// `drand48()`, `lrand48()`: x' = 0x5DEECE66D x + 11 mod 2^48 (POSIX).
#[derive(Debug, Clone)]
pub struct Rand48 {
    state: u64,
}

impl Rand48 {
    /// As in a program that never seeds: glibc begins with 0.
    #[must_use]
    pub fn unseeded() -> Self {
        Self { state: 0 }
    }

    /// As after `srand48(seed)`, which uses 32 bits of the seed.
    #[must_use]
    pub fn new(seed: u32) -> Self {
        Self { state: u64::from(seed) << 16 | 0x330E }
    }

    /// Where a stream stands, for [`Rand48::at`].
    #[must_use]
    pub fn state(&self) -> u64 {
        self.state
    }

    /// A stream that goes on from [`Rand48::state`].
    #[must_use]
    pub fn at(state: u64) -> Self {
        Self { state }
    }

    #[inline]
    fn step(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(0x5_DEEC_E66D).wrapping_add(11) & ((1 << 48) - 1);
        self.state
    }

    /// `drand48()`: a number in \[0, 1), a multiple of 2^-48.
    #[inline]
    pub fn draw_unit(&mut self) -> f64 {
        self.step() as f64 / (1u64 << 48) as f64
    }

    /// `lrand48()`: a number below 2^31.
    #[inline]
    pub fn draw(&mut self) -> u32 {
        (self.step() >> 17) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The beginning of the streams of seed 1, as many texts have printed them.
    #[test]
    fn published_beginnings() {
        let mut random = GlibcRandom::new(1);
        let got: Vec<u32> = (0..5).map(|_| random.draw()).collect();
        assert_eq!(got, [1_804_289_383, 846_930_886, 1_681_692_777, 1_714_636_915, 1_957_747_793]);
        let mut rand = Rand48::unseeded();
        let got: Vec<String> = (0..4).map(|_| format!("{:.6}", rand.draw_unit())).collect();
        assert_eq!(got, ["0.000000", "0.000985", "0.041631", "0.176643"]);
    }
}
