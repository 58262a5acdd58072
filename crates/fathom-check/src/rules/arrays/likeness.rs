//! Whether the members of an array are alike.

use super::{arrays, is_level, md_file};
use crate::rules::shared::list;
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_base::units::{format_size, format_sizes};
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::detail::DriveIdentity;
use fathom_model::stack::{MdFacts, MdMember, Node};
use std::collections::BTreeSet;

/// One member of an array on one drive, as far as there is such.
struct Seat<'a> {
    member: &'a Node,
    disk: &'a Node,
    md: Option<&'a MdMember>,
}

/// The members of an array with their drives; none when one of them lies on none or several.
fn seats<'a>(scene: &Scene<'a>, index: usize, md: &'a MdFacts) -> Option<Vec<Seat<'a>>> {
    let seat = |(member, node): (usize, &'a Node)| {
        let [disk] = scene.machine().disks_under(member)[..] else { return None };
        let md = md.members.iter().find(|m| m.name == node.name);
        Some(Seat { member: node, disk: scene.node(disk), md })
    };
    let seats: Option<Vec<Seat<'a>>> = scene.below(index).map(seat).collect();
    seats.filter(|seats| seats.len() > 1)
}

impl Seat<'_> {
    fn identity(&self) -> Option<&DriveIdentity> {
        self.disk.details().identity.as_ref()
    }

    fn rotates(&self) -> Option<bool> {
        self.disk.queue.as_ref()?.rotational
    }

    fn is_write_mostly(&self) -> bool {
        let state = self.md.and_then(|m| m.state.as_deref());
        state.is_some_and(|state| state.contains("write_mostly"))
    }

    fn transport(&self) -> Option<String> {
        self.disk.drive.as_ref()?.transport.clone()
    }

    /// What the link could do; a link below its best is told of the link.
    fn link(&self) -> Option<String> {
        let drive = self.disk.drive.as_ref()?;
        drive.link_speed_max.clone().or_else(|| drive.link_speed.clone())
    }

    fn physical_block(&self) -> Option<String> {
        self.disk.queue.as_ref()?.physical_block_bytes.map(|bytes| format!("{bytes} B"))
    }

    fn model(&self) -> Option<String> {
        self.disk.drive.as_ref()?.model.clone()
    }

    fn firmware(&self) -> Option<String> {
        self.disk.drive.as_ref()?.firmware.clone()
    }
}

/// The values of all seats, when all are known and they are not all the same.
fn different<'a>(seats: &[Seat<'a>], ask: impl Fn(&Seat<'a>) -> Option<String>) -> Option<String> {
    let values: Option<Vec<(String, &str)>> =
        seats.iter().map(|seat| Some((ask(seat)?, seat.member.name.as_str()))).collect();
    let values = values?;
    let distinct: BTreeSet<&String> = values.iter().map(|(value, _)| value).collect();
    if distinct.len() < 2 {
        return None;
    }
    let of =
        |value: &String| list(values.iter().filter(|(v, _)| v == value).map(|(_, name)| *name));
    Some(
        distinct
            .into_iter()
            .map(|value| format!("{value} ({})", of(value)))
            .collect::<Vec<_>>()
            .join(", "),
    )
}

/// Members of different kinds: the array goes at the pace of the slowest.
pub(super) fn differ(scene: &Scene<'_>) -> Vec<Defect> {
    arrays(scene)
        .filter_map(|(index, node, md)| {
            let seats = seats(scene, index, md)?;
            let medium = if is_level(md, &["raid1"]) {
                // Which copy is read from is another rule's matter.
                Vec::new()
            } else {
                let kind = |seat: &Seat<'_>| {
                    Some(if seat.rotates()? { "rotating" } else { "not rotating" }.to_owned())
                };
                let links = [
                    ("kind", "queue/rotational", different(&seats, kind)),
                    ("transport", "the drive's driver", different(&seats, Seat::transport)),
                    ("link", "the link's highest speed", different(&seats, Seat::link)),
                ];
                links
                    .into_iter()
                    .filter_map(|(what, from, values)| Some((what, from, values?)))
                    .collect()
            };
            let low = [
                (
                    "physical block",
                    "queue/physical_block_size",
                    different(&seats, Seat::physical_block),
                ),
                ("model", "device/model", different(&seats, Seat::model)),
            ];
            let low: Vec<_> = low
                .into_iter()
                .filter_map(|(what, from, values)| Some((what, from, values?)))
                .collect();
            let gravity = if medium.is_empty() { Gravity::Low } else { Gravity::Medium };
            let seen: Vec<_> = medium.into_iter().chain(low).collect();
            let (what, _, values) = seen.first()?;
            let mut defect = Defect::new(
                "md-members-differ",
                gravity,
                Some(&node.key()),
                format!("members of {} differ in their {what}: {values}", node.name),
            )
            .sure(if gravity == Gravity::Low {
                Certainty::Possible
            } else {
                Certainty::Certain
            });
            for (what, from, values) in &seen {
                defect = defect.seen(*from, format!("{what}: {values}"));
            }
            let why = if gravity == Gravity::Low {
                "a stripe is ready when its slowest member is; unlike models are wise \
                    against failures of a series, when their speeds are alike"
            } else {
                "a stripe is ready when its slowest member is: the faster members mostly wait"
            };
            Some(
                defect
                    .because(why)
                    .advise("measure the members one by one, which does not disturb their content")
                    .command(
                        "for each member",
                        format!("fathom run randread {}", word(seats[0].member.label())),
                    )
                    .advise(
                        "replace the odd one, or keep fast and slow drives in arrays of their own",
                    )
                    .risking("reading the members slows the array down meanwhile")
                    .verified_by("fathom run randread on each member: latencies alike"),
            )
        })
        .collect()
}

/// The same drives with other firmware or settings.
pub(super) fn settings(scene: &Scene<'_>) -> Vec<Defect> {
    arrays(scene)
        .filter_map(|(index, node, md)| {
            let seats = seats(scene, index, md)?;
            if different(&seats, Seat::model).is_some() {
                return None;
            }
            let (medium, low) = (costly_settings(&seats), other_settings(&seats));
            let gravity = if medium.is_empty() { Gravity::Low } else { Gravity::Medium };
            let seen: Vec<_> = medium.into_iter().chain(low).collect();
            let (what, values) = seen.first()?;
            let mut defect = Defect::new(
                "md-members-settings",
                gravity,
                Some(&node.key()),
                format!("members of {} are of one model but differ in {what}: {values}", node.name),
            );
            for (what, values) in &seen {
                let source = "the drives' own words and their queues";
                defect = defect.seen(source, format!("{what}: {values}"));
            }
            let disk = word(seats[0].disk.label());
            Some(
                defect
                    .because(
                        "drives that should answer alike do not, and the array goes at the pace \
                         of the slowest; a replaced drive comes with settings of its own",
                    )
                    .command("compare (SATA and SAS)", format!("smartctl -x {disk}"))
                    .advise(
                        "set the odd one as the others: hdparm -W, -A, -B (SATA), sdparm --set \
                         WCE (SAS), nvme set-feature; firmware by the maker's tool, one member at \
                         a time",
                    )
                    .risking(
                        "new firmware may lose the drive: back up, one member at a time, and let \
                         the array check in between; formatting an NVMe namespace destroys what \
                         is on it",
                    )
                    .verified_by(
                        "fathom check no longer shows it; fathom run randwrite on a file of the \
                         array before and after",
                    ),
            )
        })
        .collect()
}

/// Settings that differ and cost speed, with their values.
fn costly_settings(seats: &[Seat<'_>]) -> Vec<(&'static str, String)> {
    let on_off = |on: bool| if on { "on" } else { "off" }.to_owned();
    let format = |seat: &Seat<'_>| {
        let identity = seat.identity()?;
        let format = identity.formats.get(usize::try_from(identity.format?).ok()?)?;
        Some(format!("{}+{} B", format.0, format.1))
    };
    let depth = |seat: &Seat<'_>| Some(seat.disk.drive.as_ref()?.queue_depth?.to_string());
    let all = [
        ("write cache", different(seats, |s| s.identity()?.write_cache_enabled.map(on_off))),
        ("look-ahead", different(seats, |s| s.identity()?.look_ahead_enabled.map(on_off))),
        ("queue depth", different(seats, depth)),
        ("NVMe format", different(seats, format)),
    ];
    all.into_iter().filter_map(|(what, values)| Some((what, values?))).collect()
}

/// Settings that differ and may cost something.
fn other_settings(seats: &[Seat<'_>]) -> Vec<(&'static str, String)> {
    let power = |seat: &Seat<'_>| {
        let level = seat.identity()?.power_management;
        Some(level.map_or_else(|| "off".to_owned(), |level| level.to_string()))
    };
    let scheduler = |seat: &Seat<'_>| seat.disk.queue.as_ref()?.scheduler.clone();
    let all = [
        ("firmware", different(seats, Seat::firmware)),
        ("power management", different(seats, power)),
        ("scheduler", different(seats, scheduler)),
    ];
    all.into_iter().filter_map(|(what, values)| Some((what, values?))).collect()
}

/// A mirror of fast and slow members that reads from both.
pub(super) fn no_write_mostly(scene: &Scene<'_>) -> Vec<Defect> {
    let mirrors = arrays(scene).filter(|(_, _, md)| is_level(md, &["raid1"]));
    mirrors
        .filter_map(|(index, node, md)| {
            let seats = seats(scene, index, md)?;
            let slow: Vec<&Seat<'_>> =
                seats.iter().filter(|seat| seat.rotates() == Some(true)).collect();
            let has_fast = seats.iter().any(|seat| seat.rotates() == Some(false));
            let unmarked: Vec<&&Seat<'_>> =
                slow.iter().filter(|seat| !seat.is_write_mostly()).collect();
            if !has_fast || unmarked.is_empty() {
                return None;
            }
            let names = list(unmarked.iter().map(|seat| seat.member.name.as_str()));
            let mut defect = Defect::new(
                "md-no-write-mostly",
                Gravity::Medium,
                Some(&node.key()),
                format!(
                    "{} mirrors drives that rotate and drives that do not, and reads from \
                    both ({names} without write-mostly)",
                    node.name
                ),
            );
            for seat in &unmarked {
                let file = md_file(node, &format!("dev-{}/state", seat.member.name));
                let state = seat.md.and_then(|m| m.state.clone()).unwrap_or_default();
                defect = defect.seen(file.clone(), state).command(
                    format!("read from {} only when there is no other", seat.member.name),
                    format!("echo writemostly > {}", word(file)),
                );
            }
            Some(
                defect
                    .because(
                        "a random read that goes to the rotating copy takes a hundred times \
                        as long as from the other",
                    )
                    .risking(
                        "none; sequential reads lose what the slow drives would add, and \
                        the mark stays in the superblock",
                    )
                    .verified_by(format!(
                        "fathom run randread {} before and after",
                        word(node.label())
                    )),
            )
        })
        .collect()
}

/// Members of unequal size under raid0: its end has fewer members.
pub(super) fn unequal(scene: &Scene<'_>) -> Vec<Defect> {
    let stripes = arrays(scene).filter(|(_, _, md)| is_level(md, &["raid0"]));
    stripes
        .filter_map(|(index, node, md)| {
            let sizes: Option<Vec<(u64, &Node)>> =
                scene.below(index).map(|(_, member)| Some((member.size_bytes?, member))).collect();
            let sizes = sizes?;
            let (smallest, largest) = (
                sizes.iter().min_by_key(|(size, _)| *size)?,
                sizes.iter().max_by_key(|(size, _)| *size)?,
            );
            // Less than this is what partitioning and rounding leave.
            let usual = (largest.0 / 100).saturating_add(md.chunk_bytes.unwrap_or(0));
            if largest.0 - smallest.0 <= usual {
                return None;
            }
            let (small, large) = format_sizes(smallest.0, largest.0);
            let share = smallest.0.saturating_mul(sizes.len() as u64);
            Some(
                Defect::new(
                    "md-raid0-unequal",
                    Gravity::Low,
                    Some(&node.key()),
                    format!(
                        "{} stripes over members of {small} ({}) to {large} ({})",
                        node.name, smallest.1.name, largest.1.name
                    ),
                )
                .seen(format!("/sys/class/block/{}/size", smallest.1.name), small)
                .seen(format!("/sys/class/block/{}/size", largest.1.name), large)
                .because(format!(
                    "behind {} the array has fewer members: data there is read and written \
                    more slowly than at its start",
                    format_size(share)
                ))
                .advise(
                    "where the end shall be as fast as the start, use partitions of equal \
                    size (destroys what is on the array)",
                )
                .risking("making the array anew destroys what is on it")
                .verified_by(format!(
                    "fathom run seqread {} at its start and at its end",
                    word(node.label())
                )),
            )
        })
        .collect()
}
