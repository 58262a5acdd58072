//! The `fathom` binary on storage that many machines lack: md arrays, LVM, dm-crypt, multipath, SCSI disks; each family in
//! one guest, whose results several tests look at.
#![expect(clippy::expect_used, reason = "a test's panic is its report")]

mod family;
mod guard;
mod md;
mod multipath;

use std::process::ExitCode;

fn main() -> ExitCode {
    fathom_testkit::run(
        [md::trials(), guard::trials(), multipath::trials()].into_iter().flatten().collect(),
    )
}
