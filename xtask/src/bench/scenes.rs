//! What is compared: scenes (one target, one depth), the sides that run in them, and the contests between two sides.

use super::files;
use super::goals::Goal;
use super::sides::{Maker, Side, Tool};
use super::tio;
use super::tools::Sample;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A figure that contests are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Requests per second.
    Rate,
    /// User and system CPU time per request.
    Cpu,
    /// User CPU time per request.
    UserCpu,
    /// Little's law: mean latency times rate by depth.
    Closure,
    /// Time from one request to the next.
    Each,
}

impl Measure {
    /// For people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rate => "requests/s",
            Self::Cpu => "CPU per request",
            Self::UserCpu => "user CPU per request",
            Self::Closure => "Little's law closure",
            Self::Each => "time per request",
        }
    }

    /// Its value in a sample; none where the tool does not tell.
    #[must_use]
    pub fn of(self, sample: &Sample) -> Option<f64> {
        match self {
            Self::Rate => Some(sample.rate),
            Self::Cpu => sample.cpu_ns,
            Self::UserCpu => sample.user_ns,
            Self::Closure => sample.closure,
            Self::Each => Some(1e9 / sample.rate),
        }
    }
}

/// A comparison of two sides, or a figure of one.
pub struct Contest {
    /// Name of fathom's side.
    pub ours: &'static str,
    /// Name of the other; none when fathom's figure itself is judged.
    pub theirs: Option<&'static str>,
    /// What is compared.
    pub measure: Measure,
    /// What is wanted.
    pub goal: Goal,
}

/// What a scene reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A small file in the page cache.
    Cached,
    /// A file on this machine's disk, past the page cache.
    Disk,
    /// A loop device over a file in memory, past the page cache.
    Loop,
    /// Nothing: the null engines.
    Null,
    /// A tree of files in memory.
    Tree,
    /// A directory on this machine's disk, in which files are made.
    Spool,
    /// Many small files in the page cache.
    Small,
}

/// One target, one depth, several sides.
pub struct Scene {
    /// For `--only`.
    pub name: &'static str,
    /// For people.
    pub title: String,
    /// What is read.
    pub source: Source,
    /// Its path; none for the null engines.
    pub file: Option<PathBuf>,
    /// Requests in flight.
    pub depth: u32,
    /// How long each side runs.
    pub length: Duration,
    /// Who runs.
    pub sides: Vec<Side>,
    /// Who is compared with whom.
    pub contests: Vec<Contest>,
}

/// Sameness within 3 % takes an interval that is narrower than that: more and shorter pairs, which share what drifts. So do plain reads
/// from the page cache, which are the kernel's own time for the most part: what is reached lies as near to its goal as pairs waver.
const EQUAL_FACTOR: usize = 3;
/// So does a goal that lies as near to what is reached as the bare loop's, and user time, which the timer's tick samples.
const NEAR_FACTOR: usize = 2;

impl Scene {
    /// How many rounds of those asked for: where nothing is to be reached, a quarter tells enough.
    #[must_use]
    pub fn rounds(&self, asked: usize) -> usize {
        let has = |is_it: fn(&Contest) -> bool| self.contests.iter().any(is_it);
        if has(|c| matches!(c.goal, Goal::Equal(_)) || c.theirs == Some(FIO_PSYNC)) {
            asked * EQUAL_FACTOR
        } else if has(|contest| contest.measure == Measure::UserCpu && contest.goal != Goal::None)
            || has(|contest| contest.theirs == Some(BARE)) && self.sides.len() <= 3
        {
            asked * NEAR_FACTOR
        } else if has(|contest| contest.goal != Goal::None) {
            asked
        } else {
            asked.div_ceil(4)
        }
    }

    /// About how long it takes.
    #[must_use]
    pub fn estimate(&self, asked: usize) -> Duration {
        let length = self.length;
        let side = |side: &Side| match side.tool {
            Tool::Fathom => length + Duration::from_millis(70),
            Tool::Fio => length + Duration::from_millis(300),
            Tool::Sysbench => Duration::from_secs(1).max(length) + Duration::from_millis(50),
            Tool::Bare => tio::RUN,
            Tool::FathomFiles | Tool::BareFiles | Tool::FsMark => length + files::BESIDE,
        };
        let round: Duration = self.sides.iter().map(side).sum();
        round * u32::try_from(self.rounds(asked)).unwrap_or(u32::MAX)
    }
}

/// The paths of what is read.
pub struct Files {
    /// Small, in the page cache.
    pub cached: PathBuf,
    /// Larger, on disk.
    pub disk: PathBuf,
    /// The loop device; where there is none, a path that does not exist.
    pub looped: PathBuf,
    /// The tree; where there is none, a path that does not exist.
    pub tree: PathBuf,
    /// An empty directory.
    pub spool: PathBuf,
    /// The first of the small files.
    pub small: PathBuf,
}

impl Files {
    fn of(&self, source: Source) -> Option<&Path> {
        match source {
            Source::Cached => Some(&self.cached),
            Source::Disk => Some(&self.disk),
            Source::Loop => Some(&self.looped),
            Source::Null => None,
            Source::Tree => Some(&self.tree),
            Source::Spool => Some(&self.spool),
            Source::Small => Some(&self.small),
        }
    }

    /// Paths at which nothing is.
    #[cfg(test)]
    pub fn nowhere() -> Self {
        let [cached, disk, looped, tree, spool, small] =
            ["c", "d", "l", "t", "p", "s"].map(PathBuf::from);
        Self { cached, disk, looped, tree, spool, small }
    }
}

/// Which side comes at `step` of a round: the first side moves on by one each round, and every other round goes
/// backwards.
#[must_use]
pub fn turn(round: usize, step: usize, count: usize) -> usize {
    let step = if round.is_multiple_of(2) { step } else { count - 1 - step };
    (step + round / 2) % count
}

/// Every scene; each single run takes `length`.
#[must_use]
pub fn all(files: &Files, length: Duration) -> Vec<Scene> {
    let at = |source, depth| {
        let length = if source == Source::Loop { length / 2 } else { length };
        Maker { target: files.of(source).map(Path::to_owned), depth, length }
    };
    let short = Maker { length: length / 4, ..at(Source::Cached, 1) };
    let mut scenes = vec![
        cached_1(&at(Source::Cached, 1)),
        psync(&short),
        cached_32(&at(Source::Cached, 32)),
        bare_alone("cached-8", &at(Source::Cached, 8)),
        bare_alone("cached-128", &at(Source::Cached, 128)),
        null("null-32", &at(Source::Null, 32)),
    ];
    for (name, depth) in [("loop-1", 1), ("loop-32", 32), ("loop-128", 128)] {
        scenes.push(device(name, Source::Loop, &at(Source::Loop, depth)));
    }
    for (name, depth) in [("disk-1", 1), ("disk-32", 32), ("disk-128", 128)] {
        scenes.push(device(name, Source::Disk, &at(Source::Disk, depth)));
    }
    for (name, source, depth) in [
        ("others-1", Source::Cached, 1),
        ("others-32", Source::Cached, 32),
        ("others-128", Source::Cached, 128),
        ("others-disk-1", Source::Disk, 1),
        ("others-disk-32", Source::Disk, 32),
        ("others-disk-128", Source::Disk, 128),
    ] {
        scenes.push(others(name, source, &at(source, depth)));
    }
    scenes.push(files::walk(&at(Source::Tree, 1)));
    scenes.push(files::mail(&at(Source::Spool, 1)));
    for (name, is_shared) in [("storm-shared", true), ("storm-own", false)] {
        scenes.push(files::storm(name, is_shared, &at(Source::Spool, 1)));
    }
    scenes.push(files::small(&at(Source::Small, 1)));
    scenes
}

const FATHOM_URING: &str = "fathom io_uring";
const FATHOM_PSYNC: &str = "fathom psync";
const FATHOM_NULL: &str = "fathom null";
const FIO_PSYNC: &str = "fio psync";
const FIO_DEFAULT: &str = "fio io_uring, defaults";
const FIO_FIXED: &str = "fio io_uring, registered";
const FIO_BATCH: &str = "fio io_uring, registered, batch";
const FIO_NULL_BATCH: &str = "fio null, batch";
const SYSBENCH_SYNC: &str = "sysbench sync";
const SYSBENCH_ASYNC: &str = "sysbench async";
const BARE: &str = "t/io_uring";

const REGISTERED: [&str; 2] = ["--fixedbufs=1", "--registerfiles=1"];
const REGISTERED_DIRECT: [&str; 3] = ["--fixedbufs=1", "--registerfiles=1", "--direct=1"];
/// Little's law at depth 1, where the time between two requests is not hidden behind others, and deeper.
const CLOSURE_1: Goal = Goal::AtLeast(0.95);
const CLOSURE_DEEP: Goal = Goal::AtLeast(0.97);
const BARE_GOAL: Goal = Goal::AtLeast(0.97);

fn cached_1(make: &Maker) -> Scene {
    let sides = vec![
        make.fathom(FATHOM_URING, &["engine=io_uring", "direct=no"]),
        make.fio(FIO_FIXED, "io_uring", &REGISTERED),
        make.bare(BARE),
    ];
    let contests = vec![
        contest(FATHOM_URING, FIO_FIXED, Measure::Rate, Goal::AtLeast(1.55)),
        contest(FATHOM_URING, FIO_FIXED, Measure::UserCpu, Goal::AtMost(0.30)),
        contest(FATHOM_URING, BARE, Measure::Rate, BARE_GOAL),
        closure(FATHOM_URING, CLOSURE_1),
    ];
    scene("cached-1", Source::Cached, make, sides, contests)
}

/// Plain reads, one after another; for information the most that a program can have that records every latency.
fn psync(make: &Maker) -> Scene {
    let sides = vec![
        make.fathom(FATHOM_PSYNC, &["engine=psync", "direct=no"]),
        make.fio(FIO_PSYNC, "psync", &[]),
        files::bare(files::BARE_PREAD, make, &[files::milliseconds(make)]),
    ];
    let contests = vec![
        contest(FATHOM_PSYNC, FIO_PSYNC, Measure::Rate, Goal::AtLeast(1.90)),
        contest(FATHOM_PSYNC, files::BARE_PREAD, Measure::Rate, Goal::None),
        closure(FATHOM_PSYNC, CLOSURE_1),
    ];
    scene("psync-1", Source::Cached, make, sides, contests)
}

fn cached_32(make: &Maker) -> Scene {
    let sides = vec![
        make.fathom(FATHOM_URING, &["engine=io_uring", "direct=no"]),
        make.fio_batch(FIO_BATCH, "io_uring", &REGISTERED),
        make.fio(FIO_FIXED, "io_uring", &REGISTERED),
        make.bare(BARE),
    ];
    let contests = vec![
        contest(FATHOM_URING, FIO_BATCH, Measure::Rate, Goal::AtLeast(1.40)),
        contest(FATHOM_URING, FIO_BATCH, Measure::UserCpu, Goal::AtMost(0.12)),
        contest(FATHOM_URING, FIO_FIXED, Measure::Rate, Goal::AtLeast(2.5)),
        contest(FATHOM_URING, BARE, Measure::Rate, BARE_GOAL),
        closure(FATHOM_URING, CLOSURE_DEEP),
    ];
    scene("cached-32", Source::Cached, make, sides, contests)
}

/// Against the bare loop, with fio's best beside it.
fn bare_alone(name: &'static str, make: &Maker) -> Scene {
    let sides = vec![
        make.fathom(FATHOM_URING, &["engine=io_uring", "direct=no"]),
        make.bare(BARE),
        make.fio_batch(FIO_BATCH, "io_uring", &REGISTERED),
    ];
    let contests = vec![
        contest(FATHOM_URING, BARE, Measure::Rate, BARE_GOAL),
        contest(FATHOM_URING, FIO_BATCH, Measure::Rate, Goal::None),
        closure(FATHOM_URING, CLOSURE_DEEP),
    ];
    scene(name, Source::Cached, make, sides, contests)
}

fn null(name: &'static str, make: &Maker) -> Scene {
    let sides = vec![
        make.fathom(FATHOM_NULL, &["engine=null"]),
        make.fio_batch(FIO_NULL_BATCH, "null", &["--size=1t"]),
    ];
    let goal = Goal::AtMost(0.20);
    let contests = vec![contest(FATHOM_NULL, FIO_NULL_BATCH, Measure::UserCpu, goal)];
    scene(name, Source::Null, make, sides, contests)
}

/// A block device. The loop device has goals; the disk below this machine wavers too much for them.
fn device(name: &'static str, source: Source, make: &Maker) -> Scene {
    let ours = make.fathom(FATHOM_URING, &["engine=io_uring", "direct=yes"]);
    let (theirs, other) = if make.depth == 1 {
        (make.fio(FIO_FIXED, "io_uring", &REGISTERED_DIRECT), FIO_FIXED)
    } else {
        (make.fio_batch(FIO_BATCH, "io_uring", &REGISTERED_DIRECT), FIO_BATCH)
    };
    let (rate, cpu) = match (source, make.depth) {
        (Source::Loop, 1) => (Goal::Equal(0.03), Goal::None),
        (Source::Loop, _) => (Goal::Equal(0.03), Goal::AtMost(0.92)),
        _ => (Goal::None, Goal::None),
    };
    let contests = vec![
        contest(FATHOM_URING, other, Measure::Rate, rate),
        contest(FATHOM_URING, other, Measure::Cpu, cpu),
        closure(FATHOM_URING, Goal::None),
    ];
    scene(name, source, make, vec![ours, theirs], contests)
}

/// What people type who know only the engine's name.
fn others(name: &'static str, source: Source, make: &Maker) -> Scene {
    let is_direct = source == Source::Disk;
    let direct = if is_direct { "direct=yes" } else { "direct=no" };
    let direct_flag = is_direct.then_some("--file-extra-flags=direct");
    let flags = |more: &[&str]| -> Vec<String> {
        more.iter().copied().chain(direct_flag).map(str::to_owned).collect()
    };
    if make.depth == 1 {
        let sides = vec![
            make.fathom(FATHOM_PSYNC, &["engine=psync", direct]),
            make.sysbench(SYSBENCH_SYNC, &flags(&["--file-io-mode=sync"])),
        ];
        let contests = vec![contest(FATHOM_PSYNC, SYSBENCH_SYNC, Measure::Rate, Goal::None)];
        return scene(name, source, make, sides, contests);
    }
    let backlog = format!("--file-async-backlog={}", make.depth);
    let mut sides = vec![
        make.fathom(FATHOM_URING, &["engine=io_uring", direct]),
        make.sysbench(SYSBENCH_ASYNC, &flags(&["--file-io-mode=async", &backlog])),
    ];
    let mut contests = vec![contest(FATHOM_URING, SYSBENCH_ASYNC, Measure::Rate, Goal::None)];
    if !is_direct {
        sides.push(make.fio_plain(FIO_DEFAULT, "io_uring"));
        contests.push(contest(FATHOM_URING, FIO_DEFAULT, Measure::Rate, Goal::None));
    }
    scene(name, source, make, sides, contests)
}

/// A scene of this name and these sides; its title follows from what is read.
pub(super) fn scene(
    name: &'static str,
    source: Source,
    make: &Maker,
    sides: Vec<Side>,
    contests: Vec<Contest>,
) -> Scene {
    let depth = make.depth;
    let reads = |what| format!("4 KiB random reads, {what}, depth {depth}");
    let title = match source {
        Source::Cached => reads("4 MiB in the page cache"),
        Source::Disk => reads("1 GiB on disk, O_DIRECT"),
        Source::Loop => reads("loop device over 256 MiB of memory, O_DIRECT on both levels"),
        Source::Null => reads("null engines: the tools alone"),
        Source::Small => reads(files::SMALL),
        Source::Tree => files::TREE.to_owned(),
        Source::Spool => files::SPOOL.to_owned(),
    };
    let (file, length) = (make.target.clone(), make.length);
    Scene { name, title, source, file, depth, length, sides, contests }
}

/// Our side against another one.
pub(super) fn contest(
    ours: &'static str,
    theirs: &'static str,
    measure: Measure,
    goal: Goal,
) -> Contest {
    Contest { ours, theirs: Some(theirs), measure, goal }
}

fn closure(ours: &'static str, goal: Goal) -> Contest {
    Contest { ours, theirs: None, measure: Measure::Closure, goal }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn contests_name_sides_that_are_there() {
        for scene in all(&Files::nowhere(), Duration::from_secs(1)) {
            let names: BTreeSet<&str> = scene.sides.iter().map(|s| s.name).collect();
            assert_eq!(names.len(), scene.sides.len(), "{}", scene.name);
            for contest in &scene.contests {
                assert!(names.contains(contest.ours) && contest.ours.starts_with("fathom"));
                let theirs = contest.theirs;
                assert!(theirs.is_none_or(|t| names.contains(t) && !t.starts_with("fathom")));
            }
            assert!(!scene.contests.is_empty());
        }
    }

    #[test]
    fn every_side_runs_once_a_round_and_nobody_is_always_first() {
        let count = 4;
        let mut firsts = BTreeSet::new();
        for round in 0..8 {
            let order: BTreeSet<usize> = (0..count).map(|step| turn(round, step, count)).collect();
            assert_eq!(order.len(), count);
            firsts.insert(turn(round, 0, count));
        }
        assert_eq!(firsts.len(), count);
    }
}
