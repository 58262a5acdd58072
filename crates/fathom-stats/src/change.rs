//! Change points: one series as regimes instead of one mean, because what happened before the cache was full, while the
//! drive collected garbage, or after it throttled are different results. The same question is asked of the seconds of one
//! run and of run after run.
//!
//! The step at each place is judged by how uneven both of its sides are, and not by an estimate of the noise: the
//! self-normalised statistic, the largest over windows around the place (SNCP: Z. Zhao, F. Jiang, X. Shao, "Segmenting
//! time series via self-normalisation", J. R. Statist. Soc. B 84, 2022; the statistic is that of X. Shao and X. Zhang,
//! "Testing for change points in time series", J. Amer. Statist. Assoc. 105, 2010). The series is divided at the place with
//! the largest statistic as long as that is above its published limit, then each part likewise. Why so:
//!
//! - Neighbouring seconds go together. How much cannot be estimated from thirty values, and need not be: it widens the
//!   wandering of both sides as it widens their difference.
//! - A slow trend, a curve, the zones of a disk are as uneven on either side as between the sides. Whatever their size,
//!   the statistic of a straight line is 30 at most, and the lowest limit 78. (Noise on it may add up to a step: of 200 such
//!   series of 600 values 15 were divided.)
//! - The calm before a cliff and the turmoil after it may differ tenfold.
//! - What is uneven in proportion (rates of a busy machine) is even in logarithms, so these are looked at; near 0 the values
//!   themselves.
//! - A window needs two regimes only, so further ones beyond it do not hide a step.
//!
//! Single outliers (a stall of some seconds) are first replaced by the median around them: a regime is a state, and lasts.
//! A state lasts for a twentieth of the series, too; that is the smallest window for which limits are published.

use crate::error::{StatsError, check_finite};
use crate::interval::{median_of_sorted, sorted};
use crate::series::effective_size;
use crate::special::student_quantile;
use serde::Serialize;

/// Share of series of independent values without a change that are divided all the same, normal ones and log-normal ones; the
/// limits are those of long series, and in short ones it is up to four times that. Of those whose neighbours correlate with
/// 0.3 it is one in a hundred, with 0.6 up to seven, before small steps are left out.
pub const LEVEL: f64 = 0.001;
/// The shortest regime that can be asked for, in values. With fewer the level does not hold.
pub const LENGTH_LEAST: usize = 5;
/// Longer series are averaged in equal groups down to at most this many points; changes then lie between groups.
pub const POINTS_MAX: usize = 2000;

/// The statistic that is exceeded with probability [`LEVEL`] when nothing changes, for the smallest window as a share of
/// the series: the table of critical values of one parameter at 0.999 in the authors' R package SNSeg 1.0 (S. Sun,
/// Z. Zhao, F. Jiang, X. Shao, R Journal 16, 2024).
const LIMITS: [(f64, f64); 18] = [
    (0.05, 320.57),
    (0.06, 305.09),
    (0.07, 266.03),
    (0.08, 265.17),
    (0.09, 275.66),
    (0.10, 278.03),
    (0.11, 250.08),
    (0.12, 227.35),
    (0.13, 235.78),
    (0.14, 235.41),
    (0.15, 234.18),
    (0.20, 214.04),
    (0.25, 177.30),
    (0.30, 175.73),
    (0.35, 161.07),
    (0.40, 137.35),
    (0.45, 124.99),
    (0.50, 78.78),
];
/// An outlier is further from the median around it than this many robust standard deviations.
const OUTLIER: f64 = 5.0;
/// From the median absolute deviation to the standard deviation of normal noise.
const MAD_TO_DEVIATION: f64 = 1.4826;
/// Noise of at least this share of a value is assumed, and of the usual value (the median, or where that is 0 the mean): less
/// is rounding.
const NOISE_MIN: f64 = 1e-3;

/// A stretch of a series in which nothing changed, or only steadily.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Regime {
    /// Index of its first value.
    pub start: usize,
    /// Index after its last value.
    pub end: usize,
    /// Median of its values, in their unit.
    pub level: f64,
    /// What the fitted line rises (positive) or falls from its first to its last value; 0 when that may be chance.
    pub rise: f64,
}

/// Divides a series into regimes of at least `length_min` values (at least [`LENGTH_LEAST`], and a twentieth of the
/// series). Between neighbours there is a step of at least `step_min_percent` of the higher side, in medians over the
/// shortest length before and after it. One regime means that nothing changed. They are in order and cover the series.
///
/// # Errors
/// No value, or one that is not finite.
pub fn regimes(
    series: &[f64],
    length_min: usize,
    step_min_percent: f64,
) -> Result<Vec<Regime>, StatsError> {
    check_finite(series, 1)?;
    let group = series.len().div_ceil(POINTS_MAX);
    let points: Vec<f64> = series
        .chunks(group)
        .map(|values| values.iter().sum::<f64>() / values.len() as f64)
        .collect();
    let shortest = length_min.div_ceil(group).max(LENGTH_LEAST).max(points.len().div_ceil(20));
    let calm = without_outliers(&points, shortest - 1);
    let mut edges = Windows::new(&in_proportion(&calm), shortest).edges();
    edges.retain(|at| 100.0 * step(&points, *at, shortest) >= step_min_percent);
    let bounds: Vec<usize> = [0].into_iter().chain(edges).chain([points.len()]).collect();
    let regime = |bounds: &[usize]| {
        let (start, end) = (bounds[0] * group, (bounds[1] * group).min(series.len()));
        let rise = rise(&calm[bounds[0]..bounds[1]]);
        Regime { start, end, level: median(&series[start..end]), rise }
    };
    Ok(bounds.windows(2).map(regime).collect())
}

fn median(values: &[f64]) -> f64 {
    median_of_sorted(&sorted(values))
}

/// The series with the median around them in place of outliers (Hampel's filter over `reach` values on either side). An
/// edge stays where it is: with a reach below the shortest regime most values around one are of its own side.
fn without_outliers(points: &[f64], reach: usize) -> Vec<f64> {
    let around = |values: &[f64], i: usize| {
        median(&values[i.saturating_sub(reach)..(i + reach + 1).min(values.len())])
    };
    let medians: Vec<f64> = (0..points.len()).map(|i| around(points, i)).collect();
    let distances: Vec<f64> = points.iter().zip(&medians).map(|(y, m)| (y - m).abs()).collect();
    let kept = |i: usize| {
        let limit = OUTLIER * MAD_TO_DEVIATION * around(&distances, i);
        if distances[i] > limit { medians[i] } else { points[i] }
    };
    (0..points.len()).map(kept).collect()
}

/// Logarithms of the values; those near 0 as they are, in units of [`NOISE_MIN`] of the usual value.
fn in_proportion(points: &[f64]) -> Vec<f64> {
    let sizes: Vec<f64> = points.iter().map(|y| y.abs()).collect();
    // More than half of the values may be 0, or all.
    let mean = sizes.iter().sum::<f64>() / points.len() as f64;
    let usual = [median(&sizes), mean, 1.0].into_iter().find(|usual| *usual > 0.0);
    let unit = NOISE_MIN * usual.unwrap_or(1.0);
    points.iter().map(|y| (y / unit).asinh()).collect()
}

/// The step at a place, as a share of the higher side: medians of the values just before and just after it.
fn step(points: &[f64], at: usize, length: usize) -> f64 {
    let (before, after) = (median(&points[at - length..at]), median(&points[at..at + length]));
    (after - before).abs() / before.abs().max(after.abs()).max(f64::MIN_POSITIVE)
}

/// What a line by least squares rises from the first to the last value; 0 where that may be chance, by Student's test of
/// the slope at [`LEVEL`]. What remains about a parabola is the noise, worth as many values as it has independent ones.
fn rise(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let (xx, bend_mean) = (n * (n * n - 1.0) / 12.0, (n * n - 1.0) / 12.0);
    let place = |i: usize| i as f64 - 0.5 * (n - 1.0);
    let bend = |i: usize| place(i).powi(2) - bend_mean;
    let along = |shape: &dyn Fn(usize) -> f64| -> f64 {
        values.iter().enumerate().map(|(i, y)| shape(i) * (y - mean)).sum()
    };
    let bends = (0..values.len()).map(|i| bend(i).powi(2)).sum::<f64>().max(f64::MIN_POSITIVE);
    let (slope, curve) = (along(&place) / xx, along(&bend) / bends);
    let rest = |(i, y): (usize, &f64)| y - mean - slope * place(i) - curve * bend(i);
    let rest: Vec<f64> = values.iter().enumerate().map(rest).collect();
    // Mean, slope and curve are fitted.
    let freedom = effective_size(&rest).unwrap_or(0.0) - 3.0;
    if freedom < 1.0 {
        return 0.0;
    }
    let squares: f64 = rest.iter().map(|r| r * r).sum();
    let error = (squares / freedom / xx).sqrt();
    let is_chance = slope.abs() <= -student_quantile(0.5 * LEVEL, freedom) * error;
    if is_chance { 0.0 } else { slope * (n - 1.0) }
}

/// The statistic of a step in any window, in constant time.
struct Windows {
    /// Before each value: the sum of all earlier ones, and over all earlier places i the sums of that sum, of its square
    /// and of i times it.
    sums: Vec<[f64; 4]>,
    /// Length of the smallest window on one side of a place; all are multiples of it.
    unit: usize,
}

impl Windows {
    fn new(points: &[f64], unit: usize) -> Self {
        // Taken off all values, so that sums of squares do not drown.
        let centre = median(points);
        let mut sum = [0.0; 4];
        let mut sums = vec![sum];
        for (i, y) in points.iter().enumerate() {
            let [total, of_totals, of_squares, of_moments] = sum;
            let moments = of_moments + i as f64 * total;
            sum = [total + y - centre, of_totals + total, of_squares + total * total, moments];
            sums.push(sum);
        }
        Self { sums, unit }
    }

    fn len(&self) -> usize {
        self.sums.len() - 1
    }

    fn total(&self, start: usize, end: usize) -> f64 {
        self.sums[end][0] - self.sums[start][0]
    }

    /// How far the sum of the values wanders off a straight way from `start` to `end`: the sum of the squared distances.
    fn wandering(&self, start: usize, end: usize) -> f64 {
        let n = (end - start) as f64;
        let slope = self.total(start, end) / n;
        let height = self.sums[start][0] - start as f64 * slope;
        let [y, yy, iy] = std::array::from_fn(|k| self.sums[end][k + 1] - self.sums[start][k + 1]);
        let middle = (start + end - 1) as f64 / 2.0;
        let ii = n * (middle * middle + (n * n - 1.0) / 12.0);
        let line = n * height * height + 2.0 * height * slope * n * middle + slope * slope * ii;
        let squares = yy - 2.0 * (height * y + slope * iy) + line;
        squares.max(0.0) + NOISE_MIN * NOISE_MIN * n * n / 6.0
    }

    /// The place from `start` to `end` with the largest statistic over windows inside, and that statistic; the first of
    /// several. None where there is no room for two regimes.
    fn best(&self, start: usize, end: usize) -> Option<(usize, f64)> {
        let mut best = None;
        for at in start + self.unit..=end.saturating_sub(self.unit) {
            let lefts = (start..=at - self.unit).rev().step_by(self.unit);
            let lefts: Vec<(usize, f64)> = lefts.map(|l| (l, self.wandering(l, at))).collect();
            for right in (at + self.unit..=end).step_by(self.unit) {
                let after = self.wandering(at, right);
                for (left, before) in &lefts {
                    let length = (right - left) as f64;
                    let share = (at - left) as f64 / length;
                    let step = self.total(*left, at) - share * self.total(*left, right);
                    let statistic = length * step * step / (before + after);
                    if best.is_none_or(|(_, most)| statistic > most) {
                        best = Some((at, statistic));
                    }
                }
            }
        }
        best
    }

    /// All places where the series is to be divided, in order.
    fn edges(&self) -> Vec<usize> {
        let limit = limit(self.unit as f64 / self.len() as f64);
        let mut edges = Vec::new();
        let mut parts = vec![(0, self.len())];
        while let Some((start, end)) = parts.pop() {
            let best = self.best(start, end).filter(|(_, statistic)| *statistic > limit);
            if let Some((at, _)) = best {
                edges.push(at);
                parts.extend([(start, at), (at, end)]);
            }
        }
        edges.sort_unstable();
        edges
    }
}

/// [`LIMITS`] between its rows; that of its ends beyond them.
fn limit(share: f64) -> f64 {
    let next = LIMITS.iter().position(|(at, _)| *at >= share).unwrap_or(LIMITS.len() - 1);
    let ((low, from), (high, to)) = (LIMITS[next.saturating_sub(1)], LIMITS[next]);
    if high > low && share < high { from + (to - from) * (share - low) / (high - low) } else { to }
}

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;
