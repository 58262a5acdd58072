//! What md superblocks say of arrays, running or not.

use super::arrays;
use crate::rules::shared::{list, shows_all};
use crate::scene::Scene;
use fathom_base::order::Order;
use fathom_base::shell::word;
use fathom_model::defect::{Defect, Gravity};
use fathom_model::stack::MdFacts;
use fathom_model::stack::detail::MdSuperblock;
use std::collections::{BTreeMap, BTreeSet};

/// A UUID in any of its forms (`0b1c:...`, `0b1c-...`), for comparison.
fn bare(uuid: &str) -> String {
    let digits = uuid.chars().filter(char::is_ascii_hexdigit);
    digits.collect::<String>().to_ascii_lowercase()
}

/// A superblock of md's own format and the node that it is on. One that shows on a disk and on its last partition, or on
/// several paths to a drive, counts once: where something uses it, else where it is highest.
fn superblocks<'s>(scene: &'s Scene<'_>) -> &'s BTreeMap<String, Vec<usize>> {
    scene.md_superblocks.get_or_init(|| {
        let mut by_array: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (index, sb) in each(scene) {
            if let Some(uuid) = sb.array_uuid.as_deref() {
                by_array.entry(bare(uuid)).or_default().push(index);
            }
        }
        by_array
    })
}

/// Those of an array, in the order of the nodes.
fn of_array<'a>(scene: &Scene<'a>, uuid: &str) -> Vec<(usize, &'a MdSuperblock)> {
    let own = superblocks(scene).get(uuid).into_iter().flatten();
    own.filter_map(|&index| {
        Some((index, scene.node(index).details().content.as_ref()?.md.as_ref()?))
    })
    .collect()
}

fn each<'a>(scene: &Scene<'a>) -> Vec<(usize, &'a MdSuperblock)> {
    let own = |sb: &&MdSuperblock| sb.version.starts_with(['0', '1']);
    let all = scene.nodes(&[]).filter_map(|(index, node)| {
        Some((index, node.details().content.as_ref()?.md.as_ref().filter(own)?))
    });
    let mut by_device: BTreeMap<String, (usize, &MdSuperblock)> = BTreeMap::new();
    for (index, sb) in all {
        let key = sb.device_uuid.as_deref().map_or_else(|| scene.node(index).key(), bare);
        let is_better = by_device
            .get(&key)
            .is_none_or(|&(known, _)| scene.everything_above(known).contains(&index));
        if is_better {
            by_device.insert(key, (index, sb));
        }
    }
    let mut found: Vec<_> = by_device.into_values().collect();
    found.order_by_key(|&(index, _)| index);
    found
}

/// True when the device is, or lies below, a member of the array.
fn is_member(scene: &Scene<'_>, md: &MdFacts, array: usize, index: usize) -> bool {
    let named =
        |index: usize| md.members.iter().any(|member| member.name == scene.node(index).name);
    named(index) || scene.node(array).below.contains(&index)
}

/// What the superblock of a member says of the array.
pub(super) fn of_members<'a>(scene: &Scene<'a>, md: &MdFacts) -> Option<&'a MdSuperblock> {
    let members = md.members.iter().filter_map(|member| scene.device(&member.name));
    members.into_iter().find_map(|index| scene.node(index).details().content.as_ref()?.md.as_ref())
}

/// The level by its name, and how many members it needs to run whichever are missing.
pub(super) fn needed(sb: &MdSuperblock) -> Option<(&'static str, u64)> {
    let all = sb.raid_disks.filter(|&all| all > 0)?;
    let layout = sb.layout.unwrap_or(0);
    let (name, forgiven) = match sb.level? {
        0 => ("raid0", 0),
        1 => ("raid1", all - 1),
        4 => ("raid4", 1),
        5 => ("raid5", 1),
        6 => ("raid6", 2),
        10 => ("raid10", ((layout & 0xff) * (layout >> 8 & 0xff)).saturating_sub(1)),
        _ => return None,
    };
    Some((name, all.saturating_sub(forgiven)))
}

/// The fewest members that it may run with, when those are the right ones: one of each pair of a RAID10.
pub(super) fn least(sb: &MdSuperblock) -> Option<u64> {
    let (_, whichever) = needed(sb)?;
    let layout = sb.layout.unwrap_or(0);
    let copies = (layout & 0xff) * (layout >> 8 & 0xff);
    let all = sb.raid_disks?;
    Some(if sb.level == Some(10) && copies > 0 { all.div_ceil(copies) } else { whichever })
}

/// The place in the array that a member holds data of; none for spares, journals and what failed.
fn place(sb: &MdSuperblock) -> Option<u64> {
    sb.role.as_deref()?.parse().ok()
}

/// The places whose members are there; none where one of the members does not tell its place.
pub(super) fn places(scene: &Scene<'_>, md: &MdFacts) -> Option<BTreeSet<u64>> {
    let told = md.members.iter().map(|member| {
        let content = scene.node(scene.device(&member.name)?).details().content.as_ref()?;
        content.md.as_ref().filter(|sb| sb.role.is_some()).map(place)
    });
    Some(told.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect())
}

/// True when the members in these places hold a copy of everything, as the kernel looks at a RAID10: from every place on
/// where a set of copies begins.
pub(super) fn hold_all(sb: &MdSuperblock, places: &BTreeSet<u64>) -> bool {
    /// For more a superblock has no room.
    const PLACES_MAX: u64 = 1920;
    let layout = sb.layout.unwrap_or(0);
    let (near, far) = (layout & 0xff, layout >> 8 & 0xff);
    let Some(all @ 1..=PLACES_MAX) = sb.raid_disks else { return false };
    let copies = (near * far).min(all);
    if copies == 0 {
        return true;
    }
    let mut first = 0;
    while (first..first + copies).any(|place| places.contains(&(place % all))) {
        first = (first + near) % all;
        if first == 0 {
            return true;
        }
    }
    false
}

/// Devices that a running array's superblocks name but that are not in it, and by how many events they are behind.
pub(super) fn left_out(scene: &Scene<'_>, array: usize) -> Vec<(usize, Option<u64>)> {
    let Some(md) = scene.node(array).md.as_ref() else { return Vec::new() };
    let said = || of_members(scene, md)?.array_uuid.as_deref();
    let Some(uuid) = md.uuid.as_deref().or_else(said).map(bare) else { return Vec::new() };
    let same = of_array(scene, &uuid);
    let newest = same.iter().filter_map(|(_, sb)| sb.events).max();
    let outside = same
        .iter()
        .filter(|&&(index, _)| !is_member(scene, md, array, index) && scene.is_free(index));
    outside
        .map(|&(index, sb)| (index, newest.zip(sb.events).map(|(newest, own)| newest - own)))
        .collect()
}

/// A device that still calls itself a member of an array that is whole without it.
pub(super) fn stale_member(scene: &Scene<'_>) -> Vec<Defect> {
    let whole = arrays(scene).filter(|(_, _, md)| md.degraded == Some(0));
    let stale = whole.flat_map(|(array, node, _)| {
        left_out(scene, array).into_iter().map(move |(index, behind)| (node, index, behind))
    });
    stale
        .map(|(array, index, behind)| {
            let device = scene.node(index);
            let path = word(device.label());
            let behind = behind.map_or_else(
                || "another event count".to_owned(),
                |events| format!("{events} events behind"),
            );
            Defect::new(
                "md-stale-member",
                Gravity::Medium,
                Some(&device.key()),
                format!(
                    "{} says that it belongs to {}, which is whole without it",
                    device.label(),
                    array.name
                ),
            )
            .concerning(array.key())
            .seen(format!("md superblock of {}", device.label()), behind)
            .because(
                "when the array is assembled anew, the old member may be taken first: then \
                it is started with old data, or a second array appears (md127)",
            )
            .command(
                "compare the event counts and times of both before anything else: which one is \
                the old one?",
                format!("mdadm --examine {path}; mdadm --detail {}", word(array.label())),
            )
            .command(
                "if it shall serve the array again: take it back, as a spare or in place of what \
                fails next",
                format!("mdadm {} --add {path}", word(array.label())),
            )
            .advise(format!(
                "or, only when it leaves for good and nothing on it is needed: mdadm \
                --zero-superblock {device}; that cannot be taken back",
                device = device.label()
            ))
            .risking(
                "--add overwrites what is on it as soon as a member fails; --zero-superblock makes \
                what is on it unreachable: of the wrong device, a member of the array. If the \
                array was itself started from old data, the left-out device holds the newer: copy \
                it first",
            )
            .verified_by(format!(
                "mdadm --detail {} lists it, or mdadm --examine {path} finds nothing",
                word(array.label())
            ))
        })
        .collect()
}

/// Members of an array that no running array is made of.
pub(super) fn not_running(scene: &Scene<'_>) -> Vec<Defect> {
    if !shows_all(scene) {
        return Vec::new();
    }
    // Where arrays run without a known UUID, nothing can be said of the rest.
    if arrays(scene).any(|(_, _, md)| md.uuid.is_none()) {
        return Vec::new();
    }
    let running: BTreeSet<String> =
        arrays(scene).filter_map(|(_, _, md)| md.uuid.as_deref().map(bare)).collect();
    let is_in_use = |index: usize| {
        !scene.is_free(index)
            || arrays(scene).any(|(array, _, md)| is_member(scene, md, array, index))
    };
    let idle = superblocks(scene).keys().filter(|uuid| !running.contains(*uuid));
    let idle = idle.filter_map(|uuid| {
        let mut idle = of_array(scene, uuid);
        idle.retain(|(index, _)| !is_in_use(*index));
        idle_array(scene, &idle)
    });
    idle.collect()
}

fn idle_array(scene: &Scene<'_>, members: &[(usize, &MdSuperblock)]) -> Option<Defect> {
    let (first, sb) = *members.first()?;
    let name = sb.name.as_deref().or(sb.array_uuid.as_deref())?;
    let of = sb.raid_disks.map_or_else(String::new, |all| format!(" of {all}"));
    let names = list(members.iter().map(|&(index, _)| scene.node(index).label()));
    // Spares hold nothing of it.
    let spares = members.iter().filter(|(_, sb)| sb.role.is_some() && place(sb).is_none()).count();
    let beside = if spares > 0 { format!(" and {spares} without data") } else { String::new() };
    let mut defect = Defect::new(
        "md-not-running",
        Gravity::Medium,
        Some(&scene.node(first).key()),
        format!(
            "{}{of} members{beside} of the array {name} are there ({names}), but it does not run",
            members.len() - spares
        ),
    );
    for &(index, sb) in members {
        let device = scene.node(index);
        let events =
            sb.events.map_or_else(|| "member".to_owned(), |events| format!("{events} events"));
        defect = defect.seen(format!("md superblock of {}", device.label()), events);
        if index != first {
            defect = defect.concerning(device.key());
        }
    }
    let events: Vec<u64> = members.iter().filter_map(|(_, sb)| sb.events).collect();
    let apart = events.iter().max().zip(events.iter().min()).map_or(0, |(max, min)| max - min);
    let why = if apart > 1 {
        format!(
            "nothing on it can be read; its members are up to {apart} events apart, so \
                some stopped taking part earlier than others"
        )
    } else {
        "nothing on it can be read, and tools that see bare members may take them for free drives"
            .to_owned()
    };
    let paths: Vec<String> =
        members.iter().map(|&(index, _)| word(scene.node(index).label())).collect();
    Some(
        defect
            .because(why)
            .command("look at all members", format!("mdadm --examine {}", paths.join(" ")))
            .command(
                "start it, if it is meant to run here; degraded ones are not started by this",
                "mdadm --assemble --scan --no-degraded",
            )
            .advise("if members are missing or apart: fathom check --explain degraded")
            .advise(
                "or: when the array is given up for good, on each member (that destroys what is \
                on it): mdadm --zero-superblock /dev/MEMBER",
            )
            .risking(
                "an array that runs on another machine as well is destroyed; \
                --zero-superblock makes its data unreachable",
            )
            .verified_by("cat /proc/mdstat shows it; fathom check then draws it"),
    )
}
