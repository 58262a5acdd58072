//! What a device did between two readings of its counters.
//!
//! Requests and sectors are counted in 64 bits (in 32 by 32-bit kernels), times in milliseconds of 32 bits: those of a disk that is
//! busy with 64 requests come round in less than a day. A counter that came round was near its end and is near its beginning
//! now; one that is smaller otherwise belongs to another device of the same name, or is one of the times, which the kernel
//! puts together from its processors and which may go back by a little.

use super::{DeviceCounts, FlowCounts};

/// Fields of a device in /proc/diskstats.
const FIELDS: usize = 17;
/// Fields that are milliseconds.
const TIMES: [usize; 6] = [3, 7, 9, 10, 14, 16];
/// The one that is a reading and no counter.
const IN_FLIGHT: usize = 8;

impl DeviceCounts {
    /// What happened between two readings of the fields of a device, in the order of /proc/diskstats; none when it began again at
    /// zero: it is another one then.
    #[must_use]
    pub fn between(before: &[u64; FIELDS], after: &[u64; FIELDS]) -> Option<Self> {
        let mut since = [0u64; FIELDS];
        for (at, since) in since.iter_mut().enumerate() {
            *since = match forward(before[at], after[at]) {
                _ if at == IN_FLIGHT => in_flight(after[at]),
                Some(step) => step,
                None if TIMES.contains(&at) => 0,
                None => return None,
            };
        }
        let flow = |at: usize| FlowCounts {
            requests: since[at],
            merged: since[at + 1],
            sectors: since[at + 2],
            took_ms: since[at + 3],
        };
        Some(DeviceCounts {
            reads: flow(0),
            writes: flow(4),
            discards: flow(11),
            flushes: since[15],
            flush_ms: since[16],
            busy_ms: since[9],
            queued_ms: since[10],
            in_flight: since[IN_FLIGHT],
        })
    }
}

/// How far a counter went, over its end too; none when it went back.
fn forward(before: u64, after: u64) -> Option<u64> {
    if after >= before {
        return Some(after - before);
    }
    [32, 64].into_iter().find_map(|bits: u32| {
        let quarter = 1u64 << (bits - 2);
        let end = u64::MAX >> (64 - bits);
        let came_round = before <= end && before >= end - quarter && after < quarter;
        came_round.then(|| after.wrapping_sub(before) & end)
    })
}

/// Some kernels count one too few for a while, which shows as a number near the end of the range.
fn in_flight(count: u64) -> u64 {
    if count < 1 << 31 { count } else { 0 }
}
