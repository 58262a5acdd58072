//! Programs that run beside a measurement, or are one: each in a process group of its own, ended with all that they start, and by
//! the kernel when this process dies.

use crate::family;
use crate::process;
use crate::program_marks;
use crate::sysroot::SysRoot;
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Variable in the environment of a program and of all that it starts, by which they are known when their parent is gone.
pub const MARK: &str = "FATHOM_PROGRAM";

/// The line of `/proc/PID/limits` with the second mark of a program and of all that it starts, a number that goes with the first: a limit of
/// file locks that Linux has not enforced since 2.4.25. Unlike the environment nobody empties or sets it.
const LIMIT: &str = "Max file locks";

/// The longest environment that is looked at.
const ENVIRONMENT_BYTES_MAX: usize = 4 << 20;

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

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "exit status {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// What a program reads, and where what it prints goes.
#[derive(Debug, Default)]
pub struct Output {
    /// Its standard input; empty when none.
    pub stdin: Option<File>,
    /// Its standard output; nowhere when none.
    pub stdout: Option<File>,
    /// Its standard error.
    pub stderr: Option<File>,
}

/// A file in memory that nobody else can open, for what a program says: unlike a pipe it holds nobody up.
///
/// # Errors
/// Those of memfd_create(2).
pub fn nameless(name: &str) -> io::Result<File> {
    use rustix::fs::{MemfdFlags, memfd_create};
    Ok(File::from(memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?))
}

/// Nothing more can be added to it, by whoever holds it still.
pub fn close_nameless(file: &File) {
    // Where it cannot be sealed, it is as large as what is said.
    rustix::fs::fcntl_add_seals(file, rustix::fs::SealFlags::GROW).ok();
}

/// The standard input of this process, for a program to read. None where that is a terminal: it would stop a program that is in a
/// group of its own.
#[must_use]
pub fn own_stdin() -> Option<File> {
    let stdin = io::stdin();
    let own = (!stdin.is_terminal()).then(|| stdin.as_fd().try_clone_to_owned().ok());
    own.flatten().map(File::from)
}

impl Program {
    /// Starts a program in a directory. By the mark, which is used once only, [`end_left_behind`] knows
    /// it and what it starts.
    ///
    /// # Errors
    /// Those of starting it; NotFound when there is no such program.
    pub fn start(
        root: &SysRoot,
        words: &[OsString],
        dir: &Path,
        output: Output,
        mark: &str,
    ) -> io::Result<Self> {
        let (program, arguments) =
            words.split_first().ok_or_else(|| io::Error::other("an empty command"))?;
        let to = |file: Option<File>| file.map_or_else(Stdio::null, Stdio::from);
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(dir)
            .stdin(to(output.stdin))
            .stdout(to(output.stdout))
            .stderr(to(output.stderr))
            .process_group(0);
        process::dies_with_parent(&mut command);
        process::hears_signals(&mut command);
        carries(&mut command, mark);
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

    /// True when it has ended, or cannot be asked; what the kernel still tells of it (its counts) stays until [`Program::ended`].
    #[must_use]
    pub fn has_ended(&self) -> bool {
        has_ended(self.pid)
    }

    /// What poll(2) finds readable once it has ended; none on kernels before 5.3, or without a descriptor left.
    #[must_use]
    pub fn end_signal(&self) -> Option<OwnedFd> {
        use rustix::process::{PidfdFlags, pidfd_open};
        pidfd_open(group(self.pid)?, PidfdFlags::empty()).ok()
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
    pub fn end(self) {
        end_all(vec![self]);
    }
}

/// Ends programs at once, each with everything that it has started in its group: all are asked first, and those that go on are killed.
pub fn end_all(mut programs: Vec<Program>) {
    programs.iter().for_each(|program| end_group(program.pid));
    let begun = Instant::now();
    // Those that have ended come first: while others are waited for, their numbers may become somebody's.
    programs.sort_by_cached_key(|program| !program.has_ended());
    for program in &mut programs {
        let has_ended = matches!(program.wait(|| begun.elapsed() < GRACE), Ok(Some(_)));
        // The group may outlive its leader, and has the same time.
        while has_ended && is_group_alive(program.pid) && begun.elapsed() < GRACE {
            std::thread::sleep(LOOK);
        }
        // It is killed here, before another is waited for: later its number may be somebody's.
        if !has_ended || has_group(program.pid) {
            signal_group(program.pid, Signal::KILL);
        }
    }
    let begun = Instant::now();
    for program in &mut programs {
        // One that waits for a device in the kernel ends later, or never; it is not waited for.
        let _ = program.wait(|| begun.elapsed() < GRACE);
    }
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

/// A child has ended, or cannot be asked; its number stays its own until it is waited for.
fn has_ended(pid: u32) -> bool {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let pid = group(pid);
    !pid.is_some_and(|pid| matches!(waitid(WaitId::Pid(pid), options), Ok(None)))
}

/// Kills a group at once: of a child that was not waited for yet, so that its number is nobody else's.
pub fn kill_group(pid: u32) {
    signal_group(pid, Signal::KILL);
}

/// Ends a child, which was not waited for yet, with its group: asked first, then killed.
pub fn end_with_group(child: &mut Child) {
    let (pid, begun) = (child.id(), Instant::now());
    end_group(pid);
    while !has_ended(pid) && begun.elapsed() < GRACE {
        std::thread::sleep(LOOK);
    }
    kill_group(pid);
    wait_for_killed(child);
}

/// Kills a child that is in no group of its own, and was not waited for yet, with all that it has started, as far as this user may.
pub fn kill_family(root: &SysRoot, child: &mut Child) {
    for pid in family::members(root, child.id()).into_iter().filter_map(group) {
        rustix::process::kill_process(pid, Signal::KILL).ok();
    }
    wait_for_killed(child);
}

/// Waits for a child that was killed, but not for ever: one that waits for a device in the kernel ends later, or never.
pub fn wait_for_killed(child: &mut Child) {
    let begun = Instant::now();
    while matches!(child.try_wait(), Ok(None)) && begun.elapsed() < GRACE {
        std::thread::sleep(LOOK);
    }
}

fn has_group(pid: u32) -> bool {
    group(pid).is_some_and(|group| rustix::process::test_kill_process_group(group).is_ok())
}

/// Whether any of a group runs: of remains (zombies) that nobody has collected yet there is nothing to wait for. Two looks, as one may miss
/// what is started meanwhile.
fn is_group_alive(pid: u32) -> bool {
    let root = SysRoot::live();
    let lives = || {
        let names = root.names("proc");
        let mut pids = names.iter().filter_map(|name| name.parse().ok()).peekable();
        pids.peek().is_none() || pids.any(|one| process::group(&root, one) == Some(pid))
    };
    has_group(pid) && (lives() || lives())
}

/// Ends the program that an earlier process started with this mark, as far as it still runs: the kernel has ended the program itself
/// with that process, but not what it had started. `pid` is its group; 0 when it was not noted. True when something was ended.
#[must_use]
pub fn end_left_behind(root: &SysRoot, pid: u32, mark: &str) -> bool {
    end_those(root, &|| left_behind(root, pid, &[mark]))
}

/// Ends all processes that carry one of the marks, whatever group they are in: one look at every process serves all marks. True when
/// something was ended.
pub fn end_carriers<M: AsRef<str>>(root: &SysRoot, marks: &[M]) -> bool {
    let marks: Vec<&str> = marks.iter().map(AsRef::as_ref).collect();
    !marks.is_empty() && end_those(root, &|| left_behind(root, 0, &marks))
}

/// Ends what is found, until nothing is: asked first, then killed. Never this process, nor those that have started it.
fn end_those(root: &SysRoot, find: &dyn Fn() -> Vec<u32>) -> bool {
    let find = || {
        let mut found = find();
        found.retain(|pid| *pid != std::process::id() && !process::is_above(root, *pid));
        found
    };
    let mut still = find();
    if still.is_empty() {
        return false;
    }
    for pid in &still {
        signal(*pid, Signal::TERM);
        // Stopped ones do not hear it otherwise.
        signal(*pid, Signal::CONT);
    }
    let begun = Instant::now();
    // One that waits for a device in the kernel ends later, or never; it is not waited for.
    while !still.is_empty() && begun.elapsed() <= 2 * GRACE {
        std::thread::sleep(LOOK);
        still = find();
        if begun.elapsed() > GRACE {
            still.iter().for_each(|pid| signal(*pid, Signal::KILL));
        }
    }
    true
}

/// The marks of all programs that were started and run, with those of their owners that are gone.
#[must_use]
pub fn marks(root: &SysRoot) -> Vec<String> {
    let prefix = format!("{MARK}=");
    let mut found: Vec<String> = Vec::new();
    for pid in root.names("proc").iter().filter_map(|name| name.parse::<u32>().ok()) {
        let environment = root.bytes(format!("proc/{pid}/environ"), ENVIRONMENT_BYTES_MAX);
        let environment = environment.unwrap_or_default();
        let mut words = environment.split(|byte| *byte == 0);
        let mark = words.find_map(|word| word.strip_prefix(prefix.as_bytes()));
        let mark = mark.map(|mark| String::from_utf8_lossy(mark).into_owned());
        found.extend(mark.filter(|mark| !found.contains(mark)));
    }
    found
}

/// All processes that carry the mark.
#[must_use]
pub fn carriers(root: &SysRoot, mark: &str) -> Vec<u32> {
    left_behind(root, 0, &[mark])
}

/// All processes that carry one of the marks' numbers, or the marks themselves: also those that this user must not end.
#[must_use]
pub fn carriers_of_anyone<M: AsRef<str>>(root: &SysRoot, marks: &[M]) -> Vec<u32> {
    let numbers: Vec<u64> = marks.iter().map(|mark| number_of(mark.as_ref())).collect();
    let marks: Vec<&str> = marks.iter().map(AsRef::as_ref).collect();
    let own = left_behind(root, 0, &marks);
    let is_one = |pid: &u32| {
        // Remains (zombies) have limits, too.
        own.contains(pid)
            || lock_limit(root, *pid).is_some_and(|own| numbers.contains(&own))
                && process::group(root, *pid).is_some()
    };
    root.names("proc").iter().filter_map(|name| name.parse().ok()).filter(is_one).collect()
}

/// The program that this command starts, and all that it starts, carry this mark.
pub fn carries(command: &mut Command, mark: &str) {
    command.env(MARK, mark);
    process::has_lock_limit(command, number_of(mark));
}

/// The numbers of marks that processes have, whatever became of their environment.
pub(crate) fn numbers(root: &SysRoot) -> Vec<u64> {
    let pids = root.names("proc").into_iter().filter_map(|name| name.parse().ok());
    pids.filter_map(|pid| lock_limit(root, pid)).collect()
}

fn lock_limit(root: &SysRoot, pid: u32) -> Option<u64> {
    let limits = root.read(format!("proc/{pid}/limits")).unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix(LIMIT));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
}

/// The number that goes with a mark: who has started what carries it, or FNV-1a, far above every limit that somebody sets and below none
/// at all.
fn number_of(mark: &str) -> u64 {
    if let Some(number) = program_marks::number(mark) {
        return number;
    }
    let hash = mark.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash >> 2) | (1 << 62)
}

/// Processes of the group that carry one of the marks, or its number; with 0 of any group.
fn left_behind(root: &SysRoot, group: u32, marks: &[&str]) -> Vec<u32> {
    let prefix = format!("{MARK}=");
    let numbers: Vec<u64> = marks.iter().map(|mark| number_of(mark)).collect();
    let is_numbered = |pid: u32| {
        let own = lock_limit(root, pid);
        // Everybody may read limits, but not end what is another user's. Remains (zombies) have limits, too.
        let is_ours =
            || self::group(pid).is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok());
        own.is_some_and(|own| numbers.contains(&own))
            && is_ours()
            && process::group(root, pid).is_some()
    };
    let is_one = |word: &[u8]| {
        let mark = word.strip_prefix(prefix.as_bytes());
        mark.is_some_and(|mark| marks.iter().any(|wanted| mark == wanted.as_bytes()))
    };
    let is_left = |pid: &u32| {
        (group == 0 || process::group(root, *pid) == Some(group)) && {
            let environment = root.bytes(format!("proc/{pid}/environ"), ENVIRONMENT_BYTES_MAX);
            is_numbered(*pid)
                || environment.unwrap_or_default().split(|byte| *byte == 0).any(is_one)
        }
    };
    root.names("proc").iter().filter_map(|name| name.parse().ok()).filter(is_left).collect()
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = group(pid) {
        // Gone already.
        rustix::process::kill_process(pid, signal).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(name: &str) -> String {
        format!("{} {name}", std::process::id())
    }

    fn start(name: &str, words: &[&str]) -> Program {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let nowhere = Output::default();
        Program::start(&SysRoot::live(), &words, Path::new("/"), nowhere, &mark(name))
            .expect("starts")
    }

    #[test]
    fn a_program_ends_by_itself_or_is_ended_with_its_children() {
        let mut short = start("ends", &["sh", "-c", "exit 7"]);
        while !short.has_ended() {
            std::thread::sleep(LOOK);
        }
        assert_eq!(short.wait(|| true).expect("waits"), Some(Ended::Exit(7)));
        // The inner one would live on.
        let mut long = start("is ended", &["sh", "-c", "sleep 1000 & exec sleep 1000"]);
        let pid = long.pid;
        assert_eq!(long.wait(|| false).expect("waits"), None);
        assert!(has_group(pid) && !long.has_ended());
        long.end();
        let begun = Instant::now();
        while has_group(pid) {
            assert!(begun.elapsed() < Duration::from_secs(60), "the group lives");
            std::thread::sleep(LOOK);
        }
    }

    /// What a process outside of the group has started in it, and does not collect.
    #[test]
    fn remains_of_a_group_are_not_waited_for() {
        let script = "(sleep 0.01 & exec setsid sleep 1000) & sleep 0.1";
        let mut program = start("remains", &["sh", "-c", script]);
        let pid = program.pid;
        assert_eq!(program.wait(|| true).expect("waits"), Some(Ended::Exit(0)));
        let begun = Instant::now();
        while is_group_alive(pid) {
            assert!(begun.elapsed() < Duration::from_secs(60), "the group lives");
            std::thread::sleep(LOOK);
        }
        assert!(has_group(pid), "the remains are collected already");
        let begun = Instant::now();
        program.end();
        assert!(begun.elapsed() < GRACE / 2, "{:?}", begun.elapsed());
        assert!(end_carriers(&SysRoot::live(), &[mark("remains")]));
    }

    #[test]
    fn only_the_very_program_is_ended_later() {
        let root = SysRoot::live();
        let program = start("ended later", &["sleep", "1000"]);
        let mark = mark("ended later");
        assert!(marks(&root).contains(&mark));
        assert!(!end_left_behind(&root, program.pid, "another"));
        assert!(!end_left_behind(&root, program.pid + 1, &mark));
        assert!(process::start_time_ticks(&root, program.pid).is_some());
        assert!(end_left_behind(&root, program.pid, &mark));
        program.end();
    }

    #[test]
    fn what_a_killed_program_has_started_is_ended_later() {
        let root = SysRoot::live();
        for is_noted in [true, false] {
            let name = if is_noted { "noted" } else { "not noted" };
            let program = start(name, &["sh", "-c", "sleep 1000; true"]);
            let (pid, mark) = (program.pid, mark(name));
            let begun = Instant::now();
            while left_behind(&root, pid, &[&mark]).len() < 2 {
                assert!(begun.elapsed() < Duration::from_secs(60), "it starts nothing");
                std::thread::sleep(LOOK);
            }
            // As the kernel does it when the parent dies: the leader alone.
            signal(pid, Signal::KILL);
            program.child.wait_with_output().expect("waits");
            assert_eq!(left_behind(&root, pid, &[&mark]).len(), 1);
            assert!(end_left_behind(&root, if is_noted { pid } else { 0 }, &mark));
            assert!(!end_left_behind(&root, pid, &mark));
        }
    }

    /// What has left the groups of two programs is found by their marks at once; the third program's lives on.
    #[test]
    fn what_has_left_its_group_is_ended_with_all_marks_at_once() {
        let root = SysRoot::live();
        let names = ["left one", "left two", "left alone"];
        let words = ["sh", "-c", "setsid sleep 1000 & wait"];
        let programs = names.map(|name| start(name, &words));
        let pids = programs.each_ref().map(|program| program.pid);
        let outside = |number: usize| {
            let mut all = carriers(&root, &mark(names[number]));
            all.retain(|pid| {
                process::group(&root, *pid).is_some_and(|group| group != pids[number])
            });
            all.len()
        };
        let begun = Instant::now();
        while (0..3).any(|number| outside(number) != 1) {
            assert!(begun.elapsed() < Duration::from_secs(60), "they do not leave their groups");
            std::thread::sleep(LOOK);
        }
        let [one, two, alone] = programs;
        end_all(vec![one, two]);
        assert_eq!([outside(0), outside(1)], [1, 1], "a group alone is not all");
        let two = [mark(names[0]), mark(names[1])];
        assert!(end_carriers(&root, &two));
        assert_eq!([outside(0), outside(1), outside(2)], [0, 0, 1]);
        assert!(!end_carriers(&root, &two) && !end_carriers::<String>(&root, &[]));
        alone.end();
        assert!(end_carriers(&root, &[mark(names[2])]));
    }

    /// With its environment it loses the mark by name, and it leaves group and session: it is known all the same, and no other is taken for it.
    #[test]
    fn what_has_emptied_its_environment_is_known() {
        let root = SysRoot::live();
        let words = ["sh", "-c", "env -i setsid sleep 1000 & wait"];
        let program = start("emptied", &words);
        let mark = mark("emptied");
        let mut stranger =
            Command::new("env").args(["-i", "sleep", "1000"]).spawn().expect("starts");
        let begun = Instant::now();
        let is_out = || {
            let all = carriers(&root, &mark);
            all.iter().any(|pid| {
                let left = process::group(&root, *pid).is_some_and(|group| group != program.pid);
                left && root
                    .bytes(format!("proc/{pid}/environ"), 1 << 16)
                    .is_ok_and(|e| e.is_empty())
            })
        };
        while !is_out() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it is not found");
            std::thread::sleep(LOOK);
        }
        program.end();
        assert_eq!(carriers(&root, &mark).len(), 1, "what has left the group lives on");
        assert!(end_left_behind(&root, 0, &mark));
        assert!(carriers(&root, &mark).is_empty());
        assert_eq!(stranger.try_wait().expect("is asked"), None, "not ours");
        stranger.kill().expect("is ended");
        stranger.wait().expect("is waited for");
    }

    /// Those that do not hear are waited for together, not one after the other.
    #[test]
    fn programs_that_do_not_hear_are_killed_at_once() {
        let words = ["sh", "-c", "trap '' TERM; while :; do sleep 0.01; done"];
        let programs: Vec<Program> = (0..3).map(|_| start("deaf", &words)).collect();
        let pids: Vec<u32> = programs.iter().map(|program| program.pid).collect();
        // Until the trap is set.
        std::thread::sleep(Duration::from_millis(500));
        let begun = Instant::now();
        end_all(programs);
        assert!(begun.elapsed() < 2 * GRACE, "{:?}", begun.elapsed());
        assert!(begun.elapsed() >= GRACE, "they were asked first");
        let begun = Instant::now();
        while pids.iter().any(|pid| has_group(*pid)) {
            assert!(begun.elapsed() < Duration::from_secs(60), "a group lives");
            std::thread::sleep(LOOK);
        }
    }
}
