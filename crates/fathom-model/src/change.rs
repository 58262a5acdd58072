//! Changes to the machine that must be taken back: what the journal of changes holds.
//!
//! Every change is described before it is made, completely enough that a later process, which knows nothing else, can take it
//! back, and can tell whether somebody else has changed the same thing since.

pub mod knob;
pub mod machine;
pub mod setup;

use knob::KnobChange;
use machine::MachineChange;
use serde::{Deserialize, Serialize};
use setup::SetupChange;
use std::path::PathBuf;

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "what")]
#[expect(clippy::large_enum_variant, reason = "a journal has few of them")]
pub enum Change {
    /// Settings of the kernel, a device or a mount.
    Knobs(KnobChange),
    /// Something that was built: a loop device, an array, a filesystem, a mount, and so on.
    Setup(SetupChange),
    /// Something about the machine as a whole: swap, a service, a program that runs beside.
    Machine(MachineChange),
}

/// Where a file, a directory or a device is, in words that hold in every mount namespace of one boot: a path may mean something else in
/// another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileAt {
    /// `st_dev` as `MAJOR:MINOR`; of a device file the number of the device itself.
    pub device: String,
    /// Its inode number; none before it was made, and of a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inode: Option<u64>,
    /// When it was made, in nanoseconds since 1970, where the filesystem knows: the number of an inode is given again to what comes later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub born_ns: Option<i64>,
    /// Its path from the root of its filesystem; none of a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside: Option<PathBuf>,
}

impl Change {
    /// A few words for people: what was changed, on what.
    #[must_use]
    pub fn summary(&self) -> String {
        match self {
            Self::Knobs(change) => change.summary(),
            Self::Setup(change) => change.summary(),
            Self::Machine(change) => change.summary(),
        }
    }
}
