//! The system's edge: the only crate with `unsafe`, system calls, ioctls and kernel file formats.
//!
//! Everything that reads `/sys`, `/proc` or `/dev` does so under a [`sysroot::SysRoot`], so that recorded trees can
//! stand in for a machine.

pub mod aio;
pub mod arena;
pub mod ata;
pub mod attribute;
pub mod blkdev;
mod call;
pub mod cgroup;
pub mod cgroup_io;
pub mod child;
pub mod clock;
pub mod counters;
pub mod devno;
pub mod dirents;
pub mod dirfd;
pub mod diskstats;
pub mod dm;
pub mod door;
pub mod family;
pub mod fiemap;
pub mod fork;
pub mod fsinfo;
pub mod holes;
pub mod hostinfo;
pub mod io;
pub mod kmsg;
pub mod loopdev;
pub mod mapping;
pub mod mounts;
pub mod note;
pub mod numa;
pub mod nvme;
pub mod openers;
pub mod pci;
pub mod pressure;
pub mod priority;
pub mod probe;
pub mod process;
pub mod program_marks;
mod read_files;
pub mod remount;
pub mod request;
pub mod ring;
pub mod scsi;
pub mod signals;
pub mod swap;
pub mod sysfs_block;
pub mod sysfs_dir;
pub mod sysroot;
pub mod terminal;
pub mod thermal;
pub mod threads;
pub mod tracefs;
pub mod tracing;
pub mod walked;
