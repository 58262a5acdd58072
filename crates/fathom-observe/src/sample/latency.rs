//! How long devices take for each request, from block tracepoints: what the counters, which know means only, cannot tell.
//!
//! The tracepoints are off when this process ends, however it ends. Events of all processors are
//! put in order of time; those of an interval end with the moment of its counters, so that both tell of the same requests.

use super::layers::Layer;
use crate::trace::event::{Action, Class, Event, Names};
use crate::trace::flight::{Done, Flight, Level};
use crate::trace::layout::{Layout, Layouts};
use crate::trace::live::{CaptureError, Processors, no_tracefs, open_recorder, point};
use fathom_model::watch::{FlowLatency, LatencySample, Sample};
use fathom_stats::histogram::Histogram;
use fathom_sys::clock;
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use fathom_sys::tracefs::Tracefs;
use fathom_sys::tracing::{Meddling, Recorder};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;
use std::time::Duration;

/// How long an interval waits for what other processors still write down; on short ones less.
const SETTLE_NS: u64 = 20_000_000;
/// What came within this time stays for the next round.
const ORDER_NS: u64 = 20_000_000;
/// Conditions with more devices than that cost the kernel more than they save.
const FILTERED_MAX: usize = 32;

/// Steps of devices that have a queue of the kernel's.
const QUEUED: [Action; 3] = [Action::Issue, Action::Complete, Action::Requeue];
/// Steps of those that have none.
const QUEUELESS: [Action; 2] = [Action::Queue, Action::BioComplete];

/// Latencies of the watched devices.
pub struct Latency {
    root: SysRoot,
    /// Those that are followed, and those that have come since.
    processors: Processors,
    recorder: Recorder,
    layouts: Layouts,
    /// By the number that the kernel uses inside.
    devices: BTreeMap<u32, Device>,
    /// The layers that these are of.
    names: Vec<String>,
    waiting: Vec<(u32, Event)>,
    done: Vec<Done>,
    /// Requests that ended before are in no counter's difference.
    begun_ns: u64,
    interval_ns: u64,
    /// Events that were lost before this interval.
    lost_before: u64,
}

/// One device.
struct Device {
    name: String,
    /// Which of its requests count.
    level: Level,
    flight: Flight,
    /// The counters have known of nothing in flight since the first of these moments, at the second.
    idle: Option<(u64, u64)>,
    reads: Histogram,
    writes: Histogram,
}

impl Device {
    fn new(name: String, level: Level) -> Self {
        let (reads, writes) = (Histogram::new(), Histogram::new());
        Self { name, level, flight: flight(), idle: None, reads, writes }
    }

    /// Takes the next step; what ended before `begun_ns` does not count.
    fn step(&mut self, event: &Event, done: &mut Vec<Done>, begun_ns: u64) {
        // Kernels lose an end in a million without a word. The next request to the same place would be told as far too long.
        if let Some((at_ns, _)) = self.idle.take_if(|(_, read_ns)| event.time_ns > *read_ns) {
            self.flight.forget_before(at_ns);
        }
        done.clear();
        self.flight.step(event, done);
        for one in done {
            if one.level == self.level && one.end_ns >= begun_ns {
                self.count(one);
            }
        }
    }

    fn count(&mut self, done: &Done) {
        let took_ns = done.end_ns - done.start_ns;
        match done.class {
            Class::Read => self.reads.record(took_ns),
            Class::Write => self.writes.record(took_ns),
            _ => {}
        }
    }

    fn take(&mut self) -> LatencySample {
        let sample = LatencySample {
            reads: FlowLatency::of(&self.reads),
            writes: FlowLatency::of(&self.writes),
            from_arrival: self.level == Level::Arrived,
        };
        self.reads.clear();
        self.writes.clear();
        sample
    }
}

/// What is lost is known at the end of an interval, too late for what was told of it.
fn flight() -> Flight {
    let mut flight = Flight::default();
    flight.had_losses();
    flight
}

impl Latency {
    /// Switches the tracepoints on for these devices.
    ///
    /// # Errors
    /// [`CaptureError`] says what is missing.
    pub fn start(root: &SysRoot, layers: &[Layer], interval_ns: u64) -> Result<Self, CaptureError> {
        let (devices, processors) = (devices(root, layers), Processors::now(root));
        let (recorder, layouts) = open(root, &devices, &processors.online)?;
        Ok(Self {
            root: root.clone(),
            processors,
            recorder,
            layouts,
            devices,
            names: names(layers),
            waiting: Vec::new(),
            done: Vec::new(),
            begun_ns: clock::monotonic_ns(),
            interval_ns,
            lost_before: 0,
        })
    }

    /// From this moment on requests count.
    pub fn begin(&mut self, at_ns: u64) {
        self.begun_ns = at_ns;
    }

    /// Waits so long at the most, and takes in what happens meanwhile when it is much.
    pub fn wait(&mut self, most: Duration) {
        match self.recorder.wait(most, None) {
            Ok(true) => {
                // Taken before: what one ring gets while another is read belongs to the next round.
                let until_ns = clock::monotonic_ns().saturating_sub(ORDER_NS);
                self.drain(false);
                self.follow(until_ns);
            }
            Ok(false) => {}
            Err(_) => std::thread::sleep(most),
        }
    }

    /// Puts what ended in the interval into its sample, whose counters were read at that moment. Devices and processors that have come
    /// since are followed from now on.
    pub fn fill(&mut self, sample: &mut Sample, layers: &[Layer], at_ns: u64) {
        let read_ns = clock::monotonic_ns();
        let settled_ns = at_ns + SETTLE_NS.min(self.interval_ns / 4);
        let left_ns = settled_ns.saturating_sub(clock::monotonic_ns());
        std::thread::sleep(Duration::from_nanos(left_ns));
        let Self { processors, recorder, root, .. } = self;
        let has_new = processors.look(root, |cpu| recorder.follow(cpu));
        self.drain(true);
        self.follow(at_ns);
        let lost = self.recorder.lost() - self.lost_before;
        self.lost_before += lost;
        // Some kernels pass over some without a word.
        if lost > 0 {
            self.devices.values_mut().for_each(|device| device.flight.forget_before(at_ns));
        }
        for device in self.devices.values_mut() {
            let told = device.take();
            let its = sample.devices.iter_mut().find(|its| its.name == device.name);
            let Some(its) = its else { continue };
            device.idle = (its.counts.in_flight == 0).then_some((at_ns, read_ns));
            its.latency = Some(Box::new(told));
        }
        sample.latency_lost = Some(lost);
        let is_needed = has_new || self.recorder.meddling() == Some(Meddling::SwitchedOff);
        if is_needed || names(layers) != self.names {
            self.reopen(layers, is_needed);
        }
    }

    /// Why events come from rings of perf events instead of a trace instance, where they do.
    #[must_use]
    pub fn without_instance(&self) -> Option<String> {
        self.recorder.without_instance().map(ToString::to_string)
    }

    /// Follows another set of devices, or the same on other processors. What is in flight then does not count: its end may pass unseen.
    fn reopen(&mut self, layers: &[Layer], is_needed: bool) {
        self.names = names(layers);
        let devices = devices(&self.root, layers);
        let numbers = |of: &BTreeMap<u32, Device>| of.keys().copied().collect::<Vec<_>>();
        if !is_needed && numbers(&devices) == numbers(&self.devices) {
            return;
        }
        // Out of descriptors: those that were followed still are.
        let opened = open(&self.root, &devices, &self.processors.online);
        let Ok((recorder, layouts)) = opened else { return };
        (self.recorder, self.layouts, self.devices) = (recorder, layouts, devices);
        self.lost_before = 0;
        self.waiting.clear();
    }

    fn drain(&mut self, counts: bool) {
        let Self { recorder, layouts, devices, waiting, .. } = self;
        let mut nobody = Names::default();
        let told = recorder.take(counts, &mut |_, sample| {
            let number = layouts.device(sample.raw).filter(|number| devices.contains_key(number));
            let event = number.and_then(|_| layouts.read(sample.raw, &mut nobody));
            if let (Some(number), Some(event)) = (number, event) {
                waiting.push((number, Event { time_ns: sample.time_ns, ..event }));
            }
        });
        if told.is_ok_and(|lost| lost > 0) {
            // Ends may be among what was lost: whatever is in flight could be told as far too long.
            devices.values_mut().for_each(|device| device.flight = flight());
            waiting.clear();
        }
    }

    /// Follows all that happened up to that moment.
    fn follow(&mut self, until_ns: u64) {
        // Each ring is in order: the stable sort finds its runs and merges them.
        self.waiting.sort_by_key(|(_, event)| event.time_ns);
        let count = self.waiting.partition_point(|(_, event)| event.time_ns <= until_ns);
        for (number, event) in self.waiting.drain(..count) {
            let Some(device) = self.devices.get_mut(&number) else { continue };
            device.step(&event, &mut self.done, self.begun_ns);
        }
    }
}

fn names(layers: &[Layer]) -> Vec<String> {
    layers.iter().map(|layer| layer.name.clone()).collect()
}

/// The devices whose requests can be told apart: partitions have none of their own.
fn devices(root: &SysRoot, layers: &[Layer]) -> BTreeMap<u32, Device> {
    let mut found = BTreeMap::new();
    for layer in layers {
        let Some(dir) = BlockDir::by_name(root, &layer.name) else { continue };
        let Some(devno) = dir.devno().filter(|_| !dir.is_partition()) else { continue };
        let level = if dir.has("mq") { Level::Issued } else { Level::Arrived };
        let number = devno.major << 20 | devno.minor;
        found.insert(number, Device::new(layer.name.clone(), level));
    }
    found
}

/// Opens the tracepoints that these devices need, and switches them on.
fn open(
    root: &SysRoot,
    devices: &BTreeMap<u32, Device>,
    processors: &[u32],
) -> Result<(Recorder, Layouts), CaptureError> {
    let files = Tracefs::open(root, true).map_err(|error| no_tracefs(&error))?;
    let (mut points, mut layouts) = (Vec::new(), Layouts::default());
    let mut add = |actions: &[Action], level: Level| {
        let of_level = devices.iter().filter(|(_, device)| device.level == level);
        let numbers: Vec<u32> = of_level.map(|(number, _)| *number).collect();
        let mut added = 0;
        // Devices that come are not known yet: without any, one condition that none fulfils is enough.
        if numbers.is_empty() && level == Level::Arrived {
            return added;
        }
        for action in actions {
            let Ok(format) = files.event("block", action.tracepoint()) else { continue };
            let Some(layout) = Layout::of(*action, &format) else { continue };
            points.push(point(*action, format.id, filter(&numbers)));
            layouts.add(format.id, layout.nameless());
            added += 1;
        }
        added
    };
    let queued = add(&QUEUED, Level::Issued);
    add(&QUEUELESS, Level::Arrived);
    if queued < 2 {
        let text = "this kernel has no tracepoints of the block layer in the form that fathom knows (CONFIG_BLOCK, \
                    CONFIG_EVENT_TRACING)";
        return Err(CaptureError::Missing(text.to_owned()));
    }
    let mut recorder = open_recorder(&files, &points, processors)?;
    recorder.start().map_err(|error: io::Error| {
        CaptureError::Missing(format!("switching tracepoints on: {error}"))
    })?;
    Ok((recorder, layouts))
}

/// Only what is about these devices; all when they are too many.
fn filter(numbers: &[u32]) -> Option<CString> {
    if numbers.len() > FILTERED_MAX {
        return None;
    }
    let none = || vec!["dev == 0".to_owned()];
    let each: Vec<String> = numbers.iter().map(|number| format!("dev == {number}")).collect();
    let each = if each.is_empty() { none() } else { each };
    CString::new(each.join(" || ")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_name_the_devices_while_they_are_few() {
        let text = |count: u32| {
            let numbers: Vec<u32> = (1..=count).collect();
            filter(&numbers).map(|text| text.into_string().unwrap())
        };
        assert_eq!(text(0).as_deref(), Some("dev == 0"));
        assert_eq!(text(2).as_deref(), Some("dev == 1 || dev == 2"));
        assert_eq!(text(FILTERED_MAX as u32 + 1), None);
    }

    #[test]
    fn a_lost_end_makes_no_request_long() {
        let step = |action, time_ns| {
            let event = Event::new(action, time_ns);
            Event { class: Class::Read, sector: 8, sectors: 8, ..event }
        };
        let mut device = Device::new("sda".into(), Level::Issued);
        let mut done = Vec::new();
        let mut take = |device: &mut Device, event| device.step(&event, &mut done, 50);
        // This one ends before anything counts, and the end of the next is lost.
        take(&mut device, step(Action::Issue, 10));
        take(&mut device, step(Action::Complete, 20));
        take(&mut device, step(Action::Issue, 100));
        // The counters, read between 200 and 205, know of nothing in flight.
        device.idle = Some((200, 205));
        take(&mut device, step(Action::Issue, 300));
        take(&mut device, step(Action::Complete, 307));
        let told = device.take().reads.unwrap();
        assert_eq!((told.count, told.max_ns), (1, 7));
        // One that ended while they were read counts with its time.
        take(&mut device, step(Action::Issue, 399));
        device.idle = Some((400, 405));
        take(&mut device, step(Action::Complete, 403));
        let told = device.take().reads.unwrap();
        assert_eq!((told.count, told.max_ns), (1, 4));
        assert_eq!(device.take().reads, None);
    }

    #[test]
    fn partitions_are_none_and_queues_are_known() {
        let tree = fathom_testkit::Tree::new();
        tree.device("x/block/sda", "8:0", &[("mq/0/x", "")]);
        tree.device("x/block/sda/sda1", "8:1", &[("partition", "1")]);
        tree.device("v/block/md0", "9:0", &[("md/level", "raid1")]);
        let layer = |name: &str| Layer { name: name.to_owned(), ..Layer::default() };
        let found = devices(&tree.root(), &["sda", "sda1", "md0", "none"].map(layer));
        let told: Vec<_> = found.iter().map(|(n, d)| (*n, d.name.as_str(), d.level)).collect();
        assert_eq!(told, [(8 << 20, "sda", Level::Issued), (9 << 20, "md0", Level::Arrived)]);
    }
}
