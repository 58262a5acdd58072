//! `fathom run fsop`: readers walk a tree while writers make others, phase after phase.
//!
//! Readers only read. Writers work in a directory of fathom's inside the target's, which is noted before it is made and
//! removed at the end, or by the next start after a kill.

mod caches;
mod failure;
mod journal;
pub mod play;
mod readers;
mod room;
mod verified;
mod watch;
pub(crate) mod whole;

use crate::error::LabError;
use crate::lab::Lab;
use crate::run::{note_failure, wrong_kind};
use crate::sampler::Deltas;
use crate::target;
use crate::trial::{KeepRecord, announce};
use caches::empty_caches;
use fathom_base::order::Order;
use fathom_base::shell;
use fathom_base::units::{format_count, format_duration};
use fathom_check::measuring;
use fathom_guard::OwnedDir;
use fathom_model::event::Event;
use fathom_model::finding::Finding;
use fathom_model::fsop::{Caches, FsopPhase, FsopRecord, FsopSpec, FsopTree};
use fathom_model::record::{Ending, RECORD_VERSION, Record, TargetKind, TargetRecord};
use fathom_model::stack::Stack;
use fathom_model::workload::Workload;
use fathom_study::drift;
use fathom_sys::walked::WalkedDir;
use fathom_sys::{clock, threads};
use fathom_tree::manifest::Tree;
use fathom_tree::phase::{self, Outcome, Process, Session, Task, Windowed};
use fathom_tree::walk::Reading;
use journal::Journal;
use readers::Begins;
use std::path::PathBuf;
use watch::{Row, Seen, SessionWatch};

/// The name of the workload.
pub const NAME: &str = "fsop";
/// While files are removed, how often people hear how many.
const TOLD_EVERY_NS: u64 = 5_000_000_000;
/// After so many files somebody looks at the clock.
const LOOKS_FILES: u64 = 256;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct FsopOptions {
    /// The settings.
    pub spec: FsopSpec,
    /// The directory.
    pub target: PathBuf,
    /// How often all phases are gone through.
    pub repeats: u32,
}

/// The workload as records and lists name it.
#[must_use]
pub fn workload() -> Workload {
    Workload {
        name: NAME.to_owned(),
        title: "file server: readers walk a tree, writers make others, alone and side by side".into(),
        description: "What a busy file server does to a filesystem: one reader, several, and then writers beside them. \
                      How much readers lose when writers start is the answer; see docs/fsop.md."
            .into(),
        classic: None,
        jobs: Vec::new(),
        tracked: Vec::new(),
    }
}

/// The same for a personality, where the settings are of one.
pub(crate) fn workload_of(spec: &FsopSpec) -> Workload {
    play::named(spec).unwrap_or_else(workload)
}

/// Everything that stays the same over the sessions of a command.
struct Ground<'o> {
    options: &'o FsopOptions,
    path: PathBuf,
    root: WalkedDir,
    begins: Begins,
    tree: FsopTree,
    /// The tree of fathom's: held so that nobody removes it meanwhile.
    held: Option<Tree>,
    /// Those of the stack, and the one with the journal.
    devices: Vec<String>,
    journal: Journal,
}

/// Goes through all phases as often as asked.
///
/// # Errors
/// [`LabError`] when nothing could be measured; an interrupted or failed phase ends the list instead.
pub fn run(
    lab: &mut Lab<'_>,
    options: &FsopOptions,
    keep_record: KeepRecord<'_>,
) -> Result<Vec<Record>, LabError> {
    let ground = survey(lab, options)?;
    if let Some(tree) = ground.held.as_ref().filter(|_| ground.tree.is_checked) {
        whole::check(lab, tree)?;
    }
    let spec = &options.spec;
    let expected_ns = spec.planned_ns().saturating_mul(u64::from(options.repeats));
    lab.note(format!("Phases: {}. About {}.", phases_text(spec), format_duration(expected_ns)));
    go_through(lab, &ground, &mut |lab, record| announce(lab, record, keep_record))
}

/// The same for whoever says and keeps by itself, and has looked whether the tree is whole.
///
/// # Errors
/// Those of [`run`].
pub(crate) fn measure(lab: &mut Lab<'_>, options: &FsopOptions) -> Result<Vec<Record>, LabError> {
    let ground = survey(lab, options)?;
    go_through(lab, &ground, &mut |_, _| Ok(()))
}

/// Session after session; each record goes to `each` when its session has ended.
fn go_through(
    lab: &mut Lab<'_>,
    ground: &Ground<'_>,
    each: &mut dyn FnMut(&mut Lab<'_>, &Record) -> Result<(), LabError>,
) -> Result<Vec<Record>, LabError> {
    threads::raise_file_limit();
    let (options, spec) = (ground.options, &ground.options.spec);
    let writes = spec.phases.iter().any(|phase| !phase.readers_alone());
    let mut owned = match writes {
        true => Some(target::new_dir(lab, &ground.path)?),
        false => None,
    };
    let mut records = Vec::new();
    'repeats: for repeat in 1..=options.repeats {
        for session in spec.sessions() {
            let is_whole = |record: &Record| record.ending == Ending::Complete;
            if lab.stop.is_set() || !records.last().is_none_or(is_whole) {
                break 'repeats;
            }
            for record in one_session(lab, ground, owned.as_mut(), repeat, &session)? {
                each(lab, &record)?;
                records.push(record);
            }
        }
    }
    if let Some(mut owned) = owned {
        lab.note("Removing what was made.");
        let cleared = clear(lab, &mut owned);
        note_failure(lab, cleared);
        note_failure(lab, owned.remove().map_err(LabError::from));
    }
    if records.is_empty() { Err(LabError::Interrupted) } else { Ok(records) }
}

/// Removes what writers have made, and says how far that is: it may be millions of files. A signal does not end it, since
/// nothing is to be left behind, but is answered.
fn clear(lab: &mut Lab<'_>, owned: &mut OwnedDir) -> Result<(), LabError> {
    let (mut files, mut told_ns, mut is_answered) =
        (0u64, clock::monotonic_ns(), lab.stop.is_set());
    let mut removed = || {
        files += 1;
        if !is_answered && lab.stop.is_set() {
            is_answered = true;
            let text = "Interrupted: what the writers made is still removed; after a kill the next start does it.";
            (lab.emit)(Event::Note { text: text.into() });
        }
        let is_due = files.is_multiple_of(LOOKS_FILES);
        if is_due && clock::monotonic_ns().saturating_sub(told_ns) >= TOLD_EVERY_NS {
            told_ns = clock::monotonic_ns();
            let text = format!("Removed {} files so far.", format_count(files));
            (lab.emit)(Event::Note { text });
        }
    };
    owned.clear_groves(&mut removed).map_err(LabError::from)
}

fn phases_text(spec: &FsopSpec) -> String {
    spec.phases.iter().map(|phase| phase.text()).collect::<Vec<_>>().join("; ")
}

/// Looks at the directory: whose tree it is, how it divides among readers, what lies below.
fn survey<'o>(lab: &Lab<'_>, options: &'o FsopOptions) -> Result<Ground<'o>, LabError> {
    let path = target::directory_of(&options.target)?;
    let path = path.canonicalize().unwrap_or(path);
    let stack = target::resolve(lab, &path)?;
    room::check(lab, &options.spec, &path)?;
    let held = whole::held(&path)?;
    let io = |source| LabError::TargetIo { path: path.clone(), what: "reading", source };
    let root = WalkedDir::open(&path).map_err(io)?;
    let readers = readers_apart(&options.spec);
    let begins = if readers == 0 {
        Begins { parts: Vec::new() }
    } else {
        readers::begins(&root, readers).map_err(io)?
    };
    if readers > 0 && begins.parts.is_empty() {
        let reason = format!(
            "has nothing to read; build a tree in it: fathom tree build {}, or let writers alone work: phases=3w",
            shell::path(&path)
        );
        return Err(wrong_kind(&path, reason));
    }
    let extent = held.as_ref().map(|tree| tree.layout().extent());
    let tree = FsopTree {
        path: path.display().to_string(),
        is_ours: held.is_some(),
        is_checked: held.is_some() && readers > 0,
        trees: begins.parts.len() as u32,
        files: extent.map(|extent| extent.files),
        directories: extent.map(|extent| extent.dirs),
        bytes: extent.map(|extent| extent.bytes),
    };
    let journal = Journal::of(&lab.root, &stack);
    let devices = devices_of(&stack, &journal);
    Ok(Ground { options, path, root, begins, tree, held, devices, journal })
}

/// Readers that never go on from each other: each has a part of its own, so that no phase reads what an earlier one has
/// brought into the caches.
fn readers_apart(spec: &FsopSpec) -> usize {
    spec.sessions().iter().map(|session| spec.phases[session[0]].readers as usize).sum()
}

fn devices_of(stack: &Stack, journal: &Journal) -> Vec<String> {
    let mut names: Vec<String> =
        stack.block_devices().iter().map(|node| node.name.clone()).collect();
    names.extend(journal.device.clone());
    names.order();
    names.dedup();
    names
}

/// Some phases that go on from each other, as records.
fn one_session(
    lab: &mut Lab<'_>,
    ground: &Ground<'_>,
    owned: Option<&mut OwnedDir>,
    repeat: u32,
    session: &[usize],
) -> Result<Vec<Record>, LabError> {
    let spec = &ground.options.spec;
    let phases: Vec<FsopPhase> = session.iter().map(|number| spec.phases[*number]).collect();
    let seed = lab.seeds.next_u64();
    let processes = match &spec.play {
        Some(play) => play::clients(lab, ground, owned, play, seed)?,
        None => processes(lab, ground, owned, session, seed)?,
    };
    let caches = empty_caches(lab, ground, phases[0].readers > 0);
    let before = target::resolve(lab, &ground.path)?;
    let mut findings = measuring::judge(&before, &lab.around);
    findings.extend(measuring::slow_clock(&lab.host));
    let settings = Session {
        clock: lab.clock,
        stop: &lab.stop,
        window_ns: spec.window_ns,
        warm_ups_ns: warm_ups(spec, &phases),
        points: spec.points,
        seed,
    };
    let rows = rows(ground, repeat, session, &settings.warm_ups_ns);
    let count = spec.phases.len() as u32 * ground.options.repeats;
    let mut silents = watch::silents(session.len());
    let counted = (&ground.devices[..], &ground.journal);
    let mut watch =
        SessionWatch::new(&lab.root, counted, rows, count, &mut silents, &mut *lab.emit);
    let outcome = phase::run(&settings, &processes, &mut watch);
    let seen = watch.finish();
    let outcome = outcome.map_err(|source| LabError::TargetIo {
        path: ground.path.clone(),
        what: "starting the processes",
        source,
    })?;
    if let Ok(after) = target::resolve(lab, &ground.path) {
        findings.extend(drift::changed_meanwhile(&before, &after));
    }
    let verified = verified::made(lab, ground, &processes, &outcome);
    let failed_in = outcome.failed.as_ref().and_then(|(role, number, _)| {
        let its = |process: &&Process| process.role() == *role && process.number == *number;
        processes.iter().find(its)?.root().path()
    });
    let failed_in = failed_in.unwrap_or_else(|| ground.path.clone());
    let part =
        Part { ground, repeat, phases: &phases, caches, findings, stack: before, seed, failed_in };
    let mut records = part.records(lab, outcome, seen);
    if let Some(last) = records.last_mut() {
        last.findings.extend(verified);
    }
    Ok(records)
}

/// Writers that begin with a window run for a while before it.
fn warm_ups(spec: &FsopSpec, phases: &[FsopPhase]) -> Vec<u64> {
    let one = |phase: &FsopPhase| if phase.readers_alone() { 0 } else { spec.warmup_ns };
    phases.iter().map(one).collect()
}

fn rows(ground: &Ground<'_>, repeat: u32, session: &[usize], warm_ups_ns: &[u64]) -> Vec<Row> {
    let spec = &ground.options.spec;
    let all = spec.phases.len() as u32;
    let later = u64::from(ground.options.repeats - repeat) * spec.planned_ns();
    let one = |(place, number): (usize, &usize)| {
        let rest = FsopSpec { phases: spec.phases[*number + 1..].to_vec(), ..spec.clone() };
        Row {
            label: label(spec, spec.phases[*number]),
            index: (repeat - 1) * all + *number as u32 + 1,
            rest_ns: spec.window_ns + rest.planned_ns() + later,
            warmup_ns: warm_ups_ns[place],
        }
    };
    session.iter().enumerate().map(one).collect()
}

fn label(spec: &FsopSpec, phase: FsopPhase) -> String {
    let name = spec.play.as_ref().map_or(NAME, |play| &play.name);
    format!("{name}, {}", phase.text())
}

/// The processes of a session, readers first.
fn processes(
    lab: &mut Lab<'_>,
    ground: &Ground<'_>,
    owned: Option<&mut OwnedDir>,
    session: &[usize],
    seed: u64,
) -> Result<Vec<Process>, LabError> {
    let spec = &ground.options.spec;
    let io = |source| LabError::TargetIo { path: ground.path.clone(), what: "opening", source };
    // The parts that the sessions before this one have for themselves.
    let sessions = spec.sessions();
    let earlier = sessions.iter().take_while(|other| other.as_slice() != session);
    let first: usize = earlier.map(|other| spec.phases[other[0]].readers as usize).sum();
    let mut processes = Vec::new();
    for number in 0..spec.phases[session[0]].readers {
        let reading = Reading {
            begins: ground.begins.of(first + number as usize),
            order: spec.walk,
            block_bytes: spec.block_bytes as usize,
            no_atime: !ground.tree.is_ours,
        };
        let task = Task::Read(ground.root.again().map_err(io)?, reading);
        processes.push(Process { task, number, first_window: 0 });
    }
    let writers = session.iter().map(|number| spec.phases[*number].writers).max().unwrap_or(0);
    let Some(owned) = owned.filter(|_| writers > 0) else { return Ok(processes) };
    clear(lab, owned)?;
    let grove = owned.create_grove(writers)?;
    let growing = room::growing(lab, spec, &ground.path, writers)?;
    for (number, dir) in (0u32..).zip(grove.dirs()) {
        let root = WalkedDir::over(dir).map_err(io)?;
        let begins_with = |place: &usize| spec.phases[session[*place]].writers > number;
        let first_window = (0..session.len()).find(begins_with).unwrap_or(0);
        let task = Task::Write(root, growing.clone(), seed ^ (u64::from(number) + 1) << 32);
        processes.push(Process { task, number, first_window });
    }
    Ok(processes)
}

/// What the records of a session have in common.
struct Part<'g, 'o> {
    ground: &'g Ground<'o>,
    repeat: u32,
    phases: &'g [FsopPhase],
    caches: Caches,
    findings: Vec<Finding>,
    stack: Stack,
    seed: u64,
    /// The directory of the process whose operation failed.
    failed_in: PathBuf,
}

impl Part<'_, '_> {
    fn records(&self, lab: &Lab<'_>, outcome: Outcome, seen: Vec<(Seen, Deltas)>) -> Vec<Record> {
        let last = outcome.windows.len().saturating_sub(1);
        let mut failure = outcome.failed.map(|failed| failure::of(&self.failed_in, failed));
        let mut records = Vec::new();
        for (place, (windowed, seen)) in outcome.windows.into_iter().zip(seen).enumerate() {
            let failure = if place == last { failure.take() } else { None };
            let is_cut = place == last && outcome.is_interrupted;
            let ending = match (&failure, is_cut) {
                (Some(_), _) => Ending::Failed,
                (None, true) => Ending::Interrupted,
                (None, false) => Ending::Complete,
            };
            records.push(Record { ending, failure, ..self.record(lab, place, windowed, seen) });
        }
        records
    }

    fn record(
        &self,
        lab: &Lab<'_>,
        place: usize,
        windowed: Windowed,
        (seen, deltas): (Seen, Deltas),
    ) -> Record {
        const HELD_UP_NS: u64 = 100_000_000;
        let spec = self.ground.options.spec.clone();
        let caches = if place == 0 { self.caches.clone() } else { Caches::WentOn };
        let late_ns = windowed.end_seen_late_ns;
        let fsop = FsopRecord {
            spec,
            phase: self.phases[place],
            repeat: self.repeat,
            tree: self.ground.tree.clone(),
            caches,
            processes: windowed.processes,
            seconds: seen.seconds,
            stream: windowed.stream,
            kernel: lab.host.kernel.clone(),
            end_seen_late_ns: late_ns,
        };
        Record {
            version: RECORD_VERSION,
            label: label(&fsop.spec, self.phases[place]),
            workload: workload_of(&fsop.spec),
            targets: vec![self.target(lab)],
            jobs: Vec::new(),
            started_unix_ns: seen.started_unix_ns,
            window_ns: windowed.window.length_ns(),
            process_cpu: deltas.process_cpu,
            system_cpu: deltas.system_cpu,
            system_events: deltas.system_events,
            devices: deltas.devices,
            page_cache: deltas.page_cache,
            suspended_ns: deltas.suspended_ns,
            held_up_ns: if late_ns >= HELD_UP_NS { late_ns } else { 0 },
            heat: deltas.heat,
            control_group: None,
            cell: None,
            fsop: Some(Box::new(fsop)),
            capture: None,
            watch: None,
            ending: Ending::Complete,
            failure: None,
            seed: self.seed,
            findings: self.findings.clone(),
        }
    }

    fn target(&self, lab: &Lab<'_>) -> TargetRecord {
        let (device_cache_bytes, device_cache_reason) = measuring::cache_bytes_assumed(&self.stack);
        TargetRecord {
            path: self.ground.tree.path.clone(),
            kind: TargetKind::OwnDirectory,
            size_bytes: self.ground.tree.bytes.unwrap_or(0),
            direct: false,
            direct_honoured: None,
            extents: None,
            is_never_read: false,
            device_cache_bytes,
            device_cache_reason,
            memory_bytes: lab.cache_memory_bytes(),
            stack: self.stack.clone(),
        }
    }
}
