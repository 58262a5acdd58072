//! `fathom replay`: the requests of a trace once more, and how alike that was.

mod play;

use super::capture::{as_one, trace_error};
use super::reading::Reading;
use super::{CommandError, CommandResult, finish};
use crate::args::{Common, MapTo, Replay, Style};
use crate::exit::Exit;
use crate::output::Output;
use crate::session::{self, Purpose};
use fathom_base::units::{format_count, format_length, format_size, parse_size};
use fathom_guard::{FileRefusal, KeptFile};
use fathom_lab::run::RunOptions;
use fathom_lab::trial::announce;
use fathom_model::builtin;
use fathom_model::capture::CaptureRecord;
use fathom_model::finding::{Finding, Severity};
use fathom_model::record::RunKind;
use fathom_model::workload::Job;
use fathom_observe::trace::file::TraceError;
use fathom_observe::trace::open::Source;
use fathom_observe::trace::requests::{DriverCount, Mapping, Reference, Wanted, reference};
use fathom_report::capture as report;
use fathom_study::capture::faults_of_trace;
use fathom_study::capture::likeness::{self, Changed};
use fathom_study::capture::twin;
use fathom_sys::ring;
use fathom_sys::signals::StopFlag;
use fathom_sys::sysroot::SysRoot;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// A request that is larger is issued in pieces of so much, and no more that was merged becomes one.
const BUFFER_BYTES_MAX: u64 = 1 << 20;
/// In flight at most, whatever the trace had.
const DEPTH_MAX: u32 = 1024;
/// Size of a test file where nothing is said.
const SIZE_BYTES_MAX: u64 = 1 << 30;

/// What is replayed, and how.
pub struct Order<'a> {
    /// The arguments.
    pub args: &'a Replay,
    /// Which requests.
    pub wanted: Wanted,
    /// How much faster; none for as fast as it goes.
    pub speed: Option<f64>,
    /// As asked for.
    pub mapping: Option<Mapping>,
    /// Size of a test file.
    pub size_bytes: Option<u64>,
    /// In flight.
    pub depth: u32,
    /// The largest piece.
    pub buffer_bytes: u32,
    /// What the trace looks like, as far as it is replayed.
    pub reference: CaptureRecord,
    /// The most that was merged and is issued as one.
    pub run_bytes_max: u64,
    /// Reads and writes that the driver of the trace got.
    pub driver: [DriverCount; 2],
    /// The device of the trace.
    pub from_bytes: u64,
    /// Left out of the trace.
    pub left_out: u64,
    /// Why writes are left out, when nobody asked for it.
    pub why_reads_only: Option<String>,
    /// What is wrong with the trace.
    pub trace_faults: Vec<Finding>,
    /// The target is made by this run.
    pub is_new: bool,
    /// Why there is no io_uring, when there is none: then libaio takes its place.
    pub why_no_ring: Option<String>,
}

impl Order<'_> {
    /// How long it takes at the trace's times.
    pub fn length_ns(&self) -> Option<u64> {
        self.speed.map(|speed| (self.reference.window_ns as f64 / speed) as u64)
    }

    /// Notes how alike what was replayed is to the trace, and what that comes to.
    pub fn compare(&self, replayed: &mut CaptureRecord, mapping: Mapping) -> Finding {
        let changed = Changed {
            places: mapping != Mapping::Fit,
            times: self.speed != Some(1.0),
            reads_only: !self.wanted.writes && self.left_out > 0,
        };
        replayed.likeness = likeness::distances(&self.reference, replayed, changed);
        likeness::finding("replay-likeness", &replayed.likeness, changed)
    }
}

/// Replays and compares.
pub fn run(common: &Common, output: Output, stop: &StopFlag, args: &Replay) -> CommandResult {
    if args.twin {
        return twin(common, output, stop, args);
    }
    let order = order(output, stop, args)?;
    let purpose = Purpose {
        kind: RunKind::Replay,
        target: &args.target,
        measure: &args.any.measure,
        destroy: args.any.destroy.clone(),
        interval_ns: session::INTERVAL_NS,
    };
    let measured = session::measure(common, output, stop, &purpose, &mut |lab, keep| {
        let record = play::play(lab, &order, &|| say(output, &order))?;
        announce(lab, &record, keep)?;
        Ok(vec![record])
    })?;
    let mut text = String::from("\n");
    let capture = measured.records.first().and_then(|record| record.capture.as_ref());
    if let Some(capture) = capture {
        text += &report::text(capture, output.width());
        text.push('\n');
    }
    text += &measured.findings(output);
    text += &measured.stored_as(|show| format!(". Again: {show}\n"));
    let mut result = measured.json();
    let likeness = capture.map(|capture| capture.likeness.clone()).unwrap_or_default();
    result["likeness"] = serde_json::to_value(&likeness).unwrap_or_default();
    finish(output, &text, &result, measured.exit)
}

/// Runs the synthetic twin of the trace, as `fathom run` does with the workload that a capture writes.
fn twin(common: &Common, output: Output, stop: &StopFlag, args: &Replay) -> CommandResult {
    let usage = |text: String| CommandError::usage(output, &text);
    let (size_bytes, is_new) = target(args).map_err(usage)?;
    let reading = Reading::new(output, stop, &args.trace, 1);
    let whole = characterise(args, &reading).and_then(|whole| {
        if !whole.is_merged() {
            return Ok(whole);
        }
        reading.again();
        as_one(&whole, (&args.trace, args.of_device), &|so_far| reading.goes_on(so_far))
    });
    drop(reading);
    let whole = whole.map_err(|error| trace_error(output, &args.trace, &error))?;
    if stop.is_set() {
        return Err(ended_before(output));
    }
    let name = args.trace.file_stem().unwrap_or_default().to_string_lossy();
    let text = twin::workload_file(&whole, &name).ok_or_else(|| {
        usage(format!("{}: has no read or write to imitate", args.trace.display()))
    })?;
    let made = builtin::parse(&name, &text).map_err(|e| usage(e.to_string()))?;
    let mut workload = made.workload;
    let mut settings = Vec::new();
    let size_bytes = size_bytes.or_else(|| is_new.then(|| size_of_file(&whole)));
    settings.extend(size_bytes.map(|bytes| ("size".to_owned(), bytes.to_string())));
    settings.extend(args.buffered.then(|| ("direct".to_owned(), "no".to_owned())));
    workload.apply(&settings).map_err(|e| usage(e.to_string()))?;
    if let Some(bytes) = size_bytes.or_else(|| size_of(&args.target)) {
        twin::fit(&mut workload, bytes);
    }
    workload.check().map_err(|e| usage(e.to_string()))?;
    check_one_file(&args.target, &workload.jobs).map_err(usage)?;
    output.note(&format!("The twin of {}: {}", args.trace.display(), workload.description.trim()));
    let target = args.target.clone();
    let options = RunOptions { workload, target, repeats: 1, until_steady: None };
    let how = (&args.any, Style::Fathom, session::INTERVAL_NS);
    let mut known = faults_of_trace(&whole);
    known.retain(|fault| fault.severity != Severity::Note);
    super::run::measure(common, output, stop, &options, how, &known)
}

/// Jobs that write in order begin with an empty file, and leave it to nobody else. In a directory each has its own, and on a device there
/// is none.
fn check_one_file(target: &str, jobs: &[Job]) -> Result<(), String> {
    let meta = std::fs::metadata(target).ok();
    let has_places = meta.is_some_and(|meta| meta.is_dir() || meta.file_type().is_block_device());
    if has_places || jobs.len() < 2 || !jobs.iter().any(Job::starts_empty) {
        return Ok(());
    }
    Err(format!(
        "{target}: the twin of this trace needs a file for each of its {} jobs; name a directory, where they are made, or a device",
        jobs.len()
    ))
}

fn ended_before(output: Output) -> CommandError {
    let text = "ended before anything was replayed".to_owned();
    CommandError::report_as(output, &text, Exit::Interrupted)
}

/// Of a file or device that is there.
fn size_of(target: &str) -> Option<u64> {
    let kind = std::fs::metadata(target).ok()?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return None;
    }
    File::open(target).ok()?.seek(SeekFrom::End(0)).ok()
}

/// Of a test file where nothing is said: what the trace reaches, within limits.
fn size_of_file(whole: &CaptureRecord) -> u64 {
    whole.places.end_byte.next_multiple_of(1 << 20).clamp(1 << 20, SIZE_BYTES_MAX)
}

/// The trace, or of several devices in it the one that is asked for.
fn open(args: &Replay) -> Result<Source, TraceError> {
    Source::open_one(&args.trace, args.of_device)
}

/// What all of it is like.
fn characterise(args: &Replay, reading: &Reading<'_>) -> Result<CaptureRecord, TraceError> {
    let mut source = open(args)?;
    let so_far = source.so_far().clone();
    source.characterise(&|| reading.goes_on(&so_far))
}

fn order<'a>(output: Output, stop: &StopFlag, args: &'a Replay) -> Result<Order<'a>, CommandError> {
    let usage = |text: String| CommandError::usage(output, &text);
    let speed = speed(&args.speed).ok_or_else(|| {
        usage(format!("--speed={}: a number with x, such as 1x, 2x or 0.5x, or max", args.speed))
    })?;
    let (size_bytes, is_new) = target(args).map_err(usage)?;
    // Known before a trace is read and a file is written.
    let why_no_ring = ring::supported_features().err().map(|error| error.to_string());
    if let Some(why) = why_no_ring.as_ref().filter(|_| !has_libaio()) {
        let text = format!(
            "io_uring cannot be used ({why}; fathom doctor says how to get it), and this kernel has no libaio; with --twin threads issue a load like it"
        );
        return Err(CommandError::report_as(output, &text, Exit::Missing));
    }
    let why_reads_only = if args.reads_only { None } else { why_reads_only(args) };
    let reading = Reading::new(output, stop, &args.trace, 2);
    let failed = |error| {
        reading.finish();
        trace_error(output, &args.trace, &error)
    };
    let whole = characterise(args, &reading).map_err(failed)?;
    let writes = !args.reads_only && why_reads_only.is_none();
    let wanted = Wanted { of_driver: whole.is_of_driver, writes };
    let buffer_bytes = buffer_bytes(&whole);
    reading.once_more();
    let source = open(args).map_err(failed)?;
    let so_far = source.so_far().clone();
    let goes_on = || reading.goes_on(&so_far);
    let sectors_max = (buffer_bytes / 512, (BUFFER_BYTES_MAX / 512) as u32);
    let found = reference(source, wanted, sectors_max, &goes_on).map_err(failed)?;
    let Reference { load: mut reference, left_out, run_bytes_max, driver } = found;
    drop(reading);
    if stop.is_set() {
        return Err(ended_before(output));
    }
    check(args, &whole, &reference, (wanted, speed)).map_err(usage)?;
    reference.device.clone_from(&whole.device);
    let depth = depth(args, &reference, speed.is_some()).map_err(usage)?;
    let size_bytes = size_bytes.or_else(|| is_new.then(|| size_of_file(&whole)));
    let mapping = args.map.map(|map| match map {
        MapTo::Fit => Mapping::Fit,
        MapTo::Scale => Mapping::Scale,
        MapTo::Modulo => Mapping::Modulo,
    });
    // Before a file is made and filled.
    if let Some(bytes) = size_bytes {
        fits(mapping, (reference.places.end_byte, bytes), buffer_bytes, is_new).map_err(usage)?;
    }
    Ok(Order {
        args,
        wanted,
        speed,
        mapping,
        size_bytes,
        depth,
        buffer_bytes,
        reference,
        run_bytes_max,
        driver,
        from_bytes: whole.size_bytes.max(whole.places.end_byte),
        left_out,
        why_reads_only,
        trace_faults: faults_of_trace(&whole),
        is_new,
        why_no_ring,
    })
}

fn has_libaio() -> bool {
    SysRoot::live().value::<u64>("/proc/sys/fs/aio-max-nr").is_some()
}

/// The size that is asked for, and whether the target is to be made.
fn target(args: &Replay) -> Result<(Option<u64>, bool), String> {
    if args.target.starts_with("null:") {
        return Err(
            "null: has no places; a replay needs a directory, a file or a device".to_owned()
        );
    }
    let size_bytes = match &args.size {
        Some(text) => Some(parse_size(text).map_err(|e| format!("--size={text}: {e}"))?),
        None => None,
    };
    let path = Path::new(&args.target);
    if path.is_dir() {
        return Ok((size_bytes, true));
    }
    match (path.exists(), size_bytes) {
        (true, Some(_)) => Err(format!(
            "{}: exists; --size is for a file that fathom makes, in a directory or under a new name",
            args.target
        )),
        (false, _) if path.starts_with("/dev") => {
            Err(format!("{}: there is no such device; lsblk lists those that exist", args.target))
        }
        (false, None) => Err(format!("{}: does not exist; say how large: --size=4G", args.target)),
        (exists, size_bytes) => Ok((size_bytes, !exists)),
    }
}

/// The largest request, in whole blocks: those that are larger are issued in parts.
fn buffer_bytes(whole: &CaptureRecord) -> u32 {
    let data = whole.classes.iter().filter(|class| matches!(&*class.class, "read" | "write"));
    let largest = data.filter_map(|class| class.all_sizes.max()).max();
    largest.unwrap_or(4096).next_multiple_of(4096).clamp(4096, BUFFER_BYTES_MAX) as u32
}

/// Whether a trace that reaches so far can be replayed on a target of so many bytes, which fathom makes or which is there.
///
/// # Errors
/// Why not, and what helps.
pub fn fits(
    mapping: Option<Mapping>,
    (end_byte, to_bytes): (u64, u64),
    buffer_bytes: u32,
    is_new: bool,
) -> Result<(), String> {
    let larger = if is_new { "use a larger --size" } else { "name a larger target" };
    if to_bytes < u64::from(buffer_bytes) {
        return Err(format!(
            "the target has {}, less than one request of the trace ({}); {larger}",
            format_size(to_bytes),
            format_size(u64::from(buffer_bytes))
        ));
    }
    if mapping == Some(Mapping::Fit) && end_byte > to_bytes {
        return Err(format!(
            "--map=fit: the trace reaches {} far, and the target has {}; use --map=scale or --map=modulo, or {larger}",
            format_size(end_byte),
            format_size(to_bytes)
        ));
    }
    Ok(())
}

/// In flight at most: as asked for, or by what the trace had.
fn depth(args: &Replay, reference: &CaptureRecord, is_timed: bool) -> Result<u32, String> {
    let most = u64::from(DEPTH_MAX);
    let usual = if is_timed {
        (4 * reference.depth_quantile(1.0).max(1)).max(32)
    } else {
        reference.depth_quantile(0.95)
    };
    match args.depth {
        None => Ok(usual.clamp(1, most) as u32),
        Some(depth) if (1..=DEPTH_MAX).contains(&depth) => Ok(depth),
        Some(depth) => Err(format!("--depth={depth}: from 1 to {DEPTH_MAX}")),
    }
}

/// Whether the trace can be replayed that way.
fn check(
    args: &Replay,
    whole: &CaptureRecord,
    reference: &CaptureRecord,
    (wanted, speed): (Wanted, Option<f64>),
) -> Result<(), String> {
    let trace = args.trace.display();
    if reference.requests() == 0 {
        let what = if wanted.writes { "no read or write" } else { "no read" };
        return Err(format!("{trace}: has {what} that could be replayed"));
    }
    if whole.faults.back_ns_max > 1_000_000_000 && speed.is_some() {
        let seconds = whole.faults.back_ns_max as f64 / 1e9;
        return Err(format!(
            "{trace}: time goes back by up to {seconds:.1} s, so that there are no times to replay at; --speed=max replays the requests in \
             their order, blkparse sorts a trace"
        ));
    }
    Ok(())
}

/// What exists is somebody's: it is written only with consent, or when fathom made it.
fn why_reads_only(args: &Replay) -> Option<String> {
    let meta = std::fs::metadata(&args.target).ok()?;
    if meta.file_type().is_block_device() && args.any.destroy.is_empty() {
        return Some("a device is written with --destroy only".to_owned());
    }
    if !meta.is_file() {
        return None;
    }
    // Only a look: nothing of the file is marked before it is known that it will be written.
    match KeptFile::check(&SysRoot::live(), Path::new(&args.target)) {
        Ok(()) => None,
        Err(FileRefusal::NotOurs(_)) => Some("the file is not fathom's".to_owned()),
        Err(refusal) => Some(refusal.to_string()),
    }
}

fn say(output: Output, order: &Order<'_>) {
    let pace = match order.speed {
        Some(1.0) => "at their times".to_owned(),
        Some(speed) => format!("at {speed} times their speed"),
        None => "as fast as they go".to_owned(),
    };
    let pace = match order.length_ns() {
        Some(ns) => format!("{pace} ({})", format_length(ns)),
        None => pace,
    };
    output.note(&format!(
        "Replaying {} requests of {} {pace}, at most {} in flight, pieces of up to {}.",
        format_count(order.reference.requests()),
        order.args.trace.display(),
        order.depth,
        format_size(u64::from(order.buffer_bytes))
    ));
    if order.left_out > 0 {
        let why = order.why_reads_only.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
        let what = if order.wanted.writes { "discards and commands" } else { "all but reads" };
        output.note(&format!("Left out: {} requests, {what}{why}.", format_count(order.left_out)));
    }
}

/// None inside for as fast as it goes.
fn speed(text: &str) -> Option<Option<f64>> {
    if text == "max" {
        return Some(None);
    }
    let number: f64 = text.strip_suffix('x').unwrap_or(text).parse().ok()?;
    (number.is_finite() && (0.001..=1000.0).contains(&number)).then_some(Some(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::workload::Access;

    #[test]
    fn speeds() {
        for (text, expected) in [
            ("1x", Some(Some(1.0))),
            ("2", Some(Some(2.0))),
            ("0.5x", Some(Some(0.5))),
            ("max", Some(None)),
            ("x", None),
            ("-1x", None),
            ("0x", None),
            ("nan", None),
        ] {
            assert_eq!(speed(text), expected, "{text}");
        }
    }

    #[test]
    fn a_twin_of_several_jobs_needs_room_for_each() {
        let random = Job { name: "random".to_owned(), ..Job::default() };
        let in_order = Job { access: Access::Sequential, write_fraction: 1.0, ..random.clone() };
        let told = |target: &str, jobs: &[Job]| check_one_file(target, jobs).err();
        let both = [random.clone(), in_order.clone()];
        let why = told("/nonexistent/file", &both).expect("they cannot share it");
        assert!(why.contains("each of its 2 jobs; name a directory"), "{why}");
        assert_eq!(told("/", &both), None);
        assert_eq!(told("/nonexistent/file", &[in_order]), None);
        assert_eq!(told("/nonexistent/file", &[random.clone(), random]), None);
    }

    #[test]
    fn only_a_new_file_can_be_made_larger() {
        let (small, fit) = ((1 << 20, 512), Some(Mapping::Fit));
        for (mapping, sizes) in [(None, small), (fit, (2 << 20, 1 << 20))] {
            let cure = |is_new| fits(mapping, sizes, 4096, is_new).unwrap_err();
            assert!(cure(true).ends_with("use a larger --size"), "{}", cure(true));
            assert!(cure(false).ends_with("name a larger target"), "{}", cure(false));
        }
        assert!(fits(fit, (1 << 20, 1 << 20), 4096, false).is_ok());
    }
}
