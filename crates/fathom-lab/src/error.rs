//! Why a laboratory command did not do what was asked, in the classes that exit codes are made of.

use fathom_base::units::format_size;
use fathom_guard::{FileRefusal, Refusal};
use fathom_inspect::InspectError;
use fathom_load::plan::PlanError;
use fathom_load::run::LoadError;
use fathom_model::builtin::WorkloadError;
use fathom_model::keys::KeyError;
use fathom_sys::process;
use fathom_sys::threads;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Classes of errors; the binary gives each its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// What was asked makes no sense or cannot be.
    Usage,
    /// It could destroy or disturb somebody's data.
    Refused,
    /// The system lacks something that is needed.
    Missing,
    /// The store of results, or what is noted beside it, cannot be read.
    Store,
    /// The target failed.
    TargetIo,
    /// The run was interrupted before anything was measured.
    Interrupted,
}

/// An error of a laboratory command.
#[derive(Debug, Error)]
pub enum LabError {
    /// A workload, key or value.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A key or a contradiction.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A job that does not fit its target.
    #[error("job '{job}' on {target}: {source}")]
    Plan {
        /// The job.
        job: String,
        /// The target.
        target: String,
        /// What does not fit.
        source: PlanError,
    },
    /// Any other request that cannot be.
    #[error("{0}")]
    Usage(String),
    /// A device that must not be written.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A file that must not be written, or a place where none may be made.
    #[error(transparent)]
    FileRefused(#[from] FileRefusal),
    /// Buffers would take too much memory.
    #[error(
        "buffers need {}: {sum}; that is more than a quarter of {memory} ({}); use a smaller block_size, depth or threads",
        format_size(*needed_bytes), format_size(*free_bytes)
    )]
    Buffers {
        /// What they would take.
        needed_bytes: u64,
        /// What is free, or what the control group still allows.
        free_bytes: u64,
        /// Which of the two, in words.
        memory: &'static str,
        /// How the sum comes about.
        sum: String,
    },
    /// The target cannot be opened or is no target.
    #[error("{}: {reason}", path.display())]
    Target {
        /// The target.
        path: PathBuf,
        /// Why not, and the cure.
        reason: String,
        /// Which class it belongs to.
        class: ErrorClass,
    },
    /// A setting or a setup of an experiment.
    #[error("{reason}")]
    Cell {
        /// Why not, and the cure.
        reason: String,
        /// Which class it belongs to.
        class: ErrorClass,
    },
    /// The stack under a target cannot be told.
    #[error(transparent)]
    Inspect(#[from] InspectError),
    /// The load engine could not start.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A system call on the target failed outside the measured time.
    #[error("{}: {what}: {source}{}", path.display(), damage(source))]
    TargetIo {
        /// The target.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// Laying out the test file failed.
    #[error("writing the test file {}: {message}", path.display())]
    Layout {
        /// The file.
        path: PathBuf,
        /// What happened.
        message: String,
        /// Whether the target failed, or the system lacks what the engine needs.
        class: ErrorClass,
    },
    /// A signal came before there was anything to keep.
    #[error("interrupted before anything was measured; everything has been put back")]
    Interrupted,
}

impl LabError {
    /// The class that decides the exit code.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Workload(_)
            | Self::Key(_)
            | Self::Plan { .. }
            | Self::Usage(_)
            | Self::Buffers { .. } => ErrorClass::Usage,
            Self::Inspect(_) => ErrorClass::Usage,
            Self::Refused(refusal) if refusal.is_usage() => ErrorClass::Usage,
            Self::FileRefused(FileRefusal::Io { source, .. }) | Self::TargetIo { source, .. }
                if is_denied(source) =>
            {
                ErrorClass::Usage
            }
            Self::FileRefused(refusal)
                if refusal.is_out_of_descriptors() || refusal.is_out_of_room() =>
            {
                ErrorClass::Missing
            }
            Self::TargetIo { source, .. } if threads::descriptors_cure(source).is_some() => {
                ErrorClass::Missing
            }
            Self::FileRefused(FileRefusal::Io { .. }) => ErrorClass::TargetIo,
            Self::FileRefused(refusal) if !refusal.is_safety() => ErrorClass::Usage,
            Self::Refused(_) | Self::FileRefused(_) => ErrorClass::Refused,
            Self::Target { class, .. } | Self::Cell { class, .. } | Self::Layout { class, .. } => {
                *class
            }
            Self::Load(_) => ErrorClass::Missing,
            Self::TargetIo { .. } => ErrorClass::TargetIo,
            Self::Interrupted => ErrorClass::Interrupted,
        }
    }
}

/// What some errors say of the filesystem or the device, and where the kernel tells more, of a limit, or of who may; nothing of others.
fn damage(error: &io::Error) -> &'static str {
    const EUCLEAN: i32 = 117;
    const EBADMSG: i32 = 74;
    const EIO: i32 = 5;
    match error.raw_os_error() {
        Some(EBADMSG | EUCLEAN) => {
            ": the filesystem is damaged (dmesg tells more; fsck on the unmounted device)"
        }
        Some(EIO) => ": the device failed (dmesg tells which)",
        _ if error.kind() == io::ErrorKind::PermissionDenied && process::is_root() => {
            ", although this is root: a container, a security module or the filesystem forbids it"
        }
        _ if error.kind() == io::ErrorKind::PermissionDenied => "; run as its owner or as root",
        _ => threads::descriptors_cure(error).unwrap_or_default(),
    }
}

/// The target works; this user may not, or nobody may write.
fn is_denied(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}
