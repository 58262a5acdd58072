//! A storage that does everything that a storage may do: of requests in flight it carries out any at any time, and of
//! what it has carried out it makes stable what it likes. All states in which it may be then are kept, so that what may be
//! read, now or after a crash, is known without any rule. The ledger must allow all of that, and at rest nothing else.

use crate::LIMIT;
use fathom_base::ledger::{Change, ChangeKind, Ledger, Region, SyncToken};
use fathom_base::prng::Prng;
use fathom_base::verify_block::{Format, Legal};
use std::collections::BTreeSet;

const PLACES: usize = 2;
const GRANULE: u64 = 512;

/// What may happen in a history.
#[derive(Debug, Clone, Copy)]
struct Ways {
    depth: usize,
    failures: bool,
    clears: bool,
    syncs: bool,
}

/// One state of a place, in generations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    /// What was carried out of what is in flight, by slot.
    done: u32,
    content: u64,
    stable: u64,
}

#[derive(Debug, Clone, Copy)]
enum What {
    Change { generation: u64, durable: bool },
    Sync(SyncToken),
}

struct InFlight {
    slot: u32,
    what: What,
    places: std::ops::Range<usize>,
    /// The newest generation that had ended at each place when it was issued.
    ended: [u64; PLACES],
}

/// A read in flight: what was legal when it was issued, and what it may have seen since.
struct Read {
    place: usize,
    before: Legal,
    seen: BTreeSet<u64>,
}

struct Storage {
    ways: Ways,
    ledger: Ledger,
    format: Format,
    /// By generation.
    kinds: Vec<ChangeKind>,
    in_flight: Vec<InFlight>,
    reads: Vec<Read>,
    states: [BTreeSet<State>; PLACES],
    /// All generations of a place.
    of: [Vec<u64>; PLACES],
    /// The newest that ended well, and that is known to be stable.
    ended: [u64; PLACES],
    stable: [u64; PLACES],
    /// The newest request there failed.
    is_open: [bool; PLACES],
}

impl Storage {
    fn new(ways: Ways) -> Self {
        let region = Region::of_one(0, PLACES as u64 * GRANULE, GRANULE);
        let first = State { done: 0, content: 0, stable: 0 };
        Self {
            ways,
            ledger: Ledger::new(region, LIMIT).unwrap(),
            format: Format::new(1, 2, 512).unwrap(),
            kinds: vec![ChangeKind::Write],
            in_flight: Vec::new(),
            reads: Vec::new(),
            states: [const { BTreeSet::new() }; PLACES].map(|mut states: BTreeSet<_>| {
                states.insert(first);
                states
            }),
            of: [const { Vec::new() }; PLACES],
            ended: [0; PLACES],
            stable: [0; PLACES],
            is_open: [false; PLACES],
        }
    }

    fn expect(&self, place: usize) -> Legal {
        self.ledger.expect(0, place as u64 * GRANULE).unwrap()
    }

    /// All that it may do at a place, from all states in which it may be.
    fn let_go(&mut self, place: usize) {
        let (states, syncs) = (&mut self.states[place], self.ways.syncs);
        let mut new: Vec<State> = states.iter().copied().collect();
        while let Some(state) = new.pop() {
            let there = self.in_flight.iter().filter(|it| it.places.contains(&place));
            let steps = there.filter(|it| state.done & 1 << it.slot == 0).map(|it| {
                let done = state.done | 1 << it.slot;
                match it.what {
                    What::Sync(_) => State { done, stable: state.content, ..state },
                    What::Change { generation, durable } if durable => {
                        State { done, content: generation, stable: generation }
                    }
                    What::Change { generation, .. } => State { done, content: generation, ..state },
                }
            });
            let by_itself = syncs.then_some(State { stable: state.content, ..state });
            for next in steps.chain(by_itself) {
                if states.insert(next) {
                    new.push(next);
                }
            }
        }
        let contents = self.contents(place);
        for read in self.reads.iter_mut().filter(|read| read.place == place) {
            read.seen.extend(&contents);
        }
    }

    fn contents(&self, place: usize) -> BTreeSet<u64> {
        self.states[place].iter().map(|state| state.content).collect()
    }

    fn begin(&mut self, what: What, places: std::ops::Range<usize>) {
        let slot = (0..).find(|slot| self.in_flight.iter().all(|it| it.slot != *slot)).unwrap();
        self.in_flight.push(InFlight { slot, what, places, ended: self.ended });
    }

    fn issue(&mut self, prng: &mut Prng) {
        let first = prng.below(PLACES as u64) as usize;
        let last = first + prng.below((PLACES - first) as u64) as usize;
        let kind = match prng.below(8) {
            0 if self.ways.clears => ChangeKind::Zero,
            1 if self.ways.clears => ChangeKind::Trim,
            _ => ChangeKind::Write,
        };
        let length = (last + 1 - first) as u64 * GRANULE;
        let change = Change { kind, ..Change::write(first as u64 * GRANULE, length) };
        for place in first..=last {
            self.is_open[place] = false;
        }
        let generation = self.ledger.issued(change).unwrap();
        self.kinds.push(kind);
        (first..=last).for_each(|place| self.of[place].push(generation));
        let durable = self.ways.syncs && prng.below(6) == 0;
        self.begin(What::Change { generation, durable }, first..last + 1);
    }

    fn end(&mut self, prng: &mut Prng) {
        let at = prng.below(self.in_flight.len() as u64) as usize;
        let InFlight { slot, what, places, ended } = self.in_flight.swap_remove(at);
        let is_change = matches!(what, What::Change { .. });
        let is_failed = is_change && self.ways.failures && prng.below(6) == 0;
        match what {
            What::Change { generation, .. } if is_failed => self.ledger.failed(generation),
            What::Change { generation, durable } => self.ledger.completed(generation, durable),
            What::Sync(token) => self.ledger.synced(token),
        }
        for place in places {
            let states = std::mem::take(&mut self.states[place]).into_iter();
            let possible = states.filter(|state| is_failed || state.done & 1 << slot != 0);
            self.states[place] =
                possible.map(|state| State { done: state.done & !(1 << slot), ..state }).collect();
            match what {
                What::Change { generation, .. } if is_failed => {
                    self.is_open[place] |= self.of[place].last() == Some(&generation);
                }
                What::Change { generation, durable } => {
                    self.ended[place] = self.ended[place].max(generation);
                    let stable = if durable { generation } else { 0 };
                    self.stable[place] = self.stable[place].max(stable);
                }
                What::Sync(_) => self.stable[place] = self.stable[place].max(ended[place]),
            }
        }
    }

    fn step(&mut self, prng: &mut Prng) {
        match prng.below(12) {
            0..=4 if self.in_flight.len() < self.ways.depth => self.issue(prng),
            5 if self.ways.syncs && self.in_flight.len() < self.ways.depth => {
                let token = self.ledger.sync_issued(0);
                self.begin(What::Sync(token), 0..PLACES);
            }
            6 if self.reads.len() < 3 => {
                let place = prng.below(PLACES as u64) as usize;
                let before = self.expect(place);
                self.reads.push(Read { place, before, seen: self.contents(place) });
            }
            7 if !self.reads.is_empty() => self.end_read(prng),
            _ if !self.in_flight.is_empty() => self.end(prng),
            _ => {}
        }
        (0..PLACES).for_each(|place| self.let_go(place));
        for place in 0..PLACES {
            self.allows_all(self.expect(place), &self.contents(place));
        }
    }

    fn end_read(&mut self, prng: &mut Prng) {
        let at = prng.below(self.reads.len() as u64) as usize;
        let Read { place, before, seen } = self.reads.swap_remove(at);
        self.allows_all(before.until(self.expect(place)), &seen);
    }

    fn finish(&mut self, prng: &mut Prng) {
        while !self.in_flight.is_empty() {
            self.end(prng);
            (0..PLACES).for_each(|place| self.let_go(place));
        }
        while !self.reads.is_empty() {
            self.end_read(prng);
        }
    }

    #[track_caller]
    fn allows_all(&self, legal: Legal, possible: &BTreeSet<u64>) {
        for &generation in possible {
            let is_legal = match self.kinds[generation as usize] {
                ChangeKind::Write => legal.allows(generation),
                ChangeKind::Zero => legal.allows(0),
                ChangeKind::Trim => legal.is_unknown(),
            };
            assert!(is_legal, "no false alarm: {generation} is possible, and said {legal:?}");
        }
    }

    /// Puts all that was ever written to a place there, and zeros: what is not possible is found. Says how many that were.
    #[track_caller]
    fn allows_only(&self, place: usize, legal: Legal, possible: &BTreeSet<u64>) -> usize {
        let has = |kind| possible.iter().any(|g| *g > 0 && self.kinds[*g as usize] == kind);
        assert_eq!(legal.is_unknown(), has(ChangeKind::Trim), "{legal:?}, {possible:?}");
        if legal.is_unknown() {
            return 0;
        }
        let at = place as u64 * GRANULE;
        let mut block = vec![0; GRANULE as usize];
        let is_possible = possible.contains(&0) || has(ChangeKind::Zero);
        assert_eq!(self.format.check(&block, at, legal).is_ok(), is_possible, "zeros: {legal:?}");
        let mut found = usize::from(!is_possible);
        for &generation in &self.of[place] {
            let is_write = self.kinds[generation as usize] == ChangeKind::Write;
            if is_write {
                self.format.fill(&mut block, at, generation);
                let is_right = self.format.check(&block, at, legal).is_ok();
                let is_possible = possible.contains(&generation);
                assert_eq!(is_right, is_possible, "{generation}: {legal:?}, {possible:?}");
                found += usize::from(!is_right);
            }
        }
        found
    }
}

#[test]
fn at_rest_exactly_what_is_possible_is_legal() {
    let mut prng = Prng::new(20, 1);
    let (mut faults, mut at_raced) = (0, 0);
    for history in 0..6000 {
        let (failures, clears) = (history % 5 == 0, history % 3 == 0);
        let ways = Ways { depth: 2 + history % 5, failures, clears, syncs: false };
        let mut storage = Storage::new(ways);
        (0..10 + prng.below(40)).for_each(|_| storage.step(&mut prng));
        storage.finish(&mut prng);
        let bytes = storage.ledger.to_bytes(&storage.format);
        let (later, _) = Ledger::from_bytes(&bytes, LIMIT).unwrap();
        for place in 0..PLACES {
            let possible = storage.contents(place);
            for legal in [storage.expect(place), later.expect(0, place as u64 * GRANULE).unwrap()] {
                storage.allows_all(legal, &possible);
                if !storage.is_open[place] {
                    let found = storage.allows_only(place, legal, &possible);
                    faults += found;
                    at_raced += if possible.len() > 1 { found } else { 0 };
                }
            }
        }
    }
    assert!(faults > 50_000 && at_raced > 20_000, "{faults}, {at_raced}");
}

#[test]
fn after_a_crash_all_that_is_possible_is_legal() {
    let mut prng = Prng::new(21, 1);
    let mut exact = 0;
    for history in 0..3000 {
        let (failures, clears) = (history % 5 == 0, history % 3 == 0);
        let ways = Ways { depth: 2 + history % 4, failures, clears, syncs: true };
        let mut storage = Storage::new(ways);
        (0..10 + prng.below(40)).for_each(|_| storage.step(&mut prng));
        storage.ledger.crash(false);
        for place in 0..PLACES {
            let stable = storage.states[place].iter().map(|state| state.stable).collect();
            let legal = storage.expect(place);
            storage.allows_all(legal, &stable);
            let latest = storage.of[place].last().copied().unwrap_or(0);
            if latest > 0 && storage.stable[place] == latest && !storage.is_open[place] {
                exact += storage.allows_only(place, legal, &stable);
            }
        }
    }
    assert!(exact > 3000, "{exact}");
}
