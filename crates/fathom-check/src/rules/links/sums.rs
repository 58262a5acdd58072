//! What drives want together from something that they share.

use super::ports::gbit_x10;
use super::{called, now, on_disks, pcie_bytes_per_s};
use crate::rules::drives::{arrays_above, hosts_with_disks, is_flash, rotates, transport};
use crate::rules::shared::{list, sysfs};
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_base::units::format_rate;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::Node;
use fathom_model::system::StorageHost;
use std::collections::{BTreeMap, BTreeSet};

/// What a drive that rotates is taken for when it was not measured: the outer tracks of those of 2010 to 2020.
const ROTATING_BYTES_PER_S: f64 = 200e6;
/// Share of a SATA or SAS link that is left for data after 8b/10b coding and frames.
const LINK_DATA_SHARE: f64 = 0.75;
/// Drives that together want so much of a link that they share are worth a word.
const FULL: f64 = 1.1;
/// ... and so much more is grave when one array asks all of them at once.
const FAR_TOO_FULL: f64 = 2.0;

/// What a drive can read: measured, else what its link carries, less where it rotates; none where nothing is known.
fn rate(scene: &Scene<'_>, host: &StorageHost, node: &Node) -> Option<(f64, &'static str)> {
    let measured = scene.measured(&node.key(), "seqread").and_then(|run| run.read_bytes_per_s);
    if let Some(rate) = measured {
        return Some((rate, "measured"));
    }
    if rotates(node) {
        return Some((ROTATING_BYTES_PER_S, "assumed"));
    }
    match transport(node) {
        _ if !is_flash(node) => None,
        "nvme" => {
            let (speed, lanes) = now(host.link.first()?)?;
            Some((pcie_bytes_per_s(speed, lanes), "by its link"))
        }
        "sata" | "sas" => {
            let of_sas = || Some(node.details().sas_rates.first()?.0.as_str());
            let text = node.drive.as_ref()?.link_speed.as_deref().or_else(of_sas)?;
            let bits_per_s = gbit_x10(text)? as f64 * 1e8;
            Some((bits_per_s / 8.0 * LINK_DATA_SHARE, "by its link"))
        }
        _ => None,
    }
}

/// A PCI function that several drives are reached through.
struct Shared<'a> {
    address: &'a str,
    bytes_per_s: f64,
    drives: Vec<(&'a StorageHost, &'a Node)>,
}

/// Links that several drives share, for each set of drives the slowest.
fn shared_links<'a>(scene: &Scene<'a>) -> Vec<Shared<'a>> {
    let mut by_address: BTreeMap<&str, Shared<'a>> = BTreeMap::new();
    for (host, disks) in hosts_with_disks(scene) {
        for end in &host.link {
            let Some((speed, lanes)) = now(end) else { continue };
            let bytes_per_s = pcie_bytes_per_s(speed, lanes);
            let shared = by_address.entry(&end.address);
            let shared =
                shared.or_insert(Shared { address: &end.address, bytes_per_s, drives: Vec::new() });
            // The namespaces of an NVMe controller are as fast together as one.
            let is_nvme = disks.first().is_some_and(|disk| transport(disk) == "nvme");
            let drives = if is_nvme { &disks[..1] } else { &disks[..] };
            shared.drives.extend(drives.iter().map(|disk| (host, *disk)));
        }
    }
    let mut slowest: BTreeMap<Vec<String>, Shared<'a>> = BTreeMap::new();
    for shared in by_address.into_values().filter(|shared| shared.drives.len() > 1) {
        let keys = shared.drives.iter().map(|(_, node)| node.key()).collect();
        let slower = slowest.get(&keys).is_none_or(|known| shared.bytes_per_s < known.bytes_per_s);
        if slower {
            slowest.insert(keys, shared);
        }
    }
    slowest.into_values().collect()
}

/// True when all these drives belong to one array.
fn in_one_array(scene: &Scene<'_>, drives: &[(&StorageHost, &Node)]) -> bool {
    let mut common: Option<BTreeSet<usize>> = None;
    for (_, node) in drives {
        let index = scene.by_key(&node.key());
        let arrays: BTreeSet<usize> = index
            .map(|index| arrays_above(scene, index).into_iter().map(|(array, _)| array).collect())
            .unwrap_or_default();
        common = Some(match common {
            Some(known) => known.intersection(&arrays).copied().collect(),
            None => arrays,
        });
    }
    common.is_some_and(|common| !common.is_empty())
}

/// Drives that together can read more than the link to them carries.
pub(super) fn link(scene: &Scene<'_>) -> Vec<Defect> {
    shared_links(scene).into_iter().filter_map(|shared| overfull(scene, &shared)).collect()
}

fn overfull(scene: &Scene<'_>, shared: &Shared<'_>) -> Option<Defect> {
    let rates: Vec<(f64, &str)> =
        shared.drives.iter().filter_map(|(host, node)| rate(scene, host, node)).collect();
    let wanted: f64 = rates.iter().map(|(rate, _)| rate).sum();
    let ratio = wanted / shared.bytes_per_s;
    if rates.len() < 2 || ratio < FULL {
        return None;
    }
    let grave = ratio >= FAR_TOO_FULL && in_one_array(scene, &shared.drives);
    let all_measured = rates.iter().all(|(_, how)| *how == "measured");
    let disks: Vec<&Node> = shared.drives.iter().map(|(_, node)| *node).collect();
    let mut defect = on_disks(
        "link-oversubscribed",
        if grave { Gravity::Medium } else { Gravity::Low },
        &disks,
        format!(
            "{} drives can read {} together, the PCI Express link that they share carries {}",
            disks.len(),
            format_rate(wanted),
            format_rate(shared.bytes_per_s)
        ),
    )
    .sure(if all_measured { Certainty::Certain } else { Certainty::Likely })
    .seen(
        format!("/sys/bus/pci/devices/{}/current_link_speed, current_link_width", shared.address),
        format_rate(shared.bytes_per_s),
    );
    for (host, node) in &shared.drives {
        if let Some((rate, how)) = rate(scene, host, node) {
            defect = defect.seen(
                format!("{} on {}", node.name, host.name),
                format!("{} ({how})", format_rate(rate)),
            );
        }
    }
    Some(
        defect
            .because("work on all of them at once, such as a rebuild, a check or a sequential read of an array, ends at the link; random I/O of small blocks does not come near it")
            .advise("spread the drives over several adapters or slots, or take a slot with more lanes; for random I/O nothing is to be done")
            .risking("drives can change their names when they move: mount by UUID first")
            .verified_by(format!("fathom run seqread on {} at the same time: the sum", list(disks.iter().map(|disk| disk.label())))),
    )
}

/// Drives that together may have more commands than their adapter takes.
pub(super) fn queue(scene: &Scene<'_>) -> Vec<Defect> {
    let found = hosts_with_disks(scene).filter_map(|(host, disks)| {
        let room = host.can_queue.filter(|&room| room > 0)?;
        let depths: Vec<(&Node, u64)> =
            disks.iter().filter_map(|disk| Some((*disk, disk.drive.as_ref()?.queue_depth?))).collect();
        let sum = depths.iter().map(|(_, depth)| *depth).fold(0, u64::saturating_add);
        if depths.len() < 2 || sum <= room {
            return None;
        }
        let fair = (room / depths.len() as u64).max(1);
        let mut defect = on_disks(
            "host-queue-short",
            Gravity::Low,
            &disks,
            format!("{} drives on {} may have {sum} commands in flight, the adapter takes {room}", depths.len(), called(host, &disks)),
        )
        .sure(Certainty::Possible)
        .seen(format!("/sys/class/scsi_host/{}/can_queue", host.name), room.to_string());
        for (node, depth) in &depths {
            defect = defect.seen(sysfs(node, "device/queue_depth"), depth.to_string());
        }
        defect = defect.because("under a deep load the drives that ask most take the whole queue of the adapter, and the others wait: members of an array become unequally fast");
        for (node, _) in &depths {
            defect = defect.command(
                format!("share it equally: {fair} each"),
                format!("echo {fair} > {}", word(sysfs(node, "device/queue_depth"))),
            );
        }
        Some(
            defect
                .risking("a single busy drive can then have fewer commands in flight: measure both loads")
                .verified_by("fathom run randread on all of them at once, depth=64, before and after: the slowest drive"),
        )
    });
    found.collect()
}
