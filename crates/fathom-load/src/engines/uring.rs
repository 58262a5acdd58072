//! io_uring: one ring per thread, registered file and buffers.

use crate::engine::{Engine, Op};
use fathom_sys::arena::Arena;
use fathom_sys::ring::{Ring, RingFeature};
use std::io;
use std::os::fd::BorrowedFd;

/// The default engine.
pub struct Uring {
    ring: Ring,
}

impl Uring {
    /// Makes the ring on the calling thread, which must be the one that uses it.
    pub fn new(file: BorrowedFd<'_>, arena: Arena, features: &[RingFeature]) -> io::Result<Self> {
        Ok(Self { ring: Ring::new(file, arena, features)? })
    }
}

impl Engine for Uring {
    fn features(&self) -> Vec<String> {
        self.ring.features().iter().map(|f| (*f).to_owned()).collect()
    }

    #[inline]
    fn buffer_mut(&mut self, slot: u32) -> &mut [u8] {
        self.ring.buffer_mut(slot)
    }

    #[inline]
    fn queue(&mut self, slot: u32, op: Op) {
        self.ring.queue(slot, op);
    }

    #[inline]
    fn run(&mut self, wait_for: u32) -> io::Result<u32> {
        self.ring.enter(wait_for)
    }

    #[inline]
    fn take(&mut self) -> Option<(u32, i32)> {
        self.ring.take()
    }
}
