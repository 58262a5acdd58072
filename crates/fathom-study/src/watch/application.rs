//! How an application ended, what it waited for, and whether its own counts of I/O and the devices' tell the same.

use super::waits::{self, Seen};
use fathom_base::units::{format_length, format_size};
use fathom_model::finding::{Finding, Severity};
use fathom_model::watch::{ApplicationRecord, DeviceCounts};

/// Differences below are bookkeeping: metadata, journals, read-ahead.
const GAP_BYTES_MIN: u64 = 4 << 20;
/// And those below a fifth.
const GAP_SHARE_MIN: f64 = 0.2;
/// The largest folio that a file is kept in.
const FOLIO_BYTES_MAX: u64 = 2 << 20;
/// Figures in which an application tells what it has read and written by counters of its own, as a database has them.
const OWN_READ: &str = "own_read_bytes";
const OWN_WRITTEN: &str = "own_written_bytes";

/// Everything about an application, and what it was watched on.
pub(super) fn findings(seen: &Seen<'_>, gone: &[&str]) -> Vec<Finding> {
    let application = seen.application;
    let mut found = Vec::new();
    found.extend(ended(application));
    found.extend(outlived(application));
    found.extend(went(gone));
    for missing in &application.missing {
        let text = format!("a figure is missing: {missing}");
        // Only a text has that mark.
        let mark = if missing.contains("stands for") { "; {} stands for the number" } else { "" };
        found.push(
            Finding::new("figure-missing", Severity::Doubtful, text)
                .advise(format!("What it printed last is shown above, or by fathom show{mark}.")),
        );
    }
    // Of what the kernel did not count nothing can be said.
    if gone.is_empty() && !application.devices.keys().any(|name| seen.storage.is_uncounted(name)) {
        found.extend(waits::waits_for(seen));
        found.extend(gaps(application));
    }
    found
}

/// What it had started and did not wait for.
fn outlived(application: &ApplicationRecord) -> Option<Finding> {
    let (count, they) = match application.outlived {
        0 => return None,
        1 => ("a process that the command had started".to_owned(), "it was"),
        count => (format!("{count} processes that the command had started"), "they were"),
    };
    let text = format!(
        "{count} still ran when it ended, and {they} ended with it: what was left to do is not in the figures"
    );
    Some(Finding::new("processes-left", Severity::Note, text).advise(
        "What belongs to the work, the command waits for (wait, in a shell); what serves it, such as a database, it stops itself.",
    ))
}

/// A device that was not there to the end.
fn went(gone: &[&str]) -> Option<Finding> {
    let names = gone.join(" + ");
    let text = format!(
        "{names} went away or was replaced meanwhile: what is counted of it ends there, so that what the application waited for cannot be told"
    );
    (!gone.is_empty()).then(|| {
        Finding::new("device-went", Severity::Doubtful, text).advise(
            "look at dmesg, and again when it stays; a device that comes back counts from then on",
        )
    })
}

fn ended(application: &ApplicationRecord) -> Option<Finding> {
    let void = |id: &str, text: String| Some(Finding::new(id, Severity::Void, text));
    let failed = "application-failed";
    match (application.exit_status, application.signal, application.timed_out_ns) {
        (Some(0), _, _) => None,
        (Some(status), _, _) => {
            void(failed, format!("the command ended with exit status {status}"))
        }
        (_, Some(signal), _) => void(failed, format!("the command was ended by signal {signal}")),
        (_, _, Some(limit_ns)) => {
            let limit = format_length(limit_ns);
            void(
                "application-hung",
                format!("the command did not end within {limit} (--timeout) and was ended"),
            )
        }
        _ => void(failed, "the command was ended with fathom, before it was done".to_owned()),
    }
}

/// Where the application's own counts and the device's differ.
fn gaps(application: &ApplicationRecord) -> Vec<Finding> {
    let total =
        |of: fn(&DeviceCounts) -> u64| application.devices.values().map(of).sum::<u64>() * 512;
    if application.devices.is_empty() {
        return Vec::new();
    }
    let own = &application.total;
    // Nothing is known of it: the kernel does not count, or not for this user.
    let is_counted = own.asked_read_bytes != 0 || own.asked_write_bytes != 0;
    // Of memory that is to be written the kernel counts whole folios, and of libaio, io_uring and mapped files not what they ask
    // for: the least that was written is what was asked for, or what is left without a folio for each call.
    let folios = own.write_calls.unwrap_or(u64::MAX).saturating_mul(FOLIO_BYTES_MAX);
    let least = match own.asked_write_bytes {
        0 => own.written_bytes,
        asked => asked.min(own.written_bytes).max(own.written_bytes.saturating_sub(folios)),
    };
    // Nor does a count without its end say anything about a gap.
    let is_counted = is_counted && !application.is_cut_off;
    let counts = [
        ("read", total(|c| c.reads.sectors), (own.read_bytes, own.read_bytes), OWN_READ),
        ("written", total(|c| c.writes.sectors), (least, own.written_bytes), OWN_WRITTEN),
    ];
    let mut found = Vec::new();
    for (word, device, kernels, figure) in counts {
        if is_counted {
            found.extend(gap(application, &By::Kernel, (word, device, kernels)));
        }
        if let Some(own) = application.figures.get(figure) {
            let own = *own as u64;
            found.extend(gap(application, &By::Itself, (word, device, (own, own))));
        }
    }
    found
}

/// Who counts what an application does.
#[derive(Debug, PartialEq, Eq)]
enum By {
    Kernel,
    Itself,
}

/// The counts of a device and of an application, of which the last may be uncertain.
fn gap(
    application: &ApplicationRecord,
    by: &By,
    (word, device, (least, most)): (&str, u64, (u64, u64)),
) -> Option<Finding> {
    let own = device.clamp(least, most);
    let difference = device.abs_diff(own);
    let share = difference as f64 / device.max(own).max(1) as f64;
    if difference < GAP_BYTES_MIN || share < GAP_SHARE_MIN {
        return None;
    }
    let names: Vec<&str> = application.devices.keys().map(String::as_str).collect();
    let by_what = if *by == By::Kernel { "its own count" } else { "the counters in it" };
    let at_least = if own == least && least < most { "at least " } else { "" };
    let text = format!(
        "by {by_what} the application has {word} {at_least}{}, {} has {word} {}",
        format_size(own),
        names.join(" + "),
        format_size(device)
    );
    let total = &application.total;
    let charged = if word == "written" { total.written_bytes } else { total.read_bytes };
    let advice = match (device > own, word) {
        (true, _) if *by == By::Itself && charged >= own + difference / 2 => {
            "The kernel charges the application with most of the rest: its own counters leave that out.".to_owned()
        }
        (true, "written") => {
            "The rest is journals, metadata, what was dirty before, or other processes.".to_owned()
        }
        (true, _) => "The rest is read-ahead, metadata, or other processes.".to_owned(),
        (false, "written") => not_written(application, by, difference),
        (false, _) if *by == By::Kernel => {
            "The rest came from other devices, or over a network.".to_owned()
        }
        (false, _) => "The rest came from the page cache, or from other devices.".to_owned(),
    };
    Some(Finding::new("io-gap", Severity::Note, text).advise(advice))
}

/// Where the rest of what was to be written may be.
fn not_written(application: &ApplicationRecord, by: &By, difference: u64) -> String {
    let still_dirty = application.dirty_bytes.saturating_sub(application.dirty_before_bytes);
    let mut text = "The rest ".to_owned();
    if still_dirty >= difference / 10 {
        let more = format_size(still_dirty);
        text += &format!("is still in memory ({more} more are dirty than before it), ");
    }
    text += "was overwritten in memory before it was written, or went to other devices.";
    if *by == By::Kernel {
        text += " Or there was less: where a part of a folio of memory is written, the kernel counts all of it.";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::storage::Storage;
    use crate::watch::waits::tests::{application, check};

    fn found(application: &ApplicationRecord) -> Vec<Finding> {
        let storage = Storage::default();
        findings(&Seen { application, storage: &storage, pieces: &[], is_trial: false }, &[])
    }

    #[test]
    fn how_it_ended_and_what_it_did_not_print() {
        let fine = application(9800, 10_100, 0.0);
        let failed = ApplicationRecord { exit_status: Some(3), ..fine.clone() };
        check(&failed, &["application-failed", "latency-bound"]);
        let hung = ApplicationRecord { exit_status: None, timed_out_ns: Some(1), ..fine.clone() };
        check(&hung, &["application-hung", "latency-bound"]);
        let silent = ApplicationRecord { missing: vec!["tps: x".to_owned()], ..fine };
        check(&silent, &["figure-missing", "latency-bound"]);
        // Only a text has a mark for the number.
        for (missing, has_mark) in
            [("what 'tps = {}' stands for was not printed", true), ("'json:a' is not in it", false)]
        {
            let silent = ApplicationRecord { missing: vec![missing.to_owned()], ..silent.clone() };
            let found = found(&silent);
            assert_eq!(found[0].advice[0].contains("{} stands"), has_mark, "{missing}");
        }
    }

    #[test]
    fn what_outlives_it_is_told() {
        let with = |outlived| ApplicationRecord { outlived, ..application(9800, 10_100, 0.0) };
        check(&with(0), &["latency-bound"]);
        check(&with(2), &["processes-left", "latency-bound"]);
        let text = |outlived| found(&with(outlived))[0].summary.clone();
        assert!(text(1).starts_with("a process that the command had started still ran"));
        assert!(text(3).contains("3 processes") && text(3).contains("they were ended with it"));
    }

    #[test]
    fn a_gap_between_the_two_counts_is_told_where_it_matters() {
        let with = |written_bytes: u64| {
            let mut with = application(9800, 10_100, 0.0);
            with.total.written_bytes = written_bytes;
            with
        };
        // The device has written 102.4 MB.
        check(&with(90_000_000), &["latency-bound"]);
        check(&with(40_000_000), &["latency-bound", "io-gap"]);
        let mut more = with(400_000_000);
        more.total.asked_write_bytes = 400_000_000;
        check(&more, &["latency-bound", "io-gap"]);
        let cut_off = ApplicationRecord { is_cut_off: true, ..with(40_000_000) };
        check(&cut_off, &["latency-bound"]);
        let mut unknown = with(0);
        unknown.total.asked_write_bytes = 0;
        check(&unknown, &["latency-bound"]);
    }

    /// The kernel counts whole folios: between what was asked for and what it counts nothing is known.
    #[test]
    fn whole_folios_are_no_gap() {
        let with = |asked_write_bytes: u64, written_bytes: u64| {
            let mut with = application(9800, 10_100, 0.0);
            with.total.asked_write_bytes = asked_write_bytes;
            with.total.written_bytes = written_bytes;
            with
        };
        let text = |application: &ApplicationRecord| {
            let found = found(application);
            let gap = found.iter().find(|finding| finding.id == "io-gap").expect("a gap");
            format!("{} {}", gap.summary, gap.advice.join(" "))
        };
        // The device has written 102.4 MB.
        check(&with(100_000_000, 1_500_000_000), &["latency-bound"]);
        check(&with(20_000_000, 1_500_000_000), &["latency-bound"]);
        let asked = text(&with(200_000_000, 1_500_000_000));
        assert!(
            asked.contains("has written at least 190.7 MiB") && !asked.contains("dirty"),
            "{asked}"
        );
        let too_much = text(&with(10_000_000, 20_000_000));
        assert!(too_much.contains("has written 19.1 MiB"), "{too_much}");
        let mut in_memory = with(300_000_000, 300_000_000);
        in_memory.dirty_bytes = 190 << 20;
        let said = text(&in_memory);
        assert!(said.contains("190 MiB more are dirty") && said.contains("folio"), "{said}");
    }

    /// What libaio and io_uring write is in no count of what was asked for: each of the few calls that are may have been counted as a
    /// folio more, and the rest was written.
    #[test]
    fn what_is_not_counted_as_asked_for_is_written_all_the_same() {
        let with = |write_calls: Option<u64>| {
            let mut with = application(0, 0, 0.0);
            with.devices.values_mut().for_each(|counts| *counts = DeviceCounts::default());
            (with.total.asked_write_bytes, with.total.written_bytes) = (1600, 100 << 20);
            with.total.write_calls = write_calls;
            with
        };
        check(&with(Some(20)), &["hardly-any-io", "io-gap"]);
        let text = &found(&with(Some(20)))[1].summary;
        assert!(text.contains("has written at least 60 MiB, sda has written 0 B"), "{text}");
        // It may all have been folios; and older versions did not count calls.
        check(&with(Some(50)), &["hardly-any-io"]);
        check(&with(None), &["hardly-any-io"]);
    }

    /// What a database counts as read it may have had from the page cache.
    #[test]
    fn who_counts_decides_what_may_be_behind_a_gap() {
        let mut with = application(9800, 10_100, 0.0);
        with.figures.insert(OWN_READ.to_owned(), 50e6);
        with.total.read_bytes = 60_000_000;
        let found = found(&with);
        let advice: Vec<&str> = found[1..].iter().map(|gap| gap.advice[0].as_str()).collect();
        assert_eq!(
            advice,
            [
                "The rest came from other devices, or over a network.",
                "The rest came from the page cache, or from other devices."
            ]
        );
    }

    #[test]
    fn counters_in_the_application_are_held_against_the_devices_too() {
        let with = |written: f64| {
            let mut with = application(9800, 10_100, 0.0);
            with.figures.insert(OWN_WRITTEN.to_owned(), written);
            with
        };
        check(&with(100e6), &["latency-bound"]);
        let mut half = with(50e6);
        check(&half, &["latency-bound", "io-gap"]);
        let why = |half: &ApplicationRecord| found(half)[1].advice[0].clone();
        // The device has written 102.4 MB; who is charged with 100 MB of it has written the rest, too.
        assert!(why(&half).contains("its own counters leave that out"), "{}", why(&half));
        half.total.written_bytes = 60_000_000;
        let journals = found(&half).into_iter().find(|f| f.summary.contains("the counters in it"));
        assert!(journals.is_some_and(|f| f.advice[0].contains("journals, metadata")));
        half.total.written_bytes = 100_000_000;
        let text = &found(&half)[1].summary;
        assert!(text.starts_with("by the counters in it the application has written"), "{text}");
        let mut unknown = with(50e6);
        unknown.total.asked_write_bytes = 0;
        check(&unknown, &["latency-bound", "io-gap"]);
    }
}
