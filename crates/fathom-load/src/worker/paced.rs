//! The parts of the measured loop that only a paced job has: open loops, think time, caps.

use super::{Slot, Stage, Worker};
use crate::engine::Engine;
use crate::generator::{Kind, Request};
use crate::pace::{OpenLoop, Pace};
use crate::payload::Payload;
use fathom_base::clock::Clock;
use fathom_model::record::OpClass;
use std::io;

/// A sleeping worker looks that often whether it is to stop.
const LOOK_AROUND_NS: u64 = 50_000_000;

/// How much earlier than asked a worker wakes up at the most, to spend the rest awake: what sleeps on an idle machine
/// end too late by.
const AWAKE_NS_MAX: u64 = 100_000;

/// What starts within that time after it was due started in time.
const IN_TIME_NS_MAX: u64 = 1_000_000;

impl<E: Engine, C: Clock, P: Payload> Worker<'_, E, C, P> {
    pub(super) fn open_loop(&mut self) -> Option<&mut OpenLoop> {
        match &mut self.pace {
            Some(Pace::Open(open)) => Some(open),
            _ => None,
        }
    }

    /// Issues what may start now into free slots. False when the generator is used up.
    pub(super) fn fill_paced(&mut self) -> bool {
        let now_ns = self.clock.now_ns();
        match &mut self.pace {
            Some(Pace::Open(open)) => {
                open.arrive(now_ns);
                if !self.free.is_empty() {
                    open.look(now_ns);
                }
                // What starts right away has not waited; what fathom was late for has, also where there is a place for all of it.
                if open.oldest_wait_ns(now_ns) > IN_TIME_NS_MAX {
                    self.note_backlog();
                }
                let goes_on = self.fill_open(now_ns);
                self.note_backlog();
                goes_on && self.generator.has_more()
            }
            Some(Pace::Slowed(slowed)) => {
                slowed.wake(now_ns, &mut self.free);
                self.fill_slowed(now_ns) && self.generator.has_more()
            }
            // Not called: the plain loop has its own way, and a second caller would make that one slower.
            None => false,
        }
    }

    fn fill_open(&mut self, now_ns: u64) -> bool {
        let mut opened_at_ns = None;
        let goes_on = loop {
            let Some(Pace::Open(open)) = &mut self.pace else { break true };
            if open.backlog() == 0 {
                break true;
            }
            let Some(slot) = self.free.pop() else { break true };
            let Some(request) = self.generator.next() else {
                self.free.push(slot);
                break false;
            };
            open.start(slot, now_ns);
            let Some(file) = self.ready_file(request.file, &mut opened_at_ns) else { break false };
            self.issue_any(slot, Request { file, ..request }, now_ns);
        };
        self.stamp_waiting(opened_at_ns);
        // With operations for no slot at all, nothing ever starts.
        goes_on && !self.slots.is_empty()
    }

    fn fill_slowed(&mut self, now_ns: u64) -> bool {
        let mut opened_at_ns = None;
        let goes_on = loop {
            let Some(Pace::Slowed(slowed)) = &mut self.pace else { break true };
            if !slowed.may_start(now_ns) {
                break true;
            }
            let Some(slot) = self.free.pop() else { break true };
            let Some(request) = self.generator.next() else {
                self.free.push(slot);
                break false;
            };
            // A round of syncs is owed by the requests before it, and none itself.
            if request.kind != Kind::SyncAll {
                slowed.start(request.size_bytes, now_ns);
            }
            let Some(file) = self.ready_file(request.file, &mut opened_at_ns) else { break false };
            self.issue_any(slot, Request { file, ..request }, now_ns);
        };
        self.stamp_waiting(opened_at_ns);
        goes_on && !self.slots.is_empty()
    }

    /// Hands over and waits for the end of a request or for the time of the next one, but not beyond `edge_ns`.
    ///
    /// A sleep ends too late, by a time that is learnt, so it is made that much shorter; the rest is spent looking.
    pub(super) fn run_until_next(&mut self, edge_ns: u64) -> io::Result<u32> {
        let now_ns = self.clock.now_ns();
        let free = self.free.len();
        let start_ns = self.pace.as_ref().map_or(now_ns, |pace| pace.next_start_ns(now_ns, free));
        let awake_ns = (2 * self.sleep_excess_ns).min(AWAKE_NS_MAX);
        let until_ns = start_ns.saturating_sub(awake_ns).min(edge_ns).min(now_ns + LOOK_AROUND_NS);
        let wait_ns = until_ns.saturating_sub(now_ns);
        let ended = self.engine.run_for(self.rules.batch.min(self.in_flight).max(1), wait_ns)?;
        if ended == 0 && wait_ns > 0 {
            self.learn_from_sleep(until_ns);
        }
        Ok(ended)
    }

    /// A wait that came back before its time was no sleep: an engine that polls only looks, a signal wakes.
    fn learn_from_sleep(&mut self, until_ns: u64) {
        if let Some(excess_ns) = self.clock.now_ns().checked_sub(until_ns) {
            self.sleep_excess_ns = (7 * self.sleep_excess_ns + excess_ns.min(AWAKE_NS_MAX)) / 8;
        }
    }

    /// Before an interval is closed: the backlog at its end.
    pub(super) fn note_backlog_at_border(&mut self, now_ns: u64) {
        if let Some(border_ns) = self.recorder.border_before(now_ns)
            && let Some(open) = self.open_loop()
        {
            open.arrive(border_ns);
            self.note_backlog();
        }
    }

    /// What is due and not started, but not more than there is to do.
    fn note_backlog(&mut self) {
        if let Some(Pace::Open(open)) = &self.pace {
            self.recorder.note_backlog(open.backlog().min(self.generator.requests_left()));
        }
    }

    #[inline]
    pub(super) fn note_response(&mut self, number: u32, class: OpClass, now_ns: u64) {
        if let Some(open) = self.open_loop() {
            let response_ns = open.response_ns(number, now_ns);
            self.recorder.record_response(class, response_ns);
        }
    }

    /// The slot of a request that has ended is free, or waits.
    #[inline]
    pub(super) fn release_paced(&mut self, number: u32, now_ns: u64) {
        let thinks = match &mut self.pace {
            Some(Pace::Open(open)) => {
                if self.free.is_empty() {
                    open.slot_freed(now_ns);
                }
                false
            }
            Some(Pace::Slowed(slowed)) => slowed.think(number, now_ns),
            None => false,
        };
        if thinks {
            return;
        }
        self.free.push(number);
    }

    /// The window ends: what is in flight has not ended in time.
    pub(super) fn note_unfinished(&mut self, end_ns: u64) {
        let Some(Pace::Open(open)) = &mut self.pace else { return };
        for (number, slot) in (0u32..).zip(&self.slots) {
            if slot.stage != Stage::Free {
                open.in_flight_at_end(number, slot.response_class(), end_ns);
            }
        }
    }

    /// Nothing more is issued, though until now more was to be: what was due by `end_ns` is never started.
    pub(super) fn end_arrivals(&mut self, is_early: bool, end_ns: u64) {
        let Some(Pace::Open(open)) = &mut self.pace else { return };
        if is_early {
            open.arrive_all(end_ns);
            let left = self.generator.requests_left();
            self.recorder.note_backlog(open.backlog().min(left));
            open.end(end_ns, left, || self.generator.next().map(Request::response_class));
        }
    }
}

impl Slot {
    /// The class of what an arrival is: a write and its sync are one.
    fn response_class(&self) -> OpClass {
        match self.stage {
            Stage::Free | Stage::Read => OpClass::Read,
            Stage::Write => OpClass::Write,
            Stage::SyncedWrite | Stage::Sync => OpClass::Commit,
            Stage::Trim => OpClass::Trim,
            Stage::Zero => OpClass::Zero,
            Stage::SyncAll => OpClass::Sync,
        }
    }
}

impl Request {
    fn response_class(self) -> OpClass {
        match (self.kind, self.sync_after) {
            (Kind::Read, _) => OpClass::Read,
            (Kind::Write, false) => OpClass::Write,
            (Kind::Write, true) => OpClass::Commit,
            (Kind::Trim, _) => OpClass::Trim,
            (Kind::Zero, _) => OpClass::Zero,
            (Kind::SyncAll, _) => OpClass::Sync,
        }
    }
}
