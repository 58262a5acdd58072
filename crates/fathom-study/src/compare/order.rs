//! Whether one side always came first: then what drifts from pair to pair also lies between the two of a pair, always with the same
//! sign, and looks like a difference.

use super::rows::{Row, Unit};
use super::{Figure, RowComparison, values};
use fathom_model::finding::{Finding, Severity};
use fathom_stats::equivalence::{Decision, decide};
use fathom_stats::interval::Interval;
use fathom_stats::special::binomial_cdf;
use fathom_stats::trend::{Trend, trend};

/// An order drawn at random has one side first so often in one of twenty cases at most: in all of six to eight pairs, in 11 of 12.
const CHANCE_MAX: f64 = 0.05;

/// Confidence of the drift's interval.
const LEVEL: f64 = 0.95;

/// Pairs in which the same side came first too often for chance: doubtful where both sides drift so that the answer would be
/// another without what the drift adds within a pair, else a note.
pub(super) fn always_first(row: &Row<'_>, compared: &RowComparison) -> Option<Finding> {
    let pairs = row.a.len();
    let is_a_first = |(a, b): &(&Unit<'_>, &Unit<'_>)| a.started_unix_ns() < b.started_unix_ns();
    let a_first = row.a.iter().zip(&row.b).filter(is_a_first).count();
    let (side, count) = if 2 * a_first >= pairs { ("A", a_first) } else { ("B", pairs - a_first) };
    let chance = 2.0 * binomial_cdf((pairs - count) as u64, pairs as u64, 0.5);
    if !compared.in_pairs || chance > CHANCE_MAX {
        return None;
    }
    let often = if count == pairs { format!("all {pairs}") } else { format!("{count} of {pairs}") };
    let told = format!("{}: {side} was measured first in {often} pairs", row.name);
    let finding = match compared.figures.first().and_then(|figure| of_drift(row, figure)) {
        None => {
            let text = format!(
                "{told}: what drifts favours one side; none was found that would change the answer"
            );
            Finding::new("always-first", Severity::Note, text)
        }
        Some(drift) => {
            let text = format!(
                "{told}, and {drift} within each pair: without that the answer would be another"
            );
            Finding::new("always-first", Severity::Doubtful, text)
        }
    };
    Some(finding.advise("change the order from pair to pair: A, B, B, A, A, B, ..."))
}

/// What the drift of both sides adds to the logarithm of B / A within a pair, in words, where the answer rests on it. A drift counts
/// when both sides have it, each beyond chance (Theil and Sen), and is taken for as large as either of them may be.
fn of_drift(row: &Row<'_>, figure: &Figure) -> Option<String> {
    let first_ns = row.a.iter().chain(&row.b).map(Unit::started_unix_ns).min()?;
    let times = |units: &[Unit<'_>]| -> Vec<f64> {
        units.iter().map(|unit| (unit.started_unix_ns() - first_ns) as f64 / 1e9).collect()
    };
    let drift = |units: &[Unit<'_>]| -> Option<Trend> {
        let logs: Vec<f64> =
            values(units, &figure.metric)?.iter().map(|value| value.ln()).collect();
        trend(&times(units), &logs, LEVEL).ok()
    };
    let (a, b) = (drift(&row.a)?, drift(&row.b)?);
    let (of_a, of_b) = (a.slope.interval?, b.slope.interval?);
    let (low, high) = (of_a.low.min(of_b.low), of_a.high.max(of_b.high));
    if low <= 0.0 && high >= 0.0 {
        return None;
    }
    let lags = times(&row.b).into_iter().zip(times(&row.a)).map(|(b, a)| b - a);
    let lag_s = lags.sum::<f64>() / row.a.len() as f64;
    let (one, other) = (low * lag_s, high * lag_s);
    let (low, high) = (one.min(other), one.max(other));
    let answer = &figure.answer;
    let found = answer.ratio.interval?.map(f64::ln);
    let without = Interval { low: found.low - high, high: found.high - low, ..found };
    if answer.decision == Decision::Inconclusive
        || decide(&without, &answer.question) == answer.decision
    {
        return None;
    }
    let ways = if a.slope.value > 0.0 { "rose" } else { "fell" };
    let percent = |log: f64| format!("{:+.1} %", 100.0 * log.exp_m1());
    let middle = 0.5 * (a.slope.value + b.slope.value) * lag_s;
    Some(format!(
        "the {} of both sides {ways} all the time, which adds {} ({} to {}) to B's",
        figure.metric.words(),
        percent(middle),
        percent(low),
        percent(high)
    ))
}

#[cfg(test)]
mod tests {
    use crate::compare::{Comparison, Options, Side, compare};
    use crate::fixtures;
    use fathom_base::prng::Prng;
    use fathom_model::finding::{Severity, Verdict};
    use fathom_stats::equivalence::Decision;

    /// Pairs with 0.5 % of noise; both sides lose `drift` from pair to pair, half of it between the two of a pair. `changes`: every
    /// second pair is the other way round.
    fn pairs(count: i64, ratio: f64, drift: f64, changes: bool) -> Comparison {
        let mut prng = Prng::new(5, 0);
        let mut run = |started: i64, rate: f64| {
            let noise = 1.0 + 0.01 * (fixtures::uniform(&mut prng) - 0.5);
            fixtures::run(started, rate * noise * (1.0 - drift).powf(started as f64 / 1e9 / 60.0))
        };
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for pair in 0..count {
            let (first, second) = if changes && pair % 2 == 1 { (30, 0) } else { (0, 30) };
            let at = |after: i64| (60 * pair + after) * 1_000_000_000;
            a.push(run(at(first), 1000.0));
            b.push(run(at(second), 1000.0 * ratio));
        }
        let side = |name: &str, runs| Side { name: name.into(), runs };
        compare(&side("A", a), &side("B", b), &Options::default())
    }

    fn told(found: &Comparison) -> Option<(Severity, &str)> {
        let finding = found.findings.iter().find(|finding| finding.id == "always-first")?;
        Some((finding.severity, finding.summary.as_str()))
    }

    #[test]
    fn drift_between_the_two_of_a_pair_is_no_difference() {
        let found = pairs(12, 1.0, 0.08, false);
        assert_eq!(found.rows[0].figures[0].decision, Decision::Slower, "4 % within each pair");
        let (severity, text) = told(&found).expect("said");
        assert_eq!((severity, found.verdict), (Severity::Doubtful, Verdict::Doubtful));
        assert!(
            text.contains("A was measured first in all 12 pairs, and the IOPS of both sides fell"),
            "{text}"
        );
        assert_eq!(told(&pairs(12, 1.0, 0.08, true)), None, "the order changed");
    }

    /// What the drift cannot explain stays an answer, and so does one without drift.
    #[test]
    fn a_fixed_order_alone_is_a_note() {
        for found in [pairs(12, 0.8, 0.02, false), pairs(8, 0.8, 0.0, false)] {
            assert_eq!(found.rows[0].figures[0].decision, Decision::Slower);
            assert_eq!(told(&found).expect("said").0, Severity::Note);
            assert_eq!(found.verdict, Verdict::Trusted);
        }
        assert_eq!(told(&pairs(5, 0.8, 0.0, false)), None, "five may be so by chance");
    }

    /// Drift may hide a difference as well: B is 4 % faster, and always came after both had lost as much.
    #[test]
    fn drift_that_hides_a_difference_is_told() {
        let found = pairs(12, 1.0 / 0.96, 0.08, false);
        assert_eq!(found.rows[0].figures[0].decision, Decision::Equivalent);
        assert_eq!(told(&found).expect("said").0, Severity::Doubtful);
    }
}
