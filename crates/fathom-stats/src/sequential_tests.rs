//! The stated share of wrong answers, proven over all sign patterns and simulated on ugly noise; and the power left.

use super::*;
use crate::equivalence::Better;
use crate::rank::paired::hodges_lehmann;
use crate::simulated::{correlated, normal};
use fathom_base::prng::Prng;
use proptest::prelude::*;

/// Two values per block, measured one after the other.
type Runs = Vec<[f64; 2]>;

/// Makes the noise of a whole experiment: the logarithms of fifty runs, in the order of measuring.
type Noise = fn(&mut Prng) -> Vec<f64>;

fn schedule() -> Schedule {
    Schedule::new(&LOOKS, 0.95).unwrap()
}

/// A and B in random order within each block, on the same noise; `difference` is ln(B / A).
fn experiment(prng: &mut Prng, noise: Noise, difference: f64, is_random: bool) -> Runs {
    let runs = noise(prng);
    let (blocks, _) = runs.as_chunks::<2>();
    let mut assign = |[first, second]: &[f64; 2]| {
        let (a, b) =
            if is_random && prng.below(2) == 1 { (second, first) } else { (first, second) };
        [a.exp(), (b + difference).exp()]
    };
    blocks.iter().map(&mut assign).collect()
}

/// Looks until the rule says stop; the answer and the blocks used.
fn run_to_the_end(schedule: &Schedule, runs: &Runs) -> (Answer, usize) {
    let a: Vec<f64> = runs.iter().map(|block| block[0]).collect();
    let b: Vec<f64> = runs.iter().map(|block| block[1]).collect();
    let mut blocks = schedule.looks()[0].blocks;
    loop {
        let question = Question::new(Better::Higher);
        let answer = schedule.judge(&a[..blocks], &b[..blocks], &question, 2.0).unwrap();
        match schedule.next(blocks, &[answer]) {
            Next::Measure { blocks: more } => blocks = more,
            Next::Answered | Next::Exhausted => return (answer, blocks),
        }
    }
}

fn smooth(prng: &mut Prng) -> Vec<f64> {
    (0..50).map(|_| 0.03 * normal(prng)).collect()
}

/// Log-normal twice over: one run in ten stalls for a log-normal while.
fn stalling(prng: &mut Prng) -> Vec<f64> {
    let stall = |prng: &mut Prng| if prng.below(10) == 0 { 0.3 * normal(prng).exp() } else { 0.0 };
    (0..50).map(|_| 0.03 * normal(prng) - stall(prng)).collect()
}

/// Loses 40 % from the first run to the last, and jumps half way.
fn drifting(prng: &mut Prng) -> Vec<f64> {
    let level = |i: usize| -0.01 * i as f64 - if i > 24 { 0.2 } else { 0.0 };
    (0..50).map(|i| level(i) + 0.03 * normal(prng)).collect()
}

fn autocorrelated(prng: &mut Prng) -> Vec<f64> {
    correlated(prng, 0.9, 50).iter().map(|e| 0.1 * e).collect()
}

fn in_blocks(prng: &mut Prng) -> Vec<f64> {
    let mut shift = 0.0;
    let mut run = |i: usize| {
        if i.is_multiple_of(2) {
            shift = 0.3 * normal(prng);
        }
        shift + 0.03 * normal(prng)
    };
    (0..50).map(&mut run).collect()
}

/// Everything at once, and the noise grows tenfold during the experiment.
fn everything(prng: &mut Prng) -> Vec<f64> {
    let all = [drifting(prng), stalling(prng), autocorrelated(prng), in_blocks(prng)];
    let grown = |i: usize| 0.02 * 10f64.powf(i as f64 / 49.0) * normal(prng);
    (0..50).map(grown).enumerate().map(|(i, e)| e + all.iter().map(|n| n[i]).sum::<f64>()).collect()
}

/// Equal cells: how many of 10,000 experiments call one faster or slower.
#[test]
fn equal_cells_are_seldom_called_different() {
    const EXPERIMENTS: usize = 10_000;
    let schedule = schedule();
    let kinds: [(&str, Noise); 6] = [
        ("log-normal", smooth),
        ("stalling", stalling),
        ("drifting", drifting),
        ("autocorrelated", autocorrelated),
        ("block effects", in_blocks),
        ("everything, growing", everything),
    ];
    for (stream, (name, noise)) in (0..).zip(kinds) {
        let mut prng = Prng::new(68, stream);
        let (mut faster, mut slower, mut used) = (0, 0, 0);
        for _ in 0..EXPERIMENTS {
            let runs = experiment(&mut prng, noise, 0.0, true);
            let (answer, blocks) = run_to_the_end(&schedule, &runs);
            faster += usize::from(answer.comparison.decision == Decision::Faster);
            slower += usize::from(answer.comparison.decision == Decision::Slower);
            used += blocks;
        }
        let (faster, slower) = (percent(faster, EXPERIMENTS), percent(slower, EXPERIMENTS));
        let blocks = used as f64 / EXPERIMENTS as f64;
        println!(
            "{name}: {faster:.2} % faster, {slower:.2} % slower, {blocks:.1} blocks on average"
        );
        assert!(faster + slower <= 5.0, "{name}: {faster} % faster, {slower} % slower");
    }
}

fn percent(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole as f64
}

/// That the test above can fail: plain intervals at each look, and a fixed order under drift.
#[test]
fn without_the_rule_equal_cells_are_often_called_different() {
    const EXPERIMENTS: usize = 2000;
    let schedule = schedule();
    let (mut peeked, mut fixed) = (0, 0);
    let mut prng = Prng::new(69, 0);
    for _ in 0..EXPERIMENTS {
        let runs = experiment(&mut prng, smooth, 0.0, true);
        let differences: Vec<f64> = runs.iter().map(|[a, b]| (b / a).ln()).collect();
        let is_wrong = |blocks: &usize| {
            let interval = hodges_lehmann(&differences[..*blocks], 0.95).unwrap().interval;
            interval.is_some_and(|interval| !interval.contains(0.0))
        };
        peeked += usize::from(LOOKS.iter().any(is_wrong));

        let runs = experiment(&mut prng, drifting, 0.0, false);
        let (answer, _) = run_to_the_end(&schedule, &runs);
        fixed += usize::from(answer.comparison.decision == Decision::Slower);
    }
    let (peeked, fixed) = (percent(peeked, EXPERIMENTS), percent(fixed, EXPERIMENTS));
    println!(
        "wrong with plain intervals at each look: {peeked:.1} %, with A always first under drift: {fixed:.1} %"
    );
    assert!(peeked > 8.0 && fixed > 8.0, "{peeked} {fixed}");
}

/// What a true difference or a true equality comes to, at 3 % noise of each run.
#[test]
fn power() {
    const EXPERIMENTS: usize = 2000;
    let schedule = schedule();
    let mut shares = Vec::new();
    for (stream, difference) in (0..).zip([5.0, 3.0, 0.0]) {
        let mut prng = Prng::new(70, stream);
        let (mut faster, mut equivalent, mut slower, mut used) = (0, 0, 0, 0);
        for _ in 0..EXPERIMENTS {
            let runs = experiment(&mut prng, smooth, (0.01f64 * difference).ln_1p(), true);
            let (answer, blocks) = run_to_the_end(&schedule, &runs);
            match answer.comparison.decision {
                Decision::Faster => faster += 1,
                Decision::Equivalent => equivalent += 1,
                Decision::Slower => slower += 1,
                Decision::Inconclusive => {}
            }
            used += blocks;
        }
        let [faster, equivalent, slower] =
            [faster, equivalent, slower].map(|part| percent(part, EXPERIMENTS));
        println!(
            "{difference} % faster, 3 % noise: {faster:.1} % called faster, {equivalent:.1} % no different, \
             {slower:.2} % slower, {:.1} blocks on average",
            used as f64 / EXPERIMENTS as f64
        );
        shares.push((faster, equivalent));
    }
    assert!(shares[0].0 > 95.0, "power {:.1} %", shares[0].0);
    // At the margin itself "no difference beyond the margin" is wrong half of the error at most.
    assert!(shares[1].1 <= 2.5 && shares[2].1 > 50.0, "{shares:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// For whatever sizes of the log-ratios: over all 2^10 sign patterns, which are equally likely when A and B are the
    /// same, the share in which any of three looks leaves out 0 is at most the stated error. Counted, not sampled.
    #[test]
    fn over_all_sign_patterns_the_error_is_at_most_the_stated_one(
        sizes in prop::collection::vec(prop_oneof![0.0..1.0f64, 0.0..100.0f64, Just(0.5)], 10),
    ) {
        let schedule = Schedule::new(&[5, 7, 10], 0.7).unwrap();
        let wrong = (0..1u32 << 10).filter(|pattern| {
            let sign = |i: usize| if pattern >> i & 1 == 1 { 1.0 } else { -1.0 };
            let differences: Vec<f64> = sizes.iter().enumerate().map(|(i, s)| s * sign(i)).collect();
            schedule.looks().iter().any(|look| {
                let got = hodges_lehmann(&differences[..look.blocks], look.level).unwrap();
                got.interval.is_some_and(|interval| !interval.contains(0.0))
            })
        });
        prop_assert!(wrong.count() as f64 <= 0.3 * 1024.0);
    }
}

#[test]
fn the_error_is_divided_among_the_looks() {
    let schedule = schedule();
    // 5 % times 8, 4, 6 and 7 of 25 blocks.
    let expected = [(8, 0.984), (12, 0.992), (18, 0.988), (25, 0.986)];
    for (look, (blocks, level)) in schedule.looks().iter().zip(expected) {
        assert_eq!(look.blocks, blocks);
        assert!((look.level - level).abs() < 1e-12);
    }
    let spent: f64 = schedule.looks().iter().map(|look| 1.0 - look.level).sum();
    assert!((spent - 0.05).abs() < 1e-12);
    // Eight pairs all of one sign have p = 2 / 256; one exception of the smallest size, 4 / 256 = 0.0156: still enough.
    let mut runs: Vec<f64> = (1..=8).map(|i| 100.0 * (0.1 * f64::from(i)).exp()).collect();
    runs[0] = 100.0 * (-0.1f64).exp();
    let answer = schedule.judge(&[100.0; 8], &runs, &Question::new(Better::Higher), 2.0).unwrap();
    assert_eq!(answer.comparison.decision, Decision::Faster);
    assert!(answer.is_settled() && !answer.is_narrow);
    runs[1] = 100.0 * (-0.2f64).exp();
    let answer = schedule.judge(&[100.0; 8], &runs, &Question::new(Better::Higher), 2.0).unwrap();
    assert_eq!(answer.comparison.decision, Decision::Inconclusive);
}

#[test]
fn what_to_do_next() {
    let schedule = schedule();
    let judge = |b: f64, step: f64, blocks: usize| {
        let spread: Vec<f64> = (0..blocks).map(|i| b + step * (i % 5) as f64).collect();
        schedule.judge(&vec![100.0; blocks], &spread, &Question::new(Better::Lower), 2.0).unwrap()
    };
    let (open, slower, alike) = (judge(90.0, 5.0, 8), judge(120.0, 1.0, 8), judge(98.0, 1.0, 25));
    assert_eq!(open.comparison.decision, Decision::Inconclusive);
    assert_eq!(slower.comparison.decision, Decision::Slower);
    assert_eq!(alike.comparison.decision, Decision::Equivalent);
    assert!(alike.is_narrow);
    assert_eq!(schedule.next(8, &[slower, open]), Next::Measure { blocks: 12 });
    assert_eq!(schedule.next(8, &[slower, slower]), Next::Answered);
    assert_eq!(schedule.next(18, &[open]), Next::Measure { blocks: 25 });
    assert_eq!(schedule.next(25, &[open]), Next::Exhausted);
    // Interrupted after 10 blocks: judged at the level of the look at 12.
    assert_eq!(schedule.look_at(10), Some(schedule.looks()[1]));
    assert!((judge(120.0, 1.0, 10).comparison.question.level - 0.992).abs() < 1e-12);
    assert_eq!(schedule.look_at(26), None);
}

#[test]
fn what_is_refused() {
    let schedule = schedule();
    let question = Question::new(Better::Higher);
    let refused = schedule.judge(&[1.0; 26], &[1.0; 26], &question, 2.0);
    assert_eq!(refused, Err(StatsError::TooMany { count: 26, most: 25 }));
    assert!(schedule.judge(&[1.0; 8], &[1.0; 7], &question, 2.0).is_err());
    assert!(schedule.judge(&[1.0; 8], &[0.0; 8], &question, 2.0).is_err());
    assert!(schedule.judge(&[], &[], &question, 2.0).is_err());
    for looks in [&[] as &[usize], &[0], &[8, 8], &[12, 8]] {
        assert!(Schedule::new(looks, 0.95).is_err(), "{looks:?}");
    }
    assert!(Schedule::new(&LOOKS, 1.0).is_err());
}
