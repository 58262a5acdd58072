//! `fathom run`: one workload, repeated as asked.

use crate::control_group;
use crate::error::{ErrorClass, LabError};
use crate::lab::Lab;
use crate::target::{self, PreparedTarget, TargetWish, say_what_is_idle};
use crate::trial::{KeepRecord, Trial, check_buffers, check_overlap, check_start, run_trial};
use crate::verify;
use fathom_base::units::format_duration;
use fathom_load::limits;
use fathom_load::plan::{check_clearing, range_bytes_min};
use fathom_model::array::{self, ArraySizes};
use fathom_model::builtin;
use fathom_model::event::Event;
use fathom_model::keys;
use fathom_model::record::{Ending, Record, TargetKind};
use fathom_model::workload::{Access, EngineKind, Job, Workload};
use fathom_study::rounds;
use fathom_sys::blkdev;
use fathom_sys::io::{self as sys_io, OpenMode};
use fathom_sys::sysroot::SysRoot;
use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// What `run` is asked to do.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// What to issue; already checked for contradictions.
    pub workload: Workload,
    /// Where, for jobs that name no target of their own.
    pub target: String,
    /// How often; with `until_steady` at the most.
    pub repeats: u32,
    /// Whether the repeats are rounds that end as soon as the figures are steady, and how many of them follow then, to see
    /// whether they stay so.
    pub until_steady: Option<u32>,
}

/// Runs all repeats, or as many as it takes until the figures are steady; each has the phases of the workload one after the other.
///
/// # Errors
/// [`LabError`] when nothing could be measured; an interrupted or failed trial ends the list instead.
pub fn run(
    lab: &mut Lab<'_>,
    options: &RunOptions,
    keep_record: KeepRecord<'_>,
) -> Result<Vec<Record>, LabError> {
    let options = &with_array_sizes(lab, options)?;
    let jobs = &options.workload.jobs;
    let mut prepared = checked_targets(lab, options)?;
    for job in jobs {
        let target = &prepared[&key_of(job, &options.workload, &options.target)];
        verify::check_target(job.verify, target, &lab.state_dir)?;
    }
    let trials = trials(options, &prepared);
    // Each phase of each variant once: repeats differ in their seeds only.
    let round_trials = trials.len() / options.repeats.max(1) as usize;
    for (_, workload) in &trials[..round_trials] {
        check_start(lab, &workload.jobs, &targets_of(options, workload, &prepared))?;
    }
    if jobs.iter().all(|job| path_of(job, &options.target) != options.target) {
        lab.note(format!("{} is not used: each job names a target of its own.", options.target));
    }
    say_what_is_asked(lab, options, &prepared);
    let whole_ns = planned_ns(&options.workload).saturating_mul(u64::from(options.repeats));
    for target in prepared.values_mut() {
        target.fill_up(lab, None, whole_ns)?;
    }
    if trials.len() > 1 {
        let most = if options.until_steady.is_some() { "At most " } else { "" };
        lab.note(format!("{most}{} runs{}.", trials.len(), about(expected_ns(&trials, &[]))));
    }
    let mut records: Vec<Record> = Vec::new();
    for (index, (label, workload)) in trials.iter().enumerate() {
        if lab.stop.is_set() || records.last().is_some_and(|r| r.ending != Ending::Complete) {
            break;
        }
        let trial = Trial {
            label: label.clone(),
            workload,
            targets: targets_of(options, workload, &prepared),
            seed: lab.seeds.next_u64(),
            rest_after_ns: expected_ns(&trials[index + 1..], &records),
            position: (index as u32 + 1, trials.len() as u32),
        };
        records.push(run_trial(lab, &trial, keep_record)?);
        let is_round = records.len().is_multiple_of(round_trials);
        if let Some(after) = options.until_steady.filter(|_| is_round)
            && is_over(lab, &records, options.repeats, after)
        {
            break;
        }
    }
    give_back(lab, prepared);
    if records.is_empty() { Err(LabError::Interrupted) } else { Ok(records) }
}

/// Says what the last round came to, and whether it was the last: so many rounds after the figures became steady, or when there
/// is no room for so many any more.
fn is_over(lab: &mut Lab<'_>, records: &[Record], most: u32, after: u32) -> bool {
    let rounds = rounds::study(records);
    lab.note(rounds.last_round());
    let (done, after) = (rounds.rounds, after as usize);
    match rounds.reached {
        Some(reached) => done >= reached + after,
        None => done + after >= most as usize,
    }
}

/// Everything that can be found out before a target is touched, and then the targets, still to be written full.
pub(crate) fn checked_targets(
    lab: &mut Lab<'_>,
    options: &RunOptions,
) -> Result<BTreeMap<TargetKey, PreparedTarget>, LabError> {
    let jobs = &options.workload.jobs;
    check_all(lab, options)?;
    check_beside(options)?;
    let prepared = prepare_all(lab, options)?;
    let target_of = |job| &prepared[&key_of(job, &options.workload, &options.target)];
    control_group::check_targets(lab, jobs.iter().map(|job| (job, target_of(job))))?;
    Ok(prepared)
}

/// Everything that can be found out before a target is touched.
pub(crate) fn check_all(lab: &Lab<'_>, options: &RunOptions) -> Result<(), LabError> {
    let jobs = &options.workload.jobs;
    check_buffers(lab, jobs)?;
    limits::check(jobs, &lab.stop)?;
    control_group::check_place(&lab.root, jobs)?;
    check_devices(options)?;
    check_shared(&wishes(options))
}

/// Jobs that run side by side, those of one load, leave each other's verified targets alone.
pub(crate) fn check_beside(options: &RunOptions) -> Result<(), LabError> {
    let jobs = &options.workload.jobs;
    check_overlap(jobs, |job| identity(Path::new(path_of(&jobs[job], &options.target))))
}

/// The target of a workload of one job, still to be written full, and the job with all sizes in bytes.
///
/// # Errors
/// [`LabError`] for a workload of several jobs, and for all that [`run`] refuses.
pub(crate) fn single_target(
    lab: &mut Lab<'_>,
    options: &RunOptions,
) -> Result<(Workload, PreparedTarget), LabError> {
    let RunOptions { workload, .. } = &options;
    if workload.jobs.len() != 1 {
        let reason = format!(
            "workload '{}' has {} jobs; a search changes one: name a workload of one job (fathom workloads lists them)",
            workload.name,
            workload.jobs.len()
        );
        return Err(LabError::Usage(reason));
    }
    let options = with_array_sizes(lab, options)?;
    let mut prepared = checked_targets(lab, &options)?;
    let Some((_, target)) = prepared.pop_first() else { return Err(LabError::Interrupted) };
    check_start(lab, &options.workload.jobs, &[&target])?;
    Ok((options.workload, target))
}

/// What the jobs of a trial work on, in their order.
pub(crate) fn targets_of<'a>(
    options: &RunOptions,
    trial: &Workload,
    prepared: &'a BTreeMap<TargetKey, PreparedTarget>,
) -> Vec<&'a PreparedTarget> {
    let of = |job| &prepared[&key_of(job, &options.workload, &options.target)];
    trial.jobs.iter().map(of).collect()
}

pub(crate) fn about(expected_ns: u64) -> String {
    if expected_ns == 0 {
        String::new()
    } else {
        format!(", about {}", format_duration(expected_ns))
    }
}

/// Every trial in order, with its label: repeats, in each the variants, in each the phases.
fn trials(
    options: &RunOptions,
    prepared: &BTreeMap<TargetKey, PreparedTarget>,
) -> Vec<(String, Workload)> {
    let mut trials = Vec::new();
    for repeat in 1..=options.repeats {
        let number = if options.repeats > 1 { format!(" #{repeat}") } else { String::new() };
        for (suffix, workload) in variants(&options.workload, prepared) {
            let name = format!("{}{suffix}", workload.name);
            let phases = workload.phases();
            if phases.is_empty() {
                trials.push((name + &number, workload.clone()));
                continue;
            }
            for phase in phases {
                trials.push((format!("{name}, {phase}{number}"), workload.of_phase(phase)));
            }
        }
    }
    trials
}

/// The time that trials are expected to take: by their own settings; where only an amount ends one, as long as it took
/// before, or as other trials without a duration took on average. 0 where nothing is known.
fn expected_ns(trials: &[(String, Workload)], done: &[Record]) -> u64 {
    let by_amount = |workload: &Workload| workload.jobs.iter().all(|j| j.duration_ns.is_none());
    let known: Vec<u64> =
        done.iter().filter(|r| by_amount(&r.workload)).map(|r| r.window_ns).collect();
    let mean_ns = known.iter().sum::<u64>() / known.len().max(1) as u64;
    let expect = |workload: &Workload| {
        if !by_amount(workload) {
            return planned_ns(workload);
        }
        let same = done.iter().rev().find(|r| r.workload == *workload);
        same.map_or(mean_ns, |record| record.window_ns)
    };
    trials.iter().map(|(_, workload)| expect(workload)).fold(0, u64::saturating_add)
}

/// The workload with all sizes in bytes: those in units of an array need the stack under the job's target.
pub(crate) fn with_array_sizes(
    lab: &Lab<'_>,
    options: &RunOptions,
) -> Result<RunOptions, LabError> {
    with_array_sizes_at(&lab.root, options)
}

/// The same of a machine.
pub(crate) fn with_array_sizes_at(
    root: &SysRoot,
    options: &RunOptions,
) -> Result<RunOptions, LabError> {
    let mut options = options.clone();
    for job in options.workload.jobs.iter_mut().filter(|job| !job.array_sizes.is_empty()) {
        let path = PathBuf::from(job.target.as_ref().unwrap_or(&options.target));
        // A file that is still to be made lies where its directory does.
        let there = if path.exists() { Some(path.as_path()) } else { path.parent() };
        let place = there.filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let sizes = match fathom_inspect::resolve(root, place) {
            Ok(stack) => ArraySizes::of(&stack),
            Err(_) => None,
        };
        array::resolve(job, sizes)?;
    }
    options.workload.check()?;
    Ok(options)
}

/// One event for each job: what was understood of it, before anything is written or measured.
pub(crate) fn say_what_is_asked(
    lab: &mut Lab<'_>,
    options: &RunOptions,
    prepared: &BTreeMap<TargetKey, PreparedTarget>,
) {
    for job in &options.workload.jobs {
        say_job(lab, job, &prepared[&key_of(job, &options.workload, &options.target)]);
    }
    say_what_is_idle(lab, &prepared.values().collect::<Vec<_>>());
}

/// What was understood of one job.
pub(crate) fn say_job(lab: &mut Lab<'_>, job: &Job, target: &PreparedTarget) {
    let mut job = Box::new(job.clone());
    if target.kind() == TargetKind::Null {
        job.engine = EngineKind::Null;
    }
    (lab.emit)(Event::JobAsked {
        job,
        target: target.path_text(),
        target_bytes: target.size_bytes(),
    });
}

/// Removes what was made, or keeps it when asked. What cannot be removed is said, and stays in the journal for the next
/// start; the figures are worth no less for it.
pub(crate) fn give_back(lab: &mut Lab<'_>, prepared: BTreeMap<TargetKey, PreparedTarget>) {
    prepared.into_values().for_each(|target| give_back_one(lab, target));
}

/// Removes what was made for a target, or keeps it when asked, and says where.
pub fn give_back_one(lab: &mut Lab<'_>, target: PreparedTarget) {
    if !lab.keep {
        return note_failure(lab, target.remove());
    }
    match target.keep() {
        Ok(Some(path)) => lab.note(format!("Kept: {}", path.display())),
        other => note_failure(lab, other.map(|_| ())),
    }
}

/// Says what could not be put in order, and goes on.
pub(crate) fn note_failure(lab: &mut Lab<'_>, done: Result<(), LabError>) {
    if let Err(error) = done {
        lab.note(error.to_string());
    }
}

/// The longest that one repeat takes by its own settings.
pub(crate) fn planned_ns(workload: &Workload) -> u64 {
    let longest = |jobs: &mut dyn Iterator<Item = &Job>| {
        jobs.map(|j| j.duration_ns.unwrap_or(0).saturating_add(j.warmup_ns)).max().unwrap_or(0)
    };
    let phases = workload.phases();
    if phases.is_empty() {
        return longest(&mut workload.jobs.iter());
    }
    let of = |phase: &str| {
        longest(&mut workload.jobs.iter().filter(|j| j.phase.as_deref() == Some(phase)))
    };
    phases.into_iter().map(of).fold(0, u64::saturating_add)
}

/// Jobs with the same key share a target: path, in need of an empty file while others of the same phase need a full
/// one, none at all, and for appending jobs the job itself, as each has a log of its own (nobody's name for the
/// directory of jobs on names).
pub(crate) type TargetKey = (String, bool, bool, Option<String>, u32);

fn path_of<'a>(job: &'a Job, default: &'a str) -> &'a str {
    job.target.as_deref().unwrap_or(default)
}

fn key_of(job: &Job, workload: &Workload, default: &str) -> TargetKey {
    let path = path_of(job, default);
    let beside = |other: &&Job| other.phase == job.phase && path_of(other, default) == path;
    // A device cannot be emptied, and is held once.
    let apart = job.starts_empty()
        && !is_device(Path::new(path))
        && workload.jobs.iter().filter(beside).any(|other| !other.starts_empty());
    let own = match job.metadata {
        Some(_) => Some(String::new()),
        None => (job.access == Access::Append).then(|| job.name.clone()),
    };
    (path.to_owned(), apart, job.engine == EngineKind::Null, own, job.files)
}

/// Finds out whether devices take what they will be asked for, before anybody is told that they are overwritten.
fn check_devices(options: &RunOptions) -> Result<(), LabError> {
    for job in options.workload.jobs.iter().filter(|job| job.engine != EngineKind::Null) {
        let path = Path::new(path_of(job, &options.target));
        if !is_device(path) || job.trim_fraction + job.zero_fraction == 0.0 {
            continue;
        }
        let is_beside = |other: &&Job| {
            other.phase == job.phase
                && identity(Path::new(path_of(other, &options.target))) == identity(path)
        };
        let beside: Vec<&Job> = options.workload.jobs.iter().filter(is_beside).collect();
        // What cannot be opened is refused with its reason when it is claimed.
        if let Ok(device) = sys_io::open_existing(path, OpenMode::default()) {
            fathom_load::check_early(job, &device, &beside)?;
            let block_bytes = blkdev::logical_block_size_bytes(&device).map_or(1, u64::from);
            check_clearing(job, block_bytes).map_err(|source| {
                let (job, target) = (job.name.clone(), path.display().to_string());
                LabError::Plan { job, target, source }
            })?;
        }
    }
    Ok(())
}

/// Of an existing file or device; in a directory each run has files of its own.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let meta = std::fs::metadata(path).ok().filter(|meta| !meta.is_dir())?;
    let is_device = meta.file_type().is_block_device();
    Some(if is_device { (u64::MAX, meta.rdev()) } else { (meta.dev(), meta.ino()) })
}

pub(crate) fn is_device(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_block_device())
}

/// Jobs that would need a file each, while they name the same one: it can be opened for writing once.
fn check_shared(wishes: &BTreeMap<TargetKey, TargetWish>) -> Result<(), LabError> {
    let needs = |wish: &TargetWish| {
        let Some(job) = wish.jobs.first() else { return String::new() };
        let how = match job.access {
            _ if wish.names > 0 => "creates files",
            Access::Append => "appends to a file of its own",
            _ if wish.files > 1 => "uses several files",
            _ if job.starts_empty() => "starts with an empty file",
            _ => "uses the file as it is",
        };
        format!("job {} {how}", job.name)
    };
    let of_files = wishes.iter().filter(|(key, wish)| {
        let is_null = wish.null || key.0.starts_with("null:");
        !is_null && !Path::new(&key.0).is_dir()
    });
    let mut seen: BTreeMap<PathBuf, &TargetWish> = BTreeMap::new();
    for (key, wish) in of_files {
        let path = PathBuf::from(&key.0);
        let path = path.canonicalize().unwrap_or(path);
        let Some(other) = seen.insert(path.clone(), wish) else { continue };
        if wish.write || other.write {
            let reason = format!(
                "{}, {}: these cannot share it; give the jobs different targets (JOB.target=PATH), or name a directory, where each gets a file of its own",
                needs(other),
                needs(wish)
            );
            return Err(wrong_kind(&path, reason));
        }
    }
    Ok(())
}

fn prepare_all(
    lab: &mut Lab<'_>,
    options: &RunOptions,
) -> Result<BTreeMap<TargetKey, PreparedTarget>, LabError> {
    let wishes = wishes(options);
    let mut prepared = BTreeMap::new();
    for (key, wish) in wishes {
        let target = target::prepare(lab, &PathBuf::from(&key.0), &wish)?;
        prepared.insert(key, target);
    }
    Ok(prepared)
}

/// What the jobs want of each target.
pub(crate) fn wishes(options: &RunOptions) -> BTreeMap<TargetKey, TargetWish> {
    let RunOptions { workload, target, .. } = options;
    let mut wishes: BTreeMap<TargetKey, TargetWish> = BTreeMap::new();
    for job in &workload.jobs {
        let wish = wishes.entry(key_of(job, workload, target)).or_default();
        // Later phases find what the first has written.
        wish.fresh |= wish.jobs.is_empty() && job.starts_empty();
        wish.emptied |= job.starts_empty();
        wish.jobs.push(job.clone());
        wish.write |= job.writes();
        wish.direct |= job.direct;
        wish.size_bytes = wish.size_bytes.max(job.size_bytes);
        wish.null = job.engine == EngineKind::Null;
        wish.files = wish.files.max(job.files);
        wish.names = wish.names.max(job.metadata.and(job.names).unwrap_or(0));
        wish.pass_bytes = wish.pass_bytes.max(pass_bytes(workload, job));
        wish.range_bytes_min = wish.range_bytes_min.max(range_bytes_min(job));
    }
    wishes
}

/// A job that reads or writes an amount in one pass has that much room, where fathom makes the file. So has one that fills an
/// empty file for a time in place of the amount of the ready workload: it costs nothing, and the end is reached the later.
fn pass_bytes(workload: &Workload, job: &Job) -> u64 {
    if job.access != Access::Sequential {
        return 0;
    }
    let for_a_time = job.duration_ns.is_some() && job.operations.is_none() && job.starts_empty();
    let ready = || {
        let ready = builtin::named(&workload.name).ok().filter(|_| for_a_time)?;
        ready.jobs.iter().find(|known| known.name == job.name)?.amount_bytes
    };
    job.amount_bytes.or_else(ready).unwrap_or(0)
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
    let both = vec![(", direct".to_owned(), with(true)), (", buffered".to_owned(), with(false))];
    // Some settings leave one of the two only.
    let can_be = |(_, w): &(String, Workload)| w.jobs.iter().all(|j| keys::check(j).is_ok());
    let possible: Vec<(String, Workload)> = both.into_iter().filter(can_be).collect();
    if possible.is_empty() { vec![(String::new(), workload.clone())] } else { possible }
}

/// The default size of a test file that `run` makes: twice the caches below, a pass of the workload up to 4 GiB, at least
/// 1 GiB, and in any case what the jobs need to run at all. `cached_bytes` are those and the memory, or the limit of the
/// control group, of reads through the page cache: twice them, where that comes to no more than 4 GiB as well. With more a
/// finding names the size, which takes long to write and much room. A file that starts empty and that an amount ends
/// becomes no longer than that.
#[must_use]
pub fn default_size_bytes(cache_bytes: u64, cached_bytes: u64, wish: &TargetWish) -> u64 {
    const UNASKED_MAX: u64 = 4 << 30;
    let grows_to_amount = |job: &Job| job.starts_empty() && job.amount_bytes.is_some();
    if !wish.jobs.is_empty() && wish.jobs.iter().all(grows_to_amount) {
        return wish.pass_bytes.min(UNASKED_MAX).max(wish.range_bytes_min);
    }
    let usual_bytes = (2 * cache_bytes).max(wish.pass_bytes.min(UNASKED_MAX)).max(1 << 30);
    let uncached_bytes = Some(2 * cached_bytes).filter(|bytes| *bytes <= UNASKED_MAX).unwrap_or(0);
    usual_bytes.max(uncached_bytes).max(wish.range_bytes_min)
}

/// The error for a path that is not what is needed.
pub(crate) fn wrong_kind(path: &Path, reason: String) -> LabError {
    LabError::Target { path: path.to_owned(), reason, class: ErrorClass::Usage }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(pairs: &[(&str, &str)]) -> TargetWish {
        let mut job = Job { access: Access::Sequential, write_fraction: 1.0, ..Job::default() };
        pairs.iter().for_each(|(key, value)| keys::set(&mut job, key, value).expect(key));
        let mut workload = builtin::named("seqwrite").expect("built in");
        job.name = workload.jobs.remove(0).name;
        let (pass_bytes, range_bytes_min) = (pass_bytes(&workload, &job), range_bytes_min(&job));
        TargetWish { pass_bytes, range_bytes_min, ..TargetWish::default() }
    }

    #[test]
    fn a_file_has_room_for_a_pass_within_reason_and_for_every_request() {
        const MIB: u64 = 1 << 20;
        for (cache_mib, pairs, mib) in [
            (0, &[("operations", "10")][..], 1024),
            (1024, &[("operations", "10")], 2048),
            (0, &[("block_size", "64M"), ("operations", "32")], 1024),
            (0, &[("amount", "3G")], 3072),
            (0, &[("amount", "3T")], 4096),
            // The amount of seqwrite, in place of which it has a time.
            (0, &[("duration", "5s")], 4096),
            (0, &[("duration", "5s"), ("overwrite", "yes")], 1024),
            (0, &[("duration", "5s"), ("operations", "10")], 1024),
            (0, &[("block_size", "1G"), ("operations", "1"), ("threads", "6")], 6144),
        ] {
            let size_bytes = default_size_bytes(cache_mib * MIB, 0, &wish(pairs));
            assert_eq!(size_bytes, mib * MIB, "{pairs:?}");
        }
        // Partial records of 0x7ffff000 bytes.
        let records = wish(&[("record_size", "8G"), ("operations", "4")]);
        assert_eq!(default_size_bytes(0, 0, &records), 0x7fff_f000);
    }

    #[test]
    fn a_file_that_an_amount_ends_needs_no_more_room() {
        let size_bytes = |pairs: &[(&str, &str)]| {
            let mut wish = wish(pairs);
            let mut job = Job { access: Access::Sequential, write_fraction: 1.0, ..Job::default() };
            pairs.iter().for_each(|(key, value)| keys::set(&mut job, key, value).expect(key));
            wish.jobs.push(job);
            default_size_bytes(1 << 30, 0, &wish)
        };
        assert_eq!(size_bytes(&[("amount", "100M")]), 100 << 20);
        assert_eq!(size_bytes(&[("amount", "500k"), ("duration", "1m")]), 500 << 10);
        assert_eq!(size_bytes(&[("amount", "4k"), ("threads", "4")]), 16 << 10, "a block each");
        assert_eq!(size_bytes(&[("amount", "3T")]), 4 << 30);
        for others in [("write_fraction", "0"), ("overwrite", "yes"), ("access", "random")] {
            assert_eq!(size_bytes(&[("amount", "100M"), others]), 2 << 30, "{others:?}");
        }
    }

    #[test]
    fn reads_through_the_page_cache_get_twice_the_memory_where_it_is_small() {
        const MIB: u64 = 1 << 20;
        let size_mib = |cached_mib| default_size_bytes(0, cached_mib * MIB, &wish(&[])) / MIB;
        assert_eq!([256, 768, 2048, 2049, 65_536].map(size_mib), [1024, 1536, 4096, 1024, 1024]);
    }
}
