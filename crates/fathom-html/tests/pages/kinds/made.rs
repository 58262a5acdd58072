//! Made-up runs for the tests of pages: records with a course, an array below, devices that counted.

use super::sample;
use fathom_model::record::{
    DeviceDelta, IntervalRecord, OpClass, Record, RunHead, RunKind, SlowOp,
};
use fathom_model::stack::{Node, NodeKind, QueueFacts, Stack, StackAround};
use fathom_model::watch::{DeviceCounts, DeviceSample, FlowCounts, Sample, WatchRecord};
use fathom_stats::{Histogram, SparseHistogram};
use fathom_study::compare::Run;

const SECOND_NS: u64 = 1_000_000_000;

/// A minute of reads in six intervals, so many per second in each; every hundredth takes ten times as long, the last of an interval
/// longest.
pub fn record(label: &str, per_s: &[u64], typical_ns: u64) -> Record {
    let length_ns = 60 * SECOND_NS / per_s.len() as u64;
    let counts = per_s.iter().map(|per_s| per_s * length_ns / SECOND_NS);
    let mut record = sample::record(label, counts.clone().sum(), 4096);
    let job = &mut record.jobs[0];
    let mut all = Histogram::new();
    for (number, count) in (0u64..).zip(counts) {
        let mut latency_ns = Histogram::new();
        for i in 1..=count {
            let tail = if i % 100 == 0 { 10 } else { 1 };
            let last = if i == count { 4 } else { 1 };
            latency_ns.record(typical_ns * tail * last + typical_ns * (i * 7919 % 100) / 100);
        }
        let start_ns = number * length_ns;
        all.merge(&latency_ns);
        if let Some(latency_ns) = latency_ns.max() {
            let offset_bytes = start_ns / 4096 * 4096;
            let end_ns = start_ns + length_ns;
            let (class, file, size_bytes) = (OpClass::Read, 0, 4096);
            job.slowest.push(SlowOp { class, end_ns, latency_ns, file, offset_bytes, size_bytes });
        }
        let class = fathom_model::record::ClassRecord {
            class: OpClass::Read,
            bytes: latency_ns.count() * 4096,
            latency_ns,
        };
        let classes = vec![class.into()];
        job.series.push(IntervalRecord { start_ns, length_ns, classes, open_loop: None });
    }
    job.classes[0].bytes = all.count() * 4096;
    job.classes[0].latency_ns = all;
    record.targets[0].stack = stack();
    record.devices = ["sda", "sdb"].map(|name| device(name, &record)).into();
    record
}

/// Half of what was read.
fn device(name: &str, record: &Record) -> DeviceDelta {
    let class = &record.jobs[0].classes[0];
    DeviceDelta {
        name: name.into(),
        reads: class.latency_ns.count() / 2,
        read_bytes: class.bytes / 2,
        writes: 0,
        written_bytes: 0,
        flushes: None,
        busy_ns: 55 * SECOND_NS,
        in_flight_ns: Some(120 * SECOND_NS),
        kernel_thread_cpu_ns: None,
    }
}

/// What the disks counted in each of six intervals: the second disk stands still in the third.
pub fn with_seconds(mut record: Record) -> Record {
    let length_ns = 10 * SECOND_NS;
    let mut course = WatchRecord::new(length_ns, 0);
    for index in 0..6 {
        let device = |name: &str, requests: u64| {
            let reads =
                FlowCounts { requests, sectors: 8 * requests, took_ms: 4 * requests, merged: 0 };
            let busy_ms = if requests > 0 { 9_000 } else { 10_000 };
            let queued_ms = reads.took_ms.max(20_000);
            let counts = DeviceCounts { reads, busy_ms, queued_ms, ..DeviceCounts::default() };
            DeviceSample {
                name: name.into(),
                title: String::new(),
                depth: 0,
                rates: counts.rates(length_ns),
                counts,
                stands_out: None,
                array: None,
                interrupts: Vec::new(),
                latency: None,
            }
        };
        let still = if index == 2 { 0 } else { 500 };
        course.push(&Sample {
            index,
            start_ns: index * length_ns,
            length_ns,
            devices: vec![device("sda", 500), device("sdb", still)],
            ..Sample::default()
        });
    }
    record.watch = Some(Box::new(course));
    record
}

/// ext4 on an array of two disks.
fn stack() -> Stack {
    let node = |kind, name: &str, below: &[usize]| {
        let mut node = Node::new(kind, name);
        node.below = below.to_vec();
        node
    };
    let mut nodes = vec![
        node(NodeKind::Mount, "/srv", &[1]),
        node(NodeKind::FileSystem, "ext4", &[2]),
        node(NodeKind::Md, "md10", &[3, 4]),
        node(NodeKind::Disk, "sda", &[]),
        node(NodeKind::Disk, "sdb", &[]),
    ];
    for node in nodes.iter_mut().skip(2) {
        node.size_bytes = Some(1 << 40);
        node.path = Some(format!("/dev/{}", node.name));
    }
    Stack { path: "/srv".into(), resolved_path: "/srv".into(), nodes, top: 0 }
}

/// A look at a mount, the array or a disk of it before and one after; in between somebody has set another read-ahead, unless it was that
/// before.
pub fn around(path: &str, kib: u64) -> StackAround {
    let look = |kib: u64| {
        let mut stack = stack();
        stack.path = path.to_owned();
        stack.nodes[2].name = "md0".into();
        stack.nodes[2].path = Some("/dev/md0".into());
        let is_it = |node: &Node| node.path.as_deref() == Some(path);
        stack.top = stack.nodes.iter().position(is_it).unwrap_or(0);
        for node in &mut stack.nodes[2..] {
            let scheduler = Some("none".into());
            let is_top = node.kind == NodeKind::Md || node.path.as_deref() == Some(path);
            let read_ahead_kib = Some(if is_top { kib } else { 128 });
            node.queue = Some(QueueFacts { read_ahead_kib, scheduler, ..QueueFacts::default() });
        }
        stack
    };
    StackAround { before: look(128), after: Some(look(kib)) }
}

/// Runs on their own, begun an hour apart, with so many reads per second.
pub fn runs(first: i64, step: i64, per_s: &[u64]) -> Vec<Run> {
    let one = |(number, per_s): (i64, &u64)| {
        let hour = first + number * step;
        let mut record = record("randread", &[*per_s; 6], 1_000_000_000 / per_s);
        record.started_unix_ns += hour * 3_600_000_000_000;
        let head = sample::head(RunKind::Run, "fathom run randread /srv", "/srv");
        let started_unix_ns = record.started_unix_ns;
        let id = format!("{hour:04}abcdefgh");
        Run {
            head: RunHead { id, started_unix_ns, ..head },
            records: vec![record],
            unfinished: None,
        }
    };
    (0..).zip(per_s).map(one).collect()
}

/// A course that is not there any more.
pub fn without_course(mut record: Record) -> Record {
    record.jobs[0].series.clear();
    record
}

/// Makes all latencies of a record those of a commit.
pub fn as_commits(mut record: Record) -> Record {
    let job = &mut record.jobs[0];
    job.classes[0].class = OpClass::Commit;
    job.slowest.iter_mut().for_each(|op| op.class = OpClass::Commit);
    for interval in &mut job.series {
        interval.classes[0].class = OpClass::Commit;
        let kept = SparseHistogram::from(&Histogram::from(&interval.classes[0].latency_ns));
        interval.classes[0].latency_ns = kept;
    }
    record
}
