//! Trees of files, and what is done to them.
//!
//! - [`spec`]: what a tree looks like, every name and size computed from a seed.

pub mod spec;
