//! The page as it is read.

use super::made::runs;
use expect_test::expect_file;
use fathom_html::markdown::markdown;
use fathom_html::page::Page;
use fathom_html::pages::of_history;
use fathom_model::finding::{Finding, Severity};
use fathom_study::history::history;
use jiff::tz::TimeZone;

fn prefix(id: &str) -> String {
    id.chars().take(4).collect()
}

/// The page that is read here, and opened in a browser.
pub fn shown() -> Page {
    let mut per_s = vec![500, 503, 501, 499, 502, 500, 498, 501, 502, 500];
    per_s.extend([400, 402, 399, 401, 400, 403, 398, 400, 401, 402]);
    let mut all = runs(0, 24, &per_s);
    let words = "md10 is checking itself (31 % done): rates are too low";
    let finding = Finding::new("md-sync", Severity::Doubtful, words);
    all.iter_mut()
        .skip(12)
        .step_by(3)
        .for_each(|run| run.records[0].findings.push(finding.clone()));
    let found = history(&all, 5.0);
    of_history("/srv", &found, &all, &prefix, &TimeZone::UTC)
}

#[test]
fn a_level_that_changes() {
    let page = shown();
    assert!(page.answer.starts_with("Changed: randread"), "{}", page.answer);
    expect_file!["golden/change.md"].assert_eq(&markdown(&page));
}

#[test]
fn few_runs_are_no_answer() {
    let all = runs(0, 24, &[500, 400]);
    let page = of_history("/srv", &history(&all, 5.0), &all, &prefix, &TimeZone::UTC);
    assert_eq!(page.answer, "Too few runs to tell a change from luck, in 1 row.");
}
