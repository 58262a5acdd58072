//! What an application waited for, as far as the counters of its devices tell that.

use super::storage::Storage;
use fathom_base::order::Order;
use fathom_base::units::format_size;
use fathom_model::finding::{Finding, Severity};
use fathom_model::record::Record;
use fathom_model::watch::{
    ApplicationRecord, ApplicationSample, DeviceCounts, FlowCounts, WatchRecord,
};
use std::collections::BTreeMap;

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
/// A filesystem may write so many times what is committed in small pieces.
const WRITES_EACH: u64 = 50;

/// An application, its storage, and what is known of both over time.
pub(super) struct Seen<'a> {
    /// What it did, and what the devices did meanwhile.
    pub application: &'a ApplicationRecord,
    /// The layers below.
    pub storage: &'a Storage<'a>,
    /// The devices interval by interval.
    pub pieces: &'a [&'a WatchRecord],
    /// The command of a trial.
    pub is_trial: bool,
}

/// A device and what it counted.
type Device<'a> = (&'a str, &'a DeviceCounts);

/// Whose requests devices were busy with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    Its,
    /// Unless others use them: what nobody is charged with is most of it.
    PerhapsIts,
    Others,
    Unknown,
}

/// Whose requests devices were busy with: the one rule, which all answers about what an application waits for rest on.
///
/// Devices count whatever is asked of them. The kernel charges a process with all that is read for it, metadata and read-ahead
/// too, and with the memory that it makes dirty. Journals, and metadata of filesystems that keep it to themselves, are written by
/// threads of the kernel and charged to nobody. Hence, by bytes, as nothing counts the requests of a process:
///
/// - What was read beyond its own count, others have read. A server that works for it is one of these.
/// - What was written beyond its own count, others have written, or it is metadata and journals of what it did. Up to
///   [`WRITES_EACH`] times what it wrote it may all be that: who commits a row of 100 bytes makes a filesystem write blocks, a
///   journal and its commit record. Beyond that, as after the removal of a tree, which is charged with nothing, it does not show.
/// - Where at least half of all is its own by its count, the answer is about it; else it is others' where reads of others are at least
///   half. Where at least half may be its own by what a filesystem adds, the answer is about it unless others use the devices, and
///   beyond that it is not known.
/// - Where the kernel does not count it, nothing speaks against its being its own.
///
/// The count of a process does not say on which device: what it moved elsewhere may be taken for what was moved here.
fn whose(own: &ApplicationSample, devices: &[Device<'_>]) -> Whose {
    let (read, written) = (bytes(devices, |c| c.reads), bytes(devices, |c| c.writes));
    let is_counted = own.asked_read_bytes != 0 || own.asked_write_bytes != 0;
    let own_read = own.read_bytes.min(read);
    let own_written = |each: u64| own.written_bytes.saturating_mul(each).min(written);
    let is_half = |part: u64| 2 * part >= read + written;
    match () {
        () if !is_counted || is_half(own_read + own_written(1)) => Whose::Its,
        () if is_half(read - own_read) => Whose::Others,
        () if is_half(own_read + own_written(WRITES_EACH)) => Whose::PerhapsIts,
        () => Whose::Unknown,
    }
}

/// What devices have moved in one direction.
fn bytes(devices: &[Device<'_>], of: fn(&DeviceCounts) -> FlowCounts) -> u64 {
    512 * devices.iter().map(|(_, counts)| of(counts).sectors).sum::<u64>()
}

/// What a command in the place of a workload waited for, by what its devices counted meanwhile; none where that was not followed, or
/// says nothing. Whose requests these are is not asked: a trial begins on storage that is quiet, unless its plan is about a load
/// that is there already, and what a server does for the command is what is measured.
pub(super) fn of_command(record: &Record) -> Option<Finding> {
    let watch = record.watch.as_deref().filter(|watch| !watch.application.is_empty())?;
    let storage = Storage::of(std::slice::from_ref(record));
    let stacks = record.stacks();
    let tops: Vec<&str> =
        stacks.iter().flat_map(|s| s.top_block_devices()).map(|node| node.name.as_str()).collect();
    let mut devices: BTreeMap<String, DeviceCounts> = BTreeMap::new();
    for series in &watch.devices {
        if tops.is_empty() || tops.contains(&series.name.as_str()) {
            let sum = devices.entry(series.name.clone()).or_default();
            *sum = series.counts().iter().fold(*sum, |sum, counts| sum.plus(counts));
        }
    }
    // Earlier versions have kept no layers of a command's trial: which of several devices stands on which is not known then, nor
    // whether one without a request was told not to count them.
    let is_unclear = devices.len() > 1 || devices.values().all(|counts| carried(counts).0 == 0);
    if tops.is_empty() && is_unclear || devices.keys().any(|name| storage.is_uncounted(name)) {
        return None;
    }
    let cpu_ns = record.process_cpu.user_ns + record.process_cpu.system_ns;
    let cpu_share = cpu_ns as f64 / record.window_ns.max(1) as f64;
    let application = ApplicationRecord {
        took_ns: record.window_ns,
        total: ApplicationSample { cpu_share, ..ApplicationSample::default() },
        devices,
        ..ApplicationRecord::default()
    };
    let (application, storage) = (&application, &storage);
    waits_for(&Seen { application, storage, pieces: &[watch], is_trial: true })
}

/// Requests and the milliseconds that they took. Flushes are none: what commits waits in its write for the flush before it, which
/// the kernel counts once more beside it, and which does not make the device busy.
fn carried(counts: &DeviceCounts) -> (u64, u64) {
    let flows = [counts.reads, counts.writes, counts.discards];
    let sum = |of: fn(&FlowCounts) -> u64| flows.iter().map(of).sum();
    (sum(|flow| flow.requests), sum(|flow| flow.took_ms))
}

/// Busy share of the time.
fn share(counts: &DeviceCounts, took_ms: f64) -> f64 {
    (counts.busy_ms as f64 / took_ms).min(1.0)
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
pub(super) fn waits_for(seen: &Seen<'_>) -> Option<Finding> {
    let application = seen.application;
    if let Some(untimed) = untimed(application) {
        return Some(untimed);
    }
    let mut all: Vec<Device<'_>> =
        application.devices.iter().map(|(name, counts)| (name.as_str(), counts)).collect();
    all.order_by_key(|(_, counts)| std::cmp::Reverse(counts.busy_ms));
    let busiest = *all.first()?;
    let who = if seen.is_trial { "the load" } else { "the application" };
    let took_ms = application.took_ns as f64 / 1e6;
    let requests: u64 = all.iter().map(|(_, counts)| carried(counts).0).sum();
    if requests < REQUESTS_MIN || took_ms < 1.0 {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        let text = format!(
            "{} had {requests} requests in all: {who} works in memory, or on other devices",
            names.join(" + ")
        );
        return Some(Finding::new("hardly-any-io", Severity::Note, text));
    }
    all.retain(|(_, counts)| carried(counts).0 > 0);
    let share = |counts: &DeviceCounts| share(counts, took_ms);
    let is_busy = |devices: &[Device<'_>]| {
        devices.iter().map(|(_, counts)| share(counts)).sum::<f64>() >= STORAGE_SHARE_MIN
    };
    if !is_busy(&all) {
        return Some(not_bound(seen, busiest.0, share(busiest.1)));
    }
    let own = |devices: &[Device<'_>]| match seen.is_trial {
        true => Whose::Its,
        false => whose(&application.total, devices),
    };
    // The busiest that is its own, or may be; where none is busy for half of the time by itself, all together.
    let mut alone = all.chunks(1).filter(|device| is_busy(device));
    let of = |whose: Whose| alone.clone().find(|device| own(device) == whose);
    let chosen = of(Whose::Its).or_else(|| of(Whose::PerhapsIts)).or_else(|| alone.next());
    let chosen = chosen.unwrap_or(&all);
    let answer = answer(seen, chosen, took_ms);
    Some(match own(chosen) {
        Whose::Its => answer.finding(),
        Whose::PerhapsIts => perhaps(application, chosen, answer),
        Whose::Others => of_others(application, chosen, &answer.busy),
        Whose::Unknown => unclear(application, chosen, &answer),
    })
}

/// Storage that is idle for most of the time.
fn not_bound(seen: &Seen<'_>, name: &str, share: f64) -> Finding {
    let (who, waits) = match seen.is_trial {
        true => ("the command", "Whatever loads it waits"),
        false => ("the application", "It waits"),
    };
    let cpu = seen.application.total.cpu_share;
    let text = format!(
        "not bound by storage: {name} was busy for {:.0} % of the time, {who} used {cpu:.2} processors",
        100.0 * share
    );
    let advice = match cpu >= 0.8 {
        true => "It computes; faster storage would bring little.".to_owned(),
        false => format!(
            "{waits} for something else: a lock, the network, a timer, its clients, or a processor that others use."
        ),
    };
    Finding::new("not-storage-bound", Severity::Note, text).advise(advice)
}

/// What the counters of devices say of whoever keeps them busy.
struct Answer {
    id: &'static str,
    /// The words for it; none where they say nothing.
    word: Option<&'static str>,
    /// For how much of the time they were busy.
    busy: String,
    /// How many requests were in flight, and what each took.
    flow: String,
    advice: Vec<String>,
}

impl Answer {
    fn finding(self) -> Finding {
        let Self { id, word, busy, flow, advice } = self;
        let word = word.map_or_else(String::new, |word| format!("{word}: "));
        let finding = Finding::new(id, Severity::Note, format!("{word}{busy}, {flow}"));
        advice.into_iter().fold(finding, Finding::advise)
    }
}

/// Of one device, or of several none of which is busy for half of the time.
fn answer(seen: &Seen<'_>, devices: &[Device<'_>], took_ms: f64) -> Answer {
    let sum = |of: &dyn Fn(&DeviceCounts) -> u64| {
        devices.iter().map(|(_, counts)| of(counts)).sum::<u64>() as f64
    };
    let (requests, waited_ms) = (sum(&|c| carried(c).0), sum(&|c| carried(c).1));
    let in_flight = waited_ms / sum(&|c| c.busy_ms).max(1.0);
    let each_ms = waited_ms / requests.max(1.0);
    let [(name, counts)] = devices else {
        let flow = format!("{in_flight:.1} requests in flight meanwhile, {each_ms:.2} ms each");
        return in_turn(devices, &flow, (in_flight, waited_ms), took_ms);
    };
    let (of_all, between) = (share(counts, took_ms), between(seen.pieces, name));
    let mut busy = format!("{name} was busy for {:.0} % of the time", 100.0 * of_all);
    if of_all < FULL_SHARE_MIN && between >= FULL_SHARE_MIN {
        busy += &format!(" ({:.0} % between its first and its last request)", 100.0 * between);
    }
    let (id, word, advice) =
        bound(name, (of_all.max(between), in_flight), seen.storage.heads(name));
    let flow = format!("{in_flight:.1} requests in flight meanwhile, {each_ms:.2} ms each");
    Answer { id, word: Some(word), busy, flow, advice }
}

/// Of several: who has one request in flight at any time has no more than that on all of them together.
fn in_turn(
    devices: &[Device<'_>],
    flow: &str,
    (in_flight, waited_ms): (f64, f64),
    took_ms: f64,
) -> Answer {
    let each =
        |(name, counts): &Device<'_>| format!("{name} for {:.0} %", 100.0 * share(counts, took_ms));
    let each: Vec<String> = devices.iter().map(each).collect();
    let busy = format!("several devices were busy, {} of the time", each.join(", "));
    if in_flight >= ONE_BY_ONE_MAX || waited_ms > took_ms {
        let flow = format!(
            "{flow}: whether one after the other, so that it waits for storage most of the time, or together, does not show"
        );
        return Answer { id: "several-devices", word: None, busy, flow, advice: Vec::new() };
    }
    let flow = format!("{flow}: as of a program that uses one after the other");
    let advice = [
        "It waits for one request after another, of whichever device: only a shorter latency, or more requests at once, make it faster.",
        "Several programs, each on a device of its own, look the same: each waits for no more than its device's share of the time then.",
    ];
    let (id, advice) = ("latency-bound", advice.map(str::to_owned).to_vec());
    Answer { id, word: Some(id), busy, flow, advice }
}

/// Busy share of a device between the first and the last of the intervals in which it had a request: a program that begins slowly
/// asks for nothing then. Of the border intervals it is not known when in them it began and ended: they count where there is nothing else.
fn between(pieces: &[&WatchRecord], name: &str) -> f64 {
    let mut course: Vec<(u64, DeviceCounts)> = Vec::new();
    for piece in pieces {
        let lengths = piece.length_us.values();
        for series in piece.devices.iter().filter(|series| series.name == name) {
            let lengths = lengths.iter().skip(series.from as usize).copied();
            course.extend(lengths.zip(series.counts()));
        }
    }
    let is_active = |(_, counts): &(u64, DeviceCounts)| carried(counts).0 > 0 || counts.busy_ms > 0;
    let first = course.iter().position(is_active).unwrap_or(0);
    let last = course.iter().rposition(is_active).unwrap_or(0);
    let inner = match last > first + 1 {
        true => &course[first + 1..last],
        false => course.get(first..=last).unwrap_or_default(),
    };
    let length_us: u64 = inner.iter().map(|(us, _)| us).sum();
    let busy_ms: u64 = inner.iter().map(|(_, counts)| counts.busy_ms).sum();
    (1e3 * busy_ms as f64 / length_us.max(1) as f64).min(1.0)
}

/// What the kernel charges to the command, of what devices have moved: no more than they did.
fn charged(application: &ApplicationRecord, devices: &[Device<'_>]) -> String {
    let own = &application.total;
    let (read, written) = (bytes(devices, |c| c.reads), bytes(devices, |c| c.writes));
    let least = if application.is_cut_off { "at least " } else { "" };
    format!(
        "of {} moved, the kernel charges {least}{} to the command",
        format_size(read + written),
        format_size(own.read_bytes.min(read) + own.written_bytes.min(written))
    )
}

/// Devices that others keep busy.
fn of_others(application: &ApplicationRecord, devices: &[Device<'_>], busy: &str) -> Finding {
    let text = format!("{busy}, with requests of others: {}", charged(application, devices));
    Finding::new("others-io", Severity::Note, text)
        .advise("What the command waits for cannot be told from that. Who uses it: fathom capture, or iotop.")
        .advise("A server that works for the command, such as a database that ran before it, counts among the others: have the command start it, as recipes do.")
}

/// The answer for an application that may be alone on its devices.
fn perhaps(application: &ApplicationRecord, devices: &[Device<'_>], answer: Answer) -> Finding {
    let charged = charged(application, devices);
    let mut finding = answer.finding();
    finding.summary = format!(
        "if nobody else uses it, {}: {charged}; the rest is metadata and journals, which it charges to nobody, or others'",
        finding.summary
    );
    finding.advise("Whether others use it: fathom capture, or iotop.")
}

/// Devices that write what is charged to nobody, or to others.
fn unclear(application: &ApplicationRecord, devices: &[Device<'_>], answer: &Answer) -> Finding {
    let charged = charged(application, devices);
    let text = format!(
        "{}: {charged}; the rest is metadata and journals, which it charges to nobody, or others'",
        answer.busy
    );
    let word = answer.word.map_or_else(String::new, |word| format!("{word}, "));
    Finding::new("uncharged-io", Severity::Note, text)
        .advise("Whether others use it (a server that works for the command is one of them): fathom capture, or iotop.")
        .advise(format!("If nobody does, it is the command's: {word}{}", answer.flow))
}

/// What storage that is busy for so large a share, with so many requests in flight meanwhile, makes of the application. What serves
/// one request at a time is full with a few; of all else only a load that grows tells where its limit is.
fn bound(
    name: &str,
    (busy_share, in_flight): (f64, f64),
    heads: Option<usize>,
) -> (&'static str, &'static str, Vec<String>) {
    let saturate = format!("fathom saturate /dev/{name}   (reads only)");
    let is_full = busy_share >= FULL_SHARE_MIN;
    let many_min = MANY_MIN * heads.unwrap_or(1) as f64;
    if in_flight < ONE_BY_ONE_MAX {
        let advice = vec![
            "It waits for one request after another: only a shorter latency, or more requests at once, make it faster.".to_owned(),
            format!(
                "Two threads (or asynchronous I/O) could do up to twice as much, N up to N times, until {name} is full; where that is:"
            ),
            saturate,
        ];
        ("latency-bound", "latency-bound", advice)
    } else if is_full && in_flight >= many_min && heads.is_some() {
        let advice = vec![
            "Several requests wait at any time: more threads would make them wait longer and bring little.".to_owned(),
            format!("Whether {name} serves even more at once: {saturate}"),
        ];
        ("device-bound", "device-bound", advice)
    } else if is_full && in_flight >= many_min {
        let advice = vec![
            format!(
                "Whether {name} is full does not show here: what serves several requests at once is busy long before that. Where its limit is:"
            ),
            saturate,
        ];
        ("parallel", "many requests at once", advice)
    } else {
        let text = match heads {
            Some(_) => "More threads bring something, less than in proportion.".to_owned(),
            // What serves many at once serves more of them as fast, until it is full.
            None => format!(
                "More threads may bring up to in proportion, until {name} is full, which does not show here. Where that is:"
            ),
        };
        let advice = vec![text, saturate];
        ("partly-parallel", "between latency-bound and device-bound", advice)
    }
}

#[cfg(test)]
#[path = "waits_tests.rs"]
pub(super) mod tests;
