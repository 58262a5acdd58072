//! The facts of single block devices: queue, partition, array, device-mapper, loop, compressed
//! memory.

use crate::drive::drive_facts;
use crate::identity::md_uuid;
use crate::udev;
use fathom_model::stack::{
    DmFacts, LoopFacts, MdFacts, MdMember, Node, NodeKind, PartitionFacts, QueueFacts, ZramFacts,
};
use fathom_sys::dm;
use fathom_sys::hostinfo::bracketed;
use fathom_sys::sysfs_block::{BlockDir, bytes_of_sectors};
use fathom_sys::sysroot::SysRoot;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What kind of block device this is.
#[must_use]
pub fn kind(device: &BlockDir) -> NodeKind {
    let numbered = |prefix: &str| {
        let rest = device.name().strip_prefix(prefix);
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    if device.is_partition() {
        NodeKind::Partition
    } else if device.has("dm") {
        NodeKind::Dm
    } else if device.has("md") {
        NodeKind::Md
    } else if numbered("loop") {
        NodeKind::Loop
    } else if numbered("zram") {
        NodeKind::Zram
    } else if numbered("ram") {
        NodeKind::Ram
    } else if numbered("bcache") {
        NodeKind::Bcache
    } else if ["nbd", "rbd", "drbd"].iter().any(|prefix| numbered(prefix)) {
        NodeKind::Remote
    } else if device.bus().as_deref() == Some("nvme-subsystem") {
        NodeKind::NvmeMultipath
    } else {
        NodeKind::Disk
    }
}

/// Everything that records hold of a block device, without what is below it.
#[must_use]
pub fn block_node(root: &SysRoot, device: &BlockDir) -> Node {
    let kind = kind(device);
    let mut node = Node::new(kind, device.name());
    node.devno = device.devno().map(|devno| devno.to_string());
    node.path = node.devno.is_some().then(|| device.dev_path());
    node.size_bytes = device.size_bytes();
    node.read_only = device.flag("ro");
    node.alignment_offset_bytes = device.value("alignment_offset");
    node.queue = if kind == NodeKind::Partition { None } else { queue_facts(device) };
    match kind {
        NodeKind::Partition => node.partition = Some(partition_facts(root, device)),
        NodeKind::Md => node.md = Some(md_facts(root, device)),
        NodeKind::Dm => node.dm = Some(dm_facts(root, device)),
        NodeKind::Loop => node.loop_device = loop_facts(device),
        NodeKind::Zram => node.zram = Some(zram_facts(device)),
        NodeKind::Disk | NodeKind::NvmeMultipath => node.drive = Some(drive_facts(root, device)),
        _ => {}
    }
    node
}

/// True when device-mapper holds back all I/O of the device or of one below it: a read would wait for ever.
#[must_use]
pub fn is_suspended(device: &BlockDir) -> bool {
    // A partition has its disk below it and nothing else.
    if device.is_partition() {
        return device.disk_of_partition().is_some_and(|disk| is_whole_suspended(&disk));
    }
    is_whole_suspended(device)
}

/// The same of what is no partition. This is asked of everything below every volume: the kernel gives such names to all devices of
/// device-mapper, so that no others are looked at for that.
fn is_whole_suspended(device: &BlockDir) -> bool {
    let is_held = device.name().starts_with("dm-") && device.flag("dm/suspended") == Some(true);
    is_held || device.slaves().iter().any(is_suspended)
}

/// What the kernel says of a cache that loses what it holds without power, and of none.
const WRITE_CACHES: [&str; 2] = ["write back", "write through"];

/// The request queue; partitions have that of their disk.
#[must_use]
pub fn queue_facts(device: &BlockDir) -> Option<QueueFacts> {
    let queue = device.below("queue")?;
    let number = |name: &str| queue.value::<u64>(name);
    // What the kernel holds in 32 bits: more makes no sense.
    let small = |name: &str| queue.value::<u32>(name).map(u64::from);
    let block = |name: &str| small(name).filter(|bytes| bytes.is_power_of_two());
    let flag = |name: &str| queue.flag(name);
    let text = |name: &str| queue.text(name);
    let schedulers = text("scheduler").unwrap_or_default();
    let hardware_queues = device.names("mq");
    let bus = device.below("device");
    let numa_node = |name: &str| bus.as_ref()?.value(name);
    Some(QueueFacts {
        logical_block_bytes: block("logical_block_size"),
        physical_block_bytes: block("physical_block_size"),
        minimum_io_bytes: small("minimum_io_size"),
        optimal_io_bytes: small("optimal_io_size"),
        max_sectors_kib: small("max_sectors_kb"),
        max_hw_sectors_kib: small("max_hw_sectors_kb"),
        requests: small("nr_requests"),
        scheduler: bracketed(&schedulers),
        schedulers: schedulers
            .split_ascii_whitespace()
            .map(|word| word.trim_matches(['[', ']']).to_owned())
            .collect(),
        read_ahead_kib: small("read_ahead_kb"),
        rotational: flag("rotational"),
        write_cache: text("write_cache").filter(|text| WRITE_CACHES.contains(&text.as_str())),
        fua: flag("fua"),
        discard_granularity_bytes: number("discard_granularity"),
        discard_max_bytes: number("discard_max_bytes"),
        dax: flag("dax"),
        zoned: text("zoned"),
        io_poll: flag("io_poll"),
        wbt_lat_us: queue.value("wbt_lat_usec"),
        nomerges: number("nomerges"),
        rq_affinity: number("rq_affinity"),
        iostats: flag("iostats"),
        numa_node: numa_node("numa_node").or_else(|| numa_node("device/numa_node")),
        tags: hardware_queues.first().and_then(|_| device.value("mq/0/nr_tags")),
        hardware_queues: (!hardware_queues.is_empty()).then_some(hardware_queues.len() as u64),
    })
}

/// The place of a partition on its disk.
#[must_use]
pub fn partition_facts(root: &SysRoot, device: &BlockDir) -> PartitionFacts {
    let uevent = device.text("uevent").unwrap_or_default();
    let said = |key: &str| uevent.lines().find_map(|line| line.strip_prefix(key));
    let uuid = said("PARTUUID=").map(str::to_owned);
    PartitionFacts {
        number: said("PARTN=").map_or_else(|| device.value("partition"), |text| text.parse().ok()),
        start_bytes: device.value("start").and_then(bytes_of_sectors),
        uuid: uuid.or_else(|| udev::property(root, device, "ID_PART_ENTRY_UUID")),
    }
}

/// The states of an array that the kernel has words for, and what it does by itself (Documentation/admin-guide/md.rst).
const ARRAY_STATES: [&str; 10] = [
    "clear",
    "inactive",
    "suspended",
    "readonly",
    "read-auto",
    "clean",
    "active",
    "write-pending",
    "active-idle",
    "broken",
];
const SYNC_ACTIONS: [&str; 7] =
    ["idle", "frozen", "resync", "recover", "check", "repair", "reshape"];

/// True for what can be a word of the kernel.
fn is_word(text: &str) -> bool {
    const BYTES_MAX: usize = 64;
    text.len() <= BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The state of a software array; what makes no sense is not taken for a value.
#[must_use]
pub fn md_facts(root: &SysRoot, device: &BlockDir) -> MdFacts {
    let md = device.below("md");
    let text = |name: &str| md.as_ref()?.text(name);
    let a_word = |name: &str| text(name).filter(|text| is_word(text));
    let one_of = |name: &str, known: &[&str]| text(name).filter(|t| known.contains(&t.as_str()));
    let number = |name: &str| md.as_ref()?.value::<u64>(name);
    // While an array is reshaped the old value stands in brackets behind the new one.
    let first = |name: &str| text(name)?.split(' ').next()?.parse::<u64>().ok();
    let level = a_word("level");
    let (layout, raid_disks) = (first("layout"), first("raid_disks"));
    // `1234 / 5678` sectors, or a word when nothing runs.
    let share = text("sync_completed").and_then(|text| {
        let (done, all) = text.split_once('/')?;
        let (done, all): (f64, f64) = (done.trim().parse().ok()?, all.trim().parse().ok()?);
        (all > 0.0).then(|| done / all)
    });
    MdFacts {
        layout_words: layout.and_then(|l| layout_words(level.as_deref().unwrap_or_default(), l)),
        level,
        layout,
        chunk_bytes: first("chunk_size"),
        raid_disks,
        // More than it has it cannot lack.
        degraded: number("degraded").filter(|&lacks| raid_disks.is_none_or(|all| lacks <= all)),
        array_state: one_of("array_state", &ARRAY_STATES),
        sync_action: one_of("sync_action", &SYNC_ACTIONS),
        sync_completed_share: share,
        sync_speed_bytes_per_s: number("sync_speed").and_then(|kib| kib.checked_mul(1024)),
        metadata_version: a_word("metadata_version"),
        mismatch_count: number("mismatch_cnt"),
        bitmap_location: a_word("bitmap/location"),
        bitmap_chunk_bytes: number("bitmap/chunksize"),
        consistency_policy: a_word("consistency_policy"),
        stripe_cache_stripes: number("stripe_cache_size"),
        group_threads: number("group_thread_cnt"),
        uuid: md_uuid(device).or_else(|| udev::property(root, device, "MD_UUID")),
        members: md_members(device),
    }
}

/// The layout number in words: near, far and offset copies of raid10; parity rotation of raid5 and
/// raid6.
fn layout_words(level: &str, layout: u64) -> Option<String> {
    match level {
        "raid10" => {
            let (near, far, offset) = (layout & 0xff, layout >> 8 & 0xff, layout >> 16 & 1);
            let words = [
                (near > 1).then(|| format!("near={near}")),
                (far > 1).then(|| format!("{}={far}", if offset == 1 { "offset" } else { "far" })),
            ];
            Some(words.into_iter().flatten().collect::<Vec<_>>().join(" "))
        }
        "raid5" | "raid6" => {
            let names =
                ["left-asymmetric", "right-asymmetric", "left-symmetric", "right-symmetric"];
            names.get(layout as usize).map(|name| (*name).to_owned())
        }
        _ => None,
    }
}

fn md_members(device: &BlockDir) -> Vec<MdMember> {
    let entries = device.names("md");
    let members = entries.iter().filter_map(|entry| Some((entry, entry.strip_prefix("dev-")?)));
    members
        .map(|(entry, name)| {
            let dir = Path::new("md").join(entry);
            let offset: Option<u64> = device.value(dir.join("offset"));
            MdMember {
                name: name.to_owned(),
                state: device.text(dir.join("state")).filter(|text| is_word(text)),
                slot: device.text(dir.join("slot")).filter(|text| is_word(text)),
                offset_bytes: offset.map(|sectors| sectors.saturating_mul(512)),
                errors: device.value(dir.join("errors")),
            }
        })
        .collect()
}

/// Name, table and status of a device-mapper device; the last two are empty for who is not root.
#[must_use]
pub fn dm_facts(root: &SysRoot, device: &BlockDir) -> DmFacts {
    let lines = |which| {
        let devno = device.devno()?;
        dm::lines(root, device.name(), devno, which).ok()
    };
    let table = lines(dm::Lines::Table).unwrap_or_default();
    let mut targets: Vec<String> = Vec::new();
    for target in &table {
        if !targets.contains(&target.kind) {
            targets.push(target.kind.clone());
        }
    }
    let printed = |targets: Vec<dm::Target>| -> Vec<String> {
        let line = |t: &dm::Target| format!("{} {} {} {}", t.start, t.length, t.kind, t.params);
        targets.iter().map(|target| line(target).trim_end().to_owned()).collect()
    };
    DmFacts {
        name: device.text("dm/name"),
        uuid: device.text("dm/uuid"),
        targets,
        table: printed(table),
        status: printed(lines(dm::Lines::Status).unwrap_or_default()),
        suspended: device.flag("dm/suspended"),
    }
}

/// A loop device and the name of its backing file, which is not looked at; none when nothing is attached.
#[must_use]
pub fn loop_facts(device: &BlockDir) -> Option<LoopFacts> {
    // The kernel keeps places in files as signed numbers.
    let place = |name: &str| device.value(name).filter(|&bytes: &u64| i64::try_from(bytes).is_ok());
    Some(LoopFacts {
        backing_file: Some(device.text("loop/backing_file")?),
        offset_bytes: place("loop/offset"),
        size_limit_bytes: place("loop/sizelimit"),
        direct_io: device.flag("loop/dio"),
        autoclear: device.flag("loop/autoclear"),
        ..LoopFacts::default()
    })
}

/// Fills in how large the backing file is. Of one that is gone, or that is called like this in another namespace, nothing can be
/// said.
pub(crate) fn add_backing_size(root: &SysRoot, facts: &mut LoopFacts) {
    let Some(path) = &facts.backing_file else { return };
    let metadata = std::fs::metadata(root.path(path)).ok().filter(|m| m.is_file());
    facts.backing_size_bytes = metadata.as_ref().map(MetadataExt::size);
    facts.backing_allocated_bytes = metadata.map(|m| m.blocks() * 512);
}

/// A compressed memory device.
#[must_use]
pub fn zram_facts(device: &BlockDir) -> ZramFacts {
    ZramFacts {
        algorithm: device.text("comp_algorithm").and_then(|text| bracketed(&text)),
        backing_device: device.text("backing_dev").filter(|path| path != "none"),
        stored_bytes: device
            .text("mm_stat")
            .and_then(|t| t.split_whitespace().next()?.parse().ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_in_words() {
        for (level, layout, words) in [
            ("raid10", 0x102, Some("near=2")),
            ("raid10", 0x201, Some("far=2")),
            ("raid10", 0x1_0201, Some("offset=2")),
            ("raid10", 0x202, Some("near=2 far=2")),
            ("raid5", 2, Some("left-symmetric")),
            ("raid6", 99, None),
            ("raid0", 0, None),
        ] {
            assert_eq!(layout_words(level, layout).as_deref(), words, "{level} {layout:#x}");
        }
    }
}
