//! A session: readers and writers side by side through one window or several, and the coordinator that holds the time.
//!
//! All instants are fixed before the first process starts. The coordinator only watches: it sees a window end on time even
//! when every process hangs in the kernel, because what each is doing stands in its slot.

use crate::ops::{Meter, PLAYS, READS, WRITES};
use crate::play::kept::Kept;
use crate::play::{Player, Playing};
use crate::stream::{self, Points};
use crate::walk::{Failed, Reader, Reading};
use crate::walk_grow::{Growing, Writer};
use crate::window::{Schedule, Slot, Window};
use fathom_base::clock::Clock;
use fathom_model::fsop::{FsopProcess, FsopStream, Role};
use fathom_model::record::OpClass;
use fathom_sys::clock::FastClock;
use fathom_sys::signals::StopFlag;
use fathom_sys::threads;
use fathom_sys::walked::WalkedDir;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::Scope;
use std::time::Duration;

/// From the plan to the first instant: enough for every process to read it.
const LEAD_NS: u64 = 30_000_000;
/// From the decision that a session ends now to the instant at which it does: enough for every process to see it.
const CUT_NS: u64 = 10_000_000;
/// How long waits go on before a signal is looked at.
const STEP_NS: u64 = 50_000_000;
/// How often somebody hears what is still waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// Length of the parts in which the machine is looked at.
const SECOND_NS: u64 = 1_000_000_000;

/// What a process does.
#[derive(Debug)]
pub enum Task {
    /// Walks below a directory.
    Read(WalkedDir, Reading),
    /// Grows a tree in a directory of fathom's, with content and sizes of this seed.
    Write(WalkedDir, Growing, u64),
    /// Works on files in a directory of fathom's, as a personality says.
    Play(WalkedDir, Playing),
}

/// One process of a session.
#[derive(Debug)]
pub struct Process {
    /// What it does.
    pub task: Task,
    /// Its number in its role.
    pub number: u32,
    /// The window with which it begins: 0 from the start.
    pub first_window: usize,
}

impl Process {
    /// The directory in which it works.
    #[must_use]
    pub fn root(&self) -> &WalkedDir {
        match &self.task {
            Task::Read(root, _) | Task::Write(root, ..) | Task::Play(root, _) => root,
        }
    }

    /// What it is for.
    #[must_use]
    pub fn role(&self) -> Role {
        match self.task {
            Task::Read(..) => Role::Reader,
            Task::Write(..) => Role::Writer,
            Task::Play(..) => Role::Client,
        }
    }

    fn classes(&self) -> &'static [OpClass] {
        match self.task {
            Task::Read(..) => &READS,
            Task::Write(..) => &WRITES,
            Task::Play(..) => &PLAYS,
        }
    }
}

/// What a session is asked to do.
pub struct Session<'a> {
    /// The clock of all.
    pub clock: FastClock,
    /// Somebody asked for the end.
    pub stop: &'a StopFlag,
    /// Length of each window.
    pub window_ns: u64,
    /// For each window how long what begins with it runs before.
    pub warm_ups_ns: Vec<u64>,
    /// Points of each window at the most.
    pub points: u32,
    /// Seed of what is chosen by chance.
    pub seed: u64,
}

/// An operation that goes on at this moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Going {
    /// Whose.
    pub role: Role,
    /// Which of them.
    pub number: u32,
    /// Which class.
    pub class: OpClass,
    /// For how long.
    pub age_ns: u64,
}

/// Who watches a session.
pub trait Watch {
    /// Everybody is ready to start.
    fn starts(&mut self, window: usize);
    /// A window begins.
    fn window_begins(&mut self, window: usize);
    /// A second of the window is over, or its rest: its end and length, what was done so far, what goes on.
    fn second(&mut self, window: usize, second: &Second);
    /// A window has ended, and these operations go on, the oldest first.
    fn window_ends(&mut self, window: usize, going: &[Going]);
    /// Time is over, and these do not come back.
    fn waits(&mut self, going: &[Going]);
}

/// A part of a window, as the coordinator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Second {
    /// Its end, relative to the start of the window.
    pub end_ns: u64,
    /// Its length.
    pub length_ns: u64,
    /// Operations that ended in it.
    pub operations: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// The oldest operation that goes on.
    pub oldest: Option<Going>,
}

/// What came of one window.
#[derive(Debug)]
pub struct Windowed {
    /// Its real instants: shorter than planned after a failure or a signal.
    pub window: Window,
    /// The processes, readers first.
    pub processes: Vec<FsopProcess>,
    /// Operations on the time axis.
    pub stream: FsopStream,
    /// How much too late its end was seen.
    pub end_seen_late_ns: u64,
}

/// What came of a session.
#[derive(Debug)]
pub struct Outcome {
    /// The windows that were reached.
    pub windows: Vec<Windowed>,
    /// What ended it early: whose operation.
    pub failed: Option<(Role, u32, Failed)>,
    /// What each process has made, in their order: files and directories of writers.
    pub made: Vec<u64>,
    /// What each client has left, in the same order; of others nothing.
    pub kept: Vec<Kept>,
    /// A signal ended it.
    pub is_interrupted: bool,
}

/// What a process says when it is done: its place, its windows, and why it ended, if not because time was over.
struct Done {
    place: usize,
    windows: Vec<(FsopProcess, Points)>,
    /// Files and directories of a writer.
    made: u64,
    /// Files of a client.
    kept: Kept,
    /// With its instant.
    failed: Option<(Failed, u64)>,
}

/// Lets the processes go when all are there, and tells them when it is over.
#[derive(Default)]
struct Gate {
    schedule: OnceLock<Schedule>,
    over: AtomicBool,
}

/// Runs a session to its end.
///
/// # Errors
/// Those of starting threads; what fails later is in the outcome.
pub fn run(
    session: &Session<'_>,
    processes: &[Process],
    watch: &mut dyn Watch,
) -> io::Result<Outcome> {
    let slots: Vec<Slot> = processes.iter().map(|_| Slot::default()).collect();
    let gate = Gate::default();
    threads::wake_precisely();
    std::thread::scope(|scope| {
        let (sender, done) = mpsc::channel();
        for (place, (process, slot)) in processes.iter().zip(&slots).enumerate() {
            let points = session.points as usize / processes.len().max(1);
            let worker = Worker {
                clock: session.clock,
                slot,
                gate: &gate,
                place,
                points,
                seed: session.seed,
            };
            if let Err(error) = start(scope, worker, process, sender.clone()) {
                gate.over.store(true, Ordering::Relaxed);
                let none = Schedule { windows: Vec::new(), starts_ns: Vec::new() };
                let _ = gate.schedule.set(none);
                return Err(error);
            }
        }
        drop(sender);
        watch.starts(0);
        let begin_ns = session.clock.now_ns() + LEAD_NS;
        let plan = Schedule::new(begin_ns, session.window_ns, &session.warm_ups_ns);
        let plan = gate.schedule.get_or_init(|| plan);
        let coordinator = Coordinator {
            session,
            processes,
            slots: &slots,
            gate: &gate,
            plan,
            done,
            ended: Vec::new(),
            failed: None,
            failed_ns: None,
        };
        Ok(coordinator.run(watch))
    })
}

struct Worker<'a> {
    clock: FastClock,
    slot: &'a Slot,
    gate: &'a Gate,
    place: usize,
    points: usize,
    seed: u64,
}

fn start<'s, 'a: 's>(
    scope: &'s Scope<'s, 'a>,
    worker: Worker<'a>,
    process: &'a Process,
    done: Sender<Done>,
) -> io::Result<()> {
    let name = format!("{} {}", process.role().word(), process.number);
    let body = move || {
        // The receiver lives as long as the scope.
        let _ = done.send(worker.work(process));
    };
    std::thread::Builder::new().name(name).spawn_scoped(scope, body).map(|_| ())
}

impl Worker<'_> {
    fn work(&self, process: &Process) -> Done {
        threads::wake_precisely();
        // As the processes have them that are imitated. What is opened from here on stays in this thread, and nothing is left
        // of it when others hear that it is done.
        let _files = threads::own_files();
        let Some(schedule) = self.schedule() else {
            let (made, kept) = (0, Kept::default());
            return Done { place: self.place, windows: Vec::new(), made, kept, failed: None };
        };
        let mut points = || Points::new(self.points, self.seed, self.place as u64);
        let first = process.first_window;
        let mut meter =
            Meter::new(&self.clock, self.slot, schedule, first, process.classes(), &mut points);
        let start_ns = schedule.starts_ns.get(first).copied().unwrap_or(0);
        let (mut made, mut kept) = (0, Kept::default());
        let failed = self.run(process, &mut meter, schedule, (&mut made, &mut kept), start_ns);
        let windows = meter.finish(process.role(), process.number);
        Done { place: self.place, windows, made, kept, failed }
    }

    fn run(
        &self,
        process: &Process,
        meter: &mut Meter<'_, FastClock>,
        schedule: &Schedule,
        (made, kept): (&mut u64, &mut Kept),
        start_ns: u64,
    ) -> Option<(Failed, u64)> {
        let over = &self.gate.over;
        // What each needs is opened and computed before its start, so that none of it lies in a window.
        let ended = match &process.task {
            Task::Read(root, reading) => {
                let mut reader = Reader::new(root, reading, meter, over);
                if !self.sleep_until(start_ns) {
                    return None;
                }
                reader.run()
            }
            Task::Write(root, growing, seed) => {
                let mut writer = Writer::new(root, growing, meter, over, *seed);
                if !self.sleep_until(start_ns) {
                    return None;
                }
                let ended = writer.run().map(|_| ());
                *made = writer.made();
                ended
            }
            Task::Play(root, playing) => {
                let opened = Player::new(root, playing, meter, over);
                if !self.sleep_until(start_ns) {
                    return None;
                }
                opened.and_then(|mut player| {
                    let ended = player.run(schedule, process.first_window);
                    *kept = player.kept();
                    ended
                })
            }
        };
        let now_ns = meter.now_ns();
        if ended.is_ok() && !over.load(Ordering::Relaxed) {
            meter.ended_ns = Some(now_ns);
        }
        ended.err().map(|failed| (failed, now_ns))
    }

    fn schedule(&self) -> Option<&Schedule> {
        loop {
            if let Some(schedule) = self.gate.schedule.get() {
                return (!schedule.windows.is_empty()).then_some(schedule);
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// False when it was over before.
    fn sleep_until(&self, at_ns: u64) -> bool {
        loop {
            if self.gate.over.load(Ordering::Relaxed) {
                return false;
            }
            let left_ns = at_ns.saturating_sub(self.clock.now_ns());
            if left_ns == 0 {
                return true;
            }
            std::thread::sleep(Duration::from_nanos(left_ns.min(STEP_NS)));
        }
    }
}

struct Coordinator<'a> {
    session: &'a Session<'a>,
    processes: &'a [Process],
    slots: &'a [Slot],
    gate: &'a Gate,
    plan: &'a Schedule,
    done: Receiver<Done>,
    ended: Vec<Done>,
    failed: Option<(Role, u32, Failed)>,
    failed_ns: Option<u64>,
}

impl Coordinator<'_> {
    fn run(mut self, watch: &mut dyn Watch) -> Outcome {
        let mut reached: Vec<(Window, u64)> = Vec::new();
        for (number, window) in self.plan.windows.iter().enumerate() {
            if number > 0 {
                watch.starts(number);
            }
            if !self.wait_until(window.start_ns) {
                self.cut();
                if self.failed.is_some() {
                    // Nothing was measured, and there is something to tell.
                    reached.push((Window { end_ns: window.start_ns, ..*window }, 0));
                }
                break;
            }
            watch.window_begins(number);
            let is_whole = self.watch_window(number, *window, watch);
            let end_ns = if is_whole { window.end_ns } else { self.cut().min(window.end_ns) };
            let now_ns = self.session.clock.now_ns();
            watch.window_ends(number, &self.going(number, end_ns));
            reached.push((Window { end_ns, ..*window }, now_ns.saturating_sub(end_ns)));
            if !is_whole {
                break;
            }
        }
        self.gate.over.store(true, Ordering::Relaxed);
        self.wait_for_all(watch);
        self.outcome(&reached)
    }

    /// Ends the session before its time, at the instant that is given back: every process judges its operations by it, also
    /// those that end long after.
    fn cut(&self) -> u64 {
        let cut_ns = self.session.clock.now_ns() + CUT_NS;
        self.slots.iter().for_each(|slot| slot.cut_at(cut_ns));
        loop {
            match cut_ns.saturating_sub(self.session.clock.now_ns()) {
                0 => return cut_ns,
                left_ns => std::thread::sleep(Duration::from_nanos(left_ns)),
            }
        }
    }

    /// True when the window was not cut short.
    fn watch_window(&mut self, number: usize, window: Window, watch: &mut dyn Watch) -> bool {
        let (mut last_ns, mut before) = (window.start_ns, self.so_far());
        loop {
            let next_ns = (last_ns + SECOND_NS).min(window.end_ns);
            // A rest of less than a tenth belongs to the second before it.
            let is_last = window.end_ns - next_ns < SECOND_NS / 10;
            let next_ns = if is_last { window.end_ns } else { next_ns };
            let goes_on = self.wait_until(next_ns);
            let now_ns = if goes_on { next_ns } else { self.session.clock.now_ns() };
            let so_far = self.so_far();
            let second = Second {
                end_ns: now_ns.saturating_sub(window.start_ns),
                length_ns: now_ns.saturating_sub(last_ns),
                operations: so_far.0 - before.0,
                bytes: so_far.1 - before.1,
                oldest: self.going(number, now_ns).into_iter().next(),
            };
            watch.second(number, &second);
            if !goes_on || is_last {
                return goes_on;
            }
            (last_ns, before) = (next_ns, so_far);
        }
    }

    fn so_far(&self) -> (u64, u64) {
        let sums = self.slots.iter().map(Slot::so_far);
        sums.fold((0, 0), |sum, more| (sum.0 + more.0, sum.1 + more.1))
    }

    /// What goes on at an instant, the oldest first.
    fn going(&self, window: usize, at_ns: u64) -> Vec<Going> {
        let one = |(process, slot): (&Process, &Slot)| {
            let (class, start_ns) = slot.current()?;
            let age_ns = at_ns.checked_sub(start_ns)?;
            (process.first_window <= window).then_some(Going {
                role: process.role(),
                number: process.number,
                class,
                age_ns,
            })
        };
        let mut going: Vec<Going> = self.processes.iter().zip(self.slots).filter_map(one).collect();
        going.sort_by_key(|going| std::cmp::Reverse(going.age_ns));
        going
    }

    /// False when a signal or a failure came before that instant.
    fn wait_until(&mut self, at_ns: u64) -> bool {
        loop {
            let has_failed = self.failed_ns.is_some_and(|failed_ns| failed_ns < at_ns);
            if self.session.stop.is_set() || has_failed {
                return false;
            }
            let left_ns = at_ns.saturating_sub(self.session.clock.now_ns());
            if left_ns == 0 {
                return true;
            }
            match self.done.recv_timeout(Duration::from_nanos(left_ns.min(STEP_NS))) {
                Ok(done) => self.take(done),
                Err(RecvTimeoutError::Timeout) => {}
                // Everybody has ended; the window goes on to its end all the same.
                Err(RecvTimeoutError::Disconnected) => {
                    std::thread::sleep(Duration::from_nanos(left_ns.min(STEP_NS)));
                }
            }
        }
    }

    fn take(&mut self, mut done: Done) {
        if let Some((failed, failed_ns)) = done.failed.take()
            && self.failed.is_none()
            && let Some(process) = self.processes.get(done.place)
        {
            self.failed = Some((process.role(), process.number, failed));
            self.failed_ns = Some(failed_ns);
        }
        self.ended.push(done);
    }

    fn wait_for_all(&mut self, watch: &mut dyn Watch) {
        loop {
            match self.done.recv_timeout(PATIENCE) {
                Ok(done) => self.take(done),
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    let now_ns = self.session.clock.now_ns();
                    watch.waits(&self.going(usize::MAX, now_ns));
                }
            }
        }
    }

    fn outcome(mut self, reached: &[(Window, u64)]) -> Outcome {
        self.ended.sort_by_key(|done| done.place);
        let mut windows = Vec::new();
        for (number, (window, end_seen_late_ns)) in reached.iter().enumerate() {
            let of = |done: &mut Done| {
                let first = self.processes.get(done.place)?.first_window;
                let own = done.windows.get_mut(number.checked_sub(first)?)?;
                let empty = Points::new(0, 0, 0);
                Some((own.0.clone(), std::mem::replace(&mut own.1, empty)))
            };
            let (processes, points): (Vec<_>, Vec<_>) =
                self.ended.iter_mut().filter_map(of).unzip();
            windows.push(Windowed {
                window: *window,
                processes,
                stream: stream::merged(&points.iter().collect::<Vec<_>>()),
                end_seen_late_ns: *end_seen_late_ns,
            });
        }
        let is_interrupted = self.session.stop.is_set();
        let mut made = vec![0; self.processes.len()];
        let mut kept = vec![Kept::default(); self.processes.len()];
        for done in self.ended {
            made[done.place] = done.made;
            kept[done.place] = done.kept;
        }
        Outcome { windows, failed: self.failed, made, kept, is_interrupted }
    }
}

#[cfg(test)]
#[path = "phase_tests.rs"]
mod tests;
