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
    sizes: HashMap<u32, u64>,
    all_sizes: Histogram,
    flags: [u64; 5],
    durable: u64,
    follow: u64,
    total_ns: Histogram,
    wait_ns: Histogram,
    service_ns: Histogram,
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
            one.all_sizes.record(bytes);
            let is_full = one.sizes.len() >= SIZES_MAX;
            if let Some(count) = one.sizes.get_mut(&event.sectors) {
                *count += 1;
            } else if !is_full {
                one.sizes.insert(event.sectors, 1);
            }
        }
    }

    /// The last one that arrived goes on with a stream.
    pub(super) fn follows(&mut self, class: Class) {
        self.0[class as usize].follow += 1;
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
        let mut sizes: Vec<(u64, u64)> = self
            .sizes
            .into_iter()
            .map(|(sectors, count)| (u64::from(sectors) * SECTOR_BYTES, count))
            .collect();
        sizes.order_by_key(|(bytes, count)| (std::cmp::Reverse(*count), *bytes));
        sizes.truncate(SIZES_KEPT);
        let [sync, meta, fua, preflush, ahead] = self.flags;
        CaptureClass {
            class: class.word().to_owned(),
            count: self.count,
            bytes: self.bytes,
            sizes,
            all_sizes: SparseHistogram::from(&self.all_sizes),
            size_mean: mean,
            size_deviation: variance.sqrt(),
            size_harmonic: if self.with_data == 0 { 0.0 } else { n / self.inverses },
            follow: self.follow,
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
