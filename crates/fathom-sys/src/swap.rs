//! Swap areas, switched off and on.

use crate::mounts::unescape;
use crate::sysroot::SysRoot;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
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

/// Switches an area on; a negative priority is left to the kernel, which counts down from those that are on.
///
/// # Errors
/// Those of swapon(2); EBUSY when it is on.
pub fn on(path: &Path, priority: i32) -> io::Result<()> {
    // From linux/swap.h.
    const PREFER: i32 = 0x8000;
    const PRIORITY_MASK: i32 = 0x7fff;
    let path = CString::new(path.as_os_str().as_bytes())?;
    let flags = if priority < 0 { 0 } else { PREFER | (priority & PRIORITY_MASK) };
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
}
