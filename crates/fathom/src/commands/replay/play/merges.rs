//! Whether the device got as many requests as that of the trace, by its own counts: what was merged or cut on the way there is not by itself so here.

use crate::commands::replay::Order;
use fathom_base::units::format_count;
use fathom_load::replay::ReplayCost;
use fathom_model::finding::{Finding, Severity};
use fathom_model::record::{DeviceDelta, Record};
use fathom_model::stack::Stack;
use fathom_observe::trace::requests::DriverCount;

/// True when one is half as many again as the other: another load of the device.
fn is_more(one: u64, other: u64) -> bool {
    2 * one > 3 * other
}

/// Of fewer that says little.
const DRIVER_MIN: u64 = 100;
/// The smallest request: of the bytes that others moved none can have had more.
const SECTOR_BYTES: u64 = 512;

/// What the device counted of a class, beside what the trace has and what was handed over.
#[derive(Debug, Clone, Copy)]
struct Seen {
    driver: DriverCount,
    /// What fathom handed over.
    issued: u64,
    issued_bytes: u64,
    /// What the devices on top counted, of everybody.
    count: u64,
    bytes: u64,
    /// Of the count those that move nothing, as each flush that is asked for is a write to these counters: at least and at most.
    empty: (u64, u64),
}

/// What became of requests on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// They were merged there, and are not here.
    Apart,
    /// They are cut here.
    Cut,
    /// More are merged here, or fewer cut.
    Whole,
}

impl Way {
    fn words(self) -> &'static str {
        match self {
            Self::Apart => "fewer were merged",
            Self::Cut => "more were cut",
            Self::Whole => "more were merged, or fewer were cut,",
        }
    }

    fn advice(self) -> &'static str {
        match self {
            Self::Apart => {
                "what was merged within a millisecond is handed over as one request, what was later is left to the target's scheduler: compare its scheduler and nomerges with those of the device of the trace"
            }
            Self::Cut => {
                "the target takes less at once: compare its max_sectors_kb and max_segments with those of the device of the trace"
            }
            Self::Whole => {
                "compare the target's scheduler, nomerges and max_sectors_kb with those of the device of the trace"
            }
        }
    }
}

impl Seen {
    /// What was handed over, as far as others cannot have had it: they have a sector for each request at least.
    fn ours_min(&self) -> u64 {
        let others = self.bytes.saturating_sub(self.issued_bytes) / SECTOR_BYTES;
        self.count.saturating_sub(others + self.empty.1)
    }

    fn ours_max(&self) -> u64 {
        self.count.saturating_sub(self.empty.0)
    }

    /// None where the numbers are alike, too small, or not known.
    fn way(&self) -> Option<Way> {
        let DriverCount { count, pieces } = self.driver;
        if count == 0 || self.count == 0 || count.max(self.count) < DRIVER_MIN {
            return None;
        }
        let ours = self.ours_min();
        // Larger ones are issued in pieces, by fathom itself, from buffers of many segments.
        if is_more(ours, pieces) {
            let is_cut = is_more(ours, self.issued);
            return Some(if is_cut { Way::Cut } else { Way::Apart });
        }
        is_more(count, self.ours_max()).then_some(Way::Whole)
    }
}

/// True where the counts of a device are those of what its driver gets. Devices that hand on what they get (md, device mapper, zram) count it
/// before anything is merged or cut.
fn counts_at_driver(stack: &Stack) -> bool {
    stack.top_block_devices().into_iter().all(|node| {
        stack.queue_of(node).is_some_and(|queue| {
            let schedules = queue.scheduler.as_ref().is_some_and(|name| name != "none");
            queue.hardware_queues.is_some() || schedules
        })
    })
}

/// What arrived is the same, but not what became of it on the way to the device: more or fewer were merged or cut there. Reads and writes
/// apart, as many of one hide what became of the other. At another speed, or through the page cache, that is as it has to be.
pub fn otherwise(
    order: &Order<'_>,
    record: &Record,
    stack: &Stack,
    cost: &ReplayCost,
) -> Option<Finding> {
    let tops: Vec<&str> = stack.top_block_devices().iter().map(|n| n.name.as_str()).collect();
    let is_top = |device: &&DeviceDelta| tops.contains(&device.name.as_str());
    let devices: Vec<&DeviceDelta> = record.devices.iter().filter(is_top).collect();
    if order.wanted.of_driver || devices.is_empty() || !counts_at_driver(stack) {
        return None;
    }
    let sum = |of: fn(&DeviceDelta) -> u64| devices.iter().map(|device| of(device)).sum::<u64>();
    let seen =
        [(sum(|d| d.reads), sum(|d| d.read_bytes)), (sum(|d| d.writes), sum(|d| d.written_bytes))];
    let flushes = sum(|d| d.flushes.unwrap_or(0));
    let empty = [(0, 0), (flushes.min(cost.syncs), flushes + cost.syncs)];
    let mut told = Vec::new();
    for (at, word) in ["read", "write"].into_iter().enumerate() {
        let class = record.capture.as_deref().and_then(|capture| capture.class(word));
        let Some(class) = class.filter(|class| class.count > 0) else { continue };
        let (count, bytes) = seen[at];
        let seen = Seen {
            driver: order.driver[at],
            issued: cost.issued[at],
            issued_bytes: class.bytes,
            count,
            bytes,
            empty: empty[at],
        };
        told.extend(seen.way().map(|way| (word, seen, way)));
    }
    let (_, _, way) = told.first()?;
    let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
    let names = names.join(" + ");
    let all: Vec<String> =
        told.iter().map(|(word, seen, way)| text(&names, word, seen, *way)).collect();
    let is_buffered = order.args.buffered;
    let is_as_asked = order.speed != Some(1.0) || is_buffered;
    let severity = if is_as_asked { Severity::Note } else { Severity::Doubtful };
    let advice = if is_buffered {
        "with --buffered the page cache gathers what is written and reads ahead; without it each request goes its own way"
    } else {
        way.advice()
    };
    Some(Finding::new("replay-merges", severity, all.join("; ")).advise(advice))
}

fn text(names: &str, word: &str, seen: &Seen, way: Way) -> String {
    let here = if way == Way::Whole { seen.ours_max() } else { seen.ours_min() };
    let is_sure = seen.ours_min() == seen.ours_max();
    let limit = match way {
        _ if is_sure => "",
        Way::Whole => "at most ",
        _ => "at least ",
    };
    format!(
        "the device of the trace got {} {word}s, {names} got {limit}{}: on the way {} than there",
        format_count(seen.driver.count),
        format_count(here),
        way.words()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::stack::{Node, NodeKind, QueueFacts};

    const KIB: u64 = 1 << 10;

    /// The trace's driver got so many, of so many pieces; so many were handed over, and the device counted so many; each with its bytes.
    fn seen(driver: (u64, u64), issued: (u64, u64), device: (u64, u64)) -> Seen {
        let ((count, pieces), (issued, issued_bytes)) = (driver, issued);
        let driver = DriverCount { count, pieces };
        let (count, bytes) = device;
        Seen { driver, issued, issued_bytes, count, bytes, empty: (0, 0) }
    }

    fn way(driver: (u64, u64), issued: (u64, u64), device: (u64, u64)) -> Option<Way> {
        seen(driver, issued, device).way()
    }

    /// 90 writes and 61 flushes are 151 writes of these counters.
    #[test]
    fn flushes_are_no_writes() {
        let flushed = |driver, count| {
            let issued = (90, 14_942_208);
            Seen { empty: (61, 122), ..seen((driver, driver), issued, (count, 14_942_208)) }
        };
        assert_eq!(flushed(90, 151).way(), None);
        assert_eq!(flushed(90, 90 + 61 + 200).way(), Some(Way::Cut));
        assert_eq!(flushed(151, 151).way(), Some(Way::Whole));
        let told = text("loop0", "write", &flushed(151, 151), Way::Whole);
        assert!(told.contains("loop0 got at most 90: on the way more were merged"), "{told}");
        let told = text("loop0", "write", &flushed(90, 351), Way::Cut);
        assert!(told.contains("loop0 got at least 229: on the way more were cut"), "{told}");
    }

    #[test]
    fn what_others_had_is_not_ours() {
        let few = (150, 600 * KIB);
        assert_eq!(way((150, 150), few, few), None);
        // Somebody else reads 300 times 4 KiB, and the whole disk is somebody else's.
        assert_eq!(way((150, 150), few, (450, 1800 * KIB)), None);
        assert_eq!(way((150, 150), few, (9051, 36_000 * KIB)), None);
        // A journal writes a little beside thousands of requests that were one: that is no excuse.
        let bytes = 50 << 20;
        assert_eq!(way((200, 200), (12_800, bytes), (12_830, bytes + 200 * KIB)), Some(Way::Apart));
    }

    #[test]
    fn pieces_of_fathom_are_not_the_targets() {
        // Files of 8 MiB, 1280 KiB a request there; in pieces of 1 MiB here, each cut in two by 128 pages of a buffer.
        let bytes = 277 * 1280 * KIB;
        assert_eq!(way((277, 3 * 277), (347, bytes), (620, bytes)), None);
        // A device that takes 64 KiB at once.
        assert_eq!(way((277, 3 * 277), (347, bytes), (5540, bytes)), Some(Way::Cut));
        assert_eq!(way((5540, 5540), (347, bytes), (347, bytes)), Some(Way::Whole));
        // 1 MiB there and here; of 127 segments that is three.
        assert_eq!(way((347, 2 * 347), (347, bytes), (3 * 347, bytes)), None);
    }

    #[test]
    fn few_say_nothing_and_half_as_many_again_is_the_limit() {
        assert_eq!(way((10, 10), (99, 4096), (99, 4096)), None);
        assert_eq!(way((10, 10), (100, 4096), (100, 4096)), Some(Way::Apart));
        assert_eq!(way((100, 100), (150, 4096), (150, 4096)), None);
        assert_eq!(way((150, 150), (100, 4096), (100, 4096)), None);
        assert_eq!(way((150, 150), (336, 4096), (336, 4096)), Some(Way::Apart));
        assert_eq!(way((2000, 2000), (4000, 4096), (4000, 4096)), Some(Way::Apart));
        assert_eq!(way((4000, 4000), (2000, 4096), (2000, 4096)), Some(Way::Whole));
        assert_eq!(way((0, 0), (500, 4096), (500, 4096)), None);
    }

    #[test]
    fn devices_that_hand_on_what_they_get_are_not_judged() {
        let stack = |kind, hardware_queues, scheduler: Option<&str>| {
            let scheduler = scheduler.map(str::to_owned);
            let queue = Some(QueueFacts { hardware_queues, scheduler, ..QueueFacts::default() });
            let devno = Some("1:2".to_owned());
            let node = Node { queue, devno, ..Node::new(kind, "x") };
            let path = "/dev/x".to_owned();
            Stack { resolved_path: path.clone(), path, nodes: vec![node], top: 0 }
        };
        for kind in [NodeKind::Zram, NodeKind::Md, NodeKind::Dm] {
            assert!(!counts_at_driver(&stack(kind, None, Some("none"))));
            assert!(!counts_at_driver(&stack(kind, None, None)));
        }
        assert!(counts_at_driver(&stack(NodeKind::Loop, Some(1), Some("none"))));
        // Multipath of device mapper has requests, and so have disks of kernels without blk-mq.
        assert!(counts_at_driver(&stack(NodeKind::Dm, Some(1), Some("none"))));
        assert!(counts_at_driver(&stack(NodeKind::Disk, None, Some("cfq"))));
    }
}
