//! The measured loop: fill the slots, hand over, wait, reap, record. Generic over engine and clock, so that tests run
//! it against a simulated device.

use crate::engine::{Engine, Op};
use crate::generator::{Generator, Request};
use crate::recorder::Recorder;
use fathom_base::clock::Clock;
use fathom_base::stamp;
use fathom_model::record::{CensoredOp, OpClass};

/// When a worker starts, measures and ends.
#[derive(Debug, Clone, Copy)]
pub struct Times {
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
    /// Make the content of written buffers distinct.
    pub stamp_writes: bool,
    /// Count what ends while draining, because a final sync closes the window.
    pub count_drained: bool,
}

/// The operation that a failure of the engine itself is reported as; requests may still be in flight then.
pub const ENGINE_CALL: &str = "io_uring_enter";

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
    /// Rounds of hand-over and reaping in the window.
    pub batches: u64,
    /// Sum of requests in flight over these rounds.
    pub in_flight_sum: u64,
    /// Reads and writes that ended in the window.
    pub operations: u64,
    /// When the last counted request ended, or the window's end.
    pub end_ns: u64,
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
    /// The result of the call in flight when all went well.
    #[inline]
    fn expected(self) -> i32 {
        if self.stage == Stage::Sync { 0 } else { self.size_bytes as i32 }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Free,
    Read,
    Write,
    SyncedWrite,
    Sync,
}

/// One worker's loop with everything it needs, all allocated before it starts.
pub struct Worker<'a, E, C> {
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
    free: Vec<u32>,
    in_flight: u32,
    transaction_start_ns: u64,
    stamp: u64,
    counts: LoopCounts,
}

impl<'a, E: Engine, C: Clock> Worker<'a, E, C> {
    /// Puts a worker together.
    pub fn new(
        engine: &'a mut E,
        clock: &'a C,
        generator: Generator,
        recorder: Recorder,
        rules: Rules,
        stamp_seed: u64,
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
            free: (0..rules.depth).rev().collect(),
            in_flight: 0,
            transaction_start_ns: 0,
            stamp: stamp_seed,
            counts: LoopCounts::default(),
        }
    }

    /// Runs until the window ends, the generator is used up, `stop` says so, or a request fails.
    ///
    /// `on_window` is called once, when the window begins.
    ///
    /// # Errors
    /// The first failed request; what was in flight beside it has ended when this returns. When the engine itself
    /// failed ([`ENGINE_CALL`]), requests may still be in flight.
    pub fn run(
        &mut self,
        times: Times,
        stop: &impl Fn() -> bool,
        on_window: impl FnOnce(),
    ) -> Result<LoopCounts, Failed> {
        let mut measuring = false;
        let mut on_window = Some(on_window);
        let mut issuing = true;
        let mut closed_at_ns = None;
        let mut failed = None;
        loop {
            issuing = issuing && self.fill();
            if self.in_flight == 0 {
                break;
            }
            self.counts.batches += u64::from(measuring);
            self.counts.in_flight_sum += u64::from(measuring) * u64::from(self.in_flight);
            let wait_for = self.rules.batch.min(self.in_flight);
            let ended = self.engine.run(wait_for).map_err(|error| Failed::of_engine(&error))?;
            let now_ns = self.clock.now_ns();
            if !measuring && now_ns >= times.window_start_ns {
                measuring = true;
                self.recorder.begin_window(times.window_start_ns);
                if let Some(on_window) = on_window.take() {
                    on_window();
                }
            }
            let over = now_ns >= times.window_end_ns;
            if closed_at_ns.is_some() {
                self.discard(ended, &mut failed);
            } else if over && !self.rules.count_drained {
                (issuing, closed_at_ns) = (false, Some(times.window_end_ns));
                self.close(times.window_end_ns, ended, &mut failed);
            } else {
                self.reap(ended, now_ns, measuring, &mut failed);
                issuing = issuing && !over;
                if failed.is_some() || stop() {
                    issuing = false;
                    if !self.rules.count_drained {
                        closed_at_ns = Some(now_ns);
                        self.close(now_ns, 0, &mut failed);
                    }
                }
            }
        }
        self.counts.end_ns = closed_at_ns.unwrap_or(self.counts.end_ns).max(times.window_start_ns);
        failed.map_or(Ok(self.counts), Err)
    }

    /// Issues requests into every free slot. False when the generator is used up.
    #[inline]
    fn fill(&mut self) -> bool {
        if self.free.is_empty() {
            return true;
        }
        let now_ns = self.clock.now_ns();
        while let Some(slot) = self.free.pop() {
            let Some(request) = self.generator.next() else {
                self.free.push(slot);
                return false;
            };
            self.issue(slot, request, now_ns);
        }
        true
    }

    #[inline]
    fn issue(&mut self, slot: u32, request: Request, now_ns: u64) {
        let Request { offset_bytes, size_bytes, .. } = request;
        let stage = match (request.write, request.sync_after) {
            (false, _) => Stage::Read,
            (true, false) => Stage::Write,
            (true, true) => Stage::SyncedWrite,
        };
        if request.begins_transaction {
            self.transaction_start_ns = now_ns;
        }
        let op = if request.write {
            if self.rules.stamp_writes {
                self.stamp = self.stamp.wrapping_add(1);
                let buffer = &mut self.engine.buffer_mut(slot)[..size_bytes as usize];
                stamp::stamp_at(buffer, offset_bytes, self.stamp);
            }
            Op::Write { offset_bytes, size_bytes }
        } else {
            Op::Read { offset_bytes, size_bytes }
        };
        self.slots[slot as usize] = Slot {
            start_ns: now_ns,
            offset_bytes,
            size_bytes,
            stage,
            ends_transaction: request.ends_transaction,
        };
        self.engine.queue(slot, op);
        self.in_flight += 1;
    }

    /// Takes in everything that has ended; writes that need a sync go on with it in the same slot.
    #[inline]
    fn reap(&mut self, ended: u32, now_ns: u64, counted: bool, failed: &mut Option<Failed>) {
        if counted {
            self.recorder.roll(now_ns);
            self.counts.end_ns = now_ns;
        }
        for _ in 0..ended {
            let Some((number, result)) = self.engine.take() else { break };
            let slot = self.slots[number as usize];
            self.in_flight -= 1;
            if result != slot.expected() {
                failed.get_or_insert(self.failure(slot, result));
                self.release(number);
                continue;
            }
            if counted {
                self.note(number, slot, now_ns);
            }
            if slot.stage == Stage::SyncedWrite && failed.is_none() {
                self.write_starts_ns[number as usize] = slot.start_ns;
                self.slots[number as usize] = Slot { start_ns: now_ns, stage: Stage::Sync, ..slot };
                self.engine.queue(number, self.rules.sync_op);
                self.in_flight += 1;
            } else {
                self.release(number);
            }
        }
    }

    #[inline]
    fn release(&mut self, number: u32) {
        self.slots[number as usize].stage = Stage::Free;
        self.free.push(number);
    }

    #[inline(always)]
    fn note(&mut self, number: u32, slot: Slot, now_ns: u64) {
        let class = slot.stage.class();
        if class == OpClass::Sync {
            self.note_sync(number, slot, now_ns);
            return;
        }
        let Slot { start_ns, offset_bytes, size_bytes, .. } = slot;
        self.recorder.record(
            class,
            now_ns,
            now_ns.saturating_sub(start_ns),
            offset_bytes,
            size_bytes,
        );
        self.counts.operations += 1;
    }

    /// A sync moves no bytes itself; it ends a commit, and perhaps a transaction.
    #[inline(never)]
    fn note_sync(&mut self, number: u32, slot: Slot, now_ns: u64) {
        let Slot { offset_bytes, size_bytes, .. } = slot;
        let mut record = |class, start_ns, bytes| {
            self.recorder.record(
                class,
                now_ns,
                now_ns.saturating_sub(start_ns),
                offset_bytes,
                bytes,
            );
        };
        record(OpClass::Sync, slot.start_ns, 0);
        record(OpClass::Commit, self.write_starts_ns[number as usize], size_bytes);
        if slot.ends_transaction {
            // Its bytes are those of its parts.
            record(OpClass::Transaction, self.transaction_start_ns, 0);
        }
    }

    /// The window ended at `end_ns` while these were in flight: they are censored, and what has just come back came
    /// too late to count. Requests go on until they end, but no sync follows any more.
    fn close(&mut self, end_ns: u64, ended: u32, failed: &mut Option<Failed>) {
        self.recorder.roll(end_ns);
        for slot in self.slots.iter().filter(|s| s.stage != Stage::Free) {
            self.recorder.censored.push(CensoredOp {
                class: slot.stage.class(),
                age_ns: end_ns.saturating_sub(slot.start_ns),
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
            let slot = self.slots[number as usize];
            if result != slot.expected() {
                failed.get_or_insert(self.failure(slot, result));
            }
            self.in_flight -= 1;
            self.release(number);
        }
    }

    #[cold]
    fn failure(&self, slot: Slot, result: i32) -> Failed {
        let operation = match (slot.stage, self.rules.sync_op) {
            (Stage::Sync, Op::Fdatasync) => "fdatasync",
            (Stage::Sync, _) => "fsync",
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
    fn of_engine(error: &std::io::Error) -> Self {
        let errno = error.raw_os_error().unwrap_or(5);
        Self { operation: ENGINE_CALL, offset_bytes: 0, size_bytes: 0, errno, moved_bytes: 0 }
    }
}

impl Stage {
    #[inline]
    fn class(self) -> OpClass {
        match self {
            Self::Free | Self::Read => OpClass::Read,
            Self::Write => OpClass::Write,
            Self::SyncedWrite => OpClass::SyncedWrite,
            Self::Sync => OpClass::Sync,
        }
    }
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;
