//! What can be asked of an open file or device, and how plain system calls do it.

use crate::devno::DevNo;
use crate::io as plain;
use crate::sysroot::SysRoot;
use rustix::fs::{FallocateFlags, FileType};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// A request to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoOp {
    /// Read into a buffer.
    Read {
        /// Where in the file.
        offset_bytes: u64,
        /// How much.
        size_bytes: u32,
    },
    /// Write from a buffer.
    Write {
        /// Where in the file.
        offset_bytes: u64,
        /// How much.
        size_bytes: u32,
    },
    /// Give the range back: discard on a device, a hole in a file. What it reads as afterwards is zero in a file and
    /// anything on a device.
    Trim {
        /// Where in the file.
        offset_bytes: u64,
        /// How much.
        size_bytes: u32,
    },
    /// Make the range read as zero without sending zeros, where that can be.
    Zero {
        /// Where in the file.
        offset_bytes: u64,
        /// How much.
        size_bytes: u32,
    },
    /// sync_file_range(2), waiting before and after: starts and awaits write-back of the range. Neither metadata nor
    /// the device's cache is flushed, so nothing is durable by it.
    SyncRange {
        /// Where in the file.
        offset_bytes: u64,
        /// How much.
        size_bytes: u32,
    },
    /// fsync(2).
    Fsync,
    /// fdatasync(2).
    Fdatasync,
}

/// The kinds of requests, without place and size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpKind {
    /// [`IoOp::Read`].
    Read,
    /// [`IoOp::Write`].
    Write,
    /// [`IoOp::Trim`].
    Trim,
    /// [`IoOp::Zero`].
    Zero,
    /// [`IoOp::SyncRange`].
    SyncRange,
    /// [`IoOp::Fsync`].
    Fsync,
    /// [`IoOp::Fdatasync`].
    Fdatasync,
}

impl OpKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Read,
        Self::Write,
        Self::Trim,
        Self::Zero,
        Self::SyncRange,
        Self::Fsync,
        Self::Fdatasync,
    ];

    /// The word that people see.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Trim => "trim",
            Self::Zero => "zero_range",
            Self::SyncRange => "sync_file_range",
            Self::Fsync => "fsync",
            Self::Fdatasync => "fdatasync",
        }
    }
}

impl IoOp {
    /// Its kind.
    #[must_use]
    pub fn kind(self) -> OpKind {
        match self {
            Self::Read { .. } => OpKind::Read,
            Self::Write { .. } => OpKind::Write,
            Self::Trim { .. } => OpKind::Trim,
            Self::Zero { .. } => OpKind::Zero,
            Self::SyncRange { .. } => OpKind::SyncRange,
            Self::Fsync => OpKind::Fsync,
            Self::Fdatasync => OpKind::Fdatasync,
        }
    }

    /// What a complete execution returns: the bytes moved, 0 for what moves none.
    #[must_use]
    #[inline]
    pub fn moved_bytes(self) -> u32 {
        match self {
            Self::Read { size_bytes, .. } | Self::Write { size_bytes, .. } => size_bytes,
            _ => 0,
        }
    }
}

/// An open file with what decides how some requests reach it.
#[derive(Debug, Clone, Copy)]
pub struct TargetFile<'f> {
    /// The descriptor.
    pub fd: BorrowedFd<'f>,
    /// A block device is discarded and zeroed in other ways than a file.
    pub is_block_device: bool,
}

/// The files of one engine, by index.
#[derive(Debug, Clone)]
pub struct FileTable<'f> {
    /// Apart from the others, so that the only file of a job costs no look-up.
    first: TargetFile<'f>,
    others: Vec<TargetFile<'f>>,
}

impl<'f> FileTable<'f> {
    /// A table of these files; index 0 is the first.
    ///
    /// # Errors
    /// `InvalidInput` for no file at all; those of fstat(2).
    pub fn new(files: &[BorrowedFd<'f>]) -> io::Result<Self> {
        let mut known = Vec::with_capacity(files.len());
        for fd in files {
            let mode = rustix::fs::fstat(fd)?.st_mode;
            let is_block_device = FileType::from_raw_mode(mode) == FileType::BlockDevice;
            known.push(TargetFile { fd: *fd, is_block_device });
        }
        let mut known = known.into_iter();
        let first = known.next().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(Self { first, others: known.collect() })
    }

    /// The file of an index.
    ///
    /// # Panics
    /// When there is no such file.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, index: u32) -> TargetFile<'f> {
        match index.checked_sub(1) {
            None => self.first,
            Some(other) => self.others[other as usize],
        }
    }

    /// All files in order.
    pub fn iter(&self) -> impl Iterator<Item = TargetFile<'f>> {
        std::iter::once(self.first).chain(self.others.iter().copied())
    }
}

/// Does a request on the calling thread by its own system call, and says how many bytes were moved. Requests that move
/// data use the beginning of `buffer`, and their call is inlined: a loop that has it has no return behind it, which is dear
/// after a system call on some processors.
///
/// # Errors
/// Those of the call.
///
/// # Panics
/// When the buffer is too small.
#[inline(always)]
pub fn perform(file: TargetFile<'_>, buffer: &mut [u8], op: IoOp) -> io::Result<usize> {
    match op {
        IoOp::Read { offset_bytes, size_bytes } => {
            plain::read_at(file.fd, &mut buffer[..size_bytes as usize], offset_bytes)
        }
        IoOp::Write { offset_bytes, size_bytes } => {
            plain::write_at(file.fd, &buffer[..size_bytes as usize], offset_bytes)
        }
        other => perform_without_data(file, other).map(|()| 0),
    }
}

/// The result of a call as completions give it: bytes, or a negative errno.
#[inline]
#[must_use]
pub fn as_result(outcome: io::Result<usize>) -> i32 {
    match outcome {
        Ok(moved) => moved as i32,
        Err(error) => -error.raw_os_error().unwrap_or(libc::EIO),
    }
}

/// `_IO(0x12, 119)` with two 64-bit numbers: start and length.
const BLKDISCARD: u32 = 0x1277;
/// `_IO(0x12, 127)` with two 64-bit numbers: start and length.
const BLKZEROOUT: u32 = 0x127f;

/// Flags of fallocate(2) that make a hole.
pub(crate) const HOLE: FallocateFlags = FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE);
/// Flags of fallocate(2) that zero a range.
pub(crate) const ZEROES: FallocateFlags =
    FallocateFlags::ZERO_RANGE.union(FallocateFlags::KEEP_SIZE);
/// Flags of sync_file_range(2): wait for what is being written, write, wait for that.
pub(crate) const SYNC_RANGE_FLAGS: u32 = libc::SYNC_FILE_RANGE_WAIT_BEFORE
    | libc::SYNC_FILE_RANGE_WRITE
    | libc::SYNC_FILE_RANGE_WAIT_AFTER;

#[inline(never)]
fn perform_without_data(file: TargetFile<'_>, op: IoOp) -> io::Result<()> {
    match op {
        IoOp::Trim { offset_bytes, size_bytes } if file.is_block_device => {
            device_range(file.fd, BLKDISCARD, offset_bytes, size_bytes)
        }
        IoOp::Zero { offset_bytes, size_bytes } if file.is_block_device => {
            device_range(file.fd, BLKZEROOUT, offset_bytes, size_bytes)
        }
        IoOp::Trim { offset_bytes, size_bytes } => {
            Ok(rustix::fs::fallocate(file.fd, HOLE, offset_bytes, u64::from(size_bytes))?)
        }
        IoOp::Zero { offset_bytes, size_bytes } => {
            Ok(rustix::fs::fallocate(file.fd, ZEROES, offset_bytes, u64::from(size_bytes))?)
        }
        IoOp::SyncRange { offset_bytes, size_bytes } => {
            sync_range(file.fd, offset_bytes, size_bytes)
        }
        IoOp::Fsync => plain::fsync(file.fd),
        IoOp::Fdatasync => plain::fdatasync(file.fd),
        IoOp::Read { .. } | IoOp::Write { .. } => Err(io::Error::from_raw_os_error(libc::EINVAL)),
    }
}

fn device_range(fd: BorrowedFd<'_>, request: u32, offset: u64, size: u32) -> io::Result<()> {
    let range = [offset, u64::from(size)];
    // SAFETY: both requests read two 64-bit numbers, which `range` holds.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), request as libc::Ioctl, range.as_ptr()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn sync_range(fd: BorrowedFd<'_>, offset: u64, size: u32) -> io::Result<()> {
    // SAFETY: no pointers are passed.
    let done = unsafe {
        libc::sync_file_range(fd.as_raw_fd(), offset as i64, i64::from(size), SYNC_RANGE_FLAGS)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether an open target takes requests of this kind: devices are asked by sysfs, files (which must be open for
/// writing) by a call beyond their end that leaves nothing behind. True where only the request itself can tell.
///
/// # Errors
/// Those of fstat(2) and fallocate(2), other than that it is not supported.
pub fn is_supported(root: &SysRoot, file: impl AsFd, kind: OpKind) -> io::Result<bool> {
    let stat = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice {
        let limit = queue_value::<u64>(root, DevNo::from_raw(stat.st_rdev), "discard_max_bytes");
        return Ok(kind != OpKind::Trim || limit.is_none_or(|bytes| bytes > 0));
    }
    let flags = match kind {
        OpKind::Trim => HOLE,
        OpKind::Zero => ZEROES,
        _ => return Ok(true),
    };
    const STEP: u64 = 1 << 20;
    let beyond = (stat.st_size as u64 / STEP + 1) * STEP;
    let tried = rustix::fs::fallocate(&file, flags, beyond, 4096);
    if kind == OpKind::Zero && tried.is_ok() {
        // What was allocated beyond the end goes by cutting the file where it ends; a hole would leave it.
        rustix::fs::ftruncate(&file, stat.st_size as u64)?;
    }
    match tried {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// True for a device that cannot zero a range by itself: the kernel then writes zeros, as many as were asked for.
#[must_use]
pub fn zeroes_are_written(root: &SysRoot, device: impl AsFd) -> bool {
    let Ok(stat) = rustix::fs::fstat(&device) else { return false };
    FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice
        && queue_value::<u64>(root, DevNo::from_raw(stat.st_rdev), "write_zeroes_max_bytes")
            == Some(0)
}

/// Whether the device under an open file can be polled for completions (`queue/io_poll`); none where it cannot be
/// told, such as for files on a filesystem of several devices.
#[must_use]
pub fn can_poll(root: &SysRoot, file: impl AsFd) -> Option<bool> {
    let stat = rustix::fs::fstat(&file).ok()?;
    let is_device = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
    let number = DevNo::from_raw(if is_device { stat.st_rdev } else { stat.st_dev });
    queue_value::<u8>(root, number, "io_poll").map(|flag| flag != 0)
}

/// A number from a device's queue directory; a partition has that of its disk.
fn queue_value<T: std::str::FromStr>(root: &SysRoot, number: DevNo, name: &str) -> Option<T> {
    let own = format!("/sys/dev/block/{number}/queue/{name}");
    root.value(own).or_else(|| root.value(format!("/sys/dev/block/{number}/../queue/{name}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    /// A file of 16 KiB of sevens on the disk that holds the build.
    fn scratch() -> File {
        let path = std::env::current_exe().unwrap().with_file_name(format!(
            "request-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let mut options = File::options();
        let file = options.read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        plain::write_at(&file, &[7u8; 16384], 0).unwrap();
        file
    }

    #[test]
    fn ranges_are_trimmed_zeroed_and_synced_exactly() {
        let file = scratch();
        let table = FileTable::new(&[file.as_fd()]).unwrap();
        let mut buffer = [9u8; 4096];
        let mut run = |op| perform(table.get(0), &mut buffer, op).unwrap();
        let (offset_bytes, size_bytes) = (4096, 4096);
        assert_eq!(run(IoOp::Trim { offset_bytes, size_bytes }), 0);
        assert_eq!(run(IoOp::Zero { offset_bytes: 8192, size_bytes: 100 }), 0);
        assert_eq!(run(IoOp::Write { offset_bytes: 0, size_bytes: 10 }), 10);
        assert_eq!(run(IoOp::SyncRange { offset_bytes: 0, size_bytes: 16384 }), 0);
        assert_eq!(run(IoOp::Fdatasync), 0);
        let mut expected = [7u8; 16384];
        expected[..10].fill(9);
        expected[4096..8292].fill(0);
        let mut content = [0u8; 16384];
        assert_eq!(plain::read_at(&file, &mut content, 0).unwrap(), 16384);
        assert!(content == expected);
    }

    #[test]
    fn asking_for_support_leaves_a_file_as_it_was() {
        let file = scratch();
        plain::fsync(&file).unwrap();
        let before = rustix::fs::fstat(&file).unwrap();
        for kind in OpKind::ALL {
            assert!(is_supported(&SysRoot::live(), &file, kind).unwrap(), "{}", kind.word());
        }
        plain::fsync(&file).unwrap();
        let after = rustix::fs::fstat(&file).unwrap();
        assert_eq!((after.st_size, after.st_blocks), (before.st_size, before.st_blocks));
    }

    #[test]
    fn several_files_keep_their_order() {
        let files = [scratch(), scratch(), scratch()];
        let fds: Vec<BorrowedFd<'_>> = files.iter().map(File::as_fd).collect();
        let table = FileTable::new(&fds).unwrap();
        let same = |i: u32| table.get(i).fd.as_raw_fd() == fds[i as usize].as_raw_fd();
        assert!((0..3).all(same) && table.iter().count() == 3);
        assert!(FileTable::new(&[]).is_err());
    }
}
