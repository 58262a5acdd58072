//! Taking changes back.

use crate::apply::follows_scheduler;
use crate::names;
use crate::own;
use crate::settle;
use crate::site::Site;
use fathom_guard::changes::{ChangeLog, Step};
use fathom_model::change::Change;
use fathom_model::change::knob::{KnobChange, KnobValue};
use fathom_model::plan::OwnKnob;
use fathom_sys::process;
use fathom_sys::sysroot::SysRoot;
use std::fmt;

/// What came of taking a change back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undo {
    /// Put back, read again, noted.
    Restored,
    /// It was as before already; noted.
    AlreadyBack,
    /// Some of it was set by somebody else since. Everything else is back; the change stays in the journal.
    ChangedBySomebody {
        /// What.
        foreign: Vec<Foreign>,
    },
    /// What it belonged to is not there any more, and its setting with it; noted.
    Gone(String),
    /// The machine was booted since: the kernel began with its own values; noted.
    Rebooted,
    /// It could not be put back, with the reason; the change stays in the journal.
    Failed(String),
}

impl Undo {
    /// True when nothing is left to be done.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Restored | Self::AlreadyBack | Self::Gone(_) | Self::Rebooted)
    }
}

impl fmt::Display for Undo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Restored => f.write_str("restored"),
            Self::AlreadyBack => f.write_str("was as before already"),
            Self::ChangedBySomebody { foreign } => {
                let words: Vec<String> = foreign.iter().map(ToString::to_string).collect();
                write!(f, "not touched, because somebody else has set it since: {}", words.join("; "))
            }
            Self::Gone(what) => write!(f, "nothing to do: {what}"),
            Self::Rebooted => {
                f.write_str("nothing to do: the machine was booted since, and the kernel began with its own values")
            }
            Self::Failed(reason) => write!(f, "not restored: {reason}"),
        }
    }
}

/// A value that is neither what fathom left nor what was before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    /// The knob.
    pub knob: String,
    /// Before fathom.
    pub before: String,
    /// What fathom left.
    pub left: String,
    /// What it is now.
    pub now: String,
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { knob, before, left, now } = self;
        write!(f, "{knob} is '{now}' (fathom left '{left}', before it was '{before}')")
    }
}

/// Takes a change back as far as it is still there, and notes it in the journal. With `force` values that somebody else has set since
/// are overwritten too. Doing it again does no harm.
///
/// A change that was only intended may have happened in part: everything noted is then put back.
pub fn undo(
    root: &SysRoot,
    log: &mut ChangeLog,
    step: Step,
    change: &KnobChange,
    force: bool,
) -> Undo {
    let outcome = match &change.own {
        Some(own) => undo_own(log, own, change, force),
        None => undo_at(root, log, step, change, force),
    };
    if !outcome.is_done() {
        return outcome;
    }
    match log.undone(step) {
        Ok(()) => outcome,
        Err(error) => Undo::Failed(format!("it is back, but the journal cannot say so: {error}")),
    }
}

fn undo_at(
    root: &SysRoot,
    log: &mut ChangeLog,
    step: Step,
    change: &KnobChange,
    force: bool,
) -> Undo {
    let boot = process::boot_id(root);
    let is_same_boot =
        change.boot_id.is_empty() || boot.as_deref() == Some(change.boot_id.as_str());
    let is_kept =
        |value: &&KnobValue| names::all().iter().any(|knob| knob.id == value.knob && knob.is_kept);
    let before: Vec<KnobValue> =
        change.before.iter().filter(|value| is_same_boot || is_kept(value)).cloned().collect();
    if before.is_empty() {
        return if is_same_boot { Undo::AlreadyBack } else { Undo::Rebooted };
    }
    let site = match Site::find(root, &change.place) {
        Ok(site) => site,
        Err(gone) if before.iter().any(|value| is_kept(&value)) => {
            return Undo::Failed(format!(
                "{gone}, and what it was set to is kept in it; connect it again"
            ));
        }
        Err(gone) => return Undo::Gone(gone),
    };
    let foreign = if force { Vec::new() } else { foreign(root, &site, &before, &change.left) };
    let aims = aims(root, &site, &before, &foreign);
    let is_back = settle::are_reached(root, &site, &aims);
    if !is_back {
        // From here on values may be neither, until all are written: whoever comes after this process must know that they are ours.
        let begun = KnobChange { left: left_of(&foreign, &change.left), ..change.clone() };
        if let Err(error) = log.made(step, Change::Knobs(begun)) {
            return Undo::Failed(format!("the journal cannot be written: {error}"));
        }
        if let Err(missed) = settle::settle(root, log, &site, &aims) {
            return Undo::Failed(missed.join("; "));
        }
    }
    if !foreign.is_empty() {
        return Undo::ChangedBySomebody { foreign };
    }
    if is_back { Undo::AlreadyBack } else { Undo::Restored }
}

/// Values that are neither what was left nor what was before. Without a note of what was left, everything is fathom's own.
fn foreign(root: &SysRoot, site: &Site, before: &[KnobValue], left: &[KnobValue]) -> Vec<Foreign> {
    let mut found: Vec<Foreign> = Vec::new();
    for value in before {
        let left = left.iter().find(|left| left.knob == value.knob);
        let (Some(left), Some(now)) = (left, settle::now(root, site, &value.knob)) else {
            continue;
        };
        if !settle::holds(&value.knob, &value.value, Some(&now)) && now != left.value {
            found.push(Foreign {
                knob: value.knob.clone(),
                before: value.value.clone(),
                left: left.value.clone(),
                now,
            });
        }
    }
    // A scheduler of somebody else's brings values of its own with it.
    if found.iter().any(|foreign| foreign.knob == "block.scheduler") {
        found.retain(|foreign| !follows_scheduler(&foreign.knob));
    }
    found
}

/// What was left of those values that somebody else has set since, and of what came with their scheduler.
fn left_of(foreign: &[Foreign], left: &[KnobValue]) -> Vec<KnobValue> {
    let is_foreign = |id: &str| foreign.iter().any(|foreign| foreign.knob == id);
    let other_scheduler = is_foreign("block.scheduler");
    let stays = |value: &&KnobValue| {
        is_foreign(&value.knob) || (other_scheduler && follows_scheduler(&value.knob))
    };
    left.iter().filter(stays).cloned().collect()
}

/// What is to be reached: what was before, but for what somebody else has set, which stays as it is, also when writing the rest
/// would change it.
fn aims(
    root: &SysRoot,
    site: &Site,
    before: &[KnobValue],
    foreign: &[Foreign],
) -> Vec<settle::Aim> {
    let is_foreign = |id: &str| foreign.iter().any(|foreign| foreign.knob == id);
    let other_scheduler = is_foreign("block.scheduler");
    let mut values = Vec::new();
    for value in before {
        let stays = is_foreign(&value.knob) || (other_scheduler && follows_scheduler(&value.knob));
        if !stays {
            values.push(value.clone());
        } else if let Some(now) = settle::now(root, site, &value.knob) {
            values.push(KnobValue { value: now, ..value.clone() });
        }
    }
    settle::aims(&values)
}

fn undo_own(log: &ChangeLog, own: &OwnKnob, change: &KnobChange, force: bool) -> Undo {
    let Some(before) = change.before.first() else { return Undo::AlreadyBack };
    let now = match own::read(own) {
        Ok(now) => now,
        Err(reason) => return Undo::Failed(reason),
    };
    if now == before.value {
        return Undo::AlreadyBack;
    }
    if let Some(left) = change.left.first().filter(|left| left.value != now && !force) {
        let (knob, before, left) = (before.knob.clone(), before.value.clone(), left.value.clone());
        return Undo::ChangedBySomebody { foreign: vec![Foreign { knob, before, left, now }] };
    }
    log.fault_point(&format!("before {} is written", before.knob));
    let written = own::write(own, &before.value);
    log.fault_point(&format!("after {} is written", before.knob));
    match (written, own::read(own)) {
        (Ok(()), Ok(now)) if now == before.value => Undo::Restored,
        (Err(reason), _) | (_, Err(reason)) => Undo::Failed(reason),
        (Ok(()), Ok(now)) => {
            Undo::Failed(format!("{} should be '{}' and is '{now}'", before.knob, before.value))
        }
    }
}
