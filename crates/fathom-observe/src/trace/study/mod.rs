//! What a trace says about a workload: events in, one record out, in constant memory.

mod classes;
mod driver;
mod places;
mod times;

use self::classes::Classes;
use self::driver::Driver;
use self::places::Places;
use self::times::Times;
use super::event::{Action, Class, Event, Flags, Names};
use super::flight::{Done, Flight, GivenBack, Level};
use fathom_base::order::Order;
use fathom_model::capture::{CaptureFaults, CaptureProcess, CaptureRecord};
use std::collections::HashMap;

/// Different processes that are told apart by name; the rest counts under the name of none.
const PROCESSES_MAX: usize = 1024;

/// A trace that is being looked at.
#[derive(Debug)]
pub struct Study {
    flight: Flight,
    done: Vec<Done>,
    classes: Classes,
    places: Places,
    times: Times,
    driver: Driver,
    processes: HashMap<u32, CaptureProcess>,
    record: CaptureRecord,
    first_ns: Option<u64>,
    last_ns: u64,
    /// When the first request arrived, and when the last one did or ended.
    asked_ns: Option<(u64, u64)>,
    arrived: u64,
    /// Requests as the driver got them, which count where none arrive.
    of_driver: Option<Box<Self>>,
    /// Whether the driver's requests show: then seeks are theirs.
    has_issues: bool,
    /// In flight of those whose ends are told.
    told: usize,
    /// Of driver's requests that count.
    given_back: GivenBack,
}

impl Study {
    /// Of a device of that size; 0 when it is not known.
    #[must_use]
    pub fn new(size_bytes: u64) -> Self {
        let of_driver = Some(Box::new(Self::without_second(size_bytes)));
        Self { of_driver, ..Self::without_second(size_bytes) }
    }

    fn without_second(size_bytes: u64) -> Self {
        Self {
            flight: Flight::default(),
            done: Vec::new(),
            classes: Classes::default(),
            places: Places::new(),
            times: Times::default(),
            driver: Driver::default(),
            processes: HashMap::new(),
            record: CaptureRecord { size_bytes, ..CaptureRecord::default() },
            first_ns: None,
            last_ns: 0,
            asked_ns: None,
            arrived: 0,
            of_driver: None,
            has_issues: false,
            told: 0,
            given_back: GivenBack::default(),
        }
    }

    /// The trace begins at that time, whether or not anything happens.
    pub fn begin(&mut self, time_ns: u64) {
        self.first_ns = Some(time_ns);
        self.last_ns = self.last_ns.max(time_ns);
        self.times.begin(time_ns);
        self.driver.begin(time_ns);
        if let Some(second) = &mut self.of_driver {
            second.begin(time_ns);
        }
    }

    /// Takes the next event.
    pub fn event(&mut self, event: &Event, names: &Names) {
        self.record.events += 1;
        let time_ns = self.in_order(event.time_ns);
        let event = Event { time_ns, ..*event };
        if self.first_ns.is_none() {
            self.begin(time_ns);
        }
        self.count(&event);
        if event.action == Action::Queue {
            self.arrive(&event, names);
            // From now on it is known which requests count.
            self.of_driver = None;
        }
        if let Some(second) = &mut self.of_driver {
            second.of_driver_event(&event, names);
        }
        self.flight.step(&event, &mut self.done);
        for done in self.done.drain(..) {
            if !done.spans_hole {
                self.classes.ended(&done);
            }
            if done.level == Level::Arrived {
                self.asked_ns = self.asked_ns.map(|(first_ns, _)| (first_ns, time_ns));
                self.record.errors += u64::from(done.has_failed);
                if matches!(done.class, Class::Read | Class::Write) && !done.spans_hole {
                    self.times.ended(&done);
                }
            }
        }
        self.count_depth(time_ns);
    }

    /// How many are in flight, and what is known by now of how many were.
    fn count_depth(&mut self, time_ns: u64) {
        for (from_ns, by) in self.flight.corrections() {
            self.times.correct(from_ns, by);
        }
        self.times.depth(time_ns, self.flight.in_flight());
        self.driver.depth(time_ns, self.flight.with_driver());
    }

    /// Ends of requests may be missing from now on: see [`Flight::had_losses`].
    pub fn had_losses(&mut self) {
        self.flight.had_losses();
        if let Some(second) = &mut self.of_driver {
            second.had_losses();
        }
    }

    /// The same of a trace in which the driver's requests count: each arrives when it is issued, and one that was given back is the
    /// same one when it is issued once more.
    fn of_driver_event(&mut self, event: &Event, names: &Names) {
        let arrival = Event { action: Action::Queue, ..*event };
        match event.action {
            Action::Issue if self.given_back.take(event) => {
                self.flight.step(&arrival, &mut self.done);
                self.count_depth(event.time_ns);
            }
            Action::Issue => self.event(&arrival, names),
            Action::Complete => self.event(event, names),
            Action::Requeue if self.flight.arrived_back(event) => {
                self.count_depth(event.time_ns);
                self.given_back.add(event);
            }
            _ => {}
        }
    }

    /// Events before that moment were lost, ends among them: whatever was in flight counts as ended unless its end comes, since those
    /// whose ends were lost would stay in flight and hide how many really are. What began before it has no latency: the end at its place
    /// may be that of another one.
    pub fn gap(&mut self, time_ns: u64) {
        self.flight.had_losses();
        self.flight.leave_before(time_ns);
        self.lost(self.last_ns, time_ns);
        if let Some(second) = &mut self.of_driver {
            second.gap(time_ns);
        }
    }

    /// Events that come now were lost between these moments: see [`Flight::hole`].
    pub fn hole(&mut self, from_ns: u64, to_ns: u64) {
        self.flight.hole(from_ns, to_ns);
        self.lost(from_ns, to_ns);
        if let Some(second) = &mut self.of_driver {
            second.hole(from_ns, to_ns);
        }
    }

    fn lost(&mut self, from_ns: u64, to_ns: u64) {
        if self.first_ns.is_some() {
            self.times.lost(from_ns, to_ns);
        }
    }

    /// A request begins whose end is told, by [`Study::told_end`]: nothing has to be looked for.
    pub fn told_begin(&mut self, event: &Event, names: &Names) {
        self.record.events += 1;
        let time_ns = self.in_order(event.time_ns);
        if self.first_ns.is_none() {
            self.begin(time_ns);
        }
        self.of_driver = None;
        self.arrive(&Event { time_ns, ..*event }, names);
        self.told += 1;
        self.times.depth(time_ns, self.told);
    }

    /// It has ended. Its times are its own: it may have arrived before it began.
    pub fn told_end(&mut self, done: &Done) {
        self.record.events += 1;
        let end_ns = self.in_order(done.end_ns);
        let done = Done { level: Level::Arrived, end_ns: end_ns.max(done.start_ns), ..*done };
        self.classes.ended(&done);
        if let Some(issue_ns) = done.issue_ns {
            self.classes.ended(&Done { level: Level::Issued, start_ns: issue_ns, ..done });
        }
        self.record.errors += u64::from(done.has_failed);
        if matches!(done.class, Class::Read | Class::Write) {
            self.times.ended(&done);
        }
        self.told = self.told.saturating_sub(1);
        self.asked_ns = self.asked_ns.map(|(first_ns, _)| (first_ns, end_ns));
        self.times.depth(end_ns, self.told);
    }

    /// Time that does not go back: what comes late happened now.
    fn in_order(&mut self, time_ns: u64) -> u64 {
        let faults = &mut self.record.faults;
        if time_ns < self.last_ns && self.first_ns.is_some() {
            faults.late += 1;
            faults.back_ns_max = faults.back_ns_max.max(self.last_ns - time_ns);
        }
        self.last_ns = self.last_ns.max(time_ns);
        self.last_ns
    }

    fn count(&mut self, event: &Event) {
        let record = &mut self.record;
        match event.action {
            Action::Issue => {
                record.issued += 1;
                if !self.has_issues {
                    self.has_issues = true;
                    self.places.forget_seeks();
                }
                if has_place(event) {
                    let is_seek = self.places.moved(event);
                    self.times.seek(event.time_ns, is_seek);
                }
            }
            Action::FrontMerge => record.merges[0] += 1,
            Action::BackMerge => record.merges[1] += 1,
            Action::RequestMerge => record.merges[2] += 1,
            Action::Requeue => record.requeues += 1,
            Action::Split => record.splits += 1,
            Action::Remap => record.remaps += 1,
            _ => {}
        }
    }

    fn arrive(&mut self, event: &Event, names: &Names) {
        self.arrived += 1;
        let first_ns = self.asked_ns.map_or(event.time_ns, |(first_ns, _)| first_ns);
        self.asked_ns = Some((first_ns, event.time_ns));
        self.classes.arrived(event);
        self.times.arrived(event);
        if has_place(event) {
            if self.places.arrived(event) {
                self.classes.follows(event);
            }
            self.times.place(event);
            if !self.has_issues {
                let is_seek = self.places.moved(event);
                self.times.seek(event.time_ns, is_seek);
            }
        }
        let is_known = self.processes.contains_key(&event.name);
        let name = if is_known || self.processes.len() < PROCESSES_MAX { event.name } else { 0 };
        let process = self.processes.entry(name).or_insert_with(|| CaptureProcess {
            name: names.get(name).to_owned(),
            pid: event.process,
            ..CaptureProcess::default()
        });
        process.count += 1;
        process.bytes += u64::from(event.sectors) * super::event::SECTOR_BYTES;
        process.writes += u64::from(event.class == Class::Write);
    }

    /// What it came to. `end_ns` is when the trace ends, where that is later than its last event.
    #[must_use]
    pub fn finish(mut self, end_ns: Option<u64>) -> CaptureRecord {
        let end_ns = end_ns.unwrap_or(0).max(self.last_ns);
        if let Some(second) = self.of_driver.take().filter(|second| second.arrived > 0) {
            return self.of_the_driver(*second, end_ns);
        }
        let first_ns = self.first_ns.unwrap_or(end_ns);
        let mut record = self.record;
        record.window_ns = end_ns.saturating_sub(first_ns);
        // What was given back was issued once more, and is one request all the same.
        record.issued = record.issued.saturating_sub(self.flight.given_back());
        let left = self.flight.finish(end_ns);
        for (from_ns, by) in self.flight.corrections() {
            self.times.correct(from_ns, by);
        }
        record.faults.abandoned = self.flight.abandoned() + left;
        (record.faults.unsure, record.faults.unsure_ns) = self.flight.unsure();
        if let Some((from_ns, to_ns)) = self.asked_ns {
            (record.first_ns, record.last_ns) = (from_ns - first_ns, to_ns - first_ns);
        }
        record.classes = self.classes.finish();
        record.places = self.places.finish();
        self.times.finish(end_ns, &mut record);
        if self.has_issues {
            record.driver_depth_ns = self.driver.finish(end_ns);
        }
        record.processes = self.processes.into_values().collect();
        record
            .processes
            .order_by(|a, b| (b.bytes, b.count, &a.name).cmp(&(a.bytes, a.count, &b.name)));
        record
    }

    /// Nothing arrived: what the driver got counts.
    fn of_the_driver(self, second: Self, end_ns: u64) -> CaptureRecord {
        let mut record = second.finish(Some(end_ns));
        let own = self.record;
        record.is_of_driver = true;
        record.events = own.events;
        record.issued = own.issued.saturating_sub(self.flight.given_back());
        record.requeues = own.requeues;
        record.merges = own.merges;
        let CaptureFaults { abandoned, unsure, unsure_ns, .. } = record.faults;
        record.faults = CaptureFaults { abandoned, unsure, unsure_ns, ..own.faults };
        for class in &mut record.classes {
            class.service_ns = std::mem::take(&mut class.total_ns);
        }
        record
    }
}

/// Flushes and commands are nowhere, and what is discarded is not gone to.
fn has_place(event: &Event) -> bool {
    event.sectors > 0 && matches!(event.class, Class::Read | Class::Write)
}

/// How often each flag is set.
fn flag_counts(event: &Event) -> [u64; 5] {
    [Flags::SYNC, Flags::META, Flags::FUA, Flags::PREFLUSH, Flags::AHEAD]
        .map(|flag| u64::from(event.flags.has(flag)))
}

#[cfg(test)]
mod depth_tests;
#[cfg(test)]
mod tests;
