//! Runs without what identifies.

use fathom_check::anonymise::runs::Hider;
use fathom_export::Run;
use fathom_store::StoreError;
use fathom_store::transfer::{PlanRow, RunCopy, TrialRow, jsonl};

/// Learns what identifies in a run.
pub fn learn(hider: &mut Hider, run: &Run) {
    hider.learn(&run.head);
    hider.learn(&run.plan);
    hider.learn(&run.findings);
    run.records.iter().for_each(|record| hider.learn(record));
}

/// The run without it; none when it would not be readable any more.
pub fn run(hider: &mut Hider, run: &Run) -> Option<Run> {
    Some(Run {
        head: hider.hide(&run.head)?,
        state: run.state.clone(),
        finished_unix_ns: run.finished_unix_ns,
        verdict: run.verdict,
        findings: hider.hide(&run.findings)?,
        plan: hider.hide(&run.plan)?,
        records: run.records.iter().map(|record| hider.hide(record)).collect::<Option<_>>()?,
    })
}

/// Rows as a store would have them: `run` without what identifies, `stored` as it was.
pub fn copy(
    run: &Run,
    stored: Result<RunCopy, StoreError>,
) -> Result<(RunCopy, Vec<TrialRow>), StoreError> {
    let mut copy = stored?;
    let trials = jsonl::trials(&run.records)?;
    copy.trial_checksums = trials.iter().map(|trial| trial.checksum.clone()).collect();
    let row = &mut copy.run;
    row.label.clone_from(&run.head.label);
    row.command.clone_from(&run.head.command);
    row.target.clone_from(&run.head.target);
    row.host = jsonl::raw(&run.head.host)?;
    row.findings = jsonl::raw(&run.findings)?;
    // Who made it does not matter elsewhere; its boot is that of the host.
    row.writer.boot_id = run.head.host.boot_id.clone().unwrap_or_default();
    copy.plan = match &run.plan {
        Some(plan) => Some(PlanRow { name: plan.name.clone(), plan: jsonl::raw(plan)? }),
        None => None,
    };
    Ok((copy, trials))
}
