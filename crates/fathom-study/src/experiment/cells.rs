//! Each cell: its figures, and what it is against the baseline, block by block.

use super::boots::Boots;
use super::figures::Figure;
use super::looks;
use fathom_model::plan::Metric;
use fathom_model::plan::cell::Cell;
use fathom_model::plan::setup::SetupCapacity;
use fathom_stats::equivalence::{Comparison, Decision, Question};
use fathom_stats::interval::{Estimate, median_interval};
use fathom_stats::means::coefficient_of_variation;
use fathom_stats::multiple::{benjamini_hochberg, holm};
use serde::Serialize;
use std::collections::BTreeMap;

/// Percentiles are read from histograms whose steps are up to 1/64 wide: what is smaller cannot be seen in them.
const PERCENTILE_STEP_PERCENT: f64 = 1.6;
/// Up to so many comparisons none may be wrong (Holm); of more, a small share (Benjamini-Hochberg).
pub(super) const NAMED_MAX: usize = 10;

/// A cell with its figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellStudy {
    /// Number of the cell.
    pub cell: u32,
    /// The level of each factor.
    pub levels: Vec<(String, String)>,
    /// All others are compared with it.
    pub is_baseline: bool,
    /// Why it cannot exist and was never measured.
    pub impossible: Option<String>,
    /// What of its devices the setup let one use, as its last trial says; none without slices, array and volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<SetupCapacity>,
    /// In the order of the study's figures; none where no trial of it has the figure.
    pub figures: Vec<Option<CellFigure>>,
}

/// One figure of one cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellFigure {
    /// Median over trials with its exact interval by ranks; no interval below six trials at 95 %.
    pub median: Estimate,
    /// Standard deviation by mean over the trials, as a share; none below two. How much a setting varies is a result too.
    pub spread: Option<f64>,
    /// Against the baseline, within blocks, or boot by boot where it needs another boot; none of the baseline itself.
    pub change: Option<Change>,
}

/// A cell against the baseline in one figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// Ratio, interval and decision, before adjustment.
    pub answer: Comparison,
    /// p adjusted for all comparisons of the experiment; none for figures that only stand beside the objectives.
    pub p_adjusted: Option<f64>,
    /// What is concluded: a difference that the adjustment takes back is inconclusive.
    pub decision: Decision,
}

/// How p-values were adjusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Adjustment {
    /// Nothing is compared.
    None,
    /// Holm: none of those found is wrong, but with 5 %.
    Holm,
    /// Benjamini and Hochberg: at most 5 % of those found are wrong.
    BenjaminiHochberg,
}

/// Values of one figure in every block of each cell.
pub type Values = Vec<BTreeMap<u32, f64>>;

/// The question that is asked of a figure.
#[must_use]
pub fn question(figure: &Figure, margin_percent: f64, level: f64) -> Question {
    let is_percentile =
        matches!(figure.metric, Metric::LatencyP50 | Metric::LatencyP99 | Metric::LatencyP999);
    let least = if is_percentile { PERCENTILE_STEP_PERCENT } else { 0.0 };
    Question { margin_percent: margin_percent.max(least), level, better: figure.better() }
}

/// Studies every cell. `baseline` is a place in `cells`; `values` are in the order of `figures`; `ask` is what is asked of each.
#[must_use]
pub fn study(
    cells: &[Cell],
    baseline: usize,
    figures: &[Figure],
    values: &[Values],
    boots: &Boots,
    ask: &dyn Fn(&Figure) -> Question,
) -> Vec<CellStudy> {
    let one = |(place, cell): (usize, &Cell)| {
        let figure = |(figure, values): (&Figure, &Values)| {
            let own: Vec<f64> = values.get(place)?.values().copied().collect();
            let question = ask(figure);
            let median = median_interval(&own, question.level).ok()?;
            let change = || {
                let answer = boots.compare(values, (baseline, place), &question)?;
                Some(Change { answer, p_adjusted: None, decision: answer.decision })
            };
            // There are no ratios with what is not above 0.
            let has_ratio = values.iter().flat_map(|own| own.values()).all(|value| *value > 0.0);
            let change = if place == baseline || !has_ratio { None } else { change() };
            Some(CellFigure { median, spread: coefficient_of_variation(&own).ok(), change })
        };
        CellStudy {
            cell: cell.index,
            levels: cell.levels.clone(),
            is_baseline: place == baseline,
            impossible: cell.impossible.clone(),
            capacity: None,
            figures: figures.iter().zip(values).map(figure).collect(),
        }
    };
    cells.iter().enumerate().map(one).collect()
}

/// Adjusts the comparisons of the objectives for their number, and takes differences back that do not stand it. Returns the
/// number and the way.
pub fn adjust(cells: &mut [CellStudy], figures: &[Figure]) -> (usize, Adjustment) {
    let mut changes: Vec<&mut Change> = cells
        .iter_mut()
        .flat_map(|cell| cell.figures.iter_mut().zip(figures))
        .filter(|(_, figure)| figure.is_objective)
        .filter_map(|(own, _)| own.as_mut()?.change.as_mut())
        .collect();
    let p: Vec<f64> = changes.iter().map(|change| change.answer.p).collect();
    let (way, adjusted) = match p.len() {
        0 => return (0, Adjustment::None),
        n if n <= NAMED_MAX => (Adjustment::Holm, holm(&p)),
        _ => (Adjustment::BenjaminiHochberg, benjamini_hochberg(&p)),
    };
    for (change, p) in changes.iter_mut().zip(adjusted.unwrap_or_default()) {
        change.p_adjusted = Some(p);
        let differs = matches!(change.decision, Decision::Faster | Decision::Slower);
        if differs && p > 1.0 - change.answer.question.level + 1e-12 {
            change.decision = Decision::Inconclusive;
        }
    }
    (p.len(), way)
}

/// Every comparison of an objective is decided, or its interval is narrow enough.
#[must_use]
pub fn is_settled(cells: &[CellStudy], figures: &[Figure]) -> bool {
    let mut objectives = cells
        .iter()
        .filter(|cell| !cell.is_baseline && cell.impossible.is_none())
        .flat_map(|cell| cell.figures.iter().zip(figures))
        .filter(|(_, figure)| figure.is_objective);
    objectives.all(|(own, figure)| is_one_settled(own.as_ref(), figure))
}

/// What only has to keep a bound, and has no ratio to the baseline, is not compared with it.
pub(super) fn is_one_settled(own: Option<&CellFigure>, figure: &Figure) -> bool {
    match own.map(|own| own.change.as_ref()) {
        Some(Some(c)) => looks::is_settled(c.decision, c.answer.ratio.interval),
        Some(None) => figure.is_only_bound,
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::sample::{Sample, noise};
    use crate::experiment::study as study_experiment;
    use fathom_base::prng::Prng;

    const LEVELS: [(&str, &[&str]); 1] = [("scheduler", &["none", "bfq", "kyber"])];

    fn decisions(sample: &Sample) -> Vec<Option<Decision>> {
        let study = study_experiment(&sample.plan, &sample.cells, &sample.records);
        let decision = |cell: &CellStudy| Some(cell.figures[0].as_ref()?.change.as_ref()?.decision);
        study.cells.iter().map(decision).collect()
    }

    /// Blocks differ by a factor of two, cells by a few percent.
    fn sample(blocks: u32, spread: f64) -> Sample {
        let mut prng = Prng::new(3, 0);
        Sample::new(&LEVELS, blocks, |cell, block| {
            let of_cell = [1.0, 0.8, 1.005][cell.index as usize];
            1000.0 * (1.0 + f64::from(block % 4) / 3.0) * of_cell * noise(&mut prng, spread)
        })
    }

    #[test]
    fn pairs_within_blocks_are_compared() {
        let got = decisions(&sample(8, 0.005));
        assert_eq!(got, [None, Some(Decision::Slower), Some(Decision::Equivalent)]);
    }

    #[test]
    fn too_few_blocks_decide_nothing() {
        let got = decisions(&sample(5, 0.001));
        assert_eq!(got, [None, Some(Decision::Inconclusive), Some(Decision::Inconclusive)]);
    }

    #[test]
    fn the_number_of_comparisons_counts() {
        // Six blocks can reach p = 0.031: enough for one comparison, not for the smaller of two.
        let got = decisions(&sample(6, 0.001));
        assert_eq!(got[1], Some(Decision::Inconclusive));
        let mut one = sample(6, 0.001);
        one.cells.truncate(2);
        one.records.retain(|r| r.cell.as_ref().expect("a cell").slot.cell < 2);
        assert_eq!(decisions(&one)[1], Some(Decision::Slower));
    }

    #[test]
    fn a_void_trial_leaves_its_pair_out() {
        let mut sample = sample(9, 0.005);
        sample.records[4].cell.as_mut().expect("a cell").void = Some("device gone".into());
        let study = study_experiment(&sample.plan, &sample.cells, &sample.records);
        let counts: Vec<usize> = study.cells[1..]
            .iter()
            .map(|cell| {
                let figure = cell.figures[0].as_ref().expect("figures");
                figure.change.as_ref().expect("a change").answer.ratio.count
            })
            .collect();
        assert_eq!(counts, [8, 9]);
        assert_eq!(study.void.len(), 1);
    }
}
