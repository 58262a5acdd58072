//! What is written: incompressible noise, zeros, a repeated pattern, or data of which a storage that compresses or
//! deduplicates can save a given share. A function of seed, offset and generation, never of chance.
//!
//! Everything but zeros keeps the stamps of [`crate::stamp`], so that test files are known for ours whatever they hold:
//! 16 bytes of every 4 KiB.
//!
//! *Noise* is one block of 4 KiB, made once, of which every 4 KiB that is written is a copy combined (exclusive or) with
//! a word of its own that is repeated all through it. Nothing of eight bytes comes back then, wherever a compressor or
//! deduplication looks for it and over whatever distance, at the cost of a copy within the processor's cache.
//!
//! *Compressible*: every 512 bytes are noise followed by zeros, so that whatever a storage compresses, sectors or large
//! records, holds its share. *Duplicates*: units at places that are spread evenly over offsets and generations hold one
//! of four contents. Because places and not draws decide, the share holds for few units too, at any block size, and for
//! rewritten units as well; all that is missing are the first four, which are no duplicates.

use crate::noise::{Noise, key, mix};
use crate::stamp::{self, STEP_BYTES};
use std::sync::Arc;
use thiserror::Error;

/// Zeros are spread so that each of these pieces holds its share.
const PIECE_BYTES: usize = 512;
/// What a compressor pays for going from noise to zeros and back: measured with lz4 and zstd.
const PIECE_COST_BYTES: f64 = 4.0;
/// Words of the noise that is made once.
const TILE_WORDS: usize = STEP_BYTES / 8;
/// Longest pattern.
const PATTERN_BYTES_MAX: usize = 4096;
/// Different contents that duplicates have: a power of two.
const CONTENTS: u64 = 4;

/// The steps from one unit to the next and from one generation to the next on the circle of 2^64 places: fractions of
/// the golden ratio and of the square root of 2, whose multiples lie evenly.
const UNIT_STEP: u64 = 0x9E37_79B9_7F4A_7C15;
const GENERATION_STEP: u64 = 0x6A09_E667_F3BC_C909;

/// Content that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ContentError {
    /// Not an even number of hexadecimal digits.
    #[error("pattern '{0}': write bytes as pairs of hexadecimal digits, for example deadbeef")]
    NotHex(String),
    /// Empty or too long.
    #[error("a pattern has 1 to {PATTERN_BYTES_MAX} bytes, this one {0}")]
    PatternLength(usize),
    /// A share that is none.
    #[error("{what} {percent} %: must be a share from 0 to 100 %")]
    Share {
        /// What was asked for.
        what: &'static str,
        /// The value in percent.
        percent: String,
    },
    /// A unit that storage does not deduplicate by.
    #[error("a deduplication unit of {0} bytes: must be a power of two from 512 bytes to 16 MiB")]
    Unit(u32),
    /// A write would fill only part of a unit, which then is no duplicate of anything.
    #[error(
        "blocks of {block_bytes} bytes do not fill deduplication units of {unit_bytes} bytes: \
         write whole units, or set the unit to the block size"
    )]
    BlockInUnit {
        /// The block or alignment that does not fit.
        block_bytes: u64,
        /// The unit.
        unit_bytes: u32,
    },
}

/// Which share of the data a storage can save.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Savings {
    /// Share of the bytes of every 4 KiB that a compressor (lz4, zstd) removes, 0 to 1.
    pub compressible: f64,
    /// Share of the units that are duplicates of another one, 0 to 1.
    pub duplicates: f64,
    /// What the storage deduplicates by, in bytes: a power of two from 512 to 16 Mi.
    pub unit_bytes: u32,
}

/// Fills buffers before they are written.
#[derive(Debug, Clone)]
pub struct Filler(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Noise(Tile),
    Zero,
    /// Whole repetitions, at least 4 KiB.
    Pattern(Box<[u8]>),
    Savable(Savable),
}

/// The noise that all writes are made of.
#[derive(Debug, Clone)]
struct Tile {
    words: Arc<[u64; TILE_WORDS]>,
    /// Where this stream's numbers begin.
    first: u64,
}

#[derive(Debug, Clone, Copy)]
struct Savable {
    seed: u64,
    unit_bytes: u64,
    /// Units whose place lies below are duplicates; `u64::MAX` means all.
    duplicates_below: u64,
    /// Of each piece, the bytes that are noise.
    noise_bytes: usize,
}

impl Filler {
    /// The default: incompressible, no two blocks alike. Streams with different seeds differ; clones share memory.
    #[must_use]
    pub fn noise(seed: u64) -> Self {
        let words = Arc::new(std::array::from_fn(|i| key([seed, i as u64])));
        Self(Kind::Noise(Tile { words, first: mix(seed) }))
    }

    /// Nothing but zeros, without stamps.
    #[must_use]
    pub const fn zero() -> Self {
        Self(Kind::Zero)
    }

    /// A pattern from hexadecimal digits (`deadbeef`, `0xff`), repeated from the start of the target. All blocks have
    /// the same stamp, so that equal ones stay equal.
    ///
    /// # Errors
    /// [`ContentError::NotHex`], [`ContentError::PatternLength`].
    pub fn pattern(hex: &str) -> Result<Self, ContentError> {
        let digits = hex.strip_prefix("0x").unwrap_or(hex).as_bytes();
        let not_hex = || ContentError::NotHex(hex.to_owned());
        let (pairs, rest) = digits.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(not_hex());
        }
        let digit = |c: u8| char::from(c).to_digit(16).ok_or_else(not_hex);
        let bytes = pairs.iter().map(|&[high, low]| Ok((digit(high)? << 4 | digit(low)?) as u8));
        let bytes = bytes.collect::<Result<Vec<u8>, ContentError>>()?;
        if bytes.is_empty() || bytes.len() > PATTERN_BYTES_MAX {
            return Err(ContentError::PatternLength(bytes.len()));
        }
        let tile = bytes.repeat(STEP_BYTES.div_ceil(bytes.len()));
        Ok(Self(Kind::Pattern(tile.into())))
    }

    /// Data with savings; the same for the same seed, offset and generation.
    ///
    /// # Errors
    /// [`ContentError::Share`], [`ContentError::Unit`].
    pub fn savable(savings: Savings, seed: u64) -> Result<Self, ContentError> {
        let share = |what, value: f64| {
            let percent = || format!("{}", value * 100.0);
            let ok = (0.0..=1.0).contains(&value);
            ok.then_some(value).ok_or_else(|| ContentError::Share { what, percent: percent() })
        };
        let compressible = share("compressible", savings.compressible)?;
        let duplicates = share("duplicates", savings.duplicates)?;
        let unit_bytes = savings.unit_bytes;
        if !unit_bytes.is_power_of_two() || !(512..=16 << 20).contains(&unit_bytes) {
            return Err(ContentError::Unit(unit_bytes));
        }
        let noise_bytes = if compressible == 0.0 {
            PIECE_BYTES
        } else {
            (PIECE_BYTES as f64 * (1.0 - compressible) - PIECE_COST_BYTES).round().max(0.0) as usize
        };
        Ok(Self(Kind::Savable(Savable {
            seed,
            unit_bytes: u64::from(unit_bytes),
            duplicates_below: crate::prng::chance_threshold(duplicates),
            noise_bytes,
        })))
    }

    /// Checks that writes of this size or alignment fill whole units.
    ///
    /// # Errors
    /// [`ContentError::BlockInUnit`] when duplicates are wanted and would not come out.
    pub fn check_block(&self, block_bytes: u64) -> Result<(), ContentError> {
        match self.0 {
            Kind::Savable(Savable { unit_bytes, duplicates_below: 1.., .. })
                if !block_bytes.is_multiple_of(unit_bytes) =>
            {
                Err(ContentError::BlockInUnit { block_bytes, unit_bytes: unit_bytes as u32 })
            }
            _ => Ok(()),
        }
    }

    /// Makes the content of a write; `generation` must differ from write to write.
    #[inline]
    pub fn fill(&self, buffer: &mut [u8], offset_bytes: u64, generation: u64) {
        match &self.0 {
            Kind::Noise(tile) => tile.fill(buffer, offset_bytes, generation),
            Kind::Zero => buffer.fill(0),
            Kind::Pattern(tile) => repeat(tile, buffer, offset_bytes),
            Kind::Savable(savable) => savable.fill(buffer, offset_bytes, generation),
        }
    }
}

/// Fills with a pattern that begins at offset 0, and the same stamp on all multiples of 4 KiB.
fn repeat(tile: &[u8], buffer: &mut [u8], offset_bytes: u64) {
    let mut from = (offset_bytes % tile.len() as u64) as usize;
    let mut rest = &mut *buffer;
    while !rest.is_empty() {
        let length = rest.len().min(tile.len() - from);
        let (now, later) = rest.split_at_mut(length);
        now.copy_from_slice(&tile[from..from + length]);
        (rest, from) = (later, 0);
    }
    let to_multiple = (offset_bytes.next_multiple_of(STEP_BYTES as u64) - offset_bytes) as usize;
    let stamped = buffer.get_mut(to_multiple..).unwrap_or_default();
    stamped.chunks_mut(STEP_BYTES).for_each(|block| stamp::stamp(block, 1));
}

impl Tile {
    #[inline]
    fn fill(&self, buffer: &mut [u8], offset_bytes: u64, generation: u64) {
        let unique = self.first.wrapping_add(generation);
        let mut place = mix(unique);
        for block in buffer.chunks_mut(STEP_BYTES) {
            place = place.wrapping_add(UNIT_STEP);
            let word = mix(place);
            let (pieces, rest) = block.as_chunks_mut::<8>();
            for (piece, noise) in pieces.iter_mut().zip(self.words.iter()) {
                *piece = (noise ^ word).to_ne_bytes();
            }
            // Odd sizes occur where I/O is buffered.
            let last = (self.words[TILE_WORDS - 1] ^ word).to_ne_bytes();
            rest.iter_mut().zip(last).for_each(|(byte, noise)| *byte = noise);
        }
        stamp::stamp_at(buffer, offset_bytes, unique);
    }
}

impl Savable {
    fn fill(&self, buffer: &mut [u8], offset_bytes: u64, generation: u64) {
        let cell_bytes = self.unit_bytes.min(STEP_BYTES as u64);
        let mut at = offset_bytes;
        let mut rest = buffer;
        while !rest.is_empty() {
            let into = (at % cell_bytes) as usize;
            let length = rest.len().min(cell_bytes as usize - into);
            let (now, later) = rest.split_at_mut(length);
            let key = self.key_of(at - into as u64, generation);
            if length == cell_bytes as usize {
                self.fill_cell(now, key);
            } else {
                // The part of the cell that lies in this write.
                let mut cell = [0; STEP_BYTES];
                self.fill_cell(&mut cell[..cell_bytes as usize], key);
                now.copy_from_slice(&cell[into..into + length]);
            }
            at += length as u64;
            rest = later;
        }
    }

    /// What the cell (4 KiB, or a unit that is smaller) at this offset is made from.
    #[inline]
    fn key_of(&self, offset_bytes: u64, generation: u64) -> u64 {
        let unit = offset_bytes / self.unit_bytes;
        let place = unit
            .wrapping_mul(UNIT_STEP)
            .wrapping_add(generation.wrapping_mul(GENERATION_STEP))
            .wrapping_add(mix(self.seed));
        if place < self.duplicates_below || self.duplicates_below == u64::MAX {
            let content = mix(place) % CONTENTS;
            key([self.seed, content, offset_bytes % self.unit_bytes])
        } else {
            key([self.seed, generation, offset_bytes, CONTENTS])
        }
    }

    #[inline]
    fn fill_cell(&self, cell: &mut [u8], key: u64) {
        let mut noise = Noise::new(key);
        if self.noise_bytes == PIECE_BYTES {
            noise.fill(cell);
        } else {
            for piece in cell.chunks_mut(PIECE_BYTES) {
                let (random, zeros) = piece.split_at_mut(self.noise_bytes);
                noise.fill(random);
                zeros.fill(0);
            }
        }
        stamp::stamp(cell, key);
    }
}
