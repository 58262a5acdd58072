//! What drives and layers say of their blocks and stripes, and whether it arrives above.

use crate::array::Striping;
use crate::dm;
use crate::rules::shared::sysfs;
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_base::units::format_size;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::{DmFacts, Node, NodeKind};

/// The page: smaller preferred transfers say nothing.
const OPTIMAL_BYTES_MIN: u64 = 4096;
/// What crypt uses where its table says nothing else, and the physical block of nearly all drives.
const CRYPT_SECTOR_BYTES: u64 = 512;
const BLOCK_BYTES: u64 = 4096;

/// Hints of one layer that the next does not pass on.
pub(super) fn lost(scene: &Scene<'_>) -> Vec<Defect> {
    let layers = scene.nodes(&[NodeKind::Md, NodeKind::Dm, NodeKind::Bcache]);
    layers
        .filter_map(|(index, node)| {
            lost_block(scene, index, node)
                .or_else(|| lost_by_array(node))
                .or_else(|| lost_stripe(scene, index, node))
        })
        .collect()
}

/// The hints only count while filesystems and volumes are made.
fn told(defect: Defect, node: &Node, cure: &str) -> Defect {
    defect
        .because("mkfs, LVM and partitioning tools take their layout from these hints: what is made on it from now on does not fit")
        .advise(cure)
        .command("see the hints of all layers", format!("lsblk --topology {}", word(node.label())))
        .risking("none for what exists; to read the limits anew the layer has to be stopped and started")
        .verified_by(format!("fathom check --alignment {}", word(node.label())))
}

fn lost_block(scene: &Scene<'_>, index: usize, node: &Node) -> Option<Defect> {
    let own = node.queue.as_ref()?.physical_block_bytes?;
    let (below, bytes) = scene
        .below(index)
        .filter_map(|(below, lower)| Some((lower, scene.queue(below)?.physical_block_bytes?)))
        .max_by_key(|(_, bytes)| *bytes)
        .filter(|(_, bytes)| *bytes > own)?;
    let summary = format!(
        "{} says that its physical blocks have {own} B; those of {} below have {bytes} B",
        node.name, below.name
    );
    let defect = Defect::new("io-hints-lost", Gravity::Medium, Some(&node.key()), summary)
        .seen(sysfs(node, "queue/physical_block_size"), format!("{own} B"))
        .seen(sysfs(below, "queue/physical_block_size"), format!("{bytes} B"));
    if node.kind == NodeKind::Bcache {
        let cure = format!(
            "it has the blocks that it was made with; when it is made anew (which destroys what is on it): make-bcache --block {bytes} ...; until then give block sizes by hand"
        );
        return Some(told(defect, node, &cure).risking("none for what exists"));
    }
    Some(told(
        defect,
        node,
        "stop and start the layer, so that it reads the limits of its members again; until then give block sizes by hand",
    ))
}

/// An array that does not tell its chunk and stripe.
fn lost_by_array(node: &Node) -> Option<Defect> {
    let striping = node.md.as_ref().and_then(Striping::of_md).filter(|s| !s.is_copy)?;
    let queue = node.queue.as_ref()?;
    let (minimum, optimal) = (queue.minimum_io_bytes?, queue.optimal_io_bytes?);
    let stripe = striping.full_stripe_bytes();
    if minimum.is_multiple_of(striping.chunk_bytes)
        && minimum > 0
        && optimal.is_multiple_of(stripe)
        && optimal > 0
    {
        return None;
    }
    let summary = format!(
        "{} has stripes of {} and says {}",
        node.name,
        format_size(stripe),
        if optimal == 0 { "nothing of them".to_owned() } else { format_size(optimal) }
    );
    let defect = Defect::new("io-hints-lost", Gravity::Medium, Some(&node.key()), summary)
        .seen(
            sysfs(node, "queue/minimum_io_size"),
            format!("{minimum} B (chunk {} B)", striping.chunk_bytes),
        )
        .seen(sysfs(node, "queue/optimal_io_size"), format!("{optimal} B (stripe {stripe} B)"));
    Some(told(
        defect,
        node,
        "after a reshape stop and assemble the array once; until then give chunk and stripe to mkfs and pvcreate by hand",
    ))
}

/// A volume, encryption or map of paths that does not hand on the stripe below.
fn lost_stripe(scene: &Scene<'_>, index: usize, node: &Node) -> Option<Defect> {
    let facts = node.dm.as_ref()?;
    let hands_on = |facts: &DmFacts| {
        !facts.targets.is_empty()
            && facts.targets.iter().all(|t| matches!(t.as_str(), "linear" | "crypt" | "multipath"))
    };
    let own = node.queue.as_ref()?.optimal_io_bytes.filter(|_| hands_on(facts))?;
    let (below, bytes) = scene.below(index).find_map(|(below, lower)| {
        let bytes = scene.queue(below)?.optimal_io_bytes.filter(|&bytes| bytes > 0)?;
        (own == 0 || !own.is_multiple_of(bytes)).then_some((lower, bytes))
    })?;
    let summary = format!(
        "{} says {} for its stripe; {} below says {}",
        node.name,
        if own == 0 { "nothing".to_owned() } else { format_size(own) },
        below.name,
        format_size(bytes)
    );
    let defect = Defect::new("io-hints-lost", Gravity::Low, Some(&node.key()), summary)
        .seen(sysfs(node, "queue/optimal_io_size"), format!("{own} B"))
        .seen(sysfs(below, "queue/optimal_io_size"), format!("{bytes} B"));
    Some(told(
        defect,
        node,
        "deactivate and activate the volume, so that it reads the limits below again; until then give the stripe to mkfs by hand",
    ))
}

/// What the drive says of itself against what the kernel uses.
pub(super) fn differ(scene: &Scene<'_>) -> Vec<Defect> {
    scene
        .nodes(&[NodeKind::Disk])
        .filter_map(|(_, node)| differs(node).or_else(|| no_unmap(node)))
        .collect()
}

/// A drive that takes back what is free, and a kernel that never gives it any.
fn no_unmap(node: &Node) -> Option<Defect> {
    let says = node.details().identity.as_ref()?.unmap == Some(true);
    let discards = node.queue.as_ref()?.discard_max_bytes;
    if !says || discards != Some(0) {
        return None;
    }
    let mode = format!("/sys/block/{}/device/scsi_disk/*/provisioning_mode", node.name);
    let summary = format!("{} understands UNMAP; the kernel sends it no discards", node.name);
    let defect = Defect::new("io-hints-differ", Gravity::Low, Some(&node.key()), summary)
        .sure(Certainty::Likely)
        .seen("VPD page Logical Block Provisioning", "LBPU 1")
        .seen(sysfs(node, "queue/discard_max_bytes"), "0 B")
        .because("flash that is never told what is free copies dead data around, and thin storage never gets space back: the kernel relies on a bit of READ CAPACITY (16) that many bridges leave out, or was told not to")
        .command("let it use UNMAP, until the next boot", format!("echo unmap > {mode}"))
        .risking("a bridge that claims what it cannot do may reset its drive or answer with errors: try it without data that matters")
        .verified_by(format!("cat {mode}; fstrim --verbose on a mount of it gives back space"));
    Some(defect)
}

fn differs(node: &Node) -> Option<Defect> {
    let (said, used) = (node.details().identity.as_ref()?, node.queue.as_ref()?);
    let device = word(node.label());
    let make = |gravity, sure, summary: String| {
        Defect::new("io-hints-differ", gravity, Some(&node.key()), summary)
            .sure(sure)
            .because("partitions and filesystems are laid out by what the kernel says: what is made on it now does not fit the drive")
            .advise("connect the drive without the bridge or expander that changes the answer, or update its firmware")
            .command("see the drive's own words", format!("sg_readcap --long {device} ; hdparm -I {device} | grep -i sector"))
            .risking("none; what exists stays as it is")
            .verified_by(format!("fathom check --alignment {device}"))
    };
    let physical = said.physical_bytes.zip(used.physical_block_bytes);
    if let Some((drive, kernel)) = physical.filter(|(drive, kernel)| drive > kernel) {
        let summary = format!(
            "{} says that its physical blocks have {drive} B; the kernel uses {kernel} B",
            node.name
        );
        return Some(
            make(Gravity::Medium, Certainty::Likely, summary)
                .seen("IDENTIFY word 106, READ CAPACITY (16)", format!("{drive} B"))
                .seen(sysfs(node, "queue/physical_block_size"), format!("{kernel} B")),
        );
    }
    let logical = said.logical_bytes.or(used.logical_block_bytes)?;
    let offset = said
        .lowest_aligned_lba
        .zip(said.physical_bytes)
        .and_then(|(lba, physical)| lba.checked_mul(logical)?.checked_rem(physical));
    let kernel_offset = node.alignment_offset_bytes.and_then(|bytes| u64::try_from(bytes).ok());
    if let Some((drive, kernel)) =
        offset.zip(kernel_offset).filter(|(drive, kernel)| drive != kernel)
    {
        let summary = format!(
            "{} says that its physical blocks begin at byte {drive}; the kernel uses {kernel}",
            node.name
        );
        return Some(
            make(Gravity::Medium, Certainty::Likely, summary)
                .seen(
                    "IDENTIFY word 209, READ CAPACITY (16)",
                    format!("lowest aligned byte {drive}"),
                )
                .seen(sysfs(node, "alignment_offset"), format!("{kernel} B")),
        );
    }
    let optimal = said.optimal_bytes.filter(|&bytes| {
        let block = used.physical_block_bytes.unwrap_or(1).max(1);
        bytes >= OPTIMAL_BYTES_MIN && bytes.is_multiple_of(block)
    })?;
    (used.optimal_io_bytes == Some(0)).then(|| {
        let summary = format!(
            "{} prefers transfers of {}; the kernel passes nothing on",
            node.name,
            format_size(optimal)
        );
        make(Gravity::Low, Certainty::Possible, summary)
            .seen("VPD page Block Limits", format!("optimal transfer {optimal} B"))
            .seen(sysfs(node, "queue/optimal_io_size"), "0 B")
    })
}

/// Encryption in small sectors above large ones.
pub(super) fn crypt_sector(scene: &Scene<'_>) -> Vec<Defect> {
    scene
        .nodes(&[NodeKind::Dm])
        .filter_map(|(index, node)| small_crypt_sectors(scene, index, node))
        .collect()
}

/// What lies on a device in smaller units than the new ones would be, where that is seen.
fn small_units(scene: &Scene<'_>, index: usize) -> Option<String> {
    let told = |kind: &str, block: Option<u64>, sector: Option<u64>| {
        let (unit, bytes) = match kind {
            "xfs" => ("sectors", sector?),
            kind if kind.starts_with("ext") => ("blocks", block?),
            _ => return None,
        };
        (bytes < BLOCK_BYTES).then(|| format!("the {kind} on it has {unit} of {bytes} B"))
    };
    let at_rest = || {
        let content = scene.node(index).details().content.as_ref()?;
        let said = content.filesystem.as_ref()?;
        told(&said.fs_type, said.block_bytes, said.sector_bytes)
    };
    let mounted = scene.above(index).find_map(|(_, above)| {
        let fs = above.fs.as_ref()?;
        told(&fs.fs_type, fs.block_bytes, fs.sector_bytes)
    });
    mounted.or_else(at_rest)
}

fn small_crypt_sectors(scene: &Scene<'_>, index: usize, node: &Node) -> Option<Defect> {
    let facts = node.dm.as_ref()?;
    let table = dm::crypt_table(dm::lines(&facts.table, "crypt").next()?.words)?;
    let given = table.options.iter().find_map(|option| option.strip_prefix("sector_size:"));
    let sector = given.map_or(Some(CRYPT_SECTOR_BYTES), |bytes| bytes.parse().ok())?;
    let (below_index, below) = scene.below(index).next()?;
    let physical = scene.queue(below_index)?.physical_block_bytes?;
    let fits = node.size_bytes.is_some_and(|bytes| bytes.is_multiple_of(BLOCK_BYTES));
    if sector >= BLOCK_BYTES || physical < BLOCK_BYTES || !fits {
        return None;
    }
    let luks = below.details().content.as_ref().and_then(|content| content.luks.as_ref());
    let device = word(below.label());
    let name = facts.name.as_deref().unwrap_or(&node.name);
    let defect = Defect::new(
        "crypt-sector-512",
        Gravity::Medium,
        Some(&node.key()),
        format!("{name} is encrypted in sectors of {sector} B on a drive with blocks of {physical} B"),
    )
    .seen(format!("dmsetup table {}", word(name)), given.map_or_else(|| "no sector_size: 512 B".to_owned(), |bytes| format!("sector_size:{bytes}")))
    .seen(sysfs(below, "queue/physical_block_size"), format!("{physical} B"))
    .because("each 4 KiB take eight rounds of key setup instead of one: more work for the processor on every request, which shows on fast drives");
    // Its header may lie elsewhere.
    let told = facts.uuid.as_deref().and_then(|uuid| uuid.strip_prefix("CRYPT-LUKS"));
    let told = told.and_then(|rest| rest.split('-').next()?.parse().ok());
    let (text, command) = (
        "encrypt anew in sectors of 4 KiB; works in use, takes as long as copying the device twice",
        format!("cryptsetup reencrypt --sector-size 4096 {device}"),
    );
    let defect = match (small_units(scene, index), luks.map(|luks| luks.version).or(told)) {
        (Some(what), _) => defect.advise(format!("{what} and could not be mounted from larger ones: copy what is on it to a new filesystem on a mapping with sectors of 4 KiB")),
        (_, Some(1)) => defect
            .command(
                "LUKS1 knows no other sectors: turn the closed container into LUKS2 first",
                format!("cryptsetup convert --type luks2 {device}"),
            )
            .command(text, command),
        (_, None) => defect.advise("without a header of LUKS it cannot be encrypted anew in place: copy what is on it to a mapping with sectors of 4 KiB"),
        _ => defect.command(text, command),
    };
    Some(
        defect
            .risking("make a backup first; what is on it must not need blocks below 4 KiB: an XFS with sectors of 512 B or an ext4 with blocks of 1 KiB can no longer be mounted")
            .verified_by(format!("dmsetup table {} shows sector_size:4096; fathom run randread on {} before and after", word(name), word(node.label()))),
    )
}
