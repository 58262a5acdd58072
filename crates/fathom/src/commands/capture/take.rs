//! The capture itself: rings to file, beside a command or for a time, then the file to figures.

use super::device::Device;
use super::{TIME_NS, Taken, trace_error};
use crate::commands::CommandError;
use crate::exit::Exit;
use crate::output::Output;
use fathom_base::units::{format_count, format_duration};
use fathom_model::finding::{Finding, Severity};
use fathom_observe::trace::event::{Event, Names};
use fathom_observe::trace::file::{Head, Totals, Writer};
use fathom_observe::trace::live::{Capture, CaptureError};
use fathom_observe::trace::open::Source;
use fathom_sys::child::{Ended, Output as ProgramOutput, Program};
use fathom_sys::signals::StopFlag;
use fathom_sys::sysroot::SysRoot;
use fathom_sys::{clock, threads};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often rings are looked at that do not fill.
const ROUND: Duration = Duration::from_millis(100);
/// How often what has come is written, also when it is little.
const WRITE_NS: u64 = 1_000_000_000;
/// Of a trace of the disk that it would be written to, so much is kept in memory.
const MEMORY_BYTES_MAX: u64 = 512 << 20;

/// What is asked for.
pub struct Wish<'a> {
    /// Where the kernel's files are.
    pub root: &'a SysRoot,
    /// What is captured.
    pub device: Device,
    /// The trace.
    pub file: PathBuf,
    /// For how long.
    pub time_ns: Option<u64>,
    /// What runs meanwhile.
    pub command: &'a [OsString],
}

/// Where a trace goes while it is made.
enum Sink {
    File(File),
    /// The file lies on the captured device: writing would be captured too.
    Memory(Vec<u8>, File),
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Memory(memory, _) => memory.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How the loop ended.
struct Over {
    totals: Totals,
    window_ns: u64,
    cpu_ns: u64,
    started_unix_ns: i64,
    command: Option<Ended>,
    was_cut: bool,
    memory_full: bool,
    late: u64,
}

/// Captures.
pub fn take(output: Output, stop: &StopFlag, wish: &Wish<'_>) -> Result<Taken, CommandError> {
    let capture = Capture::open(wish.root, wish.device.watched).map_err(|error| {
        let exit = Exit::Missing;
        match error {
            CaptureError::Denied(text) | CaptureError::Missing(text) => {
                CommandError::report_as(output, &text, exit)
            }
        }
    })?;
    let is_on_it = lies_on(wish);
    let internal = |error: &io::Error| {
        CommandError::report_as(
            output,
            &format!("{}: {error}", wish.file.display()),
            Exit::Internal,
        )
    };
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&wish.file)
        .map_err(|e| internal(&e))?;
    let sink = if is_on_it { Sink::Memory(Vec::new(), file) } else { Sink::File(file) };
    say_what_is_done(output, wish, &capture, is_on_it);
    let over = match record(stop, wish, capture, sink) {
        Ok(over) => over,
        Err(Failed::Start(error)) => {
            let _ = std::fs::remove_file(&wish.file);
            let name = wish
                .command
                .first()
                .map_or_else(String::new, |word| word.to_string_lossy().into_owned());
            let text = format!("starting {name}: {error}");
            return Err(CommandError::usage(output, &text));
        }
        Err(Failed::Io(error)) => return Err(internal(&error)),
    };
    characterise(output, wish, &over)
}

fn say_what_is_done(output: Output, wish: &Wish<'_>, capture: &Capture, is_on_it: bool) {
    let name = &wish.device.name;
    let until = match (wish.time_ns, wish.command.is_empty()) {
        (Some(ns), _) => format!("for {}", format_duration(ns)),
        (None, true) => format!("for {}", format_duration(TIME_NS)),
        (None, false) => "until the command ends".to_owned(),
    };
    output.note(&format!(
        "Capturing {name} {until} ({} tracepoints); ctrl-c ends it earlier.",
        capture.tracepoints().len()
    ));
    if is_on_it {
        output.note(&format!(
            "{} lies on {name}: the trace stays in memory until the end, so that writing it is not captured; -o names another disk.",
            wish.file.display()
        ));
    }
}

enum Failed {
    Start(io::Error),
    Io(io::Error),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn record(
    stop: &StopFlag,
    wish: &Wish<'_>,
    mut capture: Capture,
    sink: Sink,
) -> Result<Over, Failed> {
    let (started_ns, started_unix_ns) = (clock::monotonic_ns(), clock::unix_ns());
    let mut writer = Writer::new(sink, &head(wish, &capture, started_ns, started_unix_ns))?;
    capture.start()?;
    let program = start(wish).map_err(Failed::Start)?;
    let result = rounds(stop, wish, &mut capture, &mut writer, program, started_ns);
    let (command, cpu_ns, was_cut, memory_full) = result?;
    let window_ns = clock::monotonic_ns() - started_ns;
    capture.stop(&mut |event: &Event, names: &Names| writer.push(event, names))?;
    writer.lost(capture.lost() - writer.totals().lost);
    let (sink, totals) = writer.finish(capture.names())?;
    if let Sink::Memory(bytes, mut file) = sink {
        file.write_all(&bytes)?;
    }
    let late = capture.late();
    Ok(Over { totals, window_ns, cpu_ns, started_unix_ns, command, was_cut, memory_full, late })
}

type Rounds = (Option<Ended>, u64, bool, bool);

fn rounds(
    stop: &StopFlag,
    wish: &Wish<'_>,
    capture: &mut Capture,
    writer: &mut Writer<Sink>,
    mut program: Option<Program>,
    started_ns: u64,
) -> Result<Rounds, Failed> {
    let time_ns = wish.time_ns.or_else(|| program.is_none().then_some(TIME_NS));
    let until_ns = time_ns.map_or(u64::MAX, |ns| started_ns.saturating_add(ns));
    let cpu_before = threads::thread_cpu();
    let mut ended = None;
    let mut written_ns = started_ns;
    let (was_cut, memory_full) = loop {
        let left = Duration::from_nanos(until_ns.saturating_sub(clock::monotonic_ns()));
        let mut write = |event: &Event, names: &Names| writer.push(event, names);
        capture.round(ROUND.min(left), &mut write)?;
        let lost = capture.lost() - writer.totals().lost;
        writer.lost(lost);
        // A slow trace is in its file too, should this process be killed.
        if clock::monotonic_ns() - written_ns > WRITE_NS {
            writer.flush_block(capture.names())?;
            written_ns = clock::monotonic_ns();
        }
        if let Some(program) = &mut program {
            ended = program.ended()?;
        }
        let (was_cut, memory_full) = (stop.is_set(), is_full(writer));
        if was_cut || memory_full || ended.is_some() || clock::monotonic_ns() >= until_ns {
            break (was_cut, memory_full);
        }
    };
    let cpu = threads::thread_cpu().since(cpu_before);
    if let Some(program) = program.filter(|_| ended.is_none()) {
        program.end();
    }
    Ok((ended, cpu.user_ns + cpu.system_ns, was_cut, memory_full))
}

fn is_full(writer: &Writer<Sink>) -> bool {
    matches!(writer.sink(), Sink::Memory(..)) && writer.totals().bytes > MEMORY_BYTES_MAX
}

fn start(wish: &Wish<'_>) -> io::Result<Option<Program>> {
    if wish.command.is_empty() {
        return Ok(None);
    }
    // What it prints is for people, and not the result of this command.
    let to = || io::stderr().as_fd().try_clone_to_owned().map(File::from).map(Some);
    let output = ProgramOutput { stdout: to()?, stderr: to()? };
    let mark = format!("capture-{}", std::process::id());
    Program::start(wish.root, wish.command, Path::new("."), output, &mark).map(Some)
}

fn head(wish: &Wish<'_>, capture: &Capture, started_ns: u64, started_unix_ns: i64) -> Head {
    Head {
        device: wish.device.name.clone(),
        size_bytes: wish.device.size_bytes,
        logical_block_bytes: wish.device.logical_block_bytes,
        started_unix_ns: Some(started_unix_ns),
        started_ns,
        kernel: wish.root.text("proc/sys/kernel/osrelease").unwrap_or_default(),
        tracepoints: capture.tracepoints().to_vec(),
    }
}

/// True when the trace would be written to what is captured.
fn lies_on(wish: &Wish<'_>) -> bool {
    let directory =
        wish.file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(stack) = fathom_inspect::resolve(wish.root, directory) else { return false };
    let own = [wish.device.devno.to_string(), wish.device.watched.device.to_string()];
    stack
        .block_devices()
        .iter()
        .any(|node| node.devno.as_ref().is_some_and(|number| own.contains(number)))
}

fn characterise(output: Output, wish: &Wish<'_>, over: &Over) -> Result<Taken, CommandError> {
    let failed = |error| trace_error(output, &wish.file, &error);
    let mut source = Source::open(&wish.file).map_err(failed)?;
    let mut record = source.characterise(&|| true).map_err(failed)?;
    record.window_ns = record.window_ns.max(over.window_ns);
    record.source = "kernel".to_owned();
    record.file = Some(wish.file.display().to_string());
    record.reader_cpu_ns = Some(over.cpu_ns);
    record.faults.late = record.faults.late.max(over.late);
    let mut findings = Vec::new();
    if over.memory_full {
        let text = format!(
            "ended early: {} events are as much as is kept in memory, because {} lies on the captured device",
            format_count(over.totals.events),
            wish.file.display()
        );
        findings.push(
            Finding::new("capture-memory-full", Severity::Doubtful, text)
                .advise("write the trace to another disk: -o FILE"),
        );
    }
    let failure = match over.command {
        Some(Ended::Exit(0)) | None => None,
        Some(Ended::Exit(code)) => Some(format!("ended with exit status {code}")),
        Some(Ended::Signal(signal)) => Some(format!("was ended by signal {signal}")),
    };
    if let Some(how) = &failure {
        let name = wish
            .command
            .first()
            .map_or_else(String::new, |word| word.to_string_lossy().into_owned());
        let text = format!(
            "{name} {how}: what it asked of the device may not be what it should have been"
        );
        findings.push(Finding::new("command-failed", Severity::Doubtful, text));
    }
    Ok(Taken {
        record,
        started_unix_ns: over.started_unix_ns,
        findings,
        command_failed: failure.is_some(),
        was_cut: over.was_cut,
    })
}
