//! A record of a healthy run, for tests to damage; runs and series with given rates.

use crate::compare::Run;
use fathom_base::prng::Prng;
use fathom_model::extents::{ExtentSource, FileExtents};
use fathom_model::fsop::{
    Caches, FsopPhase, FsopProcess, FsopRecord, FsopSpec, FsopStream, FsopTree, Role,
};
use fathom_model::host::HostFacts;
use fathom_model::play::{PlayAct, PlaySpec, Played, PlayedAct, PlayedRate};
use fathom_model::record::*;
use fathom_model::stack::{Node, NodeKind, Stack};
use fathom_model::workload::{EngineKind, Job, Workload};
use fathom_stats::Histogram;

/// The head of its run.
pub fn head() -> RunHead {
    RunHead {
        id: "000000000000".into(),
        kind: RunKind::Run,
        label: None,
        command: "fathom run randread /srv".into(),
        target: "/srv".into(),
        started_unix_ns: 0,
        host: HostFacts { kernel: Some("6.1".into()), ..HostFacts::default() },
        fathom_version: "0.1.0".into(),
    }
}

/// From 0 to below 1, all equally likely.
pub fn uniform(prng: &mut Prng) -> f64 {
    (prng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// A run of one record of a minute, five requests in flight: so many reads per second, begun at that time.
pub fn run(started_unix_ns: i64, iops: f64) -> Run {
    let mut record = record();
    record.started_unix_ns = started_unix_ns;
    reads(&mut record, (iops * 60.0) as u64, (5e9 / iops) as u64);
    let head = RunHead { id: format!("{started_unix_ns:012}"), started_unix_ns, ..head() };
    Run { head, records: vec![record], unfinished: None }
}

/// Makes the record's only class so many reads of 4 KiB, each as long; the device has read as much.
pub fn reads(record: &mut Record, count: u64, each_ns: u64) {
    let class = &mut record.jobs[0].classes[0];
    class.latency_ns = Histogram::new();
    class.latency_ns.record_n(each_ns, count);
    class.bytes = count * 4096;
    record.devices[0].read_bytes = class.bytes;
}

/// A series of seconds, each of so many reads of 4 KiB at 1 ms.
pub fn seconds(counts: impl IntoIterator<Item = u64>) -> Vec<IntervalRecord> {
    const SECOND_NS: u64 = 1_000_000_000;
    let interval = |(number, count): (u64, u64)| {
        let mut latency_ns = Histogram::new();
        latency_ns.record_n(1_000_000, count);
        let class = ClassRecord { class: OpClass::Read, latency_ns, bytes: count * 4096 };
        IntervalRecord {
            start_ns: number * SECOND_NS,
            length_ns: SECOND_NS,
            classes: vec![class.into()],
            open_loop: None,
        }
    };
    (0..).zip(counts).map(interval).collect()
}

/// The record as an open loop that keeps up: all of it was due, and started after 20 us.
pub fn open_loop(shape: impl FnOnce(&mut OpenLoopRecord)) -> Record {
    let mut record = record();
    record.workload.jobs[0].rate = Some(1000.0);
    let response_ns = record.jobs[0].classes[0].latency_ns.clone();
    let class =
        ResponseClass { class: OpClass::Read, response_ns, unfinished_ns: Histogram::new() };
    let mut open =
        OpenLoopRecord { due: 60_000, classes: vec![class], ..OpenLoopRecord::default() };
    open.start_delay_ns.record_n(20_000, 60_000);
    shape(&mut open);
    record.jobs[0].open_loop = Some(open);
    record
}

/// Random reads, 60 s, 1000 per second of 4 KiB at 5 ms, from a file on ext4 on sda.
pub fn record() -> Record {
    let mut latency_ns = Histogram::new();
    latency_ns.record_n(5_000_000, 60_000);
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
        cpu: CpuTime { user_ns: 100_000_000, system_ns: 900_000_000 },
        thread_operations: vec![60_000],
        thread_times: Vec::new(),
        limits: fathom_model::limits::LimitsRecord::default(),
        busiest_thread_cpu_ns: 1_000_000_000,
        final_sync_ns: None,
        window_ns: 60_000_000_000,
        open_loop: None,
        verify: None,
        delivered: None,
        control_group: None,
    }];
    let workload = workload(job);
    let device = DeviceDelta {
        name: "sda".into(),
        reads: 60_000,
        read_bytes: bytes,
        writes: 10,
        written_bytes: 40_960,
        flushes: None,
        busy_ns: 59_000_000_000,
        in_flight_ns: None,
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
        system_events: None,
        devices: vec![device],
        page_cache: PageCacheDelta::default(),
        suspended_ns: 0,
        held_up_ns: 0,
        heat: fathom_model::record::HeatRecord::default(),
        control_group: None,
        cell: None,
        fsop: None,
        watch: None,
        capture: None,
        ending: Ending::Complete,
        failure: None,
        seed: 1,
        findings: Vec::new(),
    }
}

fn workload(job: Job) -> Workload {
    Workload {
        name: "randread".into(),
        title: String::new(),
        description: String::new(),
        classic: None,
        jobs: vec![job],
        tracked: Vec::new(),
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
        is_never_read: false,
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

/// A phase of a file server, 30 s long: each reader opened so many files, each writer made so many files and directories.
pub fn server(readers: &[u64], writers: &[u64]) -> Record {
    let class = |class, count: u64| {
        let mut latency_ns = Histogram::new();
        latency_ns.record_n(10_000, count);
        ClassRecord { class, latency_ns, bytes: count * 1_000 }
    };
    let process = |role, number, classes| FsopProcess {
        role,
        number,
        classes,
        crossings: Vec::new(),
        slowest: Vec::new(),
        operations_by_second: Vec::new(),
        rounds: 0,
        vanished: 0,
        ended_early_ns: None,
        played: None,
    };
    let read = |(number, count): (u32, &u64)| {
        process(Role::Reader, number, vec![class(OpClass::OpenRead, *count)])
    };
    let write = |(number, count): (u32, &u64)| {
        let classes = [OpClass::OpenWrite, OpClass::MakeDir].map(|of| class(of, *count));
        process(Role::Writer, number, classes.to_vec())
    };
    let processes = (0..).zip(readers).map(read).chain((0..).zip(writers).map(write));
    let fsop = FsopRecord {
        spec: FsopSpec::default(),
        phase: FsopPhase {
            readers: readers.len() as u32,
            writers: writers.len() as u32,
            clients: 0,
        },
        repeat: 1,
        tree: FsopTree::default(),
        caches: Caches::WentOn,
        processes: processes.collect(),
        seconds: Vec::new(),
        stream: FsopStream::default(),
        kernel: None,
        end_seen_late_ns: 0,
    };
    let mut record = Record { fsop: Some(Box::new(fsop)), window_ns: 30_000_000_000, ..record() };
    (record.jobs, record.devices) = (Vec::new(), Vec::new());
    (record.workload.name, record.workload.jobs) = ("fsop".into(), Vec::new());
    record
}

/// A personality of two clients, 30 s long: each made so many transactions of each kind at 1 ms; with a rate their responses took 5 ms.
pub fn clients(acts: &[(PlayAct, u64)], rate: Option<PlayedRate>) -> Record {
    let all = |each_ns, count| {
        let mut histogram = Histogram::new();
        histogram.record_n(each_ns, count);
        histogram
    };
    let acts = acts.iter().map(|(act, done)| PlayedAct {
        act: *act,
        service_ns: all(1_000_000, *done),
        response_ns: rate.as_ref().map(|_| all(5_000_000, *done)),
    });
    let acts: Vec<PlayedAct> = acts.collect();
    let done = acts.iter().map(|act| act.service_ns.count()).sum();
    let mut record = server(&[], &[done, done]);
    let fsop = record.fsop.as_mut().expect("one");
    let mix = acts.iter().map(|act| (act.act, 1)).collect();
    let play = PlaySpec { name: "own".into(), clients: 2, mix, ..PlaySpec::default() };
    fsop.spec.play = Some(Box::new(play));
    fsop.phase = FsopPhase { readers: 0, writers: 0, clients: 2 };
    for process in &mut fsop.processes {
        process.role = Role::Client;
        let latency_ns = all(9_000, done);
        process.classes[0] = ClassRecord { class: OpClass::Sync, latency_ns, bytes: 0 };
        process.played =
            Some(Box::new(Played { acts: acts.clone(), rate: rate.clone(), ..Played::default() }));
    }
    record.label = "own, 2 clients".into();
    record.workload.name = "own".into();
    record
}
