//! The system's edge: the only crate with `unsafe`, system calls, ioctls and kernel file formats.
//!
//! Everything that reads `/sys`, `/proc` or `/dev` does so under a [`sysroot::SysRoot`], so that recorded trees can
//! stand in for a machine.

pub mod arena;
pub mod cgroup;
pub mod clock;
pub mod ring;
pub mod counters;
pub mod io;
pub mod signals;
pub mod threads;
pub mod devno;
pub mod dm;
pub mod fiemap;
pub mod fsinfo;
pub mod hostinfo;
pub mod mounts;
pub mod sysfs_block;
pub mod sysroot;
pub mod blkdev;
pub mod dirfd;
pub mod loopdev;
pub mod openers;
pub mod probe;
pub mod process;
