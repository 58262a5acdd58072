//! Ledgers and marks as bytes, for a later run and for after a crash. Numbers are in groups of seven bits, lowest
//! first; a CRC32C ends each record.

use super::granule::{GENERATION, Granule, RACE_MAX};
use super::{Ledger, LedgerError, Mark, Region};
use crate::verify_block::{Cleared, Format, Legal, Racers, SECTOR_BYTES};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

/// The form of the last byte follows.
const LEDGER_MAGIC: &[u8; 7] = b"fthmldg";
/// Form 2 is the same without racers.
const FORMS: RangeInclusive<u8> = 2..=3;
const MARK_MAGIC: &[u8; 4] = b"fmk\x02";
/// Numbers at the beginning of a ledger.
const HEAD: usize = 10;

const IMPOSSIBLE: LedgerError =
    LedgerError::Unreadable("requests in flight at once are impossible");
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

/// What granules that follow each other have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    /// From the latest generation of the granule before.
    step: u64,
    /// From the oldest to the latest.
    distance: u64,
    cleared: Cleared,
    racers: Option<Racers>,
}

impl Run {
    fn put(self, count: u64, out: &mut Vec<u8>) {
        let has_racers = if self.racers.is_some() { HAS_RACERS } else { 0 };
        [count, self.step, self.distance, number_of(self.cleared) | has_racers]
            .into_iter()
            .for_each(|value| put(out, value));
        if let Some(racers) = self.racers {
            // As distances from the oldest, the last of which is that of the latest.
            racers.generations(0).skip(1).for_each(|racer| put(out, racer));
        }
    }

    /// With how many granules it is about.
    fn get(input: &mut &[u8]) -> Result<(u64, Self), LedgerError> {
        let (count, step, distance) = (get(input)?, get(input)?, get(input)?);
        let state = get(input)?;
        let cleared = cleared_of(state & !HAS_RACERS)?;
        let has_racers = state & HAS_RACERS != 0;
        let racers = if has_racers { Some(get_racers(input, distance)?) } else { None };
        Ok((count, Self { step, distance, cleared, racers }))
    }
}

fn get_racers(input: &mut &[u8], distance: u64) -> Result<Racers, LedgerError> {
    let mut all = vec![0];
    while all[all.len() - 1] < distance {
        let next = get(input)?;
        if next <= all[all.len() - 1] || next > distance {
            return Err(IMPOSSIBLE);
        }
        all.push(next);
    }
    Racers::of(all).filter(|_| distance < RACE_MAX).ok_or(IMPOSSIBLE)
}

/// Beside the number of what was cleared.
const HAS_RACERS: u64 = 1 << 2;
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
        out.push(*FORMS.end());
        let Region { first_file, files, start_bytes, length_bytes, granule_bytes } = self.region;
        let (target_id, seed) = format.identity();
        let counts = [format.unit_bytes(), format.files(), first_file, files].map(u64::from);
        let head = [start_bytes, length_bytes, granule_bytes, target_id, seed];
        let head = head.into_iter().chain(counts).chain([self.last_generation]);
        head.for_each(|value| put(&mut out, value));
        // Runs of granules whose generations have the same distance from that of the one before.
        let (mut previous, mut run, mut count) = (0u64, None, 0);
        for index in 0..self.granules.len() {
            let Legal { min_generation, max_generation, cleared, racers, .. } = self.known(index);
            let step = zigzag(max_generation.wrapping_sub(previous));
            let distance = max_generation - min_generation;
            let this = Run { step, distance, cleared, racers };
            previous = max_generation;
            if let Some(before) = run.replace(this).filter(|before| *before != this) {
                before.put(count, &mut out);
                count = 0;
            }
            count += 1;
        }
        if let Some(last) = run {
            last.put(count, &mut out);
        }
        seal(&mut out, 0);
        out
    }

    /// The book that [`Ledger::to_bytes`] wrote, to verify or to go on writing with.
    ///
    /// # Errors
    /// [`LedgerError::Unreadable`] for anything else; [`LedgerError::TooLarge`].
    pub fn from_bytes(bytes: &[u8], limit_bytes: u64) -> Result<(Self, Format), LedgerError> {
        let body = unseal(bytes)?;
        let (form, mut rest) = body
            .strip_prefix(LEDGER_MAGIC)
            .and_then(<[u8]>::split_first)
            .ok_or(LedgerError::Unreadable("it begins with something else"))?;
        if !FORMS.contains(form) {
            return Err(LedgerError::Form(*form));
        }
        let mut head = [0; HEAD];
        for value in &mut head {
            *value = get(&mut rest)?;
        }
        let [start_bytes, length_bytes, granule_bytes, target_id, seed, counts @ .., last] = head;
        if last > GENERATION {
            return Err(LedgerError::Unreadable("its last generation is impossible"));
        }
        let [unit, all, first_file, files] = counts.map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        let region = Region { first_file, files, start_bytes, length_bytes, granule_bytes };
        let mut ledger = Self::new(region, limit_bytes)?;
        let format = Format::new(target_id, seed, unit)
            .map_err(|_| LedgerError::Unreadable("its unit is none"))?
            .over(all);
        let (mut generation, mut index) = (0u64, 0);
        while !rest.is_empty() {
            let (count, Run { step, distance, cleared, racers }) = Run::get(&mut rest)?;
            for _ in 0..count {
                generation = generation.wrapping_add(unzigzag(step));
                let Some(stored) = ledger.granules.get_mut(index) else {
                    return Err(LedgerError::Unreadable("it has too many pieces"));
                };
                if generation > last || distance > generation {
                    return Err(LedgerError::Unreadable("a generation is impossible"));
                }
                let range = Legal::range(generation - distance, generation);
                *stored = Granule::of(Legal { cleared, racers, ..range }).into();
                if let Some(racers) = racers {
                    ledger.keep_racers((index, generation), racers);
                }
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

/// What a log of marks comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastMarks {
    /// Of each file the last one.
    pub last: BTreeMap<u32, Mark>,
    /// One is damaged, and none behind it says what it said: more may have been durable.
    pub is_incomplete: bool,
}

/// True for the end of a log, from a place in it on, that was never written as a whole, as a kill or a crash leaves it: it is cut off, or
/// sectors that did not arrive are zeros. Anything else was damaged later.
fn is_torn(at: usize, end: &[u8]) -> bool {
    if end.iter().zip(MARK_MAGIC).all(|(found, wanted)| found == wanted) {
        let length = end.get(4..).and_then(|rest| rest.first_chunk::<4>());
        let missing = |length: &[u8; 4]| u32::from_le_bytes(*length) as usize + 12 > end.len();
        if length.is_none_or(missing) {
            // It may be all there, but for its length.
            let mut all = end.to_vec();
            if let Some(length) = all.get_mut(4..8) {
                length.copy_from_slice(&(end.len().saturating_sub(12) as u32).to_le_bytes());
            }
            return unseal(&all).is_err();
        }
    }
    let last_sector = (at + end.len()).saturating_sub(1) / SECTOR_BYTES * SECTOR_BYTES;
    end[last_sector.saturating_sub(at)..].iter().all(|&byte| byte == 0)
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

    /// The last whole mark of each file in a log whose end may be torn. One that is damaged hides none behind it: each says all that was
    /// durable by then.
    #[must_use]
    pub fn last_of(whole: &[u8]) -> LastMarks {
        let (mut last, mut log) = (BTreeMap::new(), whole);
        // Files that have one behind the last damage, and those whose mark that may be.
        let (mut since, mut damaged) = (BTreeSet::new(), None::<BTreeSet<u32>>);
        loop {
            if let Some((mark, rest)) = Self::first_of(log) {
                since.insert(mark.file);
                last.insert(mark.file, mark);
                log = rest;
                continue;
            }
            let mut behind = log.windows(MARK_MAGIC.len()).skip(1);
            let next = behind.position(|bytes| bytes == MARK_MAGIC).map(|at| at + 1);
            if next.is_some() || !is_torn(whole.len() - log.len(), log) {
                since.clear();
                let file = log.get(8..).and_then(|mut body| get(&mut body).ok());
                damaged
                    .get_or_insert_default()
                    .extend(file.and_then(|file| u32::try_from(file).ok()));
            }
            let Some(next) = next else { break };
            log = &log[next..];
        }
        let is_behind = |file: &u32| since.contains(file);
        let hides = damaged
            .is_some_and(|files| last.is_empty() || !last.keys().chain(&files).all(is_behind));
        LastMarks { last, is_incomplete: hides }
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
