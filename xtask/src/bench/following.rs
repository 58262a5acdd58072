//! What following a device costs: the reader of `fathom capture` beside the recorders of `trace-cmd record`, with the same tracepoints
//! of the same steady load, one after the other.

use super::goals::Goal;
use super::place::Janitor;
use super::report::{Figure, Section, grouped};
use super::scenes::turn;
use super::stats::median;
use super::tools::{FATHOM_REFUSED, TRIES_MAX};
use super::{Bench, Trouble};
use crate::workspace;
use serde_json::Value;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// For `--only`.
pub const NAME: &str = "capture";

/// Requests per second that are followed.
const RATE: f64 = 50_000.0;
/// Share of a processor that the reader may take.
const SHARE_MAX: f64 = 0.03;
/// Pairs: each takes long.
const ROUNDS: usize = 8;
const ROUNDS_MIN: usize = 6;
/// How long CPU time is looked at.
const WINDOW: Duration = Duration::from_secs(2);
/// From the start of recording to the window.
const SETTLE: Duration = Duration::from_millis(400);
/// A program that takes longer to begin is given up.
const BEGIN_MAX: Duration = Duration::from_secs(20);
/// What both record for; the load goes on for longer.
const FOLLOWED_S: u32 = 3;
const LOADED_S: u32 = 12;
const SIDES: [&str; 2] = ["fathom capture", "trace-cmd record"];
/// Those of `fathom capture`.
const TRACEPOINTS: [&str; 12] = [
    "block_bio_queue",
    "block_getrq",
    "block_rq_insert",
    "block_rq_issue",
    "block_rq_complete",
    "block_bio_complete",
    "block_bio_frontmerge",
    "block_bio_backmerge",
    "block_rq_merge",
    "block_rq_requeue",
    "block_split",
    "block_bio_remap",
];

/// About how long it takes.
#[must_use]
pub fn estimate(rounds: usize) -> Duration {
    Duration::from_millis(3800) * (SIDES.len() * rounds.min(ROUNDS)) as u32
}

/// What one run of one side showed.
struct Round {
    /// Requests per second.
    rate: f64,
    /// CPU time by time passed.
    share: f64,
    lost: u64,
}

impl Round {
    /// The share at the rate that is asked for.
    fn share_at_rate(&self) -> f64 {
        self.share * RATE / self.rate
    }
}

/// Runs both in turn.
///
/// # Errors
/// Without loop device or trace-cmd, and when a run fails.
pub fn section(bench: &Bench) -> Result<Section, Trouble> {
    let missing = |reason: String| Trouble::Missing(reason);
    let device =
        bench.device.as_ref().map_err(|reason| missing(format!("no loop device: {reason}")))?;
    if Command::new("trace-cmd").arg("--version").output().is_err() {
        return Err(missing("trace-cmd is not installed".to_owned()));
    }
    let tracepoints = tracepoints().map_err(missing)?;
    let is_on = fs::read_to_string(TRACING_ON).unwrap_or_default();
    let _janitor = Janitor::new(match is_on.trim() {
        "" => String::new(),
        before => format!("echo {before} >{TRACING_ON}"),
    })?;
    let mut rounds: [Vec<Round>; 2] = Default::default();
    for round in 0..bench.rounds.min(ROUNDS) {
        for step in 0..SIDES.len() {
            let side = turn(round, step, SIDES.len());
            let file = bench.place.directory.join("followed");
            let mut command = match side {
                0 => fathom(bench, &device.path, &file),
                _ => trace_cmd(device.number()?, &tracepoints, &file),
            };
            rounds[side].push(run(bench, &device.path, &mut command, side)?);
            fs::remove_file(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        }
    }
    Ok(Section {
        name: NAME,
        title: format!(
            "following {} 4 KiB reads a second on a loop device, {} tracepoints",
            grouped(RATE),
            tracepoints.len()
        ),
        text: table(&rounds),
        figures: figures(&rounds),
        commands: vec![
            (SIDES[0].to_owned(), "fathom capture /dev/loopN -o FILE -- sleep 3".to_owned()),
            (
                SIDES[1].to_owned(),
                "trace-cmd record -e block:EVENT -f dev==N ... sleep 3".to_owned(),
            ),
        ],
    })
}

/// Those that this kernel has.
fn tracepoints() -> Result<Vec<&'static str>, String> {
    let listed = workspace::output_of(Command::new("trace-cmd").args(["list", "-e", "block:"]))?;
    let is_there =
        |name: &&str| listed.lines().any(|line| line.trim().ends_with(&format!(":{name}")));
    let found: Vec<&'static str> = TRACEPOINTS.iter().copied().filter(is_there).collect();
    if found.is_empty() {
        Err("trace-cmd finds no tracepoints of the block layer".to_owned())
    } else {
        Ok(found)
    }
}

fn fathom(bench: &Bench, device: &Path, file: &Path) -> Command {
    let mut command = Command::new(&bench.programs.fathom);
    command.args(["--json", "--quiet", "--db"]).arg(bench.programs.store());
    command.arg("capture").arg(device).arg("-o").arg(file).arg("--");
    command
}

/// It sets up the function tracer too, which tracepoints do without, and gives up where it may not (a kernel that is locked down): in a
/// mount namespace of its own it writes into empty files instead. Whatever else is mounted, it finds tracing at that one place.
const WITHOUT_FUNCTIONS: &str = "\
umount --lazy /sys/kernel/debug 2>/dev/null || true
[ -e /sys/kernel/tracing/trace ] || mount -t tracefs nodev /sys/kernel/tracing
for file in /proc/sys/kernel/ftrace_enabled /sys/kernel/tracing/set_ftrace_* /sys/kernel/tracing/set_graph_*; do
[ ! -e $file ] || { : >\"$0.${file##*/}\"; mount --bind \"$0.${file##*/}\" $file; }
done
exec trace-cmd \"$@\"";
/// It leaves this at 0.
const TRACING_ON: &str = "/sys/kernel/tracing/tracing_on";

fn trace_cmd((major, minor): (u32, u32), tracepoints: &[&str], file: &Path) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", WITHOUT_FUNCTIONS]).arg(file);
    command.args(["record", "-o"]).arg(file);
    // As the kernel holds device numbers inside.
    let filter = format!("dev == {}", u64::from(major) << 20 | u64::from(minor));
    for name in tracepoints {
        command.args(["-e", &format!("block:{name}"), "-f", &filter]);
    }
    command
}

/// One run: the load, then what follows it for a while.
fn run(bench: &Bench, device: &Path, command: &mut Command, side: usize) -> Result<Round, String> {
    let mut load = Ended(load(bench, device)?);
    command.args(["sleep", &FOLLOWED_S.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = command.spawn().map_err(|error| format!("{}: {error}", SIDES[side]))?;
    let looked = window(device, started.id());
    let overrun = overrun();
    let output = started.wait_with_output().map_err(|error| error.to_string())?;
    let (rate, share) = looked.map_err(|error| {
        format!("{}: {error}; {}", SIDES[side], String::from_utf8_lossy(&output.stderr).trim())
    })?;
    if load.0.try_wait().map_err(|error| error.to_string())?.is_some() {
        return Err("the load ended too early".to_owned());
    }
    let lost = if side == 0 { lost_of_fathom(&output)? } else { overrun };
    Ok(Round { rate, share, lost })
}

/// A process that is ended with this.
pub(super) struct Ended(pub(super) Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the load, again while another command measures on this machine, and waits until it runs.
fn load(bench: &Bench, device: &Path) -> Result<Child, String> {
    let start = || {
        let mut command = Command::new(&bench.programs.fathom);
        command.args(["--quiet", "--db"]).arg(bench.place.directory.join("load.db"));
        command.args(["run", "randread"]).arg(device);
        command.args([
            "depth=64",
            "warmup=0s",
            &format!("rate={RATE}"),
            &format!("duration={LOADED_S}s"),
        ]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map_err(|error| format!("the load: {error}"))
    };
    for _ in 0..TRIES_MAX {
        let (mut child, before, since) = (start()?, requests(device)?, Instant::now());
        while since.elapsed() < BEGIN_MAX {
            match child.try_wait().map_err(|error| error.to_string())? {
                Some(status) if status.code() == Some(FATHOM_REFUSED) => break,
                Some(status) => return Err(format!("the load: {status}")),
                None if requests(device)? > before + RATE as u64 / 10 => return Ok(child),
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        drop(Ended(child));
        std::thread::sleep(Duration::from_secs(1));
    }
    Err("the load: somebody else measures on this machine all the time".to_owned())
}

/// Reads that have ended on the device.
fn requests(device: &Path) -> Result<u64, String> {
    let name = device.file_name().unwrap_or_default().to_string_lossy();
    let path = format!("/sys/block/{name}/stat");
    let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let first = text.split_whitespace().next().and_then(|word| word.parse().ok());
    first.ok_or_else(|| format!("{path}: '{}' is no count", text.trim()))
}

/// Requests per second, and the CPU time of the processes by the time that passed, while what they started runs.
fn window(device: &Path, pid: u32) -> Result<(f64, f64), String> {
    let since = Instant::now();
    while !family(pid).iter().any(|pid| is_sleep(*pid)) {
        if since.elapsed() > BEGIN_MAX || family(pid).is_empty() {
            return Err("it never began to record".to_owned());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(SETTLE);
    let look = || Ok::<_, String>((Instant::now(), requests(device)?, cpu_ns(pid)?));
    let before = look()?;
    std::thread::sleep(WINDOW);
    let after = look()?;
    let seconds = (after.0 - before.0).as_secs_f64();
    let done = (after.1 - before.1) as f64;
    Ok((done / seconds, after.2.saturating_sub(before.2) as f64 / 1e9 / seconds))
}

fn is_sleep(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "sleep")
}

/// A process and all that it started; none when it has ended.
fn family(pid: u32) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let mut all = vec![pid];
    for task in tasks.flatten() {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        all.extend(children.split_whitespace().filter_map(|pid| pid.parse().ok()).flat_map(family));
    }
    all
}

/// What all threads of a family have run for, to the nanosecond.
pub(super) fn cpu_ns(pid: u32) -> Result<u64, String> {
    let mut sum = 0;
    for pid in family(pid) {
        let path = format!("/proc/{pid}/task");
        for task in fs::read_dir(&path).map_err(|error| format!("{path}: {error}"))?.flatten() {
            let text = fs::read_to_string(task.path().join("schedstat"))
                .map_err(|error| format!("{path}: schedstat: {error}"))?;
            let ran = text.split_whitespace().next().and_then(|ns| ns.parse::<u64>().ok());
            sum += ran.ok_or_else(|| format!("{path}: schedstat is not understood"))?;
        }
    }
    Ok(sum)
}

/// From the result line.
fn lost_of_fathom(output: &Output) -> Result<u64, String> {
    let said = String::from_utf8_lossy(&output.stdout);
    let value: Value = serde_json::from_str(said.lines().last().unwrap_or_default())
        .map_err(|error| format!("fathom capture: {}: {error}", output.status))?;
    value["capture"]["faults"]["lost"]
        .as_u64()
        .ok_or_else(|| "fathom says no lost events".to_owned())
}

/// What the rings of the tracing files had no room for since recording began.
fn overrun() -> u64 {
    let cpus = fs::read_dir("/sys/kernel/tracing/per_cpu").into_iter().flatten().flatten();
    let stats = cpus.map(|cpu| fs::read_to_string(cpu.path().join("stats")).unwrap_or_default());
    stats.map(|text| overrun_of(&text)).sum()
}

fn overrun_of(stats: &str) -> u64 {
    let count = |line: &str| line.strip_prefix("overrun:")?.trim().parse::<u64>().ok();
    stats.lines().filter_map(count).sum()
}

fn table(rounds: &[Vec<Round>; 2]) -> String {
    let mut text =
        "| side | requests/s | CPU, percent of one | events lost |\n|---|--:|--:|--:|\n".to_owned();
    for (name, rounds) in SIDES.iter().zip(rounds) {
        let of = |get: fn(&Round) -> f64| median(&rounds.iter().map(get).collect::<Vec<_>>());
        let lost: u64 = rounds.iter().map(|round| round.lost).sum();
        let (rate, share) = (grouped(of(|r| r.rate)), 100.0 * of(|r| r.share));
        let _ = writeln!(text, "| {name} | {rate} | {share:.2} | {} |", grouped(lost as f64));
    }
    let (window_s, settle_ms) = (WINDOW.as_secs(), SETTLE.as_millis());
    let _ = writeln!(
        text,
        "\nCPU time of all processes of a side (/proc/PID/task/*/schedstat) in {window_s} s, {settle_ms} ms after it began to record. Starting, \
         ending and what fathom makes of the trace afterwards are left out on both sides."
    );
    text
}

fn figures(rounds: &[Vec<Round>; 2]) -> Vec<Figure> {
    let shares = |side: usize| rounds[side].iter().map(Round::share_at_rate).collect::<Vec<_>>();
    let ratios = shares(0).iter().zip(shares(1)).map(|(ours, theirs)| ours / theirs).collect();
    let figure = |what: String, goal, values| Figure { what, goal, values, rounds_min: ROUNDS_MIN };
    let at = |side: &str| format!("{side}: share of a processor at {} requests/s", grouped(RATE));
    vec![
        figure(at(SIDES[0]), Goal::AtMost(SHARE_MAX), shares(0)),
        figure(at(SIDES[1]), Goal::None, shares(1)),
        figure(format!("{} / {}: CPU time", SIDES[0], SIDES[1]), Goal::AtMost(1.0), ratios),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn what_was_lost_is_read_from_both() {
        let output = |stdout: &str| Output {
            status: std::process::ExitStatus::from_raw(0),
            stdout: stdout.into(),
            stderr: Vec::new(),
        };
        let said = "{\"type\":\"start\"}\n{\"capture\":{\"faults\":{\"lost\":7}}}\n";
        assert_eq!(lost_of_fathom(&output(said)), Ok(7));
        assert!(lost_of_fathom(&output("")).is_err());
        assert_eq!(overrun_of("entries: 7\noverrun: 30\ncommit overrun: 9\n"), 30);
    }

    #[test]
    fn a_family_has_its_children_and_their_time() {
        let script = "sleep 5 & while :; do :; done";
        let shell = Ended(Command::new("sh").args(["-c", script]).spawn().unwrap());
        let pid = shell.0.id();
        let since = Instant::now();
        while !family(pid).iter().any(|pid| is_sleep(*pid)) {
            assert!(since.elapsed() < BEGIN_MAX, "the child never came");
        }
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!((family(pid).len(), cpu_ns(pid).unwrap() > 1_000_000), (2, true));
        for child in family(pid).into_iter().skip(1) {
            Command::new("kill").arg(child.to_string()).status().unwrap();
        }
        drop(shell);
        assert!(family(pid).is_empty());
    }

    #[test]
    fn shares_are_those_at_the_rate_that_is_asked_for() {
        let round = |rate, share| Round { rate, share, lost: 0 };
        let rounds = [vec![round(25_000.0, 0.01)], vec![round(50_000.0, 0.04)]];
        let values: Vec<Vec<f64>> = figures(&rounds).into_iter().map(|f| f.values).collect();
        assert_eq!(values, [vec![0.02], vec![0.04], vec![0.5]]);
        assert!(table(&rounds).contains("| fathom capture | 25 000 | 1.00 | 0 |"));
    }
}
