//! `fathom quick`.

use super::{CommandError, CommandResult, finish, key_value, report};
use crate::args::{Common, Quick, Span};
use crate::exit::Exit;
use crate::output::Output;
use crate::session::{self, Measured, Purpose};
use fathom_base::shell;
use fathom_base::units::{format_duration, parse_duration_ns};
use fathom_lab::quick::{
    QuickOptions, QuickOutcome, TIME_NS_MAX, TIME_NS_MIN, check, check_settings, quick,
};
use fathom_model::record::{Record, RunKind};
use fathom_report::summary;
use fathom_sys::signals::StopFlag;
use std::fmt::Write;

/// Measures a directory and prints the answer.
pub fn run(common: &Common, output: Output, stop: &StopFlag, args: &Quick) -> CommandResult {
    let options = options(output, args)?;
    let target = args.path.display().to_string();
    let purpose = Purpose {
        kind: RunKind::Quick,
        target: &target,
        measure: &args.measure,
        destroy: Vec::new(),
        interval_ns: session::INTERVAL_NS,
    };
    let mut outcome: Option<QuickOutcome> = None;
    let measured = session::measure(common, output, stop, &purpose, &mut |lab, keep| {
        check(lab, &options)?;
        let stack = fathom_inspect::resolve(&lab.root, &options.path)?;
        // A reader that has gone shows when the result is written.
        let _ = output.text(&format!("{}\n", fathom_check::one_line(&stack)));
        let done = quick(lab, &options, keep)?;
        let records = done.records.clone();
        outcome = Some(done);
        Ok(records)
    })?;
    let Some(outcome) = outcome else { return Ok(measured.exit) };
    let mut text = String::from("\n");
    text += &table(&outcome, output.width());
    text.push('\n');
    text += &measured.findings(output);
    let report = report(common, output, args, &measured);
    let stored = measured.stored_as(|show| {
        let path = shell::path(&args.path);
        format!(
            "{report}; again: {show}\n\
             Next: fathom saturate {path}, fathom layers {path}, or a longer look: fathom quick {path} --time=10m"
        )
    });
    let _ = writeln!(text, "{stored}");
    let mut result = measured.json();
    result["knee"] = outcome.knee.into();
    finish(output, &text, &result, measured.exit)
}

/// The HTML report beside what people read, now that nothing is measured any more: where it lies, in brackets.
fn report(common: &Common, output: Output, args: &Quick, measured: &Measured) -> String {
    let is_wanted = !args.no_html && !output.json && !output.quiet && measured.prefix.is_some();
    if !is_wanted || measured.records.is_empty() || measured.exit == Exit::Interrupted {
        return String::new();
    }
    let store = session::store_path(common).map_err(|error| error.to_string());
    match store.and_then(|store| report::beside(&store, &measured.head.id)) {
        Ok(path) => format!(" (HTML: {})", shell::path(&path)),
        Err(error) => {
            output.note(&format!("No HTML report: {error}. Elsewhere: fathom report -o FILE"));
            String::new()
        }
    }
}

fn options(output: Output, args: &Quick) -> Result<QuickOptions, CommandError> {
    let usage = |text: String| CommandError::usage(output, &text);
    let time_ns = parse_duration_ns(&args.time).map_err(|e| usage(format!("--time: {e}")))?;
    if !(TIME_NS_MIN..=TIME_NS_MAX).contains(&time_ns) {
        return Err(usage(format!(
            "--time={}: quick takes from {} to {}; fathom run takes any time for one workload",
            args.time,
            format_duration(TIME_NS_MIN),
            format_duration(TIME_NS_MAX)
        )));
    }
    let settings: Vec<(String, String)> =
        args.settings.iter().map(|s| key_value(output, s)).collect::<Result<_, _>>()?;
    if let Some((key, value)) = settings.iter().find(|(key, _)| key == "time" || key == "span") {
        return Err(usage(format!("{key}={value}: it is an option: --{key}={value}")));
    }
    let options = QuickOptions {
        path: args.path.clone(),
        time_ns,
        full_span: args.span == Span::Full,
        settings,
    };
    check_settings(&options).map_err(|e| usage(e.to_string()))?;
    Ok(options)
}

/// The rows that matter, with a mark where throughput stops growing.
fn table(outcome: &QuickOutcome, width: usize) -> String {
    let shown: Vec<Record> =
        outcome.shown.iter().filter_map(|i| outcome.records.get(*i).cloned()).collect();
    let at = |row: usize| outcome.shown.iter().position(|i| *i == row);
    let last_random =
        outcome.records.iter().rposition(|record| record.label.starts_with("random read"));
    let mark = match outcome.knee {
        Some(knee) => at(knee).map(|row| (row, "where throughput stops growing")),
        None => last_random.and_then(at).map(|row| (row, "still growing")),
    };
    let remarks: Vec<(usize, &str)> = mark.into_iter().collect();
    summary::quick_table(&shown, &remarks, width)
}
