//! An experiment as runs that can be compared with others: each block is one, because a trial is the unit. `fathom compare`
//! then holds cells of one experiment against each other in pairs, and two experiments cell by cell.

use crate::compare::{Run, Side};
use fathom_model::record::{Ending, Record, RunHead, RunKind};

/// The blocks of an experiment. Sentinels and trials that do not count are left out.
#[must_use]
pub fn runs(run: Run) -> Vec<Run> {
    let Run { head, records, unfinished } = run;
    let counts = |record: &Record| {
        let cell = record.cell.as_ref();
        record.ending == Ending::Complete
            && cell.is_some_and(|cell| cell.void.is_none() && !cell.slot.is_sentinel)
    };
    let mut runs: Vec<Run> = Vec::new();
    for record in records.into_iter().filter(counts) {
        let block = record.cell.as_ref().map_or(0, |cell| cell.slot.block + 1);
        let id = format!("{}#{block}", head.id);
        match runs.iter_mut().find(|run| run.head.id == id) {
            Some(run) => run.records.push(record),
            None => {
                let head = RunHead { id, kind: RunKind::Run, ..head.clone() };
                runs.push(Run { head, records: vec![record], unfinished: unfinished.clone() });
            }
        }
    }
    runs
}

/// Of two cells of one experiment, a trial that does not count takes that of the other cell in its block along: what is left
/// was made in turn.
pub fn keep_pairs(a: &mut Side, b: &mut Side) {
    let blocks = |side: &Side| side.runs.iter().map(|run| run.head.id.clone()).collect();
    let (of_a, of_b): (Vec<String>, Vec<String>) = (blocks(a), blocks(b));
    for (side, others) in [(a, of_b), (b, of_a)] {
        let parents: Vec<&str> =
            others.iter().filter_map(|id| Some(id.split_once('#')?.0)).collect();
        let is_half = |run: &Run| {
            let parent = run.head.id.split_once('#').map(|(parent, _)| parent);
            parent.is_some_and(|parent| parents.contains(&parent)) && !others.contains(&run.head.id)
        };
        side.runs.retain(|run| !is_half(run));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Options, compare};
    use crate::experiment::sample::{Sample, noise};
    use crate::fixtures;
    use fathom_base::prng::Prng;
    use fathom_stats::equivalence::Decision;

    fn experiment(rates: [f64; 2], blocks: u32, seed: u64) -> Run {
        let mut prng = Prng::new(seed, 0);
        let sample = Sample::new(&[("scheduler", &["none", "bfq"])], blocks, |cell, block| {
            let level = 1000.0 * (1.0 + f64::from(block % 3) / 10.0);
            level * rates[cell.index as usize] * noise(&mut prng, 0.005)
        });
        let head = RunHead { kind: RunKind::Experiment, ..fixtures::head() };
        Run { head, records: sample.records, unfinished: None }
    }

    fn side(name: &str, run: &Run, label: &str) -> Side {
        let mut run = run.clone();
        run.records.retain(|record| record.label.starts_with(label));
        Side { name: name.into(), runs: runs(run) }
    }

    #[test]
    fn cells_of_one_experiment_are_pairs() {
        let run = experiment([1.0, 1.2], 8, 1);
        let (a, b) = (side("A", &run, "scheduler=none"), side("B", &run, "scheduler=bfq"));
        let found = compare(&a, &b, &Options::default());
        let [row] = found.rows.as_slice() else { panic!("{found:?}") };
        assert_eq!((row.runs_a, row.runs_b, row.in_pairs), (8, 8, true));
        assert_eq!(row.figures[0].decision, Decision::Faster);
    }

    #[test]
    fn a_void_trial_takes_its_pair_along() {
        let mut run = experiment([1.0, 1.2], 8, 1);
        run.records[5].cell.as_mut().expect("a cell").void = Some("not quiet".into());
        let (mut a, mut b) = (side("A", &run, "scheduler=none"), side("B", &run, "scheduler=bfq"));
        assert_ne!(a.runs.len(), b.runs.len());
        keep_pairs(&mut a, &mut b);
        let found = compare(&a, &b, &Options::default());
        assert_eq!((found.rows[0].runs_a, found.rows[0].in_pairs), (7, true), "{found:?}");
        // Of two experiments blocks have nothing to do with each other.
        let mut other = run.clone();
        other.head.id = "other".into();
        other.records.truncate(6);
        let (mut a, mut b) =
            (side("A", &run, "scheduler=none"), side("B", &other, "scheduler=bfq"));
        let counts = (a.runs.len(), b.runs.len());
        keep_pairs(&mut a, &mut b);
        assert_eq!((a.runs.len(), b.runs.len()), counts);
    }

    #[test]
    fn two_experiments_are_compared_cell_by_cell() {
        let (before, after) = (experiment([1.0, 1.2], 8, 1), experiment([1.0, 0.6], 8, 2));
        let found = compare(&side("A", &before, ""), &side("B", &after, ""), &Options::default());
        let decisions: Vec<(&str, Decision)> =
            found.rows.iter().map(|row| (row.name.as_str(), row.figures[0].decision)).collect();
        assert_eq!(decisions[1], ("scheduler=bfq", Decision::Slower));
        assert_ne!(decisions[0].1, Decision::Slower);
    }

    #[test]
    fn void_trials_are_no_runs() {
        let mut run = experiment([1.0, 1.0], 3, 1);
        run.records[0].cell.as_mut().expect("a cell").void = Some("drift".into());
        run.records[3].cell.as_mut().expect("a cell").slot.is_sentinel = true;
        let counts: Vec<usize> = runs(run).iter().map(|run| run.records.len()).collect();
        assert_eq!(counts, [1, 1, 2]);
    }
}
