//! `fathom clean`: removes what fathom has made below a directory, and nothing else.

use super::tree::{Shown, failed, hold, threads};
use super::{CommandError, CommandResult, finish};
use crate::args::{Clean, Common};
use crate::exit::Exit;
use crate::output::Output;
use fathom_base::shell;
use fathom_base::units::{format_count, format_ns, format_size};
use fathom_guard::leftovers::{self, Outcome, Report};
use fathom_sys::signals::StopFlag;
use fathom_tree::clean::find::{self, FoundBelow};
use fathom_tree::clean::{Cleaned, Cleaner};
use fathom_tree::manifest::{Access, Tree};
use std::fmt::Write;
use std::path::PathBuf;

/// What stays is named up to here.
const NAMED_MAX: usize = 20;

/// Removes trees and kept test files, or says what there is.
pub fn run(common: &Common, output: Output, stop: &StopFlag, args: &Clean) -> CommandResult {
    let dir = args.dir.canonicalize().map_err(|error| {
        let text = format!("{}: {error}; name a tree, or a directory above", args.dir.display());
        CommandError::usage(output, &text)
    })?;
    let held = hold(common, output)?;
    let mut shown = Shown::new(output);
    let mut tick = |count| {
        shown.line(&format!("looking for what fathom made: {} directories", format_count(count)))
    };
    let found = find::below(&dir, stop, &mut tick);
    shown.finish();
    let found = found.map_err(|error| failed(output, &error))?;
    if args.list {
        return list(output, &found);
    }
    let mut shown = Shown::new(output);
    let (mut cleaned, mut exit, mut text) = (Vec::new(), Exit::Done, String::new());
    for path in &found.trees {
        let mut progress = |step| shown.show(step);
        let (root, state_dir) = (&held.root, held.state_dir.as_path());
        let mut cleaner =
            Cleaner { root, state_dir, threads: threads(), stop, progress: &mut progress };
        match cleaner.clean(path) {
            Ok(one) => {
                text += &cleaned_text(&one);
                cleaned.push(one);
            }
            Err(error) => {
                shown.finish();
                let CommandError::Reported(worse) = failed(output, &error) else { continue };
                exit = exit.max(worse);
            }
        }
    }
    shown.finish();
    let mut reports = leftovers::clean_below(&held.root, &held.state_dir, &dir)
        .map_err(|error| CommandError::report_as(output, &error, Exit::TargetIo))?;
    let is_told =
        |path: &PathBuf, reports: &[Report]| reports.iter().any(|report| report.path == *path);
    for path in found.test_dirs.iter().filter(|path| path.exists() && !is_told(path, &reports)) {
        let _ = writeln!(
            text,
            "{}: stays, the journal of this store does not know it; with another one: fathom clean {} --db=FILE",
            path.display(),
            shell::path(&dir)
        );
    }
    reports.retain(|report| report.outcome != Outcome::Vanished);
    for report in &reports {
        text += &report_text(report);
    }
    for (path, reason) in &found.unread {
        let _ = writeln!(text, "{}: not looked through: {reason}", path.display());
    }
    if text.is_empty() && exit == Exit::Done {
        text = format!("Nothing that fathom made is in {} or below it.\n", dir.display());
    }
    let lines: Vec<String> = reports.iter().map(ToString::to_string).collect();
    let json =
        serde_json::json!({ "trees": cleaned, "test_files": lines, "exit_code": exit.code() });
    finish(output, &text, &json, exit)
}

/// One thing of the journal; why it went is that somebody asked for it.
fn report_text(report: &Report) -> String {
    match report.outcome {
        Outcome::Removed => format!("{}: removed\n", report.path.display()),
        Outcome::OwnerAlive { pid } => {
            format!("{}: stays, process {pid} works with it\n", report.path.display())
        }
        _ => format!("{report}\n"),
    }
}

fn cleaned_text(cleaned: &Cleaned) -> String {
    let path = cleaned.path.display();
    let mut text = format!(
        "{path}: removed {} files of {} in {}",
        format_count(cleaned.files),
        format_size(cleaned.bytes),
        format_ns(cleaned.took_ns)
    );
    text.push('\n');
    for mount in &cleaned.mounts {
        let _ = writeln!(
            text,
            "  {path}/{mount} is mounted over: what it hides stays; unmount it and do this again"
        );
    }
    if cleaned.foreign == 0 {
        return text;
    }
    let _ = writeln!(
        text,
        "  {} that fathom did not make, or did not leave so, stay with the directories above them:",
        format_count(cleaned.foreign)
    );
    for name in cleaned.listed.iter().take(NAMED_MAX) {
        let _ = writeln!(text, "  {path}/{name}");
    }
    let more = cleaned.foreign - cleaned.listed.len().min(NAMED_MAX) as u64;
    if more > 0 {
        let _ = writeln!(text, "  and {} more", format_count(more));
    }
    text
}

/// What would be removed.
fn list(output: Output, found: &FoundBelow) -> CommandResult {
    let mut text = String::new();
    for path in &found.trees {
        let what = match Tree::open(path, Access::Shared) {
            Ok(tree) => {
                let extent = tree.layout().extent();
                format!(
                    "a tree of {} files, {}",
                    format_count(extent.files),
                    format_size(extent.bytes)
                )
            }
            Err(error) => format!("a tree that stays: {error}"),
        };
        let _ = writeln!(text, "{}  {what}", path.display());
    }
    for path in &found.test_dirs {
        let _ = writeln!(text, "{}  test files", path.display());
    }
    if text.is_empty() {
        text = "Nothing that fathom made is there.\n".into();
    }
    let json = serde_json::json!({ "trees": found.trees, "test_directories": found.test_dirs, "exit_code": 0 });
    finish(output, &text, &json, Exit::Done)
}
