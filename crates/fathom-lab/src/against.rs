//! `fathom run --against`: a workload and another one on the same target, block by block in drawn order, until it is known
//! which is faster. The looks and the answer are those of `fathom-study`.

use crate::error::LabError;
use crate::lab::Lab;
use crate::run::{self, RunOptions};
use crate::trial::{KeepRecord, Trial, check_start, run_trial};
use fathom_model::record::{Ending, Record, RunHead, RunKind};
use fathom_model::workload::{Verify, Workload};
use fathom_study::against::{self, SIDES, blocks_max, label, next_look};

/// What is held against what.
#[derive(Debug, Clone)]
pub struct AgainstOptions {
    /// The workloads A and B; already checked for contradictions.
    pub sides: [Workload; 2],
    /// Where, for jobs that name no target of their own.
    pub target: String,
}

/// Runs blocks until a look decides, at most until the last one.
///
/// # Errors
/// [`LabError`] when nothing could be measured; an interrupted or failed trial ends the list instead.
pub fn against(
    lab: &mut Lab<'_>,
    options: &AgainstOptions,
    keep_record: KeepRecord<'_>,
) -> Result<Vec<Record>, LabError> {
    check(&options.sides)?;
    let joined = joined(lab, options)?;
    let mut prepared = run::checked_targets(lab, &joined)?;
    // Jobs of both sides, as they are prepared and as they run: with the names that people know.
    let of_side = SIDES.map(|side| joined.workload.of_phase(side));
    let mut sides = of_side.clone();
    for (side, asked) in sides.iter_mut().zip(&options.sides) {
        let phases = asked.jobs.iter().map(|job| job.phase.clone());
        side.jobs.iter_mut().zip(phases).for_each(|(job, phase)| job.phase = phase);
    }
    for (side, prepared_as) in sides.iter().zip(&of_side) {
        check_start(lab, &side.jobs, &run::targets_of(&joined, prepared_as, &prepared))?;
    }
    run::say_what_is_asked(lab, &joined, &prepared);
    let block_ns = sides.iter().map(run::planned_ns).fold(0, u64::saturating_add);
    let longest_ns = block_ns.saturating_mul(blocks_max() as u64);
    for target in prepared.values_mut() {
        target.fill_up(lab, None, longest_ns)?;
    }
    let head = head(lab);
    lab.note(format!(
        "A and B in turn, in drawn order, until the answer is clear: {} to {} pairs{}.",
        against::LOOK_FIRST,
        blocks_max(),
        run::about(longest_ns)
    ));
    let mut records: Vec<Record> = Vec::new();
    let mut until = against::LOOK_FIRST;
    for block in 1..=blocks_max() {
        let first = lab.seeds.below(2) as usize;
        for side in [first, 1 - first] {
            if lab.stop.is_set() || records.last().is_some_and(|r| r.ending != Ending::Complete) {
                break;
            }
            let done = records.len();
            let rest = (2 * until).saturating_sub(done + 1) as u64;
            let trial = Trial {
                label: label(SIDES[side], &sides[side].name, block),
                workload: &sides[side],
                targets: run::targets_of(&joined, &of_side[side], &prepared),
                seed: lab.seeds.next_u64(),
                rest_after_ns: rest.saturating_mul(block_ns / 2),
                position: (done as u32 + 1, 2 * until as u32),
            };
            records.push(run_trial(lab, &trial, keep_record)?);
        }
        if block == until && records.len() == 2 * block {
            let found = against::study(&head, &records);
            lab.note(against::progress(&found));
            match next_look(&found) {
                Some(later) => until = later,
                None => break,
            }
        }
    }
    run::give_back(lab, prepared);
    if records.is_empty() { Err(LabError::Interrupted) } else { Ok(records) }
}

/// What would not be the same question twice.
fn check(sides: &[Workload; 2]) -> Result<(), LabError> {
    let usage = |reason: &str| Err(LabError::Usage(format!("--against: {reason}")));
    let [a, b] = sides;
    let jobs = || a.jobs.iter().chain(&b.jobs);
    if a.phases().len() > 1 {
        let phases = a.phases().join(", ");
        return usage(&format!("the workload has several phases ({phases}); name one: --phase="));
    }
    if jobs().any(|job| job.verify != Verify::None) {
        return usage(
            "verify= writes down what each run wrote, which the other side overwrites; leave it out",
        );
    }
    let sizes = |side: &Workload| side.jobs.iter().map(|job| job.size_bytes).collect::<Vec<_>>();
    if sizes(a) != sizes(b) {
        return usage("both sides share the test file, so size= cannot differ; span= uses a part");
    }
    // A file that one side empties each time is another for the other side than without it.
    let empties = |side: &Workload| side.jobs.iter().any(|job| job.starts_empty());
    if empties(a) != empties(b) {
        return usage(
            "one side starts with an empty file and the other with a full one; set overwrite= alike, or measure them apart \
             and use fathom compare",
        );
    }
    if a.jobs == b.jobs {
        return usage(
            "both sides are the same; name a setting with another value, such as depth=32",
        );
    }
    Ok(())
}

/// What looks need of the run: that its records are of one.
fn head(lab: &Lab<'_>) -> RunHead {
    RunHead {
        id: lab.run_id.clone(),
        kind: RunKind::Against,
        label: None,
        command: String::new(),
        target: String::new(),
        started_unix_ns: 0,
        host: lab.host.clone(),
        fathom_version: String::new(),
    }
}

/// Both workloads as two phases of one: targets are found, checked and shared by the same rules.
fn joined(lab: &Lab<'_>, options: &AgainstOptions) -> Result<RunOptions, LabError> {
    let target = options.target.clone();
    let mut workload = Workload { jobs: Vec::new(), ..options.sides[0].clone() };
    for (name, side) in SIDES.iter().zip(&options.sides) {
        let (repeats, until_steady) = (1, None);
        let one =
            RunOptions { workload: side.clone(), target: target.clone(), repeats, until_steady };
        let mut jobs = run::with_array_sizes(lab, &one)?.workload.jobs;
        jobs.iter_mut().for_each(|job| job.phase = Some((*name).to_owned()));
        workload.jobs.extend(jobs);
    }
    Ok(RunOptions { workload, target, repeats: 1, until_steady: None })
}
