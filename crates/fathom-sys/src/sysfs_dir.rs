//! All attributes in a directory of sysfs, for what is kept as names and values.

use crate::read_files::ReadFiles;
use crate::sysroot::{SysRoot, attribute_of, directory_at, entries, open_at};
use rustix::fs::{AtFlags, CWD, FileType};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// The attributes of a directory.
#[derive(Debug, Default)]
pub struct Attributes {
    /// Names and values, sorted by name; those without a value left out.
    pub values: Vec<(String, String)>,
    /// Those that should be readable and are not.
    pub unread: Vec<(PathBuf, io::Error)>,
}

/// Longest value that is kept; a longer one is no setting but a listing.
const VALUE_BYTES_MAX: usize = 4096;

/// Reads all regular files directly in a directory whose name is `wanted`; of a directory that is not there nothing.
///
/// Attributes that do not apply (most answers of EINVAL and ENODATA) and those that can only be written are passed over.
#[must_use]
pub fn attributes(root: &SysRoot, dir: &Path, wanted: impl Fn(&str) -> bool) -> Attributes {
    let opened = Directory::open(CWD, &root.path(dir));
    opened.map_or_else(|_| Attributes::default(), |opened| opened.attributes(dir, wanted))
}

/// An open directory: the way to it is walked once, what is in it is listed once, and files that were read in it are closed
/// together. A large machine has hundreds of thousands of attributes, and each call into the kernel costs.
#[derive(Debug)]
pub(crate) struct Directory {
    opened: OwnedFd,
    /// Names and what they are, sorted by name.
    entries: Vec<(String, FileType)>,
    read: ReadFiles,
}

impl Directory {
    pub(crate) fn open(at: impl AsFd, path: &Path) -> io::Result<Self> {
        let opened = directory_at(at, path)?;
        let mut entries = entries(&opened);
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(Self { opened, entries, read: ReadFiles::default() })
    }

    /// A directory below it.
    pub(crate) fn below(&self, name: &str) -> io::Result<Self> {
        self.look_for(Path::new(name))?;
        Self::open(&self.opened, Path::new(name))
    }

    /// What is in it, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        self.entries.iter().map(|(name, _)| name.clone()).collect()
    }

    /// An error for a path that begins with a name that was not listed: nobody has to be asked for it.
    fn look_for(&self, path: &Path) -> io::Result<()> {
        let Some(Component::Normal(first)) = path.components().next() else { return Ok(()) };
        let Some(first) = first.to_str() else { return Ok(()) };
        let known = self.entries.binary_search_by(|(name, _)| name.as_str().cmp(first));
        known.map(|_| ()).map_err(|_| io::ErrorKind::NotFound.into())
    }

    /// An attribute in it or further below, as [`SysRoot::attribute`] reads it.
    pub(crate) fn attribute(&self, path: &Path) -> io::Result<String> {
        self.look_for(path)?;
        let file = open_at(&self.opened, path)?;
        let text = attribute_of(&file);
        self.read.add(file);
        text
    }

    /// True when something has this name; a link that leads nowhere counts.
    pub(crate) fn has(&self, path: &Path) -> bool {
        let asks = path.components().count() > 1;
        let exists = || rustix::fs::statat(&self.opened, path, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        self.look_for(path).is_ok() && (!asks || exists())
    }

    /// Where a symbolic link leads, as written in it.
    pub(crate) fn link(&self, path: &Path) -> Option<PathBuf> {
        self.look_for(path).ok()?;
        let read = rustix::fs::readlinkat(&self.opened, path, Vec::new()).ok()?;
        Some(PathBuf::from(OsString::from_vec(read.into_bytes())))
    }

    /// Its attributes, see [`attributes`]; `dir` is its path, which is told of what cannot be read.
    pub(crate) fn attributes(&self, dir: &Path, wanted: impl Fn(&str) -> bool) -> Attributes {
        let mut found = Attributes::default();
        for (name, kind) in &self.entries {
            if *kind != FileType::RegularFile || !wanted(name) {
                continue;
            }
            match self.attribute(Path::new(name)) {
                Ok(text) if text.is_empty() => {}
                Ok(mut text) => {
                    text.truncate(text.floor_char_boundary(VALUE_BYTES_MAX));
                    found.values.push((name.clone(), text));
                }
                Err(error) if counts(&error) && may_be_read(&self.opened, name) => {
                    found.unread.push((dir.join(name), error));
                }
                Err(_) => {}
            }
        }
        found
    }
}

/// True for errors that say more than "does not apply here" or "has just gone".
fn counts(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, PermissionDenied};
    matches!(error.kind(), PermissionDenied | FileTooLarge)
        || error.raw_os_error() == Some(libc::EIO)
}

/// True when somebody may read the file: the others are buttons.
fn may_be_read(directory: &OwnedFd, name: &str) -> bool {
    let found = rustix::fs::statat(directory, name, AtFlags::empty());
    found.is_ok_and(|found| found.st_mode & 0o444 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_of_this_machine_is_read_as_it_is() {
        let root = SysRoot::live();
        let disk = root.names("sys/block").into_iter().next().unwrap();
        let dir = PathBuf::from(format!("sys/block/{disk}/queue"));
        let found = attributes(&root, &dir, |name| name.ends_with("_block_size"));
        let names: Vec<&str> = found.values.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["logical_block_size", "physical_block_size"]);
        assert_eq!(root.text(dir.join(names[0])), Some(found.values[0].1.clone()));
        assert!(found.unread.is_empty(), "{:?}", found.unread);
    }

    #[test]
    fn what_is_not_there_has_no_attributes() {
        let found = attributes(&SysRoot::live(), Path::new("sys/no-such"), |_| true);
        assert!(found.values.is_empty() && found.unread.is_empty());
    }
}
