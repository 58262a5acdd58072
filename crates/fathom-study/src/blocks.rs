//! What was measured in the same blocks, as a ratio.

use fathom_model::record::Record;
use fathom_stats::interval::{Estimate, mean_interval, median};
use fathom_stats::rank::paired::log_ratios;
use std::collections::BTreeMap;

/// Bytes per second of a trial, all its jobs together.
pub(crate) fn rate(record: &Record) -> f64 {
    let bytes = record.jobs.iter().map(|job| job.transfers().bytes).sum::<u64>();
    bytes as f64 / (record.window_ns.max(1) as f64 / 1e9)
}

/// A rate for each block by its number, each finite and above 0.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ByBlock(BTreeMap<u64, f64>);

impl ByBlock {
    /// Of several rates in one block their median.
    pub fn medians(rates: impl IntoIterator<Item = (u64, f64)>) -> Self {
        let mut all: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for (block, rate) in rates.into_iter().filter(|(_, rate)| rate.is_finite() && *rate > 0.0) {
            all.entry(block).or_default().push(rate);
        }
        let of = |(block, rates): (u64, Vec<f64>)| Some((block, median(&rates).ok()?));
        Self(all.into_iter().filter_map(of).collect())
    }

    /// The sum of some, in the blocks that all of them have.
    pub fn sum<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        let add = |a: Self, b: &Self| {
            Self(a.0.iter().filter_map(|(at, rate)| Some((*at, rate + b.0.get(at)?))).collect())
        };
        let mut all = all.into_iter();
        let first = all.next().cloned().unwrap_or_default();
        all.fold(first, add)
    }

    /// This by that: the geometric mean over the blocks that have both, and the 95 % interval of Student's t for the mean of
    /// the logarithms; a value without interval of one block, nothing of none. Blocks are pairs, so that what drifts from block
    /// to block hits both sides alike. Where they are not, because one side was measured before the other, the interval is
    /// still right, only wider than it would have to be.
    pub fn ratio(&self, that: &Self) -> Option<Estimate> {
        let both = self.0.iter().filter_map(|(at, own)| Some((*that.0.get(at)?, *own)));
        let (those, own): (Vec<f64>, Vec<f64>) = both.unzip();
        Some(mean_interval(&log_ratios(&those, &own).ok()?, 0.95).ok()?.map(f64::exp))
    }
}

/// A share with its interval: `55 % (95 %: 50 to 61 %)`, or with why it has none.
pub(crate) fn percent(of: &Estimate) -> String {
    let text = |share: f64| format!("{:.0} %", 100.0 * share);
    match of.interval {
        Some(interval) => format!("{} ({})", text(of.value), interval.sure_range(text)),
        None => format!("{} (one trial, no interval)", text(of.value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_block(rates: &[(u64, f64)]) -> ByBlock {
        ByBlock::medians(rates.iter().copied())
    }

    #[test]
    fn a_ratio_of_two_blocks_by_hand() {
        // Logarithms of 0.5 and 2: mean 0, standard deviation sqrt(2) ln 2, t of one degree of freedom 12.7062.
        let ratio = by_block(&[(1, 1.0), (2, 4.0)]).ratio(&by_block(&[(1, 2.0), (2, 2.0)]));
        let ratio = ratio.expect("two blocks");
        let high = (12.706_204_7 * 2f64.sqrt() * 2f64.ln() / 2f64.sqrt()).exp();
        let interval = ratio.interval.expect("two blocks");
        assert!((ratio.value - 1.0).abs() < 1e-12 && ratio.count == 2);
        assert!((interval.high / high - 1.0).abs() < 1e-6, "{interval:?} {high}");
        assert!((interval.low * high - 1.0).abs() < 1e-6);
        assert!(percent(&ratio).starts_with("100 % (95 %: 0 to "));
    }

    #[test]
    fn drift_from_block_to_block_is_no_doubt() {
        let own = by_block(&[(1, 50.0), (2, 100.0), (3, 400.0)]);
        let that = by_block(&[(1, 100.0), (2, 200.0), (3, 800.0)]);
        let interval = own.ratio(&that).and_then(|ratio| ratio.interval).expect("three blocks");
        assert!(interval.contains(0.5) && interval.high - interval.low < 1e-9);
    }

    #[test]
    fn only_blocks_of_both_sides_count() {
        let own = by_block(&[(1, 30.0), (2, 99.0)]);
        let one = own.ratio(&by_block(&[(1, 60.0), (3, 1.0)])).expect("one block");
        assert!((one.value - 0.5).abs() < 1e-12);
        assert_eq!((one.count, one.interval), (1, None));
        assert_eq!(percent(&one), "50 % (one trial, no interval)");
        assert_eq!(own.ratio(&by_block(&[(4, 1.0), (2, 0.0)])), None);
    }

    #[test]
    fn medians_and_sums() {
        let medians = by_block(&[(1, 1.0), (1, 9.0), (1, 2.0), (2, 3.0)]);
        assert_eq!(medians, by_block(&[(1, 2.0), (2, 3.0)]));
        let sum = ByBlock::sum([&medians, &by_block(&[(2, 4.0), (3, 5.0)]), &medians]);
        assert_eq!(sum, by_block(&[(2, 10.0)]));
        assert_eq!(ByBlock::sum([]), ByBlock::default());
    }
}
