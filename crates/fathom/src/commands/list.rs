//! `fathom list`.

use super::{CommandError, CommandResult, local_zone, standing};
use crate::args::{Common, List};
use crate::exit::Exit;
use crate::output::Output;
use crate::session;
use fathom_report::list::{ListRow, list_table};
use fathom_store::{Filter, RunState, RunSummary, Store, StoreError, Writer};
use fathom_sys::process;
use fathom_sys::sysroot::SysRoot;
use serde_json::Value;

/// Opens the store for reading.
pub fn open(common: &Common, output: Output) -> Result<Option<Store>, CommandError> {
    let opened = session::store_path(common).and_then(|path| Store::open_read_only(&path));
    match opened {
        Ok(store) => Ok(Some(store)),
        // A machine on which nothing has been measured yet.
        Err(StoreError::Missing { .. }) if common.db.is_none() => Ok(None),
        Err(error) => Err(CommandError::store(output, &error)),
    }
}

/// Prints the stored runs.
pub fn run(common: &Common, output: Output, args: &List) -> CommandResult {
    let filter = Filter {
        label: args.label.clone(),
        target: args
            .target
            .as_deref()
            .map(|word| standing::absolute_target(&SysRoot::live(), word)),
        since_unix_ns: None,
        limit: args.limit,
    };
    let store = open(common, output)?;
    let internal = |e: StoreError| CommandError::report_as(output, &e, Exit::Internal);
    let mut rows: Vec<(String, RunSummary, &'static str)> = Vec::new();
    if let Some(store) = &store {
        for summary in store.list(&filter).map_err(internal)? {
            let prefix = store.shortest_prefix(&summary.id).map_err(internal)?;
            let state = state(&summary);
            rows.push((prefix, summary, state));
        }
    }
    let shown: Vec<ListRow<'_>> = rows
        .iter()
        .map(|(prefix, summary, state)| ListRow {
            prefix,
            started_unix_ns: summary.started_unix_ns,
            kind: &summary.kind,
            target: &summary.target,
            label: summary.label.as_deref(),
            trials: summary.trials,
            state,
            verdict: summary.verdict.map(fathom_model::finding::Verdict::word),
        })
        .collect();
    output.text(&list_table(&shown, &local_zone(), output.width()))?;
    mention_left_changed(common, output);
    let runs: Vec<Value> = rows.iter().map(|(_, summary, state)| as_json(summary, state)).collect();
    output.json("result", &serde_json::json!({ "runs": runs }))?;
    Ok(Exit::Done)
}

/// A line about what killed experiments left changed.
fn mention_left_changed(common: &Common, output: Output) {
    let Ok(path) = session::store_path(common) else { return };
    let state_dir = path.parent().unwrap_or(std::path::Path::new("."));
    let pending = fathom_lab::restore::pending(&SysRoot::live(), state_dir).unwrap_or_default();
    let left = pending.iter().filter(|change| !change.is_running).count();
    if left > 0 {
        output.note(&format!(
            "Killed experiments left something changed (entries: {left}): fathom restore puts it back, or says what helps."
        ));
    }
}

/// Programs get the same word as people: a killed run is partial and not running.
fn as_json(summary: &RunSummary, state: &str) -> Value {
    let mut value = serde_json::to_value(summary).unwrap_or_default();
    value["state"] = Value::from(state);
    value
}

/// The word for how far a run has come.
pub fn state(summary: &RunSummary) -> &'static str {
    state_of(summary.state, &summary.writer)
}

/// The word for a state as it was stored, which depends on whether the writer is still at work.
pub fn state_of(stored: RunState, writer: &Writer) -> &'static str {
    let root = SysRoot::live();
    let is_alive = process::boot_id(&root).is_some_and(|boot| boot == writer.boot_id)
        && process::start_time_ticks(&root, writer.pid) == Some(writer.start_ticks);
    stored.word(is_alive)
}
