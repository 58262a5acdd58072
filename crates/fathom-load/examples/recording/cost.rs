//! One job of 4 KiB reads, or 512-byte reads of /dev/zero, on io_uring: prints the CPU time of each in nanoseconds.
//!
//! `recording_on FILE DEPTH OPERATIONS`, for `cargo xtask bench`.

use fathom_load::plan::plan;
use fathom_load::run::{Control, JobSetup, Observer, Tick, run};
use fathom_load::target::LoadTarget;
use fathom_model::keys;
use fathom_model::workload::Job;
use fathom_sys::clock::{Calibration, FastClock};
use fathom_sys::io::OpenMode;
use fathom_sys::signals::StopFlag;
use std::path::Path;
use std::process::ExitCode;

/// Requests before the measured ones: they warm caches and branch predictors.
const WARM_UP: &str = "50000";
/// Nothing is as cheap to read as zeros that are made for it; the offset does not matter to them.
const ZERO: &str = "/dev/zero";

struct Nobody;

impl Observer for Nobody {
    fn window_begins(&mut self) {}
    fn window_ends(&mut self) {}
    fn tick(&mut self, _tick: Tick) {}
}

/// The program.
pub fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [path, depth, operations] = args.as_slice() else {
        eprintln!("usage: FILE DEPTH OPERATIONS");
        return ExitCode::FAILURE;
    };
    let measured = cpu_ns(path, depth, WARM_UP).and_then(|_| cpu_ns(path, depth, operations));
    match measured {
        Ok(ns) => {
            println!("{ns:.3}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {path}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// CPU time of the worker thread for each request.
fn cpu_ns(path: &str, depth: &str, operations: &str) -> Result<f64, String> {
    let (size_bytes, block) = if path == ZERO {
        (1 << 30, "512")
    } else {
        (std::fs::metadata(path).map_err(|e| e.to_string())?.len(), "4096")
    };
    let mut job = Job::default();
    let settings = [
        ("direct", "no"),
        ("block_size", block),
        ("depth", depth),
        ("operations", operations),
        ("cpus", "0"),
    ];
    for (key, value) in settings {
        keys::set(&mut job, key, value).map_err(|e| e.to_string())?;
    }
    let target = LoadTarget::read_only(Path::new(path), size_bytes, 512, OpenMode::default())
        .map_err(|e| e.to_string())?;
    let plan = plan(&job, size_bytes, 512, 1).map_err(|e| e.to_string())?;
    let stop = StopFlag::default();
    let clock = FastClock::calibrated(Calibration::begin(), Some("tsc"));
    let control = Control { clock, interval_ns: 1_000_000_000, stop: &stop };
    let outcome = run(&[JobSetup { plan, target: &target }], &control, &mut Nobody)
        .map_err(|e| e.to_string())?;
    let job = outcome.jobs.first().ok_or("no record")?;
    let done: u64 = job.thread_operations.iter().sum();
    match outcome.failure {
        None if done.to_string() == operations => Ok(job.cpu.total_ns() as f64 / done as f64),
        failure => Err(format!("{done} of {operations} requests ended: {failure:?}")),
    }
}
