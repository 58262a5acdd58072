//! `fathom replay`: the requests of a trace once more, and how alike that was.

mod play;

use super::capture::trace_error;
use super::{CommandError, CommandResult, finish};
use crate::args::{Common, MapTo, Replay};
use crate::output::Output;
use crate::session::{self, Purpose};
use fathom_base::units::{format_count, format_size, parse_size};
use fathom_model::capture::CaptureRecord;
use fathom_model::record::RunKind;
use fathom_observe::trace::open::Source;
use fathom_observe::trace::requests::{Mapping, Wanted, reference};
use fathom_report::capture as report;
use fathom_study::capture::likeness::{self, Distance};
use fathom_sys::signals::StopFlag;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// A request in larger pieces than that is issued in several.
const BUFFER_BYTES_MAX: u64 = 1 << 20;
/// In flight at most, whatever the trace had.
const DEPTH_MAX: u64 = 1024;
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
    /// The device of the trace.
    pub from_bytes: u64,
    /// Left out of the trace.
    pub left_out: u64,
    /// Why writes are left out, when nobody asked for it.
    pub why_reads_only: Option<&'static str>,
}

/// Replays and compares.
pub fn run(common: &Common, output: Output, stop: &StopFlag, args: &Replay) -> CommandResult {
    let order = order(output, stop, args)?;
    say(output, &order);
    let purpose = Purpose {
        kind: RunKind::Replay,
        target: &args.target,
        measure: &args.any.measure,
        destroy: args.any.destroy.clone(),
        interval_ns: session::INTERVAL_NS,
    };
    let mut distances: Vec<Distance> = Vec::new();
    let measured = session::measure(common, output, stop, &purpose, &mut |lab, keep| {
        let mut record = play::play(lab, &order)?;
        if let Some(capture) = &record.capture {
            distances = likeness::distances(&order.reference, capture);
            let paces = order.speed == Some(1.0);
            record.findings.push(likeness::finding(&distances, paces));
        }
        keep(&record)?;
        Ok(vec![record])
    })?;
    let mut text = String::from("\n");
    if let Some(capture) = measured.records.first().and_then(|record| record.capture.as_ref()) {
        text += &report::text(capture, output.width());
        text.push('\n');
        text += &report::distances(&distances, output.width());
        text.push('\n');
    }
    text += &measured.findings(output);
    text += &measured.stored_as(|prefix| format!(". Again: fathom show {prefix}\n"));
    let mut result = measured.json();
    result["likeness"] = serde_json::to_value(&distances).unwrap_or_default();
    finish(output, &text, &result, measured.exit)
}

fn order<'a>(output: Output, stop: &StopFlag, args: &'a Replay) -> Result<Order<'a>, CommandError> {
    let usage = |text: String| CommandError::usage(output, &text);
    let speed = speed(&args.speed).ok_or_else(|| {
        usage(format!("--speed={}: a number with x, such as 1x, 2x or 0.5x, or max", args.speed))
    })?;
    let size_bytes = match &args.size {
        Some(text) => Some(parse_size(text).map_err(|e| usage(format!("--size={text}: {e}")))?),
        None => None,
    };
    let why_reads_only = why_reads_only(args);
    let failed = |error| trace_error(output, &args.trace, &error);
    let whole = Source::open(&args.trace)
        .and_then(|mut source| source.characterise(&|| !stop.is_set()))
        .map_err(failed)?;
    let writes = !args.reads_only && why_reads_only.is_none();
    let wanted = Wanted { of_driver: whole.is_of_driver, writes };
    let (mut reference, left_out) = reference(&args.trace, wanted).map_err(failed)?;
    if reference.requests() == 0 {
        let what = if wanted.writes { "no read or write" } else { "no read" };
        return Err(usage(format!("{}: has {what} that could be replayed", args.trace.display())));
    }
    if whole.faults.back_ns_max > 1_000_000_000 && speed.is_some() {
        let seconds = whole.faults.back_ns_max as f64 / 1e9;
        return Err(usage(format!(
            "{}: time goes back by up to {seconds:.1} s, so that there are no times to replay at; --speed=max replays the requests in \
             their order, blkparse sorts a trace",
            args.trace.display()
        )));
    }
    reference.device.clone_from(&whole.device);
    let most = reference.depth_quantile(1.0).max(1);
    let usual = if speed.is_some() { (4 * most).max(32) } else { reference.depth_quantile(0.95) };
    let depth = args.depth.map_or(usual, u64::from).clamp(1, DEPTH_MAX) as u32;
    let largest = reference
        .classes
        .iter()
        .flat_map(|class| class.sizes.iter().map(|(bytes, _)| *bytes))
        .max();
    let buffer_bytes =
        largest.unwrap_or(4096).next_multiple_of(4096).clamp(4096, BUFFER_BYTES_MAX) as u32;
    let from_bytes = whole.size_bytes.max(whole.places.end_byte);
    let mapping = args.map.map(|map| match map {
        MapTo::Fit => Mapping::Fit,
        MapTo::Scale => Mapping::Scale,
        MapTo::Modulo => Mapping::Modulo,
    });
    let size_bytes = size_bytes.or_else(|| {
        let reaches = whole.places.end_byte.next_multiple_of(1 << 20);
        Path::new(&args.target).is_dir().then_some(reaches.clamp(1 << 20, SIZE_BYTES_MAX))
    });
    Ok(Order {
        args,
        wanted,
        speed,
        mapping,
        size_bytes,
        depth,
        buffer_bytes,
        reference,
        from_bytes,
        left_out,
        why_reads_only,
    })
}

/// What exists is somebody's: it is written only with consent, or when fathom made it.
fn why_reads_only(args: &Replay) -> Option<&'static str> {
    let meta = std::fs::metadata(&args.target).ok()?;
    if meta.file_type().is_block_device() && args.any.destroy.is_empty() {
        return Some("a device is written with --destroy only");
    }
    let root = fathom_sys::sysroot::SysRoot::live();
    let is_foreign =
        meta.is_file() && fathom_guard::KeptFile::open(&root, Path::new(&args.target)).is_err();
    is_foreign.then_some("the file is not fathom's")
}

fn say(output: Output, order: &Order<'_>) {
    let pace = match order.speed {
        Some(1.0) => "at their times".to_owned(),
        Some(speed) => format!("at {speed} times their speed"),
        None => "as fast as they go".to_owned(),
    };
    output.note(&format!(
        "Replaying {} requests of {} {pace}, at most {} in flight, pieces of up to {}.",
        format_count(order.reference.requests()),
        order.args.trace.display(),
        order.depth,
        format_size(u64::from(order.buffer_bytes))
    ));
    if order.left_out > 0 {
        let why = order.why_reads_only.map_or_else(String::new, |why| format!(" ({why})"));
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
}
