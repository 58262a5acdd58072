//! Instructions per request, counted by callgrind: the one figure here that does not depend on the neighbours. It
//! shows what options cost that were not asked for (nothing), and what those cost that were.

use super::goals::Goal;
use super::report::{Figure, Section};
use super::tools::{Programs, patiently};
use super::{Bench, Trouble};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// For `--only`.
pub const NAME: &str = "instructions";

/// One way of issuing requests.
struct Way {
    /// What is set besides `direct=no`.
    settings: &'static [&'static str],
    /// Instructions per request that it took once, and when that was; none for a way that asks for what costs something.
    before: Option<(f64, &'static str)>,
}

/// Before jobs could have distributions, rates or verification.
const FIRST: &str = "the time before optional features";
/// When sequences and writes had found their code.
const LATER: &str = "November 2026";

/// A new option is one line here with its setting and without `before`; the plain ways must stay where they are.
const WAYS: [Way; 11] = [
    Way { settings: &["engine=null", "depth=1"], before: Some((320.5, FIRST)) },
    Way { settings: &["engine=null", "depth=32"], before: Some((201.7, FIRST)) },
    Way { settings: &["engine=psync", "depth=1"], before: Some((356.4, FIRST)) },
    Way { settings: &["engine=io_uring", "depth=1"], before: Some((416.7, FIRST)) },
    Way { settings: &["engine=io_uring", "depth=32"], before: Some((285.0, FIRST)) },
    Way {
        settings: &["engine=null", "depth=32", "access=sequential"],
        before: Some((298.0, LATER)),
    },
    Way {
        settings: &["engine=null", "depth=32", "write_fraction=1"],
        before: Some((202.4, LATER)),
    },
    Way {
        settings: &["engine=null", "depth=32", "write_fraction=0.3"],
        before: Some((203.7, LATER)),
    },
    Way { settings: &["engine=null", "depth=32", "distribution=zipf:1.1"], before: None },
    Way { settings: &["engine=null", "depth=32", "block_size=4k:80,64k:20"], before: None },
    Way { settings: &["engine=null", "depth=32", "cap_iops=100000000"], before: None },
];

/// Compilers lay out the same source differently: what is below this is no cost.
const GROWTH_MAX: f64 = 1.02;

/// Two runs that differ in the number of requests alone: their difference is free of start and end.
const FEW: u64 = 20_000;
const MANY: u64 = 220_000;

/// About how long it takes.
#[must_use]
pub fn estimate(_rounds: usize) -> Duration {
    Duration::from_secs(4) * WAYS.len() as u32
}

/// Counts every way.
///
/// # Errors
/// Without valgrind, and when a run fails.
pub fn section(bench: &Bench) -> Result<Section, Trouble> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return Err(Trouble::Missing("valgrind is not installed".to_owned()));
    }
    let mut text = "| job | instructions per request |\n|---|--:|\n".to_owned();
    let mut figures = Vec::new();
    for way in &WAYS {
        let counted = |operations| counted(&bench.programs, &bench.files.cached, way, operations);
        let (few, many) = (counted(FEW)?, counted(MANY)?);
        let per_request = (many as f64 - few as f64) / (MANY - FEW) as f64;
        let job = way.settings.join(" ");
        let _ = writeln!(text, "| {job} | {per_request:.1} |");
        figures.extend(way.before.map(|(before, when)| Figure {
            what: format!("{job}: by the {before} of {when}"),
            goal: Goal::UpTo(GROWTH_MAX),
            values: vec![per_request / before],
            rounds_min: 1,
        }));
    }
    let title = "user mode, counted by callgrind".to_owned();
    Ok(Section { name: NAME, title, text, figures, commands: Vec::new() })
}

fn counted(programs: &Programs, file: &Path, way: &Way, operations: u64) -> Result<u64, String> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(&programs.fathom);
    command.args(["run", "randread"]);
    let is_null = way.settings.contains(&"engine=null");
    command.arg(if is_null { Path::new("null:") } else { file });
    command.args(["direct=no", "--quiet", "--seed=1"]).arg("--db").arg(programs.store());
    command.args(way.settings).arg(format!("operations={operations}"));
    let output = patiently(&mut command)?;
    let said = String::from_utf8_lossy(&output.stderr);
    // 1 is a doubtful result: of so short a run nothing else is wanted.
    if output.status.code().is_none_or(|code| code > 1) {
        let of_fathom = said.lines().find(|line| line.starts_with("fathom: "));
        let why = of_fathom.or(said.lines().last());
        return Err(format!("valgrind: {}: {}", output.status, why.unwrap_or("")));
    }
    collected(&said).ok_or_else(|| "valgrind: no instruction count in what it says".to_owned())
}

fn collected(said: &str) -> Option<u64> {
    let line = said.lines().find_map(|line| line.split_once("Collected :"))?.1;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callgrinds_total_is_found() {
        let said = "==12== Events    : Ir\n==12== Collected : 1442731\n==12== \n";
        assert_eq!(collected(said), Some(1_442_731));
        assert_eq!(collected("==12== Process terminating"), None);
    }
}
