//! What a stored watch comes to: medians of each device, what stood out, and what a watched application waited for.

mod application;
mod coarser;
mod compare;
mod course;
mod figure;
mod storage;
mod waits;

pub use compare::{MeanChange, OnlyInOne, WatchChange, WatchComparison, compare};
pub use course::{DeviceCourse, Line, Span, Stretches, peaks};
use fathom_base::order::Order;

use crate::verdict::Study;
use fathom_base::units::format_count;
use fathom_model::finding::{Finding, Severity, Verdict};
use fathom_model::record::Record;
use fathom_model::watch::{
    ApplicationRecord, DeviceCounts, LatencySeries, WatchEvent, WatchRecord,
};
use fathom_stats::interval::Interval;
use figure::{Column, Idle};
use serde::Serialize;
use std::collections::BTreeMap;
use storage::Storage;

/// A figure of a device over a whole watch. Seconds of one watch are no replications: the interval says how well this
/// watch's own median is known, and nothing about the next one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WatchFigure {
    /// The word of iostat, such as `r_await`.
    pub name: String,
    /// Intervals in which it had a value.
    pub intervals: usize,
    /// Median of these.
    pub median: f64,
    /// Where the median lies, intervals that go together counted as fewer; none for fewer than 10.
    pub interval: Option<Interval>,
    /// Mean by time: each interval counts by its length. Of times, sizes and shares of requests by requests, as if all intervals were one.
    pub mean: f64,
    /// Where the mean of this watch lies, intervals that go together counted as fewer; none for fewer than 10.
    pub mean_interval: Option<Interval>,
    /// Harmonic mean: of a rate that of the same amount of work in each interval. None when it was zero in one of them.
    pub harmonic_mean: Option<f64>,
    /// What 95 % of the intervals stay below or at.
    pub p95: f64,
    /// The highest.
    pub max: f64,
}

/// One device over a whole watch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WatchedDevice {
    /// Kernel name.
    pub name: String,
    /// What it is.
    pub title: String,
    /// How deep it stands in the tree.
    pub depth: usize,
    /// Intervals with figures.
    pub intervals: usize,
    /// Their length together.
    pub seconds: f64,
    /// Everything that was counted.
    pub total: DeviceCounts,
    /// Reads and writes a second.
    pub requests_per_s: f64,
    /// Reads and writes a second as they were asked for: those that were merged into others count too.
    pub asked_per_s: f64,
    /// [`Self::requests_per_s`] as a harmonic mean of the intervals: a slow second counts for as much as the same work takes then. None when
    /// nothing was done in one of them.
    pub requests_harmonic_per_s: Option<f64>,
    /// Its figures in the order of iostat; those without any value are left out.
    pub figures: Vec<WatchFigure>,
    /// In how many intervals it stood out from its companions.
    pub stood_out: u32,
    /// Why, when it did last.
    pub stands_out: Option<String>,
    /// In how many intervals it synchronised.
    pub syncing: usize,
    /// How long single requests took, all intervals together; empty when that was not watched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub latency: Vec<WatchedLatency>,
}

impl WatchedDevice {
    /// One of which nothing is known yet.
    fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            title: String::new(),
            depth: 0,
            intervals: 0,
            seconds: 0.0,
            total: DeviceCounts::default(),
            requests_per_s: 0.0,
            asked_per_s: 0.0,
            requests_harmonic_per_s: None,
            figures: Vec::new(),
            stood_out: 0,
            stands_out: None,
            syncing: 0,
            latency: Vec::new(),
        }
    }
}

/// How long the requests of one direction took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WatchedLatency {
    /// `reads` or `writes`.
    pub direction: String,
    /// Requests whose beginning and end were seen.
    pub count: u64,
    /// Half of them took at most that.
    pub p50_ns: u64,
    /// 99 % of them did.
    pub p99_ns: u64,
    /// 99.9 % of them did.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

fn latencies(all: &LatencySeries) -> Vec<WatchedLatency> {
    let of = |(name, all): (&String, &fathom_stats::histogram::Histogram)| {
        Some(WatchedLatency {
            direction: name.clone(),
            count: all.count(),
            p50_ns: all.quantile(0.5)?,
            p99_ns: all.quantile(0.99)?,
            p999_ns: all.quantile(0.999)?,
            max_ns: all.max()?,
        })
    };
    all.flows.iter().filter_map(of).collect()
}

/// A whole watch.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WatchSummary {
    /// Length of an interval as asked for.
    pub interval_ns: u64,
    /// Intervals.
    pub intervals: usize,
    /// How many of them are less than half as long as asked for: the last one, where something else ended it. They are in means, by
    /// their length, and in no median.
    pub short: usize,
    /// Their length together.
    pub short_seconds: f64,
    /// The length of all together.
    pub seconds: f64,
    /// Devices in the order of the tree.
    pub devices: Vec<WatchedDevice>,
    /// Reads and writes a second of all devices that stand under no other that is watched.
    pub requests_per_s: f64,
    /// The same as they were asked for, before some were merged into others: settings that merge more do the same work in fewer.
    pub asked_per_s: f64,
    /// Means of the machine's series by name, shares of 1.
    pub host: BTreeMap<String, f64>,
    /// What happened besides, with its second.
    pub events: Vec<(f64, String)>,
    /// The application.
    pub application: Option<ApplicationRecord>,
}

/// A figure's name, and what is divided by what of counts in so many seconds. Over many intervals both are summed before: a mean time
/// or size is one of requests, whatever the intervals are that they fell into.
type Of = (&'static str, fn(&DeviceCounts, f64) -> (f64, f64));

/// The figures that are followed, in the order of iostat -x.
const FIGURES: &[Of] = &[
    ("r/s", |c, s| (c.reads.requests as f64, s)),
    ("rkB/s", |c, s| (c.reads.sectors as f64 / 2.0, s)),
    ("rrqm/s", |c, s| (c.reads.merged as f64, s)),
    ("%rrqm", |c, _| (100.0 * c.reads.merged as f64, (c.reads.merged + c.reads.requests) as f64)),
    ("r_await", |c, _| (c.reads.took_ms as f64, c.reads.requests as f64)),
    ("rareq-sz", |c, _| (c.reads.sectors as f64 / 2.0, c.reads.requests as f64)),
    ("w/s", |c, s| (c.writes.requests as f64, s)),
    ("wkB/s", |c, s| (c.writes.sectors as f64 / 2.0, s)),
    ("wrqm/s", |c, s| (c.writes.merged as f64, s)),
    ("%wrqm", |c, _| {
        (100.0 * c.writes.merged as f64, (c.writes.merged + c.writes.requests) as f64)
    }),
    ("w_await", |c, _| (c.writes.took_ms as f64, c.writes.requests as f64)),
    ("wareq-sz", |c, _| (c.writes.sectors as f64 / 2.0, c.writes.requests as f64)),
    ("d/s", |c, s| (c.discards.requests as f64, s)),
    ("dkB/s", |c, s| (c.discards.sectors as f64 / 2.0, s)),
    ("drqm/s", |c, s| (c.discards.merged as f64, s)),
    ("%drqm", |c, _| {
        (100.0 * c.discards.merged as f64, (c.discards.merged + c.discards.requests) as f64)
    }),
    ("d_await", |c, _| (c.discards.took_ms as f64, c.discards.requests as f64)),
    ("dareq-sz", |c, _| (c.discards.sectors as f64 / 2.0, c.discards.requests as f64)),
    ("f/s", |c, s| (c.flushes as f64, s)),
    ("f_await", |c, _| (c.flush_ms as f64, c.flushes as f64)),
    ("aqu-sz", |c, s| (c.queued_ms as f64 / 1e3, s)),
    ("%util", |c, s| (c.busy_ms as f64 / 10.0, s)),
];

/// Whether a figure has a value also where nothing was done.
fn is_over_time((_, of): &Of) -> bool {
    of(&DeviceCounts::default(), 1.0).1 > 0.0
}

/// The pieces of a watch among records.
fn pieces(records: &[Record]) -> impl Iterator<Item = &WatchRecord> + Clone {
    records.iter().filter_map(|record| record.watch.as_deref())
}

/// Puts the pieces of a watch together.
#[must_use]
pub fn summary(records: &[Record]) -> WatchSummary {
    summed_up(records, true, usize::MAX)
}

/// The same of so many intervals at most, without the figures of devices where nobody asks for them: of days of seconds they take
/// most of the time.
fn summed_up(records: &[Record], with_figures: bool, most: usize) -> WatchSummary {
    let pieces = pieces(records);
    let mut names: Vec<&str> = Vec::new();
    for device in pieces.clone().flat_map(|piece| &piece.devices) {
        if !names.contains(&device.name.as_str()) {
            names.push(&device.name);
        }
    }
    let lengths = lengths_us(records);
    let lengths = &lengths[..lengths.len().min(most)];
    let interval_ns = pieces.clone().next().map_or(0, |piece| piece.interval_ns);
    let short: Vec<u64> = lengths.iter().copied().filter(|us| is_short(*us, interval_ns)).collect();
    let starts: Vec<u64> = pieces.clone().flat_map(|piece| piece.start_us.values()).collect();
    let first = pieces.clone().next().map_or(0, |piece| piece.first);
    let at_s = |index: u64| {
        starts.get(index.saturating_sub(first) as usize).map_or(0.0, |us| *us as f64 / 1e6)
    };
    let events = pieces.clone().flat_map(|piece| &piece.events);
    let devices =
        side_by_side(&names, |name| device(self::pieces(records), name, with_figures, most));
    let of_tops = |of: fn(&WatchedDevice) -> f64| {
        devices.iter().filter(|device| device.depth == 0).map(of).sum::<f64>()
    };
    let requests_per_s = of_tops(|device| device.requests_per_s);
    let asked_per_s = of_tops(|device| device.asked_per_s);
    WatchSummary {
        interval_ns,
        intervals: lengths.len(),
        short: short.len(),
        short_seconds: short.iter().sum::<u64>() as f64 / 1e6,
        seconds: lengths.iter().sum::<u64>() as f64 / 1e6,
        devices,
        requests_per_s,
        asked_per_s,
        host: host(pieces.clone()),
        events: events.map(|event| (at_s(event.index), event.what.clone())).collect(),
        application: pieces.clone().filter_map(|piece| piece.ended.clone()).last(),
    }
}

/// Length of each interval.
fn lengths_us(records: &[Record]) -> Vec<u64> {
    pieces(records).flat_map(|piece| piece.length_us.values()).collect()
}

/// Whether an interval is no whole one.
fn is_short(length_us: u64, interval_ns: u64) -> bool {
    length_us < interval_ns / 2000
}

/// What is made of each item, in their order, on as many processors as there are: the figures of fifty devices over days of seconds
/// are a lot.
fn side_by_side<T: Sync, R: Send>(items: &[T], make: impl Fn(&T) -> R + Sync) -> Vec<R> {
    // Each holds all values of a device while it computes: more of them would take more memory than time is worth.
    const THREADS_MAX: usize = 4;
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = threads.min(THREADS_MAX);
    let each = items.len().div_ceil(threads).max(1);
    let make = &make;
    std::thread::scope(|scope| {
        let parts = items.chunks(each);
        let part = |part: &'_ [T]| part.iter().map(make).collect::<Vec<R>>();
        let running: Vec<_> = parts.map(|items| scope.spawn(move || part(items))).collect();
        let ended = running.into_iter().map(|thread| thread.join());
        ended
            .flat_map(|made| made.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

fn device<'a>(
    pieces: impl Iterator<Item = &'a WatchRecord>,
    name: &str,
    with_figures: bool,
    most: usize,
) -> WatchedDevice {
    let mut found = WatchedDevice::named(name);
    let mut latency = LatencySeries::default();
    let mut columns: Vec<Column> = FIGURES.iter().map(|of| Column::new(is_over_time(of))).collect();
    let mut requests = Column::new(true);
    // Of most devices most seconds are like this; times of requests have no value then.
    let idle = |columns: &mut [Column], requests: &mut Column, (us, interval_ns): (&[u64], u64)| {
        let mut idle = Idle::default();
        us.iter().for_each(|us| idle.add(*us as f64 / 1e6, is_short(*us, interval_ns)));
        let rates = columns.iter_mut().zip(FIGURES).filter(|(_, of)| is_over_time(of));
        rates.for_each(|(column, _)| column.push_zeros(idle));
        requests.push_zeros(idle);
    };
    let mut before = 0;
    for piece in pieces {
        let lengths = piece.length_us.values();
        let left = most.saturating_sub(before);
        before += piece.intervals();
        for series in piece.devices.iter().filter(|series| series.name == name) {
            (found.title, found.depth) = (series.title.clone(), series.depth);
            let taken = left.saturating_sub(series.from as usize).min(series.intervals as usize);
            found.intervals += taken;
            found.stood_out += series.stood_out;
            found.stands_out = series.stands_out.clone().or(found.stands_out.take());
            let syncing = series.counters.values("sync_action", series.intervals as usize);
            // What is merged cannot be cut: a part of a watch has none.
            if let Some(own) = series.latency.as_ref().filter(|_| most == usize::MAX) {
                latency.plus(own);
            }
            found.syncing += syncing.iter().filter(|value| **value > 0).count();
            if !with_figures {
                continue;
            }
            let own = &lengths[lengths.len().min(series.from as usize)..];
            // A damaged record may have more counts than intervals.
            let taken = taken.min(own.len());
            found.seconds += own[..taken].iter().sum::<u64>() as f64 / 1e6;
            let mut passed = 0;
            for (at, counts) in series.active().iter().take_while(|(at, _)| *at < taken) {
                idle(&mut columns, &mut requests, (&own[passed..*at], piece.interval_ns));
                passed = at + 1;
                found.total = found.total.plus(counts);
                let us = own[*at];
                let (seconds, is_short) = (us as f64 / 1e6, is_short(us, piece.interval_ns));
                let both = counts.reads.requests + counts.writes.requests;
                requests.push((both as f64, seconds), is_short);
                for (column, (_, of)) in columns.iter_mut().zip(FIGURES) {
                    column.push(of(counts, seconds), is_short);
                }
            }
            if taken > passed {
                found.total.in_flight = 0;
                idle(&mut columns, &mut requests, (&own[passed..taken], piece.interval_ns));
            }
        }
    }
    let figures = FIGURES.iter().zip(columns).filter_map(|((name, _), of)| of.figure(name));
    found.figures = figures.collect();
    if found.seconds > 0.0 {
        let (reads, writes) = (found.total.reads, found.total.writes);
        let all = reads.requests + writes.requests;
        found.requests_per_s = all as f64 / found.seconds;
        found.asked_per_s = (all + reads.merged + writes.merged) as f64 / found.seconds;
    }
    found.requests_harmonic_per_s = requests.harmonic_mean();
    found.latency = latencies(&latency);
    found
}

/// Confidence of intervals.
pub const LEVEL: f64 = 0.95;

/// Means of the machine's series by time.
fn host<'a>(pieces: impl Iterator<Item = &'a WatchRecord>) -> BTreeMap<String, f64> {
    let (mut sums, mut all_us) = (BTreeMap::<String, f64>::new(), 0u64);
    for piece in pieces {
        let lengths = piece.length_us.values();
        all_us += lengths.iter().sum::<u64>();
        for (name, series) in &piece.host.series {
            let values = series.values();
            let each = values.iter().zip(&lengths).map(|(value, us)| *value as f64 * *us as f64);
            *sums.entry(name.clone()).or_default() += each.sum::<f64>();
        }
    }
    let is_share = |name: &str| {
        !matches!(name, "dirty" | "writeback" | "available" | "interrupts" | "context_switches")
    };
    let mean = |(name, sum): (String, f64)| {
        let mean = sum / all_us.max(1) as f64;
        let mean = if is_share(&name) { mean / 1e6 } else { mean };
        (name, mean)
    };
    sums.into_iter().map(mean).collect()
}

/// How much of a watch a device has to stand out, to be named.
const STANDS_OUT_SHARE: f64 = 0.2;

/// Judges a watch. What was seen is a fact: only what makes its figures incomplete speaks against them.
#[must_use]
pub fn judge(records: &[Record]) -> Study {
    let summary = summed_up(records, false, usize::MAX);
    let mut findings = Vec::new();
    for device in &summary.devices {
        let share = f64::from(device.stood_out) / device.intervals.max(1) as f64;
        if device.stood_out >= 2 && share >= STANDS_OUT_SHARE {
            let reason = device.stands_out.clone().unwrap_or_default();
            let text = format!(
                "{} was slower than its companions in {} of {} intervals ({reason} when it was last)",
                device.name, device.stood_out, device.intervals
            );
            let next = format!("fathom layers /dev/{}   reads each device alone", device.name);
            findings.push(
                Finding::new("slow-member", Severity::Note, text)
                    .advise("An array is as slow as its slowest member.")
                    .advise(next),
            );
        }
        if device.syncing > 0 {
            let text = format!(
                "{} synchronised in {} of {} intervals: part of its members' I/O is that",
                device.name, device.syncing, device.intervals
            );
            findings.push(Finding::new("array-synchronised", Severity::Note, text));
        }
    }
    findings.extend(late(records));
    findings.extend(lost(records, &summary.devices));
    let storage = Storage::of(records);
    findings.extend(storage.uncounted(&summary.devices));
    if let Some(application) = &summary.application {
        let gone = gone(records, application);
        let pieces: Vec<&WatchRecord> = pieces(records).collect();
        let (storage, pieces) = (&storage, pieces.as_slice());
        let seen = waits::Seen { application, storage, pieces, is_trial: false };
        findings.extend(application::findings(&seen, &gone));
    }
    findings.order_by_key(|finding| std::cmp::Reverse(finding.severity));
    let verdict = Verdict::of(&findings);
    Study { findings, verdict }
}

/// What the command of a trial waited for; none of loads of fathom's own.
pub(crate) fn waits_of(record: &Record) -> Option<Finding> {
    waits::of_command(record)
}

/// Devices that an application was watched on and that went meanwhile. One that has no series went before it could have any.
fn gone<'a>(records: &'a [Record], application: &ApplicationRecord) -> Vec<&'a str> {
    let events = pieces(records).flat_map(|piece| &piece.events);
    let has_series = |name: &str| {
        pieces(records).any(|piece| piece.devices.iter().any(|device| device.name == name))
    };
    let mut found: Vec<&str> = Vec::new();
    for name in events.filter_map(WatchEvent::gone) {
        let is_its = application.devices.contains_key(name) || !has_series(name);
        if is_its && !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

/// Events of which the times of requests would have been told.
fn lost(records: &[Record], devices: &[WatchedDevice]) -> Option<Finding> {
    let lost: u64 = pieces(records).map(|piece| piece.latency_lost).sum();
    let told: u64 = devices.iter().flat_map(|device| &device.latency).map(|of| of.count).sum();
    // Each has a beginning and an end. What is lost may be another device's.
    let share = lost as f64 / (lost + 2 * told) as f64;
    let severity = if share > 0.01 { Severity::Doubtful } else { Severity::Note };
    let text = format!(
        "{} events of requests, of whichever device, were lost ({:.1} %): the percentiles and the longest are those of the rest, of {} requests",
        format_count(lost),
        100.0 * share,
        format_count(told)
    );
    (lost > 0).then(|| {
        Finding::new("watch-lost-events", severity, text)
            .advise("the kernel's rings were full, or it wrote some down nowhere; fathom capture DEVICE follows one device, and counts what is lost of it")
    })
}

/// Intervals that took more than twice as long as asked for.
fn late(records: &[Record]) -> Option<Finding> {
    let late = |piece: &WatchRecord| {
        let is_late = |us: &&u64| **us > 2 * piece.interval_ns / 1000;
        piece.length_us.values().iter().filter(is_late).count()
    };
    let count: usize = pieces(records).map(late).sum();
    let plural = if count == 1 { "interval was" } else { "intervals were" };
    let text = format!(
        "{count} {plural} more than twice as long as asked for: the machine slept, or had no processor for fathom"
    );
    (count > 0).then(|| Finding::new("late-intervals", Severity::Note, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::record;
    use fathom_model::watch::{DeviceSample, DeviceSeries, FlowCounts, Sample};

    /// Records of a watch in which a device did so many reads a second, split into two pieces.
    pub(super) fn watch(reads: &[u64]) -> Vec<Record> {
        let mut pieces = [WatchRecord::new(1_000_000_000, 0), WatchRecord::new(1_000_000_000, 3)];
        for (index, requests) in reads.iter().enumerate() {
            let flow = FlowCounts {
                requests: *requests,
                sectors: 8 * requests,
                took_ms: 2 * requests,
                merged: 3 * requests,
            };
            let counts = DeviceCounts { reads: flow, busy_ms: 500, ..DeviceCounts::default() };
            let device = DeviceSample {
                name: "sda".into(),
                title: "disk".into(),
                depth: 0,
                counts,
                rates: counts.rates(1_000_000_000),
                stands_out: (*requests > 100).then(|| "r_await 30 ms".to_owned()),
                array: None,
                interrupts: Vec::new(),
                latency: None,
            };
            let sample = Sample {
                index: index as u64,
                start_ns: index as u64 * 1_000_000_000,
                length_ns: if index == 5 { 2_500_000_000 } else { 1_000_000_000 },
                devices: vec![device],
                came: if index == 4 { vec!["sdb".to_owned()] } else { Vec::new() },
                ..Sample::default()
            };
            pieces[usize::from(index >= 3)].push(&sample);
        }
        pieces
            .into_iter()
            .map(|piece| Record { watch: Some(Box::new(piece)), ..record() })
            .collect()
    }

    #[test]
    fn pieces_are_one_watch() {
        let found = summary(&watch(&[10, 20, 30, 40, 50]));
        assert_eq!((found.intervals, found.seconds), (5, 5.0));
        let device = &found.devices[0];
        assert_eq!((device.intervals, device.total.reads.requests), (5, 150));
        let of = |name: &str| device.figures.iter().find(|figure| figure.name == name);
        let reads = of("r/s").expect("read");
        assert_eq!((reads.median, reads.mean, reads.max), (30.0, 30.0, 50.0));
        assert_eq!((of("r_await").expect("read").median, of("w/s")), (2.0, None));
        // By the length of each interval, whatever the device did in it.
        let all: u64 = device.total.reads.requests;
        assert_eq!(device.requests_per_s, all as f64 / device.seconds);
        let mut two = watch(&[10, 20, 30]);
        let piece = two[0].watch.as_mut().expect("a piece");
        for (name, depth) in [("sdb", 0), ("sdc", 1)] {
            piece.devices.push(DeviceSeries {
                name: name.into(),
                depth,
                ..piece.devices[0].clone()
            });
        }
        assert_eq!(summary(&two).requests_per_s, 40.0, "what lies below another counts once");
        // A scheduler that merges does the same work in fewer requests.
        assert_eq!(summary(&two).asked_per_s, 160.0);
        assert_eq!(found.events, [(4.0, "sdb came".to_owned())]);
    }

    /// A second of nothing and 0.16 s of work, as a command leaves them behind.
    #[test]
    fn a_short_last_interval_counts_by_its_length() {
        let mut records = watch(&[0, 600]);
        let piece = records[0].watch.as_mut().expect("a piece");
        piece.length_us = [1_000_000, 160_000].into_iter().collect();
        piece.host.series.insert("iowait".to_owned(), [0, 500_000].into_iter().collect());
        let found = summary(&records);
        assert_eq!((found.intervals, found.short, found.short_seconds), (2, 1, 0.16));
        let figure = |name: &str| found.devices[0].figures.iter().find(|f| f.name == name).unwrap();
        let reads = figure("r/s");
        assert_eq!((reads.intervals, reads.median, reads.max), (1, 0.0, 3750.0));
        assert!((reads.mean - 600.0 / 1.16).abs() < 1e-9, "{reads:?}");
        // Requests had times in the short one only.
        assert_eq!((figure("r_await").intervals, figure("r_await").median), (1, 2.0));
        assert!((found.host["iowait"] - 0.5 * 0.16 / 1.16).abs() < 1e-9, "{:?}", found.host);
    }

    #[test]
    fn a_device_that_went_beside_an_application_is_doubtful() {
        let mut records = watch(&[10, 10, 10]);
        let judged = |records: &[Record], what: &str| {
            let mut records = records.to_vec();
            let piece = records[0].watch.as_mut().expect("a piece");
            let devices = [("sda".to_owned(), DeviceCounts::default())].into();
            let took_ns = 3_000_000_000;
            piece.ended = Some(ApplicationRecord {
                exit_status: Some(0),
                took_ns,
                devices,
                ..ApplicationRecord::default()
            });
            piece.events.push(WatchEvent { index: 1, what: what.to_owned() });
            judge(&records)
        };
        let ids = |study: &Study| study.findings.iter().map(|f| f.id.clone()).collect::<Vec<_>>();
        for what in ["sda went", "sda was replaced", "sdx went"] {
            let study = judged(&records, what);
            assert_eq!(
                (ids(&study), study.verdict),
                (vec!["device-went".to_owned()], Verdict::Doubtful),
                "{what}"
            );
            assert!(study.findings[0].summary.starts_with(&what[..3]), "{:?}", study.findings);
        }
        assert_eq!(ids(&judged(&records, "sda came")), ["hardly-any-io"]);
        // A disk below it, which the array on it does without, is told among the events.
        records[0].watch.as_mut().expect("a piece").devices[0].name = "sdb".to_owned();
        assert_eq!(ids(&judged(&records, "sdb went")), ["hardly-any-io"]);
    }

    #[test]
    fn what_stood_out_and_what_was_late_is_said() {
        let study = judge(&watch(&[200, 200, 10, 10, 10, 10]));
        let ids: Vec<&str> = study.findings.iter().map(|finding| finding.id.as_str()).collect();
        assert_eq!((ids, study.verdict), (vec!["slow-member", "late-intervals"], Verdict::Trusted));
        assert_eq!(judge(&watch(&[10, 10, 200, 10])).findings, []);
    }

    #[test]
    fn events_that_were_lost_are_told_with_what_is_left() {
        let mut flow = fathom_stats::Histogram::new();
        flow.record_n(1_000_000, 5000);
        let told = |lost: u64| {
            let mut records = watch(&[10; 6]);
            let piece = records[0].watch.as_mut().expect("a piece");
            piece.push(&Sample { index: 9, latency_lost: Some(lost), ..Sample::default() });
            let flows = [("reads".to_owned(), flow.clone())].into();
            piece.devices[0].latency = Some(Box::new(LatencySeries { flows }));
            let found = judge(&records).findings;
            let found = found.into_iter().find(|finding| finding.id == "watch-lost-events");
            found.map(|finding| (finding.severity, finding.summary))
        };
        assert_eq!(told(0), None);
        let (severity, text) = told(78).expect("told");
        assert!(severity == Severity::Note && text.starts_with("78 events of requests"), "{text}");
        assert!(text.ends_with("of 5 000 requests"), "{text}");
        assert_eq!(told(200).expect("told").0, Severity::Doubtful);
    }
}
