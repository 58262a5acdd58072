//! What a thread can be told and asked: CPU affinity, CPU time.

use rustix::thread::CpuSet;
use std::io;

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
    usage(libc::RUSAGE_THREAD)
}

/// CPU time of the whole process so far, the kernel's workers for its io_uring requests included.
#[must_use]
pub fn process_cpu() -> CpuUse {
    usage(libc::RUSAGE_SELF)
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

/// Raises the limit of open files to what the administrator allows: every thread's ring takes one.
pub fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // Where it is not allowed, the old limit stays, and an error names it when it is reached.
    let _ = setrlimit(Resource::Nofile, wanted);
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
