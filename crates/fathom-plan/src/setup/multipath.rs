//! Multipath maps: their keys, and which can be made.

use super::{Fault, count, fault, missing, one_of, place, unknown};
use fathom_model::plan::setup::{MultipathSpec, SetupSpec};

const SELECTORS: [&str; 4] =
    ["round-robin", "queue-length", "service-time", "historical-service-time"];
/// More paths to one disk are not built.
const PATHS_MAX: u32 = 32;

/// Sets one key of a map.
///
/// # Errors
/// Why there is no such key or value.
pub fn set(spec: &mut SetupSpec, own: &str, value: &str) -> Result<(), String> {
    let map = || MultipathSpec {
        policy: "multibus".to_owned(),
        selector: "service-time".to_owned(),
        failed: 0,
    };
    if own == "policy" {
        let groups = |c: char| c.is_ascii_digit() || ",/ ".contains(c);
        let is_own = value.starts_with(|c: char| c.is_ascii_digit()) && value.chars().all(groups);
        if !is_own && one_of(value, &["multibus", "failover"]).is_err() {
            return Err(
                "must be multibus, failover, or groups of places in the list of devices, such as 0,1/2,3"
                    .to_owned(),
            );
        }
        if let Some(map) = place(&mut spec.multipath, true, map()) {
            map.policy = value.to_owned();
        }
        return Ok(());
    }
    let mut scratch = map();
    let is_there = spec.multipath.is_some();
    let map = spec.multipath.as_mut().unwrap_or(&mut scratch);
    match own {
        "selector" => map.selector = one_of(value, &SELECTORS)?,
        "failed" => map.failed = count(value, 0, PATHS_MAX)?,
        _ => return Err(unknown(&format!("multipath.{own}"))),
    }
    if is_there { Ok(()) } else { Err(missing("multipath map", "multipath.policy")) }
}

/// What cannot be made of these devices.
///
/// # Errors
/// Which key it lies with, and why not.
pub fn check(map: &MultipathSpec, spec: &SetupSpec) -> Result<(), Fault> {
    let paths = spec.devices.len();
    if paths < 2 {
        return Err(fault("devices", "a multipath map needs at least two paths to the disk"));
    }
    if spec.devices.iter().any(|device| !device.starts_with('/')) {
        let reason = "a loop device of fathom's is no path to a disk; give the devices that are";
        return Err(fault("devices", reason));
    }
    if spec.array.is_some() {
        return Err(fault(
            "array.level",
            "the devices are paths to one disk: no array can join it",
        ));
    }
    if spec.slice.is_some() {
        let reason = "the devices are paths to one disk, and maps have no partitions of their own";
        return Err(fault("slice.start", reason));
    }
    if map.groups(paths).is_none() {
        let reason = format!("must name each of the {paths} paths once, from 0 to {}", paths - 1);
        return Err(fault("multipath.policy", reason));
    }
    if map.failed as usize >= paths {
        return Err(fault("multipath.failed", "leaves no path; the last one must work"));
    }
    Ok(())
}
