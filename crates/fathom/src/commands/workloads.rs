//! `fathom workloads`.

use super::{CommandError, CommandResult, exercise, fsop, play};
use crate::args::Workloads;
use crate::exit::Exit;
use crate::output::Output;
use fathom_model::builtin::{self, WorkloadError};
use fathom_model::keys::KEYS;
use fathom_model::play_keys;
use fathom_model::workload::Workload;
use fathom_report::asked;
use std::fmt::Write;

/// Lists the workloads, or explains one with all keys.
pub fn run(output: Output, args: &Workloads) -> CommandResult {
    let Some(name) = &args.name else {
        let all = builtin::all();
        let played = play_keys::all();
        let names = all.iter().chain(played.iter().map(|one| &one.workload));
        let width = names.map(|w| w.name.len()).max().unwrap_or(0);
        let mut text = String::new();
        for workload in &all {
            let _ = writeln!(text, "{:width$}  {}", workload.name, workload.title);
        }
        let fsop = fathom_lab::fsop::workload();
        let _ = writeln!(text, "{:width$}  {}", fsop.name, fsop.title);
        let _ = writeln!(text, "{:width$}  {}", exercise::NAME, exercise::TITLE);
        for workload in played.iter().map(|one| &one.workload) {
            let _ = writeln!(text, "{:width$}  {}", workload.name, workload.title);
        }
        text += "\nOne in full, with all keys: fathom workloads NAME\n";
        output.text(&text)?;
        let all: Vec<_> = all.iter().chain(played.iter().map(|one| &one.workload)).collect();
        output.json("result", &serde_json::json!({ "workloads": all }))?;
        return Ok(Exit::Done);
    };
    if fsop::is_meant(name) {
        output.text(&fsop::explain())?;
        output.json("result", &fathom_lab::fsop::workload())?;
        return Ok(Exit::Done);
    }
    if name == exercise::NAME {
        output.text(&exercise::explain())?;
        output.json("result", &exercise::json())?;
        return Ok(Exit::Done);
    }
    if let Some(personality) = play::found(output, name)? {
        output.text(&play::explain(&personality))?;
        output.json("result", &personality.spec)?;
        return Ok(Exit::Done);
    }
    let workload = builtin::named(name).map_err(|_| CommandError::usage(output, &unknown(name)))?;
    output.text(&explain(&workload))?;
    output.json("result", &workload)?;
    Ok(Exit::Done)
}

/// The error of a name that none of all workloads has.
pub(super) fn unknown(name: &str) -> WorkloadError {
    let (fsop, played) = (fathom_lab::fsop::workload(), play_keys::all());
    let played = played.iter().map(|one| one.workload.name.as_str());
    let more: Vec<&str> = [fsop.name.as_str(), exercise::NAME].into_iter().chain(played).collect();
    builtin::unknown(name, &more)
}

fn explain(workload: &Workload) -> String {
    let mut text = format!("{}: {}\n{}\n", workload.name, workload.title, workload.description);
    let phases = workload.phases();
    if !phases.is_empty() {
        let _ = writeln!(text, "\nphases, one after the other: {}", phases.join(", "));
    }
    text += "\njobs:\n";
    for job in &workload.jobs {
        let _ = writeln!(text, "  {}", asked::settings(job));
    }
    text += "\nkeys (KEY=VALUE for all jobs, JOB.KEY=VALUE for one):\n";
    let width = KEYS.iter().map(|k| k.name.len()).max().unwrap_or(0);
    for key in KEYS {
        let _ = writeln!(text, "  {:width$}  {} ({})", key.name, key.help, key.values);
    }
    text
}
