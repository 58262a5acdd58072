//! Everything that reads from the store.

use crate::{Store, StoreError, Writer, checksum};
use fathom_base::json;
use fathom_model::finding::{Finding, Verdict};
use fathom_model::record::{RECORD_VERSION, Record, RunHead, RunKind};
use rusqlite::{OptionalExtension, Row};
use serde::de::{DeserializeOwned, value::StrDeserializer};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// How far a run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Not finished: its writer is at work, or was killed.
    Running,
    /// As planned.
    Complete,
    /// Ended by a signal.
    Interrupted,
    /// Ended by an error.
    Failed,
}

impl RunState {
    /// The word that people see. A run that nobody is working on any more is `partial`.
    #[must_use]
    pub fn word(self, writer_is_alive: bool) -> &'static str {
        match self {
            Self::Running if writer_is_alive => "running",
            Self::Running => "partial",
            Self::Complete => "complete",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
        }
    }
}

/// Which runs to list; the default is all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only those with this label.
    pub label: Option<String>,
    /// Only those on this target or below it, as it was given.
    pub target: Option<String>,
    /// Only those that began at this time (UTC, nanoseconds since 1970) or later.
    pub since_unix_ns: Option<i64>,
    /// At most so many, the newest.
    pub limit: Option<u32>,
}

/// One line of a list of runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunSummary {
    /// Identifier, 12 characters.
    pub id: String,
    /// What kind of run, as stored; a newer fathom may know more kinds.
    pub kind: String,
    /// The user's own word for it.
    pub label: Option<String>,
    /// The command line that repeats it.
    pub command: String,
    /// The target as given.
    pub target: String,
    /// Start, UTC, nanoseconds since 1970.
    pub started_unix_ns: i64,
    /// End, UTC, nanoseconds since 1970; none while it runs, or when it was killed.
    pub finished_unix_ns: Option<i64>,
    /// Version of the fathom that made it.
    pub fathom_version: String,
    /// How far it has come.
    pub state: RunState,
    /// The judgement; none while it runs, or when it was killed.
    pub verdict: Option<Verdict>,
    /// Records stored.
    pub trials: u32,
    /// Who makes it.
    #[serde(skip)]
    pub writer: Writer,
}

/// A run with all its records.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRun {
    /// What its records have in common.
    pub head: RunHead,
    /// How far it has come.
    pub state: RunState,
    /// End, UTC, nanoseconds since 1970.
    pub finished_unix_ns: Option<i64>,
    /// The judgement.
    pub verdict: Option<Verdict>,
    /// What led to it.
    pub findings: Vec<Finding>,
    /// The records, in the order of the trials.
    pub records: Vec<Record>,
    /// Who made it.
    pub writer: Writer,
}

/// The stored word of a plain enum.
pub(crate) fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        // Plain enums have no other form.
        other => format!("{other:?}"),
    }
}

fn of_word<T: DeserializeOwned>(word: &str) -> Result<T, rusqlite::Error> {
    T::deserialize(StrDeserializer::<serde::de::value::Error>::new(word)).map_err(conversion)
}

fn of_json<T: DeserializeOwned>(text: &str) -> Result<T, rusqlite::Error> {
    json::from_str(text).map_err(conversion)
}

fn conversion(error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    let kind = rusqlite::types::Type::Text;
    rusqlite::Error::FromSqlConversionFailure(0, kind, Box::new(error))
}

const RUN_COLUMNS: &str = "id, kind, label, command, target, started_unix_ns, finished_unix_ns, \
    fathom_version, state, verdict, writer_pid, writer_start_ticks, writer_boot_id, trial_count";

fn summary(row: &Row<'_>) -> rusqlite::Result<RunSummary> {
    let verdict: Option<String> = row.get("verdict")?;
    Ok(RunSummary {
        id: row.get("id")?,
        kind: row.get("kind")?,
        label: row.get("label")?,
        command: row.get("command")?,
        target: row.get("target")?,
        started_unix_ns: row.get("started_unix_ns")?,
        finished_unix_ns: row.get("finished_unix_ns")?,
        fathom_version: row.get("fathom_version")?,
        state: of_word(&row.get::<_, String>("state")?)?,
        verdict: verdict.as_deref().map(of_word).transpose()?,
        trials: row.get("trial_count")?,
        writer: Writer {
            pid: row.get("writer_pid")?,
            start_ticks: row.get::<_, i64>("writer_start_ticks")?.cast_unsigned(),
            boot_id: row.get("writer_boot_id")?,
        },
    })
}

/// Only the version, so that a newer record is recognised whatever else has changed in it.
#[derive(Deserialize)]
struct RecordVersion {
    version: u32,
}

impl Store {
    /// The runs that match, newest first.
    ///
    /// # Errors
    /// Everything about reading.
    pub fn list(&self, filter: &Filter) -> Result<Vec<RunSummary>, StoreError> {
        let sql = format!(
            "SELECT {RUN_COLUMNS} FROM runs
             WHERE (?1 IS NULL OR label = ?1)
               AND (?2 IS NULL OR rtrim(target, '/') = ?2
                    OR substr(target, 1, length(?2) + 1) = ?2 || '/')
               AND (?3 IS NULL OR started_unix_ns >= ?3)
             ORDER BY started_unix_ns DESC, rowid DESC LIMIT ?4"
        );
        let limit = filter.limit.map_or(-1, i64::from);
        let target = filter.target.as_deref().map(|target| target.trim_end_matches('/'));
        self.connection
            .prepare(&sql)
            .and_then(|mut statement| {
                let parameters = (&filter.label, target, filter.since_unix_ns, limit);
                statement.query_map(parameters, summary)?.collect()
            })
            .map_err(|e| StoreError::of(&self.path, &e))
    }

    /// A run with all its records. `id` is a whole identifier, see [`Store::resolve`].
    ///
    /// # Errors
    /// Everything about reading; [`StoreError::NotFound`]; [`StoreError::NewerRecord`] and
    /// [`StoreError::NewerKind`] for what only a newer fathom understands; [`StoreError::Corrupt`] for a
    /// record that is not what was written.
    pub fn load(&self, id: &str) -> Result<StoredRun, StoreError> {
        let error = |e: rusqlite::Error| StoreError::of(&self.path, &e);
        // One transaction: a run that is being written is seen at one moment.
        let transaction = self.connection.unchecked_transaction().map_err(error)?;
        let found = transaction
            .query_row(
                &format!("SELECT {RUN_COLUMNS}, host, findings FROM runs WHERE id = ?1"),
                [id],
                |row| {
                    let host = of_json(&row.get::<_, String>("host")?)?;
                    let findings = of_json::<Vec<Finding>>(&row.get::<_, String>("findings")?)?;
                    Ok((summary(row)?, host, findings))
                },
            )
            .optional()
            .map_err(error)?;
        let Some((run, host, findings)) = found else { return Err(self.not_found(id)?) };
        let Ok(kind) = of_word::<RunKind>(&run.kind) else {
            return Err(StoreError::NewerKind { run: run.id, kind: run.kind });
        };
        let records = self.records(id, run.trials)?;
        Ok(StoredRun {
            head: RunHead {
                id: run.id,
                kind,
                label: run.label,
                command: run.command,
                target: run.target,
                started_unix_ns: run.started_unix_ns,
                host,
                fathom_version: run.fathom_version,
            },
            state: run.state,
            finished_unix_ns: run.finished_unix_ns,
            verdict: run.verdict,
            findings,
            records,
            writer: run.writer,
        })
    }

    fn records(&self, run_id: &str, expected: u32) -> Result<Vec<Record>, StoreError> {
        let error = |e: rusqlite::Error| StoreError::of(&self.path, &e);
        let mut statement = self
            .connection
            .prepare(
                "SELECT trial_index, record, record_fnv1a FROM trials
                 WHERE run_id = ?1 ORDER BY trial_index",
            )
            .map_err(error)?;
        let rows = statement
            .query_map([run_id], |row| {
                Ok((row.get::<_, u32>(0)?, row.get::<_, String>(1)?, row.get::<_, i64>(2)?))
            })
            .map_err(error)?;
        let (mut records, mut batch, mut batch_bytes) = (Vec::new(), Vec::new(), 0);
        for row in rows {
            let row = row.map_err(error)?;
            batch_bytes += row.1.len();
            batch.push(row);
            if batch_bytes >= BATCH_BYTES {
                records.extend(self.side_by_side(run_id, &batch)?);
                (batch, batch_bytes) = (Vec::new(), 0);
            }
        }
        records.extend(self.side_by_side(run_id, &batch)?);
        if records.len() == expected as usize {
            return Ok(records);
        }
        Err(StoreError::Corrupt {
            path: self.path.clone(),
            detail: format!("run {run_id} has {} of its {expected} trials", records.len()),
        })
    }

    /// Reads some rows on all processors: a week of watching is half a gigabyte of text.
    fn side_by_side(&self, run_id: &str, batch: &[StoredRow]) -> Result<Vec<Record>, StoreError> {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let each = batch.len().div_ceil(threads).max(1);
        let path = self.path.as_path();
        let read = |rows: &[StoredRow]| -> Result<Vec<Record>, StoreError> {
            rows.iter().map(|row| record(path, run_id, row)).collect()
        };
        if batch.len() <= each {
            return read(batch);
        }
        std::thread::scope(|scope| {
            let parts: Vec<_> =
                batch.chunks(each).map(|rows| scope.spawn(move || read(rows))).collect();
            let mut records = Vec::with_capacity(batch.len());
            for part in parts {
                let read = part.join();
                records.extend(read.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
            }
            Ok(records)
        })
    }
}

/// A row of the table of trials: index, text, checksum.
type StoredRow = (u32, String, i64);

/// Text that is read at once, on all processors.
const BATCH_BYTES: usize = 4 << 20;

fn record(path: &Path, run_id: &str, row: &StoredRow) -> Result<Record, StoreError> {
    let (index, text, stored_checksum) = row;
    let damaged = |reason: String| StoreError::Corrupt {
        path: path.to_owned(),
        detail: format!("trial {index} of run {run_id}: {reason}"),
    };
    if checksum::of(text) != *stored_checksum {
        return Err(damaged("the checksum does not match".into()));
    }
    // Read once: a record of a week is tens of megabytes. Its version alone is only looked for in what does not read.
    let found = fathom_model::read::record(text);
    let version = match &found {
        Ok(record) => record.version,
        Err(_) => json::from_str(text)
            .map(|RecordVersion { version }| version)
            .map_err(|e| damaged(e.to_string()))?,
    };
    if version > RECORD_VERSION {
        return Err(StoreError::NewerRecord {
            run: run_id.to_owned(),
            index: *index,
            version,
            known: RECORD_VERSION,
        });
    }
    found.map_err(|e| damaged(e.to_string()))
}
