//! Constant knobs, knobs of the user's own, objectives, preparation, budget, hypothesis.

use super::application;
use super::design::levels;
use super::factors::{check_knob, check_knob_value};
use crate::doc::{Item, Section};
use crate::{Known, PlanError, factor};
use fathom_base::suggest;
use fathom_base::units;
use fathom_model::plan::{
    Budget, FactorKind, Hypothesis, Metric, MetricUnit, Objective, OwnKnob, Plan, Prepare,
};
use std::collections::BTreeMap;

const METRICS: [(&str, Metric); 27] = [
    ("iops", Metric::Iops),
    ("rate", Metric::Rate),
    ("latency_mean", Metric::LatencyMean),
    ("latency_p50", Metric::LatencyP50),
    ("latency_p99", Metric::LatencyP99),
    ("latency_p999", Metric::LatencyP999),
    ("latency_max", Metric::LatencyMax),
    ("cpu_per_io", Metric::CpuPerIo),
    ("application", Metric::Application),
    ("read_files", Metric::ReadFiles),
    ("written_files", Metric::WrittenFiles),
    ("readers_keep", Metric::ReadersKeep),
    ("open_p99", Metric::OpenP99),
    ("mkdir_p99", Metric::MkdirP99),
    ("read_bytes", Metric::ReadBytes),
    ("written_bytes", Metric::WrittenBytes),
    ("read_data_rate", Metric::ReadDataRate),
    ("first_read_p99", Metric::FirstReadP99),
    ("create_p99", Metric::CreateP99),
    ("close_p99", Metric::CloseP99),
    ("longest", Metric::Longest),
    ("recovery", Metric::Recovery),
    ("reader_fairness", Metric::ReaderFairness),
    ("writer_fairness", Metric::WriterFairness),
    ("client_fairness", Metric::ClientFairness),
    ("transactions", Metric::Transactions),
    ("transaction_p99", Metric::TransactionP99),
];

/// `[knobs]`: what holds in every cell.
pub fn knobs(
    root: &mut Section,
    own: &[OwnKnob],
    known: &dyn Known,
) -> Result<BTreeMap<String, String>, PlanError> {
    let mut knobs = BTreeMap::new();
    let Some(item) = root.take("knobs") else { return Ok(knobs) };
    for (id, item) in item.table()?.leaves(|_| false) {
        check_knob(&id, own, known).map_err(|reason| item.refuse_key(reason))?;
        let value = item.scalar()?;
        check_knob_value(&id, &value, own, known).map_err(|reason| item.refuse(reason))?;
        knobs.insert(id, value);
    }
    Ok(knobs)
}

/// `[[own_knob]]`: settings that fathom does not know.
pub fn own_knobs(root: &mut Section) -> Result<Vec<OwnKnob>, PlanError> {
    let Some(item) = root.take("own_knob") else { return Ok(Vec::new()) };
    let mut knobs: Vec<OwnKnob> = Vec::new();
    for mut section in item.tables()? {
        let mut need = |name: &str, example: &str| {
            let item = section.take(name);
            item.ok_or_else(|| section.refuse(format!("needs {name} = {example}")))
        };
        let name = need("name", "\"queue\"")?;
        let read = need("read", "\"cat /sys/...\", which prints the value")?;
        let write = need("write", "\"... {value}\", which sets it")?;
        let values = need("values", "[...], all that it may be set to")?;
        let needs_setup = section.take("needs_setup");
        section.finish(&["name", "read", "write", "values", "needs_setup"])?;
        let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if !name.words()?.chars().all(is_fine) {
            return Err(name.refuse("a name has letters, digits, - and _"));
        }
        if !write.words()?.contains("{value}") {
            return Err(write.refuse("says nowhere where the value goes; write {value} there"));
        }
        let values: Vec<String> =
            values.list().iter().map(Item::scalar).collect::<Result<_, _>>()?;
        let needs_setup = needs_setup.map_or(Ok(false), |item| item.flag())?;
        let (read, write) = (read.words()?, write.words()?);
        let knob = OwnKnob { name: name.words()?, read, write, values, needs_setup };
        if knobs.iter().any(|other| other.name == knob.name) {
            return Err(name.refuse("is there twice"));
        }
        knobs.push(knob);
    }
    Ok(knobs)
}

/// `[[objective]]`: what decides, most important first.
pub fn objectives(root: &mut Section, plan: &Plan) -> Result<Vec<Objective>, PlanError> {
    let Some(item) = root.take("objective") else {
        let objectives = default_objectives(plan);
        return match objectives.iter().find_map(|of| application::open(of, &plan.workloads)) {
            Some(reason) => Err(PlanError::new(reason)),
            None => Ok(objectives),
        };
    };
    let mut objectives = Vec::new();
    for section in item.tables()? {
        let objective = objective(section, plan)?;
        if objectives.contains(&objective) {
            return Err(item.refuse_key("two objectives are the same"));
        }
        if objectives
            .iter()
            .any(|other| application::contradicts(other, &objective, &plan.workloads))
        {
            let reason = "two objectives are about the same figure, and more of it is better in one, less in the other";
            return Err(item.refuse_key(reason));
        }
        objectives.push(objective);
    }
    Ok(objectives)
}

/// Rate and latency belong together; an application says its own figure.
fn default_objectives(plan: &Plan) -> Vec<Objective> {
    let of = Objective::of;
    if plan.workloads.iter().all(|workload| workload.command.is_some()) {
        return vec![of(Metric::Application)];
    }
    if plan.workloads.iter().all(crate::file_server::is_one) {
        return crate::file_server::objectives(&plan.workloads).into_iter().map(of).collect();
    }
    vec![of(Metric::Iops), of(Metric::LatencyP99)]
}

fn objective(mut section: Section, plan: &Plan) -> Result<Objective, PlanError> {
    let Some(item) = section.take("metric") else {
        let words = METRICS.map(|(word, _)| word).join(", ");
        return Err(section.refuse(format!("needs metric = one of {words}")));
    };
    let metric = item.one_of(&METRICS)?;
    let has_command = plan.workloads.iter().any(|workload| workload.command.is_some());
    if metric == Metric::Application && !has_command {
        return Err(item.refuse("is what a command prints, and no workload is a command"));
    }
    if let Some(reason) = crate::file_server::lacks(&plan.workloads, metric) {
        return Err(item.refuse(reason));
    }
    if metric == Metric::Recovery && plan.setup.filesystem.is_none() {
        let reason = "is measured by a crash of a filesystem that [setup] makes, and there is none: no other one is crashed";
        return Err(item.refuse(reason));
    }
    let workload = match section.take("workload") {
        Some(item) => {
            let label = item.words()?;
            let labels = plan.workloads.iter().map(|workload| workload.label.as_str());
            if !labels.clone().any(|known| known == label) {
                let near = suggest::hint(&label, labels);
                return Err(item.refuse(format!("no workload is called so{near}")));
            }
            Some(label)
        }
        None => None,
    };
    let mut objective = Objective { workload, ..Objective::of(metric) };
    let limit = section.take("bound");
    application::read(&mut section, &mut objective, &plan.workloads)?;
    objective.bound = limit.map(|item| bound(&objective, &item)).transpose()?;
    section.finish(&["metric", "workload", "bound", "figure", "better"])?;
    if let Some(reason) = application::open(&objective, &plan.workloads) {
        return Err(item.refuse(reason));
    }
    Ok(objective)
}

/// In the unit of the metric: nanoseconds, bytes per second, operations per second. What a command counts may have decimals, and may have to
/// be none at all.
fn bound(objective: &Objective, item: &Item) -> Result<f64, PlanError> {
    let bound = match objective.metric.unit() {
        MetricUnit::Own => {
            let is_fine = |bound: f64| bound > 0.0 || (bound == 0.0 && objective.is_less_better);
            let bound =
                item.scalar()?.replace('_', "").parse().ok().filter(|f: &f64| f.is_finite());
            let bound =
                bound.ok_or_else(|| item.refuse("must be a number, for example 20 or 0.5"))?;
            return match is_fine(bound) {
                true => Ok(bound.abs()),
                false if bound == 0.0 => Err(item.refuse(
                    "must be larger than 0; none at most is asked for with better = \"less\"",
                )),
                false => Err(item.refuse("must not be below 0")),
            };
        }
        MetricUnit::PerSecond => item.count(1, u64::MAX)?,
        MetricUnit::Share | MetricUnit::Index => {
            return Err(item.refuse("a share takes no bound"));
        }
        MetricUnit::BytesPerSecond => {
            let text = item.scalar()?;
            let size = text.strip_suffix("/s").unwrap_or(&text);
            units::parse_size(size).map_err(|error| item.refuse(error.to_string()))?
        }
        MetricUnit::Nanoseconds => item.duration()?,
    };
    if bound == 0 { Err(item.refuse("must be larger than 0")) } else { Ok(bound as f64) }
}

/// `[prepare]`: what is done around trials.
pub fn prepare(root: &mut Section) -> Result<Prepare, PlanError> {
    const SECOND_NS: u64 = 1_000_000_000;
    let mut prepare = Prepare {
        drops_caches: true,
        remounts: false,
        settle_ns: SECOND_NS,
        quiet_ns: 2 * SECOND_NS,
        quiet_wait_ns: 120 * SECOND_NS,
        swap_off: false,
        stop_services: Vec::new(),
        governor: None,
        memory_floor_bytes: None,
        memory_limit_bytes: None,
    };
    let Some(item) = root.take("prepare") else { return Ok(prepare) };
    let mut section = item.table()?;
    if let Some(item) = section.take("drop_caches") {
        prepare.drops_caches = item.flag()?;
    }
    if let Some(item) = section.take("remount") {
        prepare.remounts = item.flag()?;
    }
    for (name, slot) in [
        ("settle", &mut prepare.settle_ns),
        ("quiet", &mut prepare.quiet_ns),
        ("quiet_wait", &mut prepare.quiet_wait_ns),
    ] {
        if let Some(item) = section.take(name) {
            *slot = item.duration()?;
        }
    }
    if let Some(item) = section.take("swap_off") {
        prepare.swap_off = item.flag()?;
    }
    if let Some(item) = section.take("stop_services") {
        prepare.stop_services = item.list().iter().map(service).collect::<Result<_, _>>()?;
    }
    if let Some(item) = section.take("governor") {
        let word = item.words()?;
        if !word.chars().all(|c| c.is_ascii_lowercase() || c == '_') {
            return Err(item.refuse("is no governor; write for example performance"));
        }
        prepare.governor = Some(word);
    }
    if let Some(item) = section.take("memory_floor") {
        prepare.memory_floor_bytes = Some(item.size()?);
    }
    if let Some(item) = section.take("memory_limit") {
        prepare.memory_limit_bytes = match item.size()? {
            bytes if bytes >= 64 << 20 => Some(bytes),
            _ => return Err(item.refuse("is too little to measure with; at least 64M")),
        };
    }
    section.finish(&[
        "drop_caches",
        "remount",
        "settle",
        "quiet",
        "quiet_wait",
        "swap_off",
        "stop_services",
        "governor",
        "memory_floor",
        "memory_limit",
    ])?;
    Ok(prepare)
}

/// The name of a systemd unit; without a kind it is a service.
fn service(item: &Item) -> Result<String, PlanError> {
    let name = item.words()?;
    let is_fine = |c: char| c.is_ascii_alphanumeric() || "-_.@:\\".contains(c);
    if name.starts_with('-') || !name.chars().all(is_fine) {
        return Err(item.refuse("is no name of a systemd unit; write for example cron.service"));
    }
    Ok(if name.contains('.') { name } else { format!("{name}.service") })
}

/// `[budget]`: what it may cost.
pub fn budget(root: &mut Section) -> Result<Budget, PlanError> {
    let Some(item) = root.take("budget") else { return Ok(Budget::default()) };
    let mut section = item.table()?;
    let time_ns = section.take("time").map(|item| item.duration()).transpose()?;
    let written_bytes = section.take("written").map(|item| item.size()).transpose()?;
    section.finish(&["time", "written"])?;
    Ok(Budget { time_ns, written_bytes })
}

/// `[hypothesis]`: what is expected.
pub fn hypothesis(root: &mut Section, plan: &Plan) -> Result<Option<Hypothesis>, PlanError> {
    let Some(item) = root.take("hypothesis") else { return Ok(None) };
    let mut section = item.table()?;
    let text = section.take("text").map(|item| item.words()).transpose()?;
    let text = text.ok_or_else(|| section.refuse("needs text = \"what is expected, in words\""))?;
    let mut side = |name: &str| match section.take(name) {
        Some(item) => levels(item.table()?, &plan.factors),
        None => Ok(BTreeMap::new()),
    };
    let (better, than) = (side("better")?, side("than")?);
    let by = section.take("by").map(|item| item.share()).transpose()?;
    section.clone().finish(&["text", "better", "than", "by"])?;
    if better.is_empty() {
        return Err(section
            .refuse("needs better = { FACTOR = \"LEVEL\" }, which cell is expected to be better"));
    }
    let whole = |side: &BTreeMap<String, String>| {
        let level = |f: &fathom_model::plan::Factor| {
            let baseline = plan.design.baseline.get(&f.name).unwrap_or(&f.levels[0]);
            side.get(&f.name).unwrap_or(baseline).clone()
        };
        plan.factors.iter().map(level).collect::<Vec<_>>()
    };
    if whole(&better) == whole(&than) {
        return Err(section
            .refuse("better and than are the same cell (what is not named is at the baseline)"));
    }
    Ok(Some(Hypothesis { text, better, than, by: by.unwrap_or(0.0) }))
}

/// That no constant knob varies as well.
pub fn check_constants(plan: &Plan) -> Result<(), PlanError> {
    for factor in &plan.factors {
        let FactorKind::Knob { id } = &factor.sets else { continue };
        if plan.knobs.contains_key(id) {
            let reason =
                format!("the factor {} varies it; leave it out here", factor::id_of(factor));
            return Err(PlanError::new(reason).about(format!("knobs.{id}")));
        }
    }
    Ok(())
}
