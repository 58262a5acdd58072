//! Where the settings of an experiment apply.

use crate::site;
use fathom_inspect::filesystem::{self, Family};
use fathom_inspect::identity::device_id;
use fathom_model::change::knob::KnobPlace;
use fathom_model::plan::OwnKnob;
use fathom_model::stack::{NodeKind, Stack};
use fathom_sys::devno::DevNo;
use fathom_sys::mounts::Mount;
use fathom_sys::sysroot::SysRoot;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The devices of the stacks that are measured, their mounts, and the user's own settings; the machine always belongs to it.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// Of each stack from the top layer down.
    pub devices: &'a [ScopeDevice],
    /// The mounts that the targets lie on; none for a block device.
    pub mounts: &'a [ScopeMount],
    /// Settings of the user's own.
    pub own: &'a [OwnKnob],
}

/// A block device of the stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopeDevice {
    /// Kernel name.
    pub name: String,
    /// ID, as consent names it.
    pub id: String,
    /// Nothing of the stack lies above it.
    pub is_top: bool,
    /// Nothing of the stack lies below it: a disk.
    pub is_member: bool,
    /// It holds the file behind a loop device: other people's data are there too, so it is set only by its name.
    pub is_behind_file: bool,
}

impl ScopeDevice {
    /// As the journal names it.
    #[must_use]
    pub fn place(&self) -> KnobPlace {
        KnobPlace::Device { id: self.id.clone(), name: self.name.clone() }
    }
}

/// A mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopeMount {
    /// Where.
    pub mount_point: PathBuf,
    /// ID of the device below; of the first one where there are several. Without one the number of the mount and its source.
    pub device_id: String,
    /// Type of the filesystem.
    pub fs_type: String,
}

impl ScopeMount {
    /// As the journal names it.
    #[must_use]
    pub fn place(&self) -> KnobPlace {
        let (mount_point, device_id) = (self.mount_point.clone(), self.device_id.clone());
        KnobPlace::Mount { mount_point, device_id }
    }
}

/// A mount of a filesystem that lies on another machine, or in another process. Its number may be another's when it is gone, so the
/// source belongs to its identity, too. Nobody is asked but the kernel: a server may answer no more.
#[must_use]
pub fn of_remote(mount: &Mount) -> Option<ScopeMount> {
    let is_remote = mount.devno.major == 0 && filesystem::family(mount) == Family::Remote;
    is_remote.then(|| ScopeMount {
        mount_point: mount.mount_point.clone(),
        device_id: format!("{} {}", mount.devno, mount.source),
        fs_type: mount.fs_type.clone(),
    })
}

/// The devices and the mount of a stack. Partitions have no settings of their own and are passed over; devices below a loop
/// device's file are there, marked.
#[must_use]
pub fn of_stack(root: &SysRoot, stack: &Stack) -> (Vec<ScopeDevice>, Option<ScopeMount>) {
    let behind = behind_files(stack);
    let mut devices: Vec<ScopeDevice> = Vec::new();
    for node in stack.walk() {
        let Some(devno) = node.devno.as_deref().and_then(|text| text.parse::<DevNo>().ok()) else {
            continue;
        };
        let is_plain = !matches!(
            node.kind,
            NodeKind::Mount | NodeKind::FileSystem | NodeKind::Overlay | NodeKind::Partition
        );
        if is_plain && devices.iter().all(|known| known.name != node.name) {
            devices.push(ScopeDevice {
                name: node.name.clone(),
                id: device_id(root, devno).text,
                is_top: devices.is_empty(),
                is_member: is_lowest(stack, node.name.as_str()),
                is_behind_file: behind.contains(&node.name),
            });
        }
    }
    let mount = stack.top_node().filter(|top| top.kind == NodeKind::Mount);
    let mount = mount.and_then(|node| {
        let facts = node.mount.as_ref()?;
        let below = |node| stack.below(node).next();
        let filesystem = below(node)?;
        if filesystem.kind == NodeKind::Remote {
            return of_remote(&site::mount_at(root, Path::new(&facts.mount_point))?);
        }
        // The first device below it.
        let device = below(filesystem)?.devno.as_deref()?.parse().ok()?;
        Some(ScopeMount {
            mount_point: facts.mount_point.clone().into(),
            device_id: device_id(root, device).text,
            fs_type: facts.fs_type.clone(),
        })
    });
    (devices, mount)
}

/// Those of several stacks, such as a filesystem on each of several disks. What is set of a layer that they share is set once.
#[must_use]
pub fn of_stacks(root: &SysRoot, stacks: &[Stack]) -> (Vec<ScopeDevice>, Vec<ScopeMount>) {
    let (mut devices, mut mounts): (Vec<ScopeDevice>, Vec<ScopeMount>) = (Vec::new(), Vec::new());
    for stack in stacks {
        let (own, mount) = of_stack(root, stack);
        for device in own {
            match devices.iter_mut().find(|known| known.name == device.name) {
                Some(known) => {
                    known.is_top |= device.is_top;
                    known.is_behind_file &= device.is_behind_file;
                }
                None => devices.push(device),
            }
        }
        mounts.extend(mount.filter(|mount| !mounts.contains(mount)));
    }
    (devices, mounts)
}

/// True when no further block device of the same filesystem lies below, partitions not counted.
fn is_lowest(stack: &Stack, name: &str) -> bool {
    let Some(node) = stack.nodes.iter().find(|node| node.name == name && node.devno.is_some())
    else {
        return true;
    };
    matches!(node.kind, NodeKind::Loop | NodeKind::NvmeMultipath) || node.below.is_empty()
}

/// Names of the devices that lie below the file of a loop device and nowhere else in the stack.
fn behind_files(stack: &Stack) -> BTreeSet<String> {
    let mut direct = BTreeSet::new();
    let mut pending = vec![stack.top];
    let mut seen = BTreeSet::new();
    while let Some(index) = pending.pop() {
        let Some(node) = stack.nodes.get(index).filter(|_| seen.insert(index)) else { continue };
        direct.insert(node.name.clone());
        if node.kind != NodeKind::Loop {
            pending.extend(&node.below);
        }
    }
    stack.nodes.iter().map(|node| node.name.clone()).filter(|name| !direct.contains(name)).collect()
}
