//! Which request comes next: offsets, sizes, reads or writes, syncs. Pure: a function of the plan and the seed.

use crate::plan::JobPlan;
use fathom_base::prng::{Prng, chance_threshold};
use fathom_model::workload::{Access, SyncRule, WeightedSize};

/// One transfer to issue, and whether a sync follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// True for a write.
    pub write: bool,
    /// Where, in bytes from the start of the target.
    pub offset_bytes: u64,
    /// How much.
    pub size_bytes: u32,
    /// A sync belongs to this write.
    pub sync_after: bool,
    /// First step of a transaction.
    pub begins_transaction: bool,
    /// Last step of a transaction (with its sync).
    pub ends_transaction: bool,
}

/// The stream of one thread.
#[derive(Debug)]
pub struct Generator {
    prng: Prng,
    access: Access,
    sizes: Vec<SizeChoice>,
    start: u64,
    length: u64,
    align: u64,
    cursor: u64,
    write_threshold: u64,
    sync_threshold: u64,
    sync_every: u32,
    writes_since_sync: u32,
    operations_left: u64,
    bytes_left: u64,
    replication: Replication,
}

/// One of the sizes, with what would otherwise be computed for each request.
#[derive(Debug, Clone, Copy, Default)]
struct SizeChoice {
    /// Cumulative threshold on 64 bits; that of the last is `u64::MAX`.
    below: u64,
    size_bytes: u32,
    /// How many offsets there are for it.
    places: u64,
}

#[derive(Debug)]
struct Replication {
    step: u8,
    offset: u64,
    size: u32,
    log_start: u64,
    log_length: u64,
    log_cursor: u64,
    log_size: u32,
}

impl Generator {
    /// The stream of thread `thread` of the job's `threads`.
    pub fn new(plan: &JobPlan, thread: u32, threads: u32) -> Self {
        let job = &plan.job;
        let (sync_threshold, sync_every) = match job.sync {
            SyncRule::Never => (0, 0),
            SyncRule::Fraction(share) => (chance_threshold(share), 0),
            SyncRule::Every(n) => (0, n),
        };
        let share = |total: u64| {
            total / u64::from(threads) + u64::from(u64::from(thread) < total % u64::from(threads))
        };
        let (start, length) = part(plan, thread, threads);
        Self {
            prng: Prng::new(plan.seed, u64::from(thread)),
            access: job.access,
            sizes: size_choices(&job.block_size, length, plan.align_bytes),
            start,
            length,
            align: plan.align_bytes,
            cursor: 0,
            write_threshold: chance_threshold(job.write_fraction),
            sync_threshold,
            sync_every,
            writes_since_sync: 0,
            operations_left: job.operations.map_or(u64::MAX, share),
            bytes_left: plan
                .amount_bytes
                .map_or(u64::MAX, |amount| split(plan, amount, thread, threads).1),
            replication: Replication::new(plan),
        }
    }

    /// The next request; none when the amount or the number of operations is used up.
    ///
    /// Always inlined: its one caller is the measured loop, where a call costs a third as much as the work itself.
    #[inline(always)]
    pub fn next(&mut self) -> Option<Request> {
        if self.operations_left == 0 || self.bytes_left == 0 {
            return None;
        }
        let request = match self.access {
            Access::Random => self.next_random(),
            Access::Sequential | Access::Append => self.next_sequential()?,
            Access::Replication => self.next_replication(),
        };
        self.operations_left -= 1;
        self.bytes_left = self.bytes_left.saturating_sub(u64::from(request.size_bytes));
        Some(request)
    }

    #[inline]
    fn size(&mut self) -> SizeChoice {
        if let [only] = self.sizes[..] {
            return only;
        }
        let draw = self.prng.next_u64();
        self.sizes.iter().find(|choice| draw <= choice.below).copied().unwrap_or_default()
    }

    #[inline]
    fn random_offset(&mut self, size: SizeChoice) -> u64 {
        self.start + self.prng.below(size.places) * self.align
    }

    #[inline]
    fn transfer(&mut self, write: bool, offset_bytes: u64, size_bytes: u32) -> Request {
        let sync_after = write && self.sync_follows();
        Request {
            write,
            offset_bytes,
            size_bytes,
            sync_after,
            begins_transaction: false,
            ends_transaction: false,
        }
    }

    #[inline(always)]
    fn next_random(&mut self) -> Request {
        let size = self.size();
        let offset = self.random_offset(size);
        let write = self.is_write();
        self.transfer(write, offset, size.size_bytes)
    }

    #[inline(never)]
    fn next_sequential(&mut self) -> Option<Request> {
        // The last piece of an amount that is no multiple of the block keeps its own size.
        let size = u64::from(self.size().size_bytes).min(self.bytes_left);
        if self.cursor + size > self.length {
            // A log that began anew at its start would overwrite, which is not what was asked to be measured.
            if self.access == Access::Append {
                return None;
            }
            self.cursor = 0;
        }
        let offset = self.start + self.cursor;
        self.cursor += size;
        let write = self.access == Access::Append || self.is_write();
        (size > 0).then(|| self.transfer(write, offset, size as u32))
    }

    #[inline(never)]
    fn next_replication(&mut self) -> Request {
        let step = self.replication.step;
        self.replication.step = (step + 1) % 3;
        match step {
            0 => {
                let size = self.size();
                self.replication.size = size.size_bytes;
                self.replication.offset = self.random_offset(size);
                let mut read = self.transfer(false, self.replication.offset, self.replication.size);
                read.begins_transaction = true;
                read
            }
            1 => Request {
                write: true,
                offset_bytes: self.replication.offset,
                size_bytes: self.replication.size,
                sync_after: false,
                begins_transaction: false,
                ends_transaction: false,
            },
            _ => {
                let (offset_bytes, size_bytes) = self.replication.next_log_record();
                Request {
                    write: true,
                    offset_bytes,
                    size_bytes,
                    sync_after: true,
                    begins_transaction: false,
                    ends_transaction: true,
                }
            }
        }
    }

    #[inline]
    fn is_write(&mut self) -> bool {
        // No draw is spent on pure reads or pure writes.
        match self.write_threshold {
            0 => false,
            u64::MAX => true,
            threshold => self.prng.chance(threshold),
        }
    }

    #[inline]
    fn sync_follows(&mut self) -> bool {
        if self.sync_every > 0 {
            self.writes_since_sync += 1;
            let due = self.writes_since_sync >= self.sync_every;
            if due {
                self.writes_since_sync = 0;
            }
            return due;
        }
        match self.sync_threshold {
            0 => false,
            threshold => self.prng.chance(threshold),
        }
    }
}

fn size_choices(sizes: &[WeightedSize], length: u64, align: u64) -> Vec<SizeChoice> {
    let total: f64 = sizes.iter().map(|s| s.weight).sum();
    let mut below = 0.0;
    let mut choices: Vec<SizeChoice> = sizes
        .iter()
        .map(|&WeightedSize { size_bytes, weight }| {
            below += weight / total;
            // A part that is smaller than a request is never asked for a random offset.
            let places = length.saturating_sub(u64::from(size_bytes)) / align + 1;
            SizeChoice { below: chance_threshold(below), size_bytes, places }
        })
        .collect();
    if let Some(last) = choices.last_mut() {
        last.below = u64::MAX;
    }
    choices
}

impl Replication {
    /// The last sixteenth of the range is the log.
    fn new(plan: &JobPlan) -> Self {
        let log_size = plan.job.log_block_size_bytes;
        let unit = plan.align_bytes.max(1);
        let log_length = (plan.length_bytes / 16 / unit * unit).max(u64::from(log_size));
        Self {
            step: 0,
            offset: 0,
            size: 0,
            log_start: plan.start_bytes + data_length(plan),
            log_length,
            log_cursor: 0,
            log_size,
        }
    }

    fn next_log_record(&mut self) -> (u64, u32) {
        if self.log_cursor + u64::from(self.log_size) > self.log_length {
            self.log_cursor = 0;
        }
        let offset = self.log_start + self.log_cursor;
        self.log_cursor += u64::from(self.log_size);
        (offset, self.log_size)
    }
}

/// Length of the data part of a replication range, on the alignment.
fn data_length(plan: &JobPlan) -> u64 {
    let unit = plan.align_bytes.max(1);
    plan.length_bytes / unit * unit - plan.length_bytes / 16 / unit * unit
}

/// The range of one thread: its own part for sequential access, the whole otherwise.
fn part(plan: &JobPlan, thread: u32, threads: u32) -> (u64, u64) {
    match plan.job.access {
        Access::Random | Access::Append => (plan.start_bytes, plan.length_bytes),
        Access::Replication => (plan.start_bytes, data_length(plan)),
        Access::Sequential => {
            let (before, own) = split(plan, plan.length_bytes, thread, threads);
            (plan.start_bytes + before, own)
        }
    }
}

/// A thread's part of `total` bytes in whole blocks, as (bytes before it, its own): the blocks that do not divide go to
/// the first threads, one each, and the rest of a block to the next.
fn split(plan: &JobPlan, total: u64, thread: u32, threads: u32) -> (u64, u64) {
    let unit = u64::from(plan.job.block_size_bytes_max()).max(1);
    let (thread, threads) = (u64::from(thread), u64::from(threads));
    let (each, more, rest) = (total / unit / threads, total / unit % threads, total % unit);
    let before = (thread * each + thread.min(more)) * unit + if thread > more { rest } else { 0 };
    let own = (each + u64::from(thread < more)) * unit + if thread == more { rest } else { 0 };
    (before, own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::plan;
    use fathom_model::keys;
    use fathom_model::workload::Job;
    use std::collections::BTreeMap;

    fn requests(
        pairs: &[(&str, &str)],
        size: u64,
        count: usize,
        thread: u32,
        threads: u32,
    ) -> Vec<Request> {
        let mut job = Job { duration_ns: Some(1), ..Job::default() };
        pairs.iter().for_each(|(k, v)| keys::set(&mut job, k, v).expect(k));
        job.threads = threads;
        let plan = plan(&job, size, 512, 42).expect("fits");
        let mut generator = Generator::new(&plan, thread, threads);
        std::iter::from_fn(|| generator.next()).take(count).collect()
    }

    #[test]
    fn random_offsets_are_aligned_uniform_and_reach_both_ends() {
        let blocks = 16u64;
        let all = requests(&[("block_size", "4k")], blocks * 4096, 160_000, 0, 1);
        let mut counts: BTreeMap<u64, u32> = BTreeMap::new();
        all.iter().for_each(|r| *counts.entry(r.offset_bytes).or_default() += 1);
        assert_eq!(
            counts.keys().copied().collect::<Vec<_>>(),
            (0..blocks).map(|b| b * 4096).collect::<Vec<_>>()
        );
        // Chi-square with 15 degrees of freedom: 99.99 % of uniform streams stay below 44.3.
        let chi: f64 = counts.values().map(|c| (f64::from(*c) - 10_000.0).powi(2) / 10_000.0).sum();
        assert!(chi < 44.3, "{chi}");
        assert!(all.iter().all(|r| !r.write));
    }

    #[test]
    fn weights_fractions_and_alignment() {
        let pairs = [
            ("block_size", "4k:3,16k:1"),
            ("align", "512"),
            ("write_fraction", "0.3"),
            ("fsync_fraction", "0.5"),
        ];
        let all = requests(&pairs, 1 << 20, 100_000, 0, 1);
        let share = |f: &dyn Fn(&Request) -> bool| {
            all.iter().filter(|r| f(r)).count() as f64 / all.len() as f64
        };
        assert!((share(&|r| r.size_bytes == 4096) - 0.75).abs() < 0.01);
        assert!((share(&|r| r.write) - 0.3).abs() < 0.01);
        assert!((share(&|r| r.sync_after) - 0.15).abs() < 0.01);
        assert!(
            all.iter().all(|r| r.offset_bytes % 512 == 0
                && r.offset_bytes + u64::from(r.size_bytes) <= 1 << 20)
        );
        assert!(all.iter().any(|r| r.offset_bytes % 4096 != 0));
        assert!(all.iter().all(|r| r.write || !r.sync_after), "a read is never synced");
    }

    #[test]
    fn sync_every_nth_write_exactly() {
        let pairs = [("write_fraction", "1"), ("fsync_every", "4")];
        let all = requests(&pairs, 1 << 20, 40, 0, 1);
        let synced: Vec<usize> =
            all.iter().enumerate().filter(|(_, r)| r.sync_after).map(|(i, _)| i).collect();
        assert_eq!(synced, [3, 7, 11, 15, 19, 23, 27, 31, 35, 39]);
    }

    #[test]
    fn sequential_threads_tile_the_range_and_the_amount() {
        let size = 1_000_000u64 / 512 * 512;
        let pairs =
            [("access", "sequential"), ("block_size", "4k"), ("amount", "1G"), ("align", "512")];
        let mut covered = vec![0u8; (size / 512) as usize];
        for thread in 0..3 {
            for r in requests(&pairs, size, usize::MAX, thread, 3) {
                let first = (r.offset_bytes / 512) as usize;
                covered[first..first + (r.size_bytes / 512) as usize]
                    .iter_mut()
                    .for_each(|c| *c += 1);
            }
        }
        assert!(covered.iter().all(|c| *c == 1), "each sector exactly once");
    }

    #[test]
    fn amounts_are_spread_evenly_and_appending_ends_at_the_end() {
        let pairs = [("access", "sequential"), ("block_size", "4k"), ("amount", "28k")];
        let blocks: Vec<usize> =
            (0..4).map(|t| requests(&pairs, 8 * 4096, usize::MAX, t, 4).len()).collect();
        assert_eq!(blocks, [2, 2, 2, 1]);
        let log = requests(&[("access", "append"), ("block_size", "4k")], 3 * 4096, 9, 0, 1);
        assert_eq!(log.len(), 3);
    }

    #[test]
    fn sequential_by_time_starts_again_at_the_end() {
        let all = requests(&[("access", "sequential"), ("block_size", "4k")], 3 * 4096, 7, 0, 1);
        let offsets: Vec<u64> = all.iter().map(|r| r.offset_bytes / 4096).collect();
        assert_eq!(offsets, [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn operations_are_shared_out_completely() {
        let total: usize = (0..3)
            .map(|t| requests(&[("operations", "100")], 1 << 20, usize::MAX, t, 3).len())
            .sum();
        assert_eq!(total, 100);
    }

    #[test]
    fn replication_reads_rewrites_logs_and_keeps_log_and_data_apart() {
        let pairs = [("access", "replication"), ("block_size", "16k"), ("write_fraction", "0.5")];
        let all = requests(&pairs, 1 << 20, 300, 0, 1);
        let log_start = (1u64 << 20) * 15 / 16;
        for (i, step) in all.chunks(3).enumerate() {
            let [read, write, log] = step else { panic!("three steps") };
            assert!(!read.write && read.begins_transaction);
            assert!(write.write && write.offset_bytes == read.offset_bytes && !write.sync_after);
            assert!(log.write && log.sync_after && log.ends_transaction && log.size_bytes == 4096);
            assert!(write.offset_bytes + u64::from(write.size_bytes) <= log_start);
            assert_eq!(log.offset_bytes, log_start + (i as u64 % 16) * 4096);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_stream() {
        let pairs = [("write_fraction", "0.5")];
        assert_eq!(requests(&pairs, 1 << 30, 100, 2, 4), requests(&pairs, 1 << 30, 100, 2, 4));
        assert_ne!(requests(&pairs, 1 << 30, 100, 2, 4), requests(&pairs, 1 << 30, 100, 3, 4));
    }
}
