//! Changing the options of a filesystem that is mounted.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Options that are flags of a mount, with their bits; `mount(2)` takes all that are to hold, and clears the others.
const FLAGS: &[(&str, libc::c_ulong)] = &[
    ("ro", libc::MS_RDONLY),
    ("nosuid", libc::MS_NOSUID),
    ("nodev", libc::MS_NODEV),
    ("noexec", libc::MS_NOEXEC),
    ("sync", libc::MS_SYNCHRONOUS),
    ("dirsync", libc::MS_DIRSYNC),
    ("mand", libc::MS_MANDLOCK),
    ("noatime", libc::MS_NOATIME),
    ("nodiratime", libc::MS_NODIRATIME),
    ("relatime", libc::MS_RELATIME),
    ("strictatime", libc::MS_STRICTATIME),
    ("lazytime", libc::MS_LAZYTIME),
    // MS_NOSYMFOLLOW of linux/mount.h.
    ("nosymfollow", 256),
];

/// Words of a mount that say nothing, or only the default, or what a remount leaves alone.
const SILENT: &[&str] =
    &["rw", "defaults", "suid", "dev", "exec", "atime", "nolazytime", "idmapped"];

/// What is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The mount alone: access times.
    Mount,
    /// The filesystem, with all its mounts.
    FileSystem,
}

/// Mounts anew with exactly these options: all that are to hold, not only those that change. What is neither a flag nor silent goes
/// to the filesystem as it stands.
///
/// # Errors
/// The kernel's answer: `EINVAL` for an option that the filesystem does not know or cannot change while mounted. A flag of the mount that is
/// not known here, which would be lost.
pub fn remount(point: &Path, part: Part, options: &[String]) -> io::Result<()> {
    let (flags, rest) = sorted(part, options)?;
    let point = CString::new(point.as_os_str().as_bytes())?;
    let data = CString::new(rest.join(","))?;
    // SAFETY: both strings live until the call returns and end with a zero; source and type are not read for a remount.
    let answer = unsafe {
        libc::mount(std::ptr::null(), point.as_ptr(), std::ptr::null(), flags, data.as_ptr().cast())
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The bits of all flags, and what is the filesystem's own.
fn sorted(part: Part, options: &[String]) -> io::Result<(libc::c_ulong, Vec<&str>)> {
    let mut flags = libc::MS_REMOUNT;
    let mut rest: Vec<&str> = Vec::new();
    for option in options {
        match FLAGS.iter().find(|(word, _)| word == option) {
            Some((_, bit)) => flags |= bit,
            None if SILENT.contains(&option.as_str()) => {}
            None => rest.push(option),
        }
    }
    match (part, rest.first()) {
        (Part::FileSystem, _) => Ok((flags, rest)),
        (Part::Mount, None) => Ok((flags | libc::MS_BIND, rest)),
        (Part::Mount, Some(option)) => Err(io::Error::other(format!(
            "the mount has the option {option}, which this fathom does not know and would take away"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mount with a flag that nobody here knows keeps it, because it is not mounted anew.
    #[test]
    fn no_flag_of_a_mount_is_lost() {
        let words = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        let all = words("rw,nodev,noexec,nosymfollow,idmapped,noatime");
        let (flags, rest) = sorted(Part::Mount, &all).unwrap();
        assert!(rest.is_empty() && flags & 256 != 0 && flags & libc::MS_BIND != 0, "{flags:x}");
        let unknown = words("rw,newflag,noatime");
        let refused = sorted(Part::Mount, &unknown).unwrap_err().to_string();
        assert!(refused.contains("option newflag"), "{refused}");
        assert_eq!(sorted(Part::FileSystem, &unknown).unwrap().1, ["newflag"]);
    }
}
