//! A conclusion of a study, and what its own rows say about it.

use fathom_stats::equivalence::{Better, Comparison as Answer, Question, compare_paired};
use fathom_study::table::{Claim, Comparison, Difference, Outcome, Paired, Table};

/// One line of the table in the documentation.
#[derive(Debug)]
pub struct Conclusion {
    /// What the study says.
    pub says: &'static str,
    /// The rows it is judged by.
    pub rows: &'static str,
    /// What they say.
    pub outcome: Outcome,
    /// Why.
    pub figures: String,
}

/// Any change for more.
pub const MORE: Claim = Claim { low: 1.0, high: f64::INFINITY };
/// Any change for less.
pub const LESS: Claim = Claim { low: 0.0, high: 1.0 };
/// No difference larger than 3 %.
pub const SAME: Claim = Claim { low: 1.0 / 1.03, high: 1.03 };

/// At least so many times as much.
pub fn at_least(low: f64) -> Claim {
    Claim { low, high: f64::INFINITY }
}

/// At most so many times as much.
pub fn at_most(high: f64) -> Claim {
    Claim { low: 0.0, high }
}

/// Between so many times as much.
pub fn between(low: f64, high: f64) -> Claim {
    Claim { low, high }
}

/// The pairs of two levels; for tables that have some.
pub fn paired(table: &Table, factor: &str, levels: (&str, &str), metric: &str) -> Paired {
    match table.compare(factor, levels, metric).unwrap() {
        Comparison::Paired(paired) => paired,
        other @ Comparison::NotComparable(_) => panic!("{factor} {levels:?}: {other:?}"),
    }
}

/// Judges a claim about the ratio of the second level to the first.
pub fn judge(
    (says, rows): (&'static str, &'static str),
    table: &Table,
    (factor, a, b): (&str, &str, &str),
    metric: &str,
    claim: Claim,
) -> Conclusion {
    let comparison = table.compare(factor, (a, b), metric).unwrap();
    Conclusion { says, rows, outcome: claim.judge(&comparison), figures: figures(&comparison) }
}

/// Judges a claim about the ratio of values to a number that the study states without a row for it.
pub fn judge_against(
    (says, rows): (&'static str, &'static str),
    table: &Table,
    metric: &str,
    stated: f64,
    claim: Claim,
) -> Conclusion {
    let values = table.values(metric).unwrap();
    let question = Question::new(Better::Higher);
    let answer = compare_paired(&vec![stated; values.len()], &values, &question).unwrap();
    let figures = ratio(&answer).replace("pair", "row");
    let comparison = Comparison::Paired(Paired { pairs: Vec::new(), unmatched: 0, answer });
    Conclusion { says, rows, outcome: claim.judge(&comparison), figures }
}

/// `x 1.33 (1.22 to 1.46), 22 pairs`.
pub fn figures(comparison: &Comparison) -> String {
    match comparison {
        Comparison::Paired(paired) => ratio(&paired.answer),
        Comparison::NotComparable(differing) => {
            let words: Vec<String> = differing.iter().map(difference).collect();
            format!("not comparable, these differ too: {}", words.join(", "))
        }
    }
}

fn difference(difference: &Difference) -> String {
    let named =
        |text: &str| if text.is_empty() { "not stated".to_owned() } else { text.to_owned() };
    format!("{} ({} / {})", difference.factor, named(&difference.a), named(&difference.b))
}

/// The ratio with its interval.
pub fn ratio(answer: &Answer) -> String {
    let pairs = match answer.ratio.count {
        1 => "1 pair".to_owned(),
        count => format!("{count} pairs"),
    };
    match answer.ratio.interval {
        Some(interval) => format!(
            "x {:.3} ({:.3} to {:.3}), {pairs}",
            answer.ratio.value, interval.low, interval.high
        ),
        None => format!("x {:.3}, {pairs}", answer.ratio.value),
    }
}

/// How many times as large the ratio of `b` is as that of `a`, in the same blocks.
pub fn ratio_of_ratios(a: &Paired, b: &Paired, block: &str) -> Answer {
    let key = |pair: &fathom_study::table::Pair| {
        pair.block.iter().find(|(name, _)| name == block).map(|(_, value)| value.clone())
    };
    let matched = a.pairs.iter().filter_map(|left| {
        let right = b.pairs.iter().find(|right| key(right) == key(left))?;
        Some((left.b / left.a, right.b / right.a))
    });
    let (left, right): (Vec<f64>, Vec<f64>) = matched.unzip();
    compare_paired(&left, &right, &Question::new(a.answer.question.better)).unwrap()
}

impl Conclusion {
    /// Rows say the same about another claim too: both must hold.
    pub fn and(mut self, what: &str, other: Self) -> Self {
        self.outcome = match (self.outcome, other.outcome) {
            (Outcome::Confirmed, Outcome::Confirmed) => Outcome::Confirmed,
            (Outcome::Refuted, _) | (_, Outcome::Refuted) => Outcome::Refuted,
            _ => Outcome::Inconclusive,
        };
        self.figures = format!("{}; {what} {}", self.figures, other.figures);
        self
    }

    /// Says more about the figures.
    pub fn note(mut self, text: &str) -> Self {
        self.figures = format!("{}; {text}", self.figures);
        self
    }

    /// A line of the table.
    pub fn line(&self) -> String {
        let outcome = match self.outcome {
            Outcome::Confirmed => "**confirmed**",
            Outcome::Refuted => "**refuted**",
            Outcome::Inconclusive => "inconclusive",
        };
        format!("| {} | {} | {outcome} | {} |", self.says, self.rows, self.figures)
    }
}
