//! The `fathom` binary as a user calls it: real devices, filesystems, signals and failures.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test's panic is its report")]

mod bad_input;
mod cli;
mod filesystems;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut trials = bad_input::trials();
    trials.extend(filesystems::trials());
    fathom_testkit::run(trials)
}
