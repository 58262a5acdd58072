//! Whole runs on real files: what is counted must agree with what was asked and with the kernel.

use super::*;
use crate::plan::plan;
use fathom_model::keys;
use fathom_model::record::OpClass;
use fathom_model::workload::{EngineKind, Job};
use std::fs::File;
use std::io::Write;
use std::path::Path;

struct Silent {
    begun: u32,
    ended: u32,
}

impl Observer for Silent {
    fn window_begins(&mut self) {
        self.begun += 1;
    }
    fn window_ends(&mut self) {
        assert_eq!(self.begun, 1);
        self.ended += 1;
    }
    fn tick(&mut self, _: Tick) {}
}

/// A file of `size` bytes that has no name any more.
fn file(size: usize) -> File {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!(
        "../../target/load-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    let mut file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .expect("target directory");
    std::fs::remove_file(&path).expect("just made");
    file.write_all(&vec![0xA5; size]).expect("space");
    file
}

fn run_one(pairs: &[(&str, &str)], target: &LoadTarget) -> Result<Outcome, LoadError> {
    let mut job = Job { direct: false, ..Job::default() };
    pairs.iter().for_each(|(k, v)| keys::set(&mut job, k, v).expect(k));
    let plan = plan(&job, target.size_bytes(), 512, 3).expect("fits");
    let stop = StopFlag::default();
    let control =
        Control { clock: FastClock::calibrated(Some("tsc")), interval_ns: 50_000_000, stop: &stop };
    let mut silent = Silent { begun: 0, ended: 0 };
    let outcome = run(&[JobSetup { plan, target }], &control, &mut silent);
    assert_eq!(outcome.is_ok(), silent.ended == 1);
    outcome
}

const SIZE: usize = 1 << 22;

fn readable() -> LoadTarget {
    LoadTarget::for_test(file(SIZE), SIZE as u64, false)
}

#[test]
fn operations_are_counted_exactly_on_every_engine() {
    for (engine, depth, threads) in
        [("io_uring", "16", "3"), ("psync", "1", "4"), ("io_uring", "1", "1"), ("null", "8", "2")]
    {
        let target = if engine == "null" { LoadTarget::null(SIZE as u64) } else { readable() };
        let pairs =
            [("engine", engine), ("depth", depth), ("threads", threads), ("operations", "10007")];
        let outcome = run_one(&pairs, &target).expect(engine);
        let job = &outcome.jobs[0];
        assert_eq!(job.transfers().latency_ns.count(), 10_007, "{engine}");
        assert_eq!(job.transfers().bytes, 10_007 * 4096);
        let in_series: u64 =
            job.series.iter().flat_map(|i| &i.classes).map(|c| c.latency_ns.count()).sum();
        assert_eq!(in_series, 10_007, "the series holds everything once");
        assert_eq!(job.slowest.len(), 100);
        assert!(job.slowest.windows(2).all(|w| w[0].latency_ns >= w[1].latency_ns));
        assert_eq!(Some(job.slowest[0].latency_ns), job.transfers().latency_ns.max());
        assert!(!outcome.interrupted && outcome.failure.is_none());
    }
}

#[test]
fn by_the_clock_the_window_is_exact_and_littles_law_closes() {
    let target = readable();
    let pairs = [("depth", "32"), ("duration", "400ms"), ("warmup", "50ms")];
    let outcome = run_one(&pairs, &target).expect("runs");
    let job = &outcome.jobs[0];
    assert_eq!((job.window_ns, outcome.window_ns), (400_000_000, 400_000_000));
    let transfers = job.transfers().latency_ns;
    let rate_per_ns = transfers.count() as f64 / job.window_ns as f64;
    let little = transfers.mean().expect("some") * rate_per_ns / 32.0;
    assert!((0.8..=1.02).contains(&little), "{little}");
    let held = job.in_flight_sum as f64 / job.batches as f64;
    assert!(held > 31.0, "the depth asked for is held: {held}");
    assert!(job.censored.len() <= 32 && !job.censored.is_empty());
    assert!(job.cpu.total_ns() > 0 && job.busiest_thread_cpu_ns <= 600_000_000);
    let series: Vec<(u64, u64)> = job.series.iter().map(|i| (i.start_ns, i.length_ns)).collect();
    assert_eq!(series.iter().map(|s| s.1).sum::<u64>(), 400_000_000, "{series:?}");
}

#[test]
fn writes_land_where_they_should_and_are_all_different() {
    use std::os::unix::fs::FileExt;
    let target = LoadTarget::for_test(file(SIZE), SIZE as u64, true);
    let pairs = [
        ("access", "sequential"),
        ("write_fraction", "1"),
        ("block_size", "64k"),
        ("amount", "2M"),
        ("offset", "1M"),
        ("depth", "4"),
        ("sync_at_end", "fdatasync"),
    ];
    let outcome = run_one(&pairs, &target).expect("runs");
    let job = &outcome.jobs[0];
    assert_eq!(
        job.class(OpClass::Write).map(|c| (c.latency_ns.count(), c.bytes)),
        Some((32, 2 << 20))
    );
    assert!(job.final_sync_ns.is_some_and(|ns| ns > 0 && ns <= job.window_ns));
    let mut content = vec![0; SIZE];
    target.file().expect("file").read_exact_at(&mut content, 0).expect("readable");
    let untouched = |range: std::ops::Range<usize>| content[range].iter().all(|b| *b == 0xA5);
    assert!(untouched(0..1 << 20) && untouched(3 << 20..SIZE));
    let blocks: std::collections::BTreeSet<&[u8]> =
        content[1 << 20..3 << 20].chunks(4096).collect();
    assert_eq!(blocks.len(), 512, "no two blocks alike");
}

#[test]
fn a_target_that_became_shorter_is_a_failure_with_its_place() {
    let target = readable();
    target.file().expect("file").set_len(SIZE as u64 / 2).expect("truncate");
    for engine in ["io_uring", "psync"] {
        let outcome = run_one(&[("engine", engine), ("duration", "5s")], &target).expect("starts");
        let failure = outcome.failure.expect("a read beyond the end");
        assert!(failure.offset_bytes >= SIZE as u64 / 2 && failure.errno == 0, "{failure:?}");
        assert!(failure.message.contains("only 0 bytes were moved"), "{}", failure.message);
        assert!(outcome.window_ns < 4_000_000_000, "it ended at once");
    }
}

#[test]
fn writing_needs_the_right_to_write() {
    let refused = run_one(&[("write_fraction", "1"), ("operations", "1")], &readable());
    assert!(matches!(refused, Err(LoadError::NotWritable(_))));
}

#[test]
fn a_cpu_that_does_not_exist_is_an_error_before_any_request() {
    let refused = run_one(&[("cpus", "4000"), ("operations", "1"), ("threads", "2")], &readable());
    let text = refused.expect_err("no such CPU").to_string();
    assert!(
        text.starts_with("job 'job', thread 0: binding to a CPU") || text.contains("thread 1"),
        "{text}"
    );
}

#[test]
fn a_stop_ends_the_run_and_keeps_what_was_measured() {
    let target = readable();
    let job = Job { direct: false, duration_ns: Some(30_000_000_000), depth: 4, ..Job::default() };
    let plan = plan(&job, target.size_bytes(), 512, 3).expect("fits");
    let stop = StopFlag::default();
    let control = Control { clock: FastClock::monotonic(), interval_ns: 50_000_000, stop: &stop };
    let later = stop.clone();
    let asker = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(200));
        later.set(15);
    });
    let mut silent = Silent { begun: 0, ended: 0 };
    let outcome = run(&[JobSetup { plan, target: &target }], &control, &mut silent).expect("runs");
    asker.join().expect("thread");
    assert!(outcome.interrupted);
    assert!(
        outcome.window_ns < 5_000_000_000 && outcome.jobs[0].transfers().latency_ns.count() > 0
    );
}

#[test]
fn syncs_are_real_calls_on_every_engine() {
    for engine in ["io_uring", "psync"] {
        let target = LoadTarget::for_test(file(SIZE), SIZE as u64, true);
        let pairs = [
            ("engine", engine),
            ("write_fraction", "1"),
            ("fsync_every", "2"),
            ("operations", "40"),
        ];
        let outcome = run_one(&pairs, &target).expect(engine);
        let count = |class| outcome.jobs[0].class(class).map_or(0, |c| c.latency_ns.count());
        assert_eq!((count(OpClass::Write), count(OpClass::SyncedWrite)), (20, 20));
        assert_eq!((count(OpClass::Sync), count(OpClass::Commit)), (20, 20));
        assert_eq!(
            outcome.jobs[0].engine.kind,
            if engine == "psync" { EngineKind::Psync } else { EngineKind::IoUring }
        );
    }
}
