//! The page of `fathom watch`: every device over time with its lowest and highest seconds, the machine, and the application that was
//! watched.

mod latency;

use super::counted::Lines;
use super::{Source, parts};
use crate::page::{Axis, Block, Cell, Chart, ChartKind, Column, Page, Point, Section, Table, Unit};
use fathom_base::order::Order;
use fathom_base::units::{format_count, format_duration, format_figure, format_length};
use fathom_report::watch::answer::{application_text, lengths};
use fathom_report::{answer, text};
use fathom_study::watch::{
    DeviceCourse, Line, Stretches, WatchFigure, WatchSummary, WatchedDevice, peaks, summary,
};

/// Points of all charts together: what a file of some megabytes bears.
const POINTS_MAX: usize = 100_000;
/// Points of a line: more are closer than a screen shows.
const STRETCHES_MAX: usize = 1200;
/// Fewer points would show too little of a day.
const STRETCHES_MIN: usize = 120;
/// Lines that each device has.
const LINES_EACH: usize = 13;
/// Further lines of one whose requests are known one by one.
const LINES_OF_LATENCY: usize = latency::LINES.len();
/// Devices that have charts of their own.
const DRAWN_MAX: usize = 24;
/// Columns of the map of all devices.
const COLUMNS_MAX: usize = 120;
/// Events that are shown one by one.
const EVENTS_MAX: usize = 500;

/// Makes it.
pub(super) fn page(source: &Source) -> Page {
    let found = summary(source.records);
    let active = found.devices.iter().filter(|device| !device.figures.is_empty());
    let active: Vec<&WatchedDevice> = active.collect();
    let has_latency = active.iter().any(|device| !device.latency.is_empty());
    let lines = LINES_EACH + if has_latency { LINES_OF_LATENCY } else { 0 };
    let most = (POINTS_MAX / (lines * active.len().clamp(1, DRAWN_MAX)))
        .clamp(STRETCHES_MIN, STRETCHES_MAX);
    let mut sections = Vec::new();
    if let Some(stretches) = Stretches::of(source.records, most) {
        let over = Over { source, found: &found, stretches: &stretches };
        let names: Vec<&str> = active.iter().map(|device| device.name.as_str()).collect();
        let courses = stretches.devices(source.records, &names);
        sections.extend(over.map(&active, &courses));
        sections.push(devices(&active, &found));
        let busiest = busiest(&active);
        if busiest.len() < active.len() {
            let text = format!(
                "The {DRAWN_MAX} busiest devices are drawn one by one below; of the others fathom export --what=watch has every interval.",
            );
            if let Some(last) = sections.last_mut() {
                last.blocks.push(Block::Text(text));
            }
        }
        sections.extend(latency::section(&active));
        let drawn =
            active.iter().zip(&courses).filter(|(of, _)| busiest.contains(&of.name.as_str()));
        sections.extend(drawn.map(|(of, course)| over.device(of, course)));
        sections.extend(over.machine());
        sections.extend(over.application());
    }
    sections.extend(events(&found));
    sections.extend(parts::layers(source.records));
    sections.push(parts::machine(source.head, source.zone));
    sections.push(parts::again(source));
    let mut first = vec![Block::Findings(source.findings.to_vec())];
    first.extend(parts::stacks(source.records));
    Page {
        title: format!("watch {} of {}", source.name, source.head.target),
        question: question(&found),
        answer: answer::of_watch(&found),
        verdict: Some(source.verdict),
        first,
        sections,
    }
}

/// The names of the devices that are drawn one by one.
fn busiest<'a>(active: &[&'a WatchedDevice]) -> Vec<&'a str> {
    let busy = |device: &WatchedDevice| {
        let util = device.figures.iter().find(|figure| figure.name == "%util");
        util.map_or(0.0, |figure| figure.mean)
    };
    let mut all: Vec<&WatchedDevice> = active.to_vec();
    all.order_by(|a, b| busy(b).total_cmp(&busy(a)));
    all.iter().take(DRAWN_MAX).map(|device| device.name.as_str()).collect()
}

fn question(found: &WatchSummary) -> String {
    match &found.application {
        Some(application) => {
            format!("What did the devices do while '{}' ran?", application.command)
        }
        None => {
            let length = format_length((found.seconds * 1e9) as u64);
            format!("What did the devices do in {length}?")
        }
    }
}

/// A watch and the stretches that it is drawn in.
struct Over<'a> {
    source: &'a Source<'a>,
    found: &'a WatchSummary,
    stretches: &'a Stretches,
}

impl Over<'_> {
    /// A chart of lines; none when all of them are zero all the time.
    fn chart(&self, title: String, y: Axis, lines: &[(&str, &Line)]) -> Option<Chart> {
        let over = Lines {
            stretches: self.stretches,
            x: Axis::new("time", Unit::UnixSeconds),
            start_s: self.source.head.started_unix_ns as f64 / 1e9,
            n: lengths(self.found).trim_end().to_owned(),
            interval_s: self.found.interval_ns as f64 / 1e9,
        };
        over.chart(title, y, lines)
    }

    fn device(&self, of: &WatchedDevice, course: &DeviceCourse) -> Section {
        let name = &of.name;
        let mut section = Section::new(title(of), stood_out(of));
        let rate = Axis::new("rate", Unit::BytesPerSecond);
        let time = Axis::new("mean time of a request", Unit::Nanoseconds);
        let charts = [
            self.chart(
                format!("{name}: rate"),
                rate,
                &[
                    ("read", &course.read_bytes_per_s),
                    ("written", &course.written_bytes_per_s),
                    ("discarded", &course.discarded_bytes_per_s),
                ],
            ),
            self.chart(
                format!("{name}: requests"),
                Axis::new("completed", Unit::PerSecond),
                &[
                    ("reads", &course.reads_per_s),
                    ("writes", &course.writes_per_s),
                    ("discards", &course.discards_per_s),
                    ("flushes", &course.flushes_per_s),
                ],
            ),
            self.chart(
                format!("{name}: await"),
                time,
                &[
                    ("r_await", &course.read_ns),
                    ("w_await", &course.write_ns),
                    ("d_await", &course.discard_ns),
                    ("f_await", &course.flush_ns),
                ],
            ),
            latency::over_time(self, name),
            self.chart(
                format!("{name}: requests in flight"),
                Axis::new("aqu-sz", Unit::Count),
                &[("aqu-sz", &course.in_flight)],
            ),
            self.chart(
                format!("{name}: busy"),
                Axis::new("%util", Unit::Share),
                &[("%util", &course.busy)],
            ),
        ];
        section.blocks = charts.into_iter().flatten().map(Block::from).collect();
        section
    }

    /// All devices at a glance.
    fn map(&self, active: &[&WatchedDevice], courses: &[DeviceCourse]) -> Option<Section> {
        if active.len() < 2 || self.stretches.starts_s.len() < 4 {
            return None;
        }
        let columns = |line: &Line| peaks(line, COLUMNS_MAX);
        let each = self.stretches.starts_s.len().div_ceil(COLUMNS_MAX).max(1);
        let starts = self.stretches.starts_s.iter().step_by(each);
        let whole_s = self.found.seconds;
        let names = starts.map(|seconds| match whole_s < 600.0 {
            true => format!("{seconds:.1} s"),
            false => format_duration((seconds * 1e9) as u64),
        });
        let devices = active.iter().rev().map(|device| device.name.clone());
        let mut points = Vec::new();
        for (row, course) in courses.iter().rev().enumerate() {
            for (column, peak) in columns(&course.busy).into_iter().enumerate() {
                points.extend(peak.map(|peak| Point::cell(column, row, peak.min(1.0))));
            }
        }
        let (x, y) = (Axis::names("since the start", names), Axis::names("device", devices));
        let mut chart = Chart::new("Busiest intervals of every device", ChartKind::HeatMap, x, y)
            .series("%util", points)
            .n(lengths(self.found).trim_end())
            .note("Each cell is the busiest single interval in it. 100 % is full for a disk with one head, not for what serves several requests at once.");
        chart.scale = Some(Axis::new("%util", Unit::Share));
        let together = each * self.stretches.intervals;
        if together > 1 {
            chart.reduction = format!("Each cell is the highest of {together} intervals.");
        }
        Some(Section::new("At a glance", "").block(chart))
    }

    fn machine(&self) -> Option<Section> {
        let host = |name: &str, scale: f64| {
            self.stretches.host(self.source.records, name, scale).unwrap_or_default()
        };
        let share = |name: &str| host(name, 1e-6);
        let memory = |name: &str| host(name, 1024.0);
        let [user, system, iowait, steal] = ["user", "system", "iowait", "steal"].map(share);
        let [some, full, tight] = ["io_some", "io_full", "memory_some"].map(share);
        let [dirty, writeback] = ["dirty", "writeback"].map(memory);
        let share = || Axis::new("share", Unit::Share);
        let charts = [
            self.chart(
                "Processors".to_owned(),
                share(),
                &[("user", &user), ("system", &system), ("iowait", &iowait), ("steal", &steal)],
            ),
            self.chart(
                "Waiting for storage and memory".to_owned(),
                share(),
                &[
                    ("some wait for I/O", &some),
                    ("all wait for I/O", &full),
                    ("some wait for memory", &tight),
                ],
            ),
            self.chart(
                "Memory on its way to storage".to_owned(),
                Axis::new("memory", Unit::Bytes),
                &[("dirty", &dirty), ("writeback", &writeback)],
            ),
        ];
        let mut section = Section::new(
            "The machine over time",
            "Shares of the time of all processors; of tasks that had something to do.",
        );
        section.blocks = charts.into_iter().flatten().map(Block::from).collect();
        (!section.blocks.is_empty()).then_some(section)
    }

    fn application(&self) -> Option<Section> {
        let application = self.found.application.as_ref()?;
        let own = |name: &str, scale: f64| {
            self.stretches.application(self.source.records, name, scale).unwrap_or_default()
        };
        let (cpu, resident) = (own("cpu", 1e-6), own("resident", 1024.0));
        let charts = [
            self.chart(
                "Processors of the application".to_owned(),
                Axis::new("processors", Unit::Count),
                &[("processors", &cpu)],
            ),
            self.chart(
                "Memory of the application".to_owned(),
                Axis::new("memory", Unit::Bytes),
                &[("resident", &resident)],
            ),
        ];
        let mut section = Section::new("Application", "");
        section = section.block(Block::Plain(application_text(application, text::WIDTH)));
        section.blocks.extend(charts.into_iter().flatten().map(Block::from));
        Some(section)
    }
}

fn title(of: &WatchedDevice) -> String {
    if of.title.is_empty() { of.name.clone() } else { format!("{} ({})", of.name, of.title) }
}

fn stood_out(of: &WatchedDevice) -> String {
    match &of.stands_out {
        Some(reason) => {
            format!("Slow in {} of {} intervals: {reason}.", of.stood_out, of.intervals)
        }
        None => String::new(),
    }
}

/// The figures of every device that did something.
fn devices(active: &[&WatchedDevice], found: &WatchSummary) -> Section {
    let mut columns = vec![Column::left("device"), Column::left("figure")];
    let numbers = ["median", "95 % of it", "mean", "p95", "max", "intervals"];
    columns.extend(numbers.map(Column::right));
    let mut table = Table::new("", columns);
    table.is_sortable = true;
    for device in active {
        for (at, figure) in device.figures.iter().enumerate() {
            let remark = match (&device.stands_out, at) {
                (Some(reason), 0) => {
                    format!("slow in {} of {}: {reason}", device.stood_out, device.intervals)
                }
                _ => String::new(),
            };
            table.row_with_remark(row(device, figure), remark);
        }
    }
    table.notes.push("Medians of the intervals; their interval takes into account that seconds go together, and says nothing about another day.".to_owned());
    let idle = found.devices.len() - active.len();
    if idle > 0 {
        let plural = if idle == 1 { "device" } else { "devices" };
        table.notes.push(format!("{idle} more {plural} did nothing."));
    }
    Section::new("Devices", "The terms of iostat -x: await in ms, kB of 1024 bytes.").block(table)
}

fn row(device: &WatchedDevice, figure: &WatchFigure) -> [Cell; 8] {
    let cell = |value: f64| Cell::number(format_figure(value), value);
    let interval = figure.interval.map(|i| Cell::number(i.range(format_figure), i.low));
    [
        title(device).into(),
        figure.name.clone().into(),
        cell(figure.median),
        interval.unwrap_or_else(|| "".into()),
        cell(figure.mean),
        cell(figure.p95),
        cell(figure.max),
        Cell::number(format_count(figure.intervals as u64), figure.intervals as f64),
    ]
}

fn events(found: &WatchSummary) -> Option<Section> {
    let mut table = Table::new("", [Column::right("at"), Column::left("what")]);
    for (second, what) in found.events.iter().take(EVENTS_MAX) {
        table.row([Cell::number(format!("{second:.0} s"), *second), what.clone().into()]);
    }
    if found.events.len() > EVENTS_MAX {
        table.notes.push(format!("The first {EVENTS_MAX} of {}.", found.events.len()));
    }
    (!table.rows.is_empty()).then(|| Section::new("Devices that came or went", "").block(table))
}
