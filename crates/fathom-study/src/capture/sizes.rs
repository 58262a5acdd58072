//! Sizes of requests in a synthetic twin: those of streams and those at random apart.

use fathom_base::order::Order;
use fathom_model::capture::CaptureClass;
use fathom_stats::histogram::{bucket_bounds, bucket_of};
use std::cmp::Reverse;

/// Sizes that are told apart, and the smallest share of one.
const SIZES_MAX: usize = 8;
const SIZE_SHARE_MIN: f64 = 0.01;
/// All others are told in so many groups, unless they are a smaller share of requests and bytes than that.
pub(super) const GROUPS: u64 = 8;

/// Sizes of requests of a class, or of some of them.
#[derive(Debug, Default)]
pub(super) struct Sizes {
    count: u64,
    bytes: u64,
    /// The most frequent ones, each with how often it came.
    kept: Vec<(u64, u64)>,
    /// All of them, by bucket; none in records of older versions.
    buckets: Vec<(usize, u64)>,
    largest: u64,
}

impl Sizes {
    pub(super) fn all(class: &CaptureClass) -> Self {
        Self {
            count: class.count,
            bytes: class.bytes,
            kept: class.sizes.clone(),
            buckets: class.all_sizes.occupied().collect(),
            largest: class.all_sizes.max().unwrap_or(u64::MAX),
        }
    }

    /// Of those that go on with a stream; all of them in records of older versions.
    pub(super) fn of_streams(class: &CaptureClass) -> Self {
        if class.follow_sizes.is_empty() {
            return Self::all(class);
        }
        let all = &class.all_follow_sizes;
        Self {
            count: class.follow,
            bytes: u64::try_from(all.sum()).unwrap_or(u64::MAX),
            kept: class.follow_sizes.clone(),
            buckets: all.occupied().collect(),
            largest: all.max().unwrap_or(u64::MAX),
        }
    }

    /// Of those that do not.
    pub(super) fn at_random(class: &CaptureClass) -> Self {
        let mut sizes = Self::all(class);
        if class.follow_sizes.is_empty() {
            return sizes;
        }
        let streams = Self::of_streams(class);
        sizes.count = sizes.count.saturating_sub(streams.count);
        sizes.bytes = sizes.bytes.saturating_sub(streams.bytes);
        without(&mut sizes.kept, &streams.kept);
        without(&mut sizes.buckets, &streams.buckets);
        sizes.kept.order_by_key(|(bytes, count)| (Reverse(*count), *bytes));
        sizes
    }

    /// Sizes with their weights: the most frequent ones, then the groups of the others.
    pub(super) fn text(&self) -> String {
        let mut sizes = self.frequent();
        sizes.extend(self.others(&sizes));
        match sizes.as_slice() {
            [] if self.count == 0 => "4096".to_owned(),
            [] => (self.bytes / self.count / 512 * 512).max(512).to_string(),
            [(bytes, _)] => bytes.to_string(),
            several => {
                let texts: Vec<String> =
                    several.iter().map(|(bytes, count)| format!("{bytes}:{count}")).collect();
                texts.join(",")
            }
        }
    }

    /// How many requests stand in groups.
    pub(super) fn rare(&self) -> u64 {
        self.others(&self.frequent()).iter().map(|(_, count)| count).sum()
    }

    fn frequent(&self) -> Vec<(u64, u64)> {
        let wanted = |(_, count): &&(u64, u64)| *count as f64 >= SIZE_SHARE_MIN * self.count as f64;
        self.kept.iter().filter(wanted).take(SIZES_MAX).copied().collect()
    }

    /// All sizes but those, from the smallest on in groups that are about equally frequent: the mean of each in whole blocks, with how
    /// often they came. None where they hardly count, and in records of older versions, which do not have them.
    fn others(&self, frequent: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let mut left = self.buckets.clone();
        let mut left_bytes = self.bytes;
        for (bytes, count) in frequent {
            let bucket = bucket_of(*bytes);
            if let Some((_, left)) = left.iter_mut().find(|(own, _)| *own == bucket) {
                *left = left.saturating_sub(*count);
            }
            left_bytes = left_bytes.saturating_sub(bytes * count);
        }
        let all: u64 = left.iter().map(|(_, count)| count).sum();
        let is_little = |part: u64, whole: u64| (part as f64) < SIZE_SHARE_MIN * whole as f64;
        if is_little(all, self.count) && is_little(left_bytes, self.bytes) {
            return Vec::new();
        }
        let has_large_blocks = self.kept.iter().all(|(bytes, _)| bytes.is_multiple_of(4096));
        let block = if has_large_blocks { 4096.0 } else { 512.0 };
        // The middle of a bucket is not where its requests are, but the sum of all is known.
        let middle = |bucket: usize| {
            let (low, high) = bucket_bounds(bucket);
            f64::midpoint(low as f64, high as f64)
        };
        let guessed: f64 = left.iter().map(|(at, requests)| *requests as f64 * middle(*at)).sum();
        let scale = if guessed > 0.0 { left_bytes as f64 / guessed } else { 1.0 };
        let mean = |count: u64, bytes: f64| {
            let blocks = (bytes / count as f64 / block).round().max(1.0);
            (((blocks * block) as u64).min(self.largest), count)
        };
        let mut groups = Vec::new();
        let (mut count, mut bytes) = (0, 0.0);
        for (bucket, requests) in left {
            count += requests;
            bytes += requests as f64 * middle(bucket) * scale;
            if count > 0 && count * GROUPS >= all {
                groups.push(mean(count, bytes));
                (count, bytes) = (0, 0.0);
            }
        }
        if count > 0 {
            groups.push(mean(count, bytes));
        }
        groups
    }
}

fn without<T: PartialEq>(counts: &mut Vec<(T, u64)>, others: &[(T, u64)]) {
    for (value, count) in counts.iter_mut() {
        let other = others.iter().find(|(other, _)| other == value);
        *count = count.saturating_sub(other.map_or(0, |(_, count)| *count));
    }
    counts.retain(|(_, count)| *count > 0);
}
