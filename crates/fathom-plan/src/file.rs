//! Plan files: TOML as people write it, into a plan in which everything is checked that the machine is not needed for.

mod application;
mod check;
mod design;
mod factors;
mod rest;
mod workloads;

use crate::doc::{Item, Section};
use crate::{Known, PlanError};
use crate::{doc, setup};
use fathom_base::order::Order;
use fathom_model::plan::setup::SetupSpec;
use fathom_model::plan::{Factor, FactorKind, OnError, PLAN_VERSION, Plan};
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// Top-level keys.
const KEYS: [&str; 17] = [
    "name",
    "question",
    "target",
    "together",
    "on_error",
    "parameters",
    "workload",
    "factors",
    "setup",
    "knobs",
    "own_knob",
    "design",
    "objective",
    "prepare",
    "budget",
    "hypothesis",
    "version",
];

/// Reads and checks a plan file; `origin` is its path, for messages.
///
/// # Errors
/// The first thing that is wrong, with its line, and what would do.
pub fn read(text: &str, origin: &str, known: &dyn Known) -> Result<Plan, PlanError> {
    let read = || {
        let table = doc::parse(text)?;
        read_table(text, &table, origin, known).map_err(|error| {
            let line = error.key.as_ref().and_then(|key| line_of(text, &table, key));
            line.into_iter().fold(error, PlanError::at_line)
        })
    };
    read().map_err(|error| error.in_file(origin))
}

fn read_table<'a>(
    text: &'a str,
    table: &'a DeTable<'a>,
    origin: &str,
    known: &dyn Known,
) -> Result<Plan, PlanError> {
    let mut root = Section::root(text, table);
    check_version(&mut root)?;
    // For those who fill it in; a place that is not filled is found where it stands.
    root.take("parameters");
    refuse_places(&root)?;
    let name = name(&mut root, origin)?;
    let question = root.take("question").map(|item| item.words()).transpose()?.ok_or_else(|| {
        PlanError::new("says no question; write for example: question = \"Which scheduler suits this load?\"")
    })?;
    let target = root.take("target").map(|item| target(&item)).transpose()?;
    let is_together = root.take("together").map(|item| item.flag()).transpose()?.unwrap_or(false);
    let on_error = root
        .take("on_error")
        .map(|item| item.one_of(&[("stop", OnError::Stop), ("continue", OnError::Continue)]));
    let own_knobs = rest::own_knobs(&mut root)?;
    let workloads = workloads::read(&mut root, known)?;
    let builds_filesystem = mentions_filesystem(&root);
    let factors = factors::read(&mut root, &workloads, &own_knobs, builds_filesystem, known)?;
    let setup = read_setup(&mut root, &factors)?;
    let knobs = rest::knobs(&mut root, &own_knobs, known)?;
    let mut plan = Plan {
        version: PLAN_VERSION,
        name,
        question,
        hypothesis: None,
        target,
        workloads,
        is_together,
        factors,
        setup,
        knobs,
        own_knobs,
        design: design::default_design(),
        objectives: Vec::new(),
        prepare: rest::prepare(&mut root)?,
        budget: rest::budget(&mut root)?,
        on_error: on_error.transpose()?.unwrap_or(OnError::Stop),
        footing: Vec::new(),
    };
    plan.design = design::read(&mut root, &plan)?;
    plan.objectives = rest::objectives(&mut root, &plan)?;
    plan.hypothesis = rest::hypothesis(&mut root, &plan)?;
    root.finish(&KEYS)?;
    check::check(&plan, known)?;
    Ok(plan)
}

fn check_version(root: &mut Section) -> Result<(), PlanError> {
    let Some(item) = root.take("version") else { return Ok(()) };
    let newest = u64::from(PLAN_VERSION);
    match item.count(1, u64::MAX)? {
        version if version <= newest => Ok(()),
        _ => Err(item
            .refuse(format!("this fathom reads plans up to version {newest}; take a newer one"))),
    }
}

fn name(root: &mut Section, origin: &str) -> Result<String, PlanError> {
    let is_name = |name: &str| {
        let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        !name.is_empty() && name.len() <= 60 && name.chars().all(is_fine)
    };
    if let Some(item) = root.take("name") {
        let name = item.words()?;
        let reason = "a name has letters, digits, - and _, at most 60";
        return if is_name(&name) { Ok(name) } else { Err(item.refuse(reason)) };
    }
    let stem = Path::new(origin).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    Ok(stem.filter(|stem| is_name(stem)).unwrap_or_else(|| "plan".to_owned()))
}

/// The target of a workload: also a filesystem of the setup.
fn workload_target(item: &Item) -> Result<String, PlanError> {
    let path = item.words()?;
    if path.starts_with(setup::TARGET) { Ok(path) } else { target(item) }
}

fn target(item: &Item) -> Result<String, PlanError> {
    let path = item.words()?;
    let is_path = path.starts_with('/') || path.starts_with("./") || path == ".";
    if is_path || path == "null:" {
        return Ok(path);
    }
    if path.starts_with(setup::TARGET) {
        return Err(
            item.refuse("names a filesystem of [setup], which is the target of a workload only")
        );
    }
    Err(item.refuse(
        "must be a path that starts with / (a directory, a file or a block device), or \"null:\" (no storage)",
    ))
}

/// True when the plan makes a filesystem, so that `mount.` is about that one.
fn mentions_filesystem(root: &Section) -> bool {
    let names = |section: Section| {
        let leaves = section.leaves(factors::is_detail);
        leaves.into_iter().any(|(name, _)| setup::whole_key(&name) == "filesystem.type")
    };
    ["setup", "factors"]
        .into_iter()
        .any(|part| root.clone().take(part).and_then(|item| item.section()).is_some_and(names))
}

/// `[setup]`: devices, and what is built over them as far as no factor says.
fn read_setup(root: &mut Section, factors: &[Factor]) -> Result<SetupSpec, PlanError> {
    let mut spec = SetupSpec::default();
    // A layer whose kind is a factor is there for what belongs to it.
    for factor in factors {
        let FactorKind::Setup { key } = &factor.sets else { continue };
        let level = factor.levels.iter().find(|level| *level != "none");
        if let Some(level) = level.filter(|_| setup::LAYERS.contains(&key.as_str())) {
            setup::set(&mut spec, key, level).map_err(PlanError::new)?;
        }
    }
    let Some(item) = root.take("setup") else { return Ok(spec) };
    let mut section = item.table()?;
    if let Some(devices) = section.take("devices") {
        spec.devices = read_devices(&devices)?;
    }
    let mut leaves = section.leaves(|_| false);
    leaves.order_by_key(|(name, _)| setup::rank(setup::whole_key(name)));
    for (name, item) in leaves {
        let key = setup::whole_key(&name);
        let varies =
            |factor: &Factor| matches!(&factor.sets, FactorKind::Setup { key: k } if k == key);
        if factors.iter().any(varies) {
            return Err(item.refuse(format!("the factor {key} varies it; leave it out here")));
        }
        let words: Vec<String> = item.list().iter().map(Item::scalar).collect::<Result<_, _>>()?;
        let glue = if key == "filesystem.make_options" { " " } else { "," };
        setup::set(&mut spec, key, &words.join(glue)).map_err(|reason| item.refuse(reason))?;
    }
    Ok(spec)
}

/// Devices; `4 x loop:1GiB` are four.
fn read_devices(item: &Item) -> Result<Vec<String>, PlanError> {
    let mut devices: Vec<String> = Vec::new();
    for item in item.list() {
        let text = item.words()?;
        let (times, device) = match text.split_once('x') {
            Some((times, of)) if of.trim_start().starts_with("loop:") => {
                let times = times.trim().parse().ok().filter(|times| (1..=64).contains(times));
                let reason = "must be such as '4 x loop:1GiB', with 1 to 64 of them";
                (times.ok_or_else(|| item.refuse(reason))?, of.trim().to_owned())
            }
            _ => (1, text),
        };
        setup::device(&device).map_err(|reason| item.refuse(reason))?;
        if device.starts_with('/') && devices.contains(&device) {
            return Err(item.refuse("is listed twice"));
        }
        devices.extend(std::iter::repeat_n(device, times));
    }
    if devices.is_empty() {
        return Err(item.refuse("names no device"));
    }
    Ok(devices)
}

/// A place that a ready-made plan leaves open, such as `<target>`, must have been filled.
fn refuse_places(root: &Section) -> Result<(), PlanError> {
    let mut items: Vec<Item> =
        root.clone().leaves(|_| false).into_iter().map(|(_, item)| item).collect();
    for name in ["workload", "own_knob"] {
        let tables = root.clone().take(name).and_then(|item| item.tables().ok());
        for table in tables.unwrap_or_default() {
            items.extend(table.leaves(|_| false).into_iter().map(|(_, item)| item));
        }
    }
    for item in items.iter().flat_map(Item::list) {
        let Ok(text) = item.scalar() else { continue };
        let place = text.strip_prefix('<').and_then(|text| text.strip_suffix('>'));
        if let Some(place) = place {
            return Err(item.refuse(format!(
                "'{place}' is still to be filled in; write the real one in its place"
            )));
        }
    }
    Ok(())
}

/// The line of a dotted key, or of the longest part of it that is there.
fn line_of(text: &str, table: &DeTable, key: &str) -> Option<usize> {
    let line = |start: usize| text.get(..start).map(|before| before.matches('\n').count() + 1);
    let mut longest: Option<(usize, Option<usize>)> = None;
    for (name, value) in table {
        let name_text = name.get_ref().as_ref();
        let Some(rest) = key.strip_prefix(name_text) else { continue };
        if !rest.is_empty() && !rest.starts_with('.') {
            continue;
        }
        let rest = rest.trim_start_matches('.');
        let below = match value.get_ref() {
            DeValue::Table(below) if !rest.is_empty() => line_of(text, below, rest),
            _ => None,
        };
        let found = below.or_else(|| line(name.span().start));
        if longest.is_none_or(|(length, _)| name_text.len() > length) {
            longest = Some((name_text.len(), found));
        }
    }
    longest.and_then(|(_, line)| line)
}
