//! `fathom quick`: about two minutes on a directory, and an answer that can be believed or says why not.

use crate::error::{ErrorClass, LabError};
use crate::lab::Lab;
use crate::run::note_failure;
use crate::target::{self, PreparedTarget};
use crate::trial::{KeepRecord, Trial, check_buffers, run_trial};
use fathom_base::shell;
use fathom_base::units::{format_duration, format_size};
use fathom_guard::place;
use fathom_model::keys;
use fathom_model::record::{Ending, Record};
use fathom_model::workload::{Job, Workload};
use fathom_study::knee::{self, Point};
use fathom_study::sweep;
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
    /// `block_size=` of the random reads and the mixed row, `threads=` and `write_fraction=` of the mixed row.
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

/// Threads of the random rows: enough that the fastest drives are not limited by the CPU time that asking takes.
const THREADS_MAX: u64 = 16;

/// Shares of the measuring time.
struct Shares;
impl Shares {
    const SEQUENTIAL: f64 = 0.13;
    const SINGLE: f64 = 0.12;
    const SWEEP_ROW: f64 = 0.048;
    const MIXED: f64 = 0.16;
    const COMMIT: f64 = 0.12;
}

/// The rows that are still to come, for progress and the expected end.
struct Ahead {
    rows: usize,
    /// Their part of the measuring time.
    share: f64,
}

impl Ahead {
    fn all() -> Self {
        let sweep = Shares::SWEEP_ROW * SWEEP.len() as f64;
        let fixed = 2.0 * Shares::SEQUENTIAL + Shares::SINGLE + Shares::MIXED + Shares::COMMIT;
        Self { rows: 5 + SWEEP.len(), share: fixed + sweep }
    }

    /// These will not be measured.
    fn skip(&mut self, rows: usize, share_each: f64) {
        self.rows = self.rows.saturating_sub(rows);
        self.share = (self.share - share_each * rows as f64).max(0.0);
    }

    /// One begins after `done` others: its number, how many there will have been at the end, and its part of the time
    /// that is left.
    fn begin(&mut self, done: usize, share: f64) -> ((u32, u32), f64) {
        let count = (done + self.rows) as u32;
        let part = (share / self.share.max(share)).min(1.0);
        self.skip(1, share);
        ((done as u32 + 1, count), part)
    }
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

/// Finds out whether the settings make sense, whatever the directory.
///
/// # Errors
/// [`LabError`] for one that is refused.
pub fn check_settings(options: &QuickOptions) -> Result<(), LabError> {
    Settings::read(options)?.largest_job().map(drop)
}

/// Finds out whether it can be done as asked, before anything is written or printed.
///
/// # Errors
/// [`LabError`] for a path that is no directory, a setting that is refused or too large.
pub fn check(lab: &Lab<'_>, options: &QuickOptions) -> Result<(), LabError> {
    let jobs = [Settings::read(options)?.largest_job()?];
    let directory = target::directory_of(&options.path)?;
    place::check_directory(&lab.root, &directory)?;
    check_buffers(lab, &jobs)?;
    target::check_fit(&jobs, &directory, u64::MAX, &target::resolve(lab, &directory)?)
}

/// Runs all rows.
///
/// # Errors
/// [`LabError`] when nothing could be measured; an interrupted or failed row ends the list instead.
pub fn quick(
    lab: &mut Lab<'_>,
    options: &QuickOptions,
    keep_record: KeepRecord<'_>,
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
        ahead: Ahead::all(),
        keep_record,
    };
    rows.sequential()?;
    let first = rows.records.len();
    rows.random(&settings, 1, Shares::SINGLE)?;
    for (step, concurrency) in SWEEP.into_iter().enumerate() {
        if rows.stopped() || knee::has_flattened(&rows.points(first)) {
            rows.ahead.skip(SWEEP.len() - step, Shares::SWEEP_ROW);
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
            let judged = keys::set(&mut probe, key, value);
            match key.as_str() {
                "block_size" => read.block_size.clone_from(value),
                "write_fraction" => read.write_fraction.clone_from(value),
                "threads" => read.threads = Some(u64::from(probe.threads)),
                _ => return Err(LabError::Usage(not_taken(options, key, value, &judged))),
            }
            judged?;
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

/// Why `quick` does not take a key, and who does.
fn not_taken(
    options: &QuickOptions,
    key: &str,
    value: &str,
    judged: &Result<(), keys::KeyError>,
) -> String {
    let takes = format!("quick takes {}, not '{key}'", KEYS.join(", "));
    match judged {
        Err(keys::KeyError::Unknown { .. }) => takes + &fathom_base::suggest::hint(key, KEYS),
        _ => format!(
            "{takes}; fathom run randomio {} {key}={value} takes them all",
            shell::path(&options.path)
        ),
    }
}

/// Chooses the size, says why, and lays out.
fn prepare(
    lab: &mut Lab<'_>,
    options: &QuickOptions,
    directory: &Path,
) -> Result<(PreparedTarget, PreparedTarget), LabError> {
    let space = target::space(lab, directory)?;
    let stack = target::resolve(lab, directory)?;
    let (cache_bytes, cache_reason) = fathom_check::cache_bytes_assumed(&stack);
    let wanted = (cache_bytes * CACHE_MULTIPLE).max(SIZE_BYTES_MIN);
    let log_bytes = (space.usable_bytes / 8).min(LOG_BYTES_MAX) >> 20 << 20;
    let usable = space.usable_bytes - log_bytes;
    let size_bytes = if options.full_span { usable } else { wanted.min(usable) } >> 20 << 20;
    if size_bytes < DATA_BYTES_MIN {
        return Err(target::no_space(lab, directory, DATA_BYTES_MIN * 8 / 7));
    }
    let limit_ns = (options.time_ns as f64 * LAYOUT_SHARE) as u64;
    let why = match (options.full_span, wanted <= usable) {
        (true, _) | (false, false) if space.is_memory => {
            "half of the free memory, in which it lies".to_owned()
        }
        (true, _) => "the whole free space but for the reserve".to_owned(),
        (false, true) if cache_bytes > 0 => format!("{CACHE_MULTIPLE} x {cache_reason}"),
        (false, true) => cache_reason,
        (false, false) => "all that the free space allows".to_owned(),
    };
    let rest_ns = options.time_ns - limit_ns;
    let time = if options.full_span {
        format!("About {} when that is written.", format_duration(rest_ns))
    } else {
        format!("About {}.", format_duration(options.time_ns))
    };
    lab.note(format!(
        "Test file {} of {} free: {why}. Direct I/O. {time}",
        format_size(size_bytes),
        format_size(space.free_bytes),
    ));
    let limit = (!options.full_span).then_some(limit_ns);
    let data = target::own_file(lab, directory, "data", size_bytes, limit, rest_ns)
        .map_err(|error| through_the_cache(error, directory))?;
    if data.size_bytes() < size_bytes {
        lab.note(format!(
            "Laying out took its share of the time: the test file has {} (--time=10m allows more).",
            format_size(data.size_bytes())
        ));
    }
    let log = data.sibling_empty("log", log_bytes)?;
    Ok((data, log))
}

/// Names what measures where there is no direct I/O, which all rows take.
fn through_the_cache(error: LabError, directory: &Path) -> LabError {
    match error {
        LabError::Target { path, reason, class: ErrorClass::Missing } => {
            let directory = shell::path(directory);
            let reason = format!("{reason}: fathom run randomio {directory} direct=no");
            LabError::Target { path, reason, class: ErrorClass::Missing }
        }
        other => other,
    }
}

struct Rows<'r, 'l> {
    lab: &'r mut Lab<'l>,
    data: &'r PreparedTarget,
    log: &'r PreparedTarget,
    measuring_ns: u64,
    records: Vec<Record>,
    ahead: Ahead,
    keep_record: KeepRecord<'r>,
}

impl Rows<'_, '_> {
    /// True when a row ended early: the rest would say nothing.
    fn stopped(&self) -> bool {
        self.records.last().is_some_and(|r| r.ending != Ending::Complete)
    }

    fn points(&self, first: usize) -> Vec<Point> {
        self.records.get(first..).unwrap_or_default().iter().map(sweep::point).collect()
    }

    fn sequential(&mut self) -> Result<(), LabError> {
        // Without rings, as in many containers, threads take their place: more than one would be more than one stream.
        let depth = if fathom_sys::ring::supported_features().is_ok() { "4" } else { "1" };
        let pairs = [("access", "sequential"), ("block_size", "1M"), ("depth", depth)];
        self.fixed("sequential read", &pairs, Shares::SEQUENTIAL)?;
        let writes = [("write_fraction", "1"), ("sync_at_end", "fdatasync")];
        self.fixed("sequential write", &[&pairs[..], &writes].concat(), Shares::SEQUENTIAL)
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

    /// Threads x depth for a number of requests in flight: as many threads as processors, up to [`THREADS_MAX`].
    fn split(&self, concurrency: u64) -> (String, String) {
        let cpus = self
            .lab
            .host
            .cpus_allowed
            .or(self.lab.host.cpus_online)
            .unwrap_or(1)
            .clamp(1, THREADS_MAX);
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
        // What rows before it did not need, as a sweep that was cut short, goes to those that are left.
        let done_ns: u64 = self.records.iter().map(|r| r.window_ns).sum();
        let left_ns = self.measuring_ns.saturating_sub(done_ns);
        let (position, part) = self.ahead.begin(self.records.len(), share);
        let duration_ns = ((left_ns as f64 * part) as u64).max(1_000_000_000);
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
            tracked: Vec::new(),
        };
        let trial = Trial {
            label: label.into(),
            workload: &workload,
            targets: vec![if on_log { self.log } else { self.data }],
            seed: self.lab.seeds.next_u64(),
            rest_after_ns: left_ns.saturating_sub(duration_ns),
            position,
        };
        self.records.push(run_trial(self.lab, &trial, self.keep_record)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_not_taken_is_answered_with_those_that_are() {
        let refused = |key: &str| {
            let settings = vec![(key.to_owned(), "3".to_owned())];
            let options =
                QuickOptions { path: "/srv".into(), time_ns: 0, full_span: false, settings };
            check_settings(&options).expect_err(key).to_string()
        };
        let takes = "quick takes threads, write_fraction, block_size, not";
        assert_eq!(refused("tm"), format!("{takes} 'tm'"));
        assert_eq!(refused("thread"), format!("{takes} 'thread'; did you mean 'threads'?"));
        let all = "; fathom run randomio /srv depth=3 takes them all";
        assert_eq!(refused("depth"), format!("{takes} 'depth'{all}"));
    }

    /// What progress shows when the sweep is cut short after some steps.
    fn positions(sweep_steps: usize) -> Vec<(u32, u32)> {
        let mut ahead = Ahead::all();
        let mut shown = Vec::new();
        let mut left = 1.0;
        let mut begin = |ahead: &mut Ahead, share| {
            let (position, part) = ahead.begin(shown.len(), share);
            shown.push(position);
            left -= left * part;
        };
        for share in [Shares::SEQUENTIAL, Shares::SEQUENTIAL, Shares::SINGLE] {
            begin(&mut ahead, share);
        }
        (0..sweep_steps).for_each(|_| begin(&mut ahead, Shares::SWEEP_ROW));
        ahead.skip(SWEEP.len() - sweep_steps, Shares::SWEEP_ROW);
        begin(&mut ahead, Shares::MIXED);
        begin(&mut ahead, Shares::COMMIT);
        assert!(f64::abs(left) < 1e-9, "the time is used up: {left}");
        assert!(ahead.share.abs() < 1e-9 && ahead.rows == 0);
        shown
    }

    #[test]
    fn the_last_row_shown_is_the_last_there_is() {
        for steps in 0..=SWEEP.len() {
            let shown = positions(steps);
            let rows = 5 + steps as u32;
            assert_eq!(shown.last(), Some(&(rows, rows)));
            assert!(shown.iter().zip(1..).all(|((number, _), expected)| *number == expected));
            assert!(shown.windows(2).all(|pair| pair[1].1 <= pair[0].1), "it only shrinks");
        }
        assert!(Ahead::all().share <= 1.0);
    }
}
