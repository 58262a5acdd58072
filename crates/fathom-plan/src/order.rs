//! When which cell is measured: randomised complete blocks, each from the seed and its own number alone.
//!
//! A block has every cell that can exist once, in random order. Cells that need another boot stand together, and boots
//! alternate (A B, B A, A B, ...), so that two blocks in a row share one. With `groups_setups` the cells of one setup stand
//! together within a block (a split plot), groups and cells in random order. The sentinel is the baseline, at the start,
//! the middle and the end of every block; where boots differ, of the cells of each boot.

use crate::cells::baseline;
use fathom_base::prng::Prng;
use fathom_model::plan::cell::{Cell, Slot};
use fathom_model::plan::{Plan, PlanWorkload};
use std::ops::Range;

/// Streams of the seed: blocks have their own numbers, from 0.
const BOOT_STREAM: u64 = u64::MAX;
const PLACE_STREAM: u64 = 1 << 63;

/// The keys of a workload that say where it goes.
const PLACE_KEYS: [&str; 2] = ["offset", "span"];

/// The order of some blocks. Block k comes out the same whichever blocks are asked for with it.
#[must_use]
pub fn order(plan: &Plan, cells: &[Cell], seed: u64, blocks: Range<u32>) -> Vec<Slot> {
    let possible: Vec<&Cell> = cells.iter().filter(|cell| cell.impossible.is_none()).collect();
    let boots = boots(&possible, seed);
    let block = |block: u32| {
        let mut prng = Prng::new(seed, u64::from(block));
        let mut visits = Vec::new();
        let turn = |at: usize| if block.is_multiple_of(2) { at } else { boots.len() - 1 - at };
        for of_boot in (0..boots.len()).map(|at| &boots[turn(at)]) {
            visits.extend(with_sentinels(plan, of_boot, &shuffled(plan, of_boot, &mut prng)));
        }
        let slot = move |(place, (cell, is_sentinel)): (usize, (u32, bool))| Slot {
            block,
            place: place as u32,
            cell,
            is_sentinel,
        };
        visits.into_iter().enumerate().map(slot).collect::<Vec<_>>()
    };
    blocks.flat_map(block).collect()
}

/// Cells by boot, boots in the random order of even blocks.
fn boots<'a>(cells: &[&'a Cell], seed: u64) -> Vec<Vec<&'a Cell>> {
    let mut boots: Vec<Vec<&Cell>> = Vec::new();
    for cell in cells {
        match boots.iter_mut().find(|group| group[0].boot == cell.boot) {
            Some(group) => group.push(cell),
            None => boots.push(vec![cell]),
        }
    }
    shuffle(&mut boots, &mut Prng::new(seed, BOOT_STREAM));
    boots
}

/// The cells in random order, as groups that stand together: of one setup, or each for itself.
fn shuffled<'a>(plan: &Plan, cells: &[&'a Cell], prng: &mut Prng) -> Vec<Vec<&'a Cell>> {
    let mut groups: Vec<Vec<&Cell>> = Vec::new();
    for cell in cells {
        let joins =
            |group: &&mut Vec<&Cell>| plan.design.groups_setups && group[0].setup == cell.setup;
        match groups.iter_mut().find(joins) {
            Some(group) => group.push(cell),
            None => groups.push(vec![cell]),
        }
    }
    shuffle(&mut groups, prng);
    groups.iter_mut().for_each(|group| shuffle(group, prng));
    groups
}

fn shuffle<T>(items: &mut [T], prng: &mut Prng) {
    for last in (1..items.len()).rev() {
        items.swap(last, prng.below(last as u64 + 1) as usize);
    }
}

/// Cells and sentinels one after the other; the one in the middle stands where no group is torn apart.
fn with_sentinels(plan: &Plan, cells: &[&Cell], groups: &[Vec<&Cell>]) -> Vec<(u32, bool)> {
    let sentinel = sentinel(plan, cells).filter(|_| plan.design.has_sentinel);
    let before = |group: usize| groups[..group].iter().map(Vec::len).sum::<usize>();
    let middle = (1..groups.len()).min_by_key(|group| before(*group).abs_diff(cells.len() / 2));
    let mut visits = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        if at == 0 || Some(at) == middle {
            visits.extend(sentinel.map(|cell| (cell, true)));
        }
        visits.extend(group.iter().map(|cell| (cell.index, false)));
    }
    visits.extend(sentinel.map(|cell| (cell, true)));
    visits
}

/// The baseline, or with another boot than its the cell that is like it otherwise.
fn sentinel(plan: &Plan, cells: &[&Cell]) -> Option<u32> {
    let places = baseline(plan);
    let wanted: Vec<(&str, &str)> = plan
        .factors
        .iter()
        .zip(&places)
        .filter(|(factor, _)| !matches!(factor.sets, fathom_model::plan::FactorKind::Boot { .. }))
        .map(|(factor, place)| (factor.name.as_str(), factor.levels[*place].as_str()))
        .collect();
    let is_reference = |cell: &&&Cell| {
        wanted.iter().all(|(name, level)| cell.levels.iter().any(|(n, l)| n == name && l == level))
    };
    cells.iter().find(is_reference).map(|cell| cell.index)
}

/// The workloads of a cell in a block, with the places (target, offset, span) that they have in it: where these rotate, the
/// blocks of each run of as many blocks as there are workloads make a Latin square, with its rows in random order.
#[must_use]
pub fn workloads_in(plan: &Plan, cell: &Cell, seed: u64, block: u32) -> Vec<PlanWorkload> {
    let mut workloads = cell.workloads.clone();
    let count = workloads.len();
    if !plan.design.rotates_places || count < 2 {
        return workloads;
    }
    let square = u64::from(block) / count as u64;
    let mut rows: Vec<usize> = (0..count).collect();
    shuffle(&mut rows, &mut Prng::new(seed, PLACE_STREAM + square));
    let by = rows[block as usize % count];
    for (index, workload) in workloads.iter_mut().enumerate() {
        let from = &cell.workloads[(index + by) % count];
        workload.target.clone_from(&from.target);
        for key in PLACE_KEYS {
            workload.settings.remove(key);
            if let Some(value) = from.settings.get(key) {
                workload.settings.insert(key.to_owned(), value.clone());
            }
        }
    }
    workloads
}

#[cfg(test)]
#[path = "order_tests.rs"]
mod tests;
