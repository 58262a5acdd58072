//! Cells and trials of an experiment.

use super::PlanWorkload;
use super::setup::{SetupCapacity, SetupSpec};
use crate::change::knob::KnobPlace;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One combination of levels, with everything it means resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Number, from 0, in the order of the design.
    pub index: u32,
    /// The level of each factor, in the order of the factors.
    pub levels: Vec<(String, String)>,
    /// Knobs with their values, constant ones included.
    pub knobs: BTreeMap<String, String>,
    /// What is built.
    pub setup: SetupSpec,
    /// What is issued.
    pub workloads: Vec<PlanWorkload>,
    /// The load beside it; none for no companion.
    pub companion: Option<String>,
    /// What the machine must have been booted with, by parameter.
    pub boot: BTreeMap<String, String>,
    /// Why this combination cannot exist: it is shown as n/a and never measured; none for cells that can.
    #[serde(default)]
    pub impossible: Option<String>,
}

impl Cell {
    /// The levels as one line: `scheduler=none nr_requests=64`; `baseline` without factors.
    #[must_use]
    pub fn name(&self) -> String {
        let words: Vec<String> = self.levels.iter().map(|(f, l)| format!("{f}={l}")).collect();
        if words.is_empty() { "baseline".to_owned() } else { words.join(" ") }
    }
}

/// One place in the order of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// Block, from 0.
    pub block: u32,
    /// Place in the block, from 0.
    pub place: u32,
    /// The cell.
    pub cell: u32,
    /// A repetition of the baseline that only shows drift.
    pub is_sentinel: bool,
}

/// What a record of an experiment says about its trial: which cell, and how the machine was set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellRecord {
    /// Where in the order.
    pub slot: Slot,
    /// Levels, as in [`Cell::levels`].
    pub levels: Vec<(String, String)>,
    /// Which workload of the trial, by label, when they ran one after the other.
    pub workload: String,
    /// Every knob of the cell as it was read before and after the measurement.
    pub knobs: Vec<KnobReading>,
    /// What the setup came to: the commands that were run, and facts read back.
    pub setup: Vec<String>,
    /// What of that is otherwise than one would expect; empty of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// What of its devices the setup lets one use, as the kernel has it; none without slices, array and volume, and of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<SetupCapacity>,
    /// Why the trial does not count; none when it does.
    pub void: Option<String>,
    /// How long apply, build, prepare and settle took, in nanoseconds.
    pub prepare_ns: u64,
    /// The boot of the machine in which it was made, as the kernel names it; none where nobody can tell, and of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// Figures of an application, by name.
    #[serde(default)]
    pub application: BTreeMap<String, f64>,
    /// The end of what an application printed; empty without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
    /// A phase before the last one of a file server: raw data. The trial and its figures are with the last.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_part: bool,
}

/// One knob around one measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnobReading {
    /// The knob.
    pub knob: String,
    /// Of what.
    pub place: KnobPlace,
    /// What was asked for.
    pub asked: String,
    /// What the machine had before it was set; none when it could not be read, and of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// What was read before; none when it could not be.
    pub before: Option<String>,
    /// What was read after.
    pub after: Option<String>,
}
