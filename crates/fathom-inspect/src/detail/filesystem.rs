//! What sysfs says of a mounted filesystem.

use super::unread;
use crate::filesystem::btrfs_dir;
use fathom_model::snapshot::Unread;
use fathom_model::stack::Detail;
use fathom_sys::mounts::Mount;
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysfs_dir::attributes;
use fathom_sys::sysroot::SysRoot;
use std::path::{Path, PathBuf};

/// How deep the attributes of a filesystem are kept: `error/metadata/EIO/max_retries`.
const DEPTH_MAX: usize = 4;
/// Attributes that are kept of one filesystem.
const ATTRIBUTES_MAX: usize = 300;
/// Directories that are left out: statistics of hundreds of counters, and what belongs to every device of the machine.
const LEFT_OUT: [&str; 3] = ["stats", "power", "devices"];

/// Fills in what `/sys/fs` and the backing device say of a filesystem.
pub(crate) fn add(
    root: &SysRoot,
    mount: &Mount,
    uuid: Option<&str>,
    devices: &[&BlockDir],
    detail: &mut Detail,
) -> Vec<Unread> {
    let mut found = Vec::new();
    let dir = directory(root, mount, uuid, devices);
    if let Some(dir) = &dir {
        collect(root, dir, "", DEPTH_MAX, detail, &mut found);
    }
    if let Some(dir) = dir.filter(|_| mount.fs_type == "btrfs") {
        detail.unallocated_bytes = unallocated_bytes(root, &dir, devices);
        detail.bdi_read_ahead_kib = root.value(dir.join("bdi/read_ahead_kb"));
    }
    // Of a filesystem on one device it is the queue's; those with a number of their own have their own.
    if mount.devno.major == 0 && detail.bdi_read_ahead_kib.is_none() {
        detail.bdi_read_ahead_kib =
            root.value(format!("sys/class/bdi/{}/read_ahead_kb", mount.devno));
    }
    found
}

fn directory(
    root: &SysRoot,
    mount: &Mount,
    uuid: Option<&str>,
    devices: &[&BlockDir],
) -> Option<PathBuf> {
    let kind = match mount.fs_type.as_str() {
        "btrfs" => return btrfs_dir(root, mount, uuid),
        "ext2" | "ext3" | "ext4" => "ext4",
        kind @ ("xfs" | "f2fs") => kind,
        _ => return None,
    };
    Some(Path::new("sys/fs").join(kind).join(devices.first()?.name()))
}

fn collect(
    root: &SysRoot,
    dir: &Path,
    prefix: &str,
    depth: usize,
    detail: &mut Detail,
    found: &mut Vec<Unread>,
) {
    let values = attributes(root, dir, |_| true);
    found.extend(values.unread.iter().map(|(path, error)| unread(path, error)));
    let room = ATTRIBUTES_MAX.saturating_sub(detail.filesystem.len());
    let named = values.values.into_iter().map(|(name, value)| (format!("{prefix}{name}"), value));
    detail.filesystem.extend(named.take(room));
    if depth == 1 {
        return;
    }
    for name in root.names(dir) {
        let below = dir.join(&name);
        // Links lead to what belongs to others.
        let inside = root.path(&below).is_dir() && root.link(&below).is_none();
        if inside && !LEFT_OUT.contains(&name.as_str()) {
            collect(root, &below, &format!("{prefix}{name}/"), depth - 1, detail, found);
        }
    }
}

/// What of the devices of a btrfs belongs to no chunk yet. `disk_total` counts all copies.
fn unallocated_bytes(root: &SysRoot, dir: &Path, devices: &[&BlockDir]) -> Option<u64> {
    let of = |kind: &str| root.value::<u64>(dir.join("allocation").join(kind).join("disk_total"));
    let allocated = of("data")?.checked_add(of("metadata")?)?.checked_add(of("system")?)?;
    let sizes: Option<Vec<u64>> = devices.iter().map(|device| device.size_bytes()).collect();
    let sum = sizes.filter(|sizes| !sizes.is_empty())?.into_iter();
    Some(sum.fold(0u64, u64::saturating_add).saturating_sub(allocated))
}
