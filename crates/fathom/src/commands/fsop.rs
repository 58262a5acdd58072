//! `fathom run fsop`.

use super::{CommandError, CommandResult, finish, key_value, local_zone};
use crate::args::{Common, Run, Style};
use crate::output::Output;
use crate::session::{self, Purpose};
use fathom_base::units::format_ns;
use fathom_lab::fsop::{self as lab_fsop, FsopOptions};
use fathom_model::fsop::FsopSpec;
use fathom_model::fsop_keys::KEYS;
use fathom_model::record::{Record, RunKind};
use fathom_report::text::push_wrapped_to;
use fathom_report::{classic, fsop as report};
use fathom_study::fsop;
use fathom_sys::signals::StopFlag;
use std::fmt::Write;
use std::path::PathBuf;

/// Behind the prices of settings.
const RECOVERY: &str = "how long a mount takes after a crash is measured in experiments, where metric = 'recovery' is an \
                        objective, as in fathom lab filesystem-grid";

/// True when the workload is one of processes on trees.
pub fn is_meant(workload: &str) -> bool {
    workload == lab_fsop::NAME
}

/// Runs the phases and prints what came out.
pub fn run(common: &Common, output: Output, stop: &StopFlag, args: &Run) -> CommandResult {
    let options = options(output, args)?;
    measure(common, output, stop, args, &options)
}

/// The same with settings of whoever asks.
pub fn measure(
    common: &Common,
    output: Output,
    stop: &StopFlag,
    args: &Run,
    options: &FsopOptions,
) -> CommandResult {
    let purpose = Purpose {
        kind: RunKind::Run,
        target: &args.target,
        measure: &args.any.measure,
        destroy: args.any.destroy.clone(),
        interval_ns: session::INTERVAL_NS,
    };
    let measured = session::measure(common, output, stop, &purpose, &mut |lab, keep| {
        lab_fsop::run(lab, options, keep)
    })?;
    let mut text = records_text(output, &measured.records, args.style);
    text += &measured.findings(output);
    let _ = writeln!(
        text,
        "Whole command {}, of it measured {}.\n{}",
        format_ns(measured.took_ns),
        format_ns(measured.records.iter().map(|r| r.window_ns).sum()),
        measured.stored_as(|show| format!("; all of it again: {show}"))
    );
    let mut result = measured.json();
    result["price_for_safety"] = prices(&measured.records).into();
    result["competition"] =
        serde_json::to_value(fsop::competition(&measured.records)).unwrap_or_default();
    finish(output, &text, &result, measured.exit)
}

fn options(output: Output, args: &Run) -> Result<FsopOptions, CommandError> {
    check_options(output, args, lab_fsop::NAME)?;
    let usage = |text: &str| CommandError::usage(output, &text);
    let settings: Vec<(String, String)> =
        args.settings.iter().map(|s| key_value(output, s)).collect::<Result<_, _>>()?;
    let spec = FsopSpec::with(&settings).map_err(|error| usage(&error))?;
    Ok(FsopOptions { spec, target: PathBuf::from(&args.target), repeats: args.repeats })
}

/// Refuses what goes with other workloads only.
///
/// # Errors
/// Usage.
pub fn check_options(output: Output, args: &Run, name: &str) -> Result<(), CommandError> {
    let usage = |text: &str| CommandError::usage(output, &text);
    if args.target.is_empty() {
        return Err(usage("the target is empty; name a directory"));
    }
    for (is_given, option) in [
        (!args.phase.is_empty(), "--phase"),
        (args.until_steady.is_some(), "--until-steady"),
        (!args.against.is_empty(), "--against"),
    ] {
        if is_given {
            let phases =
                if name == lab_fsop::NAME { ", whose phases are phases=1r,3r,3r+3w" } else { "" };
            return Err(usage(&format!("{option} does not go with {name}{phases}")));
        }
    }
    if args.any.measure.keep {
        return Err(usage(&format!(
            "--keep does not go with {name}: what its writers make is always removed; a tree that stays: fathom tree build DIR",
        )));
    }
    if args.repeats == 0 {
        return Err(usage("--repeats=0: at least 1"));
    }
    Ok(())
}

/// The records of such a run in the form that was asked for.
pub fn records_text(output: Output, records: &[Record], style: Style) -> String {
    if style == Style::Classic {
        return classic::classic(records).unwrap_or_default() + "\n";
    }
    let mut text = String::new();
    for record in records {
        if let Some(fsop) = &record.fsop {
            text += &report::detail(record, fsop, &local_zone(), output.width());
            text.push('\n');
        }
    }
    let mut prices = prices(records);
    if !prices.is_empty() {
        prices.push(RECOVERY.to_owned());
    }
    for line in &prices {
        push_wrapped_to(&mut text, output.width(), "price for safety  ", line);
    }
    text += &report::competition_text(&fsop::competition(records), output.width());
    text
}

/// What settings of the filesystem cost in integrity and recovery, a line each.
fn prices(records: &[Record]) -> Vec<String> {
    let target = records.first().and_then(|record| record.targets.first());
    target.map_or(Vec::new(), |target| report::integrity(&target.stack))
}

/// One line for the list of workloads, and the keys.
pub fn explain() -> String {
    let workload = lab_fsop::workload();
    let mut text = format!("{}: {}\n{}\n", workload.name, workload.title, workload.description);
    text += "\nkeys (KEY=VALUE):\n";
    let width = KEYS.iter().map(|key| key.name.len()).max().unwrap_or(0);
    for key in KEYS {
        let _ = writeln!(text, "  {:width$}  {} ({})", key.name, key.help, key.values);
    }
    text
}
