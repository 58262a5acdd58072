//! Programs that run beside a measurement, or are one: each in a process group of its own, ended with all that they start, and by
//! the kernel when this process dies.

use crate::process;
use crate::sysroot::SysRoot;
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a program gets to end after it was asked to.
const GRACE: Duration = Duration::from_secs(5);

/// How often one that runs is looked at.
const LOOK: Duration = Duration::from_millis(2);

/// A program that runs.
#[derive(Debug)]
pub struct Program {
    child: Child,
    /// Its number, and that of its group.
    pub pid: u32,
    /// When it started, in clock ticks since boot; 0 when it has ended already.
    pub start_time_ticks: u64,
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this exit status.
    Exit(i32),
    /// By a signal of somebody else's.
    Signal(i32),
}

/// Where what a program prints goes.
#[derive(Debug)]
pub struct Output {
    /// Its standard output; nowhere when none.
    pub stdout: Option<File>,
    /// Its standard error.
    pub stderr: Option<File>,
}

impl Program {
    /// Starts a program in a directory, with standard input empty.
    ///
    /// # Errors
    /// Those of starting it; NotFound when there is no such program.
    pub fn start(
        root: &SysRoot,
        words: &[OsString],
        dir: &Path,
        output: Output,
    ) -> io::Result<Self> {
        let (program, arguments) =
            words.split_first().ok_or_else(|| io::Error::other("an empty command"))?;
        let to = |file: Option<File>| file.map_or_else(Stdio::null, Stdio::from);
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(to(output.stdout))
            .stderr(to(output.stderr))
            .process_group(0);
        process::dies_with_parent(&mut command);
        hears_signals(&mut command);
        let child = command.spawn()?;
        let pid = child.id();
        let start_time_ticks = process::start_time_ticks(root, pid).unwrap_or(0);
        Ok(Self { child, pid, start_time_ticks })
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// Those of wait(2).
    pub fn ended(&mut self) -> io::Result<Option<Ended>> {
        let status = self.child.try_wait()?;
        Ok(status.map(|status| match status.code() {
            Some(code) => Ended::Exit(code),
            None => Ended::Signal(status.signal().unwrap_or(0)),
        }))
    }

    /// Waits for its end, at most until `goes_on` says no; none then.
    ///
    /// # Errors
    /// Those of wait(2).
    pub fn wait(&mut self, mut goes_on: impl FnMut() -> bool) -> io::Result<Option<Ended>> {
        loop {
            if let Some(ended) = self.ended()? {
                return Ok(Some(ended));
            }
            if !goes_on() {
                return Ok(None);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Ends it with everything that it has started in its group: asked first, then killed.
    pub fn end(mut self) {
        end_group(self.pid);
        let begun = Instant::now();
        // The group may outlive its leader.
        if !matches!(self.wait(|| begun.elapsed() < GRACE), Ok(Some(_))) || has_group(self.pid) {
            signal_group(self.pid, Signal::KILL);
            let begun = Instant::now();
            // One that waits for a device in the kernel ends later, or never; it is not waited for.
            let _ = self.wait(|| begun.elapsed() < GRACE);
        }
    }
}

/// The signals that this process waits for in a thread of its own are blocked in it, and would be in what it starts: a program
/// that is asked to end would not hear it.
fn hears_signals(command: &mut Command) {
    let in_child = || {
        // SAFETY: sigset_t is plain data that sigemptyset initialises before any use.
        let mut none: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to our own set; no handler is touched.
        let set = unsafe {
            libc::sigemptyset(&raw mut none);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut())
        };
        if set == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(set)) }
    };
    // SAFETY: what runs between fork and exec makes one system call and allocates nothing.
    unsafe { command.pre_exec(in_child) };
}

/// Asks a group to end.
fn end_group(pid: u32) {
    signal_group(pid, Signal::TERM);
    // Stopped ones do not hear it otherwise.
    signal_group(pid, Signal::CONT);
}

fn group(pid: u32) -> Option<Pid> {
    // 1 and 0 would mean all processes, or our own.
    i32::try_from(pid).ok().filter(|pid| *pid > 1).and_then(Pid::from_raw)
}

fn signal_group(pid: u32, signal: Signal) {
    if let Some(group) = group(pid) {
        // Gone already.
        kill_process_group(group, signal).ok();
    }
}

fn has_group(pid: u32) -> bool {
    group(pid).is_some_and(|group| rustix::process::test_kill_process_group(group).is_ok())
}

/// Ends the group of a program that an earlier process started, when it is still that one. True when something was ended.
#[must_use]
pub fn end_left_behind(root: &SysRoot, pid: u32, start_time_ticks: u64) -> bool {
    if start_time_ticks == 0 || process::start_time_ticks(root, pid) != Some(start_time_ticks) {
        return false;
    }
    end_group(pid);
    let begun = Instant::now();
    while process::start_time_ticks(root, pid) == Some(start_time_ticks) {
        if begun.elapsed() > GRACE {
            signal_group(pid, Signal::KILL);
            break;
        }
        std::thread::sleep(LOOK);
    }
    signal_group(pid, Signal::KILL);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(words: &[&str]) -> Program {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let nowhere = Output { stdout: None, stderr: None };
        Program::start(&SysRoot::live(), &words, Path::new("/"), nowhere).expect("starts")
    }

    #[test]
    fn a_program_ends_by_itself_or_is_ended_with_its_children() {
        let mut short = start(&["sh", "-c", "exit 7"]);
        assert_eq!(short.wait(|| true).expect("waits"), Some(Ended::Exit(7)));
        // The inner one would live on.
        let mut long = start(&["sh", "-c", "sleep 1000 & exec sleep 1000"]);
        let pid = long.pid;
        assert_eq!(long.wait(|| false).expect("waits"), None);
        assert!(has_group(pid));
        long.end();
        let begun = Instant::now();
        while has_group(pid) {
            assert!(begun.elapsed() < Duration::from_secs(60), "the group lives");
            std::thread::sleep(LOOK);
        }
    }

    #[test]
    fn only_the_very_program_is_ended_later() {
        let root = SysRoot::live();
        let program = start(&["sleep", "1000"]);
        assert!(!end_left_behind(&root, program.pid, program.start_time_ticks + 1));
        assert!(!end_left_behind(&root, program.pid, 0));
        assert!(process::start_time_ticks(&root, program.pid).is_some());
        program.end();
    }
}
