//! What `fathom raid` would do, and which arrays of its matrix cannot be built.

use crate::error::LabError;
use crate::experiment::outline::{self, Ground};
use fathom_knobs::Wait;
use fathom_model::plan::Plan;
use fathom_model::plan::cell::Cell;
use fathom_model::plan::outline::{ImpossibleCell, Outline};
use fathom_study::raid::{self, factor};
use serde::Serialize;
use std::collections::BTreeMap;

/// What measuring each member alone takes, before any array.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Alone {
    /// Members.
    pub members: u32,
    /// Trials.
    pub trials: u32,
    /// Expected time, in nanoseconds.
    pub time_ns: u64,
    /// Bytes that will be written.
    pub written_bytes: u64,
}

/// The plans of [`super::plans`] worked out: the matrix, with what the members alone take in its time and bytes, and that by itself; with
/// the first of what stands in the way.
///
/// # Errors
/// [`LabError::Usage`] when there is no array that can be built.
pub fn dry_run(
    ground: &Ground<'_>,
    plans: &[Plan],
) -> Result<(Outline, Alone, Option<LabError>), LabError> {
    let Some((matrix, members)) = plans.split_last() else { return Err(LabError::Interrupted) };
    let cells = cells(matrix)?;
    // It has no commands of anybody's.
    let mut note = |_: &str| ();
    let wait = &mut Wait::to_the_end(&mut note);
    let (mut outline, mut first) = outline::dry_run(ground, matrix, &cells, wait)?;
    for shown in &mut outline.cells {
        let cell = cells.iter().find(|cell| cell.index == shown.index);
        shown.name = cell.map_or_else(|| shown.name.clone(), name);
    }
    outline.impossible = impossible(matrix, &cells);
    let mut alone = Alone::default();
    for plan in members {
        let (own, refused) = outline::dry_run(ground, plan, &self::cells(plan)?, wait)?;
        alone.members += 1;
        alone.trials += own.trials;
        alone.time_ns = alone.time_ns.saturating_add(own.time_ns);
        alone.written_bytes = alone.written_bytes.saturating_add(own.written_bytes.unwrap_or(0));
        first = first.or(refused);
        add_new(&mut outline.refusals, own.refusals);
        add_new(&mut outline.destroyed, own.destroyed);
    }
    outline.time_ns = outline.time_ns.saturating_add(alone.time_ns);
    outline.written_bytes =
        outline.written_bytes.map(|bytes| bytes.saturating_add(alone.written_bytes));
    Ok((outline, alone, first))
}

fn cells(plan: &Plan) -> Result<Vec<Cell>, LabError> {
    fathom_plan::cells(plan).map_err(|error| LabError::Usage(error.to_string()))
}

fn add_new(known: &mut Vec<String>, lines: Vec<String>) {
    for line in lines {
        if !known.contains(&line) {
            known.push(line);
        }
    }
}

/// The arrays of a matrix that cannot be built, with the reason. That each layout is measured at the levels that have it, and levels without
/// layouts or chunks once, is no news.
#[must_use]
pub fn impossible(matrix: &Plan, cells: &[Cell]) -> Vec<ImpossibleCell> {
    let told = cells.iter().filter(|cell| !is_left_out(matrix, cell));
    told.filter_map(|cell| Some(ImpossibleCell { name: name(cell), ..outline::impossible(cell)? }))
        .collect()
}

/// What is wrong with a level of one of these factors that no array of the matrix can have; none where each has one.
#[must_use]
pub fn never(matrix: &Plan, cells: &[Cell], given: &[&str]) -> Option<String> {
    let factors = matrix.factors.iter().filter(|factor| given.contains(&factor.name.as_str()));
    let mut values =
        factors.flat_map(|factor| factor.levels.iter().map(|value| (factor.name.as_str(), value)));
    values.find_map(|(factor, value)| {
        let is_excepted = |except: &BTreeMap<String, String>| except.get(factor) == Some(value);
        let has_it = |cell: &&Cell| level(cell, factor) == Some(value) && has_factor(cell, factor);
        let with: Vec<&Cell> = cells.iter().filter(has_it).collect();
        if with.iter().any(|cell| cell.impossible.is_none())
            || matrix.design.except.iter().any(is_excepted)
        {
            return None;
        }
        let told = with.iter().find(|cell| !is_left_out(matrix, cell)).or(with.first());
        let reason = told.and_then(|cell| cell.impossible.clone());
        let none = || format!("of the levels asked for none has a {factor}");
        Some(format!("--{factor}={value}: {}", reason.unwrap_or_else(none)))
    })
}

/// The level of a factor in a cell.
fn level<'c>(cell: &'c Cell, factor: &str) -> Option<&'c String> {
    cell.levels.iter().find(|(name, _)| name == factor).map(|(_, level)| level)
}

/// False for what the array's level does not have.
fn has_factor(cell: &Cell, factor: &str) -> bool {
    let of = level(cell, factor::LEVEL).map_or("", String::as_str);
    raid::has_factor(of, factor)
}

/// The levels of a cell, but for those of factors that its array does not have.
pub(super) fn name(cell: &Cell) -> String {
    let levels = raid::own_levels(&cell.levels);
    Cell { levels, ..cell.clone() }.name()
}

/// True for a cell that only repeats another one, or has a layout of another level.
fn is_left_out(matrix: &Plan, cell: &Cell) -> bool {
    let is_copies = level(cell, factor::LAYOUT).is_some_and(|layout| {
        let count = layout.strip_prefix(['n', 'o', 'f']);
        count.is_some_and(|count| count.parse::<u32>().is_ok())
    });
    let is_raid10 = level(cell, factor::LEVEL).is_some_and(|level| level == "raid10");
    let repeats = matrix.factors.iter().any(|factor| {
        !has_factor(cell, &factor.name) && level(cell, &factor.name) != factor.levels.first()
    });
    repeats || (has_factor(cell, factor::LAYOUT) && is_raid10 != is_copies)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raid::tests::options;
    use crate::raid::{RaidOptions, plans};
    use fathom_guard::{Consent, Protected};
    use fathom_study::raid::State;
    use fathom_sys::sysroot::SysRoot;

    fn four() -> RaidOptions {
        let levels = ["raid0", "raid1", "raid5"].map(str::to_owned).into();
        let states = vec![State::Normal, State::Degraded];
        RaidOptions { levels, states, blocks: 2, ..options(&["loop:64MiB"; 4]) }
    }

    fn matrix(options: &RaidOptions) -> (Plan, Vec<Cell>) {
        let matrix = plans(options).pop().expect("the matrix");
        let cells = fathom_plan::cells(&matrix).expect("cells");
        (matrix, cells)
    }

    #[test]
    fn the_members_alone_are_in_the_time_and_the_bytes() {
        let (root, dir) = (SysRoot::live(), tempfile::tempdir().expect("a directory"));
        let (consent, protected) =
            (Consent::default(), Protected { store_path: dir.path().join("fathom.db") });
        let ground =
            Ground { root: &root, consent: &consent, protected: &protected, state_dir: dir.path() };
        let plans = plans(&four());
        let (all, alone, _) = dry_run(&ground, &plans).expect("is worked out");
        let own = |plan: &Plan| {
            let mut note = |_: &str| ();
            let wait = &mut Wait::to_the_end(&mut note);
            let cells = cells(plan).expect("cells");
            outline::dry_run(&ground, plan, &cells, wait).expect("an outline").0
        };
        let (member, arrays) = (own(&plans[0]), own(&plans[1]));
        assert_eq!((alone.members, alone.trials), (1, 2));
        // Four loads of ten seconds in each of two runs, half of it writing.
        assert!(alone.time_ns >= 80_000_000_000 && alone.written_bytes > 0, "{alone:?}");
        assert_eq!(all.time_ns, arrays.time_ns + member.time_ns);
        let bytes = |outline: &Outline| outline.written_bytes.unwrap_or(0);
        assert_eq!(bytes(&all), bytes(&arrays) + bytes(&member));
        let names: Vec<&str> = all.cells.iter().map(|cell| cell.name.as_str()).collect();
        assert_eq!(
            names[..3],
            [
                "level=raid0 chunk=64k state=normal",
                "level=raid1 state=normal",
                "level=raid1 state=degraded"
            ]
        );
        assert!(names[3..].iter().all(|name| name.starts_with("level=raid5 layout=")), "{names:?}");
    }

    #[test]
    fn what_cannot_be_built_is_told_and_what_is_no_news_is_not() {
        let mut asked = four();
        asked.chunks = vec!["3k".into(), "64k".into(), "12k".into()];
        let (matrix, cells) = matrix(&asked);
        let mut reasons: Vec<String> =
            impossible(&matrix, &cells).into_iter().map(|cell| cell.reason).collect();
        reasons.dedup();
        reasons.sort();
        reasons.dedup();
        assert_eq!(
            reasons,
            [
                "raid0 has no redundancy and is never degraded",
                "the chunk of raid0 must be a multiple of 4k, and 3k is none",
                "the chunk of raid5 must be a power of two from 4k, and 12k is none",
                "the chunk of raid5 must be a power of two from 4k, and 3k is none",
            ]
        );
    }

    #[test]
    fn a_value_that_no_array_can_have_is_a_mistake() {
        let (plan, cells) = matrix(&RaidOptions {
            chunks: ["64k", "12k", "3k"].map(str::to_owned).into(),
            ..four()
        });
        let found = never(&plan, &cells, &["level", "layout", "chunk"]);
        // Of the layouts those of raid10 have no array here.
        assert_eq!(found.as_deref(), Some("--layout=n2: n2 is no layout of raid5"));
        let found = never(&plan, &cells, &["chunk"]);
        assert_eq!(
            found.as_deref(),
            Some("--chunk=3k: the chunk of raid0 must be a multiple of 4k, and 3k is none")
        );
        let of = |levels: &[&str], layouts: &[&str]| {
            let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
            matrix(&RaidOptions { levels: words(levels), layouts: words(layouts), ..four() })
        };
        let (plan, cells) = of(&["raid0", "raid1"], &["left-symmetric"]);
        let found = never(&plan, &cells, &["layout"]);
        assert_eq!(
            found.as_deref(),
            Some("--layout=left-symmetric: of the levels asked for none has a layout")
        );
        // Left out by fathom, not by md.
        let (plan, cells) = of(&["raid1", "raid6"], &["left-symmetric", "left-asymmetric"]);
        assert_eq!(never(&plan, &cells, &["level", "layout", "chunk", "state"]), None);
    }
}
