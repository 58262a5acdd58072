//! Results of one target over time: the same row of run after run, where its level changed, and what was changed about the
//! machine at that point.

use crate::compare::Run;
use crate::compare::differences::{self, Difference, Measured, Weight};
use crate::compare::facts::{Class, Fact, Facts};
use crate::compare::metrics::{self, Metric};
use crate::compare::rows::without_number;
use fathom_base::order::Order;
use fathom_model::finding::Verdict;
use fathom_model::fsop_jobs;
use fathom_stats::change;
use fathom_stats::equivalence::{Better, Question, compare_unpaired};
use fathom_stats::interval::{Estimate, Interval, median, median_interval};
use fathom_stats::trend::trend;
use serde::Serialize;

/// Fewer runs on either side of a change cannot be told from luck.
const RUNS_MIN: usize = 8;

/// One run of a row.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Identifier of the run.
    pub run: String,
    /// Its label.
    pub label: Option<String>,
    /// Start, UTC, nanoseconds since 1970.
    pub started_unix_ns: i64,
    /// The figure; the median over repetitions inside the run.
    pub value: f64,
    /// What the run's own figures are worth.
    pub verdict: Verdict,
}

/// A place where the level changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// Index of the first point after it.
    pub at: usize,
    /// Level before, in the unit of the figure.
    pub from: f64,
    /// Level after.
    pub to: f64,
    /// Of what came after divided by what was before: 95 % by ranks (Hodges and Lehmann). It knows nothing of the place of the change
    /// having been chosen by the same runs.
    pub ratio_interval: Option<Interval>,
    /// The place is known to within so many runs before and after.
    pub within_runs: usize,
    /// What differed from one run to the next as near to the place as that: what may have caused it.
    pub differences: Vec<Dated>,
}

/// What differed from a run to the one before it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Dated {
    /// Index of the first point with the new value.
    pub at: usize,
    /// What differed.
    #[serde(flatten)]
    pub difference: Difference,
}

/// One row over time. Runs with other settings, sizes or devices are other rows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    /// The row, with what tells it from rows of the same name.
    pub name: String,
    /// Which figure.
    pub metric: Metric,
    /// The runs, in the order of time.
    pub points: Vec<Point>,
    /// Where its level changed.
    pub changes: Vec<Change>,
    /// What the fitted line has risen (positive) or fallen since the last change, in percent of the level, where that is
    /// no chance and at least the smallest change that was looked for: a slow decline has no step.
    pub rise_percent: Option<f64>,
    /// Its interval at 95 % (Theil and Sen); the figure itself is then theirs, too.
    pub rise_interval_percent: Option<Interval>,
    /// Median of the runs since the last change, with its interval by ranks where they are enough for one.
    pub level: Option<Estimate>,
    /// Runs that it takes before a change could be found at all.
    pub points_needed: usize,
}

/// How far beside its true place a change of level may be found in a series of so many runs, where the step is several times the
/// noise: what the power of [`change::regimes`] was measured with.
fn uncertainty_runs(runs: usize) -> usize {
    1 + runs / 20
}

/// What must be the same for two runs to stand in one series.
type Ground = Facts;

struct Found<'a> {
    name: String,
    ground: Ground,
    metric: Metric,
    runs: Vec<(&'a Run, Vec<f64>, Measured)>,
}

/// The series of all runs; void runs have no figures and are left out. Changes smaller than `step_min_percent` are not
/// looked for.
#[must_use]
pub fn history(runs: &[Run], step_min_percent: f64) -> Vec<Series> {
    let mut in_order: Vec<&Run> = runs.iter().collect();
    in_order.order_by_key(|run| run.head.started_unix_ns);
    let mut found: Vec<Found<'_>> = Vec::new();
    for run in in_order {
        if run.judged().verdict != Verdict::Void {
            add(&mut found, run);
        }
    }
    let names = names(&found);
    found.iter().zip(names).map(|(row, name)| series(row, name, step_min_percent)).collect()
}

fn add<'a>(found: &mut Vec<Found<'a>>, run: &'a Run) {
    for record in run.records.iter().map(fsop_jobs::with_jobs) {
        let record = record.as_ref();
        for (index, job) in record.jobs.iter().enumerate() {
            let Some(asked) = record.workload.jobs.get(index) else { continue };
            let all = metrics::metrics(asked, job).into_iter();
            let valued = |m| Some((metrics::value(record, index, &m)?, m));
            let mut valued = all.filter_map(valued);
            let Some((value, metric)) = valued.next() else { continue };
            let label = without_number(&record.label);
            let name = if record.jobs.len() > 1 {
                format!("{label}, {}", job.name)
            } else {
                label.to_owned()
            };
            let measured = Measured::of(&run.head, record, index);
            let ground = ground(&measured);
            let same = |row: &&mut Found<'_>| {
                row.name == name && row.metric == metric && is_same(&row.ground, &ground)
            };
            match found.iter_mut().find(same) {
                None => {
                    let runs = vec![(run, vec![value], measured)];
                    found.push(Found { name, ground, metric, runs });
                }
                Some(row) => match row.runs.last_mut() {
                    Some((last, values, _)) if last.head.id == run.head.id => values.push(value),
                    _ => row.runs.push((run, vec![value], measured)),
                },
            }
        }
    }
}

fn ground(measured: &Measured) -> Ground {
    let of_row = |name: &str, class: Class| class == Class::Ground || name.starts_with("workload.");
    let facts = measured.facts.iter().filter(|(name, fact)| of_row(name, fact.class));
    facts.map(|(name, fact)| (name.clone(), fact.clone())).collect()
}

fn is_same(a: &Ground, b: &Ground) -> bool {
    let pairs = || a.iter().zip(b);
    a.len() == b.len() && pairs().all(|((key, x), (other, y))| key == other && x.is_same(y))
}

/// Names that tell rows apart: those of one name get the first facts in which they differ.
fn names(found: &[Found<'_>]) -> Vec<String> {
    let name = |row: &Found<'_>| {
        let others: Vec<&Found<'_>> =
            found.iter().filter(|o| o.name == row.name && o.ground != row.ground).collect();
        let differs = |(key, fact): &(&String, &Fact)| {
            others.iter().any(|o| !o.ground.get(*key).is_some_and(|other| other.is_same(fact)))
        };
        let words: Vec<String> = row
            .ground
            .iter()
            .filter(differs)
            .take(2)
            .map(|(key, fact)| {
                let value = if fact.value.is_empty() { "not set" } else { fact.value.as_str() };
                format!("{} {value}", key.rsplit('.').next().unwrap_or(key))
            })
            .collect();
        if words.is_empty() {
            row.name.clone()
        } else {
            format!("{} ({})", row.name, words.join(", "))
        }
    };
    found.iter().map(name).collect()
}

fn series(row: &Found<'_>, name: String, step_min_percent: f64) -> Series {
    let point = |(run, values, _): &(&Run, Vec<f64>, Measured)| Point {
        run: run.head.id.clone(),
        label: run.head.label.clone(),
        started_unix_ns: run.head.started_unix_ns,
        // Every run here has at least one finite value.
        value: median(values).unwrap_or(f64::NAN),
        verdict: run.judged().verdict,
    };
    let points: Vec<Point> = row.runs.iter().map(point).collect();
    let values: Vec<f64> = points.iter().map(|point| point.value).collect();
    // No value is missing here, so there is always one level at least.
    let levels = change::regimes(&values, RUNS_MIN, step_min_percent).unwrap_or_default();
    let changes = levels
        .windows(2)
        .map(|levels| {
            let (before, after) = (&levels[0], &levels[1]);
            let at = after.start;
            let within_runs = uncertainty_runs(values.len());
            let near = at.saturating_sub(within_runs).max(before.start + 1)
                ..=(at + within_runs).min(after.end - 1);
            let differences = near.flat_map(|at| begun_at(row, at)).collect();
            let of = |level: &change::Regime| &values[level.start..level.end];
            let compared = compare_unpaired(of(before), of(after), &Question::new(Better::Higher));
            let ratio_interval = compared.ok().and_then(|compared| compared.ratio.interval);
            let (from, to) = (before.level, after.level);
            Change { at, from, to, ratio_interval, within_runs, differences }
        })
        .collect();
    let rise_percent = levels.last().map(|level| 100.0 * level.rise / level.level);
    let rise_percent = rise_percent.filter(|rise| *rise != 0.0 && rise.abs() >= step_min_percent);
    let last = levels.last().map_or(&values[..0], |level| &values[level.start..level.end]);
    let rise = rise_percent.and_then(|_| rise_of(last));
    let (rise_percent, rise_interval_percent) =
        (rise.map_or(rise_percent, |rise| Some(rise.value)), rise.and_then(|rise| rise.interval));
    let level = median_interval(last, LEVEL).ok();
    let points_needed = 2 * RUNS_MIN;
    Series {
        name,
        metric: row.metric.clone(),
        points,
        changes,
        rise_percent,
        rise_interval_percent,
        level,
        points_needed,
    }
}

/// What differs between a run and the one before it.
fn begun_at(row: &Found<'_>, at: usize) -> impl Iterator<Item = Dated> + use<> {
    let side = |index: usize| std::slice::from_ref(&row.runs[index].2);
    let found = differences::differences(side(at - 1), side(at), None);
    let causes = found.into_iter().filter(|difference| difference.weight != Weight::Consequence);
    causes.map(move |difference| Dated { at, difference })
}

/// Confidence of every interval.
const LEVEL: f64 = 0.95;

/// What values have risen from the first to the last, in percent of their median.
fn rise_of(values: &[f64]) -> Option<Estimate> {
    let places: Vec<f64> = (0..values.len()).map(|at| at as f64).collect();
    let slope = trend(&places, values, LEVEL).ok()?.slope;
    let whole = 100.0 * values.len().saturating_sub(1) as f64 / median(values).ok()?;
    whole.is_finite().then(|| slope.map(|slope| slope * whole))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use fathom_base::prng::Prng;

    /// The `index`-th run of a history, with 2 % of noise.
    fn run(index: i64, iops: f64, kernel: &str) -> Run {
        let noise = fixtures::uniform(&mut Prng::new(3, index as u64)) - 0.5;
        let mut run = fixtures::run(index, iops * (1.0 + 0.02 * noise));
        run.head.host.kernel = Some(kernel.into());
        run
    }

    #[test]
    fn a_change_is_dated_and_its_companion_named() {
        let mut runs: Vec<Run> = (0..12).map(|i| run(i, 1000.0, "6.1")).collect();
        runs.extend((12..24).map(|i| run(i, 800.0, "6.12")));
        // The order of the store does not matter.
        runs.reverse();
        let found = history(&runs, 3.0);
        assert_eq!((found.len(), found[0].points.len()), (1, 24));
        let [change] = found[0].changes.as_slice() else { panic!("{:?}", found[0].changes) };
        assert_eq!((change.at, found[0].points[change.at].run.as_str()), (12, "000000000012"));
        assert!((change.to / change.from - 0.8).abs() < 0.02, "{change:?}");
        // 2 % of noise, twelve runs on either side.
        let interval = change.ratio_interval.expect("enough runs");
        assert!((0.78..0.8).contains(&interval.low) && (0.8..0.82).contains(&interval.high));
        let what: Vec<(usize, &str)> =
            change.differences.iter().map(|d| (d.at, d.difference.what.as_str())).collect();
        assert_eq!((change.within_runs, what), (2, vec![(12, "host.kernel")]));
    }

    /// The run at which something changed may be as far beside the place that is found as the place is uncertain; beyond that nothing
    /// is named.
    #[test]
    fn what_changed_near_the_place_is_named_with_its_run() {
        let found = |kernels: &[(i64, &str)]| {
            let kernel =
                |i: i64| kernels.iter().rfind(|(from, _)| *from <= i).map_or("6.1", |k| k.1);
            let level = |i: i64| if i < 20 { 1000.0 } else { 800.0 };
            let runs: Vec<Run> = (0..40).map(|i| run(i, level(i), kernel(i))).collect();
            let found = history(&runs, 3.0);
            let [change] = found[0].changes.as_slice() else { panic!("{:?}", found[0].changes) };
            assert_eq!((change.at, change.within_runs), (20, 3));
            change.differences.iter().map(|d| (d.at, d.difference.b.clone())).collect::<Vec<_>>()
        };
        let to = |at: usize, kernel: &str| (at, vec![kernel.to_owned()]);
        assert_eq!(found(&[(19, "6.12")]), [to(19, "6.12")]);
        assert_eq!(found(&[(17, "6.2"), (23, "6.12")]), [to(17, "6.2"), to(23, "6.12")]);
        assert_eq!(found(&[(16, "6.2"), (24, "6.12")]), []);
    }

    #[test]
    fn a_quiet_history_has_no_change_and_few_runs_none_at_all() {
        let quiet: Vec<Run> = (0..30).map(|i| run(i, 1000.0, "6.1")).collect();
        assert_eq!(history(&quiet, 3.0)[0].changes, []);
        let few: Vec<Run> =
            (0..10).map(|i| run(i, if i < 5 { 1000.0 } else { 500.0 }, "6.1")).collect();
        let found = history(&few, 3.0);
        assert!(found[0].changes.is_empty() && found[0].points.len() < found[0].points_needed);
    }

    #[test]
    fn a_slow_decline_is_no_change_and_is_said() {
        let runs = (0..40).map(|i| run(i, 1000.0 - 5.0 * i as f64, "6.1"));
        let found = history(&runs.collect::<Vec<_>>(), 3.0);
        assert_eq!(found[0].changes, []);
        let rise = found[0].rise_percent.expect("a decline");
        assert!((-23.0..-19.0).contains(&rise), "{rise}");
        let interval = found[0].rise_interval_percent.expect("runs enough");
        assert!(
            interval.contains(rise) && interval.high < -10.0 && interval.low > -32.0,
            "{interval:?}"
        );
        let level = (0..40).map(|i| run(i, 1000.0, "6.1"));
        assert_eq!(history(&level.collect::<Vec<_>>(), 3.0)[0].rise_percent, None);
    }

    #[test]
    fn other_settings_are_other_rows_and_void_runs_none() {
        let mut deep = run(1, 3000.0, "6.1");
        deep.records[0].workload.jobs[0].depth = 32;
        let mut void = run(2, 1000.0, "6.1");
        void.records[0].suspended_ns = 1_000_000_000;
        let found = history(&[run(0, 1000.0, "6.1"), deep, void], 3.0);
        let names: Vec<(&str, usize)> =
            found.iter().map(|row| (row.name.as_str(), row.points.len())).collect();
        assert_eq!(names, [("random read (depth 1)", 1), ("random read (depth 32)", 1)]);
    }

    /// `quick` sizes its file by the speed that it sees.
    #[test]
    fn files_of_nearly_the_same_size_are_one_row() {
        let sized = |index: i64, mib: u64| {
            let mut run = run(index, 1000.0, "6.1");
            run.records[0].targets[0].size_bytes = mib << 20;
            run
        };
        let found = history(&[sized(0, 1000), sized(1, 1049), sized(2, 1051), sized(3, 4000)], 3.0);
        let points: Vec<usize> = found.iter().map(|row| row.points.len()).collect();
        assert_eq!(points, [3, 1]);
        assert!(found[1].name.contains("size 3.9"), "{}", found[1].name);
    }

    fn edges(values: &[f64], step_min_percent: f64) -> Vec<usize> {
        let levels = change::regimes(values, RUNS_MIN, step_min_percent).expect("finite");
        levels[1..].iter().map(|level| level.start).collect()
    }

    /// Rates of a busy machine, measured: eight runs with the CPU to themselves and eight with nine others on it.
    #[test]
    fn a_large_change_is_found_in_large_noise() {
        let values = [
            625715.0, 613482.5, 691822.5, 1050082.5, 561432.5, 394800.0, 483000.0, 286605.0,
            20977.5, 43750.0, 29335.0, 26995.0, 28982.5, 30855.0, 31575.0, 35810.0,
        ];
        assert_eq!(edges(&values, 5.0), [8]);
    }

    /// The stated rate is one in a thousand, and a little more in short series, before small steps are left out.
    #[test]
    fn series_without_a_change_are_left_whole() {
        let mut prng = Prng::new(19, 0);
        let mut series = |n: usize| -> Vec<f64> {
            (0..n).map(|_| 1000.0 + (prng.next_u64() >> 44) as f64 / 1024.0).collect()
        };
        let divided = (0..2000).filter(|_| !edges(&series(40), 0.0).is_empty()).count();
        assert!(divided <= 10, "{divided} of 2000");
        let steps: Vec<f64> = [1000.0, 1300.0, 900.0]
            .iter()
            .flat_map(|level| series(15).into_iter().map(move |v| level * (1.0 + v / 20_000.0)))
            .collect();
        assert_eq!(edges(&steps, 5.0), [15, 30]);
    }

    #[test]
    fn repetitions_in_a_run_are_one_point() {
        let mut thrice = run(0, 1000.0, "6.1");
        thrice.records.push(run(1, 1100.0, "6.1").records.remove(0));
        thrice.records.push(run(2, 3000.0, "6.1").records.remove(0));
        for (index, record) in thrice.records.iter_mut().enumerate() {
            record.label = format!("random read #{}", index + 1);
        }
        let found = history(&[thrice], 3.0);
        assert_eq!((found.len(), found[0].points.len()), (1, 1));
        assert!((found[0].points[0].value / 1100.0 - 1.0).abs() < 0.02);
    }
}
