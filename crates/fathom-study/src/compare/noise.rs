//! Where runs that should be alike differ: from pair to pair, within a pair, from repeat to repeat inside a run. Repeating
//! pays at the level that scatters most.

use super::metrics::{self, Metric};
use super::rows::{Row, Unit};
use fathom_stats::interval::{Estimate, median};
use fathom_stats::jackknife::variance_interval;
use fathom_stats::nested::{Deviations, block_deviations, variance_components};
use serde::Serialize;

/// Fewer pairs, or runs more than there are sides, say nothing about scatter.
const FREEDOM_MIN: usize = 5;

/// The scatter of one figure at each level, as standard deviations of its logarithm with intervals: 0.03 is 3 %. What A and B differ
/// by is in none of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Noise {
    /// From pair to pair of runs made in turn: drift, which comparing within pairs takes out.
    pub between_pairs: Option<Estimate>,
    /// Within such a pair: what the interval of the ratio rests on.
    pub within_pairs: Option<Estimate>,
    /// From run to run of one side, where they are no pairs.
    pub between_runs: Option<Estimate>,
    /// From repeat to repeat inside a run; none where runs have no repeats.
    pub inside_runs: Option<Estimate>,
}

/// The scatter of the figure that answers the question; none where the runs are too few.
pub(super) fn of_row(row: &Row<'_>, metric: &Metric, in_pairs: bool, level: f64) -> Option<Noise> {
    let logs = |units: &[Unit<'_>]| -> Option<Vec<Vec<f64>>> {
        let value = |unit: &Unit<'_>| -> Option<Vec<f64>> {
            let cells = unit.cells.iter();
            let each = cells.map(|cell| metrics::value(cell.record, cell.job, metric));
            each.map(|value| Some(value.filter(|value| *value > 0.0)?.ln())).collect()
        };
        units.iter().map(value).collect()
    };
    let (a, b) = (logs(&row.a)?, logs(&row.b)?);
    let inside_runs = inside(&a, &b, level);
    let medians =
        |runs: &[Vec<f64>]| runs.iter().map(|own| median(own).ok()).collect::<Option<Vec<f64>>>();
    let (a, b) = (medians(&a)?, medians(&b)?);
    if in_pairs {
        let pairs: Vec<[f64; 2]> = a.iter().zip(&b).map(|(a, b)| [*a, *b]).collect();
        let pairs: Vec<&[f64]> = pairs.iter().map(<[f64; 2]>::as_slice).collect();
        let found = block_deviations(&pairs, level).ok().filter(|_| pairs.len() > FREEDOM_MIN)?;
        let Deviations { between, within } = found;
        return Some(Noise {
            between_pairs: Some(between),
            within_pairs: Some(within),
            between_runs: None,
            inside_runs,
        });
    }
    let runs: Vec<(bool, f64)> =
        a.iter().map(|run| (true, *run)).chain(b.iter().map(|run| (false, *run))).collect();
    freedom(&runs).filter(|freedom| *freedom >= FREEDOM_MIN)?;
    let between_runs = variance_interval(&runs, pooled, level).ok().map(|of| of.map(f64::sqrt));
    Some(Noise { between_pairs: None, within_pairs: None, between_runs, inside_runs })
}

/// The runs of a side, told by `true` and `false`.
fn of_side(runs: &[(bool, f64)], side: bool) -> impl Iterator<Item = f64> + Clone {
    runs.iter().filter(move |(own, _)| *own == side).map(|(_, value)| *value)
}

/// Runs more than there are sides; none where a side has none.
fn freedom(runs: &[(bool, f64)]) -> Option<usize> {
    let more = |side| of_side(runs, side).count().checked_sub(1);
    Some(more(true)? + more(false)?)
}

/// The variance of runs around the mean of their side. A side that has lost its only run has lost nothing that this is about.
fn pooled(runs: &[(bool, f64)]) -> f64 {
    let of = |side| {
        let count = of_side(runs, side).count().max(1) as f64;
        let mean = of_side(runs, side).sum::<f64>() / count;
        let squares: f64 = of_side(runs, side).map(|value| (value - mean).powi(2)).sum();
        (squares, count - 1.0)
    };
    let (a, b) = (of(true), of(false));
    (a.0 + b.0) / (a.1 + b.1)
}

/// The scatter among the repeats of a run, over all runs.
fn inside(a: &[Vec<f64>], b: &[Vec<f64>], level: f64) -> Option<Estimate> {
    let groups: Vec<&[f64]> = a.iter().chain(b).map(Vec::as_slice).collect();
    let repeats: usize = groups.iter().map(|group| group.len() - 1).sum();
    let within = |groups: &[&[f64]]| variance_components(groups).map_or(f64::NAN, |of| of.within);
    let found = variance_interval(&groups, within, level).ok()?;
    let is_known = repeats >= FREEDOM_MIN && found.value.is_finite();
    is_known.then(|| found.map(f64::sqrt))
}

#[cfg(test)]
mod tests {
    use crate::compare::{Comparison, Options, Side, compare};
    use crate::fixtures;

    /// Twelve pairs with these rates of A; B does `ratio` times as much, and a little more or less in turn.
    fn compared(rates: impl Fn(usize) -> f64, ratio: f64, jitter: f64, repeats: i64) -> Comparison {
        let side = |name: &str, ratio: f64, sign: f64, after: i64| {
            let run = |block: usize| {
                let sign = if block.is_multiple_of(2) { sign } else { -sign };
                let rate = rates(block) * ratio * (1.0 + sign * jitter);
                let mut run = fixtures::run(100 * block as i64 + after, rate);
                for repeat in 1..repeats {
                    let rate = if repeat % 2 == 0 { rate } else { rate * 1.02 };
                    let mut more = fixtures::run(100 * block as i64 + after + repeat, rate);
                    run.records.append(&mut more.records);
                }
                run
            };
            Side { name: name.into(), runs: (0..12).map(run).collect() }
        };
        compare(&side("A", 1.0, 1.0, 0), &side("B", ratio, -1.0, 50), &Options::default())
    }

    #[test]
    fn drift_lies_between_pairs_and_the_difference_in_neither() {
        let drifting = |block: usize| 1000.0 * 1.1f64.powi((block % 5) as i32);
        let found = compared(drifting, 1.5, 0.01, 1).rows[0].noise.expect("12 pairs");
        let (between, within) =
            (found.between_pairs.expect("pairs").value, found.within_pairs.expect("pairs").value);
        // Five steps of 10 %: a deviation of 1.4 steps. Within a pair one is 1 % up and the other 1 % down: 1.41 %,
        // with n - 1 below 1.48 %.
        assert!((0.12..0.16).contains(&between), "{found:?}");
        assert!((0.0141..0.0155).contains(&within), "{found:?}");
        assert_eq!((found.between_runs, found.inside_runs), (None, None));
    }

    #[test]
    fn repeats_inside_a_run_scatter_by_themselves() {
        let found = compared(|_| 1000.0, 1.0, 0.03, 3).rows[0].noise.expect("12 pairs");
        let inside = found.inside_runs.expect("repeats").value;
        // 1, 1.02, 1: a deviation of 1.14 %.
        assert!((0.0105..0.0125).contains(&inside), "{found:?}");
        assert!(found.within_pairs.expect("pairs").value > 0.025, "{found:?}");
    }

    #[test]
    fn few_runs_say_nothing() {
        let side = |name: &str, after: i64| Side {
            name: name.into(),
            runs: (0..5).map(|block| fixtures::run(10 * block + after, 1000.0)).collect(),
        };
        let found = compare(&side("A", 0), &side("B", 5), &Options::default());
        assert_eq!(found.rows[0].noise, None, "five pairs");
        let apart = compare(&side("A", 0), &side("B", 1000), &Options::default());
        let noise = apart.rows[0].noise.expect("eight more than sides");
        let between = noise.between_runs.expect("groups");
        // Runs that are all alike have no scatter, and nothing that an interval could be made of.
        assert_eq!((between.value, between.interval, noise.between_pairs), (0.0, None, None));
    }
}
