//! The `fathom` binary on storage that many machines lack: md arrays, LVM, dm-crypt, multipath, SCSI disks; each family in
//! one guest, whose results several tests look at.
#![expect(clippy::expect_used, reason = "a test's panic is its report")]

mod blocked;
mod check;
mod family;
mod guard;
mod limits;
mod md;
mod multipath;
mod polled;
mod saturate;
mod verify;

use std::process::ExitCode;

fn main() -> ExitCode {
    fathom_testkit::run(
        [
            md::trials(),
            guard::trials(),
            multipath::trials(),
            blocked::trials(),
            check::trials(),
            limits::trials(),
            polled::trials(),
            saturate::trials(),
            verify::trials(),
        ]
        .into_iter()
        .flatten()
        .collect(),
    )
}
