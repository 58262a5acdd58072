//! Events: the only thing that user interfaces see of a running measurement.

use crate::record::Record;
use crate::workload::Job;
use serde::{Deserialize, Serialize};

/// What happens, in the order in which it happens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Event {
    /// A line about what is going on before measuring.
    Note {
        /// The line.
        text: String,
    },
    /// What was understood of a job, before anything is written or measured.
    JobAsked {
        /// With every setting resolved.
        job: Box<Job>,
        /// Path of its target.
        target: String,
        /// The target's size; of a file that starts empty, what it may grow to.
        target_bytes: u64,
    },
    /// Test files are being written.
    Layout {
        /// Bytes written.
        done_bytes: u64,
        /// Bytes to write.
        total_bytes: u64,
        /// Expected time until everything asked for is done; absent as long as nothing tells how fast it goes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        eta_ns: Option<u64>,
    },
    /// Written blocks are read back.
    Verifying {
        /// Bytes checked.
        done_bytes: u64,
        /// Bytes to check.
        total_bytes: u64,
    },
    /// A trial of an experiment begins: what is built, set and prepared before it is measured.
    SlotStarted {
        /// Block, from 1.
        block: u32,
        /// How many blocks there are at the most.
        blocks: u32,
        /// Place in the block, from 1.
        place: u32,
        /// How many places a block has.
        places: u32,
        /// Levels of the cell.
        cell: String,
        /// What comes after it.
        next: Option<String>,
        /// Expected time until everything planned is done.
        eta_ns: u64,
    },
    /// A trial begins.
    TrialStarted {
        /// Its row name.
        label: String,
        /// 1-based.
        index: u32,
        /// How many trials there will be, as far as known.
        count: u32,
    },
    /// About once a second while measuring.
    Progress {
        /// The row name.
        label: String,
        /// Time since the start of the window; negative times (warm-up) are shown as 0.
        elapsed_ns: u64,
        /// Expected time until everything asked for is done; absent where operations end the trial, or as long as nothing tells
        /// how fast its amount goes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        eta_ns: Option<u64>,
        /// Requests per second in the last interval.
        iops: f64,
        /// Bytes per second in the last interval.
        bytes_per_s: f64,
        /// p99 of the last interval, when there is one.
        latency_ns_p99: Option<u64>,
    },
    /// A trial has ended.
    TrialFinished {
        /// Its outcome.
        record: Box<Record>,
    },
}
