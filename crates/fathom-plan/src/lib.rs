//! Plan files: read and checked, made into cells and an order, with their cost. Pure.
//!
//! [`read`] turns the text of a plan file into a [`Plan`](fathom_model::plan::Plan) in which everything is checked that can be
//! checked without looking at the machine; [`cells`] lists its combinations, [`order`] says when which of them is measured,
//! [`cost`] what that takes, [`narrow`] which level comes next where one is searched. [`ready`] are the plans that come with
//! fathom.

mod cost;
mod error;
mod known;
mod narrow;
mod order;
mod ready;

pub use cost::{Cost, Estimate, cost};
pub use error::PlanError;
pub use known::{Known, Unchecked, workload_of};
pub use narrow::{Narrowed, narrow};
pub use order::{order, workloads_in};
pub use ready::{Given, Parameter, ReadyPlan, ready, ready_named};

use fathom_model::plan::Plan;
use fathom_model::plan::cell::Cell;

/// Reads and checks a plan file; `origin` is its path, for messages.
///
/// # Errors
/// The first thing that is wrong, with its line, and what would do.
pub fn read(text: &str, origin: &str, known: &dyn Known) -> Result<Plan, PlanError> {
    let _ = (text, known);
    Err(PlanError::new("plans cannot be read yet").in_file(origin))
}

/// All cells of a plan in the order of its design. Those with [`Cell::impossible`] are shown, never measured.
///
/// # Errors
/// Too many cells, or a design that does not fit the factors.
pub fn cells(plan: &Plan) -> Result<Vec<Cell>, PlanError> {
    let _ = plan;
    Ok(Vec::new())
}
