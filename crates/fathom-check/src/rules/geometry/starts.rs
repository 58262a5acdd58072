//! Where partitions, volumes and encrypted data begin.

use super::tables::tables;
use super::unseen;
use crate::alignment::maps::{granularity, origin_bytes};
use crate::alignment::{Fit, Position, stripes_below};
use crate::array::{self, SECTOR_BYTES, Striping};
use crate::dm;
use crate::rules::shared::{list, sysfs};
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_base::units::format_size;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::detail::PartitionTable;
use fathom_model::stack::{Node, NodeKind};

/// Smaller partitions that nothing uses (for boot loaders, extended ones) carry no load that could suffer.
pub(crate) const SMALL_BYTES: u64 = 16 << 20;
/// Where cryptsetup puts the data of LUKS2 by itself.
const LUKS_DATA_BYTES: u64 = 16 << 20;

/// Starts off the drive's physical blocks.
pub(super) fn misaligned(scene: &Scene<'_>) -> Vec<Defect> {
    let partitions = scene.nodes(&[NodeKind::Partition]);
    let mut found: Vec<Defect> =
        partitions.filter_map(|(index, node)| misaligned_partition(scene, index, node)).collect();
    let told = |found: &[Defect]| -> Vec<String> {
        found.iter().filter_map(|defect| defect.node.clone()).collect()
    };
    found.extend(unseen::misaligned(scene, &told(&found)));
    found
        .extend(tables(scene).filter_map(|(index, node, table)| inside(scene, index, node, table)));
    let told = told(&found);
    found.extend(
        scene.nodes(&[]).filter_map(|(index, node)| misaligned_stack(scene, index, node, &told)),
    );
    found
}

/// False for a partition of which no wrong start is told: it is small, and nothing uses it.
pub(crate) fn carries_load(scene: &Scene<'_>, index: usize) -> bool {
    let node = scene.node(index);
    let is_small = node.size_bytes < Some(SMALL_BYTES);
    node.kind != NodeKind::Partition || !is_small || scene.in_use(index)
}

fn misaligned_partition(scene: &Scene<'_>, index: usize, node: &Node) -> Option<Defect> {
    let start = node.partition.as_ref()?.start_bytes?;
    let size = node.size_bytes.filter(|_| carries_load(scene, index))?;
    let (_, disk) = scene.below(index).next()?;
    let (physical, minimum) = granularity(disk)?;
    // Of an array the smallest preferred I/O is its chunk: its stripes have a rule of their own.
    let units = if disk.kind == NodeKind::Disk { vec![physical, minimum] } else { vec![physical] };
    let origin = origin_bytes(disk);
    let check = |&unit: &u64| Position::at(start).check("", unit, origin);
    let behind = Position::at(start.saturating_add(data_start_bytes(node)));
    let missed = units.iter().map(check).find(|check| check.fit == Fit::Misaligned)?;
    // What lies in it may begin so much further on that it fits, as LVM sees to by itself.
    if behind.check("", missed.modulus_bytes, origin).fit != Fit::Misaligned {
        return None;
    }
    let unit = missed.modulus_bytes;
    let is_physical = unit == physical;
    let what = if is_physical { "physical blocks" } else { "preferred smallest I/O" };
    let gravity = match (is_physical, scene.in_use(index)) {
        _ if size < SMALL_BYTES => Gravity::Low,
        (true, true) => Gravity::High,
        _ => Gravity::Medium,
    };
    let name = &node.name;
    let own = word(node.label());
    let mut defect = Defect::new(
        "misaligned",
        gravity,
        Some(&node.key()),
        format!(
            "{name} starts {} B behind the {what} of {} of {}",
            missed.remainder_bytes,
            format_size(unit),
            disk.name
        ),
    )
    .seen(sysfs(node, "start"), format!("{} sectors of 512 B", start / SECTOR_BYTES))
    .seen(sysfs(disk, "queue/physical_block_size"), format!("{physical} B"))
    .seen(sysfs(disk, "alignment_offset"), format!("{origin} B"));
    if !is_physical {
        defect = defect.seen(sysfs(disk, "queue/minimum_io_size"), format!("{minimum} B"));
    }
    let number = node.partition.as_ref().and_then(|facts| facts.number).unwrap_or(1);
    let kind = part_kind(disk, number);
    let new = array::next_start_bytes(start, unit, origin)?;
    let end = start.checked_add(size)?.checked_sub(1)?;
    Some(
        defect
            .because(if is_physical {
                "every block of the filesystem lies across two blocks of the drive: each small write reads both, changes them and writes them back, on a disk with an extra revolution"
            } else {
                "writes of the size that the drive asks for, as its maker's stripes or pages, fill parts of two instead of one"
            })
            .advise(format!("copy what is on {name} elsewhere, and take it out of use"))
            .advise(format!("remove it (number {number} of {}), which destroys what is on it", disk.name))
            .advise(format!("when it is made anew, from the next right place to the old end: parted -a none /dev/DISK unit B mkpart {kind} {new}B {end}B; then make the filesystem and copy back"))
            .risking("everything on the partition is lost without the copy; boot loaders and /etc/fstab may name the old one")
            .verified_by(format!("fathom check --alignment {own}; fathom run randwrite on a file of it before and after")),
    )
}

/// What parted calls the partition of a number: from 5 on those of an MBR lie in its extended one.
fn part_kind(disk: &Node, number: u64) -> &'static str {
    let is_mbr = disk.details().table.as_ref().is_some_and(|table| table.kind == "dos");
    if is_mbr && number > 4 { "logical" } else { "primary" }
}

/// Partitions in a table that the kernel does not read, as those of virtual machines on volumes and images.
fn inside(scene: &Scene<'_>, index: usize, node: &Node, table: &PartitionTable) -> Option<Defect> {
    let is_used = scene.above(index).next().is_some();
    let (physical, _) = granularity(node).filter(|_| !is_used)?;
    let origin = origin_bytes(node);
    let is_extended = |kind: &str| table.kind == "dos" && matches!(kind, "05" | "0f" | "85");
    let mut large = table.entries.iter().filter(|entry| {
        !is_extended(&entry.kind) && entry.sectors.saturating_mul(table.sector_bytes) >= SMALL_BYTES
    });
    let (number, start, check) = large.find_map(|entry| {
        let start = entry.start_sector.checked_mul(table.sector_bytes)?;
        let check = Position::at(start).check("", physical, origin);
        (check.fit == Fit::Misaligned).then_some((entry.number, start, check))
    })?;
    Some(
        Defect::new(
            "misaligned",
            Gravity::Medium,
            Some(&node.key()),
            format!(
                "partition {number} inside of {} starts {} B behind the physical blocks of {}",
                node.name,
                check.remainder_bytes,
                format_size(physical)
            ),
        )
        .sure(Certainty::Likely)
        .seen(format!("partition table of {}", node.label()), format!("partition {number} at byte {start}"))
        .seen(sysfs(node, "queue/physical_block_size"), format!("{physical} B"))
        .because("every block of the filesystem in it, mostly that of a virtual machine, lies across two blocks of the drive: each small write reads both, changes them and writes them back")
        .advise("within the machine that it belongs to: copy what is on the partition elsewhere, make it anew from a multiple of 1 MiB, and copy back")
        .risking("everything on the partition is lost without the copy; boot loaders may name the old one")
        .verified_by("fathom check again; within the machine fathom run randwrite before and after"),
    )
}

/// A layer whose members disagree: the kernel gives up and says -1.
fn misaligned_stack(
    scene: &Scene<'_>,
    index: usize,
    node: &Node,
    told: &[String],
) -> Option<Defect> {
    let is_off = |node: &Node| node.alignment_offset_bytes == Some(-1);
    if !is_off(node) {
        return None;
    }
    let below = scene.machine().walk_from(index);
    let is_symptom = below.iter().skip(1).any(|&below| {
        let node = scene.node(below);
        is_off(node) || told.contains(&node.key())
    });
    if is_symptom {
        return None;
    }
    let name = &node.name;
    let mut defect = Defect::new(
        "misaligned",
        Gravity::Medium,
        Some(&node.key()),
        format!("the kernel calls {name} misaligned: what it is made of does not fit together"),
    )
    .seen(sysfs(node, "alignment_offset"), "-1");
    for (_, member) in scene.below(index) {
        let offset = member.alignment_offset_bytes.unwrap_or(0);
        defect = defect.seen(sysfs(member, "alignment_offset"), format!("{offset} B"));
        if let Some(queue) = &member.queue {
            let bytes = queue.physical_block_bytes.unwrap_or(0);
            defect = defect.seen(sysfs(member, "queue/physical_block_size"), format!("{bytes} B"));
        }
    }
    Some(
        defect
            .because("blocks that are whole above are parts of blocks on some member: writes there read first")
            .command("see which layer begins in the wrong place", format!("fathom check --alignment {}", word(node.label())))
            .command("see what the kernel said of it", "dmesg | grep -i misaligned")
            .advise("make the layer anew on members that start on their physical blocks and have the same block size")
            .risking("making a layer anew destroys what is on it")
            .verified_by(format!("cat {} says 0", sysfs(node, "alignment_offset"))),
    )
}

/// Something that begins off the stripes of an array, which what it lies on does not.
struct OffStripe<'a> {
    array: &'a Node,
    striping: Striping,
    remainder_bytes: u64,
}

/// The first array whose stripes `at` misses on the way down from `index`, though `index` itself does not.
fn off_stripe<'a>(scene: &Scene<'a>, index: usize, at: Position) -> Option<OffStripe<'a>> {
    let own = stripes_below(scene, index, Position::TOP);
    stripes_below(scene, index, at).into_iter().find_map(|(array, striping, at)| {
        let unit = striping.start_unit_bytes();
        let is_inherited = own.iter().any(|(other, _, at)| *other == array && at.misses(unit));
        let check = at.check("", unit, 0);
        (check.fit == Fit::Misaligned && !is_inherited && !striping.is_copy).then(|| OffStripe {
            array: scene.node(array),
            striping,
            remainder_bytes: check.remainder_bytes,
        })
    })
}

/// Partitions, encrypted data and physical volumes that begin off the stripes.
pub(super) fn stripe_misaligned(scene: &Scene<'_>) -> Vec<Defect> {
    scene
        .nodes(&[])
        .flat_map(|(index, node)| {
            let all = starts(scene, index, node).into_iter();
            all.filter_map(move |start| {
                let found = off_stripe(scene, start.on, Position::at(start.bytes))?;
                off_stripe(scene, start.on, Position::at(start.data_at_bytes))?;
                Some(told(scene, node, &start, &found))
            })
        })
        .collect()
}

/// Where a node, or the volumes on it, begin on another.
pub(super) struct Start {
    pub(super) on: usize,
    pub(super) bytes: u64,
    /// Where the data behind it begin there: further on where a volume or encrypted data lie in a partition.
    pub(super) data_at_bytes: u64,
    pub(super) source: String,
    pub(super) what: &'static str,
}

/// Where the data of what lies on a device begin in it.
pub(super) fn data_start_bytes(node: &Node) -> u64 {
    let Some(content) = node.details().content.as_ref() else { return 0 };
    let md = content.md.as_ref().and_then(|md| md.data_offset_bytes);
    let lvm = content.lvm.as_ref().and_then(|lvm| lvm.extents_start_bytes);
    let luks = content.luks.as_ref().and_then(|luks| luks.data_offset_bytes);
    // A member of an array whose superblock stands at its end shows what is on the array, too.
    [md, lvm, luks].into_iter().flatten().fold(0, u64::saturating_add)
}

/// Where it begins itself, and where the volumes on it do.
pub(super) fn starts(scene: &Scene<'_>, index: usize, node: &Node) -> Vec<Start> {
    let lvm = node.details().content.as_ref().and_then(|content| content.lvm.as_ref());
    let extents = lvm.and_then(|lvm| lvm.extents_start_bytes).map(|bytes| Start {
        on: index,
        bytes,
        data_at_bytes: bytes,
        source: format!("LVM label and metadata on {}: pe_start", node.label()),
        what: "the extents of the physical volume",
    });
    own_start(scene, index, node).into_iter().chain(extents).collect()
}

fn own_start(scene: &Scene<'_>, index: usize, node: &Node) -> Option<Start> {
    match node.kind {
        NodeKind::Partition if carries_load(scene, index) => {
            let (on, _) = scene.below(index).next()?;
            let bytes = node.partition.as_ref()?.start_bytes?;
            let data_at_bytes = bytes.saturating_add(data_start_bytes(node));
            let source = sysfs(node, "start");
            Some(Start { on, bytes, data_at_bytes, source, what: "the partition" })
        }
        NodeKind::Dm => {
            let line = dm::lines(&node.dm.as_ref()?.table, "crypt").next()?;
            let sectors: u64 = line.words.split_ascii_whitespace().nth(4)?.parse().ok()?;
            let (on, _) = scene.below(index).next()?;
            let source = format!("dmsetup table {}", word(node.dm.as_ref()?.name.as_deref()?));
            let bytes = sectors.checked_mul(SECTOR_BYTES)?;
            Some(Start { on, bytes, data_at_bytes: bytes, source, what: "the encrypted data" })
        }
        _ => None,
    }
}

fn told(scene: &Scene<'_>, node: &Node, start: &Start, found: &OffStripe<'_>) -> Defect {
    let OffStripe { array, striping, remainder_bytes } = found;
    let unit = striping.start_unit_bytes();
    let (gravity, word_for_unit, why) = if striping.parity {
        (
            Gravity::Medium,
            "full stripes",
            "writes that would fill a stripe fill parts of two: the array has to read data or parity before each, which halves large writes and adds two reads to many others",
        )
    } else {
        (Gravity::Low, "chunks", "requests as large as a chunk touch two disks instead of one")
    };
    let name = &node.name;
    let defect = Defect::new(
        "stripe-misaligned",
        gravity,
        Some(&node.key()),
        format!(
            "{} on {name} begin{} {} behind the {word_for_unit} of {} of {}",
            start.what,
            if start.what.starts_with("the partition") { "s" } else { "" },
            format_size(*remainder_bytes),
            format_size(unit),
            array.name
        ),
    )
    .seen(start.source.clone(), format!("{} B", start.bytes))
    .seen(array_file(array, "chunk_size"), format!("{} B", striping.chunk_bytes))
    .seen(
        array_file(array, "raid_disks"),
        format!("{} with {} of data", striping.disks, striping.data_disks),
    )
    .because(why);
    cure(scene, node, start, unit, defect).verified_by(format!(
        "fathom check --alignment {}; fathom run seqwrite on a file of it before and after",
        word(node.label())
    ))
}

/// How it is made anew in the right place.
fn cure(scene: &Scene<'_>, node: &Node, start: &Start, unit: u64, defect: Defect) -> Defect {
    let device = word(node.label());
    let below = scene.node(start.on).label();
    let risk = "making it anew destroys what is on it: copy that elsewhere first";
    let lcm = |bytes| array::least_common_multiple(unit, bytes).unwrap_or(unit);
    match start.what {
        "the extents of the physical volume" => defect
            .advise("move its volumes to another physical volume (pvmove), take it out of the group (vgreduce) and remove it (pvremove)")
            .command(
                "make it anew with its extents on a stripe",
                format!("pvcreate --dataalignment {} {device}", array::kib_words(lcm(1 << 20))),
            )
            .risking(risk),
        "the encrypted data" => defect
            .advise(format!("when the container is made anew, with its data on a stripe (that destroys what is on it): cryptsetup luksFormat --type luks2 --offset {} /dev/EMPTY", lcm(LUKS_DATA_BYTES) / SECTOR_BYTES))
            .risking(risk),
        _ => {
            let number = node.partition.as_ref().and_then(|facts| facts.number).unwrap_or(1);
            let new = array::next_start_bytes(start.bytes, unit, 0).unwrap_or(unit);
            let kind = part_kind(scene.node(start.on), number);
            let end = start.bytes.checked_add(node.size_bytes.unwrap_or(0));
            let end = end.filter(|&end| end > new).map_or_else(|| "END".to_owned(), |end| format!("{}B", end - 1));
            defect
                .advise(format!("an array needs no partition table: when it is made anew, make the filesystem or physical volume on {below} itself"))
                .advise(format!("or: remove the partition (number {number}), which destroys what is on it, and make it anew from the next right place to the old end: parted -a none /dev/DISK unit B mkpart {kind} {new}B {end}"))
                .risking(risk)
        }
    }
}

fn array_file(array: &Node, attribute: &str) -> String {
    match array.kind {
        NodeKind::Md => format!("/sys/block/{}/md/{attribute}", array.name),
        _ => format!("table of {} ({attribute})", array.label()),
    }
}

/// Volumes that begin inside a stripe because extents do not fill stripes.
pub(super) fn extent_off_stripe(scene: &Scene<'_>) -> Vec<Defect> {
    scene.nodes(&[]).filter_map(|(index, node)| extents(scene, index, node)).collect()
}

fn extents(scene: &Scene<'_>, index: usize, node: &Node) -> Option<Defect> {
    let lvm = node.details().content.as_ref()?.lvm.as_ref()?;
    let (start, extent) = (lvm.extents_start_bytes?, lvm.extent_bytes.filter(|&bytes| bytes > 0)?);
    let arrays = stripes_below(scene, index, Position::at(start));
    let (array, striping, _) = arrays.into_iter().find(|(_, striping, at)| {
        let stripe = striping.full_stripe_bytes();
        striping.parity && !extent.is_multiple_of(stripe) && !at.misses(stripe)
    })?;
    let stripe = striping.full_stripe_bytes();
    let off = |sector: u64| {
        let at = Position::at(sector.saturating_mul(SECTOR_BYTES));
        let below = stripes_below(scene, index, at);
        below.iter().any(|(other, _, at)| *other == array && at.misses(stripe))
    };
    let volumes: Vec<&str> = scene
        .above(index)
        .filter_map(|(_, volume)| {
            let facts = volume.dm.as_ref()?;
            let begins_off = dm::lines(&facts.table, "linear").any(|line| {
                let mut words = line.words.split_ascii_whitespace();
                words.next() == node.devno.as_deref()
                    && words.next().and_then(|sector| sector.parse().ok()).is_some_and(off)
            });
            begins_off.then(|| facts.name.as_deref().unwrap_or(&volume.name))
        })
        .collect();
    if volumes.is_empty() {
        return None;
    }
    let count = array::extents_per_stripe(stripe, extent)?;
    let group = lvm.group.as_deref().unwrap_or("GROUP");
    let array = scene.node(array);
    Some(
        Defect::new(
            "lvm-extent-off-stripe",
            Gravity::Low,
            Some(&node.key()),
            format!(
                "extents of {} are no multiple of the stripe of {} of {}: {} begin inside one",
                format_size(extent),
                format_size(stripe),
                array.name,
                list(volumes.iter().copied())
            ),
        )
        .seen(format!("LVM metadata on {}: extent_size", node.label()), format!("{extent} B"))
        .seen(array_file(array, "raid_disks"), format!("{} with {} of data", striping.disks, striping.data_disks))
        .because("a volume that begins inside a stripe shares it with its neighbour: its large writes end in parts of stripes, which the array has to read first")
        .command(
            format!("give volumes sizes in multiples of {count} extents, so that the next one begins on a stripe"),
            format!("lvcreate --extents {} --name NAME {}", count.saturating_mul(256), word(group)),
        )
        .command(
            "or, where the group is made anew (that destroys what is on it): extents that fill stripes",
            format!(
                "vgcreate --physicalextentsize {}k {} {}",
                array::extent_bytes_for(stripe)? / 1024,
                word(group),
                word(node.label())
            ),
        )
        .risking("none for volumes that are made from now on; those that exist would have to be copied, all of them before the group is made anew")
        .verified_by(format!("fathom check --alignment {}", word(node.label()))),
    )
}
