//! One level against another, block by block, over all cells that agree in everything else.

use super::boots::{Boots, Logs};
use super::cells::Values;
use fathom_model::plan::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

/// Cells that have these levels, by factor.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a>(pub &'a BTreeMap<String, String>);

impl Side<'_> {
    fn has(&self, cell: &Cell) -> bool {
        self.0
            .iter()
            .all(|of| cell.levels.iter().any(|(factor, level)| factor == of.0 && level == of.1))
    }
}

/// ln(`one` / `other`) in each block that has all cells it takes: pairs of cells that differ in nothing but the factors named
/// by either side. Where the design has no such pair (fractions of a factorial), the means over all cells of either side,
/// which such designs balance. Sides that need different boots: the means of each boot.
///
/// # Errors
/// In words: no cell on a side, no block with all of them, or cells of several boots on one side of two that differ in theirs.
pub fn between(
    cells: &[Cell],
    values: &Values,
    boots: &Boots,
    one: Side<'_>,
    other: Side<'_>,
) -> Result<Logs, String> {
    let of = |side: Side<'_>| -> Vec<usize> {
        cells.iter().enumerate().filter(|(_, cell)| side.has(cell)).map(|(at, _)| at).collect()
    };
    let (ones, others) = (of(one), of(other));
    for (side, found) in [(one, &ones), (other, &others)] {
        if found.is_empty() {
            let words: Vec<String> = side.0.iter().map(|(f, l)| format!("{f}={l}")).collect();
            return Err(format!("no cell has {}", words.join(" ")));
        }
    }
    let named: BTreeSet<&String> = one.0.keys().chain(other.0.keys()).collect();
    let rest = |at: usize| -> Vec<&(String, String)> {
        cells[at].levels.iter().filter(|(factor, _)| !named.contains(factor)).collect()
    };
    let partner = |at: &usize| {
        let found = others.iter().find(|other| rest(**other) == rest(*at))?;
        Some((*at, *found))
    };
    let pairs: Vec<(usize, usize)> = ones.iter().filter_map(partner).collect();
    let blocks: BTreeSet<u32> = values.iter().flat_map(|cell| cell.keys().copied()).collect();
    let log = |at: usize, block: u32| values[at].get(&block).map(|value| value.ln());
    let mean = |logs: Option<Vec<f64>>| {
        let logs = logs?;
        Some(logs.iter().sum::<f64>() / logs.len() as f64)
    };
    let in_block = |block: u32| -> Option<f64> {
        if pairs.is_empty() {
            let of = |cells: &[usize]| mean(cells.iter().map(|at| log(*at, block)).collect());
            return Some(of(&ones)? - of(&others)?);
        }
        mean(pairs.iter().map(|(a, b)| Some(log(*a, block)? - log(*b, block)?)).collect())
    };
    let kinds = |cells: &[usize]| cells.iter().map(|at| boots.kind(*at)).collect::<BTreeSet<_>>();
    let are_apart = match pairs.is_empty() {
        true => kinds(&ones).is_disjoint(&kinds(&others)),
        false => pairs.iter().any(|(a, b)| boots.are_apart(*a, *b)),
    };
    let nothing = || "no block has all trials that it takes".to_owned();
    if are_apart {
        let (a, b) = match pairs.is_empty() {
            true => (ones, others),
            false => pairs.iter().copied().unzip(),
        };
        if kinds(&a).len() > 1 || kinds(&b).len() > 1 {
            return Err("what it compares was booted in several ways on one side".to_owned());
        }
        let of = |cells: &[usize]| {
            let first = *cells.first()?;
            let is_one_boot = |block: &u32| {
                cells.iter().all(|at| boots.boot(*at, *block) == boots.boot(first, *block))
            };
            let mean_of =
                |block: u32| Some((block, mean(cells.iter().map(|at| log(*at, block)).collect())?));
            let in_blocks = blocks.iter().copied().filter(is_one_boot).filter_map(mean_of);
            Some(boots.means(first, in_blocks)).filter(|means| !means.is_empty())
        };
        return Ok(Logs::Apart(of(&b).ok_or_else(nothing)?, of(&a).ok_or_else(nothing)?));
    }
    let found: Vec<f64> = blocks.into_iter().filter_map(in_block).collect();
    if found.is_empty() { Err(nothing()) } else { Ok(Logs::Pairs(found)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::sample::{cells, plan};

    fn level(factor: &str, level: &str) -> BTreeMap<String, String> {
        [(factor.to_owned(), level.to_owned())].into()
    }

    fn ratios(logs: Result<Logs, String>) -> Vec<f64> {
        match logs {
            Ok(Logs::Pairs(ratios)) => ratios,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn pairs_agree_in_everything_else() {
        let plan = plan(&[("a", &["x", "y"]), ("b", &["1", "2"])]);
        let cells = cells(&plan);
        // Order: x1, x2, y1, y2. y is twice x at 1, and eight times at 2: four times in the (geometric) mean.
        let row = |value: f64| BTreeMap::from([(0, value), (1, 10.0 * value)]);
        let mut values: Values = vec![row(1.0), row(5.0), row(2.0), row(40.0)];
        let (y, x) = (level("a", "y"), level("a", "x"));
        let boots = Boots::new(&cells, &[]);
        let got = ratios(between(&cells, &values, &boots, Side(&y), Side(&x)));
        assert!(got.iter().all(|log| (log.exp() - 4.0).abs() < 1e-9), "{got:?}");
        assert_eq!(got.len(), 2);
        // A block with a missing trial would favour what is left.
        values[3].remove(&0);
        assert_eq!(ratios(between(&cells, &values, &boots, Side(&y), Side(&x))).len(), 1);
        let z = level("a", "z");
        let refused = between(&cells, &values, &boots, Side(&z), Side(&x));
        assert_eq!(refused, Err("no cell has a=z".to_owned()));
    }

    #[test]
    fn fractions_compare_means() {
        let plan = plan(&[("a", &["x", "y"]), ("b", &["1", "2"])]);
        let cells: Vec<Cell> =
            cells(&plan).into_iter().filter(|c| [0, 3].contains(&c.index)).collect();
        let values: Values = vec![BTreeMap::from([(0, 2.0)]), BTreeMap::from([(0, 6.0)])];
        let (y, x) = (level("a", "y"), level("a", "x"));
        let boots = Boots::new(&cells, &[]);
        let got = ratios(between(&cells, &values, &boots, Side(&y), Side(&x)));
        assert!((got[0].exp() - 3.0).abs() < 1e-9);
    }
}
