//! Plans that come with fathom: files with places for targets and devices.

use crate::PlanError;
use std::collections::BTreeMap;

/// A plan that comes with fathom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyPlan {
    /// Name on the command line.
    pub name: &'static str,
    /// Its question, one sentence.
    pub question: String,
    /// What must be given.
    pub parameters: Vec<Parameter>,
    /// The file, with comments; `{target}` stands where a parameter goes.
    pub text: &'static str,
}

/// Something that a ready-made plan must be given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Name: `target`, `devices`, or another.
    pub name: String,
    /// What it is, for help.
    pub help: String,
}

/// What was given on the command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Given {
    /// The target, first argument.
    pub target: Option<String>,
    /// The devices, `--device`.
    pub devices: Vec<String>,
    /// Other parameters, `NAME=VALUE`.
    pub others: BTreeMap<String, String>,
}

impl ReadyPlan {
    /// The file with what was given in place: what [`crate::read`] takes.
    ///
    /// # Errors
    /// A parameter that is missing, or one that the plan does not have.
    pub fn fill(&self, given: &Given) -> Result<String, PlanError> {
        let _ = given;
        Ok(self.text.to_owned())
    }
}

/// All of them, in the order of lists.
#[must_use]
pub fn ready() -> Vec<ReadyPlan> {
    Vec::new()
}

/// The one of that name.
///
/// # Errors
/// The nearest name.
pub fn ready_named(name: &str) -> Result<ReadyPlan, PlanError> {
    Err(PlanError::new(format!("no plan that comes with fathom is called '{name}'")))
}
