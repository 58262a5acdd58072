//! What is wanted of a figure, and whether the rounds show it.

use super::stats::Spread;

/// Pairs that a ratio needs before it may pass.
pub const PAIRS_MIN: usize = 20;
/// How far the bound of a figure may lie off its goal: about what 20 pairs can tell apart.
const SLACK: f64 = 0.07;

/// What is wanted of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// This or more, give or take the slack.
    AtLeast(f64),
    /// This or less, give or take the slack.
    AtMost(f64),
    /// This or more, without slack: shares of what was counted one by one.
    From(f64),
    /// This or less, without slack: what is counted and does not waver.
    UpTo(f64),
    /// A ratio equal to 1 within this: the whole interval must lie inside.
    Equal(f64),
    /// Nothing: for information.
    None,
}

impl Goal {
    /// Smallest and largest bound that pass.
    fn limits(self) -> Option<(f64, f64)> {
        match self {
            Self::AtLeast(ratio) => Some((ratio * (1.0 - SLACK), f64::INFINITY)),
            Self::AtMost(ratio) => Some((f64::NEG_INFINITY, ratio * (1.0 + SLACK))),
            Self::From(value) => Some((value, f64::INFINITY)),
            Self::UpTo(value) => Some((f64::NEG_INFINITY, value)),
            Self::Equal(share) => Some((1.0 - share, 1.0 + share)),
            Self::None => None,
        }
    }

    /// In a table.
    #[must_use]
    pub fn shown(self) -> String {
        match self {
            Self::AtLeast(value) | Self::From(value) => format!(">= {value}"),
            Self::AtMost(value) | Self::UpTo(value) => format!("<= {value}"),
            Self::Equal(share) => format!("1 +- {share}"),
            Self::None => "-".to_owned(),
        }
    }

    /// The end of the interval that decides, or both.
    fn bound(self, spread: &Spread) -> String {
        match self {
            Self::AtLeast(_) | Self::From(_) => format!("{:.3}", spread.low),
            Self::AtMost(_) | Self::UpTo(_) => format!("{:.3}", spread.high),
            Self::Equal(_) | Self::None => format!("{:.3}..{:.3}", spread.low, spread.high),
        }
    }
}

/// One line of the table at the end.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// Scene.
    pub scene: String,
    /// Of what.
    pub what: String,
    /// What is wanted.
    pub goal: Goal,
    /// What the rounds showed; none when nothing could be measured.
    pub spread: Option<Spread>,
    /// Rounds without which nothing passes: [`PAIRS_MIN`], fewer for what does not waver.
    pub rounds_min: usize,
}

impl Verdict {
    /// A row, or none where nothing is wanted.
    #[must_use]
    pub fn row(&self) -> Option<String> {
        if self.goal == Goal::None {
            return None;
        }
        let (ratio, bound) = self.spread.map_or_else(
            || ("-".to_owned(), "-".to_owned()),
            |s| (format!("{:.3}", s.ratio), self.goal.bound(&s)),
        );
        let (scene, what, goal) = (&self.scene, &self.what, self.goal.shown());
        let n = self.spread.map_or(0, |s| s.n);
        Some(format!("| {scene} | {what} | {goal} | {ratio} | {bound} | {n} | {} |\n", self.word()))
    }

    /// True when the goal was reached by enough rounds.
    #[must_use]
    pub fn has_passed(&self) -> bool {
        self.word() == PASSED
    }

    fn word(&self) -> &'static str {
        let (Some(spread), Some((least, most))) = (&self.spread, self.goal.limits()) else {
            return "not measured";
        };
        // Of two bounds only the one that can fail is compared with a finite limit.
        let holds = spread.low >= least && spread.high <= most;
        let open = spread.high >= least && spread.low <= most;
        match (holds, spread.n >= self.rounds_min) {
            (true, true) => PASSED,
            (true, false) => "would pass, too few rounds",
            (false, _) if open => "not shown: the interval holds both",
            (false, _) => "NOT PASSED",
        }
    }
}

const PASSED: &str = "passed";

#[cfg(test)]
mod tests {
    use super::*;

    fn word(goal: Goal, low: f64, high: f64, n: usize) -> &'static str {
        let ratio = f64::midpoint(low, high);
        let spread = Some(Spread { ratio, low, high, coverage: 0.96, min: low, max: high, n });
        let (scene, what) = (String::new(), String::new());
        Verdict { scene, what, goal, spread, rounds_min: PAIRS_MIN }.word()
    }

    #[test]
    fn the_bound_decides_and_not_the_estimate() {
        assert_eq!(word(Goal::AtLeast(1.4), 1.31, 1.5, 20), PASSED);
        assert_eq!(word(Goal::AtLeast(1.4), 1.29, 1.9, 20), "not shown: the interval holds both");
        assert_eq!(word(Goal::AtLeast(1.4), 1.1, 1.2, 20), "NOT PASSED");
        assert_eq!(word(Goal::AtMost(0.2), 0.1, 0.21, 20), PASSED);
        assert_eq!(word(Goal::AtMost(0.2), 0.3, 0.4, 20), "NOT PASSED");
        assert_eq!(word(Goal::From(0.97), 0.96, 0.99, 20), "not shown: the interval holds both");
        assert_eq!(word(Goal::UpTo(20.0), 15.0, 19.9, 20), PASSED);
        assert_eq!(word(Goal::Equal(0.03), 0.98, 1.02, 20), PASSED);
        assert_eq!(word(Goal::Equal(0.03), 0.98, 1.05, 20), "not shown: the interval holds both");
        assert_eq!(word(Goal::Equal(0.03), 1.1, 1.2, 20), "NOT PASSED");
    }

    #[test]
    fn nothing_passes_with_fewer_rounds_or_none() {
        assert_eq!(word(Goal::AtLeast(1.4), 2.0, 3.0, 19), "would pass, too few rounds");
        let none = Verdict {
            scene: "a".to_owned(),
            what: "b".to_owned(),
            goal: Goal::AtLeast(1.0),
            spread: None,
            rounds_min: PAIRS_MIN,
        };
        assert_eq!(none.row().unwrap(), "| a | b | >= 1 | - | - | 0 | not measured |\n");
        assert!(!none.has_passed());
        assert_eq!(Verdict { goal: Goal::None, ..none }.row(), None);
    }
}
