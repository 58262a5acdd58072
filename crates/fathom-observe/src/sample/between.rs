//! What a device did between two readings of its counters.
//!
//! Requests and sectors are counted in 64 bits (in 32 by 32-bit kernels), times in milliseconds of 32 bits: those of a disk that is
//! busy with 64 requests come round in less than a day. A counter that came round was near its end and is near its beginning
//! now; one that is smaller otherwise belongs to another device of the same name, or is one of the times, which the kernel
//! puts together from its processors and which may go back by a little.

use fathom_model::watch::{DeviceCounts, FlowCounts};
use fathom_sys::diskstats::{DiskLine, FIELDS};

/// Fields that are milliseconds.
const TIMES: [usize; 6] = [3, 7, 9, 10, 14, 16];
/// The one that is a reading and no counter.
const IN_FLIGHT: usize = 8;

/// What happened between two readings of one device; none when the later one is of another device, which began again at
/// zero.
#[must_use]
pub fn between(before: &DiskLine, after: &DiskLine) -> Option<DeviceCounts> {
    if before.devno != after.devno {
        return None;
    }
    let mut since = [0u64; FIELDS];
    for (at, since) in since.iter_mut().enumerate() {
        *since = match forward(before.fields[at], after.fields[at]) {
            _ if at == IN_FLIGHT => in_flight(after.fields[at]),
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

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_sys::diskstats::parse;

    fn line(text: &str) -> DiskLine {
        parse(text).expect("a line")
    }

    fn with(at: usize, value: u64) -> DiskLine {
        let mut line =
            line("8 0 sda 500 50 8000 900 300 30 4000 700 2 1000 2000 40 4 800 60 20 10");
        line.fields[at] = value;
        line
    }

    #[test]
    fn kernels_of_three_ages() {
        // A disk under load, one second apart; the fields that a kernel does not have are zero.
        let before = "259 0 nvme0n1 154781 42 9906321 31022 88122 1190 5512344 91234 3 40120 122304 9001 0 72000 410 3301 1210";
        let after = "259 0 nvme0n1 164781 52 9986321 33022 90122 1200 5528344 99234 7 41118 132404 9011 0 72080 430 3311 1260";
        let words = |text: &str, known: usize| {
            text.split(' ').take(3 + known).collect::<Vec<_>>().join(" ")
        };
        for known in [11, 15, 17] {
            let found = between(&line(&words(before, known)), &line(&words(after, known)));
            let found = found.expect("the same device");
            let reads = FlowCounts { requests: 10_000, merged: 10, sectors: 80_000, took_ms: 2000 };
            let writes = FlowCounts { requests: 2000, merged: 10, sectors: 16_000, took_ms: 8000 };
            assert_eq!((found.reads, found.writes), (reads, writes));
            assert_eq!((found.busy_ms, found.queued_ms, found.in_flight), (998, 10_100, 7));
            let discards = FlowCounts { requests: 10, merged: 0, sectors: 80, took_ms: 20 };
            assert_eq!(found.discards, if known > 11 { discards } else { FlowCounts::default() });
            assert_eq!((found.flushes, found.flush_ms), if known > 15 { (10, 50) } else { (0, 0) });
        }
    }

    #[test]
    fn times_come_round_in_32_bits() {
        let (before, after) = (with(10, u64::from(u32::MAX) - 99), with(10, 900));
        assert_eq!(between(&before, &after).expect("the same").queued_ms, 1000);
        let (before, after) = (with(3, u64::from(u32::MAX)), with(3, 0));
        assert_eq!(between(&before, &after).expect("the same").reads.took_ms, 1);
    }

    #[test]
    fn counts_come_round_in_32_and_64_bits() {
        let (before, after) = (with(2, u64::from(u32::MAX) - 7), with(2, 8));
        assert_eq!(between(&before, &after).expect("the same").reads.sectors, 16);
        let (before, after) = (with(6, u64::MAX - 1), with(6, 2));
        assert_eq!(between(&before, &after).expect("the same").writes.sectors, 4);
    }

    #[test]
    fn a_device_that_began_anew_is_another_one() {
        assert_eq!(between(&with(0, 501), &with(0, 12)), None);
        let mut other = with(0, 600);
        other.devno.minor += 16;
        assert_eq!(between(&with(0, 500), &other), None);
    }

    #[test]
    fn a_time_that_went_back_a_little_stands_still() {
        let found = between(&with(10, 2000), &with(10, 1996)).expect("the same device");
        assert_eq!(found.queued_ms, 0);
        assert_eq!(between(&with(8, 2), &with(8, u64::MAX)).expect("the same").in_flight, 0);
    }
}
