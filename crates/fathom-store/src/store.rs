//! Opening the store and everything that writes to it.

use crate::schema::{self, FORMAT, Found};
use crate::{StoreError, checksum, read};
use fathom_model::finding::{Finding, Verdict};
use fathom_model::record::{Ending, Record, RunHead};
use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction, TransactionBehavior,
};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long to wait for another process's lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// How often to look at a header that makes no sense.
const HEADER_LOOKS_MAX: u32 = 3;

/// The process that makes a run. A run that is still "running" when its writer is gone was killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writer {
    /// Process id.
    pub pid: u32,
    /// Start time of the process in clock ticks since boot, field 22 of `/proc/PID/stat`.
    pub start_ticks: u64,
    /// Which boot the two belong to.
    pub boot_id: String,
}

/// What may be done with an open store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Write,
    Read,
    Newer(i64),
}

/// An open store.
#[derive(Debug)]
pub struct Store {
    pub(crate) connection: Connection,
    pub(crate) path: PathBuf,
    access: Access,
}

impl Store {
    /// Opens the store for writing and makes it, with its directories (mode 0700), when it is not there.
    ///
    /// A store of a newer format opens too, but every write to it fails with [`StoreError::Newer`].
    ///
    /// # Errors
    /// Any of [`StoreError`] except those about runs; a file that is no store is left as it is.
    pub fn open(path: &Path, now_unix_ns: i64) -> Result<Self, StoreError> {
        let path = &absolute(path)?;
        if let Some(directory) = path.parent() {
            let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
            made.map_err(|source| StoreError::Directory { path: path.clone(), source })?;
        }
        check_header(path)?;
        let is_new = !path.exists();
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut connection = connect(path, flags)?;
        let found = inspect(&connection, path)?;
        let access = match found {
            Found::Store(format) if format > FORMAT => Access::Newer(format),
            Found::Store(_) | Found::Empty => Access::Write,
        };
        if access == Access::Write {
            let error = |e: rusqlite::Error| StoreError::of(path, &e);
            if connection.is_readonly("main").map_err(error)? {
                let detail = "this user cannot write to the file".into();
                return Err(StoreError::ReadOnly { path: path.clone(), detail });
            }
            // Beside the file stands a journal only while a transaction runs, and a commit is on stable
            // storage, its directory entry included, when it returns.
            connection.pragma_update(None, "journal_mode", "DELETE").map_err(error)?;
            connection.pragma_update(None, "synchronous", "EXTRA").map_err(error)?;
            if found != Found::Store(FORMAT) {
                let made = schema::migrate(&mut connection, path, now_unix_ns);
                if made.is_err() && is_new {
                    remove_if_empty(&connection, path);
                }
                made?;
            }
        }
        Self::opened(connection, path.clone(), access)
    }

    /// Opens an existing store for reading. It may be of a newer format.
    ///
    /// # Errors
    /// [`StoreError::Missing`], [`StoreError::NotAStore`], [`StoreError::Corrupt`],
    /// [`StoreError::Permission`], [`StoreError::Locked`].
    pub fn open_read_only(path: &Path) -> Result<Self, StoreError> {
        let path = absolute(path)?;
        if path.symlink_metadata().is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound) {
            return Err(StoreError::Missing { path });
        }
        check_header(&path)?;
        // Not SQLITE_OPEN_READ_ONLY: that could not roll back what a killed writer left. SQLite itself falls
        // back to reading where it may not write.
        let connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        match inspect(&connection, &path)? {
            Found::Empty => Err(StoreError::Missing { path }),
            Found::Store(format) if format > FORMAT => {
                Self::opened(connection, path, Access::Newer(format))
            }
            Found::Store(_) => Self::opened(connection, path, Access::Read),
        }
    }

    fn opened(connection: Connection, path: PathBuf, access: Access) -> Result<Self, StoreError> {
        if access != Access::Write {
            connection
                .pragma_update(None, "query_only", true)
                .map_err(|e| StoreError::of(&path, &e))?;
        }
        Ok(Self { connection, path, access })
    }

    /// Finds out whether the file is whole and whether something could be stored in it now. What that takes is undone.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`], [`StoreError::Newer`], and everything about writing.
    pub fn check(&mut self) -> Result<(), StoreError> {
        let error = |e: rusqlite::Error| StoreError::of(&self.path, &e);
        let found: String = self
            .connection
            .query_row("PRAGMA quick_check(1)", (), |row| row.get(0))
            .map_err(error)?;
        if found != "ok" {
            // Behind a line that names the database.
            let detail = found.lines().last().unwrap_or_default().to_owned();
            return Err(StoreError::Corrupt { path: self.path.clone(), detail });
        }
        if let Access::Newer(format) = self.access {
            return Err(StoreError::Newer { path: self.path.clone(), format, known: FORMAT });
        }
        let restrict = |on: bool| self.connection.pragma_update(None, "query_only", on);
        restrict(false).map_err(error)?;
        let tried = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
            .and_then(|transaction| {
                // Its journal is written at once, as that of a result would be.
                transaction.execute_batch("CREATE TABLE probe (x INTEGER)")?;
                transaction.rollback()
            });
        restrict(self.access == Access::Read).map_err(error)?;
        tried.map_err(error)
    }

    /// The format of a store that a newer fathom wrote.
    pub(crate) fn newer(&self) -> Option<i64> {
        match self.access {
            Access::Newer(format) => Some(format),
            Access::Read | Access::Write => None,
        }
    }

    /// The store's file, as an absolute path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the head of a run; its state is "running" until [`Store::finish_run`].
    ///
    /// # Errors
    /// Everything about writing; call it before measuring, so that a store that cannot be written is known.
    pub fn begin_run(&mut self, head: &RunHead, writer: &Writer) -> Result<(), StoreError> {
        let host = self.json(&head.host)?;
        self.write(|transaction| {
            transaction.execute(
                "INSERT INTO runs (id, kind, label, command, target, started_unix_ns, host,
                     fathom_version, writer_pid, writer_start_ticks, writer_boot_id, state)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 'running')",
                (
                    &head.id,
                    read::word(&head.kind),
                    &head.label,
                    &head.command,
                    &head.target,
                    head.started_unix_ns,
                    host,
                    &head.fathom_version,
                    writer.pid,
                    writer.start_ticks.cast_signed(),
                    &writer.boot_id,
                ),
            )
        })
        .map(|_| ())
    }

    /// Adds the record of a finished trial in one transaction and returns its index in the run, from 0. When
    /// this returns, the record is on stable storage.
    ///
    /// # Errors
    /// Everything about writing; [`StoreError::NotFound`] when there is no such run; [`StoreError::Internal`]
    /// for a record that would not read back.
    pub fn add_trial(&mut self, run_id: &str, record: &Record) -> Result<u32, StoreError> {
        let text = self.json(record)?;
        // A figure that is not a number turns into null on the way; better to know now.
        fathom_model::read::record(&text).map_err(|e| StoreError::Internal {
            path: self.path.clone(),
            detail: format!("the record '{}' would not read back: {e}", record.label),
        })?;
        let index = self.write(|transaction| {
            // The count tells a reader whether all are there.
            let index: Option<u32> = transaction
                .query_row(
                    "UPDATE runs SET trial_count = trial_count + 1 WHERE id = ?1
                     RETURNING trial_count - 1",
                    [run_id],
                    |row| row.get(0),
                )
                .optional()?;
            let Some(index) = index else { return Ok(None) };
            transaction.execute(
                "INSERT INTO trials (run_id, trial_index, label, started_unix_ns, record, record_fnv1a)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                (run_id, index, &record.label, record.started_unix_ns, &text, checksum::of(&text)),
            )?;
            Ok(Some(index))
        })?;
        match index {
            Some(index) => Ok(index),
            None => Err(self.not_found(run_id)?),
        }
    }

    /// Writes how a run ended, and the judgement.
    ///
    /// # Errors
    /// Everything about writing; [`StoreError::NotFound`] when there is no such run.
    pub fn finish_run(
        &mut self,
        run_id: &str,
        ending: Ending,
        verdict: Verdict,
        findings: &[Finding],
        finished_unix_ns: i64,
    ) -> Result<(), StoreError> {
        let findings = self.json(&findings)?;
        self.change_run(
            run_id,
            "UPDATE runs SET state = ?2, verdict = ?3, findings = ?4, finished_unix_ns = ?5
             WHERE id = ?1",
            (run_id, read::word(&ending), read::word(&verdict), findings, finished_unix_ns),
        )
    }

    /// Sets or removes the user's own word for a run.
    ///
    /// # Errors
    /// Everything about writing; [`StoreError::NotFound`] when there is no such run.
    pub fn set_label(&mut self, run_id: &str, label: Option<&str>) -> Result<(), StoreError> {
        self.change_run(run_id, "UPDATE runs SET label = ?2 WHERE id = ?1", (run_id, label))
    }

    /// Removes a run with its records, for good.
    ///
    /// # Errors
    /// Everything about writing; [`StoreError::NotFound`] when there is no such run.
    pub fn remove(&mut self, run_id: &str) -> Result<(), StoreError> {
        self.change_run(run_id, "DELETE FROM runs WHERE id = ?1", [run_id])
    }

    pub(crate) fn change_run(
        &mut self,
        run_id: &str,
        sql: &str,
        parameters: impl rusqlite::Params,
    ) -> Result<(), StoreError> {
        match self.write(|transaction| transaction.execute(sql, parameters))? {
            0 => Err(self.not_found(run_id)?),
            _ => Ok(()),
        }
    }

    /// Runs `work` in one transaction, which is either on stable storage afterwards or did not happen.
    pub(crate) fn write<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let path = self.path.clone();
        let error = |e: rusqlite::Error| StoreError::of(&path, &e);
        let transaction = self.begin_write()?;
        let result = work(&transaction).map_err(error)?;
        transaction.commit().map_err(error)?;
        Ok(result)
    }

    /// Begins a transaction that writes; it is undone unless it is committed.
    pub(crate) fn begin_write(&mut self) -> Result<Transaction<'_>, StoreError> {
        match self.access {
            Access::Write => {}
            Access::Read => {
                return Err(StoreError::OpenedForReading { path: self.path.clone() });
            }
            Access::Newer(format) => {
                let path = self.path.clone();
                return Err(StoreError::Newer { path, format, known: FORMAT });
            }
        }
        // Immediate: waiting for a lock happens here, where it can be waited for, and not half-way.
        self.connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(|e| StoreError::of(&self.path, &e))
    }

    pub(crate) fn json(&self, value: &impl serde::Serialize) -> Result<String, StoreError> {
        serde_json::to_string(value).map_err(|e| StoreError::Internal {
            path: self.path.clone(),
            detail: format!("a value has no stored form: {e}"),
        })
    }
}

/// Takes back a new file that nothing could be written to, as on a full disk. Only under the lock that keeps all others
/// out: one of them may have made a store of it meanwhile.
fn remove_if_empty(connection: &Connection, path: &Path) {
    let is_empty = || std::fs::metadata(path).is_ok_and(|meta| meta.len() == 0);
    if connection.execute_batch("BEGIN EXCLUSIVE").is_ok() && is_empty() {
        // An empty file that stays does no harm; what went wrong before is the error to report.
        let file = path.canonicalize();
        file.and_then(std::fs::remove_file).ok();
    }
}

/// `:memory:` and the like are file names here, as every other.
fn absolute(path: &Path) -> Result<PathBuf, StoreError> {
    std::path::absolute(path)
        .map_err(|source| StoreError::Directory { path: path.to_owned(), source })
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    let error = |e: rusqlite::Error| StoreError::of(path, &e);
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(error)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(error)?;
    for (pragma, value) in [
        ("foreign_keys", "ON"),
        ("trusted_schema", "OFF"),
        ("cell_size_check", "ON"),
        // Temporary tables of sorting must not go to some other filesystem.
        ("temp_store", "MEMORY"),
    ] {
        connection.pragma_update(None, pragma, value).map_err(error)?;
    }
    Ok(connection)
}

/// Looks at a database as it is at one moment: another process may be making it.
fn inspect(connection: &Connection, path: &Path) -> Result<Found, StoreError> {
    let transaction = connection.unchecked_transaction().map_err(|e| StoreError::of(path, &e))?;
    schema::inspect(&transaction, path)
}

/// Refuses what is no store of ours before SQLite really opens it: that could already change a foreign database (a
/// checkpoint of its log), and a blank disk would pass for an empty file.
fn check_header(path: &Path) -> Result<(), StoreError> {
    let foreign = |detail: &str| {
        Err(StoreError::NotAStore { path: path.to_owned(), detail: detail.to_owned() })
    };
    match std::fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => return foreign("it is not a regular file"),
        Ok(metadata) if metadata.len() > 0 => {}
        // Empty; or it does not exist, or opening it will say why it cannot be looked at.
        _ => return Ok(()),
    }
    let mut journal = path.as_os_str().to_owned();
    journal.push("-journal");
    let mut result = Ok(());
    // More than once: a writer may have been half-way at the first look and have finished after it.
    for _ in 0..HEADER_LOOKS_MAX {
        result = match application_id(path) {
            Ok(schema::APPLICATION_ID) => return Ok(()),
            Ok(_) => return foreign("it is a database of another program"),
            // Half-way: the journal tells how to undo it, which happens when it is really opened.
            Err(_) if Path::new(&journal).exists() => return Ok(()),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
                foreign("it is no database")
            }
            Err(error) => Err(StoreError::of(path, &error)),
        };
    }
    result
}

/// What a database says whose it is. Immutable: neither locks nor looks for a log or journal. A plain read of the file
/// would do, but closing it would drop the locks that another connection of this process holds on it.
fn application_id(path: &Path) -> rusqlite::Result<i64> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(immutable_uri(path), flags)?.query_row(
        "PRAGMA application_id",
        (),
        |row| row.get(0),
    )
}

fn immutable_uri(path: &Path) -> String {
    let mut uri = "file:".to_owned();
    for &byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'/' {
            uri.push(char::from(byte));
        } else {
            uri += &format!("%{byte:02x}");
        }
    }
    uri + "?immutable=1"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_empty_file_that_nobody_works_on_is_taken_back() {
        let directory = tempfile::TempDir::new().expect("temporary directory");
        let path = directory.path().join("n.db");
        let open = || {
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
            let connection = connect(&path, flags).expect("opens");
            connection.busy_timeout(Duration::ZERO).expect("sets");
            connection
        };
        let (own, other) = (open(), open());
        other.execute_batch("BEGIN IMMEDIATE").expect("locks");
        remove_if_empty(&own, &path);
        assert!(path.exists(), "another process makes a store of it");
        other.execute_batch("CREATE TABLE t (x); COMMIT").expect("makes");
        remove_if_empty(&own, &path);
        assert!(path.exists(), "it has content");
        drop((own, other));
        std::fs::remove_file(&path).expect("removes");
        remove_if_empty(&open(), &path);
        assert!(!path.exists());
    }
}
