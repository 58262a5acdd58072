//! `fathom run --against`: whether a workload is faster under other settings.

use super::run::{checked, workload};
use super::{CommandError, CommandResult, finish, key_value, searched};
use crate::args::{Common, FailOn, Run, Style};
use crate::exit::Exit;
use crate::output::Output;
use crate::session::{self, Purpose};
use fathom_base::units::format_ns;
use fathom_lab::against::{AgainstOptions, against};
use fathom_model::record::{Record, RunHead, RunKind};
use fathom_report::comparison;
use fathom_study::against::study;
use fathom_study::compare::Comparison;
use fathom_sys::signals::StopFlag;
use std::fmt::Write;

/// Measures both in turn and prints which is faster.
pub fn run(
    common: &Common,
    output: Output,
    stop: &StopFlag,
    args: &Run,
    interval_ns: u64,
) -> CommandResult {
    if args.style == Style::Classic {
        let text = "--against: a comparison has no classic form; leave out --style=classic";
        return Err(CommandError::usage(output, &text));
    }
    let parts = parts(&args.against);
    if let Some(word) = parts.iter().find(|part| !part.contains('=')) {
        let text = format!(
            "--against={word}: it takes settings, such as --against=depth=32, and measures both in turn; with runs \
             that are stored: fathom compare"
        );
        return Err(CommandError::usage(output, &text));
    }
    let settings: Vec<(String, String)> =
        parts.iter().map(|s| key_value(output, s)).collect::<Result<_, _>>()?;
    let a = workload(output, args)?;
    let b = checked(output, args, &settings)?;
    let options = AgainstOptions { sides: [a, b], target: args.target.clone() };
    let purpose = Purpose {
        kind: RunKind::Against,
        target: &args.target,
        measure: &args.any.measure,
        destroy: args.any.destroy.clone(),
        interval_ns,
    };
    let measured = session::measure(common, output, stop, &purpose, &mut |lab, keep| {
        against(lab, &options, keep)
    })?;
    let found = study(&measured.head, &measured.records);
    let void_only = args.any.measure.fail_on == FailOn::Void;
    let exit = measured.exit.max(Exit::of_verdict(found.verdict, void_only));
    let mut text = answer_text(&measured.head.command, &found, output);
    let _ = writeln!(
        text,
        "Whole command {}, of it measured {}.\n{}",
        format_ns(measured.took_ns),
        format_ns(measured.records.iter().map(|r| r.window_ns).sum()),
        measured.stored_as(|show| {
            let prefix = measured.prefix.as_deref().unwrap_or_default();
            let db = session::db_option(common);
            format!(
                "; every run in full: {show}\n\
                 With another margin: fathom compare {prefix}:A {prefix}:B --factor=workload --margin=1%{db}"
            )
        })
    );
    let mut result = measured.json();
    result["comparison"] = serde_json::to_value(&found).unwrap_or_default();
    result["exit_code"] = exit.code().into();
    finish(output, &text, &result, exit)
}

/// The answer of a stored run.
pub fn answer(output: Output, head: &RunHead, records: &[Record]) -> (String, Comparison) {
    let found = study(head, records);
    (answer_text(&head.command, &found, output), found)
}

fn answer_text(command: &str, found: &Comparison, output: Output) -> String {
    let with = searched::option_in(command, "--against").unwrap_or("other settings");
    comparison::text_of(found, &format!("B is A with {with}."), output.width())
}

/// The settings of B: several options, and in one of them several with commas between them. A value may hold commas, so that
/// only what has a key begins a setting.
fn parts(texts: &[String]) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for text in texts {
        for (place, piece) in text.split(',').enumerate() {
            match parts.last_mut() {
                Some(last) if place > 0 && !piece.contains('=') => {
                    last.push(',');
                    last.push_str(piece);
                }
                _ => parts.push(piece.to_owned()),
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_told_from_lists() {
        let parts = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(ToString::to_string).collect();
            parts(&texts)
        };
        assert_eq!(parts(&["depth=8"]), ["depth=8"]);
        assert_eq!(parts(&["depth=8,engine=psync"]), ["depth=8", "engine=psync"]);
        assert_eq!(
            parts(&["block_size=4k:70,8k:30,depth=8"]),
            ["block_size=4k:70,8k:30", "depth=8"]
        );
        assert_eq!(parts(&["depth=8", "batch=2"]), ["depth=8", "batch=2"]);
        // What is no setting stays one piece, to be refused by its name.
        assert_eq!(parts(&["depth"]), ["depth"]);
    }
}
