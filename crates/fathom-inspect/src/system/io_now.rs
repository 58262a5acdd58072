//! What devices do at this moment: two looks at their counters.

use fathom_base::order::Order;
use fathom_model::snapshot::Unread;
use fathom_model::system::IoNow;
use fathom_sys::counters::{DiskCounters, disk_counters, disk_lines};
use fathom_sys::sysroot::SysRoot;
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

/// The first of two looks, as long as nobody has ended it by the second.
#[derive(Debug)]
pub struct Look {
    before: Vec<DiskCounters>,
    /// How many lines made no sense.
    nonsense: usize,
    start: Instant,
}

impl Look {
    /// Looks for the first time.
    #[must_use]
    pub fn begin(root: &SysRoot) -> Self {
        let (before, nonsense) = disk_lines(root);
        Self { before, nonsense, start: Instant::now() }
    }

    /// What could not be read, by the first look.
    #[must_use]
    pub fn unread(&self) -> Option<Unread> {
        (self.nonsense > 0).then(|| Unread {
            what: "/proc/diskstats".to_owned(),
            why: format!("unreadable: {} of its lines make no sense", self.nonsense),
        })
    }

    /// Looks again, at least `pause` after the first time: devices other than partitions with I/O in between or in flight
    /// now.
    #[must_use]
    pub fn end(self, root: &SysRoot, pause: Duration) -> Vec<IoNow> {
        thread::sleep(pause.saturating_sub(self.start.elapsed()));
        let (after, passed) = (disk_counters(root), self.start.elapsed());
        let is_whole = |io: &IoNow| root.exists(format!("sys/block/{}", io.name));
        between(&self.before, &after, passed).into_iter().filter(is_whole).collect()
    }
}

/// What happened between two looks, the busiest first; devices that came or went meanwhile are left out.
#[must_use]
pub fn between(before: &[DiskCounters], after: &[DiskCounters], passed: Duration) -> Vec<IoNow> {
    let seconds = passed.as_secs_f64();
    let rate = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    let known: BTreeMap<&str, &DiskCounters> =
        before.iter().map(|then| (then.name.as_str(), then)).collect();
    let both = after.iter().filter_map(|now| Some((*known.get(now.name.as_str())?, now)));
    let mut found: Vec<IoNow> = both
        .map(|(then, now)| {
            let since = |of: fn(&DiskCounters) -> u64| of(now).saturating_sub(of(then));
            let both = |a: u64, b: u64| a.saturating_add(b);
            let sectors = both(since(|c| c.read_sectors), since(|c| c.written_sectors));
            IoNow {
                name: now.name.replace('/', "!"),
                operations_per_s: rate(both(since(|c| c.reads), since(|c| c.writes))),
                bytes_per_s: rate(sectors.saturating_mul(512)),
                in_flight: now.in_flight,
            }
        })
        .filter(|io| io.operations_per_s > 0.0 || io.in_flight > 0)
        .collect();
    found.order_by(|a, b| b.operations_per_s.total_cmp(&a.operations_per_s));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_testkit::Tree;

    fn counters(name: &str, reads: u64, written_sectors: u64, in_flight: u64) -> DiskCounters {
        DiskCounters {
            name: name.into(),
            reads,
            read_sectors: reads * 8,
            writes: 0,
            written_sectors,
            in_flight,
            busy_ms: 0,
            in_flight_ms: None,
            flushes: None,
        }
    }

    #[test]
    fn rates_are_differences_over_the_time_that_passed() {
        let before =
            [counters("sda", 100, 0, 0), counters("sdb", 7, 7, 0), counters("sdc", 5, 0, 0)];
        let after =
            [counters("sda", 150, 0, 2), counters("sdc", 5, 0, 1), counters("sdd", 9, 9, 9)];
        let found = between(&before, &after, Duration::from_millis(500));
        let told: Vec<_> = found
            .iter()
            .map(|io| (io.name.as_str(), io.operations_per_s, io.bytes_per_s, io.in_flight))
            .collect();
        assert_eq!(told, [("sda", 100.0, 409_600.0, 2), ("sdc", 0.0, 0.0, 1)]);
    }

    #[test]
    fn counters_that_went_back_are_no_io() {
        let found = between(
            &[counters("sda", 100, 50, 0)],
            &[counters("sda", 1, 1, 0)],
            Duration::from_secs(1),
        );
        assert_eq!(found, []);
    }

    #[test]
    fn the_pause_is_kept_and_partitions_are_left_out() {
        let line = |name: &str| format!("8 0 {name} 10 1 80 5 20 2 160 9 3 12 14");
        let tree = Tree::new();
        tree.put("proc/diskstats", format!("{}\n{}\n", line("sda"), line("sda1")));
        tree.put("sys/block/sda/size", "1");
        let (look, pause) = (Look::begin(&tree.root()), Duration::from_millis(20));
        let start = look.start;
        let found = look.end(&tree.root(), pause);
        assert!(start.elapsed() >= pause, "{:?}", start.elapsed());
        let told: Vec<_> = found.iter().map(|io| (io.name.as_str(), io.in_flight)).collect();
        assert_eq!(told, [("sda", 3)]);
    }

    #[test]
    fn lines_that_make_no_sense_are_told() {
        let of = |text: &str| {
            let tree = Tree::new();
            tree.put("proc/diskstats", text);
            Look::begin(&tree.root()).unread().map(|unread| unread.why)
        };
        let sound = "8 0 sda 10 1 80 5 20 2 160 9 3 12 14\n";
        assert_eq!(of(sound), None);
        assert_eq!(of(""), None);
        let told = of(&format!("{sound}a b c\n8 0 sdb 10 1 eighty 5 20 2 160 9 3 12 14\n"));
        assert_eq!(told.as_deref(), Some("unreadable: 2 of its lines make no sense"));
    }
}
