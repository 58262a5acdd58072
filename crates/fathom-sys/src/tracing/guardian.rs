//! A process beside this one that removes a trace instance when this one has ended, however it ended.
//!
//! It is a copy of this process that makes nothing but system calls: it waits at a pipe whose other end this process alone has.

use crate::sysroot::SysRoot;
use rustix::fs::AtFlags;
use std::ffi::CStr;
use std::io::{self, PipeWriter};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

/// Removing is tried again for so long: files of the instance may still be open.
const TRIES_MAX: u32 = 500;
const TRY_NS: libc::c_long = 10_000_000;

/// What it is called.
const NAME: &CStr = c"fathom-guardian";

/// True for a process that removes a trace instance when the one that has started it ends: it does nothing else.
#[must_use]
pub fn is_guardian(root: &SysRoot, pid: u32) -> bool {
    root.text(format!("proc/{pid}/comm")).as_deref() == NAME.to_str().ok()
}

/// The other process. Dropping this makes it remove the instance, and waits until it has.
#[derive(Debug)]
pub(super) struct Guardian {
    pid: libc::pid_t,
    /// At its end when nobody has it open any more.
    line: Option<PipeWriter>,
}

impl Guardian {
    /// Starts it, for the instance of that name in the directory of all instances. `switch` is the file in it that switches recording on and
    /// off.
    ///
    /// # Errors
    /// EMFILE; EAGAIN when no more processes are allowed, ENOMEM.
    pub(super) fn start(instances: BorrowedFd<'_>, name: &CStr, switch: &CStr) -> io::Result<Self> {
        let (end, line) = io::pipe()?;
        // SAFETY: the copy makes system calls that are allowed in it, uses what was made ready before, and never returns.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            // SAFETY: this is the copy. Both descriptors are open in it.
            0 => unsafe { guard([end.as_raw_fd(), instances.as_raw_fd()], name, switch) },
            pid => Ok(Self { pid, line: Some(line) }),
        }
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        self.line = None;
        let mut status = 0;
        // SAFETY: the pointer is to a valid integer. Until it is waited for, the number is that of our child.
        while unsafe { libc::waitpid(self.pid, &raw mut status, 0) } < 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
    }
}

/// Removes an instance; while somebody has files of it open it is switched off, and that is tried again. True when it is gone.
pub(super) fn remove(instances: BorrowedFd<'_>, name: &CStr, switch: &CStr, tries: u32) -> bool {
    use rustix::fs::{Mode, OFlags, openat, unlinkat};
    for number in 0..tries {
        match unlinkat(instances, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => return true,
            Err(_) => {}
        }
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        if let (0, Ok(file)) = (number, openat(instances, switch, flags, Mode::empty())) {
            let _ = rustix::io::write(file.as_fd(), b"0");
        }
        let time = libc::timespec { tv_sec: 0, tv_nsec: TRY_NS };
        // SAFETY: the pointer is to a valid time; the other may be null.
        unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) };
    }
    false
}

/// The life of the copy.
///
/// # Safety
/// Only for a copy of a process that has just been made; the descriptors are a pipe and a directory that are open.
unsafe fn guard(keeps: [RawFd; 2], name: &CStr, switch: &CStr) -> ! {
    // SAFETY: system calls on memory of this function, which allocate nothing; the descriptors stay open to the end.
    unsafe {
        // Neither a terminal nor a signal to a group ends it.
        libc::setsid();
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
        libc::prctl(libc::PR_SET_NAME, NAME.as_ptr());
        libc::chdir(c"/".as_ptr());
        close_others(keeps);
        let [line, instances] = keeps;
        let mut byte = 0u8;
        while libc::read(line, (&raw mut byte).cast(), 1) != 0 {
            if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                break;
            }
        }
        remove(BorrowedFd::borrow_raw(instances), name, switch, TRIES_MAX);
        libc::_exit(0)
    }
}

/// Closes all descriptors but two: whoever waits for the end of one of this process's files waits for no copy of it.
///
/// # Safety
/// Nothing else in this process uses a descriptor.
unsafe fn close_others(keeps: [RawFd; 2]) {
    let [first, second] =
        [keeps[0].min(keeps[1]).unsigned_abs(), keeps[0].max(keeps[1]).unsigned_abs()];
    for (from, to) in [(0, first), (first + 1, second), (second + 1, u32::MAX)] {
        if from >= to {
            continue;
        }
        // SAFETY: numbers only; as the caller says, nobody misses them.
        unsafe {
            if libc::syscall(libc::SYS_close_range, from, to - 1, 0) != 0 {
                // Linux before 5.9.
                for fd in from..to.min(DESCRIPTORS_MAX) {
                    libc::close(fd as RawFd);
                }
            }
        }
    }
}

/// The most that a process may have where nobody has raised it.
const DESCRIPTORS_MAX: u32 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// A directory as that of all instances, with one in it.
    fn instances(dir: &Path) -> fs::File {
        fs::create_dir(dir.join("one")).expect("made");
        fs::File::open(dir).expect("open")
    }

    fn start(instances: &fs::File) -> Guardian {
        Guardian::start(instances.as_fd(), c"one", c"one/tracing_on").expect("starts")
    }

    #[test]
    fn what_it_guards_goes_with_the_line_and_not_before() {
        let dir = tempfile::tempdir().expect("a directory");
        let instances = instances(dir.path());
        let guardian = start(&instances);
        let place = format!("/proc/{}", guardian.pid);
        let is_ready = || is_guardian(&SysRoot::live(), guardian.pid.unsigned_abs());
        while !is_ready() {
            std::thread::yield_now();
        }
        // Nothing else of this process is held open by it.
        let files = || fs::read_dir(format!("{place}/fd")).expect("listed").count();
        while files() > 2 {
            std::thread::yield_now();
        }
        let status = fs::read_to_string(format!("{place}/status")).expect("read");
        let session = status.lines().find_map(|line| line.strip_prefix("NSsid:"));
        assert_eq!(session.map(str::trim), Some(&*guardian.pid.to_string()));
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        let blocked = blocked.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGTSTP] {
            assert_eq!(blocked.map(|bits| bits >> (signal - 1) & 1), Some(1), "{signal}");
        }
        assert!(dir.path().join("one").exists());
        drop(guardian);
        assert!(!dir.path().join("one").exists());
    }

    #[test]
    fn what_is_in_use_is_removed_when_it_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let (one, instances) = (dir.path().join("one"), instances(dir.path()));
        fs::write(one.join("tracing_on"), "1").expect("written");
        let guardian = start(&instances);
        let user = std::thread::spawn({
            let switch = one.join("tracing_on");
            move || {
                let is_off = || fs::read(&switch).is_ok_and(|text| text == b"0");
                while !is_off() {
                    std::thread::yield_now();
                }
                fs::remove_file(&switch).expect("removed");
            }
        });
        drop(guardian);
        user.join().expect("ended");
        assert!(!one.exists());
        // What somebody else has removed is gone.
        assert!(remove(instances.as_fd(), c"one", c"one/tracing_on", 1));
    }

    #[test]
    fn what_stays_in_use_is_given_up() {
        let dir = tempfile::tempdir().expect("a directory");
        let (one, instances) = (dir.path().join("one"), instances(dir.path()));
        fs::write(one.join("other"), "1").expect("written");
        assert!(!remove(instances.as_fd(), c"one", c"one/tracing_on", 2));
        assert!(one.exists());
    }
}
