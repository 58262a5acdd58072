//! Filesystems and partitions against the size of what they lie on.

use super::filesystems::{Made, made};
use super::tables::tables;
use crate::rules::shared::sysfs;
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_base::units::format_size;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::Node;
use fathom_model::stack::detail::PartitionTable;

/// A filesystem that leaves less unused is as large as its maker could make it.
const UNUSED_SHARE: f64 = 0.1;
const UNUSED_BYTES: u64 = 1 << 30;
/// Of a disk much is left on purpose at times: for later, or as spare blocks of an SSD.
const DISK_UNUSED_SHARE: f64 = 0.5;
const DISK_UNUSED_BYTES: u64 = 10 << 30;

/// Much of a device that no filesystem or partition covers.
pub(super) fn unused(scene: &Scene<'_>) -> Vec<Defect> {
    let filesystems = made(scene);
    let mut found: Vec<Defect> = filesystems.iter().filter_map(small_filesystem).collect();
    found.extend(tables(scene).filter_map(|(_, disk, table)| small_partitions(disk, table)));
    found
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn small_filesystem(made: &Made<'_>) -> Option<Defect> {
    let (size, device_bytes) = (made.size_bytes?, made.device.size_bytes?);
    let unused = device_bytes.checked_sub(size)?;
    if unused < UNUSED_BYTES || share(unused, device_bytes) < UNUSED_SHARE {
        return None;
    }
    let device = word(made.device.label());
    let place = word(made.mount_point.unwrap_or("MOUNT_POINT"));
    let how = match made.fs_type {
        "f2fs" => "unmounted: let the filesystem fill its device",
        "btrfs" => {
            "let the filesystem fill its device (where btrfs filesystem show gives it another devid than 1: resize DEVID:max)"
        }
        _ => "let the filesystem fill its device",
    };
    let grow = match made.fs_type {
        // At rest it has to be checked before.
        "ext2" | "ext3" | "ext4" if made.mount_point.is_none() => {
            format!("e2fsck -f {device} && resize2fs {device}")
        }
        "ext2" | "ext3" | "ext4" => format!("resize2fs {device}"),
        "xfs" => format!("xfs_growfs {place}"),
        "btrfs" => format!("btrfs filesystem resize max {place}"),
        "f2fs" => format!("resize.f2fs {device}"),
        _ => return None,
    };
    let name = &made.device.name;
    Some(
        Defect::new(
            "device-space-unused",
            Gravity::Low,
            Some(&made.node.key()),
            format!("{} on {name} leaves {} of {} unused", made.fs_type, format_size(unused), format_size(device_bytes)),
        )
        .seen(format!("superblock of {}", made.device.label()), format!("{size} B"))
        .seen(sysfs(made.device, "size"), format!("{device_bytes} B"))
        .because("the device was probably enlarged, or a size given in the wrong unit: the space is paid for and lies idle")
        .command(how, grow)
        .risking("small, with a backup: growing is done in use on ext4, XFS and btrfs; it cannot be undone on XFS")
        .verified_by("df, and fathom check again"),
    )
}

fn small_partitions(disk: &Node, table: &PartitionTable) -> Option<Defect> {
    let size = disk.size_bytes?;
    // Logical partitions lie inside the extended one.
    let is_outer = |kind: &str| table.kind == "gpt" || !matches!(kind, "05" | "0f" | "85");
    let outer = table.entries.iter().filter(|e| is_outer(&e.kind)).map(|e| e.sectors);
    let sectors = outer.fold(0, u64::saturating_add);
    let used = sectors.checked_mul(table.sector_bytes)?;
    let unused = size.checked_sub(used)?;
    if table.entries.is_empty()
        || unused < DISK_UNUSED_BYTES
        || share(unused, size) < DISK_UNUSED_SHARE
    {
        return None;
    }
    let device = word(disk.label());
    Some(
        Defect::new(
            "device-space-unused",
            Gravity::Low,
            Some(&disk.key()),
            format!("the partitions of {} leave {} of {} unused", disk.name, format_size(unused), format_size(size)),
        )
        .sure(Certainty::Possible)
        .seen(format!("partition table of {}", disk.label()), format!("{} partitions of {used} B in all", table.entries.len()))
        .seen(sysfs(disk, "size"), format!("{size} B"))
        .because("a size without its unit, or one in cylinders, makes a partition much smaller than was meant; where it is meant, all is well")
        .command("see what is free", format!("parted -s {device} unit GiB print free"))
        .advise("enlarge the last partition (parted resizepart) and then what is in it")
        .risking("a partition that is made to end too early cuts off what is in it; enlarging does not")
        .verified_by("lsblk, and fathom check again"),
    )
}

/// A filesystem whose end is not on its device.
pub(super) fn larger(scene: &Scene<'_>) -> Vec<Defect> {
    let filesystems = made(scene);
    filesystems
        .iter()
        .filter_map(|made| {
            let (size, device_bytes) = (made.size_bytes?, made.device.size_bytes?);
            let missing = size.checked_sub(device_bytes).filter(|&bytes| bytes > 0)?;
            let name = &made.device.name;
            Some(
                Defect::new(
                    "filesystem-larger-than-device",
                    Gravity::High,
                    Some(&made.node.key()),
                    format!("{} on {name} was made for {size} B, but the device has {device_bytes} B", made.fs_type),
                )
                .seen(format!("superblock of {}", made.device.label()), format!("{size} B"))
                .seen(sysfs(made.device, "size"), format!("{device_bytes} B"))
                .because(format!("its last {} are not there: what was stored in them is lost or lies behind the partition's end, and writing to them fails", format_size(missing)))
                .advise("write nothing to it; find out what became smaller: a partition that was made anew, an array or volume that was reduced, a copy to a smaller disk")
                .advise("give the device its old size again, or shrink the filesystem on a copy (resize2fs; XFS cannot shrink)")
                .risking("every write may destroy more: make a copy of the device first")
                .verified_by("the filesystem's check without changes: e2fsck -n, xfs_repair -n, btrfs check"),
            )
        })
        .collect()
}
