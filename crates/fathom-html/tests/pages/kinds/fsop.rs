//! A file-server workload as it is read, written out as Markdown.

use super::sample::{head, markdown, page, record};
use expect_test::expect_file;
use fathom_html::page::Page;
use fathom_model::fsop::{
    Caches, Crossing, DeviceSecond, FsopPhase, FsopProcess, FsopRecord, FsopSpec, FsopStream,
    FsopTree, Role, SecondSample, TimedOp,
};
use fathom_model::play::{PlayAct, PlaySpec, PlaySync, Played, PlayedAct, PlayedRate, Sizes};
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
            took_rest_ns: (0..200).map(|at| at * 7 % 1_000).collect(),
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

/// The page that is read here, and opened in a browser.
pub fn shown() -> Page {
    let repeats = 1..=6;
    let records: Vec<Record> = repeats.flat_map(|n| [phase(n, 3, 0), phase(n, 3, 3)]).collect();
    page(&head(RunKind::Run, "fathom run fsop /srv", "/srv"), &records, None)
}

#[test]
fn readers_alone_and_beside_writers() {
    expect_file!["golden/competition.md"].assert_eq(&fathom_html::markdown::markdown(&shown()));
}

/// A mail server of two clients at a rate that it does not quite hold.
fn mail(repeat: u32) -> Record {
    let mut record = phase(repeat, 0, 0);
    let fsop = record.fsop.as_mut().expect("a phase");
    let mix = vec![(PlayAct::Deliver, 3), (PlayAct::Read, 5), (PlayAct::Delete, 2)];
    let each = 300 + u64::from(repeat) * 7;
    let times = |each_us: u64, count: u64| {
        let mut all = Histogram::new();
        (0..count).for_each(|at| all.record((each_us + at % 11 * each_us / 10) * 1000));
        all
    };
    let act = |(act, weight): &(PlayAct, u32)| {
        let each_us = if *act == PlayAct::Deliver { 9000 } else { 400 };
        let count = each * u64::from(*weight);
        let response_ns = Some(times(each_us + 2000, count));
        PlayedAct { act: *act, service_ns: times(each_us, count), response_ns }
    };
    let rate = PlayedRate {
        due: each * 10 + 25,
        not_started: 25,
        oldest_not_started_ns: Some(900_000_000),
        ..PlayedRate::default()
    };
    let client = |number: u32| FsopProcess {
        classes: vec![
            ClassRecord { class: OpClass::OpenWrite, latency_ns: times(40, each * 3), bytes: 0 },
            ClassRecord { class: OpClass::Sync, latency_ns: times(8000, each * 3), bytes: 0 },
            ClassRecord { class: OpClass::Unlink, latency_ns: times(30, each * 2), bytes: 0 },
        ],
        played: Some(Box::new(Played {
            acts: mix.iter().map(act).collect(),
            rate: Some(rate.clone()),
            ..Played::default()
        })),
        ..process(Role::Client, number, 900)
    };
    fsop.phase.clients = 2;
    fsop.processes = vec![client(0), client(1)];
    fsop.spec.play = Some(Box::new(PlaySpec {
        name: "mail".into(),
        clients: 2,
        mix: mix.clone(),
        sizes: Sizes::LogNormal { median: 4096, mean: 12_288, max: 1 << 20 },
        sync: PlaySync::File,
        rate: Some(220.0),
        ..PlaySpec::default()
    }));
    record.label = "mail, 2 clients".into();
    record
}

/// The page of a personality.
pub fn played() -> Page {
    let records: Vec<Record> = (1..=3).map(mail).collect();
    page(&head(RunKind::Run, "fathom run mail /srv --repeats=3", "/srv"), &records, None)
}

#[test]
fn a_mail_server() {
    let page = played();
    assert!(page.question.contains("for mail"), "{}", page.question);
    assert_eq!(
        page.answer,
        "2 clients: transactions/s over n = 3 repeats: median 209 (fewer than six repeats, no interval), min 205, max 214."
    );
    expect_file!["golden/mail.md"].assert_eq(&fathom_html::markdown::markdown(&page));
}

#[test]
fn one_phase_is_a_page_too() {
    let head = head(RunKind::Run, "fathom run fsop /srv", "/srv");
    let text = markdown(&head, &[phase(1, 0, 2)], None);
    assert!(text.contains("2 writers, repeat 1: 1.6 MB/s written"), "{text}");
}
