//! The control group that a trial runs in when its workload limits it: made before, removed after, and noted in the
//! journal in between.

use crate::error::{ErrorClass, LabError};
use crate::lab::Lab;
use crate::target::PreparedTarget;
use fathom_base::shell;
use fathom_guard::FilesystemId;
use fathom_guard::journal::{self, Entry, Kind, Owner};
use fathom_guard::place::mount_point;
use fathom_load::run::LoadError;
use fathom_model::finding::{Finding, Severity};
use fathom_model::limits::ControlGroupRecord;
use fathom_model::workload::Job;
use fathom_sys::cgroup_io::{self, IoGroup, Place, WeightedBy};
use fathom_sys::devno::DevNo;
use fathom_sys::sysfs_block::BlockDir;
use std::collections::BTreeMap;
use std::io;

/// What bfq takes at the most.
const BFQ_WEIGHT_MAX: u32 = 1000;

/// A device that a group limits: a whole disk, array or volume.
struct Limited {
    name: String,
    devno: DevNo,
    /// It is shared by weights by the scheduler bfq.
    has_bfq: bool,
}

/// True when the jobs, which all ask for the same, ask for a group at all.
fn is_asked(jobs: &[Job]) -> bool {
    jobs.first().is_some_and(|job| job.cgroup_weight.is_some() || !job.cgroup_max.is_empty())
}

/// Finds out whether a group could be made, before anything is.
///
/// # Errors
/// [`LabError::Load`] with the cure.
pub fn check_place(lab: &Lab<'_>, jobs: &[Job]) -> Result<(), LabError> {
    if is_asked(jobs) { place(lab, jobs).map(drop) } else { Ok(()) }
}

/// Finds out whether the targets can be limited.
///
/// # Errors
/// [`LabError::Target`] for a target without a block device, or a weight that its scheduler does not take.
pub fn check_targets<'t>(
    lab: &Lab<'_>,
    jobs: &[Job],
    targets: impl Iterator<Item = &'t PreparedTarget>,
) -> Result<(), LabError> {
    if is_asked(jobs) { devices(lab, &jobs[0], targets).map(drop) } else { Ok(()) }
}

fn place(lab: &Lab<'_>, jobs: &[Job]) -> Result<Place, LabError> {
    cgroup_io::place(&lab.root).map_err(|why| {
        let job = jobs.first().map(|job| job.name.clone()).unwrap_or_default();
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
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found.dedup_by(|a, b| a.devno == b.devno);
    Ok(found)
}

/// A group that this process is in.
pub struct ControlGroup {
    group: IoGroup,
    entry: journal::Record,
    /// What it is.
    pub record: ControlGroupRecord,
    /// What is to be said about it.
    pub findings: Vec<Finding>,
}

/// Makes the group that the jobs ask for and moves this process into it; none when they ask for none.
///
/// # Errors
/// [`LabError`] when it cannot be made or a limit is not taken; all is as before then.
pub fn enter<'t>(
    lab: &Lab<'_>,
    jobs: &[Job],
    targets: impl Iterator<Item = &'t PreparedTarget>,
) -> Result<Option<ControlGroup>, LabError> {
    if !is_asked(jobs) {
        return Ok(None);
    }
    let job = &jobs[0];
    let devices = devices(lab, job, targets)?;
    let place = place(lab, jobs)?;
    let name = format!("fathom-{}", lab.run_id);
    let path = place.group_dir(&name);
    let entry = journal::Record::write_new(
        &lab.state_dir,
        Entry {
            format: journal::FORMAT,
            run_id: lab.run_id.clone(),
            kind: Kind::ControlGroup { is_enabled_for_it: place.must_enable() },
            mount_point: mount_point(&lab.root, &path),
            filesystem: FilesystemId::of(&lab.root, &path),
            path: path.clone(),
            id: None,
            owner: Owner::current(&lab.root)?,
            kept: false,
            seals: BTreeMap::new(),
        },
    )?;
    let refused = |error: io::Error| {
        let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
        let cure = if is_denied { "; run as root, or as the owner of the group above" } else { "" };
        let reason = format!("the run cannot be limited: {error}{cure}");
        LabError::Target { path: path.clone(), reason, class: ErrorClass::Missing }
    };
    let group = match place.enter(&name) {
        Ok(group) => group,
        Err(error) => {
            entry.remove()?;
            return Err(refused(error));
        }
    };
    let record = ControlGroupRecord { path: path.display().to_string(), ..Default::default() };
    let mut made = ControlGroup { group, entry, record, findings: Vec::new() };
    match made.limit(lab, job, &devices) {
        Ok(()) => Ok(Some(made)),
        Err(error) => {
            made.leave()?;
            Err(refused(error))
        }
    }
}

impl ControlGroup {
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
            return Err(io::Error::other(
                "cgroup_weight: this kernel has weights for control groups neither in the scheduler (bfq) nor in io.cost",
            ));
        }
        Ok(())
    }

    /// Leaves the group and removes it.
    ///
    /// # Errors
    /// [`LabError::Target`] when it cannot be removed; the next start tries again.
    pub fn leave(self) -> Result<(), LabError> {
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

/// Weights mean something only where somebody shares the device by them.
fn no_weights(device: &str) -> Finding {
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
