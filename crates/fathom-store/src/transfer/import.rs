//! Runs of another store come into this one: what is there already stays as it is, and is told.

use super::rows::{RunCopy, RunRow, TrialRow, hex};
use crate::{Store, StoreError, checksum};
use fathom_base::id::{ID_CHARS, new_id};
use fathom_base::json;
use fathom_base::prng::Prng;
use fathom_model::finding::Finding;
use fathom_model::host::HostFacts;
use fathom_model::plan::{PLAN_VERSION, Plan};
use fathom_model::record::{RECORD_VERSION, Record, RunKind};
use rusqlite::Transaction;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IntoDeserializer, value::Error as WordError};
use serde_json::Value;
use thiserror::Error;

/// What became of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Imported {
    /// It is new here.
    New,
    /// It is here already, with all its trials: nothing was written.
    Present {
        /// Its label here, where that is another one than in what was imported.
        label_here: Option<String>,
    },
    /// It was here with fewer trials; so many were added.
    Continued {
        /// Trials added.
        added: u32,
    },
    /// It was here with all its trials, but as one that still ran: its end was added.
    Ended,
    /// Another run has its identifier here, so it got this one. The same run gets the same identifier again.
    Renamed {
        /// The identifier here.
        id: String,
        /// What became of it under that one.
        outcome: Box<Imported>,
    },
}

/// Why a run could not be imported.
#[derive(Debug, Error)]
pub enum ImportError {
    /// The store that it should go to.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The run itself: nothing of it was stored.
    #[error("run {run}: {reason}")]
    Run {
        /// Its identifier.
        run: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Where it comes from.
    #[error("{0}")]
    Source(String),
}

/// Gives the trials of a run one by one, in their order, and none after the last.
pub type Trials<'a> = dyn FnMut() -> Result<Option<TrialRow>, ImportError> + 'a;

/// What is known of an identifier in this store.
enum Here {
    Nothing,
    /// The same run with so many of the trials.
    Same {
        trials: usize,
        label: Option<String>,
        /// The copy comes from the same process, when that had ended; here it has not.
        lacks_end: bool,
    },
    Other,
}

impl Store {
    /// Takes a run over with all its trials, in one transaction.
    ///
    /// # Errors
    /// [`ImportError`]; nothing of the run is stored then.
    pub fn import_run(
        &mut self,
        copy: &RunCopy,
        trials: &mut Trials<'_>,
        source: &str,
        now_unix_ns: i64,
    ) -> Result<Imported, ImportError> {
        check(copy)?;
        let id = copy.run.id.clone();
        match self.import_as(&id, copy, trials, (source, now_unix_ns))? {
            Some(done) => Ok(done),
            None => self.rename(copy, trials, (source, now_unix_ns)),
        }
    }

    /// As [`Self::import_run`], under that identifier; none when another run has it here.
    fn import_as(
        &mut self,
        id: &str,
        copy: &RunCopy,
        trials: &mut Trials<'_>,
        from: (&str, i64),
    ) -> Result<Option<Imported>, ImportError> {
        let (here, label, lacks_end) = match self.here(id, copy)? {
            Here::Nothing => {
                self.take_over(id, copy, 0, trials, from)?;
                return Ok(Some(Imported::New));
            }
            Here::Same { trials, label, lacks_end } => (trials, label, lacks_end),
            Here::Other => return Ok(None),
        };
        let all = copy.trial_checksums.len();
        if here > all || (here == all && !lacks_end) {
            pass_over(copy, trials)?;
            let label_here = label.filter(|label| Some(label) != copy.run.label.as_ref());
            return Ok(Some(Imported::Present { label_here }));
        }
        let copy = RunCopy { run: RunRow { label, ..copy.run.clone() }, ..copy.clone() };
        self.take_over(id, &copy, here, trials, from)?;
        let added = (all - here) as u32;
        Ok(Some(if added == 0 { Imported::Ended } else { Imported::Continued { added } }))
    }

    /// Another run has the identifier: the new one is made of what the run is, so that a second import finds it again.
    fn rename(
        &mut self,
        copy: &RunCopy,
        trials: &mut Trials<'_>,
        from: (&str, i64),
    ) -> Result<Imported, ImportError> {
        let run = &copy.run;
        let what = [&run.id, &run.command, &run.target, &run.started_unix_ns.to_string()];
        let seed = checksum::of(&what.map(String::as_str).join("\n")).cast_unsigned();
        let mut random = Prng::new(seed, 9);
        loop {
            let id = new_id(&mut random);
            if let Some(done) = self.import_as(&id, copy, trials, from)? {
                return Ok(Imported::Renamed { id, outcome: Box::new(done) });
            }
        }
    }

    fn here(&self, id: &str, copy: &RunCopy) -> Result<Here, StoreError> {
        let here = match self.copy_run(id) {
            Ok(here) => here,
            Err(StoreError::NotFound { .. }) => return Ok(Here::Nothing),
            Err(error) => return Err(error),
        };
        let head = |run: &RunRow| {
            let host: Value = serde_json::from_str(run.host.get()).unwrap_or_default();
            let RunRow { kind, command, target, started_unix_ns, fathom_version, .. } = run.clone();
            (kind, command, target, started_unix_ns, fathom_version, host)
        };
        let both = here.trial_checksums.iter().zip(&copy.trial_checksums);
        let is_same = head(&here.run) == head(&copy.run) && both.clone().all(|(a, b)| a == b);
        Ok(if is_same {
            let lacks_end = here.run.finished_unix_ns.is_none()
                && copy.run.finished_unix_ns.is_some()
                && here.run.writer == copy.run.writer;
            Here::Same { trials: here.trial_checksums.len(), label: here.run.label, lacks_end }
        } else {
            Here::Other
        })
    }

    /// Writes the trials from `first` on, and the run as it is.
    fn take_over(
        &mut self,
        id: &str,
        copy: &RunCopy,
        first: usize,
        trials: &mut Trials<'_>,
        (source, now_unix_ns): (&str, i64),
    ) -> Result<(), ImportError> {
        let path = self.path.clone();
        let sql = |e: rusqlite::Error| StoreError::of(&path, &e);
        let transaction = self.begin_write()?;
        put_run(&transaction, id, copy).map_err(sql)?;
        let mut count = 0;
        while let Some(trial) = trials()? {
            let text = checked(copy, &trial, count)?;
            if count >= first {
                put_trial(&transaction, id, &trial, &text).map_err(sql)?;
            }
            count += 1;
        }
        is_whole(copy, count)?;
        let origin =
            "INSERT OR REPLACE INTO imports (run_id, original_id, source, imported_unix_ns)
                      VALUES (?1, ?2, ?3, ?4)";
        transaction.execute(origin, (id, &copy.run.id, source, now_unix_ns)).map_err(sql)?;
        transaction.commit().map_err(sql)?;
        Ok(())
    }
}

fn put_run(transaction: &Transaction<'_>, id: &str, copy: &RunCopy) -> rusqlite::Result<()> {
    let run = &copy.run;
    let writer = &run.writer;
    transaction.execute(
        "INSERT INTO runs (id, kind, label, command, target, started_unix_ns, host, fathom_version, writer_pid,
             writer_start_ticks, writer_boot_id, state)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 'running') ON CONFLICT (id) DO NOTHING",
        (
            id,
            &run.kind,
            &run.label,
            &run.command,
            &run.target,
            run.started_unix_ns,
            run.host.get(),
            &run.fathom_version,
            writer.pid,
            writer.start_ticks,
            &writer.boot_id,
        ),
    )?;
    transaction.execute(
        "UPDATE runs SET state = ?2, verdict = ?3, findings = ?4, finished_unix_ns = ?5, trial_count = ?6 WHERE id = ?1",
        (
            id,
            &run.state,
            &run.verdict,
            run.findings.get(),
            run.finished_unix_ns,
            copy.trial_checksums.len() as i64,
        ),
    )?;
    if let Some(plan) = &copy.plan {
        transaction.execute(
            "INSERT INTO plans (run_id, name, plan) VALUES (?1, ?2, ?3) ON CONFLICT (run_id) DO NOTHING",
            (id, &plan.name, plan.plan.get()),
        )?;
    }
    Ok(())
}

fn put_trial(
    transaction: &Transaction<'_>,
    id: &str,
    trial: &TrialRow,
    text: &str,
) -> rusqlite::Result<()> {
    let sql =
        "INSERT INTO trials (run_id, trial_index, label, started_unix_ns, record, record_fnv1a)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let sum = checksum::of(text);
    let row = (id, trial.index, &trial.label, trial.started_unix_ns, text, sum);
    transaction.execute(sql, row).map(drop)
}

fn wrong(copy: &RunCopy, reason: impl Into<String>) -> ImportError {
    ImportError::Run { run: copy.run.id.clone(), reason: reason.into() }
}

/// The head of a run makes sense to this fathom.
fn check(copy: &RunCopy) -> Result<(), ImportError> {
    let run = &copy.run;
    let is_id = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if run.id.len() != ID_CHARS || !run.id.chars().all(is_id) {
        return Err(wrong(
            copy,
            format!("is no identifier of a run ({ID_CHARS} small letters and digits)"),
        ));
    }
    let known = |word: &str| -> Result<RunKind, WordError> {
        RunKind::deserialize(word.into_deserializer())
    };
    if known(&run.kind).is_err() {
        let reason =
            format!("is of kind '{}', which this fathom does not know; use a newer one", run.kind);
        return Err(wrong(copy, reason));
    }
    if !["running", "complete", "interrupted", "failed"].contains(&run.state.as_str())
        || run.verdict.as_deref().is_some_and(|v| !["trusted", "doubtful", "void"].contains(&v))
    {
        return Err(wrong(
            copy,
            format!("'{}' is no state of a run that this fathom knows", run.state),
        ));
    }
    readable::<HostFacts>(copy, "host", run.host.get())?;
    readable::<Vec<Finding>>(copy, "findings", run.findings.get())?;
    if let Some(plan) = &copy.plan {
        newer(copy, "plan", plan.plan.get(), PLAN_VERSION)?;
        readable::<Plan>(copy, "plan", plan.plan.get())?;
    }
    Ok(())
}

fn readable<T: DeserializeOwned>(copy: &RunCopy, what: &str, text: &str) -> Result<T, ImportError> {
    json::from_str(text).map_err(|e| wrong(copy, format!("its {what} cannot be read: {e}")))
}

fn newer(copy: &RunCopy, what: &str, text: &str, known: u32) -> Result<(), ImportError> {
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let Version { version } = readable(copy, what, text)?;
    if version <= known {
        return Ok(());
    }
    let reason = format!(
        "its {what} was written by a newer fathom (version {version}, this one knows {known}); use that fathom"
    );
    Err(wrong(copy, reason))
}

/// The text of a trial's record as it was stored once: also when the JSON was formatted anew on the way.
fn checked(copy: &RunCopy, trial: &TrialRow, place: usize) -> Result<String, ImportError> {
    let what = format!("trial {place}");
    if trial.index as usize != place {
        return Err(wrong(
            copy,
            format!("has trial {} where trial {place} should be", trial.index),
        ));
    }
    let text = trial.record.get();
    newer(copy, &what, text, RECORD_VERSION)?;
    let record: Record = readable(copy, &what, text)?;
    let is_as_stored = |text: &str| {
        let sum = hex(checksum::of(text));
        sum == trial.checksum && copy.trial_checksums.get(place) == Some(&sum)
    };
    if is_as_stored(text) {
        return Ok(text.to_owned());
    }
    match serde_json::to_string(&record) {
        Ok(text) if is_as_stored(&text) => Ok(text),
        _ => Err(wrong(
            copy,
            format!("{what} is not what was exported: its checksum does not match"),
        )),
    }
}

fn is_whole(copy: &RunCopy, count: usize) -> Result<(), ImportError> {
    let expected = copy.trial_checksums.len();
    if count == expected {
        return Ok(());
    }
    Err(wrong(copy, format!("only {count} of its {expected} trials are there: it was cut off")))
}

/// Reads the trials of a run that is here already.
fn pass_over(copy: &RunCopy, trials: &mut Trials<'_>) -> Result<(), ImportError> {
    let mut count = 0;
    while trials()?.is_some() {
        count += 1;
    }
    is_whole(copy, count)
}
