//! Builders of machines for the tests of rules: healthy storage, in which a test changes what it is about.

use crate::rule::Rule;
use crate::scene::Scene;
use fathom_model::defect::{Defect, Gravity};
use fathom_model::snapshot::{MOUNTS_FILE, Snapshot, Unread};
use fathom_model::stack::detail::Content;
use fathom_model::stack::{
    Detail, DmFacts, DriveFacts, FsFacts, LoopFacts, MdFacts, MdMember, MountFacts, Node, NodeKind,
    PartitionFacts, QueueFacts,
};

/// A terabyte.
pub const TB: u64 = 1_000_000_000_000;
/// A mebibyte.
pub const MIB: u64 = 1 << 20;
/// A gibibyte.
pub const GIB: u64 = 1 << 30;

/// A machine under construction. Nodes are named by their index.
#[derive(Default)]
pub struct Bench {
    /// What was built so far; tests change it directly.
    pub snapshot: Snapshot,
}

impl Bench {
    /// A machine without anything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a node on others.
    pub fn add(&mut self, mut node: Node, below: &[usize]) -> usize {
        node.below = below.to_vec();
        self.snapshot.machine.nodes.push(node);
        self.snapshot.machine.nodes.len() - 1
    }

    /// Adds a block device `/dev/NAME` of this size on others; numbers are given as devices come.
    pub fn device(&mut self, kind: NodeKind, name: &str, bytes: u64, below: &[usize]) -> usize {
        let mut node = Node::new(kind, name);
        node.path = Some(format!("/dev/{name}"));
        node.devno = Some(format!("8:{}", self.snapshot.machine.nodes.len() * 16));
        node.size_bytes = Some(bytes);
        node.alignment_offset_bytes = Some(0);
        self.add(node, below)
    }

    /// A SATA disk of 1 TB that rotates.
    pub fn disk(&mut self, name: &str) -> usize {
        let index = self.device(NodeKind::Disk, name, TB, &[]);
        let node = self.node(index);
        node.queue = Some(QueueFacts {
            logical_block_bytes: Some(512),
            physical_block_bytes: Some(4096),
            minimum_io_bytes: Some(4096),
            optimal_io_bytes: Some(0),
            scheduler: Some("mq-deadline".into()),
            read_ahead_kib: Some(128),
            rotational: Some(true),
            write_cache: Some("write back".into()),
            discard_max_bytes: Some(0),
            ..QueueFacts::default()
        });
        node.drive = Some(DriveFacts {
            vendor: Some("ATA".into()),
            model: Some("ST1000NM0008".into()),
            serial: Some(format!("S-{name}")),
            firmware: Some("SN02".into()),
            wwn: Some(format!("naa.5000c500{index:08x}")),
            transport: Some("sata".into()),
            link_speed: Some("6.0 Gbps".into()),
            state: Some("running".into()),
            queue_depth: Some(32),
            ..DriveFacts::default()
        });
        index
    }

    /// A SATA drive of 1 TB that does not rotate and takes discards.
    pub fn ssd(&mut self, name: &str) -> usize {
        let index = self.disk(name);
        let node = self.node(index);
        if let Some(queue) = node.queue.as_mut() {
            queue.rotational = Some(false);
            queue.discard_max_bytes = Some(2 * GIB);
            queue.discard_granularity_bytes = Some(512);
        }
        if let Some(drive) = node.drive.as_mut() {
            drive.model = Some("MZ7LH960".into());
        }
        index
    }

    /// An NVMe drive of 1 TB.
    pub fn nvme(&mut self, name: &str) -> usize {
        let index = self.ssd(name);
        let node = self.node(index);
        if let Some(queue) = node.queue.as_mut() {
            queue.scheduler = Some("none".into());
        }
        if let Some(drive) = node.drive.as_mut() {
            drive.transport = Some("nvme".into());
            drive.vendor = None;
            drive.link_speed = Some("8.0 GT/s PCIe".into());
            drive.state = Some("live".into());
            drive.wwn = Some(format!("eui.0025385{index:09x}"));
        }
        index
    }

    /// A partition from a byte to the end of its disk.
    pub fn partition(&mut self, name: &str, start_bytes: u64, disk: usize) -> usize {
        let bytes = self.node(disk).size_bytes.unwrap_or(0).saturating_sub(start_bytes);
        let index = self.device(NodeKind::Partition, name, bytes, &[disk]);
        self.node(index).partition =
            Some(PartitionFacts { number: Some(1), start_bytes: Some(start_bytes), uuid: None });
        index
    }

    /// A clean array with a chunk of 512 KiB and an internal bitmap where the level has such.
    pub fn md(&mut self, name: &str, level: &str, members: &[usize]) -> usize {
        let smallest = members.iter().filter_map(|&m| self.node(m).size_bytes).min().unwrap_or(0);
        let names: Vec<String> = members.iter().map(|&m| self.node(m).name.clone()).collect();
        let index = self.device(NodeKind::Md, name, smallest, members);
        let count = members.len() as u64;
        let is_redundant = !matches!(level, "raid0" | "linear");
        let has_chunk = level != "raid1";
        let layout = match level {
            "raid10" => Some(0x102),
            "raid5" | "raid6" => Some(2),
            _ => Some(0),
        };
        let member = |(slot, name): (usize, String)| MdMember {
            name,
            state: Some("in_sync".into()),
            slot: Some(slot.to_string()),
            offset_bytes: Some(128 * MIB),
            errors: Some(0),
        };
        let node = self.node(index);
        node.md = Some(MdFacts {
            level: Some(level.into()),
            layout,
            chunk_bytes: Some(if has_chunk { 512 * 1024 } else { 0 }),
            raid_disks: Some(count),
            degraded: is_redundant.then_some(0),
            array_state: Some("clean".into()),
            sync_action: is_redundant.then(|| "idle".into()),
            metadata_version: Some("1.2".into()),
            mismatch_count: is_redundant.then_some(0),
            bitmap_location: is_redundant.then(|| "+8".into()),
            bitmap_chunk_bytes: is_redundant.then_some(64 * MIB),
            consistency_policy: is_redundant.then(|| "bitmap".into()),
            stripe_cache_stripes: matches!(level, "raid4" | "raid5" | "raid6").then_some(8192),
            group_threads: matches!(level, "raid4" | "raid5" | "raid6").then_some(0),
            uuid: Some(format!("0b1c2d3e:4f5a6b7c:8d9e0f1a:{index:08x}")),
            members: names.into_iter().enumerate().map(member).collect(),
            ..MdFacts::default()
        });
        node.queue = Some(QueueFacts {
            logical_block_bytes: Some(512),
            physical_block_bytes: Some(4096),
            ..QueueFacts::default()
        });
        index
    }

    /// A device-mapper device; its targets are those of the table lines.
    pub fn dm(
        &mut self,
        name: &str,
        dm_name: &str,
        uuid: &str,
        table: &[String],
        below: &[usize],
    ) -> usize {
        let bytes = below.iter().filter_map(|&b| self.node(b).size_bytes).min().unwrap_or(TB);
        let index = self.device(NodeKind::Dm, name, bytes, below);
        let mut targets: Vec<String> = Vec::new();
        for line in table {
            let kind = line.split(' ').nth(2).unwrap_or_default().to_owned();
            if !targets.contains(&kind) {
                targets.push(kind);
            }
        }
        let node = self.node(index);
        node.devno = Some(format!("253:{index}"));
        node.queue = Some(QueueFacts {
            logical_block_bytes: Some(512),
            physical_block_bytes: Some(4096),
            discard_max_bytes: Some(0),
            ..QueueFacts::default()
        });
        node.dm = Some(DmFacts {
            name: Some(dm_name.into()),
            uuid: Some(uuid.into()),
            targets,
            table: table.to_vec(),
            status: Vec::new(),
            suspended: Some(false),
        });
        index
    }

    /// A loop device over a file of 1 GiB that has all its space, with direct I/O.
    pub fn loop_device(&mut self, name: &str, below: &[usize]) -> usize {
        let index = self.device(NodeKind::Loop, name, GIB, below);
        self.node(index).loop_device = Some(LoopFacts {
            backing_file: Some("/srv/image".into()),
            direct_io: Some(true),
            backing_size_bytes: Some(GIB),
            backing_allocated_bytes: Some(GIB),
            ..LoopFacts::default()
        });
        index
    }

    /// A half-full filesystem of 100 GiB, mounted with `relatime`; gives the filesystem and its mount.
    pub fn mounted(&mut self, fs_type: &str, mount_point: &str, device: usize) -> (usize, usize) {
        let mut fs = Node::new(NodeKind::FileSystem, fs_type);
        fs.fs = Some(FsFacts {
            fs_type: fs_type.into(),
            block_bytes: Some(4096),
            total_bytes: Some(100 * GIB),
            free_bytes: Some(50 * GIB),
            available_bytes: Some(50 * GIB),
            inodes: Some(1_000_000),
            inodes_free: Some(900_000),
            uuid: Some(format!("11111111-2222-3333-4444-{:012x}", device)),
            journal: Some(true),
            ..FsFacts::default()
        });
        let fs = self.add(fs, &[device]);
        let source = self.node(device).label().to_owned();
        let mut mount = Node::new(NodeKind::Mount, mount_point);
        mount.path = Some(mount_point.into());
        mount.mount = Some(MountFacts {
            mount_point: mount_point.into(),
            root: "/".into(),
            fs_type: fs_type.into(),
            source,
            options: vec!["rw".into(), "relatime".into()],
            super_options: vec!["rw".into()],
            effective_options: Vec::new(),
        });
        (fs, self.add(mount, &[fs]))
    }

    /// A node, to be changed.
    pub fn node(&mut self, index: usize) -> &mut Node {
        &mut self.snapshot.machine.nodes[index]
    }

    /// The facts of an array.
    pub fn md_of(&mut self, index: usize) -> &mut MdFacts {
        self.node(index).md.get_or_insert_default()
    }

    /// The facts of a device-mapper device.
    pub fn dm_of(&mut self, index: usize) -> &mut DmFacts {
        self.node(index).dm.get_or_insert_default()
    }

    /// The facts of a filesystem.
    pub fn fs_of(&mut self, index: usize) -> &mut FsFacts {
        self.node(index).fs.get_or_insert_default()
    }

    /// The facts of a mount.
    pub fn mount_of(&mut self, index: usize) -> &mut MountFacts {
        self.node(index).mount.get_or_insert_default()
    }

    /// The facts of a drive.
    pub fn drive_of(&mut self, index: usize) -> &mut DriveFacts {
        self.node(index).drive.get_or_insert_default()
    }

    /// The facts of a queue.
    pub fn queue_of(&mut self, index: usize) -> &mut QueueFacts {
        self.node(index).queue.get_or_insert_default()
    }

    /// The further facts of a node.
    pub fn detail_of(&mut self, index: usize) -> &mut Detail {
        self.node(index).detail.get_or_insert_default()
    }

    /// What superblocks on a node say.
    pub fn content_of(&mut self, index: usize) -> &mut Content {
        self.detail_of(index).content.get_or_insert_default()
    }

    /// Whether the list of mounts could be read.
    pub fn knows_mounts(&mut self, knows: bool) {
        self.snapshot.unread.retain(|unread| unread.what != MOUNTS_FILE);
        if !knows {
            let why = "unreadable".to_owned();
            self.snapshot.unread.push(Unread { what: MOUNTS_FILE.to_owned(), why });
        }
    }

    /// What one rule finds.
    pub fn ask(&self, check: fn(&Scene<'_>) -> Vec<Defect>) -> Vec<Defect> {
        check(&Scene::new(&self.snapshot))
    }

    /// The one thing that a rule finds.
    #[track_caller]
    pub fn one(&self, check: fn(&Scene<'_>) -> Vec<Defect>) -> Defect {
        let found = self.ask(check);
        assert_eq!(found.len(), 1, "{found:#?}");
        let defect = found.into_iter().next();
        let defect = defect.unwrap_or_else(|| unreachable!());
        assert_complete(&defect);
        defect
    }

    /// How grave is what a rule finds, one for each defect.
    pub fn gravities(&self, check: fn(&Scene<'_>) -> Vec<Defect>) -> Vec<Gravity> {
        self.ask(check).into_iter().map(|defect| defect.gravity).collect()
    }

    /// The identifiers of what a group of rules finds.
    pub fn ids(&self, rules: &[Rule]) -> Vec<String> {
        let scene = Scene::new(&self.snapshot);
        rules.iter().flat_map(|rule| (rule.check)(&scene)).map(|defect| defect.rule).collect()
    }
}

/// Every part of a defect that people need is there.
#[track_caller]
pub fn assert_complete(defect: &Defect) {
    assert!(!defect.evidence.is_empty(), "no evidence: {defect:#?}");
    assert!(!defect.fix.is_empty(), "nothing to do: {defect:#?}");
    for (what, text) in [
        ("summary", &defect.summary),
        ("why", &defect.why),
        ("risk", &defect.risk),
        ("verify", &defect.verify),
    ] {
        assert!(!text.is_empty(), "{what} is empty: {defect:#?}");
    }
    assert!(crate::rules::by_id(&defect.rule).is_some(), "{} is no rule", defect.rule);
}
