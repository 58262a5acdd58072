//! The page of a comparison: how large the difference is, with its interval, and what else differed.

use super::run::unit;
use super::{Source, parts};
use crate::page::{Axis, Block, Chart, ChartKind, Page, Point, Section, Table, Unit};
use fathom_base::order::Order;
use fathom_base::shell::option_in;
use fathom_model::record::Record;
use fathom_report::comparison::{
    NO_DIFFERENCE, difference_rows, figure_rows, noise_lines, sentence, shift_rows, shifts,
};
use fathom_report::figures::Figures;
use fathom_report::summary;
use fathom_stats::Histogram;
use fathom_stats::percentiles::Shift;
use fathom_study::against;
use fathom_study::compare::rows::{self, Cell};
use fathom_study::compare::{self, Comparison, Figure, Metric, RowComparison, Side};
use jiff::tz::TimeZone;

/// Rows that are drawn run by run.
const DRAWN_MAX: usize = 6;

/// The page of `fathom report A B`.
#[must_use]
pub fn of_sides(found: &Comparison, sides: [&Side; 2], zone: &TimeZone) -> Page {
    let mut first = vec![Block::Findings(found.findings.clone())];
    let first_of =
        |side: &'_ Side| side.runs.iter().flat_map(|run| run.records.first()).next().cloned();
    let both: Vec<Record> = sides.into_iter().filter_map(first_of).collect();
    first.extend(parts::stacks(&both));
    let mut sections = answers(found);
    sections.extend(runs(found, sides));
    sections.push(differences(found));
    for (side, letter) in sides.into_iter().zip(["A", "B"]) {
        let of = |run: &fathom_study::compare::Run| run.head.command.clone();
        let mut commands: Vec<String> = side.runs.iter().map(of).collect();
        commands.dedup();
        let mut section = Section::new(format!("Side {letter}"), side.name.clone());
        section
            .blocks
            .push(Block::Command { caption: "What was run".into(), command: commands.join("\n") });
        if let Some(run) = side.runs.first() {
            let first = run.records.first().map_or(&[][..], std::slice::from_ref);
            let of = |part: Section| part.blocks;
            section.blocks.extend(parts::layers(first).map(of).into_iter().flatten());
            section.blocks.extend(parts::machine(&run.head, zone).blocks);
        }
        sections.push(section);
    }
    page(found, format!("{} against {}", found.b, found.a), first, sections)
}

/// The page of `fathom run --against`.
pub(super) fn of_run(source: &Source) -> Page {
    let found = against::study(source.head, source.records);
    let with = option_in(&source.head.command, "--against").unwrap_or("other settings");
    let mut first = vec![Block::Findings(found.findings.clone())];
    first.push(Block::Text(format!("A is the command as it stands, B is A with {with}.")));
    first.extend(parts::stacks(source.records));
    let sides = against::sides(source.head, source.records);
    let mut sections = answers(&found);
    sections.extend(runs(&found, sides.each_ref()));
    sections.push(differences(&found));
    let mut rows = Section::new("Every run", "In the order in which they were measured.");
    rows.blocks.push(Block::Table(Table::from(summary::quick_rows(source.records, &[]))));
    sections.push(rows);
    sections.extend(parts::devices(source.records));
    sections.extend(parts::layers(source.records));
    sections.push(parts::machine(source.head, source.zone));
    sections.push(parts::again(source));
    page(&found, format!("comparison {} on {}", source.name, source.head.target), first, sections)
}

fn page(found: &Comparison, title: String, first: Vec<Block>, sections: Vec<Section>) -> Page {
    let sentences: Vec<String> = found.rows.iter().take(4).map(sentence).collect();
    let more = match found.rows.len().saturating_sub(sentences.len()) {
        0 => String::new(),
        more => format!(" And {more} more rows below."),
    };
    Page {
        title,
        question: format!("Does {} differ from {}, and by how much?", found.b, found.a),
        answer: sentences.join(" ") + &more,
        verdict: Some(found.verdict),
        first,
        sections,
    }
}

/// Every figure as a picture and as a table.
fn answers(found: &Comparison) -> Vec<Section> {
    let mut section = Section::new("The difference", "");
    section.blocks.extend(changes(found).map(Block::from));
    section.blocks.push(Block::Table(Table::from(figure_rows(found))));
    let more = found.rows.len().saturating_sub(4);
    let sentences =
        found.rows.iter().skip(found.rows.len() - more).map(|row| Block::Text(sentence(row)));
    section.blocks.extend(sentences);
    section.blocks.extend(noise_lines(found).into_iter().map(Block::Text));
    [Some(section), distributions(found)].into_iter().flatten().collect()
}

/// Whole distributions of latency against each other: which requests changed.
fn distributions(found: &Comparison) -> Option<Section> {
    let rows = shift_rows(found, usize::MAX)?;
    let mut section = Section::new(
        "Which requests changed",
        "Both sides at each tenth of their requests, the fastest on the left. A level line: all requests changed alike.",
    );
    for of_row in shifts(found).chunk_by(|a, b| a.0.name == b.0.name).take(DRAWN_MAX) {
        let row = of_row[0].0;
        let mut chart = Chart::new(
            format!("Change of latency from A to B: {}", row.name),
            ChartKind::Line,
            Axis::new("requests within", Unit::Share).cropped(),
            Axis::new("change", Unit::Share),
        )
        .n(n_of(row))
        .interval("Each interval by itself; that all hold at once is less likely.")
        .note("Less is better.");
        for (_, shift) in of_row {
            let point = |of: &Shift| {
                let ends = of.ratio.interval.map(|i| (i.low - 1.0, i.high - 1.0));
                let (low, high) = ends.unzip();
                Point { low, high, ..Point::new(of.quantile, of.ratio.value - 1.0) }
            };
            chart = chart.series(shift.class.word(), shift.deciles.iter().map(point).collect());
        }
        section.blocks.push(Block::Chart(chart.mark_y(0.0, "no change")));
    }
    Some(section.block(Table::from(rows)))
}

/// What the intervals of a row are over.
fn n_of(row: &RowComparison) -> String {
    if row.in_pairs {
        format!("n = {} pairs", row.runs_a)
    } else {
        format!("n = {} against {} runs", row.runs_a, row.runs_b)
    }
}

/// Changes with their intervals; what cannot be decided by so few runs has none.
fn changes(found: &Comparison) -> Option<Chart> {
    let all: Vec<(&RowComparison, &Figure)> = found
        .rows
        .iter()
        .flat_map(|row| row.figures.iter().map(move |figure| (row, figure)))
        .collect();
    // Where room is short the beginning is what is left of a name.
    let only = match found.rows.as_slice() {
        [only] => format!(": {}", only.name),
        _ => String::new(),
    };
    let name = |(row, figure): &(&RowComparison, &Figure)| match only.as_str() {
        "" => format!("{}: {}", row.name, figure.metric.words()),
        _ => figure.metric.words(),
    };
    let point = |(index, (_, figure)): (usize, &(&RowComparison, &Figure))| {
        let ratio = figure.answer.ratio;
        let at = |ratio: f64| ratio - 1.0;
        match ratio.interval {
            Some(interval) => {
                Point::between(index as f64, at(ratio.value), at(interval.low), at(interval.high))
            }
            None => Point::new(index as f64, at(ratio.value)),
        }
    };
    let question = all.first()?.1.answer.question;
    let margin = question.margin_percent / 100.0;
    let runs = found.rows.first().map_or(String::new(), n_of);
    let chart = Chart::new(
        format!("Change from A to B{only}"),
        ChartKind::Bars,
        Axis::names("figure", all.iter().map(name)),
        Axis::new("change", Unit::Share),
    )
    .series("change", all.iter().enumerate().map(point).collect())
    .n(runs)
    .interval(format!(
        "Intervals of {} % over runs; what has none was measured too seldom to decide anything.",
        (1000.0 * question.level).round() / 10.0
    ))
    .note("Of rates more is better, of latencies and CPU time less.")
    .mark_y(margin, "margin")
    .mark_y(1.0 / (1.0 + margin) - 1.0, "margin");
    Some(chart)
}

/// Each run as a point, in the order of time, and the latencies of both sides: of those runs that the figures of a row are made of.
fn runs(found: &Comparison, [a, b]: [&Side; 2]) -> Option<Section> {
    let mut section = Section::new("Run by run", "");
    let rows = rows::rows(a, b);
    for row in found.rows.iter().take(DRAWN_MAX) {
        let Some(own) = rows.common.iter().find(|own| own.name == row.name) else { continue };
        let cells = [&own.a, &own.b].map(|units| {
            units.iter().flat_map(|unit| unit.cells.clone()).collect::<Vec<Cell<'_>>>()
        });
        section.blocks.extend(in_order(row, &cells).map(Block::from));
        let merged = cells.map(|cells| {
            let mut all = Histogram::new();
            let jobs = cells.iter().map(|cell| &cell.record.jobs[cell.job]);
            for job in jobs {
                let responses = Figures::responses(std::slice::from_ref(job));
                all.merge(&responses.unwrap_or_else(|| Figures::of_job(job).latency_ns));
            }
            all
        });
        let name = |side: &str, name: &str| {
            if side == name { side.to_owned() } else { format!("{side}: {name}") }
        };
        let names = [name("A", &found.a), name("B", &found.b)];
        let title = format!("Latency distribution of {}", row.name);
        section
            .blocks
            .extend(parts::distributions(&title, names.into_iter().zip(&merged)).map(Block::from));
    }
    (!section.blocks.is_empty()).then_some(section)
}

fn in_order(row: &RowComparison, sides: &[Vec<Cell<'_>>; 2]) -> Option<Chart> {
    let metric = &row.figures.first()?.metric;
    if !matches!(metric, Metric::BytesPerS | Metric::Iops | Metric::PerS(_)) {
        return None;
    }
    let of_side = |(side, cells): (usize, &Vec<Cell<'_>>)| {
        let one = |cell: &Cell<'_>| {
            let value = compare::value(cell.record, cell.job, metric)?;
            Some((cell.record.started_unix_ns, side, value))
        };
        cells.iter().filter_map(one).collect::<Vec<_>>()
    };
    let mut order: Vec<(i64, usize, f64)> = sides.iter().enumerate().flat_map(of_side).collect();
    order.order_by_key(|(started_unix_ns, ..)| *started_unix_ns);
    if order.len() < 2 {
        return None;
    }
    let points = |side: usize| {
        let own = order.iter().enumerate().filter(|(_, (_, of, _))| *of == side);
        own.map(|(place, (.., value))| Point::new((place + 1) as f64, *value)).collect()
    };
    let chart = Chart::new(
        format!("{}: {} of each run", row.name, metric.words()),
        ChartKind::Scatter,
        Axis::new("run, in the order of time", Unit::Count),
        Axis::new(metric.words(), unit(metric)).cropped(),
    );
    Some(chart.series("A", points(0)).series("B", points(1)).n(format!("n = {} runs", order.len())))
}

fn differences(found: &Comparison) -> Section {
    let mut section = Section::new("What differed", "");
    let table = difference_rows(&found.differences, &str::to_owned);
    if !table.is_empty() {
        section.blocks.push(Block::Table(Table::from(&table)));
    } else if !found.rows.is_empty() {
        section.blocks.push(Block::Text(NO_DIFFERENCE.to_owned()));
    }
    for (side, only) in [("A", &found.only_a), ("B", &found.only_b)] {
        if !only.is_empty() {
            section.blocks.push(Block::Text(format!("Only {side} has: {}.", only.join("; "))));
        }
    }
    section
}
