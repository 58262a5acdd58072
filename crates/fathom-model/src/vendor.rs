//! Hardware RAID controllers as the tools of their makers describe them.

use serde::{Deserialize, Serialize};

/// A controller. What its tool does not say is none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Controller {
    /// The tool that was asked: `storcli`, `perccli`, `ssacli`, `arcconf`.
    pub tool: String,
    /// Number of the controller for that tool.
    pub number: u64,
    /// Model.
    pub model: Option<String>,
    /// Firmware.
    pub firmware: Option<String>,
    /// PCI address.
    pub pci_address: Option<String>,
    /// State of the battery or capacitor behind the write cache, such as `Optimal`.
    pub battery: Option<String>,
    /// What it is busy with besides: `patrol read 12 %`, `consistency check`, `rebuild`.
    pub housekeeping: Vec<String>,
    /// Its virtual drives.
    pub drives: Vec<VirtualDrive>,
    /// Its physical drives.
    pub members: Vec<PhysicalDrive>,
}

/// What a controller shows to the system as one disk.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VirtualDrive {
    /// Name or number.
    pub name: String,
    /// `RAID0`, `RAID5`, ...
    pub level: Option<String>,
    /// `Optimal`, `Degraded`, ...
    pub state: Option<String>,
    /// Size.
    pub size_bytes: Option<u64>,
    /// What lies on one member before the next one follows: chunk in the words of md.
    pub strip_bytes: Option<u64>,
    /// One strip on each data drive: full stripe in the words of md; none for a mirror of two.
    pub stripe_bytes: Option<u64>,
    /// Write policy in the words of the tool: `WB`, `WT`, `AWB`.
    pub write_policy: Option<String>,
    /// Read policy in the words of the tool: `RA`, `NORA`.
    pub read_policy: Option<String>,
    /// Cache of the physical drives: `Enabled`, `Disabled`, `Default`.
    pub drive_cache: Option<String>,
    /// Kernel name of the disk, where the tool tells it.
    pub kernel_name: Option<String>,
    /// World-wide name or serial that the kernel sees too.
    pub wwn: Option<String>,
}

/// A physical drive behind a controller.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PhysicalDrive {
    /// Enclosure and slot in the words of the tool.
    pub place: String,
    /// `Onln`, `Failed`, `Rbld`, ...
    pub state: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// Firmware.
    pub firmware: Option<String>,
    /// Size.
    pub size_bytes: Option<u64>,
    /// Errors that a medium causes.
    pub media_errors: Option<u64>,
    /// Other errors.
    pub other_errors: Option<u64>,
    /// True when the drive foresees its failure.
    pub predicts_failure: Option<bool>,
    /// Temperature.
    pub celsius: Option<i64>,
}
