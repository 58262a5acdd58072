//! The views say what the records say: every figure against the one that is computed from the record itself.
#![expect(clippy::expect_used, reason = "a test's panic is its report")]

mod common;
#[path = "common/experiments.rs"]
mod experiments;
#[path = "common/plans.rs"]
mod plans;

use common::{START_NS, head, record, writer};
use experiments::experiment;
use fathom_model::finding::Verdict;
use fathom_model::record::{Ending, OpClass, Record};
use fathom_stats::histogram::bucket_bounds;
use fathom_store::Store;
use rusqlite::Connection;
use rusqlite::types::Value;
use tempfile::TempDir;

/// A store with a run of two trials and an experiment, open for questions.
fn place() -> (TempDir, Connection, Vec<Record>) {
    let directory = TempDir::new().expect("temporary directory");
    let path = directory.path().join("fathom.db");
    let mut store = Store::open(&path, START_NS).expect("opens");
    let records = vec![record("one", 1), record("two", 2)];
    store.begin_run(&head("aaaaaaaaaaaa", START_NS), &writer()).expect("begins");
    for record in &records {
        store.add_trial("aaaaaaaaaaaa", record).expect("adds");
    }
    let ended = (Ending::Complete, Verdict::Trusted, START_NS + 9_000_000_000);
    store
        .finish_run("aaaaaaaaaaaa", ended.0, ended.1, &records[0].findings, ended.2)
        .expect("ends");
    experiment(&mut store, "bbbbbbbbbbbb");
    (directory, Connection::open(&path).expect("opens"), records)
}

fn ask(connection: &Connection, sql: &str) -> Vec<Vec<Value>> {
    let mut statement = connection.prepare(sql).expect("a question");
    let columns = statement.column_count();
    let rows = statement.query_map((), |row| (0..columns).map(|i| row.get(i)).collect());
    rows.expect("answers").map(|row| row.expect("a row")).collect()
}

#[track_caller]
fn near(value: &Value, expected: f64) {
    let got = match value {
        Value::Integer(number) => *number as f64,
        Value::Real(number) => *number,
        other => panic!("{other:?} for {expected}"),
    };
    assert!((got - expected).abs() <= 1e-9 * expected.abs(), "{got} for {expected}");
}

#[test]
fn rows_have_the_figures_of_their_histograms() {
    let (_directory, connection, records) = place();
    let sql = "SELECT trial_index, class, operations, bytes, operations_per_s, bytes_per_s, mean_ns, min_ns, p50_ns, p90_ns,
                   p95_ns, p99_ns, p99_9_ns, max_ns, threads, job FROM v_rows JOIN v_jobs USING (run_id, trial_index, job_index, job) WHERE run_id = 'aaaaaaaaaaaa'
               ORDER BY trial_index, class";
    let rows = ask(&connection, sql);
    assert_eq!(rows.len(), 4);
    for row in rows {
        let Value::Integer(index) = row[0] else { panic!("{row:?}") };
        let job = &records[index as usize].jobs[0];
        let is_read = row[1] == Value::Text("read".into());
        let class =
            job.class(if is_read { OpClass::Read } else { OpClass::Commit }).expect("class");
        let (latency, window_s) = (&class.latency_ns, job.window_ns as f64 / 1e9);
        near(&row[2], latency.count() as f64);
        near(&row[3], class.bytes as f64);
        near(&row[4], latency.count() as f64 / window_s);
        near(&row[5], class.bytes as f64 / window_s);
        near(&row[6], latency.mean().expect("values"));
        near(&row[7], latency.min().expect("values") as f64);
        for (column, q, needed) in
            [(8, 0.5, 2), (9, 0.9, 100), (10, 0.95, 200), (11, 0.99, 1000), (12, 0.999, 10_000)]
        {
            if latency.count() >= needed {
                near(&row[column], latency.quantile(q).expect("values") as f64);
            } else {
                assert_eq!(row[column], Value::Null, "too few values for {q}");
            }
        }
        near(&row[13], latency.max().expect("values") as f64);
        assert_eq!((&row[14], &row[15]), (&Value::Integer(16), &Value::Text("mix".into())));
    }
}

#[test]
fn histograms_are_unpacked() {
    let (_directory, connection, records) = place();
    let sql = "SELECT low_ns, high_ns, count, cumulative FROM v_histogram
               WHERE run_id = 'aaaaaaaaaaaa' AND trial_index = 1 AND class = 'read' ORDER BY low_ns";
    let mut sum = 0;
    let expected: Vec<Vec<Value>> = records[1].jobs[0].classes[0]
        .latency_ns
        .occupied()
        .map(|(bucket, count)| {
            let (low, high) = bucket_bounds(bucket);
            sum += count;
            [low, high, count, sum].map(|n| Value::Integer(n.cast_signed())).into()
        })
        .collect();
    assert!(ask(&connection, sql) == expected, "other buckets");
}

#[test]
fn samples_devices_slowest_findings_environment() {
    let (_directory, connection, records) = place();
    let of = |what: &str| {
        ask(&connection, &format!("{what} AND run_id = 'aaaaaaaaaaaa' AND trial_index = 0"))
    };
    let samples = of(
        "SELECT start_s, length_s, operations, bytes, mean_ns, max_ns, operations_per_s FROM v_samples WHERE class = 'read'",
    );
    let series = &records[0].jobs[0].series;
    assert_eq!(samples.len(), series.len());
    for (row, interval) in samples.iter().zip(series) {
        let class = &interval.classes[0];
        near(&row[0], interval.start_ns as f64 / 1e9);
        near(&row[1], 1.0);
        near(&row[2], class.latency_ns.count() as f64);
        near(&row[3], class.bytes as f64);
        near(&row[4], class.latency_ns.sum() as f64 / class.latency_ns.count() as f64);
        near(&row[5], class.latency_ns.max().expect("values") as f64);
        near(&row[6], class.latency_ns.count() as f64);
    }
    let devices = of("SELECT device, reads, written_bytes, busy_share FROM v_devices WHERE 1");
    assert_eq!(devices.len(), 1);
    assert_eq!(devices[0][0], Value::Text("sda".into()));
    near(&devices[0][3], 59.0 / 60.0);
    let slowest =
        of("SELECT end_s, latency_ns, offset_bytes FROM v_slowest WHERE class = 'commit'");
    near(&slowest[0][0], 31.0);
    near(&slowest[0][2], (1u64 << 33) as f64);
    let findings = of("SELECT finding, severity, summary, advice FROM v_findings WHERE 1");
    let texts: Vec<Value> = ["short-row", "note", "measured for 60 s", "longer: duration=10m"]
        .map(|text| Value::Text(text.into()))
        .into();
    assert_eq!(findings, std::slice::from_ref(&texts));
    let whole = "SELECT finding, severity, summary, advice FROM v_findings
                 WHERE run_id = 'aaaaaaaaaaaa' AND trial_index IS NULL";
    assert_eq!(ask(&connection, whole), [texts]);
    let environment =
        "SELECT name, value FROM v_environment WHERE run_id = 'aaaaaaaaaaaa' AND name = 'kernel'";
    assert_eq!(ask(&connection, environment), [["kernel", "6.12"].map(|t| Value::Text(t.into()))]);
    let runs = ask(
        &connection,
        "SELECT started_utc, duration_s, verdict, trials, findings FROM v_runs ORDER BY run_id",
    );
    assert_eq!(runs[0][0], Value::Text("2026-11-21T03:00:00Z".into()));
    near(&runs[0][1], 9.0);
    assert_eq!(
        &runs[0][2..],
        [Value::Text("trusted".into()), Value::Integer(2), Value::Integer(1)]
    );
}

#[test]
fn trials_of_experiments_have_their_levels_and_knobs() {
    let (_directory, connection, _) = place();
    let sql =
        "SELECT block, place, cell, is_sentinel, workload, levels, void, prepare_s FROM v_trials
               WHERE run_id = 'bbbbbbbbbbbb' ORDER BY trial_index";
    let rows = ask(&connection, sql);
    assert_eq!(rows.len(), 8);
    assert_eq!(rows[0][5], Value::Text("scheduler=none readahead=128".into()));
    assert_eq!(
        (&rows[0][0], &rows[0][3], &rows[0][6]),
        (&Value::Integer(0), &Value::Integer(0), &Value::Null)
    );
    near(&rows[0][7], 2.0);
    let levels = "SELECT DISTINCT level FROM v_levels WHERE run_id = 'bbbbbbbbbbbb' AND factor = 'scheduler' ORDER BY level";
    assert_eq!(
        ask(&connection, levels),
        [["bfq"], ["none"]].map(|row| row.map(|t| Value::Text(t.into())).to_vec())
    );
    let knobs = "SELECT knob, place, asked, before, after FROM v_knobs WHERE run_id = 'bbbbbbbbbbbb' AND trial_index = 0";
    let knobs = ask(&connection, knobs);
    assert_eq!(knobs[0][0], Value::Text("block.scheduler".into()));
    assert_eq!(knobs[0][1..], ["sda", "none", "none", "none"].map(|t| Value::Text(t.into())));
    // Outside of experiments there are no cells.
    let none = ask(
        &connection,
        "SELECT count(*) FROM v_trials WHERE run_id = 'aaaaaaaaaaaa' AND cell IS NOT NULL",
    );
    assert_eq!(none, [[Value::Integer(0)]]);
}
