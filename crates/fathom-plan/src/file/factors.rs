//! `[factors]`: what varies, and through which levels.

use crate::doc::{Item, Section};
use crate::factor::{self, COMPANIONS};
use crate::{Known, PlanError, file_server, setup};
use fathom_base::{suggest, units};
use fathom_model::keys;
use fathom_model::plan::setup::SetupSpec;
use fathom_model::plan::{Factor, FactorKind, OwnKnob, PlanWorkload};
use fathom_model::workload::Job;

/// Most levels of one factor.
const LEVELS_MAX: usize = 256;

/// `{ levels = [...], name = "..." }`: a factor with more said about it.
pub fn is_detail(section: &Section) -> bool {
    section.has("levels")
}

/// Reads all factors, in the order of the file; each level is checked by itself.
pub fn read(
    root: &mut Section,
    workloads: &[PlanWorkload],
    own: &[OwnKnob],
    builds_filesystem: bool,
    known: &dyn Known,
) -> Result<Vec<Factor>, PlanError> {
    let Some(item) = root.take("factors") else { return Ok(Vec::new()) };
    let labels: Vec<&str> = workloads.iter().map(|workload| workload.label.as_str()).collect();
    let mut factors: Vec<Factor> = Vec::new();
    for (id, item) in item.table()?.leaves(is_detail) {
        let sets = factor::kind_of(&id, &labels, builds_filesystem);
        let (name, items) = parts(&id, &item)?;
        let levels = read_levels(&item, &items, &sets, known)?;
        let checker = Checker { workloads, own, known };
        checker.kind(&sets, &item)?;
        for (level, item) in levels.iter().zip(&items) {
            checker.level(&sets, level).map_err(|reason| item.refuse(reason))?;
        }
        let factor = Factor { name, sets, levels };
        if let Some(other) =
            factors.iter().find(|other| other.sets == factor.sets && other.sets != FactorKind::Null)
        {
            let reason = format!("is there twice, first as '{}'", factor::id_of(other));
            return Err(item.refuse_key(reason));
        }
        if factors.iter().any(|other| other.name == factor.name) {
            let reason = format!(
                "another factor is called '{0}' too; give this one a name: \"{id}\" = {{ name = \"...\", levels = [...] }}",
                factor.name
            );
            return Err(item.refuse_key(reason));
        }
        factors.push(factor);
    }
    Ok(factors)
}

/// Name and levels of a factor.
fn parts<'a>(id: &str, item: &Item<'a>) -> Result<(String, Vec<Item<'a>>), PlanError> {
    let Some(mut section) = item.section() else {
        return Ok((factor::short_name(id), item.list()));
    };
    let name = section.take("name").map(|item| item.words()).transpose()?;
    let levels = section.take("levels").map(|item| item.list()).unwrap_or_default();
    section.finish(&["name", "levels"])?;
    Ok((name.unwrap_or_else(|| factor::short_name(id)), levels))
}

fn read_levels(
    item: &Item,
    items: &[Item],
    sets: &FactorKind,
    known: &dyn Known,
) -> Result<Vec<String>, PlanError> {
    let levels: Vec<String> = items.iter().map(Item::scalar).collect::<Result<_, _>>()?;
    let levels: Vec<String> = levels.into_iter().map(|level| level.trim().to_owned()).collect();
    if levels.len() < 2 {
        let home = match sets {
            FactorKind::Knob { .. } => "[knobs]",
            FactorKind::Workload { .. } => "[[workload]]",
            FactorKind::Setup { .. } => "[setup]",
            _ => "nowhere",
        };
        let home =
            if home == "nowhere" { String::new() } else { format!(", or move it to {home}") };
        let reason = match levels.len() {
            0 => "has no levels; give two or more".to_owned(),
            _ => format!("varies nothing with 1 level; give two or more{home}"),
        };
        return Err(item.refuse_key(reason));
    }
    if levels.len() > LEVELS_MAX {
        return Err(item.refuse_key(format!("has more than {LEVELS_MAX} levels")));
    }
    for (at, level) in levels.iter().enumerate() {
        if level.is_empty() {
            return Err(items[at].refuse("a level must not be empty"));
        }
        let is_text =
            matches!(sets, FactorKind::Companion | FactorKind::Null | FactorKind::Boot { .. });
        let in_unit = |level: &str| match sets {
            FactorKind::Knob { id } => known.in_unit(id.split('@').next().unwrap_or(id), level),
            _ => level.to_owned(),
        };
        let is_same = |other: &&String| {
            *other == level || !is_text && mean_the_same(&in_unit(other), &in_unit(level))
        };
        if let Some(other) = levels[..at].iter().find(is_same) {
            let reason = match other == level {
                true => "is there twice".to_owned(),
                false => format!("the level {other} means the same; leave out one of them"),
            };
            return Err(items[at].refuse(reason));
        }
    }
    Ok(levels)
}

/// `4k` and `4096`, `60s` and `1m`, `20%` and `0.2`.
fn mean_the_same(a: &str, b: &str) -> bool {
    fn same<T: PartialEq, E>(parse: fn(&str) -> Result<T, E>, a: &str, b: &str) -> bool {
        matches!((parse(a), parse(b)), (Ok(a), Ok(b)) if a == b)
    }
    same(units::parse_size, a, b)
        || same(units::parse_duration_ns, a, b)
        || same(units::parse_fraction, a, b)
}

/// What single levels are checked against.
struct Checker<'a> {
    workloads: &'a [PlanWorkload],
    own: &'a [OwnKnob],
    known: &'a dyn Known,
}

impl Checker<'_> {
    /// That there is such a thing to vary.
    fn kind(&self, sets: &FactorKind, item: &Item) -> Result<(), PlanError> {
        match sets {
            FactorKind::Knob { id } if keys::KEYS.iter().any(|entry| entry.name == id) => {
                let reason = format!("is a setting of workloads; as a factor: workload.{id}");
                Err(item.refuse_key(reason))
            }
            FactorKind::Knob { id } => {
                check_knob(id, self.own, self.known).map_err(|reason| item.refuse_key(reason))
            }
            FactorKind::Workload { key, label } => self.workload_key(key, label.as_deref(), item),
            FactorKind::Boot { parameter } if parameter.is_empty() => {
                Err(item.refuse_key("names no parameter; write boot.kernel or boot.PARAMETER"))
            }
            FactorKind::Boot { parameter }
                if parameter.contains(|c: char| " \t\n=\"".contains(c)) =>
            {
                let reason = "no parameter has such a name: the kernel's command line has NAME=LEVEL, in words";
                Err(item.refuse_key(reason))
            }
            _ => Ok(()),
        }
    }

    fn workload_key(&self, key: &str, label: Option<&str>, item: &Item) -> Result<(), PlanError> {
        for workload in self.workloads.iter().filter(|w| label.is_none_or(|l| l == w.label)) {
            let is_set = match key {
                "target" => workload.target.is_some(),
                key => workload.settings.contains_key(key) && workload.command.is_none(),
            };
            if is_set {
                return Err(item.refuse_key(format!(
                    "workload '{}' sets {key} itself; leave it out there",
                    workload.label
                )));
            }
        }
        let of_commands = self.workloads.iter().filter_map(|workload| workload.command.as_ref());
        let place = format!("{{{key}}}");
        let is_word = of_commands.clone().any(|command| command.contains(&place));
        let meant = || self.workloads.iter().filter(|w| label.is_none_or(|l| l == w.label));
        let has_jobs = meant().any(|workload| workload.name.is_some());
        let known = key.rsplit('.').next().unwrap_or(key);
        let has_key = |workload: &PlanWorkload| match file_server::has_key(workload, known) {
            Some(has) => has,
            None => {
                let is_key = known == "phase" || keys::KEYS.iter().any(|entry| entry.name == known);
                workload.name.is_some() && is_key
            }
        };
        if is_word || meant().any(has_key) {
            return Ok(());
        }
        let names = keys::KEYS.iter().map(|entry| entry.name);
        let names: Vec<&str> = names.chain(meant().flat_map(file_server::keys_of)).collect();
        let labels = self.workloads.iter().map(|workload| workload.label.as_str());
        let near = suggest::hint(known, names.into_iter().chain(labels));
        let reason = match has_jobs {
            true => format!("workloads have no such key{near}"),
            false => format!("the command has no place {place} for it"),
        };
        Err(item.refuse_key(reason))
    }

    /// That one level is a value of its kind.
    fn level(&self, sets: &FactorKind, level: &str) -> Result<(), String> {
        match sets {
            FactorKind::Knob { id } => check_knob_value(id, level, self.own, self.known),
            FactorKind::Workload { key, label } => {
                let own = key.rsplit('.').next().unwrap_or(key);
                let meant = |w: &&PlanWorkload| label.as_ref().is_none_or(|l| *l == w.label);
                for workload in self.workloads.iter().filter(meant) {
                    file_server::level(workload, own, level)?;
                }
                let is_key = keys::KEYS.iter().any(|entry| entry.name == own);
                let has_jobs =
                    |w: &PlanWorkload| w.name.is_some() && file_server::has_key(w, own).is_none();
                let is_of_job = self.workloads.iter().filter(meant).any(has_jobs);
                if !is_key || !is_of_job || own == "target" {
                    return Ok(());
                }
                // The key's name stands before it already.
                let strip = |error: keys::KeyError| match error {
                    keys::KeyError::Value { reason, .. } => reason,
                    other => other.to_string(),
                };
                keys::set(&mut Job::default(), own, level).map_err(strip)
            }
            FactorKind::Setup { key } => level_of_setup(key, level),
            FactorKind::Companion => {
                let near = suggest::nearest(level, COMPANIONS).filter(|near| *near != level);
                match near.filter(|_| !level.contains(['/', ' '])) {
                    Some(near) => Err(format!(
                        "is no companion; did you mean '{near}'? (a program needs its whole path)"
                    )),
                    None => Ok(()),
                }
            }
            FactorKind::Boot { .. } | FactorKind::Null => Ok(()),
        }
    }
}

/// The form of a value, on a setup that has every layer.
fn level_of_setup(key: &str, level: &str) -> Result<(), String> {
    let mut every = SetupSpec::default();
    for (layer, kind) in [
        ("multipath.policy", "multibus"),
        ("array.level", "raid5"),
        ("volume.type", "linear"),
        ("crypt.type", "luks2"),
        ("filesystem.type", "ext4"),
    ] {
        setup::set(&mut every, layer, kind)?;
    }
    setup::set(&mut every, key, level)
}

/// That a knob exists: one of the registry, or one of the plan's own.
pub fn check_knob(id: &str, own: &[OwnKnob], known: &dyn Known) -> Result<(), String> {
    let (bare, selector) = id.split_once('@').map_or((id, None), |(bare, at)| (bare, Some(at)));
    if selector.is_some_and(|at| at.is_empty() || at.contains(char::is_whitespace)) {
        return Err("after @ stands which devices it is for: @sda, @members, @top".to_owned());
    }
    if let Some(name) = bare.strip_prefix("own.") {
        if own.iter().any(|knob| knob.name == name) {
            return Ok(());
        }
        let near = suggest::hint(name, own.iter().map(|knob| knob.name.as_str()));
        return Err(format!("no [[own_knob]] is called '{name}'{near}"));
    }
    known.knob(bare).map_err(|reason| {
        // Keys of setups are factors by themselves where something is built; this one is not.
        if setup::is_key(bare) {
            return format!(
                "'{bare}' is an option of what is built: it takes a [setup] with a filesystem"
            );
        }
        let words = ["companion", "null", "filesystem", "array", "volume"];
        let keys = setup::SETUP_KEYS.iter().map(|key| key.name).chain(words);
        match suggest::nearest(bare, keys) {
            Some(near) if !reason.contains("did you mean") => {
                format!("neither a knob nor a part of a setup; did you mean '{near}'?")
            }
            _ => reason,
        }
    })
}

/// That a knob takes a value.
pub fn check_knob_value(
    id: &str,
    value: &str,
    own: &[OwnKnob],
    known: &dyn Known,
) -> Result<(), String> {
    let bare = id.split('@').next().unwrap_or(id);
    let Some(name) = bare.strip_prefix("own.") else { return known.knob_value(bare, value) };
    let Some(knob) = own.iter().find(|knob| knob.name == name) else { return Ok(()) };
    if knob.values.iter().any(|legal| legal == value) {
        return Ok(());
    }
    Err(format!("[[own_knob]] {name} takes {}", knob.values.join(", ")))
}
