//! The latency histogram: log-linear, lossless in count, minimum, maximum, mean and standard deviation.
//!
//! Every power of two is cut into 64 buckets, so the middle of a bucket is off by at most 1/128 = 0.78 %.
//! There is no ceiling: the last bucket ends at `u64::MAX` nanoseconds (584 years). Histograms merge by addition;
//! percentiles are computed from merged counts and never averaged.

use crate::sparse::SparseHistogram;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const SUB_BITS: u32 = 6;
const SUB_BUCKETS: usize = 1 << SUB_BITS;
/// Buckets in a histogram: 64 exact ones and 64 for each of the 58 octaves above.
pub const BUCKETS: usize = SUB_BUCKETS * (64 - SUB_BITS as usize + 1);

/// Memory of one histogram in bytes, whatever it holds.
pub const HISTOGRAM_BYTES: usize = BUCKETS * size_of::<u64>();

/// Counts of values (nanoseconds, by convention) with exact moments.
#[derive(Clone)]
pub struct Histogram {
    /// All buckets; none yet while `frozen` holds the counts.
    counts: Box<[u64]>,
    /// What was read back, until something is counted into it: records of many trials are only looked at, and dense ones
    /// would fill the memory.
    frozen: Option<Box<SparseHistogram>>,
    count: u64,
    min: u64,
    max: u64,
    sum: u128,
    sum_squares: u128,
}

/// Counts values into a histogram: what changes with each is kept beside it, where it costs least, and goes in when this is
/// dropped.
pub struct Counting<'h> {
    histogram: &'h mut Histogram,
    count: u64,
    min: u64,
    max: u64,
    sum: u128,
    sum_squares: u128,
}

impl Counting<'_> {
    /// As [`Histogram::record`].
    #[inline(always)]
    pub fn record(&mut self, value: u64) {
        self.histogram.counts[bucket_of(value)] += 1;
        self.count += 1;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.sum += u128::from(value);
        let square = u128::from(value) * u128::from(value);
        self.sum_squares = self.sum_squares.saturating_add(square);
    }
}

impl Drop for Counting<'_> {
    #[inline]
    fn drop(&mut self) {
        let Self { histogram, count, min, max, sum, sum_squares } = self;
        histogram.count += *count;
        histogram.min = histogram.min.min(*min);
        histogram.max = histogram.max.max(*max);
        histogram.sum += *sum;
        histogram.sum_squares = histogram.sum_squares.saturating_add(*sum_squares);
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Histogram(n={}, min={:?}, max={:?})", self.count, self.min(), self.max())
    }
}

/// The bucket that holds `value`.
#[inline]
#[must_use]
pub fn bucket_of(value: u64) -> usize {
    if value < SUB_BUCKETS as u64 {
        return value as usize;
    }
    let shift = value.ilog2() - SUB_BITS;
    // The top bit of the shifted value is the 64 that `shift + 1` octaves would add once too often.
    ((shift as usize) << SUB_BITS) + (value >> shift) as usize
}

/// The smallest and the largest value of a bucket.
#[must_use]
pub fn bucket_bounds(bucket: usize) -> (u64, u64) {
    if bucket < 2 * SUB_BUCKETS {
        return (bucket as u64, bucket as u64);
    }
    let shift = (bucket >> SUB_BITS) as u32 - 1;
    let low = ((bucket & (SUB_BUCKETS - 1)) as u64 + SUB_BUCKETS as u64) << shift;
    (low, low + ((1u64 << shift) - 1))
}

impl Histogram {
    /// An empty histogram; allocates its buckets once (30 KiB) and never again.
    #[must_use]
    pub fn new() -> Self {
        Self {
            counts: vec![0; BUCKETS].into_boxed_slice(),
            frozen: None,
            count: 0,
            min: u64::MAX,
            max: 0,
            sum: 0,
            sum_squares: 0,
        }
    }

    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.add(bucket_of(value), 1);
        self.count += 1;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.sum += u128::from(value);
        self.sum_squares = self.sum_squares.saturating_add(u128::from(value) * u128::from(value));
    }

    /// For counting values one after the other, with nothing else in between.
    #[inline]
    pub fn counting(&mut self) -> Counting<'_> {
        self.thawed();
        Counting { histogram: self, count: 0, min: u64::MAX, max: 0, sum: 0, sum_squares: 0 }
    }

    /// Counts a value `times` times.
    pub fn record_n(&mut self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        self.add(bucket_of(value), times);
        self.count += times;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        let (value, times) = (u128::from(value), u128::from(times));
        self.sum = self.sum.saturating_add(value * times);
        self.sum_squares = self.sum_squares.saturating_add((value * value).saturating_mul(times));
    }

    #[inline]
    fn add(&mut self, bucket: usize, times: u64) {
        match self.counts.get_mut(bucket) {
            Some(count) => *count += times,
            None => self.thawed()[bucket] += times,
        }
    }

    /// All buckets, to be counted into.
    #[cold]
    fn thawed(&mut self) -> &mut [u64] {
        if self.counts.is_empty() {
            self.counts = vec![0; BUCKETS].into_boxed_slice();
            for (bucket, count) in self.frozen.take().iter().flat_map(|frozen| frozen.occupied()) {
                self.counts[bucket] = count;
            }
        }
        &mut self.counts
    }

    /// Adds all of `other` to this one.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if let Some(frozen) = &other.frozen {
            return self.merge_sparse(frozen);
        }
        self.thawed();
        // Only the octaves that were touched hold anything.
        let touched = bucket_of(other.min)..=bucket_of(other.max);
        let pairs = self.counts[touched.clone()].iter_mut().zip(&other.counts[touched]);
        pairs.for_each(|(mine, theirs)| *mine += theirs);
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        self.sum_squares = self.sum_squares.saturating_add(other.sum_squares);
    }

    /// Adds all of `other` to this one.
    pub fn merge_sparse(&mut self, other: &SparseHistogram) {
        let (Some(min), Some(max)) = (other.min(), other.max()) else { return };
        let counts = self.thawed();
        other.occupied().for_each(|(bucket, count)| counts[bucket] += count);
        self.count += other.count();
        self.min = self.min.min(min);
        self.max = self.max.max(max);
        self.sum += other.sum();
        self.sum_squares = self.sum_squares.saturating_add(other.sum_squares());
    }

    /// Empties the histogram and keeps its memory.
    pub fn clear(&mut self) {
        if self.count == 0 {
            return;
        }
        self.frozen = None;
        // Only the octaves that were touched need zeroing.
        let (first, last) = (bucket_of(self.min), bucket_of(self.max));
        self.thawed()[first..=last].fill(0);
        (self.count, self.min, self.max, self.sum, self.sum_squares) = (0, u64::MAX, 0, 0, 0);
    }

    crate::moments::accessors!();

    /// Arithmetic mean, exact up to rounding to `f64`.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Sample standard deviation (n - 1 below); none for fewer than two values.
    ///
    /// The difference n*sum(x^2) - sum(x)^2 is taken in integers, so nothing cancels.
    #[must_use]
    pub fn stddev(&self) -> Option<f64> {
        if self.count < 2 {
            return None;
        }
        let n = u128::from(self.count);
        let variance_sum = match (n.checked_mul(self.sum_squares), self.sum.checked_mul(self.sum)) {
            (Some(squares), Some(square)) => squares.saturating_sub(square) as f64,
            // Beyond 128 bits (years of microsecond I/O): floating point, still better than 1e-9 relative.
            _ => (n as f64 * self.sum_squares as f64 - (self.sum as f64).powi(2)).max(0.0),
        };
        Some((variance_sum / (n as f64 * (n as f64 - 1.0))).sqrt())
    }

    /// The value below or at which a share `q` (0..=1) of all values lies: nearest rank, middle of its bucket,
    /// clamped to the exact minimum and maximum.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        let rank = ((q.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).clamp(1, self.count);
        if rank == self.count {
            return self.max();
        }
        let mut seen = 0;
        for (bucket, count) in self.occupied() {
            seen += count;
            if seen >= rank {
                let (low, high) = bucket_bounds(bucket);
                return Some((low + (high - low) / 2).clamp(self.min, self.max));
            }
        }
        self.max()
    }

    /// Values strictly above the bucket of `limit`.
    #[must_use]
    pub fn count_above(&self, limit: u64) -> u64 {
        let first = bucket_of(limit) + 1;
        self.occupied().filter(|(bucket, _)| *bucket >= first).map(|(_, count)| count).sum()
    }

    /// The buckets that hold something, with their counts, in rising order.
    pub fn occupied(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let is_dense = self.count > 0 && self.frozen.is_none();
        let range = if is_dense { bucket_of(self.min)..bucket_of(self.max) + 1 } else { 0..0 };
        let dense = range.filter_map(|bucket| {
            (self.counts[bucket] > 0).then_some((bucket, self.counts[bucket]))
        });
        dense.chain(self.frozen.iter().flat_map(|frozen| frozen.occupied()))
    }
}

/// Two are alike when they hold the same counts, in whichever form.
impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        let moments = |of: &Self| (of.count, of.min, of.max, of.sum, of.sum_squares);
        moments(self) == moments(other) && self.occupied().eq(other.occupied())
    }
}

impl Eq for Histogram {}

/// Takes little memory until something is counted into it.
impl From<SparseHistogram> for Histogram {
    fn from(sparse: SparseHistogram) -> Self {
        Self {
            counts: Box::default(),
            count: sparse.count(),
            min: sparse.min().unwrap_or(u64::MAX),
            max: sparse.max().unwrap_or(0),
            sum: sparse.sum(),
            sum_squares: sparse.sum_squares(),
            frozen: Some(Box::new(sparse)),
        }
    }
}

impl From<&SparseHistogram> for Histogram {
    fn from(sparse: &SparseHistogram) -> Self {
        let mut dense = Self::new();
        dense.merge_sparse(sparse);
        dense
    }
}

/// Stored as [`SparseHistogram`] is.
impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        SparseHistogram::from(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        SparseHistogram::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_tile_the_whole_range() {
        let mut next = 0u64;
        for bucket in 0..BUCKETS {
            let (low, high) = bucket_bounds(bucket);
            assert_eq!(low, next, "bucket {bucket}");
            assert_eq!((bucket_of(low), bucket_of(high)), (bucket, bucket));
            // The error bound the module text promises.
            assert!((high - low) as f64 / 2.0 <= low as f64 / 128.0 + 0.5, "bucket {bucket}");
            next = high.wrapping_add(1);
        }
        assert_eq!(next, 0, "the last bucket ends at u64::MAX");
    }

    fn of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        values.iter().for_each(|v| histogram.record(*v));
        histogram
    }

    #[test]
    fn a_value_counted_n_times_is_n_values() {
        let mut at_once = of(&[7]);
        for (value, times) in [(3, 0), (1_000_000_007, 5), (u64::MAX, 2)] {
            at_once.record_n(value, times);
        }
        let (big, most) = (1_000_000_007, u64::MAX);
        assert_eq!(at_once, of(&[7, big, big, big, big, big, most, most]));
    }

    #[test]
    fn known_moments() {
        // 2, 4, 4, 4, 5, 5, 7, 9: mean 5, sample variance 32/7.
        let histogram = of(&[2, 4, 4, 4, 5, 5, 7, 9]);
        assert_eq!(histogram.mean(), Some(5.0));
        let sd = histogram.stddev().unwrap_or_default();
        assert!((sd - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!((histogram.quantile(0.5), histogram.quantile(1.0)), (Some(4), Some(9)));
        assert_eq!((histogram.min(), histogram.max()), (Some(2), Some(9)));
        assert_eq!(histogram.count_above(5), 2);
    }

    #[test]
    fn no_ceiling_below_a_thousand_seconds_and_no_cancellation() {
        // A thousand seconds plus or minus one nanosecond: floating sums would lose the deviation entirely.
        let centre = 1_000_000_000_000u64;
        let histogram = of(&[centre - 1, centre, centre + 1]);
        assert_eq!(histogram.stddev(), Some(1.0));
        let big = of(&[centre * 3, 17]);
        assert_eq!(big.max(), Some(3_000_000_000_000));
        assert!((big.quantile(0.99).unwrap_or(0) as f64 / 3e12 - 1.0).abs() < 0.01);
    }

    #[test]
    fn empty_has_no_figures() {
        let histogram = Histogram::new();
        assert_eq!(histogram.mean(), None);
        assert_eq!(histogram.quantile(0.5), None);
        assert_eq!(histogram.stddev(), None);
        assert_eq!(of(&[7]).stddev(), None);
    }

    #[test]
    fn damaged_stored_forms_are_refused() {
        for text in [
            r#"{"count":2,"min":1,"max":1,"sum":"1","sum_squares":"1","buckets":[1,1]}"#,
            r#"{"count":1,"min":1,"max":1,"sum":"1","sum_squares":"1","buckets":[99999,1]}"#,
            r#"{"count":1,"min":1,"max":1,"sum":"x","sum_squares":"1","buckets":[1,1]}"#,
            r#"{"count":1,"min":1,"max":1,"sum":"1","sum_squares":"1","buckets":[1]}"#,
            r#"{"count":1,"min":1,"max":1,"sum":"1","sum_squares":"1","buckets":[5,1]}"#,
            r#"{"count":2,"min":1,"max":1,"sum":"2","sum_squares":"2","buckets":[1,1,0,1]}"#,
            r#"{"count":1,"min":1,"max":2,"sum":"1","sum_squares":"1","buckets":[1,1,1,0]}"#,
        ] {
            assert!(serde_json::from_str::<Histogram>(text).is_err(), "{text}");
        }
    }

    fn values() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec((0u32..50).prop_flat_map(|bits| 0..(1u64 << bits)), 1..300)
    }

    proptest! {
        #[test]
        fn quantiles_agree_with_the_sorted_values(mut v in values(), q in 0.0f64..=1.0) {
            let histogram = of(&v);
            v.sort_unstable();
            let rank = ((q * v.len() as f64).ceil() as usize).clamp(1, v.len());
            let (exact, got) = (v[rank - 1] as f64, histogram.quantile(q).unwrap_or(u64::MAX) as f64);
            prop_assert!((got - exact).abs() <= exact / 128.0 + 0.5, "{got} for {exact}");
        }

        #[test]
        fn merging_equals_recording_all(a in values(), b in values()) {
            let mut merged = of(&a);
            merged.merge(&of(&b));
            let all: Vec<u64> = a.iter().chain(&b).copied().collect();
            prop_assert_eq!(&merged, &of(&all));
            merged.clear();
            prop_assert_eq!(merged, Histogram::new());
        }

        #[test]
        fn stored_and_read_back(v in values()) {
            let histogram = of(&v);
            let text = serde_json::to_string(&histogram).unwrap_or_default();
            let back: Histogram = serde_json::from_str(&text).map_err(|e| TestCaseError::fail(e.to_string()))?;
            prop_assert_eq!(back, histogram);
        }

        /// What was read back counts like any other, from whichever side it is used first.
        #[test]
        fn read_back_and_counted_on(a in values(), b in values(), limit in 0u64..1 << 50) {
            let back = |values: &[u64]| -> Histogram {
                let text = serde_json::to_string(&of(values)).unwrap_or_default();
                serde_json::from_str(&text).unwrap_or_default()
            };
            let all: Vec<u64> = a.iter().chain(&b).copied().collect();
            let mut counted_on = back(&a);
            b.iter().for_each(|value| counted_on.record(*value));
            prop_assert_eq!(&counted_on, &of(&all));
            let mut merged = back(&a);
            merged.merge(&back(&b));
            prop_assert_eq!(&merged, &of(&all));
            let mut into_dense = of(&a);
            into_dense.merge(&back(&b));
            prop_assert_eq!(&into_dense, &of(&all));
            prop_assert_eq!(back(&a).count_above(limit), of(&a).count_above(limit));
            prop_assert_eq!(back(&a).quantile(0.9), of(&a).quantile(0.9));
            let mut emptied = back(&a);
            emptied.clear();
            prop_assert_eq!(&emptied, &Histogram::new());
            emptied.merge(&of(&b));
            prop_assert_eq!(emptied, of(&b));
        }

        #[test]
        fn agrees_with_hdrhistogram(v in values()) {
            let mut oracle = hdrhistogram::Histogram::<u64>::new(4).map_err(|e| TestCaseError::fail(e.to_string()))?;
            for value in &v { oracle.record(value + 1).map_err(|e| TestCaseError::fail(e.to_string()))?; }
            let shifted: Vec<u64> = v.iter().map(|x| x + 1).collect();
            let ours = of(&shifted);
            for q in [0.5, 0.9, 0.99] {
                let (theirs, ours) = (oracle.value_at_quantile(q) as f64, ours.quantile(q).unwrap_or(0) as f64);
                prop_assert!((ours - theirs).abs() <= theirs * 0.009 + 1.0, "{ours} {theirs}");
            }
        }
    }
}
