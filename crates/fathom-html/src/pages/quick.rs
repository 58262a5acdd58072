//! The page of `fathom quick`: what a storage does, row by row, and where throughput stops growing.

use super::{Source, counted, parts};
use crate::page::{Axis, Block, Chart, ChartKind, Page, Point, Section, Table, Unit};
use fathom_model::record::Record;
use fathom_report::summary;
use fathom_study::knee::of_rows;
use fathom_study::saturate::{concurrency, throughput};

/// Makes it.
pub(super) fn page(source: &Source) -> Page {
    let (head, records) = (source.head, source.records);
    let mut first = vec![Block::Findings(source.findings.to_vec())];
    first.extend(parts::stacks(records));
    let remarks: Vec<(usize, &str)> =
        of_rows(records).into_iter().map(|of| (of.row, of.words())).collect();
    first.push(Block::Table(Table::from(summary::quick_rows(records, &remarks))));
    let target = fathom_base::shell::path(std::path::Path::new(&head.target));
    first.push(Block::Command {
        caption: "Next: how many requests in flight it needs, and what each layer costs".to_owned(),
        command: format!("fathom saturate {target}\nfathom layers {target}"),
    });
    let mut sections: Vec<Section> = over_concurrency(records).into_iter().collect();
    sections.extend(parts::course(records, usize::MAX));
    sections.extend(parts::devices(records));
    sections.extend(counted::over_time(records));
    sections.extend(parts::layers(records));
    sections.push(parts::machine(head, source.zone));
    sections.extend(parts::in_full(records, source.zone));
    sections.push(parts::again(source));
    Page {
        title: format!("quick {} on {}", source.name, head.target),
        question: format!("What can {} do, and can that be believed?", head.target),
        answer: summary::in_a_sentence(records),
        verdict: Some(source.verdict),
        first,
        sections,
    }
}

/// The random reads that differ in nothing but requests in flight.
fn over_concurrency(records: &[Record]) -> Option<Section> {
    let rows: Vec<&Record> =
        records.iter().filter(|r| r.label.starts_with("random read")).collect();
    if rows.len() < 2 {
        return None;
    }
    let points = rows.iter().map(|r| Point::new(concurrency(r) as f64, throughput(r)));
    let mut chart = Chart::new(
        "Random reads per second by requests in flight",
        ChartKind::Line,
        Axis::new("requests in flight", Unit::Count).log(),
        Axis::new("operations", Unit::PerSecond),
    )
    .series("random read", points.collect())
    .n(format!("{} short windows, one for each point", rows.len()))
    .note("One window each: fathom saturate repeats them and gives intervals.");
    if let Some(found) = of_rows(records) {
        let at = records.get(found.row).map_or(0.0, |record| concurrency(record) as f64);
        chart = chart.mark_x(at, found.words());
    }
    Some(Section::new("Over requests in flight", "").block(chart))
}
