//! Does a trial depend on what was measured before it? The order within blocks is by chance, and yet a cell hardly ever follows itself: what
//! harms the trial after it (dirty pages, an emptied cache, a drive that still cleans up) harms all others and makes itself look better.

use super::cells::Values;
use super::values::Trials;
use fathom_model::finding::{Finding, Severity};
use fathom_model::plan::cell::Cell;
use fathom_stats::rank::unpaired::{hodges_lehmann_shift, rank_sum_test};
use std::collections::{BTreeMap, BTreeSet};

/// For all predecessors together: the question is asked of every experiment.
const P_MAX: f64 = 0.01;
/// Fewer trials on a side say nothing.
const TRIALS_MIN: usize = 6;

/// What trials after a cell had in common.
#[derive(Debug, Clone, PartialEq)]
pub struct CarryOver {
    /// The cell before them, as a place among the cells.
    pub after: usize,
    /// Their figure over that of trials after other cells, less what is the cell's or the block's own; as a ratio.
    pub ratio: f64,
    /// How many followed it.
    pub trials: usize,
}

/// The predecessor after which trials differ most surely from those after others, by rank sums at an error divided by the number of
/// predecessors; none where no such difference is shown.
#[must_use]
pub fn study(trials: &Trials<'_>, cells: &[Cell], values: &Values) -> Option<CarryOver> {
    let order = order(trials);
    let place_of = |index: u32| cells.iter().position(|cell| cell.index == index);
    let rests = rests(values);
    // What came right before, with the rest of the trial and its cell.
    let followers: Vec<(usize, usize, f64)> = order
        .windows(2)
        .filter_map(|pair| {
            let [(_, before, _), (block, cell, is_sentinel)] = [pair[0], pair[1]];
            let (before, cell) = (place_of(before)?, place_of(cell)?);
            let rest = rests[cell].get(&block).filter(|_| !is_sentinel)?;
            Some((before, cell, *rest))
        })
        .collect();
    let tested = |after: usize| {
        // A cell itself follows others only, and what is its own is taken out: it says nothing.
        let of = |is_after: bool| -> Vec<f64> {
            let own = followers.iter().filter(|(_, cell, _)| *cell != after);
            own.filter(|(before, ..)| (*before == after) == is_after)
                .map(|(.., rest)| *rest)
                .collect()
        };
        let (others, own) = (of(false), of(true));
        if others.len() < TRIALS_MIN || own.len() < TRIALS_MIN {
            return None;
        }
        let p = rank_sum_test(&others, &own).ok()?.p;
        let shift = hodges_lehmann_shift(&others, &own, 0.95).ok()?;
        Some((p, CarryOver { after, ratio: shift.value.exp(), trials: own.len() }))
    };
    let all: Vec<(f64, CarryOver)> = (0..cells.len()).filter_map(tested).collect();
    let limit = P_MAX / all.len().max(1) as f64;
    let found = all.into_iter().filter(|(p, _)| *p <= limit);
    found.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, found)| found)
}

/// Block, cell and whether it is a sentinel, of all trials in the order in which they were measured, void ones too.
fn order(trials: &Trials<'_>) -> Vec<(u32, u32, bool)> {
    let good = trials.records().iter().filter_map(|record| record.cell.as_ref());
    let slots = good.map(|cell| cell.slot).chain(trials.void.iter().map(|void| void.slot));
    let places: BTreeMap<(u32, u32), (u32, bool)> =
        slots.map(|slot| ((slot.block, slot.place), (slot.cell, slot.is_sentinel))).collect();
    places.into_iter().map(|((block, _), (cell, is_sentinel))| (block, cell, is_sentinel)).collect()
}

/// Logarithms of the values, less the means of their cell and their block.
fn rests(values: &Values) -> Vec<BTreeMap<u32, f64>> {
    let logs: Vec<BTreeMap<u32, f64>> = values
        .iter()
        .map(|own| own.iter().filter(|(_, v)| **v > 0.0).map(|(b, v)| (*b, v.ln())).collect())
        .collect();
    let mean = |all: &mut dyn Iterator<Item = f64>| {
        let (count, sum) = all.fold((0.0, 0.0), |(count, sum), log| (count + 1.0, sum + log));
        sum / f64::max(count, 1.0)
    };
    // First within cells: a block that lacks a fast cell is no slow one.
    let within = |own: &BTreeMap<u32, f64>| -> BTreeMap<u32, f64> {
        let of_cell = mean(&mut own.values().copied());
        own.iter().map(|(block, log)| (*block, log - of_cell)).collect()
    };
    let mut rests: Vec<BTreeMap<u32, f64>> = logs.iter().map(within).collect();
    let blocks: BTreeSet<u32> = rests.iter().flat_map(BTreeMap::keys).copied().collect();
    for block in blocks {
        let of_block = mean(&mut rests.iter().filter_map(|own| own.get(&block).copied()));
        rests.iter_mut().filter_map(|own| own.get_mut(&block)).for_each(|rest| *rest -= of_block);
    }
    rests
}

/// What that means for the answer.
#[must_use]
pub fn finding(found: &CarryOver, cells: &[Cell], margin: f64) -> Option<Finding> {
    let name = cells.get(found.after)?.name();
    let change = 100.0 * (found.ratio - 1.0);
    let text = format!(
        "a trial depends on the one before it: after {name} ({} trials) others came out {change:+.1} % different from what they do after the rest",
        found.trials
    );
    let is_small = found.ratio.ln().abs() <= margin.ln_1p();
    let severity = if is_small { Severity::Note } else { Severity::Doubtful };
    Some(
        Finding::new("carry-over", severity, text)
            .advise("what a cell leaves behind counts for those that follow it, and never for itself: differences between cells are off by about as much")
            .advise("a longer warmup, or a longer [prepare] settle; a setup that is built anew for each trial leaves nothing behind"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::sample::{Sample, noise, record};
    use crate::experiment::study as study_experiment;
    use crate::fixtures;
    use fathom_base::prng::Prng;
    use fathom_model::plan::cell::Slot;

    /// Cells in an order by chance; what follows the second level is slower by `harm`.
    fn said(seed: u64, levels: &[&str], blocks: u32, harm: f64) -> Option<Finding> {
        let mut prng = Prng::new(seed, 0);
        let mut sample = Sample::new(&[("x", levels)], 1, |_, _| 1000.0);
        sample.records.clear();
        let mut before = None;
        for block in 0..blocks {
            let mut order: Vec<usize> = (0..levels.len()).collect();
            order.sort_by_cached_key(|_| (1e9 * fixtures::uniform(&mut prng)) as u64);
            for (place, at) in (0..).zip(order) {
                let cell = sample.cells[at].clone();
                let slot = Slot { block, place, cell: cell.index, is_sentinel: false };
                let factor = if before == Some(1) { 1.0 - harm } else { 1.0 };
                let iops = 1000.0 * (1.0 + 0.1 * at as f64) * factor * noise(&mut prng, 0.02);
                sample.records.push(record(&cell, slot, iops));
                before = Some(at);
            }
        }
        let study = study_experiment(&sample.plan, &sample.cells, &sample.records);
        study.findings.into_iter().find(|found| found.id == "carry-over")
    }

    #[test]
    fn what_harms_the_next_one_is_told() {
        for levels in [&["a", "b", "c"][..], &["a", "b", "c", "d", "e"]] {
            let told = said(7, levels, 16, 0.1).expect("a tenth is far more than the noise");
            assert!(told.summary.contains("after x=b"), "{}", told.summary);
            assert_eq!(told.severity, Severity::Doubtful);
        }
        assert_eq!(said(7, &["a", "b", "c"], 5, 0.1), None, "too few");
    }

    /// Where nothing is carried over: one in a hundred experiments at the most.
    #[test]
    fn noise_is_rarely_taken_for_it() {
        let rounds = 300;
        let false_alarms =
            (0..rounds).filter(|seed| said(100 + seed, &["a", "b", "c"], 12, 0.0).is_some());
        let share = false_alarms.count() as f64 / rounds as f64;
        assert!(share <= 0.01 + 0.017, "{share}");
    }
}
