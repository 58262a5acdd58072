//! Layers as they are read, written out as Markdown.

use super::sample::{head, markdown, page, record};
use expect_test::expect_file;
use fathom_html::page::Page;
use fathom_model::record::RunKind;

/// The page that is read here, and opened in a browser.
pub fn shown() -> Page {
    let mut records = Vec::new();
    for number in 1..=6 {
        let of = |layer: &str, count: u64| {
            record(&format!("{layer}: randread #{number}"), count + 10 * number, 4096)
        };
        records.extend([
            of("sda alone", 60_000),
            of("sdb alone", 61_000),
            of("all 2 at once", 118_000),
            of("md0", 110_000),
            of("/srv", 60_000),
        ]);
    }
    let head = head(RunKind::Layers, "fathom layers /srv", "/srv");
    page(&head, &records, None)
}

#[test]
fn two_disks_and_what_stands_on_them() {
    expect_file!["golden/two_disks.md"].assert_eq(&fathom_html::markdown::markdown(&shown()));
}

#[test]
fn nothing_measured_is_said() {
    let head = head(RunKind::Layers, "fathom layers /srv", "/srv");
    let text = markdown(&head, &[], None);
    assert!(text.contains("No answer"), "{text}");
}
