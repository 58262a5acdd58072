//! A record of a healthy run, for tests to damage.

use fathom_model::extents::{ExtentSource, FileExtents};
use fathom_model::record::*;
use fathom_model::stack::{Node, NodeKind, Stack};
use fathom_model::workload::{EngineKind, Job, Workload};
use fathom_stats::Histogram;

/// Random reads, 60 s, 1000 per second of 4 KiB at 5 ms, from a file on ext4 on sda.
pub fn record() -> Record {
    let mut latency_ns = Histogram::new();
    (0..60_000).for_each(|_| latency_ns.record(5_000_000));
    let bytes = 60_000 * 4096;
    let job = Job { duration_ns: Some(60_000_000_000), ..Job::default() };
    let jobs = vec![JobRecord {
        name: "read".into(),
        engine: EngineRecord {
            kind: EngineKind::IoUring,
            fallback: None,
            features: Vec::new(),
            threads: 1,
            depth: 5,
            batch: 1,
        },
        classes: vec![ClassRecord { class: OpClass::Read, latency_ns, bytes }],
        series: Vec::new(),
        slowest: Vec::new(),
        censored: Vec::new(),
        batches: 60_000,
        in_flight_sum: 300_000,
        cpu: CpuTime { user_ns: 100_000_000, system_ns: 900_000_000 },
        thread_operations: vec![60_000],
        busiest_thread_cpu_ns: 1_000_000_000,
        final_sync_ns: None,
        window_ns: 60_000_000_000,
    }];
    let workload = Workload {
        name: "randread".into(),
        title: String::new(),
        description: String::new(),
        classic: None,
        jobs: vec![job],
    };
    let device = DeviceDelta {
        name: "sda".into(),
        reads: 60_000,
        read_bytes: bytes,
        writes: 10,
        written_bytes: 40_960,
        flushes: None,
        busy_ns: 59_000_000_000,
        kernel_thread_cpu_ns: None,
    };
    Record {
        version: RECORD_VERSION,
        label: "random read".into(),
        workload,
        targets: vec![target()],
        jobs,
        started_unix_ns: 0,
        window_ns: 60_000_000_000,
        process_cpu: CpuTime::default(),
        system_cpu: SystemCpu::default(),
        devices: vec![device],
        page_cache: PageCacheDelta::default(),
        suspended_ns: 0,
        ending: Ending::Complete,
        failure: None,
        seed: 1,
        findings: Vec::new(),
    }
}

/// An 8 GiB file of fathom's on a quarter of a disk.
fn target() -> TargetRecord {
    let mut mount = Node::new(NodeKind::Mount, "/srv");
    mount.below = vec![1];
    let mut fs = Node::new(NodeKind::FileSystem, "ext4");
    fs.below = vec![2];
    let mut disk = Node::new(NodeKind::Disk, "sda");
    disk.devno = Some("8:0".into());
    TargetRecord {
        path: "/srv/.fathom-x/data".into(),
        kind: TargetKind::OwnFile,
        size_bytes: 8 << 30,
        direct: true,
        direct_honoured: Some(true),
        extents: Some(FileExtents {
            source: ExtentSource::Fiemap,
            size_bytes: 8 << 30,
            extents: Some(4),
            fragments: Some(4),
            first_byte: Some(0),
            last_byte: Some(8 << 30),
            allocated_bytes: 8 << 30,
            hole_bytes: 0,
            unwritten_bytes: 0,
            shared: false,
            inline: false,
            encoded: false,
            physical_is_logical: false,
            share_of_device: Some(0.25),
        }),
        device_cache_bytes: 256 << 20,
        device_cache_reason: "assumed".into(),
        memory_bytes: 16 << 30,
        stack: Stack {
            path: "/srv".into(),
            resolved_path: "/srv".into(),
            nodes: vec![mount, fs, disk],
            top: 0,
        },
    }
}
