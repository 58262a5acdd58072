//! When to stop repeating: look after some blocks, stop as soon as every question is answered, at the latest at the maximum,
//! and be wrong no more often than stated.
//!
//! Looking several times at growing data with a plain 95 % interval calls about one of nine equal pairs different.
//! Here the error is divided among the looks in proportion to the blocks that each adds (the linear spending function:
//! K. Kim, D. L. DeMets, Biometrika 74, 1987, with rho = 1), and each look uses its own part alone. The parts add up to
//! the stated error, so by Bonferroni's inequality the error over all looks is at most that, whatever ties the looks
//! together. Boundaries that make use of the looks' correlation (Pocock, O'Brien and Fleming, Lan and DeMets) would give
//! intervals about a tenth narrower, but rely on noise of one size.
//!
//! What it rests on: within each block the order of A and B is drawn at random. Then, when A and B are the same, each
//! log-ratio is as likely to be positive as negative whatever the noise is, skewed, drifting or autocorrelated, and the
//! signed-rank interval at each look is exact. With a fixed order (always A first), drift looks like a difference.

use crate::equivalence::{Comparison, Decision, Question, compare_paired};
use crate::error::{StatsError, check_share};
use serde::Serialize;

/// The usual looks, in blocks. Six blocks would be enough for a decision at 0.95, but not at a part of the error.
pub const LOOKS: [usize; 4] = [8, 12, 18, 25];

/// One look at the data.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Look {
    /// Complete blocks at this look.
    pub blocks: usize,
    /// Confidence level of its interval, 0 to 1; above that of the whole.
    pub level: f64,
}

/// The looks of an experiment, fixed before it begins.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Schedule {
    looks: Vec<Look>,
}

/// What one question's data say at a look.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Answer {
    /// Ratio, interval and decision, at the level of the look.
    pub comparison: Comparison,
    /// Whether the interval is as narrow as was asked for.
    pub is_narrow: bool,
}

impl Answer {
    /// True when no more blocks are needed for this question.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.is_narrow || self.comparison.decision != Decision::Inconclusive
    }
}

/// What to do after a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Next {
    /// Measure on and look again at this number of blocks.
    Measure {
        /// Blocks in all at the next look.
        blocks: usize,
    },
    /// Every question is answered.
    Answered,
    /// Some are not, and the last look is over: say so.
    Exhausted,
}

impl Schedule {
    /// Looks after these numbers of complete blocks, rising, such as [`LOOKS`]. `level` is the confidence over all looks:
    /// 0.95 lets at most 5 % of equal pairs be called faster or slower. Each question has that rate for itself; so that it
    /// holds for m questions together, give 1 - (1 - level) / m.
    ///
    /// # Errors
    /// A level outside 0 to 1, no look, or numbers that do not rise from at least 1.
    pub fn new(looks: &[usize], level: f64) -> Result<Self, StatsError> {
        check_share(level)?;
        let most = *looks.last().ok_or(StatsError::TooFew { count: 0, needed: 1 })?;
        let mut before = 0;
        let mut look = |blocks: usize| {
            if blocks <= before {
                let (count, needed) = (blocks as u64, before as u64 + 1);
                return Err(StatsError::TooFew { count, needed });
            }
            let part = (blocks - before) as f64 / most as f64;
            before = blocks;
            Ok(Look { blocks, level: 1.0 - (1.0 - level) * part })
        };
        Ok(Self { looks: looks.iter().map(|blocks| look(*blocks)).collect::<Result<_, _>>()? })
    }

    /// The looks, in order.
    #[must_use]
    pub fn looks(&self) -> &[Look] {
        &self.looks
    }

    /// The look that this number of blocks counts as: the first that is not earlier. Between two looks only an experiment
    /// that ends there (out of time, interrupted) may be judged, once, because it uses up the later look's part of the
    /// error. None beyond the last look.
    #[must_use]
    pub fn look_at(&self, blocks: usize) -> Option<Look> {
        self.looks.iter().copied().find(|look| look.blocks >= blocks)
    }

    /// Compares A and B, whose values are of the same block in the same place, in the order of measuring. The question's
    /// level is replaced by that of the look. `half_width_percent` is how narrow is narrow enough: 2 for -+ 2 %.
    ///
    /// # Errors
    /// Those of [`compare_paired`], or more blocks than the last look has.
    pub fn judge(
        &self,
        a: &[f64],
        b: &[f64],
        question: &Question,
        half_width_percent: f64,
    ) -> Result<Answer, StatsError> {
        let most = self.looks.last().map_or(0, |look| look.blocks) as u64;
        let too_many = StatsError::TooMany { count: a.len() as u64, most };
        let level = self.look_at(a.len()).ok_or(too_many)?.level;
        let comparison = compare_paired(a, b, &Question { level, ..*question })?;
        let wide = 2.0 * (0.01 * half_width_percent).ln_1p();
        let is_narrow = comparison.ratio.interval.is_some_and(|i| (i.high / i.low).ln() <= wide);
        Ok(Answer { comparison, is_narrow })
    }

    /// What to do after this number of blocks, which gave these answers.
    #[must_use]
    pub fn next(&self, blocks: usize, answers: &[Answer]) -> Next {
        if answers.iter().all(Answer::is_settled) {
            return Next::Answered;
        }
        let later = self.looks.iter().find(|look| look.blocks > blocks);
        later.map_or(Next::Exhausted, |look| Next::Measure { blocks: look.blocks })
    }
}

#[cfg(test)]
#[path = "sequential_tests.rs"]
mod tests;
