//! `fathom show`.

use super::list::{open, state_of};
use super::planned::{self, Answer};
use super::run::{records_text, rounds_text};
use super::{CommandError, CommandResult, against, saturate, size};
use crate::args::{Common, Show};
use crate::exit::Exit;
use crate::output::Output;
use fathom_model::record::RunKind;
use fathom_report::findings::findings_text;
use fathom_store::{RunState, StoreError, StoredRun};
use fathom_study::{repeats, rounds, verdict};
use std::fmt::Write;

/// Prints one stored run in full. The verdict is made anew from the records.
pub fn run(common: &Common, output: Output, args: &Show) -> CommandResult {
    let Some(store) = open(common, output)? else {
        return Err(CommandError::nothing_stored(output));
    };
    let failed = |e: StoreError| CommandError::store(output, &e);
    let id = store.resolve(&args.run).map_err(failed)?;
    let stored = store.load(&id).map_err(failed)?;
    let is_whole = stored.state != RunState::Running;
    let state = state_of(stored.state, &stored.writer);
    let unfinished = (!is_whole).then_some(state);
    let head = &stored.head;
    let planned = planned::answer(output, &store, head, &stored.records, unfinished)?;
    let study = match &planned {
        Some(planned) => planned.study.clone(),
        None => verdict::judge_stored(head.kind, &stored.records, unfinished),
    };
    let mut text = beginning(&stored, state);
    text.push('\n');
    let rounds = (head.kind == RunKind::Rounds).then(|| rounds::study(&stored.records));
    let repeats = repeats::of_run(head.kind, &stored.records);
    // What a search or rounds came to stands before the runs that it is made of.
    let against =
        (head.kind == RunKind::Against).then(|| against::answer(output, head, &stored.records));
    text += against.as_ref().map_or("", |(answer, _)| answer.as_str());
    let found = match head.kind {
        RunKind::Saturate => {
            Some(("saturation", saturate::answer(output, &head.command, &stored.records)))
        }
        RunKind::Size => Some(("sizes", size::answer(output, &head.command, &stored.records))),
        _ => None,
    };
    text += found.as_ref().map_or("", |(_, (answer, _))| answer.as_str());
    text += &rounds.as_ref().map_or_else(String::new, |rounds| rounds_text(output, rounds));
    match &planned {
        // Of an experiment its trials one by one say little.
        Some(planned) => text += &planned.text,
        None => {
            text += &records_text(output, &stored.records, &repeats, args.style)?;
            text += &findings_text(&study.findings, study.verdict, output.width());
        }
    }
    output.text(&text)?;
    let mut result = serde_json::json!({
        "head": head,
        "state": state,
        "verdict": study.verdict,
        "findings": study.findings,
        "records": stored.records,
    });
    if !repeats.is_empty() {
        result["repeats"] = serde_json::to_value(&repeats).unwrap_or_default();
    }
    if let Some(rounds) = &rounds {
        result["rounds"] = serde_json::to_value(rounds).unwrap_or_default();
    }
    if let Some((_, comparison)) = &against {
        result["comparison"] = serde_json::to_value(comparison).unwrap_or_default();
    }
    if let Some((name, (_, figures))) = found {
        result[name] = figures;
    }
    for (name, value) in planned.into_iter().flat_map(|Answer { json, .. }| json) {
        result[name] = value;
    }
    output.json("result", &result)?;
    Ok(Exit::Done)
}

/// What was run, when and where it lies, and the layers below it.
fn beginning(stored: &StoredRun, state: &str) -> String {
    let mut text = String::new();
    let head = &stored.head;
    let label = head.label.as_ref().map_or_else(String::new, |l| format!(" ({l})"));
    let unfinished =
        if stored.state == RunState::Running { format!(" [{state}]") } else { String::new() };
    let _ = writeln!(text, "run {}{label}{unfinished}: {}", head.id, head.command);
    let unknown = || "unknown".to_owned();
    let _ = writeln!(
        text,
        "on {}, {}, {}, fathom {}",
        head.host.machine.clone().or(head.host.virtualisation.clone()).unwrap_or_else(unknown),
        head.host.distribution.clone().unwrap_or_else(unknown),
        head.host.kernel.clone().unwrap_or_else(unknown),
        head.fathom_version
    );
    if let Some(target) = stored.records.first().and_then(|r| r.targets.first()) {
        let lines = fathom_check::tree(&target.stack);
        lines.iter().for_each(|line| text += &format!("  {line}\n"));
    }
    text
}
