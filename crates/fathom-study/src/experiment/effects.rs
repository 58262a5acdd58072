//! What each factor does over all cells, and which two do something together.

use super::boots::Boots;
use super::cells::{NAMED_MAX, Values, question};
use super::contrasts::{self, Side};
use super::figures::Figure;
use super::level_of;
use fathom_model::plan::cell::Cell;
use fathom_model::plan::{DesignKind, FactorKind, Plan};
use fathom_stats::equivalence::{Decision, Question, decide};
use fathom_stats::factorial::{self, FactorialError, Observation};
use fathom_stats::interval::{Estimate, Interval};
use fathom_stats::multiple::{benjamini_hochberg, holm};
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
    /// The same by signed ranks of the contrasts within blocks; by rank sums where boots are compared.
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
    /// The boots in which they were measured.
    pub boots: &'a Boots,
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
    let Asked { plan, cells, baseline, boots, level } = *asked;
    let there: Vec<usize> = (0..cells.len()).filter(|at| !values[*at].is_empty()).collect();
    let base = cells.get(baseline)?;
    let cells: &Vec<Cell> = &there.iter().map(|at| cells[*at].clone()).collect();
    let values: &Values = &there.iter().map(|at| values[*at].clone()).collect();
    let boots = &boots.only(&there);
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
        let data = Data { factors: &factors, cells, values, blocks: &blocks, boots };
        match of_factorial(&data, &Plots::of(plan, &factors), &question) {
            Ok((effects, noise)) => (found.effects, found.noise) = (effects, noise),
            // The figure is missing in some trials, not the trials.
            Err(_) if blocks.len() < 2 && left_out > 0 => {
                found.remark = Some(format!(
                    "no effects: {} in which every cell has a value, and it takes two; {left_out} left out",
                    match blocks.len() {
                        0 => "no block",
                        _ => "one block",
                    }
                ));
            }
            Err(why) => found.remark = Some(why),
        }
    } else {
        found.effects = main_effects(&factors, cells, values, boots, &question);
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

/// Places of factors whose levels several cells have in one piece.
struct Plots {
    /// Those that make boots: a boot outlasts a block, and is one value.
    boots: Vec<usize>,
    /// Those that make builds or boots which several cells of a block share: cells of one boot stand together always, those of one setup
    /// where the design says so.
    whole: Vec<usize>,
}

impl Plots {
    fn of(plan: &Plan, factors: &[Named]) -> Self {
        let sets = |at: &usize| {
            let (name, _) = &factors[*at];
            plan.factors.iter().find(|factor| factor.name == *name).map(|factor| &factor.sets)
        };
        let is_boot = |at: &usize| matches!(sets(at), Some(FactorKind::Boot { .. }));
        let is_build = |at: &usize| {
            plan.design.groups_setups && matches!(sets(at), Some(FactorKind::Setup { .. }))
        };
        let boots: Vec<usize> = (0..factors.len()).filter(is_boot).collect();
        let whole: Vec<usize> =
            (0..factors.len()).filter(|at| is_boot(at) || is_build(at)).collect();
        // Without any other factor each cell is a build of its own.
        let has_own_builds = whole.len() == factors.len();
        Self { whole: if has_own_builds { boots.clone() } else { whole }, boots }
    }
}

/// A full factorial that was measured.
struct Data<'a> {
    factors: &'a [Named],
    cells: &'a [Cell],
    values: &'a Values,
    /// Those with every cell.
    blocks: &'a [u32],
    boots: &'a Boots,
}

impl Data<'_> {
    /// The places of each cell's levels in their factors.
    fn places(&self) -> Option<Vec<Vec<usize>>> {
        let place = |cell: &Cell| -> Option<Vec<usize>> {
            let of = |(factor, levels): &Named| {
                levels.iter().position(|level| level_of(cell, factor) == Some(level.as_str()))
            };
            self.factors.iter().map(of).collect()
        };
        self.cells.iter().map(place).collect()
    }

    /// What each boot measured as one value, with the levels of the factors at `boot_places`: the mean of its cells in the blocks, each against
    /// its own mean over all boots of its kind, so that a boot which did not see every cell is not judged by those it saw.
    fn of_boots(&self, places: &[Vec<usize>], boot_places: &[usize]) -> Vec<(Vec<usize>, f64)> {
        let log = |cell: usize, block: &u32| self.values[cell].get(block).map(|value| value.ln());
        let mean = |logs: &[f64]| logs.iter().sum::<f64>() / logs.len() as f64;
        let mut of_kinds: BTreeMap<Vec<usize>, Vec<(usize, Vec<f64>)>> = BTreeMap::new();
        let mut kind_means: BTreeMap<Vec<usize>, Vec<f64>> = BTreeMap::new();
        for (cell, place) in places.iter().enumerate() {
            let kind: Vec<usize> = boot_places.iter().map(|at| place[*at]).collect();
            let own: Vec<f64> = self.blocks.iter().filter_map(|block| log(cell, block)).collect();
            let of_cell = mean(&own);
            kind_means.entry(kind.clone()).or_default().push(of_cell);
            let boots = of_kinds.entry(kind).or_default();
            for block in self.blocks {
                let (Some(log), Some(boot)) = (log(cell, block), self.boots.boot(cell, *block))
                else {
                    continue;
                };
                match boots.iter_mut().find(|(known, _)| *known == boot) {
                    Some((_, found)) => found.push(log - of_cell),
                    None => boots.push((boot, vec![log - of_cell])),
                }
            }
        }
        let values = |(kind, boots): (Vec<usize>, Vec<(usize, Vec<f64>)>)| {
            let middle = mean(&kind_means[&kind]);
            boots.into_iter().map(move |(_, own)| (kind.clone(), (middle + mean(&own)).exp()))
        };
        of_kinds.into_iter().flat_map(values).collect()
    }
}

fn of_factorial(
    data: &Data<'_>,
    plots: &Plots,
    question: &Question,
) -> Result<(Vec<Effect>, Vec<Noise>), String> {
    let Data { factors, values, blocks, .. } = *data;
    let places = data.places().ok_or("a cell has a level that no factor has")?;
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
    let mut found = factorial::analyse(&counts, &plots.whole, &observations, question.level)
        .map_err(|e| format!("no effects: {e}"))?;
    between_boots(data, &places, &plots.boots, question.level, &mut found.effects)
        .map_err(|e| format!("no effects of boots: {e}"))?;
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

/// Puts what the boots say in place of the effects that are of the boots alone: each is one value, whatever number of blocks it was
/// measured in.
fn between_boots(
    data: &Data<'_>,
    places: &[Vec<usize>],
    boot_places: &[usize],
    level: f64,
    effects: &mut [factorial::Effect],
) -> Result<(), FactorialError> {
    if boot_places.is_empty() {
        return Ok(());
    }
    let units = data.of_boots(places, boot_places);
    let units: Vec<Observation<'_>> = units
        .iter()
        .map(|(levels, value)| Observation { levels, block: 0, value: *value })
        .collect();
    let counts: Vec<usize> = boot_places.iter().map(|at| data.factors[*at].1.len()).collect();
    for effect in effects {
        let among_boots = |(factor, level): &(usize, usize)| {
            Some((boot_places.iter().position(|at| at == factor)?, *level))
        };
        let of: Option<Vec<(usize, usize)>> = effect.of.iter().map(among_boots).collect();
        let Some(of) = of else { continue };
        let between = factorial::between_units(&counts, &of, &units, level)?;
        *effect = factorial::Effect { of: effect.of.clone(), ..between };
    }
    Ok(())
}

/// Each level against the first, over all cells that allow it.
fn main_effects(
    factors: &[Named],
    cells: &[Cell],
    values: &Values,
    boots: &Boots,
    question: &Question,
) -> Vec<Effect> {
    let one = |factor: &String, level: &String, base: &String| {
        let side = |level: &String| BTreeMap::from([(factor.clone(), level.clone())]);
        let (level_side, base_side) = (side(level), side(base));
        let sides = (Side(&level_side), Side(&base_side));
        let logs = contrasts::between(cells, values, boots, sides.0, sides.1).ok()?;
        let shift = logs.shift(question.level).ok()?;
        let ratio = shift.map(f64::exp);
        Some(Effect {
            of: vec![(factor.clone(), level.clone())],
            against: vec![(factor.clone(), base.clone())],
            ratio,
            ranked: ratio,
            p_adjusted: logs.test().ok()?.p,
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
    boots: &Boots,
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
            let logs = contrasts::between(cells, values, boots, Side(&one), Side(&base));
            let Ok(logs) = logs else { continue };
            let (Ok(test), Ok(shift)) = (logs.test(), logs.shift(level)) else { continue };
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

    const GROUPED: [(&str, &[&str]); 2] =
        [("filesystem", &["ext4", "xfs"]), ("depth", &["1", "2", "4", "8"])];

    fn as_setup(sample: &mut Sample, factor: usize) {
        let key = format!("filesystem.{}", sample.plan.factors[factor].name);
        sample.plan.factors[factor].sets = FactorKind::Setup { key };
        sample.plan.design.groups_setups = true;
    }

    /// The first factor is what was booted: each block goes through both, and begins with the boot that the one before ended with.
    fn as_boot(sample: &mut Sample, boot: impl Fn(usize, u32) -> usize) {
        let (factor, levels) = {
            let first = &mut sample.plan.factors[0];
            first.sets = FactorKind::Boot { parameter: first.name.clone() };
            (first.name.clone(), first.levels.clone())
        };
        for cell in &mut sample.cells {
            let level = level_of(cell, &factor).expect("a level").to_owned();
            cell.boot.insert(factor.clone(), level);
        }
        for record in &mut sample.records {
            let own = record.cell.as_mut().expect("a cell");
            let place = levels.iter().position(|level| *level == own.levels[0].1).expect("known");
            own.boot_id = Some(format!("{place}-{}", boot(place, own.slot.block)));
        }
    }

    fn in_turn(place: usize, block: u32) -> usize {
        (block as usize + usize::from(place == 0)) / 2
    }

    /// How many of so many made-up experiments with nothing but noise call the first factor's levels different: 1 % in each trial and 3 %
    /// in each `unit` of a level.
    fn share_found(sample: &Sample, plots: &Plots, unit: impl Fn(usize, u32) -> usize) -> f64 {
        const ROUNDS: u64 = 1000;
        let question = Question::new(fathom_stats::equivalence::Better::Higher);
        let records: Vec<&fathom_model::record::Record> = sample.records.iter().collect();
        let boots = Boots::new(&sample.cells, &records);
        let factors = levels(&sample.plan, &sample.cells, &sample.cells[0]);
        let blocks: Vec<u32> = (0..sample.plan.design.blocks).collect();
        let is_found = |seed: u64| {
            let mut prng = Prng::new(seed, 0);
            let mut units: BTreeMap<(usize, usize), f64> = BTreeMap::new();
            let mut values: Values = vec![BTreeMap::new(); sample.cells.len()];
            for block in &blocks {
                for (cell, own) in sample.cells.iter().zip(&mut values) {
                    let place = usize::from(cell.levels[0].1 != factors[0].1[0]);
                    let of_unit = *units
                        .entry((place, unit(place, *block)))
                        .or_insert_with(|| noise(&mut prng, 0.03));
                    own.insert(*block, 1e5 * of_unit * noise(&mut prng, 0.01));
                }
            }
            let cells = &sample.cells;
            let data =
                Data { factors: &factors, cells, values: &values, blocks: &blocks, boots: &boots };
            let (got, _) = of_factorial(&data, plots, &question).expect("balanced");
            got[0].ratio.interval.is_some_and(|interval| !interval.contains(1.0))
        };
        (0..ROUNDS).filter(|seed| is_found(*seed)).count() as f64 / ROUNDS as f64
    }

    /// Eight equal cells, two filesystems by four depths, with 3 % between builds: at most 5 % of the experiments call a filesystem
    /// faster or slower. Without grouping nobody knows which cells are alike.
    #[test]
    fn setups_that_share_a_build_are_tested_between_builds() {
        let mut sample = Sample::new(&GROUPED, 8, |_, _| 1000.0);
        as_setup(&mut sample, 0);
        let named = levels(&sample.plan, &sample.cells, &sample.cells[0]);
        let grouped = Plots::of(&sample.plan, &named);
        sample.plan.design.groups_setups = false;
        let apart = Plots::of(&sample.plan, &named);
        let found =
            [&grouped, &apart].map(|plots| share_found(&sample, plots, |_, block| block as usize));
        assert!((0.03..0.075).contains(&found[0]) && found[1] > 0.2, "{found:?}");
    }

    /// The same where boots differ by 3 %, and the last boot of one block is the first of the next.
    #[test]
    fn boots_are_tested_between_boots() {
        let mut sample = Sample::new(&GROUPED, 12, |_, _| 1000.0);
        sample.plan.design.blocks = 12;
        as_boot(&mut sample, in_turn);
        let named = levels(&sample.plan, &sample.cells, &sample.cells[0]);
        let plots = Plots::of(&sample.plan, &named);
        let found = share_found(&sample, &plots, in_turn);
        // What the blocks' own contrasts would say: each boot counts in two of them.
        let of_blocks = Plots { boots: Vec::new(), ..plots };
        let found_in_blocks = share_found(&sample, &of_blocks, in_turn);
        assert!(
            (0.03..0.075).contains(&found) && found_in_blocks > 0.1,
            "{found} {found_in_blocks}"
        );
    }

    /// Twelve blocks in two boots are two boots; the other factor, and what both do together, are known within them.
    #[test]
    fn two_boots_prove_nothing() {
        let of = |boot: fn(usize, u32) -> usize| {
            let mut prng = Prng::new(3, 0);
            let mut sample = Sample::new(&GROUPED, 12, |cell, _| {
                let (xfs, deep) = (cell.levels[0].1 == "xfs", cell.levels[1].1 != "1");
                1e3 * if xfs { 1.1 } else { 1.0 }
                    * if deep { 1.5 } else { 1.0 }
                    * noise(&mut prng, 0.005)
            });
            as_boot(&mut sample, boot);
            study_experiment(&sample.plan, &sample.cells, &sample.records)
        };
        let (two, many) = (of(|_, _| 0), of(in_turn));
        let first =
            |study: &crate::experiment::ExperimentStudy| study.effects[0].effects[0].clone();
        assert!(
            (first(&two).ratio.value - 1.1).abs() < 0.01 && first(&two).ratio.interval.is_none()
        );
        assert_eq!((first(&two).p_adjusted, first(&two).decision), (1.0, Decision::Inconclusive));
        assert_eq!((first(&many).ratio.count, first(&many).decision), (13, Decision::Faster));
        for effect in &two.effects[0].effects[1..] {
            assert!(effect.ratio.interval.is_some(), "{effect:?}");
        }
        assert_eq!(two.effects[0].effects[1].decision, Decision::Faster, "deep against flat");
        // Cells of both boots, the ranking and what is said of it.
        let change = |study: &crate::experiment::ExperimentStudy, cell: usize| {
            study.cells[cell].figures[0].as_ref().and_then(|own| own.change.clone()).expect("both")
        };
        assert_eq!(change(&two, 4).answer.ratio.interval, None);
        assert_eq!(change(&two, 1).decision, Decision::Faster);
        assert_eq!(
            (change(&many, 4).decision, change(&many, 4).answer.ratio.count),
            (Decision::Faster, 13)
        );
        assert!(two.ranking.leaders.contains(&1) && !many.ranking.leaders.contains(&1));
        let said = |study: &crate::experiment::ExperimentStudy| {
            study.findings.iter().find(|found| found.id == "few-boots").cloned()
        };
        let found = said(&two).expect("said");
        assert!(
            found.summary.contains("1 boot with filesystem=ext4, 1 boot with filesystem=xfs"),
            "{found:?}"
        );
        assert_eq!(said(&many), None);
        assert!(two.findings.iter().all(|found| found.id != "too-few-blocks"));
    }

    /// Records of older versions do not tell their boot: they may all be of one.
    #[test]
    fn unknown_boots_are_one() {
        let mut sample = sample(12);
        as_boot(&mut sample, in_turn);
        for record in &mut sample.records {
            record.cell.as_mut().expect("a cell").boot_id = None;
        }
        let found = effects(&sample).remove(0);
        assert_eq!((found.effects[0].ratio.interval, found.effects[0].ratio.count), (None, 2));
    }

    /// Where every factor makes a build, each cell is built for itself, and the plan's grouping groups nothing.
    #[test]
    fn cells_that_are_builds_share_none() {
        let grouped = |is_grouped: bool| {
            let mut sample = sample(8);
            as_setup(&mut sample, 0);
            as_setup(&mut sample, 1);
            sample.plan.design.groups_setups = is_grouped;
            effects(&sample).remove(0).effects
        };
        assert_eq!(grouped(true), grouped(false));
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
