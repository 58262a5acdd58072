//! The page of one target over time.

use super::parts;
use super::run::unit;
use crate::page::{
    Align, Axis, Block, Cell, Chart, ChartKind, Column, Page, Point, Section, Table, Unit,
};
use fathom_base::order::Order;
use fathom_model::finding::{Finding, Severity, Verdict};
use fathom_report::history::{change_in_brief, change_text, no_change_text, rise_text};
use fathom_report::text::{WIDTH, format_time};
use fathom_study::compare::Run;
use fathom_study::history::Series;
use jiff::tz::TimeZone;

/// Makes it of the runs and of what was made of them; `prefix` gives the shortest name of a run.
#[must_use]
pub fn page(
    target: &str,
    all: &[Series],
    runs: &[Run],
    prefix: &dyn Fn(&str) -> String,
    zone: &TimeZone,
) -> Page {
    let newest = runs.iter().max_by_key(|run| run.head.started_unix_ns);
    let mut sections: Vec<Section> =
        all.iter().map(|series| section(series, prefix, zone)).collect();
    sections.extend(findings(runs, prefix));
    if let Some(newest) = newest {
        let of_newest = |mut section: Section| {
            let note = format!("Of the newest run, {}. {}", prefix(&newest.head.id), section.note);
            note.trim_end().clone_into(&mut section.note);
            section
        };
        sections.extend(parts::layers(&newest.records).map(of_newest));
        sections.push(of_newest(parts::machine(&newest.head, zone)));
    }
    sections.push(again(target, runs, newest));
    Page {
        title: format!("history of {target}"),
        question: format!("Has {target} become faster or slower, and when?"),
        answer: answer(all, zone),
        verdict: None,
        first: newest.map_or_else(Vec::new, |newest| parts::stacks(&newest.records)),
        sections,
    }
}

/// Every finding of the runs, the gravest first.
fn findings(runs: &[Run], prefix: &dyn Fn(&str) -> String) -> Option<Section> {
    let mut all: Vec<(Finding, usize, &Run)> = Vec::new();
    for run in runs {
        for finding in run.judged().findings {
            match all.iter_mut().find(|(known, ..)| known.id == finding.id) {
                Some((known, count, newest)) => {
                    *count += 1;
                    if run.head.started_unix_ns >= newest.head.started_unix_ns {
                        (*known, *newest) = (finding, run);
                    }
                }
                None => all.push((finding, 1, run)),
            }
        }
    }
    all.order_by_key(|(finding, count, _)| std::cmp::Reverse((finding.severity, *count)));
    let columns = [
        Column::left("finding"),
        Column::left("is"),
        Column::right("runs"),
        Column::left("newest"),
        Column::left("it says"),
    ];
    let mut table = Table::new("", columns);
    for (finding, count, run) in all {
        let word = match finding.severity {
            Severity::Note => "note",
            Severity::Doubtful => "doubtful",
            Severity::Void => "void",
        };
        let count = Cell::number(count.to_string(), count as f64);
        table.row([
            finding.id.into(),
            word.into(),
            count,
            prefix(&run.head.id).into(),
            finding.summary.into(),
        ]);
    }
    table.is_sortable = true;
    let note = "Of all runs, void ones too, which have no point above.";
    (!table.rows.is_empty()).then(|| Section::new("Findings", note).block(table))
}

/// The commands of the runs, the newest first, and the one that shows them all.
fn again(target: &str, runs: &[Run], newest: Option<&Run>) -> Section {
    const COMMANDS_MAX: usize = 12;
    let mut newest_first: Vec<&Run> = runs.iter().collect();
    newest_first.order_by_key(|run| std::cmp::Reverse(run.head.started_unix_ns));
    let mut commands: Vec<&str> = Vec::new();
    for run in newest_first {
        if !commands.contains(&run.head.command.as_str()) {
            commands.push(&run.head.command);
        }
    }
    let more = commands.len().saturating_sub(COMMANDS_MAX);
    commands.truncate(COMMANDS_MAX);
    let mut section = Section::new("Again", "");
    if newest.is_some() {
        let caption = "The commands that were run, the newest first".to_owned();
        section.blocks.push(Block::Command { caption, command: commands.join("\n") });
    }
    if more > 0 {
        let text = format!(
            "The newest {COMMANDS_MAX} are shown; {more} more: fathom list --json has all."
        );
        section.blocks.push(Block::Text(text));
    }
    let target = fathom_base::shell::path(std::path::Path::new(target));
    let caption = "The same in the terminal".to_owned();
    section.block(Block::Command { caption, command: format!("fathom history {target}") })
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
    let text = |percent: f64| format!("{percent:+.1} %");
    let percent = text(series.rise_percent?);
    let known =
        series.rise_interval_percent.map_or_else(|| "no interval".into(), |of| of.sure_range(text));
    Some(format!("{name}: {percent} ({known}) over all runs, in no single place"))
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
    section.blocks.extend(rise_text(series).map(Block::Text));
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
        Axis::new(series.metric.words(), unit(&series.metric)),
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
        value,
        Column::right("began"),
        Column::left("label"),
        Column::left("verdict"),
    ];
    let mut table = Table::new("", columns);
    for (index, point) in series.points.iter().enumerate() {
        let is_change = series.changes.iter().any(|change| change.at == index);
        table.row_with_remark(
            [
                Cell::from(prefix(&point.run)),
                Cell::number(series.metric.text(point.value), point.value),
                Cell::number(
                    format_time(point.started_unix_ns, zone),
                    point.started_unix_ns as f64,
                ),
                Cell::from(point.label.clone().unwrap_or_default()),
                Cell::from(point.verdict.word().to_lowercase()),
            ],
            if is_change { "changed" } else { "" },
        );
    }
    table.is_sortable = true;
    table
}
