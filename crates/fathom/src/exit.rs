//! Exit codes: a small table that scripts can rely on.

use fathom_guard::{FileRefusal, LockError};
use fathom_lab::LabError;
use fathom_lab::error::ErrorClass;
use fathom_model::finding::Verdict;
use fathom_model::record::{Ending, Record};
use fathom_store::StoreError;
use std::io;
use std::process::ExitCode;

/// How fathom ends, from the least to the most serious: of several the last in this order wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// 0: done.
    Done,
    /// 1: done, but the verdict is doubtful or void.
    Doubtful,
    /// 2: the command line makes no sense.
    Usage,
    /// 6: the store, the output or fathom itself failed.
    Internal,
    /// 4: the system lacks something that is needed.
    Missing,
    /// 3: refused, because data or another measurement is in danger.
    Refused,
    /// 5: the target failed.
    TargetIo,
    /// 130: interrupted; everything is back in its place.
    Interrupted,
}

impl Exit {
    /// The number.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Doubtful => 1,
            Self::Usage => 2,
            Self::Refused => 3,
            Self::Missing => 4,
            Self::TargetIo => 5,
            Self::Internal => 6,
            Self::Interrupted => 130,
        }
    }

    /// The end with that number; an error of fathom itself where there is none.
    #[must_use]
    pub fn of_code(code: i32) -> Self {
        const ALL: [Exit; 7] = [
            Exit::Done,
            Exit::Doubtful,
            Exit::Usage,
            Exit::Refused,
            Exit::Missing,
            Exit::TargetIo,
            Exit::Interrupted,
        ];
        ALL.into_iter().find(|exit| i32::from(exit.code()) == code).unwrap_or(Exit::Internal)
    }

    /// What an error of the laboratory comes to.
    #[must_use]
    pub fn of_error(error: &LabError) -> Self {
        Self::of_class(error.class())
    }

    /// What a class of errors comes to.
    #[must_use]
    pub fn of_class(class: ErrorClass) -> Self {
        match class {
            ErrorClass::Usage => Self::Usage,
            ErrorClass::Refused => Self::Refused,
            ErrorClass::Missing => Self::Missing,
            ErrorClass::Store => Self::Internal,
            ErrorClass::TargetIo => Self::TargetIo,
            ErrorClass::Interrupted => Self::Interrupted,
        }
    }

    /// What an error of the measuring lock comes to: who waits for the end of another measurement repeats after a refusal,
    /// and would do so for ever when the lock itself cannot be used.
    #[must_use]
    pub fn of_lock(error: &LockError) -> Self {
        match error {
            LockError::Held { .. } => Self::Refused,
            LockError::Unusable { .. } => Self::Missing,
        }
    }

    /// What an error of a path comes to that was typed: one that leads nowhere is mistyped.
    #[must_use]
    pub fn of_path(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::Usage,
            _ => Self::Internal,
        }
    }

    /// What it comes to that a file of fathom's own has no place: as everywhere, too little room is something that the system lacks, and no
    /// danger to anything. All else that can be wrong with room is an error of the output.
    #[must_use]
    pub fn of_room(refusal: &FileRefusal) -> Self {
        if refusal.is_out_of_room() { Self::Missing } else { Self::Internal }
    }

    /// What an error of the store comes to: a name that is no run's, or that of several, is a word of the command line, and so is a
    /// store that is not there.
    #[must_use]
    pub fn of_store(error: &StoreError) -> Self {
        match error {
            StoreError::NotFound { .. }
            | StoreError::Ambiguous { .. }
            | StoreError::Labelled { .. }
            | StoreError::Missing { .. } => Self::Usage,
            _ => Self::Internal,
        }
    }

    /// What a verdict comes to; `void_only` lets doubtful ones pass.
    #[must_use]
    pub fn of_verdict(verdict: Verdict, void_only: bool) -> Self {
        match verdict {
            Verdict::Void => Self::Doubtful,
            Verdict::Doubtful if !void_only => Self::Doubtful,
            Verdict::Doubtful | Verdict::Trusted => Self::Done,
        }
    }

    /// What records with their verdict come to; `void_only` lets doubtful ones pass.
    #[must_use]
    pub fn of_records(records: &[Record], verdict: Verdict, void_only: bool) -> Self {
        let ended = |ending| records.iter().any(|r| r.ending == ending);
        if ended(Ending::Interrupted) {
            Self::Interrupted
        } else if records.iter().any(|r| has_failed(r) || has_mismatches(r)) {
            Self::TargetIo
        } else if ended(Ending::Failed) {
            Self::Missing
        } else {
            Self::of_verdict(verdict, void_only)
        }
    }
}

/// The target failed, not the system around it.
fn has_failed(record: &Record) -> bool {
    let is_missing = record.failure.as_ref().is_some_and(|failure| failure.is_out_of_threads());
    record.ending == Ending::Failed && !is_missing
}

fn has_mismatches(record: &Record) -> bool {
    record.jobs.iter().filter_map(|job| job.verify.as_ref()).any(|check| check.mismatches > 0)
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_guard::lock::Holder;

    #[test]
    fn only_a_held_lock_asks_to_be_waited_for() {
        let holder = Holder { pid: None, command: String::new(), age_s: None };
        assert_eq!(Exit::of_lock(&LockError::Held { holder }).code(), 3);
        let (path, reason, cure) = ("/run/lock/fathom.lock".into(), String::new(), String::new());
        assert_eq!(Exit::of_lock(&LockError::Unusable { path, reason, cure }).code(), 4);
    }

    #[test]
    fn doubtful_results_pass_only_when_asked() {
        let codes = |void_only| {
            [Verdict::Trusted, Verdict::Doubtful, Verdict::Void]
                .map(|verdict| Exit::of_verdict(verdict, void_only).code())
        };
        assert_eq!((codes(false), codes(true)), ([0, 1, 1], [0, 0, 1]));
    }

    #[test]
    fn the_order_is_the_documented_one() {
        let order = [130, 5, 3, 4, 6, 2, 1, 0];
        let mut exits = [
            Exit::Done,
            Exit::Usage,
            Exit::Interrupted,
            Exit::Missing,
            Exit::Doubtful,
            Exit::TargetIo,
            Exit::Internal,
            Exit::Refused,
        ];
        exits.sort_by(|a, b| b.cmp(a));
        assert_eq!(exits.map(Exit::code), order);
    }
}
