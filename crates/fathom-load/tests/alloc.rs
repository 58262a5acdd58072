//! The measured loop allocates nothing: workers that issue a thousand times more requests make exactly as many
//! allocations. The allocator counts by thread name, because the coordinator beside them may allocate.

#![expect(unsafe_code, reason = "a global allocator cannot be written without")]
#![expect(clippy::expect_used, reason = "a test ends at the first surprise")]

use fathom_load::plan::plan;
use fathom_load::run::{Control, JobSetup, Observer, Tick, run};
use fathom_load::target::LoadTarget;
use fathom_model::workload::Job;
use fathom_sys::clock::FastClock;
use fathom_sys::io::OpenMode;
use fathom_sys::signals::StopFlag;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

static BY_WORKERS: AtomicU64 = AtomicU64::new(0);

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
        // SAFETY: the caller's obligations are those of the system allocator.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
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

fn allocations(engine: &str, operations: u64) -> u64 {
    let path = std::env::temp_dir().join(format!("fathom-alloc-{}", std::process::id()));
    std::fs::write(&path, vec![1u8; 1 << 20]).expect("temporary file");
    let target = match engine {
        "null" => LoadTarget::null(1 << 20),
        _ => LoadTarget::read_only(&path, 1 << 20, 512, OpenMode::default()).expect("just written"),
    };
    std::fs::remove_file(&path).expect("just written");
    let mut job = Job { direct: false, operations: Some(operations), ..Job::default() };
    fathom_model::keys::set(&mut job, "engine", engine).expect("known");
    job.depth = if engine == "psync" { 1 } else { 16 };
    let plan = plan(&job, 1 << 20, 512, 1).expect("fits");
    let stop = StopFlag::default();
    // Short intervals, so that buffers change hands often.
    let control = Control { clock: FastClock::monotonic(), interval_ns: 1_000_000, stop: &stop };
    let before = BY_WORKERS.load(Ordering::Relaxed);
    run(&[JobSetup { plan, target: &target }], &control, &mut Silent).expect("runs");
    BY_WORKERS.load(Ordering::Relaxed) - before
}

#[test]
fn the_measured_loop_allocates_nothing() {
    for engine in ["null", "psync", "io_uring"] {
        let few = allocations(engine, 200);
        let many = allocations(engine, 200_000);
        assert!(few > 0, "the counter counts: setting up allocates");
        assert_eq!(few, many, "{engine}: 200 and 200000 requests");
    }
}
