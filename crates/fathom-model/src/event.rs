//! Events: the only thing that user interfaces see of a running measurement.

use crate::finding::Finding;
use crate::record::Record;
use crate::workload::Job;
use serde::{Deserialize, Serialize};

/// A layer of what is measured, for a tree: it lies below the nearest one before it with a smaller level.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// How many layers it lies below the top.
    pub level: u32,
    /// The kernel's name of a block device, the mount point of a mount, the type of a filesystem.
    pub name: String,
    /// What it is, in a word or two.
    pub kind: String,
}

/// What one block device did in the last second or so, by the kernel's counters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceNow {
    /// The kernel's name.
    pub name: String,
    /// Share of the time with at least one request in flight, 0 to 1.
    pub busy_share: f64,
    /// Mean number of requests in flight; none when the kernel does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<f64>,
    /// Bytes read per second.
    pub read_bytes_per_s: f64,
    /// Bytes written per second.
    pub written_bytes_per_s: f64,
}

/// What happens, in the order in which it happens. What carries whole jobs and records is only written: whoever looks on from
/// another process is told of them in words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Event {
    /// A line about what is going on before measuring.
    Note {
        /// The line.
        text: String,
    },
    /// What was understood of a job, before anything is written or measured.
    #[serde(skip_deserializing)]
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
        /// What its targets lie on, from the top down.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        layers: Vec<Layer>,
        /// What is known to be wrong before it is measured.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        findings: Vec<Finding>,
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
        /// Median of the last interval, when there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        latency_ns_p50: Option<u64>,
        /// p99 of the last interval, when there is one.
        latency_ns_p99: Option<u64>,
        /// The slowest of the last interval, when there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        latency_ns_max: Option<u64>,
        /// Mean number of requests in flight in the last interval, as latency times rate; as many as there are by Little's law where
        /// latencies are shorter than the interval.
        #[serde(default)]
        in_flight: f64,
        /// What the block devices below did since the last event that has any.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        devices: Vec<DeviceNow>,
    },
    /// About once a second after measuring, or after writing test files, while only the syncs at the end are left.
    Syncing {
        /// The row name.
        label: String,
        /// Files that are done.
        done_files: u64,
        /// All files whose sync has begun or comes next.
        total_files: u64,
        /// Expected time until everything asked for is done; absent as long as nothing tells how fast it goes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        eta_ns: Option<u64>,
        /// What the block devices below did since the last event that has any.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        devices: Vec<DeviceNow>,
    },
    /// A trial has ended.
    #[serde(skip_deserializing)]
    TrialFinished {
        /// Its outcome.
        record: Box<Record>,
    },
}
