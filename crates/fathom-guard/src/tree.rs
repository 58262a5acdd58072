//! Many test files: in numbered directories of at most a thousand inside a directory of ours. The manifest lists the
//! directories, not the files, so that a hundred thousand of them are noted with a hundred lines.

use crate::content;
use crate::grove;
use crate::mark::{self, FileId, Manifest, Seal};
use crate::names;
use crate::ownership::{is_another, remove_if_same};
use fathom_base::noise::key;
use fathom_base::order::Order;
use fathom_sys::dirfd::{self, Dir, FileFacts};
use fathom_sys::io::OpenMode;
use std::fs::File;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Files in one directory at the most.
const FILES_PER_DIR: u32 = 1000;
const PER_DIR: usize = FILES_PER_DIR as usize;

/// Test files by number, and the right to open each of them: while this exists, their identity is known.
#[derive(Debug)]
pub struct OwnedTree {
    base: Dir,
    dirs: Vec<FileId>,
    files: Vec<FileId>,
    /// Their file system.
    dev: u64,
    /// How each file was left; empty while they may be written.
    seals: Mutex<Vec<Seal>>,
}

/// `d0012/f345`, without allocating.
#[derive(Debug, Clone, Copy)]
struct Name([u8; 10]);

impl Name {
    fn of(index: u32) -> Self {
        let (dir, file) = (index / FILES_PER_DIR, index % FILES_PER_DIR);
        let digit = |number: u32, place: u32| b'0' + (number / 10u32.pow(place) % 10) as u8;
        Self([
            b'd',
            digit(dir, 3),
            digit(dir, 2),
            digit(dir, 1),
            digit(dir, 0),
            b'/',
            b'f',
            digit(file, 2),
            digit(file, 1),
            digit(file, 0),
        ])
    }

    fn path(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    fn dir(&self) -> &str {
        &self.path()[..5]
    }

    fn file(&self) -> &str {
        &self.path()[6..]
    }
}

/// True for the name of a test file in its directory.
fn is_file_name(name: &str) -> bool {
    let digits = name.strip_prefix('f').unwrap_or_default();
    digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit())
}

impl OwnedTree {
    /// The most files of one tree.
    pub const FILES_MAX: u32 = 10_000 * FILES_PER_DIR;

    pub(crate) fn over(base: Dir, count: u32) -> io::Result<Self> {
        let dev = base.own_facts()?.dev;
        let files = Vec::with_capacity(count as usize);
        Ok(Self { base, dirs: Vec::new(), files, dev, seals: Mutex::default() })
    }

    /// Makes empty files until there are `count`, or `goes_on` says no, and notes each directory before it is made.
    pub(crate) fn grow(
        &mut self,
        dir: &Dir,
        count: u32,
        goes_on: &mut dyn FnMut(u32) -> bool,
    ) -> io::Result<()> {
        for first in (0..count.min(Self::FILES_MAX)).step_by(PER_DIR) {
            if !goes_on(first) {
                return Err(io::Error::from(io::ErrorKind::Interrupted));
            }
            let name = Name::of(first);
            Manifest::intend_directory(dir, name.dir())?;
            let inner = dir.make(name.dir())?;
            let id = inner.own_facts()?.into();
            self.dirs.push(id);
            Manifest::made_directory(dir, name.dir(), id)?;
            for index in first..count.min(first + FILES_PER_DIR) {
                let file = inner.create_file(Name::of(index).file())?;
                self.files.push(dirfd::facts_of(&file)?.into());
            }
        }
        Ok(())
    }

    /// Where the file of that number lies in the directory of its tree: `d0012/f345`.
    #[must_use]
    pub fn name_of(index: u32) -> String {
        Name::of(index).path().to_owned()
    }

    /// How many files there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.files.len() as u32
    }

    /// Opens a file by its number, without allocating. That it is still the one that was made is checked on the open
    /// file.
    ///
    /// # Errors
    /// Those of open(2); ENOENT when another file lies there by now.
    pub fn open(&self, index: u32, mode: OpenMode) -> io::Result<File> {
        let known = self.files.get(index as usize);
        let known = known.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let file = self.base.open_for_io(Name::of(index).path(), mode)?;
        let facts = dirfd::facts_of(&file)?;
        if facts.dev != self.dev || FileId::from(facts) != *known {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        }
        Ok(file)
    }

    fn seals(&self) -> MutexGuard<'_, Vec<Seal>> {
        self.seals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes how each file is left when all are only read from here on; their data is on stable storage.
    pub(crate) fn seal(&self) -> io::Result<()> {
        let seal = |index| Ok(Seal::from(self.base.facts(Name::of(index).path())?));
        let seals = (0..self.count()).map(seal).collect::<io::Result<Vec<Seal>>>()?;
        if let Some(last) = seals.iter().map(|seal| seal.modified_ns).max() {
            mark::settle(last);
        }
        *self.seals() = seals;
        Ok(())
    }

    /// Notes, in the manifest, how all files are left for later runs: a line for each directory.
    pub(crate) fn keep(&self, dir: &Dir) -> io::Result<()> {
        self.seal()?;
        let files: Vec<_> = self.files.iter().copied().zip(self.seals().iter().copied()).collect();
        for ((number, id), files) in (0u32..).zip(&self.dirs).zip(files.chunks(PER_DIR)) {
            let name = Name::of(number * FILES_PER_DIR);
            Manifest::sealed_directory(dir, name.dir(), *id, digest(files))?;
        }
        Ok(())
    }

    /// Notes that they may be written to.
    pub(crate) fn unseal(&self) {
        self.seals().clear();
    }

    /// Removes the files and directories that were made, are still the same, and were not changed by somebody else since
    /// they are only read; others stay, and their directories.
    pub(crate) fn take_down(&self, dir: &Dir) -> io::Result<()> {
        let seals = self.seals();
        for (number, id) in (0u32..).zip(&self.dirs) {
            let first = number * FILES_PER_DIR;
            let name = Name::of(first);
            let inner = match dir.open_dir(name.dir()) {
                Ok(inner) => inner,
                Err(error) if is_another(&error) => continue,
                Err(error) => return Err(error),
            };
            let facts = inner.own_facts()?;
            if facts.dev != self.dev || FileId::from(facts) != *id {
                continue;
            }
            let files = self.files.iter().skip(first as usize).take(PER_DIR);
            for (index, id) in (first..).zip(files) {
                let name = Name::of(index);
                let is_left = |seal: &Seal| {
                    inner.facts(name.file()).is_ok_and(|facts| Seal::from(facts) == *seal)
                };
                if seals.get(index as usize).is_none_or(is_left) {
                    remove_if_same(&inner, name.file(), *id)?;
                }
            }
            remove_if_empty(dir, name.dir())?;
        }
        Ok(())
    }
}

/// Removes a directory of test files that a killed run left behind, as far as it is ours: a listed directory, files with
/// a test file's name and one link, and nothing in them but what fathom wrote, or all as they were left; where names are
/// what is tested, nothing at all. Gives back the names of what stays.
pub(crate) fn remove_left_behind(
    dir: &Dir,
    manifest: &Manifest,
    name: &str,
    facts: FileFacts,
) -> io::Result<Vec<String>> {
    let inner = dir.open_dir(name)?;
    let is_same = FileId::from(inner.own_facts()?) == FileId::from(facts);
    let is_listed = is_same && manifest.lists_directory(name, facts.into());
    // Killed between making it and noting it: then it is empty.
    let is_intended = is_same && manifest.intends_directory(name) && inner.names()?.is_empty();
    if !is_listed && !is_intended {
        return Ok(vec![name.to_owned()]);
    }
    if grove::is_grove(name) {
        return grove::remove_left_behind(dir, name, facts);
    }
    let mut names = inner.names()?;
    names.order();
    let as_it_is = |name: &String| inner.facts(name).ok().map(|facts| (facts.into(), facts.into()));
    let now: Option<Vec<(FileId, Seal)>> = names.iter().map(as_it_is).collect();
    let is_left = |now: Vec<_>| manifest.seals_directory(name, facts.into(), digest(&now));
    let is_as_left = now.is_some_and(is_left);
    let mut foreign = Vec::new();
    for file_name in names {
        if !remove_test_file(&inner, &file_name, facts.dev, is_as_left)? {
            foreign.push(format!("{name}/{file_name}"));
        }
    }
    if foreign.is_empty() {
        remove_if_empty(dir, name)?;
    }
    Ok(foreign)
}

/// What all files of a directory are, and how they were left, in one number: any of them that is another one, or was
/// changed, makes another number of it.
fn digest(files: &[(FileId, Seal)]) -> u64 {
    files.iter().fold(files.len() as u64, |digest, (FileId { inode, born_ns }, seal)| {
        let born = born_ns.map_or(0, i64::cast_unsigned);
        key([digest, *inode, born, seal.modified_ns.cast_unsigned(), seal.size_bytes])
    })
}

fn remove_test_file(dir: &Dir, name: &str, dev: u64, is_as_left: bool) -> io::Result<bool> {
    if dirfd::is_lossy(name) {
        return Ok(false);
    }
    let facts = dir.facts(name)?;
    if names::is_ours(name, facts, dev) {
        return remove_if_same(dir, name, facts.into());
    }
    if !is_file_name(name) || !facts.is_file || facts.links != 1 || facts.dev != dev {
        return Ok(false);
    }
    let file = dir.open_file(name, false)?;
    if dirfd::facts_of(&file)? != facts || !(is_as_left || content::holds_only_ours(&file)?) {
        return Ok(false);
    }
    remove_if_same(dir, name, facts.into())
}

fn remove_if_empty(dir: &Dir, name: &str) -> io::Result<()> {
    match dir.remove_dir(name) {
        // Something else lies in it: that stays, and is named by whoever looks at the whole.
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_numbered_in_directories_of_a_thousand() {
        for (index, path) in [
            (0, "d0000/f000"),
            (999, "d0000/f999"),
            (1000, "d0001/f000"),
            (9_999_999, "d9999/f999"),
        ] {
            let name = Name::of(index);
            assert_eq!(name.path(), path);
            assert_eq!(format!("{}/{}", name.dir(), name.file()), path);
            assert!(is_file_name(name.file()));
        }
        for other in ["", "f", "f12", "f1234", "f12x", "g123", "thesis"] {
            assert!(!is_file_name(other), "{other}");
        }
    }
}
