//! Telling one process from all others that ever ran: number, start time, boot, machine.

use crate::signals;
use crate::sysroot::SysRoot;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Who a process is, in a form that survives it on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// Process number, as seen in `pid_namespace`.
    pub pid: u32,
    /// When it started, in clock ticks since boot.
    pub start_time_ticks: u64,
    /// The boot that it ran in.
    pub boot_id: String,
    /// The machine: machine-id and host name, since clones share the former.
    pub machine: String,
    /// The namespace in which the process number counts; empty when it cannot be read.
    pub pid_namespace: String,
}

/// What can be said of a process that was written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// It runs.
    Alive,
    /// It has ended, or the machine was booted since.
    Dead,
    /// It belongs to another machine or to another process or time namespace: nothing can be said.
    Unknown,
}

impl ProcessIdentity {
    /// This process; none when `/proc` is not there.
    #[must_use]
    pub fn current(root: &SysRoot) -> Option<Self> {
        let pid = std::process::id();
        Some(Self {
            pid,
            start_time_ticks: start_time_ticks(root, pid)?,
            boot_id: boot_id(root)?,
            machine: machine(root),
            pid_namespace: pid_namespace(root),
        })
    }

    /// Whether it still runs.
    #[must_use]
    pub fn life(&self, root: &SysRoot) -> Life {
        // Without a boot id of our own nothing can be compared. The same boot is the same machine, whatever it is called by now.
        let Some(boot) = boot_id(root) else { return Life::Unknown };
        if boot != self.boot_id {
            return if self.machine == machine(root) { Life::Dead } else { Life::Unknown };
        }
        if self.pid_namespace != pid_namespace(root) {
            return Life::Unknown;
        }
        match start_time_ticks(root, self.pid) {
            Some(ticks) if ticks == self.start_time_ticks => Life::Alive,
            // Each time namespace has a beginning of its own from which that is counted.
            Some(_) if has_other_time(root, self.pid) => Life::Unknown,
            _ => Life::Dead,
        }
    }
}

/// Ends this process at once, as SIGKILL does: nothing is put in order. For tests of what comes after.
pub fn kill_self() {
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).ok();
}

/// The program that this command starts is killed when the thread that started it ends, so that nothing goes on working on a
/// device after fathom was killed.
pub fn dies_with_parent(command: &mut Command) {
    let parent = std::process::id();
    let in_child = move || {
        // SAFETY: prctl and getppid touch no memory of this process.
        let (asked, now) =
            unsafe { (libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL), libc::getppid()) };
        if asked != 0 {
            return Err(io::Error::last_os_error());
        }
        // It died before the request: nobody would be told any more.
        if u32::try_from(now) == Ok(parent) {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(libc::ESRCH))
        }
    };
    // SAFETY: what runs between fork and exec makes two system calls and allocates nothing.
    unsafe { command.pre_exec(in_child) };
}

/// The signals that this process waits for in a thread of its own are blocked in it, and would be in what it starts: a program
/// that is asked to end, or a daemon that it leaves running, would not hear it. That of the limit of file sizes is what it was
/// before this process ignored it.
pub fn hears_signals(command: &mut Command) {
    let stays_ignored = signals::is_file_limit_ignored();
    let in_child = move || {
        // SAFETY: sigset_t is plain data that sigemptyset initialises before any use.
        let mut none: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to our own set. SIG_DFL is a valid disposition, and takes the place of none but SIG_IGN.
        let set = unsafe {
            libc::sigemptyset(&raw mut none);
            // Ignored here, it would be ignored there, too.
            if !stays_ignored {
                libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut())
        };
        if set == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(set)) }
    };
    // SAFETY: what runs between fork and exec makes system calls that are allowed there, and allocates nothing.
    unsafe { command.pre_exec(in_child) };
}

/// The program that this command starts, and all that it starts, has this limit of file locks, which the kernel counts no more: a number by
/// which they are known. The highest that they may set stays, so that others among them can have one of their own.
pub fn has_lock_limit(command: &mut Command, number: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let in_child = move || {
        let Rlimit { maximum, .. } = getrlimit(Resource::Locks);
        // Where somebody allows less, it is known by the environment alone.
        let _ = setrlimit(Resource::Locks, Rlimit { current: Some(number), maximum });
        Ok(())
    };
    // SAFETY: what runs between fork and exec makes two system calls and allocates nothing.
    unsafe { command.pre_exec(in_child) };
}

/// True when this process has the rights of root.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// True for the user that this process acts as.
#[must_use]
pub fn is_own(uid: u32) -> bool {
    rustix::process::geteuid().as_raw() == uid
}

/// When a process started, in clock ticks since boot; none when there is none, or only its remains (a zombie).
#[must_use]
pub fn start_time_ticks(root: &SysRoot, pid: u32) -> Option<u64> {
    let stat = root.read(format!("proc/{pid}/stat")).ok()?;
    // The command name before the last bracket may hold anything.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let state = fields.next()?;
    if matches!(state, "Z" | "X" | "x") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// True for a process that has been killed, or has ended, whether it has let go of all that it had by now or not.
#[must_use]
pub fn is_dying(root: &SysRoot, pid: u32) -> bool {
    const KILL: u64 = 1 << 8;
    let Ok(status) = root.read(format!("proc/{pid}/status")) else { return true };
    let value = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let pending = |name| value(name).and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let is_killed = |name| pending(name).is_some_and(|mask| mask & KILL != 0);
    // Its memory goes before its files.
    value("VmSize:").is_none() || is_killed("SigPnd:") || is_killed("ShdPnd:")
}

/// The process group of a process that runs; none when there is none, or only its remains (a zombie).
#[must_use]
pub fn group(root: &SysRoot, pid: u32) -> Option<u32> {
    let stat = root.read(format!("proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let is_gone = matches!(fields.next()?, "Z" | "X" | "x");
    fields.nth(1)?.parse().ok().filter(|_| !is_gone)
}

/// The process that a thread is of; none when there is no such thread.
#[must_use]
pub fn of_thread(root: &SysRoot, thread: u32) -> Option<u32> {
    let status = root.read(format!("proc/{thread}/status")).ok()?;
    let process = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    process.trim().parse().ok()
}

/// The process that has started a process, or taken it over since.
fn parent(root: &SysRoot, pid: u32) -> Option<u32> {
    let stat = root.read(format!("proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(1)?.parse().ok()
}

/// True when a process has started this one, be it over others in between that run.
#[must_use]
pub fn is_above(root: &SysRoot, pid: u32) -> bool {
    let mut at = std::process::id();
    while let Some(above) = parent(root, at).filter(|above| *above != 0) {
        if above == pid {
            return true;
        }
        at = above;
    }
    false
}

/// How long ago a process started, in seconds.
#[must_use]
pub fn age_s(root: &SysRoot, pid: u32) -> Option<u64> {
    let uptime_s: f64 = root.text("proc/uptime")?.split(' ').next()?.parse().ok()?;
    // SAFETY: sysconf only reads a constant of the system.
    let ticks_per_s = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok()?.max(1);
    Some((uptime_s as u64).saturating_sub(start_time_ticks(root, pid)? / ticks_per_s))
}

/// The command line of a process on one line, without control characters; its program's name when that is not
/// readable.
#[must_use]
pub fn command_line(root: &SysRoot, pid: u32) -> String {
    let raw = root.read(format!("proc/{pid}/cmdline")).unwrap_or_default();
    let line: String =
        raw.trim_end_matches('\0').replace('\0', " ").chars().filter(|c| !c.is_control()).collect();
    if line.is_empty() { crate::openers::command(root, pid) } else { line }
}

/// The identifier of this boot.
#[must_use]
pub fn boot_id(root: &SysRoot) -> Option<String> {
    root.text("proc/sys/kernel/random/boot_id")
}

/// The machine: machine-id and host name, since clones share the former.
#[must_use]
pub fn machine(root: &SysRoot) -> String {
    let id = root.text("etc/machine-id").unwrap_or_default();
    let host = root.text("proc/sys/kernel/hostname").unwrap_or_default();
    format!("{id}/{host}")
}

fn pid_namespace(root: &SysRoot) -> String {
    namespace(root, "pid")
}

/// A namespace of this process by its kind, as `/proc` names it: `mnt:[4026531832]`. Empty when the kernel has none.
#[must_use]
pub fn namespace(root: &SysRoot, kind: &str) -> String {
    let link = root.link(Path::new("proc/self/ns").join(kind));
    link.map(|link| link.display().to_string()).unwrap_or_default()
}

/// True when a process is known to be in another time namespace than this one: when it started is told otherwise there.
#[must_use]
pub fn has_other_time(root: &SysRoot, pid: u32) -> bool {
    let link = root.link(Path::new(&format!("proc/{pid}/ns/time")));
    link.is_some_and(|link| link.as_os_str() != namespace(root, "time").as_str())
}

/// Device and inode of the root directory of this process, which no other directory of this boot has.
#[must_use]
pub fn root_directory(root: &SysRoot) -> String {
    use std::os::unix::fs::MetadataExt;
    let meta = std::fs::metadata(root.path(""));
    meta.map(|meta| format!("{}:{}", meta.dev(), meta.ino())).unwrap_or_default()
}

/// The process namespace of the machine itself, in every boot.
pub const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Whether no process of a namespace is left, as `/proc` names one: `pid:[4026532281]`. While a process runs in it, its name is
/// not given to another.
///
/// # Errors
/// What keeps this process from seeing all others, in words that name the cure.
pub fn is_namespace_gone(root: &SysRoot, namespace: &str) -> Result<bool, &'static str> {
    if let Some(blind) = crate::openers::blindness(root) {
        return Err(blind);
    }
    let kind = namespace.split(':').next().unwrap_or_default();
    let is_there = |pid: &u32| {
        let link = root.link(Path::new(&format!("proc/{pid}/ns/{kind}")));
        link.is_some_and(|link| link.as_os_str() == namespace)
    };
    let pids = std::fs::read_dir(root.path("proc")).map_err(|_| "/proc cannot be listed")?;
    let pids = pids.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Ok(!pids.into_iter().any(|pid| is_there(&pid)))
}

/// A new file in which each line is on stable storage as soon as it is written: nothing of it is left to be written at a moment
/// when something is measured.
///
/// # Errors
/// Those of making it; it is never in the place of another file.
pub fn new_log(path: &std::path::Path) -> io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::File::options();
    options.append(true).create_new(true).mode(0o600).custom_flags(libc::O_DSYNC).open(path)
}

/// Leaves the terminal and the session of whoever started this process: it goes on when they end, and is called `fathom`. One that
/// leads a group already stays where it is.
pub fn leave_terminal() {
    let _ = rustix::process::setsid();
    // Started from `/proc/self/exe` it would be called that, and be found by its name by nobody.
    std::fs::write("/proc/self/comm", "fathom").ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_its_like_do_not() {
        let root = SysRoot::live();
        let me = ProcessIdentity::current(&root).unwrap();
        assert_eq!(me.life(&root), Life::Alive);
        let reused = ProcessIdentity { start_time_ticks: me.start_time_ticks - 1, ..me.clone() };
        assert_eq!(reused.life(&root), Life::Dead);
        let earlier_boot = ProcessIdentity { boot_id: "other".to_owned(), ..me.clone() };
        assert_eq!(earlier_boot.life(&root), Life::Dead);
        let elsewhere = ProcessIdentity { machine: "other/other".to_owned(), ..earlier_boot };
        assert_eq!(elsewhere.life(&root), Life::Unknown);
        // The host was renamed meanwhile.
        let renamed = ProcessIdentity { machine: "other/other".to_owned(), ..reused };
        assert_eq!(renamed.life(&root), Life::Dead);
        let inside = ProcessIdentity { pid_namespace: "pid:[1]".to_owned(), ..me };
        assert_eq!(inside.life(&root), Life::Unknown);
    }

    #[test]
    fn what_was_killed_is_dying_until_somebody_asks_for_it() {
        let root = SysRoot::live();
        assert!(!is_dying(&root, std::process::id()));
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        child.kill().unwrap();
        assert!(is_dying(&root, child.id()));
        child.wait().unwrap();
        assert!(is_dying(&root, child.id()));
    }

    /// Its ticks are counted from another beginning, so that they tell nothing.
    #[test]
    fn a_process_with_a_time_of_its_own_is_not_taken_for_dead() {
        let root = SysRoot::live();
        let mut command = Command::new("unshare");
        let Ok(mut child) =
            command.args(["--time", "--fork", "--kill-child", "sleep", "100"]).spawn()
        else {
            return;
        };
        let started = std::time::Instant::now();
        let inside = loop {
            let path = format!("proc/{0}/task/{0}/children", child.id());
            let pid = root.text(path).and_then(|pid| pid.trim().parse::<u32>().ok());
            // Only root can make one, where the kernel has them.
            if pid.is_some() || child.try_wait().unwrap().is_some() {
                break pid;
            }
            assert!(started.elapsed().as_secs() < 20, "nothing is started");
        };
        if let Some(pid) = inside {
            let own = ProcessIdentity::current(&root).unwrap();
            let ticks = start_time_ticks(&root, pid).unwrap();
            let seen = |start_time_ticks| {
                ProcessIdentity { pid, start_time_ticks, ..own.clone() }.life(&root)
            };
            assert_eq!([seen(ticks), seen(ticks - 1)], [Life::Alive, Life::Unknown]);
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_zombie_is_dead() {
        let root = SysRoot::live();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let started = std::time::Instant::now();
        while start_time_ticks(&root, child.id()).is_some() {
            assert!(started.elapsed().as_secs() < 20, "the child does not end");
            std::thread::yield_now();
        }
        child.wait().unwrap();
    }

    #[test]
    fn who_has_started_whom() {
        let root = SysRoot::live();
        let own = std::process::id();
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        assert!(is_above(&root, parent(&root, own).unwrap()));
        assert!(!is_above(&root, own) && !is_above(&root, child.id()));
        assert_eq!(parent(&root, child.id()), Some(own));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn the_command_line_is_one_line() {
        let root = SysRoot::live();
        let line = command_line(&root, std::process::id());
        assert!(!line.is_empty() && !line.contains(['\0', '\n']), "{line:?}");
        assert!(age_s(&root, std::process::id()).is_some_and(|age| age < 100_000));
    }
}
