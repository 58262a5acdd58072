//! A file-server workload as it is read, written out as Markdown.

use crate::pages::sample::{head, markdown, record};
use expect_test::expect_file;
use fathom_model::fsop::{
    Caches, Crossing, DeviceSecond, FsopPhase, FsopProcess, FsopRecord, FsopSpec, FsopStream,
    FsopTree, Role, SecondSample, TimedOp,
};
use fathom_model::record::{ClassRecord, OpClass, Record, RunKind};
use fathom_stats::Histogram;

fn process(role: Role, number: u32, files: u64) -> FsopProcess {
    let class = |class: OpClass, each_us: u64, bytes: u64| {
        let mut latency_ns = Histogram::new();
        (0..files).for_each(|at| latency_ns.record((each_us + at % 7) * 1000));
        ClassRecord { class, latency_ns, bytes }
    };
    let (classes, slow) = match role {
        Role::Reader => (
            vec![class(OpClass::OpenRead, 17, 0), class(OpClass::RestRead, 500, files * 26_000)],
            OpClass::RestRead,
        ),
        Role::Writer | Role::Client => (
            vec![class(OpClass::OpenWrite, 41, 0), class(OpClass::RestWrite, 40, files * 26_000)],
            OpClass::MakeDir,
        ),
    };
    let crossing = Crossing { class: slow, start_ns: 28_000_000_000, took_ns: Some(9_000_000_000) };
    FsopProcess {
        role,
        number,
        classes,
        crossings: if role == Role::Writer { vec![crossing] } else { Vec::new() },
        slowest: vec![TimedOp { class: slow, start_ns: 8_000_000_000, took_ns: 1_800_000_000 }],
        operations_by_second: vec![files / 15; 30],
        rounds: 0,
        vanished: 0,
        ended_early_ns: None,
        played: None,
    }
}

fn phase(repeat: u32, readers: u32, writers: u32) -> Record {
    let phase = FsopPhase { readers, writers, clients: 0 };
    let mut record = record(&format!("fsop, {}", phase.text()), 1, 4096);
    record.jobs.clear();
    record.window_ns = 30_000_000_000;
    let files = if writers > 0 { 900 } else { 3000 } + u64::from(repeat);
    let second = |number: u64| SecondSample {
        end_ns: number * 1_000_000_000,
        length_ns: 1_000_000_000,
        dirty_bytes: (u64::from(writers) * number) << 20,
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
    let own = |role: Role, count: u32| (0..count).map(move |number| process(role, number, files));
    record.fsop = Some(Box::new(FsopRecord {
        spec: FsopSpec::default(),
        phase,
        repeat,
        tree: FsopTree { path: "/srv/tree".into(), is_ours: true, trees: 4, ..FsopTree::default() },
        caches: Caches::Kept { reason: "not root".into() },
        processes: own(Role::Reader, readers).chain(own(Role::Writer, writers)).collect(),
        seconds: (1..=30).map(second).collect(),
        stream: FsopStream {
            start_us: (0..200).map(|at| at * 150_000).collect(),
            took_us: (0..200).map(|at| at * at).collect(),
            class: (0..200u8).map(|at| at % 2).collect(),
            process: vec![0; 200],
            classes: vec![OpClass::OpenRead, OpClass::RestRead],
            operations: 6000,
        },
        kernel: None,
        end_seen_late_ns: 0,
    }));
    record
}

#[test]
fn readers_alone_and_beside_writers() {
    let repeats = 1..=6;
    let records: Vec<Record> = repeats.flat_map(|n| [phase(n, 3, 0), phase(n, 3, 3)]).collect();
    let head = head(RunKind::Run, "fathom run fsop /srv", "/srv");
    expect_file!["golden/competition.md"].assert_eq(&markdown(&head, &records, None));
}

#[test]
fn one_phase_is_a_page_too() {
    let head = head(RunKind::Run, "fathom run fsop /srv", "/srv");
    let text = markdown(&head, &[phase(1, 0, 2)], None);
    assert!(text.contains("2 writers, repeat 1: 1.6 MB/s written"), "{text}");
}

#[test]
fn the_rest_of_a_window_is_a_rate_too() {
    let drawn = |counts: &[u64], window_ns| -> Vec<(f64, f64)> {
        super::rates(counts, window_ns).iter().map(|point| (point.x, point.y)).collect()
    };
    assert_eq!(drawn(&[10, 20], 2_000_000_000), [(1.0, 10.0), (2.0, 20.0)]);
    assert_eq!(drawn(&[10, 20, 30], 2_500_000_000), [(1.0, 10.0), (2.0, 20.0), (2.5, 60.0)]);
    assert_eq!(drawn(&[10, 21, 1], 2_048_000_000), [(1.0, 10.0), (2.048, 22.0 / 1.048)]);
    assert_eq!(drawn(&[7], 500_000_000), [(0.5, 14.0)]);
    assert_eq!(drawn(&[], 500_000_000), []);
}
