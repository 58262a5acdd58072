//! `fathom saturate`: raises the requests in flight until throughput stops growing, narrows, repeats near the knee, and
//! finds the highest load that keeps a latency bound. Which point comes next is decided by `fathom-study`; here it is
//! measured.

use crate::error::LabError;
use crate::lab::Lab;
use crate::run::{RunOptions, give_back_one, say_job, single_target};
use crate::search::Trials;
pub use crate::search::{TIME_NS_MAX, TIME_NS_MIN};
use crate::target::say_what_is_idle;
use crate::trial::{KeepRecord, check_buffers};
use fathom_base::units::{format_count, format_duration, format_ns};
use fathom_model::keys::KeyError;
use fathom_model::record::{Ending, Record};
use fathom_model::workload::{Access, Arrivals, EngineKind, Job, Workload};
use fathom_study::saturate::bound::{self, Bound};
use fathom_study::saturate::search::{Search, Shape};
use fathom_study::saturate::{first_rate, start, throughput};
use fathom_sys::clock;

/// What `saturate` is asked to do.
#[derive(Debug, Clone)]
pub struct SaturateOptions {
    /// One job, already checked for contradictions; requests in flight, rate and times are the search's.
    pub workload: Workload,
    /// Where.
    pub target: String,
    /// The whole time, writing the test file included.
    pub time_ns: u64,
    /// The latency that the highest load is looked for.
    pub bound: Option<Bound>,
    /// Threads at the most; none means as many as processors, up to 16.
    pub threads_max: Option<u32>,
    /// How requests follow each other where their rate is set.
    pub arrivals: Arrivals,
}

/// Threads that ask, where nobody says: enough that the fastest drives are not limited by the CPU time that asking takes.
const THREADS_MAX: u64 = 16;
/// Requests in flight at the most, and at least eight times what the search begins with.
const LIMIT: u64 = 4096;
/// Where a thread is needed for each.
const LIMIT_OF_THREADS: u64 = 1024;
/// Runs that the closed loop is planned with: 12 to find the knee, 15 and 24 to be sure of it.
const CLOSED_RUNS: u64 = 51;
/// Runs that a bound is planned with: eight to find the rate, two at the one that breaks it, three to be sure, some longer
/// than others.
const BOUND_RUNS: u64 = 17;
/// What a run takes beside its window: warming up, opening, looking at the stack.
const OVERHEAD: f64 = 1.2;
/// Length of a run.
const RUN_NS_MIN: u64 = 200_000_000;
/// See [`RUN_NS_MIN`].
const RUN_NS_MAX: u64 = 60_000_000_000;
/// Whether more is due than ends is seen in the halves of a run, which are series of seconds.
const OPEN_NS_MIN: u64 = 2_000_000_000;

/// Refuses what contradicts a search, before anything is touched.
///
/// # Errors
/// [`LabError::Usage`] for settings that belong to the search, and for workloads with one request at a time.
pub fn check(options: &SaturateOptions) -> Result<(), LabError> {
    let [job] = options.workload.jobs.as_slice() else { return Ok(()) };
    let contradiction = |reason: &str| {
        let job = job.name.clone();
        Err(LabError::Key(KeyError::Contradiction { job, reason: reason.to_owned() }))
    };
    if matches!(job.access, Access::Append | Access::Replication) {
        return contradiction(
            "it has one request in flight by its nature, so there is nothing to raise; use a workload such as randread or randwrite",
        );
    }
    let is_held_back = job.think_time_ns > 0 || job.cap_iops.is_some() || job.cap_bytes.is_some();
    if options.bound.is_some() && is_held_back {
        return contradiction(
            "--bound= sets the rate of requests, which think_time, cap_iops or cap_bytes would hold back; leave them out",
        );
    }
    if job.access == Access::Sweep {
        return contradiction("access=sweep is one pass of some places; use access=random");
    }
    Ok(())
}

/// Runs the search.
///
/// # Errors
/// [`LabError`] when nothing could be measured; an interrupted or failed run ends the list instead.
pub fn saturate(
    lab: &mut Lab<'_>,
    options: &SaturateOptions,
    keep_record: KeepRecord<'_>,
) -> Result<Vec<Record>, LabError> {
    let started_ns = clock::monotonic_ns();
    let shape = shape(lab, options);
    let largest = with_limit(lab, options, shape)?;
    let (workload, mut target) = single_target(lab, &largest)?;
    let start = start::of_stack(target.stack());
    let limit = limit_of(&workload);
    // The search sets requests in flight and times; the first run is this.
    let first = workload.jobs.first().map(|job| Job { threads: 1, depth: 1, ..job.clone() });
    first.iter().for_each(|job| say_job(lab, job, &target));
    say_what_is_idle(lab, &[&target]);
    target.fill_up(lab, None, options.time_ns)?;
    let deadline_ns = started_ns + options.time_ns;
    let left_ns = deadline_ns.saturating_sub(clock::monotonic_ns()).max(options.time_ns / 2);
    let shares = Shares::of(left_ns, options.bound.is_some());
    lab.note(format!(
        "Begins with 1 and {} requests in flight ({}), up to {}; runs of {}, {} in all.",
        format_count(start.concurrency),
        start.reason,
        format_count(limit),
        format_ns(shares.closed_ns),
        format_duration(options.time_ns)
    ));
    let deadline_ns = clock::monotonic_ns() + left_ns;
    let seed = lab.seeds.next_u64();
    let trials = Trials::new(lab, &target, workload, deadline_ns, keep_record);
    let mut driver = Driver { trials, shape, shares, options };
    driver.closed(Search::new(shape, start.concurrency, limit, seed))?;
    if let Some(bound) = &options.bound {
        driver.open(bound)?;
    }
    let records = driver.trials.records;
    give_back_one(lab, target);
    if records.is_empty() { Err(LabError::Interrupted) } else { Ok(records) }
}

/// How the time is divided.
#[derive(Debug, Clone, Copy)]
struct Shares {
    /// Window of a closed-loop run.
    closed_ns: u64,
    /// Window of an open-loop run, unless the bound needs more requests.
    open_ns: u64,
    /// Time that the closed loop leaves for the open one.
    reserve_ns: u64,
}

impl Shares {
    fn of(left_ns: u64, has_bound: bool) -> Self {
        let each = |ns: u64, runs: u64| (ns as f64 / (runs as f64 * OVERHEAD)) as u64;
        if !has_bound {
            let closed_ns = each(left_ns, CLOSED_RUNS).clamp(RUN_NS_MIN, RUN_NS_MAX);
            return Self { closed_ns, open_ns: 0, reserve_ns: 0 };
        }
        let open_ns = each(left_ns, CLOSED_RUNS + BOUND_RUNS).clamp(OPEN_NS_MIN, RUN_NS_MAX);
        let reserve_ns = ((open_ns * BOUND_RUNS) as f64 * OVERHEAD) as u64;
        let reserve_ns = reserve_ns.min(left_ns / 2);
        let closed_ns = each(left_ns - reserve_ns, CLOSED_RUNS).clamp(RUN_NS_MIN, RUN_NS_MAX);
        Self { closed_ns, open_ns, reserve_ns }
    }
}

/// With what a run takes beside its window.
fn with_overhead(window_ns: u64) -> u64 {
    (window_ns as f64 * OVERHEAD) as u64
}

fn shape(lab: &Lab<'_>, options: &SaturateOptions) -> Shape {
    let cpus = lab.host.cpus_allowed.or(lab.host.cpus_online).unwrap_or(1);
    let engine = options.workload.jobs.first().map_or(EngineKind::IoUring, |job| job.engine);
    Shape {
        threads_max: options.threads_max.map_or(cpus.clamp(1, THREADS_MAX), u64::from),
        one_per_thread: engine.is_synchronous(),
    }
}

/// The workload with the most requests in flight that memory allows, as everything is checked and prepared for it.
fn with_limit(
    lab: &Lab<'_>,
    options: &SaturateOptions,
    shape: Shape,
) -> Result<RunOptions, LabError> {
    let mut workload = options.workload.clone();
    let mut limit = if shape.one_per_thread { LIMIT_OF_THREADS } else { LIMIT };
    for job in &mut workload.jobs {
        (job.duration_ns, job.arrivals) = (Some(options.time_ns), Arrivals::Even);
        loop {
            set_concurrency(job, shape, shape.round(limit));
            match check_buffers(lab, std::slice::from_ref(job)) {
                Err(_) if limit > 1 => limit /= 2,
                other => break other?,
            }
        }
    }
    Ok(RunOptions { workload, target: options.target.clone(), repeats: 1, until_steady: None })
}

fn limit_of(workload: &Workload) -> u64 {
    workload.jobs.iter().map(Job::concurrency).sum()
}

fn set_concurrency(job: &mut Job, shape: Shape, concurrency: u64) {
    let (threads, depth) = shape.split(concurrency);
    job.threads = u32::try_from(threads).unwrap_or(u32::MAX);
    job.depth = u32::try_from(depth).unwrap_or(u32::MAX);
    job.batch = job.batch.min(job.depth);
}

struct Driver<'r, 'l> {
    trials: Trials<'r, 'l>,
    shape: Shape,
    shares: Shares,
    options: &'r SaturateOptions,
}

impl Driver<'_, '_> {
    /// The job with so many requests in flight. What is in flight when the window begins should have begun after the last
    /// run's requests were gone: it warms up for as long as a request is expected to take.
    fn job(&self, concurrency: u64, window_ns: u64) -> Job {
        let mut job = self.trials.workload.jobs.first().cloned().unwrap_or_default();
        set_concurrency(&mut job, self.shape, concurrency);
        let most = self.trials.records.iter().map(throughput).fold(0.0, f64::max);
        let expected_ns = if most > 0.0 { (concurrency as f64 / most * 1e9) as u64 } else { 0 };
        job.warmup_ns = expected_ns.clamp(self.shares.closed_ns / 10, self.shares.closed_ns);
        job.duration_ns = Some(window_ns);
        job
    }

    /// The closed loop: throughput by requests in flight.
    fn closed(&mut self, mut search: Search) -> Result<(), LabError> {
        let Shares { closed_ns, reserve_ns, .. } = self.shares;
        let bound_runs = if self.options.bound.is_some() { BOUND_RUNS } else { 0 };
        while !self.trials.stopped() {
            let left = self.trials.affordable(with_overhead(closed_ns), reserve_ns);
            let Some(concurrency) = search.next(left) else { break };
            let label = format!("{}, {concurrency} in flight", self.options.workload.name);
            let job = self.job(concurrency, closed_ns);
            let still = search.expected_runs().min(left.saturating_sub(1)) + bound_runs as usize;
            let record = self.trials.measure(&label, job, still)?;
            if record.ending == Ending::Complete {
                search.measured(concurrency, throughput(record));
            }
        }
        Ok(())
    }

    /// The open loop: the highest rate that keeps the bound.
    fn open(&mut self, bound: &Bound) -> Result<(), LabError> {
        let study = fathom_study::saturate::study(&self.trials.records, None);
        let Some(study) = study.filter(|_| !self.trials.stopped()) else { return Ok(()) };
        let best = study.rows.iter().find(|row| row.concurrency == study.highest);
        let top = best.map_or(0.0, |row| row.iops.value);
        // Places enough that what waits does so in the device's queue and not in fathom.
        let places = self.shape.round((study.highest * 2).min(limit_of(&self.trials.workload)));
        let mut search = bound::Search::new(bound.of, top, first_rate(&self.trials.records, bound));
        while !self.trials.stopped() {
            let left = self.trials.affordable(with_overhead(self.shares.open_ns), 0);
            let Some(rate) = search.next(left) else { break };
            let needed_ns = (bound.requests_needed() as f64 * 1.1 / rate * 1e9) as u64;
            let window_ns = needed_ns.max(self.shares.open_ns);
            if window_ns > self.trials.left_ns() {
                self.trials.lab.note(format!(
                    "{} needs {} requests, which take {} at {rate} per second: more than the time that is left (--time=).",
                    bound.what(),
                    format_count(bound.requests_needed()),
                    format_duration(needed_ns)
                ));
                break;
            }
            let mut job = self.job(places, window_ns);
            (job.rate, job.arrivals) = (Some(rate), self.options.arrivals);
            let label = format!("{}, {rate} per second", self.options.workload.name);
            let record = self.trials.measure(&label, job, left.saturating_sub(1))?;
            if record.ending == Ending::Complete {
                search.measured(rate, bound::kept(record, bound));
            }
        }
        Ok(())
    }
}
