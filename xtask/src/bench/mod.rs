//! `cargo xtask bench`: the load engine against fio and sysbench, both sides in turn in one run.
//!
//! Absolute figures mean nothing from one hour to the next; what counts is the ratio of two sides that ran seconds
//! apart. So every round runs each side of a comparison once, in an order that turns round from round to round, and
//! the result is the rounds' ratio (Hodges and Lehmann, on logs) with an exact interval. Goals that are missed do not fail the
//! command: figures are printed beside their goals.

mod files;
mod following;
mod goals;
mod instructions;
mod memory;
mod place;
mod pread;
mod recording;
mod report;
mod scenes;
mod sides;
mod start;
mod stats;
mod tio;
mod tools;
mod trace;
mod truth;
mod watching;

use crate::process::in_words;
use crate::{Outcome, flags::Flags, workspace};
use place::{LoopDevice, Place, Tree, lay_out};
use report::{Facts, Report, Section};
use scenes::{Files, Scene, Source};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tools::{Programs, Sample};

pub const HELP: &str = "\
cargo xtask bench [--pairs=N] [--seconds=S] [--only=NAME]... [--instructions] [--write]

measures the load engine's speed against fio and sysbench, and that of loads of files against bare system calls and
fs_mark, as ratios beside their goals

  --pairs=N        rounds; each runs every side of a comparison once (default 20; fewer let nothing pass; more where
                   the goal is sameness or lies near, or is user time)
  --seconds=S      length of each single run, also 0.5 (default 1)
  --only=NAME      this part alone; may be repeated. Comparisons: cached-1, psync-1, cached-8, cached-32,
                   cached-128, loop-1, loop-32, loop-128, null-32; for information, with a quarter of the
                   rounds: disk-1, disk-32, disk-128, others-1, others-32, others-128, others-disk-1,
                   others-disk-32, others-disk-128 (sysbench). With files: walk
                   (a reader of fsop against the bare system calls); for information mail (against them and
                   fs_mark), storm-shared, storm-own (names in one directory and in one of each process, against a
                   loop as mdtest has it), small (against sysbench). Single figures: recording (cost of recording
                   latencies), memory, start (time to the first I/O), truth (latencies against the kernel's
                   tracepoints), capture (its reader against trace-cmd's recorders), watch (a hundred devices once a
                   second), instructions
  --instructions   the same as --only=instructions: callgrind counts what one request costs (stable)
  --write          the result also goes to docs/bench.md, to be committed

Builds target/release/fathom first, and once t/io_uring from fio's Debian source package (kept in target/bench).
Uses CPU 0 for all sides; 1 GiB of disk and 256 MiB of memory for as long as it runs. As root, it makes a loop device
(a hundred small ones for watch), mounts the kernel's tracing files for itself, and keeps unbound kernel workers off CPU
0 for the while. What is not installed (fio, sysbench, fs_mark, trace-cmd, valgrind) or not permitted is skipped and
counted. About 29 minutes.
";

const CACHED_BYTES: u64 = 4 << 20;
const DISK_BYTES: u64 = 1 << 30;

/// What was asked for.
struct Options {
    rounds: usize,
    length: Duration,
    only: Vec<String>,
    write: bool,
}

impl Options {
    fn parse(args: &[String]) -> Result<Self, String> {
        let keys = ["--pairs", "--seconds", "--only"];
        let flags = Flags::parse(args, &["--instructions", "--write"], &keys)?;
        let number = |key: &str, default: f64, least: f64| match flags.values(key).last() {
            None => Ok(default),
            Some(text) => {
                text.parse().ok().filter(|n| (least..=1e4).contains(n)).ok_or_else(|| {
                    format!("{key}={text}: a number from {least} to 10000 is needed")
                })
            }
        };
        let mut only: Vec<String> = flags.values("--only").into_iter().map(str::to_owned).collect();
        if flags.has("--instructions") {
            only.push(instructions::NAME.to_owned());
        }
        Ok(Self {
            rounds: number("--pairs", 20.0, 1.0)? as usize,
            length: Duration::from_secs_f64(number("--seconds", 1.0, 0.1)?),
            only,
            write: flags.has("--write"),
        })
    }

    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }
}

/// What a part has to work with.
struct Bench {
    programs: Programs,
    files: Files,
    /// None where it cannot be made, with the reason.
    device: Result<LoopDevice, String>,
    /// As the device.
    tree: Result<Tree, String>,
    place: Place,
    rounds: usize,
}

/// Why a part has no result.
enum Trouble {
    /// This machine lacks something.
    Missing(String),
    /// It went wrong.
    Failed(String),
}

impl From<String> for Trouble {
    fn from(error: String) -> Self {
        Self::Failed(error)
    }
}

/// A part that is measured in a way of its own.
struct Single {
    name: &'static str,
    estimate: fn(usize) -> Duration,
    source: Source,
    run: fn(&Bench) -> Result<Section, Trouble>,
}

const SINGLES: [Single; 7] = [
    Single {
        name: recording::NAME,
        estimate: recording::estimate,
        source: Source::Cached,
        run: recording::section,
    },
    Single {
        name: memory::NAME,
        estimate: memory::estimate,
        source: Source::Cached,
        run: memory::section,
    },
    Single {
        name: start::NAME,
        estimate: start::estimate,
        source: Source::Cached,
        run: start::section,
    },
    Single {
        name: truth::NAME,
        estimate: truth::estimate,
        source: Source::Loop,
        run: truth::section,
    },
    Single {
        name: following::NAME,
        estimate: following::estimate,
        source: Source::Loop,
        run: following::section,
    },
    Single {
        name: watching::NAME,
        estimate: watching::estimate,
        source: Source::Cached,
        run: watching::section,
    },
    Single {
        name: instructions::NAME,
        estimate: instructions::estimate,
        source: Source::Cached,
        run: instructions::section,
    },
];

/// The command.
///
/// # Errors
/// For bad options, or when the binary cannot be built or the files not be made.
pub fn run(args: &[String]) -> Outcome {
    let options = Options::parse(args)?;
    let place = Place::new()?;
    let mut files = Files {
        cached: place.file("cached"),
        disk: place.file("disk"),
        looped: PathBuf::from("/dev/no-loop-device"),
        tree: PathBuf::from("/dev/shm/no-tree"),
        spool: place.directory.join("spool"),
        small: place.file("small"),
    };
    let is_known = |name: &String| {
        let scenes = scenes::all(&files, options.length);
        SINGLES.iter().any(|s| s.name == *name) || scenes.iter().any(|s| s.name == *name)
    };
    if let Some(unknown) = options.only.iter().find(|name| !is_known(name)) {
        return Err(format!("there is no part '{unknown}'; --help names them"));
    }
    build_with(&["--package=fathom"])?;
    if options.wants(recording::NAME) {
        recording::build()?;
    }
    let wanted = |all: Vec<Scene>| -> Vec<Scene> {
        all.into_iter().filter(|s| options.wants(s.name)).collect()
    };
    let singles: Vec<&Single> = SINGLES.iter().filter(|s| options.wants(s.name)).collect();
    let scenes = wanted(scenes::all(&files, options.length));
    let needs = |source| {
        scenes.iter().any(|s| s.source == source) || singles.iter().any(|s| s.source == source)
    };
    let device =
        if needs(Source::Loop) { LoopDevice::new() } else { Err("not asked for".to_owned()) };
    if needs(Source::Cached) {
        lay_out(&files.cached, CACHED_BYTES)?;
    }
    if needs(Source::Disk) {
        lay_out(&files.disk, DISK_BYTES)?;
    }
    if let Ok(device) = &device {
        files.looped.clone_from(&device.path);
    }
    let tree = if needs(Source::Tree) { Tree::new() } else { Err("not asked for".to_owned()) };
    if let Ok(tree) = &tree {
        files.tree.clone_from(&tree.path);
    }
    files::prepare(&files, &needs)?;
    let scenes = wanted(scenes::all(&files, options.length));
    let bare = scenes.iter().flat_map(|s| &s.sides).any(|s| s.tool == sides::Tool::Bare);
    let bare = if bare { tio::program(&kept()) } else { Err("not asked for".to_owned()) };
    let programs = Programs::found(binary(), place.store(), bare);
    let bench = Bench { programs, files, device, tree, place, rounds: options.rounds };
    Ok(all(&options, &bench, &scenes, &singles)?.is_success())
}

fn all(
    options: &Options,
    bench: &Bench,
    scenes: &[Scene],
    singles: &[&Single],
) -> Result<Report, String> {
    let mut report = Report::new(Facts::of_now(options, &bench.programs, &bench.place.directory));
    print!("{}", report.heading());
    let of_scenes: Duration = scenes.iter().map(|s| s.estimate(options.rounds)).sum();
    let of_singles: Duration = singles.iter().map(|s| (s.estimate)(options.rounds)).sum();
    eprintln!("\nabout {} to go", in_words(of_scenes + of_singles));
    let start = Instant::now();
    for scene in scenes {
        let samples = measure(scene, bench, &mut report);
        print!("{}", report.add_scene(scene, &samples));
    }
    for single in singles {
        eprint!("\r{} ", single.name);
        let section = (single.run)(bench);
        eprint!("\r{:30}\r", "");
        match section {
            Ok(section) => print!("{}", report.add_section(section)),
            Err(Trouble::Missing(reason)) => report.skip(format!("{}: {reason}", single.name)),
            Err(Trouble::Failed(error)) => report.fail(format!("{}: {error}", single.name)),
        }
    }
    print!("{}", report.ending());
    eprintln!("\ntook {}", in_words(start.elapsed()));
    if options.write {
        let path = workspace::root().join("docs/bench.md");
        fs::write(&path, report.document()).map_err(|e| format!("{}: {e}", path.display()))?;
        println!("written: {}", path.display());
    }
    Ok(report)
}

/// Every round's sample of each side; none where the side's program is missing or failed.
fn measure(scene: &Scene, bench: &Bench, report: &mut Report) -> Vec<Vec<Option<Sample>>> {
    let (count, rounds) = (scene.sides.len(), scene.rounds(bench.rounds));
    let mut samples: Vec<Vec<Option<Sample>>> = vec![Vec::with_capacity(rounds); count];
    let mut given_up = vec![false; count];
    let no_device = match scene.source {
        Source::Loop => {
            bench.device.as_ref().err().map(|reason| format!("no loop device: {reason}"))
        }
        Source::Tree => bench.tree.as_ref().err().map(|reason| format!("no tree: {reason}")),
        _ => None,
    };
    for (index, side) in scene.sides.iter().enumerate() {
        if let Some(reason) = no_device.clone().or_else(|| bench.programs.missing(side.tool)) {
            report.skip(format!("{}, {}: {reason}", scene.name, side.name));
            given_up[index] = true;
        }
    }
    for round in 0..rounds {
        eprint!("\r{} {}/{rounds} ", scene.name, round + 1);
        for step in 0..count {
            let index = scenes::turn(round, step, count);
            let side = &scene.sides[index];
            let sample = if given_up[index] { None } else { Some(bench.programs.run(scene, side)) };
            if let Some(Err(error)) = &sample {
                report.fail(format!("{}, {}: {error}", scene.name, side.name));
                given_up[index] = true;
            }
            samples[index].push(sample.and_then(Result::ok));
        }
    }
    eprint!("\r{:30}\r", "");
    samples
}

fn binary() -> PathBuf {
    workspace::root().join("target/release/fathom")
}

/// What later runs use again.
fn kept() -> PathBuf {
    workspace::root().join("target/bench")
}

fn build_with(args: &[&str]) -> Result<(), String> {
    let mut command = workspace::cargo();
    command.args(["build", "--locked", "--release"]).args(args);
    let status = command.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("the build failed: {status}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Options, String> {
        Options::parse(&args.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn options() {
        let options = parse(&["--pairs=7", "--only", "null-32", "--instructions"]).unwrap();
        assert_eq!((options.rounds, options.length.as_millis(), options.write), (7, 1000, false));
        assert!(options.wants("null-32") && options.wants(instructions::NAME));
        assert!(!options.wants("cached-1"));
        assert!(parse(&[]).unwrap().wants("null-32"));
        assert_eq!(parse(&["--seconds=0.5"]).unwrap().length.as_millis(), 500);
        for bad in ["--pairs=0", "--pairs=x", "--second=1", "--seconds=0", "--seconds=NaN"] {
            assert!(parse(&[bad]).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_help_names_every_part() {
        let nowhere = Files::nowhere();
        for scene in scenes::all(&nowhere, Duration::from_secs(1)) {
            assert!(HELP.contains(scene.name), "{}", scene.name);
        }
        assert!(SINGLES.iter().all(|single| HELP.contains(single.name)));
    }

    #[test]
    fn a_whole_run_takes_half_an_hour() {
        let options = parse(&[]).unwrap();
        let nowhere = Files::nowhere();
        let scenes = scenes::all(&nowhere, options.length);
        let of_scenes: Duration = scenes.iter().map(|s| s.estimate(options.rounds)).sum();
        let of_singles: Duration = SINGLES.iter().map(|s| (s.estimate)(options.rounds)).sum();
        assert!(
            of_scenes + of_singles <= Duration::from_secs(1800),
            "{of_scenes:?} {of_singles:?}"
        );
    }
}
