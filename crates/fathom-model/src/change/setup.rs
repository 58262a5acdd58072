//! Things that were built, with what is needed to take them down again, and nothing else.

use super::FileAt;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A device that something was built on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuiltOn {
    /// The device's ID as consent names it: survives renaming and, for most devices, a boot.
    pub id: String,
    /// Its kernel name then.
    pub name: String,
}

/// One thing that was, or was about to be, built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum SetupChange {
    /// A device that was there, on which the rest is built. There is nothing to take back: in the same boot this tells it from all others,
    /// whatever the file behind it is called by then.
    Given {
        /// The device's ID as consent names it.
        device_id: String,
        /// Its number, as `MAJOR:MINOR`.
        device: String,
        /// The kernel's running number of the disk (`diskseq`): with another file a loop device has another one.
        sequence: u64,
    },
    /// A directory of fathom's own for mount points and the files of loop devices; removed when it is empty.
    Directory {
        /// Absolute path.
        path: PathBuf,
        /// Where that is; none in journals of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<FileAt>,
    },
    /// The file of a loop device; removed.
    LoopFile {
        /// Absolute path, inside a directory of fathom's own.
        path: PathBuf,
        /// Its size.
        size_bytes: u64,
        /// Where that is; none in journals of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<FileAt>,
    },
    /// A loop device over such a file; detached.
    Loop {
        /// The file.
        path: PathBuf,
        /// Its kernel name, once it is known.
        name: Option<String>,
        /// The kernel's running number of it (`diskseq`), once it is known: with another file it has another one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sequence: Option<u64>,
        /// Where the file is; none in journals of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<FileAt>,
    },
    /// A partition table on a device that was blank before; the partitions and the table are removed.
    Table {
        /// The device's ID as consent names it.
        device_id: String,
        /// Its kernel name then.
        name: String,
        /// The table's GUID, chosen before it was written.
        guid: String,
        /// The partitions' GUIDs, chosen likewise.
        partitions: Vec<String>,
    },
    /// A multipath map; removed, and what lies on the disk behind it is wiped.
    Multipath {
        /// The map's name and identifier, which tells of which run it is.
        name: String,
        /// The paths to the disk, which was blank before.
        paths: Vec<BuiltOn>,
    },
    /// A software array; stopped, and its superblocks are removed.
    Array {
        /// The device's kernel name when it was made: `md200`.
        name: String,
        /// The array's UUID, chosen before it was made, as mdadm writes it.
        uuid: String,
        /// The members and spares, blank before.
        members: Vec<BuiltOn>,
    },
    /// A mapping of dm-crypt; closed.
    Crypt {
        /// The mapping's name, which tells of which run it is.
        name: String,
        /// The device's ID as consent names it.
        device_id: String,
    },
    /// A volume group; removed.
    Group {
        /// Its name, which tells of which run it is.
        name: String,
        /// UUIDs of its physical volumes, chosen before they were made.
        uuids: Vec<String>,
    },
    /// A logical volume; removed.
    Volume {
        /// The volume group.
        group: String,
        /// Its name.
        name: String,
        /// UUIDs of the group's physical volumes.
        uuids: Vec<String>,
    },
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
    /// What the devices below held before may show on a device that is built of them, and is wiped. There is nothing to take back:
    /// this tells it from what somebody has put there since.
    OldData {
        /// The device's kernel name, or its name in the device mapper.
        name: String,
        /// Its ID as consent names it, once it is there.
        id: Option<String>,
        /// When it was about to be built, in seconds since 1970.
        since_s: i64,
        /// What was about to be wiped: blocks of 4 KiB, each with its place in bytes and its CRC-32C. None before that was looked for;
        /// empty where nothing shows or when it is wiped.
        blocks: Option<Vec<(u64, u32)>>,
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
            Self::Given { device_id, .. } => format!("device {device_id}"),
            Self::Directory { path, .. } => format!("directory {}", path.display()),
            Self::LoopFile { path, .. } => format!("file {}", path.display()),
            Self::Loop { path, .. } => format!("loop device over {}", path.display()),
            Self::Table { name, .. } => format!("partition table on {name}"),
            Self::Multipath { name, .. } => format!("multipath map {name}"),
            Self::Array { name, members, .. } => {
                let members: Vec<&str> =
                    members.iter().map(|member| member.name.as_str()).collect();
                format!("array {name} of {}", members.join(", "))
            }
            Self::Crypt { name, .. } => format!("encrypted device {name}"),
            Self::Group { name, .. } => format!("volume group {name}"),
            Self::Volume { group, name, .. } => format!("logical volume {group}/{name}"),
            Self::Signature { name, signature, .. } => format!("{signature} on {name}"),
            Self::OldData { name, .. } => format!("old data on {name}"),
            Self::Mount { mount_point, .. } => format!("mount at {}", mount_point.display()),
        }
    }
}
