//! What the rules about drives, links and queues share.

use super::shared::{drive_identity, sysfs};
use super::vendor::is_raid_volume;
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_model::defect::Defect;
use fathom_model::stack::{Node, NodeKind, QueueFacts, Stack};
use fathom_model::system::StorageHost;
use std::collections::BTreeMap;

/// Every drive once, however many paths lead to it: where something is known of it, else where it comes first.
pub(super) fn each_drive<'a>(scene: &Scene<'a>) -> Vec<(usize, &'a Node)> {
    let drives = scene.drives.get_or_init(|| find_drives(scene));
    drives.iter().map(|&index| (index, scene.node(index))).collect()
}

fn find_drives(scene: &Scene<'_>) -> Vec<usize> {
    let was_asked =
        |node: &Node| node.details().health.is_some() || node.details().identity.is_some();
    let mut drives: BTreeMap<String, (usize, &Node)> = BTreeMap::new();
    for (index, node) in scene.nodes(&[NodeKind::Disk, NodeKind::NvmeMultipath]) {
        let identity = drive_identity(node);
        let known = drives.get(&identity);
        if known.is_none_or(|(_, known)| was_asked(node) && !was_asked(known)) {
            drives.insert(identity, (index, node));
        }
    }
    drives.into_values().map(|(index, _)| index).collect()
}

/// Whole disks, each path of its own, with their queues.
pub(super) fn disk_queues<'a>(
    scene: &Scene<'a>,
) -> impl Iterator<Item = (usize, &'a Node, &'a QueueFacts)> + use<'a> {
    let disks = scene.nodes(&[NodeKind::Disk]);
    disks.filter_map(|(index, node)| Some((index, node, node.queue.as_ref()?)))
}

/// How the drive is attached; empty where that is not known.
pub(super) fn transport(node: &Node) -> &str {
    node.drive.as_ref().and_then(|drive| drive.transport.as_deref()).unwrap_or_default()
}

/// True for disks that a hypervisor makes: what they say of caches, self-tests and rotation is not about a drive.
pub(super) fn is_virtual(node: &Node) -> bool {
    const NAMES: [&str; 11] = [
        "QEMU",
        "VBOX",
        "VMware",
        "Virtual",
        "Msft",
        "MSFT",
        "PersistentDisk",
        "nvme_card",
        // Of Amazon and Alibaba.
        "Elastic Block",
        // Of Oracle.
        "BlockVolume",
        "NUTANIX",
    ];
    let drive = node.drive.as_ref();
    let words = [drive.and_then(|d| d.vendor.as_deref()), drive.and_then(|d| d.model.as_deref())];
    let named =
        words.into_iter().flatten().any(|text| NAMES.iter().any(|name| text.contains(name)));
    named || matches!(transport(node), "virtio" | "virtio-scsi" | "xen" | "scsi_debug")
}

/// True for what a storage system or a RAID controller makes of its drives: what it says of caches and self-tests is not
/// about a drive, and is set there.
pub(super) fn is_made_elsewhere(scene: &Scene<'_>, node: &Node) -> bool {
    match transport(node) {
        "fc" | "iscsi" => true,
        // An adapter for each drive: nothing to look for.
        "nvme" | "usb" => false,
        _ => is_raid_volume(scene, node),
    }
}

/// Whether the drive rotates: by its own word, where it gives one, else by the kernel's flag, which anybody can set. A rate of 1
/// stands for a drive that does not.
fn is_rotating(node: &Node) -> Option<bool> {
    let own = node
        .details()
        .identity
        .as_ref()
        .and_then(|identity| identity.rotation_rpm)
        .filter(|&rpm| rpm > 0);
    let flag = || node.queue.as_ref().and_then(|queue| queue.rotational);
    own.map(|rpm| rpm > 1).or_else(flag)
}

/// True when all that lies at the bottom is a disk that says that it rotates, and that no hypervisor makes: only then heads move.
#[must_use]
pub fn heads_move(stack: &Stack) -> bool {
    let leaves = stack.leaves();
    let is_one = |node: &&Node| node.kind == NodeKind::Disk && rotates(node) && !is_virtual(node);
    !leaves.is_empty() && leaves.iter().all(is_one)
}

/// True when the drive is known not to rotate.
pub(super) fn is_flash(node: &Node) -> bool {
    is_rotating(node) == Some(false)
}

/// True when the drive is known to rotate.
pub(super) fn rotates(node: &Node) -> bool {
    is_rotating(node) == Some(true)
}

/// Adapters with the disks on them.
pub(super) fn hosts_with_disks<'a>(
    scene: &Scene<'a>,
) -> impl Iterator<Item = (&'a StorageHost, Vec<&'a Node>)> {
    let mut by_host: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
    for (_, node) in scene.nodes(&[NodeKind::Disk]) {
        if let Some(host) = node.details().host.as_deref() {
            by_host.entry(host).or_default().push(node);
        }
    }
    let hosts = scene.snapshot.system.hosts.iter();
    hosts.filter_map(move |host| Some((host, by_host.remove(host.name.as_str())?)))
}

/// A further attribute of the queue.
pub(super) fn queue_detail<'a>(node: &'a Node, name: &str) -> Option<&'a str> {
    let all = &node.details().queue;
    all.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

/// The arrays that something on the disk is a member of.
pub(super) fn arrays_above<'a>(scene: &Scene<'a>, index: usize) -> Vec<(usize, &'a Node)> {
    let above = scene.everything_above(index).into_iter().map(|above| (above, scene.node(above)));
    above.filter(|(_, node)| node.kind == NodeKind::Md).collect()
}

/// The member of an array that lies on the disk.
pub(super) fn member_on<'a>(
    scene: &Scene<'a>,
    array: usize,
    disk: usize,
) -> Option<(usize, &'a Node)> {
    let mut members = scene.below(array);
    members.find(|&(member, _)| scene.machine().disks_under(member).contains(&disk))
}

/// The device as a rule of udev recognises it after the next boot: kernel names follow the order in which devices answer, so
/// the world-wide name or the name of the map comes first.
fn udev_match(node: &Node) -> String {
    let is_plain = |text: &&str| {
        text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'+'))
    };
    let wwn = node.drive.as_ref().and_then(|drive| drive.wwn.as_deref()).filter(is_plain);
    // As `wwid` in sysfs has it; names from other places have other forms.
    let wwid = wwn.filter(|wwn| ["naa.", "eui.", "uuid."].iter().any(|kind| wwn.starts_with(kind)));
    let map = node.dm.as_ref().and_then(|dm| dm.name.as_deref()).filter(is_plain);
    match (wwid, map) {
        (Some(wwid), _) => format!(r#"ENV{{DEVTYPE}}=="disk", ATTRS{{wwid}}=="{wwid}""#),
        (_, Some(map)) => format!(r#"ENV{{DM_NAME}}=="{map}""#),
        _ => format!(r#"KERNEL=="{}""#, node.name),
    }
}

/// A rule of udev that sets an attribute of the queue whenever the device comes.
pub(super) fn udev_rule(node: &Node, attribute: &str, value: &str) -> String {
    let device = udev_match(node);
    format!(
        r#"ACTION=="add|change", SUBSYSTEM=="block", {device}, ATTR{{queue/{attribute}}}="{value}""#
    )
}

/// Adds the steps that change an attribute of the queue, now and for good, and the file that sets it where one is known.
pub(super) fn set_queue(
    scene: &Scene<'_>,
    defect: Defect,
    node: &Node,
    attribute: &str,
    value: &str,
) -> Defect {
    let file = sysfs(node, &format!("queue/{attribute}"));
    let rules = &scene.snapshot.system.configuration.udev_queue_rules;
    let setters = rules.iter().filter(|(_, line)| line.contains(&format!("queue/{attribute}")));
    let defect =
        setters.fold(defect, |defect, (file, line)| defect.seen(file.clone(), line.clone()));
    let rule = udev_rule(node, attribute, value);
    defect
        .command("set it now", format!("echo {} > {}", word(value), word(file)))
        .advise(format!("keep it over restarts with a line below /etc/udev/rules.d: {rule}"))
}
