//! Directories of any size and names of any bytes: entries as the kernel gives them, ways that cannot leave a
//! directory, and times of files.

use crate::dirfd::{self, Dir, FileFacts};
use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, RawDir, ResolveFlags, Timespec, Timestamps,
};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};

/// What an entry is, as far as the directory itself tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link, device, socket or pipe.
    Other,
    /// The filesystem does not say.
    Unknown,
}

impl EntryKind {
    pub(crate) fn of(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Dir,
            FileType::Unknown => Self::Unknown,
            _ => Self::Other,
        }
    }
}

/// One entry of a directory.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// Its name: any bytes but `/` and 0.
    pub name: &'a [u8],
    /// What it is.
    pub kind: EntryKind,
    /// Its inode number.
    pub inode: u64,
}

/// Reads directories through one buffer, whatever their size.
#[derive(Debug)]
pub struct EntryReader {
    buffer: Vec<MaybeUninit<u8>>,
}

impl Default for EntryReader {
    fn default() -> Self {
        Self { buffer: vec![MaybeUninit::uninit(); 32 << 10] }
    }
}

impl EntryReader {
    /// Gives every entry but `.` and `..` to `each`, in the order of the filesystem, until that says false.
    ///
    /// # Errors
    /// Those of reading, and of `each`.
    pub fn for_each(
        &mut self,
        dir: &Dir,
        each: &mut dyn FnMut(Entry<'_>) -> io::Result<bool>,
    ) -> io::Result<()> {
        // A descriptor of its own: the place in the directory belongs to the open file.
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(dir.as_fd(), ".", flags, Mode::empty())?;
        let mut entries = RawDir::new(fd, &mut self.buffer);
        while let Some(entry) = entries.next() {
            let entry = match entry {
                Ok(entry) => entry,
                // Removed while it was read: nothing more is in it.
                Err(Errno::NOENT) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let kind = EntryKind::of(entry.file_type());
            if !each(Entry { name, kind, inode: entry.ino() })? {
                return Ok(());
            }
        }
        Ok(())
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Dir {
    /// Opens a directory below by its relative path: no symbolic link is followed, no mount crossed, `..` refused.
    ///
    /// # Errors
    /// Those of open(2); ELOOP for a link, EXDEV for a mount.
    pub fn open_beneath(&self, path: &[u8]) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        match rustix::fs::openat2(self.as_fd(), path, flags, Mode::empty(), resolve) {
            Ok(fd) => Ok(Self { fd, is_looking: self.is_looking }),
            // A kernel before 5.6, or a filter of a container.
            Err(Errno::NOSYS | Errno::PERM) => self.open_step_by_step(path),
            Err(error) => Err(error.into()),
        }
    }

    /// The same by its parts.
    fn open_step_by_step(&self, path: &[u8]) -> io::Result<Self> {
        let dev = self.own_facts()?.dev;
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let is_looking = self.is_looking;
        let fd = rustix::fs::openat(self.as_fd(), ".", flags, Mode::empty())?;
        let mut dir = Self { fd, is_looking };
        for part in path.split(|byte| *byte == b'/') {
            if part == b".." {
                return Err(Errno::XDEV.into());
            }
            let fd = rustix::fs::openat(dir.as_fd(), part, flags, Mode::empty())?;
            dir = Self { fd, is_looking };
            if dir.own_facts()?.dev != dev {
                return Err(Errno::XDEV.into());
            }
        }
        Ok(dir)
    }

    /// Makes a directory that must not exist, for its owner alone, without opening it.
    ///
    /// # Errors
    /// Those of mkdir(2).
    pub fn make_only(&self, name: &[u8]) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(self.as_fd(), name, Mode::RWXU)?)
    }

    /// Makes a file that must not exist, for writing.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn create_for_writing(&self, name: &[u8]) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        Ok(File::from(rustix::fs::openat(self.as_fd(), name, flags, mode)?))
    }

    /// Opens an existing file for reading; a symbolic link is refused.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn open_for_reading(&self, name: &[u8]) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        Ok(File::from(rustix::fs::openat(self.as_fd(), name, flags, Mode::empty())?))
    }

    /// What lies under a name of any bytes; a symbolic link is described, not followed.
    ///
    /// # Errors
    /// Those of statx(2).
    pub fn facts_of_name(&self, name: &[u8]) -> io::Result<FileFacts> {
        dirfd::statx(self.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Removes a name of any bytes that is not a directory's.
    ///
    /// # Errors
    /// Those of unlink(2).
    pub fn unlink_name(&self, name: &[u8]) -> io::Result<()> {
        self.take_out(name, AtFlags::empty())
    }

    /// Removes an empty directory under a name of any bytes.
    ///
    /// # Errors
    /// Those of rmdir(2).
    pub fn remove_dir_name(&self, name: &[u8]) -> io::Result<()> {
        self.take_out(name, AtFlags::REMOVEDIR)
    }
}

impl Dir {
    /// Takes the lock of the open directory, shared with others who take it so or for this one alone; false when that
    /// cannot be had. The kernel gives it back when the directory is closed. True where the filesystem has no locks.
    ///
    /// # Errors
    /// Those of flock(2) other than that.
    pub fn try_lock(&self, is_shared: bool) -> io::Result<bool> {
        let how = if is_shared {
            FlockOperation::NonBlockingLockShared
        } else {
            FlockOperation::NonBlockingLockExclusive
        };
        match rustix::fs::flock(self.as_fd(), how) {
            Ok(()) | Err(Errno::BADF | Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Brings everything of its filesystem onto stable storage.
    ///
    /// # Errors
    /// Those of syncfs(2).
    pub fn sync_filesystem(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(self.as_fd())?)
    }
}

/// Sets when the content of an open file last changed, in nanoseconds since 1970; the access time likewise.
///
/// # Errors
/// Those of futimens(3).
pub fn set_modified_ns(file: &File, unix_ns: i64) -> io::Result<()> {
    const SECOND: i64 = 1_000_000_000;
    let time =
        Timespec { tv_sec: unix_ns.div_euclid(SECOND), tv_nsec: unix_ns.rem_euclid(SECOND) as _ };
    let times = Timestamps { last_access: time, last_modification: time };
    Ok(rustix::fs::futimens(file, &times)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    #[test]
    fn names_of_any_bytes_are_read_and_ways_do_not_leave() {
        let top = std::env::temp_dir().join(format!("fathom-dirents-{}", std::process::id()));
        std::fs::create_dir_all(top.join("a/b")).unwrap();
        let odd: &Path = std::ffi::OsStr::from_bytes(b"a/\xff\n").as_ref();
        std::fs::write(top.join(odd), "x").unwrap();
        std::os::unix::fs::symlink("a", top.join("link")).unwrap();
        let dir = Dir::open(&top).unwrap();
        let inner = dir.open_beneath(b"a").unwrap();
        let mut seen = Vec::new();
        let mut each = |entry: Entry<'_>| {
            seen.push((entry.name.to_vec(), entry.kind));
            Ok(true)
        };
        EntryReader::default().for_each(&inner, &mut each).unwrap();
        seen.sort_by(|a, b| a.0.cmp(&b.0));
        let expected = [(b"b".to_vec(), EntryKind::Dir), (b"\xff\n".to_vec(), EntryKind::File)];
        assert_eq!(seen, expected);
        assert_eq!(inner.facts_of_name(b"\xff\n").unwrap().size_bytes, 1);
        for open in [Dir::open_beneath, Dir::open_step_by_step] {
            assert!(open(&dir, b"a/b").unwrap().own_facts().unwrap().is_dir);
            for bad in [&b"link"[..], b"link/b", b"../", b"a/../..", b"no"] {
                assert!(open(&dir, bad).is_err(), "{bad:?}");
            }
        }
        let file = inner.create_for_writing(b"new").unwrap();
        set_modified_ns(&file, 1_234_567_890_123_456_789).unwrap();
        assert_eq!(dirfd::facts_of(&file).unwrap().modified_ns, 1_234_567_890_123_456_789);
        inner.unlink_name(b"new").unwrap();
        inner.remove_dir_name(b"b").unwrap();
        std::fs::remove_dir_all(&top).unwrap();
    }
}
