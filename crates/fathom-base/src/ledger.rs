//! Which generation must be found where: what was written, what is on stable storage, what was in flight.
//!
//! The target is kept in *granules*, the largest piece that every write fills whole (the greatest common divisor of
//! block sizes and alignment); a granule takes 16 bytes of memory, real only once it is written.
//!
//! One rule is behind all of it. A storage carries a request out at some moment between its issue and its end; so what
//! it left may be there until another one to the same place that was issued after its end has ended well. That is:
//!
//! - *at rest*: the latest, or one of its *racers*, which were in flight there when it was issued (nobody knows in which
//!   order they came). All others had ended before, and are gone, also where they lie between a racer and the latest;
//! - *while the latest is in flight*: anything from the oldest that may be there still to the latest;
//! - *after a crash*: where a sync that was issued after the end of the latest has ended, the same as at rest; else anything
//!   from the newest that was known to be durable, or the oldest of its racers, to the latest.
//!
//! Mostly nothing races, and the latest generation and the durable one are all that is kept. Of racers a granule keeps the
//! oldest; which ones they are stands beside the granules, where there is room for 4,096 places with some 40 racers each.
//! Where that is not enough, anything from the oldest racer to the latest is legal.
//!
//! Zero ranges and trims have generations too. After a zero range there must be zeros; after a trim anything may be
//! there, until it is written again.
//!
//! One ledger keeps the same range of several files, which share the count of generations; a sync is one of a file, and
//! what is durable is known for each file (32 bytes).
//!
//! A ledger in memory dies with the machine. For crashes a [`Mark`], some bytes, goes to stable storage elsewhere after
//! each sync that counts as acknowledged. Afterwards [`Ledger::replay`] takes the same writes from the same generator
//! again, for the whole target or a part that fits into memory, and knows what the marks say was durable.

mod bytes;
mod error;
mod granule;
mod mark;
mod raced;

pub use self::bytes::LastMarks;
pub use self::error::{LedgerError, TooLarge};
pub use self::mark::Mark;

use self::granule::{GENERATION, Granule, Race, Stored};
use self::raced::Raced;
use crate::verify_block::{Legal, Racers};
use std::ops::Range;

/// Generations before the latest whose order of completion is known; later ones count as durable by the oldest write
/// in flight alone. Far above any queue depth.
const WINDOW: u64 = 1 << 14;
/// Overwritten generations that may yet prove durable; more are forgotten, which only makes the oldest legal generation
/// older.
const OVERWRITTEN_MAX: usize = 4096;
/// Generations that are looked at one by one when one has become durable.
const STEPS_MAX: u64 = 64;
/// Completed with a durable write; no sequence number.
const DURABLE: u64 = 1;
/// Bytes of memory for a granule and for a file.
const GRANULE_COST_BYTES: u64 = size_of::<Stored>() as u64;
const FILE_COST_BYTES: u64 = size_of::<FileState>() as u64;

/// The part of a target that a ledger keeps: the same range of each of its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// The first file, counted from 0 on.
    pub first_file: u32,
    /// How many files.
    pub files: u32,
    /// Where it begins in each: a multiple of the granule.
    pub start_bytes: u64,
    /// Its length in each: a multiple of the granule.
    pub length_bytes: u64,
    /// What every write fills whole: a multiple of 512.
    pub granule_bytes: u64,
}

impl Region {
    /// Of a target that is one file or device.
    #[must_use]
    pub const fn of_one(start_bytes: u64, length_bytes: u64, granule_bytes: u64) -> Self {
        Self { first_file: 0, files: 1, start_bytes, length_bytes, granule_bytes }
    }

    /// Its files.
    #[must_use]
    pub const fn files(&self) -> Range<u32> {
        self.first_file..self.first_file.saturating_add(self.files)
    }

    const fn granules_per_file(&self) -> u64 {
        self.length_bytes / self.granule_bytes
    }
}

/// What a request does to its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// Writes it.
    Write,
    /// Makes it read as zeros.
    Zero,
    /// Gives it back: nobody knows what it reads as.
    Trim,
}

/// A request that changes what must be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// How.
    pub kind: ChangeKind,
    /// In which file, from 0 on.
    pub file: u32,
    /// Where.
    pub offset_bytes: u64,
    /// How much.
    pub length_bytes: u64,
}

impl Change {
    /// A write to a target that is one file or device.
    #[must_use]
    pub const fn write(offset_bytes: u64, length_bytes: u64) -> Self {
        Self { kind: ChangeKind::Write, file: 0, offset_bytes, length_bytes }
    }
}

#[derive(Debug)]
struct InFlight {
    generation: u64,
    kind: ChangeKind,
    /// The oldest generation that may be in any of its granules while it is in flight.
    over: u64,
    /// The oldest that may be in any of them when it has ended: itself, or a racer.
    leaves: u64,
    /// It is a racer of another one.
    is_racer: bool,
    /// Counted from the first of the region on.
    file: u32,
    granules: Range<usize>,
}

#[derive(Debug)]
struct Sync {
    token: u64,
    file: u32,
    /// Writes that ended with at most this number are covered.
    sequence: u64,
    /// Generations up to here had ended.
    floor: u64,
}

/// What is durable of a file.
#[derive(Debug, Clone, Default)]
struct FileState {
    /// Writes that ended with at most this number.
    sequence: u64,
    /// All its generations up to here.
    floor: u64,
    /// The oldest that failed, 0 for none: the floor stays below it.
    failed: u64,
    /// Some were not durable when they ended.
    has_volatile: bool,
}

/// A generation that had ended, and the one after it at the same place. A sync that is issued before that one ends
/// makes it durable.
#[derive(Debug)]
struct Overwritten {
    index: usize,
    generation: u64,
    by: u64,
    /// The oldest that may have been there when it had ended.
    base: u64,
}

/// A sync under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyncToken(u64);

/// What had happened when the machine stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Power {
    On,
    /// All writes are known.
    Lost,
    /// Writes may have followed of which nothing is known.
    LostLater,
}

/// The book of one region. One worker writes a region; regions of several workers do not overlap.
#[derive(Debug)]
pub struct Ledger {
    region: Region,
    /// Those of each file, one file after the other.
    granules: Vec<Stored>,
    raced: Raced,
    /// Oldest first.
    in_flight: Vec<InFlight>,
    /// For the last generations the number under which they ended, 0 while in flight; and of several files, which one.
    ended: Vec<u64>,
    ended_in: Vec<u32>,
    last_generation: u64,
    /// There were requests other than writes.
    has_cleared: bool,
    sequence: u64,
    files: Vec<FileState>,
    spread: u64,
    syncs: Vec<Sync>,
    tokens: u64,
    overwritten: Vec<Overwritten>,
    power: Power,
}

impl Ledger {
    /// An empty book that takes at most `limit_bytes` of memory (plus 608 KiB).
    ///
    /// # Errors
    /// [`LedgerError::TooLarge`], [`LedgerError::Region`].
    pub fn new(region: Region, limit_bytes: u64) -> Result<Self, LedgerError> {
        let granules = granules_that_fit(region, limit_bytes)?;
        let window_of_files = if region.files > 1 { WINDOW as usize } else { 0 };
        // Zeroed pages become real when they are written first.
        Ok(Self {
            region,
            granules: vec![[0; 2]; granules],
            raced: Raced::new(granules),
            in_flight: Vec::with_capacity(256),
            ended: vec![0; WINDOW as usize],
            ended_in: vec![0; window_of_files],
            last_generation: 0,
            has_cleared: false,
            sequence: DURABLE,
            files: vec![FileState::default(); region.files as usize],
            spread: 0,
            syncs: Vec::with_capacity(256),
            tokens: 0,
            overwritten: Vec::with_capacity(OVERWRITTEN_MAX),
            power: Power::On,
        })
    }

    /// Makes room for so many requests in flight, so that noting them allocates nothing.
    pub fn reserve(&mut self, in_flight: usize) {
        self.in_flight.reserve(in_flight);
        self.syncs.reserve(in_flight);
    }

    /// What it keeps.
    #[must_use]
    pub const fn region(&self) -> Region {
        self.region
    }

    /// The newest generation.
    #[must_use]
    pub const fn last_generation(&self) -> u64 {
        self.last_generation
    }

    /// Notes a request that is about to be issued and says its generation. What lies outside the region gets a
    /// generation too and is not kept.
    ///
    /// # Errors
    /// [`LedgerError::Unaligned`], [`LedgerError::Exhausted`].
    pub fn issued(&mut self, change: Change) -> Result<u64, LedgerError> {
        let Change { kind, offset_bytes, length_bytes, .. } = change;
        let granule_bytes = self.region.granule_bytes;
        let whole = |bytes: u64| bytes.is_multiple_of(granule_bytes);
        if length_bytes == 0 || !whole(offset_bytes) || !whole(length_bytes) {
            return Err(LedgerError::Unaligned { offset_bytes, length_bytes, granule_bytes });
        }
        if self.last_generation >= GENERATION {
            return Err(LedgerError::Exhausted);
        }
        self.last_generation += 1;
        let generation = self.last_generation;
        self.has_cleared |= kind != ChangeKind::Write;
        let file = self.local(change.file).unwrap_or(u32::MAX);
        self.ended[slot(generation)] = 0;
        if let Some(of) = self.ended_in.get_mut(slot(generation)) {
            *of = file;
        }
        let granules = self.granules(file, offset_bytes, length_bytes);
        let (mut over, mut leaves) = (GENERATION, generation);
        for index in granules.clone() {
            let (over_here, left_here) = self.supersede(index, generation, kind);
            (over, leaves) = (over.min(over_here), leaves.min(left_here));
        }
        let is_racer = false;
        self.in_flight.push(InFlight { generation, kind, over, leaves, is_racer, file, granules });
        let oldest = self.in_flight.first().map_or(generation, |write| write.generation);
        self.spread = self.spread.max(generation - oldest);
        Ok(generation)
    }

    /// Notes that a write ended well; `durable` for one that was opened or issued with O_SYNC or O_DSYNC.
    pub fn completed(&mut self, generation: u64, durable: bool) {
        let Some(write) = self.take(generation) else { return };
        let file = write.file;
        if write.is_racer {
            self.raise_over(&write);
        }
        self.sequence += 1;
        if self.is_in_window(generation) {
            self.ended[slot(generation)] = if durable { DURABLE } else { self.sequence };
        }
        let Some(state) = self.files.get_mut(file as usize) else { return };
        state.has_volatile |= !durable;
        let (floor, has_volatile) = (state.floor, state.has_volatile);
        if durable {
            self.raise_floor(file, if has_volatile { floor } else { self.ended_up_to(file) });
        }
    }

    /// Notes that a write failed: all of it, nothing, or parts may be there.
    pub fn failed(&mut self, generation: u64) {
        let Some(write) = self.take(generation) else { return };
        if let Some(state) = self.files.get_mut(write.file as usize) {
            let is_first = state.failed == 0 || generation < state.failed;
            state.failed = if is_first { generation } else { state.failed };
        }
        for stored in &mut self.granules[write.granules] {
            let mut granule = Granule::from(*stored);
            // One that is newer than it has it among its racers.
            if granule.latest() == generation {
                granule.make_unsure();
            }
            *stored = granule.into();
        }
    }

    /// Notes that a sync of a whole file is about to be issued. One that fails is never reported as completed, and
    /// nothing may be written after it: what it should have covered may be lost although a later one succeeds.
    pub fn sync_issued(&mut self, file: u32) -> SyncToken {
        self.tokens += 1;
        if let Some(file) = self.local(file) {
            let (sequence, floor) = (self.sequence, self.ended_up_to(file));
            self.syncs.push(Sync { token: self.tokens, file, sequence, floor });
        }
        SyncToken(self.tokens)
    }

    /// Notes that a sync ended well: all writes to its file that had ended before it was issued are durable.
    pub fn synced(&mut self, token: SyncToken) {
        let Some(at) = self.syncs.iter().position(|sync| sync.token == token.0) else { return };
        let Sync { file, sequence, floor, .. } = self.syncs.swap_remove(at);
        let state = &mut self.files[file as usize];
        state.sequence = state.sequence.max(sequence);
        self.raise_floor(file, floor);
        let mut overwritten = std::mem::take(&mut self.overwritten);
        overwritten.retain(|old| {
            let file = self.file_of(old.index);
            let is_durable = self.is_durable(old.generation, file);
            if is_durable {
                let mut granule = Granule::from(self.granules[old.index]);
                granule.raise_base(old.base);
                self.granules[old.index] = granule.into();
            }
            !is_durable && (self.is_covered(old.generation, file) || self.is_in_flight(old.by))
        });
        self.overwritten = overwritten;
    }

    /// From now on answers for what must be found after the machine stopped here. `more_may_follow` when writes that
    /// the book does not know may have been issued before it stopped. Nothing can be written after that.
    pub fn crash(&mut self, more_may_follow: bool) {
        self.power = if more_may_follow { Power::LostLater } else { Power::Lost };
    }

    /// What may lie at the granule that holds this offset of a file; `None` outside the region. For a read that is in
    /// flight beside writes: ask when it is issued and when it has ended, and take [`Legal::until`].
    #[must_use]
    pub fn expect(&self, file: u32, offset_bytes: u64) -> Option<Legal> {
        let known = self.known(self.index_of(file, offset_bytes)?);
        let is_open = self.power == Power::LostLater;
        Some(if is_open {
            Legal { max_generation: u64::MAX, racers: None, ..known }
        } else {
            known
        })
    }

    /// True while a write, a trim or a zero range to the granule that holds this offset of a file is in flight.
    #[must_use]
    pub fn is_written(&self, file: u32, offset_bytes: u64) -> bool {
        self.index_of(file, offset_bytes).is_some_and(|index| self.is_busy(index))
    }

    /// The granule that holds this offset of a file; none outside the region.
    fn index_of(&self, file: u32, offset_bytes: u64) -> Option<usize> {
        let file = self.local(file)?;
        let granule =
            offset_bytes.checked_sub(self.region.start_bytes)? / self.region.granule_bytes;
        (granule < self.region.granules_per_file())
            .then(|| self.first_granule(file) + granule as usize)
    }

    /// What the known writes allow.
    fn known(&self, index: usize) -> Legal {
        let granule = Granule::from(self.granules[index]);
        match self.power {
            Power::On if self.is_in_flight(granule.latest()) => granule.since(self.oldest(granule)),
            Power::On => self.at_rest(index, granule),
            Power::Lost | Power::LostLater => {
                let is_durable = self.is_durable(granule.latest(), self.file_of(index));
                if is_durable {
                    self.at_rest(index, granule)
                } else {
                    granule.since(granule.base())
                }
            }
        }
    }

    /// What may be there when the latest has ended.
    fn at_rest(&self, index: usize, granule: Granule) -> Legal {
        let known = || self.raced.get(index, granule.latest());
        let racers = granule.has_racers().then(known).flatten();
        Legal { racers, ..granule.at_rest() }
    }

    /// The oldest generation that may be in a granule while the power is on.
    fn oldest(&self, granule: Granule) -> u64 {
        match self.place_in_flight(granule.latest()) {
            Ok(at) if !granule.is_open() => self.in_flight[at].over.max(granule.base()),
            Ok(_) | Err(_) => granule.oldest(),
        }
    }

    /// A file's place in the region.
    #[inline]
    fn local(&self, file: u32) -> Option<u32> {
        file.checked_sub(self.region.first_file).filter(|file| *file < self.region.files)
    }

    fn first_granule(&self, file: u32) -> usize {
        file as usize * self.region.granules_per_file() as usize
    }

    fn file_of(&self, index: usize) -> u32 {
        if self.region.files == 1 {
            return 0;
        }
        (index / self.region.granules_per_file() as usize) as u32
    }

    /// Those of a local file; none of one outside the region.
    fn granules(&self, file: u32, offset_bytes: u64, length_bytes: u64) -> Range<usize> {
        if file >= self.region.files {
            return 0..0;
        }
        let Region { start_bytes, granule_bytes, .. } = self.region;
        let index = |bytes: u64| {
            let granule = bytes.saturating_sub(start_bytes) / granule_bytes;
            granule.min(self.region.granules_per_file()) as usize
        };
        let first = self.first_granule(file);
        let end_bytes = offset_bytes.saturating_add(length_bytes);
        first + index(offset_bytes)..first + index(end_bytes)
    }

    /// Returns the oldest generation that may be there while this one is in flight, and when it has ended.
    #[inline]
    fn supersede(&mut self, index: usize, generation: u64, kind: ChangeKind) -> (u64, u64) {
        let mut granule = Granule::from(self.granules[index]);
        let race = self.race(index, granule.latest());
        let over = if race.is_some() { self.oldest(granule) } else { granule.oldest() };
        if race.is_some() {
            self.note_racers(index, granule.latest(), generation);
        }
        if let Some(base) = granule.next_base() {
            let latest = granule.latest();
            if self.is_durable(latest, self.file_of(index)) {
                granule.settle();
            } else if race.is_none() && self.overwritten.len() < OVERWRITTEN_MAX {
                let old = Overwritten { index, generation: latest, by: generation, base };
                self.overwritten.push(old);
            }
        }
        granule.advance(generation, kind, race);
        self.granules[index] = granule.into();
        (over, race.map_or(generation, Race::oldest))
    }

    /// What is in flight to a granule with that latest generation: mostly all that is in flight is newer.
    #[inline]
    fn race(&self, index: usize, latest: u64) -> Option<Race> {
        let older = self.in_flight.iter().take_while(|write| write.generation <= latest);
        let mut there = older.filter(|write| write.granules.contains(&index));
        let first = there.next()?;
        let race = Race::new(first.generation, first.kind);
        let others = self.has_cleared.then_some(there).into_iter().flatten();
        Some(others.fold(race, |race, write| race.with(write.kind)))
    }

    /// Keeps which requests to a granule are in flight, up to its latest, when the next one is issued.
    #[cold]
    fn note_racers(&mut self, index: usize, latest: u64, next: u64) {
        let older = self.in_flight.iter_mut().take_while(|write| write.generation <= latest);
        let racers = older.filter(|write| write.granules.contains(&index)).map(|write| {
            write.is_racer = true;
            write.generation
        });
        let all = racers.chain([next]);
        if let Some(racers) = Racers::of(all) {
            self.keep_racers((index, next), racers);
        }
    }

    /// Of a granule with that latest generation.
    fn keep_racers(&mut self, place: (usize, u64), racers: Racers) {
        let granules = &self.granules;
        self.raced.put(place, racers, |other| Granule::from(granules[other]).latest());
    }

    /// One has ended well: what had ended before it was issued is gone, also for later ones that it covers.
    #[cold]
    fn raise_over(&mut self, ended: &InFlight) {
        let first = self.in_flight.partition_point(|write| write.generation < ended.generation);
        for write in &mut self.in_flight[first..] {
            let (own, of) = (&write.granules, &ended.granules);
            if of.start <= own.start && own.end <= of.end {
                write.over = write.over.max(ended.leaves);
            }
        }
    }

    fn is_busy(&self, index: usize) -> bool {
        self.in_flight.iter().any(|write| write.granules.contains(&index))
    }

    fn place_in_flight(&self, generation: u64) -> Result<usize, usize> {
        self.in_flight.binary_search_by_key(&generation, |write| write.generation)
    }

    fn is_in_flight(&self, generation: u64) -> bool {
        self.place_in_flight(generation).is_ok()
    }

    /// The newest generation up to which all writes to a file have ended well.
    fn ended_up_to(&self, file: u32) -> u64 {
        let oldest = self.in_flight.iter().find(|write| write.file == file);
        let oldest = oldest.map(|write| write.generation).into_iter();
        let failed = Some(self.files[file as usize].failed).filter(|failed| *failed > 0);
        let not_ended = oldest.chain(failed).min();
        not_ended.map_or(self.last_generation, |not_ended| not_ended - 1)
    }

    fn take(&mut self, generation: u64) -> Option<InFlight> {
        let at = self.place_in_flight(generation).ok()?;
        let write = self.in_flight.remove(at);
        if !self.syncs.iter().any(|sync| sync.file == write.file) {
            // From now on every sync covers this one, too.
            self.overwritten.retain(|old| old.by != generation);
        }
        Some(write)
    }

    fn is_in_window(&self, generation: u64) -> bool {
        generation <= self.last_generation && self.last_generation - generation < WINDOW
    }

    /// About a generation of that file.
    fn is_durable(&self, generation: u64, file: u32) -> bool {
        let FileState { sequence, floor, .. } = self.files[file as usize];
        let ended = self.ended[slot(generation)];
        generation <= floor
            || (self.is_in_window(generation)
                && ended != 0
                && (ended == DURABLE || ended <= sequence))
    }

    /// True when a sync under way will make it durable.
    fn is_covered(&self, generation: u64, file: u32) -> bool {
        let ended = self.ended[slot(generation)];
        let by_number = self.is_in_window(generation) && ended != 0;
        self.syncs
            .iter()
            .filter(|sync| sync.file == file)
            .any(|sync| generation <= sync.floor || (by_number && ended <= sync.sequence))
    }

    /// True for a generation of another file.
    fn is_elsewhere(&self, generation: u64, file: u32) -> bool {
        let of = self.ended_in.get(slot(generation));
        self.is_in_window(generation) && of.is_some_and(|of| *of != file)
    }

    fn raise_floor(&mut self, file: u32, at_least: u64) {
        let mut floor = self.files[file as usize].floor.max(at_least);
        let end = self.last_generation.min(floor.saturating_add(STEPS_MAX));
        let counts = |next| self.is_elsewhere(next, file) || self.is_durable(next, file);
        while floor < end && counts(floor + 1) {
            floor += 1;
        }
        self.files[file as usize].floor = floor;
    }
}

/// How many granules a region has, when there is memory for them.
fn granules_that_fit(region: Region, limit_bytes: u64) -> Result<usize, LedgerError> {
    let Region { files, start_bytes, length_bytes, granule_bytes, .. } = region;
    let whole = |bytes: u64| granule_bytes > 0 && bytes.is_multiple_of(granule_bytes);
    if !whole(start_bytes) || !whole(length_bytes) || !granule_bytes.is_multiple_of(512) {
        return Err(LedgerError::Region { start_bytes, length_bytes, granule_bytes });
    }
    let granules = region.granules_per_file().saturating_mul(u64::from(files));
    // A single one costs nothing that counts.
    let files_bytes = if files > 1 { u64::from(files) * FILE_COST_BYTES } else { 0 };
    let granules_bytes = granules.saturating_mul(GRANULE_COST_BYTES);
    let needed_bytes = granules_bytes.saturating_add(files_bytes);
    if needed_bytes <= limit_bytes && usize::try_from(needed_bytes).is_ok() {
        return Ok(granules as usize);
    }
    let too_large =
        error::TooLarge { files, length_bytes, granule_bytes, granules, needed_bytes, limit_bytes };
    Err(LedgerError::TooLarge(too_large))
}

#[inline]
fn slot(generation: u64) -> usize {
    (generation % WINDOW) as usize
}
