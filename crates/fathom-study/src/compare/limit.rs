//! Where B is worse by more than may pass: what scripts end with an error for.

use super::{Comparison, Figure, RowComparison, percent};
use fathom_model::finding::{Finding, Severity, Verdict};
use fathom_stats::equivalence::{Better, Decision};
use fathom_stats::multiple::holm;

/// A row in which B is worse.
#[derive(Debug, Clone, PartialEq)]
pub struct Regression<'a> {
    /// The row.
    pub row: &'a RowComparison,
    /// What is worse in it, at least one.
    pub figures: Vec<&'a Figure>,
}

impl Comparison {
    /// Rows in which a figure became worse by more than `limit_percent`: a difference is proven, and the estimate is beyond it. First
    /// figures are adjusted for the number of rows anyway; all others together are by Holm. Without a limit the first figure of a row
    /// alone answers for it: the others explain it, and nobody has said what of them matters. None where the comparison is void.
    #[must_use]
    pub fn slower_by(&self, limit_percent: Option<f64>) -> Vec<Regression<'_>> {
        if self.verdict == Verdict::Void {
            return Vec::new();
        }
        let proven = limit_percent.map_or_else(Vec::new, |_| proven_others(&self.rows));
        let limit_percent = limit_percent.unwrap_or(0.0);
        self.rows.iter().filter_map(|row| regression(row, &proven, limit_percent)).collect()
    }
}

fn regression<'a>(
    row: &'a RowComparison,
    proven: &[&Figure],
    limit_percent: f64,
) -> Option<Regression<'a>> {
    let (first, others) = row.figures.split_first()?;
    let is_proven = |figure: &&Figure| proven.iter().any(|known| std::ptr::eq(*known, *figure));
    let all = std::iter::once(first).chain(others.iter().filter(is_proven));
    let figures: Vec<&Figure> = all.filter(|figure| is_worse(figure, limit_percent)).collect();
    (!figures.is_empty()).then_some(Regression { row, figures })
}

/// Worse at its own level, and by at least so much.
fn is_worse(figure: &Figure, limit_percent: f64) -> bool {
    let change = figure.answer.change_percent().value;
    let beyond = match figure.metric.better() {
        Better::Higher => change <= -limit_percent,
        Better::Lower => change >= limit_percent,
    };
    figure.metric.is_judged() && figure.decision == Decision::Slower && beyond
}

fn others(rows: &[RowComparison]) -> impl Iterator<Item = &Figure> {
    rows.iter().flat_map(|row| row.figures.iter().skip(1))
}

/// Figures beside the first whose difference stands when all of them are looked at.
fn proven_others(rows: &[RowComparison]) -> Vec<&Figure> {
    let p: Vec<f64> = others(rows).map(|figure| figure.answer.p).collect();
    let adjusted = holm(&p).unwrap_or_default();
    let is_proven = |(figure, p): &(&Figure, f64)| *p <= error(figure) + 1e-12;
    others(rows).zip(adjusted).filter(is_proven).map(|(figure, _)| figure).collect()
}

fn error(figure: &Figure) -> f64 {
    1.0 - figure.answer.question.level
}

/// A figure that is worse by itself, beyond the limit, where so few runs prove nothing among all that are looked at: who asks for an
/// error in that case must not be told that all is well.
pub(super) fn too_few_for_others(rows: &[RowComparison], limit_percent: f64) -> Option<Finding> {
    let count = others(rows).count();
    let is_open = |figure: &&Figure| {
        is_worse(figure, limit_percent)
            && figure.answer.smallest_p * count as f64 > error(figure) + 1e-12
    };
    let open = |row: &RowComparison| row.figures.iter().skip(1).position(|f| is_open(&f));
    let (row, at) = rows.iter().find_map(|row| Some((row, open(row)?)))?;
    let figure = row.figures.get(at + 1)?;
    let text = format!(
        "{}: the {} is worse by itself, but {} against {} runs cannot prove that at {} % among {count} such figures",
        row.name,
        figure.metric.words(),
        row.runs_a,
        row.runs_b,
        percent(figure.answer.question.level)
    );
    let advice = "more pairs made in turn decide it: A, B, B, A, ... each with its own --label";
    Some(Finding::new("too-few-runs", Severity::Doubtful, text).advise(advice))
}

#[cfg(test)]
mod tests {
    use crate::compare::{Comparison, Options, Side, compare};
    use crate::fixtures;
    use fathom_base::prng::Prng;

    /// So many pairs with 0.5 % of noise, in turn and in changing order: B does `ratio` of A's rate, and every eightieth of its requests
    /// takes `tail` times as long.
    fn pairs(count: i64, ratio: f64, tail: f64, limit_percent: Option<f64>) -> Comparison {
        let mut prng = Prng::new(11, 0);
        let mut run = |started: i64, iops: f64, tail: f64| {
            let rate = iops * (1.0 + 0.01 * (fixtures::uniform(&mut prng) - 0.5));
            let mut run = fixtures::run(started, rate);
            let latency_ns = &mut run.records[0].jobs[0].classes[0].latency_ns;
            let slow = latency_ns.count() / 80;
            latency_ns.record_n((5e9 / rate * tail) as u64, slow);
            run
        };
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for pair in 0..count {
            let (first, second) = if pair % 2 == 0 { (0, 5) } else { (5, 0) };
            a.push(run(10 * pair + first, 1000.0, 1.0));
            b.push(run(10 * pair + second, 1000.0 * ratio, tail));
        }
        let side = |name: &str, runs| Side { name: name.into(), runs };
        let options = Options { limit_percent, ..Options::default() };
        compare(&side("A", a), &side("B", b), &options)
    }

    fn worse(found: &Comparison, limit_percent: f64) -> Vec<String> {
        let rows = found.slower_by(Some(limit_percent));
        rows.iter().flat_map(|of| of.figures.iter().map(|figure| figure.metric.words())).collect()
    }

    fn too_few(found: &Comparison) -> Option<&str> {
        let told = |f: &&fathom_model::finding::Finding| {
            f.id == "too-few-runs" && f.severity == fathom_model::finding::Severity::Doubtful
        };
        found.findings.iter().find(told).map(|finding| finding.summary.as_str())
    }

    #[test]
    fn a_limit_below_the_margin_is_kept() {
        let found = pairs(12, 0.98, 1.0, Some(1.0));
        assert!(worse(&found, 1.0).contains(&"IOPS".to_owned()), "{:?}", found.rows[0].figures[0]);
        assert_eq!(worse(&pairs(12, 0.98, 1.0, Some(4.0)), 4.0), [""; 0]);
        assert_eq!(worse(&pairs(12, 0.98, 1.0, None), 1.0), [""; 0], "the margin is 3 %");
    }

    #[test]
    fn every_figure_counts() {
        let found = pairs(12, 1.0, 3.0, Some(5.0));
        assert_eq!(worse(&found, 5.0), ["read p99", "read p99.9"]);
        // Whoever named no limit asked for the rate.
        assert!(pairs(12, 1.0, 3.0, None).slower_by(None).is_empty());
        assert_eq!(pairs(12, 0.9, 1.0, None).slower_by(None)[0].figures.len(), 1);
        // Six pairs can prove one figure, and not one of four: that is said.
        let found = pairs(6, 1.0, 3.0, Some(5.0));
        assert_eq!(worse(&found, 5.0), [""; 0]);
        assert!(too_few(&found).expect("said").contains("the read p99 is worse by itself"));
        assert_eq!(too_few(&pairs(6, 1.0, 1.0, Some(5.0))), None);
        assert_eq!(too_few(&pairs(6, 1.0, 3.0, None)), None);
    }

    #[test]
    fn what_cannot_be_decided_is_doubtful_where_a_limit_is_asked_for() {
        let found = pairs(1, 0.5, 1.0, Some(5.0));
        assert!(too_few(&found).expect("said").contains("cannot decide anything"));
        assert_eq!(too_few(&pairs(1, 0.5, 1.0, None)), None);
        assert!(pairs(1, 0.5, 1.0, None).findings.iter().any(|f| f.id == "too-few-runs"));
    }
}
