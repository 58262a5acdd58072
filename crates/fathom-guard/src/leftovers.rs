//! Puts in order what killed runs left behind: files and directories of the journal whose owner is dead.
//!
//! Only what is provably ours is removed: marked, or listed by inode and time of birth. What belongs to a living
//! process, to another machine, or was kept stays. Doing it twice does no more than doing it once.

use crate::file_at::{self, Found};
use crate::filesystem::{self, FilesystemId, Mounted};
use crate::journal::{self, Entry, Kind, Record};
use crate::mark::{self, FileId, Manifest};
use crate::ownership::{Evidence, Removal, remove_if_only_ours, remove_if_same, remove_own_dir};
use crate::place::{self, FileRefusal, io_at};
use crate::private;
use crate::tree;
use fathom_base::order::Order;
use fathom_base::shell;
use fathom_model::change::FileAt;
use fathom_sys::cgroup_io;
use fathom_sys::dirfd::{self, Dir, FileFacts};
use fathom_sys::process::Life;
use fathom_sys::sysroot::SysRoot;
use fathom_sys::threads;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// What became of one entry of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Removed, and its entry with it.
    Removed,
    /// It was gone already; the entry was removed.
    Vanished,
    /// Kept on purpose.
    Kept,
    /// Its owner runs.
    OwnerAlive {
        /// The owner's process number.
        pid: u32,
    },
    /// Its owner belongs to another machine or container: nothing can be said.
    OwnerElsewhere {
        /// It was made on this machine, since it was booted.
        is_of_this_boot: bool,
    },
    /// Its file system is not mounted where it was; the entry stays.
    NotMounted {
        /// Where it was mounted.
        mount_point: PathBuf,
        /// Another file system is mounted there.
        is_another: bool,
        /// Where something is mounted over it, below there.
        over: Option<PathBuf>,
        /// It is kept on purpose, so that nothing else looks for it.
        is_kept: bool,
        /// The entry.
        entry: PathBuf,
    },
    /// Its file system is not mounted where it was, and somebody does not need it any more: the entry is removed.
    Forgotten,
    /// It is found in another place by now; the entry stays.
    Moved {
        /// Where.
        to: PathBuf,
        /// Where its filesystem was, by which it is removed.
        mount_point: PathBuf,
    },
    /// Something else lies there by now, or among it: that was not touched, what was ours is gone.
    Foreign {
        /// What stays.
        names: Vec<String>,
    },
    /// Somebody put data into it: it stays, and is no longer marked as ours.
    ForeignData,
    /// Something is mounted in it, which stays with the directories above it; the rest is gone. The entry stays.
    Mounted {
        /// Where.
        names: Vec<String>,
    },
    /// A tree of files that was not finished: it can be gone on with, so it stays, and its entry.
    Unfinished,
    /// The entry cannot be read: nobody knows what it tells of.
    Unread {
        /// Why, and the cure.
        reason: String,
    },
    /// It could not be removed; the entry stays and the next start tries again.
    Failed {
        /// Why.
        reason: String,
        /// The command that removes it by hand.
        by_hand: String,
    },
}

/// What was done about one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The run; empty when the entry could not be read.
    pub run_id: String,
    /// The file or directory, or the unreadable entry itself.
    pub path: PathBuf,
    /// What became of it.
    pub outcome: Outcome,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.outcome {
            Outcome::Removed => write!(f, "{path}: removed, left behind by run {}", self.run_id),
            Outcome::Vanished => write!(f, "{path}: already gone"),
            Outcome::Kept => write!(f, "{path}: kept on purpose by run {}", self.run_id),
            Outcome::OwnerAlive { pid } => write!(f, "{path}: in use by process {pid}"),
            Outcome::OwnerElsewhere { is_of_this_boot: true } => write!(
                f,
                "{path}: stays, it belongs to a fathom in another container; when that is gone: fathom restore --force"
            ),
            Outcome::OwnerElsewhere { is_of_this_boot: false } => {
                write!(f, "{path}: belongs to a fathom in another container or on another machine")
            }
            Outcome::NotMounted { .. } | Outcome::Forgotten | Outcome::Moved { .. } => {
                self.fmt_away(f)
            }
            Outcome::Unread { reason } => write!(
                f,
                "{path}: this entry of the journal cannot be read, so that nobody knows of which test files it tells: {reason}"
            ),
            Outcome::Foreign { names }
                if names
                    .iter()
                    .any(|name| self.path.file_name().is_some_and(|n| n == &name[..])) =>
            {
                write!(f, "{path}: something that fathom did not make lies there by now, and stays")
            }
            Outcome::Foreign { names } => {
                let names = shell::list(names);
                write!(
                    f,
                    "{path}: what fathom did not write, or cannot prove to have written, stays ({names}), the rest \
                     goes; if nobody needs it: rm -r {}",
                    shell::path(&self.path)
                )
            }
            Outcome::ForeignData => {
                write!(
                    f,
                    "{path}: stays, it holds data that fathom did not write or cannot prove to have written; if nobody \
                     needs it: rm {}",
                    shell::path(&self.path)
                )
            }
            Outcome::Mounted { names } => write!(
                f,
                "{path}: something is mounted in it ({}), that stays; unmount it, then: fathom clean {}",
                shell::list(names),
                shell::path(&self.path)
            ),
            Outcome::Unfinished => write!(
                f,
                "{path}: a tree of files that was broken off; fathom tree build {0} with the same settings goes on with it, \
                 fathom clean {0} removes it",
                shell::path(&self.path)
            ),
            Outcome::Failed { reason, by_hand } => write!(
                f,
                "{path}: cannot be put in order: {reason}; when that is mended: fathom restore; or, if nobody needs it: \
                 {by_hand}"
            ),
        }
    }
}

impl Report {
    /// About what is not where it was made.
    fn fmt_away(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.outcome {
            Outcome::NotMounted { over: Some(over), .. } => write!(
                f,
                "{path}: something is mounted over it, at {}; it stays as it is: unmount that, then do this again",
                over.display()
            ),
            Outcome::NotMounted { mount_point, is_another, is_kept, .. } => {
                let point = mount_point.display();
                let what =
                    if *is_another { "has another file system by now" } else { "is not mounted" };
                let then = if *is_kept {
                    "it stays as it is"
                } else {
                    "it is looked for again at the next start"
                };
                write!(
                    f,
                    "{path}: {point} {what}; {then} (if it never comes back: fathom clean {} --forget)",
                    shell::path(&self.path)
                )
            }
            Outcome::Forgotten => {
                write!(f, "{path}: forgotten, where its file system is nothing was touched")
            }
            Outcome::Moved { to, mount_point } => write!(
                f,
                "{path}: not forgotten, it is {} by now; fathom clean {} removes it",
                to.display(),
                shell::path(mount_point)
            ),
            _ => Ok(()),
        }
    }
}

impl Outcome {
    /// True when nobody needs to hear of it: a living owner's, a kept thing, or one that was gone.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        matches!(self, Self::Vanished | Self::Kept | Self::OwnerAlive { .. })
    }
}

/// Goes through the journal in a state directory. With `force` also what was left in a container in which no process is any more.
///
/// # Errors
/// [`FileRefusal::Io`] when the journal exists but cannot be listed.
pub fn clean(root: &SysRoot, state_dir: &Path, force: bool) -> Result<Vec<Report>, FileRefusal> {
    let mut contents = journal::read_all(root, state_dir)?;
    let records = std::mem::take(&mut contents.records);
    let mut reports: Vec<Report> =
        records.iter().map(|record| clean_one(root, record, force, Hands::Removing)).collect();
    reports.extend(not_understood(contents));
    Ok(reports)
}

/// Entries that tell nothing: it may be of what is asked for.
fn not_understood(contents: journal::Contents) -> impl Iterator<Item = Report> {
    let report = |path, outcome| Report { run_id: String::new(), path, outcome };
    let damaged = contents.damaged.into_iter().map(move |(path, reason)| {
        let by_hand = format!("rm {}", shell::path(&path));
        report(path, Outcome::Failed { reason, by_hand })
    });
    let unread = contents.unread.into_iter().map(move |(path, error)| {
        let cure = match error.kind() {
            io::ErrorKind::PermissionDenied => {
                "; do this as its owner or as root, or name another store (--db=FILE)".to_owned()
            }
            io::ErrorKind::InvalidData => {
                format!("; if nobody needs it: rm -r {}", shell::path(&path))
            }
            _ => threads::descriptors_cure(&error).unwrap_or_default().to_owned(),
        };
        report(path, Outcome::Unread { reason: format!("{error}{cure}") })
    });
    damaged.chain(unread)
}

/// Removes what lies below a directory, the directory itself among it, and was kept, or left behind by a dead owner; trees
/// of files are left to those who know them. `before` hears of each path before anything of it goes; what it fails for stays.
///
/// # Errors
/// [`FileRefusal::Io`] when the journal exists but cannot be listed.
pub fn clean_below(
    root: &SysRoot,
    state_dir: &Path,
    dir: &Path,
    before: &mut dyn FnMut(&Path) -> io::Result<()>,
) -> Result<Vec<Report>, FileRefusal> {
    let mut contents = journal::read_all(root, state_dir)?;
    let records = std::mem::take(&mut contents.records);
    let mut reports = Vec::new();
    for mut record in records {
        let Some(now) = path_below(root, &record, dir) else { continue };
        if record.entry.owner.life(root) == Life::Dead {
            let Some(now) = now else {
                reports.push(away(root, &record));
                continue;
            };
            // What is known of it is known by the path that it had.
            let Entry { run_id, path, .. } = record.entry.clone();
            if let Err(error) = before(&path) {
                let (reason, by_hand) = (error.to_string(), by_hand(&record.entry, &now));
                let outcome = Outcome::Failed { reason, by_hand };
                reports.push(Report { run_id, path: now, outcome });
                continue;
            }
            if record.entry.kept {
                record.update(|entry| entry.kept = false)?;
            }
        }
        reports.push(clean_one(root, &record, false, Hands::Removing));
    }
    reports.extend(not_understood(contents));
    Ok(reports)
}

/// It may come back, as what was kept.
fn away(root: &SysRoot, record: &Record) -> Report {
    let Entry { run_id, path, .. } = record.entry.clone();
    Report { run_id, path, outcome: not_mounted(root, record) }
}

/// What [`clean_below`] would do.
#[derive(Debug, Default)]
pub struct Below {
    /// What would go.
    pub noted: Vec<PathBuf>,
    /// What would stay, all of it or a part, and why.
    pub stays: Vec<Report>,
    /// Of what nobody can tell.
    pub unknown: Vec<Report>,
}

/// Says what [`clean_below`] would do, by the same steps, and touches nothing.
///
/// # Errors
/// [`FileRefusal::Io`] when the journal exists but cannot be listed.
pub fn below(root: &SysRoot, state_dir: &Path, dir: &Path) -> Result<Below, FileRefusal> {
    let mut contents = journal::read_all(root, state_dir)?;
    let mut below = Below::default();
    for mut record in std::mem::take(&mut contents.records) {
        let Some(now) = path_below(root, &record, dir) else { continue };
        let is_away = now.is_none() && record.entry.owner.life(root) == Life::Dead;
        // Who asks for it to be removed does not keep it any more.
        record.entry.kept &= is_away;
        let report = if is_away {
            away(root, &record)
        } else {
            clean_one(root, &record, false, Hands::Looking)
        };
        match report.outcome {
            Outcome::Removed => below.noted.push(report.path),
            Outcome::Vanished => {}
            _ => below.stays.push(report),
        }
    }
    below.unknown = not_understood(contents).collect();
    Ok(below)
}

/// Whether what is ours is removed, or only looked at: what would become of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hands {
    Removing,
    Looking,
}

/// Where test files are that were made below a directory, or are there by now; none inside where that is nowhere, none for all others.
fn path_below(root: &SysRoot, record: &Record, dir: &Path) -> Option<Option<PathBuf>> {
    let entry = &record.entry;
    if !matches!(entry.kind, Kind::File | Kind::Directory | Kind::Private) {
        return None;
    }
    let now = path_now(root, record);
    let is_meant = entry.path.starts_with(dir) || now.as_ref().is_some_and(|p| p.starts_with(dir));
    is_meant.then_some(now)
}

/// Where it is: as it is noted, or where its filesystem is mounted by now.
fn path_now(root: &SysRoot, record: &Record) -> Option<PathBuf> {
    match mounted(root, &record.entry) {
        Mounted::Same => Some(record.entry.path.clone()),
        _ => found_elsewhere(root, record).map(|found| found.entry.path),
    }
}

/// Takes out of the journal what was made at a path, or below it, on filesystems that are not mounted there any more. Where none
/// is in the place of one, which may come back, that path must lie in it. No file is touched.
///
/// # Errors
/// [`FileRefusal::Io`] when the journal exists but cannot be listed, or changed.
pub fn forget_away(
    root: &SysRoot,
    state_dir: &Path,
    path: &Path,
) -> Result<Vec<Report>, FileRefusal> {
    let mut contents = journal::read_all(root, state_dir)?;
    let is_meant = |record: &Record| {
        let Entry { kind, path: made, .. } = &record.entry;
        !matches!(kind, Kind::ControlGroup { .. }) && made.starts_with(path)
    };
    let mut reports = Vec::new();
    for record in std::mem::take(&mut contents.records).into_iter().filter(is_meant) {
        let entry = &record.entry;
        let mounted = mounted(root, entry);
        if mounted == Mounted::Same {
            continue;
        }
        let may_come_back = mounted == Mounted::Nothing
            || entry
                .filesystem
                .as_ref()
                .is_some_and(|id| id.may_be_mounted(root, &entry.mount_point));
        let is_named = !may_come_back || path.starts_with(&entry.mount_point);
        let outcome = match entry.owner.life(root) {
            Life::Alive => Outcome::OwnerAlive { pid: entry.owner.pid },
            Life::Unknown => {
                Outcome::OwnerElsewhere { is_of_this_boot: entry.owner.is_of_this_boot(root) }
            }
            Life::Dead => match found_elsewhere(root, &record) {
                Some(found) => {
                    Outcome::Moved { to: found.entry.path, mount_point: entry.mount_point.clone() }
                }
                None if is_named => {
                    record.remove()?;
                    Outcome::Forgotten
                }
                None => not_mounted(root, &record),
            },
        };
        reports.push(Report { run_id: entry.run_id.clone(), path: entry.path.clone(), outcome });
    }
    reports.extend(not_understood(contents));
    Ok(reports)
}

fn clean_one(root: &SysRoot, record: &Record, force: bool, hands: Hands) -> Report {
    let entry = &record.entry;
    let life = match entry.owner.life(root) {
        Life::Unknown if force && entry.owner.has_gone_elsewhere(root) => Life::Dead,
        life => life,
    };
    let mut path = entry.path.clone();
    let outcome = match life {
        Life::Alive => Outcome::OwnerAlive { pid: entry.owner.pid },
        Life::Unknown => {
            Outcome::OwnerElsewhere { is_of_this_boot: entry.owner.is_of_this_boot(root) }
        }
        Life::Dead => {
            if !entry.kept
                && let Some(now) = path_now(root, record)
            {
                path = now;
            }
            remove(root, record, hands).unwrap_or_else(|error| Outcome::Failed {
                reason: error.to_string(),
                by_hand: by_hand(entry, &path),
            })
        }
    };
    Report { run_id: entry.run_id.clone(), path, outcome }
}

/// What is mounted where its filesystem was.
fn mounted(root: &SysRoot, entry: &Entry) -> Mounted {
    filesystem::mounted(root, &entry.path, &entry.mount_point, entry.filesystem.as_ref())
}

/// What is to be said where its filesystem is away.
fn not_mounted(root: &SysRoot, Record { file, entry }: &Record) -> Outcome {
    let point = place::mount_point(root, &entry.path);
    let is_over = point != entry.mount_point && point.starts_with(&entry.mount_point);
    let above = point.parent().filter(|_| is_over);
    // What it lies on is there above that.
    let is_there = |above: &Path| {
        let noted = entry.filesystem.as_ref();
        filesystem::mounted(root, above, &entry.mount_point, noted) == Mounted::Same
    };
    let over = above.is_some_and(is_there).then(|| point.clone());
    Outcome::NotMounted {
        over,
        mount_point: entry.mount_point.clone(),
        is_another: mounted(root, entry) == Mounted::Another,
        is_kept: entry.kept,
        entry: file.clone(),
    }
}

/// How somebody removes it without fathom, where it is.
fn by_hand(entry: &Entry, path: &Path) -> String {
    let tool = match entry.kind {
        Kind::File => "rm",
        Kind::ControlGroup { .. } => "rmdir",
        Kind::Directory | Kind::Private | Kind::Tree => "rm -r",
    };
    format!("{tool} {}", shell::path(path))
}

/// Test files and directories that dead runs left behind and nobody kept, but for trees, with which one can go on; and entries that tell
/// nothing.
///
/// # Errors
/// [`FileRefusal::Io`] when the journal exists but cannot be listed.
pub fn pending(
    root: &SysRoot,
    state_dir: &Path,
) -> Result<(Vec<PathBuf>, Vec<Report>), FileRefusal> {
    let mut contents = journal::read_all(root, state_dir)?;
    let records = std::mem::take(&mut contents.records);
    let is_left = |entry: &Entry| {
        !entry.kept && entry.kind != Kind::Tree && entry.owner.life(root) == Life::Dead
    };
    let entries = records.into_iter().map(|record| record.entry).filter(is_left);
    Ok((entries.map(|entry| entry.path).collect(), not_understood(contents).collect()))
}

fn remove(root: &SysRoot, record: &Record, hands: Hands) -> Result<Outcome, FileRefusal> {
    let entry = &record.entry;
    match mounted(root, entry) {
        Mounted::Same => {}
        // Nothing is to be done about it, wherever its file system is.
        Mounted::Nothing | Mounted::Another if entry.kept => return Ok(Outcome::Kept),
        Mounted::Nothing | Mounted::Another => {
            if let Some(found) = found_elsewhere(root, record) {
                return remove(root, &found, hands);
            }
            return Ok(not_mounted(root, record));
        }
    }
    if entry.kind == Kind::Private && hands == Hands::Removing {
        // They would go on writing into it.
        private::end_those_of(root, &entry.owner);
    }
    let path = group_elsewhere(root, entry).unwrap_or_else(|| entry.path.clone());
    let found = find(&path, hands)?;
    // Also when the group is gone: a kill may have come between that and disabling what was enabled for it.
    if let Kind::ControlGroup { is_enabled_for_it } = entry.kind
        && hands == Hands::Removing
    {
        cgroup_io::remove_left(&path, is_enabled_for_it).map_err(io_at("remove", &path))?;
    }
    let outcome = match found {
        None => Outcome::Vanished,
        Some(_) if entry.kept => return Ok(Outcome::Kept),
        Some(_) if entry.kind == Kind::Tree => return Ok(Outcome::Unfinished),
        Some((parent, name, facts)) => match entry.kind {
            Kind::File => remove_file(record, &parent, &name, facts)?,
            Kind::Directory => remove_directory(record, &parent, &name, facts)?,
            Kind::Private => {
                let outcome = private::remove_left_behind(record, &parent, &name, facts)?;
                if matches!(outcome, Outcome::Mounted { .. }) {
                    return Ok(outcome);
                }
                outcome
            }
            Kind::ControlGroup { .. } | Kind::Tree => Outcome::Removed,
        },
    };
    if hands == Hands::Removing {
        record.remove()?;
    }
    Ok(outcome)
}

/// A control group that a container sees by another path: it lies below that of the container, and its name has the run's.
fn group_elsewhere(root: &SysRoot, entry: &Entry) -> Option<PathBuf> {
    let is_group = matches!(entry.kind, Kind::ControlGroup { .. });
    if !is_group || entry.owner.shares_paths(root) || entry.path.exists() {
        return None;
    }
    cgroup_io::named_below(&entry.mount_point, entry.path.file_name()?)
}

/// The entry with the path that it has here, when its owner had mounts of its own or its filesystem is mounted elsewhere by now.
fn found_elsewhere(root: &SysRoot, record: &Record) -> Option<Record> {
    let Record { file, entry } = record;
    let is_same_boot = entry.owner.is_of_this_boot(root);
    let shares_paths = entry.owner.shares_paths(root);
    let at = entry.at.as_ref()?;
    let by_number = || match file_at::find(root, &entry.path, Some(at), is_same_boot) {
        Found::At(path) => Some(path),
        Found::Nothing | Found::Unknown => None,
    };
    // After a boot numbers of devices tell nothing, but that it is mounted where it was.
    let path = (is_same_boot || !shares_paths).then(by_number).flatten();
    let path = path.or_else(|| on_another_device(root, entry, at))?;
    let mount_point = place::mount_point(root, &path);
    let filesystem = FilesystemId::of(root, &path);
    let noted = entry.filesystem.as_ref().filter(|_| shares_paths);
    let is_not_it =
        |noted: &FilesystemId, found| noted.is_apart_from(found) || noted.is_copied_by(root, found);
    if noted.zip(filesystem.as_ref()).is_some_and(|(noted, found)| is_not_it(noted, found)) {
        return None;
    }
    // What it is shows there; nothing is looked for once more.
    let entry = Entry { mount_point, filesystem, path, at: None, ..entry.clone() };
    Some(Record { file: file.clone(), entry })
}

/// Where it is when its filesystem is on another device by now: a disk that was taken out and put in again.
fn on_another_device(root: &SysRoot, entry: &Entry, at: &FileAt) -> Option<PathBuf> {
    let filesystem = entry.filesystem.as_ref()?;
    let places = filesystem.places_of(root, &entry.mount_point, &entry.path);
    places.into_iter().find(|path| file_at::is_on_another_device(path, at))
}

/// The directory, the name in it, and what lies there; none when it is gone.
fn find(path: &Path, hands: Hands) -> Result<Option<(Dir, String, FileFacts)>, FileRefusal> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(|n| n.to_str()))
    else {
        return Ok(None);
    };
    let found = Dir::open(parent).and_then(|dir| {
        let dir = if hands == Hands::Looking { dir.looking() } else { dir };
        let facts = dir.facts(name)?;
        Ok((dir, name.to_owned(), facts))
    });
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(io_at("reach", path)(error)),
    }
}

/// The place, or the way to it, does not exist any more.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn remove_file(
    record: &Record,
    parent: &Dir,
    name: &str,
    facts: FileFacts,
) -> Result<Outcome, FileRefusal> {
    let entry = &record.entry;
    let foreign = Outcome::Foreign { names: vec![name.to_owned()] };
    if !facts.is_file {
        return Ok(foreign);
    }
    let open = || parent.open_file(name, false).map_err(io_at("open", &entry.path));
    let is_ours = match entry.id {
        Some(id) => id == FileId::from(facts),
        // Killed between making it and noting its identity: marked, or still empty.
        None if facts.size_bytes == 0 => true,
        None => {
            let owner = mark::get(&open()?).map_err(io_at("look at", &entry.path))?;
            owner.is_some_and(|mark| mark.run_id == entry.run_id)
        }
    };
    if !is_ours {
        return Ok(foreign);
    }
    let evidence = evidence(record, name);
    let removed = remove_if_only_ours(parent, name, &open()?, facts.into(), evidence);
    Ok(match removed.map_err(io_at("remove", &entry.path))? {
        Removal::Done => Outcome::Removed,
        Removal::NotThere => Outcome::Vanished,
        Removal::ForeignData => Outcome::ForeignData,
    })
}

fn remove_directory(
    record: &Record,
    parent: &Dir,
    name: &str,
    facts: FileFacts,
) -> Result<Outcome, FileRefusal> {
    let entry = &record.entry;
    let path = &entry.path;
    let is_another = entry.id.is_some_and(|id| id != FileId::from(facts));
    if !facts.is_dir || is_another {
        return Ok(Outcome::Foreign { names: vec![name.to_owned()] });
    }
    let dir = parent.open_dir(name).map_err(io_at("open", path))?;
    let manifest = Manifest::read(&dir).map_err(io_at("read", path.join(mark::MANIFEST)))?;
    let mut names = dir.names().map_err(io_at("list", path))?;
    // The manifest goes last: a kill in between leaves what is needed to go on.
    names.order_by_key(|name| (name == mark::MANIFEST, name == mark::OWNER));
    let mut foreign = Vec::new();
    for name in names {
        match remove_inside(&dir, &manifest, &name, record) {
            Ok(inside) => foreign.extend(inside),
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(io_at("remove", path.join(name))(error)),
        }
    }
    if !foreign.is_empty() {
        return Ok(Outcome::Foreign { names: foreign });
    }
    remove_own_dir(parent, &dir, name, path)?;
    Ok(Outcome::Removed)
}

/// What a dead owner left to tell its data from others'.
fn evidence(record: &Record, name: &str) -> Evidence {
    record.entry.seals.get(name).map_or(Evidence::Content, |seal| Evidence::Sealed(*seal))
}

/// Removes one file, or directory of test files, if it is ours; gives back what is not, or holds somebody's data.
fn remove_inside(
    dir: &Dir,
    manifest: &Manifest,
    name: &str,
    record: &Record,
) -> io::Result<Vec<String>> {
    if dirfd::is_lossy(name) {
        return Ok(vec![name.to_owned()]);
    }
    let facts = dir.facts(name)?;
    if facts.is_dir {
        return tree::remove_left_behind(dir, manifest, name, facts);
    }
    let foreign = || Ok(vec![name.to_owned()]);
    if !mark::is_ours(dir, manifest, name, &record.entry.run_id)? {
        return foreign();
    }
    if mark::is_reserved(name) {
        if !holds_notes(dir, name)? {
            return foreign();
        }
        remove_if_same(dir, name, facts.into())?;
        return Ok(Vec::new());
    }
    let file = dir.open_file(name, false)?;
    let evidence = match (evidence(record, name), manifest.seal_of(name, facts.into())) {
        (Evidence::Content, Some(seal)) => Evidence::Sealed(seal),
        (evidence, _) => evidence,
    };
    match remove_if_only_ours(dir, name, &file, facts.into(), evidence)? {
        Removal::ForeignData => foreign(),
        Removal::Done | Removal::NotThere => Ok(Vec::new()),
    }
}

/// True where the notes in a directory of ours are as fathom makes them, or as a kill or a crash leaves those: cut off, or empty.
fn holds_notes(dir: &Dir, name: &str) -> io::Result<bool> {
    let mut text = Vec::new();
    dir.open_file(name, false)?.take(mark::NOTE_BYTES_MAX).read_to_end(&mut text)?;
    let is_empty = text.iter().all(|&byte| byte == 0);
    let is_cut_off = |error: &String| error.starts_with("EOF");
    Ok(is_empty
        || match name {
            mark::MANIFEST => Manifest::is_whole(&text),
            _ => mark::parse::<Entry>(&text).as_ref().err().is_none_or(is_cut_off),
        })
}

#[cfg(test)]
#[path = "leftovers_tests.rs"]
mod tests;
