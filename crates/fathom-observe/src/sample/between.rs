//! What a device did between two readings of its counters.

use fathom_model::watch::DeviceCounts;
use fathom_sys::diskstats::DiskLine;

/// What happened between two readings of one device; none when the later one is of another device, which began again at
/// zero.
#[must_use]
pub fn between(before: &DiskLine, after: &DiskLine) -> Option<DeviceCounts> {
    (before.devno == after.devno).then(|| DeviceCounts::between(&before.fields, &after.fields))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::watch::FlowCounts;
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
