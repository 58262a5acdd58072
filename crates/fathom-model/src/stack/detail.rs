//! What is known about a layer beyond what goes with every record: read by `fathom check` only.

use serde::{Deserialize, Serialize};

/// Facts that only a look at the whole machine collects.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Detail {
    /// Why nothing was read from the device itself: `suspended`, `standby`, `remote`.
    pub untouched: Option<String>,
    /// Further attributes of the queue, by the name of their file: `max_segments`, `write_zeroes_max_bytes`, ...
    pub queue: Vec<(String, String)>,
    /// Parameters of the scheduler (`queue/iosched/*`).
    pub scheduler: Vec<(String, String)>,
    /// CPUs of each hardware queue, as lists.
    pub queue_cpus: Vec<String>,
    /// Reads and writes in flight at that moment.
    pub in_flight: Option<(u64, u64)>,
    /// Counters since boot (`stat`): operations, bytes and milliseconds.
    pub counters: Option<DiskCounters>,
    /// Whether anybody has it open, as a virtual machine does, or a filesystem's driver has it without a mount (`umount --lazy`), where
    /// nothing else of the kernel's layers stands on it; none where
    /// that was not asked or not all could be seen.
    pub opened: Option<bool>,
    /// Names under `/dev/disk/by-*`, without the prefix: `by-id/wwn-...`.
    pub links: Vec<String>,
    /// Partition table on the device.
    pub table: Option<PartitionTable>,
    /// What superblocks on the device say of what it belongs to or holds.
    pub content: Option<Content>,
    /// What the drive says of its health.
    pub health: Option<Health>,
    /// What the drive itself says of its abilities, where the kernel may see it differently.
    pub identity: Option<DriveIdentity>,
    /// Name of the adapter among [`crate::system::SystemFacts::hosts`].
    pub host: Option<String>,
    /// SCSI: adapter, channel, target and unit, such as `2:0:5:0`: the kernel's log names drives by it.
    pub address: Option<String>,
    /// Enclosure or USB path: speed of the USB link in Mbit/s.
    pub usb_mbit_per_s: Option<u64>,
    /// SATA: speed now and its limit, such as `6.0 Gbps`.
    pub sata_speed: Option<(String, String)>,
    /// SAS: negotiated and highest rate of each phy, such as `12.0 Gbit`.
    pub sas_rates: Vec<(String, String)>,
    /// Times out after.
    pub timeout_s: Option<u64>,
    /// Access state of the path (ALUA): `active/optimized`, ...
    pub access_state: Option<String>,
    /// md: everything else below `md/`, by name, such as `sync_speed_max` with value `200000 (system)`.
    pub md: Vec<(String, String)>,
    /// md: bad blocks of each member: `(member, ranges)`.
    pub bad_blocks: Vec<(String, u64)>,
    /// bcache: mode, state, dirty data and what else `bcache/` says.
    pub bcache: Vec<(String, String)>,
    /// Filesystem: attributes of `/sys/fs/TYPE/...`, by name.
    pub filesystem: Vec<(String, String)>,
    /// Filesystem: free space in pieces: `(largest free piece in bytes, share of free space in pieces of 1 MiB and more)`.
    pub free_pieces: Option<(u64, f64)>,
    /// ext4 with too many block groups for that: of the groups with free space that the allocator knows, those whose largest
    /// free piece has 1 MiB and more, and all.
    pub free_groups: Option<(u64, u64)>,
    /// btrfs: bytes that belong to no chunk yet.
    pub unallocated_bytes: Option<u64>,
    /// Read-ahead of the filesystem's own backing device (`/sys/class/bdi`), in KiB.
    pub bdi_read_ahead_kib: Option<u64>,
    /// Loop: where the backing file lies on the device of its filesystem.
    pub backing: Option<BackingPlace>,
    /// Loop: the backing file, whatever its name: its filesystem's device number and its inode, `254:0 1234`.
    pub backing_inode: Option<String>,
    /// Mount namespaces other than fathom's own that see it, by the first process there: `pid name`.
    pub other_namespaces: Vec<String>,
}

/// Where a file lies on the device of its filesystem, as far as multiples are concerned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BackingPlace {
    /// By how many bytes addresses on the device are larger than those in the file, at its first piece.
    pub shift_bytes: i64,
    /// The shifts of all other pieces differ from that by multiples of this; 0 when it is the same everywhere.
    pub step_bytes: u64,
    /// Pieces of different shift that follow each other.
    pub pieces: u64,
    /// False when parts have no place yet (holes), or there are more pieces than were looked at.
    pub is_whole: bool,
    /// Bytes of what was looked at that have a place and were never written: reads get zeros without asking the device.
    pub unwritten_bytes: u64,
}

/// Counters of a device since boot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskCounters {
    /// Reads ended.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Time of all reads together.
    pub read_ms: u64,
    /// Writes ended.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time of all writes together.
    pub write_ms: u64,
    /// Flushes ended.
    pub flushes: u64,
    /// Time of all flushes together.
    pub flush_ms: u64,
    /// Discards ended.
    pub discards: u64,
}

/// A partition table as it stands on the disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PartitionTable {
    /// `gpt` or `dos`.
    pub kind: String,
    /// Sectors of how many bytes its numbers count.
    pub sector_bytes: u64,
    /// First and last sector that GPT allows for partitions.
    pub usable_sectors: Option<(u64, u64)>,
    /// Where GPT's second copy lies; the last sector of the disk where all is well.
    pub backup_sector: Option<u64>,
    /// Entries: number, first sector, sectors, type (GUID or two hexadecimal digits).
    pub entries: Vec<PartitionEntry>,
}

/// An entry of a partition table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PartitionEntry {
    /// Number.
    pub number: u64,
    /// First sector.
    pub start_sector: u64,
    /// Length.
    pub sectors: u64,
    /// Type.
    pub kind: String,
    /// Name (GPT).
    pub name: Option<String>,
}

/// What superblocks say. A device that belongs to several things at once has several.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Content {
    /// A filesystem.
    pub filesystem: Option<FsSuperblock>,
    /// Membership in an md array.
    pub md: Option<MdSuperblock>,
    /// An LVM physical volume.
    pub lvm: Option<LvmHeader>,
    /// An encrypted container.
    pub luks: Option<LuksHeader>,
    /// A member of a bcache.
    pub bcache: Option<BcacheSuperblock>,
    /// Other things that were recognised, by name: `swap`, `zfs_member`, `isw_raid_member`.
    pub other: Vec<String>,
    /// Superblocks that are there and contradict themselves: which, and how.
    pub damaged: Vec<String>,
}

/// A filesystem's superblock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FsSuperblock {
    /// `ext4`, `xfs`, `btrfs`, `f2fs`.
    pub fs_type: String,
    /// UUID.
    pub uuid: Option<String>,
    /// btrfs: UUID of this device among those of the filesystem.
    pub device_uuid: Option<String>,
    /// btrfs: number of this device among those of the filesystem, from 1; 0 while it takes the place of another.
    pub device_number: Option<u64>,
    /// btrfs: how many devices the filesystem has, those included that it only reads (seeds).
    pub devices: Option<u64>,
    /// btrfs: how often its state was written; the highest is the newest.
    pub generation: Option<u64>,
    /// btrfs: only read, and a part of filesystems with other UUIDs.
    pub is_seed: bool,
    /// Block size.
    pub block_bytes: Option<u64>,
    /// Sector size (XFS, btrfs).
    pub sector_bytes: Option<u64>,
    /// Size that it was made for.
    pub size_bytes: Option<u64>,
    /// Stripe unit that it was made for (ext4 stride, XFS sunit); 0 none.
    pub stripe_unit_bytes: Option<u64>,
    /// Full stripe that it was made for (ext4 stripe_width, XFS swidth); 0 none.
    pub stripe_width_bytes: Option<u64>,
    /// Stripe unit of the log (XFS); 0 none.
    pub log_unit_bytes: Option<u64>,
    /// Sector size of the log (XFS).
    pub log_sector_bytes: Option<u64>,
    /// Allocation groups or block groups.
    pub groups: Option<u64>,
    /// Blocks of an allocation group (XFS).
    pub group_blocks: Option<u64>,
    /// ext: UUID of an external journal.
    pub journal_uuid: Option<String>,
    /// ext: there is a journal.
    pub journal: Option<bool>,
    /// Mounted and not put away cleanly, or with errors: in its own words.
    pub state: Option<String>,
    /// Errors counted.
    pub errors: Option<u64>,
    /// When it was made, seconds since 1970.
    pub made_at_unix_s: Option<i64>,
    /// ext: mount count since the last check and the limit; -1 is no limit.
    pub mounts: Option<(u64, i64)>,
    /// ext: when it was last checked, seconds since 1970.
    pub checked_at_unix_s: Option<i64>,
    /// ext: seconds after which the next check is due; 0 never.
    pub check_interval_s: Option<u64>,
}

/// An md superblock on a member.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MdSuperblock {
    /// `0.90`, `1.0`, `1.1`, `1.2`, `imsm`, `ddf`.
    pub version: String,
    /// UUID of the array.
    pub array_uuid: Option<String>,
    /// UUID of the member.
    pub device_uuid: Option<String>,
    /// Name of the array.
    pub name: Option<String>,
    /// Level as the kernel numbers it.
    pub level: Option<i64>,
    /// Layout number.
    pub layout: Option<u64>,
    /// Chunk.
    pub chunk_bytes: Option<u64>,
    /// Members of a whole array.
    pub raid_disks: Option<u64>,
    /// First byte of data on the member.
    pub data_offset_bytes: Option<u64>,
    /// Bytes of data on the member.
    pub data_size_bytes: Option<u64>,
    /// Counts changes; members that fell behind have fewer.
    pub events: Option<u64>,
    /// Role of the member: a number, `spare`, `faulty`, `journal`.
    pub role: Option<String>,
    /// When it was last written, seconds since 1970.
    pub updated_at_unix_s: Option<i64>,
}

/// An LVM physical volume: label, header, and what its metadata text says of the group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LvmHeader {
    /// UUID of the physical volume.
    pub uuid: Option<String>,
    /// Size that LVM believes the device to have.
    pub device_size_bytes: Option<u64>,
    /// First byte of extents.
    pub extents_start_bytes: Option<u64>,
    /// Group.
    pub group: Option<String>,
    /// Extent size.
    pub extent_bytes: Option<u64>,
    /// Logical volumes of the group.
    pub volumes: Vec<LvmVolume>,
    /// Physical volumes of the group, by their UUIDs.
    pub group_members: Vec<String>,
    /// Counts the changes of the group's metadata: the highest number on its physical volumes is the newest.
    pub seqno: Option<u64>,
    /// Extents that no volume uses, on physical volumes that may get new ones.
    pub free_extents: Option<u64>,
}

/// A logical volume in the metadata text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LvmVolume {
    /// Name.
    pub name: String,
    /// UUID.
    pub uuid: Option<String>,
    /// Segments: type (`striped`, `linear`, `thin-pool`, `thin`, `snapshot`, `raid5`, `cache`), stripes, stripe size.
    pub segments: Vec<LvmSegment>,
}

/// A segment of a logical volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LvmSegment {
    /// Type in LVM's words.
    pub kind: String,
    /// First extent in the volume.
    pub start_extent: u64,
    /// Extents.
    pub extents: u64,
    /// Stripes; 1 for linear.
    pub stripes: Option<u64>,
    /// Stripe size.
    pub stripe_bytes: Option<u64>,
    /// Chunk of thin pools and snapshots.
    pub chunk_bytes: Option<u64>,
}

/// A LUKS header; never any key material.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LuksHeader {
    /// 1 or 2.
    pub version: u64,
    /// UUID.
    pub uuid: Option<String>,
    /// Cipher.
    pub cipher: Option<String>,
    /// Sector size of the encryption.
    pub sector_bytes: Option<u64>,
    /// First byte of encrypted data.
    pub data_offset_bytes: Option<u64>,
    /// Persistent flags (LUKS2): `allow-discards`, `no-read-workqueue`, ...
    pub flags: Vec<String>,
}

/// A bcache superblock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BcacheSuperblock {
    /// `cache` or `backing`.
    pub kind: String,
    /// UUID of the set.
    pub set_uuid: Option<String>,
    /// Block size.
    pub block_bytes: Option<u64>,
    /// Bucket size (cache).
    pub bucket_bytes: Option<u64>,
    /// First byte of data (backing).
    pub data_offset_bytes: Option<u64>,
}

/// What a drive says of its health: SMART of ATA and SCSI drives, the health log of NVMe.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    /// The drive's own word: true for passed.
    pub passed: Option<bool>,
    /// Temperature.
    pub celsius: Option<i64>,
    /// Temperature that it must not reach.
    pub celsius_limit: Option<i64>,
    /// Hours powered on.
    pub power_on_hours: Option<u64>,
    /// ATA 5: sectors that were replaced.
    pub reallocated: Option<u64>,
    /// ATA 197: sectors waiting to be replaced.
    pub pending: Option<u64>,
    /// ATA 198, NVMe media errors, SCSI: errors that could not be corrected.
    pub uncorrectable: Option<u64>,
    /// ATA 199: errors on the cable.
    pub interface_crc_errors: Option<u64>,
    /// Wear, 100 is the end of what was promised.
    pub used_percent: Option<u64>,
    /// NVMe: spare blocks left, and the threshold.
    pub spare_percent: Option<(u64, u64)>,
    /// NVMe: bits of the critical warning.
    pub critical_warning: Option<u64>,
    /// NVMe: minutes above the warning and above the critical temperature.
    pub hot_minutes: Option<(u64, u64)>,
    /// Result of the last self-test: `passed`, `failed`, `running`, `never`, and the power-on hour of it.
    pub self_test: Option<(String, u64)>,
    /// SCSI: grown defects.
    pub grown_defects: Option<u64>,
    /// SCSI: additional sense code and qualifier of a warning that the drive reports, which foretells no failure.
    pub sense_warning: Option<(u64, u64)>,
}

/// What a drive says of itself, to be held against what the kernel uses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DriveIdentity {
    /// Logical sector that the drive says.
    pub logical_bytes: Option<u64>,
    /// Physical sector that the drive says.
    pub physical_bytes: Option<u64>,
    /// First aligned logical sector (ATA word 209, READ CAPACITY (16)).
    pub lowest_aligned_lba: Option<u64>,
    /// Optimal transfer (Block Limits VPD), in bytes.
    pub optimal_bytes: Option<u64>,
    /// Granularity of optimal transfers (Block Limits VPD), in bytes.
    pub granularity_bytes: Option<u64>,
    /// UNMAP is understood (SCSI, Logical Block Provisioning VPD).
    pub unmap: Option<bool>,
    /// Volatile write cache: present.
    pub volatile_cache: Option<bool>,
    /// Volatile write cache: switched on.
    pub write_cache_enabled: Option<bool>,
    /// Look-ahead of the drive switched on (ATA).
    pub look_ahead_enabled: Option<bool>,
    /// Rotations per minute; 1 for none.
    pub rotation_rpm: Option<u64>,
    /// Zoned in the drive's own words: `drive-managed`, `host-aware`, `host-managed`.
    pub zoned: Option<String>,
    /// Advanced power management level (ATA); none when off.
    pub power_management: Option<u64>,
    /// Acoustic management level (ATA).
    pub acoustic: Option<u64>,
    /// Native command queue depth that the drive offers.
    pub queue_depth: Option<u64>,
    /// NVMe: formats as `(data bytes, metadata bytes, relative performance 0 best to 3)`.
    pub formats: Vec<(u64, u64, u64)>,
    /// NVMe: index of the format in use.
    pub format: Option<u64>,
    /// NVMe: autonomous power state transitions switched on.
    pub power_state_transitions: Option<bool>,
    /// Speed of the interface that the drive could do, such as `6.0 Gb/s`.
    pub interface_speed_max: Option<String>,
    /// Power loss protection, where the drive says so.
    pub power_loss_protection: Option<bool>,
}
