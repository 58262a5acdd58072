//! Which figure of a command an objective is about, and in which direction it gets better.

use crate::PlanError;
use crate::doc::Section;
use fathom_base::order::Order;
use fathom_base::suggest;
use fathom_model::plan::{Metric, Objective, PlanWorkload};

/// The figure of a command that names none.
const WITHOUT: &str = "runs_per_hour";

/// `figure` and `better` of an objective.
///
/// # Errors
/// No command has that figure, or the metric is none of a command's.
pub fn read(
    section: &mut Section,
    objective: &mut Objective,
    workloads: &[PlanWorkload],
) -> Result<(), PlanError> {
    let (figure, better) = (section.take("figure"), section.take("better"));
    if objective.metric != Metric::Application {
        let item = figure.as_ref().or(better.as_ref());
        let reason = "only figures that a command prints have names, and a direction that must be said: metric = \"application\"";
        return item.map_or(Ok(()), |item| Err(item.refuse(reason)));
    }
    if let Some(item) = figure {
        let name = item.words()?;
        let lacks = |one: &&PlanWorkload| !names(one).contains(&name.as_str());
        let Some(owner) = workloads.iter().find(|one| !lacks(one)) else {
            let near = suggest::hint(&name, workloads.iter().flat_map(names));
            let list = format!("; there are {}", list(workloads));
            let hint = if near.is_empty() { list } else { near };
            return Err(item.refuse(format!("no command has a figure.{name}{hint}")));
        };
        if let Some(other) = of(objective, workloads).find(lacks) {
            let place = if objective.workload.is_some() { "instead" } else { "beside it" };
            let reason = format!(
                "'{}' has no such figure: write workload = \"{}\" {place}",
                other.label, owner.label
            );
            return Err(item.refuse(reason));
        }
        objective.figure = Some(name);
    }
    if let Some(item) = better {
        objective.is_less_better = item.one_of(&[("more", false), ("less", true)])?;
    }
    Ok(())
}

/// Why it is open which figure decides; none when it is clear.
pub fn open(objective: &Objective, workloads: &[PlanWorkload]) -> Option<String> {
    if objective.metric != Metric::Application || objective.figure.is_some() {
        return None;
    }
    let first = of(objective, workloads).find(|one| !names(one).is_empty())?;
    let (told, names) = match of(objective, workloads).find(|one| names(one).len() > 1) {
        Some(several) => {
            (format!("the command of '{}' has several figures", several.label), names(several))
        }
        // There is no mean of what is counted in different units, and perhaps in different directions.
        None => ("the commands have different figures".to_owned(), names_of(objective, workloads)),
    };
    if names.len() < 2 {
        return None;
    }
    let owner = of(objective, workloads).find(|one| self::names(one).contains(&names[0]));
    let label = match workloads.len() {
        1 => String::new(),
        _ => format!("workload = \"{}\"\n", owner.unwrap_or(first).label),
    };
    Some(format!(
        "{told} ({}), and nothing says which of them decides and in which direction it gets better. Write, \
         the most important first:\n[[objective]]\nmetric = \"application\"\n{label}figure = \"{}\"\nbetter = \"more\"   # or \"less\"",
        names.join(", "),
        names[0]
    ))
}

/// Both are about the same figure, and each wants another direction. The only workload and the only figure need not be named.
pub fn contradicts(one: &Objective, other: &Objective, workloads: &[PlanWorkload]) -> bool {
    let key = |objective: &Objective| {
        let mut meant = of(objective, workloads);
        let only = meant.next().filter(|_| meant.next().is_none());
        let figure = objective.figure.clone().or_else(|| Some((*names(only?).first()?).to_owned()));
        (objective.metric, figure, only.map(|only| only.label.clone()))
    };
    one.is_less_better != other.is_less_better && key(one) == key(other)
}

/// The workloads that an objective is about.
fn of<'a>(
    objective: &'a Objective,
    workloads: &'a [PlanWorkload],
) -> impl Iterator<Item = &'a PlanWorkload> {
    let is_meant =
        |one: &&PlanWorkload| objective.workload.as_ref().is_none_or(|label| *label == one.label);
    workloads.iter().filter(is_meant)
}

/// The figures of all commands; of several with their labels.
fn list(workloads: &[PlanWorkload]) -> String {
    let commands: Vec<&PlanWorkload> =
        workloads.iter().filter(|one| !names(one).is_empty()).collect();
    let one = |one: &&PlanWorkload| {
        let names = names(one).join(", ");
        if commands.len() == 1 { names } else { format!("{names} of '{}'", one.label) }
    };
    commands.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// All figures of those of them that are commands.
fn names_of<'a>(objective: &'a Objective, workloads: &'a [PlanWorkload]) -> Vec<&'a str> {
    let mut all: Vec<&str> = of(objective, workloads).flat_map(names).collect();
    all.order();
    all.dedup();
    all
}

/// The figures of a command in the order of the alphabet; none of other workloads.
fn names(workload: &PlanWorkload) -> Vec<&str> {
    let mut names: Vec<&str> =
        workload.settings.keys().filter_map(|key| key.strip_prefix("figure.")).collect();
    names.order();
    if names.is_empty() && workload.command.is_some() {
        names.push(WITHOUT);
    }
    names
}
