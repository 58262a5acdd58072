//! Hardware RAID: what controllers hide, and what the tools of their makers say.

mod drives;
mod geometry;
mod power;
#[cfg(test)]
mod tests;

use crate::rule;
use crate::rule::Rule;
use crate::scene::Scene;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::{Node, NodeKind};
use fathom_model::system::StorageHost;
use fathom_model::vendor::{Controller, VirtualDrive};

/// The rules of this group.
pub const RULES: &[Rule] = &[
    rule!(
        "raid-housekeeping-invisible",
        "a RAID controller that nobody asked",
        Low,
        Guest,
        invisible
    ),
    rule!(
        "raid-drive-degraded",
        "a RAID controller's array lacks members",
        High,
        Simulated,
        drives::degraded
    ),
    rule!(
        "raid-member-failing",
        "a drive behind a RAID controller fails",
        High,
        Simulated,
        drives::member_failing
    ),
    rule!("raid-busy", "a RAID controller works on its arrays", Medium, Simulated, drives::busy),
    rule!(
        "raid-battery",
        "the backup of a RAID controller's cache does not work",
        High,
        Simulated,
        power::battery
    ),
    rule!(
        "raid-write-through",
        "a RAID controller does not use its write cache",
        Low,
        Simulated,
        power::write_through
    ),
    rule!(
        "raid-geometry",
        "a filesystem made for another stripe than the controller's",
        Medium,
        Simulated,
        geometry::mismatch
    ),
];

/// Drivers of controllers that make arrays, with the tool that tells of them where fathom can read one.
const RAID_DRIVERS: [(&str, Option<&str>); 17] = [
    ("megaraid_sas", Some("storcli or perccli")),
    ("smartpqi", Some("ssacli or arcconf")),
    ("hpsa", Some("ssacli")),
    ("aacraid", Some("arcconf")),
    ("arcmsr", None),
    ("3w-9xxx", None),
    ("3w-sas", None),
    ("3w-xxxx", None),
    ("hptiop", None),
    ("megaraid", None),
    ("mptsas", None),
    ("mptspi", None),
    ("mvumi", None),
    ("stex", None),
    ("mpi3mr", None),
    ("mpt3sas", None),
    ("mpt2sas", None),
];

/// Makers of drives: a disk that bears their name is one, handed through by the controller.
const DRIVE_MAKERS: [&str; 16] = [
    "ATA", "SEAGATE", "HGST", "HITACHI", "WDC", "TOSHIBA", "KIOXIA", "SAMSUNG", "MICRON", "NVMe",
    "IBM-ESXS", "LENOVO-X", "NETAPP", "FUJITSU", "SANDISK", "STEC",
];

/// True for what a controller makes of several drives, as far as its names tell.
fn is_volume(driver: &str, node: &Node) -> bool {
    let drive = node.drive.as_ref();
    let vendor = drive.and_then(|drive| drive.vendor.as_deref()).unwrap_or_default();
    let model = drive.and_then(|drive| drive.model.as_deref()).unwrap_or_default();
    match driver {
        "hpsa" | "smartpqi" | "mpt3sas" | "mpt2sas" | "mptsas" | "mptspi" => {
            model.eq_ignore_ascii_case("logical volume")
        }
        _ => {
            let is_maker = |maker: &&str| maker.eq_ignore_ascii_case(vendor);
            !DRIVE_MAKERS.iter().any(is_maker) && !super::drives::is_virtual(node)
        }
    }
}

/// True for a disk that a RAID controller makes of several drives, as far as names tell.
pub(super) fn is_raid_volume(scene: &Scene<'_>, node: &Node) -> bool {
    let name = node.details().host.as_deref();
    let mut hosts = scene.snapshot.system.hosts.iter();
    let host = hosts.find(|host| Some(host.name.as_str()) == name);
    let driver = host.and_then(|host| host.driver.as_deref());
    let known = driver.filter(|driver| RAID_DRIVERS.iter().any(|(name, _)| name == driver));
    // Only a drive counts the hours that it was on.
    let health = node.details().health.as_ref();
    let is_drive = health.is_some_and(|health| health.power_on_hours.is_some());
    !is_drive && known.is_some_and(|driver| is_volume(driver, node))
}

/// Two PCI addresses are of one device, whatever function they name.
fn same_slot(a: &str, b: &str) -> bool {
    let slot = |text: &str| text.rsplit_once('.').map_or(text, |(slot, _)| slot).to_owned();
    slot(a) == slot(b)
}

/// What a tool said of an adapter: found by the address, or as the only one of its driver's kind.
fn told_of<'a>(scene: &Scene<'a>, host: &StorageHost) -> Option<&'a Controller> {
    let all = &scene.snapshot.controllers;
    let address = host.pci_address.as_deref();
    let by_address = all.iter().find(|controller| {
        let pair = controller.pci_address.as_deref().zip(address);
        pair.is_some_and(|(a, b)| same_slot(a, b))
    });
    by_address.or_else(|| all.first().filter(|one| all.len() == 1 && one.pci_address.is_none()))
}

/// Controllers that make arrays and of which no tool told anything.
fn invisible(scene: &Scene<'_>) -> Vec<Defect> {
    let found = super::drives::hosts_with_disks(scene).filter_map(|(host, disks)| {
        let driver = host.driver.as_deref()?;
        let (_, tool) = RAID_DRIVERS.iter().find(|(name, _)| *name == driver)?;
        let volumes: Vec<&Node> = disks.into_iter().filter(|node| is_volume(driver, node)).collect();
        let first = volumes.first()?;
        if told_of(scene, host).is_some() {
            return None;
        }
        let what = host.model.clone().unwrap_or_else(|| format!("a controller of {driver}"));
        let mut defect = Defect::new(
            "raid-housekeeping-invisible",
            Gravity::Low,
            Some(&first.key()),
            format!("{} {} made by {what}, whose drives, cache and housekeeping Linux does not see", super::shared::list(volumes.iter().map(|node| node.name.as_str())), if volumes.len() == 1 { "is" } else { "are" }),
        )
        .sure(Certainty::Likely)
        .seen(format!("/sys/class/scsi_host/{}: driver", host.name), driver);
        for other in volumes.iter().skip(1) {
            defect = defect.also_on(other.key());
        }
        let defect = defect.because("a failed member, an empty battery, a rebuild or a patrol read changes what it does and shows nowhere in the kernel: results on it are doubtful at best");
        let defect = match tool {
            Some(tool) => defect
                .advise(format!("install {tool} from the maker of the controller or the server"))
                .command("let fathom ask it (it only reads)", "fathom check --vendor-tools"),
            None => defect.advise("look with the tool of its maker (arcmsr: cli64; 3ware: tw_cli show, where NotOpt must be 0; LSI IR: sas3ircu or lsiutil; mpi3mr: storcli2) before measurements and regularly: fathom cannot read these"),
        };
        Some(
            defect
                .risking("such tools can also change arrays: install them from their maker only")
                .verified_by("all arrays optimal, no rebuild or check running, battery or capacitor in order"),
        )
    });
    found.collect()
}

/// The kernel's disk of a virtual drive: by its name, or its world-wide name.
fn disk_of<'a>(scene: &Scene<'a>, drive: &VirtualDrive) -> Option<(usize, &'a Node)> {
    let name = drive.kernel_name.as_deref().map(|name| name.trim_start_matches("/dev/"));
    let by_name = name.and_then(|name| scene.device(name));
    let index = by_name.or_else(|| {
        let wanted = bare(drive.wwn.as_deref()?);
        let mut disks = scene.nodes(&[NodeKind::Disk]);
        let same = |node: &Node| {
            node.drive
                .as_ref()
                .and_then(|drive| drive.wwn.as_deref())
                .is_some_and(|wwn| bare(wwn) == wanted)
        };
        disks.find(|(_, node)| same(node)).map(|(index, _)| index)
    })?;
    Some((index, scene.node(index)))
}

/// A world-wide name without `naa.`, `0x`, case and separators.
fn bare(wwn: &str) -> String {
    let wwn = wwn.trim_start_matches("naa.").trim_start_matches("0x");
    wwn.chars().filter(char::is_ascii_hexdigit).collect::<String>().to_ascii_lowercase()
}

/// A defect of a controller; it stands on the disk of a virtual drive where that is known, else on the machine.
fn on_controller(
    scene: &Scene<'_>,
    rule: &str,
    gravity: Gravity,
    drive: Option<&VirtualDrive>,
    summary: String,
) -> Defect {
    let node = drive.and_then(|drive| disk_of(scene, drive)).map(|(_, node)| node.key());
    Defect::new(rule, gravity, node.as_deref(), summary)
}

/// A controller as people know it.
fn called(controller: &Controller) -> String {
    match &controller.model {
        Some(model) => format!("controller {} ({model})", controller.number),
        None => format!("controller {}", controller.number),
    }
}

/// Where a person sees what the tool said: its command.
fn source(controller: &Controller) -> String {
    let number = controller.number;
    match controller.tool.as_str() {
        tool @ ("storcli" | "perccli") => format!("{tool} /c{number} show all"),
        "ssacli" => format!("ssacli ctrl slot={number} show config detail"),
        "arcconf" => format!("arcconf getconfig {number}"),
        other => other.to_owned(),
    }
}

/// A word of a tool, for comparison.
fn is_one_of(word: Option<&str>, words: &[&str]) -> bool {
    word.is_some_and(|word| words.iter().any(|known| word.trim().eq_ignore_ascii_case(known)))
}
