//! The figures of a row: what is counted as one operation, and its rate, latencies and share of a core.

use fathom_model::record::{CpuTime, JobRecord, OpClass, Record};
use fathom_stats::Histogram;

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

    /// False when what ended took longer than the window: see [`rate_window_ns`].
    #[must_use]
    pub fn has_rate(&self) -> bool {
        self.iops > 0.0 || self.latency_ns.is_empty()
    }

    /// The response times of open loops: from the intended start, with what had not ended counted at the age that it had; none
    /// where all loops were closed.
    #[must_use]
    pub fn responses(jobs: &[JobRecord]) -> Option<Histogram> {
        let opens = jobs.iter().filter_map(|job| job.open_loop.as_ref());
        let mut latency_ns = Histogram::new();
        opens.flat_map(|open| &open.classes).for_each(|c| latency_ns.merge(&c.at_least_ns()));
        (!latency_ns.is_empty()).then_some(latency_ns)
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
            let window_ns = rate_window_ns(job);
            self.iops += per_second(operations.count(), window_ns);
            self.bytes_per_s += per_second(job.merged(moved).bytes, window_ns);
            self.latency_ns.merge(&operations);
        }
    }
}

/// What rates of a job are over: its window, or 0 where that holds no whole request. Each that ended in it is then longer than it
/// is, because it began in the warm-up, and what was moved was not moved in that time.
#[must_use]
pub fn rate_window_ns(job: &JobRecord) -> u64 {
    let shortest_ns = job.transfers().latency_ns.min();
    if shortest_ns.is_some_and(|ns| ns > job.window_ns) { 0 } else { job.window_ns }
}

/// A number of things per second; zero for a window that has no length.
#[must_use]
pub fn per_second(count: u64, window_ns: u64) -> f64 {
    if window_ns == 0 { 0.0 } else { count as f64 / (window_ns as f64 / 1e9) }
}
