//! Mount options and journals.

use super::{Mounted, mounted};
use crate::rules::drives::{is_virtual, rotates, transport};
use crate::rules::shared::on_one_drive;
use crate::rules::vendor::is_raid_volume;
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::{FsFacts, Node};

/// How a mount leaves flushes out.
struct FlushesOff {
    option: &'static str,
    /// For /etc/fstab, where it may be written in several ways.
    named: &'static str,
    cure: &'static str,
    why: &'static str,
}

/// All of them, or with F2FS those of fsync only: its checkpoints are flushed then, too.
fn flushes_off(m: &Mounted<'_>) -> Option<FlushesOff> {
    if m.mount.has_option("nobarrier") || m.mount.option_value("barrier") == Some("0") {
        return Some(FlushesOff {
            option: "nobarrier",
            named: "nobarrier (barrier=0)",
            cure: "barrier",
            why: "fsync returns before the data is on stable storage, and the journal may reach \
                it in the wrong order: a power cut loses what was promised, or the filesystem",
        });
    }
    let is_of_fsync =
        m.fs.fs_type == "f2fs" && m.mount.option_value("fsync_mode") == Some("nobarrier");
    is_of_fsync.then_some(FlushesOff {
        option: "fsync_mode=nobarrier",
        named: "fsync_mode=nobarrier",
        cure: "fsync_mode=posix",
        why: "fsync returns before the data is on stable storage: a power cut loses what was promised",
    })
}

/// No flushes on a drive whose cache forgets.
pub(super) fn barriers_off(scene: &Scene<'_>) -> Vec<Defect> {
    mounted(scene)
        .iter()
        .filter(|m| m.is_writable())
        .filter_map(|m| {
            let off = flushes_off(m)?;
            let volatile =
                scene.machine().disks_under(m.index).into_iter().map(|disk| scene.node(disk)).find(
                    |disk| {
                        let safe = disk
                            .details()
                            .identity
                            .as_ref()
                            .and_then(|identity| identity.power_loss_protection);
                        let cache =
                            disk.queue.as_ref().and_then(|queue| queue.write_cache.as_deref());
                        cache == Some("write back") && safe != Some(true)
                    },
                );
            let disk = volatile?;
            let place = &m.mount.mount_point;
            // A controller's cache may be kept over a power cut: only its maker's tool knows.
            let (gravity, sure) = if is_raid_volume(scene, disk) {
                (Gravity::Medium, Certainty::Possible)
            } else {
                (Gravity::High, Certainty::Certain)
            };
            Some(
                Defect::new(
                    "barriers-off",
                    gravity,
                    Some(&m.key),
                    format!(
                        "{} at {place} is mounted without barriers, \
                        and {} has a cache that forgets",
                        m.fs.fs_type, disk.name
                    ),
                )
                .sure(sure)
                .concerning(disk.key())
                .seen(m.options_file(), off.option)
                .seen(format!("/sys/class/block/{}/queue/write_cache", disk.name), "write back")
                .because(off.why)
                .command("switch them on", format!("mount -o remount,{} {}", off.cure, word(place)))
                .advise(format!("and take {} out of /etc/fstab", off.named))
                .risking(
                    "commits become as slow as the drive's flush; where that is too slow, \
                    use drives with power loss protection",
                )
                .verified_by(format!(
                    "fathom run commit {} before and after \
                    shows the real price of a commit",
                    word(place)
                )),
            )
        })
        .collect()
}

/// A journal that was put on a device of its own, which lies on the data's disk.
pub(super) fn journal_same_spindle(scene: &Scene<'_>) -> Vec<Defect> {
    mounted(scene)
        .iter()
        .filter_map(|m| {
            let (data, device) = scene.below(m.index).next()?;
            let journal = scene.journal(m.index)?;
            // Without heads to move, a device of its own costs nothing.
            let disks = scene.machine().disks_under(journal);
            if !disks.into_iter().any(|disk| has_heads(scene.node(disk))) {
                return None;
            }
            let pairs = on_one_drive(scene, &[data, journal]);
            let (_, _, disk) = pairs.first()?;
            let other = scene.node(journal);
            let defect = Defect::new(
                "journal-same-spindle",
                Gravity::Medium,
                Some(&m.node.key()),
                format!(
                    "the journal of {} at {} lies on {}, on the same disk {disk} as the data",
                    m.fs.fs_type, m.mount.mount_point, other.name
                ),
            )
            .concerning(other.key())
            .seen(format!("{} and {}", device.label(), other.label()), format!("both on {disk}"))
            .because(
                "the heads move between journal and data for each commit, further than they \
                would with a journal inside the filesystem",
            )
            .advise(if m.fs.fs_type.starts_with("ext") {
                "put the journal on another drive, best one without heads and with power loss \
                protection, or inside the filesystem"
            } else {
                "put the journal on another drive, best one without heads and with power loss \
                protection"
            });
            let place = word(&m.mount.mount_point);
            let defect = move_journal(defect, m.fs, [device, other].map(Node::label), &place);
            Some(defect.verified_by(format!("fathom run commit {place} before and after")))
        })
        .collect()
}

/// True for drives that rotate. What a hypervisor's disk says of that is not about a drive; the kernel's own disk for tests rotates
/// when it was told to.
fn has_heads(disk: &Node) -> bool {
    if transport(disk) == "scsi_debug" {
        return disk.queue.as_ref().and_then(|queue| queue.rotational) == Some(true);
    }
    rotates(disk) && !is_virtual(disk)
}

/// How a journal gets away from its data: the superblock of XFS does not say where its log lies, that of ext4 does.
fn move_journal(defect: Defect, fs: &FsFacts, [device, log]: [&str; 2], place: &str) -> Defect {
    let (device, log) = (word(device), word(log));
    if !fs.fs_type.starts_with("ext") {
        return defect
            .command(
                "unmounted: copy the log of XFS to a device on another drive that is at least as \
                large and holds nothing that is needed",
                format!("umount {place} && dd if={log} of=/dev/NEW bs=1M conv=fsync"),
            )
            .command(
                "mount it with that one and the options that it has already, and change logdev in \
                /etc/fstab (into the filesystem itself a log only gets by making that anew)",
                format!("mount -o logdev=/dev/NEW {device} {place}"),
            )
            .risking("dd overwrites the new device; once mounted with that, the old log is stale");
    }
    let defect = if place == "/" {
        defect.advise("from another system, as / cannot be unmounted")
    } else {
        defect.command("for one inside: unmount it", format!("umount {place}"))
    };
    defect
        .command("take the journal away", format!("tune2fs -O ^has_journal {device}"))
        .command("and make one inside", format!("tune2fs -j {device}"))
        .risking("between the two commands a crash needs a full check")
}

/// ext4 without a journal has to be checked as a whole after each crash.
pub(super) fn no_journal(scene: &Scene<'_>) -> Vec<Defect> {
    let all = mounted(scene);
    let found = all
        .iter()
        .filter(|m| m.fs.fs_type == "ext4" && m.fs.journal == Some(false) && m.is_writable());
    found
        .map(|m| {
            let (place, device) = (word(&m.mount.mount_point), word(&m.mount.source));
            let (text, command) = match m.mount.mount_point.as_str() {
                "/" => ("it gets one at the next start", format!("tune2fs -j {device}")),
                _ => (
                    "it gets one unmounted, after a check",
                    format!("umount {place} && e2fsck -f {device} && tune2fs -j {device}"),
                ),
            };
            Defect::new(
                "ext4-no-journal",
                Gravity::Low,
                Some(&m.key),
                format!("ext4 at {} has no journal", m.mount.mount_point),
            )
            .seen(
                format!("/proc/fs/ext4/{}/options", m.mount.source.trim_start_matches("/dev/")),
                "no word on how data and journal go together (data=)",
            )
            .because(
                "after a crash all of it has to be checked before it is mounted, which takes \
                minutes to hours, and files that were being made or moved may be lost",
            )
            .command(text, command)
            .risking(
                "each commit writes the journal, too; whoever left it out on purpose, for data \
                that can be made anew, keeps it so",
            )
            .verified_by(format!(
                "tune2fs -l {device} lists has_journal; fathom run commit {place}"
            ))
        })
        .collect()
}

/// ext4 writes data to its journal and then to its place.
pub(super) fn data_journal(scene: &Scene<'_>) -> Vec<Defect> {
    let all = mounted(scene);
    let found = all.iter().filter(|m| {
        m.fs.fs_type.starts_with("ext") && m.mount.option_value("data") == Some("journal")
    });
    found
        .map(|m| {
            Defect::new(
                "mount-data-journal",
                Gravity::Low,
                Some(&m.key),
                format!(
                    "{} is mounted with data=journal: every byte is written twice",
                    m.mount.mount_point
                ),
            )
            .seen(options_source(m), "data=journal")
            .because(
                "sequential writes reach half the speed, and direct I/O is not direct; it \
                helps only where many small synchronous writes come in bursts that fit \
                into the journal",
            )
            .advise(
                "where nobody chose it for that: take data=journal out of /etc/fstab and of \
                the default options",
            )
            .command(
                "see the default options",
                format!("tune2fs -l {} | grep -i 'default mount'", word(&m.mount.source)),
            )
            .risking(
                "data=ordered, the default, may after a crash show new data in files that \
                were being overwritten; the change needs an unmount",
            )
            .verified_by(format!(
                "fathom run seqwrite {} before and after",
                word(&m.mount.mount_point)
            ))
        })
        .collect()
}

/// ext4 promises nothing about the order of data and what names it.
pub(super) fn data_writeback(scene: &Scene<'_>) -> Vec<Defect> {
    let all = mounted(scene);
    let found = all.iter().filter(|m| {
        m.fs.fs_type.starts_with("ext")
            && m.is_writable()
            && m.mount.option_value("data") == Some("writeback")
    });
    found
        .map(|m| {
            Defect::new(
                "mount-data-writeback",
                Gravity::Low,
                Some(&m.key),
                format!(
                    "{} is mounted with data=writeback: files written shortly before a crash may \
                    hold what others deleted",
                    m.mount.mount_point
                ),
            )
            .seen(options_source(m), "data=writeback")
            .because(
                "a file may get its new length before its data is written: after a crash it shows \
                whatever its blocks held before, also what belonged to somebody else; it was \
                chosen for speed, and since data is allocated late it gains little",
            )
            .advise(
                "where nobody chose it for that: take data=writeback out of /etc/fstab and of the \
                default options (tune2fs -o ^journal_data_writeback)",
            )
            .command(
                "see the default options",
                format!("tune2fs -l {} | grep -i 'default mount'", word(&m.mount.source)),
            )
            .risking("with data=ordered a sync may write out more; the change needs an unmount")
            .verified_by(format!(
                "fathom run commit {} before and after",
                word(&m.mount.mount_point)
            ))
        })
        .collect()
}

fn options_source(m: &Mounted<'_>) -> String {
    let device = m.mount.source.rsplit('/').next().unwrap_or_default();
    if m.mount.effective_options.is_empty() {
        m.options_file()
    } else {
        format!("/proc/fs/ext4/{device}/options")
    }
}

/// Every write waits until it is on stable storage.
pub(super) fn sync(scene: &Scene<'_>) -> Vec<Defect> {
    let all = mounted(scene);
    let found = all.iter().filter(|m| m.is_writable() && m.mount.has_option("sync"));
    found
        .map(|m| {
            let place = &m.mount.mount_point;
            let defect = Defect::new(
                "mount-sync",
                Gravity::Medium,
                Some(&m.key),
                format!("{place} is mounted with sync: every write waits for the disk"),
            )
            .sure(Certainty::Likely)
            .seen(m.options_file(), "sync")
            .because(
                "each write of a program costs one or more flushes of the drive, also \
                    where nobody asked for safety; programs that need it call fsync themselves",
            );
            // With sync XFS takes wsync for itself, which no remount takes away.
            let defect = if m.fs.fs_type == "xfs" {
                defect.advise(
                    "take sync out of /etc/fstab, then umount and mount: on XFS a remount \
                    leaves wsync, which came with it",
                )
            } else {
                defect
                    .command("switch it off", format!("mount -o remount,async {}", word(place)))
                    .advise("and take sync out of /etc/fstab")
            };
            defect
                .risking(
                    "programs that relied on the mount in the place of fsync lose their \
                    newest data in a crash",
                )
                .verified_by(format!("fathom run seqwrite {} before and after", word(place)))
        })
        .collect()
}

/// From here on the flusher threads have long written what waits (`vm.dirty_expire_centisecs`), and the journal has not.
const COMMIT_LATE_S: u64 = 60;

/// The journal waits for minutes before it writes what happened by itself.
pub(super) fn commit_late(scene: &Scene<'_>) -> Vec<Defect> {
    let all = mounted(scene);
    let found = all.iter().filter_map(|m| {
        let seconds: u64 = m.mount.option_value("commit")?.parse().ok()?;
        // What each takes without a word on it (ext4(5), btrfs(5)).
        let usual_s = match m.fs.fs_type.as_str() {
            "ext3" | "ext4" => 5,
            "btrfs" => 30,
            _ => return None,
        };
        (seconds > COMMIT_LATE_S && m.is_writable()).then_some((m, seconds, usual_s))
    });
    found
        .map(|(m, seconds, usual_s)| {
            let place = &m.mount.mount_point;
            Defect::new(
                "mount-commit-late",
                Gravity::Low,
                Some(&m.key),
                format!(
                    "{place} is mounted with commit={seconds}: a crash takes up to {seconds} s of \
                    work with it"
                ),
            )
            .seen(m.options_file(), format!("commit={seconds}"))
            .because(format!(
                "files that were made, renamed or grown within the last {seconds} s are as they \
                were before, unless their program asked for fsync; and what has gathered is \
                written in bursts, behind which others wait"
            ))
            .command(
                format!("the default of {usual_s} s"),
                format!("mount -o remount,commit={usual_s} {}", word(place)),
            )
            .advise("and take commit= out of /etc/fstab")
            .risking("disks that are to sleep wake more often; whoever chose it for that keeps it")
            .verified_by(format!("fathom check {} no longer shows it", word(place)))
        })
        .collect()
}

/// Every read of a file writes its time of access.
pub(super) fn strict_atime(scene: &Scene<'_>) -> Vec<Defect> {
    let all = mounted(scene);
    let is_strict = |m: &&Mounted<'_>| {
        let options = &m.mount.options;
        // The kernel shows the absence of relatime and noatime, not the word.
        let has = |word: &str| options.iter().any(|option| option == word);
        // With lazytime the times stay in memory.
        let is_lazy = m.mount.has_option("lazytime");
        m.is_writable() && !options.is_empty() && !has("relatime") && !has("noatime") && !is_lazy
    };
    let found = all.iter().filter(is_strict);
    found
        .map(|m| {
            let place = &m.mount.mount_point;
            Defect::new(
                "mount-strictatime",
                Gravity::Low,
                Some(&m.key),
                format!("{place} is mounted with strictatime: every read of a file writes"),
            )
            .seen(
                m.options_file(),
                format!("{}: neither relatime nor noatime", m.mount.options.join(",")),
            )
            .because(
                "reading a tree of files writes every inode of it; hardly any program \
                    looks at these times",
            )
            .command(
                "the default, which writes a time once a day at most",
                // What fstab says is taken in: its strictatime would win.
                format!("mount -o remount,nostrictatime,relatime {}", word(place)),
            )
            .advise("or noatime, or lazytime with it, in /etc/fstab")
            .risking(
                "programs that compare times of access with times of change (some mail \
                    readers) work with relatime, not with noatime",
            )
            .verified_by(format!("fathom check {} no longer shows it", word(place)))
        })
        .collect()
}
