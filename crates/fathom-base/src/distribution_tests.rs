//! Each distribution against its law, computed another way.

use super::*;
use crate::goodness::{assert_fits, assert_follows};

/// P(rank < k) of the Pareto law, from the definition by halving: the share `1 - h` of `h`.
fn pareto_below(share: f64, part: f64) -> f64 {
    part.powf((1.0 - share).ln() / share.ln())
}

#[test]
fn pareto_follows_its_law() {
    for share in [0.01, 0.2, 0.4, 0.5, 0.8] {
        for places in [1u64, 2, 7, 100, 1 << 40, 1 << 52] {
            let pareto = Pareto::new(places, share, 1).unwrap();
            let mut prng = Prng::new(21, places);
            let cells = places.min(50);
            let draws = 40_000.0;
            let mut counts = vec![0.0; cells as usize];
            for _ in 0..draws as u32 {
                let rank = pareto.rank(&mut prng);
                assert!(rank < places);
                counts[(u128::from(rank) * u128::from(cells) / u128::from(places)) as usize] += 1.0;
            }
            // Cell i begins at the first rank that maps to it.
            let start = |i: u64| (i * places).div_ceil(cells) as f64 / places as f64;
            let below = |i: u64| if i == 0 { 0.0 } else { pareto_below(share, start(i)) };
            let expected: Vec<f64> =
                (0..cells).map(|i| draws * (below(i + 1) - below(i))).collect();
            assert_fits(&counts, &expected);
        }
    }
}

#[test]
fn eighty_percent_go_to_twenty_percent_of_the_places() {
    let pareto = Pareto::new(1000, 0.2, 3).unwrap();
    let mut prng = Prng::new(22, 0);
    let mut counts = vec![0u32; 1000];
    (0..100_000).for_each(|_| counts[pareto.draw(&mut prng) as usize] += 1);
    let neighbours = counts.windows(2).filter(|pair| pair[0] > 200 && pair[1] > 200).count();
    assert!(neighbours < 20, "{neighbours} pairs of hot neighbours");
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let hot: u32 = counts[..200].iter().sum();
    // Binomial sd 126; ordering by count adds a little.
    assert!((79_000..81_500).contains(&hot), "{hot}");
}

#[test]
fn pareto_at_its_limits() {
    let mut prng = Prng::new(23, 0);
    for share in [f64::from_bits(1), 1e-300, 1e-9, 1.0 - f64::EPSILON / 2.0] {
        let pareto = Pareto::new(1000, share, 1).unwrap();
        let expected = if share < 0.5 { 0 } else { 999 };
        (0..100).for_each(|_| assert_eq!(pareto.rank(&mut prng), expected));
    }
    for share in [0.0, 1.0, -0.2, f64::NAN] {
        let error = Pareto::new(10, share, 1).unwrap_err();
        assert!(error.to_string().contains("above 0 and below 1"), "{error}");
    }
}

/// Integral of the normal density by Simpson's rule.
fn normal_between(low: f64, high: f64) -> f64 {
    let density = |z: f64| (-z * z / 2.0).exp();
    let steps = 2000;
    let width = (high - low) / f64::from(steps);
    let weight = |i| if i == 0 || i == steps { 1.0 } else { f64::from(2 + 2 * (i % 2)) };
    (0..=steps).map(|i| weight(i) * density(low + f64::from(i) * width)).sum::<f64>() * width / 3.0
}

#[test]
fn normal_follows_its_law_without_tails_beyond_the_range() {
    for (places, percent) in [(1u64, 50.0), (2, 10.0), (101, 3.0), (1000, 20.0), (1 << 52, 100.0)] {
        let normal = Normal::new(places, percent).unwrap();
        let mut prng = Prng::new(24, places);
        let cells = places.min(101);
        let mut counts = vec![0.0; cells as usize];
        let draws = 40_000.0;
        for _ in 0..draws as u32 {
            let place = normal.draw(&mut prng);
            assert!(place < places);
            counts[(u128::from(place) * u128::from(cells) / u128::from(places)) as usize] += 1.0;
        }
        let start = |i: u64| (i * places).div_ceil(cells) as f64 / places as f64;
        let z = |i| (start(i) - 0.5) / (percent / 100.0);
        let weights: Vec<f64> = (0..cells).map(|i| normal_between(z(i), z(i + 1))).collect();
        let total: f64 = weights.iter().sum();
        let expected: Vec<f64> = weights.iter().map(|w| draws * w / total).collect();
        assert_fits(&counts, &expected);
    }
}

#[test]
fn impossible_deviations_are_refused() {
    for percent in [0.0, -1.0, 100.1, f64::NAN] {
        let error = Normal::new(10, percent).unwrap_err();
        assert!(error.to_string().contains("above 0 %, at most 100 %"), "{error}");
    }
    assert_eq!(Normal::new(0, 10.0).unwrap_err(), DistributionError::NoPlaces);
}

fn zones(pairs: &[(f64, f64)]) -> Vec<Zone> {
    pairs.iter().map(|&(io_percent, space_percent)| Zone { io_percent, space_percent }).collect()
}

#[test]
fn zones_get_their_shares_evenly_inside() {
    let list = zones(&[(90.0, 10.0), (0.0, 20.0), (6.0, 30.0), (4.0, 40.0)]);
    let distribution = Zones::new(200, &list).unwrap();
    let mut prng = Prng::new(25, 0);
    let mut counts = vec![0.0; 200];
    (0..100_000).for_each(|_| counts[distribution.draw(&mut prng) as usize] += 1.0);
    let mut expected = vec![90_000.0 / 20.0; 20];
    expected.extend([0.0; 40]);
    expected.extend([6_000.0 / 60.0; 60]);
    expected.extend([4_000.0 / 80.0; 80]);
    assert!(counts[20..60].iter().all(|count| *count == 0.0), "the cold zone was touched");
    assert_fits(&counts, &expected);
}

#[test]
fn zones_of_thirds_cover_everything() {
    let third = 100.0 / 3.0;
    let distribution = Zones::new(10, &zones(&[(third, third); 3])).unwrap();
    let mut prng = Prng::new(26, 0);
    let mut seen = [false; 10];
    (0..1000).for_each(|_| seen[distribution.draw(&mut prng) as usize] = true);
    assert_eq!(seen, [true; 10]);
    let one = Zones::new(3, &zones(&[(100.0, 100.0)])).unwrap();
    assert!(one.draw(&mut prng) < 3);
}

#[test]
fn impossible_zones_are_refused_with_the_reason() {
    for (places, pairs, expected) in [
        (100, vec![], "the list of zones is empty"),
        (100, vec![(90.0, 10.0), (9.0, 90.0)], "shares of I/O sum to 99 %, not 100 %"),
        (100, vec![(90.0, 10.0), (10.0, 80.0)], "shares of space sum to 90 %, not 100 %"),
        (100, vec![(90.0, 100.0), (10.0, 0.0)], "zone 2: 10 % of the I/O in 0 % of the space is"),
        (100, vec![(-10.0, 50.0), (110.0, 50.0)], "zone 1: -10 % of the I/O in 50 %"),
        (100, vec![(f64::NAN, 50.0), (10.0, 50.0)], "zone 1: NaN % of the I/O"),
        (
            10,
            vec![(90.0, 1.0), (10.0, 99.0)],
            "zone 1 (1 % of the space) holds no block in a range of 10",
        ),
        (0, vec![(100.0, 100.0)], "the range holds no block"),
    ] {
        let error = Zones::new(places, &zones(&pairs)).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn gaps_are_exponential() {
    for rate in [0.5, 1_000.0, 250_000.0] {
        let exponential = Exponential::from_rate(rate).unwrap();
        let mut prng = Prng::new(27, 0);
        let mean = 1e9 / rate;
        let draws = 100_000;
        let mut gaps: Vec<f64> =
            (0..draws).map(|_| exponential.draw_ns(&mut prng) as f64).collect();
        let moment = |power: i32| {
            gaps.iter().map(|gap| (gap / mean).powi(power)).sum::<f64>() / f64::from(draws)
        };
        // Moments of the exponential law: k!; standard errors sqrt(((2k)! - k!^2) / draws). 6 of them.
        for (power, expected, variance) in [(1, 1.0, 1.0), (2, 2.0, 20.0), (3, 6.0, 684.0)] {
            let error = 6.0 * (variance / f64::from(draws)).sqrt();
            assert!((moment(power) - expected).abs() < error, "moment {power}: {}", moment(power));
        }
        assert_follows(&mut gaps, |gap| 1.0 - (-gap / mean).exp());
    }
}

/// Arrivals per interval scatter as a Poisson process does: variance = mean, also over long intervals.
#[test]
fn arrivals_have_a_poisson_count() {
    let exponential = Exponential::from_rate(1_000_000.0).unwrap();
    let mut prng = Prng::new(28, 0);
    let (intervals, length_ns) = (1000, 100_000);
    let mut counts = vec![0.0; intervals];
    let mut now = 0;
    loop {
        now += exponential.draw_ns(&mut prng);
        let Some(count) = counts.get_mut((now / length_ns) as usize) else { break };
        *count += 1.0;
    }
    let n = intervals as f64;
    let mean = counts.iter().sum::<f64>() / n;
    let variance = counts.iter().map(|c: &f64| (c - mean).powi(2)).sum::<f64>() / (n - 1.0);
    assert!((mean - 100.0).abs() < 6.0 * 10.0 / n.sqrt(), "{mean}");
    assert!((variance / mean - 1.0).abs() < 6.0 * (2.0 / n).sqrt(), "{}", variance / mean);
}

#[test]
fn rates_at_their_limits() {
    let mut prng = Prng::new(29, 0);
    let fastest = Exponential::from_rate(RATE_MAX).unwrap();
    let total: u64 = (0..100_000).map(|_| fastest.draw_ns(&mut prng)).sum();
    // Standard error of the mean 0.032 ns; 6 of them.
    assert!((total as f64 / 100_000.0 - 10.0).abs() < 0.2, "{total}");
    assert_eq!(Exponential::from_rate(1e-300).unwrap().draw_ns(&mut prng), u64::MAX);
    for rate in [0.0, -1.0, 1.1e8, f64::NAN, f64::INFINITY] {
        let error = Exponential::from_rate(rate).unwrap_err();
        assert!(error.to_string().contains("above 0, at most 100000000"), "{error}");
    }
}

#[test]
fn what_is_refused_is_named_in_short() {
    let told = [
        DistributionError::Rate(1e300),
        DistributionError::ZipfExponent(-1e200),
        DistributionError::ParetoShare(1e-300),
    ];
    for error in told.map(|error| error.to_string()) {
        assert!(error.len() < 160 && error.contains("1e"), "{error}");
    }
}

#[test]
fn streams_are_pinned() {
    let mut prng = Prng::new(1, 0);
    let pareto = Pareto::new(1 << 40, 0.2, 1).unwrap();
    let normal = Normal::new(1 << 40, 10.0).unwrap();
    let exponential = Exponential::from_rate(1000.0).unwrap();
    let got = [pareto.draw(&mut prng), normal.draw(&mut prng), exponential.draw_ns(&mut prng)];
    assert_eq!(got, [515_910_995_850, 639_501_944_692, 1_096_038]);
}
