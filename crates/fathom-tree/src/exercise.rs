//! Exercises files at random and compares every byte that is read with what must be there: `fathom run exercise`.
//!
//! The files have no names, so that they are gone with this process however it ends, and nobody else writes to them. What
//! is done follows from the seed, one thread for each file; [`model`] knows what must be there.

pub mod file;
pub mod model;
pub mod settings;

use crate::error::TreeError;
use fathom_base::order::Order;
use fathom_guard::OwnedDir;
use fathom_guard::place;
use fathom_sys::clock;
use fathom_sys::counters;
use fathom_sys::dirfd::Dir;
use fathom_sys::holes;
use fathom_sys::signals::StopFlag;
use fathom_sys::sysroot::SysRoot;
use file::{Broken, Exercised};
use model::{Kind, Model};
use serde::Serialize;
use settings::{Direct, Settings};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often progress is told.
const TICK: Duration = Duration::from_millis(500);
/// How often it is looked whether the threads are done.
const POLL: Duration = Duration::from_millis(5);

/// What an exercise needs.
pub struct Exercise<'a> {
    /// The system.
    pub root: &'a SysRoot,
    /// Where the journal lies.
    pub state_dir: &'a Path,
    /// The run.
    pub run_id: &'a str,
    /// Seed of all that is done.
    pub seed: u64,
    /// What is done.
    pub settings: &'a Settings,
    /// Says that somebody wants the end.
    pub stop: &'a StopFlag,
    /// Is told how many operations were done, and how many there are where that is known.
    pub progress: &'a mut dyn FnMut(u64, Option<u64>),
}

/// What was wrong with a file.
#[derive(Debug, Clone, Serialize)]
pub struct Wrong {
    /// The file, from 0.
    pub file: u64,
    /// The operation that showed it; 0 for the comparison at the end.
    pub operation: u64,
    /// What was wrong, in a line.
    pub what: String,
    /// The first byte that differs, where bytes differ.
    pub offset_bytes: Option<u64>,
    /// Bytes that differ, of those that the operation read.
    pub wrong_bytes: u64,
    /// What must be there, from that byte on, in hexadecimal.
    pub expected: String,
    /// What is there.
    pub found: String,
    /// The operation that last changed that byte.
    pub changed_by: Option<u64>,
    /// The last operations, the one that showed it at the end.
    pub log: Vec<String>,
    /// True when the system failed, and nothing wrong was read.
    pub is_error: bool,
    /// True when it failed because there is no space.
    pub is_full: bool,
}

/// What an exercise came to.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The directory.
    pub path: PathBuf,
    /// Seed of all that was done.
    pub seed: u64,
    /// Files.
    pub files: u64,
    /// Operations done.
    pub operations: u64,
    /// Operations by kind.
    pub by_kind: Vec<(Kind, u64)>,
    /// Bytes that operations covered.
    pub bytes: u64,
    /// Kinds that the filesystem cannot, with its answer.
    pub dropped: Vec<(Kind, String)>,
    /// What was wrong, one at most for each file.
    pub wrong: Vec<Wrong>,
    /// A signal ended it.
    pub interrupted: bool,
    /// Time, nanoseconds.
    pub took_ns: u64,
}

/// What a thread gives back of its file.
struct FileReport {
    done: [u64; Kind::WEIGHTS.len()],
    bytes: u64,
    dropped: Vec<(Kind, String)>,
    wrong: Option<Wrong>,
}

/// What the threads share.
struct Shared {
    operations: AtomicU64,
    is_over: AtomicBool,
    until_ns: Option<u64>,
}

impl Exercise<'_> {
    /// Exercises files in a directory until the operations or the time are used up, something is wrong, or a signal comes.
    ///
    /// # Errors
    /// When it could not begin. What was wrong with files is part of the report.
    pub fn run(&mut self, dir: &Path) -> Result<Report, TreeError> {
        let settings = self.settings;
        let path = place::check_directory(self.root, dir)?;
        place::check_space(&path, settings.size_bytes.saturating_mul(settings.files))?;
        check_memory(self.root, settings)?;
        let mut files = Vec::new();
        for number in 0..settings.files {
            files.push((number, self.begin(&path, number)?));
        }
        let started_ns = clock::monotonic_ns();
        let shared = Shared {
            operations: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            until_ns: settings.duration_ns.map(|ns| started_ns.saturating_add(ns)),
        };
        let all = settings.operations.map(|operations| operations.saturating_mul(settings.files));
        let (stop, shared_ref, progress) = (self.stop, &shared, &mut self.progress);
        let reports = std::thread::scope(|scope| {
            let run = |(number, file)| {
                let body = move || one_file(number, file, settings, stop, shared_ref);
                std::thread::Builder::new().spawn_scoped(scope, body)
            };
            let threads: Vec<_> = files.into_iter().map(run).collect();
            let is_running = |threads: &[io::Result<std::thread::ScopedJoinHandle<'_, _>>]| {
                threads.iter().flatten().any(|thread| !thread.is_finished())
            };
            let mut last_told = Instant::now();
            while is_running(&threads) {
                std::thread::sleep(POLL);
                if last_told.elapsed() >= TICK {
                    last_told = Instant::now();
                    progress(shared_ref.operations.load(Ordering::Relaxed), all);
                }
            }
            let joined = |thread: io::Result<std::thread::ScopedJoinHandle<'_, FileReport>>| {
                thread.and_then(|thread| {
                    thread.join().map_err(|_| io::Error::other("a thread panicked"))
                })
            };
            threads.into_iter().map(joined).collect::<io::Result<Vec<FileReport>>>()
        });
        let reports = reports.map_err(TreeError::io("start threads for", &path))?;
        Ok(self.report(path, reports, clock::monotonic_ns() - started_ns))
    }

    /// Makes a file without a name and its model.
    fn begin(&self, path: &Path, number: u64) -> Result<Exercised, TreeError> {
        let failed = |doing| TreeError::io(doing, path);
        let dir = Dir::open(path).map_err(failed("open"))?;
        let anchor = match holes::open_unnamed(&dir) {
            Err(error) if holes::is_unsupported(&error) => self.unlinked(path)?,
            other => other.map_err(failed("make a file in"))?,
        };
        let model = Model::new(self.seed, number, self.settings.size_bytes);
        let made = Exercised::new(anchor, model, self.settings.log);
        let mut made = made.map_err(failed("open a new file in"))?;
        if self.settings.direct == Direct::No {
            made.drop_kind(Kind::ReopenDirect, "direct=no");
        }
        Ok(made)
    }

    /// A file that had a name, where there are none without: in a directory of ours, until both are gone.
    fn unlinked(&self, path: &Path) -> Result<File, TreeError> {
        const NAME: &str = "exercise";
        let mut dir = OwnedDir::create(self.root, path, self.run_id, self.state_dir)?;
        let file = dir.create_file(NAME)?;
        let removed = Dir::open(dir.path()).and_then(|dir| dir.unlink(NAME));
        removed.map_err(TreeError::io("remove a file in", path))?;
        dir.remove()?;
        Ok(file)
    }

    fn report(&self, path: PathBuf, reports: Vec<FileReport>, took_ns: u64) -> Report {
        let sum = |index: usize| reports.iter().map(|report| report.done[index]).sum();
        let by_kind: Vec<(Kind, u64)> =
            Kind::WEIGHTS.iter().enumerate().map(|(at, (kind, _))| (*kind, sum(at))).collect();
        let mut dropped: Vec<(Kind, String)> =
            reports.iter().flat_map(|report| report.dropped.clone()).collect();
        dropped.order();
        dropped.dedup_by_key(|one| one.0);
        Report {
            path,
            seed: self.seed,
            files: self.settings.files,
            operations: by_kind.iter().map(|one| one.1).sum(),
            by_kind,
            bytes: reports.iter().map(|report| report.bytes).sum(),
            dropped,
            wrong: reports.into_iter().filter_map(|report| report.wrong).collect(),
            interrupted: self.stop.is_set(),
            took_ns,
        }
    }
}

/// Makes sure that what the files must hold, and where they lie in memory they themselves, fit into half of what is free.
fn check_memory(root: &SysRoot, settings: &Settings) -> Result<(), TreeError> {
    // The content, which grows by halves, and for each byte the operation that last changed it.
    const MEMORY_PER_BYTE: u64 = 6;
    let size_bytes = settings.size_bytes.saturating_mul(settings.files);
    let wanted_bytes = size_bytes.saturating_mul(MEMORY_PER_BYTE);
    match counters::memory_available_bytes(root).map(|free| free / 2) {
        Some(most_bytes) if wanted_bytes > most_bytes => {
            Err(TreeError::Memory { wanted_bytes, most_bytes })
        }
        _ => Ok(()),
    }
}

/// Exercises one file to its end.
fn one_file(
    number: u64,
    mut file: Exercised,
    settings: &Settings,
    stop: &StopFlag,
    shared: &Shared,
) -> FileReport {
    let mut broken = None;
    let mut count = 0;
    let goes_on = |count: u64| {
        let is_time = shared.until_ns.is_none_or(|until| clock::monotonic_ns() < until);
        let is_left = settings.operations.is_none_or(|operations| count < operations);
        is_time && is_left && !stop.is_set() && !shared.is_over.load(Ordering::Relaxed)
    };
    while goes_on(count) && broken.is_none() {
        broken = file.step().err();
        count += 1;
        shared.operations.fetch_add(1, Ordering::Relaxed);
    }
    let mut operation = count;
    if broken.is_none() && !stop.is_set() {
        broken = file.finish().err();
        operation = 0;
    }
    if broken.is_some() {
        shared.is_over.store(true, Ordering::Relaxed);
    }
    let wrong = broken.map(|broken| wrong(number, operation, broken, &file));
    FileReport { done: file.done, bytes: file.bytes, dropped: file.dropped, wrong }
}

fn wrong(number: u64, operation: u64, broken: Broken, file: &Exercised) -> Wrong {
    let mut wrong = Wrong {
        file: number,
        operation,
        what: String::new(),
        offset_bytes: None,
        wrong_bytes: 0,
        expected: String::new(),
        found: String::new(),
        changed_by: None,
        log: file.log.iter().map(ToString::to_string).collect(),
        is_error: false,
        is_full: false,
    };
    match broken {
        Broken::Different(difference) => {
            wrong.what = format!(
                "{} wrong bytes, the first at offset {}",
                difference.wrong_bytes, difference.offset_bytes
            );
            wrong.offset_bytes = Some(difference.offset_bytes);
            wrong.wrong_bytes = difference.wrong_bytes;
            wrong.expected = hex(&difference.expected);
            wrong.found = hex(&difference.found);
            wrong.changed_by = Some(difference.changed_by);
        }
        Broken::Size(expected, found) => {
            wrong.what = format!("the file has {found} bytes instead of {expected}");
        }
        Broken::Short(expected, found) => {
            wrong.what = format!("{found} bytes were read or written instead of {expected}");
        }
        Broken::Io(error) => {
            wrong.what = error.to_string();
            wrong.is_error = true;
            wrong.is_full =
                matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        }
    }
    wrong
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
#[path = "exercise/tests.rs"]
mod tests;
