//! The settings that are known, in one file for each family.

use crate::knob::Knob;

/// All of them.
pub fn all() -> &'static [Knob] {
    &[]
}
