//! Where a file lies on its device.

use serde::{Deserialize, Serialize};

/// How the extents were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExtentSource {
    /// The filesystem's own map: positions on the device.
    Fiemap,
    /// Only which parts hold data; the filesystem (tmpfs, NFS, ...) tells no positions.
    SeekData,
    /// Only the allocated size that stat tells.
    StatBlocks,
}

/// Where a file lies on its device, and what of it is not really there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileExtents {
    /// How the extents were found.
    pub source: ExtentSource,
    /// Size of the file.
    pub size_bytes: u64,
    /// Pieces that the filesystem keeps.
    #[serde(default)]
    pub extents: Option<u64>,
    /// Pieces after joining those that continue each other on the device.
    #[serde(default)]
    pub fragments: Option<u64>,
    /// Lowest byte on the device.
    #[serde(default)]
    pub first_byte: Option<u64>,
    /// Highest byte on the device.
    #[serde(default)]
    pub last_byte: Option<u64>,
    /// Bytes of the file below its end that have space.
    pub allocated_bytes: u64,
    /// Bytes of the file that are holes: they read as zeroes without touching the device.
    pub hole_bytes: u64,
    /// Allocated bytes that were never written: they read as zeroes without touching the device.
    pub unwritten_bytes: u64,
    /// Some extents belong to other files or snapshots too.
    #[serde(default)]
    pub shared: bool,
    /// Some data lies among the metadata.
    #[serde(default)]
    pub inline: bool,
    /// Some extents are compressed or encrypted.
    #[serde(default)]
    pub encoded: bool,
    /// True when positions are the filesystem's own addresses and not those of the device (btrfs).
    #[serde(default)]
    pub physical_is_logical: bool,
    /// Distance from the first to the last byte as a share of the device, 0 to 1; none where
    /// positions are unknown.
    #[serde(default)]
    pub share_of_device: Option<f64>,
}

impl FileExtents {
    /// True when every byte is really written on the device.
    #[must_use]
    pub fn fully_written(&self) -> bool {
        self.hole_bytes == 0 && self.unwritten_bytes == 0
    }

    /// Distance from the first to the last byte on the device.
    #[must_use]
    pub fn span_bytes(&self) -> Option<u64> {
        Some(self.last_byte?.saturating_sub(self.first_byte?) + 1)
    }
}
