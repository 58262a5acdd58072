//! How long single requests took: what a watch with block tracepoints knows beyond the counters.

use super::Over;
use crate::page::{Axis, Block, Cell, Chart, Column, Section, Table, Unit};
use fathom_base::units::{format_count, format_ns};
use fathom_report::figures::NOT_ENOUGH;
use fathom_stats::quantile::is_supported;
use fathom_study::watch::{Line, WatchedDevice};

/// What is drawn over time: its name, and that of its series.
pub(super) const LINES: [(&str, &str); 4] = [
    ("reads p50", "reads_p50_ns"),
    ("reads p99", "reads_p99_ns"),
    ("writes p50", "writes_p50_ns"),
    ("writes p99", "writes_p99_ns"),
];

/// The percentiles of a device interval by interval; none of a watch without tracepoints.
pub(super) fn over_time(over: &Over, device: &str) -> Option<Chart> {
    let of = |(word, name): (&'static str, &str)| {
        Some((word, over.stretches.latency(over.source.records, device, name)?))
    };
    let lines: Vec<(&str, Line)> = LINES.into_iter().filter_map(of).collect();
    let lines: Vec<(&str, &Line)> = lines.iter().map(|(word, line)| (*word, line)).collect();
    let y = Axis::new("time of single requests", Unit::Nanoseconds).log();
    let mut chart = over.chart(format!("{device}: p50 and p99 of single requests"), y, &lines)?;
    let few = "With fewer than 1000 requests in an interval its p99 is one of the few longest.";
    chart.note = format!("{few} {}", chart.note).trim_end().to_owned();
    let together = over.stretches.intervals;
    if together > 1 {
        chart.reduction = format!(
            "Each point is the highest of {together} intervals, as percentiles cannot be put together; fathom export --what=watch has every one.",
        );
    }
    Some(chart)
}

/// All requests of every device and direction together; none of a watch without tracepoints.
pub(super) fn section(devices: &[&WatchedDevice]) -> Option<Section> {
    let mut columns = vec![Column::left("device"), Column::left("requests")];
    columns.extend(["count", "p50", "p99", "p99.9", "longest"].map(Column::right));
    let mut table = Table::new("", columns);
    table.is_sortable = true;
    let time = |ns: u64| Cell::number(format_ns(ns), ns as f64);
    let percentile = |count, q, ns| {
        if is_supported(count, q) { time(ns) } else { NOT_ENOUGH.into() }
    };
    for device in devices {
        for of in &device.latency {
            table.row([
                super::title(device).into(),
                of.direction.clone().into(),
                Cell::number(format_count(of.count), of.count as f64),
                percentile(of.count, 0.5, of.p50_ns),
                percentile(of.count, 0.99, of.p99_ns),
                percentile(of.count, 0.999, of.p999_ns),
                time(of.max_ns),
            ]);
        }
    }
    table.notes.push("Every request by itself, all intervals together; p50 and p99 of each interval are drawn below; fathom export --what=watch has them and the longest. n/a: fewer than ten requests lie beyond that percentile.".to_owned());
    let words =
        "From the block tracepoints, which know each request; the counters above know means only.";
    let is_something = !table.rows.is_empty();
    is_something.then(|| Section::new("Single requests", words).block(Block::Table(table)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::watch::DeviceCounts;
    use fathom_study::watch::WatchedLatency;

    fn device(latency: Vec<WatchedLatency>) -> WatchedDevice {
        WatchedDevice {
            name: "sda".into(),
            title: "WD RED".into(),
            depth: 0,
            intervals: 1,
            seconds: 1.0,
            total: DeviceCounts::default(),
            requests_per_s: 0.0,
            asked_per_s: 0.0,
            requests_harmonic_per_s: None,
            figures: Vec::new(),
            stood_out: 0,
            stands_out: None,
            syncing: 0,
            latency,
        }
    }

    #[test]
    fn every_direction_has_a_row_and_none_is_no_section() {
        let of = |direction: &str, max_ns| WatchedLatency {
            direction: direction.into(),
            count: 1200,
            p50_ns: 1000,
            p99_ns: 20_000,
            p999_ns: 300_000,
            max_ns,
        };
        let told = device(vec![of("reads", 5_000_000), of("writes", 70_000_000)]);
        let shown = section(&[&told]).expect("a table");
        let Some(Block::Table(table)) = shown.blocks.first() else { panic!("no table") };
        assert_eq!(table.rows.len(), 2);
        let text = format!("{:?}", table.rows[1]);
        for word in ["sda (WD RED)", "writes", "1 200", "1.0 us", "20 us", "n/a", "70 ms"] {
            assert!(text.contains(word), "{word}: {text}");
        }
        assert!(section(&[&device(Vec::new())]).is_none());
    }
}
