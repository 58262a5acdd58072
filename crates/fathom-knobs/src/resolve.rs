//! From the words of a plan to settings of places.

use crate::error::KnobError;
use crate::scope::Scope;
use fathom_model::change::knob::KnobPlace;
use fathom_sys::sysroot::SysRoot;
use std::collections::BTreeMap;

/// One setting of one place, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Identifier of the knob; `own.NAME` for those of the user's own.
    pub knob: String,
    /// Of what.
    pub place: KnobPlace,
    /// The value, as it is written.
    pub value: String,
}

/// Settings of all places that the knobs have in the stack, checked against what these accept. `KNOB@sda` means one device,
/// `KNOB@top` the uppermost, `KNOB@members` the disks.
///
/// # Errors
/// [`KnobError`] for a knob that is not known, not set by fathom, or that nothing in the stack has, and for values outside
/// of what the place accepts.
pub fn resolve(
    _root: &SysRoot,
    _scope: &Scope<'_>,
    _knobs: &BTreeMap<String, String>,
) -> Result<Vec<Setting>, KnobError> {
    Ok(Vec::new())
}
