//! The commands, one file each.

mod against;
mod attach;
mod capture;
mod check;
mod clean;
mod compare;
mod completions;
mod detach;
mod doctor;
mod exercise;
mod export;
mod fsop;
mod hiding;
mod history;
mod import;
mod knobs;
mod lab;
mod layers;
mod list;
mod man;
mod planned;
mod play;
mod progress_line;
mod quick;
mod raid;
mod reading;
mod replay;
mod report;
mod restore;
mod rm;
mod run;
mod saturate;
mod searched;
mod show;
mod size;
mod standing;
mod tree;
mod verify;
mod watch;
mod workloads;

use crate::args::{Args, Command, MeasureAny};
use crate::exit::Exit;
use crate::output::Output;
use crate::screen::{Screen, Stops};
use crate::session::fail;
use fathom_base::shell;
use fathom_lab::target::SEVERAL_TARGETS;
use fathom_model::workload::Job;
use fathom_store::StoreError;
use fathom_sys::signals::StopFlag;
use jiff::tz::TimeZone;
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::io;
use std::path::Path;

/// Runs the command and gives its exit code.
pub fn dispatch(args: &Args, stop: &StopFlag, screen: &'static Screen) -> Exit {
    let output = Output { json: args.common.json, quiet: args.common.quiet, screen };
    let common = &args.common;
    let stops = stops(&args.command);
    screen.stop_so(stops);
    // Whoever asked before that was known is not heard a second time.
    if stops == Stops::AtOnce && stop.is_set() {
        return Exit::Interrupted;
    }
    let done = match &args.command {
        command if lacks_program(command, std::env::args_os()) => {
            let text = "-- and no command behind it: name the command, or leave -- out to go on without one";
            Err(CommandError::usage(output, &text))
        }
        Command::Quick(quick) => quick::run(common, output, stop, quick),
        Command::Run(run) => run::run(common, output, stop, run),
        Command::Saturate(saturate) => saturate::run(common, output, stop, saturate),
        Command::Size(size) => size::run(common, output, stop, size),
        Command::Lab(lab) => lab::run(common, output, stop, lab),
        Command::Raid(raid) => raid::run(common, output, stop, raid),
        Command::Layers(layers) => layers::run(common, output, stop, layers),
        Command::Attach(attach) => attach::run(common, output, stop, attach),
        Command::Restore(restore) => restore::run(common, output, stop, restore),
        Command::Verify(verify) => verify::run(common, output, stop, verify),
        Command::Capture(capture) => capture::run(common, output, stop, capture),
        Command::Replay(replay) => replay::run(common, output, stop, replay),
        Command::Check(check) => check::run(common, output, check),
        Command::Tree(tree) => tree::run(common, output, stop, tree),
        Command::Clean(clean) => clean::run(common, output, stop, clean),
        Command::List(list) => list::run(common, output, list),
        Command::Show(show) => show::run(common, output, show),
        Command::Compare(compare) => compare::run(common, output, compare),
        Command::History(history) => history::run(common, output, history),
        Command::Rm(rm) => rm::run(common, output, rm),
        Command::Report(report) => report::run(common, output, report),
        Command::Knobs(knobs) => knobs::run(output, knobs),
        Command::Watch(watch) => watch::run(common, output, stop, watch),
        Command::Workloads(workloads) => workloads::run(output, workloads),
        Command::Export(export) => export::run(common, output, stop, export),
        Command::Import(import) => import::run(common, output, import),
        Command::Doctor => doctor::run(common, output),
        Command::Completions(shell) => completions::run(output, shell),
        Command::Man => man::run(output),
    };
    match done {
        Ok(exit) => exit,
        Err(error) => {
            let exit = error.report(output);
            // A closed terminal takes the output along; that it ended the run is what counts.
            if stop.is_set() { exit.max(Exit::Interrupted) } else { exit }
        }
    }
}

/// What a command waits for that is asked to end.
fn stops(command: &Command) -> Stops {
    match command {
        Command::Quick(_)
        | Command::Run(_)
        | Command::Saturate(_)
        | Command::Size(_)
        | Command::Lab(_)
        | Command::Raid(_)
        | Command::Layers(_)
        | Command::Attach(_)
        | Command::Replay(_)
        | Command::Verify(_) => Stops::WithRequests,
        Command::Capture(_)
        | Command::Watch(_)
        | Command::Restore(_)
        | Command::Tree(_)
        | Command::Clean(_)
        | Command::Export(_) => Stops::InOrder,
        Command::Check(_)
        | Command::List(_)
        | Command::Show(_)
        | Command::Compare(_)
        | Command::History(_)
        | Command::Report(_)
        | Command::Rm(_)
        | Command::Import(_)
        | Command::Knobs(_)
        | Command::Workloads(_)
        | Command::Doctor
        | Command::Completions(_)
        | Command::Man => Stops::AtOnce,
    }
}

/// Whether a command line ends where a program should follow, as that of a script does whose variable is empty.
fn lacks_program(command: &Command, mut words: impl DoubleEndedIterator<Item = OsString>) -> bool {
    let program = match command {
        Command::Watch(watch) => &watch.command,
        Command::Capture(capture) => &capture.command,
        _ => return false,
    };
    program.is_empty() && words.next_back().is_some_and(|word| word == "--")
}

/// Why a command ended early.
pub enum CommandError {
    /// It has been printed.
    Reported(Exit),
    /// Writing the output failed.
    Output(io::Error),
}

/// Consent to the destruction of a device must be about one: beside a directory alone, or null:, it is a mistake. So is it to keep
/// what null: leaves.
///
/// # Errors
/// A usage error, printed, when neither the target nor one among the settings or in the workload can be a device.
pub fn check_consent(
    output: Output,
    any: &MeasureAny,
    (workload, target): (&str, &str),
    settings: &[String],
) -> Result<(), CommandError> {
    let is_null = target == "null:";
    let destroy = any.destroy.first().map(|id| format!("--destroy={}", shell::word(id)));
    let keep = (is_null && any.measure.keep).then(|| "--keep".to_owned());
    let Some(option) = destroy.or(keep) else { return Ok(()) };
    let is_elsewhere = settings.iter().any(|s| s.starts_with("target=") || s.contains(".target="));
    if is_elsewhere || !is_null && !Path::new(target).is_dir() {
        return Ok(());
    }
    // One that cannot be read is told later, with its reason.
    let has_targets = |jobs: &[Job]| jobs.iter().any(|job| job.target.is_some());
    if run::load(workload, |_| String::new()).is_ok_and(|file| has_targets(&file.workload.jobs)) {
        return Ok(());
    }
    let why = if is_null {
        "is nothing to destroy or keep"
    } else {
        "is a directory, where fathom writes to files of its own only"
    };
    let text = format!("{option}: {target} {why}; leave it out");
    Err(CommandError::usage(output, &text))
}

impl CommandError {
    fn report(self, output: Output) -> Exit {
        match self {
            Self::Reported(exit) => exit,
            // Somebody closed the pipe (head, less): they have what they wanted.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
            Self::Output(error) => {
                output.error(&format!("writing the output: {error}"));
                // Somebody else has made a file of the name that was wanted.
                let is_taken = error.kind() == io::ErrorKind::AlreadyExists;
                if is_taken { Exit::Usage } else { Exit::Internal }
            }
        }
    }

    /// Prints an error.
    pub fn report_as(output: Output, error: &dyn Display, exit: Exit) -> Self {
        Self::Reported(fail(output, error, exit))
    }

    /// Prints what makes no sense in the command line.
    pub fn usage(output: Output, error: &dyn Display) -> Self {
        Self::report_as(output, error, Exit::Usage)
    }

    /// Prints why a command of the user's does not run.
    pub fn not_started(output: Output, program: &OsStr, error: &io::Error) -> Self {
        let program = program.display();
        let (text, exit) = match error.kind() {
            io::ErrorKind::NotFound => {
                let is_path = program.to_string().contains('/');
                let place = if is_path { "" } else { " in $PATH" };
                (format!("'{program}': there is no such program{place}"), Exit::Usage)
            }
            io::ErrorKind::PermissionDenied => {
                (format!("'{program}' cannot be started: {error}; is it executable?"), Exit::Usage)
            }
            _ => (format!("'{program}' cannot be started: {error}"), Exit::Missing),
        };
        Self::report_as(output, &text, exit)
    }

    /// Prints an error of the store that a word of the command line may have led to.
    pub fn store(output: Output, error: &StoreError) -> Self {
        Self::report_as(output, error, Exit::of_store(error))
    }

    /// Prints that the store has no run at all.
    pub fn nothing_stored(output: Output) -> Self {
        Self::usage(output, &"nothing has been stored yet; start with: fathom quick")
    }
}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<Exit> for CommandError {
    fn from(exit: Exit) -> Self {
        Self::Reported(exit)
    }
}

/// Ends a measurement with its result, for people or for programs. Somebody who closes the pipe early has what they
/// wanted, and the exit code is the measurement's.
pub fn finish(output: Output, text: &str, result: &Value, exit: Exit) -> CommandResult {
    match output.text(text).and_then(|()| output.json("result", result)) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(exit),
    }
}

/// What a command gives back.
pub type CommandResult = Result<Exit, CommandError>;

/// The zone in which people read times.
pub fn local_zone() -> TimeZone {
    TimeZone::system()
}

/// Splits `key=value`.
pub fn key_value(output: Output, text: &str) -> Result<(String, String), CommandError> {
    if text.contains(char::is_control) {
        let message =
            format!("{text:?} has a line break or another control character: no setting has");
        return Err(CommandError::usage(output, &message));
    }
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => {
            let hint = match text {
                "against" => "; meant --against?".to_owned(),
                path if path.contains('/') => format!("; {SEVERAL_TARGETS}"),
                _ => String::new(),
            };
            let message =
                format!("'{text}' is no setting; write key=value, such as threads=16{hint}");
            Err(CommandError::usage(output, &message))
        }
    }
}
