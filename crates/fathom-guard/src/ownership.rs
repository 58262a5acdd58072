//! Directories and files that fathom makes, and may therefore write to and remove: noted before they are made, marked
//! when they are, removed when dropped unless kept.

use crate::content;
use crate::grove::OwnedGrove;
use crate::journal::{Entry, Kind, Owner, Record};
use crate::mark::{self, FileId, Manifest, Seal};
use crate::names::OwnedNames;
use crate::place::{self, FileRefusal, io_at};
use crate::tree::OwnedTree;
use fathom_base::shell;
use fathom_sys::blkdev::path_of_open;
use fathom_sys::dirfd::{self, Dir};
use fathom_sys::io::{OpenMode, open_existing};
use fathom_sys::sysroot::SysRoot;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    tree: Option<Arc<OwnedTree>>,
    names: Option<Arc<OwnedNames>>,
    groves: Vec<Arc<OwnedGrove>>,
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
        let path = place::check_text(parent_path.join(&name))?;
        let parent = Dir::open(&parent_path).map_err(io_at("open", &parent_path))?;
        let record =
            Record::write_new(state_dir, Entry::new(root, run_id, Kind::Directory, &path, owner))?;
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
        let (tree, names, groves, is_done) = (None, None, Vec::new(), false);
        let mut made =
            Self { parent, dir, name, path, run_id, record, files, tree, names, groves, is_done };
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

    /// Makes many empty files in numbered directories inside. `goes_on` is asked before each directory of them.
    ///
    /// # Errors
    /// [`FileRefusal::Exists`] when this was done before, [`FileRefusal::Io`].
    pub fn create_tree(
        &mut self,
        count: u32,
        goes_on: &mut dyn FnMut(u32) -> bool,
    ) -> Result<Arc<OwnedTree>, FileRefusal> {
        if self.tree.is_some() {
            return Err(FileRefusal::Exists(self.path.clone()));
        }
        let base = Dir::open(&self.path).map_err(io_at("open", &self.path))?;
        let mut tree = OwnedTree::over(base, count).map_err(io_at("look at", &self.path))?;
        let grown = tree.grow(&self.dir, count, goes_on);
        // What was made until a failure is removed with the rest.
        let tree = Arc::new(tree);
        self.tree = Some(Arc::clone(&tree));
        grown.map_err(io_at("make test files in", &self.path))?;
        Ok(tree)
    }

    /// Makes a directory inside for files whose names are what is tested.
    ///
    /// # Errors
    /// [`FileRefusal::Exists`] when this was done before, [`FileRefusal::Io`].
    pub fn create_names(&mut self) -> Result<Arc<OwnedNames>, FileRefusal> {
        if self.names.is_some() {
            return Err(FileRefusal::Exists(self.path.clone()));
        }
        let made = Dir::open(&self.path).and_then(OwnedNames::over);
        let names = Arc::new(made.map_err(io_at("make test files in", &self.path))?);
        self.names = Some(Arc::clone(&names));
        Ok(names)
    }

    /// Makes directories for writers that grow trees, one for each.
    ///
    /// # Errors
    /// [`FileRefusal::Exists`] when those of an earlier call are still there, [`FileRefusal::Io`].
    pub fn create_grove(&mut self, count: u32) -> Result<Arc<OwnedGrove>, FileRefusal> {
        let (grove, made) = OwnedGrove::over(&self.dir, count);
        // What was made until a failure is removed with the rest.
        let grove = Arc::new(grove);
        self.groves.push(Arc::clone(&grove));
        made.map_err(|error| exists_or_io(error, &self.path))?;
        Ok(grove)
    }

    /// Removes what writers have grown, so that there is room for the next ones. That may be millions of files: `removed` hears
    /// of each.
    ///
    /// # Errors
    /// [`FileRefusal::Io`].
    pub fn clear_groves(&mut self, removed: &mut dyn FnMut()) -> Result<(), FileRefusal> {
        for grove in &self.groves {
            grove
                .take_down(&self.dir, removed)
                .map_err(io_at("remove test files in", &self.path))?;
        }
        self.groves.clear();
        Ok(())
    }

    /// Notes, on stable storage, how a file is left that is only read from here on: whatever changes it then was not
    /// fathom. Of test files in numbered directories, made with [`OwnedDir::create_tree`], all are noted, in memory.
    ///
    /// # Errors
    /// [`FileRefusal::Io`].
    pub fn seal_file(&mut self, name: &str) -> Result<(), FileRefusal> {
        if let Some(tree) = &self.tree {
            return tree.seal().map_err(io_at("look at test files in", &self.path));
        }
        let failed = || io_at("look at", self.path.join(name));
        let file = self.dir.open_file(name, false).map_err(failed())?;
        let seal = mark::settled(&file).map_err(failed())?.into();
        self.record.update(|entry| _ = entry.seals.insert(name.to_owned(), seal))
    }

    /// Notes that a file is about to be written to.
    ///
    /// # Errors
    /// [`FileRefusal::Io`].
    pub fn unseal_file(&mut self, name: &str) -> Result<(), FileRefusal> {
        if let Some(tree) = &self.tree {
            tree.unseal();
        }
        unseal(&mut self.record, name)
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

    /// Leaves everything in place, for later runs, and notes that, and how it is left.
    ///
    /// # Errors
    /// [`FileRefusal::Io`]; everything is removed then.
    pub fn keep(mut self) -> Result<PathBuf, FileRefusal> {
        for (name, id) in self.files.iter().filter(|(name, _)| !mark::is_reserved(name)) {
            self.seal(name, *id).map_err(io_at("mark", self.path.join(name)))?;
        }
        if let Some(tree) = &self.tree {
            tree.keep(&self.dir).map_err(io_at("look at test files in", &self.path))?;
        }
        self.record.update(|entry| entry.kept = true)?;
        self.is_done = true;
        Ok(self.path.clone())
    }

    /// Notes how a file is left, if it is still there and still the one that was made.
    fn seal(&self, name: &str, id: FileId) -> io::Result<()> {
        match self.dir.open_file(name, false) {
            Ok(file) if FileId::from(dirfd::facts_of(&file)?) == id => {
                mark::seal(&self.dir, name, &file)
            }
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn take_down(&self) -> Result<(), FileRefusal> {
        if let Some(tree) = &self.tree {
            tree.take_down(&self.dir).map_err(io_at("remove test files in", &self.path))?;
        }
        for grove in &self.groves {
            grove
                .take_down(&self.dir, &mut || {})
                .map_err(io_at("remove test files in", &self.path))?;
        }
        if let Some(names) = &self.names {
            names.take_down().map_err(io_at("remove test files in", &self.path))?;
        }
        // The manifest was made first and goes last: a kill in between leaves what is needed to go on.
        for (name, id) in self.files.iter().rev() {
            let evidence = match self.record.entry.seals.get(name) {
                Some(seal) => Evidence::Sealed(*seal),
                None => Evidence::Identity,
            };
            // What somebody changed stays; the directory is then not empty, and the error names it.
            remove_inside(&self.dir, name, *id, evidence)
                .map_err(io_at("remove", self.path.join(name)))?;
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
    has_odd_writes: bool,
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
        let name = place::name_of(path)?;
        let path = place::check_text(parent_path.join(&name))?;
        let parent = Dir::open(&parent_path).map_err(io_at("open", &parent_path))?;
        if parent.facts(&name).is_ok() {
            return Err(FileRefusal::Exists(path));
        }
        let owner = Owner::current(root)?;
        let mut record =
            Record::write_new(state_dir, Entry::new(root, run_id, Kind::File, &path, owner))?;
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
        let has_odd_writes = false;
        Ok(Self { file, parent, name, path, record, id, has_odd_writes, is_done: false })
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

    /// Notes, on stable storage, how it is left when it is only read from here on: whatever changes it then was not
    /// fathom.
    ///
    /// # Errors
    /// [`FileRefusal::Io`].
    pub fn seal(&mut self) -> Result<(), FileRefusal> {
        let facts = mark::settled(&self.file).map_err(io_at("look at", &self.path))?;
        let name = self.name.clone();
        self.record.update(|entry| _ = entry.seals.insert(name, facts.into()))
    }

    /// Notes that it is about to be written to; `odd_writes` by requests whose offset or size is no multiple of a
    /// sector, or whose content has no stamps of its own, after which stamps say nothing.
    ///
    /// # Errors
    /// [`FileRefusal::Io`].
    pub fn unseal(&mut self, odd_writes: bool) -> Result<(), FileRefusal> {
        self.has_odd_writes |= odd_writes;
        unseal(&mut self.record, &self.name)
    }

    /// Removes it, if it is still the file that was made and nobody else wrote to it, as far as that can be told while
    /// fathom itself does: see [`OwnedFile::seal`].
    ///
    /// # Errors
    /// [`FileRefusal::ForeignData`] when somebody put data into it: it stays, without its mark; [`FileRefusal::Io`].
    pub fn remove(mut self) -> Result<(), FileRefusal> {
        self.is_done = true;
        self.take_down()
    }

    /// Leaves it in place, and notes that and how it is left.
    ///
    /// # Errors
    /// [`FileRefusal::Io`]; it is removed then.
    pub fn keep(mut self) -> Result<PathBuf, FileRefusal> {
        mark::seal(&self.parent, &self.name, &self.file).map_err(io_at("mark", &self.path))?;
        self.record.update(|entry| entry.kept = true)?;
        self.is_done = true;
        Ok(self.path.clone())
    }

    fn take_down(&self) -> Result<(), FileRefusal> {
        let (file, path) = (&self.file, &self.path);
        let evidence = match self.record.entry.seals.get(&self.name) {
            Some(seal) => Evidence::Sealed(*seal),
            None if self.has_odd_writes => Evidence::Identity,
            None => Evidence::Stamps,
        };
        let removed = remove_if_only_ours(&self.parent, &self.name, file, self.id, evidence);
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

fn unseal(record: &mut Record, name: &str) -> Result<(), FileRefusal> {
    if record.entry.seals.contains_key(name) {
        record.update(|entry| _ = entry.seals.remove(name))?;
    }
    Ok(())
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

/// What tells whether anybody else wrote to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// It was only read since, and is as it was left then.
    Sealed(Seal),
    /// This process wrote it, last or at any rate all over it: a file that was replaced has no stamps.
    Stamps,
    /// This process wrote it, and stamps would say nothing: nobody else's bytes could have lasted.
    Identity,
    /// Who wrote it last died: every byte must be explained.
    Content,
}

/// Removes a name if it is the open file, which was made under it, and nobody put data into that.
pub(crate) fn remove_if_only_ours(
    dir: &Dir,
    name: &str,
    file: &File,
    id: FileId,
    evidence: Evidence,
) -> io::Result<Removal> {
    let facts = dirfd::facts_of(file)?;
    if FileId::from(facts) != id {
        return Ok(Removal::NotThere);
    }
    let kept = mark::get(file)?.and_then(|mark| mark.seal);
    let is_as_left = kept.map(|seal| seal == facts.into());
    let is_ours = is_as_left != Some(false)
        && match evidence {
            Evidence::Sealed(seal) => seal == facts.into(),
            Evidence::Stamps => content::is_stamped(file)?,
            Evidence::Identity => true,
            // What was kept is ours as it was left, whatever is in it.
            Evidence::Content => is_as_left == Some(true) || content::holds_only_ours(file)?,
        };
    if !is_ours {
        if !dir.is_looking() {
            mark::take_off(file)?;
        }
        return Ok(Removal::ForeignData);
    }
    Ok(if remove_if_same(dir, name, id)? { Removal::Done } else { Removal::NotThere })
}

/// The same for a file that may be gone, or another by now.
fn remove_inside(dir: &Dir, name: &str, id: FileId, evidence: Evidence) -> io::Result<()> {
    if evidence == Evidence::Identity {
        return remove_if_same(dir, name, id).map(|_| ());
    }
    match dir.open_file(name, false) {
        Ok(file) => remove_if_only_ours(dir, name, &file, id, evidence).map(|_| ()),
        Err(error) if is_another(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

/// True for the errors of opening what is gone, or something of another kind by now.
pub(crate) fn is_another(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    // ELOOP of a symbolic link, ENXIO of a socket.
    matches!(error.kind(), NotFound | NotADirectory) || matches!(error.raw_os_error(), Some(40 | 6))
}

/// Removes a name if it is the file that was made under it, on the directory's own file system; one that is gone is
/// fine, another file stays.
pub(crate) fn remove_if_same(dir: &Dir, name: &str, id: FileId) -> io::Result<bool> {
    match dir.facts(name) {
        Ok(facts) if !facts.is_file || FileId::from(facts) != id => Ok(false),
        // A file of another file system may have been mounted over it.
        Ok(facts) if facts.dev != dir.own_facts()?.dev => Ok(false),
        Ok(_) => dir.unlink(name).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes a directory of ours, which must be empty by now (where anything is removed) and still under its name.
pub(crate) fn remove_own_dir(
    parent: &Dir,
    dir: &Dir,
    name: &str,
    path: &Path,
) -> Result<(), FileRefusal> {
    let foreign = if dir.is_looking() { Ok(Vec::new()) } else { dir.names() };
    let foreign = foreign.map_err(io_at("list", path))?;
    if !foreign.is_empty() {
        let names = shell::list(&foreign);
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
