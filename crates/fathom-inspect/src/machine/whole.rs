//! Entering everything that a machine has: block devices first, then the mounts of all namespaces.

use crate::detail::block::{self, Known};
use crate::detail::why;
use crate::filesystem::{self, Family};
use crate::graph::{Builder, as_seen, mount_key, shown};
use crate::layers;
use crate::parallel;
use fathom_model::snapshot::Unread;
use fathom_model::stack::{Node, NodeKind};
use fathom_sys::devno::DevNo;
use fathom_sys::mounts::{self, Mount};
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Where the kernel lists block devices.
const BLOCK_DEVICES: &str = "sys/class/block";

/// Enters all, and says what could not be read.
pub(super) fn enter(root: &SysRoot, builder: &mut Builder) -> Vec<Unread> {
    let (others, refused) = mounts::other_namespaces(root);
    let everywhere = builder.mounts.iter().chain(others.iter().flat_map(|other| &other.mounts));
    let numbers: BTreeSet<DevNo> = everywhere.map(|mount| mount.devno).collect();
    let mut unread = enter_devices(root, builder, &numbers);
    if refused > 0 {
        let what = format!("mounts of {refused} processes");
        unread.push(Unread { what, why: "no permission".to_owned() });
    }
    let made_up = made_up_types(root);
    let mut places = enter_own_mounts(root, builder, &made_up, &mut unread);
    for other in &others {
        let label = format!("{} {}", other.pid, other.process);
        for mount in other.mounts.iter().filter(|mount| counts_elsewhere(mount, &made_up)) {
            let place = Place::of(mount);
            let index = *places.entry(place).or_insert_with(|| {
                let key = format!("mount {} of {}", mount.mount_point.display(), other.pid);
                let index = builder.mount(format!("{key} {}", mount.id), mount, None);
                let point = shown(&mount.mount_point);
                builder.nodes[index].path = Some(as_seen(&point, &label));
                index
            });
            let seen = &mut builder.nodes[index].detail.get_or_insert_default().other_namespaces;
            if !seen.contains(&label) {
                seen.push(label.clone());
            }
        }
    }
    unread
}

/// What makes mounts of two namespaces the same: the filesystem, the part of it, the place.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    devno: DevNo,
    root: PathBuf,
    point: PathBuf,
}

impl Place {
    fn of(mount: &Mount) -> Self {
        let (root, point) = (mount.root.clone(), mount.mount_point.clone());
        Self { devno: mount.devno, root, point }
    }
}

/// Said where the kernel's list of block devices is not there, as in a chroot.
pub(super) fn without_devices(root: &SysRoot) -> Option<Unread> {
    let what = format!("/{BLOCK_DEVICES}");
    let why = "not there, so no block device is seen: is sysfs mounted?".to_owned();
    (!root.exists(BLOCK_DEVICES)).then_some(Unread { what, why })
}

/// Enters every block device that has a size or a use; `mounted` are the numbers of mounted filesystems.
fn enter_devices(root: &SysRoot, builder: &mut Builder, mounted: &BTreeSet<DevNo>) -> Vec<Unread> {
    let swaps = mounts::swap_areas(root);
    let names = root.names(BLOCK_DEVICES);
    let numbered = by_name(root);
    let known = Known::new(root, builder.links);
    // All that sysfs says of a device is read while its directory is open.
    let found = parallel::map(&names, parallel::processors(), |name| {
        let held = numbered.get(name).map(BlockDir::held).filter(BlockDir::is_held);
        let device = held.or_else(|| BlockDir::by_name(root, name).map(|device| device.held()))?;
        let node = layers::block_node(root, &device);
        let used = has_use(&device, &node, mounted, &swaps);
        let details = used.then(|| Box::new(block::read(&known, &device, &node)));
        Some((device.released(), Box::new(node), details))
    });
    let mut unread = Vec::new();
    let mut entered = Vec::new();
    for (name, found) in names.iter().zip(found) {
        match found {
            None => {
                let what = format!("/sys/class/block/{name}");
                unread.push(Unread { what, why: "vanished".to_owned() });
            }
            Some((device, node, Some(details))) => {
                let index = builder.enter_ready(device, *node);
                builder.details.insert(index, details);
                entered.push(index);
            }
            Some((_, _, None)) => {}
        }
    }
    entered.into_iter().for_each(|index| builder.connect(index));
    unread
}

/// Devices by their kernel names, with their numbers. Those that are hidden, such as paths of NVMe, have none.
fn by_name(root: &SysRoot) -> BTreeMap<String, BlockDir> {
    let numbers = root.names("sys/dev/block");
    let devices = parallel::map(&numbers, parallel::processors(), |number| {
        BlockDir::listed_by_number(root, number)
    });
    devices.into_iter().flatten().map(|device| (device.name().to_owned(), device)).collect()
}

fn has_use(device: &BlockDir, node: &Node, mounted: &BTreeSet<DevNo>, swaps: &[PathBuf]) -> bool {
    let sized = node.size_bytes.is_some_and(|bytes| bytes > 0);
    let used = || {
        device.devno().is_some_and(|number| mounted.contains(&number))
            || swaps.iter().any(|swap| swap == Path::new(&device.dev_path()))
            || !device.names("holders").is_empty()
            || !device.names("slaves").is_empty()
    };
    match node.kind {
        NodeKind::Loop => node.loop_device.is_some(),
        // They are there on every machine, as large as they were once set.
        NodeKind::Ram => used(),
        _ => sized || used(),
    }
}

/// Types of filesystems that lie on no device and are not known by name: `/proc/filesystems` calls them `nodev`.
fn made_up_types(root: &SysRoot) -> BTreeSet<String> {
    /// Those that lie on devices all the same.
    const ON_DEVICES: [&str; 3] = ["zfs", "ubifs", "btrfs"];
    let text = root.read("proc/filesystems").unwrap_or_default();
    let types = text.lines().filter_map(|line| line.strip_prefix("nodev")).map(str::trim);
    types.filter(|kind| !ON_DEVICES.contains(kind)).map(str::to_owned).collect()
}

/// False for filesystems that the kernel makes up, or that only show what other processes have to say.
fn counts(mount: &Mount, made_up: &BTreeSet<String>) -> bool {
    const MADE_UP: [&str; 9] = [
        "devtmpfs",
        "hugetlbfs",
        "nsfs",
        "nfsd",
        "selinuxfs",
        "smackfs",
        "fuse.lxcfs",
        "fuse.portal",
        "fuse.gvfsd-fuse",
    ];
    let kind = mount.fs_type.as_str();
    let fits = match filesystem::family(mount) {
        Family::Kernel => false,
        Family::Device => !made_up.contains(kind),
        // Of the kernel's own directories only this one is for users' files.
        Family::Memory => {
            let point = &mount.mount_point;
            let kernels = ["/sys", "/proc", "/dev"].iter().any(|dir| point.starts_with(dir));
            !kernels || point == Path::new("/dev/shm")
        }
        Family::Remote | Family::Overlay => true,
    };
    fits && !MADE_UP.contains(&kind)
}

/// Of other namespaces the private directories in memory are left out too: every service has some.
fn counts_elsewhere(mount: &Mount, made_up: &BTreeSet<String>) -> bool {
    counts(mount, made_up) && filesystem::family(mount) != Family::Memory
}

/// Enters what this process sees: what can be reached by its path first, then what others hide.
fn enter_own_mounts(
    root: &SysRoot,
    builder: &mut Builder,
    made_up: &BTreeSet<String>,
    unread: &mut Vec<Unread>,
) -> BTreeMap<Place, usize> {
    let held_back = held_back(&builder.nodes);
    let all = builder.mounts.clone();
    let hidden = mounts::hidden(&all);
    let mut places = BTreeMap::new();
    for second_time in [false, true] {
        let counted = all.iter().zip(&hidden).filter(|(mount, _)| counts(mount, made_up));
        // Whatever lies in memory and cannot be reached by a path is nobody's storage.
        let counted = counted.filter(|(mount, hidden)| {
            **hidden == second_time && !(**hidden && filesystem::family(mount) == Family::Memory)
        });
        for (mount, _) in counted {
            let number = mount.devno.to_string();
            let answers = builder.may_ask(mount);
            if !answers && !second_time && mounts::may_be_asked(&mount.fs_type) {
                let what = format!("space of {}", shown(&mount.mount_point));
                unread.push(Unread { what, why: "behind another machine: not asked".to_owned() });
            }
            let asked = !second_time && answers && !held_back.contains(&number);
            let target = asked.then_some(mount.mount_point.as_path());
            if asked && !filesystem::is_reached(root, mount, &mount.mount_point) {
                let what = format!("space of {}", shown(&mount.mount_point));
                let refused = std::fs::metadata(&mount.mount_point).err();
                let why = refused.map_or_else(|| "vanished".to_owned(), |error| why(&error));
                unread.push(Unread { what, why });
            }
            let key = mount_key(mount);
            let key = if second_time { format!("{key} hidden {}", mount.id) } else { key };
            let index = builder.mount(key, mount, target);
            if second_time {
                let point = shown(&mount.mount_point);
                builder.nodes[index].path = Some(format!("{point} (hidden by another mount)"));
            }
            places.insert(Place::of(mount), index);
        }
    }
    places
}

/// The numbers of devices whose I/O device-mapper holds back, there or further down.
fn held_back(nodes: &[Node]) -> BTreeSet<String> {
    let suspended = |node: &Node| node.dm.as_ref().and_then(|dm| dm.suspended) == Some(true);
    let mut above: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        node.below.iter().for_each(|&below| above[below].push(index));
    }
    let mut held = vec![false; nodes.len()];
    let mut pending: Vec<usize> = (0..nodes.len()).filter(|&i| suspended(&nodes[i])).collect();
    while let Some(index) = pending.pop() {
        if !std::mem::replace(&mut held[index], true) {
            pending.extend(&above[index]);
        }
    }
    let nodes = nodes.iter().zip(held).filter(|(_, held)| *held);
    nodes.filter_map(|(node, _)| node.devno.clone()).collect()
}
