//! ssacli of HPE (and its forerunner hpssacli): indented text.

use super::words::{
    binary_bytes, decimal_bytes, kernel_name, leading_number, level, pci_address, some,
};
use super::{Answer, Run};
use fathom_model::vendor::{Controller, PhysicalDrive, VirtualDrive};
use std::path::Path;

const SHOW: [&str; 5] = ["ctrl", "all", "show", "config", "detail"];

pub(super) fn ask(run: &dyn Run, program: &Path) -> Answer {
    let mut answer = Answer::default();
    if let Some(text) = answer.ask(run, program, &SHOW) {
        answer.controllers = controllers(&text);
        if answer.controllers.is_empty() {
            answer.note(program, &SHOW, "no controller in its answer");
        }
    }
    answer
}

/// What a line belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Controller,
    Logical,
    Physical,
    /// Arrays, ports, enclosures: nothing that is wanted here.
    Other,
}

/// What is said of a controller's cache, from which the policies of its volumes follow.
#[derive(Default)]
struct Cache {
    is_usable: bool,
    needs_no_battery: bool,
}

/// The answer to [`SHOW`].
pub(super) fn controllers(text: &str) -> Vec<Controller> {
    let mut found: Vec<(Controller, Cache)> = Vec::new();
    let mut section = Section::Other;
    for line in text.lines() {
        if let Some(controller) = heading(line) {
            found.push((controller, Cache { is_usable: true, needs_no_battery: false }));
            section = Section::Controller;
            continue;
        }
        let Some((controller, cache)) = found.last_mut() else { continue };
        let line = line.trim();
        if let Some(next) = begins(line, controller) {
            section = next;
            continue;
        }
        let Some((key, value)) = line.split_once(':') else { continue };
        let (key, value) = (key.trim(), value.trim());
        match section {
            Section::Controller => add_to_controller(controller, cache, key, value),
            Section::Logical => add_to_logical(controller, key, value),
            Section::Physical => add_to_physical(controller, key, value),
            Section::Other => {}
        }
    }
    found.into_iter().map(|(controller, cache)| with_policies(controller, &cache)).collect()
}

/// `Smart Array P408i-a SR Gen10 in Slot 0 (Embedded)` at the beginning of a line.
fn heading(line: &str) -> Option<Controller> {
    if line.starts_with(char::is_whitespace) {
        return None;
    }
    let (model, slot) = line.split_once(" in Slot ")?;
    let number = u64::try_from(leading_number(slot)?).ok()?;
    Some(Controller { number, model: some(model), ..Controller::default() })
}

/// Lines that begin something.
fn begins(line: &str, controller: &mut Controller) -> Option<Section> {
    if let Some(name) = line.strip_prefix("Logical Drive:") {
        let name = name.trim().to_owned();
        controller.drives.push(VirtualDrive { name, ..VirtualDrive::default() });
        return Some(Section::Logical);
    }
    if let Some(place) = line.strip_prefix("physicaldrive ") {
        // In parentheses it is a mention: of a mirror's half, or of a spare.
        if place.contains('(') {
            return None;
        }
        let place = place.trim().to_owned();
        controller.members.push(PhysicalDrive { place, ..PhysicalDrive::default() });
        return Some(Section::Physical);
    }
    const OTHERS: [&str; 10] = [
        "Array:",
        "array ",
        "Array ",
        "unassigned",
        "Unassigned",
        "Port Name:",
        "Enclosure ",
        "Expander ",
        "SEP ",
        "Internal Drive Cage",
    ];
    OTHERS.iter().any(|other| line.starts_with(other)).then_some(Section::Other)
}

fn add_to_controller(controller: &mut Controller, cache: &mut Cache, key: &str, value: &str) {
    match key {
        "Firmware Version" => controller.firmware = some(value),
        "PCI Address (Domain" => {
            // The name of this property has colons in it.
            let address = value.split_once(": ").map(|(_, address)| address);
            controller.pci_address = address.and_then(pci_address);
        }
        "Battery/Capacitor Status" => controller.battery = some(value),
        "Battery/Capacitor Count" if value == "0" => controller.battery = Some("absent".to_owned()),
        "Cache Status" => cache.is_usable = matches!(value, "OK" | "Not Configured"),
        "No-Battery Write Cache" => cache.needs_no_battery = value == "Enabled",
        "Surface Scan Status" | "Rebuild Status" => {
            controller.housekeeping.extend(some(value).map(|value| format!("{key}: {value}")));
        }
        _ => {}
    }
}

fn add_to_logical(controller: &mut Controller, key: &str, value: &str) {
    let Some(drive) = controller.drives.last_mut() else { return };
    match key {
        "Size" => drive.size_bytes = binary_bytes(value),
        "Fault Tolerance" => drive.level = level(value),
        "Strip Size" => drive.strip_bytes = binary_bytes(value),
        "Full Stripe Size" => drive.stripe_bytes = binary_bytes(value),
        "Status" => {
            let state = value.to_ascii_lowercase();
            let works = ["recover", "rebuild", "expan", "transform"];
            if works.iter().any(|word| state.contains(word)) {
                controller.housekeeping.push(format!("{value} (logical drive {})", drive.name));
            }
            drive.state = some(value);
        }
        "Parity Initialization Status" if value.starts_with("In Progress") => {
            controller
                .housekeeping
                .push(format!("parity initialisation of logical drive {}", drive.name));
        }
        "Caching" => drive.write_policy = some(value),
        // The drives are asked past the controller's cache.
        "LD Acceleration Method"
            if value.contains("Smart Path") || value.contains("I/O Bypass") =>
        {
            drive.read_policy = Some("bypass".to_owned());
        }
        "Unique Identifier" => drive.wwn = some(value),
        "Disk Name" => drive.kernel_name = kernel_name(value),
        _ => {}
    }
}

fn add_to_physical(controller: &mut Controller, key: &str, value: &str) {
    let Some(member) = controller.members.last_mut() else { return };
    match key {
        "Status" => {
            member.predicts_failure = Some(value.eq_ignore_ascii_case("predictive failure"));
            member.state = some(value);
        }
        "Size" => member.size_bytes = decimal_bytes(value),
        "Firmware Revision" => member.firmware = some(value),
        "Serial Number" => member.serial = some(value),
        "Model" => member.model = some(&value.split_whitespace().collect::<Vec<_>>().join(" ")),
        "Current Temperature (C)" => member.celsius = leading_number(value),
        _ => {}
    }
}

/// Puts the policies of volumes into the words that the other tools use, and takes the stripe from mirrors of two.
fn with_policies(mut controller: Controller, cache: &Cache) -> Controller {
    for drive in &mut controller.drives {
        let is_bypassed = drive.read_policy.take().is_some();
        let is_cached = drive.write_policy.as_deref() == Some("Enabled");
        drive.write_policy = match drive.write_policy.take() {
            None => None,
            Some(_) if is_bypassed => Some("bypass".to_owned()),
            Some(_) if !is_cached || !cache.is_usable => Some("WT".to_owned()),
            Some(_) if cache.needs_no_battery => Some("AWB".to_owned()),
            Some(_) => Some("WB".to_owned()),
        };
        if drive.level.as_deref() == Some("RAID1") {
            drive.stripe_bytes = None;
        }
    }
    controller
}
