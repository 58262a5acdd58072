//! What an application waited for, and whether its own counts of I/O and the devices' tell the same.

use super::storage::Storage;
use fathom_base::units::{format_length, format_size};
use fathom_model::finding::{Finding, Severity};
use fathom_model::record::Record;
use fathom_model::watch::{ApplicationRecord, ApplicationSample, DeviceCounts, FlowCounts};
use std::collections::BTreeMap;

/// Bytes that a command of a plan has moved itself below which the load is not its own.
const OWN_BYTES_MIN: u64 = 1 << 20;
/// Busy share of the storage below which something else is what takes the time.
const STORAGE_SHARE_MIN: f64 = 0.5;
/// In flight while busy: up to here it is about one request after another.
const ONE_BY_ONE_MAX: f64 = 1.5;
/// And from here on several wait at any time: at each disk, where it can serve one only.
const MANY_MIN: f64 = 4.0;
/// Busy share from which on there is no time left.
const FULL_SHARE_MIN: f64 = 0.9;
/// Fewest requests that say anything.
const REQUESTS_MIN: u64 = 50;
/// Differences below are bookkeeping: metadata, journals, read-ahead.
const GAP_BYTES_MIN: u64 = 4 << 20;
/// And those below a fifth.
const GAP_SHARE_MIN: f64 = 0.2;
/// Figures in which an application tells what it has read and written by counters of its own, as a database has them.
const OWN_READ: &str = "own_read_bytes";
const OWN_WRITTEN: &str = "own_written_bytes";

/// Everything about an application, and what it was watched on.
pub(super) fn findings(
    application: &ApplicationRecord,
    storage: &Storage<'_>,
    gone: &[&str],
) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(ended(application));
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
    if gone.is_empty() && !application.devices.keys().any(|name| storage.is_uncounted(name)) {
        found.extend(waits_for(application, storage));
        found.extend(gaps(application));
    }
    found
}

/// What a command in the place of a workload waited for, by what its devices counted meanwhile; none where that was not followed, or
/// says nothing.
pub(super) fn of_command(record: &Record) -> Option<Finding> {
    let watch = record.watch.as_deref().filter(|watch| !watch.application.is_empty())?;
    let storage = Storage::of(std::slice::from_ref(record));
    let stacks = record.stacks();
    let tops: Vec<&str> =
        stacks.iter().flat_map(|s| s.top_block_devices()).map(|node| node.name.as_str()).collect();
    let mut devices: BTreeMap<String, DeviceCounts> = BTreeMap::new();
    for series in &watch.devices {
        // Older versions have kept no layers of a command's trial, but how deep each lies.
        let is_top =
            if tops.is_empty() { series.depth == 0 } else { tops.contains(&series.name.as_str()) };
        if is_top {
            let sum = devices.entry(series.name.clone()).or_default();
            *sum = series.counts().iter().fold(*sum, |sum, counts| sum.plus(counts));
        }
    }
    if devices.keys().any(|name| storage.is_uncounted(name)) {
        return None;
    }
    let cpu_ns = record.process_cpu.user_ns + record.process_cpu.system_ns;
    let cpu_share = cpu_ns as f64 / record.window_ns.max(1) as f64;
    let sum = |name: &str| watch.application.values(name, watch.intervals()).iter().sum::<u64>();
    let total = ApplicationSample {
        cpu_share,
        asked_read_bytes: sum("asked_read"),
        asked_write_bytes: sum("asked_write"),
        read_bytes: sum("read"),
        written_bytes: sum("written"),
        ..ApplicationSample::default()
    };
    // One that moves next to nothing itself watches the load of others, or has a server that works for it.
    let is_load = total.read_bytes + total.written_bytes >= OWN_BYTES_MIN;
    let total = if is_load {
        total
    } else {
        ApplicationSample { asked_read_bytes: 0, asked_write_bytes: 0, ..total }
    };
    let took_ns = record.window_ns;
    let application = ApplicationRecord { took_ns, total, devices, ..ApplicationRecord::default() };
    waits_for(&application, &storage)
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

/// The busiest of the devices that it was watched on.
fn busiest(application: &ApplicationRecord) -> Option<(&String, &DeviceCounts)> {
    application.devices.iter().max_by_key(|(_, counts)| counts.busy_ms)
}

/// Requests and the milliseconds that they took. Flushes are none: what commits waits in its write for the flush before it, which
/// the kernel counts once more beside it, and which does not make the device busy.
fn carried(counts: &DeviceCounts) -> (u64, u64) {
    let flows = [counts.reads, counts.writes, counts.discards];
    let sum = |of: fn(&FlowCounts) -> u64| flows.iter().map(of).sum();
    (sum(|flow| flow.requests), sum(|flow| flow.took_ms))
}

/// An array whose requests are counted, but not how long they took: so it is before Linux 5.9.
fn untimed(application: &ApplicationRecord) -> Option<Finding> {
    let is_untimed = |(name, counts): &(&String, &DeviceCounts)| {
        let (requests, took_ms) = carried(counts);
        name.starts_with("md") && requests >= REQUESTS_MIN && (took_ms, counts.busy_ms) == (0, 0)
    };
    let (name, _) = application.devices.iter().find(is_untimed)?;
    let text = format!(
        "this kernel counts what {name} moves, but not how long that takes: what the application waits for does not show"
    );
    Some(
        Finding::new("times-uncounted", Severity::Note, text)
            .advise("Kernels from 5.9 on count it. How busy its members were is counted:")
            .advise(format!("fathom watch {name}")),
    )
}

/// Whether it waits for storage, and what more requests at once would bring.
fn waits_for(application: &ApplicationRecord, storage: &Storage<'_>) -> Option<Finding> {
    if let Some(untimed) = untimed(application) {
        return Some(untimed);
    }
    let (name, counts) = busiest(application)?;
    let (requests, waited_ms) = carried(counts);
    let took_ms = application.took_ns as f64 / 1e6;
    if requests < REQUESTS_MIN || took_ms < 1.0 {
        let text = format!(
            "{name} had {requests} requests in all: the application works in memory, or on other devices"
        );
        return Some(Finding::new("hardly-any-io", Severity::Note, text));
    }
    let busy_share = (counts.busy_ms as f64 / took_ms).min(1.0);
    let in_flight = waited_ms as f64 / counts.busy_ms.max(1) as f64;
    let cpu = application.total.cpu_share;
    let busy = format!("{name} was busy for {:.0} % of the time", 100.0 * busy_share);
    if busy_share >= STORAGE_SHARE_MIN
        && let Some(others) = of_others(application, &busy, counts)
    {
        return Some(others);
    }
    let all_ms: u64 = application.devices.values().map(|counts| counts.busy_ms).sum();
    if busy_share < STORAGE_SHARE_MIN && all_ms as f64 / took_ms >= STORAGE_SHARE_MIN {
        let each = |(name, counts): (&String, &DeviceCounts)| {
            format!("{name} for {:.0} %", 100.0 * counts.busy_ms as f64 / took_ms)
        };
        let each: Vec<String> = application.devices.iter().map(each).collect();
        let text = format!(
            "several devices were busy, {} of the time: whether one after the other, so that it waits for storage most of the time, or together, does not show",
            each.join(", ")
        );
        return Some(Finding::new("several-devices", Severity::Note, text));
    }
    if busy_share < STORAGE_SHARE_MIN {
        let text =
            format!("not bound by storage: {busy}, the application used {cpu:.2} processors");
        let advice = if cpu >= 0.8 {
            "It computes; faster storage would bring little."
        } else {
            "It waits for something else: a lock, the network, a timer, its clients, or a processor that others use."
        };
        return Some(Finding::new("not-storage-bound", Severity::Note, text).advise(advice));
    }
    let each_ms = waited_ms as f64 / requests as f64;
    let flow =
        format!("{busy}, {in_flight:.1} requests in flight while it was, {each_ms:.2} ms each");
    Some(bound(name, &flow, (busy_share, in_flight), storage.heads(name)))
}

/// Nearly all that a device did was for others, by the kernel's own count of the application.
fn of_others(
    application: &ApplicationRecord,
    busy: &str,
    counts: &DeviceCounts,
) -> Option<Finding> {
    /// What a process reads is what its device reads, but a filesystem writes many times what is committed in small pieces.
    const TIMES: [u64; 2] = [2, 50];
    let own = &application.total;
    let is_counted = own.asked_read_bytes != 0 || own.asked_write_bytes != 0;
    let moved = 512 * (counts.reads.sectors + counts.writes.sectors);
    let most = own.read_bytes + own.written_bytes;
    let is_others = is_counted && !application.is_cut_off;
    let could_be = TIMES[0] * own.read_bytes + TIMES[1] * own.written_bytes;
    if !is_others || could_be >= moved || moved - most < GAP_BYTES_MIN {
        return None;
    }
    let text = format!(
        "{busy}, with requests of others, or with metadata and journals, which are nobody's: of {} that it moved, {} count as the application's",
        format_size(moved),
        format_size(most)
    );
    Some(Finding::new("others-io", Severity::Note, text).advise(
        "What the application waits for cannot be told from this device. Who uses it: fathom capture, or iotop.",
    ))
}

/// What storage that is busy for so large a share, with so many requests in flight meanwhile, makes of the application. What serves
/// one request at a time is full with a few; of all else only a load that grows tells where its limit is.
fn bound(
    name: &str,
    flow: &str,
    (busy_share, in_flight): (f64, f64),
    heads: Option<usize>,
) -> Finding {
    let saturate = format!("fathom saturate /dev/{name}   (reads only)");
    let told = |id: &str, what: &str| Finding::new(id, Severity::Note, format!("{what}: {flow}"));
    let is_full = busy_share >= FULL_SHARE_MIN;
    let many_min = MANY_MIN * heads.unwrap_or(1) as f64;
    if in_flight < ONE_BY_ONE_MAX {
        told("latency-bound", "latency-bound")
            .advise("It waits for one request after another: only a shorter latency, or more requests at once, make it faster.")
            .advise(format!(
                "Two threads (or asynchronous I/O) could do up to twice as much, N up to N times, until {name} is full; where that is:"
            ))
            .advise(saturate)
    } else if is_full && in_flight >= many_min && heads.is_some() {
        told("device-bound", "device-bound")
            .advise("Several requests wait at any time: more threads would make them wait longer and bring little.")
            .advise(format!("Whether {name} serves even more at once: {saturate}"))
    } else if is_full && in_flight >= many_min {
        told("parallel", "many requests at once")
            .advise(format!(
                "Whether {name} is full does not show here: what serves several requests at once is busy long before that. Where its limit is:"
            ))
            .advise(saturate)
    } else {
        told("partly-parallel", "between latency-bound and device-bound")
            .advise("More threads bring something, less than in proportion.")
            .advise(saturate)
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
    // Of memory that is to be written the kernel counts whole folios: what was asked for is the least that it was.
    let least = match own.asked_write_bytes {
        0 => own.written_bytes,
        asked => asked.min(own.written_bytes),
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
    let text = format!(
        "by {by_what} the application has {word} {}, {} has {word} {}",
        format_size(own),
        names.join(" + "),
        format_size(device)
    );
    let advice = match (device > own, word) {
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
    use crate::watch::storage::tests::{array, storage};
    use fathom_model::stack::Stack;

    /// Ten seconds of an application on a device.
    fn application(busy_ms: u64, took_ms: u64, cpu_share: f64) -> ApplicationRecord {
        let writes = FlowCounts { requests: 10_000, sectors: 200_000, took_ms, merged: 0 };
        let queued_ms = took_ms;
        let counts = DeviceCounts { writes, busy_ms, queued_ms, ..DeviceCounts::default() };
        let total = ApplicationSample {
            cpu_share,
            asked_write_bytes: 100_000_000,
            written_bytes: 100_000_000,
            ..ApplicationSample::default()
        };
        ApplicationRecord {
            took_ns: 10_000_000_000,
            exit_status: Some(0),
            total,
            devices: [("sda".to_owned(), counts)].into(),
            ..ApplicationRecord::default()
        }
    }

    #[track_caller]
    fn check(application: &ApplicationRecord, expected: &[&str]) {
        check_on(application, &[], expected);
    }

    /// The same on what is known to stand on these layers.
    #[track_caller]
    fn check_on(application: &ApplicationRecord, stacks: &[Stack], expected: &[&str]) {
        let found = findings(application, &storage(stacks, &[]), &[]);
        let ids: Vec<&str> = found.iter().map(|finding| finding.id.as_str()).collect();
        assert_eq!(ids, expected, "{found:?}");
    }

    /// The same application on a device of another name.
    fn on(name: &str, application: ApplicationRecord) -> ApplicationRecord {
        let counts = application.devices["sda"];
        ApplicationRecord { devices: [(name.to_owned(), counts)].into(), ..application }
    }

    #[test]
    fn what_an_application_waits_for() {
        check(&application(9800, 10_100, 0.05), &["latency-bound"]);
        check(&application(9900, 160_000, 0.05), &["parallel"]);
        check(&application(8000, 20_000, 0.3), &["partly-parallel"]);
        check(&application(2000, 2000, 0.97), &["not-storage-bound"]);
        let idle = ApplicationRecord {
            devices: [("sda".to_owned(), DeviceCounts::default())].into(),
            total: ApplicationSample::default(),
            ..application(0, 0, 0.0)
        };
        check(&idle, &["hardly-any-io"]);
    }

    /// A disk that others keep busy says nothing of who only sleeps.
    #[test]
    fn requests_of_others_are_not_the_applications() {
        let with = |written_bytes: u64, busy_ms: u64| {
            let mut with = application(busy_ms, busy_ms, 0.05);
            (with.total.asked_write_bytes, with.total.written_bytes) = (1600, written_bytes);
            with
        };
        check(&with(0, 9800), &["others-io", "io-gap"]);
        check(&with(0, 2000), &["not-storage-bound", "io-gap"]);
        // What it read, its device has read, and the rest is of others.
        let mut reader = with(0, 9800);
        (reader.total.asked_read_bytes, reader.total.read_bytes) = (5_000_000, 5_000_000);
        check(&reader, &["others-io", "io-gap", "io-gap"]);
        // Commits of few bytes make a filesystem write many times as much.
        check(&with(5_000_000, 9800), &["latency-bound", "io-gap"]);
    }

    #[test]
    fn devices_that_are_busy_in_turn_are_not_idle() {
        let with = |busy_ms: u64| {
            let mut with = application(busy_ms, busy_ms, 0.05);
            with.devices.insert("sdb".to_owned(), with.devices["sda"]);
            (with.total.asked_write_bytes, with.total.written_bytes) = (204_800_000, 204_800_000);
            with
        };
        check(&with(4500), &["several-devices"]);
        check(&with(2000), &["not-storage-bound"]);
        check(&with(9000), &["latency-bound"]);
    }

    #[test]
    fn a_device_is_full_only_where_each_head_has_a_few_requests() {
        let with = |in_flight: u64| on("md0", application(10_000, 10_000 * in_flight, 0.05));
        let eight = [array(&[true; 8])];
        check_on(&with(40), &eight, &["device-bound"]);
        check_on(&with(20), &eight, &["partly-parallel"]);
        check_on(&with(5), &[array(&[true])], &["device-bound"]);
        check_on(&with(40), &[array(&[false; 2])], &["parallel"]);
        check_on(&with(40), &[array(&[true, false])], &["parallel"]);
        check_on(&with(1), &eight, &["latency-bound"]);
    }

    #[test]
    fn nothing_is_said_of_what_is_not_counted() {
        let mut off = [array(&[true])];
        for node in &mut off[0].nodes {
            node.queue.as_mut().expect("a queue").iostats = Some(false);
        }
        let idle = on("md0", application(0, 0, 0.05));
        let with = |requests: u64, took_ms: u64| {
            let mut with = idle.clone();
            let counts = with.devices.get_mut("md0").expect("there");
            (counts.writes.requests, counts.writes.took_ms) = (requests, took_ms);
            with
        };
        check_on(&with(0, 0), &off, &[]);
        check_on(&with(0, 0), &[array(&[true])], &["hardly-any-io"]);
        // Requests without any time: of an array, on kernels that do not tell.
        check_on(&with(10_000, 0), &[], &["times-uncounted"]);
        check_on(&with(10_000, 5), &[], &["not-storage-bound"]);
        check(&application(0, 0, 0.05), &["not-storage-bound"]);
    }

    #[test]
    fn who_commits_waits_once_for_a_write_and_the_flush_before_it() {
        let mut one = application(9800, 9700, 0.05);
        for counts in one.devices.values_mut() {
            // As the kernel counts them: in the queue, but not as busy time.
            (counts.flushes, counts.flush_ms) = (10_000, 9000);
            counts.queued_ms += counts.flush_ms;
        }
        check(&one, &["latency-bound"]);
        let text = &findings(&one, &Storage::default(), &[])[0].summary;
        assert!(text.contains("1.0 requests in flight") && text.contains("0.97 ms each"), "{text}");
    }

    #[test]
    fn who_discards_waits_for_discards() {
        let mut trims = application(9000, 100, 0.05);
        for counts in trims.devices.values_mut() {
            let flow = FlowCounts { requests: 500, took_ms: 144_000, ..FlowCounts::default() };
            counts.discards = flow;
        }
        check(&trims, &["parallel"]);
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
            let found = findings(&silent, &Storage::default(), &[]);
            assert_eq!(found[0].advice[0].contains("{} stands"), has_mark, "{missing}");
        }
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
            let found = findings(application, &Storage::default(), &[]);
            let gap = found.iter().find(|finding| finding.id == "io-gap").expect("a gap");
            format!("{} {}", gap.summary, gap.advice.join(" "))
        };
        // The device has written 102.4 MB.
        check(&with(100_000_000, 1_500_000_000), &["latency-bound"]);
        check(&with(20_000_000, 1_500_000_000), &["latency-bound"]);
        let asked = text(&with(200_000_000, 1_500_000_000));
        assert!(asked.contains("has written 190.7 MiB") && !asked.contains("dirty"), "{asked}");
        let too_much = text(&with(10_000_000, 20_000_000));
        assert!(too_much.contains("has written 19.1 MiB"), "{too_much}");
        let mut in_memory = with(300_000_000, 300_000_000);
        in_memory.dirty_bytes = 190 << 20;
        let said = text(&in_memory);
        assert!(said.contains("190 MiB more are dirty") && said.contains("folio"), "{said}");
    }

    /// What a database counts as read it may have had from the page cache.
    #[test]
    fn who_counts_decides_what_may_be_behind_a_gap() {
        let mut with = application(9800, 10_100, 0.0);
        with.figures.insert(OWN_READ.to_owned(), 50e6);
        with.total.read_bytes = 60_000_000;
        let found = findings(&with, &Storage::default(), &[]);
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
        let half = with(50e6);
        check(&half, &["latency-bound", "io-gap"]);
        let text = &findings(&half, &Storage::default(), &[])[1].summary;
        assert!(text.starts_with("by the counters in it the application has written"), "{text}");
        let mut unknown = with(50e6);
        unknown.total.asked_write_bytes = 0;
        check(&unknown, &["latency-bound", "io-gap"]);
    }
}
