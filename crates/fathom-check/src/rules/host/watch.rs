//! Who watches arrays and drives, and who is told.

use super::{is_physical, is_virtual};
use crate::rules::shared::{list, shows_all};
use crate::scene::Scene;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::{Node, NodeKind};
use fathom_model::system::Daemon;

fn daemon<'a>(scene: &Scene<'a>, name: &str) -> Option<&'a Daemon> {
    scene.snapshot.system.daemons.iter().find(|daemon| daemon.name == name)
}

/// True for `mdadm --monitor`, `--follow` and `-F`, alone or among other letters.
fn monitors(daemon: &Daemon) -> bool {
    daemon.name == "mdadm"
        && daemon.arguments.split(' ').any(|word| {
            let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
            matches!(word, "--monitor" | "--follow") || letters.is_some_and(|l| l.contains('F'))
        })
}

fn monitor<'a>(scene: &Scene<'a>) -> Option<&'a Daemon> {
    scene.snapshot.system.daemons.iter().find(|daemon| monitors(daemon))
}

/// True when the processes of the machine could be seen: otherwise nothing follows from one that is not there.
fn sees_processes(scene: &Scene<'_>) -> bool {
    let unread = &scene.snapshot.unread;
    shows_all(scene) && !unread.iter().any(|unread| unread.what.trim_end_matches('/') == "/proc")
}

/// Arrays whose members' loss somebody should notice.
fn redundant_arrays<'a>(scene: &Scene<'a>) -> Vec<&'a Node> {
    let arrays = scene.nodes(&[NodeKind::Md]).map(|(_, node)| node);
    arrays
        .filter(|node| {
            let level = node.md.as_ref().and_then(|md| md.level.as_deref());
            matches!(level, Some("raid1" | "raid4" | "raid5" | "raid6" | "raid10"))
        })
        .collect()
}

/// Redundant arrays without a running monitor, and without a job that looks every day.
pub(super) fn md_no_monitor(scene: &Scene<'_>) -> Vec<Defect> {
    let arrays = redundant_arrays(scene);
    let looks =
        scene.snapshot.system.timers.iter().any(|timer| timer.kind == "watch" && timer.enabled);
    if arrays.is_empty() || !sees_processes(scene) || monitor(scene).is_some() || looks {
        return Vec::new();
    }
    let names = list(arrays.iter().map(|node| node.label()));
    let summary = format!(
        "no mdadm --monitor runs, and no timer looks after {names}: a failed member may go unnoticed"
    );
    let defect = Defect::new("md-no-monitor", Gravity::Medium, None, summary)
        .sure(Certainty::Likely)
        .seen("/proc/*/comm", "no mdadm in monitor mode")
        .seen("/proc/mdstat", names)
        .because("redundancy helps only when the first failure is mended before the next one comes; degraded arrays serve on without a word")
        .advise("set MAILADDR in /etc/mdadm/mdadm.conf (or /etc/mdadm.conf)")
        .command("then start it", "systemctl start mdmonitor.service")
        .advise("where the unit has an [Install] section, enable it too: systemctl enable mdmonitor.service")
        .command("try the alarm", "mdadm --monitor --scan --oneshot --test")
        .risking("none; another monitoring system that watches /proc/mdstat may do the same")
        .verified_by("the test message arrives");
    vec![defect]
}

/// A monitor that has nobody to tell.
pub(super) fn md_no_alarm(scene: &Scene<'_>) -> Vec<Defect> {
    let Some(monitor) = monitor(scene).filter(|_| !redundant_arrays(scene).is_empty()) else {
        return Vec::new();
    };
    let words: Vec<&str> = monitor.arguments.split(' ').collect();
    let told =
        ["--mail", "--program", "--alert", "-m", "-p"].iter().any(|word| words.contains(word));
    let configured = scene.snapshot.system.configuration.mdadm.as_ref();
    // Unreadable is not the same as empty.
    let unread = scene.snapshot.unread.iter().any(|unread| unread.what.ends_with("mdadm.conf"));
    if told || unread || configured.is_some_and(|mdadm| mdadm.alarm) {
        return Vec::new();
    }
    let summary = "mdadm watches the arrays, but has neither an address nor a program to tell: failures go to the log at best";
    let defect = Defect::new("md-no-alarm", Gravity::Medium, None, summary)
        .seen("/proc/*/cmdline", format!("mdadm {}", monitor.arguments))
        .seen("/etc/mdadm/mdadm.conf or /etc/mdadm.conf", "no MAILADDR, no PROGRAM")
        .because("somebody has to replace a failed member before the next one fails")
        .advise("add a line MAILADDR with an address that is read to mdadm.conf")
        .command("take it over", "systemctl restart mdmonitor.service")
        .risking("none")
        .verified_by("mdadm --monitor --scan --oneshot --test: the message arrives");
    vec![defect]
}

/// Drives of this machine itself, which can tell their health.
fn drives<'a>(scene: &Scene<'a>) -> Vec<&'a Node> {
    if is_virtual(scene) || !shows_all(scene) {
        return Vec::new();
    }
    let disks = scene.nodes(&[NodeKind::Disk]);
    let own = disks.filter(|(index, node)| {
        let usb = node.drive.as_ref().and_then(|drive| drive.transport.as_deref()) == Some("usb");
        is_physical(node) && !usb && scene.in_use(*index)
    });
    own.map(|(_, node)| node).collect()
}

/// Drives in use, and no smartd.
pub(super) fn smart_no_monitor(scene: &Scene<'_>) -> Vec<Defect> {
    let drives = drives(scene);
    if drives.is_empty() || !sees_processes(scene) || daemon(scene, "smartd").is_some() {
        return Vec::new();
    }
    let names = list(drives.iter().map(|node| node.label()));
    let summary = format!("no smartd runs: nobody looks at the health of {names}");
    let defect = Defect::new("smart-no-monitor", Gravity::Low, None, summary)
        .sure(Certainty::Likely)
        .seen("/proc/*/comm", "no smartd")
        .because("pending sectors, a worn flash or a dying cable show in a drive's own counters before they show as errors; many failures still come without any warning")
        .advise("install the package smartmontools")
        .advise("start its unit, now and at each boot: systemctl enable --now smartmontools.service (Debian and its kin) or smartd.service")
        .risking("self-tests cost speed while they run; without any sign of trouble a drive may fail all the same")
        .verified_by("smartctl -a DEVICE; the log of smartd names each drive");
    vec![defect]
}

/// smartd runs on a list that does not name every drive.
pub(super) fn smart_misses_drives(scene: &Scene<'_>) -> Vec<Defect> {
    let configuration = scene.snapshot.system.configuration.smartd.as_ref();
    let Some(smartd) = configuration.filter(|smartd| !smartd.scan && !smartd.devices.is_empty())
    else {
        return Vec::new();
    };
    if daemon(scene, "smartd").is_none() {
        return Vec::new();
    }
    let missing: Vec<&Node> =
        drives(scene).into_iter().filter(|node| !is_named(node, &smartd.devices)).collect();
    // Behind a RAID adapter one name stands for several drives (-d megaraid,N): what is named cannot be told apart.
    let Some(first) = missing.first() else { return Vec::new() };
    let names = list(missing.iter().map(|node| node.label()));
    let summary = format!(
        "smartd watches {}, but not {names}",
        list(smartd.devices.iter().map(String::as_str))
    );
    let mut defect =
        Defect::new("smart-misses-drives", Gravity::Medium, Some(&first.key()), summary)
            .sure(Certainty::Likely)
            .seen(
                "/etc/smartd.conf",
                format!("names {}, no DEVICESCAN", list(smartd.devices.iter().map(String::as_str))),
            );
    for node in missing.iter().skip(1) {
        defect = defect.also_on(node.key());
    }
    let defect = defect
        .because("a list that was right once does not follow when drives are added or named anew; these drives fail unseen")
        .advise("put DEVICESCAN in the place of the list, or add lines with names from /dev/disk/by-id")
        .command("take it over", "systemctl restart smartd.service || systemctl restart smartmontools.service")
        .risking("none")
        .verified_by("smartd -q showtests names each drive");
    vec![defect]
}

/// By its kernel name or one of its links; an NVMe drive also by its controller (`/dev/nvme0`).
fn is_named(node: &Node, devices: &[String]) -> bool {
    let links = &node.details().links;
    devices.iter().any(|device| {
        let Some(name) = device.strip_prefix("/dev/") else { return false };
        let link = name.strip_prefix("disk/").unwrap_or(name);
        // `/dev/nvme0` is the controller of `nvme0n1`, but `/dev/sda` another disk than `sdan`.
        let namespace = node.name.rsplit_once('n').filter(|(start, _)| start.starts_with("nvme"));
        let is_controller = namespace.is_some_and(|(controller, _)| controller == name);
        name == node.name || links.iter().any(|own| own == link) || is_controller
    })
}

/// smartd has no address to write to.
pub(super) fn smart_no_alarm(scene: &Scene<'_>) -> Vec<Defect> {
    let configuration = scene.snapshot.system.configuration.smartd.as_ref();
    let silent = configuration.is_some_and(|smartd| !smartd.alarm);
    if !silent || daemon(scene, "smartd").is_none() || drives(scene).is_empty() {
        return Vec::new();
    }
    let summary =
        "smartd watches the drives, but has no address to write to: warnings go to the log only.";
    let defect = Defect::new("smart-no-alarm", Gravity::Low, None, summary)
        .seen("/etc/smartd.conf", "no directive -m")
        .because("a warning that nobody reads replaces no drive")
        .advise("add -m ADDRESS (and -M test, to try it) to each line or to DEVICESCAN")
        .command(
            "take it over",
            "systemctl restart smartd.service || systemctl restart smartmontools.service",
        )
        .risking("none")
        .verified_by("with -M test a message arrives at the start of smartd");
    vec![defect]
}
