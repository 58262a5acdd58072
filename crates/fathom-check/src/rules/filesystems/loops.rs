//! Loop devices and the files behind them.

use crate::conditions;
use crate::elsewhere::is_here;
use crate::rules::shared::mount_points;
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_base::units::{format_size, format_sizes};
use fathom_model::defect::{Defect, Gravity};
use fathom_model::stack::{LoopFacts, Node, NodeKind};
use std::collections::{BTreeMap, BTreeSet};

/// Loop devices that take writes: images that are only read (snap packages) gain from the cache.
fn writable<'a>(scene: &Scene<'a>) -> impl Iterator<Item = (usize, &'a Node, &'a LoopFacts)> {
    let loops = scene.nodes(&[NodeKind::Loop]).filter(|(_, node)| node.read_only != Some(true));
    loops.filter_map(|(index, node)| Some((index, node, node.loop_device.as_ref()?)))
}

/// The same without those whose files lie in memory: these reach no disk, whatever is set or written.
fn on_disk<'a>(scene: &Scene<'a>) -> impl Iterator<Item = (usize, &'a Node, &'a LoopFacts)> {
    writable(scene).filter(|(index, _, _)| {
        let below = filesystem_below(scene, *index);
        below.is_none_or(|below| scene.node(below).kind != NodeKind::Memory)
    })
}

fn file(facts: &LoopFacts) -> &str {
    facts.backing_file.as_deref().unwrap_or("its file")
}

/// Everything is cached twice, and a flush of the loop device flushes the whole file.
pub(super) fn buffered(scene: &Scene<'_>) -> Vec<Defect> {
    let found = on_disk(scene).filter(|(_, _, facts)| facts.direct_io == Some(false));
    found
        .map(|(_, node, facts)| {
            Defect::new(
                "loop-buffered",
                Gravity::Low,
                Some(&node.key()),
                format!("{} uses its file through the page cache", node.name),
            )
            .seen(format!("/sys/block/{}/loop/dio", node.name), format!("0, for {}", file(facts)))
            .because(
                "everything is in memory twice, direct I/O on it is answered from memory, \
                and much written data waits for one moment to reach the disk",
            )
            .command(
                "use the file directly",
                format!("losetup --direct-io=on {}", word(node.label())),
            )
            .risking(
                "refused where the file's filesystem cannot do it or its blocks are larger \
                than the loop device's; reads that memory answered now go to the disk",
            )
            .verified_by(format!("fathom run randread {} before and after", word(node.label())))
        })
        .collect()
}

/// First writes allocate in the file, and its filesystem may run full under a device that believes to have space; or the space is
/// there, and was never written.
pub(super) fn sparse(scene: &Scene<'_>) -> Vec<Defect> {
    let together = lacking_by_filesystem(scene);
    on_disk(scene)
        .filter_map(|(index, node, facts)| {
            let Some((allocated, size)) = conditions::sparse_backing(facts) else {
                return reserved(scene, index, (node, facts));
            };
            let (has, of) = format_sizes(allocated, size);
            let name = word(file(facts));
            let defect = Defect::new(
                "loop-sparse",
                Gravity::Low,
                Some(&node.key()),
                format!("{} lies in a file with holes", node.name),
            )
            .seen(format!("stat {name}"), format!("{has} of {of} have space"))
            .because(
                "reads of holes touch no disk, the first write to each allocates, and \
                    writes fail when the filesystem of the file is full",
            );
            let room = Room::of(scene, index, size - allocated, &together);
            let defect = fill(defect, &room, format!("fallocate -l {size} {name}"));
            Some(
                write_once(defect, scene, index, &name, "then write it once, each byte as it is")
                    .risking(
                        "where the space does not suffice after all, ext4 takes all that is free \
                        before it refuses, and fallocate -d does not give that back: a copy by cp \
                        --sparse=always does; writing it while something else writes would undo that",
                    )
                    .verified_by(
                        "du --apparent-size and du of the file agree, and filefrag -v of it tells of \
                        no unwritten extents",
                    ),
            )
        })
        .collect()
}

/// Share of a file from which on it matters that its space was never written.
const UNWRITTEN_SHARE: f64 = 0.01;

/// The file has all its space, and much of it was never written.
fn reserved(scene: &Scene<'_>, index: usize, (node, facts): (&Node, &LoopFacts)) -> Option<Defect> {
    let size = facts.backing_size_bytes?;
    let unwritten = node.details().backing?.unwritten_bytes;
    if (unwritten as f64) < size as f64 * UNWRITTEN_SHARE {
        return None;
    }
    let (never, of) = format_sizes(unwritten, size);
    let name = word(file(facts));
    let defect = Defect::new(
        "loop-sparse",
        Gravity::Low,
        Some(&node.key()),
        format!("{} lies in a file whose space was not written yet", node.name),
    )
    .seen(format!("extents of {name}"), format!("{never} of {of} are reserved and unwritten"))
    .because(
        "reads there get zeros and touch no disk, and the first write to each place changes \
        the file's map beside the data",
    );
    Some(
        write_once(defect, scene, index, &name, "write it once, each byte as it is")
            .risking("writing it while something else writes would bring old data back")
            .verified_by("filefrag -v of the file tells of no unwritten extents"),
    )
}

/// What of a filesystem stays free for others when a file is given its space: a share of it, and no more than so much.
const RESERVE_SHARE: f64 = 0.1;
const RESERVE_MOST_BYTES: u64 = 10 << 30;

/// The filesystem that the file of a loop device lies on.
fn filesystem_below(scene: &Scene<'_>, device: usize) -> Option<usize> {
    let below = scene.machine().walk_from(device);
    below.into_iter().find(|&index| scene.node(index).fs.is_some())
}

/// Bytes that the files of all loop devices together lack, each file once, by their filesystem.
fn lacking_by_filesystem(scene: &Scene<'_>) -> BTreeMap<usize, u64> {
    let mut files: BTreeMap<(usize, &str), u64> = BTreeMap::new();
    for (index, _, facts) in writable(scene) {
        if let (Some(fs), Some((allocated, size))) =
            (filesystem_below(scene, index), conditions::sparse_backing(facts))
        {
            files.insert((fs, file(facts)), size - allocated);
        }
    }
    let mut together = BTreeMap::new();
    for ((fs, _), bytes) in files {
        let sum = together.entry(fs).or_insert(0_u64);
        *sum = sum.saturating_add(bytes);
    }
    together
}

/// Space that a file lacks, and what its filesystem has.
struct Room {
    needed_bytes: u64,
    /// What all files of loop devices on this filesystem lack.
    together_bytes: u64,
    available_bytes: Option<u64>,
    reserve_bytes: u64,
}

impl Room {
    /// By the filesystem that the file of a loop device lies on.
    fn of(
        scene: &Scene<'_>,
        device: usize,
        needed_bytes: u64,
        together: &BTreeMap<usize, u64>,
    ) -> Self {
        let index = filesystem_below(scene, device);
        let fs = index.and_then(|index| scene.node(index).fs.as_ref());
        let total = fs.and_then(|fs| fs.total_bytes).unwrap_or(0);
        Self {
            needed_bytes,
            together_bytes: index.map_or(needed_bytes, |index| together[&index]),
            available_bytes: fs.and_then(|fs| fs.available_bytes),
            reserve_bytes: RESERVE_MOST_BYTES.min((total as f64 * RESERVE_SHARE) as u64),
        }
    }
}

/// The command where there is room for it and all others like it, else what to do first.
fn fill(defect: Defect, room: &Room, command: String) -> Defect {
    let mut needed = format_size(room.needed_bytes);
    match room.available_bytes {
        Some(free) if free >= room.together_bytes.saturating_add(room.reserve_bytes) => {
            defect.command(format!("give it all its space: {needed} of {}", format_size(free)), command)
        }
        Some(free) => {
            if room.together_bytes > room.needed_bytes {
                needed = format!("{needed}, with others there {}", format_size(room.together_bytes));
            }
            defect.advise(format!(
                "it lacks {needed}, and its filesystem has {} free, of which {} should stay for \
                others: make room there, or the device smaller, and watch the free space until then",
                format_size(free),
                format_size(room.reserve_bytes)
            ))
        }
        None => defect.advise(format!(
            "it lacks {needed}; where its filesystem has clearly more than that free (df): {command}"
        )),
    }
}

/// Space alone is not enough: what was never written is read as zeros from nowhere, and its first write changes the file's map. Whether
/// a process has the file itself open is not seen, so the command is never ready to run.
fn write_once(defect: Defect, scene: &Scene<'_>, device: usize, name: &str, text: &str) -> Defect {
    let is_free = scene.is_free(device) && scene.with_same_file(device).next().is_none();
    let (first, name) = if is_free {
        ("", name)
    } else {
        (
            "what is on it and on other loop devices of the file is unmounted or stopped, and ",
            "FILE",
        )
    };
    defect.advise(format!(
        "{text}, when {first}nothing else has the file open, as a virtual machine (losetup --list; fuser -v {name} as root): \
         dd if={name} of={name} bs=1M conv=notrunc,fsync"
    ))
}

/// The file has lost its name: it lives as long as the loop device has it open.
pub(super) fn deleted(scene: &Scene<'_>) -> Vec<Defect> {
    let gone = |facts: &LoopFacts| {
        facts.backing_file.as_deref().is_some_and(|path| path.ends_with(" (deleted)"))
    };
    let loops = scene.nodes(&[NodeKind::Loop]);
    let found = loops.filter_map(|(index, node)| Some((index, node, node.loop_device.as_ref()?)));
    found
        .filter(|(_, _, facts)| gone(facts))
        .map(|(index, node, facts)| {
            // What only reads an image may have deleted it on purpose, as live systems do.
            let is_written = node.read_only != Some(true);
            let gravity = match (is_written, scene.in_use(index)) {
                (true, true) => Gravity::High,
                (true, false) => Gravity::Medium,
                (false, _) => Gravity::Low,
            };
            let defect = Defect::new(
                "loop-file-deleted",
                gravity,
                Some(&node.key()),
                format!("the file behind {} was deleted, or another took its name", node.name),
            )
            .seen(format!("/sys/block/{}/loop/backing_file", node.name), file(facts))
            .because(
                "what is on it is gone for good when the device is detached or the machine \
                stops, and its space stays taken until then",
            );
            rescue(scene, defect, index, (node, facts))
                .risking(
                    "detaching it destroys what was not copied; of a device with an offset or a \
                    size limit the copy holds only the part that it shows",
                )
                .verified_by("losetup --list shows no file with (deleted) behind it")
        })
        .collect()
}

/// Copies what only the open device holds. One that mount made is detached by itself with the last that lets it go, as by umount.
fn rescue(
    scene: &Scene<'_>,
    defect: Defect,
    index: usize,
    (node, facts): (&Node, &LoopFacts),
) -> Defect {
    let device = word(node.label());
    let own = node.mounted_at.iter().map(String::as_str).filter(|place| is_here(place));
    let places: BTreeSet<String> =
        mount_points(scene, index).into_iter().chain(own).map(word).collect();
    let mut defect = defect.command(
        "if anything on it is needed, all in one shell: hold it open, for where mount made the device it is gone with the last \
        that lets it go, as by umount",
        format!("exec 9<{device}"),
    );
    if !places.is_empty() {
        let places = places.into_iter().collect::<Vec<_>>().join(" ");
        defect = defect.command("unmount what is on it", format!("umount {places}"));
    } else if !scene.is_free(index) {
        defect = defect.advise("unmount, or stop, what is on it");
    }
    let defect = defect.command(
        "copy it to a file of its own, on a filesystem with as much space",
        format!("dd if={device} of=NEW_FILE bs=1M conv=sparse status=progress"),
    );
    match facts.autoclear {
        Some(true) => defect.command("then let it go, which detaches it", "exec 9<&-"),
        _ => defect.command("then let it go", format!("exec 9<&-; losetup -d {device}")),
    }
}
