//! What `fathom watch` costs: a hundred devices, all of which have requests, looked at once a second.

use super::following::{Ended, cpu_ns};
use super::goals::Goal;
use super::place::LoopDevices;
use super::report::{Figure, Section};
use super::{Bench, Trouble};
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// For `--only`.
pub const NAME: &str = "watch";

const DEVICES: usize = 100;
/// Percent of a processor.
const PERCENT_MAX: f64 = 0.5;
/// The figure wavers little.
const ROUNDS: usize = 3;
/// CPU time is looked at for so long, from the second interval on: before the first one it reads what the devices stand on.
const WINDOW: Duration = Duration::from_secs(6);
const BEGUN: usize = 2;
/// About how long it takes until then, and when it is given up.
const BEGIN: Duration = Duration::from_millis(2500);
const BEGIN_MAX: Duration = Duration::from_secs(60);
/// One read of each of them in turn, again and again.
const LOAD: &str = "while :; do for device; do dd if=$device of=/dev/null bs=4k count=1 iflag=direct status=none; done; done";

/// About how long it takes.
#[must_use]
pub fn estimate(rounds: usize) -> Duration {
    Duration::from_secs(5) + (BEGIN + WINDOW) * rounds.min(ROUNDS) as u32
}

/// Watches them, and records.
///
/// # Errors
/// Without loop devices, and when a run fails.
pub fn section(bench: &Bench) -> Result<Section, Trouble> {
    let devices = LoopDevices::new(DEVICES)
        .map_err(|reason| Trouble::Missing(format!("no loop devices: {reason}")))?;
    let mut load = Command::new("sh");
    load.args(["-c", LOAD, "load"]).args(&devices.paths).stdin(Stdio::null());
    let load = Ended(load.spawn().map_err(|error| format!("sh: {error}"))?);
    let mut values = Vec::new();
    for _ in 0..bench.rounds.min(ROUNDS) {
        values.push(once(bench, &devices)?);
    }
    drop(load);
    let figure = Figure {
        what: format!("{DEVICES} devices once a second: percent of a processor"),
        goal: Goal::UpTo(PERCENT_MAX),
        values,
        rounds_min: ROUNDS,
    };
    let seconds = WINDOW.as_secs();
    Ok(Section {
        name: NAME,
        title: format!("watching {DEVICES} loop devices once a second, each with requests"),
        text: format!(
            "CPU time of all threads of the process (/proc/PID/task/*/schedstat) in {seconds} s, from its second interval on, without \
             what it reads once at its start. It prints lines and records.\n"
        ),
        figures: vec![figure],
        commands: vec![(
            "fathom watch".to_owned(),
            "fathom watch /dev/loop1 /dev/loop2 ... --plain --record".to_owned(),
        )],
    })
}

/// Percent of a processor.
fn once(bench: &Bench, devices: &LoopDevices) -> Result<f64, String> {
    let mut command = Command::new(&bench.programs.fathom);
    command.arg("--db").arg(bench.programs.store()).arg("watch").args(&devices.paths);
    command.args(["--plain", "--record"]).stdin(Stdio::null());
    let path = bench.place.directory.join("watched");
    let fail = |error: std::io::Error| format!("{}: {error}", path.display());
    command.stdout(fs::File::create(&path).map_err(fail)?).stderr(Stdio::null());
    let mut watch = Ended(command.spawn().map_err(|error| format!("fathom watch: {error}"))?);
    let (pid, since) = (watch.0.id(), Instant::now());
    while fs::read_to_string(&path).map_err(fail)?.matches(" r/s ").count() < BEGUN {
        if since.elapsed() > BEGIN_MAX {
            return Err("fathom watch never came to its second interval".to_owned());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let before = (Instant::now(), cpu_ns(pid)?);
    std::thread::sleep(WINDOW);
    let after = (Instant::now(), cpu_ns(pid)?);
    if let Some(status) = watch.0.try_wait().map_err(|error| error.to_string())? {
        return Err(format!("fathom watch ended too early: {status}"));
    }
    let used_ns = after.1.saturating_sub(before.1) as f64;
    Ok(100.0 * used_ns / (after.0 - before.0).as_nanos() as f64)
}
