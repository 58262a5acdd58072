//! The laboratory: prepares targets, runs trials, puts everything back, and tells what happens as events.
//!
//! Nothing is stored or printed here: the caller gets events and records.

pub mod error;
pub mod lab;
pub mod layout;
pub mod quick;
pub mod run;
mod sampler;
pub mod target;
pub mod trial;

pub use error::LabError;
pub use lab::Lab;
