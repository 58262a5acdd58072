//! All attributes in a directory of sysfs, for what is kept as names and values.

use crate::read_files;
use crate::sysroot::{SysRoot, directory_at, for_each_entry, open_at, with_attribute_of};
use fathom_base::order::Order;
use rustix::fs::{AtFlags, CWD, FileType};
use std::ffi::OsString;
use std::io;
use std::ops::Range;
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
    /// There until it is dropped.
    opened: Option<OwnedFd>,
    /// All names, one after the other.
    text: String,
    /// Where each name stands and what it is, sorted by name.
    entries: Vec<(Range<u32>, FileType)>,
}

impl Drop for Directory {
    fn drop(&mut self) {
        self.opened.take().into_iter().for_each(read_files::end);
    }
}

impl Directory {
    pub(crate) fn open(at: impl AsFd, path: &Path) -> io::Result<Self> {
        let opened = directory_at(at, path)?;
        read_files::begin();
        let (mut text, mut entries) = (String::new(), Vec::new());
        for_each_entry(&opened, true, |name, kind| {
            let start = text.len() as u32;
            text.push_str(name);
            entries.push((start..text.len() as u32, kind));
        });
        entries.order_by(|a, b| name_at(&text, &a.0).cmp(name_at(&text, &b.0)));
        Ok(Self { opened: Some(opened), text, entries })
    }

    fn fd(&self) -> io::Result<&OwnedFd> {
        self.opened.as_ref().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// The names in it with what they are, sorted.
    fn entries(&self) -> impl Iterator<Item = (&str, FileType)> {
        self.entries.iter().map(|(at, kind)| (name_at(&self.text, at), *kind))
    }

    /// A directory below it.
    pub(crate) fn below(&self, name: &str) -> io::Result<Self> {
        self.look_for(Path::new(name))?;
        Self::open(self.fd()?, Path::new(name))
    }

    /// What is in it, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        self.entries().map(|(name, _)| name.to_owned()).collect()
    }

    /// An error for a path that begins with a name that was not listed: nobody has to be asked for it.
    fn look_for(&self, path: &Path) -> io::Result<()> {
        let Some(Component::Normal(first)) = path.components().next() else { return Ok(()) };
        let Some(first) = first.to_str() else { return Ok(()) };
        let known = self.entries.binary_search_by(|(at, _)| name_at(&self.text, at).cmp(first));
        known.map(|_| ()).map_err(|_| io::ErrorKind::NotFound.into())
    }

    /// Takes the text of an attribute in it or further below, as [`SysRoot::attribute`] reads it.
    pub(crate) fn with_attribute(&self, path: &Path, take: &mut dyn FnMut(&str)) -> io::Result<()> {
        self.look_for(path)?;
        self.read(path, take)
    }

    fn read(&self, path: &Path, take: &mut dyn FnMut(&str)) -> io::Result<()> {
        let file = open_at(self.fd()?, path)?;
        let done = with_attribute_of(&file, take);
        read_files::add(file);
        done
    }

    /// True when something has this name; a link that leads nowhere counts.
    pub(crate) fn has(&self, path: &Path) -> bool {
        let asks = path.components().count() > 1;
        let exists = || {
            let found = self.fd().map(|fd| rustix::fs::statat(fd, path, AtFlags::SYMLINK_NOFOLLOW));
            found.is_ok_and(|found| found.is_ok())
        };
        self.look_for(path).is_ok() && (!asks || exists())
    }

    /// Where a symbolic link leads, as written in it.
    pub(crate) fn link(&self, path: &Path) -> Option<PathBuf> {
        self.look_for(path).ok()?;
        let read = rustix::fs::readlinkat(self.fd().ok()?, path, Vec::new()).ok()?;
        Some(PathBuf::from(OsString::from_vec(read.into_bytes())))
    }

    /// Its attributes, see [`attributes`]; `dir` is its path, which is told of what cannot be read.
    pub(crate) fn attributes(&self, dir: &Path, wanted: impl Fn(&str) -> bool) -> Attributes {
        let mut found = Attributes::default();
        for (name, kind) in self.entries() {
            if kind != FileType::RegularFile || !wanted(name) {
                continue;
            }
            let mut take = |text: &str| {
                let text = &text[..text.floor_char_boundary(VALUE_BYTES_MAX)];
                if !text.is_empty() {
                    found.values.push((name.to_owned(), text.to_owned()));
                }
            };
            if let Err(error) = self.read(Path::new(name), &mut take)
                && counts(&error)
                && self.fd().is_ok_and(|fd| may_be_read(fd, name))
            {
                found.unread.push((dir.join(name), error));
            }
        }
        // Thousands of devices have such lists.
        found.values.shrink_to_fit();
        found
    }
}

fn name_at<'a>(text: &'a str, at: &Range<u32>) -> &'a str {
    &text[at.start as usize..at.end as usize]
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
