//! Shingled and zoned drives.

use crate::rules::drives::{disk_queues, each_drive};
use crate::rules::shared::{kernel_version, sysfs};
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::{Node, NodeKind};

/// Models that are shingled without saying so, from the lists of their makers (Western Digital and Toshiba, April 2020;
/// Seagate's list of recording methods). A model is the beginning of the word with which the drive names itself.
const SHINGLED: [&str; 28] = [
    "WD20EFAX",
    "WD30EFAX",
    "WD40EFAX",
    "WD60EFAX",
    "WD20EZAZ",
    "WD60EZAZ",
    "WD10SPZX",
    "WD20SPZX",
    "WD10SPSX",
    "MQ04ABF100",
    "MQ04UBF100",
    "MQ04UBD200",
    "DT02ABA400",
    "DT02ABA600",
    "HDWD240",
    "HDWD260",
    "HDWL110",
    "HDWL120",
    "ST2000DM008",
    "ST3000DM007",
    "ST4000DM004",
    "ST6000DM003",
    "ST8000DM004",
    "ST5000AS0011",
    "ST6000AS0002",
    "ST8000AS0002",
    "ST8000AS0022",
    "ST1000LM048",
];

/// How it is known that the drive is shingled, and how sure that is.
fn shingled(node: &Node) -> Option<(String, String, Certainty)> {
    let identity = node.details().identity.as_ref();
    if let Some(zoned) = identity.and_then(|identity| identity.zoned.as_deref())
        && matches!(zoned, "drive-managed" | "host-aware")
    {
        let source = format!("identity of {}", node.label());
        return Some((source, format!("zoned: {zoned}"), Certainty::Certain));
    }
    let model = node.drive.as_ref()?.model.as_deref()?;
    let mut words = model.split_whitespace();
    words
        .any(|word| SHINGLED.iter().any(|name| word.starts_with(name)))
        .then(|| (sysfs(node, "device/model"), model.to_owned(), Certainty::Likely))
}

/// What keeps copies or parity on the drive and will one day rebuild it.
fn redundancy_on(scene: &Scene<'_>, disk: usize) -> Option<(usize, String)> {
    let above = scene.everything_above(disk);
    above.into_iter().find_map(|index| {
        let node = scene.node(index);
        let level = node.md.as_ref().and_then(|md| md.level.as_deref());
        let is_md = level.is_some_and(|level| !matches!(level, "raid0" | "linear"));
        let is_btrfs = node.kind == NodeKind::FileSystem
            && node.fs.as_ref().is_some_and(|fs| {
                fs.data_profiles.iter().any(|p| p.starts_with("raid") && p != "raid0")
            });
        let content = node.details().content.as_ref();
        let is_zfs =
            content.is_some_and(|content| content.other.iter().any(|name| name == "zfs_member"));
        match () {
            () if is_md => Some((index, format!("{} {}", level.unwrap_or("array"), node.name))),
            () if is_btrfs => Some((index, "btrfs with copies on several drives".to_owned())),
            () if is_zfs => Some((index, "a ZFS pool".to_owned())),
            () => None,
        }
    })
}

/// A drive with overlapping tracks in something that will rebuild it.
pub(super) fn smr_in_array(scene: &Scene<'_>) -> Vec<Defect> {
    let found = each_drive(scene).into_iter().filter_map(|(disk, node)| {
        let (source, value, sure) = shingled(node)?;
        let (above, what) = redundancy_on(scene, disk)?;
        let mut defect = Defect::new(
            "smr-in-array",
            Gravity::High,
            Some(&node.key()),
            format!("{} has overlapping tracks (SMR) and belongs to {what}", node.name),
        )
        .sure(sure)
        .seen(source, value);
        if scene.node(above).key() != node.key() {
            defect = defect.concerning(scene.node(above).key());
        }
        Some(
            defect
                .because("after some tens of gigabytes of writes without a pause such a drive falls to a few megabytes per second and may not answer for a minute: a rebuild takes days, or the drive is thrown out of the array while it works")
                .advise("replace it by a drive with conventional recording (CMR), before the array needs a rebuild")
                .command("until then let requests wait longer than the drive may take", format!("echo 180 > {}", word(sysfs(node, "device/timeout"))))
                .risking("replacing means a rebuild: have a backup; mdadm --replace copies while the old drive still serves")
                .verified_by("fathom run randwrite DIR duration=30m: the rate at the end is that of the beginning"),
        )
    });
    found.collect()
}

/// Since 6.10 the kernel keeps the order of writes to a zone by itself; before, only mq-deadline did.
const ORDER_KEPT_SINCE: (u64, u64) = (6, 10);

/// A zoned drive on a kernel that keeps the order of its writes only with one scheduler.
pub(super) fn zoned_scheduler(scene: &Scene<'_>) -> Vec<Defect> {
    let release = scene.snapshot.host.kernel.as_deref().unwrap_or_default();
    if kernel_version(release).is_none_or(|version| version >= ORDER_KEPT_SINCE) {
        return Vec::new();
    }
    let found = disk_queues(scene).filter_map(|(_, node, queue)| {
        let (zoned, scheduler) = (queue.zoned.as_deref()?, queue.scheduler.as_deref()?);
        if zoned != "host-managed" || scheduler == "mq-deadline" {
            return None;
        }
        let file = sysfs(node, "queue/scheduler");
        Some(
            Defect::new(
                "zoned-scheduler",
                Gravity::High,
                Some(&node.key()),
                format!("{} must be written in order, which {scheduler} does not keep on kernel {release}", node.name),
            )
            .seen(sysfs(node, "queue/zoned"), zoned)
            .seen(file.clone(), scheduler)
            .because("writes to a zone that arrive in another order than they were sent fail: filesystems on it see I/O errors under load")
            .command("take the scheduler that keeps the order", format!("echo mq-deadline > {}", word(&file)))
            .risking("none")
            .verified_by("no more lines about unaligned writes: dmesg | grep -i 'unaligned write'"),
        )
    });
    found.collect()
}
