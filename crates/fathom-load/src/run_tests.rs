//! Whole runs on real files: what is counted must agree with what was asked and with the kernel.

use super::*;
use crate::plan::plan;
use fathom_guard::OwnedDir;
use fathom_model::keys;
use fathom_model::record::OpClass;
use fathom_model::workload::{EngineKind, Job};
use fathom_sys::clock::Calibration;
use fathom_sys::io::OpenMode;
use fathom_sys::sysroot::SysRoot;
use std::fs::File;
use std::io::Write;

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

/// A file of `size` bytes that has no name any more, on the disk that holds the build.
fn file(size: usize) -> File {
    let path = std::env::current_exe().expect("a program").with_file_name(format!(
        "load-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    let mut file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .expect("the directory of the build");
    std::fs::remove_file(&path).expect("just made");
    file.write_all(&vec![0xA5; size]).expect("space");
    file
}

fn run_one(pairs: &[(&str, &str)], target: &LoadTarget) -> Result<Outcome, LoadError> {
    let mut job = Job { direct: false, ..Job::default() };
    pairs.iter().for_each(|(k, v)| keys::set(&mut job, k, v).expect(k));
    let plan = plan(&job, target.size_bytes(), 512, 3).expect("fits");
    let stop = StopFlag::default();
    let control = Control {
        clock: FastClock::calibrated(Calibration::begin(), Some("tsc")),
        interval_ns: 50_000_000,
        stop: &stop,
    };
    let mut silent = Silent { begun: 0, ended: 0 };
    let outcome = run(&[JobSetup { plan, target }], &control, &mut silent);
    assert_eq!(outcome.is_ok(), silent.ended == 1);
    outcome
}

/// Notes how often it was asked, and does not let runs start.
struct Refuses(u32);

impl Observer for Refuses {
    fn starts(&mut self) -> Result<(), String> {
        self.0 += 1;
        Err("not today".to_owned())
    }
    fn window_begins(&mut self) {}
    fn window_ends(&mut self) {}
    fn tick(&mut self, _: Tick) {}
}

#[test]
fn an_observer_that_refuses_is_asked_before_anything_is_written() {
    let target = LoadTarget::for_test(file(SIZE), SIZE as u64, true);
    let job = |pairs: &[(&str, &str)]| {
        let mut job = Job { direct: false, ..Job::default() };
        pairs.iter().for_each(|(k, v)| keys::set(&mut job, k, v).expect(k));
        plan(&job, target.size_bytes(), 512, 3).expect("fits")
    };
    let stop = StopFlag::default();
    let control = Control { clock: FastClock::monotonic(), interval_ns: 50_000_000, stop: &stop };
    // It is asked last: not when a thread cannot be set up, here because its CPU does not exist.
    for (cpus, asked) in [("", 1), ("8191", 0)] {
        let mut pairs = vec![("write_fraction", "1"), ("threads", "4"), ("operations", "1000")];
        pairs.extend((!cpus.is_empty()).then_some(("cpus", cpus)));
        let mut observer = Refuses(0);
        let setups = [JobSetup { plan: job(&pairs), target: &target }];
        let error = run(&setups, &control, &mut observer).expect_err("refused").to_string();
        assert_eq!((error == "not today", observer.0), (asked == 1, asked), "{error}");
    }
    let mut content = vec![0; SIZE];
    let file = target.file().expect("a file");
    std::os::unix::fs::FileExt::read_exact_at(file, &mut content, 0).expect("readable");
    assert!(content.iter().all(|byte| *byte == 0xA5));
}

/// Opens a file when all threads are ready, and notes which of those of the job see it.
struct Opens {
    /// Of the job.
    name: &'static str,
    seen: Vec<bool>,
}

impl Observer for Opens {
    fn starts(&mut self) -> Result<(), String> {
        let opened = File::open("/proc/self/stat").expect("always there");
        let fd = std::os::fd::AsRawFd::as_raw_fd(&opened);
        for thread in std::fs::read_dir("/proc/self/task").expect("of this process").flatten() {
            let name = std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
            if name.starts_with(&format!("io-{}-", self.name)) {
                let link = thread.path().join("fd").join(fd.to_string());
                self.seen.push(std::fs::read_link(link).is_ok());
            }
        }
        Ok(())
    }
    fn window_begins(&mut self) {}
    fn window_ends(&mut self) {}
    fn tick(&mut self, _: Tick) {}
}

#[test]
fn plain_calls_on_one_file_share_no_table_of_files() {
    let cases = [
        ("plain", vec![("engine", "psync"), ("threads", "2")], vec![false, false]),
        // It writes what must be found again, into a file that it opens.
        (
            "checks",
            vec![("engine", "psync"), ("write_fraction", "1"), ("verify", "after")],
            vec![true],
        ),
        ("ring", vec![("engine", "io_uring")], vec![true]),
    ];
    for (name, mut pairs, seen) in cases {
        let target = LoadTarget::for_test(file(SIZE), SIZE as u64, true);
        let mut job = Job { direct: false, name: name.to_owned(), ..Job::default() };
        pairs.push(("operations", "100"));
        pairs.iter().for_each(|(k, v)| keys::set(&mut job, k, v).expect(k));
        let plan = plan(&job, target.size_bytes(), 512, 3).expect("fits");
        let stop = StopFlag::default();
        let clock = FastClock::monotonic();
        let control = Control { clock, interval_ns: 50_000_000, stop: &stop };
        let mut opens = Opens { name, seen: Vec::new() };
        run(&[JobSetup { plan, target: &target }], &control, &mut opens).expect("it runs");
        assert_eq!(opens.seen, seen, "{name}");
    }
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
    // Where others take the processor at the end of the window, what is then in flight is a large part of all.
    let mut littles = Vec::new();
    let outcome = loop {
        let outcome = run_one(&pairs, &target).expect("runs");
        let job = &outcome.jobs[0];
        assert_eq!((job.window_ns, outcome.window_ns), (400_000_000, 400_000_000));
        let transfers = job.transfers().latency_ns;
        let rate_per_ns = transfers.count() as f64 / job.window_ns as f64;
        let little = transfers.mean().expect("some") * rate_per_ns / 32.0;
        littles.push(little);
        assert!(little <= 1.02 && littles.len() <= 10, "{littles:?}");
        if little >= 0.8 {
            break outcome;
        }
    };
    let (job, little) = (&outcome.jobs[0], littles[littles.len() - 1]);
    let held = job.in_flight_mean().expect("some");
    assert!(
        (little.min(1.0) * 32.0..=32.0).contains(&held),
        "with what was in flight at the end: {held}"
    );
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
fn what_a_failed_worker_did_is_kept() {
    let target = readable();
    target.file().expect("file").set_len(SIZE as u64 / 2).expect("truncate");
    let pairs = [("engine", "psync"), ("depth", "1"), ("access", "sequential"), ("amount", "4M")];
    let outcome = run_one(&pairs, &target).expect("starts");
    assert_eq!(outcome.failure.map(|f| f.offset_bytes), Some(SIZE as u64 / 2));
    let job = &outcome.jobs[0];
    assert_eq!(job.thread_operations, [512]);
    assert_eq!((job.transfers().latency_ns.count(), job.transfers().bytes), (512, 2 << 20));
    assert!(job.window_ns > 0 && job.in_flight_mean().is_some_and(|mean| mean <= 1.0));
}

#[test]
fn operations_of_threads_are_in_the_order_of_the_threads() {
    // Four threads of 16 have one operation more than the others, whoever ends first.
    let pairs = [("engine", "psync"), ("depth", "1"), ("threads", "16"), ("operations", "3204")];
    for _ in 0..5 {
        let outcome = run_one(&pairs, &readable()).expect("runs");
        let (more, less) = outcome.jobs[0].thread_operations.split_at(4);
        assert_eq!((more, less), (&[201; 4][..], &[200; 12][..]));
    }
}

#[test]
fn after_a_warm_up_operations_and_amount_are_exact_on_every_engine() {
    for engine in ["io_uring", "psync", "null"] {
        let target = if engine == "null" { LoadTarget::null(SIZE as u64) } else { readable() };
        let depth = if engine == "psync" { "1" } else { "16" };
        for (key, value) in [("operations", "3000"), ("amount", "12000k"), ("operations", "5")] {
            let pairs = [
                ("engine", engine),
                ("depth", depth),
                ("threads", "3"),
                ("warmup", "20ms"),
                (key, value),
            ];
            let outcome = run_one(&pairs, &target).expect(engine);
            let expected = if value == "5" { 5 } else { 3000 };
            let counted = outcome.jobs[0].transfers().latency_ns.count();
            assert_eq!(counted, expected, "{engine}, {key}={value}");
        }
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
    assert!(text.starts_with("job 'job': cpus=4000: there is no such CPU"), "{text}");
}

#[test]
fn a_stop_ends_the_run_and_keeps_what_was_measured() {
    let target = readable();
    let job = Job { direct: false, duration_ns: Some(600_000_000_000), depth: 4, ..Job::default() };
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
        outcome.window_ns < 300_000_000_000 && outcome.jobs[0].transfers().latency_ns.count() > 0
    );
}

/// Two jobs, of which the second waits while the first warms up; gives what came out and after how long.
fn with_a_long_warm_up(
    target: &LoadTarget,
    second: &[(&str, &str)],
    stop: &StopFlag,
) -> (Outcome, u64) {
    let job = |pairs: &[(&str, &str)]| {
        let mut job = Job { direct: false, ..Job::default() };
        pairs.iter().for_each(|(k, v)| keys::set(&mut job, k, v).expect(k));
        plan(&job, target.size_bytes(), 512, 3).expect("fits")
    };
    let long = [("warmup", "10m"), ("duration", "1s")];
    let setups = [&long[..], second].map(|pairs| JobSetup { plan: job(pairs), target });
    let control = Control { clock: FastClock::monotonic(), interval_ns: 50_000_000, stop };
    let begun_ns = control.clock.now_ns();
    let mut silent = Silent { begun: 0, ended: 0 };
    let outcome = run(&setups, &control, &mut silent).expect("starts");
    assert_eq!(silent.ended, 1);
    (outcome, control.clock.now_ns() - begun_ns)
}

/// That it ended long before the warm-up would have, and that nothing counts as measured.
#[track_caller]
fn ended_in_the_warm_up(outcome: &Outcome, took_ns: u64) {
    assert!(took_ns < 300_000_000_000, "ended after {took_ns} ns");
    for job in &outcome.jobs {
        assert!(job.classes.is_empty() && job.series.is_empty(), "{:?}", job.series);
        assert_eq!((job.window_ns, job.slowest.len()), (0, 0));
    }
}

#[test]
fn a_stop_does_not_wait_for_the_warm_up_of_another_job() {
    for second in [&[("duration", "1s")][..], &[("duration", "1s"), ("rate", "10")]] {
        let stop = StopFlag::default();
        let later = stop.clone();
        let asker = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(200));
            later.set(15);
        });
        let (outcome, took_ns) = with_a_long_warm_up(&readable(), second, &stop);
        asker.join().expect("thread");
        assert!(outcome.interrupted);
        ended_in_the_warm_up(&outcome, took_ns);
    }
}

#[test]
fn a_failure_does_not_wait_for_the_warm_up_of_another_job() {
    let target = readable();
    target.file().expect("file").set_len(SIZE as u64 / 2).expect("truncate");
    let (outcome, took_ns) =
        with_a_long_warm_up(&target, &[("duration", "1s")], &StopFlag::default());
    assert_eq!(outcome.failure.as_ref().map(|failure| failure.job.as_str()), Some("job"));
    ended_in_the_warm_up(&outcome, took_ns);
}

/// Keeps what it is told.
struct Listener(Vec<Tick>);

impl Observer for Listener {
    fn window_begins(&mut self) {}
    fn window_ends(&mut self) {}
    fn tick(&mut self, tick: Tick) {
        self.0.push(tick);
    }
}

#[test]
fn progress_does_not_drop_to_nothing_at_the_end_of_the_window() {
    let target = readable();
    for _ in 0..10 {
        // Paced, so that other tests have the processors.
        let mut job = Job { direct: false, ..Job::default() };
        for (key, value) in [("threads", "2"), ("rate", "500"), ("duration", "300ms")] {
            keys::set(&mut job, key, value).expect(key);
        }
        let plan = plan(&job, target.size_bytes(), 512, 3).expect("fits");
        let stop = StopFlag::default();
        let control =
            Control { clock: FastClock::monotonic(), interval_ns: 100_000_000, stop: &stop };
        let mut listener = Listener(Vec::new());
        let outcome = run(&[JobSetup { plan, target: &target }], &control, &mut listener);
        let total = outcome.expect("runs").jobs[0].transfers().bytes;
        let last = listener.0.last().expect("ticks");
        assert_eq!((last.elapsed_ns, last.bytes_total), (300_000_000, total));
        assert!(last.iops > 0.0 && last.latency_ns_p99.is_some(), "{last:?}");
    }
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

/// The processor's time of a call that is all that a job does, and in which the thread only copies.
#[test]
fn the_first_requests_take_time_of_the_processor() {
    let target = LoadTarget::for_test(file(SIZE), SIZE as u64, true);
    let size = SIZE.to_string();
    let pairs = [
        ("access", "sequential"),
        ("write_fraction", "1"),
        ("engine", "psync"),
        ("depth", "1"),
        ("direct", "no"),
        ("block_size", size.as_str()),
        ("operations", "1"),
    ];
    // Where others take the processors, that may be little of the window.
    let is_counted = || {
        let job = run_one(&pairs, &target).expect("runs").jobs.remove(0);
        assert_eq!(job.transfers().latency_ns.count(), 1);
        job.cpu.total_ns() >= job.window_ns / 2
    };
    assert!((0..50).any(|_| is_counted()));
}

/// While nothing but the syncs of many files is left, that is told, and a stop ends it.
#[test]
fn the_last_syncs_of_many_files_are_told_and_can_be_stopped() {
    const FILES: u32 = 400;
    let dir = std::env::current_exe().expect("a program");
    let dir = dir.with_file_name(format!("load-syncs-{}", std::process::id()));
    std::fs::create_dir_all(dir.join("data")).expect("the directory of the build");
    let mut owned =
        OwnedDir::create(&SysRoot::live(), &dir.join("data"), "run1", &dir.join("state"))
            .expect("made");
    let tree = owned.create_tree(FILES, &mut |_| true).expect("made");
    let mode = OpenMode { write: true, ..OpenMode::default() };
    let target = LoadTarget::own_tree(&tree, 4096, 512, mode).expect("opened");
    for stops in [false, true] {
        let mut job = Job { direct: false, ..Job::default() };
        for (key, value) in [
            ("files_open", "100"),
            ("file_choice", "sequential"),
            ("write_fraction", "1"),
            ("sync_at_end", "fsync"),
            ("operations", "400"),
        ] {
            keys::set(&mut job, key, value).expect(key);
        }
        let plan = plan(&job, target.size_bytes(), 512, 3).expect("fits");
        let stop = StopFlag::default();
        let control =
            Control { clock: FastClock::monotonic(), interval_ns: 1_000_000, stop: &stop };
        let mut stopper = Stopper { told: Vec::new(), stop: stops.then_some(&stop) };
        let setups = [JobSetup { plan, target: &target }];
        let outcome = run(&setups, &control, &mut stopper).expect("runs");
        assert_eq!((outcome.failure, outcome.interrupted), (None, stops));
        let told = stopper.told;
        assert!(!told.is_empty(), "400 syncs take more than a millisecond");
        assert!(told.iter().all(|told| told.files == u64::from(FILES)), "{told:?}");
        assert!(told.is_sorted_by_key(|told| told.done), "{told:?}");
        assert!(!stops || told[told.len() - 1].done < u64::from(FILES), "{told:?}");
    }
    owned.remove().expect("ours");
    std::fs::remove_dir_all(dir).expect("nobody else uses it");
}

/// Keeps what it is told of syncs, and stops the run at the first.
struct Stopper<'a> {
    told: Vec<Syncing>,
    stop: Option<&'a StopFlag>,
}

impl Observer for Stopper<'_> {
    fn window_begins(&mut self) {}
    fn window_ends(&mut self) {}
    fn tick(&mut self, tick: Tick) {
        self.told.extend(tick.syncing);
        if let Some(stop) = self.stop.filter(|_| tick.syncing.is_some()) {
            stop.set(2);
        }
    }
}

/// Each thread writes a file of its own from nothing, and synchronises that one itself.
#[test]
fn threads_with_files_of_their_own() {
    const EACH: u64 = 1 << 20;
    let dir = std::env::temp_dir().join(format!("fathom-own-files-{}", std::process::id()));
    std::fs::create_dir_all(dir.join("data")).expect("temporary directory");
    let mut owned =
        OwnedDir::create(&SysRoot::live(), &dir.join("data"), "run1", &dir.join("state"))
            .expect("made");
    let tree = owned.create_tree(3, &mut |_| true).expect("made");
    let mode = OpenMode { write: true, ..OpenMode::default() };
    let lengths = || -> Vec<u64> {
        let length = |index| tree.open(index, mode).expect("open").metadata().expect("facts").len();
        (0..3).map(length).collect()
    };
    for (engine, depth) in [("psync", "1"), ("io_uring", "4")] {
        let target = LoadTarget::own_tree(&tree, EACH, 512, mode).expect("opened");
        target.truncate().expect("ours");
        assert_eq!(lengths(), [0; 3]);
        let write = [
            ("access", "sequential"),
            ("write_fraction", "1"),
            ("sync_at_end", "fsync"),
            ("file_choice", "thread"),
            ("threads", "3"),
            ("engine", engine),
            ("depth", depth),
        ];
        let outcome = run_one(&write, &target).expect(engine);
        assert_eq!(lengths(), [EACH; 3], "{engine}");
        let job = &outcome.jobs[0];
        assert_eq!(job.thread_times.iter().map(|t| t.bytes).collect::<Vec<_>>(), [EACH; 3]);
        let windows = job.thread_times.iter().map(|times| times.window_ns);
        assert_eq!(windows.max(), Some(job.window_ns), "the slowest ends the job");
        let busy_ns: u128 = job.thread_times.iter().map(|times| u128::from(times.busy_ns)).sum();
        assert_eq!(busy_ns, job.transfers().latency_ns.sum(), "all latencies are some thread's");
        assert!(job.final_sync_ns.is_some_and(|ns| ns < job.window_ns));
        let read = [&write[..1], &write[3..], &[("amount", "3M")]].concat();
        let read = run_one(&read, &target).expect(engine);
        assert_eq!(read.jobs[0].transfers().bytes, 3 * EACH);
    }
    owned.remove().expect("ours");
    std::fs::remove_dir_all(dir).expect("nobody else uses it");
}
