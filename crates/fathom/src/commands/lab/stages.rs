//! From one stage to the next: what a stored experiment has left of the levels of its settings, and its best cell measured again with
//! all memory.

use crate::args::Common;
use crate::commands::list::open;
use crate::commands::{CommandError, planned};
use crate::exit::Exit;
use crate::output::Output;
use fathom_base::units;
use fathom_model::plan::{DesignKind, Factor, FactorKind, Plan};
use fathom_model::record::RunKind;
use fathom_store::StoreError;
use fathom_study::experiment::{ExperimentStudy, study};
use fathom_sys::sysroot::SysRoot;
use std::collections::BTreeMap;

/// A stored experiment with what it says.
fn stored(
    common: &Common,
    output: Output,
    run: &str,
) -> Result<(Plan, ExperimentStudy), CommandError> {
    let failed = |error: StoreError| CommandError::store(output, &error);
    let store = open(common, output)?.ok_or_else(|| CommandError::nothing_stored(output))?;
    let id = store.resolve(run).map_err(failed)?;
    let stored = store.load(&id).map_err(failed)?;
    let plan = store.plan(&id).map_err(failed)?.filter(|_| stored.head.kind == RunKind::Experiment);
    let none = || CommandError::usage(output, &format!("run {run} is no experiment of fathom lab"));
    let plan = planned::with_measured_levels(plan.ok_or_else(none)?, &stored.records);
    let cells = fathom_plan::cells(&plan)
        .map_err(|error| CommandError::report_as(output, &error, Exit::Internal))?;
    let found = study(&plan, &cells, &stored.records);
    Ok((plan, found))
}

/// The level of a factor in a cell.
fn level<'s>(found: &'s ExperimentStudy, at: usize, factor: &str) -> Option<&'s String> {
    let levels = &found.cells.get(at)?.levels;
    levels.iter().find(|(name, _)| name == factor).map(|(_, level)| level)
}

/// The settings of which more than one level is left: those of the cells that cannot be told apart from the best, those of cells that nothing
/// is known of, and what there was before.
pub fn left(plan: &Plan, found: &ExperimentStudy) -> Vec<Factor> {
    let leaders = found.ranking.leaders.iter().copied();
    let cells: Vec<usize> =
        std::iter::once(found.baseline).chain(leaders).chain(found.unmeasured()).collect();
    let of = |factor: &Factor| {
        let is_left = |wanted: &&String| {
            cells.iter().any(|at| level(found, *at, &factor.name) == Some(*wanted))
        };
        let levels: Vec<String> = factor.levels.iter().filter(is_left).cloned().collect();
        (levels.len() > 1).then(|| Factor { levels, ..factor.clone() })
    };
    plan.factors.iter().filter(|factor| is_setting(factor)).filter_map(of).collect()
}

/// Why nothing follows from a run yet: its baseline has no value, or some cells were never tried; none when something does.
fn unfinished(found: &ExperimentStudy) -> Option<String> {
    let (untried, all) = (found.untried().len(), found.cells.len());
    if untried > 0 {
        return Some(format!(
            "{untried} of its {all} cells were not tried yet: the same fathom lab once more goes on with them"
        ));
    }
    (!found.is_measured(found.baseline))
        .then(|| "no trial of its baseline counts: nothing in it was compared".to_owned())
}

fn is_setting(factor: &Factor) -> bool {
    matches!(factor.sets, FactorKind::Knob { .. })
}

/// Gives a plan the settings that those runs have left, in the place of its own.
pub fn take_levels(
    common: &Common,
    output: Output,
    plan: &mut Plan,
    runs: &[String],
) -> Result<(), CommandError> {
    let usage = |text: &str| CommandError::usage(output, &format!("--levels-of: {text}"));
    let mut factors: Vec<Factor> = Vec::new();
    plan.factors.retain(|factor| !is_setting(factor));
    let kept: Vec<String> = plan.factors.iter().map(|factor| factor.name.clone()).collect();
    plan.design.except.retain(|pattern| pattern.keys().all(|name| kept.contains(name)));
    for run in runs {
        let (other, found) = stored(common, output, run)?;
        if let Some(why) = unfinished(&found) {
            return Err(usage(&format!("run {run}: {why}")));
        }
        for factor in left(&other, &found) {
            if factors.iter().any(|known| known.sets == factor.sets) {
                return Err(usage(&format!("{} varies in more than one of the runs", factor.name)));
            }
            if let FactorKind::Knob { id } = &factor.sets {
                plan.knobs.remove(id);
            }
            let before = level(&found, found.baseline, &factor.name).cloned();
            plan.design.baseline.extend(before.map(|level| (factor.name.clone(), level)));
            factors.push(factor);
        }
        let is_new = |own: &fathom_model::plan::OwnKnob| {
            plan.own_knobs.iter().all(|known| known.name != own.name)
        };
        let own: Vec<_> = other.own_knobs.into_iter().filter(is_new).collect();
        plan.own_knobs.extend(own);
    }
    if factors.is_empty() {
        return Err(usage("no setting has more than one level left: there is nothing to choose"));
    }
    plan.factors.extend(factors);
    let is_there = |name: &String| plan.factors.iter().any(|factor| factor.name == *name);
    plan.design.baseline.retain(|name, _| is_there(name));
    fathom_plan::cells(plan).map(drop).map_err(|error| usage(&error.to_string()))
}

/// The plan of a run with its best cell and its baseline alone: without a limit of memory, and with sizes that are to all memory as they
/// were to the limit.
pub fn winner(common: &Common, output: Output, run: &str) -> Result<Plan, CommandError> {
    let usage = |text: &str| CommandError::usage(output, &format!("--winner-of={run}: {text}"));
    let (mut plan, found) = stored(common, output, run)?;
    if let Some(why) = unfinished(&found) {
        return Err(usage(&why));
    }
    let winner = found.ranking.winner.filter(|winner| *winner != found.baseline);
    let winner = winner.ok_or_else(|| usage("nothing in it is better than its baseline"))?;
    if !found.is_winner_compared() {
        return Err(usage("its best cell was in no block together with its baseline"));
    }
    keep_two(&mut plan, &found, winner);
    if let Some(limit) = plan.prepare.memory_limit_bytes.take() {
        let memory = fathom_inspect::host_facts(&SysRoot::live()).cacheable_memory_bytes();
        let memory = memory.ok_or_else(|| usage("how much memory there is cannot be read"))?;
        scale(&mut plan, memory as f64 / limit.max(1) as f64);
    }
    fathom_plan::cells(&plan).map_err(|error| usage(&error.to_string()))?;
    Ok(plan)
}

/// Leaves all cells out but the best and the baseline.
fn keep_two(plan: &mut Plan, found: &ExperimentStudy, winner: usize) {
    let mut differ: Vec<(String, [String; 2])> = Vec::new();
    for factor in &mut plan.factors {
        let pair = [found.baseline, winner].map(|at| level(found, at, &factor.name).cloned());
        let [Some(before), Some(best)] = pair else { continue };
        factor.levels = vec![before.clone()];
        if before != best {
            factor.levels.push(best.clone());
            differ.push((factor.name.clone(), [before.clone(), best]));
        }
        plan.design.baseline.insert(factor.name.clone(), before);
    }
    let pattern = |a: (&String, &String), b: (&String, &String)| {
        BTreeMap::from([(a.0.clone(), a.1.clone()), (b.0.clone(), b.1.clone())])
    };
    // All factors that differ do so together.
    plan.design.except.clear();
    if let Some(((first, [before, best]), others)) = differ.split_first() {
        for (other, [theirs, their_best]) in others {
            plan.design.except.push(pattern((first, before), (other, their_best)));
            plan.design.except.push(pattern((first, best), (other, theirs)));
        }
    }
    plan.design.kind = DesignKind::Full;
    (plan.design.resolution, plan.design.narrow_to) = (None, None);
    (plan.design.seed, plan.hypothesis) = (None, None);
    plan.name += "-winner";
}

/// Makes the sizes of test files larger.
fn scale(plan: &mut Plan, ratio: f64) {
    for (key, size) in plan.workloads.iter_mut().flat_map(|workload| &mut workload.settings) {
        if let ("size", Ok(bytes)) = (key.as_str(), units::parse_size(size)) {
            const WHOLE: u64 = 1 << 20;
            let scaled = (bytes as f64 * ratio) as u64;
            *size = scaled.next_multiple_of(WHOLE).to_string();
        }
    }
}

/// What comes after an experiment, as commands; nothing when nothing was narrowed.
pub fn next(plan: &Plan, found: &ExperimentStudy, run: &str) -> String {
    let has_program = plan.workloads.iter().any(|workload| workload.command.is_some());
    let is_narrowed = found.ranking.leaders.len() < found.cells.len();
    if !is_narrowed || found.ranking.winner.is_none() || unfinished(found).is_some() {
        return String::new();
    }
    let mut text = String::new();
    let left = left(plan, found);
    if !has_program && !left.is_empty() {
        let one = |factor: &Factor| format!("{}: {}", factor.name, factor.levels.join(", "));
        let all: Vec<String> = left.iter().map(one).collect();
        text += &format!(
            "The application chooses among what is left ({}):\n  fathom lab application TARGET command=... figure=... --levels-of={run}\n",
            all.join("; ")
        );
    }
    if plan.prepare.memory_limit_bytes.is_some() && found.ranking.winner != Some(found.baseline) {
        text += &format!(
            "The best against the baseline once more, with all memory and sizes in proportion to it:\n  fathom lab --winner-of={run}\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_plan::Unchecked;

    /// A plan of two settings and a null factor.
    fn plan(kind: &str) -> Plan {
        let text = format!(
            "question = \"Which?\"\ntarget = \"/\"\n[[workload]]\nuse = \"randread\"\nsize = \"1G\"\n[factors]\n\
             block.scheduler = [\"none\", \"kyber\", \"bfq\"]\nblock.nr_requests = [32, 64]\nnull = [\"a\", \"b\"]\n\
             [design]\nkind = \"{kind}\"\n[[objective]]\nmetric = \"iops\"\n"
        );
        fathom_plan::read(&text, "plan", &Unchecked).expect("a plan")
    }

    /// A study without records in which these cells lead.
    fn studied(plan: &Plan, leaders: &[usize]) -> ExperimentStudy {
        let mut found = study(plan, &fathom_plan::cells(plan).expect("cells"), &[]);
        // Without a figure that decides all count as measured.
        found.ranking.figures.clear();
        found.ranking.leaders = leaders.to_vec();
        found.ranking.winner = leaders.first().copied();
        found
    }

    fn names(plan: &Plan) -> Vec<String> {
        fathom_plan::cells(plan).expect("cells").iter().map(|cell| cell.name()).collect()
    }

    #[test]
    fn what_cannot_be_told_apart_is_left_with_what_was_before() {
        let plan = plan("full");
        // kyber with 32 requests and either level of the factor that sets nothing.
        let found = studied(&plan, &[4, 5]);
        let left = left(&plan, &found);
        let levels: Vec<(&str, Vec<&str>)> = left
            .iter()
            .map(|f| (f.name.as_str(), f.levels.iter().map(String::as_str).collect()))
            .collect();
        assert_eq!(levels, [("scheduler", vec!["none", "kyber"])]);
        let text = next(&plan, &found, "abc");
        assert!(text.contains("(scheduler: none, kyber)"), "{text}");
        assert!(text.contains("--levels-of=abc") && !text.contains("--winner-of"), "{text}");
        let all: Vec<usize> = (0..12).collect();
        assert_eq!(next(&plan, &studied(&plan, &all), "abc"), "", "nothing was narrowed");
    }

    #[test]
    fn what_was_not_measured_has_not_lost() {
        let plan = plan("full");
        let mut found = study(&plan, &fathom_plan::cells(&plan).expect("cells"), &[]);
        found.ranking.leaders = vec![4];
        found.ranking.winner = Some(4);
        let all: Vec<usize> = left(&plan, &found).iter().map(|f| f.levels.len()).collect();
        assert_eq!(all, [3, 2], "all levels of both settings");
        assert_eq!(next(&plan, &found, "abc"), "");
        let why = unfinished(&found).expect("it is not complete");
        assert!(why.starts_with("12 of its 12 cells were not tried yet"), "{why}");
        // All were tried, and no trial counts.
        found.void = (0..12)
            .map(|cell| fathom_study::experiment::VoidTrial {
                slot: fathom_model::plan::cell::Slot {
                    block: 0,
                    place: 0,
                    cell,
                    is_sentinel: false,
                },
                cell: String::new(),
                workload: String::new(),
                cause: String::new(),
            })
            .collect();
        let why = unfinished(&found).expect("nothing was compared");
        assert!(why.contains("no trial of its baseline counts"), "{why}");
        assert_eq!(unfinished(&studied(&plan, &[4])), None);
    }

    #[test]
    fn two_cells_are_left_of_every_design() {
        for kind in ["full", "one-at-a-time"] {
            let mut plan = plan(kind);
            let found = studied(&plan, &[2]);
            let at = |at: usize| names(&plan)[at].clone();
            let expected = [at(found.baseline), at(2)];
            keep_two(&mut plan, &found, 2);
            assert_eq!(names(&plan), expected, "{kind}");
        }
        let mut plan = plan("full");
        let found = studied(&plan, &[11]);
        keep_two(&mut plan, &found, 11);
        let expected =
            ["scheduler=none nr_requests=32 null=a", "scheduler=bfq nr_requests=64 null=b"];
        assert_eq!(names(&plan), expected, "all three differ");
    }

    #[test]
    fn sizes_grow_with_memory() {
        let mut plan = plan("full");
        scale(&mut plan, 2.5);
        let settings = &plan.workloads[0].settings;
        let size = settings.iter().find(|(key, _)| *key == "size").expect("a size");
        assert_eq!(size.1, &(2560u64 << 20).to_string());
    }
}
