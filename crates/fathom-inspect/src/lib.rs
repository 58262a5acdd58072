//! The storage stack as a graph, and facts about the machine.
//!
//! Facts are read under an injectable root and without asking for anything that needs more than the
//! caller's rights: what cannot be read is none. What follows from them is said by fathom-check.

pub mod content;
mod detail;
pub mod drive;
pub mod extents;
pub mod filesystem;
mod graph;
pub mod host;
pub mod identity;
pub mod layers;
pub mod links;
pub mod machine;
mod parallel;
pub mod paths;
pub mod stack;
pub mod system;
pub mod udev;
pub mod vendor;

pub use extents::extents;
pub use host::host_facts;
pub use machine::{Scan, scan, scan_untouched};
pub use stack::resolve;
pub use system::{Moment, system_facts};

use fathom_check::Surroundings;
use fathom_model::stack::Stack;
use fathom_sys::devno::DevNo;
use fathom_sys::hostinfo;
use fathom_sys::sysroot::SysRoot;
use std::path::Path;
use thiserror::Error;

/// What the rules about a measurement know beside the stack; `store` is the stack of the directory that results go to,
/// `now_unix_s` the time.
#[must_use]
pub fn surroundings(root: &SysRoot, store: Option<Stack>, now_unix_s: i64) -> Surroundings {
    let ext4_lazy_init_thread = hostinfo::any_process_named(root, |name| name == "ext4lazyinit");
    Surroundings { ext4_lazy_init_thread, store, now_unix_s }
}

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
