//! From the start of the program to its first I/O on a prepared file.

use super::goals::{Goal, PAIRS_MIN};
use super::report::{Figure, Section};
use super::tools::{operations, patiently_from};
use super::{Bench, Trouble};
use std::process::Command;
use std::time::Duration;

/// For `--only`.
pub const NAME: &str = "start";

const GOAL_MS: f64 = 20.0;
/// Cheap, and the first run warms what later ones find warm.
const ROUNDS_MIN: usize = 3 * PAIRS_MIN + 1;

/// About how long it takes.
#[must_use]
pub fn estimate(rounds: usize) -> Duration {
    Duration::from_millis(30) * rounds.max(ROUNDS_MIN) as u32
}

/// Starts fathom again and again for one read each; the very first one, which makes the store, does not count.
///
/// # Errors
/// When a run fails.
pub fn section(bench: &Bench) -> Result<Section, Trouble> {
    let mut values = Vec::new();
    for _ in 0..bench.rounds.max(ROUNDS_MIN) {
        values.push(once_ms(bench)?);
    }
    values.remove(0);
    let text = "From just before the program is started to the start stamp of its first read: the start of the window \
                in its record (UTC), plus end, less latency, of its only operation. The stamps themselves are checked \
                against the kernel in 'truth'.\n"
        .to_owned();
    let figure = Figure {
        what: "milliseconds to the first read".to_owned(),
        goal: Goal::AtMost(GOAL_MS),
        values,
        rounds_min: PAIRS_MIN,
    };
    let title =
        "from the program's start to its first I/O on a file of 4 MiB that is there".to_owned();
    Ok(Section { name: NAME, title, text, figures: vec![figure], commands: Vec::new() })
}

fn once_ms(bench: &Bench) -> Result<f64, String> {
    let mut command = Command::new(&bench.programs.fathom);
    command.args(["run", "randread"]).arg(&bench.files.cached).arg("operations=1");
    command.args(["--json", "--quiet", "--db"]).arg(bench.programs.store());
    let (started_ns, output) = patiently_from(&mut command)?;
    let said = String::from_utf8_lossy(&output.stdout);
    let first = operations(&said).and_then(|operations| operations.first().copied());
    let first = first.ok_or_else(|| format!("fathom: {}: no operation", output.status))?;
    Ok((first.start_ns - started_ns) as f64 / 1e6)
}
