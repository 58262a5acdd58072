//! What the kernel has logged about devices, told on the device whose name stands in the line.

use crate::known::{
    ERROR, LINK, NO_TROUBLE, PASSIVE, PORT_DISABLED, PORT_GIVEN_UP, ata_port, is_reset,
};
use crate::rules::drives::{hosts_with_disks, is_virtual, transport};
use crate::rules::links::port_told;
use crate::scene::Scene;
use fathom_base::order::Order;
use fathom_base::units::format_duration;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::{Node, NodeKind};
use fathom_model::system::LogLine;
use std::collections::{BTreeMap, BTreeSet};

/// What a line is about; each line counts once, for the first kind that fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The device does not answer, or was reset.
    Reset,
    /// The way to the device loses or damages data.
    Link,
    /// The device answers that it cannot.
    Error,
}

fn kind(text: &str) -> Option<Kind> {
    let text = text.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|words| text.contains(words));
    // Errors that a removed loop or network device, or a filesystem above, tells are consequences; that it was switched on
    // every drive says once.
    let consequence = [
        "buffer i/o error",
        "dev loop",
        "dev nbd",
        "dev fd",
        "dev sr",
        "[sr",
        "metadata i/o error",
        "log i/o error",
        "(loop",
        "(device loop",
    ];
    if has(&consequence) || has(&NO_TROUBLE) {
        return None;
    }
    // A drive or USB bridge that does not understand these loses nothing: zeros are written instead.
    let refused = ["op 0x3:(discard)", "op 0x5:(secure_erase)", "op 0x9:(write_zeroes)"];
    if has(&refused) && !text.contains("medium error") {
        return None;
    }
    if has(&LINK) {
        Some(Kind::Link)
    } else if is_reset(&text) {
        Some(Kind::Reset)
    } else {
        has(&ERROR).then_some(Kind::Error)
    }
}

/// True for an error of which nothing but the failure is told.
fn is_bare(text: &str) -> bool {
    let text = text.to_lowercase();
    !ERROR.iter().any(|words| *words != "i/o error" && text.contains(words))
}

/// The node that a line is about: by the kernel name of a device (`sda`, `nvme0n1`), of an NVMe controller (`nvme0`), by its
/// SCSI address (`sd 2:0:5:0:`), or by that of an adapter with a single disk: the first number of a SCSI address, PCI, or a port of ATA.
fn node_of(scene: &Scene<'_>, text: &str) -> Option<usize> {
    let words = || text.split(|c: char| !(c.is_ascii_alphanumeric() || "_-!:.".contains(c)));
    let bare = || words().map(|word| word.trim_matches([':', '.'])).filter(|word| !word.is_empty());
    let device = bare().find_map(|word| scene.device(word).or_else(|| controller(scene, word)));
    let by_scsi = || {
        let mut disks = scene.nodes(&[NodeKind::Disk]);
        let address = |node: &Node, word: &str| node.details().address.as_deref() == Some(word);
        let own = disks.find(|(_, node)| bare().any(|word| address(node, word)));
        let only =
            || bare().find_map(|word| only_disk_of(scene, &format!("host{}", scsi_host(word)?)));
        // One that has another address is not meant.
        let is_unknown = |index: &usize| scene.node(*index).details().address.is_none();
        own.map(|(index, _)| index).or_else(|| only().filter(is_unknown))
    };
    let by_pci = || {
        let mut hosts = scene.snapshot.system.hosts.iter();
        let host = hosts.find(|host| {
            host.pci_address.as_deref().is_some_and(|address| bare().any(|word| word == address))
        })?;
        only_disk_of(scene, &host.name)
    };
    device.or_else(by_scsi).or_else(by_pci).or_else(|| disk_of_port(scene, text))
}

/// The only disk of a port of libata: `ata3: hard resetting link`.
fn disk_of_port(scene: &Scene<'_>, text: &str) -> Option<usize> {
    let number: u64 = ata_port(text)?.strip_prefix("ata")?.parse().ok()?;
    let mut hosts = scene.snapshot.system.hosts.iter();
    only_disk_of(scene, &hosts.find(|host| host.ata_port == Some(number))?.name)
}

/// How lines of drivers of storage begin.
const STORAGE_DRIVERS: [&str; 8] =
    ["nvme ", "ahci ", "mpt3sas ", "mpi3mr ", "megaraid_sas ", "smartpqi ", "hpsa ", "aacraid "];

/// True for a line about the link of a card that is no storage: where an error came from stands last, and is neither an
/// adapter nor a port on the way to one.
fn is_elsewhere(scene: &Scene<'_>, text: &str) -> bool {
    // A drive that has fallen off has no adapter any more.
    if STORAGE_DRIVERS.iter().any(|driver| text.starts_with(driver)) {
        return false;
    }
    let words = text.split(|c: char| !(c.is_ascii_hexdigit() || ":.".contains(c)));
    let mut bare = words.map(|word| word.trim_matches([':', '.']));
    let source = bare.rfind(|word| word.len() >= 12 && word.matches(':').count() == 2);
    let hosts = &scene.snapshot.system.hosts;
    source.is_some_and(|source| {
        !hosts.iter().any(|host| {
            host.pci_address.as_deref() == Some(source)
                || host.link.iter().any(|link| link.address == source)
        })
    })
}

/// The number of the adapter in an address of a SCSI device: 2 of `2:0:1:0`.
fn scsi_host(word: &str) -> Option<u32> {
    let numbers: Option<Vec<u32>> = word.split(':').map(|part| part.parse().ok()).collect();
    numbers.filter(|numbers| numbers.len() == 4).map(|numbers| numbers[0])
}

/// The disk of an adapter that has no other.
fn only_disk_of(scene: &Scene<'_>, host: &str) -> Option<usize> {
    let mut disks = scene
        .nodes(&[NodeKind::Disk])
        .filter(|(_, node)| node.details().host.as_deref() == Some(host));
    let (index, _) = disks.next()?;
    disks.next().is_none().then_some(index)
}

/// The drive behind an NVMe controller by the controller's name.
fn controller(scene: &Scene<'_>, word: &str) -> Option<usize> {
    let number = word.strip_prefix("nvme")?;
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let by_host = scene.nodes(&[]).find(|(_, node)| node.details().host.as_deref() == Some(word));
    by_host.map(|(index, _)| index).or_else(|| scene.device(&format!("{word}n1")))
}

/// Who a line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum About<'a> {
    /// Nobody that is named.
    Somebody,
    /// What is no disk, as the line calls it: `st 0:0:3:0`; a controller without drives.
    Other(&'a str),
    /// What the machine no longer has, as the line calls it.
    Lost(&'a str),
    /// A node of the graph.
    Node(usize),
}

impl About<'_> {
    fn is_node(&self) -> bool {
        matches!(self, Self::Node(_))
    }

    fn is_lost(&self) -> bool {
        matches!(self, Self::Lost(_))
    }
}

/// Who a line without a node is about. What is no longer there is called `sdb` in `dev sdb,` or `[sdb]`, else by its SCSI address
/// or the name of an NVMe controller; the address may be that of a disk whose own is not known.
fn named<'a>(scene: &Scene<'_>, text: &'a str) -> About<'a> {
    let is_disk = |name: &&str| {
        ["sd", "nvme", "vd", "xvd", "hd", "mmcblk"].iter().any(|kind| name.starts_with(kind))
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    let after_dev = words.windows(2).find(|pair| pair[0] == "dev").map(|pair| pair[1]);
    let in_brackets =
        words.iter().find(|word| word.starts_with('[') && word.contains(']')).copied();
    let trim = |word: &'a str| word.trim_matches(['[', ']', ',', ':']);
    if let Some(name) = after_dev.or(in_brackets).map(trim).filter(is_disk) {
        return About::Lost(name);
    }
    let was_given_up = |name: &str| {
        let mut log = scene.snapshot.system.kernel_log.iter();
        log.any(|line| line.text.contains(&format!("{name}: ")) && gives_up(scene, &line.text))
    };
    let by_driver = words.windows(2).find_map(|pair| match (pair[0], trim(pair[1])) {
        ("nvme", name) if name.starts_with("nvme") => {
            Some(if was_given_up(name) { About::Lost(name) } else { About::Other(name) })
        }
        (driver, address) => {
            let host = format!("host{}", scsi_host(address)?);
            let mut disks = scene.nodes(&[NodeKind::Disk]).map(|(_, node)| node.details());
            let is_known =
                disks.all(|disk| disk.host.as_ref() != Some(&host) || disk.address.is_some());
            Some(match driver {
                "sd" | "scsi" if is_known => About::Lost(address),
                "sd" | "scsi" => About::Somebody,
                // Tapes, changers, enclosures and optical drives are no nodes.
                _ => About::Other(text.split(": ").next()?),
            })
        }
    });
    by_driver.unwrap_or(About::Somebody)
}

/// Lines of a kind by what they are about.
fn lines<'a>(scene: &Scene<'a>, wanted: Kind) -> BTreeMap<About<'a>, Vec<&'a LogLine>> {
    let mut found: BTreeMap<About<'_>, Vec<&LogLine>> = BTreeMap::new();
    let counting = counting(scene);
    for line in &scene.snapshot.system.kernel_log {
        let is_left = wanted == Kind::Link
            && (is_elsewhere(scene, &line.text) || is_counted(&counting, &line.text));
        if kind(&line.text) == Some(wanted) && !is_left {
            let node = node_of(scene, &line.text).map(About::Node);
            found.entry(node.unwrap_or_else(|| named(scene, &line.text))).or_default().push(line);
        }
    }
    if wanted == Kind::Error {
        // Requests fail when their device is given up: there only what the device itself told counts.
        let given_up = lines(scene, Kind::Reset);
        // One that is gone has its name in one line and its address in another.
        let gone = given_up
            .iter()
            .filter(|(_, lines)| lines.iter().any(|line| gives_up(scene, &line.text)));
        let gone = drives_lost(scene, gone.map(|(about, _)| *about));
        let are_gone = drives_lost(scene, found.keys().copied()) <= gone;
        let passive = passive(scene);
        found.retain(|about, lines| {
            if passive.contains(about) {
                lines.retain(|line| !is_bare(&line.text));
            }
            if about.is_lost() && are_gone || about.is_node() && given_up.contains_key(about) {
                lines.retain(|line| !is_bare(&line.text));
            }
            !lines.is_empty()
        });
    }
    // Of a part of the machine only what belongs to it counts.
    if !scene.snapshot.targets.is_empty() {
        found.retain(|about, _| about.is_node());
    }
    found
}

/// Paths whose target serves the drive by another port now: it refuses what comes here, as the look for partitions at boot.
fn passive<'a>(scene: &Scene<'a>) -> BTreeSet<About<'a>> {
    const STATES: [&str; 3] = ["standby", "unavailable", "transitioning"];
    let log = scene.snapshot.system.kernel_log.iter();
    let told = log.filter(|line| line.text.to_lowercase().contains(PASSIVE));
    let told = told.map(|line| {
        node_of(scene, &line.text).map_or_else(|| named(scene, &line.text), About::Node)
    });
    let is_passive = |node: &Node| {
        node.details().access_state.as_deref().is_some_and(|state| STATES.contains(&state))
    };
    let now = scene.nodes(&[NodeKind::Disk]).filter(|(_, node)| is_passive(node));
    told.chain(now.map(|(index, _)| About::Node(index))).collect()
}

/// How many drives those are that are no longer there: a line that names one `sd 5:0:0:0: [sdq]` joins both names.
fn drives_lost<'a>(scene: &Scene<'a>, about: impl Iterator<Item = About<'a>>) -> usize {
    let log = &scene.snapshot.system.kernel_log;
    let called = |name: &'a str| {
        let both = format!(" {name}: [");
        let mut names =
            log.iter().filter_map(|line| line.text.split_once(&both)?.1.split(']').next());
        names.next().filter(|_| scsi_host(name).is_some()).unwrap_or(name)
    };
    let names = about.filter_map(|about| match about {
        About::Lost(name) => Some(called(name)),
        _ => None,
    });
    names.collect::<BTreeSet<_>>().len()
}

/// Addresses of adapters that count errors of their links themselves: pcie-errors weighs these, and tells them of the adapter's
/// disks, and of ports above them whose errors it tells too. Of one that has none any more only the log tells.
fn counting<'a>(scene: &Scene<'a>) -> Vec<&'a str> {
    let hosts =
        hosts_with_disks(scene).filter(|(_, disks)| !disks.iter().all(|disk| is_virtual(disk)));
    let counting = hosts.flat_map(|(host, _)| {
        let has_counted = host
            .aer_errors
            .is_some_and(|(corrected, nonfatal, fatal)| corrected.max(nonfatal).max(fatal) > 0);
        let own = host.pci_address.as_deref().filter(|_| has_counted);
        own.into_iter().chain(port_told(host))
    });
    counting.collect()
}

fn is_counted(counting: &[&str], text: &str) -> bool {
    let text = text.to_lowercase();
    let is_pci = text.contains("pcie bus error") || text.contains("aer:");
    is_pci && counting.iter().any(|address| text.contains(address))
}

/// Words of a device that the kernel no longer uses; of NVMe before Linux 6.2 and since, of an adapter.
const GIVEN_UP: [&str; 6] = [
    "device offlined",
    "rejecting i/o to",
    "removing after probe failure",
    "disabling device after reset failure",
    "disable controller",
    "killing adapter",
];

/// Lines of one incident follow each other within this.
const INCIDENT_US: u64 = 120_000_000;

/// From so many incidents on something is at work that will not go away.
const INCIDENTS_MANY: usize = 3;

fn gives_up(scene: &Scene<'_>, text: &str) -> bool {
    let text = text.to_lowercase();
    let of_port = || {
        let port = ata_port(&text)?;
        // Ports that are empty, or that only the adapter's firmware knows, are given up at each boot: a drive has lines of its own.
        let drive = format!("{port}.");
        let log = &scene.snapshot.system.kernel_log;
        let had_drive = || log.iter().any(|line| line.text.starts_with(&drive));
        Some(text.contains(PORT_DISABLED) || text.contains(PORT_GIVEN_UP) && had_drive())
    };
    GIVEN_UP.iter().any(|words| text.contains(words)) || of_port() == Some(true)
}

/// That requests were refused while the device was offline: somebody may have set it so.
fn is_refusal(text: &str) -> bool {
    text.to_lowercase().contains("rejecting i/o to")
}

/// True when the kernel uses the device now.
fn works(node: &Node) -> bool {
    let state = node.drive.as_ref().and_then(|drive| drive.state.as_deref());
    matches!(state, Some("running" | "live"))
}

/// A pause of half a minute, once, is an annoyance, and so is that a device that works was offline once; one that was given up,
/// or that comes back to it again and again, puts what is on it at risk.
fn gravity_of_resets(scene: &Scene<'_>, node: Option<&Node>, lines: &[&LogLine]) -> Gravity {
    let works = node.is_some_and(works);
    let given_up =
        |line: &&LogLine| gives_up(scene, &line.text) && !(works && is_refusal(&line.text));
    let mut times: Vec<u64> = lines.iter().map(|line| line.boot_us).collect();
    times.order();
    let pauses = times.windows(2).filter(|pair| pair[1] - pair[0] > INCIDENT_US).count();
    if lines.iter().any(given_up) || pauses + 1 >= INCIDENTS_MANY {
        Gravity::High
    } else {
        Gravity::Medium
    }
}

/// Defects of one rule, one for each node, with the last lines as evidence.
fn defects(
    scene: &Scene<'_>,
    rule: &str,
    gravity: impl Fn(Option<&Node>, &[&LogLine]) -> Gravity,
    kind: Kind,
    what: &str,
) -> Vec<Defect> {
    const DAY_US: u64 = 86_400_000_000;
    let uptime_us = scene.snapshot.host.uptime_s.map(|seconds| (seconds * 1e6) as u64);
    let of_node = |(about, lines): (About<'_>, Vec<&LogLine>)| {
        let node = match about {
            About::Node(index) => Some(scene.node(index)),
            _ => None,
        };
        let name = match (about, node) {
            (_, Some(node)) => node.label().to_owned(),
            (About::Lost(name), _) => format!("{name} (no longer there)"),
            (About::Other(name), _) => name.to_owned(),
            _ => "a device".to_owned(),
        };
        let last = lines.iter().map(|line| line.boot_us).max().unwrap_or(0);
        let ago_us = uptime_us.and_then(|uptime| uptime.checked_sub(last));
        let ago = ago_us.map_or_else(String::new, |us| {
            format!(", the last {} ago", format_duration(us.saturating_mul(1000)))
        });
        let count = match lines.len() {
            1 => "1 line".to_owned(),
            count => format!("{count} lines"),
        };
        let summary = format!("{name}: the kernel's log has {count} about {what}{ago}");
        let key = node.map(|node| node.key());
        let mut defect = Defect::new(rule, gravity(node, &lines), key.as_deref(), summary)
            .sure(Certainty::Likely);
        if let About::Lost(name) = about {
            defect = defect.by_loss_of(vec![name.to_owned()]);
        }
        // What was pulled out is not watched until the next boot; what only has no name here is there, and a drive that the kernel gave up
        // is gone because it failed.
        let is_given_up =
            || lines.iter().any(|line| gives_up(scene, &line.text) && !is_refusal(&line.text));
        let is_loose = match node {
            Some(node) => transport(node) == "usb",
            None => about.is_lost() && !is_given_up(),
        };
        if is_loose && ago_us.is_some_and(|us| us > DAY_US) {
            (defect.gravity, defect.certainty) = (Gravity::Low, Certainty::Possible);
        }
        for line in lines.iter().rev().take(5) {
            let source = format!("dmesg: [{:.6}]", line.boot_us as f64 / 1e6);
            defect = defect.seen(source, line.text.clone());
        }
        defect
    };
    lines(scene, kind).into_iter().map(of_node).collect()
}

/// Errors that drives have told.
pub(super) fn io_errors(scene: &Scene<'_>) -> Vec<Defect> {
    let found = defects(scene, "kernel-log-io-errors", |_, _| Gravity::High, Kind::Error, "errors");
    let complete = |defect: Defect| {
        defect
            .because("a request came back with an error, so that data could not be read or was not written; an array or a second try may have hidden it")
            .command("see all of it", "dmesg -T | grep -iE 'error|medium|sector'")
            .advise("save what is on the drive first; then look at its own counters (smartctl -a) and replace it when they grow")
            .risking("none to look; a long self-test or a full read may be the last thing that a dying drive does")
            .verified_by("no new lines appear while everything is read once: an array's check, or fathom run seqread DEVICE")
    };
    found.into_iter().map(complete).collect()
}

/// Resets and timeouts.
pub(super) fn resets(scene: &Scene<'_>) -> Vec<Defect> {
    let gravity = |node: Option<&Node>, lines: &[&LogLine]| gravity_of_resets(scene, node, lines);
    let found = defects(scene, "kernel-log-resets", gravity, Kind::Reset, "timeouts and resets");
    let complete = |defect: Defect| {
        let all = |of: fn(&str) -> bool| defect.evidence.iter().all(|line| of(&line.value));
        let (refused, is_scsi) = (all(is_refusal), all(|text| !text.contains("nvme")));
        let defect = defect
            .because(if refused {
                "it was offline: somebody set it so, or the kernel had given it up; requests failed at once, and an array may have dropped the member"
            } else {
                "requests waited for tens of seconds until the kernel gave up and reset the device; each time everything in flight is held up, and an array may drop the member"
            })
            .command("see all of it", "dmesg -T | grep -iE 'timeout|reset|abort|exception|offline'")
            .advise("look at cable, power supply and temperature, then at the firmware of drive and adapter");
        let defect = if is_scsi {
            defect
        } else {
            defect.advise("NVMe drives that vanish when idle: boot with nvme_core.default_ps_max_latency_us=0 as a trial")
        };
        defect
            .risking("none to look; new firmware may need the drive to be empty: save the data first")
            .verified_by("no new lines appear during an hour of fathom run randread with many requests in flight")
    };
    found.into_iter().map(complete).collect()
}

/// Errors of links. Where an adapter counts its own errors of PCI Express, the rule on the counters weighs them.
pub(super) fn link_errors(scene: &Scene<'_>) -> Vec<Defect> {
    let found = defects(
        scene,
        "kernel-log-link-errors",
        |_, _| Gravity::Medium,
        Kind::Link,
        "errors of a link",
    );
    let complete = |defect: Defect| {
        defect
            .because("what is damaged on the way is sent again, which takes time, and the kernel slows links down that fail often; what is not noticed damages data")
            .command("see all of it", "dmesg -T | grep -iE 'AER|PCIe|ICRC|SATA link'")
            .advise("SATA and SAS: change cable and slot. PCI Express: reseat card, riser and cable; look for firmware of the board; try without power saving (pcie_aspm=off)")
            .risking("none to look; the machine has to be off to reseat cards")
            .verified_by("the counters of the link (aer_dev_correctable, SMART attribute 199) stand still under load")
    };
    found.into_iter().map(complete).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::Bench;
    use fathom_model::system::{PciLink, StorageHost};

    fn bench(lines: &[&str]) -> Bench {
        let mut bench = Bench::new();
        let sda = bench.disk("sda");
        bench.partition("sda1", 1 << 20, sda);
        bench.nvme("nvme0n1");
        let nvme = bench.nvme("nvme1n1");
        bench.detail_of(nvme).host = Some("nvme1".into());
        let host = StorageHost {
            name: "nvme1".into(),
            pci_address: Some("0000:04:00.0".into()),
            ..StorageHost::default()
        };
        bench.snapshot.system.hosts.push(host);
        bench.snapshot.host.uptime_s = Some(1000.0);
        let line = |(n, text): (usize, &&str)| LogLine {
            boot_us: 400_000_000 + n as u64,
            level: 3,
            text: (*text).to_owned(),
        };
        bench.snapshot.system.kernel_log = lines.iter().enumerate().map(line).collect();
        bench
    }

    #[test]
    fn errors_are_told_on_the_device_in_the_line() {
        let bench = bench(&[
            "I/O error, dev sda, sector 1000 op 0x0:(READ) flags 0x80700",
            "critical medium error, dev sda, sector 1008",
            "Buffer I/O error on dev sda1, logical block 0",
            "I/O error, dev loop7, sector 0",
            "usb 1-1: reset high-speed USB device",
            "critical target error, dev sda, sector 0 op 0x3:(DISCARD) flags 0x800 phys_seg 1",
            "mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 8: 8c00004000010092",
        ]);
        let defect = bench.one(io_errors);
        assert_eq!(defect.node.as_deref(), Some("/dev/sda"));
        assert_eq!(
            defect.summary,
            "/dev/sda: the kernel's log has 2 lines about errors, the last 10 min 00 s ago"
        );
        assert!(bench.ask(resets).is_empty() && bench.ask(link_errors).is_empty());
    }

    /// A path in standby refuses everything, and a scratched disc is no failing drive.
    #[test]
    fn what_is_refused_for_a_good_reason_is_no_error() {
        let refused = "I/O error, dev sda, sector 0 op 0x0:(READ) flags 0x0";
        let why = "sd 1:0:0:1: [sda] Add. Sense: Logical unit not accessible, target port in standby state";
        assert_eq!(bench(&[refused]).ask(io_errors).len(), 1);
        assert_eq!(bench(&[why, refused]).ask(io_errors), []);
        let mut path = bench(&[refused]);
        path.detail_of(0).access_state = Some("standby".into());
        assert_eq!(path.ask(io_errors), []);
        let real = bench(&[why, refused, "critical medium error, dev sda, sector 1008"]);
        let summary = real.one(io_errors).summary;
        assert!(summary.contains("1 line about errors"), "{summary}");
        let disc = "sr 11:0:0:0: [sr0] tag#0 Sense Key : Medium Error [current]";
        assert_eq!(bench(&[disc]).ask(io_errors), []);
    }

    /// A loop device has a file behind it and no drive, and another one every day.
    #[test]
    fn what_filesystems_on_loop_devices_tell_is_a_consequence() {
        let mut bench = bench(&[
            "XFS (loop7): Log I/O Error (0x2) detected at xfs_fs_goingdown.  Shutting down filesystem.",
            "EXT4-fs error (device loop7): ext4_find_entry:1455: I/O error",
            "XFS (sda1): Log I/O Error (0x2) detected.  Shutting down filesystem.",
        ]);
        bench.loop_device("loop7", &[]);
        assert_eq!(bench.ask(io_errors), []);
    }

    #[test]
    fn that_requests_to_a_lost_device_fail_is_not_told_again() {
        let mut bench = bench(&[
            "nvme nvme0: controller is down; will reset: CSTS=0xffffffff",
            "I/O error, dev nvme0n1, sector 8 op 0x1:(WRITE) flags 0x0",
            "sd 0:0:0:0: Power-on or device reset occurred",
        ]);
        assert!(bench.ask(io_errors).is_empty());
        assert_eq!(bench.one(resets).node.as_deref(), Some("/dev/nvme0n1"));
        bench.snapshot.system.kernel_log[1].text =
            "critical medium error, dev nvme0n1, sector 8".into();
        assert_eq!(bench.one(io_errors).node.as_deref(), Some("/dev/nvme0n1"));
    }

    #[test]
    fn one_pause_is_less_than_many_or_a_lost_device() {
        let timeout = "nvme nvme0: I/O 12 QID 3 timeout, aborting";
        let mut bench = bench(&[timeout; 3]);
        assert_eq!(bench.one(resets).gravity, Gravity::Medium, "one incident of three lines");
        for (n, line) in bench.snapshot.system.kernel_log.iter_mut().enumerate() {
            line.boot_us = 400_000_000 + n as u64 * 600_000_000;
        }
        assert_eq!(bench.one(resets).gravity, Gravity::High, "three incidents");
        bench.snapshot.system.kernel_log.truncate(2);
        assert_eq!(bench.one(resets).gravity, Gravity::Medium);
        bench.snapshot.system.kernel_log[1].text =
            "sd 0:0:0:0: rejecting I/O to offline device, sda".into();
        assert_eq!(bench.ask(resets).len(), 2, "NVMe and SCSI");
        let of_sda = |bench: &Bench| {
            let found = bench.ask(resets);
            found.into_iter().find(|defect| defect.node.as_deref() == Some("/dev/sda")).unwrap()
        };
        let works = of_sda(&bench);
        assert!(works.gravity == Gravity::Medium && works.why.starts_with("it was offline"));
        assert!(works.fix.iter().all(|step| !step.text.contains("NVMe")), "{works:?}");
        let sda = Scene::new(&bench.snapshot).device("sda").unwrap();
        bench.drive_of(sda).state = Some("offline".into());
        assert_eq!(of_sda(&bench).gravity, Gravity::High);
    }

    #[test]
    fn what_is_no_longer_there_is_named_and_told_once_and_fades() {
        let mut bench = bench(&[
            "sd 3:0:0:0: rejecting I/O to offline device",
            "I/O error, dev sdq, sector 10240 op 0x1:(WRITE) flags 0x800",
        ]);
        assert_eq!(bench.ask(io_errors), [], "its requests fail because it is gone");
        let summary = "3:0:0:0 (no longer there): the kernel's log has 1 line about timeouts and resets, the last 10 min 00 s ago";
        assert_eq!(bench.one(resets).summary, summary);
        bench.snapshot.system.kernel_log.remove(0);
        let defect = bench.one(io_errors);
        assert!(defect.summary.starts_with("sdq (no longer there): "), "{}", defect.summary);
        assert_eq!(defect.gravity, Gravity::High);
        bench.snapshot.host.uptime_s = Some(40.0 * 86_400.0);
        let defect = bench.one(io_errors);
        assert_eq!((defect.gravity, defect.certainty), (Gravity::Low, Certainty::Possible));
        bench.disk("sdq");
        assert_eq!(bench.one(io_errors).gravity, Gravity::High, "it is there");
    }

    #[test]
    fn what_is_no_disk_is_not_gone_and_what_the_kernel_gave_up_does_not_fade() {
        let mut bench = bench(&[
            "st 0:0:3:0: attempting task abort! scmd(0x1)",
            "ses 0:0:8:0: attempting task abort! scmd(0x2)",
            "nvme nvme5: Removing after probe failure status: -19",
            "nvme nvme6: Disabling device after reset failure: -19",
            "I/O error, dev nvme5n1, sector 8 op 0x0:(READ) flags 0x0",
            "I/O error, dev nvme6n1, sector 8 op 0x0:(READ) flags 0x0",
        ]);
        bench.snapshot.host.uptime_s = Some(40.0 * 86_400.0);
        let told: Vec<(String, Gravity)> = bench
            .ask(resets)
            .into_iter()
            .map(|defect| (defect.summary.split(": ").next().unwrap().to_owned(), defect.gravity))
            .collect();
        let expected = [
            ("ses 0:0:8:0", Gravity::Medium),
            ("st 0:0:3:0", Gravity::Medium),
            ("nvme5 (no longer there)", Gravity::High),
            ("nvme6 (no longer there)", Gravity::High),
        ];
        assert_eq!(told, expected.map(|(name, gravity)| (name.to_owned(), gravity)));
        assert_eq!(bench.ask(io_errors), [], "requests to drives that are gone");
        // A third one's errors are not explained by two that are gone.
        let mut third = bench.snapshot.system.kernel_log[4].clone();
        third.text = third.text.replace("nvme5n1", "sdx");
        bench.snapshot.system.kernel_log.push(third);
        assert_eq!(bench.ask(io_errors).len(), 3);
        // A controller without drives may be there.
        bench.snapshot.system.kernel_log[2].text =
            "nvme nvme7: controller is down; will reset: CSTS=0x3".into();
        let found = bench.ask(resets);
        assert!(found.iter().any(|defect| defect.summary.starts_with("nvme7: ")), "{found:?}");
    }

    #[test]
    fn two_names_of_a_lost_drive_do_not_explain_errors_of_another() {
        let lines = [
            "sd 5:0:0:0: Device offlined - not ready after error recovery",
            "sd 5:0:0:0: [sdq] tag#3 timing out command, waited 180s",
            "sd 5:0:0:0: [sdq] tag#4 rejecting I/O to offline device",
            "I/O error, dev sdq, sector 8 op 0x0:(READ) flags 0x0",
            "I/O error, dev sdr, sector 8 op 0x0:(READ) flags 0x0",
        ];
        assert_eq!(bench(&lines[..4]).ask(io_errors), []);
        let found = bench(&lines).ask(io_errors);
        assert!(found.iter().any(|defect| defect.summary.starts_with("sdr ")), "{found:?}");
    }

    #[test]
    fn words_of_ports_count_at_ports_only() {
        for other in [
            "dfl-port dfl-port.0: timeout, failure to disable device",
            "sony_laptop: Couldn't disable device",
        ] {
            assert_eq!(bench(&[other]).ask(resets), [], "{other}");
        }
        // What never showed a drive is no drive that was lost.
        let phantom =
            ["ata9: softreset failed (device not ready)", "ata9: reset failed, giving up"];
        let mut bench = bench(&phantom);
        assert_eq!(bench.one(resets).gravity, Gravity::Medium);
        let mut line = bench.snapshot.system.kernel_log[0].clone();
        for (text, gravity) in [
            ("ata91.00: exception Emask 0x0 SAct 0x0 SErr 0x0 action 0x6 frozen", Gravity::Medium),
            ("ata9.00: exception Emask 0x0 SAct 0x0 SErr 0x0 action 0x6 frozen", Gravity::High),
        ] {
            line.text = text.into();
            bench.snapshot.system.kernel_log.insert(0, line.clone());
            assert_eq!(bench.one(resets).gravity, gravity, "{text}");
        }
    }

    #[test]
    fn an_nvme_drive_is_known_by_its_controller() {
        let bench = bench(&[
            "nvme nvme0: I/O 12 (Write) QID 3 timeout, aborting",
            "nvme nvme1: controller is down; will reset: CSTS=0x3, PCI_STATUS=0x10",
        ]);
        let found = bench.ask(resets);
        let nodes: Vec<_> = found.iter().map(|defect| defect.node.as_deref()).collect();
        assert_eq!(nodes, [Some("/dev/nvme0n1"), Some("/dev/nvme1n1")]);
    }

    #[test]
    fn a_scsi_address_leads_to_the_only_disk_of_its_adapter() {
        let mut bench = bench(&["sd 7:0:0:0: Device offlined - not ready after error recovery"]);
        assert_eq!(bench.one(resets).node, None);
        let sda = Scene::new(&bench.snapshot).device("sda").unwrap();
        bench.detail_of(sda).host = Some("host7".into());
        assert_eq!(bench.one(resets).node.as_deref(), Some("/dev/sda"));
        let sdb = bench.disk("sdb");
        bench.detail_of(sdb).host = Some("host7".into());
        assert_eq!(bench.one(resets).node, None, "one of two");
        // Each has its own, also where only a part of the machine is looked at.
        bench.detail_of(sda).address = Some("7:0:1:0".into());
        assert_eq!(bench.one(resets).node, None, "the other's is not known");
        bench.detail_of(sdb).address = Some("7:0:0:0".into());
        bench.snapshot.targets = vec!["/dev/sdb".into()];
        assert_eq!(bench.one(resets).node.as_deref(), Some("/dev/sdb"));
        bench.detail_of(sdb).host = None;
        bench.detail_of(sdb).address = None;
        assert_eq!(bench.ask(resets), [], "the only disk of the adapter has another address");
    }

    #[test]
    fn a_sata_port_without_a_name_is_told_of_the_machine() {
        let mut bench =
            bench(&["ata3.00: exception Emask 0x10 SAct 0x4 SErr 0x400000 action 0x6 frozen"]);
        assert_eq!(bench.one(resets).node, None);
        bench.snapshot.host.uptime_s = Some(40.0 * 86_400.0);
        assert_eq!(bench.one(resets).gravity, Gravity::Medium, "a port does not fade");
        bench.snapshot.targets = vec!["/dev/sda".into()];
        assert!(bench.ask(resets).is_empty(), "it may belong to another disk");
    }

    #[test]
    fn every_word_of_giving_up_is_grave_at_once() {
        for line in [
            "ata3.00: disable device",
            "megaraid_sas 0000:03:00.0: Reset failed, killing adapter scsi0.",
            "nvme nvme0: I/O 0 QID 0 timeout, disable controller",
        ] {
            assert_eq!(bench(&[line]).one(resets).gravity, Gravity::High, "{line}");
        }
    }

    #[test]
    fn errors_of_a_pci_link_are_told_where_nothing_counts_them() {
        let mut bench =
            bench(&["nvme 0000:04:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer"]);
        assert_eq!(bench.one(link_errors).node.as_deref(), Some("/dev/nvme1n1"));
        bench.snapshot.system.hosts[0].aer_errors = Some((3, 0, 0));
        assert!(bench.ask(link_errors).is_empty());
        // What it counts hides no line about something else, however many lines of its own follow.
        let counted = bench.snapshot.system.kernel_log[0].clone();
        let mut slowed = counted.clone();
        slowed.text = "ata3: limiting SATA link speed to 1.5 Gbps".into();
        bench.snapshot.system.kernel_log.insert(0, slowed);
        bench.snapshot.system.kernel_log.extend(vec![counted; 5]);
        let defect = bench.one(link_errors);
        assert_eq!((defect.node, defect.evidence.len()), (None, 1));
        bench.snapshot.system.kernel_log.drain(..6);
        // Of an adapter whose only drive is gone nothing else tells what it has counted.
        bench.snapshot.system.hosts[0].name = "nvme9".into();
        assert_eq!(bench.ask(link_errors).len(), 1);
        bench.snapshot.system.hosts[0].name = "nvme1".into();
        // The port has counters of its own, which nothing else tells of.
        let text = &mut bench.snapshot.system.kernel_log[0].text;
        *text = "pcieport 0000:00:1c.0: PCIe Bus Error: severity=Corrected".into();
        let port = PciLink { address: "0000:00:1c.0".into(), ..PciLink::default() };
        bench.snapshot.system.hosts[0].link.push(port.clone());
        assert_eq!(bench.ask(link_errors).len(), 1);
        // Those of the port are told with those of the adapter when they are many.
        let own = bench.snapshot.system.hosts[0].pci_address.clone().unwrap_or_default();
        let own = PciLink { address: own, ..PciLink::default() };
        let many = PciLink { aer_errors: Some((100, 0, 0)), ..port.clone() };
        bench.snapshot.system.hosts[0].link = vec![own, many];
        assert!(bench.ask(link_errors).is_empty());
        bench.snapshot.system.hosts[0].link.clear();
        // Of a WLAN card nothing is said, of the port above the drive all.
        bench.snapshot.system.hosts[0].aer_errors = None;
        bench.snapshot.system.hosts[0].link.push(port);
        for (line, count) in [
            ("pcieport 0000:00:1c.4: AER: Corrected error message received from 0000:02:00.0", 0),
            ("rtw_8822be 0000:02:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer", 0),
            ("pcieport 0000:00:1c.0: AER: Corrected error message received from 0000:02:00.0", 0),
            ("pcieport 0000:00:1c.0: AER: Corrected error message received from 0000:04:00.0", 1),
            ("pcieport 0000:00:1c.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer", 1),
            // A drive that has fallen off the bus is in no list of adapters any more.
            ("nvme 0000:09:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer", 1),
            ("ata3.00: limiting SATA link speed to 3.0 Gbps", 1),
        ] {
            bench.snapshot.system.kernel_log[0].text = line.into();
            assert_eq!(bench.ask(link_errors).len(), count, "{line}");
        }
    }
}
