//! Windows in time: shared instants, fixed before anybody starts, and what an operation is to a window.
//!
//! No process is told to start or to stop counting. Each stamps its operations with the clock that all share, and the
//! stamps decide: a process that hangs in the kernel can neither stretch a window nor miss one.

use fathom_model::fsop::Crossing;
use fathom_model::record::OpClass;
use std::sync::atomic::{AtomicU64, Ordering};

/// A part of time on the monotonic clock, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Its first instant.
    pub start_ns: u64,
    /// Its last instant.
    pub end_ns: u64,
}

/// What an operation is to a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// It ended before the window began.
    Before,
    /// It began and ended inside.
    Inside,
    /// It was going on when the window began or ended.
    Crosses,
    /// It began after the window's end.
    After,
}

impl Window {
    /// Where an operation of these instants lies.
    #[inline]
    #[must_use]
    pub fn place(self, start_ns: u64, end_ns: u64) -> Place {
        if start_ns >= self.start_ns && end_ns <= self.end_ns {
            Place::Inside
        } else if end_ns <= self.start_ns {
            Place::Before
        } else if start_ns >= self.end_ns {
            Place::After
        } else {
            Place::Crosses
        }
    }

    /// Its length.
    #[must_use]
    pub fn length_ns(self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// An operation that crosses a border, as records have it.
    #[must_use]
    pub fn crossing(self, class: OpClass, start_ns: u64, end_ns: Option<u64>) -> Crossing {
        let start = i128::from(start_ns) - i128::from(self.start_ns);
        Crossing {
            class,
            start_ns: i64::try_from(start).unwrap_or(0),
            took_ns: end_ns.map(|end_ns| end_ns.saturating_sub(start_ns)),
        }
    }
}

/// What a process is doing at this moment, for others to see: class and start of the operation in one word, so that both
/// always belong together; and how much it has done so far, for progress.
#[derive(Debug, Default)]
pub struct Slot {
    word: AtomicU64,
    operations: AtomicU64,
    bytes: AtomicU64,
    /// When the session ends before its time; 0 while it does not.
    cut_ns: AtomicU64,
}

/// Bits of the time in a slot: nanoseconds of nine years.
const TIME_BITS: u32 = 58;

impl Slot {
    /// An operation begins.
    #[inline]
    pub fn begin(&self, class: OpClass, start_ns: u64) {
        let time = start_ns & ((1 << TIME_BITS) - 1);
        self.word.store((class as u64 + 1) << TIME_BITS | time, Ordering::Relaxed);
    }

    /// No operation is going on.
    #[inline]
    pub fn rest(&self) {
        self.word.store(0, Ordering::Relaxed);
    }

    /// An operation has ended. Only the process itself says so.
    #[inline]
    pub fn count(&self, bytes: u64) {
        let add =
            |to: &AtomicU64, more| to.store(to.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        add(&self.operations, 1);
        add(&self.bytes, bytes);
    }

    /// Operations and bytes so far.
    #[must_use]
    pub fn so_far(&self) -> (u64, u64) {
        (self.operations.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// The session ends at that instant, before its time.
    pub fn cut_at(&self, cut_ns: u64) {
        self.cut_ns.store(cut_ns.max(1), Ordering::Relaxed);
    }

    /// When the session ends before its time; an instant that never comes while it does not.
    #[inline]
    #[must_use]
    pub fn cut_ns(&self) -> u64 {
        match self.cut_ns.load(Ordering::Relaxed) {
            0 => u64::MAX,
            cut_ns => cut_ns,
        }
    }

    /// The operation that is going on, and when it began.
    #[must_use]
    pub fn current(&self) -> Option<(OpClass, u64)> {
        let word = self.word.load(Ordering::Relaxed);
        let index = usize::try_from(word >> TIME_BITS).ok()?.checked_sub(1)?;
        Some((*OpClass::ALL.get(index)?, word & ((1 << TIME_BITS) - 1)))
    }
}

/// The plan of a session: when each window lies, and when everybody may go home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// The windows, one after the other.
    pub windows: Vec<Window>,
    /// When the processes of each window that are not there from the start begin, in the same order.
    pub starts_ns: Vec<u64>,
}

impl Schedule {
    /// Plans windows of one length from an instant on. `warm_ups` says for each how long its new processes run before it.
    #[must_use]
    pub fn new(begin_ns: u64, window_ns: u64, warm_ups_ns: &[u64]) -> Self {
        let mut at_ns = begin_ns;
        let mut plan = Self { windows: Vec::new(), starts_ns: Vec::new() };
        for warm_up_ns in warm_ups_ns {
            plan.starts_ns.push(at_ns);
            let start_ns = at_ns.saturating_add(*warm_up_ns);
            at_ns = start_ns.saturating_add(window_ns);
            plan.windows.push(Window { start_ns, end_ns: at_ns });
        }
        plan
    }

    /// When the last window ends.
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        self.windows.last().map_or(0, |window| window.end_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_stamps_decide() {
        let window = Window { start_ns: 100, end_ns: 200 };
        for (start, end, place) in [
            (10, 20, Place::Before),
            (10, 100, Place::Before),
            (10, 101, Place::Crosses),
            (100, 200, Place::Inside),
            (150, 150, Place::Inside),
            (150, 201, Place::Crosses),
            (50, 900, Place::Crosses),
            (200, 201, Place::After),
            (300, 400, Place::After),
        ] {
            assert_eq!(window.place(start, end), place, "{start} to {end}");
        }
        let crossing = window.crossing(OpClass::MakeDir, 40, Some(240));
        assert_eq!((crossing.start_ns, crossing.took_ns), (-60, Some(200)));
        assert_eq!(crossing.age_at_end_ns(window.length_ns()), Some(160));
    }

    proptest! {
        /// Back to back operations: what lies inside and the parts that crossings have in the window fill it without a
        /// gap, whatever hangs where.
        #[test]
        fn nothing_is_lost_and_nothing_counted_twice(
            lengths in proptest::collection::vec(1u64..5_000, 1..200),
            start in 0u64..20_000,
            length in 1u64..100_000,
        ) {
            let window = Window { start_ns: start, end_ns: start + length };
            let (mut at, mut inside, mut crossing) = (0, 0, 0);
            for took in lengths {
                let (from, to) = (at, at + took);
                at = to;
                match window.place(from, to) {
                    Place::Inside => inside += took,
                    Place::Crosses => {
                        crossing += to.min(window.end_ns) - from.max(window.start_ns);
                    }
                    Place::Before | Place::After => {}
                }
            }
            let covered = at.min(window.end_ns).saturating_sub(window.start_ns);
            prop_assert_eq!(inside + crossing, covered);
        }
    }

    #[test]
    fn a_slot_tells_class_and_start_together() {
        let slot = Slot::default();
        assert_eq!(slot.current(), None);
        for class in OpClass::ALL {
            slot.begin(class, 123_456_789_012_345);
            assert_eq!(slot.current(), Some((class, 123_456_789_012_345)));
        }
        slot.rest();
        assert_eq!(slot.current(), None);
    }

    #[test]
    fn windows_follow_each_other_after_their_warm_up() {
        let plan = Schedule::new(1_000, 30, &[0, 7]);
        assert_eq!(plan.windows[0], Window { start_ns: 1_000, end_ns: 1_030 });
        assert_eq!(plan.windows[1], Window { start_ns: 1_037, end_ns: 1_067 });
        assert_eq!((plan.starts_ns, plan.windows[1].end_ns), (vec![1_000, 1_030], 1_067));
    }
}
