//! What several groups of rules ask for.

use super::drives::is_virtual;
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_model::defect::{Defect, Gravity};
use fathom_model::stack::{DriveFacts, Node, NodeKind};
use std::collections::{BTreeMap, BTreeSet};

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

/// Devices by what they say that they are; where one thing shows on several layers (a disk and the mirror on it), on the highest.
pub(super) fn by_identity<K: Ord, T>(
    scene: &Scene<'_>,
    named: impl Iterator<Item = (K, usize, T)>,
) -> BTreeMap<K, Vec<(usize, T)>> {
    let mut found: BTreeMap<K, Vec<(usize, T)>> = BTreeMap::new();
    for (name, index, what) in named {
        let same = found.entry(name).or_default();
        if same.iter().any(|&(known, _)| scene.everything_above(index).contains(&known)) {
            continue;
        }
        same.retain(|&(known, _)| !scene.everything_above(known).contains(&index));
        same.push((index, what));
    }
    found
}

/// True when all lie on the same drives, by whichever paths.
pub(super) fn on_same_drive(scene: &Scene<'_>, indexes: &[usize]) -> bool {
    let behind = |&index: &usize| -> BTreeSet<String> {
        let disks = scene.machine().disks_under(index).into_iter();
        disks.map(|disk| drive_identity(scene.node(disk))).collect()
    };
    let drives: BTreeSet<_> = indexes.iter().map(behind).collect();
    drives.len() == 1 && drives.iter().all(|set| !set.is_empty())
}

/// Whole disks, or the same place on different ones: of one drive these are paths, two partitions of a disk are not.
pub(super) fn are_paths(scene: &Scene<'_>, indexes: &[usize]) -> bool {
    let places: Option<BTreeSet<u64>> = indexes
        .iter()
        .map(|&index| {
            let node = scene.node(index);
            match node.kind {
                NodeKind::Disk | NodeKind::NvmeMultipath => Some(0),
                NodeKind::Partition => node.partition.as_ref()?.start_bytes,
                _ => None,
            }
        })
        .collect();
    places.is_some_and(|places| places.len() == 1)
}

/// Volumes of LVM, as those of guests and their snapshots.
pub(super) fn are_volumes(scene: &Scene<'_>, indexes: &[usize]) -> bool {
    indexes.iter().all(|&index| {
        let uuid = scene.node(index).dm.as_ref().and_then(|dm| dm.uuid.as_deref());
        uuid.is_some_and(|uuid| uuid.starts_with("LVM-"))
    })
}

/// What each of several devices says that it is, and whether it is in use; `first` is the one that the defect is told of.
pub(super) fn each_seen(
    scene: &Scene<'_>,
    defect: Defect,
    indexes: &[usize],
    first: usize,
    (place, identity): (&str, &str),
) -> Defect {
    indexes.iter().fold(defect, |defect, &index| {
        let node = scene.node(index);
        let use_ = match (scene.in_use(index), scene.knows_mounts()) {
            (true, _) => "in use",
            (false, true) => "not in use",
            (false, false) => "whether it is in use is not known",
        };
        let value = format!("{identity}, {use_}");
        let defect = defect.seen(format!("{place} {}", node.label()), value);
        if index == first { defect } else { defect.concerning(node.key()) }
    })
}

/// Stands in commands for the copy, where nothing tells it from the original.
pub(super) const UNKNOWN_COPY: &str = "/dev/COPY";

/// The copy among devices that say the same: the only one that nothing uses.
pub(super) fn copy_of<'a>(scene: &Scene<'a>, indexes: &[usize]) -> &'a str {
    let mut free = indexes.iter().filter(|&&index| scene.is_free(index));
    match (free.next(), free.next()) {
        (Some(&index), None) => scene.node(index).label(),
        _ => UNKNOWN_COPY,
    }
}

/// Devices that are one place of one file, attached several times: nothing is a copy there.
pub(super) fn attached_twice(scene: &Scene<'_>, rule: &str, indexes: &[usize]) -> Option<Defect> {
    let again = indexes.iter().enumerate().find_map(|(at, &one)| {
        let others = indexes[at + 1..].iter().copied();
        let same: Vec<usize> = others.filter(|&other| scene.are_one_place(one, other)).collect();
        (!same.is_empty()).then(|| [vec![one], same].concat())
    })?;
    let first = *again.iter().find(|&&index| scene.in_use(index)).unwrap_or(&again[0]);
    let used = again.iter().filter(|&&index| scene.in_use(index)).count();
    let gravity = [Gravity::Low, Gravity::Medium, Gravity::High][used.min(2)];
    let names = list(again.iter().map(|&index| scene.node(index).label()));
    let key = scene.node(first).key();
    let summary = format!("{names} are one part of one file, attached several times");
    let defect = Defect::new(rule, gravity, Some(&key), summary);
    let defect = each_seen(scene, defect, &again, first, ("file of", "one file"));
    Some(
        defect
            .because("what is written through one of them the others do not know: mounting, checking or repairing one while another is in use destroys what is on it; none is a copy")
            .advise("find out which of them is used (losetup --list, findmnt), unmount what is mounted twice, and let the loop devices go that nothing uses: losetup --detach")
            .risking("one that is in use is detached as soon as its last user lets it go")
            .verified_by("losetup --list shows the file once"),
    )
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
