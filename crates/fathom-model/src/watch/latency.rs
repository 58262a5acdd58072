//! How long a device took for each request: what block tracepoints tell beyond the counters.

use fathom_stats::histogram::Histogram;
use fathom_stats::sparse::SparseHistogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One direction of a device in an interval.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowLatency {
    /// Requests that ended and whose beginning was seen.
    pub count: u64,
    /// Half of them took at most that.
    pub p50_ns: u64,
    /// 99 % of them did.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// All of them, to be merged with those of other intervals.
    pub histogram: SparseHistogram,
}

/// A device in an interval; directions without requests are none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencySample {
    /// Reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<FlowLatency>,
    /// Writes, without flushes and discards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes: Option<FlowLatency>,
    /// Counted from the arrival at the device: it has no queue of the kernel's (md, device mapper, zram). Else from the moment
    /// in which the driver got it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub from_arrival: bool,
}

impl FlowLatency {
    /// What a histogram comes to; none of an empty one.
    #[must_use]
    pub fn of(histogram: &Histogram) -> Option<Self> {
        Some(Self {
            count: histogram.count(),
            p50_ns: histogram.quantile(0.5)?,
            p99_ns: histogram.quantile(0.99)?,
            max_ns: histogram.max()?,
            histogram: histogram.into(),
        })
    }
}

impl LatencySample {
    /// The directions that had requests, by the names that their series have.
    pub fn flows(&self) -> impl Iterator<Item = (&'static str, &FlowLatency)> {
        let both = [("reads", &self.reads), ("writes", &self.writes)];
        both.into_iter().filter_map(|(name, flow)| Some((name, flow.as_ref()?)))
    }
}

/// All intervals of a device together: `reads` and `writes`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LatencySeries {
    /// By direction.
    pub flows: BTreeMap<String, Histogram>,
}

impl LatencySeries {
    /// Adds an interval.
    pub fn add(&mut self, sample: &LatencySample) {
        for (name, flow) in sample.flows() {
            self.merge(name, |all| all.merge_sparse(&flow.histogram));
        }
    }

    /// Adds another series.
    pub fn plus(&mut self, other: &Self) {
        for (name, flow) in &other.flows {
            self.merge(name, |all| all.merge(flow));
        }
    }

    fn merge(&mut self, name: &str, merge: impl FnOnce(&mut Histogram)) {
        merge(self.flows.entry(name.to_owned()).or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(values: &[u64]) -> LatencySample {
        let mut reads = Histogram::new();
        values.iter().for_each(|value| reads.record(*value));
        LatencySample { reads: FlowLatency::of(&reads), ..LatencySample::default() }
    }

    #[test]
    fn intervals_are_merged_and_never_averaged() {
        let mut quiet: Vec<u64> = vec![10; 990];
        quiet.extend([50; 10]);
        let (quiet, slow) = (sample(&quiet), sample(&[900]));
        let of = |sample: &LatencySample| sample.reads.clone().unwrap();
        let told = of(&quiet);
        assert_eq!((told.count, told.p50_ns, told.p99_ns, told.max_ns), (1000, 10, 10, 50));
        let (mut all, mut more) = (LatencySeries::default(), LatencySeries::default());
        all.add(&quiet);
        more.add(&slow);
        all.plus(&more);
        let text = serde_json::to_string(&all).unwrap();
        let all: LatencySeries = serde_json::from_str(&text).unwrap();
        let reads = &all.flows["reads"];
        assert_eq!((reads.count(), reads.max(), reads.quantile(0.99)), (1001, Some(900), Some(50)));
        assert!(!all.flows.contains_key("writes"));
        assert_eq!(sample(&[]), LatencySample::default());
    }
}
