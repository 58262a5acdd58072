//! A run as tests want it: a closed loop with a stall, and a trial of an experiment in an open loop.

use crate::Run;
use fathom_model::builtin;
use fathom_model::finding::{Finding, Severity, Verdict};
use fathom_model::host::HostFacts;
use fathom_model::record::{Record, RunHead, RunKind};
use serde_json::json;

/// 2026-11-21 03:00 UTC.
pub const START_NS: i64 = 1_795_230_000_000_000_000;
/// Classes of the run in which nothing ended.
pub const EMPTY_CLASSES: usize = 1;

fn histogram(values: &[u64]) -> serde_json::Value {
    let mut all = fathom_stats::Histogram::new();
    values.iter().for_each(|value| all.record(*value));
    serde_json::to_value(&all).expect("JSON")
}

fn record(index: i64) -> Record {
    let values: Vec<u64> = (0..2000u64).map(|i| 80_000 + i * 7919 % 9_000_000).collect();
    let is_open = index == 1;
    let class = |class: &str, values: &[u64]| json!({ "class": class, "latency_ns": histogram(values), "bytes": values.len() * 4096 });
    let open_loop = is_open.then(|| {
        json!({
            "due": 2100, "backlog_start": 0, "not_started": 3, "oldest_not_started_ns": 5,
            "start_delay_ns": histogram(&[5]),
            "classes": [{ "class": "read", "response_ns": histogram(&values), "unfinished_ns": histogram(&[9_000_000]) }],
        })
    });
    let cell = is_open.then(|| {
        json!({
            "slot": { "block": 3, "place": 1, "cell": 2, "is_sentinel": false },
            "levels": [["scheduler", "none"], ["block", "4k"]], "workload": "mix", "knobs": [], "setup": [], "void": null,
            "prepare_ns": 1_500_000_000, "application": { "tps": 12.5 },
        })
    });
    let value = json!({
        "version": 1, "label": format!("row {index}"), "workload": builtin::named("randread").expect("built in"),
        "targets": [], "started_unix_ns": START_NS + 1_000_000 + index * 10_000_000_000, "window_ns": 2_000_000_000u64,
        "jobs": [{
            "name": "mix", "engine": { "kind": "psync", "fallback": null, "features": [], "threads": 4, "depth": 1, "batch": 1 },
            "classes": [class("read", &values), class("commit", &values[..if is_open { 0 } else { 50 }])],
            "series": [
                { "start_ns": 0, "length_ns": 1_000_000_000, "classes": [class("read", &values)] },
                { "start_ns": 1_000_000_000, "length_ns": 1_000_000_000, "classes": [] },
            ],
            "slowest": [
                { "class": "read", "end_ns": 900_000_000, "latency_ns": 9_079_919, "offset_bytes": 8192, "size_bytes": 4096 },
                { "class": "read", "end_ns": 902_000_000, "latency_ns": 9_000_000, "offset_bytes": 4096, "size_bytes": 4096 },
            ],
            "censored": [{ "class": "read", "age_ns": 1000, "offset_bytes": 0, "size_bytes": 4096 }],
            "batches": 2000, "cpu": { "user_ns": 1, "system_ns": 3_000_000 }, "busiest_thread_cpu_ns": 1, "final_sync_ns": null,
            "window_ns": 2_000_000_000u64, "open_loop": open_loop,
        }],
        "process_cpu": { "user_ns": 1, "system_ns": 2 },
        "system_cpu": { "busy_share": 0.25, "iowait_share": 0.0, "steal_share": 0.0 },
        "devices": [{ "name": "sda", "reads": 2000, "read_bytes": 8_192_000, "writes": 0, "written_bytes": 0, "flushes": null,
                      "busy_ns": 1_000_000_000, "in_flight_ns": null }],
        "page_cache": { "dirtied_bytes": 0, "paged_in_bytes": 0 }, "suspended_ns": 0, "cell": cell,
        "ending": "complete", "failure": null, "seed": 1,
        "findings": [{ "id": "short-row", "severity": "note", "summary": "so \"it\" is", "advice": ["one", "two"] }],
    });
    serde_json::from_value(value).expect("a record")
}

/// The run.
pub fn run() -> Run {
    Run {
        head: RunHead {
            id: "7f3kaaaaaaaa".into(),
            kind: RunKind::Run,
            label: Some("be\"fore\\\n".into()),
            command: "fathom run randread /srv".into(),
            target: "/srv/data".into(),
            started_unix_ns: START_NS,
            host: HostFacts { machine: Some("ACME R1".into()), ..HostFacts::default() },
            fathom_version: "0.1.0".into(),
        },
        state: "complete".into(),
        finished_unix_ns: Some(START_NS + 30_000_000_000),
        verdict: Some(Verdict::Trusted),
        findings: vec![Finding::new("whole", Severity::Note, "of the run")],
        plan: None,
        records: vec![record(0), record(1)],
    }
}
