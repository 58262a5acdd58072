//! Records for the tests of this crate, as the measuring side makes them.

use fathom_model::builtin;
use fathom_model::extents::{ExtentSource, FileExtents};
use fathom_model::record::{
    CensoredOp, ClassRecord, CpuTime, DeviceDelta, Ending, EngineRecord, IntervalRecord, JobRecord,
    OpClass, PageCacheDelta, RECORD_VERSION, Record, SlowOp, SystemCpu, SystemEvents, TargetKind,
    TargetRecord,
};
use fathom_model::stack::{Node, NodeKind, Stack};
use fathom_model::workload::EngineKind;
use fathom_stats::Histogram;

const SECOND_NS: u64 = 1_000_000_000;

/// `count` latencies around `typical_ns` with a thin long tail, always the same.
pub(crate) fn class(class: OpClass, count: u64, typical_ns: u64, size_bytes: u64) -> ClassRecord {
    let mut latency_ns = Histogram::new();
    for i in 0..count {
        let body = typical_ns / 2 + typical_ns * (i * 7919 % 1000) / 1000;
        let tail = if i % 97 == 3 { typical_ns * 3 } else { 0 };
        latency_ns.record(body + tail + if i == count / 2 { typical_ns * 20 } else { 0 });
    }
    ClassRecord { class, latency_ns, bytes: count * size_bytes }
}

pub(crate) fn series(counts: &[u64], length_ns: u64) -> Vec<IntervalRecord> {
    let starts = (0..).map(|i: u64| i * length_ns);
    let interval = |(start_ns, count): (u64, &u64)| IntervalRecord {
        start_ns,
        length_ns,
        classes: vec![class(OpClass::Read, *count, 1_000_000, 4096).into()],
        open_loop: None,
    };
    starts.zip(counts).map(interval).collect()
}

/// A job without any operation.
pub(crate) fn job(name: &str) -> JobRecord {
    JobRecord {
        name: name.into(),
        engine: EngineRecord {
            kind: EngineKind::IoUring,
            fallback: None,
            features: vec!["single_issuer".into(), "defer_taskrun".into(), "fixed_buffers".into()],
            threads: 1,
            depth: 1,
            batch: 1,
        },
        classes: Vec::new(),
        series: Vec::new(),
        slowest: Vec::new(),
        censored: Vec::new(),
        batches: 0,
        cpu: CpuTime::default(),
        thread_operations: Vec::new(),
        thread_times: Vec::new(),
        limits: fathom_model::limits::LimitsRecord::default(),
        busiest_thread_cpu_ns: 0,
        final_sync_ns: None,
        window_ns: 60 * SECOND_NS,
        open_loop: None,
        verify: None,
        delivered: None,
        control_group: None,
    }
}

/// A record of a built-in workload with one job, whose name is the workload's.
pub(crate) fn record(workload: &str, label: &str, classes: Vec<ClassRecord>) -> Record {
    let workload = builtin::named(workload).expect("built in");
    let job = JobRecord { classes, ..job(&workload.jobs[0].name) };
    Record {
        cell: None,
        fsop: None,
        watch: None,
        capture: None,
        version: RECORD_VERSION,
        label: label.into(),
        workload,
        targets: vec![target()],
        jobs: vec![job],
        started_unix_ns: 1_795_230_000_000_000_000,
        window_ns: 60 * SECOND_NS,
        process_cpu: CpuTime { user_ns: SECOND_NS / 5, system_ns: SECOND_NS },
        system_cpu: SystemCpu { busy_share: 0.031, iowait_share: 0.25, steal_share: 0.0 },
        system_events: Some(SystemEvents { interrupts: 120_000, context_switches: 240_000 }),
        devices: Vec::new(),
        page_cache: PageCacheDelta::default(),
        suspended_ns: 0,
        held_up_ns: 0,
        heat: fathom_model::record::HeatRecord::default(),
        control_group: None,
        ending: Ending::Complete,
        failure: None,
        seed: 42,
        findings: Vec::new(),
    }
}

fn target() -> TargetRecord {
    TargetRecord {
        path: "/srv/data/.fathom-7f3k/f0".into(),
        kind: TargetKind::OwnFile,
        size_bytes: 8 << 30,
        direct: true,
        direct_honoured: Some(true),
        extents: Some(FileExtents {
            source: ExtentSource::Fiemap,
            size_bytes: 8 << 30,
            extents: Some(5),
            fragments: Some(3),
            first_byte: Some(1 << 30),
            last_byte: Some((13 << 30) - 1),
            allocated_bytes: 8 << 30,
            hole_bytes: 0,
            unwritten_bytes: 0,
            shared: false,
            inline: false,
            encoded: false,
            physical_is_logical: false,
            share_of_device: Some(0.003),
        }),
        is_never_read: false,
        device_cache_bytes: 512 << 20,
        device_cache_reason: "256 MiB assumed for each of 2 disks".into(),
        memory_bytes: 16 << 30,
        stack: Stack {
            path: "/srv/data".into(),
            resolved_path: "/srv/data".into(),
            nodes: vec![Node::new(NodeKind::Mount, "/srv/data")],
            top: 0,
        },
    }
}

/// The rows of `fathom quick`.
pub(crate) fn quick() -> Vec<Record> {
    let read = |count, ns, size| vec![class(OpClass::Read, count, ns, size)];
    vec![
        record("seqread", "sequential read", read(17_280, 3_400_000, 1 << 20)),
        record(
            "seqwrite",
            "sequential write",
            vec![class(OpClass::Write, 6780, 8_200_000, 1 << 20)],
        ),
        record("randread", "random read, 1 in flight", read(5340, 11_000_000, 4096)),
        record("randread", "random read, 64 in flight", read(46_500, 71_000_000, 4096)),
        randomio(900),
        commit(),
    ]
}

/// The mix at about the given operations per second.
pub(crate) fn randomio(iops: u64) -> Record {
    let (reads, writes, commits) = (iops * 48, iops * 11, iops);
    let classes = vec![
        class(OpClass::Read, reads, 43_000_000, 4096),
        class(OpClass::Write, writes, 2_000_000, 4096),
        class(OpClass::SyncedWrite, commits, 1_000_000, 4096),
        class(OpClass::Sync, commits, 30_000_000, 0),
        class(OpClass::Commit, commits, 31_000_000, 0),
    ];
    let mut record = record("randomio", "mixed (20 % writes), 48", classes);
    let job = &mut record.jobs[0];
    job.engine.threads = 48;
    job.batches = reads + writes;
    job.cpu = CpuTime { user_ns: SECOND_NS / 10, system_ns: SECOND_NS / 2 };
    job.busiest_thread_cpu_ns = SECOND_NS / 40;
    job.series = series(&[900, 910, 905, 890, 880, 10, 0, 20, 870, 900], 6 * SECOND_NS);
    let slow = |i: u64| SlowOp {
        class: if i.is_multiple_of(2) { OpClass::Read } else { OpClass::Sync },
        end_ns: 31_200_000_000 + i * 1_000_000,
        latency_ns: 1_175_000_000 - i * 50_000_000,
        file: 0,
        offset_bytes: (1 << 33) + i * 4096,
        size_bytes: if i.is_multiple_of(2) { 4096 } else { 0 },
    };
    job.slowest = (0..8).map(slow).collect();
    let censored = |i: u64| CensoredOp {
        class: OpClass::Write,
        age_ns: 19_600_000_000 - i * 1_000_000_000,
        file: 0,
        offset_bytes: 12_288 + i * 4096,
        size_bytes: 4096,
    };
    job.censored = (0..3).map(censored).collect();
    record.devices = ["sda", "md10"]
        .map(|name| DeviceDelta {
            name: name.into(),
            reads,
            read_bytes: reads * 4096,
            writes,
            written_bytes: writes * 4096,
            flushes: (name == "sda").then_some(commits),
            busy_ns: 59_400_000_000,
            in_flight_ns: None,
            kernel_thread_cpu_ns: None,
        })
        .into();
    record
}

/// Nothing but writes with their syncs.
pub(crate) fn commit() -> Record {
    let classes = vec![
        class(OpClass::SyncedWrite, 6240, 60_000, 4096),
        class(OpClass::Sync, 6240, 9_000_000, 0),
        class(OpClass::Commit, 6240, 9_100_000, 0),
    ];
    record("commit", "commit (append + fdatasync)", classes)
}

/// Rounds of read, write, log and sync.
pub(crate) fn replication() -> Record {
    let classes = vec![
        class(OpClass::Read, 3000, 8_000_000, 16_384),
        class(OpClass::SyncedWrite, 6000, 1_000_000, 10_240),
        class(OpClass::Sync, 3000, 9_000_000, 0),
        class(OpClass::Transaction, 3000, 19_000_000, 0),
    ];
    record("replication", "replication", classes)
}

/// A run that was ended by the user after a few operations.
pub(crate) fn interrupted() -> Record {
    let mut record = record("seeker", "seeker", vec![class(OpClass::Read, 9, 11_000_000, 4096)]);
    record.ending = Ending::Interrupted;
    record.window_ns = 2 * SECOND_NS;
    record.jobs[0].window_ns = 2 * SECOND_NS;
    record
}
