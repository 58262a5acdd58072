//! What an experiment would do, before anything is touched.

use fathom_model::plan::outline::Outline;

/// The outline of a plan.
#[must_use]
pub fn text(outline: &Outline, _width: usize) -> String {
    format!("{}: {}\n", outline.name, outline.question)
}
