//! Settings of kernel, devices, arrays and mounts: which there are, what they may be, and how they are changed so that they can
//! always be put back.
//!
//! - [`knob`] says what is known of a setting, [`all`] and [`find`] look it up in the tables by family; old names are understood.
//! - [`scope`]: where the settings of an experiment apply; [`resolve`] makes them into [`Setting`]s, checked against what the
//!   devices there accept.
//! - [`apply`] notes everything that a write can change in the journal, writes in the order that the kernel's couplings demand, reads
//!   back and compares. [`undo`] takes back, [`unrestorable`] says before what cannot be put back exactly; [`current`] and
//!   [`is_as_asked`] tell whether somebody else interfered with a setting, and [`watched`] is what nobody set and may be interfered with, too.
//! - [`persist`]: the text that makes a setting survive a boot. fathom prints it, and never installs it.

mod apply;
mod drift;
pub mod error;
pub mod knob;
pub mod legal;
mod mounted;
mod names;
mod oldest;
mod own;
pub mod persist;
mod resolve;
pub mod scope;
mod settle;
mod site;
mod table;
mod undo;
mod watch;

pub use apply::{Applied, SCHEDULER, apply, follows_scheduler};
pub use drift::{check_own, current, is_as_asked, read_only_at, read_own, unrestorable};
pub use error::KnobError;
pub use knob::Knob;
pub use legal::check_value;
pub use names::{OldName, all, find, old_names, old_value, word_of};
pub use own::Wait;
pub use resolve::{Setting, resolve};
pub use scope::{Scope, ScopeDevice, ScopeMount};
pub use site::{places, read};
pub use undo::{Foreign, Undo, undo};
pub use watch::watched;
