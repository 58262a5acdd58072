//! The machine between two looks.

use fathom_model::watch::HostSample;
use fathom_sys::pressure::{self, Pages, Pressure, Processors};
use fathom_sys::sysroot::SysRoot;

/// One look.
#[derive(Debug, Clone, Default)]
pub(super) struct Look {
    pub(super) processors: Processors,
    pages: Pages,
    pressure: [Option<Pressure>; 3],
}

impl Look {
    /// What cannot be read, as without a free descriptor, stands still: all since boot would belong to the interval after it.
    pub(super) fn take(root: &SysRoot, lines: &[u32], before: &Self) -> Self {
        let mut look = Self {
            processors: pressure::processors(root, lines),
            pages: pressure::pages(root),
            pressure: ["io", "memory", "cpu"].map(|of| pressure::pressure(root, of)),
        };
        if look.processors.user + look.processors.system + look.processors.idle == 0 {
            look.processors.clone_from(&before.processors);
        }
        if look.pages == Pages::default() {
            look.pages = before.pages;
        }
        look
    }

    /// What happened since an earlier one.
    pub(super) fn since(&self, before: &Self, length_ns: u64) -> HostSample {
        let (then, now) = (&before.processors, &self.processors);
        let ticks = |of: fn(&Processors) -> u64| of(now).saturating_sub(of(then));
        let all = [
            ticks(|p| p.user),
            ticks(|p| p.system),
            ticks(|p| p.idle),
            ticks(|p| p.iowait),
            ticks(|p| p.steal),
        ];
        let total = all.iter().sum::<u64>().max(1) as f64;
        let seconds = (length_ns as f64 / 1e9).max(1e-9);
        let pressure = |at: usize| {
            let (then, now) = before.pressure[at].zip(self.pressure[at])?;
            let share = |a: u64, b: u64| b.saturating_sub(a) as f64 * 1e3 / length_ns.max(1) as f64;
            Some((share(then.some_us, now.some_us), share(then.full_us, now.full_us)))
        };
        HostSample {
            user_share: all[0] as f64 / total,
            system_share: all[1] as f64 / total,
            iowait_share: all[3] as f64 / total,
            steal_share: all[4] as f64 / total,
            dirty_bytes: self.pages.dirty_bytes,
            writeback_bytes: self.pages.writeback_bytes,
            available_bytes: self.pages.available_bytes,
            io_pressure: pressure(0),
            memory_pressure: pressure(1),
            cpu_pressure: pressure(2),
            interrupts_per_s: ticks(|p| p.interrupts) as f64 / seconds,
            context_switches_per_s: ticks(|p| p.context_switches) as f64 / seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_testkit::Tree;

    #[test]
    fn shares_of_an_interval() {
        let tree = Tree::new();
        let root = tree.root();
        tree.put("proc/stat", "cpu  100 0 50 800 50 0 0 0\nintr 1000 5\nctxt 500\n");
        tree.put("proc/pressure/io", "some avg10=0 total=1000\nfull avg10=0 total=0\n");
        let before = Look::take(&root, &[], &Look::default());
        tree.put("proc/stat", "cpu  150 0 70 890 80 0 0 10\nintr 3000 5\nctxt 1500\n");
        tree.put("proc/pressure/io", "some avg10=0 total=501000\nfull avg10=0 total=200000\n");
        tree.put("proc/meminfo", "Dirty: 12 kB\nWriteback: 4 kB\nMemAvailable: 1024 kB\n");
        let found = Look::take(&root, &[], &before).since(&before, 2_000_000_000);
        assert_eq!((found.user_share, found.system_share), (0.25, 0.1));
        assert_eq!((found.iowait_share, found.steal_share), (0.15, 0.05));
        assert_eq!((found.io_pressure, found.memory_pressure), (Some((0.25, 0.1)), None));
        assert_eq!((found.interrupts_per_s, found.context_switches_per_s), (1000.0, 500.0));
        assert_eq!((found.dirty_bytes, found.writeback_bytes), (12_288, 4096));
        // Where nothing can be read, nothing has happened, then or since boot.
        let seen = Look::take(&root, &[], &before);
        let nothing = SysRoot::at(root.path("nothing"));
        let unread = Look::take(&nothing, &[], &seen);
        let found = unread.since(&seen, 1_000_000_000);
        assert_eq!((found.user_share, found.interrupts_per_s), (0.0, 0.0));
        assert_eq!(found.dirty_bytes, 12_288);
        let found = Look::take(&root, &[], &unread).since(&unread, 1_000_000_000);
        assert_eq!((found.system_share, found.context_switches_per_s), (0.0, 0.0));
    }
}
