//! File-server workloads: processes that walk trees and processes that grow them, side by side; what was asked and what
//! each process did.
//!
//! A process is one thread of fathom with its own histograms. Every operation is stamped with the monotonic clock at
//! both ends; those that begin and end inside the window are counted, those that cross a border are listed.

use crate::play::{PlaySpec, Played, PlayedAct};
use crate::record::{ClassRecord, OpClass};
use fathom_base::units::format_count;
use serde::{Deserialize, Serialize};

/// What a process is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Walks a tree and reads it.
    Reader,
    /// Makes a tree.
    Writer,
    /// Works on a set of files as a personality says.
    Client,
}

impl Role {
    /// The word that people see.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Reader => "reader",
            Self::Writer => "writer",
            Self::Client => "client",
        }
    }
}

/// In which order a tree is walked or made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WalkOrder {
    /// All directories of one level before the next.
    #[default]
    Breadth,
    /// What lies below a directory before the next beside it.
    Depth,
}

/// What a writer brings to stable storage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyncMode {
    /// Nothing: data goes to the page cache.
    #[default]
    None,
    /// Each file with fsync before it is closed.
    File,
    /// Each file with fdatasync before it is closed.
    Data,
    /// Each file with fsync, and the directory that it was made in.
    Dir,
}

impl SyncMode {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::None, Self::File, Self::Data, Self::Dir];

    /// The word that people use.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::File => "file",
            Self::Data => "data",
            Self::Dir => "dir",
        }
    }
}

/// How many processes of each kind a phase has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FsopPhase {
    /// Processes that read.
    pub readers: u32,
    /// Processes that write.
    pub writers: u32,
    /// Processes of a personality.
    #[serde(default, skip_serializing_if = "is_none")]
    pub clients: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_none(count: &u32) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_off(is_on: &bool) -> bool {
    !is_on
}

impl FsopPhase {
    /// Nobody in it makes anything.
    #[must_use]
    pub fn readers_alone(self) -> bool {
        self.writers == 0 && self.clients == 0
    }

    /// `3 readers, 3 writers`.
    #[must_use]
    pub fn text(self) -> String {
        let many =
            |count: u32, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
        match (self.readers, self.writers) {
            (0, 0) => many(self.clients, "client"),
            (readers, 0) => many(readers, "reader"),
            (0, writers) => many(writers, "writer"),
            (readers, writers) => {
                format!("{}, {}", many(readers, "reader"), many(writers, "writer"))
            }
        }
    }
}

/// What was asked for, with every setting resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FsopSpec {
    /// One after the other. Where only writers are added, the readers of the phase before go on.
    pub phases: Vec<FsopPhase>,
    /// Length of each window.
    pub window_ns: u64,
    /// How long writers run before the window of their phase begins.
    pub warmup_ns: u64,
    /// How trees are walked and made.
    pub walk: WalkOrder,
    /// What writers bring to stable storage.
    pub sync: SyncMode,
    /// Most bytes of one read or write call behind the first byte.
    pub block_bytes: u32,
    /// Median size of the files that writers make.
    pub size_bytes_median: u64,
    /// Mean size of the files that writers make; sizes are log-normal.
    pub size_bytes_mean: u64,
    /// Sizes are cut at this.
    pub size_bytes_max: u64,
    /// Directories that writers make in each directory.
    pub directories: u32,
    /// Files that writers make in each directory.
    pub files: u32,
    /// Caches are dropped before each phase that begins anew.
    pub drop_caches: bool,
    /// Points of the stream that are kept of each phase at the most.
    pub points: u32,
    /// Operations of this length and above are stalls.
    pub stall_ns: u64,
    /// What writers made is read back afterwards.
    #[serde(skip_serializing_if = "is_off")]
    pub verify: bool,
    /// What clients do, where a personality is measured and no readers and writers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub play: Option<Box<PlaySpec>>,
}

impl Default for FsopSpec {
    fn default() -> Self {
        let phase = |readers, writers| FsopPhase { readers, writers, clients: 0 };
        Self {
            phases: vec![phase(1, 0), phase(3, 0), phase(3, 3)],
            window_ns: 30_000_000_000,
            warmup_ns: 30_000_000_000,
            walk: WalkOrder::Breadth,
            sync: SyncMode::None,
            block_bytes: 64 << 10,
            size_bytes_median: 4 << 10,
            size_bytes_mean: 26 << 10,
            size_bytes_max: 16 << 20,
            directories: 3,
            files: 11,
            drop_caches: true,
            points: 20_000,
            stall_ns: 1_000_000_000,
            verify: false,
            play: None,
        }
    }
}

/// What readers walked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FsopTree {
    /// Where.
    pub path: String,
    /// It was built by fathom; else it is somebody's, and was only read.
    pub is_ours: bool,
    /// Every name and size in it was looked at before, and was as it was built; false in records of older versions.
    #[serde(skip_serializing_if = "is_off")]
    pub is_checked: bool,
    /// How many separate trees it has; readers beyond share them.
    pub trees: u32,
    /// Files in all of them; none when nobody counted.
    pub files: Option<u64>,
    /// Directories in all of them.
    pub directories: Option<u64>,
    /// Bytes in all of them.
    pub bytes: Option<u64>,
}

/// Whether the caches were empty when a phase began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Caches {
    /// Dropped, and what was found in memory behind it.
    Dropped(CachesLook),
    /// Not dropped, and why.
    Kept {
        /// The reason.
        reason: String,
    },
    /// The readers went on from the phase before.
    WentOn,
}

/// What was still in memory when the caches had been dropped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CachesLook {
    /// Files whose data was looked for.
    pub files_checked: u32,
    /// Bytes of them that were still cached.
    pub cached_bytes: u64,
    /// Bytes that they have.
    pub checked_bytes: u64,
    /// Other files whose names and inodes were in memory before, and were looked for; 0 in records of older versions.
    pub names_checked: u32,
    /// How many of these were still there.
    pub names_cached: u32,
    /// Entries of directories that the whole machine had in memory and nobody used: before and after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unused_entries: Option<[u64; 2]>,
    /// Inodes that the whole machine had in memory, with those in use: before and after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inodes: Option<[u64; 2]>,
}

/// An operation that crossed a border of the window, and is in no histogram.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crossing {
    /// Which class.
    pub class: OpClass,
    /// Where it began, relative to the start of the window; negative before it.
    pub start_ns: i64,
    /// How long it took in all; none when it had not ended when the phase was given up.
    pub took_ns: Option<u64>,
}

impl Crossing {
    /// How long it had been waiting when a window of that length ended; none when it had ended by then.
    #[must_use]
    pub fn age_at_end_ns(&self, window_ns: u64) -> Option<u64> {
        let age_ns = i64::try_from(window_ns).ok()?.saturating_sub(self.start_ns);
        let age_ns = u64::try_from(age_ns).ok()?;
        self.took_ns.is_none_or(|took_ns| took_ns > age_ns).then_some(age_ns)
    }

    /// How much of a window of that length it took up.
    #[must_use]
    pub fn inside_ns(&self, window_ns: u64) -> u64 {
        let window_ns = i64::try_from(window_ns).unwrap_or(i64::MAX);
        let took_ns = self.took_ns.and_then(|ns| i64::try_from(ns).ok()).unwrap_or(i64::MAX);
        let end_ns = self.start_ns.saturating_add(took_ns).min(window_ns);
        u64::try_from(end_ns.saturating_sub(self.start_ns.max(0))).unwrap_or(0)
    }
}

/// One operation on the time axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimedOp {
    /// Which class.
    pub class: OpClass,
    /// When it began, relative to the start of the window.
    pub start_ns: u64,
    /// How long it took.
    pub took_ns: u64,
}

/// What one process did in the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FsopProcess {
    /// What it was for.
    pub role: Role,
    /// Its number among those of its role, from 0.
    pub number: u32,
    /// Everything that began and ended in the window, by class.
    pub classes: Vec<ClassRecord>,
    /// What crossed a border of it.
    pub crossings: Vec<Crossing>,
    /// Its slowest operations, slowest first.
    pub slowest: Vec<TimedOp>,
    /// Operations that ended in each second.
    pub operations_by_second: Vec<u64>,
    /// How often it has gone through its whole tree since the caches were dropped.
    pub rounds: u64,
    /// Names that were gone when it came to them, or that it may not read.
    pub vanished: u64,
    /// When it had nothing more to do, relative to the start of the window: an empty tree, or all written that it may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_early_ns: Option<u64>,
    /// The transactions of a client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub played: Option<Box<Played>>,
}

impl FsopProcess {
    /// The record of one class.
    #[must_use]
    pub fn class(&self, class: OpClass) -> Option<&ClassRecord> {
        self.classes.iter().find(|c| c.class == class)
    }

    /// All operations that began and ended in the window.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.classes.iter().map(|c| c.latency_ns.count()).sum()
    }

    /// Bytes that it moved.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.classes.iter().map(|c| c.bytes).sum()
    }
}

/// What the machine did in one second of the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SecondSample {
    /// End of the second, relative to the start of the window.
    pub end_ns: u64,
    /// Its length.
    pub length_ns: u64,
    /// Bytes in memory that are still to be written, of the whole machine.
    pub dirty_bytes: u64,
    /// Bytes that are being written.
    pub writeback_bytes: u64,
    /// The devices under the target.
    pub devices: Vec<DeviceSecond>,
    /// Journal commits of the file system, of XFS writes of its log; none where it does not tell.
    pub journal_commits: Option<u64>,
}

/// What a device did in one second.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceSecond {
    /// Kernel name.
    pub name: String,
    /// Share of the second with at least one request in flight.
    pub busy_share: f64,
    /// Requests in flight on average; at the end of the second when none of them ended in it.
    pub in_flight_mean: f64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

/// Operations on the time axis, for pictures: all of them, or a part chosen by chance. Columns of equal length, times rounded
/// down.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FsopStream {
    /// Start of each operation since the start of the window, in microseconds.
    pub start_us: Vec<u64>,
    /// What each took, in whole microseconds.
    pub took_us: Vec<u64>,
    /// What each took beyond them, 0 to 999 nanoseconds; empty in records of older versions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub took_rest_ns: Vec<u16>,
    /// The class of each, as an index into `classes`.
    pub class: Vec<u8>,
    /// The process of each, as an index into the record's processes.
    pub process: Vec<u16>,
    /// The classes.
    pub classes: Vec<OpClass>,
    /// Operations that there were; more than points means that each had the same chance to be one, by process.
    pub operations: u64,
}

impl FsopStream {
    /// How many points there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.start_us.len()
    }

    /// True when there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start_us.is_empty()
    }

    /// What an operation took, in nanoseconds; in records of older versions a whole number of microseconds.
    #[must_use]
    pub fn took_ns(&self, at: usize) -> Option<u64> {
        let rest_ns = self.took_rest_ns.get(at).copied().unwrap_or(0);
        Some(self.took_us.get(at)?.saturating_mul(1_000).saturating_add(rest_ns.into()))
    }

    /// The steps in which it was told what operations took, in nanoseconds.
    #[must_use]
    pub fn step_ns(&self) -> u64 {
        if self.took_rest_ns.is_empty() { 1_000 } else { 1 }
    }

    /// How the points stand for the operations, in words.
    #[must_use]
    pub fn reduction(&self) -> String {
        if self.operations <= self.len() as u64 {
            return "every operation".to_owned();
        }
        format!(
            "{} of {} operations, drawn with equal chances within each process, and the slowest of each",
            format_count(self.len() as u64),
            format_count(self.operations)
        )
    }
}

/// The outcome of one phase of a file-server workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FsopRecord {
    /// What was asked.
    pub spec: FsopSpec,
    /// The processes of this phase.
    pub phase: FsopPhase,
    /// Which repeat it belongs to, from 1.
    pub repeat: u32,
    /// What was read.
    pub tree: FsopTree,
    /// Whether the caches were empty.
    pub caches: Caches,
    /// The processes, readers first.
    pub processes: Vec<FsopProcess>,
    /// Second by second.
    pub seconds: Vec<SecondSample>,
    /// Operations on the time axis.
    pub stream: FsopStream,
    /// Release of the kernel, for the classic header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// How much later than planned the coordinator saw the end of the window. The window itself is exact: operations
    /// are judged by their own stamps.
    pub end_seen_late_ns: u64,
}

impl FsopRecord {
    /// The processes of one role.
    pub fn of_role(&self, role: Role) -> impl Iterator<Item = &FsopProcess> {
        self.processes.iter().filter(move |process| process.role == role)
    }

    /// The transactions of all clients, kind by kind in the order in which they were asked for.
    #[must_use]
    pub fn acts(&self) -> Vec<PlayedAct> {
        let mut all: Vec<PlayedAct> = Vec::new();
        let each = self.processes.iter().filter_map(|process| process.played.as_ref());
        for act in each.flat_map(|played| &played.acts) {
            let Some(sum) = all.iter_mut().find(|sum| sum.act == act.act) else {
                all.push(act.clone());
                continue;
            };
            sum.service_ns.merge(&act.service_ns);
            if let (Some(sum), Some(more)) = (&mut sum.response_ns, &act.response_ns) {
                sum.merge(more);
            }
        }
        all
    }

    /// The operation that had been waiting longest when the window ended, and its age.
    #[must_use]
    pub fn oldest_unfinished(&self, window_ns: u64) -> Option<(&FsopProcess, OpClass, u64)> {
        let all = self.processes.iter().flat_map(|process| {
            let aged = process.crossings.iter();
            aged.filter_map(move |op| Some((process, op.class, op.age_at_end_ns(window_ns)?)))
        });
        all.max_by_key(|(_, _, age_ns)| *age_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_crosses_the_end_has_an_age_there() {
        let op = |start_ns, took_ns| Crossing { class: OpClass::MakeDir, start_ns, took_ns };
        assert_eq!(op(-5, Some(10)).age_at_end_ns(100), None, "it ended inside");
        assert_eq!(op(90, Some(30)).age_at_end_ns(100), Some(10));
        assert_eq!(op(90, None).age_at_end_ns(100), Some(10));
        assert_eq!(op(-50, Some(500)).age_at_end_ns(100), Some(150), "over both borders");
        assert_eq!(op(100, Some(1)).age_at_end_ns(100), Some(0));
        for (crossing, inside_ns) in [
            (op(-5, Some(10)), 5),
            (op(90, Some(30)), 10),
            (op(90, None), 10),
            (op(-50, Some(500)), 100),
            (op(-50, Some(50)), 0),
        ] {
            assert_eq!(crossing.inside_ns(100), inside_ns, "{crossing:?}");
        }
    }

    /// Records of older versions have whole microseconds, and are read.
    #[test]
    fn points_have_nanoseconds_where_they_were_kept() {
        let old: FsopStream = serde_json::from_str(
            r#"{"start_us":[0,7],"took_us":[0,12],"class":[0,0],"process":[0,0],"classes":["stat"],"operations":2}"#,
        )
        .expect("as it was written before");
        let took = |stream: &FsopStream| [0, 1, 2].map(|at| stream.took_ns(at));
        assert_eq!((took(&old), old.step_ns()), ([Some(0), Some(12_000), None], 1_000));
        let new = FsopStream { took_rest_ns: vec![210, 999], ..old };
        assert_eq!((took(&new), new.step_ns()), ([Some(210), Some(12_999), None], 1));
    }

    #[test]
    fn phases_in_words() {
        let text = |readers, writers| FsopPhase { readers, writers, clients: 0 }.text();
        assert_eq!(text(1, 0), "1 reader");
        assert_eq!(text(3, 1), "3 readers, 1 writer");
        assert_eq!(text(0, 2), "2 writers");
        assert_eq!(FsopPhase { readers: 0, writers: 0, clients: 1 }.text(), "1 client");
    }
}
