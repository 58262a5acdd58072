//! io_uring: one ring per thread, with registered files and buffers unless asked otherwise.

use crate::engine::{Engine, Op};
use fathom_model::workload::Job;
use fathom_sys::arena::Arena;
use fathom_sys::request::FileTable;
use fathom_sys::ring::{Registration, Ring, RingFeature, RingOptions};
use std::io;

/// The default engine.
pub struct Uring<'f> {
    ring: Ring<'f>,
}

/// How a job's rings are set up, on a kernel with these features.
pub fn options(job: &Job, features: Vec<RingFeature>) -> RingOptions {
    let registration = match job.registered {
        None => Registration::WherePossible,
        Some(true) => Registration::Must,
        Some(false) => Registration::Never,
    };
    let Job { polled, sqpoll, .. } = *job;
    RingOptions { features, polled, sqpoll, registration, submit_max: job.batch_submit }
}

/// The first setting of a job that only io_uring has.
pub fn setting_of_its_own(job: &Job) -> Option<String> {
    let words = [
        job.polled.then(|| "polled=yes".to_owned()),
        job.sqpoll.then(|| "sqpoll=yes".to_owned()),
        (job.registered == Some(true)).then(|| "registered=yes".to_owned()),
        job.batch_submit.map(|most| format!("batch_submit={most}")),
    ];
    words.into_iter().flatten().next()
}

impl<'f> Uring<'f> {
    /// Makes the ring on the calling thread, which must be the one that uses it.
    pub fn new(files: FileTable<'f>, arena: Arena, options: &RingOptions) -> io::Result<Self> {
        Ok(Self { ring: Ring::new(files, arena, options)? })
    }
}

impl Engine for Uring<'_> {
    const CALL: &'static str = "io_uring_enter";

    fn features(&self) -> Vec<String> {
        self.ring.features().to_vec()
    }

    #[inline]
    fn buffer_mut(&mut self, slot: u32) -> &mut [u8] {
        self.ring.buffer_mut(slot)
    }

    #[inline(always)]
    fn queue(&mut self, slot: u32, file: u32, op: Op) {
        self.ring.queue(slot, file, op);
    }

    #[inline(always)]
    fn queue_reads(&mut self, size_bytes: u32, reads: impl Iterator<Item = (u32, u64)>) {
        self.ring.queue_reads(size_bytes, reads);
    }

    #[inline(always)]
    fn run(&mut self, wait_for: u32) -> io::Result<u32> {
        self.ring.enter(wait_for)
    }

    fn renew_file(&mut self, file: u32) -> io::Result<()> {
        self.ring.renew_file(file)
    }

    fn run_for(&mut self, wait_for: u32, wait_ns: u64) -> io::Result<u32> {
        self.ring.enter_for(wait_for, wait_ns)
    }

    #[inline]
    fn take(&mut self) -> Option<(u32, i32)> {
        self.ring.take()
    }

    #[inline(always)]
    fn take_many(&mut self, ends: &mut [(u32, i32)]) -> usize {
        self.ring.take_many(ends)
    }
}
