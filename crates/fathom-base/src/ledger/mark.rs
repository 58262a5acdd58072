//! What was durable at one moment, and the ledger that follows from it after a crash.

use super::granule::Granule;
use super::{Change, Ledger, LedgerError, Region, WINDOW};
use std::collections::BTreeMap;

/// What was durable of a file at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The file, counted from 0 on.
    pub file: u32,
    /// All generations of the file up to here are durable.
    pub(super) durable_floor: u64,
    /// Durable generations above the floor, ascending.
    pub(super) above: Vec<u64>,
    /// The newest generation of all files.
    pub last_generation: u64,
    /// How many generations after a write another one was issued while it was in flight, at the most.
    pub(super) spread: u64,
}

impl Ledger {
    /// What is durable of a file now, to be kept elsewhere for [`Ledger::replay`]; none of a file outside the region.
    #[must_use]
    pub fn mark(&self, file: u32) -> Option<Mark> {
        let local = self.local(file)?;
        let durable_floor = self.files[local as usize].floor;
        let known_from = (self.last_generation + 1).saturating_sub(WINDOW);
        let is_above = |generation: &u64| {
            !self.is_elsewhere(*generation, local) && self.is_durable(*generation, local)
        };
        let above =
            (known_from.max(durable_floor + 1)..=self.last_generation).filter(is_above).collect();
        let (last_generation, spread) = (self.last_generation, self.spread);
        Some(Mark { file, durable_floor, above, last_generation, spread })
    }

    /// The book as of the last mark of each file, made from the same writes again (in the order in which they were
    /// issued; those after the newest mark's last are not looked at), and how many of the writes were durable. Any region
    /// will do. Answers for after a crash, with unknown writes after the marks.
    ///
    /// # Errors
    /// As [`Ledger::new`] and [`Ledger::issued`]; [`LedgerError::Unreadable`] when there are fewer writes than the marks
    /// know.
    pub fn replay(
        region: Region,
        limit_bytes: u64,
        marks: &BTreeMap<u32, Mark>,
        writes: impl IntoIterator<Item = Change>,
    ) -> Result<(Self, u64), LedgerError> {
        let mut ledger = Self::new(region, limit_bytes)?;
        for mark in marks.values() {
            if let Some(local) = ledger.local(mark.file) {
                ledger.files[local as usize].floor = mark.durable_floor;
            }
        }
        let (last, spread) = marks
            .values()
            .map(|mark| (mark.last_generation, mark.spread))
            .fold((0, 0), |most, mark| (most.0.max(mark.0), most.1.max(mark.1)));
        let (mut writes, mut durable) = (writes.into_iter(), 0);
        for _ in 0..last {
            let Some(write) = writes.next() else {
                return Err(LedgerError::Unreadable("the workload has fewer writes than the mark"));
            };
            let generation = ledger.issued(write)?;
            // Which writes met each other in flight is not known, only that none lived longer than this.
            if let Some(ended) = generation.checked_sub(spread).filter(|&ended| ended > 0) {
                ledger.take(ended);
            }
            let Some(mark) = marks.get(&write.file) else { continue };
            if mark.above.binary_search(&generation).is_ok() {
                ledger.make_durable(write);
                durable += 1;
            } else if generation <= mark.durable_floor {
                durable += 1;
            }
        }
        ledger.crash(true);
        Ok((ledger, durable))
    }

    /// The write that was noted last is durable, however much follows.
    fn make_durable(&mut self, write: Change) {
        let file = self.local(write.file).unwrap_or(u32::MAX);
        let granules = self.granules(file, write.offset_bytes, write.length_bytes);
        for stored in &mut self.granules[granules] {
            let mut granule = Granule::from(*stored);
            if !granule.is_open() {
                granule.raise_base(granule.oldest());
            }
            *stored = granule.into();
        }
    }
}
