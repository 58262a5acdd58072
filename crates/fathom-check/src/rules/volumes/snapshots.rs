//! Snapshots with a store of their own (thick ones).

use super::{by_lvm, devices, is_lvm, status_of, volume_name};
use crate::dm::{self, SnapshotStatus};
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_base::units::format_size;
use fathom_model::defect::{Defect, Gravity};
use fathom_model::stack::{DmFacts, Node};

/// From this share on a snapshot is told.
const NEARLY_FULL: f64 = 0.8;

/// From this share on it is told as urgent.
const FULL: f64 = 0.95;

fn snapshots<'a>(
    scene: &Scene<'a>,
) -> impl Iterator<Item = (usize, &'a Node, &'a DmFacts, SnapshotStatus<'a>)> {
    devices(scene).filter_map(|(index, node, dm)| {
        let line = dm
            .status
            .iter()
            .filter_map(|text| dm::line(text))
            .find(|line| line.kind == "snapshot")?;
        Some((index, node, dm, dm::snapshot_status(line.words)?))
    })
}

/// A snapshot whose store is nearly or entirely used.
pub(super) fn full(scene: &Scene<'_>) -> Vec<Defect> {
    snapshots(scene)
        .filter_map(|(_, node, dm, status)| {
            let name = volume_name(node, dm);
            let (gravity, summary, seen) = match status {
                SnapshotStatus::Broken(word) => (
                    Gravity::High,
                    format!("the snapshot {name} is lost ({word})"),
                    word.to_owned(),
                ),
                SnapshotStatus::Works(usage) => {
                    let share = usage.share().filter(|&share| share >= NEARLY_FULL)?;
                    let gravity = if share >= FULL { Gravity::High } else { Gravity::Medium };
                    let seen =
                        format!("{} of {}", format_size(usage.used), format_size(usage.total));
                    (gravity, format!("the snapshot {name} is {:.0} % full", share * 100.0), seen)
                }
            };
            let defect = Defect::new("snapshot-full", gravity, Some(&node.key()), summary)
                .seen(status_of(dm, node), seen);
            let quoted = word(&name);
            let defect = if matches!(status, SnapshotStatus::Broken(_)) {
                defect
                    .because(
                        "what the origin held at that moment can no longer be read from it, \
                        and backups that read it now get errors",
                    )
                    .command("remove it", remove(dm, &quoted))
                    .advise("make the next one larger, or keep it for a shorter time")
            } else {
                let defect = defect.because(
                    "each further write to the origin takes from its store; when that is full \
                    the snapshot is lost at once",
                );
                let by_hand =
                    "give it space: enlarge the device of its store, and load its table again";
                by_lvm(defect, dm, "give it space", format!("lvextend -L +1G {quoted}"), by_hand)
                    .command("or remove it when it is no longer needed", remove(dm, &quoted))
            };
            Some(
                defect
                    .risking("removing a snapshot loses what the origin held at that moment")
                    .verified_by(format!("{} shows space", status_of(dm, node))),
            )
        })
        .collect()
}

fn remove(dm: &DmFacts, name: &str) -> String {
    if is_lvm(dm) { format!("lvremove {name}") } else { format!("dmsetup remove {name}") }
}

/// A snapshot that works: every first write to a piece of the origin copies that piece.
pub(super) fn present(scene: &Scene<'_>) -> Vec<Defect> {
    snapshots(scene)
        .filter_map(|(index, node, dm, status)| {
            let SnapshotStatus::Works(usage) = status else { return None };
            if usage.share().is_none_or(|share| share >= NEARLY_FULL) {
                return None;
            }
            let line = dm::lines(&dm.table, "snapshot").next();
            let chunk = line
                .and_then(|line| dm::snapshot_table(line.words))
                .map(|table| format_size(table.chunk_bytes));
            let chunk = chunk.unwrap_or_else(|| "that size".to_owned());
            let gravity =
                if scene.rotates(index) == Some(true) { Gravity::Medium } else { Gravity::Low };
            let name = volume_name(node, dm);
            Some(
                Defect::new(
                    "snapshot-present",
                    gravity,
                    Some(&node.key()),
                    format!("the snapshot {name} makes first writes to its origin dear"),
                )
                .seen(
                    status_of(dm, node),
                    format!("{} of {} used", format_size(usage.used), format_size(usage.total)),
                )
                .because(format!(
                    "the first write to each piece of {chunk} of the origin waits until the \
                    old piece was read and written to the snapshot: three requests in the \
                    place of one, for each snapshot"
                ))
                .command(
                    "remove it as soon as the backup that reads it is done",
                    remove(dm, &word(&name)),
                )
                .advise("for snapshots that are kept, thin volumes cost far less")
                .risking("removing a snapshot loses what the origin held at that moment")
                .verified_by("fathom run randwrite on a file of the origin before and after"),
            )
        })
        .collect()
}
