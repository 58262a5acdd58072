//! How fast a member is rebuilt while the array is used.

use super::counted::{Members, members};
use fathom_model::record::Record;
use fathom_stats::interval::median;
use serde::Serialize;

/// A rebuild under one load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rebuild {
    /// Bytes of the new member that are rebuilt per second, median over trials.
    pub bytes_per_s: f64,
    /// How long a whole member of this size takes at that speed, in nanoseconds.
    pub member_ns: Option<u64>,
    /// How long a terabyte (10^12 bytes) takes.
    pub terabyte_ns: u64,
}

/// Over the trials of one pattern. The new member is the one that is written far more than the others: the load writes to all
/// of them alike.
pub(super) fn of(records: &[&Record]) -> Option<Rebuild> {
    let rates: Vec<f64> = records.iter().filter_map(|record| rate(record)).collect();
    let bytes_per_s = median(&rates).ok().filter(|rate| *rate > 0.0)?;
    let time = |bytes: u64| (bytes as f64 / bytes_per_s * 1e9) as u64;
    let member_bytes = records.iter().find_map(|record| members(record)?.member_bytes);
    Some(Rebuild {
        bytes_per_s,
        member_ns: member_bytes.map(time),
        terabyte_ns: time(1_000_000_000_000),
    })
}

fn rate(record: &Record) -> Option<f64> {
    let Members { deltas, .. } = members(record)?;
    let written: Vec<f64> = deltas.iter().map(|d| d.written_bytes as f64).collect();
    let most = written.iter().copied().fold(0.0, f64::max);
    let others: Vec<f64> = {
        let mut rest = written.clone();
        let at = rest.iter().position(|bytes| *bytes == most)?;
        rest.remove(at);
        rest
    };
    let of_load = median(&others).ok()?;
    let rebuilt = most - of_load;
    (rebuilt > 0.0).then(|| rebuilt / (record.window_ns.max(1) as f64 / 1e9))
}
