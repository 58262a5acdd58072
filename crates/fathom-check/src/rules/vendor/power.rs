//! The write cache of a controller, and what keeps it over a power cut.

use super::{called, is_one_of, on_controller, source};
use crate::scene::Scene;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::vendor::{Controller, VirtualDrive};

const HEALTHY: [&str; 4] = ["Optimal", "OK", "Ready", "Optl"];
const PASSING: [&str; 6] =
    ["Learning", "Learn", "Charging", "Recharging", "Dgd (Charging)", "Relearning"];
const ABSENT: [&str; 5] = ["absent", "Not Present", "Missing", "No", "Not Installed"];

/// Policies that write back whatever the battery says.
fn always_writes_back(drive: &VirtualDrive) -> bool {
    is_one_of(drive.write_policy.as_deref(), &["AWB", "FWB"])
}

fn writes_back(drive: &VirtualDrive) -> bool {
    always_writes_back(drive) || is_one_of(drive.write_policy.as_deref(), &["WB"])
}

fn writes_through(drive: &VirtualDrive) -> bool {
    is_one_of(drive.write_policy.as_deref(), &["WT"])
}

/// A backup that is not in order.
pub(super) fn battery(scene: &Scene<'_>) -> Vec<Defect> {
    scene
        .snapshot
        .controllers
        .iter()
        .filter_map(|controller| battery_of(scene, controller))
        .collect()
}

fn battery_of(scene: &Scene<'_>, controller: &Controller) -> Option<Defect> {
    let state = controller.battery.as_deref()?;
    if is_one_of(Some(state), &HEALTHY) {
        return None;
    }
    let dangerous = controller.drives.iter().find(|drive| always_writes_back(drive));
    let waiting = controller.drives.iter().find(|drive| writes_back(drive));
    let absent = is_one_of(Some(state), &ABSENT);
    let passing = is_one_of(Some(state), &PASSING);
    let gravity = match (dangerous, waiting) {
        (Some(_), _) => Gravity::High,
        (None, Some(_)) if !passing => Gravity::Medium,
        // Nobody expects a controller without a battery, whose drives are written through, to have one.
        (None, None) if absent => return None,
        _ => Gravity::Low,
    };
    let defect = on_controller(
        scene,
        "raid-battery",
        gravity,
        dangerous.or(waiting),
        format!("the battery or capacitor of {} is: {state}", called(controller)),
    )
    .seen(source(controller), format!("battery or capacitor: {state}"));
    let defect = match dangerous.or(waiting) {
        Some(drive) => defect.seen(
            format!("virtual drive {}: write policy", drive.name),
            drive.write_policy.clone().unwrap_or_default(),
        ),
        None => defect,
    };
    let defect = if dangerous.is_some() {
        defect
            .because("the write cache is used all the same: a power cut loses what applications were told is safe, and with it usually the filesystem")
            .advise("take the policy that depends on the battery (storcli: wrcache=wb; ssacli: nobatterywritecache=disable; arcconf: setcache ... wbb) until it is in order")
    } else if passing {
        defect.because("the controller writes through until it is charged: writes are slower for some hours, by themselves")
    } else {
        defect.because("the controller writes through as long as that lasts: small writes are slower by ten times and more than they were with the cache")
    };
    Some(
        defect
            .advise("charge, relearn or replace it: batteries last three to five years, and heat shortens that")
            .risking("none for the policy; the machine is off while it is replaced")
            .verified_by(format!("{}; fathom run commit DIR before and after", source(controller))),
    )
}

/// Virtual drives that write through although the cache could be used.
pub(super) fn write_through(scene: &Scene<'_>) -> Vec<Defect> {
    let all = scene.snapshot.controllers.iter();
    let drives =
        all.flat_map(|controller| controller.drives.iter().map(move |drive| (controller, drive)));
    let found = drives.filter_map(|(controller, drive)| {
        let in_order = is_one_of(controller.battery.as_deref(), &HEALTHY);
        let absent = is_one_of(controller.battery.as_deref(), &ABSENT);
        if !writes_through(drive) || !(in_order || absent) {
            return None;
        }
        // Flash behind a controller is often faster without its cache, as makers themselves advise.
        let rotates = super::disk_of(scene, drive).and_then(|(_, node)| node.queue.as_ref()?.rotational);
        if rotates == Some(false) {
            return None;
        }
        let defect = on_controller(
            scene,
            "raid-write-through",
            Gravity::Low,
            Some(drive),
            format!("virtual drive {} of {} waits for its drives at each write", drive.name, called(controller)),
        )
        .sure(Certainty::Likely)
        .seen(source(controller), format!("write policy {}", drive.write_policy.as_deref().unwrap_or_default()))
        .seen(format!("{}: battery or capacitor", source(controller)), controller.battery.clone().unwrap_or_default());
        let defect = if in_order {
            defect
                .because("the cache is there and kept over a power cut, but not used: small writes and commits take milliseconds instead of microseconds")
                .command("switch write-back on for it", write_back(controller, drive))
        } else {
            defect
                .because("without a battery or capacitor that is right; with one, small writes and commits would take microseconds instead of milliseconds")
                .advise("fit the battery or capacitor that the maker offers for the controller; never force write-back without it")
        };
        Some(
            defect
                .risking("write-back is safe only as long as the backup works: watch its state")
                .verified_by("fathom run commit DIR before and after"),
        )
    });
    found.collect()
}

/// What switches write-back on, in the language of the tool that told of the drive.
fn write_back(controller: &Controller, drive: &VirtualDrive) -> String {
    let number = controller.number;
    // storcli names it by drive group and number; commands want the number, and nothing else is handed to a shell.
    let last = drive.name.rsplit('/').next().unwrap_or_default();
    let digits = last.bytes().take_while(u8::is_ascii_digit).count();
    let index = &last[..digits];
    match controller.tool.as_str() {
        "ssacli" => format!("ssacli ctrl slot={number} ld {index} modify caching=enable"),
        "arcconf" => format!("arcconf setcache {number} logicaldrive {index} wbb"),
        "perccli" => format!("perccli /c{number}/v{index} set wrcache=wb"),
        _ => format!("storcli /c{number}/v{index} set wrcache=wb"),
    }
}
