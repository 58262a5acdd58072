//! Starts that the kernel does not judge: on loop devices, as it carries no physical blocks through their files, and of volumes and encrypted
//! data, whose places on the disks below it does not calculate.

use super::starts::{Start, data_start_bytes, starts};
use crate::alignment::{Fit, Position, disks_below};
use crate::array::{self, SECTOR_BYTES};
use crate::rules::shared::sysfs;
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_base::units::format_size;
use fathom_model::defect::{Defect, Gravity};
use fathom_model::stack::{Node, NodeKind};

/// What begins off the blocks of a disk below, though what it is on begins on one.
pub(super) fn misaligned(scene: &Scene<'_>, told: &[String]) -> Vec<Defect> {
    let all = scene.nodes(&[]).flat_map(|(index, node)| {
        all_starts(scene, index, node).into_iter().map(move |start| (index, node, start))
    });
    let found = all.filter_map(|(index, node, start)| {
        let is_in_file = lies_in_a_file(scene, start.on);
        // Of a partition on a disk there is more to say.
        if told.contains(&node.key())
            || !is_in_file && node.kind == NodeKind::Partition && start.is_own
        {
            return None;
        }
        let own = disks_below(scene, start.on, start.from);
        let at = disks_below(scene, start.on, start.at);
        let data = disks_below(scene, start.on, start.data);
        at.into_iter().find_map(|(disk, (unit, origin), at)| {
            let misses = |at: Position| at.check("", unit, origin).fit == Fit::Misaligned;
            let is_inherited = own.iter().any(|(other, _, at)| *other == disk && misses(*at));
            let is_felt = data.iter().any(|(other, _, at)| *other == disk && misses(*at));
            let over = at.check("", unit, origin).remainder_bytes;
            let facts = Missed { disk: scene.node(disk), unit, over, is_in_file };
            (misses(at) && is_felt && !is_inherited)
                .then(|| tell(scene, index, node, &start, &facts))
        })
    });
    found.collect()
}

/// A start, and where it would be if it began with what it is on.
struct Inside {
    on: usize,
    bytes: u64,
    source: String,
    what: &'static str,
    at: Position,
    /// The same of the data behind it.
    data: Position,
    from: Position,
    /// It is where the node itself begins, and not what is on it.
    is_own: bool,
}

impl Inside {
    /// As its source says it.
    fn value(&self) -> String {
        match self.what {
            "the partition" => format!("{} sectors of {SECTOR_BYTES} B", self.bytes / SECTOR_BYTES),
            _ => format!("{} B", self.bytes),
        }
    }
}

fn all_starts(scene: &Scene<'_>, index: usize, node: &Node) -> Vec<Inside> {
    let offset_bytes = node.loop_device.as_ref().and_then(|facts| facts.offset_bytes);
    let of_file = offset_bytes.filter(|&bytes| bytes > 0).map(|bytes| Inside {
        on: index,
        bytes,
        source: sysfs(node, "loop/offset"),
        what: "the part of the file",
        at: Position::TOP,
        data: Position::at(data_start_bytes(node)),
        from: Position { shift_bytes: -i128::from(bytes), ..Position::TOP },
        is_own: true,
    });
    let others = starts(scene, index, node).into_iter();
    let others = others.map(|Start { on, bytes, data_at_bytes, source, what }| {
        let (at, data) = (Position::at(bytes), Position::at(data_at_bytes));
        Inside { on, bytes, source, what, at, data, from: Position::TOP, is_own: on != index }
    });
    of_file.into_iter().chain(others).collect()
}

/// True when a file lies between something and its disks, through which the kernel carries no limits.
pub(super) fn lies_in_a_file(scene: &Scene<'_>, index: usize) -> bool {
    let below = scene.machine().walk_from(index);
    below.into_iter().any(|index| scene.node(index).kind == NodeKind::Loop)
}

struct Missed<'a> {
    disk: &'a Node,
    unit: u64,
    over: u64,
    is_in_file: bool,
}

fn tell(
    scene: &Scene<'_>,
    index: usize,
    node: &Node,
    start: &Inside,
    missed: &Missed<'_>,
) -> Defect {
    let Missed { disk, unit, over, is_in_file } = missed;
    let gravity = if scene.in_use(index) { Gravity::High } else { Gravity::Medium };
    let name = &node.name;
    let begins =
        if start.what.ends_with("extents of the physical volume") { "begin" } else { "begins" };
    let defect = Defect::new(
        "misaligned",
        gravity,
        Some(&node.key()),
        format!(
            "{} on {name} {begins} {over} B behind the physical blocks of {} of {}{}",
            start.what,
            format_size(*unit),
            disk.name,
            if *is_in_file { ", which lies below its file" } else { "" }
        ),
    )
    .seen(start.source.clone(), start.value())
    .seen(sysfs(disk, "queue/physical_block_size"), format!("{unit} B"));
    let device = word(node.label());
    let origin =
        (u128::from(start.bytes) + u128::from(*unit) - u128::from(*over)) % u128::from(*unit);
    let next = array::next_start_bytes(start.bytes, *unit, origin as u64);
    let next = next.unwrap_or(*unit);
    let advice = match start.what {
        "the part of the file" => {
            format!(
                "attach it anew with --offset at a multiple of {unit} B, of an image that was made for that"
            )
        }
        "the partition" => format!("make the partition anew, from byte {next} on"),
        _ => format!("make it anew, so that its data begins at byte {next} of what it is on"),
    };
    let because = if *is_in_file {
        "every block lies across two blocks of the drive: each small write reads both, changes them and writes them back; the kernel does not see it, since files hide the blocks below them"
    } else {
        "every block lies across two blocks of the drive: each small write reads both, changes them and writes them back"
    };
    defect
        .because(because)
        .command("see every layer", format!("fathom check --alignment {device}"))
        .advise(format!("copy what is on it elsewhere, then {advice}; that destroys what is on it"))
        .risking("everything on it is lost without the copy")
        .verified_by(format!("fathom check --alignment {device}; fathom run randwrite on a file of it before and after"))
}

#[cfg(test)]
#[path = "unseen_tests.rs"]
mod tests;
