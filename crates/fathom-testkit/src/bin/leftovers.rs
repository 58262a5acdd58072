//! Lists what dead test processes left behind, one per line, and fails when there is something; `--remove` takes it
//! down.

use std::process::ExitCode;

fn main() -> ExitCode {
    let left = fathom_testkit::leftovers::leftovers();
    for leftover in &left {
        println!("{leftover}");
    }
    if std::env::args().any(|arg| arg == "--remove")
        && let Err(error) = fathom_testkit::leftovers::remove_leftovers()
    {
        eprintln!("error: {error}");
        return ExitCode::FAILURE;
    }
    if left.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
