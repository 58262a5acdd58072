//! Partition tables and superblocks as they stand on the devices.

use crate::rules::shared::sysfs;
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_base::units::format_size;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::Node;
use fathom_model::stack::detail::{PartitionEntry, PartitionTable};

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
            // The last one may begin just before, and be as long once more.
            let never = match size.saturating_sub(reach.saturating_mul(2)) {
                0 => String::new(),
                lost => format!(": {} of the disk can never be used", format_size(lost)),
            };
            let name = &node.name;
            let device = word(node.label());
            Some(
                Defect::new(
                    "mbr-over-2tib",
                    Gravity::Medium,
                    Some(&node.key()),
                    format!("{name} has {} and an MBR, whose numbers end at {}", format_size(size), format_size(reach)),
                )
                .seen(format!("first sector of {}", node.label()), "partition table of type dos")
                .seen(sysfs(node, "size"), format!("{size} B"))
                .because(format!("no partition can begin behind that or be longer{never}, and some tools wrap round and show a small partition instead"))
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
    let behind = tables(scene).filter_map(|(_, node, table)| ends_behind(node, table));
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
        .chain(behind)
        .collect()
}

/// An MBR does not say in which sectors it counts: that a partition ends behind the disk shows it.
fn ends_behind(node: &Node, table: &PartitionTable) -> Option<Defect> {
    let (size, sector) = (node.size_bytes?, table.sector_bytes);
    let end = |entry: &PartitionEntry| {
        entry.start_sector.saturating_add(entry.sectors).saturating_mul(sector)
    };
    // The entry that only guards a GPT, and what images of discs round up to, say nothing.
    let is_off =
        |entry: &&PartitionEntry| entry.kind != "ee" && end(entry) > size.saturating_add(1 << 20);
    let entry = table.entries.iter().find(is_off)?;
    if table.kind != "dos" {
        return None;
    }
    Some(
        Defect::new(
            "table-sector-size",
            Gravity::High,
            Some(&node.key()),
            format!("the MBR of {} has a partition (number {}) that ends behind the disk", node.name, entry.number),
        )
        .sure(Certainty::Likely)
        .seen(format!("partition table of {}", node.label()), format!("partition {} ends at byte {}", entry.number, end(entry)))
        .seen(sysfs(node, "size"), format!("{size} B"))
        .because("the table was made for sectors of another size, or for a larger disk: partitions are cut off or lie elsewhere than they were, and what is written to them destroys what they hold")
        .advise("connect it as it was when it was partitioned (USB bridges and drive formats change the sector size), or find the disk that it was copied from, and copy the data")
        .risking("mounting or mending what is found at the wrong place writes over what is right")
        .verified_by("lsblk shows partitions that end on the disk"),
    )
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
        _ if what.starts_with("GPT") => damaged_gpt(defect, what, &device),
        _ if what.starts_with("LVM") => damaged_lvm(defect, node, what, &device),
        _ if what.starts_with("md") => defect.command("look at it", format!("mdadm --examine {device}")),
        _ if what.starts_with("f2fs") => defect.command(
            "check it without changes; the tool takes the second copy where the first is damaged",
            format!("fsck.f2fs --dry-run {device}"),
        ),
        _ => defect
            .command("list everything that is recognised on it, without writing", format!("wipefs --no-act {device}"))
            .advise("a filesystem: check it without changes first (e2fsck -n, xfs_repair -n, btrfs check)"),
    };
    defect
        .risking("repair on a copy where the data has no backup")
        .verified_by("fathom check again")
}

/// gdisk asks before it writes; sgdisk has no words for this.
fn damaged_gpt(defect: Defect, what: &str, device: &str) -> Defect {
    let (whole, letters) = if what.contains("first copy") {
        ("second", "r, then b for its header and c for its entries")
    } else if what.contains("second copy") {
        ("first", "r, then d for its header")
    } else {
        (
            "right",
            "p shows the first one's partitions, r and c load the second one's, p again shows those",
        )
    };
    defect
        .command("look at both copies", format!("sgdisk --verify {device}"))
        .command(
            format!("write the {whole} copy over the other one: {letters}; w writes both, q leaves without a change"),
            format!("gdisk {device}"),
        )
}

/// vgcfgrestore alone needs a label and a metadata area that are whole.
fn damaged_lvm(defect: Defect, node: &Node, what: &str, device: &str) -> Defect {
    let lvm = node.details().content.as_ref().and_then(|content| content.lvm.as_ref());
    let group = lvm.and_then(|lvm| lvm.group.as_deref()).map_or_else(|| "GROUP".to_owned(), word);
    let defect =
        defect.command("look at the physical volume", format!("pvck --dump headers {device}"));
    let defect = if what.contains("label") {
        defect
    } else {
        defect.command(
            "where other physical volumes of the group have its metadata: write them here anew",
            format!("vgck --updatemetadata {group}"),
        )
    };
    defect.command(
        "where this is the only one: write label and metadata anew from LVM's own copy of them, and let the group have them (pvck asks before it writes)",
        format!("pvck --repair --file /etc/lvm/backup/{group} {device} && vgcfgrestore {group}"),
    )
}
