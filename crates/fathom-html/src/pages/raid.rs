//! The page of `fathom raid`: every array against every other as a table and as a picture, in MiB/s and in multiples of one
//! member; what a missing member and a rebuild cost.

mod states;
mod winner;

use super::{Source, counted, parts};
use crate::page::{Axis, Block, Cell, Chart, ChartKind, Column, Page, Point, Section, Table, Unit};
use fathom_report::answer;
use fathom_report::raid::{MIB, in_mib, mib_per_s, multiple, place, trials_note};
use fathom_study::raid::{Figure, Pattern, RaidStudy, Row, State, study};

/// Void trials that are shown one by one.
const VOID_MAX: usize = 1000;

/// Makes it.
pub(super) fn page(source: &Source) -> Page {
    let found = study(source.records);
    let mut sections = matrices(&found);
    sections.extend(components(&found));
    sections.extend(states::sections(&found));
    sections.extend(void(&found));
    sections.extend(winner::layers(&found, source.records));
    sections.extend(counted::over_time(source.records));
    sections.push(parts::machine(source.head, source.zone));
    sections.push(parts::again(source));
    let mut first = winner::commands(&found, &source.head.target);
    first.push(Block::Findings(source.findings.to_vec()));
    first.extend(winner::stacks(&found, source.records));
    Page {
        title: format!("raid {} on {}", source.name, source.head.target),
        question: "Which array suits these disks: level, layout and chunk, whole, without a member, and while one is rebuilt?"
            .to_owned(),
        answer: answer::of_raid(&found),
        verdict: Some(source.verdict),
        first,
        sections,
    }
}

/// A load in one state: a column of a matrix.
#[derive(Clone, Copy)]
struct Under {
    pattern: Pattern,
    state: State,
}

impl Under {
    fn figure(self, row: &Row) -> Option<&Figure> {
        row.in_state(self.state)?.figures[place(self.pattern)].as_ref()
    }

    fn title(self) -> String {
        let load = answer::load(self.pattern);
        let load = load.rsplit(' ').next().unwrap_or(load);
        match self.state {
            State::Normal => load.to_owned(),
            state => format!("{} {load}", state.word()),
        }
    }

    /// What stands where there is no figure.
    fn missing(self, row: &Row) -> &'static str {
        if self.state != State::Normal && !row.is_redundant { "n/a" } else { "-" }
    }
}

/// What a matrix shows of a figure.
#[derive(Clone, Copy)]
struct Of<'a> {
    study: &'a RaidStudy,
    is_multiple: bool,
}

impl Of<'_> {
    /// The figure's rate in MiB/s, or in multiples of one member's, and how it is written.
    fn value(self, figure: &Figure) -> Option<(f64, String)> {
        match self.is_multiple {
            true => Some((figure.of_one_member?.value, multiple(figure)?)),
            false => Some((figure.bytes_per_s.value / MIB, in_mib(figure))),
        }
    }

    fn unit(self) -> (&'static str, Unit) {
        if self.is_multiple {
            ("multiples of one member", Unit::Times)
        } else {
            ("MiB/s", Unit::Count)
        }
    }
}

fn matrices(found: &RaidStudy) -> Vec<Section> {
    let has_one = found.component_bytes_per_s.iter().any(Option::is_some);
    let mut sections = Vec::new();
    for (title, patterns) in [
        ("Sequential", [Pattern::SequentialWrite, Pattern::SequentialRead]),
        ("Random", [Pattern::RandomRead, Pattern::RandomMix]),
    ] {
        let columns = columns(found, patterns);
        if columns.is_empty() {
            continue;
        }
        let missing = "n/a: the level cannot be in that state; -: not measured.";
        let mut section = Section::new(title, format!("{} {missing}", trials_note(found)));
        for is_multiple in [false, true].into_iter().filter(|is| !*is || has_one) {
            let of = Of { study: found, is_multiple };
            section =
                section.block(picture(title, of, &columns)).block(matrix(title, of, &columns));
        }
        sections.push(section);
    }
    sections
}

/// The loads and states that some array was measured under.
fn columns(found: &RaidStudy, patterns: [Pattern; 2]) -> Vec<Under> {
    let all = State::ALL.into_iter();
    let all = all.flat_map(|state| patterns.map(|pattern| Under { pattern, state }));
    all.filter(|under| found.rows.iter().any(|row| under.figure(row).is_some())).collect()
}

fn picture(title: &str, of: Of, columns: &[Under]) -> Chart {
    let rows = &of.study.rows;
    let (words, unit) = of.unit();
    // The first array stands on top, as in the table.
    let names = rows.iter().rev().map(Row::name);
    let y = Axis::names("array", names);
    let x = Axis::names("load", columns.iter().map(|under| under.title()));
    let mut points = Vec::new();
    let mut trials = Vec::new();
    for (up, row) in rows.iter().rev().enumerate() {
        for (across, under) in columns.iter().enumerate() {
            let Some(figure) = under.figure(row) else { continue };
            trials.push(figure.bytes_per_s.count);
            points.extend(of.value(figure).map(|(value, _)| Point::cell(across, up, value)));
        }
    }
    let (least, most) = (trials.iter().min(), trials.iter().max());
    let n = match (least, most) {
        (Some(least), Some(most)) if least != most => {
            format!("n = {least} to {most} trials for each cell")
        }
        (_, most) => format!("n = {} for each cell", count(most.copied().unwrap_or(0))),
    };
    let mut chart = Chart::new(format!("{title}, {words}"), ChartKind::HeatMap, x, y)
        .series(words, points)
        .n(n)
        .interval("Intervals stand in the table, where there are any.")
        .note("Empty: not measured, or the level cannot be in that state.");
    chart.scale = Some(Axis::new(words, unit));
    chart
}

fn count(trials: usize) -> String {
    if trials == 1 { "1 trial".to_owned() } else { format!("{trials} trials") }
}

fn matrix(title: &str, of: Of, columns: &[Under]) -> Table {
    let (words, _) = of.unit();
    let titles = columns.iter().map(|under| Column::right(under.title()));
    let columns_of_table = [Column::left("array")].into_iter().chain(titles);
    let mut table = Table::new(format!("{title}, {words}"), columns_of_table);
    table.is_sortable = true;
    for row in &of.study.rows {
        let mut cells = vec![Cell::from(row.name())];
        for under in columns {
            let shown = under.figure(row).and_then(|figure| of.value(figure));
            let missing = || under.missing(row).into();
            cells.push(shown.map_or_else(missing, |(value, text)| Cell::number(text, value)));
        }
        table.row(cells);
    }
    table
}

/// Members alone: what multiples are of.
fn components(found: &RaidStudy) -> Option<Section> {
    let patterns: Vec<Pattern> = Pattern::ALL
        .into_iter()
        .filter(|pattern| found.components.iter().any(|c| c.figures[place(*pattern)].is_some()))
        .collect();
    if patterns.is_empty() {
        return None;
    }
    let titles = patterns.iter().map(|pattern| Column::right(answer::load(*pattern)));
    let mut table = Table::new("", [Column::left("member")].into_iter().chain(titles));
    let rate = |rate: Option<f64>| {
        rate.map_or_else(|| "-".into(), |rate| Cell::number(mib_per_s(rate), rate))
    };
    for component in &found.components {
        let cell = |pattern: &Pattern| {
            rate(component.figures[place(*pattern)].as_ref().map(|f| f.bytes_per_s.value))
        };
        table
            .row([Cell::from(component.name.clone())].into_iter().chain(patterns.iter().map(cell)));
    }
    if found.components.len() > 1 {
        let cell = |pattern: &Pattern| rate(found.component_bytes_per_s[place(*pattern)]);
        table.row([Cell::from("median")].into_iter().chain(patterns.iter().map(cell)));
    }
    let note = "Each by itself, under the same loads: an array waits for its slowest member.";
    Some(Section::new("One member alone", note).block(table))
}

fn void(found: &RaidStudy) -> Option<Section> {
    if found.void.is_empty() {
        return None;
    }
    let mut table = Table::new("", ["cell", "load", "because"].map(Column::left));
    for void in found.void.iter().take(VOID_MAX) {
        table.row([void.cell.clone(), void.workload.clone(), void.cause.clone()]);
    }
    if found.void.len() > VOID_MAX {
        table.notes.push(format!("The first {VOID_MAX} of {}.", found.void.len()));
    }
    Some(Section::new("Void trials", "Left out of every figure.").block(table))
}
