//! The study as a whole, and the error that it states.

use super::sample::{Sample, noise};
use super::*;
use fathom_base::prng::Prng;
use fathom_stats::equivalence::Decision as Verdict;

fn sequential(rates: &'static [f64], spread: f64, seed: u64) -> Sample {
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    let mut prng = Prng::new(seed, 0);
    let levels: Vec<&str> = NAMES[..rates.len()].to_vec();
    let mut sample = Sample::new(&[("x", &levels)], 25, |cell, block| {
        let drift = 0.995f64.powi(block as i32);
        1000.0 * drift * rates[cell.index as usize] * noise(&mut prng, spread)
    });
    (sample.plan.design.blocks, sample.plan.design.is_sequential) = (25, true);
    sample
}

/// Runs it as the laboratory does: until a look says that everything is decided.
fn run(sample: &Sample) -> (u32, ExperimentStudy) {
    let mut blocks = 0;
    loop {
        let until = |blocks: u32| -> Vec<Record> {
            let is_in = |r: &&Record| r.cell.as_ref().expect("a cell").slot.block < blocks;
            sample.records.iter().filter(is_in).cloned().collect()
        };
        match is_decided(&sample.plan, &sample.cells, &until(blocks)) {
            Decision::Measure { blocks: next } => blocks = next,
            Decision::Answered | Decision::Exhausted => {
                return (blocks, study(&sample.plan, &sample.cells, &until(blocks)));
            }
        }
    }
}

#[test]
fn clear_answers_come_early_and_close_ones_late() {
    let (blocks, study) = run(&sequential(&[1.0, 1.3], 0.01, 1));
    assert_eq!((blocks, study.ranking.winner), (8, Some(1)));
    let (blocks, study) = run(&sequential(&[1.0, 1.0], 0.08, 1));
    assert_eq!(blocks, 25);
    assert_eq!(study.ranking.leaders.len(), 2);
    assert_eq!(study.open_questions(), (1, 1));
}

/// 300 experiments with four equal cells and four looks: how many call any of them better or worse. Stated: at most 5 %.
#[test]
fn equal_cells_are_rarely_called_different() {
    let rounds = 300;
    let differs = |seed: &u64| {
        let (_, study) = run(&sequential(&[1.0; 4], 0.05, 1000 + seed));
        study
            .cells
            .iter()
            .filter_map(|c| c.figures[0].as_ref()?.change.as_ref())
            .any(|change| matches!(change.decision, Verdict::Faster | Verdict::Slower))
    };
    let share = (0..rounds).filter(differs).count() as f64 / rounds as f64;
    assert!(share <= 0.05 + 0.025, "{share}");
}

#[test]
fn an_unfinished_experiment_has_a_study_too() {
    let mut sample = sequential(&[1.0, 1.3], 0.01, 1);
    sample.records.truncate(3);
    let study = study(&sample.plan, &sample.cells, &sample.records);
    assert_eq!((study.blocks_done, study.trials), (1, 3));
    assert_eq!(study.ranking.leaders.len(), 2);
    let none = super::study(&sample.plan, &sample.cells, &[]);
    assert_eq!((none.ranking.winner, none.cells.len()), (None, 2));
    assert_eq!(is_decided(&sample.plan, &sample.cells, &[]), Decision::Measure { blocks: 8 });
}

#[test]
fn the_baseline_is_the_plans() {
    let mut sample = Sample::new(&[("a", &["x", "y"]), ("b", &["1", "2"])], 1, |_, _| 1.0e3);
    assert_eq!(baseline(&sample.plan, &sample.cells), 0);
    sample.plan.design.baseline.insert("a".into(), "y".into());
    assert_eq!(baseline(&sample.plan, &sample.cells), 2);
    sample.plan.design.baseline.insert("a".into(), "z".into());
    assert_eq!(baseline(&sample.plan, &sample.cells), 0);
}

#[test]
fn a_study_is_json() {
    let sample = sequential(&[1.0, 1.3], 0.01, 1);
    let study = study(&sample.plan, &sample.cells, &sample.records);
    let json = serde_json::to_value(&study).expect("serialisable");
    assert_eq!(json["ranking"]["winner"], 1);
    assert_eq!(json["cells"][1]["figures"][0]["change"]["decision"], "faster");
}

/// The median shows nothing of a fault in two trials of six: in how many it was is told.
#[test]
fn a_bound_of_0_says_in_how_many_trials_it_was_broken() {
    let mut sample = Sample::new(&[("x", &["a", "b"])], 6, |_, _| 1000.0);
    let bound = serde_json::json!({"metric": "application", "figure": "err", "is_less_better": true, "bound": 0.0});
    sample.plan.objectives.push(serde_json::from_value(bound).expect("an objective"));
    for record in &mut sample.records {
        let cell = record.cell.as_mut().expect("a cell");
        let is_faulty = cell.slot.cell == 1 && cell.slot.block < 2;
        cell.application.insert("err".to_owned(), if is_faulty { 7.0 } else { 0.0 });
    }
    let study = study(&sample.plan, &sample.cells, &sample.records);
    assert_eq!(study.ranking.bounds[0].kept, [ranking::Kept::Kept, ranking::Kept::Broken]);
    let told = study.findings.iter().find(|finding| finding.id == "bound-of-0").expect("told");
    assert!(told.summary.ends_with("x=b in 2 of 6 trials"), "{}", told.summary);
}

/// Bounds that nobody can be sure of yet, and IOPS of unlike block sizes, are told.
#[test]
fn unsure_bounds_and_unlike_blocks_are_told() {
    let mut sample = Sample::new(&[("block_size", &["4k", "64k"])], 6, |cell, block| {
        [1000.0, 1300.0][cell.index as usize] + 100.0 * f64::from(block % 3)
    });
    let told = |sample: &Sample, id: &str| {
        let study = study(&sample.plan, &sample.cells, &sample.records);
        study.findings.into_iter().find(|finding| finding.id == id).map(|finding| finding.summary)
    };
    assert_eq!(told(&sample, "unsure-bound"), None);
    assert!(told(&sample, "unlike-blocks").is_some());
    let bound = serde_json::json!({"metric": "iops", "bound": 1390.0});
    sample.plan.objectives.push(serde_json::from_value(bound).expect("an objective"));
    let unsure = told(&sample, "unsure-bound").expect("told");
    assert!(unsure.ends_with("that of iops of read by block_size=64k"), "{unsure}");
    let rate = serde_json::json!({"metric": "rate"});
    sample.plan.objectives.push(serde_json::from_value(rate).expect("an objective"));
    assert_eq!(told(&sample, "unlike-blocks"), None);
}
