//! What each factor of an experiment does, and which pairs of factors do something together: main effects and two-way
//! interactions of a full factorial, as ratios with intervals.
//!
//! The model is an analysis of variance of logarithms: block + cell + noise. Effects are contrasts of means of the cells,
//! and the noise is what blocks and cells do not explain, so interactions of three factors and more are in the cells
//! and not in the noise (G. E. P. Box, J. S. Hunter, W. G. Hunter, Statistics for Experimenters, chapters 4 and 5).
//! That assumes noise of one size that is nearly normal. As a check that assumes neither, each effect also comes from
//! its contrasts within the blocks by signed ranks: where the two disagree, believe the ranks.
//!
//! Where several cells share one build or one boot within a block (a split plot), the cells of a build are alike in what only
//! that build has: what blocks and cells do not explain is then of two sizes. Effects of the factors that make the builds rest on as
//! many values as there are blocks, by Student's t of their own contrasts within the blocks; all others are tested against what is
//! left within the builds (Box, Hunter and Hunter, chapter 9).
//!
//! A unit that outlasts a block, such as a boot of the machine, makes blocks alike too: effects of what each unit has in one piece rest
//! on the units alone, see [`between_units`].
//!
//! Only balanced data: every block holds every cell, equally often. Then effects do not leak into each other. What is
//! missing is named in the error; leave out the incomplete block, or repeat the run.

use crate::error::{StatsError, check_positive, check_share};
use crate::interval::{Estimate, Interval};
use crate::jackknife::variance_interval;
use crate::rank::paired::hodges_lehmann;
use crate::rank::unpaired::hodges_lehmann_shift;
use crate::special::{student_cdf, student_quantile};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// The result of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation<'a> {
    /// The level of each factor, counted from 0; level 0 is the one that others are compared with.
    pub levels: &'a [usize],
    /// Which block the run belongs to; any numbers, or all the same when there are no blocks.
    pub block: usize,
    /// What was measured, above 0.
    pub value: f64,
}

/// A main effect, or a two-way interaction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Effect {
    /// Factor and level. One of them: the main effect, level against level 0, over all levels of the other factors. Two
    /// of them: their interaction.
    pub of: Vec<(usize, usize)>,
    /// Main effect: the values' ratio of this level to level 0, 1.1 for 10 % more. Interaction: by what the first
    /// factor's ratio must be multiplied when the second changes from level 0 to its level (on the log scale twice the
    /// textbooks' interaction of two-level factors, which is an average and no difference). 1 means no effect.
    pub ratio: Estimate,
    /// Two-sided p of "no effect", by Student's t. Adjust it when several effects are looked at ([`crate::multiple`]).
    pub p: f64,
    /// The same by Hodges-Lehmann and signed ranks of the contrasts within blocks. Below six blocks (at 0.95) it has no
    /// interval.
    pub ranked: Estimate,
}

/// The noise at one level of a factor.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LevelNoise {
    /// Which factor.
    pub factor: usize,
    /// Which of its levels.
    pub level: usize,
    /// Standard deviation of the logarithm there: 0.03 is 3 %. Variation is a result of its own: a setting may make
    /// the device steadier and not faster. Its interval is by the jackknife over what each block adds to it, from three blocks on.
    pub deviation: Estimate,
}

/// What a factorial experiment says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Factorial {
    /// Geometric mean of all values, in their unit.
    pub mean: f64,
    /// All main effects, then all two-way interactions.
    pub effects: Vec<Effect>,
    /// The noise, per level of each factor.
    pub noise: Vec<LevelNoise>,
    /// The noise over all, standard deviation of the logarithm.
    pub deviation: f64,
    /// Degrees of freedom of the noise.
    pub freedom: usize,
}

/// Data that no factorial can be made of.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum FactorialError {
    /// A value or a confidence level.
    #[error(transparent)]
    Stats(#[from] StatsError),
    /// No factor, or one with a single level.
    #[error(
        "every factor needs at least two levels, and there must be a factor; levels given: {0:?}"
    )]
    Factors(Vec<usize>),
    /// Levels that do not belong to the factors.
    #[error(
        "observation {place} has the levels {levels:?}, but the factors have {factors:?} levels, counted from 0"
    )]
    Levels {
        /// Which, counted from 1.
        place: usize,
        /// What it says.
        levels: Vec<usize>,
        /// What was expected.
        factors: Vec<usize>,
    },
    /// Cells that are not measured equally often.
    #[error(
        "the cell with levels {levels:?} has {found} runs in block {block}, others have {expected}; repeat what is \
         missing or leave out the block"
    )]
    Unbalanced {
        /// The cell.
        levels: Vec<usize>,
        /// The block, by the number given.
        block: usize,
        /// Runs of that cell in that block.
        found: usize,
        /// Runs of the first cell in the first block.
        expected: usize,
    },
    /// One run per cell tells nothing about noise.
    #[error(
        "each cell was measured once, so effects cannot be told from noise; measure at least two blocks"
    )]
    Unreplicated,
}

/// Main effects and two-way interactions of a full factorial with `factors[i]` levels of factor i. `level` is the
/// confidence of each interval. `whole_plots` are the places of the factors whose levels a block has in one piece each, because all
/// cells of one build or boot stand together; none where each run was set up for itself.
///
/// # Errors
/// See [`FactorialError`].
pub fn analyse(
    factors: &[usize],
    whole_plots: &[usize],
    observations: &[Observation<'_>],
    level: f64,
) -> Result<Factorial, FactorialError> {
    check_share(level)?;
    let design = Design::new(factors, observations)?;
    let (residuals, freedom) = design.residuals()?;
    let variance = residuals.iter().map(|e| e * e).sum::<f64>() / freedom as f64;
    let within = design.within_plots(whole_plots, &residuals, freedom);
    let effect = |of: Vec<(usize, usize)>| {
        let is_whole = of.iter().all(|(factor, _)| whole_plots.contains(factor));
        design.effect(of, within.filter(|_| !is_whole), level)
    };
    let effects = terms(factors).into_iter().map(effect).collect::<Result<_, _>>()?;
    let all_levels = (0..factors.len()).flat_map(|f| (0..factors[f]).map(move |l| (f, l)));
    let noise = all_levels.map(|(factor, at)| {
        // Each level has its equal part of the degrees of freedom.
        let share = (factors[factor] * design.blocks.len()) as f64 / freedom as f64;
        let of_block = |block: &usize| {
            let here = |o: &Observation<'_>| o.block == *block && o.levels[factor] == at;
            let there = residuals.iter().zip(observations).filter(|(_, o)| here(o));
            share * there.map(|(e, _)| e * e).sum::<f64>()
        };
        let of_blocks: Vec<f64> = design.blocks.iter().map(of_block).collect();
        let value = mean(of_blocks.iter());
        let found = variance_interval(&of_blocks, |part| mean(part.iter()), level);
        let found = found.unwrap_or(Estimate { value, interval: None, count: of_blocks.len() });
        LevelNoise { factor, level: at, deviation: found.map(f64::sqrt) }
    });
    Ok(Factorial {
        mean: mean(design.logs.iter()).exp(),
        effects,
        noise: noise.collect(),
        deviation: variance.sqrt(),
        freedom,
    })
}

/// Fewest units of each combination of levels for an interval between units.
pub const UNITS_MIN: usize = 4;

/// The effect of factors that each unit (a boot, a machine) has in one piece: the mean of the units' values against that of others, with
/// Student's t of how the units of one combination of levels scatter. `factors` are the numbers of levels of all such factors, `of` is
/// as in [`Effect::of`], and each of `units` is one unit with its value, whatever its block. No interval, and a p of 1, below
/// [`UNITS_MIN`] units of any combination.
///
/// # Errors
/// See [`FactorialError`]; [`FactorialError::Unreplicated`] when a combination has no unit.
pub fn between_units(
    factors: &[usize],
    of: &[(usize, usize)],
    units: &[Observation<'_>],
    level: f64,
) -> Result<Effect, FactorialError> {
    check_share(level)?;
    check_levels(factors, units)?;
    let mut groups: BTreeMap<&[usize], Vec<f64>> = BTreeMap::new();
    for unit in units {
        groups.entry(unit.levels).or_default().push(unit.value.ln());
    }
    if groups.len() < factors.iter().product() {
        return Err(FactorialError::Unreplicated);
    }
    // Of each side of the contrast the mean over all combinations of the other factors' levels.
    let of_side = of.iter().map(|(factor, _)| factors[*factor]).product::<usize>() as f64;
    let weight = |levels: &[usize]| sign(of, levels) * of_side / groups.len() as f64;
    let value: f64 = groups.iter().map(|(levels, own)| weight(levels) * mean(own.iter())).sum();
    let side = |of_side: f64| {
        let mut own = groups.iter().filter(|(levels, _)| sign(of, levels) * of_side > 0.0);
        own.next().filter(|_| own.next().is_none()).map(|(_, logs)| logs)
    };
    let ranked = match (side(-1.0), side(1.0)) {
        (Some(base), Some(own)) => hodges_lehmann_shift(base, own, level)?,
        // Ranks of several combinations together would be those of the combinations.
        _ => Estimate { value, interval: None, count: units.len() },
    };
    let (effect, count) = (of.to_vec(), units.len());
    if groups.values().any(|own| own.len() < UNITS_MIN) {
        let told = |value: f64| Estimate { value, interval: None, count }.map(f64::exp);
        return Ok(Effect { of: effect, ratio: told(value), p: 1.0, ranked: told(ranked.value) });
    }
    let squares = |own: &Vec<f64>| {
        let middle = mean(own.iter());
        own.iter().map(|log| (log - middle).powi(2)).sum::<f64>()
    };
    let freedom = units.len() - groups.len();
    let variance = groups.values().map(squares).sum::<f64>() / freedom as f64;
    let share: f64 =
        groups.iter().map(|(levels, own)| weight(levels).powi(2) / own.len() as f64).sum();
    let (ratio, p) = by_student(value, (variance * share).sqrt(), freedom, level, count);
    Ok(Effect { of: effect, ratio, p, ranked: ranked.map(f64::exp) })
}

fn check_levels(factors: &[usize], observations: &[Observation<'_>]) -> Result<(), FactorialError> {
    if factors.is_empty() || factors.iter().any(|levels| *levels < 2) {
        return Err(FactorialError::Factors(factors.to_vec()));
    }
    let values: Vec<f64> = observations.iter().map(|o| o.value).collect();
    check_positive(&values, 1)?;
    let fits = |o: &Observation<'_>| {
        o.levels.len() == factors.len() && o.levels.iter().zip(factors).all(|(l, n)| l < n)
    };
    match observations.iter().position(|o| !fits(o)) {
        Some(i) => {
            let (levels, factors) = (observations[i].levels.to_vec(), factors.to_vec());
            Err(FactorialError::Levels { place: i + 1, levels, factors })
        }
        None => Ok(()),
    }
}

/// +1 for the level, -1 for level 0, 0 for others; of an interaction the product.
fn sign(of: &[(usize, usize)], levels: &[usize]) -> f64 {
    of.iter()
        .map(|(factor, level)| match levels[*factor] {
            0 => -1.0,
            l if l == *level => 1.0,
            _ => 0.0,
        })
        .product()
}

/// The interval of a logarithm with this standard error, as that of a ratio, and the two-sided p that it is 0.
fn by_student(value: f64, error: f64, freedom: usize, level: f64, count: usize) -> (Estimate, f64) {
    let freedom = freedom as f64;
    let half = -student_quantile(0.5 * (1.0 - level), freedom) * error;
    let interval = Interval { low: value - half, high: value + half, coverage: level };
    // Without any noise a difference is certain, and none is none.
    let p = match error {
        0.0 if value == 0.0 => 1.0,
        _ => 2.0 * student_cdf(-(value / error).abs(), freedom),
    };
    (Estimate { value, interval: Some(interval), count }.map(f64::exp), p)
}

/// All main effects, then all two-way interactions.
fn terms(factors: &[usize]) -> Vec<Vec<(usize, usize)>> {
    let levels = |factor: usize| (1..factors[factor]).map(move |level| (factor, level));
    let main = (0..factors.len()).flat_map(levels).map(|one| vec![one]);
    let pairs = (0..factors.len()).flat_map(|f| (f + 1..factors.len()).map(move |g| (f, g)));
    let both =
        pairs.flat_map(|(f, g)| levels(f).flat_map(move |a| levels(g).map(move |b| vec![a, b])));
    main.chain(both).collect()
}

/// Balanced data, ready for contrasts.
struct Design<'a> {
    factors: &'a [usize],
    observations: &'a [Observation<'a>],
    logs: Vec<f64>,
    /// The blocks' numbers, rising.
    blocks: Vec<usize>,
    /// Runs per cell and block.
    repeats: usize,
}

impl<'a> Design<'a> {
    fn new(
        factors: &'a [usize],
        observations: &'a [Observation<'a>],
    ) -> Result<Self, FactorialError> {
        check_levels(factors, observations)?;
        let blocks: BTreeSet<usize> = observations.iter().map(|o| o.block).collect();
        let blocks: Vec<usize> = blocks.into_iter().collect();
        let logs = observations.iter().map(|o| o.value.ln()).collect();
        let mut design = Self { factors, observations, logs, blocks, repeats: 0 };
        design.repeats = design.check_balance()?;
        Ok(design)
    }

    /// Runs per cell and block, when that is one number.
    fn check_balance(&self) -> Result<usize, FactorialError> {
        let mut expected = None;
        let mut levels = vec![0; self.factors.len()];
        loop {
            for block in &self.blocks {
                let is_here = |o: &&Observation<'_>| o.block == *block && o.levels == levels;
                let found = self.observations.iter().filter(is_here).count();
                let expected = *expected.get_or_insert(found.max(1));
                if found != expected {
                    return Err(FactorialError::Unbalanced {
                        levels,
                        block: *block,
                        found,
                        expected,
                    });
                }
            }
            // The next cell, as a counter with one digit per factor.
            let Some(digit) = (0..levels.len()).find(|i| levels[*i] + 1 < self.factors[*i]) else {
                return Ok(expected.unwrap_or(1));
            };
            levels[..digit].fill(0);
            levels[digit] += 1;
        }
    }

    /// What blocks and cells do not explain, in the order of the observations, and its degrees of freedom.
    fn residuals(&self) -> Result<(Vec<f64>, usize), FactorialError> {
        let count = self.observations.len();
        let cells = count / (self.repeats * self.blocks.len());
        let freedom = (count + 1).saturating_sub(self.blocks.len() + cells);
        if freedom == 0 {
            return Err(FactorialError::Unreplicated);
        }
        let all = mean(self.logs.iter());
        let mean_where = |is_in: &dyn Fn(&Observation<'_>) -> bool| {
            let there = self.observations.iter().zip(&self.logs).filter(|(o, _)| is_in(o));
            mean(there.map(|(_, y)| y))
        };
        let residual = |(o, y): (&Observation<'_>, &f64)| {
            let of_cell = mean_where(&|other| other.levels == o.levels);
            y - of_cell - mean_where(&|other| other.block == o.block) + all
        };
        Ok((self.observations.iter().zip(&self.logs).map(residual).collect(), freedom))
    }

    /// Variance and degrees of freedom of what is left of the residuals when each build of each block has lost its mean; none where
    /// a build has one run.
    fn within_plots(
        &self,
        whole_plots: &[usize],
        residuals: &[f64],
        freedom: usize,
    ) -> Option<(f64, usize)> {
        let plots: usize = whole_plots.iter().map(|factor| self.factors[*factor]).product();
        let freedom = freedom.checked_sub((plots - 1) * (self.blocks.len() - 1))?;
        let plot = |o: &Observation<'_>| {
            (o.block, whole_plots.iter().map(|factor| o.levels[*factor]).collect::<Vec<_>>())
        };
        let mut of_plots: BTreeMap<_, Vec<f64>> = BTreeMap::new();
        for (o, residual) in self.observations.iter().zip(residuals) {
            of_plots.entry(plot(o)).or_default().push(*residual);
        }
        let squares = |own: &Vec<f64>| {
            let middle = mean(own.iter());
            own.iter().map(|e| (e - middle).powi(2)).sum::<f64>()
        };
        let squares: f64 = of_plots.values().map(squares).sum();
        (freedom > 0).then(|| (squares / freedom as f64, freedom))
    }

    /// One effect; `noise` is its variance and degrees of freedom, without which its own contrasts within the blocks must do.
    fn effect(
        &self,
        of: Vec<(usize, usize)>,
        noise: Option<(f64, usize)>,
        level: f64,
    ) -> Result<Effect, StatsError> {
        // Runs behind each of the means that are added or subtracted.
        let runs =
            self.observations.len() / of.iter().map(|(f, _)| self.factors[*f]).product::<usize>();
        let means = (1u32 << of.len()) as f64;
        let blocks = self.blocks.len();
        let in_block = |block: &usize| {
            let there = self.observations.iter().zip(&self.logs).filter(|(o, _)| o.block == *block);
            let sum: f64 = there.map(|(o, y)| sign(&of, o.levels) * y).sum();
            sum * blocks as f64 / runs as f64
        };
        let contrasts: Vec<f64> = self.blocks.iter().map(in_block).collect();
        let value = mean(contrasts.iter());
        let (square, freedom) = match noise {
            Some((variance, freedom)) => (variance * means / runs as f64, freedom),
            None => {
                let squares: f64 = contrasts.iter().map(|c| (c - value).powi(2)).sum();
                (squares / (blocks * (blocks - 1).max(1)) as f64, blocks - 1)
            }
        };
        let count = runs * means as usize;
        let ranked = hodges_lehmann(&contrasts, level)?.map(f64::exp);
        // One block has one contrast, and no noise to compare it with.
        if freedom == 0 {
            let ratio = Estimate { value, interval: None, count }.map(f64::exp);
            return Ok(Effect { of, ratio, p: 1.0, ranked });
        }
        let (ratio, p) = by_student(value, square.sqrt(), freedom, level, count);
        Ok(Effect { of, ratio, p, ranked })
    }
}

fn mean<'a>(values: impl Iterator<Item = &'a f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count)
}

#[cfg(test)]
#[path = "factorial_tests.rs"]
mod tests;
