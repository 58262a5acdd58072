//! Why a setting is not set or not known.

use thiserror::Error;

/// Why not.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KnobError {
    /// No setting of that name.
    #[error("there is no knob '{name}'{hint} (all: fathom knobs)")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The nearest one.
        hint: String,
    },
    /// A value that it cannot have.
    #[error("{knob}{at} cannot be '{value}': {reason}")]
    Value {
        /// The setting.
        knob: String,
        /// ` of sda`, or nothing where no device decides.
        at: String,
        /// The value.
        value: String,
        /// Why, and what it may be.
        reason: String,
    },
    /// fathom does not set it, or nobody can while the kernel runs.
    #[error("{knob} is not set by fathom: {reason}")]
    Refused {
        /// The setting.
        knob: String,
        /// Why, and what to do instead.
        reason: String,
    },
    /// What is asked for contradicts itself, or names what is not meant at all.
    #[error("{knob}: {reason}")]
    Asked {
        /// The setting.
        knob: String,
        /// What is wrong, and what to give instead.
        reason: String,
    },
    /// Nothing here has it.
    #[error("{knob}: {reason}")]
    Nowhere {
        /// The setting.
        knob: String,
        /// What was looked at.
        reason: String,
    },
    /// Reading failed.
    #[error("cannot read {knob} of {place}: {reason}")]
    Read {
        /// The setting.
        knob: String,
        /// Of what.
        place: String,
        /// The kernel's answer.
        reason: String,
    },
    /// Writing failed.
    #[error("cannot set {knob} of {place} to '{value}': {reason}")]
    Write {
        /// The setting.
        knob: String,
        /// Of what.
        place: String,
        /// The value.
        value: String,
        /// The kernel's answer.
        reason: String,
    },
    /// It was written without an error, and is something else.
    #[error(
        "{knob} of {place} was set to '{value}' but reads '{now}': the kernel did not take it, or something else on \
         this machine (udev, tuned) changed it at once"
    )]
    NotTaken {
        /// The setting.
        knob: String,
        /// Of what.
        place: String,
        /// The value.
        value: String,
        /// What it is.
        now: String,
    },
    /// The journal cannot be written: without it nothing is changed; what was changed before is put back all the same.
    #[error("no further setting is changed, because the journal of changes cannot be written: {0}")]
    Journal(String),
}

impl KnobError {
    /// The same with what helps behind the reason of what could not be read, or is not among the values.
    #[must_use]
    pub fn with_cure(mut self, cure: &str) -> Self {
        if let Self::Read { reason, .. } | Self::Value { reason, .. } = &mut self {
            *reason += cure;
        }
        self
    }
}
