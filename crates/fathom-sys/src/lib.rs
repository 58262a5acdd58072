//! The system's edge: the only crate with `unsafe`, system calls, ioctls and kernel file formats.
//!
//! Everything that reads `/sys`, `/proc` or `/dev` does so under a [`sysroot::SysRoot`], so that recorded trees can
//! stand in for a machine.

pub mod arena;
pub mod blkdev;
pub mod cgroup;
pub mod clock;
pub mod counters;
pub mod devno;
pub mod dirfd;
pub mod dm;
pub mod fiemap;
pub mod fsinfo;
pub mod hostinfo;
pub mod io;
pub mod loopdev;
pub mod mounts;
pub mod openers;
pub mod probe;
pub mod process;
pub mod ring;
pub mod signals;
pub mod sysfs_block;
pub mod sysroot;
pub mod threads;
