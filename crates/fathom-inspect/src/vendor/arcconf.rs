//! arcconf of Adaptec and Microchip: sections of `Key : Value`.

use super::words::{binary_bytes, kernel_name, leading_number, level, pci_address, some};
use super::{Answer, Run};
use fathom_model::vendor::{Controller, PhysicalDrive, VirtualDrive};
use std::path::Path;

/// More controllers are in no machine.
const CONTROLLERS_MAX: u64 = 16;

/// Asks the first controller, whose answer says how many there are, and then the others. Without `nologs` the tool writes
/// logs into its working directory.
pub(super) fn ask(run: &dyn Run, program: &Path) -> Answer {
    let mut answer = Answer::default();
    let (mut number, mut last) = (1, 1);
    while number <= last {
        let name = number.to_string();
        let arguments = ["GETCONFIG", name.as_str(), "AL", "nologs"];
        let Some(text) = answer.ask(run, program, &arguments) else { break };
        if number == 1 {
            last = controllers_found(&text).unwrap_or(0).min(CONTROLLERS_MAX);
        }
        match controller(&text) {
            Some(mut controller) => {
                controller.number = number;
                let status = ["GETSTATUS", name.as_str(), "nologs"];
                if let Some(text) = answer.ask(run, program, &status) {
                    controller.housekeeping.extend(tasks(&text));
                }
                answer.controllers.push(controller);
            }
            None => answer.note(program, &arguments, "no controller in its answer"),
        }
        number += 1;
    }
    answer
}

/// The number in `Controllers found: 1`.
pub(super) fn controllers_found(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.trim().strip_prefix("Controllers found:"));
    lines.next()?.trim().parse().ok()
}

/// `Key   : Value`. Keys may have colons of their own, without blanks around.
fn key_and_value(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(" : ").or_else(|| {
        // A value that is empty.
        line.trim_end().strip_suffix(':').map(|key| (key, ""))
    })?;
    Some((key.trim(), value.trim()))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Controller,
    Battery,
    Logical,
    Physical,
    /// Segments, connectors, phys: of what was begun.
    Other,
    /// A physical device that holds no data, and all below it.
    Skipped,
}

/// The answer to `GETCONFIG`; none when there is no controller in it.
pub(super) fn controller(text: &str) -> Option<Controller> {
    let mut controller = Controller::default();
    let mut section = Section::Other;
    for line in text.lines().map(str::trim) {
        if let Some(next) = begins(line, section, &mut controller) {
            section = next;
            continue;
        }
        let Some((key, value)) = key_and_value(line) else {
            // A physical device that is none that holds data.
            if section == Section::Physical
                && line.starts_with("Device is a")
                && line.contains("Enclosure")
            {
                controller.members.pop();
                section = Section::Skipped;
            }
            continue;
        };
        match section {
            Section::Controller => add_to_controller(&mut controller, key, value),
            Section::Battery => add_to_battery(&mut controller, key, value),
            Section::Logical => add_to_logical(&mut controller, key, value),
            Section::Physical => add_to_physical(&mut controller, key, value),
            Section::Other | Section::Skipped => {}
        }
    }
    controller.model.is_some().then_some(controller)
}

/// Lines that begin something: `Logical device number 0`, `Device #3`, and headings between lines of hyphens.
fn begins(line: &str, section: Section, controller: &mut Controller) -> Option<Section> {
    let lower = line.to_ascii_lowercase();
    if let Some(name) = lower.strip_prefix("logical device number ") {
        let name = name.trim().to_owned();
        controller.drives.push(VirtualDrive { name, ..VirtualDrive::default() });
        return Some(Section::Logical);
    }
    if let Some(number) = lower.strip_prefix("device #") {
        let place = format!("#{}", number.trim());
        controller.members.push(PhysicalDrive { place, ..PhysicalDrive::default() });
        return Some(Section::Physical);
    }
    if line.contains(" : ") || section == Section::Skipped && !lower.starts_with("controller") {
        return None;
    }
    if lower.ends_with("error counters") {
        return (!controller.members.is_empty()).then_some(Section::Physical);
    }
    match lower.as_str() {
        "controller information" | "controller version information" => Some(Section::Controller),
        _ if !lower.ends_with("information") => None,
        _ if ["battery", "zmm", "backup"].iter().any(|word| lower.contains(word)) => {
            Some(Section::Battery)
        }
        _ => Some(Section::Other),
    }
}

fn add_to_controller(controller: &mut Controller, key: &str, value: &str) {
    match key {
        "Controller Model" => controller.model = some(value),
        "Firmware" => controller.firmware = some(value),
        _ if key.starts_with("PCI Address") => controller.pci_address = pci_address(value),
        "Overall Backup Unit Status" | "Backup Unit Status" => {
            add_to_battery(controller, "Status", value)
        }
        _ => {}
    }
}

fn add_to_battery(controller: &mut Controller, key: &str, value: &str) {
    if matches!(
        key,
        "Status" | "Overall Backup Unit Status" | "Controller Cache Backup Unit Status"
    ) {
        let absent = ["not installed", "not present", "no battery"]
            .contains(&value.to_ascii_lowercase().as_str());
        let state = if absent { Some("absent".to_owned()) } else { some(value) };
        controller.battery = state.or_else(|| controller.battery.take());
    }
}

fn add_to_logical(controller: &mut Controller, key: &str, value: &str) {
    let Some(drive) = controller.drives.last_mut() else { return };
    match key.to_ascii_lowercase().as_str() {
        "raid level" => drive.level = level(value),
        "status of logical device" => {
            if value.starts_with("Impacted") {
                controller.housekeeping.push(format!("{value} (logical device {})", drive.name));
            }
            drive.state = some(value);
        }
        "size" => drive.size_bytes = binary_bytes(value),
        "stripe-unit size" => drive.strip_bytes = binary_bytes(value),
        "full stripe size" if drive.level.as_deref() != Some("RAID1") => {
            drive.stripe_bytes = binary_bytes(value)
        }
        "disk name" => drive.kernel_name = kernel_name(value),
        "volume unique identifier" => drive.wwn = some(value),
        // The setting comes first. One that asks for protection is written back only as long as there is some.
        "write-cache setting" => {
            let always =
                value.starts_with("Enabled") && !value.to_ascii_lowercase().contains("protected");
            drive.write_policy = Some(if always { "AWB" } else { "WB" }.to_owned());
        }
        "write-cache status" if value.eq_ignore_ascii_case("off") => {
            drive.write_policy = Some("WT".to_owned())
        }
        "caching" => {
            drive.write_policy = Some(if value == "Enabled" { "WB" } else { "WT" }.to_owned());
        }
        _ => {}
    }
}

fn add_to_physical(controller: &mut Controller, key: &str, value: &str) {
    let Some(member) = controller.members.last_mut() else { return };
    match key {
        "State" => member.state = some(value),
        "Reported Location" => member.place = format!("{} ({value})", member.place),
        "Model" => member.model = some(value),
        "Serial number" | "Serial Number" => member.serial = some(value),
        "Firmware" => member.firmware = some(value),
        "Total Size" | "Size" => member.size_bytes = binary_bytes(value),
        "S.M.A.R.T. warnings" => {
            member.predicts_failure = leading_number(value).map(|count| count > 0);
        }
        "Medium Error Count" => member.media_errors = value.parse().ok(),
        "Hardware Error Count" => member.other_errors = value.parse().ok(),
        "Current Temperature" => member.celsius = leading_number(value),
        _ => {}
    }
}

/// The answer to `GETSTATUS`: what is running.
pub(super) fn tasks(text: &str) -> Vec<String> {
    let mut tasks: Vec<String> = Vec::new();
    for (key, value) in text.lines().filter_map(|line| key_and_value(line.trim())) {
        match key {
            "Current operation" => tasks.extend(some(value)),
            "Percentage complete" => {
                if let Some(task) = tasks.last_mut() {
                    *task = format!("{task} ({value} %)");
                }
            }
            _ => {}
        }
    }
    tasks
}
