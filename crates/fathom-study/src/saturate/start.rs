//! How many requests a stack should be able to work on at once, by what is known of its drives: where a search begins.

use fathom_model::stack::{Node, Stack};
use serde::Serialize;

/// Requests in flight that keep one rotating disk busy with room to sort them.
const PER_SPINDLE: u64 = 20;
/// More than this is not assumed of one drive, however long its queue: a search from there would begin far beyond the knee.
const PER_DRIVE_MAX: u64 = 128;
/// Where nothing is known.
const UNKNOWN: u64 = 32;

/// Where a search begins, and why there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Start {
    /// Requests in flight.
    pub concurrency: u64,
    /// In words: `20 for each of 6 spindles`.
    pub reason: String,
}

/// The parallelism that a stack promises.
#[must_use]
pub fn of_stack(stack: &Stack) -> Start {
    let mut kinds: Vec<(Drive, u64, u64)> = Vec::new();
    for disk in stack.disks() {
        let (drive, each) = drive(stack, disk);
        match kinds.iter_mut().find(|(known, of, _)| *known == drive && *of == each) {
            Some((.., count)) => *count += 1,
            None => kinds.push((drive, each, 1)),
        }
    }
    let known = kinds.iter().any(|(drive, ..)| *drive != Drive::Unknown);
    if !known {
        let reason = "nothing is known of the parallelism below".to_owned();
        return Start { concurrency: UNKNOWN, reason };
    }
    let concurrency = kinds.iter().map(|(_, each, count)| each * count).sum();
    let words: Vec<String> = kinds
        .iter()
        .map(|(drive, each, count)| match count {
            1 => format!("{each} for 1 {}", drive.word()),
            _ => format!("{each} for each of {count} {}s", drive.word()),
        })
        .collect();
    Start { concurrency, reason: words.join(", ") }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Drive {
    Spindle,
    Nvme,
    Queued,
    Unknown,
}

impl Drive {
    fn word(self) -> &'static str {
        match self {
            Self::Spindle => "spindle",
            Self::Nvme => "NVMe drive",
            Self::Queued => "drive with a queue of its own",
            Self::Unknown => "drive of unknown kind",
        }
    }
}

/// What a drive is, and how many requests it is assumed to take.
fn drive(stack: &Stack, disk: &Node) -> (Drive, u64) {
    let facts = disk.drive.as_ref();
    let transport = facts.and_then(|d| d.transport.as_deref()).unwrap_or_default();
    let queue = stack.queue_of(disk);
    // Virtual disks say that they rotate when nobody told them otherwise, and what lies behind them is unknown.
    if matches!(transport, "virtio" | "xen") {
        return (Drive::Unknown, UNKNOWN);
    }
    let depth = facts.and_then(|d| d.queue_depth).or(queue.and_then(|q| q.tags));
    if transport == "nvme" {
        return (Drive::Nvme, depth.unwrap_or(UNKNOWN).clamp(1, PER_DRIVE_MAX));
    }
    if queue.and_then(|q| q.rotational) == Some(true) {
        return (Drive::Spindle, PER_SPINDLE);
    }
    match depth {
        Some(depth) => (Drive::Queued, depth.clamp(1, PER_DRIVE_MAX)),
        None => (Drive::Unknown, UNKNOWN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::stack::{DriveFacts, NodeKind, QueueFacts};

    fn disk(name: &str, transport: &str, rotational: bool, depth: Option<u64>) -> Node {
        let mut node = Node::new(NodeKind::Disk, name);
        node.devno = Some("8:0".into());
        let transport = Some(transport.to_owned());
        node.drive = Some(DriveFacts { transport, queue_depth: depth, ..DriveFacts::default() });
        node.queue = Some(QueueFacts { rotational: Some(rotational), ..QueueFacts::default() });
        node
    }

    fn start(disks: Vec<Node>) -> (u64, String) {
        let mut top = Node::new(NodeKind::Md, "md0");
        top.below = (1..=disks.len()).collect();
        let nodes = std::iter::once(top).chain(disks).collect();
        let path = || "/dev/md0".to_owned();
        let start = of_stack(&Stack { path: path(), resolved_path: path(), nodes, top: 0 });
        (start.concurrency, start.reason)
    }

    #[test]
    fn by_the_drives_below() {
        let spindles = (0..6).map(|i| disk(&format!("sd{i}"), "sata", true, Some(31)));
        assert_eq!(start(spindles.collect()), (120, "20 for each of 6 spindles".into()));
        let nvme = disk("nvme0n1", "nvme", false, Some(1023));
        assert_eq!(start(vec![nvme.clone()]), (128, "128 for 1 NVMe drive".into()));
        let ssd = disk("sda", "sata", false, Some(32));
        let both = "128 for 1 NVMe drive, 32 for 1 drive with a queue of its own";
        assert_eq!(start(vec![nvme, ssd]), (160, both.into()));
        for nothing in [vec![], vec![disk("vda", "virtio", true, Some(128))]] {
            assert_eq!(start(nothing), (32, "nothing is known of the parallelism below".into()));
        }
    }
}
