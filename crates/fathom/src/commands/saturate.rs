//! `fathom saturate`.

use super::{CommandError, CommandResult, check_consent, finish, searched};
use crate::args::{Common, Saturate};
use crate::output::Output;
use crate::session;
use fathom_lab::saturate::{SaturateOptions, check, saturate};
use fathom_model::record::{Record, RunKind};
use fathom_model::workload::Arrivals;
use fathom_report::saturation;
use fathom_study::saturate::bound::Bound;
use fathom_study::saturate::study;
use fathom_sys::signals::StopFlag;
use std::fmt::Write;

/// Keys that the search sets by itself.
const OWN: [&str; 7] = ["depth", "rate", "duration", "warmup", "amount", "operations", "verify"];

/// Searches and prints the answer.
pub fn run(common: &Common, output: Output, stop: &StopFlag, args: &Saturate) -> CommandResult {
    let options = options(output, args)?;
    let search = &args.search;
    let workload = search.rest.first().map_or("", String::as_str);
    check_consent(output, &search.any, (workload, &search.target), &search.rest)?;
    let purpose = searched::purpose(RunKind::Saturate, &args.search);
    let measured = session::measure(common, output, stop, &purpose, &mut |lab, keep| {
        saturate(lab, &options, keep)
    })?;
    let study = study(&measured.records, options.bound.as_ref());
    let mut text = searched::text(
        output,
        &measured,
        study.as_ref().map(|study| saturation::text(study, output.width())),
    );
    let in_full = |show: &str| format!("; every run in full: {show}");
    let _ = writeln!(text, "{}", measured.stored_as(in_full));
    let mut result = measured.json();
    result["saturation"] = serde_json::to_value(&study).unwrap_or_default();
    finish(output, &text, &result, measured.exit)
}

/// The answer of a stored search, and its figures; its bound stands in the command only.
pub fn answer(output: Output, command: &str, records: &[Record]) -> (String, serde_json::Value) {
    let bound = searched::option_in(command, "--bound").and_then(|text| text.parse().ok());
    let study = study(records, bound.as_ref());
    let text = study.as_ref().map(|study| saturation::text(study, output.width()));
    (searched::answer_text(text), serde_json::to_value(&study).unwrap_or_default())
}

fn options(output: Output, args: &Saturate) -> Result<SaturateOptions, CommandError> {
    let usage = |e: &dyn std::fmt::Display| CommandError::usage(output, e);
    let time_ns = searched::time_ns(output, &args.search.time)?;
    let bound: Option<Bound> = match &args.bound {
        Some(text) => Some(text.parse().map_err(|e| usage(&format!("--bound: {e}")))?),
        None => None,
    };
    let (target, rest) = (args.search.target.clone(), &args.search.rest);
    let arrivals = rest.iter().find_map(|s| s.strip_prefix("arrivals="));
    let rest: Vec<String> = rest.iter().filter(|s| !s.starts_with("arrivals=")).cloned().collect();
    let asked = searched::workload(output, &target, &rest, &OWN)?;
    let threads =
        asked.settings.iter().any(|(key, _)| key == "threads" || key.ends_with(".threads"));
    let threads_max = asked.workload.jobs.first().filter(|_| threads).map(|job| job.threads);
    let options = SaturateOptions {
        arrivals: arrivals_of(output, arrivals)?,
        target,
        workload: asked.workload,
        threads_max,
        time_ns,
        bound,
    };
    check(&options).map_err(|e| usage(&e))?;
    Ok(options)
}

/// Clients that know nothing of each other do not come at equal distances.
fn arrivals_of(output: Output, text: Option<&str>) -> Result<Arrivals, CommandError> {
    let Some(text) = text else { return Ok(Arrivals::Poisson) };
    let known = [Arrivals::Even, Arrivals::Poisson].into_iter().find(|a| a.word() == text);
    known.ok_or_else(|| CommandError::usage(output, &format!("arrivals={text}: even or poisson")))
}
