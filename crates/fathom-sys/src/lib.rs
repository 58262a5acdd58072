//! The system's edge: the only crate with `unsafe`, system calls, ioctls and kernel file formats.
//!
//! Everything that reads `/sys`, `/proc` or `/dev` does so under a [`sysroot::SysRoot`], so that recorded trees can
//! stand in for a machine.

pub mod devno;
pub mod mounts;
pub mod sysroot;
