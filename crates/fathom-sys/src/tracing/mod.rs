//! Tracepoints of the kernel, as they are passed.
//!
//! They are recorded in a trace instance that is made for that (`instance`), which a process beside this one removes however this one
//! ends (`guardian`). Where none can be made they come from rings of perf events (`perf`), which end with their descriptors, but
//! in which some kernels leave out what happens in interrupts of an idle processor.

mod guardian;
mod instance;
pub mod left;
mod page;
mod perf;

use crate::tracefs::Tracefs;
pub use guardian::is_guardian;
use instance::Instance;
use perf::Rings;
use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Rings of all processors together have at most this, of one at most and at least that.
const RINGS_BYTES_MAX: usize = 64 << 20;
const RING_BYTES_MAX: usize = 8 << 20;
const RING_BYTES_MIN: usize = 128 << 10;

/// A tracepoint that is to be recorded.
#[derive(Debug, Clone)]
pub struct TracePoint {
    /// Its number.
    pub id: u32,
    /// Its category and name, such as `block/block_rq_issue`.
    pub name: String,
    /// A condition on its fields, such as `dev == 7340032`; all when none.
    pub filter: Option<CString>,
}

/// What a ring holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry<'a> {
    /// A tracepoint was passed.
    Sample(Sample<'a>),
    /// So many records found no room.
    Lost(u64),
}

/// A tracepoint was passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample<'a> {
    /// When, by `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// Who passed it: see [`Recorder::tells_threads`]. 0 for the kernel's idle one.
    pub process: u32,
    /// Its record, as its format describes it.
    pub raw: &'a [u8],
}

/// What somebody else does to what is recorded, the worse the later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Meddling {
    /// Takes records.
    Read,
    /// Throws away all that is there.
    Cleared,
    /// Nothing comes any more, or not all, or what is not asked for.
    SwitchedOff,
}

/// Why recording cannot begin.
#[derive(Debug)]
pub struct OpenError {
    /// The step.
    pub what: &'static str,
    /// The error.
    pub source: io::Error,
}

impl OpenError {
    fn at(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self { what, source }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.source)
    }
}

/// Tracepoints that are recorded until this is dropped or the process ends, however it ends.
pub struct Recorder {
    source: Source,
    /// Why there is no instance.
    without_instance: Option<OpenError>,
    /// Records that were handed out.
    read: u64,
    /// What the rings said that they had no room for.
    told_lost: u64,
    /// The same, and what was written down nowhere, by the kernel's own counts.
    lost: u64,
    /// The worst that was seen.
    meddling: Option<Meddling>,
}

enum Source {
    Instance(Instance),
    Rings(Rings),
}

impl Recorder {
    /// Prepares to record these tracepoints on these processors; nothing is recorded before [`Recorder::start`]. A wait ends early
    /// when a quarter of a ring is full.
    ///
    /// # Errors
    /// EACCES and EPERM for who may not trace, EMFILE; those of rings, when there can be no instance either.
    pub fn open(files: &Tracefs, points: &[TracePoint], cpus: &[u32]) -> Result<Self, OpenError> {
        let share = RINGS_BYTES_MAX / cpus.len().max(1);
        let ring_bytes = 1 << share.clamp(RING_BYTES_MIN, RING_BYTES_MAX).ilog2();
        let (source, without_instance) = match Instance::open(files, points, cpus, ring_bytes) {
            Ok(instance) => (Source::Instance(instance), None),
            Err(error) => (Source::Rings(rings(points, cpus, ring_bytes)?), Some(error)),
        };
        Ok(Self { source, without_instance, read: 0, told_lost: 0, lost: 0, meddling: None })
    }

    /// Why there is no instance, where these are rings of perf events.
    #[must_use]
    pub fn without_instance(&self) -> Option<&OpenError> {
        self.without_instance.as_ref()
    }

    /// True where [`Sample::process`] is the number of a thread, false where it is that of its process.
    #[must_use]
    pub fn tells_threads(&self) -> bool {
        matches!(self.source, Source::Instance(_))
    }

    /// Begins.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn start(&mut self) -> io::Result<()> {
        match &mut self.source {
            Source::Instance(instance) => instance.record(true),
            Source::Rings(rings) => rings.enable(),
        }
    }

    /// Ends; what is in the rings can still be taken.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn stop(&mut self) -> io::Result<()> {
        match &mut self.source {
            Source::Instance(instance) => {
                self.meddling = self.meddling.max(instance.meddling()?);
                instance.record(false)
            }
            Source::Rings(rings) => rings.disable(),
        }
    }

    /// Removes what was made; the name of a trace instance that somebody has open, so that it stays.
    #[must_use]
    pub fn close(self) -> Option<String> {
        match self.source {
            Source::Instance(instance) => instance.close(),
            Source::Rings(_) => None,
        }
    }

    /// Waits at most for `time`, or until `beside` can be read. True when there is much to take, or may be.
    ///
    /// # Errors
    /// Those of poll(2).
    pub fn wait(&mut self, time: Duration, beside: Option<BorrowedFd<'_>>) -> io::Result<bool> {
        match &mut self.source {
            Source::Instance(instance) => instance.wait(time, beside),
            Source::Rings(rings) => rings.wait(time, beside),
        }
    }

    /// Takes all that is in the rings, each processor's in its order. `counts`: what came is held against the kernel's own counts too, so
    /// that what was written down nowhere shows. How many records the rings said that they had no room for.
    ///
    /// # Errors
    /// Those of read(2).
    pub fn take(
        &mut self,
        counts: bool,
        take: &mut impl FnMut(u32, Sample<'_>),
    ) -> io::Result<u64> {
        let (mut read, mut told) = (0, 0);
        let mut each = |cpu, entry: Entry<'_>| match entry {
            Entry::Sample(sample) => {
                read += 1;
                take(cpu, sample);
            }
            Entry::Lost(count) => told += count,
        };
        let missing = match &mut self.source {
            Source::Instance(instance) => {
                instance.drain(&mut each)?;
                // What is overwritten while the other rings are read is told the next time.
                if counts {
                    self.meddling = self.meddling.max(instance.meddling()?);
                    // How many are missing is known of none but those that were read.
                    instance.lost()?.max(u64::from(self.meddling.is_some()))
                } else {
                    0
                }
            }
            Source::Rings(rings) => {
                // Counted before: all of these are in the rings by now, or nowhere.
                let passed = if counts { rings.passed()? } else { 0 };
                rings.drain(&mut each);
                passed.saturating_sub(self.read + read)
            }
        };
        self.read += read;
        self.told_lost += told;
        self.lost = self.lost.max(self.told_lost).max(missing);
        Ok(told)
    }

    /// Records that are lost by now, as far as is known.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// What somebody else has done to it, as far as it was counted, the worst of it when it is more.
    #[must_use]
    pub fn meddling(&self) -> Option<Meddling> {
        self.meddling
    }

    /// Follows a processor that came online, from the moment when it did. False where its ring would have had to be there before.
    pub fn follow(&mut self, cpu: u32) -> bool {
        match &mut self.source {
            Source::Instance(instance) => instance.follow(cpu).is_ok(),
            Source::Rings(_) => false,
        }
    }
}

/// Rings of perf events, as large as may be.
fn rings(points: &[TracePoint], cpus: &[u32], mut ring_bytes: usize) -> Result<Rings, OpenError> {
    loop {
        match Rings::open(points, cpus, ring_bytes) {
            Err(error) if error.is_of_memory() && ring_bytes > RING_BYTES_MIN => ring_bytes /= 2,
            opened => return opened,
        }
    }
}
