//! One io_uring with one owner thread, its buffers and its files, behind a safe slot interface.
//!
//! A slot is a request's place: its buffer, its identity in completions. The ring owns the buffers, so they outlive
//! every request: when a ring is dropped, it waits for what is in flight; if that does not end, the buffers are leaked
//! on purpose, because the kernel may still write to them.

mod options;

pub use options::{Registration, RingFeature, RingOptions, supported_features};

use crate::arena::Arena;
use crate::call;
use crate::request::{FileTable, HOLE, IoOp, SYNC_RANGE_FLAGS, TargetFile, ZEROES};
use io_uring::{IoUring, opcode, squeue, types};
use std::io;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// io_uring_enter(2) flags that the binding keeps private.
const ENTER_GETEVENTS: u32 = 1;
const ENTER_SQ_WAKEUP: u32 = 1 << 1;
const ENTER_EXT_ARG: u32 = 1 << 3;
const ENTER_REGISTERED_RING: u32 = 1 << 4;
const REGISTER_RING_FDS: u32 = 20;
const UNREGISTER_RING_FDS: u32 = 21;

/// `_IO(0x12, 0)`: discards start and length of the command, since Linux 6.12.
const BLOCK_URING_CMD_DISCARD: u32 = 0x1200;

/// How often a full look at the completions is tried before the owner sleeps, while the kernel's thread submits:
/// some ten microseconds.
const LOOKS_BEFORE_SLEEP: u32 = 500;

/// How long a dropped ring waits for what is in flight.
const DROP_LIMIT_MS: u32 = 1000;

#[repr(C)]
struct RingFdUpdate {
    offset: u32,
    reserved: u32,
    data: u64,
}

/// What is registered with the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Registered {
    FilesAndBuffers,
    Files,
    Nothing,
}

/// A ring for one thread and its files.
pub struct Ring<'f> {
    ring: IoUring,
    arena: ManuallyDrop<Arena>,
    files: FileTable<'f>,
    registered: Registered,
    /// Index of the registered ring descriptor, or the descriptor itself.
    enter_fd: i32,
    enter_flags: u32,
    in_flight: u32,
    unsubmitted: u32,
    busy: Vec<bool>,
    /// Requests that one call hands over at the most.
    submit_max: u32,
    /// Completions are polled for.
    is_polled: bool,
    /// The kernel's thread submits.
    sqpoll: bool,
    /// The plain way to hand over will not do.
    is_special: bool,
    /// A wait in io_uring_enter(2) can have a limit: not before Linux 5.11, and never while completions are polled for.
    has_time_limit: bool,
    features: Vec<String>,
    /// A registered ring descriptor is an index into a table of the thread that made it.
    not_send: PhantomData<*const ()>,
}

impl<'f> Ring<'f> {
    /// Makes a ring with one slot for each buffer of `arena`, for requests on `files`.
    ///
    /// Must be called on the thread that will use it. [`Ring::features`] tells what could be registered.
    ///
    /// # Errors
    /// Those of io_uring_setup(2) and io_uring_register(2).
    pub fn new(files: FileTable<'f>, arena: Arena, options: &RingOptions) -> io::Result<Self> {
        let ring = options.build(arena.slots() as u32)?;
        let mut features: Vec<String> =
            options.features_used().map(|f| f.word().to_owned()).collect();
        for (is_asked, word) in [(options.polled, "polled"), (options.sqpoll, "sqpoll")] {
            if is_asked {
                features.push(word.to_owned());
            }
        }
        let registered = register(&ring, &files, &arena, options.registration)?;
        features.extend(registered.words().iter().map(|word| (*word).to_owned()));
        let is_wanted = options.registration != Registration::Never;
        let (enter_fd, enter_flags) = match register_ring_fd(ring.as_raw_fd(), is_wanted) {
            Some(index) => {
                features.push("registered_ring".to_owned());
                (index, ENTER_GETEVENTS | ENTER_REGISTERED_RING)
            }
            None if options.registration == Registration::Must => {
                return Err(io::Error::from_raw_os_error(libc::EINVAL));
            }
            None => (ring.as_raw_fd(), ENTER_GETEVENTS),
        };
        if let Some(most) = options.submit_max {
            features.push(format!("batch_submit={most}"));
        }
        Ok(Self {
            has_time_limit: ring.params().is_feature_ext_arg() && !options.polled,
            ring,
            busy: vec![false; arena.slots()],
            arena: ManuallyDrop::new(arena),
            files,
            registered,
            enter_fd,
            enter_flags,
            in_flight: 0,
            unsubmitted: 0,
            submit_max: options.submit_max.unwrap_or(u32::MAX).max(1),
            is_polled: options.polled,
            sqpoll: options.sqpoll,
            is_special: options.sqpoll || options.submit_max.is_some(),
            features,
            not_send: PhantomData,
        })
    }

    /// What is in use: setup flags and registrations.
    #[must_use]
    pub fn features(&self) -> &[String] {
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

    /// Tells the kernel that the descriptor of an index means another file now; no request on it may be queued or in
    /// flight.
    ///
    /// # Errors
    /// Those of io_uring_register(2).
    pub fn renew_file(&mut self, file: u32) -> io::Result<()> {
        if self.registered == Registered::Nothing {
            return Ok(());
        }
        let fd = self.files.get(file).fd.as_raw_fd();
        self.ring.submitter().register_files_update(file, &[fd]).map(|_| ())
    }

    /// Queues a request on the file of that index; nothing reaches the kernel before [`Ring::enter`], unless a thread
    /// of the kernel submits.
    ///
    /// # Panics
    /// When the slot is in flight already, the request is larger than its buffer, or there is no such file: all are
    /// errors of the caller.
    #[inline(always)]
    pub fn queue(&mut self, slot: u32, file: u32, op: IoOp) {
        assert!(!self.busy[slot as usize], "slot {slot} is in flight");
        let fits = |size_bytes: u32| assert!(size_bytes as usize <= self.arena.slot_bytes());
        let pointer = self.arena.slot_pointer(slot as usize);
        match op {
            IoOp::Read { offset_bytes, size_bytes } => {
                fits(size_bytes);
                if self.registered == Registered::FilesAndBuffers {
                    let file = types::Fixed(file);
                    let read = opcode::ReadFixed::new(file, pointer, size_bytes, 0);
                    self.push(slot, read.offset(offset_bytes).build());
                } else {
                    self.queue_plain_buffer(slot, file, op);
                }
            }
            IoOp::Write { offset_bytes, size_bytes } => {
                fits(size_bytes);
                if self.registered == Registered::FilesAndBuffers {
                    let file = types::Fixed(file);
                    let write = opcode::WriteFixed::new(file, pointer.cast_const(), size_bytes, 0);
                    self.push(slot, write.offset(offset_bytes).build());
                } else {
                    self.queue_plain_buffer(slot, file, op);
                }
            }
            other => self.push(slot, entry_without_data(self.files.get(file), other)),
        }
    }

    #[inline(never)]
    fn queue_plain_buffer(&mut self, slot: u32, file: u32, op: IoOp) {
        let pointer = self.arena.slot_pointer(slot as usize);
        let fd = types::Fd(self.files.get(file).fd.as_raw_fd());
        let index = types::Fixed(file);
        let is_registered = self.registered == Registered::Files;
        let entry = match op {
            IoOp::Read { offset_bytes, size_bytes } if is_registered => {
                opcode::Read::new(index, pointer, size_bytes).offset(offset_bytes).build()
            }
            IoOp::Read { offset_bytes, size_bytes } => {
                opcode::Read::new(fd, pointer, size_bytes).offset(offset_bytes).build()
            }
            IoOp::Write { offset_bytes, size_bytes } if is_registered => {
                opcode::Write::new(index, pointer, size_bytes).offset(offset_bytes).build()
            }
            IoOp::Write { offset_bytes, size_bytes } => {
                opcode::Write::new(fd, pointer, size_bytes).offset(offset_bytes).build()
            }
            other => entry_without_data(self.files.get(file), other),
        };
        self.push(slot, entry);
    }

    /// Queues several reads of one size on the first file, each with its slot and offset in bytes: as [`Ring::queue`], but
    /// what they share is looked at once.
    ///
    /// # Panics
    /// As [`Ring::queue`].
    #[inline(always)]
    pub fn queue_reads(&mut self, size_bytes: u32, reads: impl Iterator<Item = (u32, u64)>) {
        if self.registered != Registered::FilesAndBuffers {
            return reads.for_each(|(slot, offset_bytes)| {
                self.queue(slot, 0, IoOp::Read { offset_bytes, size_bytes });
            });
        }
        let Self { ring, arena, busy, .. } = self;
        assert!(size_bytes as usize <= arena.slot_bytes());
        let mut submission = ring.submission();
        let mut queued = 0;
        for (slot, offset_bytes) in reads {
            let is_busy = &mut busy[slot as usize];
            assert!(!*is_busy, "slot {slot} is in flight");
            let pointer = arena.slot_pointer(slot as usize);
            let read = opcode::ReadFixed::new(types::Fixed(0), pointer, size_bytes, 0);
            let entry = read.offset(offset_bytes).build().user_data(u64::from(slot));
            // SAFETY: as in `push`.
            let pushed = unsafe { submission.push(&entry) };
            assert!(pushed.is_ok(), "the submission queue has room for every slot");
            *is_busy = true;
            queued += 1;
        }
        drop(submission);
        self.unsubmitted += queued;
    }

    /// Puts a request into the submission queue and marks its slot.
    ///
    /// Always inlined: then the entry is built in the queue itself, not on the stack and copied.
    #[inline(always)]
    fn push(&mut self, slot: u32, entry: squeue::Entry) {
        let entry = entry.user_data(u64::from(slot));
        // SAFETY: the buffer belongs to this ring's arena, is large enough, and stays untouched while the slot is
        // busy; arena and files outlive the request (see `Drop`).
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
    #[inline(always)]
    pub fn enter(&mut self, wait_for: u32) -> io::Result<u32> {
        if self.is_special {
            return self.enter_specially(wait_for);
        }
        loop {
            let told = self.system_call(self.unsubmitted, wait_for, self.enter_flags);
            if told < 0 {
                is_worth_another_try(told)?;
            } else {
                self.unsubmitted -= told as u32;
                self.in_flight += told as u32;
            }
            let ended = self.ring.completion().len() as u32;
            let nothing_to_do = self.unsubmitted == 0 && (wait_for == 0 || self.in_flight == 0);
            if ended > 0 || nothing_to_do {
                return Ok(ended);
            }
        }
    }

    /// io_uring_enter(2) as it is.
    #[inline(always)]
    fn system_call(&self, to_submit: u32, wait_for: u32, flags: u32) -> isize {
        let arguments =
            [self.enter_fd as usize, to_submit as usize, wait_for as usize, flags as usize, 0, 0];
        // SAFETY: plain system call on our own ring; no pointers are passed.
        unsafe { call::raw(libc::SYS_io_uring_enter, arguments) }
    }

    /// One io_uring_enter(2) off the beaten track; says how many requests were handed over.
    fn call(&mut self, to_submit: u32, wait_for: u32, flags: u32) -> io::Result<u32> {
        let told = self.system_call(to_submit, wait_for, flags);
        if told < 0 {
            return is_worth_another_try(told).map(|()| 0);
        }
        self.unsubmitted -= told as u32;
        self.in_flight += told as u32;
        Ok(told as u32)
    }

    /// Like [`Ring::enter`], but comes back after `wait_ns` at the latest, perhaps with nothing; 0 looks without
    /// waiting. A polled ring with something in flight always only looks. A kernel before 5.11 comes back with the
    /// first end, however many are waited for.
    ///
    /// # Errors
    /// As [`Ring::enter`].
    pub fn enter_for(&mut self, wait_for: u32, wait_ns: u64) -> io::Result<u32> {
        let ended = self.enter(0)?;
        if ended > 0 || wait_ns == 0 || (self.is_polled && self.in_flight > 0) {
            return Ok(ended);
        }
        if self.has_time_limit {
            self.wait_at_most(wait_for, wait_ns)?;
        } else {
            self.poll_at_most(wait_ns)?;
        }
        Ok(self.ring.completion().len() as u32)
    }

    fn wait_at_most(&self, wait_for: u32, wait_ns: u64) -> io::Result<()> {
        let time = types::Timespec::from(Duration::from_nanos(wait_ns));
        let argument = types::SubmitArgs::new().timespec(&time);
        // SAFETY: plain system call on our own ring; the argument and the time it points to live until it returns.
        let result = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.enter_fd,
                0u32,
                wait_for,
                self.enter_flags | ENTER_EXT_ARG,
                &raw const argument,
                size_of::<types::SubmitArgs<'_, '_>>(),
            )
        };
        if result >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY) => Ok(()),
            _ => Err(error),
        }
    }

    /// The same where io_uring_enter(2) has no time limit.
    fn poll_at_most(&self, wait_ns: u64) -> io::Result<()> {
        let limit = libc::timespec {
            tv_sec: (wait_ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (wait_ns % 1_000_000_000) as libc::c_long,
        };
        let mut polled =
            libc::pollfd { fd: self.ring.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd, a valid time, no signal mask.
        let result = unsafe { libc::ppoll(&raw mut polled, 1, &raw const limit, std::ptr::null()) };
        match io::Error::last_os_error() {
            error if result < 0 && error.raw_os_error() != Some(libc::EINTR) => Err(error),
            _ => Ok(()),
        }
    }

    #[cold]
    #[inline(never)]
    fn enter_specially(&mut self, wait_for: u32) -> io::Result<u32> {
        if self.sqpoll { self.enter_sqpoll(wait_for) } else { self.enter_in_parts(wait_for) }
    }

    /// Hands over in parts, but always all of it before it waits: the depth is held.
    fn enter_in_parts(&mut self, wait_for: u32) -> io::Result<u32> {
        loop {
            let part = self.unsubmitted.min(self.submit_max);
            let is_last = part == self.unsubmitted;
            let wait = if is_last { wait_for } else { 0 };
            let submitted = self.call(part, wait, self.enter_flags)?;
            if !is_last && submitted > 0 {
                continue;
            }
            let ended = self.ring.completion().len() as u32;
            let nothing_to_do = self.unsubmitted == 0 && (wait_for == 0 || self.in_flight == 0);
            if ended > 0 || nothing_to_do {
                return Ok(ended);
            }
        }
    }

    /// The kernel's thread has what is queued already, but may have to be woken; the owner looks for a while and then
    /// sleeps.
    fn enter_sqpoll(&mut self, wait_for: u32) -> io::Result<u32> {
        self.in_flight += std::mem::take(&mut self.unsubmitted);
        let mut looks = 0;
        loop {
            // With the full fence that this needs: our tail must be seen before we see its flag.
            let sleeps = self.ring.submission().need_wakeup();
            let wake = if sleeps { ENTER_SQ_WAKEUP } else { 0 };
            let ended = self.ring.completion().len() as u32;
            let is_enough = ended >= wait_for.min(self.in_flight);
            if is_enough || looks >= LOOKS_BEFORE_SLEEP {
                let wait = if is_enough { 0 } else { wait_for };
                if sleeps || !is_enough {
                    self.call(0, wait, self.enter_flags | wake)?;
                }
                let ended = self.ring.completion().len() as u32;
                if ended > 0 || is_enough {
                    return Ok(ended);
                }
            } else if sleeps {
                self.call(0, 0, self.enter_flags | wake)?;
            }
            looks += 1;
            std::hint::spin_loop();
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

    /// Takes ended requests as [`Ring::take`], as many as there are and `ends` has room for, and says how many.
    #[inline(always)]
    pub fn take_many(&mut self, ends: &mut [(u32, i32)]) -> usize {
        let Self { ring, busy, .. } = self;
        let mut taken = 0;
        for (end, completion) in ends.iter_mut().zip(ring.completion()) {
            let slot = completion.user_data() as u32;
            busy[slot as usize] = false;
            *end = (slot, completion.result());
            taken += 1;
        }
        self.in_flight -= taken as u32;
        taken
    }

    /// Waits a while for what is in flight; true when nothing is any more. What was not handed over never will be.
    fn drain(&mut self) -> bool {
        if !self.sqpoll {
            self.unsubmitted = 0;
        }
        for _ in 0..DROP_LIMIT_MS {
            let entered = if self.sqpoll {
                self.enter_sqpoll(0).map(|_| ())
            } else {
                self.call(0, 0, self.enter_flags).map(|_| ())
            };
            while self.take().is_some() {}
            if self.in_flight == 0 {
                return true;
            }
            if entered.is_err() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        false
    }
}

/// Looks at why a call failed: its negative errno.
#[cold]
fn is_worth_another_try(told: isize) -> io::Result<()> {
    match -told as i32 {
        // Interrupted, or no room before ends are taken.
        libc::EINTR | libc::EAGAIN | libc::EBUSY => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

impl Registered {
    fn words(self) -> &'static [&'static str] {
        match self {
            Self::FilesAndBuffers => &["registered_file", "registered_buffers"],
            Self::Files => &["registered_file"],
            Self::Nothing => &[],
        }
    }
}

/// A request that moves no data; it names its file by descriptor, whose look-up is nothing beside such a request.
#[inline(never)]
fn entry_without_data(file: TargetFile<'_>, op: IoOp) -> squeue::Entry {
    let fd = types::Fd(file.fd.as_raw_fd());
    let fallocate = |offset_bytes: u64, size_bytes: u32, mode: rustix::fs::FallocateFlags| {
        let fallocate = opcode::Fallocate::new(fd, u64::from(size_bytes));
        fallocate.offset(offset_bytes).mode(mode.bits() as i32).build()
    };
    match op {
        IoOp::Trim { offset_bytes, size_bytes } if file.is_block_device => {
            discard(fd, offset_bytes, u64::from(size_bytes))
        }
        IoOp::Trim { offset_bytes, size_bytes } => fallocate(offset_bytes, size_bytes, HOLE),
        IoOp::Zero { offset_bytes, size_bytes } => fallocate(offset_bytes, size_bytes, ZEROES),
        IoOp::SyncRange { offset_bytes, size_bytes } => {
            let sync = opcode::SyncFileRange::new(fd, size_bytes);
            sync.offset(offset_bytes).flags(SYNC_RANGE_FLAGS).build()
        }
        IoOp::Fsync => opcode::Fsync::new(fd).build(),
        IoOp::Fdatasync => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
        IoOp::Read { .. } | IoOp::Write { .. } => opcode::Nop::new().build(),
    }
}

fn discard(fd: types::Fd, offset_bytes: u64, size_bytes: u64) -> squeue::Entry {
    let mut command = [0u8; 16];
    command[..8].copy_from_slice(&size_bytes.to_ne_bytes());
    let discard = opcode::UringCmd16::new(fd, BLOCK_URING_CMD_DISCARD);
    // Linux reads such an entry a second time when the device has no room for the request, and it waits for that on a
    // thread of its own: by then another request may be in its place, and the range is another one. Handed over to that
    // thread at once it is copied first.
    discard.addr(Some(offset_bytes)).cmd(command).build().flags(squeue::Flags::ASYNC)
}

fn register(
    ring: &IoUring,
    files: &FileTable<'_>,
    arena: &Arena,
    wanted: Registration,
) -> io::Result<Registered> {
    if wanted == Registration::Never {
        return Ok(Registered::Nothing);
    }
    let fds: Vec<i32> = files.iter().map(|file| file.fd.as_raw_fd()).collect();
    ring.submitter().register_files(&fds)?;
    let whole = libc::iovec { iov_base: arena.base().cast(), iov_len: arena.total_bytes() };
    // SAFETY: the mapping is owned by the ring and is unmapped only when nothing is in flight (see `Drop`); the kernel
    // holds its own reference on the registered pages.
    match unsafe { ring.submitter().register_buffers(&[whole]) } {
        Ok(()) => Ok(Registered::FilesAndBuffers),
        Err(error) if wanted == Registration::Must => Err(error),
        Err(_) => Ok(Registered::Files),
    }
}

fn register_ring_fd(fd: i32, is_wanted: bool) -> Option<i32> {
    if !is_wanted {
        return None;
    }
    let mut update = RingFdUpdate { offset: u32::MAX, reserved: 0, data: fd as u64 };
    // SAFETY: the pointer is to one valid update structure, as the count says.
    let registered = unsafe {
        libc::syscall(libc::SYS_io_uring_register, fd, REGISTER_RING_FDS, &raw mut update, 1u32)
    };
    (registered == 1).then_some(update.offset as i32)
}

/// A thread has room for sixteen registered rings, and each lives on until it is taken out or the thread ends.
fn unregister_ring_fd(fd: i32, index: i32) {
    let mut update = RingFdUpdate { offset: index as u32, reserved: 0, data: 0 };
    // SAFETY: the pointer is to one valid update structure, as the count says.
    unsafe {
        libc::syscall(libc::SYS_io_uring_register, fd, UNREGISTER_RING_FDS, &raw mut update, 1u32)
    };
}

impl Drop for Ring<'_> {
    fn drop(&mut self) {
        if self.drain() {
            // The kernel takes a closed ring apart some time later; the file must not stay busy until then, or an
            // unmount right after a run fails. When this fails, it is only later.
            let _ = self.ring.submitter().unregister_files();
            if self.enter_flags & ENTER_REGISTERED_RING != 0 {
                unregister_ring_fd(self.ring.as_raw_fd(), self.enter_fd);
            }
            // The kernel holds its own reference on registered pages, so the order of unmapping does not matter.
            // SAFETY: dropped once, here; the field is not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.arena) };
        }
    }
}

/// Reads one block with a ring of these options: the proof that the target takes its requests.
///
/// # Errors
/// EOPNOTSUPP when the target cannot be polled for completions; otherwise those of making a ring and of reading.
pub fn probe_read(file: BorrowedFd<'_>, size_bytes: u32, options: &RingOptions) -> io::Result<()> {
    let arena = Arena::new(1, size_bytes as usize)?;
    let mut ring = Ring::new(FileTable::new(&[file])?, arena, options)?;
    ring.queue(0, 0, IoOp::Read { offset_bytes: 0, size_bytes });
    one_result(&mut ring).map(|_| ())
}

/// True when this kernel discards ranges of a block device by a ring: since Linux 6.12. The device must have discard.
/// Asked with an empty range, which every kernel refuses, each with its own reason.
///
/// # Errors
/// Those of making a ring.
pub fn can_discard(device: BorrowedFd<'_>) -> io::Result<bool> {
    let files = FileTable::new(&[device])?;
    let mut ring = Ring::new(files, Arena::new(1, 512)?, &RingOptions::default())?;
    ring.push(0, discard(types::Fd(device.as_raw_fd()), 0, 0));
    let refusal = one_result(&mut ring).err().and_then(|e| e.raw_os_error());
    Ok(refusal == Some(libc::EINVAL))
}

fn one_result(ring: &mut Ring<'_>) -> io::Result<u32> {
    ring.enter(1)?;
    match ring.take() {
        Some((_, result)) if result >= 0 => Ok(result as u32),
        Some((_, errno)) => Err(io::Error::from_raw_os_error(-errno)),
        None => Err(io::Error::from_raw_os_error(libc::EIO)),
    }
}

#[cfg(test)]
mod tests;
