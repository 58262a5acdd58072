//! The calls of a file server, one function for one call: next entry, lstat, open, read, write, close, mkdir, rename,
//! link, unlink. Names are taken as the kernel gives them, relative to an open directory.

use crate::call;
use crate::dirents::EntryKind;
use crate::dirfd::Dir;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags};
use rustix::io::Errno;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

/// Names longer than this are opened in parts.
const PATH_BYTES_MAX: usize = 4000;

/// Memory for the entries that one call gives.
#[derive(Debug)]
pub struct EntryBuffer(Vec<MaybeUninit<u8>>);

impl Default for EntryBuffer {
    /// As much as the C library takes.
    fn default() -> Self {
        Self(vec![MaybeUninit::uninit(); 32 << 10])
    }
}

/// What lstat tells of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Looked {
    /// A regular file.
    pub is_file: bool,
    /// A directory.
    pub is_dir: bool,
    /// Device number of its filesystem.
    pub dev: u64,
    /// Size in bytes.
    pub size_bytes: u64,
}

/// An open directory.
#[derive(Debug)]
pub struct WalkedDir(OwnedFd);

/// The entries of an open directory, one by one, through memory and a descriptor that are borrowed.
pub struct Entries<'b> {
    raw: RawDir<'b, BorrowedFd<'b>>,
    /// Where the name of the entry that was come to last lies in that memory.
    name: Option<NonNull<CStr>>,
}

impl Entries<'_> {
    /// Goes on to the next entry but `.` and `..`; false at the end. Most come from memory, some from the kernel: one at the
    /// start, one for every 32 KiB of them, one at the end.
    ///
    /// # Errors
    /// Those of getdents; a directory that was removed meanwhile ends.
    #[inline(always)]
    pub fn advance(&mut self) -> io::Result<bool> {
        self.name = None;
        loop {
            match self.raw.next() {
                None | Some(Err(Errno::NOENT)) => return Ok(false),
                Some(Err(error)) => return Err(error.into()),
                Some(Ok(entry)) => {
                    let name = entry.file_name();
                    if !matches!(name.to_bytes(), b"." | b"..") {
                        self.name = Some(NonNull::from(name));
                        return Ok(true);
                    }
                }
            }
        }
    }

    /// The name of the entry that was come to last; empty before the first and behind the last.
    #[inline]
    #[must_use]
    pub fn name(&self) -> &CStr {
        match self.name {
            // SAFETY: the name lies in the memory that `raw` borrows for as long as `self` is there. That is written again by
            // `advance` only, for which `self` must be borrowed anew, and which forgets this place first.
            Some(name) => unsafe { name.as_ref() },
            None => c"",
        }
    }

    /// Goes on to the next entry and gives its name; none at the end.
    ///
    /// # Errors
    /// As [`Self::advance`].
    #[inline]
    pub fn next_name(&mut self) -> io::Result<Option<&CStr>> {
        Ok(if self.advance()? { Some(self.name()) } else { None })
    }
}

fn flags_of_dir(no_atime: bool) -> OFlags {
    let mut flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    flags.set(OFlags::NOATIME, no_atime);
    flags
}

impl WalkedDir {
    /// Opens a directory by its path.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(rustix::fs::open(path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?))
    }

    /// Opens an open directory once more, wherever its path leads by now.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn over(dir: &Dir) -> io::Result<Self> {
        open_dir(&dir.fd, c".", false)
    }

    /// Opens a directory below; an empty path is this one. `no_atime` leaves its access time alone, where that is allowed.
    /// Paths may be longer than the system's limit.
    ///
    /// # Errors
    /// Those of open(2); ELOOP for a symbolic link.
    pub fn below(&self, path: &CStr, no_atime: bool) -> io::Result<Self> {
        let bytes = path.to_bytes();
        if bytes.len() <= PATH_BYTES_MAX {
            let path = if bytes.is_empty() { c"." } else { path };
            return open_dir(&self.0, path, no_atime);
        }
        let cut = bytes[..PATH_BYTES_MAX].iter().rposition(|byte| *byte == b'/');
        let cut = cut.ok_or(Errno::NAMETOOLONG)?;
        let first = std::ffi::CString::new(&bytes[..cut]).map_err(|_| Errno::INVAL)?;
        let rest = std::ffi::CString::new(&bytes[cut + 1..]).map_err(|_| Errno::INVAL)?;
        open_dir(&self.0, &first, no_atime)?.below(&rest, no_atime)
    }

    /// Another open file of the same directory, from whose start its entries are read.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn again(&self) -> io::Result<Self> {
        self.below(c"", false)
    }

    /// Its entries from where it stands. Nothing is allocated, and no descriptor is made.
    #[must_use]
    pub fn entries<'b>(&'b self, buffer: &'b mut EntryBuffer) -> Entries<'b> {
        Entries { raw: RawDir::new(self.0.as_fd(), &mut buffer.0), name: None }
    }

    /// Gives every name but `.` and `..` with what the directory says of it, until `each` says false: no file is looked at.
    ///
    /// # Errors
    /// Those of getdents; a directory that was removed meanwhile ends.
    pub fn each_name(
        &self,
        buffer: &mut EntryBuffer,
        each: &mut dyn FnMut(&CStr, EntryKind) -> bool,
    ) -> io::Result<()> {
        let mut raw = RawDir::new(self.0.as_fd(), &mut buffer.0);
        loop {
            let entry = match raw.next() {
                None | Some(Err(Errno::NOENT)) => return Ok(()),
                Some(entry) => entry?,
            };
            let name = entry.file_name();
            let is_inside = !matches!(name.to_bytes(), b"." | b"..");
            if is_inside && !each(name, EntryKind::of(entry.file_type())) {
                return Ok(());
            }
        }
    }

    /// Where it lies at this moment; none where the kernel does not tell.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        std::fs::read_link(format!("/proc/self/fd/{}", self.0.as_raw_fd())).ok()
    }

    /// What lies under a name; a symbolic link is described, not followed.
    ///
    /// # Errors
    /// Those of lstat(2).
    #[inline(always)]
    pub fn look(&self, name: &CStr) -> io::Result<Looked> {
        let stat = rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        Ok(Looked {
            is_file: kind.is_file(),
            is_dir: kind.is_dir(),
            dev: stat.st_dev,
            size_bytes: stat.st_size.unsigned_abs(),
        })
    }

    /// Whether a name and its inode are in the kernel's memory. Asking brings nothing into it. None where there is no such name,
    /// and where the kernel cannot be asked so (before Linux 5.12).
    #[must_use]
    pub fn is_in_memory(&self, name: &CStr) -> Option<bool> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let cached = ResolveFlags::CACHED;
        match rustix::fs::openat2(&self.0, name, flags, Mode::empty(), cached) {
            Ok(_) => Some(true),
            Err(Errno::AGAIN) => Some(false),
            Err(_) => None,
        }
    }

    /// Opens a file for reading; a symbolic link is refused.
    ///
    /// # Errors
    /// Those of open(2).
    #[inline(always)]
    pub fn open_read(&self, name: &CStr, no_atime: bool) -> io::Result<File> {
        let mut flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        flags.set(OFlags::NOATIME, no_atime);
        match rustix::fs::openat(&self.0, name, flags, Mode::empty()) {
            Err(Errno::PERM) if no_atime => self.open_of_others(name, flags - OFlags::NOATIME),
            other => Ok(File::from(other?)),
        }
    }

    /// Only the owner of a file may have its times left as they are.
    #[cold]
    fn open_of_others(&self, name: &CStr, flags: OFlags) -> io::Result<File> {
        Ok(File::from(rustix::fs::openat(&self.0, name, flags, Mode::empty())?))
    }

    /// Makes a file that must not exist, open for writing.
    ///
    /// # Errors
    /// Those of open(2); EEXIST.
    #[inline(always)]
    pub fn create_write(&self, name: &CStr) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&self.0, name, flags, Mode::RUSR | Mode::WUSR)?))
    }

    /// Opens a file that was made before, to write behind its end.
    ///
    /// # Errors
    /// Those of open(2).
    #[inline(always)]
    pub fn open_append(&self, name: &CStr) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&self.0, name, flags, Mode::empty())?))
    }

    /// Makes a directory that must not exist.
    ///
    /// # Errors
    /// Those of mkdir(2).
    #[inline]
    pub fn make_dir(&self, name: &CStr) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(&self.0, name, Mode::RWXU)?)
    }

    /// Deletes a file.
    ///
    /// # Errors
    /// Those of unlink(2).
    #[inline(always)]
    pub fn unlink(&self, name: &CStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// Deletes an empty directory.
    ///
    /// # Errors
    /// Those of rmdir(2).
    pub fn remove_dir(&self, name: &CStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }

    /// Gives a file another name in the same directory.
    ///
    /// # Errors
    /// Those of rename(2).
    #[inline]
    pub fn rename(&self, from: &CStr, to: &CStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.0, from, &self.0, to)?)
    }

    /// Gives a file a second name in the same directory.
    ///
    /// # Errors
    /// Those of link(2).
    #[inline]
    pub fn link(&self, from: &CStr, to: &CStr) -> io::Result<()> {
        Ok(rustix::fs::linkat(&self.0, from, &self.0, to, AtFlags::empty())?)
    }

    /// Brings its names to stable storage.
    ///
    /// # Errors
    /// Those of fsync(2).
    pub fn sync(&self) -> io::Result<()> {
        match rustix::fs::fsync(&self.0) {
            // Some filesystems have nothing to sync for a directory and say so.
            Err(Errno::INVAL) => Ok(()),
            other => Ok(other?),
        }
    }

    /// Brings all of its filesystem to stable storage.
    ///
    /// # Errors
    /// Those of syncfs(2).
    pub fn sync_filesystem(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.0)?)
    }
}

fn open_dir(at: &OwnedFd, path: &CStr, no_atime: bool) -> io::Result<WalkedDir> {
    match rustix::fs::openat(at, path, flags_of_dir(no_atime), Mode::empty()) {
        Err(Errno::PERM) if no_atime => open_dir(at, path, false),
        other => Ok(WalkedDir(other?)),
    }
}

/// The next bytes of a file: one read(2).
///
/// # Errors
/// Those of read(2).
#[inline(always)]
pub fn read(file: &File, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::read(file.as_fd(), buffer)?)
}

/// Writes behind what was written: one write(2), which may take less.
///
/// # Errors
/// Those of write(2).
#[inline(always)]
pub fn write(file: &File, buffer: &[u8]) -> io::Result<usize> {
    Ok(rustix::io::write(file.as_fd(), buffer)?)
}

/// Closes a file and tells what that came to: network filesystems and quotas report here what writing did not.
///
/// # Errors
/// Those of close(2); the file is closed all the same.
#[inline(always)]
pub fn close(file: File) -> io::Result<()> {
    // Not the C library's own, which makes it a point at which threads can be cancelled, and takes its time for that.
    let arguments = [file.into_raw_fd() as usize, 0, 0, 0, 0, 0];
    // SAFETY: the descriptor was owned, and is given up here.
    let told = unsafe { call::raw(libc::SYS_close, arguments) };
    if told >= 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-told as i32)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn calls_do_what_they_say() {
        let dir = tempfile::tempdir().unwrap();
        let open = WalkedDir::open(dir.path()).unwrap();
        open.make_dir(c"sub").unwrap();
        let file = open.create_write(c"a").unwrap();
        assert_eq!(write(&file, b"hello").unwrap(), 5);
        close(file).unwrap();
        assert!(open.create_write(c"a").is_err(), "it exists");
        let looked = open.look(c"a").unwrap();
        assert!(looked.is_file && !looked.is_dir && looked.size_bytes == 5);
        assert!(open.look(c"sub").unwrap().is_dir);
        let mut kinds = Vec::new();
        let mut note = |name: &CStr, kind| {
            kinds.push((name.to_owned(), kind));
            true
        };
        open.again().unwrap().each_name(&mut EntryBuffer::default(), &mut note).unwrap();
        kinds.sort_by(|a, b| a.0.cmp(&b.0));
        let named = [(c"a".to_owned(), EntryKind::File), (c"sub".to_owned(), EntryKind::Dir)];
        assert_eq!(kinds, named, "every filesystem of a temporary directory tells");
        let mut seen = 0;
        let mut first = |_: &CStr, _| {
            seen += 1;
            false
        };
        open.again().unwrap().each_name(&mut EntryBuffer::default(), &mut first).unwrap();
        assert_eq!((seen, open.path()), (1, dir.path().canonicalize().ok()));
        std::os::unix::fs::symlink("a", dir.path().join("to-a")).unwrap();
        assert!(open.open_read(c"to-a", true).is_err(), "links are not followed");
        assert!(!open.look(c"to-a").unwrap().is_file);
        open.rename(c"a", c"b").unwrap();
        open.link(c"b", c"c").unwrap();
        open.sync().unwrap();
        open.sync_filesystem().unwrap();
        let mut bytes = [0; 16];
        let file = open.open_read(c"c", true).unwrap();
        assert_eq!(read(&file, &mut bytes).unwrap(), 5);
        assert_eq!(read(&file, &mut bytes).unwrap(), 0);
        let mut names = BTreeSet::new();
        let (mut buffer, again) = (EntryBuffer::default(), open.again().unwrap());
        let mut entries = again.entries(&mut buffer);
        assert!(entries.name().is_empty(), "before the first");
        while let Some(name) = entries.next_name().unwrap() {
            names.insert(name.to_str().unwrap().to_owned());
        }
        assert!(entries.name().is_empty() && !entries.advance().unwrap(), "behind the last");
        assert_eq!(names.iter().map(String::as_str).collect::<Vec<_>>(), ["b", "c", "sub", "to-a"]);
        open.unlink(c"b").unwrap();
        open.remove_dir(c"sub").unwrap();
        assert!(open.look(c"b").is_err() && open.look(c"c").is_ok());
    }

    #[test]
    fn directories_beyond_the_limit_of_paths_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let mut at = WalkedDir::open(dir.path()).unwrap();
        let name = std::ffi::CString::new("n".repeat(255)).unwrap();
        let mut path = Vec::new();
        for level in 0..40 {
            at.make_dir(&name).unwrap();
            at = at.below(&name, false).unwrap();
            if level > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(name.to_bytes());
        }
        at.create_write(c"deep").unwrap();
        let root = WalkedDir::open(dir.path()).unwrap();
        let path = std::ffi::CString::new(path).unwrap();
        assert!(path.to_bytes().len() > 2 * 4096);
        let deepest = root.below(&path, true).unwrap();
        assert!(deepest.look(c"deep").unwrap().is_file);
        // The standard library removes it level by level.
        drop((at, deepest, root));
        dir.close().unwrap();
    }
}
