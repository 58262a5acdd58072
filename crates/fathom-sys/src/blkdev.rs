//! What a block device says of itself by ioctl, and holding one exclusively.

use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};

/// `_IOR(0x12, 114, size_t)`; the kernel writes 64 bits.
const BLKGETSIZE64: u32 = 0x8008_1272;
/// `_IO(0x12, 104)`; the kernel writes an int.
const BLKSSZGET: u32 = 0x1268;
/// `_IO(0x12, 123)`; the kernel writes an unsigned int.
const BLKPBSZGET: u32 = 0x127b;
/// `_IO(0x12, 94)`; the kernel writes an int.
const BLKROGET: u32 = 0x125e;
/// `_IOR(0x12, 128, u64)`, since Linux 5.15.
const BLKGETDISKSEQ: u32 = 0x8008_1280;

fn ask<T: Default>(device: &File, request: u32) -> io::Result<T> {
    let mut answer = T::default();
    // SAFETY: the callers below give `T` the size that the kernel writes for their request.
    let result = unsafe {
        libc::ioctl(device.as_raw_fd(), request as libc::Ioctl, std::ptr::from_mut(&mut answer))
    };
    if result == 0 { Ok(answer) } else { Err(io::Error::last_os_error()) }
}

/// Size of the device in bytes.
///
/// # Errors
/// ENOTTY when it is not a block device.
pub fn size_bytes(device: &File) -> io::Result<u64> {
    ask::<u64>(device, BLKGETSIZE64)
}

/// The smallest unit that the device can address, in bytes.
///
/// # Errors
/// ENOTTY when it is not a block device.
pub fn logical_block_size_bytes(device: &File) -> io::Result<u32> {
    ask::<u32>(device, BLKSSZGET)
}

/// The smallest unit that the device can write without reading, in bytes.
///
/// # Errors
/// ENOTTY when it is not a block device.
pub fn physical_block_size_bytes(device: &File) -> io::Result<u32> {
    ask::<u32>(device, BLKPBSZGET)
}

/// True when the device is set read-only.
///
/// # Errors
/// ENOTTY when it is not a block device.
pub fn is_read_only(device: &File) -> io::Result<bool> {
    ask::<i32>(device, BLKROGET).map(|answer| answer != 0)
}

/// A number that this boot gives to no other disk, however often names are used again.
///
/// # Errors
/// ENOTTY before Linux 5.15.
pub fn disk_sequence(device: &File) -> io::Result<u64> {
    ask::<u64>(device, BLKGETDISKSEQ)
}

/// Opens a block device read-only and exclusively: while the file is open, nobody can mount the device or any of its
/// partitions, use it for swap, an array or a volume, or hold it exclusively. Never creates, follows no symbolic link.
///
/// # Errors
/// EBUSY when somebody else uses it in one of these ways.
pub fn hold(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(File::from(rustix::fs::open(path, flags | OFlags::NONBLOCK, Mode::empty())?))
}

/// Opens a block device read-only for a look at a few blocks: waits for nothing, and asks for no read-ahead. With `direct`
/// reads go past the page cache, and need buffers and offsets that are multiples of 4 KiB.
///
/// # Errors
/// Those of opening.
pub fn open_to_look(path: &Path, direct: bool) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let flags = if direct { flags | OFlags::DIRECT } else { flags };
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    // Only advice: without it more is read than was asked for.
    let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random);
    Ok(file)
}

/// The path by which this process can open again just what `file` is, whatever its name means by now.
#[must_use]
pub fn path_of_open(file: &File) -> PathBuf {
    let fd: RawFd = file.as_raw_fd();
    PathBuf::from(format!("/proc/self/fd/{fd}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_file_is_no_block_device() {
        let file = File::open("/proc/self/exe").unwrap();
        assert_eq!(size_bytes(&file).unwrap_err().raw_os_error(), Some(libc::ENOTTY));
        assert!(is_read_only(&file).is_err() && disk_sequence(&file).is_err());
    }

    #[test]
    fn holding_a_missing_device_creates_nothing() {
        let path = Path::new("/dev/fathom-no-such-device");
        assert_eq!(hold(path).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(!path.exists());
    }
}
