//! What has happened to a filesystem, and what it is doing.

use super::{Mounted, mounted};
use crate::conditions;
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::Node;
use fathom_model::stack::detail::FsSuperblock;

/// Errors that a filesystem has counted.
pub(super) fn errors(scene: &Scene<'_>) -> Vec<Defect> {
    mounted(scene)
        .iter()
        .filter_map(|m| {
            let errors = m.fs.errors_count.filter(|&errors| errors > 0)?;
            let (place, device) = (&m.mount.mount_point, device_label(scene, m.index));
            let defect = Defect::new(
                "filesystem-errors",
                Gravity::High,
                Some(&m.node.key()),
                format!("{} at {place} has counted {errors} errors", m.fs.fs_type),
            )
            .because(
                "reads or writes of it have failed, or what was read made no sense: files \
                or its own tables may be damaged, and it may turn read-only at any time",
            );
            let btrfs = m.fs.fs_type == "btrfs";
            let check = if m.fs.fs_type == "xfs" { "xfs_repair -n" } else { "e2fsck -f" };
            let defect = if btrfs {
                defect
                    .seen("btrfs device stats", errors.to_string())
                    .command(
                        "see which device and what kind",
                        format!("btrfs device stats {}", word(place)),
                    )
                    .command(
                        "read everything and mend what has a good copy",
                        format!("btrfs scrub start -B {}", word(place)),
                    )
                    .command(
                        "then begin to count anew",
                        format!("btrfs device stats --reset {}", word(place)),
                    )
            } else {
                defect
                    .seen(format!("/sys/fs/{}/.../errors_count", m.fs.fs_type), errors.to_string())
                    .command(
                        "see what happened first and last",
                        format!("dmesg -T | grep -i {}", word(&m.fs.fs_type)),
                    )
                    .advise(
                        "look at the drives under it first: smartctl -x; a check on a \
                        failing drive does harm",
                    )
            };
            let defect = match (btrfs, place.as_str()) {
                (true, _) => defect,
                (_, "/") => {
                    defect.advise(format!("then check it from a rescue system: {check} {device}"))
                }
                _ => defect.command(
                    "then check it",
                    format!("umount {} && {check} {device}", word(place)),
                ),
            };
            Some(
                defect
                    .risking(
                        "a check changes the filesystem and may move files to lost+found: \
                        back up first what can still be read",
                    )
                    .verified_by(if btrfs {
                        "btrfs device stats stays at 0"
                    } else {
                        "the counter is 0 after the check and stays there"
                    }),
            )
        })
        .collect()
}

/// The device that a filesystem lies on, as a word of a command.
fn device_label(scene: &Scene<'_>, index: usize) -> String {
    scene
        .below(index)
        .next()
        .map_or_else(|| "DEVICE".to_owned(), |(_, device)| word(device.label()))
}

/// The command that checks a filesystem and changes nothing: `fsck` itself does nothing for XFS and btrfs.
fn check_unchanged(fs_type: &str, device: &str) -> String {
    match fs_type {
        "xfs" => format!("xfs_repair -n {device}"),
        "btrfs" => format!("btrfs check --readonly {device}"),
        "ext2" | "ext3" | "ext4" => format!("e2fsck -fn {device}"),
        _ => format!("fsck -n {device}"),
    }
}

/// Mounted read-only although fstab says nothing of it.
pub(super) fn turned_read_only(scene: &Scene<'_>) -> Vec<Defect> {
    let fstab = &scene.snapshot.system.configuration.fstab;
    let all = mounted(scene);
    all.iter()
        .filter(|m| {
            // Since 6.12 ext4 keeps `rw` and says the rest in a word of its own.
            let own_words = m.mount.has_option("emergency_ro") || m.mount.has_option("shutdown");
            own_words || m.mount.super_options.iter().any(|option| option == "ro")
        })
        .filter_map(|m| {
            let entry = fstab.iter().find(|entry| {
                entry.mount_point == m.mount.mount_point && entry.fs_type == m.fs.fs_type
            })?;
            if entry
                .options
                .iter()
                .any(|option| matches!(option.as_str(), "ro" | "noauto" | "user" | "users"))
            {
                return None;
            }
            let counted = m.fs.errors_count.is_some_and(|errors| errors > 0);
            let place = &m.mount.mount_point;
            let check = check_unchanged(&m.fs.fs_type, &device_label(scene, m.index));
            let defect = Defect::new(
                "remounted-read-only",
                Gravity::High,
                Some(&m.node.key()),
                format!(
                    "{} at {place} is read-only, but fstab mounts it for writing",
                    m.fs.fs_type
                ),
            )
            .sure(if counted { Certainty::Certain } else { Certainty::Likely })
            .seen(m.options_file(), "ro")
            .seen("/etc/fstab", entry.options.join(","))
            .because(
                "a filesystem that meets errors in its own tables stops writing; \
                    programs that write there fail",
            )
            .command(
                "see what happened",
                format!("dmesg -T | grep -iE '{}|I/O error|remount'", m.fs.fs_type),
            )
            .advise("look at the drives under it: smartctl -x");
            let defect = if place == "/" {
                defect.advise(format!("then check it from a rescue system: {check}"))
            } else {
                defect.command(
                    "then look without changing anything",
                    format!("umount {} && {check}", word(place)),
                )
            };
            Some(
                defect
                    .risking("mounting it for writing without a check spreads the damage")
                    .verified_by("it is mounted rw again and the kernel's log stays quiet"),
            )
        })
        .collect()
}

/// Superblocks of filesystems that nobody has mounted, nor opened: virtual machines have theirs on volumes of this one.
fn unmounted<'a>(scene: &Scene<'a>) -> Vec<(&'a Node, &'a FsSuperblock)> {
    let all = scene.nodes(&[]).filter(|&(index, node)| {
        node.devno.is_some() && !scene.in_use(index) && node.details().opened != Some(true)
    });
    all.filter_map(|(_, node)| Some((node, node.details().content.as_ref()?.filesystem.as_ref()?)))
        .collect()
}

/// Not mounted, and not put away cleanly.
pub(super) fn unclean(scene: &Scene<'_>) -> Vec<Defect> {
    unmounted(scene)
        .into_iter()
        .filter_map(|(node, sb)| {
            // A journal's own device has no state of a filesystem.
            let state = sb.state.as_deref().filter(|_| sb.fs_type != "jbd")?;
            let damaged = ["error", "repair"].iter().any(|word| state.contains(word));
            let dirty = ["not clean", "recovery"].iter().any(|word| state.contains(word));
            if !damaged && !dirty {
                return None;
            }
            let (gravity, why) = if damaged {
                (
                    Gravity::Medium,
                    "the kernel found errors in it when it was last \
                    mounted, or its repair was not finished: its tables may be damaged",
                )
            } else {
                (
                    Gravity::Low,
                    "the machine crashed, or the device went away, while it was mounted: \
                    its journal is replayed at the next mount",
                )
            };
            let defect = Defect::new(
                "filesystem-unclean",
                gravity,
                Some(&node.key()),
                format!(
                    "{} on {} is not mounted and was not put away: {state}",
                    sb.fs_type,
                    node.label()
                ),
            )
            .seen(format!("superblock of {}", node.label()), state)
            .because(why);
            Some(
                put_away(defect, node, sb, damaged)
                    .risking(
                        "a device that another machine has mounted, or a virtual machine of this \
                    one, shows the same: mounting or mending it here would destroy it",
                    )
                    .verified_by("the superblock says clean"),
            )
        })
        .collect()
}

/// What to do with a filesystem that was not put away: one with errors is never mounted for writing before its check, which
/// alone takes the mark away.
fn put_away(defect: Defect, node: &Node, sb: &FsSuperblock, damaged: bool) -> Defect {
    let path = word(node.label());
    let is_ext = sb.fs_type.starts_with("ext");
    let look = if is_ext {
        "look without changing anything (it leaves the journal out, and so shows damage that the \
        replay mends)"
    } else {
        "look without changing anything"
    };
    let defect = defect.command(look, check_unchanged(&sb.fs_type, &path));
    let free = if node.details().opened == Some(false) {
        String::new()
    } else {
        format!(
            "whether anything has it open, as a virtual machine, was not seen: only where fuser \
            -v {path} shows nothing as root, "
        )
    };
    if !damaged {
        let mount = "mount it once, which replays the journal, and unmount it";
        return defect.advise(format!("{free}{mount}"));
    }
    let check = match sb.fs_type.as_str() {
        _ if is_ext => format!("e2fsck -f {path}"),
        "xfs" => format!("xfs_repair {path}"),
        // Its fsck does nothing.
        "btrfs" => format!("btrfs check --readonly {path}"),
        kind => format!("fsck.{kind} {path}"),
    };
    defect
        .advise("look at the drives under it: smartctl -x; a check on a failing drive does harm")
        .advise(format!(
            "{free}copy the device or take a snapshot of its volume, then check it: {check}"
        ))
}

/// Mounted so often since the last check that the next boot makes one.
pub(super) fn check_due(scene: &Scene<'_>) -> Vec<Defect> {
    let all = scene.nodes(&[]).filter_map(|(_, node)| {
        Some((node, node.details().content.as_ref()?.filesystem.as_ref()?))
    });
    all.filter_map(|(node, sb)| {
        let (count, limit) = sb.mounts?;
        let limit = u64::try_from(limit).ok().filter(|&limit| limit > 0 && count >= limit)?;
        let path = word(node.label());
        Some(
            Defect::new(
                "filesystem-check-due",
                Gravity::Low,
                Some(&node.key()),
                format!(
                    "{} on {} was mounted {count} times since its last check; from {limit} \
                    on the boot checks it",
                    sb.fs_type,
                    node.label()
                ),
            )
            .seen(
                format!("superblock of {}", node.label()),
                format!("mount count {count}, limit {limit}"),
            )
            .because(
                "the next start of the machine takes minutes to hours longer, at a moment \
                that nobody chose",
            )
            .command("check it at a moment of your choice, unmounted", format!("e2fsck -f {path}"))
            .command(
                "or count no longer, as mke2fs has done by default since 2011",
                format!("tune2fs -c 0 -i 0 {path}"),
            )
            .risking(
                "without checks at boot, somebody has to look at \
                the error counters: fathom check does",
            )
            .verified_by(format!(
                "tune2fs -l {path} shows Maximum mount count: -1, or a low mount count"
            )),
        )
    })
    .collect()
}

/// A young ext4 whose inode tables the kernel still zeroes in the background.
pub(super) fn lazy_init(scene: &Scene<'_>) -> Vec<Defect> {
    let snapshot = scene.snapshot;
    if !snapshot.system.kernel_threads.iter().any(|thread| thread.starts_with("ext4lazyinit")) {
        return Vec::new();
    }
    let all = mounted(scene);
    let left_of =
        |m: &Mounted<'_>| conditions::lazy_init_left(m.fs, Some(m.mount), snapshot.made_at_unix_s);
    // Where the block groups are unknown, the thread may work for another one.
    let several = all.iter().filter(|m| left_of(m).is_some()).count() > 1;
    all.iter()
        .filter(|m| m.fs.groups_uninitialised.is_some() || !several)
        .filter_map(|m| {
            let left = left_of(m)?;
            Some(
                Defect::new(
                    "ext4-lazy-init",
                    Gravity::Medium,
                    Some(&m.node.key()),
                    format!(
                        "the new {} at {} still zeroes its inode tables in the background ({left})",
                        m.fs.fs_type, m.mount.mount_point
                    ),
                )
                .sure(if m.fs.groups_uninitialised.is_some() {
                    Certainty::Certain
                } else {
                    Certainty::Likely
                })
                .seen("kernel threads", "ext4lazyinit")
                .because(
                    "writes compete with it for minutes to hours, and what is measured \
                    meanwhile is too low",
                )
                .command(
                    "wait until the thread is gone; it runs only while the filesystem is mounted",
                    "while pgrep ext4lazyinit; do sleep 60; done",
                )
                .advise("next time: mkfs.ext4 -E lazy_itable_init=0,lazy_journal_init=0")
                .risking("none")
                .verified_by("pgrep ext4lazyinit finds nothing; fathom quick before and after"),
            )
        })
        .collect()
}
