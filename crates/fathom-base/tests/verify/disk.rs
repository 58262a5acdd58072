//! A disk with a volatile cache that knows everything: each sector's history, how much of it is certain to survive,
//! and how much happens to. The ledger sees only what a program sees. Its places are those of one file or of two, which
//! are synchronised apart.

use fathom_base::ledger::{Change, ChangeKind, Ledger, Mark, Region, SyncToken};
use fathom_base::prng::Prng;
use fathom_base::verify_block::{Cleared, Format, Found, Legal, Mismatch};
use std::collections::BTreeMap;

pub const GRANULES: usize = 4;
const START_BYTES: u64 = 3 << 20;
const DEPTH: usize = 4;

/// What may happen in a history.
#[derive(Debug, Clone, Copy)]
pub struct Habits {
    /// Several writes to one place at once.
    pub races: bool,
    /// Writes that fail.
    pub failures: bool,
    /// Zero ranges and trims.
    pub clears: bool,
}

#[derive(Debug, Clone, Default)]
struct Sector {
    /// Generations in the order in which they arrived; 0 is what was there first.
    history: Vec<u64>,
    /// Up to here it is on stable storage by promise, and by luck.
    promised: usize,
    stable: usize,
}

#[derive(Debug)]
struct Write {
    generation: u64,
    /// Sectors that have not arrived.
    missing: Vec<usize>,
    sectors: std::ops::Range<usize>,
}

/// A read that others may overtake.
struct Read {
    place: usize,
    before: Legal,
    /// What it has seen, at whatever time.
    seen: Option<Vec<u8>>,
}

struct PendingSync {
    token: SyncToken,
    file: u32,
    /// Per sector what had arrived, per granule what had ended when it was issued.
    arrived: Vec<usize>,
    ended: [u64; GRANULES],
}

pub struct Disk {
    format: Format,
    pub ledger: Ledger,
    habits: Habits,
    files: usize,
    /// What each generation did.
    kinds: Vec<ChangeKind>,
    reads: Vec<Read>,
    region: Region,
    /// Sectors as they were before the first write.
    first: Vec<u8>,
    sectors: Vec<Sector>,
    writes: Vec<Write>,
    syncs: Vec<PendingSync>,
    /// Per granule the newest generation that ended, and the newest that a program may rely on.
    ended: [u64; GRANULES],
    assured: [u64; GRANULES],
    issued: Vec<Change>,
    marks: BTreeMap<u32, Mark>,
}

impl Disk {
    pub fn new(habits: Habits, prng: &mut Prng) -> Self {
        let granule_bytes = [512, 1024, 1536][prng.below(3) as usize];
        let unit_bytes = fathom_base::verify_block::unit_for(&[granule_bytes]).unwrap();
        let files = 1 + prng.below(2) as usize;
        let length_bytes = granule_bytes * (GRANULES / files) as u64;
        let region = Region::of_one(START_BYTES, length_bytes, granule_bytes);
        let region = Region { files: files as u32, ..region };
        let mut first = vec![0; granule_bytes as usize * GRANULES];
        if prng.below(2) == 0 {
            prng.fill(&mut first);
        }
        let sector = Sector { history: vec![0], promised: 0, stable: 0 };
        let format = Format::new(prng.next_u64(), prng.next_u64(), unit_bytes).unwrap();
        Self {
            format: format.over(files as u32),
            ledger: Ledger::new(region, 1 << 20).unwrap(),
            files,
            kinds: vec![ChangeKind::Write],
            reads: Vec::new(),
            habits,
            region,
            sectors: vec![sector; first.len() / 512],
            first,
            writes: Vec::new(),
            syncs: Vec::new(),
            ended: [0; GRANULES],
            assured: [0; GRANULES],
            issued: Vec::new(),
            marks: BTreeMap::new(),
        }
    }

    /// The format of all its files.
    pub fn format(&self) -> Format {
        self.format
    }

    pub fn file(&self, place: usize) -> u32 {
        (place / (GRANULES / self.files)) as u32
    }

    pub fn offset(&self, place: usize) -> u64 {
        START_BYTES + (place % (GRANULES / self.files)) as u64 * self.region.granule_bytes
    }

    pub fn expect(&self, ledger: &Ledger, place: usize) -> Legal {
        ledger.expect(self.file(place), self.offset(place)).unwrap()
    }

    /// Holds a block against what may be at a place.
    pub fn hold(&self, place: usize, block: &[u8], legal: Legal) -> Result<(), Mismatch> {
        self.format.on(self.file(place)).check(block, self.offset(place), legal)
    }

    fn sectors_of(&self, place: usize) -> std::ops::Range<usize> {
        let per_granule = self.region.granule_bytes as usize / 512;
        place * per_granule..(place + 1) * per_granule
    }

    /// One thing that may happen.
    pub fn step(&mut self, prng: &mut Prng) {
        match prng.below(13) {
            0..=3 => self.issue(prng),
            4 | 5 => self.finish(prng),
            6 => self.arrive(prng),
            7 => self.settle(prng),
            8 if self.syncs.len() < 3 => {
                let arrived = self.sectors.iter().map(|sector| sector.history.len() - 1).collect();
                let file = prng.below(self.files as u64) as u32;
                let (token, ended) = (self.ledger.sync_issued(file), self.ended);
                self.syncs.push(PendingSync { token, file, arrived, ended });
            }
            8 | 9 => self.end_sync(prng),
            10 if self.reads.len() < 3 => {
                let place = prng.below(GRANULES as u64) as usize;
                let before = self.expect(&self.ledger, place);
                self.reads.push(Read { place, before, seen: None });
            }
            11 if !self.reads.is_empty() => {
                let at = prng.below(self.reads.len() as u64) as usize;
                let seen = self.now(self.reads[at].place);
                self.reads[at].seen.get_or_insert(seen);
            }
            _ => self.end_read(prng),
        }
    }

    fn end_read(&mut self, prng: &mut Prng) {
        if self.reads.is_empty() {
            return;
        }
        let at = prng.below(self.reads.len() as u64) as usize;
        let Read { place, before, seen } = self.reads.swap_remove(at);
        let seen = seen.unwrap_or_else(|| self.now(place));
        let legal = before.until(self.expect(&self.ledger, place));
        assert_eq!(self.hold(place, &seen, legal), Ok(()));
    }

    /// What is read from a place now.
    fn now(&self, place: usize) -> Vec<u8> {
        self.bytes(place, |sector| *self.sectors[sector].history.last().unwrap())
    }

    fn issue(&mut self, prng: &mut Prng) {
        let place = prng.below(GRANULES as u64) as usize;
        let per_file = GRANULES / self.files;
        let count = (1 + prng.below(3) as usize).min(per_file - place % per_file);
        let sectors = self.sectors_of(place).start..self.sectors_of(place + count - 1).end;
        let meets = |w: &Write| w.sectors.start < sectors.end && sectors.start < w.sectors.end;
        if self.writes.len() == DEPTH || (!self.habits.races && self.writes.iter().any(meets)) {
            return;
        }
        let (at, length) = (self.offset(place), count as u64 * self.region.granule_bytes);
        let kind = match prng.below(8) {
            0 if self.habits.clears => ChangeKind::Trim,
            1 | 2 if self.habits.clears => ChangeKind::Zero,
            _ => ChangeKind::Write,
        };
        let change = Change { kind, file: self.file(place), ..Change::write(at, length) };
        let generation = self.ledger.issued(change).unwrap();
        self.issued.push(change);
        self.kinds.push(kind);
        self.writes.push(Write { generation, missing: sectors.clone().collect(), sectors });
    }

    /// A sector of a write reaches the cache.
    fn arrive(&mut self, prng: &mut Prng) {
        if self.writes.is_empty() {
            return;
        }
        let at = prng.below(self.writes.len() as u64) as usize;
        let write = &mut self.writes[at];
        if !write.missing.is_empty() {
            let next = prng.below(write.missing.len() as u64) as usize;
            let sector = write.missing.swap_remove(next);
            self.sectors[sector].history.push(write.generation);
        }
    }

    /// The cache writes something back on its own account.
    fn settle(&mut self, prng: &mut Prng) {
        let at = prng.below(self.sectors.len() as u64) as usize;
        let sector = &mut self.sectors[at];
        let newer = (sector.history.len() - sector.stable) as u64;
        sector.stable += prng.below(newer) as usize;
    }

    fn finish(&mut self, prng: &mut Prng) {
        if self.writes.is_empty() {
            return;
        }
        let write = self.writes.swap_remove(prng.below(self.writes.len() as u64) as usize);
        if self.habits.failures && prng.below(8) == 0 {
            for sector in write.missing {
                if prng.below(2) == 0 {
                    self.sectors[sector].history.push(write.generation);
                }
            }
            self.ledger.failed(write.generation);
            return;
        }
        for sector in write.missing {
            self.sectors[sector].history.push(write.generation);
        }
        let durable = prng.below(6) == 0;
        if durable {
            for sector in &mut self.sectors[write.sectors.clone()] {
                let at = sector.history.iter().rposition(|&g| g == write.generation).unwrap();
                sector.promised = sector.promised.max(at);
                sector.stable = sector.stable.max(at);
            }
        }
        for place in 0..GRANULES {
            if write.sectors.contains(&self.sectors_of(place).start) {
                self.ended[place] = write.generation;
                if durable {
                    self.assured[place] = write.generation;
                }
            }
        }
        self.ledger.completed(write.generation, durable);
    }

    fn end_sync(&mut self, prng: &mut Prng) {
        if self.syncs.is_empty() {
            return;
        }
        let sync = self.syncs.swap_remove(prng.below(self.syncs.len() as u64) as usize);
        for place in 0..GRANULES {
            if self.file(place) != sync.file {
                continue;
            }
            for sector in self.sectors_of(place) {
                let (state, arrived) = (&mut self.sectors[sector], sync.arrived[sector]);
                state.promised = state.promised.max(arrived);
                state.stable = state.stable.max(arrived);
            }
            self.assured[place] = self.assured[place].max(sync.ended[place]);
        }
        self.ledger.synced(sync.token);
        if prng.below(2) == 0 {
            self.marks.insert(sync.file, self.ledger.mark(sync.file).unwrap());
        }
    }

    /// The bytes of a granule whose sectors hold these generations.
    fn bytes(&self, place: usize, generation: impl Fn(usize) -> u64) -> Vec<u8> {
        let granule = self.region.granule_bytes as usize;
        let mut block = vec![0; granule];
        let mut image = vec![0; granule];
        let mut last = 0;
        for (i, sector) in self.sectors_of(place).enumerate() {
            let range = i * 512..(i + 1) * 512;
            match generation(sector) {
                0 => {
                    let first = &self.first[sector * 512..(sector + 1) * 512];
                    block[range].copy_from_slice(first);
                }
                generation if self.kinds[generation as usize] == ChangeKind::Zero => {
                    block[range].fill(0);
                }
                // What a trim leaves is anything at all.
                generation if self.kinds[generation as usize] == ChangeKind::Trim => {
                    block[range].fill(generation as u8 | 1);
                }
                generation => {
                    if generation != last {
                        let format = self.format.on(self.file(place));
                        format.fill(&mut image, self.offset(place), generation);
                        last = generation;
                    }
                    block[range.clone()].copy_from_slice(&image[range]);
                }
            }
        }
        block
    }

    /// As if that generation had written it, whatever it did.
    pub fn with_generation(&self, place: usize, generation: u64) -> Vec<u8> {
        let mut block = vec![0; self.region.granule_bytes as usize];
        self.format.on(self.file(place)).fill(&mut block, self.offset(place), generation);
        block
    }

    /// Reads everything while the machine runs.
    pub fn check_live(&self) {
        for place in 0..GRANULES {
            let legal = self.expect(&self.ledger, place);
            assert_eq!(self.hold(place, &self.now(place), legal), Ok(()));
        }
    }

    /// Ends all that is in flight.
    pub fn finish_all(&mut self, prng: &mut Prng) {
        while !self.writes.is_empty() {
            self.finish(prng);
        }
    }

    /// Reads everything while nothing is in flight; where nothing failed, what is older than all that may be there is found.
    /// Says how many granules that were.
    pub fn check_at_rest(&self) -> usize {
        self.check_live();
        let mut damaged = 0;
        for place in (0..GRANULES).filter(|_| !self.habits.failures) {
            let legal = self.expect(&self.ledger, place);
            assert!(!legal.is_open(), "{legal:?}");
            if !legal.is_checkable() || !matches!(legal.cleared, Cleared::No) {
                continue;
            }
            let zeros = vec![0; self.region.granule_bytes as usize];
            assert_eq!(self.hold(place, &zeros, legal).unwrap_err().found, Found::Zeros);
            let foreign: Vec<u8> = zeros.iter().map(|_| 0x5A).collect();
            let found = self.hold(place, &foreign, legal).unwrap_err().found;
            assert!(matches!(found, Found::Foreign { .. }), "{found:?}");
            if let generation @ 1.. = legal.min_generation - 1 {
                let stale = self.with_generation(place, generation);
                let found = self.hold(place, &stale, legal).unwrap_err().found;
                assert_eq!(found, Found::Stale { generation });
            }
            damaged += 1;
        }
        damaged
    }

    /// Per granule the newest generation that a program knows to be durable, when no writes meet or fail.
    pub fn assured(&self) -> [u64; GRANULES] {
        self.assured
    }

    /// Per granule the oldest generation that any of its sectors may hold after a crash.
    pub fn guaranteed(&self) -> Vec<u64> {
        let oldest = |sector: usize| {
            self.sectors[sector].history[self.sectors[sector].promised..].iter().min()
        };
        (0..GRANULES)
            .map(|place| *self.sectors_of(place).filter_map(oldest).min().unwrap())
            .collect()
    }

    /// The power fails. Returns the book, and one made from the last mark.
    pub fn crash(&mut self, prng: &mut Prng) -> (Ledger, Option<Ledger>) {
        for write in std::mem::take(&mut self.writes) {
            for sector in write.missing {
                if prng.below(2) == 0 {
                    self.sectors[sector].history.push(write.generation);
                }
            }
        }
        for sector in &mut self.sectors {
            let newer = (sector.history.len() - sector.stable) as u64;
            sector.stable += prng.below(newer) as usize;
        }
        let empty = Ledger::new(self.region, 1 << 20).unwrap();
        let mut ledger = std::mem::replace(&mut self.ledger, empty);
        ledger.crash(false);
        // What was issued after the marks is not known, so trims and zero ranges must not have been.
        let replayed = (!self.habits.clears && !self.marks.is_empty()).then(|| {
            let writes = self.issued.iter().copied();
            Ledger::replay(self.region, 1 << 20, &self.marks, writes).unwrap().0
        });
        (ledger, replayed)
    }

    /// Reads a granule after the crash.
    pub fn check(&self, place: usize, legal: Legal) -> Result<(), Mismatch> {
        let block =
            self.bytes(place, |sector| self.sectors[sector].history[self.sectors[sector].stable]);
        self.hold(place, &block, legal)
    }
}
