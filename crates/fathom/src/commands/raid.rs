//! `fathom raid`.

use super::{CommandError, CommandResult, finish, lab};
use crate::args::{Common, Raid};
use crate::exit::Exit;
use crate::output::Output;
use crate::session::{self, Got, INTERVAL_NS, Purpose, Start};
use fathom_base::suggest;
use fathom_base::units::{
    format_duration, format_ns, format_size, parse_duration_ns, parse_fraction, parse_size,
};
use fathom_guard::{Consent, Protected};
use fathom_lab::experiment::Finished;
use fathom_lab::experiment::outline::Ground;
use fathom_lab::raid::{self, Alone, LAYOUTS, LEVELS, RaidOptions, never, plans, run as run_plans};
use fathom_model::plan::Plan;
use fathom_model::plan::outline::ImpossibleCell;
use fathom_model::plan::setup::SliceSpec;
use fathom_model::record::{Record, RunKind};
use fathom_report::experiment as experiment_report;
use fathom_report::raid as report;
use fathom_report::text::push_wrapped_to;
use fathom_study::raid::{RaidStudy, State, factor, study};
use fathom_study::verdict::Study;
use fathom_sys::signals::StopFlag;
use fathom_sys::sysroot::SysRoot;
use std::fmt::Write;
use std::path::Path;

/// Shorter windows show how a device begins, not what it does.
const WINDOW_NS_MIN: u64 = 10_000_000;
const WINDOW_NS_MAX: u64 = 3_600_000_000_000;

/// The chunk when nobody says.
const CHUNK: &str = "64k";

/// Measures the matrix, or says what it would do.
pub fn run(common: &Common, output: Output, stop: &StopFlag, args: &Raid) -> CommandResult {
    let options = options(args).map_err(|text| CommandError::usage(output, &text))?;
    let mut plans = plans(&options);
    for plan in &mut plans {
        plan.design.seed = common.seed;
    }
    let Some(matrix) = plans.last() else { return Ok(Exit::Usage) };
    let cells = fathom_plan::cells(matrix).map_err(|e| CommandError::usage(output, &e))?;
    if let Some(cell) =
        cells.iter().all(|cell| cell.impossible.is_some()).then(|| cells.first()).flatten()
    {
        let why = cell.impossible.as_deref().unwrap_or_default();
        return Err(CommandError::usage(output, &format!("no such array can be built: {why}")));
    }
    if let Some(why) = never(matrix, &cells, &given(args)) {
        return Err(CommandError::usage(output, &why));
    }
    if args.dry_run {
        dry_run(common, output, args, &plans)
    } else {
        measure(common, output, stop, args, &plans)
    }
}

/// The factors of which the command line names the levels.
fn given(args: &Raid) -> Vec<&'static str> {
    let given = [
        (factor::LEVEL, !args.level.is_empty()),
        (factor::LAYOUT, !args.layout.is_empty()),
        (factor::CHUNK, args.chunk != [CHUNK]),
        (factor::MEMBERS, !args.members.is_empty()),
        (factor::STATE, !args.state.is_empty()),
    ];
    given.into_iter().filter(|(_, is_given)| *is_given).map(|(factor, _)| factor).collect()
}

fn dry_run(common: &Common, output: Output, args: &Raid, plans: &[Plan]) -> CommandResult {
    let internal = |e: &dyn std::fmt::Display| CommandError::report_as(output, e, Exit::Internal);
    let path = session::store_path(common).map_err(|error| internal(&error))?;
    let state_dir = path.parent().unwrap_or(Path::new(".")).to_owned();
    let ground = Ground {
        root: &SysRoot::live(),
        consent: &Consent::new(args.any.destroy.clone()),
        protected: &Protected { store_path: path.clone() },
        state_dir: &state_dir,
    };
    let (outline, alone, refusal) = raid::dry_run(&ground, plans)
        .map_err(|error| CommandError::report_as(output, &error, Exit::of_error(&error)))?;
    let exit = refusal.as_ref().map_or(Exit::Done, Exit::of_error);
    let text = experiment_report::outline::text(&outline, output.width());
    let text = text + &alone_text(&alone, output.width());
    let result =
        serde_json::json!({ "outline": outline, "alone": alone, "exit_code": exit.code() });
    finish(output, &text, &result, exit)
}

/// What is measured before the arrays.
fn alone_text(alone: &Alone, width: usize) -> String {
    let trials = if alone.trials == 1 { "trial" } else { "trials" };
    let who = match alone.members {
        1 => "one member is".to_owned(),
        members => format!("each of {members} members is"),
    };
    let text = format!(
        "Before that {who} measured alone, without an array, under the same loads: {} {trials}, about {}, about {} written, in the time \
         and the bytes above.",
        alone.trials,
        format_duration(alone.time_ns),
        format_size(alone.written_bytes)
    );
    let mut out = "\n".to_owned();
    push_wrapped_to(&mut out, width, "", &text);
    out
}

fn measure(
    common: &Common,
    output: Output,
    stop: &StopFlag,
    args: &Raid,
    plans: &[Plan],
) -> CommandResult {
    let target = args.devices.join(",");
    let purpose = Purpose {
        kind: RunKind::Raid,
        target: &target,
        measure: &args.any.measure,
        destroy: args.any.destroy.clone(),
        interval_ns: INTERVAL_NS,
    };
    let Some(matrix) = plans.last() else { return Ok(Exit::Usage) };
    let start = Start::Plan { plan: matrix, resume: args.resume.as_deref(), is_new: args.new };
    let mut finished: Option<Finished> = None;
    let measured =
        session::measure_as(common, output, stop, &purpose, &start, &mut |lab, begun, keep| {
            let seed = begun.plan.as_ref().and_then(|plan| plan.design.seed);
            let mut plans = plans.to_vec();
            plans.iter_mut().for_each(|plan| plan.design.seed = seed);
            let done = run_plans(lab, &plans, &session::faults(), &begun.records, keep)?;
            let studied = study(&done.records);
            let got = Got {
                records: done.records.clone(),
                ending: Some(lab::ending_of(&done.ended)),
                exit: lab::exit_of(&done),
                study: Some(Study { findings: studied.findings, verdict: studied.verdict }),
            };
            finished = Some(done);
            Ok(got)
        })?;
    let Some(finished) = finished else { return Ok(measured.exit) };
    let studied = study(&finished.records);
    let mut text = report::text(&studied, output.width());
    let impossible = impossible(matrix);
    text = with_impossible(text, &impossible, output.width());
    text += &lab::ended_text(&finished, "the same command goes on with the next trial");
    text += &lab::around_text(&finished.around);
    let _ = writeln!(text, "{}", measured.stored_as(|show| format!(". Next: {show}")));
    let mut result = measured.json();
    result["raid"] = serde_json::to_value(&studied).unwrap_or_default();
    result["impossible"] = serde_json::to_value(&impossible).unwrap_or_default();
    result["ended"] = lab::ended_word(&finished.ended).into();
    result["around"] = serde_json::to_value(&finished.around).unwrap_or_default();
    result["restored"] =
        finished.restored.iter().map(ToString::to_string).collect::<Vec<_>>().into();
    finish(output, &text, &result, measured.exit)
}

/// The arrays of a matrix that cannot be built.
pub fn impossible(matrix: &Plan) -> Vec<ImpossibleCell> {
    fathom_plan::cells(matrix).map_or_else(|_| Vec::new(), |cells| raid::impossible(matrix, &cells))
}

/// What a matrix says, with the arrays that cannot be built behind it.
pub fn with_impossible(text: String, impossible: &[ImpossibleCell], width: usize) -> String {
    text + &experiment_report::outline::impossible(impossible, width)
}

/// What a stored matrix says, with what [`super::planned::judge`] found of it.
pub fn answer(output: Output, records: &[Record], judged: &Study) -> (String, RaidStudy) {
    let mut found = study(records);
    (found.findings, found.verdict) = (judged.findings.clone(), judged.verdict);
    (report::text(&found, output.width()), found)
}

fn options(args: &Raid) -> Result<RaidOptions, String> {
    let window_ns =
        parse_duration_ns(&args.time).map_err(|e| format!("--time={}: {e}", args.time))?;
    if !(WINDOW_NS_MIN..=WINDOW_NS_MAX).contains(&window_ns) {
        let (least, most) = (format_ns(WINDOW_NS_MIN), format_duration(WINDOW_NS_MAX));
        return Err(format!("--time={}: one measurement takes from {least} to {most}", args.time));
    }
    if !(1..=100).contains(&args.runs) {
        return Err(format!("--runs={}: from 1 to 100", args.runs));
    }
    for (option, size) in [("--start", &args.start), ("--block-size", &args.block_size)] {
        parse_size(size).map_err(|e| format!("{option}={size}: {e}"))?;
    }
    let fraction = parse_fraction(&args.write_fraction)
        .map_err(|e| format!("--write-fraction={}: {e}", args.write_fraction))?;
    let is_loop = |device: &String| device.starts_with("loop:");
    Ok(RaidOptions {
        devices: args
            .devices
            .iter()
            .map(
                |device| {
                    if is_loop(device) { device.clone() } else { session::absolute_target(device) }
                },
            )
            .collect(),
        slice: slice(args, args.devices.iter().all(is_loop))?,
        levels: known("--level", &args.level, &LEVELS_KNOWN, &LEVELS)?,
        layouts: if args.layout.is_empty() { words(&LAYOUTS) } else { args.layout.clone() },
        chunks: args.chunk.clone(),
        members: args.members.clone(),
        states: states(args)?,
        blocks: args.runs,
        window_ns,
        random_block: args.block_size.clone(),
        depth: args.depth,
        write_fraction: fraction,
        knobs: args.knob.iter().map(|text| knob(text)).collect::<Result<_, _>>()?,
        is_assumed_clean: args.assume_clean,
    })
}

/// A setting of the registry and a value that it can have, in the kernel's unit.
fn knob(text: &str) -> Result<(String, String), String> {
    let Some((id, value)) = text.split_once('=') else {
        return Err(format!("--knob={text}: write KNOB=VALUE, such as md.sync_speed_max=50000"));
    };
    let (bare, selector) = id.split_at(id.find('@').unwrap_or(id.len()));
    let found = fathom_knobs::find(bare).and_then(|knob| {
        fathom_knobs::legal::check_value(knob, value)?;
        let value = fathom_knobs::legal::in_unit(knob, value);
        Ok((format!("{}{selector}", knob.id), value))
    });
    found.map_err(|error| format!("--knob={text}: {error}"))
}

/// Levels that md has.
const LEVELS_KNOWN: [&str; 6] = ["raid0", "raid1", "raid4", "raid5", "raid6", "raid10"];

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn known(
    option: &str,
    given: &[String],
    all: &[&str],
    usual: &[&str],
) -> Result<Vec<String>, String> {
    if given.is_empty() {
        return Ok(words(usual));
    }
    match given.iter().find(|word| !all.contains(&word.as_str())) {
        Some(word) => {
            let hint = suggest::hint(word, all.iter().copied());
            Err(format!("{option}={word}: one of {}{hint}", all.join(", ")))
        }
        None => Ok(given.to_vec()),
    }
}

fn states(args: &Raid) -> Result<Vec<State>, String> {
    let words = State::ALL.map(State::word);
    let given = known("--state", &args.state, &words, &words)?;
    Ok(State::ALL
        .into_iter()
        .filter(|state| given.iter().any(|word| word == state.word()))
        .collect())
}

/// The same piece of each device: whole disks take hours to synchronise, and their beginning is faster than their end.
fn slice(args: &Raid, are_loops: bool) -> Result<Option<SliceSpec>, String> {
    match args.size.as_deref() {
        Some("all") => Ok(None),
        None if are_loops => Ok(None),
        size => {
            let size = size.unwrap_or("4GiB");
            parse_size(size).map_err(|e| format!("--size={size}: {e}; or all"))?;
            Ok(Some(SliceSpec { start: args.start.clone(), size: Some(size.to_owned()) }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stored matrix tells what could not be built, as the live one does.
    #[test]
    fn a_stored_matrix_has_its_impossible_arrays() {
        use crate::args::{Args, Command};
        use clap::Parser;
        let words = ["fathom", "raid", "loop:64MiB", "loop:64MiB", "loop:64MiB", "--level=raid0"];
        let args = Args::try_parse_from(words).unwrap();
        let Command::Raid(args) = &args.command else { unreachable!("raid was asked for") };
        let matrix = plans(&options(args).unwrap()).pop().unwrap();
        let text = with_impossible(String::new(), &impossible(&matrix), 200);
        assert!(text.contains("raid0 has no redundancy and is never degraded"), "{text}");
        assert!(!text.contains("layout"), "{text}");
    }

    #[test]
    fn a_setting_that_does_not_exist_or_cannot_have_the_value_is_a_mistake() {
        let pair = |id: &str, value: &str| Ok((id.to_owned(), value.to_owned()));
        assert_eq!(knob("md.sync_speed_max=50000"), pair("md.sync_speed_max", "50000"));
        assert_eq!(knob("block.scheduler@members=none"), pair("block.scheduler@members", "none"));
        let refused = |text: &str| knob(text).unwrap_err();
        assert!(refused("md.sync_speed=3").contains("did you mean 'md.sync_"));
        assert!(refused("md.sync_speed_max=fast").starts_with("--knob=md.sync_speed_max=fast: "));
        assert!(refused("md.sync_speed_max").contains("KNOB=VALUE"));
    }
}
