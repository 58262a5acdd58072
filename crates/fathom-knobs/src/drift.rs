//! Whether settings are still what they were set to, and what could not be put back exactly.

use crate::resolve::Setting;
use fathom_model::change::knob::KnobPlace;
use fathom_model::plan::OwnKnob;
use fathom_sys::sysroot::SysRoot;

/// A setting that is not what it was set to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    /// The knob.
    pub knob: String,
    /// Of what.
    pub place: KnobPlace,
    /// What it was set to.
    pub asked: String,
    /// What it is now; none when it cannot be read any more.
    pub now: Option<String>,
}

/// What differs from what was set; empty when nobody interfered.
#[must_use]
pub fn drift(_root: &SysRoot, _settings: &[Setting], _own: &[OwnKnob]) -> Vec<Drift> {
    Vec::new()
}

/// What of the present state could not be put back exactly after these settings, one sentence each.
#[must_use]
pub fn unrestorable(_root: &SysRoot, _settings: &[Setting]) -> Vec<String> {
    Vec::new()
}
