//! Runs of other stores: exports as JSON lines, and the stores themselves.

use crate::args::Common;
use crate::commands::{CommandError, CommandResult};
use crate::exit::Exit;
use crate::output::Output;
use crate::session;
use fathom_store::transfer::{ImportError, Imported, RunCopy, jsonl};
use fathom_store::{Filter, Store};
use fathom_sys::clock;
use fathom_sys::signals::StopFlag;
use flate2::bufread::GzDecoder;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How every SQLite file begins.
const SQLITE: &[u8] = b"SQLite format 3\0";
/// How every packed file begins.
const PACKED: &[u8] = &[0x1f, 0x8b];

/// What has been done so far.
struct Done {
    output: Output,
    runs: Vec<Value>,
    imported: usize,
    present: usize,
}

impl Done {
    /// A run and what became of it, for people as it happens.
    fn tell(&mut self, source: &str, copy: &RunCopy, done: &Imported) {
        let original = &copy.run.id;
        let (outcome, id, text) = match done {
            Imported::New => ("imported", original, format!("{original}: imported")),
            Imported::Present { label_here: None } => {
                ("present", original, format!("{original}: is here already"))
            }
            Imported::Present { label_here: Some(label) } => {
                ("present", original, format!("{original}: is here already, labelled {label}"))
            }
            Imported::Continued { added } => {
                let text = format!("{original}: was here already; {added} further trials added");
                ("continued", original, text)
            }
            Imported::Renamed { id, is_present: false } => {
                let text = format!("{original}: another run has that name here; imported as {id}");
                ("imported", id, text)
            }
            Imported::Renamed { id, is_present: true } => {
                ("present", id, format!("{original}: is here already, as {id}"))
            }
        };
        match outcome {
            "present" => self.present += 1,
            _ => self.imported += 1,
        }
        self.output.note(&text);
        let trials = copy.trial_checksums.len();
        self.runs.push(json!({
            "id": id, "original_id": original, "outcome": outcome, "trials": trials, "source": source,
        }));
    }
}

/// Takes the runs of all files over.
pub fn run(common: &Common, output: Output, stop: &StopFlag, files: &[PathBuf]) -> CommandResult {
    if files.is_empty() {
        let text = "which file? fathom import FILE.jsonl, or the store of another machine";
        return Err(CommandError::usage(output, &text));
    }
    let store = session::store_path(common)
        .and_then(|path| Store::open(&path, clock::unix_ns()))
        .map_err(|e| CommandError::store(output, &e));
    let mut store = store?;
    let mut done = Done { output, runs: Vec::new(), imported: 0, present: 0 };
    for file in files {
        one(&mut store, stop, file, &mut done).map_err(|error| match error {
            // What came before it is stored, and says so.
            Failure::Import(ImportError::Store(error)) => CommandError::store(output, &error),
            Failure::Import(error) => {
                let text = format!("{}: {error}", file.display());
                CommandError::report_as(output, &text, Exit::Usage)
            }
            Failure::Stopped => Exit::Interrupted.into(),
        })?;
    }
    let (imported, present) = (done.imported, done.present);
    let there = if present == 0 { String::new() } else { format!(", {present} were here already") };
    let plural = if imported == 1 { "run" } else { "runs" };
    output.text(&format!("{imported} {plural} imported{there}\n"))?;
    let fields = json!({ "imported": imported, "present": present, "runs": done.runs });
    output.json("result", &fields)?;
    Ok(Exit::Done)
}

enum Failure {
    Import(ImportError),
    Stopped,
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Self {
        Self::Import(error)
    }
}

fn source(text: impl Into<String>) -> ImportError {
    ImportError::Source(text.into())
}

fn one(store: &mut Store, stop: &StopFlag, file: &Path, done: &mut Done) -> Result<(), Failure> {
    if file == Path::new("-") {
        return lines(store, BufReader::new(io::stdin().lock()), "standard input", done);
    }
    // The end of a name says little; of a pipe only its reader knows how it begins.
    let meta = fs::metadata(file).map_err(|e| source(e.to_string()))?;
    if meta.is_dir() {
        return Err(source("is a directory; name the file of a store or of an export").into());
    }
    let opened = File::open(file).map_err(|e| source(e.to_string()))?;
    let mut reader = BufReader::new(opened);
    let begin = reader.fill_buf().map_err(|e| source(e.to_string()))?;
    if begin.starts_with(SQLITE) {
        drop(reader);
        return merge(store, stop, file, &meta, done);
    }
    let name = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    lines(store, reader, &name.display().to_string(), done)
}

fn lines(
    store: &mut Store,
    mut reader: impl BufRead,
    name: &str,
    done: &mut Done,
) -> Result<(), Failure> {
    let begin = reader.fill_buf().map_err(|e| source(e.to_string()))?;
    let (is_packed, is_text) = (begin.starts_with(PACKED), begin.starts_with(b"{"));
    let now_ns = clock::unix_ns();
    let mut tell = |copy: &RunCopy, imported: &Imported| done.tell(name, copy, imported);
    if is_packed {
        let unpacked = BufReader::new(GzDecoder::new(reader));
        jsonl::read(store, unpacked, name, now_ns, &mut tell)?;
    } else if is_text {
        jsonl::read(store, reader, name, now_ns, &mut tell)?;
    } else {
        let text = "is neither an export of fathom (jsonl) nor a store; a table of foreign results: fathom import csv FILE";
        return Err(source(text).into());
    }
    Ok(())
}

/// Takes over every run of another store, which is only read.
fn merge(
    store: &mut Store,
    stop: &StopFlag,
    file: &Path,
    meta: &fs::Metadata,
    done: &mut Done,
) -> Result<(), Failure> {
    let is_same = fs::metadata(store.path())
        .is_ok_and(|own| (own.dev(), own.ino()) == (meta.dev(), meta.ino()));
    if is_same {
        return Err(source("is the store that the runs would go to (--db names that one)").into());
    }
    // An error of the other store is none of this one.
    let theirs = |e: fathom_store::StoreError| source(e.to_string());
    let other = Store::open_read_only(file).map_err(theirs)?;
    if let Some(format) = other.newer_format() {
        let known = fathom_store::FORMAT;
        let text = format!(
            "was written by a newer fathom (format {format}, this one knows {known}): its runs may hold what would be lost here; \
             import it with that fathom"
        );
        return Err(source(text).into());
    }
    let name = other.path().display().to_string();
    let all = other.list(&Filter::default()).map_err(theirs)?;
    for run in all.iter().rev() {
        if stop.is_set() {
            return Err(Failure::Stopped);
        }
        let copy = other.copy_run(&run.id).map_err(theirs)?;
        let mut next = 0;
        let mut trials = || {
            let trial = other.copy_trial(&run.id, next).map_err(theirs)?;
            next += 1;
            Ok(trial)
        };
        let imported = store.import_run(&copy, &mut trials, &name, clock::unix_ns())?;
        done.tell(&name, &copy, &imported);
    }
    Ok(())
}
