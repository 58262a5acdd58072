//! Reports of large experiments: how long they take, how much memory, how large the file is. The ceiling on time is ten times
//! what is meant; that of the size is exact. What it took is printed (`--nocapture`), and the files stay in the build's
//! temporary directory to be looked at.

#![expect(unsafe_code, reason = "a global allocator cannot be written without")]
#![expect(clippy::expect_used, reason = "a test ends at the first surprise")]

use fathom_html::page::{Block, Page};
use fathom_html::pages::{Source, of_run};
use fathom_html::{html, markdown};
use fathom_model::builtin;
use fathom_model::finding::Verdict;
use fathom_model::host::HostFacts;
use fathom_model::limits::LimitsRecord;
use fathom_model::plan::Plan;
use fathom_model::plan::setup::SetupSpec;
use fathom_model::record::{
    ClassRecord, OpClass, PageCacheDelta, RECORD_VERSION, Record, RunHead, RunKind,
};
use fathom_model::stack::{Node, NodeKind, Stack};
use fathom_model::watch::{
    DeviceCounts, DeviceSample, FlowCounts, HostSample, Packed, Sample, WatchRecord,
};
use fathom_report::experiment::HowTo;
use fathom_stats::Histogram;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
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

const MINUTE_NS: u64 = 60_000_000_000;

/// Five schedulers, ten queue lengths and five read-aheads: 250 cells.
fn plan(blocks: u32) -> Plan {
    let factor = |name: &str, levels: u32| {
        let levels: Vec<String> = (0..levels).map(|level| format!("{}", 4 << level)).collect();
        json!({"name": name, "sets": {"kind": "knob", "id": format!("block.{name}")}, "levels": levels})
    };
    let plan = json!({
        "version": 1, "name": "large", "question": "Which of 250 settings suits the disk?", "target": "/srv",
        "workloads": [{"label": "mix", "name": "randread", "settings": {"duration": "60s"}}], "is_together": false,
        "factors": [factor("max_sectors_kb", 5), factor("nr_requests", 10), factor("read_ahead_kb", 5)],
        "setup": SetupSpec::default(), "knobs": {}, "own_knobs": [],
        "design": {
            "kind": "full", "baseline": {}, "except": [], "blocks": blocks, "is_sequential": false, "has_sentinel": false,
            "margin": 0.03, "groups_setups": false,
        },
        "objectives": [{"metric": "iops"}, {"metric": "latency_p99"}],
        "prepare": {
            "drops_caches": false, "remounts": false, "settle_ns": 0, "quiet_ns": 0, "quiet_wait_ns": 0,
            "swap_off": false, "stop_services": [],
        },
        "budget": {}, "on_error": "stop",
    });
    serde_json::from_value(plan).expect("a plan")
}

/// Latencies over three powers of ten, as disks have them.
fn class(class: OpClass, count: u64) -> Value {
    let mut latency_ns = Histogram::new();
    for step in 0..200u64 {
        latency_ns.record_n(60_000 + step * step * step * 1250, (count / (1 + step)).max(1));
    }
    json!(ClassRecord { class, latency_ns, bytes: count * 4096 })
}

/// The trial of a cell in a block, from its first one: another time, another place, and a little noise.
fn repeated(first: &Record, block: u32, place: u32) -> Record {
    let mut record = first.clone();
    record.started_unix_ns += i64::from(block * 250 + place) * 70_000_000_000;
    record.window_ns -= u64::from((block * 7919 + place * 104_729) % 97) * 40_000_000;
    record.jobs[0].window_ns = record.window_ns;
    let slot = &mut record.cell.as_mut().expect("a cell").slot;
    (slot.block, slot.place) = (block, place);
    record
}

fn first(cell: &fathom_model::plan::cell::Cell) -> Record {
    let workload = builtin::named("randread").expect("built in");
    let count = 60_000 + 500 * u64::from(cell.index);
    let job = json!({
        "name": workload.jobs[0].name, "classes": [class(OpClass::Read, count), class(OpClass::Write, count / 4)],
        "series": [], "slowest": [], "censored": [], "batches": 1,
        "engine": {"kind": "io_uring", "fallback": null, "features": [], "threads": 1, "depth": 5, "batch": 1},
        "cpu": {"user_ns": 200_000_000u64, "system_ns": 1_000_000_000u64}, "thread_operations": [], "thread_times": [],
        "limits": LimitsRecord::default(), "busiest_thread_cpu_ns": 0, "final_sync_ns": null,
        "window_ns": MINUTE_NS, "open_loop": null, "verify": null, "delivered": null,
    });
    let node = Node::new(NodeKind::Mount, "/srv");
    let stack =
        Stack { path: "/srv".into(), resolved_path: "/srv".into(), nodes: vec![node], top: 0 };
    let target = json!({
        "path": "/srv/f0", "kind": "own_file", "size_bytes": 8u64 << 30, "direct": true, "direct_honoured": true,
        "extents": null, "device_cache_bytes": 0, "device_cache_reason": "", "memory_bytes": 4u64 << 30, "stack": stack,
    });
    let knob = |(name, level): &(String, String)| {
        json!({
            "knob": format!("block.{name}"), "asked": level, "before": level, "after": level,
            "place": {"kind": "device", "id": "wwn-1", "name": "sda"},
        })
    };
    let of = json!({
        "slot": {"block": 0, "place": 0, "cell": cell.index, "is_sentinel": false}, "levels": cell.levels,
        "workload": "mix", "setup": [], "prepare_ns": 0, "knobs": cell.levels.iter().map(knob).collect::<Vec<_>>(),
    });
    let record = json!({
        "version": RECORD_VERSION, "label": cell.name(), "workload": workload, "targets": [target], "jobs": [job],
        "started_unix_ns": 1_795_230_000_000_000_000i64,
        "window_ns": MINUTE_NS, "process_cpu": {"user_ns": 200_000_000u64, "system_ns": 1_000_000_000u64},
        "system_cpu": {"busy_share": 0.031, "iowait_share": 0.25, "steal_share": 0.0}, "devices": [],
        "page_cache": PageCacheDelta::default(), "suspended_ns": 0, "ending": "complete", "failure": null, "seed": 42,
        "findings": [], "cell": of,
    });
    serde_json::from_value(record).expect("a record")
}

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
    let head = RunHead {
        id: "7f3k00000000".into(),
        kind,
        label: None,
        command: format!("fathom {name}"),
        target: "/srv".into(),
        started_unix_ns: 1_795_230_000_000_000_000,
        host: HostFacts::default(),
        fathom_version: "0.1.0".into(),
    };
    let zone = TimeZone::UTC;
    let start = Instant::now();
    let page = of_run(&Source {
        head: &head,
        name: "7f3k",
        records: &records,
        findings: &[],
        verdict: Verdict::Trusted,
        plan,
        how_to: |_| HowTo { now: Vec::new(), persist: Vec::new() },
        zone: &zone,
    });
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
    let blocks = 40;
    let plan = plan(blocks);
    let cells = fathom_plan::cells(&plan).expect("cells");
    let page = build("lab", RunKind::Experiment, Some(&plan), || {
        let firsts: Vec<Record> = cells.iter().map(first).collect();
        let block = |block: u32| {
            let trials = (0..).zip(&firsts);
            trials.map(move |(place, first)| repeated(first, block, place))
        };
        (0..blocks).flat_map(block).collect()
    });
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

const DEVICES: u64 = 50;
const HOUR_S: u64 = 3600;

/// An hour of fifty devices: twelve disks at work with a load that changes every second, the others with a little now and then.
fn hour() -> WatchRecord {
    let mut piece = WatchRecord::new(1_000_000_000, 0);
    for index in 0..HOUR_S {
        let device = |number: u64| {
            let vary = |base: u64| base + (index * 7919 + number * 104_729) % (base / 4 + 1);
            let is_busy = number < 12;
            let base = match (is_busy, (index + number) % 60) {
                (true, _) => 400,
                (false, 0) => 8,
                (false, _) => 0,
            };
            let requests = if base > 0 { vary(base) } else { 0 };
            let flow =
                FlowCounts { requests, merged: 0, sectors: 16 * requests, took_ms: requests / 2 };
            let counts = DeviceCounts {
                reads: flow,
                writes: flow,
                busy_ms: requests,
                queued_ms: requests,
                ..DeviceCounts::default()
            };
            DeviceSample {
                name: format!("nvme{number}n1"),
                title: String::new(),
                depth: 0,
                counts,
                rates: counts.rates(1_000_000_000),
                stands_out: None,
                array: None,
                interrupts: Vec::new(),
                latency: None,
            }
        };
        piece.push(&Sample {
            index,
            start_ns: index * 1_000_000_000,
            length_ns: 1_000_000_000,
            devices: (0..DEVICES).map(device).collect(),
            host: HostSample { user_share: 0.1, ..HostSample::default() },
            ..Sample::default()
        });
    }
    piece
}

/// The same hour again and again, each time later; in the last one there is a second with a peak.
fn hours(count: u64) -> Vec<Record> {
    let one = hour();
    let blank = Record {
        jobs: Vec::new(),
        cell: None,
        ..first(&fathom_plan::cells(&plan(1)).expect("cells")[0])
    };
    let record = |hour: u64| {
        let seconds = hour * HOUR_S..(hour + 1) * HOUR_S;
        let start_us: Packed = seconds.map(|second| second * 1_000_000).collect();
        let mut piece = WatchRecord { first: hour * HOUR_S, start_us, ..one.clone() };
        if hour + 1 == count {
            let reads = &mut piece.devices[3].counters.series;
            let mut values = reads["reads"].values();
            values[1234] = 1_000_000;
            reads.insert("reads".to_owned(), values.into_iter().collect());
        }
        Record { watch: Some(Box::new(piece)), ..blank.clone() }
    };
    (0..count).map(record).collect()
}

/// A week of seconds with `FATHOM_SOAK=1`, else four hours of it.
#[test]
fn a_week_of_seconds() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let hours_count = fathom_testkit::sample(4, 168) as u64;
    let page = build("watch", RunKind::Watch, None, || hours(hours_count));
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
