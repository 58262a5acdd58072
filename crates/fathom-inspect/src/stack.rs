//! From a path to the graph of everything below it.

use crate::InspectError;
use crate::drive::drive_facts;
use crate::filesystem::{self, Family};
use crate::layers;
use crate::paths;
use fathom_model::stack::{Node, NodeKind, Stack};
use fathom_sys::devno::DevNo;
use fathom_sys::mounts::{self, Mount};
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Resolves a target (a file, a directory, a file yet to be made, a block device, or a link to any
/// of these) to the stack under it. Layers that cannot be read become [`NodeKind::Unknown`] or lack
/// facts: that is no error.
///
/// # Errors
/// [`InspectError`] when the path is no storage target at all: a missing directory or device, a
/// character device.
pub fn resolve(root: &SysRoot, path: &Path) -> Result<Stack, InspectError> {
    let resolved = paths::resolved(root, path)?;
    let device = target_device(root, &resolved)?;
    let mut builder = Builder::new(root);
    let top = match device {
        Some(device) => {
            let top = builder.block(&device);
            builder.nodes[top].mounted_at = builder.mounted_above(&device);
            top
        }
        None => builder.file(&resolved).ok_or_else(|| InspectError::NoMount(shown(&resolved)))?,
    };
    Ok(Stack { path: shown(path), resolved_path: shown(&resolved), nodes: builder.nodes, top })
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The block device that the resolved path names; none for files and directories.
fn target_device(root: &SysRoot, path: &Path) -> Result<Option<BlockDir>, InspectError> {
    if !root.is_live() {
        // A recorded tree holds no device nodes: the name decides.
        return Ok(paths::block_device(root, path));
    }
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return if path.starts_with("/dev") && !path.starts_with("/dev/shm") {
                Err(InspectError::NoDevice(shown(path)))
            } else if path.parent().is_some_and(Path::is_dir) {
                Ok(None)
            } else {
                Err(InspectError::NoParent(shown(path)))
            };
        }
        Err(error) => return Err(InspectError::io(path, error)),
    };
    let kind = metadata.file_type();
    if kind.is_block_device() {
        let devno = DevNo::from_raw(metadata.rdev());
        let found = BlockDir::by_devno(root, devno);
        return found.map(Some).ok_or_else(|| InspectError::NotInSysfs(shown(path), devno));
    }
    if kind.is_dir() || kind.is_file() {
        return Ok(None);
    }
    let what = if kind.is_char_device() { "a character device" } else { "a pipe or socket" };
    Err(InspectError::NotStorage(shown(path), what))
}

/// Collects nodes; each layer once, found again by its key.
struct Builder<'a> {
    root: &'a SysRoot,
    mounts: Vec<Mount>,
    nodes: Vec<Node>,
    known: BTreeMap<String, usize>,
}

impl<'a> Builder<'a> {
    fn new(root: &'a SysRoot) -> Self {
        let mounts = mounts::own_mounts(root);
        Self { root, mounts, nodes: Vec::new(), known: BTreeMap::new() }
    }

    /// The index of the node with this key, and whether it was there already. New nodes are entered
    /// before what is below them is looked at, so that a circle ends.
    fn entry(&mut self, key: String, make: impl FnOnce() -> Node) -> (usize, bool) {
        if let Some(&index) = self.known.get(&key) {
            return (index, true);
        }
        self.nodes.push(make());
        let index = self.nodes.len() - 1;
        self.known.insert(key, index);
        (index, false)
    }

    /// The mount that holds a resolved path, with all below.
    fn file(&mut self, path: &Path) -> Option<usize> {
        let mount = self.mount_of(path)?.clone();
        let point = shown(&mount.mount_point);
        let (index, known) = self.entry(format!("mount {point}"), || {
            let mut node = Node::new(NodeKind::Mount, point.clone());
            node.path = Some(point);
            node.mount = Some(filesystem::mount_facts(&mount));
            node
        });
        if !known {
            let below = self.filesystem(&mount, path);
            self.nodes[index].below = vec![below];
            self.add_effective_options(index, below);
        }
        Some(index)
    }

    /// The mount that holds a resolved path. The longest mount point is not always it: a later mount further up hides
    /// those below it. So the number of the filesystem decides where it can be asked; where no mount has
    /// that number (subvolumes of btrfs have their own), the path does.
    fn mount_of(&self, path: &Path) -> Option<&Mount> {
        let by_path = mounts::mount_of(&self.mounts, path)?;
        if !self.root.is_live() {
            return Some(by_path);
        }
        let Ok(metadata) = std::fs::metadata(nearest_existing(path)) else { return Some(by_path) };
        let devno = DevNo::from_raw(metadata.dev());
        let holding = self.mounts.iter().filter(|m| m.devno == devno);
        let holding = holding.filter(|m| path.starts_with(&m.mount_point));
        Some(holding.max_by_key(|m| m.mount_point.components().count()).unwrap_or(by_path))
    }

    /// The options in force of the filesystem below a mount node, which are listed by the name of
    /// its device.
    fn add_effective_options(&mut self, mount: usize, fs: usize) {
        let device = self.nodes[fs].below.first().map(|&below| self.nodes[below].name.clone());
        let kind = self.nodes[fs].name.clone();
        let Some(options) =
            device.and_then(|d| filesystem::effective_options(self.root, &kind, &d))
        else {
            return;
        };
        if let Some(facts) = self.nodes[fs].fs.as_mut() {
            // With a journal there is always a word on how data and journal go together.
            let journal = options.iter().any(|option| option.starts_with("data="));
            facts.journal = facts.journal.or(Some(journal));
        }
        if let Some(facts) = self.nodes[mount].mount.as_mut() {
            facts.effective_options = options;
        }
    }

    fn filesystem(&mut self, mount: &Mount, target: &Path) -> usize {
        let family = filesystem::family(mount);
        let kind = match family {
            Family::Memory => NodeKind::Memory,
            Family::Remote => NodeKind::Remote,
            Family::Overlay => NodeKind::Overlay,
            Family::Kernel => NodeKind::Unknown,
            Family::Device => NodeKind::FileSystem,
        };
        let key = format!("fs {} {}", mount.devno, mount.fs_type);
        let (index, known) = self.entry(key, || Node::new(kind, mount.fs_type.clone()));
        if known {
            return index;
        }
        let mut facts = filesystem::general_facts(self.root, mount, target);
        self.nodes[index].path = (kind == NodeKind::Remote).then(|| mount.source.clone());
        let below = match family {
            Family::Device => {
                let devices = filesystem::devices(self.root, mount, &facts);
                filesystem::add_geometry(self.root, mount, target, &devices, &mut facts);
                if devices.is_empty() {
                    vec![self.unknown(&mount.source)]
                } else {
                    devices.iter().map(|device| self.block(device)).collect()
                }
            }
            Family::Overlay => self.overlay_below(mount),
            Family::Memory | Family::Remote | Family::Kernel => Vec::new(),
        };
        self.nodes[index].below = below;
        self.nodes[index].fs = Some(facts);
        index
    }

    /// What holds the upper directory of an overlay (the lowest of a read-only one), when this
    /// namespace sees it.
    fn overlay_below(&mut self, mount: &Mount) -> Vec<usize> {
        let Some(directory) = filesystem::overlay_directory(&mount.super_options) else {
            return Vec::new();
        };
        let Ok(path) = paths::resolved(self.root, &directory) else { return Vec::new() };
        // In a container the directory lies outside of what can be seen: the path then leads back
        // to the overlay itself, or to a directory that does not exist.
        let back = mounts::mount_of(&self.mounts, &path).is_none_or(|m| m.devno == mount.devno);
        if back || (self.root.is_live() && !path.is_dir()) {
            return vec![self.unknown(&shown(&directory))];
        }
        self.file(&path).into_iter().collect()
    }

    fn unknown(&mut self, name: &str) -> usize {
        self.entry(format!("unknown {name}"), || Node::new(NodeKind::Unknown, name)).0
    }

    /// A block device and everything below it.
    fn block(&mut self, device: &BlockDir) -> usize {
        let (root, kind) = (self.root, layers::kind(device));
        let (index, known) = self.entry(format!("block {}", device.name()), || {
            let mut node = Node::new(kind, device.name());
            node.devno = device.devno().map(|devno| devno.to_string());
            node.path = node.devno.is_some().then(|| device.dev_path());
            node.size_bytes = device.size_bytes();
            node.read_only = device.flag("ro");
            node.alignment_offset_bytes = device.value("alignment_offset");
            node.queue = layers::queue_facts(device);
            match kind {
                NodeKind::Partition => node.partition = Some(layers::partition_facts(root, device)),
                NodeKind::Md => node.md = Some(layers::md_facts(root, device)),
                NodeKind::Dm => node.dm = Some(layers::dm_facts(root, device)),
                NodeKind::Loop => node.loop_device = layers::loop_facts(root, device),
                NodeKind::Zram => node.zram = Some(layers::zram_facts(device)),
                NodeKind::Disk | NodeKind::NvmeMultipath => {
                    node.drive = Some(drive_facts(root, device));
                }
                _ => {}
            }
            node
        });
        if !known {
            let below = self.below_block(device, index);
            self.nodes[index].below = below;
        }
        index
    }

    fn below_block(&mut self, device: &BlockDir, index: usize) -> Vec<usize> {
        let devices = match self.nodes[index].kind {
            NodeKind::Partition => device.disk().into_iter().collect(),
            NodeKind::Loop => return self.backing_file(index).into_iter().collect(),
            NodeKind::NvmeMultipath => nvme_paths(self.root, device),
            NodeKind::Zram => {
                let path = self.nodes[index].zram.as_ref().and_then(|z| z.backing_device.clone());
                path.and_then(|p| paths::block_device(self.root, Path::new(&p)))
                    .into_iter()
                    .collect()
            }
            _ => device.slaves(),
        };
        devices.iter().map(|below| self.block(below)).collect()
    }

    /// What holds the backing file of a loop device; a backing file can be a block device as well.
    fn backing_file(&mut self, index: usize) -> Option<usize> {
        let path = self.nodes[index].loop_device.as_ref()?.backing_file.clone()?;
        if path.ends_with(" (deleted)") {
            return Some(self.unknown(&path));
        }
        let resolved = paths::resolved(self.root, Path::new(&path)).ok()?;
        match target_device(self.root, &resolved) {
            Ok(Some(device)) => Some(self.block(&device)),
            Ok(None) => self.file(&resolved),
            Err(_) => Some(self.unknown(&path)),
        }
    }

    /// Where the filesystems on a device, its partitions and everything made of these are mounted,
    /// in any namespace.
    fn mounted_above(&self, device: &BlockDir) -> Vec<String> {
        let mut above: BTreeMap<String, BlockDir> = BTreeMap::new();
        let mut pending = vec![device.clone()];
        while let Some(next) = pending.pop() {
            if !above.contains_key(next.name()) {
                pending.extend(next.partitions());
                pending.extend(next.holders());
                above.insert(next.name().to_owned(), next);
            }
        }
        let numbers: Vec<DevNo> = above.values().filter_map(BlockDir::devno).collect();
        let everywhere = mounts::all_mounts(self.root).into_iter().map(|(_, mount)| mount);
        let mut points: Vec<String> = Vec::new();
        for mount in self.mounts.iter().cloned().chain(everywhere) {
            let direct = numbers.contains(&mount.devno);
            let through = || {
                mount.devno.major == 0
                    && filesystem::family(&mount) == Family::Device
                    && filesystem::member_names(self.root, &mount)
                        .iter()
                        .any(|name| above.contains_key(name))
            };
            let point = shown(&mount.mount_point);
            if !points.contains(&point) && (direct || through()) {
                points.push(point);
            }
        }
        points
    }
}

/// The paths (`nvme0c1n1`) of an NVMe namespace (`nvme0n1`) that is reached over several
/// controllers.
fn nvme_paths(root: &SysRoot, head: &BlockDir) -> Vec<BlockDir> {
    let Some((subsystem, namespace)) = head.name().rsplit_once('n') else { return Vec::new() };
    let is_path = |name: &&String| {
        let middle = name.strip_prefix(subsystem).and_then(|rest| rest.strip_prefix('c'));
        middle.and_then(|rest| rest.split_once('n')).is_some_and(|(controller, last)| {
            last == namespace && controller.bytes().all(|b| b.is_ascii_digit())
        })
    };
    let names = root.names("sys/block");
    names.iter().filter(is_path).filter_map(|name| BlockDir::by_name(root, name)).collect()
}

/// The path itself or the nearest directory above it that exists: what can be opened and asked
/// about a target that is yet to be made, and what a store's place can be resolved by before it is
/// made.
#[must_use]
pub fn nearest_existing(path: &Path) -> PathBuf {
    path.ancestors().find(|p| p.exists()).unwrap_or(Path::new("/")).to_path_buf()
}
