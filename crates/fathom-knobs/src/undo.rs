//! Taking changes back.

use crate::apply::{SCHEDULER, follows_scheduler};
use crate::knob::Home;
use crate::legal::matches;
use crate::names;
use crate::oldest;
use crate::own::{self, Wait};
use crate::settle;
use crate::site::{Site, device_at, device_of};
use fathom_guard::changes::{ChangeLog, State, Step};
use fathom_inspect::identity::{DeviceIdKind, device_id};
use fathom_model::change::Change;
use fathom_model::change::knob::{KnobAt, KnobChange, KnobPlace, KnobValue};
use fathom_model::plan::OwnKnob;
use fathom_sys::mounts::{self, Mount};
use fathom_sys::process;
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use std::fmt;

/// What came of taking a change back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undo {
    /// Put back, read again, noted.
    Restored,
    /// It was as before already; noted.
    AlreadyBack,
    /// Some of it was set by somebody else since. Everything else is back; it stays in the journal, with what the oldest change of it
    /// found: this change is struck where that is not its own.
    ChangedBySomebody {
        /// What.
        foreign: Vec<Foreign>,
    },
    /// What it belonged to is not there any more, and its setting with it; noted.
    Gone(String),
    /// It was made where paths meant something else, and is not found here; the change stays in the journal.
    NotHere(String),
    /// The machine was booted since: the kernel began with its own values; noted.
    Rebooted,
    /// It is back, and the journal cannot say so: the change stays there until that can be written. With the reason.
    Unnoted(String),
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
            Self::NotHere(what) => write!(f, "not found here: {what}"),
            Self::Rebooted => {
                f.write_str("nothing to do: the machine was booted since, and the kernel began with its own values")
            }
            Self::Unnoted(reason) => write!(f, "as before, which the journal cannot say: {reason}"),
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
/// are overwritten too. Doing it again does no harm. Commands of the user's own are waited for as `wait` says.
///
/// A change that was only intended may have happened in part: everything noted is then put back.
pub fn undo(
    root: &SysRoot,
    log: &mut ChangeLog,
    step: Step,
    change: &KnobChange,
    force: bool,
    wait: &mut Wait<'_>,
) -> Undo {
    if wait.is_over() {
        // A request that was made before is the reason to put it back; it has ended no more than the command that it came in.
        wait.stop = None;
    }
    let outcome = match &change.own {
        Some(own) => undo_own(root, (log, step), own, change, force, wait),
        None => undo_at(root, log, step, change, force),
    };
    if let Undo::ChangedBySomebody { foreign } = &outcome {
        // Where that cannot be noted, it stays as it was noted.
        oldest::leave_to_older(log, step, foreign).ok();
    }
    if !outcome.is_done() {
        return outcome;
    }
    match log.undone(step) {
        Ok(()) => outcome,
        Err(error) => Undo::Unnoted(error.to_string()),
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
    let mut before: Vec<KnobValue> =
        change.before.iter().filter(|value| is_same_boot || is_kept(value)).cloned().collect();
    if before.is_empty() {
        return if is_same_boot { Undo::AlreadyBack } else { Undo::Rebooted };
    }
    let (site, left_there) = match site_of(root, log, change, &mut before, is_same_boot) {
        Ok(found) => found,
        Err(undo) => return undo,
    };
    if !is_same_boot && is_nameless(root, &site) {
        return Undo::Failed(format!(
            "{} has no identifier that survives a boot, so that nobody can tell whether it is the same device; see to it yourself",
            change.place.name()
        ));
    }
    let foreign = if force { Vec::new() } else { foreign(root, &site, &before, change) };
    let aims = aims(root, &site, &before, &foreign);
    let is_back = settle::are_reached(root, &site, &aims);
    if !is_back {
        // From here on values may be neither, until all are written: whoever comes after this process must know that they are ours. Where that
        // cannot be noted, a kill in between makes them look like somebody's; left as they are they would be wrong for certain.
        let begun = KnobChange { left: left_of(&foreign, &change.left), ..change.clone() };
        log.made(step, Change::Knobs(begun)).ok();
        if let Err(missed) = settle::settle(root, log, &site, &aims) {
            let now = |value: &KnobValue| {
                let value_now = settle::now(root, &site, &value.knob)?;
                Some(KnobValue { value: value_now, ..value.clone() })
            };
            let left = left_since(&before, &foreign, &change.left, now);
            return match note_left(log, step, change, left) {
                Ok(()) => Undo::Failed(missed.join("; ")),
                Err(error) => Undo::Failed(format!("{}; {error}", missed.join("; "))),
            };
        }
    }
    if !foreign.is_empty() && has_lost_its_file(&site) {
        let ids: Vec<&str> = foreign.iter().map(|foreign| foreign.knob.as_str()).collect();
        let (name, ids) = (change.place.name(), ids.join(", "));
        return Undo::Gone(format!("{name} shows no file any more, and {ids} went with it"));
    }
    if !foreign.is_empty() {
        let left = left_since(&before, &foreign, &change.left, |value| Some(value.clone()));
        return match note_left(log, step, change, left) {
            Ok(()) => Undo::ChangedBySomebody { foreign },
            Err(error) => Undo::Failed(error),
        };
    }
    left_there.unwrap_or(if is_back { Undo::AlreadyBack } else { Undo::Restored })
}

/// Where the values are to be written, of which those stay that are there; and what is to be said of the others.
fn site_of(
    root: &SysRoot,
    log: &ChangeLog,
    change: &KnobChange,
    before: &mut Vec<KnobValue>,
    is_same_boot: bool,
) -> Result<(Site, Option<Undo>), Undo> {
    let has_same_paths = log.shares_paths(root);
    let is_kept = |value: &KnobValue| names::all().iter().any(|k| k.id == value.knob && k.is_kept);
    let is_mount = matches!(change.place, KnobPlace::Mount { .. });
    let by_number = || Site::find_by_number(root, &change.at, is_mount);
    let by_number = is_same_boot.then(by_number).flatten();
    // A path of a container's means another device here, or none.
    if let KnobPlace::Mount { device_id, mount_point } = &change.place
        && device_id.starts_with('/')
        && !has_same_paths
        && !log.maker().has_same_root(root)
        && by_number.is_none()
    {
        let what = format!("{device_id} was mounted at {}", mount_point.display());
        return Err(Undo::NotHere(format!("{what}; {}", told(before))));
    }
    let (site, is_its_mount) = match best_site(root, change, by_number, has_same_paths) {
        Ok(found) => found,
        Err(gone) if before.iter().any(is_kept) => {
            return Err(Undo::Failed(format!(
                "{gone}, and what it was set to is kept in it; connect it again"
            )));
        }
        Err(gone) if is_mount && !has_same_paths => {
            return Err(Undo::NotHere(format!("{gone}; {}", told(before))));
        }
        Err(gone) => return Err(out_of_reach(root, change).unwrap_or(Undo::Gone(gone))),
    };
    // What is the mount's own is no other mount's of the same filesystem.
    if is_mount && !is_its_mount {
        let all = std::mem::take(before);
        let (of_mount, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(is_of_mount);
        *before = rest;
        if !of_mount.is_empty()
            && let Some(left) = mount_left(root, log, change, &of_mount)
        {
            return if before.is_empty() { Err(left) } else { Ok((site, Some(left))) };
        }
        if before.is_empty() {
            return Err(Undo::Gone(format!("{} is not mounted any more", change.place.name())));
        }
    }
    Ok((site, None))
}

/// The very place, by its numbers or its names, or else another mount of the same filesystem.
fn best_site(
    root: &SysRoot,
    change: &KnobChange,
    by_number: Option<(Site, bool)>,
    has_same_paths: bool,
) -> Result<(Site, bool), String> {
    let other = match by_number {
        Some((site, true)) => return Ok((site, true)),
        other => other,
    };
    match (other, Site::find_again(root, &change.place, has_same_paths)) {
        (Some(other), Err(_) | Ok((_, false))) => Ok(other),
        // Mounted anew at the same place, with options of its own.
        (_, Ok((site, true))) if site.is_same_mount(&change.at) == Some(false) => Ok((site, false)),
        (_, found) => found,
    }
}

/// What is to be said of a filesystem that no path leads to here, but which is mounted; none when it is not.
fn out_of_reach(root: &SysRoot, change: &KnobChange) -> Option<Undo> {
    let device = device_at(root, &change.at)?;
    let is_it = |other: &BlockDir| other.devno() == device.devno();
    let all = mounts::all_mounts(root);
    let (pid, mount) = all.iter().find(|(_, mount)| device_of(root, mount, &is_it).is_some())?;
    if mounts::own_mounts(root).contains(mount) {
        return Some(hidden(mount));
    }
    let what = format!("it is mounted in a namespace of its own (process {pid})");
    Some(Undo::NotHere(format!("{what}; {}", told(&change.before))))
}

fn hidden(mount: &Mount) -> Undo {
    let point = mount.mount_point.display();
    Undo::Failed(format!("another mount hides the one at {point}; unmount that: fathom restore"))
}

/// What is to be said of values of a mount that is not to be found; none when nobody has them any more.
fn mount_left(
    root: &SysRoot,
    log: &ChangeLog,
    change: &KnobChange,
    of_mount: &[KnobValue],
) -> Option<Undo> {
    let not_here = |what: &str| Some(Undo::NotHere(format!("{what}; {}", told(of_mount))));
    if !log.shares_paths(root) && !log.maker().mounts_are_gone(root) {
        return not_here("it is a mount of a namespace in which processes run");
    }
    let device = device_at(root, &change.at)?;
    let is_it = |other: &BlockDir| other.devno() == device.devno();
    let own = mounts::own_mounts(root);
    let mut hidden_ones = own.iter().zip(mounts::hidden(&own)).filter(|(_, is_hidden)| *is_hidden);
    let very = hidden_ones.find(|(mount, _)| Some(mount.id) == change.at.mount_id);
    let very = very.map(|(mount, _)| mount);
    if let Some(very) = very.filter(|mount| device_of(root, mount, &is_it).is_some()) {
        return Some(hidden(very));
    }
    // A mount that was made of it has what it had.
    let is_left = |site: &Site, value: &KnobValue| {
        let left = change.left.iter().chain(&change.asked).find(|left| left.knob == value.knob);
        let now = settle::now(root, site, &value.knob);
        now.as_ref() != Some(&value.value)
            && left.is_some_and(|left| now.as_ref() == Some(&left.value))
    };
    let heirs = Site::seen_of(root, &is_it);
    let heir = heirs.iter().find(|site| of_mount.iter().any(|value| is_left(site, value)))?;
    let point = &heir.mount()?.mount_point;
    if matches!(&change.place, KnobPlace::Mount { mount_point, .. } if mount_point == point) {
        return not_here("it was mounted anew since, with what fathom had left");
    }
    let point = point.display();
    not_here(&format!(
        "{} is not mounted there any more, and {point} shows the same with what fathom left",
        change.place.name()
    ))
}

/// True for what belongs to a mount, and not to the filesystem with all its mounts.
fn is_of_mount(value: &KnobValue) -> bool {
    names::all().iter().any(|knob| knob.id == value.knob && matches!(knob.home, Home::AccessTime))
}

/// What was before, for those who put it back themselves.
fn told(values: &[KnobValue]) -> String {
    let one = |value: &KnobValue| format!("{} was {}", value.knob, value.value);
    format!("before fathom {}", values.iter().map(one).collect::<Vec<_>>().join(", "))
}

/// True for a loop device that is free again: with its file the kernel has taken some of its settings back.
fn has_lost_its_file(site: &Site) -> bool {
    const LOOP: u32 = 7;
    site.device().is_some_and(|device| {
        device.devno().is_some_and(|devno| devno.major == LOOP)
            && !device.has("loop/backing_file")
            && device.size_bytes() == Some(0)
    })
}

/// True when the device is known by a name that may be another device's in another boot.
fn is_nameless(root: &SysRoot, site: &Site) -> bool {
    let devno = site.device().and_then(BlockDir::devno);
    devno.is_none_or(|devno| device_id(root, devno).kind == DeviceIdKind::NameSizeSequence)
}

/// What was left of foreign values, and what is there now of the others: from now on a change to these is somebody's, too.
fn left_since(
    before: &[KnobValue],
    foreign: &[Foreign],
    left: &[KnobValue],
    now: impl Fn(&KnobValue) -> Option<KnobValue>,
) -> Vec<KnobValue> {
    let back = before.iter().filter(|value| !stays(foreign, &value.knob)).filter_map(now);
    left_of(foreign, left).into_iter().chain(back).collect()
}

fn note_left(
    log: &mut ChangeLog,
    step: Step,
    change: &KnobChange,
    left: Vec<KnobValue>,
) -> Result<(), String> {
    let noted = KnobChange { left, ..change.clone() };
    let is_noted =
        log.entry(step).is_some_and(|entry| entry.change == Change::Knobs(noted.clone()));
    if is_noted {
        return Ok(());
    }
    let made = log.made(step, Change::Knobs(noted));
    made.map_err(|error| format!("the journal cannot be written: {error}"))
}

/// Values that are neither what was left nor what was before. Without a note of what was left, everything is fathom's own, but for
/// what can only be what it was or what was asked.
fn foreign(root: &SysRoot, site: &Site, before: &[KnobValue], change: &KnobChange) -> Vec<Foreign> {
    let mut found: Vec<Foreign> = Vec::new();
    for value in before {
        let of = |values: &[KnobValue]| values.iter().find(|v| v.knob == value.knob).cloned();
        let asked = of(&change.asked);
        let (Some(left), Some(now)) =
            (of(&change.left).or_else(|| asked.clone()), settle::now(root, site, &value.knob))
        else {
            continue;
        };
        let knob = names::all().iter().find(|knob| knob.id == value.knob);
        let is_asked =
            asked.is_some_and(|a| knob.is_some_and(|knob| matches(knob, &a.value, &now)));
        let is_unsure = of(&change.left).is_none();
        let is_ours = now == left.value || (is_unsure && is_asked);
        if !settle::holds(&value.knob, &value.value, Some(&now)) && !is_ours {
            found.push(Foreign {
                knob: value.knob.clone(),
                before: value.value.clone(),
                left: left.value.clone(),
                now,
            });
        }
    }
    // A scheduler of somebody else's brings values of its own with it.
    if found.iter().any(|foreign| foreign.knob == SCHEDULER) {
        found.retain(|foreign| !follows_scheduler(&foreign.knob));
    }
    found
}

/// True for what somebody else has set since, and what came with their scheduler.
pub fn stays(foreign: &[Foreign], id: &str) -> bool {
    let is_foreign = |id: &str| foreign.iter().any(|foreign| foreign.knob == id);
    is_foreign(id) || (is_foreign(SCHEDULER) && follows_scheduler(id))
}

/// What was left of those values that somebody else has set since, and of what came with their scheduler.
fn left_of(foreign: &[Foreign], left: &[KnobValue]) -> Vec<KnobValue> {
    left.iter().filter(|value| stays(foreign, &value.knob)).cloned().collect()
}

/// What is to be reached: what was before, but for what somebody else has set, which stays as it is, also when writing the rest
/// would change it.
fn aims(
    root: &SysRoot,
    site: &Site,
    before: &[KnobValue],
    foreign: &[Foreign],
) -> Vec<settle::Aim> {
    let mut values = Vec::new();
    for value in before {
        if !stays(foreign, &value.knob) {
            values.push(value.clone());
        } else if let Some(now) = settle::now(root, site, &value.knob) {
            values.push(KnobValue { value: now, ..value.clone() });
        }
    }
    settle::aims(&values)
}

fn undo_own(
    root: &SysRoot,
    (log, step): (&ChangeLog, Step),
    own: &OwnKnob,
    change: &KnobChange,
    force: bool,
    wait: &mut Wait<'_>,
) -> Undo {
    let Some(before) = change.before.first() else { return Undo::AlreadyBack };
    if let Err(reason) = end_writers(root, (log, step), own, wait) {
        return Undo::Failed(reason);
    }
    if !log.shares_paths(root) && !log.maker().has_same_root(root) {
        return Undo::NotHere(format!(
            "its commands may do something else here; {}",
            told(&change.before)
        ));
    }
    // A boot may number filesystems anew.
    let is_same_boot = process::boot_id(root).is_none_or(|boot| boot == change.boot_id);
    let noted = change.at.directory_at.clone();
    let at = KnobAt { directory_at: noted.filter(|_| is_same_boot), ..change.at.clone() };
    if let Err(reason) = own::directory(&at) {
        return Undo::NotHere(format!("{reason}; {}", told(&change.before)));
    }
    let now = match own::read(own, &at, wait) {
        Ok(now) => now,
        // With mounts of its own its commands may have met something else there.
        Err(reason) if !log.shares_paths(root) => {
            return Undo::NotHere(format!("{reason}; {}", told(&change.before)));
        }
        // Killed in the middle of the first write: nobody else has set it since. Later somebody may have.
        Err(_) if force || change.left.is_empty() => {
            return write_back((log, step), own, &at, before, wait);
        }
        Err(reason) => {
            let told = told(&change.before);
            return Undo::Failed(format!("{reason}; {told}, and fathom restore --force writes it"));
        }
    };
    if now == before.value {
        return Undo::AlreadyBack;
    }
    // With mounts of its own a command may have read something else there.
    let ours = change.left.first().or(change.asked.first());
    if !log.shares_paths(root) && ours.is_none_or(|ours| ours.value != now) {
        return Undo::NotHere(format!("it is {now} here; {}", told(&change.before)));
    }
    if let Some(left) = change.left.first().filter(|left| left.value != now && !force) {
        // A boot need not reset what a command sets; here it did, for what fathom had left is not there any more.
        let is_other = |boot: String| !change.boot_id.is_empty() && boot != change.boot_id;
        if process::boot_id(root).is_some_and(is_other) {
            return Undo::Rebooted;
        }
        let (knob, before, left) = (before.knob.clone(), before.value.clone(), left.value.clone());
        return Undo::ChangedBySomebody { foreign: vec![Foreign { knob, before, left, now }] };
    }
    write_back((log, step), own, &at, before, wait)
}

/// Ends writes that were begun and of which nobody has noted the end, whoever was killed meanwhile: they would write after the value was read.
fn end_writers(
    root: &SysRoot,
    (log, step): (&ChangeLog, Step),
    own: &OwnKnob,
    wait: &mut Wait<'_>,
) -> Result<(), String> {
    let is_noted = log.entry(step).is_some_and(|entry| entry.state == State::Made);
    let first = (!is_noted).then(|| log.program_mark(step));
    let marks: Vec<String> = first.into_iter().chain([log.undo_mark(step)]).collect();
    own::end_writers(root, own, &marks, wait)
}

/// Writes what was before, and sees that it is there.
fn write_back(
    (log, step): (&ChangeLog, Step),
    own: &OwnKnob,
    at: &KnobAt,
    before: &KnobValue,
    wait: &mut Wait<'_>,
) -> Undo {
    log.fault_point(&format!("before {} is written", before.knob));
    let written = own::write(own, at, &before.value, &log.undo_mark(step), wait);
    log.fault_point(&format!("after {} is written", before.knob));
    match (written, own::read(own, at, wait)) {
        // What counts is what is there, also after a command that was ended.
        (_, Ok(now)) if now == before.value => Undo::Restored,
        (Err(reason), _) | (_, Err(reason)) => {
            Undo::Failed(format!("{reason}; {}", told(std::slice::from_ref(before))))
        }
        (Ok(()), Ok(now)) => {
            Undo::Failed(format!("{} should be '{}' and is '{now}'", before.knob, before.value))
        }
    }
}
