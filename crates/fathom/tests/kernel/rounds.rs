//! `run --until-steady`: rounds, when they end, what is kept of them, and what they are to other commands.

use crate::cli::{Sandbox, operations};
use fathom_testkit::Capability::{FathomBinary, Tool};
use fathom_testkit::{Trial, kernel_test};
use serde_json::Value;

pub fn trials() -> Vec<Trial> {
    vec![
        kernel_test("rounds_end_as_the_rule_says", &[FathomBinary], ends_as_the_rule_says),
        kernel_test("rounds_that_a_signal_ends", &[FathomBinary, Tool("kill")], interrupted),
        kernel_test("rounds_that_make_no_sense", &[FathomBinary], refused),
        kernel_test("rounds_after_the_steady_state", &[FathomBinary], afterwards),
        kernel_test("rounds_track_what_is_asked_for", &[FathomBinary], tracked),
    ]
}

/// Requests per second of a record.
fn rate(record: &Value) -> f64 {
    operations(record) as f64 / (record["window_ns"].as_f64().unwrap() / 1e9)
}

/// Mean latency of a record's reads.
fn mean_ns(record: &Value) -> f64 {
    let latency_ns = &record["jobs"][0]["classes"][0]["latency_ns"];
    let sum: f64 = latency_ns["sum"].as_str().unwrap().parse().unwrap();
    sum / latency_ns["count"].as_f64().unwrap()
}

/// The rule of the specification, for five values in order.
fn is_steady(five: &[f64]) -> bool {
    let mean = five.iter().sum::<f64>() / 5.0;
    let most = five.iter().copied().fold(0.0, f64::max);
    let least = five.iter().copied().fold(f64::INFINITY, f64::min);
    let rise = 0.4 * (2.0 * (five[4] - five[0]) + five[3] - five[1]);
    most - least <= 0.2 * mean && rise.abs() <= 0.1 * mean
}

/// The null engine is as steady as the processor is free, so on a busy machine the rounds may be used up. Either way the
/// answer is the rule's, applied to the records here. A disk that is steady for sure is in the guest tests of `saturate`.
fn ends_as_the_rule_says() {
    const ROUNDS: usize = 12;
    let sandbox = Sandbox::new();
    let run = ["run", "randread", "null:", "depth=8", "duration=300ms", "--until-steady=12"];
    let done = sandbox.json(&run, &[0, 1]);
    let (rounds, records) = (done.result()["rounds"].clone(), done.records());
    let (rates, means): (Vec<f64>, Vec<f64>) =
        records.iter().map(|record| (rate(record), mean_ns(record))).unzip();
    let first = (5..=records.len())
        .find(|end| [&rates, &means].iter().all(|series| is_steady(&series[end - 5..*end])));
    let reached = rounds["reached"].as_u64().map(|round| round as usize);
    assert_eq!(reached, first, "{rates:?} {means:?}");
    assert_eq!(records.len(), reached.unwrap_or(ROUNDS), "the rounds end with it");
    assert_eq!(rounds["rounds"].as_u64(), Some(records.len() as u64));
    let is_said = done.findings().contains(&"steady-state-not-reached".to_owned());
    assert_eq!(is_said, reached.is_none(), "{done:?}");
    let mean = rates[rates.len() - 5..].iter().sum::<f64>() / 5.0;
    let window = &rounds["figures"][0]["window"];
    assert!((window["average"].as_f64().unwrap() / mean - 1.0).abs() < 1e-6, "{rounds}");

    let stored = sandbox.runs().swap_remove(0);
    assert_eq!((&stored["kind"], &stored["state"]), (&"rounds".into(), &"complete".into()));
    let id = stored["id"].as_str().unwrap();
    let shown = sandbox.json(&["show", id], &[0]);
    assert_eq!((&shown.result()["rounds"], shown.records()), (&rounds, records));
    let text = sandbox.run(&["show", id]).stdout;
    let answer = reached.map_or_else(
        || format!("Steady state not reached in {ROUNDS} rounds."),
        |round| format!("Steady state reached at round {round}."),
    );
    assert!(text.contains(&answer), "{answer}: {text}");
}

/// Rounds that follow show whether it stays steady: what the rule says of them is what is said.
fn afterwards() {
    let sandbox = Sandbox::new();
    let run = ["run", "randread", "null:", "duration=200ms", "--until-steady=12", "--then=3"];
    let done = sandbox.json(&run, &[0, 1]);
    let (rounds, count) = (done.result()["rounds"].clone(), done.records().len());
    let reached = rounds["reached"].as_u64().map(|round| round as usize);
    assert_eq!(count, reached.map_or(12, |round| round + 3), "{rounds}");
    let (rates, means): (Vec<f64>, Vec<f64>) =
        done.records().iter().map(|record| (rate(record), mean_ns(record))).unzip();
    let is_steady_at =
        |end: usize| [&rates, &means].iter().all(|series| is_steady(&series[end - 5..end]));
    let left = reached.and_then(|round| (round + 1..=count).find(|end| !is_steady_at(*end)));
    assert_eq!(rounds["left"].as_u64().map(|round| round as usize), left, "{rates:?} {means:?}");
    assert_eq!(done.findings().contains(&"steady-state-left".to_owned()), left.is_some());
    let alone = sandbox.run(&["run", "randread", "null:", "--then=3"]);
    assert!(alone.code == 2 && alone.stderr.contains("--until-steady"), "{alone:?}");
}

fn interrupted() {
    let sandbox = Sandbox::new();
    let run = ["run", "randread", "null:", "duration=2s", "--until-steady"];
    let running = sandbox.start(&run, "trial_finished", 2);
    running.signal("INT");
    let done = running.finish();
    assert_eq!(done.code, 130, "{done:?}");
    let rounds = &done.result()["rounds"];
    assert!(rounds["reached"].is_null() && rounds["window"].is_null(), "{rounds}");
    assert!((2..5).contains(&rounds["rounds"].as_u64().unwrap()), "{rounds}");
    done.finding("steady-state-not-reached");
    let stored = sandbox.runs().swap_remove(0);
    assert_eq!((&stored["kind"], &stored["state"]), (&"rounds".into(), &"interrupted".into()));
}

fn refused() {
    let sandbox = Sandbox::new();
    let run = ["run", "randread", "null:"];
    for (option, words) in [
        (&["--until-steady=4"][..], ["--until-steady=4", "from 5"]),
        (&["--until-steady", "--repeats=3"], ["--repeats and --until-steady", "give one"]),
        (
            &["--until-steady", "--track=p98"],
            ["--track=p98: one or more of", "did you mean 'p99'?"],
        ),
    ] {
        sandbox.refuses(&[&run[..], option].concat(), 2, &words);
    }
}

fn tracked() {
    let sandbox = Sandbox::new();
    let alone = sandbox.run(&["run", "randread", "null:", "--track=p99"]);
    assert!(alone.code == 2 && alone.stderr.contains("--until-steady"), "{alone:?}");
    let run = ["run", "randread", "null:", "depth=8", "duration=200ms", "--until-steady=5"];
    let done = sandbox.json(&[&run[..], &["--track=p50,p99.9"]].concat(), &[0, 1]);
    let rounds = done.result()["rounds"].clone();
    let figures = rounds["figures"].as_array().unwrap();
    let tracked: Vec<bool> = figures.iter().map(|f| f["is_tracked"].as_bool().unwrap()).collect();
    // The rate, the mean, the median, and the 99th and 99.9th percentile: all are shown.
    assert_eq!(tracked, [false, false, true, false, true], "{rounds}");
    let values = |figure: usize| -> Vec<f64> {
        let values = figures[figure]["values"].as_array().unwrap();
        values.iter().map(|value| value.as_f64().unwrap()).collect()
    };
    let is_so = is_steady(&values(2)) && is_steady(&values(4));
    assert_eq!(rounds["reached"].as_u64(), is_so.then_some(5), "{rounds}");
    // What was tracked is known to those who look later.
    let id = sandbox.runs()[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(sandbox.json(&["show", &id], &[0]).result()["rounds"], rounds);
    let text = sandbox.run(&["show", &id]).stdout;
    assert_eq!(text.matches("(shown only)").count(), 3, "{text}");
}
