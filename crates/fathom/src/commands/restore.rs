//! `fathom restore`.

use super::{CommandError, CommandResult};
use crate::args::{Common, Restore};
use crate::exit::Exit;
use crate::output::Output;
use crate::session;
use fathom_guard::MeasuringLock;
use fathom_lab::restore::{self, Outcome, Report};
use fathom_sys::program_marks;
use fathom_sys::sysroot::SysRoot;
use std::path::Path;

/// Puts back what killed experiments left changed, or says what that is.
pub fn run(common: &Common, output: Output, args: &Restore) -> CommandResult {
    let root = SysRoot::live();
    let path = session::store_path(common)
        .map_err(|error| CommandError::report_as(output, &error, Exit::Internal))?;
    let state_dir = path.parent().unwrap_or(Path::new(".")).to_owned();
    if args.list {
        return list(output, &root, &state_dir);
    }
    let _lock = MeasuringLock::acquire(&root)
        .map_err(|error| CommandError::report_as(output, &error, Exit::of_lock(&error)))?;
    let ended = session::end_programs_of_the_dead(&root, output);
    session::tell_of_the_gone(&root, &state_dir, output);
    let reports = session::restore_left_behind(&root, &state_dir, args.force, output);
    session::forget_the_removed(&root, &state_dir, output);
    let mut text: String = reports.iter().map(|report| format!("{report}\n")).collect();
    let summary = restore::summary(&reports);
    text += &format!("{}{}.\n", summary[..1].to_uppercase(), &summary[1..]);
    output.text(&text)?;
    let exit = exit_of(&reports);
    let lines: Vec<String> = reports.iter().map(ToString::to_string).collect();
    let result = serde_json::json!({ "reports": lines, "ended": ended, "exit_code": exit.code() });
    output.json("result", &result)?;
    Ok(exit)
}

/// What is still to be put back.
fn list(output: Output, root: &SysRoot, state_dir: &Path) -> CommandResult {
    let pending = restore::pending(root, state_dir)
        .map_err(|error| CommandError::report_as(output, &error, Exit::Internal))?;
    let mut text = String::new();
    for change in &pending {
        let state = if change.is_running { "its run goes on" } else { "left behind" };
        text += &format!("{}  run {}, {state}\n", change.what, change.run_id);
    }
    let left: Vec<String> =
        program_marks::left_by_the_dead(root).iter().map(ToString::to_string).collect();
    left.iter().for_each(|left| text += &format!("still runs: {left}\n"));
    if pending.is_empty() && left.is_empty() {
        text += "Nothing is left changed.\n";
    }
    output.text(&text)?;
    let lines: Vec<serde_json::Value> = pending
        .iter()
        .map(|c| serde_json::json!({ "run": c.run_id, "what": c.what, "is_running": c.is_running }))
        .collect();
    output.json("result", &serde_json::json!({ "pending": lines, "programs": left }))?;
    Ok(Exit::Done)
}

/// What somebody else has changed since is refused, for it is theirs, and what one may still be changing who cannot be seen; what is away is missing; what cannot be put back is an error of the
/// system.
fn exit_of(reports: &[Report]) -> Exit {
    let of = |report: &Report| match report.outcome {
        Outcome::Failed(_) => Exit::TargetIo,
        Outcome::ChangedBySomebody(_) | Outcome::Elsewhere(_) | Outcome::NotHere(_) => {
            Exit::Refused
        }
        Outcome::Away(_) => Exit::Missing,
        _ => Exit::Done,
    };
    reports.iter().map(of).fold(Exit::Done, Exit::max)
}
