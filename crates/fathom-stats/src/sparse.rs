//! The frozen form of a histogram: what is kept and stored once nothing is counted into it any more.
//!
//! A dense histogram takes 30 KiB whatever it holds; this one takes about three bytes for each occupied bucket, so that
//! a series of many thousand intervals stays small. Nothing is lost: both forms hold the same counts and moments.

use crate::histogram::{BUCKETS, Histogram, bucket_of};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A histogram in little memory, read-only; counts as [`Histogram`] does.
#[derive(Clone, PartialEq, Eq)]
pub struct SparseHistogram {
    /// Number of values.
    count: u64,
    /// Smallest and largest value; `u64::MAX` and 0 when there is none.
    min: u64,
    max: u64,
    sum: u128,
    sum_squares: u128,
    /// For each occupied bucket in rising order: the step from the one before, and its count, both as LEB128 (seven
    /// bits a byte, low bits first).
    packed: Box<[u8]>,
}

impl SparseHistogram {
    crate::moments::accessors!();

    /// The buckets that hold something, with their counts, in rising order.
    pub fn occupied(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let mut rest = self.packed.iter();
        let mut bucket = 0;
        std::iter::from_fn(move || {
            bucket += unpack(&mut rest)? as usize;
            Some((bucket, unpack(&mut rest)?))
        })
    }
}

/// An empty one, without any memory behind it.
impl Default for SparseHistogram {
    fn default() -> Self {
        let packed = Box::default();
        Self { count: 0, min: u64::MAX, max: 0, sum: 0, sum_squares: 0, packed }
    }
}

impl std::fmt::Debug for SparseHistogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SparseHistogram(n={}, min={:?}, max={:?})", self.count, self.min(), self.max())
    }
}

fn pack(packed: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        packed.push(value as u8 | 0x80);
        value >>= 7;
    }
    packed.push(value as u8);
}

fn unpack(bytes: &mut std::slice::Iter<'_, u8>) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.next()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    Some(value)
}

impl From<&Histogram> for SparseHistogram {
    fn from(dense: &Histogram) -> Self {
        let mut packed = Vec::new();
        let mut previous = 0;
        for (bucket, count) in dense.occupied() {
            pack(&mut packed, (bucket - previous) as u64);
            pack(&mut packed, count);
            previous = bucket;
        }
        Self {
            count: dense.count(),
            min: dense.min().unwrap_or(u64::MAX),
            max: dense.max().unwrap_or(0),
            sum: dense.sum(),
            sum_squares: dense.sum_squares(),
            packed: packed.into_boxed_slice(),
        }
    }
}

/// The stored form: readable by anything that reads JSON.
#[derive(Serialize, Deserialize)]
struct Stored {
    count: u64,
    min: u64,
    max: u64,
    /// Decimal strings: 128 bits do not survive JSON readers that use doubles.
    sum: String,
    sum_squares: String,
    /// Alternating: step from the previous occupied bucket, count.
    buckets: Vec<u64>,
}

impl Serialize for SparseHistogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut rest = self.packed.iter();
        let buckets = std::iter::from_fn(|| unpack(&mut rest)).collect();
        let (sum, sum_squares) = (self.sum.to_string(), self.sum_squares.to_string());
        let min = self.min().unwrap_or(0);
        Stored { count: self.count, min, max: self.max, sum, sum_squares, buckets }
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SparseHistogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let stored = Stored::deserialize(deserializer)?;
        let inside = bucket_of(stored.min)..=bucket_of(stored.max);
        let mut packed = Vec::new();
        let (mut bucket, mut total) = (0usize, 0u64);
        for (index, pair) in stored.buckets.chunks(2).enumerate() {
            let [step, count] = *pair else { return Err(D::Error::custom("odd bucket list")) };
            let next = usize::try_from(step).ok().and_then(|s| bucket.checked_add(s));
            bucket = next
                .filter(|b| *b < BUCKETS)
                .ok_or_else(|| D::Error::custom("bucket out of range"))?;
            if count == 0 || (step == 0 && index > 0) {
                return Err(D::Error::custom("an empty or repeated bucket"));
            }
            if !inside.contains(&bucket) {
                return Err(D::Error::custom("a bucket lies outside minimum and maximum"));
            }
            total = total.checked_add(count).ok_or_else(|| D::Error::custom("count overflow"))?;
            pack(&mut packed, step);
            pack(&mut packed, count);
        }
        if total != stored.count {
            return Err(D::Error::custom("bucket counts do not add up to the total"));
        }
        if total == 0 {
            return Ok(Self::default());
        }
        Ok(Self {
            count: total,
            min: stored.min,
            max: stored.max,
            sum: stored.sum.parse().map_err(D::Error::custom)?,
            sum_squares: stored.sum_squares.parse().map_err(D::Error::custom)?,
            packed: packed.into_boxed_slice(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_of_every_length_come_back() {
        let values = (0..64).map(|bits| u64::MAX >> bits).chain([0, 1, 127, 128, 16_383, 16_384]);
        for value in values {
            let mut packed = Vec::new();
            pack(&mut packed, value);
            assert!(packed.len() <= 10);
            let mut rest = packed.iter();
            assert_eq!((unpack(&mut rest), rest.len()), (Some(value), 0), "{value}");
        }
    }

    fn values() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec((0u32..64).prop_flat_map(|bits| 0..=(1u64 << bits)), 0..300)
    }

    fn of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        values.iter().for_each(|v| histogram.record(*v));
        histogram
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_sums_are_those_of_the_dense_form(a in values(), b in values()) {
            let (dense_a, dense_b) = (of(&a), of(&b));
            let (sparse_a, sparse_b) = (SparseHistogram::from(&dense_a), SparseHistogram::from(&dense_b));
            prop_assert_eq!(sparse_a.count(), a.len() as u64);
            prop_assert_eq!((sparse_a.min(), sparse_a.max()), (dense_a.min(), dense_a.max()));
            prop_assert!(sparse_a.occupied().eq(dense_a.occupied()));
            prop_assert_eq!(&Histogram::from(&sparse_a), &dense_a);
            let mut merged = dense_a.clone();
            merged.merge_sparse(&sparse_b);
            let mut expected = dense_a;
            expected.merge(&dense_b);
            prop_assert_eq!(&merged, &expected);
        }

        #[test]
        fn both_forms_are_stored_alike(v in values()) {
            let dense = of(&v);
            let sparse = SparseHistogram::from(&dense);
            let text = serde_json::to_string(&sparse).unwrap_or_default();
            prop_assert_eq!(&text, &serde_json::to_string(&dense).unwrap_or_default());
            let back: SparseHistogram = serde_json::from_str(&text).map_err(|e| TestCaseError::fail(e.to_string()))?;
            prop_assert_eq!(back, sparse);
        }
    }
}
