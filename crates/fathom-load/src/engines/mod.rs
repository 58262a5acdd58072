//! The engines, one file each.

pub mod ability;
pub mod libaio;
pub mod mmap;
pub mod null;
pub mod psync;
pub mod uring;

#[cfg(test)]
mod property_tests;
