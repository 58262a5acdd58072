//! The table of a setup's keys, for reading and for the documentation.

/// One key: what it takes and what it means; the documentation shows the same table.
pub struct SetupKey {
    /// The word, with its layer.
    pub name: &'static str,
    /// The form of its values.
    pub values: &'static str,
    /// One line of help.
    pub help: &'static str,
}

const fn key(name: &'static str, values: &'static str, help: &'static str) -> SetupKey {
    SetupKey { name, values, help }
}

/// All keys of a setup that are single words; layers themselves (`filesystem.type`) first, because the others stand on them.
pub const SETUP_KEYS: &[SetupKey] = &[
    key(
        "array.level",
        "none|raid0|raid1|raid4|raid5|raid6|raid10",
        "md array over the devices; none uses the first device alone",
    ),
    key("volume.type", "none|linear|striped", "logical volume (LVM)"),
    key("crypt.type", "none|luks2|plain", "encryption (dm-crypt)"),
    key(
        "filesystem.type",
        "none|ext4|xfs|btrfs|f2fs|ext3|ext2",
        "filesystem; none measures the device",
    ),
    key(
        "multipath.policy",
        "multibus|failover|0,1/2,3",
        "map over the devices, which are paths to one disk: in one group, each in its own, or in these",
    ),
    key(
        "multipath.selector",
        "service-time|queue-length|round-robin|historical-service-time",
        "which path of the group is next",
    ),
    key("multipath.failed", "N", "so many paths, from the first on, have failed"),
    key("slice.start", "SIZE or %", "where the partition begins on each device"),
    key("slice.size", "SIZE", "its length; the smallest device decides without it"),
    key("array.layout", "left-symmetric|n2|f2|o2|...", "places of data, copies and parity"),
    key("array.chunk", "SIZE", "bytes on one member before the next one's turn"),
    key("array.members", "N", "how many of the devices are members"),
    key("array.order", "0,1,2,...", "order of the members, as places in the list of devices"),
    key("array.bitmap", "none|internal", "write-intent bitmap"),
    key("array.metadata", "1.2|1.1|1.0|0.90", "version of the superblock"),
    key(
        "array.data_offset",
        "SIZE",
        "where the data begin on each member (mdadm --data-offset); a multiple of 1k, with metadata 1.1 or 1.2",
    ),
    key("array.spares", "N", "devices that stand by"),
    key("array.assume_clean", "yes|no", "leave out the first synchronisation; results say so"),
    key(
        "array.state",
        "normal|degraded|rebuilding|checking",
        "in which state the array is measured",
    ),
    key("crypt.cipher", "aes-xts-plain64|...", "its cipher, as cryptsetup names it"),
    key("crypt.sector_size", "512|1024|2048|4096", "sector of the encryption"),
    key("crypt.no_workqueues", "yes|no", "encrypt in the context of the request"),
    key("volume.stripe_size", "SIZE", "piece of a striped volume, a power of two from 4k"),
    key("volume.size", "SIZE or %", "size of the volume; 100% when not given"),
    key("volume.data_alignment", "SIZE or stride", "where the data of physical volumes begin"),
    key("filesystem.make_options", "words", "options of mkfs, after those that fathom computes"),
    key("filesystem.aligned", "yes|no", "compute options from the geometry below"),
    key(
        "filesystem.journal",
        "internal or DEVICE,...",
        "where the journal lies (ext3, ext4, xfs); several devices by turns",
    ),
    key("filesystem.lazy", "yes|no", "leave tables to the background, as mkfs does by itself"),
    key("filesystem.fill", "1%..95%", "filled to this share before measuring"),
    key("filesystem.ageing_rounds", "1..1000", "rounds of creating and deleting files"),
    key(
        "filesystem.data_profile",
        "single|dup|raid0|raid1|raid10",
        "btrfs over all devices: where its data lie",
    ),
    key(
        "filesystem.metadata_profile",
        "single|dup|raid0|raid1|raid10",
        "btrfs over all devices: where its metadata lie",
    ),
    key("filesystem.each", "yes|no", "a filesystem of its own on every device, see below"),
    key("mount.options", "words", "options of mount, as after -o; defaults for none"),
];
