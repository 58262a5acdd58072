//! `fathom run exercise`: files at random against a model of what they must hold.

use super::progress_line::ProgressLine;
use super::tree::{failed, hold};
use super::{CommandError, CommandResult, finish, key_value};
use crate::args::{Common, Run, Style};
use crate::exit::Exit;
use crate::output::Output;
use crate::session;
use fathom_base::id;
use fathom_base::prng::Prng;
use fathom_base::shell;
use fathom_base::units::{format_count, format_ns, format_size};
use fathom_sys::signals::StopFlag;
use fathom_tree::exercise::settings::{KEYS, Settings};
use fathom_tree::exercise::{Exercise, Report, Wrong};
use std::fmt::Write;
use std::path::Path;

/// Its name among the workloads.
pub const NAME: &str = "exercise";
/// What it is, in the list of them.
pub const TITLE: &str = "no measurement: files at random against a model of what they must hold";

/// What it is in full, and its keys.
pub fn explain() -> String {
    let mut text = format!(
        "{NAME}: {TITLE}\nEvery operation follows from the seed; every byte that is read is compared, and all of every file at \
         the end. See docs/exercise.md.\n\nkeys (KEY=VALUE):\n"
    );
    let width = KEYS.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    for (key, help) in KEYS {
        let _ = writeln!(text, "  {key:width$}  {help}");
    }
    text
}

/// The same as JSON.
pub fn json() -> serde_json::Value {
    let key = |(name, help): &(&str, &str)| serde_json::json!({ "name": name, "help": help });
    let keys: Vec<_> = KEYS.iter().map(key).collect();
    serde_json::json!({ "name": NAME, "title": TITLE, "keys": keys })
}

/// Exercises a directory's filesystem.
pub fn run(common: &Common, output: Output, stop: &StopFlag, args: &Run) -> CommandResult {
    let usage = |text: &dyn std::fmt::Display| CommandError::usage(output, text);
    let is_plain = args.repeats == 1
        && args.until_steady.is_none()
        && args.against.is_empty()
        && args.phase.is_empty()
        && args.any.destroy.is_empty()
        && args.style == Style::Fathom;
    if !is_plain {
        return Err(usage(
            &"exercise measures nothing: it takes settings (operations=, duration=, files=, size=), --seed and --json",
        ));
    }
    let pairs: Vec<_> =
        args.settings.iter().map(|s| key_value(output, s)).collect::<Result<_, _>>()?;
    let settings = Settings::parse(&pairs).map_err(|error| usage(&error))?;
    let held = hold(common, output)?;
    let seed = common.seed.unwrap_or_else(session::system_seed);
    let run_id = id::new_id(&mut Prng::new(session::system_seed(), 0));
    let mut shown = ProgressLine::new(output);
    let mut progress = |done: u64, all: Option<u64>| {
        let all = all.map_or_else(String::new, |all| format!(" of {}", format_count(all)));
        shown.line(&format!("exercising: {}{all} operations", format_count(done)));
    };
    let mut exercise = Exercise {
        root: &held.root,
        state_dir: &held.state_dir,
        run_id: &run_id,
        seed,
        settings: &settings,
        stop,
        progress: &mut progress,
    };
    let report = exercise.run(Path::new(&args.target));
    shown.finish();
    let report = report.map_err(|error| failed(output, &error))?;
    let exit = exit_of(&report);
    let mut json = serde_json::to_value(&report).unwrap_or_default();
    json["exit_code"] = exit.code().into();
    finish(output, &text(&report, &settings, args), &json, exit)
}

fn exit_of(report: &Report) -> Exit {
    let of = |wrong: &Wrong| if wrong.is_full { Exit::Missing } else { Exit::TargetIo };
    let end = if report.interrupted { Exit::Interrupted } else { Exit::Done };
    report.wrong.iter().map(of).fold(end, Exit::max)
}

fn text(report: &Report, settings: &Settings, args: &Run) -> String {
    let mut text = format!(
        "{}: {} operations on {} files of up to {} in {}, seed {}\n",
        report.path.display(),
        format_count(report.operations),
        report.files,
        format_size(settings.size_bytes),
        format_ns(report.took_ns),
        report.seed
    );
    let kinds: Vec<String> = report
        .by_kind
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(kind, count)| format!("{} {}", format_count(*count), kind.word()))
        .collect();
    let _ = writeln!(text, "  {}", kinds.join(", "));
    for (kind, why) in &report.dropped {
        let _ = writeln!(text, "  left out: {} ({why})", kind.word());
    }
    if report.wrong.is_empty() {
        let end = if report.interrupted {
            ", until it was interrupted"
        } else {
            ", and so was all of every file at the end"
        };
        let _ = writeln!(text, "Every byte that was read was the right one{end}.");
        return text;
    }
    for wrong in &report.wrong {
        wrong_text(&mut text, wrong, report, settings, args);
    }
    text
}

fn wrong_text(text: &mut String, wrong: &Wrong, report: &Report, settings: &Settings, args: &Run) {
    let head = if wrong.is_error { "FAILED" } else { "WRONG" };
    let when = match wrong.operation {
        0 => "in the comparison at the end".to_owned(),
        number => format!("in operation {number}"),
    };
    let _ = writeln!(text, "{head}: file {}, {when}: {}", wrong.file, wrong.what);
    if let Some(offset) = wrong.offset_bytes {
        let _ = writeln!(text, "  expected {} at offset {offset}", wrong.expected);
        let _ = writeln!(text, "  found    {}", wrong.found);
        match wrong.changed_by {
            Some(0) | None => {}
            Some(number) => {
                let _ = writeln!(text, "  that byte was last changed by operation {number}");
            }
        }
    }
    let _ = writeln!(text, "  the last operations on this file:");
    for line in &wrong.log {
        let _ = writeln!(text, "    {line}");
    }
    let given = |key: &str| args.settings.iter().find(|s| s.starts_with(&format!("{key}=")));
    let mut again =
        format!("fathom run exercise {} --seed={}", shell::word(&args.target), report.seed);
    for key in ["files", "size", "direct"] {
        if let Some(setting) = given(key) {
            let _ = write!(again, " {}", shell::word(setting));
        }
    }
    let operations = match wrong.operation {
        0 => settings.operations.unwrap_or(report.operations / report.files.max(1)),
        number => number,
    };
    let _ = writeln!(text, "  the same operations again: {again} operations={operations}");
}
