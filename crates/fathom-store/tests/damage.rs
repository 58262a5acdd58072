//! Files that are no store, and stores that were damaged: clear errors, no wrong data, nothing changed.
#![expect(clippy::expect_used, reason = "a test's panic is its report")]

mod common;

use common::{START_NS, head, record, writer};
use expect_test::{Expect, expect};
use fathom_base::prng::Prng;
use fathom_model::record::Record;
use fathom_store::{Filter, Store, StoreError};
use rusqlite::Connection;
use std::path::Path;
use tempfile::TempDir;

/// Opening in both ways fails with the same text, and the file stays as it was.
#[track_caller]
fn refused(directory: &Path, name: &str, expected: &Expect) {
    let path = directory.join(name);
    let before = std::fs::read(&path).ok();
    let names = || std::fs::read_dir(directory).expect("lists").count();
    let names_before = names();
    for result in [Store::open(&path, START_NS), Store::open_read_only(&path)] {
        let error = result.expect_err("refused").to_string();
        expected.assert_eq(&error.replace(&directory.display().to_string(), "DIR"));
    }
    assert_eq!(std::fs::read(&path).ok(), before);
    assert_eq!(names(), names_before, "something was left beside it");
}

#[test]
fn files_that_are_no_store() {
    let directory = TempDir::new().expect("temporary directory");
    let at = directory.path();
    let mut noise = vec![0; 40_000];
    Prng::new(1, 1).fill(&mut noise);
    std::fs::write(at.join("noise"), &noise).expect("writes");
    std::fs::write(at.join("short"), "SQLite format 3\0").expect("writes");
    std::fs::write(at.join("zeros"), [0; 8192]).expect("writes");
    std::fs::create_dir(at.join("folder")).expect("makes");
    refused(
        at,
        "noise",
        &expect![
            "'DIR/noise' is not a fathom store (it is no database); it was left untouched; use --db FILE with another name"
        ],
    );
    refused(
        at,
        "zeros",
        &expect![
            "'DIR/zeros' is not a fathom store (it is no database); it was left untouched; use --db FILE with another name"
        ],
    );
    refused(
        at,
        "short",
        &expect![
            "'DIR/short' is not a fathom store (it is no database); it was left untouched; use --db FILE with another name"
        ],
    );
    refused(
        at,
        "folder",
        &expect![
            "'DIR/folder' is not a fathom store (it is not a regular file); it was left untouched; use --db FILE with another name"
        ],
    );
    let device = Store::open(Path::new("/dev/null"), START_NS).expect_err("refused");
    assert!(matches!(device, StoreError::NotAStore { .. }), "{device}");
    let below_a_file = Store::open(&at.join("noise/x.db"), START_NS).expect_err("refused");
    assert!(matches!(below_a_file, StoreError::Directory { .. }), "{below_a_file}");
    let missing = Store::open_read_only(&at.join("none.db")).expect_err("missing");
    assert!(matches!(missing, StoreError::Missing { .. }), "{missing}");
    assert!(!at.join("none.db").exists());
}

#[test]
fn another_programs_database_with_an_open_log_stays_as_it_is() {
    let directory = TempDir::new().expect("temporary directory");
    let (made, left) = (directory.path().join("made.db"), directory.path().join("left.db"));
    let owner = Connection::open(&made).expect("opens");
    owner
        .execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (x); INSERT INTO t VALUES (1)")
        .expect("writes");
    // As a crash of its owner leaves it: data in the log that a checkpoint would move.
    let log = |path: &Path| path.with_extension("db-wal");
    std::fs::copy(&made, &left).expect("copies");
    std::fs::copy(log(&made), log(&left)).expect("copies");
    drop(owner);
    let before = std::fs::read(log(&left)).expect("reads");
    assert!(!before.is_empty());
    let error = Store::open(&left, START_NS).expect_err("refused");
    assert!(matches!(error, StoreError::NotAStore { .. }), "{error}");
    assert_eq!(std::fs::read(log(&left)).expect("reads"), before);
}

/// A store with two runs of three records, as bytes, and those records.
fn healthy(directory: &Path) -> (Vec<u8>, Vec<Record>) {
    let records: Vec<Record> = (0..3).map(|seed| record("x", seed)).collect();
    let path = directory.join("healthy.db");
    let mut store = Store::open(&path, START_NS).expect("opens");
    for id in ["aaaaaaaaaaaa", "bbbbbbbbbbbb"] {
        store.begin_run(&head(id, START_NS), &writer()).expect("begins");
        for record in &records {
            store.add_trial(id, record).expect("adds");
        }
    }
    (std::fs::read(path).expect("reads"), records)
}

/// Reads everything of a damaged copy: records are either as written or refused. Tells whether all was well.
fn all_well_or_refused(path: &Path, written: &[Record], bytes: &[u8], what: &str) -> bool {
    std::fs::write(path, bytes).expect("writes");
    let result = Store::open_read_only(path).and_then(|store| {
        for run in store.list(&Filter::default())? {
            let found = store.load(&run.id)?.records;
            assert_eq!(found.len(), written.len(), "{what}: a record is missing");
            assert!(found == written, "{what}: a wrong record");
        }
        Ok(())
    });
    assert_eq!(std::fs::read(path).expect("reads"), bytes, "{what}: the file was changed");
    match result {
        Ok(()) => true,
        Err(
            StoreError::Corrupt { .. }
            | StoreError::NotAStore { .. }
            | StoreError::Missing { .. }
            | StoreError::NewerRecord { .. }
            | StoreError::NewerKind { .. }
            // An index that has lost an entry.
            | StoreError::NotFound { .. },
        ) => false,
        Err(other) => panic!("{what}: {other:?}"),
    }
}

#[test]
fn a_check_notices_damage_that_opening_does_not_and_changes_nothing() {
    let directory = TempDir::new().expect("temporary directory");
    let (bytes, _) = healthy(directory.path());
    let path = directory.path().join("healthy.db");
    let check = || Store::open_read_only(&path).and_then(|mut store| store.check());
    check().expect("healthy");
    assert_eq!(std::fs::read(&path).expect("reads"), bytes);
    let mut unnoticed = 0;
    for page in 1..bytes.len() / 4096 {
        let mut damaged = bytes.clone();
        damaged[page * 4096..(page + 1) * 4096].fill(0xa5);
        std::fs::write(&path, &damaged).expect("writes");
        match check() {
            Err(StoreError::Corrupt { .. }) => {}
            // A piece of a record, which has a checksum of its own.
            Ok(()) => unnoticed += 1,
            Err(other) => panic!("page {page}: {other:?}"),
        }
        assert_eq!(std::fs::read(&path).expect("reads"), damaged, "page {page}");
    }
    assert!(unnoticed < bytes.len() / 4096 / 2, "{unnoticed} of {}", bytes.len() / 4096);
    assert_eq!(std::fs::read_dir(directory.path()).expect("lists").count(), 1);
}

#[test]
fn truncated_stores() {
    let directory = TempDir::new().expect("temporary directory");
    let (bytes, records) = healthy(directory.path());
    let path = directory.path().join("damaged.db");
    let mut refused = 0;
    for length in (0..bytes.len()).step_by(3000).chain([99, 100, 4096, bytes.len() - 1]) {
        let well =
            all_well_or_refused(&path, &records, &bytes[..length], &format!("{length} bytes"));
        refused += u32::from(!well);
    }
    assert!(refused > 10, "only {refused} were noticed");
    assert!(all_well_or_refused(&path, &records, &bytes, "whole"));
}

#[test]
fn flipped_bits_never_pass_for_a_record() {
    let directory = TempDir::new().expect("temporary directory");
    let (bytes, records) = healthy(directory.path());
    let path = directory.path().join("damaged.db");
    let mut prng = Prng::new(7, 7);
    let mut refused = 0;
    for round in 0..120 {
        let mut damaged = bytes.clone();
        for _ in 0..=prng.below(3) {
            let at = prng.below(damaged.len() as u64) as usize;
            damaged[at] ^= 1 << prng.below(8);
        }
        refused +=
            u32::from(!all_well_or_refused(&path, &records, &damaged, &format!("round {round}")));
    }
    assert!(refused > 60, "only {refused} were noticed");
}

#[test]
fn overwritten_pages_never_pass_for_a_record() {
    let directory = TempDir::new().expect("temporary directory");
    let (bytes, records) = healthy(directory.path());
    let path = directory.path().join("damaged.db");
    let mut prng = Prng::new(8, 8);
    for page in 0..bytes.len() / 4096 {
        let mut damaged = bytes.clone();
        prng.fill(&mut damaged[page * 4096..(page + 1) * 4096]);
        all_well_or_refused(&path, &records, &damaged, &format!("noise in page {page}"));
        damaged[page * 4096..(page + 1) * 4096].fill(0);
        all_well_or_refused(&path, &records, &damaged, &format!("zeros in page {page}"));
    }
}

#[test]
fn a_page_that_hides_its_last_entry_is_noticed() {
    let directory = TempDir::new().expect("temporary directory");
    let (bytes, records) = healthy(directory.path());
    let path = directory.path().join("damaged.db");
    let mut refused = 0;
    // The first page has the file's header before its own.
    for header in (0..bytes.len()).step_by(4096).map(|page| if page == 0 { 100 } else { page }) {
        let (kind, count_low_byte) = (bytes[header], header + 4);
        // Pages of tables and indexes; overflow pages have no such header.
        if ![2, 5, 10, 13].contains(&kind) || bytes[count_low_byte] == 0 {
            continue;
        }
        let mut damaged = bytes.clone();
        damaged[count_low_byte] -= 1;
        let what = format!("entry hidden in the page at {header}");
        refused += u32::from(!all_well_or_refused(&path, &records, &damaged, &what));
    }
    assert!(refused >= 4, "only {refused} were noticed");
}
