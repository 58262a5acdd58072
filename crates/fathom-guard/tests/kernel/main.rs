//! The guard against real devices, mounts and processes.
#![expect(clippy::unwrap_used, reason = "a test's panic is its report")]

mod child;
mod claims;
mod files;
mod private;
mod scenarios;
mod trees;

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(role) = std::env::var_os(child::ROLE) {
        return child::play(&role.to_string_lossy());
    }
    let mut trials = claims::trials();
    trials.extend(files::trials());
    trials.extend(private::trials());
    trials.extend(trees::trials());
    fathom_testkit::run(trials)
}
