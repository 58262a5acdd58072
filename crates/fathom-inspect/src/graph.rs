//! The graph while it is put together: each layer is entered once, whoever comes to it first.

use crate::detail::block::Found;
use crate::detail::space;
use crate::filesystem::{self, Family};
use crate::layers;
use crate::links::Links;
use crate::paths;
use crate::stack::{INPUT_OUTPUT_ERROR, nearest_existing, target_device};
use crate::udev;
use fathom_model::snapshot::Reached;
use fathom_model::stack::{FsFacts, Node, NodeKind};
use fathom_sys::devno::DevNo;
use fathom_sys::fsinfo;
use fathom_sys::mounts::{self, Mount};
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// Layers below each other. No kernel stacks this many; a recorded tree may say so.
const LAYERS_MAX: usize = 64;

/// How far questions go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The stack of a record: superblocks of its filesystems are read at once.
    Record,
    /// A machine, whose devices nobody may touch before they were asked whether they sleep.
    Machine,
}

/// Collects nodes, found again by their keys.
pub(crate) struct Builder<'a> {
    pub(crate) root: &'a SysRoot,
    reach: Reach,
    pub(crate) links: &'a Links,
    /// The mounts that this process sees.
    pub(crate) mounts: Vec<Mount>,
    /// All layers so far.
    pub(crate) nodes: Vec<Node>,
    /// The devices behind those of them that are block devices.
    pub(crate) devices: BTreeMap<usize, BlockDir>,
    /// What else is known of those of them that were read in full.
    pub(crate) details: BTreeMap<usize, Box<Found>>,
    /// The first mounts of those that are filesystems.
    pub(crate) filesystems: BTreeMap<usize, Mount>,
    /// Filesystems that may be asked for their space only when their devices may be read, and through what.
    pub(crate) spaces: Vec<(usize, PathBuf)>,
    known: HashMap<String, usize>,
    /// The devices among the nodes, by their numbers.
    numbers: BTreeMap<DevNo, usize>,
    nvme_paths: OnceCell<BTreeMap<String, Vec<String>>>,
    pools: OnceCell<BTreeMap<String, Vec<BlockDir>>>,
    /// Where filesystems are mounted that may not answer.
    waiting: OnceCell<Vec<PathBuf>>,
    depth: usize,
}

/// True when the filesystem at a path answers everything with an error.
fn gives_no_answer(path: &Path) -> bool {
    let error = std::fs::metadata(path).err();
    error.is_some_and(|error| error.raw_os_error() == Some(INPUT_OUTPUT_ERROR))
}

impl<'a> Builder<'a> {
    pub(crate) fn new(root: &'a SysRoot, links: &'a Links, reach: Reach) -> Self {
        Self {
            root,
            reach,
            links,
            mounts: mounts::own_mounts(root),
            nodes: Vec::new(),
            devices: BTreeMap::new(),
            details: BTreeMap::new(),
            filesystems: BTreeMap::new(),
            spaces: Vec::new(),
            known: HashMap::new(),
            numbers: BTreeMap::new(),
            nvme_paths: OnceCell::new(),
            pools: OnceCell::new(),
            waiting: OnceCell::new(),
            depth: 0,
        }
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
    pub(crate) fn file(&mut self, path: &Path) -> Option<usize> {
        let mount = self.mount_of(path)?.clone();
        let key = mount_key(&mount);
        Some(self.mount(key, &mount, Some(path)))
    }

    /// A mount with all below. Its filesystem is asked for its facts through `target`, which lies inside of it.
    pub(crate) fn mount(&mut self, key: String, mount: &Mount, target: Option<&Path>) -> usize {
        let point = shown(&mount.mount_point);
        let (index, known) = self.entry(key, || {
            let mut node = Node::new(NodeKind::Mount, point.clone());
            node.path = Some(point);
            node.mount = Some(filesystem::mount_facts(mount));
            node
        });
        if !known {
            let below = self.deeper(|builder| builder.filesystem(mount, target));
            self.nodes[index].below = vec![below];
            self.add_effective_options(index, below);
            if self.is_shut_down(mount)
                && let Some(facts) = self.nodes[index].mount.as_mut()
            {
                facts.super_options.push("shutdown".to_owned());
            }
        }
        index
    }

    /// XFS does not say among its options that it has shut itself down, as ext4 does, but answers everything with an error.
    fn is_shut_down(&self, mount: &Mount) -> bool {
        let is_asked = self.root.is_live() && mount.fs_type == "xfs" && self.may_ask(mount);
        is_asked && gives_no_answer(&mount.mount_point)
    }

    /// The mount that holds a resolved path. The longest mount point is not always it: a later mount further up hides
    /// those below it. So the number of the filesystem decides where it can be asked; where no mount has
    /// that number (subvolumes of btrfs have their own), the path does.
    fn mount_of(&self, path: &Path) -> Option<&Mount> {
        let by_path = mounts::mount_of(&self.mounts, path)?;
        if !self.root.is_live() {
            return Some(by_path);
        }
        // What exists above a filesystem that answers nothing is another one's.
        if gives_no_answer(path) {
            return Some(by_path);
        }
        let Ok(metadata) = std::fs::metadata(nearest_existing(path)) else { return Some(by_path) };
        let devno = DevNo::from_raw(std::os::unix::fs::MetadataExt::dev(&metadata));
        let holding = self.mounts.iter().filter(|m| m.devno == devno);
        let holding = holding.filter(|m| path.starts_with(&m.mount_point));
        Some(holding.max_by_key(|m| m.mount_point.components().count()).unwrap_or(by_path))
    }

    /// True when neither the way to a mount nor an answer of its filesystem has to wait for another machine or process.
    pub(crate) fn may_ask(&self, mount: &Mount) -> bool {
        let layers = match filesystem::family(mount) {
            Family::Overlay => mount.super_options.as_str(),
            _ => "",
        };
        self.waiting_for(&mount.mount_point).is_none()
            && filesystem::overlay_layers(layers).all(|layer| self.waiting_for(layer).is_none())
    }

    /// As [`mounts::waiting_for`]; on most machines nothing keeps one waiting.
    fn waiting_for(&self, path: &Path) -> Option<&Mount> {
        let waits = |mount: &Mount| !mounts::may_be_asked(&mount.fs_type);
        let waiting = self.waiting.get_or_init(|| {
            let all = self.mounts.iter().filter(|mount| waits(mount));
            all.map(|mount| mount.mount_point.clone()).collect()
        });
        if !waiting.iter().any(|point| path.starts_with(point)) {
            return None;
        }
        mounts::waiting_for(&self.mounts, path)
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

    fn filesystem(&mut self, mount: &Mount, target: Option<&Path>) -> usize {
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
        self.filesystems.insert(index, mount.clone());
        let mut facts = filesystem::general_facts(self.root, mount, target);
        if let Some(target) = target {
            if self.reach == Reach::Machine && space::is_read_for(&mount.fs_type) {
                self.spaces.push((index, target.to_path_buf()));
            } else {
                filesystem::add_space(self.root, mount, target, &mut facts);
            }
        }
        self.nodes[index].path = (kind == NodeKind::Remote).then(|| mount.source.clone());
        let below = match family {
            Family::Device => {
                let mut devices = self.filesystem_devices(mount, &facts);
                if devices.is_empty() && self.reach == Reach::Machine {
                    devices = self.pool_members(mount);
                }
                self.add_device_facts(mount, target, &devices, &mut facts);
                if devices.is_empty() {
                    vec![self.unknown(&mount.source)]
                } else {
                    devices.iter().map(|device| self.block(device)).collect()
                }
            }
            Family::Overlay => self.overlay_below(mount, target),
            Family::Memory | Family::Remote | Family::Kernel => Vec::new(),
        };
        self.nodes[index].below = below;
        self.nodes[index].fs = Some(facts);
        if self.reach == Reach::Machine {
            for device in filesystem::devices_beside(self.root, mount) {
                self.block(&device);
            }
        }
        index
    }

    /// The devices of a filesystem; one that was entered is known by its number.
    fn filesystem_devices(&self, mount: &Mount, facts: &FsFacts) -> Vec<BlockDir> {
        let number = Some(mount.devno).filter(|n| n.major != 0 && mount.fs_type != "btrfs");
        let known = number.and_then(|number| self.devices.get(self.numbers.get(&number)?));
        match known {
            Some(device) => vec![device.clone()],
            None => filesystem::devices(self.root, mount, facts),
        }
    }

    fn add_device_facts(
        &self,
        mount: &Mount,
        target: Option<&Path>,
        devices: &[BlockDir],
        facts: &mut FsFacts,
    ) {
        filesystem::add_geometry(self.root, mount, target, devices, facts);
        let Some(device) = devices.first() else { return };
        let reads = self.reach == Reach::Record && self.root.is_live();
        if reads && !layers::is_suspended(device) {
            filesystem::add_superblock(device, fsinfo::EXT_DESCRIPTOR_BYTES_MAX, facts);
        }
        filesystem::add_names(self.root, device, self.links, facts);
    }

    /// The members of the pool of a ZFS mount: what udev calls a member and by the name of the pool.
    fn pool_members(&self, mount: &Mount) -> Vec<BlockDir> {
        if mount.fs_type != "zfs" {
            return Vec::new();
        }
        let pools = self.pools.get_or_init(|| zfs_members(self.root));
        let pool = mount.source.split('/').next().unwrap_or_default();
        pools.get(pool).cloned().unwrap_or_default()
    }

    /// What holds the directories of an overlay: the one that is written first. A record has only the one that its target
    /// lies in. Of those that this namespace does not see the first is named.
    fn overlay_below(&mut self, mount: &Mount, target: Option<&Path>) -> Vec<usize> {
        let all: Vec<PathBuf> =
            filesystem::overlay_layers(&mount.super_options).map(Path::to_path_buf).collect();
        let holding = match self.reach {
            Reach::Record => self.holding_layer(mount, &all, target),
            Reach::Machine => &all,
        };
        let (mut below, mut has_unseen) = (Vec::new(), false);
        for directory in holding {
            let index = self.overlay_layer(mount, directory);
            let is_unseen = self.nodes[index].kind == NodeKind::Unknown;
            if !(below.contains(&index) || is_unseen && has_unseen) {
                below.push(index);
            }
            has_unseen |= is_unseen;
            // Where the first one is elsewhere, the names of the others mean something elsewhere too.
            if is_unseen && below.len() == 1 {
                break;
            }
        }
        below
    }

    /// The layer of an overlay that holds a file: the first one where it is. All else is written to the first of all.
    fn holding_layer<'d>(
        &self,
        mount: &Mount,
        all: &'d [PathBuf],
        target: Option<&Path>,
    ) -> &'d [PathBuf] {
        let is_file = |path: &Path| self.root.path(path).is_file();
        let within = target.filter(|target| is_file(target));
        let within = within.and_then(|target| target.strip_prefix(&mount.mount_point).ok());
        let shown = mount.root.strip_prefix("/").unwrap_or(&mount.root);
        let holds =
            |layer: &PathBuf| within.is_some_and(|file| is_file(&layer.join(shown).join(file)));
        let at = all.iter().position(holds).unwrap_or(0);
        all.get(at..=at).unwrap_or_default()
    }

    fn overlay_layer(&mut self, mount: &Mount, directory: &Path) -> usize {
        let name = shown(directory);
        if directory.is_relative() {
            return self.unknown(&format!("directory {name}, relative to an unknown one"));
        }
        if let Some(mount) = self.not_asked(directory) {
            return self.mount(mount_key(&mount), &mount, None);
        }
        let Ok(path) = paths::resolved(self.root, directory) else { return self.unknown(&name) };
        // In a container the directory lies outside of what can be seen: the path then leads back
        // to the overlay itself, or to a directory that does not exist.
        let back = mounts::mount_of(&self.mounts, &path).is_none_or(|m| m.devno == mount.devno);
        if back || (self.root.is_live() && !path.is_dir()) {
            return self.unknown(&name);
        }
        self.file(&path).unwrap_or_else(|| self.unknown(&name))
    }

    /// The mount of a path that is not looked at. Of a single target is not spared what will be used anyhow.
    pub(crate) fn not_asked(&self, path: &Path) -> Option<Mount> {
        let mount = self.waiting_for(path).filter(|_| self.reach == Reach::Machine);
        mount.cloned()
    }

    fn unknown(&mut self, name: &str) -> usize {
        self.entry(format!("unknown {name}"), || Node::new(NodeKind::Unknown, name)).0
    }

    /// Goes one layer down; too far down the rest is unknown.
    fn deeper(&mut self, go: impl FnOnce(&mut Self) -> usize) -> usize {
        if self.depth == LAYERS_MAX {
            return self.unknown("deeper than 64 layers");
        }
        self.depth += 1;
        let found = go(self);
        self.depth -= 1;
        found
    }

    /// A block device and everything below it.
    pub(crate) fn block(&mut self, device: &BlockDir) -> usize {
        let (index, known) = self.enter(device);
        if !known {
            self.connect(index);
        }
        index
    }

    /// Enters a block device whose facts were read before, without what is below it.
    pub(crate) fn enter_ready(&mut self, device: BlockDir, facts: Node) -> usize {
        let (index, known) = self.entry(block_key(device.name()), || facts);
        if !known {
            self.numbers.extend(device.devno().map(|number| (number, index)));
            self.devices.insert(index, device);
        }
        index
    }

    fn enter(&mut self, device: &BlockDir) -> (usize, bool) {
        let root = self.root;
        let key = block_key(device.name());
        let (index, known) = self.entry(key, || layers::block_node(root, device));
        if !known {
            self.devices.insert(index, device.clone());
        }
        (index, known)
    }

    /// Adds what is below a block device.
    pub(crate) fn connect(&mut self, index: usize) {
        let Some(device) = self.devices.get(&index).cloned() else { return };
        let devices = match self.nodes[index].kind {
            NodeKind::Partition => device.disk_of_partition().into_iter().collect(),
            NodeKind::Loop => {
                self.nodes[index].below = self.backing_file(index).into_iter().collect();
                return;
            }
            NodeKind::NvmeMultipath => self.nvme_paths(&device),
            NodeKind::Zram => {
                let path = self.nodes[index].zram.as_ref().and_then(|z| z.backing_device.clone());
                path.and_then(|p| paths::block_device(self.root, Path::new(&p)))
                    .into_iter()
                    .collect()
            }
            _ => self.slaves(index, &device),
        };
        let below =
            devices.iter().map(|below| self.deeper(|builder| builder.block(below))).collect();
        self.nodes[index].below = below;
    }

    /// What a device is made of, as it was read with its attributes or is read now.
    fn slaves(&self, index: usize, device: &BlockDir) -> Vec<BlockDir> {
        let Some(found) = self.details.get(&index) else { return device.slaves() };
        let known = |name: &str| self.devices.get(self.known.get(&block_key(name))?).cloned();
        let by_name = |name: &String| known(name).or_else(|| BlockDir::by_name(self.root, name));
        found.slaves.iter().filter_map(by_name).collect()
    }

    /// What holds the backing file of a loop device, whose size is asked; a backing file can be a block device as well.
    fn backing_file(&mut self, index: usize) -> Option<usize> {
        let path = self.nodes[index].loop_device.as_ref()?.backing_file.clone()?;
        if path.ends_with(" (deleted)") {
            return Some(self.unknown(&path));
        }
        if let Some(mount) = self.not_asked(Path::new(&path)) {
            return Some(self.mount(mount_key(&mount), &mount, None));
        }
        if let Some(facts) = self.nodes[index].loop_device.as_mut() {
            layers::add_backing_size(self.root, facts);
        }
        let resolved = paths::resolved(self.root, Path::new(&path)).ok()?;
        match target_device(self.root, &resolved) {
            Ok(Some(device)) => Some(self.deeper(|builder| builder.block(&device))),
            Ok(None) => self.file(&resolved),
            Err(_) => Some(self.unknown(&path)),
        }
    }

    /// Takes loop devices off what stands on themselves: the name of such a file leads to another one since something was
    /// mounted over it, and where its own lies cannot be seen.
    pub(crate) fn break_circles(&mut self) {
        for index in 0..self.nodes.len() {
            let is_loop = self.nodes[index].kind == NodeKind::Loop;
            if !is_loop || !self.nodes[index].below.iter().any(|&below| self.reaches(below, index))
            {
                continue;
            }
            let Some(facts) = self.nodes[index].loop_device.as_mut() else { continue };
            (facts.backing_size_bytes, facts.backing_allocated_bytes) = (None, None);
            let path = facts.backing_file.clone().unwrap_or_default();
            self.nodes[index].below = vec![self.unknown(&format!("{path}, which a mount hides"))];
        }
    }

    fn reaches(&self, from: usize, wanted: usize) -> bool {
        let (mut reached, mut pending) = (Reached::default(), vec![from]);
        while let Some(next) = pending.pop() {
            if reached.add(next) {
                pending.extend(&self.nodes[next].below);
            }
        }
        reached.order.contains(&wanted)
    }

    /// The paths of an NVMe namespace that is reached over several controllers.
    fn nvme_paths(&self, head: &BlockDir) -> Vec<BlockDir> {
        let all = self.nvme_paths.get_or_init(|| nvme_paths(&self.root.names("sys/block")));
        let names = all.get(head.name()).map(Vec::as_slice).unwrap_or_default();
        names.iter().filter_map(|name| BlockDir::by_name(self.root, name)).collect()
    }

    /// Where the filesystems on a device, its partitions and everything made of these are mounted,
    /// in any namespace, and those whose journals are there. For a look at the machine what this namespace does not have is named with a
    /// process that sees it.
    pub(crate) fn mounted_above(&self, device: &BlockDir) -> Vec<String> {
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
        let own = self.mounts.iter().cloned().map(|mount| (None, mount));
        let everywhere = mounts::all_mounts(self.root).into_iter();
        let mut points: Vec<(String, Option<u32>)> = Vec::new();
        for (process, mount) in own.chain(everywhere.map(|(pid, mount)| (Some(pid), mount))) {
            let direct = numbers.contains(&mount.devno);
            let through = || {
                mount.devno.major == 0
                    && filesystem::family(&mount) == Family::Device
                    && filesystem::member_names(self.root, &mount)
                        .iter()
                        .any(|name| above.contains_key(name))
            };
            let beside = || {
                let devices = filesystem::devices_beside(self.root, &mount);
                devices.iter().any(|device| above.contains_key(device.name()))
            };
            let point = shown(&mount.mount_point);
            let is_known = points.iter().any(|(known, _)| *known == point);
            if !is_known && (direct || through() || beside()) {
                points.push((point, process.filter(|_| self.reach == Reach::Machine)));
            }
        }
        let named = points.into_iter().map(|(point, process)| match process {
            Some(pid) => {
                let name = self.root.text(format!("proc/{pid}/comm")).unwrap_or_default();
                as_seen(&point, format!("{pid} {name}").trim_end())
            }
            None => point,
        });
        named.collect()
    }
}

fn block_key(name: &str) -> String {
    format!("block {name}")
}

/// A place that only another mount namespace has, with the process that sees it.
pub(crate) fn as_seen(point: &str, process: &str) -> String {
    format!("{point} (as {process} sees it)")
}

/// The key of a mount that nothing hides.
pub(crate) fn mount_key(mount: &Mount) -> String {
    format!("mount {}", mount.mount_point.display())
}

pub(crate) fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// By the name of an NVMe namespace (`nvme0n1`) the names of its paths (`nvme0c1n1`).
fn nvme_paths(names: &[String]) -> BTreeMap<String, Vec<String>> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let mut paths: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in names.iter().filter(|name| name.starts_with("nvme")) {
        let Some((start, namespace)) = name.rsplit_once('n') else { continue };
        let Some((subsystem, controller)) = start.split_once('c') else { continue };
        if digits(controller) && digits(namespace) {
            paths.entry(format!("{subsystem}n{namespace}")).or_default().push(name.clone());
        }
    }
    paths
}

fn zfs_members(root: &SysRoot) -> BTreeMap<String, Vec<BlockDir>> {
    let mut pools: BTreeMap<String, Vec<BlockDir>> = BTreeMap::new();
    for name in root.names("sys/class/block") {
        let Some(device) = BlockDir::by_name(root, &name) else { continue };
        let kind = udev::property(root, &device, "ID_FS_TYPE");
        let pool = kind.filter(|kind| kind == "zfs_member");
        if let Some(pool) = pool.and_then(|_| udev::property(root, &device, "ID_FS_LABEL")) {
            pools.entry(pool).or_default().push(device);
        }
    }
    pools
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_nvme_namespaces_are_told_by_their_names() {
        let names = ["nvme0n1", "nvme0c0n1", "nvme0c12n1", "nvme0c1n2", "nvme1n1", "nvmecn", "sdc"];
        let found = nvme_paths(&names.map(str::to_owned));
        let of = |head: &str| found.get(head).cloned().unwrap_or_default();
        assert_eq!(of("nvme0n1"), ["nvme0c0n1", "nvme0c12n1"]);
        assert_eq!(of("nvme0n2"), ["nvme0c1n2"]);
        assert!(of("nvme1n1").is_empty() && found.len() == 2, "{found:?}");
    }
}
