//! What is never overwritten, whatever anybody consents to: what the running system and the store of results lie on.
//! Swap in use is refused with the other uses, in [`crate::relations`]: no consent overrides those either.

use crate::refusal::Refusal;
use crate::relations;
use crate::target::Target;
use fathom_sys::devno::DevNo;
use fathom_sys::loopdev;
use fathom_sys::mounts::{self, Mount};
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What must survive besides the system itself.
#[derive(Debug, Clone)]
pub struct Protected {
    /// The store of results: its file, or the directory that holds it.
    pub store_path: PathBuf,
}

/// Mount points, with everything below them, that the system needs.
const SYSTEM_MOUNTS: &[&str] = &["/boot", "/efi", "/usr", "/var", "/etc"];
/// Directories whose files are the system's: no image of a disk belongs there.
const SYSTEM_FILES: &[&str] =
    &["/boot", "/efi", "/usr", "/etc", "/bin", "/sbin", "/lib", "/lib32", "/lib64"];

/// Refuses a device that shares bytes with one that the system needs.
///
/// # Errors
/// [`Refusal::System`], [`Refusal::BootPartition`].
pub fn check(root: &SysRoot, target: &Target, protect: &Protected) -> Result<(), Refusal> {
    let system = system_devices(root, protect);
    let touched = relations::touching(&target.device);
    if let Some(what) = touched.keys().find_map(|devno| system.get(devno)) {
        return Err(Refusal::System { device: target.path.clone(), what: what.clone() });
    }
    let entry = fathom_inspect::identity::partition_entry(root, target.devno);
    match entry.and_then(|entry| entry.type_id).filter(|id| BOOT_TYPES.contains(&id.as_str())) {
        Some(type_id) => Err(Refusal::BootPartition { device: target.path.clone(), type_id }),
        None => Ok(()),
    }
}

/// Partition types whose content is code or data of firmware and boot loader: BIOS boot, EFI system, PReP, Intel
/// rapid start, extended boot loader, Microsoft reserved; in MBR also extended partitions, which hold tables.
const BOOT_TYPES: &[&str] = &[
    "21686148-6449-6e6f-744e-656564454649",
    "c12a7328-f81f-11d2-ba4b-00a0c93ec93b",
    "9e1a2d38-c612-4316-aa26-8b49521e5a8b",
    "d3bfe2de-3daf-11df-ba40-e3a556d89593",
    "bc13c2ff-59e6-4262-a352-b275fd6f7172",
    "e3c9e316-0b5c-4db8-817d-f92df00215ae",
    "0x05",
    "0x0f",
    "0x85",
    "0x41",
    "0xef",
];

/// The file behind a loop device: refuses those that the system or the store consist of.
///
/// # Errors
/// [`Refusal::System`].
pub fn check_file(
    root: &SysRoot,
    target: &Target,
    file: &Path,
    protect: &Protected,
) -> Result<(), Refusal> {
    let refuse = |what: String| Err(Refusal::System { device: target.path.clone(), what });
    if let Some(dir) = SYSTEM_FILES.iter().find(|dir| file.starts_with(dir)) {
        return refuse(format!("{dir}: its backing file {} is there", file.display()));
    }
    let store = nearest_existing(&protect.store_path);
    let inode = |path: &Path| std::fs::metadata(root.path(path)).ok().map(|m| (m.dev(), m.ino()));
    let is_same = |other: &Path| inode(file).is_some() && inode(file) == inode(other);
    if is_same(&protect.store_path) || (store == protect.store_path && file.starts_with(&store)) {
        return refuse("the store of results: its backing file is part of it".to_owned());
    }
    match mounts::swap_areas(root).iter().find(|area| is_same(area)) {
        Some(area) => refuse(format!("swap: {} is its backing file", area.display())),
        None => Ok(()),
    }
}

/// The devices that the system needs, each with the reason.
fn system_devices(root: &SysRoot, protect: &Protected) -> BTreeMap<DevNo, String> {
    let mut found = BTreeMap::new();
    let own = mounts::own_mounts(root);
    let everywhere = mounts::all_mounts(root);
    let mut all: Vec<&Mount> = own.iter().collect();
    all.extend(everywhere.iter().map(|(_, mount)| mount));
    for mount in &all {
        let point = &mount.mount_point;
        let is_system =
            point == Path::new("/") || SYSTEM_MOUNTS.iter().any(|m| point.starts_with(m));
        if is_system {
            add_mount(root, &own, mount, &point.display().to_string(), &mut found);
        }
    }
    let store = nearest_existing(&protect.store_path);
    let reason = format!("the store of results ({})", protect.store_path.display());
    add_path(root, &own, &store, &reason, &mut found);
    found
}

/// The path itself without symbolic links, or the nearest directory above it that exists.
fn nearest_existing(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    absolute.ancestors().find_map(|dir| std::fs::canonicalize(dir).ok()).unwrap_or(absolute)
}

fn add_path(
    root: &SysRoot,
    own: &[Mount],
    path: &Path,
    reason: &str,
    found: &mut BTreeMap<DevNo, String>,
) {
    if let Some(mount) = mounts::mount_of(own, path) {
        add_mount(root, own, mount, reason, found);
    }
}

fn add_mount(
    root: &SysRoot,
    own: &[Mount],
    mount: &Mount,
    reason: &str,
    found: &mut BTreeMap<DevNo, String>,
) {
    for devno in relations::devices_of_mount(root, mount) {
        add_below(root, own, devno, reason, found);
    }
    if mount.fs_type == "overlay" {
        for option in mount.super_options.split(',') {
            let Some((key, dirs)) = option.split_once('=') else { continue };
            if !matches!(key, "lowerdir" | "upperdir" | "workdir") {
                continue;
            }
            for dir in dirs.split(':').map(Path::new).filter(|dir| dir.is_absolute()) {
                // An overlay on itself would never end; its own mount is not what holds its layers.
                let others: Vec<Mount> = own.iter().filter(|m| *m != mount).cloned().collect();
                add_path(root, &others, dir, reason, found);
            }
        }
    }
}

/// A device and all that it is made of. Not the disk of a partition: the other partitions do not lie under it.
fn add_below(
    root: &SysRoot,
    own: &[Mount],
    devno: DevNo,
    reason: &str,
    found: &mut BTreeMap<DevNo, String>,
) {
    if found.contains_key(&devno) {
        return;
    }
    found.insert(devno, reason.to_owned());
    let Some(device) = BlockDir::by_devno(root, devno) else { return };
    for slave in device.slaves().iter().filter_map(BlockDir::devno) {
        add_below(root, own, slave, reason, found);
    }
    let disk = device.disk().and_then(|disk| disk.devno());
    let behind = disk.and_then(|disk| loopdev::by_devno(root, disk));
    if let Some(behind) = behind {
        match (behind.backing_device, behind.backing_path) {
            (Some(below), _) => add_below(root, own, below, reason, found),
            (None, Some(path)) => add_path(root, own, &path, reason, found),
            (None, None) => {}
        }
    }
}
