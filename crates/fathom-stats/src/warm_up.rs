//! Where the warm-up of a run ends: the marginal standard error rule (MSER), which drops as many values from the start
//! as make the standard error of the mean of the rest smallest.
//!
//! Sources: K. P. White, "An effective truncation heuristic for bias reduction in simulation output", Simulation 69
//! (1997); K. P. White, M. J. Cobb, S. C. Spratt, "A comparison of five steady-state truncation heuristics for
//! simulation", WSC 2000 (MSER-5: on means of five); K. Hoad, S. Robinson, R. Davies, "Automating warm-up length
//! estimation", J. Oper. Res. Soc. 61 (2010) (the two guards below).
//!
//! What it cannot do. A minimum in the second half is no cut: the run never settled, or settled too late to say. The last
//! five means are never looked at alone, because a few values that happen to be alike have no spread at all. It finds
//! a start that differs in level, not a cliff later on (see [`crate::change`]), and it looks at one series: what it says
//! of two tracked quantities may differ.

use crate::error::{StatsError, check_finite};
use serde::Serialize;

/// Means that must remain after the cut.
const REST_MIN: usize = 5;

/// What the rule found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WarmUp {
    /// The run is warm after this many values; drop them. 0 when it was from the start.
    Ends {
        /// Values to drop, a multiple of the batch.
        cut: usize,
    },
    /// The smallest standard error lies in the second half: nothing can be cut, because the run is too short or still
    /// changes at its end.
    NotReached {
        /// Where the minimum lies, in values from the start.
        minimum_at: usize,
    },
}

/// MSER-5, the usual form: means of five smooth single values.
///
/// # Errors
/// Fewer than 50 values (ten means), or one that is not finite.
pub fn mser5(series: &[f64]) -> Result<WarmUp, StatsError> {
    mser(series, 5)
}

/// MSER on means of `batch` values; 1 (or 0) is the plain rule. What is left over after the last batch is ignored.
///
/// Minimises `sum((y - mean)^2) / k^2` of the last k means over k, their mean's squared standard error; of equal minima
/// the earliest cut counts.
///
/// # Errors
/// Fewer than ten means, or a value that is not finite.
pub fn mser(series: &[f64], batch: usize) -> Result<WarmUp, StatsError> {
    let batch = batch.max(1);
    check_finite(series, batch.saturating_mul(2 * REST_MIN))?;
    let means: Vec<f64> =
        series.chunks_exact(batch).map(|chunk| chunk.iter().sum::<f64>() / batch as f64).collect();
    let minimum = minimum(&means);
    let at = minimum * batch;
    if 2 * minimum > means.len() {
        Ok(WarmUp::NotReached { minimum_at: at })
    } else {
        Ok(WarmUp::Ends { cut: at })
    }
}

/// How many means to drop. From the end backwards, so that mean and squares of the rest are updated (Welford 1962).
fn minimum(means: &[f64]) -> usize {
    let (mut mean, mut squares) = (0.0, 0.0);
    let mut best = (f64::INFINITY, 0);
    for (count, (at, y)) in (1..).zip(means.iter().enumerate().rev()) {
        let count = f64::from(count);
        let step = y - mean;
        mean += step / count;
        squares += step * (y - mean);
        let statistic = squares / (count * count);
        if means.len() - at >= REST_MIN && statistic <= best.0 {
            best = (statistic, at);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{correlated, normal};
    use fathom_base::prng::Prng;
    use proptest::prelude::*;

    /// The definition, two passes for every cut.
    fn by_definition(means: &[f64]) -> usize {
        let statistic = |cut: usize| {
            let rest = &means[cut..];
            let k = rest.len() as f64;
            let mean = rest.iter().sum::<f64>() / k;
            rest.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / (k * k)
        };
        (0..=means.len() - 5).fold(
            0,
            |best, cut| {
                if statistic(cut) < statistic(best) { cut } else { best }
            },
        )
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(
            series in prop::collection::vec(50.0..150.0f64, 10..120),
            ramp in 0usize..100,
            batch in 1usize..6,
        ) {
            let series: Vec<f64> =
                series.iter().enumerate().map(|(i, y)| y * if i < ramp { 0.3 } else { 1.0 }).collect();
            let means: Vec<f64> = series
                .chunks_exact(batch)
                .map(|c| c.iter().sum::<f64>() / batch as f64)
                .collect();
            let expected = (means.len() >= 10).then(|| {
                let at = by_definition(&means);
                if at as f64 > means.len() as f64 / 2.0 {
                    WarmUp::NotReached { minimum_at: at * batch }
                } else {
                    WarmUp::Ends { cut: at * batch }
                }
            });
            prop_assert_eq!(mser(&series, batch).ok(), expected);
        }

        #[test]
        fn scale_does_not_matter(
            series in prop::collection::vec(50.0..150.0f64, 50..100),
            power in -20i32..20,
        ) {
            // Powers of two, so that rounding is the same.
            let scaled: Vec<f64> = series.iter().map(|y| y * 2f64.powi(power)).collect();
            prop_assert_eq!(mser5(&series), mser5(&scaled));
        }
    }

    #[test]
    fn by_hand() {
        // Squares over k^2 of the last ten: 0; with one value 8 more: 58.18 / 121; so both are cut.
        let mut series = vec![0.0, 2.0];
        series.extend([10.0; 10]);
        assert_eq!(mser(&series, 1), Ok(WarmUp::Ends { cut: 2 }));
        assert_eq!(mser(&[7.0; 10], 1), Ok(WarmUp::Ends { cut: 0 }), "constant: all is kept");
        let steps: Vec<f64> = (0..12).map(|i| if i < 7 { 1.0 } else { 9.0 }).collect();
        assert_eq!(mser(&steps, 1), Ok(WarmUp::NotReached { minimum_at: 7 }));
    }

    /// A run that starts at 40 % and approaches its level exponentially, 8 values long; 3 % noise. Sometimes the noise
    /// makes the smallest standard error in the second half, which is then not taken for a cut.
    #[test]
    fn the_bias_of_a_cold_start_is_removed() {
        let mut prng = Prng::new(61, 0);
        let (mut with, mut without, mut cuts) = (0.0, 0.0, Vec::new());
        for _ in 0..500 {
            let series: Vec<f64> = (0..300)
                .map(|i| 100.0 - 60.0 * (-f64::from(i) / 8.0).exp() + 3.0 * normal(&mut prng))
                .collect();
            let Ok(WarmUp::Ends { cut }) = mser5(&series) else { continue };
            cuts.push(cut);
            let mean = |s: &[f64]| s.iter().sum::<f64>() / s.len() as f64;
            with += mean(&series[cut..]) - 100.0;
            without += mean(&series) - 100.0;
        }
        let count = cuts.len() as f64;
        let (with, without) = (with / count, without / count);
        cuts.sort_unstable();
        let middle = cuts[cuts.len() / 2];
        println!(
            "{count} of 500 cut, at {middle} in the middle; bias {without:.2} before, {with:.2} after"
        );
        assert!(count > 450.0 && without < -1.5 && with.abs() < 0.1);
    }

    #[test]
    fn a_run_that_never_settles_is_not_cut() {
        let mut prng = Prng::new(62, 0);
        for phi in [0.0, 0.5] {
            let noise = correlated(&mut prng, phi, 300);
            let rising: Vec<f64> = noise.iter().enumerate().map(|(i, e)| i as f64 + e).collect();
            assert!(matches!(mser5(&rising), Ok(WarmUp::NotReached { .. })));
        }
    }

    #[test]
    fn what_cannot_be_judged() {
        assert_eq!(mser5(&[]), Err(StatsError::TooFew { count: 0, needed: 50 }));
        assert_eq!(mser5(&[1.0; 49]), Err(StatsError::TooFew { count: 49, needed: 50 }));
        assert!(mser5(&[1.0; 50]).is_ok());
        assert_eq!(mser(&[1.0; 50], 0), mser(&[1.0; 50], 1));
        assert!(mser(&[1.0; 50], usize::MAX).is_err());
        let mut broken = [1.0; 50];
        broken[49] = f64::NAN;
        assert!(matches!(mser5(&broken), Err(StatsError::NotFinite { place: 50, .. })));
    }
}
