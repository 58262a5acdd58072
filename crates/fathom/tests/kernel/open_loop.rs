//! Open loops, think time and caps on real targets: the rate is kept, what waits is counted, nothing is hidden.

use crate::cli::{Done, Sandbox, p};
use fathom_model::record::{JobRecord, OpenLoopRecord, Record};
use fathom_testkit::Capability::{FathomBinary, Tool};
use fathom_testkit::{Content, Trial, kernel_test, loopdev};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

pub fn trials() -> Vec<Trial> {
    let stops = [FathomBinary, Tool("kill")];
    vec![
        kernel_test("stop_in_an_open_loop_without_io", &stops, || stopped("null:", &[])),
        kernel_test("stop_in_an_open_loop_on_a_file", &stops, || {
            stopped("", &["direct=no"]);
        }),
        kernel_test("stop_in_an_open_loop_of_plain_calls", &stops, || {
            stopped("", &["direct=no", "engine=psync", "depth=1"]);
        }),
        kernel_test("every_engine_keeps_a_rate", &[FathomBinary], rates),
        kernel_test("more_is_due_than_can_be_done", &[FathomBinary], overloaded),
        kernel_test("an_impossible_rate_ends_in_time", &[FathomBinary, Tool("kill")], impossible),
        kernel_test("caps_and_think_time_hold", &[FathomBinary], slowed),
        kernel_test("open_loop_bad_input", &[FathomBinary], bad_input),
    ]
}

/// A file of somebody's that has just been written, and so is in the page cache and stays there: from a cold one, a slow disk
/// would not keep any rate.
pub fn cached_file(sandbox: &Sandbox) -> PathBuf {
    let file = sandbox.dir().join("cached");
    loopdev::make_file(&file, 8 << 20, Content::Pattern(1)).unwrap();
    file
}

fn job(done: &Done) -> JobRecord {
    let mut record: Record = serde_json::from_value(done.records().swap_remove(0)).unwrap();
    record.jobs.swap_remove(0)
}

fn open_loop(job: &JobRecord) -> &OpenLoopRecord {
    job.open_loop.as_ref().unwrap()
}

/// A rate that nothing can count one by one: the end comes soon, by itself and by a signal, and all are counted.
fn impossible() {
    let sandbox = Sandbox::new();
    for arrivals in ["even", "poisson"] {
        let arrivals = format!("arrivals={arrivals}");
        let args = ["run", "randread", "null:", "engine=null", "rate=100000000", &arrivals];
        let begin = Instant::now();
        let done = sandbox.json(&[&args[..], &["duration=2s"]].concat(), &[0, 1]);
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(200), "{took:?}");
        let all = job(&done);
        let open = open_loop(&all);
        assert!((open.due as f64 / 2e8 - 1.0).abs() < 0.001, "{}", open.due);
        let class = &open.classes[0];
        assert_eq!(class.response_ns.count() + class.unfinished_ns.count(), open.due);
    }
    let args = ["run", "randread", "null:", "engine=null", "rate=100000000", "duration=10m"];
    let running = sandbox.start(&args, "progress", 2);
    running.signal("INT");
    let begin = Instant::now();
    running.finish();
    assert!(begin.elapsed() < Duration::from_secs(300), "{:?}", begin.elapsed());
}

/// A second in four without a CPU: what was due meanwhile waited for up to that second. Other tools say nothing of it,
/// because they count from when they got around to starting a request.
fn stopped(target: &str, settings: &[&str]) {
    let sandbox = Sandbox::new();
    let file = cached_file(&sandbox);
    let target = if target.is_empty() { p(&file) } else { target };
    let args = ["run", "randread", target, "rate=2000", "duration=4s"];
    let running = sandbox.start(&[&args[..], settings].concat(), "progress", 1);
    running.signal("STOP");
    let begin = Instant::now();
    thread::sleep(Duration::from_secs(1));
    running.signal("CONT");
    let stop_s = begin.elapsed().as_secs_f64();
    let done = running.finish();
    assert_eq!(done.code, 1, "{done:?}");
    let job = job(&done);
    let open = open_loop(&job);
    assert_eq!(open.due, 8000);
    let class = &open.classes[0];
    assert_eq!(class.response_ns.count() + class.unfinished_ns.count(), open.due);
    // Share stop/4 of the requests is late, evenly up to the whole stop. A busy machine makes them later, never earlier.
    for (q, tolerance_s) in [(0.9, 0.1), (0.99, 0.07), (0.999, 0.07)] {
        let expected_s = stop_s - (1.0 - q) * 4.0;
        let got_s = class.at_least_ns().quantile(q).unwrap() as f64 / 1e9;
        let is_so = got_s > expected_s - tolerance_s && got_s < expected_s + 0.5 * stop_s;
        assert!(is_so, "p{q}: {got_s}, {expected_s} {done:?}");
    }
    let service_s = job.classes[0].latency_ns.quantile(0.99).unwrap() as f64 / 1e9;
    assert!(service_s < 0.5 * stop_s, "no more than in flight at the stop: {service_s}");
    let most = job.series.iter().filter_map(|i| i.open_loop.as_ref()).map(|o| o.backlog_max).max();
    assert!(most.unwrap() > 1900 || settings.is_empty(), "{most:?}");
    done.finding("held-up");
    done.has_not("overloaded");
    // With one place in all, a request that was in flight at the stop held it, and no place was free meanwhile.
    let places = u64::from(job.engine.threads) * u64::from(job.engine.depth);
    let longest_s = job.classes[0].latency_ns.max().unwrap() as f64 / 1e9;
    if places == 1 && longest_s > 0.9 * stop_s {
        done.has_not("generator-behind");
    } else {
        let summary = done.finding("generator-behind")["summary"].as_str().unwrap().to_owned();
        assert!(summary.contains("though a place was free"), "{summary}");
    }
}

fn rates() {
    let sandbox = Sandbox::new();
    let file = cached_file(&sandbox);
    for (engine, how, target) in [
        ("null", "depth=8", "null:"),
        ("io_uring", "depth=8", p(&file)),
        ("io_uring", "sqpoll=yes", p(&file)),
        ("libaio", "depth=8", p(&file)),
        ("psync", "depth=1", p(&file)),
        ("mmap", "depth=1", p(&file)),
    ] {
        // Buffered, libaio has no depth.
        let direct = if engine == "libaio" { "direct=yes" } else { "direct=no" };
        let engine = format!("engine={engine}");
        let args = ["run", "randread", target, direct, "duration=1s", how, &engine];
        for (arrivals, expected, allowed) in [("even", 3000, 0), ("poisson", 3000, 5 * 55)] {
            let arrivals = format!("arrivals={arrivals}");
            let more = ["rate=3000", "threads=2", &arrivals];
            let done = sandbox.json(&[&args[..], &more].concat(), &[0, 1]);
            let job = job(&done);
            let open = open_loop(&job);
            assert!(open.due.abs_diff(expected) <= allowed, "{engine} {arrivals}: {}", open.due);
            let class = &open.classes[0];
            let (ended, unfinished) = (class.response_ns.count(), class.unfinished_ns.count());
            assert_eq!(ended + unfinished, open.due, "{engine} {arrivals}: nothing is lost");
            assert_eq!(ended, job.classes[0].latency_ns.count());
            assert!(class.response_ns.sum() >= job.classes[0].latency_ns.sum(), "{engine}");
            // A machine that is busy with other tests does not stop it from catching up.
            assert!(ended * 20 > open.due, "{engine} {arrivals}: {unfinished}");
        }
    }
}

/// A device that takes at least some microseconds for each request cannot do one in half a microsecond.
fn overloaded() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let args = ["run", "randread", p(&dir), "size=8M", "rate=2000000", "depth=2", "duration=2s"];
    let done = sandbox.json(&args, &[1]);
    let job = job(&done);
    let open = open_loop(&job);
    assert_eq!(open.due, 4_000_000);
    let class = &open.classes[0];
    assert_eq!(class.response_ns.count() + class.unfinished_ns.count(), open.due);
    assert!(open.not_started > open.due / 2 && open.oldest_not_started_ns.unwrap() > 500_000_000);
    let ends: Vec<u64> =
        job.series.iter().filter_map(|i| i.open_loop.as_ref()).map(|o| o.backlog_end).collect();
    assert!(ends.is_sorted() && ends.len() >= 2, "{ends:?}");
    let finding = done.finding("overloaded");
    assert_eq!(finding["severity"], "doubtful");
    assert!(finding["advice"][1].as_str().unwrap().starts_with("use a rate below "), "{finding}");
    // Even the lucky half waited longer than services take.
    let at_least_ns = class.at_least_ns().quantile(0.5).unwrap();
    assert!(at_least_ns > job.classes[0].latency_ns.quantile(0.5).unwrap() * 2);
}

fn slowed() {
    let sandbox = Sandbox::new();
    let file = cached_file(&sandbox);
    let args = ["run", "randread", p(&file), "direct=no", "duration=2s", "depth=4"];
    // Ten milliseconds may be caught up, once; less comes out when the CPU is missing for longer.
    for (settings, most, least) in [
        (&["cap_iops=500"][..], 1000 + 5, 200),
        (&["cap_bytes=2048000", "threads=2"], 1000 + 10, 200),
        (&["think_time=10ms"], 800, 160),
    ] {
        let done = sandbox.json(&[&args[..], settings].concat(), &[0, 1]);
        let job = job(&done);
        let count = job.classes[0].latency_ns.count();
        assert!((least..=most).contains(&count), "{settings:?}: {count}");
        assert_eq!(job.open_loop, None, "a closed loop has service times only");
    }
}

fn bad_input() {
    let sandbox = Sandbox::new();
    for (settings, words) in [
        (&["rate=0"][..], &["rate=0", "above 0"][..]),
        (&["cap_iops=0"], &["cap_iops=0", "above 0"]),
        (&["cap_bytes=0"], &["cap_bytes=0", "larger than 0"]),
        (&["rate=9", "think_time=1ms"], &["rate=9", "think_time", "leave out one"]),
        (&["rate=9", "cap_iops=5"], &["rate=9", "cap_iops", "leave out one"]),
        (&["arrivals=poisson"], &["arrivals=poisson", "rate="]),
        (&["rate=1e-300"], &["rate=1e-300", "less than one request a day"]),
        (&["rate=1e300"], &["rate=1e300", "out of range"]),
        (&["cap_bytes=10", "duration=60s"], &["cap_bytes", "no second one would start"]),
    ] {
        let args = [&["run", "randread", "null:"][..], settings].concat();
        sandbox.refuses(&args, 2, words);
    }
}
