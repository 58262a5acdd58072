//! Single disks: whether they rotate, and how long they take.

use super::{is_single_random_read, newest, quick, run_of, writable_mounts};
use crate::rules::drives::udev_rule;
use crate::scene::Scene;
use fathom_base::shell;
use fathom_base::units::format_ns;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::snapshot::Measured;
use fathom_model::stack::{Node, NodeKind};
use std::collections::BTreeSet;

/// Half a rotation at the highest speed that was ever sold (15000 per minute) takes 2 ms: no disk that rotates answers half of
/// its random reads in less than half of that.
const SOLID_NS: u64 = 1_000_000;

fn rotates(node: &Node) -> bool {
    node.queue.as_ref().and_then(|queue| queue.rotational) == Some(true)
}

fn transport(node: &Node) -> Option<&str> {
    node.drive.as_ref()?.transport.as_deref()
}

/// Disks that say they rotate and answer like flash.
pub(super) fn rotational_flag(scene: &Scene<'_>) -> Vec<Defect> {
    let mut found: Vec<Defect> = Vec::new();
    for (index, measured) in newest(scene, is_single_random_read) {
        let Some(p50_ns) = measured.read_latency_ns_p50.filter(|ns| *ns < SOLID_NS) else {
            continue;
        };
        let disks = scene.machine().disks_under(index);
        // Where some disks do not rotate, they may have given the answers.
        if !disks.iter().all(|disk| rotates(scene.node(*disk))) {
            continue;
        }
        for disk in disks {
            let node = scene.node(disk);
            // Where the drive itself or its kind says what it is, that is told without a measurement.
            let is_known =
                node.details().identity.as_ref().is_some_and(|i| i.rotation_rpm.is_some());
            if is_known || transport(node) == Some("nvme") {
                continue;
            }
            if !found.iter().any(|known| known.node == Some(node.key())) {
                found.push(wrong_flag(node, measured, p50_ns));
            }
        }
    }
    found
}

fn wrong_flag(node: &Node, measured: &Measured, p50_ns: u64) -> Defect {
    let summary = format!(
        "{} says that it rotates, but answers random reads in {}: it does not",
        node.label(),
        format_ns(p50_ns)
    );
    let file = format!("/sys/block/{}/queue/rotational", node.name);
    let rule = shell::word(udev_rule(node, "rotational", "0"));
    let rule = format!("echo {rule} >> /etc/udev/rules.d/59-rotational.rules");
    let mut defect = Defect::new("rotational-flag-wrong", Gravity::Medium, Some(&node.key()), summary)
        .sure(Certainty::Likely)
        .seen(file.clone(), "1")
        .seen(run_of(measured), format!("median latency {} with one request in flight", format_ns(p50_ns)))
        .because("the writeback throttle, read-ahead, btrfs and databases choose settings for a disk arm that is not there")
        .command("tell the kernel, until the next boot", format!("echo 0 > {}", shell::word(file)))
        .command("and at each boot", rule);
    if transport(node) == Some("virtio") {
        defect = defect.advise("the host says so to the guest: a disk of virtio-scsi with rotation_rate=1 tells it right");
    }
    defect
        .risking("read-ahead and the writeback throttle go back to the defaults for the new kind: set them afterwards; a RAID adapter with a cache may answer fast in front of disks that do rotate")
        .verified_by("fathom run randread PATH before and after: fathom compare")
}

/// Rotations per minute, seek that data sheets promise on average for reads, in nanoseconds: typical of each class.
const CLASSES: [(u64, u64); 4] =
    [(15_000, 3_800_000), (10_000, 4_800_000), (7_200, 9_000_000), (5_400, 13_000_000)];

/// A mean above this multiple of seek and half a rotation is no matter of models any more.
const ACCESS_FACTOR: f64 = 1.5;
/// Larger requests need time for their transfer.
const REQUEST_BYTES_MAX: f64 = 65_536.0;

/// Mean access time of a disk that rotates so fast: an average seek and half a rotation.
fn expected_ns(rpm: u64) -> Option<u64> {
    let (_, seek_ns) = CLASSES.iter().find(|(class, _)| rpm >= class * 95 / 100)?;
    Some(seek_ns + 30_000_000_000 / rpm)
}

fn rotation_rpm(node: &Node) -> Option<u64> {
    let identity = node.details().identity.as_ref();
    identity.and_then(|identity| identity.rotation_rpm).filter(|rpm| *rpm > 1000)
}

/// Random reads of a single disk that take longer than its mechanics explain.
pub(super) fn access_time(scene: &Scene<'_>) -> Vec<Defect> {
    let mut found = Vec::new();
    for (index, measured) in newest(scene, is_single_random_read) {
        let [disk] = scene.machine().disks_under(index)[..] else { continue };
        let node = scene.node(disk);
        let Some((mean, rpm)) = measured.read_latency_ns_mean.zip(rotation_rpm(node)) else {
            continue;
        };
        let Some(expected) = expected_ns(rpm) else { continue };
        if measured.request_bytes_mean > REQUEST_BYTES_MAX
            || mean <= ACCESS_FACTOR * expected as f64
        {
            continue;
        }
        let half = 30_000_000_000 / rpm;
        let summary = format!(
            "{} takes {} for a random read; an average seek and half a rotation at {rpm} per minute are {}",
            node.label(),
            format_ns(mean as u64),
            format_ns(expected)
        );
        found.push(
            Defect::new("access-time-high", Gravity::Medium, Some(&node.key()), summary)
                .sure(Certainty::Likely)
                .seen(run_of(measured), format!("mean latency {} with one request in flight", format_ns(mean as u64)))
                .seen(format!("{}: rotation rate", node.label()), format!("{rpm} per minute, half a rotation {}", format_ns(half)))
                .because("the drive tries again: worn sectors, vibration of neighbours, a failing head or motor, or others who use it at the same time; in an array it holds up every stripe")
                .command("look at its counters", format!("smartctl -a {}", shell::word(node.label())))
                .command("see whether others use it", format!("iostat -x 5 2 {}", shell::word(&node.name)))
                .advise("compare it with a disk of the same model; replace it if it stays behind")
                .risking("none to look")
                .verified_by(format!("fathom run seeker {} in a quiet hour", shell::word(node.label()))),
        );
    }
    found
}

/// Measurements of disks that could be taken for what they are not, and of single disks that rotate.
pub(super) fn needed(scene: &Scene<'_>) -> Vec<(&'static str, String)> {
    let measured = newest(scene, is_single_random_read);
    let known: BTreeSet<usize> =
        measured.keys().flat_map(|target| scene.machine().disks_under(*target)).collect();
    let mut commands: Vec<(&'static str, String)> = Vec::new();
    for (index, node) in scene.nodes(&[NodeKind::Disk]) {
        if !rotates(node) || known.contains(&index) || !scene.in_use(index) {
            continue;
        }
        // Drives that tell how fast they rotate do rotate.
        let command = if rotation_rpm(node).is_some() {
            Some(("access-time-high", format!("fathom run seeker {}", shell::word(node.label()))))
        } else {
            let place = writable_mounts(scene, index).into_iter().next();
            place.map(|place| ("rotational-flag-wrong", quick(place)))
        };
        commands.extend(command.filter(|command| !commands.contains(command)));
    }
    commands
}
