//! What writers made and clients left, read back after their windows.

use super::Ground;
use crate::lab::Lab;
use fathom_base::units::{format_count, format_size};
use fathom_model::finding::{Finding, Severity};
use fathom_sys::signals::StopFlag;
use fathom_sys::walked::WalkedDir;
use fathom_tree::grown::{self, Grown};
use fathom_tree::phase::{Outcome, Process, Task};
use fathom_tree::play::Playing;
use fathom_tree::play::kept::{self, Kept};
use std::io;

/// So many of those that are wrong are named.
const NAMED_MAX: usize = 5;

/// Reads back what the writers or clients of a session have made, where that is asked for and the session came to its end.
/// That it cannot be brought to stable storage is a finding: what was measured before stays.
pub(super) fn made(
    lab: &mut Lab<'_>,
    ground: &Ground<'_>,
    processes: &[Process],
    outcome: &Outcome,
) -> Option<Finding> {
    let is_over = outcome.failed.is_none() && !outcome.is_interrupted;
    let are_clients = ground.options.spec.play.is_some();
    let has_made = are_clients || outcome.made.iter().any(|made| *made > 0);
    if !ground.options.spec.verify || !is_over || !has_made {
        return None;
    }
    let who = if are_clients { "clients left" } else { "writers made" };
    lab.note(format!("Reading back what the {who}."));
    if let Err(error) = ground.root.sync_filesystem() {
        return Some(not_durable(who, &error));
    }
    let mut all = Grown::default();
    for (process, made) in processes.iter().zip(&outcome.made) {
        let Task::Write(root, growing, seed) = &process.task else { continue };
        let grown = grown::verify(root, growing, *seed, *made, &lab.stop)?;
        let whose = |what: String| format!("writer {}: {what}", process.number);
        all.add(Grown { listed: grown.listed.into_iter().map(whose).collect(), ..grown });
    }
    if are_clients {
        all = clients(processes, outcome, &lab.stop)?;
    }
    Some(finding(&all, who))
}

fn not_durable(who: &str, error: &io::Error) -> Finding {
    let text =
        format!("what {who} cannot be brought to stable storage, so it was not read back: {error}");
    Finding::new("fsop-content-wrong", Severity::Void, text)
        .advise("the device failed writes that programs had been told were done: see dmesg")
}

/// What clients have left: those that share a directory together.
fn clients(processes: &[Process], outcome: &Outcome, stop: &StopFlag) -> Option<Grown> {
    let mut groups: Vec<(&WalkedDir, Vec<(&Playing, &Kept)>)> = Vec::new();
    for (process, kept) in processes.iter().zip(&outcome.kept) {
        let Task::Play(root, playing) = &process.task else { continue };
        match groups.first_mut() {
            Some((_, together)) if playing.spec.shared => together.push((playing, kept)),
            _ => groups.push((root, vec![(playing, kept)])),
        }
    }
    let mut all = Grown::default();
    for (root, together) in groups {
        let found = kept::verify(root, &together, stop)?;
        let whose = |what: String| match together.as_slice() {
            [(playing, _)] => format!("client {}: {what}", playing.number),
            _ => what,
        };
        all.add(Grown { listed: found.listed.into_iter().map(whose).collect(), ..found });
    }
    Some(all)
}

fn finding(all: &Grown, who: &str) -> Finding {
    if all.wrong == 0 {
        let text = format!(
            "{} files of {} and {} directories that {who} were read back: names, sizes and every byte are as they were \
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
        "{} of what {who} are not as they were made ({} files are): {named}",
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
        let found = finding(&clean, "writers made");
        assert_eq!((found.id.as_str(), found.severity), ("fsop-content-verified", Severity::Note));
        assert!(
            found.summary.starts_with("3 files of 4 KiB and 1 directories"),
            "{}",
            found.summary
        );
        let listed = (0..9).map(|n| format!("writer 0: f{n} is gone")).collect();
        let found = finding(&Grown { wrong: 12, listed, ..clean }, "clients left");
        assert_eq!((found.id.as_str(), found.severity), ("fsop-content-wrong", Severity::Void));
        assert!(found.summary.contains("writer 0: f4 is gone; and 7 more"), "{}", found.summary);
        assert!(!found.summary.contains("f5"), "{}", found.summary);
        // Injected: the error of a device that lost what it had taken.
        let found = not_durable("writers made", &io::Error::from_raw_os_error(5));
        assert!(found.severity == Severity::Void && found.summary.contains("os error 5"));
    }
}
