//! The view of a watch: the machine, then the tree of devices with what each did in the last interval and how it was before.

use crate::parts::{Ink, Row, Tone, found};
use crate::view::{LEAST, Look};
use fathom_base::units::{format_count, format_duration, format_ns, format_rate, format_size};
use fathom_model::watch::{DeviceSample, HostSample, Sample};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::collections::{BTreeMap, VecDeque};

/// Intervals of the past that are kept for curves: more than the widest terminal shows.
const PAST_MAX: usize = 300;
/// Intervals for which it stands there that a device came or went, and how many such lines there are.
const TOLD_FOR: usize = 10;
const TOLD_MAX: usize = 3;
/// What is said of those that latencies lack, once.
const LOST: &str = "trace events were lost: p50, p99 and longest lack requests";
/// Columns of the table of all requests together, and of that by kind of request, which has iostat's names; with their widths.
const TOGETHER: [(&str, usize); 5] =
    [("util", 7), ("IOPS", 9), ("rate", 12), ("queue", 8), ("await", 9)];
const BY_KIND: [(&str, usize); 7] = [
    ("r/s", 8),
    ("r_await", 9),
    ("w/s", 8),
    ("w_await", 9),
    ("merged/s", 10),
    ("d/s", 7),
    ("f/s", 7),
];
/// The longest that names get.
const NAMES_MAX: usize = 32;

/// What stands in the last line or over the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// Nothing.
    Nothing,
    /// What the figures mean.
    Help,
    /// Whether the command is to be ended.
    End,
}

/// What is known of a watch.
#[derive(Debug, Clone)]
pub struct Watched {
    /// What is watched.
    title: String,
    /// Devices that never did anything too.
    with_idle: bool,
    /// A command runs, which would end with the watch.
    has_command: bool,
    /// Requests are told by kind, not all together.
    is_by_kind: bool,
    last: Sample,
    /// What is to be said of each device, in the order of the sample; warnings first.
    remarks: Vec<Vec<String>>,
    /// Time of the last interval, in words.
    time: String,
    /// Requests of each interval by device, a second.
    requests: BTreeMap<String, VecDeque<u64>>,
    /// Share of the time in which tasks waited for I/O, in thousandths.
    waited: VecDeque<u64>,
    /// What happened besides, and for how many intervals that is still shown.
    told: VecDeque<(String, usize)>,
}

impl Watched {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(title: String, with_idle: bool, has_command: bool) -> Self {
        Self {
            title,
            with_idle,
            has_command,
            is_by_kind: false,
            last: Sample::default(),
            remarks: Vec::new(),
            time: String::new(),
            requests: BTreeMap::new(),
            waited: VecDeque::new(),
            told: VecDeque::new(),
        }
    }

    /// True when a command would end with the watch.
    #[must_use]
    pub fn has_command(&self) -> bool {
        self.has_command
    }

    /// Shows the other table: all requests together, or by kind.
    pub fn turn(&mut self) {
        self.is_by_kind = !self.is_by_kind;
    }

    /// Takes in an interval, with what is to be said of each of its devices.
    pub fn take(&mut self, sample: Sample, remarks: Vec<Vec<String>>, time: String) {
        // Another device of that name has another past.
        sample.went.iter().for_each(|name| drop(self.requests.remove(name)));
        self.told.iter_mut().for_each(|(_, left)| *left -= 1);
        self.told.retain(|(_, left)| *left > 0);
        let lost = sample.latency_lost.filter(|lost| *lost > 0);
        if lost.is_some() {
            self.told.retain(|(line, _)| !line.ends_with(LOST));
        }
        let lost = lost.map(|lost| format!("{} {LOST}", format_count(lost)));
        for line in sample.changes().lines().into_iter().chain(lost) {
            self.told.push_back((format!("{time} {line}"), TOLD_FOR));
        }
        while self.told.len() > TOLD_MAX {
            self.told.pop_front();
        }
        for device in &sample.devices {
            let past = self.requests.entry(device.name.clone()).or_default();
            push(past, (1000.0 * iops(device)) as u64);
        }
        let waited = sample.host.io_pressure.map_or(sample.host.iowait_share, |(some, _)| some);
        push(&mut self.waited, (1000.0 * waited) as u64);
        (self.last, self.remarks, self.time) = (sample, remarks, time);
    }

    /// Those that have done something since the watch began: lines do not come and go with each interval.
    fn is_shown(&self, device: &DeviceSample) -> bool {
        let has_done = |past: &VecDeque<u64>| past.iter().any(|requests| *requests > 0);
        self.with_idle
            || !device.counts.is_idle()
            || device.array.as_ref().is_some_and(|a| !matches!(a.sync_action.as_str(), "" | "idle"))
            || self.requests.get(&device.name).is_some_and(has_done)
    }
}

fn push(past: &mut VecDeque<u64>, value: u64) {
    if past.len() == PAST_MAX {
        past.pop_front();
    }
    past.push_back(value);
}

fn iops(device: &DeviceSample) -> f64 {
    let rates = &device.rates;
    rates.reads.per_s + rates.writes.per_s + rates.discards.per_s
}

/// The view for a terminal of so many columns and lines; nothing when it is too small for anything.
#[must_use]
pub fn render(
    watched: &Watched,
    asked: Asked,
    has_keys: bool,
    look: Look,
    (columns, lines): (u16, u16),
) -> Option<Buffer> {
    if columns < LEAST.0 || lines < LEAST.1 {
        return None;
    }
    let ink = Ink { look, width: columns.min(160) };
    let height_max = usize::from(lines - 1);
    let mut rows = head(watched);
    if asked == Asked::Help {
        rows.extend(help());
    } else {
        let room = height_max.saturating_sub(rows.len() + 1);
        let is_spaced = room > 6;
        rows.extend(is_spaced.then(Row::default));
        let devices = devices(watched, ink);
        rows.extend(found::cut(devices, room - 2 * usize::from(is_spaced), found::More::Last));
        rows.extend(is_spaced.then(Row::default));
    }
    rows.truncate(height_max.saturating_sub(1));
    rows.push(foot(watched, asked, has_keys));
    let mut buffer = Buffer::empty(Rect::new(0, 0, ink.width, rows.len() as u16));
    for (y, row) in rows.iter().enumerate() {
        row.draw(ink, y as u16, &mut buffer);
    }
    Some(buffer)
}

/// What is watched and for how long, then the machine.
fn head(watched: &Watched) -> Vec<Row> {
    let sample = &watched.last;
    let elapsed = format_duration(sample.start_ns + sample.length_ns);
    let elapsed = format!("{}  for {elapsed}", watched.time);
    let host = &sample.host;
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let processors = format!(
        "user {}  system {}  iowait {}  steal {}",
        percent(host.user_share),
        percent(host.system_share),
        percent(host.iowait_share),
        percent(host.steal_share)
    );
    let memory = format!(
        "dirty {}  writeback {}",
        format_size(host.dirty_bytes),
        format_size(host.writeback_bytes)
    );
    let mut rows = vec![
        Row::of(&watched.title, Tone::Strong).right(elapsed, Tone::Plain),
        named("processors", processors),
        named("memory", memory),
    ];
    rows.extend(pressure(host).map(|text| Row {
        curve: Some(watched.waited.iter().copied().collect()),
        ..named("waiting", text).at(CURVE_AT, "", Tone::Plain)
    }));
    rows.extend(sample.application.as_ref().map(|application| {
        let rate =
            |bytes: u64| format_rate(bytes as f64 / (sample.length_ns as f64 / 1e9).max(1e-9));
        let text = format!(
            "{} running, {} of a processor, reads {}, writes {}",
            application.processes,
            percent(application.cpu_share),
            rate(application.read_bytes),
            rate(application.written_bytes)
        );
        named("command", text)
    }));
    rows.extend(watched.told.iter().map(|(line, _)| Row::of(line.as_str(), Tone::Warning)));
    rows
}

/// Where the curve of waiting tasks begins, where there is room.
const CURVE_AT: u16 = 58;

fn named(name: &str, text: String) -> Row {
    Row::of(name, Tone::Faint).at(12, text, Tone::Plain)
}

/// Pressure stall information; nothing where the kernel does not tell.
fn pressure(host: &HostSample) -> Option<String> {
    let each = [("I/O", host.io_pressure), ("memory", host.memory_pressure)];
    let each: Vec<String> = each
        .into_iter()
        .filter_map(|(of, shares)| {
            let (some, full) = shares?;
            Some(format!("for {of} {:.0} % (all {:.0} %)", 100.0 * some, 100.0 * full))
        })
        .collect();
    (!each.is_empty()).then(|| each.join("  "))
}

/// A head line and the lines of each device.
fn devices(watched: &Watched, ink: Ink) -> Vec<Row> {
    let none = Vec::new();
    let shown: Vec<(&DeviceSample, &Vec<String>)> = watched
        .last
        .devices
        .iter()
        .enumerate()
        .filter(|(_, device)| watched.is_shown(device))
        .map(|(at, device)| (device, watched.remarks.get(at).unwrap_or(&none)))
        .collect();
    let idle = watched.last.devices.len() - shown.len();
    let longest = shown.iter().map(|(device, _)| name(device).chars().count()).max().unwrap_or(0);
    let columns = if watched.is_by_kind { &BY_KIND[..] } else { &TOGETHER };
    // Names give way before figures do.
    let figures: usize = columns.iter().map(|(_, width)| width).sum();
    let width = usize::from(ink.width);
    let room = if watched.is_by_kind { width.saturating_sub(figures + 1) } else { width / 3 };
    let names = longest.min(NAMES_MAX).min(room).max(8) as u16;
    let line = |first: Row, cells: Vec<String>, tone: Tone| {
        let mut at = names;
        columns.iter().zip(cells).fold(first, |row, ((_, width), cell)| {
            let cell = format!("{cell:>width$}");
            let from = at;
            at += *width as u16;
            row.at(from, cell, tone)
        })
    };
    let mut rows = Vec::new();
    if !shown.is_empty() {
        let titles = columns.iter().map(|(title, _)| (*title).to_owned()).collect();
        let head = line(Row::of("device", Tone::Faint), titles, Tone::Faint);
        let past = if watched.is_by_kind { "" } else { "  requests, past" };
        rows.push(head.then(past, Tone::Faint));
    }
    for (device, remarks) in &shown {
        let name: String = name(device).chars().take(usize::from(names)).collect();
        let cells = if watched.is_by_kind { by_kind(device) } else { together(device) };
        let row = line(Row::of(name, Tone::Plain), cells, Tone::Plain);
        let past = watched.requests.get(&device.name).filter(|_| !watched.is_by_kind);
        rows.push(Row { curve: past.map(|past| past.iter().copied().collect()), ..row });
        let indent = " ".repeat(2 * device.depth + 2);
        let is_slow = device.stands_out.is_some();
        rows.extend(remarks.iter().enumerate().map(|(at, remark)| {
            let tone = if is_slow && at == 0 { Tone::Warning } else { Tone::Faint };
            Row::of(format!("{indent}{remark}"), tone)
        }));
    }
    let text = match (idle, rows.is_empty()) {
        (0, true) => "no device has had a request yet".to_owned(),
        (0, false) => return rows,
        (1, _) => "1 device has done nothing so far".to_owned(),
        (idle, _) => format!("{idle} devices have done nothing so far"),
    };
    rows.push(Row::of(text, Tone::Faint));
    rows
}

fn name(device: &DeviceSample) -> String {
    let space = if device.title.is_empty() { "" } else { " " };
    format!("{}{}{space}{}", "  ".repeat(device.depth), device.name, device.title)
}

/// The cells of [`BY_KIND`].
fn by_kind(device: &DeviceSample) -> Vec<String> {
    let rates = &device.rates;
    let mean = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), |ms| mean_ns(1e6 * ms));
    let count = |per_s: f64| format_count(per_s.round() as u64);
    let merged_per_s: f64 =
        [rates.reads, rates.writes, rates.discards].iter().map(|flow| flow.merged_per_s).sum();
    vec![
        count(rates.reads.per_s),
        mean(rates.reads.await_ms),
        count(rates.writes.per_s),
        mean(rates.writes.await_ms),
        count(merged_per_s),
        count(rates.discards.per_s),
        count(rates.flushes_per_s),
    ]
}

/// A mean time. The counters are cut to milliseconds: a mean of nothing is not none.
fn mean_ns(ns: f64) -> String {
    if ns < 1.0 { "0 ms".to_owned() } else { format_ns(ns as u64) }
}

/// The cells of [`TOGETHER`].
fn together(device: &DeviceSample) -> Vec<String> {
    let (rates, counts) = (&device.rates, &device.counts);
    let kib_per_s = rates.reads.kib_per_s + rates.writes.kib_per_s;
    let done = counts.reads.requests + counts.writes.requests;
    let took_ms = counts.reads.took_ms + counts.writes.took_ms;
    let none = || "-".to_owned();
    let rate = if kib_per_s > 0.0 { format_rate(1024.0 * kib_per_s) } else { none() };
    let mean = (done > 0).then(|| mean_ns(1e6 * took_ms as f64 / done as f64));
    vec![
        format!("{:.0} %", rates.util_percent),
        format_count(iops(device).round() as u64),
        rate,
        format!("{:.1}", rates.queue),
        mean.unwrap_or_else(none),
    ]
}

fn foot(watched: &Watched, asked: Asked, has_keys: bool) -> Row {
    let turn = if watched.is_by_kind { "all together" } else { "by kind" };
    let end = if watched.has_command { "end the command" } else { "end" };
    match (asked, has_keys) {
        (Asked::End, _) => Row::of("End the command? y = end  n = go on", Tone::Question),
        (Asked::Help, _) => Row::of("any key: back to the view", Tone::Faint),
        (Asked::Nothing, false) => Row::of("Ctrl-C ends", Tone::Faint),
        (Asked::Nothing, true) => Row::of(format!("q {end}   d {turn}   ? help"), Tone::Faint),
    }
}

fn help() -> Vec<Row> {
    let lines = [
        "",
        "q, Ctrl-C   end the watch, and a command with it; what is recorded is kept",
        "d           requests by kind: reads, writes, merged ones, discards, flushes",
        "util        share of the time with at least one request in flight: 100 % is",
        "            full for one disk with one head, not for an SSD or an array",
        "IOPS, rate  requests and bytes a second; curves go back from the right",
        "queue       mean number in flight, waiting included",
        "await       mean time of reads and writes from entering the queue to the end",
        "merged/s    requests that were merged into others before the device saw them",
        "waiting     share of the time in which some task, or all, waited",
    ];
    lines.into_iter().map(|line| Row::of(line, Tone::Plain)).collect()
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
