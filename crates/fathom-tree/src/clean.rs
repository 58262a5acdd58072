//! Removes trees: everything in them that is provably fathom's, and nothing else.
//!
//! Directories go from the last to the first, by number and not by what is listed, so that a tree of any size takes no
//! memory. A file goes when its name, size and time are those that it was left with, or every byte of it is fathom's; a
//! directory goes when it is empty. Whatever else is there stays, with the directories above it, and is named.

pub mod find;

use crate::build::crew::{self, Counters};
use crate::build::{Step, known};
use crate::error::TreeError;
use crate::manifest::judge::{self, Found};
use crate::manifest::{Access, CARD, DRAFT, State, Tree, remove_draft};
use crate::spec::layout::{FileNumber, Named};
use fathom_base::order::Order;
use fathom_sys::clock;
use fathom_sys::dirents::{Entry, EntryKind, EntryReader};
use fathom_sys::dirfd::Dir;
use fathom_sys::signals::StopFlag;
use fathom_sys::sysroot::SysRoot;
use find::{FoundBelow, FoundTree};
use serde::Serialize;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Directories of a block.
const BLOCK_DIRS: u64 = 512;
/// Between two tellings of how far a survey is.
const SURVEY_TICK_NS: u64 = 500_000_000;
/// What stays is listed up to here; the rest is counted.
const LISTED_MAX: usize = 100;

/// What a removal needs.
pub struct Cleaner<'a> {
    /// The system.
    pub root: &'a SysRoot,
    /// Where the journal lies.
    pub state_dir: &'a Path,
    /// Threads that remove files.
    pub threads: usize,
    /// Says that somebody wants the end.
    pub stop: &'a StopFlag,
    /// Is told how far the work is.
    pub progress: &'a mut dyn FnMut(Step),
}

/// What a removal came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Cleaned {
    /// The tree.
    pub path: PathBuf,
    /// Files that were removed.
    pub files: u64,
    /// Bytes that were in them.
    pub bytes: u64,
    /// Things that stay because fathom did not make them, or did not leave them so.
    pub foreign: u64,
    /// The first of them, relative to the tree.
    pub listed: Vec<String>,
    /// Directories of the tree that something is mounted on: what they hide stays, and the card with it.
    pub mounts: Vec<String>,
    /// Time, nanoseconds.
    pub took_ns: u64,
}

impl Cleaned {
    fn stays(&mut self, path: String) {
        self.foreign += 1;
        if self.listed.len() < LISTED_MAX {
            self.listed.push(path);
        }
    }
}

impl Cleaner<'_> {
    /// Removes the tree in a directory, and the directory when fathom made it and nothing else is in it.
    ///
    /// # Errors
    /// [`TreeError`]. Doing it again goes on.
    pub fn clean(&mut self, path: &Path) -> Result<Cleaned, TreeError> {
        let tree = Tree::open(path, Access::Alone).inspect_err(|error| {
            if let TreeError::NoTree(path) = error {
                remove_draft(path);
            }
        })?;
        let above = tree.path().parent().map(Dir::open);
        self.remove(tree, above.and_then(Result::ok).as_ref())
    }

    /// The same for a tree that was found: in the directory that was looked at then, wherever its path leads by now.
    ///
    /// # Errors
    /// As [`Cleaner::clean`]; [`TreeError::Replaced`].
    pub fn clean_found(
        &mut self,
        below: &FoundBelow,
        found: &FoundTree,
    ) -> Result<Cleaned, TreeError> {
        let tree = below.open(found, Access::Alone)?;
        self.remove(tree, below.above(found).as_ref())
    }

    /// `above` is the directory that the tree's own lies in, where that can be reached.
    fn remove(&mut self, mut tree: Tree, above: Option<&Dir>) -> Result<Cleaned, TreeError> {
        let started_ns = clock::monotonic_ns();
        if self.stop.is_set() {
            // Nothing was touched: the tree stays whole.
            return Err(TreeError::Interrupted(format!("{} stays", tree.path().display())));
        }
        tree.check_owner()?;
        // A full filesystem may not take the note; what was removed then shows as missing.
        tree.set_state(State::Removing).ok();
        let mut cleaned = Cleaned { path: tree.path().to_owned(), ..Cleaned::default() };
        let extent = tree.layout().extent();
        let total = (extent.files, 0);
        let counters = Counters::default();
        let removed = Counters::default();
        let mut last = extent.dirs;
        while last > 0 {
            last = tree.existing(last);
            let first = last.saturating_sub(BLOCK_DIRS);
            let mut tick = || (self.progress)(Step::of("removing", &counters, total, started_ns));
            let work =
                |(): &mut (), dir| remove_files(&tree, dir, self.stop, (&counters, &removed));
            crew::for_each(first..last, self.threads, self.stop, &mut tick, || (), work)?;
            if self.stop.is_set() {
                let path = fathom_base::shell::path(tree.path());
                return Err(TreeError::Interrupted(format!("fathom clean {path} goes on")));
            }
            remove_dirs(&tree, first.max(1)..last, &mut cleaned)?;
            last = first;
        }
        self.remove_root(&tree, above, &mut cleaned)?;
        (cleaned.files, cleaned.bytes) = removed.now();
        cleaned.listed.order();
        cleaned.took_ns = clock::monotonic_ns() - started_ns;
        Ok(cleaned)
    }

    /// Removes the card, which goes last, and the directory.
    fn remove_root(
        &self,
        tree: &Tree,
        above: Option<&Dir>,
        cleaned: &mut Cleaned,
    ) -> Result<(), TreeError> {
        name_foreign(tree, (0, tree.root()), &mut |_| Ok(false), cleaned)?;
        if !cleaned.mounts.is_empty() {
            // Files may be hidden there that nothing else would prove to be fathom's.
            return Ok(());
        }
        for name in [DRAFT, CARD] {
            match tree.root().unlink(name) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(TreeError::io("remove", tree.path().join(name))(error));
                }
                _ => {}
            }
        }
        if tree.card().made_root {
            remove_if_same(tree, above)?;
        }
        if let Some(record) = known(self.root, self.state_dir, tree.path())? {
            record.remove()?;
        }
        Ok(())
    }
}

/// What a removal of this tree would come to, by the same steps; nothing is touched.
///
/// # Errors
/// [`TreeError::Io`]; [`TreeError::Interrupted`].
pub fn survey(
    tree: &Tree,
    stop: &StopFlag,
    progress: &mut dyn FnMut(Step),
) -> Result<Cleaned, TreeError> {
    let (started_ns, extent) = (clock::monotonic_ns(), tree.layout().extent());
    let (all, goes) = (Counters::default(), Counters::default());
    let mut told_ns = started_ns;
    let mut cleaned = Cleaned { path: tree.path().to_owned(), ..Cleaned::default() };
    let mut last = extent.dirs;
    while last > 0 {
        if stop.is_set() {
            return Err(TreeError::Interrupted("nothing was removed".into()));
        }
        if clock::monotonic_ns() - told_ns > SURVEY_TICK_NS {
            told_ns = clock::monotonic_ns();
            progress(Step::of("looking through", &all, (extent.files, 0), started_ns));
        }
        let Some(dir) = open_ours(tree, last - 1)? else {
            last = tree.existing(last).min(last - 1);
            continue;
        };
        last -= 1;
        let mut judged = |file| {
            all.add(0);
            let found = judge::judge(tree, &dir, file)?;
            if matches!(found, Found::Whole | Found::Unsealed { .. }) {
                goes.add(tree.layout().size(file));
            }
            Ok(!matches!(found, Found::Foreign(_)))
        };
        name_foreign(tree, (last, &dir), &mut judged, &mut cleaned)?;
    }
    (cleaned.files, cleaned.bytes) = goes.now();
    cleaned.listed.order();
    cleaned.took_ns = clock::monotonic_ns() - started_ns;
    Ok(cleaned)
}

/// Removes the tree's own directory if it is empty and still under its name.
fn remove_if_same(tree: &Tree, above: Option<&Dir>) -> Result<(), TreeError> {
    let (Some(above), Some(name)) = (above, tree.path().file_name()) else { return Ok(()) };
    let name = name.as_encoded_bytes();
    let same = above.facts_of_name(name).and_then(|named| {
        let own = tree.root().own_facts()?;
        Ok((named.dev, named.inode) == (own.dev, own.inode))
    });
    match same {
        Ok(true) => match above.remove_dir_name(name) {
            Err(error) if is_taken(&error) => Ok(()),
            other => other.map_err(TreeError::io("remove", tree.path())),
        },
        Ok(false) => Ok(()),
        Err(error) if is_another(&error) => Ok(()),
        Err(error) => Err(TreeError::io("look at", tree.path())(error)),
    }
}

/// Removes the files of a directory that are fathom's.
fn remove_files(
    tree: &Tree,
    number: u64,
    stop: &StopFlag,
    (all, removed): (&Counters, &Counters),
) -> Result<(), TreeError> {
    let layout = tree.layout();
    let Some(dir) = open_ours(tree, number)? else { return Ok(()) };
    for slot in 0..layout.files_in(number) {
        if stop.is_set() {
            return Ok(());
        }
        let file = FileNumber { dir: number, slot };
        let at = || tree.path().join(layout.file_path(file));
        all.add(0);
        match judge::judge(tree, &dir, file) {
            Ok(Found::Whole | Found::Unsealed { .. }) => {}
            Ok(Found::Missing | Found::Foreign(_)) => continue,
            Err(error) => return Err(TreeError::io("look at", at())(error)),
        }
        match dir.unlink_name(layout.file_name(file).bytes()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(TreeError::io("remove", at())(error)),
            Ok(()) => removed.add(layout.size(file)),
        }
    }
    Ok(())
}

/// Opens a directory of the tree; none when it is gone, or something else lies there, or on the way to it.
fn open_ours(tree: &Tree, number: u64) -> Result<Option<Dir>, TreeError> {
    match tree.open_dir(number) {
        Ok(dir) => Ok(Some(dir)),
        Err(error) if is_another(&error) => Ok(None),
        Err(error) => Err(TreeError::io("open", tree.full_path(number))(error)),
    }
}

/// True for the errors of opening what is gone, or is something else by now: a file, a link, a mount.
pub(crate) fn is_another(error: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, NotADirectory, NotFound};
    const ELOOP: i32 = 40;
    matches!(error.kind(), NotFound | NotADirectory | CrossesDevices)
        || error.raw_os_error() == Some(ELOOP)
}

/// True for the errors of removing a directory that has something in it or on it.
fn is_taken(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::ResourceBusy)
}

/// Removes the directories of a range, from the last to the first; names what is in those that are not empty.
fn remove_dirs(tree: &Tree, range: Range<u64>, cleaned: &mut Cleaned) -> Result<(), TreeError> {
    let layout = tree.layout();
    let mut above: Option<(u64, Option<Dir>)> = None;
    for number in range.rev() {
        let Some(parent) = layout.parent(number) else { continue };
        if above.as_ref().is_none_or(|(known, _)| *known != parent) {
            above = Some((parent, open_ours(tree, parent)?));
        }
        let Some((_, Some(inside))) = &above else { continue };
        match inside.remove_dir_name(layout.dir_name(number).bytes()) {
            Ok(()) => {}
            Err(error) if is_taken(&error) => {
                if let Some(dir) = open_ours(tree, number)? {
                    name_foreign(tree, (number, &dir), &mut |_| Ok(false), cleaned)?;
                }
            }
            Err(error) if is_another(&error) => {}
            Err(error) => return Err(TreeError::io("remove", tree.full_path(number))(error)),
        }
    }
    Ok(())
}

/// True when something is mounted on a directory, be it of the same filesystem.
fn is_mount(dir: &Dir, name: &[u8]) -> bool {
    dir.open_beneath(name).is_err_and(|error| error.kind() == io::ErrorKind::CrossesDevices)
}

/// Names everything in a directory but the tree's own directories, which were named by themselves, and those of its files that
/// `goes` says may go.
fn name_foreign(
    tree: &Tree,
    (number, dir): (u64, &Dir),
    goes: &mut dyn FnMut(FileNumber) -> io::Result<bool>,
    cleaned: &mut Cleaned,
) -> Result<(), TreeError> {
    let layout = tree.layout();
    let above = layout.dir_path(number);
    let mut each = |entry: Entry<'_>| {
        if number == 0 && [CARD.as_bytes(), DRAFT.as_bytes()].contains(&entry.name) {
            return Ok(true);
        }
        let is_dir = match entry.kind {
            EntryKind::Unknown => dir.facts_of_name(entry.name).is_ok_and(|facts| facts.is_dir),
            kind => kind == EntryKind::Dir,
        };
        let is_ours = match layout.told_by_name(number, entry.name) {
            Named::Dir(_) => is_dir,
            Named::File(file) => goes(file)?,
            Named::Foreign => false,
        };
        let path = || {
            let name = String::from_utf8_lossy(entry.name);
            if above.is_empty() { name.into_owned() } else { format!("{above}/{name}") }
        };
        if !is_ours {
            cleaned.stays(path());
        } else if is_dir && is_mount(dir, entry.name) {
            cleaned.mounts.push(path());
        }
        Ok(true)
    };
    let listed = EntryReader::default().for_each(dir, &mut each);
    listed.map_err(TreeError::io("list", tree.full_path(number)))
}
