//! The record of a capture: a trial without a workload of ours.

use crate::experiment::program::{empty_record, workload_of};
use fathom_model::capture::CaptureRecord;
use fathom_model::record::{Ending, Record};

/// A record that holds a capture. `of` says what was captured, such as `capture of sda`.
#[must_use]
pub fn record(of: &str, capture: CaptureRecord, started_unix_ns: i64, ending: Ending) -> Record {
    let mut record = empty_record(of, workload_of(of), 0);
    record.workload.name = "capture".to_owned();
    record.started_unix_ns = started_unix_ns;
    record.window_ns = capture.window_ns;
    record.ending = ending;
    record.capture = Some(Box::new(capture));
    record
}
