//! What each factor does over all cells, and which two do something together.

use super::cells::{NAMED_MAX, Values, question};
use super::contrasts::{self, Side};
use super::figures::Figure;
use super::level_of;
use fathom_model::plan::cell::Cell;
use fathom_model::plan::{DesignKind, FactorKind, Plan};
use fathom_stats::equivalence::{Decision, Question, decide};
use fathom_stats::factorial::{self, Observation};
use fathom_stats::interval::{Estimate, Interval};
use fathom_stats::multiple::{benjamini_hochberg, holm};
use fathom_stats::rank::paired::{hodges_lehmann, signed_rank_test};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The effects on one figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Effects {
    /// Which figure, as a place in the study's figures.
    pub figure: usize,
    /// Complete blocks that they rest on.
    pub blocks: usize,
    /// Blocks that were left out because a trial is missing.
    pub blocks_left_out: usize,
    /// Main effects, then interactions.
    pub effects: Vec<Effect>,
    /// The noise at each level of each factor, standard deviation of the logarithm: 0.03 is 3 %. Empty where the design
    /// does not tell it.
    pub noise: Vec<Noise>,
    /// Why there are none, or only main effects.
    pub remark: Option<String>,
}

/// One effect.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Effect {
    /// Factor and level; two of them for an interaction.
    pub of: Vec<(String, String)>,
    /// The levels it is compared with, in the same order.
    pub against: Vec<(String, String)>,
    /// Main effect: the ratio of the levels. Interaction: by what the first one's ratio changes with the second.
    pub ratio: Estimate,
    /// The same by signed ranks of the contrasts within blocks.
    pub ranked: Estimate,
    /// p adjusted for all effects of this figure.
    pub p_adjusted: f64,
    /// What is concluded.
    pub decision: Decision,
    /// The ranks say something else: noise is far from normal, and the interval is not to be believed.
    pub ranks_disagree: bool,
}

/// The noise at one level.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Noise {
    /// The factor.
    pub factor: String,
    /// Its level.
    pub level: String,
    /// Standard deviation of the logarithm with its interval; none below three blocks.
    pub deviation: Estimate,
}

/// What the effects are of.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Its cells.
    pub cells: &'a [Cell],
    /// Place of the baseline.
    pub baseline: usize,
    /// Confidence of each interval.
    pub level: f64,
}

/// The levels that occur of each factor, the baseline's first.
fn levels(plan: &Plan, cells: &[Cell], baseline: &Cell) -> Vec<(String, Vec<String>)> {
    let of = |factor: &fathom_model::plan::Factor| {
        let base = level_of(baseline, &factor.name)?.to_owned();
        let occurs = |level: &&String| {
            cells.iter().any(|cell| level_of(cell, &factor.name) == Some(level.as_str()))
        };
        let rest = factor.levels.iter().filter(occurs).filter(|level| **level != base).cloned();
        let levels: Vec<String> = std::iter::once(base.clone()).chain(rest).collect();
        (levels.len() > 1).then(|| (factor.name.clone(), levels))
    };
    plan.factors.iter().filter_map(of).collect()
}

/// The effects on one figure; none where a design tells no more than its cells do (one factor, or one at a time).
#[must_use]
pub fn study(asked: &Asked<'_>, place: usize, figure: &Figure, values: &Values) -> Option<Effects> {
    let Asked { plan, cells, baseline, level } = *asked;
    let there: Vec<usize> = (0..cells.len()).filter(|at| !values[*at].is_empty()).collect();
    let base = cells.get(baseline)?;
    let cells: &Vec<Cell> = &there.iter().map(|at| cells[*at].clone()).collect();
    let values: &Values = &there.iter().map(|at| values[*at].clone()).collect();
    let factors = levels(plan, cells, base);
    if factors.len() < 2 || plan.design.kind == DesignKind::OneAtATime {
        return None;
    }
    let question = question(figure, 100.0 * plan.design.margin, level);
    let (blocks, left_out) = complete_blocks(values);
    let mut found = Effects {
        figure: place,
        blocks: blocks.len(),
        blocks_left_out: left_out,
        effects: Vec::new(),
        noise: Vec::new(),
        remark: None,
    };
    let is_full = cells.len() == factors.iter().map(|(_, levels)| levels.len()).product::<usize>();
    if is_full {
        let whole_plots = whole_plots(plan, &factors);
        match of_factorial(&factors, &whole_plots, cells, values, &blocks, &question) {
            Ok((effects, noise)) => (found.effects, found.noise) = (effects, noise),
            Err(why) => found.remark = Some(why),
        }
    } else {
        found.effects = main_effects(&factors, cells, values, &question);
        let why = match plan.design.kind {
            DesignKind::Fractional | DesignKind::Screening => {
                "a fraction of all combinations: main effects only, and an interaction of two others may hide in one"
            }
            _ => {
                "not every combination was measured: main effects only, from pairs of cells that differ in nothing else"
            }
        };
        found.remark = Some(why.to_owned());
    }
    adjust(&mut found.effects, &question);
    Some(found)
}

/// Blocks that have every cell, and how many have not.
fn complete_blocks(values: &Values) -> (Vec<u32>, usize) {
    let all: BTreeSet<u32> = values.iter().flat_map(|cell| cell.keys().copied()).collect();
    let count = all.len();
    // A cell that has nothing in any block cannot exist, or could not be measured.
    let is_whole =
        |block: &u32| values.iter().all(|cell| cell.is_empty() || cell.contains_key(block));
    let whole: Vec<u32> = all.into_iter().filter(is_whole).collect();
    let left_out = count - whole.len();
    (whole, left_out)
}

type Named = (String, Vec<String>);

/// Places of the factors whose levels make builds or boots that several cells of a block share: cells of one boot stand together
/// always, those of one setup where the design says so.
fn whole_plots(plan: &Plan, factors: &[Named]) -> Vec<usize> {
    let is_whole = |(name, _): &Named| {
        let sets = plan.factors.iter().find(|factor| factor.name == *name).map(|f| &f.sets);
        match sets {
            Some(FactorKind::Boot { .. }) => true,
            Some(FactorKind::Setup { .. }) => plan.design.groups_setups,
            _ => false,
        }
    };
    (0..factors.len()).filter(|at| is_whole(&factors[*at])).collect()
}

fn of_factorial(
    factors: &[Named],
    whole_plots: &[usize],
    cells: &[Cell],
    values: &Values,
    blocks: &[u32],
    question: &Question,
) -> Result<(Vec<Effect>, Vec<Noise>), String> {
    let place = |cell: &Cell| -> Option<Vec<usize>> {
        let of = |(factor, levels): &Named| {
            levels.iter().position(|level| level_of(cell, factor) == Some(level.as_str()))
        };
        factors.iter().map(of).collect()
    };
    let places: Option<Vec<Vec<usize>>> = cells.iter().map(place).collect();
    let places = places.ok_or("a cell has a level that no factor has")?;
    let observation = |block: &u32, (levels, own): (&'_ Vec<usize>, &BTreeMap<u32, f64>)| {
        own.get(block).map(|value| (levels.clone(), *block as usize, *value))
    };
    let observed: Vec<(Vec<usize>, usize, f64)> = blocks
        .iter()
        .flat_map(|block| places.iter().zip(values).filter_map(move |of| observation(block, of)))
        .collect();
    let observations: Vec<Observation<'_>> = observed
        .iter()
        .map(|(levels, block, value)| Observation { levels, block: *block, value: *value })
        .collect();
    let counts: Vec<usize> = factors.iter().map(|(_, levels)| levels.len()).collect();
    let found = factorial::analyse(&counts, whole_plots, &observations, question.level)
        .map_err(|e| format!("no effects: {e}"))?;
    let named = |(factor, level): &(usize, usize)| {
        (factors[*factor].0.clone(), factors[*factor].1[*level].clone())
    };
    let effect = |effect: &factorial::Effect| Effect {
        of: effect.of.iter().map(named).collect(),
        against: effect.of.iter().map(|(factor, _)| named(&(*factor, 0))).collect(),
        ratio: effect.ratio,
        ranked: effect.ranked,
        p_adjusted: effect.p,
        decision: Decision::Inconclusive,
        ranks_disagree: false,
    };
    let noise = |noise: &factorial::LevelNoise| {
        let (factor, level) = named(&(noise.factor, noise.level));
        Noise { factor, level, deviation: noise.deviation }
    };
    let effects = found.effects.iter().map(effect).collect();
    Ok((effects, found.noise.iter().map(noise).collect()))
}

/// Each level against the first, over all cells that allow it.
fn main_effects(
    factors: &[Named],
    cells: &[Cell],
    values: &Values,
    question: &Question,
) -> Vec<Effect> {
    let one = |factor: &String, level: &String, base: &String| {
        let side = |level: &String| BTreeMap::from([(factor.clone(), level.clone())]);
        let logs = contrasts::between(cells, values, Side(&side(level)), Side(&side(base))).ok()?;
        let shift = hodges_lehmann(&logs, question.level).ok()?;
        let ratio = shift.map(f64::exp);
        Some(Effect {
            of: vec![(factor.clone(), level.clone())],
            against: vec![(factor.clone(), base.clone())],
            ratio,
            ranked: ratio,
            p_adjusted: signed_rank_test(&logs).ok()?.p,
            decision: Decision::Inconclusive,
            ranks_disagree: false,
        })
    };
    let of = |(factor, levels): &Named| {
        let (base, rest) = levels.split_first()?;
        Some(rest.iter().filter_map(|level| one(factor, level, base)).collect::<Vec<_>>())
    };
    factors.iter().filter_map(of).flatten().collect()
}

/// p for the number of effects, then the decisions. An effect counts when its own interval and that by ranks agree, and so does
/// sameness.
fn adjust(effects: &mut [Effect], question: &Question) {
    let p: Vec<f64> = effects.iter().map(|effect| effect.p_adjusted).collect();
    let adjusted = if p.len() <= NAMED_MAX { holm(&p) } else { benjamini_hochberg(&p) };
    let Ok(adjusted) = adjusted else { return };
    let differs = |decision| matches!(decision, Decision::Faster | Decision::Slower);
    for (effect, p) in effects.iter_mut().zip(adjusted) {
        effect.p_adjusted = p;
        let log = |interval: Interval| interval.map(f64::ln);
        let Some(interval) = effect.ratio.interval else { continue };
        let decision = decide(&log(interval), question);
        let by_ranks = effect.ranked.interval.map(|ranked| decide(&log(ranked), question));
        effect.ranks_disagree = by_ranks.is_some_and(|ranks| {
            (differs(decision) || differs(ranks))
                && decision != ranks
                && !is_sameness(decision, ranks)
        });
        let is_found = p <= 1.0 - question.level + 1e-12 && !effect.ranks_disagree;
        let is_same = by_ranks.is_none_or(|ranks| ranks == Decision::Equivalent);
        effect.decision = match decision {
            decision if differs(decision) && !is_found => Decision::Inconclusive,
            Decision::Equivalent if !is_same => Decision::Inconclusive,
            decision => decision,
        };
    }
}

/// A difference of no matter, which one way calls real and the other small.
fn is_sameness(a: Decision, b: Decision) -> bool {
    a == Decision::Equivalent || b == Decision::Equivalent
}

/// Factors that set nothing, with the levels that came out different all the same: their ratio to the first level.
#[must_use]
pub fn null_factors(
    plan: &Plan,
    cells: &[Cell],
    values: &Values,
    level: f64,
) -> Vec<(String, String, Estimate)> {
    let mut found = Vec::new();
    let nulls: Vec<_> = plan.factors.iter().filter(|f| f.sets == FactorKind::Null).collect();
    let questions: usize = nulls.iter().map(|factor| factor.levels.len().saturating_sub(1)).sum();
    for factor in nulls {
        let Some((base, rest)) = factor.levels.split_first() else { continue };
        for other in rest {
            let side = |level: &String| BTreeMap::from([(factor.name.clone(), level.clone())]);
            let (one, base) = (side(other), side(base));
            let Ok(logs) = contrasts::between(cells, values, Side(&one), Side(&base)) else {
                continue;
            };
            let (Ok(test), Ok(shift)) = (signed_rank_test(&logs), hodges_lehmann(&logs, level))
            else {
                continue;
            };
            if test.p * questions as f64 <= 1.0 - level + 1e-12 {
                found.push((factor.name.clone(), other.clone(), shift.map(f64::exp)));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::sample::{Sample, noise};
    use crate::experiment::study as study_experiment;
    use fathom_base::prng::Prng;

    /// Scheduler 1.2, depth 2.0, and 1.1 more where both are changed.
    fn sample(blocks: u32) -> Sample {
        let mut prng = Prng::new(21, 0);
        let factors: [(&str, &[&str]); 2] =
            [("scheduler", &["none", "bfq"]), ("depth", &["1", "8"])];
        Sample::new(&factors, blocks, |cell, _| {
            let (bfq, deep) = (cell.levels[0].1 == "bfq", cell.levels[1].1 == "8");
            let by = |is: bool, ratio: f64| if is { ratio } else { 1.0 };
            1000.0 * by(bfq, 1.2) * by(deep, 2.0) * by(bfq && deep, 1.1) * noise(&mut prng, 0.01)
        })
    }

    fn effects(sample: &Sample) -> Vec<Effects> {
        study_experiment(&sample.plan, &sample.cells, &sample.records).effects
    }

    #[test]
    fn main_effects_and_interactions_are_found() {
        let got = effects(&sample(8)).remove(0);
        assert_eq!((got.blocks, got.blocks_left_out, got.effects.len()), (8, 0, 3));
        let near = |at: usize, ratio: f64| {
            let effect = &got.effects[at];
            assert!((effect.ratio.value / ratio - 1.0).abs() < 0.02, "{effect:?}");
            assert_eq!(effect.decision, Decision::Faster);
        };
        // A main effect is the mean over the other factor's levels: 1.2 and 1.2 x 1.1.
        near(0, 1.2 * 1.1f64.sqrt());
        near(1, 2.0 * 1.1f64.sqrt());
        near(2, 1.1);
        assert_eq!(got.effects[2].of[1], ("depth".to_owned(), "8".to_owned()));
        assert!(got.noise.iter().all(|noise| noise.deviation.value < 0.02), "{:?}", got.noise);
    }

    /// Eight equal cells, two filesystems by four depths, with 3 % between builds: at most 5 % of the experiments call a filesystem
    /// faster or slower. Without grouping nobody knows which cells are alike.
    #[test]
    fn setups_that_share_a_build_are_tested_between_builds() {
        let factors: [(&str, &[&str]); 2] =
            [("filesystem", &["ext4", "xfs"]), ("depth", &["1", "2", "4", "8"])];
        let mut plan = crate::experiment::sample::plan(&factors);
        let cells = crate::experiment::sample::cells(&plan);
        let blocks: Vec<u32> = (0..8).collect();
        let question = Question::new(fathom_stats::equivalence::Better::Higher);
        let mut is_found = |seed: u64, sets: &FactorKind, groups_setups: bool| {
            let mut prng = Prng::new(seed, 0);
            let mut values: Values = vec![BTreeMap::new(); cells.len()];
            for block in &blocks {
                let builds = [noise(&mut prng, 0.03), noise(&mut prng, 0.03)];
                for (cell, own) in cells.iter().zip(&mut values) {
                    let build = builds[usize::from(cell.levels[0].1 == "xfs")];
                    own.insert(*block, 1e5 * build * noise(&mut prng, 0.01));
                }
            }
            plan.factors[0].sets = sets.clone();
            plan.design.groups_setups = groups_setups;
            let named = levels(&plan, &cells, &cells[0]);
            let whole = whole_plots(&plan, &named);
            let (got, _) = of_factorial(&named, &whole, &cells, &values, &blocks, &question)
                .expect("balanced");
            !got[0].ratio.interval.expect("blocks").contains(1.0)
        };
        let setup = FactorKind::Setup { key: "filesystem.type".into() };
        let boot = FactorKind::Boot { parameter: "mitigations".into() };
        let mut share = |sets: &FactorKind, grouped: bool| {
            (0..1000).filter(|seed| is_found(*seed, sets, grouped)).count() as f64 / 1000.0
        };
        let shares = [share(&setup, true), share(&boot, false), share(&setup, false)];
        assert!(shares[..2].iter().all(|share| (0.03..0.075).contains(share)), "{shares:?}");
        assert!(shares[2] > 0.2, "{shares:?}");
    }

    /// The study asks for it: the interval of a plan that groups its setups is that of the contrasts, a wider one here.
    #[test]
    fn a_study_knows_which_factors_share_a_build() {
        let width = |grouped: bool| {
            let mut sample = sample(8);
            sample.plan.factors[0].sets = FactorKind::Setup { key: "filesystem.type".into() };
            sample.plan.design.groups_setups = grouped;
            let found = effects(&sample).remove(0);
            let interval = found.effects[0].ratio.interval.expect("blocks");
            (interval.high / interval.low, found.effects[1].ratio)
        };
        let (grouped, apart) = (width(true), width(false));
        assert!((grouped.0 - apart.0).abs() > 1e-6 && grouped.1.value == apart.1.value);
    }

    /// Seen from the pooled noise nothing is larger than the margin, by ranks it may be.
    #[test]
    fn sameness_needs_the_ranks_too() {
        let question = Question {
            margin_percent: 3.0,
            level: 0.95,
            better: fathom_stats::equivalence::Better::Higher,
        };
        let between = |low: f64, high: f64| {
            let interval = Some(Interval { low, high, coverage: 0.95 });
            Estimate { value: (low * high).sqrt(), interval, count: 12 }
        };
        let decided = |ranked: Estimate| {
            let ratio = between(0.99, 1.02);
            let of = |level: &str| vec![("depth".to_owned(), level.to_owned())];
            let mut effects = [Effect {
                of: of("8"),
                against: of("1"),
                ratio,
                ranked,
                p_adjusted: 0.5,
                decision: Decision::Inconclusive,
                ranks_disagree: false,
            }];
            adjust(&mut effects, &question);
            effects[0].decision
        };
        assert_eq!(decided(between(0.95, 1.04)), Decision::Inconclusive);
        assert_eq!(decided(between(0.98, 1.02)), Decision::Equivalent);
        let none = Estimate { interval: None, ..between(0.98, 1.02) };
        assert_eq!(decided(none), Decision::Equivalent, "too few blocks for ranks");
    }

    #[test]
    fn incomplete_blocks_are_left_out() {
        let mut sample = sample(9);
        sample.records[5].cell.as_mut().expect("a cell").void = Some("drift".into());
        let got = effects(&sample).remove(0);
        assert_eq!((got.blocks, got.blocks_left_out), (8, 1));
    }

    #[test]
    fn missing_cells_leave_main_effects() {
        let mut sample = sample(8);
        sample.cells.retain(|cell| cell.index != 3);
        sample.records.retain(|r| r.cell.as_ref().expect("a cell").slot.cell != 3);
        let got = effects(&sample).remove(0);
        assert_eq!(got.effects.len(), 2);
        assert!((got.effects[0].ratio.value / 1.2 - 1.0).abs() < 0.02);
        assert!(got.remark.expect("a remark").starts_with("not every combination"));
    }

    #[test]
    fn null_factors_that_differ_are_told() {
        let mut sample = sample(8);
        sample.plan.factors[0].sets = FactorKind::Null;
        let study = study_experiment(&sample.plan, &sample.cells, &sample.records);
        let finding = study.findings.iter().find(|f| f.id == "null-factor-differs");
        assert!(finding.expect("said").summary.contains("scheduler=bfq"));
        let mut prng = Prng::new(4, 0);
        let mut equal = Sample::new(&[("a", &["x", "y"])], 8, |_, _| 1e3 * noise(&mut prng, 0.02));
        equal.plan.factors[0].sets = FactorKind::Null;
        let study = study_experiment(&equal.plan, &equal.cells, &equal.records);
        assert!(study.findings.iter().all(|f| f.id != "null-factor-differs"));
    }
}
