//! Runs of other stores: exports as JSON lines, and the stores themselves.

use crate::args::Common;
use crate::commands::{CommandError, CommandResult};
use crate::exit::Exit;
use crate::output::Output;
use crate::session;
use fathom_store::transfer::{ImportError, Imported, RunCopy, jsonl};
use fathom_store::{Filter, Store};
use fathom_sys::clock;
use flate2::bufread::MultiGzDecoder;
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
    /// What could not be taken over, and why.
    refused: Vec<String>,
}

impl Done {
    /// A run was taken over, or refused.
    fn told(&mut self, source: &str, copy: &RunCopy, done: Result<Imported, ImportError>) {
        match done {
            Ok(done) => self.tell(source, copy, &done),
            Err(error) => self.refused.push(format!("{source}: {error}")),
        }
    }

    /// A run and what became of it, for people as it happens.
    fn tell(&mut self, source: &str, copy: &RunCopy, done: &Imported) {
        let original = &copy.run.id;
        let (id, done) = match done {
            Imported::Renamed { id, outcome } => (id, &**outcome),
            done => (original, done),
        };
        let (outcome, text) = match done {
            Imported::Present { label_here: None } => ("present", "is here already".to_owned()),
            Imported::Present { label_here: Some(label) } => {
                ("present", format!("is here already, labelled {label}"))
            }
            Imported::Continued { added } => {
                ("continued", format!("was here already; {added} further trials added"))
            }
            Imported::Ended => {
                ("continued", "was here already, without its end, which was added".to_owned())
            }
            Imported::New | Imported::Renamed { .. } => ("imported", "imported".to_owned()),
        };
        let alias = if id == original {
            String::new()
        } else {
            format!(" (as {id}: another run has that name here)")
        };
        match outcome {
            "present" => self.present += 1,
            _ => self.imported += 1,
        }
        self.output.note(&format!("{original}: {text}{alias}"));
        let trials = copy.trial_checksums.len();
        self.runs.push(json!({
            "id": id, "original_id": original, "outcome": outcome, "trials": trials, "source": source,
        }));
    }
}

/// Takes the runs of all files over, each whole or not at all, whenever it is ended.
pub fn run(common: &Common, output: Output, files: &[PathBuf]) -> CommandResult {
    if files.is_empty() {
        let text = "which file? fathom import FILE.jsonl, or the store of another machine";
        return Err(CommandError::usage(output, &text));
    }
    let store = session::store_path(common)
        .and_then(|path| Store::open(&path, clock::unix_ns()))
        .map_err(|e| CommandError::store(output, &e));
    let mut store = store?;
    let mut done = Done { output, runs: Vec::new(), imported: 0, present: 0, refused: Vec::new() };
    for file in files {
        match one(&mut store, file, &mut done) {
            Ok(()) => {}
            // What came before it is stored, and says so.
            Err(ImportError::Store(error)) => return Err(CommandError::store(output, &error)),
            Err(error) => done.refused.push(format!("{}: {error}", file.display())),
        }
    }
    finish(&done)
}

/// Says what was done; then what could not be.
fn finish(done: &Done) -> CommandResult {
    let Done { output, runs, imported, present, refused } = done;
    if refused.is_empty() || imported + present > 0 {
        let there =
            if *present == 0 { String::new() } else { format!(", {present} were here already") };
        let plural = if *imported == 1 { "run" } else { "runs" };
        output.text(&format!("{imported} {plural} imported{there}\n"))?;
    }
    refused.iter().for_each(|text| output.error(text));
    let mut fields = json!({ "imported": imported, "present": present, "runs": runs });
    let exit = if refused.is_empty() { Exit::Done } else { Exit::Usage };
    if exit == Exit::Usage {
        fields["refused"] = json!(refused);
        fields["error"] = json!(refused.join("; "));
        fields["exit_code"] = json!(exit.code());
    }
    output.json("result", &fields)?;
    Ok(exit)
}

fn source(text: impl Into<String>) -> ImportError {
    ImportError::Source(text.into())
}

fn one(store: &mut Store, file: &Path, done: &mut Done) -> Result<(), ImportError> {
    if file == Path::new("-") {
        return lines(store, BufReader::new(io::stdin().lock()), "standard input", done);
    }
    // The end of a name says little; of a pipe only its reader knows how it begins.
    let meta = fs::metadata(file).map_err(|e| source(e.to_string()))?;
    if meta.is_dir() {
        return Err(source("is a directory; name the file of a store or of an export"));
    }
    let opened = File::open(file).map_err(|e| source(e.to_string()))?;
    let mut reader = BufReader::new(opened);
    let begin = reader.fill_buf().map_err(|e| source(e.to_string()))?;
    if begin.starts_with(SQLITE) {
        drop(reader);
        return merge(store, file, &meta, done);
    }
    let name = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    lines(store, reader, &name.display().to_string(), done)
}

fn lines(
    store: &mut Store,
    mut reader: impl BufRead,
    name: &str,
    done: &mut Done,
) -> Result<(), ImportError> {
    let begin = reader.fill_buf().map_err(|e| source(e.to_string()))?;
    let (is_packed, is_text) = (begin.starts_with(PACKED), begin.starts_with(b"{"));
    let now_ns = clock::unix_ns();
    let mut tell = |copy: &RunCopy, imported| done.told(name, copy, imported);
    if is_packed {
        let unpacked = BufReader::new(MultiGzDecoder::new(reader));
        jsonl::read(store, unpacked, name, now_ns, &mut tell)?;
    } else if is_text {
        jsonl::read(store, reader, name, now_ns, &mut tell)?;
    } else {
        let text = "is neither an export of fathom (jsonl) nor a store; a table of foreign results: fathom import csv FILE";
        return Err(source(text));
    }
    Ok(())
}

/// Takes over every run of another store, which is only read.
fn merge(
    store: &mut Store,
    file: &Path,
    meta: &fs::Metadata,
    done: &mut Done,
) -> Result<(), ImportError> {
    let is_same = fs::metadata(store.path())
        .is_ok_and(|own| (own.dev(), own.ino()) == (meta.dev(), meta.ino()));
    if is_same {
        return Err(source("is the store that the runs would go to (--db names that one)"));
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
        return Err(source(text));
    }
    let name = other.path().display().to_string();
    let all = other.list(&Filter::default()).map_err(theirs)?;
    for run in all.iter().rev() {
        let copy = match other.copy_run(&run.id) {
            Ok(copy) => copy,
            Err(error) => {
                done.refused.push(format!("{name}: run {}: {error}", run.id));
                continue;
            }
        };
        let mut next = 0;
        let mut trials = || {
            let trial = other.copy_trial(&run.id, next).map_err(theirs)?;
            next += 1;
            Ok(trial)
        };
        match store.import_run(&copy, &mut trials, &name, clock::unix_ns()) {
            // What it is that its own store cannot give is its own.
            Err(ImportError::Source(reason)) => {
                done.refused.push(format!("{name}: run {}: {reason}", run.id));
            }
            Err(error @ ImportError::Store(_)) => return Err(error),
            imported => done.told(&name, &copy, imported),
        }
    }
    Ok(())
}
