//! What readers walk: the directories with which each begins.

use fathom_base::order::Order;
use fathom_sys::dirents::EntryKind;
use fathom_sys::walked::{EntryBuffer, WalkedDir};
use std::ffi::{CStr, CString};
use std::io;

/// A share of directories is fair when each reader has a few.
const DIRECTORIES_EACH: usize = 4;
/// Directories that are looked into to find those.
const LOOKED_INTO_MAX: usize = 2_000;
/// Names of one directory that are read to find directories among them: a flat one may have millions.
const NAMES_MAX: usize = 200_000;

/// Directories of one level of the tree that separate readers begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begins {
    /// For each separate part the directories.
    pub parts: Vec<Vec<CString>>,
}

impl Begins {
    /// The directories with which a reader begins; readers beyond the parts share them.
    #[must_use]
    pub fn of(&self, reader: usize) -> Vec<CString> {
        self.parts.get(reader % self.parts.len().max(1)).cloned().unwrap_or_default()
    }
}

fn is_own(name: &CStr) -> bool {
    name.to_bytes().starts_with(b".fathom-")
}

fn joined(parent: &CStr, name: &CStr) -> CString {
    let mut path = parent.to_bytes().to_vec();
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name.to_bytes());
    CString::new(path).unwrap_or_default()
}

/// What is in a directory, without fathom's own: its directories, sorted, and the first so many files.
pub(super) struct Inside {
    pub(super) dirs: Vec<CString>,
    pub(super) files: Vec<CString>,
}

/// Looks into a directory of any size: files are told from directories by what it says itself, and of one with more names than
/// [`NAMES_MAX`] the rest is left alone.
pub(super) fn inside(root: &WalkedDir, path: &CStr, files_max: usize) -> io::Result<Inside> {
    let dir = root.below(path, true)?;
    let (mut found, mut seen) = (Inside { dirs: Vec::new(), files: Vec::new() }, 0);
    dir.each_name(&mut EntryBuffer::default(), &mut |name, kind| {
        seen += 1;
        let is_known = kind != EntryKind::Unknown;
        let looked = if is_known { None } else { dir.look(name).ok() };
        let is_file = kind == EntryKind::File || looked.is_some_and(|looked| looked.is_file);
        let is_dir = kind == EntryKind::Dir || looked.is_some_and(|looked| looked.is_dir);
        if is_own(name) {
            return true;
        }
        if is_dir {
            found.dirs.push(joined(path, name));
        } else if is_file && found.files.len() < files_max {
            found.files.push(joined(path, name));
        }
        seen < NAMES_MAX
    })?;
    found.dirs.order();
    Ok(found)
}

/// Finds a level of the tree with enough directories for so many readers to have parts of their own; where there is none,
/// all begin at the root.
///
/// # Errors
/// Those of reading the root; what cannot be read below counts as empty.
pub fn begins(root: &WalkedDir, readers: usize) -> io::Result<Begins> {
    let Inside { dirs: mut level, files } = inside(root, c"", 1)?;
    if level.is_empty() && files.is_empty() {
        return Ok(Begins { parts: Vec::new() });
    }
    let wanted = readers * DIRECTORIES_EACH;
    loop {
        let enough = readers > 1 && level.len() >= wanted;
        if enough || level.is_empty() || level.len() > LOOKED_INTO_MAX {
            break;
        }
        let below: Vec<CString> = level
            .iter()
            .filter_map(|path| inside(root, path, 0).ok())
            .flat_map(|found| found.dirs)
            .collect();
        // A level that has fewer than the one above is no better.
        if below.len() <= level.len() || readers <= 1 {
            break;
        }
        level = below;
    }
    if readers <= 1 || level.len() < readers {
        return Ok(Begins { parts: vec![vec![CString::default()]] });
    }
    let mut parts = vec![Vec::new(); readers];
    level.into_iter().enumerate().for_each(|(index, path)| parts[index % readers].push(path));
    Ok(Begins { parts })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn tree(dirs: &[&str]) -> tempfile::TempDir {
        let base = tempfile::tempdir().expect("temporary directory");
        for dir in dirs {
            std::fs::create_dir_all(base.path().join(dir)).expect("made");
            std::fs::write(base.path().join(dir).join("f"), "data").expect("written");
        }
        base
    }

    #[test]
    fn readers_get_parts_of_their_own_from_a_level_that_is_wide_enough() {
        let mut dirs = Vec::new();
        for a in 0..3 {
            for b in 0..3 {
                for c in 0..3 {
                    dirs.push(format!("a{a}/b{b}/c{c}"));
                }
            }
        }
        let base = tree(&dirs.iter().map(String::as_str).collect::<Vec<_>>());
        std::fs::create_dir(base.path().join(".fathom-x")).expect("made");
        let root = WalkedDir::open(base.path()).expect("there");
        let found = begins(&root, 4).expect("readable");
        assert_eq!(found.parts.len(), 4);
        let all: BTreeSet<&CString> = found.parts.iter().flatten().collect();
        assert_eq!(all.len(), 27, "each directory of the third level once");
        assert_eq!(found.of(5), found.parts[1], "readers beyond share");
        assert_eq!(begins(&root, 1).expect("readable").parts, [vec![CString::default()]]);
    }

    /// Files beyond those that are asked for are neither looked at nor kept in mind.
    #[test]
    fn of_a_flat_directory_a_few_files_are_taken() {
        let base = tempfile::tempdir().expect("temporary directory");
        for number in 0..300 {
            std::fs::write(base.path().join(number.to_string()), "x").expect("made");
        }
        std::fs::create_dir(base.path().join("dir")).expect("made");
        std::os::unix::fs::symlink("dir", base.path().join("link")).expect("made");
        let root = WalkedDir::open(base.path()).expect("there");
        let found = inside(&root, c"", 4).expect("readable");
        assert_eq!((found.dirs, found.files.len()), (vec![c"dir".to_owned()], 4));
        let all = inside(&root, c"", usize::MAX).expect("readable");
        assert_eq!(all.files.len(), 300, "no link among them");
    }

    #[test]
    fn small_trees_are_shared_and_empty_ones_are_none() {
        let base = tree(&["a", "b"]);
        let root = WalkedDir::open(base.path()).expect("there");
        assert_eq!(begins(&root, 4).expect("readable").parts, [vec![CString::default()]]);
        let empty = tempfile::tempdir().expect("temporary directory");
        let root = WalkedDir::open(empty.path()).expect("there");
        assert!(begins(&root, 4).expect("readable").parts.is_empty());
    }
}
