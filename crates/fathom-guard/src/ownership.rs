//! Directories and files that fathom makes, and may therefore write to and remove: noted before they are made, marked
//! when they are, removed when dropped unless kept.

use crate::content;
use crate::journal::{Entry, FORMAT, Kind, Owner, Record};
use crate::mark::{self, FileId, Manifest};
use crate::place::{self, FileRefusal, io_at};
use fathom_sys::blkdev::path_of_open;
use fathom_sys::devno::DevNo;
use fathom_sys::dirfd::{self, Dir};
use fathom_sys::io::{OpenMode, open_existing};
use fathom_sys::loopdev;
use fathom_sys::sysroot::SysRoot;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A directory `.fathom-ID` and the files made in it; removed when dropped, unless kept.
#[derive(Debug)]
pub struct OwnedDir {
    parent: Dir,
    dir: Dir,
    name: String,
    path: PathBuf,
    run_id: String,
    record: Record,
    files: Vec<(String, FileId)>,
    is_done: bool,
}

impl OwnedDir {
    /// Makes `PARENT/.fathom-ID`, after a note of it in the journal.
    ///
    /// # Errors
    /// [`FileRefusal`]; nothing is left behind then.
    pub fn create(
        root: &SysRoot,
        parent_dir: &Path,
        run_id: &str,
        state_dir: &Path,
    ) -> Result<Self, FileRefusal> {
        place::check_run_id(run_id)?;
        let parent_path = place::check_directory(root, parent_dir)?;
        let owner = Owner::current(root)?;
        let name = format!("{}{run_id}", mark::DIR_PREFIX);
        let path = parent_path.join(&name);
        let parent = Dir::open(&parent_path).map_err(io_at("open", &parent_path))?;
        let record =
            Record::write_new(state_dir, entry(root, run_id, Kind::Directory, &path, owner))?;
        let dir = parent.make(&name).map_err(|error| {
            record.remove().ok();
            if error.kind() == io::ErrorKind::AlreadyExists {
                FileRefusal::Exists(path.clone())
            } else {
                io_at("make", &path)(error)
            }
        })?;
        let run_id = run_id.to_owned();
        let files = Vec::new();
        let mut made = Self { parent, dir, name, path, run_id, record, files, is_done: false };
        // From here on a failure drops `made`, which removes what there is.
        made.sign()?;
        Ok(made)
    }

    /// Notes the directory's identity and puts the manifest and the owner's card into it.
    fn sign(&mut self) -> Result<(), FileRefusal> {
        let id = self.dir.own_facts().map_err(io_at("look at", &self.path))?.into();
        self.record.update(|entry| entry.id = Some(id))?;
        self.make_file(mark::MANIFEST)?;
        let mut card = self.make_file(mark::OWNER)?;
        let text = serde_json::to_vec(&self.record.entry).map_err(io::Error::other);
        text.and_then(|text| card.write_all(&text).and_then(|()| card.sync_all()))
            .map_err(io_at("write", self.path.join(mark::OWNER)))
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The run that it belongs to.
    #[must_use]
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// Makes a file that must not exist, for reading and writing, and marks it as ours.
    ///
    /// # Errors
    /// [`FileRefusal::Exists`], [`FileRefusal::Name`], [`FileRefusal::Io`].
    pub fn create_file(&mut self, name: &str) -> Result<File, FileRefusal> {
        place::check_name(name)?;
        Manifest::intend(&self.dir, name)
            .map_err(io_at("note in", self.path.join(mark::MANIFEST)))?;
        self.make_file(name)
    }

    fn make_file(&mut self, name: &str) -> Result<File, FileRefusal> {
        let path = self.path.join(name);
        let file = self.dir.create_file(name).map_err(|error| exists_or_io(error, &path))?;
        let id: FileId = dirfd::facts_of(&file).map_err(io_at("look at", &path))?.into();
        self.files.push((name.to_owned(), id));
        if !mark::set(&file, &self.run_id).map_err(io_at("mark", &path))? {
            Manifest::made(&self.dir, name, id)
                .map_err(io_at("note in", self.path.join(mark::MANIFEST)))?;
        }
        Ok(file)
    }

    /// Removes what was made, and nothing else.
    ///
    /// # Errors
    /// [`FileRefusal::ForeignFiles`] when somebody put files inside: those and the directory stay.
    pub fn remove(mut self) -> Result<(), FileRefusal> {
        self.is_done = true;
        self.take_down()
    }

    /// Leaves everything in place, for later runs, and notes that.
    ///
    /// # Errors
    /// [`FileRefusal::Io`]; everything is removed then.
    pub fn keep(mut self) -> Result<PathBuf, FileRefusal> {
        self.record.update(|entry| entry.kept = true)?;
        self.is_done = true;
        Ok(self.path.clone())
    }

    fn take_down(&self) -> Result<(), FileRefusal> {
        // The manifest was made first and goes last: a kill in between leaves what is needed to go on.
        for (name, id) in self.files.iter().rev() {
            remove_if_same(&self.dir, name, *id).map_err(io_at("remove", self.path.join(name)))?;
        }
        match remove_own_dir(&self.parent, &self.dir, &self.name, &self.path) {
            // Nothing in it is ours any more, so nothing is left to remember.
            Err(foreign @ FileRefusal::ForeignFiles { .. }) => {
                self.record.remove()?;
                Err(foreign)
            }
            Err(error) => Err(error),
            Ok(()) => self.record.remove(),
        }
    }
}

impl Drop for OwnedDir {
    fn drop(&mut self) {
        if !self.is_done {
            // What cannot be removed stays in the journal, and the next start tries again.
            self.take_down().ok();
        }
    }
}

/// A new file at a path of the user's choice; removed when dropped, unless kept.
#[derive(Debug)]
pub struct OwnedFile {
    file: File,
    parent: Dir,
    name: String,
    path: PathBuf,
    record: Record,
    id: FileId,
    is_done: bool,
}

impl OwnedFile {
    /// Makes a file that must not exist, after a note of it in the journal, and marks it as ours where the file system
    /// has attributes.
    ///
    /// # Errors
    /// [`FileRefusal::Exists`] and others; nothing is left behind then.
    pub fn create(
        root: &SysRoot,
        path: &Path,
        run_id: &str,
        state_dir: &Path,
    ) -> Result<Self, FileRefusal> {
        place::check_run_id(run_id)?;
        let parent_dir = match path.parent() {
            Some(dir) if dir.as_os_str().is_empty() => Path::new("."),
            Some(dir) => dir,
            None => return Err(FileRefusal::Exists(path.to_owned())),
        };
        let parent_path = place::check_directory(root, parent_dir)?;
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        place::check_name(&name)?;
        let path = parent_path.join(&name);
        let parent = Dir::open(&parent_path).map_err(io_at("open", &parent_path))?;
        if parent.facts(&name).is_ok() {
            return Err(FileRefusal::Exists(path));
        }
        let owner = Owner::current(root)?;
        let mut record =
            Record::write_new(state_dir, entry(root, run_id, Kind::File, &path, owner))?;
        let made = parent.create_file(&name);
        let file = made.map_err(|error| {
            record.remove().ok();
            exists_or_io(error, &path)
        })?;
        let signed = sign_file(&file, &path, run_id, &mut record);
        let id = signed.inspect_err(|_| {
            // It is empty and was made a moment ago: it goes whatever was noted.
            parent.unlink(&name).ok();
            record.remove().ok();
        })?;
        Ok(Self { file, parent, name, path, record, id, is_done: false })
    }

    /// The file, open for reading and writing.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Another open file of it, for reading and writing; only `direct`, `dsync` and `sync` of the mode count.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn reopen(&self, mode: OpenMode) -> io::Result<File> {
        open_existing(&path_of_open(&self.file), OpenMode { write: true, ..mode })
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it, if it is still the file that was made and holds nothing but what fathom wrote.
    ///
    /// # Errors
    /// [`FileRefusal::ForeignData`] when somebody put data into it: it stays, without its mark; [`FileRefusal::Io`].
    pub fn remove(mut self) -> Result<(), FileRefusal> {
        self.is_done = true;
        self.take_down()
    }

    /// Leaves it in place and notes that.
    ///
    /// # Errors
    /// [`FileRefusal::Io`]; it is removed then.
    pub fn keep(mut self) -> Result<PathBuf, FileRefusal> {
        self.record.update(|entry| entry.kept = true)?;
        self.is_done = true;
        Ok(self.path.clone())
    }

    fn take_down(&self) -> Result<(), FileRefusal> {
        let (file, path) = (&self.file, &self.path);
        let removed = remove_if_only_ours(&self.parent, &self.name, file, self.id);
        let removed = removed.map_err(io_at("remove", path))?;
        self.record.remove()?;
        match removed {
            Removal::ForeignData => Err(FileRefusal::ForeignData(path.clone())),
            Removal::Done | Removal::NotThere => Ok(()),
        }
    }
}

impl Drop for OwnedFile {
    fn drop(&mut self) {
        if !self.is_done {
            // What cannot be removed stays in the journal, and the next start tries again.
            self.take_down().ok();
        }
    }
}

fn entry(root: &SysRoot, run_id: &str, kind: Kind, path: &Path, owner: Owner) -> Entry {
    let (run_id, path) = (run_id.to_owned(), path.to_owned());
    let mount_point = place::mount_point(root, &path);
    Entry { format: FORMAT, run_id, kind, path, mount_point, id: None, owner, kept: false }
}

fn exists_or_io(error: io::Error, path: &Path) -> FileRefusal {
    if error.kind() == io::ErrorKind::AlreadyExists {
        FileRefusal::Exists(path.to_owned())
    } else {
        io_at("make", path)(error)
    }
}

fn sign_file(
    file: &File,
    path: &Path,
    run_id: &str,
    record: &mut Record,
) -> Result<FileId, FileRefusal> {
    mark::set(file, run_id).map_err(io_at("mark", path))?;
    let id: FileId = dirfd::facts_of(file).map_err(io_at("look at", path))?.into();
    record.update(|entry| entry.id = Some(id))?;
    Ok(id)
}

/// What became of a file that was to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    /// It is gone.
    Done,
    /// The name is free or another file's by now.
    NotThere,
    /// Somebody's data is in it: it stays, and its mark is gone.
    ForeignData,
}

/// Removes a name if it is the open file, which was made under it, and nobody put data into that.
pub(crate) fn remove_if_only_ours(
    dir: &Dir,
    name: &str,
    file: &File,
    id: FileId,
) -> io::Result<Removal> {
    if FileId::from(dirfd::facts_of(file)?) != id {
        return Ok(Removal::NotThere);
    }
    if !content::holds_only_ours(file)? {
        mark::take_off(file)?;
        return Ok(Removal::ForeignData);
    }
    Ok(if remove_if_same(dir, name, id)? { Removal::Done } else { Removal::NotThere })
}

/// Removes a name if it is the file that was made under it; one that is gone is fine, another file stays.
pub(crate) fn remove_if_same(dir: &Dir, name: &str, id: FileId) -> io::Result<bool> {
    match dir.facts(name) {
        Ok(facts) if facts.is_file && FileId::from(facts) == id => dir.unlink(name).map(|()| true),
        Ok(_) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes a directory of ours, which must be empty by now and still under its name.
pub(crate) fn remove_own_dir(
    parent: &Dir,
    dir: &Dir,
    name: &str,
    path: &Path,
) -> Result<(), FileRefusal> {
    let foreign = dir.names().map_err(io_at("list", path))?;
    if !foreign.is_empty() {
        let names = foreign.join(", ");
        return Err(FileRefusal::ForeignFiles { path: path.to_owned(), names });
    }
    let is_same = || -> io::Result<bool> {
        let (named, own) = (parent.facts(name)?, dir.own_facts()?);
        Ok((named.dev, named.inode) == (own.dev, own.inode))
    };
    match is_same() {
        Ok(true) => parent.remove_dir(name).map_err(io_at("remove", path)),
        Ok(false) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(io_at("look at", path)(error)),
    }
}

/// Opens an existing file for writing if fathom made it: marked by attribute or, in a `.fathom-ID` directory on a file
/// system without attributes, listed in the manifest. Never creates, never truncates.
///
/// # Errors
/// [`FileRefusal::NotOurs`], [`FileRefusal::HoldsForeignData`] and the other reasons; [`FileRefusal::Io`] when opening fails, for example with O_DIRECT
/// where there is none.
pub fn open_owned_for_write(
    root: &SysRoot,
    path: &Path,
    mode: OpenMode,
) -> Result<File, FileRefusal> {
    let parent_dir =
        path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    place::check_name(name)?;
    let parent_path = place::check_directory(root, parent_dir)?;
    let path = parent_path.join(name);
    let parent = Dir::open(&parent_path).map_err(io_at("open", &parent_path))?;
    let facts = parent.facts(name).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => FileRefusal::Missing(path.clone()),
        _ => io_at("look at", &path)(error),
    })?;
    if facts.is_symlink {
        return Err(FileRefusal::Symlink(path));
    }
    if !facts.is_file {
        return Err(FileRefusal::NotRegular(path));
    }
    let file = parent.open_file(name, false).map_err(io_at("open", &path))?;
    // From here on only the open file counts, whatever its name may come to mean.
    let facts = dirfd::facts_of(&file).map_err(io_at("look at", &path))?;
    if !facts.is_file {
        return Err(FileRefusal::NotRegular(path));
    }
    if !is_marked(&file, &parent, &parent_path, name, facts.into())
        .map_err(io_at("look at", &path))?
    {
        return Err(FileRefusal::NotOurs(path));
    }
    // What this process has just made is not read through again at every opening.
    let is_fresh = is_own_dir(&parent_path) && is_made_by_this_process(root, &parent);
    if !is_fresh && !content::holds_only_ours(&file).map_err(io_at("read", &path))? {
        return Err(FileRefusal::HoldsForeignData(path));
    }
    if facts.links != 1 {
        return Err(FileRefusal::HardLinked(path));
    }
    let inode = Some((DevNo::from_raw(facts.dev), facts.inode));
    if let Some(other) = loopdev::attached(root).iter().find(|l| l.backing_inode == inode) {
        return Err(FileRefusal::InUseByLoop { path, device: format!("/dev/{}", other.name) });
    }
    open_existing(&path_of_open(&file), OpenMode { write: true, ..mode })
        .map_err(io_at("open", path))
}

fn is_marked(
    file: &File,
    parent: &Dir,
    parent_path: &Path,
    name: &str,
    id: FileId,
) -> io::Result<bool> {
    if matches!(name, mark::MANIFEST | mark::OWNER) {
        return Ok(false);
    }
    if mark::get(file)?.is_some() {
        return Ok(true);
    }
    Ok(is_own_dir(parent_path)
        && !dirfd::supports_xattr(file)?
        && Manifest::read(parent)?.lists(name, id))
}

fn is_own_dir(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with(mark::DIR_PREFIX)
}

/// What the owner's card in a directory of ours says; false when in doubt.
fn is_made_by_this_process(root: &SysRoot, dir: &Dir) -> bool {
    let Ok(card) = dir.open_file(mark::OWNER, false) else { return false };
    let card: Option<Entry> = serde_json::from_reader(card).ok();
    card.zip(Owner::current(root).ok()).is_some_and(|(card, me)| card.owner == me)
}
