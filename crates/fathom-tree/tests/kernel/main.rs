//! Trees and the exerciser on real filesystems: built, changed by others, killed, full, removed.
#![expect(clippy::unwrap_used, reason = "a test's panic is its report")]

mod cards;
mod exercise;
mod kills;
mod kit;
mod large;
mod limits;
mod trees;

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(role) = std::env::var_os(kit::ROLE) {
        return kit::play(&role.to_string_lossy());
    }
    let mut trials = trees::trials();
    trials.extend(cards::trials());
    trials.extend(limits::trials());
    trials.extend(large::trials());
    trials.extend(kills::trials());
    trials.extend(exercise::trials());
    fathom_testkit::run(trials)
}
