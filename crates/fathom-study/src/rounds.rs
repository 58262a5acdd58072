//! A workload in rounds until it is steady, by the rule of the SNIA's Solid State Storage Performance Test Specification:
//! see [`fathom_stats::steady`]. Pure: which figures are followed, whether they are steady, what that is worth.

use crate::compare::Metric;
use crate::compare::metrics;
use crate::compare::rows::without_number;
use crate::verdict::{self, Study};
use fathom_base::order::Order;
use fathom_model::finding::{Finding, Severity, Verdict};
use fathom_model::record::{Ending, Record, RunKind};
use fathom_stats::steady::{self, RANGE_MAX, RISE_MAX, WINDOW_ROUNDS, Window};
use serde::Serialize;

/// One figure over all rounds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Followed {
    /// The row and, of several jobs, the job.
    pub name: String,
    /// Which figure.
    pub metric: Metric,
    /// Whether the rule is about it: rates and mean latencies, or what was asked for. The others are only shown.
    pub is_tracked: bool,
    /// Its value in each round, in the unit of the metric.
    pub values: Vec<f64>,
    /// The verification window; none below five rounds.
    pub window: Option<Window>,
    /// The range of the window as a share of its average.
    pub range_share: Option<f64>,
    /// What the fitted line rises (positive) or falls over the window, as a share of its average.
    pub rise_share: Option<f64>,
}

/// What the rounds come to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rounds {
    /// Whole rounds.
    pub rounds: usize,
    /// The last round of the first window in which every tracked figure is steady, counted from 1; none when there is none.
    pub reached: Option<usize>,
    /// The first round after it whose last five are no longer steady; none while they are, and where no round followed.
    pub left: Option<usize>,
    /// The first and the last round of the verification window: the one that reached steady state, else the last one.
    pub window: Option<(usize, usize)>,
    /// The largest range that is steady, as a share of the average.
    pub range_share_max: f64,
    /// The largest rise or fall that is steady, as a share of the average.
    pub rise_share_max: f64,
    /// Every figure, in the order of the workload.
    pub figures: Vec<Followed>,
}

/// Studies records of a workload that was repeated. Rounds count up to the last whole one; trials that did not end as planned
/// are no part of any.
#[must_use]
pub fn study(records: &[Record]) -> Rounds {
    let rows = rows(records);
    let rounds = rows.iter().map(Vec::len).min().unwrap_or(0);
    let mut figures: Vec<Followed> = rows.iter().flat_map(|row| of_row(&row[..rounds])).collect();
    let tracked: Vec<&[f64]> =
        figures.iter().filter(|f| f.is_tracked).map(|f| f.values.as_slice()).collect();
    let state = steady::assess(&tracked).ok();
    let reached = state.as_ref().and_then(|state| state.reached);
    let left = state.and_then(|state| state.left);
    let last = reached.unwrap_or(rounds);
    let window = (last >= WINDOW_ROUNDS).then(|| (last + 1 - WINDOW_ROUNDS, last));
    for figure in &mut figures {
        let values = figure.values.get(..last).and_then(|values| values.last_chunk());
        figure.window = values.map(Window::of);
        figure.range_share = figure.window.map(|window| window.range_share());
        figure.rise_share = figure.window.map(|window| window.rise_share());
    }
    let (range_share_max, rise_share_max) = (RANGE_MAX, RISE_MAX);
    Rounds { rounds, reached, left, window, range_share_max, rise_share_max, figures }
}

/// The complete trials of each row, in the order of rounds.
fn rows(records: &[Record]) -> Vec<Vec<&Record>> {
    let mut rows: Vec<Vec<&Record>> = Vec::new();
    for record in records.iter().filter(|record| record.ending == Ending::Complete) {
        let name = without_number(&record.label);
        match rows.iter_mut().find(|row| without_number(&row[0].label) == name) {
            Some(row) => row.push(record),
            None => rows.push(vec![record]),
        }
    }
    rows
}

/// What is followed of a row: the figures that its first round has. A tracked one that a later round lacks is 0 there, which
/// is not steady; others are left out then.
fn of_row(row: &[&Record]) -> Vec<Followed> {
    let Some(first) = row.first() else { return Vec::new() };
    let mut found = Vec::new();
    for (index, (asked, job)) in first.workload.jobs.iter().zip(&first.jobs).enumerate() {
        let row_name = without_number(&first.label);
        let name = match first.jobs.len() {
            1 => row_name.to_owned(),
            _ => format!("{row_name}, {}", job.name),
        };
        for (metric, is_tracked) in metrics::followed(asked, job, &first.workload.tracked) {
            let value = |record: &&Record| metrics::value(record, index, &metric);
            let values: Option<Vec<f64>> =
                row.iter().map(|record| value(record).or(is_tracked.then_some(0.0))).collect();
            let (window, range_share, rise_share) = (None, None, None);
            let name = name.clone();
            found.extend(values.map(|values| Followed {
                name,
                metric,
                is_tracked,
                values,
                window,
                range_share,
                rise_share,
            }));
        }
    }
    found
}

impl Rounds {
    /// The figures of the last round in a line: `round 3: randread IOPS 12 345, read mean 81 us, read p99 120 us`.
    #[must_use]
    pub fn last_round(&self) -> String {
        let mut text = format!("round {}:", self.rounds);
        let mut row = "";
        for figure in &self.figures {
            let Some(value) = figure.values.last() else { continue };
            let name = if figure.name == row { "" } else { figure.name.as_str() };
            let words = format!("{name} {} {}", figure.metric.words(), figure.metric.text(*value));
            let separator = if text.ends_with(':') { " " } else { ", " };
            text = text + separator + words.trim_start();
            row = figure.name.as_str();
        }
        text
    }

    /// The tracked figure that some round of the window lacks.
    fn lacking(&self) -> Option<String> {
        let (first, last) = self.window?;
        let lacks = |f: &&Followed| f.is_tracked && f.values[first - 1..last].contains(&0.0);
        let figure = self.figures.iter().find(lacks)?;
        let count = figure.values[first - 1..last].iter().filter(|value| **value == 0.0).count();
        Some(format!(
            "{} {}: {count} of these rounds have too few requests for it",
            figure.name,
            figure.metric.words()
        ))
    }

    /// The tracked figure that is furthest beyond its limits in the five rounds up to this one, with by how much: `range 31 %
    /// of at most 20 %`.
    fn worst(&self, last: usize) -> Option<String> {
        let excess = |window: &Window| {
            (window.range_share() / RANGE_MAX).max(window.rise_share().abs() / RISE_MAX)
        };
        let window = |f: &Followed| Some(Window::of(f.values.get(..last)?.last_chunk()?));
        let tracked = self.figures.iter().filter(|f| f.is_tracked);
        let windows = tracked.filter_map(|figure| Some((figure, window(figure)?)));
        let (worst, of) = windows.max_by(|a, b| excess(&a.1).total_cmp(&excess(&b.1)))?;
        let (range, rise) = (of.range_share(), of.rise_share());
        Some(format!(
            "{} {}: range {:.0} % (at most {:.0} %), line {:+.0} % (at most {:.0} %)",
            worst.name,
            worst.metric.words(),
            100.0 * range,
            100.0 * RANGE_MAX,
            100.0 * rise,
            100.0 * RISE_MAX
        ))
    }
}

/// The records that the figures of a stored run rest on, of whatever kind it is. Of rounds until steady these are those of
/// the verification window: what came before was not steady, and is no repetition.
#[must_use]
pub fn answering(kind: RunKind, records: Vec<Record>) -> Vec<Record> {
    if kind == RunKind::Rounds { of_window(records) } else { records }
}

/// The records of the verification window, all of them below five rounds.
fn of_window(mut records: Vec<Record>) -> Vec<Record> {
    let Some((first, last)) = study(&records).window else { return records };
    let mut seen: Vec<(String, usize)> = Vec::new();
    records.retain(|record| {
        let name = without_number(&record.label);
        let at = seen.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            seen.push((name.to_owned(), 0));
            seen.len() - 1
        });
        seen[at].1 += 1;
        (first..=last).contains(&seen[at].1)
    });
    records
}

/// Judges such a run: by the rounds of its window, and by what makes any of the others void. A run that does not become
/// steady is doubtful.
#[must_use]
pub fn judge(records: &[Record]) -> Study {
    let mut study = verdict::judge(&of_window(records.to_vec()));
    let of_all = verdict::judge(records).findings.into_iter();
    let known = |finding: &Finding| study.findings.iter().any(|other| other.id == finding.id);
    let void: Vec<Finding> = of_all.filter(|f| f.severity == Severity::Void && !known(f)).collect();
    study.findings.extend(void);
    let rounds = self::study(records);
    study.findings.extend(not_reached(&rounds));
    study.findings.extend(left(&rounds));
    study.findings.order_by_key(|finding| std::cmp::Reverse(finding.severity));
    study.verdict = Verdict::of(&study.findings);
    study
}

/// The state was reached and did not last: the figures are those of a rest between two others.
fn left(rounds: &Rounds) -> Option<Finding> {
    let (reached, left) = (rounds.reached?, rounds.left?);
    let text = format!(
        "steady at round {reached}, no longer at round {left}: {}",
        rounds.worst(left).unwrap_or_default()
    );
    Some(
        Finding::new("steady-state-left", Severity::Doubtful, text)
            .advise("the figures are those of a state that did not last")
            .advise("what ends one: garbage collection, a cache that filled, heat, other load")
            .advise("longer rounds (duration=) average over what comes and goes"),
    )
}

fn not_reached(rounds: &Rounds) -> Option<Finding> {
    if rounds.reached.is_some() {
        return None;
    }
    let why = rounds.lacking().or_else(|| rounds.worst(rounds.rounds)).map_or_else(
        || format!("it takes {WINDOW_ROUNDS}"),
        |worst| format!("in the last {WINDOW_ROUNDS}, {worst}"),
    );
    let text = format!("not steady in {} rounds: {why}", rounds.rounds);
    let finding = Finding::new("steady-state-not-reached", Severity::Doubtful, text);
    Some(
        finding
            .advise("more rounds (--until-steady=ROUNDS) or longer ones (duration=)")
            .advise("a solid-state disk settles sooner when its whole size was written twice before (fathom run seqwrite)"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use fathom_model::workload::Tracked;

    /// A round for each rate, with five requests in flight.
    fn rounds(rates: &[f64]) -> Vec<Record> {
        let round = |(number, rate): (usize, &f64)| {
            let mut record = fixtures::run(0, *rate).records.remove(0);
            record.label = format!("random read #{number}");
            record
        };
        (1..).zip(rates).map(round).collect()
    }

    /// A solid-state disk that uses up its free blocks.
    fn settling(count: i32) -> Vec<f64> {
        (0..count).map(|i| 1000.0 + 4000.0 * (-f64::from(i) / 3.0).exp()).collect()
    }

    #[test]
    fn a_drive_that_settles_is_steady_where_the_rule_says() {
        let records = rounds(&settling(25));
        let found = study(&records);
        let reached = found.reached.expect("it settles");
        // The rule by hand, on the rates alone: the latency of a closed loop is their reciprocal.
        let by_hand = (5..=25).find(|end| {
            let five = &settling(25)[end - 5..*end];
            let mean = five.iter().sum::<f64>() / 5.0;
            let rise = 0.4 * (2.0 * (five[4] - five[0]) + five[3] - five[1]);
            five[0] - five[4] <= 0.2 * mean && rise.abs() <= 0.1 * mean
        });
        assert!(by_hand.is_some_and(|round| (round..=round + 1).contains(&reached)), "{found:?}");
        assert_eq!((found.rounds, found.window), (25, Some((reached - 4, reached))));
        let names: Vec<String> = found.figures.iter().map(|f| f.metric.words()).collect();
        assert_eq!(names, ["IOPS", "read mean", "read p99"]);
        assert_eq!(found.figures.iter().filter(|f| f.is_tracked).count(), 2);
        let judged = judge(&records[..reached]);
        assert_eq!(judged.verdict, Verdict::Trusted, "{:?}", judged.findings);
        // The figures are those of the window.
        let window = of_window(records[..reached].to_vec());
        assert_eq!(window.len(), 5);
        assert_eq!(window[4].label, format!("random read #{reached}"));
        assert_eq!(answering(RunKind::Rounds, records.clone()), of_window(records.clone()));
        assert_eq!(answering(RunKind::Run, records.clone()), records);
        assert!(
            study(&records[..reached])
                .last_round()
                .starts_with(&format!("round {reached}: random read IOPS "))
        );
    }

    /// A drive that rests at 1000 until its free blocks are used up again.
    #[test]
    fn a_steady_state_that_is_left_is_doubtful() {
        let mut rates = vec![1000.0; 7];
        assert_eq!(judge(&rounds(&rates)).verdict, Verdict::Trusted);
        rates.extend([600.0, 400.0]);
        let found = study(&rounds(&rates));
        assert_eq!((found.reached, found.left, found.window), (Some(5), Some(8), Some((1, 5))));
        let judged = judge(&rounds(&rates));
        let finding = &judged.findings[0];
        assert_eq!((finding.id.as_str(), judged.verdict), ("steady-state-left", Verdict::Doubtful));
        // Mean latencies 5, 5, 5, 5 and 8.33 ms: 3.33 of 5.67 in range, and the line rises by 0.8 x 3.33 of that.
        let text = "steady at round 5, no longer at round 8: random read read mean: range 59 % (at most 20 %), line +47 % (at \
                    most 10 %)";
        assert_eq!(finding.summary, text);
    }

    #[test]
    fn a_drive_that_drifts_is_not_steady_and_that_is_said() {
        let drifting: Vec<f64> = (0..12).map(|i| 5000.0 * 0.95f64.powi(i)).collect();
        let records = rounds(&drifting);
        let found = study(&records);
        assert_eq!((found.rounds, found.reached, found.window), (12, None, Some((8, 12))));
        let judged = judge(&records);
        assert_eq!(judged.verdict, Verdict::Doubtful);
        let finding = &judged.findings[0];
        assert_eq!(finding.id, "steady-state-not-reached");
        let words =
            ["not steady in 12 rounds: in the last 5, random read", "line ", "(at most 10 %)"];
        assert!(words.iter().all(|word| finding.summary.contains(word)), "{}", finding.summary);
    }

    #[test]
    fn every_phase_has_to_be_steady_and_few_rounds_never_are() {
        let mut both = Vec::new();
        for (read, mut write) in rounds(&[1000.0; 8]).into_iter().zip(rounds(&settling(8))) {
            write.label = write.label.replace("random read", "random write");
            both.extend([read, write]);
        }
        assert_eq!(study(&both).reached, None);
        assert_eq!(study(&both).figures.len(), 6);
        let reads: Vec<Record> = both.into_iter().step_by(2).collect();
        assert_eq!(study(&reads).reached, Some(5));
        let few = judge(&reads[..4]);
        assert!(few.findings[0].summary.ends_with("not steady in 4 rounds: it takes 5"));
        assert_eq!((study(&[]).rounds, study(&[]).reached), (0, None));
    }

    /// The median falls all the time, the rate does not: who tracks only the rate does not wait for the tail.
    #[test]
    fn what_is_tracked_is_what_was_asked_for() {
        let mut records = rounds(&[1000.0; 8]);
        for (number, record) in records.iter_mut().enumerate() {
            let latency_ns = &mut record.jobs[0].classes[0].latency_ns;
            latency_ns.record_n(10_000_000 << number, 1_000);
        }
        assert_eq!(study(&records).reached, None, "the mean grows");
        let with = |tracked: &[Tracked]| {
            let mut records = records.clone();
            records.iter_mut().for_each(|record| record.workload.tracked = tracked.to_vec());
            study(&records)
        };
        assert_eq!(with(&[Tracked::Rate, Tracked::P50]).reached, Some(5));
        let found = with(&[Tracked::Rate, Tracked::P99, Tracked::Max]);
        assert_eq!(found.reached, None);
        let words = |f: &Followed| (f.metric.words(), f.is_tracked);
        let all: Vec<(String, bool)> = found.figures.iter().map(words).collect();
        let shown = [("IOPS", true), ("read mean", false), ("read p99", true), ("read max", true)];
        assert_eq!(all, shown.map(|(name, tracked)| (name.to_owned(), tracked)));
        // A thousand requests have one beyond the 99.9th percentile, and that carries nothing.
        let mut few = rounds(&[10.0; 6]);
        few.iter_mut().for_each(|record| record.workload.tracked = vec![Tracked::P999]);
        let finding = &judge(&few).findings[0];
        let words = "random read read p99.9: 5 of these rounds have too few requests for it";
        assert!(finding.summary.contains(words), "{}", finding.summary);
    }

    /// The round that a signal ended is no round, and a level below the first rounds makes the whole run not void.
    #[test]
    fn interrupted_rounds_do_not_count_and_early_ones_are_no_doubt() {
        let mut records = rounds(&[4000.0, 1000.0, 1000.0, 1000.0, 1000.0, 1000.0]);
        let levels = (0..60).map(|i| if i < 30 { 8000 } else { 100 });
        records[0].jobs[0].series = fixtures::seconds(levels);
        assert!(verdict::judge(&records).findings.iter().any(|f| f.id == "not-steady"));
        let judged = judge(&records);
        assert_eq!(judged.verdict, Verdict::Trusted, "{:?}", judged.findings);
        records[0].suspended_ns = 1_000_000_000;
        assert_eq!(judge(&records).verdict, Verdict::Void);
        records[5].ending = Ending::Interrupted;
        assert_eq!((study(&records).rounds, study(&records).reached), (5, None));
    }
}
