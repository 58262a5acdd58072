//! The page as it is read.

use super::made::{record, runs, without_course};
use super::sample::{head, page};
use expect_test::expect_file;
use fathom_html::markdown::markdown;
use fathom_html::page::{Block, Chart, ChartKind, Page};
use fathom_html::pages::of_comparison;
use fathom_model::record::RunKind;
use fathom_study::compare::{Options, Run, Side, compare};
use jiff::tz::TimeZone;

/// Eight runs of each, in turn; B reads a fifth more.
pub fn shown() -> Page {
    let side = |name: &str, first: i64, per_s: [u64; 8]| Side {
        name: name.into(),
        runs: runs(first, 2, &per_s),
    };
    let a = side("before", 0, [500, 503, 501, 499, 502, 500, 498, 501]);
    let b = side("after", 1, [600, 604, 598, 601, 602, 597, 603, 600]);
    let found = compare(&a, &b, &Options::default());
    of_comparison(&found, [&a, &b], &TimeZone::UTC)
}

#[test]
fn eight_pairs() {
    let page = shown();
    assert!(page.answer.starts_with("randread: B is "), "{}", page.answer);
    expect_file!["golden/eight_pairs.md"].assert_eq(&markdown(&page));
}

/// The number of points of each series of the charts in "Run by run".
fn drawn(page: &Page) -> Vec<(String, Vec<usize>)> {
    let section = page.sections.iter().find(|section| section.heading == "Run by run");
    let blocks = section.map_or(&[][..], |section| &section.blocks);
    let charts = blocks.iter().filter_map(|block| match block {
        Block::Chart(chart) => Some(chart),
        _ => None,
    });
    let points = |chart: &Chart| chart.series.iter().map(|series| series.points.len()).collect();
    charts.filter(|c| c.kind == ChartKind::Scatter).map(|c| (c.title.clone(), points(c))).collect()
}

/// Rows whose names begin alike are rows of their own, and so are the jobs of one record.
#[test]
fn rows_that_begin_alike_and_jobs_are_told_apart() {
    let labelled = |mut runs: Vec<Run>, label: &str| {
        runs.iter_mut().for_each(|run| run.records[0].label = label.to_owned());
        runs
    };
    let side = |name: &str, first: i64| {
        let mut all = labelled(runs(first, 4, &[500, 501, 502, 503]), "depth=1");
        all.extend(labelled(runs(first + 100, 4, &[900, 901]), "depth=16"));
        for (number, run) in all.iter_mut().enumerate() {
            run.head.id = format!("{name}{number}");
        }
        Side { name: name.into(), runs: all }
    };
    let (a, mut b) = (side("before", 0), side("after", 1));
    let of = |a: &Side, b: &Side| {
        let found = compare(a, b, &Options::default());
        drawn(&of_comparison(&found, [a, b], &TimeZone::UTC))
    };
    let of_each_run = |name: &str| format!("{name}: IOPS of each run");
    let expected = [(of_each_run("depth=1"), vec![4, 4]), (of_each_run("depth=16"), vec![2, 2])];
    assert_eq!(of(&a, &b), expected);
    // A single row on each side, called otherwise.
    let one = |side: &Side| Side { name: side.name.clone(), runs: side.runs[..4].to_vec() };
    b.runs.iter_mut().for_each(|run| run.records[0].label = "other".into());
    assert_eq!(of(&one(&a), &one(&b)), [(of_each_run("depth=1 / other"), vec![4, 4])]);
    // Two jobs in each record.
    let mut two = one(&a);
    for run in &mut two.runs {
        let mut other = run.records[0].jobs[0].clone();
        other.name = "second".into();
        run.records[0].jobs.push(other);
        let asked = run.records[0].workload.jobs[0].clone();
        run.records[0].workload.jobs.push(asked);
    }
    let mut later = two.clone();
    for (number, run) in later.runs.iter_mut().enumerate() {
        run.head.id = format!("later{number}");
        run.records[0].started_unix_ns += 1;
    }
    let titles: Vec<String> = of(&two, &later).into_iter().map(|(title, _)| title).collect();
    assert_eq!(titles.len(), 2, "{titles:?}");
    assert!(titles[1].starts_with("depth=1, second: "), "{titles:?}");
}

/// Both sides may have one name: then it is their order that tells them.
#[test]
fn sides_of_one_name_are_still_a_and_b() {
    let side = |first: i64| Side { name: "nightly".into(), runs: runs(first, 2, &[500, 501, 502]) };
    let (a, b) = (side(0), side(1));
    let page = of_comparison(&compare(&a, &b, &Options::default()), [&a, &b], &TimeZone::UTC);
    let headings: Vec<&str> =
        page.sections.iter().map(|section| section.heading.as_str()).collect();
    assert!(headings.ends_with(&["Side A", "Side B"]), "{headings:?}");
}

#[test]
fn one_command_with_two_settings() {
    let head = head(RunKind::Against, "fathom run randread /srv --against depth=8", "/srv");
    let of = |side: &str, block: u64, per_s: u64| {
        without_course(record(
            &format!("{side}: randread #{block}"),
            &[per_s + block % 3],
            2_000_000,
        ))
    };
    let mut records: Vec<_> =
        (1..=8).flat_map(|block| [of("A", block, 500), of("B", block, 600)]).collect();
    for (number, record) in (0i64..).zip(&mut records) {
        record.started_unix_ns += number * 60_000_000_000;
    }
    let page = page(&head, &records, None);
    assert!(
        page.answer.starts_with("randread: B is ") && page.answer.contains("8 pairs"),
        "{}",
        page.answer
    );
    let text = markdown(&page);
    assert!(text.contains("B is A with depth=8"), "{text}");
    let drawn =
        page.sections.iter().find(|section| section.heading == "Run by run").expect("drawn");
    assert_eq!(drawn.blocks.len(), 2, "{drawn:?}");
}
