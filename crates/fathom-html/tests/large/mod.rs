//! Records of large runs: an experiment of ten thousand trials, a week of seconds on fifty devices.

use super::records;
use fathom_html::page::Page;
use fathom_model::plan::Plan;
use fathom_model::plan::cell::Cell;
use fathom_model::record::{ClassRecord, OpClass, Record, RunKind};
use fathom_model::watch::{
    DeviceCounts, DeviceSample, FlowCounts, HostSample, Packed, Sample, WatchRecord,
};
use fathom_stats::Histogram;
use serde_json::json;

/// Trials of each cell.
const BLOCKS: u32 = 40;

/// Five lengths of requests, ten of queues and five read-aheads: 250 cells.
fn plan(blocks: u32) -> Plan {
    const LEVELS: [&str; 10] = ["4", "8", "16", "32", "64", "128", "256", "512", "1024", "2048"];
    let factors = [
        ("max_sectors_kb", &LEVELS[..5]),
        ("nr_requests", &LEVELS[..]),
        ("read_ahead_kb", &LEVELS[..5]),
    ];
    let mut plan = records::plan(&factors);
    "Which of 250 settings suits the disk?".clone_into(&mut plan.question);
    plan.design.blocks = blocks;
    let second = json!({"metric": "latency_p99"});
    plan.objectives.push(serde_json::from_value(second).expect("an objective"));
    plan
}

/// Latencies over three powers of ten, as disks have them, and as a store gives them: no larger than what they hold.
fn class(class: OpClass, count: u64) -> ClassRecord {
    let mut latency_ns = Histogram::new();
    for step in 0..200u64 {
        latency_ns.record_n(60_000 + step * step * step * 1250, (count / (1 + step)).max(1));
    }
    let class = json!(ClassRecord { class, latency_ns, bytes: count * 4096 });
    serde_json::from_value(class).expect("a class")
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

fn first(cell: &Cell) -> Record {
    let count = 60_000 + 500 * u64::from(cell.index);
    let mut record = records::record(&cell.name(), count, 4096);
    record.jobs[0].classes = vec![class(OpClass::Read, count), class(OpClass::Write, count / 4)];
    records::of_cell(&mut record, cell, [0, 0]);
    record
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
pub fn page(name: &str, kind: RunKind, plan: Option<&Plan>, all: &[Record]) -> Page {
    records::page(&records::head(kind, &format!("fathom {name}"), "/srv"), all, plan)
}
