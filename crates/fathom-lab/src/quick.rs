//! `fathom quick`: about two minutes on a directory, and an answer that can be believed or says why not.

use crate::error::LabError;
use crate::lab::Lab;
use crate::run::note_failure;
use crate::target::{self, PreparedTarget};
use crate::trial::{Trial, check_buffers, run_trial};
use fathom_base::units::{format_duration, format_size};
use fathom_model::event::Event;
use fathom_model::keys;
use fathom_model::record::{Ending, Record};
use fathom_model::workload::{Job, Workload};
use fathom_study::knee::{self, Point};
use fathom_sys::clock;
use std::path::{Path, PathBuf};

/// What `quick` is asked to do.
#[derive(Debug, Clone)]
pub struct QuickOptions {
    /// A directory, or a file that will not be touched itself: its directory is tested.
    pub path: PathBuf,
    /// The whole time, lay-out included.
    pub time_ns: u64,
    /// Cover the whole free space.
    pub full_span: bool,
    /// `threads=`, `write_fraction=` and `block_size=` of the random rows.
    pub settings: Vec<(String, String)>,
}

/// Shortest and longest time that makes sense.
pub const TIME_NS_MIN: u64 = 30_000_000_000;
/// See [`TIME_NS_MIN`].
pub const TIME_NS_MAX: u64 = 3_600_000_000_000;
/// The keys that `quick` takes.
pub const KEYS: [&str; 3] = ["threads", "write_fraction", "block_size"];

/// Share of the time that laying out may take.
const LAYOUT_SHARE: f64 = 0.4;
/// The test file is this many times the caches below.
const CACHE_MULTIPLE: u64 = 16;
/// And not smaller than this, where there is space.
const SIZE_BYTES_MIN: u64 = 1 << 30;
/// Size of the log of the commit row, where there is space; it takes only what is appended.
const LOG_BYTES_MAX: u64 = 1 << 30;
/// Below this there is nothing to be learnt.
const DATA_BYTES_MIN: u64 = 64 << 20;
/// Requests in flight of the sweep after the row with one.
const SWEEP: [u64; 7] = [4, 8, 16, 32, 64, 128, 256];

/// Shares of the measuring time.
struct Shares;
impl Shares {
    const SEQUENTIAL: f64 = 0.13;
    const SINGLE: f64 = 0.12;
    const SWEEP_ROW: f64 = 0.048;
    const MIXED: f64 = 0.16;
    const COMMIT: f64 = 0.12;
}

/// What came out.
#[derive(Debug, Clone)]
pub struct QuickOutcome {
    /// All rows in the order in which they were measured.
    pub records: Vec<Record>,
    /// Index of the row from which on more requests in flight bring no more.
    pub knee: Option<usize>,
    /// Indexes of the rows that the table shows.
    pub shown: Vec<usize>,
}

/// Finds out whether it can be done as asked, before anything is written or printed.
///
/// # Errors
/// [`LabError`] for a path that is no directory, a setting that is refused or too large.
pub fn check(lab: &Lab<'_>, options: &QuickOptions) -> Result<(), LabError> {
    let jobs = [Settings::read(options)?.largest_job()?];
    let directory = target::directory_of(&options.path)?;
    check_buffers(lab, &jobs)?;
    target::check_fit(&jobs, &directory, u64::MAX, &target::resolve(lab, &directory)?)
}

/// Runs all rows. Each finished record goes to `keep_record` at once, between two measurements.
///
/// # Errors
/// [`LabError`] when nothing could be measured; an interrupted or failed row ends the list instead.
pub fn quick(
    lab: &mut Lab<'_>,
    options: &QuickOptions,
    keep_record: &mut dyn FnMut(&Record) -> Result<(), LabError>,
) -> Result<QuickOutcome, LabError> {
    let settings = Settings::read(options)?;
    let directory = target::directory_of(&options.path)?;
    let started_ns = clock::monotonic_ns();
    let (data, log) = prepare(lab, options, &directory)?;
    // What laying out did not need goes to the rows.
    let left_ns = options.time_ns.saturating_sub(clock::monotonic_ns() - started_ns);
    let mut rows = Rows {
        lab,
        data: &data,
        log: &log,
        measuring_ns: left_ns.max((options.time_ns as f64 * (1.0 - LAYOUT_SHARE)) as u64),
        records: Vec::new(),
        keep_record,
    };
    rows.fixed(
        "sequential read",
        &[("access", "sequential"), ("block_size", "1M"), ("depth", "4")],
        Shares::SEQUENTIAL,
    )?;
    rows.fixed(
        "sequential write",
        &[
            ("access", "sequential"),
            ("block_size", "1M"),
            ("depth", "4"),
            ("write_fraction", "1"),
            ("sync_at_end", "fdatasync"),
        ],
        Shares::SEQUENTIAL,
    )?;
    let first = rows.records.len();
    rows.random(&settings, 1, Shares::SINGLE)?;
    for concurrency in SWEEP {
        if rows.stopped() || knee::has_flattened(&rows.points(first)) {
            break;
        }
        rows.random(&settings, concurrency, Shares::SWEEP_ROW)?;
    }
    let points = rows.points(first);
    let knee_at = knee::knee(&points);
    // Where it still grows at the end, the end is the most that was tried.
    let most = knee_at.map_or(points.last(), |i| points.get(i)).map(|p| p.concurrency.min(64));
    let concurrency = settings.threads.or(most).unwrap_or(16);
    rows.mixed(&settings, concurrency)?;
    rows.commit()?;
    let records = rows.records;
    if records.is_empty() {
        return Err(LabError::Interrupted);
    }
    if lab.keep {
        drop(log);
        match data.keep() {
            Ok(Some(path)) => lab.note(format!("Kept: {}", path.display())),
            other => note_failure(lab, other.map(|_| ())),
        }
    } else {
        note_failure(lab, data.remove());
    }
    let last_random = first + points.len().saturating_sub(1);
    let knee = knee_at.map(|i| first + i);
    let shown = (0..records.len())
        .filter(|i| *i <= first || *i >= last_random || Some(*i) == knee)
        .collect();
    Ok(QuickOutcome { records, knee, shown })
}

/// What the user set.
struct Settings {
    block_size: String,
    write_fraction: String,
    threads: Option<u64>,
}

impl Settings {
    fn read(options: &QuickOptions) -> Result<Self, LabError> {
        let mut read =
            Self { block_size: "4k".into(), write_fraction: "0.2".into(), threads: None };
        for (key, value) in &options.settings {
            // The one table of keys judges the value; only then is it taken as text.
            let mut probe = Job::default();
            keys::set(&mut probe, key, value)?;
            match key.as_str() {
                "block_size" => read.block_size.clone_from(value),
                "write_fraction" => read.write_fraction.clone_from(value),
                "threads" => read.threads = Some(u64::from(probe.threads)),
                _ => {
                    let known = KEYS.join(", ");
                    return Err(LabError::Usage(format!(
                        "quick takes {known}, not '{key}'; fathom run randomio {} {key}={value} takes them all",
                        options.path.display()
                    )));
                }
            }
        }
        Ok(read)
    }

    /// The random row with the most requests in flight.
    fn largest_job(&self) -> Result<Job, LabError> {
        let most = self.threads.unwrap_or(0).max(SWEEP[SWEEP.len() - 1]);
        let mut job = Job { name: "random read".into(), ..Job::default() };
        keys::set(&mut job, "block_size", &self.block_size)?;
        keys::set(&mut job, "depth", &most.to_string())?;
        Ok(job)
    }
}

/// Chooses the size, says why, and lays out.
fn prepare(
    lab: &mut Lab<'_>,
    options: &QuickOptions,
    directory: &Path,
) -> Result<(PreparedTarget, PreparedTarget), LabError> {
    let space = target::space(directory)?;
    let stack = target::resolve(lab, directory)?;
    let (cache_bytes, cache_reason) = fathom_inspect::rules::cache_bytes_assumed(&stack);
    let wanted = (cache_bytes * CACHE_MULTIPLE).max(SIZE_BYTES_MIN);
    let log_bytes = (space.usable_bytes / 8).min(LOG_BYTES_MAX) >> 20 << 20;
    let usable = space.usable_bytes - log_bytes;
    let size_bytes = if options.full_span { usable } else { wanted.min(usable) } >> 20 << 20;
    if size_bytes < DATA_BYTES_MIN {
        return Err(target::no_space(directory, DATA_BYTES_MIN * 8 / 7));
    }
    let limit_ns = (options.time_ns as f64 * LAYOUT_SHARE) as u64;
    let why = match (options.full_span, wanted <= usable) {
        (true, _) => "the whole free space but for the reserve".to_owned(),
        (false, true) if cache_bytes > 0 => format!("{CACHE_MULTIPLE} x {cache_reason}"),
        (false, true) => cache_reason,
        (false, false) => "all that the free space allows".to_owned(),
    };
    lab.note(format!(
        "Test file {} of {} free: {why}. Direct I/O. About {}.",
        format_size(size_bytes),
        format_size(space.free_bytes),
        format_duration(options.time_ns)
    ));
    let rest_ns = options.time_ns - limit_ns;
    let limit = (!options.full_span).then_some(limit_ns);
    let data = target::own_file(lab, directory, "data", size_bytes, limit, rest_ns)?;
    if data.size_bytes() < size_bytes {
        lab.note(format!(
            "Laying out took its share of the time: the test file has {} (--time=10m allows more).",
            format_size(data.size_bytes())
        ));
    }
    let log = data.sibling_empty("log", log_bytes)?;
    Ok((data, log))
}

struct Rows<'r, 'l> {
    lab: &'r mut Lab<'l>,
    data: &'r PreparedTarget,
    log: &'r PreparedTarget,
    measuring_ns: u64,
    records: Vec<Record>,
    keep_record: &'r mut dyn FnMut(&Record) -> Result<(), LabError>,
}

impl Rows<'_, '_> {
    /// True when a row ended early: the rest would say nothing.
    fn stopped(&self) -> bool {
        self.records.last().is_some_and(|r| r.ending != Ending::Complete)
    }

    fn points(&self, first: usize) -> Vec<Point> {
        let of = |r: &Record| Point {
            concurrency: r.workload.jobs.iter().map(Job::concurrency).sum(),
            iops: r.jobs.iter().map(|j| j.transfers().latency_ns.count()).sum::<u64>() as f64
                / (r.window_ns.max(1) as f64 / 1e9),
        };
        self.records.get(first..).unwrap_or_default().iter().map(of).collect()
    }

    fn fixed(&mut self, label: &str, pairs: &[(&str, &str)], share: f64) -> Result<(), LabError> {
        self.row(label, pairs, share, false)
    }

    fn random(
        &mut self,
        settings: &Settings,
        concurrency: u64,
        share: f64,
    ) -> Result<(), LabError> {
        let (threads, depth) = self.split(concurrency);
        let pairs = [
            ("block_size", settings.block_size.as_str()),
            ("threads", &threads),
            ("depth", &depth),
        ];
        self.row(&format!("random read, {concurrency} in flight"), &pairs, share, false)
    }

    fn mixed(&mut self, settings: &Settings, concurrency: u64) -> Result<(), LabError> {
        let (threads, depth) = self.split(concurrency);
        let share = fathom_base::units::parse_fraction(&settings.write_fraction).unwrap_or(0.2);
        let sync = if share > 0.0 { "0.1" } else { "0" };
        let pairs = [
            ("block_size", settings.block_size.as_str()),
            ("threads", &threads),
            ("depth", &depth),
            ("write_fraction", &settings.write_fraction),
            ("fsync_fraction", sync),
        ];
        let label = format!("mixed ({:.0} % writes), {concurrency}", share * 100.0);
        self.row(&label, &pairs, Shares::MIXED, false)
    }

    fn commit(&mut self) -> Result<(), LabError> {
        let pairs = [
            ("access", "append"),
            ("engine", "psync"),
            ("block_size", "4k"),
            ("direct", "no"),
            ("write_fraction", "1"),
            ("fsync_every", "1"),
            ("sync_call", "fdatasync"),
        ];
        self.row("commit (append + fdatasync)", &pairs, Shares::COMMIT, true)
    }

    /// Threads x depth for a number of requests in flight: as many threads as processors, four at the most.
    fn split(&self, concurrency: u64) -> (String, String) {
        let cpus =
            self.lab.host.cpus_allowed.or(self.lab.host.cpus_online).unwrap_or(1).clamp(1, 4);
        let threads = (1..=cpus).rev().find(|t| concurrency.is_multiple_of(*t)).unwrap_or(1);
        (threads.to_string(), (concurrency / threads).to_string())
    }

    fn row(
        &mut self,
        label: &str,
        pairs: &[(&str, &str)],
        share: f64,
        on_log: bool,
    ) -> Result<(), LabError> {
        if self.stopped() || self.lab.stop.is_set() {
            return Ok(());
        }
        let duration_ns = ((self.measuring_ns as f64 * share) as u64).max(1_000_000_000);
        let mut job =
            Job { name: "quick".into(), duration_ns: Some(duration_ns), ..Job::default() };
        for (key, value) in pairs {
            keys::set(&mut job, key, value)?;
        }
        keys::check(&job)?;
        let workload = Workload {
            name: "quick".into(),
            title: label.into(),
            description: String::new(),
            classic: None,
            jobs: vec![job],
        };
        let done_ns: u64 = self.records.iter().map(|r| r.window_ns).sum();
        let trial = Trial {
            label: label.into(),
            workload: &workload,
            targets: vec![if on_log { self.log } else { self.data }],
            seed: self.lab.seeds.next_u64(),
            rest_after_ns: self.measuring_ns.saturating_sub(done_ns + duration_ns),
            position: (self.records.len() as u32 + 1, 5 + SWEEP.len() as u32),
        };
        let record = run_trial(self.lab, &trial)?;
        (self.keep_record)(&record)?;
        (self.lab.emit)(Event::TrialFinished { record: Box::new(record.clone()) });
        self.records.push(record);
        Ok(())
    }
}
