//! The page of `fathom size`: which smaller sets and shorter runs agree with the large and long ones.

use super::{Source, counted, parts};
use crate::page::{Axis, Block, Chart, ChartKind, Page, Point, Section, Table, Unit};
use fathom_base::shell::option_in;
use fathom_base::units::{format_duration, format_size, parse_fraction};
use fathom_report::{sizes, summary};
use fathom_study::size::{Cell, MARGIN, Sizes, settings, study};

/// Makes it. The margin stands in the command only.
pub(super) fn page(source: &Source) -> Page {
    let (head, records) = (source.head, source.records);
    let margin = option_in(&head.command, "--margin").and_then(|text| parse_fraction(text).ok());
    let found = study(records, margin.unwrap_or(MARGIN));
    let mut first = vec![Block::Findings(source.findings.to_vec())];
    first.extend(parts::stacks(records));
    first.extend(found.as_ref().and_then(|found| next(source, found)));
    let mut sections = Vec::new();
    sections.extend(found.as_ref().map(agreement));
    let mut runs = Section::new("Every run", "In the order in which they were measured.");
    runs.blocks.push(Block::Table(Table::from(summary::quick_rows(records, &[]))));
    sections.push(runs);
    sections.extend(parts::devices(records));
    sections.extend(counted::over_time(records));
    sections.extend(parts::layers(records));
    sections.push(parts::machine(head, source.zone));
    sections.push(parts::again(source));
    Page {
        title: format!("size {} on {}", source.name, head.target),
        question: format!(
            "How small and short may a test of {} be and still give the same answer?",
            head.target
        ),
        answer: found.as_ref().map_or_else(String::new, sizes::answer_text),
        verdict: Some(source.verdict),
        first,
        sections,
    }
}

/// The command that measures with what is enough. A directory gets a test file of that size, of what exists a part is used.
fn next(source: &Source, found: &Sizes) -> Option<Block> {
    let (head, record) = (source.head, source.records.first()?);
    let key = if record.targets.first()?.path == head.target { "span" } else { "size" };
    let is_plain = !head.command.contains(['\'', '"', '$']);
    let is_kept =
        |word: &&str| word.contains('=') && !word.starts_with('-') && !word.starts_with("size=");
    let keys = head.command.split(' ').filter(is_kept).map(|word| format!("{word} "));
    let keys: String = if is_plain { keys.collect() } else { return None };
    let target = fathom_base::shell::path(std::path::Path::new(&head.target));
    let name = &record.workload.name;
    Some(Block::Command {
        caption: "Next: measure with a test that is large and long enough".to_owned(),
        command: format!("fathom run {name} {target} {keys}{}", settings(found.answer?, key)),
    })
}

fn agreement(found: &Sizes) -> Section {
    let name = |cell: &&Cell| {
        let part = if cell.is_part { ", its first part" } else { "" };
        format!("{} for {}{part}", format_size(cell.size_bytes), format_duration(cell.duration_ns))
    };
    let compared: Vec<&Cell> = found.cells.iter().filter(|cell| cell.ratio.is_some()).collect();
    let point = |(index, cell): (usize, &&Cell)| {
        let ratio = cell.ratio?;
        let at = |ratio: f64| ratio - 1.0;
        Some(match ratio.interval {
            Some(interval) => {
                Point::between(index as f64, at(ratio.value), at(interval.low), at(interval.high))
            }
            None => Point::new(index as f64, at(ratio.value)),
        })
    };
    let chart = Chart::new(
        "Difference from the largest and longest",
        ChartKind::Bars,
        Axis::names("size and time", compared.iter().map(name)),
        Axis::new("operations/s against the reference", Unit::Share),
    )
    .series("difference", compared.iter().enumerate().filter_map(point).collect())
    .n(format!("n = {} sizes and times, each of several runs", compared.len()))
    .interval("Intervals of 90 % over runs: one that lies between the two lines agrees.")
    .mark_y(found.margin, "margin")
    .mark_y(-found.margin, "margin");
    let rates = |(index, cell): (usize, &Cell)| match cell.iops.interval {
        Some(interval) => {
            Point::between(index as f64, cell.iops.value, interval.low, interval.high)
        }
        None => Point::new(index as f64, cell.iops.value),
    };
    let throughput = Chart::new(
        "Throughput by size and time",
        ChartKind::Bars,
        Axis::names("size and time", found.cells.iter().map(|cell| name(&cell))),
        Axis::new("operations", Unit::PerSecond),
    )
    .series("operations", found.cells.iter().enumerate().map(rates).collect())
    .n("medians of the runs")
    .interval(match found.cells.iter().any(|cell| cell.iops.interval.is_some()) {
        true => "90 % intervals of the median over runs, where there are five or more.",
        false => "No intervals: fewer than five runs give none of 90 %; that of the difference rests on all runs of both.",
    });
    Section::new("Against the reference", "")
        .block(chart)
        .block(Table::from(sizes::rows(found)))
        .block(throughput)
}
