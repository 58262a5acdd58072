//! The page as it is read, as Markdown and as HTML.

use crate::html::{html, library};
use crate::pages::made::{as_commits, record};
use crate::pages::sample::{head, markdown, page};
use expect_test::expect_file;
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

#[test]
fn the_whole_page() {
    let head = head(RunKind::Quick, "fathom quick '/srv/my data'", "/srv/my data");
    expect_file!["golden/quick.md"].assert_eq(&markdown(&head, &rows(), None));
    let page = page(&head, &rows(), None);
    assert_eq!(
        page.answer,
        "sequential read 1.2 MB/s; random read, 1 in flight 89 IOPS; random read, 16 in flight 600 IOPS; commit (append + fdatasync) \
         104/s."
    );
    let file = html(&page);
    // What every page carries is tested elsewhere.
    let own = file.replace(&library::library().expect("unpacks"), "LIBRARY");
    let own = own.replace(library::SCRIPT.trim_end(), "SCRIPT").replace(library::STYLE, "STYLE\n");
    let own = own.replace(library::SCRIPT_SHA256, "SHA256");
    expect_file!["golden/quick.html"].assert_eq(&own);
}
