//! What `saturate` and `size` take in the same way: a target, a workload of one job with settings, a time.

use super::run::{check_null_effects, check_null_targets, load, name_null_targets};
use super::{CommandError, key_value};
use crate::args::Search;
use crate::output::Output;
use crate::session::{self, Measured, Purpose};
pub use fathom_base::shell::option_in;
use fathom_base::units::{format_duration, parse_duration_ns};
use fathom_lab::saturate::{TIME_NS_MAX, TIME_NS_MIN};
use fathom_model::builtin::WorkloadFile;
use fathom_model::record::RunKind;
use fathom_model::workload::Workload;

/// A workload and the settings that were given for it.
pub struct Asked {
    /// With the settings applied and checked.
    pub workload: Workload,
    /// As given.
    pub settings: Vec<(String, String)>,
}

/// Where no workload is named.
const DEFAULT: &str = "randread";

/// What a search measures, for the head of its run.
pub fn purpose(kind: RunKind, args: &Search) -> Purpose<'_> {
    Purpose {
        kind,
        target: &args.target,
        measure: &args.any.measure,
        destroy: args.any.destroy.clone(),
        interval_ns: session::INTERVAL_NS,
    }
}

/// The text of a search as far as all share it: its answer and the findings.
pub fn text(output: Output, measured: &Measured, answer: Option<String>) -> String {
    format!("\n{}{}", answer_text(answer), measured.findings(output))
}

/// An answer with an empty line below; nothing where too little was measured for one.
pub fn answer_text(answer: Option<String>) -> String {
    answer.map_or_else(String::new, |text| text + "\n")
}

/// The workload, also where none is named, and the words of its settings.
pub fn words(rest: &[String]) -> (&str, &[String]) {
    match rest.split_first() {
        Some((name, settings)) if !name.contains('=') => (name, settings),
        _ => (DEFAULT, rest),
    }
}

/// The workload and its settings; `own` are the keys that the search sets by itself.
pub fn workload(
    output: Output,
    target: &str,
    rest: &[String],
    own: &[&str],
) -> Result<Asked, CommandError> {
    let usage = |e: &dyn std::fmt::Display| CommandError::usage(output, e);
    let (name, settings) = words(rest);
    let settings: Vec<(String, String)> =
        settings.iter().map(|s| key_value(output, s)).collect::<Result<_, _>>()?;
    let name_of = |key: &str| key.rsplit_once('.').map_or(key, |(_, name)| name).to_owned();
    if let Some((key, value)) =
        settings.iter().find(|(key, _)| own.contains(&name_of(key).as_str()))
    {
        return Err(usage(&format!("{key}={value}: the search sets this by itself; leave it out")));
    }
    let found = load(name, ToString::to_string).map_err(|e| usage(&e))?;
    let WorkloadFile { mut workload, settings: of_file } = found;
    workload.apply(&settings).map_err(|e| usage(&e))?;
    for of in [&settings, &of_file] {
        check_null_targets(&workload, of, target).map_err(|e| usage(&e))?;
    }
    check_null_effects(&workload, &settings, target).map_err(|e| usage(&e))?;
    name_null_targets(&mut workload, target);
    for job in &mut workload.jobs {
        (job.amount_bytes, job.operations) = (None, None);
        job.duration_ns.get_or_insert(TIME_NS_MIN);
        // The workload's own depth is not what will be in flight, and some engines refuse it.
        if own.contains(&"depth") {
            job.depth = job.batch;
        }
    }
    workload.check().map_err(|e| usage(&e))?;
    Ok(Asked { workload, settings })
}

/// `--time`.
pub fn time_ns(output: Output, text: &str) -> Result<u64, CommandError> {
    let usage = |reason: String| CommandError::usage(output, &format!("--time={text}: {reason}"));
    let time_ns = parse_duration_ns(text).map_err(|e| usage(e.to_string()))?;
    if (TIME_NS_MIN..=TIME_NS_MAX).contains(&time_ns) {
        return Ok(time_ns);
    }
    let (least, most) = (format_duration(TIME_NS_MIN), format_duration(TIME_NS_MAX));
    Err(usage(format!("a search takes from {least} to {most}")))
}
