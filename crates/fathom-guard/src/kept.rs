//! Files of fathom's that exist already: opened for writing only while nothing but fathom has touched them.

use crate::journal::{Entry, Owner};
use crate::mark::{self, FileId, Manifest, Mark, Seal};
use crate::place::{self, FileRefusal, io_at};
use fathom_sys::blkdev::path_of_open;
use fathom_sys::devno::DevNo;
use fathom_sys::dirfd::{self, Dir, FileFacts};
use fathom_sys::io::{OpenMode, open_existing};
use fathom_sys::loopdev;
use fathom_sys::sysroot::SysRoot;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// A file that an earlier run made and kept. While it is held here its mark says that fathom may be writing; when
/// dropped, how it was left.
#[derive(Debug)]
pub struct KeptFile {
    file: File,
    parent: Dir,
    name: String,
}

impl KeptFile {
    /// Takes a file that is as fathom left it. Never creates, never truncates.
    ///
    /// # Errors
    /// [`FileRefusal::NotOurs`], [`FileRefusal::Changed`], [`FileRefusal::NotClosed`] and the other reasons;
    /// [`FileRefusal::Io`] when it cannot be opened or marked.
    pub fn open(root: &SysRoot, path: &Path) -> Result<Self, FileRefusal> {
        let Found { file, parent, name, path, facts, mark } = find(root, path)?;
        check_seal(&path, facts, &mark)?;
        // From here on a kill leaves a file of which nobody knows who wrote last.
        let id = FileId::from(facts);
        let noted = if mark::get(&file).map_err(io_at("look at", &path))?.is_some() {
            mark::replace(&file, &Mark { seal: None, ..mark })
        } else {
            Manifest::reopened(&parent, &name, id)
        };
        let held = Self { file, parent, name };
        noted.and_then(|()| held.file.sync_all()).map_err(io_at("mark", &path))?;
        Ok(held)
    }

    /// Whether [`KeptFile::open`] would take it, as it is now. Nothing is marked or changed by the question.
    ///
    /// # Errors
    /// As [`KeptFile::open`].
    pub fn check(root: &SysRoot, path: &Path) -> Result<(), FileRefusal> {
        let Found { path, facts, mark, .. } = find(root, path)?;
        check_seal(&path, facts, &mark)
    }

    /// Another open file of it, for reading and writing; only `direct`, `dsync` and `sync` of the mode count.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn reopen(&self, mode: OpenMode) -> io::Result<File> {
        open_existing(&path_of_open(&self.file), OpenMode { write: true, ..mode })
    }
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        // Where that fails the file is not written to again: the safe side.
        mark::seal(&self.parent, &self.name, &self.file).ok();
    }
}

/// Opens an existing file for writing if fathom made it, marked by attribute or, in a `.fathom-ID` directory on a file
/// system without attributes, listed in the manifest, and if it lies in a directory that this process made or is as
/// fathom left it. Never creates, never truncates.
///
/// # Errors
/// [`FileRefusal::NotOurs`], [`FileRefusal::Changed`], [`FileRefusal::NotClosed`] and the other reasons;
/// [`FileRefusal::Io`] when opening fails, for example with O_DIRECT where there is none.
pub fn open_owned_for_write(
    root: &SysRoot,
    path: &Path,
    mode: OpenMode,
) -> Result<File, FileRefusal> {
    let Found { file, parent, path, facts, mark, .. } = find(root, path)?;
    let is_own = match path.parent().filter(|dir| is_own_dir(dir)) {
        Some(dir_path) => is_made_by_this_process(root, &parent, dir_path)?,
        None => false,
    };
    if !is_own {
        check_seal(&path, facts, &mark)?;
    }
    open_existing(&path_of_open(&file), OpenMode { write: true, ..mode })
        .map_err(io_at("open", path))
}

/// A regular file that fathom made, with one name and shown by no loop device.
struct Found {
    file: File,
    parent: Dir,
    name: String,
    path: PathBuf,
    facts: FileFacts,
    mark: Mark,
}

fn find(root: &SysRoot, path: &Path) -> Result<Found, FileRefusal> {
    let parent_dir =
        path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = place::name_of(path)?;
    let parent_path = place::check_directory(root, parent_dir)?;
    let path = parent_path.join(&name);
    let parent = Dir::open(&parent_path).map_err(io_at("open", &parent_path))?;
    let facts = parent.facts(&name).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => FileRefusal::Missing(path.clone()),
        _ => io_at("look at", &path)(error),
    })?;
    if facts.is_symlink {
        return Err(FileRefusal::Symlink(path));
    }
    if !facts.is_file {
        return Err(FileRefusal::NotRegular(path));
    }
    let file = parent.open_file(&name, false).map_err(io_at("open", &path))?;
    // From here on only the open file counts, whatever its name may come to mean.
    let facts = dirfd::facts_of(&file).map_err(io_at("look at", &path))?;
    if !facts.is_file {
        return Err(FileRefusal::NotRegular(path));
    }
    let mark = mark_of(&file, &parent, &parent_path, &name, facts.into());
    let Some(mark) = mark.map_err(io_at("look at", &path))? else {
        return Err(FileRefusal::NotOurs(path));
    };
    if facts.links != 1 {
        return Err(FileRefusal::HardLinked(path));
    }
    let inode = Some((DevNo::from_raw(facts.dev), facts.inode));
    if let Some(other) = loopdev::attached(root).iter().find(|l| l.backing_inode == inode) {
        return Err(FileRefusal::InUseByLoop { path, device: format!("/dev/{}", other.name) });
    }
    Ok(Found { file, parent, name, path, facts, mark })
}

/// What the file's own mark says or, in a directory of ours on a file system without attributes, the manifest.
fn mark_of(
    file: &File,
    parent: &Dir,
    parent_path: &Path,
    name: &str,
    id: FileId,
) -> io::Result<Option<Mark>> {
    if mark::is_reserved(name) {
        return Ok(None);
    }
    if let Some(mark) = mark::get(file)? {
        return Ok(Some(mark));
    }
    if !is_own_dir(parent_path) || dirfd::supports_xattr(file)? {
        return Ok(None);
    }
    let manifest = Manifest::read(parent)?;
    let run_id = dir_name(parent_path).trim_start_matches(mark::DIR_PREFIX).to_owned();
    let seal = manifest.seal_of(name, id);
    Ok(manifest.lists(name, id).then_some(Mark { run_id, seal }))
}

fn check_seal(path: &Path, facts: FileFacts, mark: &Mark) -> Result<(), FileRefusal> {
    match mark.seal {
        None => Err(FileRefusal::NotClosed(path.to_owned())),
        Some(seal) if seal != Seal::from(facts) => Err(FileRefusal::Changed(path.to_owned())),
        Some(_) => Ok(()),
    }
}

fn dir_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

fn is_own_dir(path: &Path) -> bool {
    dir_name(path).starts_with(mark::DIR_PREFIX)
}

/// What the owner's card in a directory of ours says; false when there is none or it cannot be made out. A system that
/// is out of descriptors is no answer.
fn is_made_by_this_process(
    root: &SysRoot,
    dir: &Dir,
    dir_path: &Path,
) -> Result<bool, FileRefusal> {
    let card = match dir.open_file(mark::OWNER, false) {
        Ok(card) => card,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
            ) =>
        {
            return Ok(false);
        }
        Err(error) => return Err(io_at("open", dir_path.join(mark::OWNER))(error)),
    };
    let mut text = Vec::new();
    let card = card.take(mark::NOTE_BYTES_MAX).read_to_end(&mut text).ok();
    let card: Option<Entry> = card.and_then(|_| mark::parse(&text).ok());
    let me = Owner::current(root)?;
    Ok(card.is_some_and(|card| card.owner == me))
}
