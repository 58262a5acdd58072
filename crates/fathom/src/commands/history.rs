//! `fathom history`.

use super::list::open;
use super::{CommandError, CommandResult, local_zone, standing};
use crate::args::{Common, History};
use crate::exit::Exit;
use crate::output::Output;
use fathom_base::units::parse_fraction;
use fathom_model::record::RunKind;
use fathom_report::history::history_text;
use fathom_store::{Filter, RunState, Store, StoreError};
use fathom_study::compare::Run;
use fathom_study::history::{Series, history};
use fathom_study::rounds;
use fathom_sys::sysroot::SysRoot;
use std::collections::BTreeSet;

/// What is shown of runs: they themselves, or they without what identifies.
pub(super) type MadeOf<'a> = dyn FnMut(Vec<Run>) -> Result<Vec<Run>, CommandError> + 'a;

/// Prints the results of one target over time.
pub fn run(common: &Common, output: Output, args: &History) -> CommandResult {
    let (store, _, found) = series(common, output, args, &mut Ok)?;
    let prefix = |id: &str| store.shortest_prefix(id).unwrap_or_else(|_| id.to_owned());
    output.text(&history_text(&found, &local_zone(), &prefix, output.width()))?;
    output.json("result", &serde_json::json!({ "series": found }))?;
    Ok(Exit::Done)
}

/// The finished runs of one target and they as rows over time, and the store that they are in. `made_of` makes of each of them what is shown.
pub(super) fn series(
    common: &Common,
    output: Output,
    args: &History,
    made_of: &mut MadeOf<'_>,
) -> Result<(Store, Vec<Run>, Vec<Series>), CommandError> {
    let usage = |text: String| CommandError::usage(output, &text);
    let step = parse_fraction(&args.step)
        .ok()
        .filter(|step| (0.001..1.0).contains(step))
        .ok_or_else(|| usage(format!("--step={}: from 0.1% to below 100%", args.step)))?;
    let nothing = || {
        let label = args.label.as_ref();
        let label = label.map_or_else(String::new, |label| format!(" with the label '{label}'"));
        usage(format!("no finished run on '{}'{label}; all runs: fathom list", args.target))
    };
    let Some(store) = open(common, output)? else { return Err(nothing()) };
    let failed = |e: StoreError| CommandError::report_as(output, &e, Exit::Internal);
    let filter = Filter {
        label: args.label.clone(),
        target: Some(standing::absolute_target(&SysRoot::live(), &args.target)),
        ..Filter::default()
    };
    let mut runs = Vec::new();
    let mut labels = BTreeSet::new();
    for summary in store.list(&filter).map_err(failed)? {
        if summary.state != RunState::Complete {
            continue;
        }
        let stored = store.load(&summary.id).map_err(failed)?;
        let mut records = rounds::answering(stored.head.kind, stored.records);
        if let Some(row) = &args.row {
            labels.extend(records.iter().map(|record| record.label.clone()));
            records.retain(|record| record.label.starts_with(row.as_str()));
        }
        runs.push(Run { head: stored.head, records, unfinished: None });
    }
    if runs.iter().all(|run| run.records.is_empty()) {
        return Err(match &args.row {
            Some(row) if !labels.is_empty() => {
                let text = format!("--row={row}: no row on '{}' begins so", args.target);
                usage(format!("{text}; there are: {}", some_of(&labels)))
            }
            _ => nothing(),
        });
    }
    let runs = made_of(runs)?;
    let found = history(&runs, 100.0 * step);
    let is_observed =
        |run: &Run| matches!(run.head.kind, RunKind::Watch | RunKind::Capture | RunKind::Replay);
    if found.is_empty() && runs.iter().all(is_observed) {
        let text = "only watches, captures and replays, which are not followed over time; fathom compare A B sets two beside each other";
        return Err(usage(format!("on '{}' there are {text}", args.target)));
    }
    if found.is_empty() {
        let text = "are void or have no figure to follow (too few requests for a percentile)";
        return Err(usage(format!("all runs on '{}' {text}; see: fathom list", args.target)));
    }
    Ok((store, runs, found))
}

/// The first few names of rows, for who asked for one that does not exist.
pub fn some_of(labels: &BTreeSet<String>) -> String {
    const NAMED: usize = 6;
    let named: Vec<&str> = labels.iter().take(NAMED).map(String::as_str).collect();
    let more = if labels.len() > NAMED { ", ..." } else { "" };
    format!("{}{more}", named.join(", "))
}
