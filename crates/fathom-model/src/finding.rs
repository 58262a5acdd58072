//! Findings and verdicts: typed observations with evidence, meaning and the next step.

use serde::{Deserialize, Serialize};

/// What a finding does to the verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing; the figures stand.
    Note,
    /// The figures may be off; the verdict is at best doubtful.
    Doubtful,
    /// The figures do not say what they claim to; the verdict is void.
    Void,
}

/// A typed observation with evidence, meaning and next step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable name of the rule, in kebab case, such as `generator-bound`.
    pub id: String,
    /// What it does to the verdict.
    pub severity: Severity,
    /// One line: what was seen, with its figures.
    pub summary: String,
    /// What it means and what to do, one line each; the last is a command where there is one.
    pub advice: Vec<String>,
}

impl Finding {
    /// A finding without advice; see [`Finding::advise`].
    #[must_use]
    pub fn new(id: &str, severity: Severity, summary: impl Into<String>) -> Self {
        Self { id: id.to_owned(), severity, summary: summary.into(), advice: Vec::new() }
    }

    /// Adds a line of advice.
    #[must_use]
    pub fn advise(mut self, line: impl Into<String>) -> Self {
        self.advice.push(line.into());
        self
    }
}

/// Whether figures can be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No finding speaks against the figures.
    Trusted,
    /// At least one finding makes them uncertain.
    Doubtful,
    /// At least one finding makes them meaningless.
    Void,
}

impl Verdict {
    /// The worst that the findings demand.
    #[must_use]
    pub fn of<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> Self {
        match findings.into_iter().map(|f| f.severity).max() {
            Some(Severity::Void) => Self::Void,
            Some(Severity::Doubtful) => Self::Doubtful,
            Some(Severity::Note) | None => Self::Trusted,
        }
    }

    /// The word that people see.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Trusted => "TRUSTED",
            Self::Doubtful => "DOUBTFUL",
            Self::Void => "VOID",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_finding_decides() {
        let finding = |severity| Finding::new("x", severity, "y");
        assert_eq!(Verdict::of(&[]), Verdict::Trusted);
        assert_eq!(Verdict::of(&[finding(Severity::Note)]), Verdict::Trusted);
        assert_eq!(Verdict::of(&[finding(Severity::Void), finding(Severity::Note)]), Verdict::Void);
        assert_eq!(Verdict::of(&[finding(Severity::Doubtful)]), Verdict::Doubtful);
    }
}
