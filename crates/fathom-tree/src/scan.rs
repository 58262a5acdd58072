//! Reads a real directory, names and sizes only, and says what a tree like it would be made of. No file is opened.

pub mod table;

use crate::clean::find::join;
use crate::clean::is_another;
use crate::error::TreeError;
use crate::manifest;
use fathom_sys::clock;
use fathom_sys::dirents::{Entry, EntryReader};
use fathom_sys::dirfd::Dir;
use fathom_sys::signals::StopFlag;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use table::Table;

/// Directories that cannot be read are named up to here; the rest is counted.
const LISTED_MAX: usize = 20;
/// How often progress is told, nanoseconds.
const TICK_NS: u64 = 500_000_000;

/// What a scan came to.
#[derive(Debug, Default)]
pub struct Scanned {
    /// What was found.
    pub table: Table,
    /// Directories that other filesystems, or others' parts, are mounted on: not entered.
    pub other_filesystems: u64,
    /// Directories and files that were gone when they were to be looked at.
    pub vanished: u64,
    /// Directories that could not be read.
    pub unread: u64,
    /// The first of them, with the reason.
    pub unread_listed: Vec<String>,
    /// Time, nanoseconds.
    pub took_ns: u64,
}

/// Reads everything below a directory. Links are not followed and mounts not crossed, also those that show a part of the same
/// filesystem again, so that no directory is met twice.
///
/// # Errors
/// [`TreeError::Io`] when the directory itself cannot be read; [`TreeError::Interrupted`].
pub fn scan(
    dir: &Path,
    stop: &StopFlag,
    tick: &mut dyn FnMut(&Scanned),
) -> Result<Scanned, TreeError> {
    let started_ns = clock::monotonic_ns();
    let root = manifest::open_root(dir)?;
    let dev = root.own_facts().map_err(TreeError::io("look at", dir))?.dev;
    let mut walk = Walk { root, dev, found: Scanned::default(), pending: vec![(Vec::new(), 0)] };
    let mut reader = EntryReader::default();
    let mut told_ns = started_ns;
    while let Some((path, depth)) = walk.pending.pop() {
        if stop.is_set() {
            return Err(TreeError::Interrupted("nothing was written".into()));
        }
        match walk.look(&path, depth, &mut reader) {
            Ok(()) => {}
            Err(error) if path.is_empty() => return Err(TreeError::io("read", dir)(error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => walk.found.vanished += 1,
            Err(error) if is_another(&error) => walk.found.other_filesystems += 1,
            Err(error) => {
                walk.found.unread += 1;
                if walk.found.unread_listed.len() < LISTED_MAX {
                    let at = dir.join(OsStr::from_bytes(&path));
                    walk.found.unread_listed.push(format!("{}: {error}", at.display()));
                }
            }
        }
        let now_ns = clock::monotonic_ns();
        if now_ns - told_ns > TICK_NS {
            told_ns = now_ns;
            tick(&walk.found);
        }
    }
    walk.found.took_ns = clock::monotonic_ns() - started_ns;
    Ok(walk.found)
}

/// The state of a scan.
struct Walk {
    root: Dir,
    dev: u64,
    found: Scanned,
    /// Directories to be read, with their depth.
    pending: Vec<(Vec<u8>, u64)>,
}

impl Walk {
    fn look(&mut self, path: &[u8], depth: u64, reader: &mut EntryReader) -> io::Result<()> {
        let dir = manifest::open_deep(&self.root, path)?;
        if dir.own_facts()?.dev != self.dev {
            self.found.other_filesystems += 1;
            return Ok(());
        }
        let (mut files, mut dirs) = (0, 0);
        let (found, pending, dev) = (&mut self.found, &mut self.pending, self.dev);
        let mut each = |entry: Entry<'_>| {
            // The size takes a statx of every file; the kind then comes with it.
            let facts = match dir.facts_of_name(entry.name) {
                Ok(facts) => facts,
                Err(_) => {
                    found.vanished += 1;
                    return Ok(true);
                }
            };
            let table = &mut found.table;
            table.name_bytes.add(entry.name.len() as u64);
            if facts.is_dir && facts.dev == dev {
                dirs += 1;
                pending.push((join(path, entry.name), depth + 1));
            } else if facts.is_dir {
                found.other_filesystems += 1;
            } else if facts.is_file {
                files += 1;
                table.add_file(facts.size_bytes);
            } else {
                table.others += 1;
            }
            Ok(true)
        };
        reader.for_each(&dir, &mut each)?;
        self.found.table.add_dir(files, dirs, depth);
        Ok(())
    }
}
