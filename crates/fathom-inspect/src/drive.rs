//! What a drive says of itself, and the link to it: SCSI, SATA, SAS, NVMe, virtio, MMC, from sysfs
//! alone.

use crate::udev;
use fathom_model::stack::DriveFacts;
use fathom_sys::sysfs_block::{self, BlockDir};
use fathom_sys::sysroot::SysRoot;
use std::cell::LazyCell;
use std::path::{Path, PathBuf};

/// Everything known of the drive behind a whole disk, an NVMe path or an NVMe multipath head.
#[must_use]
pub fn drive_facts(root: &SysRoot, disk: &BlockDir) -> DriveFacts {
    let device = disk.below("device");
    // The kernel prints so what a driver does not know.
    let text = |name: &str| match name.strip_prefix("device/") {
        Some(name) => device.as_ref()?.text(name),
        None => disk.text(name),
    };
    let said = |name: &&str| text(name).filter(|text| text != "(null)");
    let first = |names: &[&str]| names.iter().find_map(said).map(squeezed);
    let record = LazyCell::new(|| udev::record(root, disk));
    let udev = |key: &str| udev::value(record.as_deref()?, key);
    let mut facts = DriveFacts {
        vendor: first(&["device/vendor"]).filter(|vendor| !vendor.starts_with("0x")),
        model: first(&["device/model", "device/name"]),
        serial: first(&["device/serial", "serial"])
            .or_else(|| vpd_serial(device.as_ref()?))
            .or_else(|| udev("ID_SERIAL_SHORT")),
        firmware: first(&["device/firmware_rev", "device/fwrev"])
            .or_else(|| udev("ID_REVISION"))
            .or_else(|| first(&["device/rev"])),
        wwn: first(&["wwid", "device/wwid"]).or_else(|| udev("ID_WWN")),
        transport: transport(root, disk),
        queue_depth: device.as_ref().and_then(|device| device.value("queue_depth")),
        cache_type: scsi_cache_type(disk),
        state: state(first(&["ana_state"]), first(&["device/state"])),
        io_policy: first(&["device/iopolicy"]),
        ..DriveFacts::default()
    };
    add_link(root, disk, &mut facts);
    facts
}

/// The state of a path of NVMe is that of its controller, and where this is live, what the namespace says of access by it:
/// the last word on access stays when the connection breaks.
fn state(access: Option<String>, device: Option<String>) -> Option<String> {
    match (access, device) {
        (Some(access), Some(device)) if device == "live" => Some(access),
        (access, device) => device.or(access),
    }
}

/// Vendors pad with blanks.
fn squeezed(text: String) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Serial number from SCSI vital product data, page 0x80: four bytes of header, then text.
fn vpd_serial(device: &BlockDir) -> Option<String> {
    let page = device.has("vpd_pg80").then(|| device.bytes("vpd_pg80"))??;
    let text = String::from_utf8_lossy(page.get(4..)?).trim_matches(['\0', ' ', '\n']).to_owned();
    (!text.is_empty()).then_some(text)
}

fn scsi_cache_type(disk: &BlockDir) -> Option<String> {
    let address = disk.names("device/scsi_disk").into_iter().next()?;
    disk.text(Path::new("device/scsi_disk").join(address).join("cache_type"))
}

fn transport(root: &SysRoot, disk: &BlockDir) -> Option<String> {
    let word = match disk.bus()?.as_str() {
        "scsi" => scsi_transport(disk),
        "nvme" => match disk.text("device/transport").as_deref() {
            Some("pcie") | None => "nvme".to_owned(),
            Some(fabric) => format!("nvme-{fabric}"),
        },
        "nvme-subsystem" => "nvme".to_owned(),
        "nd" => "pmem".to_owned(),
        other => other.to_owned(),
    };
    let ata = word == "sas" && root_vendor_is_ata(root, disk);
    Some(if ata { "sata".to_owned() } else { word })
}

/// A SATA drive behind a SAS controller.
fn root_vendor_is_ata(root: &SysRoot, disk: &BlockDir) -> bool {
    root.text(disk.dir().join("device/vendor")).as_deref() == Some("ATA")
}

/// How a SCSI disk is attached, from the names of the buses above it.
fn scsi_transport(disk: &BlockDir) -> String {
    let numbered = |part: &str, prefix: &str| {
        part.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let kinds = [
        ("ata", "sata"),
        ("usb", "usb"),
        ("session", "iscsi"),
        ("rport-", "fc"),
        ("end_device-", "sas"),
        ("virtio", "virtio-scsi"),
        ("adapter", "scsi_debug"),
    ];
    let dir = disk.dir().to_string_lossy().into_owned();
    let mut parts = dir.split('/').rev();
    let found = parts.find_map(|part| kinds.iter().find(|(prefix, _)| numbered(part, prefix)));
    found.map_or("scsi", |(_, transport)| transport).to_owned()
}

/// Link speeds, where the transport has one of its own; for NVMe that is the PCIe link.
fn add_link(root: &SysRoot, disk: &BlockDir, facts: &mut DriveFacts) {
    let pci = disk.pci_dir();
    facts.controller = pci.as_ref().and_then(|dir| {
        let address = dir.file_name()?.to_str()?;
        let driver = sysfs_block::driver(root, dir)?;
        Some(format!("{driver} {address}"))
    });
    match facts.transport.as_deref() {
        Some("nvme") => {
            let Some(pci) = pci else { return };
            facts.link_speed = root.text(pci.join("current_link_speed"));
            facts.link_speed_max = root.text(pci.join("max_link_speed"));
            facts.link_width = root.value(pci.join("current_link_width"));
            facts.link_width_max = root.value(pci.join("max_link_width"));
        }
        Some("sata") => sata_link(root, disk, facts),
        Some("usb") => {
            let speed = usb_device(disk).and_then(|dir| root.text(dir.join("speed")));
            facts.link_speed = speed.map(|megabits| format!("{megabits} Mbit/s"));
        }
        _ => {}
    }
    if matches!(facts.transport.as_deref(), Some("sas" | "sata")) && facts.link_speed.is_none() {
        sas_link(root, disk, facts);
    }
}

/// The directory of the USB device that a disk is.
pub(crate) fn usb_device(disk: &BlockDir) -> Option<PathBuf> {
    let usb = disk.ancestor(|root, dir| root.exists(dir.join("bMaxPower")));
    usb.or_else(|| disk.ancestor(|root, dir| root.exists(dir.join("speed"))))
}

fn sata_link(root: &SysRoot, disk: &BlockDir, facts: &mut DriveFacts) {
    let port = disk.ancestor(|_, dir| numbered_name(dir, "ata").is_some());
    let Some((port, number)) =
        port.and_then(|dir| Some((dir.clone(), numbered_name(&dir, "ata")?)))
    else {
        return;
    };
    let link = port.join(format!("link{number}/ata_link/link{number}"));
    let speed = |name: &str| root.text(link.join(name)).filter(|text| text.contains("Gbps"));
    facts.link_speed = speed("sata_spd");
    facts.link_speed_max = speed("hw_sata_spd_limit");
}

pub(crate) fn numbered_name(dir: &Path, prefix: &str) -> Option<u32> {
    dir.file_name()?.to_str()?.strip_prefix(prefix)?.parse().ok()
}

/// The first phy of the SAS port that the end device hangs on.
fn sas_link(root: &SysRoot, disk: &BlockDir, facts: &mut DriveFacts) {
    let Some(phy) = sas_phys(root, disk).into_iter().next() else { return };
    facts.link_speed = root.text(phy.join("negotiated_linkrate"));
    facts.link_speed_max = root.text(phy.join("maximum_linkrate"));
}

/// The directories of the phys of the SAS port that the end device hangs on.
pub(crate) fn sas_phys(root: &SysRoot, disk: &BlockDir) -> Vec<PathBuf> {
    let is_port = |_: &SysRoot, dir: &Path| {
        dir.file_name().is_some_and(|name| name.to_string_lossy().starts_with("port-"))
    };
    let Some(port) = disk.ancestor(is_port) else { return Vec::new() };
    let phys = root.names(&port).into_iter().filter(|name| name.starts_with("phy-"));
    phys.map(|phy| port.join(&phy).join("sas_phy").join(&phy)).collect()
}
