//! Rows against the records that they were made of.

use super::*;
use crate::samples;
use std::collections::BTreeMap;

fn all(what: What, run: &Run) -> Vec<BTreeMap<String, Cell>> {
    let factors = ["scheduler".to_owned(), "block".to_owned(), "scheduler".to_owned()];
    let table = Table::new(what, &factors);
    let mut rows = Vec::new();
    let put = |cells: Vec<Cell>| {
        assert_eq!(cells.len(), table.columns.len(), "{what:?}");
        for (cell, column) in cells.iter().zip(&table.columns) {
            let is_right = match cell {
                Cell::Empty => true,
                Cell::Text(_) => column.kind == Kind::Text,
                Cell::Whole(_) => column.kind == Kind::Whole,
                Cell::Number(_) => column.kind == Kind::Number,
                Cell::Truth(_) => column.kind == Kind::Truth,
            };
            assert!(is_right, "{what:?} {} {cell:?}", column.name);
        }
        rows.push(table.columns.iter().map(|c| c.name.clone()).zip(cells).collect());
        Ok::<(), ()>(())
    };
    table.rows(run, put).expect("nothing fails");
    rows
}

#[test]
fn names_are_unique_and_units_are_last() {
    for what in What::ALL {
        let table = Table::new(what, &["block".to_owned(), "x".to_owned()]);
        let names: BTreeSet<&str> = table.columns.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names.len(), table.columns.len(), "{what:?}");
        let units = [
            "_s",
            "_ns",
            "_utc",
            "_share",
            "_mean",
            "_label",
            "_id",
            "_index",
            "_kind",
            "_sentinel",
            "_end",
            "_ms",
            "_merged",
            "_max",
        ];
        for column in table.columns.iter().filter(|c| c.name.contains('_')) {
            let name = &column.name;
            let is_known = units.iter().any(|unit| name.ends_with(unit)) || name.contains("bytes");
            assert!(is_known || name.starts_with("factor_"), "{name} says no unit");
        }
    }
}

#[test]
fn rows_of_classes_have_the_figures_of_the_record() {
    let run = samples::run();
    let rows = all(What::Rows, &run);
    let classes: usize =
        run.records.iter().flat_map(|r| &r.jobs).map(|job| job.classes.len()).sum();
    assert_eq!(rows.len(), classes - samples::EMPTY_CLASSES);
    let latency = &run.records[0].jobs[0].classes[0].latency_ns;
    let row = &rows[0];
    assert_eq!(row["class"], Cell::text("read"));
    assert_eq!(row["operations"], Cell::count(latency.count()));
    assert_eq!(row["service_p50_ns"], latency.quantile(0.5).into());
    assert_eq!(row["service_p99_99_ns"], Cell::Empty, "too few values");
    assert_eq!(row["operations_per_s"], Cell::Number(latency.count() as f64 / 2.0));
    assert_eq!(row["started_utc"], Cell::text("2026-11-21T03:00:00.001Z"));
    assert_eq!(row["verdict"], Cell::text("trusted"));
    let open = run.records[1].jobs[0].open_loop.as_ref().expect("open loop");
    let row = rows.iter().find(|row| row["trial_index"] == Cell::Whole(1)).expect("a row");
    assert_eq!(row["response_p50_ns"], open.classes[0].at_least_ns().quantile(0.5).into());
}

#[test]
fn intervals_in_which_nothing_ended_have_a_row() {
    let run = samples::run();
    let rows = all(What::Series, &run);
    let first: Vec<_> = rows.iter().filter(|row| row["trial_index"] == Cell::Whole(0)).collect();
    assert_eq!(first.len(), 2);
    assert_eq!(first[1]["class"], Cell::Empty);
    assert_eq!(first[1]["operations"], Cell::Whole(0));
    assert_eq!(first[1]["start_s"], Cell::Number(1.0));
    assert_eq!(first[1]["service_mean_ns"], Cell::Empty);
}

#[test]
fn buckets_add_up() {
    let run = samples::run();
    let rows = all(What::Histogram, &run);
    let sum = |time: &str| -> i64 {
        let of = rows.iter().filter(|row| row["time"] == Cell::text(time));
        of.map(|row| if let Cell::Whole(count) = row["count"] { count } else { 0 }).sum()
    };
    let service: u64 = run
        .records
        .iter()
        .flat_map(|r| &r.jobs)
        .flat_map(|j| &j.classes)
        .map(|c| c.latency_ns.count())
        .sum();
    assert_eq!(sum("service"), service.cast_signed());
    assert!(sum("response") > 0);
}

#[test]
fn trials_have_a_column_for_each_factor() {
    let run = samples::run();
    let rows = all(What::Trials, &run);
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0]["scheduler"], Cell::Empty, "no trial of an experiment");
    assert_eq!(rows[1]["scheduler"], Cell::text("none"));
    assert_eq!(rows[1]["factor_block"], Cell::text("4k"), "a factor called like a column");
    assert_eq!(rows[1]["block"], Cell::Whole(3));
    assert_eq!(rows[1]["application"], Cell::text("{\"tps\":12.5}"));
}

#[test]
fn findings_of_the_run_and_of_its_trials_and_devices() {
    let run = samples::run();
    let rows = all(What::Findings, &run);
    assert_eq!(rows[0]["trial_index"], Cell::Empty);
    assert_eq!(rows[1]["trial_index"], Cell::Whole(0));
    assert_eq!(rows[1]["advice"], Cell::text("one\ntwo"));
    let devices = all(What::Devices, &run);
    assert_eq!(devices[0]["busy_share"], Cell::Number(0.5));
}

/// A watch of two devices in two pieces, the second of which begins with an application.
fn watched() -> Run {
    use fathom_model::watch::{
        ApplicationSample, ArraySample, DeviceCounts, DeviceSample, FlowCounts, FlowLatency,
        HostSample, LatencySample, Sample, WatchRecord,
    };
    use fathom_stats::histogram::Histogram;
    let mut run = samples::run();
    let device = |name: &str, requests: u64| {
        let writes = FlowCounts { requests, merged: 1, sectors: 16 * requests, took_ms: 30 };
        let counts = DeviceCounts { writes, busy_ms: 250, in_flight: 2, ..DeviceCounts::default() };
        DeviceSample {
            name: name.into(),
            title: if name == "sda" { "ACME".into() } else { String::new() },
            depth: usize::from(name == "sdb"),
            counts,
            rates: counts.rates(1),
            stands_out: None,
            array: None,
            interrupts: Vec::new(),
            latency: None,
        }
    };
    let mut pieces = [WatchRecord::new(500_000_000, 0), WatchRecord::new(500_000_000, 2)];
    for index in 0..3u64 {
        let mut devices = vec![device("sda", 10 + index)];
        devices.extend((index > 0).then(|| device("sdb", 100 * index)));
        let is_last = index == 2;
        let mut writes = Histogram::new();
        [1_000_000, 5_000_000].into_iter().for_each(|ns| writes.record(ns));
        let latency =
            LatencySample { writes: FlowLatency::of(&writes), ..LatencySample::default() };
        devices[0].latency = is_last.then(|| Box::new(latency));
        devices[0].array = Some(ArraySample {
            sync_action: if is_last { "check" } else { "idle" }.to_owned(),
            sync_done: is_last.then_some(0.5),
            sync_kib_per_s: is_last.then_some(1000),
            degraded: 1,
            thread_cpu_share: None,
        });
        let host = HostSample {
            dirty_bytes: 8192 * index,
            io_pressure: is_last.then_some((0.5, 0.25)),
            ..HostSample::default()
        };
        let own =
            ApplicationSample { processes: 3, cpu_share: 0.5, ..ApplicationSample::default() };
        let application = is_last.then_some(own);
        let (start_ns, length_ns) = (index * 500_000_000, 500_000_000);
        let sample =
            Sample { index, start_ns, length_ns, devices, host, application, ..Sample::default() };
        pieces[usize::from(is_last)].push(&sample);
    }
    for (record, piece) in run.records.iter_mut().zip(pieces) {
        record.watch = Some(Box::new(piece));
    }
    run
}

#[test]
fn a_watch_has_a_row_for_each_device_and_interval() {
    let run = watched();
    let rows = all(What::Watch, &run);
    let told: Vec<_> =
        rows.iter().map(|r| (r["device"].clone(), r["interval_index"].clone())).collect();
    let at = |name: &str, index: i64| (Cell::text(name), Cell::Whole(index));
    assert_eq!(told, [at("sda", 0), at("sda", 1), at("sdb", 1), at("sda", 2), at("sdb", 2)]);
    let row = &rows[4];
    assert_eq!((&row["start_s"], &row["length_s"]), (&Cell::Number(1.0), &Cell::Number(0.5)));
    assert_eq!(
        (&row["writes"], &row["written_bytes"]),
        (&Cell::Whole(200), &Cell::Whole(1_638_400))
    );
    assert_eq!(
        (&row["writes_per_s"], &row["write_await_ms"]),
        (&Cell::Number(400.0), &Cell::Number(0.15))
    );
    assert_eq!((&row["busy_share"], &row["in_flight_end"]), (&Cell::Number(0.5), &Cell::Whole(2)));
    assert_eq!(
        (&row["read_await_ms"], &row["title"], &row["depth"]),
        (&Cell::Empty, &Cell::Empty, &Cell::Whole(1))
    );
    assert_eq!(rows[0]["title"], Cell::text("ACME"));
    let array = |row: &BTreeMap<String, Cell>| {
        ["synchronised_share", "synchronised_bytes_per_s", "degraded"].map(|name| row[name].clone())
    };
    assert_eq!(array(&rows[0]), [Cell::Empty, Cell::Empty, Cell::Whole(1)]);
    assert_eq!(array(&rows[3]), [Cell::Number(0.5), Cell::Number(1_024_000.0), Cell::Whole(1)]);
    assert_eq!(array(&rows[4]), [const { Cell::Empty }; 3]);
    let latency = |row: &BTreeMap<String, Cell>| {
        ["read_p99_ms", "write_p99_ms", "write_max_ms"].map(|name| row[name].clone())
    };
    assert_eq!(latency(&rows[3]), [Cell::Empty, Cell::Number(5.0), Cell::Number(5.0)]);
    assert_eq!(latency(&rows[0]), [const { Cell::Empty }; 3]);
    assert!(all(What::Watch, &samples::run()).is_empty());
}

#[test]
fn a_trial_has_the_series_of_its_devices_and_no_zeros_of_the_machine() {
    use fathom_model::watch::WatchRecord;
    let mut run = watched();
    let pieces = |run: &mut Run, clear: fn(&mut WatchRecord)| {
        run.records.iter_mut().filter_map(|r| r.watch.as_mut()).for_each(|piece| clear(piece));
    };
    pieces(&mut run, |piece| piece.host.series.clear());
    // Where a command is the load, its processes are told.
    let of_command = all(What::WatchHost, &run);
    let [row] = of_command.as_slice() else { panic!("{of_command:?}") };
    assert_eq!((&row["processes"], &row["user_share"]), (&Cell::Whole(3), &Cell::Empty));
    assert_eq!(row["available_bytes"], Cell::Empty);
    pieces(&mut run, |piece| piece.application.series.clear());
    assert_eq!((all(What::Watch, &run).len(), all(What::WatchHost, &run).len()), (5, 0));
}

#[test]
fn what_was_not_told_is_empty_and_not_zero() {
    let rows = all(What::WatchHost, &watched());
    let of = |name: &str| rows.iter().map(|row| row[name].clone()).collect::<Vec<_>>();
    assert_eq!(of("dirty_bytes"), [0, 8192, 16_384].map(Cell::Whole));
    assert_eq!(of("io_some_share"), [Cell::Empty, Cell::Empty, Cell::Number(0.5)]);
    assert_eq!(of("processes"), [Cell::Empty, Cell::Empty, Cell::Whole(3)]);
    assert_eq!(of("application_cpu_share")[2], Cell::Number(0.5));
    assert_eq!(of("steal_share"), vec![Cell::Number(0.0); 3]);
}

#[test]
fn processes_of_file_servers_are_rows_by_role() {
    let mut run = samples::run();
    run.records.truncate(1);
    let class = |name: &str, count: u64| {
        let mut latency_ns = fathom_stats::Histogram::new();
        latency_ns.record_n(10_000, count);
        serde_json::json!({ "class": name, "latency_ns": latency_ns, "bytes": 0 })
    };
    let process = |role: &str, number: u32, class| {
        serde_json::json!({
            "role": role, "number": number, "classes": [class], "crossings": [], "slowest": [],
            "operations_by_second": [], "rounds": 0, "vanished": 0,
        })
    };
    let fsop = serde_json::json!({
        "spec": {}, "phase": { "readers": 2, "writers": 1 }, "repeat": 1, "tree": {}, "caches": "went_on",
        "processes": [
            process("reader", 0, class("open_read", 100)), process("reader", 1, class("open_read", 50)),
            process("writer", 0, class("open_write", 30)),
        ],
        "seconds": [], "stream": {}, "end_seen_late_ns": 0,
    });
    let record = &mut run.records[0];
    record.fsop = Some(Box::new(serde_json::from_value(fsop).expect("a phase")));
    (record.jobs, record.workload.jobs) = (Vec::new(), Vec::new());
    let rows = all(What::Rows, &run);
    let of = |name: &str| rows.iter().map(|row| row[name].clone()).collect::<Vec<_>>();
    assert_eq!(of("job"), [Cell::text("readers"), Cell::text("writers")]);
    assert_eq!(of("class"), [Cell::text("open_read"), Cell::text("open_write")]);
    assert_eq!(of("operations"), [Cell::count(150), Cell::count(30)]);
    assert!(!all(What::Histogram, &run).is_empty());
}

#[test]
fn personalities_are_rows_by_transaction_and_by_call() {
    let mut run = samples::run();
    run.records.truncate(1);
    let times = |each_ns: u64, count: u64| {
        let mut latency_ns = fathom_stats::Histogram::new();
        latency_ns.record_n(each_ns, count);
        serde_json::to_value(latency_ns).expect("a histogram")
    };
    let client = |number: u32| {
        let act = |act: &str, count: u64| serde_json::json!({ "act": act, "service_ns": times(1_000_000, count), "response_ns": times(3_000_000, count) });
        serde_json::json!({
            "role": "client", "number": number, "crossings": [], "slowest": [], "operations_by_second": [], "rounds": 0,
            "vanished": 0, "classes": [{ "class": "sync", "latency_ns": times(9_000, 70), "bytes": 0 }],
            "played": { "acts": [act("deliver", 50), act("stat", 20)], "rate": { "due": 75, "unfinished_ns": times(80_000_000, 5) } },
        })
    };
    let fsop = serde_json::json!({
        "spec": {}, "phase": { "readers": 0, "writers": 0, "clients": 2 }, "repeat": 1, "tree": {}, "caches": "went_on",
        "processes": [client(0), client(1)], "seconds": [], "stream": {}, "end_seen_late_ns": 0,
    });
    let record = &mut run.records[0];
    record.fsop = Some(Box::new(serde_json::from_value(fsop).expect("a phase")));
    (record.jobs, record.workload.jobs) = (Vec::new(), Vec::new());
    let rows = all(What::Rows, &run);
    let of = |name: &str| rows.iter().map(|row| row[name].clone()).collect::<Vec<_>>();
    assert_eq!(of("job"), ["transactions", "deliver", "stat", "calls"].map(Cell::text));
    assert_eq!(of("class"), ["transaction", "transaction", "transaction", "sync"].map(Cell::text));
    assert_eq!(of("operations"), [140, 100, 40, 140].map(Cell::count));
    let longest = of("response_max_ns");
    assert_eq!(longest[..2], [80_000_000, 3_000_000].map(Cell::count), "what never ended counts");
    assert_eq!(longest[3], Cell::Empty);
    assert_eq!(of("threads"), [2; 4].map(Cell::count));
}

#[test]
fn operations_of_file_servers_are_rows() {
    let mut run = samples::run();
    run.records.truncate(1);
    let process = |role: &str, number: u32| {
        serde_json::json!({
            "role": role, "number": number, "classes": [], "crossings": [], "slowest": [], "operations_by_second": [],
            "rounds": 0, "vanished": 0,
        })
    };
    let fsop = serde_json::json!({
        "spec": {}, "phase": { "readers": 1, "writers": 1, "clients": 0 }, "repeat": 2, "tree": {}, "caches": "went_on",
        "processes": [process("reader", 0), process("writer", 0)], "seconds": [], "end_seen_late_ns": 0,
        "stream": {
            "start_us": [1500, 2_000_000], "took_us": [0, 900], "took_rest_ns": [345, 0], "class": [0, 1], "process": [0, 1],
            "classes": ["open_read", "sync"], "operations": 70,
        },
    });
    run.records[0].fsop = Some(Box::new(serde_json::from_value(fsop).expect("a phase")));
    let rows = all(What::Operations, &run);
    let of = |name: &str| rows.iter().map(|row| row[name].clone()).collect::<Vec<_>>();
    assert_eq!(of("role"), ["reader", "writer"].map(Cell::text));
    assert_eq!(of("class"), ["open_read", "sync"].map(Cell::text));
    assert_eq!(of("start_s"), [0.0015, 2.0].map(Cell::Number));
    assert_eq!(of("service_ns"), [345, 900_000].map(Cell::count));
    assert_eq!(of("operations"), [70, 70].map(Cell::count), "of how many these are kept");
    assert_eq!(of("repeat"), [2, 2].map(Cell::count));
}

#[test]
fn intervals_of_captures_are_rows_also_where_nothing_came() {
    use fathom_model::capture::{CaptureInterval, CaptureRecord};
    let mut run = samples::run();
    run.records.truncate(1);
    let mut latency_ns = fathom_stats::Histogram::new();
    latency_ns.record_n(200_000, 40);
    let half = 500_000_000;
    let series = vec![
        CaptureInterval {
            length_ns: half,
            reads: 40,
            read_bytes: 40 * 4096,
            seeks: 30,
            depth_mean: 1.5,
            depth_max: 7,
            latency_ns: (&latency_ns).into(),
            ..CaptureInterval::default()
        },
        CaptureInterval { start_ns: half, length_ns: half, ..CaptureInterval::default() },
    ];
    let capture = CaptureRecord { device: "sda".into(), series, ..CaptureRecord::default() };
    run.records[0].capture = Some(Box::new(capture));
    let rows = all(What::CaptureSeries, &run);
    let of = |name: &str| rows.iter().map(|row| row[name].clone()).collect::<Vec<_>>();
    assert_eq!(of("start_s"), [0.0, 0.5].map(Cell::Number));
    assert_eq!(of("reads_per_s"), [80.0, 0.0].map(Cell::Number));
    assert_eq!(of("in_flight_max"), [7, 0].map(Cell::count));
    assert_eq!(of("ended"), [40, 0].map(Cell::count));
    assert_eq!(of("latency_p50_ns"), [latency_ns.quantile(0.5).into(), Cell::Empty]);
    assert_eq!(of("latency_p99_ns"), [Cell::Empty, Cell::Empty], "too few values");
    assert_eq!(of("device"), [Cell::text("sda"), Cell::text("sda")]);
}
