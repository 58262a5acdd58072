//! The engine trait: how requests reach the kernel and come back.

use std::io;

/// What one request asks of the kernel: the same for every engine, so that io_uring takes it as it is.
pub use fathom_sys::ring::RingOp as Op;

/// A way to issue requests. Each thread owns one; slots are numbered from 0 to the depth.
pub trait Engine {
    /// What is in use, for the record.
    fn features(&self) -> Vec<String>;

    /// The buffer of a slot with no request in flight.
    fn buffer_mut(&mut self, slot: u32) -> &mut [u8];

    /// Takes a request; it need not start before [`Engine::run`].
    fn queue(&mut self, slot: u32, op: Op);

    /// Starts everything queued, waits for at least `wait_for` ends, and says how many can be taken. A time read after
    /// this is later than all of them.
    ///
    /// # Errors
    /// When the way to the kernel itself is broken; errors of single requests are results.
    fn run(&mut self, wait_for: u32) -> io::Result<u32>;

    /// Takes one end as (slot, result): bytes moved, or a negative errno. None when all are taken.
    fn take(&mut self) -> Option<(u32, i32)>;
}
