//! What a captured workload means: whether the trace can be believed, what it asks of a storage, and the workload that does the
//! same.

mod advice;
pub mod likeness;
mod sizes;
pub mod twin;

pub use advice::advice;
use fathom_base::order::Order;

use crate::verdict::Study;
use crate::{delivered, others, rules};
use fathom_base::units::{format_count, format_length, format_ns};
use fathom_model::capture::CaptureRecord;
use fathom_model::finding::{Finding, Severity, Verdict};
use fathom_model::record::Record;

/// Requests below which shares and quantiles are guesses.
const FEW: u64 = 100;

/// Judges the records of a capture.
#[must_use]
pub fn judge(records: &[Record]) -> Study {
    of(records, |_, capture| faults(capture).into_iter().chain(advice(capture)).collect())
}

/// Judges the records of a replay: what its load asks for was said of the trace.
#[must_use]
pub fn judge_replay(records: &[Record]) -> Study {
    of(records, |record, capture| {
        let few = too_few(capture, "replay a longer trace, or one of a busier time");
        let mut found = rules::of_machine(record);
        found.extend(rules::of_targets(record));
        found.extend(rules::direct_is_buffered(record));
        found.extend(delivered::reads_not_from_device(record));
        found.extend(delivered::device_of_holes(record));
        found.extend(others::other_io(record));
        found.extend(few.into_iter().chain(errors(capture)));
        found
    })
}

fn of(records: &[Record], judge: impl Fn(&Record, &CaptureRecord) -> Vec<Finding>) -> Study {
    let own = records.iter().flat_map(|record| record.findings.clone());
    let captures = records.iter().filter_map(|record| Some((record, record.capture.as_deref()?)));
    let judged = captures.flat_map(|(record, capture)| judge(record, capture));
    let mut findings: Vec<Finding> = own.chain(judged).collect();
    findings.order_by_key(|finding| std::cmp::Reverse(finding.severity));
    let verdict = Verdict::of(&findings);
    Study { findings, verdict }
}

/// What is wrong with a capture.
#[must_use]
pub fn faults(capture: &CaptureRecord) -> Vec<Finding> {
    let few = if capture.requests() == 0 {
        let advice = "capture while the application works, or the device that it really uses: fathom check PATH shows what lies below a path";
        let device = &capture.device;
        let (text, advice) = if capture.faults.cut_off.is_some() {
            let text = format!("of what was asked of {device} the trace has nothing whole");
            (text, "capture again, where there is room for the trace: -o FILE")
        } else {
            let window = format_length(capture.window_ns);
            (format!("nothing was asked of {device} in {window}"), advice)
        };
        Some(Finding::new("capture-empty", Severity::Void, text).advise(advice))
    } else {
        too_few(capture, "capture for longer: --time=5m")
    };
    let mut found = faults_of_trace(capture);
    found.extend(few.into_iter().chain(errors(capture)));
    found
}

fn too_few(capture: &CaptureRecord, advice: &str) -> Option<Finding> {
    let requests = capture.requests();
    let text = format!(
        "only {}: shares and quantiles are guesses",
        counted(requests, "request", "requests")
    );
    (requests < FEW).then(|| Finding::new("capture-short", Severity::Doubtful, text).advise(advice))
}

/// A number with its word.
fn counted(count: u64, one: &str, several: &str) -> String {
    format!("{} {}", format_count(count), if count == 1 { one } else { several })
}

fn errors(capture: &CaptureRecord) -> Option<Finding> {
    let (device, errors) = (&capture.device, capture.errors);
    let text = format!("{} requests to {device} ended with an error", format_count(errors));
    (errors > 0).then(|| {
        Finding::new("capture-errors", Severity::Doubtful, text)
            .advise("look at dmesg, and at the health of the disk")
    })
}

/// What helps against lost events, by where the trace comes from.
fn against_losses(lost: Finding, source: &str) -> Finding {
    let of_blktrace = "the numbers of its records have gaps: give blktrace more buffers (-n), larger ones (-b), or a faster disk";
    match source {
        "blktrace" => lost.advise(of_blktrace),
        "blkparse" => lost
            .advise(of_blktrace)
            .advise("or lines were left out of the text (blkparse -a, grep): give it whole"),
        _ => lost
            .advise("write the trace to a faster or another disk (-o), and leave the reader a processor: the kernel's rings were full")
            .advise("where they were rings of perf events (capture-perf-rings), kernels write some events down nowhere: Linux 6.18.44 those of interrupts of an idle processor"),
    }
}

/// What is wrong with a trace as such, whatever is done with it.
#[must_use]
pub fn faults_of_trace(capture: &CaptureRecord) -> Vec<Finding> {
    use Severity::{Doubtful, Note};
    let faults = &capture.faults;
    let mut found = Vec::new();
    if let Some(why) = &faults.cut_off {
        let behind = match faults.in_no_round {
            0 => String::new(),
            count => {
                let events = counted(count, "event", "events");
                format!(", without {events} behind its last whole round")
            }
        };
        let text = format!("the trace is not whole: {why}; what is whole of it counts{behind}");
        found.push(Finding::new("capture-cut-off", Doubtful, text));
    }
    found.extend(came_online(&faults.came_online));
    found.extend(without_file(&faults.without_file));
    found.extend(ended_early(&faults.ended_early));
    if faults.lost > 0 {
        let lost = faults.lost as f64;
        let share = lost / (lost + capture.events as f64);
        let (severity, what) = if capture.knows_depth() {
            (Note, "")
        } else {
            (
                Doubtful,
                ": latencies are those of the rest, and how many were in flight is not known",
            )
        };
        let text = format!(
            "{} events were lost ({:.1} %){what}",
            format_count(faults.lost),
            100.0 * share
        );
        let lost = Finding::new("capture-lost-events", severity, text);
        found.push(against_losses(lost, &capture.source));
    }
    found.extend(begins_late(faults.before_first));
    if faults.late > 0 {
        let back = format_ns(faults.back_ns_max);
        let mut text =
            format!("time goes back {}, by up to {back}", counted(faults.late, "time", "times"));
        // Processors write down what happened at the same time one after the other.
        let is_far = faults.back_ns_max > 10_000_000 || capture.is_out_of_order();
        if is_far {
            text += ": latencies, and how many were in flight, are not those of the device";
        }
        let severity = if is_far { Doubtful } else { Note };
        let mut found_late = Finding::new("capture-time-goes-back", severity, text)
            .advise("several traces in one file, or lines of several processors that were not merged (blkparse merges them)");
        if capture.source == "blkparse" {
            found_late = found_late.advise("lines of one trace: sort -s -n -k4,4 FILE");
        }
        found.push(found_late);
    }
    if faults.skipped > 0 {
        let text = format!(
            "left out, as no events of requests: {}",
            if capture.source == "blkparse" {
                counted(faults.skipped, "line", "lines")
            } else {
                counted(faults.skipped, "damaged record", "damaged records")
            }
        );
        found.push(Finding::new("capture-lines-skipped", Note, text));
    }
    found.extend(other_devices(capture));
    found.extend(ends_missing(capture));
    found
}

/// A part of another trace.
fn begins_late(before_first: u64) -> Option<Finding> {
    let text = format!(
        "its beginning is missing: {} stood before the first that is there, by their numbers; what was in flight by then is not known",
        counted(before_first, "record", "records")
    );
    (before_first > 0).then(|| {
        Finding::new("capture-begins-late", Severity::Note, text).advise(
            "of the whole trace the figures may be others: give the text as blkparse printed it",
        )
    })
}

/// A foreign trace may be of several devices.
fn other_devices(capture: &CaptureRecord) -> Option<Finding> {
    let others = capture.faults.other_devices;
    let is_chosen = capture.faults.device_chosen;
    let which = if is_chosen {
        "the one that was asked for"
    } else {
        "that which comes first in the file, as no --device was given"
    };
    let text = format!(
        "left out: {} of other devices; all of this is of one device, {which}",
        counted(others, "event", "events")
    );
    let is_most = others > capture.events && !is_chosen;
    let severity = if is_most { Severity::Doubtful } else { Severity::Note };
    (others > 0).then(|| {
        let others = match capture.faults.others.as_slice() {
            [] => "MAJOR,MINOR".to_owned(),
            some => some.join(", --device="),
        };
        Finding::new("capture-other-devices", severity, text)
            .advise(format!("of another one: --device={others}"))
    })
}

/// Few are lost by kernels, many with a processor.
fn ends_missing(capture: &CaptureRecord) -> Option<Finding> {
    let abandoned = capture.faults.abandoned;
    let requests = counted(abandoned, "request", "requests");
    let text = format!("of {requests} the end was not seen");
    let id = "capture-ends-missing";
    if capture.lacks_ends() {
        let text = text
            + ": how many were in flight is not known, and latencies may be those from one request to the end of another";
        return Some(Finding::new(id, Severity::Doubtful, text).advise(
            "what happened on a processor may be missing: blktrace writes a file for each, NAME.blktrace.0, .1, ..., which belong beside each other",
        ));
    }
    if capture.is_unsure() {
        let text = format!(
            "until when {} waited cannot be told: at their places others always did too, or nobody saw them handed to the driver, and ends may be missing; how many were in flight is not known",
            counted(capture.faults.unsure, "request", "requests")
        );
        return Some(Finding::new(id, Severity::Doubtful, text).advise(
            "a trace that begins before the load and ends after it tells more: then nothing waits any more",
        ));
    }
    (abandoned > 0).then(|| Finding::new(id, Severity::Note, text))
}

/// Processors by their numbers, and the word for them; none of none.
fn named(processors: &[u32]) -> Option<(String, &'static str)> {
    let numbers: Vec<String> = processors.iter().map(ToString::to_string).collect();
    let (one, it) = match processors.len() {
        0 => return None,
        1 => ("processor", "it"),
        _ => ("processors", "them"),
    };
    Some((format!("{one} {}", numbers.join(", ")), it))
}

/// blktrace has a file for each processor that is online.
fn without_file(processors: &[u32]) -> Option<Finding> {
    let (processors, it) = named(processors)?;
    let text = format!(
        "there is no file of {processors} beside those of the others: what happened on {it} is missing, if anything did"
    );
    let finding = Finding::new("capture-files-missing", Severity::Doubtful, text);
    Some(finding.advise("put all files of the trace beside each other: NAME.blktrace.0 and so on"))
}

/// A file that was cut at the end of a record is one of a processor on which nothing more happened.
fn ended_early(processors: &[u32]) -> Option<Finding> {
    let (processors, it) = named(processors)?;
    let text = format!(
        "what happened on {processors} ends long before that of the others: if the load did not move away from {it}, the rest is missing"
    );
    let finding = Finding::new("capture-files-end-early", Severity::Note, text);
    Some(finding.advise(
        "compare the sizes of the files with those where the trace was made, and copy them again",
    ))
}

/// Processors have their rings from the start, or none.
fn came_online(processors: &[u32]) -> Option<Finding> {
    let (processors, it) = named(processors)?;
    let text = format!(
        "{processors} came online meanwhile: what happened on {it} is missing, and how many requests were in flight is not known"
    );
    let finding = Finding::new("capture-processors-came", Severity::Doubtful, text);
    Some(finding.advise("capture again while no processors come and go (hotplug, a virtual machine that is resized, power management)"))
}

#[cfg(test)]
mod tests;
