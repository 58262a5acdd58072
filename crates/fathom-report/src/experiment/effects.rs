//! What whole factors do, as a table.

use super::words;
use crate::ratio::{not_told_note, scatter, scatter_intervals};
use crate::table::{Align, Table};
use crate::text::push_wrapped_to;
use fathom_stats::equivalence::Decision;
use fathom_stats::interval::Estimate;
use fathom_study::experiment::{Effect, Effects, ExperimentStudy, Noise};

/// The effects on each figure that was ranked by; nothing where a design has none.
pub(super) fn text(study: &ExperimentStudy, width: usize) -> String {
    study.effects.iter().map(|effects| of_figure(study, effects, width)).collect()
}

fn of_figure(study: &ExperimentStudy, effects: &Effects, width: usize) -> String {
    let Some(figure) = study.figures.get(effects.figure) else { return String::new() };
    let mut out = String::from("\n");
    let (main, pairs): (Vec<&Effect>, Vec<&Effect>) =
        effects.effects.iter().partition(|effect| effect.of.len() == 1);
    let title = format!("Effects on {}", words::figure(study, figure));
    if !main.is_empty() {
        let columns = [(title.as_str(), Align::Left), ("against", Align::Left)];
        let numbers = ["change", "interval"].map(|name| (name, Align::Right));
        let rest = [("", Align::Left), ("noise", Align::Right)];
        let mut table = Table::new(columns.into_iter().chain(numbers).chain(rest), 2);
        let sure = |effect: &&&Effect| effect.decision != Decision::Inconclusive;
        // Of interactions only those that are sure: there are many, and most are nothing.
        for effect in main.iter().chain(pairs.iter().filter(|effect| sure(effect))) {
            table.row(row(effects, effect));
        }
        out += &table.render_to(0, width);
    }
    legend(study, effects).iter().for_each(|line| push_wrapped_to(&mut out, width, "", line));
    out
}

/// What the effects on a figure rest on, and what their words mean, one line each.
#[must_use]
pub fn legend(study: &ExperimentStudy, effects: &Effects) -> Vec<String> {
    let Some(figure) = study.figures.get(effects.figure) else { return Vec::new() };
    let is_pair = |effect: &&Effect| effect.of.len() > 1;
    let pairs = || effects.effects.iter().filter(is_pair);
    let found =
        pairs().filter(|effect| matches!(effect.decision, Decision::Faster | Decision::Slower));
    let (found, asked) = (found.count(), pairs().count());
    let mut lines = Vec::new();
    if asked > 0 {
        lines.push(format!(
            "{} of two factors, {found} of them sure; an interaction says by what the first one's ratio changes with the \
             second.",
            words::count(asked, "interaction", "interactions")
        ));
    }
    let left_out = match effects.blocks_left_out {
        0 => String::new(),
        n => format!(", {n} left out because a trial is missing"),
    };
    if effects.effects.len() > asked {
        lines.push(format!(
            "Over {}{left_out}; p adjusted for {}.",
            words::count(effects.blocks, "complete block", "complete blocks"),
            words::count(effects.effects.len(), "effect", "effects")
        ));
    }
    let ratios = effects.effects.iter().map(|effect| effect.ratio);
    lines.extend(not_told_note(ratios).map(str::to_owned));
    if !effects.noise.is_empty() {
        let all: Vec<Estimate> = effects.noise.iter().map(|noise| noise.deviation).collect();
        lines.push(format!(
            "noise: standard deviation of a single trial at that level ({}).",
            scatter_intervals(&all)
        ));
    }
    if let Some(remark) = &effects.remark {
        lines.push(format!("Effects on {}: {remark}.", words::figure(study, figure)));
    }
    lines
}

/// Factors and levels of one side of an effect.
#[must_use]
pub fn name(of: &[(String, String)]) -> String {
    let words: Vec<String> = of.iter().map(|(f, l)| format!("{f}={l}")).collect();
    words.join(" x ")
}

/// What is concluded of an effect, in a word.
#[must_use]
pub fn word(effect: &Effect) -> &'static str {
    match effect.ranks_disagree {
        true => "ranks disagree",
        false => words::decision(effect.decision),
    }
}

/// The noise at the level of a main effect, where the design tells it.
#[must_use]
pub fn noise<'e>(effects: &'e Effects, effect: &Effect) -> Option<&'e Noise> {
    match effect.of.as_slice() {
        [(factor, level)] => {
            effects.noise.iter().find(|n| n.factor == *factor && n.level == *level)
        }
        _ => None,
    }
}

fn row(effects: &Effects, effect: &Effect) -> Vec<String> {
    vec![
        name(&effect.of),
        name(&effect.against),
        words::change_with(effect.ratio.value, effect.ratio.interval),
        effect.ratio.interval.map_or_else(String::new, words::interval),
        word(effect).to_owned(),
        noise(effects, effect).map_or_else(String::new, |noise| scatter(&noise.deviation)),
    ]
}
