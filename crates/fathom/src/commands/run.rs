//! `fathom run`.

use super::{CommandError, CommandResult, key_value, local_zone, written};
use crate::args::{Common, Run, Style};
use crate::exit::Exit;
use crate::output::Output;
use crate::session::{self, Purpose};
use fathom_base::units::{format_ns, parse_duration_ns};
use fathom_lab::run::{RunOptions, run as run_workload};
use fathom_model::builtin;
use fathom_model::record::{Record, RunKind};
use fathom_model::workload::Workload;
use fathom_report::{classic, detail, findings, summary};
use fathom_sys::signals::StopFlag;
use std::fmt::Write;
use std::path::Path;

/// Runs a workload and prints what came out.
pub fn run(common: &Common, output: Output, stop: &StopFlag, args: &Run) -> CommandResult {
    let workload = workload(output, args)?;
    if args.repeats == 0 {
        return Err(CommandError::report_as(output, &"--repeats=0: at least 1", Exit::Usage));
    }
    let options = RunOptions { workload, target: args.target.clone(), repeats: args.repeats };
    let purpose = Purpose {
        kind: RunKind::Run,
        target: &args.target,
        measure: &args.measure,
        destroy: args.destroy.clone(),
        interval_ns: interval(output, &args.interval)?,
    };
    let measured = session::measure(common, output, stop, &purpose, &mut |lab, keep| {
        run_workload(lab, &options, keep)
    })?;
    let mut text = records_text(output, &measured.records, args.style)?;
    text += &findings::findings_text(&measured.study.findings, measured.study.verdict);
    let _ = writeln!(
        text,
        "Whole command {}, of it measured {}. Stored as {p}; all of it again: fathom show {p}",
        format_ns(measured.took_ns),
        format_ns(measured.records.iter().map(|r| r.window_ns).sum()),
        p = measured.prefix
    );
    let shown = output.text(&text).and_then(|()| output.json("result", &measured.json()));
    written(shown, measured.exit)
}

/// Records in the form that was asked for.
pub fn records_text(
    output: Output,
    records: &[Record],
    style: Style,
) -> Result<String, CommandError> {
    let mut text = String::new();
    for record in records {
        match style {
            Style::Fathom => text += &detail::run_detail(record, &local_zone()),
            Style::Classic => {
                let Some(lines) = classic::classic(record) else {
                    let message = format!(
                        "workload '{}' has no classic form; randomio, seeker, seqread and seqwrite have",
                        record.workload.name
                    );
                    return Err(CommandError::report_as(output, &message, Exit::Usage));
                };
                text += &lines;
            }
        }
        text.push('\n');
    }
    if records.len() > 1 && style == Style::Fathom {
        text += &summary::run_table(records);
        text.push('\n');
    }
    Ok(text)
}

fn interval(output: Output, text: &str) -> Result<u64, CommandError> {
    let usage = |reason: String| {
        CommandError::report_as(output, &format!("--interval={text}: {reason}"), Exit::Usage)
    };
    let interval_ns = parse_duration_ns(text).map_err(|e| usage(e.to_string()))?;
    if (10_000_000..=60_000_000_000).contains(&interval_ns) {
        Ok(interval_ns)
    } else {
        Err(usage("from 10ms to 1m".into()))
    }
}

fn workload(output: Output, args: &Run) -> Result<Workload, CommandError> {
    let usage =
        |e: &dyn std::fmt::Display| CommandError::report_as(output, &e.to_string(), Exit::Usage);
    let mut workload = if Path::new(&args.workload).extension().is_some_and(|e| e == "toml") {
        let text = std::fs::read_to_string(&args.workload)
            .map_err(|e| usage(&format!("workload file '{}': {e}", args.workload)))?;
        builtin::parse(&args.workload, &text).map_err(|e| usage(&e))?
    } else {
        builtin::named(&args.workload).map_err(|e| usage(&e))?
    };
    if args.style == Style::Classic && workload.classic.is_none() {
        return Err(usage(&format!(
            "workload '{}' has no classic form; randomio, seeker, seqread and seqwrite have",
            workload.name
        )));
    }
    for setting in &args.settings {
        let (key, value) = key_value(output, setting)?;
        workload.set(&key, &value).map_err(|e| usage(&e))?;
    }
    workload.check().map_err(|e| usage(&e))?;
    Ok(workload)
}
