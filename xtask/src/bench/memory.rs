//! Memory of a thousand jobs with 32 requests in flight each, without the I/O buffers themselves.

use super::goals::Goal;
use super::report::{Figure, Section};
use super::tools::{FATHOM_REFUSED, TRIES_MAX};
use super::{Bench, Trouble};
use crate::workspace::items;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// For `--only`.
pub const NAME: &str = "memory";

const JOBS: u64 = 1000;
const DEPTH: u64 = 32;
const BLOCK_BYTES: u64 = 4096;
const BUFFER_BYTES: u64 = JOBS * DEPTH * BLOCK_BYTES;
/// The figure wavers by a percent, and a thousand processes take long to start.
const ROUNDS: usize = 3;
/// Length of fathom's runs: every thread must have had its turn. fio's jobs pause, so that less will do.
const OURS_S: u64 = 8;
const THEIRS_S: u64 = 6;
/// So often all processes must have been looked at: fewer means that the machine was too busy for the watcher.
const LOOKS_MIN: u32 = 2;
/// Threads that must have issued something.
const WORKED_MIN: u64 = JOBS * 99 / 100;

/// About how long it takes.
#[must_use]
pub fn estimate(rounds: usize) -> Duration {
    Duration::from_secs(OURS_S + THEIRS_S + 16) * rounds.min(ROUNDS) as u32
}

/// Runs fathom and fio in turn and looks at their memory meanwhile.
///
/// # Errors
/// Without fio, and when a run fails.
pub fn section(bench: &Bench) -> Result<Section, Trouble> {
    if bench.programs.fio.is_none() {
        return Err(Trouble::Missing("fio is not installed".to_owned()));
    }
    let file = bench.files.cached.display().to_string();
    let ours = format!(
        "run randread {file} engine=io_uring direct=no threads={JOBS} depth={DEPTH} \
         duration={OURS_S}s --json --quiet"
    );
    let theirs = format!(
        "--name=bench --ioengine=io_uring --filename={file} --rw=randread --bs=4k --readonly \
         --invalidate=0 --iodepth={DEPTH} --numjobs={JOBS} --time_based --runtime={THEIRS_S} \
         --thinktime=200ms --thinktime_blocks={DEPTH} --group_reporting --output-format=json"
    );
    let store = bench.programs.store().display().to_string();
    let output = bench.place.directory.join("output");
    let (mut ours_mib, mut theirs_mib) = (Vec::new(), Vec::new());
    for round in 0..bench.rounds.min(ROUNDS) {
        let mut fathom = lowly(&bench.programs.fathom);
        fathom.args(ours.split(' ')).arg("--db").arg(&store);
        let mut fio = lowly(Path::new("fio"));
        fio.args(theirs.split(' '));
        for step in 0..2 {
            if (round + step).is_multiple_of(2) {
                let (mib, said) = watched(&mut fathom, 1, &output)?;
                all_worked(&said)?;
                ours_mib.push(mib);
            } else {
                theirs_mib.push(watched(&mut fio, 1 + JOBS as usize, &output)?.0);
            }
        }
    }
    let strip = |line: String| line.replace(&file, "cached/test_file.0");
    Ok(Section {
        name: NAME,
        title: format!(
            "{JOBS} threads, {DEPTH} in flight on each, 4 KiB reads from the page cache"
        ),
        text: format!(
            "Largest sum of the proportional set sizes (/proc/PID/smaps_rollup) of a run's processes while all of them are \
             there, less {} MiB of I/O buffers on both sides. fio runs with its default, a process for each job; they pause now and then, \
             so that all of them come to issue requests.\n",
            BUFFER_BYTES >> 20
        ),
        figures: figures(&ours_mib, &theirs_mib),
        commands: vec![
            ("fathom".to_owned(), strip(format!("fathom {ours}"))),
            ("fio".to_owned(), strip(format!("fio {theirs}"))),
        ],
    })
}

/// A command that gives way, so that a thousand threads do not keep their watcher from its work.
fn lowly(program: &Path) -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", "19"]).arg(program);
    command
}

/// Memory of a thread that never had its turn is not touched yet.
fn all_worked(said: &str) -> Result<(), String> {
    let line = said.lines().last().unwrap_or_default();
    let value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let counts = items(&value["records"][0]["jobs"][0]["thread_operations"]);
    let worked = counts.filter(|count| count.as_u64().is_some_and(|n| n > 0)).count();
    if worked as u64 >= WORKED_MIN {
        Ok(())
    } else {
        Err(format!("only {worked} of {JOBS} threads had their turn; the machine is too busy"))
    }
}

fn figures(ours_mib: &[f64], theirs_mib: &[f64]) -> Vec<Figure> {
    let figure =
        |what: &str, goal, values| Figure { what: what.into(), goal, values, rounds_min: ROUNDS };
    let ratios = ours_mib.iter().zip(theirs_mib).map(|(ours, theirs)| ours / theirs).collect();
    vec![
        figure("fathom, MiB", Goal::None, ours_mib.to_vec()),
        figure("fio, MiB", Goal::None, theirs_mib.to_vec()),
        figure("fathom / fio: memory without I/O buffers", Goal::AtMost(0.25), ratios),
    ]
}

/// Runs a command and gives the largest figure of it and its children, without buffers, in MiB, and what it says; again
/// while fathom says that another one is measuring on this machine.
fn watched(
    command: &mut Command,
    processes: usize,
    output: &Path,
) -> Result<(f64, String), String> {
    let fail = |error: std::io::Error| format!("{}: {error}", output.display());
    command.stdin(Stdio::null()).stderr(Stdio::null());
    for _ in 0..TRIES_MAX {
        command.stdout(fs::File::create(output).map_err(fail)?);
        let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        // Whatever went wrong, nothing may go on running; fio's jobs lead process groups of their own.
        let (largest, code) = watch(&mut child, processes).inspect_err(|_| {
            let pids = family(child.id()).into_iter().map(|pid| pid.to_string());
            let _ = Command::new("kill").arg("-KILL").args(pids).status();
            let _ = child.wait();
        })?;
        match code {
            Some(0 | 1) => {
                let mib = largest.saturating_sub(BUFFER_BYTES) as f64 / f64::from(1 << 20);
                return Ok((mib, fs::read_to_string(output).map_err(fail)?));
            }
            Some(FATHOM_REFUSED) => std::thread::sleep(Duration::from_secs(1)),
            _ => return Err(format!("{command:?} ended with {code:?}")),
        }
    }
    Err("another fathom measured all the time".to_owned())
}

fn watch(child: &mut Child, processes: usize) -> Result<(u64, Option<i32>), String> {
    let limit = Instant::now() + Duration::from_secs(120);
    let (mut largest, mut looks) = (0, 0);
    loop {
        let before = family(child.id());
        let bytes: u64 = before.iter().map(|pid| pss_bytes(*pid)).sum();
        // While processes come and go, what they share moves between them and would be counted twice.
        if before.len() == processes && family(child.id()) == before {
            (largest, looks) = (largest.max(bytes), looks + 1);
        }
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            return match status.code() {
                Some(0 | 1) if looks < LOOKS_MIN => Err(format!(
                    "all {processes} processes were seen {looks} times; the machine is too busy"
                )),
                code => Ok((largest, code)),
            };
        }
        if Instant::now() > limit {
            return Err("it does not end".to_owned());
        }
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// A process and all below it, from the parents in /proc.
fn family(root: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // Behind the name in parentheses: state, parent.
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
        if let Some(parent) = parent.and_then(|parent| parent.parse().ok()) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut family = vec![root];
    let mut next = 0;
    while let Some(pid) = family.get(next) {
        family.extend(children.get(pid).into_iter().flatten());
        next += 1;
    }
    family
}

/// 0 for a process that has ended.
fn pss_bytes(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_found_with_its_memory() {
        let mut child = Command::new("sh").args(["-c", "sleep 60 & wait"]).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while family(child.id()).len() < 2 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        let members = family(child.id());
        for pid in members.iter().rev() {
            assert!(Command::new("kill").arg(pid.to_string()).status().unwrap().success());
        }
        child.wait().unwrap();
        assert_eq!((members.len(), members[0]), (2, child.id()));
        assert!(pss_bytes(std::process::id()) > 100_000);
        assert_eq!(pss_bytes(u32::MAX), 0);
    }

    #[test]
    fn threads_without_a_turn_are_seen() {
        let said = |idle: usize| {
            let mut counts = vec![5; JOBS as usize];
            counts[..idle].fill(0);
            format!("{{\"records\":[{{\"jobs\":[{{\"thread_operations\":{counts:?}}}]}}]}}")
        };
        assert_eq!(all_worked(&said(10)), Ok(()));
        assert!(all_worked(&said(11)).unwrap_err().starts_with("only 989 of 1000"));
    }

    #[test]
    fn memory_is_compared_in_pairs() {
        let figures = figures(&[20.0, 30.0], &[100.0, 100.0]);
        assert_eq!(figures[2].values, [0.2, 0.3]);
    }
}
