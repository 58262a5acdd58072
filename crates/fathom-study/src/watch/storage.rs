//! What the layers below a watch say of its devices: whether the kernel counts what they do, and how many heads carry them.

use super::{WatchedDevice, pieces};
use fathom_check::rules::heads_move;
use fathom_model::finding::{Finding, Severity};
use fathom_model::record::Record;
use fathom_model::stack::{Node, NodeKind, Stack};
use fathom_model::watch::DeviceSeries;
use std::collections::BTreeSet;

/// The layers, and which devices have counted any request at all.
#[derive(Default)]
pub(super) struct Storage<'a> {
    stacks: Vec<&'a Stack>,
    counted: BTreeSet<&'a str>,
}

impl<'a> Storage<'a> {
    /// That of a watch.
    pub(super) fn of(records: &'a [Record]) -> Self {
        let has_counted = |device: &&DeviceSeries| {
            ["reads", "writes"].iter().any(|name| device.counters.series.contains_key(*name))
        };
        let counted = pieces(records).flat_map(|piece| &piece.devices).filter(has_counted);
        let around = records.iter().flat_map(Record::stacks_around);
        Self {
            stacks: around.map(|around| &around.before).collect(),
            counted: counted.map(|device| device.name.as_str()).collect(),
        }
    }

    /// A device and the stack that it stands in, as far as they are known.
    fn find(&self, name: &str) -> Option<(&'a Stack, usize)> {
        let is_it = |node: &Node| node.devno.is_some() && node.name == name;
        self.stacks.iter().find_map(|stack| Some((*stack, stack.nodes.iter().position(is_it)?)))
    }

    /// True when the kernel was told not to count its requests (queue/iostats), and has not. The device mapper and memory count
    /// all the same.
    pub(super) fn is_uncounted(&self, name: &str) -> bool {
        const HEED: [NodeKind; 4] =
            [NodeKind::Disk, NodeKind::Partition, NodeKind::Md, NodeKind::Loop];
        let is_off = |(stack, at): (&Stack, usize)| {
            let node = &stack.nodes[at];
            let queue = stack.queue_of(node).filter(|_| HEED.contains(&node.kind));
            queue.and_then(|queue| queue.iostats) == Some(false)
        };
        !self.counted.contains(name) && self.find(name).is_some_and(is_off)
    }

    /// How many disks that rotate carry a device, each of which serves one request at a time; none where anything else carries
    /// it, or where that is not known.
    pub(super) fn heads(&self, name: &str) -> Option<usize> {
        let (stack, top) = self.find(name)?;
        let own = Stack { top, ..stack.clone() };
        Some(own.disks().len()).filter(|_| heads_move(&own))
    }

    /// What the figures of these devices lack.
    pub(super) fn uncounted(&self, devices: &[WatchedDevice]) -> Option<Finding> {
        let off: Vec<&WatchedDevice> =
            devices.iter().filter(|device| self.is_uncounted(&device.name)).collect();
        let names: Vec<&str> = off.iter().map(|device| device.name.as_str()).collect();
        // What stands on it is counted by itself.
        let is_at_top = off.iter().any(|device| device.depth == 0);
        let severity = if is_at_top { Severity::Doubtful } else { Severity::Note };
        let text = format!(
            "the kernel was told not to count the requests of {} (queue/iostats is 0): they are shown as idle, whatever they do",
            names.join(" + ")
        );
        let has_queue = |name: &&&str| {
            let found = self.find(name);
            found.is_some_and(|(stack, at)| stack.nodes[at].kind != NodeKind::Partition)
        };
        let mut finding = Finding::new("counters-off", severity, text);
        for name in names.iter().filter(has_queue) {
            finding = finding.advise(format!("echo 1 > /sys/block/{name}/queue/iostats"));
        }
        (!off.is_empty()).then_some(finding)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::watch::judge;
    use crate::watch::tests::watch;
    use fathom_model::stack::{DriveFacts, QueueFacts, StackAround};

    fn node(kind: NodeKind, name: &str, queue: QueueFacts) -> Node {
        let mut node = Node::new(kind, name);
        node.devno = Some("8:0".to_owned());
        node.queue = Some(queue);
        node
    }

    fn stack(nodes: Vec<Node>) -> Stack {
        let path = "/dev/md0".to_owned();
        Stack { resolved_path: path.clone(), path, nodes, top: 0 }
    }

    /// An array `md0` of disks of which each rotates or does not.
    pub(in crate::watch) fn array(rotational: &[bool]) -> Stack {
        let mut top = node(NodeKind::Md, "md0", QueueFacts::default());
        top.below = (1..=rotational.len()).collect();
        let disk = |(at, rotates): (usize, &bool)| {
            let queue = QueueFacts { rotational: Some(*rotates), ..QueueFacts::default() };
            node(NodeKind::Disk, &format!("sd{at}"), queue)
        };
        stack([top].into_iter().chain(rotational.iter().enumerate().map(disk)).collect())
    }

    /// These layers, and nothing counted.
    pub(in crate::watch) fn storage<'a>(stacks: &'a [Stack], counted: &[&'a str]) -> Storage<'a> {
        Storage { stacks: stacks.iter().collect(), counted: counted.iter().copied().collect() }
    }

    #[test]
    fn heads_are_those_of_disks_that_rotate() {
        let heads = |stack: Stack, name: &str| storage(&[stack], &[]).heads(name);
        assert_eq!(heads(array(&[true; 8]), "md0"), Some(8));
        assert_eq!(heads(array(&[true; 8]), "sd3"), Some(1));
        assert_eq!(heads(array(&[true, false]), "md0"), None);
        assert_eq!(heads(array(&[false]), "md0"), None);
        assert_eq!(heads(array(&[true]), "sdz"), None);
        let mut of_a_guest = array(&[true]);
        let transport = Some("virtio".to_owned());
        of_a_guest.nodes[1].drive = Some(DriveFacts { transport, ..DriveFacts::default() });
        assert_eq!(heads(of_a_guest, "md0"), None);
        let mut on_memory = array(&[true, true]);
        on_memory.nodes[2].kind = NodeKind::Ram;
        assert_eq!(heads(on_memory, "md0"), None);
    }

    /// A watch of so many reads a second of `sda`, whose counters are on or off.
    fn watched(reads: &[u64], iostats: bool, kind: NodeKind) -> Vec<Record> {
        let mut records = watch(reads);
        let queue = QueueFacts { iostats: Some(iostats), ..QueueFacts::default() };
        let before = stack(vec![node(kind, "sda", queue)]);
        let piece = records[0].watch.as_mut().expect("a piece");
        piece.stacks = vec![StackAround { before, after: None }];
        records
    }

    #[test]
    fn counters_that_are_off_are_told_where_nothing_was_counted() {
        let count = |reads: u64, iostats: bool, kind: NodeKind| {
            judge(&watched(&[reads; 4], iostats, kind)).findings.len()
        };
        assert_eq!(count(0, true, NodeKind::Disk), 0);
        // Switched off later, or counted all the same.
        assert_eq!(count(9, false, NodeKind::Disk), 0);
        assert_eq!(count(0, false, NodeKind::Dm), 0);
        let found = judge(&watched(&[0; 4], false, NodeKind::Disk)).findings;
        assert_eq!((found[0].id.as_str(), found[0].severity), ("counters-off", Severity::Doubtful));
        assert_eq!(found[0].advice, ["echo 1 > /sys/block/sda/queue/iostats"]);
    }
}
