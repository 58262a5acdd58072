//! Settings that were changed, with what they were before.

use super::FileAt;
use crate::plan::OwnKnob;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Settings of one place (a device, a mount, the machine), as they were before the first of them was written. All values that
/// depend on each other are noted together, because writing one changes others: a new scheduler resets the queue size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnobChange {
    /// Where.
    pub place: KnobPlace,
    /// What was there before, in the order in which it must be written back.
    pub before: Vec<KnobValue>,
    /// What fathom left there, read back after the last write; empty until it has written. A value that is neither this nor
    /// the one before was set by somebody else since.
    pub left: Vec<KnobValue>,
    /// What was to be written, where nothing else writes it: noted before anything is. A value that is neither this nor the one
    /// before was set by somebody else, also when nobody knows what fathom had left.
    #[serde(default)]
    pub asked: Vec<KnobValue>,
    /// The boot in which they were changed: the next one begins with the kernel's own values.
    #[serde(default)]
    pub boot_id: String,
    /// How to read and write a setting of the user's own; none for those of the registry.
    #[serde(default)]
    pub own: Option<OwnKnob>,
    /// By what it is found again in the same boot; nothing in journals of older versions.
    #[serde(default)]
    pub at: KnobAt,
}

/// What tells a place from all others in one boot, whatever becomes of its names and paths.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnobAt {
    /// The number of the device, for a mount that of its first one, as `MAJOR:MINOR`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The kernel's running number of the disk, which a device that comes later does not get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// The number of the mount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_id: Option<u32>,
    /// The number of the mount that no later one gets, where the kernel tells it (Linux 6.8).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_sequence: Option<u64>,
    /// The directory in which the user's own commands were run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// What that directory is: another may have its name later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory_at: Option<FileAt>,
    /// Variables of the environment that they use (`PATH`, `HOME`, those that they name); none for one that was not set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, Option<String>>,
}

impl KnobChange {
    /// A few words for people.
    #[must_use]
    pub fn summary(&self) -> String {
        let ids: Vec<&str> = self.before.iter().map(|value| value.knob.as_str()).collect();
        format!("{} of {}", ids.join(", "), self.place.name())
    }
}

/// One setting with a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnobValue {
    /// Identifier of the knob, such as `block.scheduler`.
    pub knob: String,
    /// The value, as it is written to restore it.
    pub value: String,
    /// The file below `/`, for knobs that are files.
    pub file: Option<PathBuf>,
}

/// What has a setting.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum KnobPlace {
    /// The machine as a whole.
    Machine,
    /// A block device.
    Device {
        /// The device's ID as consent names it: survives renaming.
        id: String,
        /// Its kernel name when it was changed.
        name: String,
    },
    /// A mounted filesystem.
    Mount {
        /// Where.
        mount_point: PathBuf,
        /// The ID of the device below; without one the number of the mount and its source.
        device_id: String,
    },
    /// A setting of the user's own, by its name.
    Own {
        /// Its name in the plan.
        name: String,
    },
}

impl KnobPlace {
    /// For people.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Machine => "the machine".to_owned(),
            Self::Device { name, .. } => name.clone(),
            Self::Mount { mount_point, .. } => mount_point.display().to_string(),
            Self::Own { name } => name.clone(),
        }
    }
}
