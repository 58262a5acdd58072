//! fathom: measures storage and says whether the figures can be trusted.
//!
//! This crate is the edge: arguments, exit codes, signals, what is printed. Everything that computes lives in the
//! crates below.

mod args;
mod commands;
mod exit;
mod experiments;
mod output;
mod progress;
mod session;

use clap::Parser;
use exit::Exit;
use fathom_sys::signals::{self, StopFlag};
use fathom_sys::threads;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    threads::raise_file_limit();
    // Before any thread exists: all of them inherit the blocked signals.
    let stop = StopFlag::default();
    if let Err(error) = signals::watch(stop.clone(), heard) {
        say(&format!(
            "starting the thread that waits for signals: {error}; the limit of threads (ulimit -u, or pids.max of the control \
             group) or the memory is used up: raise it"
        ));
        return Exit::Missing.into();
    }
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Done };
            // A closed pipe behind --help is no error.
            let _ = error.print();
            // What --json stands for is known only after parsing: programs get the usual last line all the same.
            if exit == Exit::Usage && std::env::args_os().any(|arg| arg == "--json") {
                let text = error.to_string();
                let text = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
                let fields = serde_json::json!({ "error": text, "exit_code": exit.code() });
                let _ = output::Output { json: true, quiet: true }.json("result", &fields);
            }
            return exit.into();
        }
    };
    commands::dispatch(&args, &stop).into()
}

/// A first signal waits for what is in flight, which a dead device may never give back; a second one does not wait.
fn heard(signals: u32) {
    if signals == 1 {
        say("stopping; requests in flight are waited for (a second signal ends at once)");
    } else {
        say(
            "ended at once; test files that are left are removed, and settings put back, at the next start or by fathom \
             restore (as long as this process is still listed, the kernel waits for the device)",
        );
        std::process::exit(i32::from(Exit::Interrupted.code()));
    }
}

/// A closed terminal takes standard error along: that must not end the thread that waits for the next signal.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "fathom: {text}");
}
