//! Who uses a block device: mounts in any namespace, swap, devices made of it, loop devices that show it.

use crate::refusal::Refusal;
use crate::target::Target;
use fathom_base::order::Order;
use fathom_sys::devno::DevNo;
use fathom_sys::loopdev;
use fathom_sys::mounts::{self, Mount};
use fathom_sys::openers;
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Devices by number.
pub type Devices = BTreeMap<DevNo, BlockDir>;

/// The devices that share bytes with this one: itself, the partitions of a disk, for a partition its disk and the
/// partitions that overlap it.
#[must_use]
pub fn touching(device: &BlockDir) -> Devices {
    let mut found = Devices::new();
    let mut add = |device: &BlockDir| {
        if let Some(devno) = device.devno() {
            found.insert(devno, device.clone());
        }
    };
    add(device);
    let Some(disk) = device.disk() else { return found };
    let own = device.is_partition().then(|| extent(device)).flatten();
    for partition in disk.partitions() {
        let overlaps = match (own, extent(&partition)) {
            (Some((start, end)), Some((from, to))) => from < end && start < to,
            // A whole disk, or a partition that does not say where it lies.
            _ => true,
        };
        if overlaps {
            add(&partition);
        }
    }
    add(&disk);
    found
}

/// First sector and the one after the last.
fn extent(partition: &BlockDir) -> Option<(u64, u64)> {
    let start: u64 = partition.value("start")?;
    Some((start, start.saturating_add(partition.value("size")?)))
}

/// The devices that share bytes with this one and everything made of them, upwards to the last.
pub(crate) fn touching_and_above(root: &SysRoot, device: &BlockDir) -> Devices {
    let mut found = touching(device);
    let loops = loopdev::attached(root);
    let mut pending: Vec<BlockDir> = found.values().cloned().collect();
    while let Some(device) = pending.pop() {
        let mut above = device.holders();
        let devno = device.devno();
        let shown =
            loops.iter().filter(|l| l.backing_device.is_some() && l.backing_device == devno);
        above.extend(shown.filter_map(|l| BlockDir::by_devno(root, l.devno)));
        for next in above.into_iter().flat_map(|device| touching(&device)) {
            if found.insert(next.0, next.1.clone()).is_none() {
                pending.push(next.1);
            }
        }
    }
    found
}

/// The block devices that a mount's file system lies on, as far as it says: more than one for btrfs and bcachefs,
/// none for memory and networks.
#[must_use]
pub fn devices_of_mount(root: &SysRoot, mount: &Mount) -> Vec<DevNo> {
    let btrfs = if mount.fs_type == "btrfs" { btrfs_members(root) } else { Vec::new() };
    devices_of(root, mount, &btrfs)
}

/// The same where several mounts are looked at, with what [`btrfs_members`] told once.
fn devices_of(root: &SysRoot, mount: &Mount, btrfs: &[Vec<DevNo>]) -> Vec<DevNo> {
    let mut found = Vec::new();
    if mount.devno.major != 0 {
        found.push(mount.devno);
    }
    for part in mount.source.split(':').filter(|part| part.starts_with('/')) {
        found.extend(block_number(root, Path::new(part)));
    }
    let all = btrfs.iter().filter(|members| members.iter().any(|m| found.contains(m)));
    let further: Vec<DevNo> = all.flatten().copied().collect();
    found.extend(further);
    found.order();
    found.dedup();
    found
}

/// The number of the block device at a path.
#[must_use]
pub fn block_number(root: &SysRoot, path: &Path) -> Option<DevNo> {
    let meta = std::fs::metadata(root.path(path)).ok()?;
    meta.file_type().is_block_device().then(|| DevNo::from_raw(meta.rdev()))
}

/// The devices of every btrfs file system that is mounted anywhere.
fn btrfs_members(root: &SysRoot) -> Vec<Vec<DevNo>> {
    let numbers = |uuid: &String| {
        let names = root.names(format!("sys/fs/btrfs/{uuid}/devices"));
        let devices = names.iter().filter_map(|name| BlockDir::by_name(root, name)?.devno());
        devices.collect::<Vec<_>>()
    };
    root.names("sys/fs/btrfs").iter().map(numbers).filter(|members| !members.is_empty()).collect()
}

/// The mounts, in any namespace, of file systems that lie on this device, its partitions or what is made of them,
/// each mount point once. The number is that of a process that sees the mount.
#[must_use]
pub fn mounted_above_with_process(root: &SysRoot, device: &BlockDir) -> Vec<(u32, Mount)> {
    mounts_on(root, &touching_and_above(root, device), &btrfs_members(root))
}

fn mounts_on(root: &SysRoot, devices: &Devices, btrfs: &[Vec<DevNo>]) -> Vec<(u32, Mount)> {
    let mut found: Vec<(u32, Mount)> = Vec::new();
    for (pid, mount) in mounts::all_mounts(root) {
        let concerns = devices_of(root, &mount, btrfs).iter().any(|d| devices.contains_key(d));
        if concerns && !found.iter().any(|(_, known)| *known == mount) {
            found.push((pid, mount));
        }
    }
    found
}

/// The mounts, in any namespace, of file systems that lie on this device, its partitions or what is made of them: a
/// raw read of the device then shares caches and the disk with them.
#[must_use]
pub fn mounted_above(root: &SysRoot, devno: DevNo) -> Vec<Mount> {
    let Some(device) = BlockDir::by_devno(root, devno) else { return Vec::new() };
    mounted_above_with_process(root, &device).into_iter().map(|(_, mount)| mount).collect()
}

/// Refuses a device that is in use by the kernel in any way that can be seen.
///
/// # Errors
/// [`Refusal::Mounted`], [`Refusal::Swap`], [`Refusal::PathOfMap`], [`Refusal::HasHolders`], [`Refusal::LoopOnTop`].
pub fn check_unused(root: &SysRoot, target: &Target) -> Result<(), Refusal> {
    let touched = touching(&target.device);
    let above = touching_and_above(root, &target.device);
    check_mounts(root, target, &touched, &above)?;
    check_swap(root, target, &above)?;
    check_holders(target, &touched)?;
    check_loops_on_top(root, target, &touched)
}

fn check_mounts(
    root: &SysRoot,
    target: &Target,
    touched: &Devices,
    above: &Devices,
) -> Result<(), Refusal> {
    let (own, btrfs) = (mounts::own_mounts(root), btrfs_members(root));
    let all = mounts_on(root, above, &btrfs);
    // A mount that this process sees is the one to name.
    let shown = all.iter().find(|(_, mount)| own.contains(mount)).or_else(|| all.first());
    if let Some((pid, mount)) = shown {
        let place = if own.contains(mount) {
            String::new()
        } else {
            let command = openers::command(root, *pid);
            format!(" (in the mount namespace of process {pid}, {command})")
        };
        let mount_point = mount.mount_point.display().to_string();
        return Err(Refusal::Mounted {
            device: target.path.clone(),
            used: mount.source.clone(),
            mount_point,
            place,
        });
    }
    // Mounted where no process that can be looked into sees it.
    if btrfs.iter().flatten().any(|member| above.contains_key(member)) {
        return Err(Refusal::Mounted {
            device: target.path.clone(),
            used: format!("a btrfs file system with {}", names(touched.values())),
            mount_point: "a place that cannot be seen from here".to_owned(),
            place: String::new(),
        });
    }
    Ok(())
}

fn check_swap(root: &SysRoot, target: &Target, above: &Devices) -> Result<(), Refusal> {
    for area in mounts::swap_areas(root) {
        if block_number(root, &area).is_some_and(|devno| above.contains_key(&devno)) {
            let area = area.display().to_string();
            return Err(Refusal::Swap { device: target.path.clone(), area });
        }
    }
    Ok(())
}

fn check_holders(target: &Target, touched: &Devices) -> Result<(), Refusal> {
    for device in touched.values() {
        let holders = device.holders();
        if let Some(map) = holders.iter().find_map(multipath_map) {
            let used = device.dev_path();
            return Err(Refusal::PathOfMap { device: target.path.clone(), used, map });
        }
        let named = names(&holders);
        let holders = match (holders.is_empty(), device.has("bcache")) {
            (true, false) => continue,
            (true, true) => "a bcache set".to_owned(),
            (false, _) => named,
        };
        let used = device.dev_path();
        return Err(Refusal::HasHolders { device: target.path.clone(), used, holders });
    }
    Ok(())
}

/// The path of a multipath map; none for other devices.
fn multipath_map(device: &BlockDir) -> Option<String> {
    let is_map = device.text("dm/uuid").is_some_and(|uuid| uuid.starts_with("mpath-"));
    let name = device.text("dm/name").filter(|_| is_map)?;
    Some(format!("/dev/mapper/{name}"))
}

fn check_loops_on_top(root: &SysRoot, target: &Target, touched: &Devices) -> Result<(), Refusal> {
    for other in loopdev::attached(root) {
        let by_path = other.backing_path.as_ref().and_then(|path| block_number(root, path));
        let shown = other.backing_device.or(by_path);
        if let Some(device) = shown.and_then(|devno| touched.get(&devno)) {
            return Err(Refusal::LoopOnTop {
                device: target.path.clone(),
                used: device.dev_path(),
                other: format!("/dev/{}", other.name),
            });
        }
    }
    Ok(())
}

/// Device names in a row.
pub(crate) fn names<'a>(devices: impl IntoIterator<Item = &'a BlockDir>) -> String {
    devices.into_iter().map(BlockDir::dev_path).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
#[path = "relations_tests.rs"]
mod tests;
