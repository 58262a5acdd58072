//! `fathom lab`.

mod stages;

use super::{CommandError, CommandResult, detach, finish};
use crate::args::{Common, Lab as Arguments};
use crate::exit::Exit;
use crate::experiments;
use crate::output::Output;
use crate::session::{self, Got, INTERVAL_NS, Purpose, Start};
use fathom_base::suggest;
use fathom_guard::{Consent, Protected};
use fathom_knobs::Wait;
use fathom_lab::experiment::outline::{self, Ground};
use fathom_lab::experiment::{self, Ended, Experiment, Finished};
use fathom_lab::restore::{self, Outcome, Report};
use fathom_model::plan::cell::Cell;
use fathom_model::plan::outline::BeforeAfter;
use fathom_model::plan::{DesignKind, Plan, PlanWorkload};
use fathom_model::record::{Ending, RunKind};
use fathom_plan::{Given, Known, Parameter};
use fathom_report::experiment as report;
use fathom_store::{Store, StoreError};
use fathom_study::experiment as study;
use fathom_study::verdict::Study;
use fathom_sys::note;
use fathom_sys::signals::StopFlag;
use fathom_sys::sysroot::SysRoot;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Runs an experiment, or says what it would do.
pub fn run(common: &Common, output: Output, stop: &StopFlag, args: &Arguments) -> CommandResult {
    if let Some(run) = &args.winner_of {
        let mut plan = stages::winner(common, output, run)?;
        plan.design.seed = common.seed;
        return carry_out(common, output, stop, args, &plan);
    }
    let usage = |text: String| CommandError::usage(output, &text);
    let Some(name) = &args.plan else {
        return match without_plan(args) {
            Some(text) => Err(usage(text)),
            None => list(output),
        };
    };
    let (text, origin) = plan_text(args, name).map_err(usage)?;
    if args.print {
        output.text(&text)?;
        output.json("result", &serde_json::json!({ "plan": text }))?;
        return Ok(Exit::Done);
    }
    let mut plan = plan(common, args, &text, &origin).map_err(usage)?;
    if !args.levels_of.is_empty() {
        stages::take_levels(common, output, &mut plan, &args.levels_of)?;
    }
    carry_out(common, output, stop, args, &plan)
}

fn carry_out(
    common: &Common,
    output: Output,
    stop: &StopFlag,
    args: &Arguments,
    plan: &Plan,
) -> CommandResult {
    if args.dry_run {
        dry_run(common, output, stop, args, plan)
    } else if args.detach {
        detach::run(common, output)
    } else {
        if args.any.measure.detached {
            fathom_sys::process::leave_terminal();
        }
        measure(common, output, stop, args, plan)
    }
}

/// What is wrong with options that mean nothing without a plan; none where nothing but the list of plans was asked for.
fn without_plan(args: &Arguments) -> Option<String> {
    let given = [
        ("--levels-of=RUN", !args.levels_of.is_empty()),
        ("--resume=RUN", args.resume.is_some()),
        ("--skip=LABEL", !args.skip.is_empty()),
        ("--device=DEVICE", !args.device.is_empty()),
        ("--dry-run", args.dry_run),
        ("--print", args.print),
        ("--detach", args.detach),
        ("--new", args.new),
    ];
    let (option, _) = given.into_iter().find(|(_, is_given)| *is_given)?;
    let word = option.split('=').next().unwrap_or(option);
    Some(format!(
        "{word} needs a plan, a file or one that comes with fathom: fathom lab PLAN {option}; fathom lab lists those that come with it"
    ))
}

/// The plans that come with fathom.
fn list(output: Output) -> CommandResult {
    let plans = fathom_plan::ready();
    let mut text = String::from(
        "Plans that come with fathom; what stands in brackets need not be given. fathom lab NAME --print shows the\nplan itself, to be changed; --dry-run says what it would do.\n\n",
    );
    for plan in &plans {
        let _ = writeln!(text, "{}\n    {}", plan.usage(), plan.question);
        let usages: Vec<String> = plan.parameters.iter().map(Parameter::usage).collect();
        let width = usages.iter().map(String::len).max().unwrap_or(0);
        for (usage, parameter) in usages.iter().zip(&plan.parameters) {
            let _ = writeln!(text, "    {usage:width$}  {}", parameter.help);
        }
    }
    output.text(&text)?;
    let plans: Vec<serde_json::Value> = plans
        .iter()
        .map(|plan| serde_json::json!({ "name": plan.name, "question": plan.question, "text": plan.text }))
        .collect();
    output.json("result", &serde_json::json!({ "plans": plans }))?;
    Ok(Exit::Done)
}

/// The text of the plan and what to call it.
fn plan_text(args: &Arguments, name: &str) -> Result<(String, String), String> {
    let is_file =
        Path::new(name).extension().is_some_and(|e| e == "toml") || Path::new(name).is_file();
    let (targets, others): (Vec<&String>, Vec<&String>) =
        args.rest.iter().partition(|word| !word.contains('=') || Path::new(word.as_str()).exists());
    if let Some(second) = targets.get(1) {
        return Err(format!("'{second}': a plan has one target; parameters are NAME=VALUE"));
    }
    let pair = |text: &&String| text.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned()));
    let pairs: Vec<(String, String)> = others.iter().filter_map(pair).collect();
    let mut names = BTreeSet::new();
    if let Some((name, _)) = pairs.iter().find(|(name, _)| !names.insert(name.as_str())) {
        return Err(format!("{name} is given twice; leave out one of the two"));
    }
    let given = Given {
        target: targets.first().map(|target| session::absolute_target(target)),
        devices: args.device.clone(),
        others: pairs.into_iter().collect(),
    };
    if is_file {
        let text = note::read_text(Path::new(name)).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => format!("plan '{name}': there is no such file"),
            _ => format!("plan '{name}': {error}"),
        })?;
        if !text.contains("[parameters]") {
            let device = args.device.first().map(|device| format!("--device {device}"));
            if let Some(other) = others.first().map(|other| (*other).clone()).or(device) {
                return Err(format!(
                    "'{other}': the plan has no [parameters]; edit the file instead"
                ));
            }
            return Ok((text, name.to_owned()));
        }
        // The target of the command line goes into plans without a place for it too.
        let target = given.target.filter(|_| text.contains("\"<target>\""));
        let given = Given { target, ..given };
        let text =
            fathom_plan::fill_file(name, &text, &given).map_err(|error| error.to_string())?;
        return Ok((text, name.to_owned()));
    }
    let ready = fathom_plan::ready_named(name)
        .map_err(|error| no_plan(name).unwrap_or_else(|| error.to_string()))?;
    if args.print && targets.is_empty() && others.is_empty() && args.device.is_empty() {
        return Ok((ready.text.to_owned(), name.to_owned()));
    }
    let mut text = ready.fill(&given).map_err(|error| error.to_string())?;
    // btrfs has a read-ahead of its own, and ignores that of the device.
    let place = given.target.as_deref().map(Path::new);
    let stack = place.and_then(|place| {
        let place = fathom_inspect::stack::nearest_existing(place);
        fathom_inspect::resolve(&SysRoot::live(), &place).ok()
    });
    let kind = stack.as_ref().and_then(|stack| Some(stack.mount()?.fs_type.as_str()));
    if kind == Some("btrfs") {
        text = text.replace("\nblock.read_ahead_kb =", "\nbtrfs.read_ahead_kb =");
    }
    Ok((text, name.to_owned()))
}

/// What something is that is there and no plan, with what helps; none of what is not there.
fn no_plan(name: &str) -> Option<String> {
    let path = Path::new(name);
    let Ok(meta) = path.metadata() else {
        let is_path = name.contains('/') && path.symlink_metadata().is_err();
        return is_path.then(|| format!("plan '{name}': there is no such file"));
    };
    let kind = meta.file_type();
    let target = "a target stands behind the plan";
    let what = match () {
        () if kind.is_dir() => format!("a directory: {target}"),
        () if kind.is_block_device() => format!("a block device: {target}"),
        () if kind.is_char_device() => {
            return Some(format!(
                "plan '{name}': that is a character device, which is neither a plan nor a target; fathom lab lists the plans"
            ));
        }
        () if kind.is_fifo() => {
            return Some(format!("plan '{name}': that is a pipe; put the plan into a file"));
        }
        () => return Some(format!("plan '{name}': that is a socket, and no file")),
    };
    let word = fathom_base::shell::word(name);
    Some(format!(
        "plan '{name}': that is {what}: fathom lab PLAN {word}; fathom lab lists the plans"
    ))
}

/// The target of the command line.
fn target(args: &Arguments) -> Option<&String> {
    args.rest.iter().find(|word| !word.contains('=') || Path::new(word.as_str()).exists())
}

/// The plan, with what the command line changes of it.
fn plan(common: &Common, args: &Arguments, text: &str, origin: &str) -> Result<Plan, String> {
    let target = target(args).map(|target| session::absolute_target(target));
    let mut read = fathom_plan::read(text, origin, &Here);
    if let (Err(_), Some(target)) = (&read, &target) {
        // A plan that leaves the target to the command line; what else is wrong with it was said at its place.
        let with_target = format!("target = {}\n{text}", serde_json::Value::from(target.as_str()));
        read = fathom_plan::read(&with_target, origin, &Here).or(read);
    }
    let mut plan = read.map_err(|error| error.to_string())?;
    plan.target = target.or(plan.target);
    plan.target = plan.target.as_deref().map(session::absolute_target);
    plan.design.seed = common.seed.or(plan.design.seed);
    for skipped in &args.skip {
        skip(&mut plan, skipped)?;
    }
    if !args.skip.is_empty() {
        fathom_plan::cells(&plan).map_err(|error| format!("with --skip: {error}"))?;
    }
    Ok(plan)
}

/// Leaves a workload out, or all cells with a level.
fn skip(plan: &mut Plan, kind: &str) -> Result<(), String> {
    if let Some((factor, level)) = kind.split_once('=') {
        let known = plan.factors.iter().find(|known| known.name == factor);
        let has_level = known.is_some_and(|known| known.levels.iter().any(|known| known == level));
        if !has_level {
            let words: Vec<String> = plan
                .factors
                .iter()
                .flat_map(|factor| {
                    factor.levels.iter().map(|level| format!("{}={level}", factor.name))
                })
                .collect();
            let hint = suggest::hint(kind, words.iter().map(String::as_str));
            return Err(format!("--skip={kind}: the plan has no such level{hint}"));
        }
        let kind_of = plan.design.kind;
        if !matches!(kind_of, DesignKind::Full | DesignKind::OneAtATime) {
            return Err(format!(
                "--skip={kind}: the design of the plan stands on all its cells; take the level out of the factor in the plan"
            ));
        }
        plan.design.except.push([(factor.to_owned(), level.to_owned())].into());
        return Ok(());
    }
    let is_there = plan.workloads.iter().any(|workload| workload.label == kind);
    if !is_there {
        let labels = plan.workloads.iter().map(|workload| workload.label.as_str());
        let hint = suggest::hint(kind, labels.clone());
        let list = labels.collect::<Vec<_>>().join(", ");
        return Err(format!(
            "--skip={kind}: no workload has that label{hint}; there are {list}, and FACTOR=LEVEL"
        ));
    }
    if plan.workloads.len() == 1 {
        return Err(format!("--skip={kind}: that is the only workload"));
    }
    plan.workloads.retain(|workload| workload.label != kind);
    plan.objectives.retain(|objective| objective.workload.as_deref() != Some(kind));
    Ok(())
}

/// What this machine and this fathom know of the names in a plan.
struct Here;

impl Known for Here {
    fn knob(&self, id: &str) -> Result<(), String> {
        fathom_knobs::find(id).map(|_| ()).map_err(|error| error.to_string())
    }

    fn knob_value(&self, id: &str, value: &str) -> Result<(), String> {
        let knob = fathom_knobs::find(id);
        let checked = knob.and_then(|knob| fathom_knobs::legal::check_value(knob, value));
        checked.map_err(|error| error.to_string())
    }

    fn in_unit(&self, id: &str, value: &str) -> String {
        let knob = fathom_knobs::find(id);
        knob.map_or_else(|_| value.to_owned(), |knob| fathom_knobs::legal::in_unit(knob, value))
    }

    fn workload(&self, workload: &PlanWorkload) -> Result<(), String> {
        experiment::check_workload(workload).map_err(|error| error.to_string())
    }
}

fn dry_run(
    common: &Common,
    output: Output,
    stop: &StopFlag,
    args: &Arguments,
    plan: &Plan,
) -> CommandResult {
    let internal =
        |error: &dyn std::fmt::Display| CommandError::report_as(output, error, Exit::Internal);
    let path = session::store_path(common).map_err(|error| internal(&error))?;
    let cells = fathom_plan::cells(plan).map_err(|error| CommandError::usage(output, &error))?;
    let state_dir = path.parent().unwrap_or(Path::new(".")).to_owned();
    let ground = Ground {
        root: &SysRoot::live(),
        consent: &Consent::new(args.any.destroy.clone()),
        protected: &Protected { store_path: path.clone() },
        state_dir: &state_dir,
    };
    let mut note = |text: &str| output.note(text);
    let wait = &mut Wait { note: &mut note, stop: Some(stop) };
    let outlined = outline::dry_run(&ground, plan, &cells, wait);
    let (mut outline, refusal) = outlined
        .map_err(|error| CommandError::report_as(output, &error, Exit::of_error(&error)))?;
    let mut exit = refusal.as_ref().map_or(Exit::Done, Exit::of_error);
    match goes_on(ground.root, &path, plan, args) {
        Ok(note) => outline.notes.extend(note),
        Err((reason, how)) => {
            outline.refusals.push(reason);
            exit = exit.max(how);
        }
    }
    let pending = restore::pending(ground.root, &state_dir).unwrap_or_default();
    if pending.iter().any(|left| !left.is_running) {
        let note = "what a killed run left changed is put back first; until then values are its, not those before: fathom restore --list";
        outline.notes.push(note.to_owned());
    }
    let result = serde_json::json!({ "outline": outline, "exit_code": exit.code() });
    finish(output, &report::outline::text(&outline, output.width()), &result, exit)
}

/// What a start would say of an unfinished run of the plan.
fn goes_on(
    root: &SysRoot,
    store: &Path,
    plan: &Plan,
    args: &Arguments,
) -> Result<Option<String>, (String, Exit)> {
    let state_dir = store.parent().unwrap_or(Path::new("."));
    let store = match Store::open_read_only(store) {
        Ok(store) => store,
        Err(StoreError::Missing { .. }) if args.resume.is_none() => return Ok(None),
        Err(error) => return Err((error.to_string(), Exit::of_store(&error))),
    };
    let mut footing = experiments::footing(root, plan, state_dir);
    // What a killed run has left changed is put back first.
    if restore::pending(root, state_dir).is_ok_and(|left| !left.is_empty()) {
        footing.iter_mut().for_each(|one| one.settings.clear());
    }
    let resume = args.resume.as_deref();
    let run = experiments::to_go_on_with(&store, (plan, &footing), resume, args.new)?;
    Ok(run.map(|run| {
        let id = &run.head.id;
        let prefix = store.shortest_prefix(id).unwrap_or_else(|_| id.clone());
        let trials = run.records.len();
        format!(
            "goes on with run {prefix}, of which {trials} trials are there; begin anew with --new"
        )
    }))
}

fn measure(
    common: &Common,
    output: Output,
    stop: &StopFlag,
    args: &Arguments,
    plan: &Plan,
) -> CommandResult {
    let target = plan.target.clone().unwrap_or_else(|| plan.setup.devices.join(","));
    let purpose = Purpose {
        kind: RunKind::Experiment,
        target: &target,
        measure: &args.any.measure,
        destroy: args.any.destroy.clone(),
        interval_ns: INTERVAL_NS,
    };
    let start = Start::Plan { plan, resume: args.resume.as_deref(), is_new: args.new };
    let mut finished: Option<Finished> = None;
    let measured =
        session::measure_as(common, output, stop, &purpose, &start, &mut |lab, begun, keep| {
            let experiment = Experiment {
                plan: begun.plan.clone().unwrap_or_else(|| plan.clone()),
                faults: session::faults(),
                name: Cell::name,
            };
            let done = experiment::run(lab, &experiment, &begun.records, keep)?;
            let studied = study::study(&done.plan, &done.cells, &done.records);
            let got = Got {
                records: done.records.clone(),
                ending: Some(ending_of(&done.ended)),
                exit: exit_of(&done),
                study: Some(Study { findings: studied.findings, verdict: studied.verdict }),
            };
            finished = Some(done);
            Ok(got)
        })?;
    let Some(finished) = finished else { return Ok(measured.exit) };
    let studied = study::study(&finished.plan, &finished.cells, &finished.records);
    let mut text = super::planned::text(output, &told_once(studied.clone(), &finished));
    text += &ended_text(&finished, "fathom lab with the same plan goes on with the next trial");
    text += &around_text(&finished.around);
    let _ = writeln!(text, "{}", measured.stored_as(|show| format!(". Next: {show}")));
    if let Some(prefix) = &measured.prefix {
        let run = format!("{prefix}{}", session::db_option(common));
        text += &stages::next(&finished.plan, &studied, &run);
    }
    let mut result = measured.json();
    result["experiment"] = serde_json::to_value(&studied).unwrap_or_default();
    result["ended"] = ended_word(&finished.ended).into();
    result["around"] = serde_json::to_value(&finished.around).unwrap_or_default();
    result["restored"] =
        finished.restored.iter().map(ToString::to_string).collect::<Vec<_>>().into();
    finish(output, &text, &result, measured.exit)
}

pub(super) fn ending_of(ended: &Ended) -> Ending {
    match ended {
        Ended::Complete | Ended::Answered | Ended::Budget(_) => Ending::Complete,
        Ended::Interrupted | Ended::Boot(_) => Ending::Interrupted,
        Ended::Failed { .. } => Ending::Failed,
    }
}

pub(super) fn ended_word(ended: &Ended) -> &'static str {
    match ended {
        Ended::Complete => "complete",
        Ended::Answered => "answered",
        Ended::Budget(_) => "budget",
        Ended::Interrupted => "interrupted",
        Ended::Failed { .. } => "failed",
        Ended::Boot(_) => "boot",
    }
}

pub(super) fn exit_of(finished: &Finished) -> Exit {
    let ended = match &finished.ended {
        Ended::Complete | Ended::Answered | Ended::Budget(_) => Exit::Done,
        Ended::Interrupted => Exit::Interrupted,
        Ended::Boot(_) => Exit::Missing,
        Ended::Failed { class: None, .. } => Exit::Doubtful,
        Ended::Failed { class: Some(class), .. } => Exit::of_class(*class),
    };
    let left = finished.restored.iter().map(|report| match report.outcome {
        Outcome::Failed(_) | Outcome::Unnoted(_) | Outcome::Away(_) | Outcome::NotHere(_) => {
            Exit::TargetIo
        }
        Outcome::ChangedBySomebody(_) => Exit::Doubtful,
        _ => Exit::Done,
    });
    left.fold(ended, Exit::max)
}

/// In the place of what is told below, in its own words.
const BELOW: &str = "settings of the trial before could not be put back, see below";

/// What could not be put back is told once, at the end, and not with each trial that could not begin because of it.
fn told_once(mut studied: study::ExperimentStudy, finished: &Finished) -> study::ExperimentStudy {
    let left = finished.restored.iter().filter(|report| !report.outcome.is_done());
    for report in left.map(ToString::to_string) {
        for void in studied.void.iter_mut().filter(|void| void.cause.contains(&report)) {
            void.cause = BELOW.to_owned();
        }
        for finding in &mut studied.findings {
            finding.summary = finding.summary.replace(&report, BELOW);
        }
    }
    studied
}

pub(super) fn ended_text(finished: &Finished, again: &str) -> String {
    let mut text = match &finished.ended {
        Ended::Complete => String::new(),
        Ended::Answered => match (blocks(finished), finished.plan.design.blocks) {
            (done, most) if done >= most => String::new(),
            (done, most) => format!(
                "Ended early, after {done} of at most {most} blocks: everything that was asked is decided.\n"
            ),
        },
        Ended::Budget(why) => format!(
            "Ended by its budget: {why}. What was measured stands; with a larger budget it begins anew.\n"
        ),
        Ended::Interrupted => format!("Interrupted; {again}.\n"),
        Ended::Failed { cause, class } => {
            // What stayed is told below, in its own words.
            let is_below = |report: &restore::Report| cause.contains(&report.to_string());
            let cause = match finished.restored.iter().any(is_below) {
                true => BELOW,
                false => cause.as_str(),
            };
            let why = match class {
                Some(_) => " by a failure",
                None => ", because none of the last three trials counts; the last",
            };
            format!("ENDED{why}: {cause}\nWhen the cause is gone, {again}.\n")
        }
        Ended::Boot(wanted) => {
            format!("The rest needs another boot: {}. Then {again}.\n", wanted.join("; or "))
        }
    };
    let left: Vec<String> = finished
        .restored
        .iter()
        .filter(|report| !report.outcome.is_done())
        .map(ToString::to_string)
        .collect();
    if left.is_empty() {
        text += "Everything that was changed is back as before.\n";
    } else {
        let is_back = |report: &Report| {
            report.outcome.is_done() || matches!(report.outcome, Outcome::Unnoted(_))
        };
        let head = match finished.restored.iter().all(is_back) {
            true => "As before, but not noted as such",
            false => "NOT as before",
        };
        let _ = writeln!(text, "{head} ({}):", restore::summary(&finished.restored));
        left.iter().for_each(|line| text += &format!("  {line}\n"));
    }
    text
}

/// Blocks that were begun.
fn blocks(finished: &Finished) -> u32 {
    let of = finished.records.iter().filter_map(|record| record.cell.as_ref());
    of.map(|cell| cell.slot.block + 1).max().unwrap_or(0)
}

pub(super) fn around_text(around: &[BeforeAfter]) -> String {
    if around.is_empty() {
        return String::new();
    }
    let mut text = String::from("\nThe machine before and after:\n");
    let width = around.iter().map(|line| line.what.len()).max().unwrap_or(0);
    for line in around {
        let BeforeAfter { what, before, after, is_same } = line;
        let mark = if *is_same { "  " } else { "! " };
        let both = match (is_same, before == after) {
            (true, true) => before.clone(),
            _ => format!("{before} -> {after}"),
        };
        let _ = writeln!(text, "{mark}{what:width$}  {both}");
    }
    text + "\n"
}
