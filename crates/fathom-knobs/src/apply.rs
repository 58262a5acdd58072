//! Changing settings so that they can always be put back.

use crate::error::KnobError;
use crate::knob::{Group, Knob, Rounding};
use crate::legal::{check_access, matches};
use crate::names;
use crate::own::{self, Wait};
use crate::resolve::Setting;
use crate::settle::{self, Nature};
use crate::site::Site;
use fathom_base::order::Order;
use fathom_guard::changes::{ChangeLog, Step};
use fathom_model::change::Change;
use fathom_model::change::knob::{KnobChange, KnobPlace, KnobValue};
use fathom_model::plan::OwnKnob;
use fathom_sys::process;
use fathom_sys::sysroot::SysRoot;

/// What a limit raises and nobody asked for.
const READ_AHEAD: &str = "block.read_ahead_kb";
/// Only a write to itself changes it.
pub const SCHEDULER: &str = "block.scheduler";

/// A setting that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The knob.
    pub knob: String,
    /// Of what.
    pub place: KnobPlace,
    /// What was asked for.
    pub asked: String,
    /// What it was before; none for one that came with a new scheduler.
    pub before: Option<String>,
    /// What it reads now.
    pub now: String,
    /// What is to be known about it: rounding, and other settings that changed with it.
    pub note: Option<String>,
}

/// Notes in the journal everything that the writes can change, writes what differs, in the order that the kernel's couplings
/// demand, reads back, compares, and notes what it left. The read-ahead, which every write to a limit raises, is put back when it is not
/// among the settings. Commands of the user's own are waited for as `wait` says.
///
/// # Errors
/// [`KnobError`]; what was written until then is in the journal and is taken back with [`crate::undo`].
pub fn apply(
    root: &SysRoot,
    log: &mut ChangeLog,
    settings: &[Setting],
    own: &[OwnKnob],
    wait: &mut Wait<'_>,
) -> Result<Vec<Applied>, KnobError> {
    let mut applied = Vec::new();
    let mut places: Vec<&KnobPlace> = Vec::new();
    for setting in settings {
        if !places.contains(&&setting.place) {
            places.push(&setting.place);
        }
    }
    for place in places {
        let here: Vec<&Setting> =
            settings.iter().filter(|setting| setting.place == *place).collect();
        if let KnobPlace::Own { name } = place {
            for setting in here {
                applied.push(apply_own(root, log, (setting, name), own, wait)?);
            }
        } else {
            applied.extend(apply_at(root, log, place, &here)?);
        }
    }
    Ok(applied)
}

/// A setting with what the table says of it.
type Asked<'a> = (&'static Knob, &'a Setting);

fn apply_at(
    root: &SysRoot,
    log: &mut ChangeLog,
    place: &KnobPlace,
    settings: &[&Setting],
) -> Result<Vec<Applied>, KnobError> {
    let mut asked: Vec<Asked<'_>> = Vec::new();
    for setting in settings {
        let knob = names::find(&setting.knob)?;
        check_access(knob)?;
        asked.push((knob, setting));
    }
    asked.order_by_key(|(knob, _)| (knob.order, knob.id));
    let site = Site::find(root, place)
        .map_err(|reason| KnobError::Nowhere { knob: asked[0].0.id.to_owned(), reason })?;
    let ids: Vec<&str> = asked.iter().map(|(knob, _)| knob.id).collect();
    let noted = settle::noted_ids(root, &site, &ids);
    let before = settle::values(root, place, &site, &noted);
    let read = |id: &str| settle::now(root, &site, id);
    let first: Vec<Option<String>> = ids.iter().map(|id| read(id)).collect();
    let is_done = |(knob, setting): &Asked<'_>| {
        read(knob.id).is_some_and(|now| matches(knob, &setting.value, &now))
    };
    if asked.iter().all(is_done) {
        let report = |((knob, setting), before)| applied(&read, knob, setting, before, None);
        return Ok(asked.iter().copied().zip(first).map(report).collect());
    }
    let mut change = KnobChange {
        place: place.clone(),
        before: before.clone(),
        left: Vec::new(),
        asked: asked.iter().filter_map(value_alone).collect(),
        boot_id: process::boot_id(root).unwrap_or_default(),
        own: None,
        at: site.at(),
    };
    let step = intend(log, &change)?;
    let written = write_all(root, log, &site, &asked, &before);
    change.left = settle::values(root, place, &site, &noted);
    let left = change.left.clone();
    log.made(step, Change::Knobs(change)).map_err(journal)?;
    written.map_err(|(knob, value, reason)| KnobError::Write {
        knob,
        place: place.name(),
        value,
        reason,
    })?;
    let mut side = side_effects(&ids, &before, &left);
    let mut all = Vec::new();
    for ((knob, setting), before) in asked.iter().zip(first) {
        let one = applied(&read, knob, setting, before, side.take());
        if !matches(knob, &setting.value, &one.now) {
            return Err(KnobError::NotTaken {
                knob: one.knob,
                place: place.name(),
                value: setting.value.clone(),
                now: one.now,
            });
        }
        all.push(one);
    }
    Ok(all)
}

/// What is asked of a setting that no write to another one changes.
fn value_alone((knob, setting): &Asked<'_>) -> Option<KnobValue> {
    let (knob, value) = (*knob, setting.value.clone());
    let follows = follows_scheduler(knob.id) || knob.id == READ_AHEAD;
    let is_alone = matches!(knob.group, Group::Alone | Group::Queue) && !follows;
    is_alone.then(|| KnobValue { knob: knob.id.to_owned(), value, file: None })
}

fn intend(log: &mut ChangeLog, change: &KnobChange) -> Result<Step, KnobError> {
    log.intend(Change::Knobs(change.clone())).map_err(journal)
}

fn journal(error: impl std::fmt::Display) -> KnobError {
    KnobError::Journal(error.to_string())
}

/// Writes in order, and once more what a later write changed again.
fn write_all(
    root: &SysRoot,
    log: &ChangeLog,
    site: &Site,
    asked: &[Asked<'_>],
    before: &[KnobValue],
) -> Result<(), (String, String, String)> {
    for pass in 0..2 {
        for (knob, setting) in asked {
            let now = settle::now(root, site, knob.id);
            if now.is_some_and(|now| matches(knob, &setting.value, &now)) {
                continue;
            }
            let written = settle::write(root, log, site, knob.id, &setting.value);
            // What is refused now may be taken when the others are there: a least value above the largest.
            if let (Err(reason), 1) = (written, pass) {
                return Err((knob.id.to_owned(), setting.value.clone(), reason));
            }
        }
    }
    let is_asked = asked.iter().any(|(knob, _)| knob.id == READ_AHEAD);
    let old = before.iter().find(|value| value.knob == READ_AHEAD).filter(|_| !is_asked);
    match old {
        Some(old) if settle::now(root, site, READ_AHEAD).as_ref() != Some(&old.value) => {
            settle::write(root, log, site, READ_AHEAD, &old.value)
                .map_err(|reason| (READ_AHEAD.to_owned(), old.value.clone(), reason))
        }
        _ => Ok(()),
    }
}

fn applied(
    read: &dyn Fn(&str) -> Option<String>,
    knob: &Knob,
    setting: &Setting,
    before: Option<String>,
    side: Option<String>,
) -> Applied {
    let now = read(knob.id).unwrap_or_else(|| "not there".to_owned());
    let rounded = (now != setting.value && matches(knob, &setting.value, &now)).then(|| match knob
        .rounding
    {
        Rounding::Stands => format!("{} stands for {now}", setting.value),
        Rounding::Adds => format!("the kernel says {now}"),
        _ => format!("the kernel rounds {} to {now}", setting.value),
    });
    let notes: Vec<String> = rounded.into_iter().chain(side).collect();
    Applied {
        knob: knob.id.to_owned(),
        place: setting.place.clone(),
        asked: setting.value.clone(),
        before,
        now,
        note: (!notes.is_empty()).then(|| notes.join("; ")),
    }
}

/// What changed though nobody asked for it, in words.
fn side_effects(asked: &[&str], before: &[KnobValue], left: &[KnobValue]) -> Option<String> {
    let changed = before.iter().filter(|value| !asked.contains(&value.knob.as_str()));
    let changed = changed.filter_map(|old| {
        let new = left.iter().find(|new| new.knob == old.knob)?;
        (new.value != old.value).then(|| format!("{} {} -> {}", old.knob, old.value, new.value))
    });
    let words: Vec<String> = changed.collect();
    (!words.is_empty()).then(|| format!("with it the kernel changed {}", words.join(", ")))
}

fn apply_own(
    root: &SysRoot,
    log: &mut ChangeLog,
    (setting, name): (&Setting, &str),
    own: &[OwnKnob],
    wait: &mut Wait<'_>,
) -> Result<Applied, KnobError> {
    let id = setting.knob.clone();
    let known = own.iter().find(|own| own.name == name);
    let own = known.ok_or_else(|| KnobError::Unknown { name: id.clone(), hint: String::new() })?;
    let failed = |reason| KnobError::Read { knob: id.clone(), place: setting.place.name(), reason };
    let at = own::here(root, own);
    let before = own::read(own, &at, wait).map_err(failed)?;
    let report = |now: String| Applied {
        knob: id.clone(),
        place: setting.place.clone(),
        asked: setting.value.clone(),
        before: Some(before.clone()),
        now,
        note: None,
    };
    if before == setting.value {
        return Ok(report(before.clone()));
    }
    let value = |value: &str| KnobValue { knob: id.clone(), value: value.to_owned(), file: None };
    let mut change = KnobChange {
        place: setting.place.clone(),
        before: vec![value(&before)],
        left: Vec::new(),
        // What a command makes of a value is not known before.
        asked: Vec::new(),
        boot_id: process::boot_id(root).unwrap_or_default(),
        own: Some(own.clone()),
        at: at.clone(),
    };
    let step = intend(log, &change)?;
    log.fault_point(&format!("before {id} is written"));
    let mark = log.program_mark(step);
    let written = own::write(own, &at, &setting.value, &mark, wait);
    log.fault_point(&format!("after {id} is written"));
    let now = own::read(own, &at, wait);
    let is_taken = written.is_ok() && now.as_ref() == Ok(&setting.value);
    // What was taken may be a daemon's work, which lives on. What was not may be set yet by what the command has started, when it was put
    // back already.
    let (is_over, left) = match is_taken {
        true => (true, now.clone()),
        false => {
            let is_over = own::end_writers(root, own, &[mark], wait).is_ok();
            (is_over, own::read(own, &at, wait))
        }
    };
    change.left = left.iter().map(|left| value(left)).collect();
    // Where something of it could not be ended, it is not over: whoever takes it back looks for that first.
    if is_over {
        log.made(step, Change::Knobs(change)).map_err(journal)?;
    }
    let refused = |reason: String| KnobError::Write {
        knob: id.clone(),
        place: setting.place.name(),
        value: setting.value.clone(),
        reason,
    };
    written.map_err(refused)?;
    let now = now.map_err(failed)?;
    if now != setting.value {
        return Err(refused(format!(
            "the plan's own write command ended without an error, but the read command prints '{now}'"
        )));
    }
    Ok(report(now))
}

/// True when writing a setting changes what a scheduler decides.
pub fn follows_scheduler(id: &str) -> bool {
    Nature::of(id).follows_scheduler
}
