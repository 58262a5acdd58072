//! `fathom show`.

use super::list::open;
use super::run::records_text;
use super::{CommandError, CommandResult};
use crate::args::{Common, Show};
use crate::exit::Exit;
use crate::output::Output;
use fathom_report::findings;
use fathom_store::StoreError;
use fathom_study::verdict;
use std::fmt::Write;

/// Prints one stored run in full. The verdict is made anew from the records.
pub fn run(common: &Common, output: Output, args: &Show) -> CommandResult {
    let Some(store) = open(common, output)? else {
        let text = "nothing has been stored yet; start with: fathom quick";
        return Err(CommandError::report_as(output, &text, Exit::Usage));
    };
    let failed = |e: StoreError| {
        let usage = matches!(e, StoreError::NotFound { .. } | StoreError::Ambiguous { .. });
        CommandError::report_as(output, &e, if usage { Exit::Usage } else { Exit::Internal })
    };
    let id = store.resolve(&args.run).map_err(failed)?;
    let stored = store.load(&id).map_err(failed)?;
    let study = verdict::judge(&stored.records);
    let head = &stored.head;
    let mut text = String::new();
    let label = head.label.as_ref().map_or_else(String::new, |l| format!(" ({l})"));
    let _ = writeln!(text, "run {}{label}: {}", head.id, head.command);
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
        let lines = fathom_inspect::tree(&target.stack);
        lines.iter().for_each(|line| text += &format!("  {line}\n"));
    }
    text.push('\n');
    text += &records_text(output, &stored.records, args.style)?;
    text += &findings::findings_text(&study.findings, study.verdict);
    output.text(&text)?;
    output.json(
        "result",
        &serde_json::json!({
            "head": head,
            "state": stored.state,
            "verdict": study.verdict,
            "findings": study.findings,
            "records": stored.records,
        }),
    )?;
    Ok(Exit::Done)
}
