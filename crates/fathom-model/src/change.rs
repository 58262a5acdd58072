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

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "what")]
pub enum Change {
    /// Settings of the kernel, a device or a mount.
    Knobs(KnobChange),
    /// Something that was built: a loop device, an array, a filesystem, a mount, and so on.
    Setup(SetupChange),
    /// Something about the machine as a whole: swap, a service, a program that runs beside.
    Machine(MachineChange),
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
