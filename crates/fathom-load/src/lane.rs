//! A lane: one job with its engine chosen, and the body of its worker threads.

use crate::engine::{Engine, Op};
use crate::engines::{
    ability, libaio::Libaio, mmap::Mmap, null::Null, psync::Psync, uring, uring::Uring,
};
use crate::files::{FileSet, OpenFiles, Room};
use crate::final_sync::FinalSyncs;
use crate::generator::Generator;
use crate::limits;
use crate::pace::{OpenEnd, Pace};
use crate::payload::{self, Fill, Payload};
use crate::plan::JobPlan;
use crate::recorder::{Exchange, IntervalBuffer, Recorder, notebook_bytes};
use crate::run::{Control, JobSetup, LoadError, THREADS_MAX};
use crate::verify::{self, Book, Verifier};
use crate::worker::{Ended, Failed, LoopCounts, Rules, Times, Worker};
use fathom_base::clock::Clock;
use fathom_base::content::Filler;
use fathom_model::limits::LimitsRecord;
use fathom_model::record::{CensoredOp, IoFailure, OpClass, SlowOp};
use fathom_model::workload::{Access, EngineKind, Job, SyncRule, Verify};
use fathom_sys::arena::Arena;
use fathom_sys::clock::FastClock;
use fathom_sys::ring::{self, RingOptions};
use fathom_sys::signals::StopFlag;
use fathom_sys::threads::{self, CpuUse};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError, mpsc};
use std::time::Duration;

mod names;

/// Keeps workers waiting until it is decided whether the run starts.
#[derive(Default)]
pub struct Gate {
    may_start: Mutex<Option<bool>>,
    decided: Condvar,
}

impl Gate {
    /// Waits for the decision: false when the run was called off.
    #[must_use]
    pub fn pass(&self) -> bool {
        let mut may_start = self.may_start.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(decision) = *may_start {
                return decision;
            }
            may_start = self.decided.wait(may_start).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets everybody through, now and later: to start or to go home.
    pub fn open(&self, may_start: bool) {
        *self.may_start.lock().unwrap_or_else(PoisonError::into_inner) = Some(may_start);
        self.decided.notify_all();
    }
}

/// How often a thread that waits for its start looks whether there will be one.
const STOP_LOOK: Duration = Duration::from_millis(50);

/// What all workers of a run share.
pub struct Shared<'a> {
    /// Start of the measured window; set before the barrier opens.
    pub window_start_ns: AtomicU64,
    /// Opens when every worker is ready.
    pub go: Gate,
    /// Everybody stops: a request failed.
    pub give_up: AtomicBool,
    /// The first failure.
    pub failure: Mutex<Option<IoFailure>>,
    /// The syncs at the end of jobs.
    pub final_syncs: FinalSyncs,
    /// Somebody asked for the end.
    pub stop: &'a StopFlag,
}

impl Shared<'_> {
    /// True when nobody is to issue any more.
    fn is_over(&self) -> bool {
        self.give_up.load(Ordering::Relaxed) || self.stop.is_set()
    }

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
    /// Its number in the job.
    pub thread: u32,
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
    /// How its open loop went.
    pub open_loop: Option<OpenEnd>,
    /// What its engine used.
    pub features: Vec<String>,
    /// What must be found where, when the job verifies.
    pub book: Option<Book>,
}

/// What will really run for a job on this machine.
struct Choice {
    kind: EngineKind,
    fallback: Option<String>,
    ring: RingOptions,
    threads: u32,
    depth: u32,
}

impl Choice {
    /// As asked, or psync where io_uring cannot be had.
    fn of(job: &Job, is_null: bool) -> Result<Self, LoadError> {
        let mut choice = Self {
            kind: match job.metadata {
                _ if is_null => EngineKind::Null,
                Some(_) => EngineKind::Psync,
                None => job.engine,
            },
            fallback: None,
            ring: RingOptions::default(),
            threads: job.threads,
            depth: job.depth,
        };
        if choice.kind == EngineKind::IoUring {
            match ring::supported_features() {
                Ok(features) => choice.ring = uring::options(job, features),
                Err(error) => choice.fall_back(job, &error)?,
            }
        }
        if u64::from(choice.threads) > THREADS_MAX {
            return Err(LoadError::TooManyThreads(u64::from(choice.threads)));
        }
        Ok(choice)
    }

    /// As many psync threads as requests were to be in flight, except for sequential access: more threads would be more
    /// streams.
    fn fall_back(&mut self, job: &Job, error: &std::io::Error) -> Result<(), LoadError> {
        if let Some(setting) = uring::setting_of_its_own(job) {
            let what = format!("{setting} needs io_uring, but {}: {error}", why_no_ring(error));
            return Err(LoadError::Missing { job: job.name.clone(), what });
        }
        let is_one_stream =
            !matches!(job.access, Access::Random | Access::Shuffled | Access::Randomio);
        let concurrency = if is_one_stream { u64::from(job.threads) } else { job.concurrency() };
        let threads =
            u32::try_from(concurrency).map_err(|_| LoadError::TooManyThreads(concurrency))?;
        self.fallback = Some(fallback_text(error, concurrency, job.concurrency()));
        self.kind = EngineKind::Psync;
        self.threads = threads;
        self.depth = 1;
        Ok(())
    }
}

/// Memory that the workers of a job take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryNeed {
    /// Threads that will run: more than asked for where psync takes the place of io_uring.
    pub threads: u32,
    /// Requests in flight on each.
    pub depth: u32,
    /// Bytes of one I/O buffer, of which there is one for each request in flight.
    pub buffer_bytes: u64,
    /// Bytes of one thread's histograms.
    pub histogram_bytes: u64,
}

impl MemoryNeed {
    /// What a job needs on this machine.
    ///
    /// # Errors
    /// [`LoadError::TooManyThreads`].
    pub fn of(job: &Job) -> Result<Self, LoadError> {
        let Choice { threads, depth, .. } = Choice::of(job, job.engine == EngineKind::Null)?;
        let buffer_bytes = u64::from(job.buffer_bytes_max()).next_multiple_of(4096);
        let histogram_bytes = notebook_bytes(classes_of(job).len(), job.rate.is_some());
        Ok(Self { threads, depth, buffer_bytes, histogram_bytes })
    }

    /// All threads together, in bytes.
    #[must_use]
    pub fn total_bytes(self) -> u64 {
        let buffers_bytes = self.buffer_bytes.saturating_mul(u64::from(self.depth));
        buffers_bytes.saturating_add(self.histogram_bytes).saturating_mul(u64::from(self.threads))
    }
}

/// A worker's number, and what it shares with the others.
type Place<'a> = (u32, &'a Shared<'a>, &'a Control<'a>, &'a mpsc::Sender<Result<(), LoadError>>);

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
    ring: RingOptions,
    /// What its engine does by plain system calls.
    plain_calls: Vec<String>,
    /// Threads that run.
    pub threads: u32,
    /// Those of all jobs.
    threads_of_all: u32,
    /// Requests in flight on each.
    pub depth: u32,
    /// Buffer exchange of each thread.
    pub exchanges: Vec<Exchange>,
    /// Workers that still run: the last one makes the final sync.
    running: AtomicU32,
    /// How the threads are ranked and bound, as the first of them read it back.
    pub limits: OnceLock<LimitsRecord>,
    /// What fills the buffers of writes.
    filler: Option<Filler>,
    /// Open files of a job with several.
    files: FileSet,
    /// One for each thread of a job that verifies, until the thread takes it.
    verifiers: Mutex<Vec<Option<Verifier>>>,
}

/// The classes that a job can produce.
fn classes_of(job: &Job) -> Vec<OpClass> {
    if let Some(metadata) = job.metadata {
        return vec![names::class(metadata)];
    }
    let mut classes = Vec::new();
    if job.reads() {
        classes.push(OpClass::Read);
    }
    if job.writes_data() {
        classes.push(OpClass::Write);
        if job.sync != SyncRule::Never || job.access == Access::Replication {
            classes.extend([OpClass::SyncedWrite, OpClass::Sync, OpClass::Commit]);
        }
    }
    if job.access == Access::Replication {
        classes.push(OpClass::Transaction);
    }
    let asked = [
        (OpClass::Sync, job.sync_all_every.is_some() && !classes.contains(&OpClass::Sync)),
        (OpClass::Trim, job.trim_fraction > 0.0),
        (OpClass::Zero, job.zero_fraction > 0.0),
        (OpClass::Open, job.files > 1),
    ];
    classes.extend(asked.into_iter().filter(|(_, is_asked)| *is_asked).map(|(class, _)| class));
    classes
}

/// Why an engine cannot do with some of its files open.
fn needs_all_files(kind: EngineKind, ring: &RingOptions) -> Option<(&'static str, &'static str)> {
    match kind {
        // The kernel's thread may take a request up when its descriptor is another file's already.
        EngineKind::IoUring if ring.sqpoll => {
            Some(("sqpoll=yes needs all files open", "leave out sqpoll"))
        }
        // A mapping is of one file for good.
        EngineKind::Mmap => Some((
            "engine=mmap maps every file once, and needs all of them open",
            "use engine=psync",
        )),
        _ => None,
    }
}

/// The jobs on the target of that one, by whatever path it was opened.
fn beside<'a>(index: usize, setups: &'a [JobSetup<'a>]) -> Vec<&'a Job> {
    let own = setups[index].target.identity();
    let is_on_it = |setup: &&JobSetup<'_>| setup.target.identity() == own;
    setups.iter().filter(is_on_it).map(|setup| &setup.plan.job).collect()
}

impl<'a> Lane<'a> {
    /// Chooses the engine, and finds out whether the job can run.
    pub fn new(index: usize, setups: &'a [JobSetup<'a>]) -> Result<Self, LoadError> {
        let setup = &setups[index];
        let job = &setup.plan.job;
        if job.writes() && !setup.target.is_writable() {
            return Err(LoadError::NotWritable(job.name.clone()));
        }
        if job.metadata.is_some() && setup.target.names().is_none() {
            let what = "its target has no directory for names; name a directory".to_owned();
            return Err(LoadError::Missing { job: job.name.clone(), what });
        }
        let is_null = setup.target.file().is_none() && job.metadata.is_none();
        let Choice { kind, fallback, ring, threads, depth } = Choice::of(job, is_null)?;
        let plain_calls = match setup.target.file() {
            Some(file) => {
                let kinds = ability::kinds_of(job);
                ability::check(job, kind, &ring, file, &kinds, &beside(index, setups))?
            }
            None => Vec::new(),
        };
        if !verify::has_room(&setup.plan, threads) {
            let what = format!(
                "verify={} gives each thread a part of its own, and psync, which takes the place of io_uring here, has {threads} of them: more than the target has room for; use a smaller depth or block_size, or a larger target",
                job.verify.word()
            );
            return Err(LoadError::Missing { job: job.name.clone(), what });
        }
        let classes = classes_of(job);
        let running = AtomicU32::new(threads);
        let filler = payload::filler(job, setup.plan.seed)
            .map_err(|source| LoadError::Content { job: job.name.clone(), source })?;
        let verifiers = verify::verifiers(&setup.plan, index, threads, depth)
            .map_err(|source| LoadError::Verify { job: job.name.clone(), source })?;
        let room = || {
            let further = setups[index + 1..].iter().map(|further| further.plan.job.threads);
            Room::now(std::iter::once(threads).chain(further))
        };
        let files = FileSet::new(setup.target, job, threads, depth, room)?;
        if let Some((need, instead)) = needs_all_files(kind, &ring)
            && let Some(why) = files.why_switching(job.files, (threads, depth))
        {
            let what = format!("{need}, but {why}, or {instead}");
            return Err(LoadError::Missing { job: job.name.clone(), what });
        }
        let all_threads = setups.iter().map(|setup| setup.plan.job.threads);
        Ok(Self {
            index,
            setup,
            files,
            threads_of_all: all_threads.fold(0, u32::saturating_add),
            classes,
            kind,
            fallback,
            ring,
            plain_calls,
            threads,
            depth,
            exchanges: Vec::new(),
            running,
            limits: OnceLock::new(),
            filler,
            verifiers: Mutex::new(verifiers),
        })
    }

    /// Makes the buffer exchanges. Only for a run: what is made, dropped and made again would be cleared by hand, and so
    /// become real memory.
    pub fn make_exchanges(&mut self) {
        let (classes, is_open) = (self.classes.len(), self.plan().job.rate.is_some());
        self.exchanges = (0..self.threads).map(|_| Exchange::new(classes, is_open)).collect();
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
        let started = self.prepare_thread(thread).and_then(|arena| {
            if let Some(directory) = self.setup.target.names() {
                return self.go_through_names(directory, thread, shared, control, ready);
            }
            if self.setup.target.file().is_none() {
                return Ok(self.drive(Null::new(arena), thread, shared, control, ready));
            };
            let failed =
                |source, cure| self.setup_error(thread, "setting up the engine", source, cure);
            let files = self
                .files
                .table(self.setup.target, thread)
                .map_err(|e| failed(e, "the target went away; look at it".into()))?;
            Ok(match self.kind {
                EngineKind::IoUring => {
                    let engine = Uring::new(files, arena, &self.ring).map_err(|e| {
                        let cure = self.ring_cure(&e);
                        failed(e, cure)
                    })?;
                    self.drive(engine, thread, shared, control, ready)
                }
                EngineKind::Libaio => {
                    let engine = Libaio::new(files, arena, self.plan().job.batch_submit)
                        .map_err(|e| failed(e, AIO_CURE.into()))?;
                    self.drive(engine, thread, shared, control, ready)
                }
                EngineKind::Mmap => {
                    let target = self.setup.target;
                    let (size_bytes, may_write) = (target.size_bytes(), self.plan().job.writes());
                    let engine = Mmap::new(files, size_bytes, may_write, arena)
                        .map_err(|e| failed(e, MMAP_CURE.into()))?;
                    self.drive(engine, thread, shared, control, ready)
                }
                EngineKind::Psync => {
                    let _own = self.opens_nothing().then(threads::own_files);
                    self.drive(Psync::new(files, arena), thread, shared, control, ready)
                }
                EngineKind::Null => self.drive(Null::new(arena), thread, shared, control, ready),
            })
        });
        let finished = started.unwrap_or_else(|error| {
            let _ = ready.send(Err(error));
            let _ = shared.go.pass();
            None
        });
        let _ = done.send(finished);
    }

    /// True when its threads open no file by themselves: all that they need is open before they start.
    fn opens_nothing(&self) -> bool {
        self.setup.target.files() == 1 && self.plan().job.verify == Verify::None
    }

    fn setup_error(
        &self,
        thread: u32,
        what: &'static str,
        source: std::io::Error,
        cure: Cow<'static, str>,
    ) -> LoadError {
        LoadError::Setup { job: self.plan().job.name.clone(), thread, what, source, cure }
    }

    /// What to do when a ring cannot be made, by the reason.
    fn ring_cure(&self, error: &std::io::Error) -> Cow<'static, str> {
        match error.raw_os_error() {
            Some(12) if self.plan().job.registered == Some(true) => {
                "raise the locked-memory limit (ulimit -l), use a smaller depth or threads, or leave out registered=yes".into()
            }
            Some(24) => {
                let room = Room::now(std::iter::once(self.threads_of_all));
                format!(
                    "each thread needs a descriptor, with verify=crash two, and the limit is {}: raise it to {} or more (ulimit -n), or use \
                     fewer threads with more depth",
                    room.limit,
                    room.limit_for(0)
                )
                .into()
            }
            _ => match threads::descriptors_limit(error) {
                Some(limit) => {
                    format!("raise {limit}, or use fewer threads with more depth").into()
                }
                None => RING_CURE.into(),
            },
        }
    }

    /// Ranks and binds the thread, and makes its buffers.
    fn prepare_thread(&self, thread: u32) -> Result<Arena, LoadError> {
        let job = &self.plan().job;
        limits::apply(job, thread)?;
        let slots = self.depth as usize;
        let mut arena = Arena::new(slots, job.buffer_bytes_max() as usize).map_err(|e| {
            self.setup_error(
                thread,
                "allocating buffers",
                e,
                "use a smaller block_size, depth or threads".into(),
            )
        })?;
        self.limits.get_or_init(|| limits::in_effect(job, arena.slot_mut(0)));
        Ok(arena)
    }

    /// Runs the measured loop on an engine that is ready, with what writes are made of.
    fn drive<E: Engine>(
        &self,
        engine: E,
        thread: u32,
        shared: &Shared<'_>,
        control: &Control<'_>,
        ready: &mpsc::Sender<Result<(), LoadError>>,
    ) -> Option<Finished> {
        let verifier = self.verifiers.lock().ok()?.get_mut(thread as usize).and_then(Option::take);
        let Some(verifier) = verifier else {
            let fill = Fill::new(self.filler.clone(), thread);
            let generator = Generator::new(self.plan(), thread, self.threads);
            let place = (thread, shared, control, ready);
            return self.measure(engine, fill, generator, place).map(|(finished, _)| finished);
        };
        let generator = verify::generator(self.plan(), thread, self.threads);
        let place = (thread, shared, control, ready);
        let (finished, verifier) = self.measure(engine, verifier, generator, place)?;
        Some(Finished { book: Some(verifier.into_book()), ..finished })
    }

    fn measure<E: Engine, P: Payload>(
        &self,
        mut engine: E,
        payload: P,
        generator: Generator,
        (thread, shared, control, ready): Place<'_>,
    ) -> Option<(Finished, P)> {
        let plan = self.plan();
        let exchange = self.exchanges[thread as usize].clone();
        let recorder =
            Recorder::new(&self.classes, exchange, control.interval_ns, self.depth as usize);
        let rules = Rules {
            depth: generator.depth_usable(self.depth),
            batch: plan.job.batch,
            sync_op: JobPlan::sync_op(plan.job.sync_call),
            count_drained: plan.job.sync_at_end.is_some(),
        };
        let clock = control.clock;
        let pace = Pace::new(&plan.job, plan.seed, thread, self.threads, rules.depth);
        if pace.is_some() {
            threads::wake_precisely();
        }
        let mut worker = Worker::new(&mut engine, &clock, generator, recorder, rules, payload);
        worker.pace = pace;
        worker.open_files = self.files.switching(self.setup.target, thread);
        let _ = ready.send(Ok(()));
        // Also when a request of an earlier thread has failed already: a job that verifies needs what all its threads
        // know.
        if !shared.go.pass() {
            return None;
        }
        let window_start_ns = shared.window_start_ns.load(Ordering::Relaxed);
        let start_ns = window_start_ns - plan.job.warmup_ns;
        let window_end_ns =
            plan.job.duration_ns.map_or(u64::MAX, |d| window_start_ns.saturating_add(d));
        let stop = || shared.is_over();
        let times = Times { start_ns, window_start_ns, window_end_ns };
        let has_begun = sleep_until(&clock, start_ns, &stop);
        let mut cpu_before = threads::thread_cpu();
        let ended = if has_begun {
            worker.run(times, &stop, || cpu_before = cpu_of_window(times, cpu_before))
        } else {
            Ended::before(window_start_ns)
        };
        let cpu = threads::thread_cpu().since(cpu_before);
        let Ended { mut counts, failed, engine_broke } = ended;
        if let Some(failed) = failed {
            shared.fail(failure(&plan.job.name, failed));
        }
        let (recorder, pace, payload) = (worker.recorder, worker.pace, worker.payload);
        // After a failure of the engine itself nothing more can be asked of it; after a stop nobody waits.
        let may_sync = !engine_broke && !shared.stop.is_set();
        let last_out = self.running.fetch_sub(1, Ordering::AcqRel) == 1;
        let files = self.files_to_sync(thread, last_out);
        let final_sync_ns = match plan.job.sync_at_end {
            Some(call) if !files.is_empty() && may_sync => {
                let op = JobPlan::sync_op(call);
                let took = self.final_sync(&mut engine, thread, (files, op), &clock, shared);
                counts.end_ns = counts.end_ns.max(clock.now_ns());
                took
            }
            _ => None,
        };
        let (last, slowest, censored) = recorder.finish(counts.end_ns);
        // Only now does an engine know all of what it did.
        let features = engine.features().into_iter().chain(self.plain_calls.clone()).collect();
        let finished = Finished {
            lane: self.index,
            thread,
            last,
            slowest,
            censored,
            counts,
            cpu,
            final_sync_ns,
            open_loop: pace.and_then(Pace::finish),
            features,
            book: None,
        };
        Some((finished, payload))
    }

    /// True when every thread has issued its last request.
    pub fn has_issued_all(&self) -> bool {
        self.running.load(Ordering::Acquire) == 0
    }

    /// The files that a thread synchronises at its end: its own, or all of them where it is the last to end.
    fn files_to_sync(&self, thread: u32, is_last: bool) -> Range<u32> {
        if self.plan().of_thread(thread).is_some() {
            let own = self.plan().file_of(thread);
            return own..own + 1;
        }
        match self.setup.target.file() {
            _ if !is_last => 0..0,
            Some(_) => 0..self.setup.target.files(),
            None => 0..1,
        }
    }

    fn final_sync<E: Engine>(
        &self,
        engine: &mut E,
        thread: u32,
        (files, op): (Range<u32>, Op),
        clock: &FastClock,
        shared: &Shared<'_>,
    ) -> Option<u64> {
        let start_ns = clock.now_ns();
        let mut open_files = self.files.switching(self.setup.target, thread);
        if let Some(open_files) = &mut open_files {
            open_files.forget();
        }
        let mut errno = 0;
        shared.final_syncs.begin(files.len(), start_ns);
        for file in files.take_while(|_| !shared.stop.is_set()) {
            let synced = sync_one(engine, open_files.as_mut(), file, op);
            errno = synced.map_or_else(|e| e.raw_os_error().unwrap_or(5), |result| -result);
            if errno != 0 {
                break;
            }
            shared.final_syncs.done();
        }
        if errno != 0 {
            let operation = if op == Op::Fsync { "fsync" } else { "fdatasync" };
            let failed =
                Failed { operation, offset_bytes: 0, size_bytes: 0, errno, moved_bytes: 0 };
            shared.fail(failure(&self.plan().job.name, failed));
        }
        Some(clock.now_ns() - start_ns)
    }
}

/// What a thread has used when its window begins, seen after the first requests in it. Without a warm-up they are its first
/// ones, and what they took counts: that is what had been used before them.
fn cpu_of_window(times: Times, before_first: CpuUse) -> CpuUse {
    if times.start_ns < times.window_start_ns { threads::thread_cpu() } else { before_first }
}

/// One sync of one file, which is opened for it if need be; nothing else is in flight.
fn sync_one<E: Engine>(
    engine: &mut E,
    open_files: Option<&mut OpenFiles<'_>>,
    file: u32,
    op: Op,
) -> std::io::Result<i32> {
    let index = match open_files {
        None => file,
        Some(open) => match open.find(file) {
            Some(index) => index,
            None => {
                let index = open.replace(file, |_| false)?;
                engine.renew_file(index)?;
                index
            }
        },
    };
    engine.queue(0, index, op);
    engine.run(1)?;
    Ok(engine.take().map_or(0, |(_, result)| result))
}

const AIO_CURE: &str = "raise the system's limit of asynchronous requests (sysctl fs.aio-max-nr), or use a smaller depth or threads";

const MMAP_CURE: &str = "use a filesystem that maps files, a smaller target, or engine=psync";

const RING_CURE: &str =
    "raise the locked-memory limit (ulimit -l), use a smaller depth or threads, or engine=psync";

fn why_no_ring(error: &std::io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(38) => "this kernel has no io_uring",
        Some(1 | 13) => {
            "io_uring is forbidden here (sysctl kernel.io_uring_disabled, seccomp or SELinux)"
        }
        Some(12) => "not enough locked memory for a ring (ulimit -l)",
        _ => "io_uring does not work here",
    }
}

fn fallback_text(error: &std::io::Error, threads: u64, asked: u64) -> String {
    let why = why_no_ring(error);
    let instead = if threads == asked {
        format!("psync with {threads} threads keeps the same number of requests in flight")
    } else {
        format!(
            "psync with one request in flight per thread ({threads}, not {asked}): more would be other streams"
        )
    };
    format!("{why}: {error}; {instead}")
}

/// False when `stop` said so before the time had come: a job may begin long after the others have warmed up.
fn sleep_until(clock: &FastClock, start_ns: u64, stop: &impl Fn() -> bool) -> bool {
    while let Some(wait_ns) = start_ns.checked_sub(clock.now_ns()).filter(|ns| *ns > 0) {
        if stop() {
            return false;
        }
        std::thread::sleep(Duration::from_nanos(wait_ns).min(STOP_LOOK));
    }
    true
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
            27 => {
                "the limit of file sizes (ulimit -f, or LimitFSIZE= of a service) is reached, or that of the filesystem; raise it, or use a smaller size="
            }
            22 => {
                "the target does not take requests of this size or alignment; use a multiple of its logical block, or direct=no"
            }
            1 | 13 => "the system forbids it; run as the owner or as root",
            30 => "the filesystem or device is read-only",
            125 => {
                "the kernel could not start a thread that io_uring needs: the limit of threads (ulimit -u, or pids.max of the control group) or the memory is used up: raise it"
            }
            _ => "look at dmesg for the device's own message",
        };
        format!("{at}: {reason}; {cure}")
    };
    let (job, operation) = (job.to_owned(), operation.to_owned());
    IoFailure { job, operation, offset_bytes, size_bytes, errno, message }
}
