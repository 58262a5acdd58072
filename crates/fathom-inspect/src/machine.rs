//! The whole machine as one graph, with all that a look at it collects.
//!
//! Facts are read in four rounds. Attributes first, which wake nobody. Then drives are asked whether they sleep. Those that
//! do not are asked for their health, and what lies on them is read. At last each node gets a key of its own.

mod budget;
mod held;
mod keys;
mod whole;

use crate::InspectError;
use crate::detail::backing;
use crate::detail::drive::{self, Language};
use crate::detail::free_space;
use crate::detail::space;
use crate::detail::touch::{self, Rest};
use crate::detail::{block, filesystem as fs_detail, hosts, why};
use crate::filesystem;
use crate::graph::{Builder, Reach};
use crate::links::Links;
use crate::parallel;
use crate::paths;
use crate::stack;
use budget::Allowances;
use fathom_model::beside::beside;
use fathom_model::snapshot::{MOUNTS_FILE, Machine, Unread};
use fathom_model::stack::{Detail, Node, NodeKind};
use fathom_model::system::StorageHost;
use fathom_sys::mounts::Mount;
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What a look at a machine found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scan {
    /// The graph, with details.
    pub machine: Machine,
    /// Adapters of the disks in it, by name.
    pub hosts: Vec<StorageHost>,
    /// What could not be read, and why; sorted.
    pub unread: Vec<Unread>,
}

/// Threads that wait for drives to answer.
const WAITING_THREADS: usize = 16;

/// Descriptors of block groups that are read of an ext filesystem.
const EXT_DESCRIPTOR_BYTES_MAX: u64 = 64 << 10;
/// What of that is read from the device: the kernel holds the superblock and all descriptors of a mounted filesystem in the memory of
/// the device's pages, but not what lies behind them on the last of these pages.
const EXT_BYTES_MAX: u64 = 4096;

/// Looks at everything under these targets, and without any at the whole machine: all block devices that have a size or
/// a use, all filesystems that are mounted in any namespace.
///
/// Starts and writes nothing, and touches no device that sleeps or that would make the reader wait. Only the live machine's
/// devices are opened at all.
///
/// # Errors
/// [`InspectError`] when a target is no storage target. Whatever else cannot be read is in [`Scan::unread`].
pub fn scan(root: &SysRoot, targets: &[PathBuf]) -> Result<Scan, InspectError> {
    scan_untouched(root, targets, || ())
}

/// As [`scan`], and calls `untouched` while no device has been asked or read yet, as the last that can be known of its I/O
/// without any of this process.
///
/// # Errors
/// As [`scan`].
pub fn scan_untouched(
    root: &SysRoot,
    targets: &[PathBuf],
    untouched: impl FnOnce(),
) -> Result<Scan, InspectError> {
    let links = Links::new(root);
    let mut builder = Builder::new(root, &links, Reach::Machine);
    let mut unread = Vec::new();
    if targets.is_empty() {
        unread = whole::enter(root, &mut builder);
    }
    unread.extend(whole::without_devices(root));
    if builder.mounts.is_empty() {
        let why = "unreadable: it lists no mounts".to_owned();
        unread.push(Unread { what: MOUNTS_FILE.to_owned(), why });
    }
    for target in targets {
        let resolved = paths::resolved(root, target)?;
        stack::enter(&mut builder, root, &resolved)?;
        if let Some(disk) = stack::target_device(root, &resolved)? {
            enter_partitions(&mut builder, &disk);
        }
    }
    if !targets.is_empty() {
        enter_same_files(&mut builder);
    }
    builder.break_circles();
    let Builder { nodes, devices, filesystems, details, spaces, .. } = builder;
    let devices = devices.into_iter().collect();
    let mut look = Look { root, nodes, devices, own_rests: BTreeMap::new(), unread };
    let hosts = look.attributes(&links, details);
    look.filesystem_attributes(&filesystems);
    look.unread_tables();
    untouched();
    let rests = look.rests(!targets.is_empty());
    let mut allowances = look.devices(&rests);
    if root.is_live() {
        look.spaces(&spaces, &filesystems, &rests, &mut allowances);
        look.free_pieces(&rests, &mut allowances);
    }
    keys::make_unique(&mut look.nodes);
    let tops = tops(&look.nodes);
    let unread: BTreeSet<Unread> = look.unread.into_iter().collect();
    let machine = Machine { nodes: look.nodes, tops };
    Ok(Scan { machine, hosts, unread: unread.into_iter().collect() })
}

/// What a disk holds is on its partitions, also those that device-mapper makes of its table (kpartx).
fn enter_partitions(builder: &mut Builder, disk: &BlockDir) {
    let is_mapped =
        |holder: &BlockDir| holder.text("dm/uuid").is_some_and(|uuid| uuid.starts_with("part"));
    let mapped = disk.holders().into_iter().filter(is_mapped);
    for partition in disk.partitions().into_iter().chain(mapped) {
        let index = builder.block(&partition);
        builder.nodes[index].mounted_at = builder.mounted_above(&partition);
    }
}

/// The other loop devices of the files behind targets: what is done through one of them is done to all.
fn enter_same_files(builder: &mut Builder) {
    let file = |builder: &Builder, device: &BlockDir| {
        let path = device.text("loop/backing_file")?;
        let is_asked = builder.not_asked(Path::new(&path)).is_none();
        is_asked.then(|| backing::inode(builder.root, device)).flatten()
    };
    let entered = builder.devices.values();
    let files: BTreeSet<String> = entered.filter_map(|device| file(builder, device)).collect();
    let all = if files.is_empty() { Vec::new() } else { BlockDir::disks(builder.root) };
    for device in all {
        let is_new = builder.devices.values().all(|known| known.name() != device.name());
        if is_new && file(builder, &device).is_some_and(|file| files.contains(&file)) {
            let index = builder.block(&device);
            builder.nodes[index].mounted_at = builder.mounted_above(&device);
        }
    }
}

/// The indexes of the nodes that nothing stands on, and that are no journals.
fn tops(nodes: &[Node]) -> Vec<usize> {
    let mut below: BTreeSet<usize> =
        nodes.iter().flat_map(|node| node.below.iter().copied()).collect();
    below.extend(beside(nodes).into_iter().map(|other| other.device));
    (0..nodes.len()).filter(|index| !below.contains(index)).collect()
}

struct Look<'a> {
    root: &'a SysRoot,
    nodes: Vec<Node>,
    /// The block devices among the nodes.
    devices: Vec<(usize, BlockDir)>,
    /// Why single devices must be left alone, by their nodes.
    own_rests: BTreeMap<usize, Rest>,
    unread: Vec<Unread>,
}

impl Look<'_> {
    /// The first round: attributes of devices, filesystems and adapters. Most were read when the devices were found.
    fn attributes(
        &mut self,
        links: &Links,
        mut details: BTreeMap<usize, Box<block::Found>>,
    ) -> Vec<StorageHost> {
        let (nodes, known) = (&self.nodes, block::Known::new(self.root, links));
        let others = self.devices.iter().filter(|(index, _)| !details.contains_key(index));
        let others: Vec<&(usize, BlockDir)> = others.collect();
        let found = parallel::map(&others, parallel::processors(), |(index, device)| {
            let node = &nodes[*index];
            // Of a partition next to nothing is asked: to hold it would cost more.
            let held = (node.kind != NodeKind::Partition).then(|| device.held());
            Box::new(block::read(&known, held.as_ref().unwrap_or(device), node))
        });
        details.extend(others.into_iter().map(|(index, _)| *index).zip(found));
        let mut adapters: BTreeMap<String, PathBuf> = BTreeMap::new();
        for (index, found) in details {
            adapters.extend(found.detail.host.clone().zip(found.host));
            self.own_rests.extend(found.rest.map(|rest| (index, rest)));
            self.nodes[index].detail = Some(Box::new(found.detail));
            self.unread.extend(found.unread);
        }
        let adapters: Vec<PathBuf> = adapters.into_values().collect();
        let found =
            parallel::map(&adapters, parallel::processors(), |dir| hosts::read(self.root, dir));
        let (hosts, unread): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        self.unread.extend(unread.into_iter().flatten());
        hosts
    }

    fn filesystem_attributes(&mut self, filesystems: &BTreeMap<usize, Mount>) {
        let devices: BTreeMap<usize, &BlockDir> =
            self.devices.iter().map(|(index, device)| (*index, device)).collect();
        let (root, nodes) = (self.root, &self.nodes);
        let all: Vec<(usize, &Mount)> = filesystems.iter().map(|(&i, mount)| (i, mount)).collect();
        let found = parallel::map(&all, parallel::processors(), |&(index, mount)| {
            let node = &nodes[index];
            let uuid = node.fs.as_ref().and_then(|fs| fs.uuid.as_deref());
            let members: Vec<&BlockDir> =
                node.below.iter().filter_map(|below| devices.get(below).copied()).collect();
            let mut detail = Detail::default();
            let unread = fs_detail::add(root, mount, uuid, &members, &mut detail);
            (Box::new(detail), unread)
        });
        for ((index, _), (detail, unread)) in all.into_iter().zip(found) {
            self.nodes[index].detail = Some(detail);
            self.unread.extend(unread);
        }
    }

    /// Tables of device-mapper stay empty for whom the kernel does not tell them.
    fn unread_tables(&mut self) {
        let is_mute = |node: &Node| node.dm.as_ref().is_some_and(|dm| dm.table.is_empty());
        if self.root.is_live() && self.nodes.iter().any(is_mute) {
            let opened = std::fs::File::open("/dev/mapper/control");
            let what = "/dev/mapper/control: tables of device-mapper".to_owned();
            self.unread.extend(opened.err().map(|error| Unread { what, why: why(&error) }));
        }
    }

    /// The second round: which nodes must be left alone. Drives that might sleep are asked. `is_named` where targets were.
    fn rests(&mut self, is_named: bool) -> Vec<Option<Rest>> {
        let own = (0..self.nodes.len()).map(|index| {
            let told = self.own_rests.get(&index).copied();
            told.or_else(|| touch::remote_file(&self.nodes, index))
        });
        let mut own: Vec<Option<Rest>> = own.collect();
        // Of what was asked for by name, whoever asks waits as long as it takes.
        if !is_named {
            let remote = self.nodes.iter().map(touch::remote_device);
            own.iter_mut().zip(remote).for_each(|(own, remote)| *own = own.or(remote));
        }
        let mut rests = touch::spread(&self.nodes, &own);
        if self.root.is_live() {
            for (index, answer) in self.ask(&rests, drive::sleeps) {
                match answer {
                    Ok(sleeps) => own[index] = own[index].or(sleeps.then_some(touch::STANDBY)),
                    Err(error) => {
                        let what = format!("{}: power mode", self.nodes[index].label());
                        self.unread.push(Unread { what, why: why(&error) });
                    }
                }
            }
            rests = touch::spread(&self.nodes, &own);
        }
        self.note_untouched(&rests);
        rests
    }

    fn note_untouched(&mut self, rests: &[Option<Rest>]) {
        for (index, _) in &self.devices {
            let Some(rest) = rests[*index] else { continue };
            let node = &mut self.nodes[*index];
            node.detail.get_or_insert_default().untouched = Some(rest.word.to_owned());
            let done = if rest == touch::STANDBY { "not woken" } else { "not touched" };
            let more = if node.loop_device.is_some() { "its file" } else { "health" };
            let what = format!("{}: superblocks and {more}", node.label());
            self.unread.push(Unread { what, why: format!("{}: {done}", rest.word) });
        }
    }

    /// Asks every drive that may be touched, in its language.
    fn ask<R: Send>(
        &self,
        rests: &[Option<Rest>],
        question: impl Fn(&BlockDir, Language) -> R + Sync,
    ) -> Vec<(usize, R)> {
        let drives = self.devices.iter().filter(|(index, _)| rests[*index].is_none());
        let drives: Vec<(usize, &BlockDir, Language)> = drives
            .filter_map(|(index, device)| {
                let node = &self.nodes[*index];
                let language = drive::is_drive(node).then(|| drive::language(device, node));
                Some((*index, device, language??))
            })
            .collect();
        let answers = parallel::map(&drives, WAITING_THREADS, |(_, device, language)| {
            question(device, *language)
        });
        drives.iter().map(|(index, ..)| *index).zip(answers).collect()
    }

    /// The third round: health of drives, and what lies on devices.
    fn devices(&mut self, rests: &[Option<Rest>]) -> Allowances {
        if self.root.is_live() {
            for (index, said) in self.ask(rests, drive::ask) {
                let detail = self.nodes[index].detail.get_or_insert_default();
                (detail.health, detail.identity) = (said.health, said.identity);
                self.unread.extend(said.unread);
            }
        }
        // A recorded tree may hold images of its devices; most hold none.
        let mut allowances = if self.root.is_live() || self.root.exists("content") {
            self.contents(rests)
        } else {
            Allowances::default()
        };
        if self.root.is_live() {
            self.superblocks(rests, &mut allowances);
            self.backing_files(rests, &mut allowances);
            self.held();
            self.unsettled(&mut allowances);
        }
        allowances
    }

    /// The space of filesystems whose drivers read for the answer, as far as that may be.
    fn spaces(
        &mut self,
        spaces: &[(usize, PathBuf)],
        filesystems: &BTreeMap<usize, Mount>,
        rests: &[Option<Rest>],
        allowances: &mut Allowances,
    ) {
        let devices: BTreeMap<usize, &BlockDir> =
            self.devices.iter().map(|(index, device)| (*index, device)).collect();
        for (index, target) in spaces {
            let below = self.nodes[*index].below.first().copied();
            let device = below.and_then(|below| Some((below, devices.get(&below)?)));
            let (Some(mount), Some((below, device))) = (filesystems.get(index), device) else {
                continue;
            };
            let why = match rests[below] {
                Some(rest) => Some(format!("{}: not touched", rest.word)),
                None => {
                    let bytes = space::bytes_to_read(&mount.fs_type, device);
                    let is_allowed = allowances.of(&self.nodes, below).take(bytes).is_some();
                    (!is_allowed).then(|| budget::too_much(bytes))
                }
            };
            match (why, &mut self.nodes[*index].fs) {
                (Some(why), _) => {
                    let what = format!("space of {}", mount.mount_point.display());
                    self.unread.push(Unread { what, why });
                }
                (None, Some(facts)) => filesystem::add_space(self.root, mount, target, facts),
                (None, None) => {}
            }
        }
    }

    /// Where the files behind loop devices lie, unless what they lie on is left alone.
    fn backing_files(&mut self, rests: &[Option<Rest>], allowances: &mut Allowances) {
        for (index, device) in &self.devices {
            if self.nodes[*index].loop_device.is_some() && rests[*index].is_none() {
                self.nodes[*index].detail.get_or_insert_default().backing_inode =
                    backing::inode(self.root, device);
            }
            let node = &self.nodes[*index];
            let file = node.loop_device.as_ref().filter(|facts| facts.backing_size_bytes.is_some());
            let path = file.and_then(|facts| facts.backing_file.as_deref());
            let mount = node.below.first().map(|&below| &self.nodes[below]);
            let fs = mount.and_then(|mount| mount.below.first()).map(|&fs| &self.nodes[fs]);
            let (Some(path), Some(fs), None) = (path, fs, rests[*index]) else { continue };
            // Extents of files on XFS's realtime device have addresses there.
            let is_elsewhere = mount
                .and_then(|mount| mount.mount.as_ref())
                .is_some_and(|mount| mount.option_value("rtdev").is_some());
            if fs.kind == NodeKind::FileSystem && fs.below.len() == 1 && !is_elsewhere {
                let allowance = allowances.of(&self.nodes, fs.below[0]);
                let place = backing::place(self.root, device, path, &fs.name, allowance);
                self.nodes[*index].detail.get_or_insert_default().backing = place;
            }
        }
    }

    /// What mounted ext filesystems say only on their devices.
    fn superblocks(&mut self, rests: &[Option<Rest>], allowances: &mut Allowances) {
        for (index, below, device) in self.mounted_ext(rests) {
            let is_allowed = allowances.of(&self.nodes, below).take(EXT_BYTES_MAX).is_some();
            match &mut self.nodes[index].fs {
                Some(facts) if is_allowed => {
                    filesystem::add_superblock(&device, EXT_DESCRIPTOR_BYTES_MAX, facts);
                }
                _ => self
                    .note_spent(format!("block groups of the filesystem on {}", device.dev_path())),
            }
        }
    }

    /// In how large pieces the free space of mounted ext4 lies. Comes last: the kernel may have to read a lot for it.
    fn free_pieces(&mut self, rests: &[Option<Rest>], allowances: &mut Allowances) {
        for (index, below, device) in self.mounted_ext(rests) {
            let Some(facts) = self.nodes[index].fs.as_ref().filter(|facts| facts.fs_type == "ext4")
            else {
                continue;
            };
            let (Some(groups), Some(block)) = (facts.groups, facts.block_bytes) else { continue };
            let known = free_space::groups(self.root, device.name(), block);
            let bytes = free_space::bytes_to_read(groups, known, block);
            let is_allowed =
                bytes.map(|bytes| allowances.of(&self.nodes, below).take(bytes).is_some());
            let asked = is_allowed.filter(|is_allowed| *is_allowed);
            let pieces = asked.and_then(|_| free_space::pieces(self.root, device.name(), block));
            let detail = self.nodes[index].detail.get_or_insert_default();
            detail.free_groups = known.filter(|_| pieces.is_none());
            detail.free_pieces = pieces;
            if is_allowed == Some(false) && known.is_none() {
                self.note_spent(format!("pieces of free space on {}", device.dev_path()));
            }
        }
    }

    /// Mounted filesystems of the ext family on devices that may be touched: their node, and the device with its own.
    fn mounted_ext(&self, rests: &[Option<Rest>]) -> Vec<(usize, usize, BlockDir)> {
        let devices: BTreeMap<usize, &BlockDir> =
            self.devices.iter().map(|(index, device)| (*index, device)).collect();
        let found = self.nodes.iter().enumerate().filter_map(|(index, node)| {
            let below = node.below.first().copied().filter(|&below| rests[below].is_none())?;
            let is_ext = node.fs.as_ref()?.fs_type.starts_with("ext");
            is_ext.then_some(())?;
            Some((index, below, (*devices.get(&below)?).clone()))
        });
        found.collect()
    }
}

/// Compressed memory holds nothing that anybody left there.
fn is_memory(device: &BlockDir) -> bool {
    device.name().starts_with("zram")
}
