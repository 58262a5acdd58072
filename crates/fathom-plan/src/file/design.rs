//! `[design]`: which combinations, how often, in which order.

use crate::doc::{Item, Section};
use crate::{PlanError, factor};
use fathom_base::suggest;
use fathom_model::plan::{Design, DesignKind, Factor, FactorKind, Plan};
use std::collections::BTreeMap;

const KEYS: [&str; 12] = [
    "kind",
    "baseline",
    "except",
    "blocks",
    "sequential",
    "sentinel",
    "margin",
    "seed",
    "group_setups",
    "rotate",
    "resolution",
    "narrow_to",
];

const KINDS: [(&str, DesignKind); 5] = [
    ("full", DesignKind::Full),
    ("one-at-a-time", DesignKind::OneAtATime),
    ("fractional", DesignKind::Fractional),
    ("screening", DesignKind::Screening),
    ("narrowing", DesignKind::Narrowing),
];

/// From so many cells on a block has sentinels unless the plan says otherwise; below, the baseline comes often enough.
const SENTINEL_CELLS: usize = 6;

/// What holds when nothing is said.
pub fn default_design() -> Design {
    Design {
        kind: DesignKind::Full,
        baseline: BTreeMap::new(),
        except: Vec::new(),
        blocks: 12,
        is_sequential: true,
        has_sentinel: false,
        margin: 0.03,
        seed: None,
        groups_setups: false,
        rotates_places: false,
        resolution: None,
        narrow_to: None,
    }
}

/// Reads it, for a plan whose factors are known.
pub fn read(root: &mut Section, plan: &Plan) -> Result<Design, PlanError> {
    let mut design = default_design();
    let builds = |factor: &Factor| matches!(factor.sets, FactorKind::Setup { .. });
    design.groups_setups = plan.factors.iter().any(builds);
    let mut wants_sentinel = None;
    if let Some(item) = root.take("design") {
        let mut section = item.table()?;
        wants_sentinel = section.take("sentinel").map(|item| item.flag()).transpose()?;
        read_fields(&mut section, &mut design)?;
        if let Some(item) = section.take("baseline") {
            design.baseline = levels(item.table()?, &plan.factors)?;
        }
        if let Some(item) = section.take("except") {
            for table in item.tables()? {
                let pattern = levels(table, &plan.factors)?;
                if pattern.is_empty() {
                    return Err(item.refuse_key("an empty exception would leave out everything"));
                }
                design.except.push(pattern);
            }
        }
        section.finish(&KEYS)?;
    }
    let asked = Plan { design: design.clone(), ..plan.clone() };
    let cells = crate::cells(&asked)?;
    let possible = cells.iter().filter(|cell| cell.impossible.is_none()).count();
    design.has_sentinel = wants_sentinel.unwrap_or(possible >= SENTINEL_CELLS);
    Ok(design)
}

fn read_fields(section: &mut Section, design: &mut Design) -> Result<(), PlanError> {
    if let Some(item) = section.take("kind") {
        design.kind = item.one_of(&KINDS)?;
    }
    if let Some(item) = section.take("blocks") {
        design.blocks = item.count(1, 1000)? as u32;
    }
    if let Some(item) = section.take("sequential") {
        design.is_sequential = item.flag()?;
    }
    if let Some(item) = section.take("margin") {
        design.margin = match item.share()? {
            share if share > 0.0 && share <= 0.5 => share,
            _ => return Err(item.refuse("must be above 0 and at most 50%")),
        };
    }
    if let Some(item) = section.take("seed") {
        design.seed = Some(item.count(0, u64::MAX)?);
    }
    if let Some(item) = section.take("group_setups") {
        design.groups_setups = item.flag()?;
    }
    if let Some(item) = section.take("rotate") {
        design.rotates_places = item.flag()?;
    }
    if let Some(item) = section.take("resolution") {
        if design.kind != DesignKind::Fractional {
            return Err(item.refuse("belongs to kind = \"fractional\""));
        }
        design.resolution = Some(item.count(3, 4)? as u8);
    }
    if let Some(item) = section.take("narrow_to") {
        if design.kind != DesignKind::Narrowing {
            return Err(item.refuse("belongs to kind = \"narrowing\""));
        }
        design.narrow_to = match item.share()? {
            share if share > 0.0 => Some(share),
            _ => return Err(item.refuse("must be above 0")),
        };
    }
    Ok(())
}

/// Levels by factor, as `scheduler = "none"` or with the whole name of the factor.
pub fn levels(section: Section, factors: &[Factor]) -> Result<BTreeMap<String, String>, PlanError> {
    let mut levels = BTreeMap::new();
    for (name, item) in section.leaves(|_| false) {
        let whole = crate::setup::whole_key(&name);
        let is_meant = |factor: &&Factor| factor.name == name || factor::id_of(factor) == whole;
        let Some(factor) = factors.iter().find(is_meant) else {
            let names = factors.iter().map(|factor| factor.name.as_str());
            let near = suggest::hint(&name, names.clone());
            let list = names.collect::<Vec<_>>().join(", ");
            return Err(item.refuse_key(format!("no such factor{near}; there are: {list}")));
        };
        let level = level(&item, factor)?;
        levels.insert(factor.name.clone(), level);
    }
    Ok(levels)
}

fn level(item: &Item, factor: &Factor) -> Result<String, PlanError> {
    let level = item.scalar()?;
    if factor.levels.contains(&level) {
        return Ok(level);
    }
    let near = suggest::hint(&level, factor.levels.iter().map(String::as_str));
    let list = factor.levels.join(", ");
    Err(item.refuse(format!("is no level of {}{near}; they are: {list}", factor.name)))
}
