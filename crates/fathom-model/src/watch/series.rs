//! The stored series of a watch: one record holds a bounded piece of it, counter by counter.

use super::{
    ApplicationRecord, DeviceCounts, DeviceRates, DeviceSample, LatencySeries, Packed, Sample,
};
use crate::stack::StackAround;
use fathom_base::order::Order;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A piece of a watch. A long watch has several, each in a record of its own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchRecord {
    /// Length of an interval as asked for.
    pub interval_ns: u64,
    /// Index of the first interval of this piece, counted from the start of the watch.
    pub first: u64,
    /// Start of each interval, microseconds from the start of the watch.
    pub start_us: Packed,
    /// Length of each, microseconds.
    pub length_us: Packed,
    /// Devices in the order of the tree; one that came back is there again.
    pub devices: Vec<DeviceSeries>,
    /// The machine: `user`, `system`, `iowait`, `steal` in millionths of the time of all processors, `dirty`, `writeback` and
    /// `available` in KiB, `io_some`, `io_full`, `memory_some`, `memory_full`, `cpu_some` in millionths of the time,
    /// `interrupts` and `context_switches` a second. Shares of pressure are there when the kernel tells them.
    pub host: NamedSeries,
    /// The application: `processes`, `cpu` in millionths of a processor, `resident` in KiB, `asked_read`, `asked_write`,
    /// `read`, `written` in bytes.
    #[serde(default, skip_serializing_if = "NamedSeries::is_empty")]
    pub application: NamedSeries,
    /// What happened besides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<WatchEvent>,
    /// Events of block tracepoints that were lost, where latencies are told.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub latency_lost: u64,
    /// What was watched stands on this: before in the first piece, before and after in the last; empty in trials whose targets have
    /// their own, and in records of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<StackAround>,
    /// The application as a whole: in the last piece.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<ApplicationRecord>,
}

pub(super) fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Something that happened in an interval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchEvent {
    /// Index of the interval, from the start of the watch.
    pub index: u64,
    /// What, for people.
    pub what: String,
}

/// The word for a device in whose place another one of its name is.
const REPLACED: &str = "was replaced";

impl WatchEvent {
    /// The device that is not there any more, where this says so.
    #[must_use]
    pub fn gone(&self) -> Option<&str> {
        ["went", REPLACED].iter().find_map(|word| self.what.strip_suffix(word)?.strip_suffix(' '))
    }
}

/// Series by name. One that is not there is zero all the time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NamedSeries {
    /// By name.
    pub series: BTreeMap<String, Packed>,
}

/// Values of a series and the intervals they belong to.
#[derive(Debug, Clone, PartialEq)]
pub struct Series<T> {
    /// Index of the first interval, counted in its piece.
    pub from: usize,
    /// One value for each interval from there on.
    pub values: Vec<T>,
}

/// The series of one device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceSeries {
    /// Kernel name.
    pub name: String,
    /// What it is, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// How deep it stands in the tree of layers.
    pub depth: usize,
    /// The first interval that it has figures for, counted in this piece.
    #[serde(default)]
    pub from: u32,
    /// How many intervals it has figures for.
    pub intervals: u32,
    /// In how many of them it stood out from its companions.
    #[serde(default)]
    pub stood_out: u32,
    /// Why, when it did last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands_out: Option<String>,
    /// Its counters by name, see [`DeviceSeries::counts`]. Of arrays: `sync_action` is 1 while it synchronises, `sync_done`
    /// millionths of that, `sync_speed` in KiB a second, `degraded` members that are missing, `thread_cpu` millionths of a
    /// processor. Where latencies were told, `reads_p50_ns`, `reads_p99_ns`, `reads_max_ns`, and the same of `writes`.
    pub counters: NamedSeries,
    /// Interrupts of its queues, each by the name of its line. Those of an adapter with several disks are with the first of these.
    #[serde(default, skip_serializing_if = "NamedSeries::is_empty")]
    pub interrupts: NamedSeries,
    /// How long its requests took, all intervals together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Box<LatencySeries>>,
}

impl NamedSeries {
    /// Adds a value to a series; `before` is how many intervals there were already.
    pub fn push(&mut self, name: &str, before: usize, value: u64) {
        if let Some(series) = self.series.get_mut(name) {
            series.push(value);
        } else if value != 0 {
            let mut series: Packed = (0..before).map(|_| 0).collect();
            series.push(value);
            self.series.insert(name.to_owned(), series);
        }
    }

    /// The same for a series that is there also when it is zero: one that is not known is none.
    pub fn push_known(&mut self, name: &str, before: usize, value: Option<u64>) {
        if let Some(series) = self.series.get_mut(name) {
            series.push(value.unwrap_or(0));
        } else if let Some(value) = value {
            let series = (0..before).map(|_| 0).chain([value]).collect();
            self.series.insert(name.to_owned(), series);
        }
    }

    /// Makes all series so long, with zeros.
    fn fill(&mut self, length: usize) {
        for series in self.series.values_mut() {
            (series.len()..length).for_each(|_| series.push(0));
        }
    }

    /// The values of a series; `length` zeros when there is none.
    #[must_use]
    pub fn values(&self, name: &str, length: usize) -> Vec<u64> {
        self.series.get(name).map_or_else(|| vec![0; length], Packed::values)
    }

    /// True when all are zero all the time.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    /// Bytes in memory.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.series.values().map(Packed::size_bytes).sum()
    }
}

/// The counters of each direction by name.
const READS: [&str; 4] = ["reads", "reads_merged", "reads_sectors", "reads_ms"];
const WRITES: [&str; 4] = ["writes", "writes_merged", "writes_sectors", "writes_ms"];
const READS_NS: [&str; 3] = ["reads_p50_ns", "reads_p99_ns", "reads_max_ns"];
const WRITES_NS: [&str; 3] = ["writes_p50_ns", "writes_p99_ns", "writes_max_ns"];
const DISCARDS: [&str; 4] = ["discards", "discards_merged", "discards_sectors", "discards_ms"];

impl DeviceSeries {
    /// Adds an interval.
    pub fn push(&mut self, counts: &DeviceCounts) {
        let before = self.intervals as usize;
        let flows = [(READS, counts.reads), (WRITES, counts.writes), (DISCARDS, counts.discards)];
        for (names, flow) in flows {
            let values = [flow.requests, flow.merged, flow.sectors, flow.took_ms];
            for (name, value) in names.into_iter().zip(values) {
                self.counters.push(name, before, value);
            }
        }
        for (name, value) in [
            ("flushes", counts.flushes),
            ("flush_ms", counts.flush_ms),
            ("busy_ms", counts.busy_ms),
            ("queued_ms", counts.queued_ms),
            ("in_flight", counts.in_flight),
        ] {
            self.counters.push(name, before, value);
        }
        self.intervals += 1;
    }

    /// What an interval has besides the counters of requests. To be added before these. `lines` are the interrupts that other
    /// devices of the interval have: the disks of one adapter share them.
    fn push_more<'a>(&mut self, device: &'a DeviceSample, lines: &mut BTreeSet<&'a str>) {
        let before = self.intervals as usize;
        if let Some(array) = &device.array {
            let syncs = !matches!(array.sync_action.as_str(), "" | "idle" | "frozen");
            for (name, value) in [
                ("sync_action", u64::from(syncs)),
                ("thread_cpu", millionths(array.thread_cpu_share.unwrap_or(0.0))),
                ("sync_done", millionths(array.sync_done.unwrap_or(0.0))),
                ("sync_speed", array.sync_kib_per_s.unwrap_or(0)),
                ("degraded", u64::from(array.degraded)),
            ] {
                self.counters.push(name, before, value);
            }
        }
        for (line, count) in &device.interrupts {
            if lines.insert(line) {
                self.interrupts.push(line, before, *count);
            }
        }
        // A line that has gone is zero from then on.
        self.interrupts.fill(before + 1);
        let latency = device.latency.as_deref();
        let reads = latency.and_then(|latency| latency.reads.as_ref());
        let writes = latency.and_then(|latency| latency.writes.as_ref());
        for (names, flow) in [(READS_NS, reads), (WRITES_NS, writes)] {
            let values = [
                flow.map_or(0, |flow| flow.p50_ns),
                flow.map_or(0, |flow| flow.p99_ns),
                flow.map_or(0, |flow| flow.max_ns),
            ];
            names.iter().zip(values).for_each(|(name, v)| self.counters.push(name, before, v));
        }
        if let Some(latency) = latency {
            self.latency.get_or_insert_default().add(latency);
        }
    }

    /// What was counted, interval by interval.
    #[must_use]
    pub fn counts(&self) -> Vec<DeviceCounts> {
        let mut counts = vec![DeviceCounts::default(); self.intervals as usize];
        self.active().into_iter().for_each(|(at, active)| counts[at] = active);
        counts
    }

    /// The intervals in which something was counted, in their order: of most devices there are few.
    #[must_use]
    pub fn active(&self) -> Vec<(usize, DeviceCounts)> {
        const NONE: u32 = u32::MAX;
        let length = self.intervals as usize;
        let mut places = vec![NONE; length];
        let mut active: Vec<(usize, DeviceCounts)> = Vec::new();
        let mut fill = |name: &str, put: &dyn Fn(&mut DeviceCounts, u64)| {
            let Some(series) = self.counters.series.get(name) else { return };
            for (at, value) in series.but_zeros(length) {
                if places[at] == NONE {
                    places[at] = active.len() as u32;
                    active.push((at, DeviceCounts::default()));
                }
                put(&mut active[places[at] as usize].1, value);
            }
        };
        fill("reads", &|c, v| c.reads.requests = v);
        fill("reads_merged", &|c, v| c.reads.merged = v);
        fill("reads_sectors", &|c, v| c.reads.sectors = v);
        fill("reads_ms", &|c, v| c.reads.took_ms = v);
        fill("writes", &|c, v| c.writes.requests = v);
        fill("writes_merged", &|c, v| c.writes.merged = v);
        fill("writes_sectors", &|c, v| c.writes.sectors = v);
        fill("writes_ms", &|c, v| c.writes.took_ms = v);
        fill("discards", &|c, v| c.discards.requests = v);
        fill("discards_merged", &|c, v| c.discards.merged = v);
        fill("discards_sectors", &|c, v| c.discards.sectors = v);
        fill("discards_ms", &|c, v| c.discards.took_ms = v);
        fill("flushes", &|c, v| c.flushes = v);
        fill("flush_ms", &|c, v| c.flush_ms = v);
        fill("busy_ms", &|c, v| c.busy_ms = v);
        fill("queued_ms", &|c, v| c.queued_ms = v);
        fill("in_flight", &|c, v| c.in_flight = v);
        active.order_by_key(|(at, _)| *at);
        active
    }
}

impl WatchRecord {
    /// An empty piece that begins with this interval.
    #[must_use]
    pub fn new(interval_ns: u64, first: u64) -> Self {
        Self { interval_ns, first, ..Self::default() }
    }

    /// Adds an interval.
    pub fn push(&mut self, sample: &Sample) {
        let before = self.length_us.len();
        self.start_us.push(sample.start_ns / 1000);
        self.length_us.push(sample.length_ns / 1000);
        self.latency_lost += sample.latency_lost.unwrap_or(0);
        let mut lines = BTreeSet::new();
        for device in &sample.devices {
            let is_it = |known: &&mut DeviceSeries| {
                known.name == device.name && (known.from + known.intervals) as usize == before
            };
            let at = match self.devices.iter_mut().position(|mut known| is_it(&mut known)) {
                Some(at) => at,
                None => {
                    self.devices.push(DeviceSeries {
                        name: device.name.clone(),
                        title: device.title.clone(),
                        depth: device.depth,
                        from: before as u32,
                        ..DeviceSeries::default()
                    });
                    self.devices.len() - 1
                }
            };
            let series = &mut self.devices[at];
            series.push_more(device, &mut lines);
            series.push(&device.counts);
            if device.stands_out.is_some() {
                series.stood_out += 1;
                series.stands_out.clone_from(&device.stands_out);
            }
        }
        self.push_host(before, sample);
        let changes = sample.changes();
        for (word, names) in
            [("came", changes.came), ("went", changes.went), (REPLACED, changes.replaced)]
        {
            let event =
                |name: &&String| WatchEvent { index: sample.index, what: format!("{name} {word}") };
            self.events.extend(names.iter().map(event));
        }
    }

    fn push_host(&mut self, before: usize, sample: &Sample) {
        let host = &sample.host;
        for (name, value) in [
            ("user", millionths(host.user_share)),
            ("system", millionths(host.system_share)),
            ("iowait", millionths(host.iowait_share)),
            ("steal", millionths(host.steal_share)),
            ("dirty", host.dirty_bytes >> 10),
            ("writeback", host.writeback_bytes >> 10),
            ("available", host.available_bytes >> 10),
            ("interrupts", host.interrupts_per_s as u64),
            ("context_switches", host.context_switches_per_s as u64),
        ] {
            self.host.push(name, before, value);
        }
        let (io, memory) = (host.io_pressure, host.memory_pressure);
        for (name, share) in [
            ("io_some", io.map(|shares| shares.0)),
            ("io_full", io.map(|shares| shares.1)),
            ("memory_some", memory.map(|shares| shares.0)),
            ("memory_full", memory.map(|shares| shares.1)),
            ("cpu_some", host.cpu_pressure.map(|shares| shares.0)),
        ] {
            self.host.push_known(name, before, share.map(millionths));
        }
        let Some(application) = &sample.application else { return };
        for (name, value) in [
            ("processes", u64::from(application.processes)),
            ("cpu", millionths(application.cpu_share)),
            ("resident", application.resident_bytes >> 10),
            ("asked_read", application.asked_read_bytes),
            ("asked_write", application.asked_write_bytes),
            ("read", application.read_bytes),
            ("written", application.written_bytes),
        ] {
            self.application.push(name, before, value);
        }
    }

    /// How many intervals this piece has.
    #[must_use]
    pub fn intervals(&self) -> usize {
        self.length_us.len()
    }

    /// Bytes that its series take in memory.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        let size = |d: &DeviceSeries| d.counters.size_bytes() + d.interrupts.size_bytes();
        let devices: usize = self.devices.iter().map(size).sum();
        let times = self.start_us.size_bytes() + self.length_us.size_bytes();
        devices + times + self.host.size_bytes() + self.application.size_bytes()
    }

    /// The fields of iostat -x of one of its devices, interval by interval.
    #[must_use]
    pub fn rates(&self, device: &DeviceSeries) -> Series<DeviceRates> {
        let from = device.from as usize;
        let lengths = self.length_us.values();
        let counts = device.counts();
        let of = |(counts, us): (&DeviceCounts, &u64)| counts.rates(us * 1000);
        let values = counts.iter().zip(lengths.iter().skip(from)).map(of).collect();
        Series { from, values }
    }
}

fn millionths(share: f64) -> u64 {
    (share.max(0.0) * 1e6).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::{ApplicationSample, ArraySample, FlowCounts, FlowLatency, LatencySample};

    fn device(name: &str, reads: u64) -> DeviceSample {
        let reads = FlowCounts {
            requests: reads,
            sectors: 8 * reads,
            took_ms: reads / 2,
            merged: reads / 3,
        };
        let counts = DeviceCounts { reads, busy_ms: 40, in_flight: 3, ..DeviceCounts::default() };
        let stands_out = (reads.requests > 10).then(|| "slow".to_owned());
        let (name, title) = (name.to_owned(), String::new());
        let (array, interrupts, latency) = (None, Vec::new(), None);
        DeviceSample {
            name,
            title,
            depth: 0,
            rates: counts.rates(1),
            counts,
            stands_out,
            array,
            interrupts,
            latency,
        }
    }

    fn sample(index: u64, devices: Vec<DeviceSample>) -> Sample {
        let (start_ns, length_ns) = (index * 500_000_000, 500_000_000);
        Sample { index, start_ns, length_ns, devices, ..Sample::default() }
    }

    #[test]
    fn devices_that_come_and_go_keep_their_place_in_time() {
        let mut record = WatchRecord::new(500_000_000, 0);
        record.push(&sample(0, vec![device("sda", 0)]));
        record.push(&sample(1, vec![device("sda", 1), device("sdb", 20)]));
        let went = Sample { went: vec!["sdb".to_owned()], ..sample(2, vec![device("sda", 30)]) };
        record.push(&went);
        record.push(&sample(3, vec![device("sda", 2), device("sdb", 4)]));
        let text = serde_json::to_string(&record).unwrap();
        let record: WatchRecord = serde_json::from_str(&text).unwrap();
        let told: Vec<_> = record
            .devices
            .iter()
            .map(|d| (d.name.as_str(), d.from, d.intervals, d.stood_out))
            .collect();
        assert_eq!(told, [("sda", 0, 4, 1), ("sdb", 1, 1, 1), ("sdb", 3, 1, 0)]);
        assert_eq!(record.devices[0].counts(), [0, 1, 30, 2].map(|n| device("sda", n).counts));
        let rates = record.rates(&record.devices[2]);
        assert_eq!((rates.from, rates.values[0].reads.per_s), (3, 8.0));
        assert_eq!(record.events, [WatchEvent { index: 2, what: "sdb went".to_owned() }]);
        assert_eq!(record.devices[0].stands_out.as_deref(), Some("slow"));
    }

    #[test]
    fn how_far_an_array_has_come_is_kept() {
        let mut record = WatchRecord::new(1, 0);
        for (index, done) in [None, Some(0.25), Some(0.5)].into_iter().enumerate() {
            let array = ArraySample {
                sync_action: if done.is_some() { "recover" } else { "idle" }.to_owned(),
                sync_done: done,
                sync_kib_per_s: done.map(|_| 51_200),
                degraded: 1,
                thread_cpu_share: Some(0.125),
            };
            let md0 = DeviceSample { array: Some(array), ..device("md0", 3) };
            record.push(&sample(index as u64, vec![md0]));
        }
        let of = |name: &str| record.devices[0].counters.values(name, 3);
        assert_eq!(
            (of("sync_action"), of("sync_done")),
            (vec![0, 1, 1], vec![0, 250_000, 500_000])
        );
        assert_eq!((of("sync_speed"), of("degraded")), (vec![0, 51_200, 51_200], vec![1, 1, 1]));
        assert_eq!(of("thread_cpu"), [125_000; 3]);
    }

    #[test]
    fn interrupts_of_queues_and_latencies_are_kept() {
        let mut record = WatchRecord::new(1, 0);
        let lines =
            [&[("nvme0q1", 5)][..], &[("nvme0q1", 7), ("nvme0q2", 3)], &[("nvme0q1", 2)], &[]];
        for (index, lines) in lines.into_iter().enumerate() {
            let interrupts =
                lines.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
            let mut reads = fathom_stats::histogram::Histogram::new();
            reads.record(100 + index as u64);
            let sample_of =
                LatencySample { reads: FlowLatency::of(&reads), ..LatencySample::default() };
            let latency = (index % 2 == 1).then(|| Box::new(sample_of));
            let nvme = DeviceSample { interrupts, latency, ..device("nvme0n1", 3) };
            // A second name of the same disk has the same lines.
            let other = DeviceSample { name: "nvme0c0n1".to_owned(), ..nvme.clone() };
            record.push(&sample(index as u64, vec![nvme, other]));
        }
        let text = serde_json::to_string(&record).unwrap();
        let record: WatchRecord = serde_json::from_str(&text).unwrap();
        let series = &record.devices[0];
        assert!(record.devices[1].interrupts.is_empty());
        let of = |line: &str| series.interrupts.values(line, 4);
        assert_eq!((of("nvme0q1"), of("nvme0q2")), (vec![5, 7, 2, 0], vec![0, 3, 0, 0]));
        assert_eq!(series.counters.values("reads_p99_ns", 4), [0, 101, 0, 103]);
        assert_eq!(series.counters.values("writes_p99_ns", 4), [0; 4]);
        let all = &series.latency.as_ref().unwrap().flows["reads"];
        assert_eq!((all.count(), all.min(), all.max()), (2, Some(101), Some(103)));
    }

    #[test]
    fn a_series_that_begins_late_is_zero_before() {
        let mut record = WatchRecord::new(1, 0);
        record.push(&sample(0, vec![]));
        let application = ApplicationSample { cpu_share: 0.5, ..ApplicationSample::default() };
        let host = crate::watch::HostSample { dirty_bytes: 4096, ..Default::default() };
        record.push(&Sample { application: Some(application), host, ..sample(1, vec![]) });
        assert_eq!(record.host.values("dirty", 2), [0, 4]);
        assert_eq!(record.application.values("cpu", 2), [0, 500_000]);
        assert_eq!(record.host.values("writeback", 2), [0, 0]);
    }

    #[test]
    fn pressure_that_the_kernel_does_not_tell_is_none() {
        let mut silent = WatchRecord::new(1, 0);
        silent.push(&sample(0, vec![]));
        assert!(!silent.host.series.contains_key("io_some"));
        let host = crate::watch::HostSample { io_pressure: Some((0.0, 0.0)), ..Default::default() };
        let mut idle = WatchRecord::new(1, 0);
        idle.push(&Sample { host, ..sample(0, vec![]) });
        idle.push(&sample(1, vec![]));
        assert_eq!(idle.host.series["io_some"].values(), [0, 0]);
        assert!(!idle.host.series.contains_key("memory_some"));
    }

    /// A second of fifty devices for a week is what a store must bear: the worst, all of them busy all the time.
    #[test]
    fn a_busy_second_of_a_device_takes_less_than_forty_bytes() {
        let mut record = WatchRecord::new(1_000_000_000, 0);
        for index in 0..2000u64 {
            let vary = |base: u64| base + index * 7919 % (base / 4 + 1);
            let flow = |base: u64| FlowCounts {
                requests: vary(base),
                merged: vary(base / 20),
                sectors: vary(base * 16),
                took_ms: vary(base * 2),
            };
            let (reads, writes) = (flow(4000), flow(1500));
            let counts = DeviceCounts {
                reads,
                writes,
                flushes: vary(100),
                flush_ms: vary(40),
                busy_ms: vary(900),
                queued_ms: vary(9000),
                in_flight: index % 32,
                ..DeviceCounts::default()
            };
            record.push(&sample(index, vec![DeviceSample { counts, ..device("sda", 0) }]));
        }
        assert!(record.devices[0].counters.size_bytes() < 40 * 2000);
        let idle = WatchRecord::new(1, 0);
        assert_eq!(idle.size_bytes(), 0);
    }
}
