//! Nothing: every request ends at once and successfully. What remains is the cost of fathom itself.

use crate::engine::{Engine, Op};
use fathom_sys::arena::Arena;
use std::io;

/// The engine that measures fathom.
pub struct Null {
    arena: Arena,
    queued: Vec<(u32, i32)>,
}

impl Null {
    /// An engine with one slot per buffer.
    pub fn new(arena: Arena) -> Self {
        let queued = Vec::with_capacity(arena.slots());
        Self { arena, queued }
    }
}

impl Engine for Null {
    fn features(&self) -> Vec<String> {
        Vec::new()
    }

    #[inline]
    fn buffer_mut(&mut self, slot: u32) -> &mut [u8] {
        self.arena.slot_mut(slot as usize)
    }

    #[inline]
    fn queue(&mut self, slot: u32, op: Op) {
        let result = match op {
            Op::Read { size_bytes, .. } | Op::Write { size_bytes, .. } => size_bytes as i32,
            Op::Fsync | Op::Fdatasync => 0,
        };
        self.queued.push((slot, result));
    }

    #[inline]
    fn run(&mut self, _wait_for: u32, done: &mut impl FnMut(u32, i32)) -> io::Result<()> {
        self.queued.drain(..).for_each(|(slot, result)| done(slot, result));
        Ok(())
    }
}
