//! Which trials share a boot of the machine. What only that boot has (where the kernel put its memory and interrupts, what was started in
//! which order) is in all of them alike, so that cells of different boots are compared boot by boot: two boots are two values, however
//! many blocks were measured in them.

use super::cells::Values;
use super::values::pairs;
use fathom_model::plan::cell::Cell;
use fathom_model::record::Record;
use fathom_stats::equivalence::{Comparison, Question, compare_paired, compare_unpaired};
use fathom_stats::error::StatsError;
use fathom_stats::interval::Estimate;
use fathom_stats::rank::RankTest;
use fathom_stats::rank::paired::{hodges_lehmann, log_ratios, signed_rank_test};
use fathom_stats::rank::unpaired::{hodges_lehmann_shift, rank_sum_test};
use std::collections::{BTreeMap, BTreeSet};

/// The boots of an experiment's trials.
#[derive(Debug, Clone)]
pub struct Boots {
    /// What each cell must be booted with, in words; empty where it is nothing.
    kinds: Vec<String>,
    /// Number of the boot in which each cell was measured, by block.
    of: Vec<BTreeMap<u32, usize>>,
}

/// How one thing stands to another: logarithms.
#[derive(Debug, Clone, PartialEq)]
pub enum Logs {
    /// Of the ratio, in each block.
    Pairs(Vec<f64>),
    /// Of both, the one that is compared with first, in each of its boots: they were never booted alike.
    Boots(Vec<f64>, Vec<f64>),
}

impl Logs {
    /// The logarithm of the ratio, with its interval by ranks.
    pub fn shift(&self, level: f64) -> Result<Estimate, StatsError> {
        match self {
            Self::Pairs(ratios) => hodges_lehmann(ratios, level),
            Self::Boots(base, own) => hodges_lehmann_shift(base, own, level),
        }
    }

    /// The rank test that belongs to it.
    pub fn test(&self) -> Result<RankTest, StatsError> {
        match self {
            Self::Pairs(ratios) => signed_rank_test(ratios),
            Self::Boots(base, own) => rank_sum_test(base, own),
        }
    }
}

impl Boots {
    /// Those in which the records that count were made. Where nobody knows the boot, all trials with the same parameters are of one: at
    /// the worst too little is concluded.
    pub fn new(cells: &[Cell], records: &[&Record]) -> Self {
        let kind = |cell: &Cell| {
            let words: Vec<String> =
                cell.boot.iter().map(|(p, level)| format!("{p}={level}")).collect();
            words.join(" ")
        };
        let kinds: Vec<String> = cells.iter().map(kind).collect();
        let mut of = vec![BTreeMap::new(); cells.len()];
        let mut known: Vec<(&str, Option<&str>)> = Vec::new();
        for own in records.iter().filter_map(|record| record.cell.as_deref()) {
            let place = cells.iter().position(|cell| cell.index == own.slot.cell);
            let Some(place) = place.filter(|_| !own.slot.is_sentinel) else { continue };
            let boot = (kinds[place].as_str(), own.boot_id.as_deref());
            let number = known.iter().position(|other| *other == boot).unwrap_or_else(|| {
                known.push(boot);
                known.len() - 1
            });
            of[place].insert(own.slot.block, number);
        }
        Self { kinds, of }
    }

    /// Of these cells alone, by their places.
    pub fn only(&self, places: &[usize]) -> Self {
        let kinds = places.iter().map(|at| self.kinds[*at].clone()).collect();
        Self { kinds, of: places.iter().map(|at| self.of[*at].clone()).collect() }
    }

    /// What a cell must be booted with, in words.
    pub fn kind(&self, cell: usize) -> &str {
        &self.kinds[cell]
    }

    /// True for cells that cannot be measured in one boot.
    pub fn are_apart(&self, a: usize, b: usize) -> bool {
        self.kinds[a] != self.kinds[b]
    }

    /// The boot of a trial.
    pub fn boot(&self, cell: usize, block: u32) -> Option<usize> {
        self.of[cell].get(&block).copied()
    }

    /// What the machine was booted with, and in how many boots that was measured, in the order of cells.
    pub fn counts(&self) -> Vec<(&str, usize)> {
        let mut found: Vec<(&str, BTreeSet<usize>)> = Vec::new();
        for (kind, of) in self.kinds.iter().zip(&self.of).filter(|(_, of)| !of.is_empty()) {
            match found.iter_mut().find(|(known, _)| known == kind) {
                Some((_, boots)) => boots.extend(of.values()),
                None => found.push((kind, of.values().copied().collect())),
            }
        }
        found.into_iter().map(|(kind, boots)| (kind, boots.len())).collect()
    }

    /// Values by block as one for each boot: the mean of their logarithms.
    pub fn means(&self, cell: usize, logs: impl Iterator<Item = (u32, f64)>) -> Vec<f64> {
        let mut of_boots: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
        for (block, log) in logs {
            let Some(boot) = self.boot(cell, block) else { continue };
            let (sum, count) = of_boots.entry(boot).or_default();
            *sum += log;
            *count += 1.0;
        }
        of_boots.into_values().map(|(sum, count)| sum / count).collect()
    }

    fn logs(&self, values: &Values, cell: usize) -> Vec<f64> {
        self.means(cell, values[cell].iter().map(|(block, value)| (*block, value.ln())))
    }

    /// How `cell` stands to `base`; none without a value of both.
    pub fn between(&self, values: &Values, base: usize, cell: usize) -> Option<Logs> {
        if self.are_apart(base, cell) {
            let (base, own) = (self.logs(values, base), self.logs(values, cell));
            return (!base.is_empty() && !own.is_empty()).then_some(Logs::Boots(base, own));
        }
        let (a, b) = pairs(values.get(base)?, values.get(cell)?);
        log_ratios(&a, &b).ok().map(Logs::Pairs)
    }

    /// The same with a decision.
    pub fn compare(
        &self,
        values: &Values,
        (base, cell): (usize, usize),
        question: &Question,
    ) -> Option<Comparison> {
        if !self.are_apart(base, cell) {
            let (a, b) = pairs(values.get(base)?, values.get(cell)?);
            return compare_paired(&a, &b, question).ok();
        }
        let of =
            |cell: usize| self.logs(values, cell).into_iter().map(f64::exp).collect::<Vec<_>>();
        compare_unpaired(&of(base), &of(cell), question).ok()
    }
}
