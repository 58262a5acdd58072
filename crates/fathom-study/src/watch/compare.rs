//! Two watches side by side, over the same length: medians and means of the same figures of the same devices.

use super::coarser::{coarser, common_ns};
use super::{
    FIGURES, LEVEL, WatchFigure, WatchedDevice, is_over_time, lengths_us, pieces, summed_up,
};
use fathom_model::record::Record;
use fathom_model::watch::FlowCounts;
use fathom_stats::interval::Interval;
use fathom_stats::series::VALUES_MIN;
use serde::Serialize;

/// The longest tick of kernels' clocks, by which they count how long a device is busy (`HZ=100`).
const TICK_S: f64 = 0.01;

/// One figure of one device in both.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WatchChange {
    /// Kernel name.
    pub device: String,
    /// The word of iostat, or the name of an application's figure.
    pub figure: String,
    /// Median of A.
    pub a: f64,
    /// Median of B.
    pub b: f64,
    /// By how much B is more, in percent; none where A is zero.
    pub change_percent: Option<f64>,
    /// Where the difference of the medians lies, in the unit of the figure; none where one of them is too short.
    pub difference: Option<Interval>,
    /// True when that lies above or below what one step of the kernel's counters makes of the figure: the two watches differ. Not
    /// that the next two would.
    pub differs: bool,
    /// Arithmetic means; none of an application's figures, which are no series.
    pub mean: Option<MeanChange>,
    /// Harmonic means, of rates that were never zero.
    pub harmonic_mean: Option<MeanChange>,
}

/// Means of a figure in both.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MeanChange {
    /// Of A.
    pub a: f64,
    /// Of B.
    pub b: f64,
    /// By how much B is more, in percent; none where A is zero.
    pub change_percent: Option<f64>,
    /// Where the difference lies, seconds that go together counted as fewer; none where one is too short, and of harmonic means.
    pub difference: Option<Interval>,
    /// True when that lies above or below what one step of the kernel's counters makes of it.
    pub differs: bool,
}

/// Two watches.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WatchComparison {
    /// Intervals of A and of B that were compared: the first ones, as many as the shorter one is long.
    pub intervals: [usize; 2],
    /// Their length together.
    pub seconds: [f64; 2],
    /// Intervals at the end that were left out.
    pub left_out: [usize; 2],
    /// Length of an interval of A and of B as asked for, where they are not the same, and the one that those of both were summed up to:
    /// medians and harmonic means depend on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summed_ns: Option<([u64; 2], u64)>,
    /// Figures of devices that both have.
    pub changes: Vec<WatchChange>,
    /// Devices that both have and that did nothing in either.
    pub idle: Vec<String>,
    /// Devices that only one has.
    pub only_in_one: Vec<OnlyInOne>,
}

/// A device that one of two watches has.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OnlyInOne {
    /// `A` or `B`.
    pub side: &'static str,
    /// Kernel name.
    pub device: String,
    /// Its reads and writes a second.
    pub requests_per_s: f64,
}

/// Compares two watches over the same length. Devices are told by name, in the tree's order of A.
#[must_use]
pub fn compare(a: &[Record], b: &[Record]) -> WatchComparison {
    let lengths = [lengths_us(a), lengths_us(b)];
    let intervals = same_length([a, b], &lengths);
    let left_out = [0, 1].map(|side| lengths[side].len() - intervals[side]);
    let summed_ns = interval_ns([a, b])
        .filter(|own| own[0] != own[1])
        .map(|own| (own, common_ns(own[0], own[1])));
    let of = |records: &[Record], side: usize| match summed_ns {
        Some((own, all)) if own[side] != all => {
            let each = usize::try_from(all / own[side].max(1)).unwrap_or(usize::MAX);
            summed_up(&coarser(records, intervals[side], each), true, usize::MAX)
        }
        _ => summed_up(records, true, intervals[side]),
    };
    let (a, b) = (of(a, 0), of(b, 1));
    let (mut changes, mut idle) = (Vec::new(), Vec::new());
    for device in &a.devices {
        let Some(other) = b.devices.iter().find(|other| other.name == device.name) else {
            continue;
        };
        // What did not happen at all has no figure: a rate is zero then, and a time is none.
        let both = FIGURES.iter().filter_map(|(name, _)| {
            let [of_a, of_b] = [device, other].map(|d| d.figures.iter().find(|f| f.name == *name));
            (of_a.is_some() || of_b.is_some()).then_some(())?;
            let of_a = of_a.cloned().or_else(|| nothing(name, device))?;
            let of_b = of_b.cloned().or_else(|| nothing(name, other))?;
            let step = step(&of_a, device).max(step(&of_b, other));
            Some((of_a, of_b, step))
        });
        let before = changes.len();
        changes.extend(both.map(|(a, b, step)| change(&device.name, &a, &b, step)));
        if changes.len() == before {
            idle.push(device.name.clone());
        }
    }
    if let Some((a, b)) = a.application.as_ref().zip(b.application.as_ref()) {
        // What it prints may well be called seconds.
        let own = [("took".to_owned(), a.took_ns as f64 / 1e9, b.took_ns as f64 / 1e9)];
        let figures = a.figures.iter().filter_map(|(name, value)| {
            b.figures.get(name).map(|other| (name.clone(), *value, *other))
        });
        changes.extend(own.into_iter().chain(figures).map(|(figure, a, b)| WatchChange {
            device: "application".to_owned(),
            figure,
            a,
            b,
            change_percent: percent(a, b),
            difference: None,
            differs: false,
            mean: None,
            harmonic_mean: None,
        }));
    }
    let only = |side, own: &[WatchedDevice], others: &[WatchedDevice]| {
        let is_only = |device: &&WatchedDevice| !others.iter().any(|d| d.name == device.name);
        let of_one = |device: &WatchedDevice| OnlyInOne {
            side,
            device: device.name.clone(),
            requests_per_s: device.requests_per_s,
        };
        own.iter().filter(is_only).map(of_one).collect::<Vec<_>>()
    };
    let mut only_in_one = only("A", &a.devices, &b.devices);
    only_in_one.extend(only("B", &b.devices, &a.devices));
    let seconds = [a.seconds, b.seconds];
    WatchComparison { intervals, seconds, left_out, summed_ns, changes, idle, only_in_one }
}

/// A figure of a device that was watched and did nothing of the kind; none of one that only requests have.
fn nothing(name: &str, device: &WatchedDevice) -> Option<WatchFigure> {
    let of = FIGURES.iter().find(|(known, _)| *known == name)?;
    (is_over_time(of) && device.intervals > 0).then_some(())?;
    let zero = Interval { low: 0.0, high: 0.0, coverage: LEVEL };
    let interval = (device.intervals >= VALUES_MIN).then_some(zero);
    Some(WatchFigure {
        name: name.to_owned(),
        intervals: device.intervals,
        median: 0.0,
        interval,
        mean: 0.0,
        mean_interval: interval,
        harmonic_mean: None,
        p95: 0.0,
        max: 0.0,
    })
}

/// How many intervals of each make up the same length: of the same kind as many, else those that begin before the shorter one ends.
fn same_length(records: [&[Record]; 2], lengths_us: &[Vec<u64>; 2]) -> [usize; 2] {
    if interval_ns(records).is_none_or(|own| own[0] == own[1]) {
        return [lengths_us[0].len().min(lengths_us[1].len()); 2];
    }
    let totals = [0, 1].map(|side| lengths_us[side].iter().sum::<u64>());
    let shorter_us = totals[0].min(totals[1]);
    [0, 1].map(|side| {
        let mut start_us = 0;
        let begins_before = |us: &&u64| {
            let is_before = start_us < shorter_us;
            start_us += **us;
            is_before
        };
        lengths_us[side].iter().take_while(begins_before).count()
    })
}

/// Length of an interval of each as asked for; none without a watch.
fn interval_ns(records: [&[Record]; 2]) -> Option<[u64; 2]> {
    let [a, b] = records.map(|records| pieces(records).next().map(|piece| piece.interval_ns));
    Some([a?, b?])
}

fn percent(a: f64, b: f64) -> Option<f64> {
    (a != 0.0).then(|| 100.0 * (b - a) / a)
}

/// The interval of a difference: both reaches at right angles, as errors of two independent watches add up.
fn difference(a: (f64, Option<Interval>), b: (f64, Option<Interval>)) -> Option<Interval> {
    let ((a, of_a), (b, of_b)) = (a, b);
    let (of_a, of_b) = of_a.zip(of_b)?;
    let middle = b - a;
    let down = (b - of_b.low).hypot(of_a.high - a);
    let up = (of_b.high - b).hypot(a - of_a.low);
    Some(Interval { low: middle - down, high: middle + up, coverage: LEVEL })
}

/// What one step of the kernel's counters makes of a figure in an interval: a request, a millisecond of the time that requests took
/// (`Documentation/admin-guide/iostats.rst`), a tick in which the device was busy. Where the steps fall among the intervals is the same
/// chance for many intervals of a watch, which no number of them evens out.
fn step(figure: &WatchFigure, device: &WatchedDevice) -> f64 {
    let seconds = device.seconds / device.intervals.max(1) as f64;
    let total = &device.total;
    let (flow, rest) = match figure.name.trim_start_matches('%').split_at(1) {
        ("r", rest) => (&total.reads, rest),
        ("w", rest) => (&total.writes, rest),
        ("d", rest) => (&total.discards, rest),
        _ => (&FlowCounts::default(), figure.name.as_str()),
    };
    let each = |requests: u64| requests as f64 / figure.intervals.max(1) as f64;
    let request_kib = flow.sectors as f64 / 2.0 / flow.requests.max(1) as f64;
    match rest {
        "_await" => 1.0 / each(flow.requests),
        "f_await" => 1.0 / each(total.flushes),
        "kB/s" => request_kib / seconds,
        "areq-sz" => request_kib / each(flow.requests),
        // Beside the share; merges a second, by their `/s`, are requests.
        "rqm" => 100.0 / each(flow.requests + flow.merged),
        "aqu-sz" => 1e-3 / seconds,
        "%util" => 100.0 * TICK_S / seconds,
        // r/s, w/s, d/s, f/s, and what was merged.
        _ => 1.0 / seconds,
    }
}

fn is_beyond(difference: Option<Interval>, step: f64) -> bool {
    difference.is_some_and(|of| of.low > step || of.high < -step)
}

fn change(device: &str, a: &WatchFigure, b: &WatchFigure, step: f64) -> WatchChange {
    let of_medians = difference((a.median, a.interval), (b.median, b.interval));
    let of_means = difference((a.mean, a.mean_interval), (b.mean, b.mean_interval));
    let is_rate = a.name.ends_with("/s");
    let harmonic = a.harmonic_mean.zip(b.harmonic_mean).filter(|_| is_rate);
    // What a step takes from one interval it gives to the next.
    let step_of_mean = step / a.intervals.min(b.intervals).max(1) as f64;
    let means = |a: f64, b: f64, difference| {
        let differs = is_beyond(difference, step_of_mean);
        MeanChange { a, b, change_percent: percent(a, b), difference, differs }
    };
    WatchChange {
        device: device.to_owned(),
        figure: a.name.clone(),
        a: a.median,
        b: b.median,
        change_percent: percent(a.median, b.median),
        differs: is_beyond(of_medians, step),
        difference: of_medians,
        mean: Some(means(a.mean, b.mean, of_means)),
        harmonic_mean: harmonic.map(|(a, b)| means(a, b, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::record;
    use crate::watch::summary;
    use crate::watch::tests::watch;
    use fathom_model::watch::{
        ApplicationRecord, DeviceCounts, DeviceSample, FlowCounts, Sample, WatchRecord,
    };
    use std::ops::Range;

    fn sample(index: u64, length_ns: u64, counts: DeviceCounts) -> Sample {
        let device = DeviceSample {
            name: "sda".into(),
            title: String::new(),
            depth: 0,
            counts,
            rates: counts.rates(length_ns),
            stands_out: None,
            array: None,
            interrupts: Vec::new(),
            latency: None,
        };
        let (start_ns, devices) = (index * length_ns, vec![device]);
        Sample { index, start_ns, length_ns, devices, ..Sample::default() }
    }

    fn reads(a: &[u64], b: &[u64]) -> WatchChange {
        let found = compare(&watch(a), &watch(b));
        found.changes.into_iter().find(|change| change.figure == "r/s").expect("both read")
    }

    #[test]
    fn a_difference_is_one_when_it_is_more_than_the_noise() {
        let of = |base: u64| (0..60).map(|x| base + x * 37 % 11).collect::<Vec<u64>>();
        let more = reads(&of(50), &of(70));
        assert!(more.differs && (more.a, more.b) == (55.0, 75.0), "{more:?}");
        assert!((more.change_percent.expect("a number") - 36.4).abs() < 0.1);
        assert!(more.mean.expect("a mean").differs);
        let same = reads(&of(50), &of(50));
        assert!(!same.differs && !same.mean.expect("a mean").differs);
    }

    /// A device that does the same all the time, watched from any moment on by intervals that are late by a little, one watch by a
    /// little more than the other: 400 reads a second of 39 us, and a tick of 4 ms in each quarter of a second that finds it busy.
    #[test]
    fn what_a_step_of_the_counters_makes_is_no_difference() {
        let counted = |us: u64| {
            let reads = us / 2500;
            (reads, reads * 39 / 1000, us / 250_000 * 4)
        };
        let watched = |from_us: u64, late_us: u64| -> Vec<Record> {
            let mut piece = WatchRecord::new(250_000_000, 0);
            let mut before_us = from_us;
            for index in 0..24 {
                let length_us = 250_000 + late_us + index * 37 % 20;
                let (before, after) = (counted(before_us), counted(before_us + length_us));
                let (requests, took_ms) = (after.0 - before.0, after.1 - before.1);
                let reads = FlowCounts { requests, took_ms, sectors: 8 * requests, merged: 0 };
                let (queued_ms, busy_ms) = (took_ms, after.2 - before.2);
                let counts = DeviceCounts { reads, queued_ms, busy_ms, ..DeviceCounts::default() };
                piece.push(&sample(index, length_us * 1000, counts));
                before_us += length_us;
            }
            vec![Record { watch: Some(Box::new(piece)), ..record() }]
        };
        let mut told_apart = 0;
        for (a, b) in (0..8).flat_map(|a| (0..8).map(move |b| (a, b))) {
            let changes =
                compare(&watched(a * 33_331, a * 11), &watched(b * 70_007, b * 13)).changes;
            for change in changes {
                assert!(!change.differs, "{a} {b}: {change:?}");
                assert!(!change.mean.expect("a mean").differs, "{a} {b}: {change:?}");
                told_apart += u64::from(is_beyond(change.difference, 0.0));
            }
        }
        assert!(told_apart > 20, "{told_apart} without a thought of steps");
    }

    #[test]
    fn means_are_those_of_the_intervals_that_both_have() {
        // The sixth interval takes two and a half seconds.
        let (long, short) = ([10, 20, 40, 40, 40, 100, 999, 999], [20, 40, 80, 80, 80, 200]);
        let found = compare(&watch(&long), &watch(&short));
        assert_eq!((found.intervals, found.left_out), ([6, 6], [2, 0]));
        assert_eq!(found.seconds, [7.5, 7.5]);
        let change = found.changes.iter().find(|change| change.figure == "r/s").expect("reads");
        let mean = change.mean.expect("a mean");
        assert!((mean.a - 250.0 / 7.5).abs() < 1e-9 && (mean.b - 2.0 * mean.a).abs() < 1e-9);
        // 1/10 + 1/20 + 4/40: a slow second counts for as much as its work takes.
        let harmonic = change.harmonic_mean.expect("never zero");
        assert!((harmonic.a - 24.0).abs() < 1e-9 && (harmonic.b - 48.0).abs() < 1e-9);
        assert!((harmonic.change_percent.expect("not zero") - 100.0).abs() < 1e-9);
        let with_a_gap = reads(&[10, 0, 10], &[10, 10, 10]);
        assert_eq!(with_a_gap.harmonic_mean, None);
    }

    #[test]
    fn seconds_that_go_together_count_as_fewer() {
        // Ten seconds at one level, ten at the other: the same values as when they take turns.
        let steps = |base: u64| (0..60).map(|x| base + 40 * (x / 10 % 2)).collect::<Vec<u64>>();
        let turns = |base: u64| (0..60).map(|x| base + 40 * ((x + 1) % 2)).collect::<Vec<u64>>();
        let mean = |change: WatchChange| change.mean.expect("a mean");
        let (together, apart) =
            (mean(reads(&steps(50), &steps(65))), mean(reads(&turns(50), &turns(65))));
        assert!((together.a - apart.a).abs() < 1e-9 && (together.b - apart.b).abs() < 1e-9);
        assert!(apart.differs && !together.differs, "{apart:?} {together:?}");
    }

    /// A disk that slept in A and works in B, and the other way round.
    #[test]
    fn what_did_nothing_in_one_of_them_is_compared() {
        let (idle, busy) = ([0; 20], (0..20).map(|x| 50 + x % 7).collect::<Vec<u64>>());
        let more = reads(&idle, &busy);
        assert!(more.differs && more.mean.expect("a mean").differs, "{more:?}");
        assert_eq!((more.a, more.b, more.change_percent), (0.0, 52.5, None));
        let less = reads(&busy, &idle);
        assert_eq!((less.a, less.b, less.change_percent), (52.5, 0.0, Some(-100.0)));
        // Requests that were not there took no time.
        let all = compare(&watch(&idle), &watch(&busy)).changes;
        assert!(!all.iter().any(|change| change.figure == "r_await"), "{all:?}");
        assert!(!all.iter().any(|change| change.figure == "w/s"), "{all:?}");
        let mut asleep = watch(&idle);
        for record in &mut asleep {
            let piece = record.watch.as_mut().expect("a piece");
            piece.devices.iter_mut().for_each(|device| device.counters.series.clear());
        }
        let both = compare(&asleep, &asleep);
        assert_eq!((both.changes.len(), both.idle), (0, vec!["sda".to_owned()]));
        // Three seconds of it decide nothing.
        assert!(!reads(&[0; 3], &busy[..3]).differs);
    }

    #[test]
    fn how_long_it_took_is_no_figure_that_it_prints() {
        let mut run = watch(&[10; 6]);
        let figures = [("seconds".to_owned(), 0.5)].into();
        let ended = ApplicationRecord { took_ns: 2_000_000_000, figures, ..Default::default() };
        let last = run.last_mut().and_then(|record| record.watch.as_mut()).expect("a piece");
        last.ended = Some(ended);
        let changes = compare(&run, &run).changes;
        let own = changes.iter().filter(|change| change.device == "application");
        let own: Vec<_> = own.map(|change| (change.figure.as_str(), change.a)).collect();
        assert_eq!(own, [("took", 2.0), ("seconds", 0.5)]);
    }

    #[test]
    fn intervals_of_another_length_are_compared_over_the_same_time() {
        let seconds = watch(&[5; 4]);
        let mut halves = watch(&[5; 20]);
        for record in &mut halves {
            let piece = record.watch.as_mut().expect("a watch");
            piece.interval_ns = 500_000_000;
            piece.length_us = piece.length_us.values().iter().map(|us| us / 2).collect();
        }
        let found = compare(&seconds, &halves);
        // 0.5 s each, and 1.25 s the sixth: four seconds end in the seventh.
        assert_eq!((found.intervals, found.left_out), ([4, 7], [0, 13]));
    }

    /// A hundred reads in the first tenth of each second, and nothing in the others: by tenths the median is zero, by seconds it is
    /// a hundred, and both are the same load.
    #[test]
    fn the_same_seconds_by_other_intervals_are_the_same() {
        let burst = FlowCounts { requests: 100, took_ms: 10, sectors: 800, merged: 0 };
        let watched = |length_ns: u64, count: u64, pieces: u64| -> Vec<Record> {
            let each = count / pieces;
            let piece = |at: u64| {
                let mut piece = WatchRecord::new(length_ns, at * each);
                for index in at * each..(at + 1) * each {
                    let has_burst = (index * length_ns).is_multiple_of(1_000_000_000);
                    let reads = if has_burst { burst } else { FlowCounts::default() };
                    let counts = DeviceCounts { reads, ..DeviceCounts::default() };
                    piece.push(&sample(index, length_ns, counts));
                }
                Record { watch: Some(Box::new(piece)), ..record() }
            };
            (0..pieces).map(piece).collect()
        };
        let (tenths, seconds) = (watched(100_000_000, 165, 11), watched(1_000_000_000, 16, 1));
        let found = compare(&tenths, &seconds);
        assert_eq!((found.intervals, found.left_out), ([160, 16], [5, 0]));
        assert_eq!(found.summed_ns, Some(([100_000_000, 1_000_000_000], 1_000_000_000)));
        let change = found.changes.iter().find(|change| change.figure == "r/s").expect("reads");
        assert_eq!((change.a, change.b, change.differs), (100.0, 100.0, false));
        assert_eq!(change.harmonic_mean.map(|mean| (mean.a, mean.b)), Some((100.0, 100.0)));
        assert!(!found.changes.iter().any(|change| change.differs), "{:?}", found.changes);
        // Where neither is a multiple of the other, both are summed up.
        let found = compare(&watched(200_000_000, 80, 2), &watched(500_000_000, 32, 2));
        assert_eq!(found.summed_ns.map(|(_, all)| all), Some(1_000_000_000));
        assert_eq!(compare(&tenths, &tenths).summed_ns, None);
        // A device that is there for a part of it has no interval in which it was half there.
        let mut late = tenths;
        late[0].watch.as_mut().expect("a piece").devices.clear();
        let found = compare(&late, &seconds);
        let change = found.changes.iter().find(|change| change.figure == "r/s").expect("reads");
        assert_eq!((change.a, change.b), (100.0, 100.0));
    }

    #[test]
    fn short_watches_have_no_intervals_and_devices_may_be_missing() {
        let short = watch(&[10, 12, 11]);
        let found = compare(&short, &[]);
        assert_eq!((found.changes.len(), found.only_in_one.len()), (0, 1));
        let mut other = short.clone();
        other[0].watch.as_mut().expect("a piece").devices[0].name = "sdb".to_owned();
        let only = |side, device: &str| {
            let device = device.to_owned();
            OnlyInOne { side, device, requests_per_s: 11.0 }
        };
        let found = compare(&short, &other);
        assert_eq!(
            (found.changes.len(), found.only_in_one),
            (0, vec![only("A", "sda"), only("B", "sdb")])
        );
        let found = compare(&short, &short);
        assert!(found.changes.iter().all(|change| change.difference.is_none() && !change.differs));
    }

    /// Some of the published seconds of a database that rewrote a table, as a watch. Each is taken for a hundred, so that rates with
    /// two digits are whole counts.
    fn published(lines: Range<usize>) -> Vec<Record> {
        const TABLE: &str = include_str!("../../tests/reference/iostat_mysql_optimize.csv");
        const LENGTH_NS: u64 = 100_000_000_000;
        let mut piece = WatchRecord::new(LENGTH_NS, 0);
        for (index, line) in TABLE.lines().skip(1).skip(lines.start).take(lines.len()).enumerate() {
            let columns: Vec<f64> =
                line.split(',').map(|word| word.parse().expect("a number")).collect();
            let hundreds = |column: usize| (100.0 * columns[column]).round() as u64;
            let flow = |column| FlowCounts { requests: hundreds(column), ..FlowCounts::default() };
            let counts = DeviceCounts {
                reads: flow(2),
                writes: flow(3),
                queued_ms: 1000 * hundreds(7),
                busy_ms: 10 * hundreds(10),
                ..DeviceCounts::default()
            };
            piece.push(&sample(index as u64, LENGTH_NS, counts));
        }
        vec![Record { watch: Some(Box::new(piece)), ..record() }]
    }

    #[track_caller]
    fn is_near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-6, "{value} and not {expected}");
    }

    /// Expected figures were computed by a program that shares nothing with this one. Neighbouring seconds lean to opposite sides, so
    /// that each counts as a value of its own.
    #[test]
    fn the_published_seconds_of_a_database_come_to_what_they_do() {
        let whole = summary(&published(0..24));
        for (name, mean, reach, harmonic) in [
            ("r/s", 66.92, 10.741_533_132, Some(48.206_444_859)),
            ("w/s", 96.664_166_667, 10.582_980_813, Some(91.312_714_269)),
            ("aqu-sz", 1.969_583_333, 0.268_051_980, None),
            ("%util", 92.304_583_333, 1.930_966_449, None),
        ] {
            let figure = whole.devices[0].figures.iter().find(|figure| figure.name == name);
            let figure = figure.expect(name);
            let interval = figure.mean_interval.expect("long enough");
            is_near(figure.mean, mean);
            is_near(interval.high - mean, reach);
            is_near(mean - interval.low, reach);
            if let Some(harmonic) = harmonic {
                is_near(figure.harmonic_mean.expect("never zero"), harmonic);
            }
        }
        // The first half against the second one, over the same length: one load, and no difference that is one.
        let found = compare(&published(0..24), &published(12..24));
        assert_eq!((found.intervals, found.left_out), ([12, 12], [12, 0]));
        for (name, [a, b], reach, harmonic) in [
            ("r/s", [70.16, 63.68], 23.172_345_626, Some([60.548_920_539, 40.043_795_985])),
            ("%util", [93.19, 91.419_166_667], 4.118_323_413, None),
        ] {
            let change = found.changes.iter().find(|change| change.figure == name).expect(name);
            let (mean, all) = (change.mean.expect("a mean"), change.harmonic_mean);
            is_near(mean.a, a);
            is_near(mean.b, b);
            is_near(mean.difference.expect("long enough").high, b - a + reach);
            assert!(!mean.differs && !change.differs, "{change:?}");
            if let Some([a, b]) = harmonic {
                let all = all.expect("never zero");
                is_near(all.a, a);
                is_near(all.b, b);
            }
        }
    }
}
