//! Ranges of files that are given back or zeroed, and files without a name.

use crate::dirfd::Dir;
use crate::request::{HOLE, ZEROES};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;

/// Makes a hole, which reads as zeros; the size stays.
///
/// # Errors
/// EOPNOTSUPP where the filesystem has no holes.
pub fn punch_hole(file: &File, offset_bytes: u64, size_bytes: u64) -> io::Result<()> {
    Ok(rustix::fs::fallocate(file, HOLE, offset_bytes, size_bytes)?)
}

/// Lets a range read as zeros; the size stays.
///
/// # Errors
/// EOPNOTSUPP where the filesystem cannot.
pub fn zero_range(file: &File, offset_bytes: u64, size_bytes: u64) -> io::Result<()> {
    Ok(rustix::fs::fallocate(file, ZEROES, offset_bytes, size_bytes)?)
}

/// Takes room for a range from the filesystem, also beyond the end of the file, whose size stays.
///
/// # Errors
/// Those of fallocate(2): no room, or a filesystem that cannot.
pub fn reserve(file: &File, offset_bytes: u64, size_bytes: u64) -> io::Result<()> {
    let mode = rustix::fs::FallocateFlags::KEEP_SIZE;
    Ok(rustix::fs::fallocate(file, mode, offset_bytes, size_bytes)?)
}

/// True for the errors of what a filesystem or device cannot do at all.
#[must_use]
pub fn is_unsupported(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    [Errno::OPNOTSUPP, Errno::NOSYS, Errno::NODEV].iter().any(|e| Some(e.raw_os_error()) == code)
}

/// Makes a file that has no name and goes with its last descriptor, whatever becomes of this process.
///
/// # Errors
/// EOPNOTSUPP where the filesystem has no such files.
pub fn open_unnamed(dir: &Dir) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::openat(dir.as_fd(), ".", flags, mode) {
        Ok(fd) => Ok(File::from(fd)),
        // A filesystem that does not know the flag takes it for opening a directory for writing.
        Err(Errno::ISDIR) => Err(Errno::OPNOTSUPP.into()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileExt, MetadataExt};

    #[test]
    fn a_nameless_file_has_holes_and_leaves_nothing() {
        // A filesystem in memory has such files, and holes.
        let dir = Dir::open(std::path::Path::new("/dev/shm")).unwrap();
        let file = open_unnamed(&dir).unwrap();
        assert_eq!(file.metadata().unwrap().nlink(), 0);
        file.write_all_at(&[7; 12288], 0).unwrap();
        for clear in [punch_hole, zero_range] {
            match clear(&file, 4096, 4096) {
                Err(error) => assert!(is_unsupported(&error), "{error}"),
                Ok(()) => {
                    let mut found = [1; 12288];
                    file.read_exact_at(&mut found, 0).unwrap();
                    assert!(found[4096..8192].iter().all(|byte| *byte == 0));
                    assert!(found[..4096].iter().chain(&found[8192..]).all(|byte| *byte == 7));
                    file.write_all_at(&[7; 12288], 0).unwrap();
                }
            }
        }
    }
}
