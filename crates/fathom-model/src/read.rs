//! Reading what is large: the code for it is made once, in this crate, and not again in each that reads one, which took a tenth of the
//! shipped binary.

use crate::record::{JobRecord, Record};
use crate::snapshot::Snapshot;
use fathom_base::json;

/// A record.
///
/// # Errors
/// As [`json::from_str`].
pub fn record(text: &str) -> serde_json::Result<Record> {
    json::from_str(text)
}

/// The records of several jobs.
///
/// # Errors
/// As [`json::from_str`].
pub fn jobs(text: &str) -> serde_json::Result<Vec<JobRecord>> {
    json::from_str(text)
}

/// A snapshot.
///
/// # Errors
/// As [`json::from_str`].
pub fn snapshot(text: &str) -> serde_json::Result<Snapshot> {
    json::from_str(text)
}
