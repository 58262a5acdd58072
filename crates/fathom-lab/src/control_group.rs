//! The control groups that a trial runs in when its workload limits it: made before, removed after, and noted in the
//! journal in between. One for all its jobs when they ask for the same; else one for each job that asks, and processes to put
//! into them.

use crate::error::{ErrorClass, LabError};
use crate::lab::Lab;
use crate::target::PreparedTarget;
use fathom_base::order::Order;
use fathom_base::shell;
use fathom_guard::FilesystemId;
use fathom_guard::journal::{self, Entry, Kind, Owner};
use fathom_guard::place::mount_point;
use fathom_load::apart::Part;
use fathom_load::run::LoadError;
use fathom_model::finding::{Finding, Severity};
use fathom_model::limits::{self, ControlGroupRecord};
use fathom_model::workload::Job;
use fathom_sys::cgroup_io::{self, IoGroup, Place, WeightedBy};
use fathom_sys::devno::DevNo;
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// What bfq takes at the most.
const BFQ_WEIGHT_MAX: u32 = 1000;

/// A device that a group limits: a whole disk, array or volume.
struct Limited {
    name: String,
    devno: DevNo,
    /// It is shared by weights by the scheduler bfq.
    has_bfq: bool,
}

fn is_asked(jobs: &[Job]) -> bool {
    jobs.iter().any(Job::wants_control_group)
}

/// Finds out whether a group could be made, before anything is.
///
/// # Errors
/// [`LabError::Load`] with the cure.
pub fn check_place(root: &SysRoot, jobs: &[Job]) -> Result<(), LabError> {
    if is_asked(jobs) { place(root, jobs).map(drop) } else { Ok(()) }
}

/// Finds out whether this kernel has weights for groups at all, as far as that shows before there is one. `with_bfq` says of each of the devices
/// whether the scheduler bfq shares it; empty where that is not known.
///
/// # Errors
/// [`LabError::Load`], as it would be said when a group is made.
pub fn check_weights(root: &SysRoot, jobs: &[Job], with_bfq: &[bool]) -> Result<(), LabError> {
    let Some(job) = jobs.iter().find(|job| job.cgroup_weight.is_some()) else { return Ok(()) };
    let known = cgroup_io::weights(root);
    let lacks = |has_bfq: bool| if has_bfq { known.bfq } else { known.cost } == Some(false);
    let all = if with_bfq.is_empty() { &[true, false][..] } else { with_bfq };
    match all.iter().all(|has_bfq| lacks(*has_bfq)) {
        true => {
            let what = no_weights_for(with_bfq);
            Err(LabError::Load(LoadError::Missing { job: job.name.clone(), what }))
        }
        false => Ok(()),
    }
}

/// Why a weight cannot be set.
fn no_weights_for(with_bfq: &[bool]) -> String {
    let (is_bfq, is_other) = (with_bfq.contains(&true), with_bfq.contains(&false));
    let lacks = match (is_bfq, is_other) {
        (true, false) => "not in the scheduler bfq, which the device has",
        (false, true) => "not in io.cost, and the device has not the scheduler bfq",
        _ => "neither in the scheduler (bfq) nor in io.cost",
    };
    format!("cgroup_weight: this kernel has weights for control groups {lacks}")
}

/// Finds out whether the targets can be limited.
///
/// # Errors
/// [`LabError::Target`] for a target without a block device, or a weight that its scheduler does not take.
pub fn check_targets<'t>(
    lab: &Lab<'_>,
    mut jobs: impl Iterator<Item = (&'t Job, &'t PreparedTarget)>,
) -> Result<(), LabError> {
    jobs.try_for_each(|(job, target)| match job.wants_control_group() {
        true => devices(lab, job, std::iter::once(target)).map(drop),
        false => Ok(()),
    })
}

fn place(root: &SysRoot, jobs: &[Job]) -> Result<Place, LabError> {
    cgroup_io::place(root).map_err(|why| {
        let job = jobs.iter().find(|job| job.wants_control_group());
        let job = job.map(|job| job.name.clone()).unwrap_or_default();
        LabError::Load(LoadError::Missing { job, what: why.to_string() })
    })
}

/// The topmost devices under the targets, each once; of a partition the disk, as the kernel has limits for whole devices.
fn devices<'t>(
    lab: &Lab<'_>,
    job: &Job,
    targets: impl Iterator<Item = &'t PreparedTarget>,
) -> Result<Vec<Limited>, LabError> {
    let mut found: Vec<Limited> = Vec::new();
    for target in targets {
        let refused = |reason: String| LabError::Target {
            path: target.path_text().into(),
            reason,
            class: ErrorClass::Usage,
        };
        let before = found.len();
        for node in target.stack().top_block_devices() {
            let disk = BlockDir::by_name(&lab.root, &node.name).and_then(|device| device.disk());
            let Some((disk, devno)) = disk.and_then(|d| d.devno().map(|devno| (d, devno))) else {
                continue;
            };
            let queue = target.stack().queue_of(node);
            let has_bfq = queue.is_some_and(|queue| queue.scheduler.as_deref() == Some("bfq"));
            let name = disk.name().to_owned();
            if let Some(weight) = job.cgroup_weight.filter(|w| has_bfq && *w > BFQ_WEIGHT_MAX) {
                return Err(refused(format!(
                    "cgroup_weight={weight}: the scheduler bfq of {name} takes {BFQ_WEIGHT_MAX} at the most"
                )));
            }
            found.push(Limited { name, devno, has_bfq });
        }
        if found.len() == before {
            return Err(refused(
                "no block device is under it whose I/O a control group could limit; leave out cgroup_max and cgroup_weight, or use cap_iops= or cap_bytes=".into(),
            ));
        }
    }
    found.order_by(|a, b| a.name.cmp(&b.name));
    found.dedup_by(|a, b| a.devno == b.devno);
    Ok(found)
}

/// A group that was made.
struct ControlGroup {
    group: IoGroup,
    entry: journal::Record,
    record: ControlGroupRecord,
    findings: Vec<Finding>,
}

/// The groups of a trial.
#[derive(Default)]
pub struct Groups {
    /// In the order in which they were made.
    held: Vec<ControlGroup>,
    /// Where in `held` the group of each job is; nothing unless jobs have groups of their own.
    of_job: Vec<Option<usize>>,
}

impl Groups {
    /// True when jobs must run in processes of their own.
    #[must_use]
    pub fn are_apart(&self) -> bool {
        !self.of_job.is_empty()
    }

    /// Who shares a process: each job with a group has its own, the others are together.
    #[must_use]
    pub fn parts(&self) -> Vec<Part<'_>> {
        let place_of = |index: usize| self.of_job[index];
        let jobs = 0..self.of_job.len();
        let alone: Vec<usize> = jobs.clone().filter(|job| place_of(*job).is_none()).collect();
        let together = Part { jobs: alone, admit: Box::new(|_| Ok(())) };
        let own = jobs.filter_map(|job| {
            let group = &self.held[place_of(job)?].group;
            Some(Part { jobs: vec![job], admit: Box::new(|pid| group.admit(pid)) })
        });
        own.chain((!together.jobs.is_empty()).then_some(together)).collect()
    }

    /// The group that all jobs share, if they do.
    #[must_use]
    pub fn shared(&self) -> Option<&ControlGroupRecord> {
        if self.are_apart() { None } else { self.held.first().map(|group| &group.record) }
    }

    /// The group that a job has for itself.
    #[must_use]
    pub fn of(&self, job: usize) -> Option<&ControlGroupRecord> {
        let place = (*self.of_job.get(job)?)?;
        Some(&self.held[place].record)
    }

    /// What is to be said about them.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.held.iter().flat_map(|group| &group.findings)
    }

    /// Leaves the groups and removes them, the last one first: the first may have enabled the controller for all.
    ///
    /// # Errors
    /// [`LabError::Target`] when one cannot be removed; the next start tries again.
    pub fn leave(mut self) -> Result<(), LabError> {
        let mut result = Ok(());
        while let Some(group) = self.held.pop() {
            result = result.and(group.leave());
        }
        result
    }
}

/// Makes the groups that the jobs, each with its target, ask for, if any; moves this process into one that they share.
///
/// # Errors
/// [`LabError`] when one cannot be made or a limit is not taken; all is as before then.
pub fn enter(lab: &Lab<'_>, jobs: &[Job], targets: &[&PreparedTarget]) -> Result<Groups, LabError> {
    let mut groups = Groups::default();
    if !is_asked(jobs) {
        return Ok(groups);
    }
    let place = place(&lab.root, jobs)?;
    let name = format!("fathom-{}", lab.run_id);
    if !limits::are_apart(jobs) {
        let devices = devices(lab, &jobs[0], targets.iter().copied())?;
        let made = ControlGroup::new(lab, &place, (&name, true))?;
        groups.held.push(made.limited(lab, &jobs[0], &devices)?);
        return Ok(groups);
    }
    if place.must_enable() {
        // A group that passes a controller on can have no processes, so this one has to be in one too.
        groups.held.push(ControlGroup::new(lab, &place, (&name, true))?);
    }
    for (number, (job, target)) in (1..).zip(jobs.iter().zip(targets)) {
        if !job.wants_control_group() {
            groups.of_job.push(None);
            continue;
        }
        let made = devices(lab, job, std::iter::once(*target)).and_then(|devices| {
            let made = ControlGroup::new(lab, &place, (&format!("{name}-{number}"), false))?;
            made.limited(lab, job, &devices)
        });
        match made {
            Ok(group) => {
                groups.of_job.push(Some(groups.held.len()));
                groups.held.push(group);
            }
            Err(error) => {
                groups.leave()?;
                return Err(error);
            }
        }
    }
    Ok(groups)
}

impl ControlGroup {
    /// Makes one of that name, for this process or for others, noted in the journal first.
    fn new(lab: &Lab<'_>, place: &Place, (name, is_own): (&str, bool)) -> Result<Self, LabError> {
        let path = place.group_dir(name);
        let entry = journal::Record::write_new(
            &lab.state_dir,
            Entry {
                format: journal::FORMAT,
                run_id: lab.run_id.clone(),
                kind: Kind::ControlGroup { is_enabled_for_it: place.must_enable() },
                mount_point: mount_point(&lab.root, &path),
                filesystem: FilesystemId::of(&lab.root, &path),
                at: fathom_guard::file_at::note(&lab.root, &path),
                path: path.clone(),
                id: None,
                owner: Owner::current(&lab.root)?,
                kept: false,
                seals: BTreeMap::new(),
            },
        )?;
        match if is_own { place.enter(name) } else { place.make(name) } {
            Ok(group) => {
                let record =
                    ControlGroupRecord { path: path.display().to_string(), ..Default::default() };
                Ok(Self { group, entry, record, findings: Vec::new() })
            }
            Err(error) => {
                entry.remove()?;
                Err(refused(&path, &error))
            }
        }
    }

    /// The same, with the limits of a job; removed when one is not taken.
    fn limited(mut self, lab: &Lab<'_>, job: &Job, devices: &[Limited]) -> Result<Self, LabError> {
        match self.limit(lab, job, devices) {
            Ok(()) => Ok(self),
            Err(error) => {
                let error = refused(self.group.dir(), &error);
                self.leave()?;
                Err(error)
            }
        }
    }

    fn limit(&mut self, lab: &Lab<'_>, job: &Job, devices: &[Limited]) -> io::Result<()> {
        if !job.cgroup_max.is_empty() {
            for device in devices {
                self.group.set_max(device.devno, &job.cgroup_max.kernel_words())?;
                self.record.max.push((device.name.clone(), job.cgroup_max));
            }
            self.findings.extend(writeback(job));
        }
        let Some(weight) = job.cgroup_weight else { return Ok(()) };
        for device in devices {
            let by = if device.has_bfq { WeightedBy::Bfq } else { WeightedBy::Cost };
            let is_taken = match self.group.set_weight(by, weight) {
                Ok(()) => true,
                // This kernel was built without.
                Err(error) if error.kind() == io::ErrorKind::NotFound => false,
                Err(error) => return Err(error),
            };
            let is_on = || cgroup_io::is_cost_enabled(&lab.root, device.devno) == Some(true);
            let is_shared = is_taken && (device.has_bfq || is_on());
            if is_taken {
                self.record.weight = Some(weight);
            }
            self.findings.extend((!is_shared).then(|| no_weights(&device.name)));
        }
        if self.record.weight.is_none() {
            let with_bfq: Vec<bool> = devices.iter().map(|device| device.has_bfq).collect();
            return Err(io::Error::other(no_weights_for(&with_bfq)));
        }
        Ok(())
    }

    fn leave(self) -> Result<(), LabError> {
        let path = self.group.dir().to_owned();
        self.group.leave().map_err(|error| LabError::Target {
            path,
            reason: format!(
                "the control group cannot be removed: {error}; the next start tries again"
            ),
            class: ErrorClass::Missing,
        })?;
        Ok(self.entry.remove()?)
    }
}

fn refused(path: &Path, error: &io::Error) -> LabError {
    let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
    let cure = if is_denied { "; run as root, or as the owner of the group above" } else { "" };
    let reason = format!("the run cannot be limited: {error}{cure}");
    LabError::Target { path: path.to_owned(), reason, class: ErrorClass::Missing }
}

/// Weights mean something only where somebody shares the device by them.
pub(crate) fn no_weights(device: &str) -> Finding {
    let text = format!(
        "cgroup_weight has no effect on {device}: neither the scheduler bfq nor io.cost shares it by weights here"
    );
    Finding::new("cgroup-weight-inert", Severity::Note, text).advise(format!(
        "echo bfq >{}",
        shell::word(format!("/sys/block/{device}/queue/scheduler"))
    ))
}

/// The page cache is written back by the kernel's own threads, for the group only where the memory controller says whose
/// the pages are and the filesystem looks at it, and even there not for a file that was dirty before.
fn writeback(job: &Job) -> Option<Finding> {
    let limits_writes = job.cgroup_max.write_bytes.or(job.cgroup_max.write_iops).is_some();
    let is_buffered = job.writes_data() && !job.direct;
    (limits_writes && is_buffered).then(|| {
        Finding::new(
            "cgroup-writeback",
            Severity::Note,
            "cgroup_max limits what fathom writes itself; what the page cache holds is written back by threads of the kernel, which need not count for the group",
        )
        .advise("use direct=yes, or cap_bytes= to limit buffered writes")
    })
}
