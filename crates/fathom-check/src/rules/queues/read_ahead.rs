//! Read-ahead of buffered reads. Direct I/O does not use it. Units: `read_ahead_kb` has KiB, `blockdev --setra` sectors
//! of 512 bytes, whatever the drive has.

use crate::array::full_stripe_bytes;
use crate::rules::drives::{is_flash, set_queue};
use crate::rules::shared::{list, mount_points, sysfs};
use crate::rules::volumes::{is_lvm, volume_name};
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_base::units::format_size;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::{Node, NodeKind};
use std::collections::BTreeMap;

/// Filesystems that read ahead by a setting of their own and ignore that of the device.
fn has_own_read_ahead(fs_type: &str) -> bool {
    matches!(fs_type, "btrfs" | "zfs" | "bcachefs")
}

/// `128 KiB, which is 256 sectors of 512 bytes`.
fn both_units(kib: u64) -> String {
    format!("{kib} KiB = {} sectors of 512 bytes", kib.saturating_mul(2))
}

/// A block device that filesystems read ahead on: where they stand on it directly, or through a partition of it.
struct Device<'a> {
    index: usize,
    node: &'a Node,
    kib: u64,
}

/// Devices with mounted filesystems that use their read-ahead. Partitions have that of their disk.
fn devices<'a>(scene: &Scene<'a>) -> Vec<Device<'a>> {
    let mut found = BTreeMap::new();
    for (fs, node) in scene.nodes(&[NodeKind::FileSystem]) {
        let fs_type = node.fs.as_ref().map_or(node.name.as_str(), |fs| fs.fs_type.as_str());
        let is_mounted = scene.above(fs).any(|(_, above)| above.kind == NodeKind::Mount);
        if has_own_read_ahead(fs_type) || !is_mounted {
            continue;
        }
        for (below, below_node) in scene.below(fs) {
            let is_partition = below_node.kind == NodeKind::Partition;
            let disk = if is_partition { scene.below(below).next() } else { None };
            let (index, node) = disk.unwrap_or((below, below_node));
            if let Some(kib) = node.queue.as_ref().and_then(|queue| queue.read_ahead_kib) {
                found.insert(index, Device { index, node, kib });
            }
        }
    }
    found.into_values().collect()
}

/// The steps that set the read-ahead of a device.
fn set(scene: &Scene<'_>, defect: Defect, device: &Device<'_>, kib: u64) -> Defect {
    let defect = set_queue(scene, defect, device.node, "read_ahead_kb", &kib.to_string());
    match &device.node.dm {
        Some(dm) if is_lvm(dm) => defect.command(
            "for a logical volume LVM keeps it (the number has sectors of 512 bytes)",
            format!(
                "lvchange --readahead {} {}",
                kib.saturating_mul(2),
                word(volume_name(device.node, dm))
            ),
        ),
        _ => defect,
    }
}

fn finish(defect: Defect) -> Defect {
    defect
        .risking("none; it takes effect for files that are opened from then on. Other settings of the queue that are written later can set it back")
        .verified_by("fathom run seqread DIR direct=no before and after, with several readers too: threads=4")
}

/// Nothing is read ahead.
pub(super) fn off(scene: &Scene<'_>) -> Vec<Defect> {
    let found = devices(scene).into_iter().filter(|device| device.kib == 0);
    found
        .map(|device| {
            let gravity = if is_flash(device.node) { Gravity::Low } else { Gravity::Medium };
            let defect = Defect::new(
                "read-ahead-off",
                gravity,
                Some(&device.node.key()),
                format!("{} reads nothing ahead", device.node.name),
            )
            .seen(sysfs(device.node, "queue/read_ahead_kb"), "0 KiB")
            .because("each buffered sequential read of a page waits for the drive: on drives that rotate ten times slower and worse, also for programs that only copy files");
            finish(set(scene, defect, &device, 128))
        })
        .chain(off_by_itself(scene))
        .collect()
}

/// The same where a filesystem has a setting of its own.
fn off_by_itself(scene: &Scene<'_>) -> Vec<Defect> {
    let own = scene.nodes(&[NodeKind::FileSystem]).filter_map(|(index, node)| {
        let fs = node.fs.as_ref().filter(|fs| fs.fs_type == "btrfs")?;
        let place = *mount_points(scene, index).first()?;
        let is_off = node.details().bdi_read_ahead_kib == Some(0);
        let file = format!("/sys/fs/btrfs/{}/bdi/read_ahead_kb", fs.uuid.as_deref()?);
        let rotates = scene.rotates(index) != Some(false);
        let gravity = if rotates { Gravity::Medium } else { Gravity::Low };
        let summary = format!("btrfs at {place} reads nothing ahead");
        let defect = Defect::new("read-ahead-off", gravity, Some(&node.key()), summary)
            .seen(file.clone(), "0 KiB; that of its devices is not used")
            .because("each buffered sequential read of a page waits for the drive, also in programs that only copy files")
            .command("set what the kernel begins with, until it is mounted anew", format!("echo 4096 > {}", word(file)));
        is_off.then(|| finish(defect))
    });
    own.collect()
}

/// What the kernel sets by itself at most, in KiB: two optimal requests, or from 6.17 on two of the largest requests for
/// a drive that rotates; never less than 128. Up to 4 MiB is what people commonly choose.
fn usual_kib(node: &Node) -> u64 {
    const COMMONLY_CHOSEN_KIB: u64 = 4096;
    let queue = node.queue.as_ref();
    let optimal = queue.and_then(|queue| queue.optimal_io_bytes).unwrap_or(0) / 1024;
    let largest = queue.and_then(|queue| queue.max_sectors_kib).unwrap_or(0);
    COMMONLY_CHOSEN_KIB.max(optimal.saturating_mul(2)).max(largest.saturating_mul(2))
}

/// A read-ahead far above what the kernel or people usually take.
pub(super) fn excessive(scene: &Scene<'_>) -> Vec<Defect> {
    // Whoever set it: so much is thrown away at each wrong guess.
    const TOO_MUCH_KIB: u64 = 64 * 1024;
    let found = devices(scene)
        .into_iter()
        .filter(|device| device.kib > usual_kib(device.node) || device.kib >= TOO_MUCH_KIB);
    found
        .map(|device| {
            let gravity = if device.kib >= TOO_MUCH_KIB { Gravity::Medium } else { Gravity::Low };
            let bytes = device.kib.saturating_mul(1024);
            let defect = Defect::new(
                "read-ahead-excessive",
                gravity,
                Some(&device.node.key()),
                format!("{} reads up to {} ahead for each sequential reader", device.node.name, format_size(bytes)),
            )
            .sure(Certainty::Likely)
            .seen(sysfs(device.node, "queue/read_ahead_kb"), both_units(device.kib))
            .seen("mounted there", list(mount_points(scene, device.index)))
            .because("every reader fills that much memory with what it may never ask for, and others wait behind it; often a number of sectors (blockdev --setra) was written where KiB are meant, or the other way round");
            finish(set(scene, defect, &device, 1024))
        })
        .collect()
}

/// The widest full stripe of arrays under a device, with the array.
fn stripe_below<'a>(scene: &Scene<'a>, index: usize) -> Option<(&'a Node, u64)> {
    let below = scene.machine().walk_from(index).into_iter().map(|below| scene.node(below));
    let stripes = below.filter_map(|node| Some((node, full_stripe_bytes(node.md.as_ref()?)?)));
    stripes.max_by_key(|(_, bytes)| *bytes)
}

/// A device on an array whose read-ahead does not reach all its members.
pub(super) fn below_stripe(scene: &Scene<'_>) -> Vec<Defect> {
    let found = devices(scene).into_iter().filter(|device| device.kib > 0).filter_map(|device| {
        let (array, stripe) = stripe_below(scene, device.index)?;
        if device.kib.saturating_mul(1024) >= stripe {
            return None;
        }
        let rotates = scene.rotates(device.index) != Some(false);
        let mut defect = Defect::new(
            "read-ahead-below-stripe",
            if rotates { Gravity::Medium } else { Gravity::Low },
            Some(&device.node.key()),
            format!(
                "{} reads {} KiB ahead, a full stripe of {} has {}",
                device.node.name,
                device.kib,
                array.name,
                format_size(stripe)
            ),
        )
        .sure(Certainty::Likely)
        .seen(sysfs(device.node, "queue/read_ahead_kb"), both_units(device.kib))
        .seen(format!("chunk times data disks of {}", array.name), format_size(stripe));
        if array.name != device.node.name {
            defect = defect.seen(
                sysfs(array, "queue/read_ahead_kb"),
                format!("{}; that of a layer below is not used", array.queue.as_ref().and_then(|queue| queue.read_ahead_kib).map_or_else(|| "not told".to_owned(), both_units)),
            );
        }
        let defect = defect.because("a single sequential reader through the page cache keeps only some of the members busy; the read-ahead that counts is that of the device which the filesystem stands on");
        Some(finish(set(scene, defect, &device, stripe.saturating_mul(2) / 1024)))
    });
    found.collect()
}

/// An NFS mount that reads ahead less than one of its requests carries.
pub(super) fn remote(scene: &Scene<'_>) -> Vec<Defect> {
    let found = scene.nodes(&[NodeKind::Mount]).filter_map(|(index, node)| {
        let mount = node.mount.as_ref().filter(|mount| mount.fs_type.starts_with("nfs"))?;
        let remote = scene.below(index).map(|(_, below)| below).find_map(|below| below.details().bdi_read_ahead_kib);
        let kib = node.details().bdi_read_ahead_kib.or(remote)?;
        let request: u64 = mount.option_value("rsize")?.parse().ok()?;
        if kib.saturating_mul(1024) >= request {
            return None;
        }
        let place = word(node.label());
        let wanted = request.saturating_mul(4) / 1024;
        Some(
            Defect::new(
                "read-ahead-remote",
                Gravity::Low,
                Some(&node.key()),
                format!("{} reads {kib} KiB ahead, though one request may carry {}", node.label(), format_size(request)),
            )
            .seen(format!("/sys/class/bdi/$(mountpoint -d {place})/read_ahead_kb"), both_units(kib))
            .seen("/proc/self/mountinfo", format!("rsize={request}"))
            .because("since kernel 5.4 NFS starts with 128 KiB whatever rsize is: a single sequential reader then waits for the network after each small piece")
            .command("read several requests ahead", format!("echo {wanted} > /sys/class/bdi/$(mountpoint -d {place})/read_ahead_kb"))
            .advise("for good: nfsrahead of nfs-utils in /etc/nfs.conf ([nfsrahead]), or a udev rule for bdi")
            .risking("random readers of large files read somewhat more than they need")
            .verified_by(format!("fathom run seqread {place} direct=no before and after")),
        )
    });
    found.collect()
}
