//! System calls without a return: the instruction stands in the caller's own loop.
//!
//! On processors whose kernel clears what they know of returns (AMD before Zen 5: "Safe RET" against speculative return
//! stack overflow), the first function that is left after a system call costs some 200 ns, because its return is predicted
//! wrongly: a quarter of a cached read through io_uring. The C library's wrappers are such functions. Whoever calls this in
//! a loop inlines everything between the two.

/// System call `number` with six arguments; a negative result is an errno.
///
/// # Safety
/// As of that system call.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) unsafe fn raw(number: libc::c_long, arguments: [usize; 6]) -> isize {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    let result: isize;
    // SAFETY: the convention of the kernel on x86-64: the call changes rax, rcx, r11 and memory; the rest is the caller's.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") fourth,
            in("r8") fifth,
            in("r9") sixth,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// The same where the C library has to do it.
///
/// # Safety
/// As of that system call.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) unsafe fn raw(number: libc::c_long, arguments: [usize; 6]) -> isize {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    // SAFETY: the caller's.
    let told = unsafe { libc::syscall(number, first, second, third, fourth, fifth, sixth) };
    let errno = || std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    if told < 0 { -(errno() as isize) } else { told as isize }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn six_arguments_arrive_and_errors_are_negative() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let (fd, length) = (file.as_raw_fd() as usize, 4096);
        let (protection, flags) = (libc::PROT_READ as usize, libc::MAP_PRIVATE as usize);
        let arguments = [0, length, protection, flags, fd, length];
        // SAFETY: a new mapping of a page of a file that exists, wherever there is room.
        let mapped = unsafe { raw(libc::SYS_mmap, arguments) };
        assert!(mapped > 0, "{mapped}");
        // SAFETY: that page, which stays mapped until below.
        let seen = unsafe { std::slice::from_raw_parts(mapped as *const u8, length) };
        let mut expected = vec![0; length];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut expected, length as u64).unwrap();
        assert!(seen == expected, "the sixth argument is the offset");
        // SAFETY: our own mapping, of which nothing is used any more.
        assert_eq!(unsafe { raw(libc::SYS_munmap, [mapped as usize, length, 0, 0, 0, 0]) }, 0);
        // SAFETY: closing a descriptor that cannot exist harms nothing.
        let refused = unsafe { raw(libc::SYS_close, [u32::MAX as usize, 0, 0, 0, 0, 0]) };
        assert_eq!(refused, -(libc::EBADF as isize));
    }
}
