//! Writing values in the right order until all of them hold: one write may change others.

use crate::knob::{Group, Home, Knob, Rounding, Values, order};
use crate::legal::matches;
use crate::names;
use crate::site::{Site, read_spot, write_spot};
use fathom_base::order::Order;
use fathom_guard::changes::ChangeLog;
use fathom_model::change::knob::{KnobPlace, KnobValue};
use fathom_sys::attribute;
use fathom_sys::sysroot::SysRoot;
use std::collections::{BTreeMap, BTreeSet};

/// How often the whole order is gone through: a second time for what the first changed, a third to be sure.
const PASSES: usize = 3;

/// What is known of a setting that was noted, in the table or not.
#[derive(Debug, Clone, Copy)]
pub struct Nature {
    pub order: u16,
    pub values: Values,
    /// A scheduler or a consequence of one.
    pub follows_scheduler: bool,
}

impl Nature {
    pub fn of(id: &str) -> Self {
        match names::all().iter().find(|knob| knob.id == id) {
            Some(knob) => Self {
                order: knob.order,
                values: knob.values,
                follows_scheduler: matches!(knob.home, Home::Scheduler(..))
                    || matches!(knob.order, order::REQUESTS | order::WRITEBACK),
            },
            // A setting of a scheduler that a newer kernel has.
            None => Self {
                order: order::SCHEDULER_OWN,
                values: Values::Number(0, 0),
                follows_scheduler: true,
            },
        }
    }
}

/// What is to be reached.
#[derive(Debug, Clone)]
pub struct Aim {
    pub id: String,
    pub value: String,
    /// False for a value that follows from another one by itself, and is only compared.
    pub is_written: bool,
}

/// True when what is read is the value that is to be reached. A line that cannot be taken away again counts as none when it switches
/// nothing on.
pub fn holds(id: &str, value: &str, now: Option<&str>) -> bool {
    let is_off = || {
        let knob = names::all().iter().find(|knob| knob.id == id);
        knob.is_some_and(|knob| {
            knob.values == Values::Line && matches(knob, value, now.unwrap_or_default())
        })
    };
    now == Some(value) || (value == "none" && is_off())
}

fn is_reached(root: &SysRoot, site: &Site, aim: &Aim) -> bool {
    holds(&aim.id, &aim.value, now(root, site, &aim.id).as_deref())
}

/// True when every aim is reached.
pub fn are_reached(root: &SysRoot, site: &Site, aims: &[Aim]) -> bool {
    aims.iter().all(|aim| is_reached(root, site, aim))
}

/// Reads a setting by its ID; none when the place does not have it now, or it cannot be read.
pub fn now(root: &SysRoot, site: &Site, id: &str) -> Option<String> {
    let spot = site.spot_of(root, id)?;
    read_spot(root, &spot, Nature::of(id).values).ok()
}

/// Writes one value, with the places for tests around it.
///
/// # Errors
/// The kernel's answer, explained.
pub fn write(
    root: &SysRoot,
    log: &ChangeLog,
    site: &Site,
    id: &str,
    value: &str,
) -> Result<(), String> {
    let spot = site.spot_of(root, id).ok_or("it is not there")?;
    log.fault_point(&format!("before {id} is written"));
    let written = write_spot(root, &spot, value).map_err(|error| attribute::explained(&error));
    log.fault_point(&format!("after {id} is written"));
    written
}

/// Writes what differs, in order, until everything is as it should be.
///
/// # Errors
/// Each value that is not, with the reason.
pub fn settle(
    root: &SysRoot,
    log: &ChangeLog,
    site: &Site,
    aims: &[Aim],
) -> Result<(), Vec<String>> {
    let mut aims = aims.to_vec();
    aims.order_by(|a, b| (Nature::of(&a.id).order, &a.id).cmp(&(Nature::of(&b.id).order, &b.id)));
    let mut reasons: BTreeMap<String, String> = BTreeMap::new();
    for _ in 0..PASSES {
        reasons.clear();
        for aim in aims.iter().filter(|aim| aim.is_written) {
            if is_reached(root, site, aim) {
                continue;
            }
            if let Err(reason) = write(root, log, site, &aim.id, &aim.value) {
                reasons.insert(aim.id.clone(), reason);
            }
        }
        if are_reached(root, site, &aims) {
            return Ok(());
        }
    }
    let missed = aims.iter().filter(|aim| !is_reached(root, site, aim)).map(|aim| {
        let now = now(root, site, &aim.id).unwrap_or_else(|| "not there".to_owned());
        let reason = reasons.get(&aim.id).map_or(String::new(), |reason| format!(" ({reason})"));
        format!("{} should be '{}' and is '{now}'{reason}", aim.id, aim.value)
    });
    Err(missed.collect())
}

/// The values as aims. Of two that say the same only one is written: 0 bytes would be refused, and a ratio of 0 for a moment
/// would hold up every writer.
pub fn aims(values: &[KnobValue]) -> Vec<Aim> {
    let value = |id: &str| values.iter().find(|v| v.knob == id).map(|v| v.value.as_str());
    let is_written = |id: &str| match id {
        "vm.dirty_bytes" | "vm.dirty_background_bytes" => value(id) != Some("0"),
        "vm.dirty_ratio" => value("vm.dirty_bytes").is_none_or(|bytes| bytes == "0"),
        "vm.dirty_background_ratio" => {
            value("vm.dirty_background_bytes").is_none_or(|bytes| bytes == "0")
        }
        _ => true,
    };
    let aim = |v: &KnobValue| Aim {
        id: v.knob.clone(),
        value: v.value.clone(),
        is_written: is_written(&v.knob),
    };
    values.iter().map(aim).collect()
}

/// The IDs that are noted together with these: everything that writing them can change.
pub fn noted_ids(root: &SysRoot, site: &Site, ids: &[&str]) -> Vec<String> {
    let knobs: Vec<&Knob> = names::all().iter().filter(|knob| ids.contains(&knob.id)).collect();
    let groups: BTreeSet<Group> = knobs.iter().map(|knob| knob.group).collect();
    let mut noted: BTreeSet<String> = ids.iter().map(|id| (*id).to_owned()).collect();
    for knob in names::all().iter().filter(|knob| knob.is_set() && knob.group != Group::Alone) {
        // What follows the size of memory says nothing a moment later; the shares behind it are noted.
        let is_exact = knob.rounding != Rounding::Share;
        if groups.contains(&knob.group) && is_exact {
            noted.insert(knob.id.to_owned());
        }
    }
    noted.retain(|id| {
        names::all().iter().all(|k| k.id != id.as_str() || k.rounding != Rounding::Share)
    });
    if groups.contains(&Group::Array) {
        noted.insert("block.read_ahead_kb".to_owned());
    }
    if groups.contains(&Group::Queue) {
        noted.extend(scheduler_ids(root, site));
    }
    // The coarse share would be written over the fine one.
    for side in ["max", "min"] {
        if site.spot_of(root, &format!("bdi.{side}_ratio_fine")).is_some() {
            noted.remove(&format!("bdi.{side}_ratio"));
        }
    }
    noted.into_iter().collect()
}

/// Everything that the active scheduler can be set to, known here or not.
fn scheduler_ids(root: &SysRoot, site: &Site) -> Vec<String> {
    let active = site.device().and_then(crate::site::active_scheduler);
    let (Some(device), Some(active)) = (site.device(), active) else { return Vec::new() };
    let names = root.names(device.dir().join("queue/iosched"));
    names.into_iter().map(|name| format!("{active}.{name}")).collect()
}

/// The values of these settings now, in the order of writing; those that are not there are left out.
pub fn values(root: &SysRoot, place: &KnobPlace, site: &Site, ids: &[String]) -> Vec<KnobValue> {
    let mut sorted: Vec<&String> = ids.iter().collect();
    sorted.order_by_key(|id| (Nature::of(id).order, (*id).clone()));
    let value = |id: &&String| {
        let value = now(root, site, id)?;
        let file = match site.spot_of(root, id)? {
            crate::site::Spot::Files(files) => files.first().cloned(),
            crate::site::Spot::Line(file, _) => Some(file),
            _ => None,
        };
        let is_own = matches!(place, KnobPlace::Own { .. });
        (!is_own).then(|| KnobValue { knob: (*id).clone(), value, file })
    };
    sorted.iter().filter_map(value).collect()
}
