//! Settings that an experiment keeps an eye on though it does not set them: what decides how requests are made and served.

use crate::knob::{Home, Knob};
use crate::names;
use crate::resolve::Setting;
use crate::scope::{Scope, ScopeDevice};
use crate::site::{Site, layers, read_spot};
use fathom_model::change::knob::KnobPlace;
use fathom_sys::sysroot::SysRoot;

/// The queues with their schedulers, every read-ahead, also that of a filesystem that has its own, and how loop devices show their files.
fn is_watched(knob: &Knob) -> bool {
    let is_of_queue = matches!(knob.home, Home::Queue(_) | Home::Scheduler(..));
    is_of_queue || knob.id.ends_with(".read_ahead_kb") || knob.id.starts_with("loop.")
}

/// When the page cache is written and what stays in it: loads that are not direct depend on it.
fn is_of_page_cache(knob: &Knob) -> bool {
    knob.id.starts_with("vm.dirty_")
        || ["vm.swappiness", "vm.vfs_cache_pressure"].contains(&knob.id)
}

/// All of these that the layers of the scope have, with their values now: also those of the devices below the file of a loop device, which
/// are set by nobody who does not name them.
#[must_use]
pub fn watched(root: &SysRoot, scope: &Scope<'_>) -> Vec<Setting> {
    let behind = scope.devices.iter().filter(|device| device.is_behind_file);
    let places = layers(scope).chain(behind.map(ScopeDevice::place));
    places.flat_map(|place| at(root, &place, is_watched)).collect()
}

/// Those of the machine, whatever is measured.
#[must_use]
pub fn watched_of_machine(root: &SysRoot) -> Vec<Setting> {
    at(root, &KnobPlace::Machine, is_of_page_cache)
}

fn at(root: &SysRoot, place: &KnobPlace, is_meant: fn(&Knob) -> bool) -> Vec<Setting> {
    let Ok(site) = Site::find(root, place) else { return Vec::new() };
    let setting = |knob: &&Knob| {
        let value = read_spot(root, &site.spot(root, knob)?, knob.values).ok()?;
        Some(Setting { knob: knob.id.to_owned(), place: place.clone(), value })
    };
    names::all().iter().filter(|knob| is_meant(knob)).filter_map(|knob| setting(&knob)).collect()
}
