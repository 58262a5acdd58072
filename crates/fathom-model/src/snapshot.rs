//! A snapshot: every fact about a machine's storage at one moment, enough to judge it on another machine.

use crate::beside::beside;
use crate::host::HostFacts;
use crate::stack::{Node, NodeKind};
use crate::system::SystemFacts;
use crate::vendor::Controller;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Version of the form that snapshots are stored in. A program reads its own and older ones.
pub const SNAPSHOT_FORMAT: u32 = 1;

/// Every fact about a machine's storage at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// Form of this snapshot: [`SNAPSHOT_FORMAT`].
    pub format: u32,
    /// Version of the fathom that made it.
    pub fathom: String,
    /// Seconds since 1970.
    pub made_at_unix_s: i64,
    /// True when serial numbers, names and addresses were replaced.
    pub anonymised: bool,
    /// The target that was asked for, as given and resolved; empty for the whole machine.
    pub targets: Vec<String>,
    /// The graph.
    pub machine: Machine,
    /// Facts that go with records too.
    pub host: HostFacts,
    /// Everything else about the system.
    pub system: SystemFacts,
    /// Hardware RAID controllers as their makers' tools describe them.
    pub controllers: Vec<Controller>,
    /// The newest measurements of parts of this machine, from the store.
    pub measured: Vec<Measured>,
    /// What could not be read, and why.
    pub unread: Vec<Unread>,
}

/// Something that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Unread {
    /// A path, or a device and what was asked of it.
    pub what: String,
    /// Why: `no permission`, `vanished`, `suspended: not touched`, `standby: not woken`, `unreadable: ...`.
    pub why: String,
}

/// The figures of a stored measurement that rules need.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Measured {
    /// Identifier of the run.
    pub run: String,
    /// When it was made, seconds since 1970.
    pub made_at_unix_s: i64,
    /// Keys of the nodes that it went to: the mount or the device at the top.
    pub target: String,
    /// The workload, such as `seqread`; of `fathom quick` with its row: `quick, sequential read`.
    pub workload: String,
    /// `trusted`, `doubtful` or `void`.
    pub verdict: String,
    /// Threads times depth.
    pub in_flight: u64,
    /// Mean request size.
    pub request_bytes_mean: f64,
    /// Sizes of requests with their shares, 0 to 1.
    pub request_sizes: Vec<(u64, f64)>,
    /// Bytes per second read.
    pub read_bytes_per_s: Option<f64>,
    /// Bytes per second written.
    pub write_bytes_per_s: Option<f64>,
    /// Median latency of a read.
    pub read_latency_ns_p50: Option<u64>,
    /// Mean latency of a read.
    pub read_latency_ns_mean: Option<f64>,
    /// True when the reads were at random places.
    pub random: bool,
    /// True when writes were made durable one by one or in small groups: their rate is that of commits.
    pub flushed: bool,
    /// Findings of the run, by name.
    pub findings: Vec<String>,
}

/// All layers of a machine as one graph. Shared layers stand in it once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// All nodes.
    pub nodes: Vec<Node>,
    /// Indexes of those that nothing stands on: mounts, unused devices.
    pub tops: Vec<usize>,
}

/// What [`Unread`] calls the list of mounts: without it nobody can say that something is not mounted.
pub const MOUNTS_FILE: &str = "/proc/self/mountinfo";

impl Machine {
    /// The nodes directly below.
    pub fn below<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = &'a Node> + 'a {
        node.below.iter().filter_map(|&index| self.nodes.get(index))
    }

    /// For each node the indexes of those that stand directly on it, or use it beside what they stand on (a journal).
    #[must_use]
    pub fn above(&self) -> Vec<Vec<usize>> {
        let mut above = vec![Vec::new(); self.nodes.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            for &below in &node.below {
                // Who names it twice stands last in the list.
                if let Some(list) = above.get_mut(below)
                    && list.last() != Some(&index)
                {
                    list.push(index);
                }
            }
        }
        for other in beside(&self.nodes) {
            above[other.device].push(other.filesystem);
        }
        above
    }

    /// Indexes by [`Node::key`].
    #[must_use]
    pub fn by_key(&self) -> BTreeMap<String, usize> {
        self.nodes.iter().enumerate().map(|(index, node)| (node.key(), index)).collect()
    }

    /// Everything that can be reached downwards from a node, itself first, each once; ends in circles too.
    #[must_use]
    pub fn walk_from(&self, index: usize) -> Vec<usize> {
        let (mut reached, mut pending) = (Reached::default(), vec![index]);
        while let Some(next) = pending.pop() {
            let Some(node) = self.nodes.get(next) else { continue };
            if reached.add(next) {
                pending.extend(node.below.iter().rev());
            }
        }
        reached.order
    }

    /// What contradicts itself in a graph that was stored: layers that do not exist, or that stand on themselves.
    #[must_use]
    pub fn contradiction(&self) -> Option<String> {
        let count = self.nodes.len();
        if let Some(top) = self.tops.iter().find(|&&top| top >= count) {
            return Some(format!("layer {top} at the top does not exist"));
        }
        let mut carried = vec![0usize; count];
        for (index, node) in self.nodes.iter().enumerate() {
            for &below in &node.below {
                match carried.get_mut(below) {
                    Some(number) => *number += 1,
                    None => {
                        return Some(format!("layer {index} stands on one that does not exist"));
                    }
                }
            }
        }
        // Layers are taken off from the top; those of a circle stay.
        let mut free: Vec<usize> = (0..count).filter(|&index| carried[index] == 0).collect();
        let mut taken = 0;
        while let Some(index) = free.pop() {
            taken += 1;
            for &below in &self.nodes[index].below {
                carried[below] -= 1;
                if carried[below] == 0 {
                    free.push(below);
                }
            }
        }
        (taken < count).then(|| "a layer stands on itself".to_owned())
    }

    /// The whole disks under a node, itself included.
    #[must_use]
    pub fn disks_under(&self, index: usize) -> Vec<usize> {
        let walk = self.walk_from(index).into_iter();
        walk.filter(|&i| self.nodes[i].kind == NodeKind::Disk).collect()
    }
}

/// Nodes in the order in which they are reached, each once. Few of a large machine's nodes are, mostly a handful.
#[derive(Debug, Default)]
pub struct Reached {
    /// The nodes.
    pub order: Vec<usize>,
    /// The same, once they are too many to be looked through.
    known: BTreeSet<usize>,
}

impl Reached {
    /// Adds a node, and says whether it was not there yet.
    pub fn add(&mut self, index: usize) -> bool {
        const FEW: usize = 32;
        let is_new = if self.order.len() < FEW {
            !self.order.contains(&index)
        } else {
            if self.known.is_empty() {
                self.known.extend(&self.order);
            }
            self.known.insert(index)
        };
        if is_new {
            self.order.push(index);
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::{Machine, Node, NodeKind, Reached};

    #[test]
    fn graphs_that_contradict_themselves() {
        let graph = |tops: &[usize], below: [&[usize]; 3]| {
            let nodes = below.map(|below| {
                let mut node = Node::new(NodeKind::Unknown, "x");
                node.below = below.to_vec();
                node
            });
            Machine { nodes: nodes.to_vec(), tops: tops.to_vec() }.contradiction()
        };
        // Twice on the same is no circle.
        assert_eq!(graph(&[0], [&[1, 2, 2], &[2], &[]]), None);
        for (tops, below, words) in [
            (&[3][..], [&[][..], &[], &[]], "layer 3 at the top does not exist"),
            (&[0], [&[1], &[9], &[]], "layer 1 stands on one that does not exist"),
            (&[0], [&[1], &[1], &[]], "a layer stands on itself"),
            (&[0], [&[1], &[2], &[1]], "a layer stands on itself"),
        ] {
            assert_eq!(graph(tops, below).as_deref(), Some(words));
        }
    }

    #[test]
    fn what_is_reached_is_there_once() {
        let mut reached = Reached::default();
        for index in (0..100).chain(0..100).rev() {
            let is_known = reached.order.contains(&index);
            assert_eq!(reached.add(index), !is_known, "{index}");
        }
        assert_eq!(reached.order, (0..100).rev().collect::<Vec<_>>());
    }
}
