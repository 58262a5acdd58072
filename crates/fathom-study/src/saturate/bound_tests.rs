//! The search for a rate on queues whose answer is known.

use super::*;
use crate::fixtures::open_loop as open;
use fathom_base::prng::Prng;

/// Response time at a rate of a queue with one server and random arrivals, as a quantile: `service x -ln(1 - q) / (1 - load)`.
fn queue(service_s: f64, q: f64) -> impl Fn(f64) -> f64 {
    move |rate| {
        let load = rate * service_s;
        if load >= 1.0 { f64::INFINITY } else { service_s * -(1.0 - q).ln() / (1.0 - load) }
    }
}

/// Searches until the end; the outcome of a run is drawn with this relative noise.
fn searched(
    response_s: &impl Fn(f64) -> f64,
    bound_s: f64,
    top: f64,
    noise: f64,
    seed: u64,
) -> (Answer, usize) {
    let mut prng = Prng::new(seed, 0);
    let mut search = Search::new(Of::Quantile(0.99), top, top * 0.7);
    for taken in 0..60 {
        let Some(rate) = search.next(40 - taken.min(40)) else { return (search.answer(), taken) };
        assert!(rate > 0.0 && rate <= rounded(top), "{rate}");
        let factor = 1.0 + noise * (prng.below(2001) as f64 / 1000.0 - 1.0);
        let kept = if response_s(rate) * factor <= bound_s { Kept::Yes } else { Kept::No };
        search.measured(rate, kept);
    }
    panic!("it does not end");
}

/// Brute force: the highest of many rates.
fn oracle(response_s: &impl Fn(f64) -> f64, bound_s: f64, top: f64) -> Option<f64> {
    (1..=10_000).map(|i| top * f64::from(i) / 10_000.0).filter(|r| response_s(*r) <= bound_s).last()
}

#[test]
fn the_highest_rate_is_found() {
    for (service_s, q, bound_s) in
        [(0.001, 0.99, 0.02), (0.001, 0.5, 0.002), (0.0001, 0.99, 0.0005), (0.01, 0.999, 0.5)]
    {
        let response_s = queue(service_s, q);
        let top = 1.0 / service_s;
        let (answer, taken) = searched(&response_s, bound_s, top, 0.0, 1);
        let truth = oracle(&response_s, bound_s, top).unwrap();
        let rate = answer.rate.unwrap();
        assert!(rate <= truth && rate * RESOLUTION * 1.01 >= truth, "{answer:?} {truth}");
        assert!(
            answer.is_verified && answer.runs == REPEATS + 1 && taken <= 16,
            "{answer:?} {taken}"
        );
        assert!(answer.broken_at.unwrap() > truth);
    }
}

#[test]
fn a_bound_that_nothing_breaks_and_one_that_nothing_keeps() {
    let (answer, taken) = searched(&|_| 0.001, 0.01, 5000.0, 0.0, 1);
    assert_eq!((answer.rate, answer.broken_at), (Some(5000.0), None));
    assert!(answer.is_verified && taken <= REPEATS + 2, "{taken}");
    let (answer, taken) = searched(&|_| 0.1, 0.01, 5000.0, 0.0, 1);
    assert_eq!((answer.rate, answer.runs, answer.is_verified), (None, 0, false));
    assert!(taken <= 10 && answer.broken_at.unwrap() < 50.0, "{taken} {answer:?}");
}

/// One run at the lowest rate is no proof that nothing keeps the bound.
#[test]
fn the_lowest_rate_is_measured_twice() {
    let mut search = Search::new(Of::Quantile(0.99), 1000.0, 500.0);
    let mut asked = Vec::new();
    while let Some(rate) = search.next(40) {
        asked.push(rate);
        search.measured(rate, Kept::No);
        assert!(asked.len() < 20, "{asked:?}");
    }
    assert!(matches!(asked.as_slice(), [.., c, a, b] if a == b && c > a), "{asked:?}");
    assert!(search.answer().is_finished && search.answer().rate.is_none());
}

/// Outcomes near the bound differ from run to run: what is answered kept it four times, and lies near the truth.
#[test]
fn noise_of_five_percent() {
    let response_s = queue(0.001, 0.99);
    let truth = oracle(&response_s, 0.02, 1000.0).unwrap();
    let mut good = 0;
    for seed in 0..300 {
        let (answer, _) = searched(&response_s, 0.02, 1000.0, 0.05, seed);
        let Some(rate) = answer.rate else { continue };
        assert_eq!(answer.runs, REPEATS + 1, "{seed} {answer:?}");
        // Noise of 5 % in the response moves the rate that keeps the bound by at most 2 %.
        good += u32::from(rate <= truth * 1.02 && rate * 1.13 >= truth);
    }
    assert!(good >= 290, "{good}");
}

#[test]
fn the_last_runs_are_for_making_sure() {
    let response_s = queue(0.001, 0.99);
    for budget in 0..12 {
        let mut search = Search::new(Of::Quantile(0.99), 1000.0, 500.0);
        for taken in 0..budget {
            let Some(rate) = search.next(budget - taken) else { break };
            let kept = if response_s(rate) <= 0.02 { Kept::Yes } else { Kept::No };
            search.measured(rate, kept);
        }
        let answer = search.answer();
        assert!(budget < 4 || answer.runs == REPEATS + 1, "{budget}: {answer:?}");
    }
}

/// A rate that broke the bound as often as it kept it is broken, and so is all above it; kept twice and broken once, it is kept.
#[test]
fn a_lucky_run_does_not_count() {
    let mut search = Search::new(Of::Quantile(0.99), 1000.0, 500.0);
    search.measured(400.0, Kept::Yes);
    search.measured(500.0, Kept::Yes);
    search.measured(800.0, Kept::Yes);
    search.measured(500.0, Kept::No);
    let answer = search.answer();
    assert_eq!((answer.rate, answer.broken_at, answer.runs), (Some(400.0), Some(500.0), 1));
    let mut again = search.clone();
    again.measured(500.0, Kept::Yes);
    assert_eq!((again.answer().rate, again.answer().broken_at), (Some(800.0), None));
    search.measured(447.0, Kept::TooFew);
    assert_eq!(search.next(20), None, "without enough requests there is nothing to go by");
}

/// One bad run on the way does not end the search at it: it is measured again, and the search goes on above it. Where every
/// single request counts, one run that breaks the bound is proof.
#[test]
fn one_bad_run_does_not_turn_the_search_down() {
    for bad in 0..12 {
        let mut search = Search::new(Of::Quantile(0.99), 1000.0, 450.0);
        let mut taken = 0;
        while let Some(rate) = search.next(40 - taken) {
            let kept = rate <= 640.0 && taken != bad;
            search.measured(rate, if kept { Kept::Yes } else { Kept::No });
            taken += 1;
        }
        let answer = search.answer();
        let rate = answer.rate.unwrap();
        assert!(rate <= 640.0 && rate * RESOLUTION * 1.02 >= 640.0, "{bad} {answer:?}");
        assert!(answer.is_verified && taken <= 22, "{bad} {taken} {answer:?}");
    }
    let mut strict = Search::new(Of::Max, 1000.0, 500.0);
    strict.measured(500.0, Kept::No);
    strict.measured(480.0, Kept::Yes);
    assert_eq!(strict.next(20), Some(480.0), "nothing is to be asked at 500");
    strict.measured(500.0, Kept::Yes);
    strict.measured(500.0, Kept::Yes);
    assert_eq!((strict.answer().rate, strict.answer().broken_at), (Some(480.0), Some(500.0)));
}

#[test]
fn bounds_as_text() {
    for (text, of, most_ns, shown) in [
        ("p99:2ms", Of::Quantile(0.99), 2_000_000, "p99 <= 2.0 ms"),
        ("p99.9:20ms", Of::Quantile(0.999), 20_000_000, "p99.9 <= 20 ms"),
        ("max:500ms", Of::Max, 500_000_000, "max <= 500 ms"),
    ] {
        let bound: Bound = text.parse().unwrap();
        assert!(bound.most_ns == most_ns && bound.to_string() == shown, "{bound}");
        match (bound.of, of) {
            (Of::Quantile(a), Of::Quantile(b)) => assert!((a - b).abs() < 1e-12),
            (a, b) => assert_eq!(a, b),
        }
    }
    for text in ["p99", "p99:2", "p100:1ms", "p0:1ms", "q:1ms", "max:0", "99:1ms", "p:1ms"] {
        assert!(text.parse::<Bound>().is_err(), "{text}");
    }
}

#[test]
fn a_run_is_judged_by_its_responses() {
    let bound = |text: &str| text.parse::<Bound>().unwrap();
    let quiet = open(|_| ());
    assert_eq!(kept(&quiet, &bound("p99:6ms")), Kept::Yes);
    assert_eq!(kept(&quiet, &bound("p99:4ms")), Kept::No);
    assert_eq!(kept(&quiet, &bound("p99.999:6ms")), Kept::TooFew);
    // One request in 60 000 that has not even ended.
    let waiting = open(|o| o.classes[0].unfinished_ns.record(700_000_000));
    assert_eq!(kept(&waiting, &bound("max:500ms")), Kept::No);
    assert_eq!(kept(&waiting, &bound("p99.9:6ms")), Kept::Yes);
    // More was due than could be done: no bound is kept by such a load, however wide.
    let overloaded = open(|o| o.not_started = 6000);
    assert_eq!(kept(&overloaded, &bound("max:1h")), Kept::No);
    let mut none = quiet;
    none.jobs[0].open_loop = None;
    assert_eq!(kept(&none, &bound("max:1h")), Kept::TooFew);
}

#[test]
fn rates_have_three_digits() {
    for (rate, expected) in
        [(123_456.0, 123_000.0), (98.765, 98.8), (1.2345, 1.23), (0.031, 0.03), (0.0, 1.0)]
    {
        assert!((rounded(rate) - expected).abs() < 1e-9, "{rate}: {}", rounded(rate));
    }
}
