//! The table of an experiment's cells, best first, with what its words mean.

use super::words;
use crate::ratio::not_told_note;
use crate::table::{Align, Table};
use crate::text::{format_share, push_wrapped_to};
use fathom_model::plan::Metric;
use fathom_stats::equivalence::Decision;
use fathom_study::experiment::{Adjustment, Bound, CellStudy, Change, ExperimentStudy, Kept};

/// One row for each cell, and the explanation below.
pub(super) fn text(study: &ExperimentStudy, width: usize) -> String {
    let mut out = table(study).render_to(0, width);
    legend(study).iter().for_each(|line| push_wrapped_to(&mut out, width, "", line));
    out
}

fn table(study: &ExperimentStudy) -> Table {
    let names: Vec<String> = study.figures.iter().map(|f| words::figure(study, f)).collect();
    let mut columns: Vec<(&str, Align)> =
        study.factors.iter().map(|factor| (factor.as_str(), Align::Left)).collect();
    if columns.is_empty() {
        columns.push(("", Align::Left));
    } else if is_numbered(study) {
        columns.insert(0, ("", Align::Right));
    }
    for (figure, name) in study.figures.iter().zip(&names) {
        columns.push((name, Align::Right));
        if figure.is_objective {
            let more = [("change", Align::Right), ("interval", Align::Right)];
            columns.extend(more.into_iter().chain([("", Align::Left), ("spread", Align::Right)]));
        }
    }
    if study.has_capacity() {
        columns.extend(words::CAPACITY.map(|title| (title, Align::Right)));
    }
    columns.push(("trials", Align::Right));
    let mut table = Table::new(columns, 2);
    for place in &study.ranking.order {
        let Some(cell) = study.cells.get(*place) else { continue };
        table.row_with_remark(row(study, cell), &remark(study, *place, cell));
    }
    table
}

/// Where one level does not name a cell: its number does, also in what of a wide table stands below. As in the dry run, from 1.
fn is_numbered(study: &ExperimentStudy) -> bool {
    study.factors.len() > 1
}

fn row(study: &ExperimentStudy, cell: &CellStudy) -> Vec<String> {
    let level = |factor: &String| {
        let of = cell.levels.iter().find(|(name, _)| name == factor);
        of.map_or_else(String::new, |(_, level)| level.clone())
    };
    let mut row: Vec<String> = study.factors.iter().map(level).collect();
    if row.is_empty() {
        row.push("measured".to_owned());
    } else if is_numbered(study) {
        row.insert(0, (cell.cell + 1).to_string());
    }
    for (figure, own) in study.figures.iter().zip(&cell.figures) {
        let nothing = || "n/a".to_owned();
        row.push(
            own.as_ref().map_or_else(nothing, |own| words::value(figure.metric, own.median.value)),
        );
        if !figure.is_objective {
            continue;
        }
        let change = own.as_ref().and_then(|own| own.change.as_ref());
        row.push(change.map_or_else(String::new, |c| {
            words::change_with(c.answer.ratio.value, c.answer.ratio.interval)
        }));
        let interval = change.and_then(|c| c.answer.ratio.interval);
        row.push(interval.map_or_else(String::new, words::interval));
        row.push(change.map_or("", |c| words::decision(c.decision)).to_owned());
        let spread = own.as_ref().and_then(|own| own.spread);
        row.push(spread.map_or_else(String::new, format_share));
    }
    if study.has_capacity() {
        row.extend(words::capacity(cell.capacity.as_ref()));
    }
    let counts = cell.figures.iter().flatten().map(|own| own.median.count);
    row.push(counts.max().unwrap_or(0).to_string());
    row
}

/// How a cell stands to the best and to the bounds; empty when there is nothing to remark.
#[must_use]
pub fn remark(study: &ExperimentStudy, place: usize, cell: &CellStudy) -> String {
    let ranking = &study.ranking;
    let stands = |bound: &Bound, kept: Kept| {
        let is_measured = cell.figures.get(bound.figure).is_some_and(Option::is_some);
        is_measured && bound.kept.get(place) == Some(&kept)
    };
    let is_any = |kept: Kept| ranking.bounds.iter().any(|bound| stands(bound, kept));
    let mut words: Vec<&str> = Vec::new();
    if ranking.winner == Some(place) && study.cells.len() > 1 {
        words.push("<- best");
    } else if ranking.leaders.contains(&place) && ranking.leaders.len() > 1 {
        words.push("<- not told apart");
    }
    if cell.is_baseline {
        words.push("(baseline)");
    }
    if let Some(why) = &cell.impossible {
        return format!("n/a: {why}");
    }
    if is_any(Kept::Broken) {
        words.push("breaks a bound");
    } else if is_any(Kept::Unlikely) {
        words.push("perhaps breaks a bound");
    } else if is_any(Kept::Unsure) {
        words.push("bound not sure");
    }
    words.join(" ")
}

/// The comparisons that the objectives are judged by.
fn changes(study: &ExperimentStudy) -> impl Iterator<Item = &Change> {
    let own = study.cells.iter().flat_map(|cell| cell.figures.iter().flatten());
    own.filter_map(|own| own.change.as_ref()).filter(|change| change.p_adjusted.is_some())
}

/// What stands for values that are missing or made of several.
fn gaps(study: &ExperimentStudy) -> Vec<&'static str> {
    let mut lines = Vec::new();
    let has_gap = |cell: &CellStudy| {
        cell.figures.iter().any(Option::is_none) && cell.figures.iter().any(Option::is_some)
    };
    if study.cells.iter().any(has_gap) {
        lines.push("n/a: no request ended in the window, or too few for that percentile.");
    }
    if study.cells.iter().any(|cell| may_be_starved(study, cell)) {
        lines.push(
            "The rate of a job that got no request through is that of one in its window: it had less.",
        );
    }
    if !study.is_together && study.figures.iter().any(|figure| figure.workload.is_none()) {
        lines.push("mean: the geometric mean of the workloads, which ran one after the other.");
    }
    lines
}

/// A rate of a cell with nothing known of how long its requests took.
fn may_be_starved(study: &ExperimentStudy, cell: &CellStudy) -> bool {
    let all = || study.figures.iter().zip(&cell.figures);
    let is_latency = |metric: Metric| {
        matches!(metric, Metric::LatencyMean | Metric::LatencyP99 | Metric::CpuPerIo)
    };
    let has_gap = |workload: &Option<String>| {
        let mut own = all().filter(|(figure, _)| figure.workload == *workload);
        own.any(|(figure, own)| is_latency(figure.metric) && own.is_none())
    };
    all().any(|(figure, own)| {
        matches!(figure.metric, Metric::Iops | Metric::Rate)
            && own.is_some()
            && has_gap(&figure.workload)
    })
}

/// What the table's words mean, as far as they occur, one line each.
#[must_use]
pub fn legend(study: &ExperimentStudy) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut push = |text: &str| lines.push(text.to_owned());
    let trials =
        study.cells.iter().flat_map(|c| c.figures.iter().flatten()).map(|f| f.median.count);
    if trials.max().unwrap_or(0) == 0 {
        return lines;
    }
    let base = study.cells.get(study.baseline);
    if study.comparisons > 0 {
        let base = base.map_or_else(String::new, |cell| words::levels(&cell.levels));
        let level = words::percent(study.level);
        let has_interval = changes(study).any(|change| change.answer.ratio.interval.is_some());
        let interval = match has_interval {
            true => format!("interval of {level} by ranks"),
            false => format!("no interval: so few blocks give none of {level}"),
        };
        push(&format!(
            "Medians over trials. change: against the baseline ({base}) within blocks (Hodges-Lehmann), {interval}; spread: \
             standard deviation over trials."
        ));
        let margin = words::percent(study.margin);
        push(&format!(
            "better, worse: the interval leaves out no change; same: no difference of {margin} or more; open: not decided."
        ));
        let how = match study.adjustment {
            Adjustment::Holm => {
                "adjusted by Holm: with 95 % none of the differences found is false"
            }
            Adjustment::BenjaminiHochberg => {
                "adjusted by Benjamini-Hochberg: at most 5 % of the differences found are false"
            }
            Adjustment::None => "not adjusted",
        };
        let number = words::count(study.comparisons, "comparison", "comparisons");
        push(&format!("{number}, {how}."));
    } else {
        push("Medians over trials; spread: standard deviation over trials.");
    }
    if study.has_capacity() {
        push(words::CAPACITY_LEGEND);
    }
    let all = study.cells.iter().flat_map(|cell| cell.figures.iter().flatten());
    let ratios = all.filter_map(|own| Some(own.change.as_ref()?.answer.ratio));
    not_told_note(ratios).into_iter().for_each(&mut push);
    gaps(study).into_iter().for_each(&mut push);
    if study.ranking.leaders.len() > 1 && study.cells.len() > 1 {
        push("not told apart: with 95 % the best of all is among these and the one called best.");
    }
    for bound in &study.ranking.bounds {
        let Some(figure) = study.figures.get(bound.figure) else { continue };
        let side = if figure.is_more_better() { "at least" } else { "at most" };
        let value = words::value(figure.metric, bound.value);
        push(&format!("Bound: {} {side} {value}.", words::figure(study, figure)));
    }
    let is_open = |change: &Change| {
        change.decision == Decision::Inconclusive
            && change.answer.decision != Decision::Inconclusive
    };
    if changes(study).any(is_open) {
        push(
            "Where an interval leaves out no change and it still says open, the adjustment took it back.",
        );
    }
    lines
}
