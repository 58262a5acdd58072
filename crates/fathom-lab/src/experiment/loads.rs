//! From the workloads of a cell to what is issued: jobs on targets, a program that is the load, a file server or a personality.

use super::server::{self, ServerLoad};
use crate::error::LabError;
use fathom_base::order::Order;
use fathom_base::units::{format_duration, parse_duration_ns};
use fathom_model::builtin;
use fathom_model::plan::PlanWorkload;
use fathom_model::workload::{EngineKind, Workload};
use fathom_plan::figure::Figure;
use fathom_sys::note;
use std::collections::BTreeMap;

/// How long a program may take when nobody says.
const TIMEOUT_NS: u64 = 3600 * 1_000_000_000;

/// What begins a setting that picks a figure out of a program's output.
const FIGURE: &str = "figure.";

/// Something that a trial measures on its own.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Load {
    /// The workload's label in the plan, or those of all that run side by side.
    pub label: String,
    /// What it is.
    pub kind: LoadKind,
}

/// What is issued.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LoadKind {
    /// Requests.
    Io(Box<Workload>),
    /// A program.
    Program(ProgramLoad),
    /// Processes on trees of files.
    Server(Box<ServerLoad>),
}

/// A program as the load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProgramLoad {
    /// As the shell takes it.
    pub command: String,
    /// Ended after this.
    pub timeout_ns: u64,
    /// How long it takes at least and at the most, where the plan says so.
    pub takes_ns: Option<(u64, u64)>,
    /// Figures by name.
    pub figures: BTreeMap<String, Figure>,
    /// A directory of its own.
    pub target: Option<String>,
}

impl Load {
    /// The longest that it takes by its own settings.
    pub fn planned_ns(&self) -> u64 {
        match &self.kind {
            LoadKind::Io(workload) => crate::run::planned_ns(workload),
            LoadKind::Program(ProgramLoad { takes_ns: Some((least, most)), .. }) => {
                u64::midpoint(*least, *most)
            }
            // Nobody knows; a timeout that somebody chose says more than nothing.
            LoadKind::Program(program) if program.timeout_ns < TIMEOUT_NS => program.timeout_ns,
            LoadKind::Program(_) => 0,
            LoadKind::Server(server) => server.spec.planned_ns(),
        }
    }
}

/// The places that loads have of their own, each once; neither `null:` nor what a setup makes.
pub(crate) fn own_targets(loads: &[Load]) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for load in loads {
        let own: Vec<&Option<String>> = match &load.kind {
            LoadKind::Io(workload) => workload.jobs.iter().map(|job| &job.target).collect(),
            LoadKind::Program(load) => vec![&load.target],
            LoadKind::Server(load) => vec![&load.target],
        };
        for target in own.into_iter().flatten() {
            let is_no_place = target.starts_with("null:") || target.starts_with("setup:");
            if !is_no_place && !found.contains(&target.as_str()) {
                found.push(target);
            }
        }
    }
    found
}

/// The loads of a trial in order: one for each workload, or all of them as one.
///
/// # Errors
/// [`LabError::Usage`] for what cannot be issued.
pub(crate) fn loads(workloads: &[PlanWorkload], is_together: bool) -> Result<Vec<Load>, LabError> {
    let single = |workload: &PlanWorkload| {
        let kind = match &workload.command {
            Some(command) => LoadKind::Program(program(workload, command)?),
            None => match server::load(workload)? {
                Some(load) => LoadKind::Server(Box::new(load)),
                None => LoadKind::Io(Box::new(io_workload(workload)?)),
            },
        };
        Ok(Load { label: workload.label.clone(), kind })
    };
    let singles: Vec<Load> = workloads.iter().map(single).collect::<Result<_, LabError>>()?;
    if is_together && singles.len() > 1 {
        together(singles).map(|load| vec![load])
    } else {
        Ok(singles)
    }
}

/// Whether a workload of a plan can be issued.
///
/// # Errors
/// [`LabError`] with what is wrong.
pub fn check_workload(workload: &PlanWorkload) -> Result<(), LabError> {
    loads(std::slice::from_ref(workload), false).map(|_| ())
}

/// The workload of that name or file with its settings; `phase=` chooses one of several.
///
/// # Errors
/// [`LabError::Usage`] with what is wrong, and [`LabError::Key`].
pub(crate) fn io_workload(asked: &PlanWorkload) -> Result<Workload, LabError> {
    let usage = |text: String| LabError::Usage(format!("workload '{}': {text}", asked.label));
    let Some(name) = &asked.name else {
        return Err(usage("it has neither a name nor a command".to_owned()));
    };
    let is_file = std::path::Path::new(name).extension().is_some_and(|e| e == "toml");
    let mut workload = if is_file {
        let text = note::read_text(std::path::Path::new(name))
            .map_err(|error| usage(format!("{name}: {error}")))?;
        builtin::parse(name, &text)?.workload
    } else {
        builtin::named(name)?
    };
    let mut settings = asked.settings.clone();
    if let Some(phase) = settings.remove("phase") {
        workload.keep_phases(&[phase])?;
    }
    let phases = workload.phases();
    if phases.len() > 1 {
        let text = format!(
            "'{name}' has the phases {}; an experiment measures one: phase = \"{}\"",
            phases.join(", "),
            phases[0]
        );
        return Err(usage(text));
    }
    let settings: Vec<(String, String)> = settings.into_iter().collect();
    workload.apply(&settings)?;
    for job in &mut workload.jobs {
        job.phase = None;
        if job.target.is_none() {
            job.target.clone_from(&asked.target);
        }
        let is_null = job.target.as_deref().is_some_and(|target| target.starts_with("null:"));
        if is_null
            && settings.iter().any(|(key, _)| key == "engine")
            && job.engine != EngineKind::Null
        {
            return Err(usage(
                "null: does no I/O, so no engine is used; leave engine out".to_owned(),
            ));
        }
    }
    workload.check()?;
    Ok(workload)
}

/// Jobs of all workloads in one measurement, named by the workload that they are of.
fn together(singles: Vec<Load>) -> Result<Load, LabError> {
    let mut labels: Vec<&str> = singles.iter().map(|load| load.label.as_str()).collect();
    labels.order();
    let label = labels.join("+");
    let mut jobs = Vec::new();
    for load in singles {
        let LoadKind::Io(workload) = load.kind else {
            let (what, cure) = match load.kind {
                LoadKind::Server(load) if load.spec.play.is_some() => {
                    ("a personality", "clients= and mix= say who does what beside whom")
                }
                LoadKind::Server(_) => ("a file server", "its phases say who runs beside whom"),
                _ => ("a command", "make it a companion to run it beside others"),
            };
            return Err(LabError::Usage(format!(
                "workload '{}' is {what}; these run one after the other: {cure}",
                load.label
            )));
        };
        let has_one = workload.jobs.len() == 1;
        jobs.extend(workload.jobs.into_iter().map(|mut job| {
            job.name =
                if has_one { load.label.clone() } else { format!("{}-{}", load.label, job.name) };
            job
        }));
    }
    let workload = Workload {
        name: label.clone(),
        title: "several workloads side by side".to_owned(),
        description: String::new(),
        classic: None,
        jobs,
        tracked: Vec::new(),
    };
    workload.check()?;
    Ok(Load { label, kind: LoadKind::Io(Box::new(workload)) })
}

/// A command with its settings: `timeout=`, and `figure.NAME=` with where a number is.
///
/// # Errors
/// [`LabError::Usage`] for other settings.
pub(crate) fn program(asked: &PlanWorkload, command: &str) -> Result<ProgramLoad, LabError> {
    let usage = |text: String| LabError::Usage(format!("workload '{}': {text}", asked.label));
    if command.trim().is_empty() {
        return Err(usage("its command is empty".to_owned()));
    }
    let mut load = ProgramLoad {
        command: command.to_owned(),
        timeout_ns: TIMEOUT_NS,
        takes_ns: None,
        figures: BTreeMap::new(),
        target: asked.target.clone(),
    };
    for (key, value) in &asked.settings {
        match key.strip_prefix(FIGURE) {
            Some("") => return Err(usage(format!("{key}='{value}': the figure has no name"))),
            Some(name) => {
                let figure = Figure::parse(value)
                    .map_err(|wrong| usage(format!("{key}='{value}': {wrong}")))?;
                load.figures.insert(name.to_owned(), figure);
            }
            None if key == "timeout" => {
                load.timeout_ns = parse_duration_ns(value)
                    .map_err(|error| usage(format!("timeout={value}: {error}")))?;
            }
            None if key == "takes" => {
                let takes = takes_ns(value);
                load.takes_ns =
                    Some(takes.map_err(|wrong| usage(format!("takes={value}: {wrong}")))?);
            }
            None => {
                let text = format!(
                    "'{key}' is no setting of a command; known: timeout, takes, {FIGURE}NAME"
                );
                return Err(usage(text));
            }
        }
    }
    if let Some((_, most)) = load.takes_ns.filter(|(_, most)| *most > load.timeout_ns) {
        let (most, timeout) = (format_duration(most), format_duration(load.timeout_ns));
        return Err(usage(format!("takes up to {most}, and is ended after {timeout} (timeout)")));
    }
    Ok(load)
}

/// How long a command takes: `30s`, or `30s-5m` where that is up to chance.
fn takes_ns(text: &str) -> Result<(u64, u64), String> {
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let seconds = |text: &str| match parse_duration_ns(text).map_err(|error| error.to_string())? {
        0 => Err(format!("{text} is no time; it takes 1s or more")),
        ns if ns.is_multiple_of(1_000_000_000) => Ok(ns),
        _ => Err(format!("{text} is no whole number of seconds")),
    };
    let (least_ns, most_ns) = (seconds(least)?, seconds(most)?);
    if most_ns < least_ns {
        return Err(format!("the longest time, {most}, is less than the shortest one, {least}"));
    }
    Ok((least_ns, most_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(label: &str, name: Option<&str>, pairs: &[(&str, &str)]) -> PlanWorkload {
        PlanWorkload {
            label: label.into(),
            name: name.map(Into::into),
            command: None,
            settings: pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(),
            target: None,
        }
    }

    #[test]
    fn several_workloads_become_jobs_of_one() {
        let read = PlanWorkload {
            target: Some("/a".into()),
            ..asked("fast", Some("randread"), &[("io_priority", "be/0")])
        };
        let write = asked("slow", Some("randwrite"), &[("io_priority", "be/7")]);
        let one = loads(&[read.clone(), write.clone()], true).expect("fits");
        let [Load { label, kind: LoadKind::Io(workload) }] = one.as_slice() else {
            panic!("{one:?}")
        };
        assert_eq!(label, "fast+slow");
        let jobs: Vec<_> =
            workload.jobs.iter().map(|j| (j.name.as_str(), j.target.as_deref())).collect();
        assert_eq!(jobs, [("fast", Some("/a")), ("slow", None)]);
        assert_eq!(own_targets(&one), ["/a"]);
        let built = PlanWorkload { target: Some("setup:2".into()), ..write.clone() };
        assert_eq!(own_targets(&loads(&[built], false).expect("fits")), [""; 0]);
        assert_eq!(loads(&[read, write], false).expect("fits").len(), 2);
    }

    #[test]
    fn a_workload_of_phases_wants_one() {
        let error = io_workload(&asked("x", Some("iozone"), &[])).expect_err("phases").to_string();
        assert!(error.contains("phase = \"write\""), "{error}");
        let one = io_workload(&asked("x", Some("iozone"), &[("phase", "read")])).expect("one");
        assert!(one.phases().is_empty() && !one.jobs.is_empty());
    }

    #[test]
    fn a_file_server_is_a_load_of_its_own() {
        let server = asked("fs", Some("fsop"), &[("phases", "2r,2r+1w"), ("tree_files", "100")]);
        let one = loads(std::slice::from_ref(&server), false).expect("fits");
        let [Load { kind: LoadKind::Server(load), .. }] = one.as_slice() else { panic!("{one:?}") };
        assert_eq!(load.spec.phases.len(), 2);
        assert_eq!(one[0].planned_ns(), 90_000_000_000, "two windows and a warm-up");
        for (pair, part) in [
            (("phases", "x"), "is no phase"),
            (("tree_fils", "5"), "tree_fils"),
            (("tree_time", "5s"), "tree_time"),
        ] {
            let wrong = asked("fs", Some("fsop"), &[pair]);
            let error = check_workload(&wrong).expect_err(part).to_string();
            assert!(error.contains(part), "{error}");
        }
        let beside = asked("io", Some("randread"), &[]);
        let error = |one: &PlanWorkload| {
            let both = [one.clone(), beside.clone()];
            loads(&both, true).expect_err("not beside others").to_string()
        };
        assert!(error(&server).contains("its phases say who runs beside whom"));
        let mail = asked("m", Some("mail"), &[]);
        assert!(
            error(&mail).contains("a personality") && error(&mail).contains("clients= and mix=")
        );
    }

    #[test]
    fn commands_have_few_settings() {
        let of = |pairs: &[(&str, &str)]| program(&asked("app", None, pairs), "make");
        let load = of(&[("timeout", "90s"), ("figure.tps", "tps {}")]).expect("known");
        assert_eq!((load.timeout_ns, load.figures.len()), (90_000_000_000, 1));
        let load = of(&[("takes", "30s-2m")]).expect("a range");
        assert_eq!(load.takes_ns, Some((30_000_000_000, 120_000_000_000)));
        let load = Load { label: "app".into(), kind: LoadKind::Program(load) };
        assert_eq!(load.planned_ns(), 75_000_000_000);
        let json = of(&[("figure.p99", "json:latency[\"99.0\"]")]).expect("known");
        assert!(matches!(json.figures["p99"], Figure::Json { .. }));
        for bad in [
            ("timeot", "1s"),
            ("figure.tps", "tps"),
            ("figure.tps", "json:"),
            ("timeout", "soon"),
            ("takes", "10s-5s"),
            ("takes", "0s-5s"),
            ("takes", "1500ms"),
            ("takes", "xs"),
            ("takes", "2h"),
            ("figure.", "{}"),
        ] {
            let error = of(&[bad]).expect_err("refused").to_string();
            assert!(error.contains(bad.0) && error.contains("'app'"), "{error}");
        }
    }
}
