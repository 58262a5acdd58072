//! Tests of what personalities come to.

use super::*;
use crate::fixtures;
use fathom_model::fsop::{CachesLook, FsopPhase, FsopSpec, FsopStream, FsopTree, Role};
use fathom_model::play::{PlaySpec, Played, PlayedAct};
use fathom_model::record::{ClassRecord, OpClass};

const SECOND_NS: u64 = 1_000_000_000;

fn histogram(each_ns: u64, count: u64) -> Histogram {
    let mut histogram = Histogram::new();
    histogram.record_n(each_ns, count);
    histogram
}

fn client(number: u32, done: u64, rate: Option<PlayedRate>) -> FsopProcess {
    let act = PlayedAct {
        act: PlayAct::Deliver,
        service_ns: histogram(1_000_000, done),
        response_ns: rate.as_ref().map(|_| histogram(5_000_000, done)),
    };
    let class = ClassRecord {
        class: OpClass::Write,
        latency_ns: histogram(9_000, done),
        bytes: done << 12,
    };
    FsopProcess {
        role: Role::Client,
        number,
        classes: vec![class],
        crossings: Vec::new(),
        slowest: Vec::new(),
        operations_by_second: Vec::new(),
        rounds: 0,
        vanished: 0,
        ended_early_ns: None,
        played: Some(Box::new(Played { acts: vec![act], rate, ..Played::default() })),
    }
}

fn record(play: PlaySpec, processes: Vec<FsopProcess>) -> Record {
    let clients = processes.len() as u32;
    let fsop = FsopRecord {
        spec: FsopSpec { play: Some(Box::new(play)), ..FsopSpec::default() },
        phase: FsopPhase { readers: 0, writers: 0, clients },
        repeat: 1,
        tree: FsopTree::default(),
        caches: Caches::Dropped(CachesLook::default()),
        processes,
        seconds: Vec::new(),
        stream: FsopStream::default(),
        kernel: None,
        end_seen_late_ns: 0,
    };
    let fsop = Some(Box::new(fsop));
    Record {
        fsop,
        jobs: Vec::new(),
        devices: Vec::new(),
        window_ns: 30 * SECOND_NS,
        ..fixtures::record()
    }
}

fn ids(record: &Record) -> Vec<String> {
    let fsop = record.fsop.as_ref().expect("one");
    findings(record, fsop).into_iter().map(|finding| finding.id.to_string()).collect()
}

fn mail() -> PlaySpec {
    let mix = vec![(PlayAct::Deliver, 1)];
    PlaySpec { mix, sync: PlaySync::File, clients: 2, ..PlaySpec::default() }
}

#[test]
fn clients_are_summed_up() {
    let record = record(mail(), vec![client(0, 10, None), client(1, 30, None)]);
    let fsop = record.fsop.as_ref().expect("one");
    let acts = fsop.acts();
    assert_eq!((acts.len(), acts[0].service_ns.count()), (1, 40));
    assert!(rate(fsop).is_none() && ids(&record).is_empty());
    let per_s = transactions_per_s(&record, fsop).expect("a personality");
    assert!((per_s - 40.0 / 30.0).abs() < 1e-9, "{per_s}");
}

#[test]
fn a_backlog_that_grows_is_told_and_one_that_does_not_is_not() {
    let open = |not_started, delay_ns| PlayedRate {
        due: 1_000,
        backlog_start: 5,
        not_started,
        oldest_not_started_ns: Some(not_started * 1_000_000),
        start_delay_ns: histogram(delay_ns, 1_000),
        ..PlayedRate::default()
    };
    let spec = PlaySpec { rate: Some(100.0), ..mail() };
    let with = |rate: PlayedRate| {
        record(spec.clone(), vec![client(0, 700, Some(rate.clone())), client(1, 700, Some(rate))])
    };
    let behind = with(open(305, 50_000));
    assert_eq!(ids(&behind), ["play-rate-not-reached"]);
    let sum = rate(behind.fsop.as_ref().expect("one")).expect("open");
    assert_eq!((sum.due, sum.not_started, sum.backlog_start), (2_000, 610, 10));
    assert_eq!(sum.response_ns.count(), 1_400);
    let found = findings(&behind, behind.fsop.as_ref().expect("one"));
    assert!(found[0].summary.contains("47 were done; 610 were due"), "{}", found[0].summary);
    assert!(ids(&with(open(5, 50_000))).is_empty(), "as many as before");
    assert!(ids(&with(open(8, 50_000))).is_empty(), "less than a hundredth");
    assert_eq!(ids(&with(open(5, 3_000_000))), ["play-started-late"]);
}

#[test]
fn long_transactions_that_the_window_cuts_are_told() {
    let with = |age_s: u64| {
        let act = PlayAct::TreeCompile;
        let mut cut = client(1, 10, None);
        let age_ns = age_s * SECOND_NS;
        cut.played.as_mut().expect("one").unfinished = Some(PlayedUnfinished { act, age_ns });
        record(mail(), vec![client(0, 10, None), cut])
    };
    // Two clients in 30 s: a tenth of their time is 6 s.
    assert!(ids(&with(6)).is_empty());
    assert_eq!(ids(&with(7)), ["play-cut-short"]);
    // One that began long before the window took the whole of it, not more.
    let whole = with(300);
    let found = findings(&whole, whole.fsop.as_ref().expect("one"));
    assert!(found[0].summary.starts_with("50 % of the clients' time"), "{}", found[0].summary);
    assert!(found[0].summary.contains("a tree-compile of 300 s so far"), "{}", found[0].summary);
}

#[test]
fn what_comes_from_memory_and_goes_there_is_told() {
    let web = PlaySpec { mix: vec![(PlayAct::Read, 10)], ..PlaySpec::default() };
    let mut kept = record(web, vec![client(0, 10, None)]);
    kept.fsop.as_mut().expect("one").caches = Caches::Kept { reason: "not root".into() };
    assert_eq!(ids(&kept), ["play-caches-not-dropped"]);
    let mut fast =
        record(PlaySpec { sync: PlaySync::None, ..mail() }, vec![client(0, 1_000, None)]);
    assert!(ids(&fast).is_empty(), "no device tells");
    fast.devices = fixtures::record().devices;
    fast.devices[0].written_bytes = 1 << 20;
    assert_eq!(ids(&fast), ["play-written-to-memory"]);
    fast.devices[0].written_bytes = 4 << 20;
    assert!(ids(&fast).is_empty());
    // Read 4 MiB, written 1 MiB: the devices have to give half of what was read.
    let mut read = fast.clone();
    let process = &mut read.fsop.as_mut().expect("one").processes[0];
    process.classes[0].bytes = 1 << 20;
    let class = ClassRecord { class: OpClass::Read, bytes: 4 << 20, ..process.classes[0].clone() };
    process.classes.push(class);
    read.devices[0].read_bytes = (2 << 20) - 1;
    let of = |record: &Record| findings(record, record.fsop.as_ref().expect("one"));
    let found = of(&read);
    assert!(found[0].id == "play-read-from-memory" && found[0].severity == Severity::Doubtful);
    assert!(found[0].summary.starts_with("clients read 4 MiB, of which"), "{}", found[0].summary);
    let mut build = read.clone();
    let play = build.fsop.as_mut().expect("one").spec.play.as_mut().expect("one");
    play.mix.push((PlayAct::TreeRead, 1));
    let found = &of(&build)[0];
    assert!(found.severity == Severity::Note && found.advice[0].starts_with("trees="), "{found:?}");
    read.fsop.as_mut().expect("one").processes[0].classes[0].bytes = 4 << 20;
    assert_eq!(of(&read)[0].severity, Severity::Note, "as much was written");
    read.devices[0].read_bytes = 2 << 20;
    assert!(ids(&read).is_empty());
    assert!(ROW_RULES.iter().all(|id| crate::rules::is_about_one_row(id)));
}
