//! Entries of partition tables against each other, and against what the kernel uses.

use super::tables::tables;
use crate::rules::shared::{list, sysfs};
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_model::defect::{Defect, Gravity};
use fathom_model::stack::detail::{PartitionEntry, PartitionTable};
use fathom_model::stack::{Node, NodeKind};

/// Partitions of an MBR with higher numbers lie in an extended one.
const MBR_NUMBER_MAX: u64 = 4;

/// True for an entry that only holds others, or guards a GPT.
fn is_frame(table: &PartitionTable, entry: &PartitionEntry) -> bool {
    table.kind == "dos" && matches!(entry.kind.as_str(), "05" | "0f" | "85" | "ee")
}

/// First byte and length.
fn place(table: &PartitionTable, entry: &PartitionEntry) -> (u64, u64) {
    let bytes = |sectors: u64| sectors.saturating_mul(table.sector_bytes);
    (bytes(entry.start_sector), bytes(entry.sectors))
}

/// What the table says of a partition that the kernel uses, where it is something else.
fn otherwise(table: &PartitionTable, part: &Node, disk_bytes: u64) -> Option<String> {
    let facts = part.partition.as_ref()?;
    let (number, own) = (facts.number?, (facts.start_bytes?, part.size_bytes?));
    if table.kind == "dos" && number > MBR_NUMBER_MAX {
        return None;
    }
    let Some(entry) = table.entries.iter().find(|entry| entry.number == number) else {
        return Some(format!("no partition {number}"));
    };
    let (start, bytes) = place(table, entry);
    // The kernel cuts off what ends behind the disk.
    let is_cut = start.saturating_add(bytes) > disk_bytes;
    if is_frame(table, entry) || is_cut || (start, bytes) == own {
        return None;
    }
    Some(format!("partition {number} at byte {start}, {bytes} B"))
}

/// Images of discs that also start from a stick have entries that no other table has, on purpose.
fn is_disc(node: &Node) -> bool {
    let content = node.details().content.as_ref();
    content.is_some_and(|content| content.other.iter().any(|other| other == "iso9660"))
}

/// A table that was written anew while the kernel went on with the old one.
pub(super) fn changed(scene: &Scene<'_>) -> Vec<Defect> {
    let all = tables(scene).filter(|(_, node, _)| !is_disc(node));
    let found = all.filter_map(|(index, node, table)| {
        let size = node.size_bytes?;
        let parts = scene.above(index).filter(|(_, part)| part.kind == NodeKind::Partition);
        let differing: Vec<(usize, &Node, String)> = parts
            .filter_map(|(at, part)| Some((at, part, otherwise(table, part, size)?)))
            .collect();
        let is_used = differing.iter().any(|(at, ..)| scene.in_use(*at));
        let names = list(differing.iter().map(|(_, part, _)| part.name.as_str()));
        if differing.is_empty() {
            return None;
        }
        let device = word(node.label());
        let mut defect = Defect::new(
            "table-changed",
            if is_used { Gravity::High } else { Gravity::Medium },
            Some(&node.key()),
            format!("the partition table of {} is not the one that the kernel uses: {names}", node.name),
        );
        for (_, part, says) in differing {
            let start = part.partition.as_ref().and_then(|facts| facts.start_bytes).unwrap_or(0);
            let uses = format!("byte {start}, {} B", part.size_bytes.unwrap_or(0));
            defect = defect
                .seen(sysfs(part, "start"), uses)
                .seen(format!("partition table of {}", node.label()), says)
                .concerning(part.key());
        }
        Some(
            defect
                .because("from the next start on the partition lies elsewhere or is gone: what is on it is not found any more, or is written over")
                .command("compare both", format!("sfdisk --dump {device}; grep . /sys/class/block/{}*/start", node.name))
                .advise("where the table is right: stop what uses the partitions and let the kernel read it anew (blockdev --rereadpt); where it is not, write the old numbers back before the next start (sfdisk --no-reread), which changes nothing but the table")
                .risking("a mistake in the numbers hides what is on the partitions until they are right; keep a copy of the table first: sfdisk --dump")
                .verified_by("fathom check shows no [table-changed]"),
        )
    });
    found.collect()
}

/// Two partitions with sectors in common.
pub(super) fn overlap(scene: &Scene<'_>) -> Vec<Defect> {
    let all = tables(scene).filter(|(_, node, _)| !is_disc(node));
    let found = all.filter_map(|(_, node, table)| {
        let is_real = |entry: &&PartitionEntry| {
            !is_frame(table, entry) && entry.sectors > 0 && entry.start_sector > 0
        };
        let entries: Vec<&PartitionEntry> = table.entries.iter().filter(is_real).collect();
        let (a, b) = entries.iter().enumerate().find_map(|(at, a)| {
            let meets = |b: &&&PartitionEntry| {
                a.start_sector < b.start_sector.saturating_add(b.sectors)
                    && b.start_sector < a.start_sector.saturating_add(a.sectors)
            };
            Some((*a, *entries[at + 1..].iter().find(meets)?))
        })?;
        let seen = |entry: &PartitionEntry| {
            let (start, bytes) = place(table, entry);
            format!("partition {} at byte {start}, {bytes} B", entry.number)
        };
        let source = format!("partition table of {}", node.label());
        Some(
            Defect::new(
                "partitions-overlap",
                Gravity::High,
                Some(&node.key()),
                format!("partitions {} and {} of {} have sectors in common", a.number, b.number, node.name),
            )
            .seen(source.clone(), seen(a))
            .seen(source, seen(b))
            .because("what is written to one of them destroys what the other holds")
            .command("see all entries", format!("sfdisk --dump {}", word(node.label())))
            .advise("write to neither; find out which of them holds data and where the other should begin or end (an older copy of the table, or testdisk), copy what is whole elsewhere, and mend the table")
            .risking("a wrong table hides what is on the partitions until it is right; keep a copy of it first: sfdisk --dump")
            .verified_by("fathom check shows no [partitions-overlap]"),
        )
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::{changed, overlap};
    use crate::fixtures::{Bench, GIB, MIB};
    use fathom_model::defect::Gravity;
    use fathom_model::stack::detail::{PartitionEntry, PartitionTable};

    /// A disk with these entries: number, first MiB, length in MiB, type.
    fn disk(kind: &str, entries: &[(u64, u64, u64, &str)]) -> (Bench, usize) {
        let mut bench = Bench::new();
        let disk = bench.disk("sda");
        bench.node(disk).size_bytes = Some(GIB);
        let entry = |&(number, start, length, kind): &(u64, u64, u64, &str)| PartitionEntry {
            number,
            start_sector: start * 2048,
            sectors: length * 2048,
            kind: kind.into(),
            name: None,
        };
        bench.detail_of(disk).table = Some(PartitionTable {
            kind: kind.into(),
            sector_bytes: 512,
            entries: entries.iter().map(entry).collect(),
            ..PartitionTable::default()
        });
        (bench, disk)
    }

    #[test]
    fn the_kernel_goes_on_with_the_old_table() {
        for (kind, entries, expected) in [
            ("gpt", vec![(1, 1, 100, "0fc6")], None),
            ("gpt", vec![(1, 1, 99, "0fc6")], Some("partition 1 at byte 1048576, 103809024 B")),
            ("gpt", vec![(1, 2, 100, "0fc6")], Some("partition 1 at byte 2097152, 104857600 B")),
            ("gpt", vec![(2, 1, 100, "0fc6")], Some("no partition 1")),
            ("dos", vec![(1, 1, 100, "83")], None),
            ("dos", vec![], Some("no partition 1")),
            // The kernel shows two sectors of an extended one, and cuts off what ends behind the disk.
            ("dos", vec![(1, 1, 500, "05")], None),
            ("dos", vec![(1, 1, 5000, "83")], None),
        ] {
            let (mut bench, disk) = disk(kind, &entries);
            let part = bench.partition("sda1", MIB, disk);
            bench.node(part).size_bytes = Some(100 * MIB);
            let found = bench.ask(changed);
            let says = found.first().map(|defect| defect.evidence[1].value.as_str());
            assert_eq!(says, expected, "{kind} {entries:?}");
        }
        let (mut bench, disk) = disk("gpt", &[]);
        let part = bench.partition("sda1", MIB, disk);
        assert_eq!(bench.one(changed).gravity, Gravity::Medium);
        bench.mounted("ext4", "/srv", part);
        assert_eq!(bench.one(changed).gravity, Gravity::High);
        if let Some(facts) = bench.node(part).partition.as_mut() {
            facts.number = Some(5);
        }
        assert_eq!(bench.gravities(changed), [Gravity::High], "a GPT counts on");
        if let Some(table) = bench.detail_of(disk).table.as_mut() {
            table.kind = "dos".into();
        }
        assert_eq!(bench.ask(changed), [], "those in an extended one are counted by the kernel");
        if let Some(facts) = bench.node(part).partition.as_mut() {
            facts.number = Some(1);
        }
        assert_eq!(bench.gravities(changed), [Gravity::High]);
        bench.content_of(disk).other = vec!["iso9660".into()];
        assert_eq!(bench.ask(changed), [], "an image of a disc has entries of its own kind");
    }

    #[test]
    fn partitions_that_share_sectors() {
        for (kind, entries, expected) in [
            ("dos", vec![(1, 1, 100, "83"), (2, 101, 100, "83")], 0),
            ("dos", vec![(1, 1, 100, "83"), (2, 100, 100, "83")], 1),
            ("gpt", vec![(1, 100, 100, "0fc6"), (2, 1, 100, "0fc6")], 1),
            // One that holds others, one that guards a GPT, the whole of an image of a disc, none at all.
            ("dos", vec![(1, 1, 100, "05"), (5, 2, 50, "83")], 0),
            ("dos", vec![(1, 1, 100, "ee"), (2, 2, 50, "83")], 0),
            ("dos", vec![(1, 0, 100, "00"), (2, 2, 50, "ef")], 0),
            ("dos", vec![(1, 1, 100, "83"), (2, 2, 0, "83")], 0),
        ] {
            let (bench, _) = disk(kind, &entries);
            assert_eq!(bench.ask(overlap).len(), expected, "{kind} {entries:?}");
        }
        let (mut bench, disk) = disk("dos", &[(1, 1, 100, "17"), (2, 2, 50, "ef")]);
        bench.one(overlap);
        bench.content_of(disk).other.push("iso9660".into());
        assert_eq!(bench.ask(overlap), []);
    }
}
