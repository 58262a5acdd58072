//! Physical volumes: their sizes, their groups, and those that are there twice.

use super::arrays;
use crate::rules::shared::{
    UNKNOWN_COPY, are_paths, are_volumes, attached_twice, by_identity, copy_of, each_seen, list,
    on_same_drive, shows_all,
};
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_base::units::{format_size, format_sizes};
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::snapshot::Unread;
use fathom_model::stack::Node;
use fathom_model::stack::detail::LvmHeader;
use std::collections::{BTreeMap, BTreeSet};

/// Growth below this is not worth a word: what rounding and partitioning leave.
const WORTH_BYTES: u64 = 64 << 20;

/// Every device with a label of LVM. A member of an array shows the array's, with a superblock of md at its end: what is
/// done to the member alone breaks the array.
fn headers<'a>(scene: &Scene<'a>) -> impl Iterator<Item = (usize, &'a LvmHeader)> {
    scene.nodes(&[]).filter_map(|(index, node)| {
        let content = node.details().content.as_ref().filter(|content| content.md.is_none())?;
        Some((index, content.lvm.as_ref()?))
    })
}

/// Volumes by their UUID.
fn volumes<'a>(scene: &Scene<'a>) -> BTreeMap<&'a str, Vec<(usize, &'a LvmHeader)>> {
    let headers = headers(scene);
    let named =
        headers.filter_map(|(index, header)| Some((header.uuid.as_deref()?, index, header)));
    by_identity(scene, named)
}

/// A device that has become larger or smaller than when LVM last looked.
pub(super) fn resized(scene: &Scene<'_>) -> Vec<Defect> {
    let single = volumes(scene).into_values().filter(|same| same.len() == 1);
    single
        .flatten()
        .filter_map(|(index, header)| {
            let node = scene.node(index);
            let (believed, real) =
                (header.device_size_bytes.filter(|&b| b > 0)?, node.size_bytes.filter(|&b| b > 0)?);
            let extent = header.extent_bytes.unwrap_or(4 << 20);
            let group = header.group.as_deref().unwrap_or("no group");
            let (is, was) = format_sizes(real, believed);
            let path = word(node.label());
            let told = |gravity, summary: String| {
                Defect::new("lvm-pv-resized", gravity, Some(&node.key()), summary)
                    .seen(format!("/sys/class/block/{}/size", node.name), is.clone())
                    .seen(format!("label of LVM on {}", node.label()), was.clone())
            };
            if real.saturating_add(extent) <= believed {
                let summary =
                    format!("{} has {is}, but LVM ({group}) believes {was}", node.label());
                let missing = format_size(believed - real);
                return Some(
                    told(Gravity::High, summary)
                        .because(format!(
                            "what LVM put into the last {missing} \
                            cannot be read or written any more"
                        ))
                        .advise(
                            "make the device as large again as it was, before anything is \
                            written: it was shrunk without LVM",
                        )
                        .command("see what lies at its end", format!("pvdisplay --maps {path}"))
                        .risking(
                            "pvresize is refused while extents there \
                            are in use; do not force it",
                        )
                        .verified_by(
                            "pvs shows the size of the device; fsck -n of the volumes on it \
                            finds nothing",
                        ),
                );
            }
            if real < believed.saturating_add(extent.max(WORTH_BYTES)) {
                return None;
            }
            let summary =
                format!("{} has grown to {is}, LVM ({group}) still uses {was}", node.label());
            Some(
                told(Gravity::Low, summary)
                    .because("the new space cannot be given to volumes before LVM knows of it")
                    .command("tell LVM", format!("pvresize {path}"))
                    .risking(
                        "none; space that is to stay free for something else is better left \
                        to a partition of its own",
                    )
                    .verified_by(format!("pvs {path} shows {is}")),
            )
        })
        .collect()
}

/// How many devices were left alone because they rest: each may be a part of something whose label was not read.
pub(in crate::rules) fn resting(scene: &Scene<'_>) -> usize {
    let is_volume = |node: &Node| {
        let uuid = node.dm.as_ref().and_then(|dm| dm.uuid.as_deref());
        uuid.is_some_and(|uuid| uuid.starts_with("LVM-"))
    };
    let rests = |index, node: &Node| match node.details().untouched.as_deref() {
        None | Some("removable") => false,
        // That an offline device is not there for LVM is told of the device; volumes on it show that it is one of a group.
        Some("offline") => scene.above(index).any(|(_, above)| is_volume(above)),
        Some(_) => true,
    };
    // What carries anything but volumes of LVM is no volume of a group itself.
    let is_used = |index| scene.above(index).any(|(_, above)| !is_volume(above));
    let devices =
        scene.nodes(&[]).filter(|&(index, node)| node.devno.is_some() && rests(index, node));
    devices.filter(|&(index, node)| !is_volume(node) && !is_used(index)).count()
}

/// A group with the device whose metadata are the newest, and the members that are not there.
type Incomplete<'a> = (&'a str, usize, &'a LvmHeader, BTreeSet<&'a str>);

fn incomplete_groups<'a>(scene: &Scene<'a>) -> Vec<Incomplete<'a>> {
    if !shows_all(scene) {
        return Vec::new();
    }
    let seen = volumes(scene);
    let mut groups: BTreeMap<&str, (usize, &LvmHeader)> = BTreeMap::new();
    for &(index, header) in seen.values().flatten() {
        if let Some(group) = header.group.as_deref().filter(|_| !header.group_members.is_empty()) {
            // A member that was away has the metadata of then.
            let known = groups.entry(group).or_insert((index, header));
            if header.seqno > known.1.seqno {
                *known = (index, header);
            }
        }
    }
    let resting = resting(scene);
    let with_missing = groups.into_iter().map(|(group, (index, header))| {
        let members = header.group_members.iter().map(String::as_str);
        let missing = members.filter(|uuid| !seen.contains_key(uuid)).collect();
        (group, index, header, missing)
    });
    with_missing.filter(|(_, _, _, missing): &Incomplete<'_>| missing.len() > resting).collect()
}

/// True when every device was looked at: one that was not may be the missing one.
pub(in crate::rules) fn is_all_read(scene: &Scene<'_>) -> bool {
    const OF_MOUNTED: [&str; 3] = ["space of ", "block groups of ", "pieces of free space on "];
    let is_of_mounted =
        |unread: &Unread| OF_MOUNTED.iter().any(|words| unread.what.starts_with(words));
    scene.snapshot.unread.iter().all(is_of_mounted)
}

/// The groups that surely lack devices.
pub(super) fn lacking_groups<'a>(scene: &Scene<'a>) -> BTreeSet<&'a str> {
    let groups = incomplete_groups(scene).into_iter().filter(|_| is_all_read(scene));
    groups.map(|(group, ..)| group).collect()
}

/// Groups whose members are not all there, with the volumes that lack parts by that.
pub(super) fn incomplete(scene: &Scene<'_>) -> Vec<Defect> {
    let all_read = is_all_read(scene);
    incomplete_groups(scene)
        .into_iter()
        .map(|(group, index, header, missing)| {
            let node = scene.node(index);
            let quoted = word(group);
            let volumes = arrays::without_parts(scene, group);
            let lack = match volumes.as_slice() {
                [] => String::new(),
                all => format!(
                    "; by that parts are missing of {}",
                    list(all.iter().map(|(name, _)| name.as_str()))
                ),
            };
            let defect = Defect::new(
                "lvm-vg-incomplete",
                Gravity::High,
                Some(&node.key()),
                format!(
                    "{} of the {} devices of the group {group} are not there{lack}",
                    missing.len(),
                    header.group_members.len()
                ),
            );
            let volumes = volumes.into_iter().map(|(_, volume)| scene.node(volume).key());
            volumes
                .fold(defect, Defect::concerning)
                .sure(if all_read { Certainty::Certain } else { Certainty::Possible })
                .seen(
                    format!("metadata of LVM on {}", node.label()),
                    format!("names {}", list(missing.iter().copied())),
                )
                .because(
                    "volumes with a part on a missing device cannot be used, or only with \
                    less safety, and the group cannot be changed",
                )
                .command("see which volumes that are", format!("lvs -a -o +devices {quoted}; pvs"))
                .advise(
                    "bring the devices back: cable, adapter, iSCSI or multipath that was \
                    not up in time",
                )
                .command("when they come back", format!("vgchange -ay {quoted}"))
                .advise(
                    "only when they are gone for good: lvconvert --repair of volumes with \
                    other copies, then vgreduce --removemissing, which is refused while any \
                    other volume has a part on them",
                )
                .risking(
                    "vgreduce --removemissing --force deletes every volume with a part on a \
                    missing device, with what is left of its data: copy that first",
                )
                .verified_by(format!("vgs {quoted} shows no p (partial) among its attributes"))
        })
        .collect()
}

/// Devices that carry the same label of LVM, none of which stands on the other.
pub(super) fn duplicates(scene: &Scene<'_>) -> Vec<Defect> {
    let twice = volumes(scene).into_iter().filter(|(_, same)| same.len() > 1);
    twice
        .filter_map(|(uuid, same)| {
            let indexes: Vec<usize> = same.iter().map(|&(index, _)| index).collect();
            if let Some(told) = attached_twice(scene, "lvm-duplicate-pv", &indexes) {
                return Some(told);
            }
            // Paths to one drive are another rule's matter, and LVM does not look into its own volumes (`devices/scan_lvs`).
            if on_same_drive(scene, &indexes)
                && (are_paths(scene, &indexes) || are_volumes(scene, &indexes))
            {
                return None;
            }
            let used: Vec<usize> =
                indexes.iter().copied().filter(|&index| scene.in_use(index)).collect();
            let names = list(indexes.iter().map(|&index| scene.node(index).label()));
            let gravity = if used.is_empty() { Gravity::Medium } else { Gravity::High };
            let first = used.first().or(indexes.first())?;
            let defect = Defect::new(
                "lvm-duplicate-pv",
                gravity,
                Some(&scene.node(*first).key()),
                format!("{names} all say that they are the physical volume {uuid}"),
            );
            let defect = each_seen(scene, defect, &indexes, *first, ("label of LVM on", uuid));
            let copy = if used.is_empty() { UNKNOWN_COPY } else { copy_of(scene, &indexes) };
            Some(
                defect
                    .because(
                        "LVM takes the one that it finds first: after a reboot it may be \
                        the old copy, and writes then go to two different versions",
                    )
                    .advise(
                        "find out where the copy comes from: a clone, a snapshot of an \
                        array, a mirror that is not assembled",
                    )
                    .command(
                        "where both shall be used: give the copy a name and UUIDs of its own (of a \
                        group of several volumes name all copies at once)",
                        format!("vgimportclone {}", word(copy)),
                    )
                    .advise(
                        "where it shall not be seen: take it away, or reject it by \
                        devices/global_filter in /etc/lvm/lvm.conf",
                    )
                    .risking(
                        "vgimportclone changes the device that is named: name the copy, not \
                        the original",
                    )
                    .verified_by("pvs prints no warning about duplicates"),
            )
        })
        .collect()
}
