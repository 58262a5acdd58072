//! Plans: an experiment as plain data. A question, what is measured, which factors vary, in which order, within which budget.
//!
//! Reading a plan file, checking it and making its cells is the work of `fathom-plan`; running it that of `fathom-lab`.

pub mod cell;
pub mod outline;
pub mod setup;

use crate::change::knob::KnobPlace;
use serde::{Deserialize, Serialize};
use setup::SetupSpec;
use std::collections::BTreeMap;

/// Version of the stored form; newer ones are refused.
pub const PLAN_VERSION: u32 = 1;

/// An experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// [`PLAN_VERSION`] of the writer.
    pub version: u32,
    /// Short name: letters, digits, `-`.
    pub name: String,
    /// What is to be found out, one sentence.
    pub question: String,
    /// What is expected, to be confirmed or refuted.
    pub hypothesis: Option<Hypothesis>,
    /// File, directory or block device; none when the setup makes it.
    pub target: Option<String>,
    /// What is issued in each trial: one after the other, or side by side.
    pub workloads: Vec<PlanWorkload>,
    /// The workloads run at the same time.
    pub is_together: bool,
    /// What varies.
    pub factors: Vec<Factor>,
    /// What is built before measuring, as far as no factor says otherwise.
    pub setup: SetupSpec,
    /// Settings that hold in every cell, by knob.
    pub knobs: BTreeMap<String, String>,
    /// Settings of the user's own.
    pub own_knobs: Vec<OwnKnob>,
    /// Which combinations, how often, in which order.
    pub design: Design,
    /// What decides, most important first.
    pub objectives: Vec<Objective>,
    /// What is done around each trial and around the whole.
    pub prepare: Prepare,
    /// What it may cost.
    pub budget: Budget,
    /// What happens when a trial fails.
    pub on_error: OnError,
    /// What its words led to when the experiment began; empty before that, and in plans that older versions have stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub footing: Vec<Footing>,
}

/// What a word of a plan led to: later the same word may mean something else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footing {
    /// A target, a device or a workload file, as the plan has it.
    pub word: String,
    /// UUID of the filesystem that it lies on; none for devices and workload files, and where the kernel does not tell it.
    pub filesystem: Option<String>,
    /// What tells the devices from others, also after a boot: WWN, serial number, UUID, path of an image, else name and size, of zram also its
    /// compression; of a workload file length and checksum.
    pub devices: Vec<String>,
    /// Size of a device; of a file only where no command may make it longer.
    #[serde(default)]
    pub size_bytes: Option<u64>,
    /// Number of a file within its filesystem, and of the image behind a loop device: another one may have its path by now.
    #[serde(default)]
    pub inode: Option<u64>,
    /// When that file was made, in nanoseconds since 1970; none where its filesystem does not say. A file that is made anew may get the inode of
    /// the one before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub born_ns: Option<i64>,
    /// With which options the filesystem is mounted that it lies on; none of devices, and where the plan or a boot may change them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_options: Option<Vec<String>>,
    /// Size of that filesystem, with the features of an ext4 in hexadecimal; none of devices, and of types that keep no size of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filesystem_form: Option<String>,
    /// Settings of the queues, read-aheads and loop devices below it that the plan does not set; none where a command of the plan's own or a boot may
    /// change them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<FoundSetting>,
}

/// A setting as it was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundSetting {
    /// Of what.
    pub place: KnobPlace,
    /// Its identifier, such as `block.scheduler`.
    pub knob: String,
    /// As the kernel shows it.
    pub value: String,
}

impl Footing {
    /// What it was and what it is, where the two are certainly not the same. Of several devices some may have been added or removed.
    #[must_use]
    pub fn replaced_by(&self, now: &Self) -> Option<(String, String)> {
        let are_known = !self.devices.is_empty() && !now.devices.is_empty();
        if are_known && !self.devices.iter().any(|device| now.devices.contains(device)) {
            return Some((self.devices.join(" and "), now.devices.join(" and ")));
        }
        let is_other = |was: &String, is: &String| {
            (was != is).then(|| (format!("filesystem {was}"), format!("filesystem {is}")))
        };
        let filesystems = self.filesystem.as_ref().zip(now.filesystem.as_ref());
        let differs = |was: Option<u64>, is: Option<u64>, words: fn(u64) -> String| {
            let (was, is) = was.zip(is).filter(|(was, is)| was != is)?;
            Some((words(was), words(is)))
        };
        filesystems
            .and_then(|(was, is)| is_other(was, is))
            .or_else(|| {
                differs(self.inode, now.inode, |inode| format!("the file of inode {inode}"))
            })
            .or_else(|| self.made_anew(now))
            .or_else(|| {
                differs(self.size_bytes, now.size_bytes, |size| format!("{size} bytes long"))
            })
            .or_else(|| {
                let (was, is) = self.filesystem_form.as_ref().zip(now.filesystem_form.as_ref())?;
                let words = |form: &str| format!("a filesystem of {form}");
                (was != is).then(|| (words(was), words(is)))
            })
            .or_else(|| {
                let (was, is) = self.mount_options.as_ref().zip(now.mount_options.as_ref())?;
                let only = |of: &[String], other: &[String]| {
                    let only: Vec<&str> =
                        of.iter().filter(|one| !other.contains(one)).map(String::as_str).collect();
                    let words = only.join(",");
                    format!(
                        "mounted with {}",
                        if only.is_empty() { "fewer options" } else { &words }
                    )
                };
                let is_same = was.iter().all(|one| is.contains(one)) && was.len() == is.len();
                (!is_same).then(|| (only(was, is), only(is, was)))
            })
    }

    /// The same inode, of a file that was made later.
    fn made_anew(&self, now: &Self) -> Option<(String, String)> {
        let (was, is) = self.born_ns.zip(now.born_ns)?;
        let was_file = format!("the file of inode {}", self.inode?);
        (was != is).then(|| (was_file, "a file that was made anew and got that number".to_owned()))
    }
}

/// An expectation that the experiment confirms, refutes, or leaves open.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hypothesis {
    /// In words.
    pub text: String,
    /// Levels of the cell that is expected to be better, by factor.
    pub better: BTreeMap<String, String>,
    /// Levels of the cell it is compared with.
    pub than: BTreeMap<String, String>,
    /// By how much at least, as a share of the other one.
    pub by: f64,
}

/// A workload with its settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanWorkload {
    /// Short name in results; unique in the plan.
    pub label: String,
    /// A built-in workload or the path of a workload file; none when a command is the load.
    pub name: Option<String>,
    /// A program as the load.
    pub command: Option<String>,
    /// `key=value` settings, as on the command line of `fathom run`.
    pub settings: BTreeMap<String, String>,
    /// A target of its own.
    pub target: Option<String>,
}

/// One thing that varies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Factor {
    /// Short name in tables; by default the last part of what it sets.
    pub name: String,
    /// What it sets.
    pub sets: FactorKind,
    /// The values, in the order given; the first is the baseline unless the design says otherwise.
    pub levels: Vec<String>,
}

/// What a factor sets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum FactorKind {
    /// A knob of the registry or one of the user's own.
    Knob {
        /// Its identifier, such as `block.scheduler`.
        id: String,
    },
    /// A setting of the workloads.
    Workload {
        /// The key, such as `block_size`.
        key: String,
        /// Of which workload; all of them when none.
        label: Option<String>,
    },
    /// A part of the setup.
    Setup {
        /// The path in the setup's table, such as `filesystem.type` or `array.chunk`.
        key: String,
    },
    /// Beside the measured load: a companion (`none`, `memory`, `cpu`, or a command).
    Companion,
    /// What the machine was booted with; fathom says what to boot, verifies it, and goes on.
    Boot {
        /// A parameter of the kernel's command line, or `kernel` for its release.
        parameter: String,
    },
    /// Nothing at all: a null test, whose levels must come out equal.
    Null,
}

/// A setting that fathom does not know: read and written by commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnKnob {
    /// Its name; used as `own.NAME`.
    pub name: String,
    /// Prints the value.
    pub read: String,
    /// Sets the value, which replaces `{value}`.
    pub write: String,
    /// What it may be set to.
    pub values: Vec<String>,
    /// Only what the setup builds has it: it is not read before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_setup: bool,
}

/// Which cells are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DesignKind {
    /// Every combination.
    Full,
    /// The baseline, and each other level with everything else at the baseline.
    OneAtATime,
    /// A regular fraction of two-level combinations that keeps main effects clear of each other.
    Fractional,
    /// Plackett-Burman: many factors, main effects only.
    Screening,
    /// One numeric factor, narrowed by halving the interval around the best.
    Narrowing,
}

/// Combinations, repetition, order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Design {
    /// Which cells.
    pub kind: DesignKind,
    /// The level of each factor in the baseline, by factor.
    pub baseline: BTreeMap<String, String>,
    /// Cells that are left out: combinations of levels, by factor.
    pub except: Vec<BTreeMap<String, String>>,
    /// At most this many blocks; each has every cell once.
    pub blocks: u32,
    /// Stop at a look (8, 12, 18, 25 blocks) when everything asked is decided.
    pub is_sequential: bool,
    /// A sentinel cell (the baseline) at the start, middle and end of every block, to see drift.
    pub has_sentinel: bool,
    /// Differences below this share do not matter, such as 0.03.
    pub margin: f64,
    /// Seed of the order.
    pub seed: Option<u64>,
    /// Cells of one setup are measured together within a block, because building it costs too much.
    pub groups_setups: bool,
    /// Workloads that run side by side change their places (target, offset, span) from block to block, so that each has
    /// every place equally often.
    #[serde(default)]
    pub rotates_places: bool,
    /// Least resolution of a fractional design, 3 or 4: 4 keeps main effects clear of interactions of two.
    #[serde(default)]
    pub resolution: Option<u8>,
    /// A narrowing design ends when the levels beside the best one are nearer to it than this share.
    #[serde(default)]
    pub narrow_to: Option<f64>,
}

/// What makes a cell better.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Objective {
    /// Which figure.
    pub metric: Metric,
    /// Of which workload; all together when none.
    pub workload: Option<String>,
    /// A bound that must hold instead of a figure to be made best, in the metric's unit.
    #[serde(serialize_with = "as_whole")]
    pub bound: Option<f64>,
    /// Which figure of a command, by name; none where it has only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figure: Option<String>,
    /// Less of a command's figure is better; of other metrics the direction is known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_less_better: bool,
}

/// Whole numbers without a decimal point, as they were stored when there were no others.
fn as_whole<S: serde::Serializer>(bound: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
    match bound {
        Some(value) if *value >= 0.0 && value.fract() == 0.0 && *value < u64::MAX as f64 => {
            to.serialize_some(&(*value as u64))
        }
        other => other.serialize(to),
    }
}

impl Objective {
    /// The metric of all workloads, to be made best.
    #[must_use]
    pub fn of(metric: Metric) -> Self {
        Self { metric, workload: None, bound: None, figure: None, is_less_better: false }
    }
}

/// Figures that decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Operations per second; more is better.
    Iops,
    /// Bytes per second; more is better.
    Rate,
    /// Mean latency in nanoseconds; less is better.
    LatencyMean,
    /// Median latency in nanoseconds.
    LatencyP50,
    /// 99th percentile of latency in nanoseconds.
    LatencyP99,
    /// 99.9th percentile of latency in nanoseconds.
    LatencyP999,
    /// Longest latency in nanoseconds.
    LatencyMax,
    /// CPU time per operation in nanoseconds.
    CpuPerIo,
    /// A figure that the application printed; more is better where the objective does not say otherwise.
    Application,
    /// Files that the readers of a file server opened per second in its last phase; more is better.
    ReadFiles,
    /// Files that its writers made per second in it; more is better.
    WrittenFiles,
    /// The share of their rate alone that readers keep beside writers; more is better.
    ReadersKeep,
    /// 99th percentile of opening a file to read it in that phase, in nanoseconds.
    OpenP99,
    /// 99th percentile of making a directory in it, in nanoseconds.
    MkdirP99,
    /// Bytes that its readers got per second in it, all together; more is better.
    ReadBytes,
    /// Bytes that its writers handed over per second in it, all together; more is better.
    WrittenBytes,
    /// Bytes per second that one reader got while it read data and did nothing else (E of the original); more is better.
    ReadDataRate,
    /// 99th percentile of reading the first byte of a file in it, in nanoseconds.
    FirstReadP99,
    /// 99th percentile of making and opening a file in it, in nanoseconds.
    CreateP99,
    /// 99th percentile of closing a file after writing it, in nanoseconds.
    CloseP99,
    /// The longest operation of that phase in nanoseconds, what had not ended with its age.
    Longest,
    /// Time to mount the filesystem of the setup after a crash at the end of the trial, with the replay of its journal, in
    /// nanoseconds.
    Recovery,
    /// How evenly readers share, as Jain's index of the operations of each; more is better, 1 is equal.
    ReaderFairness,
    /// How evenly writers share; more is better.
    WriterFairness,
    /// How evenly clients of a personality share; more is better.
    ClientFairness,
    /// Transactions per second of all clients of a personality; more is better.
    Transactions,
    /// 99th percentile of a transaction in nanoseconds: with a rate from when it was due, else from its start.
    TransactionP99,
}

/// What the values of a [`Metric`] are counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricUnit {
    /// Things per second.
    PerSecond,
    /// Bytes per second.
    BytesPerSecond,
    /// A share of a whole.
    Share,
    /// A number from 0 to 1.
    Index,
    /// Whatever the application counts.
    Own,
    /// Time.
    Nanoseconds,
}

impl Metric {
    /// True when more is better; of a command's figure the objective may say otherwise.
    #[must_use]
    pub fn is_more_better(self) -> bool {
        matches!(
            self,
            Self::Iops
                | Self::Rate
                | Self::Application
                | Self::ReadFiles
                | Self::WrittenFiles
                | Self::ReadersKeep
                | Self::ReadBytes
                | Self::WrittenBytes
                | Self::ReadDataRate
                | Self::ReaderFairness
                | Self::WriterFairness
                | Self::ClientFairness
                | Self::Transactions
        )
    }

    /// What its values are counted in.
    #[must_use]
    pub fn unit(self) -> MetricUnit {
        match self {
            Self::Iops | Self::ReadFiles | Self::WrittenFiles | Self::Transactions => {
                MetricUnit::PerSecond
            }
            Self::Rate | Self::ReadBytes | Self::WrittenBytes | Self::ReadDataRate => {
                MetricUnit::BytesPerSecond
            }
            Self::ReadersKeep => MetricUnit::Share,
            Self::ReaderFairness | Self::WriterFairness | Self::ClientFairness => MetricUnit::Index,
            Self::Application => MetricUnit::Own,
            Self::LatencyMean
            | Self::LatencyP50
            | Self::LatencyP99
            | Self::LatencyP999
            | Self::LatencyMax
            | Self::CpuPerIo
            | Self::OpenP99
            | Self::MkdirP99
            | Self::FirstReadP99
            | Self::CreateP99
            | Self::CloseP99
            | Self::Longest
            | Self::Recovery
            | Self::TransactionP99 => MetricUnit::Nanoseconds,
        }
    }

    /// Those of a file server and of a personality, in the order in which they are shown.
    pub const OF_FILE_SERVERS: [Self; 18] = [
        Self::ReadFiles,
        Self::ReadersKeep,
        Self::WrittenFiles,
        Self::OpenP99,
        Self::MkdirP99,
        Self::Transactions,
        Self::TransactionP99,
        Self::ReadBytes,
        Self::WrittenBytes,
        Self::ReadDataRate,
        Self::FirstReadP99,
        Self::CreateP99,
        Self::CloseP99,
        Self::Longest,
        Self::Recovery,
        Self::ReaderFairness,
        Self::WriterFairness,
        Self::ClientFairness,
    ];

    /// How many of them are shown without being asked for: a table has only so much room.
    pub const SHOWN_OF_FILE_SERVERS: usize = 7;

    /// True for those that personalities alone have.
    #[must_use]
    pub fn is_of_clients(self) -> bool {
        matches!(self, Self::Transactions | Self::TransactionP99 | Self::ClientFairness)
    }

    /// The name under which a trial of a file server keeps it among [`cell::CellRecord::application`]; none for other figures.
    #[must_use]
    pub fn of_file_server(self) -> Option<&'static str> {
        match self {
            Self::ReadFiles => Some("read_files_per_s"),
            Self::WrittenFiles => Some("written_files_per_s"),
            Self::ReadersKeep => Some("readers_keep"),
            Self::OpenP99 => Some("open_p99_ns"),
            Self::MkdirP99 => Some("mkdir_p99_ns"),
            Self::ReadBytes => Some("read_bytes_per_s"),
            Self::WrittenBytes => Some("written_bytes_per_s"),
            Self::ReadDataRate => Some("read_data_bytes_per_s"),
            Self::FirstReadP99 => Some("first_read_p99_ns"),
            Self::CreateP99 => Some("create_p99_ns"),
            Self::CloseP99 => Some("close_p99_ns"),
            Self::Longest => Some("longest_ns"),
            Self::Recovery => Some("recovery_ns"),
            Self::ReaderFairness => Some("reader_fairness"),
            Self::WriterFairness => Some("writer_fairness"),
            Self::ClientFairness => Some("client_fairness"),
            Self::Transactions => Some("transactions_per_s"),
            Self::TransactionP99 => Some("transaction_p99_ns"),
            _ => None,
        }
    }
}

impl Plan {
    /// True when a figure decides.
    #[must_use]
    pub fn asks_for(&self, metric: Metric) -> bool {
        self.objectives.iter().any(|objective| objective.metric == metric)
    }

    /// The stage that a block belongs to: of a narrowing the first one for the given levels, then one for each further level, of as many
    /// blocks each; of all others there is only one.
    #[must_use]
    pub fn stage_of(&self, block: u32) -> u32 {
        match self.design.kind {
            DesignKind::Narrowing => block / self.design.blocks.max(1),
            _ => 0,
        }
    }

    /// The blocks that are planned of a stage.
    #[must_use]
    pub fn blocks_of(&self, stage: u32) -> std::ops::Range<u32> {
        let each = self.design.blocks.max(1);
        let first = stage.saturating_mul(each);
        first..first.saturating_add(each)
    }
}

/// What is done around trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prepare {
    /// The page cache is dropped before each trial, and it is verified that it was.
    pub drops_caches: bool,
    /// The filesystem is mounted anew before each trial instead.
    pub remounts: bool,
    /// Wait after settings were written, in nanoseconds.
    pub settle_ns: u64,
    /// How long the devices must have been quiet before a trial, in nanoseconds; 0 for no such check.
    pub quiet_ns: u64,
    /// How long to wait for that at the most, in nanoseconds.
    pub quiet_wait_ns: u64,
    /// Swap is off while it runs.
    pub swap_off: bool,
    /// systemd units that are stopped while it runs.
    pub stop_services: Vec<String>,
    /// Governor of the processors' frequency while it runs, such as `performance`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    /// At least this much memory must be free, in bytes, for a trial to count.
    pub memory_floor_bytes: Option<u64>,
    /// Memory that the measured load and its page cache may have, in bytes, by a control group.
    #[serde(default)]
    pub memory_limit_bytes: Option<u64>,
}

/// What an experiment may cost; what is planned above it is refused before anything begins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Time of the whole experiment, in nanoseconds.
    pub time_ns: Option<u64>,
    /// Bytes that may be written to devices.
    pub written_bytes: Option<u64>,
}

/// What happens when a trial is void.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// Everything is restored and the experiment ends.
    Stop,
    /// The next trial follows.
    Continue,
}
