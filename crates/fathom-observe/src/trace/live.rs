//! Events from the running kernel.

use super::event::{Action, Names};
use super::file::{Until, Writer};
use super::layout::{Layout, Layouts};
use super::threads::Threads;
use super::transcript::Transcript;
use fathom_sys::clock;
use fathom_sys::devno::DevNo;
use fathom_sys::sysroot::SysRoot;
use fathom_sys::threads;
use fathom_sys::tracefs::Tracefs;
use fathom_sys::tracing::{Meddling, OpenError, Recorder, TracePoint};
use std::ffi::CString;
use std::io::{self, Write};
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
    transcript: Transcript,
    /// All tracepoints are on from then on: before that, a beginning may be there without its end.
    from_ns: u64,
    tracepoints: Vec<String>,
    /// When the kernel's own counts were last looked at.
    counted_ns: u64,
    /// Of what came up to then nothing is missing.
    whole_ns: u64,
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
        let threads = recorder.tells_threads().then(|| Threads::new(root));
        let is_own_mount = files.is_own_mount();
        Ok(Self {
            recorder,
            transcript: Transcript::new(layouts, watched.part, threads),
            from_ns: 0,
            tracepoints,
            counted_ns: clock::monotonic_ns(),
            whole_ns: 0,
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
        self.transcript.names()
    }

    /// Events that found no room in the rings by now.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.recorder.lost()
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
        self.whole_ns = now_ns.saturating_sub(SETTLE_NS);
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
        self.whole_ns = u64::MAX;
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
        let Self { recorder, transcript, from_ns, .. } = self;
        recorder.take(counts, &mut |cpu, sample| {
            if is_whole(sample.time_ns, *from_ns, until_ns) {
                transcript.add(cpu, &sample);
            }
        })?;
        Ok(())
    }

    /// There is enough to be written.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.transcript.is_full()
    }

    /// Writes what was taken; what came after `until_ns` is left out.
    ///
    /// # Errors
    /// Those of writing.
    pub fn write<W: Write>(&mut self, writer: &mut Writer<W>, until_ns: u64) -> io::Result<()> {
        self.transcript.write(writer, Until { whole_ns: self.whole_ns, own_ns: until_ns })
    }
}

/// Tracepoints go on and off one after the other: what happened meanwhile is there in part.
fn is_whole(time_ns: u64, from_ns: u64, until_ns: u64) -> bool {
    (from_ns..=until_ns).contains(&time_ns)
}

/// Requests of the whole disk that begin so far before a partition at the most may reach into it: 16 MiB.
const REACH_SECTORS: u64 = 16 << 11;

fn filter(watched: Watched, has_count: bool) -> String {
    // As the kernel holds device numbers inside.
    let device = watched.device.major << 20 | watched.device.minor;
    let Some((start, count)) = watched.part else { return format!("dev == {device}") };
    // The kernel's filters cannot add: what begins before it and may reach into it is looked at when it comes.
    let from = start.saturating_sub(REACH_SECTORS);
    let inside = format!("sector >= {from} && sector < {}", start + count);
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
    fn of_a_partition_what_reaches_into_it_passes_too() {
        let device = fathom_sys::devno::DevNo { major: 7, minor: 3 };
        let of = |part| filter(Watched { device, part }, true);
        assert_eq!(of(None), "dev == 7340035");
        let inside = "dev == 7340035 && (sector >= 67232 && sector < 108192 || nr_sector == 0)";
        assert_eq!(of(Some((100_000, 8192))), inside);
        assert!(of(Some((2048, 8192))).contains("sector >= 0 && sector < 10240"));
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
