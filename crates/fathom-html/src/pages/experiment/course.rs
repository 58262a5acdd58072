//! How the experiment went: every trial in the order of time, and those that do not count.

use super::{Shown, short_name, unit};
use crate::page::{Axis, Cell, Chart, ChartKind, Column, Point, Section, Table, Unit};
use fathom_model::plan::Plan;
use fathom_report::experiment::{self as report, words};
use fathom_study::experiment::{CoursePoint, course};

/// More colours cannot be told apart: the best, the baseline and the sentinel keep theirs.
const SERIES_MAX: usize = 7;
/// More lines between blocks would hide the points.
const BLOCKS_MAX: u32 = 30;
/// Void trials that are shown one by one.
const VOID_MAX: usize = 1000;

pub(super) fn sections(shown: &Shown) -> Vec<Section> {
    let study = shown.study;
    let mut section = Section::new("Course", report::course_lines(study).join(" "));
    let places = study.ranking.figures.iter().take(2);
    let charts = places.filter_map(|place| chart(shown, shown.source.plan?, *place));
    section.blocks.extend(charts.map(Into::into));
    if section.blocks.is_empty() && section.note.is_empty() {
        return Vec::new();
    }
    let mut sections = vec![section];
    if !study.void.is_empty() {
        let note = "Left out of every figure, by rules that were fixed before anything was measured. Nothing else is left out.";
        sections.push(Section::new("Void trials", note).block(void(shown)));
    }
    sections
}

/// One figure of every trial over time.
fn chart(shown: &Shown, plan: &Plan, place: usize) -> Option<Chart> {
    let study = shown.study;
    let figure = study.figures.get(place)?;
    let points = course(plan, shown.cells, shown.source.records, figure);
    let start = points.first()?.started_unix_ns;
    let seconds = |point: &CoursePoint| point.started_unix_ns.saturating_sub(start) as f64 / 1e9;
    let title = words::figure(study, figure);
    let x = Axis::new("since the first trial", Unit::Seconds);
    let y = Axis::new(title.clone(), unit(figure.metric));
    let mut chart = Chart::new(format!("{title} of every trial"), ChartKind::Scatter, x, y);
    for (name, wanted) in series(shown) {
        let own = points.iter().filter(|point| wanted.has(point));
        let own: Vec<Point> = own.map(|point| Point::new(seconds(point), point.value)).collect();
        if !own.is_empty() {
            chart = chart.series(name, own);
        }
    }
    if study.blocks_done > 1 && study.blocks_done <= BLOCKS_MAX {
        for block in 1..study.blocks_done {
            let first = points.iter().find(|point| point.slot.block == block);
            chart = match first {
                Some(point) => chart.mark_x(seconds(point), format!("{}", block + 1)),
                None => chart,
            };
        }
    }
    let void = match study.void.len() {
        0 => String::new(),
        void => format!("; {} left out", words::count(void, "void one", "void ones")),
    };
    let count = words::count(points.len(), "trial", "trials");
    Some(chart.n(format!("n = {count}, one point for each{void}")).note(
        "A cell that rises or falls from block to block shows drift; the sentinel is the baseline, measured again and again. \
         Lines are the beginnings of blocks.",
    ))
}

/// Which points belong to a series.
enum Wanted {
    Sentinel,
    Cell(usize),
    Others(Vec<usize>),
}

impl Wanted {
    fn has(&self, point: &CoursePoint) -> bool {
        match self {
            Self::Sentinel => point.slot.is_sentinel,
            Self::Cell(place) => !point.slot.is_sentinel && point.cell == *place,
            Self::Others(named) => !point.slot.is_sentinel && !named.contains(&point.cell),
        }
    }
}

/// The best and the baseline first, then others as far as they can be told apart, then the rest in one.
fn series(shown: &Shown) -> Vec<(String, Wanted)> {
    let study = shown.study;
    let mut places: Vec<usize> = Vec::new();
    let wanted = study.ranking.winner.into_iter().chain([study.baseline]);
    for place in wanted.chain(study.ranking.order.iter().copied()) {
        if !places.contains(&place) && study.cells.get(place).is_some() {
            places.push(place);
        }
    }
    let are_all_named = places.len() <= SERIES_MAX;
    if !are_all_named {
        places.truncate(2);
    }
    let mut series = vec![("sentinel".to_owned(), Wanted::Sentinel)];
    series.extend(places.iter().map(|place| {
        let what = if *place == study.baseline { " (baseline)" } else { "" };
        (format!("{}{what}", short_name(study, *place)), Wanted::Cell(*place))
    }));
    if !are_all_named {
        series.insert(0, ("other cells".to_owned(), Wanted::Others(places)));
    }
    series
}

fn void(shown: &Shown) -> Table {
    let study = shown.study;
    let columns = [
        Column::right("block"),
        Column::right("place"),
        Column::left("cell"),
        Column::left("workload"),
        Column::left("because"),
    ];
    let mut table = Table::new("", columns);
    table.is_sortable = true;
    for void in study.void.iter().take(VOID_MAX) {
        let number = |number: u32| Cell::number((number + 1).to_string(), f64::from(number + 1));
        table.row([
            number(void.slot.block),
            number(void.slot.place),
            void.cell.clone().into(),
            void.workload.clone().into(),
            void.cause.clone().into(),
        ]);
    }
    if study.void.len() > VOID_MAX {
        let text = format!("The first {VOID_MAX} of {}.", study.void.len());
        table.notes.push(text);
    }
    table
}
