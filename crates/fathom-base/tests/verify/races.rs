//! Requests that are in flight at one place at once, against a storage that may carry them out in any order: what may be
//! there, worked out from its definition, and what the ledger says.

use crate::LIMIT;
use fathom_base::ledger::{Change, ChangeKind, Ledger, Region};
use fathom_base::prng::Prng;
use fathom_base::verify_block::{Cleared, Format, Found, Legal};
use std::collections::BTreeMap;

const PLACES: usize = 3;
const GRANULE: u64 = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Request {
    kind: ChangeKind,
    first: usize,
    count: usize,
    issued: usize,
    /// When it had ended; what was there first has always been.
    ended: Option<usize>,
}

const FIRST: Request =
    Request { kind: ChangeKind::Write, first: 0, count: PLACES, issued: 0, ended: Some(0) };

/// What may be at each place, by generation: all requests to it that none followed that has ended well. One follows
/// another when it was issued after that had ended.
struct Oracle {
    ledger: Ledger,
    now: usize,
    legal: [BTreeMap<u64, Request>; PLACES],
    in_flight: Vec<u64>,
    requests: Vec<Request>,
    /// The newest request there failed.
    is_open: [bool; PLACES],
}

/// What may happen in a history.
#[derive(Debug, Clone, Copy)]
struct Ways {
    depth: usize,
    count_max: u64,
    failures: bool,
    clears: bool,
}

impl Oracle {
    fn new() -> Self {
        Self {
            ledger: Ledger::new(Region::of_one(0, PLACES as u64 * GRANULE, GRANULE), LIMIT)
                .unwrap(),
            now: 0,
            legal: [const { BTreeMap::new() }; PLACES].map(|mut legal: BTreeMap<_, _>| {
                legal.insert(0, FIRST);
                legal
            }),
            in_flight: Vec::new(),
            requests: vec![FIRST],
            is_open: [false; PLACES],
        }
    }

    fn is_busy(&self, place: usize) -> bool {
        self.in_flight.iter().any(|&generation| self.covers(generation, place))
    }

    fn covers(&self, generation: u64, place: usize) -> bool {
        let Request { first, count, .. } = self.requests[generation as usize];
        (first..first + count).contains(&place)
    }

    fn newest(&self, place: usize) -> u64 {
        let last = self.requests.len() as u64 - 1;
        (0..=last).rev().find(|generation| self.covers(*generation, place)).unwrap_or(0)
    }

    fn issue(&mut self, prng: &mut Prng, ways: Ways) {
        let first = prng.below(PLACES as u64) as usize;
        let count = (1 + prng.below(ways.count_max) as usize).min(PLACES - first);
        let kind = match prng.below(6) {
            0 if ways.clears => ChangeKind::Zero,
            1 if ways.clears => ChangeKind::Trim,
            _ => ChangeKind::Write,
        };
        let change = Change::write(first as u64 * GRANULE, count as u64 * GRANULE);
        let generation = self.ledger.issued(Change { kind, ..change }).unwrap();
        let request = Request { kind, first, count, issued: self.now, ended: None };
        self.requests.push(request);
        for place in first..first + count {
            self.is_open[place] = false;
            self.legal[place].insert(generation, request);
        }
        self.in_flight.push(generation);
    }

    fn end(&mut self, prng: &mut Prng, ways: Ways) {
        let at = prng.below(self.in_flight.len() as u64) as usize;
        let generation = self.in_flight.swap_remove(at);
        let request = &mut self.requests[generation as usize];
        request.ended = Some(self.now);
        let request = *request;
        let is_failed = ways.failures && prng.below(6) == 0;
        for place in request.first..request.first + request.count {
            self.legal[place].insert(generation, request);
            if is_failed {
                self.is_open[place] |= self.newest(place) == generation;
            } else {
                self.legal[place]
                    .retain(|_, old| old.ended.is_none_or(|ended| ended >= request.issued));
            }
        }
        match is_failed {
            true => self.ledger.failed(generation),
            false => self.ledger.completed(generation, false),
        }
    }

    fn step(&mut self, prng: &mut Prng, ways: Ways) {
        self.now += 1;
        let is_full = self.in_flight.len() == ways.depth;
        let is_end = prng.below(if ways.depth > 8 { 4 } else { 2 }) == 0;
        if !self.in_flight.is_empty() && (is_full || is_end) {
            self.end(prng, ways);
        } else {
            self.issue(prng, ways);
        }
        (0..PLACES).for_each(|place| self.compare(place, ways));
    }

    fn compare(&mut self, place: usize, ways: Ways) {
        let said = self.ledger.expect(0, place as u64 * GRANULE).unwrap();
        let truth = &self.legal[place];
        let oldest = *truth.first_key_value().unwrap().0;
        let newest = *truth.last_key_value().unwrap().0;
        let has = |kind| truth.values().any(|request| request.kind == kind);
        let (has_zeros, has_trims) = (has(ChangeKind::Zero), has(ChangeKind::Trim));
        assert!(said.min_generation <= oldest && newest <= said.max_generation, "no false alarm");
        let allows_zeros = !matches!(said.cleared, Cleared::No);
        assert!(!has_zeros || allows_zeros, "no false alarm: {said:?}, {truth:?}");
        assert!(!has_trims || said.is_unknown(), "no false alarm: {said:?}, {truth:?}");
        if self.is_open[place] {
            return;
        }
        if self.is_busy(place) {
            // Writes of several places remember the oldest of all.
            let is_exact = ways.count_max == 1 && !ways.failures;
            let is_right = !is_exact || said.min_generation == oldest;
            assert!(is_right, "{said:?}: {oldest} is the oldest");
            return;
        }
        assert_eq!((said.min_generation, said.max_generation), (oldest, newest), "exact at rest");
        let cleared = match (has_trims, has_zeros) {
            (true, _) => Cleared::Unknown,
            (false, true) if truth.len() == 1 => Cleared::Zeroed,
            (false, true) => Cleared::Perhaps,
            (false, false) => Cleared::No,
        };
        assert_eq!(said.cleared, cleared, "{truth:?}");
        assert_eq!(said.is_open(), newest > 0 && oldest == 0);
        let writes = (1..).zip(&self.requests[1..]).filter(|(generation, request)| {
            request.kind == ChangeKind::Write && self.covers(*generation, place)
        });
        for (generation, _) in writes {
            let is_legal = truth.contains_key(&generation) || said.is_unknown();
            let is_zeroed = matches!(said.cleared, Cleared::Zeroed);
            assert_eq!(said.allows(generation), is_legal && !is_zeroed, "{generation}: {said:?}");
        }
    }
}

#[test]
fn what_raced_is_legal_and_nothing_older() {
    let mut prng = Prng::new(11, 3);
    let (mut groups, mut rests) = (0, 0);
    for history in 0..20_000 {
        let ways = Ways {
            // All that is in flight to one place is known one by one up to some 40.
            depth: if history % 50 == 1 { 40 } else { 1 + history % 8 },
            count_max: 1 + prng.below(3),
            failures: history % 5 == 0,
            clears: history % 3 == 0,
        };
        let mut oracle = Oracle::new();
        let steps = if ways.depth > 8 { 300 } else { 10 + prng.below(50) };
        (0..steps).for_each(|_| oracle.step(&mut prng, ways));
        while !oracle.in_flight.is_empty() {
            oracle.now += 1;
            oracle.end(&mut prng, ways);
            (0..PLACES).for_each(|place| oracle.compare(place, ways));
        }
        rests += PLACES;
        groups += oracle.legal.iter().filter(|legal| legal.len() > 1).count();
    }
    assert!(groups * 4 > rests, "{groups} of {rests}");
}

/// Two requests at once, in both orders, after an older one; whichever came last is right, and nothing else.
#[test]
fn of_two_at_once_either_is_right_and_nothing_else() {
    let format = Format::new(1, 2, 4096).unwrap();
    let block = |generation| {
        let mut block = vec![0; 4096];
        format.fill(&mut block, 0, generation);
        block
    };
    for (ended, has_older) in [([2, 3], true), ([3, 2], true), ([1, 2], false), ([2, 1], false)] {
        let mut ledger = Ledger::new(Region::of_one(0, 8192, 4096), LIMIT).unwrap();
        if has_older {
            let older = ledger.issued(Change::write(0, 4096)).unwrap();
            ledger.completed(older, false);
        }
        let [first, second] = [0, 1].map(|_| ledger.issued(Change::write(0, 4096)).unwrap());
        let legal = ledger.expect(0, 0).unwrap();
        assert_eq!((legal.min_generation, legal.is_open()), (first - 1, !has_older), "in flight");
        ended.iter().for_each(|generation| ledger.completed(*generation, false));
        // The same in a later run.
        let bytes = ledger.to_bytes(&format);
        for ledger in [ledger, Ledger::from_bytes(&bytes, LIMIT).unwrap().0] {
            let legal = ledger.expect(0, 0).unwrap();
            assert_eq!(legal, Legal::range(first, second));
            for generation in [first, second] {
                assert_eq!(format.check(&block(generation), 0, legal), Ok(()));
            }
            let found = |block: &[u8]| format.check(block, 0, legal).unwrap_err().found;
            assert_eq!(found(&[0; 4096]), Found::Zeros);
            assert!(matches!(found(&[7; 4096]), Found::Foreign { .. }));
            assert!(!has_older || found(&block(1)) == Found::Stale { generation: 1 });
            assert_eq!(found(&block(9)), Found::Future { generation: 9 });
            let mut other = vec![0; 4096];
            Format::new(77, 5, 4096).unwrap().fill(&mut other, 0, second);
            assert!(matches!(found(&other), Found::OtherTarget { target_id: 77, .. }));
        }
    }
}

/// One that is in flight all the time, and others after each other: only the last of these may be there beside it.
#[test]
fn what_had_ended_between_racers_is_gone() {
    let format = Format::new(1, 2, 4096).unwrap();
    let mut ledger = Ledger::new(Region::of_one(0, 8192, 4096), LIMIT).unwrap();
    let slow = ledger.issued(Change::write(0, 4096)).unwrap();
    let quick = [0; 4].map(|_| {
        let generation = ledger.issued(Change::write(0, 4096)).unwrap();
        ledger.completed(generation, false);
        generation
    });
    ledger.completed(slow, false);
    let bytes = ledger.to_bytes(&format);
    for ledger in [ledger, Ledger::from_bytes(&bytes, LIMIT).unwrap().0] {
        let legal = ledger.expect(0, 0).unwrap();
        assert_eq!(legal.to_string(), "generation 1 or 5");
        let mut block = vec![0; 4096];
        for generation in [slow].into_iter().chain(quick) {
            format.fill(&mut block, 0, generation);
            let found = format.check(&block, 0, legal).err().map(|wrong| wrong.to_string());
            let wanted = (2..5).contains(&generation).then(|| {
                format!(
                    "offset 0, 4096 bytes: expected generation 1 or 5; found generation {generation}: a later write \
                     was lost, or undone"
                )
            });
            assert_eq!(found, wanted);
        }
    }
}

/// Of two at once each sector may come from either; a sector that comes from both is damaged.
#[test]
fn sectors_of_racers_mix_and_halves_of_sectors_do_not() {
    for unit_bytes in [512, 4096] {
        let format = Format::new(1, 2, unit_bytes).unwrap();
        let mut ledger = Ledger::new(Region::of_one(0, 8192, 4096), LIMIT).unwrap();
        let racers = [0, 1].map(|_| ledger.issued(Change::write(0, 4096)).unwrap());
        racers.iter().for_each(|generation| ledger.completed(*generation, false));
        let legal = ledger.expect(0, 0).unwrap();
        let [first, second] = racers.map(|generation| {
            let mut block = vec![0; 4096];
            format.fill(&mut block, 0, generation);
            block
        });
        for cut in 1..4096 {
            let block = [&first[..cut], &second[cut..]].concat();
            let found = format.check(&block, 0, legal).err().map(|wrong| wrong.found);
            // Of the 8 bytes that end a sector these two differ in the first only.
            let is_whole = cut % 512 == 0 || cut % 512 > 504;
            let is_damaged = matches!(found, Some(Found::Corrupt { .. }))
                || (unit_bytes == 512 && matches!(found, Some(Found::Foreign { .. })));
            assert!(if is_whole { found.is_none() } else { is_damaged }, "{cut}: {found:?}");
        }
    }
}

/// `count` requests to a place that are in flight at once, each with another one after it that had ended at once.
fn race_many(ledger: &mut Ledger, offset_bytes: u64, count: usize) -> (Vec<u64>, Vec<u64>) {
    let issue = |ledger: &mut Ledger| ledger.issued(Change::write(offset_bytes, 4096)).unwrap();
    let (mut slow, mut quick) = (Vec::new(), Vec::new());
    for _ in 0..count {
        slow.push(issue(ledger));
        quick.push(issue(ledger));
        ledger.completed(quick[quick.len() - 1], false);
    }
    slow.push(quick.pop().unwrap());
    slow[..count].iter().for_each(|generation| ledger.completed(*generation, false));
    (slow, quick)
}

/// Where racers are more than fit, or their places are, the range from the oldest to the latest counts, and nothing that is
/// possible is called wrong.
#[test]
fn too_many_racers_are_a_range() {
    for (count, is_exact) in [(2, true), (40, true), (45, true), (46, false), (200, false)] {
        let mut ledger = Ledger::new(Region::of_one(0, 8192, 4096), LIMIT).unwrap();
        let (possible, gone) = race_many(&mut ledger, 0, count);
        let legal = ledger.expect(0, 0).unwrap();
        assert!(possible.iter().all(|generation| legal.allows(*generation)), "{count}");
        assert!(gone.iter().all(|generation| legal.allows(*generation) != is_exact), "{count}");
        assert!(!legal.is_open() && !legal.allows(0) && !legal.allows(2 * count as u64 + 1));
        let named = if count > 8 && is_exact { "one of " } else { "generation " };
        assert!(legal.to_string().starts_with(named), "{legal}");
    }
}

#[test]
fn too_many_places_with_racers_are_ranges() {
    let places = 6000;
    let mut ledger = Ledger::new(Region::of_one(0, places * 4096, 4096), LIMIT).unwrap();
    let race_all = |ledger: &mut Ledger, places: std::ops::Range<u64>| {
        let mut exact = 0;
        let raced: Vec<_> =
            places.map(|place| (place, race_many(ledger, place * 4096, 2))).collect();
        for (place, (possible, gone)) in raced {
            let legal = ledger.expect(0, place * 4096).unwrap();
            assert!(possible.iter().all(|generation| legal.allows(*generation)));
            exact += usize::from(!legal.allows(gone[0]));
        }
        exact
    };
    let exact = race_all(&mut ledger, 0..places);
    assert!((3500..=4096).contains(&exact), "{exact}");
    // What is written again without a race makes room.
    for place in 0..places {
        let generation = ledger.issued(Change::write(place * 4096, 4096)).unwrap();
        ledger.completed(generation, false);
    }
    assert_eq!(race_all(&mut ledger, 100..1100), 1000);
}

/// A request that thousands overtake, with another one to its place at the end.
#[test]
fn what_is_too_far_behind_is_open_and_says_so() {
    for (between, is_open) in [(8189, false), (8190, true), (100_000, true)] {
        let mut ledger = Ledger::new(Region::of_one(0, 8192, 4096), LIMIT).unwrap();
        let late = ledger.issued(Change::write(0, 4096)).unwrap();
        for _ in 0..between {
            let elsewhere = ledger.issued(Change::write(4096, 4096)).unwrap();
            ledger.completed(elsewhere, false);
        }
        let last = ledger.issued(Change::write(0, 4096)).unwrap();
        [last, late].into_iter().for_each(|generation| ledger.completed(generation, false));
        let legal = ledger.expect(0, 0).unwrap();
        assert_eq!(legal.is_open(), is_open, "{between} between");
        let oldest = if is_open { 0 } else { late };
        assert_eq!((legal.min_generation, legal.max_generation), (oldest, last));
        assert_eq!(legal.allows(late + 1), is_open, "only the two");
        let again = ledger.issued(Change::write(0, 4096)).unwrap();
        ledger.completed(again, false);
        assert_eq!(ledger.expect(0, 0).unwrap(), Legal::only(again), "known again");
    }
}

/// What a sync has acknowledged of two at once is one of the two after a crash, whatever follows and whether the book was kept or is
/// made again from a mark.
#[test]
fn of_two_at_once_a_synced_one_is_there_after_a_crash() {
    let write = Change::write(0, 4096);
    for (follows, fails) in [(false, false), (true, false), (true, true)] {
        let region = Region::of_one(0, 8192, 4096);
        let mut ledger = Ledger::new(region, LIMIT).unwrap();
        let older = ledger.issued(write).unwrap();
        ledger.completed(older, false);
        let [first, second] = [0, 1].map(|_| ledger.issued(write).unwrap());
        [second, first].into_iter().for_each(|generation| ledger.completed(generation, false));
        let token = ledger.sync_issued(0);
        if follows {
            let third = ledger.issued(write).unwrap();
            ledger.synced(token);
            if fails {
                ledger.failed(third);
            } else {
                ledger.completed(third, false);
            }
        } else {
            ledger.synced(token);
        }
        let last = ledger.last_generation();
        let mark = ledger.mark(0).unwrap();
        ledger.crash(false);
        assert_eq!(ledger.expect(0, 0), Some(Legal::range(first, last)), "{follows} {fails}");
        let marks = BTreeMap::from([(0, mark)]);
        let (again, _) = Ledger::replay(region, LIMIT, &marks, vec![write; last as usize]).unwrap();
        let legal = again.expect(0, 0).unwrap();
        assert!((1..=first).contains(&legal.min_generation), "{legal:?}");
    }
    // Without a sync any of them may be lost, and what was there before may be there.
    let mut ledger = Ledger::new(Region::of_one(0, 8192, 4096), LIMIT).unwrap();
    let [first, second] = [0, 1].map(|_| ledger.issued(write).unwrap());
    [first, second].into_iter().for_each(|generation| ledger.completed(generation, false));
    ledger.crash(false);
    assert_eq!(ledger.expect(0, 0), Some(Legal::range(0, second)));
}
