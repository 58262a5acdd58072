//! Runs and records as the measuring side makes them.

use fathom_model::builtin;
use fathom_model::extents::{ExtentSource, FileExtents};
use fathom_model::finding::{Finding, Severity};
use fathom_model::host::HostFacts;
use fathom_model::record::{
    CensoredOp, ClassRecord, CpuTime, DeviceDelta, Ending, EngineRecord, IntervalRecord, JobRecord,
    OpClass, PageCacheDelta, RECORD_VERSION, Record, RunHead, RunKind, SlowOp, SystemCpu,
    SystemEvents, TargetKind, TargetRecord,
};
use fathom_model::stack::{Node, NodeKind, Stack};
use fathom_model::workload::EngineKind;
use fathom_stats::Histogram;
use fathom_store::Writer;

/// 2026-11-21 03:00 UTC.
pub const START_NS: i64 = 1_795_230_000_000_000_000;

pub fn writer() -> Writer {
    Writer { pid: 4711, start_ticks: u64::MAX, boot_id: "c0ffee".into() }
}

pub fn head(id: &str, started_unix_ns: i64) -> RunHead {
    RunHead {
        id: id.into(),
        kind: RunKind::Quick,
        label: None,
        command: "fathom quick /srv/data".into(),
        target: "/srv/data".into(),
        started_unix_ns,
        host: HostFacts {
            kernel: Some("6.12".into()),
            load_1min: Some(0.1),
            ..HostFacts::default()
        },
        fathom_version: "0.1.0".into(),
    }
}

fn class(class: OpClass, values: u64, spread: u64) -> ClassRecord {
    let mut latency_ns = Histogram::new();
    (0..values).for_each(|i| latency_ns.record(80_000 + (i * spread) % 9_000_000));
    ClassRecord { class, latency_ns, bytes: values * 4096 }
}

/// A job with a minute of intervals.
fn job(seed: u64) -> JobRecord {
    let series = (0..60).map(|second| IntervalRecord {
        start_ns: second * 1_000_000_000,
        length_ns: 1_000_000_000,
        classes: vec![class(OpClass::Read, 100 + seed % 7, 7919 + second).into()],
        open_loop: None,
    });
    JobRecord {
        name: "mix".into(),
        engine: EngineRecord {
            kind: EngineKind::Psync,
            fallback: Some("io_uring is switched off (kernel.io_uring_disabled = 2)".into()),
            features: Vec::new(),
            threads: 16,
            depth: 1,
            batch: 1,
        },
        classes: vec![class(OpClass::Read, 6000, 104_729), class(OpClass::Commit, 150, 1_299_709)],
        series: series.collect(),
        slowest: vec![SlowOp {
            class: OpClass::Commit,
            end_ns: 31_000_000_000,
            latency_ns: 270_000_000,
            file: 17,
            offset_bytes: 1 << 33,
            size_bytes: 4096,
        }],
        censored: vec![CensoredOp {
            class: OpClass::Read,
            age_ns: 19_600_000_000,
            file: 3,
            offset_bytes: 12_288,
            size_bytes: 4096,
        }],
        batches: 6150,
        cpu: CpuTime { user_ns: 10_000_000, system_ns: 60_000_000 },
        thread_operations: Vec::new(),
        thread_times: Vec::new(),
        limits: fathom_model::limits::LimitsRecord::default(),
        busiest_thread_cpu_ns: 5_000_000,
        final_sync_ns: None,
        window_ns: 60_000_000_000,
        open_loop: None,
        verify: None,
        delivered: None,
        control_group: None,
    }
}

/// A record of one job.
pub fn record(label: &str, seed: u64) -> Record {
    Record {
        cell: None,
        fsop: None,
        watch: None,
        capture: None,
        version: RECORD_VERSION,
        label: label.into(),
        workload: builtin::named("randomio").expect("built in"),
        targets: vec![target()],
        jobs: vec![job(seed)],
        started_unix_ns: START_NS + 1,
        window_ns: 60_000_000_000,
        process_cpu: CpuTime { user_ns: 11_000_000, system_ns: 65_000_000 },
        system_cpu: SystemCpu { busy_share: 0.1 + 0.2, iowait_share: 1.0 / 3.0, steal_share: 0.0 },
        system_events: Some(SystemEvents { interrupts: 5, context_switches: 7 }),
        devices: vec![DeviceDelta {
            name: "sda".into(),
            reads: 6000,
            read_bytes: 6000 * 4096,
            writes: 150,
            written_bytes: 150 * 4096,
            flushes: Some(150),
            busy_ns: 59_000_000_000,
            in_flight_ns: None,
            kernel_thread_cpu_ns: None,
        }],
        page_cache: PageCacheDelta::default(),
        suspended_ns: 0,
        held_up_ns: 0,
        heat: fathom_model::record::HeatRecord::default(),
        control_group: None,
        ending: Ending::Complete,
        failure: None,
        seed,
        findings: vec![
            Finding::new("short-row", Severity::Note, "measured for 60 s")
                .advise("longer: duration=10m"),
        ],
    }
}

fn target() -> TargetRecord {
    TargetRecord {
        path: "/srv/data/.fathom-x/f0".into(),
        kind: TargetKind::OwnFile,
        size_bytes: 8 << 30,
        direct: true,
        direct_honoured: Some(true),
        extents: Some(FileExtents {
            source: ExtentSource::Fiemap,
            size_bytes: 8 << 30,
            extents: Some(4),
            fragments: Some(1),
            first_byte: Some(1 << 30),
            last_byte: Some((9 << 30) - 1),
            allocated_bytes: 8 << 30,
            hole_bytes: 0,
            unwritten_bytes: 0,
            shared: false,
            inline: false,
            encoded: false,
            physical_is_logical: false,
            share_of_device: Some(0.2),
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
