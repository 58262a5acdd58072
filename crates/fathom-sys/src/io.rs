//! Opening targets and plain positioned I/O.

use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

/// O_DSYNC by its number: [`OFlags::DSYNC`] of rustix 1.1 is O_SYNC on Linux, which asks for more.
const DSYNC: OFlags = OFlags::from_bits_retain(libc::O_DSYNC as u32);

/// How a target is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenMode {
    /// For writing as well as reading.
    pub write: bool,
    /// O_DIRECT.
    pub direct: bool,
    /// O_DSYNC.
    pub dsync: bool,
    /// O_SYNC.
    pub sync: bool,
}

impl OpenMode {
    pub(crate) fn flags(self) -> OFlags {
        let mut flags = if self.write { OFlags::RDWR } else { OFlags::RDONLY };
        flags.set(OFlags::DIRECT, self.direct);
        // O_SYNC is O_DSYNC and one bit more.
        if self.sync {
            flags |= OFlags::SYNC;
        } else if self.dsync {
            flags |= DSYNC;
        }
        flags | OFlags::CLOEXEC
    }

    /// Makes sure that writes to an opened file are synchronous as asked: figures and promises of durability rest on it.
    pub(crate) fn check_sync(self, fd: &OwnedFd) -> io::Result<()> {
        let synchronous = |flags: OFlags| flags & (OFlags::SYNC | DSYNC);
        if synchronous(rustix::fs::fcntl_getfl(fd)?) == synchronous(self.flags()) {
            return Ok(());
        }
        let word = if self.sync { "O_SYNC" } else { "O_DSYNC" };
        Err(io::Error::other(format!("it was opened with {word}, which did not take effect")))
    }
}

/// Makes sure that this user may write to a file, or make files in a directory. Opens and changes nothing.
///
/// # Errors
/// Those of access(2).
pub fn check_writable(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::access(path, rustix::fs::Access::WRITE_OK)?)
}

/// Opens an existing file or device, without updating its access time where that is allowed. Never creates.
///
/// # Errors
/// Those of open(2); EINVAL with `direct` means that the filesystem has no O_DIRECT.
pub fn open_existing(path: &Path, mode: OpenMode) -> io::Result<File> {
    let flags = mode.flags() | OFlags::NONBLOCK;
    // Only the owner may ask for NOATIME; it saves 5 to 10 % of the time of a cached read.
    let opened = rustix::fs::open(path, flags | OFlags::NOATIME, Mode::empty());
    let fd = match opened {
        Err(rustix::io::Errno::PERM) => rustix::fs::open(path, flags, Mode::empty())?,
        other => other?,
    };
    clear_nonblock(&fd)?;
    mode.check_sync(&fd)?;
    Ok(File::from(fd))
}

/// NONBLOCK keeps open(2) from hanging on a FIFO; for the I/O itself it must be off.
fn clear_nonblock(fd: &OwnedFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(fd)?;
    Ok(rustix::fs::fcntl_setfl(fd, flags - OFlags::NONBLOCK)?)
}

/// Lets the descriptor of an open file mean another one, which is closed under its own number: whoever holds the
/// descriptor works on the other file from then on. What is in flight goes on with the old one.
///
/// # Errors
/// Those of dup3(2).
pub fn replace_open(old: &File, new: File) -> io::Result<()> {
    // SAFETY: both descriptors are open; the old number stays a valid descriptor, of another file.
    let done = unsafe { libc::dup3(new.as_raw_fd(), old.as_raw_fd(), libc::O_CLOEXEC) };
    if done >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads at an offset; one pread(2), short transfers are the caller's to judge.
///
/// # Errors
/// Those of pread(2).
#[inline(always)]
pub fn read_at(file: impl AsFd, buffer: &mut [u8], offset_bytes: u64) -> io::Result<usize> {
    Ok(rustix::io::pread(file, buffer, offset_bytes)?)
}

/// Writes at an offset; one pwrite(2), short transfers are the caller's to judge.
///
/// # Errors
/// Those of pwrite(2).
#[inline(always)]
pub fn write_at(file: impl AsFd, buffer: &[u8], offset_bytes: u64) -> io::Result<usize> {
    Ok(rustix::io::pwrite(file, buffer, offset_bytes)?)
}

/// fsync(2).
///
/// # Errors
/// Those of fsync(2): EIO means that written data is lost.
pub fn fsync(file: impl AsFd) -> io::Result<()> {
    Ok(rustix::fs::fsync(file)?)
}

/// fdatasync(2).
///
/// # Errors
/// Those of fdatasync(2): EIO means that written data is lost.
pub fn fdatasync(file: impl AsFd) -> io::Result<()> {
    Ok(rustix::fs::fdatasync(file)?)
}

/// syncfs(2): brings all of the file's filesystem onto stable storage.
///
/// # Errors
/// Those of syncfs(2).
pub fn sync_filesystem(file: impl AsFd) -> io::Result<()> {
    Ok(rustix::fs::syncfs(file)?)
}

/// sync(2): brings everything dirty of the whole machine to the devices.
pub fn sync_all() {
    rustix::fs::sync();
}

/// Drops the clean cached pages of a file, after writing the dirty ones.
///
/// # Errors
/// Those of fdatasync(2) and posix_fadvise(2).
pub fn drop_cached_pages(file: impl AsFd) -> io::Result<()> {
    rustix::fs::fdatasync(&file)?;
    Ok(rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?)
}

/// Bytes of the file that are in the page cache now, from mincore(2); none when it cannot be told
/// (an unreadable or empty file, a file of another owner).
#[must_use]
pub fn cached_bytes(file: impl AsFd, size_bytes: u64) -> Option<u64> {
    const PAGE: u64 = 4096;
    const WINDOW: u64 = 1 << 30;
    let mut cached = 0;
    let mut offset = 0;
    while offset < size_bytes {
        let length = (size_bytes - offset).min(WINDOW);
        cached += cached_in_window(file.as_fd(), offset, length as usize)? * PAGE;
        offset += length;
    }
    Some(cached)
}

fn cached_in_window(file: impl AsFd, offset: u64, length: usize) -> Option<u64> {
    use rustix::mm::{MapFlags, ProtFlags};
    // SAFETY: a new shared mapping that is only inspected, never read, so truncation cannot fault us.
    let pointer = unsafe {
        rustix::mm::mmap(
            std::ptr::null_mut(),
            length,
            ProtFlags::READ,
            MapFlags::SHARED,
            file,
            offset,
        )
    }
    .ok()?;
    let mut pages = vec![0u8; length.div_ceil(4096)];
    // SAFETY: the mapping is `length` bytes long and the vector has one byte for each of its pages.
    let told = unsafe { libc::mincore(pointer, length, pages.as_mut_ptr()) };
    // SAFETY: the mapping made above, unmapped once.
    let unmapped = unsafe { rustix::mm::munmap(pointer, length) };
    (told == 0 && unmapped.is_ok()).then(|| pages.iter().filter(|p| **p & 1 == 1).count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opening_never_creates() {
        let path = std::env::temp_dir().join(format!("fathom-absent-{}", std::process::id()));
        let write = OpenMode { write: true, ..OpenMode::default() };
        assert_eq!(
            open_existing(&path, write).map_err(|e| e.kind()).err(),
            Some(io::ErrorKind::NotFound)
        );
        assert!(!path.exists());
    }

    #[test]
    fn synchronous_writes_are_what_was_asked_for() {
        let path = std::env::temp_dir().join(format!("fathom-sync-{}", std::process::id()));
        std::fs::write(&path, "x").unwrap();
        // As the kernel tells them, in octal: O_DSYNC, and O_SYNC with it.
        let both = 0o4_010_000;
        for (dsync, sync, expected) in
            [(false, false, 0), (true, false, 0o10_000), (false, true, both), (true, true, both)]
        {
            let mode = OpenMode { write: true, direct: false, dsync, sync };
            let by_path = open_existing(&path, mode).unwrap();
            let dir = crate::dirfd::Dir::open(path.parent().unwrap()).unwrap();
            let in_dir =
                dir.open_for_io(path.file_name().unwrap().to_str().unwrap(), mode).unwrap();
            for file in [by_path, in_dir] {
                let told = format!("/proc/self/fdinfo/{}", file.as_raw_fd());
                let told = std::fs::read_to_string(told).unwrap();
                let flags = told.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
                let flags = u32::from_str_radix(flags.trim(), 8).unwrap();
                assert_eq!(flags & both, expected, "{mode:?}");
            }
            // Opened otherwise than asked, it is not used.
            let plain = open_existing(&path, OpenMode { write: true, ..OpenMode::default() });
            let taken = mode.check_sync(&OwnedFd::from(plain.unwrap()));
            assert_eq!(taken.is_err(), dsync || sync, "{mode:?}");
        }
        let more = OpenMode { write: true, sync: true, ..OpenMode::default() };
        let less = OpenMode { write: true, dsync: true, ..OpenMode::default() };
        let opened = OwnedFd::from(open_existing(&path, more).unwrap());
        assert!(less.check_sync(&opened).is_err(), "more than asked is another measurement");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_descriptor_means_another_file_after_it_was_replaced() {
        let path = std::env::temp_dir().join(format!("fathom-replace-{}", std::process::id()));
        let file = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let file = open_existing(&path, OpenMode::default()).unwrap();
            std::fs::remove_file(&path).unwrap();
            file
        };
        let (old, new) = (file("old"), file("new"));
        let number = old.as_raw_fd();
        replace_open(&old, new).unwrap();
        let mut text = [0u8; 3];
        assert_eq!(read_at(&old, &mut text, 0).unwrap(), 3);
        assert_eq!((&text, old.as_raw_fd()), (b"new", number));
    }

    #[test]
    fn cached_pages_are_counted_and_dropped() {
        // Only a disk-backed filesystem can drop its pages; the directory of the build is one.
        let program = std::env::current_exe().unwrap();
        let path = program.with_file_name(format!("cached-{}", std::process::id()));
        std::fs::write(&path, vec![1u8; 1 << 20]).unwrap();
        let file = open_existing(&path, OpenMode::default()).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(cached_bytes(&file, 1 << 20), Some(1 << 20));
        drop_cached_pages(&file).unwrap();
        assert_eq!(cached_bytes(&file, 1 << 20), Some(0));
    }
}
