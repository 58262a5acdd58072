//! Reports of large experiments: how long they take, how much memory, how large the file is. The ceiling on time is ten times
//! what is meant; that of the size is exact. What it took is printed (`--nocapture`), and the files stay in the build's
//! temporary directory to be looked at.

#![expect(unsafe_code, reason = "a global allocator cannot be written without")]
#![expect(clippy::expect_used, reason = "a test ends at the first surprise")]

mod large;
#[expect(dead_code, reason = "pages of other tests are made of the rest")]
#[path = "pages/kinds/sample.rs"]
mod records;

use fathom_html::page::{Block, Page};
use fathom_html::{html, markdown};
use fathom_model::plan::Plan;
use fathom_model::record::{Record, RunKind};
use std::alloc::{GlobalAlloc, Layout, System};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What a report may take at most, and how large its file may be.
const MEMORY_BYTES_MAX: u64 = 500_000_000;
const FILE_BYTES_MAX: usize = 15_000_000;
/// Ten times the five seconds that are meant, for slow machines; ten times that again for code that is not optimised.
const TIME_MAX: Duration = Duration::from_secs(if cfg!(debug_assertions) { 500 } else { 50 });

struct Counting;

static LIVE_BYTES: AtomicU64 = AtomicU64::new(0);
static PEAK_BYTES: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
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

/// What is counted is counted for the whole program: one after the other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Builds the page and both files from records, holding time, memory and size against what they may be.
fn build(
    name: &str,
    kind: RunKind,
    plan: Option<&Plan>,
    records: impl FnOnce() -> Vec<Record>,
) -> Page {
    PEAK_BYTES.store(LIVE_BYTES.load(Ordering::Relaxed), Ordering::Relaxed);
    let before_bytes = LIVE_BYTES.load(Ordering::Relaxed);
    let records = records();
    let records_bytes = LIVE_BYTES.load(Ordering::Relaxed) - before_bytes;
    let start = Instant::now();
    let page = large::page(name, kind, plan, &records);
    let page_time = start.elapsed();
    let text = html::html(&page);
    let time = start.elapsed();
    let peak_bytes = PEAK_BYTES.load(Ordering::Relaxed) - before_bytes;
    let brief = markdown::markdown(&page);
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("scale-{name}.html"));
    std::fs::write(&path, &text).expect("written");
    println!(
        "{name}: {} records of {:.0} MB, page {:.2} s, file {:.2} s, peak {:.0} MB, {:.2} MB, Markdown {} kB: {}",
        records.len(),
        records_bytes as f64 / 1e6,
        page_time.as_secs_f64(),
        time.as_secs_f64(),
        peak_bytes as f64 / 1e6,
        text.len() as f64 / 1e6,
        brief.len() / 1000,
        path.display()
    );
    assert!(text.len() < FILE_BYTES_MAX, "{} bytes", text.len());
    assert!(peak_bytes < MEMORY_BYTES_MAX, "{peak_bytes} bytes at the peak");
    assert!(time < TIME_MAX, "{time:?}");
    page
}

#[test]
fn ten_thousand_trials() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let page = build("lab", RunKind::Experiment, Some(&large::lab_plan()), large::lab);
    // Every trial is drawn, none averaged away.
    let charts = page.sections.iter().flat_map(|section| &section.blocks);
    let points = charts.filter_map(|block| match block {
        Block::Chart(chart) if chart.title == "IOPS of every trial" => {
            Some(chart.series.iter().map(|series| series.points.len()).sum::<usize>())
        }
        _ => None,
    });
    assert_eq!(points.collect::<Vec<_>>(), [10_000]);
}

/// A week of seconds with `FATHOM_SOAK=1`, else four hours of it.
#[test]
fn a_week_of_seconds() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let hours_count = fathom_testkit::sample(4, 168) as u64;
    let page = build("watch", RunKind::Watch, None, || large::hours(hours_count));
    let charts = page.sections.iter().flat_map(|section| &section.blocks);
    let mut peaks = charts.filter_map(|block| match block {
        Block::Chart(chart) if chart.title == "nvme3n1: requests" => Some(chart),
        _ => None,
    });
    let chart = peaks.next().expect("a chart of the device");
    let highest =
        chart.series.iter().flat_map(|series| &series.points).filter_map(|point| point.high);
    assert_eq!(highest.fold(0.0, f64::max), 1e6, "the one second of the peak is seen");
    assert!(!chart.reduction.is_empty(), "what was put together is said");
}
