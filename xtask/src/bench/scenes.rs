//! What is compared: scenes (one file, one depth), the sides that run in them, and the contests between two sides.

use std::path::{Path, PathBuf};

/// A program that can be a side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// This project.
    Fathom,
    /// fio of the distribution.
    Fio,
    /// sysbench of the distribution.
    Sysbench,
}

/// One program with one set of options.
pub struct Side {
    /// Unique within its scene.
    pub name: &'static str,
    /// What runs.
    pub tool: Tool,
    /// With which arguments.
    pub args: Vec<String>,
}

/// What is compared between two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Requests per second.
    Rate,
    /// User and system CPU time per request.
    Cpu,
    /// User CPU time per request.
    UserCpu,
}

/// What is wanted of a ratio, ours by theirs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// This much or more.
    AtLeast(f64),
    /// This much or less.
    AtMost(f64),
    /// 1, give or take this.
    Equal(f64),
    /// Nothing: for information.
    None,
}

/// A comparison of two sides.
pub struct Contest {
    /// Name of fathom's side.
    pub ours: &'static str,
    /// Name of the other.
    pub theirs: &'static str,
    /// What is compared.
    pub measure: Measure,
    /// What is wanted.
    pub goal: Goal,
}

/// One file, one depth, several sides.
pub struct Scene {
    /// For `--only`.
    pub name: &'static str,
    /// For people.
    pub title: String,
    /// What is read; none for the null engines.
    pub file: Option<PathBuf>,
    /// Requests in flight.
    pub depth: u32,
    /// Who runs.
    pub sides: Vec<Side>,
    /// Who is compared with whom.
    pub contests: Vec<Contest>,
}

/// The test files.
pub struct Files {
    /// Small, in the page cache.
    pub cached: PathBuf,
    /// Larger, read past the page cache.
    pub direct: PathBuf,
}

/// Which side comes at `step` of a round: the first side moves on by one each round, and every other round goes
/// backwards.
#[must_use]
pub fn turn(round: usize, step: usize, count: usize) -> usize {
    let step = if round.is_multiple_of(2) { step } else { count - 1 - step };
    (step + round / 2) % count
}

/// Every scene; each single run takes `seconds`.
#[must_use]
pub fn all(files: &Files, seconds: u32) -> Vec<Scene> {
    let make = Maker { seconds };
    let mut scenes = vec![make.cached_1(&files.cached)];
    scenes.push(make.cached_deep("cached-32", &files.cached, 32));
    scenes.push(make.cached_deep("cached-128", &files.cached, 128));
    for (name, depth) in [("direct-1", 1), ("direct-32", 32), ("direct-128", 128)] {
        scenes.push(make.direct(name, &files.direct, depth));
    }
    scenes.extend([make.null("null-1", 1), make.null("null-32", 32)]);
    scenes
}

const FATHOM_URING: &str = "fathom io_uring";
const FATHOM_PSYNC: &str = "fathom psync";
const FATHOM_NULL: &str = "fathom null";
const FIO_PSYNC: &str = "fio psync";
const FIO_URING_DEFAULT: &str = "fio io_uring, defaults";
const FIO_URING_FIXED: &str = "fio io_uring, registered";
const FIO_URING_BATCH: &str = "fio io_uring, registered, batch";
const FIO_NULL: &str = "fio null";
const FIO_NULL_BATCH: &str = "fio null, batch";
const SYSBENCH_SYNC: &str = "sysbench sync";
const SYSBENCH_ASYNC: &str = "sysbench async";

const REGISTERED: [&str; 2] = ["--fixedbufs=1", "--registerfiles=1"];

struct Maker {
    seconds: u32,
}

impl Maker {
    fn cached_1(&self, file: &Path) -> Scene {
        let sides = vec![
            self.fathom(FATHOM_URING, Some(file), &["engine=io_uring", "depth=1", "direct=no"]),
            self.fio(FIO_URING_FIXED, Some(file), "io_uring", 1, &REGISTERED),
            self.fathom(FATHOM_PSYNC, Some(file), &["engine=psync", "depth=1", "direct=no"]),
            self.fio(FIO_PSYNC, Some(file), "psync", 1, &[]),
            self.sysbench(SYSBENCH_SYNC, &["--file-io-mode=sync"]),
        ];
        let contests = vec![
            contest(FATHOM_URING, FIO_URING_FIXED, Measure::Rate, Goal::AtLeast(1.55)),
            contest(FATHOM_URING, FIO_URING_FIXED, Measure::UserCpu, Goal::AtMost(0.30)),
            contest(FATHOM_PSYNC, FIO_PSYNC, Measure::Rate, Goal::AtLeast(1.90)),
            contest(FATHOM_PSYNC, SYSBENCH_SYNC, Measure::Rate, Goal::None),
            contest(FATHOM_URING, FIO_PSYNC, Measure::Rate, Goal::None),
        ];
        Scene {
            name: "cached-1",
            title: title("4 MiB in the page cache", 1),
            file: Some(file.to_owned()),
            depth: 1,
            sides,
            contests,
        }
    }

    fn cached_deep(&self, name: &'static str, file: &Path, depth: u32) -> Scene {
        let depth_key = format!("depth={depth}");
        let backlog = format!("--file-async-backlog={depth}");
        let ours = ["engine=io_uring", &depth_key, "direct=no"];
        let sides = vec![
            self.fathom(FATHOM_URING, Some(file), &ours),
            self.fio_batch(FIO_URING_BATCH, Some(file), "io_uring", depth, &REGISTERED),
            self.fio(FIO_URING_FIXED, Some(file), "io_uring", depth, &REGISTERED),
            self.fio_plain(FIO_URING_DEFAULT, file, depth),
            self.sysbench(SYSBENCH_ASYNC, &["--file-io-mode=async", &backlog]),
        ];
        let (best, fixed, user) = match depth {
            32 => (Goal::AtLeast(1.40), Goal::AtLeast(2.5), Goal::AtMost(0.12)),
            _ => (Goal::None, Goal::None, Goal::None),
        };
        let contests = vec![
            contest(FATHOM_URING, FIO_URING_BATCH, Measure::Rate, best),
            contest(FATHOM_URING, FIO_URING_BATCH, Measure::UserCpu, user),
            contest(FATHOM_URING, FIO_URING_FIXED, Measure::Rate, fixed),
            contest(FATHOM_URING, FIO_URING_DEFAULT, Measure::Rate, Goal::None),
            contest(FATHOM_URING, SYSBENCH_ASYNC, Measure::Rate, Goal::None),
        ];
        let title = title("4 MiB in the page cache", depth);
        Scene { name, title, file: Some(file.to_owned()), depth, sides, contests }
    }

    fn direct(&self, name: &'static str, file: &Path, depth: u32) -> Scene {
        let depth_key = format!("depth={depth}");
        let ours = ["engine=io_uring", &depth_key, "direct=yes"];
        let with = [REGISTERED[0], REGISTERED[1], "--direct=1"];
        let mut sides = vec![
            self.fathom(FATHOM_URING, Some(file), &ours),
            self.fio(FIO_URING_FIXED, Some(file), "io_uring", depth, &with),
        ];
        let mut contests =
            vec![contest(FATHOM_URING, FIO_URING_FIXED, Measure::Rate, Goal::Equal(0.03))];
        if depth == 1 {
            let args = ["--file-io-mode=sync", "--file-extra-flags=direct"];
            sides.push(self.sysbench(SYSBENCH_SYNC, &args));
            contests.push(contest(FATHOM_URING, FIO_URING_FIXED, Measure::Cpu, Goal::None));
            contests.push(contest(FATHOM_URING, SYSBENCH_SYNC, Measure::Rate, Goal::None));
        } else {
            sides.push(self.fio_batch(FIO_URING_BATCH, Some(file), "io_uring", depth, &with));
            let batch = FIO_URING_BATCH;
            contests.push(contest(FATHOM_URING, batch, Measure::Rate, Goal::Equal(0.03)));
            contests.push(contest(FATHOM_URING, batch, Measure::Cpu, Goal::AtMost(0.92)));
            contests.push(contest(FATHOM_URING, FIO_URING_FIXED, Measure::Cpu, Goal::None));
        }
        let title = title("1 GiB on disk, O_DIRECT", depth);
        Scene { name, title, file: Some(file.to_owned()), depth, sides, contests }
    }

    fn null(&self, name: &'static str, depth: u32) -> Scene {
        let depth_key = format!("depth={depth}");
        let mut sides = vec![
            self.fathom(FATHOM_NULL, None, &["engine=null", &depth_key]),
            self.fio(FIO_NULL, None, "null", depth, &["--size=1t"]),
        ];
        let mut contests = vec![contest(FATHOM_NULL, FIO_NULL, Measure::UserCpu, Goal::None)];
        if depth > 1 {
            sides.push(self.fio_batch(FIO_NULL_BATCH, None, "null", depth, &["--size=1t"]));
            let goal = Goal::AtMost(0.20);
            contests.push(contest(FATHOM_NULL, FIO_NULL_BATCH, Measure::UserCpu, goal));
        }
        let title = title("null engines: the tools alone", depth);
        Scene { name, title, file: None, depth, sides, contests }
    }

    fn fathom(&self, name: &'static str, file: Option<&Path>, settings: &[&str]) -> Side {
        let target = file.map_or_else(|| "null:".to_owned(), |f| f.display().to_string());
        let mut args = vec!["run".to_owned(), "randread".to_owned(), target];
        args.extend(settings.iter().map(ToString::to_string));
        args.extend([format!("duration={}s", self.seconds), "cpus=0".to_owned()]);
        args.extend(["--json", "--quiet"].map(str::to_owned));
        Side { name, tool: Tool::Fathom, args }
    }

    /// fio without its random map and with fresh seeds, as fathom has it.
    fn fio(
        &self,
        name: &'static str,
        file: Option<&Path>,
        engine: &str,
        depth: u32,
        more: &[&str],
    ) -> Side {
        let mut args = vec!["--norandommap".to_owned()];
        args.extend(more.iter().map(ToString::to_string));
        self.fio_side(name, file, engine, depth, args)
    }

    /// The same, but with as many requests handed over and taken back at once as there are.
    fn fio_batch(
        &self,
        name: &'static str,
        file: Option<&Path>,
        engine: &str,
        depth: u32,
        more: &[&str],
    ) -> Side {
        let mut side = self.fio(name, file, engine, depth, more);
        side.args.push(format!("--iodepth_batch_submit={depth}"));
        side.args.push("--iodepth_batch_complete_min=1".to_owned());
        side.args.push(format!("--iodepth_batch_complete_max={depth}"));
        side
    }

    /// What someone types who knows only the engine's name.
    fn fio_plain(&self, name: &'static str, file: &Path, depth: u32) -> Side {
        self.fio_side(name, Some(file), "io_uring", depth, Vec::new())
    }

    fn fio_side(
        &self,
        name: &'static str,
        file: Option<&Path>,
        engine: &str,
        depth: u32,
        more: Vec<String>,
    ) -> Side {
        let mut args = vec!["--name=bench".to_owned(), format!("--ioengine={engine}")];
        args.extend(file.map(|f| format!("--filename={}", f.display())));
        args.extend(
            ["--rw=randread", "--bs=4k", "--readonly", "--invalidate=0"].map(str::to_owned),
        );
        args.extend([format!("--iodepth={depth}"), "--randrepeat=0".to_owned()]);
        args.extend(["--time_based".to_owned(), format!("--runtime={}", self.seconds)]);
        args.extend(["--cpus_allowed=0".to_owned(), "--output-format=json".to_owned()]);
        args.extend(more);
        Side { name, tool: Tool::Fio, args }
    }

    /// Runs in the file's directory; its size is added when it runs.
    fn sysbench(&self, name: &'static str, more: &[&str]) -> Side {
        let words = ["fileio", "--file-num=1", "--file-test-mode=rndrd", "--file-block-size=4096"];
        let mut args: Vec<String> = words.map(str::to_owned).into();
        args.extend([format!("--time={}", self.seconds), "--threads=1".to_owned()]);
        args.extend(more.iter().map(ToString::to_string));
        args.push("run".to_owned());
        Side { name, tool: Tool::Sysbench, args }
    }
}

fn title(what: &str, depth: u32) -> String {
    format!("4 KiB random reads, {what}, depth {depth}")
}

fn contest(ours: &'static str, theirs: &'static str, measure: Measure, goal: Goal) -> Contest {
    Contest { ours, theirs, measure, goal }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn contests_name_sides_that_are_there() {
        let files = Files { cached: PathBuf::from("c"), direct: PathBuf::from("d") };
        for scene in all(&files, 1) {
            let names: BTreeSet<&str> = scene.sides.iter().map(|s| s.name).collect();
            assert_eq!(names.len(), scene.sides.len(), "{}", scene.name);
            for contest in &scene.contests {
                assert!(names.contains(contest.ours) && names.contains(contest.theirs));
                assert!(
                    contest.ours.starts_with("fathom") && !contest.theirs.starts_with("fathom")
                );
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
