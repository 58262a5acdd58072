//! What measures the operations of one process: stamps, histograms, points, seconds, and what crosses the borders.

use crate::stream::Points;
use crate::window::{Place, Schedule, Slot, Window};
use fathom_base::clock::Clock;
use fathom_model::fsop::{Crossing, FsopProcess, Role, TimedOp};
use fathom_model::play::Played;
use fathom_model::record::{ClassRecord, OpClass};
use fathom_stats::Histogram;
use std::io;

/// Length of the parts in which operations are counted.
const SECOND_NS: u64 = 1_000_000_000;

/// The classes that readers have.
pub const READS: [OpClass; 6] = [
    OpClass::ReadDir,
    OpClass::Stat,
    OpClass::OpenRead,
    OpClass::FirstRead,
    OpClass::RestRead,
    OpClass::CloseRead,
];

/// The classes that writers have.
pub const WRITES: [OpClass; 8] = [
    OpClass::OpenDir,
    OpClass::OpenWrite,
    OpClass::FirstWrite,
    OpClass::RestWrite,
    OpClass::CloseWrite,
    OpClass::MakeDir,
    OpClass::Sync,
    OpClass::SyncDir,
];

/// The classes that clients of personalities have.
pub const PLAYS: [OpClass; 18] = [
    OpClass::OpenWrite,
    OpClass::Write,
    OpClass::Sync,
    OpClass::SyncDir,
    OpClass::CloseWrite,
    OpClass::Unlink,
    OpClass::OpenRead,
    OpClass::Read,
    OpClass::CloseRead,
    OpClass::OpenAppend,
    OpClass::Append,
    OpClass::Stat,
    OpClass::Rename,
    OpClass::Link,
    OpClass::List,
    OpClass::OpenDir,
    OpClass::MakeDir,
    OpClass::RemoveDir,
];

/// What happened to one process in one window.
#[derive(Debug)]
pub struct Counts {
    window: Window,
    classes: Vec<ClassRecord>,
    /// By class, where its record is.
    place: [u8; OpClass::ALL.len()],
    crossings: Vec<Crossing>,
    seconds: Vec<u64>,
    /// Vanished names when the window began.
    at_start: Option<u64>,
    /// Rounds and vanished names when the window was over.
    at_end: Option<(u64, u64)>,
    /// Operations on the time axis.
    pub points: Points,
}

impl Counts {
    fn new(window: Window, classes: &[OpClass], points: Points) -> Self {
        let mut place = [u8::MAX; OpClass::ALL.len()];
        (0u8..).zip(classes).for_each(|(index, class)| place[*class as usize] = index);
        let empty =
            |class: &OpClass| ClassRecord { class: *class, latency_ns: Histogram::new(), bytes: 0 };
        let seconds = window.length_ns().div_ceil(SECOND_NS).clamp(1, 100_000);
        Self {
            window,
            classes: classes.iter().map(empty).collect(),
            place,
            crossings: Vec::with_capacity(2),
            seconds: vec![0; seconds as usize],
            at_start: None,
            at_end: None,
            points,
        }
    }

    /// The window ends with the session, when that ends before it.
    fn cut(&mut self, cut_ns: u64) {
        let Window { start_ns, end_ns } = self.window;
        self.window.end_ns = cut_ns.clamp(start_ns, end_ns.max(start_ns));
        let seconds = self.window.length_ns().div_ceil(SECOND_NS).max(1);
        self.seconds.truncate(seconds as usize);
    }

    #[inline]
    fn note(&mut self, Noted { class, start_ns, end_ns, bytes }: Noted) {
        match (self.window.place(start_ns, end_ns), bytes) {
            (Place::Inside, Some(bytes)) => {
                let took_ns = end_ns - start_ns;
                if let Some(record) = self.classes.get_mut(usize::from(self.place[class as usize]))
                {
                    record.latency_ns.record(took_ns);
                    record.bytes += bytes;
                }
                let at_ns = start_ns - self.window.start_ns;
                let second = (end_ns - self.window.start_ns) / SECOND_NS;
                if let Some(count) = self.seconds.get_mut(second as usize) {
                    *count += 1;
                }
                self.points.note(TimedOp { class, start_ns: at_ns, took_ns });
            }
            // One that failed in the end hung all the same.
            (Place::Crosses, _) => {
                self.crossings.push(self.window.crossing(class, start_ns, Some(end_ns)));
            }
            (Place::Inside, None) | (Place::Before | Place::After, _) => {}
        }
    }
}

/// Operations that are noted before they are counted.
const NOTES: usize = 128;

/// An operation that has ended, and is not counted yet.
#[derive(Debug, Clone, Copy)]
struct Noted {
    class: OpClass,
    start_ns: u64,
    end_ns: u64,
    /// What it moved; none for one that failed.
    bytes: Option<u64>,
}

/// Stamps the operations of one process. The end of an operation is the beginning of the next, so that one look at the
/// clock is enough for each, and no time is lost between them.
///
/// Operations are only noted while they follow each other, and counted many at once, between two of them and in the time of
/// none: histograms that are touched after every call push what the kernel needs for the next one out of the processor's
/// caches, which costs more than the counting. What an operation is to a window follows from its stamps alone, whenever it
/// is counted.
pub struct Meter<'a, C: Clock> {
    clock: &'a C,
    slot: &'a Slot,
    counts: Vec<Counts>,
    /// The first `noted` are not counted yet.
    notes: Box<[Noted; NOTES]>,
    noted: usize,
    /// The window that goes on or comes next.
    current: usize,
    at_ns: u64,
    /// The next instant at which a window begins or ends.
    border_ns: u64,
    /// How often the whole tree was gone through.
    pub rounds: u64,
    /// Names that were gone.
    pub vanished: u64,
    /// When the process had nothing more to do.
    pub ended_ns: Option<u64>,
    /// The transactions of a client, which knows one window only.
    pub played: Option<Box<Played>>,
}

impl<'a, C: Clock> Meter<'a, C> {
    /// A meter for the windows of a schedule from number `first` on.
    pub fn new(
        clock: &'a C,
        slot: &'a Slot,
        schedule: &Schedule,
        first: usize,
        classes: &[OpClass],
        points: &mut dyn FnMut() -> Points,
    ) -> Self {
        let windows = schedule.windows.iter().skip(first);
        let border_ns = windows.clone().next().map_or(u64::MAX, |window| window.start_ns);
        let counts = windows.map(|window| Counts::new(*window, classes, points())).collect();
        let empty = Noted { class: OpClass::Stat, start_ns: 0, end_ns: 0, bytes: None };
        Self {
            clock,
            slot,
            counts,
            notes: Box::new([empty; NOTES]),
            noted: 0,
            current: 0,
            at_ns: clock.now_ns(),
            border_ns,
            rounds: 0,
            vanished: 0,
            ended_ns: None,
            played: None,
        }
    }

    /// The operation that comes now begins now, and not with the end of the last: something else was done between.
    #[inline]
    pub fn resume(&mut self) {
        if self.noted >= NOTES / 2 {
            self.settle();
        }
        self.at_ns = self.clock.now_ns();
    }

    /// Does and counts one operation; `bytes` says what it moved. One that fails is not counted, but told where it went over the
    /// border of a window.
    ///
    /// # Errors
    /// Those of the operation.
    #[inline(always)]
    pub fn time<T>(
        &mut self,
        class: OpClass,
        operation: impl FnOnce() -> io::Result<T>,
        bytes: impl FnOnce(&T) -> u64,
    ) -> io::Result<T> {
        if self.noted == NOTES {
            self.settle();
            self.at_ns = self.clock.now_ns();
        }
        let start_ns = self.at_ns;
        self.slot.begin(class, start_ns);
        let done = operation();
        self.end(class, start_ns, done.as_ref().ok().map(bytes));
        done
    }

    /// An operation has ended. One place for all, so that little of the processor's memory for instructions is taken from the
    /// kernel.
    #[inline(never)]
    fn end(&mut self, class: OpClass, start_ns: u64, bytes: Option<u64>) {
        let end_ns = self.clock.now_ns();
        self.at_ns = end_ns;
        self.slot.rest();
        if end_ns > self.border_ns {
            self.cross_borders();
        }
        if let Some(bytes) = bytes {
            self.slot.count(bytes);
        }
        if let Some(note) = self.notes.get_mut(self.noted) {
            *note = Noted { class, start_ns, end_ns, bytes };
            self.noted += 1;
        }
    }

    /// Counts what is noted.
    #[inline(never)]
    fn settle(&mut self) {
        for place in 0..std::mem::take(&mut self.noted) {
            self.count(self.notes[place]);
        }
    }

    fn count(&mut self, noted: Noted) {
        let (end_ns, cut_ns) = (noted.end_ns, self.slot.cut_ns());
        let Some(counts) = self.counts.get_mut(self.current) else { return };
        if end_ns > cut_ns {
            counts.cut(cut_ns);
        }
        counts.note(noted);
        if end_ns > counts.window.end_ns {
            // It may reach into the next window, or through all of it.
            self.current += 1;
            self.count(noted);
        }
    }

    /// Notes what was so far when windows began and ended.
    #[cold]
    fn cross_borders(&mut self) {
        let (at_ns, rounds, vanished) = (self.at_ns, self.rounds, self.vanished);
        self.border_ns = u64::MAX;
        for counts in &mut self.counts {
            let Window { start_ns, end_ns } = counts.window;
            if at_ns > start_ns {
                counts.at_start.get_or_insert(vanished);
            }
            if at_ns > end_ns {
                counts.at_end.get_or_insert((rounds, vanished));
            }
            let next = [start_ns, end_ns].into_iter().find(|border_ns| *border_ns >= at_ns);
            self.border_ns = self.border_ns.min(next.unwrap_or(u64::MAX));
        }
    }

    /// When the last operation ended.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.at_ns
    }

    /// When the session ends before its time; an instant that never comes while it does not.
    #[must_use]
    pub fn cut_ns(&self) -> u64 {
        self.slot.cut_ns()
    }

    /// What the process did, window by window, with the points of each.
    #[must_use]
    pub fn finish(mut self, role: Role, number: u32) -> Vec<(FsopProcess, Points)> {
        self.settle();
        let (now, ended_ns) = ((self.rounds, self.vanished), self.ended_ns);
        let cut_ns = self.slot.cut_ns();
        let of = |mut counts: Counts| {
            counts.cut(cut_ns);
            let (rounds, vanished) = counts.at_end.unwrap_or(now);
            let vanished = vanished - counts.at_start.unwrap_or(vanished).min(vanished);
            let ended = ended_ns.filter(|ns| *ns < counts.window.end_ns);
            let process = FsopProcess {
                role,
                number,
                classes: counts.classes,
                crossings: counts.crossings,
                slowest: counts.points.slowest(),
                operations_by_second: counts.seconds,
                rounds,
                vanished,
                ended_early_ns: ended.map(|ns| ns.saturating_sub(counts.window.start_ns)),
                played: self.played.take(),
            };
            (process, counts.points)
        };
        self.counts.into_iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_base::clock::ManualClock;
    use proptest::prelude::*;

    /// A process whose operations take what the list says, from instant 0 on, seen through two windows.
    fn seen(schedule: &Schedule, first: usize, took: &[(OpClass, u64)]) -> Vec<FsopProcess> {
        let (clock, slot) = (ManualClock::default(), Slot::default());
        let mut points = || Points::new(100, 1, 0);
        let mut meter = Meter::new(&clock, &slot, schedule, first, &READS, &mut points);
        for (class, took_ns) in took {
            let moved = meter.time(
                *class,
                || {
                    assert_eq!(slot.current(), Some((*class, clock.now_ns())));
                    clock.advance_ns(*took_ns);
                    Ok(10)
                },
                |bytes| *bytes,
            );
            assert_eq!(moved.expect("done"), 10);
        }
        meter.finish(Role::Reader, 0).into_iter().map(|(process, _)| process).collect()
    }

    #[test]
    fn windows_hold_what_lies_inside_and_list_what_crosses() {
        use OpClass::{ReadDir, Stat};
        // Windows from 100 to 200 and from 250 to 350.
        let schedule = Schedule::new(100, 100, &[0, 50]);
        let took =
            [(Stat, 90), (Stat, 20), (Stat, 40), (ReadDir, 45), (Stat, 60), (Stat, 95), (Stat, 9)];
        let [first, second] = &seen(&schedule, 0, &took)[..] else { panic!("two windows") };
        let count =
            |p: &FsopProcess, class| p.class(class).map(|c| (c.latency_ns.count(), c.bytes));
        assert_eq!(count(first, Stat), Some((1, 10)), "110 to 150");
        assert_eq!(count(first, ReadDir), Some((1, 10)), "150 to 195");
        let borders = |p: &FsopProcess| -> Vec<(i64, Option<u64>)> {
            p.crossings.iter().map(|c| (c.start_ns, c.took_ns)).collect()
        };
        // 90 to 110; 195 to 255, which crosses the first one's end and the second one's start.
        assert_eq!(borders(first), [(-10, Some(20)), (95, Some(60))]);
        assert_eq!(borders(second), [(-55, Some(60))]);
        assert_eq!(count(second, Stat), Some((1, 10)), "255 to 350, which is the border");
        assert_eq!(first.operations() + second.operations(), 3);
    }

    proptest! {
        /// Of operations one after the other, each is counted in the window in which it began and ended, listed by each whose
        /// start or end it goes over, and else nowhere: also those that began before a window and ended in it, and those that
        /// were noted long before they are counted.
        #[test]
        fn each_operation_is_where_its_instants_lie(
            lengths in proptest::collection::vec(1u64..400, 1..600),
            start_ns in 0u64..5_000,
            length_ns in 1u64..20_000,
            gap_ns in 0u64..2_000,
        ) {
            let schedule = Schedule::new(start_ns, length_ns, &[0, gap_ns]);
            let took: Vec<_> = lengths.iter().map(|ns| (OpClass::Stat, *ns)).collect();
            let processes = seen(&schedule, 0, &took);
            for (window, process) in schedule.windows.iter().zip(&processes) {
                let (mut at_ns, mut inside, mut crossings) = (0, (0, 0), Vec::new());
                for ns in &lengths {
                    let (from, to) = (at_ns, at_ns + ns);
                    at_ns = to;
                    if from >= window.start_ns && to <= window.end_ns {
                        inside = (inside.0 + 1, inside.1 + u128::from(*ns));
                    } else if from < window.end_ns && to > window.start_ns {
                        crossings.push((from as i64 - window.start_ns as i64, Some(*ns)));
                    }
                }
                let record = process.class(OpClass::Stat).expect("there");
                prop_assert_eq!((record.latency_ns.count(), record.latency_ns.sum()), inside);
                let listed = process.crossings.iter().map(|c| (c.start_ns, c.took_ns));
                prop_assert_eq!(listed.collect::<Vec<_>>(), crossings);
            }
        }
    }

    /// One operation hangs through the whole second window: it can neither stretch nor miss it.
    #[test]
    fn an_operation_over_a_whole_window_is_in_both_lists() {
        let schedule = Schedule::new(100, 100, &[0, 50]);
        let processes = seen(&schedule, 0, &[(OpClass::Stat, 150), (OpClass::Stat, 900)]);
        assert_eq!(processes[0].crossings.len(), 2);
        assert_eq!(processes[1].crossings[0].age_at_end_ns(100), Some(200));
        assert!(processes.iter().all(|process| process.operations() == 0));
        // A process that begins with the second window knows only that.
        assert_eq!(seen(&schedule, 1, &[(OpClass::Stat, 300), (OpClass::Stat, 20)]).len(), 1);
    }

    /// A mkdir that hangs over the end of a window and then fails is no operation that was done, but one that hung.
    #[test]
    fn one_that_fails_behind_a_border_is_told_with_its_age() {
        let (clock, slot) = (ManualClock::default(), Slot::default());
        let schedule = Schedule::new(100, 100, &[0]);
        let mut points = || Points::new(100, 1, 0);
        let mut meter = Meter::new(&clock, &slot, &schedule, 0, &WRITES, &mut points);
        for took_ns in [120, 30, 400] {
            let fails = || {
                clock.advance_ns(took_ns);
                Err::<(), _>(io::Error::from_raw_os_error(5))
            };
            assert!(meter.time(OpClass::MakeDir, fails, |()| 0).is_err());
        }
        let process = &meter.finish(Role::Writer, 0)[0].0;
        assert_eq!(process.operations(), 0);
        let ages: Vec<_> = process.crossings.iter().map(|c| c.age_at_end_ns(100)).collect();
        assert_eq!(ages, [None, Some(50)], "over the start, and over the end");
    }

    /// What hangs when a session is cut short is told with its age, however long it takes then, and what comes later is of
    /// no window.
    #[test]
    fn a_window_that_is_cut_ends_there() {
        let (clock, slot) = (ManualClock::default(), Slot::default());
        let second = SECOND_NS;
        let schedule = Schedule::new(0, 30 * second, &[0, 0]);
        let mut points = || Points::new(100, 1, 0);
        let mut meter = Meter::new(&clock, &slot, &schedule, 0, &READS, &mut points);
        let mut takes = |took_ns: u64, cut_ns: Option<u64>| {
            let operation = || {
                cut_ns.into_iter().for_each(|ns| slot.cut_at(ns));
                clock.advance_ns(took_ns);
                Ok(())
            };
            assert!(meter.time(OpClass::Stat, operation, |()| 0).is_ok());
        };
        takes(4 * second, None);
        takes(20 * second, Some(5 * second));
        takes(second, None);
        let windows = meter.finish(Role::Reader, 0);
        let process = &windows[0].0;
        assert_eq!(process.operations(), 1, "the first alone ended in time");
        assert_eq!(process.crossings.len(), 1);
        assert_eq!(process.crossings[0].age_at_end_ns(5 * second), Some(second));
        assert_eq!(process.operations_by_second, [0, 0, 0, 0, 1]);
        assert_eq!(windows[1].0.operations(), 0, "it was not reached");
    }

    /// More operations than are noted before they are counted: each is counted once, in the window and the second in which it
    /// ended, and the counting is in no operation's time.
    #[test]
    fn many_operations_are_each_counted_once_and_in_time() {
        let (clock, slot) = (ManualClock::default(), Slot::default());
        let schedule = Schedule::new(0, 2 * SECOND_NS, &[0, 0]);
        let mut points = || Points::new(10_000, 1, 0);
        let mut meter = Meter::new(&clock, &slot, &schedule, 0, &READS, &mut points);
        let count = 5 * NOTES as u64 + 3;
        let took_ns = 4 * SECOND_NS / count;
        for number in 0..count {
            let operation = || {
                clock.advance_ns(took_ns);
                Ok(number)
            };
            assert_eq!(meter.time(OpClass::Stat, operation, |bytes| *bytes).ok(), Some(number));
            assert_eq!(slot.so_far().0, number + 1, "progress does not wait");
            // Between transactions.
            if number % 100 == 99 {
                meter.resume();
            }
        }
        let windows = meter.finish(Role::Reader, 0);
        let sum = |of: &dyn Fn(&FsopProcess) -> u64| windows.iter().map(|w| of(&w.0)).sum::<u64>();
        let crossing = sum(&|process| process.crossings.len() as u64);
        assert_eq!(sum(&FsopProcess::operations) + crossing / 2, count);
        assert_eq!(crossing, 2, "one, from the first window into the second");
        for (process, points) in &windows {
            let record = process.class(OpClass::Stat).expect("there");
            assert_eq!(
                record.latency_ns.min().zip(record.latency_ns.max()),
                Some((took_ns, took_ns))
            );
            assert_eq!(process.operations_by_second.iter().sum::<u64>(), process.operations());
            assert!(process.operations_by_second.iter().all(|n| n.abs_diff(count / 4) <= 1));
            assert_eq!(points.slowest().len(), crate::stream::SLOWEST);
        }
        let bytes = sum(&|process| process.class(OpClass::Stat).map_or(0, |class| class.bytes));
        let crossed = count / 2;
        assert_eq!(bytes, (0..count).filter(|number| *number != crossed).sum::<u64>());
    }

    #[test]
    fn names_that_vanish_belong_to_the_window_in_which_they_did() {
        let (clock, slot) = (ManualClock::default(), Slot::default());
        // Windows from 100 to 200 and from 250 to 350.
        let schedule = Schedule::new(100, 100, &[0, 50]);
        let mut points = || Points::new(1, 1, 0);
        let mut meter = Meter::new(&clock, &slot, &schedule, 0, &READS, &mut points);
        // Gone at 30, 90, 130, 190, 230, 290: none before they are looked at.
        for took_ns in [30, 60, 40, 60, 40, 60] {
            let gone = || {
                clock.advance_ns(took_ns);
                Err::<(), _>(io::Error::from(io::ErrorKind::NotFound))
            };
            assert!(meter.time(OpClass::Stat, gone, |()| 0).is_err());
            meter.vanished += 1;
            meter.resume();
        }
        let windows = meter.finish(Role::Reader, 0);
        assert_eq!(windows.iter().map(|(p, _)| p.vanished).collect::<Vec<_>>(), [2, 1]);
    }

    #[test]
    fn failures_are_not_counted_and_leave_the_slot_free() {
        let (clock, slot) = (ManualClock::default(), Slot::default());
        let schedule = Schedule::new(0, 1_000, &[0]);
        let mut meter =
            Meter::new(&clock, &slot, &schedule, 0, &READS, &mut || Points::new(1, 1, 0));
        let failed = meter.time(OpClass::Stat, || Err::<(), _>(io::Error::other("no")), |()| 0);
        assert!(failed.is_err() && slot.current().is_none());
        assert_eq!(meter.finish(Role::Reader, 3)[0].0.operations(), 0);
    }
}
