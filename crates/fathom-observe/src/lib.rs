//! What devices, processors, memory and applications do while somebody else works.
//!
//! Two ways to look: samples of counters once in a while (`sample`), and every single request (`trace`). Nothing here makes
//! I/O on a device that is watched.

pub mod sample;
pub mod trace;
