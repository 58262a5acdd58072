//! What whole factors do: as bars with their intervals, and as a table.

use super::cells::p_text;
use super::{Shown, level};
use crate::page::{Axis, Cell, Chart, ChartKind, Column, Point, Section, Table, Unit};
use fathom_base::order::Order;
use fathom_report::experiment::{effects as words_of_effects, words};
use fathom_study::experiment::{Effect, Effects, ExperimentStudy};

/// More bars cannot be told apart.
const BARS_MAX: usize = 24;

pub(super) fn sections(shown: &Shown) -> Vec<Section> {
    let study = shown.study;
    study.effects.iter().filter_map(|effects| section(study, effects)).collect()
}

fn section(study: &ExperimentStudy, effects: &Effects) -> Option<Section> {
    let figure = words::figure(study, study.figures.get(effects.figure)?);
    let note = "What a factor does over all levels of the others. An interaction says by what the first factor's ratio changes \
                with the level of the second; at no change, each does the same whatever the other one is.";
    let mut section = Section::new(format!("Effects on {figure}"), note);
    let (main, pairs): (Vec<&Effect>, Vec<&Effect>) =
        effects.effects.iter().partition(|effect| effect.of.len() == 1);
    for (title, of) in [("Main effects", main), ("Interactions", pairs)] {
        if !of.is_empty() {
            section = section.block(chart(study, effects, &format!("{title} on {figure}"), of));
        }
    }
    Some(section.block(table(study, effects)))
}

/// Changes in percent, or ratios where percents mean nothing any more.
fn chart(study: &ExperimentStudy, effects: &Effects, title: &str, mut of: Vec<&Effect>) -> Chart {
    let all = of.len();
    if all > BARS_MAX {
        let size = |effect: &Effect| effect.ratio.value.ln().abs();
        of.order_by(|a, b| size(b).total_cmp(&size(a)));
        of.truncate(BARS_MAX);
    }
    let names = of.iter().map(|effect| words_of_effects::name(&effect.of));
    let point = |(x, effect): (usize, &&Effect)| {
        let change = |ratio: f64| ratio - 1.0;
        let (x, value) = (x as f64, change(effect.ratio.value));
        match effect.ratio.interval {
            Some(i) => Point::between(x, value, change(i.low), change(i.high)),
            None => Point::new(x, value),
        }
    };
    let x = Axis::names("level", names);
    let y = Axis::new("change", Unit::Share);
    let points = of.iter().enumerate().map(point).collect();
    let blocks = words::count(effects.blocks, "complete block", "complete blocks");
    let mut chart = Chart::new(title, ChartKind::Bars, x, y)
        .series("change", points)
        .n(format!("n = {blocks}"))
        .interval(format!("{} intervals over blocks.", level(study)))
        .note(
            "Against the first level of each factor. An interval that leaves out 0 % is a change.",
        );
    if all > of.len() {
        chart.reduction = format!("Drawn: the {} largest of {all}; the table has all.", of.len());
    }
    chart
}

fn table(study: &ExperimentStudy, effects: &Effects) -> Table {
    let columns = [
        Column::left("effect of"),
        Column::left("against"),
        Column::right("change"),
        Column::right(format!("{} of it", level(study))),
        Column::left(""),
        Column::right("p"),
        Column::right("noise"),
    ];
    let mut table = Table::new("", columns);
    table.is_sortable = true;
    for effect in &effects.effects {
        let noise = words_of_effects::noise(effects, effect);
        table.row([
            Cell::from(words_of_effects::name(&effect.of)),
            words_of_effects::name(&effect.against).into(),
            Cell::number(
                words::change_with(effect.ratio.value, effect.ratio.interval),
                effect.ratio.value,
            ),
            effect.ratio.interval.map_or_else(|| "".into(), |i| words::interval(i).into()),
            words_of_effects::word(effect).into(),
            Cell::number(p_text(effect.p_adjusted), effect.p_adjusted),
            noise.map_or_else(
                || "".into(),
                |noise| Cell::number(words::scatter(&noise.deviation), noise.deviation.value),
            ),
        ]);
    }
    table.notes = words_of_effects::legend(study, effects);
    table
}
