//! `fathom clean --forget`: what fathom still knows of test files whose filesystem was made anew, or never comes back.

use super::{check_store, exit_of_journal, exit_of_report, report_text};
use crate::args::{Clean, Common};
use crate::commands::tree::{Held, hold};
use crate::commands::{CommandError, CommandResult, finish};
use crate::exit::Exit;
use crate::output::Output;
use crate::session;
use fathom_guard::leftovers::{self, Outcome, Report};
use fathom_lab::LabError;
use fathom_lab::books::Place;
use fathom_lab::verify::{self, Forgotten};
use std::fmt::Write;

/// Forgets it, and says what that was. No file is touched.
pub fn run(common: &Common, output: Output, args: &Clean) -> CommandResult {
    let path = args.dir.canonicalize().unwrap_or_else(|_| Place::gone(&args.dir).path);
    let held = hold(common, output)?;
    session::finish_forgetting(&held.state_dir, output);
    let Held { root, state_dir, .. } = &held;
    let failed = |error: &LabError| CommandError::report_as(output, error, Exit::of_error(error));
    let reports = leftovers::forget_away(root, state_dir, &path)
        .map_err(|error| CommandError::report_as(output, &error, exit_of_journal(&error)))?;
    let is_kept = |report: &&Report| !matches!(report.outcome, Outcome::Forgotten);
    let kept: Vec<&str> = reports.iter().filter(is_kept).map(|r| r.run_id.as_str()).collect();
    let known =
        verify::forget_away(root, state_dir, &path, &kept).map_err(|error| failed(&error))?;
    let (mut found, mut unread, mut exit) = (Vec::new(), Vec::new(), Exit::Done);
    for one in known {
        match one {
            Ok(one) => found.push(one),
            Err(error) => {
                output.error(&error.to_string());
                exit = exit.max(Exit::of_error(&error));
                unread.push(error.to_string());
            }
        }
    }
    let stay = found.iter().filter(|one| one.stays.is_some()).map(|_| Exit::Missing);
    exit = reports.iter().map(exit_of_report).chain(stay).fold(exit, Ord::max);
    let mut text = lines(&reports, &found);
    if text.is_empty() && exit == Exit::Done {
        check_store(common, output, &held)?;
        text = format!(
            "Nothing of what is noted in {} is away from {}; another store is named by --db.\n",
            state_dir.display(),
            path.display()
        );
    }
    let targets = |stays| {
        let those = found.iter().filter(move |one| one.stays.is_some() == stays);
        those.map(|one| one.target.as_path()).collect::<Vec<_>>()
    };
    let lines: Vec<String> = reports.iter().map(ToString::to_string).collect();
    let json = serde_json::json!({
        "forgotten": targets(false), "stays": targets(true), "test_files": lines, "unread": unread,
        "exit_code": exit.code()
    });
    finish(output, &text, &json, exit)
}

/// One line for each file that the journal and `fathom verify` know of, and for each that one of them alone knows of.
fn lines(reports: &[Report], found: &[Forgotten]) -> String {
    let is_of = |report: &Report, one: &Forgotten| {
        report.run_id == one.run_id && one.target.starts_with(&report.path)
    };
    let is_forgotten = |report: &Report| matches!(report.outcome, Outcome::Forgotten);
    let mut text = String::new();
    for one in found {
        let (target, run) = (one.target.display(), &one.run_id);
        let _ = match &one.stays {
            None => writeln!(
                text,
                "{target}: forgotten, fathom verify asks no longer for what run {run} wrote there"
            ),
            Some(_) if reports.iter().any(|report| is_of(report, one) && !is_forgotten(report)) => {
                continue;
            }
            Some(why) => writeln!(text, "{target}: not forgotten, {why}"),
        };
    }
    for report in reports {
        let mut of = found.iter().filter(|one| is_of(report, one));
        if is_forgotten(report) && of.clone().any(|one| one.stays.is_none()) {
            continue;
        }
        text += &report_text(report);
        if of.any(|one| one.stays.is_some()) {
            text.pop();
            let run = &report.run_id;
            let _ = writeln!(
                text,
                "; what fathom verify knows of it is not forgotten, as the journal still knows of what run {run} made"
            );
        }
    }
    text
}
