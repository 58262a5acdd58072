//! Linux asynchronous I/O: io_setup(2), io_submit(2), io_getevents(2), without the C library around them.
//!
//! It is asynchronous for direct I/O only: for buffered files io_submit(2) does the whole request before it returns.
//! [`Aio::ended_at_hand_over`] says what really happened.

use crate::arena::Arena;
use crate::call;
use crate::request::{FileTable, IoOp, OpKind, as_result, perform};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

const READ: u16 = 0;
const WRITE: u16 = 1;
const FSYNC: u16 = 2;
const FDATASYNC: u16 = 3;

/// `struct iocb`, as little-endian machines have it.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct Request {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: i16,
    fd: u32,
    buffer: u64,
    size_bytes: u64,
    offset_bytes: i64,
    reserved: u64,
    flags: u32,
    event_fd: u32,
}

/// `struct io_event`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct Event {
    data: u64,
    request: u64,
    result: i64,
    result2: i64,
}

/// Head of the ring of ended requests, which the kernel maps at the address that names the context.
#[repr(C)]
struct RingHead {
    id: u32,
    /// Events in the ring.
    entries: u32,
    head: AtomicU32,
    tail: AtomicU32,
    magic: u32,
    compatible: u32,
    incompatible: u32,
    header_bytes: u32,
}

const MAGIC: u32 = 0xa10a_10a1;

/// A context for one thread with its buffers; a slot is a request's place.
pub struct Aio<'f> {
    context: u64,
    files: FileTable<'f>,
    arena: Arena,
    /// One for each slot; never moved while the context lives.
    requests: Box<[Request]>,
    /// Addresses of what is to be handed over.
    queued: Vec<u64>,
    /// What ended without the context: plain calls, and requests that were refused at once.
    done: Vec<(u32, i32)>,
    events: Box<[Event]>,
    /// The events that are still to be taken.
    untaken: std::ops::Range<usize>,
    busy: Vec<bool>,
    in_flight: usize,
    submit_max: usize,
    reaps_itself: bool,
    handed_over: u64,
    ended_at_hand_over: u64,
}

impl<'f> Aio<'f> {
    /// Makes a context with one slot for each buffer of `arena`; at most `submit_max` requests are handed over by one
    /// call.
    ///
    /// # Errors
    /// EAGAIN when the system's limit (`fs.aio-max-nr`) does not allow that many; ENOSYS where the kernel was built
    /// without it.
    pub fn new(files: FileTable<'f>, arena: Arena, submit_max: Option<u32>) -> io::Result<Self> {
        let slots = arena.slots();
        let mut context = 0u64;
        // SAFETY: the kernel writes the context's address into our own integer.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, slots as u64, &raw mut context) };
        if made != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel maps at least a page there, for as long as the context lives.
        let head = unsafe { &*(context as *const RingHead) };
        let reaps_itself = head.magic == MAGIC
            && head.incompatible == 0
            && head.header_bytes as usize == size_of::<RingHead>();
        Ok(Self {
            context,
            files,
            requests: vec![Request::default(); slots].into(),
            queued: Vec::with_capacity(slots),
            done: Vec::with_capacity(slots),
            events: vec![Event::default(); slots].into(),
            untaken: 0..0,
            busy: vec![false; slots],
            in_flight: 0,
            submit_max: submit_max.map_or(slots, |max| max.max(1) as usize),
            reaps_itself,
            handed_over: 0,
            ended_at_hand_over: 0,
            arena,
        })
    }

    /// True when ended requests are taken from the shared ring, without a system call.
    #[must_use]
    pub fn reaps_itself(&self) -> bool {
        self.reaps_itself
    }

    /// The share of requests that had ended when io_submit(2) returned: 1 means that nothing was asynchronous. Counted
    /// where nothing else was in flight; none before the first request.
    #[must_use]
    pub fn ended_at_hand_over(&self) -> Option<f64> {
        (self.handed_over > 0).then(|| self.ended_at_hand_over as f64 / self.handed_over as f64)
    }

    /// True when the kernel has this kind of request; [`Aio::queue`] does all others at once by their plain call.
    #[must_use]
    pub fn is_native(kind: OpKind) -> bool {
        matches!(kind, OpKind::Read | OpKind::Write | OpKind::Fsync | OpKind::Fdatasync)
    }

    /// The buffer of a slot that has no request in flight.
    ///
    /// # Panics
    /// When the slot's request is in flight.
    #[inline]
    pub fn buffer_mut(&mut self, slot: u32) -> &mut [u8] {
        assert!(!self.busy[slot as usize], "slot {slot} is in flight");
        self.arena.slot_mut(slot as usize)
    }

    /// Queues a request on the file of that index; nothing reaches the kernel before [`Aio::enter`].
    ///
    /// # Panics
    /// When the slot is in flight already or the request is larger than its buffer: both are errors of the caller.
    #[inline]
    pub fn queue(&mut self, slot: u32, file: u32, op: IoOp) {
        assert!(!self.busy[slot as usize], "slot {slot} is in flight");
        let (opcode, offset_bytes, size_bytes) = match op {
            IoOp::Read { offset_bytes, size_bytes } => (READ, offset_bytes, size_bytes),
            IoOp::Write { offset_bytes, size_bytes } => (WRITE, offset_bytes, size_bytes),
            IoOp::Fsync => (FSYNC, 0, 0),
            IoOp::Fdatasync => (FDATASYNC, 0, 0),
            other => return self.perform_later(slot, file, other),
        };
        assert!(size_bytes as usize <= self.arena.slot_bytes());
        let is_transfer = opcode <= WRITE;
        let buffer = self.arena.slot_pointer(slot as usize) as u64;
        let request = &mut self.requests[slot as usize];
        *request = Request {
            data: u64::from(slot),
            opcode,
            fd: std::os::fd::AsRawFd::as_raw_fd(&self.files.get(file).fd) as u32,
            buffer: if is_transfer { buffer } else { 0 },
            size_bytes: u64::from(size_bytes),
            offset_bytes: offset_bytes as i64,
            ..Request::default()
        };
        self.busy[slot as usize] = true;
        self.queued.push(std::ptr::from_mut(request) as u64);
    }

    /// A request that the kernel does not have here, done by its plain call.
    #[cold]
    fn perform_later(&mut self, slot: u32, file: u32, op: IoOp) {
        let result = as_result(perform(self.files.get(file), &mut [], op));
        self.done.push((slot, result));
        self.busy[slot as usize] = true;
    }

    /// Hands everything queued to the kernel, waits until `wait_for` requests have ended, and says how many ends are
    /// there to be taken with [`Aio::take`].
    ///
    /// # Errors
    /// Those of io_submit(2) and io_getevents(2) that do not belong to a single request.
    #[inline(always)]
    pub fn enter(&mut self, wait_for: u32) -> io::Result<u32> {
        debug_assert!(self.untaken.is_empty(), "every end is taken before more are asked for");
        if !self.queued.is_empty() {
            self.submit()?;
        }
        let mut count = self.reap(0);
        let wanted = (wait_for as usize).saturating_sub(self.done.len());
        let enough = wanted.min(self.in_flight);
        while count < enough {
            let room = &mut self.events[count..];
            let (context, enough) = (self.context as usize, enough - count);
            let arguments = [context, enough, room.len(), room.as_mut_ptr() as usize, 0, 0];
            // SAFETY: the array has room for as many events as the call is told, and no time limit is passed.
            let told = unsafe { call::raw(libc::SYS_io_getevents, arguments) };
            match told {
                0.. => count += told as usize,
                _ if told == -(libc::EINTR as isize) => {}
                _ => return Err(io::Error::from_raw_os_error(-told as i32)),
            }
        }
        self.in_flight -= count;
        self.untaken = 0..count;
        Ok((count + self.done.len()) as u32)
    }

    /// Like [`Aio::enter`], but comes back after `wait_ns` at the latest, perhaps with nothing; 0 looks without waiting.
    ///
    /// # Errors
    /// As [`Aio::enter`].
    pub fn enter_for(&mut self, wait_for: u32, wait_ns: u64) -> io::Result<u32> {
        let ended = self.enter(0)?;
        if ended > 0 || wait_ns == 0 {
            return Ok(ended);
        }
        let limit = libc::timespec {
            tv_sec: (wait_ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (wait_ns % 1_000_000_000) as libc::c_long,
        };
        // SAFETY: the array has room for as many events as the call is told; the time lives until it returns.
        let told = unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.context,
                i64::from(wait_for.max(1)).min(self.events.len() as i64),
                self.events.len(),
                self.events.as_mut_ptr(),
                &raw const limit,
            )
        };
        if told < 0 {
            let error = io::Error::last_os_error();
            return if error.raw_os_error() == Some(libc::EINTR) { Ok(0) } else { Err(error) };
        }
        self.in_flight -= told as usize;
        self.untaken = 0..told as usize;
        Ok(told as u32)
    }

    /// Takes one ended request as (slot, result); errors as negative errno. None when all are taken.
    #[inline]
    pub fn take(&mut self) -> Option<(u32, i32)> {
        let (slot, result) = match self.untaken.next() {
            Some(index) => {
                let event = self.events[index];
                (event.data as u32, event.result as i32)
            }
            None => self.done.pop()?,
        };
        self.busy[slot as usize] = false;
        Some((slot, result))
    }

    #[inline(always)]
    fn submit(&mut self) -> io::Result<()> {
        let starts_idle = self.in_flight == 0;
        let mut handed = 0;
        while handed < self.queued.len() {
            let part = &self.queued[handed..];
            let count = part.len().min(self.submit_max);
            let arguments = [self.context as usize, count, part.as_ptr() as usize, 0, 0, 0];
            // SAFETY: the addresses are those of `count` requests that live as long as the context; each names a
            // buffer of our own arena that stays untouched while its slot is busy.
            let told = unsafe { call::raw(libc::SYS_io_submit, arguments) };
            if told > 0 {
                handed += told as usize;
                self.in_flight += told as usize;
                continue;
            }
            match -told as i32 {
                libc::EINTR => {}
                // No room before ends are taken; the rest goes with the next call.
                libc::EAGAIN if self.in_flight > 0 => break,
                libc::EAGAIN => return Err(io::Error::from_raw_os_error(libc::EAGAIN)),
                // The first of them is at fault.
                errno => {
                    let slot = self.slot_of(part[0]);
                    self.done.push((slot, -errno));
                    handed += 1;
                }
            }
        }
        self.queued.drain(..handed);
        if starts_idle && self.reaps_itself {
            self.handed_over += self.in_flight as u64;
            self.ended_at_hand_over += u64::from(self.ready());
        }
        Ok(())
    }

    fn slot_of(&self, address: u64) -> u32 {
        let first = self.requests.as_ptr() as u64;
        ((address - first) / size_of::<Request>() as u64) as u32
    }

    fn head(&self) -> &RingHead {
        // SAFETY: mapped by the kernel as long as the context lives.
        unsafe { &*(self.context as *const RingHead) }
    }

    /// Ended requests in the shared ring.
    #[inline]
    fn ready(&self) -> u32 {
        let ring = self.head();
        let (head, tail) = (ring.head.load(Ordering::Relaxed), ring.tail.load(Ordering::Acquire));
        if tail >= head { tail - head } else { tail + ring.entries - head }
    }

    /// Takes what is in the shared ring into `events`, from index `count` on.
    #[inline]
    fn reap(&mut self, mut count: usize) -> usize {
        if !self.reaps_itself {
            return count;
        }
        let mut left = self.ready();
        let ring = self.context as *const RingHead;
        // SAFETY: the kernel's mapping, see `head`.
        let (entries, mut head) =
            unsafe { ((*ring).entries, (*ring).head.load(Ordering::Relaxed)) };
        while left > 0 && count < self.events.len() {
            // SAFETY: the events follow the head of the ring; the index is below their number, and the kernel does
            // not touch an event between the two ends.
            self.events[count] = unsafe { ring.add(1).cast::<Event>().add(head as usize).read() };
            head = if head + 1 == entries { 0 } else { head + 1 };
            (count, left) = (count + 1, left - 1);
        }
        self.head().head.store(head, Ordering::Release);
        count
    }
}

impl Drop for Aio<'_> {
    fn drop(&mut self) {
        // Waits for what is in flight, so the buffers can go afterwards.
        // SAFETY: our own context, destroyed once.
        let destroyed = unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
        debug_assert_eq!(destroyed, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn in_use() -> u64 {
        std::fs::read_to_string("/proc/sys/fs/aio-nr").unwrap().trim().parse().unwrap()
    }

    /// The kernel's own count of places for asynchronous requests tells that a context is real.
    #[test]
    fn a_context_is_counted_by_the_kernel_and_given_back() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let table = || FileTable::new(&[file.as_fd()]).unwrap();
        let before = in_use();
        let aio = Aio::new(table(), Arena::new(4096, 512).unwrap(), None).unwrap();
        let during = in_use();
        assert!(during >= before + 4096, "{before} -> {during}");
        drop(aio);
        assert!(in_use() < during);
    }

    #[test]
    fn requests_that_the_kernel_refuses_end_with_its_reason() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let table = FileTable::new(&[file.as_fd()]).unwrap();
        let mut aio = Aio::new(table, Arena::new(2, 4096).unwrap(), Some(1)).unwrap();
        assert!(aio.reaps_itself() && aio.ended_at_hand_over().is_none());
        aio.queue(0, 0, IoOp::Write { offset_bytes: 0, size_bytes: 512 });
        aio.queue(1, 0, IoOp::Read { offset_bytes: 0, size_bytes: 512 });
        let mut ended = Vec::new();
        while ended.len() < 2 {
            let ready = aio.enter(1).unwrap();
            ended.extend((0..ready).map(|_| aio.take().unwrap()));
        }
        ended.sort_unstable();
        assert_eq!(ended, [(0, -libc::EBADF), (1, 512)]);
        assert_eq!(aio.ended_at_hand_over(), Some(1.0), "a buffered read is synchronous");
        assert_eq!(&aio.buffer_mut(1)[..4], b"\x7fELF");
    }
}
