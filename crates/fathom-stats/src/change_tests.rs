//! The statistic against its definition and its published limits, the cliffs that storage has, the share of false alarms on
//! noise, and which steps are found.

use super::*;
use crate::simulated::{correlated, normal};
use fathom_base::prng::Prng;
use proptest::prelude::*;

/// The usual shortest regime of a run, in seconds, and smallest step.
const LENGTH_MIN: usize = 10;
const STEP_MIN_PERCENT: f64 = 5.0;

/// With the usual limits.
fn usual(series: &[f64]) -> Vec<Regime> {
    regimes(series, LENGTH_MIN, STEP_MIN_PERCENT).unwrap()
}

/// Levels with their lengths, and relative noise.
fn steps(prng: &mut Prng, noise: f64, levels: &[(usize, f64)]) -> Vec<f64> {
    let expand = |&(length, level): &(usize, f64)| std::iter::repeat_n(level, length);
    let levels: Vec<f64> = levels.iter().flat_map(expand).collect();
    levels.iter().map(|level| level * (1.0 + noise * normal(prng))).collect()
}

/// The statistic as Zhao, Jiang and Shao define it: the contrast of both sides, squared, over the contrasts inside each side,
/// squared and summed; with the least noise added.
fn by_definition(values: &[f64], at: usize) -> f64 {
    let n = values.len() as f64;
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let contrast = |part: &[f64], at: usize| {
        let (before, after) = (at as f64, (part.len() - at) as f64);
        before * after / (before + after) * (mean(&part[..at]) - mean(&part[at..]))
    };
    let inside = |part: &[f64]| {
        let all = (1..part.len()).map(|at| contrast(part, at).powi(2));
        all.sum::<f64>() + (NOISE_MIN * part.len() as f64).powi(2) / 6.0
    };
    n * contrast(values, at).powi(2) / (inside(&values[..at]) + inside(&values[at..]))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn no_window_has_a_larger_statistic(
        noise in prop::collection::vec(0.9..1.1f64, 16..60),
        (first, second) in (50.0..200.0f64, 50.0..200.0f64),
        trend in -2.0..2.0f64,
        unit in 5usize..9,
    ) {
        let n = noise.len();
        let level = |i: usize| if i < n / 3 { first } else { second };
        let points: Vec<f64> =
            noise.iter().enumerate().map(|(i, e)| (level(i) + trend * i as f64) * e).collect();
        let windows = Windows::new(&points, unit);
        let mut most = 0f64;
        for at in unit..=n - unit {
            for left in (0..=at - unit).filter(|left| (at - left) % unit == 0) {
                for right in (at + unit..=n).filter(|right| (right - at) % unit == 0) {
                    most = most.max(by_definition(&points[left..right], at - left));
                }
            }
        }
        let (_, found) = windows.best(0, n).unwrap();
        prop_assert!((found - most).abs() < 1e-6 * most, "{} {}", found, most);
    }

    #[test]
    fn regimes_cover_the_series_whatever_it_is(
        series in prop::collection::vec(prop_oneof![Just(0.0), 0.0..1e6f64, -1e3..1e3f64], 1..200),
        length_min in 0usize..30,
        step in 0.0..50.0f64,
    ) {
        let got = regimes(&series, length_min, step).unwrap();
        prop_assert_eq!((got[0].start, got[got.len() - 1].end), (0, series.len()));
        prop_assert!(got.windows(2).all(|pair| pair[0].end == pair[1].start));
        let shortest = got.iter().map(|r| r.end - r.start).min().unwrap();
        prop_assert!(got.len() == 1 || shortest >= length_min.max(LENGTH_LEAST));
        prop_assert!(got.iter().all(|r| r.level.is_finite() && r.rise.is_finite()));
        // The unit does not matter.
        let scaled: Vec<f64> = series.iter().map(|y| 1024.0 * y).collect();
        let again: Vec<usize> = regimes(&scaled, length_min, step).unwrap().iter().map(|r| r.end).collect();
        prop_assert_eq!(again, got.iter().map(|r| r.end).collect::<Vec<_>>());
    }
}

/// Runs a scenario many times; every time the regimes must end near those places and have those levels within 10 %.
#[track_caller]
fn assert_found(scenario: impl Fn(&mut Prng) -> Vec<f64>, expected: &[(usize, f64)], share: f64) {
    let mut prng = Prng::new(71, expected.len() as u64);
    let rounds = 100;
    let is_right = |series: &[f64]| {
        let got = usual(series);
        got.len() == expected.len()
            && got.iter().zip(expected).all(|(r, (end, level))| {
                r.end.abs_diff(*end) <= 5 && (r.level / level - 1.0).abs() < 0.1
            })
    };
    let right = (0..rounds).filter(|_| is_right(&scenario(&mut prng))).count();
    let example = usual(&scenario(&mut prng));
    assert!(
        right as f64 >= share * f64::from(rounds),
        "{right} of {rounds} right; such as {example:?}"
    );
}

#[test]
fn cliffs_are_found_where_they_are() {
    // The cache of a drive is exhausted.
    assert_found(
        |p| steps(p, 0.05, &[(180, 1000.0), (120, 200.0)]),
        &[(180, 1000.0), (300, 200.0)],
        0.95,
    );
    // Calm, and then garbage collection with thirty times the noise.
    assert_found(
        |p| [steps(p, 0.01, &[(100, 500.0)]), steps(p, 0.3, &[(200, 250.0)])].concat(),
        &[(100, 500.0), (300, 250.0)],
        0.9,
    );
    // Throttled in turns.
    let turns: Vec<(usize, f64)> =
        (0..6).map(|i| (40, if i % 2 == 0 { 800.0 } else { 600.0 })).collect();
    let ends: Vec<(usize, f64)> =
        turns.iter().enumerate().map(|(i, (_, level))| (40 * (i + 1), *level)).collect();
    assert_found(|p| steps(p, 0.03, &turns), &ends, 0.95);
    // A stop of some seconds that lasts long enough to be a state.
    assert_found(
        |p| steps(p, 0.03, &[(100, 90.0), (15, 1.0), (100, 90.0)]),
        &[(100, 90.0), (115, 1.0), (215, 90.0)],
        0.95,
    );
    // A small step among neighbours that go together.
    assert_found(
        |p| {
            let noise = correlated(p, 0.5, 300);
            let level = |i: usize| if i < 150 { 100.0 } else { 85.0 };
            noise.iter().enumerate().map(|(i, e)| level(i) * (1.0 + 0.03 * e)).collect()
        },
        &[(150, 100.0), (300, 85.0)],
        0.95,
    );
}

#[test]
fn a_trend_is_one_regime() {
    let mut prng = Prng::new(72, 0);
    let (mut most, mut divided) = (0, 0);
    for phi in [0.0, 0.5] {
        for _ in 0..100 {
            let noise = correlated(&mut prng, phi, 600);
            let series: Vec<f64> =
                noise.iter().enumerate().map(|(i, e)| 100.0 - i as f64 / 20.0 + 3.0 * e).collect();
            let got = usual(&series);
            most = most.max(got.len());
            divided += usize::from(got.len() > 1);
            if let [only] = &got[..] {
                assert!(
                    (only.rise + 30.0).abs() < 4.0 && (only.level - 85.0).abs() < 2.0,
                    "{only:?}"
                );
            }
        }
    }
    println!("{divided} of 200 trends divided, at most into {most}");
    assert!(divided <= 20 && most <= 3, "{divided} of 200 divided, into {most} regimes");
    // A warm-up is a curve: it has no place where it happened.
    let noise = correlated(&mut prng, 0.3, 600);
    let warming = |(i, e): (usize, &f64)| 100.0 - 60.0 * (-(i as f64) / 60.0).exp() + 2.0 * e;
    let got = usual(&noise.iter().enumerate().map(warming).collect::<Vec<_>>());
    assert_eq!(got.len(), 1, "{got:?}");
}

#[test]
fn stalls_are_no_regimes() {
    let mut prng = Prng::new(73, 0);
    let mut divided = 0;
    for _ in 0..200 {
        let mut series = steps(&mut prng, 0.03, &[(300, 100.0)]);
        for _ in 0..4 {
            let at = prng.below(297) as usize;
            series[at..at + 1 + prng.below(3) as usize].fill(0.0);
        }
        divided += usize::from(usual(&series).len() > 1);
    }
    assert!(divided <= 4, "{divided} of 200 divided");
    // Throughput that dips every ten seconds is one state.
    let dipping: Vec<f64> =
        (0..300).map(|i| if i % 10 == 0 { 40.0 } else { 100.0 } + normal(&mut prng)).collect();
    assert_eq!(usual(&dipping).len(), 1);
}

fn percent(count: usize, rounds: usize) -> f64 {
    100.0 * count as f64 / rounds as f64
}

/// Published: the limits at 95 % and 99 % by the same authors, which are simulated for long series. The share of series of
/// 400 independent values above them is a little smaller: the limits are for ever more values.
#[test]
fn published_limits() {
    const ROUNDS: usize = 1000;
    let published =
        [(0.05, 165.47, 224.24), (0.1, 131.94, 185.26), (0.2, 92.33, 135.56), (0.5, 17.63, 35.41)];
    for (stream, (share, five, one)) in (0..).zip(published) {
        let mut prng = Prng::new(179, stream);
        let mut most = || {
            let noise = correlated(&mut prng, 0.0, 400);
            Windows::new(&noise, (400.0 * share) as usize).best(0, 400).map_or(0.0, |best| best.1)
        };
        let all: Vec<f64> = (0..ROUNDS).map(|_| most()).collect();
        let above = |limit: f64| percent(all.iter().filter(|s| **s > limit).count(), ROUNDS);
        println!("window {share}: {:.2} % above 95 %, {:.2} % above 99 %", above(five), above(one));
        assert!((2.0..6.5).contains(&above(five)) && (0.3..1.8).contains(&above(one)), "{share}");
    }
    assert!((limit(0.05) - 320.57).abs() < 1e-9 && (limit(0.5) - 78.78).abs() < 1e-9);
    assert!((limit(0.175) - 224.11).abs() < 1e-9, "{}", limit(0.175));
    assert_eq!((limit(0.0), limit(1.0)), (320.57, 78.78));
}

/// How many series without a change are divided: independent values, normal and log-normal (coefficient of variation
/// 0.5), and values whose neighbours go together; then with 3 % noise those that remain with steps of 5 %.
#[test]
fn false_alarms() {
    const ROUNDS: usize = 2000;
    let lengths = [(10, 5), (16, 8), (40, 8), (60, 10), (120, 10)];
    for (stream, (length, shortest)) in (0..).zip(lengths) {
        let mut prng = Prng::new(174, stream);
        let mut share = |phi: f64, step: f64, shape: fn(f64) -> f64| {
            let is_divided = |prng: &mut Prng| {
                let series: Vec<f64> =
                    correlated(prng, phi, length).into_iter().map(shape).collect();
                regimes(&series, shortest, step).unwrap().len() > 1
            };
            percent((0..ROUNDS).filter(|_| is_divided(&mut prng)).count(), ROUNDS)
        };
        let even = |e: f64| 100.0 + 3.0 * e;
        let shares = [
            share(0.0, 0.0, even),
            share(0.0, 0.0, |e| (0.47 * e).exp()),
            share(0.3, 0.0, even),
            share(0.6, 0.0, even),
            share(0.6, 5.0, even),
        ];
        println!(
            "{length} values, regimes of {shortest}: white {:.2} %, log-normal {:.2} %, rho 0.3 {:.2} %, rho 0.6 {:.2} %; \
             with steps of 5 % {:.2} %",
            shares[0], shares[1], shares[2], shares[3], shares[4]
        );
        let most = [0.5, 0.8, 1.5, 9.0, 6.0];
        let is_held = shares.iter().zip(most).all(|(share, most)| *share <= most);
        assert!(is_held, "{length} values: {shares:?} of {most:?}");
    }
}

/// How often one step in the middle is found, in percent, and where it is.
#[test]
fn power() {
    const ROUNDS: usize = 200;
    println!("values  noise  rho   step of 10 %  20 %  50 %");
    let lengths = [6, 10, 16, 24, 40, 60, 120];
    let kinds = [(0.03, 0.0), (0.03, 0.6), (0.05, 0.0), (0.1, 0.0), (0.1, 0.6)];
    for (noise, phi) in kinds {
        let row = |length: usize| {
            let mut prng = Prng::new(176, length as u64);
            let mut share = |step: f64| {
                let mut is_found = || {
                    let level =
                        |i: usize| if 2 * i < length { 100.0 } else { 100.0 * (1.0 - step) };
                    let values = correlated(&mut prng, phi, length);
                    let values =
                        values.iter().enumerate().map(|(i, e)| level(i) * (1.0 + noise * e));
                    let series: Vec<f64> = values.collect();
                    let found = regimes(&series, LENGTH_MIN.min(length / 2), 5.0).unwrap();
                    matches!(&found[..], [a, _] if a.end.abs_diff(length / 2) <= 1 + length / 20)
                };
                percent((0..ROUNDS).filter(|_| is_found()).count(), ROUNDS)
            };
            [0.1, 0.2, 0.5].map(&mut share)
        };
        for length in lengths {
            let [ten, twenty, fifty] = row(length);
            println!("{length:6}  {noise:5}  {phi:3}  {ten:13.0}  {twenty:4.0}  {fifty:4.0}");
            // One of 20 % at up to 5 % noise, one of 50 % at up to 10 %, with room for two regimes.
            let least = match length {
                6 => [0.0, 0.0],
                10 => [if noise < 0.1 { 75.0 } else { 0.0 }, 50.0],
                _ => [if noise < 0.1 { 90.0 } else { 0.0 }, 90.0],
            };
            assert!(twenty >= least[0] && fifty >= least[1], "{length} values, noise {noise}");
        }
    }
}

/// How often noise alone is called a rise or fall, and a fall of 30 % is.
#[test]
fn rises_are_no_chance() {
    const ROUNDS: usize = 2000;
    for (stream, length) in (0..).zip([20, 60, 300]) {
        let mut prng = Prng::new(180, stream);
        let mut share = |phi: f64, fall: f64| {
            let is_rise = |prng: &mut Prng| {
                let falling = |(i, e): (usize, &f64)| {
                    100.0 * (1.0 - fall * i as f64 / length as f64) + 5.0 * e
                };
                let noise = correlated(prng, phi, length);
                rise(&noise.iter().enumerate().map(falling).collect::<Vec<_>>()) != 0.0
            };
            percent((0..ROUNDS).filter(|_| is_rise(&mut prng)).count(), ROUNDS)
        };
        let shares = [share(0.0, 0.0), share(0.3, 0.0), share(0.6, 0.0), share(0.0, 0.3)];
        println!(
            "{length} values: rises of noise {:.2} %, rho 0.3 {:.2} %, rho 0.6 {:.2} %; a fall of 30 % {:.1} %",
            shares[0], shares[1], shares[2], shares[3]
        );
        assert!(shares[0] <= 1.0 && shares[1] <= 3.5 && shares[2] <= 10.0, "{shares:?}");
        assert!(shares[3] >= 90.0, "{shares:?}");
    }
}

#[test]
fn long_series_are_averaged() {
    let mut prng = Prng::new(75, 0);
    let series = steps(&mut prng, 0.2, &[(7000, 300.0), (3000, 150.0)]);
    let got = usual(&series);
    assert_eq!(got.len(), 2, "{got:?}");
    assert!(got[0].end.abs_diff(7000) <= 25 && got[1].end == 10_000, "{got:?}");
}

/// A device that stands still most of the time: more than half of the values are 0.
#[test]
fn mostly_zero() {
    let mut prng = Prng::new(77, 0);
    let working = steps(&mut prng, 0.03, &[(80, 100.0)]);
    let series = [&[0.0; 60][..], &working, &[0.0; 100]].concat();
    let ends = |series: &[f64]| usual(series).iter().map(|r| r.end).collect::<Vec<_>>();
    assert_eq!(ends(&series), [60, 140, 240]);
    // The unit does not matter, whatever it is.
    for scale in [1e-9, 0.3, 7e11] {
        let scaled: Vec<f64> = series.iter().map(|y| y * scale).collect();
        assert_eq!(ends(&scaled), [60, 140, 240], "times {scale}");
    }
    // Large numbers leave rounding in the sums, which is no noise; and 0.1 beside them is as good as 0.
    let series = [&vec![1e6 / 3.0; 20][..], &[0.1; 20], &[0.0; 100]].concat();
    assert_eq!(ends(&series), [20, 140]);
    // Now and then an operation is no regime.
    let rare: Vec<f64> = (0..300).map(|i| if i % 37 == 5 { 50.0 } else { 0.0 }).collect();
    assert_eq!(ends(&rare), [300]);
}

#[test]
fn ends() {
    assert!(regimes(&[], 10, 5.0).is_err());
    assert!(regimes(&[1.0, f64::NAN], 10, 5.0).is_err());
    let one = |series: &[f64]| {
        let got = usual(series);
        assert_eq!(got.len(), 1, "{got:?}");
        (got[0].end, got[0].level)
    };
    assert_eq!(one(&[3.0]), (1, 3.0));
    assert_eq!(one(&[3.0, 5.0]), (2, 4.0));
    assert_eq!(one(&[0.0; 50]), (50, 0.0));
    assert_eq!(one(&[7.0; 50]), (50, 7.0));
    // Too short to be divided.
    assert_eq!(one(&[1.0, 1.0, 1.0, 1.0, 9.0, 9.0, 9.0, 9.0]).0, 8);
    // Without any noise.
    let mut exact = vec![5.0; 40];
    exact[25..].fill(6.0);
    let got = usual(&exact);
    assert_eq!((got.len(), got[0].end, got[0].level, got[1].level), (2, 25, 5.0, 6.0));
}
