//! The vocabulary of fathom as plain data: workloads, stacks, host facts, records, findings, verdicts, events.
//!
//! Types here have no behaviour beyond construction, validation and (de)serialisation; they are what the store keeps
//! and what every other crate exchanges.

pub mod builtin;
pub mod event;
pub mod extents;
pub mod finding;
pub mod host;
pub mod keys;
pub mod record;
pub mod stack;
pub mod workload;
