//! fathom: measures storage and says whether the figures can be trusted.
//!
//! This crate is the edge: arguments, exit codes, signals, what is printed. Everything that computes lives in the
//! crates below.

mod args;
mod commands;
mod exit;
mod experiments;
mod hub;
mod live;
mod output;
mod plain;
mod progress;
mod report_file;
mod screen;
mod session;
mod sink;

use clap::Parser;
use exit::Exit;
use fathom_sys::signals::{self, Heard, StopFlag};
use fathom_sys::threads;
use screen::{Screen, Stops};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    threads::raise_file_limit();
    // Before any thread exists: all of them inherit the blocked signals.
    let stop = StopFlag::default();
    // For as long as the process: signals and panics come to the very end.
    let screen: &'static Screen = Box::leak(Box::default());
    give_back_on_panic(screen);
    let has_terminal = std::io::stderr().is_terminal();
    if let Err(error) = signals::watch(stop.clone(), has_terminal, move |h| heard(screen, h)) {
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
            let hint =
                args::meant_setting(&error).or_else(|| args::not_text(&error, std::env::args_os()));
            match &hint {
                Some(hint) => say(hint),
                // A closed pipe behind --help is no error.
                None => drop(error.print()),
            }
            // What --json stands for is known only after parsing: programs get the usual last line all the same.
            if exit == Exit::Usage && std::env::args_os().any(|arg| arg == "--json") {
                let text = hint.unwrap_or_else(|| error.to_string());
                let mut fields = args::mistake::fields(&text);
                fields["exit_code"] = exit.code().into();
                let _ = output::Output { json: true, quiet: true, screen }.json("result", &fields);
            }
            return exit.into();
        }
    };
    commands::dispatch(&args, &stop, screen).into()
}

/// What is said when somebody asks for the end.
const STOPPING: &str = "stopping; requests in flight are waited for (a second signal ends at once)";

/// The same where nothing is in flight.
const STOPPING_IN_ORDER: &str = "stopping (a second signal ends at once)";

/// A panic is read on a terminal that is as it was.
fn give_back_on_panic(screen: &'static Screen) {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        screen.give_up();
        usual(panic);
    }));
}

/// A first signal waits for what is in flight, which a dead device may never give back; a second one does not wait. Nor does the
/// first where there is nothing to wait for.
fn heard(screen: &'static Screen, heard: Heard) {
    screen.heard(heard);
    let Heard::Stop(signals) = heard else { return };
    // A view says it itself: this thread must not wait for a terminal.
    let is_said = screen.is_on() || screen.only_looks();
    let wait = |text: &str| {
        if !is_said {
            say(text)
        }
    };
    match (signals, screen.stops()) {
        (_, Stops::AtOnce) => {
            screen.give_up();
            std::process::exit(i32::from(Exit::Interrupted.code()));
        }
        (1, Stops::WithRequests) => wait(STOPPING),
        (1, Stops::InOrder) => wait(STOPPING_IN_ORDER),
        _ => ended_at_once(screen),
    }
}

/// The second signal.
fn ended_at_once(screen: &'static Screen) {
    screen.give_up();
    say(
        "ended at once; changed settings and test files are still there: run fathom restore, or the next start puts them \
         back and removes them (as long as this process is still listed, the kernel waits for the device)",
    );
    std::process::exit(i32::from(Exit::Interrupted.code()));
}

/// A closed terminal takes standard error along: that must not end the thread that waits for the next signal.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "fathom: {text}");
}
