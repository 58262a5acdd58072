//! `cargo xtask ci`: everything that must hold before a change goes in.

use crate::test::{self, Options, Report};
use crate::{Outcome, dist, flags::Flags, tidy, workspace};
use std::time::Instant;

pub const HELP: &str = "\
cargo xtask ci [--install]

runs tidy, the format check, clippy, all tests, and builds the static binary and starts it in an empty directory

  --install   as for 'cargo xtask test'

All of it runs even when a part fails; failed checks are named and counted in the last line.
";

/// The command.
///
/// # Errors
/// For bad options, or when cargo cannot be run.
pub fn run(args: &[String]) -> Outcome {
    let flags = Flags::parse(args, &["--install"], &[])?;
    let mut failed = Vec::new();
    let start = Instant::now();
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
    let checks = start.elapsed();
    let tiers = test::all_tiers();
    let options = Options { install: flags.has("--install"), tiers, soak: false };
    let mut report: Report = test::run_tiers(&options)?;
    println!("\n== dist");
    let start_of_dist = Instant::now();
    match dist::prove() {
        Ok(None) => (),
        Ok(Some(reason)) => report.skips.push((dist::START.to_owned(), reason)),
        Err(reason) => {
            eprintln!("{reason}");
            failed.push("cargo xtask dist".to_owned());
        }
    }
    report.parts.push(("checks".to_owned(), checks));
    report.parts.push(("dist".to_owned(), start_of_dist.elapsed()));
    report.parts.push(("all".to_owned(), start.elapsed()));
    report.failures.splice(0..0, failed);
    report.print();
    Ok(report.is_success())
}
