//! What recording every latency costs: the load engine as it ships beside the same engine built without its notebook, in
//! two small programs that are built for this alone.

use super::goals::{Goal, PAIRS_MIN};
use super::report::{Figure, Section};
use super::stats::median;
use super::{Bench, Trouble, binary, build_with};
use crate::workspace;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// For `--only`.
pub const NAME: &str = "recording";

const PROGRAMS: [&str; 2] = ["recording_on", "recording_off"];
/// The effect is small: more and shorter pairs than elsewhere.
const ROUNDS_FACTOR: usize = 2;
/// What is asked for, on what, how often, and how much recording may add to the CPU time.
const CASES: [Case; 2] = [
    Case { what: "reads from the page cache", target: None, operations: 600_000, goal: 1.02 },
    Case {
        what: "reads of 512 zeros",
        target: Some("/dev/zero"),
        operations: 1_500_000,
        goal: 1.08,
    },
];

struct Case {
    what: &'static str,
    target: Option<&'static str>,
    operations: u64,
    goal: f64,
}

/// About how long it takes.
#[must_use]
pub fn estimate(rounds: usize) -> Duration {
    Duration::from_millis(1500) * (rounds * ROUNDS_FACTOR) as u32
}

/// Builds both programs: two calls, because cargo joins the features of one.
///
/// # Errors
/// When cargo fails.
pub fn build() -> Result<(), String> {
    let [on, off] = PROGRAMS;
    build_with(&["--package=fathom-load", "--example", on])?;
    build_with(&["--package=fathom-load", "--features=silent", "--example", off])
}

/// Runs both programs in turn.
///
/// # Errors
/// When they fail.
pub fn section(bench: &Bench) -> Result<Section, Trouble> {
    let mut text =
        "| requests | recording, CPU ns each | not recording |\n|---|--:|--:|\n".to_owned();
    let mut figures = Vec::new();
    let mut commands = Vec::new();
    for case in &CASES {
        let target = case.target.map_or(bench.files.cached.as_path(), Path::new);
        if case.target.is_none() {
            fs::read(target).map_err(|error| format!("{}: {error}", target.display()))?;
        }
        let mut ns: [Vec<f64>; 2] = Default::default();
        for round in 0..bench.rounds * ROUNDS_FACTOR {
            for step in 0..2 {
                let side = (round + step) % 2;
                ns[side].push(cpu_ns(PROGRAMS[side], target, case.operations)?);
            }
        }
        let [on, off] = &ns;
        let _ = writeln!(text, "| {} | {:.1} | {:.1} |", case.what, median(on), median(off));
        figures.push(Figure {
            what: format!("{}: CPU time with recording / without", case.what),
            goal: Goal::AtMost(case.goal),
            values: on.iter().zip(off).map(|(on, off)| on / off).collect(),
            rounds_min: PAIRS_MIN,
        });
        let name = case.target.unwrap_or("cached/test_file.0");
        commands.extend(
            PROGRAMS.map(|p| (p.to_owned(), format!("{p} {name} {DEPTH} {}", case.operations))),
        );
    }
    text.push_str(
        "\n/dev/zero stands for requests that do next to nothing. The clock is read on both sides.\n",
    );
    let title = format!("CPU time of the measured loop, io_uring, depth {DEPTH}");
    Ok(Section { name: NAME, title, text, figures, commands })
}

const DEPTH: u32 = 32;

fn cpu_ns(program: &str, target: &Path, operations: u64) -> Result<f64, String> {
    let examples = binary().parent().map(|p| p.join("examples")).unwrap_or_default();
    let mut command = Command::new(examples.join(program));
    command.arg(target).args([DEPTH.to_string(), operations.to_string()]);
    let said = workspace::output_of(&mut command)?;
    said.trim().parse().map_err(|_| format!("{program} says '{said}'"))
}
