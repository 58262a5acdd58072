//! The engine trait: how requests reach the kernel and come back.

use std::io;

/// What one request asks of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Read into the slot's buffer.
    Read {
        /// Where, in bytes.
        offset_bytes: u64,
        /// How much.
        size_bytes: u32,
    },
    /// Write from the slot's buffer.
    Write {
        /// Where, in bytes.
        offset_bytes: u64,
        /// How much.
        size_bytes: u32,
    },
    /// fsync(2).
    Fsync,
    /// fdatasync(2).
    Fdatasync,
}

/// A way to issue requests. Each thread owns one; slots are numbered from 0 to the depth.
pub trait Engine {
    /// What is in use, for the record.
    fn features(&self) -> Vec<String>;

    /// The buffer of a slot with no request in flight.
    fn buffer_mut(&mut self, slot: u32) -> &mut [u8];

    /// Takes a request; it need not start before [`Engine::run`].
    fn queue(&mut self, slot: u32, op: Op);

    /// Starts everything queued, waits for at least `wait_for` ends, and reports each end as (slot, result): bytes
    /// moved, or a negative errno.
    ///
    /// # Errors
    /// When the way to the kernel itself is broken; errors of single requests are results.
    fn run(&mut self, wait_for: u32, done: &mut impl FnMut(u32, i32)) -> io::Result<()>;
}
