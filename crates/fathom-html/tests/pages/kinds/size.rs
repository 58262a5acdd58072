//! The page as it is read.

use super::made::{record, without_course};
use super::sample::{head, page};
use expect_test::expect_file;
use fathom_html::markdown::markdown;
use fathom_html::page::Page;
use fathom_model::record::{Record, RunKind};
use fathom_model::workload::Extent;

/// Four runs of each size; the smallest is faster by a third.
fn search() -> Vec<Record> {
    let mut records = Vec::new();
    for block in 0..4u64 {
        for (mib, per_s) in [(4096u64, 500), (1024, 502), (256, 660)] {
            let per_s = per_s + block * 3 % 5;
            let mut record = without_course(record(&format!("{mib} MiB"), &[per_s], 2_000_000));
            record.workload.jobs[0].span = Some(Extent::Bytes(mib << 20));
            record.workload.jobs[0].duration_ns = Some(60_000_000_000);
            records.push(record);
        }
    }
    records
}

/// The page that is read here, and opened in a browser.
pub fn shown() -> Page {
    page(&head(RunKind::Size, "fathom size /srv --margin=4%", "/srv"), &search(), None)
}

#[test]
fn the_whole_page() {
    expect_file!["golden/size.md"].assert_eq(&markdown(&shown()));
}
