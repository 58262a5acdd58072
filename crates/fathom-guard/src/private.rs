//! Private directories of applications that fathom starts. What is in them cannot be told by its content, so all of it goes: nobody
//! but the application can have made it, for the directory is closed to others. It is held and emptied by its descriptor: no
//! link is followed and no mount crossed, whatever was put in its place meanwhile.

use crate::journal::{Entry, Kind, Owner, Record};
use crate::leftovers::Outcome;
use crate::mark::{self, FileId};
use crate::place::{self, FileRefusal, io_at};
use fathom_base::shell;
use fathom_sys::child;
use fathom_sys::dirents::{Entry as Found, EntryReader};
use fathom_sys::dirfd::{Dir, FileFacts};
use fathom_sys::process;
use fathom_sys::sysroot::SysRoot;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// Levels of directories that are gone down, each of which is an open file meanwhile.
const LEVELS_MAX: usize = 200;

/// A private directory; removed when dropped.
#[derive(Debug)]
pub struct PrivateDir {
    parent: Dir,
    dir: Dir,
    name: String,
    path: PathBuf,
    id: FileId,
    record: Record,
    is_done: bool,
}

impl PrivateDir {
    /// Makes `PARENT/.fathom-ID`, after a note of it in the journal, and gives it to a user.
    ///
    /// # Errors
    /// [`FileRefusal`]; for root also where somebody else could put another directory in its place. Nothing is left then.
    pub fn create(
        root: &SysRoot,
        parent_dir: &Path,
        id: &str,
        user: Option<(u32, u32)>,
        state_dir: &Path,
    ) -> Result<Self, FileRefusal> {
        place::check_run_id(id)?;
        let parent_path = place::check_directory(root, parent_dir)?;
        if process::is_root() {
            place::check_only_roots(&parent_path)?;
        }
        let owner = Owner::current(root)?;
        let name = format!("{}{id}", mark::DIR_PREFIX);
        let path = place::check_text(parent_path.join(&name))?;
        let parent = Dir::open(&parent_path).map_err(io_at("open", &parent_path))?;
        let record =
            Record::write_new(state_dir, Entry::new(root, id, Kind::Private, &path, owner))?;
        let made = parent.make(&name).and_then(|dir| Ok((dir.own_facts()?, dir)));
        let (facts, dir) = made.map_err(|error| {
            record.remove().ok();
            io_at("make", &path)(error)
        })?;
        let id = facts.into();
        let mut made = Self { parent, dir, name, path, id, record, is_done: false };
        // From here on a failure drops `made`, which removes what there is.
        made.record.update(|entry| entry.id = Some(id))?;
        if let Some((uid, gid)) = user {
            let given = std::os::unix::fs::fchown(made.dir.as_fd(), Some(uid), Some(gid));
            given.map_err(io_at("give away", &made.path))?;
        }
        Ok(made)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it with all that it holds, but for what is mounted in it.
    ///
    /// # Errors
    /// [`FileRefusal::Mounted`], [`FileRefusal::Io`]. What stays is noted in the journal, so that the next start tries again.
    pub fn remove(mut self) -> Result<(), FileRefusal> {
        self.take_down()
    }

    fn take_down(&mut self) -> Result<(), FileRefusal> {
        self.is_done = true;
        let path = &self.path;
        let mounts = empty(&self.dir).map_err(io_at("remove", path))?;
        if !mounts.is_empty() {
            return Err(FileRefusal::Mounted { path: path.clone(), names: shell::list(&mounts) });
        }
        let named = self.parent.facts(&self.name);
        if !named.is_ok_and(|facts| FileId::from(facts) == self.id) {
            let moved = io::Error::other("somebody has moved it; it is empty by now");
            return Err(io_at("remove", path)(moved));
        }
        self.parent.remove_dir(&self.name).map_err(io_at("remove", path))?;
        self.record.remove()
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        if !self.is_done {
            // Nobody is there to be told; what stays is in the journal.
            self.take_down().ok();
        }
    }
}

/// Ends what the applications of a dead owner have started: by their mark, which says who that was.
pub(crate) fn end_those_of(root: &SysRoot, owner: &Owner) {
    for mark in child::marks(root).iter().filter(|mark| is_of(mark, owner)) {
        // Whether something was ended says nothing about the rest of the work.
        let _ = child::end_left_behind(root, 0, mark);
    }
}

fn is_of(mark: &str, owner: &Owner) -> bool {
    let words: Vec<&str> = mark.split(' ').collect();
    let [_, pid, start, pid_namespace, _] = words.as_slice() else { return false };
    pid.parse() == Ok(owner.pid)
        && start.parse() == Ok(owner.start_time_ticks)
        && *pid_namespace == owner.pid_namespace
}

/// Removes one whose owner is dead.
pub(crate) fn remove_left_behind(
    record: &Record,
    parent: &Dir,
    name: &str,
    facts: FileFacts,
) -> Result<Outcome, FileRefusal> {
    let entry = &record.entry;
    let foreign = Outcome::Foreign { names: vec![name.to_owned()] };
    if !facts.is_dir || entry.id.is_some_and(|id| id != FileId::from(facts)) {
        return Ok(foreign);
    }
    let dir = parent.open_dir(name).map_err(io_at("open", &entry.path))?;
    let own = dir.own_facts().map_err(io_at("look at", &entry.path))?;
    if FileId::from(own) != FileId::from(facts) {
        return Ok(foreign);
    }
    if entry.id.is_none() {
        // Killed between making it and noting its identity: nothing was put into it yet.
        if !dir.names().map_err(io_at("list", &entry.path))?.is_empty() {
            return Ok(foreign);
        }
        return match parent.remove_dir(name) {
            Ok(()) => Ok(Outcome::Removed),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(foreign),
            Err(error) => Err(io_at("remove", &entry.path)(error)),
        };
    }
    let mounts = empty(&dir).map_err(io_at("remove", &entry.path))?;
    if !mounts.is_empty() {
        return Ok(Outcome::Mounted { names: mounts });
    }
    parent.remove_dir(name).map_err(io_at("remove", &entry.path))?;
    Ok(Outcome::Removed)
}

/// Empties an open directory; gives the places in it that something is mounted on, which stay.
fn empty(dir: &Dir) -> io::Result<Vec<String>> {
    let mut mounts = Vec::new();
    empty_below(dir, "", 0, &mut mounts)?;
    Ok(mounts)
}

fn empty_below(dir: &Dir, path: &str, level: usize, mounts: &mut Vec<String>) -> io::Result<()> {
    if level > LEVELS_MAX {
        return Err(io::Error::other(format!("{path}: deeper than {LEVELS_MAX} directories")));
    }
    let mut names = Vec::new();
    let mut each = |entry: Found<'_>| {
        names.push(entry.name.to_vec());
        Ok(true)
    };
    EntryReader::default().for_each(dir, &mut each)?;
    for name in names {
        let inner = format!("{path}{}", String::from_utf8_lossy(&name));
        let removed = match dir.facts_of_name(&name) {
            Ok(facts) if facts.is_dir => match dir.open_beneath(&name) {
                Ok(below) => {
                    empty_below(&below, &format!("{inner}/"), level + 1, mounts)?;
                    dir.remove_dir_name(&name)
                }
                Err(error) => Err(error),
            },
            Ok(_) => dir.unlink_name(&name),
            Err(error) => Err(error),
        };
        match removed {
            Ok(()) => {}
            Err(error) if is_mount(&error) => mounts.push(inner),
            // Of a process that was just ended.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // The way to what is mounted.
            Err(error)
                if error.kind() == io::ErrorKind::DirectoryNotEmpty && !mounts.is_empty() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_mount(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::CrossesDevices | io::ErrorKind::ResourceBusy)
}

#[cfg(test)]
#[path = "private_tests.rs"]
mod tests;
