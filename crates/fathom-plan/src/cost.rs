//! What an experiment takes: time and bytes written, against its budget.

use crate::{PlanError, narrow, order};
use fathom_base::units::{format_duration, format_length, format_size};
use fathom_model::plan::Plan;
use fathom_model::plan::cell::Cell;
use fathom_model::plan::setup::SetupSpec;

/// Fewest blocks after which anything can be said.
const BLOCKS_MIN: u32 = 5;

/// Trials of a block for one further level of a narrowing: it, those between which it lies, and the baseline.
pub const FURTHER_TRIALS: u32 = 4;

/// What the machine makes of a cell; whoever knows the machine says so.
pub struct Estimate<'a> {
    /// One trial without building: settings, preparation, settling, lay-out, warm-up, measurement, in nanoseconds.
    pub trial_ns: &'a dyn Fn(&Cell) -> u64,
    /// Building a setup and taking it down again, in nanoseconds.
    pub build_ns: &'a dyn Fn(&SetupSpec) -> u64,
    /// Bytes that one trial writes, with its lay-out.
    pub trial_written_bytes: &'a dyn Fn(&Cell) -> u64,
    /// Bytes that building a setup writes.
    pub build_written_bytes: &'a dyn Fn(&SetupSpec) -> u64,
}

/// What all blocks take at the most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Blocks.
    pub blocks: u32,
    /// Cells that are measured.
    pub cells: u32,
    /// Trials, sentinels included.
    pub trials: u32,
    /// Levels that a narrowing may add to them.
    pub further_levels: u32,
    /// Trials for these, beside the others.
    pub further_trials: u32,
    /// Of the first ones sentinels.
    pub sentinels: u32,
    /// How often a setup is built.
    pub builds: u32,
    /// How often the machine is booted anew.
    pub boots: u32,
    /// Time in nanoseconds, without boots.
    pub time_ns: u64,
    /// Of it, building.
    pub build_ns: u64,
    /// Bytes written to devices.
    pub written_bytes: u64,
    /// Of them, by building.
    pub build_written_bytes: u64,
}

/// Adds up what the experiment takes when all its blocks are measured.
#[must_use]
pub fn cost(plan: &Plan, cells: &[Cell], seed: u64, estimate: &Estimate) -> Cost {
    let possible = cells.iter().filter(|cell| cell.impossible.is_none()).count();
    let mut cost = Cost { blocks: plan.design.blocks, cells: possible as u32, ..Cost::default() };
    // Each cell's own, once: the functions may be slow.
    let trials: Vec<(u64, u64)> = cells
        .iter()
        .map(|cell| ((estimate.trial_ns)(cell), (estimate.trial_written_bytes)(cell)))
        .collect();
    let mut before: Option<&Cell> = None;
    for slot in order(plan, cells, seed, 0..plan.design.blocks) {
        let Some(at) = cells.iter().position(|cell| cell.index == slot.cell) else { continue };
        let cell = &cells[at];
        cost.trials += 1;
        cost.sentinels += u32::from(slot.is_sentinel);
        cost.time_ns = cost.time_ns.saturating_add(trials[at].0);
        cost.written_bytes = cost.written_bytes.saturating_add(trials[at].1);
        cost.boots += u32::from(before.is_some_and(|before| before.boot != cell.boot));
        let is_same = before.is_some_and(|b| b.setup == cell.setup && b.boot == cell.boot);
        if !is_same && !cell.setup.is_empty() {
            cost.builds += 1;
            cost.build_ns = cost.build_ns.saturating_add((estimate.build_ns)(&cell.setup));
            let written = (estimate.build_written_bytes)(&cell.setup);
            cost.build_written_bytes = cost.build_written_bytes.saturating_add(written);
        }
        before = Some(cell);
    }
    cost.add_further(plan, cells, &trials, estimate);
    cost.time_ns = cost.time_ns.saturating_add(cost.build_ns);
    cost.written_bytes = cost.written_bytes.saturating_add(cost.build_written_bytes);
    cost
}

impl Cost {
    /// What further levels of a narrowing take at the most: as long as the longest of the given ones, and each trial builds anew.
    fn add_further(
        &mut self,
        plan: &Plan,
        cells: &[Cell],
        trials: &[(u64, u64)],
        estimate: &Estimate,
    ) {
        self.further_levels = narrow::further_levels(plan);
        self.further_trials =
            self.further_levels.saturating_mul(self.blocks).saturating_mul(FURTHER_TRIALS);
        let add = |to: &mut u64, most: Option<u64>| {
            let all = most.unwrap_or(0).saturating_mul(self.further_trials.into());
            *to = to.saturating_add(all);
        };
        add(&mut self.time_ns, trials.iter().map(|trial| trial.0).max());
        add(&mut self.written_bytes, trials.iter().map(|trial| trial.1).max());
        let setups = || cells.iter().map(|cell| &cell.setup).filter(|setup| !setup.is_empty());
        add(&mut self.build_ns, setups().map(estimate.build_ns).max());
        add(&mut self.build_written_bytes, setups().map(estimate.build_written_bytes).max());
    }

    /// Refuses what is above the budget.
    ///
    /// # Errors
    /// Figures, and what to cut.
    pub fn check(&self, plan: &Plan) -> Result<(), PlanError> {
        let budget = &plan.budget;
        if let Some(most) = budget.time_ns.filter(|most| *most < self.time_ns) {
            let reason = format!(
                "{} take {}, of it {} building; allowed are {}. {}",
                self.trials_text(),
                format_duration(self.time_ns),
                format_duration(self.build_ns),
                format_length(most),
                self.cure(self.time_ns, most, "shorter trials", self.build_ns),
            );
            return Err(PlanError::new(reason).about("budget.time"));
        }
        if let Some(most) = budget.written_bytes.filter(|most| *most < self.written_bytes) {
            let reason = format!(
                "{} write about {}, of it {} by building; allowed are {}. {}",
                self.trials_text(),
                format_size(self.written_bytes),
                format_size(self.build_written_bytes),
                format_size(most),
                self.cure(
                    self.written_bytes,
                    most,
                    "trials that write less",
                    self.build_written_bytes
                ),
            );
            return Err(PlanError::new(reason).about("budget.written"));
        }
        Ok(())
    }

    fn trials_text(&self) -> String {
        let sentinels = match self.sentinels {
            0 => String::new(),
            count => format!(" and {count} sentinels"),
        };
        let further = match self.further_levels {
            0 => String::new(),
            levels => format!(
                " with {levels} further levels ({} trials) at the most",
                self.further_trials
            ),
        };
        format!("{} blocks of {} cells{sentinels}{further}", self.blocks, self.cells)
    }

    /// What would fit: fewer blocks, or what else makes it smaller.
    fn cure(&self, needed: u64, most: u64, shorter: &str, building: u64) -> String {
        let blocks =
            (u128::from(self.blocks) * u128::from(most) / u128::from(needed.max(1))) as u32;
        if blocks >= BLOCKS_MIN {
            return format!("It fits with design.blocks = {blocks}, or raise the budget");
        }
        let mut cures = vec!["fewer levels", shorter];
        if self.further_levels > 0 {
            cures.push("a larger design.narrow_to");
        }
        if self.sentinels > 0 {
            cures.push("design.sentinel = false");
        }
        if building > needed / 2 {
            cures.push("fewer levels of what is built");
        }
        format!(
            "Fewer than {BLOCKS_MIN} blocks would fit, too few to tell anything: take {}, or raise the budget",
            cures.join(", ")
        )
    }
}

#[cfg(test)]
#[path = "cost_tests.rs"]
mod tests;
