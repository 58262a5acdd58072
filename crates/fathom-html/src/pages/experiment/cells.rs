//! The cells: the best as bars, all of them as a table, and as a map where two factors make them.

use super::{Shown, level, names_title, short_name, unit};
use crate::page::{Axis, Block, Cell, Chart, ChartKind, Column, Point, Section, Table};
use fathom_base::units::{parse_duration_ns, parse_fraction, parse_size};
use fathom_report::experiment::{cells as words_of_cells, words};
use fathom_report::text::format_share;
use fathom_study::experiment::{CellFigure, CellStudy, ExperimentStudy, Figure};

/// More columns beside the figures that decide would push the remarks out of sight.
const BESIDE_MAX: usize = 3;
/// More bars cannot be told apart.
const BARS_MAX: usize = 24;

pub(super) fn sections(shown: &Shown) -> Vec<Section> {
    let study = shown.study;
    let note = "Medians over trials, best cell first. An interval that stands clear of another one's shows a difference; what \
                counts is the comparison within blocks in the table below.";
    let mut bars = Section::new("Best cells", note);
    for place in charted(study) {
        bars = bars.block(best(study, place));
    }
    bars.blocks.extend(map(study).map(Block::from));
    bars.blocks.extend(narrowed(study).map(Block::from));
    bars.blocks.retain(|block| !matches!(block, Block::Chart(chart) if chart.is_empty()));
    let others = (0..study.figures.len()).filter(|place| !study.figures[*place].is_objective);
    let others: Vec<usize> = others.collect();
    let objectives = (0..study.figures.len()).filter(|place| study.figures[*place].is_objective);
    let mut every = Section::new("Every cell", "");
    if others.len() <= BESIDE_MAX {
        every = every.block(table(study, "", &(0..study.figures.len()).collect::<Vec<_>>()));
    } else {
        every = every.block(table(study, "", &objectives.collect::<Vec<_>>()));
        let mut beside = table(study, "What stands beside", &others);
        beside.notes.clear();
        every = every.block(beside);
    }
    [bars, every].into_iter().filter(|section| !section.blocks.is_empty()).collect()
}

/// The figures that were ranked by; with them the first latency that stands beside them.
fn charted(study: &ExperimentStudy) -> Vec<usize> {
    let mut places = study.ranking.figures.clone();
    let is_latency = |figure: &Figure| words::metric(figure.metric).starts_with('p');
    let has_latency = places.iter().any(|place| is_latency(&study.figures[*place]));
    let beside = study.figures.iter().position(is_latency).filter(|_| !has_latency);
    places.extend(beside);
    places
}

fn point(x: usize, own: &CellFigure) -> Point {
    let (value, interval) = (own.median.value, own.median.interval);
    match interval {
        Some(interval) => Point::between(x as f64, value, interval.low, interval.high),
        None => Point::new(x as f64, value),
    }
}

/// How many trials the medians of a figure rest on.
fn trials(study: &ExperimentStudy, place: usize) -> String {
    let own = study.cells.iter().filter_map(|cell| cell.figures[place].as_ref());
    let counts: Vec<usize> = own.map(|own| own.median.count).collect();
    match (counts.iter().min(), counts.iter().max()) {
        (Some(least), Some(most)) if least == most => {
            format!("n = {} for each cell", words::count(*most, "trial", "trials"))
        }
        (Some(least), Some(most)) => format!("n = {least} to {most} trials for each cell"),
        _ => "n = 0".to_owned(),
    }
}

fn interval(study: &ExperimentStudy, place: usize) -> String {
    let mut own = study.cells.iter().filter_map(|cell| cell.figures[place].as_ref());
    if own.any(|own| own.median.interval.is_some()) {
        format!("{} interval of the median over trials, by ranks.", level(study))
    } else {
        format!("No intervals: fewer than six trials give none of {}.", level(study))
    }
}

fn best(study: &ExperimentStudy, place: usize) -> Chart {
    let figure = &study.figures[place];
    let has = |at: &&usize| study.cells.get(**at).is_some_and(|c| c.figures[place].is_some());
    let order: Vec<usize> = study.ranking.order.iter().filter(has).copied().collect();
    let all = order.len();
    let mut drawn: Vec<usize> = order.into_iter().take(BARS_MAX).collect();
    if !drawn.contains(&study.baseline) && study.cells[study.baseline].figures[place].is_some() {
        drawn.pop();
        drawn.push(study.baseline);
    }
    let name = |at: &usize| {
        let name = short_name(study, *at);
        if *at == study.baseline { format!("{name} (baseline)") } else { name }
    };
    let x = Axis::names(names_title(study), drawn.iter().map(name));
    let title = words::figure(study, figure);
    let y = Axis::new(title.clone(), unit(figure.metric));
    let points = drawn.iter().enumerate();
    let points = points
        .filter_map(|(x, at)| Some(point(x, study.cells[*at].figures[place].as_ref()?)))
        .collect();
    let mut chart = Chart::new(format!("{title} of the best cells"), ChartKind::Bars, x, y)
        .series(title, points)
        .n(trials(study, place))
        .interval(interval(study, place))
        .note(if figure.is_more_better() { "More is better." } else { "Less is better." });
    for bound in study.ranking.bounds.iter().filter(|bound| bound.figure == place) {
        let text = format!("bound {}", words::value(figure.metric, bound.value));
        chart = chart.mark_y(bound.value, text);
    }
    if all > drawn.len() {
        chart.reduction = format!(
            "the best {} of {all} cells, with the baseline; the table has all",
            drawn.len()
        );
    }
    chart
}

/// Two factors are a map: each combination with its median.
fn map(study: &ExperimentStudy) -> Option<Chart> {
    let [rows, columns] = study.factors.as_slice() else { return None };
    let place = *study.ranking.figures.first()?;
    let figure = &study.figures[place];
    let level = |cell: &CellStudy, factor: &String| {
        cell.levels.iter().find(|(name, _)| name == factor).map(|(_, level)| level.clone())
    };
    let levels = |factor: &String| {
        let mut found: Vec<String> = Vec::new();
        for level in study.cells.iter().filter_map(|cell| level(cell, factor)) {
            if !found.contains(&level) {
                found.push(level);
            }
        }
        found
    };
    let (across, up) = (levels(columns), levels(rows));
    if across.len() < 2 || up.len() < 2 || across.len() * up.len() < 6 {
        return None;
    }
    let point = |cell: &CellStudy| {
        let column = across.iter().position(|l| Some(l) == level(cell, columns).as_ref())?;
        let row = up.iter().position(|l| Some(l) == level(cell, rows).as_ref())?;
        Some(Point::cell(column, row, cell.figures[place].as_ref()?.median.value))
    };
    let points = study.cells.iter().filter_map(point).collect();
    let words = words::figure(study, figure);
    let title = format!("{words} over {rows} and {columns}");
    let (x, y) = (Axis::names(columns, &across), Axis::names(rows, &up));
    let mut chart = Chart::new(title, ChartKind::HeatMap, x, y)
        .series(words.clone(), points)
        .n(trials(study, place))
        .interval("Intervals stand in the table, where there are any.")
        .note("Each cell's median.");
    chart.scale = Some(Axis::new(words, unit(figure.metric)));
    Some(chart)
}

/// The levels of a narrowing design in rising order.
fn narrowed(study: &ExperimentStudy) -> Option<Chart> {
    let found = study.narrowed.as_ref().filter(|found| found.levels.len() > 1)?;
    let place = *study.ranking.figures.first()?;
    let figure = &study.figures[place];
    let own = |level: &String| {
        let has = |cell: &&CellStudy| cell.levels.iter().any(|(_, own)| own == level);
        study.cells.iter().find(has)?.figures[place].as_ref()
    };
    let points = found.levels.iter().enumerate();
    let points = points.filter_map(|(x, (level, _))| Some(point(x, own(level)?))).collect();
    let x = Axis::names(found.factor.clone(), found.levels.iter().map(|(level, _)| level));
    let title = words::figure(study, figure);
    let y = Axis::new(title.clone(), unit(figure.metric));
    Some(
        Chart::new(format!("{title} over {}", found.factor), ChartKind::Line, x, y)
            .series(title, points)
            .n(trials(study, place))
            .interval(interval(study, place))
            .note("Levels in rising order, not to scale."),
    )
}

/// Every cell with these figures, the best first.
fn table(study: &ExperimentStudy, caption: &str, places: &[usize]) -> Table {
    let mut columns = vec![Column::right("cell")];
    columns.extend(study.factors.iter().map(Column::left));
    for figure in places.iter().map(|place| &study.figures[*place]) {
        columns.push(Column::right(words::figure(study, figure)));
        if figure.is_objective {
            let interval = format!("{} of it", level(study));
            columns.extend([interval.as_str(), "change", "interval"].map(Column::right));
            columns.extend([Column::left(""), Column::right("p"), Column::right("spread")]);
        }
    }
    if study.has_capacity() {
        columns.extend(words::CAPACITY.map(Column::right));
    }
    columns.push(Column::right("trials"));
    let mut table = Table::new(caption, columns);
    table.is_sortable = true;
    for place in &study.ranking.order {
        let Some(cell) = study.cells.get(*place) else { continue };
        let remark = words_of_cells::remark(study, *place, cell);
        table.row_with_remark(row(study, cell, places), remark.trim_start_matches("<- "));
    }
    table.notes = words_of_cells::legend(study);
    if study.comparisons > 0 {
        let text = "p: of no change, by signed ranks within blocks, adjusted for all comparisons.";
        table.notes.push(text.to_owned());
    }
    table
}

fn row(study: &ExperimentStudy, cell: &CellStudy, places: &[usize]) -> Vec<Cell> {
    let mut row = vec![Cell::number((cell.cell + 1).to_string(), f64::from(cell.cell + 1))];
    for factor in &study.factors {
        let of = cell.levels.iter().find(|(name, _)| name == factor);
        row.push(of.map_or_else(
            || "".into(),
            |(_, level)| Cell { text: level.clone(), value: value_of(level) },
        ));
    }
    for place in places {
        let (figure, own) = (&study.figures[*place], &cell.figures[*place]);
        let metric = figure.metric;
        row.push(own.as_ref().map_or_else(
            || "n/a".into(),
            |own| Cell::number(words::value(metric, own.median.value), own.median.value),
        ));
        if figure.is_objective {
            row.extend(against(figure, own.as_ref()));
        }
    }
    if study.has_capacity() {
        let values = cell.capacity.map(|own| [own.usable_bytes, own.wasted_bytes]);
        let texts = words::capacity(cell.capacity.as_ref());
        row.extend(
            texts.into_iter().enumerate().map(|(place, text)| Cell {
                text,
                value: values.map(|values| values[place] as f64),
            }),
        );
    }
    let counts = cell.figures.iter().flatten().map(|own| own.median.count);
    let trials = counts.max().unwrap_or(0);
    row.push(Cell::number(trials.to_string(), trials as f64));
    row
}

/// What a level is sorted by: `512k` comes before `1m`, `900ms` before `2s`, 5 % before 20 %; none for words.
fn value_of(level: &str) -> Option<f64> {
    let size = || parse_size(level).ok().map(|bytes| bytes as f64);
    let time = || parse_duration_ns(level).ok().map(|ns| ns as f64);
    let number = || level.parse().ok().filter(|number: &f64| number.is_finite());
    number().or_else(size).or_else(time).or_else(|| parse_fraction(level).ok())
}

/// What is said of an objective beside its median.
fn against(figure: &Figure, own: Option<&CellFigure>) -> [Cell; 6] {
    let empty = || Cell::from("");
    let value = |value: f64| words::value(figure.metric, value);
    let median = own.and_then(|own| own.median.interval);
    let change = own.and_then(|own| own.change.as_ref());
    let ratio = change.map(|change| change.answer.ratio);
    let p = change.and_then(|change| change.p_adjusted);
    [
        median.map_or_else(empty, |i| Cell::number(i.range(value), i.low)),
        ratio.map_or_else(empty, |ratio| {
            Cell::number(words::change_with(ratio.value, ratio.interval), ratio.value)
        }),
        ratio
            .and_then(|ratio| ratio.interval)
            .map_or_else(empty, |i| Cell::number(words::interval(i), i.low)),
        change.map_or("", |change| words::decision(change.decision)).into(),
        p.map_or_else(empty, |p| Cell::number(p_text(p), p)),
        own.and_then(|own| own.spread)
            .map_or_else(empty, |spread| Cell::number(format_share(spread), spread)),
    ]
}

/// A probability with as many digits as say something.
pub(super) fn p_text(p: f64) -> String {
    if p < 0.001 { "< 0.001".to_owned() } else { format!("{p:.3}") }
}
