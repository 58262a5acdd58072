//! How sure an experiment must be, and whether it may stop: the looks that were planned before it began.
//!
//! Looking again and again until something is "significant" finds differences that are not there. Here each planned look has
//! its own part of the error (see [`fathom_stats::sequential`]), so that over all looks at most 5 % of equal pairs are called
//! different, and a look between them costs nothing because it decides nothing.

use fathom_model::plan::Plan;
use fathom_stats::equivalence::Decision as Answer;
use fathom_stats::interval::Interval;
use fathom_stats::sequential::{LOOKS, Schedule};
use serde::Serialize;

/// Confidence of the whole experiment.
pub const LEVEL: f64 = 0.95;
/// An interval that reaches no farther than this to either side is narrow enough, whatever it decides, in percent.
pub const NARROW_PERCENT: f64 = 2.0;

/// Whether an experiment has its answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Measure on, until there are so many blocks.
    Measure {
        /// Blocks in all.
        blocks: u32,
    },
    /// Everything that was asked is decided, or known narrowly enough.
    Answered,
    /// All blocks are measured, and something is still open.
    Exhausted,
}

/// The planned looks of a plan, in blocks: 8, 12, 18, 25 and then each time half as many again, as far as the plan goes, and its end.
/// One look, at the end, where the plan is not sequential.
#[must_use]
pub fn looks(plan: &Plan) -> Vec<usize> {
    let last = plan.design.blocks.max(1) as usize;
    let later = std::iter::successors(LOOKS.last().copied(), |look| Some(look + look / 2)).skip(1);
    let all = LOOKS.into_iter().chain(later).take_while(|look| *look < last);
    all.filter(|_| plan.design.is_sequential).chain([last]).collect()
}

/// Confidence of each interval after so many blocks: of the look that they belong to.
#[must_use]
pub fn level(plan: &Plan, blocks: usize) -> f64 {
    let schedule = Schedule::new(&looks(plan), LEVEL).ok();
    let look = schedule.as_ref().and_then(|schedule| schedule.look_at(blocks));
    // Blocks beyond the plan, as after a plan was edited: the last look's.
    let last = || schedule.as_ref()?.looks().last().copied();
    look.or_else(last).map_or(LEVEL, |look| look.level)
}

/// What follows after so many blocks, given whether everything asked is settled.
#[must_use]
pub fn next(plan: &Plan, blocks_done: u32, is_settled: bool) -> Decision {
    let looks = looks(plan);
    let done = blocks_done as usize;
    let is_look = looks.contains(&done) && plan.design.is_sequential;
    let later = looks.iter().find(|look| **look > done);
    match later {
        _ if is_look && is_settled => Decision::Answered,
        Some(look) => Decision::Measure { blocks: *look as u32 },
        None if is_settled => Decision::Answered,
        None => Decision::Exhausted,
    }
}

/// One question needs no more blocks: a verdict, or an interval as narrow as it need be.
#[must_use]
pub fn is_settled(answer: Answer, ratio: Option<Interval>) -> bool {
    answer != Answer::Inconclusive || ratio.is_some_and(is_narrow)
}

/// A ratio that is known to within 2 %: more blocks tell nothing that matters.
pub(super) fn is_narrow(ratio: Interval) -> bool {
    let wide = 2.0 * (0.01 * NARROW_PERCENT).ln_1p();
    (ratio.high / ratio.low).ln() <= wide
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::sample;

    fn plan(blocks: u32, is_sequential: bool) -> Plan {
        let mut plan = sample::plan(&[]);
        (plan.design.blocks, plan.design.is_sequential) = (blocks, is_sequential);
        plan
    }

    #[test]
    fn looks_end_with_the_plan() {
        assert_eq!(looks(&plan(25, true)), [8, 12, 18, 25]);
        assert_eq!(looks(&plan(15, true)), [8, 12, 15]);
        assert_eq!(looks(&plan(8, true)), [8]);
        assert_eq!(looks(&plan(5, true)), [5]);
        assert_eq!(looks(&plan(25, false)), [25]);
        assert_eq!(looks(&plan(100, true)), [8, 12, 18, 25, 37, 55, 82, 100]);
        assert_eq!(looks(&plan(1000, true))[8..], [184, 276, 414, 621, 931, 1000]);
        assert_eq!(looks(&plan(1000, false)), [1000]);
    }

    #[test]
    fn the_looks_together_have_the_whole_error() {
        let plan = plan(25, true);
        let errors: f64 = looks(&plan).into_iter().map(|n| 1.0 - level(&plan, n)).sum();
        assert!((errors - (1.0 - LEVEL)).abs() < 1e-12, "{errors}");
        // Ended between two looks: the later one's part.
        assert_eq!(level(&plan, 10), level(&plan, 12));
        assert_eq!(level(&plan, 30), level(&plan, 25));
        assert_eq!(level(&self::plan(25, false), 8), LEVEL);
    }

    #[test]
    fn only_looks_stop() {
        let plan = plan(25, true);
        assert_eq!(next(&plan, 0, false), Decision::Measure { blocks: 8 });
        assert_eq!(next(&plan, 7, true), Decision::Measure { blocks: 8 });
        assert_eq!(next(&plan, 8, true), Decision::Answered);
        assert_eq!(next(&plan, 8, false), Decision::Measure { blocks: 12 });
        assert_eq!(next(&plan, 10, true), Decision::Measure { blocks: 12 });
        assert_eq!(next(&plan, 25, false), Decision::Exhausted);
        assert_eq!(next(&plan, 25, true), Decision::Answered);
        let plan = self::plan(8, false);
        assert_eq!(next(&plan, 4, true), Decision::Measure { blocks: 8 });
    }
}
