//! What was expected, and what came out.

use super::boots::{Boots, Logs};
use super::cells::{Values, question};
use super::contrasts::{self, Side};
use super::figures::Figure;
use fathom_model::plan::cell::Cell;
use fathom_model::plan::{Hypothesis, Plan};
use fathom_stats::equivalence::Better;
use fathom_stats::interval::Estimate;
use serde::Serialize;

/// How an expectation ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The whole interval is at least what was expected.
    Confirmed,
    /// The whole interval is below it.
    Refuted,
    /// It may be either.
    Inconclusive,
}

/// The expectation with its outcome.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HypothesisStudy {
    /// In words, from the plan.
    pub text: String,
    /// Which figure, as a place in the study's figures.
    pub figure: usize,
    /// The ratio that was expected at least (for latencies and costs: at most).
    pub expected: f64,
    /// The one that should be better against the other; none when no block has both.
    pub ratio: Option<Estimate>,
    /// How it ended.
    pub outcome: Outcome,
    /// Why nothing could be said.
    pub why: Option<String>,
}

impl HypothesisStudy {
    /// Decided, or such that no further block can decide it.
    pub(super) fn is_settled(&self) -> bool {
        let interval = self.ratio.and_then(|ratio| ratio.interval);
        self.outcome != Outcome::Inconclusive || interval.is_none()
    }
}

/// Judges the plan's expectation by its first ranked figure. Cells that agree in all factors that it does not name are
/// compared with each other, and every such pair counts alike in every block.
#[must_use]
pub fn judge(
    plan: &Plan,
    cells: &[Cell],
    (figure, of): (usize, &Figure),
    values: &Values,
    boots: &Boots,
    level: f64,
) -> Option<HypothesisStudy> {
    let Hypothesis { text, better, than, by } = plan.hypothesis.as_ref()?;
    let direction = question(of, 0.0, level).better;
    let expected = match direction {
        Better::Higher => 1.0 + by,
        Better::Lower => 1.0 - by,
    };
    let logs = contrasts::between(cells, values, boots, Side(better), Side(than));
    let ratio = logs.as_ref().ok().and_then(|logs| logs.shift(level).ok());
    let ratio = ratio.map(|shift| shift.map(f64::exp));
    let why = match (&logs, ratio.and_then(|ratio| ratio.interval)) {
        (Err(why), _) => Some(why.clone()),
        (Ok(Logs::Pairs(logs)), None) => {
            let blocks = logs.len();
            Some(format!("{blocks} blocks are too few for an interval: six are the least"))
        }
        (Ok(Logs::Apart(a, b)), None) => Some(format!(
            "{} boots against {} are too few for an interval: four of each are the least",
            b.len(),
            a.len()
        )),
        (Ok(_), Some(_)) => None,
    };
    let outcome = match ratio.and_then(|ratio| ratio.interval) {
        None => Outcome::Inconclusive,
        Some(interval) => {
            let (all, none) = match direction {
                Better::Higher => (interval.low >= expected, interval.high < expected),
                Better::Lower => (interval.high <= expected, interval.low > expected),
            };
            // "Better" without a size is not confirmed by no change at all.
            let is_better = !interval.contains(1.0);
            match (all && is_better, none) {
                (true, _) => Outcome::Confirmed,
                (_, true) => Outcome::Refuted,
                _ => Outcome::Inconclusive,
            }
        }
    };
    Some(HypothesisStudy { text: text.clone(), figure, expected, ratio, outcome, why })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::sample::{Sample, noise};
    use crate::experiment::{is_decided, looks, study};
    use fathom_base::prng::Prng;

    fn expectation(by: f64) -> Hypothesis {
        let level = |text: &str| [("scheduler".to_owned(), text.to_owned())].into();
        let text = "none is faster than bfq".into();
        Hypothesis { text, better: level("none"), than: level("bfq"), by }
    }

    fn judged(blocks: u32, by: f64, true_ratio: f64) -> HypothesisStudy {
        let mut prng = Prng::new(5, 0);
        let factors: [(&str, &[&str]); 2] =
            [("scheduler", &["none", "bfq"]), ("depth", &["1", "8"])];
        let mut sample = Sample::new(&factors, blocks, |cell, _| {
            let is_none = cell.levels[0].1 == "none";
            let depth = if cell.levels[1].1 == "8" { 3.0 } else { 1.0 };
            1000.0 * depth * if is_none { true_ratio } else { 1.0 } * noise(&mut prng, 0.01)
        });
        sample.plan.hypothesis = Some(expectation(by));
        study(&sample.plan, &sample.cells, &sample.records).hypothesis.expect("one was stated")
    }

    /// That the cells differ answers nothing as long as it is open by how much.
    #[test]
    fn an_open_expectation_goes_on() {
        let mut prng = Prng::new(5, 0);
        let mut sample = Sample::new(&[("scheduler", &["bfq", "none"])], 8, |cell, _| {
            let ratio = [1.0, 1.1][cell.index as usize];
            1000.0 * ratio * noise(&mut prng, 0.02)
        });
        (sample.plan.design.blocks, sample.plan.design.is_sequential) = (25, true);
        let next = |sample: &Sample| is_decided(&sample.plan, &sample.cells, &sample.records);
        assert_eq!(next(&sample), looks::Decision::Answered, "nothing is expected");
        for (by, expected) in [
            (0.1, looks::Decision::Measure { blocks: 12 }),
            // A size that is far away.
            (0.3, looks::Decision::Answered),
        ] {
            sample.plan.hypothesis = Some(expectation(by));
            assert_eq!(next(&sample), expected, "{by}");
        }
    }

    #[test]
    fn three_ways_to_end() {
        assert_eq!(judged(8, 0.1, 1.2).outcome, Outcome::Confirmed);
        assert_eq!(judged(8, 0.1, 1.02).outcome, Outcome::Refuted);
        assert_eq!(judged(8, 0.1, 1.1).outcome, Outcome::Inconclusive);
        assert_eq!(judged(8, 0.0, 1.0).outcome, Outcome::Inconclusive);
        let few = judged(4, 0.1, 1.5);
        assert_eq!(few.outcome, Outcome::Inconclusive);
        assert!(few.why.expect("a reason").contains("too few"));
    }
}
