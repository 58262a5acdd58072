//! The page of `fathom run`, of its rounds until steady, and of every kind that has no page of its own.

use super::{Source, counted, parts};
use crate::page::{Axis, Block, Chart, ChartKind, Page, Point, Section, Table, Unit};
use fathom_model::record::{Record, RunKind};
use fathom_report::{brief, summary};
use fathom_study::compare::Metric;
use fathom_study::repeats::{self, Repeats};
use fathom_study::rounds::{self, Followed};

/// Makes it.
pub(super) fn page(source: &Source) -> Page {
    let (head, records) = (source.head, source.records);
    let mut first = vec![Block::Findings(source.findings.to_vec())];
    first.extend(parts::stacks(records));
    first.push(Block::Table(Table::from(summary::run_rows(records))));
    let repeats = repeats::of_run(head.kind, records);
    first.extend(summary::repeats_rows(&repeats).map(|rows| Block::Table(Table::from(rows))));
    let mut sections = Vec::new();
    if head.kind == RunKind::Rounds {
        sections.push(steadiness(source));
    }
    sections.extend(parts::course(records, usize::MAX));
    sections.extend(parts::devices(records));
    sections.extend(counted::over_time(records));
    sections.extend(parts::layers(records));
    sections.push(parts::machine(head, source.zone));
    sections.extend(parts::in_full(records, source.zone));
    sections.push(parts::again(source));
    Page {
        title: format!("run {} on {}", source.name, head.target),
        question: question(source),
        answer: answer(source, &repeats),
        verdict: Some(source.verdict),
        first,
        sections,
    }
}

fn question(source: &Source) -> String {
    let mut names: Vec<&str> = Vec::new();
    for record in source.records {
        if !names.contains(&record.workload.name.as_str()) {
            names.push(&record.workload.name);
        }
    }
    match names.as_slice() {
        [] => format!("What does {} do?", source.head.target),
        names => format!("What does {} do under {}?", source.head.target, names.join(", ")),
    }
}

/// One record speaks for itself; of rounds the steady ones count, of repeats their spread.
fn answer(source: &Source, repeats: &[Repeats]) -> String {
    let each = |record: &Record| format!("{}: {}", record.label, brief::line(record));
    match (source.head.kind, source.records) {
        (_, []) => String::new(),
        (RunKind::Rounds, records) => fathom_report::rounds::sentence(&rounds::study(records)),
        (_, [one]) => format!("{}. One run, so without an interval.", each(one)),
        (_, several) if repeats.is_empty() => {
            let some: Vec<String> = several.iter().take(4).map(each).collect();
            format!("{}. {}", some.join("; "), summary::SINGLE)
        }
        _ => format!("{}.", summary::repeats_sentences(repeats).join("; ")),
    }
}

/// Whether it became steady, and the figures round by round.
fn steadiness(source: &Source) -> Section {
    let found = rounds::study(source.records);
    let text = fathom_report::rounds::text(&found, fathom_report::text::WIDTH);
    let mut section = Section::new("Rounds until steady", "").block(Block::Plain(text));
    let charts = found
        .figures
        .iter()
        .filter(|figure| figure.is_tracked)
        .map(|figure| of_figure(figure, found.window));
    section.blocks.extend(charts.map(Block::from));
    section
}

fn of_figure(figure: &Followed, window: Option<(usize, usize)>) -> Chart {
    let points =
        figure.values.iter().enumerate().map(|(i, value)| Point::new((i + 1) as f64, *value));
    let mut chart = Chart::new(
        format!("{} of {} by round", figure.metric.words(), figure.name),
        ChartKind::Line,
        Axis::new("round", Unit::Count),
        Axis::new(figure.metric.words(), unit(&figure.metric)),
    )
    .series(figure.metric.words(), points.collect())
    .n(format!("n = {} rounds", figure.values.len()));
    if let Some((first, last)) = window {
        chart = chart.mark_x(first as f64, "window from").mark_x(last as f64, "to");
    }
    chart
}

/// How figures of a comparison are drawn.
pub(super) fn unit(metric: &Metric) -> Unit {
    match metric {
        Metric::BytesPerS => Unit::BytesPerSecond,
        Metric::Iops | Metric::PerS(_) => Unit::PerSecond,
        Metric::Told(..) => Unit::Count,
        _ => Unit::Nanoseconds,
    }
}
