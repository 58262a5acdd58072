//! Loads and stores through a mapping: what a database that maps its files does.

use crate::engine::{Engine, Op};
use fathom_sys::arena::Arena;
use fathom_sys::mapping::Mapping;
use fathom_sys::request::{FileTable, as_result, perform};
use std::io;

/// Copies from and to mappings of the files, one request at a time; fdatasync is msync of the whole mapping.
pub struct Mmap<'f> {
    files: FileTable<'f>,
    mappings: Vec<Mapping<'f>>,
    arena: Arena,
    ended: Option<(u32, i32)>,
}

impl<'f> Mmap<'f> {
    /// Maps the first `size_bytes` of each file; an engine of depth 1.
    pub fn new(
        files: FileTable<'f>,
        size_bytes: u64,
        is_writable: bool,
        arena: Arena,
    ) -> io::Result<Self> {
        let map = |file: fathom_sys::request::TargetFile<'f>| {
            Mapping::new(file.fd, size_bytes, is_writable)
        };
        let mappings = files.iter().map(map).collect::<io::Result<Vec<_>>>()?;
        Ok(Self { files, mappings, arena, ended: None })
    }

    #[inline]
    fn perform(&mut self, slot: u32, file: u32, op: Op) -> io::Result<usize> {
        let mapping = &mut self.mappings[file as usize];
        let buffer = self.arena.slot_mut(slot as usize);
        match op {
            Op::Read { offset_bytes, size_bytes } => {
                mapping.read(&mut buffer[..size_bytes as usize], offset_bytes)
            }
            Op::Write { offset_bytes, size_bytes } => {
                mapping.write(&buffer[..size_bytes as usize], offset_bytes)
            }
            Op::Fdatasync => mapping.sync().map(|()| 0),
            // fsync(2) and the rest see what was stored through the mapping.
            other => perform(self.files.get(file), buffer, other),
        }
    }
}

impl Engine for Mmap<'_> {
    const CALL: &'static str = "mmap";
    const SHOWS_END: bool = true;

    fn features(&self) -> Vec<String> {
        vec!["fdatasync_is_msync".to_owned()]
    }

    #[inline]
    fn buffer_mut(&mut self, slot: u32) -> &mut [u8] {
        self.arena.slot_mut(slot as usize)
    }

    /// Does it at once: nothing else could be queued before [`Engine::run`].
    #[inline]
    fn queue(&mut self, slot: u32, file: u32, op: Op) {
        debug_assert!(self.ended.is_none(), "mmap has one request at a time");
        let result = loop {
            match self.perform(slot, file, op) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                outcome => break as_result(outcome),
            }
        };
        self.ended = Some((slot, result));
    }

    #[inline]
    fn run(&mut self, _wait_for: u32) -> io::Result<u32> {
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
