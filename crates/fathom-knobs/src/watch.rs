//! Settings that an experiment keeps an eye on though it does not set them: what decides how requests are made and served.

use crate::knob::{Home, Knob};
use crate::names;
use crate::resolve::Setting;
use crate::scope::{Scope, ScopeDevice};
use crate::site::{Site, layers, read_spot};
use fathom_sys::sysroot::SysRoot;

/// The queues with their schedulers, every read-ahead, also that of a filesystem that has its own, and how loop devices show their files.
fn is_watched(knob: &Knob) -> bool {
    let is_of_queue = matches!(knob.home, Home::Queue(_) | Home::Scheduler(..));
    is_of_queue || knob.id.ends_with(".read_ahead_kb") || knob.id.starts_with("loop.")
}

/// All of these that the layers of the scope have, with their values now: also those of the devices below the file of a loop device, which
/// are set by nobody who does not name them.
#[must_use]
pub fn watched(root: &SysRoot, scope: &Scope<'_>) -> Vec<Setting> {
    let behind = scope.devices.iter().filter(|device| device.is_behind_file);
    let places = layers(scope).chain(behind.map(ScopeDevice::place));
    let mut found = Vec::new();
    for place in places {
        let Ok(site) = Site::find(root, &place) else { continue };
        for knob in names::all().iter().filter(|knob| is_watched(knob)) {
            let spot = site.spot(root, knob);
            let value = spot.and_then(|spot| read_spot(root, &spot, knob.values).ok());
            let (knob, place) = (knob.id.to_owned(), place.clone());
            found.extend(value.map(|value| Setting { knob, place, value }));
        }
    }
    found
}
