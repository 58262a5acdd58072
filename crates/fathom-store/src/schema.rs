//! The tables and how they came to be.
//!
//! Rules: the application id says that a file is ours, `user_version` which format it has. A migration is never
//! changed once released; a new one is added at the end and only adds tables, columns or triggers, so that an older
//! fathom can still read a newer store.

use crate::{StoreError, views};
use rusqlite::{Connection, TransactionBehavior};
use std::path::Path;

/// Marks the file as a store of fathom: "fath" in ASCII.
pub(crate) const APPLICATION_ID: i64 = 0x6661_7468;

/// The SQL that leads from format `n` to `n + 1`, in order.
const MIGRATIONS: &[&str] = &[
    "
CREATE TABLE migrations (
    format          INTEGER PRIMARY KEY,
    applied_unix_ns INTEGER NOT NULL
) STRICT;
CREATE TABLE runs (
    id                 TEXT PRIMARY KEY NOT NULL CHECK (length(id) = 12),
    kind               TEXT NOT NULL,
    label              TEXT,
    command            TEXT NOT NULL,
    target             TEXT NOT NULL,
    started_unix_ns    INTEGER NOT NULL,
    host               TEXT NOT NULL,
    fathom_version     TEXT NOT NULL,
    writer_pid         INTEGER NOT NULL,
    writer_start_ticks INTEGER NOT NULL,
    writer_boot_id     TEXT NOT NULL,
    state              TEXT NOT NULL
        CHECK (state IN ('running', 'complete', 'interrupted', 'failed')),
    finished_unix_ns   INTEGER,
    verdict            TEXT,
    findings           TEXT NOT NULL DEFAULT '[]',
    trial_count        INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX runs_by_start ON runs (started_unix_ns);
CREATE TABLE trials (
    run_id          TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    trial_index     INTEGER NOT NULL,
    label           TEXT NOT NULL,
    started_unix_ns INTEGER NOT NULL,
    record          TEXT NOT NULL,
    record_fnv1a    INTEGER NOT NULL,
    PRIMARY KEY (run_id, trial_index)
) STRICT;
CREATE TRIGGER trials_never_change BEFORE UPDATE ON trials
BEGIN
    SELECT RAISE(ABORT, 'records never change');
END;
",
    "
CREATE TABLE plans (
    run_id TEXT PRIMARY KEY NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    name   TEXT NOT NULL,
    plan   TEXT NOT NULL
) STRICT;
CREATE TRIGGER plans_never_change BEFORE UPDATE ON plans
BEGIN
    SELECT RAISE(ABORT, 'the plan of a run never changes');
END;
",
    views::FORMAT_3,
    views::FORMAT_4,
];

/// The format that this program writes.
pub const FORMAT: i64 = MIGRATIONS.len() as i64;

/// What a file turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing in it yet.
    Empty,
    /// A store of the given format.
    Store(i64),
}

/// Looks at a database without changing it; to be called inside a transaction.
pub(crate) fn inspect(connection: &Connection, path: &Path) -> Result<Found, StoreError> {
    let number = |sql: &str| {
        connection
            .query_row(sql, (), |row| row.get::<_, i64>(0))
            .map_err(|e| StoreError::of(path, &e))
    };
    let application_id = number("PRAGMA application_id")?;
    let format = number("PRAGMA user_version")?;
    let objects = number("SELECT count(*) FROM sqlite_schema")?;
    match (application_id, format, objects) {
        (APPLICATION_ID, 1.., _) => Ok(Found::Store(format)),
        (0, 0, 0) => Ok(Found::Empty),
        _ => Err(StoreError::NotAStore {
            path: path.to_owned(),
            detail: "it is a database of another program".into(),
        }),
    }
}

/// Brings a database to [`FORMAT`] in one transaction; does nothing when it is there already.
pub(crate) fn migrate(
    connection: &mut Connection,
    path: &Path,
    now_unix_ns: i64,
) -> Result<(), StoreError> {
    let error = |e: rusqlite::Error| StoreError::of(path, &e);
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(error)?;
    // Another process may have been faster between the look and the lock.
    let from = match inspect(&transaction, path)? {
        Found::Empty => 0,
        Found::Store(format) => format,
    };
    for format in from..FORMAT {
        transaction.execute_batch(MIGRATIONS[format as usize]).map_err(error)?;
        transaction
            .execute("INSERT INTO migrations VALUES (?1, ?2)", (format + 1, now_unix_ns))
            .map_err(error)?;
    }
    if from < FORMAT {
        transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(error)?;
        transaction.pragma_update(None, "user_version", FORMAT).map_err(error)?;
    }
    transaction.commit().map_err(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn the_schema_as_it_is() {
        let mut connection = Connection::open_in_memory().expect("memory");
        migrate(&mut connection, "memory".as_ref(), 7).expect("migrates");
        migrate(&mut connection, "memory".as_ref(), 8).expect("does nothing");
        let mut statement = connection
            .prepare("SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema WHERE type <> 'view'")
            .expect("schema");
        let rows = statement
            .query_map((), |row| {
                let sql: String = row.get(3)?;
                let flat = sql.split_whitespace().collect::<Vec<_>>().join(" ");
                Ok(format!("{} {}: {flat}\n", row.get::<_, String>(0)?, row.get::<_, String>(1)?))
            })
            .expect("rows");
        let text: String = rows.map(|row| row.expect("row")).collect();
        expect![[r#"
            table migrations: CREATE TABLE migrations ( format INTEGER PRIMARY KEY, applied_unix_ns INTEGER NOT NULL ) STRICT
            table runs: CREATE TABLE runs ( id TEXT PRIMARY KEY NOT NULL CHECK (length(id) = 12), kind TEXT NOT NULL, label TEXT, command TEXT NOT NULL, target TEXT NOT NULL, started_unix_ns INTEGER NOT NULL, host TEXT NOT NULL, fathom_version TEXT NOT NULL, writer_pid INTEGER NOT NULL, writer_start_ticks INTEGER NOT NULL, writer_boot_id TEXT NOT NULL, state TEXT NOT NULL CHECK (state IN ('running', 'complete', 'interrupted', 'failed')), finished_unix_ns INTEGER, verdict TEXT, findings TEXT NOT NULL DEFAULT '[]', trial_count INTEGER NOT NULL DEFAULT 0 ) STRICT
            index sqlite_autoindex_runs_1: 
            index runs_by_start: CREATE INDEX runs_by_start ON runs (started_unix_ns)
            table trials: CREATE TABLE trials ( run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE, trial_index INTEGER NOT NULL, label TEXT NOT NULL, started_unix_ns INTEGER NOT NULL, record TEXT NOT NULL, record_fnv1a INTEGER NOT NULL, PRIMARY KEY (run_id, trial_index) ) STRICT
            index sqlite_autoindex_trials_1: 
            trigger trials_never_change: CREATE TRIGGER trials_never_change BEFORE UPDATE ON trials BEGIN SELECT RAISE(ABORT, 'records never change'); END
            table plans: CREATE TABLE plans ( run_id TEXT PRIMARY KEY NOT NULL REFERENCES runs (id) ON DELETE CASCADE, name TEXT NOT NULL, plan TEXT NOT NULL ) STRICT
            index sqlite_autoindex_plans_1: 
            trigger plans_never_change: CREATE TRIGGER plans_never_change BEFORE UPDATE ON plans BEGIN SELECT RAISE(ABORT, 'the plan of a run never changes'); END
            table imports: CREATE TABLE imports ( run_id TEXT PRIMARY KEY NOT NULL REFERENCES runs (id) ON DELETE CASCADE, original_id TEXT NOT NULL, source TEXT NOT NULL, imported_unix_ns INTEGER NOT NULL ) STRICT
            index sqlite_autoindex_imports_1: 
        "#]]
        .assert_eq(&text);
        let applied: Vec<(i64, i64)> = connection
            .prepare("SELECT format, applied_unix_ns FROM migrations")
            .and_then(|mut s| s.query_map((), |r| Ok((r.get(0)?, r.get(1)?)))?.collect())
            .expect("migrations");
        assert_eq!(applied, [(1, 7), (2, 7), (3, 7), (4, 7)]);
        assert_eq!(inspect(&connection, "x".as_ref()).ok(), Some(Found::Store(FORMAT)));
    }
}
