//! Linux asynchronous I/O: one context per thread.

use crate::engine::{Engine, Op};
use fathom_sys::aio::Aio;
use fathom_sys::arena::Arena;
use fathom_sys::request::FileTable;
use std::io;

/// io_submit and io_getevents. Buffered requests are synchronous there: [`Engine::features`] says what was seen.
pub struct Libaio<'f> {
    aio: Aio<'f>,
    submit_max: Option<u32>,
}

impl<'f> Libaio<'f> {
    /// Makes the context, of which the system has a limited number (`fs.aio-max-nr`).
    pub fn new(files: FileTable<'f>, arena: Arena, submit_max: Option<u32>) -> io::Result<Self> {
        Ok(Self { aio: Aio::new(files, arena, submit_max)?, submit_max })
    }
}

impl Engine for Libaio<'_> {
    const CALL: &'static str = "io_submit or io_getevents";

    fn features(&self) -> Vec<String> {
        let reaping = self.aio.reaps_itself().then(|| "user_space_reaping".to_owned());
        let submit = self.submit_max.map(|most| format!("batch_submit={most}"));
        // A device may now and then end a request before the call returns.
        let nature = self.aio.ended_at_hand_over().map(|share| {
            let word = if share < 0.5 { "asynchronous" } else { "synchronous" };
            format!("{word}: {:.0} % had ended when io_submit returned", share * 100.0)
        });
        reaping.into_iter().chain(submit).chain(nature).collect()
    }

    #[inline]
    fn buffer_mut(&mut self, slot: u32) -> &mut [u8] {
        self.aio.buffer_mut(slot)
    }

    #[inline]
    fn queue(&mut self, slot: u32, file: u32, op: Op) {
        self.aio.queue(slot, file, op);
    }

    #[inline(always)]
    fn run(&mut self, wait_for: u32) -> io::Result<u32> {
        self.aio.enter(wait_for)
    }

    fn run_for(&mut self, wait_for: u32, wait_ns: u64) -> io::Result<u32> {
        self.aio.enter_for(wait_for, wait_ns)
    }

    #[inline]
    fn take(&mut self) -> Option<(u32, i32)> {
        self.aio.take()
    }
}
