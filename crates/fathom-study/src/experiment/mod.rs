//! What an experiment says: each cell with its interval, each against the baseline within blocks, the best by the plan's
//! objectives, what each factor does, whether the machine drifted, and whether the expectation held. Pure: the plan, its cells
//! and the records in, a study out, recomputable at any time.
//!
//! The unit is the trial, a complete execution of a cell. Trials of one block are compared with each other, so that what
//! changes slowly cancels. See `docs/lab.md` for how to read the result.

mod boots;
mod carry_over;
mod cells;
mod choice;
mod contrasts;
mod course;
mod drift;
mod effects;
mod figures;
mod findings;
mod hypothesis;
mod late;
mod looks;
mod narrowing;
mod noise;
mod ranking;
mod runs;
#[cfg(test)]
mod sample;
mod settings;
mod values;

pub use cells::{Adjustment, CellFigure, CellStudy, Change};
pub use choice::{Choice, MachineValue, Setting};
pub use course::{CoursePoint, course};
pub use drift::Drift;
pub use effects::{Effect, Effects, Noise};
pub use figures::Figure;
pub use hypothesis::{HypothesisStudy, Outcome};
pub use looks::{Decision, LEVEL, looks};
pub use narrowing::Narrowed;
pub use noise::BlockNoise;
pub use ranking::{Bound, Kept, Ranking};
pub use runs::{keep_pairs, runs};
pub use settings::{READ_AHEAD_DIRECT, holding_filesystem, read_ahead_elsewhere};
pub use values::VoidTrial;

use boots::Boots;
use cells::Values;
use fathom_model::finding::{Finding, Verdict};
use fathom_model::plan::Plan;
use fathom_model::plan::cell::Cell;
use fathom_model::record::Record;
use fathom_stats::equivalence::Decision as Answer;
use serde::Serialize;
use std::collections::BTreeMap;
use values::Trials;

/// What an experiment says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExperimentStudy {
    /// The plan's name.
    pub name: String,
    /// What was to be found out.
    pub question: String,
    /// The factors, in order.
    pub factors: Vec<String>,
    /// The figures, those that decide first.
    pub figures: Vec<Figure>,
    /// The cells, in the order of the design.
    pub cells: Vec<CellStudy>,
    /// Place of the cell that others are compared with.
    pub baseline: usize,
    /// The workloads run side by side: a figure of all of them is their sum, else their geometric mean.
    pub is_together: bool,
    /// What the plan calls the figure of an application, by the label of its workload.
    pub application: BTreeMap<String, String>,
    /// Blocks in which every cell was tried; of a narrowing every one that is measured in them.
    pub blocks_done: u32,
    /// Blocks that the plan allows; of a narrowing for the given levels, and again for each further one.
    pub blocks_max: u32,
    /// Trials that were tried, by workload, those that do not count included.
    pub trials: usize,
    /// Those that do not count.
    pub void: Vec<VoidTrial>,
    /// The largest change that does not matter, as a share.
    pub margin: f64,
    /// Confidence of each interval: above 0.95 where the data are looked at more than once.
    pub level: f64,
    /// Comparisons with the baseline that p-values are adjusted for.
    pub comparisons: usize,
    /// How they are adjusted.
    pub adjustment: Adjustment,
    /// Who is best, and who cannot be told apart.
    pub ranking: Ranking,
    /// What the best cell has that the baseline has not.
    pub choices: Vec<Choice>,
    /// What the machine itself has where the baseline sets something else; none when that is not known.
    pub machine: Option<Vec<MachineValue>>,
    /// Effects of whole factors on the ranked figures.
    pub effects: Vec<Effects>,
    /// The sentinel over time.
    pub drift: Option<Drift>,
    /// Where the first ranked figure scatters.
    pub noise: Option<BlockNoise>,
    /// The plan's expectation.
    pub hypothesis: Option<HypothesisStudy>,
    /// Where the best value lies, of a narrowing design.
    pub narrowed: Option<Narrowed>,
    /// What speaks against the answer, the gravest first.
    pub findings: Vec<Finding>,
    /// Whether it can be believed.
    pub verdict: Verdict,
}

/// The level of a factor in a cell.
fn level_of<'c>(cell: &'c Cell, factor: &str) -> Option<&'c str> {
    cell.levels.iter().find(|(name, _)| name == factor).map(|(_, level)| level.as_str())
}

/// The place of the baseline: the cell with the plan's baseline levels, the first level of each other factor; else the first
/// cell.
#[must_use]
pub fn baseline(plan: &Plan, cells: &[Cell]) -> usize {
    let wanted = |factor: &fathom_model::plan::Factor| {
        let first = factor.levels.first();
        plan.design.baseline.get(&factor.name).or(first).cloned().unwrap_or_default()
    };
    let is_baseline = |cell: &Cell| {
        let is_at = |factor: &fathom_model::plan::Factor| {
            level_of(cell, &factor.name).is_none_or(|level| level == wanted(factor))
        };
        plan.factors.iter().all(is_at)
    };
    cells.iter().position(is_baseline).unwrap_or(0)
}

/// Studies the records of an experiment, finished or not. Records of other runs must not be among them.
#[must_use]
pub fn study(plan: &Plan, cells: &[Cell], records: &[Record]) -> ExperimentStudy {
    let trials = Trials::new(plan, cells, records);
    let baseline = baseline(plan, cells);
    let figures = figures::figures(plan, trials.records());
    let values: Vec<Values> = figures.iter().map(|figure| trials.values(figure)).collect();
    let level = level(plan, &values);
    let margin = plan.design.margin;
    let boots = Boots::new(cells, trials.records()).beside(baseline);
    let ask = |figure: &Figure| cells::question(figure, 100.0 * margin, level);
    let mut studied = cells::study(cells, baseline, &figures, &values, &boots, &ask);
    let (comparisons, adjustment) = cells::adjust(&mut studied, &figures);
    let ranking = ranking::rank(plan, &figures, &values, baseline, &boots, level);
    let effects = ranking.figures.iter().filter_map(|place| {
        let (figure, values) = (&figures[*place], &values[*place]);
        let asked = effects::Asked { plan, cells, baseline, boots: &boots, level };
        effects::study(&asked, *place, figure, values)
    });
    let effects: Vec<Effects> = effects.collect();
    let first = ranking.figures.first().copied();
    let drift = first.and_then(|place| {
        let index = cells.get(baseline)?.index;
        drift::study(&trials, place, &figures[place], index, plan.design.has_sentinel)
    });
    let hypothesis = expectation(plan, cells, &ranking, (&figures, &values), &boots, level);
    let base = cells.get(baseline);
    let machine = base.and_then(|base| choice::of_machine(plan, base, trials.records()));
    let choices = ranking.winner.zip(base).map_or_else(Vec::new, |(at, base)| {
        let own = machine.as_deref().unwrap_or_default();
        choice::study(plan, (&cells[at], base), trials.records(), own)
    });
    let nulls = first.map(|at| effects::null_factors(plan, cells, &values[at], &boots, level));
    let narrowed =
        narrowing::study(plan, (cells, baseline), &figures, &values, (&ranking, &boots, level));
    let mut study = ExperimentStudy {
        name: plan.name.clone(),
        question: plan.question.clone(),
        factors: plan.factors.iter().map(|factor| factor.name.clone()).collect(),
        figures,
        cells: with_capacity(studied, &trials),
        baseline,
        is_together: plan.is_together,
        application: plan.workloads.iter().filter_map(figure_name).collect(),
        blocks_done: trials.blocks_done(),
        blocks_max: plan.design.blocks,
        trials: trials.records().len() + trials.void.len(),
        void: trials.void.clone(),
        margin,
        level,
        comparisons,
        adjustment,
        ranking,
        choices,
        machine,
        effects,
        drift,
        noise: first.and_then(|place| noise::study(place, &values[place], level)),
        hypothesis,
        narrowed,
        findings: Vec::new(),
        verdict: Verdict::Trusted,
    };
    let mut found = findings::of_study(&study, cells, &values, &boots, &nulls.unwrap_or_default());
    let of_first = first.map(|place| &values[place]);
    found.extend(of_order(&trials, cells, of_first, (study.drift.as_ref(), margin)));
    found.extend(of_records(plan, cells, trials.records()));
    let matters = |factor: &str| study.shows_effect(factor);
    found.extend(settings::notes(plan, trials.records(), &matters));
    let judged = findings::judged(found);
    (study.findings, study.verdict) = (judged.findings, judged.verdict);
    study
}

fn with_capacity(mut cells: Vec<CellStudy>, trials: &Trials<'_>) -> Vec<CellStudy> {
    for cell in &mut cells {
        cell.capacity = trials.capacity(cell.cell);
    }
    cells
}

/// What has become of the plan's expectation, by the first ranked figure.
fn expectation(
    plan: &Plan,
    cells: &[Cell],
    ranking: &Ranking,
    (figures, values): (&[Figure], &[Values]),
    boots: &Boots,
    level: f64,
) -> Option<HypothesisStudy> {
    let place = *ranking.figures.first()?;
    let (figure, values) = ((place, &figures[place]), &values[place]);
    hypothesis::judge(plan, cells, figure, values, boots, level)
}

/// What the order in which trials were measured speaks against; by the values of the first ranked figure.
fn of_order(
    trials: &Trials<'_>,
    cells: &[Cell],
    values: Option<&Values>,
    (drift, margin): (Option<&Drift>, f64),
) -> Vec<Finding> {
    let carried = values.and_then(|values| carry_over::study(trials, cells, values));
    let carried = carried.and_then(|found| carry_over::finding(&found, cells, margin));
    let late = late::finding(trials.records(), drift.is_some_and(Drift::is_found));
    carried.into_iter().chain(late).collect()
}

/// What the plan and the trials that count speak against.
fn of_records(plan: &Plan, cells: &[Cell], records: &[&Record]) -> Vec<Finding> {
    let mut found: Vec<Finding> = figures::unnamed(plan).into_iter().collect();
    found.extend(boots::mixed(cells, records));
    found.extend(findings::of_trials(records));
    found.extend(findings::of_commands(records));
    found.extend(findings::of_setups(records));
    found
}

/// The figure that a command's settings name, with the workload's label: the first by name, which is the one that is told.
fn figure_name(workload: &fathom_model::plan::PlanWorkload) -> Option<(String, String)> {
    Some((workload.label.clone(), figures::first_name(workload)?))
}

/// Confidence of each interval: of the look that the longest series of pairs belongs to.
fn level(plan: &Plan, values: &[Values]) -> f64 {
    let longest = values.iter().flatten().map(BTreeMap::len).max();
    // What a narrowing measures again for each further level has more.
    looks::level(plan, longest.unwrap_or(0).min(plan.design.blocks as usize))
}

/// Whether an experiment has its answers after the blocks measured so far: to be asked at the looks of a sequential plan
/// ([`looks`]). Every comparison of an objective with the baseline must be decided, or known to within 2 %; so must be what the best
/// is against those that may be it as well, and the plan's expectation decided; and of each cell that may be the best it must be known whether
/// it keeps the bounds.
#[must_use]
pub fn is_decided(plan: &Plan, cells: &[Cell], records: &[Record]) -> Decision {
    let trials = Trials::new(plan, cells, records);
    let all = figures::figures(plan, trials.records());
    let figures: Vec<Figure> = all.into_iter().filter(|figure| figure.is_objective).collect();
    let values: Vec<Values> = figures.iter().map(|figure| trials.values(figure)).collect();
    let level = level(plan, &values);
    let ask = |figure: &Figure| cells::question(figure, 100.0 * plan.design.margin, level);
    let baseline = baseline(plan, cells);
    let boots = Boots::new(cells, trials.records()).beside(baseline);
    let mut studied = cells::study(cells, baseline, &figures, &values, &boots, &ask);
    cells::adjust(&mut studied, &figures);
    let ranking = ranking::rank(plan, &figures, &values, baseline, &boots, level);
    let hypothesis = expectation(plan, cells, &ranking, (&figures, &values), &boots, level);
    let is_settled = cells::is_settled(&studied, &figures)
        && !ranking.is_bound_open
        && !ranking.is_best_open
        && hypothesis.is_none_or(|hypothesis| hypothesis.is_settled());
    looks::next(plan, trials.blocks_done_last(), is_settled)
}

impl ExperimentStudy {
    /// True for a cell of which a trial that counts has the figure that decides first.
    #[must_use]
    pub fn is_measured(&self, at: usize) -> bool {
        let figure = self.ranking.figures.first();
        let has = |figure: &usize| {
            let own = self.cells.get(at).and_then(|cell| cell.figures.get(*figure));
            own.is_some_and(Option::is_some)
        };
        figure.is_none_or(has)
    }

    /// Some cell stands on slices, an array or a volume, of which it is known how much can be used.
    #[must_use]
    pub fn has_capacity(&self) -> bool {
        self.cells.iter().any(|cell| cell.capacity.is_some())
    }

    /// Places of the cells that can exist and have no value of the figure that decides first.
    #[must_use]
    pub fn unmeasured(&self) -> Vec<usize> {
        let is_open = |at: &usize| self.cells[*at].impossible.is_none() && !self.is_measured(*at);
        (0..self.cells.len()).filter(is_open).collect()
    }

    /// Each cell that can exist was measured and breaks a bound.
    #[must_use]
    pub fn all_break_bounds(&self) -> bool {
        let breaks = |at: usize, bound: &Bound| {
            let value = self.cells[at].figures.get(bound.figure);
            value.is_some_and(Option::is_some) && bound.kept.get(at) == Some(&Kept::Broken)
        };
        let mut open = (0..self.cells.len()).filter(|at| self.cells[*at].impossible.is_none());
        !self.ranking.bounds.is_empty()
            && open.all(|at| self.ranking.bounds.iter().any(|bound| breaks(at, bound)))
    }

    /// Places of those of them that were not even tried: the experiment is not complete.
    #[must_use]
    pub fn untried(&self) -> Vec<usize> {
        let mut open = self.unmeasured();
        open.retain(|at| {
            let cell = &self.cells[*at];
            let has_trials = cell.figures.iter().any(Option::is_some);
            !has_trials && self.void.iter().all(|void| void.slot.cell != cell.cell)
        });
        open
    }

    /// Some level of a factor is shown to be better or worse than others, in whatever figure: over all cells, or in one that differs from the
    /// baseline in that factor alone.
    #[must_use]
    pub fn shows_effect(&self, factor: &str) -> bool {
        let is_decided = |answer: Answer| matches!(answer, Answer::Faster | Answer::Slower);
        let mut effects = self.effects.iter().flat_map(|of| &of.effects);
        let is_of = |effect: &Effect| effect.of.iter().any(|(name, _)| name == factor);
        if effects.any(|effect| is_decided(effect.decision) && is_of(effect)) {
            return true;
        }
        let Some(base) = self.cells.get(self.baseline) else { return false };
        let is_alone = |cell: &&CellStudy| {
            let mut pairs = cell.levels.iter().zip(&base.levels);
            pairs.all(|(own, base)| (own.0 == factor) != (own == base))
        };
        let changes = |cell: &CellStudy| {
            let mut own = cell.figures.iter().flatten().filter_map(|own| own.change.as_ref());
            own.any(|change| is_decided(change.decision))
        };
        self.cells.iter().filter(is_alone).any(changes)
    }

    /// The best cell was compared with the baseline in the figure that decides first.
    #[must_use]
    pub fn is_winner_compared(&self) -> bool {
        let change = |at: usize| {
            let figure = *self.ranking.figures.first()?;
            self.cells.get(at)?.figures.get(figure)?.as_ref()?.change.as_ref()
        };
        self.ranking.winner.and_then(change).is_some()
    }

    /// True when what the best cell has is advice: it was compared with the baseline, which is shown to be worse.
    #[must_use]
    pub fn is_advice(&self) -> bool {
        self.is_winner_compared() && !self.ranking.leaders.contains(&self.baseline)
    }

    /// How many of the comparisons asked for are open, and how many there are.
    #[must_use]
    pub fn open_questions(&self) -> (usize, usize) {
        findings::open_questions(&self.cells, &self.figures)
    }
}

#[cfg(test)]
mod tests;
