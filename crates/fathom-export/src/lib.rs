//! Stored runs in the forms of other programs: tables (CSV, Parquet), HdrHistogram logs, OpenMetrics, Chrome traces.
//!
//! Pure: runs in, bytes out. None of these forms holds everything; the one that does (JSON lines) is the store's own.

pub mod columns;
pub mod csv;
pub mod hdr;
pub mod openmetrics;
pub mod parquet;
pub mod tables;
pub mod trace;

use fathom_model::finding::{Finding, Verdict};
use fathom_model::plan::Plan;
use fathom_model::record::{Record, RunHead};

/// A run as exports take it.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// What its records have in common.
    pub head: RunHead,
    /// How far it has come, in the word that people see.
    pub state: String,
    /// End, UTC, nanoseconds since 1970.
    pub finished_unix_ns: Option<i64>,
    /// The judgement.
    pub verdict: Option<Verdict>,
    /// What led to it.
    pub findings: Vec<Finding>,
    /// The plan that it follows.
    pub plan: Option<Plan>,
    /// The records, in the order of the trials.
    pub records: Vec<Record>,
}

/// A point of time as people write it, UTC to the millisecond.
fn utc(unix_ns: i64) -> String {
    let whole = jiff::Timestamp::from_millisecond(unix_ns.div_euclid(1_000_000));
    whole.map_or_else(|_| String::new(), |time| time.to_string())
}

/// The stored word of a plain enum.
fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

#[cfg(test)]
mod samples;
