//! `cargo xtask ci`: everything that must hold before a change goes in.

use crate::test::{self, Options, Report};
use crate::{Outcome, dist, flags::Flags, tidy, workspace};
use std::cell::LazyCell;
use std::time::Instant;

pub const HELP: &str = "\
cargo xtask ci [--install]

runs tidy, the format check, clippy, all tests, and builds the static binary and starts it in an empty directory; the tests in
guests run that one, and pure tests run while it is linked

  --install   as for 'cargo xtask test'

All of it runs even when a part fails; failed checks are named and counted in the last line.
";

/// The command.
///
/// # Errors
/// For bad options, or when cargo cannot be run.
pub fn run(args: &[String]) -> Outcome {
    let flags = Flags::parse(args, &["--install"], &[])?;
    let start = Instant::now();
    // It ends with a link that takes one processor for minutes; the checks, the other builds and many tests have the other.
    std::thread::scope(|scope| {
        let building = scope.spawn(dist::build);
        let shipped = LazyCell::new(move || {
            building.join().unwrap_or_else(|_| Err("its thread failed".to_owned()))
        });
        let mut failed = check_and_build()?;
        let builds = start.elapsed();
        let options =
            Options { install: flags.has("--install"), tiers: test::all_tiers(), soak: false };
        let mut report: Report = test::run_tiers(&options, || shipped.as_ref().ok().cloned())?;
        println!("\n== dist");
        match shipped.as_ref().map_err(Clone::clone).and_then(|shipped| dist::prove(shipped)) {
            Ok(None) => (),
            Ok(Some(reason)) => report.skips.push((dist::START.to_owned(), reason)),
            Err(reason) => {
                eprintln!("{reason}");
                failed.push("cargo xtask dist".to_owned());
            }
        }
        report.parts.push(("checks and the other builds".to_owned(), builds));
        report.parts.push(("all".to_owned(), start.elapsed()));
        report.failures.splice(0..0, failed);
        report.print();
        Ok(report.is_success())
    })
}

/// Tidy, format, clippy, and the tests compiled; what failed.
fn check_and_build() -> Result<Vec<String>, String> {
    let mut failed = Vec::new();
    println!("== tidy");
    if !tidy::run(&[])? {
        failed.push("cargo xtask tidy".to_owned());
    }
    for check in [
        ["fmt", "--all", "--check"].as_slice(),
        &["clippy", "--workspace", "--all-targets", "--quiet", "--", "--deny", "warnings"],
    ] {
        println!("\n== cargo {}", check.join(" "));
        let status = workspace::cargo().args(check).status();
        if !status.map_err(|error| format!("cannot run cargo: {error}"))?.success() {
            failed.push(format!("cargo {}", check.join(" ")));
        }
    }
    // Whether they do compile is found out by the tests.
    println!("\n== tests and the static binary");
    test::build()?;
    Ok(failed)
}
