//! The page of `fathom layers`: what each layer keeps of what is below it, from the disks upward.

use super::{Source, counted, parts};
use crate::page::{Axis, Block, Cell, Chart, ChartKind, Column, Page, Point, Section, Table, Unit};
use fathom_base::units::{format_count, format_ns, format_rate};
use fathom_model::record::Record;
use fathom_report::answer;
use fathom_report::layers::{LEGEND, of_below};
use fathom_report::raid::{EVENTS, events};
use fathom_report::text::format_share;
use fathom_study::layers::{OfWorkload, Row, study};
use fathom_study::raid::EventsPerIo;

/// Makes it.
pub(super) fn page(source: &Source) -> Page {
    let found = study(source.records);
    // The highest layer has all others below it.
    let depth = |record: &&Record| record.stacks().first().map_or(0, |stack| stack.walk().len());
    let whole = source.records.iter().max_by_key(depth).map_or(&[][..], std::slice::from_ref);
    let mut first = vec![Block::Findings(source.findings.to_vec())];
    first.extend(parts::stacks(whole));
    let mut sections: Vec<Section> = found.workloads.iter().map(section).collect();
    sections.extend(counted::over_time(source.records));
    sections.extend(parts::layers(whole));
    sections.push(parts::machine(source.head, source.zone));
    sections.push(parts::again(source));
    Page {
        title: format!("layers {} of {}", source.name, source.head.target),
        question: "What does each layer cost, from the disks upward, and which disk is slower than the others?"
            .to_owned(),
        answer: answer::of_layers(&found),
        verdict: Some(source.verdict),
        first,
        sections,
    }
}

fn section(of: &OfWorkload) -> Section {
    let mut section =
        Section::new(of.workload.clone(), LEGEND).block(waterfall(of)).block(table(of));
    section.blocks.extend(latencies(of).map(Block::from));
    section.blocks.extend(cost(of).map(Block::from));
    section
}

fn names(of: &OfWorkload) -> Axis {
    Axis::names("layer", of.rows.iter().map(|row| row.layer.name()))
}

fn trials(of: &OfWorkload) -> String {
    let counts: Vec<usize> = of.rows.iter().map(|row| row.bytes_per_s.count).collect();
    match (counts.iter().min(), counts.iter().max()) {
        (Some(least), Some(most)) if least != most => {
            format!("n = {least} to {most} trials for each layer")
        }
        (_, Some(1)) => "n = 1 trial for each layer".to_owned(),
        (_, most) => format!("n = {} trials for each layer", most.unwrap_or(&0)),
    }
}

/// What a layer gets, and on top of it what it loses of what is below.
fn waterfall(of: &OfWorkload) -> Chart {
    let rows = || of.rows.iter().enumerate();
    let got = rows().map(|(x, row)| Point::new(x as f64, row.bytes_per_s.value)).collect();
    let lost = rows().filter_map(|(x, row)| {
        let lost = row.below_bytes_per_s? - row.bytes_per_s.value;
        (lost > 0.0).then(|| Point::new(x as f64, lost))
    });
    let y = Axis::new("rate", Unit::BytesPerSecond);
    let title = format!("{}: what is left on each layer", of.workload);
    Chart::new(title, ChartKind::StackedBars, names(of), y)
        .series("arrives at this layer", got)
        .series("lost against what is below", lost.collect())
        .n(trials(of))
        .interval(if has_intervals(of) { "Intervals stand in the table." } else { NO_INTERVALS })
        .note("From the disks upward. Below all disks at once is their sum one after the other.")
}

const NO_INTERVALS: &str = "No intervals: fewer than six trials give none of 95 %.";

fn has_intervals(of: &OfWorkload) -> bool {
    of.rows.iter().any(|row| row.bytes_per_s.interval.is_some())
}

fn latencies(of: &OfWorkload) -> Option<Chart> {
    let series = |of_row: fn(&Row) -> Option<f64>| -> Vec<Point> {
        let rows = of.rows.iter().enumerate();
        rows.filter_map(|(x, row)| Some(Point::new(x as f64, of_row(row)?))).collect()
    };
    let (p50, p99) = (series(|row| row.latency_ns_p50), series(|row| row.latency_ns_p99));
    if p50.is_empty() {
        return None;
    }
    let y = Axis::new("service time", Unit::Nanoseconds);
    let title = format!("{}: latency on each layer", of.workload);
    let chart = Chart::new(title, ChartKind::Bars, names(of), y).series("p50", p50);
    let chart = if p99.is_empty() { chart } else { chart.series("p99", p99) };
    Some(chart.n(trials(of)).interval(parts::OF_THESE_TRIALS).note("Each trial's percentile."))
}

fn cost(of: &OfWorkload) -> Option<Chart> {
    let rows = of.rows.iter().enumerate();
    let points: Vec<Point> =
        rows.filter_map(|(x, row)| Some(Point::new(x as f64, row.cpu_ns_per_io?))).collect();
    let y = Axis::new("CPU time", Unit::Nanoseconds);
    let title = format!("{}: CPU time of one request", of.workload);
    let chart = Chart::new(title, ChartKind::Bars, names(of), y);
    (!points.is_empty()).then(|| {
        let note = "Of fathom with the kernel's threads for it: what a layer adds, every application pays.";
        let chart = chart.series("CPU per I/O", points).n(trials(of));
        chart.interval(parts::OF_THESE_TRIALS).note(note)
    })
}

fn table(of: &OfWorkload) -> Table {
    let numbers = [
        "rate",
        "95 % of it",
        "of below",
        "IOPS",
        "p50",
        "p99",
        "CPU per I/O",
        "disk reads",
        "spread",
        "trials",
        "interrupts",
        "switches",
    ];
    let columns = [Column::left("layer")].into_iter().chain(numbers.map(Column::right));
    let mut table = Table::new("", columns);
    for row in &of.rows {
        table.row(cells(row));
    }
    if !has_intervals(of) {
        table.notes.push(NO_INTERVALS.to_owned());
    }
    table.notes.push(EVENTS.to_owned());
    table
}

fn cells(row: &Row) -> [Cell; 13] {
    let empty = || Cell::from("");
    let time = |ns: Option<f64>| {
        ns.map_or_else(|| "n/a".into(), |ns| Cell::number(format_ns(ns as u64), ns))
    };
    let share = |share: Option<f64>| {
        share.map_or_else(empty, |share| Cell::number(format_share(share), share))
    };
    let event = |which: fn(EventsPerIo) -> f64| {
        let of = row.events_per_io;
        of.map_or_else(empty, |own| Cell::number(events(of, which), which(own)))
    };
    let rate = row.bytes_per_s;
    let interval = rate.interval;
    [
        row.layer.name().into(),
        Cell::number(format_rate(rate.value), rate.value),
        interval.map_or_else(empty, |i| Cell::number(i.range(format_rate), i.low)),
        row.efficiency.map_or_else(empty, |share| Cell::number(of_below(row), share.value)),
        Cell::number(format_count(row.iops.round() as u64), row.iops),
        time(row.latency_ns_p50),
        time(row.latency_ns_p99),
        row.cpu_ns_per_io.map_or_else(empty, |ns| Cell::number(format_ns(ns as u64), ns)),
        row.disk_reads.map_or_else(empty, |reads| Cell::number(format!("{reads:.2}"), reads)),
        share(row.spread),
        Cell::number(rate.count.to_string(), rate.count as f64),
        event(|events| events.interrupts),
        event(|events| events.context_switches),
    ]
}
