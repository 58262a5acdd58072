//! `fathom size`.

use super::{CommandError, CommandResult, check_consent, finish, searched};
use crate::args::{Common, Size};
use crate::output::Output;
use crate::session;
use fathom_base::shell;
use fathom_base::units::{parse_fraction, parse_size};
use fathom_lab::size::{SizeOptions, check, size};
use fathom_model::record::{Record, RunKind};
use fathom_report::sizes;
use fathom_study::size::{MARGIN, settings, study};
use fathom_sys::signals::StopFlag;
use std::fmt::Write;
use std::path::Path;

/// Keys that the search sets by itself.
const OWN: [&str; 6] = ["span", "duration", "warmup", "amount", "operations", "verify"];

/// Searches and prints the answer.
pub fn run(common: &Common, output: Output, stop: &StopFlag, args: &Size) -> CommandResult {
    let options = options(output, args)?;
    let search = &args.search;
    let workload = search.rest.first().map_or("", String::as_str);
    check_consent(output, &search.any, (workload, &search.target), &search.rest)?;
    let purpose = searched::purpose(RunKind::Size, &args.search);
    let measured = session::measure(common, output, stop, &purpose, &mut |lab, keep| {
        size(lab, &options, keep)
    })?;
    let study = study(&measured.records, options.margin);
    let mut text = searched::text(
        output,
        &measured,
        study.as_ref().map(|study| sizes::text(study, output.width())),
    );
    text += &measured.stored_as(|_| ".".to_owned());
    if let Some(answer) = study.as_ref().and_then(|study| study.answer) {
        // Of what exists a part is used; a test file is made as large.
        let target = Path::new(&args.search.target);
        let key = if target.is_dir() { "size" } else { "span" };
        let (name, keys) = searched::words(&args.search.rest);
        let keys = keys.iter().filter(|s| !s.starts_with("size="));
        let keys: String = keys.map(|s| format!("{} ", shell::word(s))).collect();
        let (name, target) = (shell::word(name), shell::path(target));
        let command = format!("{name} {target} {keys}{}", settings(answer, key));
        let _ = write!(text, " Next: fathom run {command}");
    }
    text.push('\n');
    let mut result = measured.json();
    result["sizes"] = serde_json::to_value(&study).unwrap_or_default();
    finish(output, &text, &result, measured.exit)
}

/// The answer of a stored search, and its figures; its margin stands in the command only.
pub fn answer(output: Output, command: &str, records: &[Record]) -> (String, serde_json::Value) {
    let margin =
        searched::option_in(command, "--margin").and_then(|text| parse_fraction(text).ok());
    let study = study(records, margin.unwrap_or(MARGIN));
    let text = study.as_ref().map(|study| sizes::text(study, output.width()));
    (searched::answer_text(text), serde_json::to_value(&study).unwrap_or_default())
}

fn options(output: Output, args: &Size) -> Result<SizeOptions, CommandError> {
    let usage = |e: &dyn std::fmt::Display| CommandError::usage(output, e);
    let time_ns = searched::time_ns(output, &args.search.time)?;
    let margin = parse_fraction(&args.margin).map_err(|e| usage(&format!("--margin: {e}")))?;
    if margin <= 0.0 || margin > 0.5 {
        return Err(usage(&format!("--margin={}: above 0 and at most 50%", args.margin)));
    }
    let data_bytes = match &args.data {
        Some(text) => Some(parse_size(text).map_err(|e| usage(&format!("--data: {e}")))?),
        None => None,
    };
    let (target, rest) = (args.search.target.clone(), &args.search.rest);
    let workload = searched::workload(output, &target, rest, &OWN)?.workload;
    let options = SizeOptions { workload, target, time_ns, margin, data_bytes };
    check(&options).map_err(|e| usage(&e))?;
    Ok(options)
}
