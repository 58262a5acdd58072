//! A reader that walks a tree allocates nothing for an entry, and after its first round nothing at all: what is counted does
//! not depend on how long it walks, nor on how many files there are in a directory.

#![expect(unsafe_code, reason = "a global allocator cannot be written without")]
#![expect(clippy::expect_used, reason = "a test ends at the first surprise")]

use fathom_base::clock::Clock;
use fathom_model::fsop::{Role, WalkOrder};
use fathom_model::record::OpClass;
use fathom_sys::walked::WalkedDir;
use fathom_tree::ops::{Meter, READS};
use fathom_tree::stream::Points;
use fathom_tree::walk::{Reader, Reading};
use fathom_tree::window::{Schedule, Slot};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

struct Counting;

thread_local! {
    /// Of this thread: tests beside it count for themselves.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
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

/// Time goes on by one with every look at it, and is over after so many.
struct Looked<'a> {
    looks: Cell<u64>,
    looks_max: u64,
    over: &'a AtomicBool,
}

impl Clock for Looked<'_> {
    fn now_ns(&self) -> u64 {
        let looks = self.looks.get() + 1;
        self.looks.set(looks);
        if looks == self.looks_max {
            self.over.store(true, Ordering::Relaxed);
        }
        looks
    }
}

/// So many levels of three directories, each with so many files.
fn grow(dir: &Path, levels: u32, files: u32) {
    for number in 0..files {
        fs::write(dir.join(format!("f{number:07}")), "hello").expect("written");
    }
    for number in 0..if levels == 0 { 0 } else { 3 } {
        let below = dir.join(format!("d{number:07}"));
        fs::create_dir(&below).expect("made");
        grow(&below, levels - 1, files);
    }
}

/// Directories of such a tree.
const DIRECTORIES: u64 = 1 + 3 + 9;

/// What a reader allocates that looks at the clock so often, once for each operation and after operations were counted; and
/// rounds, and files it read.
fn walked(root: &Path, order: WalkOrder, looks_max: u64) -> (u64, u64, u64) {
    let (over, slot) = (AtomicBool::new(false), Slot::default());
    let clock = Looked { looks: Cell::new(0), looks_max, over: &over };
    let schedule = Schedule::new(0, u64::MAX / 4, &[0]);
    let root = WalkedDir::open(root).expect("there");
    let reading =
        Reading { begins: vec![c"".to_owned()], order, block_bytes: 4096, no_atime: true };
    let mut points = || Points::new(1_000, 1, 0);
    let mut meter = Meter::new(&clock, &slot, &schedule, 0, &READS, &mut points);
    let before = ALLOCATIONS.with(Cell::get);
    let ended = Reader::new(&root, &reading, &mut meter, &over).run();
    let allocations = ALLOCATIONS.with(Cell::get) - before;
    assert!(ended.is_ok(), "{ended:?}");
    let process = meter.finish(Role::Reader, 0).remove(0).0;
    let files = process.class(OpClass::CloseRead).map_or(0, |record| record.latency_ns.count());
    (allocations, process.rounds, files)
}

#[test]
fn a_walk_allocates_nothing_for_an_entry() {
    for order in [WalkOrder::Breadth, WalkOrder::Depth] {
        let counted = [2, 30].map(|files| {
            let dir = tempfile::tempdir().expect("temporary directory");
            grow(dir.path(), 2, files);
            // Six operations for each file, two or three for each directory; more than 64 are counted at once.
            let operations = DIRECTORIES * (u64::from(files) * 6 + 3);
            let round = operations + operations.div_ceil(64);
            let [once, often] = [2, 6].map(|rounds| walked(dir.path(), order, rounds * round));
            assert!(once.1 >= 2 && often.1 >= 6, "whole rounds: {once:?}, {often:?}");
            assert!(often.2 >= 6 * DIRECTORIES * u64::from(files), "{often:?}");
            assert!(once.0 > 0, "the counter counts: setting up allocates");
            assert_eq!(once.0, often.0, "{order:?}, {files} files: rounds allocate");
            once.0
        });
        assert_eq!(counted[0], counted[1], "{order:?}: files allocate");
    }
}
