//! Partition tables and superblocks as they stand on the devices.

use crate::rules::shared::sysfs;
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_base::units::format_size;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::Node;
use fathom_model::stack::detail::PartitionTable;

/// Sectors that the four bytes of an MBR can count.
const MBR_SECTORS_MAX: u64 = 1 << 32;

/// Devices with a table of their own. Those that are members of arrays show the array's.
pub(super) fn tables<'a>(
    scene: &Scene<'a>,
) -> impl Iterator<Item = (usize, &'a Node, &'a PartitionTable)> {
    scene.nodes(&[]).filter_map(|(index, node)| {
        let is_member = node.details().content.as_ref().is_some_and(|content| content.md.is_some());
        let table = node.details().table.as_ref().filter(|_| !is_member)?;
        (table.sector_bytes > 0).then_some((index, node, table))
    })
}

/// A disk whose end an MBR cannot name.
pub(super) fn mbr_over_2tib(scene: &Scene<'_>) -> Vec<Defect> {
    tables(scene)
        .filter_map(|(_, node, table)| {
            let size = node.size_bytes?;
            if table.kind != "dos" || size / table.sector_bytes <= MBR_SECTORS_MAX {
                return None;
            }
            let reach = MBR_SECTORS_MAX.saturating_mul(table.sector_bytes);
            let name = &node.name;
            let device = word(node.label());
            Some(
                Defect::new(
                    "mbr-over-2tib",
                    Gravity::Medium,
                    Some(&node.key()),
                    format!("{name} has {} and an MBR, which reaches no further than {}", format_size(size), format_size(reach)),
                )
                .seen(format!("first sector of {}", node.label()), "partition table of type dos")
                .seen(sysfs(node, "size"), format!("{size} B"))
                .because(format!("{} of it can never be used, and some tools wrap round and show a small partition instead", format_size(size - reach)))
                .command("look at what would become of the table, without writing", format!("sgdisk --mbrtogpt --pretend {device}"))
                .command("turn it into a GPT; the partitions stay where they are", format!("sgdisk --mbrtogpt {device}"))
                .risking("a machine that boots from it by BIOS needs a BIOS boot partition and its boot loader anew; keep a copy of the first sector (dd bs=512 count=1); the last 33 sectors have to be free")
                .verified_by(format!("parted -s {device} print says: Partition Table: gpt; fathom check again")),
            )
        })
        .collect()
}

/// The second copy of a GPT belongs into the last sector.
pub(super) fn backup_misplaced(scene: &Scene<'_>) -> Vec<Defect> {
    tables(scene)
        .filter_map(|(_, node, table)| {
            let backup = table.backup_sector.filter(|_| table.kind == "gpt")?;
            let last = node.size_bytes?.checked_div(table.sector_bytes)?.checked_sub(1)?;
            if backup == last {
                return None;
            }
            let name = &node.name;
            let device = word(node.label());
            let is_grown = backup < last;
            let gravity = if is_grown { Gravity::Medium } else { Gravity::High };
            let why = if is_grown {
                "the disk has grown since: the new space cannot be used, and a rescue tool looks for the second copy at the end, in vain"
            } else {
                "the disk is smaller than when it was partitioned: the last partition may lie behind its end, and there is no second copy"
            };
            let defect = Defect::new(
                "gpt-backup-misplaced",
                gravity,
                Some(&node.key()),
                format!("the second GPT of {name} is in sector {backup}; the last sector is {last}"),
            )
            .seen(format!("GPT of {}: alternate LBA", node.label()), backup.to_string())
            .seen(sysfs(node, "size"), format!("{} sectors of {} B", last + 1, table.sector_bytes))
            .because(why);
            let defect = if is_grown {
                defect.command("move the second copy to the end", format!("sgdisk --move-second-header {device}"))
            } else {
                defect
                    .command("see whether a partition ends behind the disk, without writing", format!("sgdisk --verify {device}"))
                    .advise("find out why the disk is smaller (a hidden area, another controller, a smaller copy) before anything is written")
            };
            Some(
                defect
                    .risking("only the table is written; keep a copy of it first: sgdisk --backup=FILE. On the disk of a virtual machine it is done from within that machine")
                    .verified_by(format!("sgdisk --verify {device} finds no problems")),
            )
        })
        .collect()
}

/// A table that counts in other sectors than the drive has.
pub(super) fn sector_size(scene: &Scene<'_>) -> Vec<Defect> {
    tables(scene)
        .filter_map(|(index, node, table)| {
            let logical = scene.queue(index)?.logical_block_bytes?;
            if table.sector_bytes == logical || table.kind != "gpt" {
                return None;
            }
            let name = &node.name;
            Some(
                Defect::new(
                    "table-sector-size",
                    Gravity::High,
                    Some(&node.key()),
                    format!("the GPT of {name} counts in sectors of {} B, the drive has {logical} B", table.sector_bytes),
                )
                .seen(format!("GPT of {}", node.label()), format!("header at byte {}", table.sector_bytes))
                .seen(sysfs(node, "queue/logical_block_size"), format!("{logical} B"))
                .because("the kernel does not find the partitions: the disk looks empty, and a new table would destroy what is on it")
                .advise("connect it as it was when it was partitioned (USB bridges and drive formats change the sector size), and copy the data")
                .advise("or enter the partitions again with the same bytes in the new sectors, from a copy of the old table")
                .risking("a mistake in the numbers makes the data unreadable until it is mended; nothing else is written")
                .verified_by("lsblk shows the partitions"),
            )
        })
        .collect()
}

/// Superblocks that were recognised and make no sense.
pub(super) fn damaged(scene: &Scene<'_>) -> Vec<Defect> {
    let nodes = scene.nodes(&[]);
    nodes
        .flat_map(|(_, node)| {
            let content = node.details().content.as_ref();
            let texts = content.map_or(&[][..], |content| &content.damaged);
            texts.iter().map(move |text| damage(node, text))
        })
        .collect()
}

fn damage(node: &Node, text: &str) -> Defect {
    let device = word(node.label());
    let (what, how) = text.split_once(':').unwrap_or((text, "it contradicts itself"));
    let defect = Defect::new(
        "superblock-damaged",
        Gravity::Medium,
        Some(&node.key()),
        format!("{what} on {} is damaged:{how}", node.name),
    )
    .sure(Certainty::Likely)
    .seen(format!("{what} on {}", node.label()), how.trim())
    .because("the next start may not find what it describes; where it is a leftover of something that was overwritten, tools may take the device for what it no longer is");
    let defect = match what {
        _ if what.starts_with("GPT") => defect
            .command("look at both copies", format!("sgdisk --verify {device}"))
            .advise("write the whole copy over the damaged one: sgdisk, expert menu, 'use backup' or 'rebuild'"),
        _ if what.starts_with("LVM") => defect
            .command("look at the physical volume", format!("pvck --dump headers {device}"))
            .advise("restore the metadata from /etc/lvm/backup with vgcfgrestore"),
        _ if what.starts_with("md") => defect.command("look at it", format!("mdadm --examine {device}")),
        _ => defect
            .command("list everything that is recognised on it, without writing", format!("wipefs --no-act {device}"))
            .advise("a filesystem: check it without changes first (e2fsck -n, xfs_repair -n, btrfs check)"),
    };
    defect
        .risking("repair on a copy where the data has no backup")
        .verified_by("fathom check again")
}
