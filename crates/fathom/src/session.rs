//! What every measuring command does around its measurement: store, lock, leftovers, laboratory, verdict.

use crate::args::{Common, FailOn, Measure};
use crate::exit::Exit;
use crate::output::Output;
use crate::progress::Progress;
use fathom_base::id;
use fathom_base::prng::Prng;
use fathom_guard::leftovers;
use fathom_guard::{Consent, MeasuringLock, Protected};
use fathom_inspect::rules::Surroundings;
use fathom_lab::{Lab, LabError};
use fathom_model::event::Event;
use fathom_model::host::HostFacts;
use fathom_model::record::{Ending, Record, RunHead, RunKind};
use fathom_store::{Store, StoreError, Writer};
use fathom_study::verdict::{self, Study};
use fathom_sys::clock::{self, FastClock};
use fathom_sys::process;
use fathom_sys::signals::StopFlag;
use fathom_sys::sysroot::SysRoot;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::path::{Path, PathBuf};

/// Length of the intervals of a series when nobody says.
pub const INTERVAL_NS: u64 = 1_000_000_000;

/// What is measured, for the head of the run.
pub struct Purpose<'a> {
    /// What kind of run.
    pub kind: RunKind,
    /// The target as given.
    pub target: &'a str,
    /// What all measuring commands take.
    pub measure: &'a Measure,
    /// Devices that may be overwritten.
    pub destroy: Vec<String>,
    /// Length of the intervals of the series.
    pub interval_ns: u64,
}

/// What a measurement came to.
pub struct Measured {
    /// Identifier of the run.
    pub id: String,
    /// Shortest prefix that names it.
    pub prefix: String,
    /// Wall-clock time of the whole command so far.
    pub took_ns: u64,
    /// What was measured.
    pub records: Vec<Record>,
    /// What that is worth.
    pub study: Study,
    /// How fathom ends.
    pub exit: Exit,
}

impl Measured {
    /// The last JSON line of a measuring command, as far as all of them share it.
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "id": self.id,
            "verdict": self.study.verdict,
            "findings": self.study.findings,
            "records": self.records,
            "exit_code": self.exit.code(),
        })
    }
}

/// The body of a measurement: gets the laboratory and a place for finished records.
pub type Body<'b> = dyn FnMut(
        &mut Lab<'_>,
        &mut dyn FnMut(&Record) -> Result<(), LabError>,
    ) -> Result<Vec<Record>, LabError>
    + 'b;

/// The store's file for these options.
pub fn store_path(common: &Common) -> Result<PathBuf, StoreError> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let path = match &common.db {
        Some(path) => path.clone(),
        None => fathom_store::default_path(
            variable("FATHOM_DB").as_deref(),
            process::is_root(),
            variable("XDG_STATE_HOME").as_deref(),
            variable("HOME").as_deref(),
        )?,
    };
    Ok(std::path::absolute(&path).unwrap_or(path))
}

/// A seed from the system, through the standard library's own source of it.
fn system_seed() -> u64 {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_i64(clock::unix_ns());
    hasher.finish()
}

/// Measures: everything around `body`. Errors have been printed when this returns none.
pub fn measure(
    common: &Common,
    output: Output,
    stop: &StopFlag,
    purpose: &Purpose<'_>,
    body: &mut Body<'_>,
) -> Result<Measured, Exit> {
    let started_ns = clock::monotonic_ns();
    let root = SysRoot::live();
    let path = store_path(common).map_err(|e| fail(output, &e, Exit::Internal))?;
    let mut store =
        Store::open(&path, clock::unix_ns()).map_err(|e| fail(output, &e, Exit::Internal))?;
    let _lock = MeasuringLock::acquire(&root).map_err(|e| fail(output, &e, Exit::Refused))?;
    let state_dir = path.parent().unwrap_or(Path::new(".")).to_owned();
    clean_leftovers(&root, &state_dir, output);

    let host = fathom_inspect::host_facts(&root);
    let run_id = id::new_id(&mut Prng::new(system_seed(), 0));
    let head = head(&run_id, purpose, host.clone());
    let store_stack = fathom_inspect::resolve(&root, &path).ok();
    let now_unix_s = clock::unix_ns() / 1_000_000_000;
    let mut progress = Progress::new(output);
    let mut emit = |event: Event| progress.show(&event);
    let mut lab = Lab {
        clock: FastClock::calibrated(host.clock_source.as_deref()),
        stop: stop.clone(),
        run_id: run_id.clone(),
        dirs_made: std::cell::Cell::new(0),
        state_dir,
        consent: Consent::new(purpose.destroy.clone()),
        protected: Protected { store_path: path.clone() },
        around: Surroundings::read(&root, store_stack, now_unix_s),
        host,
        interval_ns: purpose.interval_ns,
        keep: purpose.measure.keep,
        seeds: Prng::new(common.seed.unwrap_or_else(system_seed), 0),
        emit: &mut emit,
        root: root.clone(),
    };
    // Before anything is measured: a store that cannot be written shows here.
    begin(&root, &mut store, &head).map_err(|e| fail(output, &e, Exit::Internal))?;
    let mut keeper = Keeper { store: &mut store, run_id: &run_id, error: None };
    let outcome = body(&mut lab, &mut |record| {
        keeper.keep(record);
        Ok(())
    });
    progress.finish();
    let records = match outcome {
        Ok(records) => records,
        Err(error) => {
            keeper.give_up();
            return Err(fail(output, &error, Exit::of_error(&error)));
        }
    };
    // Also for those who asked for quiet: this is an error.
    for failure in records.iter().filter_map(|record| record.failure.as_ref()) {
        output.error(&failure.message);
    }
    let study = verdict::judge(&records);
    let void_only = purpose.measure.fail_on == FailOn::Void;
    let mut exit = Exit::of_records(&records, study.verdict, void_only);
    // A signal between two trials leaves whole records, and a run that is not.
    let ending = match records.last().map_or(Ending::Failed, |r| r.ending) {
        Ending::Complete if stop.is_set() => Ending::Interrupted,
        ending => ending,
    };
    if ending == Ending::Interrupted {
        exit = exit.max(Exit::Interrupted);
    }
    keeper.finish(ending, &study);
    if let Some(error) = keeper.error {
        output.error(&format!("the result could not be stored: {error}"));
        exit = exit.max(Exit::Internal);
    }
    let prefix = store.shortest_prefix(&run_id).unwrap_or_else(|_| run_id.clone());
    let took_ns = clock::monotonic_ns() - started_ns;
    Ok(Measured { id: run_id, prefix, took_ns, records, study, exit })
}

/// What the run's records have in common.
fn head(run_id: &str, purpose: &Purpose<'_>, host: HostFacts) -> RunHead {
    RunHead {
        id: run_id.to_owned(),
        kind: purpose.kind,
        label: purpose.measure.label.clone(),
        command: command_line(),
        target: purpose.target.to_owned(),
        started_unix_ns: clock::unix_ns(),
        host,
        fathom_version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Puts finished records into the store. A store that fails does not end the measurement: the figures are shown all
/// the same, and the error at the end.
struct Keeper<'a> {
    store: &'a mut Store,
    run_id: &'a str,
    error: Option<StoreError>,
}

impl Keeper<'_> {
    fn keep(&mut self, record: &Record) {
        if self.error.is_none() {
            self.error = self.store.add_trial(self.run_id, record).err();
        }
    }

    /// The command failed: without a record there is nothing to remember; with some it stays, as a failed one.
    fn give_up(&mut self) {
        let stored = self.store.load(self.run_id).map(|run| run.records);
        let done = match stored {
            Ok(records) if records.is_empty() => self.store.remove(self.run_id),
            Ok(records) => {
                self.finish(Ending::Failed, &verdict::judge(&records));
                Ok(())
            }
            Err(error) => Err(error),
        };
        // The failure that led here is the one to report.
        self.error = done.err();
    }

    fn finish(&mut self, ending: Ending, study: &Study) {
        if self.error.is_some() {
            return;
        }
        let now_ns = clock::unix_ns();
        self.error = self
            .store
            .finish_run(self.run_id, ending, study.verdict, &study.findings, now_ns)
            .err();
    }
}

/// Writes the head of the run.
fn begin(root: &SysRoot, store: &mut Store, head: &RunHead) -> Result<(), StoreError> {
    let pid = std::process::id();
    let writer = Writer {
        pid,
        start_ticks: process::start_time_ticks(root, pid).unwrap_or(0),
        boot_id: process::boot_id(root).unwrap_or_default(),
    };
    store.begin_run(head, &writer)
}

fn clean_leftovers(root: &SysRoot, state_dir: &Path, output: Output) {
    match leftovers::clean(root, state_dir) {
        Ok(reports) => {
            for report in reports.iter().filter(|report| !report.outcome.is_quiet()) {
                output.note(&report.to_string());
            }
        }
        Err(error) => output.note(&format!("looking for leftovers of killed runs: {error}")),
    }
}

/// Prints an error and gives the exit code back.
pub fn fail(output: Output, error: &impl std::fmt::Display, exit: Exit) -> Exit {
    let text = error.to_string();
    output.error(&text);
    let fields = serde_json::json!({ "error": text, "exit_code": exit.code() });
    let _ = output.json("result", &fields);
    exit
}

/// The command line as a shell would take it.
fn command_line() -> String {
    let quote = |arg: String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:+,@%=".contains(c);
        if !arg.is_empty() && arg.chars().all(plain) {
            arg
        } else {
            format!("'{}'", arg.replace('\'', "'\\''"))
        }
    };
    let rest = std::env::args_os().skip(1).map(|a| quote(a.to_string_lossy().into_owned()));
    std::iter::once("fathom".to_owned()).chain(rest).collect::<Vec<_>>().join(" ")
}
