//! The guard against real devices, mounts and processes.

mod claims;
mod files;
mod scenarios;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut trials = claims::trials();
    trials.extend(files::trials());
    fathom_testkit::run(trials)
}
