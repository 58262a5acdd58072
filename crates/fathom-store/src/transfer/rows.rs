//! Runs as rows: the stored values themselves, with JSON that is not looked into.

use crate::{Store, StoreError};
use rusqlite::{OptionalExtension, Row};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A row of the table of runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunRow {
    /// Identifier, 12 characters.
    pub id: String,
    /// What kind of run.
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
    pub state: String,
    /// The judgement; none while it runs, or when it was killed.
    pub verdict: Option<String>,
    /// What led to it.
    pub findings: Box<RawValue>,
    /// The machine.
    pub host: Box<RawValue>,
    /// The process that made it.
    pub writer: WriterRow,
}

/// The process that made a run, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriterRow {
    /// Process id.
    pub pid: i64,
    /// Start time in clock ticks since boot, as a signed number.
    pub start_ticks: i64,
    /// Which boot the two belong to.
    pub boot_id: String,
}

/// The plan of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PlanRow {
    /// Its name.
    pub name: String,
    /// The plan.
    pub plan: Box<RawValue>,
}

/// A run without its trials.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunCopy {
    /// Its row.
    pub run: RunRow,
    /// Its plan, when it follows one.
    pub plan: Option<PlanRow>,
    /// The checksum of each trial's record, 16 hexadecimal digits, in the order of the trials.
    pub trial_checksums: Vec<String>,
}

/// A row of the table of trials.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TrialRow {
    /// Place in the run, from 0.
    pub index: u32,
    /// Row name inside the run.
    pub label: String,
    /// Start of the measured window, UTC, nanoseconds since 1970.
    pub started_unix_ns: i64,
    /// FNV-1a of the stored text, 16 hexadecimal digits.
    pub checksum: String,
    /// The record.
    pub record: Box<RawValue>,
}

/// A checksum as it stands in rows.
pub(super) fn hex(checksum: i64) -> String {
    format!("{:016x}", checksum.cast_unsigned())
}

fn raw(row: &Row<'_>, column: &str) -> rusqlite::Result<Box<RawValue>> {
    let text: String = row.get(column)?;
    RawValue::from_string(text).map_err(|e| {
        let kind = rusqlite::types::Type::Text;
        rusqlite::Error::FromSqlConversionFailure(0, kind, Box::new(e))
    })
}

impl Store {
    /// The format of a store that a newer fathom wrote; none for one that this fathom understands whole.
    #[must_use]
    pub fn newer_format(&self) -> Option<i64> {
        self.newer()
    }

    /// A run as it is stored, without its trials.
    ///
    /// # Errors
    /// Everything about reading; [`StoreError::NotFound`]; [`StoreError::Newer`] for a store whose rows may have more to them.
    pub fn copy_run(&self, id: &str) -> Result<RunCopy, StoreError> {
        if let Some(format) = self.newer() {
            let known = crate::FORMAT;
            return Err(StoreError::Newer { path: self.path.clone(), format, known });
        }
        let error = |e: rusqlite::Error| StoreError::of(&self.path, &e);
        let sql = "SELECT id, kind, label, command, target, started_unix_ns, finished_unix_ns, fathom_version, state, verdict,
                       findings, host, writer_pid, writer_start_ticks, writer_boot_id FROM runs WHERE id = ?1";
        let found = self.connection.query_row(sql, [id], |row| {
            Ok(RunRow {
                id: row.get("id")?,
                kind: row.get("kind")?,
                label: row.get("label")?,
                command: row.get("command")?,
                target: row.get("target")?,
                started_unix_ns: row.get("started_unix_ns")?,
                finished_unix_ns: row.get("finished_unix_ns")?,
                fathom_version: row.get("fathom_version")?,
                state: row.get("state")?,
                verdict: row.get("verdict")?,
                findings: raw(row, "findings")?,
                host: raw(row, "host")?,
                writer: WriterRow {
                    pid: row.get("writer_pid")?,
                    start_ticks: row.get("writer_start_ticks")?,
                    boot_id: row.get("writer_boot_id")?,
                },
            })
        });
        let Some(run) = found.optional().map_err(error)? else { return Err(self.not_found(id)?) };
        let plan = match self.has_plans()? {
            true => self
                .connection
                .query_row("SELECT name, plan FROM plans WHERE run_id = ?1", [id], |row| {
                    Ok(PlanRow { name: row.get("name")?, plan: raw(row, "plan")? })
                })
                .optional()
                .map_err(error)?,
            false => None,
        };
        let sql = "SELECT record_fnv1a FROM trials WHERE run_id = ?1 ORDER BY trial_index";
        let trial_checksums = self
            .connection
            .prepare(sql)
            .and_then(|mut statement| {
                statement.query_map([id], |row| row.get(0).map(hex))?.collect()
            })
            .map_err(error)?;
        Ok(RunCopy { run, plan, trial_checksums })
    }

    /// One trial of a run as it is stored; none when the run has no such trial.
    ///
    /// # Errors
    /// Everything about reading; [`StoreError::Corrupt`] for a record that is not what was written.
    pub fn copy_trial(&self, run_id: &str, index: u32) -> Result<Option<TrialRow>, StoreError> {
        let sql = "SELECT label, started_unix_ns, record_fnv1a, record FROM trials
                   WHERE run_id = ?1 AND trial_index = ?2";
        let found = self.connection.query_row(sql, (run_id, index), |row| {
            Ok(TrialRow {
                index,
                label: row.get("label")?,
                started_unix_ns: row.get("started_unix_ns")?,
                checksum: row.get("record_fnv1a").map(hex)?,
                record: raw(row, "record")?,
            })
        });
        let found = found.optional().map_err(|e| StoreError::of(&self.path, &e))?;
        match found {
            Some(trial) if hex(crate::checksum::of(trial.record.get())) != trial.checksum => {
                Err(StoreError::Corrupt {
                    path: self.path.clone(),
                    detail: format!("trial {index} of run {run_id}: the checksum does not match"),
                })
            }
            found => Ok(found),
        }
    }
}
