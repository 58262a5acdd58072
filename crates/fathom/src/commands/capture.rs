//! `fathom capture`: what a device is asked for, by whom, and what that means.

pub mod compare;
mod device;
mod sink;
mod store;
mod take;

use super::planned::Answer;
use super::reading::Reading;
use super::{CommandError, CommandResult, finish, standing};
use crate::args::watch::Watch;
use crate::args::{Capture, Common};
use crate::exit::Exit;
use crate::output::Output;
use crate::session;
use fathom_base::shell;
use fathom_base::units::{format_ns, format_size, parse_duration_ns};
use fathom_model::capture::CaptureRecord;
use fathom_model::record::{Ending, Record, RunKind};
use fathom_observe::trace::file::TraceError;
use fathom_observe::trace::live::{Capture as LiveCapture, CaptureError};
use fathom_observe::trace::open::Source;
use fathom_observe::trace::so_far::SoFar;
use fathom_report::capture as report;
use fathom_report::findings::findings_text;
use fathom_study::capture::likeness::{self, Changed};
use fathom_study::capture::{faults_of_trace, twin};
use fathom_study::verdict;
use fathom_sys::signals::StopFlag;
use fathom_sys::sysroot::SysRoot;
use sink::check_new;
use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _};
use std::path::Path;
pub use store::{Kept, keep};

/// Where neither a time nor a command is given.
const TIME_NS: u64 = 10_000_000_000;
/// The longest: a day and more needs a reason and a disk.
const TIME_NS_MAX: u64 = 7 * 86_400 * 1_000_000_000;

/// Captures, or reads a trace, and says what it is.
pub fn run(common: &Common, output: Output, stop: &StopFlag, args: &Capture) -> CommandResult {
    let root = SysRoot::live();
    let time_ns = args.time.as_deref().map(|text| time_ns(output, text)).transpose()?;
    let id = store::new_id();
    let file = args.output.clone().unwrap_or_else(|| format!("fathom-{id}.trace").into());
    check_files(output, args, &file)?;
    // Before anything is captured: a trace that cannot be read is told at once.
    let like = args.like.as_ref().map(|path| from_file(output, stop, path, None)).transpose()?;
    let own_trace = (args.from.as_deref().unwrap_or(&file), args.of_device);
    let mut taken = match &args.from {
        Some(path) => from_file(output, stop, path, args.of_device)?,
        None => {
            let word = args.device.as_deref().unwrap_or_default();
            let device = device::find(&root, word).map_err(|e| CommandError::usage(output, &e))?;
            let capture = match open(&root, output, &device) {
                Ok(capture) => capture,
                Err(CaptureError::Denied(text) | CaptureError::Missing(text)) => {
                    if !args.command.is_empty() {
                        return Err(CommandError::report_as(output, &text, Exit::Missing));
                    }
                    return counters_instead((common, output, stop), &device, time_ns, &text);
                }
            };
            let (word, file, command) = (word.to_owned(), file.clone(), &args.command[..]);
            let wish = take::Wish { root: &root, word, device, file, time_ns, command };
            take::take(output, stop, &wish, capture)?
        }
    };
    if let Some((like, path)) = like.zip(args.like.as_ref()) {
        taken.compare_with((output, stop), &like.record, path, own_trace);
    }
    let mut text = String::from("\n");
    text += &report::text(&taken.record, output.width());
    text.push('\n');
    let ending =
        if stop.is_set() && taken.was_cut { Ending::Interrupted } else { Ending::Complete };
    let target = target(&root, args.device.as_ref(), &taken.record);
    let kept = keep(
        (common, output, &root),
        store::Run {
            id,
            kind: RunKind::Capture,
            label: args.label.clone(),
            target,
            started_unix_ns: taken.started_unix_ns,
            label_of_record: format!("capture of {}", taken.record.device),
        },
        taken.record.clone(),
        taken.findings,
        ending,
    );
    // After the store: a file that cannot be made takes nothing else along.
    let twin = write_twin((output, stop), args.workload.as_deref(), &taken.record, own_trace);
    let (twin, of_twin) = twin.map_or_else(|exit| (None, exit), |twin| (twin, Exit::Done));
    text += &findings_text(&kept.study.findings, kept.study.verdict, output.width());
    text.push_str(&said(common, &taken.record, twin.as_deref(), &kept));
    let mut exit = kept
        .exit
        .max(of_twin)
        .max(Exit::of_verdict(kept.study.verdict, args.fail_on == crate::args::FailOn::Void));
    if taken.command_failed {
        exit = exit.max(Exit::Doubtful);
    }
    let result = serde_json::json!({
        "id": kept.id,
        "stored": kept.prefix.is_some(),
        "verdict": kept.study.verdict,
        "findings": kept.study.findings,
        "capture": taken.record,
        "workload": twin,
        "exit_code": exit.code(),
    });
    finish(output, &text, &result, exit)
}

/// Prepares a capture, which nothing that is left of killed ones disturbs.
fn open(
    root: &SysRoot,
    output: Output,
    device: &device::Device,
) -> Result<LiveCapture, CaptureError> {
    session::remove_traces_of_the_dead(root, output);
    LiveCapture::open(root, device.watched)
}

/// What was captured, as it is told from others. What a trace was made of may be another machine's.
fn target(root: &SysRoot, word: Option<&String>, record: &CaptureRecord) -> String {
    word.map_or_else(|| record.device.clone(), |word| standing::absolute_target(root, word))
}

/// What the counters of a device tell of the same time, where its requests cannot be seen one by one; `why` is the result.
fn counters_instead(
    (common, output, stop): (&Common, Output, &StopFlag),
    device: &device::Device,
    time_ns: Option<u64>,
    why: &str,
) -> CommandResult {
    output.error(why);
    let time_ns = time_ns.unwrap_or(TIME_NS).clamp(10_000_000, 3_600_000_000_000);
    let time = format_ns(time_ns);
    output.note(&format!("What the counters of {} tell instead, in {time}:", device.name));
    let args = Watch {
        devices: vec![device.name.clone()],
        interval: format!("{}ms", time_ns / 1_000_000),
        store_every: "10m".to_owned(),
        count: Some(1),
        all: true,
        plain: true,
        is_part: true,
        ..Watch::default()
    };
    super::watch::run(common, output, stop, &args)?;
    let exit = if stop.is_set() { Exit::Interrupted } else { Exit::Missing };
    output.json("result", &serde_json::json!({ "error": why, "exit_code": exit.code() }))?;
    Ok(exit)
}

/// The page of a stored capture or replay.
pub fn answer(
    output: Output,
    kind: RunKind,
    records: &[Record],
    unfinished: Option<&str>,
) -> Answer {
    let captures = || records.iter().filter_map(|record| record.capture.as_deref());
    let pages: Vec<String> =
        captures().map(|capture| report::text(capture, output.width())).collect();
    let study = verdict::judge_stored(kind, records, unfinished);
    let findings = findings_text(&study.findings, study.verdict, output.width());
    let json = serde_json::to_value(captures().collect::<Vec<_>>()).unwrap_or_default();
    Answer {
        text: format!("{}\n{findings}", pages.join("\n")),
        json: vec![("captures", json)],
        study,
    }
}

/// The last lines: the cost, the files, the next step.
fn said(common: &Common, record: &CaptureRecord, twin: Option<&str>, kept: &Kept) -> String {
    let mut text = String::new();
    if let Some(cpu_ns) = record.reader_cpu_ns {
        let share = 100.0 * cpu_ns as f64 / record.window_ns.max(1) as f64;
        let each = cpu_ns
            .checked_div(record.events)
            .map_or_else(String::new, |ns| format!(", {} an event", format_ns(ns)));
        let _ = writeln!(text, "Reading the events took {share:.1} % of one CPU{each}.");
    }
    if let Some(file) = record.file.as_ref().filter(|_| record.source == "kernel") {
        let bytes = std::fs::metadata(file).map_or(0, |meta| meta.len());
        let file = shell::word(file);
        let _ = writeln!(
            text,
            "Trace: {file} ({}). Again: fathom capture --from={file}",
            format_size(bytes)
        );
    }
    if let Some(twin) = twin {
        let twin = shell::word(twin);
        let _ = writeln!(text, "Workload: {twin}. The same by chance: fathom run {twin} TARGET");
    }
    text + &kept.said(common)
}

/// What a capture came to.
pub struct Taken {
    record: CaptureRecord,
    started_unix_ns: i64,
    findings: Vec<fathom_model::finding::Finding>,
    command_failed: bool,
    /// A signal ended it before its time.
    was_cut: bool,
}

impl Taken {
    /// Notes how alike it is to another trace, and what that comes to.
    fn compare_with(
        &mut self,
        told: (Output, &StopFlag),
        trace: &CaptureRecord,
        path: &Path,
        own_trace: (&Path, Option<(u32, u32)>),
    ) {
        // A replay issues as one what was merged, and so does a twin.
        let differ = trace.is_merged() != self.record.is_merged();
        let word = if trace.is_merged() { "there" } else { "here" };
        let merged = |record: &CaptureRecord, trace| {
            let merged = differ.then(|| with_merges(told, record, trace)).flatten();
            merged.unwrap_or_else(|| record.clone())
        };
        let (trace, own) = (&merged(trace, (path, None)), &merged(&self.record, own_trace));
        // On a device of another size the same load lies elsewhere.
        let places = trace.size_bytes != own.size_bytes;
        let changed = Changed { places, ..Changed::default() };
        let likeness = likeness::distances(trace, own, changed);
        let mut finding = likeness::finding("capture-likeness", &likeness, changed);
        if differ {
            finding.summary +=
                &format!("; what was merged {word} counts as the one request that it became");
        }
        self.findings.push(finding);
        // Told apart from those of what was captured.
        self.findings.extend(faults_of_trace(trace).into_iter().map(|mut finding| {
            finding.summary = format!("{}: {}", shell::path(path), finding.summary);
            if finding.id == "capture-other-devices" {
                // Its --device is that of --from.
                finding.advice.clear();
            }
            finding
        }));
        self.record.likeness = likeness;
    }
}

fn from_file(
    output: Output,
    stop: &StopFlag,
    path: &Path,
    device: Option<(u32, u32)>,
) -> Result<Taken, CommandError> {
    let failed = |error: &TraceError| trace_error(output, path, error);
    let mut source = Source::open_one(path, device).map_err(|e| failed(&e))?;
    let started_unix_ns = source.head().started_unix_ns.unwrap_or_else(fathom_sys::clock::unix_ns);
    let so_far = source.so_far().clone();
    let reading = Reading::new(output, stop, path, 1);
    let record = source.characterise(&|| reading.goes_on(&so_far));
    drop(reading);
    let mut record = record.map_err(|e| failed(&e))?;
    if stop.is_set() {
        // A part of it is another trace.
        let text =
            format!("{}: ended before all of it was read; nothing was stored", shell::path(path));
        return Err(CommandError::report_as(output, &text, Exit::Interrupted));
    }
    record.file = Some(path.display().to_string());
    let (findings, command_failed, was_cut) = (Vec::new(), false, false);
    Ok(Taken { record, started_unix_ns, findings, command_failed, was_cut })
}

/// The load of a trace with what was merged as one request, read once more.
pub fn as_one(
    whole: &CaptureRecord,
    (path, device): (&Path, Option<(u32, u32)>),
    goes_on: &dyn Fn(&SoFar) -> bool,
) -> Result<CaptureRecord, TraceError> {
    let mut source = Source::open_one(path, device)?;
    let so_far = source.so_far().clone();
    let merged = source.characterise_as_one(&|| goes_on(&so_far))?;
    let device = whole.device.clone();
    Ok(CaptureRecord { device, size_bytes: whole.size_bytes, ..merged })
}

/// The same; none where the trace is not there any more.
fn with_merges(
    (output, stop): (Output, &StopFlag),
    whole: &CaptureRecord,
    trace: (&Path, Option<(u32, u32)>),
) -> Option<CaptureRecord> {
    whole.file.as_ref()?;
    let reading = Reading::new(output, stop, trace.0, 1);
    let told = |so_far: &SoFar| {
        reading.tell(so_far);
        // What ended a capture asks for what it has captured.
        true
    };
    let merged = as_one(whole, trace, &told);
    drop(reading);
    let path = shell::path(trace.0);
    merged.map_err(|e| output.note(&format!("{path}: {e}; each request counts as it arrived"))).ok()
}

/// A trace that cannot be read.
pub fn trace_error(output: Output, path: &Path, error: &TraceError) -> CommandError {
    let (what, exit) = match error {
        TraceError::Io(error) => match error.kind() {
            ErrorKind::NotFound if path.as_os_str() == "-" => {
                ("standard input is no trace; write it to a file".to_owned(), Exit::Usage)
            }
            ErrorKind::NotFound => (
                "there is no such file; fathom capture DEVICE makes a trace".to_owned(),
                Exit::Usage,
            ),
            ErrorKind::PermissionDenied => (
                "its owner does not let you read it; run as the owner or as root".to_owned(),
                Exit::Missing,
            ),
            _ => (error.to_string(), Exit::TargetIo),
        },
        error => (error.to_string(), Exit::Usage),
    };
    CommandError::report_as(output, &format!("{}: {what}", shell::path(path)), exit)
}

fn time_ns(output: Output, text: &str) -> Result<u64, CommandError> {
    let usage = |reason: String| CommandError::usage(output, &format!("--time={text}: {reason}"));
    let time_ns = parse_duration_ns(text).map_err(|e| usage(e.to_string()))?;
    if (1_000_000..=TIME_NS_MAX).contains(&time_ns) {
        return Ok(time_ns);
    }
    Err(usage("a capture takes from 1ms to 7 days".to_owned()))
}

/// Nothing is replaced, and the two files are two.
fn check_files(output: Output, args: &Capture, file: &Path) -> Result<(), CommandError> {
    if args.of_device.is_some() && args.from.is_none() {
        let text = "--device chooses one of the devices in a trace (--from); name the device to capture without it";
        return Err(CommandError::usage(output, &text));
    }
    let made = args.from.is_none().then_some(file);
    if made.into_iter().chain(args.workload.as_deref()).any(|file| file.as_os_str() == "-") {
        let text =
            "-: nothing is written to standard output; name a file (one of that name is ./-)";
        return Err(CommandError::usage(output, &text));
    }
    if let Some(workload) = &args.workload {
        check_new(output, workload)?;
        if args.from.is_none() && sink::resolved(workload) == sink::resolved(file) {
            let text = format!(
                "{}: the trace and the workload would be the same file; name two",
                workload.display()
            );
            return Err(CommandError::usage(output, &text));
        }
    }
    if args.from.is_none() { check_new(output, file) } else { Ok(()) }
}

/// Writes the workload, or says why there is none.
fn write_twin(
    (output, stop): (Output, &StopFlag),
    path: Option<&Path>,
    record: &CaptureRecord,
    trace: (&Path, Option<(u32, u32)>),
) -> Result<Option<String>, Exit> {
    let Some(path) = path else { return Ok(None) };
    let merged = record.is_merged().then(|| with_merges((output, stop), record, trace)).flatten();
    let name =
        path.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let Some(text) = twin::workload_file(merged.as_ref().unwrap_or(record), &name) else {
        output.note("no workload was written: there were no reads and writes to imitate");
        return Ok(None);
    };
    let written = sink::create(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| {
        let trace = record.file.as_ref().map_or_else(|| "TRACE".to_owned(), shell::word);
        output.error(&format!(
            "the workload was not written: {}: {error}; again: fathom capture --from={trace} --workload=FILE",
            shell::path(path)
        ));
        Exit::Internal
    })?;
    Ok(Some(path.display().to_string()))
}
