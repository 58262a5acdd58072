//! Setups on real loop devices: built, read back, taken down, refused, killed.
#![expect(clippy::unwrap_used, reason = "a test's panic is its report")]

#[path = "../driver/mod.rs"]
mod driver;
mod filesystems;
mod kills;
mod refusals;
mod several;
mod theirs;

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::var_os(driver::ROLE).is_some() {
        return driver::play();
    }
    let mut trials = filesystems::trials();
    trials.extend(refusals::trials());
    trials.extend(kills::trials());
    trials.extend(several::trials());
    trials.extend(theirs::trials());
    fathom_testkit::run(trials)
}
