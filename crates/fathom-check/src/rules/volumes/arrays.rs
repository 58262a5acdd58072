//! Volumes that LVM itself mirrors, stripes or protects by parity.

use super::{devices, is_lvm, physical, status_of, table_of, volume_name};
use crate::dm::{self, MirrorStatus, RaidStatus};
use crate::rules::disks::is_failing;
use crate::rules::shared::{list, on_one_drive};
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_base::units::format_size;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::{DmFacts, Node};
use std::collections::BTreeSet;

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

/// How the parts of a mirrored volume on a drive stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::rules) enum Parts {
    /// All are there.
    Whole,
    /// Those on the drive serve no more.
    Out,
    /// Others serve no more: what is on the drive may be the only copy.
    Last,
    /// Copies are being made.
    Filling,
}

/// How a volume stands that has parts on these devices below it; none where that is not known.
pub(in crate::rules) fn parts_on(
    scene: &Scene<'_>,
    index: usize,
    is_on_drive: impl Fn(usize) -> bool,
) -> Option<Parts> {
    let (_, _, dm, status) = raids(scene).find(|(own, ..)| *own == index)?;
    let lines = dm.table.iter().filter_map(|text| dm::line(text)).map(dm::legs);
    let legs = lines.into_iter().find(|legs| legs.len() == status.health.len());
    // Where the map lacks a device, that is one of another drive.
    let Some(legs) = legs else { return Some(Parts::Last) };
    let on_drive = |leg: &str| below_by_number(scene, index, leg).is_some_and(&is_on_drive);
    let (own, others): (Vec<_>, Vec<_>) =
        legs.into_iter().zip(status.health.chars()).partition(|(leg, _)| on_drive(leg));
    let any_dead = |legs: &[(&str, char)]| legs.iter().any(|(_, letter)| is_dead(letter));
    Some(if any_dead(&own) {
        Parts::Out
    } else if any_dead(&others) {
        Parts::Last
    } else if matches!(status.action, "recover" | "resync") {
        Parts::Filling
    } else {
        Parts::Whole
    })
}

/// Devices of living parts whose drives report damage: a repair reads them from end to end.
fn dying_parts<'a>(scene: &Scene<'a>, index: usize, dm: &DmFacts, health: &str) -> Vec<&'a Node> {
    let lines = dm.table.iter().filter_map(|text| dm::line(text)).map(dm::legs);
    let legs = lines.into_iter().find(|legs| !legs.is_empty()).unwrap_or_default();
    let dead = lost(scene, index, dm, health);
    let legs = legs.into_iter().filter_map(|leg| below_by_number(scene, index, leg));
    let legs = legs.filter(|leg| !dead.contains(&scene.node(*leg).key()));
    let disks: BTreeSet<usize> = legs
        .filter(|leg| is_failing(scene, *leg))
        .flat_map(|leg| scene.machine().disks_under(leg))
        .collect();
    disks.into_iter().map(|disk| scene.node(disk)).collect()
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

/// The first thing to do where a repair reads a dying drive.
pub(in crate::rules) fn save_first(volume: &str, disk: &str) -> String {
    format!(
        "{volume} lacks a part, and {disk}, which reports damage itself, may hold the only copy: save what matters \
         from it before any repair, which reads {disk} from end to end"
    )
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
            // A dying drive with the last copy decides what is done.
            let dying = dying_parts(scene, index, dm, health);
            let cause = match dying.as_slice() {
                [] => lost(scene, index, dm, health),
                drives => drives.iter().map(|disk| disk.key()).collect(),
            };
            let defect = Defect::new(
                "lvm-raid-degraded",
                Gravity::High,
                Some(&node.key()),
                format!("{dead} of the {} parts of {name} are dead", health.chars().count()),
            )
            .by_loss_of(cause)
            .seen(status_of(dm, node), health)
            .because(
                "it is slower and less safe than it looks: what the dead parts held is \
                    read or computed elsewhere for each request",
            );
            let defect = dying.into_iter().fold(defect, |d, disk| {
                d.concerning(disk.key()).advise(save_first(&name, &disk.name))
            });
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
            busy.then(|| at_work(node, dm, status.action, status.in_sync.share(), is_lvm(dm)))
        },
    );
    let of_mirror =
        mirrors(scene).filter(|(_, _, _, status)| status.in_sync.used < status.in_sync.total);
    let of_mirror = of_mirror.map(|(_, node, dm, status)| {
        let share = status.in_sync.share();
        if is_move(&volume_name(node, dm)) {
            moved(node, dm, share)
        } else {
            at_work(node, dm, "resync", share, false)
        }
    });
    of_raid.chain(of_mirror).collect()
}

fn done(share: Option<f64>) -> String {
    share.map_or_else(String::new, |share| format!(" ({:.0} % done)", share * 100.0))
}

/// Only volumes of LVM's type raid have a rate of their own.
fn at_work(node: &Node, dm: &DmFacts, action: &str, share: Option<f64>, has_rate: bool) -> Defect {
    let (name, done) = (volume_name(node, dm), done(share));
    let gravity = if action == "check" { Gravity::Low } else { Gravity::Medium };
    let defect = Defect::new(
        "lvm-raid-syncing",
        gravity,
        Some(&node.key()),
        format!("{name} works on itself: {action}{done}"),
    )
    .seen(status_of(dm, node), action)
    .because(
        "it takes its share of every device's time: rates are too low and tails too \
        long meanwhile",
    );
    let defect = if is_lvm(dm) {
        defect
            .command("follow it", format!("lvs -o +raid_sync_action,sync_percent {}", word(&name)))
    } else {
        let map = word(dm.name.as_deref().unwrap_or(&node.name));
        defect.command("follow it", format!("dmsetup status {map}"))
    };
    let defect = if has_rate {
        defect.command(
            "where users suffer, slow it down (per device and second)",
            format!("lvchange --maxrecoveryrate 20M {}", word(&name)),
        )
    } else {
        defect
    };
    defect
        .risking("the slower it goes, the longer the volume is without its full safety")
        .verified_by(format!("{} says idle, or all of all", status_of(dm, node)))
}

/// The volume by which pvmove copies: `vg/pvmove0`.
fn is_move(name: &str) -> bool {
    let number = name.rsplit('/').next().and_then(|volume| volume.strip_prefix("pvmove"));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// A copy that somebody asked for: nothing is less safe meanwhile.
fn moved(node: &Node, dm: &DmFacts, share: Option<f64>) -> Defect {
    let (name, done) = (volume_name(node, dm), done(share));
    let group = name.split('/').next().unwrap_or_default();
    Defect::new(
        "lvm-raid-syncing",
        Gravity::Low,
        Some(&node.key()),
        format!("pvmove copies extents of {group}{done}"),
    )
    .seen(status_of(dm, node), "mirror of pvmove")
    .because("it takes its share of the time of both devices: rates are too low meanwhile")
    .command("follow it", format!("lvs -a -o +copy_percent,devices {}", word(group)))
    .risking("none in waiting; pvmove --abort ends it and leaves what was not moved where it is")
    .verified_by(format!("lvs -a {} shows no pvmove any more", word(group)))
}

/// The last check found places that do not agree.
pub(super) fn mismatch(scene: &Scene<'_>) -> Vec<Defect> {
    let found = raids(scene).filter(|(_, _, dm, status)| {
        is_lvm(dm) && status.mismatches > 0 && status.action == "idle"
    });
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
