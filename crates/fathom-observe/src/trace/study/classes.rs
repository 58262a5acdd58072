//! How many requests of which class and size, and how long they took.

use super::flag_counts;
use crate::trace::event::{Class, Event, Flags, SECTOR_BYTES};
use crate::trace::flight::{Done, Level};
use fathom_base::order::Order;
use fathom_model::capture::CaptureClass;
use fathom_stats::{Histogram, SparseHistogram};
use std::collections::HashMap;

/// Different sizes that are counted one by one.
const SIZES_MAX: usize = 4096;
/// Of these, so many are kept.
const SIZES_KEPT: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Classes([One; Class::ALL.len()]);

#[derive(Debug, Default)]
struct One {
    count: u64,
    /// Requests with data, their bytes, the sum of squares and of inverses.
    with_data: u64,
    bytes: u64,
    squares: u128,
    inverses: f64,
    sizes: Sizes,
    flags: [u64; 5],
    durable: u64,
    follow: u64,
    follow_sizes: Sizes,
    total_ns: Histogram,
    wait_ns: Histogram,
    service_ns: Histogram,
}

/// How often each size came.
#[derive(Debug, Default)]
struct Sizes {
    by_sectors: HashMap<u32, u64>,
    bytes: Histogram,
}

impl Sizes {
    fn count(&mut self, sectors: u32) {
        self.bytes.record(u64::from(sectors) * SECTOR_BYTES);
        let is_full = self.by_sectors.len() >= SIZES_MAX;
        if let Some(count) = self.by_sectors.get_mut(&sectors) {
            *count += 1;
        } else if !is_full {
            self.by_sectors.insert(sectors, 1);
        }
    }

    /// The most frequent ones, and all.
    fn finish(self) -> (Vec<(u64, u64)>, SparseHistogram) {
        let in_bytes = |(sectors, count)| (u64::from(sectors) * SECTOR_BYTES, count);
        let mut sizes: Vec<(u64, u64)> = self.by_sectors.into_iter().map(in_bytes).collect();
        sizes.order_by_key(|(bytes, count)| (std::cmp::Reverse(*count), *bytes));
        sizes.truncate(SIZES_KEPT);
        (sizes, SparseHistogram::from(&self.bytes))
    }
}

impl Classes {
    pub(super) fn arrived(&mut self, event: &Event) {
        let one = &mut self.0[event.class as usize];
        one.count += 1;
        for (sum, count) in one.flags.iter_mut().zip(flag_counts(event)) {
            *sum += count;
        }
        let is_durable = event.flags.has(Flags::FUA) || event.flags.has(Flags::PREFLUSH);
        one.durable += u64::from(is_durable);
        let bytes = u64::from(event.sectors) * SECTOR_BYTES;
        if bytes > 0 {
            one.with_data += 1;
            one.bytes += bytes;
            one.squares += u128::from(bytes) * u128::from(bytes);
            one.inverses += 1.0 / bytes as f64;
            one.sizes.count(event.sectors);
        }
    }

    /// It goes on with a stream.
    pub(super) fn follows(&mut self, event: &Event) {
        let one = &mut self.0[event.class as usize];
        one.follow += 1;
        one.follow_sizes.count(event.sectors);
    }

    pub(super) fn ended(&mut self, done: &Done) {
        let one = &mut self.0[done.class as usize];
        let took_ns = done.end_ns.saturating_sub(done.start_ns);
        match done.level {
            Level::Issued => one.service_ns.record(took_ns),
            Level::Arrived => {
                one.total_ns.record(took_ns);
                if let Some(issue_ns) = done.issue_ns {
                    one.wait_ns.record(issue_ns.saturating_sub(done.start_ns));
                }
            }
        }
    }

    pub(super) fn finish(self) -> Vec<CaptureClass> {
        let named = Class::ALL.into_iter().zip(self.0);
        named.filter(|(_, one)| one.count > 0).map(|(class, one)| one.finish(class)).collect()
    }
}

impl One {
    fn finish(self, class: Class) -> CaptureClass {
        let n = self.with_data.max(1) as f64;
        let mean = self.bytes as f64 / n;
        let variance = (self.squares as f64 / n - mean * mean).max(0.0);
        let (sizes, all_sizes) = self.sizes.finish();
        let (follow_sizes, all_follow_sizes) = self.follow_sizes.finish();
        let [sync, meta, fua, preflush, ahead] = self.flags;
        CaptureClass {
            class: class.word().to_owned(),
            count: self.count,
            bytes: self.bytes,
            sizes,
            all_sizes,
            size_mean: mean,
            size_deviation: variance.sqrt(),
            size_harmonic: if self.with_data == 0 { 0.0 } else { n / self.inverses },
            follow: self.follow,
            follow_sizes,
            all_follow_sizes,
            sync,
            meta,
            fua,
            preflush,
            durable: self.durable,
            ahead,
            total_ns: self.total_ns,
            wait_ns: self.wait_ns,
            service_ns: self.service_ns,
        }
    }
}
