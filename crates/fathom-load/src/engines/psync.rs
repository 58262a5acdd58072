//! pread, pwrite, fsync: one request at a time, the cheapest way to data that is in the page cache.

use crate::engine::{Engine, Op};
use fathom_sys::arena::Arena;
use fathom_sys::request::{FileTable, as_result, perform};
use std::io;

/// Plain system calls.
pub struct Psync<'f> {
    files: FileTable<'f>,
    arena: Arena,
    /// Slot, file and what to do.
    queued: Option<(u32, u32, Op)>,
    ended: Option<(u32, i32)>,
}

impl<'f> Psync<'f> {
    /// An engine of depth 1.
    pub fn new(files: FileTable<'f>, arena: Arena) -> Self {
        Self { files, arena, queued: None, ended: None }
    }

    /// The call stands here, in the loop itself, and not where requests are made: see [`fathom_sys::request::perform`].
    #[inline(always)]
    fn perform(&mut self, slot: u32, file: u32, op: Op) -> i32 {
        let file = self.files.get(file);
        let buffer = self.arena.slot_mut(slot as usize);
        loop {
            match perform(file, buffer, op) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                outcome => break as_result(outcome),
            }
        }
    }
}

impl Engine for Psync<'_> {
    const CALL: &'static str = "pread or pwrite";
    const SHOWS_END: bool = true;

    #[inline]
    fn buffer_mut(&mut self, slot: u32) -> &mut [u8] {
        self.arena.slot_mut(slot as usize)
    }

    /// As [`Engine::queue`] and [`Engine::run`] do it, without a stop in memory.
    #[inline(always)]
    fn read_next(&mut self, offset_bytes: u64, size_bytes: u32) -> io::Result<Option<i32>> {
        let result = self.perform(0, 0, Op::Read { offset_bytes, size_bytes });
        self.ended = Some((0, result));
        Ok(Some(result))
    }

    #[inline(always)]
    fn queue(&mut self, slot: u32, file: u32, op: Op) {
        debug_assert!(self.queued.is_none(), "psync has one request at a time");
        self.queued = Some((slot, file, op));
    }

    #[inline(always)]
    fn run(&mut self, _wait_for: u32) -> io::Result<u32> {
        if let Some((slot, file, op)) = self.queued.take() {
            self.ended = Some((slot, self.perform(slot, file, op)));
        }
        Ok(u32::from(self.ended.is_some()))
    }

    #[inline]
    fn take(&mut self) -> Option<(u32, i32)> {
        self.ended.take()
    }

    #[inline(always)]
    fn shown(&self) -> Option<i32> {
        self.ended.map(|(_, result)| result)
    }
}
