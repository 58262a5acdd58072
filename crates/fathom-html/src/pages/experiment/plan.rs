//! What was asked: workloads, factors, design.

use crate::page::{Column, Section, Table};
use fathom_model::plan::cell::Cell;
use fathom_model::plan::{DesignKind, FactorKind, Plan, PlanWorkload};
use fathom_report::experiment::words;

pub(super) fn section(plan: &Plan, cells: &[Cell]) -> Option<Section> {
    let mut section = Section::new("Plan", design(plan, cells));
    section = section.block(workloads(plan));
    if !plan.factors.is_empty() {
        section = section.block(factors(plan));
    }
    Some(section)
}

fn design(plan: &Plan, cells: &[Cell]) -> String {
    let kind = match plan.design.kind {
        DesignKind::Full => "every combination of levels",
        DesignKind::OneAtATime => "one factor at a time",
        DesignKind::Fractional => "a fraction of all combinations",
        DesignKind::Screening => "screening: many factors, main effects only",
        DesignKind::Narrowing => "narrowing around the best level",
    };
    let cells = words::count(cells.len(), "cell", "cells");
    let blocks = words::count(plan.design.blocks as usize, "block", "blocks");
    let until = if plan.design.is_sequential { "; it ends early when all is decided" } else { "" };
    let sentinel = match plan.design.has_sentinel {
        true => " A sentinel, the baseline, is measured in between to see drift.",
        false => "",
    };
    let margin = words::percent(plan.design.margin);
    format!(
        "Design: {kind}: {cells}, each once in every block in an order by chance, at most {blocks}{until}. Differences below \
         {margin} do not matter.{sentinel}"
    )
}

fn workloads(plan: &Plan) -> Table {
    let columns = ["workload", "is", "with"].map(Column::left);
    let caption = match plan.is_together {
        true => "Workloads, all at the same time",
        false => "Workloads, one after the other",
    };
    let mut table =
        Table::new(if plan.workloads.len() > 1 { caption } else { "Workload" }, columns);
    for workload in &plan.workloads {
        let PlanWorkload { label, name, command, settings, target } = workload;
        let what = name.clone().or_else(|| command.clone()).unwrap_or_default();
        let mut with: Vec<String> = settings.iter().map(|(k, v)| format!("{k}={v}")).collect();
        with.extend(target.iter().map(|target| format!("on {target}")));
        table.row([label.clone(), what, with.join(" ")]);
    }
    table
}

fn factors(plan: &Plan) -> Table {
    let columns = ["factor", "sets", "levels"].map(Column::left);
    let mut table = Table::new(
        "Factors; the first level is the baseline unless the plan says otherwise",
        columns,
    );
    for factor in &plan.factors {
        let sets = match &factor.sets {
            FactorKind::Knob { id } => id.clone(),
            FactorKind::Workload { key, label: None } => format!("workload.{key}"),
            FactorKind::Workload { key, label: Some(label) } => format!("workload.{label}.{key}"),
            FactorKind::Setup { key } => format!("setup.{key}"),
            FactorKind::Companion => "a load beside the measured one".to_owned(),
            FactorKind::Boot { parameter } => format!("boot.{parameter}"),
            FactorKind::Null => "nothing".to_owned(),
        };
        table.row([factor.name.clone(), sets, factor.levels.join(", ")]);
    }
    table
}
