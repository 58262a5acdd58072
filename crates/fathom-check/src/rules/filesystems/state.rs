//! What has happened to a filesystem, and what it is doing.

use super::space::MADE_FULL;
use super::{Mounted, mounted};
use crate::conditions;
use crate::rules::shared::mount_points;
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::Node;
use fathom_model::stack::detail::FsSuperblock;
use fathom_model::system::FstabEntry;

/// Errors that a filesystem has counted.
pub(super) fn errors(scene: &Scene<'_>) -> Vec<Defect> {
    mounted(scene)
        .iter()
        .filter_map(|m| {
            let errors = counted(m)?;
            let (place, device) = (&m.mount.mount_point, device_label(scene, m.index));
            let turned = turned(scene, m);
            let defect = Defect::new(
                "filesystem-errors",
                Gravity::High,
                Some(&m.node.key()),
                format!(
                    "{} at {place} has counted {errors} error{}{}",
                    m.fs.fs_type,
                    if errors == 1 { "" } else { "s" },
                    turned
                        .as_ref()
                        .map_or_else(String::new, |turned| format!(" and {}", turned.words)),
                ),
            )
            .because(why_errors(m));
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
                    .seen(counter_file(scene, m), errors.to_string())
                    .command(
                        "see what happened first and last",
                        format!("dmesg -T | grep -i {}", word(&m.fs.fs_type)),
                    )
                    .advise(
                        "look at the drives under it first: smartctl -x; a check on a \
                        failing drive does harm",
                    )
            };
            let defect = if btrfs { defect } else { check_unmounted(defect, m, check, &device) };
            let seen = turned.map(|turned| turned.seen).unwrap_or_default();
            let defect = seen.into_iter().fold(defect, |d, (source, value)| d.seen(source, value));
            Some(
                defect
                    .risking(if btrfs {
                        "scrub reads all devices from end to end, and writes where a copy is bad"
                    } else {
                        "a check changes the filesystem and may move files to lost+found: \
                        back up first what can still be read"
                    })
                    .verified_by(if btrfs {
                        "btrfs device stats stays at 0"
                    } else {
                        "the counter is 0 after the check and stays there"
                    }),
            )
        })
        .collect()
}

fn why_errors(m: &Mounted<'_>) -> String {
    let now = if m.is_writable() && stopped(m).is_none() {
        "it may turn read-only at any time"
    } else {
        "it takes no writes now"
    };
    format!(
        "reads or writes of it have failed, or what was read made no sense: files or its own \
        tables may be damaged, and {now}"
    )
}

/// The check that mends it, which `/` gets from elsewhere.
fn check_unmounted(defect: Defect, m: &Mounted<'_>, check: &str, device: &str) -> Defect {
    match m.mount.mount_point.as_str() {
        "/" => defect.advise(format!("then check it from a rescue system: {check} {device}")),
        place => {
            defect.command("then check it", format!("umount {} && {check} {device}", word(place)))
        }
    }
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

/// The word by which the kernel says that it lets nothing be written any more, whatever the mount was to be: since 6.12 ext4
/// keeps `rw` beside it.
fn stopped(m: &Mounted<'_>) -> Option<&'static str> {
    ["emergency_ro", "shutdown"].into_iter().find(|word| m.mount.has_option(word))
}

/// Errors that it has counted, if any.
fn counted(m: &Mounted<'_>) -> Option<u64> {
    m.fs.errors_count.filter(|&errors| errors > 0)
}

/// Where the driver of ext2 to ext4 shows its count.
fn counter_file(scene: &Scene<'_>, m: &Mounted<'_>) -> String {
    let device = scene.below(m.index).next().map_or("DEVICE", |(_, device)| device.name.as_str());
    format!("/sys/fs/ext4/{device}/errors_count")
}

/// How a filesystem shows that it lets nothing be written any more.
struct Turned {
    /// What it does, as the end of a sentence.
    words: String,
    /// True where the kernel says so by itself.
    is_certain: bool,
    /// Where that is to be seen.
    seen: Vec<(String, String)>,
}

/// Whether it has turned read-only: of `ro` alone only fstab says whether somebody wanted it.
fn turned(scene: &Scene<'_>, m: &Mounted<'_>) -> Option<Turned> {
    let is_wanted = |option: &String| matches!(option.as_str(), "ro" | "noauto" | "user" | "users");
    let mut entries = scene.snapshot.system.configuration.fstab.iter();
    let entry = entries
        .find(|entry| entry.mount_point == m.mount.mount_point && entry.fs_type == m.fs.fs_type)
        .filter(|entry| !entry.options.iter().any(is_wanted));
    let by_fstab = entry.map(|entry| ("/etc/fstab".to_owned(), entry.options.join(",")));
    let (words, word) = match stopped(m) {
        // It says so by its answers alone.
        Some(word) if m.fs.fs_type == "xfs" => {
            ("has shut itself down: every request to it fails".to_owned(), word)
        }
        Some(word) => (format!("takes no writes any more ({word})"), word),
        None if m.mount.super_options.iter().any(|option| option == "ro") => {
            by_fstab.as_ref()?;
            ("is read-only, but fstab mounts it for writing".to_owned(), "ro")
        }
        None => return None,
    };
    let seen = if word == "shutdown" && m.fs.fs_type == "xfs" {
        (format!("stat {}", m.mount.mount_point), "Input/output error".to_owned())
    } else {
        (m.options_file(), word.to_owned())
    };
    let seen = std::iter::once(seen).chain(by_fstab);
    Some(Turned { words, is_certain: word != "ro", seen: seen.collect() })
}

/// Mounted read-only although fstab says nothing of it, without an error that was counted: there that is told.
pub(super) fn turned_read_only(scene: &Scene<'_>) -> Vec<Defect> {
    let all = mounted(scene);
    let silent =
        all.iter().filter(|m| counted(m).is_none() && !MADE_FULL.contains(&m.fs.fs_type.as_str()));
    silent
        .filter_map(|m| {
            let turned = turned(scene, m)?;
            let defect = Defect::new(
                "remounted-read-only",
                Gravity::High,
                Some(&m.node.key()),
                format!("{} at {} {}", m.fs.fs_type, m.mount.mount_point, turned.words),
            )
            .sure(if turned.is_certain {
                Certainty::Certain
            } else {
                Certainty::Likely
            });
            let seen = turned.seen.into_iter();
            let defect = seen.fold(defect, |d, (source, value)| d.seen(source, value));
            Some(find_out_and_check(scene, m, defect))
        })
        .collect()
}

fn find_out_and_check(scene: &Scene<'_>, m: &Mounted<'_>, defect: Defect) -> Defect {
    let check = check_unchanged(&m.fs.fs_type, &device_label(scene, m.index));
    let defect = defect
        .because(
            "a filesystem that meets errors in its own tables stops writing; programs that write \
            there fail",
        )
        .command(
            "see what happened",
            format!("dmesg -T | grep -iE '{}|I/O error|remount'", m.fs.fs_type),
        )
        .advise("look at the drives under it: smartctl -x");
    let place = word(&m.mount.mount_point);
    let defect = if m.fs.fs_type == "xfs" && stopped(m).is_some() {
        defect.command(
            "when the drives are well: mount it anew, with the options that it had, which replays its log",
            format!("umount {place} && mount {} {place}", device_label(scene, m.index)),
        )
    } else {
        defect
    };
    let defect = match m.mount.mount_point.as_str() {
        "/" => defect.advise(format!("then check it from a rescue system: {check}")),
        place => defect.command(
            "then look without changing anything",
            format!("umount {} && {check}", word(place)),
        ),
    };
    defect
        .risking("mounting it for writing without a check spreads the damage")
        .verified_by("it is mounted rw again and the kernel's log stays quiet")
}

/// Superblocks of filesystems that nobody has mounted, nor opened: virtual machines have theirs on volumes of this one.
fn unmounted<'a>(scene: &Scene<'a>) -> Vec<(&'a Node, &'a FsSuperblock)> {
    let all = scene.nodes(&[]).filter(|&(index, node)| {
        node.devno.is_some() && scene.is_free(index) && node.details().opened != Some(true)
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

/// Mounted so often, or for so long, since the last check that the next boot makes one.
pub(super) fn check_due(scene: &Scene<'_>) -> Vec<Defect> {
    let all = scene.nodes(&[]).filter_map(|(index, node)| {
        let sb = node.details().content.as_ref()?.filesystem.as_ref()?;
        is_checked_at_boot(scene, index, sb).then_some((node, sb))
    });
    all.filter_map(|(node, sb)| {
        let (words, seen) = due(sb, scene.snapshot.made_at_unix_s)?;
        let path = word(node.label());
        Some(
            Defect::new(
                "filesystem-check-due",
                Gravity::Low,
                Some(&node.key()),
                format!("{} on {} {words} the boot checks it", sb.fs_type, node.label()),
            )
            .seen(format!("superblock of {}", node.label()), seen)
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
                "tune2fs -l {path} shows Maximum mount count: -1 and Check interval: 0, or a low mount \
                count and a Last checked of today"
            )),
        )
    })
    .collect()
}

/// Which of the two limits of e2fsck(8) is reached, if one is: in words, and as seen.
fn due(sb: &FsSuperblock, now_unix_s: i64) -> Option<(String, String)> {
    const DAY_S: u64 = 24 * 3600;
    let (count, limit) = sb.mounts.unwrap_or((0, -1));
    if u64::try_from(limit).is_ok_and(|limit| limit > 0 && count >= limit) {
        let words = format!("was mounted {count} times since its last check; from {limit} on");
        return Some((words, format!("mount count {count}, limit {limit}")));
    }
    let interval_s = sb.check_interval_s.filter(|&seconds| seconds > 0)?;
    let age_s = u64::try_from(now_unix_s.checked_sub(sb.checked_at_unix_s?)?).ok()?;
    (age_s >= interval_s).then(|| {
        let (age, interval) = (age_s / DAY_S, interval_s / DAY_S);
        let words = format!("was last checked {age} days ago; after {interval}");
        (words, format!("last check {age_s} s ago, interval {interval_s} s"))
    })
}

/// The root directory's is, and what has a number for it in fstab.
fn is_checked_at_boot(scene: &Scene<'_>, index: usize, sb: &FsSuperblock) -> bool {
    let node = scene.node(index);
    let mut places = mount_points(scene, index);
    places.extend(node.mounted_at.iter().map(String::as_str));
    let label = || scene.above(index).find_map(|(_, fs)| fs.fs.as_ref()?.label.as_deref());
    let is_own = |entry: &FstabEntry| match entry.source.split_once('=') {
        Some(("UUID", uuid)) => sb.uuid.as_deref() == Some(uuid),
        Some(("PARTUUID", uuid)) => {
            node.partition.as_ref().and_then(|p| p.uuid.as_deref()) == Some(uuid)
        }
        Some(("LABEL", name)) => label() == Some(name),
        _ => {
            let name = entry.source.strip_prefix("/dev/").unwrap_or(&entry.source);
            let link = name.strip_prefix("disk/").unwrap_or(name);
            entry.source == node.label() || node.details().links.iter().any(|own| own == link)
        }
    };
    let mut entries = scene.snapshot.system.configuration.fstab.iter();
    places.contains(&"/")
        || entries.any(|entry| {
            entry.pass > 0
                && entry.options.iter().all(|option| option != "noauto")
                && (places.contains(&entry.mount_point.as_str()) || is_own(entry))
        })
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
