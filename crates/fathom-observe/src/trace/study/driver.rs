//! How many requests the driver had at once: of many that arrive, some are merged on the way, and some wait before it.

/// Depths that are told apart; all deeper ones count as this.
pub(super) const DEPTH_MAX: usize = 4096;

/// What the driver had, by time.
#[derive(Debug, Default)]
pub(super) struct Driver {
    depth: usize,
    since_ns: u64,
    depth_ns: Vec<u64>,
}

impl Driver {
    /// The trace begins.
    pub(super) fn begin(&mut self, time_ns: u64) {
        self.since_ns = time_ns;
    }

    /// It has so many from now on.
    pub(super) fn depth(&mut self, time_ns: u64, depth: usize) {
        if depth != self.depth {
            self.close(time_ns);
            self.depth = depth;
        }
    }

    fn close(&mut self, time_ns: u64) {
        let slot = self.depth.min(DEPTH_MAX - 1);
        if self.depth_ns.len() <= slot {
            self.depth_ns.resize(slot + 1, 0);
        }
        self.depth_ns[slot] += time_ns.saturating_sub(self.since_ns);
        self.since_ns = self.since_ns.max(time_ns);
    }

    /// Nanoseconds in which it had so many, from none on, up to the end of the trace.
    pub(super) fn finish(mut self, end_ns: u64) -> Vec<u64> {
        self.close(end_ns);
        self.depth_ns
    }
}
