//! Where the best value of one numeric factor lies, as far as it has been narrowed.

use super::boots::Boots;
use super::cells::{Values, question};
use super::figures::Figure;
use super::level_of;
use super::looks::LEVEL;
use super::ranking::{Kept, Ranking};
use fathom_base::order::Order;
use fathom_base::units::{parse_count, parse_duration_ns, parse_size};
use fathom_model::plan::cell::Cell;
use fathom_model::plan::{DesignKind, Plan};
use fathom_stats::equivalence::Decision;
use fathom_stats::interval::median;
use serde::Serialize;

/// What has been narrowed down.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Narrowed {
    /// The factor.
    pub factor: String,
    /// Its levels in rising order with the first ranked figure: of the baseline its median, of others what that comes to by their
    /// change against it within blocks.
    pub levels: Vec<(String, f64)>,
    /// Those of them that are out because of a bound.
    pub out: Vec<String>,
    /// The best.
    pub best: String,
    /// The nearest measured levels that are shown to be worse, below and above; none where the best lies at that end, or
    /// nothing there can be told apart from it.
    pub worse_below: Option<String>,
    /// Likewise above.
    pub worse_above: Option<String>,
    /// The best and those beside it, three in all, when each two of them are shown not to differ by the margin: nothing between them is
    /// measured then. Empty when that is not known.
    pub same: Vec<String>,
    /// The best is the smallest or the largest level: the optimum may lie beyond.
    pub is_at_end: bool,
}

/// So many neighbours that do the same leave no room for a better one between two of them, unless it stands out like a needle.
const SAME: usize = 3;

/// A level as a number, whatever its unit.
fn number(level: &str) -> Option<f64> {
    let size = parse_size(level).ok();
    let number = size.or_else(|| parse_count(level).ok()).or_else(|| parse_duration_ns(level).ok());
    number.map(|n| n as f64).or_else(|| level.parse().ok())
}

/// The result of a narrowing design; none of any other.
#[must_use]
pub fn study(
    plan: &Plan,
    (cells, baseline): (&[Cell], usize),
    figures: &[Figure],
    values: &[Values],
    (ranking, boots, level): (&Ranking, &Boots, f64),
) -> Option<Narrowed> {
    if plan.design.kind != DesignKind::Narrowing {
        return None;
    }
    let place = *ranking.figures.first()?;
    let figure = figures.get(place)?;
    let factor = plan.factors.first()?.name.clone();
    let own = &values[place];
    let mut found: Vec<(f64, usize, String, f64)> = Vec::new();
    for (at, cell) in cells.iter().enumerate() {
        let Some(level) = level_of(cell, &factor) else { continue };
        if let (Some(number), Some(value)) = (number(level), at_baseline(own, baseline, at, boots))
        {
            found.push((number, at, level.to_owned(), value));
        }
    }
    found.order_by(|a, b| a.0.total_cmp(&b.0));
    let winner = ranking.winner?;
    let best = found.iter().position(|(_, at, ..)| *at == winner)?;
    let is_leader = |at: &usize| ranking.leaders.contains(at);
    let is_worse = |(_, at, ..): &&(f64, usize, String, f64)| !is_leader(at);
    let below = found[..best].iter().rev().find(is_worse).map(|(_, _, level, _)| level.clone());
    let above = found[best + 1..].iter().find(is_worse).map(|(_, _, level, _)| level.clone());
    let first = best.saturating_sub(1).min(found.len().saturating_sub(SAME));
    let beside = found.get(first..first + SAME).unwrap_or_default();
    let question = question(figure, 100.0 * plan.design.margin, level);
    let is_same = |a: usize, b: usize| {
        let answer = boots.compare(own, (a, b), &question);
        answer.is_some_and(|answer| answer.decision == Decision::Equivalent)
    };
    let mut pairs = (0..beside.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
    let are_same = pairs.all(|(a, b)| is_same(beside[a].1, beside[b].1));
    let same = beside.iter().filter(|_| are_same).map(|(_, _, level, _)| level.clone()).collect();
    let is_out = |(_, at, ..): &&(f64, usize, String, f64)| {
        ranking.bounds.iter().any(|bound| matches!(bound.kept[*at], Kept::Broken | Kept::Unlikely))
    };
    let out = found.iter().filter(is_out).map(|(_, _, level, _)| level.clone()).collect();
    Some(Narrowed {
        same,
        out,
        factor,
        best: found[best].2.clone(),
        worse_below: below,
        worse_above: above,
        is_at_end: found.len() > 1 && (best == 0 || best + 1 == found.len()),
        levels: found.into_iter().map(|(_, _, level, median)| (level, median)).collect(),
    })
}

/// What a cell has, had it been measured when the baseline was: levels are measured at different times, and what has changed meanwhile is
/// no effect of theirs. Its median where the two have no block in common.
fn at_baseline(values: &Values, baseline: usize, at: usize, boots: &Boots) -> Option<f64> {
    let of = |at: usize| median(&values[at].values().copied().collect::<Vec<f64>>()).ok();
    let shift = || boots.between(values, baseline, at)?.shift(LEVEL).ok();
    match of(baseline).zip(shift()) {
        Some((base, shift)) => Some(base * shift.value.exp()),
        None => of(at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::sample::{Sample, noise};
    use crate::experiment::study as study_experiment;
    use fathom_base::prng::Prng;

    /// The machine gets faster by 2 % from block to block, and no level does anything: the level that was measured last is not the better for it.
    #[test]
    fn what_changes_between_the_stages_is_no_effect_of_a_level() {
        let mut prng = Prng::new(3, 0);
        let levels = ["4", "64", "1024", "256"];
        let mut sample = Sample::new(&[("nr_requests", &levels)], 16, |_, block| {
            1000.0 * 1.02f64.powi(block as i32) * noise(&mut prng, 0.005)
        });
        sample.plan.design.kind = DesignKind::Narrowing;
        // Eight blocks for the given levels, eight for one between two of them, beside these and the baseline.
        let has_turn = |block: u32, cell: u32| if block < 8 { cell < 3 } else { true };
        sample.records.retain(|record| {
            record.cell.as_ref().is_some_and(|cell| has_turn(cell.slot.block, cell.slot.cell))
        });
        let study = study_experiment(&sample.plan, &sample.cells, &sample.records);
        assert_eq!(study.blocks_done, 16);
        for cell in &study.cells {
            let change = cell.figures[0].as_ref().and_then(|figure| figure.change.as_ref());
            assert!(
                change.is_none_or(|change| change.decision == Decision::Equivalent),
                "{cell:?}"
            );
        }
        let found = study.narrowed.expect("narrowed");
        let base = found.levels[0].1;
        assert!(
            found.levels.iter().all(|(_, value)| (value / base - 1.0).abs() < 0.01),
            "{found:?}"
        );
        assert!(study.drift.is_some_and(|drift| drift.is_found() && drift.repetitions == 16));
    }

    /// Levels that do the same are shown to, which a mere want of power is not; the best must be among them.
    #[test]
    fn neighbours_that_do_the_same_end_it() {
        let same = |rates: &[f64], spread: f64| {
            let mut prng = Prng::new(5, 0);
            let levels = &["4", "64", "1024", "256"][..rates.len()];
            let mut sample = Sample::new(&[("nr_requests", levels)], 8, |cell, _| {
                rates[cell.index as usize] * noise(&mut prng, spread)
            });
            sample.plan.design.kind = DesignKind::Narrowing;
            let study = study_experiment(&sample.plan, &sample.cells, &sample.records);
            study.narrowed.expect("narrowed").same
        };
        assert_eq!(same(&[1000.0, 1000.0, 1000.0], 0.004), ["4", "64", "1024"]);
        assert_eq!(same(&[1000.0, 1000.0, 1000.0], 0.1), [""; 0], "nobody knows");
        assert_eq!(same(&[1000.0, 1000.0, 1000.0, 1300.0], 0.004), [""; 0], "a peak");
        assert_eq!(same(&[950.0, 1000.0, 1000.0, 1002.0], 0.004), ["64", "256", "1024"]);
        assert_eq!(same(&[1000.0, 1000.0], 0.004), [""; 0], "too few");
    }

    /// A level of a later stage shares no block with most of the others: by what each is beside the baseline it is told apart from them.
    #[test]
    fn levels_of_different_stages_are_told_apart() {
        let mut prng = Prng::new(7, 0);
        let levels = ["16", "64", "256", "100", "180"];
        let rates = [916.0, 964.0, 844.0, 1000.0, 920.0];
        let mut sample = Sample::new(&[("lv", &levels)], 18, |cell, _| {
            rates[cell.index as usize] * noise(&mut prng, 0.001)
        });
        sample.plan.design.kind = DesignKind::Narrowing;
        sample.records.retain(|record| {
            let slot = record.cell.as_ref().map(|cell| cell.slot);
            slot.is_some_and(|slot| match slot.block {
                0..6 => slot.cell < 3,
                // Each beside the baseline and those between which it lies.
                6..12 => [0, 1, 2, 4].contains(&slot.cell),
                _ => [0, 1, 3].contains(&slot.cell),
            })
        });
        let study = study_experiment(&sample.plan, &sample.cells, &sample.records);
        let found = study.narrowed.expect("narrowed");
        assert_eq!(found.best, "100");
        // The six blocks that 64 has with it are too few against four rivals; of 180 it is known without any.
        assert_eq!(study.ranking.leaders, [1, 3], "{found:?}");
        let nearest = (found.worse_below.as_deref(), found.worse_above.as_deref());
        assert_eq!(nearest, (Some("16"), Some("180")));
    }

    #[test]
    fn the_best_with_its_neighbours() {
        let mut prng = Prng::new(2, 0);
        let levels: [&str; 5] = ["4", "32", "64", "128", "1024"];
        let rates = [600.0, 1000.0, 1200.0, 1195.0, 900.0];
        let mut sample = Sample::new(&[("nr_requests", &levels)], 12, |cell, _| {
            rates[cell.index as usize] * noise(&mut prng, 0.01)
        });
        sample.plan.design.kind = DesignKind::Narrowing;
        let study = study_experiment(&sample.plan, &sample.cells, &sample.records);
        let got = study.narrowed.expect("narrowed");
        assert!(matches!(got.best.as_str(), "64" | "128"), "{got:?}");
        assert_eq!(
            (got.worse_below.as_deref(), got.worse_above.as_deref()),
            (Some("32"), Some("1024"))
        );
        assert!(!got.is_at_end);
        assert_eq!(got.levels.len(), 5);
    }
}
