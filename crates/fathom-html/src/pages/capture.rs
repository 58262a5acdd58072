//! The page of `fathom capture` and of replays: what was asked of a device, where on it and when, how long it took.

use super::{Source, parts};
use crate::page::{Axis, Block, Chart, ChartKind, Column, Page, Point, Section, Table, Unit};
use fathom_base::units::{format_count, format_duration, format_length, format_ns, format_size};
use fathom_model::capture::{CaptureClass, CaptureInterval, CaptureMap, CaptureRecord};
use fathom_model::record::RunKind;
use fathom_report::capture as report;
use fathom_stats::Histogram;
use fathom_stats::histogram::bucket_bounds;
use std::collections::BTreeMap;

/// Depths that are drawn one by one; the last has all above.
const DEPTHS_MAX: usize = 64;
/// Columns of a picture of latencies.
const COLUMNS_MAX: usize = 120;

/// Makes it.
pub(super) fn page(source: &Source) -> Page {
    let captures: Vec<&CaptureRecord> =
        source.records.iter().filter_map(|record| record.capture.as_deref()).collect();
    let is_replay = source.head.kind == RunKind::Replay;
    let mut first = vec![Block::Findings(source.findings.to_vec())];
    first.extend(parts::stacks(source.records));
    let mut sections = Vec::new();
    for capture in &captures {
        let mut classes = Table::from(&report::classes(capture));
        classes.notes.push(report::classes_note(capture));
        first.push(Block::Table(classes));
        if let Some((stages, note)) = report::stages(capture) {
            let mut stages = Table::from(&stages);
            stages.notes.push(note);
            first.push(Block::Table(stages));
        }
        sections.extend(of_capture(capture));
    }
    if is_replay {
        sections.extend(parts::in_full(source.records, source.zone));
    }
    sections.extend(parts::layers(source.records));
    sections.push(parts::machine(source.head, source.zone));
    sections.push(parts::again(source));
    let answers: Vec<String> =
        captures.iter().map(|capture| format!("{}.", report::headline(capture))).collect();
    let (what, question) = match is_replay {
        true => ("replay", "What did the replay ask of the device, and how was it answered?"),
        false => ("capture", "What kind of load is this, and what does it ask of the storage?"),
    };
    Page {
        title: format!("{what} {} of {}", source.name, source.head.target),
        question: question.to_owned(),
        answer: answers.join(" "),
        verdict: Some(source.verdict),
        first,
        sections,
    }
}

fn of_capture(capture: &CaptureRecord) -> Vec<Section> {
    if capture.requests() == 0 {
        return Vec::new();
    }
    let mut words = Table::new("", [Column::left("what"), Column::left("figures")]);
    for (name, line) in report::lines(capture).into_iter().filter(|(_, line)| !line.is_empty()) {
        words.row([name.to_owned(), line]);
    }
    let mut places =
        Section::new("Where and when", "What was used of the device, its start below, over time.");
    places.blocks.extend(maps(capture).into_iter().map(Block::from));
    places.blocks.extend(seeks(capture).map(Block::from));
    let mut course = Section::new("Course", "");
    let charts = [
        throughput(capture),
        rates(capture),
        seek_rate(capture),
        flight(capture),
        latency(capture),
    ];
    course.blocks.extend(charts.into_iter().flatten().map(Block::from));
    let mut times = Section::new("Latency and depth", "");
    times.blocks.extend([heat(capture), by_class(capture)].into_iter().flatten().map(Block::from));
    times
        .blocks
        .extend(by_stage(capture).into_iter().chain(depths(capture)).flatten().map(Block::from));
    let mut alike = Section::new(
        "Likeness",
        "The largest difference of the distributions of trace and replay: 0 is the same, 1 another altogether.",
    );
    alike.blocks.extend(report::likeness(capture).map(|table| Block::Table(Table::from(&table))));
    let words = Section::new("The load in words", "").block(words);
    let all = [words, alike, places, course, times];
    all.into_iter().filter(|section| !section.blocks.is_empty()).collect()
}

/// Reads and writes by time and place.
fn maps(capture: &CaptureRecord) -> Vec<Chart> {
    let CaptureMap { column_ns, row_bytes, cells } = &capture.map;
    let columns = cells.iter().map(|cell| cell.0 + 1).max().unwrap_or(0);
    let (title, rows) = rows(capture);
    let when = |column: u32| {
        let ns = u64::from(column) * column_ns;
        if capture.window_ns < 600_000_000_000 {
            format!("{:.2} s", ns as f64 / 1e9)
        } else {
            format_duration(ns)
        }
    };
    let elsewhere = match capture.places.elsewhere {
        0 => "every request is in one".to_owned(),
        count => format!("{} requests lie far from all of them", format_count(count)),
    };
    let one = |name: &str, of: fn(&(u32, u32, u32, u32)) -> u32| {
        let x = Axis::names("time", (0..columns).map(when));
        let y = Axis::names(title.clone(), rows.iter().map(|(_, name)| name.clone()));
        let there = cells.iter().filter(|cell| of(cell) > 0);
        let point = |cell: &(u32, u32, u32, u32)| {
            let row = rows.binary_search_by_key(&cell.1, |(row, _)| *row).ok()?;
            Some(Point::cell(cell.0 as usize, row, f64::from(of(cell))))
        };
        let title = format!("{name} of {} by place and time", capture.device);
        let mut chart = Chart::new(title, ChartKind::HeatMap, x, y)
            .series(name, there.filter_map(point).collect())
            .note("Each cell has the requests to that part of the device in that time. Empty cells: none.");
        chart.scale = Some(Axis::new("requests", Unit::Count).log());
        let total: u64 = cells.iter().map(|cell| u64::from(of(cell))).sum();
        chart.n = format!("{} requests", format_count(total));
        chart.reduction = format!(
            "Each cell is {} by {}; {elsewhere}.",
            format_ns(*column_ns),
            format_size(*row_bytes)
        );
        (!chart.is_empty()).then_some(chart)
    };
    [one("reads", |cell| cell.2), one("writes", |cell| cell.3)].into_iter().flatten().collect()
}

/// Rows of what is used of the device, with their names, and what these stand for.
fn rows(capture: &CaptureRecord) -> (String, Vec<(u32, String)>) {
    let CaptureMap { row_bytes, cells, .. } = &capture.map;
    let begin = |row: u32| u64::from(row).saturating_mul(*row_bytes);
    let areas = &capture.places.areas;
    if areas.len() < 2 || *row_bytes == 0 {
        let lowest = cells.iter().map(|cell| cell.1).min().unwrap_or(0);
        let end = cells.iter().map(|cell| cell.1 + 1).max().unwrap_or(0);
        // Far from the start of the device all offsets would read the same: they count from the lowest one.
        let (from, title) = if lowest > end - lowest {
            (begin(lowest), format!("offset beyond {}, from", format_size(begin(lowest))))
        } else {
            (0, "offset from".to_owned())
        };
        let name = |row: u32| (row, format_size(begin(row) - from));
        return (title, (lowest..end).map(name).collect());
    }
    let mut rows: Vec<(u32, String)> = Vec::new();
    for (from, bytes) in areas {
        let own = [*from, from.saturating_add(bytes.saturating_sub(1))];
        let [first, last] = own.map(|byte| u32::try_from(byte / row_bytes).unwrap_or(u32::MAX));
        // Two areas may meet in a row.
        let next = rows.last().map_or(0, |(row, _)| row.saturating_add(1));
        let name = |row: u32| match begin(row) - begin(first) {
            0 => (row, format_size(begin(row))),
            beyond => (row, format!("{} + {}", format_size(begin(first)), format_size(beyond))),
        };
        rows.extend((first.max(next)..=last).map(name));
    }
    ("offset, in areas far apart, from".to_owned(), rows)
}

/// How far apart requests are, as a distribution.
fn seeks(capture: &CaptureRecord) -> Option<Chart> {
    let distances = &capture.places.seek_bytes;
    let points = fathom_study::course::distribution(distances);
    // Without a distance there is no place on a scale of powers.
    let points: Vec<Point> = points
        .into_iter()
        .filter(|(_, bytes)| *bytes > 0)
        .map(|(share, bytes)| Point::new(share, bytes as f64))
        .collect();
    let x = Axis::new("share of requests", Unit::Nines);
    let y = Axis::new("distance at most", Unit::Bytes).log();
    let chart = Chart::new("Distance from one request to the next", ChartKind::Line, x, y)
        .series("distance", points)
        .n(format!("{} distances", format_count(distances.count())))
        .note("As the driver got them, where the device has a queue. The curve begins where there is a distance at all.");
    (!chart.is_empty()).then_some(chart)
}

/// A rate over the intervals of a capture; none where all that happened may have been lost.
fn per_s(capture: &CaptureRecord, of: fn(&CaptureInterval) -> u64) -> Vec<Point> {
    line(capture, |interval| {
        let is_known = of(interval) > 0 || !(interval.is_lossy && capture.lacks_events());
        is_known.then(|| of(interval) as f64 * 1e9 / interval.length_ns.max(1) as f64)
    })
}

/// A line over the intervals of a capture.
fn line(capture: &CaptureRecord, of: impl Fn(&CaptureInterval) -> Option<f64>) -> Vec<Point> {
    let point = |interval: &CaptureInterval| {
        Some(Point::new(interval.start_ns as f64 / 1e9, of(interval)?))
    };
    capture.series.iter().filter_map(point).collect()
}

fn over_time(
    capture: &CaptureRecord,
    title: &str,
    y: Axis,
    lines: Vec<(&str, Vec<Point>)>,
) -> Option<Chart> {
    let x = Axis::new("since the first event", Unit::Seconds);
    let mut chart = Chart::new(format!("{title}, {}", capture.device), ChartKind::Line, x, y);
    for (name, points) in lines {
        if points.len() > 1 && points.iter().any(|point| point.y > 0.0) {
            chart = chart.series(name, points);
        }
    }
    let length = capture.series.first().map_or(0, |interval| interval.length_ns);
    let n =
        format!("{} intervals of {}", format_count(capture.series.len() as u64), format_ns(length));
    (!chart.is_empty()).then(|| chart.n(n).joined(length as f64 / 1e9))
}

fn rates(capture: &CaptureRecord) -> Option<Chart> {
    let lines = vec![
        ("reads", per_s(capture, |of| of.reads)),
        ("writes", per_s(capture, |of| of.writes)),
        ("others", per_s(capture, |of| of.others)),
    ];
    over_time(capture, "Requests", Axis::new("arrived", Unit::PerSecond), lines)
}

fn throughput(capture: &CaptureRecord) -> Option<Chart> {
    let lines = vec![
        ("read", per_s(capture, |of| of.read_bytes)),
        ("written", per_s(capture, |of| of.write_bytes)),
    ];
    over_time(capture, "Throughput", Axis::new("arrived", Unit::BytesPerSecond), lines)
}

fn seek_rate(capture: &CaptureRecord) -> Option<Chart> {
    let lines = vec![("seeks", per_s(capture, |of| of.seeks))];
    let chart =
        over_time(capture, "Seeks", Axis::new("of more than 64 KiB", Unit::PerSecond), lines);
    chart.map(|chart| {
        chart.note("In the order in which the driver got them, where the device has a queue.")
    })
}

/// Latencies of reads and writes by the time of their end: every request is in one cell.
fn heat(capture: &CaptureRecord) -> Option<Chart> {
    let each = capture.series.len().div_ceil(COLUMNS_MAX).max(1);
    let mut cells: BTreeMap<(usize, u32), u64> = BTreeMap::new();
    for (column, rows) in capture.series.chunks(each).enumerate() {
        let all = rows.iter().map(|row| Histogram::from(row.latency_ns.clone()));
        for (bucket, count) in all.flat_map(|all| all.occupied().collect::<Vec<_>>()) {
            let row = bucket_bounds(bucket).0.max(1).ilog2();
            *cells.entry((column, row)).or_default() += count;
        }
    }
    let lowest = cells.keys().map(|(_, row)| *row).min()?;
    let highest = cells.keys().map(|(_, row)| *row).max()?;
    let length_ns = capture.series[0].length_ns;
    let when = |rows: &[CaptureInterval]| parts::moment(rows[0].start_ns, length_ns);
    let x = Axis::names("since the first event", capture.series.chunks(each).map(when));
    let y = Axis::names("latency from", (lowest..=highest).map(|row| format_ns(1 << row)));
    let point = |((column, row), count): (&(usize, u32), &u64)| {
        Point::cell(*column, (row - lowest) as usize, *count as f64)
    };
    let total: u64 = cells.values().sum();
    let title = format!("Latencies over time, {}", capture.device);
    let mut chart = Chart::new(title, ChartKind::HeatMap, x, y)
        .series("requests", cells.iter().map(point).collect())
        .n(format!("{} reads and writes", format_count(total)))
        .note("Each cell has the requests that ended then with that latency. Empty cells: none.");
    chart.scale = Some(Axis::new("requests", Unit::Count).log());
    chart.reduction = "Rows are powers of two; every request is in one cell.".to_owned();
    Some(chart)
}

fn flight(capture: &CaptureRecord) -> Option<Chart> {
    if !capture.knows_depth() {
        return None;
    }
    let lines = vec![
        ("on average", line(capture, |of| Some(of.depth_mean))),
        ("at most", line(capture, |of| Some(of.depth_max as f64))),
    ];
    over_time(capture, "In flight", Axis::new("requests", Unit::Count), lines)
}

fn latency(capture: &CaptureRecord) -> Option<Chart> {
    let quantile = |share: f64| {
        line(capture, |of| {
            let all = Histogram::from(of.latency_ns.clone());
            // Ten beyond it at least, and the median of two.
            let needed = if share <= 0.5 { 1.0 } else { 10.0 };
            let is_known = all.count() as f64 * (1.0 - share) >= needed;
            is_known.then(|| all.quantile(share)).flatten().map(|ns| ns.max(1) as f64)
        })
    };
    let lines = vec![("p50", quantile(0.5)), ("p99", quantile(0.99))];
    let y = Axis::new("arrival to end", Unit::Nanoseconds).log();
    let note =
        "A median is drawn where two requests ended, the 99th percentile where ten lie beyond it.";
    over_time(capture, "Latency", y, lines).map(|chart| chart.note(note))
}

fn by_class(capture: &CaptureRecord) -> Option<Chart> {
    let each = capture.classes.iter().map(|class| {
        let all = if capture.is_of_driver { &class.service_ns } else { &class.total_ns };
        (class.class.clone(), all)
    });
    parts::distributions("Latency distribution by class", each)
}

/// The two parts of the latency, where the trace tells them apart.
fn by_stage(capture: &CaptureRecord) -> [Option<Chart>; 2] {
    let titles = match (report::stages(capture), capture.is_replay()) {
        (None, _) => return [None, None],
        (_, true) => ["How late requests started, by class", "From start to end, by class"],
        (_, false) => {
            ["In the kernel's queue (Q2D), by class", "With driver and device (D2C), by class"]
        }
    };
    let chart = |title, of: fn(&CaptureClass) -> &Histogram| {
        let each = capture.classes.iter().map(|class| (class.class.clone(), of(class)));
        parts::distributions(title, each)
    };
    [chart(titles[0], |class| &class.wait_ns), chart(titles[1], |class| &class.service_ns)]
}

/// How long so many were in flight, and how long the driver had so many.
fn depths(capture: &CaptureRecord) -> [Option<Chart>; 2] {
    let driver = if capture.knows_depth() { capture.driver_depth_ns.as_slice() } else { &[] };
    [depth("Requests in flight", &capture.depth_ns), depth("Requests with the driver", driver)]
}

fn depth(title: &str, depth_ns: &[u64]) -> Option<Chart> {
    let total: u64 = depth_ns.iter().sum();
    let drawn = depth_ns.iter().take(DEPTHS_MAX).enumerate();
    let share = |ns: u64| ns as f64 / total.max(1) as f64;
    let points: Vec<Point> =
        drawn.map(|(depth, ns)| Point::new(depth as f64, share(*ns))).collect();
    let names = (0..points.len()).map(|depth| depth.to_string());
    let x = Axis::names("requests in flight", names);
    let y = Axis::new("share of the time", Unit::Share);
    let mut chart = Chart::new(title, ChartKind::Bars, x, y)
        .series("share of the time", points)
        .n(format_length(total));
    let beyond: u64 = depth_ns.iter().skip(DEPTHS_MAX).sum();
    if beyond > 0 {
        chart.reduction = format!("Deeper than drawn: {:.1} % of the time.", 100.0 * share(beyond));
    }
    (total > 0).then_some(chart)
}
