//! What `fathom watch` sees: a sample for those who look on, and packed series for the store.
//!
//! The kernel's counters of an interval are the raw data ([`DeviceCounts`]); the fields of iostat -x follow from them
//! ([`DeviceCounts::rates`]), by the same definitions.

mod between;
mod latency;
mod series;

pub use fathom_base::packed::Packed;
pub use latency::{FlowLatency, LatencySample, LatencySeries};
pub use series::{DeviceSeries, NamedSeries, Series, WatchEvent, WatchRecord};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What one direction of a device did in an interval, as counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowCounts {
    /// Requests completed.
    pub requests: u64,
    /// Requests that were merged into others before the device saw them.
    pub merged: u64,
    /// Sectors of 512 bytes moved.
    pub sectors: u64,
    /// Milliseconds that the completed requests took, waiting included, summed over them.
    pub took_ms: u64,
}

/// What a device did in an interval, as counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceCounts {
    /// Reads.
    pub reads: FlowCounts,
    /// Writes.
    pub writes: FlowCounts,
    /// Discards; zero on kernels before 4.18, which do not count them.
    pub discards: FlowCounts,
    /// Flushes completed; zero on kernels before 5.5, and on devices without a request queue of their own.
    pub flushes: u64,
    /// Milliseconds that flushes took.
    pub flush_ms: u64,
    /// Milliseconds with at least one request in flight.
    pub busy_ms: u64,
    /// Milliseconds in flight, summed over requests.
    pub queued_ms: u64,
    /// Requests in flight when the interval ended: a reading, not a sum.
    pub in_flight: u64,
}

/// One direction as iostat -x shows it. What has no meaning without requests is none then.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowRates {
    /// `r/s`, `w/s`, `d/s`: requests completed.
    pub per_s: f64,
    /// `rkB/s`: KiB moved.
    pub kib_per_s: f64,
    /// `rrqm/s`: requests merged into others.
    pub merged_per_s: f64,
    /// `%rrqm`: share of these in all that were asked for.
    pub merged_percent: Option<f64>,
    /// `r_await`: mean time from entering the queue to the end.
    pub await_ms: Option<f64>,
    /// `rareq-sz`: mean size.
    pub request_kib: Option<f64>,
}

/// A device as iostat -x shows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceRates {
    /// Reads.
    pub reads: FlowRates,
    /// Writes.
    pub writes: FlowRates,
    /// Discards.
    pub discards: FlowRates,
    /// `f/s`: flushes completed.
    pub flushes_per_s: f64,
    /// `f_await`.
    pub flush_await_ms: Option<f64>,
    /// `aqu-sz`: mean number of requests in flight.
    pub queue: f64,
    /// `%util`: share of the time with at least one request in flight. 100 % is full for a disk with one head, not for
    /// what serves several requests at once.
    pub util_percent: f64,
    /// `svctm` of old versions of iostat: busy time over requests. It was taken out of iostat because it is no service time
    /// where several requests are served at once; for comparison with old results only.
    pub svctm_ms: Option<f64>,
}

impl FlowCounts {
    /// What iostat makes of these counts over so many seconds.
    #[must_use]
    pub fn rates(&self, seconds: f64) -> FlowRates {
        let over = |sum: u64, of: u64| (of > 0).then(|| sum as f64 / of as f64);
        FlowRates {
            per_s: per_s(self.requests, seconds),
            kib_per_s: per_s(self.sectors, seconds) / 2.0,
            merged_per_s: per_s(self.merged, seconds),
            merged_percent: over(100 * self.merged, self.merged + self.requests),
            await_ms: over(self.took_ms, self.requests),
            request_kib: over(self.sectors, self.requests).map(|sectors| sectors / 2.0),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            merged: self.merged + other.merged,
            sectors: self.sectors + other.sectors,
            took_ms: self.took_ms + other.took_ms,
        }
    }
}

impl DeviceCounts {
    /// What iostat -x makes of these counts over an interval; rates are zero for one of no length.
    #[must_use]
    pub fn rates(&self, length_ns: u64) -> DeviceRates {
        let seconds = length_ns as f64 / 1e9;
        let requests = self.reads.requests + self.writes.requests + self.discards.requests;
        DeviceRates {
            reads: self.reads.rates(seconds),
            writes: self.writes.rates(seconds),
            discards: self.discards.rates(seconds),
            flushes_per_s: per_s(self.flushes, seconds),
            flush_await_ms: (self.flushes > 0).then(|| self.flush_ms as f64 / self.flushes as f64),
            queue: per_s(self.queued_ms, seconds) / 1e3,
            util_percent: per_s(self.busy_ms, seconds) / 10.0,
            svctm_ms: (requests > 0).then(|| self.busy_ms as f64 / requests as f64),
        }
    }

    /// Both intervals together; in flight is what the later one says.
    #[must_use]
    pub fn plus(self, later: &Self) -> Self {
        Self {
            reads: self.reads.plus(later.reads),
            writes: self.writes.plus(later.writes),
            discards: self.discards.plus(later.discards),
            flushes: self.flushes + later.flushes,
            flush_ms: self.flush_ms + later.flush_ms,
            busy_ms: self.busy_ms + later.busy_ms,
            queued_ms: self.queued_ms + later.queued_ms,
            in_flight: later.in_flight,
        }
    }

    /// True when nothing ended and nothing is in flight.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        *self == Self::default()
    }
}

fn per_s(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

/// One device in one interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceSample {
    /// Kernel name.
    pub name: String,
    /// What it is, for people: the name of a volume, the level of an array, the model of a disk.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// How deep it stands in the tree of layers: 0 for what nothing that is watched stands on.
    pub depth: usize,
    /// As counted.
    pub counts: DeviceCounts,
    /// As iostat -x shows it.
    pub rates: DeviceRates,
    /// Why it stands out from its companions; none when it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands_out: Option<String>,
    /// What a software array does besides; none for other devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArraySample>,
    /// Interrupts of its queues in the interval, each by the name of its line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupts: Vec<(String, u64)>,
    /// How long its requests took, one by one; none when that was not asked for or cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Box<LatencySample>>,
}

/// What a software array does besides requests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ArraySample {
    /// `idle`, `resync`, `recover`, `check`, `repair`, `reshape`, `frozen`; empty when the level has none.
    pub sync_action: String,
    /// Done share of it, 0 to 1.
    pub sync_done: Option<f64>,
    /// Its speed.
    pub sync_kib_per_s: Option<u64>,
    /// Members that are missing.
    pub degraded: u32,
    /// CPU time of its kernel threads in the interval, as a share of one processor.
    pub thread_cpu_share: Option<f64>,
}

/// The machine in one interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostSample {
    /// Shares of the time of all processors together, 0 to 1.
    pub user_share: f64,
    /// In the kernel, interrupts included.
    pub system_share: f64,
    /// Idle while I/O was outstanding.
    pub iowait_share: f64,
    /// Taken by the hypervisor.
    pub steal_share: f64,
    /// Memory that waits to be written.
    pub dirty_bytes: u64,
    /// Memory that is being written.
    pub writeback_bytes: u64,
    /// Memory that could be used without swapping.
    pub available_bytes: u64,
    /// Pressure: shares of the time in which some, and all, tasks waited for I/O; none where the kernel does not tell.
    pub io_pressure: Option<(f64, f64)>,
    /// The same of memory.
    pub memory_pressure: Option<(f64, f64)>,
    /// The same of processors; there, "all" has no meaning for a whole machine.
    pub cpu_pressure: Option<(f64, f64)>,
    /// Interrupts served.
    pub interrupts_per_s: f64,
    /// Switches from one thread to another.
    pub context_switches_per_s: f64,
}

/// A watched application in one interval: all its processes together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ApplicationSample {
    /// Processes at the end of the interval.
    pub processes: u32,
    /// CPU time in the interval, as a share of one processor.
    pub cpu_share: f64,
    /// Memory in use at the end of the interval, shared parts counted once for each process.
    pub resident_bytes: u64,
    /// What it asked for with read calls.
    pub asked_read_bytes: u64,
    /// What it handed over with write calls.
    pub asked_write_bytes: u64,
    /// What was fetched from storage for it.
    pub read_bytes: u64,
    /// What it made dirty or wrote directly, less what was deleted before it was written.
    pub written_bytes: u64,
    /// Write calls, each of which the kernel may count as up to a folio of memory more than it wrote; none in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_calls: Option<u64>,
}

/// Everything in one interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Which interval, from 0 on.
    pub index: u64,
    /// Its end, UTC, nanoseconds since 1970.
    pub unix_ns: i64,
    /// Its start, from the start of the watch.
    pub start_ns: u64,
    /// Its length as measured.
    pub length_ns: u64,
    /// Devices, those that stand on others before them.
    pub devices: Vec<DeviceSample>,
    /// Devices that are new, by kernel name; they have figures from the next interval on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub came: Vec<String>,
    /// Devices that are gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub went: Vec<String>,
    /// The machine.
    pub host: HostSample,
    /// The application, when one is watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<ApplicationSample>,
    /// Events of block tracepoints that were lost, where latencies are told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_lost: Option<u64>,
}

/// Devices that came and went, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes<'a> {
    /// New ones.
    pub came: Vec<&'a String>,
    /// Those that are gone.
    pub went: Vec<&'a String>,
    /// Those in whose place another one is.
    pub replaced: Vec<&'a String>,
}

impl Sample {
    /// What became of devices, each said once.
    #[must_use]
    pub fn changes(&self) -> Changes<'_> {
        let is_both = |name: &&String| self.came.contains(*name) && self.went.contains(*name);
        let (replaced, went) = self.went.iter().partition(is_both);
        let came = self.came.iter().filter(|name| !is_both(name)).collect();
        Changes { came, went, replaced }
    }
}

impl Changes<'_> {
    /// One line for each kind that there is.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let each = [
            ("came", &self.came),
            ("went", &self.went),
            ("replaced by another of the same name", &self.replaced),
        ];
        let line = |(word, names): (&str, &Vec<&String>)| {
            let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
            (!names.is_empty()).then(|| format!("{word}: {}", names.join(", ")))
        };
        each.into_iter().filter_map(line).collect()
    }
}

/// A watched application as a whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ApplicationRecord {
    /// Its command line, or the name of the recipe.
    pub command: String,
    /// How long it ran.
    pub took_ns: u64,
    /// Its exit status; none when a signal ended it, or fathom did.
    pub exit_status: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// After which time fathom ended it, because it took longer than it may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timed_out_ns: Option<u64>,
    /// Its own figures by name.
    pub figures: BTreeMap<String, f64>,
    /// Why figures are missing that were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// The end of what it printed.
    pub output: String,
    /// What its processes did, from its start to its end.
    pub total: ApplicationSample,
    /// The kernel did not tell this user what they had asked for when they ended: `total` holds what they had when they were looked
    /// at last, and of what was read from and written to storage what the kernel tells everybody.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_cut_off: bool,
    /// How many processes that it had started still ran when it had ended by itself; they were ended then.
    #[serde(default, skip_serializing_if = "series::is_zero")]
    pub outlived: u64,
    /// What the devices directly below the target did in that time.
    pub devices: BTreeMap<String, DeviceCounts>,
    /// Memory that still waited to be written when it ended.
    pub dirty_bytes: u64,
    /// The same when it began.
    pub dirty_before_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_iostat() {
        let reads = FlowCounts { requests: 200, merged: 50, sectors: 3200, took_ms: 500 };
        let counts = DeviceCounts {
            reads,
            flushes: 4,
            flush_ms: 10,
            busy_ms: 1500,
            queued_ms: 3000,
            in_flight: 2,
            ..DeviceCounts::default()
        };
        let rates = counts.rates(2_000_000_000);
        assert_eq!(
            (rates.reads.per_s, rates.reads.kib_per_s, rates.reads.merged_per_s),
            (100.0, 800.0, 25.0)
        );
        assert_eq!(rates.reads.merged_percent, Some(20.0));
        assert_eq!((rates.reads.await_ms, rates.reads.request_kib), (Some(2.5), Some(8.0)));
        assert_eq!((rates.queue, rates.util_percent), (1.5, 75.0));
        assert_eq!((rates.flushes_per_s, rates.flush_await_ms), (2.0, Some(2.5)));
        assert_eq!(rates.svctm_ms, Some(7.5));
        assert_eq!((rates.writes.await_ms, rates.writes.merged_percent), (None, None));
        assert_eq!(counts.rates(0).reads.per_s, 0.0);
        let both = counts.plus(&DeviceCounts { in_flight: 7, ..counts });
        assert_eq!((both.reads.requests, both.busy_ms, both.in_flight), (400, 3000, 7));
    }
}
