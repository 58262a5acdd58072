//! The barest walk through a tree of files: the system calls that fathom's readers do, in the same order, and nothing else.
//! One look at the clock for each round through the tree; names and paths are those of the first round.
//!
//! `bare_walk DIR MILLISECONDS`, for `cargo xtask bench`: prints how many files were read, and how long that took.

mod bare;

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir};
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::process::ExitCode;
use std::time::Duration;

/// As much as fathom's readers give the kernel for entries and for content.
const ENTRY_BYTES: usize = 32 << 10;
const BLOCK_BYTES: usize = 64 << 10;

const DIR: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const FILE: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

struct Walk {
    root: OwnedFd,
    entries: Vec<MaybeUninit<u8>>,
    data: Vec<u8>,
    files: u64,
}

impl Walk {
    /// Reads what lies in a directory; `found` hears of directories in it.
    fn directory(
        &mut self,
        path: &CStr,
        found: &mut dyn FnMut(&CStr),
    ) -> Result<(), rustix::io::Errno> {
        let dir = rustix::fs::openat(&self.root, path, DIR | OFlags::NOATIME, Mode::empty())?;
        let mut entries = RawDir::new(&dir, &mut self.entries);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let stat = rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
            if FileType::from_raw_mode(stat.st_mode).is_dir() {
                found(name);
                continue;
            }
            let file = rustix::fs::openat(&dir, name, FILE | OFlags::NOATIME, Mode::empty())?;
            let mut left = stat.st_size - rustix::io::read(&file, &mut self.data[..1])? as i64;
            while left > 0 {
                match rustix::io::read(&file, &mut self.data[..])? {
                    0 => break,
                    bytes => left -= bytes as i64,
                }
            }
            drop(file);
            self.files += 1;
        }
        Ok(())
    }
}

/// Level by level; gives the paths of all directories in this order.
fn first_round(walk: &mut Walk) -> Result<Vec<CString>, rustix::io::Errno> {
    let mut paths = vec![c".".to_owned()];
    let mut at = 0;
    while let Some(path) = paths.get(at).cloned() {
        let mut below = Vec::new();
        walk.directory(&path, &mut |name| {
            let mut joined = Vec::new();
            if at > 0 {
                joined.extend_from_slice(path.to_bytes());
                joined.push(b'/');
            }
            joined.extend_from_slice(name.to_bytes());
            below.extend(CString::new(joined));
        })?;
        paths.append(&mut below);
        at += 1;
    }
    Ok(paths)
}

fn measured(dir: &str, length: Duration) -> Result<bare::Timed, rustix::io::Errno> {
    let mut walk = Walk {
        root: rustix::fs::openat(CWD, dir, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?,
        entries: vec![MaybeUninit::uninit(); ENTRY_BYTES],
        data: vec![0; BLOCK_BYTES],
        files: 0,
    };
    let paths = first_round(&mut walk)?;
    bare::timed(length, || {
        let before = walk.files;
        paths.iter().try_for_each(|path| walk.directory(path, &mut |_| {}))?;
        Ok(walk.files - before)
    })
}

fn main() -> ExitCode {
    bare::run("DIR MILLISECONDS", |dir, [length]| measured(dir, Duration::from_millis(length)))
}
