//! `fathom run`: one workload, repeated as asked.

use crate::error::{ErrorClass, LabError};
use crate::lab::Lab;
use crate::target::{self, PreparedTarget, TargetWish};
use crate::trial::{Trial, check_buffers, run_trial};
use fathom_base::units::format_duration;
use fathom_model::event::Event;
use fathom_model::record::{Ending, Record, TargetKind};
use fathom_model::workload::{Access, EngineKind, Job, Workload};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What `run` is asked to do.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// What to issue; already checked for contradictions.
    pub workload: Workload,
    /// Where, for jobs that name no target of their own.
    pub target: String,
    /// How often.
    pub repeats: u32,
}

/// Runs all repeats. Each finished record goes to `keep_record` at once, between two measurements.
///
/// # Errors
/// [`LabError`] when nothing could be measured; an interrupted or failed repeat ends the list instead.
pub fn run(
    lab: &mut Lab<'_>,
    options: &RunOptions,
    keep_record: &mut dyn FnMut(&Record) -> Result<(), LabError>,
) -> Result<Vec<Record>, LabError> {
    check_buffers(lab, &options.workload.jobs)?;
    let prepared = prepare_all(lab, options)?;
    let variants = variants(&options.workload, &prepared);
    let total = options.repeats as usize * variants.len();
    let each_ns = planned_ns(&options.workload);
    if total > 1 {
        lab.note(format!(
            "{total} runs, about {}.",
            format_duration(each_ns.saturating_mul(total as u64))
        ));
    }
    let mut records: Vec<Record> = Vec::new();
    for repeat in 1..=options.repeats {
        for (suffix, workload) in &variants {
            if lab.stop.is_set() || records.last().is_some_and(|r| r.ending != Ending::Complete) {
                break;
            }
            let mut label = options.workload.name.clone() + suffix;
            if options.repeats > 1 {
                label += &format!(" #{repeat}");
            }
            let index = records.len() as u32 + 1;
            let trial = Trial {
                label,
                workload,
                targets: workload
                    .jobs
                    .iter()
                    .map(|j| &prepared[&key_of(j, &options.target)])
                    .collect(),
                seed: lab.seeds.next_u64(),
                rest_after_ns: each_ns.saturating_mul(total as u64 - u64::from(index)),
                position: (index, total as u32),
            };
            let record = run_trial(lab, &trial)?;
            keep_record(&record)?;
            (lab.emit)(Event::TrialFinished { record: Box::new(record.clone()) });
            records.push(record);
        }
    }
    give_back(lab, prepared);
    if records.is_empty() { Err(LabError::Interrupted) } else { Ok(records) }
}

/// Removes what was made, or keeps it when asked. What cannot be removed is said, and stays in the journal for the next
/// start; the figures are worth no less for it.
fn give_back(lab: &mut Lab<'_>, prepared: BTreeMap<TargetKey, PreparedTarget>) {
    for target in prepared.into_values() {
        if !lab.keep {
            note_failure(lab, target.remove());
            continue;
        }
        match target.keep() {
            Ok(Some(path)) => lab.note(format!("Kept: {}", path.display())),
            other => note_failure(lab, other.map(|_| ())),
        }
    }
}

/// Says what could not be put in order, and goes on.
pub(crate) fn note_failure(lab: &mut Lab<'_>, done: Result<(), LabError>) {
    if let Err(error) = done {
        lab.note(error.to_string());
    }
}

/// The longest that one run takes by its own settings.
fn planned_ns(workload: &Workload) -> u64 {
    workload
        .jobs
        .iter()
        .map(|j| j.duration_ns.unwrap_or(0).saturating_add(j.warmup_ns))
        .max()
        .unwrap_or(0)
}

/// Jobs that only write in sequence or append fill a file that starts empty, as dd does; all others need one that lies
/// ready. Both kinds on one path get a file each.
fn starts_empty(job: &Job) -> bool {
    job.access == Access::Append || (job.access == Access::Sequential && !job.reads())
}

/// Jobs with the same key share a target: path, starting empty, none at all, and for appending jobs the job itself, as
/// each has a log of its own.
type TargetKey = (String, bool, bool, Option<String>);

fn key_of(job: &Job, default: &str) -> TargetKey {
    let path = job.target.clone().unwrap_or_else(|| default.to_owned());
    let own = (job.access == Access::Append).then(|| job.name.clone());
    (path, starts_empty(job), job.engine == EngineKind::Null, own)
}

fn prepare_all(
    lab: &mut Lab<'_>,
    options: &RunOptions,
) -> Result<BTreeMap<TargetKey, PreparedTarget>, LabError> {
    let mut wishes: BTreeMap<TargetKey, TargetWish> = BTreeMap::new();
    for job in &options.workload.jobs {
        let wish = wishes.entry(key_of(job, &options.target)).or_default();
        wish.jobs.push(job.clone());
        wish.write |= job.writes();
        wish.direct |= job.direct;
        wish.fresh |= starts_empty(job);
        wish.size_bytes = wish.size_bytes.max(job.size_bytes);
        wish.null = job.engine == EngineKind::Null;
        wish.smallest_bytes = wish.smallest_bytes.max(smallest_target(job));
    }
    let mut prepared = BTreeMap::new();
    for (key, wish) in wishes {
        let rest_ns = planned_ns(&options.workload).saturating_mul(u64::from(options.repeats));
        let target = target::prepare(lab, &PathBuf::from(&key.0), &wish, rest_ns)?;
        prepared.insert(key, target);
    }
    Ok(prepared)
}

/// A job that reads or writes an amount in one pass needs that much room, where fathom makes the file.
fn smallest_target(job: &Job) -> u64 {
    match job.access {
        Access::Sequential => job.amount_bytes.unwrap_or(0),
        _ => 0,
    }
}

/// A raw device whose filesystem is mounted is read twice, directly and through the page cache: the mount changes the
/// one but not the other, and which of the two was meant is not known.
fn variants(
    workload: &Workload,
    prepared: &BTreeMap<TargetKey, PreparedTarget>,
) -> Vec<(String, Workload)> {
    let reads_only = workload.jobs.iter().all(|j| !j.writes());
    let mounted = prepared.values().any(|t| t.kind() == TargetKind::BlockDevice && t.is_mounted());
    if !(reads_only && mounted) {
        return vec![(String::new(), workload.clone())];
    }
    let with = |direct: bool| {
        let mut variant = workload.clone();
        variant.jobs.iter_mut().for_each(|j| j.direct = direct);
        variant
    };
    vec![(", direct".into(), with(true)), (", buffered".into(), with(false))]
}

/// The default size of a test file that `run` makes: twice the caches below, a pass of the workload up to 4 GiB, and at
/// least 1 GiB.
#[must_use]
pub fn default_size_bytes(cache_bytes: u64, smallest_bytes: u64) -> u64 {
    (2 * cache_bytes).max(smallest_bytes.min(4 << 30)).max(1 << 30)
}

/// The error for a path that is not what is needed.
pub(crate) fn wrong_kind(path: &Path, reason: String) -> LabError {
    LabError::Target { path: path.to_owned(), reason, class: ErrorClass::Usage }
}
