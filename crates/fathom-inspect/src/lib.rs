//! The storage stack as a graph, host facts, and rules that judge them.
//!
//! Facts are read under an injectable root and without asking for anything that needs more than the
//! caller's rights: what cannot be read is none. Rules are pure: facts in, findings out.

pub mod describe;
pub mod drive;
pub mod extents;
pub mod filesystem;
pub mod host;
pub mod identity;
pub mod layers;
pub mod paths;
pub mod rules;
pub mod stack;
pub mod tree;
pub mod udev;

pub use describe::one_line;
pub use extents::extents;
pub use host::host_facts;
pub use rules::{Surroundings, cache_bytes_assumed, judge};
pub use stack::resolve;
pub use tree::tree;

use fathom_sys::devno::DevNo;
use std::path::Path;
use thiserror::Error;

/// Why a path is no target that could be inspected.
#[derive(Debug, Error)]
pub enum InspectError {
    /// Nothing of this name under `/dev`.
    #[error("{0}: there is no such device; `lsblk` lists those that there are")]
    NoDevice(String),
    /// Neither the path nor the directory that it would be made in exists.
    #[error("{0}: the directory that it would be made in does not exist; make it first")]
    NoParent(String),
    /// Neither file, directory nor block device.
    #[error("{0} is {1}; give a file, a directory or a block device")]
    NotStorage(String, &'static str),
    /// A device node whose number the kernel does not know.
    #[error("{0}: no block device has its number {1}; the node is stale or /sys is not mounted")]
    NotInSysfs(String, DevNo),
    /// No mount holds the path.
    #[error("{0}: no mount holds it; /proc is not mounted or hides it")]
    NoMount(String),
    /// Symbolic links that lead in a circle.
    #[error("{0}: too many symbolic links, probably a circle")]
    LinkLoop(String),
    /// The path cannot be reached.
    #[error("{path}: {source}")]
    Io {
        /// The path.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
}

impl InspectError {
    pub(crate) fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io { path: path.display().to_string(), source }
    }
}
