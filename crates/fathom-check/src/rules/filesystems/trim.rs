//! Discards: too often, never, or lost on the way.

use super::{Mounted, mounted};
use crate::conditions;
use crate::dm::{self, PoolStatus, PoolTable};
use crate::rules::drives::{is_virtual, transport};
use crate::rules::shared::{list, mount_points, sysfs};
use crate::rules::volumes::{is_lvm, volume_name};
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_base::units::format_size;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::{DmFacts, Node, NodeKind};

/// Not every machine is run by systemd.
const NO_SYSTEMD: &str = " (without systemd: fstrim --all by cron)";

/// Types on which a remount changes nothing of it: XFS, FAT ignores all options then, and the others know no word that takes it back.
const KEEP_DISCARD: [&str; 5] = ["xfs", "vfat", "msdos", "exfat", "ntfs3"];

/// Deletions send discards at once.
pub(super) fn online(scene: &Scene<'_>) -> Vec<Defect> {
    let all = mounted(scene);
    let found = all.iter().filter(|m| {
        m.is_writable() && conditions::discards_at_once(m.mount) && !is_in_memory(scene, m.index)
    });
    found
        .map(|m| {
            let place = &m.mount.mount_point;
            // Drives on SATA stop everything else for a discard; NVMe takes them beside other commands. The disks of virtual
            // machines are what images of distributions have the option for: their host gets the space back.
            let disks = scene.machine().disks_under(m.index);
            let is_cheap = |&disk: &usize| {
                let node = scene.node(disk);
                is_virtual(node) || transport(node) == "nvme"
            };
            let gravity = if disks.iter().all(is_cheap) { Gravity::Low } else { Gravity::Medium };
            // Where no disk is known nobody can say.
            let sure = if disks.is_empty() { Certainty::Possible } else { Certainty::Certain };
            let defect = Defect::new(
                "discard-online",
                gravity,
                Some(&m.key),
                format!(
                    "{place} is mounted with discard: deleting \
                    files sends discards between other I/O"
                ),
            )
            .sure(sure)
            .seen(m.options_file(), "discard")
            .because(
                "on many drives a discard holds up everything behind it for milliseconds, \
                and a deletion of many files sends thousands",
            )
            .command(
                format!("a weekly trim costs less{NO_SYSTEMD}"),
                "systemctl enable --now fstrim.timer",
            );
            let defect = if KEEP_DISCARD.contains(&m.fs.fs_type.as_str()) {
                let kind = if m.fs.fs_type == "xfs" { "XFS" } else { &m.fs.fs_type };
                defect.advise(format!(
                    "take discard out of /etc/fstab, then umount and mount: a remount does \
                    not change it on {kind}"
                ))
            } else {
                let instead = if m.fs.fs_type == "btrfs" { "discard=async" } else { "nodiscard" };
                defect
                    .command("switch it off", format!("mount -o remount,{instead} {}", word(place)))
                    .advise("and take discard out of /etc/fstab")
            };
            defect
                .risking("free space is told to the drive, or to thin storage, up to a week later")
                .verified_by(format!(
                    "fathom run randread {} while files are deleted, before and after",
                    word(place)
                ))
        })
        .collect()
}

/// What lies in memory in the end, as the image of a filesystem on tmpfs: a discard gives that back at once.
fn is_in_memory(scene: &Scene<'_>, index: usize) -> bool {
    let memory = [NodeKind::Memory, NodeKind::Zram, NodeKind::Ram];
    let all = scene.machine().walk_from(index);
    let mut lowest = all.into_iter().map(|i| scene.node(i)).filter(|node| node.below.is_empty());
    lowest.all(|node| memory.contains(&node.kind))
}

fn takes_discards(node: &Node) -> Option<bool> {
    node.queue.as_ref()?.discard_max_bytes.map(|bytes| bytes > 0)
}

/// Flash that is never told what is free.
pub(super) fn never(scene: &Scene<'_>) -> Vec<Defect> {
    /// Of filesystems that share the finding.
    const PLACES_SHOWN: usize = 3;
    let timers = &scene.snapshot.system.timers;
    // Without any timer seen, timers could not be read.
    if timers.is_empty() || timers.iter().any(|timer| timer.kind == "trim" && timer.enabled) {
        return Vec::new();
    }
    let all = mounted(scene);
    let found = all.iter().filter(|m| {
        // ZFS trims its pools by itself, or by a job of its own; fstrim does nothing for it.
        if m.fs.fs_type == "zfs" {
            return false;
        }
        let disks = scene.machine().disks_under(m.index);
        let flash = |&disk: &usize| {
            let node = scene.node(disk);
            let transport = node.drive.as_ref().and_then(|drive| drive.transport.as_deref());
            takes_discards(node) == Some(true)
                && node.queue.as_ref().and_then(|queue| queue.rotational) == Some(false)
                && matches!(transport, Some("sata" | "sas" | "nvme"))
        };
        let passes = scene.below(m.index).any(|(device, _)| {
            scene
                .queue(device)
                .and_then(|queue| queue.discard_max_bytes)
                .is_some_and(|bytes| bytes > 0)
        });
        let by_mount = m.mount.has_option("discard") || m.mount.option_value("discard").is_some();
        m.is_writable() && passes && !by_mount && !disks.is_empty() && disks.iter().all(flash)
    });
    let found: Vec<&Mounted<'_>> = found.collect();
    let Some(first) = found.first() else { return Vec::new() };
    let shown = &found[..found.len().min(PLACES_SHOWN)];
    let places = list(shown.iter().map(|m| m.mount.mount_point.as_str()));
    let more = match found.len() - shown.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let lie = if found.len() == 1 { "lies" } else { "lie" };
    let summary = format!("{places}{more} {lie} on flash that nobody tells what is free");
    // One timer serves all.
    let mut defect = Defect::new("trim-never", Gravity::Medium, Some(&first.key), summary)
        .sure(Certainty::Likely)
        .seen("timers and cron jobs that are switched on", "none that runs fstrim");
    for m in shown {
        defect = defect.seen(m.options_file(), "no discard");
    }
    for other in &found[1..] {
        defect = defect.also_on(&other.key);
    }
    vec![
        defect
            .because(
                "a drive that believes all its blocks to be in use has less room to move \
                data: writes become slower and wear it more",
            )
            .command(
                format!("once a week, for all filesystems{NO_SYSTEMD}"),
                "systemctl enable --now fstrim.timer",
            )
            .command("and once now, at a quiet time", "fstrim --all --verbose")
            .risking("what was deleted can no longer be recovered from the drive")
            .verified_by(format!(
                "fathom run randwrite {} before and after",
                word(&first.mount.mount_point)
            )),
    ]
}

/// How a layer keeps to itself what is free.
enum Kept<'a> {
    /// It could take discards, and was told to take none; the most that it could.
    Switch(&'a str),
    /// It takes no discards, and what is below would.
    Layer,
    /// As a loop device whose file cannot give up space.
    File(&'a Node),
    /// As a thin pool that takes the space for itself; what its table says of that.
    Pool(PoolTable<'a>),
}

/// Layers that do not tell those below what is free.
pub(super) fn lost(scene: &Scene<'_>) -> Vec<Defect> {
    let layers = scene.nodes(&[
        NodeKind::Md,
        NodeKind::Dm,
        NodeKind::Bcache,
        NodeKind::Loop,
        NodeKind::Disk,
        NodeKind::NvmeMultipath,
    ]);
    layers
        .filter_map(|(index, node)| {
            let kept = kept(scene, index, node)?;
            let places = mount_points(scene, index);
            let first = word(places.first()?);
            let defect = tell_lost(scene, index, node, &kept, &places.join(", "));
            Some(defect.verified_by(match kept {
                Kept::Pool(_) => format!("{} says discard_passdown", status_of(node)),
                _ => format!("fstrim --verbose {first} no longer says that it is not supported"),
            }))
        })
        .collect()
}

fn kept<'a>(scene: &Scene<'a>, index: usize, node: &'a Node) -> Option<Kept<'a>> {
    let takes_none = takes_discards(node) == Some(false);
    // Of layers older kernels leave the hardware's number behind.
    if matches!(node.kind, NodeKind::Loop | NodeKind::Disk | NodeKind::NvmeMultipath) {
        let mut attributes = node.details().queue.iter();
        let most = attributes.find(|(name, _)| name == "discard_max_hw_bytes");
        let most = most.map(|(_, bytes)| bytes.as_str()).filter(|bytes| *bytes != "0");
        if let Some(most) = most.filter(|_| takes_none && node.read_only != Some(true)) {
            return Some(Kept::Switch(most));
        }
    }
    if matches!(node.kind, NodeKind::Disk | NodeKind::NvmeMultipath) {
        return None;
    }
    let file = scene.below(index).next().filter(|(_, below)| below.devno.is_none());
    if node.kind == NodeKind::Loop
        && let Some((_, below)) = file
    {
        // Images that are only read have nothing to give back.
        return (takes_none && node.read_only == Some(false)).then_some(Kept::File(below));
    }
    // The device of such a pool takes none either, as nothing asks it: those of its volumes do.
    let pool = keeping_pool(node);
    let below: Option<Vec<bool>> = scene
        .below(index)
        .filter(|(_, below)| {
            pool.as_ref().is_none_or(|pool| below.devno.as_deref() == Some(pool.data_device))
        })
        .map(|(device, below)| {
            let queue = scene.queue(device).or(below.queue.as_ref())?;
            queue.discard_max_bytes.map(|bytes| bytes > 0)
        })
        .collect();
    below.filter(|all| !all.is_empty() && all.iter().all(|takes| *takes))?;
    if scene.rotates(index) != Some(false) {
        return None;
    }
    pool.map(Kept::Pool).or(takes_none.then_some(Kept::Layer))
}

/// The table of a thin pool that tells no device below what is free in it.
fn keeping_pool(node: &Node) -> Option<PoolTable<'_>> {
    let facts = node.dm.as_ref()?;
    let status = dm::lines(&facts.status, "thin-pool").next()?;
    match dm::pool_status(status.words)? {
        PoolStatus::Works(state) if state.keeps_discards => {
            dm::pool_table(dm::lines(&facts.table, "thin-pool").next()?.words)
        }
        _ => None,
    }
}

fn status_of(node: &Node) -> String {
    format!("dmsetup status {}", word(label(node)))
}

fn tell_lost(
    scene: &Scene<'_>,
    index: usize,
    node: &Node,
    kept: &Kept<'_>,
    places: &str,
) -> Defect {
    let name = label(node);
    let told = |summary: String| Defect::new("trim-lost", Gravity::Low, Some(&node.key()), summary);
    match kept {
        Kept::Switch(most) => told(format!(
            "discards to {name} are switched off, which it would take"
        ))
        .seen(sysfs(node, "queue/discard_max_bytes"), "0")
        .seen(sysfs(node, "queue/discard_max_hw_bytes"), *most)
        .because(format!(
            "fstrim on {places} does nothing: {name} believes all its blocks to be in use"
        ))
        .command(
            "switch them on, unless somebody had a reason (udev's rules, boot scripts)",
            format!("echo {most} > {}", sysfs(node, "queue/discard_max_bytes")),
        )
        .risking(
            "large discards hold up other requests on some drives: a smaller number cuts them",
        ),
        Kept::Layer => {
            let below = if scene.below(index).count() == 1 { "the device" } else { "all devices" };
            let defect = told(format!(
                "{name} does not pass discards on, although {below} below it would take them"
            ))
            .seen(sysfs(node, "queue/discard_max_bytes"), "0")
            .because(format!(
                "fstrim on {places} does nothing: the drives believe all their blocks to be in \
                use, and have less room to move data"
            ));
            mend(node, defect)
        }
        Kept::File(below) => told(format!(
            "{name} takes no discards: its file keeps the space of what is deleted in it"
        ))
        .seen(sysfs(node, "queue/discard_max_bytes"), "0")
        .seen("what its file lies on", under_file(below))
        .because(format!(
            "fstrim on {places} does nothing: the file never becomes smaller again, and neither \
            its filesystem nor the drives below hear of what is free"
        ))
        .advise(
            "put the file on a filesystem that can take space out of the middle of a file \
            (fallocate --punch-hole), such as ext4, XFS or btrfs, and attach it anew",
        )
        .risking("none but the space that the copy takes; what is on it is unmounted meanwhile"),
        Kept::Pool(pool) => mend_pool(
            node,
            pool,
            told(format!(
                "the thin pool {name} keeps to itself what is free in it, although what it lies \
                on would take discards"
            ))
            .seen(status_of(node), "no_discard_passdown")
            .because(format!(
                "fstrim on {places} gives space back to the pool alone: the drives believe it to \
                be in use until it is written again, and have less room to move data"
            )),
        ),
    }
}

/// The filesystem of a loop device's file.
fn under_file(below: &Node) -> String {
    below.mount.as_ref().map_or_else(
        || below.name.clone(),
        |mount| format!("{} at {}", mount.fs_type, mount.mount_point),
    )
}

/// What a thin pool that passes discards on costs.
const POOL_RISK: &str =
    "each fstrim, and each volume that is removed, sends discards to the drives";

/// True for a thin pool whose table says so.
fn ignores_discards(facts: &DmFacts) -> bool {
    let table = dm::lines(&facts.table, "thin-pool").next();
    let features = table.and_then(|line| dm::pool_table(line.words)).map(|pool| pool.features);
    features.is_some_and(|features| features.contains(&"ignore_discard"))
}

/// A pool was told to, or the kernel found that it could not do otherwise.
fn mend_pool(node: &Node, pool: &PoolTable<'_>, defect: Defect) -> Defect {
    let defect = if !pool.features.contains(&"no_discard_passdown") {
        defect.advise(format!(
            "its table asks for it: the kernel passes none on where the largest discard of what \
            is below is smaller than a chunk of {}; a pool that is made anew with smaller chunks \
            does",
            format_size(pool.chunk_bytes)
        ))
    } else if let Some(facts) = node.dm.as_ref().filter(|facts| is_lvm(facts)) {
        let volume = word(volume_name(node, facts));
        defect.command(
            "let it pass them on, from now on",
            format!("lvchange --discards passdown {volume}"),
        )
    } else {
        defect.advise(
            "load its table without no_discard_passdown (dmsetup reload, suspend, resume), or let \
            what made the pool do it",
        )
    };
    defect.risking(POOL_RISK)
}

fn label(node: &Node) -> &str {
    node.dm.as_ref().and_then(|dm| dm.name.as_deref()).unwrap_or(&node.name)
}

/// What to do depends on why the layer keeps discards to itself.
fn mend(node: &Node, defect: Defect) -> Defect {
    let parity = node
        .md
        .as_ref()
        .and_then(|md| md.level.as_deref())
        .is_some_and(|level| matches!(level, "raid4" | "raid5" | "raid6"));
    let crypt = node
        .dm
        .as_ref()
        .and_then(|dm| dm::crypt_table(dm::lines(&dm.table, "crypt").next()?.words));
    if let Some(crypt) = crypt {
        let flags = crypt.refresh_words(&["allow_discards"]);
        return defect
            .command(
                "LUKS2: allow them, now and for later, with the options that it has already",
                format!("cryptsetup refresh {flags} --persistent {}", word(label(node))),
            )
            .advise("LUKS1: the option discard in /etc/crypttab")
            .risking(
                "who can look at the drive sees which blocks are in use, and how much; many \
                accept that, some must not",
            );
    }
    if let Some(facts) = node.dm.as_ref().filter(|facts| is_lvm(facts) && ignores_discards(facts)) {
        let volume = word(volume_name(node, facts));
        return defect
            .advise(format!(
                "it was told to ignore them; while none of its volumes is active: lvchange \
                --discards passdown {volume}"
            ))
            .risking(POOL_RISK);
    }
    if parity {
        return defect
            .advise(
                "md trusts no drive to give zeros for discarded blocks, which parity needs; \
                where the maker promises it: raid456.devices_handle_discard_safely=Y on \
                the kernel's command line",
            )
            .risking(
                "a drive that gives anything else for discarded blocks then makes parity \
                wrong without a word",
            );
    }
    defect
        .advise(
            "look why: one of its targets does not pass them, or a device below got the \
            ability later (make the layer anew, or load its table again)",
        )
        .risking("none in looking")
}
