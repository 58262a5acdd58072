//! Which figures an experiment is about, and what they are in one trial.

use crate::compare::metrics;
use fathom_base::order::Order;
use fathom_model::finding::{Finding, Severity};
use fathom_model::plan::{Metric, Objective, Plan, PlanWorkload};
use fathom_model::record::{JobRecord, OpClass, Record};
use fathom_stats::Histogram;
use fathom_stats::equivalence::Better;
use serde::Serialize;

/// A percentile needs so many events beyond it to be worth comparing.
const EVENTS_BEYOND: f64 = 10.0;

/// One figure of every trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Figure {
    /// Of which workload, by label; none for all of them: their sum where they run together, else their geometric mean.
    pub workload: Option<String>,
    /// Which figure.
    pub metric: Metric,
    /// Which one of a command's, by name; none of other metrics, and where commands name theirs differently or not at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Less of a command's figure is better, as its objective says. None of other metrics, and where no objective is about it: nobody has said
    /// then what would be better, and decisions are as if more were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_less_better: Option<bool>,
    /// The plan ranks by it. The others stand beside it, because a rate without a latency says little.
    pub is_objective: bool,
    /// It must only keep a bound: nothing is ranked by it, so that its values need no ratio and may be 0.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_only_bound: bool,
}

impl Figure {
    /// One that has no name of its own and stands beside others.
    #[must_use]
    pub fn of(workload: Option<String>, metric: Metric) -> Self {
        Self {
            workload,
            metric,
            name: None,
            is_less_better: None,
            is_objective: false,
            is_only_bound: false,
        }
    }

    /// What an objective is about.
    pub(super) fn of_objective(plan: &Plan, objective: &Objective) -> Self {
        let figure = Self::meant(plan, objective);
        let mut ranked = plan.objectives.iter().filter(|one| one.bound.is_none());
        let is_ranked = ranked.any(|one| Self::meant(plan, one).is_same(&figure));
        Self { is_only_bound: !is_ranked, ..figure }
    }

    fn meant(plan: &Plan, objective: &Objective) -> Self {
        let workload = workload_of(plan, objective.workload.as_deref());
        let is_told = objective.metric == Metric::Application;
        let only =
            || first_name(plan.workloads.iter().find(|w| Some(&w.label) == workload.as_ref())?);
        Self {
            name: objective.figure.clone().or_else(|| only().filter(|_| is_told)),
            is_less_better: is_told.then_some(objective.is_less_better),
            is_objective: true,
            ..Self::of(workload, objective.metric)
        }
    }

    /// True when both are the same figure of the same workload.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (&self.workload, self.metric, &self.name) == (&other.workload, other.metric, &other.name)
    }

    /// True when more of it is better.
    #[must_use]
    pub fn is_more_better(&self) -> bool {
        self.is_less_better.map_or_else(|| self.metric.is_more_better(), |is_less| !is_less)
    }

    /// In which direction it gets better.
    #[must_use]
    pub fn better(&self) -> Better {
        if self.is_more_better() { Better::Higher } else { Better::Lower }
    }

    /// The figure of one workload in one record; none where there were too few events for it, or none at all.
    #[must_use]
    pub fn value(&self, plan: &Plan, record: &Record, label: &str) -> Option<f64> {
        match self.is_by_name(record) {
            true => self.named(record).filter(|_| is_of(plan, record, label)),
            false => value(plan, record, label, self.metric),
        }
    }

    /// The figure of all jobs of a record together.
    #[must_use]
    pub fn value_of_all(&self, record: &Record) -> Option<f64> {
        match self.is_by_name(record) {
            true => self.named(record),
            false => value_of_all(record, self.metric),
        }
    }

    fn is_by_name(&self, record: &Record) -> bool {
        self.name.is_some() && record.fsop.is_none()
    }

    /// Nothing is compared by ratios of it.
    fn takes_zero(&self) -> bool {
        !self.is_objective || self.is_only_bound
    }

    /// What a command told by this name. Only what is above 0 can be compared; beside that and for a bound, 0 is a value like others.
    fn named(&self, record: &Record) -> Option<f64> {
        let told = record.cell.as_ref()?.application.get(self.name.as_ref()?).copied()?;
        (told.is_finite() && (told > 0.0 || self.takes_zero())).then_some(told)
    }
}

/// The names of a command's figures in the order of the alphabet, as its settings have them.
pub(super) fn names(workload: &PlanWorkload) -> Vec<&str> {
    let mut names: Vec<&str> =
        workload.settings.keys().filter_map(|key| key.strip_prefix("figure.")).collect();
    names.order();
    names
}

/// The first of them: the one that is meant where no objective names one.
pub(super) fn first_name(workload: &PlanWorkload) -> Option<String> {
    names(workload).first().map(|name| (*name).to_owned())
}

/// A plan that an earlier version stored need not say which of a command's figures decides, and in which direction.
pub(super) fn unnamed(plan: &Plan) -> Option<Finding> {
    let is_open = |objective: &&Objective| {
        objective.metric == Metric::Application && objective.figure.is_none()
    };
    let (workload, names) = plan.objectives.iter().filter(is_open).find_map(|objective| {
        let is_meant =
            |of: &&PlanWorkload| objective.workload.as_ref().is_none_or(|label| *label == of.label);
        let mut meant = plan.workloads.iter().filter(is_meant).map(|of| (of, names(of)));
        meant.find(|(_, names)| names.len() > 1)
    })?;
    let text = format!(
        "the command of {} has several figures ({}), and the plan does not say which decides: it was {}, the first by the alphabet, and \
         more of it counted as better",
        workload.label,
        names.join(", "),
        names[0]
    );
    Some(
        Finding::new("unnamed-figure", Severity::Doubtful, text)
            .advise("begin anew with a plan that says it: figure = \"NAME\" and better = \"more\" or \"less\" beside metric = \"application\""),
    )
}

/// The objectives first, then what stands beside them: of every workload its rate, the slow end of its latency, and what
/// it costs in CPU time. Figures that no trial has are left out.
#[must_use]
pub fn figures(plan: &Plan, records: &[&Record]) -> Vec<Figure> {
    let mut figures: Vec<Figure> = Vec::new();
    let mut add = |figure: Figure| {
        if !figures.iter().any(|known| known.is_same(&figure)) {
            figures.push(figure);
        }
    };
    plan.objectives.iter().for_each(|objective| add(Figure::of_objective(plan, objective)));
    for workload in &plan.workloads {
        let label = Some(workload.label.clone());
        let has = |metric: Metric| {
            records.iter().any(|r| value(plan, r, &workload.label, metric).is_some())
        };
        let latency =
            if has(Metric::LatencyP99) { Metric::LatencyP99 } else { Metric::LatencyMean };
        let rate = rate_of(plan, records, &workload.label);
        for metric in [rate, latency, Metric::CpuPerIo] {
            if has(metric) {
                add(Figure::of(label.clone(), metric));
            }
        }
        of_command(workload, records, has(Metric::Application)).into_iter().for_each(&mut add);
        let shown = Metric::OF_FILE_SERVERS.into_iter().take(Metric::SHOWN_OF_FILE_SERVERS);
        for metric in shown.filter(|metric| has(*metric)) {
            add(Figure::of(label.clone(), metric));
        }
    }
    // What all get through side by side: one that is held back for others costs nothing where the sum stays.
    if plan.is_together && plan.workloads.len() > 1 {
        let rates: Vec<Metric> =
            plan.workloads.iter().map(|one| rate_of(plan, records, &one.label)).collect();
        for metric in rates {
            if records.iter().any(|record| value_of_all(record, metric).is_some()) {
                add(Figure::of(None, metric));
            }
        }
    }
    figures
}

/// All figures that a command names, or the one that it has without.
fn of_command(workload: &PlanWorkload, records: &[&Record], has_one: bool) -> Vec<Figure> {
    let beside = Figure::of(Some(workload.label.clone()), Metric::Application);
    let named = names(workload)
        .into_iter()
        .map(|name| Figure { name: Some(name.to_owned()), ..beside.clone() });
    let named: Vec<Figure> = named.collect();
    if named.is_empty() {
        return Some(beside).filter(|_| has_one).into_iter().collect();
    }
    let is_told = |figure: &Figure| records.iter().any(|record| figure.named(record).is_some());
    named.into_iter().filter(is_told).collect()
}

/// The label of the only workload stands for all of them.
#[must_use]
pub fn workload_of(plan: &Plan, named: Option<&str>) -> Option<String> {
    match (named, plan.workloads.as_slice()) {
        (None, [one]) => Some(one.label.clone()),
        (named, _) => named.map(str::to_owned),
    }
}

/// Bytes for what is read or written in order, else operations.
fn rate_of(plan: &Plan, records: &[&Record], label: &str) -> Metric {
    let first = |record: &&Record| {
        let index = jobs_of(plan, record, label).next()?.0;
        let job = record.workload.jobs.get(index)?;
        metrics::metrics(job, record.jobs.get(index)?).into_iter().next()
    };
    match records.iter().find_map(first) {
        Some(metrics::Metric::BytesPerS) => Metric::Rate,
        _ => Metric::Iops,
    }
}

/// The jobs of a workload in a record: all of them, or those with its label where several workloads ran together.
fn jobs_of<'a>(
    plan: &'a Plan,
    record: &'a Record,
    label: &'a str,
) -> impl Iterator<Item = (usize, &'a JobRecord)> {
    let is_own = move |name: &str| {
        let rest = name.strip_prefix(label);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    };
    let is_one = !plan.is_together || plan.workloads.len() == 1;
    let of_record = is_of(plan, record, label);
    let jobs = record.jobs.iter().enumerate();
    jobs.filter(move |(_, job)| of_record && (is_one || is_own(&job.name)))
}

/// The workload is among what the record is of.
fn is_of(plan: &Plan, record: &Record, label: &str) -> bool {
    record
        .cell
        .as_ref()
        .is_none_or(|cell| plan.is_together || cell.workload == label || cell.workload.is_empty())
}

/// The figure of one workload in one record; none where there were too few events for it, or none at all.
#[must_use]
pub fn value(plan: &Plan, record: &Record, label: &str, metric: Metric) -> Option<f64> {
    if let Some(told) = told(record, metric) {
        return told.filter(|_| is_of(plan, record, label));
    }
    let jobs: Vec<&JobRecord> = jobs_of(plan, record, label).map(|(_, job)| job).collect();
    of_jobs(record, &jobs, metric)
}

/// The figure of all jobs of a record together.
#[must_use]
pub fn value_of_all(record: &Record, metric: Metric) -> Option<f64> {
    if let Some(told) = told(record, metric) {
        return told;
    }
    of_jobs(record, &record.jobs.iter().collect::<Vec<_>>(), metric)
}

/// What a program said of itself, or what a file server came to, with its trial; none for what follows from jobs.
fn told(record: &Record, metric: Metric) -> Option<Option<f64>> {
    let name = metric.of_file_server();
    if name.is_none() && metric != Metric::Application {
        return None;
    }
    let figures = record.cell.as_ref().map(|cell| &cell.application);
    let figure = figures.and_then(|figures| match name {
        Some(name) => figures.get(name),
        // Those of a file server have names of their own.
        None if record.fsop.is_some() => None,
        None => figures.values().next(),
    });
    Some(figure.copied().filter(|figure| figure.is_finite() && *figure > 0.0))
}

/// Why the figure of a command says nothing beside others: cells are compared by ratios, and there is none with 0. Left out in silence it would
/// make the cell look like its better trials. A bound needs no ratio: no errors at all keep it.
pub fn nothing_to_compare(plan: &Plan, record: &Record) -> Option<String> {
    if record.fsop.is_some() {
        return None;
    }
    let told = &record.cell.as_ref()?.application;
    let asked = plan.objectives.iter().filter(|objective| objective.metric == Metric::Application);
    let asked = asked.map(|objective| Figure::of_objective(plan, objective));
    let own =
        asked.filter(|of| of.workload.as_ref().is_none_or(|label| is_of(plan, record, label)));
    let mut own = own.filter_map(|of| {
        let (name, figure) = match &of.name {
            Some(name) => told.get_key_value(name),
            None => told.iter().next(),
        }?;
        let is_known = figure.is_finite() && (*figure > 0.0 || of.takes_zero());
        (!is_known).then_some((name, figure, of))
    });
    let (name, figure, of) = own.next()?;
    Some(match of.takes_zero() {
        true => format!("its figure {name} is {figure}, which no bound can be held against"),
        false => format!("its figure {name} is {figure}, and only those above 0 can be compared"),
    })
}

fn of_jobs(record: &Record, jobs: &[&JobRecord], metric: Metric) -> Option<f64> {
    if jobs.is_empty() {
        return None;
    }
    let per_s = |amount: &dyn Fn(&JobRecord) -> u64| {
        let of = |job: &&JobRecord| amount(job) as f64 / (job.window_ns.max(1) as f64 / 1e9);
        Some(jobs.iter().map(of).sum::<f64>()).filter(|rate| *rate > 0.0)
    };
    match metric {
        Metric::Iops => per_s(&operations).or_else(|| starved(jobs, 1.0)),
        Metric::Rate => per_s(&|job| job.transfers().bytes)
            .or_else(|| starved(jobs, request_bytes(record, jobs))),
        Metric::LatencyMean => latency(jobs).mean().filter(|ns| *ns > 0.0),
        Metric::LatencyP50 => percentile(jobs, 0.5),
        Metric::LatencyP99 => percentile(jobs, 0.99),
        Metric::LatencyP999 => percentile(jobs, 0.999),
        Metric::LatencyMax => latency(jobs).max().map(|ns| ns as f64),
        Metric::CpuPerIo => {
            let count: u64 = jobs.iter().map(|job| operations(job)).sum();
            let cpu_ns = cpu_ns(record, jobs);
            (count > 0 && cpu_ns > 0).then(|| cpu_ns as f64 / count as f64)
        }
        // Those that are told with the trial.
        _ => None,
    }
}

/// A rate of jobs that got nothing through in their whole window is no unknown one: it is below one request (of that amount) in the
/// window, which stands for it, because there is no ratio to nothing. None where something ended.
fn starved(jobs: &[&JobRecord], amount: f64) -> Option<f64> {
    let is_silent = |job: &&JobRecord| job.classes.iter().all(|class| class.latency_ns.is_empty());
    let window_ns = jobs.iter().map(|job| job.window_ns).max()?;
    (window_ns > 0 && jobs.iter().all(is_silent)).then(|| amount / (window_ns as f64 / 1e9))
}

/// The largest request of these jobs, in bytes.
fn request_bytes(record: &Record, jobs: &[&JobRecord]) -> f64 {
    let is_own = |job: &JobRecord| jobs.iter().any(|own| std::ptr::eq(*own, job));
    let all = record.workload.jobs.iter().zip(&record.jobs);
    let own = all.filter(|(_, job)| is_own(job)).map(|(asked, _)| asked);
    own.map(|job| job.block_size_bytes_max()).max().map_or(512.0, f64::from)
}

/// CPU time of the workload: of its threads, and where it ran alone also of the kernel's threads for its I/O and for the
/// arrays below it.
fn cpu_ns(record: &Record, jobs: &[&JobRecord]) -> u64 {
    let own: u64 = jobs.iter().map(|job| job.cpu.total_ns()).sum();
    if jobs.len() < record.jobs.len() {
        return own;
    }
    let arrays: u64 = record.devices.iter().filter_map(|d| d.kernel_thread_cpu_ns).sum();
    own.max(record.process_cpu.total_ns()) + arrays
}

/// The classes that a job's figures are about: what moves data by itself, else the operation that spans most.
fn classes(job: &JobRecord) -> Vec<OpClass> {
    const RATED: [OpClass; 7] = [
        OpClass::Transaction,
        OpClass::Commit,
        OpClass::Create,
        OpClass::Stat,
        OpClass::Unlink,
        OpClass::Trim,
        OpClass::Zero,
    ];
    let has = |class: OpClass| job.class(class).is_some_and(|c| !c.latency_ns.is_empty());
    if has(OpClass::Read) || has(OpClass::Write) {
        return OpClass::TRANSFERS.to_vec();
    }
    RATED.into_iter().find(|class| has(*class)).map_or(OpClass::TRANSFERS.to_vec(), |c| vec![c])
}

fn operations(job: &JobRecord) -> u64 {
    job.merged(&classes(job)).latency_ns.count()
}

/// Latencies of all jobs: response times where requests came at their own times.
fn latency(jobs: &[&JobRecord]) -> Histogram {
    let mut all = Histogram::new();
    for job in jobs {
        let classes = classes(job);
        let response = job.open_loop.as_ref().map(|open| open.merged(&classes).at_least_ns());
        match response.filter(|histogram| !histogram.is_empty()) {
            Some(response) => all.merge(&response),
            None => all.merge(&job.merged(&classes).latency_ns),
        }
    }
    all
}

fn percentile(jobs: &[&JobRecord], share: f64) -> Option<f64> {
    let latency_ns = latency(jobs);
    let beyond = latency_ns.count() as f64 * (1.0 - share);
    (beyond >= EVENTS_BEYOND).then_some(latency_ns.quantile(share)? as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{ranking::Kept, sample};

    /// What such a plan ranks by is chance; one figure, or one that is named, is none.
    #[test]
    fn a_figure_that_the_alphabet_has_chosen_is_told() {
        let mut plan = sample::plan(&[("a", &["x", "y"])]);
        plan.objectives = vec![Objective::of(Metric::Application)];
        let settings = &mut plan.workloads[0].settings;
        settings.insert("figure.tps".into(), "tps = {}".into());
        assert_eq!(unnamed(&plan), None);
        let settings = &mut plan.workloads[0].settings;
        settings.insert("figure.p99".into(), "p99 = {}".into());
        let told = unnamed(&plan).expect("told").summary;
        assert!(
            told.contains("several figures (p99, tps)") && told.contains("it was p99"),
            "{told}"
        );
        plan.objectives[0].figure = Some("tps".to_owned());
        assert_eq!(unnamed(&plan), None);
    }

    use crate::fixtures;
    use fathom_model::record::CpuTime;

    #[test]
    fn figures_of_a_healthy_trial() {
        let plan = sample::plan(&[]);
        let record = fixtures::record();
        let of = |metric| value(&plan, &record, "read", metric);
        assert_eq!(of(Metric::Iops), Some(1000.0));
        assert_eq!(of(Metric::Rate), Some(4_096_000.0));
        assert_eq!(of(Metric::CpuPerIo), Some(1e9 / 60_000.0));
        assert_eq!(of(Metric::LatencyMax), Some(5e6));
        assert!((of(Metric::LatencyMean).expect("some") / 5e6 - 1.0).abs() < 1e-9);
        assert_eq!(of(Metric::Application), None);
    }

    #[test]
    fn what_is_not_above_nothing_is_told() {
        let mut plan = sample::plan(&[]);
        let mut record = sample::record(
            &sample::cells(&plan)[0],
            fathom_model::plan::cell::Slot { block: 0, place: 0, cell: 0, is_sentinel: false },
            1000.0,
        );
        let mut of = |plan: &Plan, figure: f64| {
            let cell = record.cell.as_mut().expect("a cell");
            cell.application = [("tps".to_owned(), figure)].into();
            nothing_to_compare(plan, &record)
        };
        assert_eq!(of(&plan, 0.0), None, "nobody asks for it");
        plan.objectives[0].metric = Metric::Application;
        assert_eq!(of(&plan, 120.0), None);
        let told = "its figure tps is 0, and only those above 0 can be compared";
        assert_eq!(of(&plan, 0.0).as_deref(), Some(told));
        assert!(of(&plan, -3.0).is_some() && of(&plan, f64::NAN).is_some());
    }

    #[test]
    fn the_kernels_threads_count_as_cost() {
        let plan = sample::plan(&[]);
        let mut record = fixtures::record();
        record.process_cpu = CpuTime { user_ns: 1_000_000_000, system_ns: 1_000_000_000 };
        record.devices[0].kernel_thread_cpu_ns = Some(1_000_000_000);
        let got = value(&plan, &record, "read", Metric::CpuPerIo);
        assert_eq!(got, Some(3e9 / 60_000.0));
    }

    /// Nothing in the whole window is a rate, and the lowest of all; how long requests take is not known then.
    #[test]
    fn a_starved_job_has_the_lowest_rate() {
        let plan = sample::plan(&[]);
        let mut record = fixtures::record();
        for class in &mut record.jobs[0].classes {
            *class = fathom_model::record::ClassRecord {
                class: class.class,
                latency_ns: Histogram::new(),
                bytes: 0,
            };
        }
        let of = |record: &Record, metric| value(&plan, record, "read", metric);
        assert_eq!(of(&record, Metric::Iops), Some(1.0 / 60.0));
        let rate = of(&record, Metric::Rate).expect("a rate");
        assert!((rate - 4096.0 / 60.0).abs() < 1e-9, "{rate}");
        assert_eq!(of(&record, Metric::LatencyMean), None);
        assert_eq!(of(&record, Metric::CpuPerIo), None);
        record.jobs[0].window_ns = 0;
        assert_eq!(of(&record, Metric::Iops), None, "it did not run");
    }

    #[test]
    fn jobs_that_run_together_are_told_apart_by_label() {
        let mut plan = sample::plan(&[]);
        let mut second = plan.workloads[0].clone();
        second.label = "readers".into();
        plan.workloads.push(second);
        plan.is_together = true;
        let mut record = fixtures::record();
        let mut other = record.jobs[0].clone();
        other.name = "readers.one".into();
        other.window_ns /= 2;
        record.jobs.push(other);
        assert_eq!(value(&plan, &record, "read", Metric::Iops), Some(1000.0));
        assert_eq!(value(&plan, &record, "readers", Metric::Iops), Some(2000.0));
        assert_eq!(value_of_all(&record, Metric::Iops), Some(3000.0));
    }

    #[test]
    fn a_program_has_its_figure_without_jobs() {
        let mut plan = sample::plan(&[]);
        plan.objectives[0].metric = Metric::Application;
        let mut record = fixtures::record();
        (record.jobs, record.workload.jobs) = (Vec::new(), Vec::new());
        let cell = serde_json::json!({
            "slot": {"block": 0, "place": 0, "cell": 0, "is_sentinel": false}, "levels": [], "workload": "read",
            "knobs": [], "setup": [], "prepare_ns": 0, "application": {"score": 41.5},
        });
        record.cell = Some(Box::new(serde_json::from_value(cell).expect("a cell's record")));
        assert_eq!(value(&plan, &record, "read", Metric::Application), Some(41.5));
        assert_eq!(value(&plan, &record, "other", Metric::Application), None);
        assert_eq!(value_of_all(&record, Metric::Application), Some(41.5));
        assert_eq!(value(&plan, &record, "read", Metric::Iops), None);
        assert!(crate::rules::all(&record).iter().all(|finding| finding.id != "nothing-measured"));
    }

    /// Cell 1 has more transactions and cell 2 the lower latency: what an objective names decides, in its direction, and what none names stands
    /// beside it with its value, also where that is 0.
    #[test]
    fn figures_of_a_command_decide_by_name() {
        let mut sample = sample::Sample::new(&[("x", &["a", "b", "c"])], 8, |_, _| 1000.0);
        sample.plan.workloads[0].command = Some("bench".to_owned());
        let names = ["errors", "p99", "tps"];
        let settings = names.map(|name| (format!("figure.{name}"), format!("{name} {{}}")));
        sample.plan.workloads[0].settings = settings.into();
        for record in &mut sample.records {
            let cell = record.cell.as_mut().expect("a cell");
            let scatter = 1.0 + 0.001 * f64::from(cell.slot.block);
            let own = [[0.0, 10.0, 100.0], [3.0, 10.0, 120.0], [0.0, 5.0, 100.0]];
            let own = own[cell.slot.cell as usize].map(|value| value * scatter);
            cell.application = names.map(str::to_owned).into_iter().zip(own).collect();
            record.jobs.clear();
        }
        let tps = Objective { figure: Some("tps".into()), ..Objective::of(Metric::Application) };
        let p99 = Objective { figure: Some("p99".into()), is_less_better: true, ..tps.clone() };
        let study = |objectives: &[&Objective]| {
            let mut plan = sample.plan.clone();
            plan.objectives = objectives.iter().map(|one| (*one).clone()).collect();
            crate::experiment::study(&plan, &sample.cells, &sample.records)
        };
        let by_tps = study(&[&tps]);
        assert_eq!((by_tps.ranking.winner, by_tps.void.len()), (Some(1), 0));
        let words =
            by_tps.figures.iter().map(|f| (f.name.as_deref(), f.is_less_better, f.is_objective));
        let beside = [(Some("errors"), None, false), (Some("p99"), None, false)];
        assert_eq!(
            words.collect::<Vec<_>>(),
            [&[(Some("tps"), Some(false), true)], &beside[..]].concat()
        );
        let errors =
            |cell: usize| by_tps.cells[cell].figures[1].as_ref().expect("told").median.value;
        assert!(errors(0) == 0.0 && errors(1) > 3.0);
        let by_p99 = study(&[&p99]);
        assert_eq!((by_p99.ranking.winner, by_p99.figures[0].better()), (Some(2), Better::Lower));
        let change = by_p99.cells[2].figures[0].as_ref().expect("told").change.as_ref();
        assert_eq!(change.expect("compared").decision, fathom_stats::equivalence::Decision::Faster);
        // The first decides; the second where that is equal. A bound follows the direction.
        assert_eq!(study(&[&p99, &tps]).ranking.winner, Some(2));
        assert_eq!(study(&[&tps, &p99]).ranking.winner, Some(1));
        let bound = Objective { bound: Some(7.0), ..p99 };
        assert_eq!(study(&[&bound, &tps]).ranking.winner, Some(2));
        let errors = Objective { figure: Some("errors".into()), ..tps.clone() };
        assert_eq!(study(&[&errors]).void.len(), 16);
        // None at all is the best that there is, and keeps any bound; where it also decides there is no ratio.
        let none = Objective { is_less_better: true, bound: Some(0.5), ..errors.clone() };
        let kept = study(&[&none, &tps]);
        assert_eq!((kept.void.len(), kept.ranking.winner), (0, Some(0)));
        let all = [Kept::Kept, Kept::Broken, Kept::Kept];
        assert_eq!(kept.ranking.bounds[0].kept, all);
        assert!(kept.cells[2].figures[0].as_ref().expect("told").change.is_none());
        let strict = Objective { bound: Some(0.0), ..none.clone() };
        assert_eq!(study(&[&strict, &tps]).ranking.bounds[0].kept, all);
        let ranked = Objective { bound: None, ..none.clone() };
        assert_eq!(study(&[&none, &ranked]).void.len(), 16);
    }

    #[test]
    fn a_file_server_has_its_figures_by_name() {
        let plan = sample::plan(&[]);
        let mut record = fixtures::server(&[500], &[]);
        let cell = serde_json::json!({
            "slot": {"block": 0, "place": 0, "cell": 0, "is_sentinel": false}, "levels": [], "workload": "read",
            "knobs": [], "setup": [], "prepare_ns": 0,
            "application": {"open_p99_ns": 2e6, "read_files_per_s": 500.0, "read_files_per_s_alone": 1000.0, "readers_keep": 0.5},
        });
        record.cell = Some(Box::new(serde_json::from_value(cell).expect("a cell's record")));
        let of = |metric| value(&plan, &record, "read", metric);
        assert_eq!(of(Metric::ReadersKeep), Some(0.5));
        assert_eq!((of(Metric::OpenP99), of(Metric::WrittenFiles)), (Some(2e6), None));
        assert_eq!((of(Metric::Application), of(Metric::Iops)), (None, None));
        let metrics: Vec<Metric> = figures(&plan, &[&record]).iter().map(|f| f.metric).collect();
        assert_eq!(
            metrics,
            [Metric::Iops, Metric::ReadFiles, Metric::ReadersKeep, Metric::OpenP99],
            "the objective, and what there is"
        );
    }

    #[test]
    fn a_rate_is_never_alone() {
        let plan = sample::plan(&[]);
        let record = fixtures::record();
        let got = figures(&plan, &[&record]);
        let words: Vec<_> = got.iter().map(|f| (f.metric, f.is_objective)).collect();
        assert_eq!(
            words,
            [(Metric::Iops, true), (Metric::LatencyP99, false), (Metric::CpuPerIo, false)]
        );
    }
}
