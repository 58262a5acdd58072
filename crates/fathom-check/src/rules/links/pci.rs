//! PCI Express: speed, width, sizes of transfers, errors.

use super::{best, called, now, on_disks, pcie_bytes_per_s, words};
use crate::rules::drives::{hosts_with_disks, is_virtual, rotates};
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_base::units::format_rate;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::Node;
use fathom_model::system::{PciLink, StorageHost};

/// Adapters of real drives: the links that a hypervisor shows mean nothing.
fn adapters<'a>(scene: &Scene<'a>) -> impl Iterator<Item = (&'a StorageHost, Vec<&'a Node>)> {
    hosts_with_disks(scene).filter(|(_, disks)| !disks.iter().all(|disk| is_virtual(disk)))
}

/// Links of an adapter's path with both their ends, the lower one first. Ends that do not agree on what their link runs
/// at are no pair.
fn pairs(host: &StorageHost) -> impl Iterator<Item = (&PciLink, &PciLink)> {
    let pairs = host.link.chunks_exact(2).map(|ends| (&ends[0], &ends[1]));
    pairs.filter(|(lower, upper)| now(lower).is_some() && now(lower) == now(upper))
}

/// What both ends of a link can do.
fn possible(lower: &PciLink, upper: &PciLink) -> Option<(u64, u64)> {
    let (lower, upper) = (best(lower)?, best(upper)?);
    Some((lower.0.min(upper.0), lower.1.min(upper.1)))
}

fn source(end: &PciLink, attributes: &str) -> String {
    format!("/sys/bus/pci/devices/{}/{attributes}", end.address)
}

/// A link that runs below what both its ends can do.
pub(super) fn downgraded(scene: &Scene<'_>) -> Vec<Defect> {
    let mut seen: Vec<&str> = Vec::new();
    let mut found = Vec::new();
    for (host, disks) in adapters(scene) {
        for (lower, upper) in pairs(host) {
            // Links above a switch are on the path of many adapters.
            if !seen.contains(&lower.address.as_str())
                && let Some(defect) = slow_link(host, &disks, lower, upper)
            {
                seen.push(&lower.address);
                found.push(defect);
            }
        }
    }
    found
}

fn slow_link(
    host: &StorageHost,
    disks: &[&Node],
    lower: &PciLink,
    upper: &PciLink,
) -> Option<Defect> {
    let (runs, could) = (now(lower)?, possible(lower, upper)?);
    if runs.0 >= could.0 && runs.1 >= could.1 {
        return None;
    }
    let (rate, rate_best) = (pcie_bytes_per_s(runs.0, runs.1), pcie_bytes_per_s(could.0, could.1));
    let narrow = runs.1 < could.1;
    let lost_half = rate <= rate_best / 2.0;
    let all_rotate = disks.iter().all(|disk| rotates(disk));
    // A few drives that rotate do not need the link; that it came up wrong is still a sign.
    let gravity = if lost_half && !all_rotate { Gravity::High } else { Gravity::Medium };
    let defect = on_disks(
        "pcie-link-downgraded",
        gravity,
        disks,
        format!(
            "the PCI Express link of {} runs at {} instead of {}: {} instead of {}",
            called(host, disks),
            words(runs),
            words(could),
            format_rate(rate),
            format_rate(rate_best)
        ),
    )
    .sure(if narrow { Certainty::Certain } else { Certainty::Likely })
    .seen(source(lower, "current_link_speed, current_link_width"), words(runs))
    .seen(
        source(lower, "max_link_speed, max_link_width"),
        best(lower).map(words).unwrap_or_default(),
    )
    .seen(
        source(upper, "max_link_speed, max_link_width"),
        best(upper).map(words).unwrap_or_default(),
    );
    Some(
        defect
            .because(if narrow {
                "lanes are lost for good until the link is trained anew: nothing behind it can be faster"
            } else {
                "both ends can do more; some devices lower the speed while they are idle, so look again under load before opening the machine"
            })
            .command("look while it is under load", format!("lspci -vv -s {} | grep LnkSta:", word(&lower.address)))
            .advise("if it stays: reseat the drive or card, try another slot, cable or riser")
            .advise("firmware settings: slot speed, bifurcation, power saving of the slot (ASPM)")
            .risking("none for the settings; hardware is touched with the machine off, or in a hot-swap bay")
            .verified_by("the same lspci line shows no 'downgraded'; fathom run seqread DIR before and after"),
    )
}

/// A drive with more lanes, or much faster ones, than its slot.
pub(super) fn slot_narrow(scene: &Scene<'_>) -> Vec<Defect> {
    let found = adapters(scene).filter_map(|(host, disks)| {
        if host.driver.as_deref() != Some("nvme") {
            return None;
        }
        let (lower, upper) = pairs(host).next().filter(|(lower, _)| lower.address == host.link[0].address)?;
        let (runs, drive, slot) = (now(lower)?, best(lower)?, best(upper)?);
        // Whatever is downgraded on top of that is another matter.
        let is_best = possible(lower, upper) == Some(runs);
        let loss = pcie_bytes_per_s(drive.0, drive.1) / pcie_bytes_per_s(runs.0, runs.1);
        if !is_best || !(slot.1 < drive.1 || loss >= 3.5) {
            return None;
        }
        Some(
            on_disks(
                "pcie-slot-narrow",
                Gravity::Low,
                &disks,
                format!("{} could use {}, but its slot gives {}", called(host, &disks), words(drive), words(runs)),
            )
            .seen(source(lower, "max_link_speed, max_link_width"), words(drive))
            .seen(source(upper, "max_link_speed, max_link_width"), words(slot))
            .because("sequential rates end at the slot's; random reads rarely notice")
            .advise("put it into a slot with more lanes, or change the slot's bifurcation in the firmware")
            .risking("none; the machine is off meanwhile")
            .verified_by("fathom run seqread DIR before and after"),
        )
    });
    found.collect()
}

/// What PCI Express devices start with (PCI Express base specification, device control register).
const READ_REQUEST_USUAL_BYTES: u64 = 512;

/// Read requests smaller than devices start with, or ends of a link that do not agree on the largest payload.
pub(super) fn transfer_size(scene: &Scene<'_>) -> Vec<Defect> {
    let found = adapters(scene).filter_map(|(host, disks)| {
        let end = host.link.first()?;
        let request = end.max_read_request_bytes.filter(|&bytes| bytes < READ_REQUEST_USUAL_BYTES);
        let upper = pairs(host).next().map(|(_, upper)| upper);
        let unequal = end.max_payload_bytes.zip(upper.and_then(|upper| upper.max_payload_bytes));
        let unequal = unequal.filter(|(lower, upper)| lower != upper);
        let mut said = Vec::new();
        said.extend(request.map(|bytes| format!("asks for memory in pieces of {bytes} bytes")));
        said.extend(unequal.map(|(lower, upper)| {
            format!("takes payloads of {lower} bytes where the port above has {upper}")
        }));
        if said.is_empty() {
            return None;
        }
        let mut defect = on_disks(
            "pcie-transfer-size",
            Gravity::Low,
            &disks,
            format!("{} {}", called(host, &disks), said.join(" and ")),
        )
        .sure(Certainty::Possible);
        if let Some(bytes) = request {
            defect = defect.seen(format!("lspci -vv -s {}: DevCtl, MaxReadReq", end.address), format!("{bytes} bytes"));
        }
        if let Some((lower, upper_bytes)) = unequal {
            defect = defect
                .seen(format!("lspci -vv -s {}: DevCtl, MaxPayload", end.address), format!("{lower} bytes"))
                .seen("the same of the port above", format!("{upper_bytes} bytes"));
        }
        Some(
            defect
                .because("small pieces spend more of the link on headers: some percent of a fast drive's rate; ends that do not agree can even lose packets")
                .advise("look for a setting of the firmware (PCIe Max Read Request, Max Payload)")
                .advise("or let the kernel choose: pci=pcie_bus_perf on its command line")
                .risking("pci=pcie_bus_perf has made devices fail on some machines: try it where you can reach the console")
                .verified_by("fathom run seqread DIR before and after"),
        )
    });
    found.collect()
}

/// Corrected errors, those that were survived, and fatal ones.
type Errors = (u64, u64, u64);

/// What both ends of an adapter's own link have counted, by their addresses: each sees what arrives at it.
fn counted(host: &StorageHost) -> Vec<(&str, Errors)> {
    let own = host.pci_address.as_deref().zip(host.aer_errors);
    let is_own = |end: &&PciLink| Some(end.address.as_str()) == host.pci_address.as_deref();
    let port = host.link.first().filter(is_own).and_then(|_| host.link.get(1));
    let port = port.and_then(|port| Some((port.address.as_str(), port.aer_errors?)));
    own.into_iter().chain(port).collect()
}

/// All of them, and how grave that is: single corrected errors are what correction is for.
fn weighed(ends: &[(&str, Errors)]) -> Option<(Errors, Gravity)> {
    const CORRECTED_SOME: u64 = 100;
    const CORRECTED_MANY: u64 = 10_000;
    let sum = |of: fn(&Errors) -> u64| {
        ends.iter().map(|(_, errors)| of(errors)).fold(0, u64::saturating_add)
    };
    let (corrected, survived, fatal) = (sum(|e| e.0), sum(|e| e.1), sum(|e| e.2));
    let gravity = match (corrected, survived, fatal) {
        (_, 0, 0) if corrected < CORRECTED_SOME => return None,
        (_, 0, 0) if corrected < CORRECTED_MANY => Gravity::Low,
        (_, 0, 0) => Gravity::Medium,
        _ => Gravity::High,
    };
    Some(((corrected, survived, fatal), gravity))
}

/// The port above an adapter, where its errors are told with those of the adapter.
pub(in crate::rules) fn port_told(host: &StorageHost) -> Option<&str> {
    let ends = counted(host);
    weighed(&ends)?;
    let mut ports = ends.into_iter().map(|(address, _)| address);
    ports.find(|address| Some(*address) != host.pci_address.as_deref())
}

/// Errors that ends of links have counted.
pub(super) fn errors(scene: &Scene<'_>) -> Vec<Defect> {
    let mut told: Vec<&str> = Vec::new();
    let found = adapters(scene).filter_map(|(host, disks)| {
        // Functions of one card share the port above it.
        let mut ends = counted(host);
        ends.retain(|(address, _)| !told.contains(address));
        let ((corrected, survived, fatal), gravity) = weighed(&ends)?;
        told.extend(ends.iter().map(|(address, _)| *address));
        let mut defect = on_disks(
            "pcie-errors",
            gravity,
            &disks,
            format!("the PCI Express link of {} has had {corrected} corrected errors, {survived} uncorrected and {fatal} fatal ones since boot", called(host, &disks)),
        );
        let mut files = Vec::new();
        for (address, (corrected, survived, fatal)) in &ends {
            let directory = format!("/sys/bus/pci/devices/{address}");
            defect = defect
                .seen(format!("{directory}/aer_dev_correctable"), corrected.to_string())
                .seen(format!("{directory}/aer_dev_nonfatal"), survived.to_string())
                .seen(format!("{directory}/aer_dev_fatal"), fatal.to_string());
            files.push(format!("{}/aer_dev_*", word(&directory)));
        }
        Some(
            defect
                .because("each error makes the link send again or start anew; many of them come from bad contact and precede a link that drops speed, lanes or the drive")
                .command("see which kind they are, and whether they grow", format!("head -20 {}", files.join(" ")))
                .advise("reseat the drive or card, change cable or riser, then the slot; see the maker's errata about ASPM")
                .risking("none; with the machine off, or in a hot-swap bay")
                .verified_by("the counts stand still under load: fathom run seqread DIR duration=10m"),
        )
    });
    found.collect()
}
