//! What a thread can be told and asked: CPU affinity, I/O priority, CPU time, name.

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
    let mut set = CpuSet::new();
    let index = cpu as usize;
    if index >= CpuSet::MAX_CPU {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    set.set(index);
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

/// Raises the limit of open files to what the administrator allows: every thread's ring takes one.
pub fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // Where it is not allowed, the old limit stays, and an error names it when it is reached.
    let _ = setrlimit(Resource::Nofile, wanted);
}

/// I/O scheduling classes of ioprio_set(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoClass {
    /// Class 2, level 0 (first) to 7.
    BestEffort(u8),
    /// Class 3.
    Idle,
}

const WHO_PROCESS: libc::c_int = 1;
const CLASS_SHIFT: u32 = 13;

/// Sets the I/O class of the calling thread and reads it back.
///
/// # Errors
/// Those of ioprio_set(2); `Other` when the kernel reads back something else.
pub fn set_io_class(class: IoClass) -> io::Result<()> {
    let value: u32 = match class {
        IoClass::BestEffort(level) => (2 << CLASS_SHIFT) | u32::from(level),
        IoClass::Idle => (3 << CLASS_SHIFT) | 7,
    };
    // SAFETY: plain integers; who 0 is the calling thread.
    if unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, value) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above.
    let got = unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, 0) };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    let same = got as u32 == value || (class == IoClass::Idle && got as u32 >> CLASS_SHIFT == 3);
    if same { Ok(()) } else { Err(io::Error::other(format!("set {value:#x}, read back {got:#x}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_grows_with_work() {
        let before = thread_cpu();
        let start = std::time::Instant::now();
        let mut x = 0u64;
        while start.elapsed().as_millis() < 60 {
            x = x.wrapping_mul(31).wrapping_add(1);
        }
        std::hint::black_box(x);
        let used = thread_cpu().since(before);
        assert!(used.user_ns + used.system_ns > 0, "{used:?}");
        assert!(process_cpu().user_ns + process_cpu().system_ns >= used.user_ns);
    }

    #[test]
    fn binding_and_io_class_are_read_back() {
        std::thread::spawn(|| {
            let cpu = allowed_cpus().unwrap()[0];
            bind_to_cpu(cpu).unwrap();
            assert_eq!(allowed_cpus().unwrap(), [cpu]);
            set_io_class(IoClass::BestEffort(7)).unwrap();
            set_io_class(IoClass::Idle).unwrap();
            assert!(bind_to_cpu(900).is_err());
        })
        .join()
        .unwrap();
    }
}
