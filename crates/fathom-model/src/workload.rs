//! Workloads: which I/O is issued, as jobs whose settings are words that also work as `key=value` on the command line.

use crate::limits::IoMax;
use crate::metadata::Metadata;
use crate::pattern::{self, Cursor, Distribution, FileChoice, Mix};
pub use crate::payload::{Content, Verify};
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
    /// The figures that have to become steady where it runs in rounds until they are; none named means rates and means.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tracked: Vec<Tracked>,
}

/// A figure that rounds can be judged by: a rate, or a latency of each class that moves data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tracked {
    /// Operations or bytes per second, whichever the workload is about.
    Rate,
    /// Mean latency.
    Mean,
    /// Median latency.
    P50,
    /// 99th percentile.
    P99,
    /// 99.9th percentile.
    P999,
    /// The longest latency.
    Max,
}

impl Tracked {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Rate, Self::Mean, Self::P50, Self::P99, Self::P999, Self::Max];

    /// The word that people use.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
            Self::Max => "max",
        }
    }
}

/// The classic tools whose output forms are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Classic {
    /// randomio: IOPS and latencies of reads and writes per sample.
    Randomio,
    /// seeker: seeks per second and access time.
    Seeker,
    /// sdd: records, total time and kBytes/sec.
    Sdd,
    /// dd: records in and out, bytes, seconds, rate.
    Dd,
    /// iozone: one row of rates for all phases, or the throughput of several threads.
    Iozone,
    /// sysbench fileio, in the form of 0.4.
    SysbenchFileio,
    /// tiotest, the program behind tiobench: rates and latencies of four phases.
    Tiobench,
    /// bonnie++ 1.03: one row of rates and CPU shares.
    Bonnie,
    /// hdparm -t and -T.
    Hdparm,
}

/// How offsets follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// By chance over the range, with repetition, on multiples of the alignment; see [`Distribution`].
    Random,
    /// Every place once by chance before any comes again.
    Shuffled,
    /// Ascending; each thread has its own part of the range, and starts it again at its end.
    Sequential,
    /// Descending; otherwise as sequential.
    Reverse,
    /// Each place a stride after the last, over the range again and again until every place had its turn.
    Strided,
    /// Evenly spaced from the start to the end of the range, once.
    Sweep,
    /// Ascending writes into a file that starts empty and grows; on a device the same as sequential.
    Append,
    /// One thread's transaction over and over: read a random block, write it back, append a log record at the end
    /// part of the range, synchronise. What a database replica's single apply thread does.
    Replication,
    /// The requests of randomio 1.4: one stream of random numbers, never seeded, for the offset, write and sync of all
    /// threads.
    Randomio,
    /// Every record once in the order of iozone's random test.
    Iozone,
}

/// Which call makes data durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyncCall {
    /// fsync(2): data and all metadata.
    Fsync,
    /// fdatasync(2): data and what is needed to read it back.
    Fdatasync,
    /// sync_file_range(2) over what was written: waits for its write-back, makes nothing durable.
    SyncFileRange,
}

impl SyncCall {
    /// The word that people use.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Fsync => "fsync",
            Self::Fdatasync => "fdatasync",
            Self::SyncFileRange => "sync_file_range",
        }
    }
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
    /// O_DSYNC; O_SYNC in records of older versions.
    Dsync,
    /// O_SYNC.
    Sync,
}

/// Which way requests reach the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineKind {
    /// io_uring, one ring per thread.
    IoUring,
    /// Linux asynchronous I/O (io_submit); asynchronous for direct I/O only.
    Libaio,
    /// pread, pwrite, fsync: one request in flight per thread.
    Psync,
    /// Loads and stores through a mapping, msync; one request in flight per thread, through the page cache.
    Mmap,
    /// Completes everything at once without a system call: measures fathom itself.
    Null,
}

impl EngineKind {
    /// The word that people use.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::IoUring => "io_uring",
            Self::Libaio => "libaio",
            Self::Psync => "psync",
            Self::Mmap => "mmap",
            Self::Null => "null",
        }
    }

    /// True when a thread has one request in flight at the most.
    #[must_use]
    pub fn is_synchronous(self) -> bool {
        matches!(self, Self::Psync | Self::Mmap)
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

/// One I/O size, or a range of them, and how often it is chosen, relative to the others.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WeightedSize {
    /// Bytes per request; of a range the smallest.
    pub size_bytes: u32,
    /// The largest size of a range: its multiples of the smallest are equally frequent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to_bytes: Option<u32>,
    /// Share relative to the sum of all weights.
    pub weight: f64,
}

/// The scheduling class of the I/O, see ioprio_set(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IoPriority {
    /// As inherited.
    Inherit,
    /// Realtime, level 1 to 7 (0 belongs to the threads that stop the run): others may get nothing at all.
    Realtime(u8),
    /// Best effort, level 0 (first) to 7.
    BestEffort(u8),
    /// Only when nobody else wants the disk.
    Idle,
}

/// How the arrivals of an open loop follow each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// At equal distances, over all threads.
    #[default]
    Even,
    /// Independent of each other (a Poisson process): exponential distances.
    Poisson,
}

impl Arrivals {
    /// The word that people use.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Even => "even",
            Self::Poisson => "poisson",
        }
    }
}

/// One stream of requests: what, how many at a time, where, for how long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Name in results; `NAME.key=value` on the command line sets one job of several.
    pub name: String,
    /// Its own target in place of the command line's.
    pub target: Option<String>,
    /// Jobs of one phase run together, the phases of a workload one after the other; none in a workload without phases.
    #[serde(default)]
    pub phase: Option<String>,
    /// Files are created, looked up or deleted, and no data is moved; none for jobs that move data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// How many files `metadata` is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<u32>,
    /// Threads, each with its own engine.
    pub threads: u32,
    /// Requests that each thread keeps in flight.
    pub depth: u32,
    /// Completions to wait for before reaping; 1 unless asked, recorded with the result.
    pub batch: u32,
    /// How requests reach the kernel.
    pub engine: EngineKind,
    /// io_uring polls the device for completions instead of waiting for interrupts.
    #[serde(default)]
    pub polled: bool,
    /// A thread of the kernel submits for each io_uring.
    #[serde(default)]
    pub sqpoll: bool,
    /// io_uring registers files, buffers and ring: must, must not, or where possible (none).
    #[serde(default)]
    pub registered: Option<bool>,
    /// Requests that one call hands over at the most; none means all that are there.
    #[serde(default)]
    pub batch_submit: Option<u32>,
    /// How offsets follow each other.
    pub access: Access,
    /// Where random I/O goes.
    #[serde(default)]
    pub distribution: Distribution,
    /// Distance of the requests of `access=strided`.
    #[serde(default)]
    pub stride_bytes: Option<u64>,
    /// Places that `access=sweep` visits.
    #[serde(default)]
    pub sweep_points: Option<u64>,
    /// Who shares one sequential position.
    #[serde(default)]
    pub cursor: Cursor,
    /// Sizes of requests.
    pub block_size: Vec<WeightedSize>,
    /// Sizes of writes; none means those of all requests.
    #[serde(default)]
    pub write_block_size: Vec<WeightedSize>,
    /// Sizes of trims and zero ranges; none means those of all requests.
    #[serde(default)]
    pub trim_block_size: Vec<WeightedSize>,
    /// Files that fathom makes for this job, of equal size; one is a plain test file.
    #[serde(default = "one")]
    pub files: u32,
    /// Which of them comes next.
    #[serde(default)]
    pub file_choice: FileChoice,
    /// Descriptors that each thread keeps open; none means what the limits allow.
    #[serde(default)]
    pub files_open: Option<u32>,
    /// Offsets are multiples of this; none means the (smallest) request size.
    pub align_bytes: Option<u64>,
    /// Where the range starts.
    pub offset: Extent,
    /// How much of the target the range covers, from `offset`; none means to the end.
    pub span: Option<Extent>,
    /// Size of a file that fathom makes for this job; none means that the target decides.
    pub size_bytes: Option<u64>,
    /// Writes go over data that lies there; otherwise a job that only writes in sequence starts with an empty file.
    #[serde(default)]
    pub overwrite: bool,
    /// Before buffered reads, what the page cache holds of fathom's own file is dropped.
    #[serde(default = "yes")]
    pub drop_cache: bool,
    /// What each call asks for, when that is more than the kernel moves at once: every transfer is then partial.
    #[serde(default)]
    pub record_size_bytes: Option<u64>,
    /// Sizes in units of the array below, as (key, value): they become bytes when the array is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub array_sizes: Vec<(String, String)>,
    /// Share of requests that write, 0..=1.
    pub write_fraction: f64,
    /// Share of requests that trim: give their range back.
    #[serde(default)]
    pub trim_fraction: f64,
    /// Share of requests that zero their range without sending zeros.
    #[serde(default)]
    pub zero_fraction: f64,
    /// How reads and writes follow each other.
    #[serde(default)]
    pub mix: Mix,
    /// When writes are followed by `sync_call`.
    pub sync: SyncRule,
    /// The synchronising call.
    pub sync_call: SyncCall,
    /// After this many requests of all threads all files are synchronised, one after the other; these calls belong to
    /// no write.
    #[serde(default)]
    pub sync_all_every: Option<u32>,
    /// Share of the reads after which the same block is written back; such a write counts as part of its read where
    /// requests or bytes end the job.
    #[serde(default)]
    pub write_back_fraction: f64,
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
    /// Share of what is written that a compressor can save, 0..=1.
    #[serde(default)]
    pub compressible: f64,
    /// Share of what is written that deduplication can save, 0..=1, in units of the block size (the largest power of
    /// two that divides sizes and alignment).
    #[serde(default)]
    pub duplicate: f64,
    /// Whether written blocks are checked.
    #[serde(default)]
    pub verify: Verify,
    /// Time before the measured window, not counted.
    pub warmup_ns: u64,
    /// Length of the measured window; none needs `amount_bytes` or `operations`.
    pub duration_ns: Option<u64>,
    /// Ends after this many bytes.
    pub amount_bytes: Option<u64>,
    /// Ends after this many requests.
    pub operations: Option<u64>,
    /// Requests per second over all threads, whether earlier ones have ended or not: an open loop, in which `depth`
    /// limits what is in flight and the rest waits. None is a closed loop.
    #[serde(default)]
    pub rate: Option<f64>,
    /// How the requests of an open loop follow each other.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// In a closed loop, the time between the end of a request and the start of the next one in its place.
    #[serde(default)]
    pub think_time_ns: u64,
    /// In a closed loop, requests per second over all threads at the most.
    #[serde(default)]
    pub cap_iops: Option<f64>,
    /// In a closed loop, bytes per second over all threads at the most.
    #[serde(default)]
    pub cap_bytes: Option<u64>,
    /// Scheduling class of the I/O.
    pub io_priority: IoPriority,
    /// Nice value of the threads, -20 (first) to 19; none leaves the inherited one.
    #[serde(default)]
    pub nice: Option<i32>,
    /// The NUMA node whose CPUs the threads are bound to (unless `cpus` says which) and whose memory the buffers are in.
    #[serde(default)]
    pub numa_node: Option<u32>,
    /// Weight of its control group against its neighbours, 1 to 10000. One group holds all jobs when all ask for the same, else
    /// each has its own.
    #[serde(default)]
    pub cgroup_weight: Option<u32>,
    /// Limits of its control group; whose that is, see `cgroup_weight`.
    #[serde(default)]
    pub cgroup_max: IoMax,
    /// CPUs that the threads are bound to, in turn; empty leaves it to the kernel.
    pub cpus: Vec<u32>,
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}

impl Default for Job {
    fn default() -> Self {
        Self {
            name: "job".into(),
            target: None,
            phase: None,
            metadata: None,
            names: None,
            threads: 1,
            depth: 1,
            batch: 1,
            engine: EngineKind::IoUring,
            polled: false,
            sqpoll: false,
            registered: None,
            batch_submit: None,
            access: Access::Random,
            distribution: Distribution::Uniform,
            stride_bytes: None,
            sweep_points: None,
            cursor: Cursor::Thread,
            block_size: vec![WeightedSize::fixed(4096)],
            write_block_size: Vec::new(),
            trim_block_size: Vec::new(),
            files: 1,
            file_choice: FileChoice::RoundRobin,
            files_open: None,
            align_bytes: None,
            offset: Extent::Bytes(0),
            span: None,
            size_bytes: None,
            overwrite: false,
            drop_cache: true,
            record_size_bytes: None,
            array_sizes: Vec::new(),
            write_fraction: 0.0,
            trim_fraction: 0.0,
            zero_fraction: 0.0,
            mix: Mix::Random,
            sync: SyncRule::Never,
            sync_call: SyncCall::Fsync,
            sync_all_every: None,
            write_back_fraction: 0.0,
            sync_at_end: None,
            log_block_size_bytes: 4096,
            direct: true,
            open_sync: OpenSync::None,
            content: Content::Random,
            compressible: 0.0,
            duplicate: 0.0,
            verify: Verify::None,
            warmup_ns: 0,
            duration_ns: None,
            amount_bytes: None,
            operations: None,
            rate: None,
            arrivals: Arrivals::Even,
            think_time_ns: 0,
            cap_iops: None,
            cap_bytes: None,
            io_priority: IoPriority::Inherit,
            nice: None,
            numa_node: None,
            cgroup_weight: None,
            cgroup_max: IoMax::default(),
            cpus: Vec::new(),
        }
    }
}

impl Job {
    /// True when the job changes its target.
    #[must_use]
    pub fn writes(&self) -> bool {
        let writes_names = matches!(self.metadata, Some(Metadata::Create | Metadata::Delete));
        self.writes_data() || self.trim_fraction + self.zero_fraction > 0.0 || writes_names
    }

    /// True when the job sends data to its target: trims and zero ranges do not.
    #[must_use]
    pub fn writes_data(&self) -> bool {
        self.write_fraction > 0.0
            || self.write_back_fraction > 0.0
            || matches!(self.access, Access::Append | Access::Replication)
    }

    /// True when the job reads its target.
    #[must_use]
    pub fn reads(&self) -> bool {
        // Sums of decimal fractions are not exact.
        let others = self.write_fraction + self.trim_fraction + self.zero_fraction;
        let reads_some = self.access != Access::Append && others < 1.0 - 1e-12;
        self.metadata.is_none() && (self.access == Access::Replication || reads_some)
    }

    /// True when syncs follow its writes while it runs; one at the end is `sync_at_end`.
    #[must_use]
    pub fn syncs_after_writes(&self) -> bool {
        self.sync != SyncRule::Never
            || self.sync_all_every.is_some()
            || self.access == Access::Replication
    }

    /// True when it fills a file that starts empty, as dd does; what is stored through a mapping makes no file longer.
    #[must_use]
    pub fn starts_empty(&self) -> bool {
        let has_one_stream_each = self.files == 1 || self.file_choice == FileChoice::Thread;
        let can_grow = self.engine != EngineKind::Mmap && !self.overwrite && has_one_stream_each;
        self.access == Access::Append
            || (self.access == Access::Sequential && self.only_writes_data() && can_grow)
    }

    /// True when it comes to an end by itself: after one pass over its range, unless something else was asked for.
    #[must_use]
    pub fn makes_one_pass(&self) -> bool {
        self.access.has_cursor() || self.access == Access::Shuffled || self.metadata.is_some()
    }

    fn only_writes_data(&self) -> bool {
        self.writes_data() && !self.reads() && self.trim_fraction + self.zero_fraction == 0.0
    }

    /// Requests in flight over all threads.
    #[must_use]
    pub fn concurrency(&self) -> u64 {
        u64::from(self.threads) * u64::from(self.depth)
    }

    /// Sizes of the reads.
    #[must_use]
    pub fn read_sizes(&self) -> &[WeightedSize] {
        &self.block_size
    }

    /// Sizes of the writes.
    #[must_use]
    pub fn write_sizes(&self) -> &[WeightedSize] {
        if self.write_block_size.is_empty() { &self.block_size } else { &self.write_block_size }
    }

    /// Sizes of trims and zero ranges.
    #[must_use]
    pub fn trim_sizes(&self) -> &[WeightedSize] {
        if self.trim_block_size.is_empty() { &self.block_size } else { &self.trim_block_size }
    }

    /// Each kind of request that the job issues: its share and its sizes.
    fn size_shares(&self) -> Vec<(f64, &[WeightedSize])> {
        let reads = 1.0 - self.write_fraction - self.trim_fraction - self.zero_fraction;
        let trims = self.trim_fraction + self.zero_fraction;
        let all = [
            (if self.reads() { reads.max(f64::MIN_POSITIVE) } else { 0.0 }, self.read_sizes()),
            (
                if self.access == Access::Append { 1.0 } else { self.write_fraction },
                self.write_sizes(),
            ),
            (trims, self.trim_sizes()),
        ];
        all.into_iter().filter(|(share, _)| *share > 0.0).collect()
    }

    fn all_sizes(&self) -> impl Iterator<Item = WeightedSize> {
        self.size_shares().into_iter().flat_map(|(_, sizes)| sizes.iter().copied())
    }

    /// The largest request in bytes.
    #[must_use]
    pub fn block_size_bytes_max(&self) -> u32 {
        let log = if self.access == Access::Replication { self.log_block_size_bytes } else { 0 };
        self.all_sizes().map(WeightedSize::max_bytes).max().unwrap_or(0).max(log)
    }

    /// The largest request in bytes that moves data and so needs a buffer.
    #[must_use]
    pub fn buffer_bytes_max(&self) -> u32 {
        if self.trim_block_size.is_empty() {
            return self.block_size_bytes_max();
        }
        let sizes = self.read_sizes().iter().chain(self.write_sizes());
        sizes.map(|s| s.max_bytes()).max().unwrap_or(0)
    }

    /// The smallest request in bytes.
    #[must_use]
    pub fn block_size_bytes_min(&self) -> u32 {
        self.all_sizes().map(|s| s.size_bytes).min().unwrap_or(0)
    }

    /// The weighted mean request in bytes.
    #[must_use]
    pub fn block_size_bytes_mean(&self) -> f64 {
        let shares = self.size_shares();
        let total: f64 = shares.iter().map(|(share, _)| share).sum();
        shares.iter().map(|(share, sizes)| share * pattern::mean_bytes(sizes)).sum::<f64>() / total
    }

    /// The alignment of offsets in bytes.
    #[must_use]
    pub fn alignment_bytes(&self) -> u64 {
        self.align_bytes.unwrap_or_else(|| u64::from(self.block_size_bytes_min()))
    }

    /// A short text of the block sizes.
    #[must_use]
    pub fn block_size_text(&self) -> String {
        let mut text = pattern::sizes_text(&self.block_size);
        for (what, sizes) in [("writes", &self.write_block_size), ("trims", &self.trim_block_size)]
        {
            if !sizes.is_empty() {
                text += &format!(", {what} {}", pattern::sizes_text(sizes));
            }
        }
        text
    }
}
