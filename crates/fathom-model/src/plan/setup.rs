//! What is built before measuring, from the bottom up.

use fathom_base::order::Order;
use fathom_base::units;
use serde::{Deserialize, Serialize};

/// Layers from the bottom up; each that is there stands on the one before. All sizes are words as in the plan file (`64k`), because
/// `chunk` and `stride` are known only when the array is there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetupSpec {
    /// Block devices as given, or `loop:SIZE` for a loop device over a file of fathom's in the state directory.
    pub devices: Vec<String>,
    /// A multipath map over the devices, which are all paths to one disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multipath: Option<MultipathSpec>,
    /// Equal pieces of each device, by GPT partitions.
    pub slice: Option<SliceSpec>,
    /// A software array over them.
    pub array: Option<ArraySpec>,
    /// Encryption above.
    pub crypt: Option<CryptSpec>,
    /// A logical volume above.
    pub volume: Option<VolumeSpec>,
    /// A filesystem above.
    pub filesystem: Option<FilesystemSpec>,
}

impl SetupSpec {
    /// True when nothing is built.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// True when how much can be used is not simply the size of a device: for slices, arrays, volumes, and filesystems over several devices.
    #[must_use]
    pub fn has_capacity(&self) -> bool {
        self.slice.is_some()
            || self.array.is_some()
            || self.volume.is_some()
            || self.filesystem.as_ref().is_some_and(FilesystemSpec::takes_all_devices)
    }

    /// True when something takes all of the devices; otherwise the first alone is used.
    #[must_use]
    pub fn takes_all_devices(&self) -> bool {
        self.array.is_some()
            || self.multipath.is_some()
            || self.volume.is_some()
            || self.filesystem.as_ref().is_some_and(FilesystemSpec::takes_all_devices)
    }
}

/// What of its devices a setup lets one use: equal pieces of unlike devices leave the rest of the larger ones idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetupCapacity {
    /// Of all devices together, in bytes; of several paths to one disk, of the disk.
    pub devices_bytes: u64,
    /// What they hold in the end, in bytes: the size of what a load or a filesystem lies on, of all of these.
    pub usable_bytes: u64,
    /// What nothing uses, in bytes: because another device is smaller, because a slice leaves it out, or because it stands by as a spare.
    /// What is left between the three is redundancy, and what the layers keep for themselves.
    pub wasted_bytes: u64,
}

/// A map of several paths to one disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MultipathSpec {
    /// `multibus`: all paths in one group. `failover`: each in a group of its own, of which the first is used. Else the groups, as
    /// places in the list of devices: `0,1/2,3`.
    pub policy: String,
    /// How a path of the group is chosen: `round-robin`, `queue-length`, `service-time`, `historical-service-time`.
    pub selector: String,
    /// How many of the paths have failed, from the first on.
    pub failed: u32,
}

impl MultipathSpec {
    /// The paths of each group, as places in the list of devices; none when they do not name each of the paths once.
    #[must_use]
    pub fn groups(&self, paths: usize) -> Option<Vec<Vec<usize>>> {
        let groups: Vec<Vec<usize>> = match self.policy.as_str() {
            "multibus" => vec![(0..paths).collect()],
            "failover" => (0..paths).map(|path| vec![path]).collect(),
            own => {
                let group =
                    |text: &str| text.split(',').map(|path| path.trim().parse().ok()).collect();
                own.split('/').map(group).collect::<Option<_>>()?
            }
        };
        let mut named = groups.concat();
        named.order();
        named.iter().copied().eq(0..paths).then_some(groups)
    }
}

/// The same piece of every device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceSpec {
    /// Where it begins on each device, such as `2GiB` or `50%`.
    pub start: String,
    /// How long, such as `4GiB`; the smallest device decides when none.
    pub size: Option<String>,
}

/// A software array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArraySpec {
    /// `raid0`, `raid1`, `raid4`, `raid5`, `raid6`, `raid10`.
    pub level: String,
    /// `left-symmetric`, `n2`, `f2`, `o2` and so on; the default of the level when none.
    pub layout: Option<String>,
    /// `64k`; the default of the kernel's tool when none.
    pub chunk: Option<String>,
    /// How many of the devices are members; all but the spares when none.
    pub members: Option<u32>,
    /// Order of the members as places in the list of devices; as listed when empty.
    pub order: Vec<u32>,
    /// `none`, `internal`.
    pub bitmap: Option<String>,
    /// `1.2`, `1.1`, `1.0`, `0.90`.
    pub metadata: Option<String>,
    /// Where the data begin on each member, as `1MiB`; the choice of the kernel's tool when none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_offset: Option<String>,
    /// Devices that stand by.
    pub spares: u32,
    /// Initial synchronisation is left out, and the results say so.
    pub is_assumed_clean: bool,
    /// In which state it is measured.
    pub state: ArrayState,
}

impl ArraySpec {
    /// Where the data are to begin on each member, in bytes; none when that is left to the kernel's tool.
    ///
    /// # Errors
    /// Why no array has it: mdadm itself looks at none of this, and would lay the data over the superblock, or the bitmap over the data.
    pub fn data_offset_bytes(&self) -> Result<Option<u64>, String> {
        let Some(text) = &self.data_offset else { return Ok(None) };
        let bytes = units::parse_size(text).map_err(|error| error.to_string())?;
        let metadata = self.metadata.as_deref().unwrap_or("1.2");
        let has_bitmap = self.bitmap.as_deref() == Some("internal");
        let least = if has_bitmap { DATA_AFTER_BITMAP_BYTES } else { DATA_OFFSET_BYTES.start };
        if !matches!(metadata, "1.1" | "1.2") {
            return Err(format!(
                "metadata {metadata} lies behind the data, which begin with the member; 1.1 and 1.2 have an offset"
            ));
        }
        if !bytes.is_multiple_of(1024) || !DATA_OFFSET_BYTES.contains(&bytes) {
            return Err("must be a multiple of 1k, from 12k to 1TiB".to_owned());
        }
        if bytes < least {
            return Err(format!(
                "{text} leaves no room for a bitmap before the data; it needs {}",
                units::format_size(least)
            ));
        }
        Ok(Some(bytes))
    }
}

/// Where data can begin: behind a superblock at 4 KiB and the list of bad blocks.
const DATA_OFFSET_BYTES: std::ops::Range<u64> = 12 << 10..(1 << 40) + 1;

/// Behind the largest bitmap that mdadm makes by itself, too.
const DATA_AFTER_BITMAP_BYTES: u64 = 144 << 10;

/// The state in which an array is measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrayState {
    /// All members there, nothing running.
    #[default]
    Normal,
    /// One member failed and removed.
    Degraded,
    /// A member is being rebuilt while it is measured.
    Rebuilding,
    /// A check runs while it is measured.
    Checking,
}

/// Encryption.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CryptSpec {
    /// `luks2` or `plain`.
    pub kind: String,
    /// `aes-xts-plain64`.
    pub cipher: String,
    /// 512 or 4096.
    pub sector_size: u32,
    /// Reads and writes are not handed to work queues.
    pub no_workqueues: bool,
}

/// A logical volume over all that lies below.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeSpec {
    /// `linear` or `striped`.
    pub kind: String,
    /// Size of the pieces of a striped one.
    pub stripe_size: Option<String>,
    /// Share of the group, or a size; `100%` when none.
    pub size: Option<String>,
    /// Where the data of physical volumes begin, such as `1m` or `stride`.
    pub data_alignment: Option<String>,
}

/// A filesystem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesystemSpec {
    /// `ext4`, `xfs`, `btrfs`, `f2fs`, `ext2`, `ext3`.
    pub kind: String,
    /// Options of mkfs, word for word, after those that fathom computes.
    pub make_options: Vec<String>,
    /// Options are computed from the geometry below (stride, stripe width, su, sw).
    pub is_aligned: bool,
    /// Options of mount.
    pub mount_options: Vec<String>,
    /// `internal`, or the device of an external journal; more devices, with commas, are given to the filesystems by turns.
    pub journal: Option<String>,
    /// Tables are left to the background, as mkfs would: off, so that it cannot disturb.
    pub is_lazy: bool,
    /// Filled to this share before measuring, in percent.
    pub fill_percent: Option<u32>,
    /// Rounds of creating and deleting files before measuring.
    pub ageing_rounds: Option<u32>,
    /// How btrfs keeps data over all devices below: `single`, `dup`, `raid0`, `raid1`, `raid10`; as mkfs chooses when none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_profile: Option<String>,
    /// The same for metadata. With either of the two btrfs takes all devices below, otherwise the first alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata_profile: Option<String>,
    /// Every device below has a filesystem of its own; the first is the target, the others are `setup:2`, `setup:3` and so on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_on_each: bool,
}

impl FilesystemSpec {
    /// True when it lies on all devices below: one over all of them, or one on each.
    #[must_use]
    pub fn takes_all_devices(&self) -> bool {
        self.is_on_each || self.spans_devices()
    }

    /// True for one filesystem over all devices below.
    #[must_use]
    pub fn spans_devices(&self) -> bool {
        self.kind == "btrfs" && (self.data_profile.is_some() || self.metadata_profile.is_some())
    }

    /// Devices of external journals, as they are written.
    pub fn journals(&self) -> impl Iterator<Item = &str> {
        self.journal
            .iter()
            .flat_map(|list| list.split(','))
            .map(str::trim)
            .filter(|word| *word != "internal")
    }
}
