//! One io_uring with registered buffers, one registered file table and one owner thread, behind a safe slot interface.
//!
//! A slot is a request's place: its buffer, its identity in completions. The ring owns the buffers, so they outlive
//! every request: when a ring is dropped with requests in flight, the buffers are leaked on purpose, because the
//! kernel may still write to them.

use crate::arena::Arena;
use io_uring::{IoUring, opcode, squeue, types};
use std::io;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A setup flag that makes a ring cheaper; each is probed on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RingFeature {
    /// Only one thread submits.
    SingleIssuer,
    /// Completion work runs when the owner waits for it, not by interrupting it.
    DeferTaskrun,
    /// Completion work does not interrupt the owner with an inter-processor interrupt.
    CoopTaskrun,
    /// No indirection array for submissions.
    NoSqarray,
}

impl RingFeature {
    /// All features, in the order in which they are tried.
    pub const ALL: [Self; 4] =
        [Self::SingleIssuer, Self::DeferTaskrun, Self::CoopTaskrun, Self::NoSqarray];

    /// The kernel's name, in lower case.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::SingleIssuer => "single_issuer",
            Self::DeferTaskrun => "defer_taskrun",
            Self::CoopTaskrun => "coop_taskrun",
            Self::NoSqarray => "no_sqarray",
        }
    }
}

fn build(entries: u32, features: &[RingFeature]) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.setup_clamp().setup_cqsize(entries.next_power_of_two().max(2) * 2);
    for feature in features {
        match feature {
            RingFeature::SingleIssuer => builder.setup_single_issuer(),
            RingFeature::DeferTaskrun => builder.setup_defer_taskrun(),
            RingFeature::CoopTaskrun => builder.setup_coop_taskrun(),
            RingFeature::NoSqarray => builder.setup_no_sqarray(),
        };
    }
    builder.build(entries)
}

/// The features that this kernel has, each probed alone (deferred task work needs the single issuer beside it).
///
/// # Errors
/// When no ring can be made at all: ENOSYS (kernel without io_uring), EPERM (forbidden by
/// `kernel.io_uring_disabled` or a seccomp filter), ENOMEM (locked-memory limit on old kernels).
pub fn supported_features() -> io::Result<Vec<RingFeature>> {
    build(2, &[])?;
    let works = |feature: &RingFeature| match feature {
        RingFeature::DeferTaskrun => build(2, &[RingFeature::SingleIssuer, *feature]).is_ok(),
        other => build(2, &[*other]).is_ok(),
    };
    Ok(RingFeature::ALL.into_iter().filter(works).collect())
}

/// A request to queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RingOp {
    /// Read into the slot's buffer.
    Read {
        /// Where in the file.
        offset_bytes: u64,
        /// How much.
        size_bytes: u32,
    },
    /// Write from the slot's buffer.
    Write {
        /// Where in the file.
        offset_bytes: u64,
        /// How much.
        size_bytes: u32,
    },
    /// fsync(2).
    Fsync,
    /// fdatasync(2).
    Fdatasync,
}

/// io_uring_enter(2) flags that the binding keeps private.
const ENTER_GETEVENTS: u32 = 1;
const ENTER_REGISTERED_RING: u32 = 1 << 4;
const REGISTER_RING_FDS: u32 = 20;

#[repr(C)]
struct RingFdUpdate {
    offset: u32,
    reserved: u32,
    data: u64,
}

/// A ring for one thread and one file.
pub struct Ring {
    ring: IoUring,
    arena: ManuallyDrop<Arena>,
    /// Index of the registered ring descriptor, or the descriptor itself.
    enter_fd: i32,
    enter_flags: u32,
    in_flight: u32,
    unsubmitted: u32,
    busy: Vec<bool>,
    fixed_buffers: bool,
    features: Vec<&'static str>,
    /// A registered ring descriptor is an index into a table of the thread that made it.
    not_send: PhantomData<*const ()>,
}

impl Ring {
    /// Makes a ring with one slot for each buffer of `arena`, for requests on `file`.
    ///
    /// Must be called on the thread that will use it. Buffers that cannot be registered (locked-memory limit) are
    /// used unregistered; [`Ring::features`] tells.
    ///
    /// # Errors
    /// Those of io_uring_setup(2) and io_uring_register(2).
    pub fn new(file: BorrowedFd<'_>, arena: Arena, wanted: &[RingFeature]) -> io::Result<Self> {
        let ring = build(arena.slots() as u32, wanted)?;
        let mut features: Vec<&'static str> = wanted.iter().map(|f| f.word()).collect();
        ring.submitter().register_files(&[file.as_raw_fd()])?;
        features.push("registered_file");
        let whole = libc::iovec { iov_base: arena.base().cast(), iov_len: arena.total_bytes() };
        // SAFETY: the mapping is owned by this ring and is unmapped only when nothing is in flight (see `Drop`); the
        // kernel holds its own reference on the registered pages.
        let fixed_buffers = unsafe { ring.submitter().register_buffers(&[whole]) }.is_ok();
        if fixed_buffers {
            features.push("registered_buffers");
        }
        let (enter_fd, enter_flags) = match register_ring_fd(ring.as_raw_fd()) {
            Some(index) => {
                features.push("registered_ring");
                (index, ENTER_GETEVENTS | ENTER_REGISTERED_RING)
            }
            None => (ring.as_raw_fd(), ENTER_GETEVENTS),
        };
        let busy = vec![false; arena.slots()];
        let arena = ManuallyDrop::new(arena);
        Ok(Self {
            ring,
            arena,
            enter_fd,
            enter_flags,
            in_flight: 0,
            unsubmitted: 0,
            busy,
            fixed_buffers,
            features,
            not_send: PhantomData,
        })
    }

    /// What is in use: setup flags and registrations.
    #[must_use]
    pub fn features(&self) -> &[&'static str] {
        &self.features
    }

    /// The buffer of a slot that has no request in flight.
    ///
    /// # Panics
    /// When the slot's request is in flight: the kernel owns the buffer then.
    #[inline]
    pub fn buffer_mut(&mut self, slot: u32) -> &mut [u8] {
        assert!(!self.busy[slot as usize], "slot {slot} is in flight");
        self.arena.slot_mut(slot as usize)
    }

    /// Queues a request; nothing reaches the kernel before [`Ring::enter`].
    ///
    /// # Panics
    /// When the slot is in flight already or the request is larger than its buffer: both are errors of the caller.
    #[inline]
    pub fn queue(&mut self, slot: u32, op: RingOp) {
        assert!(!self.busy[slot as usize], "slot {slot} is in flight");
        let file = types::Fixed(0);
        let pointer = self.arena.slot_pointer(slot as usize);
        let fits = |size_bytes: u32| assert!(size_bytes as usize <= self.arena.slot_bytes());
        match op {
            RingOp::Read { offset_bytes, size_bytes } => {
                fits(size_bytes);
                if self.fixed_buffers {
                    let read = opcode::ReadFixed::new(file, pointer, size_bytes, 0);
                    self.push(slot, read.offset(offset_bytes).build());
                } else {
                    let read = opcode::Read::new(file, pointer, size_bytes);
                    self.push(slot, read.offset(offset_bytes).build());
                }
            }
            RingOp::Write { offset_bytes, size_bytes } => {
                fits(size_bytes);
                if self.fixed_buffers {
                    let write = opcode::WriteFixed::new(file, pointer.cast_const(), size_bytes, 0);
                    self.push(slot, write.offset(offset_bytes).build());
                } else {
                    let write = opcode::Write::new(file, pointer.cast_const(), size_bytes);
                    self.push(slot, write.offset(offset_bytes).build());
                }
            }
            RingOp::Fsync => self.push(slot, opcode::Fsync::new(file).build()),
            RingOp::Fdatasync => {
                let flags = types::FsyncFlags::DATASYNC;
                self.push(slot, opcode::Fsync::new(file).flags(flags).build());
            }
        }
    }

    /// Puts a request into the submission queue and marks its slot.
    ///
    /// Always inlined: then the entry is built in the queue itself, not on the stack and copied.
    #[inline(always)]
    fn push(&mut self, slot: u32, entry: squeue::Entry) {
        let entry = entry.user_data(u64::from(slot));
        // SAFETY: the buffer belongs to this ring's arena, is large enough, and stays untouched while the slot is
        // busy; the arena outlives the request (see `Drop`).
        let pushed = unsafe { self.ring.submission().push(&entry) };
        assert!(pushed.is_ok(), "the submission queue has room for every slot");
        self.busy[slot as usize] = true;
        self.unsubmitted += 1;
    }

    /// Hands everything queued to the kernel, waits until `wait_for` requests have ended, and says how many ends are
    /// there to be taken with [`Ring::take`]. A clock read after this is later than all of them.
    ///
    /// Some requests may stay queued when ends must be taken before the kernel accepts more; the next call hands
    /// them over.
    ///
    /// # Errors
    /// Those of io_uring_enter(2) other than interruption by a signal.
    #[inline]
    pub fn enter(&mut self, wait_for: u32) -> io::Result<u32> {
        loop {
            // SAFETY: plain system call on our own ring; no pointers are passed.
            let result = unsafe {
                libc::syscall(
                    libc::SYS_io_uring_enter,
                    self.enter_fd,
                    self.unsubmitted,
                    wait_for,
                    self.enter_flags,
                    std::ptr::null::<libc::c_void>(),
                    0usize,
                )
            };
            if result >= 0 {
                let submitted = result as u32;
                self.unsubmitted -= submitted;
                self.in_flight += submitted;
            } else {
                let error = io::Error::last_os_error();
                match error.raw_os_error() {
                    // Interrupted, or no room before ends are taken.
                    Some(libc::EINTR | libc::EAGAIN | libc::EBUSY) => {}
                    _ => return Err(error),
                }
            }
            let ended = self.ring.completion().len() as u32;
            let nothing_to_do = self.unsubmitted == 0 && (wait_for == 0 || self.in_flight == 0);
            if ended > 0 || nothing_to_do {
                return Ok(ended);
            }
        }
    }

    /// Takes one ended request as (slot, result); results are as in read(2), errors as negative errno. None when
    /// all are taken.
    #[inline]
    pub fn take(&mut self) -> Option<(u32, i32)> {
        let completion = self.ring.completion().next()?;
        let slot = completion.user_data() as u32;
        self.busy[slot as usize] = false;
        self.in_flight -= 1;
        Some((slot, completion.result()))
    }
}

fn register_ring_fd(fd: i32) -> Option<i32> {
    let mut update = RingFdUpdate { offset: u32::MAX, reserved: 0, data: fd as u64 };
    // SAFETY: the pointer is to one valid update structure, as the count says.
    let registered = unsafe {
        libc::syscall(libc::SYS_io_uring_register, fd, REGISTER_RING_FDS, &raw mut update, 1u32)
    };
    (registered == 1).then_some(update.offset as i32)
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.in_flight == 0 && self.unsubmitted == 0 {
            // The kernel takes a closed ring apart some time later; the file must not stay busy until then, or an
            // unmount right after a run fails. When this fails, it is only later.
            let _ = self.ring.submitter().unregister_files();
            // The kernel holds its own reference on registered pages, so the order of unmapping does not matter.
            // SAFETY: dropped once, here; the field is not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.arena) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};
    use std::os::fd::AsFd;

    fn scratch() -> std::fs::File {
        let path =
            std::env::temp_dir().join(format!("fathom-ring-{}-{:p}", std::process::id(), &0));
        let file =
            std::fs::File::options().read(true).write(true).create(true).truncate(true).open(&path);
        std::fs::remove_file(&path).unwrap();
        file.unwrap()
    }

    /// Waits for one request and takes it.
    fn one(ring: &mut Ring) -> (u32, i32) {
        assert!(ring.enter(1).unwrap() > 0);
        ring.take().unwrap()
    }

    #[test]
    fn writes_and_reads_what_it_says() {
        let mut file = scratch();
        file.write_all(&[7u8; 16384]).unwrap();
        let features = supported_features().unwrap();
        let mut ring = Ring::new(file.as_fd(), Arena::new(4, 4096).unwrap(), &features).unwrap();
        ring.buffer_mut(1).fill(9);
        ring.queue(1, RingOp::Write { offset_bytes: 4096, size_bytes: 4096 });
        assert_eq!(one(&mut ring), (1, 4096));
        ring.queue(0, RingOp::Read { offset_bytes: 0, size_bytes: 4096 });
        ring.queue(2, RingOp::Read { offset_bytes: 4096, size_bytes: 4096 });
        let mut seen = Vec::new();
        while seen.len() < 2 {
            seen.push(one(&mut ring));
        }
        seen.sort_unstable();
        assert_eq!(seen, [(0, 4096), (2, 4096)]);
        assert!(
            ring.buffer_mut(0).iter().all(|b| *b == 7)
                && ring.buffer_mut(2).iter().all(|b| *b == 9)
        );
        ring.queue(3, RingOp::Fdatasync);
        assert_eq!(one(&mut ring), (3, 0));
        let mut content = vec![0; 16384];
        file.rewind().unwrap();
        file.read_exact(&mut content).unwrap();
        assert!(
            content[4096..8192].iter().all(|b| *b == 9) && content[8192..].iter().all(|b| *b == 7)
        );
    }

    #[test]
    fn errors_come_back_as_negative_errno() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let mut ring = Ring::new(file.as_fd(), Arena::new(1, 4096).unwrap(), &[]).unwrap();
        ring.queue(0, RingOp::Write { offset_bytes: 0, size_bytes: 512 });
        assert_eq!(one(&mut ring), (0, -libc::EBADF));
        assert_eq!(ring.take(), None);
    }

    #[test]
    fn more_requests_than_one_enter_takes() {
        let file = scratch();
        file.set_len(1 << 20).unwrap();
        let features = supported_features().unwrap();
        let mut ring = Ring::new(file.as_fd(), Arena::new(256, 4096).unwrap(), &features).unwrap();
        (0..256).for_each(|s| {
            ring.queue(s, RingOp::Read { offset_bytes: u64::from(s) * 4096, size_bytes: 4096 })
        });
        let mut ended = 0;
        while ended < 256 {
            let ready = ring.enter(1).unwrap();
            assert!(ready > 0);
            (0..ready).for_each(|_| assert_eq!(ring.take().unwrap().1, 4096));
            ended += ready;
        }
    }
}
