//! What stands between a measurement and somebody's data.
//!
//! - [`claim`]: the one way to write to a block device; [`refusal`] says why not.
//! - [`protected`], [`relations`], [`exports`], [`backing`]: who uses the device, directly or through a file behind it.
//! - [`ownership`]: files and directories that fathom made, the only ones it writes to; [`journal`] remembers them,
//!   [`leftovers`] removes those of dead owners; [`content`] tells what fathom wrote from what was copied in later.
//! - [`lock`]: one measurement at a time on a machine.

pub mod backing;
pub mod claim;
pub mod content;
pub mod exports;
pub mod journal;
pub mod leftovers;
pub mod lock;
pub mod mark;
pub mod ownership;
pub mod place;
pub mod protected;
pub mod refusal;
pub mod relations;
pub mod target;

pub use claim::{Claim, Consent, claim_block_device};
pub use leftovers::{Outcome, Report};
pub use lock::{LockError, MeasuringLock};
pub use ownership::{OwnedDir, OwnedFile, open_owned_for_write};
pub use place::{FileRefusal, check_space};
pub use protected::Protected;
pub use refusal::Refusal;
pub use relations::mounted_above;
