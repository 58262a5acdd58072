//! `fathom rm`.

use super::list::state;
use super::{CommandError, CommandResult};
use crate::args::{Common, Rm};
use crate::exit::Exit;
use crate::output::Output;
use crate::session;
use fathom_store::{Filter, RunSummary, Store, StoreError};
use fathom_sys::clock;

/// Removes stored runs: all that were named, or none.
pub fn run(common: &Common, output: Output, args: &Rm) -> CommandResult {
    let failed = |e: StoreError| CommandError::store(output, &e);
    let path = session::store_path(common).map_err(failed)?;
    Store::open_read_only(&path).map_err(failed)?;
    let mut store = Store::open(&path, clock::unix_ns()).map_err(failed)?;
    let ids = args
        .run
        .iter()
        .map(|run| store.resolve(run))
        .collect::<Result<Vec<_>, _>>()
        .map_err(failed)?;
    // Its figures would be lost, and the process that makes it would fail when it stores them.
    let all = store.list(&Filter::default()).map_err(failed)?;
    let is_live = |run: &&RunSummary| ids.contains(&run.id) && state(run) == "running";
    if let Some(run) = all.iter().find(is_live) {
        let text = format!(
            "run {} is still being made, by process {}; wait for its end, or end it: kill -INT {}",
            run.id, run.writer.pid, run.writer.pid
        );
        return Err(CommandError::report_as(output, &text, Exit::Refused));
    }
    for id in &ids {
        store.remove(id).map_err(failed)?;
        output.note(&format!("removed {id}"));
    }
    output.json("result", &serde_json::json!({ "removed": ids }))?;
    Ok(Exit::Done)
}
