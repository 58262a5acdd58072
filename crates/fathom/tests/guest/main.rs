//! The `fathom` binary on storage that many machines lack: md arrays, LVM, dm-crypt, multipath, SCSI disks; each family in
//! one guest, whose results several tests look at.
#![expect(clippy::expect_used, reason = "a test's panic is its report")]

mod blocked;
mod check;
mod family;
mod guard;
mod lab;
mod limits;
mod md;
mod memory;
mod multipath;
mod polled;
mod raid;
mod saturate;
mod traced;
mod turning;
mod verify;
mod watch;

use std::process::ExitCode;

/// Those that have the machine to themselves, and then the longest, so that none is left for the end: it would keep one
/// processor, and the tests that look at what came of it the other.
const FIRST: [&str; 8] = [
    "saturate",
    "cgroup",
    "raid",
    "verify_after_power_cuts",
    "check_iron",
    "lab",
    "check_hardware",
    "polled_completions",
];
/// Guests at a time: User Mode Linux has one processor.
const GUESTS: usize = 2;

fn main() -> ExitCode {
    let trials = [
        md::trials(),
        guard::trials(),
        lab::trials(),
        multipath::trials(),
        blocked::trials(),
        check::trials(),
        limits::trials(),
        memory::trials(),
        polled::trials(),
        raid::trials(),
        saturate::trials(),
        verify::trials(),
        watch::trials(),
    ];
    let trials = family::in_order(&FIRST, trials.into_iter().flatten().collect());
    fathom_testkit::run_parallel(GUESTS, trials)
}
