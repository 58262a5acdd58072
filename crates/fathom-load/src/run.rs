//! The coordinator: starts the workers together, collects what they note, makes job records.

use crate::collect::{Window, collect};
use crate::final_sync::FinalSyncs;
pub use crate::lane::MemoryNeed;
use crate::lane::{Finished, Gate, Lane, Shared};
use crate::limits::InControl;
use crate::plan::JobPlan;
use crate::target::LoadTarget;
use crate::verify::Book;
use fathom_base::clock::Clock;
use fathom_base::content::ContentError;
use fathom_base::ledger::LedgerError;
use fathom_model::record::{CpuTime, IoFailure, JobRecord};
use fathom_sys::clock::FastClock;
use fathom_sys::signals::StopFlag;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, mpsc};
use thiserror::Error;

/// Threads over all jobs at the most.
pub const THREADS_MAX: u64 = 65_536;

/// Why a run could not start.
#[derive(Debug, Error)]
pub enum LoadError {
    /// A job writes and its target was not opened with the right to be written.
    #[error("job '{0}' writes, but its target is open for reading only")]
    NotWritable(String),
    /// More threads than make sense.
    #[error(
        "{0} threads are more than the limit of {THREADS_MAX}; use fewer threads with more depth"
    )]
    TooManyThreads(u64),
    /// The engine, the kernel or the target lacks something that the job needs.
    #[error("job '{job}': {what}")]
    Missing {
        /// The job.
        job: String,
        /// What is missing, and the cure.
        what: String,
    },
    /// The content of writes cannot be made.
    #[error("job '{job}': {source}")]
    Content {
        /// The job.
        job: String,
        /// Why not.
        source: ContentError,
    },
    /// What is written cannot be verified.
    #[error("job '{job}': {source}")]
    Verify {
        /// The job.
        job: String,
        /// Why not.
        source: LedgerError,
    },
    /// The observer did not let it start.
    #[error("{0}")]
    CalledOff(String),
    /// A process of its own that a job runs in could not start, or ended before its time.
    #[error("{0}")]
    Apart(String),
    /// A worker could not be set up.
    #[error("job '{job}', thread {thread}: {what}: {source}; {cure}")]
    Setup {
        /// The job.
        job: String,
        /// The thread's number.
        thread: u32,
        /// What failed.
        what: &'static str,
        /// The system's reason.
        source: std::io::Error,
        /// What to do.
        cure: Cow<'static, str>,
    },
}

/// One job with its target.
pub struct JobSetup<'a> {
    /// What to issue.
    pub plan: JobPlan,
    /// Where.
    pub target: &'a LoadTarget,
}

/// The syncs at the end of jobs, when nothing else goes on any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Syncing {
    /// Files that are done.
    pub done: u64,
    /// All files whose sync has begun or comes next.
    pub files: u64,
    /// Since the first of them.
    pub elapsed_ns: u64,
}

impl Syncing {
    /// Time for the rest of them, when all take as long as those before; none before the first is done.
    #[must_use]
    pub fn rest_ns(self) -> Option<u64> {
        let each_ns = self.elapsed_ns.checked_div(self.done)?;
        Some(each_ns.saturating_mul(self.files.saturating_sub(self.done)))
    }
}

/// What the last closed interval showed, for progress lines.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Tick {
    /// Since the start of the window.
    pub elapsed_ns: u64,
    /// Requests per second.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Median latency of reads and writes.
    pub latency_ns_p50: Option<u64>,
    /// p99 latency of reads and writes.
    pub latency_ns_p99: Option<u64>,
    /// The longest latency of reads and writes.
    pub latency_ns_max: Option<u64>,
    /// Mean number of requests in flight: the latencies of all that ended, over the length of the interval.
    pub in_flight: f64,
    /// Bytes moved since the start of the window.
    pub bytes_total: u64,
    /// Only the syncs at the end are left.
    #[serde(default)]
    pub syncing: Option<Syncing>,
}

/// Who watches a run from outside the measured loop.
pub trait Observer {
    /// Every worker is set up, and the first request comes next.
    ///
    /// # Errors
    /// What keeps the run from starting.
    fn starts(&mut self) -> Result<(), String> {
        Ok(())
    }
    /// The measured window begins now.
    fn window_begins(&mut self);
    /// Every worker has left the window.
    fn window_ends(&mut self);
    /// About once per interval.
    fn tick(&mut self, tick: Tick);
}

/// What all jobs share.
pub struct Control<'a> {
    /// The workers' clock.
    pub clock: FastClock,
    /// Length of the intervals of the series.
    pub interval_ns: u64,
    /// Somebody asked for the end.
    pub stop: &'a StopFlag,
}

/// What came out.
#[derive(Debug)]
pub struct Outcome {
    /// One record for each job, in order.
    pub jobs: Vec<JobRecord>,
    /// Start of the window, UTC, nanoseconds since 1970.
    pub started_unix_ns: i64,
    /// From the start of the window to the end of the last job.
    pub window_ns: u64,
    /// Time in the window for which the process did not run; see the record's field of this name.
    pub held_up_ns: u64,
    /// A signal ended it early.
    pub interrupted: bool,
    /// The request that failed, if one did.
    pub failure: Option<IoFailure>,
    /// What must be found where, for jobs that verify.
    pub books: Vec<Book>,
    /// CPU time in the window of the processes that jobs had of their own; nothing for threads of this one.
    pub apart_cpu: CpuTime,
}

/// Finds out whether jobs could start on their targets, which may still be empty: whether engine, kernel, target and limits
/// have what they ask for. Nothing is issued.
///
/// # Errors
/// As those of [`run`], but for what only the start of the workers shows.
pub fn check(setups: &[JobSetup<'_>]) -> Result<(), LoadError> {
    lanes(setups).map(drop)
}

/// The jobs, ready to run.
fn lanes<'a>(setups: &'a [JobSetup<'a>]) -> Result<Vec<Lane<'a>>, LoadError> {
    let made = (0..setups.len()).map(|index| Lane::new(index, setups));
    let lanes = made.collect::<Result<Vec<_>, _>>()?;
    let threads: u64 = lanes.iter().map(|l| u64::from(l.threads)).sum();
    if threads > THREADS_MAX { Err(LoadError::TooManyThreads(threads)) } else { Ok(lanes) }
}

/// Runs all jobs at the same time.
///
/// # Errors
/// [`LoadError`] when a worker cannot be set up or the observer refuses; nothing has been issued then.
pub fn run(
    setups: &[JobSetup<'_>],
    control: &Control<'_>,
    observer: &mut dyn Observer,
) -> Result<Outcome, LoadError> {
    let warmup_ns = setups.iter().map(|s| s.plan.job.warmup_ns).max().unwrap_or(0);
    let window = |threads: u64| Ok(control.clock.now_ns() + start_delay_ns(threads) + warmup_ns);
    run_at(setups, control, observer, &Start { warmup_ns, window_ns: &window })
}

/// Until as many threads have been woken, by a guess.
pub(crate) fn start_delay_ns(threads: u64) -> u64 {
    1_000_000 + 20_000 * threads
}

/// When the measured window begins.
pub(crate) struct Start<'a> {
    /// The longest warm-up before it.
    pub(crate) warmup_ns: u64,
    /// Asked when all threads, so many, are ready: the start of the window by the run's clock.
    pub(crate) window_ns: &'a dyn Fn(u64) -> Result<u64, LoadError>,
}

/// Runs jobs as [`run`] does, with a start that somebody else says.
pub(crate) fn run_at(
    setups: &[JobSetup<'_>],
    control: &Control<'_>,
    observer: &mut dyn Observer,
    start_at: &Start<'_>,
) -> Result<Outcome, LoadError> {
    let mut lanes = lanes(setups)?;
    lanes.iter_mut().for_each(Lane::make_exchanges);
    let threads: u64 = lanes.iter().map(|l| u64::from(l.threads)).sum();
    let shared = Shared {
        window_start_ns: AtomicU64::new(0),
        go: Gate::default(),
        give_up: AtomicBool::new(false),
        failure: Mutex::new(None),
        final_syncs: FinalSyncs::default(),
        stop: control.stop,
    };
    std::thread::scope(|scope| {
        let (ready_send, ready) = mpsc::channel();
        let (done_send, done) = mpsc::channel();
        let started = start(scope, &lanes, &shared, control, &ready_send, &done_send);
        // Only the workers hold the other ends now: when the last has gone, so has the channel.
        drop((ready_send, done_send));
        let mut result = started;
        for _ in 0..threads {
            match ready.recv() {
                Ok(Ok(())) => {}
                Ok(Err(error)) if result.is_ok() => result = Err(error),
                Ok(Err(_)) => {}
                Err(_) => break,
            }
            if result.is_err() {
                break;
            }
        }
        // Only now: the workers would inherit it.
        let jobs: Vec<_> = setups.iter().map(|s| &s.plan.job).collect();
        let in_control = result.and_then(|()| InControl::of(&jobs, control.stop));
        let may_start = in_control
            .and_then(|held| observer.starts().map(|()| held).map_err(LoadError::CalledOff));
        // Without a warm-up the window begins with the first request: counters that are read later miss what came before,
        // on a busy machine much of a short run.
        let has_begun = start_at.warmup_ns == 0 && may_start.is_ok();
        if has_begun {
            observer.window_begins();
        }
        let may_start = may_start.and_then(|held| {
            shared.window_start_ns.store((start_at.window_ns)(threads)?, Ordering::Relaxed);
            Ok(held)
        });
        shared.go.open(may_start.is_ok());
        let _in_control = may_start?;
        let window = if has_begun { Window::Inside } else { Window::Before };
        Ok(collect(&lanes, &shared, control, &done, window, observer))
    })
}

/// Starts every worker; they wait at the gate when they are ready. Ends at the first that cannot be started.
fn start<'scope, 'env: 'scope>(
    scope: &'scope std::thread::Scope<'scope, 'env>,
    lanes: &'env [Lane<'env>],
    shared: &'env Shared<'env>,
    control: &'env Control<'env>,
    ready: &mpsc::Sender<Result<(), LoadError>>,
    done: &mpsc::Sender<Option<Finished>>,
) -> Result<(), LoadError> {
    for lane in lanes {
        for thread in 0..lane.threads {
            let (ready, done) = (ready.clone(), done.clone());
            std::thread::Builder::new()
                .name(format!("io-{}-{thread}", lane.name_short()))
                .stack_size(256 << 10)
                .spawn_scoped(scope, move || lane.work(thread, shared, control, &ready, &done))
                .map_err(|source| LoadError::Setup {
                    job: lane.plan().job.name.clone(),
                    thread,
                    what: "starting the thread",
                    source,
                    cure: "the limit of threads (ulimit -u, or pids.max of the control group) or the memory is used up: raise it, or use fewer threads with more depth".into(),
                })?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
