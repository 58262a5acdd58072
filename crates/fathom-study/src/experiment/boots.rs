//! Which trials share a boot of the machine. What only that boot has (where the kernel put its memory and interrupts, what was started in
//! which order) is in all of them alike, so that cells of different boots are compared boot by boot: two boots are two values, however
//! many blocks were measured in them. Cells that were measured in different blocks, as the levels of a narrowing design are, are compared by
//! how each stood to the baseline beside it.

use super::cells::Values;
use super::values::pairs;
use fathom_model::finding::{Finding, Severity};
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
    /// The place of the cell that is measured beside all others.
    baseline: Option<usize>,
}

/// How one thing stands to another: logarithms.
#[derive(Debug, Clone, PartialEq)]
pub enum Logs {
    /// Of the ratio, in each block.
    Pairs(Vec<f64>),
    /// Of each by itself, the one that is compared with first: its boots, where the two were never booted alike; or its ratio to the baseline
    /// in each block, where they have few blocks in common. Blocks that they do have in common hold the same baseline, which makes the two
    /// more alike than rank sums take them for: at the worst too little is concluded.
    Apart(Vec<f64>, Vec<f64>),
}

impl Logs {
    /// The logarithm of the ratio, with its interval by ranks.
    pub fn shift(&self, level: f64) -> Result<Estimate, StatsError> {
        match self {
            Self::Pairs(ratios) => hodges_lehmann(ratios, level),
            Self::Apart(base, own) => hodges_lehmann_shift(base, own, level),
        }
    }

    /// The rank test that belongs to it.
    pub fn test(&self) -> Result<RankTest, StatsError> {
        match self {
            Self::Pairs(ratios) => signed_rank_test(ratios),
            Self::Apart(base, own) => rank_sum_test(base, own),
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
        Self { kinds, of, baseline: None }
    }

    /// With the place of the cell that is measured beside all others.
    pub fn beside(self, baseline: usize) -> Self {
        Self { baseline: Some(baseline), ..self }
    }

    /// Of these cells alone, by their places.
    pub fn only(&self, places: &[usize]) -> Self {
        let kinds = places.iter().map(|at| self.kinds[*at].clone()).collect();
        let baseline = places.iter().position(|at| Some(*at) == self.baseline);
        Self { kinds, of: places.iter().map(|at| self.of[*at].clone()).collect(), baseline }
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
            return (!base.is_empty() && !own.is_empty()).then_some(Logs::Apart(base, own));
        }
        let (a, b) = pairs(values.get(base)?, values.get(cell)?);
        let apart = self.apart(values, (base, cell), a.len());
        apart.or_else(|| log_ratios(&a, &b).ok().map(Logs::Pairs))
    }

    /// Where two cells have not half as many blocks in common as each has with the baseline: how each stands to that.
    fn apart(&self, values: &Values, (base, cell): (usize, usize), common: usize) -> Option<Logs> {
        let baseline = self.baseline.filter(|at| !self.are_apart(*at, base))?;
        let of = |cell: usize| {
            let (a, b) = pairs(values.get(baseline)?, values.get(cell)?);
            log_ratios(&a, &b).ok()
        };
        let (base, own) = (of(base)?, of(cell)?);
        (2 * common < base.len().min(own.len())).then_some(Logs::Apart(base, own))
    }

    /// The same with a decision.
    pub fn compare(
        &self,
        values: &Values,
        (base, cell): (usize, usize),
        question: &Question,
    ) -> Option<Comparison> {
        match self.between(values, base, cell)? {
            Logs::Pairs(_) => {
                let (a, b) = pairs(values.get(base)?, values.get(cell)?);
                compare_paired(&a, &b, question).ok()
            }
            Logs::Apart(base, own) => {
                let values = |logs: Vec<f64>| logs.into_iter().map(f64::exp).collect::<Vec<_>>();
                compare_unpaired(&values(base), &values(own), question).ok()
            }
        }
    }
}

/// Blocks with trials of several boots, though they need none: an experiment that was broken off was taken up after another boot.
pub fn mixed(cells: &[Cell], records: &[&Record]) -> Option<Finding> {
    let mut of_blocks: BTreeMap<(u32, &BTreeMap<String, String>), Vec<&str>> = BTreeMap::new();
    for own in records.iter().filter_map(|record| record.cell.as_deref()) {
        let cell = cells.iter().find(|cell| cell.index == own.slot.cell);
        if let Some((cell, boot)) = cell.zip(own.boot_id.as_deref()) {
            let boots = of_blocks.entry((own.slot.block, &cell.boot)).or_default();
            if !boots.contains(&boot) {
                boots.push(boot);
            }
        }
    }
    let short = |boot: &&str| boot.split('-').next().unwrap_or_default().to_owned();
    let several = of_blocks.iter().filter(|(_, boots)| boots.len() > 1);
    let words: Vec<String> = several
        .map(|((block, _), boots)| {
            let boots: Vec<String> = boots.iter().map(short).collect();
            format!("block {} in {}", block + 1, boots.join(", "))
        })
        .collect();
    let named = match words.as_slice() {
        [] => return None,
        [a, b, c, rest @ ..] if !rest.is_empty() => {
            format!("{a}; {b}; {c}; and {} more", rest.len())
        }
        few => few.join("; "),
    };
    let text = format!(
        "the machine was booted in the middle of a block, so that its trials are of several boots ({named}): what differs from boot to boot \
         is in what is compared within it"
    );
    Some(
        Finding::new("mixed-boots", Severity::Note, text)
            .advise("one such block among many matters little; where there are few blocks, begin anew with --new"),
    )
}

#[cfg(test)]
mod tests {
    use crate::experiment::sample::{Sample, noise};
    use crate::experiment::study;
    use fathom_base::prng::Prng;
    use fathom_model::finding::Verdict;

    #[test]
    fn a_block_of_several_boots_is_named() {
        let mut prng = Prng::new(1, 0);
        let mut sample =
            Sample::new(&[("a", &["x", "y", "z"])], 10, |_, _| 1000.0 * noise(&mut prng, 0.01));
        let told = |sample: &Sample| {
            let study = study(&sample.plan, &sample.cells, &sample.records);
            let of_boots = study.findings.iter().find(|found| found.id == "mixed-boots");
            (study.verdict, of_boots.map(|found| found.summary.clone()))
        };
        assert_eq!(told(&sample), (Verdict::Trusted, None), "nobody knows");
        let boots = ["67d61fc3-3fe7-46af", "0b1c5f00-1111-2222"];
        for (at, record) in sample.records.iter_mut().enumerate() {
            let boot = boots[usize::from(at >= 12)].to_owned();
            record.cell.as_mut().expect("a cell").boot_id = Some(boot);
        }
        assert_eq!(told(&sample), (Verdict::Trusted, None), "between two blocks");
        sample.records[12].cell.as_mut().expect("a cell").boot_id = Some(boots[0].to_owned());
        let (verdict, summary) = told(&sample);
        let summary = summary.expect("told");
        assert_eq!(verdict, Verdict::Trusted);
        assert!(summary.contains("(block 5 in 67d61fc3, 0b1c5f00)"), "{summary}");
    }
}
