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
use fathom_lab::verify;
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
    let (mut text, mut exit) = (String::new(), Exit::Done);
    let (mut forgotten, mut stays, mut unread) = (Vec::new(), Vec::new(), Vec::new());
    for one in known {
        match one {
            Ok(one) => {
                let target = one.target.display();
                match &one.stays {
                    None => {
                        let _ = writeln!(
                            text,
                            "{target}: forgotten, fathom verify asks no longer for what run {} wrote there",
                            one.run_id
                        );
                        forgotten.push(one.target);
                    }
                    Some(why) => {
                        let _ = writeln!(text, "{target}: not forgotten, {why}");
                        exit = exit.max(Exit::Missing);
                        stays.push(one.target);
                    }
                }
            }
            Err(error) => {
                output.error(&error.to_string());
                exit = exit.max(Exit::of_error(&error));
                unread.push(error.to_string());
            }
        }
    }
    for report in &reports {
        text += &report_text(report);
        exit = exit.max(exit_of_report(report));
    }
    if text.is_empty() && exit == Exit::Done {
        check_store(common, output, &held)?;
        text = format!(
            "Nothing of what is noted in {} is away from {}; another store is named by --db.\n",
            state_dir.display(),
            path.display()
        );
    }
    let lines: Vec<String> = reports.iter().map(ToString::to_string).collect();
    let json = serde_json::json!({
        "forgotten": forgotten, "stays": stays, "test_files": lines, "unread": unread,
        "exit_code": exit.code()
    });
    finish(output, &text, &json, exit)
}
