//! Drives with several paths that nobody brings together, and paths and members that are used past what brings them
//! together.

use super::configuration;
use crate::describe::is_multipath;
use crate::rules::shared::{drive_identity, is_of_firmware, list, sysfs};
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::{Node, NodeKind};
use std::collections::{BTreeMap, BTreeSet};

/// Disks that are paths to one drive.
type Paths<'a> = Vec<(usize, &'a Node)>;

/// True unless all tell a serial number and not all the same: cheap bridges and virtual disks give several drives one
/// world-wide name.
fn may_be_one_drive(paths: &Paths<'_>) -> bool {
    let serial = |(_, node): &(usize, &Node)| node.drive.as_ref()?.serial.clone();
    let serials: Option<BTreeSet<String>> = paths.iter().map(serial).collect();
    serials.is_none_or(|serials| serials.len() == 1)
}

/// Disks that lead to one drive: of one world-wide name and one size.
fn drives_with_several_paths<'a>(scene: &Scene<'a>) -> Vec<Paths<'a>> {
    let mut by_drive: BTreeMap<(String, Option<u64>), Paths<'a>> = BTreeMap::new();
    for (index, node) in scene.nodes(&[NodeKind::Disk]) {
        let named = node.drive.as_ref().is_some_and(|drive| drive.wwn.is_some());
        let in_nvme = scene.above(index).any(|(_, above)| above.kind == NodeKind::NvmeMultipath);
        if named && !in_nvme {
            by_drive
                .entry((drive_identity(node), node.size_bytes))
                .or_default()
                .push((index, node));
        }
    }
    by_drive.into_values().filter(|paths| paths.len() > 1 && may_be_one_drive(paths)).collect()
}

/// The paths that no map stands on.
pub(super) fn without_map<'a>(scene: &Scene<'a>) -> Vec<Paths<'a>> {
    let is_map = |node: &Node| node.dm.as_ref().is_some_and(is_multipath);
    let in_map = |index: usize| scene.above(index).any(|(_, above)| is_map(above));
    let all = drives_with_several_paths(scene).into_iter();
    all.filter(|paths| paths.iter().all(|&(index, _)| !in_map(index))).collect()
}

/// Several paths to a drive, each of which looks like a drive of its own. Where the blacklist is why, that is told.
pub(super) fn no_map(scene: &Scene<'_>) -> Vec<Defect> {
    if configuration::wide_entry(scene).is_some() {
        return Vec::new();
    }
    without_map(scene)
        .into_iter()
        .map(|paths| {
            let (first, node) = paths[0];
            let names = list(paths.iter().map(|(_, node)| node.name.as_str()));
            let (gravity, why) = by_use(scene, &paths);
            let mut defect = Defect::new(
                "multipath-no-map",
                gravity,
                Some(&node.key()),
                format!(
                    "{names} are paths to one drive, and no multipath map brings them together"
                ),
            )
            .sure(Certainty::Likely);
            for &(index, node) in &paths {
                let wwn =
                    node.drive.as_ref().and_then(|drive| drive.wwn.clone()).unwrap_or_default();
                defect = defect.seen(sysfs(node, "device/wwid"), wwn);
                if index != first {
                    defect = defect.concerning(node.key());
                }
            }
            defect
                .because(why)
                .command(
                    "see what multipath thinks of the drive, and which line of the \
                    configuration leaves it out",
                    format!("multipath -v3 {}", word(node.label())),
                )
                .command(
                    "install and start it (Debian: apt install multipath-tools)",
                    "systemctl enable --now multipathd && multipath -v2",
                )
                .advise(
                    "some cheap USB bridges and virtual disks give all drives one name: \
                    then it is no second path",
                )
                .risking(
                    "a drive that is mounted by one of its paths has to be unmounted before \
                    its map can be made; change fstab to /dev/mapper/... or a UUID",
                )
                .verified_by(
                    "multipath -ll shows one map with all paths; lsblk shows them below it",
                )
        })
        .collect()
}

/// How grave it is that nobody brings the paths together depends on who uses them.
fn by_use(scene: &Scene<'_>, paths: &Paths<'_>) -> (Gravity, String) {
    let used = paths.iter().filter(|&&(index, _)| scene.in_use(index));
    let used: Vec<&str> = used.map(|(_, node)| node.name.as_str()).collect();
    match used.as_slice() {
        [] => {
            let why = "whoever takes two of these names for two drives writes over his own data";
            (Gravity::Medium, why.to_owned())
        }
        [one] => {
            let why = format!(
                "{one} is in use by one path: when that fails the drive is gone although another \
                 path works, and the other names look like free drives"
            );
            (Gravity::High, why)
        }
        several => {
            let why = format!(
                "{} are in use at once: what is written by one name changes what the other \
                 believes to know",
                list(several.iter().copied())
            );
            (Gravity::High, why)
        }
    }
}

/// Something stands on a path or a member beside the map or the array that it belongs to.
pub(super) fn in_use(scene: &Scene<'_>) -> Vec<Defect> {
    let whole = scene.nodes(&[NodeKind::Md, NodeKind::Dm]).filter(|(_, node)| {
        node.kind == NodeKind::Md || node.dm.as_ref().is_some_and(is_multipath)
    });
    let parts =
        whole.flat_map(|(index, node)| scene.below(index).map(move |part| ((index, node), part)));
    parts
        .filter_map(|((whole, above), (index, part))| {
            // The kernel shows partitions of paths as well; only what uses one of them counts.
            let others = scene.above(index).filter(|&(other, node)| {
                let counts = node.kind != NodeKind::Partition || scene.in_use(other);
                other != whole && counts && !(is_of_firmware(above) || is_of_firmware(node))
            });
            let others: Vec<&Node> = others.map(|(_, node)| node).collect();
            let user = others.first()?;
            let what = if above.kind == NodeKind::Md {
                "a member of the array"
            } else {
                "a path of the multipath map"
            };
            let name = above.dm.as_ref().and_then(|dm| dm.name.as_deref()).unwrap_or(&above.name);
            Some(
                Defect::new(
                    "path-in-use",
                    Gravity::High,
                    Some(&part.key()),
                    format!(
                        "{} is {what} {name}, and {} uses it directly",
                        part.label(),
                        user.label()
                    ),
                )
                .concerning(above.key())
                .seen(
                    format!("/sys/class/block/{}/holders", part.name),
                    list(
                        std::iter::once(above.name.as_str())
                            .chain(others.iter().map(|node| node.name.as_str())),
                    ),
                )
                .because(
                    "writes that go past it are not known to it: copies differ, caches are \
                    stale, and a failed path takes the direct user with it",
                )
                .advise(format!("stop {} and start it again on {}", user.label(), above.label()))
                .advise(
                    "for LVM: reject the parts by devices/global_filter in \
                    /etc/lvm/lvm.conf, then deactivate and activate the group; for mounts: \
                    use the UUID or /dev/mapper in /etc/fstab",
                )
                .risking(
                    "services on it have to stop meanwhile; after direct writes to a member \
                    of an array, run a check of the array and of the filesystem",
                )
                .verified_by(format!(
                    "lsblk {} shows nothing but {} on it",
                    word(part.label()),
                    above.name
                )),
            )
        })
        .collect()
}
