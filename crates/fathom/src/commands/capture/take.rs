//! The capture itself: rings to file, beside a command or for a time, then the file to figures.

use super::device::{Device, Now};
use super::sink::{self, Full, Pieces, Room, Sink};
use super::{TIME_NS, Taken, trace_error};
use crate::commands::reading::Reading;
use crate::commands::{CommandError, standing};
use crate::exit::Exit;
use crate::output::Output;
use crate::session;
use fathom_base::shell;
use fathom_base::units::{format_count, format_length, format_size};
use fathom_guard::FileRefusal;
use fathom_model::finding::{Finding, Severity};
use fathom_observe::trace::file::{Head, Totals, Writer};
use fathom_observe::trace::live::Capture;
use fathom_observe::trace::open::Source;
use fathom_sys::child::{self, Ended, Output as ProgramOutput, Program};
use fathom_sys::signals::StopFlag;
use fathom_sys::sysroot::SysRoot;
use fathom_sys::tracing::{self, Meddling};
use fathom_sys::{clock, program_marks, threads};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often rings are looked at that do not fill.
const ROUND: Duration = Duration::from_millis(100);
/// And how often, in a round, whether the command has ended where nothing tells: the capture ends with it.
const COMMAND_ROUND: Duration = Duration::from_millis(5);
/// How often what has come is written, also when it is little.
const WRITE_NS: u64 = 1_000_000_000;

/// What is asked for.
pub struct Wish<'a> {
    /// Where the kernel's files are.
    pub root: &'a SysRoot,
    /// What is captured, as it was named.
    pub word: String,
    /// The device that it means.
    pub device: Device,
    /// The trace.
    pub file: PathBuf,
    /// For how long.
    pub time_ns: Option<u64>,
    /// What runs meanwhile.
    pub command: &'a [OsString],
}

/// How the loop ended.
struct Over {
    totals: Totals,
    window_ns: u64,
    cpu_ns: u64,
    started_unix_ns: i64,
    rounds: Rounds,
    /// What somebody else did to what is recorded.
    meddling: Option<Meddling>,
    /// Its trace instance, where somebody has it open.
    left: Option<String>,
    /// What became of the device.
    device: Now,
    /// Why the trace could not be written any more.
    broken: Option<io::Error>,
}

/// How the rounds ended.
#[derive(Default)]
struct Rounds {
    command: Option<Ended>,
    /// The command ran longer than was asked for.
    was_ended: bool,
    was_cut: bool,
    full: Option<Full>,
}

/// Whether the device is still the one that was named. Whatever has its number later is captured too, and no part of its trace.
struct Presence<'a> {
    device: &'a Device,
    now: Now,
    /// The last moment at which nothing else had its number.
    until_ns: u64,
}

impl<'a> Presence<'a> {
    fn of(device: &'a Device) -> Self {
        Self { device, now: Now::Same, until_ns: clock::monotonic_ns() }
    }

    /// Looks again, and says up to when events are its own: all that are known by now, as long as nothing else has its number.
    fn look(&mut self) -> u64 {
        let now_ns = clock::monotonic_ns();
        let now = self.device.identity.now();
        if now == Now::Other || self.now == Now::Other {
            self.now = Now::Other;
            return self.until_ns;
        }
        if self.now == Now::Same {
            (self.now, self.until_ns) = (now, now_ns);
        }
        now_ns
    }
}

/// Captures.
pub fn take(
    output: Output,
    stop: &StopFlag,
    wish: &Wish<'_>,
    capture: Capture,
) -> Result<Taken, CommandError> {
    let is_on_it = lies_on(wish);
    let stacks = standing::of_words(wish.root, std::slice::from_ref(&wish.word), &[]);
    let internal = |error: &io::Error| {
        CommandError::report_as(
            output,
            &format!("{}: {error}", shell::path(&wish.file)),
            Exit::Internal,
        )
    };
    let dir = sink::directory(&wish.file);
    let room = Room::of(wish.root, dir, is_on_it).map_err(|refusal| no_room(output, &refusal))?;
    let file = sink::create(&wish.file).map_err(|e| internal(&e))?;
    let written = file.try_clone().map_err(|e| internal(&e))?;
    let sink = if is_on_it { Sink::Memory(Pieces::default(), file) } else { Sink::File(file) };
    if !wish.command.is_empty() {
        session::end_programs_of_the_dead(wish.root, output);
    }
    say_what_is_done(output, wish, &capture, is_on_it);
    let without_instance = capture.without_instance();
    let over = match record(stop, wish, capture, (sink, room)) {
        Ok(over) => over,
        Err(Failed::Start(error)) => {
            let _ = std::fs::remove_file(&wish.file);
            let program = wish.command.first().cloned().unwrap_or_default();
            return Err(CommandError::not_started(output, &program, &error));
        }
        Err(Failed::Io(error)) => return Err(internal(&error)),
    };
    let mut taken = characterise(output, stop, (wish, &written), &over)?;
    taken.record.stacks = standing::again(wish.root, stacks);
    taken.findings.extend(resized(wish, &over, taken.record.places.end_byte));
    taken.findings.extend(without_instance.map(|why| by_perf_rings(&why)));
    taken.findings.extend(over.meddling.map(meddled));
    taken.findings.extend(over.left.map(|name| left(wish.root, &name)));
    Ok(taken)
}

/// A capture has no size that could be smaller.
fn no_room(output: Output, refusal: &FileRefusal) -> CommandError {
    let mut text = refusal.to_string();
    if let (FileRefusal::Space { .. }, Some((what, _))) = (refusal, text.rsplit_once("; use ")) {
        text = format!("{what}; write the trace to another disk: -o FILE");
    }
    CommandError::report_as(output, &text, Exit::of_room(refusal))
}

/// The command's first word.
fn name_of(wish: &Wish<'_>) -> String {
    wish.command.first().map_or_else(String::new, |word| word.to_string_lossy().into_owned())
}

fn say_what_is_done(output: Output, wish: &Wish<'_>, capture: &Capture, is_on_it: bool) {
    let name = &wish.device.name;
    let until = match (wish.time_ns, wish.command.is_empty()) {
        (Some(ns), _) => format!("for {}", format_length(ns)),
        (None, true) => format!("for {}", format_length(TIME_NS)),
        (None, false) => "until the command ends".to_owned(),
    };
    output.note(&format!(
        "Capturing {name} {until} ({} tracepoints); ctrl-c ends it earlier.",
        capture.tracepoints().len()
    ));
    if is_on_it {
        output.note(&format!(
            "{} lies on {name}: the trace stays in memory until the end, so that writing it is not captured; -o names another disk.",
            shell::path(&wish.file)
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
    (sink, mut room): (Sink, Room),
) -> Result<Over, Failed> {
    let (started_ns, started_unix_ns) = (clock::monotonic_ns(), clock::unix_ns());
    let mut writer = Writer::new(sink, &head(wish, &capture, started_ns, started_unix_ns))?;
    capture.start()?;
    let mut beside = Beside::start(wish).map_err(Failed::Start)?;
    let cpu_before = threads::thread_cpu();
    let mut done = Rounds::default();
    let mut presence = Presence::of(&wish.device);
    let beside_it = (&mut beside, &mut done, &mut presence);
    let went = rounds(stop, (wish, &mut room), &mut capture, &mut writer, beside_it);
    let cpu = threads::thread_cpu().since(cpu_before);
    let ended_ns = clock::monotonic_ns();
    // Whatever happened: with the command ends all that it has started.
    drop(beside);
    let totals = writer.totals();
    let finished = went.and_then(|()| finish(&mut capture, writer, &mut presence, ended_ns));
    let window_ns = match presence.now {
        Now::Same => ended_ns,
        Now::Gone | Now::Other => presence.until_ns,
    };
    let window_ns = window_ns.saturating_sub(started_ns);
    let (totals, broken) = match finished {
        Ok(totals) => (totals, None),
        // What has been written by now is a trace all the same.
        Err(error) => (totals, Some(error)),
    };
    Ok(Over {
        totals,
        window_ns,
        cpu_ns: cpu.user_ns + cpu.system_ns,
        started_unix_ns,
        rounds: done,
        meddling: capture.meddling(),
        left: capture.close(),
        device: presence.now,
        broken,
    })
}

/// Switches the tracepoints off, and writes the rest.
fn finish(
    capture: &mut Capture,
    mut writer: Writer<Sink>,
    presence: &mut Presence<'_>,
    ended_ns: u64,
) -> io::Result<Totals> {
    capture.stop()?;
    capture.write(&mut writer, presence.look())?;
    writer.lost(capture.lost() - writer.totals().lost);
    writer.came_online(capture.came_online());
    writer.ended(if presence.now == Now::Same { ended_ns } else { presence.until_ns });
    let (sink, totals) = writer.finish(capture.names())?;
    sink.settle()?;
    Ok(totals)
}

fn rounds(
    stop: &StopFlag,
    (wish, room): (&Wish<'_>, &mut Room),
    capture: &mut Capture,
    writer: &mut Writer<Sink>,
    (beside, done, presence): (&mut Beside, &mut Rounds, &mut Presence<'_>),
) -> io::Result<()> {
    let started_ns = clock::monotonic_ns();
    let time_ns = wish.time_ns.or_else(|| wish.command.is_empty().then_some(TIME_NS));
    let until_ns = time_ns.map_or(u64::MAX, |ns| started_ns.saturating_add(ns));
    let mut written_ns = started_ns;
    let end_signal = beside.program.as_ref().and_then(Program::end_signal);
    let is_looked_at = beside.program.is_some() && end_signal.is_none();
    loop {
        let round_until_ns = until_ns.min(clock::monotonic_ns() + ROUND.as_nanos() as u64);
        loop {
            let left = Duration::from_nanos(round_until_ns.saturating_sub(clock::monotonic_ns()));
            let wait = if is_looked_at { COMMAND_ROUND.min(left) } else { left };
            let is_full = capture.wait(wait, end_signal.as_ref().map(AsFd::as_fd))?;
            let is_over = wait == left || beside.has_ended();
            if is_full || is_over {
                capture.read()?;
            }
            if is_over || capture.is_full() {
                break;
            }
        }
        let own_until_ns = presence.look();
        let lost = capture.lost() - writer.totals().lost;
        writer.lost(lost);
        let now_ns = clock::monotonic_ns();
        // A slow trace is in its file too, should this process be killed.
        if capture.is_full() || now_ns - written_ns > WRITE_NS {
            capture.write(writer, own_until_ns)?;
            written_ns = now_ns;
        }
        done.command = beside.ended()?;
        done.was_cut = stop.is_set();
        done.full = room.full(writer.totals().bytes, now_ns);
        let is_late = now_ns >= until_ns;
        let is_over = done.was_cut || done.full.is_some() || done.command.is_some() || is_late;
        if is_over || presence.now != Now::Same {
            done.was_ended = is_late && done.command.is_none() && !wish.command.is_empty();
            return Ok(());
        }
    }
}

/// The command that runs meanwhile, with all that it starts.
struct Beside {
    program: Option<Program>,
    root: SysRoot,
    mark: String,
}

impl Beside {
    fn start(wish: &Wish<'_>) -> io::Result<Self> {
        let mark = program_marks::new_mark(wish.root, session::system_seed());
        let mut beside = Self { program: None, root: wish.root.clone(), mark };
        if wish.command.is_empty() {
            return Ok(beside);
        }
        // What it prints is for people, and not the result of this command.
        let to = || io::stderr().as_fd().try_clone_to_owned().map(File::from).map(Some);
        let output = ProgramOutput { stdin: child::own_stdin(), stdout: to()?, stderr: to()? };
        let started =
            Program::start(wish.root, wish.command, Path::new("."), output, &beside.mark)?;
        beside.program = Some(started);
        Ok(beside)
    }

    fn has_ended(&self) -> bool {
        self.program.as_ref().is_some_and(Program::has_ended)
    }

    fn ended(&mut self) -> io::Result<Option<Ended>> {
        self.program.as_mut().map_or(Ok(None), Program::ended)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if let Some(program) = self.program.take() {
            program.end();
            // Those that left its group, such as daemons.
            let _ = child::end_left_behind(&self.root, 0, &self.mark);
        }
    }
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
    let Ok(stack) = fathom_inspect::resolve(wish.root, sink::directory(&wish.file)) else {
        return false;
    };
    let own = [wish.device.devno.to_string(), wish.device.watched.device.to_string()];
    stack
        .block_devices()
        .iter()
        .any(|node| node.devno.as_ref().is_some_and(|number| own.contains(number)))
}

/// Reads what was `written`, whatever its name names by now.
fn characterise(
    output: Output,
    stop: &StopFlag,
    (wish, written): (&Wish<'_>, &File),
    over: &Over,
) -> Result<Taken, CommandError> {
    let failed = |error| trace_error(output, &wish.file, &error);
    let is_there = sink::is_named(&wish.file, written);
    let file = if is_there { wish.file.clone() } else { sink::without_name(written) };
    let mut source = Source::open(&file).map_err(failed)?;
    let so_far = source.so_far().clone();
    let reading = Reading::new(output, stop, &wish.file, 1);
    let told = || {
        reading.tell(&so_far);
        // What ended the capture asks for what it has captured.
        true
    };
    let record = source.characterise(&told);
    drop(reading);
    let mut record = record.map_err(failed)?;
    // Where it could not be written to its end, what is in the file is of the time up to there.
    if over.broken.is_none() {
        record.window_ns = record.window_ns.max(over.window_ns);
    }
    record.source = "kernel".to_owned();
    record.file = is_there.then(|| wish.file.display().to_string());
    record.reader_cpu_ns = Some(over.cpu_ns);
    let failure = match over.rounds.command {
        Some(Ended::Exit(0)) | None => None,
        Some(Ended::Exit(code)) => Some(format!("ended with exit status {code}")),
        Some(Ended::Signal(signal)) => Some(format!("was ended by signal {signal}")),
    };
    let mut findings: Vec<Finding> = device_went(wish, over).into_iter().collect();
    findings.extend(ended_early(wish, over));
    findings.extend((!is_there).then(|| file_went(wish)));
    findings.extend(of_command(wish, over, failure.as_deref()));
    Ok(Taken {
        record,
        started_unix_ns: over.started_unix_ns,
        findings,
        command_failed: failure.is_some(),
        was_cut: over.rounds.was_cut,
    })
}

/// The trace has lost its name, and goes with this process.
fn file_went(wish: &Wish<'_>) -> Finding {
    let text = format!(
        "somebody removed {} or put another file in its place while it was written: the figures are of all that was captured, and the trace itself is gone",
        shell::path(&wish.file)
    );
    Finding::new("capture-file-went", Severity::Note, text)
        .advise("for a trace to replay, capture again: -o FILE in a directory that nothing cleans meanwhile")
}

/// The device was not there to the end.
fn device_went(wish: &Wish<'_>, over: &Over) -> Option<Finding> {
    let (name, after) = (&wish.device.name, format_length(over.window_ns));
    let how = match over.device {
        Now::Same => return None,
        Now::Gone => "went away",
        Now::Other => "was replaced by another device of its name",
    };
    let and_command = match (wish.command.is_empty(), &over.rounds.command) {
        (false, None) => "; the command was ended with it",
        _ => "",
    };
    let text =
        format!("{name} {how} after {after}: the trace and its rates end there{and_command}");
    let finding = Finding::new("capture-device-went", Severity::Doubtful, text);
    Some(match over.device {
        Now::Other => finding.advise(
            "requests of the other device are not in the trace; of its own those of the last tenth of a second may be missing",
        ),
        _ => finding.advise("look at dmesg, and capture again when it stays"),
    })
}

/// The device has another size by now, while all places are told of the one that it had.
fn resized(wish: &Wish<'_>, over: &Over, end_byte: u64) -> Option<Finding> {
    let bytes = wish.device.identity.other_size().filter(|_| over.device == Now::Same)?;
    let (name, before) = (&wish.device.name, wish.device.size_bytes);
    let (what, severity) = match wish.device.watched.part {
        Some(_) if bytes > before => (
            "what lies behind its old end is missing, in the trace and in all figures",
            Severity::Doubtful,
        ),
        _ if end_byte > before => (
            "some requests lie behind its old end, and a replay on another size puts these into wrong places",
            Severity::Doubtful,
        ),
        _ => ("no request went to places that it did not have before", Severity::Note),
    };
    let (old, new) = (format_size(before), format_size(bytes));
    let text = format!("{name} had {old} when it began and {new} at its end: {what}");
    let finding = Finding::new("capture-device-resized", severity, text);
    Some(finding.advise("capture again now that it has its size"))
}

/// Events are missing, and nobody knows which.
fn meddled(by: Meddling) -> Finding {
    let how = match by {
        Meddling::Read => "read events out of the capture's trace instance",
        Meddling::Cleared => "cleared the capture's trace instance",
        Meddling::SwitchedOff => {
            "switched the capture's trace instance, or tracepoints of it, off, or changed its filters"
        }
    };
    let text = format!(
        "somebody else {how}: requests are missing, and rates, latencies and how many were in flight are not those of the device"
    );
    Finding::new("capture-meddled", Severity::Doubtful, text).advise(
        "capture again, and leave trace instances alone whose names begin with fathom- (scripts that walk /sys/kernel/tracing/instances, \
         trace-cmd reset -a)",
    )
}

/// It cannot be removed as long as somebody has files of it open.
fn left(root: &SysRoot, name: &str) -> Finding {
    let users = tracing::left::users(root, name);
    let text = format!(
        "the capture's trace instance {name} is still there, because it is open in {users}: it records nothing any more, and keeps its memory"
    );
    Finding::new("capture-instance-left", Severity::Note, text)
        .advise("end that program, then: fathom restore")
}

/// The other way is taken where it has to be.
fn by_perf_rings(why: &str) -> Finding {
    let text =
        format!("events come from rings of perf events: there can be no trace instance ({why})");
    let advice = "some kernels leave out there what happens in interrupts of an idle processor; what is missing is counted as lost. A trace \
                  instance needs root, tracing files that may be written, and a kernel that is not locked down";
    Finding::new("capture-perf-rings", Severity::Note, text).advise(advice)
}

/// Why it ended before its time, other than by a signal.
fn ended_early(wish: &Wish<'_>, over: &Over) -> Option<Finding> {
    use Severity::Doubtful;
    let file = shell::path(&wish.file);
    let events = format_count(over.totals.events);
    let another = "write the trace to another disk: -o FILE";
    // No space, none of the quota's.
    let no_space = |error: &io::Error| matches!(error.raw_os_error(), Some(28 | 122));
    match (&over.broken, over.rounds.full) {
        (Some(error), _) if !no_space(error) => {
            let text = format!("ended early: {file}: {error}; what was written before counts");
            Some(Finding::new("capture-broken-off", Doubtful, text).advise(another))
        }
        (Some(error), _) => {
            let text = format!("ended early: {file}: {error}; what was written before counts");
            Some(Finding::new("capture-disk-full", Doubtful, text).advise(another))
        }
        (None, Some(Full::Disk)) => {
            let text = format!(
                "ended early after {events} events: of the filesystem of {file}, 5 % and 1 GiB stay free for others, of one in memory half of what is free"
            );
            Some(Finding::new("capture-disk-full", Doubtful, text).advise(another))
        }
        (None, Some(Full::Memory)) => {
            let text = format!(
                "ended early: {events} events are as much as is kept in memory, because {file} lies on the captured device"
            );
            Some(Finding::new("capture-memory-full", Doubtful, text).advise(another))
        }
        (None, None) => None,
    }
}

/// What the command's end means for the figures.
fn of_command(wish: &Wish<'_>, over: &Over, failure: Option<&str>) -> Option<Finding> {
    let name = name_of(wish);
    if let Some(how) = failure {
        let text = format!(
            "{name} {how}: what it asked of the device may not be what it should have been"
        );
        return Some(Finding::new("command-failed", Severity::Doubtful, text));
    }
    let after = format_length(wish.time_ns.unwrap_or(TIME_NS));
    let text = format!("{name} was ended after {after}, as --time says");
    over.rounds.was_ended.then(|| Finding::new("command-ended", Severity::Note, text))
}
