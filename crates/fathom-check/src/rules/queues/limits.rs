//! Lengths of queues, sizes of requests, numbers of queues, and where they are.

use crate::rules::drives::{arrays_above, disk_queues, is_virtual, set_queue, transport};
use crate::rules::shared::{list, sysfs};
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_base::units::format_size;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::{Node, NodeKind, QueueFacts};
use std::collections::BTreeMap;

/// What the kernel takes for `nr_requests` with a scheduler: twice the tags, of which it counts at most 128
/// (block/blk-mq-sched.c).
fn requests_default(tags: u64) -> u64 {
    const TAGS_COUNTED_MAX: u64 = 128;
    2 * tags.min(TAGS_COUNTED_MAX)
}

/// A queue above the driver that is shorter than the drive's own, or gives the scheduler nothing to choose from.
pub(super) fn requests_few(scene: &Scene<'_>) -> Vec<Defect> {
    let found = disk_queues(scene).filter_map(|(_, node, queue)| {
        let requests = queue.requests?;
        let scheduler = queue.scheduler.as_deref()?;
        let told = node.drive.as_ref().and_then(|drive| drive.queue_depth);
        let depth = told.or(queue.tags)?;
        let depth_file = if told.is_some() { "device/queue_depth" } else { "mq/0/nr_tags" };
        let tags = queue.tags.unwrap_or(depth);
        let (wanted, why) = if scheduler == "none" {
            (depth.min(tags), "requests beyond that wait before the drive sees them, though it would take them")
        } else {
            (depth.saturating_mul(2).min(requests_default(tags)), "a scheduler can only sort what waits: as a rule of thumb it wants twice what the drive holds; a short queue bounds waiting instead, which may be meant")
        };
        if requests >= wanted {
            return None;
        }
        let defect = Defect::new(
            "requests-few",
            Gravity::Low,
            Some(&node.key()),
            format!("the queue of {} has room for {requests} requests; its drive takes {depth}, the kernel would give {wanted} or more", node.name),
        )
        .sure(Certainty::Possible)
        .seen(sysfs(node, "queue/nr_requests"), requests.to_string())
        .seen(sysfs(node, depth_file), depth.to_string())
        .because(why);
        Some(
            set_queue(scene, defect, node, "nr_requests", &wanted.to_string())
                .risking("a longer queue means longer waits under overload")
                .verified_by("fathom run randread DIR threads=64 before and after: rate and slowest requests together"),
        )
    });
    found.collect()
}

/// The largest chunk of arrays on a disk.
fn chunk_above(scene: &Scene<'_>, index: usize) -> Option<u64> {
    let arrays = arrays_above(scene, index).into_iter();
    arrays.filter_map(|(_, node)| node.md.as_ref()?.chunk_bytes).max()
}

/// More than this nobody needs, in KiB.
const DEFAULT_KIB: u64 = 1280;

/// The size that requests should be allowed to have, in KiB: what all kernels of the last years allow, up to a chunk.
fn request_wanted_kib(scene: &Scene<'_>, index: usize, queue: &QueueFacts) -> Option<u64> {
    const ALLOWED_BY_ALL_KIB: u64 = 512;
    let chunk_kib = chunk_above(scene, index).unwrap_or(0) / 1024;
    Some(queue.max_hw_sectors_kib?.min(chunk_kib.clamp(ALLOWED_BY_ALL_KIB, DEFAULT_KIB)))
}

/// From this size on a driver means that there is no limit: virtio and others without one tell the largest number of their field.
const NO_LIMIT_KIB: u64 = i32::MAX as u64 / 2;

/// What the hardware takes at once, in words.
fn hardware_takes(queue: &QueueFacts) -> String {
    match queue.max_hw_sectors_kib.unwrap_or(0) {
        NO_LIMIT_KIB.. => "the hardware has no limit".to_owned(),
        kib => format!("the hardware takes {kib} KiB"),
    }
}

/// Requests that the kernel cuts although the hardware would take them whole.
pub(super) fn requests_cut(scene: &Scene<'_>) -> Vec<Defect> {
    let found = disk_queues(scene).filter_map(|(index, node, queue)| {
        // What stands on the disk is looked at only where it can matter.
        let now = queue.max_sectors_kib.filter(|&now| now < DEFAULT_KIB)?;
        let wanted = request_wanted_kib(scene, index, queue)?;
        // Kernels before 6.8 take the drive's own preferred size for the largest one.
        let is_preferred = queue.optimal_io_bytes == now.checked_mul(1024);
        if now >= wanted || is_preferred {
            return None;
        }
        let chunk = chunk_above(scene, index).filter(|&chunk| chunk / 1024 > now);
        let mut defect = Defect::new(
            "requests-cut",
            Gravity::Low,
            Some(&node.key()),
            format!("requests to {} are cut into pieces of {now} KiB; {}", node.name, hardware_takes(queue)),
        )
        .seen(sysfs(node, "queue/max_sectors_kb"), format!("{now} KiB"))
        .seen(sysfs(node, "queue/max_hw_sectors_kb"), format!("{} KiB", queue.max_hw_sectors_kib.unwrap_or(0)));
        if let Some(chunk) = chunk {
            defect = defect.seen("chunk of the array on it", format_size(chunk));
        }
        let defect = defect.because(if chunk.is_some() {
            "a whole chunk of the array becomes several requests: more work for the processor, and on drives that rotate gaps between them"
        } else {
            "large requests become several: more work for the processor, and on drives that rotate gaps between them; a small value bounds how long one request holds the drive, which may be meant"
        });
        let defect = set_queue(scene, defect, node, "max_sectors_kb", &wanted.to_string());
        Some(
            defect
                .risking("arrays and maps take it over when they are made: those above keep the small size until they are assembled anew. Writing it sets read_ahead_kb back on some kernels")
                .verified_by("fathom run seqread DIR block_size=1m before and after"),
        )
    });
    found.collect()
}

/// A drive with far fewer hardware queues than there are processors.
pub(super) fn hardware_queues_few(scene: &Scene<'_>) -> Vec<Defect> {
    let Some(cpus) = scene.snapshot.system.cpus_online.or(scene.snapshot.host.cpus_online) else {
        return Vec::new();
    };
    let found = disk_queues(scene).filter_map(|(_, node, queue)| {
        let queues = queue.hardware_queues?;
        let (gravity, cure) = match transport(node) {
            "nvme" if queues == 1 && cpus >= 4 => (Gravity::Medium, "see why: an old firmware, interrupts that ran out, or a kernel parameter (pci=nomsi, nvme.write_queues, irqaffinity); dmesg | grep -i nvme"),
            "nvme" if queues <= cpus / 8 => (Gravity::Low, "the drive offers no more: spread the load over several drives"),
            "virtio" if queues == 1 && cpus >= 8 => (Gravity::Low, "give the disk queues on the host: num-queues=N of virtio-blk-pci (QEMU), <driver queues='N'/> (libvirt)"),
            "virtio-scsi" if queues == 1 && cpus >= 8 => (Gravity::Low, "give the adapter queues on the host: num_queues=N of virtio-scsi-pci (QEMU), <driver queues='N'/> (libvirt)"),
            _ => return None,
        };
        let counted = if queues == 1 { "1 hardware queue".to_owned() } else { format!("{queues} hardware queues") };
        Some(
            Defect::new(
                "hardware-queues-few",
                gravity,
                Some(&node.key()),
                format!("{} has {counted} for {cpus} processors", node.name),
            )
            .sure(Certainty::Likely)
            .seen(sysfs(node, "mq/"), queues.to_string())
            .seen("/sys/devices/system/cpu/online", format!("{cpus} CPUs"))
            .because("all processors take turns at it, and its interrupts come on few of them: from some 100,000 IOPS on that is what limits")
            .advise(cure)
            .risking("a change on the host needs the guest to be stopped and started")
            .verified_by(format!("ls {} | wc -l; fathom saturate DIR before and after", word(sysfs(node, "mq/")))),
        )
    });
    found.collect()
}

/// True on a machine whose memory has several nodes.
fn has_nodes(scene: &Scene<'_>) -> bool {
    scene.snapshot.host.numa_nodes.is_some_and(|nodes| nodes > 1)
}

/// An array over drives of several NUMA nodes.
pub(super) fn numa_split(scene: &Scene<'_>) -> Vec<Defect> {
    if !has_nodes(scene) {
        return Vec::new();
    }
    let found = scene.nodes(&[NodeKind::Md]).filter_map(|(index, node)| {
        let disks = scene.machine().disks_under(index).into_iter().map(|disk| scene.node(disk));
        // Drives that rotate are too slow for it to matter.
        let disks = disks.filter(|disk| transport(disk) == "nvme");
        let mut by_node: BTreeMap<i64, Vec<&Node>> = BTreeMap::new();
        for disk in disks {
            let numa = disk.queue.as_ref().and_then(|queue| queue.numa_node).filter(|&numa| numa >= 0);
            by_node.entry(numa?).or_default().push(disk);
        }
        if by_node.len() < 2 {
            return None;
        }
        let mut defect = Defect::new(
            "numa-split",
            Gravity::Low,
            Some(&node.key()),
            format!("{} lies on drives of {} NUMA nodes", node.name, by_node.len()),
        )
        .sure(Certainty::Possible);
        for (numa, disks) in &by_node {
            defect = defect.seen(format!("numa_node {numa}"), list(disks.iter().map(|disk| disk.name.as_str())));
        }
        Some(
            defect
                .because("whatever processor a program runs on, part of its data crosses the link between the nodes, which adds latency and takes some of its bandwidth; many machines are built so on purpose, for more slots")
                .advise("for the last percent: one array for each node, and programs bound to the node of their data")
                .risking("making arrays anew erases them: only for a new machine")
                .verified_by("fathom run randread DIR numa_node=0, then numa_node=1"),
        )
    });
    found.collect()
}

/// A drive of which the firmware does not tell the NUMA node.
pub(super) fn numa_unknown(scene: &Scene<'_>) -> Vec<Defect> {
    if !has_nodes(scene) {
        return Vec::new();
    }
    let found = disk_queues(scene).filter_map(|(_, node, queue)| {
        if transport(node) != "nvme" || queue.numa_node != Some(-1) || is_virtual(node) {
            return None;
        }
        Some(
            Defect::new(
                "numa-unknown",
                Gravity::Low,
                Some(&node.key()),
                format!("the firmware does not say on which NUMA node {} is", node.name),
            )
            .seen(sysfs(node, "device/numa_node"), "-1")
            .because("the kernel spreads its queues and memory as if all nodes were equally near, so part of the I/O crosses between nodes without need")
            .advise("newer firmware of the machine; settings such as NUMA nodes per socket or sub-NUMA clustering")
            .risking("as any update of firmware")
            .verified_by(format!("cat {}", word(sysfs(node, "device/numa_node")))),
        )
    });
    found.collect()
}
