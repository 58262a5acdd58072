//! How requests of a replay reach the kernel: by io_uring, or by libaio where a ring is not to be had.

use super::{ReplayError, at};
use crate::engine::{Engine, Op};
use crate::engines::libaio::Libaio;
use crate::engines::uring::Uring;
use fathom_sys::arena::Arena;
use fathom_sys::request::FileTable;
use fathom_sys::ring::{Registration, RingOptions};
use std::io;

/// One of the two, with calls as [`Engine`] has them.
pub(super) enum Way<'f> {
    Ring(Uring<'f>),
    Aio(Libaio<'f>),
}

impl<'f> Way<'f> {
    pub(super) fn new(
        table: FileTable<'f>,
        arena: Arena,
        with_ring: bool,
    ) -> Result<Self, ReplayError> {
        if !with_ring {
            let context = Libaio::new(table, arena, None);
            return context.map(Self::Aio).map_err(at("setting up libaio (fs.aio-max-nr)"));
        }
        let options = RingOptions {
            features: Vec::new(),
            polled: false,
            sqpoll: false,
            registration: Registration::Never,
            submit_max: None,
        };
        Uring::new(table, arena, &options).map(Self::Ring).map_err(at("setting up io_uring"))
    }

    /// The call that is named when the way itself is broken.
    pub(super) fn call(&self) -> &'static str {
        match self {
            Self::Ring(_) => Uring::CALL,
            Self::Aio(_) => Libaio::CALL,
        }
    }

    pub(super) fn buffer_mut(&mut self, slot: u32) -> &mut [u8] {
        match self {
            Self::Ring(ring) => ring.buffer_mut(slot),
            Self::Aio(aio) => aio.buffer_mut(slot),
        }
    }

    pub(super) fn queue(&mut self, slot: u32, op: Op) {
        match self {
            Self::Ring(ring) => ring.queue(slot, 0, op),
            Self::Aio(aio) => aio.queue(slot, 0, op),
        }
    }

    /// All that ended is taken before the next call.
    pub(super) fn run(&mut self, wait_for: u32) -> io::Result<u32> {
        match self {
            Self::Ring(ring) => ring.run(wait_for),
            Self::Aio(aio) => aio.run(wait_for),
        }
    }

    pub(super) fn run_for(&mut self, wait_for: u32, wait_ns: u64) -> io::Result<u32> {
        match self {
            Self::Ring(ring) => ring.run_for(wait_for, wait_ns),
            Self::Aio(aio) => aio.run_for(wait_for, wait_ns),
        }
    }

    pub(super) fn take(&mut self) -> Option<(u32, i32)> {
        match self {
            Self::Ring(ring) => ring.take(),
            Self::Aio(aio) => aio.take(),
        }
    }
}
