//! Is B faster than A, slower, or no different as far as it matters? One interval of the ratio answers all three.
//!
//! "Not significant" does not mean "the same". Sameness is claimed only when the whole interval lies within a margin (two
//! one-sided tests, TOST: Schuirmann 1987), difference only when it leaves out "no change", and else the answer is that
//! more blocks are needed.
//!
//! Error rates, with a = 1 - level: B is called faster or slower although it is not with probability at most a (at most
//! a/2 for each direction), and equivalent although it differs by the margin or more with probability at most a/2.

use crate::error::{StatsError, check_positive};
use crate::interval::{Estimate, Interval};
use crate::rank::paired::{hodges_lehmann, log_ratios, signed_rank_test};
use crate::rank::unpaired::{hodges_lehmann_shift, rank_sum_test};
use serde::Serialize;

/// What is better in the values compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Rates: MB/s, IOPS.
    Higher,
    /// Times and costs: latency, CPU per I/O.
    Lower,
}

/// What B is against A.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Better: the interval lies on the better side of "no change", and reaches beyond the margin.
    Faster,
    /// Worse, likewise.
    Slower,
    /// No difference larger than the margin, whether or not there is a smaller one.
    Equivalent,
    /// The interval holds both "no change" and differences beyond the margin, or there are too few runs for one.
    Inconclusive,
}

/// What is asked of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Question {
    /// The largest change, in percent, that does not matter; at least 0. Symmetric on the scale of ratios: 3 means from
    /// 1/1.03 to 1.03, so that swapping A and B swaps the answer.
    pub margin_percent: f64,
    /// Confidence level of the interval, 0 to 1.
    pub level: f64,
    /// Which direction is better.
    pub better: Better,
}

impl Question {
    /// The usual margin of 3 % and level of 0.95.
    #[must_use]
    pub fn new(better: Better) -> Self {
        Self { margin_percent: 3.0, level: 0.95, better }
    }
}

/// The answer, with what it rests on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Comparison {
    /// What was asked.
    pub question: Question,
    /// B / A (Hodges-Lehmann on logs), and its interval; none when the runs are too few for the level.
    pub ratio: Estimate,
    /// Two-sided p of "no difference" by the matching rank test, for adjustment over many comparisons. Ties apart, it is
    /// at most 1 - coverage exactly when the interval leaves out 1.
    pub p: f64,
    /// The smallest p that so few runs can give.
    pub smallest_p: f64,
    /// The answer.
    pub decision: Decision,
}

impl Comparison {
    /// The change from A to B in percent: 12 for a ratio of 1.12, -20 for 0.8.
    #[must_use]
    pub fn change_percent(&self) -> Estimate {
        self.ratio.map(|ratio| 100.0 * (ratio - 1.0))
    }

    /// True when a difference larger than the margin is proven: the whole interval lies beyond it, on either side. A decision of
    /// faster or slower alone says that there is a difference, and that it is not proven to be too small to matter.
    #[must_use]
    pub fn is_beyond_margin(&self) -> bool {
        let limit = 1.0 + 0.01 * self.question.margin_percent;
        self.ratio.interval.is_some_and(|i| i.low > limit || i.high < 1.0 / limit)
    }

    /// True when some difference is proven, however small: the interval leaves out 1.
    #[must_use]
    pub fn is_different(&self) -> bool {
        self.ratio.interval.is_some_and(|interval| !interval.contains(1.0))
    }
}

/// Compares runs that were made side by side: `a[i]` and `b[i]` are of the same block. Several runs of one thing in a block
/// are first reduced to one figure, their geometric mean. At a level of 0.95 at least six blocks are needed for a decision.
///
/// # Errors
/// Sides of different length, no pair, a value that is not finite and above 0, a level outside 0 to 1, a negative margin,
/// or more pairs than [`crate::rank::paired::PAIRS_MAX`].
pub fn compare_paired(a: &[f64], b: &[f64], question: &Question) -> Result<Comparison, StatsError> {
    check_question(question)?;
    let differences = log_ratios(a, b)?;
    let shift = hodges_lehmann(&differences, question.level)?;
    let test = signed_rank_test(&differences)?;
    Ok(comparison(*question, &shift, test.p, test.smallest_p))
}

/// Compares two groups of runs that were not made side by side, such as archives. Drift between the groups cannot be told
/// from a difference. At a level of 0.95 at least four runs on either side are needed for a decision.
///
/// # Errors
/// An empty group, a value that is not finite and above 0, a level outside 0 to 1, a negative margin, or more values than
/// [`hodges_lehmann_shift`] takes.
pub fn compare_unpaired(
    a: &[f64],
    b: &[f64],
    question: &Question,
) -> Result<Comparison, StatsError> {
    check_question(question)?;
    check_positive(a, 1)?;
    check_positive(b, 1)?;
    let logs = |values: &[f64]| values.iter().map(|value| value.ln()).collect::<Vec<f64>>();
    let (a, b) = (logs(a), logs(b));
    let shift = hodges_lehmann_shift(&a, &b, question.level)?;
    let test = rank_sum_test(&a, &b)?;
    Ok(comparison(*question, &shift, test.p, test.smallest_p))
}

fn check_question(question: &Question) -> Result<(), StatsError> {
    let margin = question.margin_percent;
    if margin.is_finite() && margin >= 0.0 { Ok(()) } else { Err(StatsError::Margin(margin)) }
}

fn comparison(question: Question, shift: &Estimate, p: f64, smallest_p: f64) -> Comparison {
    let decision = match &shift.interval {
        Some(interval) => decide(interval, &question),
        None => Decision::Inconclusive,
    };
    Comparison { question, ratio: shift.map(f64::exp), p, smallest_p, decision }
}

/// The decision for an interval of ln(B / A).
#[must_use]
pub fn decide(log_ratio: &Interval, question: &Question) -> Decision {
    let margin = (0.01 * question.margin_percent).ln_1p();
    let (rises, falls) = match question.better {
        Better::Higher => (Decision::Faster, Decision::Slower),
        Better::Lower => (Decision::Slower, Decision::Faster),
    };
    if log_ratio.low > -margin && log_ratio.high < margin {
        Decision::Equivalent
    } else if log_ratio.low > 0.0 {
        rises
    } else if log_ratio.high < 0.0 {
        falls
    } else {
        Decision::Inconclusive
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Eight blocks of sequential reading in MB/s; made up.
    const A: [f64; 8] = [301.2, 298.7, 305.1, 299.9, 302.4, 297.3, 300.8, 303.6];
    const B: [f64; 8] = [338.0, 331.5, 345.2, 333.0, 341.8, 329.4, 340.0, 337.1];

    #[test]
    fn a_sentence_is_easy_to_write() {
        let got = compare_paired(&A, &B, &Question::new(Better::Higher)).unwrap();
        assert_eq!(got.decision, Decision::Faster);
        let change = got.change_percent();
        let interval = change.interval.unwrap();
        let sentence = format!(
            "B reads {:.0} % faster ({:.1} to {:.1} %), {} pairs",
            change.value, interval.low, interval.high, change.count
        );
        assert_eq!(sentence, "B reads 12 % faster (10.9 to 13.0 %), 8 pairs");
        assert!(got.is_different() && got.is_beyond_margin());
        let wide = compare_paired(&A, &B, &Question { margin_percent: 11.0, ..got.question });
        let wide = wide.unwrap();
        assert_eq!((wide.decision, wide.is_beyond_margin()), (Decision::Faster, false));
        assert_eq!(got.p, 2.0 / 256.0);
        // numpy 2.4: exp of the median, fourth smallest and fourth largest of the means of pairs of logs.
        let interval = got.ratio.interval.unwrap();
        assert!((got.ratio.value - 1.120_010_242_304_124).abs() < 1e-13);
        assert!((interval.low - 1.109_170_286_286_548_5).abs() < 1e-13);
        assert!((interval.high - 1.130_319_148_936_170_1).abs() < 1e-13);
    }

    #[test]
    fn lower_is_better_for_latency() {
        let got = compare_paired(&A, &B, &Question::new(Better::Lower)).unwrap();
        assert_eq!(got.decision, Decision::Slower);
        let back = compare_paired(&B, &A, &Question::new(Better::Higher)).unwrap();
        assert_eq!(back.decision, Decision::Slower);
    }

    #[test]
    fn decisions_by_where_the_interval_lies() {
        let decide = |low: f64, high: f64| {
            let interval = Interval { low: low.ln_1p(), high: high.ln_1p(), coverage: 0.95 };
            super::decide(&interval, &Question::new(Better::Higher))
        };
        assert_eq!(decide(0.08, 0.16), Decision::Faster);
        assert_eq!(decide(0.01, 0.08), Decision::Faster);
        assert_eq!(decide(-0.08, -0.01), Decision::Slower);
        assert_eq!(decide(-0.01, 0.02), Decision::Equivalent);
        // A difference that is real and does not matter.
        assert_eq!(decide(0.005, 0.02), Decision::Equivalent);
        assert_eq!(decide(-0.01, 0.08), Decision::Inconclusive);
        // 1/1.03 is the other end of the margin, not 0.97.
        assert_eq!(decide(-0.0295, 0.02), Decision::Inconclusive);
        assert_eq!(decide(-0.029, 0.02), Decision::Equivalent);
    }

    #[test]
    fn too_few_runs_decide_nothing() {
        let question = Question::new(Better::Higher);
        let got = compare_paired(&A[..5], &B[..5], &question).unwrap();
        assert_eq!((got.decision, got.ratio.interval), (Decision::Inconclusive, None));
        assert!(got.smallest_p > 0.05 && got.ratio.value > 1.1 && !got.is_different());
        let got = compare_unpaired(&A[..3], &B[..3], &question).unwrap();
        assert_eq!((got.decision, got.ratio.interval), (Decision::Inconclusive, None));
        assert_eq!(
            compare_unpaired(&A[..4], &B[..4], &question).unwrap().decision,
            Decision::Faster
        );
    }

    #[test]
    fn equal_runs_are_equivalent() {
        let question = Question::new(Better::Lower);
        let got = compare_paired(&A, &A, &question).unwrap();
        assert_eq!((got.decision, got.ratio.value, got.p), (Decision::Equivalent, 1.0, 1.0));
        assert!(!got.is_different());
        // Nothing is proven equal with no margin.
        let question = Question { margin_percent: 0.0, ..question };
        let got = compare_paired(&A, &A, &question).unwrap();
        assert_eq!(got.decision, Decision::Inconclusive);
    }

    #[test]
    fn nonsense_is_refused() {
        let question = Question::new(Better::Higher);
        let refused = |margin_percent, level| {
            compare_paired(&A, &B, &Question { margin_percent, level, ..question }).is_err()
        };
        assert!(refused(-1.0, 0.95) && refused(f64::NAN, 0.95) && refused(3.0, 95.0));
        assert!(compare_paired(&A, &B[1..], &question).is_err());
        assert!(compare_unpaired(&A, &[0.0], &question).is_err());
        assert!(compare_unpaired(&A, &[], &question).is_err());
    }

    proptest! {
        #[test]
        fn swapping_sides_mirrors_the_answer(
            a in prop::collection::vec(90.0f64..110.0, 8),
            b in prop::collection::vec(93.0f64..113.0, 8),
            is_paired: bool,
        ) {
            let compare = if is_paired { compare_paired } else { compare_unpaired };
            let question = Question { margin_percent: 8.0, ..Question::new(Better::Higher) };
            let (there, back) = (compare(&a, &b, &question).unwrap(), compare(&b, &a, &question).unwrap());
            let mirrored = match there.decision {
                Decision::Faster => Decision::Slower,
                Decision::Slower => Decision::Faster,
                same => same,
            };
            prop_assert_eq!(back.decision, mirrored);
            prop_assert!((there.ratio.value * back.ratio.value - 1.0).abs() < 1e-12);
            prop_assert!((there.p - back.p).abs() < 1e-12);
            let (there, back) = (there.ratio.interval.unwrap(), back.ratio.interval.unwrap());
            prop_assert!((there.low * back.high - 1.0).abs() < 1e-12);
        }
    }
}
