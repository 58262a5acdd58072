//! Whether bytes are ones that fathom writes: every byte of them, told from the bytes alone.
//!
//! A stamp gives away the number of its write, that number the word which the noise was combined with, and both
//! together the noise itself: the words of [`crate::content`]'s noise follow from one key, and the mixing function can be
//! undone. With the noise known, every sector of 512 bytes must be noise combined with one word all through. Savable
//! data and verified blocks are made again from what their stamps and headers say.
//!
//! A stream of noise of which no head of a request is left cannot be learned. Requests whose offset or size is no
//! multiple of 512 leave pieces that cannot be told, and patterns have no such evidence: all three stay in doubt.

use crate::noise::{Noise, mix};
use crate::stamp::{STAMP_BYTES, STEP_BYTES, is_stamp, stamp};
use crate::verify_block::{Format, SECTOR_BYTES};

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
/// `STEP` times this is 1.
const STEP_INVERSE: u64 = inverse(STEP);
const TILE_WORDS: usize = STEP_BYTES / 8;
const SECTOR_WORDS: usize = SECTOR_BYTES / 8;
const STAMP_WORDS: usize = STAMP_BYTES / 8;
/// Blocks of 4 KiB in the longest request from which noise is learned.
const REQUEST_BLOCKS_MAX: u64 = 4096;
/// Stamps that taught nothing, after which no more are tried.
const FAILURES_MAX: u32 = 4096;

/// What is known about the noise in one file; grows with what is looked at.
#[derive(Debug, Default)]
pub struct Provenance {
    tiles: Vec<Box<[u64; TILE_WORDS]>>,
    /// Which of them explained the last sector.
    last: usize,
    failures: u32,
}

impl Provenance {
    /// How many streams of noise are known. When more are known than at an earlier look, what was in doubt then may be
    /// explained now.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.tiles.len()
    }

    /// True when every byte is fathom's or zero. `data` begins at a multiple of 4 KiB of the file. All of it is looked
    /// at, since every part may teach what others consist of.
    pub fn explains(&mut self, data: &[u8]) -> bool {
        data.chunks(STEP_BYTES).filter(|block| !self.explains_block(block)).count() == 0
    }

    fn explains_block(&mut self, block: &[u8]) -> bool {
        if is_zero(block) {
            return true;
        }
        let (mut rest, mut is_ours) = (block, true);
        while !rest.is_empty() {
            let sector = &rest[..rest.len().min(SECTOR_BYTES)];
            let is_known = is_zero(sector) || self.explains_sector(sector);
            let made = if is_known { Some(sector.len()) } else { cell(rest).or(unit(rest)) };
            is_ours &= made.is_some();
            rest = &rest[made.unwrap_or(sector.len())..];
        }
        is_ours
    }

    fn explains_sector(&mut self, sector: &[u8]) -> bool {
        // Fewer bytes hold no word beside the one that tells what the noise is combined with.
        if sector.len() < STAMP_BYTES + 16 {
            return false;
        }
        let known = self.tiles.len();
        let of = |tile: &[u64; TILE_WORDS]| is_noise(tile, sector);
        if self.tiles.get(self.last).is_some_and(|tile| of(tile)) {
            return true;
        }
        if let Some(index) = self.tiles.iter().position(|tile| of(tile)) {
            self.last = index;
            return true;
        }
        if self.failures >= FAILURES_MAX {
            return false;
        }
        match learn(sector) {
            Some(tile) if of(&tile) => {
                self.tiles.push(tile);
                self.last = known;
                true
            }
            _ => {
                self.failures += u32::from(is_stamp(sector));
                false
            }
        }
    }
}

fn is_zero(data: &[u8]) -> bool {
    data == &[0; STEP_BYTES][..data.len()]
}

/// True for a sector of that noise, whichever of the eight of a block it is a copy of, with or without a stamp.
fn is_noise(tile: &[u64; TILE_WORDS], sector: &[u8]) -> bool {
    let (words, tail) = sector.as_chunks::<8>();
    tile.chunks_exact(SECTOR_WORDS).any(|noise| {
        let word = u64::from_ne_bytes(words[STAMP_WORDS]) ^ noise[STAMP_WORDS];
        let same = |(bytes, noise): (&[u8; 8], &u64)| u64::from_ne_bytes(*bytes) ^ noise == word;
        let body = words[STAMP_WORDS + 1..].iter().zip(&noise[STAMP_WORDS + 1..]);
        let head = || words[..STAMP_WORDS].iter().zip(noise);
        // A request of an odd size ends with the last word of the noise, a file that was cut off with the next one.
        let ends = || {
            [Some(&tile[TILE_WORDS - 1]), noise.get(words.len())]
                .into_iter()
                .flatten()
                .any(|noise| (noise ^ word).to_ne_bytes().starts_with(tail))
        };
        body.into_iter().all(same) && (head().all(same) || is_stamp(sector)) && ends()
    })
}

/// The noise of a request that begins with this sector, or of which this is the head of a block.
fn learn(sector: &[u8]) -> Option<Box<[u64; TILE_WORDS]>> {
    let (words, _) = sector.as_chunks::<8>();
    if !is_stamp(sector) || words.len() < STAMP_WORDS + 3 {
        return None;
    }
    let word = |index: usize| u64::from_ne_bytes(words[index]);
    let number = u64::from_le_bytes(words[0]);
    let of_block = |block: u64| ((number ^ (block << 48)).wrapping_mul(STEP_INVERSE), block);
    // What lies before the first multiple of 4 KiB in a request has the inverted number.
    let lead = (!number.wrapping_mul(STEP_INVERSE), 0);
    (0..REQUEST_BLOCKS_MAX).map(of_block).chain([lead]).find_map(|(unique, block)| {
        let combined = mix(mix(unique).wrapping_add(STEP.wrapping_mul(block + 1)));
        let key = unmix(word(2) ^ combined) ^ 2;
        let noise = |index: u64| mix(key ^ index);
        let is_it = [3, 4].iter().all(|&i| noise(i) == word(i as usize) ^ combined);
        is_it.then(|| Box::new(std::array::from_fn(|i| noise(i as u64))))
    })
}

/// The length of the savable cell that begins here, if all of it is what its stamp says.
fn cell(data: &[u8]) -> Option<usize> {
    if !is_stamp(data) {
        return None;
    }
    let number = u64::from_le_bytes(*data.first_chunk()?);
    let key = number.wrapping_mul(STEP_INVERSE);
    let piece = data.get(..SECTOR_BYTES)?;
    let zeros = piece.iter().rev().take_while(|&&byte| byte == 0).count();
    let shortest = SECTOR_BYTES - zeros;
    // Noise may end with zero bytes of its own.
    for noise_bytes in shortest..=(shortest + 4).min(SECTOR_BYTES) {
        let mut made = [0; STEP_BYTES];
        for length in [4096, 2048, 1024, 512].into_iter().filter(|&length| length <= data.len()) {
            let made = &mut made[..length];
            let mut noise = Noise::new(key);
            if noise_bytes == SECTOR_BYTES {
                noise.fill(made);
            } else {
                for piece in made.chunks_mut(SECTOR_BYTES) {
                    let (random, zeros) = piece.split_at_mut(noise_bytes);
                    noise.fill(random);
                    zeros.fill(0);
                }
            }
            stamp(made, key);
            if data.starts_with(made) {
                return Some(length);
            }
        }
    }
    None
}

/// The length of the verified unit that begins here, if all of it is what its header says.
fn unit(data: &[u8]) -> Option<usize> {
    let word = |at: usize| Some(u64::from_le_bytes(*data.get(at..)?.first_chunk()?));
    let (target_id, offset_bytes, generation, seed) = (word(24)?, word(32)?, word(40)?, word(48)?);
    let length = u32::from_le_bytes(*data.get(56..)?.first_chunk()?);
    let found = data.get(..length as usize)?;
    let format = Format::new(target_id, seed, length).ok()?;
    if !offset_bytes.is_multiple_of(u64::from(length)) {
        return None;
    }
    let mut made = vec![0; found.len()];
    format.fill(&mut made, offset_bytes, generation);
    (made == found).then_some(found.len())
}

/// Undoes [`mix`].
fn unmix(value: u64) -> u64 {
    let value = value ^ (value >> 31) ^ (value >> 62);
    let value = value.wrapping_mul(inverse(0x94D0_49BB_1331_11EB));
    let value = value ^ (value >> 27) ^ (value >> 54);
    let value = value.wrapping_mul(inverse(0xBF58_476D_1CE4_E5B9));
    value ^ (value >> 30) ^ (value >> 60)
}

/// The inverse of an odd number modulo 2^64: Newton's method, which doubles the right bits with each step.
const fn inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    let mut step = 0;
    while step < 5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::{Filler, Savings};
    use crate::prng::Prng;

    /// A file as two jobs leave it: laid out by one, written at random places by the other.
    fn written(filler: &Filler, sizes: &[usize], align: usize) -> Vec<u8> {
        let mut file = vec![0; 300 << 10];
        for (index, piece) in file.chunks_mut(64 << 10).enumerate() {
            Filler::noise(1).fill(piece, index as u64 * (64 << 10), index as u64 + 1);
        }
        let mut random = Prng::new(5, 6);
        for generation in 1..30 {
            let size = sizes[generation % sizes.len()];
            let at = random.next_u64() as usize % ((file.len() - size) / align) * align;
            filler.fill(&mut file[at..at + size], at as u64, 7 << 40 | generation as u64);
        }
        file
    }

    fn explains(file: &[u8]) -> bool {
        let mut known = Provenance::default();
        // What a later block teaches may explain an earlier one.
        known.explains(file) || known.explains(file)
    }

    #[test]
    fn the_inverses_are() {
        for value in [0, 1, 7, u64::MAX, 0x1234_5678_9ABC_DEF0] {
            assert_eq!(unmix(mix(value)), value);
            assert_eq!(value.wrapping_mul(STEP).wrapping_mul(STEP_INVERSE), value);
        }
    }

    #[test]
    fn what_fathom_writes_is_explained_and_no_edit_of_it() {
        let savable = |compressible, duplicates, unit_bytes| {
            Filler::savable(Savings { compressible, duplicates, unit_bytes }, 3).unwrap()
        };
        for (filler, sizes, align) in [
            (Filler::noise(2), &[4096][..], 4096),
            (Filler::noise(2), &[512], 512),
            (Filler::noise(2), &[512, 1536, 20480], 512),
            (Filler::noise(2), &[16384], 1024),
            (Filler::zero(), &[4096], 4096),
            (savable(0.5, 0.0, 4096), &[8192], 4096),
            (savable(0.3, 0.5, 512), &[512], 512),
            (savable(0.0, 0.4, 16384), &[16384], 16384),
        ] {
            let file = written(&filler, sizes, align);
            assert!(explains(&file), "{sizes:?}, {align}");
            let mut known = Provenance::default();
            file.chunks(STEP_BYTES).for_each(|block| _ = known.explains(block));
            let mut random = Prng::new(8, 9);
            for length in [1, 5, 23, 512, 700] {
                for _ in 0..40 {
                    let at = random.next_u64() as usize % (file.len() - length);
                    let from = at / STEP_BYTES * STEP_BYTES;
                    let mut edited = file[from..(from + 2 * STEP_BYTES).min(file.len())].to_vec();
                    let edit = &mut edited[at - from..at - from + length];
                    edit.iter_mut().for_each(|byte| *byte = byte.wrapping_add(13));
                    assert!(!known.explains(&edited), "{sizes:?}: {length} bytes at {at}");
                }
            }
        }
    }

    #[test]
    fn an_end_within_a_sector() {
        for size in [40, 100, 300, 4096 + 160, 9000, 100_000] {
            let mut file = vec![0; size];
            Filler::noise(4).fill(&mut file, 0, 1);
            assert!(explains(&file), "{size}");
            file.extend(b"TEXT\n");
            assert!(!explains(&file), "{size} and an appended line");
        }
        assert!(!explains(b"thesis") && !explains(&[b'y'; 4096]));
    }

    #[test]
    fn verified_units() {
        for unit_bytes in [512, 4096] {
            let mut file = vec![0; 32 << 10];
            Format::new(1, 2, unit_bytes).unwrap().fill(&mut file, 1 << 20, 9);
            assert!(explains(&file));
            file[5000] ^= 1;
            assert!(!explains(&file));
        }
    }
}
