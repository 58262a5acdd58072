//! The measured loop allocates nothing: workers that issue many times more requests make exactly as many
//! allocations. The allocator counts by thread name, because the coordinator beside them may allocate; what that one
//! keeps stays small, which is counted too.

#![expect(unsafe_code, reason = "a global allocator cannot be written without")]
#![expect(clippy::expect_used, reason = "a test ends at the first surprise")]

use fathom_base::prng::Prng;
use fathom_guard::OwnedFile;
use fathom_load::plan::plan;
use fathom_load::run::{Control, JobSetup, Observer, Outcome, Tick, run};
use fathom_load::target::LoadTarget;
use fathom_model::record::{ClassRecord, IntervalClass, IntervalRecord, OpClass};
use fathom_model::workload::Job;
use fathom_stats::Histogram;
use fathom_sys::clock::FastClock;
use fathom_sys::io::OpenMode;
use fathom_sys::signals::StopFlag;
use fathom_sys::sysroot::SysRoot;
use fathom_testkit::Scratch;
use std::alloc::{GlobalAlloc, Layout, System};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

struct Counting;

static BY_WORKERS: AtomicU64 = AtomicU64::new(0);
static LIVE_BYTES: AtomicU64 = AtomicU64::new(0);
static PEAK_BYTES: AtomicU64 = AtomicU64::new(0);

/// True on a thread whose name starts with `io-`; asks the kernel, which allocates nothing.
fn on_worker() -> bool {
    let mut name = [0u8; 16];
    // SAFETY: PR_GET_NAME fills at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name.starts_with(b"io-")
}

// SAFETY: every call is passed on to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if on_worker() {
            BY_WORKERS.fetch_add(1, Ordering::Relaxed);
        }
        let size_bytes = layout.size() as u64;
        let live_bytes = LIVE_BYTES.fetch_add(size_bytes, Ordering::Relaxed) + size_bytes;
        PEAK_BYTES.fetch_max(live_bytes, Ordering::Relaxed);
        // SAFETY: the caller's obligations are those of the system allocator.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Silent;

impl Observer for Silent {
    fn window_begins(&mut self) {}
    fn window_ends(&mut self) {}
    fn tick(&mut self, _: Tick) {}
}

/// Tests of this program count for the whole process: one at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

const SIZE_BYTES: u64 = 1 << 20;

/// Runs one job on a file of ours and says what it came to. Intervals are short, so that buffers change hands often.
fn outcome(engine: &str, keys: &[(&str, &str)]) -> Outcome {
    let scratch = Scratch::new().expect("a scratch directory");
    let path = scratch.join("file");
    let owned = OwnedFile::create(&SysRoot::live(), &path, "alloc", &scratch.join("state"))
        .expect("a file of ours");
    owned.file().write_all_at(&vec![1u8; SIZE_BYTES as usize], 0).expect("space");
    let target = match engine {
        "null" => LoadTarget::null(SIZE_BYTES),
        _ => LoadTarget::own_file(&owned, SIZE_BYTES, 512, OpenMode::default()).expect("ours"),
    };
    let mut job = Job { direct: false, ..Job::default() };
    let depth = if engine == "psync" { "1" } else { "16" };
    for (key, value) in [("engine", engine), ("depth", depth)].iter().chain(keys) {
        fathom_model::keys::set(&mut job, key, value).expect(value);
    }
    let plan = plan(&job, SIZE_BYTES, 512, 1).expect("fits");
    let stop = StopFlag::default();
    let control = Control { clock: FastClock::monotonic(), interval_ns: 1_000_000, stop: &stop };
    let outcome = run(&[JobSetup { plan, target: &target }], &control, &mut Silent).expect("runs");
    assert_eq!(outcome.failure, None, "{engine} {keys:?}");
    outcome
}

/// The same job with two settings of one key that differ in nothing but how long it goes on.
fn allocates_alike(engine: &str, keys: &[(&str, &str)], key: &str, short: &str, long: &str) {
    let counted = |value: &str| {
        let before = BY_WORKERS.load(Ordering::Relaxed);
        let outcome = outcome(engine, &[keys, &[(key, value)]].concat());
        (BY_WORKERS.load(Ordering::Relaxed) - before, outcome.jobs[0].series.len())
    };
    // Two threads that report ready at the same moment may both allocate the channel's first block, of which one is
    // used: by chance one more. A loop that allocates differs each time, by thousands.
    let mut counts = (0, 0);
    for _ in 0..3 {
        let (few, _) = counted(short);
        let (many, intervals) = counted(long);
        assert!(few > 0, "the counter counts: setting up allocates");
        assert!(intervals > 3, "{engine} {keys:?}: buffers changed hands");
        counts = (few, many);
        if few == many {
            break;
        }
    }
    assert_eq!(counts.0, counts.1, "{engine} {keys:?}: {key}={short} and {key}={long}");
}

#[test]
fn the_measured_loop_allocates_nothing() {
    let _alone = alone();
    let sizes = ("block_size", "512:1,4k:3,64k:1");
    let synced = [("write_fraction", "0.5"), ("fsync_every", "50"), sizes];
    let jobs: [&[(&str, &str)]; 11] = [
        &[],
        // Written buffers are stamped.
        &[("write_fraction", "1")],
        &synced,
        &[("access", "sequential"), ("write_fraction", "0.3"), ("threads", "2")],
        &[("access", "replication"), ("write_fraction", "0.5")],
        &[("warmup", "5ms"), sizes],
        &[("rate", "100000")],
        // More than any of them can do: a backlog.
        &[("rate", "2000000"), ("arrivals", "poisson"), ("write_fraction", "0.5")],
        &[("think_time", "20us")],
        &[("cap_iops", "50000"), ("cap_bytes", "1G")],
        // Many to one place at once.
        &[("verify", "after"), ("write_fraction", "1"), ("distribution", "zipf:1.2"), sizes],
    ];
    for engine in ["null", "psync", "io_uring"] {
        for keys in jobs {
            // Each sync is a real one.
            let syncs = keys.iter().any(|(k, v)| *k == "fsync_every" || *v == "replication");
            let paced = ["rate", "think_time", "cap_iops"];
            let is_paced = keys.iter().any(|(key, _)| paced.contains(key));
            let many = match (engine, syncs, is_paced) {
                ("null", _, false) => "1000000",
                ("null", _, true) => "200000",
                (_, false, _) => "50000",
                (_, true, _) => "1000",
            };
            allocates_alike(engine, keys, "operations", "200", many);
        }
        allocates_alike(engine, &[("rate", "5000000")], "duration", "5ms", "300ms");
        // What is in flight when the time is over is noted down.
        allocates_alike(engine, &synced, "duration", "5ms", "300ms");
    }
    for batch in ["4", "16"] {
        let keys = [("batch", batch), ("write_fraction", "0.5")];
        allocates_alike("io_uring", &keys, "operations", "200", "50000");
    }
}

/// What `make` leaves allocated, and the most that was allocated meanwhile, in bytes.
fn memory_of<T>(make: impl FnOnce() -> T) -> (T, u64, u64) {
    let before = LIVE_BYTES.load(Ordering::Relaxed);
    PEAK_BYTES.store(before, Ordering::Relaxed);
    let made = make();
    let grown = |now: &AtomicU64| now.load(Ordering::Relaxed) - before;
    (made, grown(&LIVE_BYTES), grown(&PEAK_BYTES))
}

/// A mixed load on a disk: a thousand latencies a second, spread over two decades around 5 ms, as log-normal ones are.
#[test]
fn an_hour_of_seconds_takes_a_few_megabytes() {
    let _alone = alone();
    let mut prng = Prng::new(7, 0);
    let mut uniform = || (prng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    let mut latency = || {
        let normal =
            (-2.0 * (1.0 - uniform()).ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
        (5e6 * normal.exp()) as u64
    };
    let mut class = |class| {
        let mut latency_ns = Histogram::new();
        (0..500).for_each(|_| latency_ns.record(latency()));
        IntervalClass::from(ClassRecord { class, latency_ns, bytes: 500 << 12 })
    };
    let (series, kept_bytes, _) = memory_of(|| -> Vec<IntervalRecord> {
        let interval = |second: u64| IntervalRecord {
            start_ns: second * 1_000_000_000,
            length_ns: 1_000_000_000,
            classes: [OpClass::Read, OpClass::Write].map(&mut class).into(),
            open_loop: None,
        };
        (0..3600).map(interval).collect()
    });
    assert_eq!(series.len(), 3600);
    println!("an hour of two classes: {} KiB", kept_bytes >> 10);
    // Dense histograms would be 212 MiB.
    assert!(kept_bytes < 6 << 20, "{kept_bytes}");
}

/// The same of the coordinator while a run goes on, on the page cache.
#[test]
fn the_series_of_a_run_is_small_while_it_grows() {
    let _alone = alone();
    for engine in ["null", "psync", "io_uring"] {
        let (outcome, _, peak_bytes) = memory_of(|| outcome(engine, &[("duration", "1500ms")]));
        let intervals = outcome.jobs[0].series.len() as u64;
        println!("{engine}: {intervals} intervals, at most {} KiB", peak_bytes >> 10);
        assert!(intervals > 300, "{intervals}");
        // A dense histogram is 29 KiB; beside the series there are the file's content and the worker's own buffers.
        assert!(peak_bytes < (3 << 20) + intervals * 2048, "{engine}: {peak_bytes}");
    }
}
