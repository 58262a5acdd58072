//! `fathom layers`.

use super::{CommandError, CommandResult, finish, key_value};
use crate::args::{Common, Layers};
use crate::exit::Exit;
use crate::output::Output;
use crate::session::{self, Got, INTERVAL_NS, Purpose, Start};
use fathom_base::units::{format_duration, format_ns, parse_duration_ns};
use fathom_lab::layers::{LayersOptions, layers};
use fathom_model::builtin;
use fathom_model::record::{Record, RunKind};
use fathom_model::workload::Workload;
use fathom_report::layers as report;
use fathom_study::layers::{LayersStudy, study};
use fathom_study::verdict::Study;
use fathom_sys::signals::StopFlag;
use std::fmt::Write;

/// Where no workload is named.
const DEFAULT: [&str; 2] = ["seqread", "randread"];
const WINDOW_NS_MIN: u64 = 10_000_000;
const WINDOW_NS_MAX: u64 = 3_600_000_000_000;

/// Measures every layer and prints what each costs.
pub fn run(common: &Common, output: Output, stop: &StopFlag, args: &Layers) -> CommandResult {
    let options = options(output, args)?;
    let purpose = Purpose {
        kind: RunKind::Layers,
        target: &args.target,
        measure: &args.measure,
        destroy: Vec::new(),
        interval_ns: INTERVAL_NS,
    };
    let measured =
        session::measure_as(common, output, stop, &purpose, &Start::New, &mut |lab, _, keep| {
            let records = layers(lab, &options, keep)?;
            let studied = study(&records);
            let study = Some(Study { findings: studied.findings, verdict: studied.verdict });
            Ok(Got { records, ending: None, exit: Exit::Done, study })
        })?;
    let studied = study(&measured.records);
    let mut text = report::text(&studied, output.width());
    let _ = writeln!(text, "{}", measured.stored_as(|show| format!(". Next: {show}")));
    let mut result = measured.json();
    result["layers"] = serde_json::to_value(&studied).unwrap_or_default();
    finish(output, &text, &result, measured.exit)
}

/// What a stored run says, with what [`super::planned::judge`] found of it.
pub fn answer(output: Output, records: &[Record], judged: &Study) -> (String, LayersStudy) {
    let mut found = study(records);
    (found.findings, found.verdict) = (judged.findings.clone(), judged.verdict);
    (report::text(&found, output.width()), found)
}

/// The key without the name of a job.
fn job_key(key: &str) -> &str {
    key.rsplit_once('.').map_or(key, |(_, name)| name)
}

fn options(output: Output, args: &Layers) -> Result<LayersOptions, CommandError> {
    let usage = |text: String| CommandError::usage(output, &text);
    let window_ns =
        parse_duration_ns(&args.time).map_err(|e| usage(format!("--time={}: {e}", args.time)))?;
    if !(WINDOW_NS_MIN..=WINDOW_NS_MAX).contains(&window_ns) {
        let (least, most) = (format_ns(WINDOW_NS_MIN), format_duration(WINDOW_NS_MAX));
        let text = format!("--time={}: one measurement takes from {least} to {most}", args.time);
        return Err(usage(text));
    }
    if !(1..=100).contains(&args.runs) {
        return Err(usage(format!("--runs={}: from 1 to 100", args.runs)));
    }
    let (names, settings): (Vec<&str>, &[String]) = match args.rest.split_first() {
        Some((name, settings)) if !name.contains('=') => (vec![name.as_str()], settings),
        _ => (DEFAULT.to_vec(), &args.rest),
    };
    let settings: Vec<(String, String)> =
        settings.iter().map(|text| key_value(output, text)).collect::<Result<_, _>>()?;
    let ends = ["duration", "operations", "amount"];
    if let Some((key, value)) = settings.iter().find(|(key, _)| ends.contains(&job_key(key))) {
        return Err(usage(format!("{key}={value}: each measurement takes --time=; leave it out")));
    }
    if args.target.starts_with("null:") {
        let text = "nothing lies below null:; name a directory, file or device";
        return Err(usage(text.into()));
    }
    let one = |name: &&str| -> Result<Workload, String> {
        let mut workload = builtin::named(name).map_err(|e| e.to_string())?;
        workload.apply(&settings).map_err(|e| e.to_string())?;
        let [job] = workload.jobs.as_mut_slice() else {
            return Err(format!(
                "'{name}' has several jobs; name a workload of one, such as randread"
            ));
        };
        job.duration_ns = Some(window_ns);
        (job.amount_bytes, job.operations) = (None, None);
        if job.write_fraction > 0.0 {
            return Err(format!(
                "'{name}' writes, and the layers below hold data in use; name a workload that only reads, such as randread"
            ));
        }
        workload.check().map_err(|e| e.to_string())?;
        Ok(workload)
    };
    let workloads = names.iter().map(one).collect::<Result<_, String>>().map_err(usage)?;
    Ok(LayersOptions {
        target: session::absolute_target(&args.target),
        workloads,
        blocks: args.runs,
    })
}
