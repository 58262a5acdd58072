//! The page of one target over time.

use super::run::unit;
use crate::page::{
    Align, Axis, Block, Cell, Chart, ChartKind, Column, Page, Point, Section, Table, Unit,
};
use fathom_model::finding::Verdict;
use fathom_report::history::{change_in_brief, change_text, no_change_text, rise_text};
use fathom_report::text::{WIDTH, format_time};
use fathom_study::history::Series;
use jiff::tz::TimeZone;

/// Makes it; `prefix` gives the shortest name of a run.
#[must_use]
pub fn page(
    target: &str,
    all: &[Series],
    prefix: &dyn Fn(&str) -> String,
    zone: &TimeZone,
) -> Page {
    Page {
        title: format!("history of {target}"),
        question: format!("Has {target} become faster or slower, and when?"),
        answer: answer(all, zone),
        verdict: None,
        first: Vec::new(),
        sections: all.iter().map(|series| section(series, prefix, zone)).collect(),
    }
}

/// The newest change of a row; of one that only drifts, how far.
fn changed(series: &Series, zone: &TimeZone) -> Option<String> {
    let name = &series.name;
    if let Some(change) = series.changes.last() {
        let earlier = match series.changes.len() {
            1 => String::new(),
            n => format!(", the last of {n} changes"),
        };
        return Some(format!("{name}: {}{earlier}", change_in_brief(series, change, zone)));
    }
    let percent = series.rise_percent?;
    Some(format!("{name}: {percent:+.1} % over all runs, in no single place"))
}

fn answer(all: &[Series], zone: &TimeZone) -> String {
    let changed: Vec<String> = all.iter().filter_map(|series| changed(series, zone)).collect();
    let open =
        all.iter().filter(|s| s.changes.is_empty() && s.points.len() < s.points_needed).count();
    let rows = |n: usize| if n == 1 { "1 row".to_owned() } else { format!("{n} rows") };
    let few = match open {
        0 => String::new(),
        n => format!(" {} cannot be judged yet: too few runs.", rows(n)),
    };
    match changed.as_slice() {
        [] if open == all.len() => {
            format!("Too few runs to tell a change from luck, in {}.", rows(open))
        }
        [] => format!("No change of level in {}.{few}", rows(all.len() - open)),
        names => {
            let others = match all.len() - names.len() - open {
                0 => String::new(),
                n => format!(" {} did not.", rows(n)),
            };
            format!("Changed: {}.{others}{few}", names.join("; "))
        }
    }
}

fn section(series: &Series, prefix: &dyn Fn(&str) -> String, zone: &TimeZone) -> Section {
    let mut section = Section::new(format!("{}: {}", series.name, series.metric.words()), "")
        .block(chart(series));
    for change in &series.changes {
        section.blocks.push(Block::Plain(change_text(series, change, zone, prefix, WIDTH)));
    }
    section.blocks.extend(no_change_text(series).map(Block::Text));
    let rise = rise_text(series);
    section.blocks.extend((!rise.is_empty()).then_some(Block::Text(rise)));
    section.block(table(series, prefix, zone))
}

fn chart(series: &Series) -> Chart {
    let when = |ns: i64| ns as f64 / 1e9;
    let points =
        series.points.iter().map(|point| Point::new(when(point.started_unix_ns), point.value));
    let doubtful = series.points.iter().filter(|point| point.verdict == Verdict::Doubtful);
    let doubtful: Vec<Point> =
        doubtful.map(|point| Point::new(when(point.started_unix_ns), point.value)).collect();
    let mut chart = Chart::new(
        format!("{} over time", series.name),
        ChartKind::Line,
        Axis::new("start of the run", Unit::UnixSeconds),
        Axis::new(series.metric.words(), unit(series.metric)),
    )
    .series("runs", points.collect())
    .n(format!("n = {}", plural(series.points.len())))
    .note("Each point is a run; repetitions inside of a run are one point, their median.");
    if !doubtful.is_empty() {
        chart = chart.loose_series("doubtful runs", doubtful);
    }
    for change in &series.changes {
        if let Some(point) = series.points.get(change.at) {
            chart = chart.mark_x(when(point.started_unix_ns), "changed");
        }
    }
    chart
}

fn plural(runs: usize) -> String {
    if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") }
}

fn table(series: &Series, prefix: &dyn Fn(&str) -> String, zone: &TimeZone) -> Table {
    let value = Column { title: series.metric.words(), unit: String::new(), align: Align::Right };
    let columns = [
        Column::left("run"),
        Column::left("began"),
        Column::left("label"),
        value,
        Column::left("verdict"),
    ];
    let mut table = Table::new("", columns);
    for (index, point) in series.points.iter().enumerate() {
        let is_change = series.changes.iter().any(|change| change.at == index);
        table.row_with_remark(
            [
                Cell::from(prefix(&point.run)),
                Cell::from(format_time(point.started_unix_ns, zone)),
                Cell::from(point.label.clone().unwrap_or_default()),
                Cell::number(series.metric.text(point.value), point.value),
                Cell::from(point.verdict.word().to_lowercase()),
            ],
            if is_change { "changed" } else { "" },
        );
    }
    table.is_sortable = true;
    table
}
