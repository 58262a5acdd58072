//! Every single request of a block device, as the kernel's tracepoints tell it.
//!
//! Events come from a file of ours (`file`), into which those of the kernel are written (`live`), or from files of blktrace and blkparse,
//! always as the same stream of [`event::Event`] ordered by time, and in constant memory. `flight` puts them together to requests.

pub mod blkparse;
pub mod blktrace;
pub(crate) mod doubt;
pub mod event;
pub mod file;
pub mod flight;
pub mod joined;
pub(crate) mod layout;
pub mod live;
mod numbers;
pub mod open;
mod refused;
pub mod requests;
pub mod so_far;
pub mod study;
mod threads;
mod transcript;
