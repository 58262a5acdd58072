//! What every laboratory command works with: the machine, the clock, the rights, the receiver of events.

use fathom_base::prng::Prng;
use fathom_check::Surroundings;
use fathom_guard::{Consent, Protected};
use fathom_model::event::Event;
use fathom_model::finding::Finding;
use fathom_model::host::HostFacts;
use fathom_sys::clock::FastClock;
use fathom_sys::counters;
use fathom_sys::signals::StopFlag;
use fathom_sys::sysroot::SysRoot;
use std::path::PathBuf;

/// The surroundings of a command.
pub struct Lab<'a> {
    /// Where the kernel's files are.
    pub root: SysRoot,
    /// The workers' clock.
    pub clock: FastClock,
    /// Somebody asked for the end.
    pub stop: StopFlag,
    /// Identifier of the run: names its test directory.
    pub run_id: String,
    /// Test directories made so far.
    pub dirs_made: std::cell::Cell<u32>,
    /// Where journals of test files are kept, beside the store.
    pub state_dir: PathBuf,
    /// Devices that may be overwritten.
    pub consent: Consent,
    /// What must never be.
    pub protected: Protected,
    /// The machine.
    pub host: HostFacts,
    /// What is known before anything is measured, and belongs to each record: what is wrong with the trace of a twin.
    pub known: Vec<Finding>,
    /// What rules know beside the stack.
    pub around: Surroundings,
    /// What local time is ahead of UTC, in seconds: timers and cron count in local time.
    pub utc_offset_s: i64,
    /// Length of the intervals of every series.
    pub interval_ns: u64,
    /// Test files stay when the command ends.
    pub keep: bool,
    /// Source of the seeds of trials.
    pub seeds: Prng,
    /// The receiver of events.
    pub emit: &'a mut dyn FnMut(Event),
}

impl Lab<'_> {
    /// Memory that can still be used, in bytes: free memory or what the control group allows, whichever is less.
    #[must_use]
    pub fn free_memory_bytes(&self) -> u64 {
        self.free_memory().0
    }

    /// The same, and in words what it is: a control group allows less than is free more often than people know.
    #[must_use]
    pub fn free_memory(&self) -> (u64, &'static str) {
        let free = counters::memory_available_bytes(&self.root)
            .or(self.host.memory_available_bytes)
            .unwrap_or(1 << 30);
        match self.host.cgroup_memory_available_bytes {
            Some(allowed) if allowed < free => {
                (allowed, "the memory that the control group still allows")
            }
            _ => (free, "the free memory"),
        }
    }

    /// Memory that can cache data, in bytes: the machine's or the limit of the control group.
    #[must_use]
    pub fn cache_memory_bytes(&self) -> u64 {
        let total = self.host.memory_total_bytes.unwrap_or(1 << 30);
        total.min(self.host.cgroup_memory_limit_bytes.unwrap_or(u64::MAX))
    }

    /// What tells a second test directory of the run from the first.
    #[must_use]
    pub fn next_suffix(&self) -> String {
        let made = self.dirs_made.replace(self.dirs_made.get() + 1);
        if made == 0 { String::new() } else { format!("x{}", made + 1) }
    }

    /// Runs what may wait for commands of the user's own knobs; `stop` ends them.
    pub(crate) fn waiting<T>(
        &mut self,
        stop: Option<&StopFlag>,
        act: impl FnOnce(&mut fathom_knobs::Wait<'_>) -> T,
    ) -> T {
        let mut note = |text: &str| self.note(text);
        act(&mut fathom_knobs::Wait { note: &mut note, stop })
    }

    /// A line for people about what is going on.
    pub fn note(&mut self, text: impl Into<String>) {
        (self.emit)(Event::Note { text: text.into() });
    }
}
