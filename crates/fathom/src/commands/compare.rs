//! `fathom compare`.

use super::history::some_of;
use super::list::{open, state_of};
use super::{CommandError, CommandResult, capture, watch};
use crate::args::{Common, Compare, FailOn};
use crate::exit::Exit;
use crate::output::Output;
use fathom_base::units::parse_fraction;
use fathom_model::finding::Severity;
use fathom_model::plan::{Metric, Objective, Plan, PlanWorkload};
use fathom_model::record::RunKind;
use fathom_report::comparison::{comparison_text, differences_text};
use fathom_stats::equivalence::Better;
use fathom_store::{Filter, RunState, Store, StoreError};
use fathom_study::compare::differences::observed;
use fathom_study::compare::{Options, Regression, Run, Side, Told, compare};
use fathom_study::experiment::keep_pairs;
use fathom_study::{against, rounds};
use std::collections::BTreeSet;
use std::path::Path;

/// Compares two sides and says whether the difference is real.
pub fn run(common: &Common, output: Output, args: &Compare) -> CommandResult {
    let usage = |text: String| CommandError::usage(output, &text);
    let share = |option: &str, text: &str| {
        let value = parse_fraction(text).map_err(|e| usage(format!("{option}{text}: {e}")))?;
        Ok::<f64, CommandError>(value)
    };
    let margin_percent = 100.0 * share("--margin=", args.margin.as_deref().unwrap_or("3%"))?;
    let level_text = args.level.as_deref().unwrap_or("95%");
    let level = share("--level=", level_text)?;
    if !(0.5..1.0).contains(&level) {
        return Err(usage(format!("--level={level_text}: from 50% to below 100%")));
    }
    let limit_percent = match args.fail_if.as_deref().map(|text| (text, text.split_once(':'))) {
        None => None,
        Some((_, Some(("slower", percent)))) => Some(100.0 * share("--fail-if=slower:", percent)?),
        Some((text, _)) => {
            return Err(usage(format!(
                "--fail-if={text}: write slower:PERCENT, such as slower:5%"
            )));
        }
    };
    let mut told = Told::new();
    let mut sided = |words: &str| side(common, output, words, &mut told);
    let (mut a, mut b) = (sided(&args.a)?, sided(&args.b)?);
    keep_pairs(&mut a, &mut b);
    let only_void = args.fail_on == FailOn::Void;
    let (is_watch, is_capture) =
        (watch::stored::is_asked(&a, &b), capture::compare::is_asked(&a, &b));
    if let Some(option) = for_measurements(args).filter(|_| is_watch || is_capture) {
        return Err(usage(format!(
            "{option} is for measurements: of watches, captures and replays nothing is called better or worse"
        )));
    }
    if is_watch {
        return watch::stored::compare(output, &a, &b, only_void);
    }
    if is_capture {
        return capture::compare::compare(output, &a, &b, only_void);
    }
    // Rows of one run may be compared with each other, a run with itself not: that would prove nothing.
    let same = |run: &&Run| {
        let mut others = b.runs.iter().filter(|other| other.head.id == run.head.id);
        others.any(|other| other.records == run.records)
    };
    if let Some(run) = a.runs.iter().find(same) {
        return Err(usage(format!("run {} is on both sides; name different runs", run.head.id)));
    }
    let factor = args.factor.clone();
    let options = Options { margin_percent, level, looks: args.looks, limit_percent, factor, told };
    let found = compare(&a, &b, &options);
    let worse = found.slower_by(limit_percent);
    let exit = match worse.is_empty() {
        true => Exit::of_verdict(found.verdict, only_void),
        false => Exit::Doubtful,
    };
    let mut text = comparison_text(&found, output.width());
    if !worse.is_empty() {
        let rows: Vec<String> = worse.iter().map(named).collect();
        text += &format!("REGRESSION: B is worse in: {}\n", rows.join("; "));
    }
    output.text(&text)?;
    let fields = serde_json::json!({
        "comparison": found,
        "regressions": worse.iter().map(|worse| &worse.row.name).collect::<Vec<_>>(),
        "exit_code": exit.code(),
    });
    output.json("result", &fields)?;
    Ok(exit)
}

/// The first option given that only the comparison of measurements has a use for.
fn for_measurements(args: &Compare) -> Option<&'static str> {
    let given = [
        ("--fail-if", args.fail_if.is_some()),
        ("--factor", args.factor.is_some()),
        ("--margin", args.margin.is_some()),
        ("--level", args.level.is_some()),
        ("--looks", args.looks),
    ];
    given.into_iter().find_map(|(option, is_given)| is_given.then_some(option))
}

/// What else is to be said of two runs that are set beside each other.
pub(super) struct Beside {
    /// What differed between them, and what speaks against them, as text.
    pub text: String,
    /// What differed, as data.
    pub differences: serde_json::Value,
    /// What speaks against either, as data.
    pub doubts: serde_json::Value,
    /// How the command ends: as the worse of the two is judged.
    pub exit: Exit,
}

/// Two watches, captures or replays; with `only_void` a void one alone makes it end with 1.
pub(super) fn beside(output: Output, sides: [(&str, &Run); 2], only_void: bool) -> Beside {
    let differences = observed(sides[0].1, sides[1].1);
    let (mut text, mut doubts, mut exit) = (String::new(), Vec::new(), Exit::Done);
    // Not all that was asked for is among the facts: that nothing differed cannot be said.
    if !differences.is_empty() {
        text = format!("\n{}", differences_text(&differences, output.width()));
    }
    for (name, run) in sides {
        let study = run.judged();
        let own = Exit::of_verdict(study.verdict, only_void);
        if own.code() > exit.code() {
            exit = own;
        }
        for finding in study.findings.iter().filter(|finding| finding.severity > Severity::Note) {
            text += &format!("{name}: {}\n", finding.summary);
            doubts.push(serde_json::json!({ "run": name, "finding": finding }));
        }
    }
    let differences = serde_json::to_value(&differences).unwrap_or_default();
    Beside { text, differences, doubts: doubts.into(), exit }
}

/// `randread (IOPS, read p99)`.
fn named(worse: &Regression<'_>) -> String {
    let figures: Vec<String> = worse.figures.iter().map(|figure| figure.metric.words()).collect();
    format!("{} ({})", worse.row.name, figures.join(", "))
}

/// The runs that words name: `NAME[:ROW][@STORE]`, several names with commas between them (a row may hold commas, so that
/// with one there is one name), or the file of a store for all its runs. A name is a label, else the first characters of
/// a run.
///
/// What their plans say of the figures of commands is added to `told`.
pub(super) fn side(
    common: &Common,
    output: Output,
    words: &str,
    told: &mut Told,
) -> Result<Side, CommandError> {
    let separator = if words.contains(':') { '\0' } else { ',' };
    let mut runs: Vec<Run> = Vec::new();
    for word in words.split(separator).filter(|word| !word.is_empty()) {
        for run in of_word(common, output, word, told)? {
            // Named twice, it is still one run.
            if !runs.iter().any(|known| known.head.id == run.head.id) {
                runs.push(run);
            }
        }
    }
    if runs.is_empty() {
        return Err(CommandError::usage(output, &format!("'{words}' names no run")));
    }
    Ok(Side { name: words.to_owned(), runs })
}

fn of_word(
    common: &Common,
    output: Output,
    word: &str,
    told: &mut Told,
) -> Result<Vec<Run>, CommandError> {
    let failed = |e: StoreError| CommandError::store(output, &e);
    let (name, path) = match word.split_once('@') {
        Some((name, path)) => (name, Some(path)),
        None => (word, None),
    };
    let (name, row) = match name.split_once(':') {
        Some((name, row)) => (name, Some(row)),
        None => (name, None),
    };
    let store = match path.map(Path::new) {
        Some(path) if !path.exists() => {
            let text = format!("there is no store {}, which '{word}' names", path.display());
            return Err(CommandError::usage(output, &text));
        }
        Some(path) => Some(Store::open_read_only(path).map_err(failed)?),
        None => open(common, output)?,
    };
    let found = store.as_ref().map(|store| ids(store, Some(name).filter(|name| !name.is_empty())));
    // A file may have the name of a label; that of a store, which nobody labelled so, stands for all its runs.
    let (store, ids) = match (store, found) {
        (Some(store), Some(Ok(ids))) => (store, ids),
        (_, error) if path.is_none() && Path::new(word).is_file() => {
            drop(error);
            let store = Store::open_read_only(Path::new(word)).map_err(failed)?;
            let ids = ids(&store, None).map_err(failed)?;
            (store, ids)
        }
        (_, Some(Err(error))) => return Err(failed(error)),
        _ => return Err(CommandError::nothing_stored(output)),
    };
    let mut runs = Vec::new();
    let mut labels = BTreeSet::new();
    for id in ids {
        let stored = store.load(&id).map_err(failed)?;
        if stored.head.kind == RunKind::Experiment {
            store.plan(&id).ok().flatten().iter().for_each(|plan| add_told(plan, told));
        }
        let mut records = rounds::answering(stored.head.kind, stored.records);
        if let Some(row) = row {
            labels.extend(records.iter().map(|record| record.label.clone()));
            records.retain(|record| record.label.starts_with(row));
        }
        let unfinished = (stored.state != RunState::Complete)
            .then(|| state_of(stored.state, &stored.writer).to_owned());
        if !records.is_empty() {
            runs.extend(against::runs(Run { head: stored.head, records, unfinished }));
        }
    }
    match row {
        Some(row) if runs.is_empty() => {
            let there = some_of(&labels);
            let text = format!("'{word}': no row begins with '{row}'; there are: {there}");
            Err(CommandError::usage(output, &text))
        }
        _ => Ok(runs),
    }
}

/// In which direction the figures of a plan's commands get better, as its objectives say; what two plans say otherwise is not known.
fn add_told(plan: &Plan, told: &mut Told) {
    for objective in &plan.objectives {
        let named = objective.figure.clone();
        let Some(name) = named.or_else(|| only_figure(plan, objective)) else { continue };
        let better = if objective.is_less_better { Better::Lower } else { Better::Higher };
        match told.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) if *known != Some(better) => *known = None,
            Some(_) => {}
            None => told.push((name, Some(better))),
        }
    }
}

/// The figure of a command that has one only, which no objective need name.
fn only_figure(plan: &Plan, objective: &Objective) -> Option<String> {
    let is_meant =
        |of: &&PlanWorkload| objective.workload.as_ref().is_none_or(|label| *label == of.label);
    let of =
        plan.workloads.iter().find(is_meant).filter(|_| objective.metric == Metric::Application)?;
    let mut names = of.settings.keys().filter_map(|key| key.strip_prefix("figure."));
    // Without any it is timed.
    let name = names.next().unwrap_or("runs_per_hour");
    names.next().is_none().then(|| name.to_owned())
}

/// Finished runs with that label (the others when none is finished), else the one run that begins so; all finished runs
/// without a name.
fn ids(store: &Store, name: Option<&str>) -> Result<Vec<String>, StoreError> {
    let filter = Filter { label: name.map(str::to_owned), ..Filter::default() };
    let all = store.list(&filter)?;
    let complete = |run: &&fathom_store::RunSummary| run.state == RunState::Complete;
    let ids: Vec<String> = all.iter().filter(complete).map(|run| run.id.clone()).collect();
    match name {
        // The word for how far these have come is part of what is said about them.
        Some(_) if ids.is_empty() && !all.is_empty() => {
            Ok(all.into_iter().map(|run| run.id).collect())
        }
        Some(name) if ids.is_empty() => Ok(vec![store.resolve(name)?]),
        _ => Ok(ids),
    }
}
