//! A watch, a capture and a file server as they are stored.

use crate::common::{START_NS, head, record, writer};
use fathom_model::capture::{CaptureClass, CaptureInterval, CaptureRecord};
use fathom_model::finding::Verdict;
use fathom_model::fsop::{
    Caches, DeviceSecond, FsopPhase, FsopProcess, FsopRecord, FsopSpec, FsopStream, FsopTree, Role,
    SecondSample,
};
use fathom_model::play::{PlayAct, Played, PlayedAct};
use fathom_model::record::{ClassRecord, Ending, OpClass, Record, RunKind};
use fathom_model::watch::{
    ApplicationSample, DeviceCounts, DeviceSample, FlowCounts, HostSample, Sample, WatchRecord,
};
use fathom_stats::Histogram;

/// Runs of each kind, by their names.
pub fn add(store: &mut fathom_store::Store) {
    let runs = [
        ("dddddddddddd", RunKind::Watch, watch()),
        ("eeeeeeeeeeee", RunKind::Capture, vec![capture()]),
        ("ffffffffffff", RunKind::Run, vec![server(2, 1, 0), server(0, 0, 2)]),
    ];
    for (id, kind, records) in runs {
        let mut head = head(id, START_NS + 2);
        head.kind = kind;
        store.begin_run(&head, &writer()).expect("begins");
        for record in &records {
            store.add_trial(id, record).expect("adds");
        }
        store.finish_run(id, Ending::Complete, Verdict::Trusted, &[], START_NS + 9).expect("ends");
    }
}

/// A record without jobs.
pub fn empty(label: &str) -> Record {
    let mut record = record(label, 1);
    record.jobs.clear();
    record.devices.clear();
    record
}

/// Two pieces of a watch of two disks: the second comes later, does nothing at all in the first piece, and once a great deal.
pub fn watch() -> Vec<Record> {
    [0u64, 40].into_iter().map(piece).collect()
}

fn piece(first: u64) -> Record {
    let mut piece = WatchRecord::new(1_000_000_000, first);
    for index in first..first + 40 {
        let device = |name: &str, requests: u64| {
            let flow = |requests: u64| FlowCounts {
                requests,
                merged: 0,
                sectors: 8 * requests,
                took_ms: 3 * requests,
            };
            let counts = DeviceCounts {
                reads: flow(requests),
                writes: flow(requests / 3),
                flushes: requests % 5,
                busy_ms: requests % 1000,
                queued_ms: 4 * requests,
                ..DeviceCounts::default()
            };
            DeviceSample {
                name: name.into(),
                title: String::new(),
                depth: 0,
                rates: counts.rates(1),
                counts,
                stands_out: None,
                array: None,
                interrupts: Vec::new(),
                latency: None,
            }
        };
        // Equal neighbours, large and small steps in both directions, zeros.
        let requests = [0, 7, 7, 7, 90_000, 12, 0, 0][index as usize % 8] + index / 3;
        let mut devices = vec![device("sda", requests)];
        if index >= 5 {
            devices.push(device("sdb", if index == 71 { 5_000_000_000 } else { 0 }));
        }
        let host = HostSample {
            user_share: 0.25,
            dirty_bytes: index << 20,
            io_pressure: (index >= first + 9).then_some((0.5, 0.125)),
            ..HostSample::default()
        };
        let application = ApplicationSample {
            processes: 3,
            cpu_share: 0.75,
            resident_bytes: 90 << 20,
            ..ApplicationSample::default()
        };
        piece.push(&Sample {
            index,
            start_ns: index * 1_000_000_000,
            length_ns: 1_000_000_000 + index * 1000,
            devices,
            host,
            application: Some(application),
            ..Sample::default()
        });
    }
    let mut record = empty("watch");
    record.watch = Some(Box::new(piece));
    record
}

fn times(count: u64, typical_ns: u64) -> Histogram {
    let mut all = Histogram::new();
    (0..count).for_each(|at| all.record(typical_ns + at * 7919 % 900_000));
    all
}

/// A capture of reads and writes.
pub fn capture() -> Record {
    let class = |class: &str, count: u64| CaptureClass {
        class: class.into(),
        count,
        bytes: count * 8192,
        size_mean: 8192.0,
        follow: count / 4,
        total_ns: times(count, 400_000),
        service_ns: times(count, 1),
        ..CaptureClass::default()
    };
    let interval = |number: u64| CaptureInterval {
        start_ns: number * 1_000_000_000,
        length_ns: 1_000_000_000,
        reads: 900 + number,
        writes: 100,
        read_bytes: (900 + number) * 8192,
        write_bytes: 819_200,
        seeks: 700,
        depth_mean: 2.5,
        depth_max: 9,
        ..CaptureInterval::default()
    };
    let mut record = empty("capture of sda");
    record.capture = Some(Box::new(CaptureRecord {
        device: "sda".into(),
        window_ns: 10_000_000_000,
        classes: vec![class("read", 9045), class("write", 50)],
        series: (0..10).map(interval).collect(),
        ..CaptureRecord::default()
    }));
    record
}

/// A phase of a file server, or of a personality.
pub fn server(readers: u32, writers: u32, clients: u32) -> Record {
    let process = |role: Role, number: u32| {
        let class = |class: OpClass, count: u64, bytes: u64| ClassRecord {
            class,
            latency_ns: times(count, 20_000),
            bytes,
        };
        let played = Played {
            acts: vec![PlayedAct {
                act: PlayAct::Deliver,
                service_ns: times(1500, 5_000_000),
                response_ns: None,
            }],
            ..Played::default()
        };
        FsopProcess {
            role,
            number,
            classes: vec![
                class(OpClass::OpenRead, 2000 + u64::from(number), 0),
                class(OpClass::RestRead, 40, 1 << 20),
            ],
            crossings: Vec::new(),
            slowest: Vec::new(),
            operations_by_second: vec![68; 30],
            rounds: 0,
            vanished: 0,
            ended_early_ns: None,
            played: (role == Role::Client).then(|| Box::new(played)),
        }
    };
    let second = |number: u64| SecondSample {
        end_ns: number * 1_000_000_000,
        length_ns: 1_000_000_000,
        dirty_bytes: number << 20,
        writeback_bytes: 0,
        devices: vec![DeviceSecond {
            name: "sda".into(),
            busy_share: 0.9,
            in_flight_mean: 3.5,
            read_bytes: 80 << 20,
            written_bytes: 0,
        }],
        journal_commits: None,
    };
    let own = |role, count: u32| (0..count).map(move |number| process(role, number));
    let all = own(Role::Reader, readers).chain(own(Role::Writer, writers));
    let mut record = empty("fsop");
    record.fsop = Some(Box::new(FsopRecord {
        spec: FsopSpec::default(),
        phase: FsopPhase { readers, writers, clients },
        repeat: 1,
        tree: FsopTree { path: "/srv/tree".into(), files: Some(4000), ..FsopTree::default() },
        caches: Caches::WentOn,
        processes: all.chain(own(Role::Client, clients)).collect(),
        seconds: (1..=30).map(second).collect(),
        stream: FsopStream::default(),
        kernel: None,
        end_seen_late_ns: 0,
    }));
    record
}
