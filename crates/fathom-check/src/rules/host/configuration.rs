//! `/etc/fstab`.

use crate::scene::Scene;
use fathom_base::shell;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::{Node, NodeKind};
use fathom_model::system::FstabEntry;
use std::collections::BTreeSet;

/// The family of names that a device path belongs to, where the kernel gives names in the order in which devices answer:
/// `sd` of `/dev/sda1`.
fn unstable_family(source: &str) -> Option<&'static str> {
    let name = source.strip_prefix("/dev/")?;
    let is_letter = |c: char| c.is_ascii_lowercase();
    // Xen gives its disks (xvda) the names that the machine's own configuration says.
    let by_letter = ["sd", "hd", "vd"]
        .into_iter()
        .find(|family| name.strip_prefix(family).is_some_and(|rest| rest.starts_with(is_letter)));
    by_letter.or_else(|| {
        let by_number = ["nvme", "dm-", "mmcblk"].into_iter();
        by_number.into_iter().find(|family| {
            name.strip_prefix(family)
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        })
    })
}

/// Whole disks, or mapped devices, of one family: one alone keeps its name. What a number is followed by belongs to one drive:
/// the namespaces and paths of an NVMe drive (`nvme0n1`, `nvme0c0n1`), the boot areas of a card (`mmcblk0boot0`).
fn members_of(scene: &Scene<'_>, family: &str) -> usize {
    let nodes = scene.nodes(&[NodeKind::Disk, NodeKind::Dm, NodeKind::NvmeMultipath]);
    let names = nodes.filter_map(|(_, node)| node.name.strip_prefix(family));
    let number = |rest: &str| rest.bytes().take_while(u8::is_ascii_digit).count();
    let members = names.map(|rest| match number(rest) {
        0 => rest,
        digits => &rest[..digits],
    });
    members.collect::<BTreeSet<&str>>().len()
}

/// A name for the same device that stays.
fn stable_name(scene: &Scene<'_>, source: &str) -> Option<String> {
    let index = scene.device(source.strip_prefix("/dev/")?)?;
    let node = scene.node(index);
    let mut above = scene.above(index);
    let fs = above.find_map(|(_, fs)| fs.fs.as_ref()?.uuid.clone());
    let table = node.partition.as_ref().and_then(|partition| partition.uuid.clone());
    let content = node.details().content.as_ref();
    let superblock = content.and_then(|content| content.filesystem.as_ref()?.uuid.clone());
    let mapped = node.dm.as_ref().and_then(|dm| dm.name.as_ref());
    mapped
        .map(|name| format!("/dev/mapper/{name}"))
        .or_else(|| {
            fs.or(superblock)
                .filter(is_only(scene, of_filesystem))
                .map(|uuid| format!("UUID={uuid}"))
        })
        .or_else(|| {
            table.filter(is_only(scene, of_partition)).map(|uuid| format!("PARTUUID={uuid}"))
        })
}

/// What a superblock on a device of its own says.
fn of_filesystem(node: &Node) -> Option<&str> {
    let content = node.details().content.as_ref().filter(|content| content.md.is_none())?;
    content.filesystem.as_ref()?.uuid.as_deref()
}

fn of_partition(node: &Node) -> Option<&str> {
    node.partition.as_ref()?.uuid.as_deref()
}

/// Whether no second device has the same UUID, as a clone has: that names neither.
fn is_only<'a>(
    scene: &'a Scene<'_>,
    uuid_of: fn(&Node) -> Option<&str>,
) -> impl Fn(&String) -> bool + use<'a> {
    let nodes = scene.snapshot.machine.nodes.iter();
    let all: Vec<&str> = nodes.filter_map(uuid_of).collect();
    move |uuid| all.iter().filter(|other| *other == uuid).count() < 2
}

/// Entries by names that depend on the order in which devices answer, where there are several.
pub(super) fn unstable_name(scene: &Scene<'_>) -> Vec<Defect> {
    let mut found = Vec::new();
    for entry in &scene.snapshot.system.configuration.fstab {
        let Some(family) = unstable_family(&entry.source) else { continue };
        if entry.options.iter().any(|option| option == "noauto") || members_of(scene, family) < 2 {
            continue;
        }
        let node = entry.source.strip_prefix("/dev/").and_then(|name| scene.device(name));
        let key = node.map(|index| scene.node(index).key());
        let what = if entry.fs_type == "swap" { "swap" } else { entry.mount_point.as_str() };
        let summary = format!(
            "/etc/fstab names {} for {what}: the name depends on the order in which devices answer at boot",
            entry.source
        );
        let mut defect = Defect::new("fstab-unstable-name", Gravity::Medium, key.as_deref(), summary)
            .seen("/etc/fstab", line(entry))
            .seen("/sys/block", format!("{} devices with names {family}*", members_of(scene, family)))
            .because("a drive that fails, is added or answers late moves the names, and then another device is mounted here, or none, and the boot stops");
        defect = match stable_name(scene, &entry.source) {
            Some(name) => defect.command(
                format!("write {name} in its place (a copy is kept as /etc/fstab.bak)"),
                format!(
                    "sed -i.bak {} /etc/fstab",
                    shell::word(format!(
                        "s|^{}\\([[:space:]]\\)|{name}\\1|",
                        entry.source.replace('.', "\\.")
                    ))
                ),
            ),
            None => defect.command(
                "see its UUID, and write UUID=... in its place",
                format!("blkid {}", shell::word(&entry.source)),
            ),
        };
        found.push(
            defect
                .risking("an error in /etc/fstab stops the boot: check it before the next one")
                .verified_by("findmnt --verify"),
        );
    }
    found
}

fn line(entry: &FstabEntry) -> String {
    let mount_point = &entry.mount_point;
    format!("{} {mount_point} {} {}", entry.source, entry.fs_type, entry.options.join(","))
}

/// The node that an entry names, by its path, UUID, label or partition.
fn named<'a>(scene: &Scene<'a>, entry: &FstabEntry) -> Option<(usize, &'a Node)> {
    let (key, value) = entry.source.split_once('=').unwrap_or(("", entry.source.as_str()));
    let value = value.trim_matches('"');
    scene.nodes(&[]).find(|(_, node)| match key {
        "UUID" => node.fs.as_ref().and_then(|fs| fs.uuid.as_deref()) == Some(value),
        "LABEL" => node.fs.as_ref().and_then(|fs| fs.label.as_deref()) == Some(value),
        "PARTUUID" => node.partition.as_ref().and_then(|p| p.uuid.as_deref()) == Some(value),
        _ => node.devno.is_some() && node.path.as_deref() == Some(value),
    })
}

/// Entries of disks behind a network without the option that says so.
pub(super) fn no_netdev(scene: &Scene<'_>) -> Vec<Defect> {
    let mut found = Vec::new();
    for entry in &scene.snapshot.system.configuration.fstab {
        let has = |option: &str| entry.options.iter().any(|own| own == option);
        let skip = ["_netdev", "noauto", "x-systemd.automount"].into_iter().any(has);
        // The system's own root is brought up by the initial RAM disk.
        let Some((index, node)) = named(scene, entry).filter(|_| !skip && entry.mount_point != "/")
        else {
            continue;
        };
        let remote = scene.machine().disks_under(index).into_iter().find(|disk| {
            let drive = scene.node(*disk).drive.as_ref();
            let transport = drive.and_then(|drive| drive.transport.as_deref());
            transport == Some("iscsi") || is_network_nvme(scene, *disk)
        });
        let Some(disk) = remote.map(|disk| scene.node(disk)) else { continue };
        // Paths of NVMe have no device of their own: people know the drive that they lead to.
        let label = match (node.devno.as_ref(), disk.devno.as_ref()) {
            (Some(_), None) => node.label(),
            _ => disk.label(),
        };
        let summary = format!(
            "{} lies on {label}, which is reached over the network; its line in /etc/fstab lacks _netdev",
            entry.mount_point
        );
        let defect = Defect::new("fstab-no-netdev", Gravity::Medium, Some(&scene.node(index).key()), summary)
            .sure(Certainty::Likely)
            .seen("/etc/fstab", line(entry))
            .because("at boot it is waited for before the network is there, and at shutdown the network goes away while it is still mounted: the machine hangs, and what was not written back is lost")
            .advise(format!("add _netdev (and nofail, if the machine is to boot without it) to the options of {}", entry.mount_point))
            .command("take it over", "systemctl daemon-reload")
            .risking("an error in /etc/fstab stops the boot: check it before the next one")
            .verified_by("findmnt --verify; systemctl list-dependencies remote-fs.target names the mount");
        found.push(defect);
    }
    found
}

/// An NVMe drive whose controller is reached by TCP or RDMA.
fn is_network_nvme(scene: &Scene<'_>, disk: usize) -> bool {
    let host = scene.node(disk).details().host.as_deref();
    let hosts = scene.snapshot.system.hosts.iter();
    hosts
        .filter(|own| Some(own.name.as_str()) == host)
        .any(|own| matches!(own.transport.as_deref(), Some("tcp" | "rdma")))
}
