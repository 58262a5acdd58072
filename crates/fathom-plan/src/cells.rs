//! Cells: which combinations a design measures, and what each of them means.

pub(crate) mod fraction;
pub(crate) mod screening;

use crate::PlanError;
use crate::factor;
use crate::known::workload_of;
use crate::setup;
use fathom_base::order::Order;
use fathom_model::builtin;
use fathom_model::plan::cell::Cell;
use fathom_model::plan::{DesignKind, Factor, FactorKind, Plan, PlanWorkload};
use fathom_model::workload::Workload;
use std::collections::BTreeMap;

/// More combinations than anybody measures.
const CELLS_MAX: usize = 4096;

/// All cells of a plan in the order of its design. Those with [`Cell::impossible`] are shown, never measured.
///
/// # Errors
/// Too many cells, or a design that does not fit the factors.
pub fn cells(plan: &Plan) -> Result<Vec<Cell>, PlanError> {
    let rows = match plan.design.kind {
        DesignKind::Full => full(plan)?,
        DesignKind::OneAtATime => one_at_a_time(plan),
        DesignKind::Fractional => fraction::rows(plan)?,
        DesignKind::Screening => screening::rows(plan)?,
        DesignKind::Narrowing => narrowing(plan)?,
    };
    let mut cells = Vec::with_capacity(rows.len());
    let mut workloads = Workloads::default();
    for row in rows {
        let index = cells.len() as u32;
        let mut cell = resolve(plan, &row, index);
        if cell.impossible.is_none() {
            cell.impossible = cell.workloads.iter().find_map(|workload| workloads.fault(workload));
        }
        if !plan.design.except.iter().any(|pattern| matches(pattern, &cell)) {
            cells.push(cell);
        }
    }
    if cells.is_empty() {
        let reason = "leaves out every cell; take some of it away";
        return Err(PlanError::new(reason).about("design.except"));
    }
    Ok(cells)
}

/// True when the cell has all the levels of the pattern.
pub(crate) fn matches(pattern: &BTreeMap<String, String>, cell: &Cell) -> bool {
    pattern.iter().all(|(name, level)| cell.levels.iter().any(|(n, l)| n == name && l == level))
}

/// The place of each factor's baseline among its levels.
pub(crate) fn baseline(plan: &Plan) -> Vec<usize> {
    let place = |factor: &Factor| {
        let wanted = plan.design.baseline.get(&factor.name)?;
        factor.levels.iter().position(|level| level == wanted)
    };
    plan.factors.iter().map(|factor| place(factor).unwrap_or(0)).collect()
}

/// The cell that has the baseline's level of every factor, when it is among them.
pub(crate) fn baseline_cell<'a>(plan: &Plan, cells: &'a [Cell]) -> Option<&'a Cell> {
    let places = baseline(plan);
    let is_baseline = |cell: &&Cell| {
        let wanted = plan.factors.iter().zip(&places).map(|(factor, place)| &factor.levels[*place]);
        cell.levels.iter().map(|(_, level)| level).eq(wanted)
    };
    cells.iter().find(is_baseline)
}

fn full(plan: &Plan) -> Result<Vec<Vec<usize>>, PlanError> {
    let count = plan.factors.iter().try_fold(1usize, |product, factor| {
        product.checked_mul(factor.levels.len()).filter(|count| *count <= CELLS_MAX)
    });
    if count.is_none() {
        let sizes: Vec<String> =
            plan.factors.iter().map(|factor| factor.levels.len().to_string()).collect();
        let reason = format!(
            "all combinations of {} levels are more than {CELLS_MAX} cells; kind = \"one-at-a-time\" or \"screening\" \
             takes a few of them",
            sizes.join(" x ")
        );
        return Err(PlanError::new(reason).about("design.kind"));
    }
    let mut rows = vec![Vec::new()];
    for factor in &plan.factors {
        let places = 0..factor.levels.len();
        rows = rows
            .into_iter()
            .flat_map(|row| places.clone().map(move |place| [row.clone(), vec![place]].concat()))
            .collect();
    }
    Ok(rows)
}

fn one_at_a_time(plan: &Plan) -> Vec<Vec<usize>> {
    let baseline = baseline(plan);
    let mut rows = vec![baseline.clone()];
    for (index, factor) in plan.factors.iter().enumerate() {
        for place in (0..factor.levels.len()).filter(|place| *place != baseline[index]) {
            let mut row = baseline.clone();
            row[index] = place;
            rows.push(row);
        }
    }
    rows
}

fn narrowing(plan: &Plan) -> Result<Vec<Vec<usize>>, PlanError> {
    let [factor] = plan.factors.as_slice() else {
        let reason = format!(
            "narrowing searches one factor, and there are {}; narrow one after the other",
            plan.factors.len()
        );
        return Err(PlanError::new(reason).about("design.kind"));
    };
    Ok((0..factor.levels.len()).map(|place| vec![place]).collect())
}

/// Each factor's two levels as places (low is the baseline), for designs of two levels.
pub(crate) fn two_levels(plan: &Plan) -> Result<Vec<[usize; 2]>, PlanError> {
    let baseline = baseline(plan);
    let pair = |(factor, low): (&Factor, usize)| match factor.levels.len() {
        2 => Ok([low, 1 - low]),
        count => {
            let reason = format!(
                "has {count} levels, and this design takes two; leave the two extremes, such as {} and {}, or choose \
                 another kind",
                factor.levels[0],
                factor.levels[count - 1]
            );
            Err(PlanError::new(reason).about(format!("factors.{}", factor::id_of(factor))))
        }
    };
    plan.factors.iter().zip(baseline).map(pair).collect()
}

/// Everything that a combination of levels means.
fn resolve(plan: &Plan, row: &[usize], index: u32) -> Cell {
    let baseline = baseline(plan);
    let level = |at: usize| plan.factors[at].levels[row[at]].clone();
    let mut cell = Cell {
        index,
        levels: plan
            .factors
            .iter()
            .enumerate()
            .map(|(at, f)| (f.name.clone(), level(at)))
            .collect(),
        knobs: plan.knobs.clone(),
        setup: plan.setup.clone(),
        workloads: plan.workloads.clone(),
        companion: None,
        boot: BTreeMap::new(),
        impossible: None,
    };
    let mut order: Vec<usize> = (0..plan.factors.len()).collect();
    order.order_by_key(|at| match &plan.factors[*at].sets {
        FactorKind::Setup { key } => setup::rank(key),
        _ => usize::MAX,
    });
    let varies = |key: &str| {
        plan.factors.iter().any(|f| matches!(&f.sets, FactorKind::Setup { key: k } if k == key))
    };
    let (level_varies, kind_varies) = (varies("array.level"), varies("filesystem.type"));
    let mut is_pruned = false;
    let mut reason = None;
    for at in order {
        let is_layer = matches!(&plan.factors[at].sets, FactorKind::Setup { key } if setup::LAYERS.contains(&key.as_str()));
        if !is_layer && !is_pruned {
            setup::prune(&mut cell.setup, level_varies, kind_varies);
            is_pruned = true;
        }
        let applied =
            factor::apply(&mut cell, &plan.factors[at], &level(at), row[at] == baseline[at]);
        reason = reason.or(applied.err());
    }
    if !is_pruned {
        setup::prune(&mut cell.setup, level_varies, kind_varies);
    }
    cell.workloads.iter_mut().for_each(factor::fill_command);
    if !cell.setup.takes_all_devices() {
        cell.setup.devices.truncate(1);
    }
    cell.impossible = reason.or_else(|| setup::check(&cell.setup).err().map(|fault| fault.reason));
    cell
}

/// Built-in workloads and what was found wrong with their settings: many cells share them.
#[derive(Default)]
struct Workloads {
    built_in: Vec<Workload>,
    checked: Vec<(PlanWorkload, Option<String>)>,
}

impl Workloads {
    /// Why its settings do not fit together; workload files are for whoever can read them.
    fn fault(&mut self, workload: &PlanWorkload) -> Option<String> {
        let name = workload.name.as_deref().filter(|name| !is_file(name))?;
        if let Some((_, fault)) = self.checked.iter().find(|(known, _)| known == workload) {
            return fault.clone();
        }
        if self.built_in.is_empty() {
            self.built_in = builtin::all();
        }
        let base = self.built_in.iter().find(|base| base.name == name).cloned();
        let fault = workload_of(workload, base).err();
        self.checked.push((workload.clone(), fault.clone()));
        fault
    }
}

/// True for the path of a workload file.
pub(crate) fn is_file(name: &str) -> bool {
    name.contains('/') || name.ends_with(".toml")
}
