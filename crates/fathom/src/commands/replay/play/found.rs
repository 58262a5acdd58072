//! What a replay finds out about itself.

use super::count::Counted;
use super::feed::Fed;
use crate::commands::replay::Order;
use fathom_base::units::{format_count, format_ns, format_size};
use fathom_check::rules::heads_move;
use fathom_lab::Lab;
use fathom_load::replay::{ReplayCost, ReplayKind, ReplayRequest};
use fathom_model::finding::{Finding, Severity};
use fathom_model::record::IoFailure;
use fathom_model::stack::Stack;
use fathom_observe::trace::requests::{Map, Mapping};
use fathom_stats::Histogram;
use fathom_study::capture::likeness::FAR;

/// Later than that at the median, and the times were not those of the trace.
const LATE_NS_P50: u64 = 1_000_000;
/// Later than that at 99 %, and than the slowest of 100 requests takes, and something stood still.
const LATE_NS_P99: u64 = 10_000_000;

/// Places in a part of a hard disk that is so many times smaller make seeks of another kind.
const SQUEEZED: f64 = 10.0;

/// Everything but likeness.
pub fn findings(order: &Order<'_>, map: Map, cost: &ReplayCost, counted: &Counted) -> Vec<Finding> {
    let mut found = vec![mapping(map)];
    found.extend(drift(&counted.late_ns, &counted.service_ns));
    let all = order.left_out + order.reference.requests();
    let why = order.why_reads_only.as_deref();
    found.extend(left_out(order.left_out, all, order.args.reads_only, why));
    if counted.durable > 0 {
        let text = format!(
            "{} {} to be durable, or had a flush before: each is issued with fdatasync behind or before it",
            format_count(counted.durable),
            if counted.durable == 1 { "write had" } else { "writes had" }
        );
        found.push(Finding::new("replay-durable", Severity::Note, text));
    }
    if order.speed.is_none() && cost.starved > 1000 {
        let text = "the trace was read more slowly than it could have been replayed".to_owned();
        found.push(
            Finding::new("replay-starved", Severity::Doubtful, text)
                .advise("put the trace on a faster disk, or in memory (a tmpfs)"),
        );
    }
    if counted.failed > 1 {
        let text = format!("{} requests failed", format_count(counted.failed));
        found.push(Finding::new("replay-errors", Severity::Doubtful, text));
    }
    found
}

/// Requests that were not repeated: of many that nobody left out on purpose, the rest is another load.
fn left_out(count: u64, all: u64, is_asked: bool, why: Option<&str>) -> Option<Finding> {
    let share = count as f64 / all.max(1) as f64;
    let is_another = share >= FAR && !is_asked;
    let text = format!(
        "{} requests of the trace were left out, {:.1} % of all{}",
        format_count(count),
        100.0 * share,
        if is_another { ": what was replayed is another load than that of the trace" } else { "" }
    );
    let severity = if is_another { Severity::Doubtful } else { Severity::Note };
    let usual =
        "discards and commands of drivers are not replayed, with --reads-only no writes either";
    let found = Finding::new("replay-left-out", severity, text).advise(why.unwrap_or(usual));
    (count > 0).then(|| match why {
        Some(_) if is_another => {
            found.advise("when the reads alone are meant, say so: --reads-only")
        }
        _ => found,
    })
}

fn mapping(map: Map) -> Finding {
    let how = match map.mapping {
        Mapping::Fit => "places are those of the trace",
        Mapping::Scale => {
            "each MiB of the trace keeps its share of the way through the target, and distances inside of it"
        }
        Mapping::Modulo => "places are counted from the start again where the target ends",
    };
    let (from, to) = (format_size(map.from_bytes), format_size(map.to_bytes));
    let smaller = match squeezed(map) {
        times if times > 1.0 => format!(", {times:.1} times smaller"),
        _ => String::new(),
    };
    let text = format!("{from} on {to} ({}{smaller}): {how}", map.mapping.word());
    Finding::new("replay-map", Severity::Note, text)
}

/// How many times smaller the target is than the device of the trace.
fn squeezed(map: Map) -> f64 {
    match map.mapping {
        Mapping::Fit => 1.0,
        _ => map.from_bytes as f64 / map.to_bytes.max(1) as f64,
    }
}

/// All in a small part of a hard disk, without being asked to: its heads have hardly a way to go.
pub fn short_stroked(map: Map, is_asked: bool, stack: &Stack) -> Option<Finding> {
    let times = squeezed(map);
    if is_asked || times <= SQUEEZED || !heads_move(stack) {
        return None;
    }
    let text = format!(
        "places of {} lie in {} of a disk that rotates, {times:.0} times closer to each other: seeks are shorter, and latencies better, than those of the trace",
        format_size(map.from_bytes),
        format_size(map.to_bytes)
    );
    Some(Finding::new("replay-short-stroked", Severity::Doubtful, text).advise(
        "a larger file (--size), or a whole disk; when that is what you want, say so with --size or --map=scale",
    ))
}

/// What takes the place of io_uring.
pub fn without_ring(order: &Order<'_>) -> Option<Finding> {
    let why = order.why_no_ring.as_ref()?;
    let (severity, what) = if order.args.buffered {
        (
            Severity::Doubtful,
            ", where each waits for the one before: with --buffered the calls do not return earlier",
        )
    } else {
        (Severity::Note, "")
    };
    let text = format!("io_uring cannot be used ({why}): requests are issued by libaio{what}");
    Some(Finding::new("replay-engine", severity, text).advise("fathom doctor says what is missing"))
}

/// How late requests started; none when they had no times.
fn drift(late_ns: &Histogram, service_ns: &Histogram) -> Option<Finding> {
    let (half, most, max) = (late_ns.quantile(0.5)?, late_ns.quantile(0.99)?, late_ns.max()?);
    let text = format!(
        "requests started {} after their time at the median, {} at 99 %, {} at most",
        format_ns(half),
        format_ns(most),
        format_ns(max)
    );
    let usual = service_ns.quantile(0.99).unwrap_or(0).max(LATE_NS_P99);
    if half <= LATE_NS_P50 && most <= usual {
        return Some(Finding::new("replay-drift", Severity::Note, text));
    }
    Some(Finding::new("replay-drift", Severity::Doubtful, text).advise(
        "the target is slower than what was traced, or fathom was held up: more in flight (--depth), or a lower --speed; latency counts \
         from the time of the trace",
    ))
}

/// The trace came to something else than when it was looked at before.
pub fn incomplete(order: &Order<'_>, fed: &Fed) -> Option<Finding> {
    let wanted = order.reference.requests();
    if fed.requests == wanted {
        return None;
    }
    let why = fed.broken.as_ref().map_or_else(String::new, |why| format!(": {why}"));
    let text = format!(
        "{} requests of {} were replayed{why}",
        format_count(fed.requests),
        format_count(wanted)
    );
    Some(
        Finding::new("replay-incomplete", Severity::Void, text)
            .advise("the trace was changed, replaced or became unreadable while it was replayed"),
    )
}

/// Reads that may come from memory.
pub fn cached(lab: &Lab<'_>, order: &Order<'_>, map: Map) -> Option<Finding> {
    let memory_bytes = lab.cache_memory_bytes();
    let has_reads = order.reference.class("read").is_some();
    if !order.args.buffered || !has_reads || map.to_bytes >= memory_bytes {
        return None;
    }
    let text = format!(
        "reads went through the page cache, and the target ({}) is smaller than memory ({}): how many of them reached the device is not known",
        format_size(map.to_bytes),
        format_size(memory_bytes)
    );
    Some(
        Finding::new("replay-cached", Severity::Doubtful, text)
            .advise("without --buffered, or on a target larger than memory"),
    )
}

/// Fewer in flight than asked for.
pub fn lowered(wanted: u32, depth: u32, free_bytes: u64) -> Finding {
    let text = format!(
        "at most {depth} instead of {wanted} in flight: more buffers would be above a quarter of the free memory ({})",
        format_size(free_bytes)
    );
    Finding::new("replay-depth", Severity::Note, text)
}

/// The first request that failed.
pub fn failure(request: ReplayRequest, errno: i32) -> IoFailure {
    let operation = match request.kind {
        ReplayKind::Read => "read",
        ReplayKind::Write => "write",
        ReplayKind::Flush => "fdatasync",
    };
    let ReplayRequest { offset_bytes, size_bytes, .. } = request;
    let reason = std::io::Error::from_raw_os_error(errno);
    let message = format!(
        "{operation} of {size_bytes} bytes at offset {offset_bytes}: {reason}; look at dmesg, and at the size and free space of the target"
    );
    IoFailure {
        job: "replay".to_owned(),
        operation: operation.to_owned(),
        offset_bytes,
        size_bytes,
        errno,
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::stack::{DriveFacts, Node, NodeKind, QueueFacts};

    /// A loop device, which says that it rotates, on a disk.
    fn below_loop(transport: &str, rotational: Option<bool>) -> Stack {
        let node = |kind, name: &str, rotational| {
            let queue = Some(QueueFacts { rotational, ..QueueFacts::default() });
            Node { queue, ..Node::new(kind, name) }
        };
        let mut disk = node(NodeKind::Disk, "sda", rotational);
        let transport = Some(transport.to_owned());
        disk.drive = Some(DriveFacts { transport, ..DriveFacts::default() });
        let top = Node { below: vec![1], ..node(NodeKind::Loop, "loop0", Some(true)) };
        let path = "/dev/loop0".to_owned();
        Stack { resolved_path: path.clone(), path, nodes: vec![top, disk], top: 0 }
    }

    #[test]
    fn a_small_part_of_a_hard_disk_is_doubtful_unless_it_is_asked_for() {
        let map =
            |mapping, to_bytes| Map { mapping, from_bytes: 4 << 40, to_bytes, block_bytes: 512 };
        let told = |map, is_asked, stack: &Stack| short_stroked(map, is_asked, stack).is_some();
        let [rotates, flash, silent] =
            [Some(true), Some(false), None].map(|rotational| below_loop("sata", rotational));
        let small = map(Mapping::Scale, 1 << 30);
        assert!(told(small, false, &rotates) && mapping(small).summary.contains("4096.0 times"));
        for (map, is_asked, stack) in [
            (small, true, &rotates),
            (small, false, &flash),
            (small, false, &silent),
            (map(Mapping::Scale, 1 << 40), false, &rotates),
            (map(Mapping::Fit, 8 << 40), false, &rotates),
        ] {
            assert!(!told(map, is_asked, stack), "{map:?} {is_asked} {stack:?}");
        }
        // Virtual disks say that they rotate, and so do loop devices on them, or on what is not known.
        assert!(!told(small, false, &below_loop("virtio", Some(true))));
        let mut alone = rotates.clone();
        alone.nodes[0].below.clear();
        assert!(!told(small, false, &alone));
        assert!(!mapping(map(Mapping::Fit, 8 << 40)).summary.contains("times"));
    }

    #[test]
    fn what_is_left_of_a_trace_of_writes_is_no_likeness_of_it() {
        let severity = |count, is_asked, why| {
            left_out(count, 3003, is_asked, why).map(|finding| finding.severity)
        };
        let why = Some("a device is written with --destroy only");
        assert_eq!(severity(0, false, None), None);
        assert_eq!(severity(2854, false, why), Some(Severity::Doubtful));
        assert_eq!(severity(2854, true, None), Some(Severity::Note));
        assert_eq!(severity(700, false, why), Some(Severity::Note));
        assert_eq!(severity(1500, false, None), Some(Severity::Doubtful));
        let text = left_out(2854, 3003, false, why).unwrap();
        assert!(
            text.summary.contains("95.0 % of all: what was replayed is another load"),
            "{}",
            text.summary
        );
    }

    #[test]
    fn late_starts_are_doubtful_at_the_median_and_at_the_end() {
        let of = |values: &[u64]| {
            let mut all = Histogram::new();
            values.iter().for_each(|value| all.record(*value));
            all
        };
        let severity = |late: &[u64], service: &[u64]| {
            drift(&of(late), &of(service)).map(|finding| finding.severity)
        };
        let (note, doubtful) = (Some(Severity::Note), Some(Severity::Doubtful));
        assert_eq!(severity(&[], &[1]), None);
        assert_eq!(severity(&[10_000; 100], &[50_000; 100]), note);
        assert_eq!(severity(&[2_000_000; 100], &[50_000; 100]), doubtful);
        // Most at their time, a few seconds late: their answers did not take that long.
        let few = [&[10_000; 95][..], &[5_000_000_000; 5]].concat();
        assert_eq!(severity(&few, &[50_000; 100]), doubtful);
        let slow = [&[50_000; 95][..], &[6_000_000_000; 5]].concat();
        assert_eq!(severity(&few, &slow), note);
    }
}
