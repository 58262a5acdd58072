//! One trial: a workload on prepared targets, from the open files to the raw record.

use crate::error::LabError;
use crate::lab::Lab;
use crate::sampler::{Deltas, Progress, Sampler};
use crate::target::PreparedTarget;
use fathom_base::units::format_size;
use fathom_load::plan::{self, JobPlan};
use fathom_load::run::{self, Control, JobSetup, Outcome};
use fathom_load::target::LoadTarget;
use fathom_model::event::Event;
use fathom_model::finding::Finding;
use fathom_model::record::{Ending, IoFailure, RECORD_VERSION, Record};
use fathom_model::workload::{Job, OpenSync, Workload};
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

/// Runs one trial.
///
/// # Errors
/// [`LabError`] when it could not start. A request that fails, or a signal, gives a record that says so.
pub fn run_trial(lab: &mut Lab<'_>, trial: &Trial<'_>) -> Result<Record, LabError> {
    let jobs = &trial.workload.jobs;
    check_buffers(lab, jobs)?;
    let mut opened: Vec<(LoadTarget, JobPlan)> = Vec::new();
    for (job, target) in jobs.iter().zip(&trial.targets) {
        let load = target.open(open_mode(job))?;
        let plan = plan::plan(job, load.size_bytes(), load.logical_block_bytes(), trial.seed)
            .map_err(|source| LabError::Plan {
                job: job.name.clone(),
                target: target.path_text(),
                source,
            })?;
        opened.push((load, plan));
    }
    for (job, target) in jobs.iter().zip(&trial.targets) {
        if !job.direct && job.reads() {
            target.drop_cached_pages()?;
        }
    }
    let mut findings = Vec::new();
    for target in distinct(&trial.targets) {
        findings.extend(target.findings(lab));
    }
    let (index, count) = trial.position;
    (lab.emit)(Event::TrialStarted { label: trial.label.clone(), index, count });

    let (outcome, deltas) = measure(lab, trial, opened)?;
    // An array may have begun to rebuild meanwhile.
    for finding in distinct(&trial.targets).flat_map(|target| target.findings(lab)) {
        if !findings.iter().any(|known: &Finding| known.id == finding.id) {
            findings.push(finding);
        }
    }
    // After the run: files that started empty have their extents only now.
    let records = distinct(&trial.targets)
        .map(|target| {
            let mut on_it =
                jobs.iter().zip(&trial.targets).filter(|(_, t)| std::ptr::eq(**t, target));
            target.record(lab, on_it.all(|(job, _)| job.direct))
        })
        .collect();
    let ending = match (&outcome.failure, outcome.interrupted) {
        (Some(_), _) => Ending::Failed,
        (None, true) => Ending::Interrupted,
        (None, false) => Ending::Complete,
    };
    let failure = outcome.failure.map(|failure| named(failure, trial));
    Ok(Record {
        version: RECORD_VERSION,
        label: trial.label.clone(),
        workload: trial.workload.clone(),
        targets: records,
        jobs: outcome.jobs,
        started_unix_ns: outcome.started_unix_ns,
        window_ns: outcome.window_ns,
        process_cpu: deltas.process_cpu,
        system_cpu: deltas.system_cpu,
        devices: deltas.devices,
        page_cache: deltas.page_cache,
        suspended_ns: deltas.suspended_ns,
        ending,
        failure,
        seed: trial.seed,
        findings,
    })
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

fn measure(
    lab: &mut Lab<'_>,
    trial: &Trial<'_>,
    opened: Vec<(LoadTarget, JobPlan)>,
) -> Result<(Outcome, Deltas), LabError> {
    let planned = trial.workload.jobs.iter().map(|j| j.duration_ns.unwrap_or(u64::MAX)).max();
    let amounts: Option<Vec<u64>> = opened.iter().map(|(_, p)| p.amount_bytes).collect();
    let progress = Progress {
        label: trial.label.clone(),
        rest_after_ns: trial.rest_after_ns,
        planned_ns: planned.unwrap_or(0),
        planned_bytes: amounts.map(|a| a.iter().sum()),
        layout: false,
        emit: lab.emit,
    };
    let mut sampler = Sampler::new(&lab.root, device_names(&trial.targets), progress);
    let control = Control { clock: lab.clock, interval_ns: lab.interval_ns, stop: &lab.stop };
    let (targets, plans): (Vec<LoadTarget>, Vec<JobPlan>) = opened.into_iter().unzip();
    let setups: Vec<JobSetup<'_>> =
        targets.iter().zip(plans).map(|(target, plan)| JobSetup { plan, target }).collect();
    let outcome = run::run(&setups, &control, &mut sampler)?;
    Ok((outcome, sampler.deltas()))
}

/// Buffers above a quarter of what is free push other things out of memory, or the machine into swap.
///
/// # Errors
/// [`LabError::Buffers`] with the sum.
pub fn check_buffers(lab: &Lab<'_>, jobs: &[Job]) -> Result<(), LabError> {
    let needed_bytes: u64 = jobs.iter().map(Job::buffer_bytes).fold(0, u64::saturating_add);
    let free_bytes = lab.free_memory_bytes();
    if needed_bytes <= free_bytes / 4 {
        return Ok(());
    }
    let terms: Vec<String> = jobs
        .iter()
        .map(|j| {
            let size = format_size(u64::from(j.block_size_bytes_max()));
            format!("{size} x depth {} x {} threads", j.depth, j.threads)
        })
        .collect();
    Err(LabError::Buffers { needed_bytes, free_bytes, sum: terms.join(" + ") })
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
    names.sort();
    names.dedup();
    names
}
