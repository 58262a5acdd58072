//! Things that were built, with what is needed to take them down again, and nothing else.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// One thing that was, or was about to be, built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum SetupChange {
    /// A filesystem or another signature was written onto a device that was blank before; it is wiped again.
    Signature {
        /// The device's ID as consent names it.
        device_id: String,
        /// Its kernel name then.
        name: String,
        /// What was written: `ext4`, `lvm2 physical volume`, `md member`.
        signature: String,
        /// The UUID that tells ours from somebody else's, chosen before it was written.
        uuid: String,
    },
    /// A filesystem was mounted.
    Mount {
        /// Where: a directory of fathom's own.
        mount_point: PathBuf,
        /// The device's ID.
        device_id: String,
    },
}

impl SetupChange {
    /// A few words for people.
    #[must_use]
    pub fn summary(&self) -> String {
        match self {
            Self::Signature { name, signature, .. } => format!("{signature} on {name}"),
            Self::Mount { mount_point, .. } => format!("mount at {}", mount_point.display()),
        }
    }
}
