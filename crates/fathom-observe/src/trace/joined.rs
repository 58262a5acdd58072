//! Requests that were merged before the driver got them, put together again.
//!
//! That one was merged is told behind its arrival, with what other processors and processes do in between. So arrivals are held back until
//! the driver gets them, or for so long that what comes then is left to the scheduler of whoever issues them once more.

use super::event::{Action, Class, Event};
use std::collections::VecDeque;

/// Of the trace's time: what arrives later is not put together, as the first would have to wait for it.
pub const TOGETHER_NS: u64 = 1_000_000;
/// So many are held back at most.
const HELD: usize = 1024;

/// Arrivals that lie behind each other and were one request to the driver, or a single one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// By place.
    pub arrivals: Vec<Event>,
    /// When the first of them arrived.
    pub first_ns: u64,
    /// When the last of them did.
    pub last_ns: u64,
    is_issued: bool,
}

impl Run {
    fn of(arrival: Event) -> Self {
        let (first_ns, last_ns) = (arrival.time_ns, arrival.time_ns);
        Self { arrivals: vec![arrival], first_ns, last_ns, is_issued: false }
    }

    fn class(&self) -> Option<Class> {
        self.arrivals.first().map(|first| first.class)
    }

    fn sector(&self) -> u64 {
        self.arrivals.first().map_or(0, |first| first.sector)
    }

    fn end(&self) -> u64 {
        self.arrivals.last().map_or(0, |last| last.sector + u64::from(last.sectors))
    }

    /// Sectors of all of them.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        self.end().saturating_sub(self.sector())
    }

    fn begins(&self, event: &Event) -> bool {
        !self.is_issued && self.class() == Some(event.class) && self.sector() == event.sector
    }

    fn touches(&self, other: &Self) -> bool {
        let is_near =
            self.last_ns.max(other.last_ns) - self.first_ns.min(other.first_ns) <= TOGETHER_NS;
        let is_beside = self.end() == other.sector() || other.end() == self.sector();
        !self.is_issued && self.class() == other.class() && is_beside && is_near
    }

    fn join(&mut self, other: Self) {
        self.first_ns = self.first_ns.min(other.first_ns);
        self.last_ns = self.last_ns.max(other.last_ns);
        let is_behind = self.end() == other.sector();
        let at = if is_behind { self.arrivals.len() } else { 0 };
        self.arrivals.splice(at..at, other.arrivals);
    }
}

/// Arrivals that are held back, in the order in which the last of each run arrived.
#[derive(Debug, Default)]
pub struct Joined {
    held: VecDeque<Run>,
    now_ns: u64,
}

impl Joined {
    /// Sees an event of the trace, with the arrival that it is where it is one that counts.
    pub fn see(&mut self, event: &Event, arrival: Option<Event>) {
        self.now_ns = self.now_ns.max(event.time_ns);
        self.held.extend(arrival.map(Run::of));
        match event.action {
            Action::BackMerge | Action::FrontMerge | Action::RequestMerge => self.merge(event),
            Action::Issue => {
                let issued = self.held.iter_mut().find(|run| run.begins(event));
                issued.into_iter().for_each(|run| run.is_issued = true);
            }
            _ => {}
        }
    }

    fn merge(&mut self, event: &Event) {
        let Some(at) = self.held.iter().rposition(|run| run.begins(event)) else { return };
        let touches = |(number, run): &(usize, &Run)| *number != at && run.touches(&self.held[at]);
        let Some((with, _)) = self.held.iter().enumerate().rfind(touches) else { return };
        let (earlier, later) = (at.min(with), at.max(with));
        let Some(run) = self.held.remove(earlier) else { return };
        // The later one has moved up.
        self.held[later - 1].join(run);
    }

    /// The next run that is whole.
    pub fn next_run(&mut self) -> Option<Run> {
        let first = self.held.front()?;
        let is_old = self.now_ns.saturating_sub(first.first_ns) > TOGETHER_NS;
        if first.is_issued || is_old || self.held.len() > HELD { self.rest() } else { None }
    }

    /// The next one, when no more events come.
    pub fn rest(&mut self) -> Option<Run> {
        self.held.pop_front()
    }
}

/// The steps of a trace in which each run is one request that arrives when its last part did: what else happens waits until all that arrived
/// before it is whole.
#[derive(Debug, Default)]
pub struct AsOne {
    joined: Joined,
    later: VecDeque<Event>,
    /// Reads and writes that arrived.
    pub arrived: u64,
}

impl AsOne {
    /// Takes the next step, and hands on what can be told by now.
    pub fn add(&mut self, event: &Event, hand_on: &mut dyn FnMut(&Event)) {
        let arrives = event.action == Action::Queue;
        let moves = matches!(event.class, Class::Read | Class::Write);
        self.arrived += u64::from(arrives && moves);
        self.joined.see(event, arrives.then_some(*event));
        match event.action {
            Action::Queue | Action::BackMerge | Action::FrontMerge | Action::RequestMerge => {}
            _ => self.later.push_back(*event),
        }
        while let Some(run) = self.joined.next_run() {
            self.hand_on(&run, hand_on);
        }
        let before_ns = self.joined.held.front().map_or(u64::MAX, |run| run.last_ns);
        self.hand_on_before(before_ns, hand_on);
    }

    /// Hands on what is left.
    pub fn end(&mut self, hand_on: &mut dyn FnMut(&Event)) {
        while let Some(run) = self.joined.rest() {
            self.hand_on(&run, hand_on);
        }
        self.hand_on_before(u64::MAX, hand_on);
    }

    fn hand_on(&mut self, run: &Run, hand_on: &mut dyn FnMut(&Event)) {
        self.hand_on_before(run.last_ns, hand_on);
        let Some(first) = run.arrivals.first() else { return };
        let sectors = u32::try_from(run.sectors()).unwrap_or(u32::MAX);
        hand_on(&Event { time_ns: run.last_ns, sectors, ..*first });
    }

    fn hand_on_before(&mut self, time_ns: u64, hand_on: &mut dyn FnMut(&Event)) {
        while let Some(event) = self.later.pop_front_if(|event| event.time_ns < time_ns) {
            hand_on(&event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Action::{BackMerge, Complete, FrontMerge, Issue, Queue, RequestMerge};

    fn at(action: Action, us: u64, sector: u64) -> Event {
        Event { sector, sectors: 8, class: Class::Write, ..Event::new(action, us * 1000) }
    }

    /// First sectors of what lies together, and when the first and the last arrived, in microseconds.
    fn runs(events: &[Event]) -> Vec<(Vec<u64>, u64, u64)> {
        let mut joined = Joined::default();
        let mut found = Vec::new();
        for event in events {
            joined.see(event, (event.action == Queue).then_some(*event));
            found.extend(std::iter::from_fn(|| joined.next_run()));
        }
        found.extend(std::iter::from_fn(|| joined.rest()));
        let sectors = |run: &Run| run.arrivals.iter().map(|one| one.sector).collect();
        found.iter().map(|run| (sectors(run), run.first_ns / 1000, run.last_ns / 1000)).collect()
    }

    #[test]
    fn what_was_merged_is_one_though_others_come_between() {
        let read = |us, sector| Event { class: Class::Read, ..at(Queue, us, sector) };
        let events = [
            at(Queue, 0, 0),
            read(10, 8),
            at(Queue, 50, 8),
            read(60, 1000),
            at(BackMerge, 61, 8),
            at(Queue, 100, 16),
            at(BackMerge, 101, 16),
            Event { sectors: 24, ..at(Issue, 120, 0) },
            at(Queue, 130, 24),
            at(BackMerge, 131, 24),
        ];
        let found = runs(&events);
        let expected = [
            (vec![8], 10, 10),
            (vec![1000], 60, 60),
            (vec![0, 8, 16], 0, 100),
            // The driver had it by then: whatever this one was merged into.
            (vec![24], 130, 130),
        ];
        assert_eq!(found, expected);
    }

    /// What ends in between is told in its turn.
    #[test]
    fn a_run_is_one_request_in_order_of_time() {
        let read = |action, us| Event { class: Class::Read, ..at(action, us, 1000) };
        let events = [
            read(Queue, 0),
            read(Issue, 1),
            at(Queue, 10, 0),
            at(Queue, 20, 8),
            at(BackMerge, 21, 8),
            read(Complete, 22),
            at(Queue, 30, 16),
            at(BackMerge, 31, 16),
            Event { sectors: 24, ..at(Issue, 40, 0) },
            Event { sectors: 24, ..at(Complete, 50, 0) },
        ];
        let (mut as_one, mut told) = (AsOne::default(), Vec::new());
        let mut hand_on = |e: &Event| told.push((e.action, e.time_ns / 1000, e.sector, e.sectors));
        events.iter().for_each(|event| as_one.add(event, &mut hand_on));
        as_one.end(&mut hand_on);
        let expected = [
            (Queue, 0, 1000, 8),
            (Issue, 1, 1000, 8),
            (Complete, 22, 1000, 8),
            (Queue, 30, 0, 24),
            (Issue, 40, 0, 24),
            (Complete, 50, 0, 24),
        ];
        assert_eq!((told.as_slice(), as_one.arrived), (&expected[..], 4));
    }

    #[test]
    fn before_behind_and_whole_requests() {
        let events = [
            at(Queue, 0, 16),
            at(Queue, 1, 8),
            at(FrontMerge, 2, 8),
            at(Queue, 3, 32),
            at(Queue, 4, 24),
            at(FrontMerge, 5, 24),
            Event { sectors: 16, ..at(RequestMerge, 6, 24) },
        ];
        assert_eq!(runs(&events), [(vec![8, 16, 24, 32], 0, 4)]);
    }

    #[test]
    fn none_waits_longer_than_a_millisecond_and_none_for_others() {
        let merged = |us| [at(Queue, us, 8), at(BackMerge, us, 8)];
        let early = [&[at(Queue, 0, 0)], &merged(1000)[..]].concat();
        assert_eq!(runs(&early), [(vec![0, 8], 0, 1000)]);
        let late = [&[at(Queue, 0, 0)], &merged(1001)[..]].concat();
        assert_eq!(runs(&late), [(vec![0], 0, 0), (vec![8], 1001, 1001)]);
        // Of a trace without a word of the driver all are handed on, in constant memory.
        let mut joined = Joined::default();
        for number in 0..5000 {
            let event = at(Queue, 0, number * 8);
            joined.see(&event, Some(event));
            let count = std::iter::from_fn(|| joined.next_run()).count() as u64;
            assert_eq!(count, u64::from(number >= HELD as u64));
        }
        joined.see(&at(Complete, 1001, 0), None);
        assert_eq!(std::iter::from_fn(|| joined.next_run()).count(), HELD);
    }
}
