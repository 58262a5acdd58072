//! An experiment as text: what it would do, and what it says. The answer comes first, in one sentence.

pub mod cells;
pub mod effects;
pub mod outline;
pub mod words;

use crate::answer::how_sure;
use crate::findings::findings_text;
use crate::ratio::{scatter, scatter_intervals};
use crate::text::push_wrapped_to;
use fathom_model::plan::FactorKind;
use fathom_stats::equivalence::Decision;
use fathom_study::experiment::{
    BlockNoise, Bound, CellFigure, Choice, ExperimentStudy, Figure, HypothesisStudy, Kept,
    MachineValue, Narrowed, Outcome,
};

/// How to have what the best cell had: for one choice, what sets it at once and what makes it last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HowTo {
    /// Commands that set it until the next boot.
    pub now: Vec<String>,
    /// What makes it survive a boot: lines for a file, with the file's name before them.
    pub persist: Vec<String>,
}

/// What an experiment says, in lines of `width` columns.
#[must_use]
pub fn text(study: &ExperimentStudy, width: usize) -> String {
    text_with(study, &[], width)
}

/// The same with the commands for each of [`ExperimentStudy::choices`], in their order.
#[must_use]
pub fn text_with(study: &ExperimentStudy, how: &[HowTo], width: usize) -> String {
    let mut out = String::new();
    let push = |out: &mut String, text: &str| push_wrapped_to(out, width, "", text);
    push(&mut out, &format!("{}: {}", study.name, study.question));
    out.push('\n');
    push(&mut out, &answer(study));
    let lines = beside(study).into_iter().chain(rivals(study));
    for line in lines.chain(not_measured(study)).chain(of_machine(study)) {
        push(&mut out, &line);
    }
    // What is not shown to be better than what is there is no advice.
    if study.is_advice() {
        out += &choices(study, how, width);
    }
    if let Some(found) = &study.hypothesis {
        push(&mut out, &expectation(study, found));
    }
    if let Some(found) = &study.narrowed {
        push(&mut out, &narrowed(study, found));
    }
    out.push('\n');
    out += &cells::text(study, width);
    out += &effects::text(study, width);
    out += &course(study, width);
    out.push('\n');
    out + &findings_text(&study.findings, study.verdict, width)
}

/// The figure that decides first.
fn first(study: &ExperimentStudy) -> Option<(usize, &Figure)> {
    let place = *study.ranking.figures.first()?;
    Some((place, study.figures.get(place)?))
}

/// The answer in one sentence.
#[must_use]
pub fn answer(study: &ExperimentStudy) -> String {
    let text = sentence(study);
    match unsure_bound(study) {
        Some(words) => format!("{}, {words}.", text.trim_end_matches('.')),
        None => text,
    }
}

/// The first bound of which it is not sure that the best cell keeps it.
fn unsure_bound(study: &ExperimentStudy) -> Option<String> {
    let winner = study.ranking.winner?;
    first(study)?;
    let is_unsure =
        |bound: &&Bound| matches!(bound.kept.get(winner), Some(Kept::Unsure | Kept::Unlikely));
    let bound = study.ranking.bounds.iter().find(is_unsure)?;
    let figure = study.figures.get(bound.figure)?;
    let own = study.cells[winner].figures[bound.figure].as_ref()?;
    let value = |value: f64| words::value(figure.metric, value);
    Some(format!(
        "with {} {}, of which it is not sure that it keeps the bound of {}",
        words::figure(study, figure),
        value(own.median.value),
        value(bound.value)
    ))
}

/// Which cells keep the bounds, where the plan asks for nothing else.
fn who_keeps(study: &ExperimentStudy) -> String {
    let bounds = &study.ranking.bounds;
    let named = |is_meant: &dyn Fn(usize) -> bool| {
        let own = (0..study.cells.len()).filter(|at| is_meant(*at));
        own.map(|at| words::levels(&study.cells[at].levels)).collect::<Vec<_>>().join(", ")
    };
    let is_kept = |at: usize| bounds.iter().all(|bound| bound.kept.get(at) == Some(&Kept::Kept));
    let is_broken =
        |at: usize| bounds.iter().any(|bound| bound.kept.get(at) == Some(&Kept::Broken));
    let parts = [
        ("kept by ", named(&is_kept)),
        ("perhaps kept by ", named(&|at| !is_kept(at) && !is_broken(at))),
        ("broken by ", named(&is_broken)),
    ];
    let said = parts.iter().filter(|(_, cells)| !cells.is_empty());
    let said: Vec<String> = said.map(|(how, cells)| format!("{how}{cells}")).collect();
    let blocks = words::count(study.blocks_done as usize, "block", "blocks");
    format!("The bounds are {}, after {blocks}; nothing ranks the cells besides.", said.join("; "))
}

fn sentence(study: &ExperimentStudy) -> String {
    let blocks = words::count(study.blocks_done as usize, "block", "blocks");
    let (Some((place, figure)), Some(winner)) = (first(study), study.ranking.winner) else {
        return no_answer(study);
    };
    let name = |at: usize| words::levels(&study.cells[at].levels);
    let own = study.cells[winner].figures[place].as_ref();
    let value = own.map_or_else(String::new, |own| words::value(figure.metric, own.median.value));
    let known = own.map_or_else(String::new, |own| median_words(figure, own));
    let named = words::figure(study, figure);
    if study.cells.len() == 1 {
        return format!("{named} {known}, {blocks}; there is nothing to compare it with.");
    }
    if let Some(text) = undecided(study, winner, &format!("{named} {known}"), place) {
        return text;
    }
    let keeps_baseline = study.ranking.leaders.contains(&study.baseline);
    let change = own.and_then(|own| own.change.as_ref());
    match change {
        None => {
            format!(
                "{}: nothing {}is better than the baseline ({}) with {named} {known}, {blocks}.",
                keep_words(study),
                if study.unmeasured().is_empty() { "" } else { "that was measured " },
                name(winner)
            )
        }
        Some(change) => {
            let size = words::sure_change(change.answer.ratio);
            let against = format!("{named} {value}, {size} against the baseline, {blocks}");
            match change.decision {
                Decision::Faster if !keeps_baseline => {
                    format!("Best: {}: {against}.", name(winner))
                }
                // A later objective may tell them apart.
                Decision::Equivalent if keeps_baseline && study.ranking.figures.len() == 1 => {
                    format!(
                        "{}: the best in these trials, {}, is not better by a size that matters: {against}.",
                        keep_words(study),
                        name(winner)
                    )
                }
                _ if keeps_baseline => format!(
                    "Best in these trials: {}: {against}; but among all {} cells at once the baseline cannot be told apart from it.",
                    name(winner),
                    study.cells.len()
                ),
                _ => format!("Best: {}: {against}.", name(winner)),
            }
        }
    }
}

/// Why there is no answer yet: what was not compared, or shows no difference. `known` is the first figure of the best cell in words.
fn undecided(study: &ExperimentStudy, winner: usize, known: &str, place: usize) -> Option<String> {
    let blocks = words::count(study.blocks_done as usize, "block", "blocks");
    let name = |at: usize| words::levels(&study.cells[at].levels);
    let measured: Vec<usize> = (0..study.cells.len()).filter(|at| study.is_measured(*at)).collect();
    if !study.is_measured(study.baseline) {
        return Some(format!(
            "No answer yet: the baseline ({}) was not measured in any trial that counts. Of what was, {} is best, with {known}, {blocks}.",
            name(study.baseline),
            name(winner)
        ));
    }
    if measured.len() == 1 {
        return Some(format!(
            "No answer yet: nothing but the baseline ({}) was measured, with {known}, {blocks}.",
            name(study.baseline)
        ));
    }
    if winner != study.baseline && !study.is_winner_compared() {
        return Some(format!(
            "No answer yet: {} was measured, with {known}, but in no block together with the baseline ({}), {blocks}.",
            name(winner),
            name(study.baseline)
        ));
    }
    if measured.iter().all(|at| study.ranking.leaders.contains(at)) && !is_decided(study, place) {
        return Some(format!(
            "No difference is shown between the {} cells{} after {blocks}: the best in these trials is {} with {known}.",
            measured.len(),
            if measured.len() < study.cells.len() { " that were measured" } else { "" },
            name(winner)
        ));
    }
    None
}

/// Why there is no best cell.
fn no_answer(study: &ExperimentStudy) -> String {
    if first(study).is_none() && study.ranking.winner.is_some() && !study.ranking.bounds.is_empty()
    {
        return who_keeps(study);
    }
    match study.all_break_bounds() {
        true => "No cell keeps the bounds: see the table.".to_owned(),
        false => "No answer: see the findings below.".to_owned(),
    }
}

/// What to do where nothing is better than the baseline: that is how the machine is only where it is known to be.
fn keep_words(study: &ExperimentStudy) -> &'static str {
    match &study.machine {
        Some(own) if own.is_empty() => "Leave it as it is",
        Some(_) => "Keep the plan's baseline, which is not what this machine has",
        None => "Keep the plan's baseline",
    }
}

/// Cells that nothing is known of.
#[must_use]
pub fn not_measured(study: &ExperimentStudy) -> Option<String> {
    let possible = study.cells.iter().filter(|cell| cell.impossible.is_none()).count();
    let open = study.unmeasured().len();
    (0 < open && open < possible).then(|| {
        let were = if open == 1 { "was" } else { "were" };
        format!("{open} of {possible} cells {were} not measured in any trial that counts, or without the figure that decides first.")
    })
}

/// What this machine has of its own where the baseline sets something else.
#[must_use]
pub fn of_machine(study: &ExperimentStudy) -> Option<String> {
    let own = study.machine.as_ref().filter(|own| !own.is_empty())?;
    let one = |own: &MachineValue| {
        let measured = if own.is_level { "measured as a level" } else { "not measured" };
        format!(
            "{}={} instead of the baseline's {} ({measured})",
            own.factor, own.value, own.baseline
        )
    };
    let all: Vec<String> = own.iter().map(one).collect();
    Some(format!("This machine itself has {}.", all.join("; ")))
}

/// Some comparison of the figure is decided.
fn is_decided(study: &ExperimentStudy, place: usize) -> bool {
    let changes = study.cells.iter().filter_map(|c| c.figures[place].as_ref()?.change.as_ref());
    changes.into_iter().any(|change| change.decision != Decision::Inconclusive)
}

/// A median over trials with how well it is known: `5.0 ms (97 %: 4.8 to 5.3 ms, 6 trials)`.
fn median_words(figure: &Figure, own: &CellFigure) -> String {
    let text = |value: f64| words::value(figure.metric, value);
    format!("{} ({})", text(own.median.value), how_sure(&own.median, "trial", text))
}

/// The other figures of the best cell, against the baseline where it is another: a rate says little without its latency.
#[must_use]
pub fn beside(study: &ExperimentStudy) -> Option<String> {
    let (place, _) = first(study)?;
    let winner = study.ranking.winner?;
    let one = |other: usize| {
        let figure = &study.figures[other];
        let own = study.cells.get(winner)?.figures[other].as_ref()?;
        let said = match &own.change {
            Some(change) => {
                let value = words::value(figure.metric, own.median.value);
                format!("{value}, {}", words::sure_change(change.answer.ratio))
            }
            None => median_words(figure, own),
        };
        Some(format!("{} {said}", words::figure(study, figure)))
    };
    let others = (0..study.figures.len()).filter(|other| *other != place);
    let said: Vec<String> = others.filter_map(one).collect();
    let own = &study.cells[winner].figures;
    let mut rest = own.iter().enumerate().filter(|(at, _)| *at != place);
    let is_compared = rest.any(|(_, own)| own.as_ref().is_some_and(|own| own.change.is_some()));
    let with = if is_compared { "With it, against the baseline" } else { "With it" };
    (!said.is_empty()).then(|| format!("{with}: {}.", said.join("; ")))
}

/// Cells that cannot be told apart from the best.
#[must_use]
pub fn rivals(study: &ExperimentStudy) -> Option<String> {
    const NAMED_MAX: usize = 4;
    let ranking = &study.ranking;
    let rivals: Vec<usize> =
        ranking.order.iter().copied().filter(|at| ranking.leaders.contains(at)).skip(1).collect();
    // All of them: the answer says so.
    let measured = (0..study.cells.len()).filter(|at| study.is_measured(*at)).count();
    let all = rivals.len() + 1 == measured;
    match rivals.len() {
        0 => None,
        _ if all && !is_decided(study, first(study)?.0) => None,
        n if all && n > 1 && measured == study.cells.len() => {
            Some("No cell can be told apart from it.".to_owned())
        }
        n => {
            let named =
                rivals.iter().take(NAMED_MAX).map(|at| words::levels(&study.cells[*at].levels));
            let named: Vec<String> = named.collect();
            let more =
                if n > NAMED_MAX { format!("; and {} more", n - NAMED_MAX) } else { String::new() };
            Some(format!("Cannot be told apart from it: {}{more}.", named.join("; ")))
        }
    }
}

fn choices(study: &ExperimentStudy, how: &[HowTo], width: usize) -> String {
    let mut out = String::new();
    for (place, choice) in study.choices.iter().enumerate() {
        push_wrapped_to(&mut out, width, "  ", &choice_text(choice));
        let Some(how) = how.get(place) else { continue };
        // Commands are to be copied: never broken into lines.
        for line in &how.now {
            out += &format!("      {line}\n");
        }
        for (number, line) in how.persist.iter().enumerate() {
            let lead = if number == 0 { "to make it last: " } else { "    " };
            out += &format!("      {lead}{line}\n");
        }
    }
    out
}

/// What is to be set, in words.
#[must_use]
pub fn choice_text(choice: &Choice) -> String {
    let Choice { factor, level, baseline, .. } = choice;
    let instead = match &choice.found {
        None => format!("{level} instead of {baseline}"),
        Some(found) if found == level => {
            format!("{level} instead of the baseline's {baseline}; this machine has it already")
        }
        Some(found) => {
            format!("{level} instead of the baseline's {baseline}; this machine has {found}")
        }
    };
    match &choice.sets {
        FactorKind::Knob { id } => {
            let places: Vec<String> = choice.settings.iter().map(|s| s.place.name()).collect();
            let of = if places.is_empty() {
                String::new()
            } else {
                format!(" of {}", places.join(", "))
            };
            format!("set {id}{of} to {instead}")
        }
        FactorKind::Workload { key, .. } => format!("the load itself: {key}={instead}"),
        FactorKind::Setup { key } => format!("build it with {key} {instead}"),
        FactorKind::Boot { parameter } => format!("boot with {parameter} {instead}"),
        FactorKind::Companion => format!("beside it runs {instead}"),
        FactorKind::Null => format!("{factor} sets nothing"),
    }
}

/// The expectation and how it ended.
#[must_use]
pub fn expectation(study: &ExperimentStudy, found: &HypothesisStudy) -> String {
    let word = match found.outcome {
        Outcome::Confirmed => "CONFIRMED",
        Outcome::Refuted => "REFUTED",
        Outcome::Inconclusive => "INCONCLUSIVE",
    };
    let figure = study.figures.get(found.figure);
    let (of, limit) = figure.map_or((String::new(), "at least"), |figure| {
        let limit = if figure.is_more_better() { "at least" } else { "at most" };
        (words::figure(study, figure), limit)
    });
    let expected = match found.expected {
        e if (e - 1.0).abs() < 1e-12 => "any size was expected".to_owned(),
        e => format!("{limit} {} was expected", words::change(e)),
    };
    let seen = found.ratio.map_or_else(
        || "nothing to judge it by".to_owned(),
        |ratio| format!("{of} {}", words::sure_change(ratio)),
    );
    let why = found.why.as_ref().map_or_else(String::new, |why| format!("; {why}"));
    format!("Expected: {}. {word}: {seen}; {expected}{why}.", found.text.trim_end_matches('.'))
}

/// Where the best value of a narrowing design lies.
#[must_use]
pub fn narrowed(study: &ExperimentStudy, found: &Narrowed) -> String {
    let mut text = format!("{} is best at {}", found.factor, found.best);
    let worse = |level: &String, verb: &str| match found.out.contains(level) {
        true => format!("{level}, which {verb} out by a bound"),
        false => format!("{level}, which {verb} worse"),
    };
    text += &match (&found.worse_below, &found.worse_above) {
        (Some(below), Some(above)) if found.out.contains(below) == found.out.contains(above) => {
            format!(", between {below} and {}", worse(above, "are"))
        }
        (Some(below), Some(above)) => {
            format!(", between {}, and {}", worse(below, "is"), worse(above, "is"))
        }
        (Some(below), None) => format!(", above {}; no end upward was found", worse(below, "is")),
        (None, Some(above)) => {
            format!(", below {}; no end downward was found", worse(above, "is"))
        }
        (None, None) => "; none of the others is shown to be worse".to_owned(),
    };
    if found.is_at_end {
        text += "; that is the end of what was measured, the optimum may lie beyond";
    }
    if !found.same.is_empty() {
        let same = found.same.join(", ");
        text += &format!(
            "; {same} do not differ by {}, so that nothing between them was measured",
            words::percent(study.margin)
        );
    }
    if let Some((_, figure)) = first(study) {
        let points = found.levels.iter();
        let points = points
            .map(|(level, value)| format!("{level}: {}", words::value(figure.metric, *value)));
        text += &format!(". {}", points.collect::<Vec<_>>().join(", "));
    }
    text + "."
}

/// How the experiment went, one line each: blocks, trials, the sentinel.
#[must_use]
pub fn course_lines(study: &ExperimentStudy) -> Vec<String> {
    let good = study.trials - study.void.len();
    let void = match study.void.len() {
        0 => String::new(),
        n => format!(", {n} of them void"),
    };
    let for_each = if study.narrowed.is_some() {
        " for the given levels, and again for each further one"
    } else {
        ""
    };
    let mut lines = vec![format!(
        "{} of at most {}{for_each}, {}{void}.",
        words::count(study.blocks_done as usize, "block", "blocks"),
        study.blocks_max,
        words::count(study.trials, "trial", "trials"),
    )];
    if let Some(noise) = &study.noise {
        let BlockNoise { figure, blocks, cells, between_blocks, within_blocks } = *noise;
        let line = format!(
            "{} scattered by {} from block to block, which comparing within blocks takes out, and by {} within a block ({blocks} \
             blocks of {cells} cells, {}).",
            words::figure(study, &study.figures[figure]),
            scatter(&between_blocks),
            scatter(&within_blocks),
            scatter_intervals(&[within_blocks, between_blocks])
        );
        lines.push(line);
    }
    if let Some(drift) = study.drift.as_ref().filter(|drift| !drift.is_found() && good > 0) {
        let who = if drift.is_sentinel { "The sentinel" } else { "The baseline" };
        let far = words::percent(drift.farthest);
        lines.push(format!(
            "{who}, measured {} times, showed no drift: no trend over time (single values up to {far} from their median).",
            drift.repetitions
        ));
    }
    lines
}

/// The same with the void trials.
fn course(study: &ExperimentStudy, width: usize) -> String {
    const VOID_MAX: usize = 12;
    let mut out = String::from("\n");
    course_lines(study).iter().for_each(|line| push_wrapped_to(&mut out, width, "", line));
    for void in study.void.iter().take(VOID_MAX) {
        let text = format!(
            "void: block {}, {}, {}: {}",
            void.slot.block + 1,
            void.cell,
            void.workload,
            void.cause
        );
        push_wrapped_to(&mut out, width, "  ", &text);
    }
    if study.void.len() > VOID_MAX {
        out += &format!("  and {} more void trials\n", study.void.len() - VOID_MAX);
    }
    out
}

#[cfg(test)]
mod tests;
