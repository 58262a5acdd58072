//! Writing attributes of sysfs and procfs: one system call for a value, because the kernel takes each call as a whole value.

use crate::sysroot::SysRoot;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::path::Path;

/// Writes a value to a file that exists, with a single call.
///
/// # Errors
/// Those of opening (`EACCES` of an attribute that cannot be written, `EROFS` where `/sys` is mounted read-only) and the
/// kernel's answer to the value; [`explained`] says what they mean. A write that took only a part is `WriteZero`.
pub fn write(root: &SysRoot, below: impl AsRef<Path>, value: &str) -> io::Result<()> {
    // TRUNC: the kernel's files do not care, recorded ones must not keep the end of a longer value.
    let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = rustix::fs::openat(CWD, root.path(below), flags, Mode::empty())?;
    let text = format!("{value}\n");
    loop {
        match rustix::io::write(&file, text.as_bytes()) {
            Ok(count) if count == text.len() => return Ok(()),
            Ok(_) => return Err(io::ErrorKind::WriteZero.into()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The error with its name and what it means for a setting: `EINVAL: the value is outside of what the kernel accepts here`.
#[must_use]
pub fn explained(error: &io::Error) -> String {
    let Some(code) = error.raw_os_error() else { return error.to_string() };
    let (name, meaning) = match Errno::from_raw_os_error(code) {
        Errno::INVAL => ("EINVAL", "the kernel does not accept this value here, now"),
        Errno::RANGE => ("ERANGE", "the number is too large for the kernel"),
        Errno::BUSY => ("EBUSY", "it is in use in a way that does not allow the change"),
        Errno::NOENT => ("ENOENT", "this device or kernel does not have it"),
        Errno::NODEV | Errno::NXIO => ("ENODEV", "the device has gone"),
        Errno::ACCESS => ("EACCES", "root is needed, or it can only be read"),
        Errno::PERM => ("EPERM", "root is needed, or this container may not"),
        Errno::ROFS => ("EROFS", "it is mounted read-only, as in most containers"),
        Errno::OPNOTSUPP => ("EOPNOTSUPP", "this device or kernel cannot do it"),
        Errno::IO => ("EIO", "the device did not answer as it should"),
        Errno::NOMEM => ("ENOMEM", "the kernel has not enough memory for it"),
        _ => return error.to_string(),
    };
    format!("{name}: {meaning}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_shorter_value_replaces_a_longer_one_and_nothing_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let root = SysRoot::at(dir.path());
        fs::write(dir.path().join("knob"), "a long value\n").unwrap();
        write(&root, "knob", "0").unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("knob")).unwrap(), "0\n");
        let error = write(&root, "absent", "0").unwrap_err();
        assert!(explained(&error).starts_with("ENOENT"), "{error}");
        assert!(!dir.path().join("absent").exists());
    }
}
