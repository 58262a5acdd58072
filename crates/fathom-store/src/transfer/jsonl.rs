//! Runs as lines of JSON: a line for the export, one for each run, one for each trial, and one that says it is whole.
//!
//! Several such files one after the other are one again.

use super::import::{ImportError, Imported};
use super::rows::{RunCopy, TrialRow, hex};
use crate::{FORMAT, Store, StoreError, checksum};
use fathom_base::json;
use fathom_model::record::Record;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::io::{self, BufRead, Write};

/// Version of the lines; it changes with every field that a reader must know.
pub const SCHEMA: &str = "fathom-export/1";

/// A line longer than this is no trial.
const LINE_BYTES_MAX: u64 = 1 << 30;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Begin {
    /// Version of the fathom that exports.
    fathom_version: String,
    /// Format of its store.
    store_format: i64,
    /// What identifies was replaced.
    is_anonymised: bool,
}

/// The last line.
#[derive(Debug, Serialize, Deserialize)]
struct End {
    /// Runs exported.
    runs: u64,
    /// Trials exported.
    trials: u64,
}

/// Why runs could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The output.
    #[error("{0}")]
    Output(#[from] io::Error),
}

fn line(out: &mut impl Write, kind: &str, fields: &impl Serialize) -> io::Result<()> {
    // Flattened raw JSON would be taken apart: the two fields in front are put there by hand.
    let text = serde_json::to_string(fields).map_err(io::Error::other)?;
    let rest = text.strip_prefix('{').unwrap_or(&text);
    writeln!(out, "{{\"type\":\"{kind}\",\"schema\":\"{SCHEMA}\",{rest}")
}

/// Writes runs, one after the other.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    counts: End,
}

impl<W: Write> Writer<W> {
    /// Writes the first line.
    ///
    /// # Errors
    /// Those of the output.
    pub fn begin(mut out: W, fathom_version: &str, is_anonymised: bool) -> io::Result<Self> {
        let fathom_version = fathom_version.to_owned();
        line(&mut out, "export", &Begin { fathom_version, store_format: FORMAT, is_anonymised })?;
        Ok(Self { out, counts: End { runs: 0, trials: 0 } })
    }

    /// Writes a run; its trials follow.
    ///
    /// # Errors
    /// Those of the output.
    pub fn run(&mut self, copy: &RunCopy) -> io::Result<()> {
        self.counts.runs += 1;
        line(&mut self.out, "run", copy)
    }

    /// Writes a trial.
    ///
    /// # Errors
    /// Those of the output.
    pub fn trial(&mut self, trial: &TrialRow) -> io::Result<()> {
        self.counts.trials += 1;
        line(&mut self.out, "trial", trial)
    }

    /// Writes a run of the store with its trials.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn stored(&mut self, store: &Store, id: &str) -> Result<(), WriteError> {
        let copy = store.copy_run(id)?;
        self.run(&copy)?;
        for index in 0..copy.trial_checksums.len() as u32 {
            if let Some(trial) = store.copy_trial(id, index)? {
                self.trial(&trial)?;
            }
        }
        Ok(())
    }

    /// Writes the last line.
    ///
    /// # Errors
    /// Those of the output.
    pub fn end(mut self) -> io::Result<W> {
        line(&mut self.out, "result", &self.counts)?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// One line as it comes.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    r#type: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow)]
    schema: Option<std::borrow::Cow<'a, str>>,
}

struct Lines<R: BufRead> {
    input: R,
    number: u64,
    /// A line that was read and belongs to what comes next.
    next: Option<(String, String)>,
}

impl<R: BufRead> Lines<R> {
    fn wrong(&self, reason: &str) -> ImportError {
        ImportError::Source(format!("line {}: {reason}", self.number))
    }

    /// The next line with its type; none at the end.
    fn read(&mut self) -> Result<Option<(String, String)>, ImportError> {
        if let Some(next) = self.next.take() {
            return Ok(Some(next));
        }
        loop {
            let mut text = String::new();
            self.number += 1;
            let read = io::Read::take(&mut self.input, LINE_BYTES_MAX).read_line(&mut text);
            match read {
                Ok(0) => return Ok(None),
                Ok(_) if text.trim().is_empty() => {}
                Ok(_) => break self.typed(text).map(Some),
                Err(error) => break Err(self.wrong(&error.to_string())),
            }
        }
    }

    /// Goes to what comes behind the trials of a run.
    fn skip_trials(&mut self) -> Result<(), ImportError> {
        while let Some((kind, text)) = self.read()? {
            if kind != "trial" {
                self.next = Some((kind, text));
                break;
            }
        }
        Ok(())
    }

    fn typed(&self, text: String) -> Result<(String, String), ImportError> {
        let head: Head<'_> = json::from_str(&text)
            .map_err(|e| self.wrong(&format!("is no line of an export, or cut off ({e})")))?;
        match (head.r#type, head.schema) {
            (Some(kind), Some(schema)) if schema == SCHEMA => Ok((kind.into_owned(), text)),
            (Some(_), Some(schema)) if schema.starts_with("fathom-export/") => {
                Err(self.wrong(&format!(
                    "is of form {schema}, this fathom reads {SCHEMA}; use the fathom that wrote it"
                )))
            }
            _ => Err(self.wrong("is no line of an export; made with: fathom export -o FILE.jsonl")),
        }
    }

    fn parse<'t, T: Deserialize<'t>>(&self, text: &'t str) -> Result<T, ImportError> {
        json::from_str(text).map_err(|e| self.wrong(&e.to_string()))
    }
}

/// What an import did with one run, or why it was refused.
pub type Tell<'a> = dyn FnMut(&RunCopy, Result<Imported, ImportError>) + 'a;

/// Reads lines of JSON and takes their runs into a store, each in a transaction of its own, and tells what became of each. One that is
/// refused keeps none of the others out.
///
/// # Errors
/// [`ImportError`] of what comes from no run: the store, a line that cannot be read. Runs before it are stored.
pub fn read(
    store: &mut Store,
    input: impl BufRead,
    source: &str,
    now_unix_ns: i64,
    tell: &mut Tell<'_>,
) -> Result<u64, ImportError> {
    let mut lines = Lines { input, number: 0, next: None };
    let (mut runs, mut is_open) = (0, false);
    while let Some((kind, text)) = lines.read()? {
        match kind.as_str() {
            "export" if !is_open => {
                let begin: Begin = lines.parse(&text)?;
                if begin.store_format > FORMAT {
                    return Err(lines.wrong(&format!(
                        "exported by a newer fathom ({}, store format {}, this one knows {FORMAT}); use that fathom",
                        begin.fathom_version, begin.store_format
                    )));
                }
                is_open = true;
            }
            "run" => {
                let copy: RunCopy = lines.parse(&text)?;
                drop(text);
                let mut trials = || match lines.read()? {
                    Some((kind, text)) if kind == "trial" => lines.parse(&text).map(Some),
                    other => {
                        lines.next = other;
                        Ok(None)
                    }
                };
                let done = store.import_run(&copy, &mut trials, source, now_unix_ns);
                if let Err(error @ (ImportError::Store(_) | ImportError::Source(_))) = done {
                    return Err(error);
                }
                lines.skip_trials()?;
                runs += u64::from(done.is_ok());
                tell(&copy, done);
            }
            "result" if is_open => is_open = false,
            // What later versions add between runs.
            other if other != "trial" && other != "export" => {}
            other => {
                return Err(lines.wrong(&format!("a line of type '{other}' does not belong here")));
            }
        }
    }
    if is_open {
        return Err(lines.wrong(
            "the last line is missing: the export was cut off; runs up to here are stored",
        ));
    }
    Ok(runs)
}

/// Raw JSON of a value, for rows that are made anew.
///
/// # Errors
/// [`StoreError::Internal`] for a figure that JSON cannot hold.
pub fn raw(value: &impl Serialize) -> Result<Box<RawValue>, StoreError> {
    serde_json::value::to_raw_value(value).map_err(|e| StoreError::Internal {
        path: "rows".into(),
        detail: format!("a value has no stored form: {e}"),
    })
}

/// Rows of records that are no longer what was stored.
///
/// # Errors
/// As [`raw`].
pub fn trials(records: &[Record]) -> Result<Vec<TrialRow>, StoreError> {
    let row = |(index, record): (usize, &Record)| {
        let text = raw(record)?;
        Ok(TrialRow {
            index: index as u32,
            label: record.label.clone(),
            started_unix_ns: record.started_unix_ns,
            checksum: hex(checksum::of(text.get())),
            record: text,
        })
    };
    records.iter().enumerate().map(row).collect()
}
