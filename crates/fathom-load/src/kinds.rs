//! Which kind of request comes next, and how large it is.

use fathom_base::prng::{Prng, chance_threshold};
use fathom_model::pattern::{FileChoice, Mix};
use fathom_model::workload::{Access, Job, SyncRule, WeightedSize};

/// What a request does to its range.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kind {
    /// Reads it.
    #[default]
    Read,
    /// Writes it.
    Write,
    /// Gives it back.
    Trim,
    /// Makes it read as zero.
    Zero,
    /// Synchronises its file, as one of a round over all files.
    SyncAll,
}

/// The kinds of a job by their shares.
#[derive(Debug)]
pub(crate) struct Kinds {
    /// Cumulative thresholds on 64 bits.
    shares: Vec<(u64, Kind)>,
    /// What is above all of them.
    otherwise: Kind,
    interleave: Option<Interleave>,
}

impl Kinds {
    pub fn of(job: &Job) -> Self {
        let writes = if job.access == Access::Append { 1.0 } else { job.write_fraction };
        let asked = [
            (writes, Kind::Write),
            (job.trim_fraction, Kind::Trim),
            (job.zero_fraction, Kind::Zero),
        ];
        let mut below = 0.0;
        let mut shares: Vec<(u64, Kind)> = asked
            .into_iter()
            .filter(|(share, _)| *share > 0.0)
            .map(|(share, kind)| {
                below += share;
                (chance_threshold(below), kind)
            })
            .collect();
        // What is left by rounding is no read in a job that does not read.
        let otherwise = if job.reads() {
            Kind::Read
        } else {
            shares.pop().map_or(Kind::Write, |(_, kind)| kind)
        };
        let interleave = (job.mix == Mix::Interleave).then(|| Interleave::new(writes));
        Self { shares, otherwise, interleave }
    }

    pub fn next(&mut self, prng: &mut Prng) -> Kind {
        if let Some(interleave) = &mut self.interleave {
            return interleave.next();
        }
        if self.shares.is_empty() {
            return self.otherwise;
        }
        let draw = prng.next_u64();
        let chosen = self.shares.iter().find(|(below, _)| draw < *below);
        chosen.map_or(self.otherwise, |(_, kind)| *kind)
    }
}

/// Reads and writes in a fixed pattern: a read while (reads + 1) / (writes + 1) is below the ratio of their shares, as
/// sysbench does it.
#[derive(Debug)]
struct Interleave {
    reads: u64,
    writes: u64,
    /// Shares in billionths, so that fractions which are decimal for people compare exactly.
    read_share: u64,
    write_share: u64,
}

impl Interleave {
    fn new(write_fraction: f64) -> Self {
        const WHOLE: u64 = 1_000_000_000;
        let write_share = ((write_fraction * WHOLE as f64).round() as u64).min(WHOLE);
        Self { reads: 0, writes: 0, read_share: WHOLE - write_share, write_share }
    }

    fn next(&mut self) -> Kind {
        let weighed = |count: u64, share: u64| (u128::from(count) + 1) * u128::from(share);
        if weighed(self.reads, self.write_share) < weighed(self.writes, self.read_share) {
            self.reads += 1;
            Kind::Read
        } else {
            self.writes += 1;
            Kind::Write
        }
    }
}

/// Files that come in turn and syncs after every n-th write fall into step where the two numbers have a common divisor: the
/// same files are synchronised over and over, and the others never. Each time the syncs have gone once round, one write is not
/// counted, which shifts them to the next files; when they are back at the first ones, as many are counted twice, so that on
/// average it is every n-th.
#[derive(Debug)]
pub(crate) struct OutOfStep {
    /// Syncs in which they come round, and shifts after which they are back.
    syncs: u32,
    shifts: u32,
    synced: u32,
    shifted: u32,
    skips: bool,
}

impl OutOfStep {
    /// None where every file gets its syncs without it.
    pub fn of(job: &Job) -> Option<Self> {
        let SyncRule::Every(every) = job.sync else { return None };
        let divisor = common_divisor(job.files, every);
        let in_turn = job.files > 1 && job.file_choice == FileChoice::RoundRobin;
        let new = || {
            let syncs = job.files / divisor;
            Self { syncs, shifts: divisor, synced: 0, shifted: 0, skips: false }
        };
        (in_turn && divisor > 1).then(new)
    }

    /// True for a write that does not count.
    pub fn skips(&mut self) -> bool {
        std::mem::take(&mut self.skips)
    }

    /// A sync belongs to the last write: how many count for the next one already.
    pub fn synced(&mut self) -> u32 {
        self.synced += 1;
        if self.synced < self.syncs {
            return 0;
        }
        (self.synced, self.shifted) = (0, self.shifted + 1);
        if self.shifted == self.shifts {
            self.shifted = 0;
            return self.shifts - 1;
        }
        self.skips = true;
        0
    }
}

fn common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

/// The sizes of one kind of request.
#[derive(Debug)]
pub(crate) struct Sizes(Vec<SizeChoice>);

#[derive(Debug, Clone, Copy, Default)]
struct SizeChoice {
    /// Cumulative threshold on 64 bits; that of the last is `u64::MAX`.
    below: u64,
    size_bytes: u32,
    /// How many multiples of it are equally frequent.
    multiples: u32,
}

impl Sizes {
    pub fn of(sizes: &[WeightedSize]) -> Self {
        let total: f64 = sizes.iter().map(|s| s.weight).sum();
        let mut below = 0.0;
        let choice = |size: &WeightedSize| {
            below += size.weight / total;
            let size_bytes = size.size_bytes.max(1);
            let multiples = (size.max_bytes() / size_bytes).max(1);
            SizeChoice { below: chance_threshold(below), size_bytes, multiples }
        };
        let mut choices: Vec<SizeChoice> = sizes.iter().map(choice).collect();
        if let Some(last) = choices.last_mut() {
            last.below = u64::MAX;
        }
        Self(choices)
    }

    pub fn next(&self, prng: &mut Prng) -> u32 {
        let choice = if let [only] = self.0[..] {
            only
        } else {
            let draw = prng.next_u64();
            self.0.iter().find(|choice| draw <= choice.below).copied().unwrap_or_default()
        };
        if choice.multiples <= 1 {
            return choice.size_bytes;
        }
        choice.size_bytes * (1 + prng.below(u64::from(choice.multiples)) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::keys;

    fn kinds(pairs: &[(&str, &str)]) -> Kinds {
        let mut job = Job::default();
        pairs.iter().for_each(|(k, v)| keys::set(&mut job, k, v).expect(k));
        Kinds::of(&job)
    }

    fn pattern(write_fraction: &str, count: usize) -> String {
        let mut kinds = kinds(&[("mix", "interleave"), ("write_fraction", write_fraction)]);
        let mut prng = Prng::new(1, 0);
        let letter = |kind| if kind == Kind::Read { 'R' } else { 'W' };
        (0..count).map(|_| letter(kinds.next(&mut prng))).collect()
    }

    /// sysbench's ratio of 1.5 gives RWRWR over and over.
    #[test]
    fn interleave_is_the_known_pattern() {
        assert_eq!(pattern("0.4", 20), "RWRWRRWRWRRWRWRRWRWR");
        assert_eq!(pattern("0.5", 6), "WRWRWR");
        assert_eq!(pattern("0.25", 8), "RRWRRRWR");
        for (fraction, writes) in [("0.1", 1000), ("0.35", 3500), ("0.9", 9000), ("0.999", 9990)] {
            let counted = pattern(fraction, 10_000).matches('W').count();
            assert!(counted.abs_diff(writes) <= 1, "{fraction}: {counted}");
        }
    }

    #[test]
    fn shares_of_kinds_are_kept_and_what_was_not_asked_for_never_comes() {
        let shares =
            [("write_fraction", "0.2"), ("trim_fraction", "0.3"), ("zero_fraction", "0.1")];
        let mut mixed = kinds(&shares);
        let mut prng = Prng::new(3, 0);
        let mut counts = [0u32; 4];
        (0..100_000).for_each(|_| counts[mixed.next(&mut prng) as usize] += 1);
        for (count, expected) in counts.iter().zip([40_000u32, 20_000, 30_000, 10_000]) {
            assert!(count.abs_diff(expected) < 700, "{counts:?}");
        }
        for (share, kind) in [("trim_fraction", Kind::Trim), ("zero_fraction", Kind::Zero)] {
            let mut only = kinds(&[(share, "1")]);
            assert!((0..1000).all(|_| only.next(&mut prng) == kind));
        }
        let mut thirds =
            kinds(&[("write_fraction", "0.7"), ("trim_fraction", "0.2"), ("zero_fraction", "0.1")]);
        assert!((0..100_000).all(|_| thirds.next(&mut prng) != Kind::Read));
    }

    #[test]
    fn ranges_are_uniform_over_the_multiples_and_mix_with_weights() {
        let mut job = Job::default();
        keys::set(&mut job, "block_size", "4k-64k:1,1M:1").expect("sizes");
        let sizes = Sizes::of(&job.block_size);
        let mut prng = Prng::new(5, 0);
        let mut counts = std::collections::BTreeMap::<u32, f64>::new();
        (0..320_000).for_each(|_| *counts.entry(sizes.next(&mut prng)).or_default() += 1.0);
        let small: Vec<u32> = (1..=16).map(|n| n * 4096).collect();
        assert_eq!(counts.keys().copied().collect::<Vec<_>>(), [&small[..], &[1 << 20]].concat());
        // Chi-square with 15 degrees of freedom: 99.99 % of uniform streams stay below 44.3.
        let chi: f64 = small.iter().map(|s| (counts[s] - 10_000.0).powi(2) / 10_000.0).sum();
        assert!(chi < 44.3, "{chi}");
        assert!((counts[&(1 << 20)] - 160_000.0).abs() < 1500.0);
        assert_eq!((job.block_size_bytes_min(), job.block_size_bytes_max()), (4096, 1 << 20));
        assert_eq!(job.block_size_bytes_mean(), f64::midpoint(34_816.0, 1_048_576.0));
    }
}
