//! Nothing: every request ends at once and successfully. What remains is the cost of fathom itself.

use crate::engine::{Engine, Op};
use fathom_sys::arena::Arena;
use std::io;

/// The engine that measures fathom.
pub struct Null {
    arena: Arena,
    queued: Vec<(u32, i32)>,
    ended: Vec<(u32, i32)>,
}

impl Null {
    /// An engine with one slot per buffer.
    pub fn new(arena: Arena) -> Self {
        let room = || Vec::with_capacity(arena.slots());
        let (queued, ended) = (room(), room());
        Self { arena, queued, ended }
    }
}

impl Engine for Null {
    const CALL: &'static str = "null";

    #[inline]
    fn buffer_mut(&mut self, slot: u32) -> &mut [u8] {
        self.arena.slot_mut(slot as usize)
    }

    #[inline]
    fn queue(&mut self, slot: u32, _file: u32, op: Op) {
        self.queued.push((slot, op.moved_bytes() as i32));
    }

    #[inline(always)]
    fn run(&mut self, _wait_for: u32) -> io::Result<u32> {
        debug_assert!(self.ended.is_empty(), "every end is taken before more are asked for");
        std::mem::swap(&mut self.queued, &mut self.ended);
        Ok(self.ended.len() as u32)
    }

    #[inline]
    fn take(&mut self) -> Option<(u32, i32)> {
        self.ended.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sync that follows a write within its slot must not end in the write's own batch.
    #[test]
    fn what_is_queued_while_ends_are_taken_belongs_to_the_next_batch() {
        let mut engine = Null::new(Arena::new(2, 4096).unwrap());
        engine.queue(0, 0, Op::Write { offset_bytes: 0, size_bytes: 512 });
        engine.queue(1, 0, Op::Read { offset_bytes: 0, size_bytes: 4096 });
        assert_eq!(engine.run(1).unwrap(), 2);
        let first = engine.take().unwrap();
        engine.queue(0, 0, Op::Fsync);
        let second = engine.take().unwrap();
        let mut ended = [first, second];
        ended.sort_unstable();
        assert_eq!((ended, engine.take()), ([(0, 512), (1, 4096)], None));
        assert_eq!((engine.run(1).unwrap(), engine.take()), (1, Some((0, 0))));
    }
}
