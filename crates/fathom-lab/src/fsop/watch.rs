//! Watches a session: counters of the machine at the borders of each window, what it did in each second, progress.

use super::journal::Journal;
use crate::sampler::{Deltas, Progress, Sampler};
use fathom_base::units::format_ns;
use fathom_load::run::Observer;
use fathom_model::event::Event;
use fathom_model::fsop::{DeviceSecond, SecondSample};
use fathom_sys::counters::{self, DiskCounters};
use fathom_sys::sysroot::SysRoot;
use fathom_sys::{clock, hostinfo};
use fathom_tree::phase::{Going, Second, Watch};

/// What is known of one window.
#[derive(Default)]
pub struct Seen {
    /// Second by second.
    pub seconds: Vec<SecondSample>,
    /// UTC when it began.
    pub started_unix_ns: i64,
}

/// A phase in the words of progress.
pub struct Row {
    /// Its label.
    pub label: String,
    /// Number among all of the command, from 1.
    pub index: u32,
    /// Expected time of everything from its start on.
    pub rest_ns: u64,
    /// How long writers warm up before it.
    pub warmup_ns: u64,
}

/// See the module.
pub struct SessionWatch<'a> {
    root: &'a SysRoot,
    devices: &'a [String],
    journal: &'a Journal,
    rows: Vec<Row>,
    count: u32,
    emit: &'a mut dyn FnMut(Event),
    samplers: Vec<Sampler<'a>>,
    seen: Vec<Seen>,
    last: Option<(Vec<DiskCounters>, Option<u64>)>,
}

/// Something that swallows what it hears.
pub type Silent = Box<dyn FnMut(Event)>;

/// One for each window.
pub fn silents(windows: usize) -> Vec<Silent> {
    (0..windows).map(|_| -> Silent { Box::new(|_| ()) }).collect()
}

impl<'a> SessionWatch<'a> {
    /// A watch for windows of these rows.
    pub fn new(
        root: &'a SysRoot,
        (devices, journal): (&'a [String], &'a Journal),
        rows: Vec<Row>,
        count: u32,
        silents: &'a mut [Silent],
        emit: &'a mut dyn FnMut(Event),
    ) -> Self {
        let sampler = |(row, silent): (&Row, &'a mut Silent)| {
            let progress = Progress {
                label: row.label.clone(),
                rest_after_ns: 0,
                planned_ns: 0,
                planned_bytes: None,
                layout: false,
                emit: silent.as_mut(),
            };
            Sampler::new(root, devices.to_vec(), progress)
        };
        let samplers = rows.iter().zip(silents).map(sampler).collect();
        let seen = rows.iter().map(|_| Seen::default()).collect();
        Self { root, devices, journal, rows, count, emit, samplers, seen, last: None }
    }

    /// What was seen in each window.
    pub fn finish(self) -> Vec<(Seen, Deltas)> {
        self.seen.into_iter().zip(self.samplers.into_iter().map(Sampler::deltas)).collect()
    }

    fn reading(&self) -> (Vec<DiskCounters>, Option<u64>) {
        let mut disks = counters::disk_counters(self.root);
        disks.retain(|disk| self.devices.contains(&disk.name));
        (disks, self.journal.commits(self.root))
    }
}

/// Pages of one state, in bytes.
fn pages_bytes(vmstat: &str, name: &str, page_bytes: u64) -> u64 {
    let line = vmstat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|pages| pages.trim().parse::<u64>().ok()).unwrap_or(0) * page_bytes
}

/// Requests that have ended so far.
fn ended(disk: &DiskCounters) -> (u64, u64, Option<u64>) {
    (disk.reads, disk.writes, disk.flushes)
}

fn device_second(before: &DiskCounters, now: &DiskCounters, length_ns: u64) -> DeviceSecond {
    let since = |a: u64, b: u64| b.checked_sub(a).unwrap_or(b);
    let length_ms = (length_ns as f64 / 1e6).max(1e-3);
    let in_flight_ms = before.in_flight_ms.zip(now.in_flight_ms).map_or(0, |(a, b)| since(a, b));
    DeviceSecond {
        name: now.name.clone(),
        busy_share: (since(before.busy_ms, now.busy_ms) as f64 / length_ms).min(1.0),
        // Time in flight is counted when a request ends: of a device that stands still there is the count of this moment alone.
        in_flight_mean: if ended(before) == ended(now) {
            now.in_flight as f64
        } else {
            in_flight_ms as f64 / length_ms
        },
        read_bytes: since(before.read_sectors, now.read_sectors) * 512,
        written_bytes: since(before.written_sectors, now.written_sectors) * 512,
    }
}

impl Watch for SessionWatch<'_> {
    fn starts(&mut self, window: usize) {
        let Some(row) = self.rows.get(window) else { return };
        let (label, warmup_ns) = (row.label.clone(), row.warmup_ns);
        let (index, count) = (row.index, self.count);
        (self.emit)(Event::TrialStarted {
            label,
            index,
            count,
            layers: Vec::new(),
            findings: Vec::new(),
        });
        if warmup_ns > 0 {
            let text = format!("Warm-up of {}.", format_ns(warmup_ns));
            (self.emit)(Event::Note { text });
        }
    }

    fn window_begins(&mut self, window: usize) {
        if let Some(sampler) = self.samplers.get_mut(window) {
            sampler.window_begins();
        }
        if let Some(seen) = self.seen.get_mut(window) {
            seen.started_unix_ns = clock::unix_ns();
        }
        self.last = Some(self.reading());
    }

    fn second(&mut self, window: usize, second: &Second) {
        let now = self.reading();
        let vmstat = self.root.read("proc/vmstat").unwrap_or_default();
        let page_bytes = hostinfo::page_bytes();
        let before = self.last.take();
        let devices = before.iter().flat_map(|(before, _)| {
            now.0.iter().filter_map(|now| {
                let before = before.iter().find(|disk| disk.name == now.name)?;
                Some(device_second(before, now, second.length_ns))
            })
        });
        let sample = SecondSample {
            end_ns: second.end_ns,
            length_ns: second.length_ns,
            dirty_bytes: pages_bytes(&vmstat, "nr_dirty", page_bytes),
            writeback_bytes: pages_bytes(&vmstat, "nr_writeback", page_bytes),
            devices: devices.collect(),
            journal_commits: before
                .as_ref()
                .and_then(|(_, commits)| Some(now.1?.saturating_sub((*commits)?))),
        };
        self.last = Some(now);
        if let Some(seen) = self.seen.get_mut(window) {
            seen.seconds.push(sample);
        }
        let Some(row) = self.rows.get(window) else { return };
        let per_s = |count: u64| count as f64 * 1e9 / second.length_ns.max(1) as f64;
        let oldest = second.oldest.as_ref().map(|oldest| oldest.age_ns);
        (self.emit)(Event::Progress {
            label: row.label.clone(),
            elapsed_ns: second.end_ns,
            eta_ns: Some(row.rest_ns.saturating_sub(second.end_ns)),
            iops: per_s(second.operations),
            bytes_per_s: per_s(second.bytes),
            latency_ns_p50: None,
            latency_ns_p99: None,
            // Of what has not ended, the least that it will take.
            latency_ns_max: oldest,
            in_flight: 0.0,
            devices: Vec::new(),
        });
    }

    fn window_ends(&mut self, window: usize, going: &[Going]) {
        if let Some(sampler) = self.samplers.get_mut(window) {
            sampler.window_ends();
        }
        const WORTH_SAYING_NS: u64 = 1_000_000_000;
        if let Some(oldest) = going.first().filter(|oldest| oldest.age_ns >= WORTH_SAYING_NS) {
            let text = format!("The window is over. Oldest unfinished: {}.", going_text(oldest));
            (self.emit)(Event::Note { text });
        }
    }

    fn waits(&mut self, going: &[Going]) {
        let Some(oldest) = going.first() else { return };
        let text = format!("Waiting for the kernel to give back {}.", going_text(oldest));
        (self.emit)(Event::Note { text });
    }
}

fn going_text(going: &Going) -> String {
    let Going { role, number, class, age_ns } = going;
    format!("{} of {} {number}, {}", class.word(), role.word(), format_ns(*age_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_told_from_the_kernels_file() {
        let vmstat = "nr_dirty 3\nnr_writeback_temp 9\nnr_writeback 2\nnr_dirtied 100\n";
        assert_eq!(pages_bytes(vmstat, "nr_dirty", 4096), 3 * 4096);
        assert_eq!(pages_bytes(vmstat, "nr_writeback", 65_536), 2 * 65_536);
    }

    /// A burst at the end of a second is no mean; a device on which nothing ends has what waits for it.
    #[test]
    fn requests_in_flight_are_a_mean_unless_nothing_ends() {
        let disk = |writes: u64, in_flight: u64, in_flight_ms: u64| DiskCounters {
            name: "sda".into(),
            reads: 0,
            read_sectors: 0,
            writes,
            written_sectors: 8 * writes,
            in_flight,
            busy_ms: 10,
            in_flight_ms: Some(in_flight_ms),
            flushes: None,
        };
        let mean = |before: &DiskCounters, now: &DiskCounters| {
            device_second(before, now, 1_000_000_000).in_flight_mean
        };
        let (start, burst) = (disk(100, 0, 1_000), disk(200, 64, 3_000));
        assert!((mean(&start, &burst) - 2.0).abs() < 1e-9);
        let hung = disk(200, 64, 3_000);
        assert!((mean(&burst, &hung) - 64.0).abs() < 1e-9);
    }
}
