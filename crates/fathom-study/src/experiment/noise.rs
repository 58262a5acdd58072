//! Where an experiment's values scatter: from block to block, which comparing within blocks takes out, or within a block, which
//! is what its intervals rest on.

use super::cells::Values;
use fathom_stats::interval::Estimate;
use fathom_stats::nested::block_deviations;
use serde::Serialize;

/// The scatter rests on so many independent differences at least.
const FREEDOM_MIN: usize = 5;

/// The scatter of one figure over the blocks that have every cell. Deviations are of the logarithm, with intervals: 0.03 is 3 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BlockNoise {
    /// Which figure, as a place in the study's figures.
    pub figure: usize,
    /// The blocks.
    pub blocks: usize,
    /// The cells.
    pub cells: usize,
    /// From block to block: what drifts.
    pub between_blocks: Estimate,
    /// Within a block, what the cells differ by not counted.
    pub within_blocks: Estimate,
}

/// The scatter of the figure at a place; none where there is one cell, or too few blocks.
pub(super) fn study(place: usize, values: &Values, level: f64) -> Option<BlockNoise> {
    let cells: Vec<_> = values.iter().filter(|cell| !cell.is_empty()).collect();
    let in_block = |block: &u32| -> Option<Vec<f64>> {
        let value = |cell: &&std::collections::BTreeMap<u32, f64>| cell.get(block).copied();
        cells.iter().map(|cell| Some(value(cell).filter(|value| *value > 0.0)?.ln())).collect()
    };
    let blocks: Vec<Vec<f64>> = cells.first()?.keys().filter_map(in_block).collect();
    let freedom = blocks.len().saturating_sub(1) * (cells.len() - 1);
    let of: Vec<&[f64]> = blocks.iter().map(Vec::as_slice).collect();
    let found = block_deviations(&of, level).ok().filter(|_| freedom >= FREEDOM_MIN)?;
    Some(BlockNoise {
        figure: place,
        blocks: blocks.len(),
        cells: cells.len(),
        between_blocks: found.between,
        within_blocks: found.within,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::sample::{Sample, noise};
    use crate::experiment::study as study_experiment;
    use fathom_base::prng::Prng;

    /// Blocks a fifth apart, cells three times as fast, 1 % of noise.
    #[test]
    fn drift_lies_between_blocks_and_the_cells_in_neither() {
        let mut prng = Prng::new(5, 0);
        let sample = Sample::new(&[("a", &["x", "y", "z"])], 12, |cell, block| {
            let drift = if block % 2 == 0 { 1.0 } else { 1.2 };
            1000.0 * drift * f64::from(1 + cell.index) * noise(&mut prng, 0.01)
        });
        let found = study_experiment(&sample.plan, &sample.cells, &sample.records).noise;
        let found = found.expect("twelve blocks");
        assert_eq!((found.figure, found.blocks, found.cells), (0, 12, 3));
        let holds = |of: Estimate, truth: f64| of.interval.is_some_and(|i| i.contains(truth));
        assert!(
            holds(found.between_blocks, 0.0912) && holds(found.within_blocks, 0.01),
            "{found:?}"
        );
        // Half of ln 1.2 up and down: 0.0912, with n - 1 below 0.0952.
        assert!((0.085..0.105).contains(&found.between_blocks.value), "{found:?}");
        assert!((0.007..0.014).contains(&found.within_blocks.value), "{found:?}");
    }

    #[test]
    fn what_says_nothing() {
        let cell = |values: &[f64]| (0..).zip(values.iter().copied()).collect();
        let study = |values: Values| super::study(0, &values, 0.95);
        assert_eq!(study(vec![cell(&[1.0; 9])]), None, "one cell");
        assert_eq!(study(vec![cell(&[1.0; 3]), cell(&[2.0; 3])]), None, "three blocks of two");
        assert_eq!(study(Vec::new()), None);
        let found = study(vec![cell(&[1.0; 6]), cell(&[2.0; 6])]).expect("six blocks");
        assert_eq!((found.between_blocks.value, found.within_blocks.value), (0.0, 0.0));
    }
}
