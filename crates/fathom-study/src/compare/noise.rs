//! Where runs that should be alike differ: from pair to pair, within a pair, from repeat to repeat inside a run. Repeating
//! pays at the level that scatters most.

use super::metrics::{self, Metric};
use super::rows::{Row, Unit};
use fathom_stats::interval::median;
use fathom_stats::nested::{block_components, variance_components};
use serde::Serialize;

/// Fewer pairs, or runs more than there are sides, say nothing about scatter.
const FREEDOM_MIN: usize = 5;

/// The scatter of one figure at each level, as standard deviations of its logarithm: 0.03 is 3 %. What A and B differ by is in
/// none of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Noise {
    /// From pair to pair of runs made in turn: drift, which comparing within pairs takes out.
    pub between_pairs: Option<f64>,
    /// Within such a pair: what the interval of the ratio rests on.
    pub within_pairs: Option<f64>,
    /// From run to run of one side, where they are no pairs.
    pub between_runs: Option<f64>,
    /// From repeat to repeat inside a run; none where runs have no repeats.
    pub inside_runs: Option<f64>,
}

/// The scatter of the figure that answers the question; none where the runs are too few.
pub(super) fn of_row(row: &Row<'_>, metric: Metric, in_pairs: bool) -> Option<Noise> {
    let logs = |units: &[Unit<'_>]| -> Option<Vec<Vec<f64>>> {
        let value = |unit: &Unit<'_>| -> Option<Vec<f64>> {
            let cells = unit.cells.iter();
            let each = cells.map(|cell| metrics::value(cell.record, cell.job, metric));
            each.map(|value| Some(value.filter(|value| *value > 0.0)?.ln())).collect()
        };
        units.iter().map(value).collect()
    };
    let (a, b) = (logs(&row.a)?, logs(&row.b)?);
    let inside_runs = inside(&a, &b);
    let medians =
        |runs: &[Vec<f64>]| runs.iter().map(|own| median(own).ok()).collect::<Option<Vec<f64>>>();
    let (a, b) = (medians(&a)?, medians(&b)?);
    if in_pairs {
        let pairs: Vec<[f64; 2]> = a.iter().zip(&b).map(|(a, b)| [*a, *b]).collect();
        let pairs: Vec<&[f64]> = pairs.iter().map(<[f64; 2]>::as_slice).collect();
        let found = block_components(&pairs).ok().filter(|_| pairs.len() > FREEDOM_MIN)?;
        let (between, within) = (Some(found.between.sqrt()), Some(found.within.sqrt()));
        return Some(Noise {
            between_pairs: between,
            within_pairs: within,
            between_runs: None,
            inside_runs,
        });
    }
    let freedom = (a.len() + b.len()).checked_sub(2).filter(|freedom| *freedom >= FREEDOM_MIN)?;
    let squares = |values: &[f64]| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.iter().map(|value| (value - mean).powi(2)).sum::<f64>()
    };
    let between_runs = Some(((squares(&a) + squares(&b)) / freedom as f64).sqrt());
    Some(Noise { between_pairs: None, within_pairs: None, between_runs, inside_runs })
}

/// The scatter among the repeats of a run, over all runs.
fn inside(a: &[Vec<f64>], b: &[Vec<f64>]) -> Option<f64> {
    let groups: Vec<&[f64]> = a.iter().chain(b).map(Vec::as_slice).collect();
    let repeats: usize = groups.iter().map(|group| group.len() - 1).sum();
    let found = variance_components(&groups).ok().filter(|_| repeats >= FREEDOM_MIN)?;
    Some(found.within.sqrt())
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
            (found.between_pairs.expect("pairs"), found.within_pairs.expect("pairs"));
        // Five steps of 10 %: a deviation of 1.4 steps. Within a pair one is 1 % up and the other 1 % down: 1.41 %,
        // with n - 1 below 1.48 %.
        assert!((0.12..0.16).contains(&between), "{found:?}");
        assert!((0.0141..0.0155).contains(&within), "{found:?}");
        assert_eq!((found.between_runs, found.inside_runs), (None, None));
    }

    #[test]
    fn repeats_inside_a_run_scatter_by_themselves() {
        let found = compared(|_| 1000.0, 1.0, 0.03, 3).rows[0].noise.expect("12 pairs");
        let inside = found.inside_runs.expect("repeats");
        // 1, 1.02, 1: a deviation of 1.14 %.
        assert!((0.0105..0.0125).contains(&inside), "{found:?}");
        assert!(found.within_pairs.expect("pairs") > 0.025, "{found:?}");
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
        assert_eq!((noise.between_runs, noise.between_pairs), (Some(0.0), None));
    }
}
