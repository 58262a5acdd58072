//! Files relative to an open directory, without following symbolic links: what is checked is what is then used.
//! Also extended attributes and whole-file locks.

use crate::io::OpenMode;
use fathom_base::order::Order;
use rustix::fs::{
    Access, AtFlags, FlockOperation, Mode, OFlags, RenameFlags, StatxAttributes, StatxFlags,
    XattrFlags,
};
use rustix::io::Errno;
use rustix::path::Arg;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// An open directory.
#[derive(Debug)]
pub struct Dir {
    pub(crate) fd: OwnedFd,
    /// See [`Dir::looking`].
    pub(crate) is_looking: bool,
}

/// What tells a file from every other on its filesystem, and what may be done with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileFacts {
    /// `st_dev` of its filesystem.
    pub dev: u64,
    /// Inode number.
    pub inode: u64,
    /// When it was made, nanoseconds since 1970, where the filesystem knows: tells a reused inode number.
    pub born_ns: Option<i64>,
    /// When its content last changed, nanoseconds since 1970.
    pub modified_ns: i64,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Names that it has.
    pub links: u32,
    /// User who owns it.
    pub uid: u32,
    /// True for a regular file.
    pub is_file: bool,
    /// True for a directory.
    pub is_dir: bool,
    /// True for a symbolic link.
    pub is_symlink: bool,
}

impl Dir {
    /// Opens a directory; a symbolic link in the last place is refused.
    ///
    /// # Errors
    /// ELOOP or ENOTDIR for a symbolic link, ENOTDIR for another file.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self { fd: rustix::fs::open(path, flags, Mode::empty())?, is_looking: false })
    }

    /// The same, from which nothing is removed, nor from what is opened in it: where something would be, it is only found out
    /// whether that would succeed, but for whether a directory is empty.
    #[must_use]
    pub fn looking(self) -> Self {
        Self { is_looking: true, ..self }
    }

    /// True for one from which nothing is removed.
    #[must_use]
    pub const fn is_looking(&self) -> bool {
        self.is_looking
    }

    /// Makes a directory that must not exist, for its owner alone, and opens it.
    ///
    /// # Errors
    /// EEXIST when the name is taken, by whatever it is.
    pub fn make(&self, name: &str) -> io::Result<Self> {
        rustix::fs::mkdirat(&self.fd, name, Mode::RWXU)?;
        self.open_dir(name)
    }

    /// Opens a directory inside.
    ///
    /// # Errors
    /// As [`Dir::open`].
    pub fn open_dir(&self, name: &str) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.fd, name, flags, Mode::empty())?;
        Ok(Self { fd, is_looking: self.is_looking })
    }

    /// Makes a file that must not exist, readable and writable for its owner alone.
    ///
    /// # Errors
    /// EEXIST when the name is taken, by whatever it is.
    pub fn create_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        Ok(File::from(rustix::fs::openat(&self.fd, name, flags, mode)?))
    }

    /// Opens an existing file, for appending or for reading.
    ///
    /// # Errors
    /// ELOOP for a symbolic link.
    pub fn open_file(&self, name: &str, append: bool) -> io::Result<File> {
        let access = if append { OFlags::WRONLY | OFlags::APPEND } else { OFlags::RDONLY };
        let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        Ok(File::from(rustix::fs::openat(&self.fd, name, flags, Mode::empty())?))
    }

    /// Opens an existing file for I/O, without updating its access time where that is allowed. A symbolic link in the
    /// last place of the name is refused.
    ///
    /// # Errors
    /// As [`crate::io::open_existing`].
    pub fn open_for_io(&self, name: &str, mode: OpenMode) -> io::Result<File> {
        let flags = mode.flags() | OFlags::NOFOLLOW;
        let open = |flags| rustix::fs::openat(&self.fd, name, flags, Mode::empty());
        let fd = match open(flags | OFlags::NOATIME) {
            Err(Errno::PERM) => open(flags)?,
            other => other?,
        };
        mode.check_sync(&fd)?;
        Ok(File::from(fd))
    }

    /// What lies under a name; a symbolic link is described, not followed.
    ///
    /// # Errors
    /// ENOENT.
    pub fn facts(&self, name: &str) -> io::Result<FileFacts> {
        statx(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Facts of the directory itself.
    ///
    /// # Errors
    /// Those of statx.
    pub fn own_facts(&self) -> io::Result<FileFacts> {
        statx(&self.fd, "", AtFlags::EMPTY_PATH)
    }

    /// Removes a name that is not a directory's.
    ///
    /// # Errors
    /// ENOENT; EISDIR.
    pub fn unlink(&self, name: &str) -> io::Result<()> {
        self.take_out(name, AtFlags::empty())
    }

    /// Gives a file another name, in place of a file of that name only if `replace` says so.
    ///
    /// # Errors
    /// EEXIST.
    pub fn rename(
        &self,
        from: impl AsRef<OsStr>,
        to: impl AsRef<OsStr>,
        replace: bool,
    ) -> io::Result<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        if replace {
            return Ok(rustix::fs::renameat(&self.fd, from, &self.fd, to)?);
        }
        let flags = RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(&self.fd, from, &self.fd, to, flags) {
            // The filesystem has no such rename: two steps instead of one.
            Err(Errno::INVAL) if self.facts_of_name(to.as_encoded_bytes()).is_err() => {
                Ok(rustix::fs::renameat(&self.fd, from, &self.fd, to)?)
            }
            Err(Errno::INVAL) => Err(Errno::EXIST.into()),
            other => Ok(other?),
        }
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// ENOTEMPTY.
    pub fn remove_dir(&self, name: &str) -> io::Result<()> {
        self.take_out(name, AtFlags::REMOVEDIR)
    }

    /// Removes a name, or finds out whether that would succeed.
    pub(crate) fn take_out(&self, name: impl Arg + Copy, how: AtFlags) -> io::Result<()> {
        if !self.is_looking {
            return Ok(rustix::fs::unlinkat(&self.fd, name, how)?);
        }
        match rustix::fs::accessat(
            &self.fd,
            ".",
            Access::WRITE_OK | Access::EXEC_OK,
            AtFlags::EACCESS,
        ) {
            // A kernel or a container without such a call: nobody can say.
            Ok(()) | Err(Errno::NOSYS) => {}
            Err(error) => return Err(error.into()),
        }
        let own = attributes(&self.fd, "", AtFlags::EMPTY_PATH)?;
        let inner = attributes(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let fixed = StatxAttributes::IMMUTABLE | StatxAttributes::APPEND;
        if inner.intersects(fixed) || own.contains(StatxAttributes::APPEND) {
            return Err(Errno::PERM.into());
        }
        if inner.contains(StatxAttributes::MOUNT_ROOT) { Err(Errno::BUSY.into()) } else { Ok(()) }
    }

    /// The names inside, sorted, without `.` and `..`. In names that are not UTF-8 what is no text is replaced: they are for
    /// people to read, and [`is_lossy`] tells them.
    ///
    /// # Errors
    /// Those of reading.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let mut names = self.names_as_stored()?;
        names.order();
        Ok(names)
    }

    /// The names inside in the order in which the filesystem lists them (readdir).
    ///
    /// # Errors
    /// As [`Dir::names`].
    pub fn names_as_stored(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.fd)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Brings the names onto stable storage.
    ///
    /// # Errors
    /// Those of fsync.
    pub fn sync(&self) -> io::Result<()> {
        match rustix::fs::fsync(&self.fd) {
            // Some filesystems have nothing to sync for a directory and say so.
            Err(Errno::INVAL) => Ok(()),
            other => Ok(other?),
        }
    }
}

/// True for a name of [`Dir::names`] under which the file may not be found, because it was no text.
#[must_use]
pub fn is_lossy(name: &str) -> bool {
    name.contains(char::REPLACEMENT_CHARACTER)
}

/// Facts of an open file.
///
/// # Errors
/// Those of statx.
pub fn facts_of(file: &File) -> io::Result<FileFacts> {
    statx(file, "", AtFlags::EMPTY_PATH)
}

/// Facts of what a path leads to; of a symbolic link those of the link.
///
/// # Errors
/// Those of statx.
pub fn facts_at(path: &Path) -> io::Result<FileFacts> {
    statx(rustix::fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW)
}

fn attributes(fd: impl AsFd, name: impl Arg, flags: AtFlags) -> io::Result<StatxAttributes> {
    let stat = rustix::fs::statx(fd, name, flags, StatxFlags::BASIC_STATS)?;
    Ok(stat.stx_attributes & stat.stx_attributes_mask)
}

pub(crate) fn statx(fd: impl AsFd, name: impl Arg, flags: AtFlags) -> io::Result<FileFacts> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let stat = rustix::fs::statx(fd, name, flags, wanted)?;
    let kind = rustix::fs::FileType::from_raw_mode(stat.stx_mode.into());
    let has_birth = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
    let ns_of = |s: i64, ns: u32| s.saturating_mul(1_000_000_000).saturating_add(ns.into());
    Ok(FileFacts {
        dev: rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor),
        inode: stat.stx_ino,
        born_ns: has_birth.then(|| ns_of(stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec)),
        modified_ns: ns_of(stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec),
        size_bytes: stat.stx_size,
        links: stat.stx_nlink,
        uid: stat.stx_uid,
        is_file: kind.is_file(),
        is_dir: kind.is_dir(),
        is_symlink: kind.is_symlink(),
    })
}

/// Sets an extended attribute that must not exist.
///
/// # Errors
/// EOPNOTSUPP where the filesystem has none.
pub fn set_xattr(file: &File, name: &str, value: &str) -> io::Result<()> {
    Ok(rustix::fs::fsetxattr(file, name, value.as_bytes(), XattrFlags::CREATE)?)
}

/// Gives an extended attribute that exists another value.
///
/// # Errors
/// ENODATA when it does not exist; EOPNOTSUPP where the filesystem has none.
pub fn replace_xattr(file: &File, name: &str, value: &str) -> io::Result<()> {
    Ok(rustix::fs::fsetxattr(file, name, value.as_bytes(), XattrFlags::REPLACE)?)
}

/// Removes an extended attribute; that there is none is fine.
///
/// # Errors
/// Those of removing it, other than that.
pub fn remove_xattr(file: &File, name: &str) -> io::Result<()> {
    match rustix::fs::fremovexattr(file, name) {
        Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The text of an extended attribute; none when it is absent or the filesystem has no attributes.
///
/// # Errors
/// Those of reading it, other than that.
pub fn get_xattr(file: &File, name: &str) -> io::Result<Option<String>> {
    let mut value = [0u8; 256];
    match rustix::fs::fgetxattr(file, name, &mut value) {
        Ok(len) => Ok(Some(String::from_utf8_lossy(&value[..len]).into_owned())),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether the filesystem of an open file has extended attributes of users.
///
/// # Errors
/// Those of asking.
pub fn supports_xattr(file: &File) -> io::Result<bool> {
    let mut value = [0u8; 256];
    match rustix::fs::fgetxattr(file, "user.fathom.owner", &mut value) {
        Ok(_) | Err(Errno::NODATA | Errno::RANGE) => Ok(true),
        Err(Errno::OPNOTSUPP) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// True for the error of a filesystem without extended attributes of users.
#[must_use]
pub fn is_xattr_missing(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EOPNOTSUPP)
}

/// Takes the whole-file lock of an open file, which the kernel releases when the last copy of it is closed; false when
/// another open file has it.
///
/// # Errors
/// Those of flock other than that.
pub fn try_lock(file: &File) -> io::Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> std::path::PathBuf {
        let dir = std::env::temp_dir().join(format!("fathom-dirfd-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn names_are_made_once_and_links_are_not_followed() {
        let path = scratch("names");
        let dir = Dir::open(&path).unwrap();
        let file = dir.create_file("a").unwrap();
        assert_eq!(dir.create_file("a").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        std::os::unix::fs::symlink("a", path.join("link")).unwrap();
        assert_eq!(dir.create_file("link").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert!(dir.open_file("link", false).is_err());
        assert!(dir.facts("link").unwrap().is_symlink);
        assert_eq!(dir.facts("a").unwrap(), facts_of(&file).unwrap());
        let inner = dir.make("d").unwrap();
        assert!(inner.own_facts().unwrap().is_dir && dir.make("d").is_err());
        std::os::unix::fs::symlink("d", path.join("to-d")).unwrap();
        assert!(dir.open_dir("to-d").is_err());
        assert_eq!(dir.names().unwrap(), ["a", "d", "link", "to-d"]);
        let mut as_stored = dir.names_as_stored().unwrap();
        as_stored.sort();
        assert_eq!(as_stored, dir.names().unwrap());
        dir.create_file("e").unwrap();
        let taken = dir.rename("e", "a", false).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        dir.rename("e", "f", false).unwrap();
        dir.rename("f", "a", true).unwrap();
        assert_eq!(dir.names().unwrap(), ["a", "d", "link", "to-d"]);
        dir.unlink("a").unwrap();
        dir.remove_dir("d").unwrap();
        dir.sync().unwrap();
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn names_that_are_no_text_are_listed_and_told() {
        let path = scratch("lossy");
        let name = std::os::unix::ffi::OsStrExt::from_bytes(b"a\xff");
        std::fs::write(path.join::<&std::ffi::OsStr>(name), "x").unwrap();
        std::fs::write(path.join("b"), "x").unwrap();
        let names = Dir::open(&path).unwrap().names().unwrap();
        assert_eq!(names, ["a\u{fffd}", "b"]);
        assert!(is_lossy(&names[0]) && !is_lossy(&names[1]));
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn a_lock_excludes_another_open_file() {
        let path = scratch("lock");
        let dir = Dir::open(&path).unwrap();
        let (first, second) = (dir.create_file("l").unwrap(), dir.open_file("l", false).unwrap());
        assert!(try_lock(&first).unwrap());
        assert!(!try_lock(&second).unwrap());
        drop(first);
        assert!(try_lock(&second).unwrap());
        std::fs::remove_dir_all(&path).unwrap();
    }
}
