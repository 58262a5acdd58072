//! Ledgers and marks as bytes, for a later run and for after a crash. Numbers are in groups of seven bits, lowest
//! first; a CRC32C ends each record.

use super::granule::{GENERATION, Granule};
use super::{Ledger, LedgerError, Mark, Region};
use crate::verify_block::{Cleared, Format, Legal};
use std::collections::BTreeMap;

const LEDGER_MAGIC: &[u8; 8] = b"fthmldg\x02";
const MARK_MAGIC: &[u8; 4] = b"fmk\x02";
/// Numbers at the beginning of a ledger.
const HEAD: usize = 10;

const TOO_SHORT: LedgerError = LedgerError::Unreadable("it ends too early");

fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn get(input: &mut &[u8]) -> Result<u64, LedgerError> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = input.split_first().ok_or(TOO_SHORT)?;
        *input = rest;
        value |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(LedgerError::Unreadable("a number is too long"))
}

/// Appends the check of what was written since `from`.
fn seal(out: &mut Vec<u8>, from: usize) {
    let check = crc32c::crc32c(&out[from..]);
    out.extend_from_slice(&check.to_le_bytes());
}

/// What the check covers, when it fits.
fn unseal(sealed: &[u8]) -> Result<&[u8], LedgerError> {
    let (body, check) = sealed.split_last_chunk::<4>().ok_or(TOO_SHORT)?;
    let is_whole = crc32c::crc32c(body) == u32::from_le_bytes(*check);
    is_whole.then_some(body).ok_or(LedgerError::Unreadable("its checksum is wrong"))
}

/// Small differences, negative ones too, as small numbers.
fn zigzag(value: u64) -> u64 {
    value << 1 ^ ((value as i64) >> 63) as u64
}

fn unzigzag(value: u64) -> u64 {
    value >> 1 ^ (value & 1).wrapping_neg()
}

fn put_run(out: &mut Vec<u8>, count: u64, run: [u64; 3]) {
    put(out, count);
    run.into_iter().for_each(|value| put(out, value));
}

const CLEARED: [Cleared; 4] = [Cleared::No, Cleared::Perhaps, Cleared::Zeroed, Cleared::Unknown];

fn number_of(cleared: Cleared) -> u64 {
    CLEARED.iter().position(|known| *known == cleared).unwrap_or(0) as u64
}

fn cleared_of(number: u64) -> Result<Cleared, LedgerError> {
    let known = usize::try_from(number).ok().and_then(|number| CLEARED.get(number));
    known.copied().ok_or(LedgerError::Unreadable("a piece is in an impossible state"))
}

impl Ledger {
    /// The book for a later run: what [`Ledger::expect`] says now of each granule, and how the blocks are written.
    /// About 7 bytes per granule after random writes, next to nothing after sequential ones.
    #[must_use]
    pub fn to_bytes(&self, format: &Format) -> Vec<u8> {
        let mut out = LEDGER_MAGIC.to_vec();
        let Region { first_file, files, start_bytes, length_bytes, granule_bytes } = self.region;
        let (target_id, seed) = format.identity();
        let counts = [format.unit_bytes(), format.files(), first_file, files].map(u64::from);
        let head = [start_bytes, length_bytes, granule_bytes, target_id, seed];
        let head = head.into_iter().chain(counts).chain([self.last_generation]);
        head.for_each(|value| put(&mut out, value));
        // Runs of granules whose generations have the same distance from that of the one before.
        let (mut previous, mut run, mut count) = (0u64, [0; 3], 0);
        for index in 0..self.granules.len() {
            let legal = self.known(index);
            let step = zigzag(legal.max_generation.wrapping_sub(previous));
            let distance = legal.max_generation - legal.min_generation;
            let this = [step, distance, number_of(legal.cleared)];
            previous = legal.max_generation;
            if this != run && count > 0 {
                put_run(&mut out, count, run);
                count = 0;
            }
            run = this;
            count += 1;
        }
        put_run(&mut out, count, run);
        seal(&mut out, 0);
        out
    }

    /// The book that [`Ledger::to_bytes`] wrote, to verify or to go on writing with.
    ///
    /// # Errors
    /// [`LedgerError::Unreadable`] for anything else; [`LedgerError::TooLarge`].
    pub fn from_bytes(bytes: &[u8], limit_bytes: u64) -> Result<(Self, Format), LedgerError> {
        let body = unseal(bytes)?;
        let mut rest = body
            .strip_prefix(LEDGER_MAGIC)
            .ok_or(LedgerError::Unreadable("it begins with something else"))?;
        let mut head = [0; HEAD];
        for value in &mut head {
            *value = get(&mut rest)?;
        }
        let [start_bytes, length_bytes, granule_bytes, target_id, seed, counts @ .., last] = head;
        let [unit, all, first_file, files] = counts.map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        let region = Region { first_file, files, start_bytes, length_bytes, granule_bytes };
        let mut ledger = Self::new(region, limit_bytes)?;
        let format = Format::new(target_id, seed, unit)
            .map_err(|_| LedgerError::Unreadable("its unit is none"))?
            .over(all);
        let (mut generation, mut index) = (0u64, 0);
        while !rest.is_empty() {
            let (count, step, distance) = (get(&mut rest)?, get(&mut rest)?, get(&mut rest)?);
            let cleared = cleared_of(get(&mut rest)?)?;
            for _ in 0..count {
                generation = generation.wrapping_add(unzigzag(step));
                let Some(stored) = ledger.granules.get_mut(index) else {
                    return Err(LedgerError::Unreadable("it has too many pieces"));
                };
                if generation > last.min(GENERATION) || distance > generation {
                    return Err(LedgerError::Unreadable("a generation is impossible"));
                }
                let legal = Legal { cleared, ..Legal::range(generation - distance, generation) };
                *stored = Granule::of(legal).into();
                index += 1;
            }
        }
        if index != ledger.granules.len() {
            return Err(LedgerError::Unreadable("it has too few pieces"));
        }
        ledger.last_generation = last;
        ledger.files.iter_mut().for_each(|file| file.floor = last);
        Ok((ledger, format))
    }
}

impl Mark {
    /// Appends it to a log.
    pub fn append_to(&self, log: &mut Vec<u8>) {
        let mut body = Vec::new();
        let head = [self.last_generation, self.durable_floor, self.spread, self.above.len() as u64];
        put(&mut body, u64::from(self.file));
        head.into_iter().for_each(|value| put(&mut body, value));
        let mut previous = self.durable_floor;
        for &generation in &self.above {
            put(&mut body, generation - previous);
            previous = generation;
        }
        let from = log.len();
        log.extend_from_slice(MARK_MAGIC);
        log.extend_from_slice(&(body.len() as u32).to_le_bytes());
        log.extend_from_slice(&body);
        seal(log, from);
    }

    /// The last whole mark of each file in a log whose end may be torn.
    #[must_use]
    pub fn last_of(mut log: &[u8]) -> BTreeMap<u32, Self> {
        let mut last = BTreeMap::new();
        while let Some((mark, rest)) = Self::first_of(log) {
            last.insert(mark.file, mark);
            log = rest;
        }
        last
    }

    fn first_of(log: &[u8]) -> Option<(Self, &[u8])> {
        let length = u32::from_le_bytes(*log.strip_prefix(MARK_MAGIC)?.first_chunk::<4>()?);
        let (sealed, rest) = log.split_at_checked((length as usize).checked_add(12)?)?;
        let mut body = unseal(sealed).ok()?.get(8..)?;
        let mut next = || get(&mut body).ok();
        let file = u32::try_from(next()?).ok()?;
        let (last_generation, durable_floor, spread, count) = (next()?, next()?, next()?, next()?);
        let mut previous = durable_floor;
        let mut above = Vec::new();
        for _ in 0..count {
            previous = previous.checked_add(next()?)?;
            above.push(previous);
        }
        Some((Self { file, durable_floor, above, last_generation, spread }, rest))
    }
}
