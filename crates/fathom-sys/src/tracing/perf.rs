//! Tracepoints read from a ring of perf events for each processor.
//!
//! The tracepoints are on as long as their descriptors are open: whatever ends this process, SIGKILL included, switches them off.
//! The kernel writes records into memory that is shared with this process, so that reading costs no system call but the wait.

use super::{Entry, OpenError, Sample, TracePoint};
use crate::hostinfo::page_bytes;
use crate::tracefs::owned;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// `struct perf_event_attr` as of its fifth version, which every kernel since 4.8 takes.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_bytes: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clock: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

const KIND_TRACEPOINT: u32 = 2;
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_RAW: u64 = 1 << 10;
const FLAG_DISABLED: u64 = 1;
const FLAG_WATERMARK: u64 = 1 << 14;
const FLAG_CLOCK: u64 = 1 << 25;
const OPEN_CLOEXEC: libc::c_ulong = 8;
/// The step that takes the memory.
const MAKING: &str = "making rings for traces";
const IOC_ENABLE: u32 = 0x2400;
const IOC_DISABLE: u32 = 0x2401;
const IOC_SET_OUTPUT: u32 = 0x2405;
const IOC_SET_FILTER: u32 = 0x4008_2406;
/// Places in the first page of a ring.
const HEAD_AT: usize = 1024;
const TAIL_AT: usize = 1032;
const RECORD_LOST: u32 = 2;
const RECORD_SAMPLE: u32 = 9;
/// Header, process, thread, time, length.
const SAMPLE_HEAD_BYTES: usize = 28;

/// The rings of some processors.
pub(super) struct Rings {
    rings: Vec<Ring>,
    scratch: Vec<u8>,
}

/// One processor's.
struct Ring {
    cpu: u32,
    /// The first of them is the ring's.
    events: Vec<OwnedFd>,
    map: Shared,
}

impl Rings {
    /// Opens the tracepoints on these processors, switched off, with `ring_bytes` (a power of two, at least a page) for each. A
    /// reader is woken when a quarter of a ring is full.
    ///
    /// # Errors
    /// EACCES and EPERM for who may not trace; EPERM and ENOMEM also for rings that are too large.
    pub(super) fn open(
        points: &[TracePoint],
        cpus: &[u32],
        ring_bytes: usize,
    ) -> Result<Self, OpenError> {
        let mut rings = Vec::with_capacity(cpus.len());
        for cpu in cpus {
            match Ring::open(points, *cpu, ring_bytes) {
                Ok(ring) => rings.push(ring),
                // The processor has gone.
                Err(error) if error.source.raw_os_error() == Some(libc::ENODEV) => {}
                Err(error) => return Err(error),
            }
        }
        if rings.is_empty() {
            let source = io::Error::from_raw_os_error(libc::ENODEV);
            return Err(OpenError { what: "opening tracepoints", source });
        }
        Ok(Self { rings, scratch: Vec::new() })
    }

    /// Switches all of them on.
    ///
    /// # Errors
    /// Those of the ioctl.
    pub(super) fn enable(&self) -> io::Result<()> {
        self.all(IOC_ENABLE)
    }

    /// Switches all of them off; what is in the rings can still be read.
    ///
    /// # Errors
    /// Those of the ioctl.
    pub(super) fn disable(&self) -> io::Result<()> {
        self.all(IOC_DISABLE)
    }

    fn all(&self, request: u32) -> io::Result<()> {
        let mut events = self.rings.iter().flat_map(|ring| &ring.events);
        events.try_for_each(|event| ioctl(event, request, 0))
    }

    /// How often the tracepoints were passed since they were opened, whether or not there was room to write it down.
    ///
    /// # Errors
    /// Those of read(2).
    pub(super) fn passed(&self) -> io::Result<u64> {
        let events = self.rings.iter().flat_map(|ring| &ring.events);
        events.map(passed).sum()
    }

    /// Waits until a quarter of a ring is full, at most for `time`; whether one is.
    ///
    /// # Errors
    /// Those of poll(2).
    pub(super) fn wait(&self, time: Duration, beside: Option<BorrowedFd<'_>>) -> io::Result<bool> {
        wait_for(self.rings.iter().filter_map(|ring| ring.events.first()), beside, time)
    }

    /// Takes all that is in them, each processor's in its order.
    pub(super) fn drain(&mut self, take: &mut impl FnMut(u32, Entry<'_>)) {
        let Self { rings, scratch } = self;
        for Ring { cpu, map, .. } in rings {
            map.drain(scratch, &mut |entry| take(*cpu, entry));
        }
    }
}

impl OpenError {
    /// The limit of locked memory, or no such memory left.
    pub(super) fn is_of_memory(&self) -> bool {
        self.what == MAKING
            && matches!(self.source.raw_os_error(), Some(libc::EPERM | libc::ENOMEM))
    }
}

/// Waits at most for `time` until one of these or `beside` has something to read, and whether one of these has.
pub(super) fn wait_for<'f>(
    files: impl Iterator<Item = &'f OwnedFd>,
    beside: Option<BorrowedFd<'_>>,
    time: Duration,
) -> io::Result<bool> {
    let mut fds: Vec<PollFd<'_>> = files.map(|file| PollFd::new(file, PollFlags::IN)).collect();
    let count = fds.len();
    fds.extend(beside.map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN)));
    let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
    match poll(&mut fds, Some(&time)) {
        Ok(_) => Ok(fds[..count].iter().any(|fd| !fd.revents().is_empty())),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl Ring {
    fn open(points: &[TracePoint], cpu: u32, ring_bytes: usize) -> Result<Self, OpenError> {
        let failed = OpenError::at;
        let mut events: Vec<OwnedFd> = Vec::with_capacity(points.len());
        let mut map = None;
        for point in points {
            let event =
                open_event(point.id, cpu, ring_bytes / 4).map_err(failed("opening tracepoints"))?;
            if let Some(filter) = &point.filter {
                // The kernel copies the text during the call.
                ioctl(&event, IOC_SET_FILTER, filter.as_ptr() as usize)
                    .map_err(failed("filtering tracepoints by device"))?;
            }
            match events.first() {
                None => map = Some(Shared::new(&event, ring_bytes).map_err(failed(MAKING))?),
                Some(first) => {
                    ioctl(&event, IOC_SET_OUTPUT, first.as_raw_fd() as usize)
                        .map_err(failed("joining tracepoints in a ring"))?;
                }
            }
            events.push(event);
        }
        let map =
            map.ok_or_else(|| failed("opening tracepoints")(io::ErrorKind::InvalidInput.into()))?;
        Ok(Self { cpu, events, map })
    }
}

fn open_event(id: u32, cpu: u32, wakeup_bytes: usize) -> io::Result<OwnedFd> {
    let attributes = Attributes {
        kind: KIND_TRACEPOINT,
        size: size_of::<Attributes>() as u32,
        config: u64::from(id),
        sample_period: 1,
        sample_type: SAMPLE_TID | SAMPLE_TIME | SAMPLE_RAW,
        flags: FLAG_DISABLED | FLAG_WATERMARK | FLAG_CLOCK,
        wakeup_bytes: wakeup_bytes as u32,
        clock: libc::CLOCK_MONOTONIC,
        ..Attributes::default()
    };
    // SAFETY: the kernel reads `size` bytes of the structure during the call; the rest are numbers.
    owned(unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw const attributes, -1, cpu, -1, OPEN_CLOEXEC)
    })
}

/// The count of one of them.
fn passed(event: &OwnedFd) -> io::Result<u64> {
    let mut count = [0; 8];
    match rustix::io::read(event, &mut count)? {
        8 => Ok(u64::from_ne_bytes(count)),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn ioctl(fd: &OwnedFd, request: u32, argument: usize) -> io::Result<()> {
    // SAFETY: the requests take a number, or a text that ends in zero and that the caller keeps.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), request as libc::Ioctl, argument) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The memory that a ring shares with the kernel: a page with positions, then the data.
struct Shared {
    start: NonNull<u8>,
    page_bytes: usize,
    data_bytes: usize,
}

// SAFETY: the mapping belongs to this value alone, and is reached through it only.
unsafe impl Send for Shared {}

impl Shared {
    fn new(event: &OwnedFd, data_bytes: usize) -> io::Result<Self> {
        let page_bytes = page_bytes() as usize;
        if !data_bytes.is_power_of_two() || data_bytes < page_bytes {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let length = page_bytes + data_bytes;
        // SAFETY: a new mapping; no existing memory is named.
        let start =
            unsafe { mmap(std::ptr::null_mut(), length, protection, MapFlags::SHARED, event, 0)? };
        let start =
            NonNull::new(start.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Self { start, page_bytes, data_bytes })
    }

    fn position(&self, at: usize) -> &AtomicU64 {
        // SAFETY: the first page is mapped as long as this value lives, and the places of both positions are aligned. The
        // kernel writes one of them and reads the other, each as a whole.
        unsafe { &*self.start.as_ptr().add(at).cast::<AtomicU64>() }
    }

    /// The data; what lies between tail and head does not change.
    fn bytes(&self, from: u64, length: usize) -> &[u8] {
        let at = (from as usize) & (self.data_bytes - 1);
        debug_assert!(at + length <= self.data_bytes);
        // SAFETY: the range lies inside the data, which are mapped as long as this value lives, and before the head: the
        // kernel does not write there until the tail has passed it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(self.page_bytes + at), length) }
    }

    fn drain(&mut self, scratch: &mut Vec<u8>, take: &mut impl FnMut(Entry<'_>)) {
        let head = self.position(HEAD_AT).load(Ordering::Acquire);
        let mut tail = self.position(TAIL_AT).load(Ordering::Relaxed);
        while head != tail {
            // The kernel writes whole records, in steps of eight bytes. Where it did not, nothing behind can be told apart.
            if head.wrapping_sub(tail) < 8 {
                tail = unreadable(head, take);
                break;
            }
            let header = self.bytes(tail, 8);
            let (kind, size) =
                (u32_at(header, 0), usize::from(u16::from_ne_bytes([header[6], header[7]])));
            if size < 8 || size as u64 > head.wrapping_sub(tail) {
                tail = unreadable(head, take);
                break;
            }
            let room = self.data_bytes - ((tail as usize) & (self.data_bytes - 1));
            if size <= room {
                decode(kind, self.bytes(tail, size), take);
            } else {
                scratch.clear();
                scratch.extend_from_slice(self.bytes(tail, room));
                scratch.extend_from_slice(self.bytes(tail + room as u64, size - room));
                decode(kind, scratch, take);
            }
            tail += size as u64;
        }
        self.position(TAIL_AT).store(tail, Ordering::Release);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the range is our own mapping, and nothing refers to it any more.
        let _ = unsafe {
            rustix::mm::munmap(self.start.as_ptr().cast(), self.page_bytes + self.data_bytes)
        };
    }
}

/// Gives up what is left of a ring: how many records that is nobody knows, but not none. Where to read on.
fn unreadable(head: u64, take: &mut impl FnMut(Entry<'_>)) -> u64 {
    take(Entry::Lost(1));
    head
}

fn decode(kind: u32, record: &[u8], take: &mut impl FnMut(Entry<'_>)) {
    match kind {
        RECORD_SAMPLE => {
            let process = u32_at(record, 8);
            let time_ns = u64_at(record, 16);
            let end = SAMPLE_HEAD_BYTES + u32_at(record, 24) as usize;
            // A sample without its record is one that is lost.
            take(match record.get(SAMPLE_HEAD_BYTES..end) {
                Some(raw) => Entry::Sample(Sample { time_ns, process, raw }),
                None => Entry::Lost(1),
            });
        }
        RECORD_LOST if record.len() >= 24 => take(Entry::Lost(u64_at(record, 16))),
        RECORD_LOST => take(Entry::Lost(1)),
        // Told by the kernel besides: no events of ours.
        _ => {}
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_taken_apart() {
        let mut record = vec![0; 8];
        for part in [7u32, 9] {
            record.extend_from_slice(&part.to_ne_bytes());
        }
        record.extend_from_slice(&123_456u64.to_ne_bytes());
        record.extend_from_slice(&3u32.to_ne_bytes());
        record.extend_from_slice(b"abc.");
        let mut found = Vec::new();
        decode(RECORD_SAMPLE, &record, &mut |entry| {
            if let Entry::Sample(Sample { time_ns, process, raw }) = entry {
                found.push((time_ns, process, raw.to_vec()));
            }
        });
        assert_eq!(found, [(123_456, 7, b"abc".to_vec())]);
        // What is too short for what it says it is has lost what it was about; foreign records are passed over.
        let lost = |kind: u32, record: &[u8]| {
            let mut lost = 0;
            decode(kind, record, &mut |entry| match entry {
                Entry::Lost(count) => lost += count,
                Entry::Sample(_) => panic!("nothing is in it"),
            });
            lost
        };
        assert_eq!((lost(RECORD_SAMPLE, &record[..10]), lost(RECORD_LOST, &record[..10])), (1, 1));
        assert_eq!((lost(RECORD_SAMPLE, &record[..30]), lost(77, &record[..10])), (1, 0));
        let mut told = record[..16].to_vec();
        told.extend_from_slice(&40u64.to_ne_bytes());
        assert_eq!(lost(RECORD_LOST, &told), 40);
        assert_eq!(size_of::<Attributes>(), 112);
    }

    /// A ring of our own, filled as the kernel would.
    fn filled(bytes: &[u8]) -> Shared {
        let page_bytes = page_bytes() as usize;
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping; no existing memory is named.
        let start = unsafe {
            mmap_anonymous(std::ptr::null_mut(), 2 * page_bytes, protection, MapFlags::PRIVATE)
        };
        let start = NonNull::new(start.expect("memory").cast::<u8>()).expect("memory");
        let shared = Shared { start, page_bytes, data_bytes: page_bytes };
        // SAFETY: the second page of our own mapping, which nothing else refers to.
        let data =
            unsafe { std::slice::from_raw_parts_mut(start.as_ptr().add(page_bytes), page_bytes) };
        data[..bytes.len()].copy_from_slice(bytes);
        shared.position(HEAD_AT).store(bytes.len() as u64, Ordering::Release);
        shared
    }

    #[test]
    fn what_cannot_be_told_apart_is_counted_as_lost() {
        let header = |kind: u32, size: u16| {
            let mut bytes = kind.to_ne_bytes().to_vec();
            bytes.extend_from_slice(&[0, 0]);
            bytes.extend_from_slice(&size.to_ne_bytes());
            bytes
        };
        let foreign = [header(77, 16), vec![0; 8]].concat();
        for (bytes, expected) in [
            (foreign.clone(), 0),
            // No size, one beyond the end, and a rest that is no header.
            ([foreign.clone(), header(RECORD_SAMPLE, 0)].concat(), 1),
            ([foreign.clone(), header(RECORD_SAMPLE, 64)].concat(), 1),
            ([foreign.clone(), vec![0; 4]].concat(), 1),
        ] {
            let mut ring = filled(&bytes);
            let mut lost = 0;
            let mut take = |entry: Entry<'_>| match entry {
                Entry::Lost(count) => lost += count,
                Entry::Sample(_) => panic!("nothing is in it"),
            };
            // The second time there is nothing left.
            ring.drain(&mut Vec::new(), &mut take);
            ring.drain(&mut Vec::new(), &mut take);
            assert_eq!(lost, expected, "{bytes:?}");
        }
    }
}
