//! Swap areas, switched off and on.

use crate::devno::DevNo;
use crate::kmsg;
use crate::mounts::unescape;
use crate::sysfs_block::BlockDir;
use crate::sysroot::SysRoot;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A swap area in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Area {
    /// The file or device.
    pub path: PathBuf,
    /// Its priority; negative ones are given out by the kernel itself.
    pub priority: i32,
    /// Bytes in use.
    pub used_bytes: u64,
}

/// The areas in use, from /proc/swaps.
#[must_use]
pub fn areas(root: &SysRoot) -> Vec<Area> {
    let text = root.read("proc/swaps").unwrap_or_default();
    text.lines().skip(1).filter_map(parse).collect()
}

fn parse(line: &str) -> Option<Area> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let [path, _kind, _size, used, priority] = fields.as_slice() else { return None };
    Some(Area {
        path: unescape(path).into(),
        priority: priority.parse().ok()?,
        used_bytes: used.parse::<u64>().ok()?.checked_mul(1024)?,
    })
}

/// The words of swapon(8) for what the kernel discards of an area: all of it when it is switched on and what is freed later, or one of both.
const DISCARDS: [&str; 3] = ["discard", "discard=once", "discard=pages"];

/// With which word for discarding an area was switched on; none without one. The kernel shows it in its log only; where that has forgotten
/// it, what `/etc/fstab` says of the area is taken.
///
/// # Errors
/// What keeps it from being known.
pub fn discard(root: &SysRoot, area: &Path) -> Result<Option<&'static str>, &'static str> {
    if cannot_discard(root, area) {
        return Ok(None);
    }
    let log = kmsg::read(root).unwrap_or_default();
    let real = |path: &Path| root.path(path).canonicalize().unwrap_or_else(|_| root.path(path));
    let own = real(area);
    let logged = log.lines().rev().filter_map(logged);
    if let Some((_, word)) = logged.into_iter().find(|(path, _)| real(Path::new(path)) == own) {
        return Ok(word);
    }
    let fstab = root.read("etc/fstab").unwrap_or_default();
    let listed = fstab.lines().filter_map(listed);
    let word = listed.into_iter().find(|(path, _)| real(path) == own).map(|(_, word)| word);
    word.ok_or("neither the kernel's log nor /etc/fstab says whether it was on with discard")
}

/// Its device takes no discards, whatever was asked for.
fn cannot_discard(root: &SysRoot, area: &Path) -> bool {
    let Ok(meta) = root.path(area).metadata() else { return false };
    let is_device = meta.file_type().is_block_device();
    let number = DevNo::from_raw(if is_device { meta.rdev() } else { meta.dev() });
    let disk = BlockDir::by_devno(root, number).and_then(|device| device.disk());
    disk.and_then(|disk| disk.value::<u64>("queue/discard_max_bytes")) == Some(0)
}

/// Name and word of a line of the kernel's log: `Adding 65532k swap on /dev/sda2.  Priority:-2 extents:1 across:65532k SSDsc`.
fn logged(line: &str) -> Option<(&str, Option<&'static str>)> {
    let (_, text) = line.split_once(';')?;
    let (_, rest) = text.strip_prefix("Adding ")?.split_once(" swap on ")?;
    let (name, rest) = rest.rsplit_once(".  Priority:")?;
    let (_, across) = rest.split_once("across:")?;
    let flags = across.split_whitespace().nth(1).unwrap_or_default();
    let word = match (flags.contains('D'), flags.contains('s'), flags.contains('c')) {
        (false, ..) => None,
        (true, true, false) => Some(DISCARDS[1]),
        (true, false, true) => Some(DISCARDS[2]),
        _ => Some(DISCARDS[0]),
    };
    Some((name, word))
}

/// Path and word of an area in `/etc/fstab`.
fn listed(line: &str) -> Option<(PathBuf, Option<&'static str>)> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let [spec, _, "swap", options, ..] = fields.as_slice() else { return None };
    let path = match spec.split_once('=') {
        Some((kind, id)) => {
            let kind = kind.to_ascii_lowercase();
            PathBuf::from(format!("/dev/disk/by-{kind}/{}", id.trim_matches('"')))
        }
        None => unescape(spec).into(),
    };
    Some((path, options.split(',').find_map(|word| DISCARDS.into_iter().find(|own| *own == word))))
}

/// Switches an area off: what lies in it comes back into memory.
///
/// # Errors
/// Those of swapoff(2); ENOMEM when memory is too small for it.
pub fn off(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path is a terminated string that lives through the call.
    match unsafe { libc::swapoff(path.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Switches an area on, with a word of [`discard`] or none; a negative priority is left to the kernel, which counts down from those that are
/// on.
///
/// # Errors
/// Those of swapon(2); EBUSY when it is on.
pub fn on(path: &Path, priority: i32, discard: Option<&str>) -> io::Result<()> {
    // From linux/swap.h.
    const PREFER: i32 = 0x8000;
    const PRIORITY_MASK: i32 = 0x7fff;
    const DISCARD: i32 = 0x1_0000;
    const DISCARD_ONCE: i32 = 0x2_0000;
    const DISCARD_PAGES: i32 = 0x4_0000;
    let path = CString::new(path.as_os_str().as_bytes())?;
    let flags = if priority < 0 { 0 } else { PREFER | (priority & PRIORITY_MASK) };
    let flags = flags
        | match discard {
            None => 0,
            Some("discard=once") => DISCARD | DISCARD_ONCE,
            Some("discard=pages") => DISCARD | DISCARD_PAGES,
            Some(_) => DISCARD,
        };
    // SAFETY: the path is a terminated string that lives through the call.
    match unsafe { libc::swapon(path.as_ptr(), flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel() {
        let line = "/dev/zram0                              partition\t102396\t\t12\t\t100";
        let area = parse(line).expect("a line");
        assert_eq!(area, Area { path: "/dev/zram0".into(), priority: 100, used_bytes: 12288 });
        let odd = parse("/a\\040b file 1 0 -2").expect("a line");
        assert_eq!((odd.path, odd.priority), (PathBuf::from("/a b"), -2));
        assert_eq!(parse("Filename Type Size Used"), None);
    }

    #[test]
    fn what_was_discarded_is_in_the_log_or_in_the_table() {
        let line = |flags: &str| {
            format!("6,1,2,-;Adding 65532k swap on /a.  Priority:7 extents:1 across:65532k {flags}")
        };
        let words = ["", "SS", "SSDsc", "Ds", "DcFS"];
        let found = words.map(|flags| logged(&line(flags)).expect("a line").1);
        let expected = [None, None, Some("discard"), Some("discard=once"), Some("discard=pages")];
        assert_eq!(found, expected);
        assert_eq!(logged("6,1,2,-;Adding a device"), None);
        let dir = tempfile::tempdir().expect("directory");
        let root = SysRoot::at(dir.path());
        for part in ["dev/disk/by-uuid", "etc"] {
            std::fs::create_dir_all(dir.path().join(part)).expect("is made");
        }
        let put = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        put("dev/x", "");
        std::os::unix::fs::symlink("../../x", dir.path().join("dev/disk/by-uuid/1-2")).unwrap();
        let of = || discard(&root, Path::new("/dev/x"));
        assert!(of().is_err_and(|why| why.contains("neither")));
        put("etc/fstab", "# a\nUUID=1-2 none swap sw,discard=once 0 0\n/dev/y none swap sw 0 0\n");
        assert_eq!(of(), Ok(Some("discard=once")));
        // The newest line of the log counts more.
        let on = |name: &str, flags: &str| line(flags).replace("/a.", &format!("{name}."));
        let lines = [on("/dev/x", "SS"), on("/dev/x", "Dc"), on("/dev/y", "Dsc")];
        put("dev/kmsg", &lines.join("\n"));
        assert_eq!(of(), Ok(Some("discard=pages")));
    }
}
