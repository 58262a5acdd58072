//! An experiment as text: what it would do, and what it says.

pub mod outline;

use crate::findings::findings_text;
use fathom_study::experiment::ExperimentStudy;

/// What an experiment says.
#[must_use]
pub fn text(study: &ExperimentStudy, width: usize) -> String {
    findings_text(&study.findings, study.verdict, width)
}
