//! Small switches of request queues.

use crate::rules::drives::{disk_queues, is_flash, is_virtual, queue_detail, set_queue, transport};
use crate::rules::shared::sysfs;
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::{Node, NodeKind};

/// Neighbouring requests are sent one by one.
pub(super) fn merges_off(scene: &Scene<'_>) -> Vec<Defect> {
    // ZFS switches it off for its volumes (zd0), whose writes it puts together itself.
    let is_zvol = |node: &Node| {
        let number = node.name.strip_prefix("zd");
        number.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    };
    let off =
        disk_queues(scene).filter(|(_, node, queue)| queue.nomerges == Some(2) && !is_zvol(node));
    off.map(|(_, node, queue)| {
        let gravity = if queue.rotational == Some(true) { Gravity::Medium } else { Gravity::Low };
        let defect = Defect::new(
            "merges-off",
            gravity,
            Some(&node.key()),
            format!("neighbouring requests to {} are not joined", node.name),
        )
        .seen(sysfs(node, "queue/nomerges"), "2")
        .because("sequential work in small pieces reaches the drive in small pieces; it is a setting for measurements, and for drives with more IOPS than the processor can serve");
        set_queue(scene, defect, node, "nomerges", "0")
            .risking("none")
            .verified_by("fathom run seqwrite DIR block_size=4k direct=no before and after")
    })
    .collect()
}

/// The kernel does not count the I/O of a device. The device-mapper counts by itself whatever the switch says, and has it
/// off on many kernels; an array that does not run has it off too.
pub(super) fn iostats_off(scene: &Scene<'_>) -> Vec<Defect> {
    let is_idle_array = |node: &Node| {
        let state = node.md.as_ref().and_then(|md| md.array_state.as_deref());
        node.kind == NodeKind::Md && matches!(state, None | Some("inactive" | "clear"))
    };
    let devices = scene.nodes(&[NodeKind::Disk, NodeKind::Md]);
    let off = devices.filter(|(_, node)| {
        let counted = node.queue.as_ref().and_then(|queue| queue.iostats);
        counted == Some(false) && !is_idle_array(node)
    });
    off.map(|(_, node)| {
        let defect = Defect::new(
            "iostats-off",
            Gravity::Low,
            Some(&node.key()),
            format!("the kernel does not count the I/O of {}", node.name),
        )
        .seen(sysfs(node, "queue/iostats"), "0")
        .because("iostat, sar, monitoring, and the part of fathom that sees what others do, show nothing or zero for it: trouble on it goes unseen");
        set_queue(scene, defect, node, "iostats", "1")
            .risking("about one percent of the processor at a million IOPS. Writing it sets read_ahead_kb back on some kernels")
            .verified_by(format!("cat {} changes while something reads", word(sysfs(node, "stat"))))
    })
    .collect()
}

/// Requests end on whatever processor the interrupt comes.
pub(super) fn completion_anywhere(scene: &Scene<'_>) -> Vec<Defect> {
    let off = disk_queues(scene).filter(|(_, _, queue)| queue.rq_affinity == Some(0));
    off.map(|(_, node, _)| {
        let defect = Defect::new(
            "completion-anywhere",
            Gravity::Low,
            Some(&node.key()),
            format!("requests to {} end on whatever processor its interrupt comes", node.name),
        )
        .seen(sysfs(node, "queue/rq_affinity"), "0")
        .because("what the asking processor has in its caches is fetched by another one; the kernel starts with 1, which ends a request on the group of processors that began it");
        set_queue(scene, defect, node, "rq_affinity", "1")
            .risking("none")
            .verified_by("fathom saturate DIR before and after: IOPS and processor time")
    })
    .collect()
}

/// A drive without moving parts takes part in filling the random generator.
pub(super) fn entropy(scene: &Scene<'_>) -> Vec<Defect> {
    let on = disk_queues(scene)
        .filter(|(_, node, _)| is_flash(node) && queue_detail(node, "add_random") == Some("1"));
    on.map(|(_, node, _)| {
        let defect = Defect::new(
            "entropy-from-disk",
            Gravity::Low,
            Some(&node.key()),
            format!("the times of requests to {} feed the random generator", node.name),
        )
        .seen(sysfs(node, "queue/add_random"), "1")
        .because("each request pays for it, and what has no moving parts gives hardly any randomness");
        set_queue(scene, defect, node, "add_random", "0")
            .risking("none: the generator has other sources. Writing it sets read_ahead_kb back on some kernels")
            .verified_by("fathom saturate DIR before and after: processor time for each request")
    })
    .collect()
}

/// Target latencies that the kernel sets for devices that do not rotate and for those that do, in microseconds
/// (block/blk-wbt.c).
const THROTTLE_DEFAULTS_US: [i64; 2] = [2_000, 75_000];

/// True where something else throttles: bfq and io.cost switch the throttle off themselves.
fn is_throttled_elsewhere(scene: &Scene<'_>, scheduler: Option<&str>) -> bool {
    let limits = &scene.snapshot.system.io_limits;
    let costed =
        limits.iter().any(|limit| limit.file == "io.cost.qos" && limit.value.contains("enable=1"));
    scheduler == Some("bfq") || costed
}

/// Writeback throttling that is off or has an unusual target.
pub(super) fn throttle(scene: &Scene<'_>) -> Vec<Defect> {
    let found = disk_queues(scene).filter_map(|(_, node, queue)| {
        let target_us = queue.wbt_lat_us?;
        let is_usual = target_us < 0 || THROTTLE_DEFAULTS_US.contains(&target_us);
        let off_elsewhere = target_us == 0 && is_throttled_elsewhere(scene, queue.scheduler.as_deref());
        if is_usual || off_elsewhere {
            return None;
        }
        let what = if target_us == 0 {
            format!("writeback to {} is not throttled", node.name)
        } else {
            format!("writeback to {} is throttled for reads to take {target_us} us", node.name)
        };
        let defect = Defect::new("writeback-throttle-changed", Gravity::Low, Some(&node.key()), what)
            .seen(sysfs(node, "queue/wbt_lat_usec"), format!("{target_us} us; the kernel takes 2000 or, for drives that rotate, 75000"))
            .because(if target_us == 0 {
                "when many dirty pages are written out at once, reads wait behind them; for writes alone it is faster, and it may have been chosen for that"
            } else {
                "the lower the target, the more buffered writes are held back while somebody reads"
            });
        Some(
            set_queue(scene, defect, node, "wbt_lat_usec", "-1")
                .risking("buffered writes may get slower while somebody reads")
                .verified_by("reads while something writes: fathom run randread DIR during a large copy"),
        )
    });
    found.collect()
}

/// The kernel's idea of rotation against what the drive says of itself, or what its kind can be.
pub(super) fn rotational_wrong(scene: &Scene<'_>) -> Vec<Defect> {
    let found = disk_queues(scene).filter_map(|(_, node, queue)| {
        let believed = queue.rotational?;
        let rpm = node.details().identity.as_ref().and_then(|identity| identity.rotation_rpm);
        let (source, value, sure) = match (believed, rpm) {
            _ if is_virtual(node) => return None,
            (true, Some(1)) => (format!("identity of {}", node.label()), "does not rotate".to_owned(), Certainty::Certain),
            (false, Some(rpm)) if rpm > 1 => (format!("identity of {}", node.label()), format!("{rpm} rotations per minute"), Certainty::Certain),
            (true, None) if transport(node) == "nvme" => ("kind of the drive".to_owned(), "NVMe".to_owned(), Certainty::Likely),
            _ => return None,
        };
        let (says, cost) = if believed {
            ("the kernel takes {} for a drive that rotates", "schedulers, read-ahead, writeback throttling, swap and btrfs choose for seeks that there are none of")
        } else {
            ("the kernel takes {} for a drive that does not rotate", "md reads from any copy however far its head is, and btrfs and swap spread what should lie together; somebody may have wanted it for a cache in front")
        };
        let gravity = if believed { Gravity::Medium } else { Gravity::Low };
        let defect = Defect::new("rotational-wrong", gravity, Some(&node.key()), says.replace("{}", &node.name))
            .sure(sure)
            .seen(sysfs(node, "queue/rotational"), u8::from(believed).to_string())
            .seen(source, value)
            .because(cost);
        let wanted = if believed { "0" } else { "1" };
        Some(
            set_queue(scene, defect, node, "rotational", wanted)
                .risking("set it before filesystems are mounted: btrfs looks only then. Writing it sets read_ahead_kb back on some kernels")
                .verified_by("fathom run seeker /dev/DISK (reads only): microseconds, or the milliseconds of a moving arm"),
        )
    });
    found.collect()
}
