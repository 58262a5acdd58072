//! States of virtual and physical drives.

use super::{called, is_one_of, on_controller, source};
use crate::rules::shared::list;
use crate::scene::Scene;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::vendor::{Controller, PhysicalDrive, VirtualDrive};

/// States of virtual drives that are as they should be, or of which another rule speaks.
const WHOLE: [&str; 5] = ["Optl", "Optimal", "OK", "Cac", "Impacted"];

/// States of physical drives that have failed.
const FAILED: [&str; 9] =
    ["Failed", "UBad", "Offln", "Offline", "Missing", "Msng", "UBUnsp", "Fail", "Bad"];

/// States of virtual drives that lack more members than they can.
const OFFLINE: [&str; 3] = ["OfLn", "Offline", "Failed"];

fn state(text: Option<&str>) -> Option<&str> {
    // `Impacted ( Build/Verify with fix : 0 % )`, `Recovering, 12% complete`.
    text.map(|text| text.split(['(', ',']).next().unwrap_or_default().trim())
        .filter(|text| !text.is_empty())
}

fn is_degraded(drive: &VirtualDrive) -> bool {
    state(drive.state.as_deref()).is_some_and(|state| !is_one_of(Some(state), &WHOLE))
}

fn has_failed(member: &PhysicalDrive) -> bool {
    is_one_of(state(member.state.as_deref()), &FAILED)
}

/// Works that give arrays their redundancy back.
fn rebuilds(controller: &Controller) -> Vec<String> {
    const STATES: [&str; 5] = ["Rbld", "Rebuild", "Rebuilding", "Cpybck", "Copyback"];
    let mut works: Vec<String> =
        controller.housekeeping.iter().filter(|work| is_rebuild(work)).cloned().collect();
    let is_rebuilt = |member: &&PhysicalDrive| is_one_of(state(member.state.as_deref()), &STATES);
    let rebuilt = controller.members.iter().filter(is_rebuilt);
    works.extend(rebuilt.map(|member| format!("rebuild of drive {}", member.place)));
    works
}

fn is_rebuild(work: &str) -> bool {
    let work = work.to_ascii_lowercase();
    work.contains("rebuild") || work.contains("recover")
}

/// What to do for a virtual drive that is not whole.
fn cure(drive: &VirtualDrive, is_rebuilding: bool) -> &'static str {
    if is_one_of(state(drive.state.as_deref()), &OFFLINE) {
        "replace and initialise nothing: it lacks more members than it can; bring back those that left last (power, cable, enclosure, foreign configuration) and ask the maker before one is forced online"
    } else if is_rebuilding {
        "let the rebuild end and pull no drive until then; where it is still not optimal afterwards, another member is to be replaced"
    } else {
        "replace the failed member; most controllers begin the rebuild by themselves"
    }
}

/// Virtual drives that are not whole.
pub(super) fn degraded(scene: &Scene<'_>) -> Vec<Defect> {
    let all = scene.snapshot.controllers.iter();
    let drives =
        all.flat_map(|controller| controller.drives.iter().map(move |drive| (controller, drive)));
    let found = drives.filter(|(_, drive)| is_degraded(drive)).map(|(controller, drive)| {
        let failed = controller.members.iter().filter(|member| has_failed(member));
        let failed: Vec<&str> = failed.map(|member| member.place.as_str()).collect();
        let who = if failed.is_empty() { String::new() } else { format!("; failed: {}", list(failed.iter().copied())) };
        let word = drive.state.as_deref().unwrap_or_default();
        let mut works = rebuilds(controller);
        let is_rebuilding = !works.is_empty();
        works.retain(|work| !work.starts_with(word));
        let works = if works.is_empty() { String::new() } else { format!("; running: {}", list(works.iter().map(String::as_str))) };
        let level = drive.level.as_deref().map(|level| format!(" ({level})")).unwrap_or_default();
        on_controller(
            scene,
            "raid-drive-degraded",
            Gravity::High,
            Some(drive),
            format!("virtual drive {}{level} of {} is {word}{who}{works}", drive.name, called(controller)),
        )
        .seen(source(controller), format!("virtual drive {}: {word}", drive.name))
        .because("one more lost member can take all its data, and what is missing is computed for each read")
        .advise(cure(drive, is_rebuilding))
        .command("see the members", source(controller))
        .risking("pulling the wrong drive ends the array: let the tool blink the right one first")
        .verified_by(format!("{}: the virtual drive is optimal", source(controller)))
    });
    found.collect()
}

/// Members that have failed without an array that suffers, that foresee it, or that count errors.
pub(super) fn member_failing(scene: &Scene<'_>) -> Vec<Defect> {
    let all = scene.snapshot.controllers.iter();
    all.flat_map(|controller| {
        let told = controller.drives.iter().any(is_degraded);
        let is_whole = !told && rebuilds(controller).is_empty();
        let members = controller.members.iter();
        members.filter_map(move |member| failing(scene, controller, member, told, is_whole))
    })
    .collect()
}

fn failing(
    scene: &Scene<'_>,
    controller: &Controller,
    member: &PhysicalDrive,
    degraded_told: bool,
    all_whole: bool,
) -> Option<Defect> {
    let state = member.state.as_deref().unwrap_or_default();
    let predicts =
        member.predicts_failure == Some(true) || state.eq_ignore_ascii_case("predictive failure");
    let errors = member.media_errors.filter(|&errors| errors > 0);
    let (gravity, sure, what) = if has_failed(member) {
        if degraded_told {
            return None;
        }
        (Gravity::High, Certainty::Certain, format!("is {state}"))
    } else if predicts {
        (Gravity::High, Certainty::Likely, "foresees its own failure".to_owned())
    } else {
        (Gravity::Medium, Certainty::Likely, format!("has had {} media errors", errors?))
    };
    let model = member.model.as_deref().map(|model| format!(" ({model})")).unwrap_or_default();
    let mut defect = on_controller(
        scene,
        "raid-member-failing",
        gravity,
        None,
        format!("drive {}{model} behind {} {what}", member.place, called(controller)),
    )
    .sure(sure)
    .seen(
        source(controller),
        format!(
            "drive {}: {}",
            member.place,
            if state.is_empty() { "state not told" } else { state }
        ),
    );
    if let Some(errors) = errors {
        defect = defect.seen(format!("drive {}: media errors", member.place), errors.to_string());
    }
    if member.predicts_failure == Some(true) {
        defect = defect.seen(format!("drive {}: failure predicted", member.place), "yes");
    }
    let (cure, risk) = if all_whole {
        (
            "make sure of the backup, then replace it while the others are whole",
            "pulling the wrong drive degrades the array: let the tool blink the right one first",
        )
    } else {
        (
            "do not pull it now: an array of this controller lacks a member or is being rebuilt, and this drive may hold the only copy; save the data, bring the array back first, then replace it",
            "pulling it now may end the array",
        )
    };
    Some(
        defect
            .because("the controller answers for it as long as it can, so nothing shows in the kernel until the array is degraded, or slow: a member that tries again and again slows all of it")
            .advise(cure)
            .risking(risk)
            .verified_by(format!("{}: all members online, errors 0", source(controller))),
    )
}

/// Words of what takes little of the drives' time and comes back by itself every week.
const LIGHT: [&str; 3] = ["patrol", "surface scan", "learn"];

/// Work of a controller besides serving requests.
pub(super) fn busy(scene: &Scene<'_>) -> Vec<Defect> {
    let found = scene.snapshot.controllers.iter().filter_map(|controller| {
        let mut works: Vec<String> =
            controller.housekeeping.iter().filter(|work| !is_rebuild(work)).cloned().collect();
        // A rebuild is told with the array that needs it.
        if !controller.drives.iter().any(is_degraded) {
            works.extend(rebuilds(controller));
        }
        works.dedup();
        let is_light = |work: &String| LIGHT.iter().any(|word| work.to_ascii_lowercase().contains(word));
        if works.is_empty() {
            return None;
        }
        let gravity = if works.iter().all(is_light) { Gravity::Low } else { Gravity::Medium };
        let what = list(works.iter().map(String::as_str));
        let defect = on_controller(
            scene,
            "raid-busy",
            gravity,
            controller.drives.first(),
            format!("{} is busy with: {what}", called(controller)),
        )
        .seen(source(controller), what.clone())
        .because("it takes its share of the drives' time: rates are lower and the slowest requests slower than they will be afterwards")
        .advise("wait for its end before measuring; plan checks and patrol reads for quiet hours")
        .risking("stopping a rebuild leaves the array without its redundancy for longer")
        .verified_by(format!("{} shows nothing running", source(controller)));
        Some(defect)
    });
    found.collect()
}
