//! Workloads: which I/O is issued, as jobs whose settings are words that also work as `key=value` on the command line.

use fathom_base::units;
use serde::{Deserialize, Serialize};

/// One or more jobs that run at the same time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Name on the command line.
    pub name: String,
    /// One line for lists.
    pub title: String,
    /// What it imitates and how to read its result.
    pub description: String,
    /// Which classic tool's form `--style=classic` prints.
    pub classic: Option<Classic>,
    /// What is issued.
    pub jobs: Vec<Job>,
}

/// The classic tools whose output forms are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Classic {
    /// randomio: IOPS and latencies of reads and writes per sample.
    Randomio,
    /// seeker: seeks per second and access time.
    Seeker,
    /// sdd: total time and kBytes/sec.
    Sdd,
    /// dd: records in and out, bytes, seconds, rate.
    Dd,
}

/// How offsets follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Uniform over the range, with repetition, on multiples of the alignment.
    Random,
    /// Ascending; each thread has its own part of the range, and starts it again at its end.
    Sequential,
    /// Ascending writes into a file that starts empty and grows; on a device the same as sequential.
    Append,
    /// One thread's transaction over and over: read a random block, write it back, append a log record at the end
    /// part of the range, synchronise. What a database replica's single apply thread does.
    Replication,
}

/// Which call makes data durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyncCall {
    /// fsync(2): data and all metadata.
    Fsync,
    /// fdatasync(2): data and what is needed to read it back.
    Fdatasync,
}

/// When writes are followed by a synchronising call. The call belongs to its write: both are also counted together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyncRule {
    /// Never.
    Never,
    /// After this share of the writes, chosen at random.
    Fraction(f64),
    /// After every n-th write of a thread.
    Every(u32),
}

/// How the target is opened for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpenSync {
    /// Plain.
    None,
    /// O_DSYNC.
    Dsync,
    /// O_SYNC.
    Sync,
}

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// Incompressible, no two blocks alike.
    Random,
    /// Zero bytes: flatters everything that compresses or detects zeros.
    Zero,
}

/// Which way requests reach the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineKind {
    /// io_uring, one ring per thread.
    IoUring,
    /// pread, pwrite, fsync: one request in flight per thread.
    Psync,
    /// Completes everything at once without a system call: measures fathom itself.
    Null,
}

impl EngineKind {
    /// The word that people use.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::IoUring => "io_uring",
            Self::Psync => "psync",
            Self::Null => "null",
        }
    }
}

/// A place in the target: bytes, or a share of its size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// Bytes.
    Bytes(u64),
    /// Share of the target, 0..=1.
    Share(f64),
}

impl Extent {
    /// In bytes, for a target of the given size.
    #[must_use]
    pub fn bytes(self, target_size_bytes: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Share(share) => (target_size_bytes as f64 * share) as u64,
        }
    }
}

/// One I/O size and how often it is chosen, relative to the others.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WeightedSize {
    /// Bytes per request.
    pub size_bytes: u32,
    /// Share relative to the sum of all weights.
    pub weight: f64,
}

/// The scheduling class of the I/O, see ioprio_set(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IoPriority {
    /// As inherited.
    Inherit,
    /// Best effort, level 0 (first) to 7.
    BestEffort(u8),
    /// Only when nobody else wants the disk.
    Idle,
}

/// One stream of requests: what, how many at a time, where, for how long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Name in results; `NAME.key=value` on the command line sets one job of several.
    pub name: String,
    /// Its own target in place of the command line's.
    pub target: Option<String>,
    /// Threads, each with its own engine.
    pub threads: u32,
    /// Requests that each thread keeps in flight.
    pub depth: u32,
    /// Completions to wait for before reaping; 1 unless asked, recorded with the result.
    pub batch: u32,
    /// How requests reach the kernel.
    pub engine: EngineKind,
    /// How offsets follow each other.
    pub access: Access,
    /// Sizes of requests.
    pub block_size: Vec<WeightedSize>,
    /// Offsets are multiples of this; none means the (smallest) request size.
    pub align_bytes: Option<u64>,
    /// Where the range starts.
    pub offset: Extent,
    /// How much of the target the range covers, from `offset`; none means to the end.
    pub span: Option<Extent>,
    /// Size of a file that fathom makes for this job; none means that the target decides.
    pub size_bytes: Option<u64>,
    /// Share of requests that write, 0..=1.
    pub write_fraction: f64,
    /// When writes are followed by `sync_call`.
    pub sync: SyncRule,
    /// The synchronising call.
    pub sync_call: SyncCall,
    /// A last synchronising call when all requests are done, inside the measured time.
    pub sync_at_end: Option<SyncCall>,
    /// Size of a log record of `access=replication`.
    pub log_block_size_bytes: u32,
    /// O_DIRECT: past the page cache.
    pub direct: bool,
    /// O_SYNC or O_DSYNC.
    pub open_sync: OpenSync,
    /// What is written.
    pub content: Content,
    /// Time before the measured window, not counted.
    pub warmup_ns: u64,
    /// Length of the measured window; none needs `amount_bytes` or `operations`.
    pub duration_ns: Option<u64>,
    /// Ends after this many bytes.
    pub amount_bytes: Option<u64>,
    /// Ends after this many requests.
    pub operations: Option<u64>,
    /// Scheduling class of the I/O.
    pub io_priority: IoPriority,
    /// CPUs that the threads are bound to, in turn; empty leaves it to the kernel.
    pub cpus: Vec<u32>,
}

impl Default for Job {
    fn default() -> Self {
        Self {
            name: "job".into(),
            target: None,
            threads: 1,
            depth: 1,
            batch: 1,
            engine: EngineKind::IoUring,
            access: Access::Random,
            block_size: vec![WeightedSize { size_bytes: 4096, weight: 1.0 }],
            align_bytes: None,
            offset: Extent::Bytes(0),
            span: None,
            size_bytes: None,
            write_fraction: 0.0,
            sync: SyncRule::Never,
            sync_call: SyncCall::Fsync,
            sync_at_end: None,
            log_block_size_bytes: 4096,
            direct: true,
            open_sync: OpenSync::None,
            content: Content::Random,
            warmup_ns: 0,
            duration_ns: None,
            amount_bytes: None,
            operations: None,
            io_priority: IoPriority::Inherit,
            cpus: Vec::new(),
        }
    }
}

impl Job {
    /// True when the job changes its target.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.write_fraction > 0.0 || matches!(self.access, Access::Append | Access::Replication)
    }

    /// True when the job reads its target.
    #[must_use]
    pub fn reads(&self) -> bool {
        self.access == Access::Replication
            || (self.access != Access::Append && self.write_fraction < 1.0)
    }

    /// Requests in flight over all threads.
    #[must_use]
    pub fn concurrency(&self) -> u64 {
        u64::from(self.threads) * u64::from(self.depth)
    }

    /// The largest request in bytes.
    #[must_use]
    pub fn block_size_bytes_max(&self) -> u32 {
        let log = if self.access == Access::Replication { self.log_block_size_bytes } else { 0 };
        self.block_size.iter().map(|s| s.size_bytes).max().unwrap_or(0).max(log)
    }

    /// The smallest request in bytes.
    #[must_use]
    pub fn block_size_bytes_min(&self) -> u32 {
        self.block_size.iter().map(|s| s.size_bytes).min().unwrap_or(0)
    }

    /// The weighted mean request in bytes.
    #[must_use]
    pub fn block_size_bytes_mean(&self) -> f64 {
        let total: f64 = self.block_size.iter().map(|s| s.weight).sum();
        self.block_size.iter().map(|s| f64::from(s.size_bytes) * s.weight).sum::<f64>() / total
    }

    /// The alignment of offsets in bytes.
    #[must_use]
    pub fn alignment_bytes(&self) -> u64 {
        self.align_bytes.unwrap_or_else(|| u64::from(self.block_size_bytes_min()))
    }

    /// Memory for buffers: block size x depth x threads.
    #[must_use]
    pub fn buffer_bytes(&self) -> u64 {
        u64::from(self.block_size_bytes_max()).saturating_mul(self.concurrency())
    }

    /// A short text of the block sizes, as [`crate::keys`] reads it.
    #[must_use]
    pub fn block_size_text(&self) -> String {
        match self.block_size.as_slice() {
            [one] => units::format_size(u64::from(one.size_bytes)),
            many => format!(
                "{} sizes, mean {}",
                many.len(),
                units::format_size(self.block_size_bytes_mean().round() as u64)
            ),
        }
    }
}
