//! The root under which `/sys`, `/proc`, `/dev` and `/etc` are read: `/` on a live machine, a directory of recorded
//! files in tests.

use fathom_base::order::Order;
use rustix::fs::{CWD, FileType, Mode, OFlags, RawDir};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

/// The most that is read of any file. The longest ones of the kernel's (interrupts of hundreds of processors, ten
/// thousands of mounts) are a tenth of it.
pub const FILE_BYTES_MAX: usize = 32 << 20;

/// The most that is read of an attribute in sysfs: those of text end at a page, vital product data at 64 KiB.
pub const ATTRIBUTE_BYTES_MAX: usize = (64 << 10) + 4;

/// Where the kernel's files are found.
#[derive(Debug, Clone)]
pub struct SysRoot {
    root: Arc<Path>,
}

impl SysRoot {
    /// The live machine.
    #[must_use]
    pub fn live() -> Self {
        Self::at("/")
    }

    /// A recorded tree.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into().into() }
    }

    /// True for the live machine: only then may ioctls be asked about what the files name.
    #[must_use]
    pub fn is_live(&self) -> bool {
        *self.root == *Path::new("/")
    }

    /// The path of `below` (absolute or relative) under this root.
    #[must_use]
    pub fn path(&self, below: impl AsRef<Path>) -> PathBuf {
        let below = below.as_ref();
        self.root.join(below.strip_prefix("/").unwrap_or(below))
    }

    /// The whole file as text; bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// Those of opening and reading; `FileTooLarge` above [`FILE_BYTES_MAX`].
    pub fn read(&self, below: impl AsRef<Path>) -> io::Result<String> {
        Ok(lossy(self.bytes(below, FILE_BYTES_MAX)?))
    }

    /// The whole file, when it is not longer than `bytes_max`.
    ///
    /// # Errors
    /// Those of opening and reading; `FileTooLarge` for a longer one.
    pub fn bytes(&self, below: impl AsRef<Path>, bytes_max: usize) -> io::Result<Vec<u8>> {
        read_on(&open_at(CWD, &self.path(below))?, Vec::new(), bytes_max, false)
    }

    /// The file's text without surrounding white space; none when it is missing, unreadable or empty.
    #[must_use]
    pub fn text(&self, below: impl AsRef<Path>) -> Option<String> {
        Some(trimmed(self.read(below).ok()?)).filter(|text| !text.is_empty())
    }

    /// An attribute in sysfs without surrounding white space.
    ///
    /// # Errors
    /// Those of opening and reading; `FileTooLarge` above [`ATTRIBUTE_BYTES_MAX`].
    pub fn attribute(&self, below: impl AsRef<Path>) -> io::Result<String> {
        let mut found = String::new();
        let file = open_at(CWD, &self.path(below))?;
        with_attribute_of(&file, &mut |text| found = text.to_owned())?;
        Ok(found)
    }

    /// The file as a number (or anything that parses); none when it is missing or something else.
    #[must_use]
    pub fn value<T: FromStr>(&self, below: impl AsRef<Path>) -> Option<T> {
        self.text(below)?.parse().ok()
    }

    /// Where a symbolic link leads, as written in it.
    #[must_use]
    pub fn link(&self, below: impl AsRef<Path>) -> Option<PathBuf> {
        std::fs::read_link(self.path(below)).ok()
    }

    /// The names in a directory, sorted; empty when it is missing.
    #[must_use]
    pub fn names(&self, below: impl AsRef<Path>) -> Vec<String> {
        let Ok(directory) = directory_at(CWD, &self.path(below)) else { return Vec::new() };
        let mut names = Vec::new();
        for_each_entry(directory, false, |name, _| names.push(name.to_owned()));
        names.order();
        names
    }

    /// True when the path exists (a dangling link counts).
    #[must_use]
    pub fn exists(&self, below: impl AsRef<Path>) -> bool {
        std::fs::symlink_metadata(self.path(below)).is_ok()
    }
}

/// Opens a directory below an open one, for listing and for opening what is in it.
pub(crate) fn directory_at(dir: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(dir, path, flags, Mode::empty())?)
}

/// Goes through the names in an open directory and what they are, in no order. Where `is_sysfs`, the last name says itself that it is
/// the last, which saves the question for more; an answer may be short without being the last, when a signal came.
pub(crate) fn for_each_entry(
    directory: impl AsFd,
    is_sysfs: bool,
    mut take: impl FnMut(&str, FileType),
) {
    const BUFFER_BYTES: usize = 16 << 10;
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    let mut reader = RawDir::new(directory, buffer.spare_capacity_mut());
    while let Some(Ok(entry)) = reader.next() {
        let name = entry.file_name().to_string_lossy();
        if name != "." && name != ".." {
            take(&name, entry.file_type());
        }
        if is_sysfs && entry.next_entry_cookie() == END_OF_SYSFS {
            return;
        }
    }
}

/// Where kernfs, which keeps sysfs, goes on behind the last name of a directory: nowhere (fs/kernfs/dir.c sets `INT_MAX`).
const END_OF_SYSFS: u64 = i32::MAX as u64;

/// Opens a file below an open directory, for reading.
pub(crate) fn open_at(dir: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    // NONBLOCK: a pipe in a recorded tree holds nobody up, and nothing else here cares.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    Ok(rustix::fs::openat(dir, path, flags, Mode::empty())?)
}

/// Takes the text of an open attribute, as [`SysRoot::attribute`] reads it. Nearly all are short: they take no memory.
pub(crate) fn with_attribute_of(file: &OwnedFd, take: &mut dyn FnMut(&str)) -> io::Result<()> {
    let mut chunk = [MaybeUninit::uninit(); CHUNK_BYTES];
    let begin = loop {
        match rustix::io::read(file, &mut chunk) {
            // The kernel hands out an attribute as a whole: half a million reads less on a large machine.
            Ok((read, rest)) if !rest.is_empty() => {
                take(String::from_utf8_lossy(read).trim_matches(is_blank));
                return Ok(());
            }
            Ok((read, _)) => break read.to_vec(),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    };
    let bytes = read_on(file, begin, ATTRIBUTE_BYTES_MAX, true)?;
    take(String::from_utf8_lossy(&bytes).trim_matches(is_blank));
    Ok(())
}

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 8 << 10;

/// Reads a file to its end, which a read of less than was asked for shows already where `short_ends`; `bytes` were read before.
fn read_on(
    file: &OwnedFd,
    mut bytes: Vec<u8>,
    bytes_max: usize,
    short_ends: bool,
) -> io::Result<Vec<u8>> {
    let mut chunk = [MaybeUninit::uninit(); CHUNK_BYTES];
    loop {
        match rustix::io::read(file, &mut chunk) {
            Ok(([], _)) => return Ok(bytes),
            Ok((read, _)) if bytes.len() + read.len() > bytes_max => {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            Ok((read, rest)) => {
                bytes.extend_from_slice(read);
                if short_ends && !rest.is_empty() {
                    return Ok(bytes);
                }
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn is_blank(c: char) -> bool {
    c.is_whitespace() || c == '\0'
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}

fn trimmed(mut text: String) -> String {
    text.truncate(text.trim_end_matches(is_blank).len());
    let start = text.len() - text.trim_start_matches(is_blank).len();
    text.drain(..start);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_and_absent_files_are_errors() {
        let root = SysRoot::live();
        let error = root.bytes("dev/zero", 100_000).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(root.attribute("dev/zero").is_err() && root.text("dev/null").is_none());
        assert_eq!(root.attribute("dev/null").ok().as_deref(), Some(""));
        assert!(root.read("proc").is_err() && root.read("proc/no-such-file").is_err());
    }

    #[test]
    fn text_is_trimmed_and_never_invalid() {
        assert_eq!(trimmed(lossy(b" a b\0\n".to_vec())), "a b");
        assert_eq!(trimmed(lossy(vec![b'x', 0xff])), "x\u{fffd}");
        assert_eq!(trimmed("plain".to_owned()), "plain");
    }
}
