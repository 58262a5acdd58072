//! Mounts of this and every other namespace (`/proc/PID/mountinfo`) and swap areas (`/proc/swaps`).

use crate::devno::DevNo;
use crate::sysroot::SysRoot;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// One line of a mountinfo file, see proc_pid_mountinfo(5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// `st_dev` of the files in it; for btrfs and overlay an anonymous number.
    pub devno: DevNo,
    /// The part of the filesystem that is visible here (`/` or the source of a bind mount).
    pub root: PathBuf,
    /// Where it is mounted, as the process that owns the namespace sees it.
    pub mount_point: PathBuf,
    /// Per-mount options.
    pub options: String,
    /// Filesystem type, such as `ext4` or `fuse.sshfs`.
    pub fs_type: String,
    /// The source that was given: usually a device path.
    pub source: String,
    /// Per-filesystem options.
    pub super_options: String,
}

/// Parses the text of a mountinfo file; lines that do not have its form are skipped.
#[must_use]
pub fn parse_mountinfo(text: &str) -> Vec<Mount> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(2);
    let mut right = right.split(' ');
    Some(Mount {
        devno: left.next()?.parse().ok()?,
        root: unescape(left.next()?).into(),
        mount_point: unescape(left.next()?).into(),
        options: left.next()?.to_owned(),
        fs_type: right.next()?.to_owned(),
        source: unescape(right.next()?),
        super_options: right.next().unwrap_or_default().to_owned(),
    })
}

/// Undoes the kernel's octal escapes (space, tab, newline, backslash, hash).
#[must_use]
pub fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let octal = bytes.get(i + 1..i + 4).filter(|_| bytes[i] == b'\\');
        let code = octal.and_then(|d| u8::from_str_radix(std::str::from_utf8(d).ok()?, 8).ok());
        out.push(code.unwrap_or(bytes[i]));
        i += if code.is_some() { 4 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The mounts that this process sees.
#[must_use]
pub fn own_mounts(root: &SysRoot) -> Vec<Mount> {
    root.read("proc/self/mountinfo").map(|text| parse_mountinfo(&text)).unwrap_or_default()
}

/// The mount that holds `path` (which must be absolute and free of symbolic links): the longest mount point that is
/// a prefix; of several on one point the last, which hides the others.
#[must_use]
pub fn mount_of<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    mounts
        .iter()
        .filter(|m| path.starts_with(&m.mount_point))
        .max_by_key(|m| m.mount_point.components().count())
}

/// The mounts of every mount namespace on the machine, as seen from each root directory in use there, with one process
/// that lives in it.
///
/// A process whose namespace cannot be read is asked for itself; one whose mounts cannot be read is passed over.
#[must_use]
pub fn all_mounts(root: &SysRoot) -> Vec<(u32, Mount)> {
    let mut seen: BTreeSet<(PathBuf, Option<PathBuf>)> = BTreeSet::new();
    let mut mounts = Vec::new();
    for pid in root.names("proc").iter().filter_map(|name| name.parse::<u32>().ok()) {
        let namespace = root.link(format!("proc/{pid}/ns/mnt"));
        let view = namespace.map(|namespace| (namespace, root.link(format!("proc/{pid}/root"))));
        if view.as_ref().is_some_and(|view| seen.contains(view)) {
            continue;
        }
        // A kernel thread or a process that has just ended answers nothing: the next one of its namespace is asked.
        let text = root.read(format!("proc/{pid}/mountinfo")).unwrap_or_default();
        let found = parse_mountinfo(&text);
        if !found.is_empty() {
            seen.extend(view);
            mounts.extend(found.into_iter().map(|mount| (pid, mount)));
        }
    }
    mounts
}

/// The paths of all swap areas in use (devices and files).
#[must_use]
pub fn swap_areas(root: &SysRoot) -> Vec<PathBuf> {
    let Ok(text) = root.read("proc/swaps") else { return Vec::new() };
    text.lines()
        .skip(1)
        .filter_map(|line| line.split_ascii_whitespace().next())
        .map(|path| PathBuf::from(unescape(path)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
40 22 0:31 /@home /mnt/with\\040space rw,noatime shared:2 master:3 - btrfs /dev/sdb1 rw,ssd
41 22 8:17 / /mnt rw - xfs /dev/sdb1 rw
not a mount line
";

    #[test]
    fn mountinfo_lines() {
        let mounts = parse_mountinfo(SAMPLE);
        assert_eq!(mounts.len(), 3);
        assert_eq!(mounts[0].devno, DevNo { major: 8, minor: 1 });
        assert_eq!(mounts[1].mount_point, Path::new("/mnt/with space"));
        assert_eq!(mounts[1].root, Path::new("/@home"));
        assert_eq!(mounts[1].fs_type, "btrfs");
        assert_eq!(mounts[0].super_options, "rw,errors=remount-ro");
        let found = mount_of(&mounts, Path::new("/mnt/with space/x")).map(|m| m.fs_type.as_str());
        assert_eq!(found, Some("btrfs"));
        assert_eq!(mount_of(&mounts, Path::new("/mntx")).map(|m| m.fs_type.as_str()), Some("ext4"));
    }

    #[test]
    fn escapes() {
        assert_eq!(unescape("a\\040b\\134c\\"), "a b\\c\\");
    }

    #[test]
    fn this_machine_has_a_root_mount() {
        let mounts = own_mounts(&SysRoot::live());
        assert!(mounts.iter().any(|m| m.mount_point == Path::new("/")), "{mounts:?}");
        assert!(all_mounts(&SysRoot::live()).len() >= mounts.len());
    }
}
