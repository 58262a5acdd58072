//! Filesystems that are there twice: clones, snapshots, images attached a second time.

use crate::rules::shared::{
    are_paths, are_volumes, attached_twice, by_identity, copy_of, each_seen, list, on_same_drive,
};
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_model::defect::{Defect, Gravity};
use fathom_model::stack::detail::FsSuperblock;

/// What a superblock says that it is: a filesystem of several devices has a name for each beside its own.
type Identity<'a> = (&'a str, &'a str, Option<&'a str>);

/// Every superblock that is not that of an array's member: what is done to the member alone breaks the array. Snapshots of old have
/// no names of a btrfs' devices.
fn superblocks<'a>(
    scene: &Scene<'a>,
) -> impl Iterator<Item = (Identity<'a>, usize, &'a FsSuperblock)> {
    scene.nodes(&[]).filter_map(|(index, node)| {
        let content = node.details().content.as_ref().filter(|content| content.md.is_none())?;
        let found = content.filesystem.as_ref()?;
        let uuid = found.uuid.as_deref()?;
        let device_uuid = found.device_uuid.as_deref();
        if found.fs_type == "btrfs" && device_uuid.is_none() {
            return None;
        }
        Some(((found.fs_type.as_str(), uuid, device_uuid), index, found))
    })
}

/// True when `/etc/fstab` asks for it by that UUID.
fn is_asked_for(scene: &Scene<'_>, uuid: &str) -> bool {
    let entries = scene.snapshot.system.configuration.fstab.iter();
    let mut asked = entries.filter_map(|entry| entry.source.strip_prefix("UUID="));
    asked.any(|asked| asked.trim_matches('"').eq_ignore_ascii_case(uuid))
}

/// Devices whose filesystems have one UUID, none of which stands on the other.
pub(super) fn twins(scene: &Scene<'_>) -> Vec<Defect> {
    let all = by_identity(scene, superblocks(scene));
    let twice = all.into_iter().filter(|(_, same)| same.len() > 1);
    twice
        .filter_map(|((fs_type, uuid, _), same)| {
            let indexes: Vec<usize> = same.iter().map(|&(index, _)| index).collect();
            if let Some(told) = attached_twice(scene, "filesystem-twins", &indexes) {
                return Some(told);
            }
            let on_one = on_same_drive(scene, &indexes);
            // Paths to one drive are another rule's matter.
            if on_one && are_paths(scene, &indexes) {
                return None;
            }
            let first = *indexes.iter().find(|&&index| scene.in_use(index)).or(indexes.first())?;
            // udev prefers the origin of a snapshot where somebody asks by UUID.
            let is_snapshot = on_one && are_volumes(scene, &indexes);
            let gravity = if is_snapshot {
                Gravity::Low
            } else if is_asked_for(scene, uuid) {
                Gravity::High
            } else {
                match (scene.in_use(first), fs_type) {
                    (false, _) => Gravity::Low,
                    (true, "btrfs") => Gravity::High,
                    (true, _) => Gravity::Medium,
                }
            };
            let names = list(indexes.iter().map(|&index| scene.node(index).label()));
            let key = scene.node(first).key();
            let summary = format!("{names} all say that they are the {fs_type} {uuid}");
            let defect = Defect::new("filesystem-twins", gravity, Some(&key), summary);
            let defect = each_seen(scene, defect, &indexes, first, ("superblock of", uuid));
            let copy = copy_of(scene, &indexes);
            let defect = defect.because(why(fs_type)).advise(
                "find out where the copy comes from (a clone, a snapshot, an image attached \
                twice), and take it away when it is not needed",
            );
            Some(
                renamed(defect, fs_type, copy)
                    .risking(
                        "the UUID of what is named changes: name the copy, and what asks for \
                    it by the old UUID does not find it any more",
                    )
                    .verified_by("fathom check shows no [filesystem-twins]"),
            )
        })
        .collect()
}

fn why(fs_type: &str) -> &'static str {
    match fs_type {
        "btrfs" => {
            "btrfs takes devices by what they say: the copy may be mounted in the place of the \
            other, or be taken for it while that is mounted"
        }
        "xfs" => {
            "what asks by UUID gets either, after a reboot perhaps the old copy; and XFS refuses \
            to mount the second beside the first"
        }
        _ => {
            "what asks by UUID, as /etc/fstab, gets either, after a reboot perhaps the old copy, \
            and new data go there"
        }
    }
}

/// How the copy gets a UUID of its own.
fn renamed(defect: Defect, fs_type: &str, copy: &str) -> Defect {
    let text = "where both shall be used: give the copy, unmounted, a UUID of its own";
    let copy = word(copy);
    match fs_type {
        "ext2" | "ext3" | "ext4" => defect
            .command("first check it, unmounted", format!("e2fsck -f {copy}"))
            .command(text, format!("tune2fs -U random {copy}")),
        "xfs" => defect
            .command(
                "first have its log written back",
                format!("mount -o nouuid {copy} /mnt && umount /mnt"),
            )
            .command(text, format!("xfs_admin -U generate {copy}")),
        "btrfs" => defect.advise(format!(
            "{text}, while the other is detached, for the tool takes devices by what they say, too: \
            btrfstune -u {copy}"
        )),
        _ => defect,
    }
}
