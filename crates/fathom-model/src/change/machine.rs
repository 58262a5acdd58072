//! What an experiment changed about the machine as a whole, with what is needed to take it back.

use super::FileAt;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum MachineChange {
    /// A swap area was switched off.
    SwapOff {
        /// The file or device, as the kernel names it.
        area: PathBuf,
        /// Its priority; negative ones are given out by the kernel itself.
        priority: i32,
        /// With which word for discarding it was on, such as `discard=once`; none without one, and where nobody knows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        discard: Option<String>,
        /// The area's UUID, by which it is told from another one in its place; none where it has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        uuid: Option<String>,
        /// Where the area is; none in journals of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<FileAt>,
    },
    /// A service was stopped.
    ServiceStopped {
        /// Its name, such as `cron.service`.
        unit: String,
    },
    /// The governor of the processors' frequency was set.
    Governor {
        /// What was set.
        set: String,
        /// The policies, each a group of processors, with the governor that each had.
        before: Vec<(String, String)>,
    },
    /// This process went into a control group that was made to limit its memory.
    MemoryGroup {
        /// The group's directory.
        dir: PathBuf,
        /// The directory of the group that it was in before.
        before: PathBuf,
    },
    /// A program was started, which is to end with the trial: a companion, or an application as the load.
    Program {
        /// What was started, for people.
        command: String,
        /// Its number, and that of its group; 0 before it was started.
        pid: u32,
        /// When it started, in clock ticks since boot; 0 before it was started.
        start_time_ticks: u64,
    },
}

impl MachineChange {
    /// A few words for people.
    #[must_use]
    pub fn summary(&self) -> String {
        match self {
            Self::SwapOff { area, .. } => format!("swap on {} (off)", area.display()),
            Self::ServiceStopped { unit } => format!("service {unit} (stopped)"),
            Self::Governor { set, .. } => format!("processors' governor {set}"),
            Self::MemoryGroup { dir, .. } => format!("control group {}", dir.display()),
            Self::Program { command, .. } => format!("program {command}"),
        }
    }
}
