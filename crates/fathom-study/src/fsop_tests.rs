//! Tests of what file-server records come to.

use super::*;
use crate::fixtures;
use fathom_model::fsop::{Caches, CachesLook, Crossing, FsopSpec, FsopStream, FsopTree};
use fathom_model::record::{ClassRecord, Ending};
use fathom_stats::Histogram;

const SECOND_NS: u64 = 1_000_000_000;

fn class(class: OpClass, count: u64, each_ns: u64, bytes: u64) -> ClassRecord {
    let mut latency_ns = Histogram::new();
    latency_ns.record_n(each_ns, count);
    ClassRecord { class, latency_ns, bytes }
}

fn process(role: Role, number: u32, operations: u64) -> FsopProcess {
    let of = if role == Role::Reader { OpClass::OpenRead } else { OpClass::MakeDir };
    FsopProcess {
        role,
        number,
        classes: vec![class(of, operations, 10_000, operations * 1_000)],
        crossings: Vec::new(),
        slowest: Vec::new(),
        operations_by_second: Vec::new(),
        rounds: 0,
        vanished: 0,
        ended_early_ns: None,
        played: None,
    }
}

/// A record of a phase in which each process ended so many operations.
fn record(repeat: u32, readers: &[u64], writers: &[u64]) -> Record {
    let phase =
        FsopPhase { readers: readers.len() as u32, writers: writers.len() as u32, clients: 0 };
    let of = |role| move |(number, done): (u32, &u64)| process(role, number, *done);
    let all = (0..).zip(readers).map(of(Role::Reader));
    let all = all.chain((0..).zip(writers).map(of(Role::Writer)));
    let fsop = FsopRecord {
        spec: FsopSpec::default(),
        phase,
        repeat,
        tree: FsopTree { trees: 4, ..FsopTree::default() },
        caches: Caches::WentOn,
        processes: all.collect(),
        seconds: (1..=30)
            .map(|second| SecondSample {
                end_ns: second * SECOND_NS,
                length_ns: SECOND_NS,
                dirty_bytes: second,
                ..SecondSample::default()
            })
            .collect(),
        stream: FsopStream::default(),
        kernel: None,
        end_seen_late_ns: 0,
    };
    let fsop = Some(Box::new(fsop));
    let jobs = Vec::new();
    let devices = Vec::new();
    Record { fsop, jobs, devices, window_ns: 30 * SECOND_NS, ..fixtures::record() }
}

fn of(record: &mut Record) -> &mut FsopRecord {
    record.fsop.as_deref_mut().expect("has one")
}

fn found(record: &Record) -> Vec<String> {
    let fsop = record.fsop.as_deref().expect("has one");
    findings::all(record, fsop).into_iter().map(|finding| finding.id).collect()
}

#[test]
fn what_readers_keep_is_compared_repeat_by_repeat() {
    let records = |losses: &[u64]| -> Vec<Record> {
        (1..)
            .zip(losses)
            .flat_map(|(repeat, percent)| {
                [
                    record(repeat, &[500], &[]),
                    record(repeat, &[1_000, 1_000], &[]),
                    record(repeat, &[20 * percent, 0], &[7]),
                ]
            })
            .collect()
    };
    let found = competition(&records(&[50, 60, 40]));
    let [files, bytes] = &found[..] else { panic!("{found:?}") };
    assert_eq!((files.kept, files.ratios.len()), (Kept::Files, 3));
    let off = files.ratios.iter().zip([0.5, 0.6, 0.4]).map(|(a, b)| (a - b).abs());
    assert!(off.fold(0.0, f64::max) < 1e-9, "{:?}", files.ratios);
    assert_eq!(
        (files.alone.text(), files.together.text()),
        ("2 readers".into(), "2 readers, 1 writer".into())
    );
    let estimate = files.estimate.expect("three repeats");
    assert!(
        (0.4..=0.6).contains(&estimate.value) && estimate.interval.is_none(),
        "too few for one"
    );
    assert_eq!(bytes.ratios, files.ratios);
    let six = competition(&records(&[50, 52, 48, 51, 49, 50]));
    let interval = six[0].estimate.and_then(|e| e.interval).expect("six are enough");
    assert!(interval.low > 0.45 && interval.high < 0.55, "{interval:?}");
    assert_eq!(Competition::repeats_needed(), 6);
    assert!(competition(&records(&[])).is_empty());
    // Readers that came to nothing have no logarithm, and are shown all the same.
    let starved = &competition(&records(&[0]))[0];
    assert!(starved.ratios == [0.0] && starved.estimate.is_none());
    let starved = &competition(&records(&[50, 0, 40]))[0];
    assert_eq!((starved.starved(), starved.estimate), (1, None));
    assert!((starved.ratio() - 0.4).abs() < 1e-9, "the one in the middle: {}", starved.ratio());
    let even = &competition(&records(&[50, 0, 40, 0]))[0];
    assert!((even.ratio() - 0.2).abs() < 1e-9, "{}", even.ratio());
    assert_eq!(even.starved(), 2);
}

#[test]
fn phases_that_failed_or_were_cut_are_compared_with_nothing() {
    for ending in [Ending::Failed, Ending::Interrupted] {
        let cut = Record { ending, window_ns: 1, ..record(1, &[0, 0], &[0]) };
        let records = [record(1, &[1_000, 1_000], &[]), cut];
        assert!(competition(&records).is_empty(), "{ending:?}");
        let alone = Record { ending, ..record(1, &[1_000, 1_000], &[]) };
        assert!(competition(&[alone, record(1, &[500, 500], &[7])]).is_empty(), "{ending:?}");
    }
}

#[test]
fn fairness_is_one_when_all_do_the_same() {
    let jain =
        |done: &[u64]| fairness(record(1, done, &[]).fsop.as_deref().expect("one"), Role::Reader);
    assert_eq!(jain(&[100, 100, 100]), Some(Fairness { jain: 1.0, most_to_least: Some(1.0) }));
    let alone = jain(&[300, 0, 0]).expect("two or more");
    assert!((alone.jain - 1.0 / 3.0).abs() < 1e-12 && alone.most_to_least.is_none());
    assert_eq!(jain(&[100]), None);
    assert_eq!(jain(&[0, 0]), None);
}

#[test]
fn stalls_are_long_or_far_from_the_median_and_know_their_second() {
    let mut record = record(1, &[10], &[1_000]);
    let op = |start_ns, took_ns| TimedOp { class: OpClass::MakeDir, start_ns, took_ns };
    let writer = &mut of(&mut record).processes[1];
    // Median 10 us: 1000 times that is 10 ms, which nobody notices; 150 ms is both.
    writer.slowest =
        vec![op(4_500_000_000, 2_000_000_000), op(20_000_000_000, 150_000_000), op(1, 20_000_000)];
    writer.crossings = vec![Crossing {
        class: OpClass::MakeDir,
        start_ns: 10_400_000_000,
        took_ns: Some(25_000_000_000),
    }];
    let fsop = record.fsop.as_deref().expect("one");
    let seen = stalls(&record, fsop);
    let told: Vec<(u64, bool, u64)> = seen
        .iter()
        .map(|s| {
            (s.operation.took_ns, s.is_unfinished, s.second.as_ref().map_or(0, |s| s.dirty_bytes))
        })
        .collect();
    assert_eq!(
        told,
        [(19_600_000_000, true, 30), (2_000_000_000, false, 6), (150_000_000, false, 21)],
        "the second from 5 to 6 is full of it, that from 6 to 7 to a half"
    );
    let (process, class, age_ns) = fsop.oldest_unfinished(record.window_ns).expect("one");
    assert_eq!((process.number, class, age_ns), (0, OpClass::MakeDir, 19_600_000_000));
    assert_eq!(found(&record), ["fsop-hung"], "more than half of the window");
}

/// A journal elsewhere stands beside what is busiest of the data's devices, however busy it is itself.
#[test]
fn a_journal_on_a_device_of_its_own_stands_beside_the_others() {
    let mut record = record(1, &[10], &[1_000]);
    let second = |name: &str, busy_share, in_flight_mean| DeviceSecond {
        name: name.into(),
        busy_share,
        in_flight_mean,
        ..DeviceSecond::default()
    };
    let stack = crate::safety::fixture("ext4", &[], Some(true));
    let journal = |record: &mut Record, device: Option<&str>| {
        let mut stack = stack.clone();
        let facts = stack.nodes[1].fs.as_mut().expect("a filesystem");
        facts.journal_device = device.map(str::to_owned);
        record.targets = crate::fixtures::record().targets;
        record.targets[0].stack = stack;
    };
    for sample in &mut of(&mut record).seconds {
        sample.devices = vec![second("sda", 0.2, 1.0), second("sdj", 0.9, 7.0)];
    }
    of(&mut record).processes[1].slowest =
        vec![TimedOp { class: OpClass::MakeDir, start_ns: 4_500_000_000, took_ns: 2_000_000_000 }];
    let told = |record: &Record| {
        let stalls = stalls(record, record.fsop.as_deref().expect("one"));
        let name = |device: Option<&DeviceSecond>| device.map(|device| device.name.clone());
        (name(stalls[0].busiest()), name(stalls[0].journal_second()))
    };
    journal(&mut record, None);
    assert_eq!(told(&record), (Some("sdj".into()), None), "the busiest of the stack");
    journal(&mut record, Some("sdj"));
    assert_eq!(told(&record), (Some("sda".into()), Some("sdj".into())));
}

/// What began before the window and ended in it is in no histogram: it is told as a stall, and by the rule.
#[test]
fn what_hung_over_the_start_of_the_window_is_told() {
    let mut record = record(1, &[10], &[1_000]);
    let over_the_start = |took_ns| Crossing {
        class: OpClass::MakeDir,
        start_ns: -2_000_000_000,
        took_ns: Some(took_ns),
    };
    of(&mut record).processes[1].crossings = vec![over_the_start(27_000_000_000)];
    let fsop = record.fsop.as_deref().expect("one");
    let [stall] = &stalls(&record, fsop)[..] else { panic!("one") };
    assert_eq!((stall.operation.start_ns, stall.before_ns), (0, 2_000_000_000));
    assert_eq!((stall.operation.took_ns, stall.is_unfinished), (27_000_000_000, false));
    assert_eq!(stall.second.as_ref().map(|s| s.dirty_bytes), Some(25), "where it ended");
    assert!(fsop.oldest_unfinished(record.window_ns).is_none());
    assert_eq!(found(&record), ["fsop-hung"]);
    // It took little of the window, or nothing.
    for (took_ns, stalled) in [(3_000_000_000, 1), (2_000_000_000, 0)] {
        of(&mut record).processes[1].crossings = vec![over_the_start(took_ns)];
        assert_eq!(stalls(&record, record.fsop.as_deref().expect("one")).len(), stalled);
        assert_eq!(found(&record), [""; 0]);
    }
}

#[test]
fn a_clean_record_has_no_findings_and_each_rule_is_provoked() {
    assert_eq!(found(&record(1, &[100, 100], &[100])), [""; 0]);
    let provoked = |change: &dyn Fn(&mut Record)| {
        let mut record = record(1, &[100, 100], &[100]);
        change(&mut record);
        found(&record)
    };
    let kept = |r: &mut Record| of(r).caches = Caches::Kept { reason: "not root".into() };
    assert_eq!(provoked(&kept), ["fsop-caches-not-dropped"]);
    let full = |r: &mut Record| {
        let (cached_bytes, checked_bytes) = (50, 100);
        of(r).caches =
            Caches::Dropped(CachesLook { cached_bytes, checked_bytes, ..CachesLook::default() });
    };
    assert_eq!(provoked(&full), ["fsop-caches-still-full"]);
    let names = |names_cached, unused_entries| {
        let look = CachesLook { names_checked: 60, names_cached, ..CachesLook::default() };
        provoked(&|r: &mut Record| {
            of(r).caches = Caches::Dropped(CachesLook { unused_entries, ..look.clone() });
        })
    };
    assert_eq!(names(7, None), ["fsop-caches-still-full"]);
    assert_eq!(names(0, Some([90_000, 30_000])), ["fsop-caches-still-full"]);
    // Others use a few at any time, and a machine without any tells nothing.
    assert_eq!(names(6, Some([90_000, 5_000])), [""; 0]);
    assert_eq!(names(0, Some([900, 800])), [""; 0]);
    assert_eq!(provoked(&|r| of(r).processes[0].rounds = 2), ["fsop-tree-read-again"]);
    assert_eq!(provoked(&|r| of(r).processes[2].ended_early_ns = Some(5)), ["fsop-writer-full"]);
    assert_eq!(provoked(&|r| r.window_ns = SECOND_NS), ["fsop-short-window"]);
    assert_eq!(provoked(&|r| of(r).spec.warmup_ns = SECOND_NS), ["fsop-short-warmup"]);
    assert_eq!(provoked(&|r| of(r).tree.trees = 1), ["fsop-shared-parts"]);
    assert_eq!(provoked(&|r| of(r).processes[0].vanished = 1), ["fsop-vanished"]);
    let idle = |r: &mut Record| of(r).processes.iter_mut().for_each(|p| p.classes.clear());
    assert_eq!(provoked(&idle), ["fsop-nothing-done"]);
    let cached = |r: &mut Record| {
        r.devices = fixtures::record().devices;
        r.devices.truncate(1);
        r.devices[0].read_bytes = 0;
        r.devices[0].written_bytes = 0;
        let all = &mut of(r).processes;
        all.iter_mut().for_each(|process| process.classes[0].bytes = 1 << 30);
    };
    assert_eq!(provoked(&cached), ["fsop-read-from-memory", "fsop-written-to-memory"]);
}
