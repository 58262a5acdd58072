//! Instructions per request, counted by callgrind: the one figure here that does not depend on the neighbours.

use super::tools::{Programs, patiently};
use std::path::Path;
use std::process::Command;

/// What one request costs in one way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Count {
    /// The engine.
    pub engine: &'static str,
    /// Requests in flight.
    pub depth: u32,
    /// Instructions in user mode for each request: everything from one request to the next, less the kernel.
    pub per_request: f64,
}

/// Two runs that differ in the number of requests alone: their difference is free of start and end.
const FEW: u64 = 20_000;
const MANY: u64 = 220_000;
const WAYS: [(&str, u32); 5] =
    [("null", 1), ("null", 32), ("psync", 1), ("io_uring", 1), ("io_uring", 32)];

/// Counts; all but the null engine read `file`. None when valgrind is not installed.
///
/// # Errors
/// When a run fails.
pub fn count(programs: &Programs, file: &Path) -> Result<Option<Vec<Count>>, String> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return Ok(None);
    }
    let each = WAYS.into_iter().map(|(engine, depth)| {
        let counted = |operations| counted(programs, file, engine, depth, operations);
        let (few, many) = (counted(FEW)?, counted(MANY)?);
        let per_request = (many as f64 - few as f64) / (MANY - FEW) as f64;
        Ok(Count { engine, depth, per_request })
    });
    each.collect::<Result<Vec<_>, String>>().map(Some)
}

fn counted(
    programs: &Programs,
    file: &Path,
    engine: &str,
    depth: u32,
    operations: u64,
) -> Result<u64, String> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(&programs.fathom);
    command.args(["run", "randread"]);
    command.arg(if engine == "null" { Path::new("null:") } else { file });
    command.args(["direct=no", "--quiet", "--seed=1"]).arg("--db").arg(programs.store());
    command.args([format!("engine={engine}"), format!("depth={depth}")]);
    command.arg(format!("operations={operations}"));
    let output = patiently(&mut command)?;
    let said = String::from_utf8_lossy(&output.stderr);
    // 1 is a doubtful result: of so short a run nothing else is wanted.
    if output.status.code().is_none_or(|code| code > 1) {
        return Err(format!("valgrind: {}: {}", output.status, said.lines().last().unwrap_or("")));
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
