//! What is wrong with a plan, and where.

use std::fmt;

/// A plan that was refused: file, line, key, reason with the cure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanError {
    /// The file's path, or the name of a ready-made plan.
    pub origin: Option<String>,
    /// The line in it, from 1.
    pub line: Option<usize>,
    /// The key it is about, with its table: `factors.block.scheduler`.
    pub key: Option<String>,
    /// What was written there.
    pub value: Option<String>,
    /// What is wrong and what would do.
    pub reason: String,
}

impl PlanError {
    /// An error of a plan as a whole.
    #[must_use]
    pub fn new(reason: impl Into<String>) -> Self {
        Self { origin: None, line: None, key: None, value: None, reason: reason.into() }
    }

    /// The same, about one key.
    #[must_use]
    pub fn about(mut self, key: impl Into<String>) -> Self {
        self.key.get_or_insert(key.into());
        self
    }

    /// The same, with what was written there.
    #[must_use]
    pub fn with_value(mut self, value: impl Into<String>) -> Self {
        self.value.get_or_insert(value.into());
        self
    }

    /// The same, in a file.
    #[must_use]
    pub fn in_file(mut self, origin: &str) -> Self {
        self.origin.get_or_insert(origin.to_owned());
        self
    }

    /// The same, at a line.
    #[must_use]
    pub fn at_line(mut self, line: usize) -> Self {
        self.line.get_or_insert(line);
        self
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.origin, self.line) {
            (Some(origin), Some(line)) => write!(f, "plan '{origin}', line {line}: ")?,
            (Some(origin), None) => write!(f, "plan '{origin}': ")?,
            (None, _) => f.write_str("plan: ")?,
        }
        match (&self.key, &self.value) {
            (Some(key), Some(value)) => write!(f, "{key} = {value}: ")?,
            (Some(key), None) => write!(f, "{key}: ")?,
            (None, _) => {}
        }
        f.write_str(&self.reason)
    }
}

impl std::error::Error for PlanError {}
