//! Did the machine itself change while the experiment ran? The same cell, repeated from beginning to end, must stay the same.

use super::figures::Figure;
use super::values::Trials;
use fathom_model::finding::{Finding, Severity};
use fathom_stats::interval::median;
use fathom_stats::trend::trend;
use serde::Serialize;

/// A trend less likely than this is no chance: the question is asked of every experiment.
const P_MAX: f64 = 0.01;

/// The sentinel over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Drift {
    /// Which figure, as a place in the study's figures.
    pub figure: usize,
    /// How often it was measured.
    pub repetitions: usize,
    /// True for repetitions of their own; false where the baseline's ordinary trials had to do.
    pub is_sentinel: bool,
    /// The change from the first to the last repetition by the line of Theil and Sen, as a share: 0.05 for 5 % more.
    pub change: f64,
    /// Two-sided p of "no trend" by Kendall's test.
    pub p: f64,
    /// Repetitions lie this far from their median at most, as a share.
    pub farthest: f64,
}

impl Drift {
    /// True when a trend is no chance.
    #[must_use]
    pub fn is_found(&self) -> bool {
        self.p <= P_MAX
    }
}

/// The drift of the first ranked figure; none below three repetitions.
#[must_use]
pub fn study(
    trials: &Trials<'_>,
    place: usize,
    figure: &Figure,
    baseline: u32,
    has_sentinel: bool,
) -> Option<Drift> {
    let found = trials.sentinels(figure, baseline);
    let first = found.first()?.started_unix_ns;
    let hours = |ns: i64| ns.saturating_sub(first) as f64 / 3.6e12;
    // Two repetitions that began in the same instant do not happen, but a clock may be set back.
    let mut times: Vec<f64> = Vec::new();
    let mut logs: Vec<f64> = Vec::new();
    for sentinel in &found {
        let time = hours(sentinel.started_unix_ns);
        if times.last().is_none_or(|last| *last < time) && sentinel.value > 0.0 {
            times.push(time);
            logs.push(sentinel.value.ln());
        }
    }
    let trend = trend(&times, &logs, 0.95).ok()?;
    let middle = median(&logs).ok()?;
    let span = times.last()? - times.first()?;
    let farthest = logs.iter().map(|log| (log - middle).abs().exp_m1()).fold(0.0, f64::max);
    Some(Drift {
        figure: place,
        repetitions: logs.len(),
        is_sentinel: has_sentinel,
        change: (trend.slope.value * span).exp_m1(),
        p: trend.p,
        farthest,
    })
}

/// What a drift means for the answer.
#[must_use]
pub fn finding(drift: &Drift, margin: f64) -> Option<Finding> {
    if !drift.is_found() {
        return None;
    }
    let change = 100.0 * drift.change;
    let who = if drift.is_sentinel { "the sentinel" } else { "the baseline" };
    let text = format!(
        "the environment drifted: {who}, measured {} times from beginning to end, changed by {change:+.1} %",
        drift.repetitions
    );
    let severity = if drift.change.abs() > margin { Severity::Doubtful } else { Severity::Note };
    Some(
        Finding::new("environment-drifted", severity, text)
            .advise("cells are compared within blocks, so the comparisons stand; the figures themselves depend on when they were taken")
            .advise("usual causes: temperature, a filling or ageing device or filesystem, garbage collection, somebody else's load"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::sample::{Sample, noise};
    use crate::experiment::study as study_experiment;
    use fathom_base::prng::Prng;

    fn found(per_block: f64) -> (Drift, bool) {
        let mut prng = Prng::new(9, 0);
        let sample = Sample::new(&[("a", &["x", "y"])], 12, |_, block| {
            1000.0 * per_block.powi(block as i32) * noise(&mut prng, 0.01)
        });
        let study = study_experiment(&sample.plan, &sample.cells, &sample.records);
        let is_said = study.findings.iter().any(|f| f.id == "environment-drifted");
        (study.drift.expect("twelve repetitions"), is_said)
    }

    #[test]
    fn a_slow_decline_is_found_and_noise_is_not() {
        let (drift, is_said) = found(0.98);
        assert!(drift.is_found() && is_said, "{drift:?}");
        assert!((drift.change - (0.98f64.powi(11) - 1.0)).abs() < 0.03, "{drift:?}");
        let (drift, is_said) = found(1.0);
        assert!(!drift.is_found() && !is_said, "{drift:?}");
        assert!(drift.farthest < 0.05);
    }
}
