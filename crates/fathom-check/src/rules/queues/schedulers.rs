//! I/O schedulers and their parameters.

use crate::rules::drives::{disk_queues, set_queue, transport};
use crate::rules::shared::sysfs;
use crate::rules::vendor::is_raid_volume;
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::QueueFacts;

/// Disks that a hypervisor serves: it sorts the requests of all its guests itself.
fn is_served_by_hypervisor(transport: &str) -> bool {
    matches!(transport, "virtio" | "virtio-scsi" | "xen")
}

/// The kernel takes mq-deadline by itself for devices with one hardware queue, and none for others.
fn is_default(queue: &QueueFacts, scheduler: &str) -> bool {
    match queue.hardware_queues {
        Some(1) | None => matches!(scheduler, "mq-deadline" | "none"),
        Some(_) => scheduler == "none",
    }
}

/// A scheduler that somebody chose for a disk whose host sorts again.
pub(super) fn doubled(scene: &Scene<'_>) -> Vec<Defect> {
    let found = disk_queues(scene).filter_map(|(_, node, queue)| {
        let scheduler = queue.scheduler.as_deref()?;
        if !is_served_by_hypervisor(transport(node)) || is_default(queue, scheduler) {
            return None;
        }
        let defect = Defect::new(
            "scheduler-doubled",
            Gravity::Low,
            Some(&node.key()),
            format!("{} sorts requests with {scheduler}, and the hypervisor sorts them again", node.name),
        )
        .sure(Certainty::Possible)
        .seen(sysfs(node, "queue/scheduler"), scheduler)
        .because("the guest does not know where its blocks lie on the host's drives; sorting and holding back here costs time without a gain, unless weights between programs of this guest are wanted");
        let defect = set_queue(scene, defect, node, "scheduler", "none");
        Some(
            defect
                .risking("changing it resets nr_requests and the scheduler's parameters; weights of control groups (io.bfq.weight) need bfq")
                .verified_by("fathom run oltp DIR before and after"),
        )
    });
    found.collect()
}

/// True when control groups have weights for bfq: then it was chosen for them.
fn has_bfq_weights(scene: &Scene<'_>) -> bool {
    scene.snapshot.system.io_limits.iter().any(|limit| limit.file.contains("bfq"))
}

/// A scheduler on an NVMe drive with many queues.
pub(super) fn on_nvme(scene: &Scene<'_>) -> Vec<Defect> {
    let found = disk_queues(scene).filter_map(|(_, node, queue)| {
        let scheduler = queue.scheduler.as_deref()?;
        let many_queues = queue.hardware_queues.is_some_and(|queues| queues > 1);
        if transport(node) != "nvme" || !many_queues || queue.rotational == Some(true) {
            return None;
        }
        let wanted = scheduler == "bfq" && has_bfq_weights(scene);
        let (gravity, cost) = match scheduler {
            "bfq" if !wanted => (Gravity::Medium, "bfq takes one lock for each request and can hold an idle drive for the next one: such a drive keeps a fraction of its IOPS"),
            "bfq" => (Gravity::Low, "bfq gives the weights of control groups their meaning, and takes a lock for each request for it"),
            "kyber" => (Gravity::Low, "kyber bounds latencies by holding requests back; with few users it only costs"),
            "mq-deadline" => (Gravity::Low, "mq-deadline takes one lock for all queues of the drive, which costs from some 100,000 IOPS on"),
            _ => return None,
        };
        let defect = Defect::new(
            "scheduler-on-nvme",
            gravity,
            Some(&node.key()),
            format!("{} has {scheduler}; the kernel's own choice for a drive with many queues is none", node.name),
        )
        .sure(Certainty::Likely)
        .seen(sysfs(node, "queue/scheduler"), scheduler)
        .seen(sysfs(node, "mq/"), format!("{} hardware queues", queue.hardware_queues.unwrap_or(0)))
        .because(cost);
        let defect = set_queue(scene, defect, node, "scheduler", "none");
        Some(
            defect
                .risking("without a scheduler ionice and weights do nothing, and a writer can push readers aside on a drive that is overloaded")
                .verified_by("fathom saturate DIR before and after: IOPS and the 99th percentile together"),
        )
    });
    found.collect()
}

/// bfq waits for the next request of a program, which saves a seek on one disk and wastes the time of many.
pub(super) fn idles(scene: &Scene<'_>) -> Vec<Defect> {
    let found = disk_queues(scene).filter_map(|(_, node, queue)| {
        let mut parameters = node.details().scheduler.iter();
        let (_, idle) = parameters.find(|(name, _)| name == "slice_idle")?;
        let milliseconds: u64 = idle.parse().ok()?;
        let network = matches!(transport(node), "iscsi" | "fc");
        if queue.scheduler.as_deref() != Some("bfq")
            || milliseconds == 0
            || !(network || is_raid_volume(scene, node))
        {
            return None;
        }
        let file = sysfs(node, "queue/iosched/slice_idle");
        let many = if network { "a storage system over a network" } else { "a RAID controller" };
        Some(
            Defect::new(
                "scheduler-idles",
                Gravity::Low,
                Some(&node.key()),
                format!("bfq lets {} wait {milliseconds} ms for the next request of a program; behind it is {many}", node.name),
            )
            .sure(Certainty::Likely)
            .seen(file.clone(), format!("{milliseconds} ms"))
            .seen(sysfs(node, "queue/scheduler"), "bfq")
            .because("on a single disk the wait saves a seek; many drives, or a cache, could serve the others meanwhile and stand idle instead")
            .command("do not wait", format!("echo 0 > {}", word(&file)))
            .advise("or take another scheduler, where nobody needs the weights of control groups")
            .risking("a slow sequential reader beside many others may get less; another scheduler, or bfq chosen anew, sets it back")
            .verified_by("fathom run oltp DIR before and after"),
        )
    });
    found.collect()
}

/// Parameters with the kernel's defaults (block/mq-deadline.c, block/kyber-iosched.c). Times are rounded to ticks by the
/// kernel, so only what is far off is meant.
const DEFAULTS: [(&str, &str, f64, &str); 6] = [
    ("mq-deadline", "read_expire", 500.0, "ms"),
    ("mq-deadline", "write_expire", 5000.0, "ms"),
    ("mq-deadline", "writes_starved", 2.0, "batches"),
    ("mq-deadline", "fifo_batch", 16.0, "requests"),
    ("kyber", "read_lat_nsec", 2_000_000.0, "ns"),
    ("kyber", "write_lat_nsec", 10_000_000.0, "ns"),
];

/// How many times more or less than the default is far off.
const FAR_OFF: f64 = 10.0;

/// Parameters far from what the kernel starts with.
pub(super) fn parameters(scene: &Scene<'_>) -> Vec<Defect> {
    let found = disk_queues(scene).flat_map(|(_, node, queue)| {
        let scheduler = queue.scheduler.clone().unwrap_or_default();
        let parameters = node.details().scheduler.iter();
        parameters.filter_map(move |(name, value)| {
            let (_, _, default, unit) =
                DEFAULTS.iter().find(|(of, known, _, _)| *of == scheduler && known == name)?;
            let number: f64 = value.parse().ok()?;
            if number > default / FAR_OFF && number < default * FAR_OFF {
                return None;
            }
            let file = sysfs(node, &format!("queue/iosched/{name}"));
            Some(
                Defect::new(
                    "scheduler-parameters",
                    Gravity::Low,
                    Some(&node.key()),
                    format!("{name} of {scheduler} on {} is {value} {unit}; the kernel starts with {default}", node.name),
                )
                .seen(file.clone(), format!("{value} {unit}"))
                .because("reads and writes are weighed against each other by it: what helps one load makes another wait, and it is easily forgotten when the load changes")
                .command("take the kernel's value, if nobody knows why it is there", format!("echo {default} > {}", word(&file)))
                .risking("the load that it was set for may get slower")
                .verified_by("fathom run oltp DIR before and after: reads and writes, rate and 99th percentile"),
            )
        })
    });
    found.collect()
}
