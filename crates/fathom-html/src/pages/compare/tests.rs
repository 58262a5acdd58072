//! The page as it is read.

use crate::markdown::markdown;
use crate::pages::made::{record, runs, without_course};
use crate::pages::of_comparison;
use crate::pages::sample::{head, page};
use expect_test::expect_file;
use fathom_model::record::RunKind;
use fathom_study::compare::{Options, Side, compare};
use jiff::tz::TimeZone;

/// Eight runs of each, in turn; B reads a fifth more.
#[test]
fn eight_pairs() {
    let side = |name: &str, first: i64, per_s: [u64; 8]| Side {
        name: name.into(),
        runs: runs(first, 2, &per_s),
    };
    let a = side("before", 0, [500, 503, 501, 499, 502, 500, 498, 501]);
    let b = side("after", 1, [600, 604, 598, 601, 602, 597, 603, 600]);
    let found = compare(&a, &b, &Options::default());
    let page = of_comparison(&found, [&a, &b], &TimeZone::UTC);
    assert!(page.answer.starts_with("randread: B is "), "{}", page.answer);
    expect_file!["golden/eight_pairs.md"].assert_eq(&markdown(&page));
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
