//! What stands between a measurement and somebody's data.
//!
//! - [`claim`]: the one way to write to a block device; [`refusal`] says why not.
//! - [`protected`], [`relations`], [`exports`], [`backing`]: who uses the device, directly or through a file behind it.
//! - [`ownership`]: files and directories that fathom made, the only ones it writes to; [`journal`] remembers them
//!   and the [`filesystem`] that they are on, [`leftovers`] removes those of dead owners, [`kept`] takes up again what was kept; [`mark`] and [`content`] tell what
//!   fathom wrote from what came later.
//! - [`private`]: directories of applications that fathom starts, which go with all that is in them.
//! - [`changes`]: the journal of changed settings and built things, [`file_at`] finds files of another mount namespace again; [`faults`] are the places at which tests break it off.
//! - [`lock`]: one measurement at a time on a machine.

pub mod backing;
pub mod changes;
pub mod claim;
pub mod content;
pub mod exports;
pub mod faults;
pub mod file_at;
pub mod filesystem;
pub mod grove;
pub mod journal;
pub mod kept;
pub mod leftovers;
pub mod lock;
pub mod mark;
pub mod names;
pub mod ownership;
pub mod place;
pub mod private;
pub mod protected;
pub mod refusal;
pub mod relations;
pub mod target;
pub mod tree;

pub use claim::{Claim, Consent, claim_block_device, claim_ours};
pub use filesystem::FilesystemId;
pub use grove::OwnedGrove;
pub use kept::{KeptFile, open_owned_for_write};
pub use leftovers::{Outcome, Report};
pub use lock::{LockError, MeasuringLock};
pub use names::{NamesDir, OwnedNames, TestName};
pub use ownership::{OwnedDir, OwnedFile};
pub use place::{FileRefusal, check_space};
pub use private::PrivateDir;
pub use protected::Protected;
pub use refusal::Refusal;
pub use relations::mounted_above;
pub use tree::OwnedTree;
