//! Tests of the kernel tier.

use fathom_testkit::harness;
use std::process::ExitCode;

fn main() -> ExitCode {
    harness::run(Vec::new())
}
