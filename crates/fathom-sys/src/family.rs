//! A process and all that it starts: who they are, their CPU time, memory and own counts of I/O.

use crate::sysroot::SysRoot;
use std::io;

/// What a process, with those that it has waited for, has used since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in user mode and in the kernel.
    pub cpu_ns: u64,
    /// Memory in use now.
    pub resident_bytes: u64,
    /// What it asked for with read calls.
    pub asked_read_bytes: u64,
    /// What it handed over with write calls.
    pub asked_write_bytes: u64,
    /// What was fetched from storage for it.
    pub read_bytes: u64,
    /// What it made dirty or wrote directly, less what was dropped before it was written.
    pub written_bytes: u64,
    /// What was dropped.
    pub dropped_bytes: u64,
    /// Write calls. What libaio, io_uring and mapped files write is in neither this nor what was handed over.
    pub write_calls: u64,
    /// The kernel does not tell this user the counts of I/O, or not those of one that has ended.
    pub is_io_refused: bool,
}

impl Usage {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns + other.cpu_ns,
            resident_bytes: self.resident_bytes + other.resident_bytes,
            asked_read_bytes: self.asked_read_bytes + other.asked_read_bytes,
            asked_write_bytes: self.asked_write_bytes + other.asked_write_bytes,
            read_bytes: self.read_bytes + other.read_bytes,
            written_bytes: self.written_bytes + other.written_bytes,
            dropped_bytes: self.dropped_bytes + other.dropped_bytes,
            write_calls: self.write_calls + other.write_calls,
            is_io_refused: self.is_io_refused || other.is_io_refused,
        }
    }
}

impl Usage {
    /// What came to it since an earlier look; memory is as it is now.
    #[must_use]
    pub fn less(self, earlier: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            resident_bytes: self.resident_bytes,
            asked_read_bytes: self.asked_read_bytes.saturating_sub(earlier.asked_read_bytes),
            asked_write_bytes: self.asked_write_bytes.saturating_sub(earlier.asked_write_bytes),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
            dropped_bytes: self.dropped_bytes.saturating_sub(earlier.dropped_bytes),
            write_calls: self.write_calls.saturating_sub(earlier.write_calls),
            is_io_refused: self.is_io_refused,
        }
    }
}

impl Usage {
    /// Counts at the highest of two looks, of which this is the later one; memory as it is now. A count seems to go back while it is
    /// handed over from one that has ended to the one that waits for it.
    #[must_use]
    pub fn no_less_than(self, earlier: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.max(earlier.cpu_ns),
            resident_bytes: self.resident_bytes,
            asked_read_bytes: self.asked_read_bytes.max(earlier.asked_read_bytes),
            asked_write_bytes: self.asked_write_bytes.max(earlier.asked_write_bytes),
            read_bytes: self.read_bytes.max(earlier.read_bytes),
            written_bytes: self.written_bytes.max(earlier.written_bytes),
            dropped_bytes: self.dropped_bytes.max(earlier.dropped_bytes),
            write_calls: self.write_calls.max(earlier.write_calls),
            is_io_refused: self.is_io_refused,
        }
    }
}

/// Makes this process the one that orphans of its descendants become children of, so that they are still found.
///
/// # Errors
/// Those of prctl(2).
pub fn adopt_orphans() -> io::Result<()> {
    // SAFETY: no memory is touched.
    let done = unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A process and all its descendants that run now. Depends on the kernel's lists of children (CONFIG_PROC_CHILDREN, as
/// everywhere since 3.5); the process alone without them.
#[must_use]
pub fn members(root: &SysRoot, pid: u32) -> Vec<u32> {
    const MEMBERS_MAX: usize = 100_000;
    let mut found = vec![pid];
    let mut at = 0;
    while at < found.len() && found.len() < MEMBERS_MAX {
        let children = children(root, found[at]);
        found.extend(children);
        at += 1;
    }
    found
}

/// The processes that this one has started and that run, or wait for it to ask how they ended.
#[must_use]
pub fn children(root: &SysRoot, pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for thread in root.names(format!("proc/{pid}/task")) {
        let text = root.read(format!("proc/{pid}/task/{thread}/children")).unwrap_or_default();
        found.extend(text.split_ascii_whitespace().filter_map(|word| word.parse::<u32>().ok()));
    }
    found
}

/// What the children of this process that have ended and were waited for, with those that they have waited for, have read from and
/// written to storage; dropped bytes are among the written ones. Everybody may know that, and nothing of what was asked for.
#[must_use]
pub fn waited_for() -> Usage {
    // SAFETY: rusage is plain data, for which zeros are values.
    let mut told: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to our own structure.
    let done = unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut told) };
    if done != 0 {
        return Usage::default();
    }
    // Whatever the device has, the kernel counts these in blocks of 512 bytes.
    let bytes = |blocks: libc::c_long| u64::try_from(blocks).unwrap_or(0) * 512;
    Usage {
        read_bytes: bytes(told.ru_inblock),
        written_bytes: bytes(told.ru_oublock),
        ..Usage::default()
    }
}

/// What a process has used; none when it is gone. Counts of I/O are zero where the kernel does not tell them to this user. Of one
/// that has ended and was not waited for, the final counts: on some kernels for root only.
#[must_use]
pub fn usage(root: &SysRoot, pid: u32) -> Option<Usage> {
    // The kernel counts in ticks of 10 ms for user space, whatever its own tick is.
    const TICK_NS: u64 = 10_000_000;
    let stat = root.read(format!("proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    // The state is field 3.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let ticks: u64 = (14..=17).filter_map(field).sum();
    let io = root.read(format!("proc/{pid}/io"));
    let is_io_refused =
        io.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
    let io = io.unwrap_or_default();
    let count = |name: &str| {
        let line = io.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|value| value.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    Some(Usage {
        cpu_ns: ticks * TICK_NS,
        resident_bytes: field(24).unwrap_or(0) * crate::hostinfo::page_bytes(),
        asked_read_bytes: count("rchar"),
        asked_write_bytes: count("wchar"),
        read_bytes: count("read_bytes"),
        written_bytes: count("write_bytes").saturating_sub(count("cancelled_write_bytes")),
        dropped_bytes: count("cancelled_write_bytes"),
        write_calls: count("syscw"),
        is_io_refused,
    })
}

/// Takes away the remains of a child of this process that has ended; true when there were any. Its counts are lost with them.
#[must_use]
pub fn bury(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    let waited = |pid| rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::NOHANG);
    pid.is_some_and(|pid| matches!(waited(pid), Ok(Some(_))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_family_is_counted_with_its_children() {
        let root = SysRoot::live();
        let path = std::env::temp_dir().join(format!("fathom-family-{}", std::process::id()));
        // The inner shell writes 3 MiB and is waited for; then the outer one sleeps with a child.
        let script =
            format!("sh -c 'head -c 3145728 /dev/zero > {0}'; sleep 1000 & wait", path.display());
        let mut child = Command::new("sh").args(["-c", &script]).spawn().expect("starts");
        let begun = std::time::Instant::now();
        let done = || {
            let usage = usage(&root, child.id()).expect("runs");
            members(&root, child.id()).len() == 2 && usage.asked_write_bytes >= 3 << 20
        };
        while !done() {
            assert!(begun.elapsed().as_secs() < 60, "{:?}", usage(&root, child.id()));
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let family = members(&root, child.id());
        assert!(usage(&root, child.id()).expect("runs").resident_bytes > 0);
        child.kill().expect("killed");
        // The remains tell the counts.
        let counts = usage(&root, child.id()).expect("not waited for");
        assert!(counts.asked_write_bytes >= 3 << 20 && counts.write_calls > 0, "{counts:?}");
        child.wait().expect("ended");
        Command::new("kill").args(family[1..].iter().map(u32::to_string)).status().expect("ran");
        assert_eq!(usage(&root, child.id()), None);
        std::fs::remove_file(path).expect("there");
    }
}
