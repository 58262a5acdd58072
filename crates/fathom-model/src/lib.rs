//! The vocabulary of fathom as plain data: workloads, stacks, host facts, records, findings, verdicts, events.
//!
//! Types here have no behaviour beyond construction, validation and (de)serialisation; they are what the store keeps
//! and what every other crate exchanges.

pub mod array;
pub mod beside;
pub mod builtin;
pub mod capture;
pub mod change;
pub mod defect;
pub mod elsewhere;
mod engine_keys;
pub mod event;
pub mod extents;
pub mod finding;
pub mod fsop;
pub mod fsop_jobs;
pub mod fsop_keys;
pub mod fsop_plan;
pub mod host;
pub mod keys;
pub mod limits;
pub mod metadata;
mod pace_keys;
pub mod pattern;
pub mod payload;
pub mod plan;
pub mod play;
pub mod play_keys;
pub mod read;
pub mod record;
mod settings;
pub mod snapshot;
pub mod stack;
pub mod system;
pub mod vendor;
pub mod verification;
pub mod watch;
pub mod workload;
