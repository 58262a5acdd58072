//! Links between drives, adapters and processors: PCI Express, SATA, SAS, USB.

mod pci;
mod ports;
mod power;
mod sums;
#[cfg(test)]
mod tests;

pub(super) use pci::port_told;

use crate::rule;
use crate::rule::Rule;
use fathom_model::defect::{Defect, Gravity};
use fathom_model::stack::Node;
use fathom_model::system::{PciLink, StorageHost};

/// The rules of this group.
pub const RULES: &[Rule] = &[
    rule!(
        "pcie-link-downgraded",
        "a PCI Express link below what both ends can do",
        High,
        Simulated,
        pci::downgraded
    ),
    rule!(
        "pcie-slot-narrow",
        "a drive in a slot that is too small for it",
        Low,
        Simulated,
        pci::slot_narrow
    ),
    rule!(
        "pcie-transfer-size",
        "small or unequal PCI Express transfer sizes",
        Low,
        Guest,
        pci::transfer_size
    ),
    rule!("pcie-errors", "errors on a PCI Express link", High, Guest, pci::errors),
    rule!("sata-link-slow", "a SATA link below its speed", High, Guest, ports::sata_slow),
    rule!("sas-link-slow", "a SAS link below its speed", High, Simulated, ports::sas_slow),
    rule!("usb2-disk", "a disk behind USB 2", Medium, Guest, ports::usb2),
    rule!("sata-power-saving", "SATA links sleep between requests", Medium, Guest, power::sata),
    rule!("nvme-power-saving", "an NVMe drive sleeps between requests", Low, Guest, power::nvme),
    rule!(
        "link-oversubscribed",
        "drives together exceed the link that they share",
        Medium,
        Guest,
        sums::link
    ),
    rule!(
        "host-queue-short",
        "drives together exceed the queue of their adapter",
        Low,
        Guest,
        sums::queue
    ),
];

/// Bytes per second of user data that a PCI Express link carries in one direction at most: 8b/10b coding up to 5 GT/s,
/// 128b/130b above (PCI Express base specification), before headers of packets.
fn pcie_bytes_per_s(speed_gts_x10: u64, lanes: u64) -> f64 {
    let coding = if speed_gts_x10 <= 50 { 0.8 } else { 128.0 / 130.0 };
    speed_gts_x10 as f64 * 1e8 * coding / 8.0 * lanes as f64
}

/// What an end of a link runs at now.
fn now(end: &PciLink) -> Option<(u64, u64)> {
    Some((end.speed_gts_x10?, end.width?))
}

/// What an end of a link could do at best.
fn best(end: &PciLink) -> Option<(u64, u64)> {
    Some((end.speed_max_gts_x10?, end.width_max?))
}

/// `8.0 GT/s x4`.
fn words((speed_gts_x10, lanes): (u64, u64)) -> String {
    format!("{}.{} GT/s x{lanes}", speed_gts_x10 / 10, speed_gts_x10 % 10)
}

/// A defect of an adapter: it stands on the first of its disks, and the others take part.
fn on_disks(rule: &str, gravity: Gravity, disks: &[&Node], summary: String) -> Defect {
    let first = disks.first().map(|node| node.key());
    let defect = Defect::new(rule, gravity, first.as_deref(), summary);
    disks.iter().skip(1).fold(defect, |defect, node| defect.concerning(node.key()))
}

/// An adapter as people know it: by its drive when it has one only, as NVMe drives and SATA ports do, else by its own name;
/// and its model.
fn called(host: &StorageHost, disks: &[&Node]) -> String {
    let model = host.model.as_deref().or(host.driver.as_deref()).unwrap_or("adapter");
    match disks {
        [disk] => format!("{} ({model})", disk.name),
        _ => format!("{} ({model})", host.name),
    }
}
