//! Why something cannot be built or taken down: each with the cause and the cure.

use fathom_base::order::Order;
use fathom_guard::{FileRefusal, Refusal};
use std::fmt::Write;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// What kind of trouble it is: decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The description is wrong.
    Usage,
    /// Refused for somebody's data.
    Safety,
    /// The system lacks something: a tool, a driver, space.
    Missing,
    /// A tool, a device or the kernel failed.
    Io,
    /// Somebody asked for the end.
    Stopped,
}

/// A tool that is not installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingTool {
    /// Its name.
    pub name: &'static str,
    /// The Debian package that has it.
    pub package: &'static str,
}

/// Why.
#[derive(Debug, Error)]
pub enum SetupError {
    /// The description cannot be built.
    #[error("setup: {0}")]
    Spec(String),
    /// A device must not be used.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Tools are missing.
    #[error("{}", missing(.0))]
    ToolsMissing(Vec<MissingTool>),
    /// The kernel lacks something.
    #[error("{0}")]
    NotSupported(String),
    /// A file or directory cannot be made, or the journal cannot be written.
    #[error(transparent)]
    Place(#[from] FileRefusal),
    /// A tool failed.
    #[error("{command}\nfailed: {said}{cause}")]
    Tool {
        /// The command line.
        command: String,
        /// What it said, or how it ended.
        said: String,
        /// `\nlikely cause: ...` with the cure, or nothing.
        cause: String,
    },
    /// What was built is not what was asked for.
    #[error("{0}")]
    NotAsAsked(String),
    /// A device is away, or does not answer.
    #[error("{0}")]
    Device(String),
    /// Somebody asked for the end.
    #[error("stopped while {0}")]
    Stopped(String),
    /// Something could not be taken down.
    #[error("left behind: {}\nonce the cause is gone: fathom restore", .0.join("\nleft behind: "))]
    Left(Vec<String>),
    /// Building failed, and something of what it had made could not be taken down.
    #[error("{error}\n{left}")]
    AndLeft {
        /// Why building failed.
        error: Box<SetupError>,
        /// What is left.
        left: Box<SetupError>,
    },
}

impl SetupError {
    /// What kind of trouble it is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Spec(_) => ErrorKind::Usage,
            Self::Refused(refusal) if refusal.is_usage() => ErrorKind::Usage,
            Self::Refused(_) => ErrorKind::Safety,
            Self::Place(refusal) if refusal.is_safety() => ErrorKind::Safety,
            Self::Place(refusal) if refusal.is_out_of_room() => ErrorKind::Missing,
            Self::ToolsMissing(_) | Self::NotSupported(_) => ErrorKind::Missing,
            Self::Stopped(_) => ErrorKind::Stopped,
            Self::AndLeft { error, .. } => error.kind(),
            Self::Place(_)
            | Self::Tool { .. }
            | Self::NotAsAsked(_)
            | Self::Device(_)
            | Self::Left(_) => ErrorKind::Io,
        }
    }
}

/// An error of the system with what was tried.
pub(crate) fn io_at(
    doing: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(io::Error) -> SetupError {
    let path = path.into();
    move |source| SetupError::Place(FileRefusal::Io { doing, path, source })
}

fn missing(tools: &[MissingTool]) -> String {
    let names: Vec<&str> = tools.iter().map(|tool| tool.name).collect();
    let mut packages: Vec<&str> = tools.iter().map(|tool| tool.package).collect();
    packages.order();
    packages.dedup();
    let mut text = format!("{} missing", names.join(", "));
    text += if names.len() == 1 { " is" } else { " are" };
    let _ = write!(text, "; on Debian: apt install {}", packages.join(" "));
    text.replace(" missing is;", " is missing;").replace(" missing are;", " are missing;")
}
