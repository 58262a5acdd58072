//! `fathom clean`: removes what fathom has made below a directory, and nothing else.

use super::progress_line::ProgressLine;
use super::restore::exit_of_file;
use super::tree::{self, Held, failed, hold, threads};
use super::{CommandError, CommandResult, finish};
use crate::args::{Clean, Common};
use crate::exit::Exit;
use crate::output::Output;
use crate::session;
use fathom_base::shell;
use fathom_base::units::{format_count, format_ns, format_size};
use fathom_guard::FileRefusal;
use fathom_guard::leftovers::{self, Below, Outcome, Report};
use fathom_sys::signals::StopFlag;
use fathom_tree::clean::find::{self, FoundBelow};
use fathom_tree::clean::{Cleaned, Cleaner, survey};
use fathom_tree::manifest::Access;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

mod forget;

/// What stays is named up to here.
const NAMED_MAX: usize = 20;

/// Removes trees and kept test files, or says what there is.
pub fn run(common: &Common, output: Output, stop: &StopFlag, args: &Clean) -> CommandResult {
    if args.forget {
        return forget::run(common, output, args);
    }
    let dir = args.dir.canonicalize().map_err(|error| {
        let text = format!("{}: {error}; name a tree, or a directory above", args.dir.display());
        CommandError::usage(output, &text)
    })?;
    if !dir.is_dir() {
        let above = dir.parent().filter(|_| dir.is_file());
        let cure =
            above.map_or_else(String::new, |dir| format!(": fathom clean {}", shell::path(dir)));
        let text = format!(
            "{} is no directory; name the one that it lies in, where fathom clean removes what fathom made, and nothing else{cure}",
            args.dir.display()
        );
        return Err(CommandError::usage(output, &text));
    }
    let held = hold(common, output)?;
    let mut shown = ProgressLine::new(output);
    let mut tick = |count| {
        shown.line(&format!("looking for what fathom made: {} directories", format_count(count)))
    };
    let found = find::below(&dir, stop, &mut tick);
    shown.finish();
    let found = found.map_err(|error| failed(output, &error))?;
    if args.list {
        let known = leftovers::below(&held.root, &held.state_dir, &dir)
            .map_err(|error| CommandError::report_as(output, &error, exit_of_journal(&error)))?;
        if found.trees.is_empty() && found.test_dirs.is_empty() {
            check_store(common, output, &held)?;
        }
        return list(output, stop, &dir, (&found, &known));
    }
    session::finish_forgetting(&held.state_dir, output);
    let mut done = Done::default();
    remove_trees(output, stop, &held, &found, &mut done);
    if stop.is_set() {
        // Test files stay as they are: what was asked for is the end.
        done.exit = done.exit.max(Exit::Interrupted);
    } else {
        // What a clean that is broken off has taken already is not missed by fathom verify.
        let mut forget = |path: &Path| {
            fathom_lab::verify::forget_below(&held.state_dir, path).map_err(|error| {
                let what = "what fathom verify knows of it cannot be forgotten";
                io::Error::new(error.kind(), format!("{what}: {error}"))
            })
        };
        let reports = leftovers::clean_below(&held.root, &held.state_dir, &dir, &mut forget)
            .map_err(|error| CommandError::report_as(output, &error, exit_of_journal(&error)))?;
        done.test_files(&dir, &found, reports);
    }
    done.text += &unread_text(&found);
    let Done { exit, mut text, trees, lines } = done;
    if text.is_empty() && exit == Exit::Done {
        check_store(common, output, &held)?;
        text = format!("Nothing that fathom made is in {} or below it.\n", dir.display());
    }
    let json = serde_json::json!({ "trees": trees, "test_files": lines, "exit_code": exit.code() });
    finish(output, &text, &json, exit)
}

/// There is nothing: an error where that is because the directory of the store that was named is mistyped.
fn check_store(common: &Common, output: Output, held: &Held) -> Result<(), CommandError> {
    let missing = session::no_directory(common, &held.state_dir);
    missing.map_or(Ok(()), |why| Err(CommandError::usage(output, &why)))
}

/// What an error of the journal comes to, which lies beside the store and tells nothing of the target.
fn exit_of_journal(error: &FileRefusal) -> Exit {
    if error.is_out_of_descriptors() { Exit::Missing } else { Exit::Internal }
}

/// What was done so far, and how it ends.
struct Done {
    exit: Exit,
    text: String,
    trees: Vec<Cleaned>,
    /// About test files, a line each.
    lines: Vec<String>,
}

impl Default for Done {
    fn default() -> Self {
        Self { exit: Exit::Done, text: String::new(), trees: Vec::new(), lines: Vec::new() }
    }
}

/// Removes the trees one after the other; those that come after a signal stay whole.
fn remove_trees(output: Output, stop: &StopFlag, held: &Held, found: &FoundBelow, done: &mut Done) {
    let mut shown = ProgressLine::new(output);
    for tree in &found.trees {
        if stop.is_set() {
            break;
        }
        let mut progress = |step| shown.tree(step);
        let (root, state_dir) = (&held.root, held.state_dir.as_path());
        let mut cleaner =
            Cleaner { root, state_dir, threads: threads(), stop, progress: &mut progress };
        match cleaner.clean_found(found, tree) {
            Ok(one) => {
                done.text += &cleaned_text(&one);
                done.exit = done.exit.max(exit_of_tree(&one));
                done.trees.push(one);
            }
            Err(error) => {
                shown.finish();
                let CommandError::Reported(worse) = failed(output, &error) else { continue };
                done.exit = done.exit.max(worse);
            }
        }
    }
    shown.finish();
}

/// What somebody else has in a tree is no success.
fn exit_of_tree(cleaned: &Cleaned) -> Exit {
    let is_all_ours = cleaned.foreign == 0 && cleaned.mounts.is_empty();
    if is_all_ours { Exit::Done } else { Exit::Refused }
}

impl Done {
    /// Says what became of test files; those that stay are no success.
    fn test_files(&mut self, dir: &Path, found: &FoundBelow, mut reports: Vec<Report>) {
        let is_told = |path: &Path| reports.iter().any(|report| report.path == path);
        let is_unread = reports.iter().any(|report| report.run_id.is_empty());
        for path in found.test_dirs.iter().filter(|path| path.exists() && !is_told(path)) {
            self.text += &stranger_text(dir, path, is_unread);
            if !is_unread {
                self.exit = self.exit.max(Exit::Refused);
            }
        }
        reports.retain(|report| report.outcome != Outcome::Vanished);
        for report in &reports {
            self.text += &report_text(report);
            self.exit = self.exit.max(exit_of_report(report));
        }
        self.lines = reports.iter().map(ToString::to_string).collect();
    }
}

/// Where nobody could look.
fn unread_text(found: &FoundBelow) -> String {
    let line = |(path, reason): &(PathBuf, _)| {
        format!("{}: not looked through: {reason}\n", path.display())
    };
    found.unread.iter().map(line).collect()
}

/// Test files, by their name, that no entry of the journal tells of.
fn stranger_text(dir: &Path, path: &Path, is_unread: bool) -> String {
    if is_unread {
        return format!(
            "{}: stays, whether it is fathom's cannot be told without what of the journal cannot be read\n",
            path.display()
        );
    }
    format!(
        "{}: stays, the journal of this store does not know it, or no longer after an earlier fathom clean; with \
         another one: fathom clean {} --db=FILE; if nobody needs it: rm -r {}\n",
        path.display(),
        shell::path(dir),
        shell::path(path)
    )
}

/// What became of one thing of the journal: who asks for it hears also of those who work with it.
fn exit_of_report(report: &Report) -> Exit {
    match report.outcome {
        Outcome::OwnerAlive { .. } => Exit::Refused,
        _ => exit_of_file(report),
    }
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
    let text = format!(
        "{path}: removed {} files of {} in {}\n",
        format_count(cleaned.files),
        format_size(cleaned.bytes),
        format_ns(cleaned.took_ns)
    );
    text + &staying_text(cleaned)
}

/// What stays of a tree, or would.
fn staying_text(cleaned: &Cleaned) -> String {
    let (path, mut text) = (cleaned.path.display(), String::new());
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

/// What would be removed, and what would stay.
fn list(
    output: Output,
    stop: &StopFlag,
    dir: &Path,
    (found, known): (&FoundBelow, &Below),
) -> CommandResult {
    let Below { noted, stays, unknown } = known;
    let (mut text, mut of_trees, mut surveys) = (String::new(), None, Vec::new());
    let mut shown = ProgressLine::new(output);
    for tree in &found.trees {
        let looked = found.open(tree, Access::Shared).and_then(|tree| {
            let survey = survey(&tree, stop, &mut |step| shown.tree(step))?;
            Ok((tree, survey))
        });
        shown.finish();
        let (exit, what) = match looked {
            Ok((tree, survey)) => {
                let extent = tree.layout().extent();
                let (files, size) = (format_count(extent.files), format_size(extent.bytes));
                let owner = tree.signed_by_other();
                let owner = owner
                    .map_or_else(String::new, |uid| format!("; its card belongs to user {uid}"));
                let staying = staying_text(&survey);
                let exit = exit_of_tree(&survey);
                surveys.push(survey);
                (exit, format!("a tree of {files} files, {size}{owner}\n{staying}"))
            }
            Err(error) => (tree::exit_of_error(&error), format!("a tree that stays: {error}\n")),
        };
        of_trees = of_trees.max(Some(exit));
        let _ = write!(text, "{}  {what}", tree.path.display());
    }
    let is_dir = |path: &&PathBuf| found.test_dirs.contains(path);
    let (test_dirs, files): (Vec<&PathBuf>, Vec<&PathBuf>) = noted.iter().partition(is_dir);
    for path in &test_dirs {
        let _ = writeln!(text, "{}  test files", path.display());
    }
    for path in &files {
        let _ = writeln!(text, "{}  a test file", path.display());
    }
    let is_told =
        |path: &PathBuf| noted.contains(path) || stays.iter().any(|report| report.path == *path);
    for path in found.test_dirs.iter().filter(|path| !is_told(path)) {
        text += &stranger_text(dir, path, !unknown.is_empty());
    }
    text += &unread_text(found);
    stays.iter().chain(unknown).for_each(|report| text += &report_text(report));
    let has_strangers = found.test_dirs.iter().any(|path| !is_told(path));
    let strangers = (has_strangers && unknown.is_empty()).then_some(Exit::Refused);
    let exits = stays.iter().chain(unknown).map(exit_of_report);
    let exit = exits.chain(strangers).chain(of_trees).max().unwrap_or(Exit::Done);
    if text.is_empty() {
        text = "Nothing that fathom made is there.\n".into();
    }
    let trees: Vec<&Path> = found.trees.iter().map(|tree| tree.path.as_path()).collect();
    let lines = |reports: &[Report]| reports.iter().map(ToString::to_string).collect::<Vec<_>>();
    let json = serde_json::json!({
        "trees": trees, "in_trees": surveys, "test_directories": test_dirs, "test_files": files,
        "stays": lines(stays), "unknown": lines(unknown), "exit_code": exit.code()
    });
    finish(output, &text, &json, exit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(outcome: Outcome) -> Report {
        Report { run_id: "7f3k".into(), path: PathBuf::from("/srv/.fathom-7f3k"), outcome }
    }

    #[test]
    fn what_stays_is_no_success() {
        let exit = |outcomes: Vec<Outcome>| {
            let mut done = Done::default();
            let reports = outcomes.into_iter().map(report).collect();
            done.test_files(Path::new("/srv"), &FoundBelow::default(), reports);
            (done.exit, done.lines.len())
        };
        let failed =
            || Outcome::Failed { reason: "Input/output error".into(), by_hand: String::new() };
        assert_eq!(exit(vec![Outcome::Removed, failed()]), (Exit::TargetIo, 2));
        assert_eq!(exit(vec![Outcome::Removed, Outcome::Vanished]), (Exit::Done, 1));
        for theirs in [Outcome::OwnerAlive { pid: 7 }, Outcome::ForeignData] {
            assert_eq!(exit(vec![Outcome::Removed, theirs]), (Exit::Refused, 2));
        }
        let unread = || Outcome::Unread { reason: "Permission denied".into() };
        assert_eq!(exit(vec![Outcome::Removed, unread()]), (Exit::Internal, 2));
    }
}
