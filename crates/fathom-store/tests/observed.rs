//! The views of watches, captures and file servers say what the records say.
#![expect(clippy::expect_used, reason = "a test's panic is its report")]

mod common;
#[path = "common/observed.rs"]
mod observed;

use common::{START_NS, head, writer};
use fathom_base::prng::Prng;
use fathom_model::finding::Verdict;
use fathom_model::record::{Ending, Record, RunKind};
use fathom_model::watch::{HostSample, Sample, WatchRecord};
use fathom_stats::Histogram;
use fathom_store::Store;
use rusqlite::Connection;
use rusqlite::types::Value;
use tempfile::TempDir;

fn place() -> (TempDir, Connection) {
    let directory = TempDir::new().expect("temporary directory");
    let path = directory.path().join("fathom.db");
    let mut store = Store::open(&path, START_NS).expect("opens");
    observed::add(&mut store);
    (directory, Connection::open(&path).expect("opens"))
}

fn ask(connection: &Connection, sql: &str) -> Vec<Vec<Value>> {
    let mut statement = connection.prepare(sql).expect("a question");
    let columns = statement.column_count();
    let rows = statement.query_map((), |row| (0..columns).map(|i| row.get(i)).collect());
    rows.expect("answers").map(|row| row.expect("a row")).collect()
}

#[track_caller]
fn near(value: &Value, expected: Option<f64>) {
    let got = match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Real(number) => Some(*number),
        Value::Null => None,
        other => panic!("{other:?} for {expected:?}"),
    };
    let is_near = |(got, wanted): (f64, f64)| (got - wanted).abs() <= 1e-9 * wanted.abs();
    let same = got.zip(expected).map_or(got.is_none() == expected.is_none(), is_near);
    assert!(same, "{got:?} for {expected:?}");
}

/// Every interval of every device against what the record itself is unpacked to.
#[test]
fn a_watch_is_unpacked() {
    let (_directory, connection) = place();
    let mut seen = 0;
    for (trial, record) in (0..).zip(observed::watch()) {
        let watch = record.watch.as_ref().expect("a watch");
        let (starts, lengths) = (watch.start_us.values(), watch.length_us.values());
        for device in &watch.devices {
            let sql = format!(
                "SELECT interval, start_s, length_s, reads_per_s, read_bytes_per_s, read_await_ms, writes_per_s, written_bytes_per_s,
                        write_await_ms, flushes_per_s, in_flight_mean, busy_share
                 FROM v_watch WHERE run_id = 'dddddddddddd' AND trial_index = {trial} AND device = '{}' ORDER BY interval",
                device.name
            );
            let rows = ask(&connection, &sql);
            let rates = watch.rates(device);
            assert_eq!(rows.len(), rates.values.len(), "{}", device.name);
            for (at, (row, of)) in rows.iter().zip(&rates.values).enumerate() {
                let at = rates.from + at;
                near(&row[0], Some((watch.first + at as u64) as f64));
                near(&row[1], Some(starts[at] as f64 / 1e6));
                near(&row[2], Some(lengths[at] as f64 / 1e6));
                near(&row[3], Some(of.reads.per_s));
                near(&row[4], Some(of.reads.kib_per_s * 1024.0));
                near(&row[5], of.reads.await_ms);
                near(&row[6], Some(of.writes.per_s));
                near(&row[7], Some(of.writes.kib_per_s * 1024.0));
                near(&row[8], of.writes.await_ms);
                near(&row[9], Some(of.flushes_per_s));
                near(&row[10], Some(of.queue));
                near(&row[11], Some(of.util_percent / 100.0));
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 80 + 35 + 40);
}

/// A watch with a trial for each series of KiB that were on their way to storage.
fn add_dirty(store: &mut Store, id: &str, series: &[Vec<u64>]) {
    let mut head = head(id, START_NS);
    head.kind = RunKind::Watch;
    store.begin_run(&head, &writer()).expect("begins");
    for values in series {
        let mut piece = WatchRecord::new(1_000_000_000, 0);
        for (index, kib) in (0..).zip(values) {
            let host = HostSample { dirty_bytes: kib << 10, ..HostSample::default() };
            let (start_ns, length_ns) = (index * 1_000_000_000, 1_000_000_000);
            piece.push(&Sample { index, start_ns, length_ns, host, ..Sample::default() });
        }
        let mut record = observed::empty("watch");
        record.watch = Some(Box::new(piece));
        store.add_trial(id, &record).expect("adds");
    }
    store.finish_run(id, Ending::Complete, Verdict::Trusted, &[], START_NS + 9).expect("ends");
}

/// Packed text is unpacked in pieces: series of every length, in which values of all sizes stand there once or many times, so that every
/// part of a number comes to lie on every seam.
#[test]
fn series_of_every_length_are_unpacked() {
    let directory = TempDir::new().expect("temporary directory");
    let path = directory.path().join("fathom.db");
    let mut store = Store::open(&path, START_NS).expect("opens");
    let mut prng = Prng::new(7, 0);
    let series: Vec<Vec<u64>> = (1..250)
        .map(|length| {
            let mut values = Vec::new();
            while values.len() < length {
                let bits = 1 + prng.below(40);
                let value = prng.below(1 << bits);
                let times = if prng.below(3) == 0 { 1 + prng.below(300) } else { 1 };
                values.extend((0..times).map(|_| value));
            }
            values.truncate(length);
            values
        })
        .collect();
    add_dirty(&mut store, "dddddddddddd", &series);
    let connection = Connection::open(&path).expect("opens");
    let sql = "SELECT dirty_bytes / 1024 FROM v_watch_machine ORDER BY trial_index, interval";
    let unpacked = ask(&connection, sql);
    let expected: Vec<u64> = series.concat();
    assert_eq!(unpacked.len(), expected.len());
    unpacked.iter().zip(expected).for_each(|(row, value)| near(&row[0], Some(value as f64)));
}

#[test]
fn the_machine_and_the_application_beside_it() {
    let (_directory, connection) = place();
    let sql = "SELECT interval, start_s, user_share, iowait_share, io_some_share, io_full_share, dirty_bytes, application_processes,
                      application_processors, application_resident_bytes
               FROM v_watch_machine WHERE run_id = 'dddddddddddd' ORDER BY interval";
    let rows = ask(&connection, sql);
    assert_eq!(rows.len(), 80);
    for (index, row) in rows.iter().enumerate() {
        let at = index as f64;
        // What was not known when it began is zero in its series from then on.
        let known = if index % 40 < 9 { 0.0 } else { 1.0 };
        let expected =
            [at, at, 0.25, 0.0, 0.5 * known, 0.125 * known, at * 1048576.0, 3.0, 0.75, 94371840.0];
        row.iter().zip(expected).for_each(|(value, expected)| near(value, Some(expected)));
    }
}

/// Rate, mean, least, percentiles with enough values, most.
#[track_caller]
fn figures(row: &[Value], latency: &Histogram) {
    near(&row[0], latency.mean());
    near(&row[1], latency.min().map(|ns| ns as f64));
    for (value, (q, needed)) in row[2..5].iter().zip([(0.5, 2), (0.99, 1000), (0.999, 10_000)]) {
        let known = latency.quantile(q).filter(|_| latency.count() >= needed);
        near(value, known.map(|ns| ns as f64));
    }
    near(&row[5], latency.max().map(|ns| ns as f64));
}

const FIGURES: &str = "mean_ns, min_ns, p50_ns, p99_ns, p99_9_ns, max_ns";

#[test]
fn a_capture_by_class_and_over_time() {
    let (_directory, connection) = place();
    let record = observed::capture();
    let capture = record.capture.as_ref().expect("a capture");
    let sql = format!(
        "SELECT {FIGURES}, class, requests, requests_per_s, bytes_per_s, follow_share, device FROM v_captures ORDER BY class"
    );
    let rows = ask(&connection, &sql);
    assert_eq!(rows.len(), 2);
    for (row, class) in rows.iter().zip(&capture.classes) {
        figures(row, &class.total_ns);
        assert_eq!(row[6], Value::Text(class.class.clone()));
        near(&row[7], Some(class.count as f64));
        near(&row[8], Some(class.count as f64 / 10.0));
        near(&row[9], Some(class.bytes as f64 / 10.0));
        near(&row[10], Some(class.follow as f64 / class.count as f64));
        assert_eq!(row[11], Value::Text("sda".into()));
    }
    let sql = "SELECT interval, start_s, reads, written_bytes, seeks, in_flight_mean, in_flight_max FROM v_capture_intervals ORDER BY interval";
    let rows = ask(&connection, sql);
    assert_eq!(rows.len(), 10);
    for (row, number) in rows.iter().zip(0u32..) {
        let number = f64::from(number);
        let expected = [number, number, 900.0 + number, 819_200.0, 700.0, 2.5, 9.0];
        row.iter().zip(expected).for_each(|(value, expected)| near(value, Some(expected)));
    }
}

#[test]
fn file_servers_by_process_and_second_and_personalities_by_transaction() {
    let (_directory, connection) = place();
    let servers: [Record; 2] = [observed::server(2, 1, 0), observed::server(0, 0, 2)];
    let sql = format!(
        "SELECT {FIGURES}, operations, bytes, operations_per_s, role FROM v_fsop_processes
         WHERE trial_index = 0 ORDER BY role, number, operations DESC"
    );
    let rows = ask(&connection, &sql);
    let window_s = servers[0].window_ns as f64 / 1e9;
    let processes = &servers[0].fsop.as_ref().expect("a server").processes;
    let classes = processes.iter().flat_map(|p| p.classes.iter().map(move |c| (p.role.word(), c)));
    let classes: Vec<_> = classes.collect();
    assert_eq!((rows.len(), classes.len()), (6, 6));
    for (row, (role, class)) in rows.iter().zip(classes) {
        figures(row, &class.latency_ns);
        near(&row[6], Some(class.latency_ns.count() as f64));
        near(&row[7], Some(class.bytes as f64));
        near(&row[8], Some(class.latency_ns.count() as f64 / window_s));
        assert_eq!(row[9], Value::Text(role.into()));
    }
    let sql = format!(
        "SELECT {FIGURES}, transactions, transactions_per_s, act, client FROM v_transactions ORDER BY client"
    );
    let rows = ask(&connection, &sql);
    assert_eq!(rows.len(), 2, "readers and writers make none");
    let played = servers[1].fsop.as_ref().expect("a server").processes[0].played.as_ref();
    let act = &played.expect("a client").acts[0];
    for row in &rows {
        figures(row, &act.service_ns);
        near(&row[6], Some(1500.0));
        near(&row[7], Some(1500.0 / window_s));
        assert_eq!(row[8], Value::Text("deliver".into()));
    }
    let sql = "SELECT readers, writers, clients, repeat, tree_files FROM v_fsop_phases ORDER BY trial_index";
    let whole = |numbers: [i64; 5]| numbers.map(Value::Integer).to_vec();
    assert_eq!(ask(&connection, sql), [whole([2, 1, 0, 1, 4000]), whole([0, 0, 2, 1, 4000])]);
    let sql = "SELECT end_s, dirty_bytes, busy_share, read_bytes FROM v_fsop_seconds WHERE trial_index = 0 AND device = 'sda' ORDER BY second";
    let rows = ask(&connection, sql);
    assert_eq!(rows.len(), 30);
    for (row, number) in rows.iter().zip(1u32..) {
        let number = f64::from(number);
        let expected = [number, number * 1048576.0, 0.9, 83_886_080.0];
        row.iter().zip(expected).for_each(|(value, expected)| near(value, Some(expected)));
    }
}
