//! The vocabulary of fathom as plain data: workloads, stacks, host facts, records, findings, verdicts, events.
//!
//! Types here have no behaviour beyond construction, validation and (de)serialisation; they are what the store keeps
//! and what every other crate exchanges.

pub mod finding;
