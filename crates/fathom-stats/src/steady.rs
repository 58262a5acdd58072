//! SNIA steady state: whether a device under a repeated test has settled.
//!
//! The rule is definition 2.1.24 of the Solid State Storage Performance Test Specification (PTS 2.0.x). Over the
//! measurement window, the last five rounds, (a) the range of the tracked variable, maximum minus minimum, is at most
//! 20 % of its average, and (b) the maximum minus the minimum of the line fitted to it by least squares is at most 10 %
//! of its average. Note that (b) is the rise of the line over the whole window, four times its slope per round. All
//! tracked variables (such as IOPS of 4 KiB writes and of 64 KiB mixed) must pass in the same window. The rule is
//! looked at after every round from the fifth on, up to the twenty-fifth.

use crate::error::{StatsError, check_finite};
use serde::Serialize;

/// Rounds of the measurement window.
pub const WINDOW_ROUNDS: usize = 5;
/// Rounds after which the specification reports a device that is not steady as such.
pub const ROUNDS_MAX: usize = 25;
/// The largest range within a window, as a share of its average.
pub const RANGE_MAX: f64 = 0.20;
/// The largest rise or fall of the fitted line over a window, as a share of its average.
pub const RISE_MAX: f64 = 0.10;
/// What rounding may add to a figure that lies on a limit.
const ROUNDING: f64 = 1e-12;

/// One tracked variable over the five rounds of a window. Units are those of the variable (IOPS, MB/s, ns).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Window {
    /// Mean of the five values.
    pub average: f64,
    /// Largest minus smallest value: the data excursion.
    pub range: f64,
    /// Fitted line, change per round.
    pub slope: f64,
    /// Fitted line at the window's first round.
    pub intercept: f64,
}

impl Window {
    /// The figures of five values in the order of rounds.
    #[must_use]
    pub fn of(values: &[f64; WINDOW_ROUNDS]) -> Self {
        let average = values.iter().sum::<f64>() / 5.0;
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        // Least squares over x = -2..2, whose squares sum to 10.
        let [a, b, _, d, e] = values;
        let slope = (2.0 * (e - a) + (d - b)) / 10.0;
        Self { average, range: max - min, slope, intercept: average - 2.0 * slope }
    }

    /// What the fitted line rises (positive) or falls over the window: the slope excursion.
    #[must_use]
    pub fn rise(&self) -> f64 {
        self.slope * (WINDOW_ROUNDS - 1) as f64
    }

    /// The range as a share of the average, to be held against [`RANGE_MAX`]; infinite for an average of 0.
    #[must_use]
    pub fn range_share(&self) -> f64 {
        if self.average > 0.0 { self.range / self.average } else { f64::INFINITY }
    }

    /// The rise, with its sign, as a share of the average, to be held against [`RISE_MAX`]; infinite for an average of 0.
    #[must_use]
    pub fn rise_share(&self) -> f64 {
        if self.average > 0.0 { self.rise() / self.average } else { f64::INFINITY }
    }

    /// True when range and rise are both within their limits. Never for an average of 0: a device that does nothing
    /// is not steady.
    #[must_use]
    pub fn is_steady(&self) -> bool {
        let within = |share: f64, limit: f64| share <= limit * (1.0 + ROUNDING);
        within(self.range_share(), RANGE_MAX) && within(self.rise_share().abs(), RISE_MAX)
    }
}

/// What [`assess`] found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SteadyState {
    /// The last round of the first window that passes, counted from 1; none when no window does.
    pub reached: Option<usize>,
    /// The first round after it whose window no longer passes: the device has left its steady state.
    pub left: Option<usize>,
    /// The window to report, per tracked variable: the one that reached steady state, else the last five rounds. Empty
    /// below five rounds.
    pub windows: Vec<Window>,
}

/// Judges tracked variables, each with one value per round, all of the same rounds.
///
/// # Errors
/// No variable, variables of different lengths, or a value that is not finite.
pub fn assess(tracked: &[&[f64]]) -> Result<SteadyState, StatsError> {
    let rounds = tracked.first().ok_or(StatsError::TooFew { count: 0, needed: 1 })?.len();
    for series in tracked {
        check_finite(series, 0)?;
        if series.len() != rounds {
            return Err(StatsError::Unpaired { a: rounds, b: series.len() });
        }
    }
    let is_steady = |round: &usize| windows(tracked, *round).iter().all(Window::is_steady);
    let reached = (WINDOW_ROUNDS..=rounds).find(is_steady);
    let left = reached.and_then(|round| (round + 1..=rounds).find(|round| !is_steady(round)));
    Ok(SteadyState { reached, left, windows: windows(tracked, reached.unwrap_or(rounds)) })
}

/// The window that ends with `round`, of each variable; none below five rounds.
fn windows(tracked: &[&[f64]], round: usize) -> Vec<Window> {
    let last = |series: &&[f64]| series.get(..round)?.last_chunk().map(Window::of);
    tracked.iter().filter_map(last).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::normal;
    use fathom_base::prng::Prng;
    use proptest::prelude::*;

    #[track_caller]
    fn near(got: f64, expected: f64) {
        assert!((got - expected).abs() < 1e-9 * expected.abs().max(1.0), "{got} for {expected}");
    }

    /// Worked by hand; for a straight line range and rise are the same.
    #[test]
    fn published_limits() {
        let cases = [
            ([100.0, 96.0, 92.0, 88.0, 84.0], 16.0 / 92.0, 16.0 / 92.0, false),
            ([100.0, 97.6, 95.2, 92.8, 90.4], 9.6 / 95.2, 9.6 / 95.2, false),
            ([100.0, 98.0, 96.0, 94.0, 92.0], 8.0 / 96.0, 8.0 / 96.0, true),
            // Range just within, and no slope.
            ([100.0, 90.0, 100.0, 110.0, 100.0], 0.2, 0.08, true),
            ([90.0, 110.0, 100.0, 110.0, 90.0], 0.2, 0.0, true),
            ([100.0, 100.0, 100.0, 100.0, 127.0], 27.0 / 105.4, 21.6 / 105.4, false),
            // The range alone fails, the slope alone fails.
            ([100.0, 88.0, 100.0, 112.0, 100.0], 0.24, 0.096, false),
            ([95.0, 95.0, 100.0, 105.0, 105.0], 0.1, 0.12, false),
        ];
        for (values, range, rise, is_steady) in cases {
            let window = Window::of(&values);
            near(window.range / window.average, range);
            near(window.rise().abs() / window.average, rise);
            assert_eq!(window.is_steady(), is_steady, "{values:?}");
        }
        assert!(!Window::of(&[0.0; 5]).is_steady());
    }

    proptest! {
        /// Normal equations of a line over x = 0..4, solved in full; shape and scale of the rule.
        #[test]
        fn the_line_is_the_least_squares_line(values in prop::array::uniform5(1.0..1e6f64), scale in -30i32..30) {
            let n = 5.0;
            let (sx, sxx) = (10.0, 30.0);
            let sy: f64 = values.iter().sum();
            let sxy: f64 = (0..).zip(&values).map(|(x, y)| f64::from(x) * y).sum();
            let slope = (n * sxy - sx * sy) / (n * sxx - sx * sx);
            let window = Window::of(&values);
            prop_assert!((window.slope - slope).abs() < 1e-6);
            prop_assert!((window.intercept - (sy - slope * sx) / n).abs() < 1e-6);
            let scaled = Window::of(&values.map(|y| y * 2f64.powi(scale)));
            prop_assert_eq!(scaled.is_steady(), window.is_steady());
            let mut backwards = values;
            backwards.reverse();
            prop_assert!((Window::of(&backwards).slope + window.slope).abs() < 1e-6);
        }

        /// Every answer follows from the rule applied to each window alone.
        #[test]
        fn the_first_window_that_passes_counts(
            rounds in prop::collection::vec((85.0..115.0f64, 90.0..110.0f64), 0..30),
        ) {
            let (a, b): (Vec<f64>, Vec<f64>) = rounds.iter().copied().unzip();
            let got = assess(&[&a, &b]).unwrap();
            let passes = |end: usize| [&a, &b].iter().all(|s| {
                let w = &s[end - 5..end];
                let mean = w.iter().sum::<f64>() / 5.0;
                let slope: f64 = (0..).zip(w).map(|(x, y)| (f64::from(x) - 2.0) * y / 10.0).sum();
                let spread = w.iter().fold(0f64, |m, y| m.max(*y)) - w.iter().fold(1e9f64, |m, y| m.min(*y));
                spread <= 0.2 * mean && (4.0 * slope).abs() <= 0.1 * mean
            });
            prop_assert_eq!(got.reached, (5..=a.len()).find(|end| passes(*end)));
            let left = got.reached.and_then(|round| (round + 1..=a.len()).find(|end| !passes(*end)));
            prop_assert_eq!(got.left, left);
            prop_assert_eq!(got.windows.len(), if a.len() < 5 { 0 } else { 2 });
        }
    }

    /// A new flash drive: fast while blocks are free, then falling to its steady rate.
    fn settling(round: usize) -> f64 {
        100.0 + 300.0 * (-(round as f64) / 3.0).exp()
    }

    #[test]
    fn a_device_that_settles_reaches_it() {
        let rounds: Vec<f64> = (0..25).map(settling).collect();
        let got = assess(&[&rounds]).unwrap();
        assert!(matches!(got.reached, Some(11..=18)), "{got:?}");
        // The window that reached it is reported, whatever comes later.
        let mut broken = rounds.clone();
        broken[22] = 60.0;
        assert_eq!(assess(&[&broken]).unwrap(), SteadyState { left: Some(23), ..got });
    }

    #[test]
    fn all_tracked_variables_at_once() {
        let early: Vec<f64> = (0..25).map(settling).collect();
        let mut late = vec![2000.0, 1600.0, 1200.0, 800.0];
        late.extend(&early[..21]);
        let at = |tracked: &[&[f64]]| assess(tracked).unwrap().reached.expect("settled");
        assert_eq!(at(&[&late]), at(&[&early]) + 4);
        assert_eq!(at(&[&early, &late]), at(&[&late]));
        assert_eq!(assess(&[&early, &late]).unwrap().windows.len(), 2);
    }

    #[test]
    fn a_steady_state_can_be_left() {
        let mut rounds = vec![100.0; 8];
        assert_eq!(assess(&[&rounds]).unwrap().left, None);
        // 100, 100, 100, 100, 88: range 12.3 % of the mean, line 9.8 %. 100, 100, 100, 88, 79: range 22.5 %.
        rounds.extend([88.0, 79.0, 79.0, 79.0]);
        let got = assess(&[&rounds]).unwrap();
        assert_eq!((got.reached, got.left), (Some(5), Some(10)));
        let calm = vec![1.0; 12];
        assert_eq!(assess(&[&calm, &rounds]).unwrap().left, Some(10), "any variable");
        let never: Vec<f64> = (0..12).map(|i| 100.0 * 0.9f64.powi(i)).collect();
        assert_eq!(assess(&[&never]).unwrap().left, None, "it was never there");
    }

    #[test]
    fn a_device_that_swings_does_not() {
        let mut rounds: Vec<f64> =
            (0..25).map(|i| if i % 2 == 0 { 100.0 } else { 130.0 }).collect();
        let got = assess(&[&rounds]).unwrap();
        assert_eq!((got.reached, got.windows[0].range), (None, 30.0));
        rounds.extend([100.0; 4]);
        assert_eq!(assess(&[&rounds]).unwrap().reached, Some(29));
    }

    /// On stationary noise the rule passes at once, nearly always.
    #[test]
    fn on_stationary_noise() {
        let mut prng = Prng::new(63, 0);
        for percent in [1.0, 2.0, 3.0] {
            let mut at_once = || {
                let rounds: Vec<f64> =
                    (0..5).map(|_| 100.0 + percent * normal(&mut prng)).collect();
                assess(&[&rounds]).unwrap().reached == Some(5)
            };
            let count = (0..2000).filter(|_| at_once()).count();
            println!("{percent} % noise: steady at once in {count} of 2000");
            assert!(count > 1900, "{percent} %: {count}");
        }
    }

    #[test]
    fn what_cannot_be_judged() {
        assert!(assess(&[]).is_err());
        assert_eq!(assess(&[&[1.0; 5], &[1.0; 6]]), Err(StatsError::Unpaired { a: 5, b: 6 }));
        assert!(assess(&[&[1.0, f64::NAN]]).is_err());
        let short = assess(&[&[1.0; 4]]).unwrap();
        assert_eq!((short.reached, short.windows.len()), (None, 0));
    }
}
