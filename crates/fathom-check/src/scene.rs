//! A snapshot with what rules ask for again and again worked out once.

use crate::images::images;
use fathom_model::beside::{Beside, JOURNAL, beside};
use fathom_model::snapshot::{MOUNTS_FILE, Machine, Measured, Reached, Snapshot};
use fathom_model::stack::{Node, NodeKind, QueueFacts};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

/// See [`Scene::knows_mounts`].
#[must_use]
pub fn knows_mounts(snapshot: &Snapshot) -> bool {
    snapshot.unread.iter().all(|unread| unread.what != MOUNTS_FILE)
}

/// A snapshot, ready to be asked.
pub struct Scene<'a> {
    /// All facts.
    pub snapshot: &'a Snapshot,
    /// For each node those directly on it.
    above: Vec<Vec<usize>>,
    by_name: BTreeMap<&'a str, usize>,
    by_key: BTreeMap<String, usize>,
    /// The nodes that are swapped to.
    swaps: BTreeSet<usize>,
    /// What mounted filesystems keep on other devices than their data.
    beside: Vec<Beside>,
    /// The loop devices by their files, see `images`.
    pub(crate) images: BTreeMap<&'a str, Vec<usize>>,
    /// Every drive once, see `rules::drives::each_drive`.
    pub(crate) drives: OnceCell<Vec<usize>>,
    /// The nodes with superblocks of md's own format by the UUID of the array, see `rules::arrays::superblocks`.
    pub(crate) md_superblocks: OnceCell<BTreeMap<String, Vec<usize>>>,
}

impl<'a> Scene<'a> {
    /// Works out what rules ask for.
    #[must_use]
    pub fn new(snapshot: &'a Snapshot) -> Self {
        let nodes = &snapshot.machine.nodes;
        let devices = nodes.iter().enumerate().filter(|(_, node)| node.devno.is_some());
        let by_name = devices.map(|(index, node)| (node.name.as_str(), index)).collect();
        let by_key = snapshot.machine.by_key();
        let swaps = snapshot.system.swaps.iter().filter_map(|swap| swap.node.as_ref());
        let swaps = swaps.filter_map(|node| by_key.get(node).copied()).collect();
        let (drives, md_superblocks) = (OnceCell::new(), OnceCell::new());
        let (above, beside, images) = (snapshot.machine.above(), beside(nodes), images(nodes));
        Self { snapshot, above, by_name, by_key, swaps, beside, images, drives, md_superblocks }
    }

    /// The graph.
    #[must_use]
    pub fn machine(&self) -> &'a Machine {
        &self.snapshot.machine
    }

    /// All nodes of these kinds with their indexes; all nodes for an empty list.
    pub fn nodes(
        &self,
        kinds: &'static [NodeKind],
    ) -> impl Iterator<Item = (usize, &'a Node)> + use<'a> {
        let nodes = self.snapshot.machine.nodes.iter().enumerate();
        nodes.filter(move |(_, node)| kinds.is_empty() || kinds.contains(&node.kind))
    }

    /// A node.
    #[must_use]
    pub fn node(&self, index: usize) -> &'a Node {
        &self.snapshot.machine.nodes[index]
    }

    /// The nodes directly below.
    pub fn below(&self, index: usize) -> impl Iterator<Item = (usize, &'a Node)> + use<'a> {
        let nodes = &self.snapshot.machine.nodes;
        nodes[index].below.iter().filter_map(|&below| Some((below, nodes.get(below)?)))
    }

    /// The journal of a mounted filesystem, where that is on another device.
    #[must_use]
    pub fn journal(&self, filesystem: usize) -> Option<usize> {
        let mut all = self.beside.iter();
        all.find(|one| one.filesystem == filesystem && one.what == JOURNAL).map(|one| one.device)
    }

    /// The mounted filesystems whose journals lie on a node or on what stands on it, while their data do not.
    pub fn journals_on(&self, index: usize) -> impl Iterator<Item = (usize, &'a Node)> {
        let above = self.everything_above(index);
        let on = |device: usize| above.contains(&device);
        let is_data = |fs: usize| self.below(fs).any(|(data, _)| on(data));
        let journals = self.beside.iter().filter(|one| one.what == JOURNAL && on(one.device));
        let found: Vec<usize> =
            journals.map(|one| one.filesystem).filter(|&fs| !is_data(fs)).collect();
        found.into_iter().map(|fs| (fs, self.node(fs)))
    }

    /// The nodes directly above, and filesystems whose journal is here.
    pub fn above(&self, index: usize) -> impl Iterator<Item = (usize, &'a Node)> {
        let nodes = &self.snapshot.machine.nodes;
        self.above[index].iter().map(|&above| (above, &nodes[above]))
    }

    /// Everything that stands on a node, itself first, each once.
    #[must_use]
    pub fn everything_above(&self, index: usize) -> Vec<usize> {
        let (mut reached, mut pending) = (Reached::default(), vec![index]);
        while let Some(next) = pending.pop() {
            if reached.add(next) {
                pending.extend(&self.above[next]);
            }
        }
        reached.order
    }

    /// The block device of a kernel name.
    #[must_use]
    pub fn device(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// The node of a key, see [`Node::key`].
    #[must_use]
    pub fn by_key(&self, key: &str) -> Option<usize> {
        self.by_key.get(key).copied()
    }

    /// True when anything stands on the node, or it holds something that is mounted or swapped to, or the journal of
    /// what is mounted from another device, or something has it open, as a filesystem after `umount --lazy`.
    #[must_use]
    pub fn in_use(&self, index: usize) -> bool {
        !self.above[index].is_empty()
            || !self.node(index).mounted_at.is_empty()
            || self.node(index).details().opened == Some(true)
            || self.swaps.contains(&index)
    }

    /// True when it is known that nothing uses the node, nor its place in a file through another loop device.
    #[must_use]
    pub fn is_free(&self, index: usize) -> bool {
        self.knows_mounts() && !self.in_use(index) && !self.is_used_through_another(index)
    }

    /// True when it was seen what is mounted: only then does it mean anything that something is not.
    #[must_use]
    pub fn knows_mounts(&self) -> bool {
        knows_mounts(self.snapshot)
    }

    /// The request queue that serves a device: its own, or that of a partition's disk.
    #[must_use]
    pub fn queue(&self, index: usize) -> Option<&'a QueueFacts> {
        let node = self.node(index);
        let of_disk = || self.below(index).next().and_then(|(_, disk)| disk.queue.as_ref());
        node.queue
            .as_ref()
            .or_else(|| if node.kind == NodeKind::Partition { of_disk() } else { None })
    }

    /// True when all disks under a node say that they do not rotate, false when one says that it does.
    #[must_use]
    pub fn rotates(&self, index: usize) -> Option<bool> {
        let disks = self.machine().disks_under(index);
        let said: Option<Vec<bool>> =
            disks.iter().map(|&disk| self.node(disk).queue.as_ref()?.rotational).collect();
        said.filter(|said| !said.is_empty()).map(|said| said.contains(&true))
    }

    /// The newest measurement of a workload on a target; void ones do not count.
    #[must_use]
    pub fn measured(&self, target: &str, workload: &str) -> Option<&'a Measured> {
        let all = self.snapshot.measured.iter();
        let fitting =
            all.filter(|m| m.target == target && m.workload == workload && m.verdict != "void");
        fitting.max_by_key(|m| m.made_at_unix_s)
    }

    /// A setting of `/proc/sys/vm`.
    #[must_use]
    pub fn vm(&self, name: &str) -> Option<&'a str> {
        let settings = self.snapshot.system.vm.iter();
        settings.filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).next()
    }
}
