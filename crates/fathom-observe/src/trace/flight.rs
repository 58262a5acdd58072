//! From steps to requests: which end belongs to which beginning.
//!
//! Two kinds are followed. What arrives at the device (Q) is what somebody asked for; what the driver gets (D) are requests after
//! merging and cutting. An end (C) tells a range of sectors: everything of its class that lies inside has ended. Only what is in
//! flight is kept in memory.

use super::doubt::Doubts;
use super::event::{Action, Class, Event, Flags};
use std::collections::{BTreeMap, HashSet};

/// Which kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// As it arrived at the device.
    Arrived,
    /// As the driver got it.
    Issued,
}

/// A request that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// Which kind.
    pub level: Level,
    /// What it did.
    pub class: Class,
    /// How.
    pub flags: Flags,
    /// When it began: arrived, or was handed to the driver.
    pub start_ns: u64,
    /// Of what arrived: when the driver got it, alone or with others; none where there is no driver's queue, or it did not show.
    pub issue_ns: Option<u64>,
    /// When it ended.
    pub end_ns: u64,
    /// First sector.
    pub sector: u64,
    /// How many.
    pub sectors: u32,
    /// It ended with an error.
    pub has_failed: bool,
    /// Events were lost while it waited, so that the end may be that of another one at its place: how long it took is not known.
    pub spans_hole: bool,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    sectors: u32,
    left: u32,
    start_ns: u64,
    issue_ns: Option<u64>,
    flags: Flags,
    /// How many had ended when it began, and how many of its class.
    ended_before: u64,
    own_before: u64,
    /// From then on it does not count as in flight: so many of its class have overtaken it by now that its end may be lost.
    left_ns: Option<u64>,
}

/// What is in flight of one kind: by class, first sector and order.
#[derive(Debug)]
struct Table {
    level: Level,
    waiting: BTreeMap<(Class, u64, u64), Waiting>,
    /// The longest request of each class, which bounds where one that covers a sector can begin.
    longest: [u32; Class::ALL.len()],
    next: u64,
    ended: u64,
    ended_of: [u64; Class::ALL.len()],
    abandoned: u64,
    /// How long those of each class took whose end was seen, in all and at most, and how many these are.
    took_ns: [u64; Class::ALL.len()],
    longest_ns: [u64; Class::ALL.len()],
    known: [u64; Class::ALL.len()],
    alone: [Alone; Class::ALL.len()],
    /// Of those that wait, how many are left.
    left: usize,
    /// What is known by now of how many were in flight: from that time on so many more, or fewer.
    corrections: Vec<(u64, i64)>,
    /// That is looked at when so many have ended.
    next_look: u64,
    /// Those that were overtaken by far are looked for when so many have ended.
    next_overtaken: u64,
    /// Ends may be missing: see [`Flight::had_losses`].
    has_losses: bool,
    /// The driver's part of those that arrive shows.
    has_issues: bool,
    /// The last moment before which events were lost.
    gap_ns: u64,
    /// Of those that arrive, where ends may be missing.
    doubts: Doubts,
    holes: Holes,
}

/// When events were lost.
#[derive(Debug, Default, Clone, Copy)]
struct Holes {
    /// What began before that has waited through one.
    before_ns: u64,
    /// The last one.
    last_ns: (u64, u64),
}

impl Holes {
    fn add(&mut self, from_ns: u64, to_ns: u64) {
        self.before_ns = self.before_ns.max(self.last_ns.1);
        self.last_ns = (from_ns, to_ns);
    }

    fn has(&self, start_ns: u64, end_ns: u64) -> bool {
        let (from_ns, to_ns) = self.last_ns;
        start_ns < self.before_ns || start_ns < to_ns && end_ns > from_ns
    }
}

/// What is in flight at once on the largest devices is far below; more are left over from lost ends.
const WAITING_MAX: usize = 1 << 18;
/// A request that has not ended after that is one whose end was lost.
const AGE_NS_MAX: u64 = 120_000_000_000;
/// So is one that so many later ones have overtaken, after this time: kernels lose a few events in a million without a word. Drivers
/// give up after 30 s; one that only starves must not be taken for lost.
const OVERTAKEN_MAX: u64 = 2048;
const OVERTAKEN_NS: u64 = 30_000_000_000;
/// So is one that some later ones have overtaken, or that is left as said below, when the same place is asked for again: the end to come is that of the newer
/// one, and would be told as that of the older, and so on with each that comes to that place.
const TWIN_OVERTAKEN: u64 = 256;
/// One that so many of its class have overtaken, and twice as many as are in flight, counts as in flight for as long as its class takes on
/// average: no device lets that many pass often. When its end comes after all, it was in flight up to there.
const LEFT_OVERTAKEN: u64 = 64;
/// Of several at one place the oldest ends first, unless so many of its class have overtaken it, and twice as many as are in flight.
const SLOW_OVERTAKEN: u64 = 16;
/// Or it has waited twice as long as its class takes, and longer than that lay between its beginning and the next one's: where a place is
/// asked for again and again, a lost end would shift the ends of all that follow, and nobody would ever be overtaken. Where more than so
/// many wait at one place, they are a queue.
const PLACE_MAX: u64 = 3;
/// How long a class takes is known of so many, and a moving average over so many, of which none counts for more than so many times it:
/// what is slow for long moves it, a single one does not.
const ALONE_MIN: u64 = 16;
const ALONE_MAX: u64 = 64;
const ALONE_TIMES: u64 = 4;
/// Where on average over so many ends more than so many, in 65536ths, are at a place, queues at one place are usual.
const CROWD_OF: u64 = 256;
const CROWD: u64 = 3 << 15;
/// So does a read or a write that so many of any class have overtaken, and twice as many as are in flight, which has waited so many times
/// as long as any of both took: of its own class there may be few.
const FAR_OVERTAKEN: u64 = 1024;
/// When a trace ends in which ends may be missing, so is one that has waited so many times as long as any of its class took.
const LEFT_TIMES_LONGEST: u64 = 10;
/// How often, in ends, that is looked at, at the most.
const LEFT_LOOK: u64 = 32;
/// How often, in ends, the others are looked at, at the most: of many that wait, once in as many ends.
const LOOK: u64 = 512;

/// How long requests take that are alone at their place when they end, of which it is known which end is theirs.
#[derive(Debug, Default, Clone, Copy)]
struct Alone {
    known: u64,
    takes_ns: u64,
    /// How many are at a place when one of them ends, in 65536ths, as a moving average over so many.
    ends: u64,
    at_place: u64,
}

impl Alone {
    fn count(&mut self, at_place: u64, waited_ns: u64) {
        self.ends = (self.ends + 1).min(CROWD_OF);
        self.at_place = self.at_place - self.at_place / self.ends + (at_place << 16) / self.ends;
        if at_place == 1 {
            let most_ns = if self.known == 0 { u64::MAX } else { self.takes_ns * ALONE_TIMES };
            self.known = (self.known + 1).min(ALONE_MAX);
            let rest_ns = self.takes_ns - self.takes_ns / self.known;
            self.takes_ns = rest_ns + waited_ns.min(most_ns) / self.known;
        }
    }

    /// Of two at one place the end is rather that of the newer one, which began so long after the one before it.
    fn is_likelier(&self, older_ns: u64, newer_ns: u64, after_ns: u64) -> bool {
        let is_late =
            older_ns / 2 >= self.takes_ns && after_ns >= self.takes_ns + self.takes_ns / 8;
        let is_nearer = newer_ns.abs_diff(self.takes_ns) < older_ns.abs_diff(self.takes_ns);
        self.known >= ALONE_MIN && self.at_place <= CROWD && is_late && is_nearer
    }
}

const TRANSFERS: [usize; 2] = [Class::Read as usize, Class::Write as usize];

fn is_transfer(class: Class) -> bool {
    TRANSFERS.contains(&(class as usize))
}

impl Table {
    fn new(level: Level) -> Self {
        let (waiting, longest) = (BTreeMap::new(), [0; Class::ALL.len()]);
        let (ended_of, took_ns, longest_ns, known) = Default::default();
        let (next, ended, abandoned, left, next_look) = (0, 0, 0, 0, 0);
        let (corrections, alone, doubts) = Default::default();
        Self {
            level,
            waiting,
            longest,
            next,
            ended,
            ended_of,
            abandoned,
            took_ns,
            longest_ns,
            known,
            alone,
            left,
            corrections,
            next_look,
            next_overtaken: LOOK,
            has_losses: false,
            has_issues: false,
            gap_ns: 0,
            doubts,
            holes: Holes::default(),
        }
    }

    fn add(&mut self, event: &Event) {
        if self.waiting.len() >= WAITING_MAX {
            self.forget_old(event.time_ns);
        }
        if self.has_losses {
            self.forget_twin(event);
        }
        let longest = &mut self.longest[event.class as usize];
        *longest = (*longest).max(event.sectors);
        let waiting = Waiting {
            sectors: event.sectors,
            left: event.sectors,
            start_ns: event.time_ns,
            issue_ns: None,
            flags: event.flags,
            ended_before: self.ended,
            own_before: self.ended_of[event.class as usize],
            left_ns: None,
        };
        let key = (event.class, event.sector, self.next);
        self.waiting.insert(key, waiting);
        if self.is_doubted() {
            self.doubts.begin(key, event.time_ns);
        }
        self.next += 1;
    }

    /// Those that lie in the event's range at least partly; of several that begin at the same sector the oldest.
    fn in_range(&mut self, event: &Event, mut visit: impl FnMut(u64, u64, &mut Waiting) -> bool) {
        let class = event.class;
        let from = event.sector.saturating_sub(u64::from(self.longest[class as usize]));
        let (from, to) =
            ((class, from, 0), (class, event.end_sector().max(event.sector.saturating_add(1)), 0));
        let mut seen = None;
        for (&(_, sector, order), waiting) in self.waiting.range_mut(from..to) {
            let end_sector = sector.saturating_add(u64::from(waiting.sectors));
            let is_empty = waiting.sectors == 0 && sector == event.sector;
            if (end_sector > event.sector || is_empty)
                && seen != Some(sector)
                && visit(sector, order, waiting)
            {
                seen = Some(sector);
            }
        }
    }

    /// The oldest of just this place and length: of several at one place it is the one that an event of that length is about.
    fn exact(&self, event: &Event, is_it: impl Fn(&Waiting) -> bool) -> Option<u64> {
        let range = (event.class, event.sector, 0)..=(event.class, event.sector, u64::MAX);
        let mut there = self.waiting.range(range);
        let found =
            there.find(|(_, w)| w.sectors == event.sectors && w.left == w.sectors && is_it(w));
        found.map(|(key, _)| key.2)
    }

    /// Of those of just this place and length that the driver has not got the oldest of the newest ones. The driver gets them in their
    /// order, so that those that it has, of which any number may wait for ends that never come, are not looked through.
    fn first_unissued(&self, event: &Event) -> Option<u64> {
        let range = (event.class, event.sector, 0)..=(event.class, event.sector, u64::MAX);
        let is_exact = |w: &Waiting| w.sectors == event.sectors && w.left == w.sectors;
        let there = self.waiting.range(range).rev().filter(|(_, waiting)| is_exact(waiting));
        let newest = there.take_while(|(_, w)| w.issue_ns.is_none()).last().map(|(key, _)| key.2);
        // One that it gave back may be older than some that it has.
        newest.or_else(|| self.exact(event, |waiting| waiting.issue_ns.is_none()))
    }

    /// The driver got what lies in this range.
    fn issue(&mut self, event: &Event) {
        self.has_issues = true;
        if let Some(order) = self.first_unissued(event) {
            if let Some(waiting) = self.waiting.get_mut(&(event.class, event.sector, order)) {
                waiting.issue_ns = Some(event.time_ns);
            }
            return;
        }
        self.in_range(event, |_, _, waiting| {
            let is_first = waiting.issue_ns.is_none();
            waiting.issue_ns.get_or_insert(event.time_ns);
            is_first
        });
    }

    /// The driver gave back what lies in this range: it waits again, and the time until it is issued anew is waiting.
    fn unissue(&mut self, event: &Event) {
        self.in_range(event, |_, _, waiting| waiting.issue_ns.take().is_some());
    }

    fn end(&mut self, event: &Event, done: &mut Vec<Done>) {
        let (ended, is_known) = self.ended_by(event);
        // The end of one whose beginning is not in the trace overtakes those that wait as any other does.
        let is_one = is_transfer(event.class) && event.sectors > 0;
        if !is_known && is_one {
            self.count_end(event);
        }
        for (sector, order) in ended {
            let Some(waiting) = self.take(&(event.class, sector, order)) else {
                continue;
            };
            if let Some(left_ns) = waiting.left_ns {
                self.correct(left_ns, 1);
            }
            let (class, took_ns) =
                (event.class as usize, event.time_ns.saturating_sub(waiting.start_ns));
            let spans_hole = self.holes.has(waiting.start_ns, event.time_ns);
            if !spans_hole {
                self.known[class] += 1;
                self.took_ns[class] = self.took_ns[class].saturating_add(took_ns);
                self.longest_ns[class] = self.longest_ns[class].max(took_ns);
            }
            done.push(Done {
                level: self.level,
                class: event.class,
                flags: waiting.flags,
                start_ns: waiting.start_ns,
                issue_ns: waiting.issue_ns,
                end_ns: event.time_ns.max(waiting.start_ns),
                sector,
                sectors: waiting.sectors,
                has_failed: event.error != 0,
                spans_hole,
            });
            self.count_end(event);
        }
    }

    fn take(&mut self, key: &(Class, u64, u64)) -> Option<Waiting> {
        let waiting = self.waiting.remove(key)?;
        if waiting.left_ns.is_some() {
            self.left -= 1;
        } else {
            self.doubts.end(key);
        }
        Some(waiting)
    }

    fn had_losses(&mut self) {
        if !std::mem::replace(&mut self.has_losses, true) && self.is_doubted() {
            let waiting = self.waiting.iter().filter(|(_, waiting)| waiting.left_ns.is_none());
            waiting.for_each(|(key, waiting)| self.doubts.begin(*key, waiting.start_ns));
        }
    }

    fn is_doubted(&self) -> bool {
        self.has_losses && self.level == Level::Arrived
    }

    /// Its end is taken for lost. Where the driver's part shows and it never got there, it may wait all the same, up to now.
    fn count_lost(&mut self, waiting: &Waiting, now_ns: u64) {
        let may_be_issued = !self.has_issues || waiting.start_ns <= self.gap_ns;
        let is_issued = waiting.issue_ns.is_some() || may_be_issued;
        if let Some(left_ns) = waiting.left_ns.filter(|_| !is_issued) {
            self.doubts.add(now_ns.saturating_sub(left_ns));
        }
    }

    fn correct(&mut self, from_ns: u64, by: i64) {
        if self.level == Level::Arrived {
            self.corrections.push((from_ns, by));
        }
    }

    /// When a request whose end is not seen has ended by all that is known: as its class does on average, or reads and writes do.
    fn usual_end_ns(&self, class: Class, start_ns: u64, now_ns: u64) -> u64 {
        self.usual_ns(class).map_or(now_ns, |ns| start_ns.saturating_add(ns).min(now_ns))
    }

    fn usual_ns(&self, class: Class) -> Option<u64> {
        let own = (self.took_ns[class as usize], self.known[class as usize]);
        let (took_ns, known) = if own.1 == 0 && is_transfer(class) {
            TRANSFERS
                .map(|class| (self.took_ns[class], self.known[class]))
                .into_iter()
                .fold(own, |sum, of| (sum.0.saturating_add(of.0), sum.1 + of.1))
        } else {
            own
        };
        took_ns.checked_div(known)
    }

    /// Its end was lost: it does not wait any more, and was in flight up to its usual end.
    fn give_up(&mut self, key: &(Class, u64, u64), now_ns: u64) {
        if self.waiting.get(key).is_some_and(|waiting| waiting.left_ns.is_none()) {
            self.leave(key, now_ns);
        }
        let Some(waiting) = self.take(key) else { return };
        self.abandoned += 1;
        self.count_lost(&waiting, now_ns);
    }

    fn leave_before(&mut self, time_ns: u64) {
        self.gap_ns = time_ns;
        self.holes.before_ns = self.holes.before_ns.max(time_ns);
        let waiting = self.waiting.iter().filter(|(_, waiting)| waiting.left_ns.is_none());
        let keys: Vec<_> = waiting.map(|(key, _)| *key).collect();
        keys.iter().for_each(|key| self.leave(key, time_ns));
    }

    fn forget(&mut self, now_ns: u64, is_lost: impl Fn(&Waiting) -> bool) {
        let lost: Vec<_> =
            self.waiting.iter().filter(|(_, w)| is_lost(w)).map(|(key, _)| *key).collect();
        lost.iter().for_each(|key| self.give_up(key, now_ns));
    }

    fn count_end(&mut self, event: &Event) {
        self.ended += 1;
        self.ended_of[event.class as usize] += 1;
        if self.ended >= self.next_overtaken {
            self.next_overtaken = self.ended + LOOK.max(self.waiting.len() as u64);
            self.forget_overtaken(event.time_ns);
        }
        if self.has_losses && self.ended >= self.next_look {
            self.look_for_left(event.time_ns);
        }
    }

    /// See [`FAR_OVERTAKEN`].
    fn is_far_behind(&self, class: Class, waiting: &Waiting, now_ns: u64) -> bool {
        let in_flight = (self.waiting.len() - self.left) as u64;
        self.ended - waiting.ended_before > FAR_OVERTAKEN + 2 * in_flight
            && self.has_waited_long(class, waiting, now_ns)
    }

    /// So many times as long as any read or write took; it is one.
    fn has_waited_long(&self, class: Class, waiting: &Waiting, now_ns: u64) -> bool {
        let longest_ns = TRANSFERS.map(|class| self.longest_ns[class]).into_iter().max();
        let waited_ns = now_ns.saturating_sub(waiting.start_ns);
        is_transfer(class) && longest_ns.is_some_and(|ns| waited_ns / LEFT_TIMES_LONGEST > ns)
    }

    fn look_for_left(&mut self, now_ns: u64) {
        let in_flight = (self.waiting.len() - self.left) as u64;
        self.next_look = self.ended + LEFT_LOOK.max(self.waiting.len() as u64);
        let is_left = |(class, waiting): (Class, &Waiting)| {
            let overtaken = self.ended_of[class as usize] - waiting.own_before;
            waiting.left_ns.is_none()
                && (overtaken > LEFT_OVERTAKEN + 2 * in_flight
                    || self.is_far_behind(class, waiting, now_ns))
        };
        let found = self.waiting.iter().filter(|(key, waiting)| is_left((key.0, waiting)));
        let found: Vec<_> = found.map(|(key, _)| *key).collect();
        for key in found {
            self.leave(&key, now_ns);
        }
    }

    /// It waits, and does not count as in flight after its usual end.
    fn leave(&mut self, key: &(Class, u64, u64), now_ns: u64) {
        let Some(start_ns) = self.waiting.get(key).map(|waiting| waiting.start_ns) else { return };
        let left_ns = self.usual_end_ns(key.0, start_ns, now_ns);
        self.correct(left_ns, -1);
        self.doubts.lose(key, left_ns, self.usual_ns(key.0));
        self.left += 1;
        if let Some(waiting) = self.waiting.get_mut(key) {
            waiting.left_ns = Some(left_ns);
        }
    }

    /// Of those of just this place and length the one that this end is of.
    fn whose_end(&mut self, event: &Event) -> Option<u64> {
        let class = event.class as usize;
        let slow = SLOW_OVERTAKEN + 2 * (self.waiting.len() - self.left) as u64;
        let alone = self.alone[class];
        let range = (event.class, event.sector, 0)..=(event.class, event.sector, u64::MAX);
        let is_whole = |w: &Waiting| w.sectors == event.sectors && w.left == w.sectors;
        let there = self.waiting.range(range).filter(|(_, waiting)| is_whole(waiting));
        let (mut first, mut oldest, mut likely) = (None, None, None);
        let (mut count, mut before_ns) = (0, 0u64);
        for (key, waiting) in there {
            let this = (key.2, event.time_ns.saturating_sub(waiting.start_ns));
            first.get_or_insert(this);
            if self.ended_of[class] - waiting.own_before > slow {
                continue;
            }
            count += 1;
            oldest.get_or_insert(this);
            let after_ns = before_ns.saturating_sub(this.1);
            if likely.is_none_or(|(_, older_ns)| alone.is_likelier(older_ns, this.1, after_ns)) {
                likely = Some(this);
            }
            before_ns = this.1;
            if count > PLACE_MAX {
                likely = oldest;
                break;
            }
        }
        let (order, waited_ns) = likely.or(first)?;
        self.alone[class].count(count, waited_ns);
        Some(order)
    }

    /// Those that this end was the last part of, by first sector and order, and whether it was of any.
    fn ended_by(&mut self, event: &Event) -> (Vec<(u64, u64)>, bool) {
        let order =
            if self.has_losses { self.whose_end(event) } else { self.exact(event, |_| true) };
        if let Some(order) = order {
            return (vec![(event.sector, order)], true);
        }
        let (mut ended, mut is_known) = (Vec::new(), false);
        let (start, end) = (event.sector, event.end_sector());
        self.in_range(event, |sector, order, waiting| {
            let waiting_end = sector + u64::from(waiting.sectors);
            let common = end.min(waiting_end).saturating_sub(start.max(sector));
            waiting.left = waiting.left.saturating_sub(common as u32);
            is_known = true;
            // A failed request tells how much of it failed, which may be nothing of its range.
            if waiting.left == 0 || event.error != 0 {
                ended.push((sector, order));
            }
            true
        });
        (ended, is_known)
    }

    /// Takes the newest one that begins there out again: it is given back. Of one that has ended in part, what is left is given back. False
    /// when there is none: drivers that are busy give requests back before they have begun with them.
    fn take_back(&mut self, event: &Event) -> bool {
        let range = (event.class, event.sector, 0)..=(event.class, event.sector, u64::MAX);
        let mut key = self.waiting.range(range).next_back().map(|(key, _)| *key);
        if key.is_none() {
            let end_sector = event.end_sector();
            self.in_range(event, |sector, order, waiting| {
                let is_rest = waiting.left == event.sectors
                    && sector + u64::from(waiting.sectors) == end_sector;
                if is_rest && event.sectors > 0 {
                    key.get_or_insert((event.class, sector, order));
                }
                is_rest
            });
        }
        key.is_some_and(|key| self.take(&key).is_some())
    }

    /// Forgets one of the same place and length whose end was lost, before that place is asked for again.
    fn forget_twin(&mut self, event: &Event) {
        let (in_flight, ended) = (self.waiting.len() as u64, self.ended);
        let is_overtaken = |waiting: &Waiting| {
            waiting.left_ns.is_some()
                || ended - waiting.ended_before > TWIN_OVERTAKEN + 4 * in_flight
        };
        // Where the oldest is not, none is.
        let Some(order) = self.exact(event, |_| true) else { return };
        let key = (event.class, event.sector, order);
        if self.waiting.get(&key).is_some_and(is_overtaken) {
            self.give_up(&key, event.time_ns);
        }
    }

    fn forget_overtaken(&mut self, now_ns: u64) {
        let (count, ended) = (self.waiting.len() as u64, self.ended);
        self.forget(now_ns, |waiting| {
            let is_overtaken = ended - waiting.ended_before > OVERTAKEN_MAX + count;
            is_overtaken && now_ns.saturating_sub(waiting.start_ns) > OVERTAKEN_NS
        });
    }

    /// The trace ends: how many still wait whose ends were lost, as so many of their class have overtaken them as no device lets pass; of
    /// arrivals fewer are enough, or a wait that none of the others had, or that there is no end at all.
    fn finish(&mut self, now_ns: u64, are_arrivals: bool) -> u64 {
        let mut lost = 0;
        if !self.has_losses {
            return lost;
        }
        let has_no_ends = self.ended == 0 && self.waiting.len() as u64 > LEFT_OVERTAKEN;
        let all: Vec<_> = self.waiting.iter().map(|(key, waiting)| (*key, *waiting)).collect();
        for (key, waiting) in all {
            let class = key.0 as usize;
            let most = (self.ended_of[class] / 2).clamp(TWIN_OVERTAKEN, TWIN_OVERTAKEN * 4);
            let is_behind = is_transfer(key.0) && self.ended_of[class] - waiting.own_before > most
                || self.is_far_behind(key.0, &waiting, now_ns);
            let waited_ns = now_ns.saturating_sub(waiting.start_ns);
            let is_long = self.known[class] >= LEFT_OVERTAKEN
                && waited_ns / LEFT_TIMES_LONGEST > self.longest_ns[class];
            let is_long = is_long
                || TRANSFERS.iter().map(|class| self.known[*class]).sum::<u64>() >= LEFT_OVERTAKEN
                    && self.has_waited_long(key.0, &waiting, now_ns);
            let may_be_lost = is_long || has_no_ends || waiting.left_ns.is_some();
            let is_lost = is_behind || are_arrivals && may_be_lost;
            lost += u64::from(is_lost);
            match waiting.left_ns {
                None if is_lost => self.leave(&key, now_ns),
                // It may only starve.
                Some(left_ns) if !is_lost => self.correct(left_ns, 1),
                _ => {}
            }
            if let Some(waiting) = self.waiting.get(&key).copied().filter(|_| is_lost) {
                self.count_lost(&waiting, now_ns);
            }
        }
        let usual_ns = Class::ALL.map(|class| self.usual_ns(class).unwrap_or(0));
        self.doubts.finish(now_ns, |class| usual_ns[class as usize]);
        lost
    }

    fn forget_old(&mut self, now_ns: u64) {
        let before = self.waiting.len();
        self.forget(now_ns, |waiting| now_ns.saturating_sub(waiting.start_ns) >= AGE_NS_MAX);
        // What frees little would be done again for nearly each one to come.
        if self.waiting.len() > before - before / 4 {
            // Hardly any end is there, and what the few tell of all others is nothing.
            self.known = Default::default();
            self.forget(now_ns, |_| true);
        }
    }
}

/// All requests in flight.
#[derive(Debug)]
pub struct Flight {
    arrived: Table,
    issued: Table,
    given_back: u64,
}

impl Default for Flight {
    fn default() -> Self {
        let (arrived, issued) = (Table::new(Level::Arrived), Table::new(Level::Issued));
        Self { arrived, issued, given_back: 0 }
    }
}

impl Flight {
    /// Takes the next step; what has ended with it is added to `done`.
    pub fn step(&mut self, event: &Event, done: &mut Vec<Done>) {
        match event.action {
            Action::Queue => self.arrived.add(event),
            Action::Issue => {
                self.arrived.issue(event);
                self.issued.add(event);
            }
            Action::Complete => {
                self.issued.end(event, done);
                self.arrived.end(event, done);
            }
            Action::BioComplete => self.arrived.end(event, done),
            Action::Requeue if self.issued.take_back(event) => {
                self.given_back += 1;
                self.arrived.unissue(event);
            }
            _ => {}
        }
    }

    /// Of requests that are taken for arrived when the driver gets them: it gave one back, which begins anew when it is issued once
    /// more. False when it had not begun with any.
    pub fn arrived_back(&mut self, event: &Event) -> bool {
        self.arrived.take_back(event)
    }

    /// How many requests the driver had and gave back: each of them has been, or will be, issued once more.
    #[must_use]
    pub fn given_back(&self) -> u64 {
        self.given_back
    }

    /// Ends may be missing from now on: a request that others have overtaken may be one whose end was lost. Where none is missing, it
    /// waits, and every one that has begun is in flight until its end.
    pub fn had_losses(&mut self) {
        self.arrived.had_losses();
        self.issued.had_losses();
    }

    /// What began up to that moment has ended, as somebody else knows: where its end has not been seen, it was lost.
    pub fn forget_before(&mut self, start_ns: u64) {
        self.arrived.forget(start_ns, |waiting| waiting.start_ns <= start_ns);
        self.issued.forget(start_ns, |waiting| waiting.start_ns <= start_ns);
    }

    /// Requests in flight: arrived, and in the hands of the driver.
    #[must_use]
    pub fn depth(&self) -> (usize, usize) {
        (self.arrived.waiting.len(), self.issued.waiting.len())
    }

    /// Of those that arrived, how many are in flight; those do not count whose ends seem to be lost.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.arrived.waiting.len() - self.arrived.left
    }

    /// Of those that the driver got, how many it has; those do not count whose ends seem to be lost.
    #[must_use]
    pub fn with_driver(&self) -> usize {
        self.issued.waiting.len() - self.issued.left
    }

    /// What is known by now of how many of those that arrived were in flight: from that time on so many more, or fewer. Once each.
    pub fn corrections(&mut self) -> Vec<(u64, i64)> {
        std::mem::take(&mut self.arrived.corrections)
    }

    /// Requests whose ends never came, each of them once: the end of what arrived is that of what the driver got.
    #[must_use]
    pub fn abandoned(&self) -> u64 {
        self.arrived.abandoned.max(self.issued.abandoned)
    }

    /// What began up to that moment may have ended: it counts as in flight for as long as its class takes, unless its end comes after all.
    pub fn leave_before(&mut self, time_ns: u64) {
        self.arrived.leave_before(time_ns);
        self.issued.leave_before(time_ns);
    }

    /// Events were lost between these moments, and some from there may be there all the same: what waited then took nobody knows how long.
    pub fn hole(&mut self, from_ns: u64, to_ns: u64) {
        self.arrived.holes.add(from_ns, to_ns);
        self.issued.holes.add(from_ns, to_ns);
    }

    /// How many requests may have been in flight for longer, or less long, than they count, and by how much together.
    #[must_use]
    pub fn unsure(&self) -> (u64, u64) {
        self.arrived.doubts.found()
    }

    /// The trace ends, and how many still wait whose ends were lost: none where no end may be missing.
    pub fn finish(&mut self, now_ns: u64) -> u64 {
        self.arrived.finish(now_ns, true).max(self.issued.finish(now_ns, false))
    }
}

/// Requests that a driver has given back and not got again, by what they are known by: each is the same one when it is issued once more.
#[derive(Debug, Default)]
pub struct GivenBack(HashSet<(Class, u64, u32)>);

/// What drivers give back at once is far below; of more, some count once more when they are issued anew.
const GIVEN_BACK_MAX: usize = 1 << 16;

impl GivenBack {
    /// The driver had it and gave it back.
    pub fn add(&mut self, event: &Event) {
        if self.0.len() < GIVEN_BACK_MAX {
            self.0.insert((event.class, event.sector, event.sectors));
        }
    }

    /// The driver gets it: true when that is not the first time.
    pub fn take(&mut self, event: &Event) -> bool {
        self.0.remove(&(event.class, event.sector, event.sectors))
    }
}

#[cfg(test)]
#[path = "flight_tests.rs"]
mod tests;
