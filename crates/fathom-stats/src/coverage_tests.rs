//! Intervals and decisions against simulated experiments with a known truth: they hold it as often as they say.

use crate::bootstrap::{Bootstrap, bca_interval};
use crate::equivalence::{
    Better, Comparison, Decision, Question, compare_paired, compare_unpaired,
};
use crate::interval::{Estimate, mean_interval, median_interval};
use crate::jackknife::variance_interval;
use crate::nested::block_deviations;
use crate::rank::paired::hodges_lehmann;
use crate::rank::unpaired::hodges_lehmann_shift;
use crate::simulated::normal;
use fathom_base::prng::Prng;

const ROUNDS: u32 = 3000;

/// The share of simulated experiments whose interval holds `truth`, and the coverage that the last one stated.
fn coverage(
    rounds: u32,
    truth: f64,
    mut experiment: impl FnMut(&mut Prng) -> Estimate,
) -> (f64, f64) {
    let mut prng = Prng::new(6, u64::from(rounds));
    let (mut held, mut stated) = (0u32, 0.0);
    for _ in 0..rounds {
        let interval = experiment(&mut prng).interval.unwrap();
        held += u32::from(interval.contains(truth));
        stated = interval.coverage;
    }
    (f64::from(held) / f64::from(rounds), stated)
}

/// Within five standard errors of a simulated share.
#[track_caller]
fn assert_share(got: f64, expected: f64, rounds: u32) {
    let error = (expected * (1.0 - expected) / f64::from(rounds)).sqrt();
    assert!((got - expected).abs() < 5.0 * error, "{got} instead of {expected} +- {error}");
}

fn normals(prng: &mut Prng, count: usize) -> Vec<f64> {
    (0..count).map(|_| normal(prng)).collect()
}

/// Skewed as run times are: the median is 1, the mean exp(1/2).
fn log_normals(prng: &mut Prng, count: usize) -> Vec<f64> {
    (0..count).map(|_| normal(prng).exp()).collect()
}

#[test]
fn median_interval_holds_the_median_of_skewed_values() {
    for n in [6, 9, 12, 25] {
        let (held, stated) =
            coverage(ROUNDS, 1.0, |prng| median_interval(&log_normals(prng, n), 0.95).unwrap());
        assert_share(held, stated, ROUNDS);
    }
}

#[test]
fn mean_interval_holds_the_mean_of_normal_values() {
    for n in [2, 5, 20] {
        let (held, stated) =
            coverage(ROUNDS, 0.0, |prng| mean_interval(&normals(prng, n), 0.95).unwrap());
        assert_share(held, stated, ROUNDS);
    }
}

#[test]
fn hodges_lehmann_holds_the_centre_even_with_heavy_tails() {
    for n in [6, 8, 15] {
        let (held, stated) = coverage(ROUNDS, 0.0, |prng| {
            // A ratio of normals has no mean at all.
            let heavy: Vec<f64> = (0..n).map(|_| normal(prng) / normal(prng)).collect();
            hodges_lehmann(&heavy, 0.95).unwrap()
        });
        assert_share(held, stated, ROUNDS);
    }
}

#[test]
fn shift_interval_holds_the_shift_of_skewed_groups() {
    for (m, n) in [(4, 4), (5, 8), (12, 7)] {
        let (held, stated) = coverage(ROUNDS, 0.5, |prng| {
            let a = log_normals(prng, m);
            let b: Vec<f64> = log_normals(prng, n).into_iter().map(|value| value + 0.5).collect();
            hodges_lehmann_shift(&a, &b, 0.95).unwrap()
        });
        assert_share(held, stated, ROUNDS);
    }
}

/// The bootstrap is no exact method: a little below what it states for 20 normal values, far below for skewed ones. The
/// shares expected are those of 20,000 experiments with the method written a second time in numpy.
#[test]
fn bootstrap_holds_the_mean_nearly_as_often_as_it_says() {
    const EXPERIMENTS: u32 = 1000;
    let how = Bootstrap { level: 0.95, resamples: 400, seed: 11 };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (held, _) =
        coverage(EXPERIMENTS, 0.0, |prng| bca_interval(&normals(prng, 20), mean, &how).unwrap());
    assert_share(held, 0.923, EXPERIMENTS);
    let (held, _) = coverage(EXPERIMENTS, 0.5f64.exp(), |prng| {
        bca_interval(&log_normals(prng, 20), mean, &how).unwrap()
    });
    assert_share(held, 0.870, EXPERIMENTS);
}

/// Nor is the jackknife of a variance. The shares expected are those of 20,000 experiments with the method written a second time in
/// Python.
#[test]
fn jackknife_holds_the_variance_nearly_as_often_as_it_says() {
    let variance = |values: &[f64]| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        squares / (values.len() - 1) as f64
    };
    for (n, expected) in [(6, 0.950), (12, 0.949), (25, 0.946)] {
        let (held, _) = coverage(ROUNDS, 1.0, |prng| {
            variance_interval(&normals(prng, n), variance, 0.95).unwrap()
        });
        assert_share(held, expected, ROUNDS);
    }
}

/// Pairs of runs in `n` blocks, which differ by `between` where runs differ by 1.
#[test]
fn deviations_of_blocks_hold_what_was_put_in() {
    for (n, between, expected) in
        [(8, 0.0, [0.984, 0.949]), (8, 1.0, [0.955, 0.948]), (12, 3.0, [0.949, 0.947])]
    {
        let mut prng = Prng::new(8, n as u64);
        let mut held = [0u32; 2];
        for _ in 0..ROUNDS {
            let pairs: Vec<[f64; 2]> = (0..n)
                .map(|_| {
                    let level = between * normal(&mut prng);
                    [level + normal(&mut prng), level + normal(&mut prng)]
                })
                .collect();
            let pairs: Vec<&[f64]> = pairs.iter().map(<[f64; 2]>::as_slice).collect();
            let got = block_deviations(&pairs, 0.95).unwrap();
            for (held, (of, truth)) in
                held.iter_mut().zip([(got.between, between), (got.within, 1.0)])
            {
                *held += u32::from(of.interval.unwrap().contains(truth));
            }
        }
        for (held, expected) in held.into_iter().zip(expected) {
            assert_share(f64::from(held) / f64::from(ROUNDS), expected, ROUNDS);
        }
    }
}

/// Decisions over simulated experiments of `blocks` blocks: 3 % noise of a run, 20 % between blocks, B truly `ratio`
/// times A. Shares of faster, slower, equivalent.
fn decisions(blocks: usize, ratio: f64, rounds: u32, is_paired: bool) -> [f64; 3] {
    let question = Question::new(Better::Higher);
    let mut prng = Prng::new(7, blocks as u64);
    let mut counts = [0u32; 3];
    for _ in 0..rounds {
        let level: Vec<f64> = (0..blocks).map(|_| (0.2 * normal(&mut prng)).exp()).collect();
        let mut side = |factor: f64| -> Vec<f64> {
            let is_shared = |block: &f64| if is_paired { *block } else { 1.0 };
            let run = |block| factor * is_shared(block) * (0.03 * normal(&mut prng)).exp();
            level.iter().map(run).collect()
        };
        let (a, b) = (side(300.0), side(300.0 * ratio));
        let compare = if is_paired { compare_paired } else { compare_unpaired };
        let got: Comparison = compare(&a, &b, &question).unwrap();
        match got.decision {
            Decision::Faster => counts[0] += 1,
            Decision::Slower => counts[1] += 1,
            Decision::Equivalent => counts[2] += 1,
            Decision::Inconclusive => {}
        }
    }
    let shares = counts.map(|count| f64::from(count) / f64::from(rounds));
    println!("{blocks} blocks, B = {ratio} A: faster, slower, equivalent {shares:?}");
    shares
}

#[test]
fn equal_things_are_rarely_called_different() {
    for (blocks, is_paired) in [(8, true), (12, true), (5, false)] {
        let [faster, slower, _] = decisions(blocks, 1.0, ROUNDS, is_paired);
        // At most 2.5 % each; 0.29 % is one standard error.
        assert!(faster < 0.04 && slower < 0.04, "{blocks}: {faster} {slower}");
    }
}

#[test]
fn a_difference_of_the_margin_is_rarely_called_equivalent() {
    for ratio in [1.03, 1.0 / 1.03] {
        let [_, _, equivalent] = decisions(20, ratio, ROUNDS, true);
        assert!(equivalent < 0.04, "{ratio}: {equivalent}");
    }
}

#[test]
fn what_is_there_is_found() {
    // A true difference of 5 % at 3 % noise, and none at all with enough blocks for a margin of 3 %.
    let [faster, slower, _] = decisions(12, 1.05, 1000, true);
    assert!(faster > 0.9 && slower == 0.0, "{faster} {slower}");
    let [_, _, equivalent] = decisions(40, 1.0, 200, true);
    assert!(equivalent > 0.9, "{equivalent}");
}
