//! Plan files: read and checked, made into cells and an order, with their cost. Pure.
//!
//! [`read`] turns the text of a plan file into a [`Plan`](fathom_model::plan::Plan) in which everything is checked that can be
//! checked without looking at the machine; [`cells`] lists its combinations, [`order`] says when which of them is measured,
//! [`cost`] what that takes, [`narrow`] which level comes next where one is searched. [`ready`] are the plans that come with
//! fathom.

mod cells;
mod cost;
mod doc;
mod error;
mod factor;
pub mod figure;
mod file;
mod file_server;
mod known;
mod load;
mod narrow;
mod order;
mod ready;
mod setup;

pub use cells::cells;
pub use cells::fraction::aliases;
pub use cost::{Cost, Estimate, cost};
pub use error::PlanError;
pub use file::read;
pub use known::{Known, Unchecked, workload_of};
pub use load::{Load, Speed, load_of};
pub use narrow::{Narrowed, narrow};
pub use order::{order, workloads_in};
pub use ready::{Given, Parameter, ReadyPlan, fill_file, ready, ready_named};
pub use setup::{SETUP_KEYS, SetupKey};
