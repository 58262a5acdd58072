//! What a plan may name and this crate does not know: knobs, and workload files.

use crate::file_server;
use fathom_model::builtin;
use fathom_model::plan::PlanWorkload;
use fathom_model::workload::Workload;

/// Says whether names and values of a plan exist. Errors are reasons with a cure, without the name of the key.
pub trait Known {
    /// Whether there is such a knob; without a selector such as `@sda`.
    ///
    /// # Errors
    /// That there is none, and the nearest.
    fn knob(&self, id: &str) -> Result<(), String>;

    /// Whether the knob takes the value on some machine.
    ///
    /// # Errors
    /// What it takes instead.
    fn knob_value(&self, id: &str, value: &str) -> Result<(), String>;

    /// A value of the knob as the kernel takes it, without a unit: two levels may be the same one.
    fn in_unit(&self, _id: &str, value: &str) -> String {
        value.to_owned()
    }

    /// The workload with its settings; [`workload_of`] does it for the built-in ones.
    ///
    /// # Errors
    /// What is wrong with its name or its settings.
    fn workload(&self, workload: &PlanWorkload) -> Result<(), String>;
}

/// Knows the built-in workloads and takes every knob: for tools and tests that have no registry at hand.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unchecked;

impl Known for Unchecked {
    fn knob(&self, _id: &str) -> Result<(), String> {
        Ok(())
    }

    fn knob_value(&self, _id: &str, _value: &str) -> Result<(), String> {
        Ok(())
    }

    fn workload(&self, workload: &PlanWorkload) -> Result<(), String> {
        workload_of(workload, None).map(|_| ())
    }
}

/// The workload that is issued: a built-in one, or `file` (the parsed file that `name` is the path of), with the settings;
/// `phase` chooses one of several. None for a command, and for a file server or a personality, whose settings are checked all the same.
///
/// # Errors
/// An unknown name or key (with the nearest), a value that does not fit, settings that contradict each other.
pub fn workload_of(
    workload: &PlanWorkload,
    file: Option<Workload>,
) -> Result<Option<Workload>, String> {
    let Some(name) = &workload.name else { return Ok(None) };
    if file_server::is_one(workload) {
        return file_server::spec(workload).map(|_| None);
    }
    let mut made = match file {
        Some(file) => file,
        None => builtin::named(name).map_err(|error| error.to_string())?,
    };
    let mut settings = workload.settings.clone();
    if let Some(phase) = settings.remove("phase") {
        made.keep_phases(&[phase]).map_err(|error| error.to_string())?;
    }
    let phases = made.phases();
    if phases.len() > 1 {
        let (list, first) = (phases.join(", "), phases[0]);
        return Err(format!("has the phases {list}; a trial measures one: phase = \"{first}\""));
    }
    let settings: Vec<(String, String)> = settings.into_iter().collect();
    made.apply(&settings).and_then(|()| made.check()).map_err(|error| error.to_string())?;
    Ok(Some(made))
}
