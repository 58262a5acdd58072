//! `cargo xtask bench`: the load engine against fio and sysbench, both sides in turn in one run.
//!
//! Absolute figures mean nothing from one hour to the next; what counts is the ratio of two sides that ran seconds
//! apart. So every round runs each side of a comparison once, in an order that turns round from round to round, and
//! the result is the median of the rounds' ratios with an exact interval. Nothing is asserted: figures are printed
//! beside their goals.

mod instructions;
mod report;
mod scenes;
mod stats;
mod tools;

use crate::{Outcome, flags::Flags, workspace};
use report::{Facts, Report};
use scenes::{Files, Scene};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tools::{Programs, Sample};

pub const HELP: &str = "\
cargo xtask bench [--pairs=N] [--seconds=S] [--only=NAME]... [--instructions] [--write]

measures the load engine's speed against fio and sysbench, as ratios beside their goals

  --pairs=N        rounds; each runs every side of a comparison once (default 7)
  --seconds=S      length of each single run (default 1)
  --only=NAME      this comparison alone; may be repeated: cached-1, cached-32, cached-128, direct-1,
                   direct-32, direct-128, null-1, null-32, instructions
  --instructions   the same as --only=instructions: callgrind counts what one request costs (stable)
  --write          the result also goes to docs/bench.md, to be committed

Builds target/release/fathom first. Uses CPU 0 for all sides, and 1 GiB of disk for as long as it runs. What is
not installed (fio, sysbench, valgrind) is skipped and counted.
";

const INSTRUCTIONS: &str = "instructions";
const CACHED_BYTES: u64 = 4 << 20;
const DIRECT_BYTES: u64 = 1 << 30;

/// What was asked for.
struct Options {
    rounds: usize,
    seconds: u32,
    only: Vec<String>,
    write: bool,
}

impl Options {
    fn parse(args: &[String]) -> Result<Self, String> {
        let keys = ["--pairs", "--seconds", "--only"];
        let flags = Flags::parse(args, &["--instructions", "--write"], &keys)?;
        let number = |key: &str, default: u32| match flags.values(key).last() {
            None => Ok(default),
            Some(text) => text
                .parse()
                .ok()
                .filter(|n| *n > 0)
                .ok_or_else(|| format!("{key}={text}: a number from 1 up is needed")),
        };
        let mut only: Vec<String> = flags.values("--only").into_iter().map(str::to_owned).collect();
        if flags.has("--instructions") {
            only.push(INSTRUCTIONS.to_owned());
        }
        Ok(Self {
            rounds: number("--pairs", 7)? as usize,
            seconds: number("--seconds", 1)?,
            only,
            write: flags.has("--write"),
        })
    }

    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }
}

/// The command.
///
/// # Errors
/// For bad options, or when the binary cannot be built or the files not be made.
pub fn run(args: &[String]) -> Outcome {
    let options = Options::parse(args)?;
    let place = Place::new()?;
    let files = Files { cached: place.file("cached"), direct: place.file("direct") };
    let scenes: Vec<Scene> = scenes::all(&files, options.seconds);
    let is_known = |name: &String| name == INSTRUCTIONS || scenes.iter().any(|s| s.name == *name);
    if let Some(unknown) = options.only.iter().find(|name| !is_known(name)) {
        return Err(format!("there is no comparison '{unknown}'; --help names them"));
    }
    build()?;
    let scenes: Vec<Scene> = scenes.into_iter().filter(|s| options.wants(s.name)).collect();
    let is_cached = |scene: &Scene| scene.file.as_deref() == Some(&files.cached);
    if scenes.iter().any(is_cached) || options.wants(INSTRUCTIONS) {
        lay_out(&files.cached, CACHED_BYTES)?;
    }
    if scenes.iter().any(|s| s.file.as_deref() == Some(&files.direct)) {
        lay_out(&files.direct, DIRECT_BYTES)?;
    }
    let programs = Programs::found(binary(), place.store());
    let facts = Facts::of_now(&options, &programs, &place.directory);
    let mut report = Report::new(facts);
    print!("{}", report.heading());
    for scene in &scenes {
        let samples = measure(scene, options.rounds, &programs, &mut report);
        let text = report.add_scene(scene, &samples);
        print!("{text}");
    }
    if options.wants(INSTRUCTIONS) {
        let text = report.add_instructions(instructions::count(&programs, &files.cached));
        print!("{text}");
    }
    print!("{}", report.ending());
    if options.write {
        let path = workspace::root().join("docs/bench.md");
        fs::write(&path, report.document()).map_err(|e| format!("{}: {e}", path.display()))?;
        println!("written: {}", path.display());
    }
    Ok(report.is_success())
}

/// Every round's sample of each side; none where the side's program is missing or failed.
fn measure(
    scene: &Scene,
    rounds: usize,
    programs: &Programs,
    report: &mut Report,
) -> Vec<Vec<Option<Sample>>> {
    let count = scene.sides.len();
    let mut samples: Vec<Vec<Option<Sample>>> = vec![Vec::with_capacity(rounds); count];
    let mut given_up = vec![false; count];
    for (index, side) in scene.sides.iter().enumerate() {
        if let Some(reason) = programs.missing(side.tool) {
            report.skip(format!("{}, {}: {reason}", scene.name, side.name));
            given_up[index] = true;
        }
    }
    for round in 0..rounds {
        eprint!("\r{} {}/{rounds} ", scene.name, round + 1);
        for step in 0..count {
            let index = scenes::turn(round, step, count);
            let side = &scene.sides[index];
            let sample = if given_up[index] { None } else { Some(programs.run(scene, side)) };
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

fn build() -> Result<(), String> {
    let mut command = workspace::cargo();
    command.args(["build", "--locked", "--release", "--package=fathom"]);
    let status = command.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("the build failed: {status}")) }
}

/// A directory of its own in the target directory, removed at the end.
struct Place {
    directory: PathBuf,
}

impl Place {
    fn new() -> Result<Self, String> {
        let directory =
            workspace::root().join("target").join(format!("bench-{}", std::process::id()));
        fs::create_dir_all(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
        Ok(Self { directory })
    }

    /// A test file under the name that sysbench gives its first one, so that all tools read the same file.
    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name).join(tools::SYSBENCH_FILE)
    }

    fn store(&self) -> PathBuf {
        self.directory.join("fathom.db")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.directory) {
            eprintln!("{} is left behind: {error}", self.directory.display());
        }
    }
}

/// Writes a file full of random bytes: never sparse, never only allocated.
fn lay_out(path: &Path, size_bytes: u64) -> Result<(), String> {
    let fail = |error: std::io::Error| format!("{}: {error}", path.display());
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(fail)?;
    }
    let random = fs::File::open("/dev/urandom").map_err(fail)?;
    let mut file = fs::File::create(path).map_err(fail)?;
    std::io::copy(&mut std::io::Read::take(random, size_bytes), &mut file).map_err(fail)?;
    file.flush().and_then(|()| file.sync_all()).map_err(fail)?;
    // The dust of a gigabyte written settles before anything is measured.
    std::thread::sleep(Duration::from_secs(u64::from(size_bytes >= 1 << 30)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Options, String> {
        Options::parse(&args.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn options() {
        let options = parse(&["--pairs=20", "--only", "null-1", "--instructions"]).unwrap();
        assert_eq!((options.rounds, options.seconds, options.write), (20, 1, false));
        assert!(options.wants("null-1") && options.wants(INSTRUCTIONS));
        assert!(!options.wants("null-32"));
        assert!(parse(&[]).unwrap().wants("null-32"));
        for bad in ["--pairs=0", "--pairs=x", "--second=1"] {
            assert!(parse(&[bad]).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_help_names_every_comparison() {
        let nowhere = Files { cached: PathBuf::from("c"), direct: PathBuf::from("d") };
        for scene in scenes::all(&nowhere, 1) {
            assert!(HELP.contains(scene.name), "{}", scene.name);
        }
        assert!(HELP.contains(INSTRUCTIONS));
    }
}
