//! The store on filesystems that are full or read-only.
#![expect(clippy::expect_used, reason = "a test's panic is its report")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/experiments.rs"]
mod experiments;
#[path = "../common/observed.rs"]
mod observed;
#[path = "../common/plans.rs"]
mod plans;

mod sql;

use common::{START_NS, head, record, writer};
use fathom_store::{Filter, Store, StoreError};
use fathom_testkit::capability::Capability::{FsOnLoop, MountFs, Tool};
use fathom_testkit::{FsKind, Mount, MountedFs, Scratch, Trial, kernel_test, run};
use rusqlite::Connection;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

const ID: &str = "aaaaaaaaaaaa";

fn main() -> ExitCode {
    let mut trials: Vec<Trial> = vec![
        kernel_test("full_tmpfs", &[MountFs("tmpfs")], || {
            let mount = Mount::new("tmpfs", Path::new("none"), "size=2m").expect("mounts");
            full(mount.dir());
        }),
        kernel_test(
            "a_check_notices_that_nothing_fits_any_more",
            &[MountFs("tmpfs")],
            check_of_full,
        ),
        kernel_test("nothing_is_left_where_nothing_fits", &[MountFs("tmpfs")], nothing_fits),
        kernel_test("read_only_mount", &[MountFs("tmpfs")], read_only_mount),
        kernel_test("hot_journal", &[MountFs("tmpfs")], hot_journal),
        kernel_test("examples_of_the_sql_page", &[Tool("sqlite3")], sql::examples),
    ];
    for kind in FsKind::ALL {
        let name = format!("full_{kind}");
        trials.push(kernel_test(&name, &[FsOnLoop(kind)], move || {
            let fs = MountedFs::new(kind, kind.size_bytes_min()).expect("mounts");
            full(fs.dir());
        }));
    }
    run(trials)
}

fn begun(path: &Path) -> Store {
    let mut store = Store::open(path, START_NS).expect("opens");
    store.begin_run(&head(ID, START_NS), &writer()).expect("begins");
    store
}

fn integrity(path: &Path) -> String {
    let connection = Connection::open(path).expect("opens");
    connection.query_row("PRAGMA integrity_check", (), |row| row.get(0)).expect("checks")
}

/// Fills the filesystem with a file, down to the last block.
fn fill(path: &Path) {
    let mut ballast = File::create(path).expect("creates");
    for size in [1 << 16, 1 << 12, 1 << 9, 1] {
        let block = vec![0x5a; size];
        loop {
            match ballast.write(&block).and_then(|n| ballast.sync_data().map(|()| n)) {
                Ok(n) if n > 0 => {}
                Ok(_) => break,
                Err(error) if error.kind() == ErrorKind::StorageFull => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

fn check_of_full() {
    let mount = Mount::new("tmpfs", Path::new("none"), "size=2m").expect("mounts");
    let path = mount.dir().join("fathom.db");
    drop(begun(&path));
    let before = fs::read(&path).expect("reads");
    let check = || Store::open_read_only(&path).and_then(|mut store| store.check());
    check().expect("there is room");
    fill(&mount.dir().join("ballast"));
    let error = check().expect_err("there is none");
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    fs::remove_file(mount.dir().join("ballast")).expect("removes");
    check().expect("there is room again");
    assert_eq!(fs::read(&path).expect("reads"), before);
    assert_eq!(fs::read_dir(mount.dir()).expect("lists").count(), 1);
}

/// No room for the first page: no empty file stays.
fn nothing_fits() {
    let mount = Mount::new("tmpfs", Path::new("none"), "size=16k").expect("mounts");
    let path = mount.dir().join("fathom.db");
    let error = Store::open(&path, START_NS).expect_err("there is no room");
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    assert_eq!(fs::read_dir(mount.dir()).expect("lists").count(), 0);
}

/// Writes until nothing more fits: the error says so, what was stored before stays, and goes on with space again.
fn full(dir: &Path) {
    let path = dir.join("fathom.db");
    let mut store = begun(&path);
    store.add_trial(ID, &record("before", 0)).expect("fits");
    fill(&dir.join("ballast"));
    let mut stored = 1;
    let error = loop {
        match store.add_trial(ID, &record("filling", stored)) {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 10_000, "it never got full");
    };
    let text = error.to_string();
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    assert!(text.contains("no space left on its filesystem") && text.contains("--db"), "{text}");
    let found = store.load(ID).expect("loads").records;
    assert_eq!(found.len() as u64, stored);
    assert_eq!(found[0], record("before", 0));
    // A new store beside it fails as clearly, and does not pass for one later.
    let second = dir.join("second.db");
    let error = Store::open(&second, START_NS).expect_err("no space");
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    let error = Store::open_read_only(&second).expect_err("nothing there");
    assert!(matches!(error, StoreError::Missing { .. }), "{error:?}");
    fs::remove_file(dir.join("ballast")).expect("removes");
    let index = store.add_trial(ID, &record("after", 1)).expect("fits again");
    assert_eq!(u64::from(index), stored);
    drop(store);
    assert_eq!(integrity(&path), "ok");
}

fn read_only_mount() {
    let mount = Mount::new("tmpfs", Path::new("none"), "size=4m").expect("mounts");
    let path = mount.dir().join("fathom.db");
    let mut store = begun(&path);
    mount.remount("ro").expect_err("a file is open for writing");
    store.add_trial(ID, &record("x", 0)).expect("adds");
    drop(store);
    mount.remount("ro").expect("remounts");
    let store = Store::open_read_only(&path).expect("opens");
    assert_eq!(store.load(ID).expect("loads").records, [record("x", 0)]);
    let error = Store::open(&path, START_NS).expect_err("read-only");
    let text = error.to_string();
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
    assert!(text.contains("read-only") && text.contains("--db"), "{text}");
    for name in ["new.db", "folder/new.db"] {
        let error = Store::open(&mount.dir().join(name), START_NS).expect_err("read-only");
        assert!(error.to_string().to_lowercase().contains("read-only"), "{error}");
    }
}

/// What a killed writer leaves is undone by the next reader; where that may not write, the error is clear.
fn hot_journal() {
    let made = Scratch::new().expect("scratch");
    let path = made.join("fathom.db");
    begun(&path).add_trial(ID, &record("x", 0)).expect("adds");
    let killed = Connection::open(&path).expect("opens");
    // A cache this small writes to the file before the commit.
    killed
        .execute_batch(
            "PRAGMA cache_size = 1; BEGIN; UPDATE runs SET label = hex(zeroblob(100000));
             DELETE FROM trials",
        )
        .expect("changes");
    let mount = Mount::new("tmpfs", Path::new("none"), "size=8m").expect("mounts");
    let left = mount.dir().join("fathom.db");
    for name in ["fathom.db", "fathom.db-journal"] {
        fs::copy(made.join(name), mount.dir().join(name)).expect("copies");
    }
    drop(killed);
    mount.remount("ro").expect("remounts");
    let error = Store::open_read_only(&left).expect_err("it cannot be undone here");
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
    mount.remount("rw").expect("remounts");
    let store = Store::open_read_only(&left).expect("opens");
    assert_eq!(store.load(ID).expect("loads").records, [record("x", 0)]);
    assert_eq!(store.list(&Filter::default()).expect("lists")[0].label, None);
    assert!(!mount.dir().join("fathom.db-journal").exists());
}
