//! What sysfs says of a block device beyond what records hold.

use super::touch::{self, Rest};
use super::unread;
use crate::drive::{numbered_name, sas_phys, usb_device};
use crate::links::Links;
use fathom_base::order::Order;
use fathom_model::snapshot::Unread;
use fathom_model::stack::detail::DiskCounters;
use fathom_model::stack::{Detail, MdFacts, Node, NodeKind, QueueFacts};
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use std::path::{Path, PathBuf};

/// What was found on one device.
pub(crate) struct Found {
    pub(crate) detail: Detail,
    pub(crate) unread: Vec<Unread>,
    /// The directory of the adapter that the drive hangs on; its name is [`Detail::host`].
    pub(crate) host: Option<PathBuf>,
    /// Names of the devices that it is made of.
    pub(crate) slaves: Vec<String>,
    /// Why it must be left alone.
    pub(crate) rest: Option<Rest>,
}

/// Attributes of the queue that [`fathom_model::stack::QueueFacts`] holds, three that the kernel keeps for old programs with the
/// same value everywhere, and whether commands count that come past all filesystems.
const QUEUE_ELSEWHERE: [&str; 25] = [
    "logical_block_size",
    "physical_block_size",
    "minimum_io_size",
    "optimal_io_size",
    "max_sectors_kb",
    "max_hw_sectors_kb",
    "nr_requests",
    "scheduler",
    "read_ahead_kb",
    "rotational",
    "write_cache",
    "fua",
    "discard_granularity",
    "discard_max_bytes",
    "dax",
    "zoned",
    "io_poll",
    "wbt_lat_usec",
    "nomerges",
    "rq_affinity",
    "iostats",
    "hw_sector_size",
    "write_same_max_bytes",
    "discard_zeroes_data",
    "iostats_passthrough",
];

/// Attributes of the queue that say nothing while another one is zero or says no. Each read costs microseconds, and a large
/// machine has half a million attributes.
const QUEUE_VOID_WITHOUT: [(&str, &[&str]); 5] = [
    (
        "zoned",
        &[
            "max_active_zones",
            "max_open_zones",
            "nr_zones",
            "zone_append_max_bytes",
            "zone_write_granularity",
        ],
    ),
    ("io_poll", &["io_poll_delay"]),
    (
        "atomic_write_max_bytes",
        &[
            "atomic_write_boundary_bytes",
            "atomic_write_unit_max_bytes",
            "atomic_write_unit_min_bytes",
        ],
    ),
    ("max_write_streams", &["write_stream_granularity"]),
    ("write_zeroes_unmap_max_hw_bytes", &["write_zeroes_unmap_max_bytes"]),
];

/// Attributes of an array that [`fathom_model::stack::MdFacts`] holds.
const MD_ELSEWHERE: [&str; 15] = [
    "level",
    "layout",
    "chunk_size",
    "raid_disks",
    "degraded",
    "array_state",
    "sync_action",
    "sync_completed",
    "sync_speed",
    "metadata_version",
    "mismatch_cnt",
    "consistency_policy",
    "stripe_cache_size",
    "group_thread_cnt",
    "uuid",
];

/// Listings below `bcache/` that cost the kernel a look at every bucket.
const BCACHE_COSTLY: [&str; 2] = ["priority_stats", "bset_tree_stats"];

/// What holds for all devices of a machine.
pub(crate) struct Known<'a> {
    root: &'a SysRoot,
    links: &'a Links,
    /// The driver of bcache is there: only then can a device have a part in one.
    has_bcache: bool,
}

impl<'a> Known<'a> {
    pub(crate) fn new(root: &'a SysRoot, links: &'a Links) -> Self {
        Self { root, links, has_bcache: root.exists("sys/fs/bcache") }
    }
}

/// Reads all about one device; `node` holds what records know of it.
pub(crate) fn read(known: &Known<'_>, device: &BlockDir, node: &Node) -> Found {
    let Known { root, links, has_bcache } = *known;
    let mut reader = Reader { root, device, unread: Vec::new() };
    // Of partitions nobody asks: those of the disk say whether it is busy.
    let of_disk = (node.kind != NodeKind::Partition).then_some(());
    let mut detail = Detail {
        in_flight: of_disk.and_then(|_| pair(&device.text("inflight")?)),
        counters: of_disk.and_then(|_| counters(&device.text("stat")?)),
        links: links.of(device.name()).to_vec(),
        ..Detail::default()
    };
    if node.devno.is_some() && node.size_bytes.is_none() {
        let error = std::io::Error::other("no size in it");
        reader.unread.push(unread(&device.dir().join("size"), &error));
    }
    if let Some(queue) = &node.queue {
        reader.numbers_of_queue(queue);
        detail.queue = reader.queue(queue);
        detail.scheduler = reader.values("queue/iosched", |_| true);
        detail.queue_cpus = queue_cpus(device);
    }
    if has_bcache && matches!(node.kind, NodeKind::Disk | NodeKind::Partition | NodeKind::Bcache) {
        detail.bcache = reader.values("bcache", |name| !BCACHE_COSTLY.contains(&name));
    }
    if let Some(md) = &node.md {
        reader.array(&mut detail);
        reader.sense_of_array(md);
    }
    if let Some(facts) = &node.loop_device {
        let places = [("offset", facts.offset_bytes), ("sizelimit", facts.size_limit_bytes)];
        reader.nonsense("loop", &places);
    }
    if let Some(facts) = &node.partition {
        reader.nonsense("", &[("start", facts.start_bytes)]);
    }
    let mut host = None;
    if node.kind == NodeKind::Disk {
        reader.drive(node, &mut detail);
        host = adapter(device);
        detail.host = host.as_deref().and_then(last_name);
        detail.address = scsi_address(device);
    }
    let slaves = of_disk.map(|()| device.names("slaves")).unwrap_or_default();
    let rest = touch::own_rest(root, device, node);
    Found { detail, unread: reader.unread, host, slaves, rest }
}

struct Reader<'a> {
    root: &'a SysRoot,
    device: &'a BlockDir,
    unread: Vec<Unread>,
}

impl Reader<'_> {
    fn values(&mut self, dir: &str, wanted: impl Fn(&str) -> bool) -> Vec<(String, String)> {
        let found = self.device.attributes(dir, wanted);
        self.unread.extend(found.unread.iter().map(|(path, error)| unread(path, error)));
        found.values
    }

    /// What is there and makes no sense is not the same as what is not there.
    fn numbers_of_queue(&mut self, facts: &QueueFacts) {
        let numbers = [
            ("logical_block_size", facts.logical_block_bytes),
            ("physical_block_size", facts.physical_block_bytes),
            ("minimum_io_size", facts.minimum_io_bytes),
            ("optimal_io_size", facts.optimal_io_bytes),
            ("max_sectors_kb", facts.max_sectors_kib),
            ("max_hw_sectors_kb", facts.max_hw_sectors_kib),
            ("nr_requests", facts.requests),
            ("read_ahead_kb", facts.read_ahead_kib),
            ("discard_granularity", facts.discard_granularity_bytes),
            ("discard_max_bytes", facts.discard_max_bytes),
            ("nomerges", facts.nomerges),
            ("rq_affinity", facts.rq_affinity),
            ("rotational", facts.rotational.map(u64::from)),
        ];
        self.nonsense("queue", &numbers);
        if facts.write_cache.is_none() {
            self.nonsense("queue", &[("write_cache", None)]);
        }
        if facts.scheduler.is_none() && self.device.has("queue/scheduler") {
            let text = self.device.text("queue/scheduler");
            // Devices without requests of their own have none to choose from.
            if text.as_deref() != Some("none") {
                self.nonsense("queue", &[("scheduler", None)]);
            }
        }
    }

    /// Tells each attribute without a value whose file is there.
    fn nonsense(&mut self, dir: &str, values: &[(&str, Option<u64>)]) {
        for (name, _) in values.iter().filter(|(_, value)| value.is_none()) {
            let path = Path::new(dir).join(name);
            if self.device.has(&path) {
                self.tell(&path);
            }
        }
    }

    fn tell(&mut self, path: &Path) {
        let error = std::io::Error::other("what it holds makes no sense");
        self.unread.push(unread(&self.device.dir().join(path), &error));
    }

    /// Attributes of an array are empty where they do not apply; what else has no value makes no sense.
    fn sense_of_array(&mut self, md: &MdFacts) {
        let of_array = [
            ("level", md.level.is_some()),
            ("layout", md.layout.is_some()),
            ("chunk_size", md.chunk_bytes.is_some()),
            ("raid_disks", md.raid_disks.is_some()),
            ("degraded", md.degraded.is_some()),
            ("array_state", md.array_state.is_some()),
            ("sync_action", md.sync_action.is_some()),
            ("metadata_version", md.metadata_version.is_some()),
            ("mismatch_cnt", md.mismatch_count.is_some()),
            ("consistency_policy", md.consistency_policy.is_some()),
            ("stripe_cache_size", md.stripe_cache_stripes.is_some()),
            ("group_thread_cnt", md.group_threads.is_some()),
            ("bitmap/location", md.bitmap_location.is_some()),
            ("bitmap/chunksize", md.bitmap_chunk_bytes.is_some()),
        ];
        let Some(dir) = self.device.below("md") else { return };
        for (name, _) in of_array.iter().filter(|(_, is_known)| !is_known) {
            self.tell_unless_empty(&dir, Path::new(name));
        }
        let mut name = String::new();
        for member in &md.members {
            let known = [
                ("state", member.state.is_some()),
                ("slot", member.slot.is_some()),
                ("errors", member.errors.is_some()),
                ("offset", member.offset_bytes.is_some()),
            ];
            for (attribute, _) in known.iter().filter(|(_, is_known)| !is_known) {
                name.clear();
                name.extend(["dev-", &member.name, "/", attribute]);
                self.tell_unless_empty(&dir, Path::new(&name));
            }
        }
    }

    fn tell_unless_empty(&mut self, dir: &BlockDir, attribute: &Path) {
        let is_empty = || dir.bytes(attribute).is_some_and(|b| b.trim_ascii().is_empty());
        if dir.has(attribute) && !is_empty() {
            self.tell(&Path::new("md").join(attribute));
        }
    }

    fn queue(&mut self, facts: &QueueFacts) -> Vec<(String, String)> {
        let depends = |name: &str| QUEUE_VOID_WITHOUT.iter().any(|(_, all)| all.contains(&name));
        let mut found =
            self.values("queue", |name| !QUEUE_ELSEWHERE.contains(&name) && !depends(name));
        let says = |leader: &str| match leader {
            "zoned" => facts.zoned.as_deref().is_some_and(|zoned| zoned != "none"),
            "io_poll" => facts.io_poll == Some(true),
            // Kernels that lack the leader have what depends on it since before.
            _ => found.iter().find(|(name, _)| name == leader).is_none_or(|(_, v)| v != "0"),
        };
        let more: Vec<&str> = QUEUE_VOID_WITHOUT
            .iter()
            .filter(|(leader, _)| says(leader))
            .flat_map(|(_, all)| all.iter().copied())
            .collect();
        if !more.is_empty() {
            found.extend(self.values("queue", |name| more.contains(&name)));
            found.order();
        }
        found
    }

    fn array(&mut self, detail: &mut Detail) {
        detail.md = self.values("md", |name| !MD_ELSEWHERE.contains(&name));
        let bitmap = self.values("md/bitmap", |name| !["location", "chunksize"].contains(&name));
        detail.md.extend(bitmap.into_iter().map(|(name, value)| (format!("bitmap/{name}"), value)));
        for entry in self.device.names("md") {
            let Some(member) = entry.strip_prefix("dev-") else { continue };
            let list = Path::new("md").join(&entry).join("bad_blocks");
            // An empty file is a member without bad blocks, and no file one of a kernel that does not know them.
            if self.device.has(&list) {
                let ranges = self.device.text(&list).unwrap_or_default();
                detail.bad_blocks.push((member.to_owned(), ranges.lines().count() as u64));
            }
        }
    }

    fn drive(&self, node: &Node, detail: &mut Detail) {
        let (root, device) = (self.root, self.device);
        detail.timeout_s = device.value("device/timeout").or_else(|| {
            let milliseconds: u64 = device.value("queue/io_timeout")?;
            Some(milliseconds / 1000)
        });
        detail.access_state =
            if device.name().starts_with("nvme") { device.text("ana_state") } else { None }
                .or_else(|| device.text("device/access_state"));
        let Some(drive) = &node.drive else { return };
        match drive.transport.as_deref() {
            Some("sata") => {
                let speeds = drive.link_speed.clone().zip(drive.link_speed_max.clone());
                detail.sata_speed = speeds.filter(|(now, _)| now.contains("Gbps"));
                detail.sas_rates = sas_rates(root, device);
            }
            Some("sas") => detail.sas_rates = sas_rates(root, device),
            Some("usb") => {
                let speed = usb_device(device).and_then(|dir| root.text(dir.join("speed")));
                // `1.5` is the one speed with a fraction: no disk has it.
                detail.usb_mbit_per_s = speed.and_then(|text| text.parse().ok());
            }
            _ => {}
        }
    }
}

fn sas_rates(root: &SysRoot, device: &BlockDir) -> Vec<(String, String)> {
    let rates = sas_phys(root, device).into_iter().filter_map(|phy| {
        let rate = |name: &str| root.text(phy.join(name));
        rate("negotiated_linkrate").zip(rate("maximum_linkrate"))
    });
    rates.collect()
}

/// The adapter of a drive: the SCSI host, the NVMe controller, else the device itself on its bus.
fn adapter(device: &BlockDir) -> Option<PathBuf> {
    if device.bus().as_deref() == Some("scsi") {
        return device.ancestor(|_, dir| numbered_name(dir, "host").is_some());
    }
    device.linked("device")
}

/// The name of a SCSI drive's device: its four numbers.
fn scsi_address(device: &BlockDir) -> Option<String> {
    let is_scsi = device.bus().as_deref() == Some("scsi");
    is_scsi.then(|| device.linked("device"))?.as_deref().and_then(last_name)
}

fn last_name(dir: &Path) -> Option<String> {
    dir.file_name()?.to_str().map(str::to_owned)
}

/// The CPUs of the hardware queues, in the order of their numbers.
fn queue_cpus(device: &BlockDir) -> Vec<String> {
    let mut numbers: Vec<u32> =
        device.names("mq").iter().filter_map(|name| name.parse().ok()).collect();
    numbers.order();
    let lists = numbers.iter().map(|number| device.text(format!("mq/{number}/cpu_list")));
    lists.map(Option::unwrap_or_default).collect()
}

/// Two numbers with blanks between.
fn pair(text: &str) -> Option<(u64, u64)> {
    let mut words = text.split_ascii_whitespace().map(str::parse);
    Some((words.next()?.ok()?, words.next()?.ok()?))
}

/// The counters of `stat` (Documentation/block/stat.rst); its sectors have 512 bytes. Kernels before 5.5 have no flushes,
/// those before 4.18 no discards.
fn counters(text: &str) -> Option<DiskCounters> {
    let numbers: Option<Vec<u64>> =
        text.split_ascii_whitespace().map(|word| word.parse().ok()).collect();
    let numbers = numbers.filter(|numbers| numbers.len() >= 11)?;
    let at = |index: usize| numbers.get(index).copied().unwrap_or(0);
    Some(DiskCounters {
        reads: at(0),
        read_bytes: at(2).saturating_mul(512),
        read_ms: at(3),
        writes: at(4),
        written_bytes: at(6).saturating_mul(512),
        write_ms: at(7),
        flushes: at(15),
        flush_ms: at(16),
        discards: at(11),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_testkit::Tree;

    #[test]
    fn attributes_that_say_nothing_are_not_read() {
        let queue = [
            ("queue/zoned", "none"),
            ("queue/nr_zones", "0"),
            ("queue/io_poll", "0"),
            ("queue/io_poll_delay", "-1"),
            ("queue/atomic_write_max_bytes", "0"),
            ("queue/atomic_write_unit_max_bytes", "0"),
            ("queue/max_write_streams", "4"),
            ("queue/write_stream_granularity", "65536"),
            ("queue/max_segments", "168"),
            ("queue/iostats_passthrough", "0"),
            ("queue/write_zeroes_unmap_max_bytes", "0"),
            ("queue/write_zeroes_unmap_max_hw_bytes", "0"),
        ];
        let names = |facts: &[(&str, &str)]| {
            let tree = Tree::new();
            tree.device("a/sda", "8:0", facts);
            let (root, links) = (tree.root(), Links::new(&tree.root()));
            let device = BlockDir::by_name(&root, "sda").unwrap();
            let node = crate::layers::block_node(&root, &device);
            let known = Known::new(&root, &links);
            let found = read(&known, &device, &node).detail.queue;
            found.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>().join(" ")
        };
        let few = "atomic_write_max_bytes max_segments max_write_streams write_stream_granularity write_zeroes_unmap_max_hw_bytes";
        assert_eq!(names(&queue), few);
        let mut other = queue;
        (other[0].1, other[2].1, other[4].1, other[6].1) = ("host-managed", "1", "4096", "0");
        other[11].1 = "65536";
        let many = "atomic_write_max_bytes atomic_write_unit_max_bytes io_poll_delay max_segments max_write_streams nr_zones write_zeroes_unmap_max_bytes write_zeroes_unmap_max_hw_bytes";
        assert_eq!(names(&other), many);
    }

    #[test]
    fn counters_of_new_and_old_kernels() {
        let new = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17";
        let found = counters(new).unwrap();
        assert_eq!((found.reads, found.read_bytes, found.read_ms), (1, 3 * 512, 4));
        assert_eq!((found.writes, found.written_bytes, found.write_ms), (5, 7 * 512, 8));
        assert_eq!((found.discards, found.flushes, found.flush_ms), (12, 16, 17));
        let old = counters("1 2 3 4 5 6 7 8 9 10 11").unwrap();
        assert_eq!((old.write_ms, old.flushes, old.discards), (8, 0, 0));
        assert_eq!(counters("1 2 3"), None);
        assert_eq!(counters("1 2 3 4 5 6 7 8 9 10 x"), None);
        assert_eq!((pair("3  4"), pair("3"), pair("a 4")), (Some((3, 4)), None, None));
    }
}
