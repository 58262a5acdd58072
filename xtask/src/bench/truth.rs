//! Are the latencies true? Every read of short runs on a loop device is matched by sector with the block layer's own
//! issue and completion, which must lie inside fathom's stamps; what lies between the two is compared with a bare
//! `pread`.

use super::goals::{Goal, PAIRS_MIN};
use super::report::{Figure, Section};
use super::scenes::turn;
use super::stats::median;
use super::tools::{Stamped, operations, patiently};
use super::trace::{Request, Scale, Trace};
use super::{Bench, Trouble, pread};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// For `--only`.
pub const NAME: &str = "truth";

/// As many as a record keeps one by one.
const OPERATIONS: usize = 100;
/// A round is short, and single interruptions weigh much in it.
const ROUNDS_FACTOR: usize = 3;
const SIDES: [&str; 3] = ["fathom psync", "fathom io_uring", "bare pread"];
const BARE: usize = 2;
const GOAL_RATIO: f64 = 1.1;

/// About how long it takes.
#[must_use]
pub fn estimate(rounds: usize) -> Duration {
    Duration::from_millis(300) * (rounds * ROUNDS_FACTOR) as u32
}

/// Traces all sides in turn, with fresh seeds.
///
/// # Errors
/// Without loop device or tracing, and when a run fails.
pub fn section(bench: &Bench) -> Result<Section, Trouble> {
    let missing = |reason: String| Trouble::Missing(reason);
    let device =
        bench.device.as_ref().map_err(|reason| missing(format!("no loop device: {reason}")))?;
    let clock_source = fs::read_to_string(CLOCK_SOURCE).unwrap_or_default();
    if clock_source.trim() != "tsc" {
        return Err(missing(format!(
            "the kernel's clock is not the processor's counter ({CLOCK_SOURCE})"
        )));
    }
    let mount = bench.place.directory.with_extension("tracing");
    let trace = Trace::new(&mount, device.number()?).map_err(missing)?;
    let mut rounds: [Vec<Round>; 3] = Default::default();
    for round in 0..bench.rounds * ROUNDS_FACTOR {
        for step in 0..SIDES.len() {
            let side = turn(round, step, SIDES.len());
            let body = || match side {
                BARE => pread::run(&device.path, OPERATIONS),
                _ => fathom(bench, &device.path, side),
            };
            let (operations, requests, scale) = trace.during(body)?;
            rounds[side].push(Round::of(&operations, &requests, scale));
        }
    }
    Ok(Section {
        name: NAME,
        title: format!(
            "stamps against the kernel's, {OPERATIONS} reads of 4 KiB each run, loop device, one in flight"
        ),
        text: table(&rounds),
        figures: figures(&rounds),
        commands: Vec::new(),
    })
}

const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

fn fathom(bench: &Bench, device: &Path, side: usize) -> Result<Vec<Stamped>, String> {
    let engine = SIDES[side].split(' ').next_back().unwrap_or_default();
    let mut command = Command::new(&bench.programs.fathom);
    command.args(["run", "randread"]).arg(device).arg(format!("engine={engine}"));
    command.args(["depth=1", "direct=yes", "cpus=0"]).arg(format!("operations={OPERATIONS}"));
    command.args(["--json", "--quiet", "--db"]).arg(bench.programs.store());
    let output = patiently(&mut command)?;
    let said = String::from_utf8_lossy(&output.stdout);
    let all = operations(&said).filter(|all| all.len() == OPERATIONS);
    all.ok_or_else(|| format!("fathom: {}: not all operations are in its record", output.status))
}

/// What one run of one side showed.
struct Round {
    operations: usize,
    matched: usize,
    /// Matched ones whose request lies inside their stamps.
    nested: usize,
    /// The smallest of all differences that must not be negative, nanoseconds.
    margin_ns: f64,
    /// Median of what the stamps span beyond the device's time, nanoseconds.
    beyond_ns: f64,
    /// Median of the device's time, nanoseconds.
    device_ns: f64,
    /// How far the two clocks may be apart, nanoseconds.
    error_ns: f64,
}

impl Round {
    fn of(operations: &[Stamped], requests: &[Request], scale: Scale) -> Self {
        let mut left = requests.to_vec();
        let (mut before, mut after, mut beyond, mut device) = (vec![], vec![], vec![], vec![]);
        for operation in operations {
            // Two reads of one sector are told apart by time.
            let distance = |r: &Request| (scale.unix_ns(r.issue) - operation.start_ns).abs();
            let same =
                left.iter().enumerate().filter(|(_, r)| r.sector * 512 == operation.offset_bytes);
            let Some((index, _)) = same.min_by_key(|(_, r)| distance(r)) else { continue };
            let request = left.swap_remove(index);
            let (issue, complete) = (scale.unix_ns(request.issue), scale.unix_ns(request.complete));
            before.push((issue - operation.start_ns) as f64);
            after.push((operation.end_ns - complete) as f64);
            device.push((complete - issue) as f64);
            beyond.push((operation.end_ns - operation.start_ns - (complete - issue)) as f64);
        }
        let nested = before.iter().zip(&after).filter(|(a, b)| **a >= 0.0 && **b >= 0.0).count();
        let margin_ns = before.iter().chain(&after).copied().fold(f64::INFINITY, f64::min);
        Self {
            operations: operations.len(),
            matched: before.len(),
            nested,
            margin_ns,
            beyond_ns: median(&beyond),
            device_ns: median(&device),
            error_ns: scale.error_ns,
        }
    }
}

fn table(rounds: &[Vec<Round>; 3]) -> String {
    let mut text = "| side | reads | matched | nested | smallest difference ns | clocks agree within ns | device us | \
                    stamps beyond it us |\n|---|--:|--:|--:|--:|--:|--:|--:|\n"
        .to_owned();
    for (name, rounds) in SIDES.iter().zip(rounds) {
        let sum = |get: fn(&Round) -> usize| rounds.iter().map(get).sum::<usize>();
        let of = |get: fn(&Round) -> f64| rounds.iter().map(get).collect::<Vec<f64>>();
        let margin_ns = of(|r| r.margin_ns).into_iter().fold(f64::INFINITY, f64::min);
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} | {margin_ns:.0} | {:.0} | {:.2} | {:.2} |",
            sum(|r| r.operations),
            sum(|r| r.matched),
            sum(|r| r.nested),
            median(&of(|r| r.error_ns)),
            median(&of(|r| r.device_ns)) / 1e3,
            median(&of(|r| r.beyond_ns)) / 1e3,
        );
    }
    text + "\nOf differences inside a run the median counts: single reads wait for whoever else wants the CPU.\n"
}

fn figures(rounds: &[Vec<Round>; 3]) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut add = |what, goal, values| {
        figures.push(Figure { what, goal, values, rounds_min: PAIRS_MIN });
    };
    for (name, rounds_of_side) in SIDES.iter().zip(rounds).take(BARE) {
        // All of them, so that one bad read in one round is not hidden behind a median.
        let sum = |get: fn(&Round) -> usize| rounds_of_side.iter().map(get).sum::<usize>() as f64;
        let share = sum(|r| r.nested) / sum(|r| r.operations);
        let all = vec![share; rounds_of_side.len()];
        add(format!("{name}: share of all reads matched and nested"), Goal::From(1.0), all);
        let pairs = rounds_of_side.iter().zip(&rounds[BARE]);
        let ratios = pairs.map(|(ours, bare)| ours.beyond_ns / bare.beyond_ns).collect();
        let what = format!("{name} / {}: time beyond the device's", SIDES[BARE]);
        add(what, Goal::AtMost(GOAL_RATIO), ratios);
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_matched_and_judged() {
        let scale = Scale::for_test();
        let read =
            |start_ns, end_ns, block: u64| Stamped { start_ns, end_ns, offset_bytes: block * 4096 };
        let request = |issue, complete, block: u64| Request { issue, complete, sector: block * 8 };
        // The second read is of the same block as the first, the third ends before its request does.
        let reads = [read(100, 200, 1), read(300, 420, 1), read(500, 600, 2), read(700, 800, 3)];
        let requests = [request(310, 400, 1), request(120, 180, 1), request(510, 610, 2)];
        let round = Round::of(&reads, &requests, scale);
        assert_eq!((round.operations, round.matched, round.nested), (4, 3, 2));
        assert_eq!((round.margin_ns, round.beyond_ns), (-10.0, 30.0));
        let rounds = [vec![round], vec![Round::of(&reads[..2], &requests, scale)], Vec::new()];
        let figures = figures(&rounds);
        assert_eq!((figures[0].values[0], figures[2].values[0]), (0.5, 1.0));
    }
}
