//! The store on a healthy filesystem: round trips, lists, prefixes, limits between processes and versions.
#![expect(clippy::expect_used, reason = "a test's panic is its report")]

mod common;
#[path = "common/plans.rs"]
mod plans;

use common::{START_NS, head, record, writer};
use expect_test::{Expect, expect};
use fathom_model::finding::{Finding, Severity, Verdict};
use fathom_model::plan::Plan;
use fathom_model::record::Ending;
use fathom_store::{Filter, RunState, Store, StoreError};
use plans::plan;
use rusqlite::Connection;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn place() -> (TempDir, PathBuf) {
    let directory = TempDir::new().expect("temporary directory");
    let path = directory.path().join("a/b/fathom.db");
    (directory, path)
}

fn open(path: &Path) -> Store {
    Store::open(path, START_NS).expect("opens")
}

/// The message with the directory's name taken out.
fn check(result: Result<impl Sized, StoreError>, directory: &Path, expected: &Expect) {
    let Err(error) = result else { panic!("it should have failed: {expected:?}") };
    expected.assert_eq(&error.to_string().replace(&directory.display().to_string(), "DIR"));
}

#[test]
fn what_is_stored_comes_back_and_only_one_file_remains() {
    let (directory, path) = place();
    let (first, second) = (record("sequential read", 1), record("random read, 1 in flight", 2));
    let finding = Finding::new("x", Severity::Doubtful, "y").advise("z");
    {
        let mut store = open(&path);
        store.begin_run(&head("7f3kaaaaaaaa", START_NS), &writer()).expect("begins");
        assert_eq!(store.add_trial("7f3kaaaaaaaa", &first).expect("adds"), 0);
        let (bytes, changed) = (std::fs::read(&path), path.metadata().and_then(|m| m.modified()));
        let running = store.load("7f3kaaaaaaaa").expect("loads");
        assert_eq!(store.list(&Filter::default()).expect("lists").len(), 1);
        assert_eq!(std::fs::read(&path).ok(), bytes.ok(), "reading has written");
        assert_eq!(path.metadata().and_then(|m| m.modified()).ok(), changed.ok());
        assert_eq!(std::fs::read_dir(path.parent().expect("parent")).expect("lists").count(), 1);
        assert_eq!((running.state, running.verdict), (RunState::Running, None));
        assert_eq!(store.add_trial("7f3kaaaaaaaa", &second).expect("adds"), 1);
        store
            .finish_run(
                "7f3kaaaaaaaa",
                Ending::Complete,
                Verdict::Doubtful,
                std::slice::from_ref(&finding),
                START_NS + 9,
            )
            .expect("finishes");
    }
    let store = Store::open_read_only(&path).expect("opens");
    let run = store.load("7f3kaaaaaaaa").expect("loads");
    assert_eq!(run.head, head("7f3kaaaaaaaa", START_NS));
    assert_eq!(run.records, [first, second]);
    assert_eq!((run.state, run.verdict), (RunState::Complete, Some(Verdict::Doubtful)));
    assert_eq!((run.findings, run.finished_unix_ns), (vec![finding], Some(START_NS + 9)));
    assert_eq!(run.writer, writer());
    let files: Vec<_> = std::fs::read_dir(path.parent().expect("parent")).expect("lists").collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let mode =
        std::os::unix::fs::MetadataExt::mode(&directory.path().join("a").metadata().expect("made"));
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn lists_are_filtered_and_newest_first() {
    let (_directory, path) = place();
    let mut store = open(&path);
    for (i, (id, target, label)) in [
        ("aaaaaaaaaaaa", "/srv", None),
        ("bbbbbbbbbbbb", "/srv/data/", Some("before")),
        ("cccccccccccc", "/srv2", Some("after")),
    ]
    .into_iter()
    .enumerate()
    {
        let mut run = head(id, START_NS + i as i64);
        run.target = target.into();
        run.label = label.map(str::to_owned);
        store.begin_run(&run, &writer()).expect("begins");
    }
    store.add_trial("bbbbbbbbbbbb", &record("x", 1)).expect("adds");
    let ids = |filter: Filter| -> Vec<char> {
        let runs = store.list(&filter).expect("lists");
        runs.iter().filter_map(|run| run.id.chars().next()).collect()
    };
    assert_eq!(ids(Filter::default()), ['c', 'b', 'a']);
    assert_eq!(ids(Filter { limit: Some(2), ..Filter::default() }), ['c', 'b']);
    assert_eq!(ids(Filter { label: Some("before".into()), ..Filter::default() }), ['b']);
    assert_eq!(ids(Filter { target: Some("/srv/".into()), ..Filter::default() }), ['b', 'a']);
    assert_eq!(ids(Filter { target: Some("/srv/data".into()), ..Filter::default() }), ['b']);
    assert_eq!(ids(Filter { target: Some("/".into()), ..Filter::default() }), ['c', 'b', 'a']);
    assert_eq!(ids(Filter { since_unix_ns: Some(START_NS + 1), ..Filter::default() }), ['c', 'b']);
    let all = store.list(&Filter::default()).expect("lists");
    assert_eq!((all[1].trials, all[0].trials, all[1].kind.as_str()), (1, 0, "quick"));
    assert_eq!(all[0].state.word(false), "partial");
    assert_eq!(all[0].state.word(true), "running");
}

#[test]
fn labels_change_runs_go_records_stay_as_they_are() {
    let (_directory, path) = place();
    let mut store = open(&path);
    for id in ["aaaaaaaaaaaa", "bbbbbbbbbbbb"] {
        store.begin_run(&head(id, START_NS), &writer()).expect("begins");
        store.add_trial(id, &record("x", 1)).expect("adds");
    }
    store.set_label("aaaaaaaaaaaa", Some("after")).expect("labels");
    assert_eq!(store.load("aaaaaaaaaaaa").expect("loads").head.label.as_deref(), Some("after"));
    store.remove("aaaaaaaaaaaa").expect("removes");
    assert!(matches!(store.load("aaaaaaaaaaaa"), Err(StoreError::NotFound { .. })));
    assert!(matches!(store.remove("aaaaaaaaaaaa"), Err(StoreError::NotFound { .. })));
    assert!(matches!(
        store.add_trial("aaaaaaaaaaaa", &record("x", 1)),
        Err(StoreError::NotFound { .. })
    ));
    let other = Connection::open(&path).expect("opens");
    let trials = |sql: &str| other.query_row(sql, (), |r| r.get::<_, i64>(0)).expect("counts");
    assert_eq!(trials("SELECT count(*) FROM trials"), 1, "the removed run's records go with it");
    let refused = other.execute("UPDATE trials SET label = 'y'", ()).expect_err("refused");
    assert_eq!(refused.to_string(), "records never change");
}

#[test]
fn prefixes() {
    let (directory, path) = place();
    let mut store = open(&path);
    check(
        store.resolve("x"),
        directory.path(),
        &expect!["no run 'x'; no run is stored yet; all runs: fathom list"],
    );
    for (i, id) in ["7f3kaaaaaaaa", "7f3kab000000", "9xxxxxxxxxxx"].into_iter().enumerate() {
        store.begin_run(&head(id, START_NS + i as i64), &writer()).expect("begins");
    }
    assert_eq!(store.resolve("9").expect("found"), "9xxxxxxxxxxx");
    assert_eq!(store.resolve("7F3KAB").expect("found"), "7f3kab000000");
    assert_eq!(store.shortest_prefix("7f3kaaaaaaaa").expect("unique"), "7f3kaa");
    assert_eq!(store.shortest_prefix("9xxxxxxxxxxx").expect("unique"), "9xxx");
    let at = directory.path();
    check(
        store.resolve("7f3k"),
        at,
        &expect!["'7f3k' is the beginning of 2 runs: 7f3kab, 7f3kaa; give one more character"],
    );
    check(
        store.resolve("9xyx"),
        at,
        &expect!["no run '9xyx'; the nearest is '9xxx'; all runs: fathom list"],
    );
    check(
        store.resolve("q%_"),
        at,
        &expect!["no run 'q%_'; the most recent is '9xxx'; all runs: fathom list"],
    );
    check(
        store.resolve(""),
        at,
        &expect!["no run ''; the most recent is '9xxx'; all runs: fathom list"],
    );
    // A label is a whole word, and comes before what begins so.
    store.set_label("7f3kaaaaaaaa", Some("9")).expect("labels");
    assert_eq!(store.resolve("9").expect("found"), "7f3kaaaaaaaa");
    store.set_label("7f3kab000000", Some("9")).expect("labels");
    check(
        store.resolve("9"),
        at,
        &expect!["'9' is the label of 2 runs: 7f3kab, 7f3kaa; name one of them"],
    );
    assert_eq!(store.resolve("9x").expect("found"), "9xxxxxxxxxxx");
}

#[test]
fn a_newer_format_is_readable_and_not_writable() {
    let (directory, path) = place();
    let mut store = open(&path);
    store.begin_run(&head("aaaaaaaaaaaa", START_NS), &writer()).expect("begins");
    store.add_trial("aaaaaaaaaaaa", &record("x", 1)).expect("adds");
    drop(store);
    let newer = Connection::open(&path).expect("opens");
    newer
        .execute_batch(
            "ALTER TABLE runs ADD COLUMN mood TEXT;
             INSERT INTO runs (id, kind, command, target, started_unix_ns, host, fathom_version,
                 writer_pid, writer_start_ticks, writer_boot_id, state)
             VALUES ('bbbbbbbbbbbb', 'oracle', '', '', 0, '{}', '9', 1, 1, '', 'running');
             PRAGMA user_version = 7",
        )
        .expect("changes");
    let record_2 = r#"{"version": 2, "shape": "unknown"}"#;
    newer
        .execute(
            "INSERT INTO trials VALUES ('aaaaaaaaaaaa', 1, 'y', 0, ?1, ?2)",
            (record_2, fnv1a(record_2)),
        )
        .expect("inserts");
    drop(newer);
    let before = std::fs::read(&path).expect("reads");
    let mut store = open(&path);
    let at = directory.path();
    assert_eq!(store.list(&Filter::default()).expect("lists").len(), 2);
    check(
        store.begin_run(&head("cccccccccccc", START_NS), &writer()),
        at,
        &expect![
            "store 'DIR/a/b/fathom.db' was written by a newer fathom (format 7, this one knows 4): readable, not writable; use that fathom, or --db FILE with another name"
        ],
    );
    check(
        store.load("aaaaaaaaaaaa"),
        at,
        &expect![
            "trial 1 of run aaaaaaaaaaaa was written by a newer fathom (record version 2, this one knows 1); use that fathom to read it"
        ],
    );
    check(
        store.load("bbbbbbbbbbbb"),
        at,
        &expect![
            "run bbbbbbbbbbbb is of kind 'oracle', which this fathom does not know; use a newer fathom to read it"
        ],
    );
    drop(store);
    assert_eq!(std::fs::read(&path).expect("reads"), before, "nothing was written");
}

fn fnv1a(text: &str) -> i64 {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    hash.cast_signed()
}

#[test]
fn concurrent_writers_wait_for_each_other() {
    let (_directory, path) = place();
    let ids = ["aaaaaaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc", "dddddddddddd"];
    std::thread::scope(|scope| {
        for id in ids {
            let path = &path;
            // Each opens for itself: making the file is part of the race.
            scope.spawn(move || {
                let mut store = open(path);
                store.begin_run(&head(id, START_NS), &writer()).expect("begins");
                for index in 0..10 {
                    assert_eq!(store.add_trial(id, &record("x", 1)).expect("adds"), index);
                }
            });
        }
    });
    let store = Store::open_read_only(&path).expect("opens");
    for id in ids {
        assert_eq!(store.load(id).expect("loads").records.len(), 10);
    }
}

#[test]
fn the_first_of_many_makes_the_store() {
    for round in 0..40 {
        let (_directory, path) = place();
        std::thread::scope(|scope| {
            for writer_index in 0..3 {
                let path = &path;
                let id = format!("{round:06}{writer_index:06}");
                scope.spawn(move || {
                    open(path).begin_run(&head(&id, START_NS), &writer()).expect("begins");
                });
            }
        });
        let store = Store::open_read_only(&path).expect("opens");
        assert_eq!(store.list(&Filter::default()).expect("lists").len(), 3);
    }
}

#[test]
fn a_lock_that_stays_is_named() {
    let (directory, path) = place();
    let mut store = open(&path);
    let other = Connection::open(&path).expect("opens");
    other.execute_batch("BEGIN EXCLUSIVE").expect("locks");
    check(
        store.begin_run(&head("aaaaaaaaaaaa", START_NS), &writer()),
        directory.path(),
        &expect![
            "store 'DIR/a/b/fathom.db' is locked by another process (waited 5 s); repeat when that has finished, see: fuser DIR/a/b/fathom.db"
        ],
    );
    other.execute_batch("ROLLBACK").expect("unlocks");
    store.begin_run(&head("aaaaaaaaaaaa", START_NS), &writer()).expect("begins");
}

#[test]
fn a_record_that_would_not_read_back_is_refused() {
    let (directory, path) = place();
    let mut store = open(&path);
    store.begin_run(&head("aaaaaaaaaaaa", START_NS), &writer()).expect("begins");
    let mut bad = record("x", 1);
    bad.system_cpu.busy_share = f64::NAN;
    check(
        store.add_trial("aaaaaaaaaaaa", &bad).map_err(|e| match e {
            StoreError::Internal { path, detail } => {
                let detail = detail.split(": ").next().unwrap_or_default().to_owned();
                StoreError::Internal { path, detail }
            }
            other => other,
        }),
        directory.path(),
        &expect!["store 'DIR/a/b/fathom.db': the record 'x' would not read back"],
    );
    assert_eq!(store.list(&Filter::default()).expect("lists")[0].trials, 0);
}

#[test]
fn any_file_name_will_do() {
    let directory = TempDir::new().expect("temporary directory");
    for name in [OsStr::from_bytes(b"a?b#c%20 d\xff&'.db"), OsStr::new(":memory:")] {
        let path = directory.path().join(name);
        open(&path).begin_run(&head("aaaaaaaaaaaa", START_NS), &writer()).expect("begins");
        assert_eq!(open(&path).list(&Filter::default()).expect("lists").len(), 1);
        let there: Vec<_> = std::fs::read_dir(directory.path())
            .expect("lists")
            .map(|entry| entry.expect("entry").file_name())
            .collect();
        assert!(there.contains(&name.to_owned()), "{there:?}");
    }
}

#[test]
fn an_experiment_is_found_again_by_its_plan_and_taken_up() {
    let (_directory, path) = place();
    let mut store = open(&path);
    for (id, start_ns, name) in
        [("aaaaaaaaaaaa", 1, "x"), ("bbbbbbbbbbbb", 3, "x"), ("cccccccccccc", 2, "y")]
    {
        store
            .begin_experiment(&head(id, START_NS + start_ns), &writer(), &plan(name))
            .expect("begins");
    }
    let newest = store.newest_of_plan("x", None).expect("looks").expect("is there");
    assert_eq!((newest.run_id.as_str(), newest.plan), ("bbbbbbbbbbbb", plan("x")));
    assert_eq!(store.newest_of_plan("z", None).expect("looks"), None);
    // On another target it is another experiment.
    let elsewhere = Plan { target: Some("/elsewhere".into()), ..plan("x") };
    let other = head("eeeeeeeeeeee", START_NS + 9);
    store.begin_experiment(&other, &writer(), &elsewhere).expect("begins");
    for (target, id) in [(plan("x").target, "bbbbbbbbbbbb"), (elsewhere.target, "eeeeeeeeeeee")] {
        let found = store.newest_of_plan("x", target.as_deref()).expect("looks").expect("is there");
        assert_eq!(found.run_id, id, "{target:?}");
    }
    assert_eq!(store.newest_of_plan("x", Some("/nowhere")).expect("looks"), None);
    store.remove("eeeeeeeeeeee").expect("removes");
    store.begin_run(&head("dddddddddddd", START_NS), &writer()).expect("begins");
    assert_eq!(store.plan("dddddddddddd").expect("looks"), None, "a run without a plan");

    store.add_trial("bbbbbbbbbbbb", &record("a", 1)).expect("adds");
    store.finish_run("bbbbbbbbbbbb", Ending::Interrupted, Verdict::Doubtful, &[], 5).expect("ends");
    let other = fathom_store::Writer { pid: 1, ..writer() };
    store.take_up("bbbbbbbbbbbb", &other).expect("goes on");
    store.add_trial("bbbbbbbbbbbb", &record("b", 2)).expect("adds");
    let run = store.load("bbbbbbbbbbbb").expect("loads");
    assert_eq!((run.state, run.verdict, run.finished_unix_ns), (RunState::Running, None, None));
    assert_eq!((run.writer, run.records.len()), (other, 2));
    store.remove("bbbbbbbbbbbb").expect("removes");
    assert_eq!(store.plan("bbbbbbbbbbbb").expect("looks"), None, "the plan goes with its run");
    let edited = store.newest_of_plan("x", None).expect("looks").expect("is there");
    assert_eq!(edited.run_id, "aaaaaaaaaaaa");
}

#[test]
fn a_store_of_the_first_format_has_no_plans_and_gets_a_place_for_them() {
    let (_directory, path) = place();
    open(&path).begin_run(&head("aaaaaaaaaaaa", START_NS), &writer()).expect("begins");
    let raw = Connection::open(&path).expect("opens");
    let drops: Vec<String> = raw
        .prepare("SELECT 'DROP VIEW ' || name FROM sqlite_schema WHERE type = 'view'")
        .and_then(|mut all| all.query_map((), |row| row.get(0))?.collect())
        .expect("lists");
    raw.execute_batch(&drops.join(";")).expect("drops the views");
    raw.execute_batch(
        "DROP TABLE imports; DROP TRIGGER plans_never_change; DROP TABLE plans;
         DELETE FROM migrations WHERE format > 1; PRAGMA user_version = 1",
    )
    .expect("as the first format");
    drop(raw);
    let old = Store::open_read_only(&path).expect("opens");
    assert_eq!(old.plan("aaaaaaaaaaaa").expect("looks"), None);
    drop(old);
    let mut store = open(&path);
    store.begin_experiment(&head("bbbbbbbbbbbb", START_NS), &writer(), &plan("x")).expect("begins");
    assert!(store.load("aaaaaaaaaaaa").is_ok() && store.plan("bbbbbbbbbbbb").is_ok());
    let raw = Connection::open(&path).expect("opens");
    let seen: i64 = raw.query_row("SELECT count(*) FROM v_runs", (), |r| r.get(0)).expect("a view");
    assert_eq!(seen, 2, "views show runs of older formats");
}
