//! A lane: one job with its engine chosen, and the body of its worker threads.

use crate::engine::{Engine, Op};
use crate::engines::{null::Null, psync::Psync, uring::Uring};
use crate::generator::Generator;
use crate::plan::JobPlan;
use crate::recorder::{Exchange, IntervalBuffer, Recorder};
use crate::run::{Control, JobSetup, LoadError, THREADS_MAX};
use crate::worker::{ENGINE_CALL, Failed, LoopCounts, Rules, Times, Worker};
use fathom_base::clock::Clock;
use fathom_base::prng::Prng;
use fathom_model::record::{CensoredOp, IoFailure, OpClass, SlowOp};
use fathom_model::workload::{Access, Content, EngineKind, IoPriority, Job, SyncRule};
use fathom_sys::arena::Arena;
use fathom_sys::clock::FastClock;
use fathom_sys::ring::{self, RingFeature};
use fathom_sys::signals::StopFlag;
use fathom_sys::threads::{self, CpuUse, IoClass};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError, mpsc};
use std::time::Duration;

/// Keeps workers waiting until it is opened for all of them.
#[derive(Default)]
pub struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    /// Waits until it is open.
    pub fn pass(&self) {
        let mut is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_open {
            is_open = self.opened.wait(is_open).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets everybody through, now and later.
    pub fn open(&self) {
        *self.is_open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.opened.notify_all();
    }
}

/// What all workers of a run share.
pub struct Shared<'a> {
    /// Start of the measured window; set before the barrier opens.
    pub window_start_ns: AtomicU64,
    /// Opens when every worker is ready.
    pub go: Gate,
    /// Everybody stops: a setup or a request failed.
    pub give_up: AtomicBool,
    /// The first failure.
    pub failure: Mutex<Option<IoFailure>>,
    /// Somebody asked for the end.
    pub stop: &'a StopFlag,
}

impl Shared<'_> {
    fn fail(&self, failure: IoFailure) {
        if let Ok(mut slot) = self.failure.lock() {
            slot.get_or_insert(failure);
        }
        self.give_up.store(true, Ordering::Relaxed);
    }
}

/// What a worker leaves behind.
pub struct Finished {
    /// Index of its job.
    pub lane: usize,
    /// The last, partial interval.
    pub last: Box<IntervalBuffer>,
    /// Its slowest operations.
    pub slowest: Vec<SlowOp>,
    /// What was in flight at the end of the window.
    pub censored: Vec<CensoredOp>,
    /// What the loop counted.
    pub counts: LoopCounts,
    /// CPU time inside the window.
    pub cpu: CpuUse,
    /// The last sync, if this worker made it.
    pub final_sync_ns: Option<u64>,
    /// What its engine used.
    pub features: Vec<String>,
}

/// One job, ready to run: the engine is chosen, the threads are counted.
pub struct Lane<'a> {
    index: usize,
    setup: &'a JobSetup<'a>,
    /// Classes in the order of all its buffers.
    pub classes: Vec<OpClass>,
    /// What runs.
    pub kind: EngineKind,
    /// Why it is not what was asked for.
    pub fallback: Option<String>,
    ring_features: Vec<RingFeature>,
    /// Threads that run.
    pub threads: u32,
    /// Requests in flight on each.
    pub depth: u32,
    /// Buffer exchange of each thread.
    pub exchanges: Vec<Exchange>,
    /// Workers that still run: the last one makes the final sync.
    running: AtomicU32,
}

/// The classes that a job can produce.
fn classes_of(job: &Job) -> Vec<OpClass> {
    let mut classes = Vec::new();
    if job.reads() {
        classes.push(OpClass::Read);
    }
    if job.writes() {
        classes.push(OpClass::Write);
        if job.sync != SyncRule::Never || job.access == Access::Replication {
            classes.extend([OpClass::SyncedWrite, OpClass::Sync, OpClass::Commit]);
        }
    }
    if job.access == Access::Replication {
        classes.push(OpClass::Transaction);
    }
    classes
}

impl<'a> Lane<'a> {
    /// Chooses the engine: io_uring falls back to as many psync threads as requests were to be in flight.
    pub fn new(index: usize, setup: &'a JobSetup<'a>) -> Result<Self, LoadError> {
        let job = &setup.plan.job;
        if job.writes() && !setup.target.is_writable() {
            return Err(LoadError::NotWritable(job.name.clone()));
        }
        let mut lane = Self {
            index,
            setup,
            classes: classes_of(job),
            kind: if setup.target.file().is_none() { EngineKind::Null } else { job.engine },
            fallback: None,
            ring_features: Vec::new(),
            threads: job.threads,
            depth: job.depth,
            exchanges: Vec::new(),
            running: AtomicU32::new(0),
        };
        if lane.kind == EngineKind::IoUring {
            match ring::supported_features() {
                Ok(features) => lane.ring_features = features,
                Err(error) => lane.fall_back(&error)?,
            }
        }
        if u64::from(lane.threads) > THREADS_MAX {
            return Err(LoadError::TooManyThreads(u64::from(lane.threads)));
        }
        lane.exchanges = (0..lane.threads).map(|_| Exchange::new(lane.classes.len())).collect();
        lane.running = AtomicU32::new(lane.threads);
        Ok(lane)
    }

    /// The same number of requests in flight, except for sequential access: more threads would be more streams.
    fn fall_back(&mut self, error: &std::io::Error) -> Result<(), LoadError> {
        let job = &self.plan().job;
        let is_one_stream = job.access != Access::Random;
        let concurrency = if is_one_stream { u64::from(job.threads) } else { job.concurrency() };
        let threads =
            u32::try_from(concurrency).map_err(|_| LoadError::TooManyThreads(concurrency))?;
        self.fallback = Some(fallback_text(error, concurrency, job.concurrency()));
        self.kind = EngineKind::Psync;
        self.threads = threads;
        self.depth = 1;
        Ok(())
    }

    /// The job's plan.
    pub fn plan(&self) -> &JobPlan {
        &self.setup.plan
    }

    /// The job's name as far as a thread name (15 characters) has room for it.
    pub fn name_short(&self) -> String {
        self.plan().job.name.chars().take(6).collect()
    }

    /// The body of a worker thread.
    pub fn work(
        &self,
        thread: u32,
        shared: &Shared<'_>,
        control: &Control<'_>,
        ready: &mpsc::Sender<Result<(), LoadError>>,
        done: &mpsc::Sender<Option<Finished>>,
    ) {
        let arena = match self.prepare_thread(thread) {
            Ok(arena) => arena,
            Err(error) => {
                let _ = ready.send(Err(error));
                shared.go.pass();
                return;
            }
        };
        let finished = match (self.kind, self.setup.target.file()) {
            (EngineKind::IoUring, Some(file)) => {
                match Uring::new(file.as_fd(), arena, &self.ring_features) {
                    Ok(engine) => self.drive(engine, thread, shared, control, ready),
                    Err(source) => {
                        let error = {
                            let cure = ring_cure(&source);
                            self.setup_error(thread, "setting up the ring", source, cure)
                        };
                        let _ = ready.send(Err(error));
                        shared.go.pass();
                        None
                    }
                }
            }
            (EngineKind::Psync, Some(file)) => {
                self.drive(Psync::new(file.as_fd(), arena), thread, shared, control, ready)
            }
            _ => self.drive(Null::new(arena), thread, shared, control, ready),
        };
        let _ = done.send(finished);
    }

    fn setup_error(
        &self,
        thread: u32,
        what: &'static str,
        source: std::io::Error,
        cure: &'static str,
    ) -> LoadError {
        LoadError::Setup { job: self.plan().job.name.clone(), thread, what, source, cure }
    }

    /// Binds the thread and fills its buffers.
    fn prepare_thread(&self, thread: u32) -> Result<Arena, LoadError> {
        let job = &self.plan().job;
        if let Some(cpu) = job.cpus.get(thread as usize % job.cpus.len().max(1)) {
            threads::bind_to_cpu(*cpu).map_err(|e| {
                self.setup_error(
                    thread,
                    "binding to a CPU",
                    e,
                    "name CPUs that exist and that the cgroup allows in cpus=",
                )
            })?;
        }
        let class = match job.io_priority {
            IoPriority::Inherit => None,
            IoPriority::BestEffort(level) => Some(IoClass::BestEffort(level)),
            IoPriority::Idle => Some(IoClass::Idle),
        };
        if let Some(class) = class {
            threads::set_io_class(class).map_err(|e| {
                self.setup_error(thread, "setting the I/O priority", e, "leave out io_priority=")
            })?;
        }
        let slots = self.depth as usize;
        let mut arena = Arena::new(slots, job.block_size_bytes_max() as usize).map_err(|e| {
            self.setup_error(
                thread,
                "allocating buffers",
                e,
                "use a smaller block_size, depth or threads",
            )
        })?;
        if job.writes() && job.content == Content::Random {
            let mut prng = Prng::new(self.plan().seed ^ 0xB0FF_E25D, u64::from(thread));
            (0..slots).for_each(|slot| prng.fill(arena.slot_mut(slot)));
        }
        Ok(arena)
    }

    /// Runs the measured loop on an engine that is ready.
    fn drive<E: Engine>(
        &self,
        mut engine: E,
        thread: u32,
        shared: &Shared<'_>,
        control: &Control<'_>,
        ready: &mpsc::Sender<Result<(), LoadError>>,
    ) -> Option<Finished> {
        let plan = self.plan();
        let features = engine.features();
        let exchange = self.exchanges[thread as usize].clone();
        let recorder =
            Recorder::new(&self.classes, exchange, control.interval_ns, self.depth as usize);
        let rules = Rules {
            depth: self.depth,
            batch: plan.job.batch.min(self.depth),
            sync_op: JobPlan::sync_op(plan.job.sync_call),
            stamp_writes: plan.stamps_writes(),
            count_drained: plan.job.sync_at_end.is_some(),
        };
        let generator = Generator::new(plan, thread, self.threads);
        let stamp_seed = plan.seed ^ (u64::from(thread) << 40);
        let clock = control.clock;
        let mut worker = Worker::new(&mut engine, &clock, generator, recorder, rules, stamp_seed);
        let _ = ready.send(Ok(()));
        shared.go.pass();
        if shared.give_up.load(Ordering::Relaxed) {
            return None;
        }
        let window_start_ns = shared.window_start_ns.load(Ordering::Relaxed);
        sleep_until(&clock, window_start_ns - plan.job.warmup_ns);
        let window_end_ns =
            plan.job.duration_ns.map_or(u64::MAX, |d| window_start_ns.saturating_add(d));
        let mut cpu_before = threads::thread_cpu();
        let stop = || shared.give_up.load(Ordering::Relaxed) || shared.stop.is_set();
        let times = Times { window_start_ns, window_end_ns };
        let ran = worker.run(times, &stop, || cpu_before = threads::thread_cpu());
        let cpu = threads::thread_cpu().since(cpu_before);
        let engine_failed = matches!(&ran, Err(failed) if failed.operation == ENGINE_CALL);
        let mut counts = match ran {
            Ok(counts) => counts,
            Err(failed) => {
                shared.fail(failure(&plan.job.name, failed));
                LoopCounts { end_ns: clock.now_ns().max(window_start_ns), ..LoopCounts::default() }
            }
        };
        let recorder = worker.recorder;
        // After a failure of the engine itself nothing more can be asked of it; after a stop nobody waits.
        let may_sync = !engine_failed && !shared.stop.is_set();
        let last_out = self.running.fetch_sub(1, Ordering::AcqRel) == 1;
        let final_sync_ns = match plan.job.sync_at_end {
            Some(call) if last_out && may_sync => {
                let took = self.final_sync(&mut engine, JobPlan::sync_op(call), &clock, shared);
                counts.end_ns = counts.end_ns.max(clock.now_ns());
                took
            }
            _ => None,
        };
        let (last, slowest, censored) = recorder.finish(counts.end_ns);
        Some(Finished {
            lane: self.index,
            last,
            slowest,
            censored,
            counts,
            cpu,
            final_sync_ns,
            features,
        })
    }

    fn final_sync<E: Engine>(
        &self,
        engine: &mut E,
        op: Op,
        clock: &FastClock,
        shared: &Shared<'_>,
    ) -> Option<u64> {
        let start_ns = clock.now_ns();
        engine.queue(0, op);
        let errno = match engine.run(1) {
            Ok(_) => engine.take().map_or(0, |(_, result)| -result),
            Err(error) => error.raw_os_error().unwrap_or(5),
        };
        if errno != 0 {
            let operation = if op == Op::Fsync { "fsync" } else { "fdatasync" };
            let failed =
                Failed { operation, offset_bytes: 0, size_bytes: 0, errno, moved_bytes: 0 };
            shared.fail(failure(&self.plan().job.name, failed));
        }
        Some(clock.now_ns() - start_ns)
    }
}

/// What to do when a ring cannot be made, by the reason.
fn ring_cure(error: &std::io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(23 | 24) => {
            "each thread needs two descriptors: raise the limit (ulimit -n) or use fewer threads with more depth"
        }
        _ => RING_CURE,
    }
}

const RING_CURE: &str =
    "raise the locked-memory limit (ulimit -l), use a smaller depth or threads, or engine=psync";

fn fallback_text(error: &std::io::Error, threads: u64, asked: u64) -> String {
    let why = match error.raw_os_error() {
        Some(38) => "this kernel has no io_uring",
        Some(1 | 13) => {
            "io_uring is forbidden here (sysctl kernel.io_uring_disabled, seccomp or SELinux)"
        }
        Some(12) => "not enough locked memory for a ring (ulimit -l)",
        _ => "io_uring does not work here",
    };
    let instead = if threads == asked {
        format!("psync with {threads} threads keeps the same number of requests in flight")
    } else {
        format!(
            "psync with one request in flight per thread ({threads}, not {asked}): more would be other streams"
        )
    };
    format!("{why}: {error}; {instead}")
}

fn sleep_until(clock: &FastClock, start_ns: u64) {
    let now_ns = clock.now_ns();
    if let Some(wait_ns) = start_ns.checked_sub(now_ns) {
        std::thread::sleep(Duration::from_nanos(wait_ns));
    }
}

/// A failed request in words: what, where, why, what to do.
fn failure(job: &str, failed: Failed) -> IoFailure {
    let Failed { operation, offset_bytes, size_bytes, errno, moved_bytes } = failed;
    let at = format!("{operation} of {size_bytes} bytes at offset {offset_bytes}");
    let message = if errno == 0 {
        format!(
            "{at}: only {moved_bytes} bytes were moved; likely the target became shorter or full during the run; check its size and free space"
        )
    } else {
        let reason = std::io::Error::from_raw_os_error(errno);
        let cure = match errno {
            5 => {
                "the device or its backing failed; look at dmesg, and at the health of the disk, before anything else"
            }
            28 => {
                "the filesystem is full, or the device became shorter; free space or use a smaller size= or span="
            }
            22 => {
                "the target does not take requests of this size or alignment; use a multiple of its logical block, or direct=no"
            }
            1 | 13 => "the system forbids it; run as the owner or as root",
            30 => "the filesystem or device is read-only",
            _ => "look at dmesg for the device's own message",
        };
        format!("{at}: {reason}; {cure}")
    };
    let (job, operation) = (job.to_owned(), operation.to_owned());
    IoFailure { job, operation, offset_bytes, size_bytes, errno, message }
}
