//! io_uring: one ring per thread, registered file and buffers.

use crate::engine::{Engine, Op};
use fathom_sys::arena::Arena;
use fathom_sys::ring::{Ring, RingFeature, RingOp};
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
        self.ring.queue(
            slot,
            match op {
                Op::Read { offset_bytes, size_bytes } => RingOp::Read { offset_bytes, size_bytes },
                Op::Write { offset_bytes, size_bytes } => {
                    RingOp::Write { offset_bytes, size_bytes }
                }
                Op::Fsync => RingOp::Fsync,
                Op::Fdatasync => RingOp::Fdatasync,
            },
        );
    }

    #[inline]
    fn run(&mut self, wait_for: u32, done: &mut impl FnMut(u32, i32)) -> io::Result<()> {
        self.ring.enter(wait_for, done)
    }
}
