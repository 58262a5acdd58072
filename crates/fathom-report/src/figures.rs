//! The figures of a row: what is counted as one operation, and its rate, latencies and share of a core.

use fathom_base::units;
use fathom_model::record::{CpuTime, JobRecord, OpClass, Record};
use fathom_stats::{Histogram, quantile};

/// Shown for a percentile that too few operations stand behind.
pub const NOT_ENOUGH: &str = "n/a";

/// What a row counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Reads and writes; a write that a sync follows ends with that sync.
    Requests,
    /// Writes with their syncs, where there is nothing else.
    Commits,
    /// Whole rounds of several requests.
    Transactions,
    /// Files created, looked up or deleted.
    Names,
}

impl Counted {
    /// The classes of operations that are counted.
    #[must_use]
    pub fn classes(self) -> &'static [OpClass] {
        match self {
            Self::Requests => {
                &[OpClass::Read, OpClass::Write, OpClass::Commit, OpClass::Trim, OpClass::Zero]
            }
            Self::Commits => &[OpClass::Commit],
            Self::Transactions => &[OpClass::Transaction],
            Self::Names => &OpClass::ON_NAMES,
        }
    }
}

/// The figures of one record or of one of its jobs.
#[derive(Debug, Clone)]
pub struct Figures {
    /// What is one operation.
    pub counted: Counted,
    /// True when syncs are part of some of the latencies of [`Counted::Requests`].
    pub with_syncs: bool,
    /// Latencies of all that is counted.
    pub latency_ns: Histogram,
    /// Operations per second: the sum of what each job did in its own window.
    pub iops: f64,
    /// Bytes of reads and writes per second, summed likewise.
    pub bytes_per_s: f64,
    /// Length of the window.
    pub window_ns: u64,
    /// CPU time in it.
    pub cpu: CpuTime,
}

impl Figures {
    /// Of a record.
    #[must_use]
    pub fn of_record(record: &Record) -> Self {
        Self::of_jobs(record.jobs.iter(), record.window_ns, record.process_cpu)
    }

    /// Of one job.
    #[must_use]
    pub fn of_job(job: &JobRecord) -> Self {
        Self::of_jobs(std::iter::once(job), job.window_ns, job.cpu)
    }

    /// The parts of a row that counts several kinds of operations; empty when there is only one kind.
    #[must_use]
    pub fn parts(record: &Record) -> Vec<(OpClass, Self)> {
        let whole = Self::of_record(record);
        let part = |class: OpClass| {
            // The bytes of a write with its sync are those of the write.
            let moved = if class == OpClass::Commit { OpClass::SyncedWrite } else { class };
            let mut part = whole.clone();
            part.sum(record.jobs.iter(), &[class], &[moved]);
            (class, part)
        };
        let all = whole.counted.classes().iter().map(|class| part(*class));
        let parts: Vec<_> = all.filter(|(_, part)| !part.latency_ns.is_empty()).collect();
        if parts.len() > 1 { parts } else { Vec::new() }
    }

    /// Of jobs that ran side by side, with the window and CPU time of all.
    pub fn of_jobs<'a>(
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
        } else if OpClass::ON_NAMES.map(count) != [0; 3] {
            Counted::Names
        } else if commits > 0
            && [OpClass::Read, OpClass::Write, OpClass::Trim, OpClass::Zero].map(count) == [0; 4]
        {
            Counted::Commits
        } else {
            Counted::Requests
        };
        let mut figures = Self {
            counted,
            with_syncs: counted == Counted::Requests && commits > 0,
            latency_ns: Histogram::new(),
            iops: 0.0,
            bytes_per_s: 0.0,
            window_ns,
            cpu,
        };
        let moved = [OpClass::Read, OpClass::Write, OpClass::SyncedWrite];
        figures.sum(jobs, counted.classes(), &moved);
        figures
    }

    /// Adds the jobs up: operations of some classes, bytes of others. Jobs that run side by side need not end
    /// together, so that each rate is over the job's own window.
    fn sum<'a>(
        &mut self,
        jobs: impl Iterator<Item = &'a JobRecord>,
        counted: &[OpClass],
        moved: &[OpClass],
    ) {
        (self.latency_ns, self.iops, self.bytes_per_s) = (Histogram::new(), 0.0, 0.0);
        for job in jobs {
            let operations = job.merged(counted).latency_ns;
            self.iops += per_second(operations.count(), job.window_ns);
            self.bytes_per_s += per_second(job.merged(moved).bytes, job.window_ns);
            self.latency_ns.merge(&operations);
        }
    }

    /// Bytes per second; `-` where the rate is not the point.
    #[must_use]
    pub fn rate_text(&self) -> String {
        match self.counted {
            Counted::Requests => units::format_rate(self.bytes_per_s),
            Counted::Commits | Counted::Transactions | Counted::Names => "-".to_owned(),
        }
    }

    /// CPU time as a share of one core; none of a window so short that starting and ending threads is most of it.
    #[must_use]
    pub fn cpu_text(&self) -> String {
        const WINDOW_NS_MIN: u64 = 1_000_000;
        if self.window_ns < WINDOW_NS_MIN {
            return "-".to_owned();
        }
        format!("{:.0} %", self.cpu.total_ns() as f64 / self.window_ns as f64 * 100.0)
    }
}

/// A number of things per second; zero for a window that has no length.
#[must_use]
pub fn per_second(count: u64, window_ns: u64) -> f64 {
    if window_ns == 0 { 0.0 } else { count as f64 / (window_ns as f64 / 1e9) }
}

/// Operations per second: whole above ten, with one decimal below.
#[must_use]
pub fn iops_text(iops: f64) -> String {
    if iops > 0.0 && iops < 9.95 {
        format!("{iops:.1}")
    } else {
        units::format_count(iops.round() as u64)
    }
}

/// A percentile, [`NOT_ENOUGH`] when the count does not support it, `-` when there is nothing at all.
#[must_use]
pub fn quantile_text(latency_ns: &Histogram, q: f64) -> String {
    match latency_ns.quantile(q) {
        None => "-".to_owned(),
        Some(_) if !quantile::is_supported(latency_ns.count(), q) => NOT_ENOUGH.to_owned(),
        Some(ns) => units::format_ns(ns),
    }
}

/// Nanoseconds that may be missing.
#[must_use]
pub fn ns_text(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), units::format_ns)
}

/// The percentiles of a table that are shown as [`NOT_ENOUGH`], for its footnote.
#[derive(Debug, Default)]
pub struct NotEnough {
    /// Names of percentiles and the numbers of operations that they need.
    needed: Vec<(&'static str, u64)>,
}

impl NotEnough {
    /// Notes those of a row.
    pub fn look_at(&mut self, latency_ns: &Histogram, percentiles: &[(&'static str, f64)]) {
        let missing = |q: f64| !quantile::is_supported(latency_ns.count(), q);
        for (name, q) in percentiles.iter().filter(|(_, q)| missing(*q)) {
            let needed = (*name, quantile::values_needed(*q));
            if !latency_ns.is_empty() && !self.needed.contains(&needed) {
                self.needed.push(needed);
            }
        }
    }

    /// The footnote; none where every percentile is shown.
    pub fn note(mut self) -> Option<String> {
        self.needed.sort_by_key(|(_, count)| *count);
        let needs =
            |(name, count): &(&str, u64)| format!("{name} needs {}", units::format_count(*count));
        let all: Vec<String> = self.needed.iter().map(needs).collect();
        (!all.is_empty()).then(|| {
            format!(
                "n/a: too few operations (ten must lie beyond a percentile: {}).",
                all.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_footnote_names_what_is_missing() {
        let note = |count: u64| {
            let mut latency_ns = Histogram::new();
            (0..count).for_each(|_| latency_ns.record(1));
            let mut missing = NotEnough::default();
            missing.look_at(&latency_ns, &[("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)]);
            missing.look_at(&latency_ns, &[("p99", 0.99)]);
            missing.note()
        };
        let of = |needs: &str| {
            Some(format!("n/a: too few operations (ten must lie beyond a percentile: {needs})."))
        };
        assert_eq!(note(0), None, "nothing at all is shown as -");
        assert_eq!(note(199), of("p95 needs 200, p99 needs 1 000, p99.9 needs 10 000"));
        assert_eq!(note(200), of("p99 needs 1 000, p99.9 needs 10 000"));
        assert_eq!(note(1000), of("p99.9 needs 10 000"));
        assert_eq!(note(10_000), None);
    }
}
