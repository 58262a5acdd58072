//! What `fathom watch` shares with experiments that have a command as their load.

use crate::experiment::{figure, program};
use fathom_model::record::{Ending, Record};
use fathom_model::watch::WatchRecord;
use fathom_plan::figure::Figure;

/// A piece of a watch in the place of a trial.
#[must_use]
pub fn record(piece: WatchRecord, started_unix_ns: i64, ending: Ending) -> Record {
    let window_ns = piece.length_us.values().iter().sum::<u64>() * 1000;
    let command = piece.ended.as_ref().map_or("watch", |ended| ended.command.as_str());
    let workload = program::workload_of(command);
    Record {
        started_unix_ns,
        window_ns,
        ending,
        watch: Some(Box::new(piece)),
        ..program::empty_record("watch", workload, 0)
    }
}

/// The last such number in what a command printed.
///
/// # Errors
/// What is missing.
pub fn pick(figure: &Figure, output: &str) -> Result<f64, String> {
    figure::pick(figure, output)
}
