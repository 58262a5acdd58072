//! Volumes that LVM itself mirrors, stripes or protects by parity.

use super::{devices, is_lvm, physical, status_of, table_of, volume_name};
use crate::dm::{self, MirrorStatus, RaidStatus};
use crate::rules::shared::{list, on_one_drive};
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_base::units::format_size;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::{DmFacts, Node};

fn raids<'a>(
    scene: &Scene<'a>,
) -> impl Iterator<Item = (usize, &'a Node, &'a DmFacts, RaidStatus<'a>)> {
    devices(scene).filter_map(|(index, node, dm)| {
        let line =
            dm.status.iter().filter_map(|text| dm::line(text)).find(|line| line.kind == "raid")?;
        Some((index, node, dm, dm::raid_status(line.words)?))
    })
}

fn mirrors<'a>(
    scene: &Scene<'a>,
) -> impl Iterator<Item = (usize, &'a Node, &'a DmFacts, MirrorStatus<'a>)> {
    devices(scene).filter_map(|(index, node, dm)| {
        let line = dm
            .status
            .iter()
            .filter_map(|text| dm::line(text))
            .find(|line| line.kind == "mirror")?;
        Some((index, node, dm, dm::mirror_status(line.words)?))
    })
}

/// Letters of legs that serve no more: dead, no flush, read failed.
fn is_dead(letter: &char) -> bool {
    matches!(letter, 'D' | 'F' | 'R')
}

/// The devices of the dead legs; empty where one of these is not there any more.
fn lost(scene: &Scene<'_>, index: usize, dm: &DmFacts, health: &str) -> Vec<String> {
    let lines = dm.table.iter().filter_map(|text| dm::line(text)).map(dm::legs);
    let Some(legs) = lines.into_iter().find(|legs| legs.len() == health.len()) else {
        return Vec::new();
    };
    let dead = legs.into_iter().zip(health.chars()).filter(|(_, letter)| is_dead(letter));
    let devices = dead.map(|(leg, _)| below_by_number(scene, index, leg));
    let devices = devices.collect::<Option<Vec<usize>>>().unwrap_or_default();
    devices.into_iter().map(|device| scene.node(device).key()).collect()
}

/// True when the map has no device any more for a part of a volume.
fn lacks_device(dm: &DmFacts, health: &str) -> bool {
    let lines = dm.table.iter().filter_map(|text| dm::line(text)).map(dm::legs);
    lines.into_iter().any(|legs| !legs.is_empty() && legs.len() < health.len())
}

/// Volumes of a group that lack parts whose devices are gone: names and nodes.
pub(super) fn without_parts(scene: &Scene<'_>, group: &str) -> Vec<(String, usize)> {
    let of_group = raids(scene).filter_map(|(index, node, dm, status)| {
        let name = volume_name(node, dm);
        let is_it = name.split('/').next() == Some(group) && is_lvm(dm);
        (is_it && lacks_device(dm, status.health)).then_some((name, index))
    });
    of_group.collect()
}

/// Legs that are dead.
pub(super) fn degraded(scene: &Scene<'_>) -> Vec<Defect> {
    let of_raid = raids(scene).map(|(index, node, dm, status)| (index, node, dm, status.health));
    let of_mirror =
        mirrors(scene).map(|(index, node, dm, status)| (index, node, dm, status.health));
    // That a device of the group is missing says it all.
    let lacking = physical::lacking_groups(scene);
    let is_told = |name: &str| name.split('/').next().is_some_and(|group| lacking.contains(group));
    of_raid
        .chain(of_mirror)
        .filter_map(|(index, node, dm, health)| {
            let dead = health.chars().filter(is_dead).count();
            let name = volume_name(node, dm);
            if dead == 0 || is_lvm(dm) && lacks_device(dm, health) && is_told(&name) {
                return None;
            }
            let quoted = word(&name);
            let defect = Defect::new(
                "lvm-raid-degraded",
                Gravity::High,
                Some(&node.key()),
                format!("{dead} of the {} parts of {name} are dead", health.chars().count()),
            )
            .by_loss_of(lost(scene, index, dm, health))
            .seen(status_of(dm, node), health)
            .because(
                "it is slower and less safe than it looks: what the dead parts held is \
                    read or computed elsewhere for each request",
            );
            let defect = if is_lvm(dm) {
                defect
                    .command(
                        "see which device it was",
                        format!("lvs -a -o +devices,lv_health_status {quoted}"),
                    )
                    .command(
                        "when the device only was away for a while",
                        format!("lvchange --refresh {quoted}"),
                    )
                    .command(
                        "when it is gone: replace it by free space of other devices of the group",
                        format!("lvconvert --repair {quoted}"),
                    )
            } else {
                defect.command("see which device it was", table_of(dm, node)).advise(
                    "replace it with the tool that made the map (dmraid, or the firmware's own)",
                )
            };
            Some(
                defect
                    .risking(
                        "the repair reads all other parts from end to end, which may show \
                        further bad drives: have a backup first",
                    )
                    .verified_by(format!(
                        "{} shows only A; fathom quick before and after shows what the loss cost",
                        status_of(dm, node)
                    )),
            )
        })
        .collect()
}

/// A volume that synchronises, rebuilds, checks or reshapes.
pub(super) fn syncing(scene: &Scene<'_>) -> Vec<Defect> {
    let of_raid = raids(scene).filter(|(_, _, _, status)| !status.health.contains('D')).filter_map(
        |(_, node, dm, status)| {
            let busy =
                matches!(status.action, "resync" | "recover" | "check" | "repair" | "reshape");
            busy.then(|| (node, dm, status.action.to_owned(), status.in_sync.share()))
        },
    );
    let of_mirror =
        mirrors(scene).filter(|(_, _, _, status)| status.in_sync.used < status.in_sync.total);
    let of_mirror = of_mirror
        .map(|(_, node, dm, status)| (node, dm, "resync".to_owned(), status.in_sync.share()));
    of_raid
        .chain(of_mirror)
        .map(|(node, dm, action, share)| {
            let name = volume_name(node, dm);
            let done =
                share.map_or_else(String::new, |share| format!(" ({:.0} % done)", share * 100.0));
            let gravity = if action == "check" { Gravity::Low } else { Gravity::Medium };
            Defect::new(
                "lvm-raid-syncing",
                gravity,
                Some(&node.key()),
                format!("{name} works on itself: {action}{done}"),
            )
            .seen(status_of(dm, node), action.clone())
            .because(
                "it takes its share of every device's time: rates are too low and tails too \
                long meanwhile",
            )
            .command("follow it", format!("lvs -o +raid_sync_action,sync_percent {}", word(&name)))
            .command(
                "where users suffer, slow it down (per device and second)",
                format!("lvchange --maxrecoveryrate 20M {}", word(&name)),
            )
            .risking("the slower it goes, the longer the volume is without its full safety")
            .verified_by(format!("{} says idle", status_of(dm, node)))
        })
        .collect()
}

/// The last check found places that do not agree.
pub(super) fn mismatch(scene: &Scene<'_>) -> Vec<Defect> {
    let found =
        raids(scene).filter(|(_, _, _, status)| status.mismatches > 0 && status.action == "idle");
    found
        .map(|(_, node, dm, status)| {
            let (name, sectors) = (volume_name(node, dm), status.mismatches);
            let copies = status.level.starts_with("raid1");
            Defect::new(
                "lvm-raid-mismatch",
                Gravity::Medium,
                Some(&node.key()),
                format!(
                    "the last check of {name} found {sectors} sectors ({}) that do not agree",
                    format_size(sectors.saturating_mul(512))
                ),
            )
            .sure(if copies { Certainty::Possible } else { Certainty::Likely })
            .seen(status_of(dm, node), format!("mismatch count {sectors}"))
            .because(
                "when a device fails, what is read from the others in these places may be \
                wrong; between plain copies, pages that change while they are written \
                leave harmless differences",
            )
            .command(
                "check once more: a number that grows means a fault at work",
                format!("lvchange --syncaction check {}", word(&name)),
            )
            .command(
                "when the reason is gone, make them agree",
                format!("lvchange --syncaction repair {}", word(&name)),
            )
            .risking(
                "repair takes one of the versions for true, which may be the wrong one: \
                compare files with a backup first",
            )
            .verified_by(format!(
                "lvs -o +raid_mismatch_count {} says 0 after another check",
                word(&name)
            ))
        })
        .collect()
}

/// Stripes or copies that share a drive.
pub(super) fn one_disk(scene: &Scene<'_>) -> Vec<Defect> {
    devices(scene)
        .filter_map(|(index, node, dm)| {
            let lines = dm.table.iter().filter_map(|text| dm::line(text));
            let (line, pairs) = lines.into_iter().find_map(|line| {
                let legs: Vec<usize> = dm::legs(line)
                    .iter()
                    .filter_map(|leg| below_by_number(scene, index, leg))
                    .collect();
                let pairs = on_one_drive(scene, &legs);
                (!pairs.is_empty()).then_some((line, pairs))
            })?;
            let (first, second, disk) = pairs.first()?;
            let name = volume_name(node, dm);
            let copies = line.kind != "striped" && !line.words.starts_with("raid0");
            let why = if copies {
                "one failed drive takes several of its parts, which it was not made to \
                    survive; and each write moves the same heads, or fills the same link, \
                    more than once"
            } else {
                "stripes on one drive do not add up: the heads move between its parts \
                    for each request"
            };
            let parts = list([scene.node(*first).label(), scene.node(*second).label()]);
            let mut defect = Defect::new(
                "lvm-legs-one-disk",
                if copies { Gravity::High } else { Gravity::Medium },
                Some(&node.key()),
                format!("parts of {name} ({}) share the drive {disk}", line.kind),
            )
            .seen(table_of(dm, node), format!("{parts}: both on {disk}"))
            .because(why);
            if is_lvm(dm) {
                let quoted = word(&name);
                defect = defect
                    .command("see what lies where", format!("lvs -a -o +devices {quoted}"))
                    .advise(
                        "move one part to a device on another drive: pvmove -n VOLUME \
                        /dev/FROM /dev/TO",
                    );
            } else {
                defect = defect.advise("make it anew with each part on a drive of its own");
            }
            Some(
                defect
                    .risking(
                        "pvmove copies the part while it is used; it can be stopped and \
                        goes on later",
                    )
                    .verified_by(
                        "lsblk -s shows each part on a disk of its \
                        own; fathom quick before and after",
                    ),
            )
        })
        .collect()
}

fn below_by_number(scene: &Scene<'_>, index: usize, devno: &str) -> Option<usize> {
    scene
        .below(index)
        .find(|(_, node)| node.devno.as_deref() == Some(devno))
        .map(|(below, _)| below)
}
