//! Puts back what an experiment changed, from its journal alone: at its end, and, when it was killed, by whoever comes next.

use crate::experiment::machine;
use fathom_base::order::Order;
use fathom_guard::FileRefusal;
use fathom_guard::changes::{self, ChangeLog, Entry, State, Step};
use fathom_guard::faults::Faults;
use fathom_guard::journal::{self, Owner};
use fathom_knobs::{Undo as KnobUndo, Wait};
use fathom_model::change::Change;
use fathom_model::change::knob::KnobValue;
use fathom_model::change::machine::MachineChange;
use fathom_model::change::setup::SetupChange;
use fathom_setup::Undo as SetupUndo;
use fathom_sys::process::{self, Life};
use fathom_sys::sysroot::SysRoot;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// What helps where somebody else has changed a setting.
pub(crate) const CURE: &str = "to put back what was before fathom: fathom restore --force";

/// Whose it is that nobody here can know anything of.
const OTHER_MACHINE: &str = "on another machine, or on this one when it had another name and before it was booted: left alone";

/// What became of one change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Put back and verified.
    Restored,
    /// It was as before already.
    AlreadyBack,
    /// Somebody else has changed it since: it is left as it is, and stays in the journal.
    ChangedBySomebody(String),
    /// What it belonged to is not there any more, and its setting with it.
    Gone(String),
    /// What it belonged to is away, with what fathom has made of it; it stays in the journal for when that is back.
    Away(String),
    /// It was made in this boot by a fathom of another process namespace, such as a container's, of which nobody can tell here whether it
    /// runs; with what helps. It stays in the journal.
    Elsewhere(String),
    /// It was made on another machine, and is to be put back there; it stays in the journal.
    OtherMachine,
    /// What it was made on is not found here: it is known by paths or names that meant something else where it was made, such as in a
    /// container; with what is known of it. It stays in the journal until that is forgotten.
    NotHere(String),
    /// The machine was booted since, and began with its own values.
    Rebooted,
    /// It is as before, and the journal cannot be written: there it stays until the next start has seen that.
    Unnoted(String),
    /// It could not be put back; it stays in the journal.
    Failed(String),
}

impl Outcome {
    /// True when nothing is left to do about it.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Restored | Self::AlreadyBack | Self::Rebooted)
    }

    /// The word for programs.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Restored => "restored",
            Self::AlreadyBack => "as_before",
            Self::ChangedBySomebody(_) => "changed_by_somebody",
            Self::Gone(_) => "gone",
            Self::Away(_) => "away",
            Self::Elsewhere(_) => "elsewhere",
            Self::OtherMachine => "other_machine",
            Self::NotHere(_) => "not_here",
            Self::Rebooted => "rebooted",
            Self::Unnoted(_) => "unnoted",
            Self::Failed(_) => "failed",
        }
    }

    /// Forgets what is not found here, when its owner was told and says so.
    fn forgotten(self, log: &mut ChangeLog, step: Step) -> Self {
        match self {
            Self::NotHere(reason) => Self::Gone(format!("{reason}; forgotten")).noted(log, step),
            other => other,
        }
    }

    /// Notes in the journal that it is back, where it is.
    pub(crate) fn noted(self, log: &mut ChangeLog, step: Step) -> Self {
        let is_over = self.is_done() || matches!(self, Self::Gone(_));
        match if is_over { log.undone(step) } else { Ok(()) } {
            Ok(()) => self,
            Err(error) => Self::Unnoted(error.to_string()),
        }
    }
}

impl Outcome {
    /// Of a change of so many settings.
    fn of_knobs(undo: KnobUndo, count: usize) -> Self {
        match undo {
            KnobUndo::Restored => Self::Restored,
            KnobUndo::AlreadyBack => Self::AlreadyBack,
            KnobUndo::Gone(what) => Self::Gone(what),
            KnobUndo::NotHere(what) => Self::NotHere(what),
            KnobUndo::Rebooted => Self::Rebooted,
            KnobUndo::Unnoted(reason) => Self::Unnoted(reason),
            KnobUndo::Failed(reason) => Self::Failed(reason),
            KnobUndo::ChangedBySomebody { foreign } => {
                let one = |f: &fathom_knobs::Foreign| {
                    format!(
                        "{} is {} now; fathom left {}, before it was {}",
                        f.knob, f.now, f.left, f.before
                    )
                };
                let found = foreign.iter().map(one).collect::<Vec<_>>().join("; ");
                // What came with somebody's scheduler stays, too.
                let is_scheduler = |f: &fathom_knobs::Foreign| f.knob == "block.scheduler";
                let is_all = foreign.len() >= count || foreign.iter().any(is_scheduler);
                let others = if is_all { "" } else { "its other settings are back; " };
                Self::ChangedBySomebody(format!("{found}; {others}{CURE}"))
            }
        }
    }
}

impl From<SetupUndo> for Outcome {
    fn from(undo: SetupUndo) -> Self {
        match undo {
            SetupUndo::Restored => Self::Restored,
            SetupUndo::AlreadyBack => Self::AlreadyBack,
            // Nothing of somebody's is removed by force.
            SetupUndo::ChangedBySomebody { found } => Self::ChangedBySomebody(format!(
                "{found}; it stays with all that lies below it; when you have removed it: fathom restore"
            )),
            SetupUndo::Gone(what) => Self::Away(what),
            SetupUndo::NotHere(what) => Self::NotHere(what),
            SetupUndo::Rebooted => Self::Rebooted,
            SetupUndo::Unnoted(reason) => Self::Unnoted(reason),
            SetupUndo::Failed(reason) => Self::Failed(reason),
        }
    }
}

/// What was done about one change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The run that made it.
    pub run_id: String,
    /// What was changed.
    pub what: String,
    /// What became of it.
    pub outcome: Outcome,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run_id, what, outcome } = self;
        match outcome {
            Outcome::Restored => write!(f, "{what}: put back, left changed by run {run_id}"),
            Outcome::AlreadyBack => write!(f, "{what}: as it was before"),
            Outcome::ChangedBySomebody(found) => write!(
                f,
                "{what}: left as it is, somebody else has changed it since run {run_id}: {found}"
            ),
            Outcome::Gone(reason) => write!(f, "{what}: {reason}"),
            Outcome::Away(missing) => write!(
                f,
                "{what}: not put back, {missing} is away; when it is there again: fathom restore"
            ),
            Outcome::Elsewhere(whose) => {
                write!(f, "{what}: not put back, changed by run {run_id}, {whose}")
            }
            Outcome::NotHere(reason) => write!(
                f,
                "{what}: not put back, changed by run {run_id}, not found here: {reason}; see to it, then forget it: \
                 fathom restore --force"
            ),
            Outcome::OtherMachine => write!(f, "{what}: changed by run {run_id} {OTHER_MACHINE}"),
            Outcome::Rebooted => {
                write!(f, "{what}: the machine was booted since, which put it back")
            }
            Outcome::Unnoted(reason) => write!(
                f,
                "{what}: as it was before, which the journal of run {run_id} cannot say: {reason}; when it can be written: fathom restore"
            ),
            Outcome::Failed(reason) => write!(f, "{what}: cannot be put back: {reason}"),
        }
    }
}

/// Puts everything back that is pending in a log, newest first, but for what was `tried` just before. With `force` also what somebody else
/// has changed since.
pub(crate) fn restore_log(
    root: &SysRoot,
    log: &mut ChangeLog,
    force: bool,
    tried: &mut BTreeMap<Step, Report>,
    wait: &mut Wait<'_>,
) -> Vec<Report> {
    let is_same_boot = process::boot_id(root).is_none_or(|boot| boot == log.boot_id());
    let mut reports = Vec::new();
    for entry in log.pending() {
        let report = tried
            .remove(&entry.step)
            .unwrap_or_else(|| restore_entry(root, log, &entry, force, is_same_boot, wait));
        if is_told_by_older(log, &entry, &report) {
            continue;
        }
        let state_dir = log.path().parent().and_then(Path::parent);
        if let Some(state_dir) = state_dir.filter(|_| report.outcome.is_done()) {
            forget_files_of(root, state_dir, &entry.change);
        }
        reports.push(report);
    }
    reports
}

/// True for settings that somebody else has changed and of which an older change is still to be taken back, which is the one to be told of.
fn is_told_by_older(log: &ChangeLog, entry: &Entry, report: &Report) -> bool {
    let is_foreign = matches!(report.outcome, Outcome::ChangedBySomebody(_));
    is_foreign && log.entry(entry.step).is_some_and(|entry| entry.state == State::Undone)
}

/// Puts one change back.
pub(crate) fn restore_entry(
    root: &SysRoot,
    log: &mut ChangeLog,
    entry: &Entry,
    force: bool,
    is_same_boot: bool,
    wait: &mut Wait<'_>,
) -> Report {
    let step = entry.step;
    // A later change of the same settings may have left something to this one.
    let entry = log.entry(step).unwrap_or(entry).clone();
    let outcome = match &entry.change {
        Change::Knobs(change) => {
            let undo = fathom_knobs::undo(root, log, step, change, force, wait);
            Outcome::of_knobs(undo, change.before.len())
        }
        Change::Setup(change) => fathom_setup::undo(root, log, step, change, wait.note).into(),
        Change::Machine(change) => machine::undo(root, log, step, change, (force, is_same_boot)),
    };
    Report { run_id: log.run_id().to_owned(), what: words(&entry.change), outcome }
}

/// What was changed, for people: with a scheduler a dozen settings are noted, because writing it changes them.
fn words(change: &Change) -> String {
    match change {
        Change::Knobs(change) if change.before.len() > 3 => {
            format!("settings of {}", change.place.name())
        }
        change => change.summary(),
    }
}

/// Puts back what dead processes left, the newest run first: first the programs that they started are ended, then
/// `remove_files` removes test files, which a program may still have been writing, then what the files lie on is taken down.
/// The caller holds the measuring lock.
pub fn restore_dead(
    root: &SysRoot,
    state_dir: &Path,
    force: bool,
    faults: &Faults,
    remove_files: &mut dyn FnMut(),
    wait: &mut Wait<'_>,
) -> Vec<Report> {
    let logs = match changes::read_all(root, state_dir) {
        Ok(logs) => logs,
        Err(error) => {
            remove_files();
            return vec![unreadable("the journal of changes", error.to_string())];
        }
    };
    let mut reports: Vec<Report> = Vec::new();
    for (path, reason) in logs.unreadable {
        reports.push(unreadable(&format!("the journal {}", path.display()), reason));
    }
    let mut adopted = Vec::new();
    let mut dead = logs.dead;
    for log in logs.others.into_iter().filter(|log| log.owner().life(root) == Life::Unknown) {
        let owner = log.owner();
        if force && owner.has_gone_elsewhere(root) {
            dead.push(log);
        } else {
            reports.extend(left_alone(root, &log));
        }
    }
    // Whoever came last is undone first, wherever it ran.
    dead.order_by(|a, b| a.age_key().cmp(&b.age_key()));
    for mut log in dead.into_iter().rev() {
        // Only what somebody was told before.
        let may_forget = force && log.was_tried_here(root);
        // On a full disk nobody can note who goes on with it; the measuring lock keeps all others off, and each change that cannot be noted as
        // taken back says so itself.
        log.adopt(root, faults.clone()).ok();
        adopted.push((log, may_forget));
    }
    let mut restore_those = |log: &mut (ChangeLog, bool), which: &dyn Fn(&Change) -> bool| {
        let (log, may_forget) = (&mut log.0, log.1);
        let is_same_boot = process::boot_id(root).is_none_or(|boot| boot == log.boot_id());
        for entry in log.pending().iter().filter(|entry| which(&entry.change)) {
            let mut report = restore_entry(root, log, entry, force, is_same_boot, wait);
            if is_told_by_older(log, entry, &report) {
                continue;
            }
            if may_forget {
                report.outcome = report.outcome.forgotten(log, entry.step);
            }
            if report.outcome.is_done() {
                forget_files_of(root, state_dir, &entry.change);
            }
            reports.push(report);
        }
    };
    adopted.iter_mut().for_each(|log| restore_those(log, &is_program));
    remove_files();
    adopted.iter_mut().for_each(|log| restore_those(log, &|change| !is_program(change)));
    for (log, _) in adopted {
        let run_id = log.run_id().to_owned();
        if let Some(damage) = log.damage() {
            let what = format!("the journal {}", log.path().display());
            reports.push(Report { run_id: run_id.clone(), ..unreadable(&what, damage) });
        }
        if let Err(error) = log.close() {
            reports.push(unreadable_of(run_id, &error));
        }
    }
    reports
}

/// What a fathom has changed of which nobody can tell here whether it runs.
fn left_alone(root: &SysRoot, log: &ChangeLog) -> Vec<Report> {
    let outcome = match elsewhere(root, log.owner()) {
        Some(whose) => Outcome::Elsewhere(whose),
        None => Outcome::OtherMachine,
    };
    let run_id = log.run_id();
    let of = |entry: Entry| Report {
        run_id: run_id.to_owned(),
        what: words(&entry.change),
        outcome: outcome.clone(),
    };
    log.pending().into_iter().map(of).collect()
}

/// Whose a log of this boot is that belongs to another process namespace, and what helps; none of those of other machines.
fn elsewhere(root: &SysRoot, owner: &Owner) -> Option<String> {
    if !owner.is_of_this_boot(root) {
        return None;
    }
    let namespace = &owner.pid_namespace;
    Some(match owner.namespace_is_gone(root) {
        Ok(true) => format!(
            "of a container that is gone (no process is left in {namespace}): fathom restore --force puts back what is found here"
        ),
        Ok(false) => format!(
            "of a fathom in another container ({namespace}), in which processes run; when that is gone: fathom restore --force"
        ),
        Err(blind) => format!(
            "of a fathom in another container ({namespace}); whether that is gone cannot be seen here ({blind}); \
             where it can: fathom restore --force"
        ),
    })
}

fn is_program(change: &Change) -> bool {
    matches!(change, Change::Machine(MachineChange::Program { .. }))
}

fn unreadable_of(run_id: String, error: &FileRefusal) -> Report {
    Report { run_id, ..unreadable("the journal of changes", error.to_string()) }
}

fn unreadable(what: &str, reason: String) -> Report {
    Report { run_id: String::new(), what: what.to_owned(), outcome: Outcome::Failed(reason) }
}

/// Test files on a filesystem that fathom had made are gone with it: nobody need look for them any more.
fn forget_files_of(root: &SysRoot, state_dir: &Path, change: &Change) {
    if let Change::Setup(SetupChange::Mount { mount_point, .. }) = change {
        forget_files_at(root, state_dir, mount_point);
    }
}

/// The same of what was mounted there.
pub(crate) fn forget_files_at(root: &SysRoot, state_dir: &Path, mount_point: &Path) {
    let Ok(contents) = journal::read_all(root, state_dir) else { return };
    for record in contents.records {
        if record.entry.path.starts_with(mount_point) {
            record.remove().ok();
        }
    }
}

/// A change that is still to be taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// The run that made it.
    pub run_id: String,
    /// What was changed.
    pub what: String,
    /// Its run goes on: it will put it back itself.
    pub is_running: bool,
    /// Of settings those that are not as before.
    pub settings: Vec<ChangedSetting>,
}

/// A setting that is not as before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedSetting {
    /// Which.
    pub knob: String,
    /// Before.
    pub before: String,
    /// Now; none where it cannot be read here.
    pub now: Option<String>,
    /// One of the user's own: its commands are not run for that.
    pub is_own: bool,
}

impl ChangedSetting {
    fn all_of(root: &SysRoot, change: &Change) -> Vec<Self> {
        let Change::Knobs(change) = change else { return Vec::new() };
        let now = |value: &KnobValue| match change.own {
            Some(_) => None,
            None => fathom_knobs::read(root, &change.place, &value.knob).ok(),
        };
        let of = |value: &KnobValue| Self {
            knob: value.knob.clone(),
            before: value.value.clone(),
            now: now(value),
            is_own: change.own.is_some(),
        };
        let all = change.before.iter().map(of);
        all.filter(|setting| setting.now.as_ref() != Some(&setting.before)).collect()
    }
}

/// All changes that are still to be taken back.
///
/// # Errors
/// When the journal cannot be read.
pub fn pending(root: &SysRoot, state_dir: &Path) -> Result<Vec<Pending>, FileRefusal> {
    let logs = changes::look(root, state_dir)?;
    let of = |log: &ChangeLog, is_running: bool| {
        let run_id = log.run_id().to_owned();
        let one = move |entry: Entry| Pending {
            run_id: run_id.clone(),
            what: words(&entry.change),
            is_running,
            settings: ChangedSetting::all_of(root, &entry.change),
        };
        let damaged = log.damage().map(|damage| Pending {
            run_id: log.run_id().to_owned(),
            what: format!("the journal {}: {damage}", log.path().display()),
            is_running,
            settings: Vec::new(),
        });
        log.pending().into_iter().map(one).chain(damaged).collect::<Vec<_>>()
    };
    let mut all: Vec<Pending> = logs.dead.iter().flat_map(|log| of(log, false)).collect();
    for log in &logs.others {
        let is_running = log.owner().life(root) == Life::Alive;
        let whose = elsewhere(root, log.owner()).unwrap_or_else(|| OTHER_MACHINE.to_owned());
        let told = of(log, is_running).into_iter().map(|mut pending| {
            if !is_running {
                pending.what += &format!("; {whose}");
            }
            pending
        });
        all.extend(told);
    }
    // What is in them nobody knows: it may be in force.
    all.extend(logs.unreadable.into_iter().map(|(path, reason)| Pending {
        run_id: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        what: format!("the journal {}: {reason}", path.display()),
        is_running: false,
        settings: Vec::new(),
    }));
    Ok(all)
}

/// How many are back, in one line.
#[must_use]
pub fn summary(reports: &[Report]) -> String {
    let is_unnoted = |report: &&Report| matches!(report.outcome, Outcome::Unnoted(_));
    let unnoted = reports.iter().filter(is_unnoted).count();
    let done = reports.iter().filter(|report| report.outcome.is_done()).count() + unnoted;
    // Nobody knows how many changes stand in a journal that is not read.
    let journals = reports.iter().filter(|report| report.run_id.is_empty()).count();
    let changes = match (done, reports.len() - journals) {
        (0, 0) if journals > 0 => "nothing was put back".to_owned(),
        (0, 0) => "nothing was left changed".to_owned(),
        (1, 1) => "1 change is back as before".to_owned(),
        (done, all) if done == all => format!("{all} changes are back as before"),
        (done, all) => format!("{done} of {all} changes are back as before"),
    };
    let changes = match unnoted {
        0 => changes,
        count => format!("{changes}, which the journal cannot say of {count}"),
    };
    match journals {
        0 => changes,
        1 => format!("{changes}; what 1 journal says is not done"),
        more => format!("{changes}; what {more} journals say is not done"),
    }
}

#[cfg(test)]
#[path = "restore_tests.rs"]
mod tests;
