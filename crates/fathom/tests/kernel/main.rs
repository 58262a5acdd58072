//! The `fathom` binary as a user calls it: real devices, filesystems, signals and failures.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test's panic is its report")]

mod bad_input;
mod cli;
mod devices;
mod failures;
mod filesystems;

mod findings;
mod output;
#[path = "../../../fathom-guard/tests/kernel/scenarios.rs"]
#[expect(dead_code, reason = "the guard's own tests use all of it")]
mod scenarios;
mod signals;
mod store;
mod whole;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut trials = bad_input::trials();
    trials.extend(filesystems::trials());
    trials.extend(failures::trials());
    trials.extend(signals::trials());
    trials.extend(store::trials());
    trials.extend(output::trials());
    trials.extend(devices::trials());
    trials.extend(findings::trials());
    trials.extend(whole::trials());
    fathom_testkit::run(trials)
}
