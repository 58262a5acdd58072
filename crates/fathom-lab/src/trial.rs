//! One trial: a workload on prepared targets, from the open files to the raw record.

use crate::control_group::{self, Groups};
use crate::error::LabError;
use crate::lab::Lab;
use crate::layer_tree;
use crate::limits;
use crate::run::{is_device, note_failure};
use crate::sampler::{Deltas, NO_TIME_NS, Progress, Sampler};
use crate::target::PreparedTarget;
use crate::verify::{self, Verification};
use fathom_base::order::Order;
use fathom_base::units::format_size;
use fathom_check::measuring;
use fathom_load::apart;
use fathom_load::delivered;
use fathom_load::plan::{self, JobPlan, PlanError};
use fathom_load::run::{self, Control, JobSetup, MemoryNeed, Observer, Outcome, Tick};
use fathom_load::target::LoadTarget;
use fathom_model::event::Event;
use fathom_model::finding::Finding;
use fathom_model::keys::KeyError;
use fathom_model::limits::ControlGroupRecord;
use fathom_model::pattern::Cursor;
use fathom_model::payload;
use fathom_model::record::{Ending, IoFailure, RECORD_VERSION, Record, TargetRecord};
use fathom_model::stack::Stack;
use fathom_model::workload::{Job, OpenSync, Workload};
use fathom_study::drift;
use fathom_sys::io::OpenMode;

/// What a trial is asked to do.
pub struct Trial<'a> {
    /// Row name.
    pub label: String,
    /// What to issue.
    pub workload: &'a Workload,
    /// Where, one for each job, in order (the same target may stand there several times).
    pub targets: Vec<&'a PreparedTarget>,
    /// Seed of this trial.
    pub seed: u64,
    /// Expected time of what comes after it.
    pub rest_after_ns: u64,
    /// 1-based number and how many there are, for progress.
    pub position: (u32, u32),
}

/// How a job wants its target opened.
#[must_use]
pub fn open_mode(job: &Job) -> OpenMode {
    OpenMode {
        write: job.writes(),
        direct: job.direct,
        dsync: job.open_sync == OpenSync::Dsync,
        sync: job.open_sync == OpenSync::Sync,
    }
}

/// The receiver of finished records, which gets each at once, between two measurements.
pub type KeepRecord<'k> = &'k mut dyn FnMut(&Record) -> Result<(), LabError>;

/// Runs one trial. Its record is announced when it has been kept, not before.
///
/// # Errors
/// [`LabError`] when it could not start, or the record could not be kept. A request that fails, or a signal, gives a
/// record that says so.
pub fn run_trial(
    lab: &mut Lab<'_>,
    trial: &Trial<'_>,
    keep_record: KeepRecord<'_>,
) -> Result<Record, LabError> {
    let record = record_of(lab, trial)?;
    announce(lab, &record, keep_record)?;
    Ok(record)
}

/// Keeps a finished record, and then tells of it.
///
/// # Errors
/// [`LabError`] when it could not be kept.
pub fn announce(
    lab: &mut Lab<'_>,
    record: &Record,
    keep_record: KeepRecord<'_>,
) -> Result<(), LabError> {
    keep_record(record)?;
    (lab.emit)(Event::TrialFinished { record: Box::new(record.clone()) });
    Ok(())
}

/// Measures, without keeping the record.
pub(crate) fn record_of(lab: &mut Lab<'_>, trial: &Trial<'_>) -> Result<Record, LabError> {
    let jobs = &trial.workload.jobs;
    check_buffers(lab, jobs)?;
    let opened = open(lab, trial)?;
    for (job, target) in jobs.iter().zip(&trial.targets) {
        // Of a device the kernel clears nothing that was written before and is still in the page cache.
        let clears = job.trim_fraction + job.zero_fraction > 0.0 && is_device(target.path());
        if clears || (!job.direct && job.reads() && job.drop_cache) {
            target.drop_cached_pages()?;
        }
    }
    // State changes between trials (an array starts to check itself): look again.
    let before: Vec<Stack> = distinct(&trial.targets)
        .map(|target| target.stack_now(lab).unwrap_or_else(|| target.stack().clone()))
        .collect();
    let looked_at = distinct(&trial.targets).zip(&before);
    let mut findings: Vec<Finding> =
        looked_at.flat_map(|(target, stack)| target.findings(lab, stack)).collect();
    findings.extend(measuring::slow_clock(&lab.host));
    findings.extend_from_slice(&lab.known);
    let (index, count) = trial.position;
    (lab.emit)(Event::TrialStarted {
        label: trial.label.clone(),
        index,
        count,
        layers: layer_tree::of(&before),
        findings: findings.clone(),
    });

    let measured = measure_verified(lab, trial, opened, &mut findings)?;
    let Measured { outcome, deltas, control_group } = measured;
    add_changes(lab, trial, &before, &mut findings);
    // After the run: files that started empty have their extents only now.
    let records = distinct(&trial.targets)
        .zip(before)
        .map(|(target, stack)| {
            let on_it = jobs.iter().zip(&trial.targets).filter(|(_, t)| std::ptr::eq(**t, target));
            let direct = on_it.clone().all(|(job, _)| job.direct && job.metadata.is_none());
            let is_never_read = !on_it.map(|(job, _)| job).any(Job::reads);
            TargetRecord { is_never_read, ..target.record(lab, stack, direct) }
        })
        .collect();
    let ending = match (&outcome.failure, outcome.interrupted) {
        (Some(_), _) => Ending::Failed,
        (None, true) => Ending::Interrupted,
        (None, false) => Ending::Complete,
    };
    let failure = outcome.failure.map(|failure| named(failure, trial));
    Ok(Record {
        cell: None,
        fsop: None,
        watch: deltas.course,
        capture: None,
        version: RECORD_VERSION,
        label: trial.label.clone(),
        workload: trial.workload.clone(),
        targets: records,
        jobs: outcome.jobs,
        started_unix_ns: outcome.started_unix_ns,
        window_ns: outcome.window_ns,
        process_cpu: deltas.process_cpu,
        system_cpu: deltas.system_cpu,
        system_events: deltas.system_events,
        devices: deltas.devices,
        page_cache: deltas.page_cache,
        suspended_ns: deltas.suspended_ns,
        held_up_ns: outcome.held_up_ns,
        heat: deltas.heat,
        control_group,
        ending,
        failure,
        seed: trial.seed,
        findings,
    })
}

/// What is found after a trial and was not before: an array that has begun to rebuild, a setting that somebody changed.
fn add_changes(lab: &Lab<'_>, trial: &Trial<'_>, before: &[Stack], findings: &mut Vec<Finding>) {
    for (target, before) in distinct(&trial.targets).zip(before) {
        let Some(after) = target.stack_now(lab) else { continue };
        let new = drift::changed_meanwhile(before, &after).into_iter();
        for finding in new.chain(target.findings(lab, &after)) {
            if !findings.iter().any(|known| known.id == finding.id) {
                findings.push(finding);
            }
        }
    }
}

/// Opens the targets and plans the jobs.
fn open(lab: &Lab<'_>, trial: &Trial<'_>) -> Result<Vec<(LoadTarget, JobPlan)>, LabError> {
    verify::forget_emptied(lab, trial)?;
    let mut opened = planned(&trial.workload.jobs, &trial.targets, trial.seed, |target, job| {
        target.open(open_mode(job), job.starts_empty())
    })?;
    share_cursors(&mut opened, &trial.targets)?;
    Ok(opened)
}

/// Gives jobs with a common position one.
fn share_cursors(
    opened: &mut [(LoadTarget, JobPlan)],
    targets: &[&PreparedTarget],
) -> Result<(), LabError> {
    plan::share_cursors(opened.iter_mut().map(|(load, plan)| (&*load, plan))).map_err(|source| {
        let is_it = |plan: &JobPlan| match &source {
            PlanError::SharedRange { job, .. } | PlanError::SharedByNobody { job } => {
                plan.job.name == *job
            }
            _ => plan.job.cursor == Cursor::Workload,
        };
        let sharing = opened.iter().zip(targets).find(|((_, plan), _)| is_it(plan));
        let (job, target) = sharing.map_or_else(Default::default, |((_, plan), target)| {
            (plan.job.name.clone(), target.path_text())
        });
        LabError::Plan { job, target, source }
    })
}

/// Finds out whether the jobs of a trial could start, while test files are still empty: to write them full may take long.
///
/// # Errors
/// [`LabError`] with what keeps them from it.
pub fn check_start(
    lab: &Lab<'_>,
    jobs: &[Job],
    targets: &[&PreparedTarget],
) -> Result<(), LabError> {
    let mut opened =
        planned(jobs, targets, 0, |target, job| target.open_untouched(open_mode(job)))?;
    check_overlap(jobs, |job| opened[job].0.identity())?;
    share_cursors(&mut opened, targets)?;
    verify::limit_memory(lab, &mut opened);
    let (targets, plans): (Vec<LoadTarget>, Vec<JobPlan>) = opened.into_iter().unzip();
    Ok(run::check(&setups(&targets, plans))?)
}

/// What a job verifies must not be what another one writes meanwhile, whatever names the two call it by; `identity` tells
/// the target of a job, by its place among them, from others.
pub(crate) fn check_overlap(
    jobs: &[Job],
    identity: impl Fn(usize) -> Option<(u64, u64)>,
) -> Result<(), LabError> {
    let is_same = |a: usize, b: usize| identity(a).is_some() && identity(a) == identity(b);
    payload::overlap(jobs, is_same).map_or(Ok(()), |(job, reason)| {
        Err(KeyError::Contradiction { job: job.name.clone(), reason }.into())
    })
}

/// Every job with its open target and its places in it.
fn planned(
    jobs: &[Job],
    targets: &[&PreparedTarget],
    seed: u64,
    open: impl Fn(&PreparedTarget, &Job) -> Result<LoadTarget, LabError>,
) -> Result<Vec<(LoadTarget, JobPlan)>, LabError> {
    let one = |(job, target): (&Job, &&PreparedTarget)| {
        let load = open(target, job)?;
        let block_bytes = load.logical_block_bytes();
        let clearing = match is_device(target.path()) {
            true => plan::check_clearing(job, block_bytes),
            false => Ok(()),
        };
        let plan = clearing.and_then(|()| plan::plan(job, load.size_bytes(), block_bytes, seed));
        let plan = plan.map_err(|source| LabError::Plan {
            job: job.name.clone(),
            target: target.path_text(),
            source,
        })?;
        Ok((load, plan))
    };
    jobs.iter().zip(targets).map(one).collect()
}

fn setups(targets: &[LoadTarget], plans: Vec<JobPlan>) -> Vec<JobSetup<'_>> {
    targets.iter().zip(plans).map(|(target, plan)| JobSetup { plan, target }).collect()
}

/// What came of the measured part of a trial.
struct Measured {
    outcome: Outcome,
    deltas: Deltas,
    control_group: Option<ControlGroupRecord>,
}

/// Measures, with what verification needs around it; whatever keeps the first request from being issued leaves what is
/// known of the targets as it was.
fn measure_verified(
    lab: &mut Lab<'_>,
    trial: &Trial<'_>,
    mut opened: Vec<(LoadTarget, JobPlan)>,
    findings: &mut Vec<Finding>,
) -> Result<Measured, LabError> {
    let mut verification = verify::begin(lab, trial, &mut opened)?;
    let plans: Vec<JobPlan> = opened.iter().map(|(_, plan)| plan.clone()).collect();
    match measure_limited(lab, trial, opened, &mut verification, findings) {
        Ok(mut measured) => {
            if let Err((job, error)) = verification.end(lab, trial, &plans, &mut measured.outcome) {
                // What was measured by then is told all the same.
                measured.outcome.failure.get_or_insert_with(|| unverified(trial, job, &error));
            }
            for (plan, job) in plans.iter().zip(&mut measured.outcome.jobs) {
                job.delivered = delivered(plan, &job.thread_operations);
            }
            Ok(measured)
        }
        Err(error) => {
            verification.call_off(lab);
            Err(error)
        }
    }
}

/// Reading back what a job wrote could not begin.
fn unverified(trial: &Trial<'_>, job: usize, error: &LabError) -> IoFailure {
    let path = trial.targets.get(job).map_or_else(String::new, |target| target.path_text());
    let text = error.to_string();
    let errno = match error {
        LabError::TargetIo { source, .. } => source.raw_os_error().unwrap_or_default(),
        _ => 0,
    };
    IoFailure {
        job: trial.workload.jobs.get(job).map_or_else(String::new, |job| job.name.clone()),
        operation: "verify".to_owned(),
        offset_bytes: 0,
        size_bytes: 0,
        errno,
        message: text.strip_prefix(&format!("{path}: ")).unwrap_or(&text).to_owned(),
    }
}

/// The engine does not know what it works on: the message gets the path of the job's target.
fn named(failure: IoFailure, trial: &Trial<'_>) -> IoFailure {
    let jobs = trial.workload.jobs.iter().zip(&trial.targets);
    let target = jobs.filter(|(job, _)| job.name == failure.job).map(|(_, target)| target).next();
    let message = match target {
        Some(target) => format!("{}: {}", target.path_text(), failure.message),
        None => failure.message,
    };
    IoFailure { message, ..failure }
}

/// Measures in the control group that the workload asks for, if any, and says what limits cannot do here.
fn measure_limited(
    lab: &mut Lab<'_>,
    trial: &Trial<'_>,
    opened: Vec<(LoadTarget, JobPlan)>,
    verification: &mut Verification,
    findings: &mut Vec<Finding>,
) -> Result<Measured, LabError> {
    let jobs = &trial.workload.jobs;
    let kernel = lab.host.kernel.as_deref();
    let inert = jobs
        .iter()
        .zip(&trial.targets)
        .filter_map(|(job, target)| limits::io_priority_finding(job, target.stack(), kernel));
    findings.extend(inert);
    let groups = control_group::enter(lab, jobs, &trial.targets)?;
    let measured = measure(lab, trial, opened, verification, &groups);
    findings.extend(groups.findings().cloned());
    findings.dedup();
    let control_group = groups.shared().cloned();
    note_failure(lab, groups.leave());
    let (outcome, deltas) = measured?;
    Ok(Measured { outcome, deltas, control_group })
}

/// The sampler, and what is to be forgotten before the first request.
struct Watch<'a, 'v> {
    sampler: Sampler<'a>,
    verification: &'v mut Verification,
}

impl Observer for Watch<'_, '_> {
    fn starts(&mut self) -> Result<(), String> {
        self.verification.starts().map_err(|error| error.to_string())
    }

    fn window_begins(&mut self) {
        self.sampler.window_begins();
    }

    fn window_ends(&mut self) {
        self.sampler.window_ends();
    }

    fn tick(&mut self, tick: Tick) {
        self.sampler.tick(tick);
    }
}

fn measure(
    lab: &mut Lab<'_>,
    trial: &Trial<'_>,
    opened: Vec<(LoadTarget, JobPlan)>,
    verification: &mut Verification,
    groups: &Groups,
) -> Result<(Outcome, Deltas), LabError> {
    let planned = trial.workload.jobs.iter().map(|j| j.duration_ns.unwrap_or(NO_TIME_NS)).max();
    let amounts: Option<Vec<u64>> = opened.iter().map(|(_, p)| p.amount_bytes).collect();
    let progress = Progress {
        label: trial.label.clone(),
        rest_after_ns: trial.rest_after_ns,
        planned_ns: planned.unwrap_or(0),
        planned_bytes: amounts.map(|a| a.iter().sum()),
        layout: false,
        emit: lab.emit,
    };
    let sampler = Sampler::new(&lab.root, device_names(&trial.targets), progress);
    let mut watch = Watch { sampler, verification };
    let control = Control { clock: lab.clock, interval_ns: lab.interval_ns, stop: &lab.stop };
    let (targets, plans): (Vec<LoadTarget>, Vec<JobPlan>) = opened.into_iter().unzip();
    let setups = setups(&targets, plans);
    if !groups.are_apart() {
        let outcome = run::run(&setups, &control, &mut watch)?;
        return Ok((outcome, watch.sampler.deltas()));
    }
    let mut outcome = apart::run(&groups.parts(), &setups, &control, &mut watch)?;
    for (index, job) in outcome.jobs.iter_mut().enumerate() {
        job.control_group = groups.of(index).cloned();
    }
    let mut deltas = watch.sampler.deltas();
    deltas.process_cpu.user_ns += outcome.apart_cpu.user_ns;
    deltas.process_cpu.system_ns += outcome.apart_cpu.system_ns;
    Ok((outcome, deltas))
}

/// Buffers above a quarter of what is free push other things out of memory, or the machine into swap.
///
/// # Errors
/// [`LabError::Buffers`] with the sum, [`LabError::Load`] for more threads than there may be.
pub fn check_buffers(lab: &Lab<'_>, jobs: &[Job]) -> Result<(), LabError> {
    let needs = jobs.iter().map(MemoryNeed::of).collect::<Result<Vec<_>, _>>()?;
    fits(&needs, lab.free_memory())
}

fn fits(needs: &[MemoryNeed], (free_bytes, memory): (u64, &'static str)) -> Result<(), LabError> {
    let needed_bytes = needs.iter().map(|n| n.total_bytes()).fold(0, u64::saturating_add);
    if needed_bytes <= free_bytes / 4 {
        return Ok(());
    }
    let terms: Vec<String> = needs
        .iter()
        .map(|need| {
            let [buffer, histograms] = [need.buffer_bytes, need.histogram_bytes].map(format_size);
            let (depth, threads) = (need.depth, need.threads);
            format!("{buffer} x depth {depth} x {threads} threads + {histograms} of histograms x {threads} threads")
        })
        .collect();
    Err(LabError::Buffers { needed_bytes, free_bytes, memory, sum: terms.join(" + ") })
}

/// Each target once.
fn distinct<'a, 'b>(
    targets: &'b [&'a PreparedTarget],
) -> impl Iterator<Item = &'a PreparedTarget> + 'b {
    targets.iter().enumerate().filter_map(|(i, target)| {
        let seen = targets[..i].iter().any(|earlier| std::ptr::eq(*earlier, *target));
        (!seen).then_some(*target)
    })
}

/// Every block device under the targets, by kernel name.
fn device_names(targets: &[&PreparedTarget]) -> Vec<String> {
    let mut names: Vec<String> = targets
        .iter()
        .flat_map(|t| t.stack().block_devices())
        .map(|node| node.name.clone())
        .collect();
    names.order();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::keys;

    fn need(pairs: &[(&str, &str)]) -> MemoryNeed {
        let mut job = Job::default();
        pairs.iter().for_each(|(k, v)| keys::set(&mut job, k, v).expect(k));
        MemoryNeed::of(&job).expect("not too many threads")
    }

    fn free(bytes: u64) -> (u64, &'static str) {
        (bytes, "the free memory")
    }

    #[test]
    fn histograms_of_thousands_of_threads_are_in_the_sum() {
        // Three buffers for each thread, of 59 x 64 counts of 8 bytes for each class; reads have one class, mixed
        // ones with syncs five.
        let dense = 59 * 64 * 8;
        let psync = [("engine", "psync"), ("depth", "1"), ("threads", "20000")];
        let reads = need(&psync);
        assert_eq!(reads.total_bytes(), 20_000 * (4096 + 3 * dense));
        let mix = [("write_fraction", "0.2"), ("fsync_fraction", "0.1"), ("block_size", "1000")];
        let mixed = need(&[&psync[..], &mix[..]].concat());
        assert_eq!(mixed.total_bytes(), 20_000 * (4096 + 15 * dense));
        let sum_bytes = reads.total_bytes() + mixed.total_bytes();
        assert!(fits(&[reads, mixed], free(4 * sum_bytes)).is_ok());
        assert!(fits(&[reads, mixed], free(4 * sum_bytes - 1)).is_err(), "a byte too little");
        let text = fits(&[reads, mixed], free(16 << 30)).expect_err("far too little").to_string();
        for part in [
            "buffers need 10.3 GiB: 4 KiB x depth 1 x 20000 threads + 88.5 KiB of histograms x 20000 threads + 4 KiB x",
            " + 442.5 KiB of histograms x 20000 threads; that is more than a quarter of the free memory",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn sums_that_overflow_are_refused() {
        let huge = need(&[("block_size", "1G"), ("depth", "32768"), ("threads", "65536")]);
        assert!(huge.total_bytes() > 1 << 60);
        assert!(fits(&[huge; 20], free(u64::MAX)).is_err());
    }
}
