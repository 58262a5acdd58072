//! Effects against a textbook's, against least squares solved in full, and against noise that was put in.

use super::*;
use crate::simulated::normal;
use fathom_base::prng::Prng;
use proptest::prelude::*;

#[track_caller]
fn near(got: f64, expected: f64) {
    assert!((got - expected).abs() < 1e-9 * expected.abs().max(1.0), "{got} for {expected}");
}

/// Observations from (levels, block, logarithm).
fn analyse_logs(factors: &[usize], rows: &[(Vec<usize>, usize, f64)]) -> Factorial {
    let observations: Vec<Observation<'_>> = rows
        .iter()
        .map(|(levels, block, log)| Observation { levels, block: *block, value: log.exp() })
        .collect();
    analyse(factors, &[], &observations, 0.95).unwrap()
}

fn log_of(result: &Factorial, of: &[(usize, usize)]) -> f64 {
    let effect = result.effects.iter().find(|effect| effect.of == of).unwrap();
    effect.ratio.value.ln()
}

/// The pilot plant of Box, Hunter and Hunter, chapter 5: yields for temperature, concentration and catalyst, low and
/// high, each run made twice. They give the effects 23.0, -5.0, 1.5, the interactions 1.5, 10.0, 0.0, the variance 8 with
/// 8 degrees of freedom, and 1.4 as the standard error of an effect. Here yields are the logarithms.
#[test]
fn agrees_with_the_textbook() {
    const YIELDS: [(f64, f64); 8] = [
        (59.0, 61.0),
        (74.0, 70.0),
        (50.0, 58.0),
        (69.0, 67.0),
        (50.0, 54.0),
        (81.0, 85.0),
        (46.0, 44.0),
        (79.0, 81.0),
    ];
    let levels = |i: usize| vec![i & 1, i >> 1 & 1, i >> 2];
    let rows: Vec<_> =
        (0..8).flat_map(|i| [(levels(i), 0, YIELDS[i].0), (levels(i), 0, YIELDS[i].1)]).collect();
    let got = analyse_logs(&[2, 2, 2], &rows);
    let main = [23.0, -5.0, 1.5];
    (0..3).for_each(|factor| near(log_of(&got, &[(factor, 1)]), main[factor]));
    near(log_of(&got, &[(0, 1), (1, 1)]), 2.0 * 1.5);
    near(log_of(&got, &[(0, 1), (2, 1)]), 2.0 * 10.0);
    near(log_of(&got, &[(1, 1), (2, 1)]), 0.0);
    near(got.deviation, 8f64.sqrt());
    assert_eq!((got.freedom, got.effects.len()), (8, 6));
    near(got.mean.ln(), 64.25);
    // t = 2.306 with 8 degrees of freedom, from any table; the standard error is the square root of 2.
    let interval = got.effects[0].ratio.interval.unwrap();
    assert!((interval.low.ln() - (23.0 - 2.306 * 2f64.sqrt())).abs() < 1e-3);
    assert!((interval.high.ln() - (23.0 + 2.306 * 2f64.sqrt())).abs() < 1e-3);
    // t = 1.0607 has p 0.32, t = 16.3 has next to none.
    assert!((got.effects[2].p - 0.3198).abs() < 1e-3, "{}", got.effects[2].p);
    assert!(got.effects[0].p < 1e-6);
    assert_eq!(got.effects[0].ranked.interval, None, "no blocks, no ranks");
    // Residuals of temperature low: -1 1 -4 4 -2 2 1 -1, squares 44; high: 2 -2 1 -1 -2 2 -1 1, squares 20.
    near(got.noise[0].deviation.value, (44.0f64 / 4.0).sqrt());
    near(got.noise[1].deviation.value, (20.0f64 / 4.0).sqrt());
}

/// A 2 x 3 in three blocks, from statsmodels 0.15.0 (Python), with y = log(v), k the block:
/// `m = smf.ols("y ~ C(k) + C(a) * C(b)", d).fit()`, `m.df_resid`, `sqrt(m.mse_resid)`, and `m.t_test(c)` with
/// its `conf_int(0.05)` and `pvalue` for the contrasts c of the main effects (averaged over the other factor) and of
/// the interactions; ratio and ends through `exp`.
#[test]
fn agrees_with_statsmodels() {
    const VALUES: [f64; 18] = [
        100.0, 104.0, 97.0, 112.0, 118.0, 109.0, 90.0, 95.0, 86.0, 103.0, 104.0, 99.0, 121.0,
        123.0, 119.0, 133.0, 145.0, 128.0,
    ];
    const EXPECTED: [[f64; 4]; 5] = [
        [1.1243042918607171, 1.1033833966467033, 1.1456218613929108, 7.259561130612552e-8],
        [1.0439229357593125, 1.0201820462277895, 1.0682163049564324, 0.0019381119504894649],
        [0.9675921585961798, 0.9455871831694344, 0.9901092168346957, 0.00963953132888539],
        [1.0129330963560663, 0.9673847460833592, 1.0606260454773337, 0.5476642517365065],
        [0.9958452026801541, 0.951065240141418, 1.042733585293913, 0.844249752582602],
    ];
    let rows: Vec<_> = (0..18).map(|i| (vec![i / 3 % 2, i % 3], i / 6, VALUES[i].ln())).collect();
    let got = analyse_logs(&[2, 3], &rows);
    near(got.deviation, 0.0178826850933274);
    assert_eq!(got.freedom, 10);
    for (effect, expected) in got.effects.iter().zip(EXPECTED) {
        let interval = effect.ratio.interval.unwrap();
        let figures = [effect.ratio.value, interval.low, interval.high, effect.p];
        figures.iter().zip(expected).for_each(|(got, expected)| near(*got, expected));
        near(effect.p / expected[3], 1.0);
    }
}

/// Solves `matrix x = right` by Gauss-Jordan elimination.
fn solve(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Vec<f64> {
    let n = right.len();
    for column in 0..n {
        let best =
            |a: &usize, b: &usize| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs());
        let pivot = (column..n).max_by(best).unwrap();
        matrix.swap(column, pivot);
        right.swap(column, pivot);
        for row in (0..n).filter(|row| *row != column) {
            let factor = matrix[row][column] / matrix[column][column];
            let source = matrix[column].clone();
            matrix[row].iter_mut().zip(&source).for_each(|(x, y)| *x -= factor * y);
            right[row] -= factor * right[column];
        }
    }
    (0..n).map(|i| right[i] / matrix[i][i]).collect()
}

/// Least squares of dummy variables: coefficients and residual sum of squares.
fn least_squares(rows: &[Vec<f64>], y: &[f64]) -> (Vec<f64>, f64) {
    let width = rows[0].len();
    let product = |i: usize, j: usize| rows.iter().map(|row| row[i] * row[j]).sum::<f64>();
    let matrix = (0..width).map(|i| (0..width).map(|j| product(i, j)).collect()).collect();
    let right = (0..width).map(|i| rows.iter().zip(y).map(|(row, y)| row[i] * y).sum()).collect();
    let coefficients = solve(matrix, right);
    let fitted = |row: &Vec<f64>| row.iter().zip(&coefficients).map(|(x, b)| x * b).sum::<f64>();
    let squares = rows.iter().zip(y).map(|(row, y)| (y - fitted(row)).powi(2)).sum();
    (coefficients, squares)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// A 3 x 2 x 2 in blocks: effects from the cells' coefficients of a least-squares fit of one dummy variable per cell
    /// and per block but the first.
    #[test]
    fn agrees_with_least_squares(
        noise in prop::collection::vec(-0.3..0.3f64, 12 * 4 * 2),
        blocks in 1usize..5,
        repeats in 1usize..3,
    ) {
        prop_assume!(blocks * repeats > 1);
        let factors = [3, 2, 2];
        let levels = |cell: usize| vec![cell % 3, cell / 3 % 2, cell / 6];
        let mut rows = Vec::new();
        for cell in 0..12 {
            for run in 0..blocks * repeats {
                let (block, e) = (run % blocks, noise[cell * 8 + run]);
                rows.push((levels(cell), block * 10, 3.0 + 0.1 * cell as f64 + 0.5 * block as f64 + e));
            }
        }
        let got = analyse_logs(&factors, &rows);
        let dummies: Vec<Vec<f64>> = rows
            .iter()
            .map(|(l, block, _)| {
                let cell = l[0] + 3 * l[1] + 6 * l[2];
                let mut row = vec![0.0; 12 + blocks - 1];
                row[cell] = 1.0;
                if *block > 0 {
                    row[11 + block / 10] = 1.0;
                }
                row
            })
            .collect();
        let logs: Vec<f64> = rows.iter().map(|row| row.2).collect();
        let (cells, squares) = least_squares(&dummies, &logs);
        prop_assert_eq!(got.freedom, rows.len() - 12 - (blocks - 1));
        prop_assert!((got.deviation - (squares / got.freedom as f64).sqrt()).abs() < 1e-9);
        let average = |is_in: &dyn Fn(&[usize]) -> bool| {
            let there: Vec<f64> = (0..12).filter(|c| is_in(&levels(*c))).map(|c| cells[c]).collect();
            there.iter().sum::<f64>() / there.len() as f64
        };
        for level in [1, 2] {
            let expected = average(&|l| l[0] == level) - average(&|l| l[0] == 0);
            prop_assert!((log_of(&got, &[(0, level)]) - expected).abs() < 1e-9);
            let gain = |other: usize| {
                average(&|l| l[0] == level && l[2] == other) - average(&|l| l[0] == 0 && l[2] == other)
            };
            prop_assert!((log_of(&got, &[(0, level), (2, 1)]) - (gain(1) - gain(0))).abs() < 1e-9);
        }
        prop_assert_eq!(got.effects.len(), 2 + 1 + 1 + 2 + 2 + 1);
        // The order of observations does not matter.
        rows.reverse();
        let again = analyse_logs(&factors, &rows);
        prop_assert!((again.deviation - got.deviation).abs() < 1e-9);
    }
}

/// Intervals hold what was put in as often as they say; noise is found where it was put.
#[test]
fn coverage_and_noise() {
    const ROUNDS: u32 = 1000;
    let mut prng = Prng::new(66, 0);
    let mut held = [0u32; 3];
    let mut false_alarms = 0;
    let mut deviations = [0.0; 2];
    for _ in 0..ROUNDS {
        let mut rows = Vec::new();
        for block in 0..8 {
            let shift = 0.2 * normal(&mut prng);
            for cell in 0..4usize {
                let levels = vec![cell & 1, cell >> 1];
                let truth = 0.1 * levels[0] as f64 + 0.04 * (levels[0] * levels[1]) as f64;
                let noise = [0.02, 0.06][levels[1]] * normal(&mut prng);
                rows.push((levels, block, 5.0 + shift + truth + noise));
            }
        }
        let got = analyse_logs(&[2, 2], &rows);
        // Main effects are averages over the other factor's levels.
        for (i, truth) in [0.12f64, 0.02, 0.04].into_iter().enumerate() {
            held[i] += u32::from(got.effects[i].ratio.interval.unwrap().contains(truth.exp()));
            let ranked = got.effects[i].ranked.interval.unwrap();
            false_alarms += u32::from(!ranked.contains(truth.exp()));
        }
        deviations
            .iter_mut()
            .zip(&got.noise[2..])
            .for_each(|(sum, noise)| *sum += noise.deviation.value);
    }
    let shares = held.map(|held| f64::from(held) / f64::from(ROUNDS));
    let ranked = 1.0 - f64::from(false_alarms) / f64::from(3 * ROUNDS);
    let [low, high] = deviations.map(|sum| sum / f64::from(ROUNDS));
    println!(
        "95 % intervals hold in {shares:?}, by ranks in {ranked:.3}; noise {low:.4} and {high:.4}"
    );
    assert!(shares.iter().all(|share| *share > 0.90) && ranked > 0.93, "{shares:?} {ranked}");
    assert!(high > 1.5 * low);
}

/// A 2 x 2 of a build and a knob with 3 % between builds and 1 % between runs, and a build of three levels beside: intervals hold 1
/// as often as they say, those of the knob are no wider for the builds' scatter. Against one pooled residual those of the build
/// leave it out in more than a quarter.
#[test]
fn builds_are_tested_against_builds() {
    const ROUNDS: u32 = 1000;
    let mut prng = Prng::new(67, 0);
    let mut out = [0u32; 4];
    let mut pooled_out = 0;
    let mut half_of_knob = 0.0;
    for _ in 0..ROUNDS {
        let mut rows = Vec::new();
        for block in 0..8 {
            let shift = 0.1 * normal(&mut prng);
            for build in 0..3 {
                let own = 0.03 * normal(&mut prng);
                for knob in 0..4 {
                    rows.push((vec![build, knob], block, shift + own + 0.01 * normal(&mut prng)));
                }
            }
        }
        let observations: Vec<Observation<'_>> = rows
            .iter()
            .map(|(levels, block, log)| Observation { levels, block: *block, value: log.exp() })
            .collect();
        let got = analyse(&[3, 4], &[0], &observations, 0.95).unwrap();
        // Builds 1 and 2, the knob's first, the first interaction.
        for (count, at) in out.iter_mut().zip([0, 1, 2, 5]) {
            *count += u32::from(!got.effects[at].ratio.interval.unwrap().contains(1.0));
        }
        let knob = got.effects[2].ratio.interval.unwrap();
        half_of_knob += 0.5 * (knob.high / knob.low).ln() / f64::from(ROUNDS);
        let pooled = analyse(&[3, 4], &[], &observations, 0.95).unwrap();
        pooled_out += u32::from(!pooled.effects[0].ratio.interval.unwrap().contains(1.0));
    }
    let shares = out.map(|out| f64::from(out) / f64::from(ROUNDS));
    let pooled = f64::from(pooled_out) / f64::from(ROUNDS);
    println!("1 left out in {shares:?}; pooled {pooled}; half of the knob's {half_of_knob:.4}");
    assert!(shares.iter().all(|share| (0.03..0.075).contains(share)), "{shares:?}");
    assert!(pooled > 0.25, "{pooled}");
    // 24 runs on a side: t of 63 degrees of freedom times 0.01 x sqrt(2 / 24).
    assert!((half_of_knob / (1.998 * 0.01 * (2f64 / 24.0).sqrt()) - 1.0).abs() < 0.02);
}

/// By hand: three blocks with the contrasts 0.1, 0.2, 0.3, mean 0.2, deviation 0.1; t = 4.303 with 2 degrees of freedom, p of
/// t = 3.464 is 0.0742. A single block has no noise between builds.
#[test]
fn the_effect_of_a_build_is_that_of_its_contrasts() {
    let levels = [[0, 0], [0, 1], [1, 0], [1, 1]];
    let log = |block: usize, at: usize| match at {
        0 | 1 => 0.05 * at as f64,
        _ => 0.1 * (block + 1) as f64 + 0.05 * (at - 2) as f64,
    };
    let run = |block: usize| -> Vec<Observation<'_>> {
        let one =
            |at: usize| Observation { levels: &levels[at], block, value: log(block, at).exp() };
        (0..4).map(one).collect()
    };
    let all: Vec<Observation<'_>> = (0..3).flat_map(run).collect();
    let got = analyse(&[2, 2], &[0], &all, 0.95).unwrap();
    let interval = got.effects[0].ratio.interval.unwrap();
    near(got.effects[0].ratio.value.ln(), 0.2);
    assert!((interval.high.ln() - (0.2 + 4.303 * 0.1 / 3f64.sqrt())).abs() < 1e-4, "{interval:?}");
    assert!((got.effects[0].p - 0.0742).abs() < 1e-4, "{}", got.effects[0].p);
    let twice: Vec<Observation<'_>> = [run(0), run(0)].concat();
    let one_block = analyse(&[2, 2], &[0], &twice, 0.95).unwrap();
    assert_eq!((one_block.effects[0].ratio.interval, one_block.effects[0].p), (None, 1.0));
    assert!(one_block.effects[1].ratio.interval.is_some());
}

#[test]
fn what_is_refused() {
    let run = |levels: &'static [usize], block, value| Observation { levels, block, value };
    let mut runs = vec![
        run(&[0, 0], 1, 10.0),
        run(&[1, 0], 1, 11.0),
        run(&[0, 1], 1, 12.0),
        run(&[1, 1], 1, 13.0),
    ];
    assert_eq!(analyse(&[2, 2], &[], &runs, 0.95), Err(FactorialError::Unreplicated));
    runs.extend([run(&[0, 0], 7, 10.1), run(&[1, 0], 7, 11.2), run(&[0, 1], 7, 12.1)]);
    let error = analyse(&[2, 2], &[], &runs, 0.95).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the cell with levels [1, 1] has 0 runs in block 7, others have 1; repeat what is missing or leave out the block"
    );
    runs.push(run(&[1, 1], 7, 13.2));
    let good = analyse(&[2, 2], &[], &runs, 0.95).unwrap();
    assert_eq!((good.freedom, good.effects.len()), (3, 3));
    assert!(matches!(analyse(&[2, 1], &[], &runs, 0.95), Err(FactorialError::Factors(_))));
    assert!(matches!(analyse(&[], &[], &runs, 0.95), Err(FactorialError::Factors(_))));
    assert!(matches!(
        analyse(&[2], &[], &runs, 0.95),
        Err(FactorialError::Levels { place: 1, .. })
    ));
    assert!(matches!(analyse(&[2, 3], &[], &runs, 0.95), Err(FactorialError::Unbalanced { .. })));
    assert!(matches!(analyse(&[2, 2], &[], &runs, 1.0), Err(FactorialError::Stats(_))));
    assert!(matches!(analyse(&[2, 2], &[], &[], 0.95), Err(FactorialError::Stats(_))));
    runs[0].value = 0.0;
    assert!(matches!(analyse(&[2, 2], &[], &runs, 0.95), Err(FactorialError::Stats(_))));
    // Many levels must not take for ever: the first missing cell ends the search.
    let one = [run(&[0, 0], 0, 1.0)];
    assert!(analyse(&[usize::MAX, usize::MAX], &[], &one, 0.95).is_err());
}

/// Without noise every difference is certain, and there is no division by 0.
#[test]
fn exact_data() {
    let levels: Vec<[usize; 1]> = vec![[0], [1], [0], [1]];
    let values = [1.0, 1.0, 1.0, 1.0];
    let observations: Vec<Observation<'_>> = levels
        .iter()
        .zip(values)
        .enumerate()
        .map(|(i, (levels, value))| Observation { levels, block: i / 2, value })
        .collect();
    let got = analyse(&[2], &[], &observations, 0.95).unwrap();
    assert_eq!((got.effects[0].p, got.effects[0].ratio.value, got.deviation), (1.0, 1.0, 0.0));
}

/// Four units of each combination are a factorial of one block, whose runs are the units.
#[test]
fn units_are_as_runs_without_blocks() {
    let mut prng = Prng::new(17, 0);
    let rows: Vec<(Vec<usize>, usize, f64)> = (0..24)
        .map(|i| (vec![i % 2, i / 2 % 3], 0, 0.2 * (i % 2) as f64 + 0.1 * normal(&mut prng)))
        .collect();
    let expected = analyse_logs(&[2, 3], &rows);
    let units: Vec<Observation<'_>> = rows
        .iter()
        .map(|(levels, _, log)| Observation { levels, block: 0, value: log.exp() })
        .collect();
    for effect in &expected.effects {
        let got = between_units(&[2, 3], &effect.of, &units, 0.95).unwrap();
        let ends = |e: &Effect| e.ratio.interval.map(|i| (i.low, i.high)).unwrap();
        near(got.ratio.value, effect.ratio.value);
        near(ends(&got).0, ends(effect).0);
        near(ends(&got).1, ends(effect).1);
        near(got.p, effect.p);
    }
}

/// Student's t of two groups of unlike size, by hand: squares 5 and 10 with 7 degrees of freedom, an error of 0.98198, t = 2.5459 against
/// 2.3646 from any table.
#[test]
fn a_unit_is_one_value() {
    let (base, own) = ([1.0, 2.0, 3.0, 4.0f64], [3.0, 4.0, 5.0, 6.0, 7.0f64]);
    let unit =
        |log: &f64, levels: &'static [usize]| Observation { levels, block: 0, value: log.exp() };
    let units: Vec<Observation<'_>> =
        base.iter().map(|l| unit(l, &[0])).chain(own.iter().map(|l| unit(l, &[1]))).collect();
    let got = between_units(&[2], &[(0, 1)], &units, 0.95).unwrap();
    let interval = got.ratio.interval.unwrap();
    near(got.ratio.value.ln(), 2.5);
    assert!(
        (interval.low.ln() - 0.17799).abs() < 1e-4 && (interval.high.ln() - 4.82201).abs() < 1e-4
    );
    assert!((got.p - 0.038_334).abs() < 1e-5, "{}", got.p);
    assert_eq!((got.ratio.count, got.ranked.interval.is_some()), (9, true));
    // Three of one kind are no measure of how units differ; none at all is no comparison.
    let few = between_units(&[2], &[(0, 1)], &units[1..], 0.95).unwrap();
    assert_eq!((few.ratio.interval, few.ranked.interval, few.p), (None, None, 1.0));
    near(few.ratio.value.ln(), 2.0);
    assert!(matches!(
        between_units(&[2], &[(0, 1)], &units[4..], 0.95),
        Err(FactorialError::Unreplicated)
    ));
}
