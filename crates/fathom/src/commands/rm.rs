//! `fathom rm`.

use super::{CommandError, CommandResult};
use crate::args::{Common, Rm};
use crate::exit::Exit;
use crate::output::Output;
use crate::session;
use fathom_store::{Store, StoreError};
use fathom_sys::clock;

/// Removes stored runs: all that were named, or none.
pub fn run(common: &Common, output: Output, args: &Rm) -> CommandResult {
    let failed = |e: StoreError| {
        let usage = matches!(e, StoreError::NotFound { .. } | StoreError::Ambiguous { .. });
        CommandError::report_as(output, &e, if usage { Exit::Usage } else { Exit::Internal })
    };
    let path = session::store_path(common).map_err(failed)?;
    Store::open_read_only(&path).map_err(failed)?;
    let mut store = Store::open(&path, clock::unix_ns()).map_err(failed)?;
    let ids = args
        .run
        .iter()
        .map(|run| store.resolve(run))
        .collect::<Result<Vec<_>, _>>()
        .map_err(failed)?;
    for id in &ids {
        store.remove(id).map_err(failed)?;
        output.note(&format!("removed {id}"));
    }
    output.json("result", &serde_json::json!({ "removed": ids }))?;
    Ok(Exit::Done)
}
