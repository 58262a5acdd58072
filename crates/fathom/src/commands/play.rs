//! `fathom run` with a personality: mail, postmark, metadata-storm and the others, or a file with `[play]`.

use super::{CommandError, fsop, key_value};
use crate::args::{Run, Style};
use crate::output::Output;
use fathom_lab::fsop::FsopOptions;
use fathom_model::play::PlayAct;
use fathom_model::play_keys::{self, KEYS, Personality};
use fathom_sys::note;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The personality of that name or file; none when it is another workload.
///
/// # Errors
/// What is wrong with the file.
pub fn found(output: Output, workload: &str) -> Result<Option<Personality>, CommandError> {
    if let Some(known) = play_keys::named(workload) {
        return Ok(Some(known));
    }
    let is_file = workload.contains('/') || workload.ends_with(".toml");
    // What cannot be read is said where other workload files are.
    let text = is_file.then(|| note::read_text(Path::new(workload)).ok()).flatten();
    let Some(text) = text else { return Ok(None) };
    play_keys::parse(&text).map_err(|reason| {
        CommandError::usage(output, &format!("workload file '{workload}': {reason}"))
    })
}

/// What the command line asks of a personality.
///
/// # Errors
/// Usage.
pub fn options(
    output: Output,
    args: &Run,
    mut personality: Personality,
) -> Result<FsopOptions, CommandError> {
    let name = personality.workload.name.clone();
    fsop::check_options(output, args, &name)?;
    let usage = |text: &str| CommandError::usage(output, &text);
    if args.style == Style::Classic {
        return Err(usage(&format!("workload '{name}' has no classic form")));
    }
    let settings: Vec<(String, String)> =
        args.settings.iter().map(|s| key_value(output, s)).collect::<Result<_, _>>()?;
    personality.set(&settings).map_err(|error| usage(&error))?;
    let (spec, target) = (personality.spec, PathBuf::from(&args.target));
    Ok(FsopOptions { spec, target, repeats: args.repeats })
}

/// One personality with its settings, all transactions and all keys.
pub fn explain(personality: &Personality) -> String {
    let workload = &personality.workload;
    let mut text = format!("{}: {}\n{}\n", workload.name, workload.title, workload.description);
    if let Some(play) = &personality.spec.play {
        let _ = writeln!(text, "\nsettings: {}", fathom_report::play::settings(play));
    }
    text += "\ntransactions (mix=NAME:WEIGHT,...):\n";
    let width = PlayAct::ALL.iter().map(|(_, word, _)| word.len()).max().unwrap_or(0);
    for (_, word, help) in PlayAct::ALL {
        let _ = writeln!(text, "  {word:width$}  {help}");
    }
    text += "\nkeys (KEY=VALUE):\n";
    let width = KEYS.iter().map(|key| key.name.len()).max().unwrap_or(0);
    for key in KEYS {
        let _ = writeln!(text, "  {:width$}  {} ({})", key.name, key.help, key.values);
    }
    text
}
