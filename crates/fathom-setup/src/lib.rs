//! What an experiment stands on: arrays, volumes, encryption, filesystems and mounts, built from a description, and taken down again, with
//! nothing else touched.
//!
//! - [`check`] says what would be done, to the last word of every command, and touches nothing; [`build`] does it.
//! - Every device that is given needs a claim (consent, unused, blank); everything is in the journal of changes before it is made,
//!   with a UUID that was chosen before; [`take_down`] and, for the journal of a dead process, [`undo()`] take back just that.
//! - [`refresh`] brings an array into its state again before a trial; [`remount`] mounts anew, as another way to empty caches.

mod array;
mod btrfs;
mod build;
mod capacity;
mod causes;
mod crypt;
mod devices;
mod error;
mod filesystem;
mod fill;
mod known;
mod make_options;
mod mounting;
mod multipath;
mod old;
mod options;
mod outline;
mod site;
mod table;
mod tools;
mod undo;
mod volume;
mod wipe;

pub use error::{ErrorKind, MissingTool, SetupError};
pub use outline::{Capacity, Destroyed, Outline, ToolFound};

use fathom_guard::changes::{ChangeLog, Step};
use fathom_guard::{Claim, Consent, Protected};
use fathom_model::change::setup::SetupChange;
use fathom_model::plan::setup::{SetupCapacity, SetupSpec};
use fathom_sys::signals::StopFlag;
use fathom_sys::sysroot::SysRoot;
use std::path::{Path, PathBuf};

/// What building needs of its surroundings.
pub struct Builder<'a> {
    /// The machine.
    pub root: &'a SysRoot,
    /// The journal: what is built is noted there first.
    pub log: &'a mut ChangeLog,
    /// Devices that may be overwritten.
    pub consent: &'a Consent,
    /// What never is.
    pub protected: &'a Protected,
    /// Where files of loop devices and mount points are made, in a directory of the run's own.
    pub work_dir: &'a Path,
    /// Of the ageing of filesystems.
    pub seed: u64,
    /// Told what is being done, and how far it is.
    pub note: &'a mut dyn FnMut(&str),
    /// Building ends, and takes down what it has made, when this is set.
    pub stop: &'a StopFlag,
}

/// What was built.
#[derive(Debug)]
pub struct Built {
    /// What to measure: a mounted directory, or a block device.
    pub target: PathBuf,
    /// Of the device on top when there is no filesystem: to be given to the measurement.
    pub claim: Option<Claim>,
    /// Where the filesystem is mounted.
    pub mount_point: Option<PathBuf>,
    /// Where those of the other devices are, of several.
    pub further: Vec<PathBuf>,
    /// The device on top.
    pub device: PathBuf,
    /// What of the devices can be used; none without slices, array and volume.
    pub capacity: Option<SetupCapacity>,
    /// The commands, as they were run.
    pub commands: Vec<String>,
    /// What a reader of results must know: `assumed clean`, options that took no effect, capacity.
    pub facts: Vec<String>,
    /// Those of the facts that are otherwise than one would expect.
    pub remarks: Vec<String>,
    /// The steps in the journal, oldest first.
    pub steps: Vec<Step>,
    /// What it was built from.
    pub spec: SetupSpec,
    /// Of the devices that nothing else holds.
    held: Vec<Claim>,
    /// The devices that were given, each with its identifier.
    given: Vec<(PathBuf, String)>,
    /// What is needed to bring it into its state again.
    parts: build::Parts,
}

/// What became of something that was to be taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undo {
    /// Taken back, verified; noted in the journal.
    Restored,
    /// It was not there (any more); noted in the journal.
    AlreadyBack,
    /// Somebody has made something else of it since: it is left alone, and stays in the journal.
    ChangedBySomebody {
        /// What is there now.
        found: String,
    },
    /// The device is away; it stays in the journal for when it is back.
    Gone(String),
    /// It was made where paths meant something else, and is not found here; it stays in the journal.
    NotHere(String),
    /// It did not survive the boot; noted in the journal.
    Rebooted,
    /// It is taken back, and the journal cannot say so: the change stays there until that can be written. With the reason.
    Unnoted(String),
    /// It could not be taken back, with the reason and the cure; it stays in the journal.
    Failed(String),
}

/// What would be built, without touching anything.
///
/// # Errors
/// [`SetupError`]: what would make building fail, as far as it shows before; consent that is missing does not.
pub fn check(
    root: &SysRoot,
    consent: &Consent,
    protected: &Protected,
    work_dir: &Path,
    spec: &SetupSpec,
) -> Result<Outline, SetupError> {
    build::check(root, consent, protected, work_dir, spec)
}

/// Builds it. What was built when an error comes up is taken down again before this returns.
///
/// # Errors
/// [`SetupError`].
pub fn build(builder: &mut Builder<'_>, spec: &SetupSpec) -> Result<Built, SetupError> {
    build::build(builder, spec)
}

/// Why a filesystem does not show any more where it was mounted; none when all do.
#[must_use]
pub fn unmounted(root: &SysRoot, built: &Built) -> Option<String> {
    build::unmounted(root, built)
}

/// Brings the array into its state again, where a rebuild or a check has ended since, and makes sure that filesystems are mounted: to be
/// called before each trial.
///
/// # Errors
/// [`SetupError`].
pub fn refresh(builder: &mut Builder<'_>, built: &mut Built) -> Result<(), SetupError> {
    build::refresh(builder, built)
}

/// Unmounts and mounts anew: afterwards nothing of the filesystem is cached.
///
/// # Errors
/// [`SetupError`].
pub fn remount(builder: &mut Builder<'_>, built: &mut Built) -> Result<(), SetupError> {
    build::remount(builder, built)
}

/// How long mounting takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovery {
    /// After a crash: the journal is replayed.
    pub after_crash_ns: u64,
    /// Of the same filesystem after that.
    pub clean_ns: u64,
}

/// Ends the filesystem that was built and that a place lies on as a crash does, unmounts it and mounts it again; none where there is none
/// that has a journal and can be ended so. What was not on stable storage is lost.
///
/// # Errors
/// [`SetupError`].
pub fn crash(
    builder: &mut Builder<'_>,
    built: &mut Built,
    place: &Path,
) -> Result<Option<Recovery>, SetupError> {
    build::crash(builder, built, place)
}

/// Takes down everything that was built, newest first, and verifies that the devices are blank again.
///
/// # Errors
/// [`SetupError::Left`] names what is still there, and why; the rest is taken down.
pub fn take_down(builder: &mut Builder<'_>, built: Built) -> Result<(), SetupError> {
    build::take_down(builder, built)
}

/// Takes back one change of a journal, whoever made it; to be called newest first. Notes in the journal when it is done.
pub fn undo(
    root: &SysRoot,
    log: &mut ChangeLog,
    step: Step,
    change: &SetupChange,
    note: &mut dyn FnMut(&str),
) -> Undo {
    let undo = undo::Undoing::new(root, log, note).take_back(change);
    let is_done = matches!(undo, Undo::Restored | Undo::AlreadyBack | Undo::Rebooted);
    match if is_done { log.undone(step) } else { Ok(()) } {
        Ok(()) => undo,
        Err(error) => Undo::Unnoted(error.to_string()),
    }
}
