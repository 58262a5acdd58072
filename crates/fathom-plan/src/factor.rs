//! Factors: what their names mean, and what a level makes of a cell.

use crate::setup;
use fathom_model::plan::cell::Cell;
use fathom_model::plan::{Factor, FactorKind, PlanWorkload};

/// Words that are a companion by themselves; anything else is a command.
pub(crate) const COMPANIONS: [&str; 3] = ["none", "memory", "cpu"];

/// What a factor's name in a plan file sets, for plans with workloads of these labels. Knobs are whatever is nothing else.
pub(crate) fn kind_of(id: &str, labels: &[&str], builds_filesystem: bool) -> FactorKind {
    let id = setup::whole_key(id);
    if let Some(rest) = id.strip_prefix("workload.") {
        let of_one = rest.split_once('.').filter(|(label, _)| labels.contains(label));
        let (label, key) = of_one.map_or((None, rest), |(label, key)| (Some(label), key));
        return FactorKind::Workload { key: key.to_owned(), label: label.map(str::to_owned) };
    }
    if id == "companion" {
        return FactorKind::Companion;
    }
    if let Some(parameter) = id.strip_prefix("boot.") {
        return FactorKind::Boot { parameter: parameter.to_owned() };
    }
    if id == "null" || id.starts_with("null.") {
        return FactorKind::Null;
    }
    let is_mount_knob = id.starts_with("mount.") && !builds_filesystem;
    if setup::is_key(id) && !is_mount_knob {
        return FactorKind::Setup { key: id.to_owned() };
    }
    FactorKind::Knob { id: id.to_owned() }
}

/// The name in a plan file.
pub(crate) fn id_of(factor: &Factor) -> String {
    match &factor.sets {
        FactorKind::Knob { id } => id.clone(),
        FactorKind::Workload { key, label: None } => format!("workload.{key}"),
        FactorKind::Workload { key, label: Some(label) } => format!("workload.{label}.{key}"),
        FactorKind::Setup { key } => key.clone(),
        FactorKind::Companion => "companion".to_owned(),
        FactorKind::Boot { parameter } => format!("boot.{parameter}"),
        FactorKind::Null if factor.name == "null" => "null".to_owned(),
        FactorKind::Null => format!("null.{}", factor.name),
    }
}

/// The short name for tables: the last part, or the layer where that part would say nothing.
pub(crate) fn short_name(id: &str) -> String {
    let id = setup::whole_key(id);
    let id = id.split('@').next().unwrap_or(id);
    match id {
        "array.level" => "level",
        "filesystem.type" => "filesystem",
        "volume.type" => "volume",
        "crypt.type" => "crypt",
        "multipath.policy" => "multipath",
        "mount.options" => "mount",
        // Of a path of the kernel's the name of the file.
        other => other.rsplit(['.', '/']).next().unwrap_or(other),
    }
    .to_owned()
}

/// Puts one level into a cell. Setup keys must come layers first: [`setup::rank`].
///
/// # Errors
/// Why the combination cannot exist.
pub(crate) fn apply(
    cell: &mut Cell,
    factor: &Factor,
    level: &str,
    is_baseline: bool,
) -> Result<(), String> {
    match &factor.sets {
        FactorKind::Knob { id } => {
            cell.knobs.insert(id.clone(), level.to_owned());
        }
        FactorKind::Workload { key, label } => {
            for workload in &mut cell.workloads {
                if label.as_ref().is_none_or(|label| *label == workload.label) {
                    set_workload(workload, key, level);
                }
            }
        }
        FactorKind::Setup { key } => return apply_setup(cell, key, level, is_baseline),
        FactorKind::Companion => {
            cell.companion = (level != "none").then(|| level.to_owned());
        }
        FactorKind::Boot { parameter } => {
            cell.boot.insert(parameter.clone(), level.to_owned());
        }
        FactorKind::Null => {}
    }
    Ok(())
}

/// Where a key means nothing, the cell is measured once, as if with the baseline's level.
fn apply_setup(cell: &mut Cell, key: &str, level: &str, is_baseline: bool) -> Result<(), String> {
    match setup::inapplicable(&cell.setup, key) {
        Some(_) if is_baseline => Ok(()),
        Some(reason) => Err(format!("{reason}; measured once, with the first level")),
        None => setup::set(&mut cell.setup, key, level)
            .map_err(|reason| format!("{key} = {level}: {reason}")),
    }
}

/// Sets one key of a workload: its target, or a setting of its jobs, or a word of its command.
pub(crate) fn set_workload(workload: &mut PlanWorkload, key: &str, value: &str) {
    if key == "target" {
        workload.target = Some(value.to_owned());
    } else {
        workload.settings.insert(key.to_owned(), value.to_owned());
    }
}

/// Puts settings into the places that a command has for them, and what is said of its time: `--threads={threads}`.
pub(crate) fn fill_command(workload: &mut PlanWorkload) {
    let Some(command) = &mut workload.command else { return };
    if let Some(mut takes) = workload.settings.remove("takes") {
        for (key, value) in &workload.settings {
            takes = takes.replace(&format!("{{{key}}}"), value);
        }
        workload.settings.insert("takes".to_owned(), takes);
    }
    workload.settings.retain(|key, value| {
        let place = format!("{{{key}}}");
        let has_place = command.contains(&place);
        if has_place {
            *command = command.replace(&place, value);
        }
        !has_place
    });
}
