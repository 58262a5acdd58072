//! Sides whose difference is known: injected rates, with noise, drift and other settings.

use super::*;
use crate::fixtures;
use fathom_base::prng::Prng;
use fathom_stats::equivalence::Better;

/// A run of one row: so many reads per second at the given time.
fn run(label: &str, started: i64, iops: f64) -> Run {
    let mut run = fixtures::run(started, iops);
    run.records[0].label = label.into();
    run
}

/// Eight pairs made in turn: side B is `ratio` times as fast, with 1 % of noise and a drift that hits both.
fn sides(ratio: f64, blocks: i64) -> (Side, Side) {
    let mut prng = Prng::new(7, 0);
    let mut noise = || 1.0 + 0.01 * (fixtures::uniform(&mut prng) - 0.5);
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for block in 0..blocks {
        let drift = 1.0 + 0.03 * block as f64;
        // Each pair the other way round than the one before.
        let (first, second) = if block % 2 == 0 { (0, 5) } else { (5, 0) };
        a.push(run("read", 10 * block + first, 1000.0 * drift * noise()));
        b.push(run("read", 10 * block + second, 1000.0 * ratio * drift * noise()));
    }
    let side = |name: &str, runs| Side { name: name.into(), runs };
    (side("before", a), side("after", b))
}

fn scheduler(side: &mut Side, name: &str) {
    for run in &mut side.runs {
        let node = &mut run.records[0].targets[0].stack.nodes[2];
        let queue = fathom_model::stack::QueueFacts {
            scheduler: Some(name.into()),
            ..fathom_model::stack::QueueFacts::default()
        };
        node.queue = Some(queue);
    }
}

fn ids(comparison: &Comparison) -> Vec<&str> {
    comparison.findings.iter().map(|f| f.id.as_str()).collect()
}

#[test]
fn a_real_difference_is_found_in_spite_of_drift() {
    let (mut a, mut b) = sides(1.12, 8);
    scheduler(&mut a, "none");
    scheduler(&mut b, "bfq");
    let found = compare(&a, &b, &Options::default());
    let row = &found.rows[0];
    assert!(row.in_pairs && row.runs_a == 8, "{row:?}");
    let iops = &row.figures[0];
    assert_eq!((iops.metric.clone(), iops.decision), (Metric::Iops, Decision::Faster));
    let interval = iops.answer.ratio.interval.expect("eight pairs");
    assert!(interval.contains(1.12) && interval.low > 1.1 && interval.high < 1.14, "{interval:?}");
    let latency = row.figures.iter().find(|f| f.metric.words() == "read p99").expect("p99");
    assert_eq!(latency.decision, Decision::Faster);
    assert_eq!(found.differences[0].weight, Weight::Factor);
    assert_eq!(found.verdict, Verdict::Trusted, "{:?}", found.findings);
}

#[test]
fn the_same_is_called_the_same() {
    let (a, b) = sides(1.0, 8);
    let found = compare(&a, &b, &Options::default());
    assert_eq!(found.rows[0].figures[0].decision, Decision::Equivalent);
    assert_eq!((found.verdict, found.slower_by(Some(1.0)).len()), (Verdict::Trusted, 0));
}

#[test]
fn single_runs_decide_nothing() {
    let (a, b) = sides(2.0, 1);
    let found = compare(&a, &b, &Options::default());
    let iops = &found.rows[0].figures[0];
    assert_eq!(iops.decision, Decision::Inconclusive);
    assert!(
        (iops.answer.ratio.value / 2.0 - 1.0).abs() < 0.02 && iops.answer.ratio.interval.is_none()
    );
    assert!(ids(&found).contains(&"too-few-runs"), "{:?}", ids(&found));
}

#[test]
fn a_regression_needs_proof_and_size() {
    let (a, b) = sides(0.9, 8);
    let found = compare(&a, &b, &Options::default());
    // Latency is 11 % higher where the rate is 10 % lower.
    assert_eq!((found.slower_by(Some(5.0)).len(), found.slower_by(Some(15.0)).len()), (1, 0));
    let (a, b) = sides(0.8, 3);
    assert!(compare(&a, &b, &Options::default()).slower_by(Some(5.0)).is_empty());
}

#[test]
fn different_things_are_not_compared() {
    let (a, mut b) = sides(0.5, 8);
    b.runs.iter_mut().for_each(|run| run.records[0].targets[0].size_bytes = 1 << 30);
    let found = compare(&a, &b, &Options::default());
    assert_eq!((found.verdict, found.findings[0].id.as_str()), (Verdict::Void, "not-comparable"));
    assert!(found.slower_by(Some(5.0)).is_empty());
    // Asked for, it is what is compared.
    let options = Options { factor: Some("size".into()), ..Options::default() };
    assert_eq!(compare(&a, &b, &options).slower_by(Some(5.0)).len(), 1);
}

#[test]
fn two_settings_at_once_are_doubtful() {
    let (mut a, mut b) = sides(1.1, 8);
    scheduler(&mut a, "none");
    scheduler(&mut b, "bfq");
    b.runs.iter_mut().for_each(|run| run.head.host.kernel = Some("6.99".into()));
    let found = compare(&a, &b, &Options::default());
    assert_eq!(found.verdict, Verdict::Doubtful);
    assert!(ids(&found).contains(&"several-differences"));
}

#[test]
fn a_factor_that_did_not_change_voids() {
    let (a, b) = sides(1.1, 8);
    let options = Options { factor: Some("scheduler".into()), ..Options::default() };
    let found = compare(&a, &b, &options);
    assert_eq!((found.verdict, ids(&found)), (Verdict::Void, vec!["factor-unchanged"]));
}

#[test]
fn repetitions_must_be_of_one_thing() {
    let (mut a, b) = sides(1.1, 8);
    a.runs[3].head.host.kernel = Some("6.99".into());
    let found = compare(&a, &b, &Options::default());
    assert!(ids(&found).contains(&"mixed-side"), "{:?}", ids(&found));
}

#[test]
fn void_runs_void_the_comparison() {
    let (a, mut b) = sides(1.1, 8);
    b.runs[2].records[0].suspended_ns = 1_000_000_000;
    let found = compare(&a, &b, &Options::default());
    assert_eq!((found.verdict, found.findings[0].id.as_str()), (Verdict::Void, "side-not-trusted"));
}

/// Six pairs reach p = 1/32 at best: enough for one row, not for two.
#[test]
fn many_rows_are_adjusted_for() {
    let (mut a, mut b) = sides(1.2, 6);
    let one = compare(&a, &b, &Options::default());
    assert_eq!(one.rows[0].figures[0].decision, Decision::Faster);
    for side in [&mut a, &mut b] {
        for run in &mut side.runs {
            let mut second = run.records[0].clone();
            second.label = "write".into();
            run.records.push(second);
        }
    }
    let two = compare(&a, &b, &Options::default());
    for row in &two.rows {
        let first = &row.figures[0];
        assert!((first.p_adjusted.expect("a first figure") - 0.0625).abs() < 1e-12);
        assert_eq!(first.decision, Decision::Inconclusive);
    }
}

#[test]
fn groups_that_were_not_made_in_turn_are_unpaired() {
    let (a, mut b) = sides(1.3, 8);
    b.runs.iter_mut().for_each(|run| run.records[0].started_unix_ns += 1000);
    let found = compare(&a, &b, &Options::default());
    assert!(!found.rows[0].in_pairs);
    assert_eq!(found.rows[0].figures[0].decision, Decision::Faster);
}

#[test]
fn nothing_in_common_is_said() {
    let (a, b) = sides(1.0, 2);
    let empty = Side { name: "none".into(), runs: Vec::new() };
    let found = compare(&a, &empty, &Options::default());
    assert_eq!((found.verdict, found.only_a), (Verdict::Void, vec!["read".to_owned()]));
    assert_eq!(compare(&b, &b, &Options::default()).rows.len(), 1);
}

/// Each look has its part of the error, and between two looks nothing is decided.
#[test]
fn looking_often_has_its_price() {
    let (a, b) = sides(1.2, 8);
    let options = Options { looks: true, ..Options::default() };
    let level = |pairs: i64| {
        let (a, b) = sides(1.2, pairs);
        let found = compare(&a, &b, &options);
        found.rows[0].figures[0].answer.question.level
    };
    let found = compare(&a, &b, &options);
    assert!(level(8) > 0.95 && level(25) > 0.95, "each look has a part of the error");
    assert_eq!(found.rows[0].figures[0].decision, Decision::Faster);
    assert_eq!(found.rows[0].next_look, None, "decided");
    let (a, b) = sides(1.2, 5);
    let found = compare(&a, &b, &options);
    assert_eq!(found.rows[0].next_look, Some(8));
    let (a, b) = sides(1.2, 10);
    let found = compare(&a, &b, &options);
    assert_eq!(
        (found.rows[0].figures[0].decision, found.rows[0].next_look),
        (Decision::Inconclusive, Some(12))
    );
    let (a, b) = sides(1.2, 26);
    assert!(ids(&compare(&a, &b, &options)).contains(&"looks-do-not-apply"));
}

#[test]
fn repetitions_inside_one_run_decide_nothing() {
    let (mut a, mut b) = sides(1.2, 8);
    for side in [&mut a, &mut b] {
        let records: Vec<Record> = side.runs.iter().flat_map(|run| run.records.clone()).collect();
        side.runs.truncate(1);
        side.runs[0].records = records;
    }
    let found = compare(&a, &b, &Options::default());
    let row = &found.rows[0];
    assert_eq!((row.runs_a, row.runs_b), (1, 1));
    assert_eq!(row.figures[0].decision, Decision::Inconclusive);
}

#[test]
fn parts_of_runs_are_not_trusted() {
    let (a, mut b) = sides(1.2, 8);
    b.runs[0].unfinished = Some("partial".into());
    assert_eq!(compare(&a, &b, &Options::default()).verdict, Verdict::Doubtful);
}

/// Twelve rows of eight pairs: the smallest p of 2/256 times twelve is above 5 %.
#[test]
fn many_rows_need_more_pairs() {
    let (mut a, mut b) = sides(0.5, 8);
    for side in [&mut a, &mut b] {
        for run in &mut side.runs {
            for row in 1..12 {
                let mut other = run.records[0].clone();
                other.label = format!("row {row}");
                run.records.push(other);
            }
        }
    }
    let found = compare(&a, &b, &Options::default());
    let finding = found.findings.iter().find(|f| f.id == "too-few-runs").expect("said");
    assert!(finding.advice[0].contains("at least 9 pairs"), "{finding:?}");
}

#[test]
fn the_limit_of_a_regression_is_the_percent_of_the_sentence() {
    let (a, b) = sides(0.8, 8);
    let found = compare(&a, &b, &Options::default());
    let rate = |limit_percent: f64| {
        let worse = found.slower_by(Some(limit_percent));
        worse.iter().any(|of| of.figures.iter().any(|figure| figure.metric == Metric::Iops))
    };
    assert_eq!((rate(19.0), rate(22.0)), (true, false));
}

#[test]
fn groups_made_one_after_the_other_are_noted() {
    let (a, mut b) = sides(1.3, 8);
    b.runs.iter_mut().for_each(|run| run.records[0].started_unix_ns += 1000);
    assert!(ids(&compare(&a, &b, &Options::default())).contains(&"not-in-turn"));
}

#[test]
fn phases_of_file_servers_are_rows_by_role() {
    let run = |started: i64, readers: u64, writers: u64| {
        let mut run = fixtures::run(started, 1000.0);
        let mut phases = [
            fixtures::server(&[2 * readers], &[]),
            fixtures::server(&[readers, readers], &[writers]),
        ];
        for (record, label) in phases.iter_mut().zip(["fsop, 1 reader", "fsop, both"]) {
            record.label = label.to_owned();
            record.started_unix_ns = started;
        }
        run.records = phases.to_vec();
        run
    };
    let side = |name: &str, runs| Side { name: name.into(), runs };
    // The writers of the second side make half as many files.
    let a = side("a", (0..8).map(|i| run(10 * i, 3_000 + i as u64, 6_000 + i as u64)).collect());
    let b =
        side("b", (0..8).map(|i| run(10 * i + 5, 3_000 + i as u64, 3_000 + i as u64)).collect());
    let found = compare(&a, &b, &Options::default());
    let names: Vec<&str> = found.rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["fsop, 1 reader", "fsop, both, readers", "fsop, both, writers"]);
    let figures: Vec<(String, Decision)> = found
        .rows
        .iter()
        .map(|row| (row.figures[0].metric.words(), row.figures[0].decision))
        .collect();
    assert_eq!(figures[1], ("files read/s".to_owned(), Decision::Equivalent));
    assert_eq!(figures[2], ("files written/s".to_owned(), Decision::Slower));
    let words: Vec<String> = found.rows[2].figures.iter().map(|f| f.metric.words()).collect();
    assert!(words.contains(&"mkdir p99".to_owned()), "{words:?}");
    let series = crate::history::history(&a.runs, 3.0);
    let names: Vec<&str> = series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["fsop, 1 reader", "fsop, both, readers", "fsop, both, writers"]);
    assert_eq!(series[0].points[0].value, 200.0, "files a second of 6000 in 30 s");
}

/// Eight runs of a personality on a side, made in turn.
fn played(name: &str, first: i64, shape: impl Fn(u64) -> fathom_model::record::Record) -> Side {
    let run = |i: i64| {
        let started = 10 * i + first;
        let mut run = fixtures::run(started, 1000.0);
        run.records = vec![shape(i as u64)];
        run.records[0].started_unix_ns = started;
        run
    };
    Side { name: name.into(), runs: (0..8).map(run).collect() }
}

#[test]
fn personalities_are_rows_by_transaction() {
    use fathom_model::play::PlayAct::{Read, Stat};
    // The second side reads as much, and looks up half as many.
    let shape =
        |stats: u64| move |i| fixtures::clients(&[(Read, 3_000 + i), (Stat, stats + i)], None);
    let (a, b) = (played("a", 0, shape(60_000)), played("b", 5, shape(30_000)));
    let found = compare(&a, &b, &Options::default());
    let first = |row: &RowComparison| {
        let figure = &row.figures[0];
        (row.name.clone(), figure.metric.words(), figure.decision)
    };
    let rows: Vec<_> = found.rows.iter().map(first).collect();
    let row = |name: &str, words: &str, decision| {
        (format!("own, 2 clients, {name}"), words.to_owned(), decision)
    };
    assert_eq!(
        rows,
        [
            row("transactions", "transactions/s", Decision::Slower),
            row("read", "transactions/s", Decision::Equivalent),
            row("stat", "transactions/s", Decision::Slower),
            row("calls", "mkdirs/s", Decision::Slower),
        ]
    );
    let words: Vec<String> = found.rows[3].figures.iter().map(|f| f.metric.words()).collect();
    assert!(words.contains(&"sync p99".to_owned()), "{words:?}");
    let series = crate::history::history(&a.runs, 3.0);
    assert_eq!(series.len(), 4);
    assert_eq!(series[0].points[0].value, 4_200.0, "of both clients in 30 s");
    // One kind alone has its name, and there is no sum beside it.
    let mail = played("mail", 0, |i| fixtures::clients(&[(Read, 3_000 + i)], None));
    let names: Vec<String> =
        crate::history::history(&mail.runs, 3.0).into_iter().map(|series| series.name).collect();
    assert_eq!(names, ["own, 2 clients, read", "own, 2 clients, calls"]);
}

/// What one run did in place of something gives its other rows no other name.
#[test]
fn what_was_done_instead_is_a_row_beside_the_others() {
    use fathom_model::play::PlayAct::{self, Create, Delete};
    let creates = |instead: &'static [(PlayAct, u64)]| {
        move |i| {
            let mut record = fixtures::clients(&[&[(Create, 3_000 + i)], instead].concat(), None);
            let play = record.fsop.as_mut().and_then(|fsop| fsop.spec.play.as_mut());
            play.expect("a personality").mix = vec![(Create, 1)];
            record
        }
    };
    let a = played("a", 0, creates(&[(Delete, 40)]));
    let b = played("b", 5, creates(&[]));
    let found = compare(&a, &b, &Options::default());
    assert_eq!(found.rows[0].name, "own, 2 clients, create");
    assert_eq!(found.rows[0].figures[0].decision, Decision::Equivalent);
    let names: Vec<String> =
        crate::history::history(&a.runs, 3.0).into_iter().map(|series| series.name).collect();
    let expected = ["create", "delete", "calls"].map(|name| format!("own, 2 clients, {name}"));
    assert_eq!(names, expected);
}

#[test]
fn of_a_rate_the_response_is_the_answer() {
    use fathom_model::play::{PlayAct::Read, PlayedRate};
    let rate = |waiting: u64| {
        let mut rate = PlayedRate { due: 3_000 + waiting, ..PlayedRate::default() };
        rate.unfinished_ns.record_n(400_000_000, waiting);
        Some(rate)
    };
    let side = |name: &str, first, waiting| {
        played(name, first, move |i| fixtures::clients(&[(Read, 3_000 + i)], rate(waiting)))
    };
    let found = compare(&side("a", 0, 0), &side("b", 5, 300), &Options::default());
    let figure = &found.rows[0].figures[0];
    assert_eq!(
        (figure.metric.words(), figure.decision),
        ("transaction p99".into(), Decision::Slower)
    );
    assert!((figure.a.value / 5e6 - 1.0).abs() < 0.02, "from when it was due: {figure:?}");
    assert!((figure.b.value / 4e8 - 1.0).abs() < 0.02, "what never ended counts: {figure:?}");
}

/// Trials whose load is a command, with one figure of each.
fn command_sides(ratio: f64, name: &str) -> (Side, Side) {
    let (mut a, mut b) = sides(ratio, 8);
    for run in a.runs.iter_mut().chain(&mut b.runs) {
        let record = &mut run.records[0];
        let rate = record.jobs[0].transfers().latency_ns.count() as f64;
        let cell = serde_json::json!({
            "slot": {"block": 0, "place": 0, "cell": 0, "is_sentinel": false}, "levels": [], "workload": "app",
            "knobs": [], "setup": [], "prepare_ns": 0, "application": {name: rate, "zero": 0.0},
        });
        record.cell = Some(Box::new(serde_json::from_value(cell).expect("a cell")));
        record.jobs.clear();
        record.workload.jobs.clear();
    }
    (a, b)
}

#[test]
fn figures_of_commands_are_compared_by_what_their_plans_say() {
    let (a, b) = command_sides(1.12, "tps");
    let with = |told: Told| compare(&a, &b, &Options { told, ..Options::default() });
    let found = with(vec![("tps".into(), Some(Better::Higher))]);
    let figures = &found.rows[0].figures;
    // What is 0 has no ratio.
    assert_eq!(
        (figures.len(), figures[0].metric.words(), figures[0].decision),
        (1, "tps".into(), Decision::Faster)
    );
    assert!(found.rows[0].in_pairs && !ids(&found).contains(&"nothing-common"), "{found:?}");
    let less = with(vec![("tps".into(), Some(Better::Lower))]);
    assert_eq!(
        (less.rows[0].figures[0].decision, less.slower_by(Some(5.0)).len()),
        (Decision::Slower, 1)
    );
    // Nobody has said which is better: nothing is worse.
    let (b, a) = (a.clone(), b.clone());
    let unsaid = compare(&a, &b, &Options::default());
    assert!(
        !unsaid.rows[0].figures[0].metric.is_judged() && unsaid.slower_by(Some(5.0)).is_empty()
    );
    let (_, other) = command_sides(1.0, "qps");
    let none = compare(&a, &other, &Options::default());
    let finding = none.findings.iter().find(|f| f.id == "nothing-common").expect("void");
    assert!(
        finding.summary.contains("one of a command counts where its plan names it"),
        "{finding:?}"
    );
}
