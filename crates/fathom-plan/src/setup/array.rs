//! Software arrays: their keys, and which combinations md takes.

use super::{Fault, array_spec, count, fault, missing, one_of, place, size, unknown, yes_no};
use fathom_base::order::Order;
use fathom_base::suggest;
use fathom_base::units;
use fathom_model::plan::setup::{ArraySpec, ArrayState, SetupSpec};

const LEVELS: [&str; 7] = ["none", "raid0", "raid1", "raid4", "raid5", "raid6", "raid10"];

/// Places of parity in raid5, with the short forms that mdadm takes.
const RAID5_LAYOUTS: [&str; 10] = [
    "left-symmetric",
    "left-asymmetric",
    "right-symmetric",
    "right-asymmetric",
    "ls",
    "la",
    "rs",
    "ra",
    "parity-first",
    "parity-last",
];

/// Those that raid6 has besides.
const RAID6_LAYOUTS: [&str; 8] = [
    "ddf-zero-restart",
    "ddf-N-restart",
    "ddf-N-continue",
    "left-symmetric-6",
    "left-asymmetric-6",
    "right-symmetric-6",
    "right-asymmetric-6",
    "parity-first-6",
];

const STATES: [(&str, ArrayState); 4] = [
    ("normal", ArrayState::Normal),
    ("degraded", ArrayState::Degraded),
    ("rebuilding", ArrayState::Rebuilding),
    ("checking", ArrayState::Checking),
];

/// Sets one key of an array.
///
/// # Errors
/// Why there is no such key or value.
pub fn set(spec: &mut SetupSpec, own: &str, value: &str) -> Result<(), String> {
    if own == "level" {
        let number = value.trim_start_matches("raid");
        let level = if value == "none" { value.to_owned() } else { format!("raid{number}") };
        let level = one_of(&level, &LEVELS)?;
        let is_wanted = level != "none";
        if let Some(array) = place(&mut spec.array, is_wanted, array_spec(String::new())) {
            array.level = level;
        }
        return Ok(());
    }
    // A value is checked also where there is no array.
    set_part(&mut array_spec(String::new()), own, value)?;
    let array = spec.array.as_mut().ok_or_else(|| missing("array", "array.level"))?;
    set_part(array, own, value)
}

fn set_part(array: &mut ArraySpec, own: &str, value: &str) -> Result<(), String> {
    match own {
        "layout" => array.layout = Some(layout(value)?),
        "chunk" => {
            size(value)?;
            array.chunk = Some(value.to_owned());
        }
        "members" => array.members = Some(count(value, 2, 512)?),
        "order" => array.order = order(value)?,
        "bitmap" => array.bitmap = Some(one_of(value, &["none", "internal"])?),
        "metadata" => {
            array.metadata = Some(one_of(value, &["1.2", "1.1", "1.0", "0.90"])?);
        }
        "data_offset" => {
            size(value)?;
            array.data_offset = Some(value.to_owned());
        }
        "spares" => array.spares = count(value, 0, 64)?,
        "assume_clean" => array.is_assumed_clean = yes_no(value)?,
        "state" => {
            let words = STATES.map(|(word, _)| word);
            let word = one_of(value, &words)?;
            let found = STATES.iter().find(|(known, _)| *known == word);
            array.state = found.map(|(_, state)| *state).unwrap_or_default();
        }
        _ => return Err(unknown(&format!("array.{own}"))),
    }
    Ok(())
}

fn layout(value: &str) -> Result<String, String> {
    let is_copies = value
        .strip_prefix(['n', 'o', 'f'])
        .is_some_and(|copies| copies.parse::<u32>().is_ok_and(|copies| (2..=9).contains(&copies)));
    if is_copies || RAID5_LAYOUTS.contains(&value) || RAID6_LAYOUTS.contains(&value) {
        return Ok(value.to_owned());
    }
    let known = RAID5_LAYOUTS.iter().chain(&RAID6_LAYOUTS).copied();
    let near = suggest::hint(value, known);
    Err(format!(
        "no such layout; raid5 and raid6 take left-symmetric and others, raid10 n2, f2, o2 and more copies{near}"
    ))
}

fn order(value: &str) -> Result<Vec<u32>, String> {
    let places: Result<Vec<u32>, _> = value.split(',').map(|place| place.trim().parse()).collect();
    let places = places.map_err(|_| "must be places such as 2,0,1".to_owned())?;
    let mut sorted = places.clone();
    sorted.order();
    sorted.dedup();
    if sorted.len() < places.len() {
        return Err("names a device twice".to_owned());
    }
    Ok(places)
}

/// Why a key means nothing for this level.
pub fn inapplicable(array: &ArraySpec, own: &str) -> Option<String> {
    let level = array.level.as_str();
    match (level, own) {
        ("raid1", "chunk") => Some("raid1 has no chunks".to_owned()),
        ("raid0" | "raid1" | "raid4", "layout") => {
            Some(format!("{level} has no layouts to choose from"))
        }
        ("raid0", "bitmap") => Some("raid0 has no bitmap".to_owned()),
        _ => None,
    }
}

/// What md does not take, over so many devices.
///
/// # Errors
/// Which key it lies with, and why not.
pub fn check(array: &ArraySpec, devices: usize) -> Result<(), Fault> {
    let level = array.level.as_str();
    let spares = array.spares as usize;
    let members = array.members.map_or(devices.saturating_sub(spares), |members| members as usize);
    let least = match level {
        "raid4" | "raid5" => 3,
        "raid6" => 4,
        _ => 2,
    };
    if members < least {
        let reason = format!("{level} needs at least {least} members, and there are {members}");
        return Err(fault("array.level", reason));
    }
    if members + spares > devices {
        let with = if spares > 0 { format!(" and {spares} spares") } else { String::new() };
        let reason = format!("{members} members{with} are more than the {devices} devices");
        return Err(fault("array.members", reason));
    }
    let has_bad_place = array.order.iter().any(|place| *place as usize >= devices);
    if !array.order.is_empty() && (array.order.len() != members || has_bad_place) {
        let last = devices - 1;
        let reason = format!("must name {members} of the {devices} devices, from 0 to {last}");
        return Err(fault("array.order", reason));
    }
    check_chunk(array, level).map_err(|reason| fault("array.chunk", reason))?;
    array.data_offset_bytes().map_err(|reason| fault("array.data_offset", reason))?;
    check_layout(array, level, members).map_err(|reason| fault("array.layout", reason))?;
    check_redundancy(array, level)
}

fn check_chunk(array: &ArraySpec, level: &str) -> Result<(), String> {
    let Some(chunk) = &array.chunk else { return Ok(()) };
    if level == "raid1" {
        return Err("raid1 has no chunks: every member holds everything".to_owned());
    }
    let bytes = units::parse_size(chunk).map_err(|error| error.to_string())?;
    let fits = if level == "raid0" { bytes.is_multiple_of(4096) } else { bytes.is_power_of_two() };
    if bytes >= 4096 && fits {
        return Ok(());
    }
    let must = if level == "raid0" { "a multiple of 4k" } else { "a power of two from 4k" };
    Err(format!("the chunk of {level} must be {must}, and {chunk} is none"))
}

fn check_layout(array: &ArraySpec, level: &str, members: usize) -> Result<(), String> {
    let Some(layout) = array.layout.as_deref() else { return Ok(()) };
    let copies: Option<usize> =
        layout.strip_prefix(['n', 'o', 'f']).and_then(|copies| copies.parse().ok());
    match (level, copies) {
        ("raid10", Some(copies)) if copies <= members => Ok(()),
        ("raid10", Some(copies)) => {
            Err(format!("{layout} keeps {copies} copies, and there are {members} members"))
        }
        ("raid5", None) if RAID5_LAYOUTS.contains(&layout) => Ok(()),
        ("raid6", None) => Ok(()),
        ("raid0" | "raid1" | "raid4", _) => Err(format!("{level} has no layouts to choose from")),
        _ => Err(format!("{layout} is no layout of {level}")),
    }
}

fn check_redundancy(array: &ArraySpec, level: &str) -> Result<(), Fault> {
    if array.state == ArrayState::Degraded && array.spares > 0 {
        let reason = "a spare would take the failed member's place at once; leave out array.spares";
        return Err(fault("array.state", reason));
    }
    if level != "raid0" {
        return Ok(());
    }
    let (key, what) = match array.state {
        ArrayState::Degraded => ("array.state", "degraded"),
        ArrayState::Rebuilding => ("array.state", "rebuilding"),
        ArrayState::Checking => ("array.state", "checking"),
        ArrayState::Normal if array.bitmap.as_deref() == Some("internal") => {
            ("array.bitmap", "with a bitmap")
        }
        ArrayState::Normal if array.spares > 0 => ("array.spares", "with spares"),
        ArrayState::Normal => return Ok(()),
    };
    Err(fault(key, format!("raid0 has no redundancy and is never {what}")))
}
