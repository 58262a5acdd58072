//! The search on curves whose knee is known by looking at every point.

use super::*;

const FREE: Shape = Shape { threads_max: 1, one_per_thread: false };
const START: u64 = 32;
const LIMIT: u64 = 4096;

/// Throughput of a machine by requests in flight, Gunther's universal scalability law: `contention` alone is Amdahl's.
fn law(contention: f64, coherence: f64) -> impl Fn(u64) -> f64 {
    move |c| {
        let n = c as f64;
        1000.0 * n / (1.0 + contention * (n - 1.0) + coherence * n * (n - 1.0))
    }
}

/// A fixed number of servers: linear, then flat.
fn servers(count: u64) -> impl Fn(u64) -> f64 {
    move |c| 100.0 * c.min(count) as f64
}

/// Brute force: every point up to the limit.
fn oracle(curve: &impl Fn(u64) -> f64) -> u64 {
    let most = (1..=LIMIT).map(curve).fold(0.0, f64::max);
    (1..=LIMIT).find(|c| curve(*c) * (1.0 + GROWTH_MIN) >= most).unwrap()
}

struct Noise {
    prng: Prng,
    /// Standard deviation, as a share.
    share: f64,
}

impl Noise {
    /// Twelve uniform numbers make a normal one, near enough.
    fn factor(&mut self) -> f64 {
        let uniform = |prng: &mut Prng| prng.below(1 << 32) as f64 / 4_294_967_296.0;
        let sum: f64 = (0..12).map(|_| uniform(&mut self.prng)).sum();
        1.0 + self.share * (sum - 6.0)
    }
}

/// Runs it to its end within `budget` runs; gives it and how many it took.
fn searched(
    shape: Shape,
    curve: &impl Fn(u64) -> f64,
    noise: &mut Noise,
    budget: usize,
) -> (Search, usize) {
    let mut search = Search::new(shape, START, LIMIT, 7);
    for taken in 0..budget {
        let Some(concurrency) = search.next(budget - taken) else { return (search, taken) };
        assert!(concurrency <= LIMIT && shape.round(concurrency) == concurrency);
        search.measured(concurrency, curve(concurrency) * noise.factor());
    }
    (search, budget)
}

fn quiet() -> Noise {
    Noise { prng: Prng::new(1, 0), share: 0.0 }
}

/// The points next to the true knee, a resolution away.
fn is_near(found: u64, truth: u64) -> bool {
    let (found, truth) = (found as f64, truth as f64);
    found <= (truth * RESOLUTION).max(truth + 1.0) && found >= (truth / RESOLUTION).min(truth - 1.0)
}

fn finds(name: &str, curve: impl Fn(u64) -> f64) {
    let (search, taken) = searched(FREE, &curve, &mut quiet(), 200);
    let truth = oracle(&curve);
    let found = knee(search.runs()).unwrap_or_else(|| panic!("{name}: still growing"));
    assert!(is_near(found.concurrency, truth), "{name}: {found:?}, truth {truth}");
    // Exactly 10 % more is on neither side of the margin for certain.
    let most = (1..=LIMIT).map(&curve).fold(0.0, f64::max);
    let is_tie = (1..=LIMIT).any(|c| (curve(c) * (1.0 + GROWTH_MIN) / most - 1.0).abs() < 1e-9);
    assert!(found.is_decided() || is_tie, "{name}: {found:?}");
    assert!(found.blocks >= BLOCKS_MAX, "{name}: {found:?}");
    let explored = search.runs().concurrencies().len();
    let blocks = 5 * FIRST_BLOCKS + 3 * BLOCKS_MAX;
    assert!(explored <= 22 && taken <= explored + blocks, "{name}: {taken}, {explored}");
}

#[test]
fn the_knee_of_every_shape_is_found() {
    for contention in [0.5, 0.2, 0.05, 0.01, 0.004] {
        finds(&format!("Amdahl {contention}"), law(contention, 0.0));
    }
    for (contention, coherence) in [(0.1, 0.01), (0.02, 0.001), (0.01, 0.0001), (0.0, 0.00002)] {
        finds(&format!("falling {contention} {coherence}"), law(contention, coherence));
    }
    for count in 1..=140 {
        finds(&format!("{count} servers"), servers(count));
    }
    for count in [200, 333, 512, 1000] {
        finds(&format!("{count} servers"), servers(count));
    }
}

/// Flat from the start: one in flight is enough, and little is measured to find that out.
#[test]
fn flat_from_the_start() {
    let (search, taken) = searched(FREE, &|_| 500.0, &mut quiet(), 200);
    let found = knee(search.runs()).unwrap();
    assert_eq!((found.concurrency, found.above, found.reached_by), (1, None, Some(1)));
    let blocks = 3 * (FIRST_BLOCKS + BLOCKS_MAX);
    assert!(found.is_decided() && search.runs().concurrencies().len() <= 4 && taken <= 4 + blocks);
}

/// The collapse lies between two steps of growth: the peak is in there.
#[test]
fn a_peak_between_two_steps_is_found() {
    for cliff in [40, 48, 57, 100, 120] {
        let curve = |c: u64| if c <= cliff { 10.0 * c as f64 } else { 50.0 };
        let (search, _) = searched(FREE, &curve, &mut quiet(), 200);
        let best = best(&search.runs().levels()).unwrap().0;
        assert!(best <= cliff && best as f64 * RESOLUTION >= cliff as f64, "{best} {cliff}");
        assert!(is_near(knee(search.runs()).unwrap().concurrency, oracle(&curve)), "{cliff}");
    }
}

/// The device is faster than what asks it: it grows up to the limit, and no knee is made up.
#[test]
fn growth_without_end_has_no_knee() {
    let (search, _) = searched(FREE, &|c| c as f64, &mut quiet(), 200);
    assert_eq!(knee(search.runs()), None);
    assert_eq!(search.runs().concurrencies().last(), Some(&LIMIT));
}

/// Noise of 5 % from run to run, 200 searches of each curve: the knee found must reach nearly the plateau, without
/// lying far beyond the true one.
#[test]
fn noise_of_five_percent() {
    fn check(name: &str, (far_max, least): (f64, u32), curve: impl Fn(u64) -> f64) {
        let most = (1..=LIMIT).map(&curve).fold(0.0, f64::max);
        let truth = oracle(&curve);
        let mut good = 0;
        for seed in 0..200 {
            let mut noise = Noise { prng: Prng::new(seed, 3), share: 0.05 };
            let (search, _) = searched(FREE, &curve, &mut noise, 48);
            let Some(found) = knee(search.runs()) else { continue };
            let reached = curve(found.concurrency) / most;
            let far = found.concurrency as f64 / truth as f64;
            good += u32::from(reached >= 0.8 && far <= far_max);
            // What the intervals claim for certain must be so, but for their error rate.
            assert!(found.above.is_none_or(|c| curve(c) / most < 0.97), "{name} {seed} {found:?}");
        }
        assert!(good >= least, "{name}: {good} of 200");
    }
    // A curve that creeps up has no sharp knee: from 60 % of it to three times it, throughput changes by 15 %.
    check("Amdahl", (3.0, 165), law(0.05, 0.0));
    check("falling", (1.8, 185), law(0.02, 0.001));
    check("24 servers", (1.5, 185), servers(24));
    check("300 servers", (1.5, 175), servers(300));
    check("flat", (1.0, 190), |_| 700.0);
}

/// What the searches of a curve under noise claim for certain: wrong claims, and claims at all, of the lower side and of the
/// plateau. A claim is wrong as soon as any number that was measured says otherwise by the curve itself, without slack.
fn claims(curve: &impl Fn(u64) -> f64, share: f64, searches: u64) -> (u64, u64, u64) {
    let (mut wrong, mut lower, mut reached) = (0, 0, 0);
    for seed in 0..searches {
        let mut noise = Noise { prng: Prng::new(seed, 9), share };
        let (search, _) = searched(FREE, curve, &mut noise, 60);
        let Some(found) = knee(search.runs()) else { continue };
        let tried = search.runs().concurrencies();
        let grows = |from: u64| {
            tried.iter().any(|c| *c > from && curve(*c) >= curve(from) * (1.0 + GROWTH_MIN))
        };
        let is_wrong =
            found.above.is_some_and(|c| !grows(c)) || found.reached_by.is_some_and(grows);
        wrong += u64::from(is_wrong);
        lower += u64::from(found.above.is_some());
        reached += u64::from(found.reached_by.is_some());
    }
    (wrong, lower, reached)
}

/// At noise of 5 to 30 % from run to run at most 5 % of the searches of any curve claim for certain what is not so, and at most
/// a tenth of all that claim anything: where runs differ so much that true claims become rare, none are made.
#[test]
fn what_is_certain_is_rarely_wrong() {
    const SEARCHES: u64 = 200;
    let (amdahl, falling, flat) = (law(0.05, 0.0), law(0.02, 0.001), |_| 700.0);
    let (few, step) = (servers(24), |c| if c < 64 { 1000.0 } else { 1150.0 });
    type Curve<'c> = (&'c str, f64, &'c dyn Fn(u64) -> f64);
    let curves: [Curve<'_>; 5] = [
        ("Amdahl", 5.0, &amdahl),
        ("falling", 8.0, &falling),
        ("24 servers", 15.0, &few),
        ("15 % more from 64 on", 30.0, &step),
        ("flat", 50.0, &flat),
    ];
    for share in [0.05, 0.1, 0.2, 0.3] {
        let (mut all_wrong, mut all) = (0, 0);
        for (name, least, curve) in &curves {
            let (wrong, lower, reached) = claims(&|c| curve(c), share, SEARCHES);
            (all_wrong, all) = (all_wrong + wrong, all + lower + reached);
            let of = |n: u64| n as f64 / SEARCHES as f64 * 100.0;
            let (wrong, lower, reached) = (of(wrong), of(lower), of(reached));
            println!(
                "{name}, noise {share}: wrong {wrong:.1} %; claims lower {lower:.1} %, reached {reached:.1} %"
            );
            assert!(wrong <= 5.0, "{name} {share}: {wrong} %");
            assert!(share > 0.05 || lower.max(reached) >= *least, "{name}: {lower} {reached} %");
        }
        println!("noise {share}: {all_wrong} of {all} claims wrong");
        assert!(all_wrong * 10 <= all, "noise {share}: {all_wrong} of {all} claims are wrong");
        assert!(share < 0.2 || all <= SEARCHES / 20, "noise {share}: {all} claims");
    }
}

/// What is printed is what the table says, under any noise and wherever the time ends: from the knee on no median is 10 %
/// higher, and from every smaller number on one is.
#[test]
fn the_knee_agrees_with_the_table() {
    for (seed, share) in (0..200).flat_map(|seed| [(seed, 0.05), (seed, 0.3)]) {
        let mut noise = Noise { prng: Prng::new(seed, 5), share };
        let (search, _) = searched(FREE, &law(0.05, 0.0), &mut noise, 5 + seed as usize % 60);
        let Some(found) = knee(search.runs()) else { continue };
        let runs = |c: u64| search.runs().in_order.iter().filter(move |r| r.0 == c).map(|r| r.1);
        let middle = |c| interval::median(&runs(c).collect::<Vec<_>>()).unwrap();
        let tried = search.runs().concurrencies();
        let grows = |from: u64| tried.iter().any(|c| *c > from && middle(*c) >= middle(from) * 1.1);
        assert!(!grows(found.concurrency), "{seed} {share} {found:?}");
        assert!(tried.iter().filter(|c| **c < found.concurrency).all(|c| grows(*c)), "{found:?}");
    }
}

/// One bad run far above: it is measured again before the end, and without time for that nothing is certain.
#[test]
fn one_bad_run_does_not_move_the_knee() {
    let curve = servers(24);
    let (mut search, _) = searched(FREE, &curve, &mut quiet(), 200);
    let before = knee(search.runs()).unwrap();
    let far = *search.runs().concurrencies().last().unwrap();
    let bad = Shape::round(FREE, far * 2);
    search.measured(bad, curve(bad) * 1.3);
    search.measured(bad * 2, curve(bad * 2));
    let moved = knee(search.runs()).unwrap();
    assert_eq!((moved.rests_on, moved.is_decided()), (Some(bad), false), "{moved:?}");
    for _ in 0..2 {
        assert_eq!(search.next(9), Some(bad));
        search.measured(bad, curve(bad));
    }
    assert_eq!(search.next(9), None);
    assert_eq!(knee(search.runs()), Some(before));
}

/// Drift from block to block, here a device that halves its speed in the middle, cancels inside the blocks.
#[test]
fn drift_cancels_inside_blocks() {
    let curve = servers(24);
    let mut search = Search::new(FREE, START, LIMIT, 3);
    let mut taken = 0;
    while let Some(concurrency) = search.next(60_usize.saturating_sub(taken)) {
        taken += 1;
        let drift = if taken > 30 { 0.5 } else { 1.0 };
        search.measured(concurrency, curve(concurrency) * drift);
    }
    let found = knee(search.runs()).unwrap();
    assert!(is_near(found.concurrency, oracle(&curve)), "{found:?}");
}

#[test]
fn the_time_is_kept_whenever_it_ends() {
    let curve = law(0.05, 0.0);
    for budget in 0..60 {
        let (search, taken) = searched(FREE, &curve, &mut quiet(), budget);
        assert!(taken <= budget);
        let blocks = knee(search.runs()).map_or(0, |k| k.blocks);
        assert!(blocks <= FIRST_BLOCKS + BLOCKS_MAX);
        if (1..=5).contains(&blocks) {
            assert!(!knee(search.runs()).unwrap().is_decided(), "five blocks decide nothing");
        }
    }
}

/// One letter for each run, in order: what was measured when must be in pairs of the same block.
#[test]
fn every_block_has_each_member_once_in_an_order_of_its_own() {
    let mut search = Search::new(FREE, START, LIMIT, 11);
    let curve = law(0.05, 0.0);
    let mut rounds: Vec<(Vec<u64>, Vec<u64>)> = Vec::new();
    while let Some(concurrency) = search.next(200) {
        let is_blocked = search.block.len() + search.blocks_left > 0
            || rounds.last().is_some_and(|(members, asked)| {
                *members == search.members && asked.len() % members.len() > 0
            });
        if is_blocked {
            if rounds.last().is_none_or(|(members, _)| *members != search.members) {
                rounds.push((search.members.clone(), Vec::new()));
            }
            rounds.last_mut().unwrap().1.push(concurrency);
        }
        search.measured(concurrency, curve(concurrency));
    }
    assert_eq!(rounds.len(), 2);
    for ((members, asked), count) in rounds.iter().zip([FIRST_BLOCKS, BLOCKS_MAX]) {
        let blocks: Vec<&[u64]> = asked.chunks(members.len()).collect();
        assert_eq!(blocks.len(), count);
        for block in &blocks {
            let mut sorted = block.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, *members);
        }
        assert!(blocks.windows(2).any(|pair| pair[0] != pair[1]), "{blocks:?}");
    }
}

#[test]
fn runs_of_the_same_block_are_compared() {
    let at = |places: &[usize]| -> Vec<Placed> { places.iter().map(|p| (*p, *p as f64)).collect() };
    for (a, b, pairs) in [
        (&[10, 13, 17][..], &[11, 12, 16][..], &[(10, 11), (13, 12), (17, 16)][..]),
        // Only in the second round, and only in the first.
        (&[30, 33], &[10, 13, 16, 31, 32], &[(30, 31), (33, 32)]),
        (&[11, 14], &[10, 13, 16, 31, 32], &[(11, 10), (14, 13)]),
        (&[10, 13, 16, 31, 32], &[30, 33], &[(31, 30), (32, 33)]),
        (&[], &[1], &[]),
    ] {
        let pairs: Vec<_> = pairs.iter().map(|(x, y)| (*x as f64, *y as f64)).collect();
        assert_eq!(in_pairs(&at(a), &at(b)), pairs);
    }
}

#[test]
fn threads_and_depth_make_up_the_number() {
    for threads_max in 1..=24 {
        let shape = Shape { threads_max, one_per_thread: false };
        for asked in 1..=700 {
            let rounded = shape.round(asked);
            let (threads, depth) = shape.split(rounded);
            assert_eq!(threads * depth, rounded);
            assert!(rounded >= asked && rounded < asked + threads_max, "{asked} {rounded}");
            assert!(threads <= threads_max && (threads == 1 || depth >= DEPTH_PER_THREAD));
            assert_eq!(shape.round(rounded), rounded);
        }
    }
    let calls = Shape { threads_max: 4, one_per_thread: true };
    assert_eq!((calls.round(37), calls.split(37)), (37, (37, 1)));
}

#[test]
fn coarse_steps_of_many_threads_end_too() {
    let shape = Shape { threads_max: 16, one_per_thread: false };
    for count in [1, 2, 5, 20, 100, 190, 600] {
        let curve = servers(count);
        let (search, taken) = searched(shape, &curve, &mut quiet(), 300);
        assert!(taken < 90, "{count}: {taken}");
        let found = knee(search.runs()).unwrap();
        let off = found.concurrency.abs_diff(oracle(&curve));
        assert!(off <= 16 || is_near(found.concurrency, oracle(&curve)), "{count}: {found:?}");
    }
}
