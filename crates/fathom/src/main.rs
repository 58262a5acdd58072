//! fathom: measures storage and says whether the figures can be trusted.
//!
//! This crate is the edge: arguments, exit codes, signals, what is printed. Everything that computes lives in the
//! crates below.

mod args;
mod commands;
mod exit;
mod output;
mod progress;
mod session;

use clap::Parser;
use exit::Exit;
use fathom_sys::signals::{self, StopFlag};
use std::process::ExitCode;

fn main() -> ExitCode {
    // Before any thread exists: all of them inherit the blocked signals.
    let stop = StopFlag::default();
    if let Err(error) = signals::watch(stop.clone()) {
        eprintln!("fathom: no thread for signals: {error}");
        return Exit::Internal.into();
    }
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Done };
            // A closed pipe behind --help is no error.
            let _ = error.print();
            return exit.into();
        }
    };
    commands::dispatch(&args, &stop).into()
}
