//! Mounts of this and every other namespace (`/proc/PID/mountinfo`) and swap areas (`/proc/swaps`).

use crate::devno::DevNo;
use crate::sysroot::{FILE_BYTES_MAX, SysRoot};
use fathom_base::order::Order;
use rustix::fs::{AtFlags, StatxFlags};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One line of a mountinfo file, see proc_pid_mountinfo(5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Number of the mount.
    pub id: u32,
    /// Number of the mount that it is mounted on.
    pub parent: u32,
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

/// Types of filesystems whose data another machine or process has.
const REMOTE: [&str; 18] = [
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "9p", "virtiofs", "fuse", "afs", "lustre",
    "gpfs", "beegfs", "orangefs", "vboxsf", "prl_fs", "hostfs", "coda",
];

/// True for a type of filesystem whose data another machine or process has.
#[must_use]
pub fn is_remote(fs_type: &str) -> bool {
    REMOTE.contains(&fs_type) || fs_type.starts_with("fuse.")
}

/// Whoever asks a filesystem of another machine or process waits until that answers, for ever if need be.
#[must_use]
pub fn may_be_asked(fs_type: &str) -> bool {
    !is_remote(fs_type) && fs_type != "fuseblk"
}

/// The number of the mount that a path leads to, which no later one gets; none from kernels before 6.8. The filesystem itself is not asked.
#[must_use]
pub fn sequence(path: &Path) -> Option<u64> {
    const MNT_ID_UNIQUE: u32 = 0x4000;
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    let wanted = StatxFlags::from_bits_retain(MNT_ID_UNIQUE);
    let stat = rustix::fs::statx(rustix::fs::CWD, path, flags, wanted).ok()?;
    (stat.stx_mask & MNT_ID_UNIQUE != 0).then_some(stat.stx_mnt_id)
}

/// Parses a mountinfo file; lines that do not have its form are skipped. Names need not be UTF-8.
#[must_use]
pub fn parse_mountinfo(text: impl AsRef<[u8]>) -> Vec<Mount> {
    text.as_ref().split(|&byte| byte == b'\n').filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&byte| byte == b' ');
    let mut field = || fields.next();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let path = |bytes: &[u8]| PathBuf::from(OsString::from_vec(unescaped(bytes)));
    let mount = Mount {
        id: text(field()?).parse().ok()?,
        parent: text(field()?).parse().ok()?,
        devno: text(field()?).parse().ok()?,
        root: path(field()?),
        mount_point: path(field()?),
        options: text(field()?),
        fs_type: String::new(),
        source: String::new(),
        super_options: String::new(),
    };
    // Any number of optional fields, up to a lone dash.
    while field()? != b"-" {}
    Some(Mount {
        fs_type: text(field()?),
        source: text(&unescaped(field()?)),
        super_options: field().map(text).unwrap_or_default(),
        ..mount
    })
}

/// Undoes the kernel's octal escapes (space, tab, newline, backslash, hash).
#[must_use]
pub fn unescape(text: &str) -> String {
    String::from_utf8_lossy(&unescaped(text.as_bytes())).into_owned()
}

fn unescaped(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let octal = bytes.get(i + 1..i + 4).filter(|_| bytes[i] == b'\\');
        let code = octal.and_then(|d| u8::from_str_radix(std::str::from_utf8(d).ok()?, 8).ok());
        out.push(code.unwrap_or(bytes[i]));
        i += if code.is_some() { 4 } else { 1 };
    }
    out
}

/// The bytes of a mountinfo file.
fn mountinfo(root: &SysRoot, whose: impl std::fmt::Display) -> io::Result<Vec<u8>> {
    root.bytes(format!("proc/{whose}/mountinfo"), FILE_BYTES_MAX)
}

/// The mounts that this process sees.
#[must_use]
pub fn own_mounts(root: &SysRoot) -> Vec<Mount> {
    mountinfo(root, "self").map(parse_mountinfo).unwrap_or_default()
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

/// The mount that a path without symbolic links lies on, when asking there may last for ever: by its filesystem, or by one on the
/// way that does not hold the root itself. What is on the way to everything has answered already.
#[must_use]
pub fn waiting_for<'m>(mounts: &'m [Mount], path: &Path) -> Option<&'m Mount> {
    let found = mount_of(mounts, path)?;
    let mut mount = found;
    // Numbers that lead in a circle end here.
    for _ in 0..mounts.len() {
        let is_root = mount.mount_point == Path::new("/");
        if !may_be_asked(&mount.fs_type) && (!is_root || mount.id == found.id) {
            return Some(found);
        }
        let parent = |other: &&Mount| other.id == mount.parent && other.id != mount.id;
        mount = mounts.iter().find(parent)?;
    }
    None
}

/// The mounts that paths lead to and that can be looked at: nothing lies over them, none on the way may keep one waiting, and
/// none mounts others when it is looked at.
pub fn visible(mounts: &[Mount]) -> impl Iterator<Item = &Mount> {
    let seen = mounts.iter().zip(hidden(mounts)).filter(|(_, is_hidden)| !is_hidden);
    seen.map(|(mount, _)| mount).filter(|mount| {
        mount.fs_type != "autofs" && waiting_for(mounts, &mount.mount_point).is_none()
    })
}

/// For each mount whether another one hides it, so that its path leads elsewhere.
#[must_use]
pub fn hidden(mounts: &[Mount]) -> Vec<bool> {
    let by_id: BTreeMap<u32, &Mount> = mounts.iter().map(|mount| (mount.id, mount)).collect();
    let places = mounts.iter().filter(|mount| mount.id != mount.parent);
    let by_place: BTreeMap<(u32, &Path), u32> =
        places.map(|m| ((m.parent, m.mount_point.as_path()), m.id)).collect();
    mounts.iter().map(|mount| is_hidden(mount, &by_id, &by_place)).collect()
}

/// Looks along the way that the kernel takes to the mount: from each mount to the one that it is mounted on.
fn is_hidden(
    mount: &Mount,
    by_id: &BTreeMap<u32, &Mount>,
    by_place: &BTreeMap<(u32, &Path), u32>,
) -> bool {
    if by_place.contains_key(&(mount.id, &mount.mount_point)) {
        return true;
    }
    let mut here = mount;
    // Numbers that lead in a circle end here.
    for _ in 0..by_id.len() {
        let Some(&parent) = by_id.get(&here.parent) else { return false };
        let place = |path| by_place.get(&(parent.id, path)).copied();
        let covered = place(&parent.mount_point).is_some_and(|cover| cover != here.id);
        let above = here.mount_point.ancestors().skip(1);
        let mut between = above.take_while(|path| *path != parent.mount_point);
        if covered || between.any(|path| place(path).is_some()) {
            return true;
        }
        here = parent;
    }
    false
}

/// The mounts of a namespace that is not this process's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// The first process in it.
    pub pid: u32,
    /// The name of this process.
    pub process: String,
    /// The mounts as it sees them.
    pub mounts: Vec<Mount>,
}

/// All mount namespaces but this process's own, each once, and how many processes did not let their mounts be read.
///
/// Processes in a root directory of their own see a part of their namespace only: they are asked where there is no other.
#[must_use]
pub fn other_namespaces(root: &SysRoot) -> (Vec<Namespace>, usize) {
    let mut pids: Vec<u32> = root.names("proc").iter().filter_map(|n| n.parse().ok()).collect();
    pids.order();
    let mut seen: BTreeSet<PathBuf> = root.link("proc/self/ns/mnt").into_iter().collect();
    // Where a namespace has no name (other users' processes), its text names it: numbers of mounts are the machine's.
    let mut texts: BTreeSet<Vec<u8>> = mountinfo(root, "self").into_iter().collect();
    let (mut found, mut refused) = (Vec::new(), 0);
    for in_part in [false, true] {
        for &pid in &pids {
            let namespace = root.link(format!("proc/{pid}/ns/mnt"));
            if namespace.as_ref().is_some_and(|namespace| seen.contains(namespace)) {
                continue;
            }
            let sees = root.link(format!("proc/{pid}/root"));
            if sees.is_some_and(|sees| sees != Path::new("/")) != in_part {
                continue;
            }
            let text = match mountinfo(root, pid) {
                Ok(text) => text,
                Err(error) => {
                    refused += usize::from(error.kind() == io::ErrorKind::PermissionDenied);
                    continue;
                }
            };
            let mounts = parse_mountinfo(&text);
            if mounts.is_empty() || !texts.insert(text) {
                continue;
            }
            seen.extend(namespace);
            let process = root.text(format!("proc/{pid}/comm")).unwrap_or_default();
            found.push(Namespace { pid, process, mounts });
        }
    }
    (found, refused)
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
        let found = mountinfo(root, pid).map(parse_mountinfo).unwrap_or_default();
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
    fn names_need_not_be_utf_8() {
        use std::os::unix::ffi::OsStrExt;
        let line = b"40 22 8:1 / /mnt/caf\xe9 rw shared:2 master:3 - xfs /dev/sdb1 rw\n";
        let mounts = parse_mountinfo(line);
        assert_eq!(mounts[0].mount_point.as_os_str().as_bytes(), b"/mnt/caf\xe9");
        assert_eq!((mounts[0].fs_type.as_str(), mounts[0].super_options.as_str()), ("xfs", "rw"));
    }

    #[test]
    fn escapes() {
        assert_eq!(unescape("a\\040b\\134c\\"), "a b\\c\\");
    }

    /// Whether each mount of `id parent point` is hidden.
    fn hidden_of(lines: &[&str]) -> Vec<bool> {
        let line = |line: &&str| {
            let words: Vec<&str> = line.split(' ').collect();
            format!("{} {} 8:1 / {} rw - ext4 /dev/sda1 rw\n", words[0], words[1], words[2])
        };
        hidden(&parse_mountinfo(lines.iter().map(line).collect::<String>().as_str()))
    }

    #[test]
    fn mounts_over_mounts_hide() {
        // As left by an initial ramdisk: what lies under the root was there before it.
        assert_eq!(hidden_of(&["22 29 /sys", "29 1 /", "30 29 /data"]), [false; 3]);
        // On the same point, further up, and below something hidden.
        assert_eq!(hidden_of(&["29 1 /", "30 29 /data", "31 30 /data"]), [false, true, false]);
        assert_eq!(hidden_of(&["29 1 /", "30 29 /a/b", "31 29 /a"]), [false, true, false]);
        let below = ["29 1 /", "30 29 /a", "31 30 /a/b", "32 30 /a", "33 32 /a/c"];
        assert_eq!(hidden_of(&below), [false, true, true, false, false]);
        assert_eq!(hidden_of(&["5 6 /x", "6 5 /y", "7 7 /z"]), [false; 3]);
    }

    #[test]
    fn this_machine_has_a_root_mount() {
        let mounts = own_mounts(&SysRoot::live());
        assert!(mounts.iter().any(|m| m.mount_point == Path::new("/")), "{mounts:?}");
        assert!(all_mounts(&SysRoot::live()).len() >= mounts.len());
    }

    #[test]
    fn what_lies_in_a_filesystem_that_may_not_answer_is_not_looked_at() {
        let text = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n23 22 0:40 / /far rw - nfs4 host:/x rw\n\
                    24 23 8:17 / /far/disk rw - ext4 /dev/sdb1 rw\n25 22 0:41 / /auto rw - autofs x rw\n\
                    26 22 8:33 / /near rw - ext4 /dev/sdc1 rw\n27 22 8:49 / /near rw - xfs /dev/sdd1 rw\n";
        let mounts = parse_mountinfo(text);
        let waits = |path: &str| waiting_for(&mounts, Path::new(path)).map(|mount| mount.id);
        assert_eq!(waits("/far/file"), Some(23));
        assert_eq!(waits("/far/disk/file"), Some(24), "the way leads through it");
        assert_eq!((waits("/near/file"), waits("/auto/x")), (None, None));
        let seen: Vec<u32> = visible(&mounts).map(|mount| mount.id).collect();
        assert!(seen.contains(&22) && !seen.iter().any(|id| [23, 24, 25].contains(id)), "{seen:?}");
        // The root itself of another machine: everything lies on it.
        let away = parse_mountinfo(
            "22 1 0:40 / / rw - nfs4 host:/ rw\n23 22 8:1 / /d rw - ext4 /dev/sda1 rw\n",
        );
        assert_eq!(visible(&away).map(|mount| mount.id).collect::<Vec<_>>(), [23]);
    }
}
