//! Events from the running kernel.

use super::event::{Action, Event, Names};
use super::layout::{Layout, Layouts};
use fathom_sys::clock;
use fathom_sys::devno::DevNo;
use fathom_sys::sysroot::SysRoot;
use fathom_sys::tracefs::Tracefs;
use fathom_sys::tracing::{Entry, OpenError, Rings, TracePoint};
use std::ffi::CString;
use std::io;
use std::time::Duration;
use thiserror::Error;

/// What is captured: a device, or a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watched {
    /// The whole device: requests to partitions are told as its own.
    pub device: DevNo,
    /// First sector and number of sectors of a partition.
    pub part: Option<(u64, u64)>,
}

/// Why a capture cannot begin.
#[derive(Debug, Error)]
pub enum CaptureError {
    /// The kernel's tracing files cannot be reached.
    #[error("{0}")]
    Denied(String),
    /// The kernel cannot do it.
    #[error("{0}")]
    Missing(String),
}

impl CaptureError {
    /// The same, with what is possible all the same.
    fn and_say(self, more: &str) -> Self {
        match self {
            Self::Denied(text) => Self::Denied(text + more),
            Self::Missing(text) => Self::Missing(text + more),
        }
    }
}

/// What can be had where nothing can be captured.
const ELSE: &str = "; without them: rates, sizes and times of the device from its counters (fathom watch), and fathom replay and --from on traces \
                    that were made before";

/// Rings of all processors together have at most this, of one at most and at least that.
const RINGS_BYTES_MAX: usize = 64 << 20;
const RING_BYTES_MAX: usize = 8 << 20;
const RING_BYTES_MIN: usize = 128 << 10;

/// How often what came is held against the tracepoints' own counts: asking for one interrupts its processor.
const COUNT_NS: u64 = 1_000_000_000;

/// What came in the last moment stays for the next round: another processor may still be writing down what was before it.
const SETTLE_NS: u64 = 2_000_000;

/// Tracepoints that are on until this is dropped or the process ends, however it ends.
pub struct Capture {
    rings: Rings,
    layouts: Layouts,
    names: Names,
    waiting: Vec<Event>,
    /// All tracepoints are on from then on: before that, a beginning may be there without its end.
    from_ns: u64,
    tracepoints: Vec<String>,
    /// Events that were read from the rings.
    read: u64,
    lost: u64,
    /// When the tracepoints' own counts were last looked at.
    counted_ns: u64,
    late: u64,
    last_ns: u64,
    start_sector: u64,
    is_own_mount: bool,
    root: SysRoot,
    processors: Processors,
}

impl Capture {
    /// Opens the tracepoints of the block layer on all processors, for one device. Nothing is recorded before
    /// [`Capture::start`].
    ///
    /// # Errors
    /// [`CaptureError`] says what is missing, and what to do.
    pub fn open(root: &SysRoot, watched: Watched) -> Result<Self, CaptureError> {
        let files = Tracefs::open(root, true).map_err(|e| no_tracefs(&e).and_say(ELSE))?;
        let mut points = Vec::new();
        let mut layouts = Layouts::default();
        let mut tracepoints = Vec::new();
        for action in Action::ALL {
            let Ok(format) = files.event("block", action.tracepoint()) else { continue };
            let Some(layout) = Layout::of(action, &format) else { continue };
            let filter = filter(watched, format.field("nr_sector").is_some());
            points.push(TracePoint { id: format.id, filter: CString::new(filter).ok() });
            layouts.add(format.id, layout);
            tracepoints.push(action.tracepoint().to_owned());
        }
        let has = |action: Action| tracepoints.iter().any(|name| name == action.tracepoint());
        if !(has(Action::Queue) || has(Action::Issue) && has(Action::Complete)) {
            let text = "this kernel has no tracepoints of the block layer in the form that fathom knows (CONFIG_BLOCK, \
                        CONFIG_EVENT_TRACING); fathom watch needs none";
            return Err(CaptureError::Missing(text.to_owned()));
        }
        let processors = Processors::now(root);
        let rings = open_rings(&points, &processors.online)?;
        let start_sector = watched.part.map_or(0, |(start, _)| start);
        let is_own_mount = files.is_own_mount();
        let (names, waiting) = (Names::default(), Vec::new());
        let (read, lost, counted_ns, late, last_ns) = (0, 0, clock::monotonic_ns(), 0, 0);
        Ok(Self {
            rings,
            layouts,
            names,
            waiting,
            from_ns: 0,
            tracepoints,
            read,
            lost,
            counted_ns,
            late,
            last_ns,
            start_sector,
            is_own_mount,
            root: root.clone(),
            processors,
        })
    }

    /// Switches the tracepoints on.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn start(&mut self) -> io::Result<()> {
        self.rings.enable()?;
        self.from_ns = clock::monotonic_ns();
        Ok(())
    }

    /// The tracepoints that are recorded.
    #[must_use]
    pub fn tracepoints(&self) -> &[String] {
        &self.tracepoints
    }

    /// True where the tracing files were not mounted, and are in a mount that only this process has.
    #[must_use]
    pub fn is_own_mount(&self) -> bool {
        self.is_own_mount
    }

    /// Names of the processes seen.
    #[must_use]
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Events that found no room in the rings by now.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Events that came after later ones had been handed on.
    #[must_use]
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Processors that came online since the rings were opened, by number: what happened on them is in none of the rings.
    #[must_use]
    pub fn came_online(&self) -> &[u32] {
        &self.processors.came
    }

    /// Waits for a while, or until there is much to read, and hands on what is certain, in order of time.
    ///
    /// # Errors
    /// Those of waiting, and those of `take`.
    pub fn round(
        &mut self,
        wait: Duration,
        take: &mut impl FnMut(&Event, &Names) -> io::Result<()>,
    ) -> io::Result<()> {
        self.rings.wait(wait)?;
        let now_ns = clock::monotonic_ns();
        let is_due = now_ns.saturating_sub(self.counted_ns) >= COUNT_NS;
        // Counted before: all of these are in the rings by now, or nowhere.
        let passed = if is_due { self.rings.passed()? } else { 0 };
        self.drain();
        keep(&mut self.waiting, self.from_ns, u64::MAX);
        if is_due {
            (self.counted_ns, self.lost) =
                (now_ns, self.lost.max(passed.saturating_sub(self.read)));
            self.processors.look(&self.root);
        }
        self.hand_on(now_ns.saturating_sub(SETTLE_NS), take)
    }

    /// Switches the tracepoints off and hands on the rest.
    ///
    /// # Errors
    /// Those of the kernel, and those of `take`.
    pub fn stop(
        &mut self,
        take: &mut impl FnMut(&Event, &Names) -> io::Result<()>,
    ) -> io::Result<()> {
        let until_ns = clock::monotonic_ns();
        self.rings.disable()?;
        self.drain();
        keep(&mut self.waiting, self.from_ns, until_ns);
        // A ring says what it had no room for with the next event that finds some: what was lost last it never says.
        let passed = self.rings.passed()?;
        self.lost = self.lost.max(passed.saturating_sub(self.read));
        self.processors.look(&self.root);
        self.hand_on(u64::MAX, take)
    }

    fn drain(&mut self) {
        let Self { rings, layouts, names, waiting, read, lost, .. } = self;
        for ring in 0..rings.count() {
            let cpu = rings.cpu(ring);
            rings.drain(ring, &mut |entry| match entry {
                Entry::Lost(count) => *lost += count,
                Entry::Sample { time_ns, process, raw } => {
                    *read += 1;
                    if let Some(mut event) = layouts.read(raw, names) {
                        (event.time_ns, event.process) = (time_ns, process);
                        event.cpu = cpu as u16;
                        waiting.push(event);
                    }
                }
            });
        }
    }

    fn hand_on(
        &mut self,
        until_ns: u64,
        take: &mut impl FnMut(&Event, &Names) -> io::Result<()>,
    ) -> io::Result<()> {
        // Each ring is in order: the stable sort finds its runs and merges them.
        self.waiting.sort_by_key(|event| event.time_ns);
        let count = self.waiting.partition_point(|event| event.time_ns <= until_ns);
        for event in &mut self.waiting[..count] {
            if event.time_ns < self.last_ns {
                self.late += 1;
            } else {
                self.last_ns = event.time_ns;
            }
            event.sector = event.sector.saturating_sub(self.start_sector);
            take(event, &self.names)?;
        }
        self.waiting.drain(..count);
        Ok(())
    }
}

/// Tracepoints go on and off one after the other: what happened meanwhile is there in part.
fn keep(events: &mut Vec<Event>, from_ns: u64, until_ns: u64) {
    events.retain(|event| (from_ns..=until_ns).contains(&event.time_ns));
}

fn filter(watched: Watched, has_count: bool) -> String {
    // As the kernel holds device numbers inside.
    let device = watched.device.major << 20 | watched.device.minor;
    let Some((start, count)) = watched.part else { return format!("dev == {device}") };
    let inside = format!("sector >= {start} && sector < {}", start + count);
    // Flushes are of the whole device.
    let flush = if has_count { " || nr_sector == 0" } else { "" };
    format!("dev == {device} && ({inside}{flush})")
}

pub(crate) fn open_rings(points: &[TracePoint], cpus: &[u32]) -> Result<Rings, CaptureError> {
    let share = RINGS_BYTES_MAX / cpus.len().max(1);
    let mut ring_bytes = share.clamp(RING_BYTES_MIN, RING_BYTES_MAX);
    ring_bytes = 1 << ring_bytes.ilog2();
    loop {
        match Rings::open(points, cpus, ring_bytes) {
            Ok(rings) => return Ok(rings),
            // The limit of locked memory, or no such memory left.
            Err(error) if may_be_smaller(&error) && ring_bytes > RING_BYTES_MIN => ring_bytes /= 2,
            Err(error) => return Err(no_rings(&error)),
        }
    }
}

fn may_be_smaller(error: &OpenError) -> bool {
    error.what == "making rings for traces" && matches!(error.source.raw_os_error(), Some(1 | 12))
}

pub(crate) fn no_tracefs(error: &io::Error) -> CaptureError {
    match error.kind() {
        io::ErrorKind::PermissionDenied => CaptureError::Denied(
            "reading the kernel's tracing files (/sys/kernel/tracing) needs root, or a mount of them that a group may read"
                .to_owned(),
        ),
        io::ErrorKind::NotFound => CaptureError::Missing(
            "this kernel has no tracing files (CONFIG_FTRACE, CONFIG_EVENT_TRACING)".to_owned(),
        ),
        _ => CaptureError::Missing(format!("the kernel's tracing files: {error}")),
    }
}

fn no_rings(error: &OpenError) -> CaptureError {
    let OpenError { what, source } = error;
    match source.raw_os_error() {
        Some(1 | 13) => CaptureError::Denied(format!(
            "{what}: {source}; it needs root or CAP_PERFMON (in a container also that the host allows perf_event_open, sysctl \
             kernel.perf_event_paranoid), and a kernel that is not locked down for confidentiality"
        )),
        Some(24) => CaptureError::Missing(format!(
            "{what}: {source}; raise the limit of descriptors (ulimit -n)"
        )),
        _ => CaptureError::Missing(format!("{what}: {source}")),
    }
}

/// The processors that run, and those that came since rings were opened for all of them. One that goes takes its tracepoints along, and
/// is a new one when it comes back.
#[derive(Debug, Default)]
pub(crate) struct Processors {
    /// At the last look.
    pub(crate) online: Vec<u32>,
    /// Since the first one, in their order.
    came: Vec<u32>,
}

impl Processors {
    pub(crate) fn now(root: &SysRoot) -> Self {
        Self { online: online_cpus(root), came: Vec::new() }
    }

    /// Looks again. True when some have come since the last time.
    pub(crate) fn look(&mut self, root: &SysRoot) -> bool {
        let now = online_cpus(root);
        let before = std::mem::replace(&mut self.online, now);
        let new: Vec<u32> =
            self.online.iter().copied().filter(|cpu| !before.contains(cpu)).collect();
        self.came.extend(&new);
        self.came.sort_unstable();
        self.came.dedup();
        !new.is_empty()
    }
}

/// The processors that run, by number; the first where that cannot be read.
fn online_cpus(root: &SysRoot) -> Vec<u32> {
    let list = root.text("sys/devices/system/cpu/online").unwrap_or_default();
    let mut cpus = Vec::new();
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<u32>(), last.trim().parse::<u32>()) {
            cpus.extend(first..=last.min(first + 8191));
        }
    }
    if cpus.is_empty() { vec![0] } else { cpus }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_testkit::Tree;

    /// An arrival while others were still off, one of each later on, and an end while the first of them were off again.
    #[test]
    fn what_happens_while_tracepoints_go_on_and_off_is_left_out() {
        let at = |action, time_ns| Event::new(action, time_ns);
        let mut events = vec![
            at(Action::Queue, 90),
            at(Action::Queue, 100),
            at(Action::Complete, 200),
            at(Action::Complete, 201),
        ];
        keep(&mut events, 100, 200);
        let times: Vec<u64> = events.iter().map(|event| event.time_ns).collect();
        assert_eq!(times, [100, 200]);
    }

    #[test]
    fn processors_that_come_are_told_and_those_that_go_are_not() {
        let tree = Tree::new();
        let online = |list: &str| tree.put("sys/devices/system/cpu/online", format!("{list}\n"));
        online("0-1,4");
        let mut processors = Processors::now(&tree.root());
        assert_eq!(processors.online, [0, 1, 4]);
        let mut look = |list: &str| {
            online(list);
            (processors.look(&tree.root()), processors.came.clone())
        };
        assert_eq!(look("0-1,4"), (false, vec![]));
        assert_eq!(look("0-1"), (false, vec![]));
        // Its tracepoints went with it.
        assert_eq!(look("0-1,4"), (true, vec![4]));
        assert_eq!(look("0-4"), (true, vec![2, 3, 4]));
        assert_eq!(look("0-4"), (false, vec![2, 3, 4]));
        let none = Processors::now(&Tree::new().root());
        assert_eq!(none.online, [0], "where that cannot be read");
    }
}
