//! Where variation comes from: between groups or within them (sessions and their runs, runs and their repeats).
//!
//! Repeating is worth most at the level that carries the variation: if runs after a new mkfs differ by 8 % and runs
//! without one by 1 %, twenty runs on one filesystem are one value, not twenty (T. Kalibera, R. Jones, "Rigorous
//! benchmarking in reasonable time", ISMM 2013).

use crate::error::{StatsError, check_finite};
use crate::interval::{Estimate, Interval};
use crate::jackknife::variance_interval;
use crate::means::{arithmetic_mean, standard_deviation};
use serde::Serialize;

/// Two variances that add up to that of a single value; units are those of the values, squared. Of logarithms, their square
/// roots are shares: 0.0009 is 3 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct VarianceComponents {
    /// Between the true means of groups; 0 when groups differ by no more than their values do.
    pub between: f64,
    /// Within a group.
    pub within: f64,
}

/// The components of a one-way random-effects model by the method of moments; groups may differ in size (S. R. Searle,
/// G. Casella, C. E. McCulloch, Variance Components, 3.6). For three levels, apply it again to the groups' means, whose
/// variance contains that of the values divided by the group's size.
///
/// # Errors
/// Fewer than two groups, a group without values, no group with two of them, or a value that is not finite.
pub fn variance_components(groups: &[&[f64]]) -> Result<VarianceComponents, StatsError> {
    let too_few = |count: usize| StatsError::TooFew { count: count as u64, needed: 2 };
    if groups.len() < 2 {
        return Err(too_few(groups.len()));
    }
    groups.iter().try_for_each(|group| check_finite(group, 1))?;
    let count: usize = groups.iter().map(|group| group.len()).sum();
    if count == groups.len() {
        return Err(too_few(1));
    }
    let means: Vec<f64> =
        groups.iter().map(|group| arithmetic_mean(group)).collect::<Result<_, _>>()?;
    let sizes = || groups.iter().map(|group| group.len() as f64);
    let (n, k) = (count as f64, groups.len() as f64);
    let all = sizes().zip(&means).map(|(size, mean)| size * mean).sum::<f64>() / n;
    let squares =
        |(group, mean): (&&[f64], &f64)| group.iter().map(|y| (y - mean).powi(2)).sum::<f64>();
    let within = groups.iter().zip(&means).map(squares).sum::<f64>() / (n - k);
    let spread: f64 = sizes().zip(&means).map(|(size, mean)| size * (mean - all).powi(2)).sum();
    // The size that equal groups would have; for equal groups it is theirs.
    let size = (n - sizes().map(|size| size * size).sum::<f64>() / n) / (k - 1.0);
    let between = ((spread / (k - 1.0) - within) / size).max(0.0);
    Ok(VarianceComponents { between, within })
}

/// The components between blocks and within them, of treatments that were each measured once in every block: a randomised
/// complete block design (D. C. Montgomery, Design and Analysis of Experiments, 4.1, with random blocks). What the treatments
/// differ by is in neither. The part between blocks is what comparing within blocks takes out.
///
/// # Errors
/// Fewer than two blocks or treatments, blocks of different sizes, or a value that is not finite.
pub fn block_components(blocks: &[&[f64]]) -> Result<VarianceComponents, StatsError> {
    let too_few = |count: usize| StatsError::TooFew { count: count as u64, needed: 2 };
    let count = blocks.first().map_or(0, |block| block.len());
    if blocks.len() < 2 || count < 2 {
        return Err(too_few(blocks.len().min(count)));
    }
    blocks.iter().try_for_each(|block| check_finite(block, 2))?;
    if let Some(other) = blocks.iter().find(|block| block.len() != count) {
        return Err(StatsError::Unpaired { a: count, b: other.len() });
    }
    let (b, t) = (blocks.len() as f64, count as f64);
    let means: Vec<f64> = blocks.iter().map(|block| block.iter().sum::<f64>() / t).collect();
    let all = means.iter().sum::<f64>() / b;
    let treatment = |at: usize| blocks.iter().map(|block| block[at]).sum::<f64>() / b;
    let treatments: Vec<f64> = (0..count).map(treatment).collect();
    let rest = |(block, mean): (&&[f64], &f64)| -> f64 {
        block.iter().zip(&treatments).map(|(y, of)| (y - mean - of + all).powi(2)).sum()
    };
    let within = blocks.iter().zip(&means).map(rest).sum::<f64>() / ((b - 1.0) * (t - 1.0));
    let spread: f64 = means.iter().map(|mean| (mean - all).powi(2)).sum();
    let between = (spread / (b - 1.0) - within / t).max(0.0);
    Ok(VarianceComponents { between, within })
}

/// Two standard deviations with their intervals, in the unit of the values. Of logarithms: 0.03 is 3 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Deviations {
    /// Between blocks; the lower end is 0 where the blocks may differ by no more than what is within them.
    pub between: Estimate,
    /// Within a block.
    pub within: Estimate,
}

/// The roots of [`block_components`] with intervals, the blocks being what was repeated. That within blocks is by the jackknife
/// ([`variance_interval`]). The variance between blocks is that of the blocks' means less a part of that within, and its interval
/// is made of theirs (G. Y. Zou, A. Donner, "Construction of confidence limits about effect measures", Statistics in Medicine
/// 27(10), 2008: the squares of the distances to their ends add up).
///
/// # Errors
/// As [`block_components`]; fewer than three blocks, or a level outside 0 to 1.
pub fn block_deviations(blocks: &[&[f64]], level: f64) -> Result<Deviations, StatsError> {
    let found = block_components(blocks)?;
    let within_of = |blocks: &[&[f64]]| block_components(blocks).map_or(f64::NAN, |of| of.within);
    let within = variance_interval(blocks, within_of, level)?;
    let mean_of = |block: &&[f64]| arithmetic_mean(block).unwrap_or(f64::NAN);
    let spread_of = |blocks: &[&[f64]]| {
        let means: Vec<f64> = blocks.iter().map(mean_of).collect();
        standard_deviation(&means).map_or(f64::NAN, |deviation| deviation.powi(2))
    };
    let spread = variance_interval(blocks, spread_of, level)?;
    let part = within.map(|variance| variance / blocks[0].len() as f64);
    let ends = spread.interval.zip(part.interval).map(|(of_means, of_part)| {
        let value = spread.value - part.value;
        let apart = |a: f64, b: f64| a.max(0.0).hypot(b.max(0.0));
        Interval {
            low: value - apart(spread.value - of_means.low, of_part.high - part.value),
            high: value + apart(of_means.high - spread.value, part.value - of_part.low),
            coverage: level,
        }
    });
    let root = |variance: f64| variance.max(0.0).sqrt();
    let between = Estimate { value: found.between, interval: ends, count: blocks.len() };
    Ok(Deviations { between: between.map(root), within: within.map(root) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::normal;
    use fathom_base::prng::Prng;

    /// D. C. Montgomery, Design and Analysis of Experiments, the looms of the chapter on random effects: mean squares 29.73
    /// and 1.90, so 6.96 between looms.
    #[test]
    fn agrees_with_the_textbook() {
        let looms: [&[f64]; 4] = [
            &[98.0, 97.0, 99.0, 96.0],
            &[91.0, 90.0, 93.0, 92.0],
            &[96.0, 95.0, 97.0, 95.0],
            &[95.0, 96.0, 99.0, 98.0],
        ];
        let got = variance_components(&looms).unwrap();
        assert!((got.within - 1.90).abs() < 0.005 && (got.between - 6.96).abs() < 0.005, "{got:?}");
    }

    /// The vascular grafts of Montgomery's chapter on blocks: four pressures, six batches of resin.
    const BATCHES: [&[f64]; 6] = [
        &[90.3, 92.5, 85.5, 82.5],
        &[89.2, 89.5, 90.8, 89.5],
        &[98.2, 90.6, 89.6, 85.6],
        &[93.9, 94.7, 86.2, 87.4],
        &[87.4, 87.0, 88.0, 78.9],
        &[97.9, 95.8, 93.4, 90.7],
    ];

    /// Mean square of blocks 38.45, of the error 7.33, so 7.78 between batches.
    #[test]
    fn blocks_agree_with_the_textbook() {
        let batches = BATCHES;
        let got = block_components(&batches).unwrap();
        assert!((got.within - 7.33).abs() < 0.005 && (got.between - 7.78).abs() < 0.01, "{got:?}");
        // What the treatments differ by is no noise.
        let shifted: Vec<Vec<f64>> = batches
            .iter()
            .map(|block| block.iter().zip([0.0, 50.0, 7.0, 9.0]).map(|(y, of)| y + of).collect())
            .collect();
        let shifted: Vec<&[f64]> = shifted.iter().map(Vec::as_slice).collect();
        let again = block_components(&shifted).unwrap();
        assert!(
            (again.within - got.within).abs() < 1e-9 && (again.between - got.between).abs() < 1e-9
        );
        assert!(block_components(&batches[..1]).is_err());
        assert!(block_components(&[&[1.0], &[2.0]]).is_err());
        assert!(block_components(&[&[1.0, 2.0], &[2.0, 3.0, 4.0]]).is_err());
        assert!(block_components(&[&[1.0, f64::NAN], &[2.0, 3.0]]).is_err());
    }

    /// Computed a second time in Python, with t quantiles from tables.
    #[test]
    fn deviations_of_blocks_have_intervals() {
        let Deviations { between, within } = block_deviations(&BATCHES, 0.95).unwrap();
        let near = |of: Estimate, expected: [f64; 3]| {
            let interval = of.interval.unwrap();
            let all = [of.value, interval.low, interval.high];
            assert!(all.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-8), "{all:?}");
        };
        near(within, [2.706_612_273_673_493_4, 1.815_097_251_072_228_7, 4.262_100_658_916_991]);
        // Six batches do not prove that they differ at all.
        near(between, [2.789_474_263_488_856, 0.0, 8.952_564_819_237_363]);
        assert!(block_deviations(&BATCHES[..2], 0.95).is_err());
        assert!(block_deviations(&BATCHES, 1.0).is_err());
        let alike: [&[f64]; 4] = [&[1.0, 2.0]; 4];
        let none = block_deviations(&alike, 0.95).unwrap();
        assert_eq!(
            (none.within.value, none.within.interval, none.between.interval),
            (0.0, None, None)
        );
    }

    #[test]
    fn finds_what_was_put_in() {
        let mut prng = Prng::new(67, 0);
        // Unequal groups; standard deviations 3 and 2.
        let groups: Vec<Vec<f64>> = (0..4000)
            .map(|i| {
                let level = 100.0 + 3.0 * normal(&mut prng);
                (0..1 + i % 5).map(|_| level + 2.0 * normal(&mut prng)).collect()
            })
            .collect();
        let groups: Vec<&[f64]> = groups.iter().map(Vec::as_slice).collect();
        let got = variance_components(&groups).unwrap();
        assert!((got.between - 9.0).abs() < 1.0 && (got.within - 4.0).abs() < 0.4, "{got:?}");
    }

    #[test]
    fn ends() {
        assert!(variance_components(&[&[1.0, 2.0]]).is_err());
        assert!(variance_components(&[&[1.0], &[2.0]]).is_err());
        assert!(variance_components(&[&[1.0, 2.0], &[]]).is_err());
        assert!(variance_components(&[&[1.0, f64::NAN], &[1.0]]).is_err());
        let alike = variance_components(&[&[1.0, 5.0], &[5.0, 1.0]]).unwrap();
        assert_eq!((alike.between, alike.within), (0.0, 8.0));
        let constant = variance_components(&[&[1.0, 1.0], &[1.0]]).unwrap();
        assert_eq!((constant.between, constant.within), (0.0, 0.0));
    }
}
