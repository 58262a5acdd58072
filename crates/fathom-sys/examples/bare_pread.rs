//! The plainest measured read: one `pread` of 4 KiB after the other at places by chance, a stamp before and after each, and a count for
//! each nanosecond of latency, to which each is added at once.
//!
//! `bare_pread FILE MILLISECONDS`, for `cargo xtask bench`: prints how many reads there were, and how long that took. The file's size
//! is taken down to a power of two.

mod bare;

use fathom_base::clock::Clock;
use fathom_sys::clock::{Calibration, FastClock};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use std::process::ExitCode;
use std::time::Duration;

const BLOCK_BYTES: usize = 4096;
/// Reads between two looks at the time that has passed.
const ROUND: u64 = 1000;
/// Longer ones are counted as this.
const LATENCY_NS_MAX: usize = 1 << 16;

fn measured(file: &str, length: Duration) -> Result<bare::Timed, Errno> {
    let fd = rustix::fs::openat(CWD, file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let size_bytes = u64::try_from(rustix::fs::fstat(&fd)?.st_size).unwrap_or(0);
    let blocks = size_bytes / BLOCK_BYTES as u64;
    let mask = blocks.checked_ilog2().map_or(0, |bits| (1u64 << bits) - 1);
    let clock = FastClock::calibrated(Calibration::begin(), Some("tsc"));
    let mut counts = vec![0u64; LATENCY_NS_MAX + 1];
    let mut buffer = [0; BLOCK_BYTES];
    let mut random = clock.now_ns() | 1;
    let timed = bare::timed(length, || {
        for _ in 0..ROUND {
            // Marsaglia's xorshift: any spread of blocks will do.
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let start_ns = clock.now_ns();
            let bytes = rustix::io::pread(&fd, &mut buffer, (random & mask) * BLOCK_BYTES as u64)?;
            let latency_ns = clock.now_ns().saturating_sub(start_ns) as usize;
            if bytes != BLOCK_BYTES {
                return Err(Errno::IO);
            }
            counts[latency_ns.min(LATENCY_NS_MAX)] += 1;
        }
        Ok(ROUND)
    });
    std::hint::black_box(counts);
    timed
}

fn main() -> ExitCode {
    bare::run("FILE MILLISECONDS", |file, [length]| measured(file, Duration::from_millis(length)))
}
