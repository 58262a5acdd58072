//! `[[workload]]`: what is issued in each trial.

use crate::doc::{Item, Section};
use crate::figure::Figure;
use crate::{Known, PlanError};
use fathom_base::suggest;
use fathom_model::plan::PlanWorkload;

/// Reads all of them; each is checked by itself.
pub fn read(root: &mut Section, known: &dyn Known) -> Result<Vec<PlanWorkload>, PlanError> {
    let Some(item) = root.take("workload") else {
        let reason = "measures nothing; write for example:  [[workload]]  use = \"randread\"  duration = \"30s\"";
        return Err(PlanError::new(reason));
    };
    let mut workloads: Vec<PlanWorkload> = Vec::new();
    for section in item.tables()? {
        let workload = read_one(section, known)?;
        if workloads.iter().any(|other| other.label == workload.label) {
            let reason = format!(
                "two workloads are called '{}'; give each a label = \"...\" of its own",
                workload.label
            );
            return Err(item.refuse_key(reason));
        }
        workloads.push(workload);
    }
    if workloads.is_empty() {
        return Err(item.refuse_key("there is none"));
    }
    Ok(workloads)
}

fn read_one(mut section: Section, known: &dyn Known) -> Result<PlanWorkload, PlanError> {
    let source = section.take("use");
    let program = section.take("command");
    let name = source.as_ref().map(Item::words).transpose()?;
    let command = program.as_ref().map(Item::words).transpose()?;
    let label = match (section.take("label"), &name) {
        (Some(item), _) => label(&item)?,
        (None, Some(name)) => {
            let stem = name.rsplit('/').next().unwrap_or(name);
            stem.trim_end_matches(".toml").replace('.', "-")
        }
        (None, None) => "application".to_owned(),
    };
    let target = section.take("target").map(|item| super::workload_target(&item)).transpose()?;
    if name.is_some() == command.is_some() {
        let reason = match name {
            Some(_) => "use and command exclude each other; write two workloads",
            None => {
                "needs use = \"randread\" (fathom workloads lists them, or a file) or command = \"...\""
            }
        };
        let missing = section.refuse(reason);
        // A slip of the finger in the word itself.
        let mistyped = section.leaves(|_| false).into_iter().find_map(|(key, item)| {
            let near = suggest::nearest(&key, ["use", "command"]).filter(|_| name.is_none())?;
            Some(item.refuse_key(format!("unknown key; did you mean '{near}'?")))
        });
        return Err(mistyped.unwrap_or(missing));
    }
    let mut workload = PlanWorkload { label, name, command, settings: Default::default(), target };
    let items = section.leaves(|_| false);
    for (key, item) in &items {
        workload.settings.insert(key.clone(), item.scalar()?);
    }
    check(&workload, &items, known, source.as_ref().or(program.as_ref()))?;
    Ok(workload)
}

fn label(item: &Item) -> Result<String, PlanError> {
    let label = item.words()?;
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if label.chars().all(is_fine) {
        return Ok(label);
    }
    Err(item.refuse("a label has letters, digits, - and _"))
}

fn check(
    workload: &PlanWorkload,
    items: &[(String, Item)],
    known: &dyn Known,
    source: Option<&Item>,
) -> Result<(), PlanError> {
    if let Some(command) = &workload.command {
        return items.iter().try_for_each(|(key, item)| check_of_command(command, key, item));
    }
    known.workload(workload).map_err(|reason| {
        let about = items.iter().find(|(key, _)| reason.starts_with(&format!("{key}=")));
        let unknown =
            items.iter().find(|(key, _)| reason.starts_with(&format!("unknown key '{key}'")));
        match (about.or(unknown), source) {
            // The key's name stands before it already.
            (Some((key, item)), _) => match reason.strip_prefix(&format!("{key}=")) {
                Some(rest) => item.refuse(rest.split_once(": ").map_or(rest, |(_, why)| why)),
                None if key == "repeats" || key == "seed" => item.refuse_key(format!(
                    "unknown key; an experiment has {} under [design]",
                    if key == "seed" { "one seed" } else { "blocks, which repeat all trials," }
                )),
                None => item.refuse(reason),
            },
            (None, Some(source)) => source.refuse(reason),
            (None, None) => PlanError::new(reason),
        }
    })
}

/// A setting of a command: a word of it, how long it takes and may take, or a figure that it prints.
fn check_of_command(command: &str, key: &str, item: &Item) -> Result<(), PlanError> {
    if command.contains(&format!("{{{key}}}")) {
        return Ok(());
    }
    if key == "timeout" {
        return match item.duration()? {
            0 => Err(item.refuse("no command ends in no time; leave it out for the longest")),
            _ => Ok(()),
        };
    }
    // What is in it may come from a factor; it is looked at where it is whole.
    if key == "takes" {
        return item.words().map(|_| ());
    }
    if key.strip_prefix("figure.").is_some_and(|name| !name.is_empty()) {
        return Figure::parse(&item.scalar()?).map(|_| ()).map_err(|wrong| item.refuse(wrong));
    }
    Err(item.refuse_key(format!(
        "commands take timeout, takes, figure.NAME, and what has a place such as {{{key}}} in them"
    )))
}
