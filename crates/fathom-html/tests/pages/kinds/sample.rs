//! Made-up experiments for the tests of pages: plans and records with chosen rates.

use fathom_html::page::Page;
use fathom_html::pages::{Source, of_run};
use fathom_model::builtin;
use fathom_model::finding::{Finding, Verdict};
use fathom_model::host::HostFacts;
use fathom_model::limits::LimitsRecord;
use fathom_model::plan::Plan;
use fathom_model::plan::cell::Cell;
use fathom_model::plan::setup::SetupSpec;
use fathom_model::record::{
    ClassRecord, OpClass, PageCacheDelta, RECORD_VERSION, Record, RunHead, RunKind,
};
use fathom_model::stack::{Node, NodeKind, Stack};
use fathom_report::experiment::HowTo;
use fathom_stats::Histogram;
use fathom_study::experiment::Setting;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

const MINUTE_NS: u64 = 60_000_000_000;

/// Factors with their levels.
pub type Factors<'f> = &'f [(&'f str, &'f [&'f str])];

/// The plan of an experiment on knobs, one random-read workload, eight blocks.
pub fn plan(factors: Factors<'_>) -> Plan {
    let factor = |(name, levels): &(&str, &[&str])| json!({"name": name, "sets": {"kind": "knob", "id": format!("block.{name}")}, "levels": levels});
    let plan = json!({
        "version": 1, "name": "scheduler", "question": "Which scheduler suits the disk?", "target": "/srv",
        "workloads": [{"label": "read", "name": "randread", "settings": {"duration": "60s", "threads": "4"}}],
        "is_together": false, "factors": factors.iter().map(factor).collect::<Vec<_>>(),
        "setup": SetupSpec::default(), "knobs": {}, "own_knobs": [],
        "design": {
            "kind": "full", "baseline": {}, "except": [], "blocks": 8, "is_sequential": false, "has_sentinel": false,
            "margin": 0.03, "groups_setups": false,
        },
        "objectives": [{"metric": "iops"}],
        "prepare": {
            "drops_caches": false, "remounts": false, "settle_ns": 0, "quiet_ns": 0, "quiet_wait_ns": 0,
            "swap_off": false, "stop_services": [],
        },
        "budget": {}, "on_error": "stop",
    });
    serde_json::from_value(plan).expect("a plan")
}

/// A record of each cell in each block with `iops` of the cell's levels.
pub fn records(plan: &Plan, blocks: u32, iops: impl Fn(&[&str], u32) -> u64) -> Vec<Record> {
    let cells = fathom_plan::cells(plan).expect("cells");
    let mut records = Vec::new();
    for block in 0..blocks {
        for (place, cell) in (0u32..).zip(&cells) {
            let levels: Vec<&str> = cell.levels.iter().map(|(_, level)| level.as_str()).collect();
            let mut record = record(&cell.name(), 60 * iops(&levels, block), 4096);
            let trial = i64::from(block) * cells.len() as i64 + i64::from(place);
            record.started_unix_ns += trial * 60_000_000_000;
            of_cell(&mut record, cell, [block, place]);
            records.push(record);
        }
    }
    records
}

/// Makes a record that of a cell of [`plan`]; `slot` is block, place.
pub fn of_cell(record: &mut Record, cell: &Cell, slot: [u32; 2]) {
    let knob = |(name, level): &(String, String)| {
        json!({
            "knob": format!("block.{name}"), "asked": level, "before": level, "after": level,
            "place": {"kind": "device", "id": "wwn-1", "name": "sda"},
        })
    };
    let knobs: Vec<Value> = cell.levels.iter().map(knob).collect();
    let [block, place] = slot;
    set_cell(record, json!(cell.levels), "read", [block, place, cell.index], json!(knobs));
}

/// Makes a record that of a trial; `slot` is block, place, cell.
pub fn set_cell(record: &mut Record, levels: Value, workload: &str, slot: [u32; 3], knobs: Value) {
    let [block, place, cell] = slot;
    let of = json!({
        "slot": {"block": block, "place": place, "cell": cell, "is_sentinel": false},
        "levels": levels, "workload": workload, "setup": [], "prepare_ns": 0, "knobs": knobs,
    });
    record.cell = Some(Box::new(serde_json::from_value(of).expect("a cell's record")));
}

/// A minute of `count` reads that all take the same. As JSON, because of what later versions add: it has defaults.
pub fn record(label: &str, count: u64, size_bytes: u64) -> Record {
    let mut latency_ns = Histogram::new();
    latency_ns.record_n(300_000_000_000 / count, count);
    let class = ClassRecord { class: OpClass::Read, latency_ns, bytes: count * size_bytes };
    let workload = builtin::named("randread").expect("built in");
    let job = json!({
        "name": workload.jobs[0].name, "classes": [class], "series": [], "slowest": [], "censored": [], "batches": count,
        "engine": {
            "kind": "io_uring", "fallback": null, "features": [], "threads": 1, "depth": 5, "batch": 1,
        },
        "cpu": {"user_ns": 200_000_000u64, "system_ns": 1_000_000_000u64}, "thread_operations": [], "thread_times": [],
        "limits": LimitsRecord::default(), "busiest_thread_cpu_ns": 0, "final_sync_ns": null,
        "window_ns": MINUTE_NS, "open_loop": null, "verify": null, "delivered": null,
    });
    let node = Node::new(NodeKind::Mount, "/srv");
    let stack =
        Stack { path: "/srv".into(), resolved_path: "/srv".into(), nodes: vec![node], top: 0 };
    let target = json!({
        "path": "/srv/.fathom-7f3k/f0", "kind": "own_file", "size_bytes": 8u64 << 30, "direct": true,
        "direct_honoured": true, "extents": null, "device_cache_bytes": 512u64 << 20, "device_cache_reason": "assumed",
        "memory_bytes": 4u64 << 30, "stack": stack,
    });
    let record = json!({
        "version": RECORD_VERSION, "label": label, "workload": workload, "targets": [target], "jobs": [job],
        "started_unix_ns": 1_795_230_000_000_000_000i64, "window_ns": MINUTE_NS,
        "process_cpu": {"user_ns": 200_000_000u64, "system_ns": 1_000_000_000u64},
        "system_cpu": {"busy_share": 0.031, "iowait_share": 0.25, "steal_share": 0.0},
        "system_events": {"interrupts": 120_000, "context_switches": 240_000}, "devices": [],
        "page_cache": PageCacheDelta::default(), "suspended_ns": 0, "ending": "complete", "failure": null, "seed": 42,
        "findings": [],
    });
    serde_json::from_value(record).expect("a record")
}

/// The head of a run of that kind.
pub fn head(kind: RunKind, command: &str, target: &str) -> RunHead {
    RunHead {
        id: "7f3k00000000".into(),
        kind,
        label: None,
        command: command.into(),
        target: target.into(),
        started_unix_ns: 1_795_230_000_000_000_000,
        host: HostFacts { kernel: Some("6.18".into()), ..HostFacts::default() },
        fathom_version: "0.1.0".into(),
    }
}

/// The page of a run as Markdown.
pub fn markdown(head: &RunHead, records: &[Record], plan: Option<&Plan>) -> String {
    fathom_html::markdown::markdown(&page(head, records, plan))
}

/// The page of a run.
pub fn page(head: &RunHead, records: &[Record], plan: Option<&Plan>) -> Page {
    let zone = TimeZone::UTC;
    let (findings, verdict) = judged(head.kind, records, plan);
    of_run(&Source {
        head,
        name: "7f3k",
        records,
        findings: &findings,
        verdict,
        plan,
        how_to,
        zone: &zone,
    })
}

/// What the study of a kind that has one of its own finds.
fn judged(kind: RunKind, records: &[Record], plan: Option<&Plan>) -> (Vec<Finding>, Verdict) {
    let nothing = (Vec::new(), Verdict::Trusted);
    match kind {
        RunKind::Raid => {
            let found = fathom_study::raid::study(records);
            (found.findings, found.verdict)
        }
        RunKind::Layers => {
            let found = fathom_study::layers::study(records);
            (found.findings, found.verdict)
        }
        RunKind::Experiment => plan.map_or(nothing, |plan| {
            let cells = fathom_plan::cells(plan).expect("cells");
            let found = fathom_study::experiment::study(plan, &cells, records);
            (found.findings, found.verdict)
        }),
        _ => nothing,
    }
}

/// Commands as the registry of settings would have them.
fn how_to(settings: &[Setting]) -> HowTo {
    let now = |setting: &Setting| {
        let file = setting.knob.trim_start_matches("block.");
        format!("echo {} > /sys/block/{}/queue/{file}", setting.value, setting.place.name())
    };
    HowTo {
        now: settings.iter().map(now).collect(),
        persist: vec!["in /etc/udev/rules.d/60-storage.rules:".into()],
    }
}
