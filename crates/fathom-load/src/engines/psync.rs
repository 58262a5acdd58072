//! pread, pwrite, fsync: one request at a time, the cheapest way to data that is in the page cache.

use crate::engine::{Engine, Op};
use fathom_sys::arena::Arena;
use fathom_sys::io as sys_io;
use std::io;
use std::os::fd::BorrowedFd;

/// Plain system calls.
pub struct Psync<'f> {
    file: BorrowedFd<'f>,
    arena: Arena,
    pending: Option<(u32, Op)>,
    ended: Option<(u32, i32)>,
}

impl<'f> Psync<'f> {
    /// An engine of depth 1.
    pub fn new(file: BorrowedFd<'f>, arena: Arena) -> Self {
        Self { file, arena, pending: None, ended: None }
    }

    #[inline]
    fn call(&mut self, slot: u32, op: Op) -> io::Result<usize> {
        let buffer = self.arena.slot_mut(slot as usize);
        match op {
            Op::Read { offset_bytes, size_bytes } => {
                sys_io::read_at(self.file, &mut buffer[..size_bytes as usize], offset_bytes)
            }
            Op::Write { offset_bytes, size_bytes } => {
                sys_io::write_at(self.file, &buffer[..size_bytes as usize], offset_bytes)
            }
            Op::Fsync => sys_io::fsync(self.file).map(|()| 0),
            Op::Fdatasync => sys_io::fdatasync(self.file).map(|()| 0),
        }
    }
}

impl Engine for Psync<'_> {
    fn features(&self) -> Vec<String> {
        Vec::new()
    }

    #[inline]
    fn buffer_mut(&mut self, slot: u32) -> &mut [u8] {
        self.arena.slot_mut(slot as usize)
    }

    #[inline]
    fn queue(&mut self, slot: u32, op: Op) {
        debug_assert!(self.pending.is_none(), "psync has one request at a time");
        self.pending = Some((slot, op));
    }

    #[inline]
    fn run(&mut self, _wait_for: u32) -> io::Result<u32> {
        if let Some((slot, op)) = self.pending.take() {
            let result = loop {
                match self.call(slot, op) {
                    Ok(moved) => break moved as i32,
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => break -e.raw_os_error().unwrap_or(5),
                }
            };
            self.ended = Some((slot, result));
        }
        Ok(u32::from(self.ended.is_some()))
    }

    #[inline]
    fn take(&mut self) -> Option<(u32, i32)> {
        self.ended.take()
    }
}
