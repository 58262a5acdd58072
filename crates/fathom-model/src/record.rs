//! Records: the raw, immutable outcome of a trial. Everything that statistics need later is kept as counts.

use crate::capture::CaptureRecord;
use crate::extents::FileExtents;
use crate::finding::Finding;
use crate::fsop::FsopRecord;
use crate::host::HostFacts;
use crate::limits::{ControlGroupRecord, LimitsRecord};
use crate::payload::DeliveredRecord;
use crate::plan::cell::CellRecord;
use crate::stack::{Stack, StackAround};
use crate::verification::VerifyRecord;
use crate::workload::{EngineKind, Workload};
use fathom_stats::{Histogram, SparseHistogram};
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
    /// A trim: a discard on a device, a hole in a file. Its bytes are given back, not moved.
    Trim,
    /// A range zeroed without sending zeros. Its bytes are not moved.
    Zero,
    /// The opening of a file that was not open, before a request on it; one of the others was closed for it.
    Open,
    /// An empty file was created and closed.
    Create,
    /// A file was looked up by its name.
    Stat,
    /// A file was deleted.
    Unlink,
    /// The next entry of a directory was read; the first of a directory includes opening it.
    ReadDir,
    /// A file was opened for reading.
    OpenRead,
    /// The first byte of a file was read.
    FirstRead,
    /// The rest of a file was read.
    RestRead,
    /// A file that was read was closed.
    CloseRead,
    /// A file was created, and opened for writing.
    OpenWrite,
    /// The first byte of a file was written.
    FirstWrite,
    /// The rest of a file was written.
    RestWrite,
    /// A file that was written was closed.
    CloseWrite,
    /// A directory was made.
    MakeDir,
    /// A file got another name.
    Rename,
    /// A file got a second name.
    Link,
    /// A directory was opened, to make something in it.
    OpenDir,
    /// The names in a directory were synced.
    SyncDir,
    /// A file was opened to write behind its end.
    OpenAppend,
    /// A write behind the end of a file.
    Append,
    /// A whole directory was read.
    List,
    /// An empty directory was deleted.
    RemoveDir,
}

impl OpClass {
    /// All classes.
    pub const ALL: [Self; 30] = [
        Self::Read,
        Self::Write,
        Self::SyncedWrite,
        Self::Sync,
        Self::Commit,
        Self::Transaction,
        Self::Trim,
        Self::Zero,
        Self::Open,
        Self::Create,
        Self::Stat,
        Self::Unlink,
        Self::ReadDir,
        Self::OpenRead,
        Self::FirstRead,
        Self::RestRead,
        Self::CloseRead,
        Self::OpenWrite,
        Self::FirstWrite,
        Self::RestWrite,
        Self::CloseWrite,
        Self::MakeDir,
        Self::Rename,
        Self::Link,
        Self::OpenDir,
        Self::SyncDir,
        Self::OpenAppend,
        Self::Append,
        Self::List,
        Self::RemoveDir,
    ];
    /// Those on names, which move no data.
    pub const ON_NAMES: [Self; 3] = [Self::Create, Self::Stat, Self::Unlink];
    /// Those that move data.
    pub const TRANSFERS: [Self; 3] = [Self::Read, Self::Write, Self::SyncedWrite];

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
            Self::Trim => "trim",
            Self::Zero => "zero range",
            Self::Open => "open",
            Self::Create => "create",
            Self::Stat => "stat",
            Self::Unlink => "delete",
            Self::ReadDir => "read dir",
            Self::OpenRead => "open to read",
            Self::FirstRead => "read first byte",
            Self::RestRead => "read rest",
            Self::CloseRead => "close after reading",
            Self::OpenWrite => "create and open",
            Self::FirstWrite => "write first byte",
            Self::RestWrite => "write rest",
            Self::CloseWrite => "close after writing",
            Self::MakeDir => "mkdir",
            Self::Rename => "rename",
            Self::Link => "link",
            Self::OpenDir => "open dir",
            Self::SyncDir => "sync dir",
            Self::OpenAppend => "open to append",
            Self::Append => "append",
            Self::List => "list a directory",
            Self::RemoveDir => "rmdir",
        }
    }

    /// True for classes that are one request to the kernel and not a sum of others.
    #[must_use]
    pub fn is_request(self) -> bool {
        !matches!(self, Self::Commit | Self::Transaction | Self::Open)
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

/// The latencies of one class in one interval: frozen, because a series has many of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IntervalClass {
    /// Which class.
    pub class: OpClass,
    /// Nanoseconds from hand-over to the kernel to the return.
    pub latency_ns: SparseHistogram,
    /// Bytes moved.
    pub bytes: u64,
}

impl From<ClassRecord> for IntervalClass {
    fn from(record: ClassRecord) -> Self {
        let ClassRecord { class, latency_ns, bytes } = record;
        Self { class, latency_ns: SparseHistogram::from(&latency_ns), bytes }
    }
}

/// One interval of a job's series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IntervalRecord {
    /// Start, relative to the start of the measured window.
    pub start_ns: u64,
    /// Length; the last one may be shorter.
    pub length_ns: u64,
    /// What ended in it.
    pub classes: Vec<IntervalClass>,
    /// How an open loop kept up; none in a closed loop, and where fathom itself stood still.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_loop: Option<OpenInterval>,
}

/// One interval of an open loop. The backlog is what was due and not started, because as many requests as allowed were
/// in flight or because fathom was late.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OpenInterval {
    /// The largest backlog; over several threads the sum of what each saw, which need not be at the same time.
    pub backlog_max: u64,
    /// The backlog when the interval ended.
    pub backlog_end: u64,
    /// What ended in it.
    pub classes: Vec<IntervalResponse>,
}

/// The response times of one class in one interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IntervalResponse {
    /// Which class.
    pub class: OpClass,
    /// Nanoseconds from the intended start to the return.
    pub response_ns: SparseHistogram,
}

/// The response times of one class of an open loop: reads, writes, and writes with their syncs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResponseClass {
    /// Which class.
    pub class: OpClass,
    /// Nanoseconds from the intended start to the return, of what ended in the window.
    pub response_ns: Histogram,
    /// Of what was due in the window and had not ended with it, started or not: nanoseconds from the intended start
    /// to the window's end. Their response times are longer.
    pub unfinished_ns: Histogram,
}

impl ResponseClass {
    /// All that was due: what had not ended counts with its age, so that percentiles are lower bounds. Without it they
    /// would be those of the lucky ones.
    #[must_use]
    pub fn at_least_ns(&self) -> Histogram {
        let mut all = self.response_ns.clone();
        all.merge(&self.unfinished_ns);
        all
    }
}

/// How an open loop went: requests start when they are due, whether earlier ones have ended or not.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OpenLoopRecord {
    /// Requests that became due inside the window.
    pub due: u64,
    /// Requests that were due and not started when the window began.
    pub backlog_start: u64,
    /// Requests that were due and not started when it ended.
    pub not_started: u64,
    /// How long the oldest of these had been due.
    pub oldest_not_started_ns: Option<u64>,
    /// Nanoseconds from when a request was due and a place for it was free to its start: how late fathom itself was.
    pub start_delay_ns: Histogram,
    /// Response times by class.
    pub classes: Vec<ResponseClass>,
}

impl OpenLoopRecord {
    /// Response times of several classes together.
    #[must_use]
    pub fn merged(&self, classes: &[OpClass]) -> ResponseClass {
        let class = classes.first().copied().unwrap_or(OpClass::Read);
        let (response_ns, unfinished_ns) = (Histogram::new(), Histogram::new());
        let mut sum = ResponseClass { class, response_ns, unfinished_ns };
        for part in self.classes.iter().filter(|c| classes.contains(&c.class)) {
            sum.response_ns.merge(&part.response_ns);
            sum.unfinished_ns.merge(&part.unfinished_ns);
        }
        sum
    }
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
    /// Which of the job's files, from 0 on.
    #[serde(default)]
    pub file: u32,
    /// Where, in bytes from the start of the file or device.
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
    /// Which of the job's files, from 0 on.
    #[serde(default)]
    pub file: u32,
    /// Where, in bytes from the start of the file or device.
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

/// What one thread moved, and its times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadTimes {
    /// Bytes of its reads and writes that ended inside the window.
    pub bytes: u64,
    /// The sum of their latencies.
    pub busy_ns: u64,
    /// From the start of the window to the end of its last operation, or of its own last sync.
    pub window_ns: u64,
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
    /// How its threads were ranked and bound.
    #[serde(default)]
    pub limits: LimitsRecord,
    /// Rounds of handing over and reaping inside the window: the requests that ended, divided by this, ended with each
    /// system call.
    pub batches: u64,
    /// CPU time of the job's threads inside the window.
    pub cpu: CpuTime,
    /// Reads and writes that each thread ended inside the window, in the order of the threads: what fairness is judged
    /// by.
    #[serde(default)]
    pub thread_operations: Vec<u64>,
    /// What each thread moved and how long it took, in the same order.
    #[serde(default)]
    pub thread_times: Vec<ThreadTimes>,
    /// CPU time of the busiest thread inside the window.
    pub busiest_thread_cpu_ns: u64,
    /// The last sync, when one was asked for; inside the window. Where each thread syncs a file of its own, the mean of the
    /// threads (the longest one in records of older versions).
    pub final_sync_ns: Option<u64>,
    /// Length of the measured window of this job.
    pub window_ns: u64,
    /// Response times and backlog; none in a closed loop, where there are service times only.
    #[serde(default)]
    pub open_loop: Option<OpenLoopRecord>,
    /// What checking its blocks came to, when that was asked for.
    #[serde(default)]
    pub verify: Option<VerifyRecord>,
    /// What a storage can save of what it wrote, when it asked for a share of that.
    #[serde(default)]
    pub delivered: Option<DeliveredRecord>,
    /// The control group that was made for it alone; none when all jobs shared one, or had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_group: Option<ControlGroupRecord>,
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

    /// Requests in flight on average over the window, by Little's law: rate x mean latency, which is the sum of all
    /// latencies over the length of the window. What was still in flight at the end counts with its age. None when
    /// nothing was issued.
    ///
    /// Requests that began before the window count in full, so this is an estimate, good when latencies are short
    /// against the window; it is at most what the job may have in flight. What cannot be explained so is in
    /// [`Self::in_flight_least`].
    #[must_use]
    pub fn in_flight_mean(&self) -> Option<f64> {
        let spent_ns = self.spent_in_flight_ns();
        // During the last sync nothing of those who sync is in flight.
        let busy_ns = self.window_ns.saturating_sub(self.final_sync_ns.unwrap_or(0));
        (busy_ns > 0 && spent_ns > 0)
            .then(|| (spent_ns as f64 / busy_ns as f64).min(self.in_flight_max() as f64))
    }

    /// The least that was in flight on average, whatever began before the window: of each place one request at the most did,
    /// and none took longer than the longest that ended. Never above [`Self::in_flight_max`] where clock and counts are right.
    /// None when nothing was issued.
    #[must_use]
    pub fn in_flight_least(&self) -> Option<f64> {
        let requests = self.classes.iter().filter(|c| c.class.is_request());
        let longest_ns = requests.filter_map(|c| c.latency_ns.max()).max().unwrap_or(0);
        let spent_ns = self.spent_in_flight_ns();
        let before_ns = u128::from(longest_ns) * u128::from(self.in_flight_max());
        (self.window_ns > 0 && spent_ns > 0)
            .then(|| spent_ns.saturating_sub(before_ns) as f64 / self.window_ns as f64)
    }

    /// All latencies, and the ages of what was in flight at the end as far as they lie in the window.
    fn spent_in_flight_ns(&self) -> u128 {
        let requests = self.classes.iter().filter(|c| c.class.is_request());
        let ended_ns: u128 = requests.map(|c| c.latency_ns.sum()).sum();
        let ages = self.censored.iter().map(|op| u128::from(op.age_ns.min(self.window_ns)));
        ended_ns + ages.sum::<u128>()
    }

    /// Requests that the job may have in flight: threads x depth.
    #[must_use]
    pub fn in_flight_max(&self) -> u64 {
        u64::from(self.engine.threads) * u64::from(self.engine.depth)
    }

    /// Reads and writes (not syncs): the I/O that moves data.
    #[must_use]
    pub fn transfers(&self) -> ClassRecord {
        self.merged(&OpClass::TRANSFERS)
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

/// What the whole machine's processors did beside computing, during the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemEvents {
    /// Interrupts served, those of timers and between processors included.
    pub interrupts: u64,
    /// Switches from one thread to another.
    pub context_switches: u64,
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
    /// Time that requests spent in flight, summed over the requests that ended; none in records of older versions.
    #[serde(default)]
    pub in_flight_ns: Option<u64>,
    /// CPU time of the kernel thread that serves a software array; none for other devices.
    #[serde(default)]
    pub kernel_thread_cpu_ns: Option<u64>,
}

impl DeviceDelta {
    /// Requests in flight on average over a window, by the device's own count.
    #[must_use]
    pub fn in_flight_mean(&self, window_ns: u64) -> Option<f64> {
        (window_ns > 0).then_some(self.in_flight_ns? as f64 / window_ns as f64)
    }

    /// Share of a window with at least one request in flight, 0 to 1.
    #[must_use]
    pub fn busy_share(&self, window_ns: u64) -> f64 {
        (self.busy_ns as f64 / window_ns.max(1) as f64).min(1.0)
    }
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
    /// No job of the trial reads it. False in records of older versions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_never_read: bool,
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
    /// A directory of fathom's, in which files are created.
    OwnDirectory,
    /// Nothing: the null engine's.
    Null,
}

/// Feature of an engine whose zero ranges were written as zeros, because the device cannot do it by itself.
pub const ZEROES_WRITTEN: &str = "zero_by_writing_zeros";

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

impl IoFailure {
    /// ECANCELED: the kernel could not start one of the threads in which io_uring does what would wait, and gave the request
    /// back untried. Nothing else ends so, as fathom cancels no request and links none.
    const CANCELED: i32 = 125;

    /// The system's limit of threads was used up: nothing is wrong with the target.
    #[must_use]
    pub fn is_out_of_threads(&self) -> bool {
        self.errno == Self::CANCELED
    }
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
    /// CPU of the whole process, kernel workers for its I/O included; where a command is the load, of that and of what it has waited
    /// for.
    pub process_cpu: CpuTime,
    /// CPU of the machine.
    pub system_cpu: SystemCpu,
    /// Interrupts and context switches of the machine; none in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_events: Option<SystemEvents>,
    /// Counters of the block devices below the targets.
    pub devices: Vec<DeviceDelta>,
    /// Page-cache traffic of the machine.
    pub page_cache: PageCacheDelta,
    /// Time the machine was suspended during the window.
    pub suspended_ns: u64,
    /// Time in the window for which fathom itself did not run: its coordinator woke up that much too late (from 100 ms on).
    #[serde(default)]
    pub held_up_ns: u64,
    /// What was hot at the end of the window.
    #[serde(default)]
    pub heat: HeatRecord,
    /// The control group that was made for all its jobs; none unless a limit was asked for, the same of all.
    #[serde(default)]
    pub control_group: Option<ControlGroupRecord>,
    /// Which cell of an experiment it belongs to, and how the machine was set; none outside of experiments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<Box<CellRecord>>,
    /// What the processes of a file-server workload did; none for loads on blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fsop: Option<Box<FsopRecord>>,
    /// What devices counted, interval by interval: watched, or in a trial's window; none without a device, and of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch: Option<Box<crate::watch::WatchRecord>>,
    /// What was captured of somebody's block I/O; none outside of `fathom capture` and `fathom replay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<Box<CaptureRecord>>,
    /// How it ended.
    pub ending: Ending,
    /// The error that ended it.
    pub failure: Option<IoFailure>,
    /// Seed of all random choices.
    pub seed: u64,
    /// What was seen before and during the trial (facts that cannot be recomputed later).
    pub findings: Vec<Finding>,
}

impl Record {
    /// What was measured, watched or captured stands on these, as they were before; none of the null engine, and memory of old versions.
    #[must_use]
    pub fn stacks(&self) -> Vec<&Stack> {
        let targets = self.targets.iter().map(|target| &target.stack);
        let observed = self.stacks_around().iter().map(|around| &around.before);
        targets.chain(observed).filter(|stack| !stack.nodes.is_empty()).collect()
    }

    /// Of what was watched or captured, with what was there afterwards.
    #[must_use]
    pub fn stacks_around(&self) -> &[StackAround] {
        match (&self.watch, &self.capture) {
            (Some(watch), _) if !watch.stacks.is_empty() => &watch.stacks,
            (_, Some(capture)) => &capture.stacks,
            _ => &[],
        }
    }
}

/// What was hot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HeatRecord {
    /// How often processors were slowed down because of heat inside the window; none when the kernel does not count it.
    pub cpu_throttle_events: Option<u64>,
    /// The disks that tell their temperature.
    pub drives: Vec<DriveHeat>,
}

/// Temperature of one disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DriveHeat {
    /// Kernel name.
    pub name: String,
    /// Degrees Celsius at the end of the window.
    pub celsius: f64,
    /// From which on it warns or slows down; none when it does not say.
    pub limit_celsius: Option<f64>,
}

/// What a run was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunKind {
    /// `fathom quick`.
    Quick,
    /// `fathom run`.
    Run,
    /// `fathom run --until-steady`.
    Rounds,
    /// `fathom run --against`.
    Against,
    /// `fathom saturate`.
    Saturate,
    /// `fathom size`.
    Size,
    /// `fathom lab`.
    Experiment,
    /// `fathom raid`.
    Raid,
    /// `fathom layers`.
    Layers,
    /// `fathom watch --record`, also with a command or a recipe.
    Watch,
    /// `fathom capture`.
    Capture,
    /// `fathom replay`.
    Replay,
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

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
