//! What only the whole plan can tell.

use super::rest::check_constants;
use crate::cells::{baseline, baseline_cell, cells, is_file, matches};
use crate::{Known, PlanError, factor, narrow, setup};
use fathom_model::plan::cell::Cell;
use fathom_model::plan::{DesignKind, Factor, FactorKind, Plan, PlanWorkload};

/// More trials than anybody waits for.
const TRIALS_MAX: u64 = 200_000;

/// Everything that the parts could not tell.
pub fn check(plan: &Plan, known: &dyn Known) -> Result<(), PlanError> {
    check_constants(plan)?;
    check_target(plan)?;
    check_setup(plan)?;
    check_together(plan)?;
    if plan.prepare.remounts && plan.setup.filesystem.is_none() {
        let reason = "fathom mounts anew only what it has mounted; give [setup] a filesystem, or use drop_caches";
        return Err(PlanError::new(reason).about("prepare.remount"));
    }
    if plan.design.kind == DesignKind::Narrowing {
        narrow::check(plan)?;
    }
    let cells = cells(plan)?;
    check_files(&cells, known)?;
    check_targets(&cells)?;
    check_possible(plan, &cells)?;
    check_except(plan)?;
    let trials = cells.len() as u64 * u64::from(plan.design.blocks);
    if trials > TRIALS_MAX {
        let reason = format!(
            "{} cells in {} blocks are {trials} trials; at most {TRIALS_MAX}",
            cells.len(),
            plan.design.blocks
        );
        return Err(PlanError::new(reason).about("design.blocks"));
    }
    Ok(())
}

/// A setup that does not vary, by itself.
fn check_setup(plan: &Plan) -> Result<(), PlanError> {
    if plan.factors.iter().any(|factor| matches!(factor.sets, FactorKind::Setup { .. })) {
        return Ok(());
    }
    setup::check(&plan.setup)
        .map_err(|fault| PlanError::new(fault.reason).about(format!("setup.{}", fault.key)))
}

fn check_target(plan: &Plan) -> Result<(), PlanError> {
    let is_own = |workload: &PlanWorkload| workload.target.is_some() || workload.command.is_some();
    let varies = plan
        .factors
        .iter()
        .any(|factor| matches!(&factor.sets, FactorKind::Workload { key, .. } if key == "target"));
    let has_own = plan.workloads.iter().all(is_own) || varies;
    match (&plan.target, plan.setup.devices.is_empty()) {
        (Some(_), false) => {
            let reason = "the setup makes what is measured; leave out target, or [setup]";
            Err(PlanError::new(reason).about("target"))
        }
        (Some(_), true) if !plan.setup.is_empty() => {
            let reason = "builds over devices of its own; give devices = [...] instead of target, or leave it out";
            Err(PlanError::new(reason).about("setup"))
        }
        (None, true) if !plan.setup.is_empty() => {
            let reason = "nothing can be built without devices; write devices = [\"/dev/sdX\"] below [setup]";
            Err(PlanError::new(reason).about("setup"))
        }
        (None, true) if !has_own => Err(PlanError::new(
            "says nowhere what is measured; write target = \"/srv/data\", or [setup] with devices",
        )),
        _ => Ok(()),
    }
}

fn check_together(plan: &Plan) -> Result<(), PlanError> {
    if plan.is_together && plan.workloads.len() < 2 {
        let reason = "there is one workload, and nothing that it could run together with";
        return Err(PlanError::new(reason).about("together"));
    }
    if !plan.design.rotates_places {
        return Ok(());
    }
    let refuse = |reason: &str| Err(PlanError::new(reason).about("design.rotate"));
    if !plan.is_together {
        return refuse(
            "workloads change places only when they run side by side; set together = true",
        );
    }
    let place = |workload: &PlanWorkload| {
        let setting = |key: &str| workload.settings.get(key).cloned();
        (workload.target.clone(), setting("offset"), setting("span"))
    };
    let first = place(&plan.workloads[0]);
    if plan.workloads.iter().all(|workload| place(workload) == first) {
        return refuse(
            "all workloads have the same place; give each a target or an offset of its own",
        );
    }
    Ok(())
}

/// Workload files with the settings of every cell; built-in ones were checked with the cells.
fn check_files(cells: &[Cell], known: &dyn Known) -> Result<(), PlanError> {
    let mut seen: Vec<&PlanWorkload> = Vec::new();
    for cell in cells.iter().filter(|cell| cell.impossible.is_none()) {
        for workload in
            cell.workloads.iter().filter(|workload| workload.name.as_deref().is_some_and(is_file))
        {
            if seen.contains(&workload) {
                continue;
            }
            known.workload(workload).map_err(|reason| {
                let reason = format!("in the cell {}: {reason}", cell.name());
                PlanError::new(reason).about("workload")
            })?;
            seen.push(workload);
        }
    }
    Ok(())
}

/// Filesystems of the setup that workloads name must be there.
fn check_targets(cells: &[Cell]) -> Result<(), PlanError> {
    for cell in cells.iter().filter(|cell| cell.impossible.is_none()) {
        for workload in &cell.workloads {
            let target = workload.target.as_deref().unwrap_or_default();
            setup::check_target(&cell.setup, target)
                .map_err(|reason| PlanError::new(reason).about("workload.target"))?;
        }
    }
    Ok(())
}

/// Every level must be possible somewhere; designs that compare contrasts need all their cells.
fn check_possible(plan: &Plan, cells: &[Cell]) -> Result<(), PlanError> {
    let reason = |cell: &Cell| cell.impossible.clone().unwrap_or_default();
    let needs_all = !matches!(plan.design.kind, DesignKind::Full | DesignKind::OneAtATime);
    let first = cells.iter().find(|cell| cell.impossible.is_some());
    if let Some(cell) = first.filter(|_| needs_all) {
        let reason = format!(
            "needs all its cells, and {} cannot exist: {}; use kind = \"full\"",
            cell.name(),
            reason(cell)
        );
        return Err(PlanError::new(reason).about("design.kind"));
    }
    // What no factor has to do with stands in the setup itself.
    if let Err(fault) = setup::check(&plan.setup)
        && cells.iter().all(|cell| cell.impossible.as_ref() == Some(&fault.reason))
    {
        return Err(PlanError::new(fault.reason).about(format!("setup.{}", fault.key)));
    }
    for factor in &plan.factors {
        for level in &factor.levels {
            let has =
                |cell: &&Cell| cell.levels.iter().any(|(n, l)| *n == factor.name && l == level);
            let mut with = cells.iter().filter(has);
            let Some(example) = with.clone().next() else { continue };
            if with.all(|cell| cell.impossible.is_some()) {
                let key = format!("factors.{}", factor::id_of(factor));
                let reason = format!("is possible in no cell: {}", reason(example));
                return Err(PlanError::new(reason).about(key).with_value(format!("'{level}'")));
            }
        }
    }
    let sentinel = baseline_cell(plan, cells);
    if plan.design.has_sentinel && sentinel.is_none_or(|cell| cell.impossible.is_some()) {
        let why = sentinel.map_or_else(|| "it is left out by design.except".to_owned(), reason);
        let reason = format!(
            "the sentinel is the baseline ({}), which is not measured: {why}; choose another with design.baseline, or set \
             design.sentinel = false",
            baseline_name(plan)
        );
        return Err(PlanError::new(reason).about("design.baseline"));
    }
    Ok(())
}

fn baseline_name(plan: &Plan) -> String {
    let word =
        |(factor, place): (&Factor, usize)| format!("{}={}", factor.name, factor.levels[place]);
    plan.factors.iter().zip(baseline(plan)).map(word).collect::<Vec<_>>().join(" ")
}

/// Every exception must leave something out.
fn check_except(plan: &Plan) -> Result<(), PlanError> {
    if plan.design.except.is_empty() {
        return Ok(());
    }
    if !matches!(plan.design.kind, DesignKind::Full | DesignKind::OneAtATime) {
        let reason = "this kind of design needs all its cells; use kind = \"full\" with exceptions";
        return Err(PlanError::new(reason).about("design.except"));
    }
    let mut all = plan.clone();
    all.design.except.clear();
    let cells = cells(&all)?;
    for pattern in &plan.design.except {
        if !cells.iter().any(|cell| matches(pattern, cell)) {
            let words: Vec<String> = pattern.iter().map(|(f, l)| format!("{f}={l}")).collect();
            let reason = format!("{} leaves out nothing", words.join(" "));
            return Err(PlanError::new(reason).about("design.except"));
        }
    }
    Ok(())
}
