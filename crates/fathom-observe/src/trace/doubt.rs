//! How far off it may be how many were in flight, where ends of requests may be missing.
//!
//! Which of several requests at one place an end belongs to is not known, and so a lost end there leaves no request behind that others
//! overtake: from then on there is always one more. What is known is since when so many have always been there: at the most for so long.

use super::event::Class;
use std::collections::BTreeMap;

/// Class, first sector and order.
pub type Key = (Class, u64, u64);

/// What waits at each place, and since when it is as many as that: what ends is always the newest.
#[derive(Debug, Default)]
pub struct Doubts {
    since_ns: BTreeMap<Key, u64>,
    found: u64,
    found_ns: u64,
}

impl Doubts {
    /// One arrives.
    pub fn begin(&mut self, key: Key, now_ns: u64) {
        self.since_ns.insert(key, now_ns);
    }

    /// One of that place ends.
    pub fn end(&mut self, &(class, sector, _): &Key) {
        let mut there = self.since_ns.range((class, sector, 0)..=(class, sector, u64::MAX));
        if let Some(newest) = there.next_back().map(|(key, _)| *key) {
            self.since_ns.remove(&newest);
        }
    }

    /// The end of one of that place is taken for lost: it counts up to then. It may have been that of one before it, and those of its class take
    /// so long.
    pub fn lose(&mut self, &(class, sector, _): &Key, left_ns: u64, usual_ns: Option<u64>) {
        let mut there = self.since_ns.range((class, sector, 0)..=(class, sector, u64::MAX));
        if let Some((&oldest, &since_ns)) = there.next() {
            self.since_ns.remove(&oldest);
            self.add(left_ns.saturating_sub(since_ns + usual_ns.unwrap_or(0)));
        }
    }

    /// One may have been in flight for so much longer, or less long, than it counts.
    pub fn add(&mut self, ns: u64) {
        self.found += u64::from(ns > 0);
        self.found_ns = self.found_ns.saturating_add(ns);
    }

    /// The trace ends: what waits may have ended, as its class usually does.
    pub fn finish(&mut self, now_ns: u64, usual_ns: impl Fn(Class) -> u64) {
        for ((class, ..), since_ns) in std::mem::take(&mut self.since_ns) {
            self.add(now_ns.saturating_sub(since_ns.saturating_add(usual_ns(class))));
        }
    }

    /// How many these are, and how long together.
    pub fn found(&self) -> (u64, u64) {
        (self.found, self.found_ns)
    }
}
