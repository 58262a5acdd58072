//! The page as it is read, as Markdown and as HTML.

use super::made::{as_commits, record};
use super::sample::{head, page};
use expect_test::expect_file;
use fathom_html::html::{html, library};
use fathom_html::markdown::markdown;
use fathom_html::page::Page;
use fathom_model::record::{Record, RunKind};

fn rows() -> Vec<Record> {
    let random = |in_flight: u32, per_s: u64| {
        let typical_ns = 1_000_000_000 * u64::from(in_flight) / per_s;
        let mut record =
            record(&format!("random read, {in_flight} in flight"), &[per_s; 3], typical_ns);
        record.workload.jobs[0].depth = in_flight;
        record
    };
    vec![
        record("sequential read", &[288, 290, 280], 3_400_000),
        random(1, 89),
        random(16, 600),
        random(64, 620),
        as_commits(record("commit (append + fdatasync)", &[104; 3], 9_100_000)),
    ]
}

/// The page that is read here, and opened in a browser.
pub fn shown() -> Page {
    page(&head(RunKind::Quick, "fathom quick '/srv/my data'", "/srv/my data"), &rows(), None)
}

#[test]
fn the_whole_page() {
    let page = shown();
    expect_file!["golden/quick.md"].assert_eq(&markdown(&page));
    assert_eq!(
        page.answer,
        "sequential read 1.2 MB/s; random read, 1 in flight 89 IOPS; random read, 16 in flight 600 IOPS; commit (append + fdatasync) \
         104/s. One run of each, so without intervals."
    );
    let file = html(&page);
    // What every page carries is tested elsewhere.
    let own = file.replace(&library::library().expect("unpacks"), "LIBRARY");
    let own = own.replace(library::SCRIPT.trim_end(), "SCRIPT").replace(library::STYLE, "STYLE\n");
    let own = own.replace(library::SCRIPT_SHA256, "SHA256");
    expect_file!["golden/quick.html"].assert_eq(&own);
}
