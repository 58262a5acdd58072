//! The laboratory: prepares targets, runs trials, puts everything back, and tells what happens as events.
//!
//! Nothing is stored or printed here: the caller gets events and records.

pub mod against;
pub mod books;
pub mod captured;
pub mod control_group;
pub mod error;
pub mod experiment;
pub mod fsop;
pub mod lab;
mod layer_tree;
pub mod layers;
pub mod layout;
mod limits;
pub mod quick;
pub mod raid;
pub mod restore;
pub mod run;
mod sampler;
pub mod saturate;
mod search;
pub mod size;
pub mod target;
pub mod trial;
pub mod verify;
pub mod watched;

pub use error::LabError;
pub use lab::Lab;
pub use sampler::{Deltas, around};
