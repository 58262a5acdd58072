//! The page of `fathom saturate`: throughput and latency over requests in flight, the knee, what limits, the load under a bound.

use super::{Source, counted, parts};
use crate::page::{Axis, Block, Chart, ChartKind, Page, Point, Section, Table, Unit};
use fathom_base::shell::option_in;
use fathom_report::{saturation, summary};
use fathom_study::saturate::{OfBound, Row, Saturation, study};

/// Makes it. The bound stands in the command only.
pub(super) fn page(source: &Source) -> Page {
    let (head, records) = (source.head, source.records);
    let bound = option_in(&head.command, "--bound").and_then(|text| text.parse().ok());
    let found = study(records, bound.as_ref());
    let mut first = vec![Block::Findings(source.findings.to_vec())];
    first.extend(parts::stacks(records));
    let mut sections = Vec::new();
    if let Some(found) = &found {
        first.push(Block::Text(format!("Limit: {}", found.limit.text)));
        sections.push(curve(found));
        sections.extend(found.bound.as_ref().map(under_bound));
    }
    let mut runs = Section::new("Every run", "In the order in which they were measured.");
    runs.blocks.push(Block::Table(Table::from(summary::quick_rows(records, &[]))));
    sections.push(runs);
    sections.extend(parts::course(records, 0));
    sections.extend(parts::devices(records));
    sections.extend(counted::over_time(records));
    sections.extend(parts::layers(records));
    sections.push(parts::machine(head, source.zone));
    sections.push(parts::again(source));
    Page {
        title: format!("saturate {} on {}", source.name, head.target),
        question: format!(
            "How many requests in flight does {} need, and what does it do then?",
            head.target
        ),
        answer: answer(found.as_ref()),
        verdict: Some(source.verdict),
        first,
        sections,
    }
}

fn answer(found: Option<&Saturation>) -> String {
    let Some(found) = found else { return String::new() };
    let knee = saturation::knee_text(found);
    let bound = found.bound.as_ref().map(saturation::bound_text);
    knee.into_iter().chain(bound).collect::<Vec<_>>().join(" ")
}

fn curve(found: &Saturation) -> Section {
    let x = || Axis::new("requests in flight", Unit::Count).log();
    let iops = |row: &Row| match row.iops.interval {
        Some(interval) => {
            Point::between(row.concurrency as f64, row.iops.value, interval.low, interval.high)
        }
        None => Point::new(row.concurrency as f64, row.iops.value),
    };
    let runs: Vec<usize> = found.rows.iter().map(|row| row.iops.count).collect();
    let (least, most) = (runs.iter().min().unwrap_or(&0), runs.iter().max().unwrap_or(&0));
    let n = if least == most {
        format!("n = {most} runs for each point")
    } else {
        format!("n = {least} to {most} runs for each point")
    };
    let mut throughput = Chart::new(
        "Throughput by requests in flight",
        ChartKind::Line,
        x(),
        Axis::new("operations", Unit::PerSecond),
    )
    .series("median of the runs", found.rows.iter().map(iops).collect())
    .n(n.clone());
    throughput.interval = match found.rows.iter().any(|row| row.iops.interval.is_some()) {
        true => "95 % intervals of the median over runs, where there are six or more.".into(),
        false => "No intervals: fewer than six runs give none of 95 %.".into(),
    };
    let line = |ns: fn(&Row) -> Option<u64>| -> Vec<Point> {
        let points = found
            .rows
            .iter()
            .filter_map(|row| Some(Point::new(row.concurrency as f64, ns(row)?.max(1) as f64)));
        points.collect()
    };
    let mut latency = Chart::new(
        "Latency by requests in flight",
        ChartKind::Line,
        x(),
        Axis::new("service time", Unit::Nanoseconds).log(),
    )
    .n(n)
    .interval(parts::OF_THESE_TRIALS)
    .note("p50 and p99: each run's percentile, then the median of the runs. max: of all runs.");
    for (name, points) in [
        ("p50", line(|row| row.latency_ns_p50)),
        ("p99", line(|row| row.latency_ns_p99)),
        ("max", line(|row| row.latency_ns_max)),
    ] {
        if !points.is_empty() {
            latency = latency.series(name, points);
        }
    }
    let mut section = Section::new("Over requests in flight", "");
    if let Some(knee) = &found.knee {
        let at = knee.concurrency as f64;
        throughput = throughput.mark_x(at, "throughput stops growing");
        latency = latency.mark_x(at, "throughput stops growing");
        section.note = saturation::certainty(knee);
    }
    section.block(throughput).block(latency).block(Table::from(saturation::curve(found)))
}

fn under_bound(bound: &OfBound) -> Section {
    let percentile = |pick: fn(&fathom_study::saturate::OpenRow) -> Option<u64>| -> Vec<Point> {
        let points = bound
            .rows
            .iter()
            .filter_map(|row| Some(Point::new(row.rate, pick(row)?.max(1) as f64)));
        points.collect()
    };
    let judged = bound.rows.iter().filter_map(|row| {
        let (low, high) = row.figure_ns?;
        let (low, high) = (low.max(1) as f64, high.max(1) as f64);
        Some(Point::between(row.rate, (low * high).sqrt(), low, high))
    });
    let mut chart = Chart::new(
        "Response time by offered load",
        ChartKind::Line,
        Axis::new("requests due", Unit::PerSecond).log(),
        Axis::new("response time", Unit::Nanoseconds).log(),
    )
    .mark_y(bound.most_ns as f64, "bound")
    .n(format!("n = {} runs at {} loads", bound.rows.iter().map(|row| row.runs).sum::<usize>(), bound.rows.len()))
    .note("Response times of an open loop, from the intended start. Of what the bound is about, the middle of the smallest and the largest run.")
    .interval("Intervals: from the smallest to the largest run.");
    for (name, points) in [
        (bound.what.as_str(), judged.collect()),
        ("p50 (median of the runs)", percentile(|row| row.response_ns_p50)),
    ] {
        if !points.is_empty() {
            chart = chart.series(name, points);
        }
    }
    if let Some(rate) = bound.answer.rate {
        chart = chart.mark_x(rate, "highest that keeps it");
    }
    Section::new("Under the latency bound", saturation::bound_text(bound))
        .block(chart)
        .block(Table::from(saturation::bound_rows(bound)))
}
