//! Drives that the kernel, or the drive itself, has taken out of use.

use crate::rules::drives::is_virtual;
use crate::rules::shared::sysfs;
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::{Node, NodeKind};

/// True for a path of several to one drive: the rules of multipath speak of it.
fn is_path(scene: &Scene<'_>, index: usize) -> bool {
    let maps = |node: &Node| {
        let targets = node.dm.as_ref().map(|dm| dm.targets.as_slice()).unwrap_or_default();
        node.kind == NodeKind::NvmeMultipath || targets.iter().any(|target| target == "multipath")
    };
    scene.above(index).any(|(_, node)| maps(node))
}

/// A drive that the kernel has given up, or that is being reset at this moment.
pub(super) fn offline(scene: &Scene<'_>) -> Vec<Defect> {
    let disks = scene.nodes(&[NodeKind::Disk]).filter(|&(index, _)| !is_path(scene, index));
    let found = disks.filter_map(|(_, node)| {
        let state = node.drive.as_ref()?.state.as_deref()?;
        let (gravity, what) = match state {
            "offline" | "transport-offline" => (Gravity::High, "was given up by the kernel"),
            "dead" | "deleting" | "deleting (no IO)" | "cancel" | "del" => (Gravity::High, "is being removed"),
            "blocked" | "created-blocked" | "quiesce" | "resetting" | "connecting" | "new" => {
                (Gravity::Medium, "takes no requests at this moment")
            }
            _ => return None,
        };
        let defect = Defect::new(
            "drive-offline",
            gravity,
            Some(&node.key()),
            format!("{} {what}: its state is {state}", node.name),
        )
        .seen(sysfs(node, "device/state"), state)
        .because("every request to it fails or waits; what stands on it without redundancy stops")
        .command("see what happened before", format!("dmesg | grep -E {}", word(format!("{}|{}", node.name, "reset|timeout|offline"))))
        .advise("check power and cabling of the drive, then its health")
        .command(
            "when the cause is gone, let the kernel try again (SCSI, SATA)",
            format!("echo running > {}", word(sysfs(node, "device/state"))),
        )
        .risking("a filesystem that saw errors must be checked before it is used again; an array wants a sound member back by mdadm --re-add")
        .verified_by(format!("cat {} says running or live", word(sysfs(node, "device/state"))));
        Some(defect)
    });
    found.collect()
}

/// A disk that refuses writes, though it is none that usually does.
pub(super) fn read_only(scene: &Scene<'_>) -> Vec<Defect> {
    const WARNING_READ_ONLY: u64 = 1 << 3;
    let disks = scene.nodes(&[NodeKind::Disk]);
    let found = disks.filter_map(|(index, node)| {
        let warned = node.details().health.as_ref().and_then(|health| health.critical_warning);
        let told_elsewhere = warned.unwrap_or(0) & WARNING_READ_ONLY != 0;
        if node.read_only != Some(true) || told_elsewhere || is_virtual(node) || !scene.in_use(index) {
            return None;
        }
        let path = word(node.label());
        let defect = Defect::new(
            "drive-read-only",
            Gravity::Low,
            Some(&node.key()),
            format!("{} refuses writes", node.name),
        )
        .sure(Certainty::Possible)
        .seen(sysfs(node, "ro"), "1")
        .because("somebody may have wanted it (blockdev --setro, the switch of a card); but worn-out flash turns read-only by itself, and so do volumes that a storage system has taken away")
        .command("see why", format!("dmesg | grep -i {}", word(&node.name)))
        .command("allow writes again, when it was you", format!("blockdev --setrw {path}"))
        .risking("if the drive protects itself, writing is not possible any more: copy the data")
        .verified_by(format!("blockdev --getro {path} says 0"));
        Some(defect)
    });
    found.collect()
}
