//! The page as it is read.

use super::made::{record, without_course};
use super::sample::{head, page};
use expect_test::expect_file;
use fathom_html::markdown::markdown;
use fathom_html::page::Page;
use fathom_model::record::{Record, RunKind};

/// Seven runs at each number in flight; throughput ends to grow at 8.
fn search() -> Vec<Record> {
    let rates = [(1, 100), (2, 195), (4, 370), (8, 500), (16, 510), (32, 505)];
    let mut records = Vec::new();
    for block in 0..7u64 {
        for (number, (in_flight, per_s)) in (0i64..).zip(rates) {
            let per_s = per_s + block * 3 % 5;
            let typical_ns = 1_000_000_000 * u64::from(in_flight) / per_s;
            let mut record =
                without_course(record(&format!("{in_flight} in flight"), &[per_s], typical_ns));
            record.workload.jobs[0].depth = in_flight;
            record.started_unix_ns += (block.cast_signed() * 6 + number) * 60_000_000_000;
            records.push(record);
        }
    }
    records
}

/// The page that is read here, and opened in a browser.
pub fn shown() -> Page {
    page(&head(RunKind::Saturate, "fathom saturate /srv", "/srv"), &search(), None)
}

#[test]
fn the_whole_page() {
    let page = shown();
    expect_file!["golden/saturate.md"].assert_eq(&markdown(&page));
    assert!(page.answer.starts_with("Throughput stops growing at 8 in flight"), "{}", page.answer);
    // Nothing measured to its end.
    let head = head(RunKind::Saturate, "fathom saturate /srv", "/srv");
    let nothing = super::sample::page(&head, &[], None);
    assert_eq!(nothing.answer, "");
}
