//! What an experiment would do, before anything is touched, and how the machine was before and after one.

use super::cell::Slot;
use super::setup::SetupCapacity;
use serde::{Deserialize, Serialize};

/// A plan worked out on this machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outline {
    /// The plan's name.
    pub name: String,
    /// Its question.
    pub question: String,
    /// What is measured, as found: the layers of the target, or what will be built.
    pub target: String,
    /// Every cell that is measured.
    pub cells: Vec<CellOutline>,
    /// Every other one.
    #[serde(default)]
    pub impossible: Vec<ImpossibleCell>,
    /// Order of the first block.
    pub first_block: Vec<Slot>,
    /// Blocks at the most.
    pub blocks: u32,
    /// Trials at the most.
    pub trials: u32,
    /// Levels that a narrowing may add to those, at the most.
    #[serde(default)]
    pub further_levels: u32,
    /// Trials for these at the most, beside the others; time and bytes have them in.
    #[serde(default)]
    pub further_trials: u32,
    /// What is done once before the first trial, such as swap that is switched off.
    pub around: Vec<Act>,
    /// What is done before each trial.
    pub before_each: Vec<Act>,
    /// Everything that is destroyed; each with the ID that consents to it.
    pub destroyed: Vec<String>,
    /// What cannot be put back exactly as it was, and why.
    pub unrestorable: Vec<String>,
    /// What is to be known before it is begun, a sentence each: a setting that the loads never meet.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What stands in the way: the experiment would be refused.
    pub refusals: Vec<String>,
    /// Expected time of everything, in nanoseconds.
    pub time_ns: u64,
    /// Time that may be taken.
    pub time_ns_max: Option<u64>,
    /// Bytes that will be written to devices; none when nothing tells beforehand.
    pub written_bytes: Option<u64>,
    /// Test files are made and written full beside that, in the target's directory or in what is built.
    #[serde(default)]
    pub has_test_files: bool,
    /// How large they are all together in the cell that has most of them, in bytes, as far as that is known; in the bytes that will be
    /// written.
    #[serde(default)]
    pub test_file_bytes: u64,
    /// Commands are run: what they write nobody knows, and it is not in the bytes.
    #[serde(default)]
    pub has_commands: bool,
    /// Nobody knows how long some of them take, and that is not in the time.
    #[serde(default)]
    pub has_untimed: bool,
    /// Bytes that may be written.
    pub written_bytes_max: Option<u64>,
    /// What the machine must be booted with, when not all cells can be measured as it is now.
    pub boots: Vec<String>,
    /// In how many boots all blocks are measured, those that are repeated included; none where all are of one.
    #[serde(default)]
    pub boots_in_all: Option<u32>,
}

/// A cell worked out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellOutline {
    /// Its number.
    pub index: u32,
    /// Its levels.
    pub name: String,
    /// Commands that build its setup, as they will be run.
    pub builds: Vec<Act>,
    /// About what of its devices the setup lets one use; none without slices, array and volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<SetupCapacity>,
    /// Settings that are written.
    pub writes: Vec<Write>,
    /// What is issued, one line for each workload.
    pub workloads: Vec<String>,
    /// The load beside it.
    pub companion: Option<String>,
    /// Expected time of one trial.
    pub trial_ns: u64,
}

/// A cell that cannot exist: it is shown as n/a and never measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImpossibleCell {
    /// Its number.
    pub index: u32,
    /// Its levels.
    pub name: String,
    /// Why it cannot.
    pub reason: String,
}

/// Something that is done to the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Act {
    /// A command as it could be typed, or words.
    pub text: String,
    /// The right that it takes, such as `root`; none when everybody may.
    pub privilege: Option<String>,
}

/// A setting that is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    /// The knob.
    pub knob: String,
    /// Of what.
    pub place: String,
    /// As it is now; none when that is not known before the setup is built.
    pub old: Option<String>,
    /// As it will be.
    pub new: String,
    /// The right that it takes, such as `root`; none for a setting of the user's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub privilege: Option<String>,
}

/// How one thing was before and after an experiment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeforeAfter {
    /// What.
    pub what: String,
    /// Before.
    pub before: String,
    /// After.
    pub after: String,
    /// Whether the two are the same, as far as they must be.
    pub is_same: bool,
}
