//! Operations on the time axis in bounded memory: the slowest, and of all others a sample in which each has the same
//! chance.

use fathom_base::order::Order;
use fathom_base::prng::Prng;
use fathom_model::fsop::{FsopStream, TimedOp};
use fathom_model::record::OpClass;

/// The slowest operations that are kept of a process.
pub const SLOWEST: usize = 100;

/// The points of one process. Memory is taken once.
#[derive(Debug)]
pub struct Points {
    sample: Vec<TimedOp>,
    sample_max: usize,
    slowest: Vec<TimedOp>,
    /// The shortest of the slowest, once there are enough.
    least_ns: u64,
    seen: u64,
    random: Prng,
}

impl Points {
    /// Room for so many points beside the slowest.
    #[must_use]
    pub fn new(sample_max: usize, seed: u64, process: u64) -> Self {
        Self {
            sample: Vec::with_capacity(sample_max),
            sample_max,
            slowest: Vec::with_capacity(SLOWEST),
            least_ns: 0,
            seen: 0,
            random: Prng::new(seed, process),
        }
    }

    /// Notes one operation.
    #[inline]
    pub fn note(&mut self, op: TimedOp) {
        self.seen += 1;
        if self.sample.len() < self.sample_max {
            self.sample.push(op);
        } else {
            // Each of all seen so far has the same chance to be in the sample (Waterman's reservoir).
            let place = self.random.below(self.seen) as usize;
            if let Some(old) = self.sample.get_mut(place) {
                *old = op;
            }
        }
        if op.took_ns > self.least_ns || self.slowest.len() < SLOWEST {
            self.note_slow(op);
        }
    }

    fn note_slow(&mut self, op: TimedOp) {
        if self.slowest.len() < SLOWEST {
            self.slowest.push(op);
        } else if let Some(least) = self.slowest.iter_mut().min_by_key(|op| op.took_ns) {
            *least = op;
        }
        if self.slowest.len() == SLOWEST {
            self.least_ns = self.slowest.iter().map(|op| op.took_ns).min().unwrap_or(0);
        }
    }

    /// The slowest, slowest first.
    #[must_use]
    pub fn slowest(&self) -> Vec<TimedOp> {
        let mut slowest = self.slowest.clone();
        slowest.order_by_key(|op| (std::cmp::Reverse(op.took_ns), op.start_ns));
        slowest
    }
}

/// Puts the points of several processes together, in the order of their starts.
#[must_use]
pub fn merged(processes: &[&Points]) -> FsopStream {
    let mut all: Vec<(u16, TimedOp)> = Vec::new();
    for (process, points) in (0u16..).zip(processes) {
        let sampled = points.sample.iter();
        let beside = points.slowest.iter().filter(|op| !points.sample.contains(op));
        all.extend(sampled.chain(beside).map(|op| (process, *op)));
    }
    all.order_by_key(|(process, op)| (op.start_ns, *process));
    let mut classes: Vec<OpClass> = all.iter().map(|(_, op)| op.class).collect();
    classes.order();
    classes.dedup();
    let us = |ns: u64| ns / 1_000;
    let index = |class: OpClass| classes.iter().position(|known| *known == class).unwrap_or(0);
    FsopStream {
        start_us: all.iter().map(|(_, op)| us(op.start_ns)).collect(),
        took_us: all.iter().map(|(_, op)| us(op.took_ns)).collect(),
        took_rest_ns: all.iter().map(|(_, op)| (op.took_ns % 1_000) as u16).collect(),
        class: all.iter().map(|(_, op)| index(op.class) as u8).collect(),
        process: all.iter().map(|(process, _)| *process).collect(),
        operations: processes.iter().map(|points| points.seen).sum(),
        classes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(number: u64) -> TimedOp {
        TimedOp { class: OpClass::Stat, start_ns: number * 1_000, took_ns: number % 977 * 1_000 }
    }

    #[test]
    fn few_operations_are_all_there_in_order() {
        let (mut a, mut b) = (Points::new(50, 1, 0), Points::new(50, 1, 1));
        (0..40).for_each(
            |number| if number % 2 == 0 { a.note(op(number)) } else { b.note(op(number)) },
        );
        let stream = merged(&[&a, &b]);
        assert_eq!((stream.len(), stream.operations), (40, 40));
        assert_eq!(stream.reduction(), "every operation");
        assert_eq!(stream.start_us, (0..40).collect::<Vec<u64>>());
        assert_eq!(stream.process[..4], [0, 1, 0, 1]);
        assert_eq!(stream.classes, [OpClass::Stat]);
    }

    #[test]
    fn a_day_is_not_too_long() {
        const HOUR_NS: u64 = 3_600_000_000_000;
        let mut points = Points::new(50, 1, 0);
        for hour in [1, 2, 23] {
            let (class, start_ns) = (OpClass::Stat, hour * HOUR_NS);
            points.note(TimedOp { class, start_ns, took_ns: HOUR_NS / 2 });
        }
        let stream = merged(&[&points]);
        assert_eq!(stream.start_us, [3_600_000_000, 7_200_000_000, 82_800_000_000]);
        assert_eq!(stream.took_us, [1_800_000_000; 3]);
    }

    /// What comes from memory takes less than a microsecond, and is told apart.
    #[test]
    fn short_operations_keep_their_nanoseconds() {
        const TOOK_NS: [u64; 4] = [0, 210, 999, 1_000_001];
        let mut points = Points::new(50, 1, 0);
        for (number, took_ns) in (0..).zip(TOOK_NS) {
            points.note(TimedOp { class: OpClass::Stat, start_ns: number * 2_000_000, took_ns });
        }
        let stream = merged(&[&points]);
        assert_eq!([0, 1, 2, 3].map(|at| stream.took_ns(at)), TOOK_NS.map(Some));
        assert_eq!(stream.took_rest_ns, [0, 210, 999, 1]);
    }

    /// Every tenth of the run has its share of the sample, and the slowest are there whatever the chance says.
    #[test]
    fn of_many_each_has_the_same_chance_and_the_slowest_stay() {
        let mut points = Points::new(10_000, 7, 0);
        (0..1_000_000).for_each(|number| points.note(op(number)));
        let mut outlier = op(5);
        outlier.took_ns = 19_600_000_000;
        points.note(outlier);
        let stream = merged(&[&points]);
        assert!(stream.len() >= 10_000 && stream.len() <= 10_000 + SLOWEST);
        assert_eq!((stream.operations, points.slowest()[0]), (1_000_001, outlier));
        assert_eq!(points.slowest().len(), SLOWEST);
        assert!(points.slowest().windows(2).all(|two| two[0].took_ns >= two[1].took_ns));
        let mut tenths = [0u32; 10];
        points.sample.iter().for_each(|op| tenths[(op.start_ns / 100_000_000) as usize % 10] += 1);
        // 1000 each, standard deviation 30.
        assert!(tenths.iter().all(|count| (820..1_180).contains(count)), "{tenths:?}");
        assert!(stream.reduction().contains("of 1 000 001 operations"), "{}", stream.reduction());
    }
}
