//! Samples in the form of OpenMetrics 1.0, for those who collect figures: counters since the start of the watch, and readings.

use fathom_model::watch::{ArraySample, DeviceCounts, FlowCounts, LatencySeries, Sample};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Sums of all samples so far.
#[derive(Debug, Default)]
pub struct Totals {
    devices: BTreeMap<String, Device>,
    seconds: f64,
    pressure_seconds: BTreeMap<(&'static str, &'static str), f64>,
    cpu_share: [(&'static str, f64); 4],
    dirty_bytes: u64,
    writeback_bytes: u64,
    application: Option<fathom_model::watch::ApplicationSample>,
    latency_lost: Option<u64>,
}

#[derive(Debug, Default)]
struct Device {
    total: DeviceCounts,
    stands_out: bool,
    /// Of an array, in the last interval.
    array: Option<ArraySample>,
    /// By the name of the line.
    interrupts: BTreeMap<String, u64>,
    svctm_ms: Option<f64>,
    is_there: bool,
    latency: LatencySeries,
}

/// Upper bounds of the latencies that are counted together, in nanoseconds and as they are written.
const LATENCIES: [(u64, &str); 15] = [
    (50_000, "0.00005"),
    (100_000, "0.0001"),
    (200_000, "0.0002"),
    (500_000, "0.0005"),
    (1_000_000, "0.001"),
    (2_000_000, "0.002"),
    (5_000_000, "0.005"),
    (10_000_000, "0.01"),
    (20_000_000, "0.02"),
    (50_000_000, "0.05"),
    (100_000_000, "0.1"),
    (200_000_000, "0.2"),
    (500_000_000, "0.5"),
    (1_000_000_000, "1.0"),
    (10_000_000_000, "10.0"),
];

/// One counter of a device: name, what it is, its unit's divisor, and where it comes from by direction.
type Counter = (&'static str, &'static str, f64, fn(&FlowCounts) -> u64);

const FLOWS: &[Counter] = &[
    ("fathom_device_requests", "Requests completed.", 1.0, |f| f.requests),
    ("fathom_device_merged_requests", "Requests merged into others.", 1.0, |f| f.merged),
    ("fathom_device_bytes", "Bytes moved.", 1.0 / 512.0, |f| f.sectors),
    (
        "fathom_device_request_seconds",
        "Time that completed requests took, waiting included, summed over them.",
        1000.0,
        |f| f.took_ms,
    ),
];

/// One counter of a device without a direction.
type Single = (&'static str, &'static str, f64, fn(&DeviceCounts) -> u64);

const SINGLES: &[Single] = &[
    ("fathom_device_flushes", "Flushes completed.", 1.0, |c| c.flushes),
    ("fathom_device_flush_seconds", "Time that flushes took.", 1000.0, |c| c.flush_ms),
    ("fathom_device_busy_seconds", "Time with at least one request in flight.", 1000.0, |c| {
        c.busy_ms
    }),
    (
        "fathom_device_queued_seconds",
        "Time in flight, summed over requests: its rate is the mean number in flight.",
        1000.0,
        |c| c.queued_ms,
    ),
];

/// One reading of an array.
type Reading = (&'static str, &'static str, fn(&ArraySample) -> Option<f64>);

const ARRAYS: &[Reading] = &[
    ("fathom_array_sync_ratio", "Done share of a running synchronisation.", |a| a.sync_done),
    ("fathom_array_sync_bytes_per_second", "Speed of a running synchronisation.", |a| {
        a.sync_kib_per_s.map(|kib| kib as f64 * 1024.0)
    }),
    ("fathom_array_missing_members", "Members that are missing.", |a| Some(f64::from(a.degraded))),
    ("fathom_array_thread_processors", "Processors that its kernel threads used.", |a| {
        a.thread_cpu_share
    }),
];

impl Totals {
    /// Adds an interval.
    pub fn add(&mut self, sample: &Sample) {
        self.seconds += sample.length_ns as f64 / 1e9;
        if let Some(lost) = sample.latency_lost {
            *self.latency_lost.get_or_insert(0) += lost;
        }
        self.devices.values_mut().for_each(|device| device.is_there = false);
        for device in &sample.devices {
            let known = self.devices.entry(device.name.clone()).or_default();
            known.total = known.total.plus(&device.counts);
            known.stands_out = device.stands_out.is_some();
            known.array.clone_from(&device.array);
            for (name, count) in &device.interrupts {
                *known.interrupts.entry(name.clone()).or_default() += count;
            }
            known.svctm_ms = device.rates.svctm_ms;
            known.is_there = true;
            device.latency.iter().for_each(|latency| known.latency.add(latency));
        }
        let host = &sample.host;
        let seconds = sample.length_ns as f64 / 1e9;
        let pressures = [
            ("io", host.io_pressure),
            ("memory", host.memory_pressure),
            ("cpu", host.cpu_pressure),
        ];
        for (of, shares) in pressures {
            let Some((some, full)) = shares else { continue };
            *self.pressure_seconds.entry((of, "some")).or_default() += some * seconds;
            *self.pressure_seconds.entry((of, "full")).or_default() += full * seconds;
        }
        self.cpu_share = [
            ("user", host.user_share),
            ("system", host.system_share),
            ("iowait", host.iowait_share),
            ("steal", host.steal_share),
        ];
        (self.dirty_bytes, self.writeback_bytes) = (host.dirty_bytes, host.writeback_bytes);
        self.application.clone_from(&sample.application);
    }

    /// All figures; ends with `# EOF`, as the form wants.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        for (name, help, divisor, of) in FLOWS {
            head(&mut out, name, "counter", help);
            for (device, known) in &self.devices {
                let total = &known.total;
                let flows = [
                    ("read", &total.reads),
                    ("write", &total.writes),
                    ("discard", &total.discards),
                ];
                for (way, flow) in flows {
                    let labels = [("device", device.as_str()), ("direction", way)];
                    line(&mut out, &format!("{name}_total"), &labels, of(flow) as f64 / divisor);
                }
            }
        }
        for (name, help, divisor, of) in SINGLES {
            head(&mut out, name, "counter", help);
            for (device, known) in &self.devices {
                let value = of(&known.total) as f64 / divisor;
                line(&mut out, &format!("{name}_total"), &[("device", device)], value);
            }
        }
        self.latencies(&mut out);
        let there = || self.devices.iter().filter(|(_, device)| device.is_there);
        head(&mut out, "fathom_device_in_flight", "gauge", "Requests in flight.");
        for (device, known) in there() {
            let value = known.total.in_flight as f64;
            line(&mut out, "fathom_device_in_flight", &[("device", device)], value);
        }
        let help = "1 when it was slower than its companions in the last interval.";
        head(&mut out, "fathom_device_stands_out", "gauge", help);
        for (device, known) in there() {
            let value = f64::from(u8::from(known.stands_out));
            line(&mut out, "fathom_device_stands_out", &[("device", device)], value);
        }
        self.arrays_and_queues(&mut out);
        let help = "svctm of old versions of iostat, busy time over requests of the last interval: \
                    no service time where several requests are served at once.";
        head(&mut out, "fathom_device_svctm_seconds", "gauge", help);
        for (device, known) in there() {
            if let Some(ms) = known.svctm_ms {
                line(&mut out, "fathom_device_svctm_seconds", &[("device", device)], ms / 1e3);
            }
        }
        self.machine(&mut out);
        out.push_str("# EOF\n");
        out
    }

    fn arrays_and_queues(&self, out: &mut String) {
        for (name, help, of) in ARRAYS {
            head(out, name, "gauge", help);
            for (device, known) in self.devices.iter().filter(|(_, device)| device.is_there) {
                if let Some(value) = known.array.as_ref().and_then(of) {
                    line(out, name, &[("device", device)], value);
                }
            }
        }
        let name = "fathom_device_interrupts";
        head(out, name, "counter", "Interrupts of a queue; an adapter's disks share them.");
        for (device, known) in &self.devices {
            for (queue, count) in &known.interrupts {
                let labels = [("device", device.as_str()), ("queue", queue.as_str())];
                line(out, &format!("{name}_total"), &labels, *count as f64);
            }
        }
    }

    /// As histograms, where they are watched.
    fn latencies(&self, out: &mut String) {
        const NAME: &str = "fathom_device_latency_seconds";
        let Some(lost) = self.latency_lost else { return };
        head(out, NAME, "histogram", "Time that the device took for each request.");
        for (device, known) in &self.devices {
            for (direction, all) in &known.latency.flows {
                let direction = direction.trim_end_matches('s');
                let labels = [("device", device.as_str()), ("direction", direction)];
                let mut bucket = |bound: &str, count: u64| {
                    let labels = [labels[0], labels[1], ("le", bound)];
                    line(out, &format!("{NAME}_bucket"), &labels, count as f64);
                };
                for (ns, bound) in LATENCIES {
                    bucket(bound, all.count() - all.count_above(ns));
                }
                bucket("+Inf", all.count());
                line(out, &format!("{NAME}_count"), &labels, all.count() as f64);
                line(out, &format!("{NAME}_sum"), &labels, all.sum() as f64 / 1e9);
            }
        }
        let help = "Trace events that were lost: the latencies lack them.";
        head(out, "fathom_latency_lost_events", "counter", help);
        line(out, "fathom_latency_lost_events_total", &[], lost as f64);
    }

    fn machine(&self, out: &mut String) {
        head(out, "fathom_cpu_ratio", "gauge", "Share of all processors in the last interval.");
        for (mode, share) in self.cpu_share.iter().filter(|(mode, _)| !mode.is_empty()) {
            line(out, "fathom_cpu_ratio", &[("mode", mode)], *share);
        }
        let help = "Time in which some, or all, tasks waited.";
        head(out, "fathom_pressure_seconds", "counter", help);
        for ((of, which), seconds) in &self.pressure_seconds {
            let labels = [("resource", *of), ("tasks", *which)];
            line(out, "fathom_pressure_seconds_total", &labels, *seconds);
        }
        for (name, help, bytes) in [
            ("fathom_dirty_bytes", "Memory that waits to be written.", self.dirty_bytes),
            ("fathom_writeback_bytes", "Memory that is being written.", self.writeback_bytes),
        ] {
            head(out, name, "gauge", help);
            line(out, name, &[], bytes as f64);
        }
        head(out, "fathom_watched_seconds", "counter", "How long has been watched.");
        line(out, "fathom_watched_seconds_total", &[], self.seconds);
        let Some(application) = &self.application else { return };
        head(
            out,
            "fathom_application_processors",
            "gauge",
            "Processors that the application used.",
        );
        line(out, "fathom_application_processors", &[], application.cpu_share);
        head(out, "fathom_application_resident_bytes", "gauge", "Memory of the application.");
        line(out, "fathom_application_resident_bytes", &[], application.resident_bytes as f64);
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# TYPE {name} {kind}");
    // A name that ends with its unit says so.
    for unit in ["bytes", "seconds", "ratio"] {
        if name.ends_with(&format!("_{unit}")) {
            let _ = writeln!(out, "# UNIT {name} {unit}");
        }
    }
    let _ = writeln!(out, "# HELP {name} {help}");
}

fn line(out: &mut String, name: &str, labels: &[(&str, &str)], value: f64) {
    let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let labels: Vec<String> =
        labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
    let labels =
        if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
    let _ = writeln!(out, "{name}{labels} {value}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::watch::{DeviceSample, HostSample};

    fn sample(requests: u64) -> Sample {
        let reads = FlowCounts { requests, sectors: 8 * requests, took_ms: 1500, merged: 0 };
        let counts = DeviceCounts { reads, in_flight: 4, busy_ms: 500, ..DeviceCounts::default() };
        let device = DeviceSample {
            name: "we\"ird".into(),
            title: String::new(),
            depth: 0,
            counts,
            rates: counts.rates(1),
            stands_out: None,
            array: None,
            interrupts: Vec::new(),
            latency: None,
        };
        let host = HostSample { io_pressure: Some((0.5, 0.25)), ..HostSample::default() };
        Sample { length_ns: 2_000_000_000, devices: vec![device], host, ..Sample::default() }
    }

    #[test]
    fn latencies_are_histograms_over_all_intervals() {
        let mut totals = Totals::default();
        for ns in [70_000, 70_000, 3_000_000, 20_000_000_000] {
            let mut reads = fathom_stats::histogram::Histogram::new();
            reads.record(ns);
            let reads = fathom_model::watch::FlowLatency::of(&reads);
            let mut sample = Sample { latency_lost: Some(2), ..sample(1) };
            sample.devices[0].name = "sda".into();
            let latency = fathom_model::watch::LatencySample { reads, ..Default::default() };
            sample.devices[0].latency = Some(Box::new(latency));
            totals.add(&sample);
        }
        let text = totals.text();
        let name = "fathom_device_latency_seconds";
        for (more, value) in [
            ("_bucket{device=\"sda\",direction=\"read\",le=\"0.00005\"}", "0"),
            ("_bucket{device=\"sda\",direction=\"read\",le=\"0.0001\"}", "2"),
            ("_bucket{device=\"sda\",direction=\"read\",le=\"0.005\"}", "3"),
            ("_bucket{device=\"sda\",direction=\"read\",le=\"10.0\"}", "3"),
            ("_bucket{device=\"sda\",direction=\"read\",le=\"+Inf\"}", "4"),
            ("_count{device=\"sda\",direction=\"read\"}", "4"),
            ("_sum{device=\"sda\",direction=\"read\"}", "20.00314"),
        ] {
            let line = format!("{name}{more} {value}");
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        assert!(text.contains("fathom_latency_lost_events_total 8\n"), "{text}");
        let mut without = Totals::default();
        without.add(&sample(1));
        assert!(!without.text().contains(name));
    }

    #[test]
    fn arrays_and_queues_tell_what_the_lines_do() {
        let mut totals = Totals::default();
        for count in [30, 12] {
            let mut sample = sample(1);
            let device = &mut sample.devices[0];
            device.name = "md0".into();
            device.interrupts = vec![("nvme0q1".into(), count)];
            device.array = Some(ArraySample {
                sync_action: "recover".into(),
                sync_done: Some(0.25),
                sync_kib_per_s: Some(1000),
                degraded: 1,
                thread_cpu_share: Some(0.5),
            });
            totals.add(&sample);
        }
        let text = totals.text();
        for line in [
            "fathom_array_sync_ratio{device=\"md0\"} 0.25",
            "fathom_array_sync_bytes_per_second{device=\"md0\"} 1024000",
            "fathom_array_missing_members{device=\"md0\"} 1",
            "fathom_array_thread_processors{device=\"md0\"} 0.5",
            "fathom_device_interrupts_total{device=\"md0\",queue=\"nvme0q1\"} 42",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        // What is no array has none of these, not even zero.
        let mut other = Totals::default();
        other.add(&sample(1));
        assert!(!other.text().contains("fathom_array_missing_members{"));
    }

    #[test]
    fn counters_add_up_and_every_figure_has_a_head() {
        let mut totals = Totals::default();
        totals.add(&sample(100));
        totals.add(&sample(50));
        let text = totals.text();
        for line in [
            "fathom_device_requests_total{device=\"we\\\"ird\",direction=\"read\"} 150",
            "fathom_device_bytes_total{device=\"we\\\"ird\",direction=\"read\"} 614400",
            "fathom_device_request_seconds_total{device=\"we\\\"ird\",direction=\"read\"} 3",
            "fathom_device_in_flight{device=\"we\\\"ird\"} 4",
            // Of the last interval, and said to be no service time.
            "fathom_device_svctm_seconds{device=\"we\\\"ird\"} 0.01",
            "fathom_pressure_seconds_total{resource=\"io\",tasks=\"some\"} 2",
            "# UNIT fathom_device_bytes bytes",
            "fathom_watched_seconds_total 4",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        let help = text.lines().find(|l| l.starts_with("# HELP fathom_device_svctm_seconds"));
        assert!(help.is_some_and(|l| l.contains("no service time")), "{text}");
        assert!(text.ends_with("# EOF\n"));
        let heads: Vec<&str> =
            text.lines().filter_map(|l| l.strip_prefix("# TYPE ")?.split(' ').next()).collect();
        let figures = text.lines().filter(|l| !l.starts_with('#'));
        for figure in figures {
            let name = figure.split(['{', ' ']).next().unwrap_or_default();
            let base = name.strip_suffix("_total").unwrap_or(name);
            assert!(heads.contains(&base), "{figure}");
        }
        // A device that is gone keeps its counters and has no readings.
        totals.add(&Sample::default());
        assert!(!totals.text().contains("fathom_device_in_flight{"));
        assert!(totals.text().contains("fathom_device_requests_total{"));
    }
}
