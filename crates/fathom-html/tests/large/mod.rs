//! Records of large runs: an experiment of ten thousand trials, a week of seconds on fifty devices.

use fathom_html::page::Page;
use fathom_html::pages::{Source, of_run};
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

/// Trials of each cell.
const BLOCKS: u32 = 40;
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
pub fn hours(count: u64) -> Vec<Record> {
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

/// The plan of the experiment.
pub fn lab_plan() -> Plan {
    plan(BLOCKS)
}

/// Its ten thousand trials.
pub fn lab() -> Vec<Record> {
    let cells = fathom_plan::cells(&lab_plan()).expect("cells");
    let firsts: Vec<Record> = cells.iter().map(first).collect();
    let block = |block: u32| {
        let trials = (0..).zip(&firsts);
        trials.map(move |(place, first)| repeated(first, block, place))
    };
    (0..BLOCKS).flat_map(block).collect()
}

/// The page of such a run.
pub fn page(name: &str, kind: RunKind, plan: Option<&Plan>, records: &[Record]) -> Page {
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
    of_run(&Source {
        head: &head,
        name: "7f3k",
        records,
        findings: &[],
        verdict: Verdict::Trusted,
        plan,
        how_to: |_| HowTo { now: Vec::new(), persist: Vec::new() },
        zone: &TimeZone::UTC,
    })
}
