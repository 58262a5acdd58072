//! `fathom size`: the largest and longest runs, then smaller and shorter ones. What agrees is decided by `fathom-study`.
//!
//! One file is laid out for all sizes: a smaller set is its first part (`span=`), which is what a smaller file would be to
//! every cache below.

use crate::error::LabError;
use crate::lab::Lab;
use crate::run::{RunOptions, give_back_one, say_job, single_target};
use crate::search::Trials;
use crate::target::{self, PreparedTarget, say_what_is_idle};
use crate::trial::KeepRecord;
use fathom_base::units::{format_duration, format_size};
use fathom_check::measuring;
use fathom_model::finding::{Finding, Severity};
use fathom_model::keys::KeyError;
use fathom_model::record::Record;
use fathom_model::workload::{Access, EngineKind, Extent, Job, Workload};
use fathom_study::size::{RUNS_MIN, real_life_bytes, short_enough, smaller, study};
use fathom_sys::clock;
use std::path::Path;

/// What `size` is asked to do.
#[derive(Debug, Clone)]
pub struct SizeOptions {
    /// One job, already checked for contradictions.
    pub workload: Workload,
    /// Where.
    pub target: String,
    /// The whole time, writing the test file included.
    pub time_ns: u64,
    /// The largest change that does not matter, as a share.
    pub margin: f64,
    /// What the application has on this storage.
    pub data_bytes: Option<u64>,
}

/// Share of the time that writing the test file may take.
const LAYOUT_SHARE: f64 = 0.4;
/// The reference is this many times the caches, where there is room.
const CACHE_MULTIPLE: u64 = 16;
/// And not smaller than this.
const SIZE_BYTES_MIN: u64 = 1 << 30;
/// Below this there is nothing to compare.
const DATA_BYTES_MIN: u64 = 64 << 20;
/// Runs of the reference before the others; one more comes at the end, so that drift shows in their spread.
const REFERENCE_RUNS: usize = 3;
/// The reference runs take a third of the time.
const REFERENCE_PARTS: u64 = 12;
/// A minute is enough for everything but devices that change their ways later.
const REFERENCE_NS_MAX: u64 = 60_000_000_000;
/// Blocks at most.
const BLOCKS_MAX: usize = 6;
/// Share of the time that is left for sizes between the last that agrees and the first that does not.
const NARROWING_SHARE: f64 = 0.25;
/// What a run takes beside its window.
const OVERHEAD: f64 = 1.1;

/// Refuses what contradicts a search, before anything is touched.
///
/// # Errors
/// [`LabError::Key`] for workloads that do not work on a range of a file.
pub fn check(options: &SizeOptions) -> Result<(), LabError> {
    let is_append =
        |job: &&Job| matches!(job.access, Access::Append | Access::Replication | Access::Sweep);
    let Some(job) = options.workload.jobs.iter().find(is_append) else { return Ok(()) };
    let reason = "it does not go over a range again and again, so there is no size to vary; use randread, randwrite, seqread";
    Err(KeyError::Contradiction { job: job.name.clone(), reason: reason.into() }.into())
}

/// Runs the search.
///
/// # Errors
/// [`LabError`] when nothing could be measured; an interrupted or failed run ends the list instead.
pub fn size(
    lab: &mut Lab<'_>,
    options: &SizeOptions,
    keep_record: KeepRecord<'_>,
) -> Result<Vec<Record>, LabError> {
    let started_ns = clock::monotonic_ns();
    let (workload, target, wanted_bytes) = prepare(lab, options)?;
    let largest_bytes = largest(&workload, &target);
    let deadline_ns = started_ns + options.time_ns;
    let left_ns = deadline_ns.saturating_sub(clock::monotonic_ns()).max(options.time_ns / 2);
    // Whole seconds: shorter parts are taken from a series of these.
    let second_ns = 1_000_000_000;
    let reference_ns = (left_ns / REFERENCE_PARTS).min(REFERENCE_NS_MAX) / second_ns * second_ns;
    let reference_ns = reference_ns.max(2 * second_ns);
    lab.note(format!(
        "Reference: {} for {}, {} times; about {} in all.",
        format_size(largest_bytes),
        format_duration(reference_ns),
        REFERENCE_RUNS + 1,
        format_duration(options.time_ns)
    ));
    let deadline_ns = clock::monotonic_ns() + left_ns;
    let mut trials = Trials::new(lab, &target, workload, deadline_ns, keep_record);
    trials.findings.extend(wanted_bytes.and_then(|wanted| too_small(wanted, largest_bytes)));
    let mut driver = Driver { trials, largest_bytes, reference_ns };
    driver.all(options.margin)?;
    let records = driver.trials.records;
    give_back_one(lab, target);
    if records.is_empty() { Err(LabError::Interrupted) } else { Ok(records) }
}

/// What the job reaches of the target, in whole MiB.
fn largest(workload: &Workload, target: &PreparedTarget) -> u64 {
    let whole = target.size_bytes();
    let offset = |job: &Job| job.offset.bytes(whole).min(whole);
    let offset_bytes = workload.jobs.iter().map(offset).max().unwrap_or(0);
    let bytes = whole - offset_bytes;
    if bytes < 1 << 20 { bytes } else { bytes >> 20 << 20 }
}

/// That the reference is smaller than the real-life set, which was asked for; whole MiB are near enough.
fn too_small(wanted_bytes: u64, largest_bytes: u64) -> Option<Finding> {
    if largest_bytes >= wanted_bytes >> 20 << 20 {
        return None;
    }
    let text = format!(
        "The largest set is {}, {:.0} % of the real-life set of {}: a cache hides more of it than of the real data",
        format_size(largest_bytes),
        (largest_bytes as f64 / wanted_bytes as f64 * 100.0).floor(),
        format_size(wanted_bytes >> 20 << 20)
    );
    let finding = Finding::new("real-life-set-not-reached", Severity::Doubtful, text);
    Some(finding.advise(
        "leave out size=, --time= allows more to be written (at most 40 % of it), and free space; or name a larger device or file",
    ))
}

/// The target for the largest size, and the real-life set where one was asked for.
fn prepare(
    lab: &mut Lab<'_>,
    options: &SizeOptions,
) -> Result<(Workload, PreparedTarget, Option<u64>), LabError> {
    let mut workload = options.workload.clone();
    for job in &mut workload.jobs {
        // A file that is emptied for each run would have no size to vary.
        job.overwrite |= job.starts_empty();
        job.duration_ns = Some(options.time_ns);
    }
    let path = Path::new(&options.target);
    let is_free = |job: &Job| job.size_bytes.is_none() && job.engine != EngineKind::Null;
    let directory = path.is_dir() && workload.jobs.len() == 1 && workload.jobs.iter().all(is_free);
    let (mut limit_ns, mut wanted_bytes) = (None, None);
    if let Some(data_bytes) = options.data_bytes {
        wanted_bytes = Some(say_real_life(lab, path, &workload, data_bytes)?);
    }
    if directory {
        let size_bytes = wished(lab, path, wanted_bytes, &workload)?;
        workload.jobs.iter_mut().for_each(|job| job.size_bytes = Some(size_bytes));
        limit_ns = Some((options.time_ns as f64 * LAYOUT_SHARE) as u64);
    }
    let run =
        RunOptions { workload, target: options.target.clone(), repeats: 1, until_steady: None };
    let (mut workload, mut target) = single_target(lab, &run)?;
    workload.jobs.iter().for_each(|job| say_job(lab, job, &target));
    say_what_is_idle(lab, &[&target]);
    target.fill_up(lab, limit_ns, options.time_ns)?;
    // What could be written in time is the largest.
    workload.jobs.iter_mut().for_each(|job| job.size_bytes = None);
    Ok((workload, target, wanted_bytes))
}

/// The caches that can answer instead of the device, with the reason.
fn caches(lab: &Lab<'_>, path: &Path, workload: &Workload) -> Result<(u64, String), LabError> {
    // A file that is still to be made lies where its directory does.
    let there = if path.exists() { Some(path) } else { path.parent() };
    let place = there.filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (device_bytes, reason) = measuring::cache_bytes_assumed(&target::resolve(lab, place)?);
    if workload.jobs.iter().all(|job| job.direct) {
        return Ok((device_bytes, reason));
    }
    let memory_bytes = lab.cache_memory_bytes();
    let reason = format!("the memory of {} and {reason}", format_size(memory_bytes));
    Ok((device_bytes + memory_bytes, reason))
}

/// The real-life set, after saying how it comes about.
fn say_real_life(
    lab: &mut Lab<'_>,
    path: &Path,
    workload: &Workload,
    data_bytes: u64,
) -> Result<u64, LabError> {
    let (cache_bytes, reason) = caches(lab, path, workload)?;
    let memory_bytes = lab.cache_memory_bytes();
    let real_bytes = real_life_bytes(cache_bytes, data_bytes, memory_bytes);
    if real_bytes < cache_bytes * 2 {
        // Such a set would show the caches, and such data the memory.
        return Err(LabError::Usage(format!(
            "--data={}: less than twice the memory of {}, which answers most of it: no test set of the storage is like it; \
             give all of the data, or leave --data= out",
            format_size(data_bytes).replace(' ', ""),
            format_size(memory_bytes)
        )));
    }
    lab.note(format!(
        "Test sets: at least {} (twice {reason}); real-life {} for {} of data, which is {:.0} x the memory of {}, as the \
         test set is {:.0} x the caches.",
        format_size(cache_bytes * 2),
        format_size(real_bytes >> 20 << 20),
        format_size(data_bytes),
        data_bytes as f64 / memory_bytes.max(1) as f64,
        format_size(memory_bytes),
        real_bytes as f64 / cache_bytes.max(1) as f64
    ));
    Ok(real_bytes)
}

/// The largest size in a directory: many times the caches or the real-life set, as far as there is room.
fn wished(
    lab: &mut Lab<'_>,
    directory: &Path,
    real_bytes: Option<u64>,
    workload: &Workload,
) -> Result<u64, LabError> {
    let (cache_bytes, reason) = caches(lab, directory, workload)?;
    let mut wanted = (cache_bytes * CACHE_MULTIPLE).max(SIZE_BYTES_MIN);
    let mut why = format!("{CACHE_MULTIPLE} x {reason}");
    if let Some(real_bytes) = real_bytes {
        wanted = real_bytes.max(DATA_BYTES_MIN);
        "the real-life set".clone_into(&mut why);
    }
    let space = target::space(lab, directory)?;
    if space.usable_bytes < DATA_BYTES_MIN {
        return Err(target::no_space(lab, directory, DATA_BYTES_MIN));
    }
    if wanted > space.usable_bytes {
        why = format!("all that the free space allows of {}", format_size(wanted >> 20 << 20));
    }
    let size_bytes = wanted.min(space.usable_bytes) >> 20 << 20;
    lab.note(format!("Largest set: {}, {why}.", format_size(size_bytes)));
    Ok(size_bytes)
}

struct Driver<'r, 'l> {
    trials: Trials<'r, 'l>,
    largest_bytes: u64,
    reference_ns: u64,
}

impl Driver<'_, '_> {
    fn all(&mut self, margin: f64) -> Result<(), LabError> {
        for _ in 0..REFERENCE_RUNS {
            self.run(self.largest_bytes, self.reference_ns, 1 + RUNS_MIN)?;
        }
        let short_ns = short_enough(&self.trials.records, margin).max(1_000_000_000);
        self.blocks(short_ns)?;
        self.narrow(short_ns, margin)?;
        self.run(self.largest_bytes, self.reference_ns, 0)
    }

    /// All sizes at the shorter duration, block by block.
    fn blocks(&mut self, short_ns: u64) -> Result<(), LabError> {
        let whole = self.affordable(short_ns);
        let affordable = (whole as f64 * (1.0 - NARROWING_SHARE)) as usize;
        let mut sizes = smaller(self.largest_bytes);
        // At the reference's own duration there is nothing shorter to prove.
        if short_ns < self.reference_ns {
            sizes.insert(0, self.largest_bytes);
        }
        // Before there is anything between them, the sizes themselves count.
        let affordable = if affordable / RUNS_MIN < sizes.len() { whole } else { affordable };
        let fitting = affordable / RUNS_MIN;
        if sizes.len() > fitting {
            self.trials.lab.note(format!(
                "The time is enough for {fitting} of {} smaller or shorter cells (--time= allows more).",
                sizes.len()
            ));
            sizes.truncate(fitting);
        }
        let blocks = affordable.checked_div(sizes.len()).unwrap_or(0).min(BLOCKS_MAX);
        for block in 0..blocks {
            let mut order = sizes.clone();
            for last in (1..order.len()).rev() {
                let other = self.trials.lab.seeds.below(last as u64 + 1) as usize;
                order.swap(last, other);
            }
            for (place, size_bytes) in order.into_iter().enumerate() {
                let still = (blocks - block) * sizes.len() - place;
                self.run(size_bytes, short_ns, still)?;
            }
        }
        Ok(())
    }

    /// Runs of so many nanoseconds that the time is enough for, the last reference run left aside.
    fn affordable(&self, short_ns: u64) -> usize {
        let reserve_ns = (self.reference_ns as f64 * OVERHEAD) as u64;
        let time_ns = self.trials.left_ns().saturating_sub(reserve_ns);
        (time_ns as f64 / (short_ns as f64 * OVERHEAD)) as usize
    }

    /// Sizes between the smallest that agrees and the next one, which does not, as long as there is time.
    fn narrow(&mut self, short_ns: u64, margin: f64) -> Result<(), LabError> {
        loop {
            let sizes = study(&self.trials.records, margin);
            let Some((sizes, between)) = sizes.and_then(|s| s.between().map(|b| (s, b))) else {
                return Ok(());
            };
            let Some((agrees, rejected)) = sizes.gap() else { return Ok(()) };
            let has_time = self.affordable(short_ns) >= RUNS_MIN && !self.trials.stopped();
            let words = if has_time { "is tried" } else { "was not tried (--time= allows more)" };
            let is_reference = sizes.answer.is_none();
            let [agrees, rejected, size] = [agrees, rejected, between].map(format_size);
            let agrees = match is_reference {
                true => format!("{agrees}, the reference, is the smallest so far"),
                false => format!("{agrees} agrees"),
            };
            self.trials.lab.note(format!(
                "{agrees}, {rejected} does not agree: {size}, between them, {words}."
            ));
            if !has_time {
                return Ok(());
            }
            for run in 0..RUNS_MIN {
                if self.trials.stopped() {
                    return Ok(());
                }
                self.run(between, short_ns, RUNS_MIN - run)?;
            }
        }
    }

    fn run(&mut self, size_bytes: u64, duration_ns: u64, still: usize) -> Result<(), LabError> {
        if self.trials.stopped() {
            return Ok(());
        }
        let mut job = self.trials.workload.jobs.first().cloned().unwrap_or_default();
        job.span = Some(Extent::Bytes(size_bytes));
        (job.duration_ns, job.warmup_ns) = (Some(duration_ns), 0);
        let label = format!(
            "{}, {} for {}",
            self.trials.workload.name,
            format_size(size_bytes),
            format_duration(duration_ns)
        );
        self.trials.measure(&label, job, still)?;
        Ok(())
    }
}
