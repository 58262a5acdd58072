//! What writers made, read back after their windows.

use super::Ground;
use crate::error::LabError;
use crate::lab::Lab;
use fathom_base::units::{format_count, format_size};
use fathom_model::finding::{Finding, Severity};
use fathom_tree::grown::{self, Grown};
use fathom_tree::phase::{Outcome, Process, Task};

/// So many of those that are wrong are named.
const NAMED_MAX: usize = 5;

/// Reads back what the writers of a session have made, where that is asked for and the session came to its end.
///
/// # Errors
/// Those of bringing it to stable storage.
pub(super) fn writers(
    lab: &mut Lab<'_>,
    ground: &Ground<'_>,
    processes: &[Process],
    outcome: &Outcome,
) -> Result<Option<Finding>, LabError> {
    let is_over = outcome.failed.is_none() && !outcome.is_interrupted;
    let has_made = outcome.made.iter().any(|made| *made > 0);
    if !ground.options.spec.verify || !is_over || !has_made {
        return Ok(None);
    }
    lab.note("Reading back what the writers made.");
    let io = |source| LabError::TargetIo { path: ground.path.clone(), what: "syncing", source };
    ground.root.sync_filesystem().map_err(io)?;
    let mut all = Grown::default();
    for (process, made) in processes.iter().zip(&outcome.made) {
        let Task::Write(root, growing, seed) = &process.task else { continue };
        let Some(grown) = grown::verify(root, growing, *seed, *made, &lab.stop) else {
            return Ok(None);
        };
        let whose = |what: String| format!("writer {}: {what}", process.number);
        all.add(Grown { listed: grown.listed.into_iter().map(whose).collect(), ..grown });
    }
    Ok(Some(finding(&all)))
}

fn finding(all: &Grown) -> Finding {
    if all.wrong == 0 {
        let text = format!(
            "{} files of {} and {} directories that writers made were read back: names, sizes and every byte are as they were \
             written",
            format_count(all.files),
            format_size(all.bytes),
            format_count(all.dirs)
        );
        return Finding::new("fsop-content-verified", Severity::Note, text);
    }
    let mut named = all.listed.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join("; ");
    if all.wrong > NAMED_MAX as u64 {
        named += &format!("; and {} more", format_count(all.wrong - NAMED_MAX as u64));
    }
    let text = format!(
        "{} of what writers made are not as they were made ({} files are): {named}",
        format_count(all.wrong),
        format_count(all.files)
    );
    Finding::new("fsop-content-wrong", Severity::Void, text)
        .advise("somebody wrote there meanwhile, or memory, cable, controller, device or filesystem changed data: see dmesg, and find out which before anything is kept there")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_voids_and_is_named() {
        let clean = Grown { files: 3, bytes: 4096, dirs: 1, ..Grown::default() };
        let found = finding(&clean);
        assert_eq!((found.id.as_str(), found.severity), ("fsop-content-verified", Severity::Note));
        assert!(
            found.summary.starts_with("3 files of 4 KiB and 1 directories"),
            "{}",
            found.summary
        );
        let listed = (0..9).map(|n| format!("writer 0: f{n} is gone")).collect();
        let found = finding(&Grown { wrong: 12, listed, ..clean });
        assert_eq!((found.id.as_str(), found.severity), ("fsop-content-wrong", Severity::Void));
        assert!(found.summary.contains("writer 0: f4 is gone; and 7 more"), "{}", found.summary);
        assert!(!found.summary.contains("f5"), "{}", found.summary);
    }
}
