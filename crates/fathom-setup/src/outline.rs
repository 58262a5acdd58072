//! What would be done, before anything is.

use fathom_model::plan::setup::SetupCapacity;
use std::path::PathBuf;

/// What building would do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outline {
    /// The commands, as they will be run; `UUID` and `ID` stand for what is chosen only then.
    pub commands: Vec<String>,
    /// What is lost.
    pub destroyed: Vec<Destroyed>,
    /// The tools, with their versions.
    pub tools: Vec<ToolFound>,
    /// What each device gives.
    pub capacity: Vec<Capacity>,
    /// About how large the device on top is, in bytes.
    pub usable_bytes: u64,
    /// About what of all devices can be used; none without slices, array and volume.
    pub in_all: Option<SetupCapacity>,
    /// About how much building writes, in bytes.
    pub written_bytes: u64,
    /// About how long the initial synchronisation of the array takes, in nanoseconds; none without one.
    pub sync_ns: Option<u64>,
    /// What a reader of results must know.
    pub facts: Vec<String>,
}

/// A device that is overwritten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destroyed {
    /// As given.
    pub path: PathBuf,
    /// The identifier to consent with.
    pub id: String,
    /// Size and model.
    pub what: String,
    /// Consent was given; without it the setup is refused when it is built.
    pub is_consented: bool,
}

/// A tool that will be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolFound {
    /// Its name.
    pub name: &'static str,
    /// Where it is.
    pub path: PathBuf,
    /// What it says of itself.
    pub version: String,
}

/// What a device gives to the setup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capacity {
    /// The device.
    pub device: String,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Of it used, in bytes: the same of every device in an array.
    pub used_bytes: u64,
    /// Of it not used, because another device is smaller or because it was asked so.
    pub wasted_bytes: u64,
}
