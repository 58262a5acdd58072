//! The values of one figure over a whole watch, and what they come to. Of most devices most seconds are nothing: zeros are counted, not
//! kept.

use super::{LEVEL, WatchFigure};
use fathom_stats::interval::Interval;
use fathom_stats::means::harmonic_mean;
use fathom_stats::quantile::at_shares;
use fathom_stats::series::{SeriesMean, VALUES_MIN, mean_of_series};
use fathom_stats::special::normal_quantile;

/// Values of 0 and above in the order of time.
#[derive(Debug, Clone, Default)]
pub(super) struct Column {
    /// Those above 0.
    above: Vec<f64>,
    /// After how many of these so many zeros stand, from front to back.
    gaps: Vec<(usize, usize)>,
    zeros: usize,
    /// What each value was divided by, where that is no time: such a column keeps its zeros among the others.
    weights: Option<Vec<f64>>,
    /// Those of intervals that are no whole ones, with what they were divided by: no values of the series, unless there are no others.
    short: Vec<(f64, f64)>,
    /// What was divided, all together, and by what: seconds, or requests.
    above_sum: f64,
    below_sum: f64,
}

/// Intervals without anything, one after the other.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Idle {
    /// How many.
    pub count: usize,
    /// How many of them are no whole ones.
    pub short: usize,
    /// Their length together.
    pub seconds: f64,
}

impl Idle {
    /// One more.
    pub(super) fn add(&mut self, seconds: f64, is_short: bool) {
        self.count += 1;
        self.short += usize::from(is_short);
        self.seconds += seconds;
    }
}

impl Column {
    /// An empty one of a figure over time, or of one that only requests have.
    pub(super) fn new(is_over_time: bool) -> Self {
        Self { weights: (!is_over_time).then(Vec::new), ..Self::default() }
    }

    /// Adds the value of an interval: what is divided by what. It has none where that is zero.
    pub(super) fn push(&mut self, (above, below): (f64, f64), is_short: bool) {
        if below <= 0.0 {
            return;
        }
        self.above_sum += above;
        self.below_sum += below;
        if is_short {
            self.short.push((above / below, below));
        } else {
            self.keep(above / below, below);
        }
    }

    fn keep(&mut self, value: f64, below: f64) {
        if let Some(weights) = &mut self.weights {
            weights.push(below);
            self.above.push(value);
        } else if value > 0.0 {
            self.above.push(value);
        } else {
            self.zeros_more(1);
        }
    }

    /// Adds zeros, to a figure over time.
    pub(super) fn push_zeros(&mut self, idle: Idle) {
        self.below_sum += idle.seconds;
        self.short.extend(std::iter::repeat_n((0.0, 0.0), idle.short));
        self.zeros_more(idle.count - idle.short);
    }

    fn zeros_more(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        self.zeros += count;
        match self.gaps.last_mut() {
            Some((after, zeros)) if *after == self.above.len() => *zeros += count,
            _ => self.gaps.push((self.above.len(), count)),
        }
    }

    fn len(&self) -> usize {
        self.above.len() + self.zeros
    }

    /// The first value, and every `step`-th after it.
    fn every(&self, step: usize) -> Vec<f64> {
        let (mut values, mut wanted, mut passed, mut taken) = (Vec::new(), 0, 0, 0);
        for (after, zeros) in self.gaps.iter().copied().chain([(self.above.len(), 0)]) {
            let end = passed + after - taken;
            while wanted < end {
                values.push(self.above[taken + wanted - passed]);
                wanted += step;
            }
            (passed, taken) = (end + zeros, after);
            while wanted < passed {
                values.push(0.0);
                wanted += step;
            }
        }
        values
    }

    /// Every how many-th value is looked at where the effort grows with the square: of days of seconds every n-th one, which makes
    /// the interval wider and never narrower.
    fn thinned(&self) -> usize {
        const LOOKED_AT_MAX: usize = 2000;
        self.len().div_ceil(LOOKED_AT_MAX).max(1)
    }

    /// How well the mean of the values is known, and what the series is worth in independent values.
    fn known(&self) -> Option<SeriesMean> {
        known(&self.every(self.thinned()))
    }

    /// Where the mean lies. One by requests is a quotient of two sums: it is as unsure as what each interval puts on top of it.
    fn mean_interval(&self, mean: f64, known_mean: Option<SeriesMean>) -> Option<Interval> {
        let known = match &self.weights {
            None => known_mean,
            Some(weights) => {
                let middle = weights.iter().sum::<f64>() / weights.len().max(1) as f64;
                let each = self.above.iter().zip(weights).step_by(self.thinned());
                let each = each.map(|(value, weight)| (value - mean) * weight / middle);
                known(&each.collect::<Vec<f64>>())
            }
        }?;
        let (low, high) =
            (known.interval.low + mean - known.mean, known.interval.high + mean - known.mean);
        Some(Interval { low, high, ..known.interval })
    }

    /// The harmonic mean; none when there is a zero, or nothing.
    pub(super) fn harmonic_mean(&self) -> Option<f64> {
        Some(&self.above).filter(|_| self.zeros == 0).and_then(|values| harmonic_mean(values).ok())
    }

    /// What it comes to; none without any value, or when all are zero.
    pub(super) fn figure(mut self, name: &str) -> Option<WatchFigure> {
        let short = self.short.iter().map(|(value, _)| value);
        let max = self.above.iter().chain(short).copied().fold(0.0, f64::max);
        if max <= 0.0 {
            return None;
        }
        if self.len() == 0 {
            let short = std::mem::take(&mut self.short);
            short.into_iter().for_each(|(value, below)| self.keep(value, below));
        }
        let known = self.known();
        let reach = known.map(|known| {
            // As far as so many independent values as the series is worth demand.
            -normal_quantile((1.0 - LEVEL) / 2.0) / (2.0 * known.effective_size.sqrt())
        });
        let mean = self.above_sum / self.below_sum;
        let mean_interval = self.mean_interval(mean, known);
        let harmonic_mean = self.harmonic_mean();
        let intervals = self.len();
        let (low, high) =
            reach.map_or((0.5, 0.5), |reach| ((0.5 - reach).max(0.0), (0.5 + reach).min(1.0)));
        let found = at_shares(&mut self.above, self.zeros, &[0.5, low, high, 0.95]);
        let &[median, low, high, p95] = found.as_slice() else { return None };
        let interval = reach.map(|_| Interval { low, high, coverage: LEVEL });
        Some(WatchFigure {
            name: name.to_owned(),
            intervals,
            median,
            interval,
            mean,
            mean_interval,
            harmonic_mean,
            p95,
            max,
        })
    }
}

fn known(values: &[f64]) -> Option<SeriesMean> {
    (values.len() >= VALUES_MIN).then(|| mean_of_series(values, LEVEL).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_base::prng::Prng;

    fn column(values: &[f64]) -> Column {
        let mut column = Column::default();
        values.iter().for_each(|value| column.push((*value, 1.0), false));
        column
    }

    /// The plain way: everything kept, everything sorted.
    #[track_caller]
    fn agrees(values: &[f64]) {
        for step in [1, 2, 7] {
            let plain: Vec<f64> = values.iter().copied().step_by(step).collect();
            assert_eq!(column(values).every(step), plain, "every {step} of {values:?}");
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let shares = [0.5, 0.31, 0.69, 0.95, 0.0, 1.0, 0.5];
        let plain = shares.map(|share| {
            let at = share * (values.len() - 1) as f64;
            let (low, part) = (at.floor() as usize, at - at.floor());
            let above = sorted[(low + 1).min(values.len() - 1)];
            sorted[low] + (above - sorted[low]) * part
        });
        let mut column = column(values);
        assert_eq!(at_shares(&mut column.above, column.zeros, &shares), plain, "{values:?}");
    }

    #[test]
    fn zeros_that_are_not_kept_count_as_those_that_are() {
        let mut random = Prng::new(9, 0);
        for length in 1..200u64 {
            // From none to all of them zero, in runs and alone, with equal values among them.
            let zeros = random.below(length + 1);
            let mut is_zero = false;
            let values: Vec<f64> = (0..length)
                .map(|_| {
                    if random.below(4) == 0 {
                        is_zero = random.below(length) < zeros;
                    }
                    if is_zero { 0.0 } else { random.below(50) as f64 }
                })
                .collect();
            agrees(&values);
        }
        let mut runs = column(&[0.0, 0.0, 5.0]);
        runs.push_zeros(Idle { count: 3, short: 0, seconds: 3.0 });
        runs.push((7.0, 1.0), false);
        assert_eq!(runs.every(1), [0.0, 0.0, 5.0, 0.0, 0.0, 0.0, 7.0]);
        let figure = runs.figure("r/s").expect("values");
        assert_eq!((figure.intervals, figure.median, figure.max), (7, 0.0, 7.0));
        assert_eq!((figure.mean, figure.harmonic_mean), (12.0 / 7.0, None));
        assert_eq!(column(&[0.0; 9]).figure("r/s"), None);
        assert_eq!(
            column(&[1.0, 0.5]).figure("r/s").and_then(|f| f.harmonic_mean),
            Some(2.0 / 3.0)
        );
    }

    /// Ten seconds of a thousand reads of 0.1 ms and ten of one read of 20 ms: the mean of all reads, and not of the seconds.
    #[test]
    fn a_mean_of_requests_counts_requests() {
        let mut column = Column::new(false);
        for _ in 0..10 {
            column.push((100.0, 1000.0), false);
            column.push((20.0, 1.0), false);
            column.push((0.0, 0.0), false);
        }
        let figure = column.figure("r_await").expect("values");
        assert_eq!((figure.intervals, figure.max), (20, 20.0));
        assert!((figure.mean - 1200.0 / 10_010.0).abs() < 1e-12, "{figure:?}");
        let interval = figure.mean_interval.expect("long enough");
        assert!(interval.low > 0.0 && interval.low < figure.mean, "{interval:?}");
        assert!(interval.high > figure.mean && interval.high < 0.2, "{interval:?}");
        // A time that is too short for the counters is one of zero, and counts.
        let mut column = Column::new(false);
        (0..4).for_each(|at| column.push((f64::from(at % 2) * 10.0, 10.0), false));
        let figure = column.figure("r_await").expect("values");
        assert_eq!((figure.intervals, figure.median, figure.mean), (4, 0.5, 0.5));
        assert_eq!(figure.harmonic_mean, None);
    }

    #[test]
    fn the_interval_of_a_median_respects_what_goes_together() {
        // The same values, once in turn and once sorted into two long phases.
        let turns: Vec<f64> = (0..200).map(|x| f64::from(x * 37 % 100)).collect();
        let mut phases = turns.clone();
        phases.sort_by(f64::total_cmp);
        let width = |values: &[f64]| {
            let figure = column(values).figure("r/s");
            let found = figure.and_then(|figure| figure.interval).expect("enough");
            found.high - found.low
        };
        assert!(width(&turns) < 20.0, "{}", width(&turns));
        assert!(width(&phases) > 3.0 * width(&turns), "{}", width(&phases));
    }
}
