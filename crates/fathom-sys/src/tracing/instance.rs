//! A trace instance of our own: rings that nobody else writes into or reads, with the tracepoints that are wanted and a condition for each.
//!
//! The kernel hands out whole pages of them, so that reading costs a system call for some hundred records.

use super::guardian::{self, Guardian};
use super::left::Owner;
use super::page::PageForm;
use super::perf::wait_for;
use super::{Entry, Meddling, OpenError, RING_BYTES_MIN, TracePoint};
use crate::hostinfo::page_bytes;
use crate::sysroot::SysRoot;
use crate::tracefs::Tracefs;
use rustix::fs::{Mode, OFlags, mkdirat, openat};
use std::cmp::Ordering;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

/// More of one process at a time are a mistake.
const OWN_MAX: u32 = 1000;
/// The kernel is asked for pages of that size, or smaller ones of which a ring has so many; kernels before 6.9 have their own.
const PAGE_KIB_MAX: usize = 32;
const PAGES_OF_A_RING: usize = 32;
/// The share of a ring from which on a wait ends.
const WAKE_PERCENT: u32 = 25;
/// What the longest of the files that are read has.
const TEXT_BYTES_MAX: usize = 16 << 10;
/// How long is slept on kernels that would wake a reader for each record.
const NAP: Duration = Duration::from_millis(10);

/// The instance. Dropping it removes it.
pub(super) struct Instance {
    // Before the home: it cannot be removed while these are open.
    rings: Vec<Ring>,
    home: Home,
    /// The files that say what is recorded.
    settings: Vec<String>,
    /// Each of them that there is, with what it says while this is on.
    as_set: Vec<(String, String)>,
    form: PageForm,
    page: Vec<u8>,
    ring_bytes: usize,
    /// The last wait ended before its time.
    was_woken: bool,
    /// Waits end with the first record: this kernel does not look at how full a ring is.
    wakes_early: bool,
}

/// One processor's.
struct Ring {
    cpu: u32,
    pages: OwnedFd,
    stats: OwnedFd,
    /// Records that were taken from it.
    read: u64,
}

impl Instance {
    /// Makes it, with all that it is to record, switched off, and about `ring_bytes` for each processor.
    ///
    /// # Errors
    /// Those of each step; nothing is left of it then.
    pub(super) fn open(
        files: &Tracefs,
        points: &[TracePoint],
        cpus: &[u32],
        ring_bytes: usize,
    ) -> Result<Self, OpenError> {
        let home = Home::make(files)?;
        // Not those of whoever has the tracing files for himself.
        home.write("options/overwrite", "1")
            .map_err(OpenError::at("preparing a trace instance"))?;
        home.write("trace_clock", "mono").map_err(OpenError::at("choosing the clock of traces"))?;
        let _ = home.write("buffer_percent", &WAKE_PERCENT.to_string());
        let ring_bytes = home.make_rings(ring_bytes)?;
        let form = home.form(files).map_err(OpenError::at("reading events/header_page"))?;
        for point in points {
            home.enable(point)?;
        }
        let of_point =
            |point: &TracePoint| OF_POINT.map(|name| format!("events/{}/{name}", point.name));
        let settings = points.iter().flat_map(of_point).chain(OF_ALL.map(str::to_owned)).collect();
        let mut made = Self {
            rings: Vec::new(),
            home,
            settings,
            as_set: Vec::new(),
            page: vec![0; form.bytes],
            form,
            ring_bytes,
            was_woken: false,
            wakes_early: false,
        };
        let opening = OpenError::at("opening the rings of a trace instance");
        cpus.iter().try_for_each(|cpu| made.follow(*cpu)).map_err(opening)?;
        Ok(made)
    }

    /// Removes it; its name when somebody has it open, so that it stays.
    pub(super) fn close(self) -> Option<String> {
        let Self { rings, home, .. } = self;
        drop(rings);
        home.close()
    }

    /// Switches it on or off.
    pub(super) fn record(&mut self, is_on: bool) -> io::Result<()> {
        self.home.write(SWITCH, if is_on { "1" } else { "0" })?;
        self.as_set.clear();
        if is_on {
            let now = |name: &String| Some((name.clone(), self.home.setting(name).ok()?));
            self.as_set = self.settings.iter().filter_map(now).collect();
        }
        Ok(())
    }

    /// What somebody else has done to it, the worst of it when it is more.
    pub(super) fn meddling(&self) -> io::Result<Option<Meddling>> {
        for (name, as_set) in &self.as_set {
            if self.home.setting(name)? != *as_set {
                return Ok(Some(Meddling::SwitchedOff));
            }
        }
        let of_rings = self.rings.iter().map(Ring::meddling);
        Ok(of_rings.collect::<io::Result<Vec<_>>>()?.into_iter().max().flatten())
    }

    /// Reads the ring of one more processor from now on. It has one since it came online.
    pub(super) fn follow(&mut self, cpu: u32) -> io::Result<()> {
        if self.rings.iter().any(|ring| ring.cpu == cpu) {
            return Ok(());
        }
        let open = |name: &str| self.home.open(&format!("per_cpu/cpu{cpu}/{name}"), OFlags::RDONLY);
        let (pages, stats) = (open("trace_pipe_raw")?, open("stats")?);
        self.rings.push(Ring { cpu, pages, stats, read: 0 });
        Ok(())
    }

    /// Waits until a quarter of a ring is full or `beside` can be read, at most for `time`; whether there may be much to read.
    pub(super) fn wait(
        &mut self,
        time: Duration,
        beside: Option<BorrowedFd<'_>>,
    ) -> io::Result<bool> {
        if self.wakes_early {
            std::thread::sleep(time.min(NAP));
            return Ok(true);
        }
        self.was_woken = wait_for(self.rings.iter().map(|ring| &ring.pages), beside, time)?;
        Ok(self.was_woken)
    }

    /// Takes all that is in the rings.
    pub(super) fn drain(&mut self, take: &mut impl FnMut(u32, Entry<'_>)) -> io::Result<()> {
        let pages_max = self.ring_bytes / self.form.bytes + 2;
        let mut pages_most = 0;
        for ring in &mut self.rings {
            // One that is filled as fast as it is read must not hold up the others.
            for count in 0..pages_max {
                let Some(length) = ring.page(&mut self.page)? else { break };
                self.form.read(&self.page[..length], &mut |entry| {
                    ring.read += u64::from(matches!(entry, Entry::Sample(_)));
                    take(ring.cpu, entry);
                });
                pages_most = pages_most.max(count + 1);
            }
        }
        // A quarter was asked for.
        self.wakes_early |= self.was_woken && pages_most * 16 < pages_max;
        self.was_woken = false;
        Ok(())
    }

    /// Records that were overwritten, found no room, or were taken by somebody else, since the beginning.
    pub(super) fn lost(&self) -> io::Result<u64> {
        self.rings.iter().map(Ring::lost).sum()
    }
}

impl Ring {
    /// Reads the next page; how much of it there is, and none when there is nothing.
    fn page(&self, page: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match rustix::io::read(&self.pages, &mut *page) {
                Ok(0) | Err(rustix::io::Errno::AGAIN) => return Ok(None),
                Ok(length) => return Ok(Some(length)),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn stats(&self) -> io::Result<String> {
        let mut text = [0; 1024];
        let length = rustix::io::pread(&self.stats, &mut text, 0)?;
        Ok(String::from_utf8_lossy(&text[..length]).into_owned())
    }

    fn lost(&self) -> io::Result<u64> {
        let stats = self.stats()?;
        let taken = count(&stats, &["read events"]).saturating_sub(self.read);
        Ok(count(&stats, &LOST) + taken)
    }

    /// The kernel counts what is read, by whomever, since the ring was cleared.
    fn meddling(&self) -> io::Result<Option<Meddling>> {
        Ok(match count(&self.stats()?, &["read events"]).cmp(&self.read) {
            Ordering::Less => Some(Meddling::Cleared),
            Ordering::Equal => None,
            Ordering::Greater => Some(Meddling::Read),
        })
    }
}

/// The counts of records that were overwritten or found no room.
const LOST: [&str; 3] = ["overrun", "commit overrun", "dropped events"];

/// The sum of these counts of a `stats` file.
fn count(stats: &str, names: &[&str]) -> u64 {
    let of_line = |line: &str| {
        let (name, number) = line.split_once(':')?;
        number.trim().parse::<u64>().ok().filter(|_| names.contains(&name))
    };
    stats.lines().filter_map(of_line).sum()
}

/// The file that switches recording on and off.
pub(super) const SWITCH: &str = "tracing_on";
/// What else decides what is recorded: of each tracepoint, and of all of them.
const OF_POINT: [&str; 2] = ["enable", "filter"];
const OF_ALL: [&str; 5] =
    [SWITCH, "tracing_cpumask", "set_event_pid", "set_event_notrace_pid", "trace_clock"];

/// The instance's directory, with the process that removes it.
struct Home {
    instances: OwnedFd,
    name: CString,
    switch: CString,
    guardian: Option<Guardian>,
}

impl Home {
    fn make(files: &Tracefs) -> Result<Self, OpenError> {
        let making = OpenError::at("making a trace instance");
        let instances = files.instances().map_err(&making)?;
        let owner =
            Owner::this(&SysRoot::live()).ok_or_else(|| making(io::ErrorKind::NotFound.into()))?;
        let mut made = None;
        for number in 0..OWN_MAX {
            let name = owner.name(number);
            match mkdirat(&instances, name.as_str(), Mode::RWXU) {
                Ok(()) => made = Some(name),
                // Another of this process.
                Err(rustix::io::Errno::EXIST) => continue,
                Err(error) => return Err(making(error.into())),
            }
            break;
        }
        let name = made.ok_or_else(|| making(io::ErrorKind::AlreadyExists.into()))?;
        let switch = CString::new(format!("{name}/{SWITCH}")).unwrap_or_default();
        let name = CString::new(name).unwrap_or_default();
        let mut home = Self { instances, name, switch, guardian: None };
        // In a copy that finds nothing on it, there is nothing to be switched off.
        home.write(SWITCH, "0").map_err(&making)?;
        let guardian = Guardian::start(home.instances.as_fd(), &home.name, &home.switch);
        home.guardian = Some(
            guardian
                .map_err(OpenError::at("starting the process that removes a trace instance"))?,
        );
        Ok(home)
    }

    fn close(mut self) -> Option<String> {
        self.guardian = None;
        let is_gone = guardian::remove(self.instances.as_fd(), &self.name, &self.switch, 1);
        (!is_gone).then(|| self.name.to_string_lossy().into_owned())
    }

    fn open(&self, below: &str, flags: OFlags) -> io::Result<OwnedFd> {
        let path = Path::new(self.name.to_str().unwrap_or_default()).join(below);
        let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK;
        Ok(openat(&self.instances, path.as_path(), flags, Mode::empty())?)
    }

    fn write(&self, below: &str, value: &str) -> io::Result<()> {
        let file = self.open(below, OFlags::WRONLY)?;
        rustix::io::write(&file, value.as_bytes())?;
        Ok(())
    }

    fn text(&self, below: &str) -> io::Result<String> {
        let file = self.open(below, OFlags::RDONLY)?;
        let mut bytes = vec![0; TEXT_BYTES_MAX];
        let length = rustix::io::read(&file, &mut *bytes)?;
        Ok(String::from_utf8_lossy(&bytes[..length]).into_owned())
    }

    /// What such a file says; a star behind it is a trigger that somebody else has there.
    fn setting(&self, below: &str) -> io::Result<String> {
        Ok(self.text(below)?.trim_end_matches(['\n', '*']).to_owned())
    }

    /// Makes the rings as large as may be, and says how large they are.
    fn make_rings(&self, mut ring_bytes: usize) -> Result<usize, OpenError> {
        let page_kib = (ring_bytes >> 10) / PAGES_OF_A_RING;
        let page_kib = page_kib.min(PAGE_KIB_MAX).max(page_bytes() as usize >> 10);
        let _ = self.write("buffer_subbuf_size_kb", &page_kib.to_string());
        loop {
            match self.write("buffer_size_kb", &(ring_bytes >> 10).to_string()) {
                Ok(()) => return Ok(ring_bytes),
                Err(error)
                    if error.raw_os_error() == Some(libc::ENOMEM)
                        && ring_bytes > RING_BYTES_MIN =>
                {
                    ring_bytes /= 2;
                }
                Err(error) => return Err(OpenError::at("making rings for traces")(error)),
            }
        }
    }

    /// Instances have had a description of their pages since they have pages of their own size.
    fn form(&self, files: &Tracefs) -> io::Result<PageForm> {
        let text = self.text("events/header_page").or_else(|_| files.text("events/header_page"))?;
        PageForm::parse(&text).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "pages have a form that is not known")
        })
    }

    fn enable(&self, point: &TracePoint) -> Result<(), OpenError> {
        let dir = Path::new("events").join(&point.name);
        let write = |name: &str, value: &str| self.write(&dir.join(name).to_string_lossy(), value);
        if let Some(filter) = &point.filter {
            write("filter", &filter.to_string_lossy())
                .map_err(OpenError::at("filtering tracepoints by device"))?;
        }
        write("enable", "1").map_err(OpenError::at("switching tracepoints on"))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.guardian = None;
        // There was none yet, or somebody has killed it.
        guardian::remove(self.instances.as_fd(), &self.name, &self.switch, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_read_from_the_counts_of_a_ring() {
        let stats = "entries: 158\noverrun: 1042\ncommit overrun: 3\nbytes: 10528\noldest event ts: 15558.431073\n\
                     now ts: 15558.465965\ndropped events: 4\nread events: 56\n";
        assert_eq!((count(stats, &LOST), count(stats, &["read events"])), (1049, 56));
        assert_eq!(count("", &LOST), 0);
    }
}
