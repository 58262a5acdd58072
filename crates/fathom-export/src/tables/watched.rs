//! The series of a watch as rows: what the kernel counted in each interval, and what iostat makes of it.

use super::rows::seconds;
use crate::columns::{Cell, Kind};
use fathom_model::watch::{
    DeviceCounts, DeviceSeries, FlowCounts, FlowRates, NamedSeries, WatchRecord,
};

/// Bytes of a sector, as the kernel counts them.
const SECTOR_BYTES: u64 = 512;

pub(super) const DEVICES: &[(&str, Kind)] = &[
    ("device", Kind::Text),
    ("title", Kind::Text),
    ("depth", Kind::Whole),
    ("interval_index", Kind::Whole),
    ("start_s", Kind::Number),
    ("length_s", Kind::Number),
    ("reads", Kind::Whole),
    ("reads_merged", Kind::Whole),
    ("read_bytes", Kind::Whole),
    ("read_time_ms", Kind::Whole),
    ("writes", Kind::Whole),
    ("writes_merged", Kind::Whole),
    ("written_bytes", Kind::Whole),
    ("write_time_ms", Kind::Whole),
    ("discards", Kind::Whole),
    ("discards_merged", Kind::Whole),
    ("discarded_bytes", Kind::Whole),
    ("discard_time_ms", Kind::Whole),
    ("flushes", Kind::Whole),
    ("flush_time_ms", Kind::Whole),
    ("busy_ms", Kind::Whole),
    ("queued_ms", Kind::Whole),
    ("in_flight_end", Kind::Whole),
    ("reads_per_s", Kind::Number),
    ("read_bytes_per_s", Kind::Number),
    ("read_await_ms", Kind::Number),
    ("writes_per_s", Kind::Number),
    ("written_bytes_per_s", Kind::Number),
    ("write_await_ms", Kind::Number),
    ("discards_per_s", Kind::Number),
    ("discarded_bytes_per_s", Kind::Number),
    ("discard_await_ms", Kind::Number),
    ("flushes_per_s", Kind::Number),
    ("flush_await_ms", Kind::Number),
    ("in_flight_mean", Kind::Number),
    ("busy_share", Kind::Number),
    ("synchronised_share", Kind::Number),
    ("synchronised_bytes_per_s", Kind::Number),
    ("degraded", Kind::Whole),
    ("thread_cpu_share", Kind::Number),
    ("read_p50_ms", Kind::Number),
    ("read_p99_ms", Kind::Number),
    ("read_max_ms", Kind::Number),
    ("write_p50_ms", Kind::Number),
    ("write_p99_ms", Kind::Number),
    ("write_max_ms", Kind::Number),
];

pub(super) const HOST: &[(&str, Kind)] = &[
    ("interval_index", Kind::Whole),
    ("start_s", Kind::Number),
    ("length_s", Kind::Number),
    ("user_share", Kind::Number),
    ("system_share", Kind::Number),
    ("iowait_share", Kind::Number),
    ("steal_share", Kind::Number),
    ("io_some_share", Kind::Number),
    ("io_full_share", Kind::Number),
    ("memory_some_share", Kind::Number),
    ("memory_full_share", Kind::Number),
    ("cpu_some_share", Kind::Number),
    ("dirty_bytes", Kind::Whole),
    ("writeback_bytes", Kind::Whole),
    ("available_bytes", Kind::Whole),
    ("interrupts_per_s", Kind::Whole),
    ("context_switches_per_s", Kind::Whole),
    ("processes", Kind::Whole),
    ("application_cpu_share", Kind::Number),
    ("resident_bytes", Kind::Whole),
    ("asked_read_bytes", Kind::Whole),
    ("asked_write_bytes", Kind::Whole),
    ("own_read_bytes", Kind::Whole),
    ("own_written_bytes", Kind::Whole),
];

/// Where an interval lies: its index from the start of the watch, start and length.
fn place(piece: &WatchRecord, at: usize, start_us: u64, length_us: u64) -> [Cell; 3] {
    [
        Cell::count(piece.first + at as u64),
        Cell::number(seconds(start_us * 1000)),
        Cell::number(seconds(length_us * 1000)),
    ]
}

/// One row for each device and interval in which it has figures.
pub(super) fn devices<E>(
    piece: &WatchRecord,
    put: &mut impl FnMut(Vec<Cell>) -> Result<(), E>,
) -> Result<(), E> {
    let times: Vec<(u64, u64)> =
        piece.start_us.values().into_iter().zip(piece.length_us.values()).collect();
    for device in &piece.devices {
        let from = device.from as usize;
        let array = array(device);
        let latencies = latencies(device);
        for (at, counts) in device.counts().iter().enumerate() {
            let Some((start_us, length_us)) = times.get(from + at).copied() else { break };
            let mut cells = vec![
                Cell::text(&device.name),
                Cell::from(Some(device.title.as_str()).filter(|title| !title.is_empty())),
                Cell::count(device.depth as u64),
            ];
            cells.extend(place(piece, from + at, start_us, length_us));
            cells.extend(counted(counts));
            cells.extend(rates(counts, length_us * 1000));
            cells.extend(array.iter().chain(&latencies).map(|column| column[at].clone()));
            put(cells)?;
        }
    }
    Ok(())
}

/// What an array does besides; empty for other devices, and while nothing is synchronised.
fn array(device: &DeviceSeries) -> [Vec<Cell>; 4] {
    let length = device.intervals as usize;
    let counters = &device.counters;
    let syncs = counters.values("sync_action", length);
    let is_array = ["sync_action", "degraded", "thread_cpu"];
    let is_array = is_array.iter().any(|name| counters.series.contains_key(*name));
    let of = |name: &str, only_in_sync: bool, cell: fn(u64) -> Cell| {
        let cells = counters.values(name, length).into_iter().zip(&syncs);
        let is_told = |syncs: &u64| is_array && (!only_in_sync || *syncs > 0);
        cells.map(|(value, syncs)| if is_told(syncs) { cell(value) } else { Cell::Empty }).collect()
    };
    let share = |value: u64| Cell::number(value as f64 / 1e6);
    [
        of("sync_done", true, share),
        of("sync_speed", true, |kib| Cell::number((kib << 10) as f64)),
        of("degraded", false, Cell::count),
        of("thread_cpu", false, share),
    ]
}

/// Times of single requests; empty where none was watched.
fn latencies(device: &DeviceSeries) -> [Vec<Cell>; 6] {
    let length = device.intervals as usize;
    let of = |name: &str| {
        let told = |ns: u64| if ns > 0 { Cell::number(ns as f64 / 1e6) } else { Cell::Empty };
        device.counters.values(name, length).into_iter().map(told).collect()
    };
    [
        "reads_p50_ns",
        "reads_p99_ns",
        "reads_max_ns",
        "writes_p50_ns",
        "writes_p99_ns",
        "writes_max_ns",
    ]
    .map(of)
}

fn counted(counts: &DeviceCounts) -> impl Iterator<Item = Cell> {
    let flow =
        |flow: FlowCounts| [flow.requests, flow.merged, flow.sectors * SECTOR_BYTES, flow.took_ms];
    let others =
        [counts.flushes, counts.flush_ms, counts.busy_ms, counts.queued_ms, counts.in_flight];
    let flows = [counts.reads, counts.writes, counts.discards].map(flow);
    flows.into_iter().flatten().chain(others).map(Cell::count)
}

fn rates(counts: &DeviceCounts, length_ns: u64) -> Vec<Cell> {
    let rates = counts.rates(length_ns);
    let flow = |flow: FlowRates| {
        let bytes_per_s = flow.kib_per_s * 1024.0;
        [Cell::number(flow.per_s), Cell::number(bytes_per_s), flow.await_ms.into()]
    };
    let mut cells = [rates.reads, rates.writes, rates.discards].map(flow).concat();
    cells.extend([
        Cell::number(rates.flushes_per_s),
        rates.flush_await_ms.into(),
        Cell::number(rates.queue),
        Cell::number(rates.util_percent / 100.0),
    ]);
    cells
}

/// One row for each interval: the machine, and the application when one was watched.
pub(super) fn host<E>(
    piece: &WatchRecord,
    put: &mut impl FnMut(Vec<Cell>) -> Result<(), E>,
) -> Result<(), E> {
    // A trial keeps the series of its devices, and of a command that is its load, but not of the machine.
    let is_told = !piece.host.is_empty();
    if !is_told && piece.application.is_empty() {
        return Ok(());
    }
    let length = piece.intervals();
    let share = |value: u64| Cell::number(value as f64 / 1e6);
    let kib = |value: u64| Cell::count(value << 10);
    let always = |name: &str, of: fn(u64) -> Cell| column(&piece.host, name, length, of, !is_told);
    let told = |name: &str| column(&piece.host, name, length, share, true);
    let is_alone = piece.application.is_empty();
    let own = |name: &str, of: fn(u64) -> Cell| {
        if is_alone {
            return vec![Cell::Empty; length];
        }
        column(&piece.application, name, length, of, false)
    };
    let columns = [
        always("user", share),
        always("system", share),
        always("iowait", share),
        always("steal", share),
        told("io_some"),
        told("io_full"),
        told("memory_some"),
        told("memory_full"),
        told("cpu_some"),
        always("dirty", kib),
        always("writeback", kib),
        always("available", kib),
        always("interrupts", Cell::count),
        always("context_switches", Cell::count),
        own("processes", Cell::count),
        own("cpu", share),
        own("resident", kib),
        own("asked_read", Cell::count),
        own("asked_write", Cell::count),
        own("read", Cell::count),
        own("written", Cell::count),
    ];
    let times = piece.start_us.values().into_iter().zip(piece.length_us.values());
    for (at, (start_us, length_us)) in times.enumerate() {
        let mut cells = place(piece, at, start_us, length_us).to_vec();
        cells.extend(columns.iter().map(|column| column[at].clone()));
        put(cells)?;
    }
    Ok(())
}

/// The cells of a series. One that is not there is zero, or not known when the kernel may not tell it.
fn column(
    series: &NamedSeries,
    name: &str,
    length: usize,
    of: fn(u64) -> Cell,
    may_be_unknown: bool,
) -> Vec<Cell> {
    if may_be_unknown && !series.series.contains_key(name) {
        return vec![Cell::Empty; length];
    }
    series.values(name, length).into_iter().map(of).collect()
}
