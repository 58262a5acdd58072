//! The figures of one job of a record that two sides are compared by: one number for each run.

use fathom_base::units::{format_count, format_figure, format_ns, format_rate, format_whole};
use fathom_model::fsop_jobs;
use fathom_model::record::{JobRecord, OpClass, Record};
use fathom_model::workload::{Access, Job, Tracked};
use fathom_stats::Histogram;
use fathom_stats::equivalence::Better;
use serde::Serialize;
use std::borrow::Cow;

/// Which figure.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Bytes moved per second.
    BytesPerS,
    /// Reads and writes per second.
    Iops,
    /// Operations of one class per second: commits, trims, file creations.
    PerS(OpClass),
    /// Mean latency in nanoseconds.
    LatencyNsMean(OpClass),
    /// Median latency in nanoseconds.
    LatencyNsP50(OpClass),
    /// 99th percentile of latency in nanoseconds.
    LatencyNsP99(OpClass),
    /// 99.9th percentile of latency in nanoseconds.
    LatencyNsP999(OpClass),
    /// Longest latency in nanoseconds.
    LatencyNsMax(OpClass),
    /// CPU time of fathom's threads for each read or write in nanoseconds.
    CpuNsPerRequest,
    /// What a command told by this name, and in which direction that gets better, where its plan says so.
    Told(String, Option<Better>),
}

/// What the plans of commands say of their figures, those that decide first: name and direction.
pub type Told = Vec<(String, Option<Better>)>;

/// The figures that a command has told, those of which its plan says something first.
pub(crate) fn told(record: &Record, said: &Told) -> Vec<Metric> {
    let Some(figures) = fsop_jobs::told(record) else { return Vec::new() };
    let known = said.iter().filter(|(name, _)| figures.contains_key(name));
    let others = figures.keys().filter(|name| said.iter().all(|(known, _)| known != *name));
    let known = known.map(|(name, better)| (name, *better));
    let all = known.chain(others.map(|name| (name, None)));
    all.map(|(name, better)| Metric::Told(name.clone(), better)).collect()
}

impl Metric {
    /// In which direction it gets better.
    #[must_use]
    pub fn better(&self) -> Better {
        match self {
            Self::Told(_, better) => better.unwrap_or(Better::Higher),
            Self::BytesPerS | Self::Iops | Self::PerS(_) => Better::Higher,
            _ => Better::Lower,
        }
    }

    /// False where nobody has said which direction is better.
    #[must_use]
    pub fn is_judged(&self) -> bool {
        !matches!(self, Self::Told(_, None))
    }

    /// The words that people see.
    #[must_use]
    pub fn words(&self) -> String {
        let of = |class: OpClass, what: &str| format!("{} {what}", class.word());
        match self {
            Self::BytesPerS => "rate".into(),
            Self::Iops => "IOPS".into(),
            Self::PerS(OpClass::Commit) => "commits/s".into(),
            Self::PerS(OpClass::Unlink) => "deletes/s".into(),
            Self::PerS(OpClass::OpenRead) => "files read/s".into(),
            Self::PerS(OpClass::OpenWrite) => "files written/s".into(),
            Self::PerS(class) => format!("{}s/s", class.word()),
            Self::LatencyNsMean(class) => of(*class, "mean"),
            Self::LatencyNsP50(class) => of(*class, "p50"),
            Self::LatencyNsP99(class) => of(*class, "p99"),
            Self::LatencyNsP999(class) => of(*class, "p99.9"),
            Self::LatencyNsMax(class) => of(*class, "max"),
            Self::CpuNsPerRequest => "CPU per I/O".into(),
            Self::Told(name, _) => name.clone(),
        }
    }

    /// A value of it, as people read it.
    #[must_use]
    pub fn text(&self, value: f64) -> String {
        match self {
            Self::BytesPerS => format_rate(value),
            Self::Told(..) if value < 999.5 => format_figure(value),
            Self::Told(..) => format_whole(value),
            Self::Iops | Self::PerS(_) if value > 0.0 && value < 9.95 => format!("{value:.1}"),
            Self::Iops | Self::PerS(_) => format_count(value.round() as u64),
            _ => format_ns(value.round() as u64),
        }
    }
}

/// Classes whose rate is an answer, the one that spans most first.
const RATED: [OpClass; 10] = [
    OpClass::Transaction,
    OpClass::Commit,
    OpClass::OpenRead,
    OpClass::OpenWrite,
    OpClass::MakeDir,
    OpClass::Create,
    OpClass::Stat,
    OpClass::Unlink,
    OpClass::Trim,
    OpClass::Zero,
];

/// Calls on files that have a latency of their own where no commit spans them.
const CALLS: [OpClass; 5] =
    [OpClass::Sync, OpClass::Append, OpClass::Rename, OpClass::Link, OpClass::List];

/// A percentile needs ten events beyond it to be worth comparing.
const EVENTS_BEYOND: f64 = 10.0;

/// The figures that a job can be compared by, the one that answers "is it faster" first. With requests that come at
/// their own times the rate is given, and the response times are the answer.
#[must_use]
pub fn metrics(job: &Job, record: &JobRecord) -> Vec<Metric> {
    let rates = rates(job, record);
    let classes = timed(record);
    let latencies = classes.iter().flat_map(|class| {
        [Metric::LatencyNsP99(*class), Metric::LatencyNsP50(*class), Metric::LatencyNsP999(*class)]
    });
    if record.open_loop.is_some() {
        latencies.chain(rates).chain([Metric::CpuNsPerRequest]).collect()
    } else {
        let mut rates = rates.into_iter();
        let first = rates.next();
        first.into_iter().chain(latencies).chain(rates).chain([Metric::CpuNsPerRequest]).collect()
    }
}

/// What the rule of steady state is about where nobody says.
const TRACKED: [Tracked; 2] = [Tracked::Rate, Tracked::Mean];

/// What is followed from round to round of a workload, and whether steady state is judged by it: the rate that answers "is
/// it faster", of what moves data (or of what else is counted) the mean latency and the 99th percentile, and what was asked
/// for besides.
pub(crate) fn followed(job: &Job, record: &JobRecord, asked: &[Tracked]) -> Vec<(Metric, bool)> {
    let asked = if asked.is_empty() { &TRACKED } else { asked };
    let main = main_classes(record).into_iter();
    let rate = rates(job, record).into_iter().take(1).map(|metric| (metric, Tracked::Rate));
    let of_class = |class| {
        [
            (Metric::LatencyNsMean(class), Tracked::Mean),
            (Metric::LatencyNsP50(class), Tracked::P50),
            (Metric::LatencyNsP99(class), Tracked::P99),
            (Metric::LatencyNsP999(class), Tracked::P999),
            (Metric::LatencyNsMax(class), Tracked::Max),
        ]
    };
    let is_shown =
        |what: Tracked| TRACKED.contains(&what) || what == Tracked::P99 || asked.contains(&what);
    let all = rate.chain(main.flat_map(of_class)).filter(|(_, what)| is_shown(*what));
    all.map(|(metric, what)| (metric, asked.contains(&what))).collect()
}

/// The rates of what was done, the one that answers "is it faster" first.
fn rates(job: &Job, record: &JobRecord) -> Vec<Metric> {
    let in_order = matches!(
        job.access,
        Access::Sequential | Access::Reverse | Access::Strided | Access::Sweep | Access::Append
    );
    // What moves data by itself comes first: of a mix in which some writes are synced, those are a small sample.
    let moves = has(record, OpClass::Read) || has(record, OpClass::Write);
    let data = moves.then_some(if in_order { Metric::BytesPerS } else { Metric::Iops });
    let others = RATED.into_iter().filter(|class| has(record, *class));
    data.into_iter().chain(others.map(Metric::PerS)).collect()
}

/// The classes that have a latency of their own, those that move data first.
fn timed(record: &JobRecord) -> Vec<OpClass> {
    let calls = CALLS.into_iter().filter(|_| !has(record, OpClass::Commit));
    let all = [OpClass::Read, OpClass::Write].into_iter().chain(RATED).chain(calls);
    all.filter(|class| has(record, *class)).collect()
}

/// The classes that matter most: those that move data, else the first of those that have a latency.
pub(crate) fn main_classes(record: &JobRecord) -> Vec<OpClass> {
    let mut classes = timed(record);
    let moves = |class: &&OpClass| matches!(class, OpClass::Read | OpClass::Write);
    let moving = classes.iter().filter(moves).count();
    classes.truncate(moving.max(1));
    classes
}

fn has(record: &JobRecord, class: OpClass) -> bool {
    record.class(class).is_some_and(|c| !c.latency_ns.is_empty())
}

/// The figure of one run; none where there were too few events for it, or none at all.
#[must_use]
pub fn value(record: &Record, job: usize, metric: &Metric) -> Option<f64> {
    if let Metric::Told(name, _) = metric {
        let told = fsop_jobs::told(record)?.get(name).copied();
        return told.filter(|figure| figure.is_finite() && *figure > 0.0);
    }
    let job = record.jobs.get(job)?;
    let window_s = job.window_ns as f64 / 1e9;
    let per_s = |count: u64| (count > 0 && window_s > 0.0).then(|| count as f64 / window_s);
    match metric {
        Metric::BytesPerS => per_s(job.transfers().bytes),
        Metric::Iops => per_s(job.transfers().latency_ns.count()),
        Metric::PerS(class) => per_s(job.class(*class)?.latency_ns.count()),
        Metric::LatencyNsMean(class) => latencies(job, *class)?.mean(),
        Metric::LatencyNsP50(class) => percentile(job, *class, 0.5),
        Metric::LatencyNsP99(class) => percentile(job, *class, 0.99),
        Metric::LatencyNsP999(class) => percentile(job, *class, 0.999),
        Metric::LatencyNsMax(class) => latencies(job, *class)?.max().map(|ns| ns as f64),
        Metric::CpuNsPerRequest => {
            let requests = job.transfers().latency_ns.count();
            let cpu_ns = job.cpu.total_ns();
            (requests > 0 && cpu_ns > 0).then(|| cpu_ns as f64 / requests as f64)
        }
        Metric::Told(..) => None,
    }
}

fn percentile(job: &JobRecord, class: OpClass, share: f64) -> Option<f64> {
    let latency_ns = latencies(job, class)?;
    let beyond = latency_ns.count() as f64 * (1.0 - share);
    (beyond >= EVENTS_BEYOND).then_some(latency_ns.quantile(share)? as f64)
}

/// Response times where there are any: what the caller of an open loop waits.
pub(crate) fn latencies(job: &JobRecord, class: OpClass) -> Option<Cow<'_, Histogram>> {
    let response = job.open_loop.as_ref().map(|open| open.merged(&[class]).at_least_ns());
    match response.filter(|histogram| !histogram.is_empty()) {
        Some(histogram) => Some(Cow::Owned(histogram)),
        None => Some(Cow::Borrowed(&job.class(class)?.latency_ns)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn figures_of_a_healthy_run() {
        let record = fixtures::record();
        let of = |metric: Metric| value(&record, 0, &metric);
        assert_eq!(of(Metric::Iops), Some(1000.0));
        assert_eq!(of(Metric::BytesPerS), Some(4_096_000.0));
        let p99 = of(Metric::LatencyNsP99(OpClass::Read)).expect("many events");
        assert!((p99 / 5e6 - 1.0).abs() < 0.01, "{p99}");
        assert_eq!(of(Metric::CpuNsPerRequest), Some(1e9 / 60_000.0));
        assert_eq!(of(Metric::LatencyNsP99(OpClass::Write)), None);
        assert_eq!(value(&record, 1, &Metric::Iops), None);
    }

    #[test]
    fn percentiles_need_events_beyond_them() {
        let mut record = fixtures::record();
        let few = &mut record.jobs[0].classes[0].latency_ns;
        *few = Histogram::new();
        (0..999).for_each(|_| few.record(5));
        assert_eq!(value(&record, 0, &Metric::LatencyNsP99(OpClass::Read)), None);
        record.jobs[0].classes[0].latency_ns.record(5);
        assert!(value(&record, 0, &Metric::LatencyNsP99(OpClass::Read)).is_some());
        assert_eq!(value(&record, 0, &Metric::LatencyNsP999(OpClass::Read)), None);
    }

    #[test]
    fn operations_that_move_nothing_have_a_rate_too() {
        for (class, words) in [
            (OpClass::Create, "creates/s"),
            (OpClass::Trim, "trims/s"),
            (OpClass::Commit, "commits/s"),
        ] {
            let mut record = fixtures::record();
            record.jobs[0].classes[0].class = class;
            let first = metrics(&Job::default(), &record.jobs[0])[0].clone();
            assert_eq!((first.words(), value(&record, 0, &first)), (words.into(), Some(1000.0)));
        }
        // Some of the writes are synced: the mix is what counts.
        let mut record = fixtures::record();
        let mut commits = record.jobs[0].classes[0].clone();
        commits.class = OpClass::Commit;
        record.jobs[0].classes.push(commits);
        let all = metrics(&Job::default(), &record.jobs[0]);
        assert_eq!(all[0], Metric::Iops);
        assert!(all.contains(&Metric::PerS(OpClass::Commit)));
    }

    #[test]
    fn the_first_figure_answers_the_question() {
        let record = fixtures::record();
        let first = |access| metrics(&Job { access, ..Job::default() }, &record.jobs[0])[0].clone();
        assert_eq!(first(Access::Random), Metric::Iops);
        assert_eq!(first(Access::Sequential), Metric::BytesPerS);
        let mut open = record.jobs[0].clone();
        open.open_loop = Some(fathom_model::record::OpenLoopRecord::default());
        assert_eq!(metrics(&Job::default(), &open)[0], Metric::LatencyNsP99(OpClass::Read));
    }
}
