//! A copy of this process that does a part of its work: for what the kernel gives to whole processes only, as the I/O limits of
//! control groups. The copy has everything that is open here, with the same rights, and nothing of it has to be described to
//! a program anew.

use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitStatus;

/// A copy of this process. Dropping it kills it.
#[derive(Debug)]
pub struct Fork {
    pid: libc::pid_t,
    line: UnixStream,
    is_gone: bool,
}

impl Fork {
    /// Makes a copy that does the work and ends, with nothing put in order: no destructor runs in it but for those inside of the
    /// work. It gets the other end of [`Self::line`], is killed when the thread that called this ends, and is stopped by Ctrl-Z as any
    /// process. Signals that are blocked here are blocked there.
    ///
    /// The copy has one thread, whatever there were here. Locks that the others held stay locked in it, so the work must not
    /// print, read the environment, or use anything that another thread of this process may hold at that moment. The C library
    /// itself (memory, threads) is in order.
    ///
    /// # Errors
    /// EAGAIN when no more processes are allowed, ENOMEM.
    pub fn start(work: impl FnOnce(UnixStream)) -> io::Result<Self> {
        let (line, other) = UnixStream::pair()?;
        let parent = std::process::id();
        // SAFETY: the copy uses its own memory only, and ends below without returning to the caller.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop(line);
                let done = catch_unwind(AssertUnwindSafe(|| {
                    if begin(parent) {
                        work(other);
                    }
                }));
                // SAFETY: ends this process without destructors or handlers, which belong to the original.
                unsafe { libc::_exit(i32::from(done.is_err()) * PANICKED) }
            }
            pid => Ok(Self { pid, line, is_gone: false }),
        }
    }

    /// Its process number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid.unsigned_abs()
    }

    /// The line to it: at its end when the copy has ended.
    #[must_use]
    pub fn line(&self) -> &UnixStream {
        &self.line
    }

    /// Kills it, if it is still there.
    pub fn kill(&mut self) {
        if !self.is_gone {
            // SAFETY: no memory is touched. Until it is waited for, the number is that of our child.
            unsafe { libc::kill(self.pid, libc::SIGKILL) };
        }
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// Those of waitpid(2).
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        let mut status = 0;
        loop {
            // SAFETY: the pointer is to a valid integer; the number is that of our child.
            let told = unsafe { libc::waitpid(self.pid, &raw mut status, 0) };
            let error = io::Error::last_os_error();
            if told >= 0 || error.kind() != io::ErrorKind::Interrupted {
                self.is_gone = true;
                return if told >= 0 { Ok(ExitStatus::from_raw(status)) } else { Err(error) };
            }
        }
    }
}

impl Drop for Fork {
    fn drop(&mut self) {
        if !self.is_gone {
            self.kill();
            let _ = self.wait();
        }
    }
}

/// As the standard library ends a program that panicked.
const PANICKED: i32 = 101;

/// The first steps of a copy: false when the original is gone already.
fn begin(parent: u32) -> bool {
    // What the original does on a panic is for its own terminal, and waits for its other threads.
    std::panic::set_hook(Box::new(|info| {
        let text = format!("fathom: in the process of a job: {info}\n");
        // SAFETY: the pointer and the length are those of a string that lives until the call returns.
        unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
    }));
    // SAFETY: sigset_t is plain data that sigemptyset initialises before any use; prctl and getppid touch no memory.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGTSTP);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == 0
            && u32::try_from(libc::getppid()) == Ok(parent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn a_copy_has_what_was_there_and_changes_nothing_here() {
        let mut number = 41;
        let mut copy = Fork::start(|mut line| {
            number += 1;
            let threads: Vec<_> = (0..3).map(|n| std::thread::spawn(move || n)).collect();
            let sum: u32 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
            writeln!(line, "{number} {sum} {}", std::process::id()).unwrap();
        })
        .unwrap();
        let mut said = String::new();
        copy.line().read_to_string(&mut said).unwrap();
        assert_eq!(said, format!("42 3 {}\n", copy.pid()));
        assert!(copy.wait().unwrap().success());
        assert_eq!(number, 41);
        assert_ne!(copy.pid(), std::process::id());
    }

    #[test]
    fn a_copy_that_is_killed_or_panics_says_so() {
        let mut killed = Fork::start(|mut line| drop(line.read(&mut [0; 1]))).unwrap();
        killed.kill();
        assert_eq!(killed.wait().unwrap().signal(), Some(libc::SIGKILL));
        let mut panicked = Fork::start(|_| std::panic::resume_unwind(Box::new(()))).unwrap();
        assert_eq!(panicked.wait().unwrap().code(), Some(PANICKED));
    }

    #[test]
    fn nothing_of_the_original_is_dropped_in_a_copy() {
        let path = std::env::temp_dir().join(format!("fathom-fork-{}", std::process::id()));
        struct Removed<'a>(&'a std::path::Path);
        impl Drop for Removed<'_> {
            fn drop(&mut self) {
                std::fs::remove_file(self.0).unwrap();
            }
        }
        std::fs::write(&path, "x").unwrap();
        let removed = Removed(&path);
        assert!(Fork::start(|_| ()).unwrap().wait().unwrap().success());
        assert!(path.exists());
        drop(removed);
        assert!(!path.exists());
    }
}
