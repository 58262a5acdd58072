//! Tests of the tables of personalities.

use super::*;
use crate::sample;
use fathom_model::fsop::{
    Caches, CachesLook, FsopPhase, FsopProcess, FsopSpec, FsopStream, FsopTree, Role,
};
use fathom_model::play::{PlaySync, Played, PlayedAct, PlayedRate, PlayedUnfinished};
use fathom_model::record::ClassRecord;

fn histogram(each_ns: u64, count: u64) -> Histogram {
    let mut histogram = Histogram::new();
    histogram.record_n(each_ns, count);
    histogram
}

fn record(rate: Option<f64>) -> Record {
    let act = |act, each_ns, count| PlayedAct {
        act,
        service_ns: histogram(each_ns, count),
        response_ns: rate.map(|_| histogram(each_ns * 10, count)),
    };
    let open = PlayedRate {
        due: 7_000,
        not_started: 1_000,
        oldest_not_started_ns: Some(4_000_000_000),
        ..PlayedRate::default()
    };
    let played = Played {
        acts: vec![act(PlayAct::Read, 100_000, 2_000), act(PlayAct::Create, 1_000_000, 4_000)],
        rate: rate.map(|_| open),
        ..Played::default()
    };
    let process = FsopProcess {
        role: Role::Client,
        number: 0,
        classes: vec![ClassRecord {
            class: OpClass::Unlink,
            latency_ns: histogram(20_000, 4_000),
            bytes: 0,
        }],
        crossings: Vec::new(),
        slowest: Vec::new(),
        operations_by_second: Vec::new(),
        rounds: 0,
        vanished: 0,
        ended_early_ns: None,
        played: Some(Box::new(played)),
    };
    let play = PlaySpec {
        name: "own".into(),
        mix: vec![(PlayAct::Read, 1), (PlayAct::Create, 2)],
        sizes: Sizes::Uniform { min: 500, max: 10_000 },
        sync: PlaySync::FsReverse,
        rate,
        ..PlaySpec::default()
    };
    let mut record = sample::record("randread", "own, 1 client", Vec::new());
    record.jobs.clear();
    record.window_ns = 10_000_000_000;
    record.fsop = Some(Box::new(FsopRecord {
        spec: FsopSpec { play: Some(Box::new(play)), ..FsopSpec::default() },
        phase: FsopPhase { readers: 0, writers: 0, clients: 1 },
        repeat: 1,
        tree: FsopTree::default(),
        caches: Caches::Dropped(CachesLook::default()),
        processes: vec![process],
        seconds: Vec::new(),
        stream: FsopStream::default(),
        kernel: None,
        end_seen_late_ns: 0,
    }));
    record
}

fn detail(record: &Record) -> String {
    let fsop = record.fsop.as_ref().expect("one");
    crate::fsop::detail(record, fsop, &jiff::tz::TimeZone::UTC, crate::text::WIDTH)
}

#[test]
fn transactions_come_before_their_operations() {
    let text = detail(&record(None));
    let asked = "asked  clients=1 files=1000 sizes=500..10000 mix=read:1,create:2 sync=fs-reverse";
    for part in [asked, "transactions ", "trans/s", "unlink"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let line = |name: &str| {
        let found = text.lines().find(|line| line.trim_start().starts_with(name));
        found
            .unwrap_or_else(|| panic!("{name}: {text}"))
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert!(line("read ").starts_with("read 200 2 000"), "{}", line("read "));
    assert!(line("all ").starts_with("all 600 6 000"), "{}", line("all "));
    assert!(line("client 0").starts_with("client 0 600"), "{}", line("client 0"));
    assert!(!text.contains("response") && !text.contains("tree  "), "{text}");
}

#[test]
fn a_rate_shows_response_beside_service_time_and_what_was_not_started() {
    let text = detail(&record(Some(700.0)));
    for part in [
        "service time",
        "response, from when due",
        "rate  asked 700 transactions/s, due 700/s, done 600/s; 1 000 were due and not started at the",
        "the oldest for 4.0 s",
        "rate=700 arrivals=even",
    ] {
        assert!(
            text.split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .contains(&part.split_whitespace().collect::<Vec<_>>().join(" ")),
            "{part}: {text}"
        );
    }
}

#[test]
fn what_was_cut_and_what_became_slower_is_told() {
    let mut cut = record(None);
    assert!(!detail(&cut).contains("  cut  "));
    let fsop = cut.fsop.as_mut().expect("one");
    fsop.spec.play.as_mut().expect("one").mix = vec![(PlayAct::TreeCompile, 1)];
    let process = &mut fsop.processes[0];
    let unfinished = PlayedUnfinished { act: PlayAct::TreeCompile, age_ns: 12_400_000_000 };
    process.played.as_mut().expect("one").unfinished = Some(unfinished);
    process.operations_by_second = vec![900, 1_100, 1_000, 700, 600, 500, 400, 400, 3];
    // 900, 1100, 1000 against 500, 400, 400: the last second may be a part of one.
    let mut other = process.clone();
    other.operations_by_second = vec![0; 9];
    fsop.processes.push(other);
    let text = detail(&cut);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("age 1 000 calls/s in the first third of the window, 433 in the last one"),
        "{text}"
    );
    let many = "cut by the end of the window: 2 transactions, the longest a tree-compile that had gone on for 12 s";
    assert!(words.contains(many), "{text}");
    // Too short for thirds.
    cut.fsop.as_mut().expect("one").processes[1].operations_by_second.truncate(2);
    assert!(!detail(&cut).contains("  age  "));
}
