//! A watched application: its processes, what they use, and their own counts of I/O.

use fathom_model::watch::ApplicationSample;
use fathom_sys::family::{self, Usage};
use fathom_sys::sysroot::SysRoot;
use fathom_sys::tracing;
use std::time::{Duration, Instant};

/// Looks in between take at most this share of the time.
const GLANCES_SHARE: u32 = 50;

/// A process that was started, with all that it starts. What a process has done is not lost with it: the one that waits for it
/// takes its counts over, and orphans become children of this process.
#[derive(Debug)]
pub struct Family {
    root: SysRoot,
    leader: u32,
    /// Of orphans that have ended.
    buried: Usage,
    /// What others of its children, such as a server that was started before, had used when it began.
    base: Usage,
    /// The most that was ever seen: counts never go back, even while one is handed over.
    most: Usage,
    processes: u32,
    /// What children that were waited for had read and written when it began.
    waited_for: Usage,
    /// When the next look in between may be.
    glance_at: Instant,
}

impl Family {
    /// The family of a child of this process that is about to be started; [`Family::led_by`] says which.
    #[must_use]
    pub fn new(root: &SysRoot) -> Self {
        let none = Usage::default();
        let (root, leader) = (root.clone(), 0);
        let (waited_for, glance_at) = (family::waited_for(), Instant::now());
        let mut family = Self {
            root,
            leader,
            buried: none,
            base: none,
            most: none,
            processes: 0,
            waited_for,
            glance_at,
        };
        family.base = Usage { resident_bytes: 0, ..family.look() };
        family.most = none;
        family
    }

    /// The process that it begins with.
    #[must_use]
    pub fn led_by(mut self, leader: u32) -> Self {
        self.leader = leader;
        self
    }

    /// What it has used since it began. Ended orphans are taken away.
    pub fn look(&mut self) -> Usage {
        let mut own = family::children(&self.root, std::process::id());
        own.retain(|pid| !tracing::is_guardian(&self.root, *pid));
        let mut sum = Usage::default();
        self.processes = 0;
        // The leader is a child until it was waited for.
        for head in own {
            let members = family::members(&self.root, head);
            let mut usage = Usage::default();
            for pid in &members {
                if let Some(of_one) = family::usage(&self.root, *pid) {
                    usage = usage.plus(of_one);
                    self.processes += 1;
                }
            }
            if head != self.leader && members.len() == 1 && family::bury(head) {
                self.processes -= 1;
                self.buried = self.buried.plus(Usage { resident_bytes: 0, ..usage });
            } else {
                sum = sum.plus(usage);
            }
        }
        self.most = sum.plus(self.buried).less(self.base).no_less_than(self.most);
        self.most
    }

    /// A look in between, as often as it costs little: what a process did last, the kernel may tell nobody but root once it has ended.
    pub fn glance(&mut self) {
        let begun = Instant::now();
        if begun >= self.glance_at {
            self.look();
            self.glance_at =
                begun + (begun.elapsed() * GLANCES_SHARE).max(Duration::from_millis(5));
        }
    }

    /// True when the last look was not told all.
    #[must_use]
    pub fn is_cut_off(&self) -> bool {
        self.most.is_io_refused
    }

    /// What it has used, once it was waited for: at least what children that were waited for have read and written since it began.
    pub fn at_the_end(&mut self) -> Usage {
        let told = family::waited_for().less(self.waited_for);
        let written_bytes = told.written_bytes.saturating_sub(self.most.dropped_bytes);
        self.most = self.most.no_less_than(Usage { written_bytes, ..told });
        self.most
    }

    /// Processes at the last look.
    #[must_use]
    pub fn processes(&self) -> u32 {
        self.processes
    }

    /// What happened between two looks; the number of processes is not in them.
    #[must_use]
    pub fn between(before: &Usage, after: &Usage, length_ns: u64) -> ApplicationSample {
        let cpu_ns = after.cpu_ns.saturating_sub(before.cpu_ns) as f64;
        ApplicationSample {
            processes: 0,
            cpu_share: if length_ns > 0 { cpu_ns / length_ns as f64 } else { 0.0 },
            resident_bytes: after.resident_bytes,
            asked_read_bytes: after.asked_read_bytes.saturating_sub(before.asked_read_bytes),
            asked_write_bytes: after.asked_write_bytes.saturating_sub(before.asked_write_bytes),
            read_bytes: after.read_bytes.saturating_sub(before.read_bytes),
            written_bytes: after.written_bytes.saturating_sub(before.written_bytes),
            write_calls: Some(after.write_calls.saturating_sub(before.write_calls)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// Nobody has looked at it while it ran: what it has written is known all the same, once it was waited for.
    #[test]
    fn at_the_end_all_that_was_written_is_known() {
        let root = SysRoot::live();
        // A look would take away what other tests have started.
        let none = Usage::default();
        let mut family = Family {
            root: root.clone(),
            leader: 0,
            buried: none,
            base: none,
            most: none,
            processes: 0,
            waited_for: family::waited_for(),
            glance_at: Instant::now(),
        };
        let path = std::env::temp_dir().join(format!("fathom-at-the-end-{}", std::process::id()));
        let script =
            format!("head -c 1048576 /dev/zero > {0}; sync {0}; rm {0}; read end", path.display());
        let mut command = Command::new("sh");
        let mut child =
            command.args(["-c", &script]).stdin(Stdio::piped()).spawn().expect("starts");
        let usage = || family::usage(&root, child.id()).expect("it runs");
        let begun = Instant::now();
        while usage().asked_write_bytes < 1 << 20 || path.exists() {
            assert!(begun.elapsed().as_secs() < 60, "{:?}", usage());
            std::thread::sleep(Duration::from_millis(5));
        }
        // Where the file lies in memory, nothing is written.
        let written_bytes = usage().written_bytes;
        drop(child.stdin.take());
        child.wait().expect("ended");
        assert!(family.at_the_end().written_bytes >= written_bytes, "{written_bytes}");
    }
}
