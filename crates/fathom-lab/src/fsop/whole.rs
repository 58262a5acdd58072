//! Whether a tree of fathom's is as it was built, before readers read it: every name, size and time is looked at.

use super::TOLD_EVERY_NS;
use crate::error::{ErrorClass, LabError};
use crate::lab::Lab;
use fathom_base::shell;
use fathom_base::units::format_count;
use fathom_model::event::Event;
use fathom_sys::clock;
use fathom_tree::build::Step;
use fathom_tree::error::TreeError;
use fathom_tree::manifest::check::{self, Depth};
use fathom_tree::manifest::{Access, Tree};
use std::path::Path;

/// The tree of fathom's in a directory, held so that nobody removes it meanwhile; none where there is none.
///
/// # Errors
/// A tree that is not finished, is being removed, or is a copy.
pub(super) fn held(path: &Path) -> Result<Option<Tree>, LabError> {
    match Tree::open_complete(path, Access::Shared) {
        Ok(tree) => Ok(Some(tree)),
        Err(TreeError::NoTree(_)) => Ok(None),
        Err(error) => Err(crate::run::wrong_kind(path, error.to_string())),
    }
}

/// Looks through the tree in a directory, if it is one of fathom's.
///
/// # Errors
/// As [`check`], and for a tree that is not finished.
pub(crate) fn check_in(lab: &mut Lab<'_>, path: &Path) -> Result<(), LabError> {
    held(path)?.map_or(Ok(()), |tree| check(lab, &tree))
}

/// Looks through a tree, and says from time to time how far that is.
///
/// # Errors
/// What is missing, changed or foreign, counted; those of reading; a signal.
pub(super) fn check(lab: &mut Lab<'_>, tree: &Tree) -> Result<(), LabError> {
    let failed = |reason: String, class| {
        let path = tree.path().to_owned();
        LabError::Target { path, reason, class }
    };
    let mut told_ns = clock::monotonic_ns();
    let mut progress = |step: Step| {
        if clock::monotonic_ns().saturating_sub(told_ns) >= TOLD_EVERY_NS {
            told_ns = clock::monotonic_ns();
            let (files, all) = (format_count(step.files), format_count(step.files_total));
            let text = format!("Looking whether the tree is whole: {files} of {all} files so far.");
            (lab.emit)(Event::Note { text });
        }
    };
    let report = check::check(tree, Depth::Names, threads(), &lab.stop, &mut progress);
    let report = report.map_err(|error| match error {
        TreeError::Interrupted(_) => LabError::Interrupted,
        error => failed(error.to_string(), ErrorClass::TargetIo),
    })?;
    let Some(what) = report.told() else { return Ok(()) };
    let path = shell::path(tree.path());
    let reason = format!(
        "is not the whole tree that fathom built: {what}; fathom tree verify --names {path} lists everything, fathom clean {path} \
         and fathom tree build {path} make it anew"
    );
    Err(failed(reason, ErrorClass::TargetIo))
}

/// More than processors: most of the time is waiting.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(4, |n| n.get() * 2).clamp(4, 32)
}
