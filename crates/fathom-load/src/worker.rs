//! The measured loop: fill the slots, hand over, wait, reap, record. Generic over engine and clock, so that tests run
//! it against a simulated device.

use crate::engine::{Engine, Op};
use crate::files::OpenFiles;
use crate::generator::{Generator, Kind, Request};
use crate::pace::Pace;
use crate::payload::Payload;
use crate::recorder::{Alike, End, Recorder};
use fathom_base::clock::Clock;
use fathom_model::record::{CensoredOp, OpClass};
use std::io;

#[path = "worker/alone.rs"]
mod alone;
#[path = "worker/paced.rs"]
mod paced;
#[path = "worker/together.rs"]
mod together;

/// When a worker starts, measures and ends.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// From then on requests are issued: the start of the warm-up.
    pub start_ns: u64,
    /// Start of the measured window on the worker's clock.
    pub window_start_ns: u64,
    /// End of the window; `u64::MAX` when something else ends the job.
    pub window_end_ns: u64,
}

/// How one worker treats its requests.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Requests to keep in flight.
    pub depth: u32,
    /// Ends to wait for.
    pub batch: u32,
    /// The call that makes writes durable.
    pub sync_op: Op,
    /// Count what ends while draining, because a final sync closes the window.
    pub count_drained: bool,
}

/// Linux's number for "try again".
const EAGAIN: i32 = 11;

/// Why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed {
    /// `read`, `write`, `fsync` or `fdatasync`.
    pub operation: &'static str,
    /// Where, in bytes.
    pub offset_bytes: u64,
    /// What was asked.
    pub size_bytes: u32,
    /// errno, or 0 for a short transfer.
    pub errno: i32,
    /// What was moved by a short transfer.
    pub moved_bytes: u32,
}

/// What the loop did besides what the recorder holds.
#[derive(Debug, Clone, Copy, Default)]
pub struct LoopCounts {
    /// Rounds of handing over and reaping in the window.
    pub batches: u64,
    /// Reads and writes that ended in the window.
    pub operations: u64,
    /// When the last counted request ended, or the window's end.
    pub end_ns: u64,
}

/// How a loop ended.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    /// What it did, also when it failed.
    pub counts: LoopCounts,
    /// The first failed request.
    pub failed: Option<Failed>,
    /// The engine itself failed: requests may still be in flight, and it takes no more.
    pub engine_broke: bool,
}

impl Ended {
    /// It was called off before its first request.
    pub fn before(window_start_ns: u64) -> Self {
        let counts = LoopCounts { end_ns: window_start_ns, ..LoopCounts::default() };
        Self { counts, failed: None, engine_broke: false }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    /// Start of the call in flight.
    start_ns: u64,
    offset_bytes: u64,
    size_bytes: u32,
    stage: Stage,
    ends_transaction: bool,
}

impl Slot {
    /// A read or write that is handed over now.
    #[inline(always)]
    fn of(request: Request, now_ns: u64) -> Self {
        let Request { offset_bytes, size_bytes, ends_transaction, .. } = request;
        let stage = match (request.kind == Kind::Write, request.sync_after) {
            (false, _) => Stage::Read,
            (true, false) => Stage::Write,
            (true, true) => Stage::SyncedWrite,
        };
        Self { start_ns: now_ns, offset_bytes, size_bytes, stage, ends_transaction }
    }

    /// The result of the call in flight when all went well.
    #[inline]
    fn expected(self) -> i32 {
        if self.stage.moves_bytes() { self.size_bytes as i32 } else { 0 }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Free,
    Read,
    Write,
    SyncedWrite,
    Trim,
    Zero,
    Sync,
    /// A sync that belongs to no write.
    SyncAll,
}

/// One worker's loop with everything it needs, all allocated before it starts.
pub struct Worker<'a, E, C, P> {
    /// The way to the kernel.
    pub engine: &'a mut E,
    /// The time.
    pub clock: &'a C,
    /// What to do next.
    pub generator: Generator,
    /// The notebook.
    pub recorder: Recorder,
    /// How.
    pub rules: Rules,
    slots: Vec<Slot>,
    /// For each slot that syncs, the start of the write that the sync belongs to.
    write_starts_ns: Vec<u64>,
    /// For each slot, the engine's index of the file that it works on, where there are several.
    files: Vec<u32>,
    /// More files than may be open; none when all are.
    pub open_files: Option<OpenFiles<'a>>,
    /// Slots whose requests have not been handed over, where files are opened in between.
    waiting: Vec<u32>,
    /// Room for the ends of one round.
    ends: Vec<(u32, i32)>,
    /// A file that could not be opened.
    not_opened: Option<Failed>,
    free: Vec<u32>,
    in_flight: u32,
    transaction_start_ns: u64,
    /// What is written.
    pub payload: P,
    counts: LoopCounts,
    /// What is waited for besides ends; none in a plain closed loop.
    pub pace: Option<Pace>,
    /// By how much sleeps end too late, on average.
    sleep_excess_ns: u64,
}

impl<'a, E: Engine, C: Clock, P: Payload> Worker<'a, E, C, P> {
    /// Puts a worker together.
    pub fn new(
        engine: &'a mut E,
        clock: &'a C,
        generator: Generator,
        recorder: Recorder,
        rules: Rules,
        payload: P,
    ) -> Self {
        let depth = rules.depth as usize;
        Self {
            engine,
            clock,
            generator,
            recorder,
            rules,
            slots: vec![Slot::default(); depth],
            write_starts_ns: vec![0; depth],
            files: vec![0; depth],
            open_files: None,
            waiting: Vec::with_capacity(2 * depth),
            ends: vec![(0, 0); depth],
            not_opened: None,
            free: (0..rules.depth).rev().collect(),
            in_flight: 0,
            transaction_start_ns: 0,
            payload,
            counts: LoopCounts::default(),
            pace: None,
            sleep_excess_ns: 0,
        }
    }

    /// Runs until the window ends, the generator is used up, `stop` says so, or a request fails.
    ///
    /// `on_window` is called once, when the window begins. What was in flight beside a failed request has ended when
    /// this returns.
    pub fn run(
        &mut self,
        times: Times,
        stop: &impl Fn() -> bool,
        on_window: impl FnOnce(),
    ) -> Ended {
        match &mut self.pace {
            None => self.run_as::<false>(times, stop, on_window),
            Some(pace) => {
                pace.begin(times);
                self.run_as::<true>(times, stop, on_window)
            }
        }
    }

    /// A loop for each kind, so that a job that is not paced pays nothing.
    fn run_as<const PACED: bool>(
        &mut self,
        times: Times,
        stop: &impl Fn() -> bool,
        on_window: impl FnOnce(),
    ) -> Ended {
        let mut measuring = false;
        let mut on_window = Some(on_window);
        let mut issuing = true;
        let mut closed_at_ns = None;
        let mut failed = None;
        let mut engine_broke = false;
        let alone = !PACED && self.reads_alone();
        loop {
            issuing = issuing && if PACED { self.fill_paced() } else { self.fill() };
            if self.in_flight == 0 && !(PACED && issuing) {
                break;
            }
            let edge_ns = if measuring { times.window_end_ns } else { times.window_start_ns };
            let waited = if alone && measuring && issuing {
                self.read_on(edge_ns.min(self.recorder.border_ns()), stop)
            } else {
                let ended = self.wait::<PACED>(issuing, edge_ns);
                ended.map(|ended| (ended, self.clock.now_ns()))
            };
            let (ended, now_ns) = match waited {
                Ok(waited) => waited,
                Err(error) => {
                    failed.get_or_insert(Failed::of_engine(E::CALL, &error));
                    engine_broke = true;
                    if closed_at_ns.is_none() {
                        let now_ns = self.clock.now_ns().min(times.window_end_ns);
                        closed_at_ns = Some(now_ns);
                        self.close::<PACED>(issuing, now_ns, 0, &mut failed);
                    }
                    break;
                }
            };
            if !measuring && now_ns >= times.window_start_ns {
                measuring = true;
                self.begin_window(times.window_start_ns);
                if let Some(on_window) = on_window.take() {
                    on_window();
                }
            }
            let over = now_ns >= times.window_end_ns;
            if closed_at_ns.is_some() {
                self.discard(ended, &mut failed);
            } else if over && !self.rules.count_drained {
                closed_at_ns = Some(times.window_end_ns);
                self.close::<PACED>(issuing, times.window_end_ns, ended, &mut failed);
                issuing = false;
            } else {
                self.reap::<PACED>(ended, now_ns, measuring, &mut failed);
                let stops = failed.is_some() || stop();
                if stops && !self.rules.count_drained {
                    closed_at_ns = Some(now_ns);
                    self.close::<PACED>(issuing, now_ns, 0, &mut failed);
                } else if PACED && (over || stops) {
                    let until_ns = now_ns.min(times.window_end_ns);
                    self.end_arrivals(issuing, until_ns);
                    // The gap since the last request belongs to the window: nothing was due in it.
                    self.counts.end_ns = self.counts.end_ns.max(until_ns);
                }
                issuing = issuing && !over && !stops;
            }
        }
        self.counts.end_ns = closed_at_ns.unwrap_or(self.counts.end_ns).max(times.window_start_ns);
        Ended { counts: self.counts, failed: failed.or(self.not_opened), engine_broke }
    }

    /// Hands over what is queued and waits.
    #[inline(always)]
    fn wait<const PACED: bool>(&mut self, issuing: bool, edge_ns: u64) -> io::Result<u32> {
        if PACED && issuing {
            return self.run_until_next(edge_ns);
        }
        self.engine.run(self.rules.batch.min(self.in_flight))
    }

    /// What was counted until now is dropped, and amount and operations begin: what is in flight ends inside the window
    /// and belongs to them. A write whose sync is in flight counts as an operation that has not ended, but its bytes
    /// have moved.
    #[cold]
    fn begin_window(&mut self, start_ns: u64) {
        self.recorder.begin_window(start_ns);
        let of_none = |s: &&Slot| matches!(s.stage, Stage::Free | Stage::SyncAll);
        let in_flight = || self.slots.iter().filter(|s| !of_none(s));
        let moving = in_flight().filter(|s| s.stage != Stage::Sync);
        let bytes = moving.map(|s| u64::from(s.size_bytes)).sum();
        let operations = in_flight().count() as u64;
        self.generator.begin_window(operations, bytes);
    }

    /// Issues requests into every free slot. False when the generator is used up.
    #[inline]
    fn fill(&mut self) -> bool {
        if self.free.is_empty() {
            // Nothing opens a file before what follows writes is handed over.
            self.waiting.clear();
            return true;
        }
        let now_ns = self.clock.now_ns();
        if !self.generator.is_uniform() {
            return self.fill_any(now_ns);
        }
        if self.free.len() > 1 && self.payload.is_idle() && self.fill_with_reads(now_ns) {
            return self.free.is_empty();
        }
        while let Some(slot) = self.free.pop() {
            let Some(request) = self.generator.next_uniform() else {
                self.free.push(slot);
                return false;
            };
            self.issue(slot, request, now_ns);
        }
        true
    }

    /// Apart from uniform requests, which then pay nothing for kinds, orders and files that they do not have.
    #[inline(never)]
    fn fill_any(&mut self, now_ns: u64) -> bool {
        let mut opened_at_ns = None;
        let goes_on = loop {
            let Some(slot) = self.free.pop() else { break true };
            let Some(request) = self.generator.next() else {
                self.free.push(slot);
                break false;
            };
            let Some(file) = self.ready_file(request.file, &mut opened_at_ns) else {
                self.free.push(slot);
                break false;
            };
            self.issue_any(slot, Request { file, ..request }, now_ns);
        };
        self.stamp_waiting(opened_at_ns);
        goes_on
    }

    /// Nothing of this batch has been handed over yet: the time that files took to open is not its.
    fn stamp_waiting(&mut self, opened_at_ns: Option<u64>) {
        while let Some(slot) = self.waiting.pop() {
            let start_ns = &mut self.slots[slot as usize].start_ns;
            *start_ns = opened_at_ns.unwrap_or(*start_ns);
        }
    }

    /// The engine's index of a file, which is opened if it is not open. None when that fails.
    fn ready_file(&mut self, file: u32, opened_at_ns: &mut Option<u64>) -> Option<u32> {
        let Some(open_files) = &mut self.open_files else { return Some(file) };
        if let Some(index) = open_files.find(file) {
            return Some(index);
        }
        let start_ns = self.clock.now_ns();
        let (slots, files) = (&self.slots, &self.files);
        let in_use = |index: u32| {
            slots.iter().zip(files).any(|(slot, file)| slot.stage != Stage::Free && *file == index)
        };
        let opened = open_files.replace(file, in_use).and_then(|index| {
            self.engine.renew_file(index)?;
            Ok(index)
        });
        let now_ns = self.clock.now_ns();
        match opened {
            Ok(index) => {
                *opened_at_ns = Some(now_ns);
                let took_ns = now_ns.saturating_sub(start_ns);
                if self.recorder.record(OpClass::Open, now_ns, took_ns, 0, 0) {
                    self.recorder.slow_was_on(file);
                }
                Some(index)
            }
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(5);
                let (offset_bytes, size_bytes, moved_bytes) = (0, 0, 0);
                self.not_opened = Some(Failed {
                    operation: "open",
                    offset_bytes,
                    size_bytes,
                    errno,
                    moved_bytes,
                });
                None
            }
        }
    }

    /// Issues a request of whatever kind, on the file of this index.
    #[inline(never)]
    fn issue_any(&mut self, slot: u32, request: Request, now_ns: u64) {
        let Request { kind, offset_bytes, size_bytes, file, .. } = request;
        self.files[slot as usize] = file;
        if self.open_files.is_some() {
            self.waiting.push(slot);
        }
        let (stage, op) = match kind {
            Kind::Read | Kind::Write => return self.issue(slot, request, now_ns),
            Kind::Trim => (Stage::Trim, Op::Trim { offset_bytes, size_bytes }),
            Kind::Zero => (Stage::Zero, Op::Zero { offset_bytes, size_bytes }),
            Kind::SyncAll => (Stage::SyncAll, self.rules.sync_op),
        };
        self.slots[slot as usize] =
            Slot { start_ns: now_ns, offset_bytes, size_bytes, stage, ends_transaction: false };
        self.tell_payload(slot, op);
        self.engine.queue(slot, file, op);
        self.in_flight += 1;
    }

    /// The payload learns of a request. One that does not want to know the file does not pay for it.
    #[inline(always)]
    fn tell_payload(&mut self, slot: u32, op: Op) {
        let file = if P::WANTS_FILE { self.file_of(slot) } else { 0 };
        self.payload.queued(slot, file, op, self.engine);
    }

    /// Always inlined, so that a request goes from the generator into its slot without a stop in memory.
    #[inline(always)]
    fn issue(&mut self, slot: u32, request: Request, now_ns: u64) {
        if request.begins_transaction {
            self.transaction_start_ns = now_ns;
        }
        self.slots[slot as usize] = Slot::of(request, now_ns);
        let Request { offset_bytes, size_bytes, .. } = request;
        let op = if request.kind == Kind::Write {
            Op::Write { offset_bytes, size_bytes }
        } else {
            Op::Read { offset_bytes, size_bytes }
        };
        self.tell_payload(slot, op);
        self.engine.queue(slot, request.file, op);
        self.in_flight += 1;
    }

    /// The write on a slot has ended: its sync follows in the same one.
    #[inline(never)]
    fn go_on_with_sync(&mut self, number: u32, now_ns: u64) {
        let slot = &mut self.slots[number as usize];
        self.write_starts_ns[number as usize] = slot.start_ns;
        (slot.start_ns, slot.stage) = (now_ns, Stage::Sync);
        let Slot { offset_bytes, size_bytes, .. } = *slot;
        let op = match self.rules.sync_op {
            Op::SyncRange { .. } => Op::SyncRange { offset_bytes, size_bytes },
            whole_file => whole_file,
        };
        self.tell_payload(number, op);
        if self.open_files.is_some() {
            self.waiting.push(number);
        }
        self.engine.queue(number, self.files[number as usize], op);
        self.in_flight += 1;
    }

    /// Takes in everything that has ended; writes that need a sync go on with it in the same slot.
    #[inline]
    fn reap<const PACED: bool>(
        &mut self,
        ended: u32,
        now_ns: u64,
        counted: bool,
        failed: &mut Option<Failed>,
    ) {
        if PACED && counted {
            self.note_backlog_at_border(now_ns);
        }
        if PACED && ended == 0 {
            if counted {
                self.recorder.roll(now_ns);
            }
            return;
        }
        if counted {
            self.recorder.roll(now_ns);
            self.counts.batches += 1;
            self.counts.end_ns = now_ns;
        }
        if ended > 1 {
            self.reap_many::<PACED>(ended, (now_ns, counted), failed);
        } else if ended == 1
            && let Some(end) = self.engine.take()
        {
            let mut alike = Alike::default();
            self.reap_one::<PACED, true>(end, (now_ns, counted), &mut alike, failed);
        }
    }

    /// Takes in one that has ended. One that is `ALONE` pays nothing for what others might share with it.
    #[inline(always)]
    fn reap_one<const PACED: bool, const ALONE: bool>(
        &mut self,
        (number, result): (u32, i32),
        (now_ns, counted): (u64, bool),
        alike: &mut Alike,
        failed: &mut Option<Failed>,
    ) {
        let slot = self.vacate(number);
        let is_whole = result == slot.expected();
        if !is_whole && self.again(number, slot.stage, result, now_ns) {
            return;
        }
        self.payload.ended(number, is_whole, self.engine);
        if !is_whole {
            failed.get_or_insert(self.failure(number, slot.stage, result));
            self.release::<PACED>(number, now_ns);
            return;
        }
        if counted {
            self.note::<PACED, ALONE>(number, slot, now_ns, alike);
        }
        if slot.stage == Stage::SyncedWrite && failed.is_none() {
            self.go_on_with_sync(number, now_ns);
        } else {
            self.release::<PACED>(number, now_ns);
        }
    }

    /// Issues a read or write once more that the kernel gave back because it would have had to wait for a place in the
    /// device's queue: kernels before 6.3 do that to io_uring's requests that are split, and with limits of a control
    /// group. Its time goes on. True when it was issued; not for ever, lest one that can never be taken spins.
    #[cold]
    #[inline(never)]
    fn again(&mut self, number: u32, stage: Stage, result: i32, now_ns: u64) -> bool {
        const PATIENCE_NS: u64 = 30_000_000_000;
        let Slot { start_ns, offset_bytes, size_bytes, .. } = self.slots[number as usize];
        let op = match stage {
            Stage::Read => Op::Read { offset_bytes, size_bytes },
            Stage::Write | Stage::SyncedWrite => Op::Write { offset_bytes, size_bytes },
            _ => return false,
        };
        // Where not all files are open, its own may be closed by now.
        let is_refused = result != -EAGAIN || self.open_files.is_some();
        if is_refused || now_ns.saturating_sub(start_ns) > PATIENCE_NS {
            return false;
        }
        self.slots[number as usize].stage = stage;
        self.engine.queue(number, self.file_of(number), op);
        self.in_flight += 1;
        true
    }

    /// The request on a slot has ended; what it was. Only in parts for functions that are not inlined: for those it would
    /// be copied to the stack, each time.
    #[inline(always)]
    fn vacate(&mut self, number: u32) -> Slot {
        let place = &mut self.slots[number as usize];
        let slot = *place;
        place.stage = Stage::Free;
        self.in_flight -= 1;
        slot
    }

    #[inline]
    fn release<const PACED: bool>(&mut self, number: u32, now_ns: u64) {
        if PACED {
            self.release_paced(number, now_ns);
        } else {
            self.free.push(number);
        }
    }

    #[inline(always)]
    fn note<const PACED: bool, const ALONE: bool>(
        &mut self,
        number: u32,
        slot: Slot,
        now_ns: u64,
        alike: &mut Alike,
    ) {
        let class = slot.stage.class();
        if slot.stage.is_sync() {
            self.note_sync(number, slot.stage, now_ns);
            if PACED {
                self.note_response(number, OpClass::Commit, now_ns);
            }
            return;
        }
        if PACED && class != OpClass::SyncedWrite {
            self.note_response(number, class, now_ns);
        }
        let Slot { start_ns, offset_bytes, size_bytes, .. } = slot;
        let latency_ns = now_ns.saturating_sub(start_ns);
        let recorder = &mut self.recorder;
        let is_slow = if ALONE {
            recorder.record(class, now_ns, latency_ns, offset_bytes, size_bytes)
        } else {
            let end_ns = now_ns;
            let end = End { class, end_ns, latency_ns, offset_bytes, size_bytes };
            recorder.record_in_batch(alike, end)
        };
        if is_slow {
            self.name_file(number);
        }
        self.counts.operations += 1;
    }

    /// The slow operation that was just noted gets its file.
    #[cold]
    fn name_file(&mut self, number: u32) {
        let file = self.file_of(number);
        self.recorder.slow_was_on(file);
    }

    /// Which of the job's files a slot works on: the engine's index, unless files take turns at being open.
    fn file_of(&self, number: u32) -> u32 {
        let index = self.files[number as usize];
        self.open_files.as_ref().map_or(index, |open| open.file_in(index))
    }

    /// A sync moves no bytes itself; it ends a commit, and perhaps a transaction.
    #[inline(never)]
    fn note_sync(&mut self, number: u32, stage: Stage, now_ns: u64) {
        let slot = self.slots[number as usize];
        let Slot { offset_bytes, size_bytes, .. } = slot;
        let file = self.file_of(number);
        let mut record = |class, start_ns, bytes| {
            let latency_ns = now_ns.saturating_sub(start_ns);
            if self.recorder.record(class, now_ns, latency_ns, offset_bytes, bytes) {
                self.recorder.slow_was_on(file);
            }
        };
        record(OpClass::Sync, slot.start_ns, 0);
        if stage == Stage::SyncAll {
            self.recorder.slow_lone_sync(now_ns, now_ns.saturating_sub(slot.start_ns), file);
            return;
        }
        record(OpClass::Commit, self.write_starts_ns[number as usize], size_bytes);
        if slot.ends_transaction {
            // Its bytes are those of its parts.
            record(OpClass::Transaction, self.transaction_start_ns, 0);
        }
    }

    /// The window ended at `end_ns` while these were in flight: they are censored, and what has just come back came
    /// too late to count. Requests go on until they end, but no sync follows any more.
    fn close<const PACED: bool>(
        &mut self,
        issuing: bool,
        end_ns: u64,
        ended: u32,
        failed: &mut Option<Failed>,
    ) {
        if PACED {
            self.note_backlog_at_border(end_ns);
        }
        self.recorder.roll(end_ns);
        if PACED {
            self.note_unfinished(end_ns);
            self.end_arrivals(issuing, end_ns);
        }
        for number in 0..self.slots.len() {
            let slot = self.slots[number];
            if slot.stage == Stage::Free {
                continue;
            }
            let file = self.file_of(number as u32);
            self.recorder.censored.push(CensoredOp {
                class: slot.stage.class(),
                age_ns: end_ns.saturating_sub(slot.start_ns),
                file,
                offset_bytes: slot.offset_bytes,
                size_bytes: slot.size_bytes,
            });
        }
        self.discard(ended, failed);
        // Writes still in flight end as plain ones: their sync would be outside the window.
        for slot in &mut self.slots {
            if slot.stage == Stage::SyncedWrite {
                slot.stage = Stage::Write;
            }
        }
    }

    /// Takes in what has ended outside the window: only failures matter.
    fn discard(&mut self, ended: u32, failed: &mut Option<Failed>) {
        for _ in 0..ended {
            let Some((number, result)) = self.engine.take() else { break };
            let slot = self.vacate(number);
            let is_whole = result == slot.expected();
            self.payload.ended(number, is_whole, self.engine);
            // One that was to be issued once more is not: see `again`.
            if !is_whole && result != -EAGAIN {
                failed.get_or_insert(self.failure(number, slot.stage, result));
            }
            self.release::<false>(number, 0);
        }
    }

    #[cold]
    fn failure(&self, number: u32, stage: Stage, result: i32) -> Failed {
        let slot = self.slots[number as usize];
        let operation = match (stage, self.rules.sync_op) {
            (Stage::Sync | Stage::SyncAll, Op::Fdatasync) => "fdatasync",
            (Stage::Sync | Stage::SyncAll, Op::SyncRange { .. }) => "sync_file_range",
            (Stage::Trim, _) => "trim",
            (Stage::Zero, _) => "zero_range",
            (Stage::Sync | Stage::SyncAll, _) => "fsync",
            (Stage::Read, _) => "read",
            _ => "write",
        };
        Failed {
            operation,
            offset_bytes: slot.offset_bytes,
            size_bytes: slot.size_bytes,
            errno: (-result).max(0),
            moved_bytes: result.max(0) as u32,
        }
    }
}

impl Failed {
    #[cold]
    fn of_engine(operation: &'static str, error: &std::io::Error) -> Self {
        let errno = error.raw_os_error().unwrap_or(5);
        Self { operation, offset_bytes: 0, size_bytes: 0, errno, moved_bytes: 0 }
    }
}

impl Stage {
    #[inline]
    fn moves_bytes(self) -> bool {
        (self as u8) < Self::Trim as u8
    }

    #[inline]
    fn is_sync(self) -> bool {
        self as u8 >= Self::Sync as u8
    }

    /// By a table, which is cheaper than the jumps of a match.
    #[inline]
    fn class(self) -> OpClass {
        const CLASSES: [OpClass; 8] = [
            OpClass::Read,
            OpClass::Read,
            OpClass::Write,
            OpClass::SyncedWrite,
            OpClass::Trim,
            OpClass::Zero,
            OpClass::Sync,
            OpClass::Sync,
        ];
        CLASSES[self as usize]
    }
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "worker_paced_tests.rs"]
mod paced_tests;
