//! The page of `fathom lab`: the answer with what sets it, every cell with its intervals, what each factor does, the course in
//! the order of time, the settings as they were read back, and the plan.

mod cells;
mod course;
mod effects;
mod plan;
mod settings;

use super::{Source, counted, parts};
use crate::page::{Block, Page, Section, Unit};
use fathom_model::plan::cell::Cell;
use fathom_model::plan::{Metric, MetricUnit};
use fathom_model::record::Record;
use fathom_report::experiment as report;
use fathom_study::experiment::{self, ExperimentStudy};

/// Everything that the sections of a page look at.
struct Shown<'a> {
    source: &'a Source<'a>,
    cells: &'a [Cell],
    study: &'a ExperimentStudy,
}

/// Makes it. A run without a plan, or with one that cannot be read any more, is shown trial by trial.
pub(super) fn page(source: &Source) -> Page {
    let read = source.plan.map(|plan| (plan, fathom_plan::cells(plan)));
    let (plan, cells) = match read {
        Some((plan, Ok(cells))) => (plan, cells),
        Some((_, Err(error))) => return without_plan(source, &error.to_string()),
        None => return without_plan(source, "no plan is stored with it"),
    };
    let study = experiment::study(plan, &cells, source.records);
    let shown = Shown { source, cells: &cells, study: &study };
    let mut sections = cells::sections(&shown);
    sections.extend(effects::sections(&shown));
    sections.extend(course::sections(&shown));
    sections.extend(settings::sections(&shown));
    sections.extend(plan::section(plan, &cells));
    sections.extend(counted::over_time(source.records));
    sections.extend(layers(&shown));
    sections.push(parts::machine(source.head, source.zone));
    sections.push(parts::again(source));
    Page {
        title: format!("experiment {} on {}", source.name, source.head.target),
        question: study.question.clone(),
        answer: report::answer(&study),
        verdict: Some(source.verdict),
        first: first(&shown),
        sections,
    }
}

fn without_plan(source: &Source, why: &str) -> Page {
    let mut page = super::run::page(source);
    let text = format!("This is an experiment, but {why}: it is shown trial by trial.");
    page.first.push(Block::Text(text));
    page
}

/// The first screen: findings, what stands beside the answer, what sets it, and what was measured.
fn first(shown: &Shown) -> Vec<Block> {
    let study = shown.study;
    let mut blocks = vec![Block::Findings(shown.source.findings.to_vec())];
    let mut lines: Vec<String> = report::beside(study).into_iter().collect();
    lines.extend(report::rivals(study));
    lines.extend(report::not_measured(study));
    lines.extend(report::of_machine(study));
    lines.extend(study.hypothesis.as_ref().map(|found| report::expectation(study, found)));
    lines.extend(study.narrowed.as_ref().map(|found| report::narrowed(study, found)));
    blocks.extend(lines.into_iter().map(Block::Text));
    // What is not shown to be better than what is there is no advice.
    if study.is_advice() {
        blocks.extend(advice(shown));
    }
    blocks.extend(parts::stacks(of_winner(shown)));
    blocks
}

/// The first trial of the winner; without one the first that stands on something.
fn of_winner<'a>(shown: &Shown<'a>) -> &'a [Record] {
    let winner = shown.study.ranking.winner.and_then(|place| shown.cells.get(place));
    let is_winner = |record: &&Record| {
        let own = record.cell.as_ref();
        own.zip(winner).is_some_and(|(own, winner)| own.slot.cell == winner.index)
    };
    let stands = |record: &&Record| !record.stacks().is_empty();
    let records = shown.source.records.iter().filter(stands);
    let found = records.clone().find(is_winner).or_else(|| records.clone().next());
    found.map_or(&[], std::slice::from_ref)
}

/// What the trial of the winner stood on, every layer with its settings.
fn layers(shown: &Shown) -> Option<Section> {
    let mut section = parts::layers(of_winner(shown))?;
    section.note = match shown.study.ranking.winner {
        Some(place) => format!(
            "Each layer with its settings, as they were read before the first trial of {}.",
            short_name(shown.study, place)
        ),
        None => {
            "Each layer with its settings, as they were read before the first trial.".to_owned()
        }
    };
    section.note += " What the trials changed stands under Settings.";
    Some(section)
}

/// The commands that make what is there into the best.
fn advice(shown: &Shown) -> Vec<Block> {
    let mut blocks = Vec::new();
    for choice in &shown.study.choices {
        let words = report::choice_text(choice);
        let how = (shown.source.how_to)(&choice.settings);
        if how.now.is_empty() && how.persist.is_empty() {
            blocks.push(Block::Text(format!("To have it: {words}.")));
        }
        if !how.now.is_empty() {
            blocks.push(Block::Command { caption: words, command: how.now.join("\n") });
        }
        if !how.persist.is_empty() {
            // Lines of files and what to do with them: nothing to paste into a shell.
            blocks.push(Block::Text("To make it last:".into()));
            blocks.push(Block::Plain(how.persist.join("\n")));
        }
    }
    blocks
}

/// In which unit a chart shows a figure.
fn unit(metric: Metric) -> Unit {
    match metric.unit() {
        MetricUnit::PerSecond => Unit::PerSecond,
        MetricUnit::BytesPerSecond => Unit::BytesPerSecond,
        MetricUnit::Own | MetricUnit::Share | MetricUnit::Index => Unit::Count,
        MetricUnit::Nanoseconds => Unit::Nanoseconds,
    }
}

/// A cell in as few words as its factors allow: `none, 64`.
fn short_name(study: &ExperimentStudy, place: usize) -> String {
    let levels = study.cells.get(place).map_or(&[][..], |cell| &cell.levels);
    match levels {
        [] => "the only cell".to_owned(),
        levels => levels.iter().map(|(_, level)| level.as_str()).collect::<Vec<_>>().join(", "),
    }
}

/// What the short names are levels of.
fn names_title(study: &ExperimentStudy) -> String {
    study.factors.join(", ")
}

/// The confidence of the study's intervals: `95 %`.
fn level(study: &ExperimentStudy) -> String {
    report::words::percent(study.level)
}
