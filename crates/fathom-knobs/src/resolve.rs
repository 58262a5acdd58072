//! From the words of a plan to settings of places.

use crate::error::KnobError;
use crate::knob::{Home, Knob, Values};
use crate::legal::{self, check_access, check_at};
use crate::names;
use crate::scope::{Scope, ScopeDevice, ScopeMount};
use crate::site;
use fathom_base::order::Order;
use fathom_base::suggest;
use fathom_model::change::knob::KnobPlace;
use fathom_sys::sysroot::SysRoot;
use std::collections::BTreeMap;

/// One setting of one place, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Identifier of the knob; `own.NAME` for those of the user's own.
    pub knob: String,
    /// Of what.
    pub place: KnobPlace,
    /// The value, as it is written.
    pub value: String,
}

/// How narrowly a key names its places; narrower ones win.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Narrow {
    All,
    Role,
    Name,
}

/// A key of a plan, understood.
struct Wish<'a> {
    knob: &'static Knob,
    narrow: Narrow,
    places: Vec<KnobPlace>,
    key: &'a str,
    value: String,
}

/// Settings of all places that the knobs have in the stack, checked against what these accept, in the order of writing. `KNOB@sda`
/// means one device, `KNOB@top` the uppermost, `KNOB@members` the disks; the narrowest key wins.
///
/// # Errors
/// [`KnobError`] for a knob that is not known, not set by fathom, or that nothing in the stack has, and for values outside
/// of what the place accepts.
pub fn resolve(
    root: &SysRoot,
    scope: &Scope<'_>,
    knobs: &BTreeMap<String, String>,
) -> Result<Vec<Setting>, KnobError> {
    let mut wishes = Vec::new();
    let mut own = Vec::new();
    for (key, value) in knobs {
        match key.strip_prefix("own.") {
            Some(name) => own.push(own_setting(scope, name, value)?),
            None => wishes.push(understood(scope, key, value)?),
        }
    }
    // Schedulers first: they decide which of the others are there.
    wishes.order_by_key(|wish| (wish.knob.order, wish.narrow));
    let mut made: BTreeMap<(KnobPlace, &str), (Narrow, &str, String)> = BTreeMap::new();
    for wish in &wishes {
        let schedulers = |place: &KnobPlace| {
            made.get(&(place.clone(), "block.scheduler")).map(|(.., value)| value.clone())
        };
        let places = having(root, scope, wish, &schedulers)?;
        for place in places {
            let entry = (wish.narrow, wish.key, wish.value.clone());
            let before = made.insert((place.clone(), wish.knob.id), entry);
            if let Some((_, other, _)) = before.filter(|(narrow, ..)| *narrow == wish.narrow) {
                let reason =
                    format!("{} is given twice: as {other} and as {}", place.name(), wish.key);
                return Err(KnobError::Asked { knob: wish.knob.id.to_owned(), reason });
            }
        }
    }
    let mut settings = checked(root, made)?;
    settings.extend(own);
    Ok(settings)
}

/// Settings that say the same: only one of each can be asked for.
const SAME: &[&[&str]] = &[
    &["vm.dirty_ratio", "vm.dirty_bytes"],
    &["vm.dirty_background_ratio", "vm.dirty_background_bytes"],
    &["bdi.max_ratio", "bdi.max_ratio_fine", "bdi.max_bytes"],
    &["bdi.min_ratio", "bdi.min_ratio_fine", "bdi.min_bytes"],
    &["bfq.slice_idle", "bfq.slice_idle_us"],
];

/// Refuses two settings of one place that say the same.
fn only_once(made: &BTreeMap<(KnobPlace, &str), (Narrow, &str, String)>) -> Result<(), KnobError> {
    for (place, id) in made.keys() {
        let others = SAME.iter().filter(|same| same.contains(id)).flat_map(|same| same.iter());
        let mut others = others.filter(|other| *other != id);
        if let Some(other) = others.find(|other| made.contains_key(&(place.clone(), **other))) {
            let reason = format!("it says the same as {other}: give only one of them");
            return Err(KnobError::Asked { knob: (*id).to_owned(), reason });
        }
    }
    Ok(())
}

/// Checks each value at its place and sorts by the order of writing.
fn checked(
    root: &SysRoot,
    made: BTreeMap<(KnobPlace, &str), (Narrow, &str, String)>,
) -> Result<Vec<Setting>, KnobError> {
    only_once(&made)?;
    let mut settings = Vec::new();
    for ((place, id), (.., value)) in &made {
        let knob = names::find(id)?;
        let asked =
            |other: &str| made.get(&(place.clone(), other)).map(|(.., value)| value.clone());
        check_at(root, place, knob, value, &asked)?;
        let listed = legal::listed(root, place, knob);
        if knob.values == Values::Listed && !listed.is_empty() && !listed.contains(value) {
            let hint = suggest::hint(value, listed.iter().map(String::as_str));
            let reason = format!("it lists {}{hint}", listed.join(", "));
            let at = format!(" of {}", place.name());
            return Err(KnobError::Value {
                knob: knob.id.to_owned(),
                at,
                value: value.clone(),
                reason,
            });
        }
        settings.push((
            knob.order,
            Setting { knob: knob.id.to_owned(), place: place.clone(), value: value.clone() },
        ));
    }
    settings.order_by(|a, b| (&a.1.place, a.0, &a.1.knob).cmp(&(&b.1.place, b.0, &b.1.knob)));
    Ok(settings.into_iter().map(|(_, setting)| setting).collect())
}

fn own_setting(scope: &Scope<'_>, name: &str, value: &str) -> Result<Setting, KnobError> {
    let known = || scope.own.iter().map(|own| own.name.as_str());
    let own = scope.own.iter().find(|own| own.name == name).ok_or_else(|| KnobError::Unknown {
        name: format!("own.{name}"),
        hint: suggest::hint(name, known()),
    })?;
    if !own.values.iter().any(|legal| legal == value) {
        return Err(KnobError::Value {
            knob: format!("own.{name}"),
            at: String::new(),
            value: value.to_owned(),
            reason: format!("it must be one of {}", own.values.join(", ")),
        });
    }
    let place = KnobPlace::Own { name: name.to_owned() };
    Ok(Setting { knob: format!("own.{name}"), place, value: value.to_owned() })
}

fn understood<'a>(scope: &Scope<'_>, key: &'a str, value: &str) -> Result<Wish<'a>, KnobError> {
    let (id, whose) = key.split_once('@').map_or((key, None), |(id, whose)| (id, Some(whose)));
    let knob = names::find(id)?;
    check_access(knob)?;
    let value = in_unit(id, knob, value.trim())?;
    legal::check_value(knob, &value)?;
    let (narrow, places) = match whose {
        None => (Narrow::All, ordinary(scope)),
        Some("all") => (Narrow::All, ordinary(scope)),
        Some("top") => {
            let tops = scope.devices.iter().filter(|device| device.is_top);
            (Narrow::Role, tops.map(ScopeDevice::place).collect())
        }
        Some("members") => {
            let members = scope.devices.iter().filter(|d| d.is_member && !d.is_behind_file);
            (Narrow::Role, members.map(|d| d.place()).collect())
        }
        Some(name) => {
            let name = name.strip_prefix("/dev/").unwrap_or(name);
            let named = scope.devices.iter().filter(|d| d.name == name || d.id == name);
            (Narrow::Name, named.map(|d| d.place()).collect::<Vec<_>>())
        }
    };
    if places.is_empty() {
        let known: Vec<&str> = scope.devices.iter().map(|d| d.name.as_str()).collect();
        let reason = format!(
            "nothing in the stack is called '{}'; there are top, members, {}",
            whose.unwrap_or_default(),
            known.join(", ")
        );
        return Err(KnobError::Asked { knob: knob.id.to_owned(), reason });
    }
    Ok(Wish { knob, narrow, places, key, value })
}

/// All places that are set without being named.
fn ordinary(scope: &Scope<'_>) -> Vec<KnobPlace> {
    let devices = scope.devices.iter().filter(|device| !device.is_behind_file).map(|d| d.place());
    let mounts = scope.mounts.iter().map(ScopeMount::place);
    devices.chain(mounts).chain([KnobPlace::Machine]).collect()
}

/// Sectors of an old name become the KiB of the setting.
fn in_unit(id: &str, knob: &Knob, value: &str) -> Result<String, KnobError> {
    match names::old_name(id) {
        Some(old) if old.is_sectors => match value.parse::<i64>() {
            Ok(sectors) => Ok((sectors / 2).to_string()),
            Err(_) => Err(KnobError::Value {
                knob: knob.id.to_owned(),
                at: String::new(),
                value: value.to_owned(),
                reason: format!("{id} is a number of 512-byte sectors"),
            }),
        },
        _ => Ok(legal::in_unit(knob, value)),
    }
}

/// The places of a wish that have its knob, or will have it with the scheduler that they get.
fn having(
    root: &SysRoot,
    scope: &Scope<'_>,
    wish: &Wish<'_>,
    schedulers: &dyn Fn(&KnobPlace) -> Option<String>,
) -> Result<Vec<KnobPlace>, KnobError> {
    let has = |place: &KnobPlace| match wish.knob.home {
        Home::Scheduler(scheduler, _) => match schedulers(place) {
            Some(asked) => asked == scheduler && legal::has_scheduler(root, place, scheduler),
            None => site::has(root, place, wish.knob),
        },
        _ => site::has(root, place, wish.knob),
    };
    let places: Vec<KnobPlace> = wish.places.iter().filter(|place| has(place)).cloned().collect();
    if !places.is_empty() {
        return Ok(places);
    }
    let is_of_machine =
        matches!(wish.knob.home, Home::Sysctl(_) | Home::Module(..) | Home::Boot(_));
    let could = wish.places.iter().filter(|place| is_of_machine == (**place == KnobPlace::Machine));
    let looked: Vec<String> = could.map(KnobPlace::name).collect();
    let mut behind = scope.devices.iter().filter(|device| device.is_behind_file);
    let behind = behind.find(|device| site::has(root, &device.place(), wish.knob));
    let mut reason = match wish.knob.home {
        Home::Scheduler(scheduler, _) => format!(
            "it is there only with the scheduler {scheduler}; set block.scheduler={scheduler} in the same cell ({})",
            looked.join(", ")
        ),
        _ => {
            let who = match looked.as_slice() {
                [] => "there is no device or mount below that could have it".to_owned(),
                [one] => format!("{one} does not have it"),
                several => format!("none of {} has it", several.join(", ")),
            };
            format!("{who} ({})", wish.knob.place())
        }
    };
    if wish.narrow == Narrow::All
        && let Some(device) = behind
    {
        reason += &format!(
            "; what lies below a loop device's file is set only by name: {}@{}",
            wish.key, device.name
        );
    }
    Err(KnobError::Nowhere { knob: wish.knob.id.to_owned(), reason })
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
