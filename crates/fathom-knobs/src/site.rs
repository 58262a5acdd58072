//! Where a setting of a place is to be found now.

use crate::error::KnobError;
use crate::knob::Knob;
use crate::scope::Scope;
use fathom_model::change::knob::KnobPlace;
use fathom_sys::sysroot::SysRoot;

/// The value now, in the form in which it is written.
///
/// # Errors
/// [`KnobError::Read`], [`KnobError::Unknown`].
pub fn read(_root: &SysRoot, _place: &KnobPlace, id: &str) -> Result<String, KnobError> {
    Err(KnobError::Unknown { name: id.to_owned(), hint: String::new() })
}

/// The places of the scope that have the setting.
#[must_use]
pub fn places(_root: &SysRoot, _scope: &Scope<'_>, _knob: &Knob) -> Vec<KnobPlace> {
    Vec::new()
}
