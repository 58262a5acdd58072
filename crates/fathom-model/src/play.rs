//! Personalities: clients that work on a set of files as mail servers, web servers or build machines do, each transaction
//! chosen by weight. What was asked, and what came of the transactions beside their single operations.

use crate::workload::Arrivals;
use fathom_stats::Histogram;
use serde::{Deserialize, Serialize};

/// What one transaction does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlayAct {
    /// Makes files, brings them to stable storage, and deletes as many of the oldest.
    Deliver,
    /// Makes a file.
    Create,
    /// Deletes a file.
    Delete,
    /// Opens a file, reads all of it, closes it.
    Read,
    /// Writes behind the end of a file.
    Append,
    /// Writes behind the end of the client's log, which begins anew when it is full.
    Log,
    /// Looks a file up.
    Stat,
    /// Gives a file another name.
    Rename,
    /// Gives a file a second name, and takes it away.
    Link,
    /// Reads a whole directory.
    List,
    /// Writes a new file and puts it in the place of an old one.
    Replace,
    /// Reads the next block of a large file.
    Stream,
    /// Writes the next block of a large file, which then takes the place of an old one.
    Record,
    /// Makes a tree of sources.
    TreeCreate,
    /// Reads every source of a tree and makes an object beside it.
    TreeCompile,
    /// Replaces every tenth source of a tree.
    TreePatch,
    /// Deletes the objects of a tree.
    TreeClean,
    /// Reads every file of a tree.
    TreeRead,
    /// Looks up every file of a tree.
    TreeStat,
    /// Deletes a tree.
    TreeDelete,
}

impl PlayAct {
    /// All of them, with the word that people use and what it means.
    pub const ALL: [(Self, &'static str, &'static str); 20] = [
        (
            Self::Deliver,
            "deliver",
            "create, write, sync and close a file (or batch= of them), delete the oldest",
        ),
        (Self::Create, "create", "create, write and close a file; a full set makes it a delete"),
        (Self::Delete, "delete", "delete a file chosen by chance"),
        (Self::Read, "read", "open a file, read all of it, close it"),
        (Self::Append, "append", "open a file, write append_size behind its end, close it"),
        (Self::Log, "log", "write append_size behind the end of the client's own log"),
        (Self::Stat, "stat", "look a file up (lstat)"),
        (Self::Rename, "rename", "give a file a new name"),
        (Self::Link, "link", "give a file a second name, and take it away"),
        (Self::List, "list", "read a whole directory"),
        (Self::Replace, "replace", "write a new file, rename it over an old one"),
        (Self::Stream, "stream", "read the next block_size of a large file"),
        (
            Self::Record,
            "record",
            "write the next block_size of a large file; when whole it replaces an old one",
        ),
        (Self::TreeCreate, "tree-create", "make a tree of sources"),
        (Self::TreeCompile, "tree-compile", "read each source of a tree, make an object beside it"),
        (Self::TreePatch, "tree-patch", "replace every tenth source of a tree"),
        (Self::TreeClean, "tree-clean", "delete the objects of a tree"),
        (Self::TreeRead, "tree-read", "read every file of a tree"),
        (Self::TreeStat, "tree-stat", "look up every file of a tree"),
        (Self::TreeDelete, "tree-delete", "delete a tree"),
    ];

    /// The word that people use.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(act, ..)| *act == self).map_or("", |(_, word, _)| word)
    }

    /// True for those that work on whole trees.
    #[must_use]
    pub fn is_on_trees(self) -> bool {
        self >= Self::TreeCreate
    }

    /// True for those whose speed depends on whether what they read is in memory.
    #[must_use]
    pub fn reads(self) -> bool {
        matches!(self, Self::Read | Self::Stream | Self::TreeRead | Self::TreeCompile)
    }
}

/// What clients bring to stable storage, and when: none, one by one, or the methods of fs_mark after a batch of files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlaySync {
    /// Nothing: data goes to the page cache.
    #[default]
    None,
    /// Each file with fsync before it is closed.
    File,
    /// Each file with fdatasync before it is closed.
    Data,
    /// Each file with fsync before it is closed, and its directory.
    Dir,
    /// The whole filesystem after each batch of files or each tree.
    Fs,
    /// The whole filesystem after each batch, then one of its files.
    FsOne,
    /// Each file of a batch after the last was closed, the last one first.
    Reverse,
    /// The whole filesystem, then as `Reverse`.
    FsReverse,
    /// Each file of a batch after the last was closed, in their order.
    After,
    /// The whole filesystem, then as `After`.
    FsAfter,
}

impl PlaySync {
    /// All of them with their words; those of fs_mark with its number.
    pub const ALL: [(Self, &'static str, Option<&'static str>); 10] = [
        (Self::None, "none", Some("0")),
        (Self::File, "file", Some("1")),
        (Self::Data, "data", None),
        (Self::Dir, "dir", None),
        (Self::Fs, "fs", None),
        (Self::FsOne, "fs-one", Some("2")),
        (Self::Reverse, "reverse", Some("3")),
        (Self::FsReverse, "fs-reverse", Some("4")),
        (Self::After, "after", Some("5")),
        (Self::FsAfter, "fs-after", Some("6")),
    ];

    /// The word that people use.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(sync, ..)| *sync == self).map_or("", |(_, word, _)| word)
    }

    /// True when it comes before a file is closed.
    #[must_use]
    pub fn is_in_file(self) -> bool {
        matches!(self, Self::File | Self::Data | Self::Dir)
    }

    /// True when it is about the files of a batch and comes after the last of them.
    #[must_use]
    pub fn is_after_files(self) -> bool {
        matches!(self, Self::FsOne | Self::Reverse | Self::FsReverse | Self::After | Self::FsAfter)
    }
}

/// How sizes are distributed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sizes {
    /// All between two bounds have the same chance.
    Uniform {
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
    },
    /// The logarithm is normally distributed.
    LogNormal {
        /// Half are smaller.
        median: u64,
        /// The mean.
        mean: u64,
        /// None is larger.
        max: u64,
    },
}

impl Sizes {
    /// The mean.
    #[must_use]
    pub fn mean(self) -> u64 {
        match self {
            Self::Uniform { min, max } => min.midpoint(max),
            Self::LogNormal { mean, .. } => mean,
        }
    }

    /// The largest.
    #[must_use]
    pub fn max(self) -> u64 {
        match self {
            Self::Uniform { max, .. } | Self::LogNormal { max, .. } => max,
        }
    }
}

/// What was asked of a personality, with every setting resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlaySpec {
    /// Its name.
    pub name: String,
    /// What it is, in a few words.
    pub title: String,
    /// Processes that work side by side.
    pub clients: u32,
    /// Of these, the first so many choose from `writer_mix`.
    pub writers: u32,
    /// Transactions with their weights.
    pub mix: Vec<(PlayAct, u32)>,
    /// Those of writers.
    pub writer_mix: Vec<(PlayAct, u32)>,
    /// Files that there are when the measurement begins, of all clients together.
    pub files: u64,
    /// Directories over which each client's files are spread; with 0 they lie side by side in one.
    pub dirs: u32,
    /// All clients work in one directory.
    pub shared: bool,
    /// Sizes of files.
    pub sizes: Sizes,
    /// Sizes of what is appended.
    pub append_sizes: Sizes,
    /// A log that is so long begins anew.
    pub log_bytes_max: u64,
    /// Trees of each client, for transactions on trees.
    pub trees: u32,
    /// Directories of a tree.
    pub tree_dirs: u32,
    /// Sources in each of them.
    pub tree_files: u32,
    /// What is brought to stable storage.
    pub sync: PlaySync,
    /// Files of one delivery.
    pub batch: u32,
    /// Transactions per second of all clients together; without it each goes on as soon as it can.
    pub rate: Option<f64>,
    /// How they follow each other.
    pub arrivals: Arrivals,
}

impl Default for PlaySpec {
    fn default() -> Self {
        Self {
            name: String::new(),
            title: String::new(),
            clients: 1,
            writers: 0,
            mix: Vec::new(),
            writer_mix: Vec::new(),
            files: 1_000,
            dirs: 0,
            shared: false,
            sizes: Sizes::Uniform { min: 4 << 10, max: 4 << 10 },
            append_sizes: Sizes::Uniform { min: 4 << 10, max: 4 << 10 },
            log_bytes_max: 64 << 20,
            trees: 4,
            tree_dirs: 20,
            tree_files: 20,
            sync: PlaySync::None,
            batch: 1,
            rate: None,
            arrivals: Arrivals::default(),
        }
    }
}

impl PlaySpec {
    /// Every transaction that some client chooses from.
    pub fn acts(&self) -> impl Iterator<Item = PlayAct> {
        let writers = if self.writers > 0 { &self.writer_mix[..] } else { &[] };
        let others = if self.writers < self.clients { &self.mix[..] } else { &[] };
        others.iter().chain(writers).filter(|(_, weight)| *weight > 0).map(|(act, _)| *act)
    }

    /// Files of one client when the measurement begins.
    #[must_use]
    pub fn files_each(&self) -> u64 {
        self.files.div_ceil(u64::from(self.clients.max(1)))
    }

    /// Files of one client at the most: twice as many, and a batch.
    #[must_use]
    pub fn files_each_max(&self) -> u64 {
        (2 * self.files_each()).max(16) + u64::from(self.batch)
    }

    /// Files with objects of the trees of one client at the most.
    #[must_use]
    pub fn tree_files_each_max(&self) -> u64 {
        match self.acts().any(PlayAct::is_on_trees) {
            true => {
                2 * u64::from(self.trees) * u64::from(self.tree_dirs) * u64::from(self.tree_files)
            }
            false => 0,
        }
    }

    /// What all clients may come to use at the most, about: bytes, and files with directories.
    #[must_use]
    pub fn room(&self) -> (u64, u64) {
        let grows = |act| matches!(act, PlayAct::Create | PlayAct::Append | PlayAct::Record);
        let files = if self.acts().any(grows) { self.files_each_max() } else { self.files_each() };
        let files = files + self.tree_files_each_max();
        // Of few files the mean says little, and files grow where something is appended.
        let times = if self.acts().any(|act| act == PlayAct::Append) { 4 } else { 2 };
        let each = self.sizes.mean().saturating_mul(times).min(self.sizes.max());
        let log = if self.acts().any(|act| act == PlayAct::Log) { self.log_bytes_max } else { 0 };
        let clients = u64::from(self.clients);
        let blocks = each.next_multiple_of(4096).saturating_mul(files).saturating_add(log);
        let dirs = u64::from(self.dirs) + u64::from(self.trees) * (u64::from(self.tree_dirs) + 1);
        (blocks.saturating_mul(clients), (files + dirs + 2).saturating_mul(clients))
    }
}

/// One kind of transaction of one client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlayedAct {
    /// Which.
    pub act: PlayAct,
    /// Nanoseconds from the start to the end of those that began and ended in the window.
    pub service_ns: Histogram,
    /// With a rate: nanoseconds from the intended start to the end of those that ended in the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_ns: Option<Histogram>,
}

/// What a rate came to, of one client.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlayedRate {
    /// Transactions that became due inside the window.
    pub due: u64,
    /// Those that were due and not started when it began.
    pub backlog_start: u64,
    /// Those that were due and not started when it ended.
    pub not_started: u64,
    /// How long the oldest of these had been due.
    pub oldest_not_started_ns: Option<u64>,
    /// How late fathom itself started what was due while the client had nothing else to do, in nanoseconds.
    pub start_delay_ns: Histogram,
    /// How long what was due and had not ended when the window ended had been due, in nanoseconds; of many thousands that
    /// were not started, a part.
    pub unfinished_ns: Histogram,
}

/// A transaction that went on when the window ended, and is in no row for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlayedUnfinished {
    /// Which.
    pub act: PlayAct,
    /// For how long it had gone on, in nanoseconds; it may have begun before the window.
    pub age_ns: u64,
}

/// The transactions of one client.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Played {
    /// By kind: what was done, which is not always what was drawn (there is nothing to delete where there is nothing).
    pub acts: Vec<PlayedAct>,
    /// The one that the end of the window cut, if it cut one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<PlayedUnfinished>,
    /// With a rate: what it came to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<PlayedRate>,
}

impl Played {
    /// Transactions that began and ended in the window.
    #[must_use]
    pub fn transactions(&self) -> u64 {
        self.acts.iter().map(|act| act.service_ns.count()).sum()
    }
}
