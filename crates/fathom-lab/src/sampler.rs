//! Counters of the machine at the borders of the measured window, and progress during it.

use fathom_load::run::{Observer, Syncing, Tick};
use fathom_model::event::{DeviceNow, Event};
use fathom_model::record::{
    CpuTime, DeviceDelta, DriveHeat, HeatRecord, PageCacheDelta, SystemCpu, SystemEvents,
};
use fathom_model::watch::{ApplicationSample, DeviceCounts, DeviceSample, Sample, WatchRecord};
use fathom_sys::clock;
use fathom_sys::counters::{self, DiskCounters, KernelEvents, PageTraffic, SystemCpuTicks};
use fathom_sys::diskstats::{self, FIELDS};
use fathom_sys::family::{self, Usage};
use fathom_sys::process;
use fathom_sys::sysroot::SysRoot;
use fathom_sys::thermal;
use fathom_sys::threads::{self, CpuUse};

/// One reading of everything.
#[derive(Debug, Clone)]
struct Reading {
    process: CpuUse,
    system: SystemCpuTicks,
    events: Option<KernelEvents>,
    disks: Vec<DiskCounters>,
    pages: PageTraffic,
    /// CPU time of the threads of software arrays, by array.
    arrays: Vec<(String, u64)>,
    /// How often processors were slowed down because of heat.
    throttled: Option<u64>,
    /// What the machine has slept since it booted.
    asleep_ns: u64,
}

impl Reading {
    fn take(root: &SysRoot, devices: &[String]) -> Self {
        Self {
            process: threads::process_cpu(),
            system: counters::system_cpu_ticks(root),
            events: counters::kernel_events(root),
            disks: counters::disk_counters(root),
            pages: counters::page_traffic(root),
            arrays: arrays(root, devices),
            throttled: thermal::cpu_throttle_events(root),
            asleep_ns: clock::suspended_ns(),
        }
    }
}

/// Asks only where there are arrays: it means looking at every process.
fn arrays(root: &SysRoot, devices: &[String]) -> Vec<(String, u64)> {
    let names = devices.iter().filter(|name| name.starts_with("md"));
    names
        .filter_map(|name| Some((name.clone(), counters::array_thread_cpu_ns(root, name)?)))
        .collect()
}

/// What changed between the borders of the window.
#[derive(Debug, Clone, Default)]
pub struct Deltas {
    /// CPU of this process.
    pub process_cpu: CpuTime,
    /// CPU of the machine.
    pub system_cpu: SystemCpu,
    /// Interrupts and context switches of the machine.
    pub system_events: Option<SystemEvents>,
    /// Devices that were asked for.
    pub devices: Vec<DeviceDelta>,
    /// Page-cache traffic.
    pub page_cache: PageCacheDelta,
    /// Time slept.
    pub suspended_ns: u64,
    /// What was hot.
    pub heat: HeatRecord,
    /// What the devices counted from tick to tick; none without a device or a tick.
    pub course: Option<Box<WatchRecord>>,
}

/// The planned length of a window that ends with an amount or a number of operations.
pub const NO_TIME_NS: u64 = u64::MAX;

const SECOND_NS: u64 = 1_000_000_000;

/// How often devices are looked at: a little less than the usual interval, which is not kept to the microsecond.
const DEVICES_EVERY_NS: u64 = 900_000_000;

/// Where progress goes, and how it is put into words.
pub struct Progress<'a> {
    /// The row.
    pub label: String,
    /// Expected rest of the whole command after this trial.
    pub rest_after_ns: u64,
    /// Planned length of this trial's window; [`NO_TIME_NS`] when something else ends it.
    pub planned_ns: u64,
    /// Bytes that this trial moves, when that ends it.
    pub planned_bytes: Option<u64>,
    /// True while a test file is being written.
    pub layout: bool,
    /// The receiver.
    pub emit: &'a mut dyn FnMut(Event),
}

/// An observer that reads counters at the borders and passes progress on.
pub struct Sampler<'a> {
    root: &'a SysRoot,
    devices: Vec<String>,
    progress: Progress<'a>,
    begin: Option<Reading>,
    end: Option<Reading>,
    /// The counters as they were looked at last.
    seen: Option<Look>,
    /// When the window began, by the clock that never goes back.
    began_ns: u64,
    program: Option<Followed>,
    course: WatchRecord,
}

/// A program that is the load, with all that it has started.
struct Followed {
    pid: u32,
    /// What it had used at the last look.
    used: Usage,
    /// The most that was seen since.
    most: Usage,
    /// What one that has ended did is told to this user.
    sees_ended: bool,
    /// When the next look in between may be.
    glance_at_ns: u64,
    /// What children that were waited for had read and written when it began.
    waited_for: Usage,
}

impl Followed {
    fn new(pid: u32) -> Self {
        Self {
            pid,
            used: Usage::default(),
            most: Usage::default(),
            sees_ended: process::is_root(),
            glance_at_ns: 0,
            waited_for: family::waited_for(),
        }
    }

    /// What it has used; how many processes that is.
    fn count(&mut self, root: &SysRoot) -> usize {
        let used = family::members(root, self.pid).into_iter();
        let used: Vec<Usage> = used.filter_map(|pid| family::usage(root, pid)).collect();
        let now = used.iter().fold(Usage::default(), |sum, one| sum.plus(*one));
        self.most = now.no_less_than(self.most);
        used.len()
    }

    /// A look in between, as often as it costs little: what a process did last, the kernel may tell nobody but root once it has ended.
    fn glance(&mut self, root: &SysRoot) {
        const SHARE: u64 = 50;
        const EVERY_NS: u64 = 5_000_000;
        let begun_ns = clock::monotonic_ns();
        if !self.sees_ended && begun_ns >= self.glance_at_ns {
            self.count(root);
            let took_ns = clock::monotonic_ns() - begun_ns;
            self.glance_at_ns = begun_ns + (took_ns * SHARE).max(EVERY_NS);
        }
    }

    /// What it did since the last look. At the end that is at least what children that were waited for have read and written.
    fn look(&mut self, root: &SysRoot, passed_ns: u64, is_end: bool) -> ApplicationSample {
        let processes = self.count(root) as u32;
        if is_end {
            let told = family::waited_for().less(self.waited_for);
            let written_bytes = told.written_bytes.saturating_sub(self.most.dropped_bytes);
            let told = Usage { written_bytes, resident_bytes: self.most.resident_bytes, ..told };
            self.most = told.no_less_than(self.most);
        }
        let more = self.most.less(self.used);
        self.used = self.most;
        ApplicationSample {
            processes,
            cpu_share: more.cpu_ns as f64 / passed_ns.max(1) as f64,
            resident_bytes: more.resident_bytes,
            asked_read_bytes: more.asked_read_bytes,
            asked_write_bytes: more.asked_write_bytes,
            read_bytes: more.read_bytes,
            written_bytes: more.written_bytes,
            write_calls: Some(more.write_calls),
        }
    }
}

/// The fields of /proc/diskstats of each device at a moment of the window; none for one that is not there.
struct Look {
    at_ns: u64,
    fields: Vec<Option<[u64; FIELDS]>>,
}

impl<'a> Sampler<'a> {
    /// A sampler for one trial that looks at the named devices.
    pub fn new(root: &'a SysRoot, devices: Vec<String>, progress: Progress<'a>) -> Self {
        Self {
            root,
            devices,
            progress,
            begin: None,
            end: None,
            seen: None,
            began_ns: 0,
            program: None,
            course: WatchRecord::new(SECOND_NS, 0),
        }
    }

    /// From now on a program that has just been started is looked at with the devices.
    pub fn follow(&mut self, pid: u32) {
        self.program = Some(Followed::new(pid));
    }

    /// Looks at the devices, and what is followed, when it is time to.
    pub fn look_again(&mut self) {
        if let Some(program) = &mut self.program {
            program.glance(self.root);
        }
        self.devices_now(false);
    }

    /// Files of the kernel are read, for the devices of the target alone.
    fn look(&self, at_ns: u64) -> Look {
        let fields = self.devices.iter().map(|name| diskstats::fields_of(self.root, name));
        Look { at_ns, fields: fields.collect() }
    }

    /// What the devices did since this was asked last; nothing when that was just now, or before the window. It is kept for the
    /// record.
    fn devices_now(&mut self, is_end: bool) -> Vec<DeviceNow> {
        let now_ns = clock::monotonic_ns().saturating_sub(self.began_ns);
        let is_due = |seen: &Look| is_end || now_ns >= seen.at_ns + DEVICES_EVERY_NS;
        let Some(before) = self.seen.take_if(|seen| is_due(seen)) else { return Vec::new() };
        let now = self.look(now_ns);
        let passed_ns = now.at_ns.saturating_sub(before.at_ns);
        let both = self.devices.iter().zip(before.fields.iter().zip(&now.fields));
        let counts = both.filter_map(|(name, (before, now))| {
            Some((name, DeviceCounts::between(before.as_ref()?, now.as_ref()?)?))
        });
        let counts: Vec<(&String, DeviceCounts)> = counts.collect();
        let told = counts.iter().filter_map(|(name, counts)| device_now(name, counts, passed_ns));
        let told = told.collect();
        let samples = counts.iter().map(|(name, counts)| DeviceSample {
            name: (*name).clone(),
            title: String::new(),
            depth: 0,
            counts: *counts,
            rates: counts.rates(passed_ns),
            stands_out: None,
            array: None,
            interrupts: Vec::new(),
            latency: None,
        });
        let samples = samples.collect();
        let program = self.program.as_mut();
        self.course.push(&Sample {
            index: self.course.intervals() as u64,
            start_ns: before.at_ns,
            length_ns: passed_ns,
            devices: samples,
            application: program.map(|program| program.look(self.root, passed_ns, is_end)),
            ..Sample::default()
        });
        self.seen = Some(now);
        told
    }

    /// The changes over the window.
    pub fn deltas(self) -> Deltas {
        let (Some(begin), Some(end)) = (self.begin, self.end) else { return Deltas::default() };
        let has_course = self.course.intervals() > 0 && !self.course.devices.is_empty();
        Deltas {
            course: has_course.then(|| Box::new(self.course)),
            ..Deltas::between(self.root, &self.devices, &begin, &end)
        }
    }
}

/// Runs what is no workload, and gives what changed meanwhile on the machine and at the named devices.
pub fn around<T>(root: &SysRoot, devices: &[String], work: impl FnOnce() -> T) -> (T, Deltas) {
    let begin = Reading::take(root, devices);
    let done = work();
    let end = Reading::take(root, devices);
    (done, Deltas::between(root, devices, &begin, &end))
}

impl Deltas {
    /// Without a course.
    fn between(root: &SysRoot, devices: &[String], begin: &Reading, end: &Reading) -> Self {
        let cpu = end.process.since(begin.process);
        Self {
            process_cpu: CpuTime { user_ns: cpu.user_ns, system_ns: cpu.system_ns },
            system_cpu: system_shares(begin.system, end.system),
            system_events: begin.events.zip(end.events).map(|(a, b)| events_between(a, b)),
            devices: devices
                .iter()
                .filter_map(|name| {
                    let of = |r: &'_ Reading| r.disks.iter().find(|d| d.name == *name).cloned();
                    let mut delta = device_delta(&of(begin)?, &of(end)?);
                    let cpu =
                        |r: &Reading| r.arrays.iter().find(|(n, _)| n == name).map(|(_, ns)| *ns);
                    delta.kernel_thread_cpu_ns =
                        cpu(begin).zip(cpu(end)).map(|(a, b)| b.saturating_sub(a));
                    Some(delta)
                })
                .collect(),
            page_cache: PageCacheDelta {
                dirtied_bytes: end.pages.dirtied_bytes.saturating_sub(begin.pages.dirtied_bytes),
                paged_in_bytes: end.pages.paged_in_bytes.saturating_sub(begin.pages.paged_in_bytes),
            },
            suspended_ns: slept_ns(begin.asleep_ns, end.asleep_ns),
            course: None,
            heat: HeatRecord {
                cpu_throttle_events: begin
                    .throttled
                    .zip(end.throttled)
                    .map(|(a, b)| b.saturating_sub(a)),
                drives: devices.iter().filter_map(|name| drive_heat(root, name)).collect(),
            },
        }
    }
}

fn drive_heat(root: &SysRoot, name: &str) -> Option<DriveHeat> {
    let celsius = |thousandths: i64| thousandths as f64 / 1000.0;
    let found = thermal::drive_temperature(root, name)?;
    Some(DriveHeat {
        name: name.to_owned(),
        celsius: celsius(found.now_millicelsius),
        limit_celsius: found.limit_millicelsius.map(celsius),
    })
}

/// The two clocks are read one after the other: what a suspend cannot be shorter than is no suspend.
fn slept_ns(begin: u64, end: u64) -> u64 {
    const SHORTEST_NS: u64 = 10_000_000;
    Some(end.saturating_sub(begin)).filter(|ns| *ns >= SHORTEST_NS).unwrap_or(0)
}

fn system_shares(begin: SystemCpuTicks, end: SystemCpuTicks) -> SystemCpu {
    let total = end.total.saturating_sub(begin.total);
    if total == 0 {
        return SystemCpu::default();
    }
    let share = |a: u64, b: u64| b.saturating_sub(a) as f64 / total as f64;
    let (idle, iowait) = (share(begin.idle, end.idle), share(begin.iowait, end.iowait));
    SystemCpu {
        busy_share: (1.0 - idle - iowait).max(0.0),
        iowait_share: iowait,
        steal_share: share(begin.steal, end.steal),
    }
}

fn events_between(begin: KernelEvents, end: KernelEvents) -> SystemEvents {
    SystemEvents {
        interrupts: end.interrupts.saturating_sub(begin.interrupts),
        context_switches: end.context_switches.saturating_sub(begin.context_switches),
    }
}

fn device_delta(begin: &DiskCounters, end: &DiskCounters) -> DeviceDelta {
    // Counters are 64 bits on every 64-bit kernel; a device that was replaced in between starts again at zero.
    let since = |a: u64, b: u64| b.checked_sub(a).unwrap_or(b);
    DeviceDelta {
        name: end.name.clone(),
        reads: since(begin.reads, end.reads),
        read_bytes: since(begin.read_sectors, end.read_sectors) * 512,
        writes: since(begin.writes, end.writes),
        written_bytes: since(begin.written_sectors, end.written_sectors) * 512,
        flushes: end.flushes.map(|f| since(begin.flushes.unwrap_or(0), f)),
        busy_ns: since(begin.busy_ms, end.busy_ms) * 1_000_000,
        in_flight_ns: begin
            .in_flight_ms
            .zip(end.in_flight_ms)
            .map(|(a, b)| since(a, b) * 1_000_000),
        kernel_thread_cpu_ns: None,
    }
}

/// What was counted as what happened per second; none when no time has passed.
fn device_now(name: &str, counts: &DeviceCounts, passed_ns: u64) -> Option<DeviceNow> {
    let rates = counts.rates(passed_ns);
    (passed_ns > 0).then(|| DeviceNow {
        name: name.to_owned(),
        // The kernel counts in milliseconds, read at another moment than the clock.
        busy_share: (rates.util_percent / 100.0).min(1.0),
        in_flight: Some(rates.queue),
        read_bytes_per_s: rates.reads.kib_per_s * 1024.0,
        written_bytes_per_s: rates.writes.kib_per_s * 1024.0,
    })
}

impl Observer for Sampler<'_> {
    fn window_begins(&mut self) {
        self.begin = Some(Reading::take(self.root, &self.devices));
        self.began_ns = clock::monotonic_ns();
        self.seen = Some(self.look(0));
    }

    fn window_ends(&mut self) {
        self.end = Some(Reading::take(self.root, &self.devices));
        self.devices_now(true);
    }

    fn tick(&mut self, tick: Tick) {
        let devices = if self.progress.layout { Vec::new() } else { self.devices_now(false) };
        let progress = &mut self.progress;
        let by_time_ns = (progress.planned_ns != NO_TIME_NS)
            .then(|| progress.planned_ns.saturating_sub(tick.elapsed_ns));
        let is_moving = tick.bytes_total > 0 && tick.elapsed_ns > 0;
        let by_bytes_ns = progress.planned_bytes.filter(|_| is_moving).map(|total| {
            let left = total.saturating_sub(tick.bytes_total) as f64;
            (left / (tick.bytes_total as f64 / tick.elapsed_ns as f64)) as u64
        });
        let rest_ns = match tick.syncing {
            Some(syncing) => syncing.rest_ns(),
            None => by_time_ns.into_iter().chain(by_bytes_ns).min(),
        };
        let eta_ns = rest_ns.map(|ns| ns.saturating_add(progress.rest_after_ns));
        let event = if let Some(Syncing { done, files, .. }) = tick.syncing {
            let label = progress.label.clone();
            Event::Syncing { label, done_files: done, total_files: files, eta_ns, devices }
        } else if progress.layout {
            let total_bytes = progress.planned_bytes.unwrap_or(0);
            Event::Layout { done_bytes: tick.bytes_total, total_bytes, eta_ns }
        } else {
            Event::Progress {
                label: progress.label.clone(),
                elapsed_ns: tick.elapsed_ns,
                eta_ns,
                iops: tick.iops,
                bytes_per_s: tick.bytes_per_s,
                latency_ns_p50: tick.latency_ns_p50,
                latency_ns_p99: tick.latency_ns_p99,
                latency_ns_max: tick.latency_ns_max,
                in_flight: tick.in_flight,
                devices,
            }
        };
        (progress.emit)(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::watch::FlowCounts;

    fn progress(emit: &mut dyn FnMut(Event)) -> Progress<'_> {
        Progress {
            label: "x".into(),
            rest_after_ns: 0,
            planned_ns: NO_TIME_NS,
            planned_bytes: None,
            layout: false,
            emit,
        }
    }

    #[test]
    fn shares_of_cpu_time() {
        let begin = SystemCpuTicks { total: 1000, idle: 500, iowait: 100, steal: 0 };
        let end = SystemCpuTicks { total: 1200, idle: 600, iowait: 150, steal: 10 };
        let shares = system_shares(begin, end);
        assert!(
            (shares.busy_share - 0.25).abs() < 1e-12 && (shares.iowait_share - 0.25).abs() < 1e-12
        );
        assert!((shares.steal_share - 0.05).abs() < 1e-12);
        assert_eq!(system_shares(begin, begin), SystemCpu::default());
    }

    #[test]
    fn the_events_of_a_window_are_those_between_its_borders() {
        let root = SysRoot::live();
        let mut emit = |_| ();
        let before = counters::kernel_events(&root).expect("told");
        let mut sampler = Sampler::new(&root, Vec::new(), progress(&mut emit));
        sampler.window_begins();
        for _ in 0..20 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        sampler.window_ends();
        let outside = events_between(before, counters::kernel_events(&root).expect("told"));
        let inside = sampler.deltas().system_events.expect("told");
        // Each sleep gives the processor away and is ended by a timer's interrupt.
        assert!((20..=outside.context_switches).contains(&inside.context_switches), "{inside:?}");
        assert!((20..=outside.interrupts).contains(&inside.interrupts), "{inside:?}");
    }

    #[test]
    fn counters_of_a_device_as_what_it_does_in_a_second() {
        let reads = FlowCounts { requests: 1, merged: 0, sectors: 8, took_ms: 3 };
        let writes = FlowCounts { sectors: 2, ..reads };
        let counts = DeviceCounts {
            reads,
            writes,
            busy_ms: 501,
            queued_ms: 4000,
            ..DeviceCounts::default()
        };
        let now = device_now("sda", &counts, 500_000_000).expect("time has passed");
        assert_eq!((now.busy_share, now.in_flight), (1.0, Some(8.0)));
        assert_eq!((now.read_bytes_per_s, now.written_bytes_per_s), (8192.0, 2048.0));
        assert_eq!(device_now("sda", &counts, 0), None);
    }

    #[test]
    fn what_devices_counted_in_the_window_is_kept_and_adds_up() {
        let tree = tempfile::tempdir().expect("a directory");
        let sda = tree.path().join("sys/class/block/sda");
        std::fs::create_dir_all(&sda).expect("made");
        let stat = |reads: u64| {
            let text = format!("{reads} 0 {} 0 0 0 0 0 0 7 9", 8 * reads);
            std::fs::write(sda.join("stat"), text).expect("written");
        };
        stat(100);
        let root = SysRoot::at(tree.path());
        let mut emit = |_| ();
        let devices = vec!["sda".to_owned(), "gone".to_owned()];
        let mut sampler = Sampler::new(&root, devices, progress(&mut emit));
        sampler.tick(Tick::default());
        stat(150);
        sampler.window_begins();
        stat(250);
        // Too early for a look, and a second after the one before.
        sampler.tick(Tick::default());
        sampler.began_ns -= SECOND_NS;
        sampler.tick(Tick::default());
        stat(1250);
        sampler.window_ends();
        let course = sampler.deltas().course.expect("a device");
        let [sda] = course.devices.as_slice() else { panic!("{course:?}") };
        let reads: Vec<u64> = sda.counts().iter().map(|counts| counts.reads.requests).collect();
        assert_eq!((sda.name.as_str(), reads), ("sda", vec![100, 1000]));
        assert!(course.length_us.values()[0] >= 1_000_000, "{:?}", course.length_us);
        assert_eq!(course.start_us.values()[1], course.length_us.values()[0]);
    }

    #[test]
    fn what_a_followed_program_uses_is_in_the_course_and_never_goes_back() {
        let tree = tempfile::tempdir().expect("a directory");
        let (sda, program) = (tree.path().join("sys/class/block/sda"), tree.path().join("proc/7"));
        for dir in [&sda, &program] {
            std::fs::create_dir_all(dir).expect("made");
        }
        std::fs::write(sda.join("stat"), "1 0 8 0 0 0 0 0 0 7 9").expect("written");
        let used = |ticks: u64| {
            let text = format!("7 (a b) S 2 7 7 0 -1 1 0 0 0 0 {ticks} 0 0 0 20 0 1 0 9 0 3 0");
            std::fs::write(program.join("stat"), text).expect("written");
        };
        used(0);
        let root = SysRoot::at(tree.path());
        let mut emit = |_| ();
        let mut sampler = Sampler::new(&root, vec!["sda".to_owned()], progress(&mut emit));
        sampler.window_begins();
        sampler.follow(7);
        // Half a second of a processor; less, while another one hands it over; three tenths more than before.
        for ticks in [50, 20, 80] {
            used(ticks);
            sampler.began_ns -= SECOND_NS;
            sampler.look_again();
        }
        sampler.look_again();
        let course = sampler.course;
        let cpu = course.application.values("cpu", 3);
        assert!((400_000..=500_000).contains(&cpu[0]), "{cpu:?}");
        assert!(cpu[1] == 0 && (240_000..=300_000).contains(&cpu[2]), "{cpu:?}");
        assert_eq!(course.application.values("processes", 3), [1, 1, 1]);
        assert!(course.application.values("resident", 3)[0] > 0);
    }

    /// Who is not root is not told what one did that has ended: what it did a moment before that counts.
    #[test]
    fn what_a_program_did_last_is_seen_in_between() {
        let tree = tempfile::tempdir().expect("a directory");
        let program = tree.path().join("proc/7");
        std::fs::create_dir_all(&program).expect("made");
        let stat = "7 (a b) S 2 7 7 0 -1 1 0 0 0 0 10 0 0 0 20 0 1 0 9 0 3 0";
        std::fs::write(program.join("stat"), stat).expect("written");
        std::fs::write(program.join("io"), "wchar: 900\nwrite_bytes: 800\n").expect("written");
        let root = SysRoot::at(tree.path());
        for (sees_ended, seen) in [(false, (900, 800)), (true, (0, 0))] {
            let mut followed = Followed { sees_ended, ..Followed::new(7) };
            followed.glance(&root);
            std::fs::rename(program.join("io"), program.join("none")).expect("taken away");
            let sample = followed.look(&root, SECOND_NS, false);
            assert_eq!((sample.asked_write_bytes, sample.written_bytes), seen, "{sample:?}");
            std::fs::rename(program.join("none"), program.join("io")).expect("put back");
        }
    }

    /// The rest that is told while a file of 1000 bytes is written, with a microsecond of other things after it.
    fn rest_told(planned_ns: u64, elapsed_ns: u64, bytes_total: u64) -> Option<u64> {
        let mut events = Vec::new();
        let mut emit = |e| events.push(e);
        let progress = Progress {
            label: "x".into(),
            rest_after_ns: 1_000,
            planned_ns,
            planned_bytes: Some(1_000),
            layout: true,
            emit: &mut emit,
        };
        let root = SysRoot::live();
        let mut sampler = Sampler::new(&root, Vec::new(), progress);
        sampler.tick(Tick { elapsed_ns, bytes_total, ..Tick::default() });
        match events[..] {
            [Event::Layout { done_bytes, total_bytes: 1_000, eta_ns }] => {
                assert_eq!(done_bytes, bytes_total);
                eta_ns
            }
            _ => panic!("{events:?}"),
        }
    }

    /// A time that is over, and bytes that have all moved, do not tell how long the syncs take that are left.
    #[test]
    fn what_is_left_of_the_last_syncs_is_told() {
        let told = |done| {
            let mut events = Vec::new();
            let mut emit = |e| events.push(e);
            let progress = Progress {
                rest_after_ns: 1_000,
                planned_ns: 5_000,
                planned_bytes: Some(1_000),
                ..progress(&mut emit)
            };
            let root = SysRoot::live();
            let syncing = Some(Syncing { done, files: 100, elapsed_ns: 5_000 });
            let tick = Tick { elapsed_ns: 10_000, bytes_total: 1_000, syncing, ..Tick::default() };
            Sampler::new(&root, Vec::new(), progress).tick(tick);
            match &events[..] {
                [Event::Syncing { label, done_files, total_files: 100, eta_ns, .. }] => {
                    assert_eq!((label.as_str(), *done_files), ("x", done));
                    *eta_ns
                }
                _ => panic!("{events:?}"),
            }
        };
        assert_eq!(told(50), Some(6_000));
        assert_eq!(told(0), None);
        assert_eq!(told(100), Some(1_000));
    }

    #[test]
    fn progress_expects_the_rest_from_time_or_bytes_whichever_comes_first() {
        assert_eq!(rest_told(60_000, 10_000, 500), Some(11_000));
        assert_eq!(rest_told(12_000, 10_000, 500), Some(3_000));
        // Nothing has moved yet: time alone, where there is a limit.
        assert_eq!(rest_told(60_000, 10_000, 0), Some(51_000));
        assert_eq!(rest_told(NO_TIME_NS, 10_000, 0), None);
        assert_eq!(rest_told(NO_TIME_NS, 10_000, 250), Some(31_000));
        // Late, and more than was asked for.
        assert_eq!(rest_told(5_000, 10_000, 0), Some(1_000));
        assert_eq!(rest_told(NO_TIME_NS, 10_000, 2_000), Some(1_000));
    }
}
