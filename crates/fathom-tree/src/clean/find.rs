//! What fathom has made below a directory: trees by their cards, directories of test files by their names.

use crate::error::TreeError;
use crate::manifest::{self, Access, CARD, Tree};
use fathom_base::order::Order;
use fathom_guard::mark::{self, FileId};
use fathom_sys::dirents::{Entry, EntryKind, EntryReader};
use fathom_sys::dirfd::Dir;
use fathom_sys::signals::StopFlag;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A tree that was found.
#[derive(Debug, PartialEq, Eq)]
pub struct FoundTree {
    /// Where, for people.
    pub path: PathBuf,
    /// Its directory.
    id: FileId,
    /// Where, from the directory that was looked through.
    inner: Vec<u8>,
}

/// What was found.
#[derive(Debug, Default)]
pub struct FoundBelow {
    /// The directory that was looked through: what was found is opened from here, not by its path.
    root: Option<Dir>,
    /// Trees.
    pub trees: Vec<FoundTree>,
    /// Directories that are called as those of test files are.
    pub test_dirs: Vec<PathBuf>,
    /// Directories that could not be read, with the reason.
    pub unread: Vec<(PathBuf, String)>,
}

impl FoundBelow {
    /// Opens a tree in the directory in which it was found: on the way no link is followed and no mount crossed, and what lies
    /// there by now must be the same.
    ///
    /// # Errors
    /// [`TreeError::Replaced`]; those of [`Tree::open`].
    pub fn open(&self, found: &FoundTree, access: Access) -> Result<Tree, TreeError> {
        let path = || found.path.clone();
        let Some(root) = &self.root else { return Err(TreeError::Replaced(path())) };
        let dir = match manifest::open_deep(root, &found.inner) {
            Ok(dir) => dir,
            Err(error) if super::is_another(&error) => return Err(TreeError::Replaced(path())),
            Err(error) => return Err(TreeError::io("open", path())(error)),
        };
        let facts = dir.own_facts().map_err(TreeError::io("look at", path()))?;
        if FileId::from(facts) != found.id {
            return Err(TreeError::Replaced(path()));
        }
        Tree::in_dir(dir, path(), access)
    }

    /// The directory that a tree's own lies in; none when it cannot be opened.
    pub(super) fn above(&self, found: &FoundTree) -> Option<Dir> {
        if found.inner.is_empty() {
            return Dir::open(found.path.parent()?).ok();
        }
        let end = found.inner.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        manifest::open_deep(self.root.as_ref()?, &found.inner[..end]).ok()
    }
}

/// Looks through everything below a directory, without following links or leaving its filesystem. `tick` is told how many
/// directories there were, now and then.
///
/// # Errors
/// [`TreeError::Io`] when the directory itself cannot be read; [`TreeError::Interrupted`].
pub fn below(
    dir: &Path,
    stop: &StopFlag,
    tick: &mut dyn FnMut(u64),
) -> Result<FoundBelow, TreeError> {
    let root = manifest::open_root(dir)?;
    let dev = root.own_facts().map_err(TreeError::io("look at", dir))?.dev;
    let mut found = FoundBelow::default();
    let mut reader = EntryReader::default();
    let mut pending: Vec<Vec<u8>> = vec![Vec::new()];
    let mut count = 0;
    while let Some(path) = pending.pop() {
        if stop.is_set() {
            return Err(TreeError::Interrupted("nothing was removed".into()));
        }
        count += 1;
        if count % 10_000 == 0 {
            tick(count);
        }
        let full =
            || if path.is_empty() { dir.to_owned() } else { dir.join(OsStr::from_bytes(&path)) };
        match look(&root, &path, dev, &mut reader) {
            Ok(Looked::Tree(id)) => found.trees.push(FoundTree { path: full(), id, inner: path }),
            Ok(Looked::Dirs(names)) => {
                for name in names {
                    let inner = join(&path, &name);
                    if name.starts_with(mark::DIR_PREFIX.as_bytes()) {
                        found.test_dirs.push(dir.join(OsStr::from_bytes(&inner)));
                    } else {
                        pending.push(inner);
                    }
                }
            }
            Ok(Looked::Elsewhere) => {}
            Err(error) if path.is_empty() => return Err(TreeError::io("read", dir)(error)),
            Err(error) if super::is_another(&error) => {}
            Err(error) => found.unread.push((full(), error.to_string())),
        }
    }
    found.trees.order_by(|a, b| a.path.cmp(&b.path));
    found.test_dirs.order();
    found.root = Some(root);
    Ok(found)
}

pub(crate) fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    let mut joined = path.to_vec();
    if !joined.is_empty() {
        joined.push(b'/');
    }
    joined.extend_from_slice(name);
    joined
}

/// What a directory is.
enum Looked {
    Tree(FileId),
    /// The directories in it.
    Dirs(Vec<Vec<u8>>),
    /// It lies on another filesystem.
    Elsewhere,
}

fn look(root: &Dir, path: &[u8], dev: u64, reader: &mut EntryReader) -> io::Result<Looked> {
    let dir = manifest::open_deep(root, path)?;
    let facts = dir.own_facts()?;
    if facts.dev != dev {
        return Ok(Looked::Elsewhere);
    }
    let (mut names, mut is_tree) = (Vec::new(), false);
    let mut each = |entry: Entry<'_>| {
        is_tree |= entry.name == CARD.as_bytes();
        let is_dir = match entry.kind {
            EntryKind::Unknown => dir.facts_of_name(entry.name).is_ok_and(|facts| facts.is_dir),
            kind => kind == EntryKind::Dir,
        };
        if is_dir {
            names.push(entry.name.to_vec());
        }
        Ok(!is_tree)
    };
    reader.for_each(&dir, &mut each)?;
    Ok(if is_tree { Looked::Tree(facts.into()) } else { Looked::Dirs(names) })
}
