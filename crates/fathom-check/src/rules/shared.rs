//! What several groups of rules ask for.

use super::drives::is_virtual;
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_model::defect::Defect;
use fathom_model::stack::{DriveFacts, Node, NodeKind};
use std::collections::BTreeSet;

/// Where an attribute of a block device stands.
pub(super) fn sysfs(node: &Node, attribute: &str) -> String {
    format!("/sys/class/block/{}/{attribute}", node.name)
}

/// True when the snapshot shows all of the machine: only then does it mean anything that something is not there.
pub(super) fn shows_all(scene: &Scene<'_>) -> bool {
    scene.snapshot.targets.is_empty()
}

/// What tells what is behind a disk from all others, however many paths lead to it: a drive, or a namespace of an NVMe drive,
/// which has a world-wide name of its own.
pub(super) fn drive_identity(disk: &Node) -> String {
    let drive = disk.drive.as_ref();
    let identity = drive.and_then(|drive| {
        let serial = || Some(format!("{} {}", drive.model.as_deref()?, drive.serial.as_deref()?));
        drive.wwn.clone().or_else(serial)
    });
    identity.unwrap_or_else(|| disk.name.clone())
}

/// What tells the thing that can fail, and that is as fast as it is, from all others: an NVMe drive with all its namespaces is
/// one, but for those of clouds, where one controller with one serial number shows all disks.
pub(super) fn hardware_identity(disk: &Node) -> String {
    let is_nvme = |drive: &&DriveFacts| drive.transport.as_deref() == Some("nvme");
    let drive = disk.drive.as_ref().filter(is_nvme).filter(|_| !is_virtual(disk));
    let named = drive.and_then(|drive| drive.model.as_deref().zip(drive.serial.as_deref()));
    named.map_or_else(|| drive_identity(disk), |(model, serial)| format!("{model} {serial}"))
}

/// The drives that a node lies on.
pub(crate) fn drives(scene: &Scene<'_>, index: usize) -> BTreeSet<String> {
    let disks = scene.machine().disks_under(index).into_iter();
    disks.map(|disk| hardware_identity(scene.node(disk))).collect()
}

/// Pairs of nodes that lie on a drive in common, with the name of a disk that shows it.
pub(super) fn on_one_drive(scene: &Scene<'_>, nodes: &[usize]) -> Vec<(usize, usize, String)> {
    let drives: Vec<BTreeSet<String>> = nodes.iter().map(|&node| drives(scene, node)).collect();
    let mut pairs = Vec::new();
    for (a, first) in nodes.iter().enumerate() {
        for (b, second) in nodes.iter().enumerate().skip(a + 1) {
            if let Some(common) = drives[a].intersection(&drives[b]).next() {
                let disks = scene.machine().disks_under(*first);
                let mut disks = disks.into_iter().map(|disk| scene.node(disk));
                let disk = disks.find(|disk| &hardware_identity(disk) == common);
                let name = disk.map_or_else(|| common.clone(), |disk| disk.name.clone());
                pairs.push((*first, *second, name));
            }
        }
    }
    pairs
}

/// Where what stands on the node is mounted.
pub(super) fn mount_points<'a>(scene: &Scene<'a>, index: usize) -> Vec<&'a str> {
    let above = scene.everything_above(index).into_iter().map(|above| scene.node(above));
    above.filter(|node| node.kind == NodeKind::Mount).map(Node::label).collect()
}

/// True for the arrays of a firmware's RAID (IMSM, DDF) and the container that they share.
pub(super) fn is_of_firmware(node: &Node) -> bool {
    container(node).is_some()
}

/// The device that mdadm has to be told where members come and go: the array, or its container (`external:/md127/0`, with `-`
/// in the place of the slash while the array may only be read).
pub(super) fn holder_of_members(array: &Node) -> String {
    match container(array) {
        Some(name) if !name.is_empty() => word(format!("/dev/{name}")),
        _ => word(array.label()),
    }
}

/// The name of an array's container, which is empty for the container itself; none where the metadata are the kernel's.
fn container(node: &Node) -> Option<&str> {
    let version = node.md.as_ref()?.metadata_version.as_deref()?.strip_prefix("external:")?;
    let inside = version.strip_prefix(['/', '-']).unwrap_or_default();
    inside.split('/').next()
}

/// Advises to put another device in the place of a member that still serves.
pub(super) fn replace_member(
    defect: Defect,
    text: impl Into<String>,
    array: &Node,
    member: &str,
) -> Defect {
    let (holder, array_path) = (holder_of_members(array), word(array.label()));
    let member = word(member);
    if is_of_firmware(array) {
        return defect.command(
            "replace it: the new drive goes to the container, and is used as soon as the old one is set faulty; a firmware's \
             metadata know no copy beforehand, so until its end the array lacks a member",
            format!("mdadm {holder} --add /dev/NEW && mdadm {array_path} --fail {member}"),
        );
    }
    defect.command(
        text,
        format!(
            "mdadm {holder} --add /dev/NEW && mdadm {holder} --replace {member} --with /dev/NEW"
        ),
    )
}

/// Names joined for a sentence.
pub(super) fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().collect::<Vec<_>>().join(", ")
}

/// Major and minor number of a release such as `6.1.0-18-amd64`.
pub(super) fn kernel_version(release: &str) -> Option<(u64, u64)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::kernel_version;

    #[test]
    fn releases() {
        assert_eq!(kernel_version("6.1.0-18-amd64"), Some((6, 1)));
        assert_eq!(kernel_version("6.10"), Some((6, 10)));
        assert_eq!(kernel_version("5.15-generic"), Some((5, 15)));
        assert_eq!(kernel_version("linux"), None);
    }
}
