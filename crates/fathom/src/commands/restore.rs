//! `fathom restore`.

use super::{CommandError, CommandResult};
use crate::args::{Common, Restore};
use crate::exit::Exit;
use crate::output::Output;
use crate::session::{self, PutInOrder};
use fathom_guard::{LockError, MeasuringLock, leftovers};
use fathom_lab::restore::{self, ChangedSetting, Outcome, Report};
use fathom_sys::process;
use fathom_sys::program_marks;
use fathom_sys::signals::StopFlag;
use fathom_sys::sysroot::SysRoot;
use fathom_sys::tracing::left as traces;
use std::fmt::Write;
use std::path::Path;

/// Puts back what killed experiments left changed, or says what that is.
pub fn run(common: &Common, output: Output, stop: &StopFlag, args: &Restore) -> CommandResult {
    let root = SysRoot::live();
    let path = session::store_path(common)
        .map_err(|error| CommandError::report_as(output, &error, Exit::Internal))?;
    let state_dir = path.parent().unwrap_or(Path::new(".")).to_owned();
    let missing = session::no_directory(common, &state_dir);
    if args.list {
        return list(output, &root, &state_dir, missing);
    }
    // No measurement uses these: nobody who measures is waited for.
    let (ended, still, ended_count) = session::end_programs_of_the_dead(&root, output);
    let (traces_removed, traces_still) = session::remove_traces_of_the_dead(&root, output);
    let was_there = [&ended, &still, &traces_removed, &traces_still].iter().any(|l| !l.is_empty());
    let lock = MeasuringLock::acquire(&root);
    let done = match &lock {
        Ok(_) => put_in_order(&root, &state_dir, args.force, output, stop),
        Err(LockError::Held { .. }) if was_there && has_no_more(&root, &state_dir) => {
            PutInOrder::default()
        }
        Err(error) => {
            return Err(CommandError::report_as(output, error, Exit::of_lock(error)));
        }
    };
    let has_done = was_there || !done.changes.is_empty() || !done.files.is_empty();
    if let Some(why) = missing.filter(|_| !has_done) {
        return Err(CommandError::usage(output, &why));
    }
    let mut text: String = done.changes.iter().map(|report| format!("{report}\n")).collect();
    let summary = restore::summary(&done.changes);
    let hidden = hidden(&root, &state_dir);
    text += &if exit_of(&done) == Exit::Internal {
        format!("Not all that is noted could be read; of the rest {summary}.\n")
    } else {
        format!("{}{}.\n", summary[..1].to_uppercase(), &summary[1..])
    };
    let left = [
        (ended_count, "programs that killed commands"),
        (traces_removed.len(), "trace instances that commands"),
    ];
    for (count, what) in left.into_iter().filter(|(count, _)| *count > 0) {
        let _ = writeln!(text, "Of {what} had left, {count} went.");
    }
    text += &files_text(&done.files);
    if !still.is_empty() {
        text += "Programs still run; what helps is said above.\n";
    }
    if !traces_still.is_empty() {
        text += "Trace instances are still there; what helps is said above.\n";
    }
    text += &hidden_text(&hidden);
    output.text(&text)?;
    let is_all = still.is_empty() && traces_still.is_empty();
    let of_programs = if is_all { Exit::Done } else { Exit::TargetIo };
    let of_stop = if stop.is_set() { Exit::Interrupted } else { Exit::Done };
    let exit = exit_of(&done).max(of_programs).max(of_stop);
    let lines: Vec<String> = done.changes.iter().map(ToString::to_string).collect();
    let change = |r: &Report| serde_json::json!({ "run": r.run_id, "what": r.what, "outcome": r.outcome.word() });
    let changes: Vec<serde_json::Value> = done.changes.iter().map(change).collect();
    let files: Vec<String> = done.files.iter().map(ToString::to_string).collect();
    let result = serde_json::json!({
        "reports": lines, "changes": changes, "files": files, "ended": ended, "programs": still,
        "traces_removed": traces_removed, "traces": traces_still, "not_looked_at": hidden, "exit_code": exit.code()
    });
    output.json("result", &result)?;
    Ok(exit)
}

/// What this user cannot look at, where something may be left.
fn hidden(root: &SysRoot, state_dir: &Path) -> Vec<String> {
    let mut all = Vec::new();
    if !process::is_root() {
        let of_root = fathom_store::default_path(None, true, None, None).ok();
        let dir = of_root.as_deref().and_then(Path::parent);
        let noted = dir.filter(|dir| *dir != state_dir && dir.exists());
        all.extend(
            noted.map(|dir| format!("what root's commands have noted in {}", dir.display())),
        );
        all.push("programs that other users' commands have started".to_owned());
    }
    if traces::are_hidden(root) {
        all.push("trace instances".to_owned());
    }
    all
}

/// Whether test files are left.
fn files_text(files: &[leftovers::Report]) -> String {
    match files.iter().filter(|report| exit_of_file(report) != Exit::Done).count() {
        0 => String::new(),
        1 => "A test file or directory is left; what helps is said above.\n".to_owned(),
        left => format!("{left} test files or directories are left; what helps is said above.\n"),
    }
}

fn hidden_text(hidden: &[String]) -> String {
    match hidden {
        [] => String::new(),
        hidden => format!(
            "Not looked at, for want of rights: {}; as root, and outside of containers: fathom restore\n",
            hidden.join(", ")
        ),
    }
}

/// What only one may do at a time.
fn put_in_order(
    root: &SysRoot,
    state_dir: &Path,
    force: bool,
    output: Output,
    stop: &StopFlag,
) -> PutInOrder {
    session::tell_of_the_gone(root, state_dir, output);
    let done = session::restore_left_behind(root, state_dir, force, output, stop);
    session::forget_the_removed(root, state_dir, output);
    done
}

/// No run has left a setting or a file, but for what one that goes on has changed.
fn has_no_more(root: &SysRoot, state_dir: &Path) -> bool {
    let changes = restore::pending(root, state_dir);
    let files = leftovers::pending(root, state_dir);
    changes.is_ok_and(|all| all.iter().all(|change| change.is_running))
        && files.is_ok_and(|(left, unknown)| left.is_empty() && unknown.is_empty())
}

/// What is still to be put back; of what is noted in a directory that is not there nobody knows.
fn list(
    output: Output,
    root: &SysRoot,
    state_dir: &Path,
    missing: Option<String>,
) -> CommandResult {
    let pending = restore::pending(root, state_dir)
        .map_err(|error| CommandError::report_as(output, &error, Exit::Internal))?;
    let mut text = String::new();
    for change in &pending {
        let state = if change.is_running { "its run goes on" } else { "left behind" };
        text += &format!("{}  run {}, {state}\n", change.what, change.run_id);
        change.settings.iter().for_each(|setting| text += &setting_text(setting));
    }
    let left: Vec<String> =
        program_marks::left_by_the_dead(root).iter().map(ToString::to_string).collect();
    left.iter().for_each(|left| text += &format!("still runs: {left}\n"));
    let (files, unknown) = leftovers::pending(root, state_dir)
        .map_err(|error| CommandError::report_as(output, &error, Exit::Internal))?;
    let files: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    files.iter().for_each(|path| text += &format!("{path}  test files, left behind\n"));
    let exit = unknown.iter().map(exit_of_file).fold(Exit::Done, Exit::max);
    let unknown: Vec<String> = unknown.iter().map(ToString::to_string).collect();
    unknown.iter().for_each(|entry| text += &format!("{entry}\n"));
    let traces: Vec<String> =
        traces::left_by_the_dead(root).iter().map(ToString::to_string).collect();
    traces.iter().for_each(|left| text += &format!("still there: {left}\n"));
    if [left.len(), traces.len(), files.len() + unknown.len(), pending.len()] == [0; 4] {
        if let Some(why) = missing {
            return Err(CommandError::usage(output, &why));
        }
        text += "Nothing is left changed.\n";
    }
    let hidden = hidden(root, state_dir);
    text += &hidden_text(&hidden);
    output.text(&text)?;
    let lines: Vec<serde_json::Value> = pending
        .iter()
        .map(|c| {
            let one = |s: &ChangedSetting| serde_json::json!({ "knob": s.knob, "before": s.before, "now": s.now, "is_own": s.is_own });
            let settings: Vec<serde_json::Value> = c.settings.iter().map(one).collect();
            serde_json::json!({ "run": c.run_id, "what": c.what, "is_running": c.is_running, "settings": settings })
        })
        .collect();
    let result = serde_json::json!({
        "pending": lines, "programs": left, "traces": traces, "files": files, "unknown": unknown, "not_looked_at": hidden,
        "exit_code": exit.code()
    });
    output.json("result", &result)?;
    Ok(exit)
}

/// One setting as it is now and was.
fn setting_text(setting: &ChangedSetting) -> String {
    let ChangedSetting { knob, before, now, is_own } = setting;
    match now {
        Some(now) => format!("    {knob}: {now} now, before {before}\n"),
        None if *is_own => {
            format!(
                "    {knob}: before {before}; its own command, which says what it is now, is not run for this list\n"
            )
        }
        None => format!("    {knob}: not to be read here now, before {before}\n"),
    }
}

/// The most serious of all that was done.
fn exit_of(done: &PutInOrder) -> Exit {
    let changes = done.changes.iter().map(exit_of_change);
    let unread = done.files_unread.iter().map(|_| Exit::Internal);
    changes.chain(done.files.iter().map(exit_of_file)).chain(unread).fold(Exit::Done, Exit::max)
}

/// What somebody else has changed since is refused, for it is theirs, and what one may still be changing who cannot be seen; what is away
/// is missing; what cannot be put back is an error of the system.
fn exit_of_change(report: &Report) -> Exit {
    match report.outcome {
        Outcome::Failed(_) | Outcome::Unnoted(_) => Exit::TargetIo,
        Outcome::ChangedBySomebody(_) | Outcome::Elsewhere(_) | Outcome::NotHere(_) => {
            Exit::Refused
        }
        Outcome::Away(_) => Exit::Missing,
        _ => Exit::Done,
    }
}

/// The same of a test file or directory. A tree that was broken off is somebody's to go on with.
pub(super) fn exit_of_file(report: &leftovers::Report) -> Exit {
    use leftovers::Outcome;
    match &report.outcome {
        Outcome::Failed { .. } => Exit::TargetIo,
        Outcome::Foreign { .. } | Outcome::ForeignData | Outcome::Mounted { .. } => Exit::Refused,
        Outcome::OwnerElsewhere { is_of_this_boot } if *is_of_this_boot => Exit::Refused,
        Outcome::NotMounted { .. } | Outcome::Moved { .. } => Exit::Missing,
        Outcome::Unread { .. } => Exit::Internal,
        _ => Exit::Done,
    }
}
