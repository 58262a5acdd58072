//! What a thread can be told and asked: CPU affinity, CPU time.

use rustix::thread::CpuSet;
use std::io;
use std::marker::PhantomData;

/// CPU time of a thread or a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuUse {
    /// In user mode.
    pub user_ns: u64,
    /// In the kernel.
    pub system_ns: u64,
}

impl CpuUse {
    /// What was used since an earlier reading.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
        }
    }
}

/// CPU time of the calling thread so far.
#[must_use]
pub fn thread_cpu() -> CpuUse {
    // getrusage(2) tells what was noted of a running thread at the last tick; this clock has it noted up to now.
    let _ = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    usage(libc::RUSAGE_THREAD)
}

/// CPU time of the whole process so far, the kernel's workers for its io_uring requests included.
#[must_use]
pub fn process_cpu() -> CpuUse {
    usage(libc::RUSAGE_SELF)
}

/// CPU time of all processes that this one has started and waited for, and of those that they have waited for.
#[must_use]
pub fn children_cpu() -> CpuUse {
    usage(libc::RUSAGE_CHILDREN)
}

fn usage(who: libc::c_int) -> CpuUse {
    // SAFETY: rusage is plain integers, for which zero is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a valid rusage that the kernel fills.
    let told = unsafe { libc::getrusage(who, &raw mut usage) };
    if told != 0 {
        return CpuUse::default();
    }
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    CpuUse { user_ns: ns(usage.ru_utime), system_ns: ns(usage.ru_stime) }
}

/// Binds the calling thread to one CPU.
///
/// # Errors
/// EINVAL when the machine has no such CPU or the cgroup forbids it.
pub fn bind_to_cpu(cpu: u32) -> io::Result<()> {
    bind_to_cpus(&[cpu])
}

/// Binds the calling thread to some CPUs; those that the cgroup forbids are left out.
///
/// # Errors
/// EINVAL when none is left.
pub fn bind_to_cpus(cpus: &[u32]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus {
        let index = *cpu as usize;
        if index >= CpuSet::MAX_CPU {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        set.set(index);
    }
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// The CPUs that the calling thread may run on.
///
/// # Errors
/// Those of sched_getaffinity(2).
pub fn allowed_cpus() -> io::Result<Vec<u32>> {
    let set = rustix::thread::sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).map(|cpu| cpu as u32).collect())
}

/// Does two things at once, `other` in a thread of its own; one after the other where there can be none.
pub fn beside<A: Send, B>(other: &(impl Fn() -> A + Sync), here: impl FnOnce() -> B) -> (A, B) {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, other);
        let here = here();
        match thread.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(there)) => (there, here),
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(_) => (other(), here),
        }
    })
}

/// The table of open files of one thread. When it is dropped, at the end of the thread, all in it but the standard streams
/// are closed: a thread may live on for a moment after others have heard that it ended, and nothing is held by it then.
#[derive(Debug)]
pub struct OwnFiles(PhantomData<*const ()>);

/// Gives the calling thread a table of open files of its own, as a process has one: with all that is open now, under the same
/// numbers. As long as threads share a table, the kernel counts every use of a file and locks the position of every read, for
/// fear of the others, and they wait for each other when they open and close.
///
/// What is open now stays so until the thread ends, whoever else closes it. What is opened from now on must stay in this
/// thread: under its number others have another file, or none. Nothing where the kernel is too old or a filter of a container
/// refuses: then all is as it was.
#[must_use]
pub fn own_files() -> Option<OwnFiles> {
    // There is no such number: this asks whether the kernel knows the call.
    if !close_from(libc::c_uint::MAX) {
        return None;
    }
    // SAFETY: no memory is touched. Descriptors that are open stay valid in both tables.
    let is_own = unsafe { libc::unshare(libc::CLONE_FILES) == 0 };
    is_own.then_some(OwnFiles(PhantomData))
}

impl Drop for OwnFiles {
    fn drop(&mut self) {
        close_from(3);
    }
}

/// Closes all descriptors from a number on in the table of this thread.
fn close_from(first: libc::c_uint) -> bool {
    // SAFETY: no memory is touched. The table is that of this thread alone, which ends, or the number is none.
    unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) == 0 }
}

/// Timers of the calling thread fire as late as the hardware makes it, not up to the 50 us later by which the kernel
/// otherwise delays them to save power.
pub fn wake_precisely() {
    // Where it is not allowed, sleeps end later, which is measured and shown.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

/// How many files this process may have open.
#[must_use]
pub fn file_limit() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// The limit that an error of opening tells of, to be raised; none of all others.
#[must_use]
pub fn descriptors_limit(error: &std::io::Error) -> Option<&'static str> {
    Some(FilesLimit::of(error)?.limit)
}

/// What to do about an error that tells that no more files can be opened; none of all others.
#[must_use]
pub fn descriptors_cure(error: &std::io::Error) -> Option<&'static str> {
    Some(FilesLimit::of(error)?.cure)
}

/// A limit of open files, in the words of messages.
struct FilesLimit {
    /// By its name, to be raised.
    limit: &'static str,
    /// As the end of a sentence.
    cure: &'static str,
}

/// Both from the name alone.
macro_rules! files_limit {
    ($limit:literal) => {
        FilesLimit { limit: $limit, cure: concat!("; raise ", $limit) }
    };
}

impl FilesLimit {
    const OF_PROCESS: Self = files_limit!("the limit of descriptors (ulimit -n)");
    const OF_SYSTEM: Self = files_limit!("the system's limit of open files (sysctl fs.file-max)");

    /// The limit that an error tells of; none of all others.
    fn of(error: &std::io::Error) -> Option<Self> {
        const ENFILE: i32 = 23;
        const EMFILE: i32 = 24;
        match error.raw_os_error()? {
            EMFILE => Some(Self::OF_PROCESS),
            ENFILE => Some(Self::OF_SYSTEM),
            _ => None,
        }
    }
}

/// Raises the limit of open files to what the administrator allows: every thread's ring takes one.
pub fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // Where it is not allowed, the old limit stays, and an error names it when it is reached.
    let _ = setrlimit(Resource::Nofile, wanted);
}

/// The largest file that this process may write, in bytes (`ulimit -f`); none without a limit.
#[must_use]
pub fn file_size_limit_bytes() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Fsize).current
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_a_limit_of_open_files_names_it() {
        for (errno, name) in [(24, "ulimit -n"), (23, "fs.file-max")] {
            let error = std::io::Error::from_raw_os_error(errno);
            let limit = descriptors_limit(&error).expect("a limit");
            assert!(limit.contains(name), "{limit}");
            assert_eq!(descriptors_cure(&error), Some(format!("; raise {limit}").as_str()));
        }
        let other = std::io::Error::from_raw_os_error(2);
        assert_eq!((descriptors_limit(&other), descriptors_cure(&other)), (None, None));
    }

    #[test]
    fn cpu_time_grows_with_work() {
        let before = thread_cpu();
        // Where the processor is shared, and its time counted in ticks, it takes a while to come to something.
        let start = std::time::Instant::now();
        let mut x = 0u64;
        let mut used = thread_cpu().since(before);
        while used.user_ns + used.system_ns == 0 && start.elapsed().as_secs() < 60 {
            (0..1_000_000).for_each(|_| x = x.wrapping_mul(31).wrapping_add(1));
            std::hint::black_box(x);
            used = thread_cpu().since(before);
        }
        assert!(used.user_ns + used.system_ns > 0, "{used:?}");
        assert!(process_cpu().user_ns + process_cpu().system_ns >= used.user_ns);
    }

    #[test]
    fn cpu_time_is_known_between_ticks() {
        let clock_ns = || {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
        };
        let (mut used_ns, mut truth_ns) = (0, 0);
        for _ in 0..50 {
            let (before, before_ns) = (thread_cpu(), clock_ns());
            // A quarter of the longest tick.
            while clock_ns() - before_ns < 2_500_000 {
                std::hint::spin_loop();
            }
            let used = thread_cpu().since(before);
            used_ns += used.user_ns + used.system_ns;
            truth_ns += clock_ns() - before_ns;
        }
        assert!(
            used_ns > truth_ns / 10 * 9 && used_ns < truth_ns / 10 * 11,
            "{used_ns} {truth_ns}"
        );
    }

    #[test]
    fn binding_is_read_back() {
        std::thread::spawn(|| {
            let cpu = allowed_cpus().unwrap()[0];
            bind_to_cpu(cpu).unwrap();
            assert_eq!(allowed_cpus().unwrap(), [cpu]);
            assert!(bind_to_cpu(900).is_err() && bind_to_cpus(&[]).is_err());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_table_of_files_of_its_own_has_what_was_open_and_keeps_what_comes() {
        use std::io::Read;
        let dir = tempfile::tempdir().unwrap();
        let [before, later] = ["before", "later"].map(|name| dir.path().join(name));
        std::fs::write(&before, "hello").unwrap();
        std::fs::write(&later, "").unwrap();
        let old = std::fs::File::open(&before).unwrap();
        // Of this thread alone: others open files too.
        let is_open = |path: &std::path::Path| {
            let fds = std::fs::read_dir("/proc/thread-self/fd").unwrap();
            fds.flatten().any(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to == path))
        };
        let (opened, looked) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        let (is_own, in_thread, beside) = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let own = own_files();
                let is_own = own.is_some();
                let new = std::fs::File::open(&later);
                opened.wait();
                looked.wait();
                let mut text = String::new();
                let read = (&old).read_to_string(&mut text);
                let was = (read.is_ok(), text, is_open(&before), new.is_ok() && is_open(&later));
                drop(new);
                drop(own);
                (is_own, (was, is_open(&before)))
            });
            opened.wait();
            let beside = is_open(&later);
            looked.wait();
            let (is_own, in_thread) = thread.join().unwrap();
            (is_own, in_thread, beside)
        });
        // A container may refuse; then the table is that of all.
        assert_eq!(in_thread, ((true, "hello".to_owned(), true, true), !is_own));
        assert_eq!(beside, !is_own, "what is opened later is the thread's own");
        assert!(is_open(&before) && old.metadata().is_ok(), "others keep what they have");
    }
}
