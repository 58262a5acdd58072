//! The study of a search's records. The conditions are injected.

use super::*;
use crate::fixtures::{reads, record};
use fathom_model::record::{OpenLoopRecord, ResponseClass};

/// A closed-loop run of a second, the `order`-th of the search.
fn run(order: i64, depth: u32, iops: u64, cpu: f64) -> Record {
    let mut record = record();
    record.label = format!("{depth} in flight");
    record.started_unix_ns = order;
    record.workload.jobs[0].depth = depth;
    record.jobs[0].engine.depth = depth;
    record.jobs[0].window_ns = 1_000_000_000;
    record.window_ns = 1_000_000_000;
    reads(&mut record, iops, u64::from(depth) * 1_000_000_000 / iops);
    record.devices[0].busy_ns = 990_000_000;
    record.devices[0].in_flight_ns = Some(u64::from(depth) * 1_000_000_000);
    record.jobs[0].busiest_thread_cpu_ns = (cpu * 1e9) as u64;
    record
}

/// An open-loop run of a minute that answers everything in that time.
fn open(order: i64, rate: f64, response_ns: u64, not_started: u64) -> Record {
    let mut record = run(order, 64, 1000, 0.1);
    record.window_ns = 60_000_000_000;
    record.jobs[0].window_ns = 60_000_000_000;
    record.workload.jobs[0].rate = Some(rate);
    let mut responses = Histogram::new();
    responses.record_n(response_ns, 1000);
    let class = ResponseClass {
        class: OpClass::Read,
        response_ns: responses,
        unfinished_ns: Histogram::new(),
    };
    record.jobs[0].open_loop =
        Some(OpenLoopRecord { due: 1000, not_started, classes: vec![class], ..Default::default() });
    record
}

#[test]
fn injected_rows_knee_and_limit() {
    let records: Vec<Record> = [(1, 1000), (4, 3600), (8, 6000), (16, 6100), (32, 6050)]
        .into_iter()
        .zip(1..)
        .map(|((depth, iops), order)| run(order, depth, iops, 0.2))
        .collect();
    let study = study(&records, None).expect("measured");
    assert_eq!(study.knee.map(|k| (k.concurrency, k.blocks)), Some((8, 0)));
    assert_eq!((study.highest, study.limit.cause), (16, limit::Cause::Device));
    let row = &study.rows[2];
    assert_eq!((row.concurrency, row.iops.value, row.iops.count), (8, 6000.0, 1));
    assert_eq!((row.bytes_per_s, row.members_busy), (6000.0 * 4096.0, (1, 1)));
    let p50 = row.latency_ns_p50.expect("enough") as f64;
    assert!((p50 / 1_333_333.0 - 1.0).abs() < 0.02, "{p50}");
    // Little: so many were really in flight.
    assert!(row.in_flight.is_some_and(|n| (n - 8.0).abs() < 0.1), "{row:?}");
    assert_eq!(row.in_flight_device, Some(8.0));
    assert!(study.rows[0].latency_ns_p99.is_some(), "a thousand are enough");
    assert_eq!(judge(&records).verdict, Verdict::Trusted, "{:?}", judge(&records).findings);
}

#[test]
fn injected_cpu_beyond_the_knee_is_a_note_whatever_the_order_of_the_runs() {
    let mut records: Vec<Record> =
        [(32, 0.97), (1, 0.1), (16, 0.95), (4, 0.3), (8, 0.5), (16, 0.99), (8, 0.6)]
            .into_iter()
            .zip(1..)
            .map(|((depth, cpu), order)| run(order, depth, u64::from(depth.min(8)) * 700, cpu))
            .collect();
    let study = judge(&records);
    assert_eq!(study.verdict, Verdict::Trusted, "{:?}", study.findings);
    assert!(study.findings.iter().any(|f| f.id == "generator-bound-beyond-knee"));
    // At the knee itself nobody knows what the storage can do.
    records.iter_mut().for_each(|r| r.jobs[0].busiest_thread_cpu_ns = 970_000_000);
    let bound = judge(&records);
    assert_eq!(bound.verdict, Verdict::Doubtful);
    assert_eq!(bound.findings.iter().filter(|f| f.id == "generator-bound").count(), 1);
}

#[test]
fn injected_bound_and_its_probes() {
    let bound: Bound = "p99:10ms".parse().expect("valid");
    let mut records = vec![run(1, 1, 1000, 0.1), run(2, 8, 6000, 0.1), run(3, 32, 6050, 0.1)];
    let first = first_rate(&records, &bound);
    assert!((first - 5445.0).abs() < 1.0, "32 in flight take 5 ms: {first}");
    for (rate, response_ns, not_started) in [
        (5000.0, 8_000_000, 0),
        (6050.0, 9_000_000, 600),
        (5300.0, 9_500_000, 0),
        (5500.0, 12_000_000, 0),
        (5500.0, 11_000_000, 0),
        (5300.0, 9_800_000, 0),
        (5300.0, 9_700_000, 0),
        (5300.0, 9_900_000, 0),
    ] {
        records.push(open(records.len() as i64 + 1, rate, response_ns, not_started));
    }
    let answer = study(&records, Some(&bound)).and_then(|s| s.bound).expect("asked for");
    assert_eq!((answer.what.as_str(), answer.most_ns), ("p99", 10_000_000));
    let Answer { rate, runs, broken_at, is_verified, .. } = answer.answer;
    assert_eq!((rate, runs, broken_at, is_verified), (Some(5300.0), 4, Some(5500.0), true));
    let row = answer.rows.iter().find(|row| row.rate == 5300.0).expect("tried");
    assert_eq!((row.runs, row.kept), (4, 4));
    let (low, high) = row.figure_ns.expect("enough");
    assert!(low >= 9_400_000 && high <= 10_000_000, "{low} {high}");
    let overloaded = answer.rows.iter().find(|row| row.rate == 6050.0).expect("tried");
    assert_eq!((overloaded.kept, overloaded.late), (0, 0), "more was due than ended");
    let mut busy = records.clone();
    let thread = &mut busy[4].jobs[0];
    thread.busiest_thread_cpu_ns = thread.window_ns;
    let answer = study(&busy, Some(&bound)).and_then(|s| s.bound).expect("asked for");
    let late: Vec<usize> = answer.rows.iter().map(|row| row.late).collect();
    assert_eq!(late, [0, 0, 0, 1], "fathom itself was the limit where more was due than ended");
    // Asking for too much was the point.
    let judged = judge(&records);
    assert_eq!(judged.verdict, Verdict::Trusted, "{:?}", judged.findings);
}

#[test]
fn nothing_measured_is_no_study() {
    assert_eq!(study(&[], None), None);
    let mut cut = run(1, 8, 1000, 0.1);
    cut.ending = Ending::Interrupted;
    assert_eq!(study(&[cut.clone()], None), None);
    assert_eq!(judge(&[cut]).verdict, Verdict::Doubtful, "interrupted");
}
