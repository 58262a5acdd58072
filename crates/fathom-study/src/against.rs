//! `fathom run --against`: two workloads in blocks of random order on one target. Pure: which records belong together, what
//! they come to, and whether more are needed.
//!
//! A block is one run of each. Its order was drawn, so that what drifts is as likely to favour the one as the other, and the
//! planned looks of [`fathom_stats::sequential`] hold.

use crate::compare::rows::without_number;
use crate::compare::{Comparison, Options, Run, Side, compare};
use crate::experiment;
use fathom_model::record::{Ending, Record, RunHead, RunKind};
use fathom_stats::equivalence::Decision;
use fathom_stats::sequential::LOOKS;

/// The names of the two sides, as labels of records begin with them: `A: randread #3`.
pub const SIDES: [&str; 2] = ["A", "B"];

/// Blocks at the first look.
pub const LOOK_FIRST: usize = LOOKS[0];

/// The label of one record, whose block counts from 1.
#[must_use]
pub fn label(side: &str, workload: &str, block: usize) -> String {
    format!("{side}: {workload} #{block}")
}

/// The most blocks.
#[must_use]
pub fn blocks_max() -> usize {
    LOOKS[LOOKS.len() - 1]
}

/// The block of a label; none when it has no number.
fn block(label: &str) -> Option<usize> {
    label[without_number(label).len()..].strip_prefix(" #")?.parse().ok()
}

/// The runs that a stored run holds: each block of `--against` and of an experiment is one of its own, everything else is
/// itself.
#[must_use]
pub fn runs(run: Run) -> Vec<Run> {
    match run.head.kind {
        RunKind::Against => {}
        RunKind::Experiment => return experiment::runs(run),
        _ => return vec![run],
    }
    let Run { head, records, unfinished } = run;
    let mut runs: Vec<Run> = Vec::new();
    for record in records {
        let number = block(&record.label).unwrap_or_default();
        let id = format!("{}#{number}", head.id);
        match runs.iter_mut().find(|run| run.head.id == id) {
            Some(run) => run.records.push(record),
            None => {
                let head = RunHead { id, ..head.clone() };
                runs.push(Run { head, records: vec![record], unfinished: unfinished.clone() });
            }
        }
    }
    runs
}

/// One side: its record of each block that is whole, called as the workload is.
fn side(head: &RunHead, records: &[Record], name: &str) -> Side {
    let of = |record: &&Record, side: &str| {
        record.label.strip_prefix(side).is_some_and(|rest| rest.starts_with(": "))
            && record.ending == Ending::Complete
    };
    let has = |side: &str, number: Option<usize>| {
        records.iter().any(|r| of(&r, side) && block(&r.label) == number)
    };
    let whole = |r: &&Record| SIDES.iter().all(|side| has(side, block(&r.label)));
    let own = records.iter().filter(|r| of(r, name) && whole(r)).cloned().map(|mut record| {
        record.label.drain(..name.len() + 2);
        record
    });
    let run = Run { head: head.clone(), records: own.collect(), unfinished: None };
    Side { name: name.to_owned(), runs: runs(run) }
}

/// What is compared: both sides of every block that is whole.
#[must_use]
pub fn sides(head: &RunHead, records: &[Record]) -> [Side; 2] {
    let head = RunHead { kind: RunKind::Against, ..head.clone() };
    SIDES.map(|name| side(&head, records, name))
}

/// Compares the two sides by the planned looks. What was set on the command line is the thing under test, however many
/// settings that are.
#[must_use]
pub fn study(head: &RunHead, records: &[Record]) -> Comparison {
    let [a, b] = sides(head, records);
    let factor = Some("workload".to_owned());
    let options = Options { looks: true, factor, ..Options::default() };
    compare(&a, &b, &options)
}

/// After so many blocks, whether to measure on, and until how many there are; none when the answer is there or the last
/// look is over.
#[must_use]
pub fn next_look(found: &Comparison) -> Option<usize> {
    found.rows.iter().filter_map(|row| row.next_look).max()
}

/// How far the answer is, in a line.
#[must_use]
pub fn progress(found: &Comparison) -> String {
    let row = |row: &crate::compare::RowComparison| {
        let figure = row.figures.first()?;
        let ratio = figure.answer.ratio;
        let range = ratio.interval.map(|i| format!(" ({})", i.range(|end| format!("{end:.3}"))));
        let word = match figure.decision {
            Decision::Faster => "B is better",
            Decision::Slower => "B is worse",
            Decision::Equivalent => "no difference that matters",
            Decision::Inconclusive => "not decided",
        };
        let what = figure.metric.words();
        let range = range.unwrap_or_default();
        Some(format!("{} {what} B / A {:.3}{range}, {word}", row.name, ratio.value))
    };
    let pairs = found.rows.first().map_or(0, |row| row.runs_a);
    let rows: Vec<String> = found.rows.iter().filter_map(row).collect();
    let next = next_look(found).map_or_else(String::new, |n| format!("; next look after {n}"));
    let answer =
        if rows.is_empty() { "no figure that every run has".to_owned() } else { rows.join("; ") };
    format!("After {pairs} pairs: {answer}{next}.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use fathom_base::prng::Prng;
    use fathom_model::finding::Verdict;

    /// Blocks in drawn order; the rates of A wander, B has `ratio` times as much, both with `noise`.
    fn records(blocks: usize, ratio: f64, noise: f64, prng: &mut Prng) -> Vec<Record> {
        let mut records = Vec::new();
        let mut time = 0;
        for number in 1..=blocks {
            let drift = 1000.0 * 0.99_f64.powi(number as i32);
            let order = if prng.below(2) == 0 { SIDES } else { [SIDES[1], SIDES[0]] };
            for side in order {
                let factor = if side == "B" { ratio } else { 1.0 };
                let iops = drift * factor * (1.0 + noise * (fixtures::uniform(prng) - 0.5));
                time += 60_000_000_000;
                let mut record = fixtures::run(time, iops).records.remove(0);
                record.label = label(side, "randread", number);
                if side == "B" {
                    (record.workload.jobs[0].depth, record.workload.jobs[0].batch) = (8, 2);
                }
                records.push(record);
            }
        }
        records
    }

    fn study_of(blocks: usize, ratio: f64, noise: f64) -> Comparison {
        let head = fixtures::head();
        study(&head, &records(blocks, ratio, noise, &mut Prng::new(7, 0)))
    }

    #[test]
    fn a_clear_difference_is_decided_at_the_first_look() {
        let found = study_of(8, 1.2, 0.02);
        let [row] = found.rows.as_slice() else { panic!("{found:?}") };
        assert_eq!((row.name.as_str(), row.runs_a, row.in_pairs), ("randread", 8, true));
        assert_eq!(row.figures[0].decision, Decision::Faster);
        assert_eq!(next_look(&found), None);
        // Two settings were set together: together they are what is under test.
        assert_eq!(found.verdict, Verdict::Trusted, "{:?}", found.findings);
        assert!(progress(&found).starts_with("After 8 pairs: randread IOPS B / A 1.2"));
        // One run in which nothing ended.
        let mut found = found;
        found.rows[0].figures.clear();
        assert_eq!(progress(&found), "After 8 pairs: no figure that every run has.");
    }

    #[test]
    fn between_looks_nothing_is_decided_and_the_last_one_ends_it() {
        let found = study_of(7, 1.2, 0.02);
        assert_eq!(found.rows[0].figures[0].decision, Decision::Inconclusive);
        assert_eq!(next_look(&found), Some(8));
        let noisy = study_of(8, 1.0, 0.6);
        assert_eq!(next_look(&noisy), Some(12), "{:?}", noisy.rows[0].figures[0]);
        assert!(progress(&noisy).ends_with("not decided; next look after 12."));
        assert_eq!(next_look(&study_of(blocks_max(), 1.0, 0.6)), None);
    }

    #[test]
    fn a_block_that_a_signal_cut_does_not_count() {
        let head = fixtures::head();
        let mut cut = records(9, 1.2, 0.02, &mut Prng::new(7, 0));
        let last = cut.len() - 1;
        cut[last].ending = Ending::Interrupted;
        let found = study(&head, &cut);
        assert_eq!((found.rows[0].runs_a, found.rows[0].runs_b), (8, 8));
        cut.pop();
        assert_eq!(study(&head, &cut), found);
        assert_eq!(next_look(&study(&head, &[])), None);
    }

    /// Compared again without a word about looks, they are not taken for runs that were all planned beforehand.
    #[test]
    fn compared_again_it_is_by_the_looks() {
        let head = RunHead { kind: RunKind::Against, ..fixtures::head() };
        let records = records(8, 1.2, 0.03, &mut Prng::new(7, 0));
        let factor = Some("workload".to_owned());
        let [a, b] = sides(&head, &records);
        let plain = Options { factor, ..Options::default() };
        let by_looks = study(&head, &records);
        assert_eq!(compare(&a, &b, &plain), by_looks);
        // One side of two such runs: neither was stopped by what is compared.
        let other = RunHead { id: "000000000001".into(), ..head.clone() };
        let [_, b] = sides(&other, &records);
        let found = compare(&a, &b, &plain);
        let [narrow, wide] = [&found, &by_looks].map(|found| {
            let interval = found.rows[0].figures[0].answer.ratio.interval.expect("eight pairs");
            interval.coverage
        });
        assert!(narrow < wide, "{narrow} {wide}");
        assert!(found.findings.iter().all(|finding| finding.id != "looks-do-not-apply"));
    }

    #[test]
    fn blocks_are_runs_of_their_own() {
        let head = RunHead { kind: RunKind::Against, ..fixtures::head() };
        let records = records(3, 1.0, 0.1, &mut Prng::new(7, 0));
        let whole = Run { head, records: records.clone(), unfinished: None };
        let parts = runs(whole.clone());
        assert_eq!(parts.len(), 3);
        assert!(parts.iter().all(|run| run.records.len() == 2));
        assert_eq!(parts[2].head.id, "000000000000#3");
        let plain = Run { head: fixtures::head(), ..whole };
        assert_eq!(runs(plain.clone()), [plain]);
        assert_eq!(block("A: mixed (20 % writes), 64 #12"), Some(12));
        assert_eq!(block("A: mixed"), None);
    }
}
