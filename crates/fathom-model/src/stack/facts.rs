//! What is known about the single layers of a stack.
//!
//! Sizes are bytes unless the name says otherwise. A field is none when the kernel does not tell it
//! or the caller may not read it: that is no error anywhere.

use serde::{Deserialize, Serialize};

/// The request queue of a block device (`/sys/block/X/queue`, `/sys/block/X/mq`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueFacts {
    /// Smallest addressable unit.
    pub logical_block_bytes: Option<u64>,
    /// Smallest unit that the device writes without reading it first.
    pub physical_block_bytes: Option<u64>,
    /// Preferred smallest I/O: a chunk, on an array.
    pub minimum_io_bytes: Option<u64>,
    /// Preferred large I/O: a full stripe, on an array.
    pub optimal_io_bytes: Option<u64>,
    /// Largest request in KiB.
    pub max_sectors_kib: Option<u64>,
    /// Largest request that the hardware takes, in KiB.
    pub max_hw_sectors_kib: Option<u64>,
    /// Requests queued per hardware queue.
    pub requests: Option<u64>,
    /// Active I/O scheduler.
    pub scheduler: Option<String>,
    /// Schedulers that could be chosen.
    pub schedulers: Vec<String>,
    /// Read-ahead of buffered reads, in KiB.
    pub read_ahead_kib: Option<u64>,
    /// Whether the device says that it rotates.
    pub rotational: Option<bool>,
    /// What the kernel believes of the cache: `write back` or `write through`.
    pub write_cache: Option<String>,
    /// True when single writes can be forced through the cache.
    pub fua: Option<bool>,
    /// Unit of discards; 0 when there are none.
    pub discard_granularity_bytes: Option<u64>,
    /// Largest discard that is sent; 0 when they are off.
    pub discard_max_bytes: Option<u64>,
    /// True when files can be mapped without page cache.
    pub dax: Option<bool>,
    /// Zone model: `none`, `host-aware`, `host-managed`.
    pub zoned: Option<String>,
    /// True when completions can be polled for.
    pub io_poll: Option<bool>,
    /// Target latency of the writeback throttle in microseconds; 0 when it is off.
    pub wbt_lat_us: Option<i64>,
    /// How much merging is switched off: 0 nothing, 1 the costly searches, 2 all.
    pub nomerges: Option<u64>,
    /// Completion on the submitting CPU: 0 no, 1 its group, 2 exactly.
    pub rq_affinity: Option<u64>,
    /// True when the kernel counts I/O of this device.
    pub iostats: Option<bool>,
    /// NUMA node of the device; -1 when it has none.
    pub numa_node: Option<i64>,
    /// Hardware queues.
    pub hardware_queues: Option<u64>,
    /// Tags of one hardware queue.
    pub tags: Option<u64>,
}

/// A drive as it names itself, and the link to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DriveFacts {
    /// Vendor; `ATA` for SATA drives.
    pub vendor: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// Firmware revision.
    pub firmware: Option<String>,
    /// World-wide name.
    pub wwn: Option<String>,
    /// `sata`, `sas`, `usb`, `fc`, `iscsi`, `scsi`, `nvme`, `virtio`, `mmc`, `xen`, `pmem`.
    pub transport: Option<String>,
    /// Driver and bus address of the controller.
    pub controller: Option<String>,
    /// Speed of the link now, with unit.
    pub link_speed: Option<String>,
    /// Highest speed that both ends could do, with unit.
    pub link_speed_max: Option<String>,
    /// PCIe lanes now.
    pub link_width: Option<u64>,
    /// PCIe lanes at most.
    pub link_width_max: Option<u64>,
    /// Commands that the drive takes at once.
    pub queue_depth: Option<u64>,
    /// What the drive says of its own cache (`write back`, `write through`).
    pub cache_type: Option<String>,
    /// State of the device or path (`running`, `live`, `offline`; `optimized` of an NVMe path).
    pub state: Option<String>,
    /// Path policy of an NVMe subsystem.
    pub io_policy: Option<String>,
}

/// A partition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PartitionFacts {
    /// Number in the table.
    pub number: Option<u64>,
    /// First byte on the disk.
    pub start_bytes: Option<u64>,
    /// UUID in the table.
    pub uuid: Option<String>,
}

/// A Linux software array (`/sys/block/mdN/md`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MdFacts {
    /// `raid0`, `raid1`, `raid10`, ...
    pub level: Option<String>,
    /// Layout number as the kernel has it.
    pub layout: Option<u64>,
    /// Layout in words (`near=2`, `far=2`, `left-symmetric`).
    pub layout_words: Option<String>,
    /// Chunk; none or 0 where the level has none.
    pub chunk_bytes: Option<u64>,
    /// Members that a whole array has.
    pub raid_disks: Option<u64>,
    /// Members that are missing.
    pub degraded: Option<u64>,
    /// `clean`, `active`, `readonly`, ...
    pub array_state: Option<String>,
    /// `idle`, `resync`, `recover`, `check`, `repair`, `reshape`.
    pub sync_action: Option<String>,
    /// Done share of the running action, 0 to 1.
    pub sync_completed_share: Option<f64>,
    /// Speed of the running action, bytes per second.
    pub sync_speed_bytes_per_s: Option<u64>,
    /// Format of the superblock, such as `1.2`.
    pub metadata_version: Option<String>,
    /// Sectors that the last check found to differ.
    pub mismatch_count: Option<u64>,
    /// Where the write-intent bitmap is (`+8`, `none`, `file`).
    pub bitmap_location: Option<String>,
    /// Bytes that one bit of the bitmap stands for.
    pub bitmap_chunk_bytes: Option<u64>,
    /// How writes are kept consistent: `resync`, `bitmap`, `journal`, `ppl`.
    pub consistency_policy: Option<String>,
    /// Stripes in the cache of raid4/5/6.
    pub stripe_cache_stripes: Option<u64>,
    /// Threads for raid4/5/6 beside the first.
    pub group_threads: Option<u64>,
    /// UUID of the array.
    pub uuid: Option<String>,
    /// Members, by name.
    pub members: Vec<MdMember>,
}

/// A member of an array (`/sys/block/mdN/md/dev-X`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MdMember {
    /// Kernel name of the device.
    pub name: String,
    /// `in_sync`, `spare`, `faulty`, `write_mostly`, ...
    pub state: Option<String>,
    /// Role in the array, or `none`.
    pub slot: Option<String>,
    /// First data byte on the member.
    pub offset_bytes: Option<u64>,
    /// Corrected read errors.
    pub errors: Option<u64>,
}

/// A device-mapper device. Tables never hold keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DmFacts {
    /// Name under `/dev/mapper`.
    pub name: Option<String>,
    /// UUID; its prefix says who made it (`LVM-`, `CRYPT-`, `mpath-`).
    pub uuid: Option<String>,
    /// Target types in the order of the table, each once.
    pub targets: Vec<String>,
    /// Table lines: start and length in 512-byte sectors, type, parameters; keys replaced by `-`.
    pub table: Vec<String>,
    /// Status lines in the same form.
    pub status: Vec<String>,
    /// True while I/O is held back.
    pub suspended: Option<bool>,
}

/// A loop device (`/sys/block/loopN/loop`) and its backing file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoopFacts {
    /// Path of the backing file; ends in ` (deleted)` when its name is gone.
    pub backing_file: Option<String>,
    /// First byte in the backing file.
    pub offset_bytes: Option<u64>,
    /// Bytes used of the backing file; 0 is all of it.
    pub size_limit_bytes: Option<u64>,
    /// True when the backing file is read and written with direct I/O.
    pub direct_io: Option<bool>,
    /// True when the device goes away with its last user.
    pub autoclear: Option<bool>,
    /// Size of the backing file.
    pub backing_size_bytes: Option<u64>,
    /// Space that the backing file really takes; less than its size means holes.
    pub backing_allocated_bytes: Option<u64>,
}

/// A compressed memory device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ZramFacts {
    /// Compression in use.
    pub algorithm: Option<String>,
    /// Device that incompressible pages go to.
    pub backing_device: Option<String>,
    /// Bytes of it that were written and not given back; the kernel answers for the others by itself.
    pub stored_bytes: Option<u64>,
}

/// A mount, from mountinfo.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MountFacts {
    /// Where it is mounted.
    pub mount_point: String,
    /// The part of the filesystem that is visible here.
    pub root: String,
    /// Type of the filesystem.
    pub fs_type: String,
    /// The source that was given: a device, `host:/export`, a word.
    pub source: String,
    /// Options of the mount.
    pub options: Vec<String>,
    /// Options of the filesystem as mountinfo shows them; often not all that are in force.
    pub super_options: Vec<String>,
    /// Options in force where the filesystem tells (`/proc/fs/ext4/X/options`).
    pub effective_options: Vec<String>,
}

impl MountFacts {
    /// True when the option is among those of the mount, the filesystem or those in force.
    #[must_use]
    pub fn has_option(&self, option: &str) -> bool {
        self.all_options().any(|o| o == option)
    }

    /// The value of `key=value` among all options; those in force come first.
    #[must_use]
    pub fn option_value(&self, key: &str) -> Option<&str> {
        self.all_options().find_map(|option| option.strip_prefix(key)?.strip_prefix('='))
    }

    fn all_options(&self) -> impl Iterator<Item = &String> {
        self.effective_options.iter().chain(&self.options).chain(&self.super_options)
    }
}

/// A filesystem.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FsFacts {
    /// Type, such as `ext4`.
    pub fs_type: String,
    /// Block size.
    pub block_bytes: Option<u64>,
    /// Size as statfs says.
    pub total_bytes: Option<u64>,
    /// Free, with what is reserved for root.
    pub free_bytes: Option<u64>,
    /// Free for everybody.
    pub available_bytes: Option<u64>,
    /// Inodes; 0 where they are made as needed.
    pub inodes: Option<u64>,
    /// Free inodes.
    pub inodes_free: Option<u64>,
    /// UUID.
    pub uuid: Option<String>,
    /// Label.
    pub label: Option<String>,
    /// Stripe unit that the filesystem was made for (ext4 stride, XFS sunit); 0 none.
    pub stripe_unit_bytes: Option<u64>,
    /// Full stripe that the filesystem was made for (ext4 stripe_width, XFS swidth); 0 none.
    pub stripe_width_bytes: Option<u64>,
    /// Sector size of the filesystem (XFS, btrfs).
    pub sector_bytes: Option<u64>,
    /// Allocation groups (XFS) or block groups (ext4).
    pub groups: Option<u64>,
    /// ext4: block groups whose inode tables are still to be zeroed in the background.
    pub groups_uninitialised: Option<u64>,
    /// Seconds since 1970 when it was made: from the superblock (ext4), or the birth of its top
    /// directory.
    pub made_at_unix_s: Option<i64>,
    /// False when there is no journal (ext4).
    pub journal: Option<bool>,
    /// Where the log lies: true when inside the filesystem (XFS), false on another device (XFS, ext).
    pub internal_log: Option<bool>,
    /// Kernel name of the device that the journal or log lies on, where that is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal_device: Option<String>,
    /// Size of the journal (ext) or log (XFS) inside the filesystem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal_bytes: Option<u64>,
    /// Errors that the filesystem has counted.
    pub errors_count: Option<u64>,
    /// btrfs: profiles that hold data (`single`, `raid1`, ...).
    pub data_profiles: Vec<String>,
    /// btrfs: profiles that hold metadata.
    pub metadata_profiles: Vec<String>,
    /// btrfs: kernel names of its devices.
    pub devices: Vec<String>,
    /// True when the target itself is exempt from copy-on-write (`chattr +C`).
    pub target_nocow: Option<bool>,
    /// True when the target itself goes through the journal (`chattr +j`).
    pub target_data_journal: Option<bool>,
    /// True when the target itself is compressed (`chattr +c`).
    pub target_compressed: Option<bool>,
}
