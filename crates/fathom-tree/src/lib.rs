//! Trees of files, and what is done to them.
//!
//! - [`spec`]: what a tree looks like, every name and size computed from a seed; [`build`] makes it, [`manifest`] is what
//!   proves whose it is, and checks it; [`clean`] removes it. [`scan`] reads real ones.
//! - [`exercise`]: files at random against a model of what they must hold.
//! - [`window`], [`ops`], [`stream`]: exact windows, and what is kept of the operations in them.
//! - [`walk`], [`walk_grow`]: readers and writers of file-server workloads; [`grown`]: what writers made, read back; [`play`]: clients of personalities, and what they left; [`phase`]: many of them, side by side.

pub mod build;
pub mod clean;
pub mod error;
pub mod exercise;
pub mod grown;
pub mod manifest;
mod name;
pub mod ops;
pub mod phase;
pub mod play;
pub mod scan;
pub mod spec;
pub mod stream;
pub mod walk;
pub mod walk_grow;
pub mod window;
