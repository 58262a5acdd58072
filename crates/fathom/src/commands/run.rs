//! `fathom run`.

use super::{
    CommandError, CommandResult, against, check_consent, exercise, finish, fsop, key_value,
    local_zone, play, workloads,
};
use crate::args::{Common, MeasureAny, Run, Style};
use crate::output::Output;
use crate::session::{self, Purpose};
use fathom_base::shell;
use fathom_base::suggest;
use fathom_base::units::{format_ns, parse_duration_ns};
use fathom_lab::run::{RunOptions, run as run_workload};
use fathom_model::builtin::{self, WorkloadError, WorkloadFile};
use fathom_model::elsewhere;
use fathom_model::finding::Finding;
use fathom_model::keys::KEYS;
use fathom_model::record::{Record, RunKind};
use fathom_model::workload::{EngineKind, Job, Tracked, Workload};
use fathom_report::{classic, detail, summary};
use fathom_stats::steady::WINDOW_ROUNDS;
use fathom_study::repeats::{self, Repeats};
use fathom_study::rounds::{self, Rounds};
use fathom_sys::note;
use fathom_sys::signals::StopFlag;
use std::fmt::Write;
use std::ops::RangeInclusive;
use std::path::Path;

/// Runs a workload and prints what came out.
pub fn run(common: &Common, output: Output, stop: &StopFlag, args: &Run) -> CommandResult {
    check_consent(output, &args.any, (&args.workload, &args.target), &args.settings)?;
    if args.workload == exercise::NAME {
        return exercise::run(common, output, stop, args);
    }
    if fsop::is_meant(&args.workload) {
        return fsop::run(common, output, stop, args);
    }
    if let Some(personality) = play::found(output, &args.workload)? {
        let options = play::options(output, args, personality)?;
        return fsop::measure(common, output, stop, args, &options);
    }
    let interval_ns = interval(output, &args.interval)?;
    if !args.against.is_empty() {
        return against::run(common, output, stop, args, interval_ns);
    }
    let mut workload = workload(output, args)?;
    workload.tracked = tracked(output, &args.track)?;
    let until_steady = args.until_steady.map(|_| args.then);
    let repeats = repeats(args).map_err(|e| CommandError::usage(output, &e))?;
    let options = RunOptions { workload, target: args.target.clone(), repeats, until_steady };
    measure(common, output, stop, &options, (&args.any, args.style, interval_ns), &[])
}

/// Runs what is known by now, and prints what came out; `known` belongs to each record.
pub(super) fn measure(
    common: &Common,
    output: Output,
    stop: &StopFlag,
    options: &RunOptions,
    (any, style, interval_ns): (&MeasureAny, Style, u64),
    known: &[Finding],
) -> CommandResult {
    let purpose = Purpose {
        kind: if options.until_steady.is_some() { RunKind::Rounds } else { RunKind::Run },
        target: &options.target,
        measure: &any.measure,
        destroy: any.destroy.clone(),
        interval_ns,
    };
    let measured = session::measure(common, output, stop, &purpose, &mut |lab, keep| {
        lab.known = known.to_vec();
        run_workload(lab, options, keep)
    })?;
    let rounds = options.until_steady.map(|_| rounds::study(&measured.records));
    let repeats = repeats::of_run(purpose.kind, &measured.records);
    let mut text = match &rounds {
        Some(rounds) if style == Style::Fathom => rounds_text(output, rounds),
        _ => records_text(output, &measured.records, &repeats, style)?,
    };
    text += &measured.findings(output);
    let _ = writeln!(
        text,
        "Whole command {}, of it measured {}.\n{}",
        format_ns(measured.took_ns),
        format_ns(measured.records.iter().map(|r| r.window_ns).sum()),
        measured.stored_as(|show| format!("; all of it again: {show}"))
    );
    let mut result = measured.json();
    if !repeats.is_empty() {
        result["repeats"] = serde_json::to_value(&repeats).unwrap_or_default();
    }
    if let Some(rounds) = &rounds {
        result["rounds"] = serde_json::to_value(rounds).unwrap_or_default();
    }
    finish(output, &text, &result, measured.exit)
}

/// The figures that have to become steady.
fn tracked(output: Output, words: &[String]) -> Result<Vec<Tracked>, CommandError> {
    let known = || Tracked::ALL.iter().map(|tracked| tracked.word());
    let one = |word: &String| {
        let found = Tracked::ALL.into_iter().find(|tracked| tracked.word() == word);
        found.ok_or_else(|| {
            let (all, hint) =
                (known().collect::<Vec<_>>().join(", "), suggest::hint(word, known()));
            CommandError::usage(output, &format!("--track={word}: one or more of {all}{hint}"))
        })
    };
    words.iter().map(one).collect()
}

/// How often, at the most.
fn repeats(args: &Run) -> Result<u32, String> {
    const ROUNDS: RangeInclusive<u32> = WINDOW_ROUNDS as u32..=10_000;
    match (args.repeats, args.until_steady) {
        (0, _) => Err("--repeats=0: at least 1".into()),
        (2.., Some(_)) => Err("--repeats and --until-steady: rounds are repeats; give one".into()),
        (_, Some(rounds)) if !ROUNDS.contains(&rounds) => Err(format!(
            "--until-steady={rounds}: from {} rounds, which the rule looks at, to {}",
            ROUNDS.start(),
            ROUNDS.end()
        )),
        (_, Some(_)) if !(0..=*ROUNDS.end()).contains(&args.then) => {
            Err(format!("--then={}: at most {} rounds", args.then, ROUNDS.end()))
        }
        (repeats, rounds) => Ok(rounds.map_or(repeats, |rounds| rounds + args.then)),
    }
}

/// What rounds until steady came to.
pub fn rounds_text(output: Output, found: &Rounds) -> String {
    fathom_report::rounds::text(found, output.width()) + "\n"
}

/// Records in the form that was asked for.
pub fn records_text(
    output: Output,
    records: &[Record],
    repeats: &[Repeats],
    style: Style,
) -> Result<String, CommandError> {
    if records.iter().any(|record| record.fsop.is_some()) {
        return Ok(fsop::records_text(output, records, style));
    }
    if style == Style::Classic {
        let Some(text) = classic::classic(records) else {
            let name = records.first().map_or("", |record| record.workload.name.as_str());
            return Err(no_classic_form(output, name));
        };
        return Ok(text + "\n");
    }
    let mut text = String::new();
    for record in records {
        text += &detail::run_detail(record, &local_zone(), output.width());
        text.push('\n');
    }
    // Of jobs side by side the sum, too.
    if records.len() > 1 || records.iter().any(|record| record.jobs.len() > 1) {
        text += &summary::run_table(records, repeats, output.width());
        text.push('\n');
    }
    Ok(text)
}

fn no_classic_form(output: Output, workload: &str) -> CommandError {
    let all = builtin::all();
    let have: Vec<&str> =
        all.iter().filter(|w| w.classic.is_some()).map(|w| w.name.as_str()).collect();
    let text =
        format!("workload '{workload}' has no classic form; these have: {}", have.join(", "));
    CommandError::usage(output, &text)
}

fn interval(output: Output, text: &str) -> Result<u64, CommandError> {
    let usage =
        |reason: String| CommandError::usage(output, &format!("--interval={text}: {reason}"));
    let interval_ns = parse_duration_ns(text).map_err(|e| usage(e.to_string()))?;
    if (10_000_000..=60_000_000_000).contains(&interval_ns) {
        Ok(interval_ns)
    } else {
        Err(usage("from 10ms to 1m".into()))
    }
}

/// The workload of the command line.
pub(super) fn workload(output: Output, args: &Run) -> Result<Workload, CommandError> {
    checked(output, args, &[])
}

/// The workload of the command line with further settings.
pub(super) fn checked(
    output: Output,
    args: &Run,
    further: &[(String, String)],
) -> Result<Workload, CommandError> {
    let usage = |e: &dyn std::fmt::Display| CommandError::usage(output, e);
    if args.target.is_empty() {
        return Err(usage(&"the target is empty; name a directory, a file, a device, or null:"));
    }
    if let Some(text) = setting_in_place_of_target(args) {
        return Err(usage(&text));
    }
    let found = load(&args.workload, |error| unknown(args, error));
    let WorkloadFile { mut workload, settings: of_file } = found.map_err(|e| usage(&e))?;
    if args.style == Style::Classic && workload.classic.is_none() {
        return Err(no_classic_form(output, &workload.name));
    }
    if !args.phase.is_empty() {
        workload.keep_phases(&args.phase).map_err(|e| usage(&e))?;
    }
    let mut settings: Vec<(String, String)> =
        args.settings.iter().map(|s| key_value(output, s)).collect::<Result<_, _>>()?;
    // What is said again is said otherwise.
    settings.retain(|(key, _)| !further.iter().any(|(other, _)| other == key));
    settings.extend_from_slice(further);
    workload.apply(&settings).map_err(|e| usage(&e))?;
    check_arrivals(&workload, &settings).map_err(|e| usage(&e))?;
    check_null_targets(&workload, &settings, &args.target).map_err(|e| usage(&e))?;
    check_null_effects(&workload, &settings, &args.target).map_err(|e| usage(&e))?;
    check_null_targets(&workload, &of_file, &args.target)
        .map_err(|e| usage(&format!("workload file '{}': {e}", args.workload)))?;
    name_null_targets(&mut workload, &args.target);
    workload.check().map_err(|e| usage(&e))?;
    Ok(workload)
}

/// The workload of that name, or of that file; `unknown` says that there is none.
pub(super) fn load(
    name: &str,
    unknown: impl Fn(&WorkloadError) -> String,
) -> Result<WorkloadFile, String> {
    if Path::new(name).extension().is_some_and(|e| e == "toml") {
        let text = note::read_text(Path::new(name)).map_err(|e| no_file(name, &e))?;
        return builtin::parse(name, &text).map_err(|e| e.to_string());
    }
    let workload = builtin::named(name).map_err(|e| unknown(&e))?;
    Ok(WorkloadFile { workload, settings: Vec::new() })
}

/// A setting where the target is meant to be, in words.
fn setting_in_place_of_target(args: &Run) -> Option<String> {
    let (key, value) = args.target.split_once('=')?;
    if let Some(meant) = elsewhere::of_others(key).filter(|_| !Path::new(&args.target).exists()) {
        return Some(format!("'{}' is no target; {key} is here {meant}", args.target));
    }
    let is_key = KEYS.iter().any(|known| known.name == key);
    (is_key && !Path::new(&args.target).exists()).then(|| {
        let target = if key == "target" { value } else { "TARGET" };
        format!(
            "'{}' is a setting; the target comes before all settings: fathom run {} {}",
            args.target,
            shell::word(&args.workload),
            shell::word(target)
        )
    })
}

fn no_file(path: &str, error: &std::io::Error) -> String {
    let cure = match error.kind() {
        std::io::ErrorKind::NotFound => "; fathom workloads lists those that are built in",
        std::io::ErrorKind::InvalidInput => "; put the workload into a file",
        _ => "",
    };
    format!("workload file '{path}': {error}{cure}")
}

/// Two words that are in the wrong order say so.
fn unknown(args: &Run, error: &WorkloadError) -> String {
    match builtin::named(&args.target) {
        Ok(_) => format!(
            "'{}' is no workload; the workload comes first, then the target: fathom run {} {}",
            args.workload,
            shell::word(&args.target),
            shell::path(Path::new(&args.workload))
        ),
        Err(_) => match error {
            WorkloadError::Unknown { name, .. } => workloads::unknown(name).to_string(),
            _ => error.to_string(),
        },
    }
}

/// Without an open loop nothing arrives by a rule. A search gives the rate itself.
fn check_arrivals(workload: &Workload, settings: &[(String, String)]) -> Result<(), String> {
    let is_about = |key: &str| key == "arrivals" || key.ends_with(".arrivals");
    match settings.iter().find(|(key, _)| is_about(key)) {
        Some((key, value)) if workload.jobs.iter().all(|job| job.rate.is_none()) => Err(format!(
            "{key}={value}: has no effect without an open loop; give its rate=, or leave it out"
        )),
        _ => Ok(()),
    }
}

fn is_null(job: &Job, target: &str) -> bool {
    job.target.as_deref().unwrap_or(target).starts_with("null:")
}

/// `null:` has the null engine only: another one that somebody asked for is not silently replaced.
pub(super) fn check_null_targets(
    workload: &Workload,
    settings: &[(String, String)],
    target: &str,
) -> Result<(), String> {
    for job in workload.jobs.iter().filter(|job| is_null(job, target)) {
        let name = job.target.as_deref().unwrap_or(target);
        if let Some(more) = name.strip_prefix("null:").filter(|more| !more.is_empty()) {
            return Err(format!(
                "{name}: nothing stands behind null:, so '{more}' means nothing; a size is given as size={more}"
            ));
        }
        let asked = settings.iter().find(|(key, _)| {
            let own = key.strip_prefix(&job.name).and_then(|rest| rest.strip_prefix('.'));
            match own.unwrap_or(key) {
                "engine" => job.engine != EngineKind::Null,
                "sqpoll" => job.sqpoll,
                "polled" => job.polled,
                "registered" => job.registered.is_some(),
                "batch_submit" => job.batch_submit.is_some(),
                _ => false,
            }
        });
        if let Some((key, value)) = asked {
            return Err(format!(
                "{key}={value}: null: does no I/O, so no engine is used; leave it out, or name a directory, file or \
                 device"
            ));
        }
    }
    Ok(())
}

/// What is about files and the page cache.
const OF_FILES: [&str; 3] = ["drop_cache", "open_sync", "overwrite"];
/// What is about data, which the null engine does not even make when it is asked for by its name.
const OF_DATA: [&str; 3] = ["compressible", "content", "duplicate"];

/// A setting of the command line that has no effect where no I/O is done; a workload file is for other targets as well.
pub(super) fn check_null_effects(
    workload: &Workload,
    settings: &[(String, String)],
    target: &str,
) -> Result<(), String> {
    let is_idle = |(key, value): &&(String, String)| {
        let (of, name) = key.split_once('.').map_or((None, key.as_str()), |(of, n)| (Some(of), n));
        let mut meant =
            workload.jobs.iter().filter(|job| of.is_none_or(|of| of == job.name)).peekable();
        // Such a value asks for nothing anywhere.
        let is_off = matches!(value.as_str(), "0" | "none" | "no" | "off" | "false");
        let has_none = |job: &Job| {
            let is_made = job.engine != EngineKind::Null;
            is_null(job, target)
                && (OF_FILES.contains(&name) || !is_made && OF_DATA.contains(&name))
        };
        !is_off && meant.peek().is_some() && meant.all(has_none)
    };
    settings.iter().find(is_idle).map_or(Ok(()), |(key, value)| {
        Err(format!(
            "{key}={value}: has no effect on null:, which does no I/O; leave it out, or name a directory, file or device"
        ))
    })
}

/// A real path that the null engine gets instead stays known to the job, so that the figures are not taken for those of
/// the path.
pub(super) fn name_null_targets(workload: &mut Workload, target: &str) {
    for job in &mut workload.jobs {
        if job.engine == EngineKind::Null && !is_null(job, target) {
            job.target.get_or_insert_with(|| target.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A built-in workload with settings of the command line, or those of a file.
    fn check(target: &str, pairs: &[(&str, &str)]) -> Result<Workload, String> {
        let mut workload = builtin::named("randread").expect("built in");
        let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let settings: Vec<_> = pairs.iter().map(own).collect();
        workload.apply(&settings).expect("known");
        check_null_targets(&workload, &settings, target)?;
        name_null_targets(&mut workload, target);
        Ok(workload)
    }

    #[test]
    fn the_null_engine_and_the_null_target_go_together() {
        let error = check("null:", &[("engine", "psync")]).expect_err("no engine");
        assert!(error.starts_with("engine=psync: null: does no I/O"), "{error}");
        assert!(check("null:", &[("read.engine", "io_uring")]).is_err());
        assert!(check("/srv", &[("target", "null:"), ("engine", "libaio")]).is_err());
        for (key, value) in
            [("sqpoll", "yes"), ("polled", "yes"), ("registered", "no"), ("batch_submit", "1")]
        {
            let error = check("null:", &[(key, value)]).expect_err("a way of an engine");
            assert!(error.starts_with(&format!("{key}={value}: null: does no I/O")), "{error}");
            assert!(check("/srv", &[(key, value)]).is_ok(), "{key}");
        }
        assert!(check("null:", &[("sqpoll", "no"), ("size", "1M"), ("files", "3")]).is_ok());
        let error = check("null:64M", &[]).expect_err("a size is a key");
        assert!(error.contains("size=64M"), "{error}");
        // The one that is for this job alone counts.
        assert!(check("null:", &[("engine", "psync"), ("read.engine", "null")]).is_ok());
        for (target, engine, known) in
            [("null:", "null", None), ("/srv", "null", Some("/srv")), ("/srv", "psync", None)]
        {
            let workload = check(target, &[("engine", engine)]).expect("valid");
            assert_eq!(workload.jobs[0].target.as_deref(), known, "{target} {engine}");
        }
    }

    #[test]
    fn what_has_no_effect_on_the_null_target_is_refused() {
        let check = |target, pairs: &[(&str, &str)]| {
            let mut workload = builtin::named("randread").expect("built in");
            let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            let settings: Vec<_> =
                [&[("write_fraction", "0.5")][..], pairs].concat().iter().map(own).collect();
            workload.apply(&settings).expect("known");
            check_null_effects(&workload, &settings, target)
        };
        for pairs in [
            &[("open_sync", "dsync")][..],
            &[("read.open_sync", "sync")],
            &[("drop_cache", "yes"), ("direct", "no")],
            &[("compressible", "0.5"), ("engine", "null")],
            &[("duplicate", "10%"), ("engine", "null")],
            &[("content", "zero"), ("engine", "null")],
        ] {
            let (key, value) = pairs[0];
            let error = check("null:", pairs).expect_err(key);
            assert!(
                error.starts_with(&format!("{key}={value}: has no effect on null:")),
                "{error}"
            );
            assert_eq!(check("/srv", pairs), Ok(()));
        }
        // Data is made for null: unless its engine is asked for by name, places and classes are counted, and direct requests are
        // whole blocks.
        for pairs in [
            &[("content", "zero")][..],
            &[("compressible", "0.5")],
            &[("offset", "50%")],
            &[("trim_fraction", "0.1")],
            &[("direct", "no"), ("block_size", "100")],
            &[("open_sync", "none")],
        ] {
            assert_eq!(check("null:", pairs), Ok(()), "{pairs:?}");
        }
    }

    #[test]
    fn arrivals_are_those_of_an_open_loop() {
        let randread = |pairs: &[(&str, &str)]| {
            let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            let settings: Vec<_> = pairs.iter().map(own).collect();
            let mut workload = builtin::named("randread").expect("built in");
            workload.apply(&settings).expect("known");
            check_arrivals(&workload, &settings)
        };
        for key in ["arrivals", "read.arrivals"] {
            let error = randread(&[(key, "even")]).expect_err("no rate");
            assert!(error.starts_with(&format!("{key}=even: has no effect")), "{error}");
            assert_eq!(randread(&[(key, "even"), ("rate", "100")]), Ok(()));
        }
        assert_eq!(randread(&[("depth", "1")]), Ok(()));
    }

    #[test]
    fn an_engine_of_a_file_is_not_silently_replaced() {
        let text =
            "name='x'\n[[job]]\noperations=1\nengine='io_uring'\n[[job]]\nname='b'\noperations=1";
        let WorkloadFile { workload, settings } = builtin::parse("f", text).expect("valid");
        let error = check_null_targets(&workload, &settings, "null:").expect_err("asked for");
        assert!(error.starts_with("job.engine=io_uring: null: does no I/O"), "{error}");
        assert_eq!(check_null_targets(&workload, &settings, "/srv"), Ok(()));
    }
}
