//! The clock as an argument: code below the laboratory never asks the system for the time itself.

use std::cell::Cell;

/// Monotonic time in nanoseconds since an arbitrary start.
pub trait Clock {
    /// Nanoseconds since the clock's own start; never decreases on one thread.
    fn now_ns(&self) -> u64;
}

/// A clock that moves only when told to, for tests and simulations.
#[derive(Debug, Default)]
pub struct ManualClock {
    now_ns: Cell<u64>,
}

impl ManualClock {
    /// Moves the clock forward.
    pub fn advance_ns(&self, by_ns: u64) {
        self.now_ns.set(self.now_ns.get() + by_ns);
    }
}

impl Clock for ManualClock {
    fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }
}
