//! What every measuring command does around its measurement: store, lock, leftovers, laboratory, verdict.

use crate::args::{Common, FailOn, Measure};
use crate::exit::Exit;
use crate::experiments;
use crate::hub;
use crate::output::Output;
use crate::progress::{Progress, Subject};
use fathom_base::id;
use fathom_base::prng::Prng;
use fathom_base::shell;
use fathom_guard::faults::Faults;
use fathom_guard::leftovers;
use fathom_guard::place;
use fathom_guard::{Consent, MeasuringLock, Protected};
use fathom_knobs::Wait;
use fathom_lab::error::ErrorClass;
use fathom_lab::restore;
use fathom_lab::trial::KeepRecord;
use fathom_lab::{Lab, LabError};
use fathom_model::event::Event;
use fathom_model::host::HostFacts;
use fathom_model::plan::Plan;
use fathom_model::record::{Ending, Record, RunHead, RunKind};
use fathom_model::stack::Stack;
use fathom_report::findings::findings_text;
use fathom_store::{Store, StoreError, Writer};
use fathom_study::verdict::{self, Study};
use fathom_sys::clock::{self, Calibration, FastClock};
use fathom_sys::process;
use fathom_sys::program_marks;
use fathom_sys::signals::StopFlag;
use fathom_sys::sysroot::SysRoot;
use fathom_sys::threads;
use fathom_sys::tracing::left as traces;
use std::collections::hash_map::RandomState;
use std::ffi::OsString;
use std::hash::{BuildHasher, Hasher};
use std::os::unix::ffi::OsStrExt;
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
    /// The head of the run.
    pub head: RunHead,
    /// Shortest prefix that names it in the store; none when it could not be stored.
    pub prefix: Option<String>,
    /// The command that shows it again; none when it could not be stored.
    show: Option<String>,
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
            "id": self.head.id,
            "stored": self.prefix.is_some(),
            "verdict": self.study.verdict,
            "findings": self.study.findings,
            "records": self.records,
            "exit_code": self.exit.code(),
        })
    }

    /// The verdict with its findings, for people.
    pub fn findings(&self, output: Output) -> String {
        findings_text(&self.study.findings, self.study.verdict, output.width())
    }

    /// `Stored as` the prefix, with what `rest` makes of it; or that it is not.
    pub fn stored_as(&self, rest: impl FnOnce(&str) -> String) -> String {
        match (&self.prefix, &self.show) {
            (Some(prefix), Some(show)) => format!("Stored as {prefix}{}", rest(show)),
            _ => "Not stored.".to_owned(),
        }
    }
}

/// The body of a measurement: gets the laboratory and a place for finished records.
pub type Body<'b> = dyn FnMut(&mut Lab<'_>, KeepRecord<'_>) -> Result<Vec<Record>, LabError> + 'b;

/// The option that leads a later command to the same store, with a space in front; empty where that finds it by itself.
pub fn db_option(common: &Common) -> String {
    common.db.as_ref().map_or_else(String::new, |db| format!(" --db {}", shell::path(db)))
}

/// The command that shows a stored run again.
pub fn show_command(common: &Common, prefix: &str) -> String {
    format!("fathom show {prefix}{}", db_option(common))
}

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
    let path = std::path::absolute(&path).unwrap_or(path);
    // Nothing is made for a mistyped name, least of all one of a device.
    match place::check_new_path(&SysRoot::live(), &path) {
        Ok(()) => Ok(path),
        Err(refusal) => Err(StoreError::Place { path, reason: refusal.to_string() }),
    }
}

/// Why nothing can be noted beside a store that was named for those who look for it: its directory is mistyped.
pub fn no_directory(common: &Common, state_dir: &Path) -> Option<String> {
    let path = common.db.as_ref()?;
    let error = std::fs::metadata(state_dir).err()?;
    let (path, dir) = (path.display(), state_dir.display());
    (Exit::of_path(&error) == Exit::Usage)
        .then(|| format!("store '{path}': there is no directory {dir}"))
}

/// A seed from the system, through the standard library's own source of it.
pub fn system_seed() -> u64 {
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
    measure_as(common, output, stop, purpose, &Start::New, &mut |lab, _, keep| {
        Ok(Got { records: body(lab, keep)?, ending: None, exit: Exit::Done, study: None })
    })
}

/// With fewer descriptors than that, what is looked at around a measurement cannot all be opened, and would be missed.
const FILES_LEAST: u64 = 32;

/// Refuses a limit of open files with which nothing can be measured, before anything else fails of it in words of its own.
fn check_file_limit(limit: u64) -> Result<(), String> {
    if limit >= FILES_LEAST {
        return Ok(());
    }
    Err(format!(
        "the limit of open files is {limit}, and a measurement takes {FILES_LEAST} at least, more with several files or threads: \
         raise it (ulimit -n 1024, or LimitNOFILE= of a service)"
    ))
}

/// What a run begins as.
pub enum Start<'a> {
    /// A run of its own.
    New,
    /// One that follows a plan, or goes on with one that was broken off.
    Plan {
        /// The plan as asked for now.
        plan: &'a Plan,
        /// The run to go on with; the newest of the plan when none, if it is unfinished.
        resume: Option<&'a str>,
        /// Nothing is gone on with.
        is_new: bool,
    },
}

/// What a run began as.
pub struct Begun {
    /// Its plan, with the seed of its order.
    pub plan: Option<Plan>,
    /// What earlier starts have measured.
    pub records: Vec<Record>,
}

/// What a body comes to.
pub struct Got {
    /// All records of the run.
    pub records: Vec<Record>,
    /// How it ended; as its last record did when none.
    pub ending: Option<Ending>,
    /// How fathom ends at least.
    pub exit: Exit,
    /// What it is worth; by its records when none.
    pub study: Option<Study>,
}

/// As [`Body`], for runs that know of earlier starts.
pub type BodyAs<'b> = dyn FnMut(&mut Lab<'_>, &Begun, KeepRecord<'_>) -> Result<Got, LabError> + 'b;

/// As [`measure`], also for runs that follow a plan.
pub fn measure_as(
    common: &Common,
    output: Output,
    stop: &StopFlag,
    purpose: &Purpose<'_>,
    start: &Start<'_>,
    body: &mut BodyAs<'_>,
) -> Result<Measured, Exit> {
    let started_ns = clock::monotonic_ns();
    let calibration = Calibration::begin();
    let root = SysRoot::live();
    check_file_limit(threads::file_limit()).map_err(|text| fail(output, &text, Exit::Missing))?;
    let path = store_path(common).map_err(|e| fail(output, &e, Exit::Internal))?;
    let state_dir = path.parent().unwrap_or(Path::new(".")).to_owned();
    let (mut store, _lock) = store_and_lock(&root, &path, output)?;
    clean_but_programs(&root, &state_dir, output, stop);

    let host = fathom_inspect::host_facts(&root);
    let seed = common.seed.unwrap_or_else(system_seed);
    let around = || {
        let store_stack = stack_of_store(&root, &path, &state_dir);
        fathom_inspect::surroundings(&root, store_stack, clock::unix_ns() / 1_000_000_000)
    };
    // Before anything is measured: a store that cannot be written shows here. It waits for its disk.
    let (around, begun) =
        threads::beside(&around, || begin(&root, &mut store, purpose, start, (&host, seed)));
    let (head, begun) = begun.map_err(|(text, exit)| fail(output, &text, exit))?;
    let run_id = head.id.clone();
    let mut progress = Progress::new(
        output,
        stop,
        &Subject {
            kind: purpose.kind,
            title: &title(std::env::args_os().skip(1)),
            run_id: &run_id,
            is_plain: purpose.measure.plain,
            is_detached: purpose.measure.detached,
            // Short ones are not worth a thread.
            door: has_door(purpose.kind).then_some(path.parent()).flatten(),
        },
    );
    let mut emit = |event: Event| progress.show(event);
    let mut lab = Lab {
        stop: stop.clone(),
        run_id: run_id.clone(),
        // Directories of earlier starts may still be there, with somebody's files in them.
        dirs_made: std::cell::Cell::new(begun.records.len() as u32),
        state_dir,
        known: Vec::new(),
        consent: Consent::new(purpose.destroy.clone()),
        protected: Protected { store_path: path.clone() },
        around,
        // Waits for what is left of the calibration: after all else that takes time.
        clock: FastClock::calibrated(calibration, host.clock_source.as_deref()),
        host,
        utc_offset_s: utc_offset_s(),
        interval_ns: purpose.interval_ns,
        keep: purpose.measure.keep,
        seeds: Prng::new(seed, 0),
        emit: &mut emit,
        root: root.clone(),
    };
    let mut keeper =
        Keeper { store: &mut store, run_id: &run_id, kind: purpose.kind, kept: 0, error: None };
    let outcome = body(&mut lab, &begun, &mut |record| keeper.keep(record));
    // What is stored and told to others waits for no terminal: the view is taken away after it.
    let got = match outcome {
        Ok(got) => got,
        Err(error) => {
            let unstored = keeper.error.as_ref().map(Exit::of_store);
            let exit = unstored.unwrap_or_else(|| Exit::of_error(&error));
            keeper.give_up();
            progress.ended(exit, &error.to_string());
            return Err(fail(output, &error, exit));
        }
    };
    let kept = keep_end(common, keeper, stop, purpose, &got);
    let took_ns = clock::monotonic_ns() - started_ns;
    progress.ended(kept.exit, &kept.words(common));
    let KeptRun { prefix, study, exit, errors } = kept;
    // Also for those who asked for quiet: these are errors.
    errors.iter().for_each(|text| output.error(text));
    let show = prefix.as_ref().map(|prefix| show_command(common, prefix));
    Ok(Measured { head, prefix, show, took_ns, records: got.records, study, exit })
}

/// What the store lies on. Its directory is looked at: whoever opens and closes the store's file itself takes away the locks that this process
/// holds on it.
fn stack_of_store(root: &SysRoot, path: &Path, state_dir: &Path) -> Option<Stack> {
    let below = fathom_inspect::resolve(root, state_dir).ok()?;
    let resolved_path = Path::new(&below.resolved_path).join(path.file_name().unwrap_or_default());
    let resolved_path = resolved_path.display().to_string();
    Some(Stack { path: path.display().to_string(), resolved_path, ..below })
}

/// The store, and the right to measure, once nothing that killed runs have started is in the way. What takes long until the first
/// request goes two at a time: the store's schema is read, and all processes are looked through.
fn store_and_lock(
    root: &SysRoot,
    path: &Path,
    output: Output,
) -> Result<(Store, MeasuringLock), Exit> {
    let open = || Store::open(path, clock::unix_ns());
    let (store, left) = threads::beside(&open, || program_marks::left_by_the_dead(root));
    let store = store.map_err(|e| fail(output, &e, Exit::Internal))?;
    let lock = MeasuringLock::acquire(root).map_err(|e| fail(output, &e, Exit::of_lock(&e)))?;
    if !left.is_empty() {
        end_programs_of_the_dead(root, output);
    }
    Ok((store, lock))
}

/// What is known of a run once its end is stored.
struct KeptRun {
    prefix: Option<String>,
    study: Study,
    exit: Exit,
    /// What has to be said.
    errors: Vec<String>,
}

impl KeptRun {
    fn words(&self, common: &Common) -> String {
        let stored = |p: &String| format!("Stored as {p}: {}", show_command(common, p));
        self.prefix.as_ref().map_or_else(|| "Not stored.".to_owned(), stored)
    }
}

/// Judges a run and stores its end.
fn keep_end(
    common: &Common,
    mut keeper: Keeper<'_>,
    stop: &StopFlag,
    purpose: &Purpose<'_>,
    got: &Got,
) -> KeptRun {
    let judged = || verdict::judge_run(purpose.kind, &got.records);
    let study = got.study.clone().unwrap_or_else(judged);
    let mut exit = exit_of(stop, purpose, got, &study);
    let mut errors = failures(got);
    keeper.finish(ending_of(got, stop), &study);
    let run_id = keeper.run_id;
    let prefix = keeper.store.shortest_prefix(run_id).unwrap_or_else(|_| run_id.to_owned());
    let prefix = match &keeper.error {
        None => Some(prefix),
        Some(error) => {
            errors.push(format!("the result could not be stored: {error}"));
            if keeper.kept > 0 {
                let count = keeper.kept;
                let show = show_command(common, &prefix);
                errors.push(format!("trials stored before that: {count}, {show}"));
            }
            exit = exit.max(Exit::Internal);
            None
        }
    };
    KeptRun { prefix, study, exit, errors }
}

/// Whether others can look on.
fn has_door(kind: RunKind) -> bool {
    !matches!(kind, RunKind::Quick | RunKind::Run)
}

/// How a run ended. A signal between two trials leaves whole records, and a run that is not.
fn ending_of(got: &Got, stop: &StopFlag) -> Ending {
    let of_records = || match got.records.last().map_or(Ending::Failed, |r| r.ending) {
        Ending::Complete if stop.is_set() => Ending::Interrupted,
        ending => ending,
    };
    got.ending.unwrap_or_else(of_records)
}

/// What failed, of runs that end with it; an experiment goes on after trials that do not count, and says itself what ended it.
fn failures(got: &Got) -> Vec<String> {
    let records = if got.ending.is_some() { &[] } else { &got.records[..] };
    let failures = records.iter().filter_map(|record| record.failure.as_ref());
    failures.map(|failure| failure.message.clone()).collect()
}

/// What the records and the end of a body come to.
fn exit_of(stop: &StopFlag, purpose: &Purpose<'_>, got: &Got, study: &Study) -> Exit {
    let void_only = purpose.measure.fail_on == FailOn::Void;
    if got.ending.is_some() {
        return got.exit.max(Exit::of_verdict(study.verdict, void_only));
    }
    let exit = got.exit.max(Exit::of_records(&got.records, study.verdict, void_only));
    let is_whole = got.records.last().is_some_and(|record| record.ending == Ending::Complete);
    if is_whole && stop.is_set() { exit.max(Exit::Interrupted) } else { exit }
}

/// What the run's records have in common.
fn head(run_id: &str, purpose: &Purpose<'_>, host: HostFacts, seed: u64) -> RunHead {
    RunHead {
        id: run_id.to_owned(),
        kind: purpose.kind,
        label: purpose.measure.label.clone(),
        command: repeatable(command_line(), purpose.kind, seed),
        target: absolute_target(purpose.target),
        started_unix_ns: clock::unix_ns(),
        host,
        fathom_version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// A target by the name that is the same from every directory. Of a file or device the last part stays, also when it is a
/// symbolic link: it is what the target was called.
pub fn absolute_target(target: &str) -> String {
    if target.starts_with("null:") || target.starts_with("loop:") {
        return target.to_owned();
    }
    let path = Path::new(target);
    let in_directory = || {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = parent.unwrap_or(Path::new(".")).canonicalize()?;
        Ok(directory.join(path.file_name().unwrap_or_default()))
    };
    let found = if path.is_dir() { path.canonicalize() } else { in_directory() };
    let found = found.or_else(|_: std::io::Error| std::path::absolute(path));
    found.map_or_else(|_| target.to_owned(), |path| path.display().to_string())
}

/// Puts finished records into the store. A store that fails ends an experiment, but no other measurement: the figures are
/// shown all the same, and the error at the end.
struct Keeper<'a> {
    store: &'a mut Store,
    run_id: &'a str,
    kind: RunKind,
    /// Trials of this start that are in the store.
    kept: usize,
    error: Option<StoreError>,
}

impl Keeper<'_> {
    fn keep(&mut self, record: &Record) -> Result<(), LabError> {
        if self.error.is_none() {
            self.error = self.store.add_trial(self.run_id, record).err();
            self.kept += usize::from(self.error.is_none());
        }
        // It would go on for hours, and be measured again from here by its next start.
        let is_plan = matches!(self.kind, RunKind::Experiment | RunKind::Raid);
        match &self.error {
            Some(error) if is_plan => Err(LabError::Cell {
                reason: format!("the result could not be stored: {error}"),
                // The least: the exit code is that of the store.
                class: ErrorClass::Usage,
            }),
            _ => Ok(()),
        }
    }

    /// The command failed: without a record there is nothing to remember; with some it stays, as a failed one.
    fn give_up(&mut self) {
        let stored = self.store.load(self.run_id).map(|run| run.records);
        let done = match stored {
            Ok(records) if records.is_empty() => self.store.remove(self.run_id),
            Ok(records) => {
                self.finish(Ending::Failed, &verdict::judge_run(self.kind, &records));
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

/// This process, as the one that makes a run.
pub fn writer(root: &SysRoot) -> Writer {
    let pid = std::process::id();
    Writer {
        pid,
        start_ticks: process::start_time_ticks(root, pid).unwrap_or(0),
        boot_id: process::boot_id(root).unwrap_or_default(),
    }
}

/// Begins the run, or takes one up again.
fn begin(
    root: &SysRoot,
    store: &mut Store,
    purpose: &Purpose<'_>,
    start: &Start<'_>,
    (host, seed): (&HostFacts, u64),
) -> Result<(RunHead, Begun), (String, Exit)> {
    let writer = writer(root);
    let internal = |error: StoreError| (error.to_string(), Exit::of_store(&error));
    let new_head =
        || head(&id::new_id(&mut Prng::new(system_seed(), 0)), purpose, host.clone(), seed);
    let Start::Plan { plan, resume, is_new } = start else {
        let head = new_head();
        store.begin_run(&head, &writer).map_err(internal)?;
        return Ok((head, Begun { plan: None, records: Vec::new() }));
    };
    let state_dir = store.path().parent().unwrap_or(Path::new("."));
    let footing = experiments::footing(root, plan, state_dir);
    if let Some(run) = experiments::to_go_on_with(store, (plan, &footing), *resume, *is_new)? {
        store.take_up(&run.head.id, &writer).map_err(internal)?;
        let plan = store.plan(&run.head.id).map_err(internal)?;
        return Ok((run.head, Begun { plan, records: run.records }));
    }
    let head = new_head();
    let mut plan = (*plan).clone();
    plan.design.seed.get_or_insert(seed);
    plan.footing = footing;
    store.begin_experiment(&head, &writer, &plan).map_err(internal)?;
    Ok((head, Begun { plan: Some(plan), records: Vec::new() }))
}

/// What was done about what killed runs left.
#[derive(Default)]
pub struct PutInOrder {
    /// About settings and whatever else they had changed.
    pub changes: Vec<restore::Report>,
    /// About their test files and directories.
    pub files: Vec<leftovers::Report>,
    /// Why nobody knows of test files.
    pub files_unread: Option<String>,
}

/// Ends the programs of killed runs, removes their test files, and puts back what they left changed; the caller holds the
/// measuring lock.
pub fn restore_left_behind(
    root: &SysRoot,
    state_dir: &Path,
    force: bool,
    output: Output,
    stop: &StopFlag,
) -> PutInOrder {
    hub::forget_left(state_dir);
    let (mut files, mut files_unread) = (Vec::new(), None);
    let mut remove_files = || match leftovers::clean(root, state_dir, force) {
        Ok(reports) => files = reports,
        Err(error) => {
            files_unread = Some(format!("looking for leftovers of killed runs: {error}"));
        }
    };
    let mut note = |text: &str| output.note(text);
    let mut wait = Wait { note: &mut note, stop: Some(stop) };
    let changes =
        restore::restore_dead(root, state_dir, force, &faults(), &mut remove_files, &mut wait);
    // Those on a filesystem that was taken down are gone with it.
    let is_forgotten = |outcome: &leftovers::Outcome| matches!(outcome, leftovers::Outcome::NotMounted { entry, .. } if !entry.exists());
    files.retain(|report| !report.outcome.is_quiet() && !is_forgotten(&report.outcome));
    files.iter().for_each(|report| output.note(&report.to_string()));
    files_unread.iter().for_each(|text| output.note(text));
    PutInOrder { changes, files, files_unread }
}

/// Ends what commands of killed watches and captures have started, and says what that was, what still runs, and how many programs have
/// ended.
pub fn end_programs_of_the_dead(
    root: &SysRoot,
    output: Output,
) -> (Vec<String>, Vec<String>, usize) {
    let (ended, still) = program_marks::end_those_of_the_dead(root);
    let count = ended.iter().map(|left| left.programs.len()).sum();
    let ended: Vec<String> = ended.iter().map(|left| format!("ended: {left}")).collect();
    // One that waits for a device in the kernel ends later, or never.
    let still = still.iter().map(|left| {
        format!("still runs: {left}; it ends when what it waits for answers, then: fathom restore")
    });
    let still: Vec<String> = still.collect();
    ended.iter().chain(&still).for_each(|text| output.note(text));
    (ended, still, count)
}

/// Removes trace instances that captures and watches have left, and says which, and which are still there.
pub fn remove_traces_of_the_dead(root: &SysRoot, output: Output) -> (Vec<String>, Vec<String>) {
    let removed = traces::remove_those_of_the_dead(root).into_iter();
    let removed: Vec<String> = removed.map(|left| format!("removed: {left}")).collect();
    let still = traces::left_by_the_dead(root).into_iter().map(|left| {
        let users = left.users(root);
        format!("still there: {left}; open in {users}: end that program, then: fathom restore")
    });
    let still: Vec<String> = still.collect();
    removed.iter().chain(&still).for_each(|text| output.note(text));
    (removed, still)
}

/// Where a test ends this process.
pub fn faults() -> Faults {
    Faults::parse(std::env::var("FATHOM_FAULT").ok().as_deref())
}

/// What local time is ahead of UTC now: timers and cron count in local time.
pub fn utc_offset_s() -> i64 {
    i64::from(jiff::Zoned::now().offset().seconds())
}

/// Removes what killed runs left behind, and puts back what they left changed; the caller holds the measuring lock.
pub fn clean_leftovers(root: &SysRoot, state_dir: &Path, output: Output, stop: &StopFlag) {
    end_programs_of_the_dead(root, output);
    clean_but_programs(root, state_dir, output, stop);
}

fn clean_but_programs(root: &SysRoot, state_dir: &Path, output: Output, stop: &StopFlag) {
    remove_traces_of_the_dead(root, output);
    tell_of_the_gone(root, state_dir, output);
    let restored = restore_left_behind(root, state_dir, false, output, stop).changes;
    // Where several machines have one store, each would tell of the others at every start.
    let is_here = |report: &&restore::Report| report.outcome != restore::Outcome::OtherMachine;
    restored.iter().filter(is_here).for_each(|report| output.note(&report.to_string()));
    forget_the_removed(root, state_dir, output);
}

/// Forgets what was to be verified in files that are gone, and says which: before test files of killed runs are removed, which nobody
/// misses.
pub fn tell_of_the_gone(root: &SysRoot, state_dir: &Path, output: Output) {
    for path in forget_the_removed(root, state_dir, output) {
        output.note(&format!(
            "{} is gone, which a run with verify= wrote: what it held is lost, unless it was removed on purpose; nothing is kept of it any more",
            path.display()
        ));
    }
}

/// Forgets what was to be verified in files that are gone; which they were.
pub fn forget_the_removed(root: &SysRoot, state_dir: &Path, output: Output) -> Vec<PathBuf> {
    let (gone, failed) = fathom_lab::verify::forget_removed(root, state_dir);
    if let Some(error) = failed {
        output.note(&format!("forgetting what was to be verified in files that are gone: {error}"));
    }
    gone
}

/// Goes on with forgetting that was broken off by a kill; the caller holds the measuring lock.
pub fn finish_forgetting(state_dir: &Path, output: Output) {
    if let Err(error) = fathom_lab::verify::finish_forgetting(state_dir) {
        output.note(&format!(
            "removing what killed runs have left of notes for fathom verify: {error}"
        ));
    }
}

/// Prints an error and gives the exit code back.
pub fn fail(output: Output, error: &dyn std::fmt::Display, exit: Exit) -> Exit {
    let text = error.to_string();
    output.error(&text);
    let fields = serde_json::json!({ "error": text, "exit_code": exit.code() });
    let _ = output.json("result", &fields);
    exit
}

/// The command line as a shell would take it.
pub fn command_line() -> String {
    // It was started by the other one.
    let as_asked = |arg| if arg == "--detached" { "--detach".into() } else { arg };
    let rest = std::env::args_os().skip(1).map(as_asked).map(shell::word);
    std::iter::once("fathom".to_owned()).chain(rest).collect::<Vec<_>>().join(" ")
}

/// What a view is headed with: the command without the store, whose path would push what is measured out of sight.
fn title(words: impl Iterator<Item = OsString>) -> String {
    let mut title = "fathom".to_owned();
    let mut is_path = false;
    for word in words {
        let is_store = std::mem::take(&mut is_path) || word.as_bytes().starts_with(b"--db=");
        is_path = word == "--db";
        if !is_store && !is_path {
            title += &format!(" {}", shell::word(word));
        }
    }
    title
}

/// The command with the seed that was drawn, so that the same requests can be issued again. A plan has its own.
fn repeatable(command: String, kind: RunKind, seed: u64) -> String {
    let has_own = matches!(kind, RunKind::Experiment | RunKind::Raid);
    if has_own || command.contains(" --seed") {
        command
    } else {
        format!("{command} --seed={seed}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_open_files_that_is_too_low_is_named_with_what_it_takes() {
        assert_eq!(check_file_limit(FILES_LEAST), Ok(()));
        let text = check_file_limit(6).unwrap_err();
        assert!(
            text.contains("is 6,") && text.contains("32") && text.contains("ulimit -n"),
            "{text}"
        );
    }

    #[test]
    fn a_view_is_not_headed_with_the_path_of_the_store() {
        let of = |words: &[&str]| title(words.iter().map(OsString::from));
        assert_eq!(of(&["--db", "/a/b c", "lab", "x.toml"]), "fathom lab x.toml");
        assert_eq!(of(&["lab", "--db=/a", "x y.toml", "--db", "/b"]), "fathom lab 'x y.toml'");
        assert_eq!(of(&["run", "randread", "--dbx"]), "fathom run randread --dbx");
    }

    #[test]
    fn a_command_has_the_seed_that_was_drawn() {
        let of = |command: &str, kind| repeatable(command.to_owned(), kind, 7);
        assert_eq!(of("fathom quick .", RunKind::Quick), "fathom quick . --seed=7");
        assert_eq!(of("fathom --seed 3 quick .", RunKind::Quick), "fathom --seed 3 quick .");
        assert_eq!(of("fathom lab a.toml", RunKind::Experiment), "fathom lab a.toml");
    }

    #[test]
    fn targets_have_the_same_name_from_everywhere() {
        // Tests run in the directory of their crate.
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).canonicalize().expect("it is there");
        let below = |name: &str| here.join(name).display().to_string();
        for (target, name) in [
            (".", here.display().to_string()),
            ("./", here.display().to_string()),
            ("src/../src/", below("src")),
            ("Cargo.toml", below("Cargo.toml")),
            ("src/../new", below("new")),
            ("none/new", below("none/new")),
            ("null:", "null:".to_owned()),
            ("null:1G", "null:1G".to_owned()),
            ("loop:1G", "loop:1G".to_owned()),
            // A link whose name says more than where it leads.
            ("/proc/self/exe", format!("/proc/{}/exe", std::process::id())),
            ("/no/such/place", "/no/such/place".to_owned()),
        ] {
            assert_eq!(absolute_target(target), name, "{target}");
        }
    }
}
