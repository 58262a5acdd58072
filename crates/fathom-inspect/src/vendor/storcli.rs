//! storcli of Broadcom, and perccli of Dell, which is the same program: JSON.

use super::words::{binary_bytes, kernel_name, leading_number, pci_address, some, stripe_bytes};
use super::{Answer, Run};
use fathom_model::vendor::{Controller, PhysicalDrive, VirtualDrive};
use serde_json::Value;
use std::path::Path;

/// `J` for JSON; without `nolog` the tool writes a log into its working directory.
const SHOW_ALL: [&str; 5] = ["/call", "show", "all", "J", "nolog"];
const SHOW_VIRTUAL: [&str; 5] = ["/call/vall", "show", "all", "J", "nolog"];
const SHOW_PHYSICAL: [&str; 5] = ["/call/eall/sall", "show", "all", "J", "nolog"];
const SHOW_PATROL: [&str; 5] = ["/call", "show", "patrolread", "J", "nolog"];

/// Puts what an answer says of one controller where it belongs.
type Add = fn(&mut Controller, &Value);

/// Asks for the controllers; and, when there are any, for what only further commands tell.
pub(super) fn ask(run: &dyn Run, program: &Path) -> Answer {
    let mut answer = Answer::default();
    let Some(text) = answer.ask(run, program, &SHOW_ALL) else { return answer };
    match controllers(&text) {
        Ok(found) => answer.controllers = found,
        Err(why) => answer.note(program, &SHOW_ALL, &why),
    }
    if answer.controllers.is_empty() {
        return answer;
    }
    let further: [(&[&str], Add); 3] =
        [(&SHOW_VIRTUAL, add_virtual), (&SHOW_PHYSICAL, add_physical), (&SHOW_PATROL, add_patrol)];
    for (arguments, add) in further {
        let Some(text) = answer.ask(run, program, arguments) else { continue };
        if let Err(why) = add_to(&mut answer.controllers, &text, add) {
            answer.note(program, arguments, &why);
        }
    }
    answer
}

/// The answer as JSON. Warnings may be printed before it.
fn json(text: &str) -> Result<Value, String> {
    let start = text.find('{').ok_or("no JSON in its answer")?;
    serde_json::from_str(&text[start..]).map_err(|error| format!("damaged JSON: {error}"))
}

/// For each controller its number and its data, where the command succeeded.
fn responses(answer: &Value) -> Vec<(u64, &Value)> {
    let all = answer["Controllers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let told = all.iter().filter_map(|one| {
        let number = number(&one["Command Status"]["Controller"])?;
        let data = &one["Response Data"];
        data.is_object().then_some((number, data))
    });
    told.collect()
}

/// A number, or a text that is one.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())
}

/// A text that says something, or a number.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => some(text),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn rows(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The answer to [`SHOW_ALL`].
pub(super) fn controllers(answer: &str) -> Result<Vec<Controller>, String> {
    let answer = json(answer)?;
    let found: Vec<Controller> =
        responses(&answer).into_iter().map(|(number, data)| controller(number, data)).collect();
    if found.is_empty() {
        let status = &answer["Controllers"][0]["Command Status"];
        return Err(text(&status["Description"])
            .unwrap_or_else(|| "no controller in its answer".to_owned()));
    }
    Ok(found)
}

fn controller(number: u64, data: &Value) -> Controller {
    let (basics, version) = (&data["Basics"], &data["Version"]);
    let first = |values: &[&Value]| values.iter().find_map(|value| text(value));
    Controller {
        number,
        model: first(&[&basics["Model"], &data["Product Name"]]),
        firmware: first(&[
            &version["Firmware Package Build"],
            &version["Firmware Version"],
            &data["FW Package Build"],
        ]),
        pci_address: first(&[&basics["PCI Address"], &data["PCI Address"]])
            .and_then(|a| pci_address(&a)),
        battery: battery(data),
        drives: rows(&data["VD LIST"]).iter().filter_map(virtual_drive).collect(),
        members: rows(&data["PD LIST"]).iter().filter_map(physical_drive).collect(),
        ..Controller::default()
    }
}

/// The state of the capacitor or battery; `absent` where the tool says that there is none.
fn battery(data: &Value) -> Option<String> {
    let lists = ["Cachevault_Info", "BBU_Info"];
    let state = lists.iter().find_map(|list| text(&rows(&data[*list]).first()?["State"]));
    let configured = text(&data["HwCfg"]["BBU"]);
    let is_absent = configured.is_some_and(|word| matches!(word.as_str(), "Absent" | "No"));
    state.or_else(|| is_absent.then(|| "absent".to_owned()))
}

/// A row of a list of virtual drives.
fn virtual_drive(row: &Value) -> Option<VirtualDrive> {
    let (read_policy, write_policy) = policies(row["Cache"].as_str().unwrap_or_default());
    Some(VirtualDrive {
        name: text(&row["DG/VD"])?,
        level: text(&row["TYPE"]),
        state: text(&row["State"]),
        size_bytes: row["Size"].as_str().and_then(binary_bytes),
        read_policy,
        write_policy,
        ..VirtualDrive::default()
    })
}

/// Read and write policy in words such as `RWBD`, `NRWTC`, `RAWBD`: `R` or `NR` (read ahead), then `WB`, `AWB`, `FWB` or
/// `WT`, then `C` or `D` (cached or direct).
fn policies(word: &str) -> (Option<String>, Option<String>) {
    let (read, rest) = match word.strip_prefix("NR") {
        Some(rest) => (Some("NORA"), rest),
        None => match word.strip_prefix('R') {
            Some(rest) => (Some("RA"), rest),
            None => (None, word),
        },
    };
    let write = ["AWB", "FWB", "WB", "WT"].into_iter().find(|policy| rest.starts_with(policy));
    (read.map(str::to_owned), write.map(str::to_owned))
}

/// A row of a list of physical drives.
fn physical_drive(row: &Value) -> Option<PhysicalDrive> {
    Some(PhysicalDrive {
        place: row["EID:Slt"].as_str()?.trim().to_owned(),
        state: text(&row["State"]),
        model: text(&row["Model"]),
        size_bytes: row["Size"].as_str().and_then(binary_bytes),
        ..PhysicalDrive::default()
    })
}

/// Adds what an answer says of each controller to those that are known.
pub(super) fn add_to(controllers: &mut [Controller], answer: &str, add: Add) -> Result<(), String> {
    let answer = json(answer)?;
    for (number, data) in responses(&answer) {
        if let Some(controller) = controllers.iter_mut().find(|known| known.number == number) {
            add(controller, data);
        }
    }
    Ok(())
}

/// The answer to [`SHOW_VIRTUAL`]: `/c0/v1` holds the row, `VD1 Properties` the rest.
pub(super) fn add_virtual(controller: &mut Controller, data: &Value) {
    for (key, value) in data.as_object().into_iter().flatten() {
        let Some((_, number)) = key.rsplit_once("/v").filter(|(_, number)| is_number(number))
        else {
            continue;
        };
        let Some(row) = rows(value).first().and_then(virtual_drive) else { continue };
        let properties = &data[format!("VD{number} Properties")];
        let known = controller.drives.iter().position(|drive| drive.name == row.name);
        let index = known.unwrap_or_else(|| {
            controller.drives.push(row);
            controller.drives.len() - 1
        });
        if let Some(work) = text(&properties["Active Operations"]) {
            controller
                .housekeeping
                .push(format!("{work} of virtual drive {}", controller.drives[index].name));
        }
        add_properties(&mut controller.drives[index], properties);
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn add_properties(drive: &mut VirtualDrive, properties: &Value) {
    drive.strip_bytes = properties["Strip Size"].as_str().and_then(binary_bytes);
    let count = |name: &str| number(&properties[name]);
    let shape = drive.strip_bytes.zip(count("Span Depth")).zip(count("Number of Drives Per Span"));
    drive.stripe_bytes = shape.and_then(|((strip, spans), per_span)| {
        stripe_bytes(drive.level.as_deref()?, strip, spans, per_span)
    });
    drive.drive_cache = text(&properties["Disk Cache Policy"]);
    drive.kernel_name = properties["OS Drive Name"].as_str().and_then(kernel_name);
    drive.wwn = text(&properties["SCSI NAA Id"]);
}

/// The answer to [`SHOW_PHYSICAL`]: `Drive /c0/e32/s1` holds the row, `Drive /c0/e32/s1 - Detailed Information` the rest.
pub(super) fn add_physical(controller: &mut Controller, data: &Value) {
    for (key, value) in data.as_object().into_iter().flatten() {
        let Some(row) = rows(value).first().and_then(physical_drive) else { continue };
        let detail = &data[format!("{key} - Detailed Information")];
        let known = controller.members.iter().position(|member| member.place == row.place);
        let index = known.unwrap_or_else(|| {
            controller.members.push(row);
            controller.members.len() - 1
        });
        let member = &mut controller.members[index];
        let state = &detail[format!("{key} State")];
        let attributes = &detail[format!("{key} Device attributes")];
        member.media_errors = number(&state["Media Error Count"]);
        member.other_errors = number(&state["Other Error Count"]);
        member.predicts_failure = predicts(state);
        member.celsius = state["Drive Temperature"].as_str().and_then(leading_number);
        member.serial = text(&attributes["SN"]);
        member.firmware = text(&attributes["Firmware Revision"]);
    }
}

fn predicts(state: &Value) -> Option<bool> {
    let count = number(&state["Predictive Failure Count"]).map(|count| count > 0);
    let alert = text(&state["S.M.A.R.T alert flagged by drive"]).map(|word| word == "Yes");
    match (count, alert) {
        (None, None) => None,
        (count, alert) => Some(count == Some(true) || alert == Some(true)),
    }
}

/// The answer to [`SHOW_PATROL`]: a table of properties.
pub(super) fn add_patrol(controller: &mut Controller, data: &Value) {
    let properties = rows(&data["Controller Properties"]).iter();
    let states = properties.filter(|row| row["Ctrl_Prop"].as_str() == Some("PR Current State"));
    for state in states.filter_map(|row| text(&row["Value"])) {
        if state.to_ascii_lowercase().starts_with("active") {
            controller.housekeeping.push(format!("patrol read ({state})"));
        }
    }
}
