//! Test kit: what a test needs of a real machine, found out first, built, and always put away again.
//!
//! - [`capability`]: what this machine can do; a test that needs more is skipped with the reason, and counted.
//! - [`harness`]: kernel-tier tests, `tests/kernel/main.rs` in the crates that have some.
//! - [`lanes`]: such tests in several processes side by side.
//! - [`scratch`], [`loopdev`], [`mounted`], [`zram`]: things that are taken down when dropped.
//! - [`control_group`]: control groups that allow so many threads or so much memory.
//! - [`no_ring`]: the same command where io_uring is forbidden.
//! - [`guest`]: kernels of their own, for md, LVM, multipath, SCSI and NVMe disks, tracing and power failures.
//! - [`tree`]: machines that were written down.
//! - [`leftovers`]: what a killed test left behind, and its removal.
//! - [`oracle`]: byte-by-byte witnesses of devices and directory trees; a pattern that knows its place.
//!
//! Everything the kit makes lives below, or is backed by a file below, a directory `fathom-testkit-PID-START-*` in the
//! temporary directory. That name alone says what belongs to which test process.

pub mod capability;
pub mod command;
pub mod control_group;
pub mod guest;
pub mod harness;
pub mod lanes;
pub mod leftovers;
pub mod loopdev;
pub mod mounted;
pub mod no_ring;
pub mod oracle;
pub mod scratch;
pub mod tree;
pub mod zram;

pub use capability::Capability;
pub use command::KitError;
pub use control_group::ControlGroup;
pub use guest::{Bus, Guest, GuestError, GuestJob, GuestReport, StepResult};
pub use harness::{
    Judged, Trial, counted, fathom_binary, is_soak, kernel_test, run, run_parallel, sample,
};
pub use lanes::run_lanes;
pub use loopdev::{Content, LoopDevice, LoopOptions};
pub use mounted::{Frozen, FsKind, Mount, MountedElsewhere, MountedFs};
pub use no_ring::without_io_uring;
pub use oracle::{Snapshot, TreeSnapshot};
pub use scratch::Scratch;
pub use tree::Tree;
pub use zram::Zram;
