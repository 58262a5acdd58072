//! The figures of a row: what is counted as one operation, and its rate, latencies and share of a core.

use fathom_base::units;
use fathom_model::record::{CpuTime, JobRecord, OpClass, Record};
use fathom_stats::{Histogram, quantile};

/// Shown for a percentile that too few operations stand behind.
pub(crate) const NOT_ENOUGH: &str = "n/a";

/// What a row counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    /// Reads and writes; a write that a sync follows ends with that sync.
    Requests,
    /// Writes with their syncs, where there is nothing else.
    Commits,
    /// Whole rounds of several requests.
    Transactions,
}

impl Counted {
    pub(crate) fn classes(self) -> &'static [OpClass] {
        match self {
            Self::Requests => &[OpClass::Read, OpClass::Write, OpClass::Commit],
            Self::Commits => &[OpClass::Commit],
            Self::Transactions => &[OpClass::Transaction],
        }
    }
}

/// The figures of one record or of one of its jobs.
#[derive(Debug, Clone)]
pub(crate) struct Figures {
    pub counted: Counted,
    /// True when syncs are part of some of the latencies of [`Counted::Requests`].
    pub with_syncs: bool,
    pub latency_ns: Histogram,
    /// Bytes of reads and writes.
    pub bytes: u64,
    pub window_ns: u64,
    pub cpu: CpuTime,
}

impl Figures {
    pub(crate) fn of_record(record: &Record) -> Self {
        Self::of_jobs(record.jobs.iter(), record.window_ns, record.process_cpu)
    }

    pub(crate) fn of_job(job: &JobRecord) -> Self {
        Self::of_jobs(std::iter::once(job), job.window_ns, job.cpu)
    }

    /// The parts of a row that counts several kinds of operations; empty when there is only one kind.
    pub(crate) fn parts(record: &Record) -> Vec<(OpClass, Self)> {
        let whole = Self::of_record(record);
        let part = |class: OpClass| {
            // The bytes of a write with its sync are those of the write.
            let moved = if class == OpClass::Commit { OpClass::SyncedWrite } else { class };
            let mut part = Self { latency_ns: Histogram::new(), bytes: 0, ..whole.clone() };
            for job in &record.jobs {
                part.latency_ns.merge(&job.merged(&[class]).latency_ns);
                part.bytes += job.merged(&[moved]).bytes;
            }
            (class, part)
        };
        let all = whole.counted.classes().iter().map(|class| part(*class));
        let parts: Vec<_> = all.filter(|(_, part)| !part.latency_ns.is_empty()).collect();
        if parts.len() > 1 { parts } else { Vec::new() }
    }

    fn of_jobs<'a>(
        jobs: impl Iterator<Item = &'a JobRecord> + Clone,
        window_ns: u64,
        cpu: CpuTime,
    ) -> Self {
        let count = |class| -> u64 {
            jobs.clone().filter_map(|j| j.class(class)).map(|c| c.latency_ns.count()).sum()
        };
        let commits = count(OpClass::Commit);
        let counted = if count(OpClass::Transaction) > 0 {
            Counted::Transactions
        } else if commits > 0 && count(OpClass::Read) + count(OpClass::Write) == 0 {
            Counted::Commits
        } else {
            Counted::Requests
        };
        let mut latency_ns = Histogram::new();
        for job in jobs.clone() {
            latency_ns.merge(&job.merged(counted.classes()).latency_ns);
        }
        Self {
            counted,
            with_syncs: counted == Counted::Requests && commits > 0,
            latency_ns,
            bytes: jobs.map(|job| job.transfers().bytes).sum(),
            window_ns,
            cpu,
        }
    }

    pub(crate) fn iops(&self) -> f64 {
        per_second(self.latency_ns.count(), self.window_ns)
    }

    /// Bytes per second; `-` where the rate is not the point.
    pub(crate) fn rate_text(&self) -> String {
        match self.counted {
            Counted::Requests => units::format_rate(per_second(self.bytes, self.window_ns)),
            Counted::Commits | Counted::Transactions => "-".to_owned(),
        }
    }

    pub(crate) fn cpu_text(&self) -> String {
        if self.window_ns == 0 {
            return "-".to_owned();
        }
        format!("{:.0} %", self.cpu.total_ns() as f64 / self.window_ns as f64 * 100.0)
    }
}

/// A number of things per second; zero for a window that has no length.
pub(crate) fn per_second(count: u64, window_ns: u64) -> f64 {
    if window_ns == 0 { 0.0 } else { count as f64 / (window_ns as f64 / 1e9) }
}

/// Operations per second: whole above ten, with one decimal below.
pub(crate) fn iops_text(iops: f64) -> String {
    if iops > 0.0 && iops < 9.95 {
        format!("{iops:.1}")
    } else {
        units::format_count(iops.round() as u64)
    }
}

/// A percentile, [`NOT_ENOUGH`] when the count does not support it, `-` when there is nothing at all.
pub(crate) fn quantile_text(latency_ns: &Histogram, q: f64) -> String {
    match latency_ns.quantile(q) {
        None => "-".to_owned(),
        Some(_) if !quantile::is_supported(latency_ns.count(), q) => NOT_ENOUGH.to_owned(),
        Some(ns) => units::format_ns(ns),
    }
}

/// Nanoseconds that may be missing.
pub(crate) fn ns_text(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), units::format_ns)
}

/// The footnote for [`NOT_ENOUGH`].
pub(crate) const NOT_ENOUGH_NOTE: &str = "n/a: too few operations (ten must lie beyond a percentile: \
    p99 needs 1 000, p99.9 needs 10 000).";
