//! A stack as an indented tree, for those who look closer.

use crate::content;
use crate::describe::{model, name_of, part_of_filesystem, shown_options};
use crate::images::{file, images};
use fathom_base::units::{format_count, format_size};
use fathom_model::beside::beside;
use fathom_model::snapshot::Snapshot;
use fathom_model::stack::{DriveFacts, MountFacts, Node, NodeKind, Stack};

/// The stack as an indented tree, one line per layer; what is reached a second time is only named.
#[must_use]
pub fn tree(stack: &Stack) -> Vec<String> {
    forest(stack, &[stack.top], true).into_iter().map(|line| line.text).collect()
}

/// A line of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Index of the node.
    pub node: usize,
    /// How deep it stands; 0 at the top.
    pub depth: usize,
    /// True when the node was shown before and is only named here.
    pub again: bool,
    /// What is said, indented.
    pub text: String,
}

/// Several tops and all below them, one line per layer; what is reached a second time is only named. `knows_mounts` where it was
/// seen what is mounted, see [`crate::Scene::knows_mounts`].
#[must_use]
pub fn forest(stack: &Stack, tops: &[usize], knows_mounts: bool) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut printed = vec![false; stack.nodes.len()];
    let beside = beside(&stack.nodes);
    let images = images(&stack.nodes);
    // Its own list of what is to come: a chain of devices may be deeper than a stack of calls.
    let mut pending: Vec<(usize, usize, Option<&str>)> =
        tops.iter().rev().map(|&top| (top, 0, None)).collect();
    while let Some((index, depth, part)) = pending.pop() {
        let Some(node) = stack.nodes.get(index) else { continue };
        let indent = "  ".repeat(depth);
        let again = std::mem::replace(&mut printed[index], true);
        let text = if again {
            let part = part.map_or_else(String::new, |part| format!("its {part}, "));
            format!("{indent}{} ({part}see above)", node.label())
        } else {
            let mut parts = vec![heading(stack, node)];
            parts.extend(part.map(|part| format!("its {part}")));
            parts.extend(details(node));
            let same = file(node).and_then(|file| images.get(file)).into_iter().flatten();
            let same = same.filter(|&&other| other != index);
            let same: Vec<&str> = same.map(|&other| stack.nodes[other].name.as_str()).collect();
            if !same.is_empty() {
                parts.push(format!("its file is attached to {} too", same.join(", ")));
            }
            if depth == 0 && node.devno.is_some() {
                parts.extend(content::words(node, knows_mounts));
            }
            let others = beside.iter().rev().filter(|other| other.filesystem == index);
            pending.extend(others.map(|other| (other.device, depth + 1, Some(other.what))));
            pending.extend(node.below.iter().rev().map(|&below| (below, depth + 1, None)));
            format!("{indent}{}", parts.join("  "))
        };
        lines.push(Line { node: index, depth, again, text });
    }
    lines
}

/// The tops of a machine in the order in which people look for them: what is mounted from devices, from other machines,
/// devices that nothing stands on, and what lies in memory.
#[must_use]
pub fn ordered_tops(snapshot: &Snapshot) -> Vec<usize> {
    let (machine, is_whole) = (&snapshot.machine, snapshot.targets.is_empty());
    let rank = |&top: &usize| {
        let Some(node) = machine.nodes.get(top) else { return 4 };
        if node.devno.is_some() {
            return 2;
        }
        let below = machine.walk_from(top);
        let has = |wanted: &dyn Fn(&Node) -> bool| below.iter().any(|&i| wanted(&machine.nodes[i]));
        if has(&|node| node.devno.is_some()) {
            0
        } else if has(&|node| node.kind == NodeKind::Memory) {
            3
        } else {
            1
        }
    };
    let mut tops = machine.tops.clone();
    // Journals stand with their filesystems, also in snapshots that did not know them.
    let beside = beside(&machine.nodes);
    tops.retain(|top| !beside.iter().any(|other| other.device == *top));
    tops.sort_by_cached_key(rank);
    // The root directory stands first also where images on it are attached, which then stand on it.
    let is_root = |node: &Node| node.kind == NodeKind::Mount && node.label() == "/";
    if let Some(root) = machine.nodes.iter().position(is_root).filter(|_| is_whole) {
        tops.retain(|&top| top != root);
        tops.insert(0, root);
    }
    tops
}

fn heading(stack: &Stack, node: &Node) -> String {
    match node.kind {
        NodeKind::Mount => node.label().to_owned(),
        NodeKind::Dm => format!("{}  {}", node.name, name_of(stack, node, None)),
        NodeKind::Disk => format!("{}  {}", node.name, model(node)),
        NodeKind::FileSystem => node.name.clone(),
        _ => name_of(stack, node, None),
    }
}

fn details(node: &Node) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(mount) = &node.mount {
        words.push(format!("mount of {}", mount.source));
        words.extend(part_of_filesystem(mount).map(|part| format!("its {part}")));
        words.push(mount_words(mount));
    }
    fs_details(node, &mut words);
    words.extend(node.size_bytes.filter(|&bytes| bytes > 0).map(format_size));
    if let Some(partition) = &node.partition {
        words
            .extend(partition.start_bytes.map(|start| format!("starts at {}", format_size(start))));
    }
    if let Some(md) = &node.md {
        words.extend(md.array_state.clone());
        let share = md.sync_completed_share.map(|share| format!(" {:.0} %", share * 100.0));
        words.extend(md.sync_action.as_ref().map(|a| format!("{a}{}", share.unwrap_or_default())));
    }
    if let Some(loop_device) = &node.loop_device {
        let direct = loop_device.direct_io.map(|d| if d { "direct" } else { "buffered" });
        words.extend(direct.map(|how| format!("{how} I/O to its file")));
    }
    if let Some(drive) = &node.drive {
        drive_details(drive, &mut words);
    }
    if node.kind != NodeKind::Partition {
        queue_details(node, &mut words);
    }
    if node.read_only == Some(true) {
        words.push("read-only".to_owned());
    }
    words
}

/// The options that mountinfo shows and those in force that matter, each once.
fn mount_words(mount: &MountFacts) -> String {
    let mut words: Vec<String> = Vec::new();
    let listed = mount.options.iter().chain(&mount.super_options).cloned();
    for option in listed.chain(shown_options(mount)) {
        if !words.contains(&option) {
            words.push(option);
        }
    }
    words.join(",")
}

fn fs_details(node: &Node, words: &mut Vec<String>) {
    let Some(fs) = &node.fs else { return };
    if let (Some(free), Some(total @ 1..)) = (fs.available_bytes, fs.total_bytes) {
        words.push(format!("{} free of {}", format_size(free), format_size(total)));
    }
    words.extend(fs.block_bytes.map(|bytes| format!("block {}", format_size(bytes))));
    if let (Some(unit), Some(width)) = (fs.stripe_unit_bytes, fs.stripe_width_bytes)
        && unit > 0
    {
        words.push(format!("stripe {} x {}", format_size(unit), width / unit));
    }
    if !fs.data_profiles.is_empty() {
        let (data, metadata) = (fs.data_profiles.join("+"), fs.metadata_profiles.join("+"));
        words.push(format!("data {data}, metadata {metadata}"));
    }
    let devices = node.details().filesystem.iter().filter_map(|(name, value)| {
        let is_one = name.starts_with("devinfo/") && name.ends_with("/missing");
        is_one.then_some(value == "1")
    });
    let devices: Vec<bool> = devices.collect();
    let missing = devices.iter().filter(|&&missing| missing).count();
    if missing > 0 {
        words.push(format!("{missing} of {} devices missing", devices.len()));
    }
}

fn drive_details(drive: &DriveFacts, words: &mut Vec<String>) {
    // What an emulator does not know is `Unknown` with 0 lanes.
    let speed = drive.link_speed.clone().filter(|speed| !speed.starts_with("Unknown"));
    let link = [drive.transport.clone(), speed];
    let mut link: Vec<String> = link.into_iter().flatten().collect();
    link.extend(drive.link_width.filter(|&lanes| lanes > 0).map(|lanes| format!("x{lanes}")));
    words.push(link.join(" "));
    words.extend(drive.serial.as_ref().map(|serial| format!("serial {serial}")));
    words.extend(drive.firmware.as_ref().map(|firmware| format!("firmware {firmware}")));
    words.extend(drive.queue_depth.map(|depth| format!("takes {} at once", format_count(depth))));
    words.extend(drive.io_policy.as_ref().map(|policy| format!("path policy {policy}")));
    words.extend(drive.state.clone());
    words.retain(|word| !word.is_empty());
}

fn queue_details(node: &Node, words: &mut Vec<String>) {
    let Some(queue) = &node.queue else { return };
    let blocks = [queue.logical_block_bytes, queue.physical_block_bytes];
    if let [Some(logical), Some(physical)] = blocks {
        words.push(format!("blocks {}/{}", format_size(logical), format_size(physical)));
    }
    words.extend(queue.scheduler.as_ref().map(|scheduler| format!("scheduler {scheduler}")));
    let sectors = |kib: u64| format!("read-ahead {kib} KiB ({} sectors)", kib.saturating_mul(2));
    words.extend(queue.read_ahead_kib.map(sectors));
    words.extend(queue.write_cache.as_ref().map(|cache| format!("cache {cache}")));
    if queue.rotational == Some(true) {
        words.push("rotating".to_owned());
    }
}
