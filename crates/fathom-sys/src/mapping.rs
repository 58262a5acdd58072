//! A file mapped into memory, whose errors are errors and not the end of the process.
//!
//! The kernel answers a load or store that it cannot serve (the file became shorter, the disk failed, the filesystem
//! is full) with SIGBUS. While a thread copies from or to a mapping of ours, the handler puts a page of zeros in place
//! of the one that cannot be had and makes a note; the copy goes on, and its caller finds the note. Every other SIGBUS
//! goes to whoever handled it before. Signal dispositions belong to the process, so the handler is installed once.

use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence};

const PAGE_BYTES: usize = 4096;

/// What a thread is copying now. Atomic only because a signal handler of the same thread reads it.
struct Copying {
    start: AtomicUsize,
    end: AtomicUsize,
    was_hit: AtomicBool,
}

thread_local! {
    static COPYING: Copying = const {
        Copying {
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            was_hit: AtomicBool::new(false),
        }
    };
}

/// Who handled SIGBUS before.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

extern "C" fn on_sigbus(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid structure, and SIGBUS has an address.
    let address = unsafe { (*info).si_addr() } as usize;
    let is_mended = COPYING.with(|copying| {
        let range = copying.start.load(Ordering::Relaxed)..copying.end.load(Ordering::Relaxed);
        let is_mended = range.contains(&address) && put_zeros_at(address);
        if is_mended {
            copying.was_hit.store(true, Ordering::Relaxed);
        }
        is_mended
    });
    if !is_mended && let Some(previous) = PREVIOUS.get() {
        // The instruction runs again and fails again, for the handler that was there before.
        // SAFETY: the structure came from the system, and sigaction(2) may be called in a handler.
        unsafe { libc::sigaction(signal, previous, std::ptr::null_mut()) };
    }
}

/// Replaces the page of an address that lies in a mapping of ours.
fn put_zeros_at(address: usize) -> bool {
    let page = address - address % PAGE_BYTES;
    // SAFETY: the page lies in a mapping that this thread is copying from or to, and that is put back afterwards.
    let mapped = unsafe {
        rustix::mm::mmap_anonymous(
            page as *mut _,
            PAGE_BYTES,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE | MapFlags::FIXED,
        )
    };
    mapped.is_ok()
}

/// Puts our handler in place, once for the process.
fn catch_sigbus() -> io::Result<()> {
    if PREVIOUS.get().is_some() {
        return Ok(());
    }
    // SAFETY: sigaction is plain data; with a null new action the call only reads.
    let mut previous: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to our own structure.
    if unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut previous) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if PREVIOUS.set(previous).is_err() {
        return Ok(());
    }
    // SAFETY: as above.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    action.sa_sigaction = on_sigbus as *const () as usize;
    // SAFETY: the handler calls only what may be called in one, and has the form that SA_SIGINFO asks for.
    match unsafe { libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A shared mapping of the beginning of a file or device.
pub struct Mapping<'f> {
    file: BorrowedFd<'f>,
    start: NonNull<u8>,
    size_bytes: usize,
    protection: ProtFlags,
    /// A page could not be put back: what lies there is not the file.
    is_broken: bool,
}

impl<'f> Mapping<'f> {
    /// Maps the first `size_bytes` of a file.
    ///
    /// # Errors
    /// Those of mmap(2): EACCES for a file that was opened otherwise, ENODEV where the filesystem has no mappings.
    pub fn new(file: BorrowedFd<'f>, size_bytes: u64, is_writable: bool) -> io::Result<Self> {
        catch_sigbus()?;
        let size_bytes = usize::try_from(size_bytes.max(1))
            .map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
        let mut protection = ProtFlags::READ;
        protection.set(ProtFlags::WRITE, is_writable);
        // SAFETY: a new mapping; no existing memory is named.
        let pointer = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                size_bytes,
                protection,
                MapFlags::SHARED,
                file,
                0,
            )?
        };
        let start = NonNull::new(pointer.cast::<u8>())
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Self { file, start, size_bytes, protection, is_broken: false })
    }

    /// Copies from the mapping; as much as lies inside of it, which is returned.
    ///
    /// # Errors
    /// EIO when a page could not be read.
    #[inline]
    pub fn read(&mut self, buffer: &mut [u8], offset_bytes: u64) -> io::Result<usize> {
        let Some((place, size)) = self.place(buffer.len(), offset_bytes) else { return Ok(0) };
        // SAFETY: both ranges are valid for `size` bytes, and the buffer is not part of the mapping.
        self.copy(place, size, || unsafe {
            std::ptr::copy_nonoverlapping(place.cast_const(), buffer.as_mut_ptr(), size);
        })
    }

    /// Copies into the mapping; as much as lies inside of it, which is returned.
    ///
    /// # Errors
    /// EIO when a page could not be had, ENOSPC when the filesystem is full, EBADF for a mapping that is not writable.
    #[inline]
    pub fn write(&mut self, buffer: &[u8], offset_bytes: u64) -> io::Result<usize> {
        if !self.protection.contains(ProtFlags::WRITE) {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        let Some((place, size)) = self.place(buffer.len(), offset_bytes) else { return Ok(0) };
        // SAFETY: both ranges are valid for `size` bytes, the mapping is writable, the buffer is not part of it.
        self.copy(place, size, || unsafe {
            std::ptr::copy_nonoverlapping(buffer.as_ptr(), place, size);
        })
    }

    /// msync(2) of the whole mapping: what was stored is written, as fdatasync(2) does it.
    ///
    /// # Errors
    /// Those of msync(2).
    pub fn sync(&self) -> io::Result<()> {
        let start = self.start.as_ptr().cast();
        // SAFETY: the range is our own mapping.
        Ok(unsafe { rustix::mm::msync(start, self.size_bytes, MsyncFlags::SYNC) }?)
    }

    #[inline]
    fn place(&self, wanted: usize, offset_bytes: u64) -> Option<(*mut u8, usize)> {
        let offset = usize::try_from(offset_bytes).ok()?;
        let left = self.size_bytes.checked_sub(offset).filter(|left| *left > 0)?;
        // SAFETY: the offset is inside the mapping.
        Some((unsafe { self.start.as_ptr().add(offset) }, wanted.min(left)))
    }

    /// Runs a copy of which the given part of the mapping is one side.
    #[inline]
    fn copy(&mut self, place: *mut u8, size: usize, copy: impl FnOnce()) -> io::Result<usize> {
        let was_hit = COPYING.with(|copying| {
            copying.start.store(place as usize, Ordering::Relaxed);
            copying.end.store(place as usize + size, Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
            copy();
            compiler_fence(Ordering::SeqCst);
            copying.end.store(0, Ordering::Relaxed);
            copying.was_hit.load(Ordering::Relaxed)
        });
        if was_hit || self.is_broken {
            return self.after_fault(place as usize - self.start.as_ptr() as usize, size);
        }
        Ok(size)
    }

    /// Puts the file's pages back and finds out why they could not be had.
    #[cold]
    fn after_fault(&mut self, offset: usize, size: usize) -> io::Result<usize> {
        COPYING.with(|copying| copying.was_hit.store(false, Ordering::Relaxed));
        let first = offset - offset % PAGE_BYTES;
        let length = offset + size - first;
        // SAFETY: the range is part of our own mapping and gets the same pages of the same file again.
        let mapped = unsafe {
            rustix::mm::mmap(
                self.start.as_ptr().add(first).cast(),
                length,
                self.protection,
                MapFlags::SHARED | MapFlags::FIXED,
                self.file,
                first as u64,
            )
        };
        self.is_broken |= mapped.is_err();
        let stat = rustix::fs::fstat(self.file)?;
        let end = stat.st_size as usize;
        let is_file =
            rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::RegularFile;
        if is_file && offset + size > end {
            // As read(2) and write(2) say it of a file that became shorter.
            return Ok(end.saturating_sub(offset));
        }
        let is_full = is_file
            && self.protection.contains(ProtFlags::WRITE)
            && rustix::fs::fstatvfs(self.file).is_ok_and(|space| space.f_bavail == 0);
        Err(io::Error::from_raw_os_error(if is_full { libc::ENOSPC } else { libc::EIO }))
    }
}

impl Drop for Mapping<'_> {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this length and nobody borrows it.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.size_bytes) };
        debug_assert!(unmapped.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    fn scratch(size: usize) -> File {
        let path = std::env::temp_dir().join(format!(
            "fathom-map-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let mut options = File::options();
        let file = options.read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all_at(&vec![7; size], 0).unwrap();
        file
    }

    #[test]
    fn copies_reach_the_file_and_end_with_it() {
        let file = scratch(10_000);
        let mut mapping = Mapping::new(file.as_fd(), 10_000, true).unwrap();
        let mut buffer = [0u8; 4096];
        assert_eq!(mapping.write(&[9; 100], 5000).unwrap(), 100);
        assert_eq!(mapping.read(&mut buffer, 4096).unwrap(), 4096);
        assert!(buffer[904..1004].iter().all(|b| *b == 9) && buffer[..904].iter().all(|b| *b == 7));
        assert_eq!(mapping.read(&mut buffer, 8192).unwrap(), 1808);
        assert_eq!(
            (
                mapping.read(&mut buffer, 10_000).unwrap(),
                mapping.read(&mut buffer, u64::MAX).unwrap()
            ),
            (0, 0)
        );
        mapping.sync().unwrap();
        let mut seen = [0; 100];
        file.read_exact_at(&mut seen, 5000).unwrap();
        assert_eq!(seen, [9; 100]);
    }

    #[test]
    fn a_file_that_becomes_shorter_and_longer_again() {
        let file = scratch(1 << 20);
        let mut mapping = Mapping::new(file.as_fd(), 1 << 20, true).unwrap();
        let mut buffer = vec![1u8; 16384];
        file.set_len(20_480).unwrap();
        assert_eq!(mapping.read(&mut buffer, 0).unwrap(), 16384);
        assert_eq!(mapping.read(&mut buffer, 12_288).unwrap(), 8192, "as read(2) says it");
        assert_eq!(mapping.read(&mut buffer, 524_288).unwrap(), 0);
        assert_eq!(mapping.write(&buffer, 524_288).unwrap(), 0);
        assert_eq!(file.metadata().unwrap().len(), 20_480, "stores do not make it longer");
        file.set_len(1 << 20).unwrap();
        assert_eq!(mapping.write(&[5; 4096], 524_288).unwrap(), 4096);
        file.read_exact_at(&mut buffer, 520_192).unwrap();
        assert!(buffer[4096..8192].iter().all(|b| *b == 5), "the file's own pages are back");
    }

    #[test]
    fn what_may_not_be_written_is_not() {
        let file = scratch(4096);
        let mut mapping = Mapping::new(file.as_fd(), 4096, false).unwrap();
        assert_eq!(mapping.write(&[0; 10], 0).unwrap_err().raw_os_error(), Some(libc::EBADF));
    }

    /// Someone else's SIGBUS ends the process as before: run in a child, because it does.
    #[test]
    fn a_fault_elsewhere_still_kills() {
        let file = scratch(4096);
        let _ours = Mapping::new(file.as_fd(), 4096, false).unwrap();
        // SAFETY: the child only touches a mapping of its own and ends by a signal or _exit.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: a new mapping, read once; the file is shorter than it by then.
            unsafe {
                let start = libc::mmap(
                    std::ptr::null_mut(),
                    8192,
                    libc::PROT_READ,
                    libc::MAP_SHARED,
                    std::os::fd::AsRawFd::as_raw_fd(&file),
                    0,
                );
                libc::signal(libc::SIGALRM, libc::SIG_DFL);
                libc::alarm(10);
                let byte = start.cast::<u8>().add(4096).read_volatile();
                libc::_exit(i32::from(byte));
            }
        }
        let mut status = 0;
        // SAFETY: our own child; the pointer is to our own integer.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGBUS, "{status}");
    }
}
