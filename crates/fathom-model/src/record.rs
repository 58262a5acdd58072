//! Records: the raw, immutable outcome of a trial. Everything that statistics need later is kept as counts.

use crate::extents::FileExtents;
use crate::finding::Finding;
use crate::host::HostFacts;
use crate::stack::Stack;
use crate::workload::{EngineKind, Workload};
use fathom_stats::Histogram;
use serde::{Deserialize, Serialize};

/// Version of the record's form; readers refuse newer ones.
pub const RECORD_VERSION: u32 = 1;

/// What kind of operation a latency belongs to. The classes are disjoint except that a commit spans its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpClass {
    /// A read call.
    Read,
    /// A write call that no sync follows.
    Write,
    /// A write call that its own sync follows: the write alone.
    SyncedWrite,
    /// The sync call that follows a write.
    Sync,
    /// A write together with its sync, from the start of the one to the end of the other.
    Commit,
    /// One round of `access=replication`: read, write, append, sync.
    Transaction,
}

impl OpClass {
    /// All classes.
    pub const ALL: [Self; 6] =
        [Self::Read, Self::Write, Self::SyncedWrite, Self::Sync, Self::Commit, Self::Transaction];

    /// The word that people see.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::SyncedWrite => "write (before its sync)",
            Self::Sync => "sync",
            Self::Commit => "write + sync",
            Self::Transaction => "transaction",
        }
    }

    /// True for classes that are one request to the kernel and not a sum of others.
    #[must_use]
    pub fn is_request(self) -> bool {
        !matches!(self, Self::Commit | Self::Transaction)
    }
}

/// The latencies of one class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassRecord {
    /// Which class.
    pub class: OpClass,
    /// Nanoseconds from hand-over to the kernel to the return.
    pub latency_ns: Histogram,
    /// Bytes moved.
    pub bytes: u64,
}

/// One interval of a job's series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IntervalRecord {
    /// Start, relative to the start of the measured window.
    pub start_ns: u64,
    /// Length; the last one may be shorter.
    pub length_ns: u64,
    /// What ended in it.
    pub classes: Vec<ClassRecord>,
}

/// One of the slowest operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowOp {
    /// Which class.
    pub class: OpClass,
    /// When it ended, relative to the start of the measured window.
    pub end_ns: u64,
    /// How long it took.
    pub latency_ns: u64,
    /// Where, in bytes from the start of the target.
    pub offset_bytes: u64,
    /// How much.
    pub size_bytes: u32,
}

/// An operation that was in flight when the window ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CensoredOp {
    /// Which class.
    pub class: OpClass,
    /// How long it had been waiting when the window ended; its latency is at least this.
    pub age_ns: u64,
    /// Where, in bytes from the start of the target.
    pub offset_bytes: u64,
    /// How much.
    pub size_bytes: u32,
}

/// How the requests really reached the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineRecord {
    /// What ran.
    pub kind: EngineKind,
    /// What was asked for, when it was something else, and why it could not be.
    pub fallback: Option<String>,
    /// Ring features in use, such as `single_issuer`.
    pub features: Vec<String>,
    /// Threads that ran.
    pub threads: u32,
    /// Requests per thread in flight.
    pub depth: u32,
    /// Completions waited for.
    pub batch: u32,
}

/// CPU time of a set of threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTime {
    /// In user mode.
    pub user_ns: u64,
    /// In the kernel.
    pub system_ns: u64,
}

impl CpuTime {
    /// Both together.
    #[must_use]
    pub fn total_ns(self) -> u64 {
        self.user_ns + self.system_ns
    }
}

/// What one job did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    /// The job's name.
    pub name: String,
    /// How the requests reached the kernel.
    pub engine: EngineRecord,
    /// Everything that ended in the measured window, by class.
    pub classes: Vec<ClassRecord>,
    /// The same, interval by interval.
    pub series: Vec<IntervalRecord>,
    /// The slowest 100 operations, slowest first.
    pub slowest: Vec<SlowOp>,
    /// What was still in flight at the end of the window.
    pub censored: Vec<CensoredOp>,
    /// System calls (or batches) that submitted and reaped.
    pub batches: u64,
    /// Sum over batches of the requests in flight when waiting began: divided by `batches`, the depth really held.
    pub in_flight_sum: u64,
    /// CPU time of the job's threads inside the window.
    pub cpu: CpuTime,
    /// Reads and writes that each thread ended inside the window: what fairness is judged by.
    #[serde(default)]
    pub thread_operations: Vec<u64>,
    /// CPU time of the busiest thread inside the window.
    pub busiest_thread_cpu_ns: u64,
    /// The last sync, when one was asked for; inside the window.
    pub final_sync_ns: Option<u64>,
    /// Length of the measured window of this job.
    pub window_ns: u64,
}

impl JobRecord {
    /// The record of one class.
    #[must_use]
    pub fn class(&self, class: OpClass) -> Option<&ClassRecord> {
        self.classes.iter().find(|c| c.class == class)
    }

    /// Latencies of several classes together.
    #[must_use]
    pub fn merged(&self, classes: &[OpClass]) -> ClassRecord {
        let class = classes.first().copied().unwrap_or(OpClass::Read);
        let mut sum = ClassRecord { class, latency_ns: Histogram::new(), bytes: 0 };
        for record in self.classes.iter().filter(|c| classes.contains(&c.class)) {
            sum.latency_ns.merge(&record.latency_ns);
            sum.bytes += record.bytes;
        }
        sum
    }

    /// Reads and writes (not syncs): the I/O that moves data.
    #[must_use]
    pub fn transfers(&self) -> ClassRecord {
        self.merged(&[OpClass::Read, OpClass::Write, OpClass::SyncedWrite])
    }
}

/// How the whole machine's CPUs spent the window, as shares of all CPU time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct SystemCpu {
    /// Busy with anything.
    pub busy_share: f64,
    /// Idle while I/O was outstanding.
    pub iowait_share: f64,
    /// Taken by the hypervisor for others.
    pub steal_share: f64,
}

/// What a block device of the stack did during the window, from its own counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceDelta {
    /// Kernel name.
    pub name: String,
    /// Completed reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Completed writes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Completed flushes; none on kernels that do not count them.
    pub flushes: Option<u64>,
    /// Time with at least one request in flight.
    pub busy_ns: u64,
    /// CPU time of the kernel thread that serves a software array; none for other devices.
    #[serde(default)]
    pub kernel_thread_cpu_ns: Option<u64>,
}

/// What the I/O went to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TargetRecord {
    /// As given.
    pub path: String,
    /// What it is.
    pub kind: TargetKind,
    /// Size in bytes.
    pub size_bytes: u64,
    /// O_DIRECT in effect when it was opened.
    pub direct: bool,
    /// Direct writes really bypass the page cache, as a probe before the measurement saw it; none where nothing of ours
    /// could be written to find out.
    #[serde(default)]
    pub direct_honoured: Option<bool>,
    /// Where its data lies; none for devices.
    pub extents: Option<FileExtents>,
    /// Caches of controllers and drives below, in bytes; assumed where unknown.
    pub device_cache_bytes: u64,
    /// Where that figure comes from.
    pub device_cache_reason: String,
    /// Memory that can cache its data: the machine's, or the limit of the control group.
    pub memory_bytes: u64,
    /// The layers below.
    pub stack: Stack,
}

/// Kinds of targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// A file that fathom laid out.
    OwnFile,
    /// Somebody's file, only read.
    ForeignFile,
    /// A block device.
    BlockDevice,
    /// Nothing: the null engine's.
    Null,
}

/// The first error that ended a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoFailure {
    /// The job.
    pub job: String,
    /// `read`, `write`, `fdatasync`, ...
    pub operation: String,
    /// Where, in bytes from the start of the target.
    pub offset_bytes: u64,
    /// How much was asked.
    pub size_bytes: u32,
    /// The system's error number, 0 for a short transfer.
    pub errno: i32,
    /// One line: what happened, likely cause, cure.
    pub message: String,
}

/// Page-cache traffic of the whole machine during the window, from /proc/vmstat.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageCacheDelta {
    /// Bytes dirtied.
    pub dirtied_bytes: u64,
    /// Bytes that reads brought in from devices; direct reads are among them, on every layer.
    pub paged_in_bytes: u64,
}

/// How a trial ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// As planned.
    Complete,
    /// By a signal; what had been measured until then is kept.
    Interrupted,
    /// By an I/O error.
    Failed,
}

/// The raw outcome of one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`RECORD_VERSION`] of the writer.
    pub version: u32,
    /// Row name inside its run, such as `random read, 1 in flight`.
    pub label: String,
    /// What was asked, with every setting resolved.
    pub workload: Workload,
    /// What the I/O went to, one for each distinct target.
    pub targets: Vec<TargetRecord>,
    /// What each job did.
    pub jobs: Vec<JobRecord>,
    /// Start of the measured window, UTC, nanoseconds since 1970.
    pub started_unix_ns: i64,
    /// Length of the measured window.
    pub window_ns: u64,
    /// CPU of the whole process, kernel workers for its I/O included.
    pub process_cpu: CpuTime,
    /// CPU of the machine.
    pub system_cpu: SystemCpu,
    /// Counters of the block devices below the targets.
    pub devices: Vec<DeviceDelta>,
    /// Page-cache traffic of the machine.
    pub page_cache: PageCacheDelta,
    /// Time the machine was suspended during the window.
    pub suspended_ns: u64,
    /// How it ended.
    pub ending: Ending,
    /// The error that ended it.
    pub failure: Option<IoFailure>,
    /// Seed of all random choices.
    pub seed: u64,
    /// What was seen before and during the trial (facts that cannot be recomputed later).
    pub findings: Vec<Finding>,
}

/// What a run was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunKind {
    /// `fathom quick`.
    Quick,
    /// `fathom run`.
    Run,
}

/// One invocation's head: what its records have in common.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunHead {
    /// Identifier, 12 characters.
    pub id: String,
    /// What kind of run.
    pub kind: RunKind,
    /// The user's own word for it.
    pub label: Option<String>,
    /// The command line that repeats it.
    pub command: String,
    /// The target as given.
    pub target: String,
    /// Start, UTC, nanoseconds since 1970.
    pub started_unix_ns: i64,
    /// The machine.
    pub host: HostFacts,
    /// Version of fathom.
    pub fathom_version: String,
}
