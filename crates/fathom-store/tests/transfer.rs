//! Runs from store to store: nothing is lost, nothing is there twice, and what cannot be is said.
#![expect(clippy::expect_used, reason = "a test's panic is its report")]

mod common;
#[path = "common/plans.rs"]
mod plans;

use common::{START_NS, head, record, writer};
use expect_test::{Expect, expect};
use fathom_model::finding::{Finding, Severity, Verdict};
use fathom_model::record::Ending;
use fathom_store::transfer::{ImportError, Imported, RunCopy, jsonl};
use fathom_store::{Filter, RunState, Store, StoreError};
use plans::plan;
use proptest::prelude::*;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

struct Place {
    directory: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { directory: TempDir::new().expect("temporary directory") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn store(&self, name: &str) -> Store {
        Store::open(&self.path(name), START_NS).expect("opens")
    }
}

fn export(store: &Store) -> String {
    let mut writer = jsonl::Writer::begin(Vec::new(), "0.1.0", false).expect("begins");
    // The oldest first: so they come to stand in the other store as they stand here.
    for run in store.list(&Filter::default()).expect("lists").iter().rev() {
        writer.stored(store, &run.id).expect("writes");
    }
    String::from_utf8(writer.end().expect("ends")).expect("text")
}

fn import(store: &mut Store, text: &str) -> Result<Vec<Imported>, ImportError> {
    let (all, mut refused) = import_all(store, text);
    refused.truncate(1);
    refused.pop().map_or(Ok(all), Err)
}

/// What became of all runs, and the errors.
fn import_all(store: &mut Store, text: &str) -> (Vec<Imported>, Vec<ImportError>) {
    let (mut all, mut refused) = (Vec::new(), Vec::new());
    let mut tell = |_: &RunCopy, done| match done {
        Ok(done) => all.push(done),
        Err(error) => refused.push(error),
    };
    let end = jsonl::read(store, text.as_bytes(), "test", 5, &mut tell);
    refused.extend(end.err());
    (all, refused)
}

/// Everything in the tables of a store but where runs came from, as text.
fn dump(path: &Path) -> Vec<String> {
    let connection = Connection::open(path).expect("opens");
    let mut all = Vec::new();
    for table in
        ["runs ORDER BY id", "trials ORDER BY run_id, trial_index", "plans ORDER BY run_id"]
    {
        let mut statement = connection.prepare(&format!("SELECT * FROM {table}")).expect("reads");
        let columns = statement.column_count();
        let rows = statement
            .query_map((), |row| {
                (0..columns)
                    .map(|i| Ok(format!("{:?}", row.get_ref(i)?)))
                    .collect::<Result<Vec<_>, _>>()
            })
            .expect("reads");
        all.extend(rows.map(|row| row.expect("row").join("|")));
    }
    all
}

/// A run as a test wants it.
fn add(
    store: &mut Store,
    id: &str,
    trials: u64,
    label: Option<&str>,
    with_plan: bool,
    ending: Option<Ending>,
) {
    let mut head = head(id, START_NS + trials as i64);
    head.label = label.map(str::to_owned);
    match with_plan {
        true => store.begin_experiment(&head, &writer(), &plan("x")),
        false => store.begin_run(&head, &writer()),
    }
    .expect("begins");
    for trial in 0..trials {
        store.add_trial(id, &record(&format!("row {trial}"), trial)).expect("adds");
    }
    let finding = [Finding::new("x", Severity::Doubtful, "y \u{1f4be} \"quoted\"").advise("z")];
    if let Some(ending) = ending {
        store.finish_run(id, ending, Verdict::Doubtful, &finding, START_NS + 77).expect("finishes");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_exported_and_imported_is_the_same_row_by_row(
        runs in prop::collection::vec(
            (0u64..3, prop::option::of("\\PC{0,12}"), any::<bool>(), 0u8..4), 1..4),
    ) {
        let place = Place::new();
        let mut from = place.store("from.db");
        for (index, (trials, label, with_plan, ending)) in runs.iter().enumerate() {
            let ending = [None, Some(Ending::Complete), Some(Ending::Interrupted), Some(Ending::Failed)]
                [usize::from(*ending)];
            add(&mut from, &format!("aaaaaaaaaa{index:02}"), *trials, label.as_deref(), *with_plan, ending);
        }
        let text = export(&from);
        let mut to = place.store("to.db");
        let done = import(&mut to, &text).expect("imports");
        prop_assert_eq!(done, vec![Imported::New; runs.len()]);
        let stored = dump(&place.path("to.db"));
        prop_assert!(stored == dump(&place.path("from.db")), "other rows");
        for run in from.list(&Filter::default()).expect("lists") {
            prop_assert!(to.load(&run.id).expect("loads") == from.load(&run.id).expect("loads"));
            prop_assert_eq!(to.plan(&run.id).expect("reads"), from.plan(&run.id).expect("reads"));
        }
        prop_assert!(export(&to) == text, "another export");
        // Once more: nothing changes, and that is said.
        let done = import(&mut to, &text).expect("imports");
        prop_assert_eq!(done, vec![Imported::Present { label_here: None }; runs.len()]);
        prop_assert!(dump(&place.path("to.db")) == stored, "a second import changed something");
    }
}

#[test]
fn json_that_was_formatted_anew_on_the_way_is_the_same_run() {
    let place = Place::new();
    let mut from = place.store("from.db");
    add(&mut from, "aaaaaaaaaaaa", 2, Some("x"), true, Some(Ending::Complete));
    let lines = export(&from);
    // As a program does that knows nothing of it: keys in another order, other spaces.
    let anew: Vec<String> = lines
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON").to_string())
        .collect();
    let mut to = place.store("to.db");
    assert_eq!(import(&mut to, &anew.join("\n")).expect("imports"), [Imported::New]);
    let (was, is) =
        (from.load("aaaaaaaaaaaa").expect("loads"), to.load("aaaaaaaaaaaa").expect("loads"));
    assert_eq!(is, was);
    assert_eq!(
        import(&mut to, &lines).expect("imports"),
        [Imported::Present { label_here: None }],
        "and is recognised"
    );
}

#[test]
fn a_run_that_went_on_gets_its_further_trials_and_keeps_its_label() {
    let place = Place::new();
    let mut from = place.store("from.db");
    add(&mut from, "aaaaaaaaaaaa", 1, Some("theirs"), true, Some(Ending::Interrupted));
    let early = export(&from);
    from.take_up("aaaaaaaaaaaa", &writer()).expect("goes on");
    from.add_trial("aaaaaaaaaaaa", &record("more", 9)).expect("adds");
    from.finish_run("aaaaaaaaaaaa", Ending::Complete, Verdict::Trusted, &[], 9).expect("ends");
    let late = export(&from);
    let mut to = place.store("to.db");
    assert_eq!(import(&mut to, &early).expect("imports"), [Imported::New]);
    to.set_label("aaaaaaaaaaaa", Some("ours")).expect("labels");
    assert_eq!(import(&mut to, &late).expect("imports"), [Imported::Continued { added: 1 }]);
    let run = to.load("aaaaaaaaaaaa").expect("loads");
    assert_eq!((run.state, run.records.len()), (RunState::Complete, 2));
    assert_eq!(run.head.label.as_deref(), Some("ours"));
    let here = Imported::Present { label_here: Some("ours".into()) };
    assert_eq!(
        import(&mut to, &early).expect("imports"),
        [here],
        "the earlier state changes nothing"
    );
    assert_eq!(to.load("aaaaaaaaaaaa").expect("loads").records.len(), 2);
}

#[test]
fn another_run_of_the_same_name_gets_another_one_and_the_same_again() {
    let place = Place::new();
    let (mut from, mut to) = (place.store("from.db"), place.store("to.db"));
    add(&mut from, "aaaaaaaaaaaa", 1, None, true, Some(Ending::Complete));
    let mut other = head("aaaaaaaaaaaa", START_NS);
    other.target = "/elsewhere".into();
    to.begin_run(&other, &writer()).expect("begins");
    let text = export(&from);
    let done = import(&mut to, &text).expect("imports");
    let [Imported::Renamed { id, outcome }] = done.as_slice() else { panic!("{done:?}") };
    assert_eq!(**outcome, Imported::New);
    let run = to.load(id).expect("loads");
    assert_eq!(run.records, from.load("aaaaaaaaaaaa").expect("loads").records);
    assert!(to.plan(id).expect("reads").is_some());
    assert_eq!(to.load("aaaaaaaaaaaa").expect("loads").head.target, "/elsewhere");
    let again = import(&mut to, &text).expect("imports");
    let present = Box::new(Imported::Present { label_here: None });
    assert_eq!(again, [Imported::Renamed { id: id.clone(), outcome: present }]);
    assert_eq!(to.list(&Filter::default()).expect("lists").len(), 2);
    from.take_up("aaaaaaaaaaaa", &writer()).expect("goes on");
    from.add_trial("aaaaaaaaaaaa", &record("more", 9)).expect("adds");
    let more = import(&mut to, &export(&from)).expect("imports");
    let continued = Box::new(Imported::Continued { added: 1 });
    assert_eq!(more, [Imported::Renamed { id: id.clone(), outcome: continued }]);
}

#[test]
fn the_end_of_a_run_that_was_copied_before_it_is_taken_over() {
    let place = Place::new();
    let (mut from, mut to) = (place.store("from.db"), place.store("to.db"));
    add(&mut from, "aaaaaaaaaaaa", 2, Some("x"), false, None);
    let early = export(&from);
    from.finish_run("aaaaaaaaaaaa", Ending::Complete, Verdict::Doubtful, &[], 9).expect("ends");
    let late = export(&from);
    assert_eq!(import(&mut to, &early).expect("imports"), [Imported::New]);
    assert_eq!(to.load("aaaaaaaaaaaa").expect("loads").state, RunState::Running);
    assert_eq!(import(&mut to, &late).expect("imports"), [Imported::Ended]);
    let run = to.load("aaaaaaaaaaaa").expect("loads");
    assert_eq!(run, from.load("aaaaaaaaaaaa").expect("loads"));
    assert_eq!((run.state, run.verdict), (RunState::Complete, Some(Verdict::Doubtful)));
    let present = [Imported::Present { label_here: None }];
    assert_eq!(import(&mut to, &late).expect("imports"), present);
    assert_eq!(import(&mut to, &early).expect("imports"), present, "an end stays");
    assert_eq!(to.load("aaaaaaaaaaaa").expect("loads").state, RunState::Complete);
}

#[test]
fn a_damaged_run_keeps_no_other_out() {
    let place = Place::new();
    let (mut from, mut to) = (place.store("from.db"), place.store("to.db"));
    for id in ["aaaaaaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc"] {
        add(&mut from, id, 2, None, false, Some(Ending::Complete));
    }
    let text = export(&from);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let middle = lines.iter().position(|line| line.contains("bbbbbbbbbbbb")).expect("is there");
    // The first of two trials: the second has to be passed over.
    lines[middle + 1] =
        lines[middle + 1].replacen("\"window_ns\":60000000000", "\"window_ns\":7", 1);
    let (done, refused) = import_all(&mut to, &lines.join("\n"));
    assert_eq!(done, [Imported::New, Imported::New]);
    let [ImportError::Run { run, .. }] = refused.as_slice() else { panic!("{refused:?}") };
    assert_eq!(run, "bbbbbbbbbbbb");
    let ids: Vec<String> =
        to.list(&Filter::default()).expect("lists").into_iter().map(|run| run.id).collect();
    assert_eq!(ids.len(), 2);
    assert!(ids.contains(&"cccccccccccc".to_owned()), "{ids:?}");
}

/// Nothing of a run is stored that cannot be read whole.
fn check(text: &str, expected: &Expect) {
    let place = Place::new();
    let mut to = place.store("to.db");
    let error = import(&mut to, text).expect_err("it should have failed");
    expected.assert_eq(&error.to_string());
    assert_eq!(to.list(&Filter::default()).expect("lists").len(), 0, "{text}");
}

#[test]
fn what_is_damaged_cut_off_or_newer_is_refused() {
    let place = Place::new();
    let mut from = place.store("from.db");
    add(&mut from, "aaaaaaaaaaaa", 2, None, true, Some(Ending::Complete));
    let text = export(&from);
    let lines: Vec<&str> = text.lines().collect();
    check(
        &lines[..3].join("\n"),
        &expect!["run aaaaaaaaaaaa: only 1 of its 2 trials are there: it was cut off"],
    );
    let half = &text[..text.len() / 2];
    let error = import(&mut place.store("half.db"), half).expect_err("cut in a line").to_string();
    assert!(error.starts_with("line 3: is no line of an export, or cut off"), "{error}");
    check(
        &text.replacen("\"window_ns\":60000000000", "\"window_ns\":60000000001", 1),
        &expect!["run aaaaaaaaaaaa: trial 0 is not what was exported: its checksum does not match"],
    );
    check(
        &text.replace("\"record\":{\"version\":1", "\"record\":{\"version\":9"),
        &expect![
            "run aaaaaaaaaaaa: its trial 0 was written by a newer fathom (version 9, this one knows 1); use that fathom"
        ],
    );
    check(
        &text.replace("\"kind\":\"quick\"", "\"kind\":\"oracle\""),
        &expect![
            "run aaaaaaaaaaaa: is of kind 'oracle', which this fathom does not know; use a newer one"
        ],
    );
    check(
        &text.replace("fathom-export/1", "fathom-export/2"),
        &expect![
            "line 1: is of form fathom-export/2, this fathom reads fathom-export/1; use the fathom that wrote it"
        ],
    );
    check(
        "{\"type\":\"result\",\"schema\":\"fathom/1\"}",
        &expect!["line 1: is no line of an export; made with: fathom export -o FILE.jsonl"],
    );
    check(
        &text.replace("aaaaaaaaaaaa", "../../../etc"),
        &expect!["run ../../../etc: is no identifier of a run (12 small letters and digits)"],
    );
    check(
        &[lines[0], lines[2]].join("\n"),
        &expect!["line 2: a line of type 'trial' does not belong here"],
    );
    // Without its last line all that is there is stored, and the rest is missed.
    let other = Place::new();
    let mut to = other.store("to.db");
    let error = import(&mut to, &lines[..4].join("\n")).expect_err("cut off").to_string();
    assert!(error.contains("the last line is missing"), "{error}");
    assert_eq!(to.list(&Filter::default()).expect("lists").len(), 1);
}

#[test]
fn a_newer_store_is_not_copied_from() {
    let place = Place::new();
    let mut from = place.store("from.db");
    add(&mut from, "aaaaaaaaaaaa", 1, None, false, Some(Ending::Complete));
    drop(from);
    let raw = Connection::open(place.path("from.db")).expect("opens");
    raw.execute_batch("PRAGMA user_version = 99").expect("changes");
    drop(raw);
    let from = Store::open_read_only(&place.path("from.db")).expect("opens");
    assert_eq!(from.newer_format(), Some(99));
    assert!(matches!(from.copy_run("aaaaaaaaaaaa"), Err(StoreError::Newer { format: 99, .. })));
}

#[test]
fn files_one_after_the_other_are_one() {
    let place = Place::new();
    let (mut a, mut b) = (place.store("a.db"), place.store("b.db"));
    add(&mut a, "aaaaaaaaaaaa", 1, None, false, Some(Ending::Complete));
    add(&mut b, "bbbbbbbbbbbb", 2, None, true, Some(Ending::Complete));
    let mut to = place.store("to.db");
    let done = import(&mut to, &(export(&a) + &export(&b))).expect("imports");
    assert_eq!(done, [Imported::New, Imported::New]);
}
