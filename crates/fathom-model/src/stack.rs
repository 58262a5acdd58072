//! The storage stack under a target as a graph: mount, filesystem, logical volumes, arrays,
//! partitions, disks.
//!
//! Facts only, as they were read; whatever could not be read is none. What follows from them is
//! said by rules.

pub mod detail;
pub mod facts;

pub use detail::{BackingPlace, Detail};
pub use facts::{
    DmFacts, DriveFacts, FsFacts, LoopFacts, MdFacts, MdMember, MountFacts, PartitionFacts,
    QueueFacts, ZramFacts,
};

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What a node of the stack is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// A mount point.
    Mount,
    /// A filesystem on one or more block devices.
    FileSystem,
    /// An overlay filesystem; below it is what holds its directories, in a record only that of the target.
    Overlay,
    /// A filesystem that lives in memory (tmpfs, ramfs).
    Memory,
    /// Served by another machine or process (NFS, SMB, FUSE, 9p, NBD).
    Remote,
    /// A loop device; below it is what holds the backing file.
    Loop,
    /// A device-mapper device of any target types, see [`DmFacts::targets`].
    Dm,
    /// A Linux software array.
    Md,
    /// A bcache device.
    Bcache,
    /// A partition.
    Partition,
    /// A whole disk of any transport, see [`DriveFacts::transport`].
    Disk,
    /// An NVMe namespace that the kernel reaches over several controllers; below it are the paths.
    NvmeMultipath,
    /// Compressed memory as a block device.
    Zram,
    /// Memory as a block device.
    Ram,
    /// Something that could not be resolved further.
    Unknown,
}

/// One layer of the stack. Which of the facts are there depends on the kind and on what could be
/// read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// What it is.
    pub kind: NodeKind,
    /// Name as the kernel says it (`sda1`, `dm-0`), the mount point of a mount, the type of a
    /// filesystem.
    pub name: String,
    /// Path of the device node, the mount point or the remote source.
    #[serde(default)]
    pub path: Option<String>,
    /// Device number as `major:minor`; only block devices have one.
    #[serde(default)]
    pub devno: Option<String>,
    /// Size of the block device in bytes.
    #[serde(default)]
    pub size_bytes: Option<u64>,
    /// True when the block device refuses writes.
    #[serde(default)]
    pub read_only: Option<bool>,
    /// Byte by which the device misses its own alignment; -1 when the layers below disagree.
    #[serde(default)]
    pub alignment_offset_bytes: Option<i64>,
    /// Request queue.
    #[serde(default)]
    pub queue: Option<QueueFacts>,
    /// The drive itself.
    #[serde(default)]
    pub drive: Option<DriveFacts>,
    /// Partition.
    #[serde(default)]
    pub partition: Option<PartitionFacts>,
    /// Software array.
    #[serde(default)]
    pub md: Option<MdFacts>,
    /// Device-mapper.
    #[serde(default)]
    pub dm: Option<DmFacts>,
    /// Loop device.
    #[serde(default)]
    pub loop_device: Option<LoopFacts>,
    /// Compressed memory device.
    #[serde(default)]
    pub zram: Option<ZramFacts>,
    /// Mount.
    #[serde(default)]
    pub mount: Option<MountFacts>,
    /// Filesystem.
    #[serde(default)]
    pub fs: Option<FsFacts>,
    /// Where filesystems on this device (not only the one in this stack) are mounted.
    #[serde(default)]
    pub mounted_at: Vec<String>,
    /// What only a look at the whole machine collects; records have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Box<Detail>>,
    /// Indexes of the nodes directly below.
    #[serde(default)]
    pub below: Vec<usize>,
}

impl Node {
    /// A node without facts.
    #[must_use]
    pub fn new(kind: NodeKind, name: impl Into<String>) -> Self {
        Self {
            kind,
            name: name.into(),
            path: None,
            devno: None,
            size_bytes: None,
            read_only: None,
            alignment_offset_bytes: None,
            queue: None,
            drive: None,
            partition: None,
            md: None,
            dm: None,
            loop_device: None,
            zram: None,
            mount: None,
            fs: None,
            mounted_at: Vec::new(),
            detail: None,
            below: Vec::new(),
        }
    }

    /// What tells it from all other nodes of its machine: `/dev/sda` for devices, the mount point for mounts, for
    /// filesystems their type and UUID, or the path that they were given where there is none or another has it too.
    #[must_use]
    pub fn key(&self) -> String {
        let uuid = self.fs.as_ref().and_then(|fs| fs.uuid.as_deref());
        match (self.kind, uuid, &self.path) {
            (NodeKind::FileSystem, Some(uuid), None) => format!("{} {uuid}", self.name),
            _ => self.label().to_owned(),
        }
    }

    /// The further facts, empty where none were collected.
    #[must_use]
    pub fn details(&self) -> &Detail {
        static NONE: std::sync::LazyLock<Detail> = std::sync::LazyLock::new(Detail::default);
        self.detail.as_deref().unwrap_or(&NONE)
    }

    /// The path of the device node or mount point; the name where there is none.
    #[must_use]
    pub fn label(&self) -> &str {
        self.path.as_deref().unwrap_or(&self.name)
    }
}

/// Everything under one target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stack {
    /// The target as it was given.
    pub path: String,
    /// The target with symbolic links resolved.
    pub resolved_path: String,
    /// All nodes; shared ones stand here once.
    pub nodes: Vec<Node>,
    /// Index of the node that the target is on: a mount, or the block device itself.
    pub top: usize,
}

/// What was watched or captured stood on this, before and after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StackAround {
    /// As it was when it began.
    pub before: Stack,
    /// As it was when it ended; none where it could not be read any more, and in pieces of a watch but the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Stack>,
}

impl Stack {
    /// The node that the target is on.
    #[must_use]
    pub fn top_node(&self) -> Option<&Node> {
        self.nodes.get(self.top)
    }

    /// The nodes directly below `node`.
    pub fn below<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = &'a Node> + 'a {
        node.below.iter().filter_map(|&index| self.nodes.get(index))
    }

    /// The layers by what tells each from all others, in the order of [`Stack::walk`]: the same for two looks at the same thing.
    #[must_use]
    pub fn layers(&self) -> Vec<String> {
        self.walk().into_iter().map(Node::key).collect()
    }

    /// All nodes that can be reached from the top, each once, a layer's own before those below it.
    #[must_use]
    pub fn walk(&self) -> Vec<&Node> {
        let mut seen = BTreeSet::new();
        let mut order = Vec::new();
        let mut pending = vec![self.top];
        while let Some(index) = pending.pop() {
            let Some(node) = self.nodes.get(index) else { continue };
            if seen.insert(index) {
                order.push(node);
                pending.extend(node.below.iter().rev());
            }
        }
        order
    }

    /// The nodes with nothing below them.
    #[must_use]
    pub fn leaves(&self) -> Vec<&Node> {
        self.walk().into_iter().filter(|node| node.below.is_empty()).collect()
    }

    /// The physical disks at the bottom: leaves that are disks, several paths to one drive counted
    /// once.
    #[must_use]
    pub fn disks(&self) -> Vec<&Node> {
        let mut seen = BTreeSet::new();
        let leaves = self.leaves().into_iter().filter(|node| node.kind == NodeKind::Disk);
        leaves.filter(|node| seen.insert(drive_key(node))).collect()
    }

    /// The filesystem that the target is in (the first from the top); none for a block device.
    #[must_use]
    pub fn filesystem(&self) -> Option<&Node> {
        let top = self.top_node()?;
        if top.kind != NodeKind::Mount {
            return None;
        }
        self.below(top).next()
    }

    /// The mount that the target is in; none for a block device.
    #[must_use]
    pub fn mount(&self) -> Option<&MountFacts> {
        self.top_node()?.mount.as_ref()
    }

    /// All block devices, from the top down.
    #[must_use]
    pub fn block_devices(&self) -> Vec<&Node> {
        self.walk().into_iter().filter(|node| node.devno.is_some()).collect()
    }

    /// The first block devices from the top: the target itself, or what its filesystem lies on.
    #[must_use]
    pub fn top_block_devices(&self) -> Vec<&Node> {
        let mut seen = BTreeSet::new();
        let mut found = Vec::new();
        let mut pending = vec![self.top];
        while let Some(index) = pending.pop() {
            let Some(node) = self.nodes.get(index) else { continue };
            if !seen.insert(index) {
                continue;
            }
            if node.devno.is_some() {
                found.push(node);
            } else {
                pending.extend(node.below.iter().rev());
            }
        }
        found
    }

    /// The request queue that serves a block device: its own, or that of a partition's disk.
    #[must_use]
    pub fn queue_of<'a>(&'a self, node: &'a Node) -> Option<&'a QueueFacts> {
        let below = || self.below(node).next().and_then(|disk| disk.queue.as_ref());
        node.queue.as_ref().or_else(|| (node.kind == NodeKind::Partition).then(below)?)
    }

    /// The unit that direct I/O has to be a multiple of: the largest logical block of the devices
    /// at the top.
    #[must_use]
    pub fn logical_block_bytes(&self) -> Option<u64> {
        let devices = self.top_block_devices();
        devices.into_iter().filter_map(|node| self.queue_of(node)?.logical_block_bytes).max()
    }

    /// The first software array from the top.
    #[must_use]
    pub fn array(&self) -> Option<&MdFacts> {
        self.walk().into_iter().find_map(|node| node.md.as_ref())
    }

    /// True when any disk below says that it rotates, false when all say that they do not; none
    /// when none says.
    #[must_use]
    pub fn rotational(&self) -> Option<bool> {
        let leaves = self.leaves();
        let mut said = leaves.iter().filter_map(|n| n.queue.as_ref()?.rotational).peekable();
        said.peek()?;
        Some(said.any(|rotates| rotates))
    }
}

/// What tells one drive from another, however many paths lead to it.
fn drive_key(node: &Node) -> String {
    let drive = node.drive.as_ref();
    let identity = drive.and_then(|d| d.wwn.clone().or_else(|| d.serial.clone()));
    identity.unwrap_or_else(|| node.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(name: &str, wwn: Option<&str>, rotational: Option<bool>) -> Node {
        let mut node = Node::new(NodeKind::Disk, name);
        node.devno = Some("8:0".into());
        node.drive = Some(DriveFacts { wwn: wwn.map(str::to_owned), ..DriveFacts::default() });
        node.queue = Some(QueueFacts { rotational, ..QueueFacts::default() });
        node
    }

    /// mount - filesystem - multipath - two paths to one drive.
    fn sample() -> Stack {
        let mut mount = Node::new(NodeKind::Mount, "/data");
        mount.below = vec![1];
        let mut fs = Node::new(NodeKind::FileSystem, "ext4");
        fs.below = vec![2];
        let mut multipath = Node::new(NodeKind::Dm, "dm-0");
        multipath.devno = Some("253:0".into());
        multipath.below = vec![3, 4];
        let nodes = vec![
            mount,
            fs,
            multipath,
            disk("sda", Some("naa.1"), Some(true)),
            disk("sdb", Some("naa.1"), None),
        ];
        Stack { path: "data".into(), resolved_path: "/data".into(), nodes, top: 0 }
    }

    #[test]
    fn the_graph_is_walked_from_the_top() {
        let stack = sample();
        let names = |nodes: Vec<&Node>| nodes.iter().map(|n| n.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(stack.walk()), ["/data", "ext4", "dm-0", "sda", "sdb"]);
        assert_eq!(names(stack.leaves()), ["sda", "sdb"]);
        assert_eq!(names(stack.disks()), ["sda"]);
        assert_eq!(names(stack.block_devices()), ["dm-0", "sda", "sdb"]);
        assert_eq!(names(stack.top_block_devices()), ["dm-0"]);
        assert_eq!(stack.filesystem().map(|n| n.name.as_str()), Some("ext4"));
        assert_eq!(stack.rotational(), Some(true));
    }

    #[test]
    fn a_partition_has_the_queue_of_its_disk() {
        let mut disk = disk("sda", None, None);
        disk.queue = Some(QueueFacts { logical_block_bytes: Some(4096), ..QueueFacts::default() });
        let mut partition = Node::new(NodeKind::Partition, "sda1");
        partition.devno = Some("8:1".into());
        partition.below = vec![1];
        let nodes = vec![partition, disk];
        let stack =
            Stack { path: "/dev/sda1".into(), resolved_path: "/dev/sda1".into(), nodes, top: 0 };
        assert_eq!(stack.logical_block_bytes(), Some(4096));
        assert!(stack.array().is_none() && stack.filesystem().is_none());
    }

    #[test]
    fn a_cycle_or_a_bad_index_ends_the_walk() {
        let mut stack = sample();
        stack.nodes[4].below = vec![0, 99];
        assert_eq!(stack.walk().len(), 5);
        stack.top = 77;
        assert!(stack.walk().is_empty() && stack.filesystem().is_none());
    }

    #[test]
    fn rotation_is_unknown_when_nobody_says() {
        let mut stack = sample();
        stack.nodes[3].queue = None;
        assert_eq!(stack.rotational(), None);
        stack.nodes[4] = disk("sdb", None, Some(false));
        assert_eq!(stack.rotational(), Some(false));
    }

    #[test]
    fn stored_stacks_come_back_and_old_ones_lack_fields() {
        let stack = sample();
        let text = serde_json::to_string(&stack).unwrap();
        assert_eq!(serde_json::from_str::<Stack>(&text).unwrap(), stack);
        let old = r#"{"kind":"disk","name":"sda","drive":{"model":"X"},"queue":{}}"#;
        let node: Node = serde_json::from_str(old).unwrap();
        assert_eq!(node.drive.and_then(|d| d.model).as_deref(), Some("X"));
        assert_eq!(node.queue, Some(QueueFacts::default()));
    }
}
