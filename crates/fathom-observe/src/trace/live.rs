//! Events from the running kernel.

use super::event::{Action, Event, Names};
use super::layout::{Layout, Layouts};
use super::waiting::Waiting;
use fathom_sys::clock;
use fathom_sys::devno::DevNo;
use fathom_sys::process::{self, FIRST_PID_NAMESPACE, ProcessIdentity};
use fathom_sys::sysroot::SysRoot;
use fathom_sys::threads;
use fathom_sys::tracefs::Tracefs;
use fathom_sys::tracing::{Meddling, OpenError, Recorder, TracePoint};
use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::os::fd::BorrowedFd;
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

/// How often what came is held against the kernel's own counts: asking for one may interrupt its processor.
const COUNT_NS: u64 = 1_000_000_000;

/// What came in the last moment stays for the next round: another processor may still be writing down what was before it.
const SETTLE_NS: u64 = 2_000_000;

/// Tracepoints that are on until this is dropped or the process ends, however it ends.
pub struct Capture {
    recorder: Recorder,
    layouts: Layouts,
    names: Names,
    threads: Threads,
    waiting: Waiting,
    /// All tracepoints are on from then on: before that, a beginning may be there without its end.
    from_ns: u64,
    tracepoints: Vec<String>,
    /// When the kernel's own counts were last looked at.
    counted_ns: u64,
    /// What came up to then can be handed on.
    certain_ns: u64,
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
            points.push(point(action, format.id, CString::new(filter).ok()));
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
        let recorder = open_recorder(&files, &points, &processors.online)?;
        let start_sector = watched.part.map_or(0, |(start, _)| start);
        let is_own_mount = files.is_own_mount();
        Ok(Self {
            recorder,
            layouts,
            names: Names::default(),
            threads: Threads::new(root),
            waiting: Waiting::default(),
            from_ns: 0,
            tracepoints,
            counted_ns: clock::monotonic_ns(),
            certain_ns: 0,
            late: 0,
            last_ns: 0,
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
        self.recorder.start()?;
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

    /// Why events come from rings of perf events instead of a trace instance, where they do.
    #[must_use]
    pub fn without_instance(&self) -> Option<String> {
        self.recorder.without_instance().map(ToString::to_string)
    }

    /// What somebody else has done to the trace instance by now.
    #[must_use]
    pub fn meddling(&self) -> Option<Meddling> {
        self.recorder.meddling()
    }

    /// Names of the processes seen.
    #[must_use]
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Events that found no room in the rings by now.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.recorder.lost()
    }

    /// Events that came after later ones had been handed on.
    #[must_use]
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Processors that came online since it was opened, by number, of which nothing is recorded.
    #[must_use]
    pub fn came_online(&self) -> &[u32] {
        &self.processors.came
    }

    /// Waits for a while, until there is much to read, or until `beside` can be read; whether there may be much.
    ///
    /// # Errors
    /// Those of waiting.
    pub fn wait(&mut self, time: Duration, beside: Option<BorrowedFd<'_>>) -> io::Result<bool> {
        self.recorder.wait(time, beside)
    }

    /// Takes what is in the rings.
    ///
    /// # Errors
    /// Those of reading.
    pub fn read(&mut self) -> io::Result<()> {
        let now_ns = clock::monotonic_ns();
        let is_due = now_ns.saturating_sub(self.counted_ns) >= COUNT_NS;
        if is_due {
            self.counted_ns = now_ns;
            self.look();
        }
        self.drain(is_due, u64::MAX)?;
        self.certain_ns = now_ns.saturating_sub(SETTLE_NS);
        Ok(())
    }

    /// Switches the tracepoints off and takes the rest.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn stop(&mut self) -> io::Result<()> {
        let until_ns = clock::monotonic_ns();
        self.recorder.stop()?;
        self.look();
        // A ring of perf events says what it had no room for with the next event that finds some: what was lost last it never says.
        self.drain(true, until_ns)?;
        self.certain_ns = u64::MAX;
        Ok(())
    }

    /// Ends it; the name of its trace instance when that is still there because somebody has it open.
    #[must_use]
    pub fn close(self) -> Option<String> {
        self.recorder.close()
    }

    fn look(&mut self) {
        let Self { processors, recorder, root, .. } = self;
        processors.look(root, |cpu| recorder.follow(cpu));
    }

    fn drain(&mut self, counts: bool, until_ns: u64) -> io::Result<()> {
        let Self { recorder, layouts, names, waiting, threads, from_ns, .. } = self;
        let tells_threads = recorder.tells_threads();
        recorder.take(counts, &mut |cpu, sample| {
            if !is_whole(sample.time_ns, *from_ns, until_ns) {
                return;
            }
            let process =
                if tells_threads { threads.process(sample.process) } else { sample.process };
            waiting.add(cpu, sample.time_ns, |events| {
                let is_one = layouts.push(events, sample.raw, names);
                if let Some(event) = events.last_mut().filter(|_| is_one) {
                    (event.time_ns, event.process, event.cpu) =
                        (sample.time_ns, process, cpu as u16);
                }
            });
        })?;
        Ok(())
    }

    /// Hands on what was taken and is certain by now, in order of time; what came after `until_ns` is left out.
    ///
    /// # Errors
    /// Those of `take`.
    pub fn hand_on(
        &mut self,
        until_ns: u64,
        take: &mut impl FnMut(&Event, &Names) -> io::Result<()>,
    ) -> io::Result<()> {
        let Self { waiting, certain_ns, last_ns, late, start_sector, names, .. } = self;
        waiting.hand_on(*certain_ns, |event| {
            if event.time_ns < *last_ns {
                *late += 1;
            } else {
                *last_ns = event.time_ns;
            }
            event.sector = event.sector.saturating_sub(*start_sector);
            if event.time_ns <= until_ns { take(event, names) } else { Ok(()) }
        })
    }
}

/// Tracepoints go on and off one after the other: what happened meanwhile is there in part.
fn is_whole(time_ns: u64, from_ns: u64, until_ns: u64) -> bool {
    (from_ns..=until_ns).contains(&time_ns)
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

/// The tracepoint of an action.
pub(crate) fn point(action: Action, id: u32, filter: Option<CString>) -> TracePoint {
    TracePoint { id, name: format!("block/{}", action.tracepoint()), filter }
}

pub(crate) fn open_recorder(
    files: &Tracefs,
    points: &[TracePoint],
    cpus: &[u32],
) -> Result<Recorder, CaptureError> {
    Recorder::open(files, points, cpus).map_err(|error| no_rings(&error))
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
        _ => {
            let cure = threads::descriptors_cure(source).unwrap_or_default();
            CaptureError::Missing(format!("{what}: {source}{cure}"))
        }
    }
}

/// The processors that run, and those that came since the first look and are not followed. One that goes takes rings of perf events along,
/// and is a new one when it comes back.
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

    /// Looks again. True when some have come since the last time that cannot be followed.
    pub(crate) fn look(&mut self, root: &SysRoot, mut follow: impl FnMut(u32) -> bool) -> bool {
        let now = online_cpus(root);
        let before = std::mem::replace(&mut self.online, now);
        let is_new = |cpu: &u32| !before.contains(cpu) && !follow(*cpu);
        let new: Vec<u32> = self.online.iter().copied().filter(is_new).collect();
        self.came.extend(&new);
        self.came.sort_unstable();
        self.came.dedup();
        !new.is_empty()
    }
}

/// The processes of threads, as far as they were seen. Trace instances tell threads.
struct Threads {
    root: SysRoot,
    /// In a namespace of its own this process has other numbers for them than the kernel.
    has_other_numbers: bool,
    /// The last one of some numbers: a look into the larger table costs more than all else of an event.
    last: [(u32, u32); Self::LAST],
    processes: HashMap<u32, u32>,
}

impl Threads {
    /// A power of two.
    const LAST: usize = 256;
    /// More than that are asked for anew.
    const KNOWN_MAX: usize = 1 << 16;

    fn new(root: &SysRoot) -> Self {
        let namespace = ProcessIdentity::current(root).map(|own| own.pid_namespace);
        let has_other_numbers = namespace.is_some_and(|namespace| namespace != FIRST_PID_NAMESPACE);
        let (last, processes) = ([(0, 0); Self::LAST], HashMap::new());
        Self { root: root.clone(), has_other_numbers, last, processes }
    }

    /// The process of a thread; its own number where that cannot be told, as of one that has ended.
    fn process(&mut self, thread: u32) -> u32 {
        if self.has_other_numbers {
            return thread;
        }
        let last = &mut self.last[thread as usize % Self::LAST];
        if last.0 != thread {
            if self.processes.len() >= Self::KNOWN_MAX {
                self.processes.clear();
            }
            let root = &self.root;
            let of = |thread| process::of_thread(root, thread).unwrap_or(thread);
            *last = (thread, *self.processes.entry(thread).or_insert_with(|| of(thread)));
        }
        last.1
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
        let whole = [90, 100, 200, 201].map(|time_ns| is_whole(time_ns, 100, 200));
        assert_eq!(whole, [false, true, true, false]);
    }

    #[test]
    fn threads_are_told_as_their_processes() {
        let tree = Tree::new();
        let status = |thread: u32, process: u32| {
            tree.put(
                format!("proc/{thread}/status"),
                format!("Name:\tx\nTgid:\t{process}\nPid:\t{thread}\n"),
            );
        };
        status(300, 300);
        status(301, 300);
        // In the place of another one.
        status(301 + 256, 557);
        let mut threads = Threads::new(&tree.root());
        let told = [300, 301, 557, 301, 9, 0].map(|thread| threads.process(thread));
        assert_eq!(told, [300, 300, 557, 300, 9, 0]);
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
            (processors.look(&tree.root(), |cpu| cpu == 3), processors.came.clone())
        };
        assert_eq!(look("0-1,4"), (false, vec![]));
        assert_eq!(look("0-1"), (false, vec![]));
        // Its tracepoints went with it.
        assert_eq!(look("0-1,4"), (true, vec![4]));
        // One that can be followed is none of them.
        assert_eq!(look("0-4"), (true, vec![2, 4]));
        assert_eq!(look("0-2,4"), (false, vec![2, 4]));
        assert_eq!(look("0-4"), (false, vec![2, 4]));
        let none = Processors::now(&Tree::new().root());
        assert_eq!(none.online, [0], "where that cannot be read");
    }
}
