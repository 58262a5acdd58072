//! Who goes first: I/O priority, nice value and realtime scheduling of single threads, each read back after setting.

use std::io;

/// I/O scheduling classes of ioprio_set(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoClass {
    /// Class 0: nothing was set, the nice value decides.
    Unset,
    /// Class 1, level 0 (first) to 7: served before all others, who may wait for ever.
    Realtime(u8),
    /// Class 2, level 0 (first) to 7.
    BestEffort(u8),
    /// Class 3.
    Idle,
}

const WHO_PROCESS: libc::c_int = 1;
const CLASS_SHIFT: u32 = 13;

impl IoClass {
    fn to_raw(self) -> u32 {
        match self {
            Self::Unset => 0,
            Self::Realtime(level) => (1 << CLASS_SHIFT) | u32::from(level),
            Self::BestEffort(level) => (2 << CLASS_SHIFT) | u32::from(level),
            Self::Idle => 3 << CLASS_SHIFT,
        }
    }

    /// The level is in the lowest three bits; hints for the device lie above it, and what class 0 and 3 have there
    /// means nothing.
    fn from_raw(raw: u32) -> io::Result<Self> {
        let level = (raw & 7) as u8;
        match raw >> CLASS_SHIFT {
            0 => Ok(Self::Unset),
            1 => Ok(Self::Realtime(level)),
            2 => Ok(Self::BestEffort(level)),
            3 => Ok(Self::Idle),
            _ => Err(io::Error::other(format!("the kernel has an I/O class {raw:#x}"))),
        }
    }
}

/// A thread of this process, by the kernel's number; it says nothing once the thread has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadId(i32);

impl ThreadId {
    /// The calling thread.
    #[must_use]
    pub fn current() -> Self {
        Self(rustix::thread::gettid().as_raw_nonzero().get())
    }

    /// The number, as in `/proc/self/task`.
    #[must_use]
    pub fn number(self) -> i32 {
        self.0
    }

    /// From [`ThreadId::number`].
    #[must_use]
    pub fn of(number: i32) -> Option<Self> {
        (number > 0).then_some(Self(number))
    }
}

/// The I/O class of a thread.
///
/// # Errors
/// Those of ioprio_get(2).
pub fn io_class(thread: ThreadId) -> io::Result<IoClass> {
    // SAFETY: plain integers, no pointers.
    let got = unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, thread.0) };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    IoClass::from_raw(got as u32)
}

/// Sets the I/O class of a thread and reads it back.
///
/// # Errors
/// Those of ioprio_set(2): EPERM for the realtime class without root or CAP_SYS_NICE; `Other` when the kernel reads
/// back something else.
pub fn set_io_class(thread: ThreadId, class: IoClass) -> io::Result<()> {
    // SAFETY: plain integers, no pointers.
    let done =
        unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, thread.0, class.to_raw()) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    match io_class(thread)? {
        got if got == class => Ok(()),
        got => Err(io::Error::other(format!("set {class:?}, read back {got:?}"))),
    }
}

/// The nice value of the calling thread, -20 (first) to 19: on Linux each thread has its own.
///
/// # Errors
/// Those of getpriority(2).
pub fn nice() -> io::Result<i32> {
    Ok(rustix::process::getpriority_process(None)?)
}

/// Sets the nice value of the calling thread and reads it back.
///
/// # Errors
/// Those of setpriority(2): EACCES for a lower value than now without root, CAP_SYS_NICE or a limit that allows it
/// (`ulimit -e`); `Other` when the kernel reads back something else.
pub fn set_nice(value: i32) -> io::Result<()> {
    rustix::process::setpriority_process(None, value)?;
    match nice()? {
        got if got == value => Ok(()),
        got => Err(io::Error::other(format!("set {value}, read back {got}"))),
    }
}

/// Puts a thread before all others for as long as it lives: CPU by SCHED_FIFO, I/O by the realtime class, level 0. Its
/// CPU then comes before any nice value, and what it has to read (its own program, when memory was short) before the
/// I/O of lower levels. Threads that it starts do not inherit the scheduling.
#[derive(Debug)]
pub struct FirstInLine {
    thread: ThreadId,
    policy: libc::c_int,
    priority: libc::c_int,
    class: IoClass,
}

impl FirstInLine {
    /// Raises the thread above those that have this realtime priority of the CPU, 0 for none.
    ///
    /// # Errors
    /// EPERM without root or CAP_SYS_NICE, or where the limits of realtime threads forbid it; EINVAL when nothing is above that
    /// priority. Nothing is changed then.
    pub fn raise(thread: ThreadId, others: i32) -> io::Result<Self> {
        let above = others + 1;
        let class = io_class(thread)?;
        let (policy, priority) = policy(thread)?;
        let before = Self { thread, policy, priority, class };
        let fifo = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
        set_policy(thread, fifo, above)?;
        // Dropped on the way out of an error, it puts back what was.
        if self::policy(thread)? != (fifo, above) {
            return Err(io::Error::other("SCHED_FIFO was set and is not read back"));
        }
        set_io_class(thread, IoClass::Realtime(0))?;
        Ok(before)
    }
}

impl Drop for FirstInLine {
    /// What cannot be put back stays until the thread ends, which harms nobody: it only waits.
    fn drop(&mut self) {
        let _ = set_policy(self.thread, self.policy, self.priority);
        let _ = set_io_class(self.thread, self.class);
    }
}

/// The realtime priority that threads which the calling one starts will have on the CPU, 0 for none: who is started by `chrt`
/// passes it on.
///
/// # Errors
/// Those of sched_getscheduler(2).
pub fn inherited_realtime_priority() -> io::Result<i32> {
    let (policy, priority) = policy(ThreadId::current())?;
    let is_realtime = [libc::SCHED_FIFO, libc::SCHED_RR].contains(&policy);
    Ok(if is_realtime { priority } else { 0 })
}

/// Scheduling policy with its flag, and realtime priority.
fn policy(thread: ThreadId) -> io::Result<(libc::c_int, libc::c_int)> {
    // SAFETY: sched_param is plain integers, for which zero is a valid value.
    let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
    // The kernel's own calls: those of some C libraries do not take threads.
    // SAFETY: plain integers; the second call's pointer is to a valid object of this thread.
    let (policy, told) = unsafe {
        let policy = libc::syscall(libc::SYS_sched_getscheduler, thread.0);
        (policy, libc::syscall(libc::SYS_sched_getparam, thread.0, &raw mut param))
    };
    if policy < 0 || told != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((policy as libc::c_int, param.sched_priority))
}

fn set_policy(thread: ThreadId, policy: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    // SAFETY: sched_param is plain integers, for which zero is a valid value.
    let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
    param.sched_priority = priority;
    let call = libc::SYS_sched_setscheduler;
    // SAFETY: the pointer is to a valid object of this thread.
    let done = unsafe { libc::syscall(call, thread.0, policy, &raw const param) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_a_thread(body: impl FnOnce() + Send) {
        std::thread::scope(|scope| scope.spawn(body).join().unwrap());
    }

    #[test]
    fn classes_and_levels_are_read_back() {
        on_a_thread(|| {
            let me = ThreadId::current();
            for class in [IoClass::BestEffort(7), IoClass::BestEffort(0), IoClass::Idle] {
                set_io_class(me, class).unwrap();
                assert_eq!(io_class(me).unwrap(), class);
            }
        });
        assert!(io_class(ThreadId(i32::MAX)).is_err());
        assert!(set_io_class(ThreadId::current(), IoClass::BestEffort(8)).is_err());
    }

    #[test]
    fn a_nice_value_is_the_threads_own() {
        let before = nice().unwrap();
        on_a_thread(|| {
            set_nice(19).unwrap();
            assert_eq!(nice().unwrap(), 19);
        });
        assert_eq!(nice().unwrap(), before);
    }

    #[test]
    fn raw_values_are_those_of_the_kernel() {
        // From the kernel's documentation of ioprio: class in bits 13 to 15, level below.
        assert_eq!(IoClass::Realtime(4).to_raw(), 0x2004);
        assert_eq!(IoClass::from_raw(0x4007).unwrap(), IoClass::BestEffort(7));
        // A hint for the device between them.
        assert_eq!(IoClass::from_raw(0x2000 | (1 << 3) | 5).unwrap(), IoClass::Realtime(5));
        assert!(IoClass::from_raw(0xE000).is_err());
    }
}
