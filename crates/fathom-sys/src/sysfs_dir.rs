//! All attributes in a directory of sysfs, for what is kept as names and values.

use crate::sysroot::{SysRoot, attribute_at, directory_at, entries};
use rustix::fs::{AtFlags, CWD, FileType};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

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
    match directory_at(CWD, &root.path(dir)) {
        Ok(opened) => attributes_in(opened, dir, wanted),
        Err(_) => Attributes::default(),
    }
}

/// Those of an open directory, whose path is told of what cannot be read: the way to them is walked once.
pub(crate) fn attributes_in(
    opened: OwnedFd,
    dir: &Path,
    wanted: impl Fn(&str) -> bool,
) -> Attributes {
    let mut found = Attributes::default();
    for (name, kind) in entries(&opened) {
        if kind != FileType::RegularFile || !wanted(&name) {
            continue;
        }
        match attribute_at(&opened, Path::new(&name)) {
            Ok(text) if text.is_empty() => {}
            Ok(mut text) => {
                text.truncate(text.floor_char_boundary(VALUE_BYTES_MAX));
                found.values.push((name, text));
            }
            Err(error) if counts(&error) && may_be_read(&opened, &name) => {
                found.unread.push((dir.join(&name), error));
            }
            Err(_) => {}
        }
    }
    found.values.sort();
    found.unread.sort_by(|a, b| a.0.cmp(&b.0));
    found
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
