//! Incompressible bytes from a 64-bit key, made anew whenever they are needed: quick enough to fill every buffer before
//! it is written, and to work out later what must have been written.
//!
//! Eight xorshift generators side by side (Marsaglia, "Xorshift RNGs", 2003), because compilers turn that into vector
//! instructions. The stream is part of what lies on disks: it never changes.

const LANES: usize = 8;
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every bit of the input changes half of the output's.
#[inline]
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// One key from several numbers; their order matters.
#[inline]
#[must_use]
pub fn key<const N: usize>(parts: [u64; N]) -> u64 {
    parts.iter().fold(0, |key, part| mix(key.wrapping_add(STEP) ^ part))
}

/// A stream of noise.
pub(crate) struct Noise {
    lanes: [u64; LANES],
}

impl Noise {
    #[inline]
    pub(crate) fn new(key: u64) -> Self {
        // Zero is the one state that xorshift does not leave.
        let lane = |i: usize| mix(key.wrapping_add((i as u64 + 1).wrapping_mul(STEP))) | 1;
        Self { lanes: std::array::from_fn(lane) }
    }

    #[inline]
    pub(crate) fn fill(&mut self, buffer: &mut [u8]) {
        let (pieces, rest) = buffer.as_chunks_mut::<{ LANES * 8 }>();
        for piece in pieces {
            *piece = self.next();
        }
        if !rest.is_empty() {
            rest.copy_from_slice(&self.next()[..rest.len()]);
        }
    }

    #[inline(always)]
    fn next(&mut self) -> [u8; LANES * 8] {
        let mut bytes = [0; LANES * 8];
        for (lane, out) in self.lanes.iter_mut().zip(bytes.as_chunks_mut::<8>().0) {
            *lane ^= *lane << 13;
            *lane ^= *lane >> 7;
            *lane ^= *lane << 17;
            *out = lane.to_le_bytes();
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One lane, one word after the other.
    fn plain(key: u64, words: usize) -> Vec<u8> {
        let mut lanes: Vec<u64> =
            (1..=8u64).map(|i| mix(key.wrapping_add(i.wrapping_mul(STEP))) | 1).collect();
        let mut bytes = Vec::new();
        for word in 0..words {
            let x = &mut lanes[word % 8];
            *x ^= *x << 13;
            *x ^= *x >> 7;
            *x ^= *x << 17;
            bytes.extend_from_slice(&x.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn the_stream_is_pinned() {
        let mut got = [0u8; 512];
        Noise::new(7).fill(&mut got);
        assert_eq!(got[..], plain(7, 64)[..]);
        assert_eq!(crc32c::crc32c(&got), PINNED);
        // In pieces of whole steps it is the same stream.
        let mut again = [0u8; 512];
        let mut noise = Noise::new(7);
        noise.fill(&mut again[..128]);
        noise.fill(&mut again[128..]);
        assert_eq!(got, again);
    }

    const PINNED: u32 = 565_184_457;

    #[test]
    fn bits_are_even_and_keys_independent() {
        let (mut a, mut b) = (vec![0u8; 1 << 16], vec![0u8; 1 << 16]);
        for bit in 0..64 {
            Noise::new(5).fill(&mut a);
            Noise::new(5 ^ 1 << bit).fill(&mut b);
            let ones: u32 = a.iter().map(|x| x.count_ones()).sum();
            let unlike: u32 = a.iter().zip(&b).map(|(x, y)| (x ^ y).count_ones()).sum();
            // Of 524,288 bits half: sd 362; 6 sd either side.
            assert!(ones.abs_diff(1 << 18) < 2172, "{ones}");
            assert!(unlike.abs_diff(1 << 18) < 2172, "bit {bit}: {unlike}");
        }
        assert_ne!(key([1, 2]), key([2, 1]));
    }
}
