//! A record in one line, for lists of what has been done.

use crate::figures::{Counted, Figures, iops_of, quantile_text, rate_text};
use fathom_model::record::{Ending, Record};

/// Rate, operations per second, two percentiles; how it ended, if not by itself.
#[must_use]
pub fn line(record: &Record) -> String {
    let figures = Figures::of_record(record);
    let p = |q| quantile_text(&figures.latency_ns, q);
    let (p50, p99) = (p(0.5), p(0.99));
    let iops = iops_of(&figures);
    let counts = match figures.counted {
        Counted::Requests => format!("{}, {iops} IOPS", rate_text(&figures)),
        Counted::Commits => format!("{iops} commits/s"),
        Counted::Transactions => format!("{iops} transactions/s"),
        Counted::Names => format!("{iops} files/s"),
    };
    let ending = match record.ending {
        Ending::Complete => "",
        Ending::Interrupted => ", interrupted",
        Ending::Failed => ", failed",
    };
    format!("{counts}, p50 {p50}, p99 {p99}{ending}")
}
