//! Live views of measurements: what is known of one, fed by events, and how that looks on a terminal.
//!
//! - [`state`]: what is known, from the events alone. It can be sent to somebody who looks in later.
//! - [`view`]: a state as cells of a screen of any size, with or without colour and Unicode.
//! - [`watch`]: the same for a watch, whose state is its intervals.
//! - [`dialog`]: what keys do.
//! - [`paint`]: cells as what is written to a terminal.
//!
//! Everything here is a function of its arguments: no terminal is touched, no clock is read. The edge that owns the terminal
//! is in the binary.

pub mod dialog;
pub mod paint;
mod parts;
pub mod state;
pub mod view;
pub mod watch;
