//! When which cell is measured: randomised complete blocks, each from the seed and its own number alone.

use fathom_model::plan::Plan;
use fathom_model::plan::PlanWorkload;
use fathom_model::plan::cell::{Cell, Slot};
use std::ops::Range;

/// The order of some blocks. Block k comes out the same whichever blocks are asked for with it.
#[must_use]
pub fn order(plan: &Plan, cells: &[Cell], seed: u64, blocks: Range<u32>) -> Vec<Slot> {
    let _ = (plan, cells, seed, blocks);
    Vec::new()
}

/// The workloads of a cell in a block, with the places that they have in it.
#[must_use]
pub fn workloads_in(plan: &Plan, cell: &Cell, seed: u64, block: u32) -> Vec<PlanWorkload> {
    let _ = (plan, seed, block);
    cell.workloads.clone()
}
