//! Blocks that say what they are, so that reading them back tells what a storage did to them.
//!
//! A block is written in *units* of at most 4 KiB. Each begins with a header (stamp, magic, target, offset, generation,
//! seed, length, CRC32C of the whole unit); the rest is noise that follows from target, seed, offset and generation, so
//! that what must be there can be worked out again. The last 8 bytes of every 512 hold the generation once more, hidden
//! by a mask that follows from the place: a unit of which only some sectors arrived is taken apart that way.
//!
//! Several files are targets of their own whose identifiers follow each other, so that a block tells its file.
//!
//! ```text
//!  0 stamp (16)          16 "fathom" (6)     22 version (1)   23 binary logarithm of the unit (1)
//! 24 target id (8)       32 offset (8)       40 generation (8)
//! 48 seed (8)            56 length (4)       60 CRC32C of all other bytes (4)
//! 64 noise ...          504 of each 512: generation xor mask (8)           little endian throughout
//! ```

mod found;
mod racers;

pub use self::found::{Cleared, Found, Legal, Mismatch};
pub(crate) use self::racers::{RACERS_BYTES, Racers};

use crate::noise::{Noise, key};
use crate::stamp;
use std::ops::Range;
use thiserror::Error;

/// The finest piece that a storage writes as a whole.
pub const SECTOR_BYTES: usize = 512;
/// The largest unit.
pub const UNIT_BYTES_MAX: usize = 4096;

/// The newest generation that a write can have: eight years of a million writes in a second.
pub(crate) const GENERATION_MAX: u64 = (1 << 48) - 1;

/// So many generations are tried of a copy whose own is not in it.
const BEGUN_MAX: u64 = 64;

const MAGIC: [u8; 7] = *b"fathom\x01";
const CRC_AT: Range<usize> = 60..64;
const TAG_AT: usize = SECTOR_BYTES - 8;

/// Sizes that verification cannot work with.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FormatError {
    /// Not a multiple of 512.
    #[error(
        "blocks of {0} bytes cannot be verified: sizes and alignment must be multiples of 512 bytes"
    )]
    NotSectors(u64),
    /// Not a possible unit.
    #[error("a unit of {0} bytes: must be 512, 1024, 2048 or 4096")]
    Unit(u32),
}

/// How the blocks of one target, or of one of several files, are written and checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// Of the first file; those of the others follow.
    first_id: u64,
    seed: u64,
    unit_bytes: u32,
    /// How many files there are, and which of them this is about.
    files: u32,
    file: u32,
    /// Of several writes one may have been copied by half.
    is_copied: bool,
}

/// The largest unit that divides all of these block sizes and alignments.
///
/// # Errors
/// [`FormatError::NotSectors`] names the first that is not a positive multiple of 512.
pub fn unit_for(sizes_bytes: &[u64]) -> Result<u32, FormatError> {
    let mut exponent = UNIT_BYTES_MAX.trailing_zeros();
    for &size in sizes_bytes {
        if size == 0 || !size.is_multiple_of(SECTOR_BYTES as u64) {
            return Err(FormatError::NotSectors(size));
        }
        exponent = exponent.min(size.trailing_zeros());
    }
    Ok(1 << exponent)
}

impl Format {
    /// A format. The identifier is new for every target and whenever its [`crate::ledger::Ledger`] begins anew; seed
    /// and unit stay the same as long.
    ///
    /// # Errors
    /// [`FormatError::Unit`].
    pub fn new(target_id: u64, seed: u64, unit_bytes: u32) -> Result<Self, FormatError> {
        match unit_bytes {
            512 | 1024 | 2048 | 4096 => Ok(Self {
                first_id: target_id,
                seed,
                unit_bytes,
                files: 1,
                file: 0,
                is_copied: false,
            }),
            _ => Err(FormatError::Unit(unit_bytes)),
        }
    }

    /// The same for several files, about the first of them; at least one.
    #[must_use]
    pub const fn over(self, files: u32) -> Self {
        Self { files: if files == 0 { 1 } else { files }, file: 0, ..self }
    }

    /// The same about another of the files, counted from 0 on.
    #[must_use]
    pub const fn on(self, file: u32) -> Self {
        Self { file, ..self }
    }

    /// The same where a process copied its writes into memory, as with mmap, and was cut off: one sector of a unit may begin with a
    /// write and end with an older one, when both may be there.
    #[must_use]
    pub const fn copied(self) -> Self {
        Self { is_copied: true, ..self }
    }

    /// Identifier of the target, of several files that of the first, and seed.
    #[must_use]
    pub const fn identity(&self) -> (u64, u64) {
        (self.first_id, self.seed)
    }

    /// How many files there are.
    #[must_use]
    pub const fn files(&self) -> u32 {
        self.files
    }

    /// What its blocks carry.
    #[inline]
    const fn target_id(&self) -> u64 {
        self.first_id.wrapping_add(self.file as u64)
    }

    /// The file of an identifier; none of a single target's and of somebody else's.
    fn file_of(&self, target_id: u64) -> Option<u32> {
        let file = u32::try_from(target_id.wrapping_sub(self.first_id)).ok()?;
        (self.files > 1 && file < self.files).then_some(file)
    }

    /// The unit in bytes.
    #[must_use]
    pub const fn unit_bytes(&self) -> u32 {
        self.unit_bytes
    }

    /// Makes the content of a write. Offset and length are multiples of the unit; generations begin with 1.
    pub fn fill(&self, buffer: &mut [u8], offset_bytes: u64, generation: u64) {
        let unit_bytes = self.unit_bytes as usize;
        debug_assert!(buffer.len().is_multiple_of(unit_bytes));
        debug_assert!(offset_bytes.is_multiple_of(unit_bytes as u64));
        for (unit, at) in
            buffer.chunks_exact_mut(unit_bytes).zip((offset_bytes..).step_by(unit_bytes))
        {
            self.build(unit, at, generation);
        }
    }

    /// Checks what was read: one write, or the smallest piece that is always written as a whole (a granule of the
    /// ledger). Offset and length are multiples of the unit.
    ///
    /// # Errors
    /// The first [`Mismatch`].
    pub fn check(&self, block: &[u8], offset_bytes: u64, legal: Legal) -> Result<(), Mismatch> {
        let unit_bytes = self.unit_bytes as usize;
        let mut units = block.chunks(unit_bytes).zip((offset_bytes..).step_by(unit_bytes));
        if units.all(|(unit, at)| self.is_sound(unit, at) && legal.allows(generation_of(unit))) {
            return Ok(());
        }
        let is_zeros = || block.iter().all(|&byte| byte == 0);
        if legal.is_unknown() || (legal.allows(0) && is_zeros()) {
            return Ok(());
        }
        self.diagnose(block, offset_bytes, legal)
    }

    fn build(&self, unit: &mut [u8], offset_bytes: u64, generation: u64) {
        let key = key([self.target_id(), self.seed, offset_bytes, generation]);
        Noise::new(key).fill(unit);
        for (sector, at) in unit.chunks_exact_mut(SECTOR_BYTES).zip((offset_bytes..).step_by(512)) {
            sector[TAG_AT..].copy_from_slice(&(generation ^ self.mask(at)).to_le_bytes());
        }
        stamp::stamp(unit, key);
        unit[16..60].copy_from_slice(&self.header(offset_bytes, generation));
        let check = checksum(unit).to_le_bytes();
        unit[CRC_AT].copy_from_slice(&check);
    }

    /// What the header holds between stamp and checksum.
    #[inline]
    fn header(&self, offset_bytes: u64, generation: u64) -> [u8; 44] {
        let mut header = [0; 44];
        header[..7].copy_from_slice(&MAGIC);
        header[7] = self.unit_bytes.trailing_zeros() as u8;
        let words = [self.target_id(), offset_bytes, generation, self.seed];
        for (field, word) in header[8..40].as_chunks_mut().0.iter_mut().zip(words) {
            *field = word.to_le_bytes();
        }
        header[40..].copy_from_slice(&self.unit_bytes.to_le_bytes());
        header
    }

    fn mask(&self, sector_offset_bytes: u64) -> u64 {
        key([self.target_id(), self.seed, sector_offset_bytes])
    }

    /// True for a unit of this format and place, of whatever generation.
    #[inline]
    fn is_sound(&self, unit: &[u8], offset_bytes: u64) -> bool {
        unit.len() == self.unit_bytes as usize
            && unit[16..60] == self.header(offset_bytes, generation_of(unit))
            && is_whole(unit)
    }
}

#[inline]
fn word(unit: &[u8], at: usize) -> u64 {
    unit.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[inline]
fn generation_of(unit: &[u8]) -> u64 {
    word(unit, 40)
}

#[inline]
fn checksum(unit: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&unit[..CRC_AT.start]), &unit[CRC_AT.end..])
}

/// True when header and checksum fit, whosever unit it is.
#[inline]
fn is_whole(unit: &[u8]) -> bool {
    unit[16..23] == MAGIC && unit[CRC_AT] == checksum(unit).to_le_bytes() && stamp::is_stamp(unit)
}

/// What one unit is, without regard to what is legal.
#[derive(Debug)]
enum Sight {
    /// Sound parts: their generations, 0 for zeros; a single one for the whole unit.
    Parts(Vec<u64>),
    /// Somebody else's, or of another place.
    Elsewhere(Found),
    /// Some sectors may be sound (as in `Parts`), others (`None`) are not; what it resembles most, and whether these do.
    Damaged(Vec<Option<u64>>, Found, bool),
}

impl Format {
    #[cold]
    fn diagnose(&self, block: &[u8], offset_bytes: u64, legal: Legal) -> Result<(), Mismatch> {
        let unit_bytes = self.unit_bytes as usize;
        let units = block.chunks(unit_bytes).zip((offset_bytes..).step_by(unit_bytes));
        let beside: Vec<u64> = if self.is_copied {
            let sound = units.clone().filter(|(unit, at)| self.is_sound(unit, *at));
            sound.map(|(unit, _)| generation_of(unit)).collect()
        } else {
            Vec::new()
        };
        let mut first = None;
        // Generations of all sound parts, with the first one that is not legal.
        let (mut oldest, mut newest) = (u64::MAX, 0);
        for (unit, at) in units {
            let sight = self.look((unit, at), legal, &beside);
            if let Sight::Parts(parts) = &sight {
                oldest = parts.iter().copied().fold(oldest, u64::min);
                newest = parts.iter().copied().fold(newest, u64::max);
            }
            if first.is_none() {
                first = judge(sight, at, unit, legal).map(|(bad_at, found)| (at, bad_at, found));
            }
        }
        let Some((at, bad_at, mut found)) = first else { return Ok(()) };
        let is_part = matches!(
            found,
            Found::Zeros | Found::Stale { .. } | Found::Future { .. } | Found::Torn { .. }
        );
        if is_part && oldest != newest {
            found = Found::Torn { oldest, newest, first_bad_bytes: bad_at };
        }
        let file = self.file_of(self.target_id());
        Err(Mismatch { file, offset_bytes: at, length_bytes: self.unit_bytes, legal, found })
    }

    /// What a unit is; `beside` are generations of others of its block.
    fn look(&self, (unit, offset_bytes): (&[u8], u64), legal: Legal, beside: &[u64]) -> Sight {
        if unit.iter().all(|&byte| byte == 0) {
            return Sight::Parts(vec![0]);
        }
        let mut head = [0; 16];
        head.iter_mut().zip(unit).for_each(|(to, from)| *to = *from);
        if unit.len() != self.unit_bytes as usize {
            return Sight::Elsewhere(Found::Foreign { head });
        }
        let generation = generation_of(unit);
        if is_whole(unit) {
            return self.place_of(unit, offset_bytes, generation);
        }
        self.take_apart((unit, offset_bytes), legal, beside, head)
    }

    /// Whose a whole unit is.
    fn place_of(&self, unit: &[u8], offset_bytes: u64, generation: u64) -> Sight {
        let (target_id, seed, belongs_at_bytes) = (word(unit, 24), word(unit, 48), word(unit, 32));
        let file = self.file_of(target_id);
        if seed != self.seed || (target_id != self.target_id() && file.is_none()) {
            let offset_bytes = belongs_at_bytes;
            Sight::Elsewhere(Found::OtherTarget { target_id, seed, offset_bytes })
        } else if target_id == self.target_id() && belongs_at_bytes == offset_bytes {
            Sight::Parts(vec![generation])
        } else {
            Sight::Elsewhere(Found::Misplaced { file, belongs_at_bytes, generation })
        }
    }

    /// Tells the sectors of a unit that is not whole one by one.
    fn take_apart(
        &self,
        (unit, offset_bytes): (&[u8], u64),
        legal: Legal,
        beside: &[u64],
        head: [u8; 16],
    ) -> Sight {
        let sectors = unit.chunks_exact(SECTOR_BYTES);
        let tags = sectors
            .clone()
            .zip((offset_bytes..).step_by(SECTOR_BYTES))
            .map(|(sector, at)| word(sector, TAG_AT) ^ self.mask(at));
        let known = [generation_of(unit), legal.max_generation, legal.min_generation];
        // A copy that had just begun shows nothing of what it is.
        let begun = legal.min_generation
            ..=legal.max_generation.min(legal.min_generation.saturating_add(BEGUN_MAX));
        let begun = begun.filter(|_| self.is_copied);
        let mut candidates: Vec<u64> =
            tags.chain(known).chain(beside.iter().copied()).chain(begun).collect();
        candidates.sort_unstable();
        candidates.dedup();
        let mut parts: Vec<Option<u64>> = sectors
            .clone()
            .map(|sector| sector.iter().all(|&byte| byte == 0).then_some(0))
            .collect();
        let mut nearest = (u32::MAX, Found::Foreign { head });
        let mut scratch = [0; UNIT_BYTES_MAX];
        let wanted = &mut scratch[..unit.len()];
        // What a copy that was cut off may be of.
        let mut whole: Vec<(u64, Vec<u8>)> = Vec::new();
        if self.is_copied && legal.allows(0) {
            whole.push((0, vec![0; unit.len()]));
        }
        // Where older data may be, that may be nearly all zeros.
        if legal.min_generation > 0 && legal.allows(0) {
            nearest = difference(unit, wanted, offset_bytes, 0);
        }
        let possible = 1..=GENERATION_MAX;
        for generation in candidates.into_iter().filter(|one| possible.contains(one)) {
            self.build(wanted, offset_bytes, generation);
            let pairs = sectors.clone().zip(wanted.chunks_exact(SECTOR_BYTES));
            for (part, (found, wanted)) in parts.iter_mut().zip(pairs) {
                if found == wanted {
                    *part = Some(generation);
                }
            }
            let (bits, found) = difference(unit, wanted, offset_bytes, generation);
            if bits < nearest.0 {
                nearest = (bits, found);
            }
            if self.is_copied && legal.allows(generation) {
                whole.push((generation, wanted.to_vec()));
            }
        }
        tell_cut_off(unit, &mut parts, &whole);
        if parts.first() == Some(&None) && legal.min_generation == 0 {
            parts[0] = begun_last_over_anything(unit, &whole);
        }
        let sound: Option<Vec<u64>> = parts.iter().copied().collect();
        if let Some(sound) = sound {
            return Sight::Parts(sound);
        }
        let resembles = self.resembles((unit, offset_bytes), &parts, &nearest.1);
        // Zeros are nobody's.
        let has_ours = parts.iter().flatten().any(|&part| part > 0);
        if resembles || has_ours {
            Sight::Damaged(parts, nearest.1, resembles)
        } else {
            Sight::Elsewhere(Found::Foreign { head })
        }
    }

    /// True where the sectors that are not sound are nearly those of what was found: unrelated data differs in half of all bits.
    fn resembles(
        &self,
        (unit, offset_bytes): (&[u8], u64),
        parts: &[Option<u64>],
        found: &Found,
    ) -> bool {
        let Found::Corrupt { generation, .. } = *found else { return false };
        let mut scratch = [0; UNIT_BYTES_MAX];
        let wanted = &mut scratch[..unit.len()];
        if generation > 0 {
            self.build(wanted, offset_bytes, generation);
        }
        let pairs = unit.chunks_exact(SECTOR_BYTES).zip(wanted.chunks_exact(SECTOR_BYTES));
        let unsound = pairs.zip(parts).filter(|(_, part)| part.is_none()).map(|(pair, _)| pair);
        let (count, bits) = unsound.fold((0, 0), |(count, bits), (found, wanted)| {
            (count + 1, bits + wrong_bits(found, wanted) as usize)
        });
        bits < count * SECTOR_BYTES * 2
    }
}

/// What processors copy at once at least, and at most.
const COPY_BYTES: usize = 8;
const COPY_BYTES_MAX: usize = 64;

/// Tells the sectors in which the copy of a write over an older one was cut off, by the later write: one that begins with it and ends
/// with the older one. The beginning of a long copy may come at its very end, as the C libraries do it: then the first bytes of a
/// unit are the older ones. `whole` are units in the order of their generations.
fn tell_cut_off(unit: &[u8], parts: &mut [Option<u64>], whole: &[(u64, Vec<u8>)]) {
    let later_of = |at: usize, is_it: &dyn Fn(u64, usize) -> bool| {
        let sector = at * SECTOR_BYTES..(at + 1) * SECTOR_BYTES;
        let found = &unit[sector.clone()];
        let same_bytes = |other: &[u8]| {
            let words = found.chunks(COPY_BYTES).zip(other[sector.clone()].chunks(COPY_BYTES));
            words.take_while(|(a, b)| a == b).count() * COPY_BYTES
        };
        let pairs = (0..whole.len()).flat_map(|later| (0..later).map(move |older| (older, later)));
        let mut pairs = pairs.map(|(older, later)| (&whole[older].1, &whole[later]));
        pairs.find_map(|(older, (generation, later))| {
            let ends_as =
                |from: usize, other: &[u8]| found[from..] == other[sector.clone()][from..];
            let (copied, kept) = (same_bytes(later), same_bytes(older));
            let is_cut = ends_as(copied, older) && is_it(*generation, 0);
            let is_begun_last =
                kept <= COPY_BYTES_MAX && ends_as(kept, later) && is_it(*generation, kept);
            (is_cut || is_begun_last).then_some(*generation)
        })
    };
    if parts.first() == Some(&None) {
        parts[0] = later_of(0, &|_, kept_bytes| kept_bytes > 0);
    }
    let Some(at) = parts.iter().position(Option::is_none) else { return };
    let (before, after) = (&parts[..at], &parts[at + 1..]);
    let is_cut_here = |generation: u64, kept_bytes: usize| {
        kept_bytes == 0
            && before.iter().all(|part| *part == Some(generation))
            && after.iter().all(|part| part.is_some_and(|part| part != generation))
    };
    parts[at] = later_of(at, &is_cut_here);
}

/// The write whose copy was cut off before its first bytes, which come last, over what nobody knows: the first bytes of the unit are quite
/// others than its own. Where they are nearly its own, bits of it have turned.
fn begun_last_over_anything(unit: &[u8], whole: &[(u64, Vec<u8>)]) -> Option<u64> {
    let (head, rest) = (0..COPY_BYTES_MAX, COPY_BYTES_MAX..SECTOR_BYTES);
    let is_unlike = |later: &[u8]| {
        let words =
            unit[head.clone()].chunks(COPY_BYTES).zip(later[head.clone()].chunks(COPY_BYTES));
        let other = words.filter(|(found, wanted)| found != wanted);
        let (count, bits) = other
            .fold((0, 0), |(count, bits), (found, own)| (count + 1, bits + wrong_bits(found, own)));
        // Half of the bits by chance; an eighth is far below that and far above what turns.
        count > 0 && bits >= count * COPY_BYTES as u32
    };
    let mut writes = whole.iter().filter(|(generation, _)| *generation > 0);
    let is_it = |(_, later): &&(u64, Vec<u8>)| {
        unit[rest.clone()] == later[rest.clone()] && is_unlike(later)
    };
    writes.find(is_it).map(|(generation, _)| *generation)
}

fn wrong_bits(found: &[u8], wanted: &[u8]) -> u32 {
    found.iter().zip(wanted).map(|(a, b)| (a ^ b).count_ones()).sum()
}

/// How many bits differ, and the first byte that does.
fn difference(unit: &[u8], wanted: &[u8], offset_bytes: u64, generation: u64) -> (u32, Found) {
    let bits = wrong_bits(unit, wanted);
    let at = unit.iter().zip(wanted).position(|(a, b)| a != b).unwrap_or(0);
    let first_byte = offset_bytes + at as u64;
    (bits, Found::Corrupt { generation, first_byte, bits, expected: wanted[at], found: unit[at] })
}

/// What is wrong with a unit, and where; nothing when it is legal.
fn judge(sight: Sight, at: u64, unit: &[u8], legal: Legal) -> Option<(u64, Found)> {
    let anything_before = legal.min_generation == 0;
    match sight {
        Sight::Parts(parts) => {
            let part_bytes = (unit.len() / parts.len().max(1)) as u64;
            let bad = parts.iter().position(|&part| !legal.allows(part))?;
            let bad_at = at + bad as u64 * part_bytes;
            let (oldest, newest) = (parts.iter().min()?, parts.iter().max()?);
            Some((bad_at, of_parts(*oldest, *newest, bad_at, legal)))
        }
        // What lay there before the first write may be anything but a block of ours that went astray.
        Sight::Elsewhere(Found::Foreign { .. } | Found::OtherTarget { .. }) if anything_before => {
            None
        }
        Sight::Elsewhere(found) => Some((at, found)),
        Sight::Damaged(parts, found, resembles) => {
            let is_legal = |part: &Option<u64>| part.is_none_or(|part| legal.allows(part));
            // A few wrong bits are damage.
            let is_old = anything_before && !resembles && parts.iter().all(is_legal);
            (!is_old).then_some((at, found))
        }
    }
}

fn of_parts(oldest: u64, newest: u64, first_bad_bytes: u64, legal: Legal) -> Found {
    match (oldest, newest) {
        (0, 0) => Found::Zeros,
        _ if oldest != newest => Found::Torn { oldest, newest, first_bad_bytes },
        (generation, _) if generation > legal.max_generation => Found::Future { generation },
        (generation, _) => Found::Stale { generation },
    }
}
