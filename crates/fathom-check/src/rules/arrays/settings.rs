//! How an array is set up.

use super::{arrays, is_level, is_redundant, md_detail, md_file};
use crate::rules::shared::{holder_of_members, is_of_firmware};
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_base::units::{format_count, format_size};
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::{MdFacts, MdMember, Node};

/// From this size on mdadm itself advises a bitmap: it asks for one at creation.
const LARGE_BYTES: u64 = 100_000_000_000;

/// The smallest chunk that mdadm chooses for an internal bitmap.
const BITMAP_CHUNK_BYTES: u64 = 64 << 20;

/// Bytes of one stripe's page on each member in the stripe cache.
const STRIPE_BYTES: u64 = 4096;

/// Rows of chunks that the stripe cache has to hold: the default of 256 pages holds two of the default chunk.
const ENOUGH_ROWS: u64 = 2;

/// CPUs from which on one thread for all parity is few.
const MANY_CPUS: u64 = 4;

/// When a bitmap can be changed: while members are missing it says what they lack, and while the array is at work the kernel refuses.
fn can_change_bitmap(md: &MdFacts) -> Option<&'static str> {
    let is_idle = matches!(md.sync_action.as_deref(), None | Some("idle"));
    let is_whole = md.degraded.unwrap_or(0) == 0;
    is_whole.then_some(if is_idle { "" } else { "when it has ended what it does now: " })
}

/// Every crash makes the whole array synchronise.
pub(super) fn no_bitmap(scene: &Scene<'_>) -> Vec<Defect> {
    let all = arrays(scene).filter(|(_, _, md)| {
        is_redundant(md) && md.consistency_policy.as_deref() == Some("resync")
    });
    all.filter_map(|(_, node, md)| {
        let size = node.size_bytes.filter(|&bytes| bytes > LARGE_BYTES)?;
        let when = can_change_bitmap(md)?;
        let defect = Defect::new(
            "md-no-bitmap",
            Gravity::Medium,
            Some(&node.key()),
            format!("{} of {} has no write-intent bitmap", node.name, format_size(size)),
        )
        .seen(md_file(node, "consistency_policy"), "resync")
        .because(
            "after a crash all of it has to be read, and a member that was away for a \
            minute is copied in full: hours with less speed and less safety",
        );
        let defect = if is_of_firmware(node) {
            defect.advise(
                "the metadata of a firmware's RAID have no place for one (DDF), or only as new versions of mdadm make it (IMSM, \
                 mdadm(8)); an array of md itself, made anew, can have one",
            )
        } else {
            defect.command(
                format!("{when}add one, while the array is in use"),
                format!("mdadm --grow --bitmap=internal {}", word(node.label())),
            )
        };
        Some(
            defect.risking(
                "writes to places that were at rest wait for the bitmap first; with chunks \
                of 64 MiB or more that is rare",
            )
            .verified_by(format!(
                "mdadm --detail {} says: Consistency Policy : bitmap; fathom run randwrite \
                on a file of the array before and after",
                word(node.label())
            )),
        )
    })
    .collect()
}

/// Writes wait for the bitmap more often than need be.
pub(super) fn bitmap_chunk(scene: &Scene<'_>) -> Vec<Defect> {
    let internal = |md: &MdFacts| {
        md.bitmap_location.as_deref().is_some_and(|place| place.starts_with(['+', '-']))
    };
    let all = arrays(scene).filter(|(_, _, md)| internal(md));
    all.filter_map(|(index, node, md)| {
        let chunk =
            md.bitmap_chunk_bytes.filter(|&bytes| bytes > 0 && bytes < BITMAP_CHUNK_BYTES)?;
        let when = can_change_bitmap(md)?;
        let gravity =
            if scene.rotates(index) == Some(false) { Gravity::Low } else { Gravity::Medium };
        let array = word(node.label());
        Some(
            Defect::new(
                "md-bitmap-chunk",
                gravity,
                Some(&node.key()),
                format!(
                    "each bit of the bitmap of {} stands for only {}",
                    node.name,
                    format_size(chunk)
                ),
            )
            .seen(md_file(node, "bitmap/chunksize"), format!("{chunk} B"))
            .seen(md_file(node, "bitmap/location"), md.bitmap_location.clone().unwrap_or_default())
            .because(
                "the first write to each such piece waits until its bit is on all members: \
                scattered writes then become two, with a flush and a seek between them",
            )
            .command(
                format!("{when}remove the bitmap"),
                format!("mdadm --grow --bitmap=none {array}"),
            )
            .command(
                "and add one with larger pieces",
                format!("mdadm --grow --bitmap=internal --bitmap-chunk=128M {array}"),
            )
            .risking(
                "between the two commands a crash leads to a full resync; with larger \
                pieces a resync after a crash copies somewhat more",
            )
            .verified_by("fathom run randwrite on a file of the array before and after"),
        )
    })
    .collect()
}

/// A cache so small that whole stripes are rarely together when they are written.
pub(super) fn stripe_cache(scene: &Scene<'_>) -> Vec<Defect> {
    let all = arrays(scene).filter(|(_, _, md)| is_level(md, &["raid4", "raid5", "raid6"]));
    all.filter_map(|(_, node, md)| {
        let (stripes, chunk) =
            (md.stripe_cache_stripes?, md.chunk_bytes.filter(|&bytes| bytes > 0)?);
        let stripe = md_detail(node, "stripe_size")
            .and_then(|text| text.parse().ok())
            .filter(|&bytes| bytes > 0)
            .unwrap_or(STRIPE_BYTES);
        let rows = stripes.saturating_mul(stripe) / chunk;
        if rows >= ENOUGH_ROWS {
            return None;
        }
        let wanted = (chunk.saturating_mul(16) / stripe).min(32768).max(stripes);
        let members = md.raid_disks.unwrap_or(1);
        let file = md_file(node, "stripe_cache_size");
        Some(
            Defect::new(
                "md-stripe-cache",
                Gravity::Low,
                Some(&node.key()),
                format!(
                    "the stripe cache of {} holds {stripes} pages of each member: {} of \
                    its {} chunks",
                    node.name,
                    if rows == 0 { "less than one row" } else { "one row" },
                    format_size(chunk)
                ),
            )
            .sure(Certainty::Likely)
            .seen(file.clone(), format!("{} stripes", format_count(stripes)))
            .seen(md_file(node, "chunk_size"), format!("{chunk} B"))
            .because(
                "parity is cheap only for stripes that are complete when they are written; \
                where several streams write, they push each other out before that, and old \
                data and parity are read instead",
            )
            .command(
                format!(
                    "sixteen rows, for {} of memory",
                    format_size(wanted.saturating_mul(stripe).saturating_mul(members))
                ),
                format!("echo {wanted} > {}", word(&file)),
            )
            .advise(
                "it is gone after a reboot: a udev rule keeps it (SUBSYSTEM==\"block\", \
                KERNEL==\"md*\", ATTR{md/stripe_cache_size}=...)",
            )
            .risking("the memory is no longer there for others")
            .verified_by(format!(
                "fathom run seqwrite on a file of {} before and after",
                word(node.label())
            )),
        )
    })
    .collect()
}

/// Fast drives, and one kernel thread that computes all their parity.
pub(super) fn group_threads(scene: &Scene<'_>) -> Vec<Defect> {
    let all = arrays(scene).filter(|(_, _, md)| {
        is_level(md, &["raid4", "raid5", "raid6"]) && md.group_threads == Some(0)
    });
    all.filter_map(|(index, node, _)| {
        let cpus = scene.snapshot.system.cpus_online.filter(|&cpus| cpus >= MANY_CPUS)?;
        let disks = scene.machine().disks_under(index);
        let is_nvme = |disk: &Node| {
            disk.drive.as_ref().is_some_and(|drive| drive.transport.as_deref() == Some("nvme"))
        };
        if scene.rotates(index) != Some(false) {
            return None;
        }
        let nvme = disks.iter().all(|&disk| is_nvme(scene.node(disk)));
        let gravity = if nvme { Gravity::Medium } else { Gravity::Low };
        let file = md_file(node, "group_thread_cnt");
        let threads = (cpus / 4).clamp(2, 8);
        Some(
            Defect::new(
                "md-group-threads",
                gravity,
                Some(&node.key()),
                format!(
                    "one kernel thread does all the parity work of \
                    {} on {} drives that do not rotate",
                    node.name,
                    disks.len()
                ),
            )
            .sure(Certainty::Likely)
            .seen(file.clone(), "0")
            .because(format!(
                "this thread runs on one of {cpus} CPUs and \
                is full before the drives are"
            ))
            .command("let others help it", format!("echo {threads} > {}", word(&file)))
            .advise(
                "it is gone after a reboot: a udev rule keeps it \
                (ATTR{md/group_thread_cnt}=...)",
            )
            .risking(
                "I/O stops for a moment while the array is set up \
                anew; CPU time goes to the threads",
            )
            .verified_by(format!(
                "fathom run randwrite on a file of {} before and after",
                word(node.label())
            )),
        )
    })
    .collect()
}

fn add_spare(node: &Node) -> String {
    // What a container is given is a spare for all its arrays.
    let how = if is_of_firmware(node) { "--add" } else { "--add-spare" };
    format!("mdadm {} {how} /dev/NEW", holder_of_members(node))
}

/// Many members, one loss allowed, and nothing to rebuild on.
pub(super) fn no_spare(scene: &Scene<'_>) -> Vec<Defect> {
    let many = |md: &MdFacts| {
        let members = md.raid_disks.unwrap_or(0);
        (is_level(md, &["raid4", "raid5"]) && members >= 5)
            || (is_level(md, &["raid10"]) && members >= 8)
    };
    let is_spare =
        |member: &MdMember| member.state.as_deref().is_some_and(|state| state.contains("spare"));
    // A spare of another array may come over, when mdadm watches and both are in one spare group.
    if arrays(scene).any(|(_, _, md)| md.members.iter().any(is_spare)) {
        return Vec::new();
    }
    let all = arrays(scene).filter(|(_, _, md)| many(md) && md.degraded == Some(0));
    all.map(|(_, node, md)| {
        let members = md.raid_disks.unwrap_or(0);
        Defect::new(
            "md-no-spare",
            Gravity::Low,
            Some(&node.key()),
            format!("{} has {members} members and no spare", node.name),
        )
        .seen(md_file(node, "raid_disks"), members.to_string())
        .because(
            "after a failure it stays degraded until somebody comes; with so many \
                members the next failure is not far",
        )
        .command("add a spare", add_spare(node))
        .risking("/dev/NEW is overwritten")
        .verified_by(format!("mdadm --detail {} shows a spare", word(node.label())))
    })
    .collect()
}
