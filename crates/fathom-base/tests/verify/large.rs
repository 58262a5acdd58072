//! Long histories with many requests at once over thousands of places in several files, also with requests of many
//! places, failures, trims, syncs, crashes and later runs: a storage of two mirrors, each of which carries requests out
//! sector by sector at its own time. What can be read from it is never called wrong.

use crate::LIMIT;
use fathom_base::ledger::{Change, ChangeKind, Ledger, Mark, Region, SyncToken};
use fathom_base::prng::Prng;
use fathom_base::verify_block::{Format, Legal};
use std::collections::BTreeMap;
use std::ops::Range;

const GRANULE: u64 = 512;
const START_BYTES: u64 = 40 * GRANULE;
const MIRRORS: usize = 2;

/// What may happen in a history.
#[derive(Debug, Clone, Copy)]
struct Ways {
    files: u32,
    /// In each file.
    places: u64,
    depth: usize,
    count_max: u64,
    /// Most requests go to so many places of each file.
    hot: u64,
    failures: bool,
    clears: bool,
    durable: bool,
}

impl Ways {
    fn pick(prng: &mut Prng) -> Self {
        let mut one_of = |among: &[u64]| among[prng.below(among.len() as u64) as usize];
        let places = one_of(&[1, 3, 20, 300, 6000]);
        Self {
            files: one_of(&[1, 1, 2, 5]) as u32,
            places,
            depth: one_of(&[1, 2, 8, 32, 128, 400]) as usize,
            count_max: one_of(&[1, 2, 8, 64]),
            hot: one_of(&[1, 2, 10, places]).min(places),
            failures: one_of(&[0, 0, 0, 1]) == 1,
            clears: one_of(&[0, 0, 1]) == 1,
            durable: one_of(&[0, 1]) == 1,
        }
    }
}

/// On each mirror what is read now, and what is there after a crash.
#[derive(Debug, Clone, Copy, Default)]
struct Sector {
    now: [u64; MIRRORS],
    stable: [u64; MIRRORS],
}

struct InFlight {
    generation: u64,
    issued: u64,
    durable: bool,
    places: Range<usize>,
    /// Mirror and place of what has not arrived.
    missing: Vec<(usize, usize)>,
}

struct Read {
    place: usize,
    before: Legal,
    seen: Option<u64>,
}

/// A request of which something may be at a place: when it was issued, and when it had ended.
type Possible = (u64, u64, Option<u64>);

struct Storage {
    ways: Ways,
    region: Region,
    ledger: Ledger,
    /// By generation.
    kinds: Vec<ChangeKind>,
    issued: Vec<Change>,
    sectors: Vec<Sector>,
    in_flight: Vec<InFlight>,
    syncs: Vec<(SyncToken, u32)>,
    reads: Vec<Read>,
    marks: BTreeMap<u32, Mark>,
    possible: Vec<Vec<Possible>>,
    /// The latest there failed, or was too far behind to be known.
    is_open: Vec<bool>,
    now: u64,
}

impl Storage {
    fn new(ways: Ways) -> Self {
        let region = Region {
            first_file: 7,
            files: ways.files,
            ..Region::of_one(START_BYTES, ways.places * GRANULE, GRANULE)
        };
        let places = (u64::from(ways.files) * ways.places) as usize;
        Self {
            ways,
            region,
            ledger: Ledger::new(region, LIMIT).unwrap(),
            kinds: vec![ChangeKind::Write],
            issued: Vec::new(),
            sectors: vec![Sector::default(); places],
            in_flight: Vec::new(),
            syncs: Vec::new(),
            reads: Vec::new(),
            marks: BTreeMap::new(),
            possible: vec![vec![(0, 0, Some(0))]; places],
            is_open: vec![false; places],
            now: 1,
        }
    }

    fn file_of(&self, place: usize) -> u32 {
        7 + place as u32 / self.ways.places as u32
    }

    fn expect_of(&self, ledger: &Ledger, place: usize) -> Legal {
        let at = START_BYTES + place as u64 % self.ways.places * GRANULE;
        ledger.expect(self.file_of(place), at).unwrap()
    }

    fn expect(&self, place: usize) -> Legal {
        self.expect_of(&self.ledger, place)
    }

    fn pick_place(&self, prng: &mut Prng) -> usize {
        let file = prng.below(u64::from(self.ways.files));
        let within = if prng.below(8) == 0 { self.ways.places } else { self.ways.hot };
        (file * self.ways.places + prng.below(within)) as usize
    }

    #[track_caller]
    fn allows(&self, legal: Legal, generation: u64, place: usize) {
        let is_legal = match self.kinds[generation as usize] {
            ChangeKind::Write => legal.allows(generation),
            ChangeKind::Zero => legal.allows(0),
            ChangeKind::Trim => legal.is_unknown(),
        };
        let possible = &self.possible[place];
        assert!(is_legal, "place {place}: {generation} is there, and said {legal:?}; {possible:?}");
    }

    fn issue(&mut self, prng: &mut Prng) {
        let first = self.pick_place(prng);
        let left = self.ways.places - first as u64 % self.ways.places;
        let count = (1 + prng.below(self.ways.count_max)).min(left);
        let kind = match prng.below(10) {
            0 if self.ways.clears => ChangeKind::Zero,
            1 if self.ways.clears => ChangeKind::Trim,
            _ => ChangeKind::Write,
        };
        let at = START_BYTES + first as u64 % self.ways.places * GRANULE;
        let file = self.file_of(first);
        let change = Change { kind, file, ..Change::write(at, count * GRANULE) };
        let generation = self.ledger.issued(change).unwrap();
        self.kinds.push(kind);
        self.issued.push(change);
        let places = first..first + count as usize;
        for place in places.clone() {
            self.possible[place].push((generation, self.now, None));
            self.is_open[place] = false;
        }
        let missing = (0..MIRRORS).flat_map(|m| places.clone().map(move |place| (m, place)));
        let missing = missing.collect();
        let durable = self.ways.durable && kind == ChangeKind::Write && prng.below(4) == 0;
        let issued = self.now;
        self.in_flight.push(InFlight { generation, issued, durable, places, missing });
    }

    fn arrive(&mut self, prng: &mut Prng) {
        if self.in_flight.is_empty() {
            return;
        }
        let at = prng.below(self.in_flight.len() as u64) as usize;
        let some = 1 + prng.below(8);
        for _ in 0..some {
            let request = &mut self.in_flight[at];
            if request.missing.is_empty() {
                return;
            }
            let next = prng.below(request.missing.len() as u64) as usize;
            let arrived = request.missing.swap_remove(next);
            let (generation, durable) = (request.generation, request.durable);
            self.put(arrived, generation, durable);
        }
    }

    fn put(&mut self, (mirror, place): (usize, usize), generation: u64, durable: bool) {
        let sector = &mut self.sectors[place];
        sector.now[mirror] = generation;
        if durable {
            sector.stable[mirror] = generation;
        }
    }

    fn end(&mut self, prng: &mut Prng) {
        if self.in_flight.is_empty() {
            return;
        }
        let oldest_first = prng.below(3) > 0;
        let at = if oldest_first { 0 } else { prng.below(self.in_flight.len() as u64) as usize };
        let InFlight { generation, issued, durable, places, missing } = self.in_flight.remove(at);
        let is_failed = self.ways.failures && prng.below(10) == 0;
        for arrived in missing {
            if !is_failed || prng.below(2) == 0 {
                self.put(arrived, generation, durable);
            }
        }
        let now = self.now;
        for place in places {
            let possible = &mut self.possible[place];
            let is_latest = possible.iter().all(|(other, ..)| *other <= generation);
            for one in possible.iter_mut().filter(|(other, ..)| *other == generation) {
                one.2 = Some(now);
            }
            if is_failed {
                self.is_open[place] |= is_latest;
            } else {
                possible.retain(|(_, _, ended)| ended.is_none_or(|ended| ended >= issued));
            }
        }
        match is_failed {
            true => self.ledger.failed(generation),
            false => self.ledger.completed(generation, durable),
        }
    }

    fn end_sync(&mut self, prng: &mut Prng) {
        if self.syncs.is_empty() {
            return;
        }
        let at = prng.below(self.syncs.len() as u64) as usize;
        let (token, file) = self.syncs.swap_remove(at);
        // It was carried out now, or earlier.
        if prng.below(2) == 0 {
            self.write_back(file);
        }
        self.ledger.synced(token);
        if prng.below(2) == 0 {
            self.marks.insert(file, self.ledger.mark(file).unwrap());
        }
    }

    fn write_back(&mut self, file: u32) {
        let first = (u64::from(file - 7) * self.ways.places) as usize;
        for sector in &mut self.sectors[first..first + self.ways.places as usize] {
            sector.stable = sector.now;
        }
    }

    fn step(&mut self, prng: &mut Prng) {
        self.now += 1;
        let is_full = self.in_flight.len() >= self.ways.depth;
        match prng.below(24) {
            0..=9 if !is_full => self.issue(prng),
            0..=12 => self.end(prng),
            13..=15 => self.arrive(prng),
            16 if self.syncs.len() < 3 => {
                let file = 7 + prng.below(u64::from(self.ways.files)) as u32;
                // Whatever it does it does at once; a later write-back may do more.
                self.syncs.push((self.ledger.sync_issued(file), file));
                self.write_back(file);
            }
            17 => self.end_sync(prng),
            18 | 19 if self.reads.len() < 20 => {
                let place = self.pick_place(prng);
                let before = self.expect(place);
                self.reads.push(Read { place, before, seen: None });
            }
            20 if !self.reads.is_empty() => {
                let at = prng.below(self.reads.len() as u64) as usize;
                let mirror = prng.below(MIRRORS as u64) as usize;
                let seen = self.sectors[self.reads[at].place].now[mirror];
                self.reads[at].seen.get_or_insert(seen);
            }
            21 if !self.reads.is_empty() => {
                let at = prng.below(self.reads.len() as u64) as usize;
                let Read { place, before, seen } = self.reads.swap_remove(at);
                let seen = seen.unwrap_or(self.sectors[place].now[0]);
                self.allows(before.until(self.expect(place)), seen, place);
            }
            _ => {
                let place = self.pick_place(prng);
                self.sectors[place].stable = self.sectors[place].now;
                let legal = self.expect(place);
                self.sectors[place].now.into_iter().for_each(|g| self.allows(legal, g, place));
            }
        }
    }

    /// At rest: all that can be read is legal, and what cannot be there is found where it is known one by one. Says how
    /// many generations were found, and how many were not.
    fn rest(&mut self, prng: &mut Prng) -> [usize; 2] {
        while !self.in_flight.is_empty() {
            self.now += 1;
            self.end(prng);
        }
        let bytes = self.ledger.to_bytes(&Format::new(1, 2, 512).unwrap());
        let later = Ledger::from_bytes(&bytes, LIMIT).unwrap().0;
        let mut found = [0; 2];
        for place in 0..self.sectors.len() {
            let legal = self.expect(place);
            let again = self.expect_of(&later, place);
            // Of racers it may know fewer one by one: they find room in another order.
            let range = |legal: Legal| (legal.min_generation, legal.max_generation, legal.cleared);
            assert_eq!(range(legal), range(again));
            for generation in self.sectors[place].now {
                self.allows(legal, generation, place);
                self.allows(again, generation, place);
            }
            let possible: Vec<u64> = self.possible[place].iter().map(|one| one.0).collect();
            possible.iter().for_each(|generation| self.allows(legal, *generation, place));
            if self.is_open[place] || legal.is_unknown() {
                continue;
            }
            let last = self.kinds.len() as u64;
            let tried =
                (0..40).map(|_| prng.below(last)).chain(possible[0].saturating_sub(3)..last);
            let kinds = &self.kinds;
            let wrong = tried.filter(|g| !possible.contains(g) && *g > 0);
            for generation in wrong.filter(|g| kinds[*g as usize] == ChangeKind::Write).take(60) {
                found[usize::from(legal.allows(generation))] += 1;
            }
        }
        // Goes on with the book of the later run, as that does: all that was there is known to be durable.
        if prng.below(2) == 0 {
            self.ledger = later;
            self.sectors.iter_mut().for_each(|sector| sector.stable = sector.now);
            self.marks.clear();
            self.syncs.clear();
            self.reads.clear();
            self.issued.clear();
        }
        found
    }

    fn crash(mut self, prng: &mut Prng) {
        for request in std::mem::take(&mut self.in_flight) {
            for arrived in request.missing {
                if prng.below(2) == 0 {
                    self.put(arrived, request.generation, request.durable);
                }
            }
        }
        for sector in &mut self.sectors {
            for mirror in 0..MIRRORS {
                if prng.below(2) == 0 {
                    sector.stable[mirror] = sector.now[mirror];
                }
            }
        }
        self.ledger.crash(false);
        let can_replay = !self.ways.clears && self.issued.len() + 1 == self.kinds.len();
        let replayed = can_replay.then(|| {
            let writes = self.issued.iter().copied();
            Ledger::replay(self.region, LIMIT, &self.marks, writes).unwrap().0
        });
        for place in 0..self.sectors.len() {
            for book in [Some(&self.ledger), replayed.as_ref()].into_iter().flatten() {
                let legal = self.expect_of(book, place);
                self.sectors[place].stable.into_iter().for_each(|g| self.allows(legal, g, place));
            }
        }
    }
}

fn histories(seed: u64, count: u64, steps: u64) -> [usize; 2] {
    let mut found = [0; 2];
    for history in 0..count {
        let mut prng = Prng::new(seed, history);
        let ways = Ways::pick(&mut prng);
        let steps = steps / 4 + prng.below(steps);
        let mut storage = Storage::new(ways);
        for _ in 0..1 + prng.below(3) {
            (0..steps).for_each(|_| storage.step(&mut prng));
            if prng.below(3) > 0 {
                let more = storage.rest(&mut prng);
                found = [found[0] + more[0], found[1] + more[1]];
            }
        }
        storage.crash(&mut prng);
    }
    found
}

#[test]
fn what_is_read_in_long_histories_is_never_called_wrong() {
    let [found, missed] = histories(30, 40, 4000);
    assert!(found > 10_000 && missed * 20 < found, "{found} found, {missed} not");
}
